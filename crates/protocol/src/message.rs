//! Messages between clients, cores and the coordinator.
//!
//! One closed enum per direction. Every request of a client and every message between cores about a
//! table carries the sender's epoch of the table (R15). If the receiver has another one, it refuses
//! the message. A client then gets the core's epoch of the table, a core with an older
//! configuration gets the newer epoch, and the older side fetches. `codec` encodes messages as
//! bytes, and `frame` puts these into frames.

mod checksum;
mod coordinator;
mod row_page;
mod statistics;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::codec::{Bytes, wire_enum, wire_struct};
use crate::identity::{
    CoreId, Epoch, FinishedLine, Incarnation, OperationId, PartitionId, RequestId, TableId, Version,
};
use crate::operation::{Decision, Mutation, Prepare, RequestResult};
use crate::record::SavedCompletion;
use crate::transaction::{Transact, TransactionMessage};

pub use crate::read::{Agreement, Consistency, KEYS_MAX, Read, Redirect};
pub use crate::refusal::Refusal;
pub use crate::snapshot::{
    OpenedSnapshot, SnapshotFailure, SnapshotMessage, SnapshotReply, SnapshotRequest, SnapshotUse,
};
pub use checksum::{ChecksumPart, ChecksumRead};
pub use coordinator::{
    CoordinatorReply, CoordinatorRequest, CopyFailure, FillReport, FolderReport, OBSTACLES_MAX,
    RANGE_REPORTS_MAX, RangeReport, RecallReport, SealReport, SealStage, Shortage,
};
pub use row_page::RowPage;
pub use statistics::{PartitionStatistics, StatisticsRead};

/// A message that a frame can contain.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// The first message on every connection.
    Hello(Hello),
    /// The answer to `Hello`.
    Welcome(Welcome),
    /// A request of a client to a core.
    Request(Request),
    /// A reply of a core to a client.
    Reply(Reply),
    /// A message between cores.
    Peer(PeerHeader, PeerMessage),
    /// A request to the coordinator.
    Ask(CoordinatorRequest),
    /// A reply of the coordinator.
    Answer(CoordinatorReply),
    /// The sender is about to close the connection, for this reason.
    Goodbye {
        /// For people.
        reason: String,
    },
    /// The event loop answers with the same bytes: the `echo` baseline.
    Echo(Bytes),
    /// Asks any coordinator for the leader, with or without a `Hello` before it.
    FindLeader,
    /// The answer to `FindLeader`. A standby also answers any other message with it, and then
    /// closes the connection.
    Leadership(Leadership),
}

/// The first message of the side that opens a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The expected cluster, if the sender knows it.
    pub cluster: Option<u64>,
    /// The core that opens the connection, if a core does.
    pub core: Option<(CoreId, Incarnation)>,
}

/// The first message of the side that accepts a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The cluster.
    pub cluster: u64,
    /// The core that answers; none for a coordinator.
    pub core: Option<(CoreId, Incarnation)>,
    /// The epoch of the sender's configuration.
    pub epoch: Epoch,
}

/// The leading coordinator, as another coordinator knows it. It is a hint, because the leader may
/// change at any moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// Whether the sender leads.
    pub leads: bool,
    /// `host:port` of the leader. None while no coordinator leads, or if the sender does not know
    /// it.
    pub leader: Option<String>,
    /// The addresses of the standby coordinators.
    pub standbys: Vec<String>,
    /// The location of the state, as text for people.
    pub kept_in: String,
}

impl fmt::Display for Leadership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.leader {
            _ if self.leads => write!(f, "it leads"),
            Some(leader) => write!(f, "it stands by; {leader} leads"),
            None => write!(f, "it stands by, and knows no leader"),
        }
    }
}

/// A request of a client to a core.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Runs an operation. Sent to the core of its primary partition.
    Execute(Execute),
    /// Reads rows of one partition.
    Read(Read),
    /// Counts and checksums a part of one partition.
    Checksum(ChecksumRead),
    /// Estimates about the rows of one partition.
    Statistics(StatisticsRead),
    /// Returns the core's counters.
    Status,
    /// Ends holds, and reports whether their ranges are unchanged since they were read.
    Release(HoldRelease),
    /// Opens, keeps or closes a snapshot. Sent to a core of one of its tables.
    Snapshot(SnapshotRequest),
    /// Runs a transaction. Sent to the first core of its walk.
    Transact(Transact),
}

