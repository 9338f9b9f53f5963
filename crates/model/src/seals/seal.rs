//! Models seals: the end of an epoch of one table, and the resolution of its operations at all
//! members (R44).

use super::case::Way;
use super::operation::SealRules;
use super::planted::SealBug;
use super::state::{SealPart, SealStage, SealState};
use crate::changes::{Outcome, TableEpochs, members};

impl SealRules {
    /// Loses a server: all tables that it holds are sealed. No table loses more than it tolerates.
    pub fn lose(&self, state: &mut SealState, core: usize) -> bool {
        let current = state.changes.current();
        let holds = self.case.holds[core];
        let full = members(holds).any(|table| state.changes.lost[table] != 0);
        let gone = current.removed >> core & 1 != 0;
        if state.losses_left == 0 || gone || full {
            return false;
        }
        state.losses_left -= 1;
        state.changes.lose(core, holds)
    }

    /// Seals a table for a change without a lost server.
    pub fn change(&self, state: &mut SealState, table: u8) -> bool {
        let current = state.changes.current();
        if state.changes_left == 0 {
            return false;
        }
        state.changes_left -= 1;
        let sealed = current.sealed | table;
        state.changes.add(table, TableEpochs { sealed, ..current })
    }

    /// Moves a core to the next change. If the change contains a seal, the core's seal is durable
    /// at once (R16).
    pub fn learn(&self, state: &mut SealState, core: usize) -> bool {
        state.changes.numbers[core] += 1;
        let next = state.changes.numbers[core];
        let removed =
            next <= state.changes.newest && state.changes.view(core).removed >> core & 1 != 0;
        next <= state.changes.newest && !removed
    }

    /// Restarts a core of another table, which forgets the seal that it has answered.
    pub fn forget_seal(&self, state: &mut SealState, core: usize) -> bool {
        let view = state.changes.view(core);
        let other = view.sealed != 0 && view.sealed & self.case.holds[core] == 0;
        if !self.is(SealBug::SealForgotten) || state.forgets_left == 0 || !other {
            return false;
        }
        state.forgets_left -= 1;
        state.changes.numbers[core] -= 1;
        true
    }

