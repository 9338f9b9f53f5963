//! Models the walk of a transaction: the primaries of its rows, in one order, acquire their locks
//! and evaluate the changes. Nothing is logged.

use super::case::{CaseTransaction, DecisionWay, TransactionCase};
use super::planted::TransactionBug;
use super::state::{ModelState, Part, Stage, history};
use crate::changes::{Outcome, members};

/// The model of transactions for one small cluster: its possible steps, and the invariants to
/// check. With `bug`, the model breaks one rule of docs/rules.md.
#[derive(Clone, Debug)]
pub struct TransactionRules {
    /// The cluster, and the events that may happen in it.
    pub case: TransactionCase,
    /// The planted bug.
    pub bug: Option<TransactionBug>,
}

impl TransactionRules {
    /// Returns whether this bug is planted.
    pub fn is(&self, bug: TransactionBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns the transaction of the case.
    pub fn transaction(&self, number: usize) -> &CaseTransaction {
        &self.case.transactions[number]
    }

    /// Returns the tables that a transaction changes, as a set. Row x is of table A, and row y of
    /// table B.
    pub fn tables(&self, number: usize) -> u8 {
        self.transaction(number).changes
    }

    /// Returns the tables of which a core holds rows, as a set.
    pub fn holds(&self, core: usize) -> u8 {
        let holds = |row: &usize| self.case.copies[*row].contains(&core);
        (0..2).filter(holds).map(|row| 1 << row).sum()
    }

    /// Returns the cores that had a copy of a row when a transaction began, its primary first. The
    /// model has no replacements for cores that were lost.
    pub fn copies<'a>(
        &'a self,
        state: &ModelState,
        number: usize,
        row: usize,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let begun = state.transactions[number].begun;
        let removed = state.changes.of(begun).removed;
        let copies = self.case.copies[row].iter().copied();
        copies.filter(move |core| removed >> core & 1 == 0)
    }

    /// Returns the primary of a row for a transaction that has begun.
    pub fn primary(&self, state: &ModelState, number: usize, row: usize) -> usize {
        let primary = self.copies(state, number, row).next();
        primary.expect("no table loses all copies")
    }

    /// Returns the primaries that the walk of a transaction visits, in order.
    pub fn walk(&self, state: &ModelState, number: usize) -> Vec<usize> {
        let transaction = self.transaction(number);
        let rows = members(transaction.changes);
        let mut walk: Vec<usize> = rows.map(|row| self.primary(state, number, row)).collect();
        walk.sort_unstable();
        walk.dedup();
        if transaction.backwards && self.is(TransactionBug::WalkUnordered) {
            walk.reverse();
        }
        walk
    }

    /// Returns the cores that have copies of the rows that a transaction changes: in the order of a
    /// chain, the primaries first.
    pub fn members(&self, state: &ModelState, number: usize) -> Vec<usize> {
        let transaction = self.transaction(number);
        let mut cores = self.walk(state, number);
        let changed = members(transaction.changes);
        for core in changed.flat_map(|row| self.copies(state, number, row)) {
            if !cores.contains(&core) {
                cores.push(core);
            }
        }
        cores
    }

    /// Returns the last copy of a row for a transaction, or its primary.
    fn copy_or_primary(
        &self,
        state: &ModelState,
        (number, row): (usize, usize),
        at_copy: bool,
    ) -> usize {
        match at_copy {
            true => self
                .copies(state, number, row)
                .last()
                .expect("a copy is left"),
            false => self.primary(state, number, row),
        }
    }

    /// Returns the core that judges the check of a row.
    pub fn checker(&self, state: &ModelState, number: usize, row: usize) -> usize {
        let at_copy = self.transaction(number).checks_at_copy;
        self.copy_or_primary(state, (number, row), at_copy)
    }

    /// Returns the core that decides: the first primary, or the end of the chain.
    pub fn decider(&self, state: &ModelState, number: usize) -> usize {
        let cores = self.members(state, number);
        let decider = match self.transaction(number).way {
            DecisionWay::Chain => cores.last(),
            DecisionWay::AllVotes | DecisionWay::Decision => cores.first(),
        };
        *decider.expect("it changes a row")
    }

