//! Reads intervals from text, in the forms that PostgreSQL reads: `1 day 02:03:04`,
//! `1 year 2 mons ago`, `1-2 3 4:05`, and ISO 8601's `P1Y2M3DT4H5M6S`.
//!
//! A text is cut into fields, which are read from the last one to the first one, so that a unit is
//! known before its number.

mod iso;

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    DAYS_PER_MONTH, Interval, IntervalError, IntervalField, MICROS_PER_HOUR, MICROS_PER_MINUTE,
    MONTHS_PER_YEAR,
};
use crate::clock::{MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::float::round_half_even;

type Parsed<T> = Result<T, IntervalError>;

/// The most fields of a text.
const FIELDS_MAX: usize = 25;
/// The most bytes of all fields, each with one for its end.
const FIELD_BYTES_MAX: usize = 255;

/// Reads an interval. A number without a unit counts the last one of the fields, or seconds.
pub(super) fn read(text: &str, fields: Option<(IntervalField, IntervalField)>) -> Parsed<Interval> {
    let read = cut(text).and_then(|it| of_fields(&it, fields));
    let parts = match read {
        Err(IntervalError::Syntax) => iso::read(text)?,
        read => read?,
    };
    let months = i64::from(parts.years) * i64::from(MONTHS_PER_YEAR) + i64::from(parts.months);
    Ok(Interval {
        months: i32::try_from(months).map_err(|_| IntervalError::Range)?,
        days: parts.days,
        micros: parts.micros,
    })
}

/// The parts of an interval that were read so far.
#[derive(Default)]
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    micros: i64,
}

impl Parts {
    /// Adds a number of a unit. The fraction has the sign of the number.
    fn add(&mut self, unit: Unit, (whole, fraction): (i64, f64)) -> Parsed<()> {
        let days = |parts: &mut Parts, each: i32| -> Option<()> {
            let whole = i32::try_from(whole).ok()?.checked_mul(each)?;
            parts.days = parts.days.checked_add(whole)?;
            Some(())
        };
        let added = match unit {
            Unit::Micros(each) => whole
                .checked_mul(each)
                .and_then(|it| self.micros.checked_add(it))
                .map(|it| self.micros = it)
                .and_then(|()| self.add_micros(fraction, each)),
            Unit::Day => days(self, 1).and_then(|()| self.add_micros(fraction, MICROS_PER_DAY)),
            Unit::Week => days(self, 7).and_then(|()| self.add_days(fraction, 7)),
            Unit::Month => i32::try_from(whole)
                .ok()
                .and_then(|it| self.months.checked_add(it))
                .map(|it| self.months = it)
                .and_then(|()| self.add_days(fraction, DAYS_PER_MONTH)),
            Unit::Years(each) => i32::try_from(whole)
                .ok()
                .and_then(|it| it.checked_mul(each))
                .and_then(|it| self.years.checked_add(it))
                .map(|it| self.years = it)
                .and_then(|()| {
                    let months = fraction * f64::from(each) * f64::from(MONTHS_PER_YEAR);
                    self.months = self.months.checked_add(round_half_even(months) as i32)?;
                    Some(())
                }),
            Unit::Unknown => return Err(IntervalError::Syntax),
        };
        added.ok_or(IntervalError::FieldRange)
    }

    /// Adds a fraction of so many microseconds, to the nearest one.
    fn add_micros(&mut self, fraction: f64, each: i64) -> Option<()> {
        let scaled = fraction * each as f64;
        let whole = scaled as i64;
        let rest = scaled - whole as f64;
        let by = i64::from(rest > 0.5) - i64::from(rest < -0.5);
        self.micros = self.micros.checked_add(whole + by)?;
        Some(())
    }

    /// Adds a fraction of so many days.
    fn add_days(&mut self, fraction: f64, each: i32) -> Option<()> {
        let scaled = fraction * f64::from(each);
        let whole = scaled as i32;
        self.days = self.days.checked_add(whole)?;
        self.add_micros(scaled - f64::from(whole), MICROS_PER_DAY)
    }

    fn negate(&mut self) -> Option<()> {
        self.years = self.years.checked_neg()?;
        self.months = self.months.checked_neg()?;
        self.days = self.days.checked_neg()?;
        self.micros = self.micros.checked_neg()?;
        Some(())
    }
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// So many microseconds.
    Micros(i64),
    Day,
    Week,
    Month,
    /// So many years.
    Years(i32),
    /// A unit that no interval has.
    Unknown,
}

