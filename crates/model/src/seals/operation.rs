//! Models operations without seals: an operation goes down a chain, or is prepared at all members
//! at once and decided by its coordinator.
//!
//! A member that has a vote or an outcome has it durably. A message that is not on the disk yet
//! counts as not received.

use super::case::{SealCase, SealedOperation, Way};
use super::planted::SealBug;
use super::state::{SealPart, SealStage, SealState};
use crate::changes::Outcome;

/// The model of seals for one small cluster: its possible steps, and the invariants to check. With
/// `bug`, the model breaks one rule of docs/rules.md.
#[derive(Clone, Debug)]
pub struct SealRules {
    /// The cluster, and the events that may happen in it.
    pub case: SealCase,
    /// The planted bug.
    pub bug: Option<SealBug>,
}

impl SealRules {
    /// Returns whether this bug is planted.
    pub fn is(&self, bug: SealBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns the operation of the case.
    pub fn operation(&self, operation: usize) -> &SealedOperation {
        &self.case.operations[operation]
    }

    /// Returns the index of the member that begins an operation and answers its client.
    pub fn first(&self, operation: usize) -> usize {
        match self.operation(operation).way {
            Way::Chain => 0,
            Way::Fanned(coordinator) => coordinator,
        }
    }

    /// Returns the indexes of the members that existed when an operation began. The model has no
    /// replacements for members that were lost earlier.
    pub fn places(&self, state: &SealState, operation: usize) -> Vec<usize> {
        let begun = state.operations[operation].begun;
        let removed = state.changes.of(begun).removed;
        let members = self.operation(operation).members;
        let there = |place: &usize| removed >> members[*place] & 1 == 0;
        (0..members.len()).filter(there).collect()
    }

    /// Returns whether a core runs. A removed server runs until its leases have ended.
    pub fn runs(&self, state: &SealState, core: usize) -> bool {
        state.changes.fenced >> core & 1 == 0
    }

    /// Returns whether a core takes part in an operation: all tables of the operation are in the
    /// epochs in which it began, and none of them is sealed (R15, R44).
    pub fn takes_part(&self, state: &SealState, operation: usize, core: usize) -> bool {
        let begun = state.operations[operation].begun;
        let (view, then) = (state.changes.view(core), state.changes.of(begun));
        let mut tables = self.operation(operation).tables;
        let mut stopped = view.sealed & tables;
        if self.is(SealBug::OwnTableOnly) || self.is(SealBug::AbsenceDoesNotBind) {
            tables &= self.case.holds[core];
            stopped &= self.case.holds[core];
        }
        if self.is(SealBug::SealStopsOthers) {
            stopped = view.sealed & self.case.holds[core];
        }
        let mut matters = (0..2).filter(|table| tables >> table & 1 != 0);
        let same = matters.all(|table| view.epochs[table] == then.epochs[table]);
        let same = match self.bug {
            Some(SealBug::StaleEpochAccepted) => true,
            Some(SealBug::OneEpochForAll) => state.changes.numbers[core] == begun,
            _ => same,
        };
        self.runs(state, core) && same && stopped == 0
    }

    /// Begins an operation at its head, or with the last of its primaries.
    pub fn begin(&self, state: &mut SealState, operation: usize) -> bool {
        let place = self.first(operation);
        let core = self.operation(operation).members[place];
        let stopped = state.changes.view(core).sealed & self.operation(operation).tables != 0;
        if state.operations[operation].begun != 0 || stopped || !self.runs(state, core) {
            return false;
        }
        state.operations[operation].begun = state.changes.numbers[core];
        self.vote(state, operation, place);
        true
    }

    fn vote(&self, state: &mut SealState, operation: usize, place: usize) {
        state.operations[operation].voted |= 1 << place;
        state.operations[operation].parts[place].stage = SealStage::Prepared;
    }

    /// Delivers a prepare to a member, which votes yes, or no if `refuses` is set.
    pub fn prepare(
        &self,
        state: &mut SealState,
        operation: usize,
        place: usize,
        refuses: bool,
    ) -> bool {
        let now = state.operations[operation];
        let core = self.operation(operation).members[place];
        let sent = match self.operation(operation).way {
            Way::Chain => {
                let places = self.places(state, operation);
                let before = places.iter().rev().find(|before| **before < place);
                before.is_some_and(|before| now.voted >> before & 1 != 0)
            }
            Way::Fanned(_) => now.begun != 0,
        };
        let part = now.parts[place];
        let new = part.stage == SealStage::Unknown && part.outcome == Outcome::Undecided;
        let may_refuse = !refuses || self.case.refuses == Some(core);
        if !sent || !new || !may_refuse || !self.takes_part(state, operation, core) {
            return false;
        }
        if refuses {
            state.operations[operation].refused = true;
            state.operations[operation].parts[place].stage = SealStage::Refused;
        } else {
            self.vote(state, operation, place);
        }
        true
    }

    /// Decides an operation, at the last member of a chain, or at the operation's coordinator once
    /// it has all votes. Returns false if this is not possible.
    pub fn decide(&self, state: &mut SealState, operation: usize) -> bool {
        let now = state.operations[operation];
        let members = self.operation(operation).members;
        let places = self.places(state, operation);
        let place = match self.operation(operation).way {
            Way::Chain => *places.last().expect("its head is there"),
            Way::Fanned(coordinator) => coordinator,
        };
        let fanned = self.operation(operation).way != Way::Chain;
        let votes = places.iter().filter(|place| now.voted >> **place & 1 != 0);
        let missing = (places.len() - votes.count()) as u32;
        let early = u32::from(fanned && self.is(SealBug::DecidedEarly));
        let decided = now.decision != Outcome::Undecided;
        let ready = now.parts[place].stage == SealStage::Prepared && now.begun != 0;
        if decided || !ready || !self.takes_part(state, operation, members[place]) {
            return false;
        }
        let decision = match (now.refused, missing <= early) {
            (true, _) => Outcome::Abort,
            (false, true) => Outcome::Commit,
            (false, false) => return false,
        };
        let operation = &mut state.operations[operation];
        operation.decision = decision;
        operation.parts[place].outcome = decision;
        // An abort is what follows from no decision at all: nothing has to be durable first.
        operation.seen_abort |= decision == Outcome::Abort;
        // A chain's outcome is seen at its decider (x = n).
        operation.seen_commit |= decision == Outcome::Commit && !fanned;
        true
    }

    /// Delivers the decision to a member: up a chain, or from the coordinator.
    pub fn deliver(&self, state: &mut SealState, operation: usize, place: usize) -> bool {
        let now = state.operations[operation];
        let members = self.operation(operation).members;
        let sent = match self.operation(operation).way {
            Way::Chain => {
                let removed = state.changes.current().removed | state.changes.fenced;
                let mut below =
                    (place + 1..members.len()).filter(|below| removed >> members[*below] & 1 == 0);
                below
                    .next()
                    .is_some_and(|below| now.parts[below].outcome == now.decision)
            }
            Way::Fanned(_) => true,
        };
        let part = &mut state.operations[operation].parts[place];
        let known = part.outcome != Outcome::Undecided || part.stage == SealStage::Unknown;
        let decided = now.decision != Outcome::Undecided;
        if !decided || !sent || known {
            return false;
        }
        part.outcome = now.decision;
        self.takes_part(state, operation, members[place])
    }

    /// Answers the client of an operation over several tables, once f + 1 servers of each table
    /// have the decision on their disks.
    pub fn answer(&self, state: &mut SealState, operation: usize) -> bool {
        let now = state.operations[operation];
        let chosen = self.operation(operation);
        let coordinator = chosen.members[self.first(operation)];
        let places = self.places(state, operation);
        let knowing = |tables: u8| {
            let holds = |place: &&usize| self.case.holds[chosen.members[**place]] & tables != 0;
            let holders = places.iter().filter(holds);
            let knowing = holders
                .clone()
                .filter(|place| now.parts[**place].outcome == Outcome::Commit);
            // Where a table has lost a server before, fewer are left (R5).
            knowing.count() >= holders.count().min(2)
        };
        let durable = match self.is(SealBug::DurableAnywhere) {
            true => knowing(chosen.tables),
            false => (0..2).all(|table| knowing(1 << table)),
        };
        let fanned = chosen.way != Way::Chain;
        let decided = now.decision == Outcome::Commit && !now.seen_commit;
        // A removed coordinator answers under its lease, whatever the others do.
        if !fanned || !decided || !durable || !self.takes_part(state, operation, coordinator) {
            return false;
        }
        state.operations[operation].seen_commit = true;
        true
    }

    /// Returns whether an operation has begun and has not ended at some remaining member.
    pub fn is_unfinished(&self, state: &SealState, operation: usize) -> bool {
        let members = self.operation(operation).members.iter();
        let mut parts = members.zip(&state.operations[operation].parts);
        parts.any(|(core, part): (&usize, &SealPart)| {
            let open = part.stage != SealStage::Unknown && part.outcome == Outcome::Undecided;
            !state.changes.is_removed(*core) && open
        })
    }
}
