//! Transactions: changes and checks of several rows of several tables, with one decision (R40).
//!
//! The core of the first primary coordinates a transaction. Its *walk* visits the cores of all
//! primaries, which lock and evaluate their rows. Then the coordinator sends each member its part of
//! the complete [`Prepare`], and decides by the votes
//! (`docs/design/2026-11-28-transactions.md`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use alloc::string::String;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::identity::{
    CoreId, Epoch, FinishedLine, OperationId, PartitionId, RequestId, TableId, Version,
};
use crate::message::Refusal;
use crate::operation::{Decision, Mutation, Prepare, RequestResult, RowChange, Vote};

/// The most changes of one transaction.
pub const CHANGES_MAX: usize = 10_000;
/// The most checks of one transaction.
pub const CHECKS_MAX: usize = 10_000;
/// The most bytes of the changes of one transaction, as they are encoded.
pub const CHANGE_BYTES_MAX: usize = 8 << 20;

/// A transaction. The client repeats it under the same name until it knows the result (R45).
#[derive(Clone, Debug, PartialEq)]
pub struct Transact {
    /// The request's name.
    pub request: RequestId,
    /// All requests of the session with lower numbers are acknowledged (R14).
    pub acknowledged_below: u64,
    /// The epochs of all tables of the transaction, as the client knows them.
    pub epochs: Vec<(TableId, Epoch)>,
    /// The primary partition of the first change whose core is the first one of the walk.
    pub partition: PartitionId,
    /// The changes, in order. Changes of the same row are evaluated one after the other.
    pub changes: Vec<TransactionChange>,
    /// What must be as the client has read it.
    pub checks: Vec<RowCheck>,
}

/// A change of one row in a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionChange {
    /// The table.
    pub table: TableId,
    /// The change.
    pub mutation: Mutation,
    /// Whether the transaction aborts if this change changes nothing.
    pub must_apply: bool,
}

/// A check that a row is still as the client has read it, by whatever index. The row's primary
/// judges it: the partitions of a copy can have changed since the client has read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCheck {
    /// The table.
    pub table: TableId,
    /// The memcomparable primary key.
    pub pk: Bytes,
    /// The row's version; none if there must be no row with this key.
    pub version: Option<Version>,
}

/// What a change of a transaction that commits has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The row is changed.
    Applied,
    /// The row existed and is unchanged (`InsertOrKeep`).
    Kept,
    /// There is no row with this pk.
    NotFound,
    /// The condition was false or NULL.
    ConditionFailed,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransactionResult {
    /// All changes are applied, and durable on disk.
    Committed {
        /// The highest version of the changed rows; 0 if no row has changed.
        version: Version,
        /// What each change has done, in the order of the changes.
        outcomes: Vec<ChangeOutcome>,
    },
    /// Nothing was changed.
    Aborted {
        /// The table with the cause.
        table: TableId,
        /// The cause.
        reason: AbortReason,
    },
}

/// The reason why a transaction was aborted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AbortReason {
    /// A row with this key exists, and its operation is committed (R8).
    Duplicate {
        /// The replex that voted so; 0 is the primary key.
        replex: u8,
        /// The key, memcomparable.
        key: Bytes,
    },
    /// A dense index would have a gap.
    NotDense {
        /// The replex that voted so.
        replex: u8,
        /// The only value that an insert may have now.
        expected: i64,
    },
    /// A row cannot take its change. Contains the reason.
    Invalid {
        /// For people: what happened to what, and what to do.
        message: String,
    },
    /// A change that must apply did not.
    NotApplied {
        /// Its index.
        change: u32,
        /// What it did instead.
        outcome: ChangeOutcome,
    },
    /// A row that the client has read has changed since, or is being changed.
    Changed {
        /// The index of the check that failed.
        check: u32,
    },
    /// Another operation holds a key that the transaction needs. Retry it as a new request.
    Conflict,
}

/// The part of a [`Prepare`] that only transactions have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionPart {
    /// The index in `members` of the member whose part this is. The prepare has only the changes
    /// that concern this member.
    pub member: u16,
    /// The number of members, at the end of `members`, that the transaction does not change: they
    /// are primaries whose rows stay as they are.
    pub unchanged: u16,
    /// The primary partition under which this member remembers the result of the request (R13).
    pub head: PartitionId,
    /// The pks of rows that their primary, this member, has evaluated and that stay as they are.
    pub still: Vec<Bytes>,
}

/// The walk of a transaction, as it arrives at a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Walk {
    /// The request's name.
    pub request: RequestId,
    /// A hash of the request's body.
    pub digest: u64,
    /// The cores of the primaries, in ascending order.
    pub route: Vec<CoreId>,
    /// The index in `route` of the core that it is for.
    pub place: u16,
    /// All changes of the transaction.
    pub changes: Vec<TransactionChange>,
    /// The rows that were evaluated so far and change.
    pub evaluated: Vec<EvaluatedRow>,
    /// What the changes that were evaluated so far do, by their index.
    pub outcomes: Vec<(u32, ChangeOutcome)>,
}

/// A row of a transaction, as its primary has evaluated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluatedRow {
    /// The table.
    pub table: TableId,
    /// The change.
    pub change: RowChange,
}

/// The reason why a walk ended before its last primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WalkEnd {
    /// The request has ended before, with this result.
    Known(RequestResult),
    /// The transaction aborts.
    Aborted(TransactionResult),
    /// The core cannot take the walk now. The client learns the reason.
    Refused(Refusal),
    /// The core has dropped the walk, or holds operations back. It may be repeated at once.
    Dropped,
}

