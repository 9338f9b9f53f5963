//! Fills a new replica from a snapshot, while the primary serves (P3). The snapshot is one of the
//! primary, or one of another replica, which is then the seed (the paper's Seed DB, section 6.2).
//! With a seed, the primary copies no rows.
//!
//! A snapshot of the primary itself lists the transactions that were running. So it shows exactly
//! which commits it contains, none is missed and none applied twice: commits up to `applied` are
//! all in it, those after `until` are all not, and those between are decided one by one. A snapshot
//! of a replica shows a prefix of the primary's commits, named in `hihooi.applied` (I14). The slot
//! is held from before the snapshot.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::Instant;
use tokio_postgres::{Client, SimpleQueryRow};

use super::query::{self, rows, value};
use super::setup::{self, ReplicaStart, SeedSnapshot};
use super::{
    ReplicationError, Shared, TaskProgress, connect, fence, quarantine, schema_changes, standby,
};
use pg_connect::address::Address;
use pg_wire::quoting::quoted;
use proxy_core::freshness::{ReplicaId, Tsid};

/// Wait before looking again whether old transactions have ended.
const OLD_WAIT: Duration = Duration::from_millis(20);

/// Time between two looks at how far copying is.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The status of a replica most of the time.
const COPYING: &str = "copying the database";

/// How much there is to be copied, in bytes.
const SIZE: &str = "
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm') AND c.relpersistence = 'p' AND c.oid >= 16384
   AND n.nspname NOT IN ('information_schema', 'hihooi')";

/// The tables whose rows are replicated.
pub const TABLES: &str = "
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384
   AND n.nspname NOT IN ('information_schema', 'hihooi')
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')";

/// Fails if a database that was never filled has tables.
pub async fn refuse_tables(control: &Client) -> Result<(), ReplicationError> {
    match has_tables(control).await? {
        true => Err(ReplicationError::Setup(
            "its database has tables, but was not filled from here: give an empty one, or add it with \
             EMPTY, which drops its contents"
                .into(),
        )),
        false => Ok(()),
    }
}

/// A new replica that is being filled. Its database must be empty.
pub struct ReplicaFill<'a> {
    /// The state that all tasks share.
    pub shared: &'a Shared,
    /// The replica's number.
    pub id: ReplicaId,
    /// The address of the replica's database.
    pub replica: &'a Address,
    /// A connection to its database.
    pub control: &'a Client,
}

/// A snapshot that a session has exported, which must live until it is copied.
struct ExportedSnapshot<'a> {
    of: &'a Address,
    session: &'a Client,
    name: String,
}

