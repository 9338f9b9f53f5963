//! Looks for differences between an Extension and the Primary, all the time (HIHOOI c7).
//!
//! Both are compared at the same place in the order, without stopping writers: the Extractor is held,
//! a snapshot of the Primary is taken, the Extractor goes on until it has exactly what that snapshot
//! shows and is held again, a snapshot of the Extension is taken, and it goes on. Then tables are
//! compared by count and checksum, in the two snapshots.
//!
//! A snapshot that lacks a commit whose record is in the log already is no prefix: it is given up, and
//! another is taken.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::catalogue::{rows, value};
use super::seed::TABLES;
use super::snapshot::Snapshot;
use super::{Error, Shared, connect, reader, setup};
use crate::address::Address;
use crate::manager::{ExtensionId, Tsid};
use crate::sql::quoted;

/// Time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(30);
/// The Extractor is held no longer than this.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// Snapshots that are given up before this comparison is, too.
const TRIES_MAX: usize = 20;
/// Texts of rows are the same at both.
const SETTINGS: &str = "
SET datestyle = 'ISO, YMD'; SET intervalstyle = postgres; SET timezone = 'UTC';
SET extra_float_digits = 3; SET bytea_output = hex; SET client_encoding = 'UTF8';
SET search_path = ''; SET row_security = off; SET statement_timeout = 0";

/// What the Extractor is asked.
pub enum Request {
    /// Take nothing more, and answer when all that was taken is applied.
    Pause(oneshot::Sender<()>),
    /// Apply what is up to `until`. Then answer whether that is just what `snapshot` shows, and do
    /// nothing until `resume` is dropped or sent.
    Until {
        snapshot: Snapshot,
        until: Tsid,
        ready: oneshot::Sender<bool>,
        resume: oneshot::Receiver<()>,
    },
}

/// Compares for ever. Returns when there is a difference.
pub async fn watch(
    shared: &Shared,
    id: ExtensionId,
    extension: &Address,
    requests: mpsc::Sender<Request>,
) -> Error {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shared.compare_now.notified() => {}
        }
        match compare(shared, extension, &requests).await {
            Ok(true) => *shared.compared().entry(id).or_default() += 1,
            Err(problem @ Error::Differs(_)) => return problem,
            // It did not come to a comparison; the next one may.
            Ok(false) | Err(_) => {}
        }
    }
}

/// Compares once. Returns false if the two were never held at one place.
async fn compare(
    shared: &Shared,
    extension: &Address,
    requests: &mpsc::Sender<Request>,
) -> Result<bool, Error> {
    let primary = connect(&shared.primary, "replex compare").await?;
    let nudger = connect(&shared.primary, "replex compare").await?;
    let there = connect(extension, "replex compare").await?;
    for client in [&primary, &there] {
        client.batch_execute(SETTINGS).await?;
    }
    for _ in 0..TRIES_MAX {
        let held = hold(&primary, &nudger, &there, requests);
        let is_held = timeout(HOLD_MAX, held).await;
        if is_held.unwrap_or(Ok(false))? {
            compare_tables(&primary, &there).await?;
            return Ok(true);
        }
        for client in [&primary, &there] {
            client.batch_execute("ROLLBACK").await?;
        }
    }
    Ok(false)
}

/// Opens snapshots of both at one place; false if the Primary's is no prefix.
async fn hold(
    primary: &Client,
    nudger: &Client,
    there: &Client,
    requests: &mpsc::Sender<Request>,
) -> Result<bool, Error> {
    const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let ended = |_| Error::Connection("the Extractor has ended".into());
    let (paused, pause) = oneshot::channel();
    let request = Request::Pause(paused);
    requests
        .send(request)
        .await
        .map_err(|_| Error::Connection("the Extractor has ended".into()))?;
    pause.await.map_err(ended)?;
    primary.batch_execute(BEGIN).await?;
    let taken = rows(
        primary,
        "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
    )
    .await?;
    let taken = taken
        .first()
        .ok_or_else(|| Error::Stream("no snapshot was given".into()))?;
    let snapshot = value(taken, 0)?.parse()?;
    let until = Tsid(setup::number(&value(taken, 1)?)?);
    // The Extractor knows that it has all up to there when something comes from behind it.
    reader::nudge(nudger).await?;
    let (ready, is_ready) = oneshot::channel();
    let (resume, resumed) = oneshot::channel();
    let request = Request::Until {
        snapshot,
        until,
        ready,
        resume: resumed,
    };
    requests
        .send(request)
        .await
        .map_err(|_| Error::Connection("the Extractor has ended".into()))?;
    let is_prefix = is_ready.await.map_err(ended)?;
    if is_prefix {
        there.batch_execute(BEGIN).await?;
        // A snapshot is taken by the first query.
        setup::one(there, "SELECT 1").await?;
    }
    drop(resume);
    Ok(is_prefix)
}

async fn compare_tables(primary: &Client, there: &Client) -> Result<(), Error> {
    for table in rows(primary, TABLES).await? {
        let name = format!(
            "{}.{}",
            quoted(&value(&table, 0)?),
            quoted(&value(&table, 1)?)
        );
        let sum = format!(
            "SELECT count(*) || ' rows with checksum '
                    || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)
               FROM {name} t"
        );
        let expected = setup::one(primary, &sum).await?;
        let missing = |error: tokio_postgres::Error| match error.as_db_error() {
            Some(said) => Error::Differs(format!("{name}: {}", said.message())),
            None => error.into(),
        };
        let found = there.simple_query(&sum).await.map_err(missing)?;
        let found = setup::first(&found)?;
        if found != expected {
            return Err(Error::Differs(format!(
                "{name} has {found}, and {expected} on the Primary. Remove this Extension and add \
                 it again with EMPTY"
            )));
        }
    }
    Ok(())
}
