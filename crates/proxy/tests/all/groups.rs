//! Waiting commits are executed in groups at a replica. Each group is there as a whole and in its
//! turn, or not at all, under any failure of statements and servers.

use std::time::{Duration, Instant};

use proxy_core::freshness::ReplicaState;
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::{connect, is_there};

const TABLE: &str = "
CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v int NOT NULL DEFAULT 0);
INSERT INTO t SELECT n, n FROM generate_series(1, 60) n";

/// All rows of `t`, as one number.
const ALL: &str =
    "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t";

/// Refuses statements on `t` that change more than one row.
const REFUSE: &str = "
CREATE FUNCTION hihooi.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN IF (SELECT count(*) FROM rows) > 1 THEN RAISE 'together'; END IF; RETURN NULL; END$$;
CREATE TRIGGER refuse AFTER UPDATE ON t REFERENCING NEW TABLE AS rows EXECUTE FUNCTION hihooi.refuse();
ALTER TABLE t ENABLE ALWAYS TRIGGER refuse";

/// Nothing of `t` is changed at the replica until this session commits.
async fn hold(cluster: &Cluster) -> Client {
    let session = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE";
    session.batch_execute(lock).await.unwrap();
    session
}

async fn number(client: &Client, query: &str) -> u64 {
    text(client, query).await.parse().unwrap()
}

/// The end of the primary's log.
async fn position(primary: &Client) -> u64 {
    let position = "SELECT pg_current_wal_insert_lsn() - '0/0'";
    number(primary, position).await
}

/// Waits until all that was committed waits at the replica.
async fn wait_until_given(cluster: &Cluster, primary: &Client) {
    let end = position(primary).await;
    // Something after it, so that the stream goes past it.
    let nudge = "SELECT pg_logical_emit_message(true, 'test', '')";
    primary.batch_execute(nudge).await.unwrap();
    let begun = Instant::now();
    while cluster.manager.lock().unwrap().latest().0 < end {
        assert!(begun.elapsed() < PATIENCE, "the slot is not read");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
}

/// A row that is missing at the replica makes one commit fail there: the replica is out, the error
/// names that commit, all before it is there, and nothing of it or behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_of_a_group_that_cannot_be_done_is_named() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLE).await;
    let primary = connect(cluster.primary.socket()).await;
    let holder = hold(&cluster).await;
    let gone = "DELETE FROM t WHERE id = 25";
    holder.batch_execute(gone).await.unwrap();
    let mut place = (0, 0);
    for id in 1..=60 {
        let before = position(&primary).await;
        let update = format!("UPDATE t SET v = 1 WHERE id = {id}");
        primary.batch_execute(&update).await.unwrap();
        if id == 25 {
            place = (before, position(&primary).await);
        }
    }
    wait_until_given(&cluster, &primary).await;
    holder.batch_execute("COMMIT").await.unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Quarantined])
        .await;

    let status = cluster.front.replicas().replication().status();
    let message = status.into_values().next().unwrap().text;
    let (_, named) = message.split_once("the commit at ").expect(&message);
    let (named, why) = named.split_once(" cannot be done").expect(&message);
    let named = number(&primary, &format!("SELECT '{named}'::pg_lsn - '0/0'")).await;
    assert!(place.0 < named && named <= place.1, "{message} {place:?}");
    assert!(why.contains("found 0 rows instead of 1"), "{message}");
    let replica = connect(cluster.replicas[0].socket()).await;
    let shown = "SELECT count(*) || ' ' || max(id) FROM t WHERE v = 1";
    assert_eq!(text(&replica, shown).await, "24 24");
    let applied = "SELECT max(tsid) FROM hihooi.applied";
    assert!(number(&replica, applied).await < named);
    // There were groups.
    let transactions = "SELECT count(DISTINCT xmin::text) FROM t WHERE v = 1";
    assert!(number(&replica, transactions).await < 24);
}

/// A commit that fails in a group is executed alone, and succeeds. So do commits that depend on
/// each other in a way that rows do not show: a unique value goes from row to row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn groups_that_fail_are_done_one_by_one() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLE).await;
    let primary = connect(cluster.primary.socket()).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    replica.batch_execute(REFUSE).await.unwrap();
    let holder = hold(&cluster).await;
    for round in 1..=40 {
        let sql = match round % 8 {
            // Rows that are changed together.
            3 => "UPDATE t SET v = v + 1 WHERE id <= 10".to_owned(),
            _ => format!(
                "BEGIN; UPDATE t SET u = NULL WHERE u = 60; COMMIT;
                 BEGIN; UPDATE t SET u = 60, v = v + 1 WHERE id = {round}; COMMIT"
            ),
        };
        primary.batch_execute(&sql).await.unwrap();
    }
    wait_until_given(&cluster, &primary).await;
    holder.batch_execute("COMMIT").await.unwrap();
    cluster.wait_until_equal(ALL).await;
    cluster.settle().await;
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
}

/// A replica that dies again and again while it catches up loses its unflushed commits, and has
/// everything once in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_dies_in_a_backlog_has_everything_once() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start_after(TABLE).await;
    let primary = connect(cluster.primary.socket()).await;
    cluster.replicas[0].crash().unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Unavailable])
        .await;
    for round in 0..2000 {
        // Every second commit depends on a recent one.
        let sql = match round % 2 {
            0 => format!("INSERT INTO t VALUES ({}, NULL, 1)", 1000 + round),
            _ => format!("UPDATE t SET v = v + 1 WHERE id = {}", 1 + round * 7 % 60),
        };
        primary.batch_execute(&sql).await.unwrap();
    }
    let count = "SELECT count(*) FROM t";
    for _ in 0..4 {
        cluster.replicas[0].start_again().unwrap();
        let replica = connect(cluster.replicas[0].socket()).await;
        let until = 1060.min(100 + number(&replica, count).await);
        let begun = Instant::now();
        while number(&replica, count).await < until {
            assert!(begun.elapsed() < PATIENCE, "it does not go on");
            pause().await;
        }
        cluster.replicas[0].crash().unwrap();
    }
    cluster.replicas[0].start_again().unwrap();
    cluster.wait_until_equal(ALL).await;
    cluster.settle().await;
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
}
