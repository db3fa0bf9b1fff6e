//! The pipeline as a whole, and each filter on data that its reference implementation wrote.

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
