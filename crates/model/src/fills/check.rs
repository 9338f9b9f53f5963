//! The properties: a partition that serves has just the entries of the row.

use super::FillRules;
use super::planted::FillBug;
use super::state::{FIRST, FillState, HEAD, HIGH, PartitionStage};

impl FillRules {
    /// Returns a violation of I13: while no operation is in progress, a partition that serves lacks
    /// the entry of the row, or has another one.
    pub fn wrong_entry(&self, state: &FillState) -> Option<String> {
        if !state.is_at_rest() {
            return None;
        }
        let row = state.row(HEAD).place;
        for key in 0..2 {
            let mut answers = vec![state.owner(key)];
            if self.has(FillBug::GivenIsAnswered) && key == HIGH {
                answers.push(FIRST);
            }
            for partition in answers {
                let it = &state.partitions[partition];
                let has = it.entries[usize::from(key)] > 0;
                let wanted = row.is_some_and(|place| place.key == key);
                if it.stage == PartitionStage::Serving && has != wanted {
                    let what = if has {
                        "an entry without a row"
                    } else {
                        "no entry of the row"
                    };
                    return Some(format!("I13: the {} has {what}", partition_name(partition)));
                }
            }
        }
        None
    }

    /// Returns a description of the work that is unfinished in a state in which only faults can
    /// still happen.
    pub fn unfinished(&self, state: &FillState) -> Option<String> {
        if !state.is_at_rest() {
            return Some("I16: an operation never ends".into());
        }
        let mut partitions = state.partitions.iter();
        let is_done = |stage| matches!(stage, PartitionStage::Empty | PartitionStage::Serving);
        let all_done = partitions.all(|it| is_done(it.stage));
        (!all_done || state.is_sealed).then(|| "I16: a partition never serves".into())
    }
}

/// Returns the name of a partition.
pub fn partition_name(partition: usize) -> &'static str {
    match partition {
        FIRST => "first partition",
        _ => "second partition",
    }
}
