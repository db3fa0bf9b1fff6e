//! From the elements of a chunk to the bytes of its object and back, through zarrs.
//!
//! A chain is made once for each array and is shared by threads. One call works on the calling
//! thread only: the parallelism is over chunks.

use std::borrow::Cow;
use std::num::NonZeroU64;

use bytes::Bytes;
use zarrs::array::{
    ArrayToBytesCodecTraits as _, BytesRepresentation, CodecChain as ZarrsChain, CodecOptions,
    DataType as ZarrsType, FillValue, data_type,
};
use zarrs::metadata::v3::MetadataV3;

use super::data_type::DataType;
use super::metadata::ArrayMetadata;
use super::vlen;

/// Blosc's limit: a signed 32-bit size less its header.
pub const CHUNK_BYTES_MAX: u64 = (1 << 31) - 1 - 16;

/// Why a chunk cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The codecs of the array cannot be used.
    #[error("the codecs of this array cannot be used: {0}")]
    Chain(String),
    /// Not the bytes of one whole chunk.
    #[error("a chunk of this array has {expected} bytes, not {actual}")]
    RawSize {
        /// Bytes of one chunk.
        expected: u64,
        /// Bytes given or decoded.
        actual: u64,
    },
    /// Numbers given to the codecs of texts, or texts to those of numbers.
    #[error("the codecs are for another kind of elements")]
    Kind,
    /// A codec refused.
    #[error("the chunk is damaged or cannot be encoded: {0}")]
    Codec(String),
}

/// The codecs of one array.
#[derive(Debug)]
pub struct CodecChain {
    chain: ZarrsChain,
    options: CodecOptions,
    data_type: ZarrsType,
    fill_value: FillValue,
    chunk_shape: Vec<NonZeroU64>,
    chunk_bytes: u64,
    /// Elements of a chunk; `None` unless they are texts.
    texts: Option<usize>,
    /// Which codec the stored bytes come from, as far as their header tells the raw size.
    outermost: Outermost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outermost {
    Blosc,
    Zstd,
    Other,
}

impl CodecChain {
    /// The chain of an array. Chunks beyond [`CHUNK_BYTES_MAX`] are refused.
    pub fn new(array: &ArrayMetadata) -> Result<Self, CodecError> {
        let codecs: Vec<MetadataV3> = array
            .codecs
            .iter()
            .map(|codec| {
                MetadataV3::new_with_configuration(codec.name.clone(), codec.configuration.clone())
            })
            .collect();
        let chain = ZarrsChain::from_metadata(&codecs)
            .map_err(|error| CodecError::Chain(error.to_string()))?;
        let chunk_bytes = array
            .chunk_bytes()
            .filter(|bytes| *bytes <= CHUNK_BYTES_MAX)
            .ok_or_else(|| CodecError::Chain(format!("a chunk exceeds {CHUNK_BYTES_MAX} bytes")))?;
        let chunk_shape = array.chunk_shape.iter().map(|length| NonZeroU64::new(*length));
        let chunk_shape = chunk_shape
            .collect::<Option<_>>()
            .ok_or_else(|| CodecError::Chain("a chunk has no elements".into()))?;
        let size = array.data_type.size() as u64;
        let texts = (array.data_type == DataType::String)
            .then(|| usize::try_from(chunk_bytes / size).unwrap_or(usize::MAX));
        Ok(Self {
            chain,
            texts,
            options: CodecOptions::default().with_concurrent_target(1),
            data_type: zarrs_type(array.data_type),
            fill_value: FillValue::from(array.padding()),
            chunk_shape,
            chunk_bytes,
            outermost: match codecs.last().map(MetadataV3::name) {
                Some("blosc") => Outermost::Blosc,
                Some("zstd") => Outermost::Zstd,
                _ => Outermost::Other,
            },
        })
    }

    /// Bytes of one chunk before encoding; texts count only with what states their length.
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The object of a whole chunk of little-endian elements in C order. An owned `raw` is given
    /// back unchanged when nothing compresses.
    pub fn encode<'a>(&self, raw: impl Into<Cow<'a, [u8]>>) -> Result<Bytes, CodecError> {
        let raw = raw.into();
        if self.texts.is_some() {
            return Err(CodecError::Kind);
        }
        self.check_size(raw.len())?;
        let encoded = self.chain.encode(
            raw.into(),
            &self.chunk_shape,
            &self.data_type,
            &self.fill_value,
            &self.options,
        );
        let mut encoded = encoded.map_err(codec_error)?.into_owned();
        // Compressors allocate for the worst case.
        encoded.shrink_to_fit();
        Ok(encoded.into())
    }

    /// The object of a whole chunk of UTF-8 texts in C order, together with what states their
    /// lengths not larger than [`CHUNK_BYTES_MAX`].
    pub fn encode_texts(&self, texts: &[&[u8]]) -> Result<Bytes, CodecError> {
        let total =
            texts.iter().fold(0, |total: u64, text| total.saturating_add(text.len() as u64));
        let total = self.chunk_bytes.saturating_add(total);
        if self.texts != Some(texts.len()) {
            return Err(CodecError::Kind);
        }
        if total > CHUNK_BYTES_MAX {
            return Err(CodecError::RawSize { expected: CHUNK_BYTES_MAX, actual: total });
        }
        let framed = vlen::encode(texts).ok_or(CodecError::Kind)?;
        let mut codecs = self.chain.bytes_to_bytes_codecs().iter();
        let encoded = codecs.try_fold(Cow::Owned(framed), |bytes, codec| {
            codec.encode(bytes, &self.options).map_err(codec_error)
        });
        let mut encoded = encoded?.into_owned();
        // Compressors allocate for the worst case.
        encoded.shrink_to_fit();
        Ok(encoded.into())
    }

