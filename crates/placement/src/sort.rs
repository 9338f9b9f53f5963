//! Sorting keys whose columns are sorted from small to large, or from large to small.
//!
//! The bytes of an encoded key sort like the rows in PostgreSQL's `ORDER BY`. Each column is
//! encoded as in `key`, with two differences:
//!
//! | column | bytes |
//! |---|---|
//! | a value, descending | `01`, each byte of the payload inverted |
//! | NULL, if NULLs come first | `00` |
//!
//! No column's encoding is a prefix of another's, so inverted payloads sort in reverse.

use alloc::vec::Vec;
use core::ops::Bound;

use crate::key::{KeyError, Sink, decode_value, encode_value_to, prefix_end};
use crate::value::{ColumnType, Value, ValueRef};

const MARK_NULL_FIRST: u8 = 0x00;

/// A column of a sorting key, and how its values are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SortColumn {
    /// Index into the table's columns.
    pub column: usize,
    /// Whether large values come first.
    pub descending: bool,
    /// Whether NULLs come before all values.
    pub nulls_first: bool,
}

/// A range of encoded keys: the first key, and the first key after the range. Without an end the
/// range has all keys from the first one on.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

impl SortColumn {
    /// Sorts a column from small to large, NULLs last, which is the default.
    pub fn ascending(column: usize) -> SortColumn {
        SortColumn {
            column,
            descending: false,
            nulls_first: false,
        }
    }

    /// Sorts a column from large to small, NULLs first, which is the default of `DESC`.
    pub fn descending(column: usize) -> SortColumn {
        SortColumn {
            column,
            descending: true,
            nulls_first: true,
        }
    }

    /// Returns whether the column is sorted from small to large, NULLs last.
    pub fn is_ascending(&self) -> bool {
        *self == SortColumn::ascending(self.column)
    }

    /// Appends the encoding of a value of the column.
    pub fn encode(&self, out: &mut Vec<u8>, value: ValueRef<'_>) {
        self.encode_to(out, value);
    }

    pub(crate) fn encode_to(&self, out: &mut impl Sink, value: ValueRef<'_>) {
        if value.is_null() && self.nulls_first {
            out.write(&[MARK_NULL_FIRST]);
        } else if self.descending {
            let mut inverted = Inverted {
                sink: out,
                has_marker: false,
            };
            encode_value_to(&mut inverted, value);
        } else {
            encode_value_to(out, value);
        }
    }
}

/// Inverts the bytes after the marker of a column.
struct Inverted<'s, S> {
    sink: &'s mut S,
    has_marker: bool,
}

impl<S: Sink> Sink for Inverted<'_, S> {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let is_payload = core::mem::replace(&mut self.has_marker, true);
            self.sink.write(&[if is_payload { !*byte } else { *byte }]);
        }
    }
}

/// Returns ascending columns.
pub fn ascending(columns: &[usize]) -> Vec<SortColumn> {
    columns.iter().copied().map(SortColumn::ascending).collect()
}

/// Returns the columns without their directions.
pub fn columns_of(columns: &[SortColumn]) -> Vec<usize> {
    columns.iter().map(|it| it.column).collect()
}

/// Returns the encoded key of a row. `value` returns a column's value by its index.
pub fn encode_sorted<'a>(columns: &[SortColumn], value: impl Fn(usize) -> ValueRef<'a>) -> Vec<u8> {
    let mut key = Vec::with_capacity(48);
    for column in columns {
        column.encode(&mut key, value(column.column));
    }
    key
}

/// Returns the encoding of values of the first columns.
pub fn encode_prefix(columns: &[SortColumn], values: &[Value]) -> Vec<u8> {
    let mut prefix = Vec::with_capacity(32);
    for (column, value) in columns.iter().zip(values) {
        column.encode(&mut prefix, value.as_ref());
    }
    prefix
}

/// Returns the values of an encoded key, whose columns have these types.
///
/// # Errors
/// The bytes are not the output of [`encode_sorted`] for such columns.
pub fn decode_sorted(
    columns: &[SortColumn],
    types: &[ColumnType],
    bytes: &[u8],
) -> Result<Vec<Value>, KeyError> {
    let mut rest = bytes;
    let mut values = Vec::with_capacity(columns.len());
    for (position, (column, column_type)) in columns.iter().zip(types).enumerate() {
        if let (true, [MARK_NULL_FIRST, after @ ..]) = (column.nulls_first, rest) {
            rest = after;
            values.push(Value::Null);
            continue;
        }
        let mut plain = rest.to_vec();
        if column.descending {
            let payload = plain.iter_mut().skip(1);
            payload.for_each(|byte| *byte = !*byte);
        }
        let mut left = &plain[..];
        let value = decode_value(&mut left, *column_type, position)?;
        if value.is_null() && column.nulls_first {
            return Err(KeyError::Malformed { column: position });
        }
        rest = &rest[rest.len() - left.len()..];
        values.push(value);
    }
    match rest.len() {
        0 => Ok(values),
        count => Err(KeyError::TrailingBytes { count }),
    }
}

/// Returns the range of keys whose first columns have these values, and whose next column lies
/// between two values. The range has no NULL in this column, also if it has no bounds. Returns none
/// if no key lies in it.
///
/// # Panics
/// If there are as many values as columns.
pub fn sorted_range(
    columns: &[SortColumn],
    values: &[Value],
    lower: Bound<&Value>,
    upper: Bound<&Value>,
) -> Option<KeyRange> {
    let column = columns[values.len()];
    let prefix = encode_prefix(columns, values);
    let with = |value: &Value| {
        let mut key = prefix.clone();
        column.encode(&mut key, value.as_ref());
        key
    };
    let past = |key: Vec<u8>| prefix_end(&key).expect("a column begins with a marker below ff");
    let (first, last) = match column.descending {
        false => (lower, upper),
        true => (upper, lower),
    };
    let start = match first {
        Bound::Included(value) => with(value),
        Bound::Excluded(value) => past(with(value)),
        Bound::Unbounded if column.nulls_first => past(with(&Value::Null)),
        Bound::Unbounded => prefix.clone(),
    };
    let end = match last {
        Bound::Included(value) => Some(past(with(value))),
        Bound::Excluded(value) => Some(with(value)),
        Bound::Unbounded if column.nulls_first => prefix_end(&prefix),
        Bound::Unbounded => Some(with(&Value::Null)),
    };
    let is_empty = end.as_ref().is_some_and(|end| start >= *end);
    (!is_empty).then_some((start, end))
}
