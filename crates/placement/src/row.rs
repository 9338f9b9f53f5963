//! Encodes and decodes rows. The encoding is written by hand, checked once, and read without a
//! copy.
//!
//! | part | bytes |
//! |---|---|
//! | header | u16, little endian |
//! | nulls | only with bit 13: one bit per column, lowest first, the rest of the last byte zero |
//! | ends | per column, where its data ends, counted from the start of the data; little endian |
//! | data | values back to back, NULL none |
//!
//! The header has in bits 0–10 the number of columns, in 11–12 the width code of ends, in 13
//! whether nulls follow, in 14–15 zero (a later format). Ends of width code 0, 1 or 2 take 1, 2 or
//! 4 bytes. Numbers, dates and timestamps are little endian, as long as their type: int16 2 bytes,
//! int32, float32 and date 4, int64, float64 and timestamps 8. A bool takes 1 byte, a uuid 16. Text
//! and bytes are as they are, a numeric and an array are in their stored forms (`numeric`,
//! `array`). A time takes 8 bytes, an interval 16: its microseconds, days and months.
//!
//! Any column is found in constant time. Offsets are as narrow as the data allows: ten fields of
//! ten bytes take 112 bytes. A row may have fewer columns than the schema that reads it (columns
//! are added at the end): the missing ones read as [`Column::missing`]. It may not have more,
//! because a reader that drops columns would lose them on its next write.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::schema::Column;
use crate::value::{ColumnType, Value, ValueRef, field_fits, field_value, write_field};

/// The most bytes that an encoded row may have.
pub const ROW_BYTES_MAX: usize = 1 << 20;

const HEADER_BYTES: usize = 2;
const COUNT_MASK: u16 = (1 << 11) - 1;
const WIDTH_SHIFT: u16 = 11;
const NULLS_FLAG: u16 = 1 << 13;
const LATER_FORMAT_MASK: u16 = 0b11 << 14;

/// The reason why values are not a row of the schema, or bytes not a row. Retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowError {
    /// The number of values is not the number of columns.
    ValueCount {
        /// Columns in the schema.
        expected: usize,
        /// Values given.
        found: usize,
    },
    /// A column that is not nullable has NULL.
    Null {
        /// The column's name.
        column: String,
    },
    /// A value has another type than its column.
    WrongType {
        /// The column's name.
        column: String,
        /// The column's type.
        expected: ColumnType,
        /// The value's type.
        found: ColumnType,
    },
    /// A text has more characters than its column may have, or a numeric has more digits or another
    /// scale.
    BeyondLimit {
        /// The column's name.
        column: String,
        /// The column's type.
        column_type: ColumnType,
    },
    /// The encoded row is longer than [`ROW_BYTES_MAX`].
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// The bytes end within the header, or their length is not that in the header.
    Length,
    /// A newer version wrote the row, or it has more columns than the schema.
    Newer,
    /// The bytes of the column with this index encode no value of its type.
    Malformed {
        /// Index of the column.
        column: usize,
    },
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RowError::ValueCount { expected, found } => {
                write!(
                    f,
                    "{found} values for {expected} columns: give one value per column"
                )
            }
            RowError::Null { column } => {
                write!(f, "column {column} is NOT NULL: give it a value")
            }
            RowError::WrongType {
                column,
                expected,
                found,
            } => write!(
                f,
                "column {column} is of type {}, the value of type {}: convert it",
                expected.name(),
                found.name()
            ),
            RowError::BeyondLimit {
                column,
                column_type,
            } if column_type.is_numeric() => write!(
                f,
                "the value of column {column} does not have the digits of a {column_type}: round it"
            ),
            RowError::BeyondLimit {
                column,
                column_type,
            } => write!(
                f,
                "the value of column {column} is too long for the type {column_type}: shorten it"
            ),
            RowError::TooLong { bytes } => write!(
                f,
                "the row takes {bytes} bytes, the limit is {ROW_BYTES_MAX}: store large values in several rows"
            ),
            RowError::Length => write!(f, "the row's bytes are cut off or too many"),
            RowError::Newer => {
                write!(
                    f,
                    "the row was written with a newer schema or format: refresh the configuration or upgrade"
                )
            }
            RowError::Malformed { column } => {
                write!(
                    f,
                    "column {column} of the row holds bytes that encode no value of its type"
                )
            }
        }
    }
}

