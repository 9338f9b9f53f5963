//! Ranges of an index: which partitions are asked for which keys, and which rows come in which
//! order, against a server that holds its rows in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake;

use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::{Arc, Mutex};

use client::{Error, SchemaBuilder, Table};
use fake::{Fake, Reaction};
use placement::{
    ColumnType, Layout, Schema, TableComments, Value, encode_key, encode_row, encode_sorted,
};
use protocol::configuration::{Place, PlacedTable};
use protocol::identity::{Epoch, TableId, Version};
use protocol::message::{Read, Reply, Request, RowPage};

/// Longer than any test: nothing has changed for so long.
const QUIET_US: u64 = 1 << 40;

/// Events of a tenant are in one partition, in order of time; notes are not unique and can be NULL.
fn schema() -> Schema {
    SchemaBuilder::new("t")
        .column("tenant", ColumnType::Int64)
        .column("at", ColumnType::Int64)
        .nullable("note", ColumnType::Text)
        .primary_key(&["tenant", "at"])
        .partitioned_by_first(1)
        .index("by_note", &["note"])
        .partitions(4)
        .build()
        .unwrap()
}

fn rows() -> Vec<Vec<Value>> {
    let notes = ["", "a", "a\0", "b", "\u{e9}"].map(|it| Value::Text(it.into()));
    let notes = notes.into_iter().chain([Value::Null]).cycle();
    let keys = (0..5).flat_map(|tenant| (0..5).map(move |at| [tenant, at].map(Value::Int64)));
    let rows = keys
        .zip(notes)
        .map(|([tenant, at], note)| vec![tenant, at, note]);
    rows.collect()
}

/// Returns the page of all rows that a read asks for.
fn page(table: &PlacedTable, read: &Read) -> RowPage {
    let replex = usize::from(read.partition.replex);
    let order = table.layout.order(replex);
    let key = |row: &Vec<Value>| encode_sorted(&order, |column| row[column].as_ref());
    let mut found = rows();
    found.retain(|row| {
        let partition = table
            .layout
            .partition_of_values(replex, |column| row[column].as_ref());
        let key = key(row);
        partition == read.partition.number
            && key[..] >= *read.start
            && read.end.as_ref().is_none_or(|end| key[..] < **end)
    });
    found.sort_by_key(key);
    if read.descending {
        found.reverse();
    }
    found.truncate(read.limit as usize);
    let mut page = RowPage {
        quiet_us: Some(QUIET_US),
        ..RowPage::default()
    };
    for row in &found {
        match read.count_only {
            true => page.count += 1,
            false => page.push(Version(1), &encode_row(&table.schema.columns, row).unwrap()),
        }
    }
    page
}

/// A server with these rows, and the reads that it was asked for.
async fn start() -> (Fake, Arc<Mutex<Vec<Read>>>) {
    let schema = schema();
    let layout = Layout::base(&schema);
    let place = Place::serving(fake::core(), Epoch(1));
    let table = PlacedTable {
        id: TableId(1),
        epoch: Epoch(1),
        sealing: None,
        columns_since: Epoch(0),
        placement: vec![vec![place; 4]; layout.replexes.len()],
        schema,
        layout,
        building: Vec::new(),
        comments: TableComments::default(),
    };
    let reads: Arc<Mutex<Vec<Read>>> = Arc::default();
    let (seen, served) = (reads.clone(), table.clone());
    let fake = fake::start(move |_, request| {
        let Request::Read(read) = request else {
            panic!("{request:?}");
        };
        let page = page(&served, &read);
        seen.lock().unwrap().push(read);
        Reaction::Reply(Reply::Rows(page))
    })
    .await;
    fake.configuration.lock().unwrap().tables = vec![table].into();
    (fake, reads)
}

/// Returns whether a key lies on this side of a bound, as the documentation has it.
fn is_within(key: &[Value], bound: Bound<&[Value]>, wanted: std::cmp::Ordering) -> bool {
    let (values, includes) = match bound {
        Unbounded => return true,
        Included(values) => (values, true),
        Excluded(values) => (values, false),
    };
    let encode = |key: &[Value]| encode_key(key.iter().map(Value::as_ref));
    let order = encode(&key[..values.len()]).cmp(&encode(values));
    order == wanted || includes && order.is_eq()
}

