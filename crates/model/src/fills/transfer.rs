//! Splits the range: the second partition follows the first one, and receives the high key between
//! two epochs.

use super::FillRules;
use super::planted::FillBug;
use super::state::{FIRST, FillState, HIGH, PartitionStage, RangeMessage, SECOND};

impl FillRules {
    /// Begins a split. The second partition asks for the entries of the high key.
    pub fn begin_split(&self, state: &mut FillState) -> bool {
        let is_free = state.partitions[SECOND].stage == PartitionStage::Empty
            && state.partitions[FIRST].stage == PartitionStage::Serving;
        if !self.case.splits || !is_free || state.is_sealed {
            return false;
        }
        state.partitions[SECOND].stage = PartitionStage::Following;
        true
    }

    /// Sends the giver's entry, and how many changes it has counted.
    pub fn send(&self, state: &mut FillState) -> bool {
        let giver = &state.partitions[FIRST];
        let stages = (giver.stage, state.partitions[SECOND].stage);
        let (PartitionStage::Serving, PartitionStage::Following | PartitionStage::Taking) = stages
        else {
            return false;
        };
        state.sent = Some(RangeMessage {
            entry: giver.entries[usize::from(HIGH)],
            count: state.changes,
        });
        true
    }

    /// Makes the taker's entry equal to the giver's, unless the message is older than one before.
    pub fn receive(&self, state: &mut FillState) -> bool {
        let taker = &mut state.partitions[SECOND];
        let (PartitionStage::Following | PartitionStage::Taking, Some(sent)) =
            (taker.stage, state.sent)
        else {
            return false;
        };
        if state.taken_up_to.is_some_and(|known| known > sent.count) {
            return false;
        }
        taker.entries[usize::from(HIGH)] = sent.entry;
        state.taken_up_to = Some(sent.count);
        true
    }

    /// Seals the table for the hand-over.
    pub fn seal(&self, state: &mut FillState) -> bool {
        let follows = state.partitions[SECOND].stage == PartitionStage::Following;
        if !follows || state.is_sealed || !state.is_level() {
            return false;
        }
        state.is_sealed = true;
        true
    }

    /// Begins the epoch in which the second partition has the high key.
    pub fn hand_over(&self, state: &mut FillState) -> bool {
        let follows = state.partitions[SECOND].stage == PartitionStage::Following;
        let has_ended = state.is_at_rest() || self.has(FillBug::HandedOverAtOnce);
        let gives = state.partitions[FIRST].stage == PartitionStage::Serving;
        if !state.is_sealed || !follows || !has_ended || !gives {
            return false;
        }
        state.is_split = true;
        state.is_sealed = false;
        state.partitions[SECOND].stage = PartitionStage::Taking;
        true
    }

    /// Lets the second partition take part in operations once it has the last changes.
    pub fn become_whole(&self, state: &mut FillState) -> bool {
        let gives = state.partitions[FIRST].stage == PartitionStage::Serving;
        let has_all = gives && state.is_level() || self.has(FillBug::PartOfRange);
        if state.partitions[SECOND].stage != PartitionStage::Taking || !has_all {
            return false;
        }
        state.partitions[SECOND].stage = PartitionStage::Serving;
        state.forget_transfer();
        true
    }

    /// Removes the entries that the first partition has given.
    pub fn sweep(&self, state: &mut FillState) -> bool {
        let taker = state.partitions[SECOND].stage;
        let may = taker != PartitionStage::Taking || self.has(FillBug::SweptEarly);
        let giver = &mut state.partitions[FIRST];
        if !state.is_split || !may || giver.stage != PartitionStage::Serving {
            return false;
        }
        giver.entries[usize::from(HIGH)] = 0;
        true
    }
}
