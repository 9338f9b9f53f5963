//! Tests that measure the process in which they run, apart from all others: what a stalled client
//! costs in memory, and which files are open.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "its two tests use a part")]
#[path = "all/support/mod.rs"]
mod support;

use std::time::Instant;

use pg_local::Postgres;

use support::cluster::{Cluster, PATIENCE};
use support::raw::Raw;
use support::{Front, connect, is_there, options};

/// The rows would need 2 GB. The server waits for the client, and the proxy keeps only as much as
/// its buffers hold.
#[tokio::test]
async fn client_that_stops_reading_holds_up_its_server() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 2)).await;
    let mut raw = Raw::log_in(front.address).await;
    let memory_before = memory_bytes();
    raw.query("SELECT repeat('x', 1000000) FROM generate_series(1, 2000)");
    raw.flush().await;
    let watcher = connect(front.address).await;
    loop {
        let text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'";
        let row = watcher.query_one(text, &[]).await.unwrap();
        if row.get::<_, i64>(0) == 1 {
            break;
        }
    }
    let grown = memory_bytes().saturating_sub(memory_before);
    assert!(grown < 100_000_000, "{grown} bytes");
    drop(raw);
    let mut next = Raw::log_in(front.address).await;
    next.query("SELECT 1");
    assert_eq!(next.reply().await, "T'1'CZI");
}

/// Returns the memory that this process uses.
fn memory_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

/// Files of long transactions that this process has open.
fn long_transactions() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let names = files.filter_map(|file| std::fs::read_link(file.path()).ok());
    let names = names.filter(|name| name.starts_with(std::env::temp_dir()));
    names
        .filter(|name| name.to_string_lossy().ends_with("(deleted)"))
        .count()
}

/// The changes of a transaction beyond the limit of memory wait in a file, and reach the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_transactions_are_followed() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    let table = "CREATE TABLE long (id int PRIMARY KEY, text text)";
    client.batch_execute(table).await.unwrap();
    let text =
        "BEGIN; INSERT INTO long SELECT id, repeat('x', 100) FROM generate_series(1, 20000) id;
        UPDATE long SET text = id WHERE id % 3 = 0; DELETE FROM long WHERE id % 5 = 0;
        INSERT INTO long VALUES (0, repeat('y', 3000000)); COMMIT";
    client.batch_execute(text).await.unwrap();
    let started = Instant::now();
    while long_transactions() == 0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    let sum = "SELECT count(*) || ' ' || sum(hashtext(id || text)) FROM long";
    cluster.wait_until_equal(sum).await;
    while long_transactions() > 0 {
        assert!(started.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
}
