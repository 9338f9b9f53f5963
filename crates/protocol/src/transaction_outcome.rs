//! The results of transactions, and the part of a prepare that only they have.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::identity::{PartitionId, TableId, Version};

/// The outcome of one change of a transaction that commits.
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
        /// The outcome of each change, in the order of the changes.
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
    /// A row would violate a CHECK constraint.
    CheckFailed {
        /// The name of the constraint.
        constraint: String,
    },
    /// A row would refer to a row that does not exist.
    ReferenceViolated(ReferenceViolation),
    /// A change that must apply did not.
    NotApplied {
        /// Its index.
        change: u32,
        /// Its outcome.
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

/// The violation of a foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceViolation {
    /// The table with the foreign key.
    pub child: TableId,
    /// The name of the foreign key.
    pub constraint: String,
    /// The memcomparable primary key of the parent's row.
    pub key: Bytes,
    /// The kind of the violation.
    pub fault: ReferenceFault,
}

/// The ways to violate a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceFault {
    /// A changed row refers to a row of the parent that does not exist.
    NoParent,
    /// A row refers to a row of the parent that the transaction deletes.
    HasChildren,
}

/// The part of a [`Prepare`](crate::operation::Prepare) that only transactions have.
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

impl TransactionResult {
    /// Returns the result that a transaction was aborted because of another operation, and may be
    /// retried as a new request.
    pub fn conflict(table: TableId) -> TransactionResult {
        TransactionResult::Aborted {
            table,
            reason: AbortReason::Conflict,
        }
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

wire_enum!(ChangeOutcome { 0 => Applied, 1 => Kept, 2 => NotFound, 3 => ConditionFailed });
wire_enum!(TransactionResult {
    0 => Committed { version, outcomes },
    1 => Aborted { table, reason },
});
wire_enum!(AbortReason {
    0 => Duplicate { replex, key }, 1 => NotDense { replex, expected }, 2 => Invalid { message },
    3 => NotApplied { change, outcome }, 4 => Changed { check }, 5 => Conflict,
    6 => CheckFailed { constraint }, 7 => ReferenceViolated(violation),
});
wire_struct!(ReferenceViolation {
    child,
    constraint,
    key,
    fault
});
wire_enum!(ReferenceFault { 0 => NoParent, 1 => HasChildren });
wire_struct!(TransactionPart {
    member,
    unchanged,
    head,
    still
});
