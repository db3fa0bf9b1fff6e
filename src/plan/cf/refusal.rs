//! Why elements of one encoding cannot be put into another.

use crate::zarr::DataType;

/// Why two encodings have nothing to do with each other. The text is a part of a sentence that
/// names the variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversionRefusal {
    /// Units are different, or one has none.
    #[error("units are {} in one and {} in the other", quoted(.from.as_deref()), quoted(.to.as_deref()))]
    Units {
        /// Of the elements at hand.
        from: Option<String>,
        /// Of the array they should go to.
        to: Option<String>,
    },
    /// Instants of different calendars.
    #[error("calendars are {} in one and {} in the other", quoted(.from.as_deref()), quoted(.to.as_deref()))]
    Calendars {
        /// Of the elements at hand.
        from: Option<String>,
        /// Of the array they should go to.
        to: Option<String>,
    },
    /// Packed with different numbers.
    #[error("scale_factor or add_offset differ: --unpack stores the values unpacked")]
    Packing,
    /// The numbers are not known, and some would fall between two of the other units.
    #[error("units are `{from}` in one and `{to}` in the other, which do not divide evenly")]
    UnitsDoNotDivide {
        /// Of the elements at hand.
        from: String,
        /// Of the array they should go to.
        to: String,
    },
    /// Instants that are packed have no whole numbers to convert.
    #[error(
        "units are different and scale_factor or add_offset are there: --unpack stores the values unpacked"
    )]
    PackedTime,
    /// An attribute that must be the same is not.
    #[error("`{name}` differs")]
    Attribute {
        /// Its name.
        name: &'static str,
    },
    /// An attribute is there that readers take in another way than it says.
    #[error(
        "`{name}` is not written as readers expect it, so that it is not clear which values are the same"
    )]
    Unclear {
        /// Its name.
        name: &'static str,
    },
    /// Texts and numbers, or texts of different kinds.
    #[error("the type is {from} in one and {to} in the other")]
    Types {
        /// Of the elements at hand.
        from: DataType,
        /// Of the array they should go to.
        to: DataType,
    },
    /// No type holds all numbers.
    #[error("no type holds all numbers of {types}")]
    NoCommonType {
        /// The types that are there.
        types: String,
    },
    /// `scale_factor` alone, as an integer: the product may not fit its type.
    #[error("scale_factor is an integer: what unpacked values would be is not clear")]
    IntegerScale,
    /// A value has no counterpart.
    #[error(transparent)]
    Value(#[from] Inexact),
}

/// An element that cannot be converted exactly.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value {value} {reason}")]
pub struct Inexact {
    /// Which of the elements that were given.
    pub index: usize,
    /// The element as a number.
    pub value: String,
    /// What is wrong with it.
    pub reason: InexactReason,
}

/// What is wrong with an element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InexactReason {
    /// The type has no such number.
    #[error("is not exact as {0}")]
    Type(DataType),
    /// It would become a missing value.
    #[error("means missing there (_FillValue or missing_value)")]
    MeansMissing,
    /// Readers turn integers into float64 to mask them, and these two become one.
    #[error("is so near to a missing value that readers take it for one")]
    MistakenForMissing,
    /// It is missing, and the other encoding cannot say so.
    #[error("is missing, and nothing there means missing")]
    NothingMeansMissing,
    /// No number of the other units means this instant.
    #[error("of `{from}` has no exact counterpart in `{to}` as {data_type}")]
    Time {
        /// The units it has.
        from: String,
        /// The units it should get.
        to: String,
        /// The type that it should get.
        data_type: DataType,
    },
    /// An instant at which the calendars differ.
    #[error(
        "of `{from}` has no exact counterpart in `{to}`: its calendar agrees from 1582-10-15 on"
    )]
    Calendar {
        /// The units it has.
        from: String,
        /// The units it should get.
        to: String,
    },
    /// The bytes end within it.
    #[error("is cut short")]
    CutShort,
}

fn quoted(text: Option<&str>) -> String {
    text.map_or_else(|| "missing".to_owned(), |text| format!("`{text}`"))
}
