//! The simulated disk of one core: a log whose bytes pass through the real record codec, and a
//! checkpoint.
//!
//! Records that were flushed survive a crash. Of the other records, nothing, everything, or the
//! first bytes up to anywhere survive. Recycled segments and files are left to the tests of
//! `storage`.

use placement::tables::MemoryTables;
use protocol::identity::Position;
use protocol::planted::{self, Bug};
use storage::record::{Encoder, ScanItem, SegmentKey, SegmentScan, StoredRecord};

use crate::random::Random;

/// A simulated disk of one core: the bytes of its log, its last checkpoint, and the position up to
/// which records are flushed.
#[derive(Clone, Debug)]
pub struct SimulatedDisk {
    key: SegmentKey,
    bytes: Vec<u8>,
    /// Where each record ends; the first one's position is `key.first`.
    ends: Vec<usize>,
    durable: Position,
    /// Records after this one were reported durable by a disk that had lost them.
    lost_after: Option<Position>,
    checkpoint: Option<Checkpoint>,
    /// Waits until its records are durable.
    next_checkpoint: Option<Checkpoint>,
}

/// A copy of the tables as of one record of the log.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The position of that record.
    pub position: Position,
    /// The first position of the log that is still needed.
    pub retain_from: Position,
    /// The tables.
    pub tables: MemoryTables,
}

/// The tables and records that a restart finds.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The tables of the last checkpoint.
    pub tables: MemoryTables,
    /// The log's records that are kept, from the first.
    pub records: Vec<(Position, Vec<u8>)>,
    /// The position of the next record to be appended.
    pub next: Position,
}

/// The unflushed records that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnflushedTail {
    /// All unflushed records survive: the process died, not the machine.
    Kept,
    /// Any prefix of the unflushed bytes survives.
    Torn,
}

impl SimulatedDisk {
    /// Returns an empty disk.
    pub fn new(identity: u64) -> Self {
        Self {
            key: SegmentKey {
                identity,
                first: Position(1),
                generation: 0,
            },
            bytes: Vec::new(),
            ends: Vec::new(),
            durable: Position(0),
            lost_after: None,
            checkpoint: None,
            next_checkpoint: None,
        }
    }

    /// Returns the last record that was appended.
    pub fn appended(&self) -> Position {
        Position(self.key.first.0 - 1 + self.ends.len() as u64)
    }

    /// Returns the last record that is known to be durable.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Appends a record, which is not flushed yet.
    pub fn append(&mut self, epoch: u64, payload: &[u8]) -> Position {
        let position = Position(self.appended().0 + 1);
        let record = StoredRecord {
            position,
            epoch,
            durable: self.durable,
            payload,
        };
        Encoder::new(&self.key).encode(&record, &mut self.bytes);
        self.ends.push(self.bytes.len());
        position
    }

    /// Handles the end of a flush. The records up to `target` are durable, or the disk claims that
    /// they are.
    pub fn flushed(&mut self, target: Position) {
        self.durable = self.durable.max(target);
        if let Some(checkpoint) = self.next_checkpoint.take() {
            if checkpoint.position <= self.durable {
                self.cut(checkpoint.retain_from);
                self.checkpoint = Some(checkpoint);
            } else {
                self.next_checkpoint = Some(checkpoint);
            }
        }
    }

    /// Handles a failed flush: the kernel marks the pages as clean and drops them, although they
    /// can still be read for a while (R23).
    pub fn flush_failed(&mut self) {
        self.lost_after.get_or_insert(self.durable);
    }

    /// Returns whether the disk has lost records that it had reported as durable.
    pub fn has_lost(&self) -> bool {
        self.lost_after.is_some()
    }

    /// Stores a checkpoint, once the log is durable up to its record. The earlier part of the log
    /// is dropped.
    pub fn checkpoint(&mut self, tables: MemoryTables, retain_from: Position) {
        let position = self.appended();
        let retain_from = retain_from.min(Position(position.0 + 1));
        self.next_checkpoint = Some(Checkpoint {
            position,
            retain_from,
            tables,
        });
        self.flushed(self.durable);
    }

    /// Handles a crash of the process, and returns the position of the last surviving record.
    pub fn crash(&mut self, tail: UnflushedTail, random: &mut Random) -> Position {
        let end_of = |disk: &Self, position: Position| match position.0 + 1 - disk.key.first.0 {
            0 => 0,
            count => disk.ends[count as usize - 1],
        };
        let safe = end_of(self, self.lost_after.unwrap_or(self.durable));
        let kept = match (tail, self.lost_after) {
            (UnflushedTail::Kept, None) => self.bytes.len(),
            _ => match random.below(3) {
                0 => safe,
                1 if self.lost_after.is_none() => self.bytes.len(),
                _ => safe + random.below((self.bytes.len() - safe) as u64 + 1) as usize,
            },
        };
        self.bytes.truncate(kept);
        let survivors = SegmentScan::new(&self.key, &self.bytes).count();
        self.ends.truncate(survivors);
        // A record that lacks only padding is whole.
        let end = self.ends.last().copied().unwrap_or(0);
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.next_checkpoint = None;
        self.lost_after = None;
        self.durable = self.durable.min(self.appended());
        self.appended()
    }

