//! The register of the replicas that operators have added. It is stored on the primary, so that the
//! next active proxy follows the same replicas.
//!
//! `hihooi.replica` has their URLs as they were given, with passwords, and is its owner's alone, as
//! PostgreSQL's `pg_subscription` is.
//!
//! Invariants:
//! - Only the session that has the lock writes there, in a transaction that holds its epoch's row.
//!   So the entries that the next proxy reads are final.
//! - A change that was not confirmed in time has failed, and is undone before anything else is
//!   written. It stays only where the proxy has ended, or lost its lock to another one, before it
//!   could do that.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::query::has_table;
use super::super::query::{rows, value};
use super::super::{ReplicationError, connect};
use pg_connect::address::Address;
use pg_wire::quoting::literal;

/// How long is waited until a change is in the register; meanwhile the primary may be restarted.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a change waits for the locks of others. Beats wait with it, so this is less than a
/// lease.
const LOCK_MAX: Duration = Duration::from_secs(1);

/// A replica that is in the register.
pub struct RegisteredReplica {
    /// The database, for people.
    pub place: String,
    /// The URL as the operator gave it. It may contain a password.
    pub url: String,
}

/// A change of the register: the entry that a database must have.
pub struct RegisterChange {
    host: String,
    port: u16,
    database: String,
    /// None if it is not to be there.
    url: Option<String>,
}

impl RegisterChange {
    /// Returns a change of the register that sets the URL of a database, or removes its entry if
    /// `url` is none.
    pub fn of(address: &Address, url: Option<&str>) -> RegisterChange {
        let (host, port, database) = address.place();
        RegisterChange {
            host: host.into(),
            port,
            database: database.into(),
            url: url.map(Into::into),
        }
    }

    /// Returns the change as one transaction. It returns 1, or 0 without a change if the epoch is
    /// another one by now.
    pub(super) fn sql(&self, epoch: u64) -> String {
        let (host, port, database) = (literal(&self.host), self.port, literal(&self.database));
        let change = match &self.url {
            Some(url) => format!(
                "INSERT INTO hihooi.replica (host, port, database, url)
                 SELECT {host}, {port}, {database}, {} FROM own
                 ON CONFLICT (host, port, database) DO UPDATE SET url = excluded.url",
                literal(url)
            ),
            None => format!(
                "DELETE FROM hihooi.replica e USING own
                  WHERE e.host = {host} AND e.port = {port} AND e.database = {database}"
            ),
        };
        let lock_ms = LOCK_MAX.as_millis();
        format!(
            "SET LOCAL synchronous_commit = local; SET LOCAL lock_timeout = {lock_ms};
             WITH own AS (SELECT FROM hihooi.leader WHERE epoch = {epoch} FOR SHARE),
                  changed AS ({change})
             SELECT count(*) FROM own"
        )
    }
}

/// A requested change of the register.
pub(super) struct RegisterRequest {
    pub change: RegisterChange,
    /// The entry before the change.
    pub before: RegisterChange,
    /// Receives the result. It is closed if the caller no longer waits, and then treats the change
    /// as failed.
    pub done: oneshot::Sender<Result<(), ReplicationError>>,
}

/// Sends requests to change the register of replicas.
#[derive(Clone, Debug)]
pub struct ReplicaRegister(mpsc::Sender<RegisterRequest>);

impl ReplicaRegister {
    pub(super) fn new(requests: mpsc::Sender<RegisterRequest>) -> ReplicaRegister {
        ReplicaRegister(requests)
    }

    /// Applies a change to the register. Returns once the change is on the primary's disk. If this
    /// fails, the register has the entries of `before` again.
    pub async fn write(
        &self,
        change: RegisterChange,
        before: RegisterChange,
    ) -> Result<(), ReplicationError> {
        let (done, mut is_done) = oneshot::channel();
        let request = RegisterRequest {
            change,
            before,
            done,
        };
        let asked = async {
            // A receiver that gets none drops it, which is seen below.
            let _ = self.0.send(request).await;
            (&mut is_done).await
        };
        let answer = match timeout(WAIT_MAX, asked).await {
            Ok(answer) => answer.ok(),
            Err(_) => {
                // From here on it is taken back; it may have been done just now.
                is_done.close();
                is_done.try_recv().ok()
            }
        };
        answer.unwrap_or_else(|| {
            Err(ReplicationError::Connection(
                "the primary did not confirm the change in time, so nothing has changed: try again when it \
                 answers"
                    .into(),
            ))
        })
    }
}

/// Returns the entries of the register, in the order of their addition.
pub async fn read(primary: &Address) -> Result<Vec<RegisteredReplica>, ReplicationError> {
    let client = &connect(primary, "replex set-up").await?;
    if !has_table(client, "replica").await? {
        return Ok(Vec::new());
    }
    let all = "SELECT host || ':' || port || '/' || database, url FROM hihooi.replica
                ORDER BY added, host, port, database";
    let all = rows(client, all).await?;
    let registered = all.iter().map(|row| {
        Ok(RegisteredReplica {
            place: value(row, 0)?,
            url: value(row, 1)?,
        })
    });
    registered.collect()
}
