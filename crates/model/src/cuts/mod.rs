//! Models drained cuts: snapshots at a version that are opened across heads whose chains share no
//! core (R35-R39, I18; `docs/design/2026-11-26-drained-cuts.md`).
//!
//! Each row stands for a chain, each core of it has a copy, and a read at the version may use any
//! of them. The rows' owners are observable by real time: an operation is acknowledged before
//! another begins, as when a key is deleted by one head and inserted again by another.
//!
//! Left out: votes, and resolutions but for their outcome (the model of commit), several tables
//! with epochs of their own, operations with several primaries, budgets as numbers (history may be
//! full at any time).

mod case;
mod check;
mod opening;
mod operation;
mod planted;
mod restart;
mod state;
mod story;

use case::CutCase;
use operation::CutRules;
use planted::CutBug;
use state::{CutState, CutStep};

use crate::packing::Packed;
use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

impl CutRules {
    /// Steps of operations and of the coordinator.
    fn steps_of_operations(&self, attempt: &mut dyn FnMut(CutStep)) {
        for operation in 0..self.case.operations.len() {
            for jump in 0..=self.case.jumps {
                attempt(CutStep::Begin(operation, jump));
            }
            for place in 0..self.chain(operation).len() {
                attempt(CutStep::Prepare(operation, place));
                attempt(CutStep::Decide(operation, place));
            }
            attempt(CutStep::Resend(operation));
        }
        attempt(CutStep::Serve);
    }

    /// Steps of openings.
    fn steps_of_openings(&self, attempt: &mut dyn FnMut(CutStep)) {
        for opening in 0..self.case.openings {
            for step in [
                CutStep::Open(opening),
                CutStep::Join(opening),
                CutStep::Close(opening),
            ] {
                attempt(step);
            }
            for core in 0..self.case.cores.len() {
                attempt(CutStep::Hold(opening, core));
                attempt(CutStep::Release(opening, core));
            }
        }
    }
}

impl StateSpace for CutRules {
    type State = CutState;
    type Step = CutStep;

    fn start(&self) -> CutState {
        CutState::start(&self.case)
    }

    fn apply(&self, state: &mut CutState, step: CutStep) -> bool {
        let happened = match step {
            CutStep::Begin(operation, jump) => self.begin(state, operation, jump),
            CutStep::Prepare(operation, place) => self.prepare(state, operation, place),
            CutStep::Decide(operation, place) => self.decide(state, operation, place),
            CutStep::Resend(operation) => self.resend(state, operation),
            CutStep::Open(opening) => self.open(state, opening),
            CutStep::Join(opening) => self.join(state, opening),
            CutStep::Hold(opening, core) => self.hold(state, opening, core),
            CutStep::Expire(core) => self.expire(state, core),
            CutStep::Close(opening) => self.close(state, opening),
            CutStep::Release(opening, core) => self.release(state, opening, core),
            CutStep::Trim(core) => self.trim(state, core),
            CutStep::Restart(core, loses) => self.restart(state, core, loses),
            CutStep::Recover(core) => self.recover(state, core),
            CutStep::Learn(core) => self.learn(state, core),
            CutStep::Lose(core) => self.lose(state, core),
            CutStep::Serve => self.serve(state),
        };
        self.follow_up(state);
        happened
    }

    fn steps(&self, _: &CutState, attempt: &mut dyn FnMut(CutStep)) {
        self.steps_of_operations(attempt);
        self.steps_of_openings(attempt);
        for core in 0..self.case.cores.len() {
            for step in [
                CutStep::Expire(core),
                CutStep::Trim(core),
                CutStep::Restart(core, false),
                CutStep::Restart(core, true),
                CutStep::Recover(core),
                CutStep::Learn(core),
                CutStep::Lose(core),
            ] {
                attempt(step);
            }
        }
    }

    fn is_fault(&self, step: CutStep) -> bool {
        matches!(
            step,
            CutStep::Begin(..)
                | CutStep::Open(_)
                | CutStep::Join(_)
                | CutStep::Trim(_)
                | CutStep::Restart(..)
                | CutStep::Lose(_)
        )
    }

    fn violation(&self, state: &CutState) -> Option<String> {
        self.broken_invariant(state)
    }

    fn violation_at_rest(&self, state: &CutState) -> Option<String> {
        self.unfinished(state)
    }

    fn pack(&self, state: &CutState, bytes: &mut Vec<u8>) {
        state.put(bytes);
    }

    fn unpack(&self, mut bytes: &[u8]) -> CutState {
        CutState::take(&mut bytes)
    }

    fn words(&self, _: &CutState, step: CutStep) -> String {
        self.step_in_words(step)
    }

    fn changes(&self, before: &CutState, after: &CutState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case.
pub fn studied_cases() -> Vec<StudiedCase> {
    let studied = |case: CutCase| StudiedCase {
        name: case.name,
        about: case.about.into(),
        search: Box::new(move |limits| {
            let case = case.clone();
            examine(&CutRules { case, bug: None }, limits)
        }),
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &CutBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        bug.studied(move |limits| {
            let (case, bug) = (case.clone(), Some(bug));
            examine(&CutRules { case, bug }, limits)
        })
    };
    CutBug::ALL.iter().map(studied).collect()
}
