//! Fences a replica: ends the sessions and statements of proxies of earlier epochs there, and
//! rejects new ones.
//!
//! Invariant: once an epoch is raised at a replica, no session of an earlier epoch commits there. A
//! session that existed at that time was ended. A later session reads the epoch before it executes
//! anything.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_postgres::Client;

use super::ReplicationError;
use super::query::{number, one};
use proxy_core::planted::{self, ProxyBug};

/// The application name of connections that execute commits.
pub const EXTRACTOR: &str = "replex extractor";
/// The application name of connections that fill a database.
pub const SEED: &str = "replex seed";

/// The application name of connections from which a database is filled. They change nothing, so
/// they need not be ended.
pub const SOURCE: &str = "replex copy";

/// How long sessions of an earlier epoch may take to end.
const END_MAX: Duration = Duration::from_secs(10);
/// Time between two looks whether they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Raises the epoch at a replica, and ends all other sessions there that write, so that they commit
/// nothing more.
pub async fn raise(control: &Client, epoch: u64) -> Result<(), ReplicationError> {
    let raise = format!(
        "BEGIN;
         SET LOCAL synchronous_commit = on;
         CREATE SCHEMA IF NOT EXISTS hihooi;
         CREATE TABLE IF NOT EXISTS hihooi.epoch (one bool PRIMARY KEY DEFAULT true CHECK (one),
           epoch int8 NOT NULL);
         INSERT INTO hihooi.epoch AS e (epoch) VALUES ({epoch})
           ON CONFLICT (one) DO UPDATE SET epoch = greatest(e.epoch, excluded.epoch);
         COMMIT"
    );
    control.batch_execute(&raise).await?;
    pass(control, epoch).await?;
    let end = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND application_name IN ('{EXTRACTOR}', '{SEED}')"
    );
    let began = Instant::now();
    while !planted::is(ProxyBug::OldExtractorGoesOn) && one(control, &end).await? != "0" {
        if began.elapsed() > END_MAX {
            let text = "a transaction of an earlier proxy there does not end";
            return Err(ReplicationError::Connection(text.into()));
        }
        sleep(LOOK_INTERVAL).await;
    }
    Ok(())
}

/// Fails if a later epoch has been raised.
pub async fn pass(client: &Client, epoch: u64) -> Result<(), ReplicationError> {
    let raised = number(&one(client, "SELECT epoch FROM hihooi.epoch").await?)?;
    match raised > epoch {
        true => Err(ReplicationError::Setup(
            "another proxy has taken it up since, or it is a replica of another primary: only one \
             can execute there"
                .into(),
        )),
        false => Ok(()),
    }
}