/// An operation. The client repeats it under the same name until it knows the result (R13).
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The request's name.
    pub request: RequestId,
    /// All requests of the session with lower numbers are acknowledged (R14).
    pub acknowledged_below: u64,
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The table.
    pub table: TableId,
    /// The primary partition, as the client has computed it.
    pub partition: PartitionId,
    /// The mutations to execute: exactly one in this release. The format allows more.
    pub mutations: Vec<Mutation>,
}

/// Ends holds of one connection on one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRelease {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// The correlations of the reads that were answered with a hold.
    pub holds: Vec<u64>,
}

/// A reply of a core to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Answers `Execute` with its result.
    Executed(RequestResult),
    /// Answers `Read` with a page.
    Rows(RowPage),
    /// Answers `Checksum` with the sum of a part.
    Checksum(ChecksumPart),
    /// Answers `Statistics`.
    Statistics(PartitionStatistics),
    /// Answers `Status` with the counters by name.
    Status(Vec<(String, u64)>),
    /// Answers `Release`: whether all holds lasted until now and their ranges are unchanged since
    /// they were read.
    Released(bool),
    /// Answers `Snapshot`.
    Snapshot(SnapshotReply),
    /// The core refuses the request. This attempt changed nothing.
    Refused(Refusal),
}

/// The header of every message between cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerHeader {
    /// The sender.
    pub from: CoreId,
    /// The sender's incarnation. Receivers drop messages of older ones.
    pub incarnation: Incarnation,
    /// The epoch of the sender's configuration.
    pub epoch: Epoch,
    /// The epoch of the message's table at the sender (R15); 0 if the message concerns no table.
    pub table_epoch: Epoch,
}

/// The writes for which a core's disk has space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Room {
    /// All writes.
    #[default]
    Free,
    /// Only deletes, and updates that make no row longer.
    Reserve,
    /// No writes, until deleted rows or an operator have made space.
    Full,
}

