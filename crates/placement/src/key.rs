//! Memcomparable keys: the byte order of an encoded tuple is the SQL order of its values.
//!
//! Each column is a marker byte, then its payload; no column's encoding is a prefix of another's,
//! so encodings are concatenated, and a tuple's leading columns are a prefix of its bytes.
//!
//! | column | bytes |
//! |---|---|
//! | a value | `01`, payload |
//! | NULL | `02` (so it sorts last) |
//! | bool | `00` or `01` |
//! | integers, timestamps | 8 bytes, big endian, sign bit flipped |
//! | date | 4 bytes, big endian, sign bit flipped |
//! | floats | a float64, big endian: negative ones inverted, others with the sign bit set |
//! | text, bytes | each `00` as `00 ff`, then `00 01` |
//! | uuid | 16 bytes |
//! | numeric | see `numeric::key` |
//! | json | as text; no key of a table has it |
//! | jsonb | see `json::key` |
//! | time | as an integer |
//! | interval | its span, 16 bytes, big endian, sign bit flipped |
//! | array | each element as a column, then `00` and the dimensions |
//!
//! The dimensions of an array are their number, u8, their lengths, u32, and their first subscripts,
//! i32, big endian, the latter with the sign bit flipped.
//!
//! The types are not in the bytes: the decoder brings them. Equal numbers have equal bytes, however
//! many bits their types have.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::clock::MICROS_PER_DAY;
use crate::float::{float_from_order_bits, float_order_bits};
use crate::interval::Interval;
use crate::json::{Json, check_json};
use crate::numeric::Numeric;
use crate::value::{
    ArrayBuilder, ArrayDimension, ArrayRef, ColumnType, ElementType, Value, ValueRef,
};

/// The most bytes that an encoded key may have; see [`check_key_bytes`].
pub const KEY_BYTES_MAX: usize = 1024;

const MARK_VALUE: u8 = 0x01;
const MARK_NULL: u8 = 0x02;
const ESCAPE: u8 = 0x00;
const ESCAPED_ZERO: u8 = 0xff;
const ESCAPED_END: u8 = 0x01;
/// The byte behind the last element of an array. It marks no column.
const ARRAY_END: u8 = 0x00;
const SIGN: u64 = 1 << 63;
const SIGN_32: u32 = 1 << 31;
const SIGN_128: u128 = 1 << 127;

/// The reason why bytes are not a key of the given types. Retrying does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The bytes end within the column with this index.
    Truncated {
        /// Index of the column within the key.
        column: usize,
    },
    /// The bytes of the column with this index encode no value.
    Malformed {
        /// Index of the column within the key.
        column: usize,
    },
    /// Bytes are left after the last column.
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// The encoded key is longer than [`KEY_BYTES_MAX`].
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyError::Truncated { column } => write!(f, "the key ends inside column {column}"),
            KeyError::Malformed { column } => {
                write!(
                    f,
                    "column {column} of the key holds bytes that encode no value of its type"
                )
            }
            KeyError::TrailingBytes { count } => {
                write!(f, "{count} bytes follow the last column of the key")
            }
            KeyError::TooLong { bytes } => write!(
                f,
                "the key takes {bytes} bytes, the limit is {KEY_BYTES_MAX}: index shorter columns or a hash of them"
            ),
        }
    }
}

impl core::error::Error for KeyError {}

/// The destination of encoded bytes: a vector, or the stack buffer that is hashed to a slot.
pub(crate) trait Sink {
    fn write(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends the encoding of one column.
pub fn encode_value(out: &mut Vec<u8>, value: ValueRef<'_>) {
    encode_value_to(out, value);
}

/// Returns the encoding of a tuple.
pub fn encode_key<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    for value in values {
        encode_value_to(&mut out, value);
    }
    out
}

/// Returns whether any value is NULL. A unique index accepts any number of such keys, as in SQL. A
/// primary key accepts none.
pub fn key_has_null<'a>(values: impl IntoIterator<Item = ValueRef<'a>>) -> bool {
    values.into_iter().any(ValueRef::is_null)
}

/// Checks the length of an encoded key against [`KEY_BYTES_MAX`]. Every write of a key calls it.
pub fn check_key_bytes(key: &[u8]) -> Result<(), KeyError> {
    if key.len() > KEY_BYTES_MAX {
        return Err(KeyError::TooLong { bytes: key.len() });
    }
    Ok(())
}

/// Returns the smallest byte string that is greater than every string with this prefix. Returns
/// none if there is none (the prefix is empty or all `ff`): then the range has no end.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

