//! Log records: the state that a core must restore after a restart.
//!
//! The log is the truth and the tables are its materialisation: replaying
//! records over any earlier state of the tables ends in the same tables. A prepare is logged with
//! the logger's own vote and never changed (R1).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::identity::{Epoch, OperationId, PartitionId, TableId, Version};
use crate::operation::{Decision, Prepare, RequestRecord};

/// One log record of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The partition voted; `prepare.votes` ends with its vote.
    Prepared {
        /// The member.
        partition: PartitionId,
        /// The operation.
        prepare: Arc<Prepare>,
    },
    /// The partition learnt the outcome.
    Decided {
        /// The member.
        partition: PartitionId,
        /// The operation.
        operation: OperationId,
        /// The outcome.
        decision: Decision,
        /// Whether it is settled with this: position x is the chain's end, as chains were then.
        settles: bool,
    },
    /// The outcome is durable at position x; written only where x is not the chain's end.
    Settled {
        /// The member.
        partition: PartitionId,
        /// The operation.
        operation: OperationId,
    },
    /// Requests that ended at the head alone, without effect (R13).
    Completed {
        /// The head.
        partition: PartitionId,
        /// Their results.
        requests: Vec<RequestRecord>,
    },
    /// Rows that a partition which is being filled took from its cover; those only that were newer
    /// than what it had.
    Copied {
        /// The partition.
        partition: PartitionId,
        /// The rows, packed as in `message::RowPage`.
        rows: Bytes,
    },
    /// A partition that moves to this core was made equal to its giver's, as far as this goes.
    Matched {
        /// The partition.
        partition: PartitionId,
        /// Rows, packed as in `message::RowPage`, that are there instead of what was.
        rows: Bytes,
        /// Keys of rows that are not there.
        gone: Vec<Bytes>,
    },
    /// All rows that the partition's giver had when its place's epoch began are in the log before.
    Whole {
        /// The partition.
        partition: PartitionId,
    },
    /// Others gave versions up to this one: versions that this core gives are higher (R6).
    Versions {
        /// The highest.
        last: Version,
    },
    /// Nothing of the epochs of these tables before this one is taken part in any more (R16).
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// The tables, and whether the core had forgotten nothing of each: then this log is all
        /// there was.
        tables: Vec<(TableId, bool)>,
    },
    /// Everything before of these tables is settled and finished at all members (R5).
    Resolved {
        /// The configuration's epoch.
        epoch: Epoch,
        /// The tables that serve.
        tables: Vec<TableId>,
    },
    /// The partition is given to this core in a new tenure.
    Given {
        /// The partition.
        partition: PartitionId,
        /// The epoch that gave it.
        since: Epoch,
        /// With which rows.
        start: PartitionStart,
    },
}

/// With which rows a core begins a partition that it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionStart {
    /// With none: it is new, or filled from a cover. The core's earlier rows are void.
    Empty,
    /// With none: they are made equal to those of the core that gives it.
    Taken,
    /// With those that it had when it started: they are a hint of what is taken (R25).
    Compared,
}

/// A completion record as a checkpoint saves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedCompletion {
    /// The head partition that ran the request.
    pub head: PartitionId,
    /// The request and its result.
    pub request: RequestRecord,
}

wire_enum!(Record {
    0 => Prepared { partition, prepare }, 1 => Decided { partition, operation, decision, settles },
    2 => Settled { partition, operation }, 3 => Completed { partition, requests },
    4 => Sealed { epoch, tables }, 5 => Resolved { epoch, tables },
    6 => Given { partition, since, start }, 7 => Copied { partition, rows },
    8 => Matched { partition, rows, gone }, 9 => Whole { partition },
    10 => Versions { last },
});
wire_enum!(PartitionStart { 0 => Empty, 1 => Taken, 2 => Compared });
wire_struct!(SavedCompletion { head, request });
