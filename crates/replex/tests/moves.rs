//! Partitions move between servers that serve, under load: to one that is added, away from one that is
//! drained (DESIGN section 5).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::ops::Range;

use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Durability, Value};
use protocol::configuration::{Configuration, PartitionState};
use protocol::identity::ServerId;

const ROWS: i64 = 300;

#[tokio::test]
async fn a_server_is_added_and_another_one_drained_while_writes_go_on() {
    let mut cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let client = Client::connect(ConnectOptions::new([address.clone()]));
    let client = client.await.unwrap();
    let schema = support::people(1, Durability::Sync);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    insert(&table, 0..ROWS).await;
    let admin = |command: &[&str]| {
        let arguments = [&["admin"], command, &["-C", &address]].concat();
        support::run_well(&arguments)
    };

    let added = cluster.add_server().await.unwrap();
    let new = ServerId(added as u32 + 1);
    insert(&table, ROWS..2 * ROWS).await;
    let shares = |it: &Configuration| it.holds(new) && is_quiet(it);
    cluster
        .wait_until("the new server holds its share", shares)
        .await
        .unwrap();

    let drained = table.definition().placement[0][0].core.server;
    let number = drained.0.to_string();
    admin(&["server", "drain", &number, "--no-wait"]);
    insert(&table, 2 * ROWS..3 * ROWS).await;
    let drain = admin(&["server", "drain", &number]);
    assert!(drain.contains("holds nothing any more"), "{drain}");
    let configuration = cluster.configuration().await.unwrap();
    assert!(!configuration.holds(drained));
    for id in 0..3 * ROWS {
        let row = table.get(&[Value::Int64(id)]).await.unwrap();
        assert_eq!(row.map(|row| row.values), Some(person(id)), "{id}");
    }
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");

    // It may be stopped for good: nobody misses it.
    cluster.stop(drained.0 as usize - 1).await.unwrap();
    admin(&["server", "remove", &number]);
    insert(&table, 3 * ROWS..3 * ROWS + 20).await;
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
}

#[tokio::test]
async fn what_no_other_server_can_hold_is_not_drained() {
    let cluster = support::cluster(2).await;
    let address = cluster.coordinator_address().to_owned();
    support::create(&cluster, support::people(1, Durability::Sync)).await;
    let drain = ["admin", "server", "drain", "1", "-C", &address];
    let refused = support::run_badly(&drain, 1);
    assert!(
        refused.contains("would not survive the 1 failures"),
        "{refused}"
    );
    let list = support::run_well(&["admin", "server", "list", "-C", &address]);
    assert!(!list.contains("draining"), "{list}");
}

/// Whether nothing moves or is rebuilt.
fn is_quiet(configuration: &Configuration) -> bool {
    let mut places = configuration.places();
    configuration.sealing.is_none()
        && places.all(|(_, it)| it.state == PartitionState::Serving && it.moving.is_none())
}

fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    vec![Value::Int64(id), city, Value::Int64(id % 5), Value::Null]
}

async fn insert(table: &Table, ids: Range<i64>) {
    for id in ids {
        table.insert(&person(id)).await.unwrap();
    }
}
