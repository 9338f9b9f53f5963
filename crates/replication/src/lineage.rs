//! Identifies the primary that a database is or follows by its *line*. A promoted replica begins a
//! new line, and records the line that it replaces.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::Client;

use super::query::{has_table, one, rows, value};
use super::{ReplicationError, connect};
use pg_connect::address::Address;
use pg_wire::quoting::literal;

/// The application name of our connections.
const NAME: &str = "replex lineage";
/// A proxy that starts waits no longer for replicas to report whether they were promoted.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Names a database and its server, and which of the lines that servers part into when standbys are
/// promoted.
const LINE: &str = "
SELECT (SELECT system_identifier FROM pg_control_system()) || '/'
       || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || '/'
       || (SELECT oid FROM pg_database WHERE datname = current_database())";

/// The statement that creates the table in which a replica stores the name of its primary.
pub const FOLLOWS: &str = "
CREATE TABLE IF NOT EXISTS hihooi.follows (one bool PRIMARY KEY DEFAULT true CHECK (one),
  line text NOT NULL)";

/// Returns the line of a primary, see the module.
pub async fn line(primary: &Client) -> Result<String, ReplicationError> {
    one(primary, LINE).await
}

/// Returns whether this database has replaced the primary of that line.
pub async fn has_replaced(client: &Client, line: &str) -> Result<bool, ReplicationError> {
    if !has_table(client, "promoted").await? {
        return Ok(false);
    }
    let line = literal(line);
    let marked = format!("SELECT count(*) FROM hihooi.promoted WHERE line = {line}");
    Ok(one(client, &marked).await? != "0")
}

/// Fails if one of these databases has replaced the primary. Skips replicas, and a primary, that do
/// not answer soon.
pub async fn refuse_replaced(
    primary: &Address,
    replicas: &[Address],
) -> Result<(), ReplicationError> {
    if replicas.is_empty() {
        return Ok(());
    }
    let Ok(client) = connect(primary, NAME).await else {
        return Ok(());
    };
    let line = line(&client).await?;
    let mut looks = JoinSet::new();
    for address in replicas.iter().cloned() {
        let line = line.clone();
        looks.spawn(async move {
            let look = async {
                let client = connect(&address, NAME).await?;
                has_replaced(&client, &line).await
            };
            matches!(timeout(LOOK_MAX, look).await, Ok(Ok(true))).then_some(address)
        });
    }
    while let Some(looked) = looks.join_next().await {
        if let Ok(Some(address)) = looked {
            return Err(replaced(&address.to_string()));
        }
    }
    Ok(())
}

/// Returns the error that the primary has been replaced.
pub fn replaced(by: &str) -> ReplicationError {
    ReplicationError::Setup(format!(
        "the primary has been replaced: {by} was promoted to be the primary. Name that one by --primary, \
         and see that the old one is not written to any more"
    ))
}

/// Returns the line of the primary that a database follows; none if it follows none.
pub async fn follows(client: &Client) -> Result<Option<String>, ReplicationError> {
    if !has_table(client, "follows").await? {
        return Ok(None);
    }
    let follows = rows(client, "SELECT line FROM hihooi.follows").await?;
    follows.first().map(|row| value(row, 0)).transpose()
}

/// Fails if a replica follows another primary. A replica without a recorded line follows this one.
pub async fn keep_to_line(replica: &Client, line: &str) -> Result<(), ReplicationError> {
    let line = literal(line);
    let note = format!(
        "BEGIN; SET LOCAL synchronous_commit = on; {FOLLOWS};
         INSERT INTO hihooi.follows (line) VALUES ({line}) ON CONFLICT DO NOTHING; COMMIT"
    );
    replica.batch_execute(&note).await?;
    let is_same = format!("SELECT line = {line} FROM hihooi.follows");
    match one(replica, &is_same).await?.as_str() {
        "t" => Ok(()),
        _ => Err(ReplicationError::Setup(
            "it is a replica of another primary: name that primary, or remove it and add it again with \
             EMPTY"
                .into(),
        )),
    }
}
