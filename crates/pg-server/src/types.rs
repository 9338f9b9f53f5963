//! PostgreSQL's numbers of the store's types, and their values as text and in binary.
//!
//! A client may declare a parameter with a type that the store does not have, such as `integer`.
//! Its value is converted to the store's type that holds all values of it; other types are refused.

use bytes::{BufMut, BytesMut};
use placement::{ColumnType, Value};

use pg_wire::frontend::WireFormat;
use pg_wire::report::{Report, Severity};

use crate::errors::{self, NOT_SUPPORTED};

/// Microseconds from 1970, where the store's timestamps begin, to 2000, where PostgreSQL's do.
const EPOCH_2000_US: i64 = 946_684_800_000_000;
const DAY_US: i64 = 86_400_000_000;
/// The range of PostgreSQL's timestamps in binary: microseconds since 2000.
const TIMESTAMP_MIN_US: i64 = -211_813_488_000_000_000;
const TIMESTAMP_END_US: i64 = 9_223_371_331_200_000_000;

/// The type of a parameter, as a client declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredType {
    /// A type of the store.
    Stored(ColumnType),
    /// An integer of this many bytes.
    Integer(usize),
    /// `real`.
    Real,
    /// `numeric`.
    Numeric,
    /// `timestamp with time zone`.
    ZonedTimestamp,
    /// `date`.
    Date,
}

/// The OIDs of the types that a client may declare.
const DECLARED: &[(u32, DeclaredType)] = &[
    (16, DeclaredType::Stored(ColumnType::Bool)),
    (17, DeclaredType::Stored(ColumnType::Bytes)),
    (19, DeclaredType::Stored(ColumnType::Text)),
    (20, DeclaredType::Stored(ColumnType::Int64)),
    (21, DeclaredType::Integer(2)),
    (23, DeclaredType::Integer(4)),
    (25, DeclaredType::Stored(ColumnType::Text)),
    (700, DeclaredType::Real),
    (701, DeclaredType::Stored(ColumnType::Float64)),
    (1042, DeclaredType::Stored(ColumnType::Text)),
    (1043, DeclaredType::Stored(ColumnType::Text)),
    (1082, DeclaredType::Date),
    (1114, DeclaredType::Stored(ColumnType::Timestamp)),
    (1184, DeclaredType::ZonedTimestamp),
    (1700, DeclaredType::Numeric),
    (2950, DeclaredType::Stored(ColumnType::Uuid)),
];

/// PostgreSQL's OID of the type of a literal without a type.
const UNKNOWN: u32 = 705;

/// Returns the OID of a type in PostgreSQL. A column that is always NULL is a text.
pub fn oid(column_type: Option<ColumnType>) -> u32 {
    match column_type {
        Some(ColumnType::Bool) => 16,
        Some(ColumnType::Bytes) => 17,
        Some(ColumnType::Int64) => 20,
        Some(ColumnType::Text) | None => 25,
        Some(ColumnType::Float64) => 701,
        Some(ColumnType::Timestamp) => 1114,
        Some(ColumnType::Uuid) => 2950,
    }
}

/// Returns the length of a type's values in bytes, or -1 if they differ in length.
pub fn length(column_type: Option<ColumnType>) -> i16 {
    match column_type {
        Some(ColumnType::Bool) => 1,
        Some(ColumnType::Int64 | ColumnType::Float64 | ColumnType::Timestamp) => 8,
        Some(ColumnType::Uuid) => 16,
        Some(ColumnType::Text | ColumnType::Bytes) | None => -1,
    }
}

impl DeclaredType {
    /// Returns the type of an OID. Returns none for 0 and `unknown`, which leave the type to the
    /// server.
    ///
    /// # Errors
    /// The store has no such type.
    pub fn of(oid: u32) -> Result<Option<DeclaredType>, Report> {
        if oid == 0 || oid == UNKNOWN {
            return Ok(None);
        }
        let found = DECLARED.iter().find(|(known, _)| *known == oid);
        match found {
            Some((_, found)) => Ok(Some(*found)),
            None => {
                let text = format!("parameters of the type with OID {oid} are not supported");
                let names: Vec<&str> = ColumnType::ALL.iter().map(|it| it.name()).collect();
                let hint = format!(
                    "Declare one of {}, or none at all: the server infers it.",
                    names.join(", ")
                );
                Err(Report::new(Severity::Error, NOT_SUPPORTED, text).hint(hint))
            }
        }
    }

    /// Returns the type of the store that the values have after their conversion. A `numeric` has
    /// no such type, because its values may be of two.
    pub fn column_type(self) -> Option<ColumnType> {
        match self {
            DeclaredType::Stored(column_type) => Some(column_type),
            DeclaredType::Integer(_) => Some(ColumnType::Int64),
            DeclaredType::Real => Some(ColumnType::Float64),
            DeclaredType::ZonedTimestamp | DeclaredType::Date => Some(ColumnType::Timestamp),
            DeclaredType::Numeric => None,
        }
    }

