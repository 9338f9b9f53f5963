//! The part of a checkpoint that is not rows: the core saves this state before a checkpoint, and
//! restores it after a restart.

use core::fmt;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use protocol::codec::{DecodeError, Wire};
use protocol::identity::{CoreId, FinishedLine, Position, Version};
use protocol::planted::{self, Bug};
use protocol::record::SavedCompletion;

use crate::core::CoreMachine;
use crate::core::partition::tenures::LoggedTenure;

/// The number of the sorted table for everything but rows. No partition has this number.
pub(crate) const SAVED_TABLE: u64 = u64::MAX;
const LOGGED_KEY: &[u8] = b"logged";
const VERSION_KEY: &[u8] = b"version";
const EPOCH_KEY: &[u8] = b"epoch";
const SESSION_FLOOR_KEY: &[u8] = b"sessions";
const COMPLETION_PREFIX: &[u8] = b"completion/";
const HELD_PREFIX: &[u8] = b"held/";
const FINISHED_PREFIX: &[u8] = b"finished/";

/// A log or a checkpoint that this program cannot use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// A record with a valid checksum does not decode: another program wrote it.
    Record(Position, DecodeError),
    /// The state that a checkpoint saved does not decode.
    Checkpoint(DecodeError),
    /// A cold read failed.
    Tables(TablesError),
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Record(position, error) => write!(
                f,
                "log record {} is intact but unreadable ({error}): was the folder written by a \
                 newer release?",
                position.0
            ),
            RecoveryError::Checkpoint(error) => write!(
                f,
                "the checkpoint is unreadable ({error}): was the folder written by a newer \
                 release?"
            ),
            RecoveryError::Tables(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for RecoveryError {}

impl From<TablesError> for RecoveryError {
    fn from(error: TablesError) -> Self {
        RecoveryError::Tables(error)
    }
}

impl CoreMachine {
    /// Saves the state that is not in rows, for the checkpoint that follows directly.
    pub fn before_checkpoint<T: Tables>(&self, tables: &mut T) {
        tables.drop_table(SAVED_TABLE);
        let logged = self.log.next().0.to_bytes();
        tables.put(SAVED_TABLE, LOGGED_KEY, &logged);
        tables.put(SAVED_TABLE, VERSION_KEY, &self.versions.last().to_bytes());
        tables.put(SAVED_TABLE, EPOCH_KEY, &self.epoch().to_bytes());
        tables.put(
            SAVED_TABLE,
            SESSION_FLOOR_KEY,
            &self.sessions.floor().to_bytes(),
        );
        for (number, completion) in self.sessions.saved().enumerate() {
            let key = [COMPLETION_PREFIX, &(number as u64).to_be_bytes()].concat();
            tables.put(SAVED_TABLE, &key, &completion.to_bytes());
        }
        for (partition, tenure) in self.tenures.iter() {
            let key = [HELD_PREFIX, &partition.to_bytes()].concat();
            // The checkpoint has the log's records of it, durable or not: they are not read again.
            let is_whole = tenure.is_whole || self.takings.is_ending(partition);
            let saved = (partition, tenure.since, is_whole);
            tables.put(SAVED_TABLE, &key, &saved.to_bytes());
        }
        let own = (self.identity.core, self.own_finished());
        for (core, finished) in self.finished.iter().chain([own]) {
            let key = [FINISHED_PREFIX, &core.to_bytes()].concat();
            tables.put(SAVED_TABLE, &key, &(core, finished).to_bytes());
        }
    }

    /// Returns the position of the first record that the log must retain even if a checkpoint
    /// includes it: the first `Prepared` of an operation that some member has not finished, or the
    /// first seal since its table last served. Without such a record, returns the position of the
    /// next record.
    pub fn retain_from(&self) -> Position {
        let kept = self
            .members
            .values()
            .filter_map(|member| member.prepared_at());
        let sealed = self.sealing.first_at();
        if planted::is(Bug::LogCutEarly) {
            return self.log.next();
        }
        kept.chain(sealed).min().unwrap_or(self.log.next())
    }

    /// Restores the state of a checkpoint. This is the first step of a restart.
    ///
    /// # Errors
    /// See [`RecoveryError`]; not to be retried.
    pub fn restore<T: Tables>(&mut self, tables: &mut T) -> Result<(), RecoveryError> {
        let mut result = Ok(());
        tables.scan(SAVED_TABLE, b"", None, &mut |key, value| {
            result = self.restore_entry(key, value);
            if result.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        result.map_err(RecoveryError::Checkpoint)?;
        Ok(self.review_entries(&self.view.table_ids(), tables)?)
    }

    fn restore_entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        if key == LOGGED_KEY {
            self.log.restore(Position(Wire::decode_all(value)?));
        } else if key == VERSION_KEY {
            self.versions.log(Version::decode_all(value)?);
        } else if key == EPOCH_KEY {
            self.log.note_epoch(Wire::decode_all(value)?);
        } else if key == SESSION_FLOOR_KEY {
            self.sessions.end_below(Wire::decode_all(value)?);
        } else if key.starts_with(COMPLETION_PREFIX) {
            let saved = SavedCompletion::decode_all(value)?;
            self.sessions.keep(saved.head, &saved.request);
        } else if key.starts_with(HELD_PREFIX) {
            let (partition, since, is_whole) = Wire::decode_all(value)?;
            let tenure = LoggedTenure { since, is_whole };
            self.tenures.begin(partition, tenure);
        } else if key.starts_with(FINISHED_PREFIX) {
            let (core, finished) = <(CoreId, FinishedLine)>::decode_all(value)?;
            self.finished.raise(core, finished);
        }
        Ok(())
    }
}
