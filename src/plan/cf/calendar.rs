//! The calendars of the CF conventions: from a date to a day on the calendar's own line.
//!
//! <https://cfconventions.org/cf-conventions/cf-conventions.html#calendar>. Days of two calendars
//! must never be compared: only [`Calendar::Standard`] and [`Calendar::ProlepticGregorian`] share
//! a part of their lines, from 1582-10-15 on ([`Calendar::agrees_from`]).

/// A calendar. Synonyms are the same calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Calendar {
    /// Julian until 1582-10-04, Gregorian from 1582-10-15, the next day. There is no year 0.
    Standard,
    /// Gregorian at all times, with a year 0.
    ProlepticGregorian,
    /// Every year has 365 days.
    NoLeap,
    /// Every year has 366 days.
    AllLeap,
    /// Every month has 30 days.
    Days360,
    /// Julian at all times. There is no year 0.
    Julian,
}

/// Days before each month of a year of 365 days.
const DAYS_BEFORE: [i64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
/// Days of each month of a year of 365 days.
const DAYS_OF: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
/// How far the number of a day in [`Rule::Julian`] is ahead of the one in [`Rule::Gregorian`].
const JULIAN_AHEAD_DAYS: i64 = 2;
/// The first Gregorian day of the standard calendar, and the first date that it leaves out.
const GREGORIAN_FROM: (i64, u32, u32) = (1582, 10, 15);
const LEFT_OUT_FROM: (i64, u32, u32) = (1582, 10, 5);

/// How leap years fall.
#[derive(Clone, Copy)]
enum Rule {
    Gregorian,
    Julian,
    Never,
    Always,
}

impl Calendar {
    /// The calendar with this name, in any case; `None` for those that are not known here.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "standard" | "gregorian" => Self::Standard,
            "proleptic_gregorian" => Self::ProlepticGregorian,
            "noleap" | "365_day" => Self::NoLeap,
            "all_leap" | "366_day" => Self::AllLeap,
            "360_day" => Self::Days360,
            "julian" => Self::Julian,
            _ => return None,
        })
    }

    /// The first day from which on both calendars are the same line; `None` if there is none.
    pub fn agrees_from(self, other: Self) -> Option<i64> {
        let (year, month, day) = GREGORIAN_FROM;
        match (self, other) {
            (one, other) if one == other => Some(i64::MIN),
            (Self::Standard, Self::ProlepticGregorian)
            | (Self::ProlepticGregorian, Self::Standard) => {
                Rule::Gregorian.day_number(year, month, day)
            }
            _ => None,
        }
    }

    /// The date of a day on this calendar's line; `None` far beyond the years that people write.
    pub fn date(self, day: i64) -> Option<(i64, u32, u32)> {
        const YEARS: i64 = 100_000;
        // Where there is no year 0, year 1 stands for it.
        let begins =
            |year: i64| self.day_number(year, 1, 1).or_else(|| self.day_number(year + 1, 1, 1));
        let (mut year, mut after) = (-YEARS, YEARS);
        if begins(year)? > day || begins(after)? <= day {
            return None;
        }
        while after - year > 1 {
            let middle = year + (after - year) / 2;
            if begins(middle)? <= day { year = middle } else { after = middle }
        }
        let month =
            (1..=12).rev().find(|m| self.day_number(year, *m, 1).is_some_and(|d| d <= day))?;
        let date = (1..=31).find(|date| self.day_number(year, month, *date) == Some(day))?;
        Some((year, month, date))
    }

    /// The day of a date on this calendar's line, whose origin has no meaning; `None` for a date
    /// that the calendar does not have. Years before 1 are counted as CF has it: where there is no
    /// year 0, year -1 comes before year 1.
    pub fn day_number(self, year: i64, month: u32, day: u32) -> Option<i64> {
        let astronomical = match self {
            Self::Standard | Self::Julian if year == 0 => return None,
            Self::Standard | Self::Julian if year < 0 => year.checked_add(1)?,
            _ => year,
        };
        match self {
            Self::Standard => {
                let date = (year, month, day);
                if date >= GREGORIAN_FROM {
                    Rule::Gregorian.day_number(astronomical, month, day)
                } else if date >= LEFT_OUT_FROM {
                    None
                } else {
                    let julian = Rule::Julian.day_number(astronomical, month, day)?;
                    julian.checked_sub(JULIAN_AHEAD_DAYS)
                }
            }
            Self::ProlepticGregorian => Rule::Gregorian.day_number(astronomical, month, day),
            Self::Julian => Rule::Julian.day_number(astronomical, month, day),
            Self::NoLeap => Rule::Never.day_number(astronomical, month, day),
            Self::AllLeap => Rule::Always.day_number(astronomical, month, day),
            Self::Days360 => {
                let exists = (1..=12).contains(&month) && (1..=30).contains(&day);
                let months = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?;
                exists.then_some(months)?.checked_mul(30)?.checked_add(i64::from(day) - 1)
            }
        }
    }
}

impl Rule {
    fn is_leap(self, year: i64) -> bool {
        match self {
            Self::Gregorian => {
                year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
            }
            Self::Julian => year.rem_euclid(4) == 0,
            Self::Never => false,
            Self::Always => true,
        }
    }

    /// Days from the start of year 0 to the start of this one.
    fn days_before_year(self, year: i64) -> Option<i64> {
        // Years before this one, counted from year 0, that a divisor divides.
        let divided_by = |divisor: i64| Some(year.checked_add(divisor - 1)?.div_euclid(divisor));
        let leap_days = match self {
            Self::Gregorian => divided_by(4)? - divided_by(100)? + divided_by(400)?,
            Self::Julian => divided_by(4)?,
            Self::Never => 0,
            Self::Always => year,
        };
        year.checked_mul(365)?.checked_add(leap_days)
    }

