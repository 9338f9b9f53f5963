//! Compares values as `ORDER BY` specifies.

use std::cmp::Ordering;

use placement::Value;

use crate::plan::SortKey;

/// Compares the values of two rows by these keys, of which each has one value of a row.
pub(super) fn order_of_keys(keys: &[SortKey], left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right).zip(keys);
    let mut orders = pairs.map(
        |((left, right), key)| match (left.is_null(), right.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if key.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if key.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if key.descending => right.cmp(left),
            (false, false) => left.cmp(right),
        },
    );
    orders
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
