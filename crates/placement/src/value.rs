//! Column types and values, with the order that SQL gives them.
//!
//! The order is total, so that values can be keys: NULL sorts last, `-0.0` equals `0.0`, and NaN
//! equals itself and is larger than every other number, as in PostgreSQL. Text orders by its
//! UTF-8 bytes (the "C" collation). Decimal numbers are in `numeric`.
//! Parsing and printing are in `text`; bytes in `key` and `row`.

mod array;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use crate::float::float_order_bits;
use crate::interval::{Interval, TIME_PRECISION_MAX, unit_of};
use crate::json::Json;
use crate::numeric::{NUMERIC_PRECISION_MAX, Numeric, NumericRef};

pub use array::{
    ARRAY_DIMENSIONS_MAX, ARRAY_ELEMENTS_MAX, Array, ArrayBuilder, ArrayDimension, ArrayError,
    ArrayRef, ArrayValues, ElementType,
};
pub(crate) use array::{
    ArrayTextError, field_fits, field_value, parse_array, write_array, write_field,
};

use array::element_name;

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
    /// A signed 16-bit integer.
    Int16,
    /// A signed 32-bit integer.
    Int32,
    /// An IEEE 754 number of 32 bits.
    Float32,
    /// UTF-8 text of at most this many characters. Its values are [`Value::Text`].
    Varchar(u32),
    /// UTF-8 text of at most this many characters, which is shown with spaces up to this length.
    /// Its values are [`Value::Text`] without spaces at the end: they do not count.
    Char(u32),
    /// Days since 1970-01-01. The smallest and the largest integer are `-infinity` and `infinity`.
    Date,
    /// Microseconds since 1970-01-01 00:00:00 UTC, or an infinity as of [`ColumnType::Timestamp`].
    TimestampTz,
    /// A decimal number of any size; see [`Numeric`].
    Numeric,
    /// A decimal number of at most `precision` digits, of which `scale` are after the point. With a
    /// negative scale it is a multiple of a power of ten. Its values are [`Value::Numeric`].
    Decimal {
        /// From 1 to [`NUMERIC_PRECISION_MAX`].
        precision: u16,
        /// From -[`NUMERIC_PRECISION_MAX`] to [`NUMERIC_PRECISION_MAX`].
        scale: i16,
    },
    /// JSON as it was written. Its values have no order.
    Json,
    /// JSON without its spaces and its order of keys; see [`Json`](crate::Json).
    Jsonb,
    /// Microseconds since midnight, up to a whole day, of so many digits of a second.
    Time(u8),
    /// Months, days and microseconds, of so many digits of a second; see [`Interval`].
    Interval(u8),
    /// An array of any number of dimensions; see [`Array`](crate::Array).
    Array(ElementType),
}

/// The most characters of a text with a limit, as in PostgreSQL.
pub const TEXT_LIMIT_MAX: u32 = 10_485_760;

impl ColumnType {
    /// A time of the day without a limit.
    pub const TIME: ColumnType = ColumnType::Time(TIME_PRECISION_MAX);
    /// An interval without a limit.
    pub const INTERVAL: ColumnType = ColumnType::Interval(TIME_PRECISION_MAX);

    /// All types without a length.
    pub const ALL: [ColumnType; 17] = [
        ColumnType::Bool,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::Numeric,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Date,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Uuid,
        ColumnType::Json,
        ColumnType::Jsonb,
        ColumnType::TIME,
        ColumnType::INTERVAL,
    ];

