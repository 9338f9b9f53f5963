//! The state of one operation at one partition of its chain.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use placement::Durability;
use protocol::codec::Bytes;
use protocol::identity::{
    ClockReading, CoreId, Epoch, FinishedLine, OperationId, PartitionId, Position, Version,
};
use protocol::operation::{Decision, Prepare, Vote};
use protocol::planted::{self, Bug};

use crate::core::key::Key;
use crate::core::table::{PartitionEffect, TableInfo};

/// The key of a member of a chain: an operation and a partition. A core can have several members of
/// one operation.
pub(crate) type MemberKey = (OperationId, PartitionId);

/// Returns the range of the members of a head's operations before its line `below`.
pub(crate) fn members_below(head: CoreId, below: FinishedLine) -> Range<MemberKey> {
    let first = OperationId {
        head,
        ..OperationId::default()
    };
    let beyond = OperationId {
        head,
        incarnation: below.incarnation,
        sequence: below.sequence,
    };
    (first, PartitionId::default())..(beyond, PartitionId::default())
}

/// One partition's part in one operation. Its state goes from *arrived* over *prepared* and
/// *decided* to *settled*, and never back.
#[derive(Debug)]
pub(crate) struct Member {
    /// The prepare as it arrived. Once this member has voted, it includes the member's vote.
    pub prepare: Arc<Prepare>,
    pub table: Arc<TableInfo>,
    /// The index in the prepare's members, from 0: the position in the chain, or that of a side
    /// member after it.
    pub place: usize,
    /// The effect of each change on this partition.
    pub effects: Vec<PartitionEffect>,
    /// The keys to hold, in order (R7).
    pub held: Vec<Key>,
    /// How many of these keys the member holds: the first ones.
    granted: usize,
    /// The time when the prepare arrived, on the monotonic clock.
    pub since_us: u64,
    /// The time at which a head sends the prepare again. The next value is the interval to the time
    /// after that.
    pub retry_due_us: u64,
    pub retry_us: u64,
    /// Whether the rows of a cover that the vote needs have arrived (R18).
    pub has_fetched: bool,
    /// Whether the prepare has come down the chain since this core started. Then all earlier
    /// members have it. A prepare that was adopted with implied votes does not show that.
    came_down: bool,
    /// The position of the prepare's record. Set by the vote, which never changes (R1).
    prepared_at: Option<Position>,
    /// Set only after the member is prepared.
    decision: Option<Decision>,
    /// Whether the decision has come up the chain in this life of the core, so that all later
    /// members have it.
    in_order: bool,
    /// The position of the decision's record; meaningful once there is a decision.
    decided_at: Position,
    /// Whether the decision is durable at position x (R3), so that readers may see it.
    settled: bool,
    /// Whether the member could be settled if an earlier operation on one of its keys were settled.
    settle_waits: bool,
    /// All later members of the chain have settled the outcome, and have it durably.
    pub next_durable: bool,
    /// At the head: the side members that have settled the outcome, and have it durably, as a set.
    pub sides_durable: u64,
    /// This member has confirmed that it and all later members have the outcome durably.
    confirmed: bool,
    /// The epoch of the resolution that made the decision, if a resolution made it.
    resolved_in: Option<Epoch>,
}

/// A decision, as a member receives it.
#[derive(Clone, Debug)]
pub(crate) struct IncomingDecision {
    pub decision: Decision,
    /// The decision is durable at position x, so readers may see it (R3).
    pub settled: bool,
    /// The decision came up the chain, so all later members have it. A report to a restarted core
    /// can skip members.
    pub in_order: bool,
}

impl Member {
    /// Returns a new member for one index in the chain.
    pub fn new(
        prepare: Arc<Prepare>,
        table: Arc<TableInfo>,
        place: usize,
        now: ClockReading,
    ) -> Member {
        let partition = prepare.members[place];
        let mut held = Vec::with_capacity(prepare.changes.len());
        let changes = prepare.changes.iter();
        let effects = changes.map(|change| table.part(partition, change, &mut held));
        let effects = effects.collect();
        if let Some(part) = &prepare.transaction {
            held.extend(part.still.iter().map(|pk| Key::from(&pk[..])));
        }
        held.sort_unstable();
        held.dedup();
        Member {
            prepare,
            table,
            place,
            effects,
            held,
            granted: 0,
            since_us: now.monotonic_us,
            retry_due_us: 0,
            retry_us: 0,
            has_fetched: false,
            came_down: false,
            prepared_at: None,
            decision: None,
            in_order: false,
            decided_at: Position(0),
            settled: false,
            settle_waits: false,
            next_durable: false,
            sides_durable: 0,
            confirmed: false,
            resolved_in: None,
        }
    }

    /// Returns the number of keys that the operation holds at this member.
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// Records that the operation has acquired the next keys.
    pub fn grant(&mut self, count: usize) {
        self.granted += count;
    }

    /// Records that the operation held all of its keys before a restart.
    pub fn grant_all(&mut self) {
        self.granted = self.held.len();
    }