/// The messages between cores.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// Phase 1: to the next partition of the chain.
    Prepare(Arc<Prepare>),
    /// Phase 2: to the previous partition of the chain.
    Decision {
        /// The operation.
        operation: OperationId,
        /// The member it is for (a core can hold several of one chain).
        to: PartitionId,
        /// The outcome.
        decision: Decision,
        /// Whether it is durable at position x, so that any client may see it (R3).
        settled: bool,
    },
    /// To the next partition of the chain: the decision is durable at position x (R3).
    Settled {
        /// The operation.
        operation: OperationId,
        /// The member it is for.
        to: PartitionId,
    },
    /// To the previous partition: these decisions are durable at the sender and at all members
    /// after it.
    Durable {
        /// Operation and the sender's member of it, all of one table.
        operations: Vec<(OperationId, PartitionId)>,
    },
    /// To the next partition: the sender has these decisions, but does not know whether they are
    /// durable after it. The receiver answers `Durable`, or passes the message on.
    Confirm {
        /// Operation and the member it is for, and whether it is settled; all of one table.
        operations: Vec<(OperationId, PartitionId, bool)>,
    },
    /// From a side member to the decider: the sender has the prepare, durably where the table
    /// requires that (R48).
    Reported {
        /// The operation.
        operation: OperationId,
        /// The decider's partition.
        to: PartitionId,
        /// The number of the side member.
        side: u8,
    },
    /// All operations of the sender before this one are finished at every member.
    Finished(FinishedLine),
    /// A restarted core requests the votes and outcomes that it may have forgotten: votes that it
    /// sent before they were durable (R1), and decisions that were in the lost tail of its log.
    Recover {
        /// The table whose operations it is about.
        table: TableId,
        /// Names the attempt.
        attempt: u64,
    },
    /// Answers `Recover`: one operation that the restarted core is a member of.
    Adopt {
        /// The attempt it answers.
        attempt: u64,
        /// The operation with all votes that the sender knows.
        prepare: Arc<Prepare>,
        /// The operation's decision, if the sender knows it, and whether it is settled.
        decision: Option<(Decision, bool)>,
    },
    /// Ends the answers to `Recover`.
    RecoverEnd {
        /// The table whose operations it is about.
        table: TableId,
        /// The attempt it answers.
        attempt: u64,
        /// How many `Adopt` belong to it.
        count: u64,
        /// Every operation of the sender's before this one is finished.
        finished_below: FinishedLine,
    },
    /// Asks a peer to vouch for the sender, as of the epoch of the peer's configuration. This
    /// renews the sender's leases. It also reports the room on the sender's disk, because peers
    /// must know of a full disk before they use up its reserve. It repeats the sender's line, so
    /// that a lost `Finished` does not make a peer keep operations, and the log behind them, until
    /// the next one.
    LeaseRequest {
        /// The requesting core's monotonic clock, which the answer returns unchanged.
        sent_us: u64,
        /// The room on its disk.
        room: Room,
        /// Every operation of the sender's before this one is finished.
        finished_below: FinishedLine,
    },
    /// Vouches for the receiver. Also reports the room on the sender's disk.
    LeaseGrant {
        /// From the request.
        sent_us: u64,
        /// The room on its disk.
        room: Room,
    },
    /// The sender's epoch is newer than that of the receiver's last message.
    NewerEpoch {
        /// The sender's.
        epoch: Epoch,
    },
    /// Asks a member of a cover for rows of partitions that are being filled.
    Copy {
        /// The partitions, of one table.
        of: Vec<PartitionId>,
        /// The member of its cover.
        from: PartitionId,
        /// Where to continue, in the member's own order.
        start: Bytes,
    },
    /// Answers `Copy` with a page of rows.
    Copied {
        /// From the question.
        of: PartitionId,
        /// From the question.
        from: PartitionId,
        /// From the question.
        start: Bytes,
        /// The rows, and where to continue.
        page: RowPage,
        /// A hash of them.
        sum: u64,
        /// The number of rows that the core visited for the page.
        looked: ScanCounts,
    },
    /// Asks a member of a cover for rows that are needed at once (R18): the last rows of each of
    /// some ranges, in the order of the partition that is being filled.
    Fetch {
        /// The partition that is filled.
        of: PartitionId,
        /// The member of its cover.
        from: PartitionId,
        /// Names this way through the member's rows.
        pass: u64,
        /// The prefix of the keys of a range, and the first key beyond it, if that is not the
        /// prefix's end.
        wanted: Vec<(Bytes, Option<Bytes>)>,
        /// Where to continue, in the member's own order.
        start: Bytes,
    },
    /// Answers `Fetch` with the rows that were found.
    Fetched {
        /// From the question.
        of: PartitionId,
        /// From the question.
        from: PartitionId,
        /// From the question.
        pass: u64,
        /// From the question.
        start: Bytes,
        /// The rows, and where to continue.
        page: RowPage,
        /// Ranges of which rows were left out, and the lowest key that was not.
        complete_from: Vec<(Bytes, Bytes)>,
    },
    /// Asks a core for its completion records about a partition that is being filled (R13).
    CopyCompletions {
        /// The partition that is filled.
        of: PartitionId,
        /// Where to continue.
        start: RequestId,
    },
    /// Answers `CopyCompletions` with a page of records.
    CopiedCompletions {
        /// From the question.
        of: PartitionId,
        /// From the question.
        start: RequestId,
        /// The records.
        completions: Vec<SavedCompletion>,
        /// Where to continue, if the page is not the last.
        next: Option<RequestId>,
        /// The highest version that the core has seen (R6).
        last_version: Version,
    },
    /// The taker of a partition sends hashes of its rows, and asks the giver for the differences.
    Compare {
        /// The partition.
        of: PartitionId,
        /// Names the question.
        question: u64,
        /// Where to begin.
        start: Bytes,
        /// Ranges, one after the other, by where they end (none is the end of all), and a hash of
        /// the rows that the requesting core has there.
        ranges: Vec<(Option<Bytes>, u64)>,
    },
    /// Answers `Compare` with as many differences as fit.
    Compared {
        /// From the question.
        of: PartitionId,
        /// From the question.
        question: u64,
        /// Names the list of keys that have changed since the giver began it.
        list: u64,
        /// How many changes it has.
        changes: u64,
        /// Parts of the ranges, whose rows all follow.
        differing: Vec<(Bytes, Option<Bytes>)>,
        /// The rows, and where to continue.
        page: RowPage,
        /// The bytes of the rows that the core visited for the page.
        looked_at_bytes: u64,
    },
    /// The taker of a partition asks the giver which rows have changed.
    Changes {
        /// The partition.
        of: PartitionId,
        /// Names the question.
        question: u64,
        /// From [`PeerMessage::Compared`].
        list: u64,
        /// How many changes of the list the requesting core has.
        since: u64,
    },
    /// Answers `Changes` with the present values of changed rows.
    Changed {
        /// From the question.
        of: PartitionId,
        /// From the question.
        question: u64,
        /// The list that there is: if it is another one, its changes are unknown and everything is
        /// to be compared again.
        list: u64,
        /// Changed rows that are there.
        page: RowPage,
        /// Keys of changed rows that are not.
        gone: Vec<Bytes>,
        /// How many changes of the list the requesting core has, including these.
        until: u64,
        /// Whether these were all.
        is_all: bool,
    },
    /// A core that seals a table asks what the receiver's log has about operations that both take
    /// part in. The receiver answers once its own seal is durable (R4, R16).
    AskSealed {
        /// The table whose operations it is about.
        table: TableId,
        /// Names the attempt.
        attempt: u64,
    },
    /// Answers `AskSealed`: one such operation.
    Witness {
        /// The sealed table. A transaction can have members of other tables.
        table: TableId,
        /// The attempt it answers.
        attempt: u64,
        /// The operation with all votes that the sender knows; its own is the last.
        prepare: Arc<Prepare>,
        /// The operation's decision, if the sender knows it, and the epoch of the resolution it
        /// comes from, if from one.
        decision: Option<(Decision, Option<Epoch>)>,
    },
    /// Ends the answers to `AskSealed`.
    WitnessEnd {
        /// The table whose operations it is about.
        table: TableId,
        /// The attempt it answers.
        attempt: u64,
        /// How many `Witness` belong to it.
        count: u64,
        /// Whether the sender has never crashed or has caught up since: then there was nothing
        /// else. Otherwise it reports other operations as *unknown*.
        forgot_nothing: bool,
    },
    /// Opens, keeps or ends a snapshot.
    Snapshot(SnapshotMessage),
    /// About a transaction.
    Transaction(TransactionMessage),
}

