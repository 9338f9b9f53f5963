//! Models crashes, and how a restarted member learns what it may have forgotten
//! (`docs/design/2026-11-21-restart-adopts-votes.md`).
//!
//! The coordinator makes a new epoch for each restart, and members drop messages of earlier epochs.
//! A question and its answer are one step. Members that share no operation with the restarted
//! member have nothing to report, and are not asked.

use crate::commit::case::OPERATIONS_MAX;
use crate::commit::chain::CaseRules;
use crate::commit::planted::ModelBug;
use crate::commit::state::{
    AnnouncedOutcome, MemberPart, ModelDecision, ModelMember, ModelState, Stage,
};

impl CaseRules<'_> {
    /// Returns the records of a member that may not be on its disk, as a set: prepares by
    /// operation, and in the higher bits decisions.
    pub fn undurable(&self, state: &ModelState, member: usize) -> u8 {
        self.parts_of(member).fold(0, |set, (operation, place)| {
            let part = state.parts[operation][place];
            let prepare = part.stage == Stage::Prepared && !part.prepare_durable;
            let decision = part.decision.is_some() && !part.decision_durable;
            set | u8::from(prepare) << operation
                | u8::from(decision) << (operation + OPERATIONS_MAX)
        })
    }

    /// Crashes a member, which loses its undurable records but `kept`.
    pub fn crash(&self, state: &mut ModelState, member: usize, kept: u8) -> bool {
        let removed = state.removed >> member & 1 != 0;
        if state.crashes_left == 0 || removed || !state.members[member].up {
            return false;
        }
        let forgetful = (0..self.case.members.len()).filter(|other| {
            let gone = (state.removed | state.fenced) >> other & 1 != 0;
            let ModelMember { up, recovering, .. } = state.members[*other];
            *other != member && (gone || !up || recovering)
        });
        if self.case.replicated && forgetful.count() >= self.case.tolerated {
            return false;
        }
        state.crashes_left -= 1;
        state.members[member] = ModelMember::default();
        self.forget_reports(state, member);
        for (operation, place) in self.parts_of(member) {
            let part = &mut state.parts[operation][place];
            part.prepare_durable |= kept >> operation & 1 != 0;
            part.decision_durable |= kept >> (operation + OPERATIONS_MAX) & 1 != 0;
            if !part.prepare_durable {
                *part = MemberPart::default();
                continue;
            }
            if !part.decision_durable {
                part.decision = None;
            }
            part.skipped = part.decision.is_some()
                && place < self.last(operation)
                && self.case.replicated
                && !self.case.settles_at_decision();
            part.received = None;
            let resolved = state.resolved >> operation & 1 != 0;
            // Outside of a resolution, a side member only has outcomes that clients may see.
            let side = self.is_side(operation, place) && !state.resolving;
            part.settled =
                part.decision.is_some() && (self.case.settles_at_decision() || resolved || side);
        }
        self.drop_dead_messages(state);
        true
    }

    /// Restarts a member with its log.
    pub fn restart(&self, state: &mut ModelState, member: usize) -> bool {
        let gone = (state.removed | state.fenced) >> member & 1 != 0;
        if gone || state.members[member].up {
            return false;
        }
        state.epoch += 1;
        state.members[member] = ModelMember {
            up: true,
            recovering: !self.is(ModelBug::RecoverySkipped),
            sealed: state.resolving,
            epoch: state.epoch,
            ..ModelMember::default()
        };
        if !state.resolving {
            for (operation, place) in self.parts_of(member) {
                if state.parts[operation][place].stage == Stage::Prepared {
                    self.on_durable(state, operation, place, true);
                }
            }
            self.end_recovery(state, member);
        }
        true
    }

    /// Moves a member to the newest epoch. If the epoch excludes a member, this step is also the
    /// member's seal, which is durable before it is reported, with all earlier records (R16).
    pub fn learn(&self, state: &mut ModelState, member: usize) -> bool {
        let removed = state.removed >> member & 1 != 0;
        if removed || !state.members[member].up || state.members[member].epoch == state.epoch {
            return false;
        }
        state.members[member].epoch = state.epoch;
        state.members[member].sealed = state.resolving;
        state.members[member].resolved = false;
        // All reports to a recovering member must come from one epoch, and so from one life of each
        // peer.
        if !self.is(ModelBug::AnswersOfAnyEpoch) {
            state.members[member].answered = 0;
        }
        for (operation, place) in self.parts_of(member).filter(|_| state.resolving) {
            let part = &mut state.parts[operation][place];
            if part.stage == Stage::Waiting {
                *part = MemberPart::default();
            }
            // Outcomes that it received while it recovered are as true as those that it knew.
            part.decision = part
                .decision
                .or(part.received.map(|received| received.decision));
            part.received = None;
            part.prepare_durable = part.stage == Stage::Prepared;
            part.decision_durable = part.decision.is_some();
        }
        self.drop_dead_messages(state);
        true
    }

    /// Sends a report from a peer to a restarted member: every operation in which both are members.
    pub fn report(&self, state: &mut ModelState, from: usize, to: usize) -> bool {
        let (reporter, asker) = (state.members[from], state.members[to]);
        let has_answered = asker.answered >> from & 1 != 0;
        let same_epoch = reporter.up && asker.up && reporter.epoch == asker.epoch;
        let acts = self.acts(state, from) && self.acts(state, to);
        if from == to || !asker.recovering || has_answered || !same_epoch || !acts {
            return false;
        }
        for (operation, place) in self.parts_of(from) {
            let Some(own) = self.case.place_of(operation, to) else {
                continue;
            };
            let part = &mut state.parts[operation][place];
            match part.stage {
                Stage::None => {}
                // The asker may have forgotten it, and perhaps no other member remembers it.
                Stage::Waiting => {
                    if own < place && !self.is(ModelBug::WaitingIsKept) {
                        *part = MemberPart::default();
                    }
                }
                Stage::Prepared => self.adopt(state, operation, place, own),
            }
        }
        state.members[to].answered |= 1 << from;
        self.end_recovery(state, to);
        true
    }

    /// Restores the vote of the member at index `own` of the chain from the part of the member at
    /// `place`. Also restores the outcome, if it may have reached the restarted member.
    fn adopt(&self, state: &mut ModelState, operation: usize, place: usize, own: usize) {
        let from_side = self.is_side(operation, place);
        if from_side && (own > 0 || self.is(ModelBug::SidesNotAsked)) {
            // It knows no vote but the head's, and an outcome only after the chain.
            return;
        }
        let reporter = state.parts[operation][place];
        let decided = reporter
            .decision
            .filter(|_| self.may_pass(&reporter, operation, place));
        // Without disks to wait for, what a member has received while it recovers goes on.
        let received = reporter.received.filter(|_| self.case.replicated);
        let decision = decided.or(received.map(|received| received.decision));
        // Where all that can refuse have voted yes, the others can only vote the same.
        let sure = self.case.replicated
            && reporter.refusals == 0
            && self.covers(operation, place)
            && !self.is(ModelBug::SureYesForgotten);
        let side = self.is_side(operation, own);
        let knows_vote = match side {
            // A side member has no choice: the prepare is all that it needs.
            true => !self.is(ModelBug::SidesAdoptNothing),
            false if from_side => true,
            false => own <= place || decision.is_some() || sure,
        };
        let part = &mut state.parts[operation][own];
        if part.stage != Stage::Prepared && knows_vote {
            let mut refusals = reporter.refusals;
            if decision == Some(ModelDecision::Abort) {
                refusals |= u8::MAX << (place + 1);
            }
            if side {
                refusals = 0;
            }
            *part = MemberPart {
                stage: Stage::Prepared,
                refusals: refusals & ((1 << (own + 1)) - 1),
                ..MemberPart::default()
            };
        }
        let is_gone = |place| state.fenced >> self.member(operation, place) & 1 != 0;
        let in_order = match side {
            true => (0..place).all(is_gone),
            false if from_side => false,
            false => (own + 1..place).all(is_gone),
        };
        // A member may have its decision from a report itself. Only the decider's skips no member.
        let last = self.last(operation);
        let skips_none = own == last || in_order && place == last;
        // With disks, only what comes up the chain is taken: a prepare on the way may not be
        // durable.
        if let Some(decision) = decision.filter(|_| in_order || self.case.replicated) {
            let announced = AnnouncedOutcome {
                decision,
                settled: reporter.settled || received.is_some_and(|received| received.settled),
                in_order: skips_none || self.is(ModelBug::ReportedPastMembers),
            };
            self.on_decision(state, operation, own, announced);
        }
    }

    /// Ends the recovery of a member, once all peers have sent their reports.
    pub fn end_recovery(&self, state: &mut ModelState, member: usize) {
        let peers = (0..self.case.members.len()).filter(|peer| {
            let shares = self
                .parts_of(member)
                .any(|(operation, _)| self.case.place_of(operation, *peer).is_some());
            *peer != member && shares && state.fenced >> *peer & 1 == 0
        });
        let peers = peers.fold(0, |set, peer| set | 1 << peer);
        if state.members[member].recovering && peers & !state.members[member].answered != 0 {
            return;
        }
        state.members[member].recovering = false;
        state.members[member].answered = 0;
        for (operation, place) in self.parts_of(member) {
            let part = &mut state.parts[operation][place];
            if let Some(received) = part.received.take() {
                self.on_decision(state, operation, place, received);
            }
            self.show(state, operation, place);
        }
    }
}
