//! PostgreSQL's numbers of the store's types, and their values as text and in binary.
//!
//! Parameters of types that the store does not have are refused.

mod array;
mod numeric;

use bytes::{BufMut, BytesMut};
use placement::{
    ColumnType, DATES, Interval, TIME_PRECISION_MAX, TimeInput, TimeZone, Value, rounded_time,
};

use pg_wire::frontend::WireFormat;
use pg_wire::report::{Report, Severity};

use crate::errors::{self, NOT_SUPPORTED};

/// Microseconds from 1970, where the store's timestamps begin, to 2000, where PostgreSQL's do.
const EPOCH_2000_US: i64 = 946_684_800_000_000;
/// The microseconds of a day.
const DAY_US: i64 = 86_400_000_000;
/// Days from 1970 to 2000.
const EPOCH_2000_DAYS: i32 = 10_957;
/// The range of PostgreSQL's timestamps in binary: microseconds since 2000.
const TIMESTAMP_MIN_US: i64 = -211_813_488_000_000_000;
const TIMESTAMP_END_US: i64 = 9_223_371_331_200_000_000;

/// The first byte of a `jsonb` in binary.
const JSONB_VERSION: u8 = 1;

/// The type of a parameter: declared by the client, or inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterType(pub ColumnType);

/// The OIDs of the types that a client may declare.
const DECLARED: &[(u32, ColumnType)] = &[
    (16, ColumnType::Bool),
    (17, ColumnType::Bytes),
    (19, ColumnType::Text),
    (20, ColumnType::Int64),
    (21, ColumnType::Int16),
    (23, ColumnType::Int32),
    (25, ColumnType::Text),
    (700, ColumnType::Float32),
    (701, ColumnType::Float64),
    (1042, ColumnType::Text),
    (1043, ColumnType::Text),
    (1082, ColumnType::Date),
    (1114, ColumnType::Timestamp),
    (1184, ColumnType::TimestampTz),
    (1700, ColumnType::Numeric),
    (2950, ColumnType::Uuid),
    (114, ColumnType::Json),
    (3802, ColumnType::Jsonb),
    (1083, ColumnType::TIME),
    (1186, ColumnType::INTERVAL),
];

/// PostgreSQL's OID of the type of a literal without a type.
pub const UNKNOWN: u32 = 705;

/// Returns the OID of a type in PostgreSQL. A column that is always NULL is a text.
pub fn oid(column_type: Option<ColumnType>) -> u32 {
    match column_type {
        Some(ColumnType::Bool) => 16,
        Some(ColumnType::Bytes) => 17,
        Some(ColumnType::Int64) => 20,
        Some(ColumnType::Int16) => 21,
        Some(ColumnType::Int32) => 23,
        Some(ColumnType::Text) | None => 25,
        Some(ColumnType::Float32) => 700,
        Some(ColumnType::Float64) => 701,
        Some(ColumnType::Char(_)) => 1042,
        Some(ColumnType::Varchar(_)) => 1043,
        Some(ColumnType::Date) => 1082,
        Some(ColumnType::Timestamp) => 1114,
        Some(ColumnType::TimestampTz) => 1184,
        Some(ColumnType::Numeric | ColumnType::Decimal { .. }) => 1700,
        Some(ColumnType::Uuid) => 2950,
        Some(ColumnType::Json) => 114,
        Some(ColumnType::Jsonb) => 3802,
        Some(ColumnType::Time(_)) => 1083,
        Some(ColumnType::Interval(_)) => 1186,
        Some(ColumnType::Array(element)) => array::oid(element),
    }
}

