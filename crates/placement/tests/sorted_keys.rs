//! Keys with descending columns: they sort as PostgreSQL sorts rows, and a range of them has
//! exactly the rows between its ends.

mod cases;

use std::cmp::Ordering;
use std::ops::Bound;

use cases::{column_type, config, value, value_or_null};
use placement::{
    ColumnType, SortColumn, Value, decode_sorted, encode_prefix, encode_sorted, sorted_range,
};
use proptest::prelude::*;

/// Compares two values as `ORDER BY` with the direction of this column.
fn as_sorted(column: SortColumn, one: &Value, other: &Value) -> Ordering {
    let nulls_last = one.is_null().cmp(&other.is_null());
    let nulls = match column.nulls_first {
        true => nulls_last.reverse(),
        false => nulls_last,
    };
    let values = match (one.is_null() || other.is_null(), column.descending) {
        (true, _) => Ordering::Equal,
        (false, true) => other.cmp(one),
        (false, false) => one.cmp(other),
    };
    nulls.then(values)
}

fn key(columns: &[SortColumn], row: &[Value]) -> Vec<u8> {
    encode_sorted(columns, |column| row[column].as_ref())
}

fn columns(count: usize) -> impl Strategy<Value = Vec<SortColumn>> {
    let directions = prop::collection::vec(any::<(bool, bool)>(), count);
    directions.prop_map(|directions| {
        let numbered = directions.into_iter().enumerate();
        let columns = numbered.map(|(column, (descending, nulls_first))| SortColumn {
            column,
            descending,
            nulls_first,
        });
        columns.collect()
    })
}

type Rows = Vec<Vec<Value>>;

/// Returns columns and rows for them that share their first values in many cases.
fn rows(count: usize) -> impl Strategy<Value = (Vec<SortColumn>, Vec<ColumnType>, Rows)> {
    prop::collection::vec(column_type(), 1..5).prop_flat_map(move |types| {
        let row = types
            .iter()
            .map(|it| value_or_null(*it))
            .collect::<Vec<_>>();
        let rows = prop::collection::vec(row, count);
        let shared = 0..=types.len();
        (columns(types.len()), Just(types), rows, shared).prop_map(
            |(columns, types, mut rows, shared)| {
                let first = rows[0][..shared].to_vec();
                for row in &mut rows {
                    row[..shared].clone_from_slice(&first);
                }
                (columns, types, rows)
            },
        )
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn keys_sort_as_rows((columns, types, rows) in rows(2)) {
        let by_column = columns.iter().zip(rows[0].iter().zip(&rows[1]));
        let expected = by_column
            .map(|(column, (one, other))| as_sorted(*column, one, other))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal);
        let keys = [key(&columns, &rows[0]), key(&columns, &rows[1])];
        prop_assert_eq!(keys[0].cmp(&keys[1]), expected, "{:02x?}", keys);
        for (key, row) in keys.iter().zip(&rows) {
            prop_assert_eq!(decode_sorted(&columns, &types, key), Ok(row.clone()));
            for bytes in 0..key.len() {
                prop_assert!(decode_sorted(&columns, &types, &key[..bytes]).is_err());
            }
        }
    }

    #[test]
    fn a_range_has_the_rows_between_its_ends(
        (columns, rows, values, ends) in rows(8).prop_flat_map(|(columns, types, rows)| {
            let last = *types.last().expect("a key has a column");
            let ends = [value(last), value(last)];
            (Just(columns), Just(rows), any::<prop::sample::Index>(), (ends, any::<[u8; 2]>()))
        })
    ) {
        let next = columns.len() - 1;
        let prefix = &rows[values.index(rows.len())][..next];
        let (ends, kinds) = ends;
        let bound = |end: usize| match kinds[end] % 3 {
            0 => Bound::Unbounded,
            1 => Bound::Included(&ends[end]),
            _ => Bound::Excluded(&ends[end]),
        };
        let range = sorted_range(&columns, prefix, bound(0), bound(1));
        for row in &rows {
            let value = &row[next];
            let above = match bound(0) {
                Bound::Unbounded => true,
                Bound::Included(end) => value >= end,
                Bound::Excluded(end) => value > end,
            };
            let below = match bound(1) {
                Bound::Unbounded => true,
                Bound::Included(end) => value <= end,
                Bound::Excluded(end) => value < end,
            };
            let is_inside = row[..next] == *prefix && !value.is_null() && above && below;
            let found = range.as_ref().is_some_and(|(start, end)| {
                let mut key = key(&columns, row);
                // The primary key follows.
                key.push(1);
                key >= *start && end.as_ref().is_none_or(|end| key < *end)
            });
            prop_assert_eq!(found, is_inside, "{:?} in {:?}", row, range);
        }
    }

    #[test]
    fn a_prefix_of_values_is_a_prefix_of_the_key((columns, _, rows) in rows(1), count in 0usize..5) {
        let count = count.min(columns.len());
        let prefix = encode_prefix(&columns, &rows[0][..count]);
        prop_assert!(key(&columns, &rows[0]).starts_with(&prefix));
    }
}

#[test]
fn golden_bytes() {
    let mut key = Vec::new();
    let column = SortColumn::descending(0);
    column.encode(&mut key, Value::Int64(-1).as_ref());
    column.encode(&mut key, Value::Text("a\0b".into()).as_ref());
    column.encode(&mut key, Value::Null.as_ref());
    let last = SortColumn {
        nulls_first: false,
        ..column
    };
    last.encode(&mut key, Value::Null.as_ref());
    SortColumn::ascending(0).encode(&mut key, Value::Bool(true).as_ref());
    let number = [0x01, 0x80, 0, 0, 0, 0, 0, 0, 0];
    let text = [0x01, !b'a', 0xff, 0x00, !b'b', 0xff, 0xfe];
    let rest = [0x00, 0x02, 0x01, 0x01];
    assert_eq!(key, [&number[..], &text, &rest].concat());
}
