//! The lock on the primary that the active proxy holds, and the heartbeats that it writes there for
//! the standbys.
//!
//! The lock is of a session that does nothing else. `hihooi.leader` has the epoch, and survives a
//! crash of the primary, as `hihooi.replica` does: see `register`. `hihooi.beat` and
//! `hihooi.backend` do not: no lease is longer than a crash, and no backend outlives one.

use std::time::Duration;

use rustix::system::uname;
use tokio::time::timeout;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, SimpleQueryMessage};

use super::super::query::{first, number, setup_error};
use super::super::query::{rows, value};
use super::super::{ReplicationError, SLOT, connect, described};
use super::lease::LeaderHeartbeat;
use super::register::RegisterChange;
use pg_connect::address::Address;
use pg_wire::quoting::literal;

/// The key of the active proxy's lock: "hiho" in ASCII, and its first use.
pub(super) const LOCK: (i32, i32) = (0x6869_686f, 1);
/// How long the primary may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How the names of such sessions begin.
const SESSION: &str = "replex leader";

const TABLES: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(hashtext('hihooi'));
CREATE SCHEMA IF NOT EXISTS hihooi;
REVOKE ALL ON SCHEMA hihooi FROM PUBLIC;
CREATE TABLE IF NOT EXISTS hihooi.leader (one bool PRIMARY KEY DEFAULT true CHECK (one),
  epoch int8 NOT NULL, is_released bool NOT NULL, name text NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS hihooi.beat (one bool PRIMARY KEY DEFAULT true CHECK (one),
  epoch int8 NOT NULL, number int8 NOT NULL);
CREATE UNLOGGED TABLE IF NOT EXISTS hihooi.backend (pid int4, started timestamptz,
  PRIMARY KEY (pid, started));
CREATE TABLE IF NOT EXISTS hihooi.replica (host text, port int4, database text, url text NOT NULL,
  added timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (host, port, database));
REVOKE ALL ON hihooi.leader, hihooi.beat, hihooi.backend, hihooi.replica FROM PUBLIC;
INSERT INTO hihooi.leader (epoch, is_released, name)
  SELECT pg_current_wal_insert_lsn() - '0/0', true, '' WHERE NOT EXISTS (SELECT FROM hihooi.leader);
COMMIT";

/// No setting of the role may end it, or change how texts are read; and passwords in the register's
/// URLs are in no log and no view. Only superusers may set the latter.
const SETTINGS: &str = "
SET standard_conforming_strings = on;
SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN
  ('statement_timeout', 'lock_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout');
SELECT set_config(name, setting, false)
  FROM (VALUES ('log_statement', 'none'), ('log_min_error_statement', 'panic'),
               ('log_min_duration_statement', '-1'), ('log_min_duration_sample', '-1'),
               ('log_transaction_sample_rate', '0'), ('track_activities', 'off')) quiet (name, setting)
 WHERE (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)";

/// A backend of the epochs before, as it was written down: another process may have its number now.
const BACKENDS: &str = "pg_stat_activity a JOIN hihooi.backend b
  ON b.pid = a.pid AND b.started = a.backend_start";

/// The name of this proxy as a holder of the lock.
#[derive(Clone, Debug)]
pub struct LockCandidate {
    /// The candidate's name for people.
    pub name: String,
    /// The name of its sessions, which no others have.
    session: String,
}

impl LockCandidate {
    /// Returns the name of this proxy. The number is unique.
    pub fn of(number: u64) -> LockCandidate {
        let machine = uname().nodename().to_string_lossy().into_owned();
        LockCandidate {
            name: format!("process {} on {machine}", std::process::id()),
            session: format!("{SESSION} {number:016x}"),
        }
    }
}

/// A session at the primary that has the lock, or tries to get it.
pub struct LeaderLock {
    client: Client,
    candidate: LockCandidate,
}

/// The holder of the lock, if it is not this session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockHolder {
    /// An earlier session of this proxy, whose lost connection the primary has not noticed.
    Own(i32),
    /// A session of another proxy.
    Other(i32),
    /// A session of no proxy.
    Stranger,
}

/// The state of the lock, as a standby sees it.
#[derive(Debug)]
pub struct StandbyView {
    /// The holder; none if the lock has just become free.
    pub holder: Option<LockHolder>,
    /// The holder's name, for people.
    pub name: String,
    /// The last heartbeat of the active proxy.
    pub beat: Option<LeaderHeartbeat>,
}

/// The beginning of an epoch, with the end of the previous one.
#[derive(Debug)]
pub struct EpochStart {
    /// The new epoch.
    pub epoch: u64,
    /// Whether the active proxy of the previous epoch has given up.
    pub was_released: bool,
    /// The last heartbeat of the epoch's leader.
    pub last_beat: Option<LeaderHeartbeat>,
}

