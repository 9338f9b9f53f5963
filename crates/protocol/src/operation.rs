//! Operations: the request of a client, the messages along a chain, and the result.
//!
//! An operation is a list of row changes from the first day, though a request
//! carries one mutation for now. The same `Prepare` is message and log record (R1), and
//! the completion record of its requests (R13).

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::expression::{Assignment, Expression};
use crate::identity::{Epoch, FinishedLine, OperationId, PartitionId, RequestId, TableId, Version};

/// Changes to one row, named by its primary key.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The memcomparable primary key (`placement::key`).
    pub pk: Bytes,
    /// The action to take.
    pub action: Action,
}

/// The effect of a mutation on its row. Rows are bytes of `placement::row`.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes a new row; the primary replex votes no where the pk exists.
    Insert {
        /// The whole row.
        row: Bytes,
    },
    /// Writes a new row, or leaves the one that exists (`ON CONFLICT DO NOTHING`).
    InsertOrKeep {
        /// The whole row.
        row: Bytes,
    },
    /// Writes a new row, or updates the one that exists (`ON CONFLICT DO UPDATE`).
    Upsert {
        /// The whole row where there is none.
        row: Bytes,
        /// The changes of a row that exists; `Excluded` means `row`.
        assignments: Vec<Assignment>,
        /// Whether to change it; none means always.
        condition: Option<Expression>,
    },
    /// Changes the row that exists.
    Update {
        /// The changes of the row.
        assignments: Vec<Assignment>,
        /// Whether to; none means always. Compare-and-set is a condition.
        condition: Option<Expression>,
    },
    /// Removes the row that exists.
    Delete {
        /// Whether to; none means always.
        condition: Option<Expression>,
    },
}

/// The result of one request; a request has exactly one (I7).
#[must_use = "the request may have changed nothing"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// Done, and durable as the table's setting promises.
    Applied {
        /// The row's version after it.
        version: Version,
    },
    /// The row exists and was left as it was (`InsertOrKeep`).
    Kept,
    /// There is no row with this pk (`Update`, `Delete`).
    NotFound,
    /// The condition did not hold.
    ConditionFailed,
    /// A row with this key exists, past its commit point (R8).
    Duplicate {
        /// The replex that voted so; 0 is the primary key.
        replex: u8,
        /// The key, memcomparable.
        key: Bytes,
    },
    /// A dense index lacks the value before this one, or the row is not the last of its group.
    NotDense {
        /// The replex that voted so.
        replex: u8,
        /// The only value that an insert may have now; a delete may take the one before it.
        expected: i64,
    },
    /// The mutation cannot be done to this row: an overflow, a NULL where none may be, a value that
    /// is too large. Contains the reason.
    Invalid {
        /// For people: what happened to what, and what to do.
        message: String,
    },
    /// It waited too long behind another operation, and nothing was changed: retry as a new
    /// request (R8).
    Conflict,
}

impl RequestResult {
    /// Returns whether it changed something. A result that changed nothing is known to the head
    /// alone: where the head is lost, the next one evaluates the request again.
    pub fn took_effect(&self) -> bool {
        matches!(self, RequestResult::Applied { .. })
    }
}

/// The row as it was before a change, as far as partitions need it to find its old entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldRow {
    /// There was none.
    Absent,
    /// There was one, and no column of any key space or sorting key changes.
    SameKeys {
        /// Its version.
        version: Version,
    },
    /// There was one; its old coordinates travel along (R1, R21).
    Keys {
        /// Its version.
        version: Version,
        /// A row of `placement::row` whose columns outside keys are NULL.
        row: Bytes,
    },
}

/// One row's change as the head computed it. Old and new keys give the partitions it visits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The memcomparable primary key.
    pub pk: Bytes,
    /// The version the row gets; rises per pk (R6).
    pub version: Version,
    /// The row before.
    pub old: OldRow,
    /// The row after, whole; none is a delete.
    pub new: Option<Bytes>,
}

/// A request that an operation completes. Several are folded into one operation on a hot key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its name.
    pub request: RequestId,
    /// All numbers of the session below this one are acknowledged (R14).
    pub acknowledged_below: u64,
    /// A hash of its body: the same number with another body is rejected (R13).
    pub digest: u64,
    /// Its result if the operation commits.
    pub result: RequestResult,
}

/// A partition's vote on an operation; never changes (R1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Valid here.
    Yes,
    /// Invalid here, and why.
    No(RequestResult),
}

/// Phase 1 of an operation, down the chain; also its log record, with the logger's own vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// Its name.
    pub operation: OperationId,
    /// The epoch it began in.
    pub epoch: Epoch,
    /// Every operation of the same head core before this one is finished at every member: a member
    /// forgets those, and knows a late duplicate of one by it.
    pub finished_below: FinishedLine,
    /// The table (one for now; the chain's partitions name it too).
    pub table: TableId,
    /// The chain: partitions in order, head first, decider last.
    pub chain: Vec<PartitionId>,
    /// The votes of the chain's first partitions so far.
    pub votes: Vec<Vote>,
    /// The rows.
    pub changes: Vec<RowChange>,
    /// The requests that it completes.
    pub requests: Vec<RequestRecord>,
}

/// Phase 2 of an operation: the logical AND of all votes (R2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All voted yes.
    Commit,
    /// A member voted no; the first reason.
    Abort(RequestResult),
}

wire_struct!(Mutation { pk, action });
wire_enum!(Action {
    0 => Insert { row },
    1 => InsertOrKeep { row },
    2 => Upsert { row, assignments, condition },
    3 => Update { assignments, condition },
    4 => Delete { condition },
});
wire_enum!(RequestResult {
    0 => Applied { version },
    1 => Kept,
    2 => NotFound,
    3 => ConditionFailed,
    4 => Duplicate { replex, key },
    5 => NotDense { replex, expected },
    6 => Invalid { message },
    7 => Conflict,
});
wire_enum!(OldRow {
    0 => Absent,
    1 => SameKeys { version },
    2 => Keys { version, row },
});
wire_struct!(RowChange {
    pk,
    version,
    old,
    new
});
wire_struct!(RequestRecord {
    request,
    acknowledged_below,
    digest,
    result
});
wire_enum!(Vote { 0 => Yes, 1 => No(reason) });
wire_struct!(Prepare {
    operation,
    epoch,
    finished_below,
    table,
    chain,
    votes,
    changes,
    requests,
});
wire_enum!(Decision { 0 => Commit, 1 => Abort(reason) });
