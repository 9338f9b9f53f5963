//! Converts values between types, by PostgreSQL's rules: on assignment to a column, and by an
//! explicit cast. Times without a zone are in UTC.

use alloc::format;
use alloc::string::ToString;

use crate::float::round_half_even;
use crate::interval::{Interval, rounded_time, time_after};
use crate::json::{Json, JsonError};
use crate::numeric::{Numeric, NumericRef};
use crate::text::ValueError;
use crate::value::{ArrayError, ColumnType, Value, ValueRef};

const DAY_US: i64 = 86_400_000_000;

/// Why a value cannot become one of another type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConversionError {
    /// The types have no conversion.
    NoConversion,
    /// The type has no such value.
    OutOfRange,
    /// A text is no value of the type.
    NotOfType(ValueError),
    /// A text has more characters than the type allows.
    TooManyCharacters,
    /// A numeric has more digits than the type allows.
    TooManyDigits,
    /// NaN or an infinity where a type has only numbers.
    NotFinite,
    /// A fault of JSON.
    Json(JsonError),
    /// A fault of an array.
    Array(ArrayError),
}

/// Returns whether values of a type can be assigned to a column.
pub fn is_assignable(column: ColumnType, found: ColumnType) -> bool {
    let column = column.of_values();
    if let (ColumnType::Array(column), ColumnType::Array(found)) = (column, found) {
        return is_assignable(column.column_type(), found.column_type());
    }
    column == found
        || column.is_number() && found.is_number()
        || column.is_time() && found.is_time()
        || is_json(column) && is_json(found)
        || matches!(
            (found.of_values(), column),
            (
                ColumnType::Timestamp | ColumnType::TimestampTz | ColumnType::Interval(_),
                ColumnType::Time(_)
            ) | (ColumnType::Time(_), ColumnType::Interval(_))
        )
}

fn is_json(column_type: ColumnType) -> bool {
    matches!(column_type, ColumnType::Json | ColumnType::Jsonb)
}

/// Returns whether an explicit cast converts values of one type to another.
pub fn is_castable(from: ColumnType, to: ColumnType) -> bool {
    let (from, to) = (from.of_values(), to.of_values());
    if let (ColumnType::Array(from), ColumnType::Array(to)) = (from, to) {
        return is_castable(from.column_type(), to.column_type());
    }
    is_assignable(to, from)
        || from == ColumnType::Text
        || to == ColumnType::Text
        || matches!(
            (from, to),
            (ColumnType::Bool, ColumnType::Int32)
                | (ColumnType::Int32, ColumnType::Bool)
                | (ColumnType::Jsonb, ColumnType::Bool)
        )
        || from == ColumnType::Jsonb && to.is_number()
}

impl Value {
    /// Returns the value as a column of this type stores it. Spaces beyond the limit of a text do
    /// not count.
    ///
    /// # Errors
    /// The column cannot store it.
    pub fn assigned(self, column: ColumnType) -> Result<Value, ConversionError> {
        match (self, column) {
            (Value::Text(mut text), ColumnType::Varchar(limit)) => {
                if !column.admits(ValueRef::Text(&text)) {
                    let limit = text.char_indices().nth(limit as usize).map(|(at, _)| at);
                    let end = limit.unwrap_or(text.len());
                    if !text[end..].bytes().all(|byte| byte == b' ') {
                        return Err(ConversionError::TooManyCharacters);
                    }
                    text.truncate(end);
                }
                Ok(Value::Text(text))
            }
            (Value::Text(mut text), ColumnType::Char(_)) => {
                text.truncate(text.trim_end_matches(' ').len());
                match column.admits(ValueRef::Text(&text)) {
                    true => Ok(Value::Text(text)),
                    false => Err(ConversionError::TooManyCharacters),
                }
            }
            (Value::Array(array), ColumnType::Array(element))
                if !column.admits(ValueRef::Array(array.as_ref()))
                    || array.as_ref().element() != element.of_values() =>
            {
                let element_type = element.column_type();
                Value::array_mapped(array.as_ref(), element, |it| it.assigned(element_type))
            }
            (value, column) => match value.column_type() {
                Some(found) if found == column.of_values() && column.admits(value.as_ref()) => {
                    Ok(value)
                }
                Some(found) if is_assignable(column, found) => value.converted(column),
                Some(_) => Err(ConversionError::NoConversion),
                None => Ok(value),
            },
        }
    }