    /// Casts this partition's vote. A side member has none.
    pub fn vote(&mut self, vote: Vote) {
        if self.is_side() {
            return;
        }
        let is_transaction = self.is_transaction();
        let prepare = Arc::make_mut(&mut self.prepare);
        if is_transaction {
            prepare.votes = alloc::vec![vote];
            return;
        }
        assert_eq!(prepare.votes.len(), self.place, "votes come in chain order");
        prepare.votes.push(vote);
    }

    /// Removes the vote of an undecided operation. Only a planted bug does this. Returns false if
    /// there is none.
    pub fn unvote(&mut self) -> bool {
        let forgets = self.place > 0 && self.prepared_at.is_some() && self.decision.is_none();
        if forgets {
            Arc::make_mut(&mut self.prepare).votes.truncate(self.place);
            self.prepared_at = None;
        }
        forgets
    }

    /// Records that the prepare has come down the chain.
    pub fn come_down(&mut self) {
        self.came_down = true;
    }

    /// Returns whether all earlier members of the chain have the prepare. With `sync` the durable
    /// record of a decider shows it. With `replicated` the record may be of an adopted prepare, so
    /// the prepare must have come down the chain in this life of the core (R2).
    pub fn has_come_down(&self) -> bool {
        self.came_down || self.place == 0 || planted::is(Bug::AdoptedIsDecided)
    }

    /// Records the position of the record `Prepared`, which includes this member's vote.
    pub fn prepare_at(&mut self, position: Position) {
        assert!(self.prepared_at.is_none(), "an operation votes once");
        self.prepared_at = Some(position);
    }

    /// Returns the position of the record `Prepared`; none before the vote.
    pub fn prepared_at(&self) -> Option<Position> {
        self.prepared_at
    }

    /// Records the decision, whose record is at `position`. A resolution may replace a decision
    /// that no client can have seen.
    pub fn decide(&mut self, decision: Decision, position: Position, resolved_in: Option<Epoch>) {
        assert!(self.prepared_at.is_some(), "what is decided was prepared");
        assert!(!self.settled, "a decision that may be seen never changes");
        self.decision = Some(decision);
        self.decided_at = position;
        self.resolved_in = resolved_in;
    }

    /// Records that the decision has come up the chain.
    pub fn note_in_order(&mut self) {
        self.in_order = true;
    }

    /// Returns whether the decision may have skipped later members, with `replicated`. Position x
    /// does not settle such a decision, so the member does not pass it up either (R3).
    pub fn has_skipped(&self) -> bool {
        let settles = self.settled || self.settle_waits || self.settles_at_decision();
        let waits = self.decision.is_some() && !settles && !self.in_order;
        let in_chain = !self.is_side() && !self.is_transaction();
        waits && !self.table.sync && !self.is_decider() && in_chain
    }

    /// Returns the decision, if there is one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Returns the position of the record `Decided`. It is valid only if there is a decision.
    pub fn decided_at(&self) -> Position {
        self.decided_at
    }

    /// Returns the epoch whose resolution made the decision; none if the decider made it.
    pub fn resolved_in(&self) -> Option<Epoch> {
        self.resolved_in
    }

    /// Returns whether readers may see the operation's outcome at this member.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns whether the operation waits to settle only because of an earlier operation on one of
    /// its keys.
    pub fn settle_waits(&self) -> bool {
        self.settle_waits
    }

    /// Records that the operation must wait to settle, because an earlier operation on one of its
    /// keys is not settled.
    pub fn wait_to_settle(&mut self) {
        self.settle_waits = true;
    }

    /// Marks the operation settled at this member: readers may see the outcome from now on. Returns
    /// the decision.
    pub fn settle(&mut self) -> &Decision {
        assert!(!self.settled, "an outcome is settled once");
        self.settled = true;
        self.settle_waits = false;
        let decision = self.decision.as_ref();
        decision.expect("only a decided operation is settled")
    }

    /// Returns whether this member has confirmed that the outcome is durable at it and at all later
    /// members.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Records that this member has confirmed the outcome.
    pub fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// Makes the member confirm the outcome again after a restart, because the confirmation may not
    /// have been sent.
    pub fn confirm_again(&mut self) {
        self.confirmed = false;
    }

    pub fn partition(&self) -> PartitionId {
        self.prepare.members[self.place]
    }

    /// Returns whether this is a member of a transaction, which is in no chain (R40).
    pub fn is_transaction(&self) -> bool {
        self.prepare.transaction.is_some()
    }

    /// Returns whether this is a side member: a partition of a thin index.
    pub fn is_side(&self) -> bool {
        self.prepare.side.is_some()
    }

    /// Returns the prepare for a side member, from the head's.
    pub fn prepare_of_side(&self, side: u8) -> Prepare {
        let mut prepare = Prepare::clone(&self.prepare);
        prepare.votes.truncate(1);
        prepare.side = Some(side);
        prepare
    }

