//! New replicas are filled while the primary goes on, and nothing is missing there.

use std::time::{Duration, Instant};

use pg_local::Postgres;
use proxy_core::freshness::{ReplicaId, ReplicaState, Tsid};
use replication::{ExistingData, Replication, ReplicationSettings, StartedReplication};
use tokio_postgres::Client;

use crate::support::cluster::{PATIENCE, text};
use crate::support::held::{hold_commits, let_commits_go, wait_until_held};
use crate::support::{connect, is_there};

const ID: ReplicaId = ReplicaId(1);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

/// A commit that is in the log and not shown yet, as while it waits for a standby, is not left out
/// when a replica is filled just then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_is_not_shown_yet_is_not_lost() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    // Before: any commit after the waiting one would reveal that there is one.
    let replica = Postgres::start(&[]).unwrap();
    let client = connect(primary.socket()).await;
    // By default a session waits for no standby.
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY)",
        "ALTER DATABASE postgres SET synchronous_commit = local",
    ] {
        client.batch_execute(sql).await.unwrap();
    }
    hold_commits(&primary, &client).await;
    let started = Replication::start(
        &primary.address("postgres"),
        &ReplicationSettings::default(),
    )
    .await;
    let StartedReplication {
        replication,
        manager,
        ..
    } = started.unwrap();
    let waiting = connect(primary.socket()).await;
    let insert = "SET synchronous_commit = on; INSERT INTO t VALUES (1)";
    let waiting = tokio::spawn(async move { waiting.batch_execute(insert).await });
    wait_until_held(&client).await;
    let started = Instant::now();
    replication.add_replica(ID, &replica.address("postgres"), ExistingData::Kept);
    let status_text = || {
        let status = replication.status().remove(&ID);
        status.map(|status| status.text).unwrap_or_default()
    };
    let serves = || {
        let manager = manager.lock().unwrap();
        let mut replicas = manager.replicas();
        replicas.any(|(_, replica)| replica.state == ReplicaState::Serving)
    };
    while !serves() && !status_text().starts_with("waiting for transactions") {
        assert!(started.elapsed() < PATIENCE, "{}", status_text());
        tokio::time::sleep(PAUSE).await;
    }
    let_commits_go(&client).await;
    waiting.await.unwrap().unwrap();
    let there = connect(replica.socket()).await;
    let all = end(&client).await;
    while manager.lock().unwrap().applied_everywhere() < Some(all) {
        assert!(started.elapsed() < PATIENCE, "{}", status_text());
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(text(&there, "SELECT id FROM t").await, "1");
}

/// The end of the primary's log, after which there is more soon.
async fn end(primary: &Client) -> Tsid {
    let end = text(primary, "SELECT pg_current_wal_insert_lsn() - '0/0'").await;
    let nudge = "SELECT pg_logical_emit_message(true, 'test', '')";
    primary.batch_execute(nudge).await.unwrap();
    Tsid(end.parse().unwrap())
}
