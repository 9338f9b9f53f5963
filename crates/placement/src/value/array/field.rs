//! The bytes of single values in rows and in arrays; see `row`.

use alloc::vec::Vec;

use super::ArrayRef;
use crate::clock::MICROS_PER_DAY;
use crate::interval::Interval;
use crate::json::{check_json, stored_jsonb};
use crate::numeric::NumericRef;
use crate::value::{ColumnType, ValueRef};

/// Appends the bytes of a value in a row; none for NULL.
pub(crate) fn write_field(out: &mut Vec<u8>, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => {}
        ValueRef::Bool(value) => out.push(u8::from(value)),
        ValueRef::Int64(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value)
        | ValueRef::Time(value) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Interval(value) => {
            out.extend_from_slice(&value.micros.to_le_bytes());
            out.extend_from_slice(&value.days.to_le_bytes());
            out.extend_from_slice(&value.months.to_le_bytes());
        }
        ValueRef::Int32(value) | ValueRef::Date(value) => {
            out.extend_from_slice(&value.to_le_bytes());
        }
        ValueRef::Int16(value) => out.extend_from_slice(&value.to_le_bytes()),
        ValueRef::Float32(value) => out.extend_from_slice(&value.to_le_bytes()),
        ValueRef::Float64(value) => out.extend_from_slice(&value.to_le_bytes()),
        ValueRef::Text(value) => out.extend_from_slice(value.as_bytes()),
        ValueRef::Bytes(value) => out.extend_from_slice(value),
        ValueRef::Uuid(value) => out.extend_from_slice(&value),
        ValueRef::Numeric(value) => out.extend_from_slice(value.as_bytes()),
        ValueRef::Json(value) | ValueRef::Jsonb(value) => {
            out.extend_from_slice(value.as_bytes());
        }
        ValueRef::Array(value) => out.extend_from_slice(value.as_bytes()),
    }
}

/// Returns whether the bytes of a field in a row are those of a value of this type.
pub(crate) fn field_fits(column_type: ColumnType, field: &[u8]) -> bool {
    match column_type {
        ColumnType::Bool => matches!(field, [0 | 1]),
        ColumnType::Int64
        | ColumnType::Float64
        | ColumnType::Timestamp
        | ColumnType::TimestampTz => field.len() == 8,
        ColumnType::Int32 | ColumnType::Float32 | ColumnType::Date => field.len() == 4,
        ColumnType::Int16 => field.len() == 2,
        ColumnType::Text => core::str::from_utf8(field).is_ok(),
        ColumnType::Varchar(_) | ColumnType::Char(_) => {
            core::str::from_utf8(field).is_ok_and(|text| column_type.admits(ValueRef::Text(text)))
        }
        ColumnType::Numeric | ColumnType::Decimal { .. } => NumericRef::from_bytes(field)
            .is_some_and(|value| column_type.admits(ValueRef::Numeric(value))),
        ColumnType::Bytes => true,
        ColumnType::Uuid => field.len() == 16,
        ColumnType::Json => core::str::from_utf8(field).is_ok_and(|it| check_json(it).is_ok()),
        ColumnType::Jsonb => core::str::from_utf8(field).is_ok_and(stored_jsonb),
        ColumnType::Time(_) => field.try_into().is_ok_and(|it| {
            let micros = i64::from_le_bytes(it);
            (0..=MICROS_PER_DAY).contains(&micros) && column_type.admits(ValueRef::Time(micros))
        }),
        ColumnType::Interval(_) => {
            interval(field).is_some_and(|it| column_type.admits(ValueRef::Interval(it)))
        }
        ColumnType::Array(element) => ArrayRef::from_bytes(field).is_some_and(|array| {
            array.element() == element.of_values() && column_type.admits(ValueRef::Array(array))
        }),
    }
}

/// Returns the value of bytes that [`field_fits`] has accepted.
pub(crate) fn field_value(column_type: ColumnType, field: &[u8]) -> ValueRef<'_> {
    const CHECKED: &str = "parse checked every field against its type";
    let eight = || <[u8; 8]>::try_from(field).expect(CHECKED);
    let four = || <[u8; 4]>::try_from(field).expect(CHECKED);
    match column_type {
        ColumnType::Bool => ValueRef::Bool(field[0] != 0),
        ColumnType::Int64 => ValueRef::Int64(i64::from_le_bytes(eight())),
        ColumnType::Float64 => ValueRef::Float64(f64::from_le_bytes(eight())),
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
            ValueRef::Text(core::str::from_utf8(field).expect(CHECKED))
        }
        ColumnType::Bytes => ValueRef::Bytes(field),
        ColumnType::Timestamp => ValueRef::Timestamp(i64::from_le_bytes(eight())),
        ColumnType::Uuid => ValueRef::Uuid(field.try_into().expect(CHECKED)),
        ColumnType::Int16 => ValueRef::Int16(i16::from_le_bytes(field.try_into().expect(CHECKED))),
        ColumnType::Int32 => ValueRef::Int32(i32::from_le_bytes(four())),
        ColumnType::Float32 => ValueRef::Float32(f32::from_le_bytes(four())),
        ColumnType::Date => ValueRef::Date(i32::from_le_bytes(four())),
        ColumnType::TimestampTz => ValueRef::TimestampTz(i64::from_le_bytes(eight())),
        ColumnType::Numeric | ColumnType::Decimal { .. } => {
            ValueRef::Numeric(NumericRef::checked_before(field))
        }
        ColumnType::Json => ValueRef::Json(core::str::from_utf8(field).expect(CHECKED)),
        ColumnType::Jsonb => ValueRef::Jsonb(core::str::from_utf8(field).expect(CHECKED)),
        ColumnType::Time(_) => ValueRef::Time(i64::from_le_bytes(eight())),
        ColumnType::Interval(_) => ValueRef::Interval(interval(field).expect(CHECKED)),
        ColumnType::Array(_) => ValueRef::Array(ArrayRef::checked_before(field)),
    }
}

/// Returns the interval of a field; none if it has not the right length.
fn interval(field: &[u8]) -> Option<Interval> {
    let (micros, rest) = field.split_first_chunk()?;
    let (days, months) = rest.split_first_chunk()?;
    Some(Interval {
        micros: i64::from_le_bytes(*micros),
        days: i32::from_le_bytes(*days),
        months: i32::from_le_bytes(months.try_into().ok()?),
    })
}
