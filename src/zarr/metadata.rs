//! What the metadata documents of a node say, the same for both formats.
//!
//! The vocabulary is that of v3; [`super::v2`] translates. Fields that this program does not know
//! are kept, so that a document can be written again without losing anything.

use serde_json::{Map, Value};

use super::chunk_key::ChunkKeyEncoding;
use super::data_type::DataType;
use super::fill_value::nan_bytes;
use super::format::ZarrFormat;

/// User attributes, in their order.
pub type Attributes = Map<String, Value>;

/// A node of a hierarchy.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A group.
    Group(GroupMetadata),
    /// An array.
    Array(ArrayMetadata),
}

/// A group's metadata.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupMetadata {
    /// User attributes.
    pub attributes: Attributes,
    /// Fields of a v3 document that need not be understood, except consolidated metadata.
    pub extra_fields: Map<String, Value>,
}

/// An array's metadata.
///
/// All vectors have one entry for each dimension.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayMetadata {
    /// The version its documents have.
    pub format: ZarrFormat,
    /// Length of each dimension in elements.
    pub shape: Vec<u64>,
    /// Shape of every chunk (of the shards, where there are some) in elements; never zero.
    pub chunk_shape: Vec<u64>,
    /// Element type.
    pub data_type: DataType,
    /// The element that omitted chunks consist of, little-endian or UTF-8. `None` (v2 only) when the
    /// document says `null`: then no chunk may be omitted.
    pub fill_value: Option<Vec<u8>>,
    /// From array to stored bytes, in the names of v3.
    pub codecs: Vec<CodecMetadata>,
    /// How chunk keys are made.
    pub chunk_key_encoding: ChunkKeyEncoding,
    /// Name of each dimension. In v2 they are the attribute `_ARRAY_DIMENSIONS`, which is not
    /// among [`attributes`](Self::attributes) then.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// User attributes.
    pub attributes: Attributes,
    /// Fields of a v3 document that need not be understood.
    pub extra_fields: Map<String, Value>,
}

/// A codec by name, as v3 documents hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct CodecMetadata {
    /// Name in the registry.
    pub name: String,
    /// Its parameters.
    pub configuration: Map<String, Value>,
}

impl CodecMetadata {
    /// A codec with these parameters.
    pub fn new<const N: usize>(name: &str, configuration: [(&str, Value); N]) -> Self {
        Self {
            name: name.to_owned(),
            configuration: configuration
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect(),
        }
    }
}

impl ArrayMetadata {
    /// Number of chunks in each dimension.
    pub fn grid_shape(&self) -> Vec<u64> {
        self.shape
            .iter()
            .zip(&self.chunk_shape)
            .map(|(length, chunk)| length.div_ceil((*chunk).max(1)))
            .collect()
    }

    /// Number of chunks; `None` beyond 64 bits.
    pub fn chunk_count(&self) -> Option<u64> {
        product(1, &self.grid_shape())
    }

    /// Bytes of one whole chunk before encoding; `None` beyond 64 bits. Texts count only with what
    /// states their length.
    pub fn chunk_bytes(&self) -> Option<u64> {
        raw_bytes(&self.chunk_shape, self.data_type)
    }

    /// Bytes of all elements before encoding, as in [`chunk_bytes`](Self::chunk_bytes).
    pub fn raw_bytes(&self) -> Option<u64> {
        raw_bytes(&self.shape, self.data_type)
    }

    /// The key of a chunk, relative to the array.
    pub fn chunk_key(&self, index: &[u64]) -> String {
        self.chunk_key_encoding.key(index)
    }

    /// One element of what lies outside the array in its last chunks, and of what no file gives: the
    /// fill value; where there is none, a float that is not a number, else zeros.
    pub fn padding(&self) -> Vec<u8> {
        let none = || nan_bytes(self.data_type).unwrap_or_else(|| self.data_type.zero());
        self.fill_value.clone().unwrap_or_else(none)
    }
}

fn raw_bytes(shape: &[u64], data_type: DataType) -> Option<u64> {
    product(u64::try_from(data_type.size()).ok()?, shape)
}

/// `unit` times all lengths; `None` beyond 64 bits.
pub(crate) fn product(unit: u64, lengths: &[u64]) -> Option<u64> {
    // A zero anywhere means none at all, even where the other lengths would overflow.
    if lengths.contains(&0) {
        return Some(0);
    }
    lengths.iter().try_fold(unit, |product, length| product.checked_mul(*length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_times_anything_is_nothing_and_too_much_is_no_number() {
        assert_eq!(product(8, &[u64::MAX, u64::MAX, 0]), Some(0));
        assert_eq!(product(8, &[u64::MAX]), None);
        assert_eq!(product(8, &[]), Some(8));
    }
}
