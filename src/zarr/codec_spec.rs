//! The compression a user asks for: `blosc:zstd:5:shuffle`, `zstd:3`, `gzip:6`, `none`, `source`.
//!
//! Only codecs of the Zarr v3 registry, so that every reader can decode them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::data_type::DataType;
use super::metadata::CodecMetadata;

/// How chunks are compressed. Its text is the value of `--codec` and what journals record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum CodecSpec {
    /// `blosc:COMPRESSOR:LEVEL:SHUFFLE`
    Blosc {
        /// The compressor inside.
        compressor: BloscCompressor,
        /// 0 (stored) to 9.
        level: u8,
        /// What is done to the bytes of an element first.
        shuffle: Shuffle,
    },
    /// `zstd:LEVEL`, −131072 to 22.
    Zstd(i32),
    /// `gzip:LEVEL`, 0 to 9.
    Gzip(u8),
    /// `none`: raw little-endian elements.
    None,
    /// `source`: the source's compressed chunks as they are.
    Source,
}

/// Compressors that every build of Blosc has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are Blosc's names")]
pub enum BloscCompressor {
    BloscLz,
    Lz4,
    Lz4Hc,
    Zlib,
    Zstd,
}

/// Blosc's reordering of the bytes or bits of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the variants are Blosc's names")]
pub enum Shuffle {
    None,
    Byte,
    Bit,
}

/// Why a text is not a codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodecSpecError {
    /// The first word is none that is known.
    #[error(
        "unknown codec `{0}`: write `blosc:zstd:5:shuffle`, `zstd:3`, `gzip:6`, `none` or `source`"
    )]
    UnknownCodec(String),
    /// Blosc has no such compressor.
    #[error("Blosc has no compressor `{0}`: write blosclz, lz4, lz4hc, zlib or zstd")]
    UnknownCompressor(String),
    /// Blosc has no such shuffle.
    #[error("Blosc has no shuffle `{0}`: write shuffle, bitshuffle or noshuffle")]
    UnknownShuffle(String),
    /// Not a number, or not one of the codec's levels.
    #[error("`{text}` is not a level of {codec}: write a number from {min} to {max}")]
    Level {
        /// What was written.
        text: String,
        /// The codec.
        codec: &'static str,
        /// Lowest level.
        min: i32,
        /// Highest level.
        max: i32,
    },
    /// More parts than the codec has.
    #[error("`{text}` has too many parts: the form is `{form}`")]
    TooManyParts {
        /// What was written.
        text: String,
        /// What the codec takes.
        form: &'static str,
    },
}

const COMPRESSORS: [(BloscCompressor, &str); 5] = [
    (BloscCompressor::BloscLz, "blosclz"),
    (BloscCompressor::Lz4, "lz4"),
    (BloscCompressor::Lz4Hc, "lz4hc"),
    (BloscCompressor::Zlib, "zlib"),
    (BloscCompressor::Zstd, "zstd"),
];

const SHUFFLES: [(Shuffle, &str); 3] =
    [(Shuffle::None, "noshuffle"), (Shuffle::Byte, "shuffle"), (Shuffle::Bit, "bitshuffle")];

impl Default for CodecSpec {
    fn default() -> Self {
        Self::Blosc { compressor: BloscCompressor::Zstd, level: 5, shuffle: Shuffle::Byte }
    }
}

impl CodecSpec {
    /// The codecs of an array of `data_type`, in the names of v3. For [`CodecSpec::Source`] they
    /// depend on the variable, so that there is only the one that orders bytes.
    pub fn codecs(self, data_type: DataType) -> Vec<CodecMetadata> {
        let mut codecs = vec![serializer(data_type)];
        match self {
            Self::Blosc { compressor, level, shuffle } => codecs.push(CodecMetadata::new(
                "blosc",
                [
                    ("cname", json!(name(&COMPRESSORS, compressor))),
                    ("clevel", json!(level)),
                    ("shuffle", json!(name(&SHUFFLES, shuffle))),
                    ("typesize", json!(type_size(data_type))),
                    ("blocksize", json!(0)),
                ],
            )),
            Self::Zstd(level) => codecs.push(CodecMetadata::new(
                "zstd",
                [("level", json!(level)), ("checksum", json!(false))],
            )),
            Self::Gzip(level) => {
                codecs.push(CodecMetadata::new("gzip", [("level", json!(level))]));
            }
            Self::None | Self::Source => {}
        }
        codecs
    }
}

/// Bytes of an element for Blosc; texts are bytes to it.
pub(super) fn type_size(data_type: DataType) -> usize {
    if data_type == DataType::String { 1 } else { data_type.size() }
}

/// From elements to bytes: `bytes`, little-endian, without an order where an element is one byte;
/// `vlen-utf8` for texts.
pub(super) fn serializer(data_type: DataType) -> CodecMetadata {
    if data_type == DataType::String {
        CodecMetadata::new("vlen-utf8", [])
    } else if data_type.size() == 1 {
        CodecMetadata::new("bytes", [])
    } else {
        CodecMetadata::new("bytes", [("endian", json!("little"))])
    }
}

