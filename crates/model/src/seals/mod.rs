//! Models the seal of one table while another table serves, and operations on both tables (R15,
//! R16, R43, R44).
//!
//! Every change of the configuration has a number, and a table's epoch is the number of the last
//! change that concerned it. An operation carries the epochs of its tables. Each table tolerates
//! one failure; each core is a server of its own.
//!
//! Left out: what the model of commit has (disks, restarts within an epoch, refusals along a
//! chain), how leases end (the model of leases), and the walk of a transaction, which logs nothing.

mod case;
mod check;
mod operation;
mod planted;
mod seal;
mod state;
mod story;

use case::SealCase;
use operation::SealRules;
use planted::SealBug;
use state::{SealState, SealStep};

use crate::packing::Packed;
use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

impl StateSpace for SealRules {
    type State = SealState;
    type Step = SealStep;

    fn start(&self) -> SealState {
        SealState::start(&self.case)
    }

    fn apply(&self, state: &mut SealState, step: SealStep) -> bool {
        match step {
            SealStep::Begin(operation) => self.begin(state, operation),
            SealStep::Prepare(operation, place) => self.prepare(state, operation, place, false),
            SealStep::Refuse(operation, place) => self.prepare(state, operation, place, true),
            SealStep::Decide(operation) => self.decide(state, operation),
            SealStep::Deliver(operation, place) => self.deliver(state, operation, place),
            SealStep::Answer(operation) => self.answer(state, operation),
            SealStep::Learn(core) => self.learn(state, core),
            SealStep::Resolve(core, operation) => self.resolve(state, core, operation),
            SealStep::Lose(core) => self.lose(state, core),
            SealStep::Change(table) => self.change(state, table),
            SealStep::Serve(table) => self.serve(state, table),
            SealStep::ForgetSeal(core) => self.forget_seal(state, core),
        }
    }

    fn steps(&self, _: &SealState, attempt: &mut dyn FnMut(SealStep)) {
        for (operation, chosen) in self.case.operations.iter().enumerate() {
            attempt(SealStep::Begin(operation));
            attempt(SealStep::Decide(operation));
            attempt(SealStep::Answer(operation));
            for place in 0..chosen.members.len() {
                attempt(SealStep::Prepare(operation, place));
                attempt(SealStep::Refuse(operation, place));
                attempt(SealStep::Deliver(operation, place));
            }
        }
        for core in 0..self.case.cores.len() {
            attempt(SealStep::Learn(core));
            attempt(SealStep::Lose(core));
            attempt(SealStep::ForgetSeal(core));
            for operation in 0..self.case.operations.len() {
                attempt(SealStep::Resolve(core, operation));
            }
        }
        for table in [case::A, case::B] {
            attempt(SealStep::Change(table));
            attempt(SealStep::Serve(table));
        }
    }

    fn is_fault(&self, step: SealStep) -> bool {
        matches!(
            step,
            SealStep::Begin(_)
                | SealStep::Refuse(..)
                | SealStep::Lose(_)
                | SealStep::Change(_)
                | SealStep::ForgetSeal(_)
        )
    }

    fn violation(&self, state: &SealState) -> Option<String> {
        self.broken_invariant(state)
    }

    fn violation_at_rest(&self, state: &SealState) -> Option<String> {
        self.unfinished(state)
    }

    fn pack(&self, state: &SealState, bytes: &mut Vec<u8>) {
        state.put(bytes);
    }

    fn unpack(&self, mut bytes: &[u8]) -> SealState {
        SealState::take(&mut bytes)
    }

    fn words(&self, state: &SealState, step: SealStep) -> String {
        self.step_in_words(state, step)
    }

    fn changes(&self, before: &SealState, after: &SealState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case.
pub fn studied_cases() -> Vec<StudiedCase> {
    let studied = |case: SealCase| StudiedCase {
        name: case.name,
        about: case.about.into(),
        search: Box::new(move |limits| {
            let case = case.clone();
            examine(&SealRules { case, bug: None }, limits)
        }),
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &SealBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        bug.studied(move |limits| {
            let (case, bug) = (case.clone(), Some(bug));
            examine(&SealRules { case, bug }, limits)
        })
    };
    SealBug::ALL.iter().map(studied).collect()
}
