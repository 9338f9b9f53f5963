//! The durable state of one core: a folder with its log and its tables, which are opened together
//! and kept consistent.
//!
//! The log is the truth. A *checkpoint* brings the cold store to the state after some record, and
//! releases the earlier log. A restart replays the log from there on. This module knows the order
//! in which the parts must become durable, but nothing of the meaning of records and entries.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use placement::Position;

use crate::disk::FolderDisk;
use crate::error::StorageError;
use crate::log::{Log, LogAdmission, LogOptions, Recovery};
use crate::manifest::{Manifest, State};
use crate::tables::{CheckpointMark, Checkpointer, ColdStore, DurableTables};

/// Changed leaves handed to the checkpointer per turn of the loop, so that no turn is long.
const GATHER_RANGES: usize = 128;

/// Leaves rid of saved tombstones per turn.
const PURGE_RANGES: usize = 64;

/// Between two looks at a checkpoint that is waited for.
const FINISH_PAUSE: Duration = Duration::from_millis(2);
/// On a full disk a checkpoint is due after this few bytes of log: a checkpoint frees segments.
const EXHAUSTED_CHECKPOINT_BYTES: u64 = 64 << 10;

/// The cold store's cache takes this share of the tables' memory, within [`CACHE_BYTES`].
const CACHE_SHARE: u64 = 16;

/// Bounds of the cold store's cache: it holds parts of filters and indexes at least.
const CACHE_BYTES: RangeInclusive<u64> = 8 << 20..=256 << 20;

/// The time without new records after which a log counts as quiet.
pub const QUIET: Duration = Duration::from_secs(1);

/// Changes that no checkpoint has saved take at most this share of the tables' memory before one
/// is due.
const CHANGED_SHARE: (u64, u64) = (3, 8);

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Whether an empty folder is a new store. Otherwise it is a loss.
    pub create: bool,
    /// The bytes of memory for the tables. Rows beyond it are read from disk. A sixteenth more,
    /// between 8 and 256 MiB, caches these reads.
    pub memory_bytes: usize,
    /// The bytes of log since the last checkpoint after which a checkpoint is due, however busy the
    /// log is. A restart reads at most about this many bytes.
    pub checkpoint_bytes: u64,
    /// The same for a quiet log, see [`QUIET`]. After a load a checkpoint then delays no request,
    /// and a restart reads less.
    pub quiet_checkpoint_bytes: u64,
    /// The bytes of a log segment. At rest three segments are on disk.
    pub segment_bytes: u64,
    /// The longest time until a written record of durability `replicated` is flushed.
    pub flush_interval: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        let log = LogOptions::new(0);
        Self {
            create: true,
            memory_bytes: 1 << 30,
            checkpoint_bytes: 512 << 20,
            quiet_checkpoint_bytes: 32 << 20,
            segment_bytes: log.segment_bytes,
            flush_interval: log.flush_interval,
        }
    }
}

/// Log and tables of one core, in one folder.
///
/// The loop that owns it appends to `log`, applies to `tables`, and calls
/// [`DurableStore::submit`] once per turn, also when it appended nothing.
pub struct DurableStore {
    /// The log. Submit records through the store, not here.
    pub log: Log,
    /// The tables.
    pub tables: DurableTables,
    checkpointer: Checkpointer,
    running: Option<RunningCheckpoint>,
    last: Option<CheckpointMark>,
    failure: Option<String>,
    purge: VecDeque<(u64, Vec<u8>)>,
    /// Bytes that the log had received when the last checkpoint began.
    logged_before: u64,
    /// The size of the log beyond the checkpoint when it was opened; 0 once there is a newer
    /// checkpoint.
    replayed_bytes: u64,
    /// Bytes that the log had received at the last change of that number, and its time.
    appended: (u64, Instant),
    checkpoints: u64,
    options: StoreOptions,
    wake: Arc<dyn Fn() + Send + Sync>,
    cold: ColdStore,
    _lock: File,
}

/// A checkpoint on its way.
struct RunningCheckpoint {
    mark: CheckpointMark,
    gathered: bool,
    finishing: bool,
}

/// The state of a store when it was opened.
pub struct StoreRecovery {
    /// The checkpoint of the tables; none if they are empty.
    pub checkpoint: Option<CheckpointMark>,
    /// The records to replay, and the damage of the log.
    pub log: Recovery,
}