impl LeaderLock {
    /// Opens a session without the lock.
    pub async fn open(
        primary: &Address,
        candidate: &LockCandidate,
    ) -> Result<LeaderLock, ReplicationError> {
        let client = connect(primary, &candidate.session).await?;
        let seat = LeaderLock {
            client,
            candidate: candidate.clone(),
        };
        seat.run(SETTINGS).await?;
        Ok(seat)
    }

    /// Creates the tables if they are missing.
    pub async fn make_tables(&self) -> Result<(), ReplicationError> {
        let made = timeout(ANSWER_MAX, self.client.simple_query(TABLES)).await;
        made.map_err(silent)?.map_err(setup_error)?;
        Ok(())
    }

    /// Acquires the lock if it is free.
    pub async fn try_lock(&self) -> Result<bool, ReplicationError> {
        let (class, object) = LOCK;
        let lock = format!("SELECT pg_try_advisory_lock({class}, {object})");
        Ok(self.one(&lock).await? == "t")
    }

    /// Returns the holder of the lock, and the last heartbeat of the active proxy.
    pub async fn look(&self) -> Result<StandbyView, ReplicationError> {
        let holder = format!(
            "SELECT a.pid, a.application_name, coalesce(a.usename, ''),
                    coalesce(host(a.client_addr), 'its own machine'), (SELECT name FROM hihooi.leader)
               FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE {}",
            is_lock()
        );
        let holder = timeout(ANSWER_MAX, rows(&self.client, &holder)).await;
        let holder = holder.map_err(silent)??;
        let Some(row) = holder.first() else {
            return Ok(StandbyView {
                holder: None,
                name: String::new(),
                beat: self.last_beat().await?,
            });
        };
        let (session, user, address) = (value(row, 1)?, value(row, 2)?, value(row, 3)?);
        let pid = value(row, 0)?;
        let not_a_number =
            |_| ReplicationError::Connection(format!("{pid} is not a process number"));
        let process = pid.parse().map_err(not_a_number)?;
        let is_proxy = session.starts_with(SESSION);
        let name = match is_proxy {
            true => format!("{} (from {address})", value(row, 4)?),
            false => format!(
                "an unknown session: user {user} from {address} has the proxies' lock (backend {pid})"
            ),
        };
        let holder = match (is_proxy, session == self.candidate.session) {
            (_, true) => LockHolder::Own(process),
            (true, _) => LockHolder::Other(process),
            _ => LockHolder::Stranger,
        };
        Ok(StandbyView {
            holder: Some(holder),
            name,
            beat: self.last_beat().await?,
        })
    }

    async fn last_beat(&self) -> Result<Option<LeaderHeartbeat>, ReplicationError> {
        let beats = rows(&self.client, "SELECT epoch, number FROM hihooi.beat");
        let beats = timeout(ANSWER_MAX, beats).await.map_err(silent)??;
        let beat = beats.first().map(|row| {
            Ok::<_, ReplicationError>(LeaderHeartbeat {
                epoch: number(&value(row, 0)?)?,
                number: number(&value(row, 1)?)?,
            })
        });
        beat.transpose()
    }

    /// Ends a session if it still has the lock.
    pub async fn end_session(&self, process: i32) -> Result<(), ReplicationError> {
        let end = format!(
            "SELECT pg_terminate_backend(l.pid) FROM pg_locks l WHERE l.pid = {process} AND {}",
            is_lock()
        );
        self.run(&end).await
    }

    /// Raises the epoch. This session must have the lock.
    pub async fn begin_epoch(&self) -> Result<EpochStart, ReplicationError> {
        let was_released = self.one("SELECT is_released FROM hihooi.leader").await? == "t";
        let last_beat = self.last_beat().await?;
        let name = literal(&self.candidate.name);
        let raise = format!(
            "UPDATE hihooi.leader SET epoch = epoch + 1, is_released = false, name = {name}
             RETURNING epoch"
        );
        Ok(EpochStart {
            epoch: number(&self.one(&raise).await?)?,
            was_released,
            last_beat,
        })
    }

    /// Sets the epoch to `epoch` + 1, without waiting for other proxies.
    pub async fn begin_after(&self, epoch: u64) -> Result<(), ReplicationError> {
        let raise = format!(
            "UPDATE hihooi.leader SET epoch = greatest(epoch, {epoch}), is_released = true, name = ''"
        );
        self.run(&raise).await
    }

    /// Returns the present epoch.
    pub async fn epoch(&self) -> Result<u64, ReplicationError> {
        number(&self.one("SELECT epoch FROM hihooi.leader").await?)
    }

