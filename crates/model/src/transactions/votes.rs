//! Models the votes on a complete prepare, the decision, and how it becomes visible.

use super::case::DecisionWay;
use super::planted::TransactionBug;
use super::state::{ModelState, Outcome, Stage, TransactionStep, changed, history, members};
use super::walk::TransactionRules;

impl TransactionRules {
    /// Returns whether a core may judge the prepare: in a chain all earlier members must have voted
    /// yes.
    fn has_come(&self, state: &ModelState, number: usize, core: usize) -> bool {
        let cores = self.members(state, number);
        let voted = state.transactions[number].voted;
        let mut earlier = cores.iter().take_while(|it| **it != core);
        self.transaction(number).way != DecisionWay::Chain
            || earlier.all(|core| voted >> core & 1 != 0)
    }

    /// Returns whether a member can vote yes; none if it must wait first, as only a chain does.
    fn judges(&self, state: &ModelState, number: usize, core: usize) -> Option<bool> {
        let transaction = self.transaction(number);
        let now = state.transactions[number];
        let chained = transaction.way == DecisionWay::Chain;
        let mut judged = true;
        for row in 0..2 {
            let stored = state.rows[row][core];
            let is_copy = self.case.copies[row].contains(&core);
            let is_primary = is_copy && self.primary(state, number, row) == core;
            if transaction.changes >> row & 1 != 0 && is_copy {
                let locked = self.is_locked(state, (number, core, row));
                let walked = now.parts[core].stage == Stage::Walked;
                let waits = chained || self.is(TransactionBug::PrepareWaits);
                // A primary that has lost its lock can only refuse.
                if locked && waits && (walked || !is_primary) {
                    return None;
                }
                judged &= match is_primary {
                    true => walked || self.is(TransactionBug::LostEvaluationCounts),
                    false => {
                        let unjudged = self.is(TransactionBug::CopyDoesNotJudge);
                        unjudged || !locked && stored == now.old[row]
                    }
                };
            }
            if transaction.checks >> row & 1 != 0 && is_primary {
                let locked = self.is_locked(state, (number, core, row));
                if locked && self.is(TransactionBug::PrepareWaits) {
                    return None;
                }
                let judges = !self.is(TransactionBug::CheckNotJudged);
                judged &= !judges || !locked && stored == now.read[row];
            }
        }
        Some(judged)
    }

    /// Delivers the prepare to a core, which votes. A member logs its yes durably. A core that only
    /// checks logs nothing: the check was true while the transaction held all of its locks, and
    /// this stays so. With `refuses` the core votes no because of a constraint.
    pub fn prepare(
        &self,
        state: &mut ModelState,
        number: usize,
        core: usize,
        refuses: bool,
    ) -> bool {
        let now = state.transactions[number];
        if now.begun == 0 || now.known || !self.voters(state, number).contains(&core) {
            return false;
        }
        let is_member = self.members(state, number).contains(&core);
        let early = !is_member && self.is(TransactionBug::CheckedBeforeLocks);
        let part = now.parts[core];
        let new = match is_member {
            true => matches!(part.stage, Stage::Unknown | Stage::Walked),
            false => now.voted >> core & 1 == 0,
        };
        let checks: u8 = members(self.transaction(number).checks)
            .filter(|row| self.primary(state, number, *row) == core)
            .map(|row| 1 << row)
            .sum();
        let tables = checks | if is_member { self.tables(number) } else { 0 };
        let takes_part = self.knows_tables(state, (number, core), tables);
        let may_refuse = !refuses || self.case.refuses == Some(core) && is_member;
        let complete = self.is_complete(state, number) || early;
        let undecided = part.outcome == Outcome::Undecided;
        if !complete || !new || !undecided || !may_refuse || !takes_part {
            return false;
        }
        if !self.has_come(state, number, core) {
            return false;
        }
        let Some(judged) = self.judges(state, number, core) else {
            return false;
        };
        let yes = judged && !refuses;
        let now = &mut state.transactions[number];
        if is_member {
            now.parts[core].stage = if yes { Stage::Prepared } else { Stage::Refused };
        }
        now.voted |= u8::from(yes) << core;
        now.refused |= !yes;
        true
    }