    /// Returns whether the outcome is durable at all members to which this one passes messages.
    pub fn others_durable(&self) -> bool {
        let all_sides = match self.place {
            0 => (1 << self.prepare.sides) - 1,
            _ => 0,
        };
        self.below_durable() && self.sides_durable == all_sides
    }

    /// Returns whether all later members of the chain have the outcome durably.
    fn below_durable(&self) -> bool {
        self.next().is_none() || self.next_durable
    }

    /// Returns whether this member has the decision, and all later members of the chain have it
    /// durably.
    pub fn chain_durable(&self) -> bool {
        self.decision.is_some() && self.below_durable()
    }

    /// Returns the position of the partition's replex, counted from 1, as k and x are (R3).
    pub fn replex_position(&self) -> usize {
        self.table.position(self.partition())
    }

    /// Returns whether the member may vote no. Members after position k only confirm that they have
    /// the operation, so a member that has lost such a vote gives the same again (R3).
    pub fn may_refuse(&self) -> bool {
        let is_voter = self.replex_position() <= self.table.last_voter;
        self.is_transaction() || !self.is_side() && is_voter
    }

    pub fn is_decider(&self) -> bool {
        !self.is_transaction() && self.place + 1 == self.prepare.chain().len()
    }

    /// Returns the previous member of the chain; none at the head and at side members.
    pub fn previous(&self) -> Option<PartitionId> {
        if self.is_transaction() {
            return None;
        }
        let chain = self.prepare.chain();
        let previous = self.place.checked_sub(1)?;
        chain.get(previous).copied().filter(|_| !self.is_side())
    }

    /// Returns the member to which this one confirms that the outcome is durable: the previous one,
    /// or the head for a side member.
    pub fn confirms_to(&self) -> Option<PartitionId> {
        match self.is_side() {
            true => Some(self.prepare.members[0]),
            false => self.previous(),
        }
    }

    /// Returns the next member of the chain; none at the decider and at side members.
    pub fn next(&self) -> Option<PartitionId> {
        if self.is_transaction() {
            return None;
        }
        self.prepare.chain().get(self.place + 1).copied()
    }

    /// Returns whether the outcome may be visible as soon as the member has the decision, without a
    /// durable record `Decided`.
    pub fn settles_at_decision(&self) -> bool {
        !self.is_transaction() && self.table.settles_at_decision()
    }

    /// Returns the position that must be durable before the decision may pass up (R1). At a member
    /// that waits for position x, the position that must be durable before readers may see the
    /// outcome (R3).
    pub fn decision_after(&self) -> Position {
        if !self.table.sync || planted::is(Bug::DecisionOvertakesPrepare) {
            return Position(0);
        }
        let settled = self.settled || self.settle_waits;
        if !settled && self.decision_is_news() {
            return self.decided_at;
        }
        self.prepared_at.expect("what is decided was prepared")
    }

    /// Returns whether the decision says more than the durable prepare of this member. It does at
    /// position x, where it must be durable before any client may see it (R3), and between x and k,
    /// where the votes in the prepare do not imply it. So any n − f disks together have it (R26).
    pub fn decision_is_news(&self) -> bool {
        let position = self.replex_position();
        let x = self.table.settle_position;
        if self.is_side() {
            return false;
        }
        let implied = position >= self.table.last_voter;
        !self.settles_at_decision() && (position <= x || !implied)
    }

    /// Returns whether this member's durable decision settles the operation.
    pub fn settles_here(&self) -> bool {
        let x = self.table.settle_position;
        let before = self
            .previous()
            .map_or(0, |partition| self.table.position(partition));
        let in_chain = !self.is_side() && !self.is_transaction();
        in_chain && self.replex_position() == x && before < x
    }

    /// Returns how soon the record `Decided` must be on disk. At a member where the decision says
    /// more than the prepares, a client waits for it. At other members it follows from durable
    /// prepares, so the record can wait for the next flush. A flush of its own would delay the next
    /// operation's prepare.
    pub fn decision_durability(&self) -> Durability {
        if self.replex_position() >= self.table.settle_position && self.decision_is_news() {
            self.table.durability()
        } else {
            Durability::Replicated
        }
    }

    /// Returns the lowest version of the operation's changes.
    pub fn oldest_version(&self) -> Version {
        let versions = self.prepare.changes.iter().map(|change| change.version);
        versions.min().unwrap_or_default()
    }

    /// Returns whether this operation has changed a row after the other one. Versions of different
    /// rows say nothing about the order of their operations: they come from different heads (R6).
    pub fn follows(&self, other: &Member) -> bool {
        if planted::is(Bug::WholeOperationsCompared) {
            let newest = |it: &Member| it.prepare.changes.iter().map(|it| it.version).max();
            return newest(other) < newest(self);
        }
        let theirs = other.prepare.changes.iter();
        let theirs: BTreeMap<&Bytes, Version> = theirs.map(|it| (&it.pk, it.version)).collect();
        let mut ours = self.prepare.changes.iter();
        ours.any(|it| {
            theirs
                .get(&it.pk)
                .is_some_and(|version| *version < it.version)
        })
    }
}
