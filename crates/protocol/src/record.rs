//! Log records: the state that a core must restore after a restart.
//!
//! The log is the truth, and the tables are derived from it: replaying records over any earlier
//! state of the tables gives the same tables. A member logs a prepare with its own vote and never
//! changes it (R1).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::identity::{Epoch, OperationId, PartitionId, TableId, Version};
use crate::operation::{Decision, Prepare, RequestRecord};

/// One log record of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The partition voted. The last vote of `prepare.votes` is its own.
    Prepared {
        /// The member.
        partition: PartitionId,
        /// The operation.
        prepare: Arc<Prepare>,
    },
    /// The partition learned the outcome.
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
    /// The outcome is durable at position x. Written only if x is not the end of the chain.
    Settled {
        /// The member.
        partition: PartitionId,
        /// The operation.
        operation: OperationId,
    },
    /// Requests that ended at the head without effect (R13).
    Completed {
        /// The head.
        partition: PartitionId,
        /// The requests' results.
        requests: Vec<RequestRecord>,
    },
    /// Rows that a partition accepted from its cover during its fill. It contains only rows that
    /// were newer than its own.
    Copied {
        /// The partition.
        partition: PartitionId,
        /// The rows, packed as in `message::RowPage`.
        rows: Bytes,
    },
    /// A range of a partition that moves to this core was made equal to the giver's.
    Matched {
        /// The partition.
        partition: PartitionId,
        /// Rows, packed as in `message::RowPage`, that are there instead of what was.
        rows: Bytes,
        /// Keys of rows that are not there.
        gone: Vec<Bytes>,
    },
    /// The log contains all rows that the giver had when the place's epoch began.
    Whole {
        /// The partition.
        partition: PartitionId,
    },
    /// Other cores assigned versions up to this one. This core assigns only higher versions (R6).
    Versions {
        /// The highest.
        last: Version,
    },
    /// The core takes part in nothing of these tables' earlier epochs any more (R16).
    Sealed {
        /// The epoch.
        epoch: Epoch,
        /// The tables, and whether the core had forgotten nothing of each: then this log is all
        /// there was.
        tables: Vec<(TableId, bool)>,
    },
    /// Every earlier operation of these tables is settled and finished at all members (R5).
    Resolved {
        /// The configuration's epoch.
        epoch: Epoch,
        /// The tables that serve.
        tables: Vec<TableId>,
    },
    /// The core that writes this record holds the partition in a new tenure.
    Given {
        /// The partition.
        partition: PartitionId,
        /// The epoch that gave it.
        since: Epoch,
        /// With which rows.
        start: PartitionStart,
    },
}

/// The rows with which a core begins to hold a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionStart {
    /// No rows: the partition is new, or is filled from a cover. The core's earlier rows are void.
    Empty,
    /// No rows: the core copies those of the giver.
    Taken,
    /// The rows that the core had at its start. They are a hint that is compared with the giver's
    /// rows (R25).
    Compared,
}

/// A completion record in a checkpoint.
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
