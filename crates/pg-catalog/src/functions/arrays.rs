//! Functions on arrays, and those on numbers.

use std::sync::Arc;

use super::{Called, Function, int_of, lenient, null, strict, text_of};
use crate::datum::{ArrayDatum, Datum};
use crate::error::CatalogueError;
use crate::types::{ANYARRAY, ANYELEMENT, FLOAT8, INT4, INT8, TEXT, TEXT_ARRAY};

pub(super) const FUNCTIONS: &[Function] = &[
    strict(
        "array_to_string",
        &[ANYARRAY, TEXT],
        TEXT,
        |_, arguments| {
            Ok(Datum::text(joined(
                &arguments[0],
                text_of(&arguments[1]),
                None,
            )))
        },
    ),
    lenient(
        "array_to_string",
        &[ANYARRAY, TEXT, TEXT],
        TEXT,
        |_, arguments| match (&arguments[0], &arguments[1]) {
            (Datum::Null, _) | (_, Datum::Null) => null(),
            (array, separator) => {
                let text = joined(array, text_of(separator), arguments[2].as_text());
                Ok(Datum::text(text))
            }
        },
    ),
    lenient(
        "string_to_array",
        &[TEXT, TEXT],
        TEXT_ARRAY,
        |_, arguments| Ok(split(&arguments[0], &arguments[1], None)),
    ),
    lenient(
        "string_to_array",
        &[TEXT, TEXT, TEXT],
        TEXT_ARRAY,
        |_, arguments| Ok(split(&arguments[0], &arguments[1], arguments[2].as_text())),
    ),
    strict("array_length", &[ANYARRAY, INT4], INT4, |_, arguments| {
        Ok(dimension(&arguments[0], &arguments[1], |_, count| count))
    }),
    strict("array_lower", &[ANYARRAY, INT4], INT4, |_, arguments| {
        Ok(dimension(&arguments[0], &arguments[1], |lower, _| lower))
    }),
    strict("array_upper", &[ANYARRAY, INT4], INT4, |_, arguments| {
        Ok(dimension(&arguments[0], &arguments[1], |lower, count| {
            lower + count - 1
        }))
    }),
    strict("array_ndims", &[ANYARRAY], INT4, |_, arguments| {
        Ok(dimension(&arguments[0], &Datum::Int(1), |_, _| 1))
    }),
    strict("cardinality", &[ANYARRAY], INT4, |_, arguments| {
        Ok(Datum::Int(count(&arguments[0])))
    }),
    lenient(
        "array_append",
        &[ANYARRAY, ANYELEMENT],
        ANYARRAY,
        |_, arguments| Ok(append(&arguments[0], &arguments[1])),
    ),
    lenient(
        "array_prepend",
        &[ANYELEMENT, ANYARRAY],
        ANYARRAY,
        |_, arguments| Ok(prepend(&arguments[0], &arguments[1])),
    ),
    lenient(
        "array_cat",
        &[ANYARRAY, ANYARRAY],
        ANYARRAY,
        |_, arguments| Ok(concat(&arguments[0], &arguments[1])),
    ),
    lenient(
        "array_remove",
        &[ANYARRAY, ANYELEMENT],
        ANYARRAY,
        |_, arguments| {
            Ok(Datum::option(arguments[0].as_array(), |array| {
                let kept = array.items.iter().filter(|item| **item != arguments[1]);
                Datum::array(kept.cloned())
            }))
        },
    ),
    lenient(
        "array_position",
        &[ANYARRAY, ANYELEMENT],
        INT4,
        |_, arguments| {
            let array = arguments[0].as_array();
            Ok(Datum::option(array, |array| {
                let found = array.items.iter().position(|item| *item == arguments[1]);
                let found = found.and_then(|it| i64::try_from(it).ok());
                Datum::option(found, |it| Datum::Int(array.lower + it))
            }))
        },
    ),
    lenient(
        "array_positions",
        &[ANYARRAY, ANYELEMENT],
        1007,
        |_, arguments| {
            let array = arguments[0].as_array();
            Ok(Datum::option(array, |array| {
                let items = (array.lower..).zip(&array.items);
                let found = items.filter(|(_, item)| **item == arguments[1]);
                Datum::array(found.map(|(number, _)| Datum::Int(number)))
            }))
        },
    ),
    lenient(
        "nullif",
        &[ANYELEMENT, ANYELEMENT],
        ANYELEMENT,
        |_, arguments| match arguments[0] == arguments[1] {
            true => null(),
            false => Ok(arguments[0].clone()),
        },
    ),
    strict("abs", &[INT4], INT4, |_, it| {
        Ok(Datum::Int(int_of(&it[0]).saturating_abs()))
    }),
    strict("abs", &[INT8], INT8, |_, it| {
        Ok(Datum::Int(int_of(&it[0]).saturating_abs()))
    }),
    strict("abs", &[FLOAT8], FLOAT8, |_, it| on_float(&it[0], f64::abs)),
    strict("ceil", &[FLOAT8], FLOAT8, |_, it| {
        on_float(&it[0], f64::ceil)
    }),
    strict("floor", &[FLOAT8], FLOAT8, |_, it| {
        on_float(&it[0], f64::floor)
    }),
    strict("round", &[FLOAT8], FLOAT8, |_, it| {
        on_float(&it[0], f64::round_ties_even)
    }),
    strict("mod", &[INT8, INT8], INT8, |_, arguments| {
        int_of(&arguments[0])
            .checked_rem(int_of(&arguments[1]))
            .map(Datum::Int)
            .ok_or_else(|| CatalogueError::new("22012", "division by zero"))
    }),
];

