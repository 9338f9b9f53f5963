//! Fills a new Extension from a snapshot of the Primary, while the Primary goes on (HIHOOI c7, way C).
//!
//! The snapshot's own list of running transactions says which commits it shows, so none is missed and
//! none applied twice: commits up to `applied` are all in it, those after `until` are all not, and of
//! those between it says for each. The slot is held from before the snapshot.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::Instant;
use tokio_postgres::Client;

use super::catalogue::{rows, value};
use super::setup::{self, Seed, Start};
use super::{Error, Progress, Shared, connect, fence, schema_changes};
use crate::address::Address;
use crate::local;
use crate::manager::{ExtensionId, Tsid};
use crate::sql::quoted;

/// Wait before looking again whether old transactions have ended.
const OLD_WAIT: Duration = Duration::from_millis(20);

/// Time between two looks at how far copying is.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What an Extension does for most of the time.
const COPYING: &str = "copying the database";

/// How much there is to be copied, in bytes.
const SIZE: &str = "
SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'm') AND c.relpersistence = 'p' AND c.oid >= 16384
   AND n.nspname NOT IN ('information_schema', 'hihooi')";

/// Tables whose rows are on every node.
pub const TABLES: &str = "
SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind = 'r' AND c.relpersistence = 'p' AND c.oid >= 16384
   AND n.nspname NOT IN ('information_schema', 'hihooi')
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'e')";

/// Fails where a database that was never filled has tables.
pub async fn refuse_tables(control: &Client) -> Result<(), Error> {
    match has_tables(control).await? {
        true => Err(Error::Setup(
            "its database has tables, but was not filled from here: give an empty one, or add it with \
             EMPTY, which drops what is there"
                .into(),
        )),
        false => Ok(()),
    }
}

/// See the module. The database must be empty.
pub async fn fill(
    shared: &Shared,
    id: ExtensionId,
    extension: &Address,
    control: &Client,
) -> Result<Start, Error> {
    refuse_tables(control).await?;
    let primary = connect(&shared.primary, "replex seed").await?;
    // Every commit up to here is in the snapshot: all that ran now has ended before it is taken.
    let applied = setup::position(&primary).await?;
    // Of those, one may have its commit in the log and not be shown yet. It may be the newest there is, so
    // that only a number of our own is surely behind it.
    let horizon = "SELECT pg_current_xact_id()";
    let horizon = setup::number(&setup::one(&primary, horizon).await?)?;
    loop {
        let oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())";
        if setup::number(&setup::one(&primary, oldest).await?)? >= horizon {
            break;
        }
        shared.set_status(
            id,
            "waiting for transactions that run on the Primary to end",
        );
        tokio::time::sleep(OLD_WAIT).await;
    }
    primary
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        .await?;
    let taken = rows(
        &primary,
        "SELECT pg_export_snapshot(), pg_current_snapshot(),
                pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
    )
    .await?;
    let taken = taken
        .first()
        .ok_or_else(|| Error::Stream("no snapshot was given".into()))?;
    let seed = Seed {
        snapshot: value(taken, 1)?.parse()?,
        until: Tsid(setup::number(&value(taken, 2)?)?),
    };
    let snapshot = value(taken, 0)?;
    let expected = setup::number(&setup::one(&primary, SIZE).await?)?;
    // Event triggers are copied, also those of a schema that is not.
    control.batch_execute(schema_changes::STAND_IN).await?;
    tokio::select! {
        copied = copy(shared, id, extension, &snapshot) => copied?,
        problem = watch(shared, id, control, expected) => return Err(problem),
    }
    control.batch_execute(schema_changes::FORGET).await?;
    set_rights(&primary, extension, control).await?;
    compare_counts(shared, id, &primary, control).await?;
    primary.batch_execute("COMMIT").await?;
    let start = Start {
        applied,
        seed: Some(seed),
    };
    setup::make_tables(control, &start).await?;
    Ok(start)
}

/// Whether a database has tables whose rows would be on every node.
pub async fn has_tables(client: &Client) -> Result<bool, Error> {
    Ok(!rows(client, TABLES).await?.is_empty())
}

/// The major version of PostgreSQL's client tools on this machine, if they are there.
pub async fn dump_version() -> Option<u64> {
    let folder = local::programs().unwrap_or_default();
    let mut command = Command::new(folder.join("pg_dump"));
    let output = command.arg("--version").output().await.ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let version = said.split_whitespace().nth(2)?;
    version
        .split(|sign: char| !sign.is_ascii_digit())
        .next()?
        .parse()
        .ok()
}

