//! Models commit, restart and resolution in small clusters, and visits every reachable state.
//! Members crash and lose what is not durable. Removed members continue in their epoch. Messages
//! are late, lost or duplicated (R1-R5, R8, R15, R16, R18, R48). Tables are `sync` or `replicated`.
//!
//! A state has some 60 bytes, and the search keeps 20 bytes for each, so that it can visit many
//! states.
//!
//! Left out: time (leases end at a step of the model), how finished operations are forgotten (R14),
//! reads (a settled outcome counts as seen by a client), the order of operations on one pk (R6),
//! torn records (R23, R24).

mod action;
mod case;
mod chain;
mod check;
mod planted;
mod resolution;
mod restart;
mod sides;
mod state;
mod story;

use action::ModelStep;
use chain::CaseRules;
use planted::ModelBug;
use state::{ModelState, PACKED_MAX};

use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

impl StateSpace for CaseRules<'_> {
    type State = ModelState;
    type Step = ModelStep;

    fn start(&self) -> ModelState {
        ModelState::start(self.case)
    }

    fn apply(&self, state: &mut ModelState, step: ModelStep) -> bool {
        self.act(state, step)
    }

    fn steps(&self, state: &ModelState, attempt: &mut dyn FnMut(ModelStep)) {
        self.possible_steps(state, attempt);
    }

    fn is_fault(&self, step: ModelStep) -> bool {
        step.is_fault()
    }

    fn violation(&self, state: &ModelState) -> Option<String> {
        self.broken_invariant(state)
    }

    fn violation_at_rest(&self, state: &ModelState) -> Option<String> {
        self.unfinished(state)
    }

    fn pack(&self, state: &ModelState, bytes: &mut Vec<u8>) {
        let mut packed = [0; PACKED_MAX];
        let count = state.pack(self.case, &mut packed);
        bytes.extend_from_slice(&packed[..count]);
    }

    fn unpack(&self, bytes: &[u8]) -> ModelState {
        ModelState::unpack(self.case, bytes)
    }

    fn words(&self, state: &ModelState, step: ModelStep) -> String {
        self.step_in_words(state, step)
    }

    fn changes(&self, before: &ModelState, after: &ModelState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case, from small to large, with other numbers of crashes and losses if given.
pub fn studied_cases(crashes: Option<u8>, losses: Option<u8>) -> Vec<StudiedCase> {
    let studied = |mut case: case::Case| {
        case.faults.crashes = crashes.unwrap_or(case.faults.crashes);
        case.faults.losses = losses.unwrap_or(case.faults.losses);
        StudiedCase {
            name: case.name,
            about: case.describe(),
            search: Box::new(move |limits| examine(&CaseRules::new(&case, None), limits)),
        }
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &ModelBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        bug.studied(move |limits| examine(&CaseRules::new(&case, Some(bug)), limits))
    };
    ModelBug::ALL.iter().map(studied).collect()
}