impl FromStr for CodecSpec {
    type Err = CodecSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (codec, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut parts = rest.split(':').filter(|part| !part.is_empty());
        let (spec, form) = match codec {
            "blosc" => (parse_blosc(&mut parts)?, "blosc:COMPRESSOR:LEVEL:SHUFFLE"),
            "zstd" => (Self::Zstd(level(parts.next(), 3, "zstd", -131_072, 22)?), "zstd:LEVEL"),
            "gzip" => (Self::Gzip(small_level(parts.next(), 6, "gzip")?), "gzip:LEVEL"),
            "none" => (Self::None, "none"),
            "source" => (Self::Source, "source"),
            other => return Err(CodecSpecError::UnknownCodec(other.to_owned())),
        };
        match parts.next() {
            None => Ok(spec),
            Some(_) => Err(CodecSpecError::TooManyParts { text: text.to_owned(), form }),
        }
    }
}

fn parse_blosc<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Result<CodecSpec, CodecSpecError> {
    let compressor = parts.next().unwrap_or("zstd");
    let compressor = COMPRESSORS
        .iter()
        .find(|(_, name)| *name == compressor)
        .ok_or_else(|| CodecSpecError::UnknownCompressor(compressor.to_owned()))?
        .0;
    let level = small_level(parts.next(), 5, "blosc")?;
    let shuffle = parts.next().unwrap_or("shuffle");
    let shuffle = SHUFFLES
        .iter()
        .find(|(_, name)| *name == shuffle)
        .ok_or_else(|| CodecSpecError::UnknownShuffle(shuffle.to_owned()))?
        .0;
    Ok(CodecSpec::Blosc { compressor, level, shuffle })
}

fn level(
    text: Option<&str>,
    default: i32,
    codec: &'static str,
    min: i32,
    max: i32,
) -> Result<i32, CodecSpecError> {
    let Some(text) = text else { return Ok(default) };
    text.parse()
        .ok()
        .filter(|level| (min..=max).contains(level))
        .ok_or_else(|| CodecSpecError::Level { text: text.to_owned(), codec, min, max })
}

fn small_level(text: Option<&str>, default: u8, codec: &'static str) -> Result<u8, CodecSpecError> {
    level(text, i32::from(default), codec, 0, 9).map(|level| u8::try_from(level).unwrap_or(default))
}

fn name<T: Copy + PartialEq>(names: &[(T, &'static str)], wanted: T) -> &'static str {
    names.iter().find(|(value, _)| *value == wanted).map_or("", |(_, name)| name)
}

impl fmt::Display for CodecSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Blosc { compressor, level, shuffle } => {
                let (compressor, shuffle) =
                    (name(&COMPRESSORS, compressor), name(&SHUFFLES, shuffle));
                write!(f, "blosc:{compressor}:{level}:{shuffle}")
            }
            Self::Zstd(level) => write!(f, "zstd:{level}"),
            Self::Gzip(level) => write!(f, "gzip:{level}"),
            Self::None => f.write_str("none"),
            Self::Source => f.write_str("source"),
        }
    }
}

impl TryFrom<String> for CodecSpec {
    type Error = CodecSpecError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CodecSpec> for String {
    fn from(spec: CodecSpec) -> Self {
        spec.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_are_read_and_shown_in_the_same_form() {
        for (text, shown) in [
            ("blosc:zstd:5:shuffle", "blosc:zstd:5:shuffle"),
            ("blosc", "blosc:zstd:5:shuffle"),
            ("blosc:lz4", "blosc:lz4:5:shuffle"),
            ("blosc:lz4hc:9:bitshuffle", "blosc:lz4hc:9:bitshuffle"),
            ("zstd:-7", "zstd:-7"),
            ("zstd", "zstd:3"),
            ("gzip:9", "gzip:9"),
            ("none", "none"),
            ("source", "source"),
        ] {
            let spec: CodecSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), shown);
            let json = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<CodecSpec>(&json).unwrap(), spec);
        }
        assert_eq!(CodecSpec::default().to_string(), "blosc:zstd:5:shuffle");
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, hint) in [
            ("lzma", "write `blosc:zstd:5:shuffle`"),
            ("", "unknown codec ``"),
            ("blosc:snappy", "write blosclz, lz4, lz4hc, zlib or zstd"),
            ("blosc:lz4:10", "a number from 0 to 9"),
            ("blosc:lz4:5:yes", "write shuffle, bitshuffle or noshuffle"),
            ("zstd:23", "from -131072 to 22"),
            ("gzip:x", "`x` is not a level of gzip"),
            ("gzip:1:2", "the form is `gzip:LEVEL`"),
            ("none:1", "the form is `none`"),
        ] {
            let error = text.parse::<CodecSpec>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
