//! Replicas that are filled from another one, and checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pg_local::{Postgres, SUPERUSER};
use proxy::console::client::ask;
use proxy_core::freshness::{ReplicaId, ReplicaState, Tsid};

use crate::support::cluster::{self, Cluster, PATIENCE, pause, text};
use crate::support::{connect, is_there};

const FIRST: ReplicaId = ReplicaId(1);
const SECOND: ReplicaId = ReplicaId(2);
const ROWS: &str =
    "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t";

/// Returns the console's answer: columns are names, rows are texts; or its error.
async fn console(cluster: &Cluster, command: &str) -> Result<Vec<Vec<String>>, String> {
    let mut address = cluster.primary.address("postgres");
    address.host = cluster.front.address.ip().to_string();
    address.port = cluster.front.address.port();
    let output = ask(&address, command).await.map_err(|it| it.to_string())?;
    let rows = output.rows.into_iter();
    Ok(rows
        .map(|row| row.into_iter().map(Option::unwrap_or_default).collect())
        .collect())
}

fn add(postgres: &Postgres, behind: &str) -> String {
    let socket = postgres.socket();
    format!("ADD REPLICA 'postgresql://{SUPERUSER}@{socket}/postgres?sslmode=disable' {behind}")
}

fn state(cluster: &Cluster, id: ReplicaId) -> Option<ReplicaState> {
    let manager = cluster.manager.lock().unwrap();
    let mut all = manager.replicas();
    all.find(|(it, _)| *it == id).map(|(_, it)| it.state)
}

fn status_text(cluster: &Cluster, id: ReplicaId) -> String {
    let mut status = cluster.front.replicas().replication().status();
    status.remove(&id).map(|it| it.text).unwrap_or_default()
}

async fn wait(cluster: &Cluster, what: &str, is: impl Fn() -> bool) {
    let started = Instant::now();
    while !is() {
        let status = cluster.front.replicas().replication().status();
        assert!(started.elapsed() < PATIENCE, "{what}: {status:?}");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

/// A commit before, during or after the copy is there once, and the copied rows come from the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_replica_is_filled_from_another_under_load() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    let make = "CREATE TABLE t (id int PRIMARY KEY, n int, note text);
                CREATE INDEX ON t (n)";
    for sql in make.split(';') {
        client.batch_execute(sql).await.unwrap();
    }
    let fill = "INSERT INTO t SELECT n, 0, repeat('x', 100) FROM generate_series(1, 20000) n";
    client.batch_execute(fill).await.unwrap();
    cluster.settle().await;
    // A row that only the seed has shows where rows come from.
    let seed = connect(cluster.replicas[0].socket()).await;
    seed.batch_execute("CREATE TABLE of_seed (id int PRIMARY KEY)")
        .await
        .unwrap();
    let new = Postgres::start(&[]).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = {
        let (client, is_over) = (cluster.front.connect().await, Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut round = 0;
            while !is_over.load(Ordering::Relaxed) {
                round += 1;
                let id = round % 20_000 + 1;
                let write = format!(
                    "BEGIN; UPDATE t SET n = n + 1 WHERE id = {id}; INSERT INTO t VALUES ({}, {round}, ''); COMMIT",
                    100_000 + round
                );
                client.batch_execute(&write).await.unwrap();
            }
            round
        })
    };
    let added = console(&cluster, &add(&new, "FROM 1")).await.unwrap();
    assert_eq!(added, [["2"]]);
    wait(&cluster, "it serves", || {
        state(&cluster, SECOND) == Some(ReplicaState::Serving)
    })
    .await;
    is_over.store(true, Ordering::Relaxed);
    assert!(writer.await.unwrap() > 0);
    let there = connect(new.socket()).await;
    assert_eq!(text(&there, "SELECT count(*) FROM of_seed").await, "0");
    cluster.replicas.push(new);
    cluster.wait_until_equal(ROWS).await;
    assert_eq!(state(&cluster, SECOND), Some(ReplicaState::Serving));
}

/// Waits until a server that was filled from a killed one has the row of `t`. The killed one has
/// lost it if it had not written it yet, and both get it from the primary again.
async fn until_it_has_the_row(server: &Postgres) {
    let there = connect(server.socket()).await;
    let look = || async { (text(&there, "SELECT id FROM t").await == "1").then_some(()) };
    cluster::wait("row of t", look).await;
}

