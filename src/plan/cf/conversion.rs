//! Elements of one encoding as elements of another, exactly or not at all.
//!
//! ```text
//! missing   -> the same number if it means missing there too, else the first that does, else NaN
//! a number  -> the same number in the other type
//! an instant-> the number of the other units that means the same nanosecond
//! packed    -> the raw numbers, if scale and offset are the same
//! ```
//!
//! A number that means *missing* in the other encoding only is an error, like every number that
//! would change. NaN stays NaN in a float.

use std::cmp::Ordering;

use half::f16;

use super::decoding::{COMPARED_AS_THEY_ARE, Decoding, NOT_A_TIME};
use super::element::{Element, holds, holds_all, integer_range, with_element};
use super::refusal::{ConversionRefusal, Inexact, InexactReason};
use super::time_units::TimeUnits;
use super::unpack::Unpacking;
use crate::zarr::{DataType, Kind, Scalar};

/// A conversion of the elements of one array, or file, to those of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversion {
    source: DataType,
    target: DataType,
    source_masks: Vec<Scalar>,
    target_masks: Vec<Scalar>,
    step: Step,
    is_identity: bool,
    is_always_exact: bool,
}

/// What happens to a number that is not missing.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// It goes over into the other type.
    Number,
    /// It is told in other units.
    Time(Box<(TimeUnits, TimeUnits)>),
    /// It is scaled.
    Unpack(Unpacking),
}

impl Conversion {
    /// Elements stay as they are.
    pub fn none(data_type: DataType) -> Self {
        Self {
            source: data_type,
            target: data_type,
            source_masks: Vec::new(),
            target_masks: Vec::new(),
            step: Step::Number,
            is_identity: true,
            is_always_exact: true,
        }
    }

    /// How elements that mean what `from` says can be stored as `to` says.
    pub fn between(from: &Decoding, to: &Decoding) -> Result<Self, ConversionRefusal> {
        if from.is_written_like(to) || from == to {
            return Ok(Self::identity(from));
        }
        compare(from, to)?;
        if from.data_type().kind() == Kind::Text {
            return Ok(Self::identity(from));
        }
        let step = match (from.time(), to.time()) {
            (Some(from), Some(to)) if !from.means_the_same(to) => {
                Step::Time(Box::new((from.clone(), to.clone())))
            }
            _ => Step::Number,
        };
        if from.is_packed() && step != Step::Number {
            return Err(ConversionRefusal::PackedTime);
        }
        Ok(Self::new(from, to, step))
    }

    pub(super) fn new(from: &Decoding, to: &Decoding, step: Step) -> Self {
        let conversion = Self {
            source: from.value_type(),
            target: to.value_type(),
            source_masks: from.masked().to_vec(),
            target_masks: to.masked().to_vec(),
            step,
            is_identity: false,
            is_always_exact: false,
        };
        let is_always_exact = conversion.holds_all() && conversion.masks_nothing_more();
        let is_identity = is_always_exact
            && conversion.step == Step::Number
            && conversion.source == conversion.target
            && conversion.has_equal_masks();
        Self { is_identity, is_always_exact, ..conversion }
    }

    fn identity(decoding: &Decoding) -> Self {
        Self::none(decoding.value_type())
    }

    /// Whether bytes stay as they are.
    pub fn is_identity(&self) -> bool {
        self.is_identity
    }

    /// Whether [`Self::apply`] cannot fail, whatever the elements are.
    pub fn is_always_exact(&self) -> bool {
        self.is_always_exact
    }

    /// Bytes of an element of the target.
    pub fn target_element_bytes(&self) -> usize {
        self.target.size()
    }

    /// Bytes of an element of the source.
    pub fn source_element_bytes(&self) -> usize {
        self.source.size()
    }

    /// One element, or a text.
    pub fn convert_one(&self, element: &[u8]) -> Result<Vec<u8>, Inexact> {
        let mut converted = Vec::with_capacity(self.target.size());
        self.apply(element, &mut converted)?;
        Ok(converted)
    }

