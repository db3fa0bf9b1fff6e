//! Everything that is done to a source file before its values are used.

use std::io;
use std::sync::Arc;

use zarrmount::netcdf::{ByteSource, Group, NetcdfFile, Variable};
use zarrmount::plan::{Encoding, plan_dataset};
use zarrmount::zarr::ZarrFormat;

/// Chunks of a variable that are read, and bytes of all: a small file can name very many.
const CHUNKS_MAX: usize = 200;
const BYTES_MAX: usize = 64 << 20;

struct Memory(Vec<u8>);

impl ByteSource for Memory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let wanted = start.checked_add(buf.len()).and_then(|end| self.0.get(start..end));
        buf.copy_from_slice(wanted.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// Opens, plans for both formats, and reads all chunks. Whether it could be opened.
pub(crate) fn read_all(bytes: Vec<u8>) -> bool {
    let Ok(file) = NetcdfFile::open(Arc::new(Memory(bytes))) else { return false };
    for format in [ZarrFormat::V3, ZarrFormat::V2] {
        for skip_unsupported in [false, true] {
            let encoding = Encoding { format, skip_unsupported, ..Encoding::default() };
            drop(plan_dataset(file.schema(), &encoding));
        }
    }
    let mut variables = Vec::new();
    collect(&file.schema().root, &mut variables);
    let (mut left, mut out) = (BYTES_MAX, Vec::new());
    for variable in variables {
        for location in file.chunks(&[variable.id]).take(CHUNKS_MAX) {
            let Ok(location) = location else { break };
            if file.read_chunk(&location, &mut out).is_ok()
                && let Some(size) = variable.data_type.size()
            {
                let elements: u64 = variable.chunk_shape.iter().product();
                assert_eq!(out.len() as u64, elements * size as u64, "a whole chunk");
            }
            left = left.saturating_sub(out.len());
            if left == 0 {
                return true;
            }
        }
    }
    true
}

fn collect<'a>(group: &'a Group, variables: &mut Vec<&'a Variable>) {
    variables.extend(&group.variables);
    for child in &group.groups {
        collect(child, variables);
    }
}
