//! A server comes back with an older copy of its data folder. None of its rows is served, and its
//! partitions are refilled from the other copies, or no client gets any of their rows (R16, R25).

use std::time::Duration;

use client::{Client, ConnectOptions, Error, IfExists, Table};
use placement::{Durability, Value};
use protocol::configuration::{PartitionState, ServerState};
use protocol::identity::ServerId;
use protocol::operation::RequestResult;
use replex::cluster::Cluster;

use crate::support;
use crate::support::folders::{Waiting, copy, restore};
use crate::support::rows::{self, is_quiet};

/// Rows before the copy is made, and after.
const BEFORE: i64 = 60;
const AFTER: i64 = 120;

/// A cluster with rows, and the position of the server that holds partitions of the primary copy.
async fn begin(servers: usize) -> (Cluster, Table, usize) {
    let cluster = support::cluster(servers).await;
    let table = rows::create(&cluster).await;
    rows::insert(&table, 0..BEFORE).await;
    let server = table.definition().placement[0][0].core.server;
    (cluster, table, server.0 as usize - 1)
}

/// All rows are there by their primary keys, none is taken twice, and all copies are equal.
async fn is_whole(cluster: &mut Cluster, table: &Table, rows: i64) {
    cluster.wait_until("all is filled", is_quiet).await.unwrap();
    rows::expect_all(table, 0..rows).await;
    for id in 0..rows {
        let result = table.insert(&rows::person(id)).await.unwrap();
        assert!(
            matches!(result, RequestResult::Duplicate { .. }),
            "{id}: {result:?}"
        );
    }
    let check = support::run_well(&[
        "admin",
        "check",
        "people",
        "-C",
        cluster.coordinator_address(),
    ]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
}

fn assert_coordinator_logged(cluster: &Cluster, server: usize) {
    let log = cluster.coordinator(0).log_text();
    let named = format!("server {}", server + 1);
    let logged = log
        .lines()
        .any(|line| line.contains("OLD FOLDER") && line.contains(&named));
    assert!(logged, "{log}");
}

#[tokio::test]
async fn a_copy_from_an_earlier_start_is_not_served() {
    let (mut cluster, table, server) = begin(3).await;
    let folder = cluster.server_folder(server);
    let copied = cluster.folder().join("copy");
    cluster.stop(server).await.unwrap();
    copy(&folder, &copied);
    cluster.restart(server).await.unwrap();
    rows::insert(&table, BEFORE..AFTER).await;
    cluster.stop(server).await.unwrap();
    restore(&copied, &folder);
    cluster.restart(server).await.unwrap();
    is_whole(&mut cluster, &table, AFTER).await;
    assert_coordinator_logged(&cluster, server);
    // The folder is the newest one from now on.
    cluster.stop(server).await.unwrap();
    cluster.restart(server).await.unwrap();
    is_whole(&mut cluster, &table, AFTER).await;
    let log = cluster.coordinator(0).log_text();
    assert_eq!(
        log.matches("event=coordinator note=\"OLD FOLDER").count(),
        1,
        "{log}"
    );
}

#[tokio::test]
async fn a_copy_made_of_the_process_that_ran_last_is_not_served() {
    let (mut cluster, table, server) = begin(3).await;
    let folder = cluster.server_folder(server);
    let copied = cluster.folder().join("copy");
    // As a snapshot of the file system is, which an operator restores.
    copy(&folder, &copied);
    rows::insert(&table, BEFORE..AFTER).await;
    cluster.stop(server).await.unwrap();
    restore(&copied, &folder);
    cluster.restart(server).await.unwrap();
    is_whole(&mut cluster, &table, AFTER).await;
    assert_coordinator_logged(&cluster, server);
    let log = cluster.server(server).log_text();
    assert!(log.contains("event=old_folder"), "{log}");
}

#[tokio::test]
async fn a_log_of_one_core_that_is_older_is_found_out_behind_a_link() {
    let (mut cluster, table, server) = begin(3).await;
    let folder = cluster.server_folder(server);
    let elsewhere = cluster.folder().join("elsewhere");
    cluster.stop(server).await.unwrap();
    std::fs::rename(&folder, &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
    cluster.restart(server).await.unwrap();
    let copied = cluster.folder().join("copy");
    copy(&elsewhere.join("core-0"), &copied);
    rows::insert(&table, BEFORE..AFTER).await;
    cluster.stop(server).await.unwrap();
    restore(&copied, &elsewhere.join("core-0"));
    cluster.restart(server).await.unwrap();
    is_whole(&mut cluster, &table, AFTER).await;
    assert_coordinator_logged(&cluster, server);
}

#[tokio::test]
async fn a_copy_that_has_missed_nothing_is_as_good_as_the_folder() {
    let (mut cluster, table, server) = begin(3).await;
    let folder = cluster.server_folder(server);
    let copied = cluster.folder().join("copy");
    cluster.stop(server).await.unwrap();
    copy(&folder, &copied);
    restore(&copied, &folder);
    cluster.restart(server).await.unwrap();
    is_whole(&mut cluster, &table, BEFORE).await;
    let log = cluster.coordinator(0).log_text();
    assert!(!log.contains("OLD FOLDER"), "{log}");
}

#[tokio::test]
async fn rows_without_another_copy_are_not_served_before_an_operator_accepts_the_loss() {
    let mut cluster = support::cluster(1).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let client = Client::connect(options).await.unwrap();
    let schema = support::people(0, Durability::Sync);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    rows::insert(&table, 0..BEFORE).await;
    let folder = cluster.server_folder(0);
    let copied = cluster.folder().join("copy");
    cluster.stop(0).await.unwrap();
    copy(&folder, &copied);
    cluster.restart(0).await.unwrap();
    rows::insert(&table, BEFORE..AFTER).await;
    cluster.stop(0).await.unwrap();
    let newest = cluster.folder().join("newest");
    copy(&folder, &newest);
    restore(&copied, &folder);
    let mut waiting = Waiting::start(&cluster, 0);
    waiting
        .wait_for_line("replex admin server accept-folder 1")
        .await;
    let configuration = cluster.configuration().await.unwrap();
    assert_eq!(
        configuration.server(ServerId(1)).unwrap().state,
        ServerState::Down
    );
    // Its newest folder is served without a word.
    drop(waiting);
    restore(&newest, &folder);
    cluster.restart(0).await.unwrap();
    rows::expect_all(&table, 0..AFTER).await;
    cluster.stop(0).await.unwrap();
    restore(&copied, &folder);
    let mut waiting = Waiting::start(&cluster, 0);
    waiting
        .wait_for_line("replex admin server accept-folder 1")
        .await;
    let address = cluster.coordinator_address().to_owned();
    support::run_well(&["admin", "server", "accept-folder", "1", "-C", &address]);
    waiting.wait_for_line("event=server_ready").await;
    rows::expect_all(&table, 0..BEFORE).await;
    let lost = table.get(&[Value::Int64(BEFORE)]).await.unwrap();
    assert!(lost.is_none(), "it was accepted that this row is lost");
    assert!(
        cluster
            .coordinator(0)
            .log_text()
            .contains("an operator accepts the loss")
    );
}

#[tokio::test]
async fn all_servers_with_older_copies_serve_nothing() {
    let (mut cluster, table, _) = begin(3).await;
    let copied = cluster.folder().join("copies");
    for server in 0..3 {
        cluster.stop(server).await.unwrap();
        copy(
            &cluster.server_folder(server),
            &copied.join(server.to_string()),
        );
        cluster.restart(server).await.unwrap();
    }
    cluster.wait_until("all is there", is_quiet).await.unwrap();
    rows::insert(&table, BEFORE..AFTER).await;
    for server in 0..3 {
        cluster.stop(server).await.unwrap();
        restore(
            &copied.join(server.to_string()),
            &cluster.server_folder(server),
        );
    }
    let mut waiting: Vec<Waiting> = (0..3).map(|it| Waiting::start(&cluster, it)).collect();
    for waiting in &mut waiting {
        waiting.wait_for_line("an older copy of its folder").await;
    }
    let mut options = ConnectOptions::new([cluster.coordinator_address()]);
    options.deadline = Duration::from_millis(500);
    let client = Client::connect(options).await.unwrap();
    let table = client.table("people").await.unwrap();
    let lost = table.get(&[Value::Int64(AFTER - 1)]).await;
    assert!(
        matches!(lost, Err(Error::Deadline { .. } | Error::Lost { .. })),
        "nothing is reported that is not known: {lost:?}"
    );
    let configuration = cluster.configuration().await.unwrap();
    let is_serving = |state| state == PartitionState::Serving;
    assert!(
        configuration
            .places()
            .all(|(_, place)| is_serving(place.state)),
        "nothing is void"
    );
}
