//! Units of time as CF has them, `hours since 2000-01-01`, and the instants that numbers in them
//! mean.
//!
//! Units are taken apart only where xarray (through pandas) and cftime agree on what they mean.
//! Everything else is `None`: such units are a text, equal to nothing but itself. That is the case
//! for months and years; for zones such as `-6`, which cftime does not see; for a lone hour; and
//! for years that are not written with four digits where four digits follow elsewhere, which makes
//! xarray leave the order of the date to a guess.
//!
//! Instants are whole nanoseconds on the line of the calendar.

use std::fmt;

use super::calendar::Calendar;

/// Nanoseconds of a minute, and of an hour.
const MINUTE_NS: i128 = 60 * 1_000_000_000;
const HOUR_NS: i128 = 60 * MINUTE_NS;
/// Nanoseconds of a day.
const DAY_NS: i128 = 24 * HOUR_NS;
/// Digits of the fraction of a second that cftime sees.
const FRACTION_DIGITS_MAX: usize = 6;
/// Digits of a year at most.
const YEAR_DIGITS_MAX: usize = 5;

/// A fixed span of time, from coarse to fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants are the names of the spans")]
pub enum TimeUnit {
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    Nanosecond,
}

impl TimeUnit {
    /// All of them, from coarse to fine.
    pub const ALL: [Self; 8] = [
        Self::Week,
        Self::Day,
        Self::Hour,
        Self::Minute,
        Self::Second,
        Self::Millisecond,
        Self::Microsecond,
        Self::Nanosecond,
    ];

    /// Full names in any case; short ones as UDUNITS has them, where `S` is no second.
    fn parse(text: &str) -> Option<Self> {
        let full = Self::ALL.into_iter().find(|unit| {
            let plural = unit.name();
            text.eq_ignore_ascii_case(plural)
                || plural.strip_suffix('s').is_some_and(|one| text.eq_ignore_ascii_case(one))
        });
        full.or_else(|| {
            Some(match text {
                "d" => Self::Day,
                "h" | "hr" | "hrs" => Self::Hour,
                "min" | "mins" => Self::Minute,
                "s" | "sec" | "secs" => Self::Second,
                "ms" | "msec" | "msecs" | "millisec" | "millisecs" => Self::Millisecond,
                "us" | "microsec" | "microsecs" => Self::Microsecond,
                "ns" | "nanosec" | "nanosecs" => Self::Nanosecond,
                _ => return None,
            })
        })
    }

    /// The name that every reader knows, a plural.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Week => "weeks",
            Self::Day => "days",
            Self::Hour => "hours",
            Self::Minute => "minutes",
            Self::Second => "seconds",
            Self::Millisecond => "milliseconds",
            Self::Microsecond => "microseconds",
            Self::Nanosecond => "nanoseconds",
        }
    }

    /// Its length in nanoseconds.
    pub const fn nanoseconds(self) -> i128 {
        match self {
            Self::Week => 7 * DAY_NS,
            Self::Day => DAY_NS,
            Self::Hour => HOUR_NS,
            Self::Minute => MINUTE_NS,
            Self::Second => 1_000_000_000,
            Self::Millisecond => 1_000_000,
            Self::Microsecond => 1_000,
            Self::Nanosecond => 1,
        }
    }
}

/// A unit, a reference and the calendar both are in. Shown as the text of a `units` attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeUnits {
    unit: TimeUnit,
    calendar: Calendar,
    reference_ns: i128,
    /// The reference as it was written.
    reference: String,
    /// The whole attribute.
    text: String,
}

impl TimeUnits {
    /// From the attributes `units` and `calendar`; without the second it is the standard calendar.
    /// `None` for everything that is not clear.
    pub fn parse(units: &str, calendar: Option<&str>) -> Option<Self> {
        let calendar = calendar.map_or(Some(Calendar::Standard), Calendar::parse)?;
        let (unit, reference) = units.split_once(" since ")?;
        let (unit, reference) = (unit.trim_matches(' '), reference.trim_matches(' '));
        let reference_ns = reference_ns(reference, calendar)?;
        Some(Self {
            unit: TimeUnit::parse(unit)?,
            calendar,
            reference_ns,
            reference: reference.to_owned(),
            text: units.to_owned(),
        })
    }

