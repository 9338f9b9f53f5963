//! Models the loss of servers: the tables that they held are sealed, and all remaining members
//! resolve the transactions of these tables (R43, R44). The model of seals has this in more detail.

use super::case::DecisionWay;
use super::planted::TransactionBug;
use super::state::{ModelState, Part, Stage};
use super::walk::TransactionRules;
use crate::changes::{Outcome, members};

impl TransactionRules {
    /// Removes a server, and seals all tables that it holds. No table loses more than it tolerates,
    /// or its last copy.
    pub fn lose(&self, state: &mut ModelState, core: usize) -> bool {
        let current = state.changes.current();
        let holds = self.holds(core);
        let full = members(holds).any(|table| {
            let copies = self.case.copies[table].iter();
            let left = copies.filter(|copy| current.removed >> **copy & 1 == 0);
            let asks = self.case.copies[table]
                .iter()
                .any(|copy| state.asking >> copy & 1 != 0);
            state.changes.lost[table] != 0 || asks || left.count() == 1
        });
        let gone = current.removed >> core & 1 != 0;
        if state.losses_left == 0 || gone || full {
            return false;
        }
        state.losses_left -= 1;
        state.changes.lose(core, holds)
    }

    /// Moves a core to the next change. It drops the walks that the change concerns.
    pub fn learn(&self, state: &mut ModelState, core: usize) -> bool {
        if state.changes.numbers[core] == state.changes.newest {
            return false;
        }
        state.changes.numbers[core] += 1;
        if state.changes.view(core).removed >> core & 1 != 0 {
            return false;
        }
        for number in 0..self.case.transactions.len() {
            let takes_part = self.takes_part(state, number, core);
            let part = &mut state.transactions[number].parts[core];
            let unlogged = matches!(part.stage, Stage::Walked | Stage::Refused);
            if unlogged && !takes_part {
                part.stage = Stage::Unknown;
            }
        }
        true
    }

    /// Returns the members of a transaction that are not removed, in the order of a chain.
    fn remaining(&self, state: &ModelState, number: usize, core: usize) -> Vec<usize> {
        let removed = state.changes.view(core).removed;
        let mut cores = self.members(state, number);
        cores.retain(|core| removed >> core & 1 == 0);
        cores
    }

    /// Returns the outcome by the reports of all remaining members; none while one is missing.
    fn outcome(&self, state: &ModelState, number: usize, core: usize) -> Option<Outcome> {
        let view = state.changes.view(core);
        let remaining = self.remaining(state, number, core);
        let tables = self.tables(number);
        let answered = remaining.iter().all(|member| {
            let reported = state.changes.view(*member).epochs;
            members(tables).all(|table| reported[table] == view.epochs[table])
        });
        if !answered {
            return None;
        }
        let now = state.transactions[number];
        let counts = |part: &Part| {
            let known = part.stage == Stage::Prepared || part.outcome != Outcome::Undecided;
            !part.forgot || known || self.is(TransactionBug::ForgottenIsNone)
        };
        let parts = remaining.iter().map(|core| now.parts[*core]);
        let parts: Vec<Part> = parts.filter(counts).collect();
        let known = |part: &&Part| part.outcome != Outcome::Undecided;
        if let Some(known) = parts.iter().find(known) {
            return Some(known.outcome);
        }
        let all = parts.iter().all(|part| part.stage == Stage::Prepared);
        let implied = match self.transaction(number).way {
            // Each row has a member left that has judged it. An abort that was seen is known.
            DecisionWay::AllVotes => !self.is(TransactionBug::AllVotesForgotten),
            // The lost member may have refused.
            DecisionWay::Decision => self.is(TransactionBug::AllPreparedCommits),
            // A member has the votes of all members before it.
            DecisionWay::Chain => {
                let cores = self.members(state, number);
                let primaries = self.walk(state, number);
                let last = cores.iter().position(|it| Some(it) == remaining.last());
                let mut refusing = cores.iter().enumerate().filter(|(_, core)| {
                    primaries.contains(core) || self.case.refuses == Some(**core)
                });
                refusing.all(|(place, core)| Some(place) <= last || remaining.contains(core))
            }
        };
        Some(match all && implied {
            true => Outcome::Commit,
            false => Outcome::Abort,
        })
    }

    /// Returns whether a member must resolve a transaction: it has voted yes, or may have forgotten
    /// that it did and another member has.
    fn is_open(&self, state: &ModelState, core: usize, number: usize) -> bool {
        let now = state.transactions[number];
        let part = now.parts[core];
        let prepared = |core: &usize| now.parts[*core].stage == Stage::Prepared;
        let forgot = part.forgot && now.begun != 0 && {
            let remaining = self.remaining(state, number, core);
            remaining.contains(&core) && remaining.iter().any(prepared)
        };
        (part.stage == Stage::Prepared || forgot) && part.outcome == Outcome::Undecided
    }

    /// Applies the resolution of a transaction at a member.
    pub fn resolve(&self, state: &mut ModelState, core: usize, number: usize) -> bool {
        let view = state.changes.view(core);
        let open = self.is_open(state, core, number);
        let sealed = view.sealed & self.tables(number) != 0;
        let gone = view.removed >> core & 1 != 0;
        if !open || !sealed || gone || !self.runs(state, core) {
            return false;
        }
        let Some(outcome) = self.outcome(state, number, core) else {
            return false;
        };
        let part = &mut state.transactions[number].parts[core];
        part.stage = Stage::Prepared;
        part.outcome = outcome;
        true
    }

    /// Lets a table serve once all remaining cores have resolved, and the leases of its lost
    /// servers have ended.
    pub fn serve(&self, state: &mut ModelState, table: u8) -> bool {
        let current = state.changes.current();
        let ready = (0..self.case.cores.len()).all(|core| {
            let removed = current.removed >> core & 1 != 0;
            removed || self.has_resolved(state, core, table)
        });
        if current.sealed & table == 0 || !ready {
            return false;
        }
        state.changes.serve(table)
    }

    fn has_resolved(&self, state: &ModelState, core: usize, table: u8) -> bool {
        let epochs = state.changes.current().epochs;
        let known = members(table).all(|it| state.changes.view(core).epochs[it] == epochs[it]);
        let mut numbers = 0..self.case.transactions.len();
        known
            && numbers.all(|number| {
                self.tables(number) & table == 0 || !self.is_open(state, core, number)
            })
    }
}
