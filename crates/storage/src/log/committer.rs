//! The thread that writes and flushes batches of records. Each log has one, and no other thread
//! writes records.
//!
//! If a client waits for a flush, the committer writes at once, and records that arrive meanwhile
//! form the next batch. Other records are collected first. The first error of a write or a flush
//! ends the thread for good (R23).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use placement::Position;

use super::{Attention, Batch, LogOptions, Queue, Shared, lock};
use crate::disk::DiskFile;
use crate::error::StorageError;
use crate::record::SegmentKey;
use crate::segment::{self, SegmentHeader};

pub(super) struct Committer {
    shared: Arc<Shared>,
    file: Box<dyn DiskFile>,
    /// Last record written.
    written: Position,
    write_interval: Duration,
    flush_interval: Duration,
    /// When the oldest unflushed record was written.
    unflushed_since: Option<Instant>,
}

/// Why waiting for work ended.
enum Work {
    Batch,
    FlushDue,
    Stop,
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        file: Box<dyn DiskFile>,
        next: Position,
        options: &LogOptions,
    ) -> Self {
        Self {
            shared,
            file,
            written: Position(next.0 - 1),
            write_interval: options.write_interval,
            flush_interval: options.flush_interval,
            unflushed_since: None,
        }
    }

    pub(super) fn run(mut self) {
        if let Err(error) = self.commit_until_stopped() {
            self.shared.fail(error.to_string());
        }
    }

    fn commit_until_stopped(&mut self) -> Result<(), StorageError> {
        let mut batch = Batch::default();
        loop {
            match self.wait(&mut batch) {
                Work::Stop => return self.flush(),
                Work::FlushDue => self.flush()?,
                Work::Batch => {
                    self.write(&batch)?;
                    let overdue = self.flush_due().is_some_and(|left| left.is_zero());
                    if batch.flush || overdue {
                        self.flush()?;
                    }
                    batch.clear();
                }
            }
        }
    }

    fn wait(&self, batch: &mut Batch) -> Work {
        let mut queue = lock(&self.shared.queue);
        let mut gathering_since = None;
        loop {
            let gathers = !queue.batch.pieces.is_empty();
            let write_due = gathers.then(|| {
                let since = *gathering_since.get_or_insert_with(Instant::now);
                self.write_interval.saturating_sub(since.elapsed())
            });
            let due = write_due.into_iter().chain(self.flush_due()).min();
            let is_due = due.is_some_and(|left| left.is_zero());
            if gathers && (is_due || queue.stop || queue.batch.is_urgent()) {
                std::mem::swap(&mut queue.batch, batch);
                return Work::Batch;
            }
            if queue.stop {
                return Work::Stop;
            }
            if is_due {
                return Work::FlushDue;
            }
            queue.committer = match gathers {
                true => Attention::Gathers,
                false => Attention::Sleeps,
            };
            queue = self.sleep(queue, due);
            queue.committer = Attention::Busy;
        }
    }

    /// Waits for a notification, or until the time is up.
    fn sleep<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        time: Option<Duration>,
    ) -> MutexGuard<'a, Queue> {
        let changed = &self.shared.queue_changed;
        match time {
            None => changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            Some(time) => {
                let waited = changed.wait_timeout(queue, time);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Returns the time until the interval flush; none if everything is flushed.
    fn flush_due(&self) -> Option<Duration> {
        self.unflushed_since
            .map(|since| self.flush_interval.saturating_sub(since.elapsed()))
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StorageError> {
        let ends = batch.pieces.iter().skip(1).map(|piece| piece.start);
        let ends = ends.chain([batch.bytes.len()]);
        for (piece, end) in batch.pieces.iter().zip(ends) {
            if let Some(key) = piece.begins {
                self.begin_segment(key)?;
            }
            let bytes = &batch.bytes[piece.start..end];
            self.file
                .write_at(piece.offset, bytes)
                .map_err(StorageError::io("write to the log"))?;
            self.unflushed_since.get_or_insert_with(Instant::now);
        }
        self.written = batch.last;
        let bytes = batch.bytes.len() as u64;
        self.shared
            .pending_bytes
            .fetch_sub(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn begin_segment(&mut self, key: SegmentKey) -> Result<(), StorageError> {
        // Everything before the segment is durable before the segment exists, so that recovery has
        // one unproven file only, and the header can record it.
        self.written = Position(key.first.0 - 1);
        self.flush()?;
        let Some(spare) = self.shared.spares.take() else {
            let what = "the log was closed while the disk was full".into();
            return Err(StorageError::Fatal { what });
        };
        let header = SegmentHeader {
            key,
            durable: self.written,
        };
        segment::begin(&*self.shared.disk, &*spare.file, &spare.name, &header)?;
        self.file = spare.file;
        lock(&self.shared.segments).push(key);
        self.shared.segments_begun.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        if self.unflushed_since.is_some() {
            self.file
                .sync()
                .map_err(StorageError::io("flush the log"))?;
            self.unflushed_since = None;
        }
        let before = self.shared.durable.swap(self.written.0, Ordering::AcqRel);
        assert!(before <= self.written.0, "what is durable stays so");
        if before < self.written.0 {
            (self.shared.wake)();
        }
        Ok(())
    }
}
