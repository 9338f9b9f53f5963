//! A table of people, filled and read through the client, and whether a cluster is at rest.

use std::ops::Range;

use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Durability, Value};
use protocol::configuration::{Configuration, PartitionState};
use replex::cluster::Cluster;

/// A new table that survives one failure.
pub async fn create(cluster: &Cluster) -> Table {
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let schema = super::people(1, Durability::Sync);
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
        table.insert(&person(id)).await.unwrap();
    }
}

/// Reads each of them by its number.
pub async fn expect_all(table: &Table, ids: Range<i64>) {
    for id in ids {
        let row = table.get(&[Value::Int64(id)]).await.unwrap();
        assert_eq!(row.map(|row| row.values), Some(person(id)), "{id}");
    }
}

/// Whether nothing moves or is rebuilt, and no epoch ends.
pub fn is_quiet(configuration: &Configuration) -> bool {
    let mut places = configuration.places();
    configuration.sealing.is_none()
        && places.all(|(_, it)| it.state == PartitionState::Serving && it.moving.is_none())
}