    /// The same reference with another unit.
    #[must_use]
    pub fn with_unit(&self, unit: TimeUnit) -> Self {
        let text = format!("{} since {}", unit.name(), self.reference);
        Self { unit, text, ..self.clone() }
    }

    /// What is counted.
    pub fn unit(&self) -> TimeUnit {
        self.unit
    }

    /// The calendar of the reference and of all instants.
    pub fn calendar(&self) -> Calendar {
        self.calendar
    }

    /// The instant of number 0.
    pub fn reference_ns(&self) -> i128 {
        self.reference_ns
    }

    /// An instant as a date of the calendar, for people: `2000-01-01`, `2000-01-01T06:00:00`.
    pub fn date_text(&self, instant_ns: i128) -> String {
        const SECOND: i128 = 1_000_000_000;
        const DAY: i128 = 86_400 * SECOND;
        let date = i64::try_from(instant_ns.div_euclid(DAY)).ok();
        let Some((year, month, day)) = date.and_then(|day| self.calendar.date(day)) else {
            return format!("{instant_ns} ns");
        };
        let date = format!("{year:04}-{month:02}-{day:02}");
        let rest = instant_ns.rem_euclid(DAY);
        if rest == 0 {
            return date;
        }
        let (seconds, fraction) = (rest / SECOND, rest % SECOND);
        let time = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        if fraction == 0 {
            format!("{date}T{time}")
        } else {
            format!("{date}T{time}.{fraction:09}")
        }
    }

    /// The first instant from which on both calendars are the same; `None` if there is none.
    pub fn agrees_from_ns(&self, other: &Self) -> Option<i128> {
        let day = self.calendar.agrees_from(other.calendar)?;
        Some(i128::from(day) * TimeUnit::Day.nanoseconds())
    }

    /// Whether every number means the same instant in both.
    pub fn means_the_same(&self, other: &Self) -> bool {
        (self.unit, self.calendar, self.reference_ns)
            == (other.unit, other.calendar, other.reference_ns)
    }

    /// The instant of a whole number; `None` beyond any time.
    pub fn instant_ns(&self, raw: i128) -> Option<i128> {
        raw.checked_mul(self.unit.nanoseconds())?.checked_add(self.reference_ns)
    }

    /// The instant nearest to a number; `None` for what is no number and beyond any time.
    pub fn instant_ns_of_float(&self, raw: f64) -> Option<i128> {
        nearest_product(raw, self.unit.nanoseconds())?.checked_add(self.reference_ns)
    }

    /// The whole number that means this instant, if there is one.
    pub fn whole_number(&self, instant_ns: i128) -> Option<i128> {
        let distance = instant_ns.checked_sub(self.reference_ns)?;
        let unit = self.unit.nanoseconds();
        (distance % unit == 0).then_some(distance / unit)
    }

    /// A number that means this instant, to the nanosecond, if there is one.
    pub fn number(&self, instant_ns: i128) -> Option<f64> {
        let distance = instant_ns.checked_sub(self.reference_ns)?;
        let unit = self.unit.nanoseconds();
        #[allow(clippy::cast_precision_loss, reason = "checked by converting back")]
        let number = (distance / unit) as f64 + (distance % unit) as f64 / unit as f64;
        (self.instant_ns_of_float(number) == Some(instant_ns)).then_some(number)
    }
}

impl fmt::Display for TimeUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The instant of a reference such as `2000-01-01 00:00:00 +01:00`.
fn reference_ns(text: &str, calendar: Calendar) -> Option<i128> {
    let date_end = text.find([' ', 'T', 'Z']).unwrap_or(text.len());
    let (date, rest) = text.split_at_checked(date_end)?;
    let (year, month, day) = date_of(date)?;
    let written_year = date.trim_start_matches('-').split('-').next()?;
    if written_year.len() < 4 && has_four_digits(text) {
        return None;
    }
    let day_number = calendar.day_number(year, month, day)?;
    let (time, zone) = split_zone(rest)?;
    let time_ns = match time {
        "" => 0,
        time => time_ns(time.strip_prefix([' ', 'T'])?)?,
    };
    Some(i128::from(day_number) * DAY_NS + time_ns - zone_ns(zone)?)
}

