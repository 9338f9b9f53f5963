//! Column types and values, with the order that SQL gives them.
//!
//! The order is total, so that values can be keys: NULL sorts last, `-0.0` equals `0.0`, and NaN
//! equals itself and is larger than every other number, as in PostgreSQL. Text orders by its
//! UTF-8 bytes (the "C" collation). Parsing and printing are in `text`; bytes in `key` and `row`.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::hash::{Hash, Hasher};

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ColumnType {
    /// True or false.
    Bool,
    /// A signed 64-bit integer.
    Int64,
    /// An IEEE 754 double.
    Float64,
    /// UTF-8 text.
    Text,
    /// Any bytes.
    Bytes,
    /// Microseconds since 1970-01-01 00:00:00, without a time zone. The smallest and the largest
    /// integer are `-infinity` and `infinity`.
    Timestamp,
    /// 128-bit identifier.
    Uuid,
}

impl ColumnType {
    /// All types, in the order of their declaration.
    pub const ALL: [ColumnType; 7] = [
        ColumnType::Bool,
        ColumnType::Int64,
        ColumnType::Float64,
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Timestamp,
        ColumnType::Uuid,
    ];

    /// Returns the type's name in SQL, which `parse` accepts.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Bool => "boolean",
            ColumnType::Int64 => "bigint",
            ColumnType::Float64 => "double precision",
            ColumnType::Text => "text",
            ColumnType::Bytes => "bytea",
            ColumnType::Timestamp => "timestamp",
            ColumnType::Uuid => "uuid",
        }
    }

    /// Returns the type with an SQL name, in any case and with any spacing; none if there is none.
    /// It accepts only names whose values PostgreSQL accepts and orders in the same way: `integer`
    /// and `real` have smaller ranges, `timestamptz` has a zone.
    pub fn parse(name: &str) -> Option<ColumnType> {
        let words: Vec<&str> = name.split_ascii_whitespace().collect();
        let name = words.join(" ").to_ascii_lowercase();
        Some(match name.as_str() {
            "bool" | "boolean" => ColumnType::Bool,
            "bigint" | "int8" | "int64" => ColumnType::Int64,
            "double" | "double precision" | "float" | "float8" | "float64" => ColumnType::Float64,
            "text" | "varchar" | "character varying" | "string" => ColumnType::Text,
            "bytea" | "bytes" | "blob" => ColumnType::Bytes,
            "timestamp" | "timestamp without time zone" => ColumnType::Timestamp,
            "uuid" => ColumnType::Uuid,
            _ => return None,
        })
    }
}

/// A value that owns its bytes. It compares and sorts as in SQL; see the module's header.
#[derive(Clone, Debug)]
pub enum Value {
    /// NULL, a value of every type.
    Null,
    /// See [`ColumnType::Bool`].
    Bool(bool),
    /// See [`ColumnType::Int64`].
    Int64(i64),
    /// See [`ColumnType::Float64`].
    Float64(f64),
    /// See [`ColumnType::Text`].
    Text(String),
    /// See [`ColumnType::Bytes`].
    Bytes(Vec<u8>),
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    Timestamp(i64),
    /// See [`ColumnType::Uuid`].
    Uuid([u8; 16]),
}

/// A value that borrows its bytes from an encoded row or from a [`Value`].
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// NULL, a value of every type.
    Null,
    /// See [`ColumnType::Bool`].
    Bool(bool),
    /// See [`ColumnType::Int64`].
    Int64(i64),
    /// See [`ColumnType::Float64`].
    Float64(f64),
    /// See [`ColumnType::Text`].
    Text(&'a str),
    /// See [`ColumnType::Bytes`].
    Bytes(&'a [u8]),
    /// Microseconds since 1970-01-01 00:00:00 UTC.
    Timestamp(i64),
    /// See [`ColumnType::Uuid`].
    Uuid([u8; 16]),
}

impl Value {
    /// Returns a borrowed form of the value.
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Bool(*value),
            Value::Int64(value) => ValueRef::Int64(*value),
            Value::Float64(value) => ValueRef::Float64(*value),
            Value::Text(value) => ValueRef::Text(value),
            Value::Bytes(value) => ValueRef::Bytes(value),
            Value::Timestamp(value) => ValueRef::Timestamp(*value),
            Value::Uuid(value) => ValueRef::Uuid(*value),
        }
    }

    /// Returns the value's type; none for NULL, which is a value of every type.
    pub fn column_type(&self) -> Option<ColumnType> {
        self.as_ref().column_type()
    }

    /// Returns whether this is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl ValueRef<'_> {
    /// Returns an owned form of the value.
    #[allow(
        clippy::wrong_self_convention,
        reason = "the type is Copy, and the name is that of ToOwned, which Clone types cannot implement"
    )]
    pub fn to_owned(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::Int64(value) => Value::Int64(value),
            ValueRef::Float64(value) => Value::Float64(value),
            ValueRef::Text(value) => Value::Text(value.into()),
            ValueRef::Bytes(value) => Value::Bytes(value.into()),
            ValueRef::Timestamp(value) => Value::Timestamp(value),
            ValueRef::Uuid(value) => Value::Uuid(value),
        }
    }

    /// Returns the value's type; none for NULL, which is a value of every type.
    pub fn column_type(self) -> Option<ColumnType> {
        Some(match self {
            ValueRef::Null => return None,
            ValueRef::Bool(_) => ColumnType::Bool,
            ValueRef::Int64(_) => ColumnType::Int64,
            ValueRef::Float64(_) => ColumnType::Float64,
            ValueRef::Text(_) => ColumnType::Text,
            ValueRef::Bytes(_) => ColumnType::Bytes,
            ValueRef::Timestamp(_) => ColumnType::Timestamp,
            ValueRef::Uuid(_) => ColumnType::Uuid,
        })
    }

    /// Returns whether this is NULL.
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }
}

