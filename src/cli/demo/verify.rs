//! Compares the arrays of a Zarr dataset in a local folder with the NetCDF file they came from,
//! value by value, bit by bit. For the demonstration's own files, which have one group.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use crate::base::durable::{AtPath as _, FileError};
use crate::cli::error::CliError;
use crate::netcdf::{LocalFile, NetcdfError, NetcdfFile, Variable};
use crate::zarr::region::{self, Region};
use crate::zarr::{
    ArrayMetadata, ArrayReader, CodecError, DocumentError, Members, Node, NodePath, ReadError,
    parse_zarr_json,
};

/// Why two do not compare equal.
#[derive(Debug, thiserror::Error)]
pub(super) enum Difference {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the source cannot be read: {0}")]
    Source(#[from] NetcdfError),
    #[error("zarr.json: {0}")]
    Document(#[from] DocumentError),
    #[error("array `{array}`: {source}")]
    Codec { array: String, source: CodecError },
    #[error("array `{array}`: {source}")]
    Array { array: String, source: ReadError<io::Error> },
    #[error("there is no array for the variable `{0}`")]
    Missing(String),
    #[error("the shape of `{variable}` is {found:?} instead of {expected:?}")]
    Shape { variable: String, found: Vec<u64>, expected: Vec<u64> },
    #[error("values of `{0}` differ")]
    Values(String),
    #[error("the variable `{0}` is too large to be compared here")]
    TooLarge(String),
}

/// What was compared.
#[derive(Debug)]
pub(super) struct Equal {
    dataset: PathBuf,
    arrays: u64,
    elements: u64,
}

impl fmt::Display for Equal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.dataset.file_name().unwrap_or_default().to_string_lossy();
        write!(f, "{name}: {} arrays with {} values are equal", self.arrays, self.elements)
    }
}

/// Compares every variable of `source` with the array of its name.
pub(super) fn compare(source: &Path, dataset: &Path) -> Result<Equal, Difference> {
    let file = NetcdfFile::open(Arc::new(LocalFile(source.to_owned())))?;
    let document = dataset.join("zarr.json");
    let root = parse_zarr_json(&fs::read(&document).at(&document)?)?;
    let members = root.members.unwrap_or_default();
    let mut equal = Equal { dataset: dataset.to_owned(), arrays: 0, elements: 0 };
    for variable in &file.schema().root.variables {
        let (path, metadata) = array_of(&members, variable)?;
        let expected = values(&file, variable)?;
        if array_values(dataset, path, metadata)? != expected {
            return Err(Difference::Values(variable.name.clone()));
        }
        equal.arrays += 1;
        equal.elements += variable.shape.iter().product::<u64>();
    }
    Ok(equal)
}

fn array_of<'a>(
    members: &'a Members,
    variable: &Variable,
) -> Result<(&'a NodePath, &'a ArrayMetadata), Difference> {
    let found = members.iter().find(|(path, _)| path.as_str() == variable.name);
    let Some((path, Ok(Node::Array(metadata)))) = found else {
        return Err(Difference::Missing(variable.name.clone()));
    };
    if metadata.shape != variable.shape {
        return Err(Difference::Shape {
            variable: variable.name.clone(),
            found: metadata.shape.clone(),
            expected: variable.shape.clone(),
        });
    }
    Ok((path, metadata))
}

fn array_values(
    dataset: &Path,
    path: &NodePath,
    metadata: &ArrayMetadata,
) -> Result<Vec<u8>, Difference> {
    let array = path.as_str().to_owned();
    let reader = ArrayReader::new(path.clone(), metadata.clone())
        .map_err(|source| Difference::Codec { array: array.clone(), source })?;
    let get = |key: &str| match fs::read(dataset.join(key)) {
        Ok(bytes) => Ok(Some(Bytes::from(bytes))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    reader.whole(get).map_err(|source| Difference::Array { array, source })
}

/// The little-endian elements of a whole variable in C order.
fn values(file: &NetcdfFile, variable: &Variable) -> Result<Vec<u8>, Difference> {
    let too_large = || Difference::TooLarge(variable.name.clone());
    let sizes = |numbers: &[u64]| -> Result<Vec<usize>, Difference> {
        numbers.iter().map(|&n| usize::try_from(n).ok().ok_or_else(too_large)).collect()
    };
    let (shape, chunk_shape) = (sizes(&variable.shape)?, sizes(&variable.chunk_shape)?);
    let element_bytes = variable.data_type.size().unwrap_or(1);
    let zeros = vec![0; shape.len()];
    let mut values = region::filled(&variable.fill, shape.iter().product());
    let mut chunk = Vec::new();
    for location in file.chunks(&[variable.id]) {
        let location = location?;
        file.read_chunk(&location, &mut chunk)?;
        let origin = sizes(&location.origin)?;
        let extent: Vec<usize> = origin
            .iter()
            .zip(&shape)
            .zip(&chunk_shape)
            .map(|((start, length), chunk)| (*chunk).min(length.saturating_sub(*start)))
            .collect();
        let from = Region { shape: &chunk_shape, start: &zeros };
        let to = Region { shape: &shape, start: &origin };
        region::copy(&chunk, from, &mut values, to, &extent, element_bytes);
    }
    Ok(values)
}

impl From<Difference> for CliError {
    fn from(error: Difference) -> Self {
        Self::failed(error)
    }
}