impl PeerMessage {
    /// Returns the table that the message concerns. Returns none if it concerns several tables, or
    /// none.
    pub fn table(&self) -> Option<TableId> {
        match self {
            PeerMessage::Prepare(prepare) | PeerMessage::Adopt { prepare, .. } => {
                Some(prepare.table)
            }
            PeerMessage::Decision { to, .. }
            | PeerMessage::Settled { to, .. }
            | PeerMessage::Reported { to, .. } => Some(to.table),
            PeerMessage::Durable { operations } => operations.first().map(|it| it.1.table),
            PeerMessage::Confirm { operations } => operations.first().map(|it| it.1.table),
            PeerMessage::Recover { table, .. }
            | PeerMessage::RecoverEnd { table, .. }
            | PeerMessage::AskSealed { table, .. }
            | PeerMessage::Witness { table, .. }
            | PeerMessage::WitnessEnd { table, .. } => Some(*table),
            PeerMessage::Copy { from, .. } => Some(from.table),
            PeerMessage::Copied { of, .. }
            | PeerMessage::Fetch { of, .. }
            | PeerMessage::Fetched { of, .. }
            | PeerMessage::CopyCompletions { of, .. }
            | PeerMessage::CopiedCompletions { of, .. }
            | PeerMessage::Compare { of, .. }
            | PeerMessage::Compared { of, .. }
            | PeerMessage::Changes { of, .. }
            | PeerMessage::Changed { of, .. } => Some(of.table),
            PeerMessage::Finished(_)
            | PeerMessage::LeaseRequest { .. }
            | PeerMessage::LeaseGrant { .. }
            | PeerMessage::NewerEpoch { .. }
            | PeerMessage::Snapshot(_)
            | PeerMessage::Transaction(_) => None,
        }
    }

