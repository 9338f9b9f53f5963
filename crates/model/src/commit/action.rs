//! Every action that can happen next.

use crate::commit::chain::CaseRules;
use crate::commit::state::{ModelMessage, ModelState};

/// One step. Members, operations and places are indices of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStep {
    /// A client's request comes to the head of an operation.
    Begin(usize),
    /// A message arrives.
    Deliver(ModelMessage),
    /// An operation that waited at a place has its keys.
    Vote(usize, usize),
    /// An operation has waited too long at a place.
    GiveUp(usize, usize),
    /// A member's disk has what something waits for, of one operation.
    Flush(usize, usize),
    /// The head of an operation sends again.
    Resend(usize),
    /// A member crashes; of its undurable records these are on its disk.
    Crash(usize, u8),
    /// A member comes back.
    Restart(usize),
    /// A member takes up the newest epoch.
    Learn(usize),
    /// The first member reports what it knows to the second, which has restarted.
    Report(usize, usize),
    /// A member is removed.
    Lose(usize),
    /// A member takes the resolution.
    Resolve(usize),
    /// The new epoch serves.
    Serve,
}

impl ModelStep {
    /// Returns whether nothing forces it to happen ever.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            ModelStep::Crash(..) | ModelStep::Lose(_) | ModelStep::GiveUp(..)
        )
    }
}

impl CaseRules<'_> {
    /// Does one thing; false if it cannot happen in this state.
    pub fn act(&self, state: &mut ModelState, action: ModelStep) -> bool {
        let happened = match action {
            ModelStep::Begin(operation) => self.begin(state, operation),
            ModelStep::Deliver(message) => self.deliver(state, message),
            ModelStep::Vote(operation, place) => self.vote(state, operation, place),
            ModelStep::GiveUp(operation, place) => self.give_up(state, operation, place),
            ModelStep::Flush(member, operation) => self.flush(state, member, operation),
            ModelStep::Resend(operation) => self.resend(state, operation),
            ModelStep::Crash(member, kept) => self.crash(state, member, kept),
            ModelStep::Restart(member) => self.restart(state, member),
            ModelStep::Learn(member) => self.learn(state, member),
            ModelStep::Report(from, to) => self.report(state, from, to),
            ModelStep::Lose(member) => self.lose(state, member),
            ModelStep::Resolve(member) => self.resolve(state, member),
            ModelStep::Serve => self.serve(state),
        };
        if happened {
            state.renumber();
        }
        happened
    }

    /// Passes every step to `attempt` that may be possible in a state.
    pub fn possible_steps(&self, state: &ModelState, attempt: &mut dyn FnMut(ModelStep)) {
        for message in state.messages.iter() {
            attempt(ModelStep::Deliver(message));
        }
        for (operation, chain) in self.case.operations.iter().enumerate() {
            attempt(ModelStep::Begin(operation));
            attempt(ModelStep::Resend(operation));
            for place in 1..chain.places.len() {
                attempt(ModelStep::Vote(operation, place));
                attempt(ModelStep::GiveUp(operation, place));
            }
        }
        for member in 0..self.case.members.len() {
            self.actions_of(state, member, attempt);
        }
        attempt(ModelStep::Serve);
    }

    /// Steps of one member, its disk or its failures.
    fn actions_of(&self, state: &ModelState, member: usize, attempt: &mut dyn FnMut(ModelStep)) {
        for action in [
            ModelStep::Learn(member),
            ModelStep::Restart(member),
            ModelStep::Resolve(member),
            ModelStep::Lose(member),
        ] {
            attempt(action);
        }
        for operation in 0..self.case.operations.len() {
            attempt(ModelStep::Flush(member, operation));
        }
        let undurable = self.undurable(state, member);
        let subsets = (0..=undurable).filter(|kept| kept & !undurable == 0);
        for kept in subsets.filter(|_| state.crashes_left > 0) {
            attempt(ModelStep::Crash(member, kept));
        }
        if state.members[member].recovering {
            for from in 0..self.case.members.len() {
                attempt(ModelStep::Report(from, member));
            }
        }
    }
}
