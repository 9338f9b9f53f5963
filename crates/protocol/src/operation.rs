//! Operations: the request of a client, the messages along a chain, and the result.
//!
//! An operation is a list of row changes, although a request carries only one mutation now. The
//! same `Prepare` is a message and a log record (R1), and the completion record of its requests
//! (R13).

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Schema;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::expression::{Assignment, Expression};
use crate::identity::{Epoch, FinishedLine, OperationId, PartitionId, RequestId, TableId, Version};
use crate::transaction_outcome::{AbortReason, ChangeOutcome, TransactionPart, TransactionResult};

/// A change of one row, which its primary key identifies.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The memcomparable primary key (`placement::key`).
    pub pk: Bytes,
    /// The change.
    pub action: Action,
}

/// The kinds of changes. Rows are bytes of `placement::row`.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Writes a new row. The primary replex votes no if the pk exists.
    Insert {
        /// The whole row.
        row: Bytes,
    },
    /// Writes a new row. An existing row stays unchanged (`ON CONFLICT DO NOTHING`).
    InsertOrKeep {
        /// The whole row.
        row: Bytes,
    },
    /// Writes a new row, or updates the existing one (`ON CONFLICT DO UPDATE`).
    Upsert {
        /// The whole row where there is none.
        row: Bytes,
        /// The changes of a row that exists; `Excluded` means `row`.
        assignments: Vec<Assignment>,
        /// Whether to change it; none means always.
        condition: Option<Expression>,
    },
    /// Changes an existing row.
    Update {
        /// The changes of the row.
        assignments: Vec<Assignment>,
        /// Whether to; none means always. Compare-and-set is a condition.
        condition: Option<Expression>,
    },
    /// Removes an existing row.
    Delete {
        /// Whether to; none means always.
        condition: Option<Expression>,
    },
}

impl Action {
    /// Returns whether a change by itself may need the check of a reference: it may make its row
    /// refer to another one, or remove a row that others refer to.
    pub fn may_need_reference(&self, schema: &Schema) -> bool {
        let constraints = &schema.constraints;
        let is_reference = |column: usize| {
            let keys = constraints.foreign_keys.iter();
            let mut referring = keys.flat_map(|key| &key.columns);
            referring.any(|own| {
                let generation = schema.columns[*own].generation();
                *own == column || generation.is_some_and(|it| it.uses(column))
            })
        };
        match self {
            Action::Insert { .. } | Action::InsertOrKeep { .. } | Action::Upsert { .. } => {
                !constraints.foreign_keys.is_empty()
            }
            Action::Update { assignments, .. } => {
                let mut columns = assignments.iter().map(|it| usize::from(it.column));
                columns.any(is_reference)
            }
            Action::Delete { .. } => !constraints.referenced_by.is_empty(),
        }
    }
}

/// The result of a request. A request has exactly one (I7).
#[must_use = "the request may have changed nothing"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestResult {
    /// The change is applied, and durable on disk or in memory, as the table's setting requires.
    Applied {
        /// The row's version after it.
        version: Version,
    },
    /// The row existed and is unchanged (`InsertOrKeep`).
    Kept,
    /// There is no row with this pk (`Update`, `Delete`).
    NotFound,
    /// The condition was false or NULL.
    ConditionFailed,
    /// A row with this key exists, and its operation is committed (R8).
    Duplicate {
        /// The replex that voted so; 0 is the primary key.
        replex: u8,
        /// The key, memcomparable.
        key: Bytes,
    },
    /// A dense index lacks the preceding value, or the row to be removed is not the last of its
    /// group.
    NotDense {
        /// The replex that voted so.
        replex: u8,
        /// The only value that an insert may have now; a delete may take the one before it.
        expected: i64,
    },
    /// The row cannot take the change: an overflow, a NULL in a column that forbids it, or a value
    /// that is too large. Contains the reason.
    Invalid {
        /// For people: what happened to what, and what to do.
        message: String,
    },
    /// The row would violate a CHECK constraint.
    CheckFailed {
        /// The name of the constraint.
        constraint: String,
    },
    /// The request waited too long behind another operation, and nothing was changed. Retry it as a
    /// new request (R8).
    Conflict,
    /// The result of a transaction.
    Transaction(TransactionResult),
}

impl Decision {
    /// Returns the decision that aborts a transaction with this result.
    pub fn abort_transaction(result: TransactionResult) -> Decision {
        Decision::Abort(RequestResult::Transaction(result))
    }
}

impl RequestResult {
    /// Returns the result with which a single change is refused for the same reason; none if only a
    /// transaction can have the reason.
    pub fn of_abort(reason: &AbortReason) -> Option<RequestResult> {
        Some(match reason.clone() {
            AbortReason::Duplicate { replex, key } => RequestResult::Duplicate { replex, key },
            AbortReason::NotDense { replex, expected } => {
                RequestResult::NotDense { replex, expected }
            }
            AbortReason::Invalid { message } => RequestResult::Invalid { message },
            AbortReason::CheckFailed { constraint } => RequestResult::CheckFailed { constraint },
            AbortReason::Conflict => RequestResult::Conflict,
            AbortReason::NotApplied { .. }
            | AbortReason::Changed { .. }
            | AbortReason::ReferenceViolated(_) => return None,
        })
    }