/// Returns the length of a type's values in bytes, or -1 if they differ in length.
pub fn length(column_type: Option<ColumnType>) -> i16 {
    match column_type {
        Some(ColumnType::Bool) => 1,
        Some(ColumnType::Int16) => 2,
        Some(ColumnType::Int32 | ColumnType::Float32 | ColumnType::Date) => 4,
        Some(
            ColumnType::Int64
            | ColumnType::Float64
            | ColumnType::Timestamp
            | ColumnType::TimestampTz
            | ColumnType::Time(_),
        ) => 8,
        Some(ColumnType::Uuid | ColumnType::Interval(_)) => 16,
        Some(
            ColumnType::Text
            | ColumnType::Varchar(_)
            | ColumnType::Char(_)
            | ColumnType::Bytes
            | ColumnType::Numeric
            | ColumnType::Decimal { .. }
            | ColumnType::Json
            | ColumnType::Jsonb
            | ColumnType::Array(_),
        )
        | None => -1,
    }
}

/// Returns what a type's values are limited to, as PostgreSQL writes it: the length of a text, or
/// the digits of a numeric, and four, or the digits of a second; -1 if they are not limited.
pub fn modifier(column_type: Option<ColumnType>) -> i32 {
    match column_type {
        Some(ColumnType::Array(element)) => modifier(Some(element.column_type())),
        Some(ColumnType::Varchar(length) | ColumnType::Char(length)) => {
            i32::try_from(length).map_or(-1, |length| length.saturating_add(4))
        }
        Some(ColumnType::Decimal { precision, scale }) => {
            /// The bits of the scale.
            const SCALE_BITS: i32 = 0x7ff;
            (i32::from(precision) << 16 | i32::from(scale) & SCALE_BITS) + 4
        }
        Some(ColumnType::Time(precision)) if precision < TIME_PRECISION_MAX => precision.into(),
        Some(ColumnType::Interval(precision)) if precision < TIME_PRECISION_MAX => {
            /// All fields of an interval.
            const FULL_RANGE: i32 = 0x7fff << 16;
            FULL_RANGE | i32::from(precision)
        }
        _ => -1,
    }
}

