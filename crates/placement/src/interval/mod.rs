//! Intervals: months, days and microseconds, which do not convert to each other by themselves, with
//! PostgreSQL's order, texts and arithmetic.
//!
//! In the order a month has 30 days and a day 24 hours, so that intervals with different parts can
//! be equal: `1 mon` and `30 days`. Equal ones have one key; see [`Interval::of_span`]. Infinite
//! intervals are left out, as in PostgreSQL 15.

mod age;
mod moved;
mod parse;
mod scale;
#[cfg(test)]
mod tests;

use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::clock::{MICROS_PER_DAY, MICROS_PER_SECOND, write_fraction};

pub use age::age;
pub use moved::{moved_local, moved_moment, time_after};

const MONTHS_PER_YEAR: i32 = 12;
const DAYS_PER_MONTH: i32 = 30;
const MICROS_PER_HOUR: i64 = 3600 * MICROS_PER_SECOND;
const MICROS_PER_MINUTE: i64 = 60 * MICROS_PER_SECOND;
/// The digits of a second after the point that a time can have.
pub const TIME_PRECISION_MAX: u8 = 6;

/// A span of time. `==` and the order are those of SQL; equal intervals can have other parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// A field that limits an interval literal, as in `INTERVAL '1' DAY`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalField {
    /// Years.
    Year,
    /// Months.
    Month,
    /// Days.
    Day,
    /// Hours.
    Hour,
    /// Minutes.
    Minute,
    /// Seconds.
    Second,
}

/// Why an interval does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntervalError {
    /// A text that is no interval.
    Syntax,
    /// A number in a text that is too large for its field.
    FieldRange,
    /// The interval is too large.
    Range,
}

impl fmt::Display for IntervalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IntervalError::Syntax => "invalid input syntax for type interval",
            IntervalError::FieldRange => "interval field value out of range",
            IntervalError::Range => "interval out of range",
        })
    }
}

impl core::error::Error for IntervalError {}

impl Interval {
    /// The shortest span, in the order of intervals.
    const SPAN_MIN: i128 = -Interval::SPAN_MAX - 1 - 31 * MICROS_PER_DAY as i128;
    /// The longest span.
    const SPAN_MAX: i128 = i32::MAX as i128 * 31 * MICROS_PER_DAY as i128 + i64::MAX as i128;