    /// Returns the type's name in SQL, without its length.
    pub fn name(self) -> &'static str {
        match self {
            ColumnType::Bool => "boolean",
            ColumnType::Int16 => "smallint",
            ColumnType::Int32 => "integer",
            ColumnType::Int64 => "bigint",
            ColumnType::Float32 => "real",
            ColumnType::Float64 => "double precision",
            ColumnType::Text => "text",
            ColumnType::Varchar(_) => "varchar",
            ColumnType::Char(_) => "char",
            ColumnType::Bytes => "bytea",
            ColumnType::Date => "date",
            ColumnType::Timestamp => "timestamp",
            ColumnType::TimestampTz => "timestamptz",
            ColumnType::Uuid => "uuid",
            ColumnType::Numeric | ColumnType::Decimal { .. } => "numeric",
            ColumnType::Json => "json",
            ColumnType::Jsonb => "jsonb",
            ColumnType::Time(_) => "time",
            ColumnType::Interval(_) => "interval",
            ColumnType::Array(element) => element.array_name(),
        }
    }

    /// Returns the type with an SQL name, in any case and with any spacing; none if there is none.
    /// It accepts only names whose values PostgreSQL accepts and orders in the same way. `char`
    /// without a length has one character.
    pub fn parse(name: &str) -> Option<ColumnType> {
        let name = name.to_ascii_lowercase();
        if let Some(element) = element_name(&name) {
            let element = ColumnType::parse(element).and_then(ElementType::of)?;
            return Some(ColumnType::Array(element));
        }
        let (before, limits, after) = match name.split_once('(') {
            None => (name.as_str(), None, ""),
            Some((before, rest)) => {
                let (limits, after) = rest.split_once(')')?;
                (before, Some(limits), after)
            }
        };
        let words = before.split_ascii_whitespace();
        let words: Vec<&str> = words.chain(after.split_ascii_whitespace()).collect();
        let words = words.join(" ");
        if let ("numeric" | "decimal" | "dec", Some(limits)) = (words.as_str(), limits) {
            let (precision, scale) = limits.split_once(',').unwrap_or((limits, "0"));
            let precision = precision.trim().parse().ok()?;
            let scale = scale.trim().parse().ok()?;
            return ColumnType::Decimal { precision, scale }.if_valid();
        }
        if let "time" | "time without time zone" | "interval" = words.as_str() {
            let precision = limits.map_or(Ok(TIME_PRECISION_MAX), |it| it.trim().parse());
            let limited = match words.as_str() {
                "interval" => ColumnType::Interval(precision.ok()?),
                _ => ColumnType::Time(precision.ok()?),
            };
            return limited.if_valid();
        }
        let length = match limits {
            None => None,
            Some(limits) => {
                let length = limits.trim().parse::<u32>().ok();
                Some(length.filter(|it| (1..=TEXT_LIMIT_MAX).contains(it))?)
            }
        };
        Some(match (words.as_str(), length) {
            ("varchar" | "character varying", Some(length)) => ColumnType::Varchar(length),
            ("char" | "character" | "bpchar", Some(length)) => ColumnType::Char(length),
            ("float", Some(bits @ 1..=53)) if bits <= 24 => ColumnType::Float32,
            ("float", Some(1..=53)) => ColumnType::Float64,
            // Microseconds, as without it.
            ("timestamp" | "timestamp without time zone", Some(6)) => ColumnType::Timestamp,
            ("timestamptz" | "timestamp with time zone", Some(6)) => ColumnType::TimestampTz,
            (_, Some(_)) => return None,
            ("bool" | "boolean", None) => ColumnType::Bool,
            ("smallint" | "int2", None) => ColumnType::Int16,
            ("integer" | "int" | "int4", None) => ColumnType::Int32,
            ("bigint" | "int8" | "int64", None) => ColumnType::Int64,
            ("real" | "float4", None) => ColumnType::Float32,
            ("double" | "double precision" | "float" | "float8" | "float64", None) => {
                ColumnType::Float64
            }
            ("text" | "varchar" | "character varying" | "string", None) => ColumnType::Text,
            ("char" | "character", None) => ColumnType::Char(1),
            ("bytea" | "bytes" | "blob", None) => ColumnType::Bytes,
            ("date", None) => ColumnType::Date,
            ("timestamp" | "timestamp without time zone", None) => ColumnType::Timestamp,
            ("timestamptz" | "timestamp with time zone", None) => ColumnType::TimestampTz,
            ("uuid", None) => ColumnType::Uuid,
            ("numeric" | "decimal" | "dec", None) => ColumnType::Numeric,
            ("json", None) => ColumnType::Json,
            ("jsonb", None) => ColumnType::Jsonb,
            _ => return None,
        })
    }

    /// Returns the type if its limits are those of a type in PostgreSQL.
    pub fn if_valid(self) -> Option<ColumnType> {
        let is_valid = match self {
            ColumnType::Varchar(length) | ColumnType::Char(length) => {
                (1..=TEXT_LIMIT_MAX).contains(&length)
            }
            ColumnType::Array(element) => return element.column_type().if_valid().map(|_| self),
            ColumnType::Decimal { precision, scale } => {
                (1..=NUMERIC_PRECISION_MAX).contains(&precision)
                    && scale.unsigned_abs() <= NUMERIC_PRECISION_MAX
            }
            ColumnType::Time(precision) | ColumnType::Interval(precision) => {
                precision <= TIME_PRECISION_MAX
            }
            _ => true,
        };
        is_valid.then_some(self)
    }

    /// Returns the type that the values have where they are computed with: that without a limit.
    pub fn of_values(self) -> ColumnType {
        match self {
            ColumnType::Varchar(_) | ColumnType::Char(_) => ColumnType::Text,
            ColumnType::Decimal { .. } => ColumnType::Numeric,
            ColumnType::Time(_) => ColumnType::TIME,
            ColumnType::Interval(_) => ColumnType::INTERVAL,
            ColumnType::Array(element) => ColumnType::Array(element.of_values()),
            other => other,
        }
    }

    /// Returns whether values of both types have the same bytes in keys, so that a value of one
    /// finds the equal ones of the other.
    pub fn shares_keys(self, other: ColumnType) -> bool {
        self.of_values() == other.of_values()
            || self.is_integer() && other.is_integer()
            || self.is_float() && other.is_float()
    }

    /// Returns whether rows and keys have the same bytes for a value of this type and for the value
    /// to which a cast to the other type converts it, if the other type has this value. A text may
    /// be too long for the other type.
    pub fn is_stored_as(self, other: ColumnType) -> bool {
        use ColumnType::{Char, Decimal, Numeric, Text, Varchar};
        match (self, other) {
            (Text | Varchar(_) | Char(_), Text | Varchar(_)) => true,
            (Char(length), Char(other)) => length <= other,
            (Decimal { .. }, Numeric) => true,
            (ColumnType::Time(own), ColumnType::Time(other)) => own <= other,
            (ColumnType::Interval(own), ColumnType::Interval(other)) => own <= other,
            (
                Decimal { precision, scale },
                Decimal {
                    precision: other_precision,
                    scale: other_scale,
                },
            ) => precision <= other_precision && scale == other_scale,
            (ColumnType::Array(own), ColumnType::Array(other)) => {
                own.column_type().is_stored_as(other.column_type())
            }
            (own, other) => own == other,
        }
    }

    /// Returns the text of a value as clients see it in a column of this type.
    pub fn shown(self, value: &Value) -> Cow<'_, str> {
        match (self, value) {
            (ColumnType::Char(length), Value::Text(text)) => {
                let length = length as usize;
                Cow::Owned(format!("{text:length$}"))
            }
            (_, Value::Text(text)) => Cow::Borrowed(text),
            (ColumnType::Array(element), Value::Array(array)) => {
                Cow::Owned(element.shown_in_utc(array.as_ref()))
            }
            (_, value) => Cow::Owned(format!("{value}")),
        }
    }

    /// Returns whether this is an integer of any size.
    pub fn is_integer(self) -> bool {
        matches!(
            self,
            ColumnType::Int16 | ColumnType::Int32 | ColumnType::Int64
        )
    }

    /// Returns whether this is a float of any size.
    pub fn is_float(self) -> bool {
        matches!(self, ColumnType::Float32 | ColumnType::Float64)
    }

    /// Returns whether this is a decimal number, with or without a limit.
    pub fn is_numeric(self) -> bool {
        self.of_values() == ColumnType::Numeric
    }

    /// Returns whether this is a number.
    pub fn is_number(self) -> bool {
        self.is_integer() || self.is_float() || self.is_numeric()
    }

    /// Returns whether this is a day or a moment.
    pub fn is_time(self) -> bool {
        matches!(
            self,
            ColumnType::Date | ColumnType::Timestamp | ColumnType::TimestampTz
        )
    }

    /// Returns whether values of the type can be equal or one before the other, so that the type
    /// can be that of a key.
    pub fn has_order(self) -> bool {
        !matches!(
            self,
            ColumnType::Json | ColumnType::Array(ElementType::Json)
        )
    }

    /// Returns whether a value of the type without its limit is within the limit: at most so many
    /// characters, or digits.
    pub fn admits(self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (ColumnType::Varchar(limit) | ColumnType::Char(limit), ValueRef::Text(text)) => {
                let limit = limit as usize;
                text.len() <= limit || text.chars().nth(limit).is_none()
            }
            (ColumnType::Decimal { precision, scale }, ValueRef::Numeric(value)) => {
                value.is_limited(precision, scale)
            }
            (ColumnType::Time(precision), ValueRef::Time(micros)) => {
                micros % unit_of(precision) == 0
            }
            (ColumnType::Interval(precision), ValueRef::Interval(value)) => {
                value.micros % unit_of(precision) == 0
            }
            (ColumnType::Array(element), ValueRef::Array(array)) => {
                let has_limit = element != element.of_values();
                let is_admitted = |it| element.column_type().admits(it);
                !has_limit || array.values().all(is_admitted)
            }
            _ => true,
        }
    }
}

