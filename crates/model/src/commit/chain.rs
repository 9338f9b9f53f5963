//! Models the path of an operation down the chain, and of its decision back up (Replex section 2.3,
//! R1-R3, R8), as `machines/src/core/` implements it.
//!
//! The model merges several steps into one. A message that would only make its receiver repeat
//! another message is not sent: the other message is sent instead. All keys of an operation at one
//! member are acquired together, and any waiting operation may be next. A record becomes durable
//! only if a step waits for it. Other records matter only to a crash, which keeps any of them.

use crate::commit::case::Case;
use crate::commit::planted::ModelBug;
use crate::commit::state::{
    AnnouncedOutcome, MemberPart, MessageContent, ModelDecision, ModelMessage, ModelState, Stage,
};

/// The model of commit for one small cluster: its possible steps, and the invariants to check. With
/// `bug`, the model breaks one rule of docs/rules.md.
#[derive(Clone, Debug)]
pub struct CaseRules<'a> {
    /// The cluster, and the events that may happen in it.
    pub case: &'a Case,
    /// The planted bug.
    pub bug: Option<ModelBug>,
    /// By member: the operations in which it takes part, and its index in the chain of each.
    parts: Vec<Vec<(usize, usize)>>,
}

/// Whether a receiver accepts a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Now,
    /// The message is accepted once the receiver has learnt of the epoch.
    Later,
    Never,
}

