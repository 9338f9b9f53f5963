//! One partition's part in one operation.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use protocol::identity::{ClockReading, Epoch, OperationId, PartitionId, Position, Version};
use protocol::operation::{Decision, Prepare, Vote};
use protocol::planted::{self, Bug};

use crate::core::table::{PartitionEffect, TableInfo};

/// A member of an operation's chain: a core can hold several.
pub(crate) type MemberKey = (OperationId, PartitionId);

/// One partition's part in one operation. It goes from *arrived* over *prepared* and *decided* to
/// *settled*, and never back.
#[derive(Debug)]
pub(crate) struct Member {
    /// As it came; with this partition's vote once that is cast.
    pub prepare: Arc<Prepare>,
    pub table: Arc<TableInfo>,
    /// Position in the chain, from 0.
    pub place: usize,
    /// By change.
    pub effects: Vec<PartitionEffect>,
    /// Keys to hold, in order (R7).
    pub held: Vec<Vec<u8>>,
    /// How many of them are held: the first ones.
    granted: usize,
    /// When it arrived, on the monotonic clock.
    pub since_us: u64,
    /// When a head sends it again, and the interval until the time after that.
    pub retry_due_us: u64,
    pub retry_us: u64,
    /// The rows of a cover that its vote needs are here (R18).
    pub has_fetched: bool,
    /// The prepare's record. Set by the vote, which never changes (R1).
    prepared_at: Option<Position>,
    /// Only what is prepared is decided.
    decision: Option<Decision>,
    /// The decision's record; meaningful once there is a decision.
    decided_at: Position,
    /// The decision is durable at position x: visible (R3). Only what is decided is settled.
    settled: bool,
    /// It could be settled, but an earlier operation on a key of it is not.
    settle_waits: bool,
    /// Everything after it in the chain is durable and settled.
    pub next_durable: bool,
    /// So is this one, and it has confirmed that.
    confirmed: bool,
    /// Its decision comes from the resolution of an epoch's end: the epoch in which that was made.
    resolved_in: Option<Epoch>,
}

/// A decision, as a member receives it.
#[derive(Clone, Debug)]
pub(crate) struct IncomingDecision {
    pub decision: Decision,
    /// It is durable at position x: it may be seen (R3).
    pub settled: bool,
    /// It came up the chain, so that all members after this one have it.
    pub in_order: bool,
}

