//! A core's store on a disk: the log of crate `storage`, and the tables that are derived from the
//! log.
//!
//! Replaying the log from the last checkpoint on completes the tables. A damaged log is refused,
//! because a server whose log may lack durable records must not vote (R24).

use std::path::Path;
use std::time::Duration;

use machines::core::{CoreMachine, LogRecord};
use placement::Durability;
use protocol::identity::Position;
use storage::log::{FlushTiming, LogAdmission, ReplayItem};
use storage::tables::DurableTables;
use storage::{DurableStore, StorageError, StoreOptions, StoreRecovery};

use crate::disk_space::DiskSpace;
use crate::error::ServerError;
use crate::event_loop::LoopHandle;
use crate::store::CoreStore;

/// Space that must be there for an operation to be let in: the largest row in several images, and
/// not more than this part of a segment.
const ADMISSION_BYTES: u64 = 4 << 20;
const ADMISSION_SHARE: u64 = 8;
/// A log of less than this is read faster than a checkpoint is made.
const CHECKPOINT_PAYS_BYTES: u64 = 4 << 20;
/// Space that is left to checkpoints, so that they end and deleted rows can give theirs back: one
/// checkpoint, and this part of a segment.
const RESERVE_SHARE: u64 = 2;

/// The log and the tables of one core, on disk.
pub struct DiskStore {
    store: DurableStore,
    admission_bytes: u64,
    space: DiskSpace,
    recovery: Option<StoreRecovery>,
}

/// The options of a core's store.
#[derive(Clone, Debug)]
pub struct DiskStoreOptions {
    /// Identifies the data folder (R16).
    pub disk: u64,
    /// The options of memory, checkpoints and segments. They also state whether the core is new;
    /// otherwise an empty folder is a loss.
    pub store: StoreOptions,
}

impl DiskStore {
    /// Opens or creates the store in `folder`. `handle` is woken when records become durable.
    ///
    /// # Errors
    /// The store is in use, damaged or of a newer format, or a system call fails.
    pub fn open(
        folder: &Path,
        options: DiskStoreOptions,
        handle: LoopHandle,
    ) -> Result<Self, ServerError> {
        let mut options = options;
        let space = DiskSpace::of(folder);
        options.store.segment_bytes = space.segment_bytes(options.store.segment_bytes);
        let checkpoint_bytes = space.checkpoint_bytes(options.store.checkpoint_bytes);
        options.store.checkpoint_bytes = checkpoint_bytes;
        let quiet_bytes = options.store.quiet_checkpoint_bytes;
        options.store.quiet_checkpoint_bytes = quiet_bytes.min(checkpoint_bytes);
        let segment_share = options.store.segment_bytes / RESERVE_SHARE;
        let space = space.with_reserve(checkpoint_bytes + segment_share);
        let admission_bytes = ADMISSION_BYTES.min(options.store.segment_bytes / ADMISSION_SHARE);
        let wake = move || handle.wake();
        let (store, recovery) = DurableStore::open(folder, options.disk, options.store, wake)?;
        if let Some(damage) = recovery.log.damage.first() {
            return Err(ServerError::Folder(format!(
                "the log in {} is damaged ({damage}): votes and rows may be lost, so this server \
                 must not serve; let the others take over its partitions (replex admin server \
                 remove), and start a new server on an empty folder",
                folder.display()
            )));
        }
        Ok(DiskStore {
            store,
            admission_bytes,
            space,
            recovery: Some(recovery),
        })
    }
}

impl CoreStore for DiskStore {
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
                failure = machine.replay(record.position, record.payload, &mut self.store.tables);
            }
            Ok(())
        })?;
        failure.map_err(unreadable)
    }

    fn append(&mut self, record: &LogRecord) -> Result<(), ServerError> {
        let flush = match record.durability {
            Durability::Sync => FlushTiming::Now,
            Durability::Replicated => FlushTiming::Interval,
        };
        let position = self
            .store
            .log
            .append(record.epoch.0, &record.bytes, flush)?;
        assert_eq!(position, record.position, "log and machine disagree");
        Ok(())
    }

    fn submit(&mut self) {
        self.store.submit();
    }

    fn durable(&self) -> Position {
        self.store.log.durable()
    }

    fn health(&self) -> Result<(), ServerError> {
        Ok(self.store.health()?)
    }

    fn admission(&self) -> LogAdmission {
        let is_low = self.space.is_low();
        match self.store.admission(self.admission_bytes) {
            LogAdmission::Open | LogAdmission::Busy if is_low => LogAdmission::Reserve,
            admission => admission,
        }
    }

    fn shortage(&self) -> Option<String> {
        let space = self.space.summary();
        let why = self.store.exhaustion();
        Some(why.map_or(space.clone(), |why| format!("{why}; {space}")))
    }

    fn checkpoint_due(&self) -> bool {
        self.store.checkpoint_due()
    }

    fn checkpoint(&mut self, retain_from: Position) -> Result<(), ServerError> {
        self.store.checkpoint(retain_from);
        Ok(())
    }

    fn checkpoint_pays(&self) -> bool {
        self.store.unsaved_bytes() >= CHECKPOINT_PAYS_BYTES
    }

    fn finish_checkpoint(&mut self, within: Duration) {
        self.store.finish_checkpoint(within);
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counters = self.store.counters().into_iter();
        let counters = counters.chain(self.space.counters());
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