    /// Reads the checkpoint and the log, and copies the log to a new file (R23). A disk that
    /// misreads returns one wrong byte in this call. The byte is never in the last record, where it
    /// would look like a torn tail.
    ///
    /// # Errors
    /// The log is corrupt (R24): this core must not start on it.
    pub fn recover(&mut self, misreads: bool, random: &mut Random) -> Result<Recovered, String> {
        let mut bytes = self.bytes.clone();
        if misreads && self.ends.len() > 1 {
            let place = random.below(self.ends[self.ends.len() - 2] as u64) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let mut records = Vec::new();
        for item in SegmentScan::new(&self.key, &bytes) {
            match item {
                ScanItem::Record(record) => {
                    let position = record.position;
                    records.push((position, record.epoch, record.payload.to_vec()));
                }
                ScanItem::Gap(_) if planted::is(Bug::CorruptionIsTornTail) => break,
                ScanItem::Gap(gap) => {
                    return Err(format!(
                        "the log lacks records {} to {}, with valid ones behind",
                        gap.from.0, gap.to.0
                    ));
                }
            }
        }
        self.key.generation += 1;
        self.bytes.clear();
        self.ends.clear();
        self.durable = Position(self.key.first.0 - 1);
        for (position, epoch, payload) in &records {
            let appended = self.append(*epoch, payload);
            assert_eq!(appended, *position, "the scan gives records in order");
        }
        self.durable = self.appended();
        let tables = self
            .checkpoint
            .as_ref()
            .map(|checkpoint| checkpoint.tables.clone());
        Ok(Recovered {
            tables: tables.unwrap_or_default(),
            records: records
                .into_iter()
                .map(|(position, _, payload)| (position, payload))
                .collect(),
            next: Position(self.appended().0 + 1),
        })
    }

    /// Removes the records before `first`.
    fn cut(&mut self, first: Position) {
        let count = (first.0.saturating_sub(self.key.first.0) as usize).min(self.ends.len());
        if count == 0 {
            return;
        }
        let mut records = Vec::new();
        for item in SegmentScan::new(&self.key, &self.bytes) {
            let ScanItem::Record(record) = item else {
                unreachable!("memory does not rot")
            };
            if record.position.0 >= self.key.first.0 + count as u64 {
                records.push((record.epoch, record.durable, record.payload.to_vec()));
            }
        }
        self.key.first.0 += count as u64;
        self.bytes.clear();
        self.ends.clear();
        let encoder = Encoder::new(&self.key);
        for (index, (epoch, durable, payload)) in records.iter().enumerate() {
            let record = StoredRecord {
                position: Position(self.key.first.0 + index as u64),
                epoch: *epoch,
                durable: *durable,
                payload,
            };
            encoder.encode(&record, &mut self.bytes);
            self.ends.push(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(random: &mut Random) -> SimulatedDisk {
        let mut disk = SimulatedDisk::new(random.bits());
        for value in 1..=20u8 {
            assert_eq!(disk.append(3, &[value; 9]), Position(u64::from(value)));
            if value == 12 {
                disk.flushed(Position(12));
            }
        }
        disk
    }

    #[test]
    fn flushed_records_survive_and_the_rest_is_a_prefix() {
        let mut random = Random::new(3);
        let (mut all, mut none) = (0, 0);
        for _ in 0..300 {
            let mut disk = filled(&mut random);
            let kept = disk.crash(UnflushedTail::Torn, &mut random);
            let recovered = disk.recover(false, &mut random).unwrap();
            assert!((Position(12)..=Position(20)).contains(&kept));
            assert_eq!(recovered.records.len() as u64, kept.0);
            assert_eq!(recovered.next, Position(kept.0 + 1));
            for (position, payload) in recovered.records {
                assert_eq!(payload, [position.0 as u8; 9]);
            }
            all += u32::from(kept == Position(20));
            none += u32::from(kept == Position(12));
        }
        assert!(all > 50);
        assert!(none > 50);
    }

    #[test]
    fn a_failed_flush_loses_what_later_flushes_claim() {
        let mut random = Random::new(4);
        let mut disk = filled(&mut random);
        disk.flush_failed();
        disk.flushed(Position(20));
        let lost =
            (0..50).any(|_| disk.clone().crash(UnflushedTail::Torn, &mut random) < Position(20));
        assert!(lost);
    }

    #[test]
    fn a_misread_byte_is_corruption_and_does_not_stay() {
        let mut random = Random::new(5);
        for _ in 0..100 {
            let mut disk = filled(&mut random);
            disk.crash(UnflushedTail::Kept, &mut random);
            // A flipped padding byte is no record's; anything else must be noticed.
            if let Ok(recovered) = disk.clone().recover(true, &mut random) {
                assert_eq!(recovered.records.len(), 20);
            }
            assert_eq!(disk.recover(false, &mut random).unwrap().records.len(), 20);
        }
    }

    #[test]
    fn a_checkpoint_waits_for_its_records_and_cuts_the_log() {
        let mut random = Random::new(6);
        let mut disk = filled(&mut random);
        let mut tables = MemoryTables::new();
        placement::tables::Tables::put(&mut tables, 1, b"key", b"value");
        disk.checkpoint(tables.clone(), Position(15));
        assert_eq!(
            disk.clone().recover(false, &mut random).unwrap().tables,
            MemoryTables::new()
        );
        disk.flushed(Position(20));
        disk.append(3, b"after");
        disk.crash(UnflushedTail::Kept, &mut random);
        let recovered = disk.recover(false, &mut random).unwrap();
        assert_eq!(recovered.tables, tables);
        assert_eq!(recovered.records[0].0, Position(15));
        assert_eq!(recovered.next, Position(22));
    }
}
