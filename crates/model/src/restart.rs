//! Crashes, and how a restarted member learns what it may have forgotten
//! (`docs/design/2026-11-21-restart-adopts-votes.md`).
//!
//! A restart is a new epoch, as the coordinator has it: nothing that was sent in an earlier one is
//! taken any more. A question and its answer are one step; members that share no operation with
//! the restarted one have nothing to tell and are not asked.

use crate::chain::World;
use crate::planted::Bug;
use crate::state::{Member, Part, Stage, State};

impl World<'_> {
    /// A member loses what its disk has not.
    pub fn crash(&self, state: &mut State, member: usize) -> bool {
        let removed = state.removed >> member & 1 != 0;
        if state.crashes_left == 0 || removed || !state.members[member].up {
            return false;
        }
        state.crashes_left -= 1;
        state.members[member] = Member::default();
        for (operation, place) in self.parts_of(member) {
            let part = &mut state.parts[operation][place];
            if !part.prepare_durable {
                *part = Part::default();
                continue;
            }
            if !part.decision_durable {
                part.decision = None;
            }
            part.told = None;
            part.told_settled = false;
            let resolved = state.resolved >> operation & 1 != 0;
            part.settled = part.decision.is_some() && (self.case.settles_at_decision() || resolved);
        }
        self.drop_dead_messages(state);
        true
    }

    /// It comes back with its log.
    pub fn restart(&self, state: &mut State, member: usize) -> bool {
        let gone = (state.removed | state.fenced) >> member & 1 != 0;
        if gone || state.members[member].up {
            return false;
        }
        state.epoch += 1;
        state.members[member] = Member {
            up: true,
            recovering: !self.is(Bug::RecoverySkipped),
            sealed: state.resolving,
            epoch: state.epoch,
            ..Member::default()
        };
        if !state.resolving {
            for (operation, place) in self.parts_of(member) {
                if state.parts[operation][place].stage == Stage::Prepared {
                    self.on_durable(state, (operation, place), true);
                }
            }
            self.end_recovery(state, member);
        }
        true
    }

    /// A member takes up the newest epoch. If that excludes somebody, this is its seal, which is
    /// durable before it is reported (SAFETY R16), and with it all that was logged before.
    pub fn learn(&self, state: &mut State, member: usize) -> bool {
        let removed = state.removed >> member & 1 != 0;
        if removed || !state.members[member].up || state.members[member].epoch == state.epoch {
            return false;
        }
        state.members[member].epoch = state.epoch;
        state.members[member].sealed = state.resolving;
        state.members[member].resolved = false;
        // All that a recovering member is told must come from one epoch, and so from one life of
        // each peer.
        if !self.is(Bug::AnswersOfAnyEpoch) {
            state.members[member].heard = 0;
        }
        for (operation, place) in self.parts_of(member).filter(|_| state.resolving) {
            let part = &mut state.parts[operation][place];
            if part.stage == Stage::Waiting {
                *part = Part::default();
            }
            // What it was told while it recovered is as true as what it knew.
            part.decision = part.decision.or(part.told);
            part.told = None;
            part.told_settled = false;
            part.prepare_durable = part.stage == Stage::Prepared;
            part.decision_durable = part.decision.is_some();
        }
        self.drop_dead_messages(state);
        true
    }

    /// A peer tells a restarted member of every operation that both take part in.
    pub fn tell(&self, state: &mut State, from: usize, to: usize) -> bool {
        let (teller, asker) = (state.members[from], state.members[to]);
        let heard = asker.heard >> from & 1 != 0;
        let same_epoch = teller.up && asker.up && teller.epoch == asker.epoch;
        let acts = self.acts(state, from) && self.acts(state, to);
        if from == to || !asker.recovering || heard || !same_epoch || !acts {
            return false;
        }
        for (operation, place) in self.parts_of(from) {
            let Some(own) = self.case.place_of(operation, to) else {
                continue;
            };
            let part = &mut state.parts[operation][place];
            match part.stage {
                Stage::None => {}
                // The asker may have forgotten it, and nobody else may remember it.
                Stage::Waiting => {
                    if own < place && !self.is(Bug::WaitingIsKept) {
                        *part = Part::default();
                    }
                }
                Stage::Prepared => self.adopt(state, operation, place, own),
            }
        }
        state.members[to].heard |= 1 << from;
        self.end_recovery(state, to);
        true
    }

    /// The member at place `own` takes back its vote as the one at `place` knows it, and the
    /// outcome, as far as that may have come to it.
    fn adopt(&self, state: &mut State, operation: usize, place: usize, own: usize) {
        let told = state.parts[operation][place];
        let decision = told
            .decision
            .filter(|_| self.may_pass(&told, operation, place));
        let knows_vote = own <= place || decision.is_some();
        let part = &mut state.parts[operation][own];
        if part.stage != Stage::Prepared && knows_vote {
            let mut refusals = told.refusals;
            if decision == Some(crate::state::Decision::Abort) {
                refusals |= u8::MAX << (place + 1);
            }
            *part = Part {
                stage: Stage::Prepared,
                refusals: refusals & ((1 << (own + 1)) - 1),
                ..Part::default()
            };
        }
        let between = (own + 1..place).any(|place| {
            let member = self.member(operation, place);
            state.fenced >> member & 1 == 0
        });
        if let Some(decision) = decision.filter(|_| !between) {
            self.on_decision(state, operation, own, (decision, told.settled));
        }
    }

    /// Once everybody has told what it knows, the member is whole again.
    pub fn end_recovery(&self, state: &mut State, member: usize) {
        let peers = (0..self.case.members.len()).filter(|peer| {
            let shares = self
                .parts_of(member)
                .any(|(operation, _)| self.case.place_of(operation, *peer).is_some());
            *peer != member && shares && state.fenced >> *peer & 1 == 0
        });
        let peers = peers.fold(0, |set, peer| set | 1 << peer);
        if state.members[member].recovering && peers & !state.members[member].heard != 0 {
            return;
        }
        state.members[member].recovering = false;
        state.members[member].heard = 0;
        for (operation, place) in self.parts_of(member) {
            let part = &mut state.parts[operation][place];
            let (told, settled) = (part.told.take(), part.told_settled);
            part.told_settled = false;
            if let Some(decision) = told {
                self.on_decision(state, operation, place, (decision, settled));
            }
            self.show(state, operation, place);
        }
    }
}
