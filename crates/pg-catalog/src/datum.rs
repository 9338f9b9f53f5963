//! The values of the catalogue: what a column, a parameter or an expression can be.
//!
//! A value does not know its type. A number stands for itself, for an OID, or for an object that
//! its type names; the expression that returns it has the type.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::description::Oid;

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datum {
    /// NULL.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number, an OID, or microseconds since 1970.
    Int(i64),
    /// A floating-point number.
    Float(FloatBits),
    /// A text, a name or a `"char"`.
    Text(Arc<str>),
    /// An array of one dimension.
    Array(Arc<ArrayDatum>),
    /// A row.
    Record(Arc<[Datum]>),
}

/// The bits of a floating-point number, which have an order and a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatBits(pub u64);

/// An array of one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayDatum {
    /// The subscript of the first item: 0 in an `int2vector`, else 1.
    pub lower: i64,
    /// The items.
    pub items: Vec<Datum>,
}

impl Datum {
    pub(crate) fn text(text: impl AsRef<str>) -> Datum {
        Datum::Text(Arc::from(text.as_ref()))
    }

    pub(crate) fn oid(oid: Oid) -> Datum {
        Datum::Int(i64::from(oid))
    }

    pub(crate) fn float(value: f64) -> Datum {
        // One zero, as PostgreSQL compares them.
        let value = if value == 0.0 { 0.0 } else { value };
        Datum::Float(FloatBits(value.to_bits()))
    }

    pub(crate) fn array(items: impl IntoIterator<Item = Datum>) -> Datum {
        Datum::Array(Arc::new(ArrayDatum {
            lower: 1,
            items: items.into_iter().collect(),
        }))
    }

    /// Returns an `int2vector` or an `oidvector`, whose first subscript is 0.
    pub(crate) fn vector(items: impl IntoIterator<Item = Datum>) -> Datum {
        Datum::Array(Arc::new(ArrayDatum {
            lower: 0,
            items: items.into_iter().collect(),
        }))
    }

    pub(crate) fn texts<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> Datum {
        Datum::array(items.into_iter().map(Datum::text))
    }

    pub(crate) fn option<T>(value: Option<T>, make: impl FnOnce(T) -> Datum) -> Datum {
        value.map_or(Datum::Null, make)
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Datum::Null
    }

    pub(crate) fn is_true(&self) -> bool {
        *self == Datum::Bool(true)
    }

    pub(crate) fn as_int(&self) -> Option<i64> {
        match self {
            Datum::Int(value) => Some(*value),
            Datum::Bool(value) => Some(i64::from(*value)),
            _ => None,
        }
    }

    pub(crate) fn as_oid(&self) -> Option<Oid> {
        self.as_int().and_then(|it| Oid::try_from(it).ok())
    }

    pub(crate) fn as_float(&self) -> Option<f64> {
        match self {
            Datum::Float(bits) => Some(f64::from_bits(bits.0)),
            #[allow(clippy::cast_precision_loss, reason = "as PostgreSQL converts numbers")]
            Datum::Int(value) => Some(*value as f64),
            _ => None,
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Datum::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&ArrayDatum> {
        match self {
            Datum::Array(array) => Some(array),
            _ => None,
        }
    }

    /// Returns the bytes that the value takes, roughly.
    pub(crate) fn size(&self) -> usize {
        size_of::<Datum>()
            + match self {
                Datum::Text(text) => text.len(),
                Datum::Array(array) => array.items.iter().map(Datum::size).sum(),
                Datum::Record(items) => items.iter().map(Datum::size).sum(),
                _ => 0,
            }
    }

    /// Compares two values of one type. NULL is larger than every other value, as in an `ORDER BY`.
    pub(crate) fn order(&self, other: &Datum) -> Ordering {
        match (self, other) {
            (Datum::Bool(left), Datum::Bool(right)) => left.cmp(right),
            (Datum::Int(left), Datum::Int(right)) => left.cmp(right),
            (Datum::Text(left), Datum::Text(right)) => left.cmp(right),
            (Datum::Array(left), Datum::Array(right)) => order_all(&left.items, &right.items),
            (Datum::Record(left), Datum::Record(right)) => order_all(left, right),
            (left, right) => match (left.as_float(), right.as_float()) {
                (Some(left), Some(right)) => order_floats(left, right),
                _ => left.rank().cmp(&right.rank()),
            },
        }
    }

    /// Returns the place of the value's kind among kinds that are not comparable.
    fn rank(&self) -> u8 {
        match self {
            Datum::Bool(_) => 0,
            Datum::Int(_) | Datum::Float(_) => 1,
            Datum::Text(_) => 2,
            Datum::Array(_) => 3,
            Datum::Record(_) => 4,
            Datum::Null => 5,
        }
    }
}

/// Compares two lists item by item.
pub(crate) fn order_all(left: &[Datum], right: &[Datum]) -> Ordering {
    let mut pairs = left
        .iter()
        .zip(right)
        .map(|(left, right)| left.order(right));
    let first = pairs.find(|order| *order != Ordering::Equal);
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

/// Compares numbers. NaN is the largest, as in PostgreSQL.
fn order_floats(left: f64, right: f64) -> Ordering {
    let known = left.partial_cmp(&right);
    known.unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}
