//! Computes checksums of a partition: of its rows, or of entries of a thin index. With the latter
//! a client compares a thin index with the rows of a copy, without reading either.

use alloc::string::{String, ToString};
use core::ops::ControlFlow;

use placement::RowView;
use placement::tables::{Tables, TablesError};
use protocol::identity::{PartitionId, Position, Version};
use protocol::message::{ChecksumPart, ChecksumRead, Refusal, Reply};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::partition::rows::{KeyRange, stored_row};
use crate::core::step::Step;
use crate::core::table::TableInfo;

/// The subject of a checksum.
#[derive(Clone, Copy)]
enum Summed {
    /// The rows, or entries, as they are stored, with their versions.
    Stored,
    /// The entries of this partition, without versions: an entry has the version of the row's last
    /// change that changed the entry.
    OwnEntries,
    /// The entries that the rows should have in this thin index.
    EntriesOfRows(u8),
}

impl Summed {
    /// # Errors
    /// The request is invalid: the message for people.
    fn of(table: &TableInfo, read: &ChecksumRead) -> Result<Summed, String> {
        let Some(number) = read.entries_of else {
            return Ok(Summed::Stored);
        };
        let is_thin = |replex: u8| {
            let info = table.replexes.get(usize::from(replex));
            info.is_some_and(|info| info.is_thin())
        };
        if !is_thin(number) {
            return Err("only a thin index has entries to sum".into());
        }
        match read.partition.replex == number {
            true => Ok(Summed::OwnEntries),
            false if is_thin(read.partition.replex) => {
                Err("a thin index has no rows of which another one has entries".into())
            }
            false => Ok(Summed::EntriesOfRows(number)),
        }
    }

    /// Returns the hash of a stored row or entry.
    ///
    /// # Errors
    /// The row does not decode: the message for people.
    fn hash(
        self,
        table: &TableInfo,
        partition: PartitionId,
        (key, value): (&[u8], &[u8]),
    ) -> Result<u64, String> {
        match self {
            Summed::Stored => Ok(xxh3_64(value)),
            Summed::OwnEntries => {
                let replex = usize::from(partition.replex);
                let entry = table.present_entry(replex, stored_row(value).1);
                let entry = entry.map_err(|error| error.to_string())?;
                Ok(entry_hash(partition.number, key, &entry))
            }
            Summed::EntriesOfRows(replex) => {
                let row = stored_row(value).1;
                let view = RowView::parse(&table.schema.columns, row);
                let view = view.map_err(|error| error.to_string())?;
                let replex = usize::from(replex);
                let number = table.layout.partition_of_row(replex, &view);
                let entry = table.stored_form(table.partition(replex, number), row);
                Ok(entry_hash(number, &table.entry_key(replex, &view), &entry))
            }
        }
    }
}

fn entry_hash(partition: u32, key: &[u8], entry: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&partition.to_le_bytes());
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(entry);
    hasher.digest()
}

impl CoreMachine {
    /// Counts and checksums a part of a partition, in its settled state or in that of a snapshot.
    /// At every snapshot, and while no operation is in progress, the sums of the rows of all copies
    /// are equal. So are those of a thin index's entries, and of the entries that the rows of a
    /// copy should have there.
    pub(crate) fn checksum<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        read: &ChecksumRead,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let checked = self.check_readable(step.now, read.epoch, read.partition);
        if let Err(refusal) = checked {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        let at = match self.version_of(step.now, read.snapshot, read.partition.table) {
            Ok(at) => at,
            Err(failure) => {
                self.refuse(asker, Refusal::Snapshot(failure), step.output);
                return Ok(());
            }
        };
        if at.is_some_and(|at| self.is_pending_at(read.partition, at)) {
            self.refuse(asker, Refusal::NotServing, step.output);
            return Ok(());
        }
        let table = &self.partitions[&read.partition].table;
        let summed = match Summed::of(table, read) {
            Ok(summed) => summed,
            Err(message) => {
                self.refuse(asker, Refusal::Invalid { message }, step.output);
                return Ok(());
            }
        };
        let reply = match self.sum_part(read, (summed, at), step.tables)? {
            Ok(part) => Reply::Checksum(part),
            Err(message) => Reply::Refused(Refusal::Invalid { message }),
        };
        let lease = Some(self.lease_until_us(step.now, read.partition.table));
        self.answer(asker, Position(0), lease, reply, step.output);
        Ok(())
    }

    /// Sums a part of a partition, in its settled state or in that of a snapshot's version `at`.
    /// The inner error is a row that does not decode: the message for people.
    fn sum_part<T: Tables>(
        &self,
        read: &ChecksumRead,
        (summed, at): (Summed, Option<Version>),
        tables: &T,
    ) -> Result<Result<ChecksumPart, String>, TablesError> {
        let limit = (read.limit as usize).clamp(1, self.limits.page_keys_max) as u64;
        let table = &self.partitions[&read.partition].table;
        let mut part = ChecksumPart::default();
        let mut damaged = None;
        let (start, end) = table.keys_in_partition(read.partition, (&read.start, None));
        let range = KeyRange {
            start,
            end,
            descending: false,
        };
        let mut looked_at = 0;
        let visit = &mut |key: &[u8], value: Option<&[u8]>| {
            if looked_at == limit {
                part.next = Some(key.into());
                return ControlFlow::Break(());
            }
            looked_at += 1;
            if let Some(value) = value {
                part.count += 1;
                match summed.hash(table, read.partition, (key, value)) {
                    Ok(hash) => part.sum = part.sum.wrapping_add(hash),
                    Err(message) => {
                        damaged = Some(message);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        };
        match at {
            Some(at) => {
                let rows = self.participation.rows_at(read.partition, at);
                rows.visit(read.partition, range, tables, visit)?;
            }
            None => {
                let visit = &mut |key: &[u8], value: &[u8]| visit(key, Some(value));
                range.visit(read.partition.rows_table(), tables, visit)?;
            }
        }
        Ok(damaged.map_or(Ok(part), Err))
    }
}