    /// Returns the value converted by an explicit cast, which cuts texts to the limit of a type.
    ///
    /// # Errors
    /// It has no such conversion.
    pub fn cast(self, to: ColumnType) -> Result<Value, ConversionError> {
        let Some(from) = self.column_type() else {
            return Ok(self);
        };
        let is_limited = matches!(to, ColumnType::Time(_) | ColumnType::Interval(_));
        if !is_castable(from, to) {
            return Err(ConversionError::NoConversion);
        }
        match (self, to) {
            (value, ColumnType::Varchar(limit) | ColumnType::Char(limit)) => {
                let Value::Text(mut text) = value.cast(ColumnType::Text)? else {
                    return Err(ConversionError::NoConversion);
                };
                if let Some((end, _)) = text.char_indices().nth(limit as usize) {
                    text.truncate(end);
                }
                Value::Text(text).assigned(to)
            }
            (value, to) if from == to => Ok(value),
            (Value::Array(array), ColumnType::Array(element)) => {
                let element_type = element.column_type();
                Value::array_mapped(array.as_ref(), element, |it| it.cast(element_type))
            }
            (value, to) if is_limited && from == to.of_values() => value.assigned(to),
            (Value::Text(text), to) => {
                let value = Value::parse(to, &text).map_err(ConversionError::NotOfType)?;
                value.assigned(to)
            }
            (Value::Bool(value), ColumnType::Text) => Ok(Value::Text(format!("{value}"))),
            (value, ColumnType::Text) => Ok(Value::Text(value.to_string())),
            (Value::Bool(value), _) => Ok(Value::Int32(value.into())),
            (Value::Int32(value), ColumnType::Bool) => Ok(Value::Bool(value != 0)),
            (value, to) => value.converted(to),
        }
    }

    /// Converts a number to a number, or a time to a time.
    fn converted(self, to: ColumnType) -> Result<Value, ConversionError> {
        let value = self.as_ref();
        if let ValueRef::Jsonb(text) = value
            && to != ColumnType::Json
        {
            return of_jsonb(text, to);
        }
        if to.is_numeric() {
            let numeric = numeric_of(value).ok_or(ConversionError::NoConversion)?;
            let ColumnType::Decimal { precision, scale } = to else {
                return Ok(Value::Numeric(numeric));
            };
            let limited = numeric.as_ref().limited(precision, scale);
            return limited
                .map(Value::Numeric)
                .ok_or(ConversionError::TooManyDigits);
        }
        if let ValueRef::Numeric(value) = value {
            return of_numeric(value, to);
        }
        if let Some(integer) = value.integer() {
            return of_integer(integer, to);
        }
        if let Some(float) = value.float() {
            return match to {
                ColumnType::Float64 => Ok(Value::Float64(float)),
                ColumnType::Float32 => narrowed(float).map(Value::Float32),
                to => of_integer(rounded(float)?, to),
            };
        }
        match (self, to) {
            (Value::Time(at), ColumnType::Time(precision)) => {
                Ok(Value::Time(rounded_time(at, precision)))
            }
            (Value::Interval(value), ColumnType::Interval(precision)) => {
                let rounded = value.rounded(precision);
                rounded
                    .map(Value::Interval)
                    .ok_or(ConversionError::OutOfRange)
            }
            (Value::Time(micros), ColumnType::Interval(_)) => Value::Interval(Interval {
                micros,
                ..Interval::default()
            })
            .assigned(to),
            (Value::Interval(value), ColumnType::Time(_)) => {
                Value::Time(time_after(0, value)).assigned(to)
            }
            // As in PostgreSQL.
            (
                Value::Timestamp(i64::MIN | i64::MAX) | Value::TimestampTz(i64::MIN | i64::MAX),
                ColumnType::Time(_),
            ) => Ok(Value::Null),
            (Value::Timestamp(at) | Value::TimestampTz(at), ColumnType::Time(_)) => {
                Value::Time(at.rem_euclid(DAY_US)).assigned(to)
            }
            (Value::Date(days), ColumnType::Timestamp) => moment_of(days).map(Value::Timestamp),
            (Value::Date(days), ColumnType::TimestampTz) => moment_of(days).map(Value::TimestampTz),
            (Value::Timestamp(at) | Value::TimestampTz(at), ColumnType::Date) => {
                Ok(Value::Date(date_of(at)))
            }
            (Value::Timestamp(at), ColumnType::TimestampTz) => Ok(Value::TimestampTz(at)),
            (Value::TimestampTz(at), ColumnType::Timestamp) => Ok(Value::Timestamp(at)),
            (Value::Jsonb(text), ColumnType::Json) => Ok(Value::Json(text)),
            (Value::Json(text), ColumnType::Jsonb) => {
                Value::parse(to, &text).map_err(ConversionError::NotOfType)
            }
            _ => Err(ConversionError::NoConversion),
        }
    }
}

/// Returns a number as a numeric: all digits of an integer, and of a float those that it surely
/// has. Returns none for other values.
pub fn numeric_of(value: ValueRef<'_>) -> Option<Numeric> {
    match value {
        ValueRef::Numeric(value) => Some(value.to_owned()),
        ValueRef::Float64(value) => Some(Numeric::from_double(value)),
        ValueRef::Float32(value) => Some(Numeric::from_single(value)),
        value => value.integer().map(Numeric::from),
    }
}

/// Returns the number or the truth value that a `jsonb` is.
fn of_jsonb(text: &str, to: ColumnType) -> Result<Value, ConversionError> {
    match Json::parse(text).map_err(ConversionError::Json)? {
        Json::Bool(value) if to == ColumnType::Bool => Ok(Value::Bool(value)),
        Json::Number(value) if to.is_number() => Value::Numeric(value).cast(to),
        _ => Err(ConversionError::Json(JsonError::OtherKind)),
    }
}

