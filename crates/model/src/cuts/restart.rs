//! Models restarts, lost servers, and the epochs that follow them.
//!
//! A restarted core gets back from its peers, before it acts, everything that it does not know, as
//! in the model of commit. A resolution is one step here: every remaining core has sealed.

use super::operation::CutRules;
use super::planted::CutBug;
use super::state::{CutStage, CutState};

impl CutRules {
    /// Restarts a core, which loses its memory and so its pause, its history and its snapshots. If
    /// `loses` is set, it also loses prepares that it forwarded before they were durable (R1).
    pub fn restart(&self, state: &mut CutState, core: usize, loses: bool) -> bool {
        if state.restarts_left == 0 || (state.removed | state.fenced) >> core & 1 != 0 {
            return false;
        }
        state.restarts_left -= 1;
        state.epoch += 1;
        let mut logged = 0;
        for operation in 0..self.case.operations.len() {
            let chain = self.chain(operation);
            let Some(place) = chain.iter().position(|other| *other == core) else {
                continue;
            };
            let now = &mut state.operations[operation];
            let epoch_places = chain.len();
            let last = place + 1 == epoch_places;
            let durable = last || now.acknowledged || !loses;
            if now.stages[place] != CutStage::Unknown && !durable {
                now.stages[place] = CutStage::Unknown;
            }
            if now.stages[place] != CutStage::Unknown {
                logged = now.version.max(logged);
            }
        }
        let own = &mut state.cores[core];
        *own = super::state::CutCore {
            clock: match self.is(CutBug::ClockForgotten) {
                true => 0,
                false => logged,
            },
            epoch: state.epoch,
            recovering: true,
            ..Default::default()
        };
        true
    }

    /// Ends the recovery of a core: all its peers have reported to it in one epoch.
    pub fn recover(&self, state: &mut CutState, core: usize) -> bool {
        let epoch = state.cores[core].epoch;
        let gone = state.removed | state.fenced;
        let mut peers = (0..self.case.cores.len()).filter(|peer| gone >> peer & 1 == 0);
        let same = peers.all(|peer| state.cores[peer].epoch == epoch);
        if !state.cores[core].recovering || !same || state.sealed {
            return false;
        }
        for operation in 0..self.case.operations.len() {
            let chain = self.chain(operation);
            let Some(place) = chain.iter().position(|other| *other == core) else {
                continue;
            };
            let stages = state.operations[operation].stages;
            let below = (place + 1..chain.len()).any(|below| stages[below] != CutStage::Unknown);
            if stages[place] == CutStage::Unknown && below {
                state.operations[operation].stages[place] = CutStage::Prepared;
                let clock = &mut state.cores[core].clock;
                *clock = state.operations[operation].version.max(*clock);
            }
            self.forget_lost(state, operation);
        }
        state.cores[core].recovering = false;
        true
    }

    /// Resets an operation that no core knows any more. Its client sends it again.
    fn forget_lost(&self, state: &mut CutState, operation: usize) {
        let now = &mut state.operations[operation];
        if now.stages.iter().all(|stage| *stage == CutStage::Unknown) {
            *now = Default::default();
        }
    }

    /// Moves a core to the next epoch. Its pause and its snapshots of the earlier epoch end (R39).
    pub fn learn(&self, state: &mut CutState, core: usize) -> bool {
        let gone = (state.removed | state.fenced) >> core & 1 != 0;
        if gone || state.cores[core].epoch == state.epoch {
            return false;
        }
        state.cores[core].epoch += 1;
        if !self.is(CutBug::SurvivesEpoch) {
            state.cores[core].known = 0;
        }
        self.release_hold(state, core);
        true
    }

    /// Removes a server, which may continue to run until the next epoch serves.
    pub fn lose(&self, state: &mut CutState, core: usize) -> bool {
        if state.losses_left == 0 || state.sealed {
            return false;
        }
        state.losses_left -= 1;
        state.epoch += 1;
        state.sealed = true;
        state.removed |= 1 << core;
        true
    }

    /// Resolves the operations in progress (R4) once every remaining core has sealed, and lets the
    /// epoch serve.
    pub fn serve(&self, state: &mut CutState) -> bool {
        let gone = state.removed | state.fenced;
        let mut remaining = (0..self.case.cores.len()).filter(|core| gone >> core & 1 == 0);
        let sealed = remaining.all(|core| state.cores[core].epoch == state.epoch);
        if !state.sealed || !sealed {
            return false;
        }
        for operation in 0..self.case.operations.len() {
            let places = self.places(state, operation, state.epoch);
            let stages = state.operations[operation].stages;
            let known = |place: &usize| stages[*place] != CutStage::Unknown;
            let commits = places
                .iter()
                .any(|place| stages[*place] == CutStage::Applied)
                || places.iter().all(known);
            for place in places {
                if !commits {
                    state.operations[operation] = Default::default();
                } else if stages[place] != CutStage::Applied {
                    let core = self.chain(operation)[place];
                    let clock = &mut state.cores[core].clock;
                    *clock = state.operations[operation].version.max(*clock);
                    self.settle(state, operation, place);
                }
            }
        }
        state.sealed = false;
        state.fenced |= state.removed;
        for core in &mut state.cores {
            core.recovering = false;
        }
        true
    }
}
