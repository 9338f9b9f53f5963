//! A change of one table does not disturb another one (R15, R44): the epoch of the other table
//! stays, so that none of its chains stands still, and none of its messages and leases becomes
//! void.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, IfExists, SchemaBuilder, Table};
use placement::{ColumnType, Value};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{Epoch, ServerId};
use replex::cluster::{Cluster, ClusterOptions};

use crate::support;
use crate::support::rows::{self, expect_all, insert, is_quiet, with_index};

const ROWS: i64 = 300;

/// Creates a table of two copies, each of one partition.
async fn create_small(cluster: &Cluster, name: &str) -> Table {
    let schema = SchemaBuilder::new(name)
        .column("id", ColumnType::Int64)
        .column("city", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_city", &["city"])
        .partitions(1)
        .failures_tolerated(1)
        .build()
        .unwrap();
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    client.create_table(schema, IfExists::Fail).await.unwrap()
}

async fn write(table: &Table, id: i64) {
    let row = [Value::Int64(id), Value::Text("Rome".into())];
    let result = table.insert(&row).await.unwrap();
    assert!(result.took_effect(), "{result:?}");
}

/// Writes rows until it is stopped, and returns how many.
async fn write_on(table: Table, stopped: Arc<AtomicBool>) -> i64 {
    let mut id = 0;
    while !stopped.load(Ordering::Relaxed) {
        write(&table, id).await;
        id += 1;
    }
    id
}

fn named<'a>(configuration: &'a Configuration, name: &str) -> &'a PlacedTable {
    configuration.table_named(name).unwrap()
}

fn epoch_of(configuration: &Configuration, name: &str) -> Epoch {
    named(configuration, name).epoch
}

#[tokio::test]
async fn a_table_is_written_in_one_epoch_while_another_one_gets_an_index_and_loses_it() {
    let cluster = support::cluster(3).await;
    let people = rows::create(&cluster).await;
    insert(&people, 0..ROWS).await;
    let steady = create_small(&cluster, "steady").await;
    let before = cluster.configuration().await.unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_on(steady.clone(), Arc::clone(&stopped)));

    let client = people.client();
    let wanted = with_index(people.schema(), "by_nothing");
    client.add_copy(wanted, &|_| {}).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    support::run_well(&["sql", "-C", &address, "-c", "DROP INDEX by_nothing"]);
    let after = cluster.configuration().await.unwrap();
    stopped.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();

    assert!(epoch_of(&after, "people") > epoch_of(&before, "people"));
    assert_eq!(epoch_of(&after, "steady"), epoch_of(&before, "steady"));
    assert!(written > 0, "the writer was never let in");
    expect_all(&people, 0..ROWS).await;
}

#[tokio::test]
async fn a_lost_server_changes_only_tables_that_it_held() {
    let mut options = ClusterOptions::new(support::program());
    options.servers = 5;
    let mut cluster = Cluster::start(options).await.unwrap();
    let held = create_small(&cluster, "held").await;
    let steady = create_small(&cluster, "steady").await;
    write(&held, -1).await;
    let servers = |table: &PlacedTable| -> BTreeSet<ServerId> {
        table.holders().iter().map(|core| core.server).collect()
    };
    let before = cluster.configuration().await.unwrap();
    let (of_held, of_steady) = (named(&before, "held"), named(&before, "steady"));
    let others = servers(of_steady);
    let lost = *servers(of_held).difference(&others).next().unwrap();
    let stopped = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(write_on(steady.clone(), Arc::clone(&stopped)));

    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let whole = |it: &Configuration| !it.holds(lost) && is_quiet(it);
    cluster.wait_until("it is replaced", whole).await.unwrap();
    write(&held, -2).await;
    let after = cluster.configuration().await.unwrap();
    stopped.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();

    assert!(epoch_of(&after, "held") > epoch_of(&before, "held"));
    assert_eq!(epoch_of(&after, "steady"), epoch_of(&before, "steady"));
    assert!(written > 0, "the writer was never let in");
}
