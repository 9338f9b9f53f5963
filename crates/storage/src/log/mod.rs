//! The log of one core: append-only records with group commit, on segments of fixed size.
//!
//! The event loop owns a [`Log`]. It appends records to memory and hands them over once per turn
//! with [`Log::submit`]. The *committer* thread takes all waiting records, writes them, flushes
//! them, and publishes the durable position. While it flushes, the next batch gathers. It is woken
//! for records that a client waits for; others gather for [`LogOptions::write_interval`] first,
//! because a wake-up costs more than a record. The *preparer* thread keeps spare segments ready, so
//! that neither the loop nor the committer waits for space. No lock is held over I/O. The meaning
//! of records and checkpoints are no concern of the log.
//!
//! Invariants: a segment's records are all durable before the next segment begins. Positions have
//! no gap unless damage made one. Only [`Log::truncate_before`] removes records.

mod committer;
mod preparer;
mod recovery;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use placement::Position;

use crate::disk::Disk;
use crate::error::StorageError;
use crate::record::{self, Encoder, SegmentKey, StoredRecord};
use crate::segment::{self, BLOCK_BYTES};
use preparer::Spares;
pub use recovery::{Damage, Recovery, ReplayItem};

/// The bytes of submitted and unwritten records above which new writes are refused as
/// [`LogAdmission::Busy`].
pub const PENDING_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The bytes of submitted records from which the committer writes them without waiting for more.
const GATHERED_BYTES_MAX: usize = 1024 * 1024;

/// A record takes at most this share of a segment.
const RECORD_SHARE: u64 = 4;

/// The options of a log. One core's log takes three segments of disk at rest.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Random number drawn when the log was created; the same at every later opening (R16).
    pub identity: u64,
    /// Whether the log is new. If it is not, an empty folder is a loss, not a beginning.
    pub create: bool,
    /// First position to replay: the one after the last that a checkpoint covers.
    pub replay_from: Position,
    /// Bytes of a segment file: its first block and the records.
    pub segment_bytes: u64,
    /// The time for which records of [`FlushTiming::Interval`] are collected in memory before they
    /// are written.
    pub write_interval: Duration,
    /// Longest time that a record of [`FlushTiming::Interval`], once written, stays unflushed.
    pub flush_interval: Duration,
}

impl LogOptions {
    /// Returns a new log of 32 MiB segments. Records are written within 5 ms and flushed within 45
    /// more.
    pub fn new(identity: u64) -> Self {
        Self {
            identity,
            create: true,
            replay_from: Position(1),
            segment_bytes: 32 * 1024 * 1024,
            write_interval: Duration::from_millis(5),
            flush_interval: Duration::from_millis(45),
        }
    }
}

/// The time by which a record must be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushTiming {
    /// As soon as the disk can: for tables of durability `sync`, and for seals and decisions.
    Now,
    /// Written and flushed within their intervals, or with the next record that asks for it: for
    /// tables of durability `replicated`.
    Interval,
}

/// Whether the log has room for a new operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogAdmission {
    /// The log admits the operation. Its records and its decision fit on the disk.
    Open,
    /// The disk is slower than the writes. Delay new writes until the next wake-up or a moment
    /// later.
    Busy,
    /// Only the reserve of the disk is free. Admit writes that free space, and refuse other writes
    /// with an error that names the disk. Reads and decisions continue.
    Reserve,
    /// The reserve is used up: refuse all new writes.
    Full,
}

/// Called by the log's threads when the durable position rose or the log failed.
pub type Wake = Box<dyn Fn() + Send + Sync>;

/// The log of one core. Dropping it writes and flushes the submitted records.
pub struct Log {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    segment_bytes: u64,
    /// Position of the next record.
    next: Position,
    encoder: Encoder,
    identity: u64,
    /// Where the next record goes in the segment being filled.
    offset: u64,
    /// Segments begun by appends, ever. The committer counts the segments that it has begun on
    /// disk.
    segments_begun: u64,
    local: Batch,
    appended_bytes: u64,
}