impl<'a> CaseRules<'a> {
    /// Returns the rules of `case`, with `bug` planted.
    pub fn new(case: &'a Case, bug: Option<ModelBug>) -> CaseRules<'a> {
        let parts = |member| {
            let parts = (0..case.operations.len()).filter_map(|operation| {
                let place = case.place_of(operation, member)?;
                Some((operation, place))
            });
            parts.collect()
        };
        let parts = (0..case.members.len()).map(parts).collect();
        CaseRules { case, bug, parts }
    }

    /// Returns whether this bug is planted.
    pub fn is(&self, bug: ModelBug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns the member at an index in an operation's chain.
    pub fn member(&self, operation: usize, place: usize) -> usize {
        self.case.operations[operation].places[place].member
    }

    /// Returns the index of the decider, the last in an operation's chain.
    pub fn last(&self, operation: usize) -> usize {
        let operation = &self.case.operations[operation];
        operation.places.len() - operation.sides - 1
    }

    /// Returns the operations in which a member takes part, each with the member's index in the
    /// chain.
    pub fn parts_of(&self, member: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.parts[member].iter().copied()
    }

    /// Returns whether a member handles messages, votes and decides. A member that has sealed the
    /// earlier epochs does not until the new epoch serves (R16).
    pub fn acts(&self, state: &ModelState, member: usize) -> bool {
        let member = state.members[member];
        member.up && (!member.sealed || self.is(ModelBug::SealedMemberGoesOn))
    }

    /// Returns whether a member answers clients.
    pub fn serves(&self, state: &ModelState, member: usize) -> bool {
        self.acts(state, member) && !state.members[member].recovering
    }

    /// Returns whether a member accepts a message of this epoch (R15).
    pub fn accepts(&self, state: &ModelState, member: usize, epoch: u8) -> bool {
        self.acts(state, member) && self.reach(state, member, epoch) == Reach::Now
    }

    fn reach(&self, state: &ModelState, to: usize, epoch: u8) -> Reach {
        let receiver = state.members[to];
        if !receiver.up {
            return Reach::Never;
        }
        if receiver.sealed {
            let goes_on = self.is(ModelBug::SealedMemberGoesOn) && epoch + 1 == receiver.epoch;
            return if goes_on { Reach::Now } else { Reach::Never };
        }
        match receiver.epoch.cmp(&epoch) {
            std::cmp::Ordering::Less => Reach::Later,
            std::cmp::Ordering::Equal => Reach::Now,
            std::cmp::Ordering::Greater if self.is(ModelBug::OldEpochsAccepted) => Reach::Now,
            std::cmp::Ordering::Greater => Reach::Never,
        }
    }

    /// Drops messages that no member will accept in any later state.
    pub fn drop_dead_messages(&self, state: &mut ModelState) {
        let before = *state;
        state.messages.retain(|message| {
            let to = self.member(message.operation, message.to);
            self.reach(&before, to, message.epoch) != Reach::Never
        });
    }

    /// Returns whether a member accepts a message of this epoch, now or in a later state.
    pub fn can_reach(&self, state: &ModelState, to: usize, epoch: u8) -> bool {
        self.reach(state, to, epoch) != Reach::Never
    }

    /// Returns the epoch of the messages that a member sends.
    pub fn sending_epoch(&self, state: &ModelState, member: usize) -> u8 {
        let member = state.members[member];
        // Only a planted bug lets a sealed member speak: as if it had not sealed.
        member.epoch.saturating_sub(u8::from(member.sealed))
    }

    /// Begins the client's request at the head.
    pub fn begin(&self, state: &mut ModelState, operation: usize) -> bool {
        let head = self.member(operation, 0);
        let mut chain = self.case.operations[operation].places.iter();
        let gone = chain.any(|place| state.fenced >> place.member & 1 != 0);
        let begun = state.begun >> operation & 1 != 0;
        if begun || gone || !self.serves(state, head) || !self.is_free(state, operation, 0) {
            return false;
        }
        state.begun |= 1 << operation;
        self.cast(state, operation, 0, 0);
        true
    }

    /// Delivers a message to its receiver.
    pub fn deliver(&self, state: &mut ModelState, message: ModelMessage) -> bool {
        let ModelMessage {
            operation,
            to,
            epoch,
            ..
        } = message;
        let member = self.member(operation, to);
        if !self.accepts(state, member, epoch) {
            return false;
        }
        state.messages.remove(message);
        match message.content {
            MessageContent::Prepare { refusals } => self.on_prepare(state, operation, to, refusals),
            MessageContent::Decision { decision, settled } => {
                self.on_decision(
                    state,
                    operation,
                    to,
                    AnnouncedOutcome::in_order(decision, settled),
                );
            }
            MessageContent::Report { side } => self.on_report(state, operation, side),
            MessageContent::Confirm { settled } => {
                let part = state.parts[operation][to];
                if part.decision.is_some() && settled && !part.settled {
                    self.settle(state, operation, to);
                }
                self.ask_below(state, operation, to);
            }
        }
        true
    }

    fn on_prepare(&self, state: &mut ModelState, operation: usize, place: usize, refusals: u8) {
        let part = state.parts[operation][place];
        if place == self.last(operation) {
            self.note_came_down(state, operation);
        }
        match part.stage {
            Stage::Prepared if self.is(ModelBug::VoteChanges) && part.decision.is_none() => {
                state.parts[operation][place] = MemberPart::default();
                self.on_prepare(state, operation, place, refusals);
            }
            Stage::Prepared => self.repeat(state, operation, place),
            Stage::Waiting => {}
            // A core that may have forgotten votes gives no new ones; the head sends again.
            Stage::None if state.members[self.member(operation, place)].recovering => {}
            Stage::None if !self.case.lookups && self.is_free(state, operation, place) => {
                self.cast(state, operation, place, refusals);
            }
            Stage::None => {
                state.parts[operation][place] = MemberPart {
                    stage: Stage::Waiting,
                    refusals,
                    ..MemberPart::default()
                };
            }
        }
    }

    /// Returns whether no other operation holds a key that this one needs here (R7).
    fn is_free(&self, state: &ModelState, operation: usize, place: usize) -> bool {
        let wanted = &self.case.operations[operation].places[place];
        let mut others = self.parts_of(wanted.member);
        self.is(ModelBug::ConflictDoesNotWait)
            || self.is(ModelBug::DuplicateOfPending)
            || !others.any(|(other, at)| {
                let part = state.parts[other][at];
                let holds = self.case.operations[other].places[at].holds;
                other != operation
                    && part.stage == Stage::Prepared
                    && !part.settled
                    && part.refusals >> at & 1 == 0
                    && holds & wanted.holds != 0
            })
    }

    /// Returns whether a row with one of the keys exists, past its commit point (R8); and the
    /// operations whose rows these are, as a set.
    fn is_occupied(&self, state: &ModelState, operation: usize, place: usize) -> (bool, u8) {
        let wanted = &self.case.operations[operation].places[place];
        let mut rows_of = 0;
        let mut rows = |key: u8| {
            let mut count = i32::from(self.case.occupied & key != 0);
            for (other, at) in self
                .parts_of(wanted.member)
                .filter(|part| part.0 != operation)
            {
                let part = state.parts[other][at];
                let committed = part.settled && part.decision == Some(ModelDecision::Commit);
                let pending = part.stage == Stage::Prepared && !part.settled;
                if committed || pending && self.is(ModelBug::DuplicateOfPending) {
                    let keys = &self.case.operations[other].places[at];
                    count += i32::from(keys.takes & key != 0) - i32::from(keys.gives_up & key != 0);
                    rows_of |= u8::from(keys.takes & key != 0) << other;
                }
            }
            count
        };
        let mut keys = (0..u8::BITS).map(|bit| 1 << bit);
        let occupied = keys.any(|key| wanted.takes & key != 0 && rows(key) > 0);
        (occupied, rows_of)
    }

    /// Votes on an operation that has acquired its keys after a wait.
    pub fn vote(&self, state: &mut ModelState, operation: usize, place: usize) -> bool {
        let part = state.parts[operation][place];
        let member = self.member(operation, place);
        let waits = part.stage == Stage::Waiting && self.acts(state, member);
        if !waits || !self.is_free(state, operation, place) {
            return false;
        }
        self.cast(state, operation, place, part.refusals);
        true
    }

    /// Ends a wait that has lasted too long with the vote `Conflict` (R8).
    pub fn give_up(&self, state: &mut ModelState, operation: usize, place: usize) -> bool {
        let part = state.parts[operation][place];
        let member = self.member(operation, place);
        let waits = part.stage == Stage::Waiting && self.acts(state, member);
        let replex = self.case.operations[operation].places[place].replex;
        // No member beyond k votes no, not even to end a wait (R3).
        let may_refuse = replex <= self.case.last_voter || self.is(ModelBug::RefusesBeyondVoters);
        if !waits || state.conflicts_left == 0 || !may_refuse {
            return false;
        }
        state.conflicts_left -= 1;
        self.log_vote(state, operation, place, part.refusals | 1 << place);
        true
    }

    /// Votes no if a row with one of the operation's unique keys exists, otherwise yes, and logs
    /// the vote.
    fn cast(&self, state: &mut ModelState, operation: usize, place: usize, refusals: u8) {
        let (refuses, rows_of) = self.is_occupied(state, operation, place);
        if refuses {
            // A refusal shows the client that the row is there.
            state.seen_commit |= rows_of;
        }
        let own = &self.case.operations[operation].places[place];
        for (other, at) in self.parts_of(own.member).filter(|part| part.0 != operation) {
            let keys = self.case.operations[other].places[at].holds;
            let part = state.parts[other][at];
            // A vote that relies on an abort has seen it (R3).
            if keys & own.takes != 0 && part.settled && part.decision == Some(ModelDecision::Abort)
            {
                state.seen_abort |= 1 << other;
            }
        }
        let refusals = refusals | u8::from(refuses) << place;
        self.log_vote(state, operation, place, refusals);
    }

    /// Logs the vote and forwards the prepare, before the disk has it (R1).
    fn log_vote(&self, state: &mut ModelState, operation: usize, place: usize, refusals: u8) {
        state.parts[operation][place] = MemberPart {
            stage: Stage::Prepared,
            refusals,
            ..MemberPart::default()
        };
        if self.is_side(operation, place) {
            self.report_to_decider(state, operation, place);
        } else if place < self.last(operation) {
            self.ask_below(state, operation, place);
        } else if self.case.replicated || self.is(ModelBug::DecisionBeforeDurable) {
            self.decide(state, operation);
        }
    }

    /// Decides an operation by the AND of all votes (R2).
    pub fn decide(&self, state: &mut ModelState, operation: usize) {
        if !self.have_reported(state, operation) {
            return;
        }
        let last = self.last(operation);
        let mut refusals = state.parts[operation][last].refusals;
        if self.is(ModelBug::VotesIgnored) {
            refusals &= 1 << last;
        }
        let decision = match refusals {
            0 => ModelDecision::Commit,
            _ => ModelDecision::Abort,
        };
        self.on_decision(
            state,
            operation,
            last,
            AnnouncedOutcome::in_order(decision, false),
        );
    }

    /// Handles the outcome at a member.
    pub fn on_decision(
        &self,
        state: &mut ModelState,
        operation: usize,
        place: usize,
        announced: AnnouncedOutcome,
    ) {
        let recovering = state.members[self.member(operation, place)].recovering;
        let part = &mut state.parts[operation][place];
        // A side member takes only an outcome that clients may see.
        let waits = self.is_side(operation, place) && !announced.settled;
        if part.stage != Stage::Prepared || waits {
            return;
        }
        let known = part
            .decision
            .or(part.received.map(|received| received.decision));
        state.contradiction |= known.is_some_and(|known| known != announced.decision);
        if recovering {
            let before = part.received.unwrap_or(announced);
            part.received = Some(AnnouncedOutcome {
                decision: before.decision,
                settled: before.settled || announced.settled,
                in_order: before.in_order || announced.in_order,
            });
            return;
        }
        let known_in_order = part.decision.is_some() && !part.skipped;
        let in_order = announced.in_order || announced.settled || known_in_order;
        part.decision = part.decision.or(Some(announced.decision));
        part.skipped = self.case.replicated && !in_order && !self.case.settles_at_decision();
        let at_once = self.case.settles_at_decision()
            || self.is(ModelBug::SeenBeforeDurable)
            || self.is(ModelBug::SeenAtDecider);
        // Without disks to wait for, it is enough that all further down know it.
        let first =
            self.case.replicated && announced.in_order && self.settles_here(operation, place);
        if !part.settled && (announced.settled || at_once) {
            self.settle(state, operation, place);
        } else if !part.settled && first {
            self.settle(state, operation, place);
            self.ask_below(state, operation, place);
        }
        self.pass_up(state, operation, place);
        if place == 0 {
            self.tell_sides(state, operation);
        }
    }

    /// Settles the outcome at this member. Clients may then see it.
    pub fn settle(&self, state: &mut ModelState, operation: usize, place: usize) {
        state.parts[operation][place].settled = true;
        self.show(state, operation, place);
    }

    /// Records the outcomes that clients may have seen: a commit once a member has settled it, an
    /// abort once the client has the answer.
    pub fn show(&self, state: &mut ModelState, operation: usize, place: usize) {
        let part = state.parts[operation][place];
        if !part.settled || !self.serves(state, self.member(operation, place)) {
            return;
        }
        match part.decision {
            Some(ModelDecision::Commit) => state.seen_commit |= 1 << operation,
            _ if place == 0 && (part.prepare_durable || self.case.replicated) => {
                state.seen_abort |= 1 << operation
            }
            _ => {}
        }
    }

    /// Returns whether a step waits for a member's prepare of an operation to be durable, and
    /// whether a step waits for its decision, which comes after the prepare in the log.
    fn waits_for_disk(&self, state: &ModelState, operation: usize, place: usize) -> (bool, bool) {
        let part = state.parts[operation][place];
        if part.decision.is_none() {
            let waits = part.stage == Stage::Prepared && place >= self.last(operation);
            return (waits && !self.case.replicated, false);
        }
        let sealed = state.members[self.member(operation, place)].sealed;
        let settles = self.settles_here(operation, place) && !part.settled;
        let with_prepare = MemberPart {
            prepare_durable: true,
            ..part
        };
        let passes = self.may_pass(&with_prepare, operation, place);
        let answers = place == 0 && part.settled;
        let waits = answers || !self.may_pass(&part, operation, place);
        (waits, sealed || settles || !passes)
    }

    /// Makes the record durable that an operation at a member waits for.
    pub fn flush(&self, state: &mut ModelState, member: usize, operation: usize) -> bool {
        let Some(place) = self.case.place_of(operation, member) else {
            return false;
        };
        let before = state.parts[operation][place];
        let passed = self.may_pass(&before, operation, place);
        let (prepare, decision) = self.waits_for_disk(state, operation, place);
        let part = &mut state.parts[operation][place];
        part.prepare_durable |= prepare || decision;
        part.decision_durable |= decision;
        if !state.members[member].up || *part == before {
            return false;
        }
        if self.acts(state, member) {
            self.on_durable(state, operation, place, passed);
        }
        true
    }

    /// Continues the steps that waited for the disk: the decider decides, clients may see an
    /// outcome at position x, or the decision is sent up.
    pub fn on_durable(&self, state: &mut ModelState, operation: usize, place: usize, passed: bool) {
        let part = state.parts[operation][place];
        match part.decision {
            None if self.is_side(operation, place) => {
                self.report_to_decider(state, operation, place);
            }
            None if place == self.last(operation) && !self.case.replicated => {
                self.decide(state, operation);
            }
            None => {}
            Some(_) => {
                let on_disk = !self.case.replicated || self.is(ModelBug::SettlesFromDisk);
                if !part.settled && on_disk && self.settles_here(operation, place) {
                    self.settle(state, operation, place);
                    self.ask_below(state, operation, place);
                }
                self.show(state, operation, place);
                if !passed {
                    self.pass_up(state, operation, place);
                }
                if place == 0 {
                    self.tell_sides(state, operation);
                }
            }
        }
    }

    /// Returns whether the outcome becomes visible when this member's decision is durable.
    fn settles_here(&self, operation: usize, place: usize) -> bool {
        let x = self.case.settle_position();
        let places = &self.case.operations[operation].places;
        let before = place
            .checked_sub(1)
            .map_or(0, |before| places[before].replex);
        !self.case.settles_at_decision() && places[place].replex == x && before < x
    }

    /// Returns whether the chain up to this index includes all members that can vote no (R3).
    pub fn covers(&self, operation: usize, place: usize) -> bool {
        let places = &self.case.operations[operation].places;
        let next = places[..=self.last(operation)].get(place + 1);
        !self.is_side(operation, place)
            && next.is_none_or(|next| next.replex > self.case.last_voter)
    }

    /// Returns whether this member may send a decision up (R1, R3). If the decision needs a durable
    /// record, every member up to x must have one first, and so must every further member whose
    /// votes do not imply the decision: of f + 1 logs, one has the outcome (R26).
    pub fn may_pass(&self, part: &MemberPart, operation: usize, place: usize) -> bool {
        if part.decision.is_none() {
            return false;
        }
        let replex = self.case.operations[operation].places[place].replex;
        let implied = self.covers(operation, place) || self.is(ModelBug::DurableAtOneOnly);
        if self.case.replicated || self.is(ModelBug::DecisionOvertakesPrepare) {
            true
        } else if !part.settled && (replex <= self.case.settle_position() || !implied) {
            part.decision_durable
        } else {
            part.prepare_durable
        }
    }

    /// Returns the chain index of the nearest member in one direction that has not been removed for
    /// good; none if there is none.
    fn beside(
        &self,
        state: &ModelState,
        operation: usize,
        place: usize,
        up: bool,
    ) -> Option<usize> {
        let exists = |place: &usize| state.fenced >> self.member(operation, *place) & 1 == 0;
        if up {
            (0..place).rev().find(exists)
        } else {
            (place + 1..=self.last(operation)).find(exists)
        }
    }

    /// Sends the decision to the previous member, if the decision may pass this one. A decision
    /// that has skipped later members goes no further.
    pub fn pass_up(&self, state: &mut ModelState, operation: usize, place: usize) {
        let part = state.parts[operation][place];
        if self.is_side(operation, place) || self.has_skipped(&part) {
            return;
        }
        let Some(decision) = part
            .decision
            .filter(|_| self.may_pass(&part, operation, place))
        else {
            return;
        };
        let Some(above) = self.beside(state, operation, place, true) else {
            return;
        };
        let settled = part.settled || self.settles_here(operation, place) && !self.case.replicated;
        let epoch = self.sending_epoch(state, self.member(operation, place));
        let message = ModelMessage {
            operation,
            to: above,
            epoch,
            content: MessageContent::Decision { decision, settled },
        };
        let receiver = state.parts[operation][above];
        let settles = settled || self.case.replicated && self.settles_here(operation, above);
        match self.reach(state, self.member(operation, above), epoch) {
            Reach::Never => {}
            Reach::Later => {
                state.messages.insert(message);
            }
            Reach::Now if receiver.stage != Stage::Prepared => {}
            Reach::Now
                if receiver.decision == Some(decision)
                    && !receiver.skipped
                    && (receiver.settled || !settles) =>
            {
                self.pass_up(state, operation, above);
            }
            Reach::Now => {
                state.messages.insert(message);
            }
        }
    }

    /// Returns whether a member's decision has skipped later members, and is not settled.
    fn has_skipped(&self, part: &MemberPart) -> bool {
        part.skipped && !part.settled && !self.is(ModelBug::SkippedGoesUp)
    }

    /// Handles a repeated prepare: sends the same answer again. A decider that has lost its
    /// decision with its memory decides again, because the prepare has passed all members again.
    fn repeat(&self, state: &mut ModelState, operation: usize, place: usize) {
        if self.is_side(operation, place) {
            self.report_to_decider(state, operation, place);
        } else if self.has_skipped(&state.parts[operation][place]) {
            self.ask_below(state, operation, place);
        } else if state.parts[operation][place].decision.is_some() {
            self.pass_up(state, operation, place);
        } else if place < self.last(operation) {
            self.ask_below(state, operation, place);
        } else if self.case.replicated {
            self.decide(state, operation);
        }
    }

    /// Resends the head's unanswered messages.
    pub fn resend(&self, state: &mut ModelState, operation: usize) -> bool {
        if !self.acts(state, self.member(operation, 0)) {
            return false;
        }
        if self.is(ModelBug::HeadAbortsOnTimeout)
            && state.parts[operation][0].stage == Stage::Prepared
            && state.parts[operation][0].decision.is_none()
        {
            let abort = AnnouncedOutcome::in_order(ModelDecision::Abort, true);
            self.on_decision(state, operation, 0, abort);
            self.show(state, operation, 0);
        }
        self.ask_below(state, operation, 0);
        true
    }

    /// Asks the next member for its vote; if this member has the decision, asks whether the next
    /// one knows the outcome.
    pub fn ask_below(&self, state: &mut ModelState, operation: usize, place: usize) {
        if place == 0 {
            self.tell_sides(state, operation);
        }
        let part = state.parts[operation][place];
        let undecided = part.decision.is_none();
        let below = match undecided {
            true => Some(place + 1).filter(|below| *below <= self.last(operation)),
            false => self.beside(state, operation, place, false),
        };
        let (Some(below), Stage::Prepared) = (below, part.stage) else {
            return;
        };
        let content = if undecided {
            MessageContent::Prepare {
                refusals: part.refusals,
            }
        } else {
            MessageContent::Confirm {
                settled: part.settled,
            }
        };
        let epoch = self.sending_epoch(state, self.member(operation, place));
        let receiver = self.member(operation, below);
        let message = ModelMessage {
            operation,
            to: below,
            epoch,
            content,
        };
        match self.reach(state, receiver, epoch) {
            Reach::Never => {}
            Reach::Later => {
                state.messages.insert(message);
            }
            Reach::Now => self.ask(state, part.settled, message),
        }
    }

    /// Sends a prepare or a confirmation to a member that accepts it now. If the member would only
    /// send another message in turn, sends that message instead.
    fn ask(&self, state: &mut ModelState, settled: bool, message: ModelMessage) {
        let ModelMessage { operation, to, .. } = message;
        let asked = state.parts[operation][to];
        let undecided = matches!(message.content, MessageContent::Prepare { .. });
        let last = to == self.last(operation);
        let decides = self.case.replicated && last && asked.decision.is_none();
        match (undecided, asked.stage) {
            (_, Stage::Waiting) | (false, Stage::None) => {}
            (true, Stage::None) if state.members[self.member(operation, to)].recovering => {}
            (true, Stage::Prepared) if !self.is(ModelBug::VoteChanges) && !decides => {
                self.repeat(state, operation, to);
            }
            (false, Stage::Prepared) if asked.decision.is_none() || asked.settled || !settled => {
                // The asker has the decision, and does not know that it may be seen.
                if !settled && (asked.settled || self.case.replicated) {
                    self.pass_up(state, operation, to);
                }
                self.ask_below(state, operation, to);
            }
            _ => {
                state.messages.insert(message);
            }
        }
    }
}