    /// Returns whether the message belongs to a chain, so that it is dropped while the table's
    /// chains are stopped.
    pub fn is_of_chain(&self) -> bool {
        match self {
            PeerMessage::Prepare(_)
            | PeerMessage::Decision { .. }
            | PeerMessage::Settled { .. }
            | PeerMessage::Reported { .. }
            | PeerMessage::Durable { .. }
            | PeerMessage::Confirm { .. }
            | PeerMessage::Recover { .. }
            | PeerMessage::Adopt { .. }
            | PeerMessage::RecoverEnd { .. }
            | PeerMessage::Copy { .. }
            | PeerMessage::Copied { .. }
            | PeerMessage::Fetch { .. }
            | PeerMessage::Fetched { .. }
            | PeerMessage::CopyCompletions { .. }
            | PeerMessage::CopiedCompletions { .. }
            | PeerMessage::Compare { .. }
            | PeerMessage::Compared { .. }
            | PeerMessage::Changes { .. }
            | PeerMessage::Changed { .. } => true,
            PeerMessage::Finished(_)
            | PeerMessage::LeaseRequest { .. }
            | PeerMessage::LeaseGrant { .. }
            | PeerMessage::NewerEpoch { .. }
            | PeerMessage::AskSealed { .. }
            | PeerMessage::Witness { .. }
            | PeerMessage::WitnessEnd { .. }
            | PeerMessage::Snapshot(_)
            | PeerMessage::Transaction(_) => false,
        }
    }
}

/// How much a member of a cover read for one page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// The number of rows.
    pub rows: u64,
    /// The bytes of these rows.
    pub bytes: u64,
    /// In the first page the approximate number of rows of the member; otherwise 0.
    pub of_rows: u64,
}

wire_enum!(Message {
    0 => Hello(hello), 1 => Welcome(welcome), 2 => Request(request), 3 => Reply(reply),
    4 => Peer(header, message), 5 => Ask(request), 6 => Answer(reply),
    7 => Goodbye { reason }, 8 => Echo(bytes), 9 => FindLeader, 10 => Leadership(leadership),
});
wire_struct!(Hello { cluster, core });
wire_struct!(Leadership {
    leads,
    leader,
    standbys,
    kept_in,
});
wire_struct!(Welcome {
    cluster,
    core,
    epoch
});
wire_enum!(Request { 0 => Execute(execute), 1 => Read(read), 2 => Checksum(read), 3 => Status,
    4 => Release(release), 5 => Snapshot(request), 6 => Statistics(read), 7 => Transact(transact) });
wire_struct!(Execute {
    request,
    acknowledged_below,
    epoch,
    table,
    partition,
    mutations
});
wire_struct!(HoldRelease {
    epoch,
    partition,
    holds
});
wire_enum!(Reply {
    0 => Executed(result), 1 => Rows(page), 2 => Checksum(part), 3 => Status(counters),
    4 => Refused(refusal), 5 => Released(unchanged), 6 => Snapshot(reply),
    7 => Statistics(statistics),
});
wire_struct!(ScanCounts {
    rows,
    bytes,
    of_rows
});
wire_enum!(Room { 0 => Free, 1 => Reserve, 2 => Full });
wire_struct!(PeerHeader {
    from,
    incarnation,
    epoch,
    table_epoch
});
wire_enum!(PeerMessage {
    0 => Prepare(prepare), 1 => Decision { operation, to, decision, settled },
    2 => Settled { operation, to }, 3 => Durable { operations }, 4 => Confirm { operations },
    5 => Finished(below), 6 => Recover { table, attempt },
    7 => Adopt { attempt, prepare, decision }, 8 => RecoverEnd { table, attempt, count, finished_below },
    9 => LeaseRequest { sent_us, room, finished_below }, 10 => LeaseGrant { sent_us, room },
    11 => NewerEpoch { epoch }, 12 => AskSealed { table, attempt },
    13 => Witness { table, attempt, prepare, decision },
    14 => WitnessEnd { table, attempt, count, forgot_nothing },
    15 => Reported { operation, to, side },
    16 => Copy { of, from, start }, 17 => Copied { of, from, start, page, sum, looked },
    18 => Fetch { of, from, pass, wanted, start },
    19 => Fetched { of, from, pass, start, page, complete_from },
    20 => CopyCompletions { of, start },
    21 => CopiedCompletions { of, start, completions, next, last_version },
    22 => Compare { of, question, start, ranges },
    23 => Compared { of, question, list, changes, differing, page, looked_at_bytes },
    24 => Changes { of, question, list, since },
    25 => Changed { of, question, list, page, gone, until, is_all }, 26 => Snapshot(message),
    27 => Transaction(message),
});