/// Returns bits whose unsigned order is the SQL order of the floats.
pub(crate) fn float_order_bits(value: f64) -> u64 {
    const SIGN: u64 = 1 << 63;
    // One zero and one NaN, so that equal values have equal bytes.
    let bits = if value == 0.0 {
        0
    } else if value.is_nan() {
        f64::NAN.to_bits() & !SIGN
    } else {
        value.to_bits()
    };
    if bits & SIGN != 0 { !bits } else { bits | SIGN }
}

/// Returns the float for bits from [`float_order_bits`]; none for other bits.
pub(crate) fn float_from_order_bits(bits: u64) -> Option<f64> {
    const SIGN: u64 = 1 << 63;
    let value = f64::from_bits(if bits & SIGN != 0 {
        bits & !SIGN
    } else {
        !bits
    });
    (float_order_bits(value) == bits).then_some(value)
}

impl Ord for ValueRef<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (*self, *other) {
            (ValueRef::Bool(a), ValueRef::Bool(b)) => a.cmp(&b),
            (ValueRef::Int64(a), ValueRef::Int64(b)) => a.cmp(&b),
            (ValueRef::Float64(a), ValueRef::Float64(b)) => {
                float_order_bits(a).cmp(&float_order_bits(b))
            }
            (ValueRef::Text(a), ValueRef::Text(b)) => a.cmp(b),
            (ValueRef::Bytes(a), ValueRef::Bytes(b)) => a.cmp(b),
            (ValueRef::Timestamp(a), ValueRef::Timestamp(b)) => a.cmp(&b),
            (ValueRef::Uuid(a), ValueRef::Uuid(b)) => a.cmp(&b),
            (ValueRef::Null, ValueRef::Null) => Ordering::Equal,
            (ValueRef::Null, _) => Ordering::Greater,
            (_, ValueRef::Null) => Ordering::Less,
            // A column has one type, so this order is never seen in SQL; it makes the whole total.
            (a, b) => a.column_type().cmp(&b.column_type()),
        }
    }
}

impl Hash for ValueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.column_type().hash(state);
        match *self {
            ValueRef::Null => {}
            ValueRef::Bool(value) => value.hash(state),
            ValueRef::Int64(value) | ValueRef::Timestamp(value) => value.hash(state),
            ValueRef::Float64(value) => float_order_bits(value).hash(state),
            ValueRef::Text(value) => value.hash(state),
            ValueRef::Bytes(value) => value.hash(state),
            ValueRef::Uuid(value) => value.hash(state),
        }
    }
}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ValueRef<'_> {}

impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_ref().cmp(&other.as_ref())
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Value {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_names_parse_back() {
        for column_type in ColumnType::ALL {
            assert_eq!(ColumnType::parse(column_type.name()), Some(column_type));
        }
        assert_eq!(
            ColumnType::parse(" Double   PRECISION "),
            Some(ColumnType::Float64)
        );
        for other in [
            "numeric", "int", "integer", "smallint", "int2", "int4", "real", "float4",
        ] {
            assert_eq!(ColumnType::parse(other), None, "{other}");
        }
        for other in ["timestamptz", "timestamp with time zone", "date", "char"] {
            assert_eq!(ColumnType::parse(other), None, "{other}");
        }
    }

    #[test]
    fn floats_order_as_postgresql() {
        let sorted = [
            f64::NEG_INFINITY,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            5e-324,
            1.0,
            f64::INFINITY,
            f64::NAN,
        ];
        for pair in sorted.windows(2) {
            assert!(
                Value::Float64(pair[0]) < Value::Float64(pair[1]),
                "{pair:?}"
            );
        }
        assert_eq!(Value::Float64(-0.0), Value::Float64(0.0));
        assert_eq!(Value::Float64(-f64::NAN), Value::Float64(f64::NAN));
    }

    #[test]
    fn null_sorts_last() {
        assert!(Value::Null > Value::Uuid([255; 16]));
        assert!(Value::Null > Value::Bool(true));
        assert_eq!(Value::Null, Value::Null);
    }
}
