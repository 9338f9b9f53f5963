//! Prints and parses values as text: in CSV files, in SQL literals, and in the output of `psql`.
//!
//! Printing then parsing gives the value back, for every value but NULL, which prints as nothing
//! (how it is spelt is the caller's choice), and timestamps before PostgreSQL's first one, in 4714
//! BC. An accepted text has the meaning that it has in PostgreSQL. A zone that is written after a
//! timestamp without one does not count, nor does a time after a date. A timestamp with a zone is
//! shown in UTC, or by [`moment_text`] in another zone.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::convert::Infallible;
use core::fmt::{self, Write as _};
use core::ops::RangeInclusive;
use core::str::FromStr;

use crate::calendar::civil_from_days;
use crate::clock::{
    MICROS_PER_DAY, MICROS_PER_SECOND, SECONDS_PER_DAY, TIMESTAMPS, write_fraction,
};
use crate::interval::{Interval, IntervalError};
use crate::json::{Json, JsonError, check_json};
use crate::moment::{self, TimeInput, WrittenMoment, WrittenTime, WrittenZone};
use crate::numeric::Numeric;
use crate::value::{
    ArrayError, ArrayRef, ArrayTextError, ColumnType, ElementType, Value, ValueRef, parse_array,
    write_array,
};
use crate::zone::TimeZone;

/// A string that is not a value of the requested type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The requested type.
    pub column_type: ColumnType,
    /// The string, truncated if it is long. That of JSON, an interval or an array is whole, so that
    /// its fault is found in it.
    pub text: String,
}

impl ValueError {
    /// Returns why the string is no JSON; none if it is, or should be of another type.
    pub fn json_fault(&self) -> Option<JsonError> {
        match self.column_type {
            ColumnType::Json => check_json(&self.text).err(),
            ColumnType::Jsonb => Json::parse(&self.text).err(),
            _ => None,
        }
    }

    /// Returns why the string is no interval; none if it is, or should be of another type.
    pub fn interval_fault(&self) -> Option<IntervalError> {
        match self.column_type {
            ColumnType::Interval(_) => Interval::parse(&self.text).err(),
            _ => None,
        }
    }

    /// Returns why the string is no array; none if only an element is at fault, or it should be of
    /// another type.
    pub fn array_fault(&self) -> Option<ArrayError> {
        match self.column_type {
            ColumnType::Array(_) => array_fault(&self.text),
            _ => None,
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 80;
        let shown: String = self.text.chars().take(SHOWN_MAX).collect();
        let example = match self.column_type {
            ColumnType::Bool => "true or false",
            ColumnType::Int16 => "a whole number from -32768 to 32767",
            ColumnType::Int32 => "a whole number from -2^31 to 2^31 - 1",
            ColumnType::Int64 => "a whole number from -2^63 to 2^63 - 1",
            ColumnType::Float32 => {
                "a number between 1e-45 and 3.4e38 or its negative, 0, NaN, Infinity or -Infinity"
            }
            ColumnType::Float64 => {
                "a number between 5e-324 and 1.8e308 or its negative, 0, NaN, Infinity or -Infinity"
            }
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => "UTF-8 text",
            ColumnType::Bytes => "\\x and pairs of hexadecimal digits, or text",
            ColumnType::Date => "year-month-day as in 2013-01-01, infinity or -infinity",
            ColumnType::Timestamp => {
                "year-month-day hour:minute:second as in 2013-01-01 05:15:00.25, infinity or \
                 -infinity"
            }
            ColumnType::TimestampTz => {
                "year-month-day hour:minute:second and a zone as in 2013-01-01 05:15:00+02, infinity \
                 or -infinity"
            }
            ColumnType::Uuid => "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            ColumnType::Numeric | ColumnType::Decimal { .. } => {
                "a number of at most 131072 digits before the point and 16383 after it, NaN, \
                 Infinity or -Infinity"
            }
            ColumnType::Time(_) => "hour:minute:second as in 05:15:00.25",
            ColumnType::Interval(_) => "numbers and units as in 1 day 02:30:00",
            ColumnType::Json | ColumnType::Jsonb => "JSON as in {\"a\": [1, true, null]}",
            ColumnType::Array(_) => match self.array_fault() {
                None | Some(ArrayError::Malformed) => {
                    return write!(f, "malformed array literal: {shown:?}: write {{1,2}}");
                }
                Some(fault) => return write!(f, "{fault}"),
            },
        };
        write!(
            f,
            "{shown:?} is not of type {}: write {example}",
            self.column_type
        )
    }
}

