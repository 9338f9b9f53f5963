//! Models leases with an epoch for each table (R15). The property: once a write is acknowledged in
//! a later epoch without a core, that core answers no reads in its earlier epoch.
//!
//! Every change has a number. A table's epoch is the number of the last change that concerned it.
//! One core requests leases, and the coordinator and the other cores grant them. Each core is on
//! its own server.
//!
//! Time is counted in leases: an age of one is a lease that has ended. Left out: the drift of
//! clocks, and what is resolved, which the models of commit and of seals have.

mod case;
mod coordinator;
mod lease;
mod planted;
mod state;
mod story;

use case::LeaseCase;
use lease::LeaseRules;
use planted::LeaseBug;
use state::{LeaseState, LeaseStep};

use crate::packing::Packed;
use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

impl StateSpace for LeaseRules {
    type State = LeaseState;
    type Step = LeaseStep;

    fn start(&self) -> LeaseState {
        LeaseState::start(&self.case)
    }

    fn apply(&self, state: &mut LeaseState, step: LeaseStep) -> bool {
        let happened = match step {
            LeaseStep::Tick => self.tick(state),
            LeaseStep::Ask(voucher) => self.ask(state, voucher),
            LeaseStep::Vouch(voucher, ghost) => self.vouch(state, voucher, ghost),
            LeaseStep::Receive(voucher) => self.receive(state, voucher),
            LeaseStep::Heartbeat => self.heartbeat(state),
            LeaseStep::Learn(core) => self.learn(state, core),
            LeaseStep::Report(core) => self.report(state, core),
            LeaseStep::Restart(core) => self.restart(state, core),
            LeaseStep::Seal(removed) => self.seal(state, removed),
            LeaseStep::Serve(changes) => self.serve(state, changes),
            LeaseStep::BeginMove => self.begin_move(state),
            LeaseStep::CancelMove => self.cancel_move(state),
            LeaseStep::DropCopy => self.drop_copy(state),
            LeaseStep::RaiseTolerance => self.raise_tolerance(state),
            LeaseStep::ChangeOther => self.change_other(state),
            LeaseStep::Write => self.write(state),
        };
        self.forget_idle(state);
        happened
    }

    fn steps(&self, _: &LeaseState, attempt: &mut dyn FnMut(LeaseStep)) {
        let cores = 0..self.case.cores.len();
        for step in [
            LeaseStep::Tick,
            LeaseStep::Heartbeat,
            LeaseStep::Serve(false),
            LeaseStep::Serve(true),
            LeaseStep::BeginMove,
            LeaseStep::CancelMove,
            LeaseStep::DropCopy,
            LeaseStep::RaiseTolerance,
            LeaseStep::ChangeOther,
            LeaseStep::Write,
        ] {
            attempt(step);
        }
        for core in cores.clone() {
            attempt(LeaseStep::Report(core));
            attempt(LeaseStep::Restart(core));
            attempt(LeaseStep::Learn(core));
            for step in [
                LeaseStep::Ask(core),
                LeaseStep::Vouch(core, false),
                LeaseStep::Vouch(core, true),
                LeaseStep::Receive(core),
            ] {
                attempt(step);
            }
        }
        for removed in 0..1 << cores.len() {
            attempt(LeaseStep::Seal(removed));
        }
    }

    fn is_fault(&self, step: LeaseStep) -> bool {
        !matches!(
            step,
            LeaseStep::Tick | LeaseStep::Learn(_) | LeaseStep::Report(_) | LeaseStep::Serve(_)
        )
    }

    fn violation(&self, state: &LeaseState) -> Option<String> {
        self.reads_behind(state)
            .then(|| "R15: a read misses a write that a later epoch has acknowledged".into())
    }

    fn violation_at_rest(&self, state: &LeaseState) -> Option<String> {
        let sealed = state.configuration(state.newest).sealed;
        sealed.then(|| "I16: the table never serves again".into())
    }

    fn pack(&self, state: &LeaseState, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        state.put(bytes);
        for permutation in &self.permutations {
            let mut other = Vec::with_capacity(bytes.len());
            state.renamed(permutation).put(&mut other);
            if other[..] < bytes[start..] {
                bytes.truncate(start);
                bytes.extend_from_slice(&other);
            }
        }
    }

    fn unpack(&self, mut bytes: &[u8]) -> LeaseState {
        LeaseState::take(&mut bytes)
    }

    fn words(&self, state: &LeaseState, step: LeaseStep) -> String {
        self.step_in_words(state, step)
    }

    fn changes(&self, before: &LeaseState, after: &LeaseState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case.
pub fn studied_cases() -> Vec<StudiedCase> {
    let studied = |case: LeaseCase| StudiedCase {
        name: case.name,
        about: case.about.into(),
        search: Box::new(move |limits| examine(&LeaseRules::new(case.clone(), None), limits)),
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &LeaseBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        bug.studied(move |limits| examine(&LeaseRules::new(case.clone(), Some(bug)), limits))
    };
    LeaseBug::ALL.iter().map(studied).collect()
}