pub(crate) fn encode_value_to(out: &mut impl Sink, value: ValueRef<'_>) {
    // Fixed-size payloads go out in one piece with their marker.
    let marked_u64 = |payload: u64| {
        let mut bytes = [MARK_VALUE; 9];
        bytes[1..].copy_from_slice(&payload.to_be_bytes());
        bytes
    };
    match value {
        ValueRef::Null => out.write(&[MARK_NULL]),
        ValueRef::Bool(value) => out.write(&[MARK_VALUE, u8::from(value)]),
        ValueRef::Int64(value)
        | ValueRef::Timestamp(value)
        | ValueRef::TimestampTz(value)
        | ValueRef::Time(value) => {
            out.write(&marked_u64(value.cast_unsigned() ^ SIGN));
        }
        ValueRef::Interval(value) => {
            out.write(&[MARK_VALUE]);
            out.write(&(value.span().cast_unsigned() ^ SIGN_128).to_be_bytes());
        }
        ValueRef::Int32(value) => encode_value_to(out, ValueRef::Int64(value.into())),
        ValueRef::Int16(value) => encode_value_to(out, ValueRef::Int64(value.into())),
        ValueRef::Float64(value) => out.write(&marked_u64(float_order_bits(value))),
        ValueRef::Float32(value) => out.write(&marked_u64(float_order_bits(value.into()))),
        ValueRef::Date(value) => {
            out.write(&[MARK_VALUE]);
            out.write(&(value.cast_unsigned() ^ SIGN_32).to_be_bytes());
        }
        ValueRef::Text(value) => encode_bytes_to(out, value.as_bytes()),
        ValueRef::Bytes(value) => encode_bytes_to(out, value),
        ValueRef::Uuid(value) => {
            out.write(&[MARK_VALUE]);
            out.write(&value);
        }
        ValueRef::Numeric(value) => {
            out.write(&[MARK_VALUE]);
            value.write_key(|bytes| out.write(bytes));
        }
        ValueRef::Json(value) => encode_bytes_to(out, value.as_bytes()),
        ValueRef::Jsonb(value) => {
            out.write(&[MARK_VALUE]);
            Json::stored(value).write_key(&mut |bytes| out.write(bytes));
        }
        ValueRef::Array(value) => {
            out.write(&[MARK_VALUE]);
            encode_array_to(out, value);
        }
    }
}

fn encode_bytes_to(out: &mut impl Sink, bytes: &[u8]) {
    out.write(&[MARK_VALUE]);
    let mut pieces = bytes.split(|byte| *byte == ESCAPE);
    // `split` yields at least one piece, and one more for each zero.
    if let Some(first) = pieces.next() {
        out.write(first);
    }
    for piece in pieces {
        out.write(&[ESCAPE, ESCAPED_ZERO]);
        out.write(piece);
    }
    out.write(&[ESCAPE, ESCAPED_END]);
}

/// Returns the values of an encoded tuple of these types. Accepts exactly the output of
/// [`encode_key`] (with one zero and one NaN for floats), and never panics.
pub fn decode_key(bytes: &[u8], types: &[ColumnType]) -> Result<Vec<Value>, KeyError> {
    let mut rest = bytes;
    let mut values = Vec::with_capacity(types.len());
    for (column, column_type) in types.iter().enumerate() {
        values.push(decode_value(&mut rest, *column_type, column)?);
    }
    if !rest.is_empty() {
        return Err(KeyError::TrailingBytes { count: rest.len() });
    }
    Ok(values)
}

