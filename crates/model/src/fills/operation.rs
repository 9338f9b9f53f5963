//! Operations on the row: how they begin, and how each member applies the outcome.

use super::FillRules;
use super::planted::FillBug;
use super::state::{
    COPY, FIRST, FillOperation, FillState, HEAD, HIGH, OperationStage, PARTITIONS, PartitionStage,
    Place, RowState,
};

impl FillRules {
    /// Begins an operation. The row's last operation has ended at the head.
    pub fn begin(&self, state: &mut FillState, new: Option<Place>) -> bool {
        let old = state.row(HEAD);
        let mut running = state.operations.iter();
        let is_held =
            running.any(|it| it.stage != OperationStage::Free && it.settled >> HEAD & 1 == 0);
        let mut slots = state.operations.iter();
        let slot = slots.position(|it| it.stage == OperationStage::Free);
        let (Some(slot), false) = (slot, is_held || state.is_sealed) else {
            return false;
        };
        if state.operations_left == 0 || old.place == new {
            return false;
        }
        state.operations_left -= 1;
        state.version += 1;
        let new = RowState {
            place: new,
            version: state.version,
        };
        let parts = self.visited(state, old.place, new.place);
        state.operations[slot] = FillOperation {
            stage: OperationStage::Begun,
            old,
            new,
            members: 1 << HEAD | 1 << COPY | parts,
            settled: 0,
        };
        true
    }

    /// Returns the partitions of the index that an operation visits, as a set. If the entry stays
    /// the same, it visits only partitions that are being filled (R55).
    fn visited(&self, state: &FillState, old: Option<Place>, new: Option<Place>) -> u8 {
        let keys = [old, new].map(|place| place.map(|place| place.key));
        let mut visited = 0;
        for key in keys.into_iter().flatten() {
            let owner = state.owner(key);
            let is_filled = state.partitions[owner].stage == PartitionStage::Filling;
            let follows = is_filled && !self.has(FillBug::EntryThatStays);
            if keys[0] != keys[1] || follows {
                visited |= 1 << owner;
            }
        }
        visited
    }

    /// Commits an operation. Each partition that it visits has reported it (R48), or is lost, and
    /// the end of the epoch has committed it.
    pub fn commit(&self, state: &mut FillState, slot: usize) -> bool {
        let operation = state.operations[slot];
        if operation.stage != OperationStage::Begun {
            return false;
        }
        let mut visited = PARTITIONS
            .into_iter()
            .filter(|it| operation.members >> it & 1 != 0);
        let reports = visited.all(|it| match state.partitions[it].stage {
            PartitionStage::Filling | PartitionStage::Serving => true,
            PartitionStage::Lost => state.is_sealed,
            _ => false,
        });
        if !reports {
            return false;
        }
        state.operations[slot].stage = OperationStage::Committed;
        if state.is_sealed && self.has(FillBug::ResolvedWithoutEntry) {
            let parts = operation.members & 0b11;
            state.operations[slot].settled |= parts;
        }
        true
    }

    /// Aborts an operation at the end of its epoch.
    pub fn abort(&self, state: &mut FillState, slot: usize) -> bool {
        let can = state.is_sealed && state.operations[slot].stage == OperationStage::Begun;
        if can {
            state.operations[slot] = FillOperation::default();
        }
        can
    }

    /// Applies a commit at one member, after the earlier operations there.
    pub fn settle(&self, state: &mut FillState, slot: usize, member: usize) -> bool {
        let operation = state.operations[slot];
        let is_open = |it: &FillOperation| it.members & !it.settled & 1 << member != 0;
        if operation.stage != OperationStage::Committed || !is_open(&operation) {
            return false;
        }
        let other = state.operations[1 - slot];
        let is_running = other.stage != OperationStage::Free;
        if is_running && is_open(&other) && other.new.version < operation.new.version {
            return false;
        }
        match member {
            HEAD | COPY => state.rows[member - HEAD] = operation.new,
            partition => self.settle_entries(state, &operation, partition),
        }
        let settled = operation.settled | 1 << member;
        state.operations[slot].settled = settled;
        if settled == operation.members {
            state.operations[slot] = FillOperation::default();
        }
        true
    }

    /// Removes the old entry and adds the new one, as far as the partition has their keys.
    fn settle_entries(&self, state: &mut FillState, operation: &FillOperation, partition: usize) {
        let version = operation.new.version;
        let [old, new] = [operation.old, operation.new].map(|row| {
            let key = row.place.map(|place| place.key);
            key.filter(|key| state.owner(*key) == partition)
        });
        let it = &mut state.partitions[partition];
        let is_filled = it.stage == PartitionStage::Filling;
        if it.stage == PartitionStage::Lost {
            return;
        }
        if let Some(key) = old.map(usize::from).filter(|_| old != new) {
            if it.entries[key] <= version {
                it.entries[key] = 0;
            }
            if is_filled && !self.has(FillBug::LeavingForgotten) {
                it.left[key] = version;
            }
        }
        if let Some(key) = new.map(usize::from) {
            it.entries[key] = it.entries[key].max(version);
        }
        // An entry that stays the same may be new here: a page may have come without it.
        let is_change = old != new || !self.has(FillBug::StaysUncounted);
        let concerns_high = is_change && [old, new].contains(&Some(HIGH));
        if partition == FIRST && concerns_high && !self.has(FillBug::ChangesUncounted) {
            state.changes += 1;
        }
    }
}
