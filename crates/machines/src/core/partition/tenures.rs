//! The tenures of this core's partitions, and the rows of earlier tenures that it still has.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use protocol::identity::{Epoch, PartitionId, TableId};

/// A partition's tenure as this core's log has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedTenure {
    /// The epoch in which the tenure began.
    pub since: Epoch,
    /// Whether the partition has all rows that its giver had when the place's epoch began, or has
    /// no giver.
    pub is_whole: bool,
}

/// The tenures of one core. They follow from the log alone, so replaying the log gives the same
/// rows.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    /// By partition.
    logged: BTreeMap<PartitionId, LoggedTenure>,
    /// Partitions of which it has rows of an earlier tenure that may be of use. None of them is in
    /// its present tenure.
    left_behind: BTreeSet<PartitionId>,
}

impl Tenures {
    /// Returns the log's tenure of a partition; the default if there is none.
    pub fn of(&self, id: PartitionId) -> LoggedTenure {
        self.logged.get(&id).copied().unwrap_or_default()
    }

    /// Returns whether a partition is whole. Returns true if the log has no tenure of it.
    pub fn is_whole(&self, id: PartitionId) -> bool {
        self.logged.get(&id).is_none_or(|tenure| tenure.is_whole)
    }

    /// Returns all tenures of the log, by partition.
    pub fn iter(&self) -> impl Iterator<Item = (PartitionId, LoggedTenure)> {
        self.logged.iter().map(|(id, tenure)| (*id, *tenure))
    }

    /// Records that a tenure began, from the log.
    pub fn begin(&mut self, id: PartitionId, tenure: LoggedTenure) {
        self.logged.insert(id, tenure);
    }

    /// Records that a partition is whole, from the log.
    pub fn note_whole(&mut self, id: PartitionId) {
        if let Some(tenure) = self.logged.get_mut(&id) {
            tenure.is_whole = true;
        }
    }

    /// Drops the tenures of these tables' partitions for which `is_kept` is false.
    pub fn retain_of(&mut self, tables: &BTreeSet<TableId>, is_kept: impl Fn(PartitionId) -> bool) {
        for table in tables {
            let own = super::range_of(*table);
            let ended = self.logged.extract_if(own, |id, _| !is_kept(*id));
            ended.for_each(drop);
        }
    }

    /// Returns the tables with tenures.
    pub fn tables(&self) -> BTreeSet<TableId> {
        self.logged.keys().map(|id| id.table).collect()
    }

    /// Returns the partitions of which the disk has rows of an earlier tenure.
    pub fn left_behind(&self) -> &BTreeSet<PartitionId> {
        &self.left_behind
    }

    /// Records the partitions of which this core has rows of earlier tenures. Call it once the log
    /// is read.
    pub fn leave_behind(&mut self, ids: BTreeSet<PartitionId>) {
        self.left_behind = ids;
    }

    /// Begins a new tenure of a partition. Returns true if rows of an earlier tenure are on the
    /// disk.
    pub fn take_left_behind(&mut self, id: PartitionId) -> bool {
        self.left_behind.remove(&id)
    }

    /// Removes and returns the partitions whose rows of an earlier tenure are void.
    pub fn take_void(&mut self, is_void: impl Fn(PartitionId) -> bool) -> Vec<PartitionId> {
        let void = self.left_behind.extract_if(.., |id| is_void(*id));
        void.collect()
    }
}