fn date_of(text: &str) -> Option<(i64, u32, u32)> {
    let (before_christ, positive) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = positive.split('-');
    let year: i64 = digits(parts.next()?, 1, YEAR_DIGITS_MAX)?.into();
    let (month, day) = (digits(parts.next()?, 1, 2)?, digits(parts.next()?, 1, 2)?);
    let year = if before_christ { -year } else { year };
    parts.next().is_none().then_some((year, month, day))
}

/// `h:m`, `h:m:s` or `h:m:s.fraction`.
fn time_ns(text: &str) -> Option<i128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = whole.split(':');
    let hour = digits(parts.next()?, 1, 2).filter(|hour| *hour < 24)?;
    let minute = digits(parts.next()?, 1, 2).filter(|minute| *minute < 60)?;
    let second = parts.next().map_or(Some(0), |second| digits(second, 1, 2));
    let second = second.filter(|second| *second < 60)?;
    let is_complete = whole.split(':').count() == 3 || whole.len() == text.len();
    if parts.next().is_some() || !is_complete {
        return None;
    }
    let seconds = 3600 * i128::from(hour) + 60 * i128::from(minute) + i128::from(second);
    Some(seconds * TimeUnit::Second.nanoseconds() + fraction_ns(fraction)?)
}

/// The digits behind the point of a second.
fn fraction_ns(text: &str) -> Option<i128> {
    let significant = text.trim_end_matches('0');
    let all_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits || significant.len() > FRACTION_DIGITS_MAX {
        return None;
    }
    let micros: i128 = format!("{significant:0<6}").parse().ok()?;
    // cftime cuts off where the decimal fraction is a little less than it says.
    let as_cftime = format!("0.{significant}").parse::<f64>().map_or(-1.0, |part| part * 1e6);
    #[allow(clippy::cast_possible_truncation, reason = "cutting off is what cftime does")]
    let as_cftime = as_cftime as i128;
    (significant.is_empty() || as_cftime == micros)
        .then_some(micros * TimeUnit::Microsecond.nanoseconds())
}

/// What stands behind the date as time and zone.
fn split_zone(text: &str) -> Option<(&str, &str)> {
    for name in ["UTC", "GMT", "Z"] {
        if let Some(time) = text.strip_suffix(name) {
            return Some((time.strip_suffix(' ').unwrap_or(time), ""));
        }
    }
    match text.find(['+', '-']) {
        Some(at) => {
            let (time, zone) = text.split_at_checked(at)?;
            Some((time.strip_suffix(' ').unwrap_or(time), zone))
        }
        None => Some((text, "")),
    }
}

/// How far a zone is ahead of UTC: `+01:00`, `+0100`, `+01`. Shorter forms are not known to cftime.
fn zone_ns(text: &str) -> Option<i128> {
    let Some(sign) = text.bytes().next() else { return Some(0) };
    let rest = text.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match rest.len() {
        2 => (rest, "00"),
        4 => rest.split_at_checked(2)?,
        _ => rest.split_once(':')?,
    };
    let hours = digits(hours, 2, 2).filter(|hours| *hours < 24)?;
    let minutes = digits(minutes, 2, 2).filter(|minutes| *minutes < 60)?;
    let ahead = i128::from(hours) * HOUR_NS + i128::from(minutes) * MINUTE_NS;
    Some(if sign == b'-' { -ahead } else { ahead })
}