    /// The little-endian elements of a chunk from its object.
    pub fn decode(&self, stored: &[u8]) -> Result<Vec<u8>, CodecError> {
        if self.texts.is_some() {
            return Err(CodecError::Kind);
        }
        self.check_header(stored)?;
        let decoded = self.chain.decode(
            Cow::Borrowed(stored),
            &self.chunk_shape,
            &self.data_type,
            &self.fill_value,
            &self.options,
        );
        let fixed = decoded.map_err(codec_error)?.into_fixed();
        let raw = fixed.map_err(|error| CodecError::Codec(error.to_string()))?.into_owned();
        self.check_size(raw.len())?;
        Ok(raw)
    }

    /// The texts of a chunk from its object.
    pub fn decode_texts(&self, stored: &[u8]) -> Result<Vec<String>, CodecError> {
        let count = self.texts.ok_or(CodecError::Kind)?;
        self.check_header(stored)?;
        let mut codecs = self.chain.bytes_to_bytes_codecs().iter().rev();
        let size = BytesRepresentation::UnboundedSize;
        let framed = codecs.try_fold(Cow::Borrowed(stored), |bytes, codec| {
            codec.decode(bytes, &size, &self.options).map_err(codec_error)
        });
        vlen::decode(&framed?, count)
            .ok_or_else(|| CodecError::Codec("it does not hold the texts of one chunk".to_owned()))
    }

    fn check_size(&self, bytes: usize) -> Result<(), CodecError> {
        let actual = bytes as u64;
        if actual == self.chunk_bytes {
            Ok(())
        } else {
            Err(CodecError::RawSize { expected: self.chunk_bytes, actual })
        }
    }

    /// Refuses an object whose header promises another size, before anything is allocated by it.
    fn check_header(&self, stored: &[u8]) -> Result<(), CodecError> {
        let promised = match self.outermost {
            Outermost::Blosc => blosc_raw_bytes(stored),
            Outermost::Zstd => zstd_raw_bytes(stored),
            Outermost::Other => None,
        };
        match promised {
            Some(actual) if self.texts.is_some() && actual > CHUNK_BYTES_MAX => {
                Err(CodecError::RawSize { expected: CHUNK_BYTES_MAX, actual })
            }
            Some(actual) if self.texts.is_none() && actual != self.chunk_bytes => {
                Err(CodecError::RawSize { expected: self.chunk_bytes, actual })
            }
            _ => Ok(()),
        }
    }
}

/// `nbytes` of Blosc's header: bytes 4 to 8.
fn blosc_raw_bytes(stored: &[u8]) -> Option<u64> {
    little_endian(stored.get(4..8)?)
}

/// `Frame_Content_Size` of a zstd frame (RFC 8878, 3.1.1.1), where the frame has it.
fn zstd_raw_bytes(stored: &[u8]) -> Option<u64> {
    let descriptor = *stored.get(4)?;
    let single_segment = descriptor & 0x20 != 0;
    let dictionary_bytes = [0, 1, 2, 4].get(usize::from(descriptor & 3)).copied()?;
    let at = 5 + usize::from(!single_segment) + dictionary_bytes;
    match (descriptor >> 6, single_segment) {
        (0, false) => None,
        (0, true) => little_endian(stored.get(at..at + 1)?),
        (1, _) => little_endian(stored.get(at..at + 2)?).map(|size| size + 256),
        (2, _) => little_endian(stored.get(at..at + 4)?),
        _ => little_endian(stored.get(at..at + 8)?),
    }
}

fn little_endian(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8)
        .then(|| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn zarrs_type(of: DataType) -> ZarrsType {
    match of {
        DataType::Int8 => data_type::int8(),
        // zarrs does not know characters: the same bytes.
        DataType::UInt8 | DataType::Char => data_type::uint8(),
        DataType::Int16 => data_type::int16(),
        DataType::UInt16 => data_type::uint16(),
        DataType::Int32 => data_type::int32(),
        DataType::UInt32 => data_type::uint32(),
        DataType::Int64 => data_type::int64(),
        DataType::UInt64 => data_type::uint64(),
        DataType::Float16 => data_type::float16(),
        DataType::Float32 => data_type::float32(),
        DataType::Float64 => data_type::float64(),
        DataType::String => data_type::string(),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "it is given to map_err")]
fn codec_error(error: zarrs::array::CodecError) -> CodecError {
    CodecError::Codec(error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::super::{ChunkKeyEncoding, CodecSpec, ZarrFormat};
    use super::*;

    #[test]
    fn zarrs_reads_the_texts_that_are_written() {
        for codec in ["blosc:zstd:5:shuffle", "zstd:3", "gzip:1", "none"] {
            let array = ArrayMetadata {
                format: ZarrFormat::V3,
                shape: vec![3],
                chunk_shape: vec![3],
                data_type: DataType::String,
                fill_value: Some(Vec::new()),
                codecs: codec.parse::<CodecSpec>().unwrap().codecs(DataType::String),
                chunk_key_encoding: ChunkKeyEncoding::of(ZarrFormat::V3),
                dimension_names: None,
                attributes: Map::new(),
                extra_fields: Map::new(),
            };
            let chain = CodecChain::new(&array).unwrap();
            let stored = chain.encode_texts(&[b"ab", b"", "é".as_bytes()]).unwrap();
            let decoded = chain.chain.decode(
                Cow::Borrowed(&stored),
                &chain.chunk_shape,
                &chain.data_type,
                &chain.fill_value,
                &chain.options,
            );
            let (bytes, offsets) = decoded.unwrap().into_variable().unwrap().into_parts();
            assert_eq!((&*bytes, &*offsets), ("abé".as_bytes(), &[0, 2, 2, 4][..]), "{codec}");
        }
    }
}
