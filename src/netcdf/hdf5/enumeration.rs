//! What the values of enumerations are called.
//!
//! Values are delivered as integers, so that the names would be lost. netCDF-C tells them with the
//! type and not as attributes, and readers of the file show none; yet attributes are all that Zarr
//! has. The names therefore go into one attribute of the group, under a prefix that xarray hides:
//! what it shows stays the same as of the file.

use hdf5_reader::Datatype;
use hdf5_reader::error::ByteOrder;
use serde_json::{Map, Value};

use super::types::Type;
use crate::netcdf::schema::{Attribute, AttributeValue};

/// The attribute of a group: a JSON object that has, for each variable with an enumeration, an
/// object of its names and integers.
const NAMES: &str = "_nc_enumerations";

/// The enumerations of the variables of one group.
#[derive(Debug, Default)]
pub(super) struct Enumerations(Map<String, Value>);

impl Enumerations {
    /// Adds that of a variable, if its type is one.
    pub(super) fn add(&mut self, variable: &str, kind: &Type) {
        let Datatype::Enum { base, members } = &kind.datatype else { return };
        let Datatype::FixedPoint { signed, byte_order, .. } = base.as_ref() else { return };
        let names = members.iter().filter_map(|member| {
            Some((member.name.clone(), integer(&member.value, *signed, *byte_order)?))
        });
        self.0.insert(variable.to_owned(), Value::Object(names.collect()));
    }

    /// Adds the attribute to those of the group, unless it is empty or the file has it.
    pub(super) fn add_to(self, attributes: &mut Vec<Attribute>) {
        if !self.0.is_empty() && attributes.iter().all(|attribute| attribute.name != NAMES) {
            let value = AttributeValue::Text(Value::Object(self.0).to_string());
            attributes.push(Attribute { name: NAMES.to_owned(), value });
        }
    }
}

/// An integer of up to eight bytes.
fn integer(bytes: &[u8], signed: bool, order: ByteOrder) -> Option<Value> {
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::BigEndian {
        bytes.reverse();
    }
    let negative = signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    wide.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(if signed { i64::from_le_bytes(wide).into() } else { u64::from_le_bytes(wide).into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_sign_and_order_are_exact() {
        use ByteOrder::{BigEndian, LittleEndian};
        assert_eq!(integer(&[0xff], true, LittleEndian), Some((-1).into()));
        assert_eq!(integer(&[0xff], false, LittleEndian), Some(255.into()));
        assert_eq!(integer(&[0x01, 0x02], true, BigEndian), Some(0x0102.into()));
        assert_eq!(integer(&[0xff, 0xfe], true, BigEndian), Some((-2).into()));
        assert_eq!(integer(&[0xff; 8], false, LittleEndian), Some(u64::MAX.into()));
        assert_eq!(integer(&[0; 9], true, LittleEndian), None);
    }
}