impl DurableStore {
    /// Opens or creates the store in `folder`. `identity` is a random number from its creation, and
    /// must be the same at every later opening (R16). The store's threads call `wake` when the
    /// event loop should take a turn.
    ///
    /// # Errors
    /// Everything that opening can meet; see [`StorageError`].
    pub fn open(
        folder: &Path,
        identity: u64,
        options: StoreOptions,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Result<(Self, StoreRecovery), StorageError> {
        let shown = folder.display();
        fs::create_dir_all(folder).map_err(StorageError::io(format!("create folder {shown}")))?;
        let lock = lock_folder(folder)?;
        let manifest = open_manifest(folder, identity, options.create)?;
        let cache_bytes = options.memory_bytes as u64 / CACHE_SHARE;
        let cache_bytes = cache_bytes.clamp(*CACHE_BYTES.start(), *CACHE_BYTES.end());
        let cold = ColdStore::open(&folder.join("tables"), cache_bytes)?;
        let checkpoint = cold.mark()?;
        let log_options = LogOptions {
            create: manifest.state == State::Creating,
            replay_from: checkpoint.map_or(Position(1), |mark| mark.replay_from()),
            segment_bytes: options.segment_bytes,
            flush_interval: options.flush_interval,
            ..LogOptions::new(manifest.identity)
        };
        let log_folder = folder.join("log");
        let disk = FolderDisk::open(&log_folder).map_err(StorageError::io(format!(
            "open folder {}",
            log_folder.display()
        )))?;
        let wake: Arc<dyn Fn() + Send + Sync> = Arc::new(wake);
        let log_wake = Arc::clone(&wake);
        let (log, recovery) =
            Log::open(Arc::new(disk), &log_options, Box::new(move || log_wake()))?;
        if manifest.state == State::Creating {
            Manifest {
                state: State::Ready,
                ..manifest
            }
            .replace(folder)?;
        }
        let tables = DurableTables::over(cold.clone(), options.memory_bytes, checkpoint.is_none());
        let checkpointer = Checkpointer::start(cold.clone(), Arc::clone(&wake))?;
        let store = Self {
            log,
            tables,
            checkpointer,
            running: None,
            last: checkpoint,
            failure: None,
            purge: VecDeque::new(),
            logged_before: 0,
            replayed_bytes: recovery.bytes,
            appended: (0, Instant::now()),
            checkpoints: 0,
            options,
            wake,
            cold,
            _lock: lock,
        };
        let recovery = StoreRecovery {
            checkpoint,
            log: recovery,
        };
        Ok((store, recovery))
    }

    /// Passes the appended records to the committer thread, and continues a checkpoint by a bounded
    /// step.
    pub fn submit(&mut self) {
        self.log.submit();
        let appended = self.log.appended_bytes();
        if appended != self.appended.0 {
            self.appended = (appended, Instant::now());
        }
        self.advance();
    }

    /// Returns the reason why the disk has no space for the log or a checkpoint; none if it has.
    pub fn exhaustion(&self) -> Option<String> {
        self.log.exhaustion().or_else(|| self.failure.clone())
    }

    /// Returns whether the loop should call [`DurableStore::checkpoint`] now.
    pub fn checkpoint_due(&self) -> bool {
        let logged = self.unsaved_bytes();
        let changed = self.tables.changed_bytes();
        let (share, of) = CHANGED_SHARE;
        let due = logged >= self.options.checkpoint_bytes
            || changed >= self.options.memory_bytes as u64 / of * share
            || logged >= self.options.quiet_checkpoint_bytes && self.appended.1.elapsed() >= QUIET
            || logged >= EXHAUSTED_CHECKPOINT_BYTES
                && self.log.has_old_segments()
                && self.log.exhaustion().is_some();
        due && self.running.is_none()
    }

    /// Begins a checkpoint of the tables as they are after the last appended record. The log keeps
    /// records from `retain_from` on even if the checkpoint includes them. If a checkpoint is
    /// running, the call does nothing.
    pub fn checkpoint(&mut self, retain_from: Position) {
        if self.running.is_some() {
            return;
        }
        // The entries that the last checkpoint left to forget refer to earlier leaves.
        while self.purge_some() {}
        let mark = CheckpointMark {
            position: self.log.last(),
            retain_from,
        };
        self.logged_before = self.log.appended_bytes();
        self.replayed_bytes = 0;
        let generations = self.tables.begin_gathering();
        self.checkpointer.begin(mark, generations);
        self.running = Some(RunningCheckpoint {
            mark,
            gathered: false,
            finishing: false,
        });
        self.advance();
    }

    /// Returns the bytes of the log that the next opening would read.
    pub fn unsaved_bytes(&self) -> u64 {
        self.log.appended_bytes() - self.logged_before + self.replayed_bytes
    }

    /// Waits until no checkpoint is running, for at most this time. Does not wait for a checkpoint
    /// that fails.
    pub fn finish_checkpoint(&mut self, within: Duration) {
        let begin = Instant::now();
        while self.running.is_some() && self.failure.is_none() && begin.elapsed() < within {
            self.submit();
            if self.health().is_err() {
                return;
            }
            std::thread::sleep(FINISH_PAUSE);
        }
    }

    /// Returns whether a checkpoint is running.
    pub fn checkpoint_running(&self) -> bool {
        self.running.is_some()
    }

    /// Returns the last durable checkpoint.
    pub fn last_checkpoint(&self) -> Option<CheckpointMark> {
        self.last
    }

    /// Returns the reason why a checkpoint does not advance, usually a full disk; none if it does.
    /// The store tries it again.
    pub fn checkpoint_failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    fn advance(&mut self) {
        if self.purge_some() {
            (self.wake)();
        }
        let Some(running) = &mut self.running else {
            return;
        };
        if !running.gathered {
            let (changes, done) = self.tables.gather(GATHER_RANGES);
            self.checkpointer.add(changes);
            running.gathered = done;
            // The next step needs a turn of its own.
            (self.wake)();
        }
        // Tables on disk must never be ahead of the log on disk.
        let durable = self.log.durable() >= running.mark.position;
        if running.gathered && durable && !running.finishing {
            running.finishing = true;
            self.checkpointer.finish();
        }
        let progress = self.checkpointer.progress();
        self.failure = progress.failure;
        if let Some(completed) = progress.completed {
            self.tables.complete(completed.generation);
            self.log.truncate_before(completed.mark.replay_from());
            self.purge = completed.purge.into();
            self.last = Some(completed.mark);
            self.running = None;
            self.checkpoints += 1;
            (self.wake)();
        }
    }

    /// Forgets some saved tombstones; true if more are left.
    fn purge_some(&mut self) -> bool {
        let count = self.purge.len().min(PURGE_RANGES);
        for (table, key) in self.purge.drain(..count) {
            self.tables.purge(table, &key);
        }
        !self.purge.is_empty()
    }

    /// Returns whether a new operation with `bytes` of records may begin. The log must have space,
    /// and memory must have room for changes that no checkpoint has saved.
    pub fn admission(&self, bytes: u64) -> LogAdmission {
        let limit = self.options.memory_bytes + self.options.memory_bytes / 2;
        let swamped = self.tables.memory_bytes() > limit && self.running.is_some();
        let has_room = self.log.admission(bytes);
        // A checkpoint is about to give segments back.
        let is_checkpointing = self.running.is_some() || self.checkpoint_due();
        let frees = is_checkpointing && self.log.has_old_segments() && self.failure.is_none();
        if frees && matches!(has_room, LogAdmission::Reserve | LogAdmission::Full) {
            return LogAdmission::Busy;
        }
        match (has_room, swamped, &self.failure) {
            (LogAdmission::Open, true, Some(_)) => LogAdmission::Full,
            (LogAdmission::Open, true, None) => LogAdmission::Busy,
            (admission, _, _) => admission,
        }
    }

    /// Returns an error if the store has failed. The process must then stop (R23).
    ///
    /// # Errors
    /// [`StorageError::Fatal`].
    pub fn health(&self) -> Result<(), StorageError> {
        self.log.health()
    }

    /// Returns counters for operators, by name.
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("log_bytes", self.log.appended_bytes()),
            ("log_position", self.log.last().0),
            ("log_position_durable", self.log.durable().0),
            ("log_position_retained", self.log.first_retained().0),
            ("tables_memory_bytes", self.tables.memory_bytes() as u64),
            ("tables_changed_bytes", self.tables.changed_bytes()),
            ("tables_disk_bytes", self.cold.disk_bytes()),
            ("checkpoints", self.checkpoints),
        ]
    }

    /// Writes and flushes the appended records, and closes the folder. It abandons a running
    /// checkpoint, because the log has all changes.
    ///
    /// # Errors
    /// [`StorageError::Fatal`] if not everything is durable.
    pub fn close(self) -> Result<(), StorageError> {
        drop(self.checkpointer);
        self.log.close()
    }
}

