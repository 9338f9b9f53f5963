//! Values as text: what CSV files and SQL literals hold, and what `psql` prints.
//!
//! Printing then parsing gives the value back, for every value but NULL, which prints as nothing
//! (how it is spelt is the caller's choice). Time zones are accepted and converted to UTC; other
//! calendars, intervals and words such as `now` are left out.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::value::{ColumnType, Value, ValueRef};

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A text that is not a value of the type asked for. The user corrects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    /// The type asked for.
    pub column_type: ColumnType,
    /// The text, its end cut off if it is long.
    pub text: String,
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let example = match self.column_type {
            ColumnType::Bool => "true or false",
            ColumnType::Int64 => "a whole number from -2^63 to 2^63 - 1",
            ColumnType::Float64 => "a number, NaN, Infinity or -Infinity",
            ColumnType::Text => "UTF-8 text",
            ColumnType::Bytes => "\\x and pairs of hexadecimal digits",
            ColumnType::Timestamp => "2013-01-01 05:15:00",
            ColumnType::Uuid => "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        };
        write!(
            f,
            "{:?} is not of type {}: write {example}",
            self.text,
            self.column_type.name()
        )
    }
}

impl core::error::Error for ValueError {}

impl Value {
    /// The value of a text. Spaces around it do not count, except for text itself. Never NULL.
    pub fn parse(column_type: ColumnType, text: &str) -> Result<Value, ValueError> {
        let trimmed = text.trim_ascii();
        let value = match column_type {
            ColumnType::Bool => parse_bool(trimmed).map(Value::Bool),
            ColumnType::Int64 => trimmed.parse().ok().map(Value::Int64),
            ColumnType::Float64 => trimmed.parse().ok().map(Value::Float64),
            ColumnType::Text => Some(Value::Text(text.into())),
            ColumnType::Bytes => parse_bytes(trimmed).map(Value::Bytes),
            ColumnType::Timestamp => parse_timestamp(trimmed).map(Value::Timestamp),
            ColumnType::Uuid => parse_uuid(trimmed).map(Value::Uuid),
        };
        value.ok_or_else(|| ValueError {
            column_type,
            text: text.chars().take(80).collect(),
        })
    }
}

fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "on" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

fn parse_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let pairs = digits.chunks(2).map(|pair| match pair {
        [high, low] => Some(hex_digit(*high)? << 4 | hex_digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let braced = text
        .strip_prefix('{')
        .and_then(|text| text.strip_suffix('}'));
    let mut value = [0; 16];
    let mut digits = 0;
    for byte in braced.unwrap_or(text).bytes() {
        if byte == b'-' {
            // Hyphens may stand after any group of four digits, as in PostgreSQL.
            if digits == 0 || digits % 4 != 0 || digits == 32 {
                return None;
            }
            continue;
        }
        *value.get_mut(digits / 2)? |= hex_digit(byte)? << (4 * (1 - digits % 2));
        digits += 1;
    }
    (digits == 32).then_some(value)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// `[-]year-month-day[( |T)hour:minute[:second[.fraction]][zone]][ BC]`, zone = `Z`, ` UTC` or
/// `±hour[:minute]`.
fn parse_timestamp(text: &str) -> Option<i64> {
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, time) = match text.find([' ', 'T', 't']) {
        Some(at) => (&text[..at], text[at + 1..].trim_ascii_start()),
        None => (text, ""),
    };
    let mut fields = date.split('-');
    let year = i64::from(digits(fields.next()?, 4..=6)?);
    let month = digits(fields.next()?, 1..=2)?;
    let day = digits(fields.next()?, 1..=2)?;
    if fields.next().is_some() || year == 0 {
        return None;
    }
    let year = if before_christ { 1 - year } else { year };
    let days = days_from_civil(year, month, day)?;
    let micros = if time.is_empty() {
        0
    } else {
        parse_time(time)?
    };
    let day_micros = i128::from(days) * i128::from(SECONDS_PER_DAY * MICROS_PER_SECOND);
    i64::try_from(day_micros + i128::from(micros)).ok()
}

/// Microseconds since midnight UTC; a zone may bring it below zero or beyond a day.
fn parse_time(text: &str) -> Option<i64> {
    let zone_at = text.find(['+', '-', 'Z', 'z', ' ']).unwrap_or(text.len());
    let (clock, zone) = text.split_at(zone_at);
    let mut fields = clock.split(':');
    let hour = digits(fields.next()?, 1..=2)?;
    let minute = digits(fields.next()?, 2..=2)?;
    let (second, fraction) = match fields.next() {
        None => ("00", ""),
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "0")),
    };
    let second = digits(second, 2..=2)?;
    if fields.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let mut micros = 0;
    if !fraction.is_empty() {
        micros = digits(fraction, 1..=6)? * 10u32.pow(6 - fraction.len() as u32);
    }
    let zone = zone.trim_ascii_start();
    let offset_minutes = match zone.to_ascii_uppercase().as_str() {
        "" | "Z" | "UTC" => 0,
        _ => {
            let (sign, rest) = match zone.split_at_checked(1)? {
                ("+", rest) => (1, rest),
                ("-", rest) => (-1, rest),
                _ => return None,
            };
            let (hours, minutes) = match rest.split_once(':') {
                Some(parts) => parts,
                None if rest.len() == 4 => rest.split_at_checked(2)?,
                None => (rest, "00"),
            };
            let (hours, minutes) = (digits(hours, 1..=2)?, digits(minutes, 2..=2)?);
            if hours > 15 || minutes > 59 {
                return None;
            }
            sign * i64::from(60 * hours + minutes)
        }
    };
    let minutes = i64::from(60 * hour + minute) - offset_minutes;
    Some((60 * minutes + i64::from(second)) * MICROS_PER_SECOND + i64::from(micros))
}