impl ParameterType {
    /// Returns the type of an OID. Returns none for 0 and `unknown`, which leave the type to the
    /// server.
    ///
    /// # Errors
    /// The store has no such type.
    pub fn of(oid: u32) -> Result<Option<ParameterType>, Report> {
        if oid == 0 || oid == UNKNOWN {
            return Ok(None);
        }
        let found = DECLARED.iter().find(|(known, _)| *known == oid);
        let found = found
            .map(|(_, found)| *found)
            .or_else(|| array::declared(oid));
        match found {
            Some(found) => Ok(Some(ParameterType(found))),
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

    /// Returns the value of a parameter, which is not NULL. `input` has the meaning of times as
    /// text.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    pub fn read(
        self,
        format: WireFormat,
        bytes: &[u8],
        number: usize,
        input: &TimeInput<'_>,
    ) -> Result<Value, Report> {
        match format {
            WireFormat::Text => {
                let text = str::from_utf8(bytes).map_err(|_| errors::not_utf8(number))?;
                // A zero byte is no character of a text in PostgreSQL.
                if text.contains('\0') {
                    return Err(errors::not_utf8(number));
                }
                self.of_text(text, input)
            }
            WireFormat::Binary => match self.of_binary(bytes) {
                None if self.is_text() => Err(errors::not_utf8(number)),
                Some(value) => value,
                None if bytes.len() < self.binary_len_min() => Err(errors::cut_off()),
                None => Err(errors::invalid_binary(number)),
            },
        }
    }

    /// Returns the fewest bytes of a value in binary.
    fn binary_len_min(self) -> usize {
        match self.0 {
            found if found.is_numeric() => numeric::BINARY_LEN_MIN,
            ColumnType::Array(_) => array::BINARY_LEN_MIN,
            found => usize::try_from(length(Some(found))).unwrap_or(0),
        }
    }

    fn is_text(self) -> bool {
        self.0.of_values() == ColumnType::Text
    }

    fn of_text(self, text: &str, input: &TimeInput<'_>) -> Result<Value, Report> {
        Value::parse_at(self.0, text, input).map_err(|error| errors::invalid_value(&error))
    }

    fn of_json(self, text: &str) -> Result<Value, Report> {
        Value::parse(self.0, text).map_err(|error| errors::invalid_value(&error))
    }

    /// Returns none if the bytes are not of this type.
    fn of_binary(self, bytes: &[u8]) -> Option<Result<Value, Report>> {
        let value = match self.0 {
            ColumnType::Bool => match bytes {
                [0] => Value::Bool(false),
                [_] => Value::Bool(true),
                _ => return None,
            },
            ColumnType::Int16 => Value::Int16(i16::from_be_bytes(bytes.try_into().ok()?)),
            ColumnType::Int32 => Value::Int32(i32::from_be_bytes(bytes.try_into().ok()?)),
            ColumnType::Int64 => Value::Int64(i64::from_be_bytes(bytes.try_into().ok()?)),
            ColumnType::Float32 => Value::Float32(f32::from_be_bytes(bytes.try_into().ok()?)),
            ColumnType::Float64 => Value::Float64(f64::from_be_bytes(bytes.try_into().ok()?)),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
                let text = str::from_utf8(bytes).ok()?;
                if text.contains('\0') {
                    return None;
                }
                Value::Text(text.to_owned())
            }
            ColumnType::Bytes => Value::Bytes(bytes.to_vec()),
            ColumnType::Date => return Some(date(i32::from_be_bytes(bytes.try_into().ok()?))),
            ColumnType::Timestamp => {
                let at = timestamp(i64::from_be_bytes(bytes.try_into().ok()?));
                return Some(at.map(Value::Timestamp));
            }
            ColumnType::TimestampTz => {
                let at = timestamp(i64::from_be_bytes(bytes.try_into().ok()?));
                return Some(at.map(Value::TimestampTz));
            }
            ColumnType::Uuid => Value::Uuid(bytes.try_into().ok()?),
            ColumnType::Numeric | ColumnType::Decimal { .. } => {
                let value = numeric::read(bytes)?;
                return Some(value.map(Value::Numeric));
            }
            ColumnType::Json => return Some(self.of_json(json_text(bytes)?)),
            ColumnType::Jsonb => match bytes {
                [JSONB_VERSION, text @ ..] => return Some(self.of_json(json_text(text)?)),
                _ => return None,
            },
            ColumnType::Time(precision) => {
                let micros = i64::from_be_bytes(bytes.try_into().ok()?);
                return Some(match (0..=DAY_US).contains(&micros) {
                    true => Ok(Value::Time(rounded_time(micros, precision))),
                    false => Err(errors::time_out_of_range()),
                });
            }
            ColumnType::Interval(precision) => {
                let (micros, rest) = bytes.split_first_chunk()?;
                let (days, months) = rest.split_first_chunk()?;
                let read = Interval {
                    micros: i64::from_be_bytes(*micros),
                    days: i32::from_be_bytes(*days),
                    months: i32::from_be_bytes(months.try_into().ok()?),
                };
                let rounded = read.rounded(precision).map(Value::Interval);
                return Some(rounded.ok_or_else(errors::interval_out_of_range));
            }
            ColumnType::Array(element) => return array::read(element, bytes),
        };
        Some(Ok(value))
    }
}

/// Returns a value of a column in the binary format of a COPY. It is not NULL.
///
/// # Errors
/// The bytes are no value of the type.
pub fn read_copied(column_type: ColumnType, bytes: &[u8]) -> Result<Value, Report> {
    let declared = ParameterType(column_type);
    match declared.of_binary(bytes) {
        Some(value) => value,
        None if declared.is_text() => Err(errors::not_utf8_copied(bytes)),
        None if bytes.len() < declared.binary_len_min() => Err(errors::cut_off()),
        None => Err(errors::invalid_binary_copied()),
    }
}

