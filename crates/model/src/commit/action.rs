//! Lists every action that can happen next in a state of the model of commit.

use crate::commit::chain::CaseRules;
use crate::commit::state::{ModelMessage, ModelState};

/// One step of the model. Members and operations are indexes into the case. In `Vote` and `GiveUp`,
/// the member is an index in the operation's chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelStep {
    /// A client's request arrives at the head of an operation.
    Begin(usize),
    /// A message arrives.
    Deliver(ModelMessage),
    /// An operation that waited at a member has acquired its keys, and the member votes.
    Vote(usize, usize),
    /// An operation has waited too long at a member.
    GiveUp(usize, usize),
    /// A record of one operation becomes durable at a member, where a step waits for it.
    Flush(usize, usize),
    /// The head of an operation resends its unanswered messages.
    Resend(usize),
    /// A member crashes. Contains the undurable records that are on its disk nevertheless.
    Crash(usize, u8),
    /// A member restarts.
    Restart(usize),
    /// A member learns of the newest epoch.
    Learn(usize),
    /// The first member reports what it knows to the second, which has restarted.
    Report(usize, usize),
    /// A member is removed.
    Lose(usize),
    /// A member applies the resolution.
    Resolve(usize),
    /// The new epoch serves.
    Serve,
}

impl ModelStep {
    /// Returns whether this step is a fault, which need not happen.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            ModelStep::Crash(..) | ModelStep::Lose(_) | ModelStep::GiveUp(..)
        )
    }
}

impl CaseRules<'_> {
    /// Applies a step to the state. Returns false if the step is impossible in this state.
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

    /// Calls `attempt` with every step that may be possible in a state.
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
