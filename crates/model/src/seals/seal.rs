//! Models seals: the end of an epoch of one table, and the resolution of its operations at all
//! members (R44).

use super::case::Way;
use super::operation::SealRules;
use super::planted::SealBug;
use super::state::{SealOutcome, SealPart, SealStage, SealState, TableEpochs};

impl SealRules {
    /// Loses a server: all tables that it holds are sealed. No table loses more than it tolerates.
    pub fn lose(&self, state: &mut SealState, core: usize) -> bool {
        let current = state.current();
        let holds = self.case.holds[core];
        let tables = (0..2).filter(|table| holds >> table & 1 != 0);
        let full = tables.clone().any(|table| state.lost[table] != 0);
        let gone = current.removed >> core & 1 != 0;
        if state.losses_left == 0 || gone || full {
            return false;
        }
        state.losses_left -= 1;
        for table in tables {
            state.lost[table] |= 1 << core;
        }
        state.change(
            holds,
            TableEpochs {
                sealed: current.sealed | holds,
                removed: current.removed | 1 << core,
                ..current
            },
        )
    }

    /// Seals a table for a change without a lost server.
    pub fn change(&self, state: &mut SealState, table: u8) -> bool {
        let current = state.current();
        if state.changes_left == 0 {
            return false;
        }
        state.changes_left -= 1;
        let sealed = current.sealed | table;
        state.change(table, TableEpochs { sealed, ..current })
    }

    /// Moves a core to the next change. If the change contains a seal, the core's seal is durable
    /// at once (R16).
    pub fn learn(&self, state: &mut SealState, core: usize) -> bool {
        state.numbers[core] += 1;
        let next = state.numbers[core];
        let removed = next <= state.newest && state.view(core).removed >> core & 1 != 0;
        next <= state.newest && !removed
    }

    /// Restarts a core of another table, which forgets the seal that it has answered.
    pub fn forget_seal(&self, state: &mut SealState, core: usize) -> bool {
        let view = state.view(core);
        let other = view.sealed != 0 && view.sealed & self.case.holds[core] == 0;
        if !self.is(SealBug::SealForgotten) || state.forgets_left == 0 || !other {
            return false;
        }
        state.forgets_left -= 1;
        state.numbers[core] -= 1;
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
    fn outcome(&self, state: &SealState, operation: usize, core: usize) -> Option<SealOutcome> {
        let chosen = self.operation(operation);
        let view = state.view(core);
        let sealed = view.sealed & chosen.tables;
        let mut asked = self.asked(operation, view, sealed);
        let matters = match self.is(SealBug::ReportsOfAnyEpoch) {
            true => sealed & self.case.holds[core],
            false => chosen.tables,
        };
        let answered = asked.all(|(_, member)| {
            let reported = state.view(member);
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
        let known = |part: &&SealPart| part.outcome != SealOutcome::Undecided;
        if let Some(known) = asked.iter().find(known) {
            return Some(known.outcome);
        }
        let prepared = |part: &SealPart| part.stage == SealStage::Prepared;
        let all = !asked.is_empty() && asked.iter().all(prepared);
        // No decision was seen: f + 1 members of each table would know it. In a chain, whose
        // outcome is seen at the decider, votes that cover all that can refuse decide (R4).
        let commits = chosen.way == Way::Chain || self.is(SealBug::PreparedByAllCommits);
        match all && commits {
            true => Some(SealOutcome::Commit),
            false => Some(SealOutcome::Abort),
        }
    }

    /// Applies the resolution of an operation at a member.
    pub fn resolve(&self, state: &mut SealState, core: usize, operation: usize) -> bool {
        let chosen = self.operation(operation);
        let Some(place) = chosen.members.iter().position(|member| *member == core) else {
            return false;
        };
        let view = state.view(core);
        let mut sealed = view.sealed & chosen.tables;
        if self.is(SealBug::OwnTableOnly) {
            sealed &= self.case.holds[core];
        }
        let part = state.operations[operation].parts[place];
        let open = part.stage != SealStage::Unknown && part.outcome == SealOutcome::Undecided;
        if !open || !self.runs(state, core) || view.removed >> core & 1 != 0 {
            return false;
        }
        let outcome = match sealed {
            0 if self.is(SealBug::OthersCleared) && view.sealed & self.case.holds[core] != 0 => {
                Some(SealOutcome::Abort)
            }
            0 => None,
            _ => self.outcome(state, operation, core),
        };
        let Some(outcome) = outcome else {
            return false;
        };
        state.operations[operation].parts[place].outcome = outcome;
        if self.is(SealBug::SeenBeforeServing) {
            state.operations[operation].seen_commit |= outcome == SealOutcome::Commit;
        }
        true
    }

    /// Lets a table serve, under two conditions. Every core that may have a common operation with
    /// it has durably resolved these operations, and the leases of its lost servers have ended.
    /// Clients may see the outcomes after this step.
    pub fn serve(&self, state: &mut SealState, table: u8) -> bool {
        let current = state.current();
        let index = usize::from(table - 1);
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
                    commits |= outcome == SealOutcome::Commit;
                    aborts |= outcome == SealOutcome::Abort;
                }
                operation.seen_commit |= commits;
                operation.seen_abort |= aborts;
            }
        }
        state.lost[index] = 0;
        let waiting = state.lost[0] | state.lost[1];
        state.fenced |= current.removed & !waiting;
        let sealed = current.sealed & !table;
        state.change(table, TableEpochs { sealed, ..current })
    }

    fn has_resolved(&self, state: &SealState, core: usize, table: u8) -> bool {
        let index = usize::from(table - 1);
        if state.view(core).epochs[index] != state.current().epochs[index] {
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
                part.stage == SealStage::Unknown || part.outcome != SealOutcome::Undecided
            })
    }
}