    /// Returns the result of a transaction that a partition of this table refuses with this reason.
    pub fn refuses_transaction(self, table: TableId) -> TransactionResult {
        let reason = match self {
            RequestResult::Transaction(result) => return result,
            RequestResult::Duplicate { replex, key } => AbortReason::Duplicate { replex, key },
            RequestResult::NotDense { replex, expected } => {
                AbortReason::NotDense { replex, expected }
            }
            RequestResult::Invalid { message } => AbortReason::Invalid { message },
            RequestResult::CheckFailed { constraint } => AbortReason::CheckFailed { constraint },
            RequestResult::Applied { .. }
            | RequestResult::Kept
            | RequestResult::NotFound
            | RequestResult::ConditionFailed
            | RequestResult::Conflict => AbortReason::Conflict,
        };
        TransactionResult::Aborted { table, reason }
    }

    /// Returns the result of a single change that a server has run as a transaction, as that of a
    /// change. A violated foreign key stays the result of a transaction.
    pub fn of_one_change(self) -> RequestResult {
        let RequestResult::Transaction(result) = &self else {
            return self;
        };
        let result = match result {
            TransactionResult::Committed { version, outcomes } => match outcomes[..] {
                [ChangeOutcome::Applied] => {
                    let version = *version;
                    Some(RequestResult::Applied { version })
                }
                [ChangeOutcome::Kept] => Some(RequestResult::Kept),
                [ChangeOutcome::NotFound] => Some(RequestResult::NotFound),
                [ChangeOutcome::ConditionFailed] => Some(RequestResult::ConditionFailed),
                _ => None,
            },
            TransactionResult::Aborted { reason, .. } => RequestResult::of_abort(reason),
        };
        result.unwrap_or(self)
    }

    /// Returns whether the request changed something. If not, only the head knows the result. If
    /// the head is lost, the next head evaluates the request again.
    pub fn took_effect(&self) -> bool {
        match self {
            RequestResult::Applied { .. } => true,
            RequestResult::Transaction(result) => result.took_effect(),
            _ => false,
        }
    }
}

/// The row before a change. It has what partitions need to find the row's old entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OldRow {
    /// There was no row.
    Absent,
    /// There was a row, and the change affects no column of a key space or a sorting key.
    SameKeys {
        /// The old row's version.
        version: Version,
    },
    /// There was a row with other keys. These are its old coordinates (R1, R21).
    Keys {
        /// The old row's version.
        version: Version,
        /// A row of `placement::row` whose columns outside keys are NULL.
        row: Bytes,
    },
}

/// The change of one row, as the head computed it. Its old and new keys determine the partitions of
/// the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// The memcomparable primary key.
    pub pk: Bytes,
    /// The version that the row gets. Versions of a pk rise (R6).
    pub version: Version,
    /// The row before the change.
    pub old: OldRow,
    /// The whole row after the change; none for a delete.
    pub new: Option<Bytes>,
}

/// A request that an operation completes. On a hot key, one operation can complete several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The request's name.
    pub request: RequestId,
    /// All requests of the session with lower numbers are acknowledged (R14).
    pub acknowledged_below: u64,
    /// A hash of the request's body. A request with the same number and another body is rejected
    /// (R13).
    pub digest: u64,
    /// The request's result, if the operation commits.
    pub result: RequestResult,
}

/// A partition's vote on an operation. It never changes (R1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// The change is valid here.
    Yes,
    /// The change is invalid here, for this reason.
    No(RequestResult),
}

/// Phase 1 of an operation, sent down the chain. It is also the log record of a member, with the
/// member's own vote at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// The operation's name.
    pub operation: OperationId,
    /// The epoch in which the operation began.
    pub epoch: Epoch,
    /// All operations of the same head core before this one are finished at every member. Members
    /// forget them, and recognise late duplicates of them by it.
    pub finished_below: FinishedLine,
    /// The table. The partitions of the members name it, too.
    pub table: TableId,
    /// The partitions that take part: first the chain in order, from the head to the decider, and
    /// then the side members.
    pub members: Vec<PartitionId>,
    /// The number of side members.
    pub sides: u8,
    /// The number of the side member whose prepare this is, from 0; none for members of the chain.
    pub side: Option<u8>,
    /// The votes of the first partitions of the chain.
    pub votes: Vec<Vote>,
    /// The changes of rows.
    pub changes: Vec<Arc<RowChange>>,
    /// The requests that the operation completes.
    pub requests: Vec<RequestRecord>,
    /// Set if the operation is a transaction. Its members are of all its tables, the chain is not
    /// one, and `votes` has the vote of the one member whose part this is.
    pub transaction: Option<TransactionPart>,
}

