//! Models a partition of a thin index that is filled from a copy while its row changes, and a range
//! that goes from one partition to another (R19, R20, R27, R47, R49, R55).
//!
//! There is one row. It has a place in the order of the copy, which is read in two pages, and a key
//! in the order of the index: low or high. The first partition has both keys. A split gives the
//! high one to the second partition.
//!
//! Left out: how an operation is decided (the model of commit), how an epoch ends (the model of
//! seals), and disks: a partition that restarts has its entries, and forgets only its progress.

mod case;
mod check;
mod fill;
mod operation;
mod planted;
mod state;
mod story;
mod transfer;

use case::FillCase;
use planted::FillBug;
use state::{COPY, FIRST, FillState, FillStep, HEAD, PARTITIONS, Place, SECOND};

use crate::packing::Packed;
use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

/// The rules of the model, for one case.
pub struct FillRules {
    /// The case.
    pub case: FillCase,
    /// The rule that is broken on purpose, if any.
    pub bug: Option<FillBug>,
}

impl FillRules {
    fn has(&self, bug: FillBug) -> bool {
        self.bug == Some(bug)
    }
}

impl StateSpace for FillRules {
    type State = FillState;
    type Step = FillStep;

    fn start(&self) -> FillState {
        FillState::start(&self.case)
    }

    fn apply(&self, state: &mut FillState, step: FillStep) -> bool {
        match step {
            FillStep::Begin(new) => self.begin(state, new),
            FillStep::Commit(operation) => self.commit(state, operation),
            FillStep::Abort(operation) => self.abort(state, operation),
            FillStep::Settle(operation, member) => self.settle(state, operation, member),
            FillStep::ReadPage(partition) => self.read_page(state, partition),
            FillStep::TakePage(partition, page) => self.take_page(state, partition, page),
            FillStep::Serve(partition) => self.serve(state, partition),
            FillStep::BeginSplit => self.begin_split(state),
            FillStep::Send => self.send(state),
            FillStep::Receive => self.receive(state),
            FillStep::Seal => self.seal(state),
            FillStep::HandOver => self.hand_over(state),
            FillStep::BecomeWhole => self.become_whole(state),
            FillStep::Sweep => self.sweep(state),
            FillStep::Restart(partition) => self.restart(state, partition),
            FillStep::Lose(partition) => self.lose(state, partition),
            FillStep::Replace => self.replace(state),
        }
    }

    fn steps(&self, _: &FillState, attempt: &mut dyn FnMut(FillStep)) {
        attempt(FillStep::Begin(None));
        for page in 0..2 {
            for key in 0..2 {
                attempt(FillStep::Begin(Some(Place { page, key })));
            }
        }
        for operation in 0..2 {
            attempt(FillStep::Commit(operation));
            attempt(FillStep::Abort(operation));
            for member in [HEAD, COPY, FIRST, SECOND] {
                attempt(FillStep::Settle(operation, member));
            }
        }
        for partition in PARTITIONS {
            attempt(FillStep::ReadPage(partition));
            attempt(FillStep::TakePage(partition, 0));
            attempt(FillStep::TakePage(partition, 1));
            attempt(FillStep::Serve(partition));
            attempt(FillStep::Restart(partition));
            attempt(FillStep::Lose(partition));
        }
        for step in [
            FillStep::BeginSplit,
            FillStep::Send,
            FillStep::Receive,
            FillStep::Seal,
            FillStep::HandOver,
            FillStep::BecomeWhole,
            FillStep::Sweep,
            FillStep::Replace,
        ] {
            attempt(step);
        }
    }

    fn is_fault(&self, step: FillStep) -> bool {
        matches!(
            step,
            FillStep::Begin(_) | FillStep::BeginSplit | FillStep::Restart(_) | FillStep::Lose(_)
        )
    }

    fn violation(&self, state: &FillState) -> Option<String> {
        self.wrong_entry(state)
    }

    fn violation_at_rest(&self, state: &FillState) -> Option<String> {
        self.unfinished(state)
    }

    fn pack(&self, state: &FillState, bytes: &mut Vec<u8>) {
        state.put(bytes);
    }

    fn unpack(&self, mut bytes: &[u8]) -> FillState {
        FillState::take(&mut bytes)
    }

    fn words(&self, state: &FillState, step: FillStep) -> String {
        self.step_in_words(state, step)
    }

    fn changes(&self, before: &FillState, after: &FillState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case.
pub fn studied_cases() -> Vec<StudiedCase> {
    let studied = |case: FillCase| StudiedCase {
        name: case.name,
        about: case.about.into(),
        search: Box::new(move |limits| examine(&FillRules { case, bug: None }, limits)),
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &FillBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        let rules = move || FillRules {
            case,
            bug: Some(bug),
        };
        bug.studied(move |limits| examine(&rules(), limits))
    };
    FillBug::ALL.iter().map(studied).collect()
}
