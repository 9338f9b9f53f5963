//! Transactions: changes and checks of several rows of several tables, with one decision (R40).
//!
//! The core of the first primary coordinates a transaction. Its *walk* visits the cores of all
//! primaries, which lock and evaluate their rows. Then the coordinator sends each member its part
//! of the complete [`Prepare`], and decides by the votes
//! (`docs/design/2026-11-28-transactions.md`).

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::codec::{Bytes, Wire, wire_enum, wire_struct};
use crate::identity::{
    CoreId, Epoch, FinishedLine, OperationId, PartitionId, RequestId, TableId, Version,
};
use crate::operation::{Decision, Mutation, Prepare, RequestResult, RowChange, Vote};
use crate::read::Read;
use crate::refusal::Refusal;

use xxhash_rust::xxh3::Xxh3;

pub use crate::transaction_outcome::{
    AbortReason, ChangeOutcome, ReferenceFault, ReferenceViolation, TransactionPart,
    TransactionResult,
};

/// The most changes of one transaction.
pub const CHANGES_MAX: usize = 10_000;
/// The most checks of one transaction.
pub const CHECKS_MAX: usize = 10_000;
/// The most ranges that one transaction checks. Each is read again at the commit.
pub const RANGES_MAX: usize = 1_000;
/// The most bytes of the changes of one transaction, as they are encoded. A walk has them and the
/// evaluated rows in one frame.
pub const CHANGE_BYTES_MAX: usize = 3 << 20;
/// The most bytes of the rows that one transaction changes, as its walk has them.
pub const EVALUATED_BYTES_MAX: usize = 4 << 20;
/// The most bytes of the checks of one transaction, as they are encoded.
pub const CHECK_BYTES_MAX: usize = 4 << 20;

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
    /// The rows that must be as the client has read them.
    pub checks: Vec<RowCheck>,
    /// The ranges that must be as the client has read them. Their indexes among the checks follow
    /// those of the rows.
    pub ranges: Vec<RangeCheck>,
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

/// A check that a range of a copy has the rows that the client has read there. The partition judges
/// it, in the epoch of the table in which the client has read.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeCheck {
    /// The read of one page, of the present rows of a copy. Its epoch is that of the configuration
    /// by which the client has read.
    pub read: Read,
    /// Whether the rows must have the same versions. Otherwise it suffices that they are the same.
    pub versions: bool,
    /// The digest of the page ([`digest_of_rows`]).
    pub digest: u64,
}

/// A check that the coordinator adds to a transaction because of a foreign key (R57).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceCheck {
    /// There is a row with this primary key, whatever its version. Its primary judges it.
    Parent {
        /// The table.
        table: TableId,
        /// The memcomparable primary key.
        pk: Bytes,
    },
    /// No row of a partition refers to a row, except rows that the transaction changes.
    NoChild {
        /// A partition of a copy whose order begins with the columns of the foreign key.
        partition: PartitionId,
        /// The memcomparable primary key of the parent's row, with which the keys of the rows that
        /// refer to it begin.
        key: Bytes,
        /// The primary keys of rows that refer to it only before the transaction.
        except: Vec<Bytes>,
    },
}

impl ReferenceCheck {
    /// Returns the table whose rows are checked.
    pub fn table(&self) -> TableId {
        match self {
            ReferenceCheck::Parent { table, .. } => *table,
            ReferenceCheck::NoChild { partition, .. } => partition.table,
        }
    }
}

/// Returns the digest of rows of a page, in its order.
pub fn digest_of_rows<'a>(rows: impl Iterator<Item = (Version, &'a [u8])>, versions: bool) -> u64 {
    let mut digest = Xxh3::new();
    for (version, row) in rows {
        if versions {
            digest.update(&version.0.to_le_bytes());
        }
        digest.update(&(row.len() as u64).to_le_bytes());
        digest.update(row);
    }
    digest.digest()
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
    pub changes: Arc<Vec<TransactionChange>>,
    /// The rows that were evaluated so far and change.
    pub evaluated: Vec<EvaluatedRow>,
    /// The outcomes of the changes that were evaluated so far, by their index.
    pub outcomes: Vec<(u32, ChangeOutcome)>,
}

/// A row of a transaction, as its primary has evaluated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluatedRow {
    /// The table.
    pub table: TableId,
    /// The change.
    pub change: Arc<RowChange>,
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
        /// Each check of a row with its index in the transaction.
        checks: Vec<(u32, RowCheck)>,
        /// Each check of a range with its index in the transaction.
        ranges: Vec<(u32, RangeCheck)>,
        /// Each check of a reference with its index in the transaction.
        references: Vec<(u32, ReferenceCheck)>,
    },
    /// The answer to `Check`: the checks that have passed, and one that has failed.
    Checked {
        /// The indexes of the checks that have passed.
        passed: Vec<u32>,
        /// The index of a check that has failed, and its table.
        failed: Option<(u32, TableId)>,
        /// The table of a reference that another operation decides. The transaction begins again.
        held: Option<TableId>,
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
    /// From a member that has heard nothing for long: asks for the outcome.
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
    /// From a coordinator that has restarted: asks for the decision that the member has.
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

/// Checks that a transaction is within the limits.
///
/// # Errors
/// It is not. The text says which limit, for people.
pub fn check_size(
    changes: &[TransactionChange],
    checks: &[RowCheck],
    ranges: &[RangeCheck],
) -> Result<(), String> {
    let bytes_of = |lengths: &mut dyn Iterator<Item = usize>| lengths.sum::<usize>();
    let change_bytes = bytes_of(&mut changes.iter().map(|change| change.to_bytes().len()));
    let check_bytes = bytes_of(&mut checks.iter().map(|check| check.to_bytes().len()))
        + bytes_of(&mut ranges.iter().map(|check| check.to_bytes().len()));
    let limits = [
        (changes.len(), CHANGES_MAX, "changes"),
        (checks.len(), CHECKS_MAX, "rows that it has read"),
        (ranges.len(), RANGES_MAX, "ranges that it has read"),
        (change_bytes, CHANGE_BYTES_MAX, "bytes of changes"),
        (
            check_bytes,
            CHECK_BYTES_MAX,
            "bytes of keys that it has read",
        ),
    ];
    for (count, most, what) in limits {
        if count > most {
            return Err(format!(
                "the transaction has {count} {what}, and at most {most} are possible: split it"
            ));
        }
    }
    Ok(())
}

wire_struct!(Transact {
    request,
    acknowledged_below,
    epochs,
    partition,
    changes,
    checks,
    ranges
});
wire_struct!(TransactionChange {
    table,
    mutation,
    must_apply
});
wire_struct!(RowCheck { table, pk, version });
wire_struct!(RangeCheck {
    read,
    versions,
    digest
});
wire_enum!(ReferenceCheck {
    0 => Parent { table, pk }, 1 => NoChild { partition, key, except },
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
    5 => Voted { member, vote }, 6 => Check { checks, ranges, references },
    7 => Checked { passed, failed, held },
    8 => Decision { to, decision, settled }, 9 => Kept { member }, 10 => Ended { member },
    11 => Ask { member }, 12 => Over { to, finished_below }, 13 => AskDecision { to },
    14 => Known { member, decision },
});