impl core::error::Error for ValueError {}

impl Value {
    /// Returns the value of a text, never NULL. Spaces around it are ignored, except for texts,
    /// bytes and UUIDs. The limit of a text's length and of a number's digits is not checked,
    /// because a longer one may be compared with the column; [`Value::assigned`] checks it.
    /// A moment without a zone is in UTC.
    pub fn parse(column_type: ColumnType, text: &str) -> Result<Value, ValueError> {
        Value::parse_at(column_type, text, &TimeInput::UTC)
    }

    /// Returns the value of a text as [`Value::parse`] does. `input` has the zone of a moment
    /// without one, and the meaning of `now` and of names of zones.
    pub fn parse_at(
        column_type: ColumnType,
        text: &str,
        input: &TimeInput<'_>,
    ) -> Result<Value, ValueError> {
        let trimmed = text.trim_ascii();
        let value = match column_type {
            ColumnType::Bool => parse_bool(trimmed).map(Value::Bool),
            ColumnType::Int16 => trimmed.parse().ok().map(Value::Int16),
            ColumnType::Int32 => trimmed.parse().ok().map(Value::Int32),
            ColumnType::Int64 => trimmed.parse().ok().map(Value::Int64),
            ColumnType::Float32 => parse_float(trimmed).map(Value::Float32),
            ColumnType::Float64 => parse_float(trimmed).map(Value::Float64),
            ColumnType::Text | ColumnType::Varchar(_) => Some(Value::Text(text.into())),
            ColumnType::Char(_) => Some(Value::Text(text.trim_end_matches(' ').into())),
            ColumnType::Bytes => parse_bytes(text).map(Value::Bytes),
            ColumnType::Date => parse_date(trimmed, input).map(Value::Date),
            ColumnType::Timestamp => parse_timestamp(trimmed, false, input).map(Value::Timestamp),
            ColumnType::TimestampTz => {
                parse_timestamp(trimmed, true, input).map(Value::TimestampTz)
            }
            ColumnType::Uuid => parse_uuid(text).map(Value::Uuid),
            ColumnType::Numeric | ColumnType::Decimal { .. } => {
                Numeric::parse(text).ok().map(Value::Numeric)
            }
            ColumnType::Json => {
                let is_json = check_json(text).is_ok();
                is_json.then(|| Value::Json(text.into()))
            }
            ColumnType::Jsonb => {
                let tree = Json::parse(text).ok();
                tree.map(|it| Value::Jsonb(it.to_string()))
            }
            ColumnType::Time(_) => parse_time(trimmed, input).map(Value::Time),
            ColumnType::Interval(_) => Interval::parse(text).ok().map(Value::Interval),
            ColumnType::Array(element) => return element.parse(text, input),
        };
        value.ok_or_else(|| ValueError {
            column_type,
            text: match column_type {
                ColumnType::Json
                | ColumnType::Jsonb
                | ColumnType::Interval(_)
                | ColumnType::Array(_) => text.into(),
                _ => text.chars().take(80).collect(),
            },
        })
    }
}

/// Parses a truth value, as PostgreSQL does. A word may be shortened as long as no other word
/// begins in the same way.
fn parse_bool(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, shortest: usize| text.len() >= shortest && word.starts_with(&text);
    if text == "1" || begins("true", 1) || begins("yes", 1) || text == "on" {
        Some(true)
    } else if text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2) {
        Some(false)
    } else {
        None
    }
}