/// Takes the folder for this process alone, until the file is closed.
fn lock_folder(folder: &Path) -> Result<File, StorageError> {
    let path = folder.join("lock");
    let action = format!("lock {}", path.display());
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let mut file = options.map_err(StorageError::io(action.clone()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder is named as a help; without it the error is as true.
            let _ = file.read_to_string(&mut holder);
            return Err(StorageError::Locked {
                folder: folder.display().to_string(),
                holder: holder.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(error)) => return Err(StorageError::io(action)(error)),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(StorageError::io(action))?;
    Ok(file)
}

/// Returns the folder's manifest, made if it may be.
fn open_manifest(folder: &Path, identity: u64, create: bool) -> Result<Manifest, StorageError> {
    match Manifest::read(folder)? {
        Some(manifest) if manifest.identity == identity => Ok(manifest),
        Some(_) => Err(StorageError::Foreign {
            file: format!("the manifest in {}", folder.display()),
        }),
        None if !create => Err(StorageError::Lost {
            what: format!("the manifest of {} is gone", folder.display()),
        }),
        None => {
            refuse_orphans(folder)?;
            let state = State::Creating;
            Manifest { identity, state }.replace(folder)
        }
    }
}

/// Checks that a folder without a manifest has nothing that a manifest would have recorded.
fn refuse_orphans(folder: &Path) -> Result<(), StorageError> {
    let parts = ["log", "tables"].map(|part| folder.join(part));
    let found: Option<&PathBuf> = parts.iter().find(|part| part.exists());
    match found {
        None => Ok(()),
        Some(part) => Err(StorageError::Lost {
            what: format!("{} is there, and its manifest is not", part.display()),
        }),
    }
}