// tidy: long — one arm per type.
pub(crate) fn decode_value(
    rest: &mut &[u8],
    column_type: ColumnType,
    column: usize,
) -> Result<Value, KeyError> {
    let truncated = KeyError::Truncated { column };
    let malformed = KeyError::Malformed { column };
    match take(rest).ok_or(truncated.clone())? {
        [MARK_NULL] => return Ok(Value::Null),
        [MARK_VALUE] => {}
        _ => return Err(malformed),
    }
    match column_type {
        ColumnType::Bool => match take(rest).ok_or(truncated)? {
            [0] => Ok(Value::Bool(false)),
            [1] => Ok(Value::Bool(true)),
            _ => Err(malformed),
        },
        ColumnType::Int64
        | ColumnType::Int32
        | ColumnType::Int16
        | ColumnType::Timestamp
        | ColumnType::TimestampTz => {
            let value = (u64::from_be_bytes(take(rest).ok_or(truncated)?) ^ SIGN).cast_signed();
            Ok(match column_type {
                ColumnType::Timestamp => Value::Timestamp(value),
                ColumnType::TimestampTz => Value::TimestampTz(value),
                ColumnType::Int32 => Value::Int32(value.try_into().map_err(|_| malformed)?),
                ColumnType::Int16 => Value::Int16(value.try_into().map_err(|_| malformed)?),
                _ => Value::Int64(value),
            })
        }
        ColumnType::Date => {
            let days = u32::from_be_bytes(take(rest).ok_or(truncated)?) ^ SIGN_32;
            Ok(Value::Date(days.cast_signed()))
        }
        ColumnType::Float32 => {
            let bits = u64::from_be_bytes(take(rest).ok_or(truncated)?);
            let value = float_from_order_bits(bits).ok_or(malformed.clone())?;
            let narrow = value as f32;
            match f64::from(narrow) == value || value.is_nan() {
                true => Ok(Value::Float32(narrow)),
                false => Err(malformed),
            }
        }
        ColumnType::Float64 => {
            let bits = u64::from_be_bytes(take(rest).ok_or(truncated)?);
            float_from_order_bits(bits)
                .map(Value::Float64)
                .ok_or(malformed)
        }
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Char(_) => {
            let bytes = decode_bytes(rest, column)?;
            String::from_utf8(bytes)
                .map(Value::Text)
                .map_err(|_| malformed)
        }
        ColumnType::Bytes => decode_bytes(rest, column).map(Value::Bytes),
        ColumnType::Uuid => take(rest).map(Value::Uuid).ok_or(truncated),
        ColumnType::Numeric | ColumnType::Decimal { .. } => {
            let value = Numeric::read_key(rest).map_err(|is_cut| match is_cut {
                true => truncated,
                false => malformed,
            })?;
            // The scale of a column is that of its values, but not of the bounds of ranges.
            let limited = match column_type {
                ColumnType::Decimal { precision, scale } => {
                    value.as_ref().limited(precision, scale)
                }
                _ => None,
            };
            let limited = limited.filter(|it| *it == value);
            Ok(Value::Numeric(limited.unwrap_or(value)))
        }
        ColumnType::Json => match String::from_utf8(decode_bytes(rest, column)?) {
            Ok(text) if check_json(&text).is_ok() => Ok(Value::Json(text)),
            _ => Err(malformed),
        },
        ColumnType::Jsonb => match Json::read_key(rest) {
            Ok(tree) => Ok(Value::Jsonb(tree.to_string())),
            Err(true) => Err(truncated),
            Err(false) => Err(malformed),
        },
        ColumnType::Time(_) => {
            let micros = (u64::from_be_bytes(take(rest).ok_or(truncated)?) ^ SIGN).cast_signed();
            let is_time = (0..=MICROS_PER_DAY).contains(&micros);
            is_time.then_some(Value::Time(micros)).ok_or(malformed)
        }
        // Intervals with other parts can have the same key.
        ColumnType::Interval(_) => {
            let span = u128::from_be_bytes(take(rest).ok_or(truncated)?) ^ SIGN_128;
            let found = Interval::of_span(span.cast_signed());
            found.map(Value::Interval).ok_or(malformed)
        }
        ColumnType::Array(element) => decode_array(rest, element, column),
    }
}

fn decode_bytes(rest: &mut &[u8], column: usize) -> Result<Vec<u8>, KeyError> {
    let mut out = Vec::new();
    loop {
        let zero = rest.iter().position(|byte| *byte == ESCAPE);
        let zero = zero.ok_or(KeyError::Truncated { column })?;
        out.extend_from_slice(&rest[..zero]);
        *rest = &rest[zero + 1..];
        match take(rest).ok_or(KeyError::Truncated { column })? {
            [ESCAPED_ZERO] => out.push(0),
            [ESCAPED_END] => return Ok(out),
            _ => return Err(KeyError::Malformed { column }),
        }
    }
}

/// Appends the key of an array.
fn encode_array_to(out: &mut impl Sink, array: ArrayRef<'_>) {
    for value in array.values() {
        encode_value_to(out, value);
    }
    let count = u8::try_from(array.dimension_count()).expect("an array has at most six");
    out.write(&[ARRAY_END, count]);
    for dimension in array.dimensions() {
        out.write(&dimension.length.to_be_bytes());
    }
    for dimension in array.dimensions() {
        out.write(&(dimension.lower.cast_unsigned() ^ SIGN_32).to_be_bytes());
    }
}