    /// Whether no number is between two of the target's: what can go wrong then are numbers that
    /// are too large, and missing values.
    pub(super) fn is_whole(&self) -> bool {
        match &self.step {
            Step::Time(units) => {
                let (from, to) = units.as_ref();
                let unit = to.unit().nanoseconds();
                let distance = from.reference_ns() - to.reference_ns();
                from.unit().nanoseconds() % unit == 0 && distance % unit == 0
            }
            Step::Number | Step::Unpack(_) => true,
        }
    }

    /// Says that numbers may fall between, or not fit.
    pub(super) fn may_not_fit(&self) -> ConversionRefusal {
        match &self.step {
            Step::Time(units) => ConversionRefusal::UnitsDoNotDivide {
                from: units.0.to_string(),
                to: units.1.to_string(),
            },
            Step::Number | Step::Unpack(_) => {
                ConversionRefusal::Types { from: self.source, to: self.target }
            }
        }
    }

    /// Whether every number that the source can have has a counterpart.
    pub(super) fn holds_all(&self) -> bool {
        match &self.step {
            Step::Number => holds_all(self.target, self.source),
            Step::Time(units) => {
                let (from, to) = units.as_ref();
                let Some((least, most)) = integer_range(self.source) else { return false };
                if from.calendar() != to.calendar() {
                    return false;
                }
                // What lies between two numbers that fit also fits an integer.
                let fits = |raw| {
                    let instant = from.instant_ns(raw)?;
                    let number = to.whole_number(instant)?;
                    Some(holds(self.target, Scalar::Integer(number)))
                };
                self.is_whole()
                    && self.target.kind() != Kind::Float
                    && fits(least) == Some(true)
                    && fits(most) == Some(true)
            }
            Step::Unpack(unpacking) => holds_all(self.target, unpacking.data_type()),
        }
    }

    /// Whether nothing becomes missing that was not, and what is missing can stay so.
    fn masks_nothing_more(&self) -> bool {
        if self.step == Step::Number && self.source == self.target && self.has_equal_masks() {
            return true;
        }
        let may_be = |mask: &Scalar| holds(self.source, *mask);
        let more = match self.step {
            Step::Number => self
                .target_masks
                .iter()
                .any(|mask| may_be(mask) && !contains(&self.source_masks, *mask)),
            Step::Time(_) | Step::Unpack(_) => !self.target_masks.is_empty(),
        };
        let masks = self.source_masks.iter().chain(&self.target_masks);
        let mistaken = integer_range(self.source).is_some_and(|_| self.source.size() == 8)
            && masks.into_iter().any(|mask| has_neighbours(*mask));
        let can_say_missing = self.target.kind() == Kind::Float
            || self.source_masks.is_empty()
            || !self.target_masks.is_empty();
        !more && !mistaken && can_say_missing
    }

    /// Whether the same numbers mean missing in both.
    fn has_equal_masks(&self) -> bool {
        let all_in =
            |some: &[Scalar], others: &[Scalar]| some.iter().all(|mask| contains(others, *mask));
        all_in(&self.source_masks, &self.target_masks)
            && all_in(&self.target_masks, &self.source_masks)
    }

