//! Models a drained cut: cores hold, answer, and close, and only then do clients read at the
//! version (R36-R39).

use super::operation::CutRules;
use super::planted::CutBug;
use super::state::{CutStage, CutState};

impl CutRules {
    /// Begins an opening for the statements that wait. No opening begins while a table is sealed.
    pub fn open(&self, state: &mut CutState, opening: usize) -> bool {
        if state.openings[opening].begun || state.sealed {
            return false;
        }
        let epoch = state.epoch;
        let now = &mut state.openings[opening];
        now.begun = true;
        now.epoch = epoch;
        true
    }

    /// Lets a statement read at a version that was chosen before it began, as no rule allows.
    pub fn join(&self, state: &mut CutState, opening: usize) -> bool {
        let must = self.acknowledged(state);
        let now = &mut state.openings[opening];
        now.must = must;
        self.is(CutBug::JoinsAfterClose) && now.version != 0 && !now.given
    }

    /// Applies all steps that follow immediately: cores answer once none of their operations is in
    /// progress, the opener gives out the version once all cores have closed, and readers read at
    /// every core that answers.
    pub fn follow_up(&self, state: &mut CutState) {
        for opening in 0..self.case.openings {
            for core in 0..self.case.cores.len() {
                self.answer(state, opening, core);
            }
            self.give(state, opening);
            let now = &mut state.openings[opening];
            if now.void {
                // Late messages of it still arrive, and nothing else of it matters.
                (now.answered, now.highest, now.closed, now.must) = (0, 0, 0, 0);
                state
                    .cores
                    .iter_mut()
                    .for_each(|core| core.known &= !(1 << opening));
            }
            for core in 0..self.case.cores.len() {
                self.read(state, opening, core);
            }
        }
    }

    fn is_of_epoch(&self, state: &CutState, opening: usize, core: usize) -> bool {
        state.cores[core].epoch == state.openings[opening].epoch
    }

    /// Pauses a core for an opening: once for each opening, in the core's own epoch, and only if
    /// the core is not paused for another opening.
    pub fn hold(&self, state: &mut CutState, opening: usize, core: usize) -> bool {
        let now = state.openings[opening];
        let seen = state.cores[core].seen >> opening & 1 != 0;
        let taken = seen && !self.is(CutBug::HoldTakenTwice);
        let recovering = self.is(CutBug::HeldWhileRecovering) && state.cores[core].recovering;
        let ready = self.acts(state, core) || recovering;
        if !now.begun || taken || !ready || !self.is_of_epoch(state, opening, core) {
            return false;
        }
        let own = &mut state.cores[core];
        if own.hold == opening as u8 + 1 {
            return false;
        }
        if own.hold != 0 {
            // It does not answer: the other opening is void in the end.
            if !self.is(CutBug::HoldsShared) {
                return false;
            }
            own.second_hold = opening as u8 + 1;
            own.seen |= 1 << opening;
            return true;
        }
        own.hold = opening as u8 + 1;
        own.seen |= 1 << opening;
        own.answered = false;
        true
    }

    /// Answers a hold with the core's clock, once nothing is in progress at the core.
    fn answer(&self, state: &mut CutState, opening: usize, core: usize) {
        let own = state.cores[core];
        let number = opening as u8 + 1;
        let holds = own.hold == number && !own.answered || own.second_hold == number;
        let answered = state.openings[opening].answered >> core & 1 != 0;
        let drained = !self.is_under_way(state, core) || self.is(CutBug::HoldAnsweredEarly);
        let ready = self.acts(state, core) || self.is(CutBug::HeldWhileRecovering);
        let early = self.is(CutBug::CloseWithoutHold);
        if !holds || answered && !self.is(CutBug::HoldTakenTwice) || !drained && !early || !ready {
            return;
        }
        state.cores[core].answered |= own.hold == number;
        let now = &mut state.openings[opening];
        now.answered |= 1 << core;
        now.highest = match self.is(CutBug::LastClockWins) {
            true => own.clock,
            false => now.highest.max(own.clock),
        };
    }

    /// Ends the pause of a core, because it has lasted too long.
    pub fn expire(&self, state: &mut CutState, core: usize) -> bool {
        self.release_hold(state, core);
        true
    }

    /// Ends the pause of a core, and drops its history if no snapshot needs it.
    pub fn release_hold(&self, state: &mut CutState, core: usize) {
        let own = &mut state.cores[core];
        own.hold = 0;
        own.second_hold = 0;
        own.answered = false;
        if own.known == 0 {
            own.history = 0;
        }
    }

    fn all(&self, state: &CutState, opening: usize) -> u8 {
        let gone = match state.openings[opening].epoch == state.epoch {
            true => state.removed | state.fenced,
            false => state.fenced,
        };
        let cores = (0..self.case.cores.len()).filter(|core| gone >> core & 1 == 0);
        cores.fold(0, |set, core| set | 1 << core)
    }

