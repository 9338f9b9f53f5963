//! Compares each replica with the primary continuously, to detect differences (P4).
//!
//! The two are compared at the same WAL position, without stopping writers. The Extractor pauses,
//! and the proxy takes a snapshot of the primary. The Extractor continues until it has exactly the
//! commits of that snapshot, and pauses again. The proxy takes a snapshot of the replica, and the
//! Extractor continues. Then the proxy compares the tables by count and checksum, in the two
//! snapshots.
//!
//! A snapshot that lacks a commit whose record is already in the WAL is no prefix. It is given up,
//! and another one is taken.
//!
//! Snapshots cover rows, but not the catalogue: during a comparison, an ALTER TABLE or TRUNCATE
//! makes a table look different at one of the two. So a table that seems to differ is compared
//! again at a later position, row by row. This time it is locked on both sides from before the
//! snapshots. Only rows that differ in this comparison are real differences.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::query::{self, rows, value};
use super::seed::TABLES;
use super::snapshot::PgSnapshot;
use super::{ReplicationError, Shared, connect, reader};
use pg_connect::address::Address;
use pg_wire::quoting::quoted;
use proxy_core::freshness::{ReplicaId, Tsid};

/// Time between two comparisons.
const INTERVAL: Duration = Duration::from_secs(30);
/// The longest time for which the Extractor is held.
const HOLD_MAX: Duration = Duration::from_secs(5);
/// The number of attempts to take both snapshots, after which a comparison is given up.
const TRIES_MAX: usize = 20;
/// The number of parts in which the rows of a table that seems to differ are compared by hash.
const PARTS: i64 = 1024;
/// The settings with which equal rows have the same text at the primary and at a replica.
const SETTINGS: &str = "
SET datestyle = 'ISO, YMD'; SET intervalstyle = postgres; SET timezone = 'UTC';
SET extra_float_digits = 3; SET bytea_output = hex; SET lc_monetary = 'C'; SET client_encoding = 'UTF8';
SET search_path = ''; SET row_security = off; SET statement_timeout = 0";

/// A request to the Extractor.
pub enum ExtractorRequest {
    /// Process no more commits, and answer when all earlier ones are applied.
    Pause(oneshot::Sender<()>),
    /// Apply the commits up to `until`. Then answer whether they are exactly those in `snapshot`,
    /// and do nothing until `resume` is dropped or sent.
    Until {
        snapshot: PgSnapshot,
        until: Tsid,
        ready: oneshot::Sender<bool>,
        resume: oneshot::Receiver<()>,
    },
}

/// Compares a replica with the primary repeatedly. Returns when there is a difference.
pub async fn watch(
    shared: &Shared,
    id: ReplicaId,
    replica: &Address,
    requests: mpsc::Sender<ExtractorRequest>,
) -> ReplicationError {
    loop {
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = shared.compare_now.notified() => {}
        }
        match compare(shared, replica, &requests).await {
            Ok(true) => *shared.compared().entry(id).or_default() += 1,
            Err(problem @ ReplicationError::Differs(_)) => return problem,
            // It did not come to a comparison; the next one may.
            Ok(false) | Err(_) => {}
        }
    }
}

/// Compares a replica with the primary once. Returns false if their snapshots could not be taken at
/// one position.
async fn compare(
    shared: &Shared,
    replica: &Address,
    requests: &mpsc::Sender<ExtractorRequest>,
) -> Result<bool, ReplicationError> {
    let two = ComparedPair {
        primary: connect(&shared.primary, "replex compare").await?,
        nudger: connect(&shared.primary, "replex compare").await?,
        there: connect(replica, "replex compare").await?,
        requests,
    };
    for client in [&two.primary, &two.there] {
        client.batch_execute(SETTINGS).await?;
    }
    if !two.hold(&[]).await? {
        return Ok(false);
    }
    let suspects = two.suspects().await?;
    if suspects.is_empty() {
        return Ok(true);
    }
    if !two.hold(&suspects).await? {
        return Ok(false);
    }
    for name in &suspects {
        two.compare_rows(name).await?;
    }
    Ok(true)
}