    /// Returns whether a core takes part in anything. A removed server does until its leases have
    /// ended.
    pub fn runs(&self, state: &ModelState, core: usize) -> bool {
        (state.changes.fenced | state.asking) >> core & 1 == 0
    }

    /// Returns whether a core takes part in a transaction: all of its tables are in the epochs in
    /// which it began, and none of them is sealed (R15, R44).
    pub fn takes_part(&self, state: &ModelState, number: usize, core: usize) -> bool {
        self.knows_tables(state, (number, core), self.tables(number))
    }

    /// Returns whether these tables are at a core as they were when a transaction began, and none
    /// of them is sealed.
    pub fn knows_tables(
        &self,
        state: &ModelState,
        (number, core): (usize, usize),
        tables: u8,
    ) -> bool {
        let begun = state.transactions[number].begun;
        let (view, then) = (state.changes.view(core), state.changes.of(begun));
        let same = members(tables).all(|table| view.epochs[table] == then.epochs[table]);
        begun != 0 && self.runs(state, core) && same && view.sealed & tables == 0
    }

    /// Returns whether another transaction has voted yes on a row at a core and is not settled.
    /// Reads wait for it.
    pub fn is_prepared(
        &self,
        state: &ModelState,
        (number, core, row): (Option<usize>, usize, usize),
    ) -> bool {
        let mut others = self.case.transactions.iter().enumerate();
        others.any(|(other, transaction)| {
            let holds = state.transactions[other].parts[core].holds();
            Some(other) != number && holds && transaction.changes >> row & 1 != 0
        })
    }

    /// Returns whether another transaction holds a row at a core.
    pub fn is_locked(
        &self,
        state: &ModelState,
        (number, core, row): (usize, usize, usize),
    ) -> bool {
        let mut others = (0..self.case.transactions.len()).filter(|other| *other != number);
        let walks = others.any(|other| {
            let walked = state.transactions[other].parts[core].stage == Stage::Walked;
            let changes = self.transaction(other).changes >> row & 1 != 0;
            walked && changes && self.primary(state, other, row) == core
        });
        walks || self.is_prepared(state, (Some(number), core, row))
    }

    /// Begins a transaction: its client has read the rows that it checks, and sends it. It sends a
    /// request again only while it has no answer.
    pub fn begin(&self, state: &mut ModelState, number: usize) -> bool {
        let transaction = self.transaction(number);
        let earlier = self.case.transactions[..number].iter();
        let attempts = earlier.zip(&state.transactions);
        let mut attempts = attempts.filter(|(it, _)| it.request == transaction.request);
        let impossible = attempts.any(|(_, it)| it.begun == 0 || it.answered);
        if state.transactions[number].begun != 0 || impossible {
            return false;
        }
        let tables = transaction.changes | transaction.checks;
        if state.changes.current().sealed & tables != 0 {
            return false;
        }
        state.transactions[number].begun = state.changes.newest;
        state.transactions[number].after = state.answered();
        for row in members(transaction.checks) {
            let core = self.copy_or_primary(state, (number, row), transaction.reads_at_copy);
            let known = self.knows_tables(state, (number, core), 1 << row);
            if !known || self.is_prepared(state, (Some(number), core, row)) {
                return false;
            }
            state.transactions[number].read[row] = state.rows[row][core];
        }
        true
    }

    /// Returns whether a core has recorded an abort as the result of the request.
    pub fn is_closed(&self, state: &ModelState, number: usize, core: usize) -> bool {
        let request = self.transaction(number).request;
        let mut attempts = self.case.transactions.iter().zip(&state.transactions);
        attempts.any(|(it, attempt)| it.request == request && attempt.closed >> core & 1 != 0)
    }

    /// Returns whether a core knows another attempt of the request that may commit or has
    /// committed. An attempt that only waits or walks there makes room for this one (R45).
    fn knows_request(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        if self.is(TransactionBug::NameNotLookedUp) {
            return false;
        }
        let request = self.transaction(number).request;
        let mut known = self.is_closed(state, number, core);
        for other in 0..self.case.transactions.len() {
            if other == number || self.transaction(other).request != request {
                continue;
            }
            let part = &mut state.transactions[other].parts[core];
            match part.stage {
                Stage::Prepared => known |= part.outcome != Outcome::Abort,
                Stage::Walked if other < number => *part = Part::default(),
                Stage::Walked => known = true,
                Stage::Unknown | Stage::Refused => {}
            }
        }
        let settled = members(self.transaction(number).changes).any(|row| {
            let mut changed = history(state.rows[row][core]);
            changed.any(|it| self.transaction(it).request == request)
        });
        known || settled
    }