/// Appends a value that is not NULL, in a column of this type. A moment as text is in a zone.
///
/// # Errors
/// The value is of another type than the column.
pub fn write(
    out: &mut BytesMut,
    value: &Value,
    column_type: Option<ColumnType>,
    (format, zone): (WireFormat, &TimeZone<'_>),
) -> Result<(), Report> {
    let expected = column_type.unwrap_or(ColumnType::Text);
    if value.column_type() != Some(expected.of_values()) {
        let found = value.column_type().map_or("NULL", ColumnType::name);
        let text = format!(
            "a value of type {found} is in a column of type {}",
            expected.name()
        );
        return Err(errors::internal(&text));
    }
    if format == WireFormat::Text {
        out.put_slice(expected.shown_in(value, zone).as_bytes());
        return Ok(());
    }
    match value {
        Value::Null => {}
        Value::Bool(value) => out.put_u8(u8::from(*value)),
        Value::Int64(value) => out.put_i64(*value),
        Value::Float64(value) => out.put_f64(*value),
        Value::Int16(value) => out.put_i16(*value),
        Value::Int32(value) => out.put_i32(*value),
        Value::Float32(value) => out.put_f32(*value),
        Value::Text(_) => out.put_slice(expected.shown(value).as_bytes()),
        Value::Bytes(bytes) => out.put_slice(bytes),
        Value::Date(days @ (i32::MIN | i32::MAX)) => out.put_i32(*days),
        Value::Date(days) => out.put_i32(days.saturating_sub(EPOCH_2000_DAYS)),
        Value::Timestamp(at @ (i64::MIN | i64::MAX))
        | Value::TimestampTz(at @ (i64::MIN | i64::MAX)) => out.put_i64(*at),
        Value::Timestamp(at) | Value::TimestampTz(at) => {
            out.put_i64(at.saturating_sub(EPOCH_2000_US));
        }
        Value::Uuid(bytes) => out.put_slice(bytes),
        Value::Time(micros) => out.put_i64(*micros),
        Value::Interval(value) => {
            out.put_i64(value.micros);
            out.put_i32(value.days);
            out.put_i32(value.months);
        }
        Value::Numeric(value) => numeric::write(out, value.as_ref()),
        Value::Json(text) => out.put_slice(text.as_bytes()),
        Value::Jsonb(text) => {
            out.put_u8(JSONB_VERSION);
            out.put_slice(text.as_bytes());
        }
        Value::Array(array) => {
            let element = match expected {
                ColumnType::Array(element) => element,
                _ => array.as_ref().element(),
            };
            return array::write(out, array.as_ref(), element, zone);
        }
    }
    Ok(())
}

/// Returns the text of JSON in binary; none if it is not UTF-8, or has a zero byte.
fn json_text(bytes: &[u8]) -> Option<&str> {
    let text = str::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Returns the microseconds since 1970 of a timestamp in binary.
fn timestamp(since_2000_us: i64) -> Result<i64, Report> {
    match since_2000_us {
        i64::MIN | i64::MAX => Ok(since_2000_us),
        TIMESTAMP_MIN_US..TIMESTAMP_END_US => {
            let since_1970_us = since_2000_us.checked_add(EPOCH_2000_US);
            let since_1970_us = since_1970_us.filter(|it| *it != i64::MAX);
            since_1970_us.ok_or_else(errors::timestamp_out_of_range)
        }
        _ => Err(errors::timestamp_out_of_range()),
    }
}

/// Returns the value of a date in binary.
fn date(since_2000: i32) -> Result<Value, Report> {
    let days = match since_2000 {
        i32::MIN | i32::MAX => Some(since_2000),
        days => days
            .checked_add(EPOCH_2000_DAYS)
            .filter(|it| DATES.contains(it)),
    };
    days.map(Value::Date).ok_or_else(errors::date_out_of_range)
}

#[cfg(test)]
mod tests;
