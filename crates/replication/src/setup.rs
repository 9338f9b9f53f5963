//! Creates the objects, and checks the settings, that replication requires on the primary and on
//! replicas.

use ring::rand::{SecureRandom, SystemRandom};
use tokio_postgres::{Client, SimpleQueryMessage};

use super::query::{has_table, number, one, setup_error};
use super::{ReplicationError, SLOT, schema_changes};
use proxy_core::freshness::mark::MarkKey;
use proxy_core::freshness::{ServerLife, Tsid};
use proxy_core::planted::{self, ProxyBug};

/// The number under which `hihooi.applied` has the position on disk. Connections that execute
/// commits are numbered from 0.
pub const FLUSHER: i32 = -1;

/// The state from which a replica begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStart {
    /// The position up to which the replica has every commit, except as `seed` states.
    pub applied: Tsid,
    /// The snapshot from which the replica was filled; none once the replica has all commits up to
    /// it.
    pub seed: Option<SeedSnapshot>,
}

/// The snapshot from which a replica was filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedSnapshot {
    /// The snapshot, as `pg_current_snapshot()` returns it.
    pub snapshot: super::snapshot::PgSnapshot,
    /// Every commit in the snapshot is at or before this position.
    pub until: Tsid,
}

/// The query for the tables whose changes would be delivered without a key. Its result is one
/// string.
pub const KEYLESS: &str = "
SELECT coalesce(string_agg(c.oid::regclass::text, ', ' ORDER BY c.oid), '')
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND n.nspname !~ '^pg_'
   AND n.nspname NOT IN ('information_schema', 'hihooi')
   AND c.relreplident <> 'f' AND NOT EXISTS
        (SELECT FROM pg_index i WHERE i.indrelid = c.oid
          AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident END)";

/// The query for the triggers and rules that would run again when rows are applied. Its result is
/// one string.
pub const FIRING: &str = "
SELECT coalesce(string_agg(it, ', ' ORDER BY it), '') FROM (
  SELECT format('trigger %I on %s', tgname, tgrelid::regclass) FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('A', 'R')
  UNION ALL
  SELECT format('rule %I on %s', rulename, ev_class::regclass) FROM pg_rewrite
   WHERE oid >= 16384 AND ev_enabled IN ('A', 'R')
  UNION ALL
  SELECT format('event trigger %I', evtname) FROM pg_event_trigger
   WHERE evtname NOT LIKE 'hihooi\\_%' AND evtenabled IN ('A', 'R')) AS firing (it)";
/// The remedy for such triggers and rules.
pub const FIX_FIRING: &str =
    "Run ALTER TABLE … ENABLE TRIGGER (or ENABLE RULE, ALTER EVENT TRIGGER … ENABLE) for each";

/// Returns an error if the primary is not set up for logical decoding, or has a table whose changes
/// would be delivered without a key. The error names the remedy.
pub async fn check(primary: &Client) -> Result<(), ReplicationError> {
    let wal_level = one(primary, "SHOW wal_level").await?;
    if wal_level != "logical" {
        return Err(ReplicationError::Setup(format!(
            "the primary has wal_level = {wal_level}: set wal_level = logical and restart it"
        )));
    }
    let keyless = one(primary, KEYLESS).await?;
    if !keyless.is_empty() {
        return Err(ReplicationError::Setup(format!(
            "these tables have no primary key, so their changes cannot be replicated: {keyless}. \
             Give each a primary key, or run ALTER TABLE … REPLICA IDENTITY FULL on it"
        )));
    }
    let firing = one(primary, FIRING).await?;
    if !firing.is_empty() {
        return Err(ReplicationError::Setup(format!(
            "these are ENABLE ALWAYS or ENABLE REPLICA, and would run again at replicas, where rows come with their \
             effects: {firing}. {FIX_FIRING}"
        )));
    }
    Ok(())
}

/// Creates the publication, the slot and the triggers on the primary if they are missing. Returns
/// the key that signs messages, and the end of the WAL. Only the active proxy may call it.
pub async fn prepare(primary: &Client) -> Result<(MarkKey, Tsid), ReplicationError> {
    check(primary).await?;
    let key = key(primary).await?;
    let has = format!("SELECT count(*) FROM pg_publication WHERE pubname = '{SLOT}'");
    if one(primary, &has).await? == "0" {
        let create = format!("CREATE PUBLICATION {SLOT} FOR ALL TABLES");
        primary.simple_query(&create).await.map_err(setup_error)?;
    }
    let has = format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{SLOT}'");
    if one(primary, &has).await? == "0" {
        let create = format!("SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')");
        primary.simple_query(&create).await.map_err(setup_error)?;
    }
    if !schema_changes::prepare(primary).await? {
        log::warn!(
            event = "set_up";
            "changes of the schema around the proxy are not noted: the role may not make event triggers on the primary"
        );
    }
    Ok((key, position(primary).await?))
}