/// An invalid seed is refused in words. A seed that is offline is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_must_be_a_replica_that_is_as_the_primary() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1)",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    cluster.settle().await;
    let new = Postgres::start(&[]).unwrap();
    let refused = console(&cluster, &add(&new, "FROM 7")).await.unwrap_err();
    assert!(refused.contains("there is no replica 7"), "{refused}");
    // Nothing was added.
    assert_eq!(console(&cluster, "SHOW REPLICAS").await.unwrap().len(), 1);

    cluster.replicas[0].kill();
    let added = console(&cluster, &add(&new, "FROM 1")).await.unwrap();
    assert_eq!(added, [["2"]]);
    wait(&cluster, "the status that names what it waits for", || {
        status_text(&cluster, SECOND).contains("from which it is filled")
    })
    .await;
    cluster.replicas[0].start_again().unwrap();
    wait(&cluster, "it is filled", || {
        state(&cluster, SECOND) == Some(ReplicaState::Serving)
    })
    .await;
    until_it_has_the_row(&new).await;
    console(&cluster, "REMOVE REPLICA 2").await.unwrap();
    let there = connect(new.socket()).await;
    assert_eq!(text(&there, "SELECT id FROM t").await, "1");

    let seed = connect(cluster.replicas[0].socket()).await;
    seed.batch_execute(
        "CREATE TABLE hihooi.difference (why text NOT NULL);
         INSERT INTO hihooi.difference VALUES ('a row is missing')",
    )
    .await
    .unwrap();
    let again = console(&cluster, &add(&new, "EMPTY FROM 1")).await.unwrap();
    assert_eq!(again, [["3"]]);
    wait(&cluster, "it is refused", || {
        state(&cluster, ReplicaId(3)) == Some(ReplicaState::Quarantined)
    })
    .await;
    let why = status_text(&cluster, ReplicaId(3));
    assert!(why.contains("a row is missing"), "{why}");
    console(&cluster, "REMOVE REPLICA 3").await.unwrap();

    let standby = Postgres::standby_of(&cluster.primary, &[]).unwrap();
    let added = console(&cluster, &add(&standby, "")).await.unwrap();
    assert_eq!(added, [["4"]]);
    wait(&cluster, "the standby serves", || {
        state(&cluster, ReplicaId(4)) == Some(ReplicaState::Serving)
    })
    .await;
    let from_standby = add(&new, "EMPTY FROM 4");
    assert_eq!(console(&cluster, &from_standby).await.unwrap(), [["5"]]);
    wait(&cluster, "it is refused", || {
        state(&cluster, ReplicaId(5)) == Some(ReplicaState::Quarantined)
    })
    .await;
    let why = status_text(&cluster, ReplicaId(5));
    assert!(why.contains("streaming standby"), "{why}");
}

/// A seed that dies while it is copied is no reason to give up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seed_dies_while_it_is_copied() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY, note text)",
        "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 1000) n",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    cluster.settle().await;
    // The session that copies it waits for this.
    let seed = connect(cluster.replicas[0].socket()).await;
    seed.batch_execute("BEGIN; LOCK TABLE t").await.unwrap();
    let new = Postgres::start(&[]).unwrap();
    console(&cluster, &add(&new, "FROM 1")).await.unwrap();
    let waits = "SELECT count(*) FROM pg_stat_activity
                  WHERE application_name = 'replex copy' AND wait_event_type = 'Lock'";
    // The transaction itself goes on seeing its first snapshot.
    let other = connect(cluster.replicas[0].socket()).await;
    let begun = Instant::now();
    while text(&other, waits).await == "0" {
        let status = cluster.front.replicas().replication().status();
        assert!(begun.elapsed() < PATIENCE, "{status:?}");
        pause().await;
    }
    cluster.replicas[0].kill();
    cluster.replicas[0].start_again().unwrap();
    wait(&cluster, "it is filled", || {
        state(&cluster, SECOND) == Some(ReplicaState::Serving)
    })
    .await;
    cluster.replicas.push(new);
    cluster.wait_until_equal(ROWS).await;
}

/// All that was committed before is on disk after it; an offline replica is reported, and not
/// waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checkpoint_has_all_on_disk() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(2).await;
    let client = cluster.front.connect().await;
    client
        .batch_execute("CREATE TABLE t (id int PRIMARY KEY)")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    let primary = connect(cluster.primary.socket()).await;
    let position = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn";
    let before: u64 = text(&primary, position).await.parse().unwrap();
    let rows = console(&cluster, "CHECKPOINT").await.unwrap();
    assert_eq!(rows.len(), 2);
    let durable = cluster.front.replicas().replication().durable();
    for id in [FIRST, SECOND] {
        assert!(durable[&id] >= Tsid(before), "{durable:?}");
    }
    // The disk has it: rows that a killed server had not flushed are lost.
    cluster.replicas[0].kill();
    wait(&cluster, "it is unavailable", || {
        state(&cluster, FIRST) == Some(ReplicaState::Unavailable)
    })
    .await;
    let made = cluster.front.replicas().replication().checkpoint().await;
    assert_eq!(made.unwrap().without, ["replica 1"]);
    cluster.replicas[0].start_again().unwrap();
    let there = connect(cluster.replicas[0].socket()).await;
    assert_eq!(text(&there, ROWS).await, text(&primary, ROWS).await);
}
