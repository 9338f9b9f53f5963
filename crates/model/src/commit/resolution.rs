//! Models the end of an epoch: members are removed, and the others seal the epoch and resolve its
//! undecided operations (R4, R5, R15, R16).
//!
//! The resolution is a function of the sealed logs. Any member that computes it gets the same
//! result, so the state does not keep it. A removed member may continue in its epoch until its
//! lease has ended, which is before the new epoch serves.

use crate::commit::chain::CaseRules;
use crate::commit::planted::ModelBug;
use crate::commit::state::{MemberPart, ModelDecision, ModelMember, ModelState, Stage};

/// The outcome of one operation by the sealed logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedOutcome {
    /// No member knows of the operation, and no client can have seen an outcome.
    Unknown,
    /// The operation has this outcome.
    Decided(ModelDecision),
    /// More than f members are lost, so the table waits.
    Stuck,
}

impl CaseRules<'_> {
    /// Removes a member: it may be dead, or continue in its epoch.
    pub fn lose(&self, state: &mut ModelState, member: usize) -> bool {
        if state.losses_left == 0 || (state.removed | state.fenced) >> member & 1 != 0 {
            return false;
        }
        state.losses_left -= 1;
        state.epoch += 1;
        state.resolving = true;
        state.removed |= 1 << member;
        true
    }

    /// Returns the members that the newest epoch includes.
    pub fn remaining<'a>(&'a self, state: &'a ModelState) -> impl Iterator<Item = usize> + 'a {
        let gone = state.removed | state.fenced;
        (0..self.case.members.len()).filter(move |member| gone >> member & 1 == 0)
    }

    /// Returns whether every remaining member has sealed the earlier epochs.
    pub fn is_sealed(&self, state: &ModelState) -> bool {
        self.remaining(state).all(|member| {
            let member = state.members[member];
            member.up && member.epoch == state.epoch
        })
    }

    /// Returns the rule of resolution, for one operation (R4, `docs/reference/protocol-chain.md`).
    pub fn outcome(&self, state: &ModelState, operation: usize) -> SealedOutcome {
        let places = &self.case.operations[operation].places;
        let gone = state.removed | state.fenced;
        let present: Vec<(usize, MemberPart)> = (0..places.len())
            .filter(|place| gone >> places[*place].member & 1 == 0)
            .map(|place| (place, state.parts[operation][place]))
            .collect();
        if let Some(decision) = present.iter().find_map(|(_, part)| part.decision) {
            return SealedOutcome::Decided(decision);
        }
        let survives = |place: usize| self.survives(state, places[place].member);
        let prepared = |part: &MemberPart| part.stage == Stage::Prepared;
        let mut votes = present.iter().filter(|(_, part)| prepared(part));
        let decided_unless_known = match votes.clone().next() {
            None => SealedOutcome::Unknown,
            Some(_) => SealedOutcome::Decided(ModelDecision::Abort),
        };
        let mut others = present.iter().filter(|(_, part)| !prepared(part));
        // The resolution gives the prepare to side members that lack it.
        let counts_none = |place| !self.is_side(operation, place) || self.is(ModelBug::SidesAbort);
        if others.any(|(place, _)| survives(*place) && counts_none(*place)) {
            return decided_unless_known;
        }
        if votes.clone().any(|(_, part)| part.refusals != 0) && !self.is(ModelBug::RefusalsIgnored)
        {
            return SealedOutcome::Decided(ModelDecision::Abort);
        }
        let counts = |place: usize| survives(place) || !self.is(ModelBug::ResolutionAsWritten);
        let agrees = |place| {
            let side = self.is_side(operation, place) && self.is(ModelBug::SidesAgree);
            self.covers(operation, place) || side
        };
        if votes.any(|(place, _)| agrees(*place) && counts(*place)) {
            return SealedOutcome::Decided(ModelDecision::Commit);
        }
        match self.survivor_would_know(state, operation) {
            true => decided_unless_known,
            false => SealedOutcome::Stuck,
        }
    }

    /// Returns whether what a member does not know is so: it has never crashed, or has caught up
    /// since.
    fn survives(&self, state: &ModelState, member: usize) -> bool {
        !state.members[member].recovering || self.is(ModelBug::RestartedReportsNone)
    }

    /// Returns whether a remaining member would know an outcome that was seen: it is in the log of
    /// the member that made it visible, and all at position x and beyond have received it.
    fn survivor_would_know(&self, state: &ModelState, operation: usize) -> bool {
        let places = &self.case.operations[operation].places;
        let gone = state.removed | state.fenced;
        let present = |place: &usize| gone >> places[*place].member & 1 == 0;
        let mut present = (0..places.len()).filter(present);
        let x = self.case.settle_position();
        if self.is(ModelBug::ResolutionGuesses) {
            return true;
        }
        if self.is(ModelBug::ResolutionAsWritten) {
            let prepared = |place: usize| state.parts[operation][place].stage == Stage::Prepared;
            return !present.any(prepared) || x <= self.case.replexes - self.case.tolerated;
        }
        let first_at_x = match self.case.settles_at_decision() {
            true => self.last(operation),
            false => {
                let mut numbers = 0..places.len();
                let first = numbers.find(|place| places[*place].replex == x);
                first.expect("every replex has a member in the chain")
            }
        };
        present.any(|place| {
            let survives = self.survives(state, places[place].member);
            // Without disks to wait for, its log does not show what it has forgotten.
            let has_log = place == first_at_x && !self.case.replicated;
            has_log || places[place].replex >= x && survives
        })
    }

    /// Applies the resolution at a member.
    pub fn resolve(&self, state: &mut ModelState, member: usize) -> bool {
        let own = state.members[member];
        let gone = (state.removed | state.fenced) >> member & 1 != 0;
        if !state.resolving || gone || own.resolved || !self.is_sealed(state) {
            return false;
        }
        let outcomes: Vec<SealedOutcome> = (0..self.case.operations.len())
            .map(|operation| self.outcome(state, operation))
            .collect();
        if outcomes.contains(&SealedOutcome::Stuck) {
            return false;
        }
        for (operation, place) in self.parts_of(member) {
            let SealedOutcome::Decided(decision) = outcomes[operation] else {
                continue;
            };
            let part = &mut state.parts[operation][place];
            let side = self.is_side(operation, place);
            if side && part.stage != Stage::Prepared && self.is(ModelBug::SidesUnresolved) {
                continue;
            }
            if part.stage != Stage::Prepared {
                let refuses = u8::from(decision == ModelDecision::Abort && !side);
                *part = MemberPart {
                    stage: Stage::Prepared,
                    refusals: refuses << place,
                    ..MemberPart::default()
                };
            }
            part.decision = Some(decision);
        }
        state.members[member].resolved = true;
        true
    }

    /// Lets the new epoch serve, under two conditions. Its resolution is durable on f + 1 members
    /// of every chain, or on all remaining ones (R5), and the leases of removed members have ended
    /// (R15).
    pub fn serve(&self, state: &mut ModelState) -> bool {
        let resolved = self
            .remaining(state)
            .all(|member| state.members[member].resolved);
        if !state.resolving || !self.is_sealed(state) || !resolved {
            return false;
        }
        let durable = (0..self.case.operations.len()).all(|operation| {
            self.is_resolution_durable(state, operation) || self.is(ModelBug::ServesBeforeDurable)
        });
        if !durable {
            return false;
        }
        state.resolving = false;
        for member in 0..self.case.members.len() {
            state.members[member].sealed = false;
            state.members[member].resolved = false;
            state.members[member].recovering = false;
            state.members[member].answered = 0;
            if state.removed >> member & 1 != 0 {
                self.replace(state, member);
            }
        }
        self.drop_dead_messages(state);
        for member in 0..self.case.members.len() {
            for (operation, place) in self.parts_of(member) {
                if state.parts[operation][place].decision.is_some() {
                    state.resolved |= 1 << operation;
                    self.settle(state, operation, place);
                }
            }
        }
        true
    }

    fn is_resolution_durable(&self, state: &ModelState, operation: usize) -> bool {
        let members = self.case.operations[operation].places.iter().enumerate();
        let gone = state.removed | state.fenced;
        let present = members.filter(|(_, place)| gone >> place.member & 1 == 0);
        let parts = present.map(|(place, _)| state.parts[operation][place]);
        let (mut known, mut durable) = (0, 0);
        for part in parts {
            known += usize::from(part.decision.is_some());
            durable += usize::from(part.decision_durable && part.prepare_durable);
        }
        durable >= known.min(self.case.tolerated + 1)
    }

    /// Ends a removed member, which sends nothing any more. If it is replaced, the new member
    /// fetches the rows of the others, after the resolution and before it votes (R18).
    fn replace(&self, state: &mut ModelState, member: usize) {
        state.removed &= !(1 << member);
        state.members[member] = ModelMember::default();
        if self.case.replaced {
            state.members[member] = ModelMember {
                up: true,
                epoch: state.epoch,
                ..ModelMember::default()
            };
        } else {
            state.fenced |= 1 << member;
        }
        for (operation, place) in self.parts_of(member) {
            let chain = &self.case.operations[operation].places;
            let decisions = (0..chain.len()).filter(|other| *other != place);
            let decision = decisions
                .filter(|other| {
                    let gone = state.removed | state.fenced;
                    gone >> chain[*other].member & 1 == 0
                })
                .find_map(|other| state.parts[operation][other].decision);
            let fetched = decision.filter(|_| self.case.replaced);
            let skipped = self.is(ModelBug::ReplacementFetchesNothing);
            state.parts[operation][place] = match fetched.filter(|_| !skipped) {
                Some(decision) => MemberPart {
                    stage: Stage::Prepared,
                    refusals: match decision {
                        ModelDecision::Abort if !self.is_side(operation, place) => 1 << place,
                        _ => 0,
                    },
                    prepare_durable: true,
                    decision: Some(decision),
                    decision_durable: true,
                    settled: true,
                    ..MemberPart::default()
                },
                None => MemberPart::default(),
            };
        }
    }
}