/// The unit and the bit by which a second number of it is found.
fn unit_of(word: &str) -> Option<(Unit, u16)> {
    const MILLIS: i64 = 1000;
    // Longer words are compared by their first letters.
    let word = word.get(..10).unwrap_or(word);
    Some(match word {
        "us" | "usec" | "usecs" | "useconds" | "microsecon" => (Unit::Micros(1), MICROS),
        "ms" | "msec" | "msecs" | "mseconds" | "millisecon" => (Unit::Micros(MILLIS), MILLISECONDS),
        "s" | "sec" | "secs" | "second" | "seconds" => (Unit::Micros(MICROS_PER_SECOND), SECONDS),
        "m" | "min" | "mins" | "minute" | "minutes" => (Unit::Micros(MICROS_PER_MINUTE), MINUTES),
        "h" | "hr" | "hrs" | "hour" | "hours" => (Unit::Micros(MICROS_PER_HOUR), HOURS),
        "d" | "day" | "days" => (Unit::Day, 1 << 5),
        "w" | "week" | "weeks" => (Unit::Week, 1 << 6),
        "mon" | "mons" | "month" | "months" => (Unit::Month, 1 << 7),
        "y" | "yr" | "yrs" | "year" | "years" => (Unit::Years(1), 1 << 8),
        "dec" | "decs" | "decade" | "decades" => (Unit::Years(10), 1 << 9),
        "c" | "cent" | "century" | "centuries" => (Unit::Years(100), 1 << 10),
        "mil" | "mils" | "millennia" | "millennium" => (Unit::Years(1000), 1 << 11),
        "qtr" | "quarter" | "timezone" | "timezone_h" | "timezone_m" => (Unit::Unknown, 0),
        _ => return None,
    })
}

const MICROS: u16 = 1;
const MILLISECONDS: u16 = 1 << 1;
const SECONDS: u16 = 1 << 2;
const MINUTES: u16 = 1 << 3;
const HOURS: u16 = 1 << 4;
/// A time of the day has all of these.
const CLOCK: u16 = MICROS | MILLISECONDS | SECONDS | MINUTES | HOURS;

/// The unit of a number that has none after it.
fn unit_of_field(field: IntervalField) -> (Unit, u16) {
    let word = match field {
        IntervalField::Year => "year",
        IntervalField::Month => "month",
        IntervalField::Day => "day",
        IntervalField::Hour => "hour",
        IntervalField::Minute => "minute",
        IntervalField::Second => "second",
    };
    unit_of(word).expect("it is a unit")
}

/// A field of a text.
enum Field {
    /// Digits with colons, with or without a sign.
    Clock(String),
    /// Digits, perhaps with a sign, a point, and hyphens.
    Number(String),
    Word(String),
}

/// Cuts a text into its fields.
fn cut(text: &str) -> Parsed<Vec<Field>> {
    let mut fields = Vec::new();
    let mut used = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_whitespace() || first == '\u{b}' {
            rest = &rest[1..];
            continue;
        }
        let is_separator = first.is_ascii_punctuation() && !matches!(first, '+' | '-' | '.');
        if is_separator {
            rest = &rest[1..];
            continue;
        }
        if fields.len() == FIELDS_MAX {
            return Err(IntervalError::Syntax);
        }
        let (field, after) = field(first, rest)?;
        let (Field::Clock(text) | Field::Number(text) | Field::Word(text)) = &field;
        used += text.len() + 1;
        if used > FIELD_BYTES_MAX {
            return Err(IntervalError::Syntax);
        }
        fields.push(field);
        rest = after;
    }
    Ok(fields)
}