/// A number without sign, of so many digits.
fn digits(text: &str, least: usize, most: usize) -> Option<u32> {
    let right = (least..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    right.then(|| text.parse().ok()).flatten()
}

fn has_four_digits(text: &str) -> bool {
    text.as_bytes().windows(4).any(|four| four.iter().all(u8::is_ascii_digit))
}

/// The whole number nearest to `number * factor`, ties to even. The product is exact before it is
/// rounded. `factor` is below 2^63.
fn nearest_product(number: f64, factor: i128) -> Option<i128> {
    const MANTISSA_BITS: u32 = 52;
    const EXPONENT_BIAS: i32 = 1075;
    if !number.is_finite() {
        return None;
    }
    let bits = number.to_bits();
    let stated = i32::try_from((bits >> MANTISSA_BITS) & 0x7ff).ok()?;
    let fraction = i128::from(bits & ((1 << MANTISSA_BITS) - 1));
    let mantissa = if stated == 0 { fraction } else { fraction | (1 << MANTISSA_BITS) };
    let exponent = stated.max(1) - EXPONENT_BIAS;
    let product = mantissa.checked_mul(factor)?;
    let magnitude = if exponent >= 0 {
        let shift = u32::try_from(exponent).ok()?;
        if product != 0 && shift >= product.leading_zeros().saturating_sub(1) {
            return None;
        }
        product.checked_shl(shift).unwrap_or(0)
    } else {
        let shift = exponent.unsigned_abs();
        // A product has at most 116 bits: what is shifted further is less than a half.
        if shift > 120 {
            return Some(0);
        }
        let (floor, rest, half) =
            (product >> shift, product & ((1 << shift) - 1), 1 << (shift - 1));
        floor + i128::from(rest > half || (rest == half && floor % 2 != 0))
    };
    Some(if number.is_sign_negative() { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(units: &str, calendar: &str) -> TimeUnits {
        TimeUnits::parse(units, Some(calendar)).unwrap_or_else(|| panic!("{units}"))
    }

    /// Seconds from 2000-01-01 in the calendar to the reference.
    fn reference_seconds(reference: &str, calendar: &str) -> Option<f64> {
        let origin = parse("seconds since 2000-01-01", calendar);
        let units = TimeUnits::parse(&format!("days since {reference}"), Some(calendar))?;
        origin.number(units.reference_ns)
    }

    #[test]
    fn references_are_what_xarray_and_cftime_read() {
        for (reference, expected) in [
            ("2000-01-01", 0.0),
            ("2000-1-1 0:0:0.0", 0.0),
            ("2000-01-01T00:00:00Z", 0.0),
            ("2000-01-01 00:00:00 UTC", 0.0),
            ("2000-01-01 UTC", 0.0),
            ("2000-01-01Z", 0.0),
            ("2000-01-01 6:00", 21600.0),
            ("2000-01-01 06:30:15.25", 23415.25),
            ("2000-01-01T06:30:15.000000 GMT", 23415.0),
            ("2000-01-01 00:00:00 +01:00", -3600.0),
            ("2000-01-01T00:00:00+0130", -5400.0),
            ("2000-01-01 00:00:00 -06", 21600.0),
            ("2000-01-01 06:00 -06:00", 43200.0),
            ("2000-01-01 +01:00", -3600.0),
            ("2000-1-13", 1_036_800.0),
            ("1-1-1", -63_082_454_400.0),
            ("0001-01-01", -63_082_454_400.0),
            ("-1-1-1", -63_114_076_800.0),
        ] {
            assert_eq!(reference_seconds(reference, "standard"), Some(expected), "{reference}");
        }
    }

    #[test]
    fn references_that_readers_do_not_agree_on_are_opaque() {
        for reference in [
            "2000-01-01 -6",
            "2000-01-01 00:00:00 -6:00",
            "2000-01-01 00:00:00 +1",
            "2000-01-01 06",
            "2000-01-01T06",
            "2000-01-01 00:00:00  +01:00",
            "2000-01-01  06:00:00",
            "2000-01-01 00:00:00.123456789",
            "2000-01-01 00:00.5",
            "2000-01-01 12:00:60",
            "2000-01-01 24:00",
            "1-1-1 00:00:00.0000",
            "1-1-1 00:00:00 +0100",
            "01-01-2000",
            "2000/01/01",
            "20000101",
            "2000-01",
            "2000",
            "2000-02-30",
            "1582-10-10",
            "0-1-1",
            "2000-01-01, 00:00",
            "2000-01-01 00:00 1:30",
            "2000-01-01 EST",
            "2000-01-01 T",
            "",
        ] {
            assert_eq!(reference_seconds(reference, "standard"), None, "{reference}");
        }
        assert_eq!(TimeUnits::parse("days since 2000-01-01", Some("tai")), None);
    }

    #[test]
    fn spellings_of_units() {
        for (spelling, unit) in [
            ("weeks", TimeUnit::Week),
            ("Days", TimeUnit::Day),
            ("d", TimeUnit::Day),
            ("hour", TimeUnit::Hour),
            ("hrs", TimeUnit::Hour),
            ("mins", TimeUnit::Minute),
            ("SECONDS", TimeUnit::Second),
            ("s", TimeUnit::Second),
            ("msec", TimeUnit::Millisecond),
            ("microsec", TimeUnit::Microsecond),
            ("us", TimeUnit::Microsecond),
            ("nanosecond", TimeUnit::Nanosecond),
        ] {
            let units = format!("{spelling} since 2000-01-01");
            assert_eq!(parse(&units, "standard").unit(), unit, "{spelling}");
        }
        for spelling in ["months", "years", "common_years", "m", "S", "Ms", "fortnights", "day s"] {
            let units = format!("{spelling} since 2000-01-01");
            assert_eq!(TimeUnits::parse(&units, None), None, "{spelling}");
        }
        for units in ["days", "since 2000-01-01", "days Since 2000-01-01", "days since"] {
            assert_eq!(TimeUnits::parse(units, None), None, "{units}");
        }
    }

    #[test]
    fn a_finer_unit_keeps_the_reference_as_it_is_written() {
        let days = parse("days  since 2000-1-1 0:0:0", "noleap");
        assert_eq!(days.to_string(), "days  since 2000-1-1 0:0:0");
        assert!(TimeUnit::Day < TimeUnit::Hour);
        let hours = days.with_unit(TimeUnit::Hour);
        assert_eq!(hours.to_string(), "hours since 2000-1-1 0:0:0");
        assert_eq!(hours.whole_number(days.instant_ns(3).unwrap()), Some(72));
        assert_eq!(days.whole_number(hours.instant_ns(71).unwrap()), None);
    }

    #[test]
    fn zones_move_the_reference_across_a_month_of_30_days() {
        // cftime: 1999-12-30 23:00.
        assert_eq!(reference_seconds("2000-01-01 +01:00", "360_day"), Some(-3600.0));
        assert_eq!(reference_seconds("1999-12-30 23:00", "360_day"), Some(-3600.0));
    }

    #[test]
    fn floats_mean_the_nearest_nanosecond() {
        let days = parse("days since 2000-01-01", "standard");
        let ns =
            |raw: f64| days.instant_ns_of_float(raw).map(|instant| instant - days.reference_ns);
        assert_eq!(ns(0.1), Some(8_640_000_000_000));
        assert_eq!(ns(-0.25), Some(-21_600_000_000_000));
        // `round(Fraction(10000.1) * 86400 * 10**9)` in Python.
        assert_eq!(ns(10000.1), Some(864_008_640_000_000_031));
        assert_eq!(ns(1e-20), Some(0));
        assert_eq!(ns(5e-324), Some(0));
        assert_eq!(ns(1e30), None);
        assert_eq!(ns(f64::MAX), None);
        for no_instant in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(ns(no_instant), None);
        }
        let ns = parse("nanoseconds since 2000-01-01", "standard");
        let at = |raw: f64| ns.instant_ns_of_float(raw).unwrap() - ns.reference_ns;
        assert_eq!([at(0.5), at(1.5), at(2.5), at(-1.5)], [0, 2, 2, -2]);
        assert_eq!(at(2f64.powi(90)), 1 << 90);
    }

    #[test]
    fn a_number_is_given_only_if_it_means_the_instant() {
        let days = parse("days since 2000-01-01", "standard");
        let quarter = days.reference_ns + 6 * HOUR_NS;
        assert_eq!(days.number(quarter), Some(0.25));
        assert_eq!(days.whole_number(quarter), None);
        // 10,000 days and 1 ns: a float64 has no number for it.
        assert_eq!(days.number(days.reference_ns + 10_000 * DAY_NS + 1), None);
        assert_eq!(days.number(i128::MAX), None);
    }
}