impl Log {
    /// Opens or creates the log on `disk`, copies its tail to a new file (R23) and starts its
    /// threads. `wake` is called by them, and must not block.
    ///
    /// # Errors
    /// Everything that opening can meet; see [`StorageError`]. Damage is no error: the [`Recovery`]
    /// reports it.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &LogOptions,
        wake: Wake,
    ) -> Result<(Self, Recovery), StorageError> {
        assert!(options.segment_bytes >= 2 * BLOCK_BYTES as u64);
        assert!(
            options
                .segment_bytes
                .is_multiple_of(record::ALIGNMENT as u64)
        );
        let opened = recovery::open(&disk, options)?;
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            queue_changed: Condvar::new(),
            durable: AtomicU64::new(opened.next.0 - 1),
            pending_bytes: AtomicU64::new(0),
            segments_begun: AtomicU64::new(0),
            fatal: OnceLock::new(),
            spares: Spares::new(options.segment_bytes, opened.spares),
            segments: Mutex::new(opened.segments),
            disk,
            wake,
        });
        let committer =
            committer::Committer::new(Arc::clone(&shared), opened.file, opened.next, options);
        let preparer = Arc::clone(&shared);
        let threads = vec![
            spawn("log-committer", move || committer.run())?,
            spawn("log-preparer", move || preparer::run(&preparer))?,
        ];
        let log = Self {
            shared,
            threads,
            segment_bytes: options.segment_bytes,
            next: opened.next,
            encoder: Encoder::new(&opened.key),
            identity: options.identity,
            offset: opened.offset,
            segments_begun: 0,
            local: Batch::default(),
            appended_bytes: 0,
        };
        Ok((log, opened.recovery))
    }

    /// Appends a record to memory; nothing is written before [`Log::submit`].
    ///
    /// # Errors
    /// [`StorageError::RecordTooLarge`], and nothing else; the log is unchanged then.
    pub fn append(
        &mut self,
        epoch: u64,
        payload: &[u8],
        flush: FlushTiming,
    ) -> Result<Position, StorageError> {
        if payload.len() > self.record_bytes_max() {
            return Err(StorageError::RecordTooLarge {
                bytes: payload.len(),
                bytes_max: self.record_bytes_max(),
            });
        }
        let bytes = record::record_bytes(payload.len()) as u64;
        if self.offset + bytes > self.segment_bytes {
            self.begin_segment();
        }
        if self.local.pieces.is_empty() {
            self.local.pieces.push(SegmentSlice {
                begins: None,
                offset: self.offset,
                start: 0,
            });
        }
        let position = self.next;
        let record = StoredRecord {
            position,
            epoch,
            durable: self.durable(),
            payload,
        };
        self.encoder.encode(&record, &mut self.local.bytes);
        self.local.last = position;
        self.local.flush |= flush == FlushTiming::Now;
        self.next = position.next();
        self.offset += bytes;
        self.appended_bytes += bytes;
        Ok(position)
    }

    fn begin_segment(&mut self) {
        let key = SegmentKey {
            identity: self.identity,
            first: self.next,
            generation: 0,
        };
        self.encoder = Encoder::new(&key);
        self.offset = BLOCK_BYTES as u64;
        self.segments_begun += 1;
        self.local.pieces.push(SegmentSlice {
            begins: Some(key),
            offset: self.offset,
            start: self.local.bytes.len(),
        });
    }

    /// Hands the appended records to the committer. Call it once per turn of the event loop.
    pub fn submit(&mut self) {
        if self.local.pieces.is_empty() {
            return;
        }
        let bytes = self.local.bytes.len() as u64;
        self.shared
            .pending_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let mut queue = lock(&self.shared.queue);
        queue.batch.take(&mut self.local);
        let wakes = match queue.committer {
            Attention::Busy => false,
            Attention::Gathers => queue.batch.is_urgent(),
            Attention::Sleeps => true,
        };
        if wakes {
            queue.committer = Attention::Busy;
        }
        drop(queue);
        if wakes {
            self.shared.queue_changed.notify_one();
        }
    }

    /// Returns the position up to which every record is durable.
    pub fn durable(&self) -> Position {
        Position(self.shared.durable.load(Ordering::Acquire))
    }

    /// Returns the position of the last record appended, durable or not.
    pub fn last(&self) -> Position {
        Position(self.next.0 - 1)
    }

    /// Returns bytes appended since the log was opened, headers included.
    pub fn appended_bytes(&self) -> u64 {
        self.appended_bytes
    }

    /// Returns the longest payload in bytes.
    pub fn record_bytes_max(&self) -> usize {
        let records = self.segment_bytes - BLOCK_BYTES as u64;
        (records / RECORD_SHARE) as usize - record::HEADER_BYTES
    }

    /// Checks that the log has not failed. After a failure the process must stop, without another
    /// attempt (R23).
    ///
    /// # Errors
    /// [`StorageError::Fatal`].
    pub fn health(&self) -> Result<(), StorageError> {
        match self.shared.fatal.get() {
            None => Ok(()),
            Some(what) => Err(StorageError::Fatal { what: what.clone() }),
        }
    }

    /// Returns whether the log admits a new operation whose records take `bytes`.
    ///
    /// The space for the operation, and for decisions on earlier admitted operations, is already on
    /// the disk. One spare segment is kept for a restart's copy of the tail, and another segment or
    /// half a segment for decisions. On a full disk, a quarter of that half is the reserve for
    /// operations that free space.
    pub fn admission(&self, bytes: u64) -> LogAdmission {
        if self.shared.pending_bytes.load(Ordering::Relaxed) > PENDING_BYTES_MAX {
            return LogAdmission::Busy;
        }
        let begun = self.shared.segments_begun.load(Ordering::Acquire);
        let (ready, exhausted) = self.shared.spares.state();
        let free = ready.saturating_sub(self.segments_begun - begun);
        let roomy = self.segment_bytes - self.offset >= bytes + self.segment_bytes / 2;
        match (free, exhausted) {
            (2.., _) => LogAdmission::Open,
            (1, false) => LogAdmission::Open,
            (1, true) | (0, false) if roomy => LogAdmission::Open,
            (0, false) => LogAdmission::Busy,
            (1, true) if self.segment_bytes - self.offset >= self.segment_bytes / 8 * 3 => {
                LogAdmission::Reserve
            }
            (_, true) => LogAdmission::Full,
        }
    }

    /// Returns the reason why no further space is available, if there is one, for the error of
    /// refused writes.
    pub fn exhaustion(&self) -> Option<String> {
        self.shared.spares.exhaustion()
    }

    /// Returns whether a checkpoint could release a segment.
    pub fn has_old_segments(&self) -> bool {
        lock(&self.shared.segments).len() > 1
    }

    /// Gives up every record before `position`, whole segments at a time. The caller has made
    /// sure that a durable checkpoint covers them.
    pub fn truncate_before(&mut self, position: Position) {
        let mut segments = lock(&self.shared.segments);
        let retired = segments
            .windows(2)
            .take_while(|pair| pair[1].first <= position)
            .count();
        let retired = segments.drain(..retired).collect::<Vec<_>>();
        drop(segments);
        let names = retired.iter().map(segment::segment_name);
        self.shared.spares.retire(names.collect());
    }

    /// Returns the position of the oldest record still in the log's files (or of the next record).
    pub fn first_retained(&self) -> Position {
        lock(&self.shared.segments)
            .first()
            .map_or(self.next, |key| key.first)
    }

    /// Writes and flushes everything that was appended, then ends the threads.
    ///
    /// # Errors
    /// [`StorageError::Fatal`] if not everything is durable.
    pub fn close(mut self) -> Result<(), StorageError> {
        self.stop();
        self.health()?;
        assert_eq!(self.durable(), self.last(), "the committer ends flushed");
        Ok(())
    }

    fn stop(&mut self) {
        self.submit();
        lock(&self.shared.queue).stop = true;
        self.shared.queue_changed.notify_one();
        self.shared.spares.stop();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.fail("a thread of the log panicked".into());
            }
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StorageError> {
    thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .map_err(StorageError::io(format!("start thread {name}")))
}