impl core::error::Error for RowError {}

/// Encodes one value per column, in the order of the columns.
pub fn encode_row(columns: &[Column], values: &[Value]) -> Result<Vec<u8>, RowError> {
    encode_values(columns, values.len(), |index| values[index].as_ref())
}

/// Encodes like [`encode_row`], from borrowed values.
pub fn encode_row_refs(columns: &[Column], values: &[ValueRef<'_>]) -> Result<Vec<u8>, RowError> {
    encode_values(columns, values.len(), |index| values[index])
}

fn encode_values<'a>(
    columns: &[Column],
    count: usize,
    value: impl Fn(usize) -> ValueRef<'a>,
) -> Result<Vec<u8>, RowError> {
    let (data_bytes, has_null) = measure(columns, count, &value)?;
    let width_code: u16 = match data_bytes {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    };
    let width = 1usize << width_code;
    let null_bytes = if has_null { count.div_ceil(8) } else { 0 };
    let bytes = HEADER_BYTES + null_bytes + count * width + data_bytes;
    if bytes > ROW_BYTES_MAX {
        return Err(RowError::TooLong { bytes });
    }

    let mut out = Vec::with_capacity(bytes);
    let nulls_flag = if has_null { NULLS_FLAG } else { 0 };
    let header = count as u16 | width_code << WIDTH_SHIFT | nulls_flag;
    out.extend_from_slice(&header.to_le_bytes());
    if has_null {
        out.resize(HEADER_BYTES + null_bytes, 0);
        for index in (0..count).filter(|index| value(*index).is_null()) {
            out[HEADER_BYTES + index / 8] |= 1 << (index % 8);
        }
    }
    let mut end = 0;
    for index in 0..count {
        end += value_bytes(value(index));
        out.extend_from_slice(&(end as u32).to_le_bytes()[..width]);
    }
    for index in 0..count {
        write_field(&mut out, value(index));
    }
    assert_eq!(out.len(), bytes, "the size computed is the size written");
    Ok(out)
}

/// Checks the values against the columns: the bytes of their data, and whether one is NULL.
fn measure<'a>(
    columns: &[Column],
    count: usize,
    value: impl Fn(usize) -> ValueRef<'a>,
) -> Result<(usize, bool), RowError> {
    let expected = columns.len();
    if count != expected {
        return Err(RowError::ValueCount {
            expected,
            found: count,
        });
    }
    assert!(
        count <= usize::from(COUNT_MASK),
        "Schema::validate bounds the columns"
    );
    let mut data_bytes = 0;
    let mut has_null = false;
    for (index, column) in columns.iter().enumerate() {
        let value = value(index);
        match value.column_type() {
            None if !column.nullable => {
                return Err(RowError::Null {
                    column: column.name.clone(),
                });
            }
            None => has_null = true,
            Some(found) if found != column.column_type.of_values() => {
                return Err(RowError::WrongType {
                    column: column.name.clone(),
                    expected: column.column_type,
                    found,
                });
            }
            Some(_) => {
                if !column.column_type.admits(value) {
                    return Err(RowError::BeyondLimit {
                        column: column.name.clone(),
                        column_type: column.column_type,
                    });
                }
                data_bytes += value_bytes(value);
            }
        }
    }
    Ok((data_bytes, has_null))
}

fn value_bytes(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Null => 0,
        ValueRef::Bool(_) => 1,
        ValueRef::Int64(_)
        | ValueRef::Timestamp(_)
        | ValueRef::TimestampTz(_)
        | ValueRef::Time(_)
        | ValueRef::Float64(_) => 8,
        ValueRef::Int32(_) | ValueRef::Float32(_) | ValueRef::Date(_) => 4,
        ValueRef::Int16(_) => 2,
        ValueRef::Text(value) => value.len(),
        ValueRef::Bytes(value) => value.len(),
        ValueRef::Uuid(_) | ValueRef::Interval(_) => 16,
        ValueRef::Numeric(value) => value.as_bytes().len(),
        ValueRef::Json(value) | ValueRef::Jsonb(value) => value.len(),
        ValueRef::Array(value) => value.as_bytes().len(),
    }
}