/// A number of so many decimal digits and nothing else.
fn digits(text: &str, count: core::ops::RangeInclusive<usize>) -> Option<u32> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits || !count.contains(&text.len()) {
        return None;
    }
    text.parse().ok()
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; `None` if there is no such day.
fn days_from_civil(year: i64, month: u32, day: u32) -> Option<i64> {
    let leap = year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0);
    let month_days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if day == 0 || day > month_days {
        return None;
    }
    // Years that begin in March put the leap day last; 400 years are one cycle of 146,097 days.
    let year = if month <= 2 { year - 1 } else { year };
    let year_of_cycle = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_cycle = 365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
    Some(146_097 * year.div_euclid(400) + day_of_cycle - 719_468)
}

/// The inverse of [`days_from_civil`]: (year, month, day).
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let day_of_cycle = days.rem_euclid(146_097);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
        - day_of_cycle / 146_096)
        / 365;
    let day_of_year =
        day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = 400 * days.div_euclid(146_097) + year_of_cycle + i64::from(month <= 2);
    (year, month, day)
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
            ValueRef::Float64(value) => write_float(f, value),
            ValueRef::Text(value) => f.write_str(value),
            ValueRef::Bytes(value) => {
                f.write_str("\\x")?;
                value.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            ValueRef::Timestamp(value) => write_timestamp(f, value),
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

/// The shortest digits that read back as the same number, with an exponent where PostgreSQL
/// shows one: below 1e-4 and from 1e15.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("the format writes an exponent");
    let exponent: i32 = exponent.parse().expect("the format writes a number");
    if value == 0.0 || (-4..15).contains(&exponent) {
        return write!(f, "{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{digits}e{sign}{:02}", exponent.unsigned_abs())
}

fn write_timestamp(f: &mut fmt::Formatter<'_>, micros: i64) -> fmt::Result {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    let (year, month, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
    let second_of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (
        second_of_day / 3600,
        second_of_day / 60 % 60,
        second_of_day % 60,
    );
    let shown_year = if year > 0 { year } else { 1 - year };
    write!(
        f,
        "{shown_year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
    )?;
    let fraction = micros.rem_euclid(MICROS_PER_SECOND);
    if fraction != 0 {
        let fraction = format!("{fraction:06}");
        write!(f, ".{}", fraction.trim_end_matches('0'))?;
    }
    if year <= 0 {
        f.write_str(" BC")?;
    }
    Ok(())
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
            ("2013-01-01 00:30:00+01", "2012-12-31 23:30:00"),
            ("2013-01-01 00:30:00-05:30", "2013-01-01 06:00:00"),
            ("2013-01-01 00:30:00 UTC", "2013-01-01 00:30:00"),
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
            "2013-01-01 24:00:00",
            "2013-01-01 05:60:00",
            "2013-01-01 05:15:00.1234567",
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
        assert_eq!(round(ColumnType::Bytes, "1234"), None);
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