fn of_numeric(value: NumericRef<'_>, to: ColumnType) -> Result<Value, ConversionError> {
    let out_of_range = ConversionError::OutOfRange;
    match to {
        ColumnType::Float64 => value.to_double().map(Value::Float64).ok_or(out_of_range),
        ColumnType::Float32 => value.to_single().map(Value::Float32).ok_or(out_of_range),
        to if to.is_integer() => {
            let integer = value.to_integer().map_err(|_| ConversionError::NotFinite)?;
            of_integer(integer.ok_or(out_of_range)?, to)
        }
        _ => Err(ConversionError::NoConversion),
    }
}

fn of_integer(value: i64, to: ColumnType) -> Result<Value, ConversionError> {
    let out_of_range = |_| ConversionError::OutOfRange;
    match to {
        ColumnType::Int16 => value.try_into().map(Value::Int16).map_err(out_of_range),
        ColumnType::Int32 => value.try_into().map(Value::Int32).map_err(out_of_range),
        ColumnType::Int64 => Ok(Value::Int64(value)),
        ColumnType::Float32 => Ok(Value::Float32(value as f32)),
        ColumnType::Float64 => Ok(Value::Float64(value as f64)),
        _ => Err(ConversionError::NoConversion),
    }
}

/// Returns the nearest integer of a float, of halves the even one.
fn rounded(value: f64) -> Result<i64, ConversionError> {
    let rounded = round_half_even(value);
    // -2^63 is a float, 2^63 - 1 is not. NaN is in no range.
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&rounded) {
        Ok(rounded as i64)
    } else {
        Err(ConversionError::OutOfRange)
    }
}

/// Rounds a double to a float of 32 bits, which must not become infinite or zero thereby.
pub fn narrowed(value: f64) -> Result<f32, ConversionError> {
    let narrow = value as f32;
    let is_lost = narrow.is_infinite() && !value.is_infinite() || narrow == 0.0 && value != 0.0;
    match is_lost {
        true => Err(ConversionError::OutOfRange),
        false => Ok(narrow),
    }
}

/// Returns the first moment of a day, in microseconds since 1970.
///
/// # Errors
/// It is beyond the range of timestamps.
pub fn moment_of(days: i32) -> Result<i64, ConversionError> {
    match days {
        i32::MAX => Ok(i64::MAX),
        i32::MIN => Ok(i64::MIN),
        days => {
            let micros = i64::from(days).checked_mul(DAY_US);
            let micros = micros.filter(|it| *it < i64::MAX);
            micros.ok_or(ConversionError::OutOfRange)
        }
    }
}

/// Returns the day of a moment.
fn date_of(micros: i64) -> i32 {
    match micros {
        i64::MAX => i32::MAX,
        i64::MIN => i32::MIN,
        micros => {
            i32::try_from(micros.div_euclid(DAY_US)).expect("days are fewer than microseconds")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn assignments_keep_the_value_or_fail() {
        for (value, column, expected) in [
            (Value::Int64(7), ColumnType::Int16, Ok(Value::Int16(7))),
            (
                Value::Int64(40_000),
                ColumnType::Int16,
                Err(ConversionError::OutOfRange),
            ),
            (Value::Float64(2.5), ColumnType::Int32, Ok(Value::Int32(2))),
            (
                Value::Float64(1e39),
                ColumnType::Float32,
                Err(ConversionError::OutOfRange),
            ),
            (text("ab  "), ColumnType::Varchar(3), Ok(text("ab "))),
            (
                text("abcd"),
                ColumnType::Varchar(3),
                Err(ConversionError::TooManyCharacters),
            ),
            (text("ab   "), ColumnType::Char(2), Ok(text("ab"))),
            (
                Value::Date(1),
                ColumnType::Timestamp,
                Ok(Value::Timestamp(DAY_US)),
            ),
            (
                Value::TimestampTz(-1),
                ColumnType::Date,
                Ok(Value::Date(-1)),
            ),
            (
                Value::Date(i32::MAX),
                ColumnType::TimestampTz,
                Ok(Value::TimestampTz(i64::MAX)),
            ),
            (
                Value::Bool(true),
                ColumnType::Int32,
                Err(ConversionError::NoConversion),
            ),
            (Value::Null, ColumnType::Int32, Ok(Value::Null)),
        ] {
            assert_eq!(value.clone().assigned(column), expected, "{value:?}");
        }
    }

    #[test]
    fn casts_cut_texts_and_read_them() {
        for (value, to, expected) in [
            (text("abcd"), ColumnType::Varchar(3), Ok(text("abc"))),
            (Value::Int32(1234), ColumnType::Char(2), Ok(text("12"))),
            (text(" 12 "), ColumnType::Int32, Ok(Value::Int32(12))),
            (Value::Bool(true), ColumnType::Text, Ok(text("true"))),
            (Value::Int32(3), ColumnType::Bool, Ok(Value::Bool(true))),
            (
                Value::Int64(3),
                ColumnType::Bool,
                Err(ConversionError::NoConversion),
            ),
        ] {
            assert_eq!(value.clone().cast(to), expected, "{value:?}");
        }
    }
}