/// Says how far copying is, by how the database grows.
async fn watch(shared: &Shared, id: ExtensionId, control: &Client, expected: u64) -> Error {
    const SIZE_HERE: &str = "SELECT pg_database_size(current_database())";
    let begun = Instant::now();
    let mut before = None;
    loop {
        let size = setup::one(control, SIZE_HERE).await;
        let size = match size.and_then(|size| setup::number(&size)) {
            Ok(size) => size,
            Err(problem) => return problem,
        };
        let grown = size.saturating_sub(*before.get_or_insert(size));
        let progress = Progress::of(grown, expected, begun.elapsed());
        shared.set_progress(id, COPYING, Some(progress));
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// Roles, then everything in the database, by PostgreSQL's own tools.
async fn copy(
    shared: &Shared,
    id: ExtensionId,
    extension: &Address,
    snapshot: &str,
) -> Result<(), Error> {
    shared.set_status(id, "copying roles");
    let mut dump = tool("pg_dumpall", &shared.primary);
    dump.args(["--roles-only", "--no-comments"]);
    let mut restore = tool("psql", extension);
    restore.args(["--quiet", "--no-psqlrc"]);
    // Roles that are there already are refused one by one, which is as it should be.
    pipe(dump, restore).await?;
    let mut dump = tool("pg_dump", &shared.primary);
    dump.args([
        "--format=custom",
        "--compress=0",
        "--no-publications",
        "--no-subscriptions",
        "--exclude-schema=hihooi",
    ]);
    dump.args(["--no-unlogged-table-data", "--snapshot", snapshot]);
    let mut restore = tool("pg_restore", extension);
    restore.args(["--exit-on-error", "--single-transaction", "--dbname"]);
    restore.arg(&extension.database);
    // Nothing fires and nothing is checked again.
    restore.env("PGOPTIONS", "-c session_replication_role=replica");
    let (dumped, restored) = pipe(dump, restore).await?;
    for (name, output) in [("pg_dump", dumped), ("pg_restore", restored)] {
        if let Some(problem) = output {
            return Err(Error::Setup(format!("{name} failed: {problem}")));
        }
    }
    Ok(())
}

/// The owner of the database and the rights in it, which `pg_dump` leaves out. Changes of the schema run
/// here as whoever made them, and need the same rights.
async fn set_rights(primary: &Client, extension: &Address, control: &Client) -> Result<(), Error> {
    const OWNER: &str =
        "SELECT datdba::regrole FROM pg_database WHERE datname = current_database()";
    const RIGHTS: &str = "
        SELECT privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END,
               CASE WHEN is_grantable THEN 'WITH GRANT OPTION' ELSE '' END
          FROM pg_database, aclexplode(datacl) WHERE datname = current_database()";
    let name = quoted(&extension.database);
    let owner = setup::one(primary, OWNER).await?;
    let mut text = format!("ALTER DATABASE {name} OWNER TO {owner};");
    let rights = rows(primary, RIGHTS).await?;
    if !rights.is_empty() {
        // What is granted replaces what everybody may do by default.
        text += &format!("REVOKE ALL ON DATABASE {name} FROM PUBLIC;");
    }
    for right in &rights {
        let (right, role, option) = (value(right, 0)?, value(right, 1)?, value(right, 2)?);
        text += &format!("GRANT {right} ON DATABASE {name} TO {role} {option};");
    }
    Ok(control.batch_execute(&text).await?)
}

/// Runs one tool into another; for each that fails, what it said.
async fn pipe(
    mut from: Command,
    mut to: Command,
) -> Result<(Option<String>, Option<String>), Error> {
    let missing = |error: std::io::Error| {
        Error::Setup(format!("PostgreSQL's client tools cannot be run: {error}"))
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
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        (!output.status.success()).then_some(said)
    };
    Ok((
        failure(from.map_err(missing)?),
        failure(to.map_err(missing)?),
    ))
}

async fn compare_counts(
    shared: &Shared,
    id: ExtensionId,
    primary: &Client,
    control: &Client,
) -> Result<(), Error> {
    shared.set_status(id, "counting rows");
    for table in rows(primary, TABLES).await? {
        let (schema, name) = (quoted(&value(&table, 0)?), quoted(&value(&table, 1)?));
        let count = format!("SELECT count(*) FROM {schema}.{name}");
        let there = setup::one(primary, &count).await?;
        let here = setup::one(control, &count).await?;
        if there != here {
            return Err(Error::Differs(format!(
                "{schema}.{name} has {here} rows after copying, and {there} on the Primary"
            )));
        }
    }
    Ok(())
}

/// One of PostgreSQL's own tools, for a database.
fn tool(name: &str, address: &Address) -> Command {
    let folder = local::programs().unwrap_or_default();
    let mut command = Command::new(folder.join(name));
    command
        // Nothing of it outlives this proxy's epoch, see `fence`.
        .env("PGAPPNAME", fence::SEED)
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
    if let Some((certificates, key)) = files.and_then(|files| files.proof.as_ref()) {
        command.env("PGSSLCERT", certificates).env("PGSSLKEY", key);
    }
    command
}