/// A message between two cores about one transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct TransactionMessage {
    /// The transaction.
    pub operation: OperationId,
    /// The epochs of all its tables, as the sender knows them. The receiver must have the same.
    pub epochs: Vec<(TableId, Epoch)>,
    /// The content.
    pub content: TransactionContent,
}

/// The contents of messages about a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionContent {
    /// To the next core of the route.
    Walk(Walk),
    /// From the last core of the route to the coordinator: all rows are evaluated.
    Walked(Walk),
    /// To the coordinator: the walk ends here.
    WalkEnded(WalkEnd),
    /// From the coordinator: the walk has ended.
    DropWalk,
    /// From the coordinator to a member: its part of the complete prepare.
    Prepare(Arc<Prepare>),
    /// From a member: its vote. A yes is durable.
    Voted {
        /// The member.
        member: PartitionId,
        /// The vote.
        vote: Vote,
    },
    /// From the coordinator: judge these checks. All members have voted yes.
    Check {
        /// Each check with its index in the transaction.
        checks: Vec<(u32, RowCheck)>,
    },
    /// The answer to `Check`: the checks that have passed, and one that has failed.
    Checked {
        /// The indexes of the checks that have passed.
        passed: Vec<u32>,
        /// The index of a check that has failed, and its table.
        failed: Option<(u32, TableId)>,
    },
    /// From the coordinator to a member: the decision.
    Decision {
        /// The member.
        to: PartitionId,
        /// The decision.
        decision: Decision,
        /// Whether clients may see it.
        settled: bool,
    },
    /// From a member: the decision is durable there.
    Kept {
        /// The member.
        member: PartitionId,
    },
    /// From a member: the decision is settled and durable there, or the member knows nothing of the
    /// transaction, which is aborted.
    Ended {
        /// The member.
        member: PartitionId,
    },
    /// From a member that has heard nothing for long: what became of the transaction?
    Ask {
        /// The member.
        member: PartitionId,
    },
    /// The answer to `Ask` of a coordinator that has ended the transaction, or never knew it. A
    /// member that has no decision aborts it.
    Over {
        /// The member.
        to: PartitionId,
        /// All operations of the sender before this one are finished at every member.
        finished_below: FinishedLine,
    },
    /// From a coordinator that has restarted: does the member have a decision?
    AskDecision {
        /// The member.
        to: PartitionId,
    },
    /// The answer to `AskDecision`.
    Known {
        /// The member.
        member: PartitionId,
        /// The decision that it has.
        decision: Option<Decision>,
    },
}

impl TransactionResult {
    /// Returns the result that a transaction was aborted because of another operation, and may be
    /// retried as a new request.
    pub fn conflict(table: TableId) -> TransactionResult {
        TransactionResult::Aborted {
            table,
            reason: AbortReason::Conflict,
        }
    }

    /// Returns the result of a transaction that a partition of this table refuses.
    pub fn refused(table: TableId, reason: RequestResult) -> TransactionResult {
        let reason = match reason {
            RequestResult::Transaction(result) => return result,
            RequestResult::Duplicate { replex, key } => AbortReason::Duplicate { replex, key },
            RequestResult::NotDense { replex, expected } => {
                AbortReason::NotDense { replex, expected }
            }
            RequestResult::Invalid { message } => AbortReason::Invalid { message },
            RequestResult::Applied { .. }
            | RequestResult::Kept
            | RequestResult::NotFound
            | RequestResult::ConditionFailed
            | RequestResult::Conflict => AbortReason::Conflict,
        };
        TransactionResult::Aborted { table, reason }
    }

    /// Returns whether the transaction has changed a row.
    pub fn took_effect(&self) -> bool {
        matches!(self, TransactionResult::Committed { version, .. } if *version > Version(0))
    }

    /// Returns whether the transaction was aborted because of another operation in progress.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            TransactionResult::Aborted {
                reason: AbortReason::Conflict,
                ..
            }
        )
    }
}

wire_struct!(Transact {
    request,
    acknowledged_below,
    epochs,
    partition,
    changes,
    checks
});
wire_struct!(TransactionChange {
    table,
    mutation,
    must_apply
});
wire_struct!(RowCheck { table, pk, version });
wire_enum!(ChangeOutcome { 0 => Applied, 1 => Kept, 2 => NotFound, 3 => ConditionFailed });
wire_enum!(TransactionResult {
    0 => Committed { version, outcomes },
    1 => Aborted { table, reason },
});
wire_enum!(AbortReason {
    0 => Duplicate { replex, key }, 1 => NotDense { replex, expected }, 2 => Invalid { message },
    3 => NotApplied { change, outcome }, 4 => Changed { check }, 5 => Conflict,
});
wire_struct!(TransactionPart {
    member,
    unchanged,
    head,
    still
});
wire_struct!(Walk {
    request,
    digest,
    route,
    place,
    changes,
    evaluated,
    outcomes
});
wire_struct!(EvaluatedRow { table, change });
wire_enum!(WalkEnd {
    0 => Known(result), 1 => Aborted(result), 2 => Refused(refusal), 3 => Dropped,
});
wire_struct!(TransactionMessage {
    operation,
    epochs,
    content
});
wire_enum!(TransactionContent {
    0 => Walk(walk), 1 => Walked(walk), 2 => WalkEnded(end), 3 => DropWalk, 4 => Prepare(prepare),
    5 => Voted { member, vote }, 6 => Check { checks }, 7 => Checked { passed, failed },
    8 => Decision { to, decision, settled }, 9 => Kept { member }, 10 => Ended { member },
    11 => Ask { member }, 12 => Over { to, finished_below }, 13 => AskDecision { to },
    14 => Known { member, decision },
});
