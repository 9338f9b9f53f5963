//! Describes each step of a counterexample, and the state that the step changes.

use super::FillRules;
use super::check::partition_name;
use super::state::{COPY, FillState, FillStep, HEAD, PARTITIONS, Place};

fn place_in_words(place: Option<Place>) -> String {
    match place {
        None => "no row".into(),
        Some(Place { page, key }) => {
            let key = if key == 0 { "low" } else { "high" };
            format!("a row in page {page} with the {key} key")
        }
    }
}

fn member_name(member: usize) -> &'static str {
    match member {
        HEAD => "head",
        COPY => "copy",
        partition => partition_name(partition),
    }
}

impl FillRules {
    /// Returns a description of a step.
    pub fn step_in_words(&self, state: &FillState, step: FillStep) -> String {
        let version = |slot: usize| state.operations[slot].new.version;
        match step {
            FillStep::Begin(new) => format!(
                "Operation {} begins: {}.",
                state.version + 1,
                place_in_words(new)
            ),
            FillStep::Commit(slot) => format!("Operation {} commits.", version(slot)),
            FillStep::Abort(slot) => {
                format!("The end of the epoch aborts operation {}.", version(slot))
            }
            FillStep::Settle(slot, member) => format!(
                "The {} settles operation {}.",
                member_name(member),
                version(slot)
            ),
            FillStep::ReadPage(partition) => format!(
                "The copy reads page {} for the {}.",
                state.partitions[partition].pages_taken,
                partition_name(partition)
            ),
            FillStep::TakePage(partition, page) => {
                format!("Page {page} arrives at the {}.", partition_name(partition))
            }
            FillStep::Serve(partition) => format!("The {} serves.", partition_name(partition)),
            FillStep::BeginSplit => "A split begins.".into(),
            FillStep::Send => "The giver sends its entry.".into(),
            FillStep::Receive => "The entry arrives at the taker.".into(),
            FillStep::Seal => "The table is sealed.".into(),
            FillStep::HandOver => "The taker has the range.".into(),
            FillStep::BecomeWhole => "The taker has the last changes.".into(),
            FillStep::Sweep => "The giver removes what it has given.".into(),
            FillStep::Restart(partition) => format!("The {} restarts.", partition_name(partition)),
            FillStep::Lose(partition) => format!("The {} is lost.", partition_name(partition)),
            FillStep::Replace => "Lost partitions are filled again.".into(),
        }
    }

    /// Returns a description of the changes that a step has made.
    pub fn changes_in_words(&self, before: &FillState, after: &FillState) -> Vec<String> {
        let mut changes = Vec::new();
        for member in [HEAD, COPY] {
            let (was, is) = (before.row(member), after.row(member));
            if was != is {
                let row = place_in_words(is.place);
                changes.push(format!("the {} has {row}", member_name(member)));
            }
        }
        for partition in PARTITIONS {
            let (was, is) = (before.partitions[partition], after.partitions[partition]);
            let name = partition_name(partition);
            if was.stage != is.stage {
                changes.push(format!("the {name} is {:?}", is.stage));
            }
            if was.entries != is.entries {
                let [low, high] = is.entries;
                changes.push(format!(
                    "the {name} has the entries low {low} and high {high}"
                ));
            }
        }
        changes
    }
}