/// Parses a float. Returns none for a number beyond the range, which would be read as infinite or
/// as zero.
fn parse_float<F: FromStr + Into<f64> + Copy>(text: &str) -> Option<F> {
    let parsed: F = text.parse().ok()?;
    let value: f64 = parsed.into();
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let is_written_as_number = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_written_as_zero = !mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    let lost =
        (value.is_infinite() && is_written_as_number) || (value == 0.0 && !is_written_as_zero);
    (!lost).then_some(parsed)
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else {
        return unescaped_bytes(text);
    };
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut digits = digits.bytes();
    while let Some(high) = digits.next() {
        // Spaces may stand between the pairs.
        if matches!(high, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        }
        bytes.push(hex_digit(high)? << 4 | hex_digit(digits.next()?)?);
    }
    Some(bytes)
}

/// Returns the bytes of a text in PostgreSQL's format `escape`: `\\` is a backslash, `\000` to
/// `\377` a byte in octal digits, and everything else stands for itself. Returns none for another
/// escape.
pub fn unescaped_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let [first, rest @ ..] = left {
        let (rest, byte) = match (first, rest) {
            (b'\\', [b'\\', rest @ ..]) => (rest, b'\\'),
            (
                b'\\',
                [
                    high @ b'0'..=b'3',
                    middle @ b'0'..=b'7',
                    low @ b'0'..=b'7',
                    rest @ ..,
                ],
            ) => (
                rest,
                (high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0'),
            ),
            (b'\\', _) => return None,
            (byte, rest) => (rest, *byte),
        };
        bytes.push(byte);
        left = rest;
    }
    Some(bytes)
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let braced = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut value = [0; 16];
    let mut digits = 0;
    let mut may_be_hyphen = false;
    for byte in braced.unwrap_or(text).bytes() {
        if byte == b'-' {
            if !may_be_hyphen {
                return None;
            }
            may_be_hyphen = false;
            continue;
        }
        *value.get_mut(digits / 2)? |= hex_digit(byte)? << (4 * (1 - digits % 2));
        digits += 1;
        // One hyphen may stand between any two groups of four digits, as in PostgreSQL.
        may_be_hyphen = digits % 4 == 0 && digits < 32;
    }
    (digits == 32).then_some(value)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// The first and the last date that PostgreSQL has, in days since 1970: from 4714-11-24 BC to
/// 5874897-12-31.
pub const DATES: RangeInclusive<i32> = -2_440_588..=2_145_042_905;

/// Returns the days since 1970 of a date, which may have a time of the day after it.
fn parse_date(text: &str, input: &TimeInput<'_>) -> Option<i32> {
    let days = match moment::read(text, input)? {
        WrittenMoment::Infinity => return Some(i32::MAX),
        WrittenMoment::MinusInfinity => return Some(i32::MIN),
        WrittenMoment::Epoch => 0,
        WrittenMoment::Now => input.zone.local(input.now_us?)?.div_euclid(MICROS_PER_DAY),
        WrittenMoment::At(time) => time.days?,
    };
    let days = i32::try_from(days).ok()?;
    DATES.contains(&days).then_some(days)
}

/// Returns the microseconds since 1970, in UTC if the zone counts.
fn parse_timestamp(text: &str, zone_counts: bool, input: &TimeInput<'_>) -> Option<i64> {
    let micros = match moment::read(text, input)? {
        WrittenMoment::Infinity => return Some(i64::MAX),
        WrittenMoment::MinusInfinity => return Some(i64::MIN),
        WrittenMoment::Epoch => 0,
        WrittenMoment::Now if zone_counts => input.now_us?,
        WrittenMoment::Now => input.zone.local(input.now_us?)?,
        WrittenMoment::At(time) if zone_counts => time.moment(&input.zone)?,
        WrittenMoment::At(time) => time.local()?,
    };
    TIMESTAMPS.contains(&micros).then_some(micros)
}

/// Returns the microseconds since midnight of a time of the day, which may have a date before it. A
/// zone does not count.
fn parse_time(text: &str, input: &TimeInput<'_>) -> Option<i64> {
    match moment::read_clock(text, input)? {
        WrittenMoment::Now => {
            let now = input.zone.local(input.now_us?)?;
            Some(now.rem_euclid(MICROS_PER_DAY))
        }
        // The zone needs a date for its offset, though this does not count.
        WrittenMoment::At(WrittenTime {
            days: None,
            zone: WrittenZone::Zone(TimeZone::Named { .. }),
            ..
        }) => None,
        WrittenMoment::At(time) => time.micros,
        _ => None,
    }
}

impl ColumnType {
    /// Returns the text of a value as clients with this time zone see it in a column of this type.
    pub fn shown_in<'v>(self, value: &'v Value, zone: &TimeZone<'_>) -> Cow<'v, str> {
        match value {
            Value::TimestampTz(at) => Cow::Owned(moment_text(*at, zone)),
            Value::Array(array) if self == ColumnType::Array(ElementType::TimestampTz) => {
                Cow::Owned(ElementType::TimestampTz.shown(array.as_ref(), zone))
            }
            value => self.shown(value),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_ref().fmt(f)
    }
}

impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ValueRef::Null => Ok(()),
            ValueRef::Bool(value) => f.write_str(if value { "t" } else { "f" }),
            ValueRef::Int64(value) => write!(f, "{value}"),
            ValueRef::Int32(value) => write!(f, "{value}"),
            ValueRef::Int16(value) => write!(f, "{value}"),
            ValueRef::Float64(value) => write_float(f, value, DOUBLE),
            ValueRef::Float32(value) => write_float(f, value.into(), SINGLE),
            ValueRef::Date(value) => write_date(f, value),
            ValueRef::TimestampTz(value) => write_timestamp(f, value, Some(0)),
            ValueRef::Text(value) => f.write_str(value),
            ValueRef::Bytes(value) => {
                f.write_str("\\x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            ValueRef::Timestamp(value) => write_timestamp(f, value, None),
            ValueRef::Numeric(value) => write!(f, "{value}"),
            ValueRef::Json(value) | ValueRef::Jsonb(value) => f.write_str(value),
            ValueRef::Time(value) => write_clock(f, value),
            ValueRef::Interval(value) => write!(f, "{value}"),
            ValueRef::Array(value) => value.fmt(f),
            ValueRef::Uuid(value) => {
                for (index, byte) in value.iter().enumerate() {
                    let hyphen = if matches!(index, 4 | 6 | 8 | 10) {
                        "-"
                    } else {
                        ""
                    };
                    write!(f, "{hyphen}{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl ElementType {
    /// Returns the text of an array as clients in UTC see it.
    pub(crate) fn shown_in_utc(self, array: ArrayRef<'_>) -> String {
        self.shown(array, &TimeZone::UTC)
    }

    /// Returns the text of an array as clients with a time zone see it in a column of arrays of
    /// this element type.
    fn shown(self, array: ArrayRef<'_>, zone: &TimeZone<'_>) -> String {
        let mut out = String::new();
        let element = self.column_type();
        let printed = write_array(&mut out, array, |value, out| match (self, value) {
            (ElementType::Char(_) | ElementType::TimestampTz, value) => {
                out.write_str(&element.shown_in(&value.to_owned(), zone))
            }
            (_, value) => write!(out, "{value}"),
        });
        printed.expect("a string takes any text");
        out
    }

    /// Returns the array of a text, by the rules of [`Value::parse_at`].
    pub(crate) fn parse(self, text: &str, input: &TimeInput<'_>) -> Result<Value, ValueError> {
        let element = self.column_type();
        let parsed = parse_array(text, self, |item, builder| {
            match item {
                Some(item) => {
                    builder.push(Value::parse_at(element, item, input)?.as_ref());
                }
                None => builder.push(ValueRef::Null),
            }
            Ok(())
        });
        parsed.map(Value::Array).map_err(|error| match error {
            ArrayTextError::Element(error) => error,
            ArrayTextError::Array(_) => ValueError {
                column_type: ColumnType::Array(self),
                text: text.into(),
            },
        })
    }
}

/// Returns why a text is no array of texts.
fn array_fault(text: &str) -> Option<ArrayError> {
    let parsed = parse_array(text, ElementType::Bool, |_, builder| {
        builder.push(ValueRef::Null);
        Ok::<(), Infallible>(())
    });
    match parsed {
        Ok(_) => None,
        Err(ArrayTextError::Array(error)) => Some(error),
        Err(ArrayTextError::Element(never)) => match never {},
    }
}

/// How floats of one size are written.
#[derive(Clone, Copy)]
struct FloatForm {
    /// The bits of the mantissa after its first one.
    mantissa_bits: u32,
    /// The number of digits after the first one that always suffices.
    digits_max: usize,
    /// The shortest digits of Rust are PostgreSQL's if there are fewer than this after the first
    /// one: no other digits are as near.
    choice_min: usize,
    /// From this power of ten on, PostgreSQL shows an exponent.
    plain_below: i32,
}

const DOUBLE: FloatForm = FloatForm {
    mantissa_bits: 52,
    digits_max: 16,
    choice_min: 14,
    plain_below: 15,
};
const SINGLE: FloatForm = FloatForm {
    mantissa_bits: 23,
    digits_max: 8,
    choice_min: 0,
    plain_below: 6,
};

impl FloatForm {
    /// Returns the digits in scientific notation.
    fn scientific(self, value: f64, digits: Option<usize>) -> String {
        match (self.mantissa_bits, digits) {
            (52, None) => format!("{value:e}"),
            (_, None) => format!("{:e}", value as f32),
            (_, Some(digits)) => format!("{value:.digits$e}"),
        }
    }

    /// Returns whether a text is read as this number.
    fn reads_back(self, text: &str, value: f64) -> bool {
        match self.mantissa_bits {
            52 => text.parse() == Ok(value),
            _ => text.parse() == Ok(value as f32),
        }
    }
}

/// Writes the shortest digits that read back as the same number, with an exponent where PostgreSQL
/// shows one: below 1e-4 and for large numbers.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64, form: FloatForm) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = shortest(value, form);
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the format writes an exponent");
    let exponent: i32 = exponent.parse().expect("the format writes a number");
    if value == 0.0 || (-4..form.plain_below).contains(&exponent) {
        // The same digits without an exponent.
        let fraction = digits.trim_start_matches('-').len().saturating_sub(2);
        let fraction = (fraction as i32 - exponent).max(0) as usize;
        let plain: f64 = scientific.parse().expect("the format writes a number");
        return write!(f, "{plain:.fraction$}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// Returns the digits in scientific notation: the fewest that read back as the same number, of
/// these the nearest ones, as PostgreSQL chooses them. Digits half way to the next number do not
/// count, though they would be read as this one where it is even.
fn shortest(value: f64, form: FloatForm) -> String {
    let plain = form.scientific(value, None);
    let mantissa = plain.split('e').next().unwrap_or(&plain);
    let precision = mantissa.trim_start_matches('-').len().saturating_sub(2);
    if precision < form.choice_min && !is_half_way(&plain, value, form) {
        return plain;
    }
    let rounded = |digits| form.scientific(value, Some(digits));
    // Below a power of two the numbers are so near that the digits above it can be the only ones.
    let first = [rounded(precision), plain.clone()];
    let others = (precision + 1..=form.digits_max).map(rounded);
    let mut reading_back = first
        .into_iter()
        .chain(others)
        .filter(|it| form.reads_back(it, value));
    let chosen = reading_back.find(|it| !is_half_way(it, value, form));
    chosen.unwrap_or(plain)
}

/// Returns whether the text is exactly half way between the number and one of its neighbours. Only
/// whole numbers beyond the mantissa, and not too far beyond, have such a text of few digits.
fn is_half_way(scientific: &str, value: f64, form: FloatForm) -> bool {
    const BITS_BEYOND: u32 = 40;
    let magnitude = value.abs();
    let exponent_bits = (magnitude.to_bits() >> 52) as u32;
    let whole_bits = exponent_bits.saturating_sub(1023);
    if !(form.mantissa_bits + 1..form.mantissa_bits + BITS_BEYOND).contains(&whole_bits) {
        return false;
    }
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return false;
    };
    let mut written: u128 = 0;
    let mut digits: u32 = 0;
    for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
        written = 10 * written + u128::from(digit - b'0');
        digits += 1;
    }
    let Ok(exponent) = exponent.parse::<u32>() else {
        return false;
    };
    let Some(zeros) = (exponent + 1).checked_sub(digits) else {
        return false;
    };
    written *= 10_u128.pow(zeros);
    let exact = magnitude as u128;
    // The numbers around are so far apart. Below a power of two they are half as far.
    let step = 1_u128 << (whole_bits - form.mantissa_bits);
    let is_below_power = written < exact && exact.is_power_of_two();
    let step = if is_below_power { step / 2 } else { step };
    2 * written.abs_diff(exact) == step
}

fn write_date(f: &mut fmt::Formatter<'_>, days: i32) -> fmt::Result {
    match days {
        i32::MAX => return f.write_str("infinity"),
        i32::MIN => return f.write_str("-infinity"),
        _ => {}
    }
    let (year, month, day) = civil_from_days(days.into());
    let (shown_year, era) = if year > 0 {
        (year, "")
    } else {
        (1 - year, " BC")
    };
    write!(f, "{shown_year:04}-{month:02}-{day:02}{era}")
}

/// Writes microseconds since 1970. With a zone, local time is so many seconds ahead of them.
fn write_timestamp(f: &mut impl fmt::Write, micros: i64, ahead: Option<i32>) -> fmt::Result {
    match micros {
        i64::MAX => return f.write_str("infinity"),
        i64::MIN => return f.write_str("-infinity"),
        _ => {}
    }
    let seconds = micros.div_euclid(MICROS_PER_SECOND) + i64::from(ahead.unwrap_or(0));
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let shown_year = if year > 0 { year } else { 1 - year };
    write!(f, "{shown_year:04}-{month:02}-{day:02} ")?;
    let micro = micros.rem_euclid(MICROS_PER_SECOND);
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY) * MICROS_PER_SECOND + micro;
    write_clock(f, of_day)?;
    if let Some(ahead) = ahead {
        write_offset(f, ahead)?;
    }
    if year <= 0 {
        f.write_str(" BC")?;
    }
    Ok(())
}

/// Writes microseconds since midnight.
fn write_clock(f: &mut impl fmt::Write, micros: i64) -> fmt::Result {
    let seconds = micros / MICROS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(f, "{hour:02}:{minute:02}:{second:02}")?;
    write_fraction(f, (micros % MICROS_PER_SECOND).unsigned_abs())
}

/// Writes the seconds that local time is ahead of UTC: `+02`, `-03:30` or `+00:53:28`.
fn write_offset(f: &mut impl fmt::Write, ahead: i32) -> fmt::Result {
    let sign = if ahead < 0 { '-' } else { '+' };
    let size = ahead.unsigned_abs();
    let (hours, minutes, seconds) = (size / 3600, size / 60 % 60, size % 60);
    write!(f, "{sign}{hours:02}")?;
    if minutes != 0 || seconds != 0 {
        write!(f, ":{minutes:02}")?;
    }
    if seconds != 0 {
        write!(f, ":{seconds:02}")?;
    }
    Ok(())
}

/// Returns the text of a moment in a zone. The moment is in microseconds since 1970 UTC.
pub fn moment_text(micros: i64, zone: &TimeZone<'_>) -> String {
    let ahead = zone.ahead_at(micros.div_euclid(MICROS_PER_SECOND));
    let mut text = String::new();
    let written = write_timestamp(&mut text, micros, Some(ahead));
    written.expect("a text takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn round(column_type: ColumnType, text: &str) -> Option<String> {
        Value::parse(column_type, text)
            .ok()
            .map(|value| value.to_string())
    }

    #[test]
    fn timestamps_read_as_written() {
        let cases = [
            ("2013-01-01 05:15:00", "2013-01-01 05:15:00"),
            ("2013-01-01T05:15:00Z", "2013-01-01 05:15:00"),
            ("2013-01-01", "2013-01-01 00:00:00"),
            ("2013-01-01 05:15", "2013-01-01 05:15:00"),
            ("2000-02-29 23:59:59.500000", "2000-02-29 23:59:59.5"),
            ("2013-01-01 00:30:00+01", "2013-01-01 00:30:00"),
            ("2013-01-01 00:30:00-05:30", "2013-01-01 00:30:00"),
            ("2013-01-01 00:30:00 UTC", "2013-01-01 00:30:00"),
            ("2013-01-01 24:00:00", "2013-01-02 00:00:00"),
            ("2013-12-31 24:00", "2014-01-01 00:00:00"),
            ("2013-01-01 05:15:60", "2013-01-01 05:16:00"),
            ("2013-01-01 05:15:00.1234567", "2013-01-01 05:15:00.123457"),
            (
                "2013-01-01 05:15:00.123456789",
                "2013-01-01 05:15:00.123457",
            ),
            ("2013-12-31 23:59:59.9999999", "2014-01-01 00:00:00"),
            ("2013-01-01 05:15:60.5", "2013-01-01 05:16:00.5"),
            ("infinity", "infinity"),
            ("-Infinity", "-infinity"),
            ("epoch", "1970-01-01 00:00:00"),
            ("0044-03-15 12:00:00 BC", "0044-03-15 12:00:00 BC"),
            ("1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999"),
        ];
        for (text, shown) in cases {
            assert_eq!(
                round(ColumnType::Timestamp, text).as_deref(),
                Some(shown),
                "{text}"
            );
        }
        assert_eq!(
            Value::parse(ColumnType::Timestamp, "1970-01-02"),
            Ok(Value::Timestamp(86_400_000_000))
        );
    }

    #[test]
    fn malformed_texts_are_errors() {
        for text in [
            "",
            "2013",
            "2013-13-01",
            "2013-02-29",
            "2100-02-29",
            "2013-01-32",
            "2013-01-00",
            "0000-01-01",
            "2013-01-01 24:00:01",
            "2013-01-01 25:00:00",
            "2013-01-01 05:60:00",
            "2013-01-01 05:15:61",
            "2013-01-01 05:15:00.é",
            "2013-01-01T",
            "4714-11-23 BC",
            "300000-01-01",
            "2013-01-01 05:15:00 PST",
            "2013-01-01 05:15:00+1x",
            "2013-01-01 05",
            "é-01-01",
            "999999-01-01",
            "2013-01-01-01",
        ] {
            assert_eq!(round(ColumnType::Timestamp, text), None, "{text}");
        }
        assert_eq!(round(ColumnType::Int64, "9223372036854775808"), None);
        assert_eq!(round(ColumnType::Bool, "maybe"), None);
        assert_eq!(round(ColumnType::Bytes, "\\x123"), None);
        assert_eq!(round(ColumnType::Bytes, "\\12"), None);
        assert_eq!(
            round(ColumnType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1"),
            None
        );
        assert_eq!(
            round(ColumnType::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1111"),
            None
        );
        let error = Value::parse(ColumnType::Int64, "12x").expect_err("not a number");
        assert_eq!(
            error.to_string(),
            "\"12x\" is not of type bigint: write a whole number from -2^63 to 2^63 - 1"
        );
    }

    #[test]
    fn values_print_as_psql() {
        let cases = [
            (Value::Float64(1.0), "1"),
            (Value::Float64(-0.25), "-0.25"),
            (Value::Float64(1e15), "1e+15"),
            (Value::Float64(123_456_789_012_345.0), "123456789012345"),
            (Value::Float64(0.0001), "0.0001"),
            // Of digits that are as near, the even one; none that are half way to the next number.
            (
                Value::Float64(3_602_879_701_896_397.0 / 4.0),
                "900719925474099.2",
            ),
            (
                Value::Float64(63_050_394_783_186_944.0),
                "6.3050394783186944e+16",
            ),
            (
                Value::Float64(-63_050_394_783_186_944.0),
                "-6.3050394783186944e+16",
            ),
            (Value::Float64(1e23), "9.999999999999999e+22"),
            (Value::Float64(5e22), "4.9999999999999996e+22"),
            (Value::Float64(1e22), "1e+22"),
            (Value::Float64(0.1 + 0.2), "0.30000000000000004"),
            (Value::Float64(0.000_012_5), "1.25e-05"),
            (Value::Float64(f64::NEG_INFINITY), "-Infinity"),
            (Value::Bool(true), "t"),
            (Value::Bytes([0, 0xab].into()), "\\x00ab"),
            (Value::Null, ""),
        ];
        for (value, shown) in cases {
            assert_eq!(value.to_string(), shown);
        }
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        assert_eq!(round(ColumnType::Uuid, uuid).as_deref(), Some(uuid));
        assert_eq!(
            round(ColumnType::Uuid, "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}").as_deref(),
            Some(uuid)
        );
    }
}
