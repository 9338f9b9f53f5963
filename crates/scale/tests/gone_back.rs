//! An Extension that has crashed has lost what was not on its disk. Until replication has noticed, only
//! whoever opens a connection there can know.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Instant;

use support::cluster::{Cluster, PATIENCE, text};
use support::{connect, connect_by, is_there};
use tokio_postgres::Client;

/// A session that shares its connections only with those of the same number.
async fn session(cluster: &Cluster, number: u32) -> Client {
    let (host, port) = (cluster.front.address.ip(), cluster.front.address.port());
    let line = format!("host={host} port={port} user=postgres dbname=postgres");
    connect_by(&format!("{line} options='-c geqo_seed=0.{number}'")).await
}

async fn read(client: &Client) -> String {
    text(client, "SELECT n FROM t WHERE id = 1").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extension_that_has_gone_back_is_found_out_by_new_connections() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let writer = cluster.front.connect().await;
    for text in [
        "CREATE TABLE t (id int PRIMARY KEY, n int)",
        "INSERT INTO t VALUES (1, 10)",
    ] {
        writer.batch_execute(text).await.unwrap();
    }
    cluster.wait_until_equal("SELECT n FROM t").await;
    let before = session(&cluster, 1).await;
    let started = Instant::now();
    while cluster.served() == 0 {
        assert_eq!(read(&before).await, "10");
        assert!(started.elapsed() < PATIENCE);
    }
    // Nothing is to be written down any more.
    let replication = cluster.front.extensions().replication();
    let all = cluster.manager.lock().unwrap().latest();
    while replication.durable().values().any(|durable| *durable < all) {
        assert!(started.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    // What its database says is as if its last commits had been lost.
    let extension = connect(cluster.extensions[0].socket()).await;
    let go_back = "UPDATE hihooi.applied SET tsid = 1";
    extension.batch_execute(go_back).await.unwrap();
    let served = cluster.served();
    assert_eq!(read(&session(&cluster, 2).await).await, "10");
    assert_eq!(cluster.served(), served, "it went to the Primary");
    // A connection that outlived that shows that nothing was lost.
    assert_eq!(read(&before).await, "10");
    assert_eq!(cluster.served(), served + 1);
}