/// Returns the key that is stored on the primary, and creates it if it is missing. The key outlives
/// managers, so that each manager can verify the marks of earlier ones.
async fn key(primary: &Client) -> Result<MarkKey, ReplicationError> {
    let mut secret = [0; 32];
    let no_chance = |_| ReplicationError::Setup("the system returned no random numbers".into());
    SystemRandom::new().fill(&mut secret).map_err(no_chance)?;
    let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    let make = format!(
        "BEGIN;
         SELECT pg_advisory_xact_lock(hashtext('hihooi'));
         CREATE SCHEMA IF NOT EXISTS hihooi;
         CREATE TABLE IF NOT EXISTS hihooi.secret (key text PRIMARY KEY);
         REVOKE ALL ON SCHEMA hihooi FROM PUBLIC;
         REVOKE ALL ON hihooi.secret FROM PUBLIC;
         INSERT INTO hihooi.secret SELECT '{secret}' WHERE NOT EXISTS (SELECT FROM hihooi.secret);
         COMMIT"
    );
    primary.simple_query(&make).await.map_err(setup_error)?;
    let secret = one(primary, "SELECT key FROM hihooi.secret").await?;
    Ok(MarkKey::new(secret.as_bytes()))
}

/// The position of a missing slot, which delivers nothing.
pub const NO_SLOT: Tsid = Tsid(u64::MAX);

/// Returns the position after which the slot delivers commits.
pub async fn confirmed(primary: &Client) -> Result<Tsid, ReplicationError> {
    let none = NO_SLOT.0;
    let text = one(
        primary,
        &format!(
            "SELECT coalesce(max(confirmed_flush_lsn - '0/0'), {none})
               FROM pg_replication_slots WHERE slot_name = '{SLOT}'"
        ),
    )
    .await?;
    number(&text).map(Tsid)
}

/// Returns the end of the primary's WAL.
pub async fn position(primary: &Client) -> Result<Tsid, ReplicationError> {
    let text = one(
        primary,
        "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
    )
    .await?;
    number(&text).map(Tsid)
}

/// Acquires an advisory lock at a replica, and returns its key, which identifies this life of the
/// server. The session holds the lock until it ends, at the latest with its server.
pub async fn begin_life(replica: &Client) -> Result<ServerLife, ReplicationError> {
    let lock = "SELECT key FROM (SELECT (random() * 9e18)::int8 AS key OFFSET 0) AS keys
                WHERE pg_try_advisory_lock(key)";
    let key = number(&one(replica, lock).await?)?;
    let too_large = |_| ReplicationError::Connection(format!("{key} is no key"));
    i64::try_from(key).map(ServerLife).map_err(too_large)
}

/// Returns the state of a replica; none if it was never filled.
pub async fn applied(replica: &Client) -> Result<Option<ReplicaStart>, ReplicationError> {
    if !has_table(replica, "applied").await? {
        return Ok(None);
    }
    let applied = one(replica, "SELECT max(tsid) FROM hihooi.applied").await?;
    let applied = Tsid(number(&applied)?);
    let seed = "SELECT snapshot, until FROM hihooi.seed";
    let rows = replica.simple_query(seed).await?;
    let seed = rows.iter().find_map(|row| match row {
        SimpleQueryMessage::Row(row) => Some((row.get(0)?.to_owned(), row.get(1)?.to_owned())),
        _ => None,
    });
    let seed = match seed {
        Some((snapshot, until)) => Some(SeedSnapshot {
            snapshot: snapshot.parse()?,
            until: Tsid(number(&until)?),
        }),
        None => None,
    };
    Ok(Some(ReplicaStart { applied, seed }))
}

/// Flushes a replica's visible commits to its disk, because Extractors commit without waiting for
/// the disk.
pub async fn flush(replica: &Client) -> Result<(), ReplicationError> {
    let sql = format!(
        "BEGIN; SET LOCAL synchronous_commit = on;
         UPDATE hihooi.applied SET tsid = tsid WHERE worker = {FLUSHER}; COMMIT"
    );
    if !planted::is(ProxyBug::UnflushedCounts) {
        replica.batch_execute(&sql).await?;
    }
    Ok(())
}

/// Creates the tables in which a replica records its position. They exist once its rows are
/// complete.
pub async fn make_tables(replica: &Client, start: &ReplicaStart) -> Result<(), ReplicationError> {
    make_tables_after(replica, "", start).await
}

/// Creates the tables of [`make_tables`] after the statements `before`, all in one transaction.
pub async fn make_tables_after(
    replica: &Client,
    before: &str,
    start: &ReplicaStart,
) -> Result<(), ReplicationError> {
    let tsid = start.applied.0;
    let mut sql = format!(
        "BEGIN; SET LOCAL synchronous_commit = on; {before}
         CREATE SCHEMA IF NOT EXISTS hihooi;
         CREATE TABLE hihooi.applied (worker int PRIMARY KEY, tsid numeric NOT NULL)
           WITH (fillfactor = 50);
         CREATE TABLE hihooi.seed (snapshot text NOT NULL, until numeric NOT NULL);
         INSERT INTO hihooi.applied VALUES ({FLUSHER}, {tsid});"
    );
    if let Some(seed) = &start.seed {
        let (snapshot, until) = (&seed.snapshot, seed.until.0);
        sql.push_str(&format!(
            "INSERT INTO hihooi.seed VALUES ('{snapshot}', {until});"
        ));
    }
    sql.push_str("COMMIT");
    replica.batch_execute(&sql).await?;
    Ok(())
}

/// Ensures that each connection has a row for its position. Rows of connections that no longer
/// exist keep their last value, which the other rows soon exceed.
pub async fn make_rows(
    replica: &Client,
    start: &ReplicaStart,
    workers: usize,
) -> Result<(), ReplicationError> {
    let tsid = start.applied.0;
    let sql = format!(
        "INSERT INTO hihooi.applied SELECT n, {tsid} FROM generate_series(0, {workers} - 1) n
         ON CONFLICT DO NOTHING"
    );
    replica.batch_execute(&sql).await?;
    Ok(())
}