    /// Decides by the votes, at the coordinator or at the end of a chain.
    pub fn decide(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if now.begun == 0 || !self.is_complete(state, number) {
            return false;
        }
        let core = self.decider(state, number);
        let cores = self.voters(state, number);
        let missing = cores.iter().filter(|core| now.voted >> **core & 1 == 0);
        let missing = missing.count();
        let early = usize::from(self.is(TransactionBug::DecidedEarly));
        let part = now.parts[core];
        // Checks are not answered any more after the table has changed.
        let checks = self.transaction(number).checks;
        let unanswered = !self.knows_tables(state, (number, core), checks);
        let decision = match (now.refused, missing) {
            (true, _) => Outcome::Abort,
            (false, 1..) if unanswered => Outcome::Abort,
            (false, missing) if missing <= early && part.stage == Stage::Prepared => {
                Outcome::Commit
            }
            (false, _) => return false,
        };
        self.note_decision(state, (number, core), decision)
    }

    /// Aborts a transaction at its coordinator, before it has all votes.
    pub fn give_up(&self, state: &mut ModelState, number: usize) -> bool {
        let complete = state.transactions[number].begun != 0 && self.is_complete(state, number);
        if !self.case.gives_up || !complete || self.transaction(number).way == DecisionWay::Chain {
            return false;
        }
        let core = self.decider(state, number);
        self.note_decision(state, (number, core), Outcome::Abort)
    }

    fn note_decision(
        &self,
        state: &mut ModelState,
        (number, core): (usize, usize),
        decision: Outcome,
    ) -> bool {
        let takes_part = self.takes_part(state, number, core);
        let now = &mut state.transactions[number];
        let decided = now.decision != Outcome::Undecided;
        if decided || !takes_part || now.parts[core].outcome != Outcome::Undecided {
            return false;
        }
        now.decision = decision;
        now.parts[core].outcome = decision;
        now.reported |= 1 << core;
        if now.parts[core].stage != Stage::Prepared {
            now.parts[core].stage = Stage::Unknown;
        }
        true
    }

    /// Delivers the decision to a member, which logs it durably and reports that. In a chain it
    /// comes from the next member.
    pub fn deliver(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let now = state.transactions[number];
        if now.decision == Outcome::Undecided || !self.takes_part(state, number, core) {
            return false;
        }
        let cores = self.members(state, number);
        let Some(place) = cores.iter().position(|it| *it == core) else {
            return false;
        };
        let next = cores.get(place + 1);
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let passed = next.is_some_and(|next| now.reported >> next & 1 != 0);
        let part = &mut state.transactions[number].parts[core];
        let unprepared = now.decision == Outcome::Commit && part.stage != Stage::Prepared;
        if part.outcome != Outcome::Undecided || chained && !passed || unprepared {
            return false;
        }
        part.outcome = now.decision;
        if part.stage != Stage::Prepared {
            part.stage = Stage::Unknown;
        }
        state.transactions[number].reported |= 1 << core;
        true
    }

    /// Returns whether f + 1 members of each table have reported the decision, or all members of a
    /// table that has fewer. Each table tolerates one failure.
    fn is_durable(&self, state: &ModelState, number: usize) -> bool {
        let reported = state.transactions[number].reported;
        let cores = self.members(state, number);
        members(self.tables(number)).all(|table| {
            let holders = cores
                .iter()
                .filter(|core| self.holds(**core) >> table & 1 != 0);
            let needed = holders.clone().count().min(2);
            let knowing = holders.filter(|core| reported >> **core & 1 != 0);
            knowing.count() >= needed
        })
    }

