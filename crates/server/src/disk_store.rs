//! A core's store on a disk: `storage`'s log, and tables that are its materialisation.
//!
//! Replaying the log from the last checkpoint on completes the tables. What is damaged is refused,
//! not guessed: a server whose log may lack durable records must not vote (SAFETY R24).

use std::path::Path;

use placement::Durability;
use protocol::identity::Position;
use protocol::machine::{CoreMachine, LogRecord};
use storage::log::{self, Flush, ReplayItem};
use storage::tables::DurableTables;
use storage::{DurableStore, StorageError, StoreOptions, StoreRecovery};

use crate::error::ServerError;
use crate::event_loop::Handle;
use crate::store::{Admission, Store};

/// Space that must be there for an operation to be let in: the largest row in several images, and
/// not more than this part of a segment.
const ADMISSION_BYTES: u64 = 4 << 20;
const ADMISSION_SHARE: u64 = 8;

/// Log and tables of one core.
pub struct DiskStore {
    store: DurableStore,
    admission_bytes: u64,
    recovery: Option<StoreRecovery>,
}

/// Where and how a core's store is opened.
#[derive(Clone, Debug)]
pub struct DiskStoreOptions {
    /// Names the data folder (SAFETY R16).
    pub disk: u64,
    /// Memory, checkpoints, segments; and whether the core is new: otherwise an empty folder is a
    /// loss.
    pub store: StoreOptions,
}

impl DiskStore {
    /// Opens or creates the store in `folder`; `handle` is woken when records become durable.
    ///
    /// # Errors
    /// It is in use, damaged, of a newer format, or the system refuses.
    pub fn open(
        folder: &Path,
        options: DiskStoreOptions,
        handle: Handle,
    ) -> Result<Self, ServerError> {
        let admission_bytes = ADMISSION_BYTES.min(options.store.segment_bytes / ADMISSION_SHARE);
        let wake = move || handle.wake();
        let (store, recovery) = DurableStore::open(folder, options.disk, options.store, wake)?;
        if let Some(damage) = recovery.log.damage.first() {
            return Err(ServerError::Folder(format!(
                "the log in {} is damaged ({damage}): votes and rows may be lost, so this server \
                 must not serve; restore the folder from a copy",
                folder.display()
            )));
        }
        Ok(DiskStore {
            store,
            admission_bytes,
            recovery: Some(recovery),
        })
    }
}

impl Store for DiskStore {
    type Tables = DurableTables;

    fn tables(&mut self) -> &mut DurableTables {
        &mut self.store.tables
    }

    fn recover(&mut self, machine: &mut CoreMachine) -> Result<(), ServerError> {
        let Some(recovery) = self.recovery.take() else {
            return Ok(());
        };
        let unreadable = |error| ServerError::Folder(format!("{error}"));
        machine
            .restore(&mut self.store.tables)
            .map_err(unreadable)?;
        let mut failure = Ok(());
        recovery.log.replay(&mut |item| {
            // There is no gap where there is no damage, and damage was refused above.
            if let ReplayItem::Record(record) = item
                && failure.is_ok()
            {
                let position = Position(record.position.0);
                failure = machine.replay(position, record.payload, &mut self.store.tables);
            }
            Ok(())
        })?;
        failure.map_err(unreadable)
    }

    fn append(&mut self, record: &LogRecord) -> Result<(), ServerError> {
        let flush = match record.durability {
            Durability::Sync => Flush::Now,
            Durability::Replicated => Flush::Interval,
        };
        let position = self
            .store
            .log
            .append(record.epoch.0, &record.bytes, flush)?;
        assert_eq!(position.0, record.position.0, "log and machine disagree");
        Ok(())
    }

    fn submit(&mut self) {
        self.store.submit();
    }

    fn durable(&self) -> Position {
        Position(self.store.log.durable().0)
    }

    fn health(&self) -> Result<(), ServerError> {
        Ok(self.store.health()?)
    }

    fn admission(&self) -> Admission {
        match self.store.admission(self.admission_bytes) {
            log::Admission::Open => Admission::Open,
            log::Admission::Busy => Admission::Busy,
            log::Admission::Full => Admission::Full,
        }
    }

    fn checkpoint_due(&self) -> bool {
        self.store.checkpoint_due()
    }

    fn checkpoint(&mut self, retain_from: Position) -> Result<(), ServerError> {
        self.store
            .checkpoint(storage::record::Position(retain_from.0));
        Ok(())
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.store.counters().into_iter();
        counters
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn close(self) -> Result<(), ServerError> {
        Ok(self.store.close()?)
    }
}

impl From<StorageError> for ServerError {
    fn from(error: StorageError) -> Self {
        ServerError::Storage(error)
    }
}