    /// Chooses the version, which is the highest clock, once every core has answered. Statements
    /// may join the opening until this step (R38).
    pub fn close(&self, state: &mut CutState, opening: usize) -> bool {
        let must = self.acknowledged(state);
        let all = self.all(state, opening);
        let now = &mut state.openings[opening];
        if !now.begun || now.version != 0 || now.answered & all != all {
            return false;
        }
        // Versions begin at 1: an empty cluster is read at that, too.
        now.version = now.highest.max(1);
        now.must = must;
        if self.is(CutBug::GivenBeforeClosed) {
            now.given = true;
        }
        true
    }

    /// Delivers a close: a core that is still paused for this opening moves its clock to the
    /// version and resumes operations. Any other core rejects the close, and the opening is void.
    pub fn release(&self, state: &mut CutState, opening: usize, core: usize) -> bool {
        let now = state.openings[opening];
        let own = state.cores[core];
        let there = state.fenced >> core & 1 == 0;
        if now.version == 0 || now.closed >> core & 1 != 0 || !there {
            return false;
        }
        let number = opening as u8 + 1;
        let counts = self.is(CutBug::ExpiredHoldCounts) && now.answered >> core & 1 != 0
            || self.is(CutBug::OpeningUnchecked) && own.hold != 0;
        let holds = own.hold == number || own.second_hold == number || counts;
        let ready = self.acts(state, core) || self.is(CutBug::HeldWhileRecovering);
        if !holds || !ready || !self.is_of_epoch(state, opening, core) {
            if now.void || now.given && !self.is(CutBug::GivenBeforeClosed) {
                return false;
            }
            state.openings[opening].void = true;
            return true;
        }
        state.openings[opening].closed |= 1 << core;
        let own = &mut state.cores[core];
        own.known |= 1 << opening;
        if !self.is(CutBug::ClockNotMoved) {
            own.clock = own.clock.max(now.version);
        }
        let other = match own.second_hold {
            0 => 0,
            second if second == number => own.hold,
            second => second,
        };
        own.hold = 0;
        own.second_hold = 0;
        if self.is(CutBug::HoldsShared) && other != 0 {
            // The other opening is closed later, and until then nothing is held for it.
            state.openings[usize::from(other) - 1].answered |= 1 << core;
            own.seen |= 1 << (other - 1);
            own.answered = true;
            own.second_hold = other;
        }
        true
    }

    /// Gives the version to the statements, once every core has closed.
    fn give(&self, state: &mut CutState, opening: usize) {
        let all = self.all(state, opening);
        let now = &mut state.openings[opening];
        now.given |= now.version != 0 && !now.void && now.closed & all == all;
    }

    /// Reads the row of a core at a version. It is an error, and no answer, where the core does
    /// not know the snapshot.
    fn read(&self, state: &mut CutState, opening: usize, core: usize) {
        let now = state.openings[opening];
        let own = state.cores[core];
        let known = own.known >> opening & 1 != 0 || self.is(CutBug::UnknownAnswered);
        let same = own.epoch == now.epoch
            || self.is(CutBug::SurvivesEpoch)
            || self.is(CutBug::UnknownAnswered);
        if !now.given || !known || !same || !self.acts(state, core) {
            return;
        }
        let row = (0..2).find(|row| self.case.chains[*row].contains(&core));
        let Some(row) = row else {
            return;
        };
        let found = self.row_at(state, core, row, now.version);
        let before = now.read[row];
        state.torn |= found.is_none() || before != 0 && Some(before) != found;
        if before == 0 {
            state.openings[opening].read[row] = found.unwrap_or_default();
        }
    }

    /// Returns the row of a core at a version: the newest that is not above it, of the present one
    /// and history; none if history does not reach back.
    fn row_at(&self, state: &CutState, core: usize, row: usize, version: u8) -> Option<u8> {
        let first = self.case.operations.len() + row;
        let place = self.case.chains[row]
            .iter()
            .position(|other| *other == core)?;
        let of_row = |operation: &usize| self.case.operations[*operation].row == row;
        let operations = (0..self.case.operations.len()).filter(of_row);
        let applied = operations
            .filter(|operation| state.operations[*operation].stages[place] == CutStage::Applied);
        let applied: Vec<usize> = applied.collect();
        let present = applied.last().copied();
        let kept = |number: usize| {
            let history = state.cores[core].history >> number & 1 != 0;
            Some(number) == present || number == first && present.is_none() || history
        };
        let seen = applied.iter().rev();
        let mut seen = seen.filter(|operation| state.operations[**operation].version <= version);
        match seen.next() {
            Some(operation) => kept(*operation).then_some(*operation as u8 + 2),
            None => kept(first).then_some(1),
        }
    }

    /// Ends the snapshots of a core: its history is full, or their lease is over.
    pub fn trim(&self, state: &mut CutState, core: usize) -> bool {
        if state.trims_left == 0 || state.cores[core].known == 0 {
            return false;
        }
        state.trims_left -= 1;
        let own = &mut state.cores[core];
        own.history = 0;
        if self.is(CutBug::HistoryTrimmed) {
            return true;
        }
        own.known = 0;
        self.release_hold(state, core);
        true
    }
}