    /// Returns whether clients may see the decision of the coordinator.
    fn may_be_seen(&self, state: &ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        let commits = now.decision == Outcome::Commit;
        match self.transaction(number).way {
            DecisionWay::AllVotes if commits || self.is(TransactionBug::AbortSeenEarly) => true,
            DecisionWay::Decision if !commits || self.is(TransactionBug::CommitSeenEarly) => true,
            DecisionWay::AllVotes | DecisionWay::Decision => self.is_durable(state, number),
            DecisionWay::Chain => {
                let first = self.members(state, number)[0];
                let early = self.is(TransactionBug::ChainSeenAtEnd);
                now.reported >> first & 1 != 0 || early
            }
        }
    }

    /// Answers the client, at the coordinator or at the first member of a chain.
    pub fn answer(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if now.decision == Outcome::Undecided || !self.may_be_seen(state, number) {
            return false;
        }
        let core = match self.transaction(number).way {
            DecisionWay::Chain => self.members(state, number)[0],
            DecisionWay::AllVotes | DecisionWay::Decision => self.decider(state, number),
        };
        if !self.takes_part(state, number, core) {
            return false;
        }
        let now = &mut state.transactions[number];
        match now.decision {
            Outcome::Commit => now.seen_commit = true,
            _ => now.seen_abort = true,
        }
        true
    }

    /// Shows the outcome to readers of a core, and releases the locks. The coordinator has said
    /// that it may be seen, or the tables of the transaction serve in a later epoch (R5).
    pub fn settle(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let now = state.transactions[number];
        let part = now.parts[core];
        if part.stage != Stage::Prepared || part.settled || !self.runs(state, core) {
            return false;
        }
        let commits = part.outcome == Outcome::Commit;
        let tables = self.tables(number);
        let (view, then) = (state.view(core), state.changes[usize::from(now.begun)]);
        let later = members(tables).any(|table| view.epochs[table] > then.epochs[table]);
        let serves = later && view.sealed & tables == 0;
        let seen = match part.outcome {
            Outcome::Undecided => false,
            Outcome::Commit => now.seen_commit,
            Outcome::Abort => now.seen_abort,
        };
        let implied = commits && self.transaction(number).way == DecisionWay::AllVotes;
        let early = part.outcome != Outcome::Undecided && self.is(TransactionBug::SettledEarly);
        let may = seen || implied || early;
        if !serves && !(may && self.takes_part(state, number, core)) {
            return false;
        }
        let changed_rows = members(self.transaction(number).changes);
        let copies = changed_rows.filter(|row| self.case.copies[*row].contains(&core));
        let mut earlier = copies.clone().flat_map(|row| history(now.old[row]));
        let waits = |other: usize| {
            let part = state.transactions[other].parts[core];
            part.stage == Stage::Prepared && !part.settled
        };
        // After a restart several may hold a row. They settle in the order of their versions.
        if commits && earlier.any(waits) {
            return false;
        }
        for row in copies {
            if !commits {
                continue;
            }
            state.replaced_unseen |= state.rows[row][core] != now.old[row];
            state.rows[row][core] = changed(now.old[row], number);
        }
        let now = &mut state.transactions[number];
        now.parts[core].settled = true;
        now.seen_commit |= commits;
        now.seen_abort |= part.outcome == Outcome::Abort;
        true
    }

    /// Returns all steps of a transaction that are no faults, for the description of a case.
    pub fn steps_of(&self, number: usize, attempt: &mut dyn FnMut(TransactionStep)) {
        for step in [
            TransactionStep::Begin(number),
            TransactionStep::Walk(number),
            TransactionStep::Decide(number),
            TransactionStep::GiveUp(number),
            TransactionStep::Answer(number),
        ] {
            attempt(step);
        }
        for core in 0..self.case.cores.len() {
            attempt(TransactionStep::Release(number, core));
            attempt(TransactionStep::Prepare(number, core));
            attempt(TransactionStep::Refuse(number, core));
            attempt(TransactionStep::Deliver(number, core));
            attempt(TransactionStep::Settle(number, core));
            attempt(TransactionStep::Resolve(core, number));
        }
    }
}