    /// Returns the value of a parameter, which is not NULL.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    pub fn read(self, format: WireFormat, bytes: &[u8], number: usize) -> Result<Value, Report> {
        match format {
            WireFormat::Text => {
                let text = str::from_utf8(bytes).map_err(|_| errors::not_utf8(number))?;
                // A zero byte is no character of a text in PostgreSQL.
                if text.contains('\0') {
                    return Err(errors::not_utf8(number));
                }
                self.of_text(text)
            }
            WireFormat::Binary => match self.of_binary(bytes) {
                None if self == DeclaredType::Stored(ColumnType::Text) => {
                    Err(errors::not_utf8(number))
                }
                Some(value) => value,
                None if bytes.len() < self.binary_len_min() => Err(errors::cut_off()),
                None => Err(errors::invalid_binary(number)),
            },
        }
    }

    /// Returns the fewest bytes of a value in binary.
    fn binary_len_min(self) -> usize {
        match self {
            DeclaredType::Stored(column_type) => {
                usize::try_from(length(Some(column_type))).unwrap_or(0)
            }
            DeclaredType::Integer(bytes) => bytes,
            DeclaredType::Real | DeclaredType::Date => 4,
            DeclaredType::ZonedTimestamp | DeclaredType::Numeric => 8,
        }
    }

    fn of_text(self, text: &str) -> Result<Value, Report> {
        let parse = |column_type, text: &str| {
            Value::parse(column_type, text).map_err(|error| errors::invalid_value(&error))
        };
        let out_of_range = || errors::out_of_range(text);
        match self {
            DeclaredType::Stored(column_type) => parse(column_type, text),
            DeclaredType::Integer(bytes) => match parse(ColumnType::Int64, text)? {
                Value::Int64(value) if fits(value, bytes) => Ok(Value::Int64(value)),
                _ => Err(out_of_range()),
            },
            DeclaredType::Real => match parse(ColumnType::Float64, text)? {
                Value::Float64(value) => Ok(Value::Float64(f64::from(value as f32))),
                _ => Err(out_of_range()),
            },
            DeclaredType::Numeric => number(text).ok_or_else(out_of_range),
            DeclaredType::Date => parse(ColumnType::Timestamp, text),
            DeclaredType::ZonedTimestamp => {
                let (local, zone_us) = split_zone(text);
                match parse(ColumnType::Timestamp, &local)? {
                    Value::Timestamp(at) if at == i64::MIN || at == i64::MAX => {
                        Ok(Value::Timestamp(at))
                    }
                    Value::Timestamp(at) => {
                        let at = at.checked_sub(zone_us).ok_or_else(out_of_range)?;
                        Ok(Value::Timestamp(at))
                    }
                    _ => Err(out_of_range()),
                }
            }
        }
    }

    /// Returns none if the bytes are not of this type.
    fn of_binary(self, bytes: &[u8]) -> Option<Result<Value, Report>> {
        let value = match self {
            DeclaredType::Stored(ColumnType::Bool) => match bytes {
                [0] => Value::Bool(false),
                [_] => Value::Bool(true),
                _ => return None,
            },
            DeclaredType::Stored(ColumnType::Int64) => {
                Value::Int64(i64::from_be_bytes(bytes.try_into().ok()?))
            }
            DeclaredType::Stored(ColumnType::Float64) => {
                Value::Float64(f64::from_be_bytes(bytes.try_into().ok()?))
            }
            DeclaredType::Stored(ColumnType::Text) => {
                let text = str::from_utf8(bytes).ok()?;
                if text.contains('\0') {
                    return None;
                }
                Value::Text(text.to_owned())
            }
            DeclaredType::Stored(ColumnType::Bytes) => Value::Bytes(bytes.to_vec()),
            DeclaredType::Stored(ColumnType::Timestamp) | DeclaredType::ZonedTimestamp => {
                return Some(timestamp(i64::from_be_bytes(bytes.try_into().ok()?)));
            }
            DeclaredType::Stored(ColumnType::Uuid) => Value::Uuid(bytes.try_into().ok()?),
            DeclaredType::Integer(2) => {
                Value::Int64(i16::from_be_bytes(bytes.try_into().ok()?).into())
            }
            DeclaredType::Integer(_) => {
                Value::Int64(i32::from_be_bytes(bytes.try_into().ok()?).into())
            }
            DeclaredType::Real => Value::Float64(f32::from_be_bytes(bytes.try_into().ok()?).into()),
            DeclaredType::Date => {
                let days = i32::from_be_bytes(bytes.try_into().ok()?);
                return Some(match days {
                    i32::MAX => Ok(Value::Timestamp(i64::MAX)),
                    i32::MIN => Ok(Value::Timestamp(i64::MIN)),
                    days => match i64::from(days).checked_mul(DAY_US) {
                        Some(since_2000) => timestamp(since_2000),
                        None => Err(errors::timestamp_out_of_range()),
                    },
                });
            }
            DeclaredType::Numeric => {
                let text = numeric_text(bytes)?;
                return Some(number(&text).ok_or_else(|| errors::out_of_range(&text)));
            }
        };
        Some(Ok(value))
    }
}

