//! The coordinator's folder is restored from an older copy, or lost: the servers have its state.

use std::collections::BTreeSet;
use std::fs;

use client::{Client, ConnectOptions, IfExists, Table};
use placement::Durability;
use protocol::configuration::Configuration;
use protocol::message::{CoordinatorReply, CoordinatorRequest};
use replex::cluster::Cluster;
use replex::wire::FrameConnection;

use crate::support;
use crate::support::folders::{Waiting, copy, restore};
use crate::support::rows;

const ROWS: i64 = 30;

/// A cluster with a table, a copy of its coordinator's folder, and another table made after that.
async fn begin() -> (Cluster, Table, Client) {
    let cluster = support::cluster(3).await;
    let table = rows::create(&cluster).await;
    rows::insert(&table, 0..ROWS).await;
    copy(
        &cluster.folder().join("coordinator"),
        &cluster.folder().join("copy"),
    );
    let client = connect(&cluster).await;
    let mut later = support::people(1, Durability::Sync);
    later.name = "later".to_owned();
    let later = client.create_table(later, IfExists::Fail).await.unwrap();
    rows::insert(&later, 0..ROWS).await;
    (cluster, table, client)
}

async fn connect(cluster: &Cluster) -> Client {
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    Client::connect(options).await.unwrap()
}

/// Both tables can be read and written by new clients.
async fn goes_on(cluster: &mut Cluster, first: i64) {
    // Clients are refused, and ask again, until the state is recovered.
    let client = connect(cluster).await;
    // On a busy machine the older state may answer for a while before a server speaks up.
    let has_both = |it: &Configuration| it.table_named("later").is_some();
    cluster
        .wait_until("it is recovered", has_both)
        .await
        .unwrap();
    cluster.wait_until_serving().await.unwrap();
    for name in ["people", "later"] {
        let table = client.table(name).await.unwrap();
        rows::expect_all(&table, 0..first).await;
        rows::insert(&table, first..first + 10).await;
    }
    cluster.check_processes().unwrap();
}

async fn sessions(cluster: &Cluster) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    let (mut wire, _) = FrameConnection::greet(cluster.coordinator_address())
        .await
        .unwrap();
    for _ in 0..10 {
        match wire.ask(CoordinatorRequest::OpenSession).await.unwrap() {
            CoordinatorReply::Session { session, .. } => numbers.insert(session.0),
            other => panic!("{other:?}"),
        };
    }
    numbers
}

#[tokio::test]
async fn an_older_copy_is_found_out_and_the_servers_state_taken() {
    let (mut cluster, table, client) = begin().await;
    let before = sessions(&cluster).await;
    let epoch = cluster.configuration().await.unwrap().epoch;
    cluster.kill_coordinator(0).await.unwrap();
    restore(
        &cluster.folder().join("copy"),
        &cluster.folder().join("coordinator"),
    );
    cluster.start_coordinator(0).await.unwrap();
    goes_on(&mut cluster, ROWS).await;
    assert!(
        cluster.configuration().await.unwrap().epoch > epoch,
        "no epoch comes again"
    );
    let again = sessions(&cluster).await;
    assert!(again.is_disjoint(&before), "{again:?} {before:?}");
    let log = cluster.coordinator(0).log_text();
    assert!(
        log.contains("the coordinator's state is an older copy: it is of epoch"),
        "{log}"
    );
    // Clients that were there before go on, too.
    rows::expect_all(&table, 0..ROWS + 10).await;
    assert!(client.table("later").await.is_ok());
    // Tables made after that stay.
    let mut more = support::people(1, Durability::Sync);
    more.name = "more".to_owned();
    client.create_table(more, IfExists::Fail).await.unwrap();
    for server in 0..3 {
        cluster.stop(server).await.unwrap();
        cluster.restart(server).await.unwrap();
    }
    cluster.kill_coordinator(0).await.unwrap();
    cluster.start_coordinator(0).await.unwrap();
    goes_on(&mut cluster, ROWS + 10).await;
    assert!(!cluster.coordinator(0).log_text().contains("OLD FOLDER"));
}

#[tokio::test]
async fn a_lost_state_is_rebuilt_when_an_operator_asks_for_it() {
    let (mut cluster, _table, _) = begin().await;
    let cluster_number = cluster.configuration().await.unwrap().cluster;
    cluster.kill_coordinator(0).await.unwrap();
    let folder = cluster.folder().join("coordinator");
    fs::remove_dir_all(&folder).unwrap();
    // An empty folder is another cluster: its servers stay where they belong.
    cluster.start_coordinator(0).await.unwrap();
    let begin = std::time::Instant::now();
    while !cluster
        .coordinator(0)
        .log_text()
        .contains("event=another_cluster_asks")
    {
        assert!(begin.elapsed().as_secs() < 60, "no server came");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(cluster.configuration().await.unwrap().servers.is_empty());
    cluster.kill_coordinator(0).await.unwrap();
    fs::remove_dir_all(&folder).unwrap();
    cluster.set_coordinator_arguments(vec!["--recover".to_owned()]);
    cluster.start_coordinator(0).await.unwrap();
    goes_on(&mut cluster, ROWS).await;
    assert_eq!(
        cluster.configuration().await.unwrap().cluster,
        cluster_number
    );
}

#[tokio::test]
async fn stopped_servers_know_the_cluster_by_their_folders() {
    let (mut cluster, _table, _) = begin().await;
    for server in 0..3 {
        cluster.stop(server).await.unwrap();
    }
    cluster.kill_coordinator(0).await.unwrap();
    fs::remove_dir_all(cluster.folder().join("coordinator")).unwrap();
    cluster.set_coordinator_arguments(vec!["--recover".to_owned()]);
    cluster.start_coordinator(0).await.unwrap();
    let stopped = cluster.coordinator_address().to_owned();
    let stderr = support::run_badly(
        &[
            "sql",
            "-C",
            &stopped,
            "--deadline",
            "1",
            "-c",
            "SHOW TABLES",
        ],
        3,
    );
    assert!(stderr.contains("started to recover it"), "{stderr}");
    let mut servers: Vec<Waiting> = (0..3).map(|it| Waiting::start(&cluster, it)).collect();
    for server in &mut servers {
        server.wait_for_line("event=server_ready").await;
    }
    let client = connect(&cluster).await;
    for name in ["people", "later"] {
        let table = client.table(name).await.unwrap();
        rows::expect_all(&table, 0..ROWS).await;
        rows::insert(&table, ROWS..ROWS + 10).await;
    }
    assert!(!cluster.coordinator(0).log_text().contains("OLD FOLDER"));
}
