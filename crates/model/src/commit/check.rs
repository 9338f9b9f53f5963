//! Checks the properties: invariants I1 to I4 in every state, and that a cluster at rest has
//! finished all operations (I5, I16).

use crate::changes::contradiction;
use crate::commit::case::MemberPlace;
use crate::commit::chain::CaseRules;
use crate::commit::resolution::SealedOutcome;
use crate::commit::state::{ModelDecision, ModelState, Stage};

impl CaseRules<'_> {
    /// Returns a description of the invariant that a state violates, if it violates one.
    pub fn broken_invariant(&self, state: &ModelState) -> Option<String> {
        if state.contradiction {
            return Some("I3: a member received two outcomes of one operation".into());
        }
        let mut wrong = (0..self.case.operations.len()).filter_map(|operation| {
            self.contradicted(state, operation)
                .or_else(|| self.unprepared(state, operation))
                .or_else(|| self.acknowledged_too_early(state, operation))
        });
        wrong.next().or_else(|| self.shared_key(state))
    }

    fn knows(&self, state: &ModelState, operation: usize, decision: ModelDecision) -> bool {
        let gone = state.removed | state.fenced;
        let places = self.case.operations[operation].places.iter();
        let mut parts = places.zip(&state.parts[operation]);
        parts.any(|(place, part)| gone >> place.member & 1 == 0 && part.decision == Some(decision))
    }

    /// Returns a violation of I2 or I3: an outcome that was seen or decided is reversed.
    fn contradicted(&self, state: &ModelState, operation: usize) -> Option<String> {
        let seen_commit = state.seen_commit >> operation & 1 != 0;
        let seen_abort = state.seen_abort >> operation & 1 != 0;
        let commit = self.knows(state, operation, ModelDecision::Commit);
        let abort = self.knows(state, operation, ModelDecision::Abort);
        let name = self.case.operations[operation].name;
        contradiction(name, (seen_commit, seen_abort), (commit, abort))
    }

    fn committed(&self, state: &ModelState, operation: usize) -> bool {
        state.seen_commit >> operation & 1 != 0
            || self.knows(state, operation, ModelDecision::Commit)
    }

    /// Returns a violation of I1: a member that serves has not prepared a committed operation, or
    /// voted no.
    fn unprepared(&self, state: &ModelState, operation: usize) -> Option<String> {
        if !self.committed(state, operation) {
            return None;
        }
        let gone = state.removed | state.fenced;
        let chain = &self.case.operations[operation];
        let mut places = (0..chain.places.len()).filter(|place| {
            let member = chain.places[*place].member;
            gone >> member & 1 == 0 && self.serves(state, member)
        });
        let place = places.find(|place| {
            let part = state.parts[operation][*place];
            part.stage != Stage::Prepared || part.refusals >> place & 1 != 0
        })?;
        let member = self.case.members[chain.places[place].member];
        Some(format!(
            "I1: {} is committed, and {member} has not voted yes",
            chain.name
        ))
    }

    /// Returns a violation of I12. An operation that was acknowledged to the client is on the disks
    /// of at least f + 1 members, or follows from the votes on these disks (R26), and every other
    /// member has prepared it durably.
    fn acknowledged_too_early(&self, state: &ModelState, operation: usize) -> Option<String> {
        let chain = &self.case.operations[operation];
        let parts = &state.parts[operation][..chain.places.len()];
        let head = parts[0];
        let acknowledged =
            head.settled && head.prepare_durable && head.decision == Some(ModelDecision::Commit);
        let changed = state.resolving || state.removed | state.fenced != 0;
        // A resolution is durable on as many members as R5 demands.
        if !acknowledged || self.case.replicated || changed || state.resolved >> operation & 1 != 0
        {
            return None;
        }
        let name = chain.name;
        if let Some(place) = parts.iter().position(|part| !part.prepare_durable) {
            let member = self.case.members[chain.places[place].member];
            return Some(format!(
                "I12: {name} is acknowledged, and not on the disk of {member}"
            ));
        }
        let knows = |place: usize| parts[place].decision_durable || self.covers(operation, place);
        let logs = (0..=self.last(operation)).filter(|place| knows(*place));
        (logs.count() <= self.case.tolerated)
            .then(|| format!("I12: f disks more, and no member knows that {name} was acknowledged"))
    }

    /// Returns a violation of I4: two committed rows share a unique key.
    fn shared_key(&self, state: &ModelState) -> Option<String> {
        let committed: Vec<usize> = (0..self.case.operations.len())
            .filter(|operation| self.committed(state, *operation))
            .collect();
        let rows = |(member, key): (usize, u8)| {
            let places = committed
                .iter()
                .flat_map(|operation| &self.case.operations[*operation].places)
                .filter(|place| place.member == member);
            let count = |keys: fn(&MemberPlace) -> u8| {
                let places = places.clone();
                places.filter(|place| keys(place) & key != 0).count()
            };
            let (takers, givers) = (count(|place| place.takes), count(|place| place.gives_up));
            let before = usize::from(takers > 0 && self.case.occupied & key != 0);
            before + takers - givers.min(before + takers)
        };
        let mut keys = (0..self.case.members.len())
            .flat_map(|member| (0..u8::BITS).map(move |bit| (member, 1 << bit)));
        let shared = keys.any(|key| rows(key) > 1);
        shared.then(|| "I4: two committed rows have one unique key".into())
    }

    /// Returns a description of the work that is unfinished in a state in which only faults can
    /// still happen.
    pub fn unfinished(&self, state: &ModelState) -> Option<String> {
        if state.resolving {
            return self.wrongly_stuck(state);
        }
        let recovering = self.remaining(state).find(|member| {
            let member = state.members[*member];
            member.recovering || !member.up
        });
        if let Some(member) = recovering {
            let name = self.case.members[member];
            return Some(format!("I16: the restart of {name} never ends"));
        }
        let gone = state.removed | state.fenced;
        (0..self.case.operations.len()).find_map(|operation| {
            let chain = &self.case.operations[operation];
            let present = (0..chain.places.len())
                .filter(|place| gone >> chain.places[*place].member & 1 == 0);
            let mut parts = present.map(|place| state.parts[operation][place]);
            let first = parts.next()?;
            let finished = |part: &crate::commit::state::MemberPart| match first.stage {
                Stage::None => part.stage == Stage::None,
                _ => part.settled && part.decision == first.decision,
            };
            let all = finished(&first) && parts.all(|part| finished(&part));
            (!all).then(|| format!("I5, I16: {} is never finished everywhere", chain.name))
        })
    }

    /// Returns a violation if a resolution is stuck although at most f members of the chain are
    /// lost.
    fn wrongly_stuck(&self, state: &ModelState) -> Option<String> {
        let gone = state.removed | state.fenced;
        (0..self.case.operations.len()).find_map(|operation| {
            let places = &self.case.operations[operation].places;
            let lost = places[..=self.last(operation)].iter().filter(|place| {
                gone >> place.member & 1 != 0 || state.members[place.member].recovering
            });
            let tolerable = lost.count() <= self.case.tolerated;
            let stuck = self.outcome(state, operation) == SealedOutcome::Stuck;
            (tolerable && (stuck || !self.any_stuck(state)))
                .then(|| "I16: a resolution is stuck although no more than f are lost".into())
        })
    }

    fn any_stuck(&self, state: &ModelState) -> bool {
        let mut operations = 0..self.case.operations.len();
        operations.any(|operation| self.outcome(state, operation) == SealedOutcome::Stuck)
    }
}
