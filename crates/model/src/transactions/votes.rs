//! Models the votes on a complete prepare, the decision, and how it becomes visible.

use super::case::DecisionWay;
use super::planted::TransactionBug;
use super::state::{ModelState, ReadState, Stage, TransactionStep, changed, history};
use super::walk::TransactionRules;
use crate::changes::{Outcome, members};

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

    /// Returns whether a member can vote yes; none if it must wait first.
    fn judges(&self, state: &ModelState, number: usize, core: usize) -> Option<bool> {
        let now = state.transactions[number];
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let mut judged = true;
        for row in members(self.transaction(number).changes) {
            if !self.case.copies[row].contains(&core) {
                continue;
            }
            let locked = self.is_locked(state, (number, core, row));
            let walked = now.parts[core].stage == Stage::Walked;
            if self.primary(state, number, row) == core {
                // A primary that has lost its lock can only refuse.
                if locked && walked && chained {
                    return None;
                }
                judged &= walked || self.is(TransactionBug::LostEvaluationCounts);
                continue;
            }
            // The primary has settled these before it evaluated this one, so they are decided.
            let settling =
                history(now.old[row]).any(|other| state.transactions[other].parts[core].holds());
            let waits_behind = settling && !self.is(TransactionBug::RefusesBehindSettling);
            if locked && (chained || waits_behind) {
                return None;
            }
            let unjudged = self.is(TransactionBug::CopyDoesNotJudge);
            judged &= unjudged || !locked && state.rows[row][core] == now.old[row];
        }
        Some(judged)
    }

    /// Delivers the prepare to a member, which votes. It logs a yes durably. With `refuses` it
    /// votes no because of a constraint.
    pub fn prepare(
        &self,
        state: &mut ModelState,
        number: usize,
        core: usize,
        refuses: bool,
    ) -> bool {
        let now = state.transactions[number];
        let late = now.forgotten && !self.is(TransactionBug::LineIgnored);
        if !now.sent || late || !self.members(state, number).contains(&core) {
            return false;
        }
        let part = now.parts[core];
        let new = matches!(part.stage, Stage::Unknown | Stage::Walked);
        let may_refuse = !refuses || self.case.refuses == Some(core);
        let undecided = part.outcome == Outcome::Undecided;
        if !new || !undecided || !may_refuse || !self.takes_part(state, number, core) {
            return false;
        }
        if !self.has_come(state, number, core) {
            return false;
        }
        let Some(judged) = self.judges(state, number, core) else {
            return false;
        };
        let yes = judged && !refuses && !self.is_closed(state, number, core);
        let now = &mut state.transactions[number];
        now.parts[core].stage = if yes { Stage::Prepared } else { Stage::Refused };
        now.voted |= u8::from(yes) << core;
        now.refused |= !yes;
        true
    }

    /// Returns the members that have not voted yes.
    fn missing_votes(&self, state: &ModelState, number: usize) -> usize {
        let voted = state.transactions[number].voted;
        let cores = self.members(state, number).into_iter();
        cores.filter(|core| voted >> core & 1 == 0).count()
    }

    /// Judges a check, once all members hold what the transaction changes. The check leaves no
    /// state.
    pub fn check(&self, state: &mut ModelState, number: usize, row: usize) -> bool {
        let now = state.transactions[number];
        let checks = self.transaction(number).checks >> row & 1 != 0;
        let checked = now.checked >> row & 1 != 0;
        if !now.sent || !checks || checked {
            return false;
        }
        let held = self.missing_votes(state, number) == 0;
        let early = self.is(TransactionBug::CheckedBeforeHeld);
        let core = self.checker(state, number, row);
        let known = self.knows_tables(state, (number, core), 1 << row);
        let open = now.decision == Outcome::Undecided && !now.refused && !now.unsure;
        if !known || !open || !(held || early) {
            return false;
        }
        let locked = self.is_prepared(state, (Some(number), core, row));
        // Transactions whose changes the client has read are decided.
        let mut settling =
            history(now.read[row]).map(|other| state.transactions[other].parts[core]);
        let settling = settling.any(|part| part.holds());
        if locked && (settling || self.is(TransactionBug::CheckWaits)) {
            return false;
        }
        let passed = !locked && state.rows[row][core] == now.read[row];
        let passed = passed || self.is(TransactionBug::CheckNotJudged);
        let now = &mut state.transactions[number];
        now.checked |= u8::from(passed) << row;
        now.refused |= !passed;
        true
    }

    /// Decides by the votes, at the coordinator or at the end of a chain.
    pub fn decide(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if !now.sent || now.unsure {
            return false;
        }
        let core = self.decider(state, number);
        let checks = self.transaction(number).checks;
        let unchecked = (checks & !now.checked).count_ones() as usize;
        let missing = self.missing_votes(state, number) + unchecked;
        let early = usize::from(self.is(TransactionBug::DecidedEarly));
        let part = now.parts[core];
        // Checks are not answered any more after the table has changed.
        let unanswered = unchecked > 0 && !self.knows_tables(state, (number, core), checks);
        let decision = match (now.refused || unanswered, missing) {
            (true, _) => Outcome::Abort,
            (false, missing) if missing <= early && part.stage == Stage::Prepared => {
                Outcome::Commit
            }
            (false, _) => return false,
        };
        self.note_decision(state, (number, core), decision)
    }

    /// Aborts a transaction at its coordinator, before it has all votes. If the coordinator has
    /// restarted, the client may have seen a commit that needs no durable decision.
    pub fn give_up(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        let way = self.transaction(number).way;
        let bound = now.restarted && way == DecisionWay::AllVotes;
        let bound = bound && !self.is(TransactionBug::GivesUpAfterRestart);
        let may = self.case.gives_up && now.sent && !now.unsure && !bound;
        if !may || way == DecisionWay::Chain {
            return false;
        }
        let core = self.decider(state, number);
        self.note_decision(state, (number, core), Outcome::Abort)
    }

    /// Lets the decider send a decision. At the end of a chain it is durable.
    fn note_decision(
        &self,
        state: &mut ModelState,
        (number, core): (usize, usize),
        decision: Outcome,
    ) -> bool {
        let takes_part = self.takes_part(state, number, core);
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let now = &mut state.transactions[number];
        let decided = now.decision != Outcome::Undecided;
        if decided || !takes_part || now.parts[core].outcome != Outcome::Undecided {
            return false;
        }
        now.decision = decision;
        if chained {
            now.parts[core].outcome = decision;
            now.reported |= 1 << core;
            if now.parts[core].stage != Stage::Prepared {
                now.parts[core].stage = Stage::Unknown;
            }
        }
        true
    }

    /// Lets a coordinator that has restarted ask all members. If one has a decision, it stands.
    /// Otherwise no member accepts a decision any more that was sent before.
    pub fn ask_members(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if !now.unsure {
            return false;
        }
        let core = self.decider(state, number);
        let cores = self.members(state, number);
        let mut known = cores.iter().map(|core| now.parts[*core].outcome);
        let known = known.find(|outcome| *outcome != Outcome::Undecided);
        if !self.takes_part(state, number, core) {
            return false;
        }
        let now = &mut state.transactions[number];
        now.unsure = false;
        match known {
            Some(known) => now.decision = known,
            None if self.is(TransactionBug::EarlierDecisionCounts) => {}
            None => now.decision = Outcome::Undecided,
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
        let decides = self.decider(state, number) == core;
        if now.forgotten || decides && now.unsure {
            return false;
        }
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
        self.is_known_to(state, number, state.transactions[number].reported)
    }

    /// Returns whether a set of cores has f + 1 members of each table, or all of them.
    fn is_known_to(&self, state: &ModelState, number: usize, reported: u8) -> bool {
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

    /// Answers the client at the first primary, where a late copy of the request would arrive.
    pub fn answer(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        let decided = now.decision != Outcome::Undecided;
        if !decided || now.answered || now.forgotten || !self.may_be_seen(state, number) {
            return false;
        }
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let commits = now.decision == Outcome::Commit;
        let first = self.members(state, number)[0];
        if !self.takes_part(state, number, first) || !chained && now.unsure {
            return false;
        }
        if !commits && !chained && !self.is_recorded(state, number) {
            return false;
        }
        let now = &mut state.transactions[number];
        now.answered = true;
        match commits {
            true => now.seen_commit = true,
            false => now.seen_abort = true,
        }
        true
    }

    /// Returns whether another attempt of the request is prepared at a core, or has committed
    /// there.
    fn runs_elsewhere(&self, state: &ModelState, number: usize, core: usize) -> bool {
        let request = self.transaction(number).request;
        let mut others = self.case.transactions.iter().enumerate();
        others.any(|(other, transaction)| {
            let part = state.transactions[other].parts[core];
            let active = matches!(part.stage, Stage::Walked | Stage::Prepared);
            let active = active && part.outcome != Outcome::Abort;
            let mut rows = state.rows.iter();
            let shown = rows.any(|row| history(row[core]).any(|it| it == other));
            other != number && transaction.request == request && (active || shown)
        })
    }

    /// Records at a member that the request has aborted: no attempt of it is prepared there any
    /// more. The first primary asks for this, after it has recorded the abort itself.
    pub fn close(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let now = state.transactions[number];
        let chained = self.transaction(number).way == DecisionWay::Chain;
        let cores = self.members(state, number);
        let aborts = now.begun != 0 && now.decision == Outcome::Abort && !now.forgotten;
        if chained || !aborts || !cores.contains(&core) || now.closed >> core & 1 != 0 {
            return false;
        }
        let first = cores[0];
        let known = now.parts[first].outcome == Outcome::Abort;
        let asked = core == first || now.closed >> first & 1 != 0;
        let open = self.runs_elsewhere(state, number, core);
        if !known || !asked || open || !self.takes_part(state, number, core) {
            return false;
        }
        state.transactions[number].closed |= 1 << core;
        true
    }

    /// Returns whether the client may see an abort: the first primary has recorded it. If the
    /// remaining members could commit another attempt after a loss, f + 1 have recorded it.
    fn is_recorded(&self, state: &ModelState, number: usize) -> bool {
        let closed = state.transactions[number].closed;
        let cores = self.members(state, number);
        if self.is(TransactionBug::AbortNotRecorded) {
            return true;
        }
        let first = closed >> cores[0] & 1 != 0;
        let once = self.is(TransactionBug::AbortRecordedOnce);
        let all_votes = self.transaction(number).way == DecisionWay::AllVotes && !once;
        first && (!all_votes || self.is_known_to(state, number, closed))
    }

    /// Makes all members forget a transaction that has ended at all of them. Late copies of its
    /// messages are recognised by the line of its coordinator.
    pub fn forget(&self, state: &mut ModelState, number: usize) -> bool {
        let now = state.transactions[number];
        if now.begun == 0 || !now.answered || now.forgotten {
            return false;
        }
        let finished = self.members(state, number).into_iter().all(|core| {
            let part = now.parts[core];
            part.outcome != Outcome::Undecided && !part.holds() && !state.changes.is_removed(core)
        });
        if !finished || state.changes.current().sealed != 0 {
            return false;
        }
        let now = &mut state.transactions[number];
        now.forgotten = true;
        now.parts = Default::default();
        true
    }

    /// Lets the client that only reads read a row at a core. It reads twice.
    pub fn read(&self, state: &mut ModelState, core: usize, row: usize) -> bool {
        let next = state.reads.iter().position(|read| !read.done);
        let answers = self.case.copies[row].contains(&core) && self.runs(state, core);
        let Some(next) = next.filter(|_| self.case.reads && answers) else {
            return false;
        };
        if self.is_prepared(state, (None, core, row)) {
            return false;
        }
        state.reads[next] = ReadState {
            done: true,
            row: row as u8,
            value: state.rows[row][core],
            after: state.answered(),
        };
        true
    }

    /// Shows the outcome to readers of a core, and releases the locks. The coordinator has said
    /// that it may be seen, or the tables of the transaction serve in a later epoch (R5).
    pub fn settle(&self, state: &mut ModelState, number: usize, core: usize) -> bool {
        let now = state.transactions[number];
        let part = now.parts[core];
        if !part.holds() || !self.runs(state, core) {
            return false;
        }
        let commits = part.outcome == Outcome::Commit;
        let tables = self.tables(number);
        let (view, then) = (state.changes.view(core), state.changes.of(now.begun));
        let later = members(tables).any(|table| view.epochs[table] > then.epochs[table]);
        let serves = later && view.sealed & tables == 0;
        let seen = match part.outcome {
            Outcome::Undecided => false,
            Outcome::Commit => now.seen_commit,
            Outcome::Abort => self.may_be_seen(state, number),
        };
        let implied = commits && self.transaction(number).way == DecisionWay::AllVotes;
        let early = part.outcome != Outcome::Undecided && self.is(TransactionBug::SettledEarly);
        let may = seen || implied || early;
        let may = serves || may && self.takes_part(state, number, core);
        if !may {
            return false;
        }
        let changed_rows = members(self.transaction(number).changes);
        let copies = changed_rows.filter(|row| self.case.copies[*row].contains(&core));
        let mut earlier = copies.clone().flat_map(|row| history(now.old[row]));
        let waits = |other: usize| state.transactions[other].parts[core].holds();
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
        true
    }

    /// Returns all steps of a transaction that are no faults, for the description of a case.
    pub fn steps_of(&self, number: usize, attempt: &mut dyn FnMut(TransactionStep)) {
        for step in [
            TransactionStep::Begin(number),
            TransactionStep::Walk(number),
            TransactionStep::Send(number),
            TransactionStep::Decide(number),
            TransactionStep::GiveUp(number),
            TransactionStep::AskMembers(number),
            TransactionStep::Answer(number),
            TransactionStep::Forget(number),
            TransactionStep::Check(number, 0),
            TransactionStep::Check(number, 1),
        ] {
            attempt(step);
        }
        for core in 0..self.case.cores.len() {
            attempt(TransactionStep::Release(number, core));
            attempt(TransactionStep::Prepare(number, core));
            attempt(TransactionStep::Refuse(number, core));
            attempt(TransactionStep::Deliver(number, core));
            attempt(TransactionStep::Settle(number, core));
            attempt(TransactionStep::DropWalk(number, core));
            attempt(TransactionStep::Close(number, core));
            attempt(TransactionStep::Resolve(core, number));
        }
    }
}