impl ReplicaFill<'_> {
    /// Fills the replica from the primary, or from `seed` if it is set; see the module.
    pub async fn fill(&self, seed: Option<&Address>) -> Result<ReplicaStart, ReplicationError> {
        refuse_tables(self.control).await?;
        let primary = connect(&self.shared.primary, fence::SOURCE).await?;
        let start = match seed {
            Some(seed) => self.fill_from_seed(&primary, seed).await?,
            None => self.fill_from_primary(&primary).await?,
        };
        setup::make_tables(self.control, &start).await?;
        Ok(start)
    }

    async fn fill_from_primary(&self, primary: &Client) -> Result<ReplicaStart, ReplicationError> {
        // Every commit up to here is in the snapshot: all that ran now has ended before it is
        // taken.
        let applied = setup::position(primary).await?;
        // Of those, one may have its commit in the log and not be shown yet. It may be the newest
        // there is, so that only a number of our own is surely behind it.
        let horizon = "SELECT pg_current_xact_id()";
        let horizon = query::number(&query::one(primary, horizon).await?)?;
        loop {
            let oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())";
            if query::number(&query::one(primary, oldest).await?)? >= horizon {
                break;
            }
            self.report("waiting for transactions that run on the primary to end");
            tokio::time::sleep(OLD_WAIT).await;
        }
        let shown = "pg_current_snapshot(), pg_current_wal_insert_lsn() - '0/0'::pg_lsn";
        let row = export(primary, shown).await?;
        let seed = SeedSnapshot {
            snapshot: value(&row, 1)?.parse()?,
            until: Tsid(query::number(&value(&row, 2)?)?),
        };
        let taken = ExportedSnapshot {
            of: &self.shared.primary,
            session: primary,
            name: value(&row, 0)?,
        };
        self.copy(primary, &taken).await?;
        Ok(ReplicaStart {
            applied,
            seed: Some(seed),
        })
    }

    async fn fill_from_seed(
        &self,
        primary: &Client,
        seed: &Address,
    ) -> Result<ReplicaStart, ReplicationError> {
        let unreachable = |error| {
            ReplicationError::Connection(format!("{seed}, from which it is filled: {error}"))
        };
        let session = connect(seed, fence::SOURCE).await.map_err(unreachable)?;
        if standby::is_one(&session).await? {
            return Err(ReplicationError::Setup(format!(
                "{seed} is a streaming standby, which does not report which commits a snapshot shows: leave FROM out, \
                 or add a standby of your own with CONVERT"
            )));
        }
        if let Some(why) = quarantine::noted(&session).await? {
            return Err(ReplicationError::Setup(format!(
                "{seed} was found to differ from the primary ({why}): fill it from another replica"
            )));
        }
        let row = loop {
            let shown = "max(tsid), (SELECT count(*) FROM hihooi.seed) FROM hihooi.applied";
            let row = export(&session, shown).await?;
            if value(&row, 2)? == "0" {
                break row;
            }
            // Its visible state is no state of the primary until it is past its own snapshot.
            session.batch_execute("ROLLBACK").await?;
            self.report("waiting until the replica that it is filled from has caught up");
            tokio::time::sleep(LOOK_INTERVAL).await;
        };
        let applied = Tsid(query::number(&value(&row, 1)?)?);
        let taken = ExportedSnapshot {
            of: seed,
            session: &session,
            name: value(&row, 0)?,
        };
        self.copy(primary, &taken).await?;
        Ok(ReplicaStart {
            applied,
            seed: None,
        })
    }

    /// Copies everything that a snapshot shows, and checks that it is there.
    async fn copy(
        &self,
        primary: &Client,
        taken: &ExportedSnapshot<'_>,
    ) -> Result<(), ReplicationError> {
        let expected = query::number(&query::one(taken.session, SIZE).await?)?;
        // Event triggers are copied, also those of a schema that is not.
        self.control.batch_execute(schema_changes::STAND_IN).await?;
        tokio::select! {
            copied = self.copy_by_tools(taken) => if let Err(problem) = copied {
                // Where the source of the copy has failed, trying again may help.
                taken.session.batch_execute("").await?;
                return Err(problem);
            },
            problem = self.watch(expected) => return Err(problem),
        }
        self.control.batch_execute(schema_changes::FORGET).await?;
        set_rights(primary, self.replica, self.control).await?;
        self.compare_counts(taken.session).await?;
        Ok(taken.session.batch_execute("COMMIT").await?)
    }

    /// Reports how far copying is, by how the database grows.
    async fn watch(&self, expected: u64) -> ReplicationError {
        const SIZE_HERE: &str = "SELECT pg_database_size(current_database())";
        let begun = Instant::now();
        let mut before = None;
        loop {
            let size = query::one(self.control, SIZE_HERE).await;
            let size = match size.and_then(|size| query::number(&size)) {
                Ok(size) => size,
                Err(problem) => return problem,
            };
            let grown = size.saturating_sub(*before.get_or_insert(size));
            let progress = TaskProgress::of(grown, expected, begun.elapsed());
            self.shared.set_progress(self.id, COPYING, Some(progress));
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }

    /// Copies roles, then everything in the database, by PostgreSQL's own tools.
    async fn copy_by_tools(&self, taken: &ExportedSnapshot<'_>) -> Result<(), ReplicationError> {
        self.report("copying roles");
        let mut dump = tool("pg_dumpall", (&self.shared.primary, fence::SOURCE));
        dump.args(["--roles-only", "--no-comments"]);
        let mut restore = tool("psql", (self.replica, fence::SEED));
        restore.args(["--quiet", "--no-psqlrc"]);
        // Roles that are there already are refused one by one, which is as it should be.
        pipe(dump, restore).await?;
        let mut dump = tool("pg_dump", (taken.of, fence::SOURCE));
        dump.args([
            "--format=custom",
            "--compress=0",
            "--no-publications",
            "--no-subscriptions",
            "--no-tablespaces",
            "--exclude-schema=hihooi",
        ]);
        dump.args(["--no-unlogged-table-data", "--snapshot", &taken.name]);
        // Amounts of money are read as they are written.
        dump.env("PGOPTIONS", "-c lc_monetary=C");
        let mut restore = tool("pg_restore", (self.replica, fence::SEED));
        restore.args(["--exit-on-error", "--single-transaction", "--dbname"]);
        restore.arg(&self.replica.database);
        // Nothing fires and nothing is checked again.
        let options = "-c session_replication_role=replica -c lc_monetary=C -c array_nulls=on";
        restore.env("PGOPTIONS", options);
        let (dumped, restored) = pipe(dump, restore).await?;
        for (name, output) in [("pg_dump", dumped), ("pg_restore", restored)] {
            if let Some(problem) = output {
                return Err(ReplicationError::Setup(format!("{name} failed: {problem}")));
            }
        }
        Ok(())
    }

    async fn compare_counts(&self, origin: &Client) -> Result<(), ReplicationError> {
        self.report("counting rows");
        for table in rows(origin, TABLES).await? {
            let (schema, name) = (quoted(&value(&table, 0)?), quoted(&value(&table, 1)?));
            let count = format!("SELECT count(*) FROM {schema}.{name}");
            let there = query::one(origin, &count).await?;
            let here = query::one(self.control, &count).await?;
            if there != here {
                return Err(ReplicationError::Differs(format!(
                    "{schema}.{name} has {here} rows after copying, and {there} where they come from"
                )));
            }
        }
        Ok(())
    }

    fn report(&self, text: &str) {
        self.shared.set_status(self.id, text);
    }
}