/// The primary and a replica.
struct ComparedPair<'a> {
    primary: Client,
    /// Writes into the primary's WAL, so that the stream goes beyond a position.
    nudger: Client,
    there: Client,
    requests: &'a mpsc::Sender<ExtractorRequest>,
}

impl ComparedPair<'_> {
    /// Opens snapshots of the primary and the replica at one position, with these tables locked on
    /// both sides. Returns false if this does not succeed after several attempts.
    async fn hold(&self, tables: &[String]) -> Result<bool, ReplicationError> {
        for _ in 0..TRIES_MAX {
            for client in [&self.primary, &self.there] {
                client.batch_execute("ROLLBACK").await?;
            }
            let held = timeout(HOLD_MAX, self.try_hold(tables)).await;
            if held.unwrap_or(Ok(false))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Attempts once to open both snapshots at one position. Returns false if a lock is not
    /// acquired, or if the primary's snapshot is no prefix.
    async fn try_hold(&self, tables: &[String]) -> Result<bool, ReplicationError> {
        const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        const LATER: &str = "; SET LOCAL lock_timeout = '1s'";
        let ended = |_| ReplicationError::Connection("the Extractor has ended".into());
        self.primary.batch_execute(BEGIN).await?;
        // That takes no snapshot yet. Transactions that change the table wait from here on. The
        // first lock waits for sessions that do so now, but not for long.
        let locks = format!("SET LOCAL lock_timeout = '1s'; {}", locks(tables));
        let locked = self.primary.batch_execute(&locks);
        if !tables.is_empty() && locked.await.is_err() {
            return Ok(false);
        }
        let (paused, pause) = oneshot::channel();
        self.request(ExtractorRequest::Pause(paused)).await?;
        pause.await.map_err(ended)?;
        let taken = rows(
            &self.primary,
            "SELECT pg_current_snapshot(), pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
        )
        .await?;
        let taken = taken
            .first()
            .ok_or_else(|| ReplicationError::Stream("no snapshot was given".into()))?;
        let snapshot = value(taken, 0)?.parse()?;
        let until = Tsid(query::number(&value(taken, 1)?)?);
        // The Extractor knows that it has all up to there when something comes from behind it.
        reader::nudge(&self.nudger).await?;
        let (ready, is_ready) = oneshot::channel();
        let (resume, resumed) = oneshot::channel();
        self.request(ExtractorRequest::Until {
            snapshot,
            until,
            ready,
            resume: resumed,
        })
        .await?;
        let is_prefix = is_ready.await.map_err(ended)?;
        if is_prefix {
            self.there.batch_execute(&format!("{BEGIN}{LATER}")).await?;
            for name in tables {
                // Nothing else is done there now.
                let locked = self.there.batch_execute(&lock(name)).await;
                locked.map_err(|error| missing(name, error))?;
            }
            // A snapshot is taken by the first query.
            query::one(&self.there, "SELECT 1").await?;
        }
        drop(resume);
        Ok(is_prefix)
    }

    async fn request(&self, request: ExtractorRequest) -> Result<(), ReplicationError> {
        let ended = |_| ReplicationError::Connection("the Extractor has ended".into());
        self.requests.send(request).await.map_err(ended)
    }

    /// Returns the tables whose count or checksum differs, or that cannot be read at the replica.
    async fn suspects(&self) -> Result<Vec<String>, ReplicationError> {
        let mut suspects = Vec::new();
        for table in rows(&self.primary, TABLES).await? {
            let (schema, table) = (value(&table, 0)?, value(&table, 1)?);
            let name = format!("{}.{}", quoted(&schema), quoted(&table));
            let sum = format!(
                "SELECT count(*) || ' ' || coalesce(sum(hashtextextended((t.*)::text, 0)::numeric), 0)
                   FROM {name} t"
            );
            // It must not wait while it holds the locks of other tables: a client that drops these
            // would find a deadlock, which there is not without the proxy.
            let now = format!("LOCK TABLE ONLY {name} IN ACCESS SHARE MODE NOWAIT");
            self.primary.batch_execute(&now).await?;
            let expected = query::one(&self.primary, &sum).await?;
            let found = match self.there.simple_query(&sum).await {
                Ok(found) => query::first(&found)?,
                // Its transaction has failed: others are looked at the next time.
                Err(error) if error.as_db_error().is_some() => {
                    suspects.push(name);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            if found != expected {
                suspects.push(name);
            }
        }
        Ok(suspects)
    }

    /// Compares a table that is locked on both sides row by row.
    async fn compare_rows(&self, name: &str) -> Result<(), ReplicationError> {
        let parts = format!(
            "SELECT mod(hashtextextended((t.*)::text, 0), {PARTS}) AS part, count(*) || ' ' ||
                    sum(hashtextextended((t.*)::text, 0)::numeric)
               FROM {name} t GROUP BY part ORDER BY part"
        );
        let here = pairs(&self.primary, &parts).await?;
        let there = pairs(&self.there, &parts).await?;
        let of_both: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
        let differs = |part: &&&String| here.get(**part) != there.get(**part);
        let Some(part) = of_both.iter().find(differs) else {
            return Ok(());
        };
        let rows = format!(
            "SELECT hashtextextended((t.*)::text, 0), count(*) FROM {name} t
              WHERE mod(hashtextextended((t.*)::text, 0), {PARTS}) = {part} GROUP BY 1"
        );
        let (here, there) = (
            pairs(&self.primary, &rows).await?,
            pairs(&self.there, &rows).await?,
        );
        let only = |one: &BTreeMap<String, String>, other: &BTreeMap<String, String>| {
            one.iter()
                .filter(|(row, count)| other.get(*row) != Some(*count))
                .count()
        };
        Err(ReplicationError::Differs(format!(
            "{name} has rows that the primary does not have ({} of those looked at), or lacks some ({}), as was seen twice. \
             Remove this replica and add it again with EMPTY",
            only(&there, &here),
            only(&here, &there),
        )))
    }
}

/// Returns a statement that locks a table, so that its definition does not change. Its rows may
/// change.
fn lock(name: &str) -> String {
    format!("LOCK TABLE ONLY {name} IN ACCESS SHARE MODE;")
}

/// Returns the statements that lock these tables. Only the first may wait. A comparison that holds
/// a lock waits for no other lock. Otherwise a client that locks in another order would get a
/// deadlock that does not exist without the proxy.
fn locks(tables: &[String]) -> String {
    let mut names = tables.iter();
    let first = names.next().map(|name| lock(name));
    let others = names.map(|name| format!("LOCK TABLE ONLY {name} IN ACCESS SHARE MODE NOWAIT;"));
    first.into_iter().chain(others).collect()
}

/// Returns the error of a replica that cannot read a table which the primary has.
fn missing(name: &str, error: tokio_postgres::Error) -> ReplicationError {
    match error.as_db_error() {
        Some(reported) => ReplicationError::Differs(format!(
            "{name}: {}. Remove this replica and add it again with EMPTY",
            reported.message()
        )),
        None => error.into(),
    }
}

/// Returns the second column of a query's rows, by the first column.
async fn pairs(client: &Client, sql: &str) -> Result<BTreeMap<String, String>, ReplicationError> {
    let rows = rows(client, sql).await?;
    rows.iter()
        .map(|row| Ok((value(row, 0)?, value(row, 1)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_lock_waits() {
        let tables = ["a", "b", "c"].map(str::to_owned);
        let locks = locks(&tables);
        let waits: Vec<bool> = locks
            .split_terminator(';')
            .map(|lock| !lock.ends_with("NOWAIT"))
            .collect();
        assert_eq!(waits, [true, false, false], "{locks}");
    }
}
