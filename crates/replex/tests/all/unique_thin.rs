//! A unique thin index on a cluster: writers race for keys, also while servers are killed. No two
//! rows ever have one key, and entries are what the rows imply.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Durability, ThinIndex, Value};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;
use tokio::task::JoinSet;

use crate::support;
use crate::support::rows::is_quiet;

/// Keys for which the writers race: far fewer than rows.
const KEYS: i64 = 40;
const WRITERS: i64 = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_rows_never_have_one_key() {
    let (mut cluster, table) = people().await;
    let mut writing = JoinSet::new();
    // Each writer tries all keys with primary keys of its own, so through different heads.
    for writer in 0..WRITERS {
        let table = table.clone();
        writing.spawn(async move {
            let mut taken = 0;
            for key in 0..KEYS {
                let result = table
                    .insert(&person(writer * KEYS + key, key))
                    .await
                    .unwrap();
                taken += match result {
                    RequestResult::Applied { .. } => 1,
                    RequestResult::Duplicate { .. } => 0,
                    other => panic!("{other:?}"),
                };
            }
            taken
        });
    }
    let taken: i64 = writing.join_all().await.into_iter().sum();
    assert_eq!(taken, KEYS, "each key is taken once");
    assert_sound(&cluster).await;
    cluster.check_processes().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_stay_unique_while_a_server_is_killed() {
    let (mut cluster, table) = people().await;
    let over = Arc::new(AtomicBool::new(false));
    let mut writing = JoinSet::new();
    for writer in 0..WRITERS {
        writing.spawn(take_and_give_up(table.clone(), writer, over.clone()));
    }
    for position in 0..3 {
        cluster.kill(position).await.unwrap();
        cluster.restart(position).await.unwrap();
        cluster.wait_until_serving().await.unwrap();
        cluster.wait_until("all is filled", is_quiet).await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let written = writing.join_all().await;
    assert!(written.iter().all(|it| *it > 0), "{written:?}");
    assert_sound(&cluster).await;
    cluster.check_processes().unwrap();
}

/// Takes keys, moves rows to other keys and deletes rows; how many writes had an effect.
async fn take_and_give_up(table: Table, writer: i64, over: Arc<AtomicBool>) -> u64 {
    let mut written = 0;
    let mut number = writer;
    while !over.load(Ordering::Relaxed) {
        number = (number * 31 + 7) % 10_007;
        let id = writer * KEYS + number % KEYS;
        let row = person(id, number % KEYS);
        let result = match number % 3 {
            0 => table.delete(&row[..1], None).await.unwrap(),
            _ => table.insert(&row).await.unwrap(),
        };
        written += u64::from(result.took_effect());
    }
    written
}

/// Checks that all rows have different keys, by a copy, and that the entries agree with them.
async fn assert_sound(cluster: &Cluster) {
    let address = cluster.coordinator_address();
    let select = "SET scan = on; SELECT id, score FROM people";
    let shown = support::run_well(&["sql", "-C", address, "--format", "csv", "-c", select]);
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in shown.lines() {
        if let Some((id, score)) = line.split_once(',') {
            holders.entry(score).or_default().push(id);
        }
    }
    assert!(holders.values().all(|ids| ids.len() == 1), "{holders:?}");
    let sound = support::run_well(&["admin", "-C", address, "check", "people"]);
    assert!(sound.contains("agree with the rows"), "{sound}");
}

/// A table with a unique thin index of the score, in two copies and more.
async fn people() -> (Cluster, Table) {
    let cluster = support::cluster(3).await;
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let mut schema = support::people(1, Durability::Sync);
    schema.thin.push(ThinIndex {
        name: "of_score".into(),
        columns: placement::ascending(&[2]),
        included: vec![1],
        by_range: false,
        unique: true,
        copies: 1,
    });
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    (cluster, table)
}

fn person(id: i64, key: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    vec![Value::Int64(id), city, Value::Int64(key), Value::Null]
}
