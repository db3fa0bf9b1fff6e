//! The reader as its users see it, on files made by [`fixtures`](super::fixtures).

#![allow(clippy::cast_possible_truncation, reason = "samples are small")]

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::bytes::tests::Memory;
use super::fixtures::{
    SampleFile, ocean, sample_classic, sample_netcdf4, write_classic, write_netcdf4,
};
use super::*;

fn open(bytes: Vec<u8>) -> Result<NetcdfFile, NetcdfError> {
    NetcdfFile::open(Arc::new(Memory(bytes)))
}

/// The values of a variable in C order, put together from its chunks.
fn values(file: &NetcdfFile, variable: &Variable) -> Result<Vec<u8>, NetcdfError> {
    let size = variable.data_type.size().unwrap();
    let elements: u64 = variable.shape.iter().product();
    let mut all = variable.fill.repeat(elements as usize);
    let mut chunk = Vec::new();
    for location in file.chunks(&[variable.id]) {
        let location = location?;
        file.read_chunk(&location, &mut chunk)?;
        for (index, element) in chunk.chunks(size).enumerate() {
            let (mut rest, mut position, mut stride, mut inside) = (index as u64, 0, 1, true);
            for d in (0..variable.shape.len()).rev() {
                let at = location.origin[d] + rest % variable.chunk_shape[d];
                rest /= variable.chunk_shape[d];
                inside &= at < variable.shape[d];
                position += at * stride;
                stride *= variable.shape[d];
            }
            if inside {
                let start = position as usize * size;
                all[start..start + size].copy_from_slice(element);
            } else {
                assert_eq!(element, variable.fill, "outside of `{}`", variable.name);
            }
        }
    }
    Ok(all)
}

fn assert_reads_as(bytes: Vec<u8>, sample: &SampleFile, format: Format) {
    let file = open(bytes).unwrap();
    assert_eq!(file.schema().format, format);
    let root = &file.schema().root;
    assert_eq!(root.dimensions, sample.dimensions);
    assert_eq!(root.attributes, sample.attributes);
    for declared in &sample.variables {
        let Some(variable) = root.variables.iter().find(|v| v.name == declared.name) else {
            assert_eq!(declared.data_type, DataType::I64, "{} is missing", declared.name);
            continue;
        };
        assert_eq!(variable.attributes, declared.attributes, "{}", declared.name);
        assert_eq!(variable.dimensions, declared.dimensions, "{}", declared.name);
        assert_eq!(variable.data_type, declared.data_type, "{}", declared.name);
        assert_eq!(values(&file, variable).unwrap(), declared.values, "{}", declared.name);
    }
}

#[test]
fn classic_samples_read_back_as_written() {
    for version in [1, 2, 5] {
        assert_reads_as(sample_classic(version), &ocean(0, 10, 8, 12), Format::Classic(version));
    }
}

#[test]
fn a_netcdf4_sample_reads_back_as_written() {
    assert_reads_as(sample_netcdf4(), &ocean(0, 10, 8, 12), Format::Hdf5);
}

#[test]
fn a_netcdf4_file_whose_chunk_index_has_several_levels_reads_back_as_written() {
    let sample = ocean(7, 150, 5, 7);
    assert_reads_as(write_netcdf4(&sample), &sample, Format::Hdf5);
}

#[test]
fn a_single_record_variable_is_read_without_padding() {
    let mut sample = ocean(0, 5, 3, 3);
    sample.variables.retain(|variable| variable.name == "sst");
    assert_reads_as(write_classic(&sample, 1), &sample, Format::Classic(1));
}

#[test]
fn files_without_records_have_no_chunks_along_time() {
    let sample = ocean(0, 0, 8, 12);
    for bytes in [write_classic(&sample, 2), write_netcdf4(&sample)] {
        let file = open(bytes).unwrap();
        let sst = file.schema().root.variables.iter().find(|v| v.name == "sst").unwrap();
        assert_eq!(sst.shape, [0, 8, 12]);
        assert_eq!(file.chunks(&[sst.id]).count(), 0);
    }
}

#[test]
fn a_file_behind_a_user_block_is_read() {
    let mut bytes = vec![0; 512];
    bytes.extend(sample_netcdf4());
    assert_reads_as(bytes, &ocean(0, 10, 8, 12), Format::Hdf5);
}

#[test]
fn a_file_that_is_cut_short_anywhere_is_refused() {
    for whole in [sample_classic(1), sample_classic(5), sample_netcdf4()] {
        for length in (8..whole.len()).step_by(97).chain([whole.len() - 1]) {
            let cut = open(whole[..length].to_vec());
            assert!(matches!(cut, Err(NetcdfError::Truncated { .. })), "{length} bytes");
        }
    }
}

/// Fields large enough not to be gathered, and many chunks.
fn large_samples() -> [Vec<u8>; 2] {
    [write_classic(&ocean(0, 12, 192, 192), 2), write_netcdf4(&ocean(0, 600, 8, 12))]
}

#[test]
fn chunks_of_several_variables_come_in_file_order() {
    for bytes in large_samples() {
        let length = bytes.len() as u64;
        let file = open(bytes).unwrap();
        let ids: Vec<_> = file.schema().root.variables.iter().map(|v| v.id).collect();
        let offsets: Vec<u64> = file.chunks(&ids).map(|chunk| chunk.unwrap().offset).collect();
        assert!(offsets.len() > 30);
        // Index leaves lie behind the chunks they list, so a step back by a few chunks is normal.
        let back = |pair: &[u64]| pair[0].saturating_sub(pair[1]);
        let furthest = offsets.windows(2).map(back).max().unwrap();
        assert!(furthest < length / 4, "{furthest} of {length} bytes back");
    }
}

