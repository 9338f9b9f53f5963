//! The state of the transactions that a core coordinates.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::identity::{ClockReading, CoreId, PartitionId, RequestId, TableId};
use protocol::operation::{Decision, Prepare, RequestRecord};
use protocol::transaction::{RangeCheck, RowCheck, TransactionChange};

use super::references::DemandedReference;

/// A transaction that this core coordinates, from its request until it has ended at all members.
#[derive(Debug)]
pub(super) struct Coordinated {
    pub request: RequestRecord,
    /// The partition under which the request was sent: of this core.
    pub at: PartitionId,
    pub tables: Vec<TableId>,
    pub changes: Arc<Vec<TransactionChange>>,
    pub checks: Vec<RowCheck>,
    pub ranges: Vec<RangeCheck>,
    /// The checks that the evaluated rows demand, until the decision.
    pub references: Vec<DemandedReference>,
    pub route: Vec<CoreId>,
    pub stage: Stage,
    /// When the request arrived, and when the present attempt began.
    pub since_us: u64,
    pub begun_us: u64,
    pub attempts: u64,
    pub members: Vec<MemberProgress>,
    /// How many of the members, at the end, are not changed.
    pub unchanged: usize,
    /// The checks that have passed, by index.
    pub passed: BTreeSet<u32>,
    /// Whether clients may see the decision.
    pub is_seen: bool,
    /// The time of the next repetition, or of the next attempt.
    pub due_us: u64,
    pub retry_us: u64,
}

/// How far a transaction has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Another operation was in its way: it begins again later.
    Pausing,
    Walking,
    Voting,
    /// All members have voted yes.
    Checking,
    /// The coordinator has restarted, and asks the members for a decision.
    Asking,
    Decided(Decision),
}

/// The state of one member, as far as the coordinator knows it.
#[derive(Debug)]
pub(super) struct MemberProgress {
    pub id: PartitionId,
    /// Its part of the prepare; none after a restart, when votes are not asked for any more.
    pub prepare: Option<Arc<Prepare>>,
    pub has_voted: bool,
    /// It has answered the question of a restarted coordinator.
    pub has_answered: bool,
    /// It has the decision durably.
    pub has_kept: bool,
    /// It has settled, or knows nothing of the transaction.
    pub has_ended: bool,
}

impl MemberProgress {
    /// Returns a member that has answered nothing yet.
    pub fn new(id: PartitionId, prepare: Option<Arc<Prepare>>) -> MemberProgress {
        MemberProgress {
            id,
            prepare,
            has_voted: false,
            has_answered: false,
            has_kept: false,
            has_ended: false,
        }
    }
}

impl Coordinated {
    /// Returns a transaction of which no attempt has begun. The request arrived at this core now.
    pub fn new(
        request: RequestRecord,
        at: PartitionId,
        tables: Vec<TableId>,
        now: ClockReading,
    ) -> Coordinated {
        Coordinated {
            request,
            at,
            tables,
            changes: Arc::default(),
            checks: Vec::new(),
            ranges: Vec::new(),
            references: Vec::new(),
            route: Vec::new(),
            stage: Stage::Pausing,
            since_us: now.monotonic_us,
            begun_us: now.monotonic_us,
            attempts: 0,
            members: Vec::new(),
            unchanged: 0,
            passed: BTreeSet::new(),
            is_seen: false,
            due_us: now.monotonic_us,
            retry_us: 0,
        }
    }

    /// Returns the name of the request.
    pub fn request(&self) -> RequestId {
        self.request.request
    }

    /// Returns the number of checks.
    pub fn check_count(&self) -> usize {
        self.checks.len() + self.ranges.len() + self.references.len()
    }

    /// Returns the tables whose epochs matter for the checks of references.
    pub fn referred_tables(&self) -> impl Iterator<Item = TableId> {
        self.references.iter().map(|it| it.check.table())
    }

    /// Returns a member.
    pub fn member_mut(&mut self, id: PartitionId) -> Option<&mut MemberProgress> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    /// Returns the decision; none if there is none yet.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.stage {
            Stage::Decided(decision) => Some(decision),
            _ => None,
        }
    }

    /// Returns whether this holds for all members.
    pub fn all(&self, is: impl Fn(&MemberProgress) -> bool) -> bool {
        self.members.iter().all(is)
    }
}