/// Reads an array off the start of a key.
///
/// # Errors
/// The bytes are none of such a key.
fn decode_array(rest: &mut &[u8], element: ElementType, column: usize) -> Result<Value, KeyError> {
    let truncated = KeyError::Truncated { column };
    let malformed = KeyError::Malformed { column };
    let mut builder = ArrayBuilder::new(element);
    loop {
        match rest.first() {
            None => return Err(truncated),
            Some(&ARRAY_END) => break,
            Some(_) => {
                let value = decode_value(rest, element.column_type(), column)?;
                builder.push(value.as_ref());
            }
        }
    }
    *rest = &rest[1..];
    let (count, after) = rest.split_first().ok_or(truncated.clone())?;
    let count = usize::from(*count);
    let (numbers, after) = after.split_at_checked(count * 8).ok_or(truncated)?;
    let (numbers, _) = numbers.as_chunks::<4>();
    let (lengths, lowers) = numbers.split_at(count);
    let dimensions = lengths
        .iter()
        .zip(lowers)
        .map(|(length, lower)| ArrayDimension {
            length: u32::from_be_bytes(*length),
            lower: (u32::from_be_bytes(*lower) ^ SIGN_32).cast_signed(),
        });
    let dimensions: Vec<ArrayDimension> = dimensions.collect();
    if dimensions.iter().any(|it| it.length == 0) {
        return Err(malformed);
    }
    let array = builder.finish(&dimensions).map_err(|_| malformed)?;
    *rest = after;
    Ok(Value::Array(array))
}

/// Returns the next `N` bytes, or `None` if there are fewer.
fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn golden_bytes() {
        let key = encode_key([
            ValueRef::Int64(-1),
            ValueRef::Text("a\0b"),
            ValueRef::Bool(true),
            ValueRef::Null,
            ValueRef::Float64(1.0),
        ]);
        let mut expected = vec![0x01, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        expected.extend([0x01, b'a', 0x00, 0xff, b'b', 0x00, 0x01]);
        expected.extend([0x01, 0x01, 0x02]);
        expected.extend([0x01, 0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(key, expected);
    }

    #[test]
    fn numerics_have_the_scale_of_their_column() {
        let decoded = |text: &str, column_type| {
            let value = Value::parse(ColumnType::Numeric, text).unwrap();
            let key = encode_key([value.as_ref()]);
            let values = decode_key(&key, &[column_type]).unwrap();
            values[0].to_string()
        };
        let column = ColumnType::Decimal {
            precision: 5,
            scale: 2,
        };
        assert_eq!(decoded("1.5", column), "1.50");
        assert_eq!(decoded("1.500", ColumnType::Numeric), "1.5");
        // A bound of a range.
        assert_eq!(decoded("-1.505", column), "-1.505");
        assert_eq!(decoded("1e9", column), "1000000000");
        assert_eq!(decoded("Infinity", column), "Infinity");
    }

    #[test]
    fn prefix_end_carries() {
        assert_eq!(prefix_end(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(prefix_end(&[1, 0xff, 0xff]), Some(vec![2]));
        assert_eq!(prefix_end(&[0xff]), None);
        assert_eq!(prefix_end(&[]), None);
    }

    #[test]
    fn malformed_keys_are_errors() {
        let text = [ColumnType::Text];
        assert_eq!(
            decode_key(&[], &text),
            Err(KeyError::Truncated { column: 0 })
        );
        assert_eq!(
            decode_key(&[1, b'a', 0], &text),
            Err(KeyError::Truncated { column: 0 })
        );
        assert_eq!(
            decode_key(&[1, b'a', 0, 2], &text),
            Err(KeyError::Malformed { column: 0 })
        );
        assert_eq!(
            decode_key(&[1, 0xc3, 0, 1], &text),
            Err(KeyError::Malformed { column: 0 })
        );
        assert_eq!(
            decode_key(&[2, 7, 7], &text),
            Err(KeyError::TrailingBytes { count: 2 })
        );
        assert_eq!(
            decode_key(&[3], &[ColumnType::Bool]),
            Err(KeyError::Malformed { column: 0 })
        );
        let long = encode_key([ValueRef::Bytes(&[7; KEY_BYTES_MAX])]);
        assert_eq!(
            check_key_bytes(&long),
            Err(KeyError::TooLong {
                bytes: KEY_BYTES_MAX + 3
            })
        );
        assert_eq!(check_key_bytes(&long[3..]), Ok(()));
    }
}