    /// Returns the members that a resolution asks: all but removed ones.
    fn asked<'a>(
        &'a self,
        operation: usize,
        view: TableEpochs,
        sealed: u8,
    ) -> impl Iterator<Item = (usize, usize)> + 'a {
        let members = self.operation(operation).members.iter().copied();
        let own_only = self.is(SealBug::OwnTableOnly);
        members.enumerate().filter(move |(_, core)| {
            let holds = self.case.holds[*core] & sealed != 0;
            view.removed >> core & 1 == 0 && (holds || !own_only)
        })
    }

    /// Returns the outcome by what members report who know the same epochs of the operation's
    /// tables; none while a report is missing.
    fn outcome(&self, state: &SealState, operation: usize, core: usize) -> Option<Outcome> {
        let chosen = self.operation(operation);
        let view = state.changes.view(core);
        let sealed = view.sealed & chosen.tables;
        let mut asked = self.asked(operation, view, sealed);
        let matters = match self.is(SealBug::ReportsOfAnyEpoch) {
            true => sealed & self.case.holds[core],
            false => chosen.tables,
        };
        let answered = asked.all(|(_, member)| {
            let reported = state.changes.view(member);
            let mut tables = (0..2).filter(|table| matters >> table & 1 != 0);
            let same = tables.all(|table| reported.epochs[table] == view.epochs[table]);
            same && (matters != 0 || reported.sealed & sealed == sealed)
        });
        if !answered {
            return None;
        }
        let parts = &state.operations[operation].parts;
        let asked = self.asked(operation, view, sealed);
        let asked: Vec<SealPart> = asked.map(|(place, _)| parts[place]).collect();
        let known = |part: &&SealPart| part.outcome != Outcome::Undecided;
        if let Some(known) = asked.iter().find(known) {
            return Some(known.outcome);
        }
        let prepared = |part: &SealPart| part.stage == SealStage::Prepared;
        let all = !asked.is_empty() && asked.iter().all(prepared);
        // No decision was seen: f + 1 members of each table would know it. In a chain, whose
        // outcome is seen at the decider, votes that cover all that can refuse decide (R4).
        let commits = chosen.way == Way::Chain || self.is(SealBug::PreparedByAllCommits);
        match all && commits {
            true => Some(Outcome::Commit),
            false => Some(Outcome::Abort),
        }
    }

    /// Applies the resolution of an operation at a member.
    pub fn resolve(&self, state: &mut SealState, core: usize, operation: usize) -> bool {
        let chosen = self.operation(operation);
        let Some(place) = chosen.members.iter().position(|member| *member == core) else {
            return false;
        };
        let view = state.changes.view(core);
        let mut sealed = view.sealed & chosen.tables;
        if self.is(SealBug::OwnTableOnly) {
            sealed &= self.case.holds[core];
        }
        let part = state.operations[operation].parts[place];
        let open = part.stage != SealStage::Unknown && part.outcome == Outcome::Undecided;
        if !open || !self.runs(state, core) || view.removed >> core & 1 != 0 {
            return false;
        }
        let outcome = match sealed {
            0 if self.is(SealBug::OthersCleared) && view.sealed & self.case.holds[core] != 0 => {
                Some(Outcome::Abort)
            }
            0 => None,
            _ => self.outcome(state, operation, core),
        };
        let Some(outcome) = outcome else {
            return false;
        };
        state.operations[operation].parts[place].outcome = outcome;
        if self.is(SealBug::SeenBeforeServing) {
            state.operations[operation].seen_commit |= outcome == Outcome::Commit;
        }
        true
    }

    /// Lets a table serve, under two conditions. Every core that may have a common operation with
    /// it has durably resolved these operations, and the leases of its lost servers have ended.
    /// Clients may see the outcomes after this step.
    pub fn serve(&self, state: &mut SealState, table: u8) -> bool {
        let current = state.changes.current();
        let ready = (0..self.case.cores.len()).all(|core| {
            let removed = current.removed >> core & 1 != 0;
            let holds = self.case.holds[core] & table != 0;
            let own_only = self.is(SealBug::OwnTableOnly) || self.is(SealBug::OthersNotWaitedFor);
            let counts = !removed && (holds || !own_only);
            !counts || self.has_resolved(state, core, table)
        });
        if current.sealed & table == 0 || !ready {
            return false;
        }
        for (chosen, operation) in self.case.operations.iter().zip(&mut state.operations) {
            let members = chosen.members.iter().zip(operation.parts);
            let outcomes = members
                .filter(|(core, _)| current.removed >> **core & 1 == 0)
                .map(|(_, part)| part.outcome);
            if chosen.tables & table != 0 {
                let (mut commits, mut aborts) = (false, false);
                for outcome in outcomes {
                    commits |= outcome == Outcome::Commit;
                    aborts |= outcome == Outcome::Abort;
                }
                operation.seen_commit |= commits;
                operation.seen_abort |= aborts;
            }
        }
        state.changes.serve(table)
    }

    fn has_resolved(&self, state: &SealState, core: usize, table: u8) -> bool {
        let index = usize::from(table - 1);
        if state.changes.view(core).epochs[index] != state.changes.current().epochs[index] {
            return false;
        }
        let mut operations = 0..self.case.operations.len();
        self.is(SealBug::ServedBeforeResolved)
            || operations.all(|operation| {
                let chosen = self.operation(operation);
                let place = chosen.members.iter().position(|member| *member == core);
                let Some(place) = place.filter(|_| chosen.tables & table != 0) else {
                    return true;
                };
                let part = state.operations[operation].parts[place];
                part.stage == SealStage::Unknown || part.outcome != Outcome::Undecided
            })
    }
}