    fn day_number(self, year: i64, month: u32, day: u32) -> Option<i64> {
        let index = usize::try_from(month.checked_sub(1)?).ok()?;
        let leap = self.is_leap(year);
        let days = DAYS_OF.get(index)? + i64::from(leap && month == 2);
        if !(1..=days).contains(&i64::from(day)) {
            return None;
        }
        let before_month = DAYS_BEFORE.get(index)? + i64::from(leap && month > 2);
        self.days_before_year(year)?.checked_add(before_month + i64::from(day) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Days from the first date to the second.
    fn days(calendar: Calendar, from: (i64, u32, u32), to: (i64, u32, u32)) -> i64 {
        let number = |date: (i64, u32, u32)| calendar.day_number(date.0, date.1, date.2).unwrap();
        number(to) - number(from)
    }

    #[test]
    fn the_gregorian_calendars_agree_from_the_day_of_the_reform_on() {
        let (standard, proleptic) = (Calendar::Standard, Calendar::ProlepticGregorian);
        let from = standard.agrees_from(proleptic).unwrap();
        assert_eq!(standard.date(from), Some((1582, 10, 15)));
        for day in [from, from + 1, from + 200_000] {
            assert_eq!(standard.date(day), proleptic.date(day));
        }
        assert_ne!(standard.date(from - 1), proleptic.date(from - 1));
        assert_eq!(standard.agrees_from(Calendar::NoLeap), None);
    }

    #[test]
    fn synonyms_are_equal_in_any_case() {
        assert_eq!(Calendar::parse("Gregorian"), Calendar::parse("standard"));
        assert_eq!(Calendar::parse("365_DAY"), Some(Calendar::NoLeap));
        assert_eq!(Calendar::parse("366_day"), Calendar::parse("ALL_leap"));
        assert_eq!(Calendar::parse("360_day"), Some(Calendar::Days360));
        assert_ne!(Calendar::parse("standard"), Calendar::parse("proleptic_gregorian"));
        for unknown in ["", "none", "tai", "utc", "360"] {
            assert_eq!(Calendar::parse(unknown), None);
        }
    }

    #[test]
    fn days_are_those_of_cftime() {
        use Calendar::{AllLeap, Days360, Julian, NoLeap, ProlepticGregorian, Standard};
        // `cftime.date2num(to, "days since FROM", calendar)`, cftime 1.6.6.
        let all = [Standard, ProlepticGregorian, NoLeap, AllLeap, Days360, Julian];
        for (from, to, expected) in EXPECTED {
            for (calendar, expected) in all.into_iter().zip(expected) {
                assert_eq!(days(calendar, from, to), expected, "{calendar:?} {from:?} {to:?}");
            }
        }
    }

    #[test]
    fn dates_that_a_calendar_does_not_have_are_none() {
        for (calendar, year, month, day) in [
            (Calendar::Standard, 1582, 10, 5),
            (Calendar::Standard, 1582, 10, 14),
            (Calendar::Standard, 1900, 2, 29),
            (Calendar::Standard, 0, 1, 1),
            (Calendar::Julian, 0, 1, 1),
            (Calendar::Julian, 1901, 2, 29),
            (Calendar::NoLeap, 2000, 2, 29),
            (Calendar::AllLeap, 2000, 2, 30),
            (Calendar::Days360, 2000, 1, 31),
            (Calendar::Days360, 2000, 13, 1),
            (Calendar::ProlepticGregorian, 2000, 0, 1),
            (Calendar::ProlepticGregorian, 2000, 1, 0),
            (Calendar::ProlepticGregorian, i64::MAX, 1, 1),
            (Calendar::Days360, i64::MIN, 1, 1),
        ] {
            assert_eq!(calendar.day_number(year, month, day), None, "{calendar:?} {year}");
        }
    }

    type Date = (i64, u32, u32);

    /// In the order of `all`.
    const EXPECTED: [(Date, Date, [i64; 6]); 11] = [
        ((2000, 1, 1), (2001, 1, 1), [366, 366, 365, 366, 360, 366]),
        ((1900, 2, 28), (1900, 3, 1), [1, 1, 1, 2, 3, 2]),
        ((2000, 2, 28), (2000, 3, 1), [2, 2, 1, 2, 3, 2]),
        ((1582, 10, 4), (1582, 10, 15), [1, 11, 11, 11, 11, 11]),
        ((1582, 10, 15), (2000, 1, 1), [152_384, 152_384, 152_283, 152_700, 150_196, 152_387]),
        ((1, 1, 1), (1582, 10, 4), [577_736, 577_724, 577_341, 578_923, 569_433, 577_736]),
        ((1, 1, 1), (2000, 3, 1), [730_181, 730_179, 729_694, 731_694, 719_700, 730_194]),
        ((-1, 12, 30), (1, 1, 1), [2, 368, 367, 368, 361, 2]),
        ((-400, 3, 1), (4, 3, 1), [147_196, 147_558, 147_460, 147_864, 145_440, 147_196]),
        (
            (1600, 12, 30),
            (9999, 12, 30),
            [3_067_671, 3_067_671, 3_065_635, 3_074_034, 3_023_640, 3_067_734],
        ),
        ((2000, 2, 28), (2400, 3, 1), [146_099, 146_099, 146_001, 146_402, 144_003, 146_102]),
    ];
}