    /// Returns the interval of a text, in the forms that PostgreSQL reads. A number without a unit
    /// counts seconds.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Interval, IntervalError> {
        parse::read(text, None)
    }

    /// Returns the interval of a literal that has only the fields from `first` to `last`.
    ///
    /// # Errors
    /// The text is no interval.
    pub fn parse_fields(
        text: &str,
        (first, last): (IntervalField, IntervalField),
    ) -> Result<Interval, IntervalError> {
        let mut found = parse::read(text, Some((first, last)))?;
        match last {
            IntervalField::Year | IntervalField::Month => {
                if last == IntervalField::Year {
                    found.months -= found.months % MONTHS_PER_YEAR;
                }
                found.days = 0;
                found.micros = 0;
            }
            IntervalField::Day => found.micros = 0,
            IntervalField::Hour => found.micros -= found.micros % MICROS_PER_HOUR,
            IntervalField::Minute => found.micros -= found.micros % MICROS_PER_MINUTE,
            IntervalField::Second => {}
        }
        Ok(found)
    }

    /// Returns the microseconds of the interval in its order: 30 days a month, 24 hours a day.
    pub fn span(self) -> i128 {
        let days = i128::from(self.months) * i128::from(DAYS_PER_MONTH) + i128::from(self.days);
        days * i128::from(MICROS_PER_DAY) + i128::from(self.micros)
    }

    /// Returns the one interval that stands for all intervals with a span: that with the most
    /// months, and then the most days. Returns none if no interval is so long.
    pub fn of_span(span: i128) -> Option<Interval> {
        let day = i128::from(MICROS_PER_DAY);
        let month = day * i128::from(DAYS_PER_MONTH);
        if !(Interval::SPAN_MIN..=Interval::SPAN_MAX).contains(&span) {
            return None;
        }
        let within = |count: i128| {
            let clamped = count.clamp(i32::MIN.into(), i32::MAX.into());
            i32::try_from(clamped).expect("it is clamped")
        };
        let months = within(span / month);
        let rest = span - i128::from(months) * month;
        let days = within(rest / day);
        let micros = i64::try_from(rest - i128::from(days) * day).ok()?;
        Some(Interval {
            months,
            days,
            micros,
        })
    }

    /// Returns whether both intervals have the same parts.
    pub fn is_same(self, other: Interval) -> bool {
        let parts = |it: Interval| (it.months, it.days, it.micros);
        parts(self) == parts(other)
    }

    /// Returns the interval rounded to so many digits of a second, halves to the larger one
    /// without its sign; none if it is too large then.
    pub fn rounded(self, precision: u8) -> Option<Interval> {
        let unit = unit_of(precision);
        let half = unit / 2;
        let by = if self.micros < 0 { -half } else { half };
        let micros = self.micros.checked_add(by)?;
        Some(Interval {
            micros: micros - micros % unit,
            ..self
        })
    }

    /// Returns the years, of which a rest of months remains.
    pub fn years(self) -> i32 {
        self.months / MONTHS_PER_YEAR
    }

    /// Returns the months that are not in the years.
    pub fn months_of_year(self) -> i32 {
        self.months % MONTHS_PER_YEAR
    }

    /// Returns the sum of two intervals, part by part; none beyond the range of a part.
    pub fn plus(self, other: Interval) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_add(other.months)?,
            days: self.days.checked_add(other.days)?,
            micros: self.micros.checked_add(other.micros)?,
        })
    }

    /// Returns the difference of two intervals, part by part; none beyond the range of a part.
    pub fn minus(self, other: Interval) -> Option<Interval> {
        Some(Interval {
            months: self.months.checked_sub(other.months)?,
            days: self.days.checked_sub(other.days)?,
            micros: self.micros.checked_sub(other.micros)?,
        })
    }

    /// Returns the interval with the other sign of each part; none beyond the range of a part.
    pub fn negated(self) -> Option<Interval> {
        Interval::default().minus(self)
    }
}

/// Returns the microseconds of the last of so many digits of a second.
pub fn unit_of(precision: u8) -> i64 {
    match precision {
        0..TIME_PRECISION_MAX => 10_i64.pow(u32::from(TIME_PRECISION_MAX - precision)),
        _ => 1,
    }
}

/// Returns the microseconds since midnight, rounded to so many digits of a second.
pub fn rounded_time(micros: i64, precision: u8) -> i64 {
    let unit = unit_of(precision);
    (micros + unit / 2) / unit * unit
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Interval {}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.span().cmp(&other.span())
    }
}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.span().hash(state);
    }
}

/// The text with `IntervalStyle` `postgres`.
impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut is_first = true;
        // A positive part after a negative one has a sign.
        let mut is_after_negative = false;
        for (count, unit) in [
            (self.years(), "year"),
            (self.months_of_year(), "mon"),
            (self.days, "day"),
        ] {
            if count == 0 {
                continue;
            }
            let space = if is_first { "" } else { " " };
            let sign = if is_after_negative && count > 0 {
                "+"
            } else {
                ""
            };
            let end = if count == 1 { "" } else { "s" };
            write!(f, "{space}{sign}{count} {unit}{end}")?;
            is_first = false;
            is_after_negative = count < 0;
        }
        if !is_first && self.micros == 0 {
            return Ok(());
        }
        let space = if is_first { "" } else { " " };
        let sign = match (self.micros < 0, is_after_negative) {
            (true, _) => "-",
            (false, true) => "+",
            (false, false) => "",
        };
        let size = self.micros.unsigned_abs();
        let seconds = size / MICROS_PER_SECOND.unsigned_abs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(f, "{space}{sign}{hours:02}:{minutes:02}:{seconds:02}")?;
        write_fraction(f, size % MICROS_PER_SECOND.unsigned_abs())
    }
}