/// Records on their way to the disk, encoded.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// The slices in the order of the bytes. Each ends at the start of the next.
    pieces: Vec<SegmentSlice>,
    /// Position of the last record.
    last: Position,
    /// Whether a record in here asked for [`FlushTiming::Now`].
    flush: bool,
}

/// The bytes of a batch that go to one offset of one segment.
struct SegmentSlice {
    /// The segment to begin first, if these bytes are its first.
    begins: Option<SegmentKey>,
    /// The offset of the bytes in the segment.
    offset: u64,
    /// The offset of the bytes in the batch.
    start: usize,
}

impl Batch {
    /// Returns whether the committer is to write the batch without waiting for more records.
    fn is_urgent(&self) -> bool {
        self.flush || self.bytes.len() >= GATHERED_BYTES_MAX
    }

    /// Appends all of `later` to this batch. `later` becomes empty, with a buffer to reuse.
    fn take(&mut self, later: &mut Batch) {
        if self.pieces.is_empty() {
            std::mem::swap(self, later);
        } else {
            let base = self.bytes.len();
            self.bytes.extend_from_slice(&later.bytes);
            // Bytes that begin no segment follow directly after the present ones.
            let beginnings = later.pieces.drain(..).filter(|it| it.begins.is_some());
            self.pieces.extend(beginnings.map(|piece| SegmentSlice {
                start: piece.start + base,
                ..piece
            }));
            self.last = later.last;
            self.flush |= later.flush;
        }
        later.clear();
    }

    fn clear(&mut self) {
        // A buffer that a burst blew up is given back, so that memory stays in its budget.
        if self.bytes.capacity() > BATCH_KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.pieces.clear();
        self.flush = false;
    }
}

/// Largest batch buffer kept for reuse.
const BATCH_KEPT_BYTES: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct Queue {
    batch: Batch,
    committer: Attention,
    stop: bool,
}

/// The reasons to wake the committer.
#[derive(Clone, Copy, Default)]
enum Attention {
    /// Nothing: it looks at the queue before it waits.
    #[default]
    Busy,
    /// A batch that is urgent: it waits for more of this one.
    Gathers,
    /// Any record.
    Sleeps,
}

/// The state that the event loop and the log's threads share.
struct Shared {
    queue: Mutex<Queue>,
    queue_changed: Condvar,
    durable: AtomicU64,
    /// Submitted and not yet written.
    pending_bytes: AtomicU64,
    /// Segments that the committer has begun on disk since the opening.
    segments_begun: AtomicU64,
    fatal: OnceLock<String>,
    spares: Spares,
    /// Segments on disk in order; the last one is being written.
    segments: Mutex<Vec<SegmentKey>>,
    disk: Arc<dyn Disk>,
    wake: Wake,
}

impl Shared {
    fn fail(&self, what: String) {
        // The first failure is the one to report; the later ones follow from it.
        let _ = self.fatal.set(what);
        (self.wake)();
    }
}

/// Locks a mutex, even if a thread has panicked with it: no thread leaves inconsistent data under
/// these mutexes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