impl Prepare {
    /// Returns the members that the operation changes. The last members of a transaction may stay
    /// as they are.
    pub fn changed(&self) -> &[PartitionId] {
        let part = self.transaction.as_ref();
        let unchanged = part.map_or(0, |part| usize::from(part.unchanged));
        &self.members[..self.members.len() - unchanged]
    }

    /// Returns the partitions of the chain, in order.
    pub fn chain(&self) -> &[PartitionId] {
        let count = self.members.len().saturating_sub(usize::from(self.sides));
        &self.members[..count]
    }

    /// Returns the side members.
    pub fn side_members(&self) -> &[PartitionId] {
        &self.members[self.chain().len()..]
    }

    /// Returns the tables of a transaction's members, ascending.
    pub fn tables(&self) -> Vec<TableId> {
        let mut tables: Vec<TableId> = self.members.iter().map(|member| member.table).collect();
        tables.sort_unstable();
        tables.dedup();
        tables
    }

    /// Returns whether the operation has a member of one of these tables.
    pub fn touches(&self, concerns: impl Fn(TableId) -> bool) -> bool {
        match self.transaction {
            Some(_) => self.members.iter().any(|member| concerns(member.table)),
            None => concerns(self.table),
        }
    }

    /// Returns whether the numbers of members and side members fit together. Others come from a
    /// faulty sender.
    pub fn is_consistent(&self) -> bool {
        if let Some(part) = &self.transaction {
            let (member, unchanged) = (usize::from(part.member), usize::from(part.unchanged));
            let fits = member < self.members.len() && unchanged <= self.members.len();
            return fits && self.sides == 0 && self.side.is_none() && self.votes.len() <= 1;
        }
        let sides = usize::from(self.sides);
        let has_side = self.side.is_none_or(|side| side < self.sides);
        sides <= 2 * placement::THIN_MAX && sides < self.members.len() && has_side
    }

    /// Returns the index in `members` of the member that receives this prepare; none if there is no
    /// such member.
    pub fn receiver(&self) -> Option<usize> {
        match (&self.transaction, self.side) {
            (Some(part), _) => Some(usize::from(part.member)),
            (None, Some(side)) => Some(self.chain().len() + usize::from(side)),
            (None, None) => Some(self.votes.len()).filter(|it| *it < self.chain().len()),
        }
    }

    /// Returns the index in `members` of the member that has this prepare with its own vote; none
    /// if no member has.
    pub fn holder(&self) -> Option<usize> {
        let own = match (&self.transaction, self.side) {
            (Some(_), _) | (None, Some(_)) => self.receiver(),
            (None, None) => self
                .votes
                .len()
                .checked_sub(1)
                .filter(|it| *it < self.chain().len()),
        };
        own.filter(|place| *place < self.members.len())
    }
}

/// Phase 2 of an operation: the logical AND of all votes (R2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// All members voted yes.
    Commit,
    /// A member voted no. Contains the first reason.
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
    8 => Transaction(result),
    9 => CheckFailed { constraint },
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
    members,
    sides,
    side,
    votes,
    changes,
    requests,
    transaction,
});
wire_enum!(Decision { 0 => Commit, 1 => Abort(reason) });

#[cfg(test)]
mod tests {
    use super::*;

    fn prepare(members: usize, sides: u8, side: Option<u8>, votes: usize) -> Prepare {
        Prepare {
            operation: OperationId::default(),
            epoch: Epoch(1),
            finished_below: FinishedLine::default(),
            table: TableId(1),
            members: alloc::vec![PartitionId::default(); members],
            sides,
            side,
            votes: alloc::vec![Vote::Yes; votes],
            changes: Vec::new(),
            requests: Vec::new(),
            transaction: None,
        }
    }

    #[test]
    fn members_are_found_by_votes_and_sides_by_their_number() {
        let of_chain = prepare(5, 2, None, 2);
        assert_eq!(of_chain.chain().len(), 3);
        assert_eq!(of_chain.side_members().len(), 2);
        assert_eq!((of_chain.receiver(), of_chain.holder()), (Some(2), Some(1)));
        assert_eq!(prepare(5, 2, None, 0).holder(), None);
        assert_eq!(prepare(5, 2, None, 3).receiver(), None);
        let of_side = prepare(5, 2, Some(1), 1);
        assert_eq!((of_side.receiver(), of_side.holder()), (Some(4), Some(4)));
    }

    #[test]
    fn inconsistent_numbers_are_noticed() {
        assert!(prepare(5, 2, Some(1), 1).is_consistent());
        assert!(prepare(3, 0, None, 0).is_consistent());
        assert!(!prepare(5, 2, Some(2), 1).is_consistent());
        assert!(!prepare(2, 2, None, 0).is_consistent());
        assert!(!prepare(200, 63, None, 0).is_consistent());
        let votes_beyond = prepare(3, 1, None, 3);
        assert_eq!(votes_beyond.holder(), None);
    }
}
