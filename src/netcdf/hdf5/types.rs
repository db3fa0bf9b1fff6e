//! Datatypes: from the encoded message to what the schema shows.

use hdf5_reader::error::ByteOrder;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::datatype;
use hdf5_reader::{Datatype, StringSize, VarLenKind};

use super::significant::Significant;
use super::store::Store;
use crate::netcdf::bytes::Bytes;
use crate::netcdf::error::NetcdfError;
use crate::netcdf::schema::DataType;

/// Where the encoded form of an integer says which bits it uses, behind class, flags and size.
const INTEGER_BITS_AT: usize = 8;

/// A parsed datatype with what the parsed form leaves out.
#[derive(Debug, Clone)]
pub(super) struct Type {
    pub(super) datatype: Datatype,
    /// Bytes of one element.
    pub(super) size: u64,
    /// Why the number format is not one of this machine's, if so.
    irregular: Option<String>,
    /// Of an integer whose only irregularity is that some bits have no meaning.
    significant: Option<Significant>,
}

/// What elements of a type are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    /// Numbers that every netCDF type has.
    Number { data_type: DataType, big_endian: bool },
    /// Text of a fixed number of bytes.
    FixedText,
    /// References to text in the global heap.
    VariableText,
    /// Anything else, named for the user.
    Other(String),
}

impl Type {
    pub(super) fn parse(store: &Store, address: u64, encoded: &[u8]) -> Result<Self, NetcdfError> {
        let parsed = store.guard("a datatype", address, || {
            datatype::parse(&mut Cursor::new(encoded), encoded.len())
        })?;
        let irregular = match &parsed.datatype {
            Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } => irregular(encoded),
            // The base type follows the eight bytes of the enumeration's own description.
            Datatype::Enum { .. } => irregular(encoded.get(8..).unwrap_or_default()),
            _ => None,
        };
        let significant = match &parsed.datatype {
            // Of big-endian ones netCDF-C 4.10 shows other values than other readers.
            Datatype::FixedPoint { size, signed, byte_order: ByteOrder::LittleEndian }
                if irregular.is_some() =>
            {
                significant(encoded, *size, *signed)
            }
            _ => None,
        };
        let size = u64::from(parsed.size);
        Ok(Self { datatype: parsed.datatype, size, irregular, significant })
    }

    /// Takes the bits without meaning off the type: what it is once each value is widened by the
    /// result.
    pub(super) fn widened(&mut self) -> Option<Significant> {
        let significant = self.significant.take();
        if significant.is_some() {
            self.irregular = None;
        }
        significant
    }

    pub(super) fn element(&self) -> Element {
        match (&self.irregular, &self.datatype) {
            (Some(reason), _) => Element::Other(reason.clone()),
            (None, Datatype::Enum { base, .. }) => number(base),
            (None, datatype) => number_or_text(datatype),
        }
    }

    /// Whether netCDF knows such types only if the file names (commits) them.
    pub(super) fn is_user_defined(&self) -> bool {
        !matches!(
            self.datatype,
            Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } | Datatype::String { .. }
        ) && self.element() != Element::VariableText
    }
}

fn number(datatype: &Datatype) -> Element {
    let (data_type, order) = match datatype {
        Datatype::FixedPoint { size, signed, byte_order } => {
            let data_type = match (size, signed) {
                (1, true) => DataType::I8,
                (1, false) => DataType::U8,
                (2, true) => DataType::I16,
                (2, false) => DataType::U16,
                (4, true) => DataType::I32,
                (4, false) => DataType::U32,
                (8, true) => DataType::I64,
                (8, false) => DataType::U64,
                _ => return Element::Other(format!("integers of {size} bytes")),
            };
            (data_type, byte_order)
        }
        Datatype::FloatingPoint { size: 2, byte_order } => (DataType::F16, byte_order),
        Datatype::FloatingPoint { size: 4, byte_order } => (DataType::F32, byte_order),
        Datatype::FloatingPoint { size: 8, byte_order } => (DataType::F64, byte_order),
        Datatype::FloatingPoint { size, .. } => {
            return Element::Other(format!("floating-point numbers of {size} bytes"));
        }
        _ => return Element::Other("an enumeration of something else than integers".to_owned()),
    };
    Element::Number { data_type, big_endian: *order == ByteOrder::BigEndian }
}

fn number_or_text(datatype: &Datatype) -> Element {
    let named = |name: &str| Element::Other(name.to_owned());
    match datatype {
        Datatype::FixedPoint { .. } | Datatype::FloatingPoint { .. } | Datatype::Enum { .. } => {
            number(datatype)
        }
        Datatype::String { size: StringSize::Fixed(_), .. } => Element::FixedText,
        Datatype::String { size: StringSize::Variable, .. } => Element::VariableText,
        Datatype::VarLen { base, kind: VarLenKind::String, .. } if base.is_vlen_string_base() => {
            Element::VariableText
        }
        Datatype::VarLen { .. } => named("variable-length arrays"),
        Datatype::Compound { fields, .. } => {
            let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).take(8).collect();
            Element::Other(format!("a compound type ({})", names.join(", ")))
        }
        Datatype::Array { .. } => named("an array type"),
        Datatype::Opaque { tag, .. } if tag.is_empty() => named("an opaque type"),
        Datatype::Opaque { tag, .. } => Element::Other(format!("the opaque type `{tag}`")),
        Datatype::Reference { .. } => named("references"),
        Datatype::Bitfield { .. } => named("a bit field"),
    }
}

fn significant(encoded: &[u8], size: u8, signed: bool) -> Option<Significant> {
    let mut bytes = Bytes::new(encoded);
    bytes.skip(INTEGER_BITS_AT)?;
    let (offset, precision) = (bytes.u16_le()?, bytes.u16_le()?);
    Significant::new(size, signed, precision, offset)
}

/// Why the encoded number type is not a full-width integer or IEEE 754 number.
fn irregular(encoded: &[u8]) -> Option<String> {
    let cut = || Some("a number type that is cut short".to_owned());
    let mut bytes = Bytes::new(encoded);
    let (Some(class), Some([order, sign_at, _]), Some(size)) =
        (bytes.u8(), bytes.array::<3>(), bytes.u32_le())
    else {
        return cut();
    };
    let bits = size.saturating_mul(8);
    let (Some(offset), Some(precision)) = (bytes.u16_le(), bytes.u16_le()) else { return cut() };
    let full = offset == 0 && u32::from(precision) == bits;
    let is_integer = class.trailing_zeros() >= 4;
    if is_integer {
        return (!full).then(|| format!("integers of {precision} bits in {size} bytes"));
    }
    let (Some(layout), Some(bias)) = (bytes.array::<4>(), bytes.u32_le()) else { return cut() };
    // Exponent location and size, mantissa location and size.
    let ieee = match size {
        2 => layout == [10, 5, 0, 10] && bias == 15,
        4 => layout == [23, 8, 0, 23] && bias == 127,
        8 => layout == [52, 11, 0, 52] && bias == 1023,
        _ => true,
    };
    // Bit 6: VAX byte order. Bits 4 and 5: the leading bit of the mantissa is implied.
    let regular = order & 0x40 == 0 && order & 0x30 == 0x20;
    let sign_ok = u32::from(sign_at).saturating_add(1) == bits;
    (!(full && ieee && regular && sign_ok))
        .then(|| format!("floating-point numbers of {size} bytes that are not IEEE 754"))
}
