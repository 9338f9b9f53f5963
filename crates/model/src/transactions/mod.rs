//! Models transactions over rows of two tables (R40 to R46): a walk that evaluates, votes on a
//! complete prepare, and the resolution after a loss.
//!
//! There are three ways from the evaluated transaction to its decision, and each transaction of a
//! case takes one of them. On two of them the coordinator sends the prepare to all members at once.
//! The third one, a chain with complete prepares, is not built. The design page of 2026-11-28 on
//! transactions compares them.
//!
//! A member that has voted yes or knows an outcome has it durably, except in the cases in which
//! cores lose their memory. A message that was sent can arrive at any time, and more than once. A
//! message that is lost has not arrived yet.
//!
//! Left out: indexes and ranges, and the leases, which the model of leases has.

mod case;
mod check;
mod memory;
mod planted;
mod seal;
mod state;
mod story;
mod votes;
mod walk;

use case::TransactionCase;
use planted::TransactionBug;
use state::{ModelState, TransactionStep};
use walk::TransactionRules;

use crate::packing::Packed;
use crate::search::StateSpace;
use crate::study::{StudiedBug, StudiedCase, examine};

impl StateSpace for TransactionRules {
    type State = ModelState;
    type Step = TransactionStep;

    fn start(&self) -> ModelState {
        ModelState::start(&self.case)
    }

    fn apply(&self, state: &mut ModelState, step: TransactionStep) -> bool {
        match step {
            TransactionStep::Begin(number) => self.begin(state, number),
            TransactionStep::Walk(number) => self.visit(state, number),
            TransactionStep::Send(number) => self.send(state, number),
            TransactionStep::Release(number, core) => self.release(state, number, core),
            TransactionStep::Prepare(number, core) => self.prepare(state, number, core, false),
            TransactionStep::Refuse(number, core) => self.prepare(state, number, core, true),
            TransactionStep::Check(number, row) => self.check(state, number, row),
            TransactionStep::AskMembers(number) => self.ask_members(state, number),
            TransactionStep::DropWalk(number, core) => self.drop_walk(state, number, core),
            TransactionStep::Close(number, core) => self.close(state, number, core),
            TransactionStep::Forget(number) => self.forget(state, number),
            TransactionStep::Read(core, row) => self.read(state, core, row),
            TransactionStep::Decide(number) => self.decide(state, number),
            TransactionStep::GiveUp(number) => self.give_up(state, number),
            TransactionStep::Deliver(number, core) => self.deliver(state, number, core),
            TransactionStep::Answer(number) => self.answer(state, number),
            TransactionStep::Settle(number, core) => self.settle(state, number, core),
            TransactionStep::Crash(core) => self.crash(state, core),
            TransactionStep::AskOthers(core) => self.ask_others(state, core),
            TransactionStep::Learn(core) => self.learn(state, core),
            TransactionStep::Resolve(core, number) => self.resolve(state, core, number),
            TransactionStep::Lose(core) => self.lose(state, core),
            TransactionStep::Serve(table) => self.serve(state, table),
        }
    }

    fn steps(&self, _: &ModelState, attempt: &mut dyn FnMut(TransactionStep)) {
        for number in 0..self.case.transactions.len() {
            self.steps_of(number, attempt);
        }
        for core in 0..self.case.cores.len() {
            attempt(TransactionStep::Crash(core));
            attempt(TransactionStep::AskOthers(core));
            attempt(TransactionStep::Read(core, 0));
            attempt(TransactionStep::Read(core, 1));
            attempt(TransactionStep::Learn(core));
            attempt(TransactionStep::Lose(core));
        }
        attempt(TransactionStep::Serve(case::X));
        attempt(TransactionStep::Serve(case::Y));
    }

    fn is_fault(&self, step: TransactionStep) -> bool {
        matches!(
            step,
            TransactionStep::Begin(_)
                | TransactionStep::Refuse(..)
                | TransactionStep::GiveUp(_)
                | TransactionStep::Read(..)
                | TransactionStep::DropWalk(..)
                | TransactionStep::Crash(_)
                | TransactionStep::Lose(_)
        )
    }

    fn violation(&self, state: &ModelState) -> Option<String> {
        self.broken_invariant(state)
    }

    fn violation_at_rest(&self, state: &ModelState) -> Option<String> {
        self.unfinished(state)
    }

    fn pack(&self, state: &ModelState, bytes: &mut Vec<u8>) {
        state.put(bytes);
    }

    fn unpack(&self, mut bytes: &[u8]) -> ModelState {
        ModelState::take(&mut bytes)
    }

    fn words(&self, state: &ModelState, step: TransactionStep) -> String {
        self.step_in_words(state, step)
    }

    fn changes(&self, before: &ModelState, after: &ModelState) -> Vec<String> {
        self.changes_in_words(before, after)
    }
}

/// Returns every case.
pub fn studied_cases() -> Vec<StudiedCase> {
    let studied = |case: TransactionCase| StudiedCase {
        name: case.name,
        about: case.about.into(),
        search: Box::new(move |limits| {
            let case = case.clone();
            examine(&TransactionRules { case, bug: None }, limits)
        }),
    };
    case::cases().into_iter().map(studied).collect()
}

/// Returns the planted bugs.
pub fn studied_bugs() -> Vec<StudiedBug> {
    let studied = |bug: &TransactionBug| {
        let bug = *bug;
        let case = case::named(bug.case_name()).expect("the table names cases that there are");
        bug.studied(move |limits| {
            let (case, bug) = (case.clone(), Some(bug));
            examine(&TransactionRules { case, bug }, limits)
        })
    };
    TransactionBug::ALL.iter().map(studied).collect()
}