    /// Appends the converted elements to `out`, all or none.
    pub fn apply(&self, source: &[u8], out: &mut Vec<u8>) -> Result<(), Inexact> {
        if self.is_identity {
            out.extend_from_slice(source);
            return Ok(());
        }
        let elements = source.len() / self.source.size();
        let cut_short = || Inexact {
            index: elements,
            value: "at the end".to_owned(),
            reason: InexactReason::CutShort,
        };
        if elements * self.source.size() != source.len() {
            return Err(cut_short());
        }
        let start = out.len();
        let result = with_element!(self.source, from_type(self, source, out), Err(cut_short()));
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

/// Whether other integers become the same float64.
fn has_neighbours(mask: Scalar) -> bool {
    matches!(mask, Scalar::Integer(value) if value.unsigned_abs() >= 1 << f64::MANTISSA_DIGITS)
}

fn contains(masks: &[Scalar], value: Scalar) -> bool {
    // Numbers of different types are compared as numbers.
    masks.iter().any(|mask| match (*mask, value) {
        (Scalar::Integer(one), Scalar::Integer(other)) => one == other,
        (one, other) => match (f64::exact(one), f64::exact(other)) {
            (Some(one), Some(other)) => one.partial_cmp(&other) == Some(Ordering::Equal),
            _ => false,
        },
    })
}

/// What no conversion of elements can make up for.
pub(super) fn compare(from: &Decoding, to: &Decoding) -> Result<(), ConversionRefusal> {
    let attribute = |decoding: &Decoding, name: &str| decoding.attributes().get(name).cloned();
    let (source, target) = (from.data_type(), to.data_type());
    let is_text = source.kind() == Kind::Text;
    if (is_text || target.kind() == Kind::Text) && source != target {
        return Err(ConversionRefusal::Types { from: source, to: target });
    }
    if let Some(name) = from.unclear().or(to.unclear()) {
        return Err(ConversionRefusal::Unclear { name });
    }
    let masks: &[&'static str] = if is_text { &["_FillValue", "missing_value"] } else { &[] };
    for name in COMPARED_AS_THEY_ARE.iter().chain(masks) {
        if attribute(from, name) != attribute(to, name) {
            return Err(ConversionRefusal::Attribute { name });
        }
    }
    if is_text && from.masking_fill_value() != to.masking_fill_value() {
        return Err(ConversionRefusal::Attribute { name: "_FillValue" });
    }
    compare_units(from, to)?;
    if from.packing() == to.packing() || is_same_packing(from, to) {
        Ok(())
    } else {
        Err(ConversionRefusal::Packing)
    }
}

fn is_same_packing(from: &Decoding, to: &Decoding) -> bool {
    let same = |one: Option<Scalar>, other: Option<Scalar>| match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => contains(&[one], other),
        _ => false,
    };
    same(from.packing().0, to.packing().0) && same(from.packing().1, to.packing().1)
}

/// Units must be the same text, or be instants of calendars that agree on some.
pub(super) fn compare_units(from: &Decoding, to: &Decoding) -> Result<(), ConversionRefusal> {
    let text = |text: Option<&str>| text.map(str::to_owned);
    let calendars =
        || ConversionRefusal::Calendars { from: text(from.calendar()), to: text(to.calendar()) };
    match (from.time(), to.time()) {
        // Single instants may still be some at which they differ.
        (Some(one), Some(other)) if one.agrees_from_ns(other).is_some() => Ok(()),
        (Some(_), Some(_)) => Err(calendars()),
        _ if from.attributes().get("units") != to.attributes().get("units") => {
            Err(ConversionRefusal::Units { from: text(from.units()), to: text(to.units()) })
        }
        _ if from.attributes().get("calendar") != to.attributes().get("calendar") => {
            Err(calendars())
        }
        _ => Ok(()),
    }
}

fn from_type<S: Element>(
    conversion: &Conversion,
    source: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Inexact> {
    fn to_type<S: Element, T: Element>(
        conversion: &Conversion,
        source: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Inexact> {
        Loop::<S, T>::new(conversion).run(source, out)
    }
    // One more type parameter than the macro fills in.
    macro_rules! with_target {
        ($($variant:ident $type:ty),*) => {
            match conversion.target {
                $(DataType::$variant => to_type::<S, $type>(conversion, source, out),)*
                DataType::Char | DataType::String => Ok(()),
            }
        };
    }
    with_target!(
        Int8 i8, UInt8 u8, Int16 i16, UInt16 u16, Int32 i32, UInt32 u32, Int64 i64, UInt64 u64,
        Float16 f16, Float32 f32, Float64 f64
    )
}

/// An [`InexactReason`] before it is worded: the loop runs faster with something small.
#[derive(Clone, Copy)]
enum Fault {
    NoCounterpart,
    MeansMissing,
    MistakenForMissing,
    NothingMeansMissing,
}

/// The loop over elements for a pair of types.
struct Loop<'a, S, T> {
    step: &'a Step,
    source_masks: Vec<S>,
    target_masks: Vec<T>,
    target: DataType,
}

impl<'a, S: Element, T: Element> Loop<'a, S, T> {
    fn new(conversion: &'a Conversion) -> Self {
        Self {
            step: &conversion.step,
            source_masks: conversion
                .source_masks
                .iter()
                .filter_map(|mask| S::exact(*mask))
                .collect(),
            target_masks: conversion
                .target_masks
                .iter()
                .filter_map(|mask| T::exact(*mask))
                .collect(),
            target: conversion.target,
        }
    }

    fn run(&self, source: &[u8], out: &mut Vec<u8>) -> Result<(), Inexact> {
        match self.step {
            Step::Number => self.each(source, out, |element| T::exact(element.scalar())),
            Step::Time(units) => self
                .each(source, out, |element| in_other_units(element.scalar(), &units.0, &units.1)),
            Step::Unpack(unpacking) => self.each(source, out, |element| {
                unpacking.value(element.scalar()).map_or_else(T::nan, T::exact)
            }),
        }
    }

    fn each(
        &self,
        source: &[u8],
        out: &mut Vec<u8>,
        counterpart: impl Fn(S) -> Option<T>,
    ) -> Result<(), Inexact> {
        let start = out.len();
        out.resize(start + source.len() / S::SIZE * T::SIZE, 0);
        let targets = out.get_mut(start..).unwrap_or_default().chunks_exact_mut(T::SIZE);
        for (index, (bytes, target)) in source.chunks_exact(S::SIZE).zip(targets).enumerate() {
            let element = S::read(bytes);
            match self.convert(element, &counterpart) {
                Ok(converted) => converted.write(target),
                Err(fault) => {
                    let value = text(element.scalar());
                    return Err(Inexact { index, value, reason: self.reason(fault) });
                }
            }
        }
        Ok(())
    }

    fn convert(&self, element: S, counterpart: impl Fn(S) -> Option<T>) -> Result<T, Fault> {
        if element.is_nan() {
            return self.missing(element).ok_or(Fault::NothingMeansMissing);
        }
        for mask in &self.source_masks {
            if *mask == element {
                return self.missing(element).ok_or(Fault::NothingMeansMissing);
            }
            if element.is_mistaken_for(*mask) {
                return Err(Fault::MistakenForMissing);
            }
        }
        let converted = counterpart(element).ok_or(Fault::NoCounterpart)?;
        for mask in &self.target_masks {
            if *mask == converted {
                return Err(Fault::MeansMissing);
            }
            if converted.is_mistaken_for(*mask) {
                return Err(Fault::MistakenForMissing);
            }
        }
        Ok(converted)
    }

    fn reason(&self, fault: Fault) -> InexactReason {
        match (fault, self.step) {
            (Fault::NoCounterpart, Step::Time(units))
                if units.0.calendar() != units.1.calendar() =>
            {
                InexactReason::Calendar { from: units.0.to_string(), to: units.1.to_string() }
            }
            (Fault::NoCounterpart, Step::Time(units)) => InexactReason::Time {
                from: units.0.to_string(),
                to: units.1.to_string(),
                data_type: self.target,
            },
            (Fault::NoCounterpart, _) => InexactReason::Type(self.target),
            (Fault::MeansMissing, _) => InexactReason::MeansMissing,
            (Fault::MistakenForMissing, _) => InexactReason::MistakenForMissing,
            (Fault::NothingMeansMissing, _) => InexactReason::NothingMeansMissing,
        }
    }

    fn missing(&self, element: S) -> Option<T> {
        let nan = T::nan().filter(|_| element.is_nan());
        let same = || {
            T::exact(element.scalar())
                .filter(|same| self.step == &Step::Number && self.target_masks.contains(same))
        };
        nan.or_else(same).or_else(|| self.target_masks.first().copied()).or_else(T::nan)
    }
}

fn in_other_units<T: Element>(raw: Scalar, from: &TimeUnits, to: &TimeUnits) -> Option<T> {
    let instant = match raw {
        Scalar::Integer(NOT_A_TIME) => None,
        Scalar::Integer(raw) => from.instant_ns(raw),
        Scalar::Single(raw) => from.instant_ns_of_float(raw.into()),
        Scalar::Double(raw) => from.instant_ns_of_float(raw),
    }?;
    if instant < from.agrees_from_ns(to)? {
        return None;
    }
    if T::nan().is_none() {
        let number = to.whole_number(instant).filter(|number| *number != NOT_A_TIME)?;
        return T::exact(Scalar::Integer(number));
    }
    T::exact(Scalar::Double(to.number(instant)?))
}

fn text(scalar: Scalar) -> String {
    match scalar {
        Scalar::Integer(value) => value.to_string(),
        Scalar::Single(value) => format!("{value:?}"),
        Scalar::Double(value) => format!("{value:?}"),
    }
}