/// Returns the first field of a text, and the text after it.
fn field(first: char, text: &str) -> Parsed<(Field, &str)> {
    let end_of = |from: usize, is_of_field: &dyn Fn(char) -> bool| {
        let end = text[from..].find(|it| !is_of_field(it));
        end.map_or(text.len(), |it| from + it)
    };
    let is_digit = |it: char| it.is_ascii_digit();
    let is_letter = |it: char| it.is_ascii_alphabetic();
    match first {
        '0'..='9' => Ok(number_field(text)),
        '.' => {
            let end = end_of(1, &is_digit);
            Ok((Field::Number(text[..end].into()), &text[end..]))
        }
        '+' | '-' => {
            let after =
                text[1..].trim_start_matches(|it: char| it.is_ascii_whitespace() || it == '\u{b}');
            if !after.starts_with(|it| is_digit(it) || it == '.') {
                return Err(IntervalError::Syntax);
            }
            let is_part = |it: char| is_digit(it) || matches!(it, ':' | '.' | '-');
            let end = after[1..].find(|it| !is_part(it));
            let end = end.map_or(after.len(), |it| it + 1);
            let mut field = String::from(first);
            field.push_str(&after[..end]);
            Ok(match field.contains(':') {
                true => (Field::Clock(field), &after[end..]),
                false => (Field::Number(field), &after[end..]),
            })
        }
        letter if is_letter(letter) => {
            let end = end_of(0, &is_letter);
            let word = text[..end].to_ascii_lowercase();
            let is_joined = match text[end..].chars().next() {
                Some('-' | '/' | '.') => true,
                Some(next) if next == '+' || is_digit(next) => {
                    // After these words a number can begin.
                    !matches!(&*word, "d" | "dec" | "h" | "m" | "mon" | "s" | "y")
                }
                _ => false,
            };
            match is_joined {
                true => Err(IntervalError::Syntax),
                false => Ok((Field::Word(word), &text[end..])),
            }
        }
        _ => Err(IntervalError::Syntax),
    }
}

/// Returns the number or the time of the day with which a text begins, and the text after it.
fn number_field(text: &str) -> (Field, &str) {
    let is_digit = |it: char| it.is_ascii_digit();
    let end_of = |from: usize, is_of_field: &dyn Fn(char) -> bool| {
        let end = text[from..].find(|it| !is_of_field(it));
        end.map_or(text.len(), |it| from + it)
    };
    let digits = end_of(0, &is_digit);
    let delimiter = text[digits..].chars().next();
    let end = match delimiter {
        Some(':') => {
            let end = end_of(digits, &|it| is_digit(it) || matches!(it, ':' | '.'));
            return (Field::Clock(text[..end].into()), &text[end..]);
        }
        Some(delimiter @ ('-' | '/' | '.')) => {
            let second = digits + 1;
            let end = end_of(second, &is_digit);
            let is_number = end > second;
            match text[end..].chars().next() {
                Some(third) if is_number && third == delimiter => {
                    end_of(end, &|it| is_digit(it) || it == delimiter)
                }
                _ if is_number => end,
                _ => end_of(second, &|it| it.is_ascii_alphanumeric() || it == delimiter),
            }
        }
        _ => digits,
    };
    (Field::Number(text[..end].into()), &text[end..])
}

fn of_fields(fields: &[Field], range: Option<(IntervalField, IntervalField)>) -> Parsed<Parts> {
    let mut parts = Parts::default();
    let mut unit = None;
    let mut is_before = false;
    let mut found = 0;
    for field in fields.iter().rev() {
        let bits = match field {
            Field::Clock(text) => {
                let clock = text.trim_start_matches(['+', '-']);
                let micros = clock_micros(clock, range)?;
                parts.micros = if text.starts_with('-') {
                    -micros
                } else {
                    micros
                };
                unit = Some(unit_of_field(IntervalField::Day));
                CLOCK
            }
            Field::Number(text) => {
                let open = range.map_or(IntervalField::Second, |(_, last)| last);
                let (mut number_unit, mut bits) = unit.unwrap_or_else(|| unit_of_field(open));
                let number = number(text)?;
                if let Number::Months(months) = number {
                    (number_unit, bits) = unit_of_field(IntervalField::Month);
                    parts.add(number_unit, (months, 0.0))?;
                    // The number before it counts months, too.
                    unit = Some((number_unit, bits));
                } else if let Number::Decimal(whole, fraction) = number {
                    parts.add(number_unit, (whole, fraction))?;
                    if bits == SECONDS && fraction != 0.0 {
                        bits = MICROS | MILLISECONDS | SECONDS;
                    }
                    unit = Some(match bits {
                        HOURS => unit_of_field(IntervalField::Day),
                        _ => unit.unwrap_or_else(|| unit_of_field(open)),
                    });
                }
                bits
            }
            Field::Word(word) if word == "ago" => {
                is_before = true;
                unit = Some((Unit::Unknown, 0));
                0
            }
            Field::Word(word) => {
                unit = Some(unit_of(word).ok_or(IntervalError::Syntax)?);
                0
            }
        };
        if bits & found != 0 {
            return Err(IntervalError::Syntax);
        }
        found |= bits;
    }
    if found == 0 {
        return Err(IntervalError::Syntax);
    }
    if is_before {
        parts.negate().ok_or(IntervalError::FieldRange)?;
    }
    Ok(parts)
}