/// The name in SQL, with the length, which [`ColumnType::parse`] accepts.
impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ColumnType::Array(element) = self {
            return write!(f, "{}[]", element.column_type());
        }
        f.write_str(self.name())?;
        match self {
            ColumnType::Varchar(length) | ColumnType::Char(length) => write!(f, "({length})"),
            ColumnType::Decimal { precision, scale } => write!(f, "({precision},{scale})"),
            ColumnType::Time(precision) | ColumnType::Interval(precision)
                if *precision < TIME_PRECISION_MAX =>
            {
                write!(f, "({precision})")
            }
            _ => Ok(()),
        }
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
    /// See [`ColumnType::Timestamp`].
    Timestamp(i64),
    /// See [`ColumnType::Uuid`].
    Uuid([u8; 16]),
    /// See [`ColumnType::Int16`].
    Int16(i16),
    /// See [`ColumnType::Int32`].
    Int32(i32),
    /// See [`ColumnType::Float32`].
    Float32(f32),
    /// See [`ColumnType::Date`].
    Date(i32),
    /// See [`ColumnType::TimestampTz`].
    TimestampTz(i64),
    /// See [`ColumnType::Numeric`].
    Numeric(Numeric),
    /// See [`ColumnType::Json`]. The text is valid JSON.
    Json(String),
    /// See [`ColumnType::Jsonb`]. The text is that of a [`Json`].
    Jsonb(String),
    /// See [`ColumnType::Time`].
    Time(i64),
    /// See [`ColumnType::Interval`].
    Interval(Interval),
    /// See [`ColumnType::Array`].
    Array(Array),
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
    /// See [`ColumnType::Timestamp`].
    Timestamp(i64),
    /// See [`ColumnType::Uuid`].
    Uuid([u8; 16]),
    /// See [`ColumnType::Int16`].
    Int16(i16),
    /// See [`ColumnType::Int32`].
    Int32(i32),
    /// See [`ColumnType::Float32`].
    Float32(f32),
    /// See [`ColumnType::Date`].
    Date(i32),
    /// See [`ColumnType::TimestampTz`].
    TimestampTz(i64),
    /// See [`ColumnType::Numeric`].
    Numeric(NumericRef<'a>),
    /// See [`Value::Json`].
    Json(&'a str),
    /// See [`Value::Jsonb`].
    Jsonb(&'a str),
    /// See [`ColumnType::Time`].
    Time(i64),
    /// See [`ColumnType::Interval`].
    Interval(Interval),
    /// See [`ColumnType::Array`].
    Array(ArrayRef<'a>),
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
            Value::Int16(value) => ValueRef::Int16(*value),
            Value::Int32(value) => ValueRef::Int32(*value),
            Value::Float32(value) => ValueRef::Float32(*value),
            Value::Date(value) => ValueRef::Date(*value),
            Value::TimestampTz(value) => ValueRef::TimestampTz(*value),
            Value::Numeric(value) => ValueRef::Numeric(value.as_ref()),
            Value::Json(value) => ValueRef::Json(value),
            Value::Jsonb(value) => ValueRef::Jsonb(value),
            Value::Time(value) => ValueRef::Time(*value),
            Value::Interval(value) => ValueRef::Interval(*value),
            Value::Array(value) => ValueRef::Array(value.as_ref()),
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
            ValueRef::Int16(value) => Value::Int16(value),
            ValueRef::Int32(value) => Value::Int32(value),
            ValueRef::Float32(value) => Value::Float32(value),
            ValueRef::Date(value) => Value::Date(value),
            ValueRef::TimestampTz(value) => Value::TimestampTz(value),
            ValueRef::Numeric(value) => Value::Numeric(value.to_owned()),
            ValueRef::Json(value) => Value::Json(value.into()),
            ValueRef::Jsonb(value) => Value::Jsonb(value.into()),
            ValueRef::Time(value) => Value::Time(value),
            ValueRef::Interval(value) => Value::Interval(value),
            ValueRef::Array(value) => Value::Array(value.to_owned()),
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
            ValueRef::Int16(_) => ColumnType::Int16,
            ValueRef::Int32(_) => ColumnType::Int32,
            ValueRef::Float32(_) => ColumnType::Float32,
            ValueRef::Date(_) => ColumnType::Date,
            ValueRef::TimestampTz(_) => ColumnType::TimestampTz,
            ValueRef::Numeric(_) => ColumnType::Numeric,
            ValueRef::Json(_) => ColumnType::Json,
            ValueRef::Jsonb(_) => ColumnType::Jsonb,
            ValueRef::Time(_) => ColumnType::TIME,
            ValueRef::Interval(_) => ColumnType::INTERVAL,
            ValueRef::Array(value) => ColumnType::Array(value.element()),
        })
    }

    /// Returns whether this is NULL.
    pub fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// Returns whether both values have the same bytes in a row. Equal numbers need not: `1.5` and
    /// `1.50`, or the two zeros of a float.
    pub fn is_same(self, other: ValueRef<'_>) -> bool {
        match (self, other) {
            (ValueRef::Numeric(a), ValueRef::Numeric(b)) => a.as_bytes() == b.as_bytes(),
            (ValueRef::Float64(a), ValueRef::Float64(b)) => a.to_bits() == b.to_bits(),
            (ValueRef::Float32(a), ValueRef::Float32(b)) => a.to_bits() == b.to_bits(),
            (ValueRef::Jsonb(a), ValueRef::Jsonb(b)) => a == b,
            (ValueRef::Interval(a), ValueRef::Interval(b)) => a.is_same(b),
            (ValueRef::Array(a), ValueRef::Array(b)) => a.as_bytes() == b.as_bytes(),
            (a, b) => a.column_type() == b.column_type() && a == b,
        }
    }

    /// Returns an integer of any size.
    pub fn integer(self) -> Option<i64> {
        match self {
            ValueRef::Int64(value) => Some(value),
            ValueRef::Int32(value) => Some(value.into()),
            ValueRef::Int16(value) => Some(value.into()),
            _ => None,
        }
    }

    /// Returns a float of any size.
    pub fn float(self) -> Option<f64> {
        match self {
            ValueRef::Float64(value) => Some(value),
            ValueRef::Float32(value) => Some(value.into()),
            _ => None,
        }
    }

    /// Returns the place of the value's type in the order of all values. Integers of all sizes have
    /// one place, and so have floats: equal numbers are equal values.
    fn rank(self) -> Option<ColumnType> {
        self.column_type().map(|found| match found {
            found if found.is_integer() => ColumnType::Int64,
            found if found.is_float() => ColumnType::Float64,
            found => found,
        })
    }
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
            (ValueRef::Date(a), ValueRef::Date(b)) => a.cmp(&b),
            (ValueRef::TimestampTz(a), ValueRef::TimestampTz(b)) => a.cmp(&b),
            (ValueRef::Numeric(a), ValueRef::Numeric(b)) => a.cmp(&b),
            // SQL does not compare them; the order makes that of all values total.
            (ValueRef::Json(a), ValueRef::Json(b)) => a.cmp(b),
            (ValueRef::Jsonb(a), ValueRef::Jsonb(b)) if a == b => Ordering::Equal,
            (ValueRef::Jsonb(a), ValueRef::Jsonb(b)) => Json::stored(a).cmp(&Json::stored(b)),
            (ValueRef::Time(a), ValueRef::Time(b)) => a.cmp(&b),
            (ValueRef::Interval(a), ValueRef::Interval(b)) => a.cmp(&b),
            (ValueRef::Array(a), ValueRef::Array(b)) => a.order(b),
            (ValueRef::Null, ValueRef::Null) => Ordering::Equal,
            (ValueRef::Null, _) => Ordering::Greater,
            (_, ValueRef::Null) => Ordering::Less,
            (a, b) => match (a.integer(), b.integer(), a.float(), b.float()) {
                (Some(a), Some(b), ..) => a.cmp(&b),
                (.., Some(a), Some(b)) => float_order_bits(a).cmp(&float_order_bits(b)),
                // A column has one type, so this order is never seen in SQL; it makes the whole
                // total.
                _ => a.rank().cmp(&b.rank()),
            },
        }
    }
}

impl Hash for ValueRef<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match *self {
            ValueRef::Null => {}
            ValueRef::Bool(value) => value.hash(state),
            ValueRef::Int64(value)
            | ValueRef::Timestamp(value)
            | ValueRef::TimestampTz(value)
            | ValueRef::Time(value) => value.hash(state),
            ValueRef::Interval(value) => value.hash(state),
            ValueRef::Int16(value) => i64::from(value).hash(state),
            ValueRef::Int32(value) => i64::from(value).hash(state),
            ValueRef::Date(value) => value.hash(state),
            ValueRef::Float64(value) => float_order_bits(value).hash(state),
            ValueRef::Float32(value) => float_order_bits(value.into()).hash(state),
            ValueRef::Text(value) => value.hash(state),
            ValueRef::Bytes(value) => value.hash(state),
            ValueRef::Uuid(value) => value.hash(state),
            ValueRef::Numeric(value) => value.hash(state),
            ValueRef::Json(value) => value.hash(state),
            ValueRef::Jsonb(value) => {
                Json::stored(value).write_key(&mut |bytes| state.write(bytes));
            }
            // Equal arrays have equal elements, and the same dimensions.
            ValueRef::Array(value) => value.values().for_each(|it| it.hash(state)),
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
mod tests;
