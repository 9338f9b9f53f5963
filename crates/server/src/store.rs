//! The interface of a core's storage: a log with group commit, and sorted tables.
//!
//! The trait separates the driver from crate `storage`, so that tests and baselines can run a core
//! without a disk. Only the machine knows the meaning of records.

use std::time::Duration;

use machines::core::{CoreMachine, LogRecord};
use placement::tables::{MemoryTables, Tables};
use protocol::identity::Position;
use storage::log::LogAdmission;

use crate::error::ServerError;

/// The log and the tables of one core.
pub trait CoreStore {
    /// The tables.
    type Tables: Tables;

    /// Returns the tables, as of the last write.
    fn tables(&mut self) -> &mut Self::Tables;

    /// Hands the disk's contents to a new machine: the checkpoint, then the log's records.
    ///
    /// # Errors
    /// It cannot be read: the process must not serve.
    fn recover(&mut self, machine: &mut CoreMachine) -> Result<(), ServerError>;

    /// Appends a record in memory; its position must be the log's next.
    ///
    /// # Errors
    /// The record cannot be taken: the process must stop.
    fn append(&mut self, record: &LogRecord) -> Result<(), ServerError>;

    /// Hands over the appended records to be written; once per turn.
    fn submit(&mut self);

    /// Returns the last durable position.
    fn durable(&self) -> Position;

    /// Checks that no write and no flush has failed.
    ///
    /// # Errors
    /// A write or a flush failed: the process must stop (R23).
    fn health(&self) -> Result<(), ServerError>;

    /// Returns whether new operations may enter.
    fn admission(&self) -> LogAdmission;

    /// Returns the reason why the disk has no space, for operators; none if it has space.
    fn shortage(&self) -> Option<String> {
        None
    }

    /// Returns whether enough has been logged since the last checkpoint for another one.
    fn checkpoint_due(&self) -> bool;

    /// Begins a checkpoint of the present tables, and does not wait for its end. Once the
    /// checkpoint is durable, the store may remove the log before both `retain_from` and the
    /// checkpoint.
    ///
    /// # Errors
    /// The process must stop.
    fn checkpoint(&mut self, retain_from: Position) -> Result<(), ServerError>;

    /// Returns whether it would take long to read the log again. Then a process that ends cleanly
    /// should make a checkpoint first.
    fn checkpoint_pays(&self) -> bool;

    /// Waits until no checkpoint is running, but no longer than this.
    fn finish_checkpoint(&mut self, within: Duration);

    /// Returns the store's counters by name, for operators.
    fn counters(&self) -> Vec<(String, u64)>;

    /// Writes and flushes everything, and ends.
    ///
    /// # Errors
    /// Not everything is durable.
    fn close(self) -> Result<(), ServerError>;
}

/// A store without a disk. Everything is durable at once, and lost with the process. For tests, and
/// for measurements without a disk.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: MemoryTables,
    appended: Position,
    durable: Position,
}

impl CoreStore for MemoryStore {
    type Tables = MemoryTables;

    fn tables(&mut self) -> &mut MemoryTables {
        &mut self.tables
    }

    fn recover(&mut self, _: &mut CoreMachine) -> Result<(), ServerError> {
        Ok(())
    }

    fn append(&mut self, record: &LogRecord) -> Result<(), ServerError> {
        self.appended.0 += 1;
        assert_eq!(record.position, self.appended, "log and machine disagree");
        Ok(())
    }

    fn submit(&mut self) {
        self.durable = self.appended;
    }

    fn durable(&self) -> Position {
        self.durable
    }

    fn health(&self) -> Result<(), ServerError> {
        Ok(())
    }

    fn admission(&self) -> LogAdmission {
        LogAdmission::Open
    }

    fn checkpoint_due(&self) -> bool {
        false
    }

    fn checkpoint(&mut self, _: Position) -> Result<(), ServerError> {
        Ok(())
    }

    fn checkpoint_pays(&self) -> bool {
        false
    }

    fn finish_checkpoint(&mut self, _: Duration) {}

    fn counters(&self) -> Vec<(String, u64)> {
        Vec::new()
    }

    fn close(self) -> Result<(), ServerError> {
        Ok(())
    }
}