fn on_float(value: &Datum, function: fn(f64) -> f64) -> Called {
    Ok(Datum::option(value.as_float(), |it| {
        Datum::float(function(it))
    }))
}

fn count(array: &Datum) -> i64 {
    let items = array.as_array().map_or(0, |array| array.items.len());
    i64::try_from(items).unwrap_or(i64::MAX)
}

/// Computes something of the first dimension: there is no other one, and none if it is empty.
fn dimension(array: &Datum, dimension: &Datum, compute: fn(i64, i64) -> i64) -> Datum {
    match (array.as_array(), int_of(dimension)) {
        (Some(found), 1) if !found.items.is_empty() => {
            Datum::Int(compute(found.lower, count(array)))
        }
        _ => Datum::Null,
    }
}

fn joined(array: &Datum, separator: &str, null: Option<&str>) -> String {
    let items = array.as_array().map_or(&[][..], |array| &array.items);
    let items = items.iter().filter_map(|item| match item {
        Datum::Null => null,
        item => item.as_text(),
    });
    items.collect::<Vec<_>>().join(separator)
}

fn split(text: &Datum, separator: &Datum, null: Option<&str>) -> Datum {
    let Some(text) = text.as_text() else {
        return Datum::Null;
    };
    let item = |item: &str| match null == Some(item) {
        true => Datum::Null,
        false => Datum::text(item),
    };
    match separator.as_text() {
        _ if text.is_empty() => Datum::array([]),
        None => Datum::array(text.chars().map(|it| item(it.encode_utf8(&mut [0; 4])))),
        Some("") => Datum::array([item(text)]),
        Some(separator) => Datum::array(text.split(separator).map(item)),
    }
}

fn with_items(array: &Datum, change: impl FnOnce(&mut Vec<Datum>)) -> Datum {
    let (lower, mut items) = match array.as_array() {
        Some(array) if !array.items.is_empty() => (array.lower, array.items.clone()),
        _ => (1, Vec::new()),
    };
    change(&mut items);
    Datum::Array(Arc::new(ArrayDatum { lower, items }))
}

pub(crate) fn append(array: &Datum, item: &Datum) -> Datum {
    with_items(array, |items| items.push(item.clone()))
}

pub(crate) fn prepend(item: &Datum, array: &Datum) -> Datum {
    with_items(array, |items| items.insert(0, item.clone()))
}

/// Joins two arrays. NULL is nothing to join.
pub(crate) fn concat(left: &Datum, right: &Datum) -> Datum {
    match (left, right) {
        (Datum::Null, other) | (other, Datum::Null) => other.clone(),
        (left, right) => with_items(left, |items| {
            items.extend(
                right
                    .as_array()
                    .iter()
                    .flat_map(|it| it.items.iter().cloned()),
            );
        }),
    }
}