    /// Lets the walk of a transaction arrive at its next primary, which waits for the locks and
    /// evaluates its rows.
    pub fn visit(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if now.begun == 0 || now.known {
            return false;
        }
        let walk = self.walk(state, number);
        let Some(core) = walk.get(usize::from(now.walked)).copied() else {
            return false;
        };
        if !self.takes_part(state, number, core) {
            return false;
        }
        if self.knows_request(state, number, core) {
            state.transactions[number].known = true;
            return true;
        }
        for row in members(self.transaction(number).changes) {
            if self.primary(state, number, row) != core {
                continue;
            }
            let locked = self.is_locked(state, (number, core, row));
            if locked && !self.is(TransactionBug::EvaluatedUnlocked) {
                return false;
            }
            state.transactions[number].old[row] = state.rows[row][core];
        }
        state.transactions[number].parts[core].stage = Stage::Walked;
        state.transactions[number].walked += 1;
        true
    }

    /// Lets the walk come back to the coordinator, its first primary. It sends the prepare to all
    /// members, if it still has its lock and evaluation.
    pub fn send(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if now.begun == 0 || now.known || now.sent {
            return false;
        }
        let walk = self.walk(state, number);
        let complete = usize::from(now.walked) == walk.len();
        let first = walk[0];
        let walked = now.parts[first].stage == Stage::Walked;
        if !complete || !walked || !self.takes_part(state, number, first) {
            return false;
        }
        state.transactions[number].sent = true;
        true
    }

    /// Releases the locks of a walk that ended without a prepare, or whose first primary has lost
    /// it.
    pub fn release(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let now = state.transactions[number];
        if now.parts[core].stage != Stage::Walked {
            return false;
        }
        let first = self.walk(state, number)[0];
        let lost = !now.sent && now.parts[first].stage != Stage::Walked;
        if !now.known && !lost {
            return false;
        }
        state.transactions[number].parts[core] = Part::default();
        true
    }

    /// Drops a walk at a primary, which has held its locks for too long.
    pub fn drop_walk(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let part = &mut state.transactions[number].parts[core];
        let walked = part.stage == Stage::Walked;
        if self.case.drops_walks && walked {
            *part = Part::default();
        }
        self.case.drops_walks && walked
    }

    /// Restarts a core: it forgets the locks and evaluations of walks, and that it has refused.
    pub fn crash(&self, state: &mut ModelState, core: usize) -> bool {
        if state.crashes_left == 0 || !self.runs(state, core) {
            return false;
        }
        state.crashes_left -= 1;
        if self.case.is_volatile {
            return self.lose_memory(state, core);
        }
        let unlogged = self.is(TransactionBug::VoteBeforeDurable);
        for number in 0..self.case.transactions.len() {
            self.forget_votes(state, (number, core));
        }
        for transaction in &mut state.transactions {
            let part = &mut transaction.parts[core];
            let open = part.stage == Stage::Prepared && part.outcome == Outcome::Undecided;
            if matches!(part.stage, Stage::Walked | Stage::Refused) || open && unlogged {
                part.stage = Stage::Unknown;
            }
        }
        true
    }

    /// Makes a coordinator that restarts forget its votes and a decision that it has not logged.
    fn forget_votes(&self, state: &mut ModelState, (number, core): (usize, usize)) {
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let begun = state.transactions[number].begun != 0;
        let over = state.transactions[number].forgotten;
        if chained || !begun || over || !state.transactions[number].sent {
            return;
        }
        let decides = self.decider(state, number) == core;
        let now = &mut state.transactions[number];
        if decides && now.parts[core].outcome == Outcome::Undecided {
            now.checked = 0;
            now.unsure = true;
            now.restarted = true;
            let others = (0..).zip(&now.parts).filter(|(other, _)| *other != core);
            let mut stages = others.map(|(_, part)| part.stage);
            now.refused = stages.any(|stage| stage == Stage::Refused);
        }
    }
}