/// An encoded row. It is checked once, and columns are read from the bytes.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    columns: &'a [Column],
    /// Columns that the row holds; the schema may have more.
    count: usize,
    /// Bytes per offset: 1, 2 or 4.
    width: usize,
    /// Empty if the row has no nulls.
    nulls: &'a [u8],
    /// `count * width` bytes; ends rise and the last is the length of `data`.
    ends: &'a [u8],
    data: &'a [u8],
}

impl<'a> RowView<'a> {
    /// Checks all bytes, so that reading a column cannot fail. Never panics.
    pub fn parse(columns: &'a [Column], bytes: &'a [u8]) -> Result<RowView<'a>, RowError> {
        let row = RowView::checked_before(columns, bytes)?;
        let mut start = 0;
        for (index, column) in columns[..row.count].iter().enumerate() {
            let end = row.end(index);
            let malformed = RowError::Malformed { column: index };
            let field = row.data.get(start..end).ok_or(malformed.clone())?;
            let fits = match row.is_null(index) {
                true => field.is_empty(),
                false => field_fits(column.column_type, field),
            };
            if !fits {
                return Err(malformed);
            }
            start = end;
        }
        if start != row.data.len() {
            return Err(RowError::Length);
        }
        Ok(row)
    }

    /// Returns a row that [`RowView::parse`] accepted before, as all rows in tables. It checks only
    /// the header. Reading a column with invalid bytes panics.
    pub fn checked_before(columns: &'a [Column], bytes: &'a [u8]) -> Result<RowView<'a>, RowError> {
        if bytes.len() > ROW_BYTES_MAX {
            return Err(RowError::TooLong { bytes: bytes.len() });
        }
        let (header, rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(RowError::Length)?;
        let header = u16::from_le_bytes(*header);
        let count = usize::from(header & COUNT_MASK);
        let width_code = header >> WIDTH_SHIFT & 0b11;
        if header & LATER_FORMAT_MASK != 0 || width_code == 3 || count > columns.len() {
            return Err(RowError::Newer);
        }
        let width = 1usize << width_code;
        let null_bytes = if header & NULLS_FLAG != 0 {
            count.div_ceil(8)
        } else {
            0
        };
        let (nulls, rest) = rest.split_at_checked(null_bytes).ok_or(RowError::Length)?;
        let (ends, data) = rest
            .split_at_checked(count * width)
            .ok_or(RowError::Length)?;
        if let Some(last) = nulls.last()
            && !count.is_multiple_of(8)
            && last >> (count % 8) != 0
        {
            return Err(RowError::Malformed { column: count });
        }
        Ok(RowView {
            columns,
            count,
            width,
            nulls,
            ends,
            data,
        })
    }

    /// Returns the value of a column of the schema. The row may be older than the column.
    ///
    /// # Panics
    /// If the schema has no such column.
    pub fn column(&self, index: usize) -> ValueRef<'a> {
        let column = &self.columns[index];
        if index >= self.count {
            return column
                .missing
                .as_ref()
                .map_or(ValueRef::Null, Value::as_ref);
        }
        if self.is_null(index) {
            return ValueRef::Null;
        }
        let start = if index == 0 { 0 } else { self.end(index - 1) };
        let field = &self.data[start..self.end(index)];
        field_value(column.column_type, field)
    }

    /// Returns the columns of the schema with which the row is read.
    pub fn columns(&self) -> &'a [Column] {
        self.columns
    }

    /// Returns one value per column of the schema.
    pub fn to_values(&self) -> Vec<Value> {
        (0..self.columns.len())
            .map(|index| self.column(index).to_owned())
            .collect()
    }

    fn is_null(&self, index: usize) -> bool {
        self.nulls
            .get(index / 8)
            .is_some_and(|byte| byte >> (index % 8) & 1 != 0)
    }

    fn end(&self, index: usize) -> usize {
        match self.width {
            1 => usize::from(self.ends[index]),
            2 => usize::from(u16::from_le_bytes([
                self.ends[2 * index],
                self.ends[2 * index + 1],
            ])),
            _ => {
                let bytes = &self.ends[4 * index..][..4];
                u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize
            }
        }
    }
}
