//! What can happen next: every action, and all successors of a state.

use crate::chain::World;
use crate::state::{Message, State};

/// One step. Members, operations and places are indices of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A client's request comes to the head of an operation.
    Begin(usize),
    /// A message arrives.
    Deliver(Message),
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
    /// The first member tells the second, which has restarted, what it knows.
    Tell(usize, usize),
    /// A member is removed.
    Lose(usize),
    /// A member takes the resolution.
    Resolve(usize),
    /// The new epoch serves.
    Serve,
}

impl Action {
    /// Whether nothing forces it to happen ever.
    pub fn is_fault(self) -> bool {
        matches!(
            self,
            Action::Crash(..) | Action::Lose(_) | Action::GiveUp(..)
        )
    }
}

impl World<'_> {
    /// Does one thing; false if it cannot happen in this state.
    pub fn apply(&self, state: &mut State, action: Action) -> bool {
        let happened = match action {
            Action::Begin(operation) => self.begin(state, operation),
            Action::Deliver(message) => self.deliver(state, message),
            Action::Vote(operation, place) => self.vote(state, operation, place),
            Action::GiveUp(operation, place) => self.give_up(state, operation, place),
            Action::Flush(member, operation) => self.flush(state, member, operation),
            Action::Resend(operation) => self.resend(state, operation),
            Action::Crash(member, kept) => self.crash(state, member, kept),
            Action::Restart(member) => self.restart(state, member),
            Action::Learn(member) => self.learn(state, member),
            Action::Tell(from, to) => self.tell(state, from, to),
            Action::Lose(member) => self.lose(state, member),
            Action::Resolve(member) => self.resolve(state, member),
            Action::Serve => self.serve(state),
        };
        if happened {
            state.renumber();
        }
        happened
    }

    /// Every state that can come next, with what leads there.
    pub fn successors(&self, state: &State, each: &mut dyn FnMut(Action, &State)) {
        let mut attempt = |action: Action| {
            let mut next = *state;
            if self.apply(&mut next, action) && next != *state {
                each(action, &next);
            }
        };
        for message in state.messages.iter() {
            attempt(Action::Deliver(message));
        }
        for (operation, chain) in self.case.operations.iter().enumerate() {
            attempt(Action::Begin(operation));
            attempt(Action::Resend(operation));
            for place in 1..chain.places.len() {
                attempt(Action::Vote(operation, place));
                attempt(Action::GiveUp(operation, place));
            }
        }
        for member in 0..self.case.members.len() {
            self.actions_of(state, member, &mut attempt);
        }
        attempt(Action::Serve);
    }

    /// What one member, its disk or its fate may do.
    fn actions_of(&self, state: &State, member: usize, attempt: &mut dyn FnMut(Action)) {
        for action in [
            Action::Learn(member),
            Action::Restart(member),
            Action::Resolve(member),
            Action::Lose(member),
        ] {
            attempt(action);
        }
        for operation in 0..self.case.operations.len() {
            attempt(Action::Flush(member, operation));
        }
        let undurable = self.undurable(state, member);
        let subsets = (0..=undurable).filter(|kept| kept & !undurable == 0);
        for kept in subsets.filter(|_| state.crashes_left > 0) {
            attempt(Action::Crash(member, kept));
        }
        if state.members[member].recovering {
            for from in 0..self.case.members.len() {
                attempt(Action::Tell(from, member));
            }
        }
    }
}