/// Compares all forms of one range with the rows that should be in it, and returns how many
/// partitions were asked.
async fn check(
    table: &Table,
    (by, columns): (&str, &[usize]),
    (lower, upper): (Bound<&[Value]>, Bound<&[Value]>),
    reads: &Mutex<Vec<Read>>,
) -> usize {
    let mut expected = rows();
    let order = [columns, &[0, 1]].concat();
    let key =
        |row: &Vec<Value>| -> Vec<Value> { order.iter().map(|it| row[*it].clone()).collect() };
    expected.retain(|row| {
        is_within(&key(row), lower, std::cmp::Ordering::Greater)
            && is_within(&key(row), upper, std::cmp::Ordering::Less)
    });
    expected.sort_by_key(|row| encode_key(key(row).iter().map(Value::as_ref)));
    let range = || table.range(by, lower, upper).unwrap();
    let values =
        |rows: Vec<client::Row>| -> Vec<_> { rows.into_iter().map(|row| row.values).collect() };
    let what = format!("{by} {lower:?} {upper:?}");
    assert_eq!(values(range().await.unwrap()), expected, "{what}");
    let asked = std::mem::take(&mut *reads.lock().unwrap());
    assert_eq!(
        range().count().await.unwrap(),
        expected.len() as u64,
        "{what}"
    );
    let limited = range().limit(3).await.unwrap();
    assert_eq!(values(limited), expected[..expected.len().min(3)], "{what}");
    expected.reverse();
    let mut coming = range().descending().rows().unwrap();
    let mut came = Vec::new();
    while let Some(row) = coming.next().await.unwrap() {
        came.push(row.values);
    }
    assert_eq!(came, expected, "{what}");
    assert_eq!(coming.is_of_one_moment(), Some(true), "{what}");
    reads.lock().unwrap().clear();
    let crossed = |it: &Read| it.end.as_ref().is_some_and(|end| it.start >= *end);
    assert!(
        !asked.iter().any(crossed),
        "{what}: a range without keys is read"
    );
    asked.len()
}

#[tokio::test]
async fn a_range_has_the_rows_between_its_keys_in_order() {
    let (fake, reads) = start().await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let keys: Vec<Vec<Value>> = [
        vec![],
        vec![0],
        vec![1],
        vec![1, 0],
        vec![1, 3],
        vec![4, 9],
        vec![7],
    ]
    .into_iter()
    .map(|key| key.into_iter().map(Value::Int64).collect())
    .collect();
    let notes = ["", "a", "a\0", "aa", "\u{e9}"].map(|it| vec![Value::Text(it.into())]);
    let mut notes = notes.to_vec();
    notes.push(vec![Value::Null]);
    notes.push(Vec::new());
    for (by, columns, keys) in [("t", &[0, 1][..], keys), ("by_note", &[2][..], notes)] {
        let mut bounds = vec![Unbounded];
        bounds.extend(
            keys.iter()
                .flat_map(|key| [Included(&key[..]), Excluded(&key[..])]),
        );
        for lower in &bounds {
            for upper in &bounds {
                let asked = check(&table, (by, columns), (*lower, *upper), &reads).await;
                assert!([0, 1, 4].contains(&asked), "{lower:?} {upper:?}: {asked}");
            }
        }
    }
}

#[tokio::test]
async fn keys_that_share_what_places_them_are_in_one_partition() {
    let (fake, reads) = start().await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let key = |key: &[i64]| -> Vec<Value> { key.iter().copied().map(Value::Int64).collect() };
    for (lower, upper, partitions) in [
        (key(&[1, 2]), key(&[1, 4]), 1),
        (key(&[1]), key(&[1]), 1),
        (key(&[1]), key(&[1, 3]), 1),
        (key(&[1, 2]), key(&[2, 4]), 4),
        (key(&[]), key(&[1]), 4),
        // It ends before it begins.
        (key(&[2]), key(&[1]), 0),
        (key(&[1, 4]), key(&[1, 2]), 0),
    ] {
        let range = (Included(&lower[..]), Included(&upper[..]));
        let asked = check(&table, ("t", &[0, 1]), range, &reads).await;
        assert_eq!(asked, partitions, "{lower:?} {upper:?}");
    }
}

#[tokio::test]
async fn wrong_keys_are_named_with_the_whole_key() {
    let (fake, _) = start().await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let int = Value::Int64(1);
    let long = [int.clone(), int.clone(), int.clone()];
    let text = [int.clone(), Value::Text("x".into())];
    for (error, expected) in [
        (
            table.range("t", Included(&long), Unbounded).unwrap_err(),
            "3 values for the key (tenant, at) of table t: give one for each column",
        ),
        (
            table.range("t", Unbounded, Excluded(&text)).unwrap_err(),
            "column at is of type bigint, the value of type text: convert it",
        ),
        (
            table.lookup("t", &[]).unwrap_err(),
            "0 values for the key (tenant, at) of table t: give at least the first 1, or read a range",
        ),
        (
            table.lookup("t", &long).unwrap_err(),
            "3 values for the key (tenant, at) of table t: give one for each column",
        ),
        (
            table.pk(&[int]).unwrap_err(),
            "1 values for the key (tenant, at) of table t: give one for each column",
        ),
    ] {
        assert_eq!(error.to_string(), expected);
    }
    let unknown = table.range("by_at", Unbounded, Unbounded).unwrap_err();
    assert!(matches!(unknown, Error::UnknownIndex { .. }), "{unknown}");
}
