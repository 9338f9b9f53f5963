//! Models tables whose members vote before their log is durable (`replicated`). A core that
//! restarts has lost its memory: it asks all others before it takes part again.
//!
//! In each table at most one core at a time may be lost or without its memory.

use super::case::DecisionWay;
use super::planted::TransactionBug;
use super::state::{ModelState, Part, Stage, history};
use super::walk::TransactionRules;
use crate::changes::{Outcome, members};

impl TransactionRules {
    /// Restarts a core, which loses everything that it had in memory.
    pub fn lose_memory(&self, state: &mut ModelState, core: usize) -> bool {
        let others = self.holds(core);
        let mut cores = 0..self.case.cores.len();
        let full = cores.any(|other| {
            let gone = state.changes.is_removed(other) || state.asking >> other & 1 != 0;
            gone && self.holds(other) & others != 0
        });
        if full || state.changes.is_removed(core) {
            return false;
        }
        state.asking |= 1 << core;
        for transaction in &mut state.transactions {
            let has_begun = transaction.begun != 0;
            transaction.parts[core] = Part {
                forgot: has_begun,
                ..Part::default()
            };
        }
        for row in members(self.holds(core)) {
            state.rows[row][core] = 0;
        }
        true
    }

    /// Lets a restarted core take part again, once all other cores have answered. It adopts the
    /// rows and the outcomes that they know. They ignore what it sent before it restarted.
    pub fn ask_others(&self, state: &mut ModelState, core: usize) -> bool {
        let asks = state.asking >> core & 1 != 0;
        if !asks
            || state.changes.is_removed(core)
            || state.changes.numbers[core] != state.changes.newest
        {
            return false;
        }
        let mut others: Vec<usize> = (0..self.case.cores.len()).collect();
        others.retain(|other| *other != core && !state.changes.is_removed(*other));
        if others
            .iter()
            .any(|other| state.changes.numbers[*other] != state.changes.newest)
        {
            return false;
        }
        state.asking &= !(1 << core);
        for row in members(self.holds(core)) {
            let copies = others
                .iter()
                .filter(|other| self.holds(**other) >> row & 1 != 0);
            let values = copies.map(|other| state.rows[row][*other]);
            state.rows[row][core] = values.max().unwrap_or_default();
        }
        for number in 0..self.case.transactions.len() {
            self.adopt(state, (number, core), &others);
        }
        true
    }

    /// Adopts what the others know of a transaction.
    fn adopt(&self, state: &mut ModelState, (number, core): (usize, usize), others: &[usize]) {
        let now = state.transactions[number];
        let cores = self.members(state, number);
        if now.begun == 0 || now.forgotten || !cores.contains(&core) {
            return;
        }
        let coordinator = self.decider(state, number);
        let takes_part = self.takes_part(state, number, core);
        let has_memory = |it: &usize| others.contains(it) && state.asking >> it & 1 == 0;
        let has_coordinator = takes_part && has_memory(&coordinator);
        let mut logged = others.iter().map(|other| now.parts[*other].outcome);
        let known = match logged.find(|outcome| *outcome != Outcome::Undecided) {
            Some(known) => known,
            None if has_coordinator => now.decision,
            None => Outcome::Undecided,
        };
        let decides = takes_part && now.sent && coordinator == core;
        let outcome = match known {
            Outcome::Undecided if decides => self.outcome_of_decider(state, number, core),
            known => known,
        };
        let with_memory = cores.iter().filter(|it| has_memory(it));
        let all_prepared = with_memory.clone().next().is_some()
            && with_memory
                .clone()
                .all(|it| now.parts[*it].stage == Stage::Prepared);
        let copies = members(self.transaction(number).changes)
            .filter(|row| self.case.copies[*row].contains(&core));
        let mut shown = copies.map(|row| history(state.rows[row][core]).any(|it| it == number));
        let settled = shown.any(|shown| shown);
        let sealed = state.changes.view(core).sealed & self.tables(number) != 0;
        let now = &mut state.transactions[number];
        let part = &mut now.parts[core];
        part.forgot = false;
        part.outcome = outcome;
        if outcome == Outcome::Commit {
            part.stage = Stage::Prepared;
            part.settled = settled;
        }
        if outcome != Outcome::Undecided && takes_part {
            now.reported |= 1 << core;
        }
        if outcome == Outcome::Undecided && (takes_part || sealed) {
            match has_coordinator || self.is(TransactionBug::EarlierVoteDropped) {
                // The coordinator counts no earlier vote, so that the core may judge again.
                true if self.is(TransactionBug::EarlierVoteCounts) => {}
                true => {
                    now.voted &= !(1 << core);
                    if !self.is(TransactionBug::CheckOutlivesVote) {
                        now.checked = 0;
                    }
                }
                // An earlier vote may have counted, if all others have voted.
                false if all_prepared => part.stage = Stage::Prepared,
                false => {}
            }
        }
        let again = decides && known == Outcome::Undecided;
        if again && !self.is(TransactionBug::EarlierDecisionCounts) {
            now.decision = outcome;
            now.reported = 1 << core;
        }
    }

    /// Returns the outcome of an undecided transaction at its coordinator, which has lost its
    /// memory. The client may have seen a commit that needs no durable decision.
    fn outcome_of_decider(&self, state: &ModelState, number: usize, core: usize) -> Outcome {
        let parts = state.transactions[number].parts;
        let cores = self.members(state, number);
        let others = cores.iter().filter(|other| **other != core);
        let mut others = others
            .map(|other| parts[*other])
            .filter(|part| !part.forgot);
        let prepared = others.all(|part| part.stage == Stage::Prepared);
        let implied = self.transaction(number).way == DecisionWay::AllVotes
            && !self.is(TransactionBug::RestartedAborts);
        match prepared && implied {
            true => Outcome::Commit,
            false => Outcome::Abort,
        }
    }
}