/// Lets a transaction hold its snapshot for as long as the filling takes: the role of the session
/// can have shorter timeouts for its clients.
const NO_TIMEOUTS: &str = "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// Begins a transaction whose snapshot others can use. Returns the snapshot's name, and the answers
/// to the other queries.
async fn export(session: &Client, asked: &str) -> Result<SimpleQueryRow, ReplicationError> {
    session.batch_execute(NO_TIMEOUTS).await?;
    session
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let taken = rows(session, &format!("SELECT pg_export_snapshot(), {asked}")).await?;
    let none = || ReplicationError::Stream("no snapshot was given".into());
    taken.into_iter().next().ok_or_else(none)
}

/// Returns whether a database has tables whose rows would be replicated.
pub async fn has_tables(client: &Client) -> Result<bool, ReplicationError> {
    Ok(!rows(client, TABLES).await?.is_empty())
}

/// Returns the major version of PostgreSQL's client tools on this machine; none if they are
/// missing.
pub async fn dump_version() -> Option<u64> {
    let folder = pg_local::programs().unwrap_or_default();
    let mut command = Command::new(folder.join("pg_dump"));
    let output = command.arg("--version").output().await.ok()?;
    let output = String::from_utf8(output.stdout).ok()?;
    let version = output.split_whitespace().nth(2)?;
    version
        .split(|sign: char| !sign.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Returns the owner of the database and the rights in it, which `pg_dump` leaves out. Changes of
/// the schema run here as the role that made them, and need the same rights.
async fn set_rights(
    primary: &Client,
    replica: &Address,
    control: &Client,
) -> Result<(), ReplicationError> {
    const OWNER: &str =
        "SELECT datdba::regrole FROM pg_database WHERE datname = current_database()";
    const RIGHTS: &str = "
        SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
               CASE WHEN is_grantable THEN 'WITH GRANT OPTION' ELSE '' END
          FROM pg_database, aclexplode(datacl) WHERE datname = current_database()";
    let name = quoted(&replica.database);
    let owner = query::one(primary, OWNER).await?;
    let mut text = format!("ALTER DATABASE {name} OWNER TO {owner};");
    let rights = rows(primary, RIGHTS).await?;
    if !rights.is_empty() {
        // The grants replace the default rights of PUBLIC.
        text += &format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC;");
    }
    for right in &rights {
        let (right, role, option) = (value(right, 0)?, value(right, 1)?, value(right, 2)?);
        text += &format!("GRANT {right} ON DATABASE {name} TO {role} {option};");
    }
    Ok(control.batch_execute(&text).await?)
}

/// Runs one tool into another. Returns the error output of each that fails.
async fn pipe(
    mut from: Command,
    mut to: Command,
) -> Result<(Option<String>, Option<String>), ReplicationError> {
    let missing = |error: std::io::Error| {
        ReplicationError::Setup(format!("PostgreSQL's client tools cannot be run: {error}"))
    };
    from.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut from = from.kill_on_drop(true).spawn().map_err(missing)?;
    let output = from.stdout.take().expect("it is piped");
    let output: Stdio = output.try_into().map_err(missing)?;
    to.stdin(output)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let to = to.kill_on_drop(true).spawn().map_err(missing)?;
    let (from, to) = tokio::join!(from.wait_with_output(), to.wait_with_output());
    let failure = |output: std::process::Output| {
        let errors = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        (!output.status.success()).then_some(errors)
    };
    Ok((
        failure(from.map_err(missing)?),
        failure(to.map_err(missing)?),
    ))
}

/// Returns one of PostgreSQL's own tools, for a database. Its session has a name, by which no
/// filling outlives this proxy's epoch, see `fence`.
fn tool(name: &str, (address, session): (&Address, &str)) -> Command {
    let folder = pg_local::programs().unwrap_or_default();
    let mut command = Command::new(folder.join(name));
    command
        .env("PGAPPNAME", session)
        .env("PGHOST", &address.host)
        .env("PGPORT", address.port.to_string())
        .env("PGUSER", &address.user)
        .env(
            "PGPASSWORD",
            address.password.as_deref().unwrap_or_default(),
        )
        .env("PGDATABASE", &address.database)
        .env("PGSSLMODE", address.tls.mode());
    let files = address.tls.files();
    if let Some(roots) = files.and_then(|files| files.roots.as_ref()) {
        command.env("PGSSLROOTCERT", roots);
    }
    if let Some(revoked) = files.and_then(|files| files.revoked.as_ref()) {
        command.env("PGSSLCRL", revoked);
    }
    if let Some((certificates, key)) = files.and_then(|files| files.proof.as_ref()) {
        command.env("PGSSLCERT", certificates).env("PGSSLKEY", key);
    }
    command
}
