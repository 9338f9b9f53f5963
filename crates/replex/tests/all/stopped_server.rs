//! A server that stands still, or whose disk does, without breaking a connection. Clients that were
//! connected before learn that it is replaced, and each of their writes ends once (R13, R15).
//!
//! The server stands still to the end of each test, so that no write ends because it goes on. The
//! one of disks needs `strace`.

use std::time::Duration;

use client::{Client, ConnectOptions, IfExists, Table};
use placement::Durability;
use protocol::configuration::Configuration;
use protocol::identity::ServerId;
use protocol::operation::RequestResult;
use replex::cluster::{Cluster, ClusterOptions};
use tokio::task::JoinSet;

use crate::support;
use crate::support::needs;
use crate::support::rows::{expect_all, insert, is_quiet, person};
use crate::support::syncs::SyncFault;

const ROWS: i64 = 64;
/// Requests end within this, or their outcome is unknown: less than it takes until a connection to
/// a server that does not answer breaks.
const DEADLINE: Duration = Duration::from_secs(9);

async fn cluster() -> Cluster {
    let mut options = ClusterOptions::new(support::program());
    options.servers = 4;
    Cluster::start(options).await.unwrap()
}

/// The table of a client of its own, with the rows before `ROWS`, so that its connections are open.
async fn connected(cluster: &Cluster) -> Table {
    let options = ConnectOptions::new([cluster.coordinator_address()]).deadline(DEADLINE);
    let client = Client::connect(options).await.unwrap();
    let schema = support::people(1, Durability::Sync);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    insert(&table, 0..ROWS).await;
    table
}

/// A server that is the head of some rows, and in the chain of others.
fn head(table: &Table) -> ServerId {
    table.definition().placement[0][0].core.server
}

/// All at once, over the connections that are open. A row that were inserted twice would be a
/// duplicate.
async fn insert_at_once(table: &Table, ids: std::ops::Range<i64>) {
    let mut writers = JoinSet::new();
    for id in ids {
        let table = table.clone();
        writers.spawn(async move { (id, table.insert(&person(id)).await) });
    }
    while let Some(ended) = writers.join_next().await {
        let (id, result) = ended.unwrap();
        let result = result.unwrap_or_else(|error| panic!("row {id}: {error}"));
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
    }
}

fn is_replaced(lost: ServerId) -> impl Fn(&Configuration) -> bool {
    move |configuration| !configuration.holds(lost) && is_quiet(configuration)
}

#[tokio::test]
async fn writes_that_wait_for_a_server_that_stands_still_end_elsewhere() {
    let cluster = cluster().await;
    let table = connected(&cluster).await;
    let lost = head(&table);
    cluster.pause(lost.0 as usize - 1).unwrap();
    insert_at_once(&table, ROWS..2 * ROWS).await;
    expect_all(&table, 0..2 * ROWS).await;
    let address = cluster.coordinator_address();
    let statement = "INSERT INTO people (id, city, score) VALUES (-1, 'Ulm', 1)";
    support::run_well(&["sql", "-C", address, "-c", statement]);
}

#[tokio::test]
async fn a_client_that_was_idle_meanwhile_goes_around_a_server_that_stands_still() {
    let mut cluster = cluster().await;
    let table = connected(&cluster).await;
    let lost = head(&table);
    cluster.pause(lost.0 as usize - 1).unwrap();
    cluster
        .wait_until("it is replaced", is_replaced(lost))
        .await
        .unwrap();
    insert_at_once(&table, ROWS..2 * ROWS).await;
    expect_all(&table, 0..2 * ROWS).await;
}

#[tokio::test]
async fn a_server_whose_disk_hangs_is_replaced_and_comes_back() {
    if needs::require_program("strace", &["--version"]).is_none() {
        return;
    }
    let mut cluster = cluster().await;
    let table = connected(&cluster).await;
    let lost = head(&table);
    let hanging = SyncFault::start(
        cluster.server(lost.0 as usize - 1).id(),
        "delay_enter=600000000",
    )
    .await;
    insert_at_once(&table, ROWS..2 * ROWS).await;
    expect_all(&table, 0..2 * ROWS).await;
    cluster
        .wait_until("it is replaced", is_replaced(lost))
        .await
        .unwrap();
    drop(hanging);
    let is_back = |configuration: &Configuration| {
        let server = configuration.server(lost);
        server.is_some_and(|it| it.state == protocol::configuration::ServerState::Up)
    };
    cluster.wait_until("it is back", is_back).await.unwrap();
    insert_at_once(&table, 2 * ROWS..3 * ROWS).await;
    expect_all(&table, 0..3 * ROWS).await;
}