/// A number as it is written.
enum Number {
    /// A whole number and a fraction, with one sign.
    Decimal(i64, f64),
    /// Years and months.
    Months(i64),
}

fn number(text: &str) -> Parsed<Number> {
    let (whole, rest) = integer(text)?;
    let is_negative = text.starts_with('-');
    if let Some(months) = rest.strip_prefix('-') {
        let (months, rest) = integer(months)?;
        if !(0..i64::from(MONTHS_PER_YEAR)).contains(&months) {
            return Err(IntervalError::FieldRange);
        }
        if !rest.is_empty() {
            return Err(IntervalError::Syntax);
        }
        let months = if is_negative { -months } else { months };
        let years = whole.checked_mul(MONTHS_PER_YEAR.into());
        let all = years.and_then(|it| it.checked_add(months));
        return all.map(Number::Months).ok_or(IntervalError::FieldRange);
    }
    let fraction = match rest.strip_prefix('.') {
        Some(digits) => fraction(digits)?,
        None if rest.is_empty() => 0.0,
        None => return Err(IntervalError::Syntax),
    };
    let fraction = if is_negative { -fraction } else { fraction };
    Ok(Number::Decimal(whole, fraction))
}

/// Reads an integer from the start of a text, and returns what follows it. Without digits it is 0,
/// and all of the text follows.
fn integer(text: &str) -> Parsed<(i64, &str)> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = digits.find(|it: char| !it.is_ascii_digit());
    let rest = end.map_or("", |end| &digits[end..]);
    if rest.len() == digits.len() {
        return Ok((0, text));
    }
    let written = &text[..text.len() - rest.len()];
    let value = written.parse().map_err(|_| IntervalError::FieldRange)?;
    Ok((value, rest))
}

/// Returns the fraction with these digits after the point.
fn fraction(digits: &str) -> Parsed<f64> {
    match digits.bytes().all(|it| it.is_ascii_digit()) {
        true if digits.is_empty() => Ok(0.0),
        true => alloc::format!("0.{digits}")
            .parse()
            .map_err(|_| IntervalError::Syntax),
        false => Err(IntervalError::Syntax),
    }
}

/// Reads `hours:minutes`, `hours:minutes:seconds` or `minutes:seconds.fraction`.
fn clock_micros(text: &str, range: Option<(IntervalField, IntervalField)>) -> Parsed<i64> {
    let small = |text| -> Parsed<(i64, &str)> {
        let (value, rest) = integer(text)?;
        match i32::try_from(value) {
            Ok(_) => Ok((value, rest)),
            Err(_) => Err(IntervalError::FieldRange),
        }
    };
    let micros_of = |digits| -> Parsed<i64> {
        let micros = round_half_even(fraction(digits)? * MICROS_PER_SECOND as f64);
        Ok(micros as i64)
    };
    let (hour, rest) = integer(text)?;
    let rest = rest.strip_prefix(':').ok_or(IntervalError::Syntax)?;
    let (minute, rest) = small(rest)?;
    let is_short = range == Some((IntervalField::Minute, IntervalField::Second));
    let (hour, minute, second, micros) = if rest.is_empty() {
        match is_short {
            true => (0, hour, minute, 0),
            false => (hour, minute, 0, 0),
        }
    } else if let Some(digits) = rest.strip_prefix('.') {
        (0, hour, minute, micros_of(digits)?)
    } else if let Some(rest) = rest.strip_prefix(':') {
        let (second, rest) = small(rest)?;
        let micros = match rest.strip_prefix('.') {
            Some(digits) => micros_of(digits)?,
            None if rest.is_empty() => 0,
            None => return Err(IntervalError::Syntax),
        };
        (hour, minute, second, micros)
    } else {
        return Err(IntervalError::Syntax);
    };
    let is_valid = hour >= 0 && (0..60).contains(&minute) && (0..=60).contains(&second);
    let all = hour
        .checked_mul(MICROS_PER_HOUR)
        .and_then(|it| it.checked_add(minute.checked_mul(MICROS_PER_MINUTE)?))
        .and_then(|it| it.checked_add(second.checked_mul(MICROS_PER_SECOND)?))
        .and_then(|it| it.checked_add(micros));
    all.filter(|_| is_valid).ok_or(IntervalError::FieldRange)
}
