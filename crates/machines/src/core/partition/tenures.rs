//! Since when this core has had each of its partitions, and what it still has of earlier tenures.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::identity::{Epoch, PartitionId, TableId};

/// A partition as this core has it by its own log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedTenure {
    /// The epoch that gave it the partition.
    pub since: Epoch,
    /// It has had all of its giver's rows since its place's epoch began, or takes it from no core.
    pub is_whole: bool,
}

/// The tenures of one core. They follow from the log alone, so that reading it again leads to the
/// same rows.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    /// By partition.
    logged: BTreeMap<PartitionId, LoggedTenure>,
    /// Partitions of which it has rows of an earlier tenure that may be of use. None of them is in
    /// its present tenure.
    left_behind: BTreeSet<PartitionId>,
}

impl Tenures {
    /// Returns what the log has of a partition; the default if nothing.
    pub fn of(&self, id: PartitionId) -> LoggedTenure {
        self.logged.get(&id).copied().unwrap_or_default()
    }

    /// Returns whether a partition has all of its rows, as far as the log has it at all.
    pub fn is_whole(&self, id: PartitionId) -> bool {
        self.logged.get(&id).is_none_or(|tenure| tenure.is_whole)
    }

    /// Returns all that the log has, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, LoggedTenure)> {
        self.logged.iter().map(|(id, tenure)| (*id, *tenure))
    }

    /// Notes a record of the log that a tenure began.
    pub fn begin(&mut self, id: PartitionId, tenure: LoggedTenure) {
        self.logged.insert(id, tenure);
    }

    /// Notes a record of the log that a partition is whole.
    pub fn note_whole(&mut self, id: PartitionId) {
        if let Some(tenure) = self.logged.get_mut(&id) {
            tenure.is_whole = true;
        }
    }

    /// Keeps the tenures of partitions of these tables for which this holds, and those of others.
    pub fn retain_of(&mut self, tables: &BTreeSet<TableId>, is_kept: impl Fn(PartitionId) -> bool) {
        for table in tables {
            let own = super::range_of(*table);
            let ended = self.logged.extract_if(own, |id, _| !is_kept(*id));
            ended.for_each(drop);
        }
    }

    /// Returns the tables of which it has partitions.
    pub fn tables(&self) -> BTreeSet<TableId> {
        self.logged.keys().map(|id| id.table).collect()
    }

    /// Returns the partitions of which rows of an earlier tenure are kept.
    pub fn left_behind(&self) -> &BTreeSet<PartitionId> {
        &self.left_behind
    }

    /// Notes, once the log is read, the partitions that are left on the disk.
    pub fn leave_behind(&mut self, ids: BTreeSet<PartitionId>) {
        self.left_behind = ids;
    }

    /// Begins a new tenure of a partition. Returns true if rows of an earlier tenure are kept.
    pub fn take_left_behind(&mut self, id: PartitionId) -> bool {
        self.left_behind.remove(&id)
    }

    /// Takes those that are left behind and void.
    pub fn take_void(&mut self, is_void: impl Fn(PartitionId) -> bool) -> Vec<PartitionId> {
        let void = self.left_behind.extract_if(.., |id| is_void(*id));
        void.collect()
    }
}
