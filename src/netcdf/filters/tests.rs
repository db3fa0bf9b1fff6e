//! The pipeline as a whole, and each filter on data that its reference implementation wrote.

use super::references::{REFERENCES, Reference, numbers};
use super::*;

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let length = compressor.zlib_compress(data, &mut out).unwrap();
    out.truncate(length);
    out
}

fn decode(
    filters: &[Filter],
    mask: u32,
    stored: &[u8],
    raw: usize,
) -> Result<Vec<u8>, FilterError> {
    let mut scratch = Scratch { stored: stored.to_vec(), ..Scratch::default() };
    let mut out = Vec::new();
    Pipeline(filters.to_vec()).decode(mask, raw, &mut scratch, &mut out)?;
    Ok(out)
}

#[test]
fn filters_are_undone_from_the_last_to_the_first_and_masked_ones_are_skipped() {
    let pipeline = [Filter::Shuffle { element_size: 2 }, Filter::Deflate];
    let stored = zlib(&[1, 3, 5, 2, 4, 6]);
    assert_eq!(decode(&pipeline, 0, &stored, 6).unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(decode(&pipeline, 1, &stored, 6).unwrap(), [1, 3, 5, 2, 4, 6]);
    assert_eq!(decode(&pipeline, 2, &[1, 3, 5, 2, 4, 6], 6).unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(decode(&pipeline, 3, &[9; 6], 6).unwrap(), [9; 6]);
    assert!(Pipeline(pipeline.to_vec()).is_identity(3));
}

#[test]
fn a_shuffle_without_parameters_is_taken_as_long_as_no_chunk_uses_it() {
    let pipeline = [Filter::new(2, &[]).unwrap(), Filter::Deflate];
    let stored = zlib(&[1, 2, 3]);
    assert_eq!(decode(&pipeline, 1, &stored, 3).unwrap(), [1, 2, 3]);
    assert!(matches!(decode(&pipeline, 0, &stored, 3), Err(FilterError::Damaged(_))));
}

#[test]
fn a_chunk_that_decodes_to_another_length_is_damaged() {
    let stored = zlib(&[0; 7]);
    for raw in [6, 8] {
        assert!(matches!(
            decode(&[Filter::Deflate], 0, &stored, raw),
            Err(FilterError::Damaged(_))
        ));
    }
    let twice = zlib(&zlib(&[5; 1000]));
    assert_eq!(decode(&[Filter::Deflate; 2], 0, &twice, 1000).unwrap(), [5; 1000]);
}

#[test]
fn filters_that_are_not_decoded_are_named() {
    let refused = |id, client_data: &[u32]| Filter::new(id, client_data).unwrap_err();
    assert_eq!(refused(32026, &[]), "filter 32026 (blosc2)");
    assert_eq!(refused(32013, &[]), "filter 32013 (zfp)");
    assert_eq!(refused(400, &[]), "filter 400 (not a usual one)");
    assert_eq!(refused(4, &[]), "filter 4 (szip) without its parameters");
    assert_eq!(refused(32008, &[0, 4, 4, 0, 9]), "filter 32008 (bitshuffle) with compression 9");
}

fn decode_reference(
    reference: &Reference,
    stored: &[u8],
    raw: usize,
) -> Result<Vec<u8>, FilterError> {
    let filter = Filter::new(reference.id, reference.client_data).unwrap();
    decode(&[filter], 0, stored, raw)
}

#[test]
fn every_filter_decodes_what_its_reference_implementation_wrote() {
    for reference in REFERENCES {
        let expected = reference.decoded();
        let decoded = decode_reference(reference, &reference.stored(), expected.len());
        assert_eq!(decoded, Ok(expected), "{}", reference.name);
    }
}

#[test]
fn a_chunk_of_another_length_than_the_variable_has_is_damaged_with_every_filter() {
    for reference in REFERENCES {
        let length = reference.decoded().len();
        for raw in [0, length - 4, length + 4] {
            let decoded = decode_reference(reference, &reference.stored(), raw);
            assert!(matches!(decoded, Err(FilterError::Damaged(_))), "{} {raw}", reference.name);
        }
    }
}

#[test]
fn a_chunk_that_is_cut_short_never_decodes_to_something_else() {
    for reference in REFERENCES {
        let (stored, expected) = (reference.stored(), reference.decoded());
        for length in 0..stored.len() {
            match decode_reference(reference, &stored[..length], expected.len()) {
                // Some writers leave a byte behind the data.
                Ok(decoded) if length + 1 == stored.len() => assert_eq!(decoded, expected),
                Ok(_) => panic!("{} decodes from {length} bytes", reference.name),
                Err(_) => {}
            }
        }
    }
}

#[test]
fn flipped_bits_are_an_error_or_other_values_of_the_same_length() {
    for reference in REFERENCES {
        let (stored, length) = (reference.stored(), reference.decoded().len());
        for bit in 0..stored.len() * 8 {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if let Ok(decoded) = decode_reference(reference, &flipped, length) {
                assert_eq!(decoded.len(), length, "{} bit {bit}", reference.name);
            }
        }
    }
}

#[test]
fn lengths_that_the_stored_bytes_cannot_reach_are_refused_before_memory_is_asked_for() {
    const CHUNK_BYTES: u32 = u32::MAX - 7;
    let header = [&u64::from(CHUNK_BYTES).to_be_bytes()[..], &4096_u32.to_be_bytes()].concat();
    let length = CHUNK_BYTES.to_le_bytes();
    let blosc = [&[2, 1, 0x30, 4][..], &length, &length, &[40, 0, 0, 0], &[20, 0, 0, 0]].concat();
    let szip = [&length[..], &[0; 30]].concat();
    let chunks: [(u16, &[u32], &[u8]); 6] = [
        (32004, &[], &header),
        (32008, &[0, 4, 4, 0, 2], &header),
        (32008, &[0, 4, 4, 0, 3], &header),
        (32001, &[], &blosc),
        (32015, &[], &[0x28, 0xb5, 0x2f, 0xfd]),
        (4, &[169, 8, 32, 17], &szip),
    ];
    for (id, client_data, start) in chunks {
        let stored = [start, &[0; 40]].concat();
        let filter = Filter::new(id, client_data).unwrap();
        match decode(&[filter], 0, &stored, CHUNK_BYTES as usize) {
            Err(FilterError::Damaged(reason)) => {
                assert!(reason.contains("cannot hold"), "{id}: {reason}");
            }
            other => panic!("{id}: {other:?}"),
        }
    }
}

#[test]
fn a_filter_may_follow_one_whose_length_depends_on_the_data() {
    let find = |name: &str| REFERENCES.iter().find(|reference| reference.name == name).unwrap();
    let inner = find("scaleoffset, long decimals");
    let scaleoffset = Filter::new(inner.id, inner.client_data).unwrap();
    let expected = inner.decoded();
    let deflated = zlib(&inner.stored());
    let zstd = zstd::bulk::compress(&inner.stored(), 1).unwrap();
    for (filter, stored) in [(Filter::Deflate, deflated), (Filter::Zstd, zstd)] {
        let decoded = decode(&[scaleoffset, filter], 0, &stored, expected.len());
        assert_eq!(decoded.as_ref(), Ok(&expected));
    }
    let lz4 = Filter::new(find("lz4").id, &[]).unwrap();
    let decoded = decode(&[lz4, Filter::Deflate], 0, &zlib(&find("lz4").stored()), 1200);
    assert_eq!(decoded, Ok(numbers()));
}

#[test]
fn decimals_whose_scale_no_number_holds_exactly_are_refused() {
    let with_digits = |digits: i32, size: u32| {
        let mut client_data = [0; 20];
        client_data[1] = digits.cast_unsigned();
        client_data[2..8].copy_from_slice(&[10, 1, size, 0, 0, 0]);
        Filter::new(6, &client_data)
    };
    assert!(with_digits(10, 4).is_ok() && with_digits(22, 8).is_ok());
    for (digits, size) in [(-1, 4), (11, 4), (-1, 8), (23, 8)] {
        let refused = format!("filter 6 (scaleoffset) with {digits} decimal digits");
        assert_eq!(with_digits(digits, size), Err(refused));
    }
}
