//! The machine's view of its core's log: the records that it has written, and the last durable
//! position.

use alloc::vec::Vec;

use placement::Durability;
use protocol::codec::Wire;
use protocol::identity::{ClockReading, Epoch, Position};
use protocol::record::Record;

use crate::core::contract::{CoreOutput, LogRecord};

/// A buffer that a large record has grown beyond this is given back.
const SCRATCH_BYTES_MAX: usize = 64 << 10;

/// The log of one core. Its records are numbered from 1 without gaps.
#[derive(Debug)]
pub(crate) struct CoreLog {
    /// The number of the next record; rises by one with each.
    next: Position,
    /// All records up to this one are durable. It never falls, and stays below `next`.
    durable: Position,
    /// Since when records have waited for a flush. Set only while a record is not durable.
    unflushed_since_us: Option<u64>,
    /// The last heartbeat reported that the disk hangs.
    hang_reported: bool,
    /// The checkpoint has the effects on rows of all records before this position; 0 once the log
    /// is read.
    rows_from: Position,
    /// No record and no checkpoint that this core was restored from is of a later epoch.
    newest_epoch: Epoch,
    /// The log is being read: its records of partitions that this core gave to others are still
    /// needed.
    is_replaying: bool,
    /// The log has everything that the process before had (R4).
    is_complete: bool,
    /// Where records are encoded before their size is known; empty between two records.
    scratch: Vec<u8>,
}

impl CoreLog {
    /// Returns a log from which nothing has been read.
    pub fn new() -> CoreLog {
        CoreLog {
            next: Position(1),
            durable: Position(0),
            unflushed_since_us: None,
            hang_reported: false,
            rows_from: Position(0),
            newest_epoch: Epoch(0),
            is_replaying: true,
            is_complete: false,
            scratch: Vec::new(),
        }
    }

    /// Emits a record and returns its position.
    pub fn append(
        &mut self,
        record: &Record,
        epoch: Epoch,
        durability: Durability,
        output: &mut CoreOutput,
    ) -> Position {
        let position = self.next;
        self.next = Position(position.0 + 1);
        record.encode(&mut self.scratch);
        let bytes = self.scratch.as_slice().into();
        self.scratch.clear();
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        output.records.push(LogRecord {
            position,
            epoch,
            durability,
            bytes,
        });
        position
    }

    /// Returns the position of the next record.
    pub fn next(&self) -> Position {
        self.next
    }

    /// Returns the position of the last record.
    pub fn last(&self) -> Position {
        Position(self.next.0 - 1)
    }

    /// Returns the last durable position.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Returns whether the record at a position is durable.
    pub fn is_durable(&self, position: Position) -> bool {
        position <= self.durable
    }

    /// Records that records up to `position` are durable.
    pub fn note_durable(&mut self, position: Position) {
        self.durable = self.durable.max(position);
        self.unflushed_since_us = None;
    }

    /// Records since when records have waited for a flush.
    pub fn watch(&mut self, now: ClockReading) {
        if self.durable.0 + 1 >= self.next.0 {
            self.unflushed_since_us = None;
        } else {
            self.unflushed_since_us.get_or_insert(now.monotonic_us);
        }
    }

    /// Returns whether records have waited for a flush for at least `flush_us_max`.
    pub fn hangs(&self, now: ClockReading, flush_us_max: u64) -> bool {
        let until_us = self
            .unflushed_since_us
            .map(|since| since.saturating_add(flush_us_max));
        until_us.is_some_and(|until| until <= now.monotonic_us)
    }

    /// Records that a heartbeat reports whether the disk hangs. Returns true if the previous
    /// heartbeat reported the opposite.
    pub fn report_hang(&mut self, hangs: bool) -> bool {
        let is_news = hangs != self.hang_reported;
        self.hang_reported = hangs;
        is_news
    }

    /// Returns whether the last heartbeat reported that the disk hangs.
    pub fn hang_reported(&self) -> bool {
        self.hang_reported
    }

    /// Starts at a checkpoint. Its rows have the effects of all records before `rows_from`.
    pub fn restore(&mut self, rows_from: Position) {
        self.rows_from = rows_from;
    }

    /// Records that the record at `position` is being read.
    pub fn replay_at(&mut self, position: Position) {
        self.next = position;
    }

    /// Returns whether the rows are newer than the record that is being read.
    pub fn rows_are_newer(&self) -> bool {
        self.next < self.rows_from
    }

    /// Records the epoch of a record or a checkpoint.
    pub fn note_epoch(&mut self, epoch: Epoch) {
        self.newest_epoch = self.newest_epoch.max(epoch);
    }

    /// Returns the newest epoch of a record or of a checkpoint.
    pub fn newest_epoch(&self) -> Epoch {
        self.newest_epoch
    }

    /// Ends the replay: all records before `next` were read, and are durable.
    pub fn start(&mut self, next: Position) {
        assert!(next.0 >= 1, "positions start at 1");
        self.next = next;
        self.rows_from = Position(0);
        self.durable = Position(next.0 - 1);
    }

    /// Ends the special treatment of records of partitions that this core gave to others.
    pub fn end_replay(&mut self) {
        self.is_replaying = false;
    }

    /// Returns whether the log is being read.
    pub fn is_replaying(&self) -> bool {
        self.is_replaying
    }

    /// Records that the earlier process ended cleanly.
    pub fn note_complete(&mut self) {
        self.is_complete = true;
    }

    /// Returns whether the log has every record that the earlier process had.
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }
}