impl Member {
    /// Returns one that has just arrived at its place in the chain.
    pub fn new(
        prepare: Arc<Prepare>,
        table: Arc<TableInfo>,
        place: usize,
        now: ClockReading,
    ) -> Member {
        let partition = prepare.chain[place];
        let changes = prepare.changes.iter();
        let parts = changes.map(|change| table.part(partition, change));
        let (effects, held): (Vec<_>, Vec<_>) = parts.unzip();
        let held = match <[_; 1]>::try_from(held) {
            Ok([held]) => held,
            Err(several) => {
                let mut held = several.concat();
                held.sort_unstable();
                held.dedup();
                held
            }
        };
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
            prepared_at: None,
            decision: None,
            decided_at: Position(0),
            settled: false,
            settle_waits: false,
            next_durable: false,
            confirmed: false,
            resolved_in: None,
        }
    }

    /// Returns how many of its keys are held.
    pub fn granted(&self) -> usize {
        self.granted
    }

    /// Notes that it holds the next of its keys.
    pub fn grant(&mut self) {
        self.granted += 1;
    }

    /// Notes that it held all of its keys before a restart.
    pub fn grant_all(&mut self) {
        self.granted = self.held.len();
    }

    /// Casts this partition's vote.
    pub fn vote(&mut self, vote: Vote) {
        let prepare = Arc::make_mut(&mut self.prepare);
        assert_eq!(prepare.votes.len(), self.place, "votes come in chain order");
        prepare.votes.push(vote);
    }

    /// Forgets the vote of an undecided operation: only a planted bug does. False if it has none.
    pub fn unvote(&mut self) -> bool {
        let forgets = self.place > 0 && self.prepared_at.is_some() && self.decision.is_none();
        if forgets {
            Arc::make_mut(&mut self.prepare).votes.truncate(self.place);
            self.prepared_at = None;
        }
        forgets
    }

    /// Notes the position of the prepare's record, which has this partition's vote.
    pub fn prepare_at(&mut self, position: Position) {
        assert!(self.prepared_at.is_none(), "an operation votes once");
        self.prepared_at = Some(position);
    }

    /// Returns the prepare's record; none before the vote.
    pub fn prepared_at(&self) -> Option<Position> {
        self.prepared_at
    }

    /// Notes the decision, whose record is at `position`. A resolution may replace a decision that
    /// no client can have seen.
    pub fn decide(&mut self, decision: Decision, position: Position, resolved_in: Option<Epoch>) {
        assert!(self.prepared_at.is_some(), "what is decided was prepared");
        assert!(!self.settled, "a decision that may be seen never changes");
        self.decision = Some(decision);
        self.decided_at = position;
        self.resolved_in = resolved_in;
    }

    /// Returns the decision, if there is one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Returns the decision's record; meaningful once there is a decision.
    pub fn decided_at(&self) -> Position {
        self.decided_at
    }

    /// Returns the epoch in which a resolution made the decision; none if the decider did.
    pub fn resolved_in(&self) -> Option<Epoch> {
        self.resolved_in
    }

    /// Returns whether the decision may be seen here.
    pub fn is_settled(&self) -> bool {
        self.settled
    }

    /// Returns whether only an earlier operation on one of its keys keeps it from being settled.
    pub fn settle_waits(&self) -> bool {
        self.settle_waits
    }

    /// Waits to settle, because an earlier operation on one of its keys is not settled.
    pub fn wait_to_settle(&mut self) {
        self.settle_waits = true;
    }

    /// Settles: the decision may be seen from now on. Returns it.
    pub fn settle(&mut self) -> &Decision {
        assert!(!self.settled, "an outcome is settled once");
        self.settled = true;
        self.settle_waits = false;
        let decision = self.decision.as_ref();
        decision.expect("only a decided operation is settled")
    }

    /// Returns whether it has confirmed that the outcome is durable from here on down.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Notes that it confirms that the outcome is durable from here on down.
    pub fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// Makes it confirm again after a restart: the confirmation may not have been sent.
    pub fn confirm_again(&mut self) {
        self.confirmed = false;
    }

    pub fn partition(&self) -> PartitionId {
        self.prepare.chain[self.place]
    }

    /// Returns the position of the partition's replex, from 1, as k and x count (R3).
    pub fn replex_position(&self) -> usize {
        self.table.position(self.partition())
    }

    /// Returns whether it may vote no: those further down only confirm that they have the
    /// operation, so that one that has lost its vote gives the same again (R3).
    pub fn may_refuse(&self) -> bool {
        self.replex_position() <= self.table.last_voter
    }

    pub fn is_decider(&self) -> bool {
        self.place + 1 == self.prepare.chain.len()
    }

    pub fn previous(&self) -> Option<PartitionId> {
        Some(self.prepare.chain[self.place.checked_sub(1)?])
    }

    pub fn next(&self) -> Option<PartitionId> {
        self.prepare.chain.get(self.place + 1).copied()
    }

    /// Returns whether a decision needs no durable record of its own before it may be seen.
    pub fn settles_at_decision(&self) -> bool {
        self.table.settles_at_decision()
    }

    /// Returns what must be durable here before the decision may pass (R1), or, on the way to
    /// position x, before it may be seen (R3).
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

    /// Returns whether the decision adds to the prepare that is durable here: at position x, where
    /// it must be before any client may see it (R3), and between x and k, where the votes that the
    /// prepare holds do not imply it. So it is back once any n − f disks are (R26).
    pub fn decision_is_news(&self) -> bool {
        let position = self.replex_position();
        let x = self.table.settle_position;
        let implied = position >= self.table.last_voter;
        !self.settles_at_decision() && (position <= x || !implied)
    }

    /// Returns whether it is the one whose durable decision settles the operation.
    pub fn settles_here(&self) -> bool {
        let x = self.table.settle_position;
        let before = self
            .previous()
            .map_or(0, |partition| self.table.position(partition));
        self.replex_position() == x && before < x
    }

    /// Returns how soon its decision's record must be on the disk. A client waits for it only where
    /// it is news; elsewhere the decision follows from prepares that are durable already, so that
    /// its record rides along with the next flush. A flush of its own would stand in the way of the
    /// next operation's prepare.
    pub fn decision_durability(&self) -> Durability {
        if self.replex_position() >= self.table.settle_position && self.decision_is_news() {
            self.table.durability()
        } else {
            Durability::Replicated
        }
    }

    /// Returns the lowest version among its changes.
    pub fn oldest_version(&self) -> Version {
        let versions = self.prepare.changes.iter().map(|change| change.version);
        versions.min().unwrap_or_default()
    }

    /// Returns the highest version among its changes.
    pub fn newest_version(&self) -> Version {
        let versions = self.prepare.changes.iter().map(|change| change.version);
        versions.max().unwrap_or_default()
    }
}
