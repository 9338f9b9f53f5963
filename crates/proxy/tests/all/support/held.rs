//! Commits at a primary that wait for a standby, which there is not, until they are released.

use std::time::{Duration, Instant};

use pg_local::{Postgres, SUPERUSER};
use tokio_postgres::Client;

use super::cluster::{PATIENCE, text};
use super::connect_by;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);

async fn set_standby(primary: &Client, set: &str) {
    let set = format!("ALTER SYSTEM {set}");
    primary.batch_execute(&set).await.unwrap();
    let reload = "SELECT pg_reload_conf()";
    primary.batch_execute(reload).await.unwrap();
}

/// From now on commits with `synchronous_commit = on` wait. Sessions show the setting before that
/// is so: the checkpointer puts it into force, when it next looks, which is found out by commits.
/// `admin` is a session at `primary`, where no other commit may wait meanwhile.
pub async fn hold_commits(primary: &Postgres, admin: &Client) {
    set_standby(admin, "SET synchronous_standby_names = 'no_standby'").await;
    let address = primary.socket();
    let (host, port) = (address.ip(), address.port());
    let line = format!("host={host} port={port} user={SUPERUSER} dbname=postgres");
    let started = Instant::now();
    let mut is_held = false;
    while !is_held {
        assert!(started.elapsed() < PATIENCE, "no commit waits");
        tokio::time::sleep(PAUSE).await;
        let probe = connect_by(&line).await;
        let on = "SET synchronous_commit = on";
        probe.batch_execute(on).await.unwrap();
        let writing = tokio::spawn(async move {
            let write = "SELECT pg_logical_emit_message(true, 'a write of no table', '')";
            probe.batch_execute(write).await
        });
        // Waiting sessions are asked to stop that: they have committed.
        let stop =
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        while !is_held && !writing.is_finished() {
            is_held = text(admin, stop).await == "t";
        }
        writing.await.unwrap().unwrap();
    }
}

/// Releases waiting sessions, and all that come after.
pub async fn let_commits_go(admin: &Client) {
    set_standby(admin, "RESET synchronous_standby_names").await;
}

/// Until a commit waits.
pub async fn wait_until_held(admin: &Client) {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let started = Instant::now();
    while text(admin, waits).await == "0" {
        assert!(started.elapsed() < PATIENCE, "no commit waits");
        tokio::time::sleep(PAUSE).await;
    }
}