/// Appends a value that is not NULL, in a column of this type.
///
/// # Errors
/// The value is of another type than the column.
pub fn write(
    out: &mut BytesMut,
    value: &Value,
    column_type: Option<ColumnType>,
    format: WireFormat,
) -> Result<(), Report> {
    let expected = column_type.unwrap_or(ColumnType::Text);
    if value.column_type() != Some(expected) {
        let found = value.column_type().map_or("NULL", ColumnType::name);
        let text = format!(
            "a value of type {found} is in a column of type {}",
            expected.name()
        );
        return Err(errors::internal(&text));
    }
    if format == WireFormat::Text {
        match value {
            Value::Text(text) => out.put_slice(text.as_bytes()),
            value => out.put_slice(value.to_string().as_bytes()),
        }
        return Ok(());
    }
    match value {
        Value::Null => {}
        Value::Bool(value) => out.put_u8(u8::from(*value)),
        Value::Int64(value) => out.put_i64(*value),
        Value::Float64(value) => out.put_f64(*value),
        Value::Text(text) => out.put_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.put_slice(bytes),
        Value::Timestamp(at @ (i64::MIN | i64::MAX)) => out.put_i64(*at),
        Value::Timestamp(at) => out.put_i64(at.saturating_sub(EPOCH_2000_US)),
        Value::Uuid(bytes) => out.put_slice(bytes),
    }
    Ok(())
}

fn timestamp(since_2000_us: i64) -> Result<Value, Report> {
    match since_2000_us {
        i64::MIN | i64::MAX => Ok(Value::Timestamp(since_2000_us)),
        TIMESTAMP_MIN_US..TIMESTAMP_END_US => {
            let since_1970_us = since_2000_us.checked_add(EPOCH_2000_US);
            let since_1970_us = since_1970_us.filter(|it| *it != i64::MAX);
            since_1970_us
                .map(Value::Timestamp)
                .ok_or_else(errors::timestamp_out_of_range)
        }
        _ => Err(errors::timestamp_out_of_range()),
    }
}

fn fits(value: i64, bytes: usize) -> bool {
    match bytes {
        2 => i16::try_from(value).is_ok(),
        _ => i32::try_from(value).is_ok(),
    }
}

/// Returns the number of a `numeric`: a bigint if it is a whole number that fits, else the nearest
/// double.
fn number(text: &str) -> Option<Value> {
    let text = text.trim_ascii();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Value::Int64(whole));
    }
    Value::parse(ColumnType::Float64, text).ok()
}

/// Returns the text of a `numeric` in binary: groups of four decimal digits.
fn numeric_text(bytes: &[u8]) -> Option<String> {
    let words: Option<Vec<u16>> = bytes
        .chunks(2)
        .map(|word| word.try_into().ok().map(u16::from_be_bytes))
        .collect();
    let words = words?;
    let ([count, weight, sign, scale], digits) = words.split_first_chunk()?;
    if usize::from(*count) != digits.len() || digits.iter().any(|digit| *digit > 9999) {
        return None;
    }
    let sign = match sign {
        0 => "",
        0x4000 => "-",
        0xc000 => return Some("NaN".into()),
        0xd000 => return Some("Infinity".into()),
        0xf000 => return Some("-Infinity".into()),
        _ => return None,
    };
    let weight = i32::from(weight.cast_signed());
    let group = |position: i32| {
        let position = usize::try_from(position).ok();
        let digit = position.and_then(|it| digits.get(it)).unwrap_or(&0);
        format!("{digit:04}")
    };
    let whole: String = (0..=weight).map(group).collect();
    let fraction_groups = i32::from(scale.div_ceil(4));
    let fraction: String = (weight + 1..=weight + fraction_groups).map(group).collect();
    let fraction = fraction.get(..usize::from(*scale)).unwrap_or(&fraction);
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    };
    let fraction = fraction.trim_end_matches('0');
    Some(match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    })
}

/// Splits a timestamp into its local part and its offset from UTC, which is 0 if it has none.
fn split_zone(text: &str) -> (String, i64) {
    let text = text.trim_ascii();
    let (text, era) = match text
        .len()
        .checked_sub(3)
        .and_then(|at| text.split_at_checked(at))
    {
        Some((before, era)) if era.eq_ignore_ascii_case(" bc") => (before, era),
        _ => (text, ""),
    };
    let plain = (format!("{text}{era}"), 0);
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return (format!("{local}{era}"), 0);
    }
    let Some(time) = text.find(':') else {
        return plain;
    };
    let Some(sign) = text[time..].find(['+', '-']).map(|at| time + at) else {
        return plain;
    };
    let (local, zone) = text.split_at(sign);
    let mut parts = zone[1..].split(':').map(|part| part.parse::<i64>().ok());
    let mut part = || parts.next().unwrap_or(Some(0));
    match (part(), part(), part()) {
        (Some(hours @ 0..=15), Some(minutes @ 0..=59), Some(seconds @ 0..=59)) => {
            let offset = (hours * 3600 + minutes * 60 + seconds) * 1_000_000;
            let signed = if zone.starts_with('-') {
                -offset
            } else {
                offset
            };
            (format!("{}{era}", local.trim_end()), signed)
        }
        _ => plain,
    }
}

#[cfg(test)]
mod tests;
