//! A table of people, filled and read through the client, and whether a cluster is at rest.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Durability, Index, Schema, Value};
use protocol::configuration::{Configuration, PartitionState};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;
use tokio::task::JoinSet;

/// A new table that survives one failure.
pub async fn create(cluster: &Cluster) -> Table {
    create_of(cluster, 1).await
}

/// A new table that survives so many failures.
pub async fn create_of(cluster: &Cluster, failures_tolerated: u8) -> Table {
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let schema = super::people(failures_tolerated, Durability::Sync);
    client.create_table(schema, IfExists::Fail).await.unwrap()
}

/// The row with this number.
pub fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    vec![Value::Int64(id), city, Value::Int64(id % 5), Value::Null]
}

/// One after the other.
pub async fn insert(table: &Table, ids: Range<i64>) {
    for id in ids {
        let result = table.insert(&person(id)).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
    }
}

/// The number in a value.
pub fn number(value: &Value) -> i64 {
    match value {
        Value::Int64(number) => *number,
        other => panic!("{other:?} is no number"),
    }
}

/// Rows with these numbers, by so many writers at a time.
pub async fn fill(table: &Table, ids: Range<i64>, writers: i64, row: fn(i64) -> Vec<Value>) {
    let mut filling = JoinSet::new();
    for writer in 0..writers {
        let (table, own) = (table.clone(), ids.start + writer..ids.end);
        filling.spawn(async move {
            for id in own.step_by(writers as usize) {
                let result = table.insert(&row(id)).await.unwrap();
                assert!(
                    matches!(result, RequestResult::Applied { .. }),
                    "{result:?}"
                );
            }
        });
    }
    while let Some(ended) = filling.join_next().await {
        ended.unwrap();
    }
}

/// Inserts rows from a number on, until it is over; how many.
pub async fn insert_until(
    table: Table,
    first: i64,
    row: fn(i64) -> Vec<Value>,
    over: Arc<AtomicBool>,
) -> i64 {
    let mut written = 0;
    while !over.load(Ordering::Relaxed) {
        let result = table.insert(&row(first + written)).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
        written += 1;
    }
    written
}

/// With an index by the note.
pub fn with_index(schema: &Schema, name: &str) -> Schema {
    let mut wanted = schema.clone();
    wanted.indexes.push(Index {
        name: name.to_owned(),
        columns: vec![3],
        constraint: None,
        partition_columns: None,
        by_range: false,
    });
    wanted
}

/// Reads each of them by its number.
pub async fn expect_all(table: &Table, ids: Range<i64>) {
    for id in ids {
        let row = table.get(&[Value::Int64(id)]).await.unwrap();
        assert_eq!(row.map(|row| row.values), Some(person(id)), "{id}");
    }
}

/// Returns whether nothing moves or is rebuilt, and no epoch ends.
pub fn is_quiet(configuration: &Configuration) -> bool {
    let mut places = configuration.places();
    !configuration.is_sealing()
        && places.all(|(_, it)| it.state == PartitionState::Serving && it.moving.is_none())
}