    /// Records a heartbeat. Its success proves that the session has the lock. Returns whether
    /// another proxy waits for the lock.
    pub async fn beat(&self, beat: LeaderHeartbeat) -> Result<bool, ReplicationError> {
        let (epoch, number) = (beat.epoch, beat.number);
        let own = literal(&self.candidate.session);
        let show = format!(
            "INSERT INTO hihooi.beat (epoch, number) VALUES ({epoch}, {number})
             ON CONFLICT (one) DO UPDATE SET epoch = excluded.epoch, number = excluded.number
             RETURNING EXISTS (SELECT FROM pg_stat_activity
                                WHERE datname = current_database() AND application_name <> {own}
                                  AND application_name LIKE '{SESSION} %')"
        );
        Ok(self.one(&show).await? == "t")
    }

    /// Records backends as this proxy's. Returns those that exist.
    pub async fn write_down(&self, processes: &[u32]) -> Result<Vec<u32>, ReplicationError> {
        let list: Vec<String> = processes.iter().map(ToString::to_string).collect();
        let write = format!(
            "INSERT INTO hihooi.backend SELECT pid, backend_start FROM pg_stat_activity
              WHERE pid IN ({})
             ON CONFLICT (pid, started) DO UPDATE SET pid = excluded.pid RETURNING pid",
            list.join(", ")
        );
        let written = timeout(ANSWER_MAX, self.client.simple_query(&write)).await;
        let written = written.map_err(silent)??;
        let written = written.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
            _ => None,
        });
        Ok(written.collect())
    }

    /// Removes the records of backends that have ended.
    pub async fn prune(&self) -> Result<(), ReplicationError> {
        let prune = "DELETE FROM hihooi.backend b WHERE NOT EXISTS (SELECT FROM pg_stat_activity a
                      WHERE a.pid = b.pid AND a.backend_start = b.started)";
        self.run(prune).await
    }

    /// Changes the register. After the inner error nothing has changed. After the outer error that
    /// is unknown.
    pub async fn register(
        &self,
        change: &RegisterChange,
        epoch: u64,
    ) -> Result<Result<(), ReplicationError>, ReplicationError> {
        let answer = timeout(ANSWER_MAX, self.client.simple_query(&change.sql(epoch))).await;
        let answer = match answer.map_err(silent)? {
            Ok(answer) => answer,
            Err(error) => {
                let reported = error
                    .as_db_error()
                    .and_then(|reported| reported.parsed_severity());
                return match reported {
                    Some(Severity::Error) => Ok(Err(ReplicationError::Setup(format!(
                        "the primary refused to record the change, so nothing has changed: {}",
                        described(&error)
                    )))),
                    _ => Err(error.into()),
                };
            }
        };
        Ok(match first(&answer)?.as_str() {
            "1" => Ok(()),
            _ => Err(ReplicationError::Setup(
                "this proxy is not the active one any more: nothing has changed".into(),
            )),
        })
    }

    /// Ends the processes of earlier proxies at the primary: the backends of their clients, and the
    /// reader of the slot. Returns how many of these processes still exist.
    pub async fn fence(&self) -> Result<u64, ReplicationError> {
        let end = format!(
            "SELECT (SELECT count(pg_terminate_backend(a.pid)) FROM {BACKENDS})
                  + (SELECT count(pg_terminate_backend(active_pid)) FROM pg_replication_slots
                      WHERE slot_name = '{SLOT}' AND database = current_database()
                        AND active_pid IS NOT NULL)"
        );
        number(&self.one(&end).await?)
    }

    /// Removes the records of all backends, which have ended.
    pub async fn forget_backends(&self) -> Result<(), ReplicationError> {
        self.run("DELETE FROM hihooi.backend").await
    }

    /// Records that this proxy is no longer active, and releases the lock.
    pub async fn release(&self, epoch: u64) -> Result<(), ReplicationError> {
        let note = format!("UPDATE hihooi.leader SET is_released = true WHERE epoch = {epoch}");
        self.run(&note).await?;
        self.unlock().await
    }

    /// Releases the lock.
    pub async fn unlock(&self) -> Result<(), ReplicationError> {
        let (class, object) = LOCK;
        let unlock = format!("SELECT pg_advisory_unlock({class}, {object})");
        self.run(&unlock).await
    }

    async fn one(&self, sql: &str) -> Result<String, ReplicationError> {
        let answer = timeout(ANSWER_MAX, self.client.simple_query(sql)).await;
        first(&answer.map_err(silent)??)
    }

    async fn run(&self, sql: &str) -> Result<(), ReplicationError> {
        let done = timeout(ANSWER_MAX, self.client.simple_query(sql)).await;
        done.map_err(silent)??;
        Ok(())
    }
}

/// Returns the condition that `pg_locks l` is the lock, and held.
fn is_lock() -> String {
    let (class, object) = LOCK;
    format!(
        "l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = {class}
         AND l.objid = {object}
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
}

fn silent<T>(_: T) -> ReplicationError {
    ReplicationError::Connection("the primary does not answer".into())
}