/// Refuses to tell its length, and remembers how far it was read.
struct Growing {
    bytes: Vec<u8>,
    furthest: AtomicU64,
}

impl ByteSource for Growing {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn len_if_known(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.furthest.fetch_max(offset + buf.len() as u64, Ordering::Relaxed);
        let start = offset as usize;
        let wanted = self.bytes.get(start..start + buf.len());
        buf.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn chunks_of_a_growing_file_need_no_bytes_far_behind_them() {
    for bytes in large_samples() {
        let length = bytes.len() as u64;
        let source = Arc::new(Growing { bytes, furthest: AtomicU64::new(0) });
        let file = NetcdfFile::open(Arc::<Growing>::clone(&source)).unwrap();
        assert!(source.furthest.load(Ordering::Relaxed) < length / 4, "open reads the front only");
        let fields = ["sst", "mixed_layer_depth"];
        let variables = file.schema().root.variables.iter();
        let ids: Vec<_> =
            variables.filter(|v| fields.contains(&v.name.as_str())).map(|v| v.id).collect();
        let mut out = Vec::new();
        for location in file.chunks(&ids) {
            let location = location.unwrap();
            file.read_chunk(&location, &mut out).unwrap();
            let ahead = source.furthest.load(Ordering::Relaxed).saturating_sub(location.offset);
            assert!(ahead < length / 4, "read {ahead} of {length} bytes ahead");
        }
    }
}

#[test]
fn a_growing_file_that_ends_early_is_refused_at_the_end_of_its_chunks() {
    let mut bytes = sample_netcdf4();
    bytes.truncate(bytes.len() - 1);
    let file = NetcdfFile::open(Arc::new(Growing { bytes, furthest: AtomicU64::new(0) })).unwrap();
    assert!(matches!(file.check_complete(), Err(NetcdfError::Truncated { .. })));
    let last = file.chunks(&[VariableId(1)]).last().unwrap();
    assert!(matches!(last, Err(NetcdfError::Truncated { .. })));
}

#[test]
fn gathered_records_say_which_bytes_are_theirs() {
    let file = open(sample_classic(1)).unwrap();
    let time = file.schema().root.variables.iter().find(|v| v.name == "time").unwrap();
    let chunks: Vec<_> = file.chunks(&[time.id]).map(Result::unwrap).collect();
    assert_eq!(chunks.len(), 1, "ten values are one chunk");
    let ranges = file.stored_ranges(&chunks[0]).unwrap();
    assert_eq!(ranges.len(), 10);
    assert!(ranges.iter().all(|range| range.end - range.start == 8));
    let mut foreign = chunks[0].clone();
    foreign.offset += 4;
    assert!(matches!(
        file.read_chunk(&foreign, &mut Vec::new()),
        Err(NetcdfError::UnknownChunk(_))
    ));
}

/// A small generator of reproducible numbers (`SplitMix64`).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// Reads whatever can be read.
fn exhaust(bytes: Vec<u8>) {
    let Ok(file) = open(bytes) else { return };
    let mut out = Vec::new();
    let mut variables = Vec::new();
    let mut groups = vec![&file.schema().root];
    while let Some(group) = groups.pop() {
        variables.extend(&group.variables);
        groups.extend(&group.groups);
    }
    for variable in variables {
        for location in file.chunks(&[variable.id]).take(1000) {
            let Ok(location) = location else { break };
            if file.read_chunk(&location, &mut out).is_ok() {
                let elements: u64 = variable.chunk_shape.iter().product();
                assert_eq!(out.len() as u64, elements * variable.data_type.size().unwrap() as u64);
            }
        }
    }
}

#[test]
fn damaged_files_are_refused_or_read_but_never_panic() {
    let samples = [sample_classic(1), sample_classic(5), sample_netcdf4()];
    let mut numbers = Numbers(2024);
    for sample in &samples {
        for round in 0..1000 {
            let mut damaged = sample.clone();
            // The front holds the metadata, where damage has most effects.
            let reach = if round % 2 == 0 { damaged.len() } else { damaged.len().min(4000) };
            for _ in 0..=numbers.below(3) {
                let at = numbers.below(reach);
                damaged[at] = match numbers.below(3) {
                    0 => damaged[at] ^ (1 << numbers.below(8)),
                    1 => 0xff,
                    _ => numbers.below(256) as u8,
                };
            }
            if round % 10 == 0 {
                damaged.truncate(numbers.below(sample.len()));
            }
            if sample.starts_with(b"\x89HDF") && round % 3 != 0 {
                repair_checksums(&mut damaged);
            }
            exhaust(damaged);
        }
    }
}

/// Makes the checksums of object headers and superblock right again, so that damage gets past them.
fn repair_checksums(file: &mut [u8]) {
    use hdf5_reader::checksum::jenkins_lookup3;
    let starts: Vec<usize> =
        (0..file.len().saturating_sub(10)).filter(|at| file[*at..].starts_with(b"OHDR")).collect();
    for start in starts {
        let size = u32::from_le_bytes(file[start + 6..start + 10].try_into().unwrap()) as usize;
        let end = start.saturating_add(10).saturating_add(size);
        if end.saturating_add(4) <= file.len() {
            let sum = jenkins_lookup3(&file[start..end]).to_le_bytes();
            file[end..end + 4].copy_from_slice(&sum);
        }
    }
    if file.len() > 48 {
        let sum = jenkins_lookup3(&file[..44]).to_le_bytes();
        file[44..48].copy_from_slice(&sum);
    }
}
