//! The inputs and outputs of a client's session machine.
//!
//! The driver (client library or simulator) owns connections and time. It opens the requested
//! connections, sends the outgoing messages, and passes the answers to the machine. A connection
//! must deliver a request at most once, as TCP does. So a refusal is certainly about its own
//! attempt.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use protocol::configuration::{Configuration, ConfigurationChanges};
use protocol::identity::{CoreId, Epoch, PartitionId, ServerId, SessionId, TableId};
use protocol::message::{
    ChecksumPart, ChecksumRead, CoordinatorRequest, HoldRelease, PartitionStatistics, Read,
    StatisticsRead,
};
use protocol::message::{
    Refusal, Reply, Request, RowPage, SnapshotFailure, SnapshotReply, SnapshotUse,
};
use protocol::operation::{Mutation, RequestResult};
use protocol::transaction::{RangeCheck, RowCheck, TransactionChange};

/// Identifies a submitted operation. The driver chooses the number and never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// The epoch by which operations are planned that mean the same in every configuration.
pub const ANY_EPOCH: Epoch = Epoch(u64::MAX);

/// An operation of a client. The machine overwrites the epochs in it.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionOperation {
    /// Mutations that the core of the first mutation's primary partition runs exactly once.
    Execute {
        /// The table.
        table: TableId,
        /// The mutations: one for now, at least one.
        mutations: Vec<Mutation>,
        /// The epoch of the configuration by which the caller made them (R50).
        planned: Epoch,
    },
    /// A transaction, which the core of its first primary runs exactly once (R45). At least one
    /// change.
    Transact {
        /// The changes, in order.
        changes: Vec<TransactionChange>,
        /// The rows that must be as the caller has read them.
        checks: Vec<RowCheck>,
        /// Ranges that must be as they were read.
        ranges: Vec<RangeCheck>,
        /// The epoch of the oldest configuration by which the caller made them (R50).
        planned: Epoch,
    },
    /// A read of one page of one partition. Its epoch is that of the configuration from which the
    /// copy was chosen, because numbers of copies are reused. The machine sends it with the table's
    /// epoch at the time of sending.
    Read(Read),
    /// Reads of several ranges of one table, as of one moment (R35). The limit of each `Read`
    /// applies to all pages of its range. The machine overwrites its agreement.
    Moment(Vec<Read>),
    /// A release of holds. Only the machine itself submits it.
    Release(HoldRelease),
    /// A read of one part of a partition's checksum.
    Checksum(ChecksumRead),
    /// A read of a partition's statistics.
    Statistics(StatisticsRead),
    /// A read of a core's counters.
    Status(CoreId),
    /// Opens a snapshot of tables, for reads and checksums that name it.
    OpenSnapshot(Vec<TableId>),
    /// Renews a snapshot's lease.
    KeepSnapshot(SnapshotUse),
    /// Ends a statement's lease on a snapshot.
    CloseSnapshot(SnapshotUse),
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum SessionInput {
    /// The driver submits an operation.
    Submit {
        /// The name of the request.
        ticket: Ticket,
        /// The operation.
        operation: SessionOperation,
        /// When to give up, on the monotonic clock.
        deadline_us: u64,
    },
    /// The caller no longer waits for the operation. If it was sent, it may still take effect.
    Cancel {
        /// The name of the request.
        ticket: Ticket,
    },
    /// A requested connection is open. `epoch` is that of its `Welcome`.
    Connected {
        /// The core that receives the message.
        core: CoreId,
        /// The core's epoch.
        epoch: Epoch,
    },
    /// A connection broke or could not be opened.
    Disconnected {
        /// The core that receives the message.
        core: CoreId,
    },
    /// A core answered.
    Reply {
        /// The core.
        core: CoreId,
        /// Which attempt.
        correlation: u64,
        /// The reply.
        reply: Reply,
    },
    /// The coordinator answered `Fetch` with a configuration.
    Configuration(Arc<Configuration>),
    /// The coordinator answered `Fetch` with the changes since the known configuration.
    Changes(ConfigurationChanges),
    /// The coordinator answered `Fetch`: the known configuration is the newest.
    Unchanged {
        /// The epoch of that configuration.
        epoch: Epoch,
    },
    /// The coordinator announced an epoch.
    NewEpoch {
        /// The epoch. Its configuration can be fetched.
        epoch: Epoch,
    },
    /// The coordinator opened a session.
    Session {
        /// The number of the new session.
        session: SessionId,
        /// How long to begin requests in it, in microseconds.
        life_us: u64,
    },
    /// The deadline of the last output has passed.
    Tick,
}

/// An output of the machine. The driver empties it after each step or batch of steps.
#[derive(Debug, Default)]
pub struct SessionOutput {
    /// Cores to connect to, at their addresses in the configuration. The driver answers each with
    /// [`SessionInput::Connected`] or [`SessionInput::Disconnected`].
    pub connects: Vec<CoreId>,
    /// Requests to send over open connections.
    pub sends: Vec<Attempt>,
    /// Requests to the coordinator: `Fetch` and `OpenSession`. If one is lost, the machine repeats
    /// it.
    pub asks: Vec<CoordinatorRequest>,
    /// The operations that have ended.
    pub completions: Vec<Completion>,
    /// The latest time for the next [`SessionInput::Tick`], on the monotonic clock. A later output
    /// replaces it.
    pub deadline_us: Option<u64>,
}

/// One attempt to send a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The core that receives the message.
    pub core: CoreId,
    /// The number that the reply repeats. It is never reused.
    pub correlation: u64,
    /// The request.
    pub request: Request,
}

/// The end of a submitted operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// The ticket of the operation.
    pub ticket: Ticket,
    /// The outcome of the request.
    pub outcome: SessionOutcome,
}

/// The pages of ranges, all as of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MomentPages {
    /// The pages of each range.
    pub ranges: Vec<Vec<RowPage>>,
    /// How often the ranges were read until their pages agreed.
    pub rounds: u32,
}

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionOutcome {
    /// The result of an `Execute` or a `Transact`.
    Executed(RequestResult),
    /// A page of rows.
    Rows(RowPage),
    /// The pages of each range of a `Moment`. All show one moment between the submission and this
    /// outcome.
    Moment(MomentPages),
    /// A `Moment` exceeds the limits, or its pages never agreed. The caller can read it page by
    /// page, but the rows then show no single moment.
    NoMoment,
    /// The checksum of a part.
    Checksum(ChecksumPart),
    /// The statistics of a partition.
    Statistics(PartitionStatistics),
    /// A core's counters by name.
    Status(Vec<(String, u64)>),
    /// A snapshot was opened, kept or closed.
    Snapshot(SnapshotReply),
    /// The operation failed, and certainly changes nothing.
    Failed(SessionFailure),
    /// The operation may have taken effect, or may still take effect (R14). The caller must not
    /// treat it as failed.
    Unknown(SessionFailure),
}

/// The reason why an operation has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFailure {
    /// The deadline passed. The caller may submit the operation again.
    Deadline {
        /// The answer of the last core that was asked, if there was one.
        last: Option<Refusal>,
    },
    /// Too many operations wait in this client. The caller may submit it again later.
    Full,
    /// The table was dropped.
    TableGone {
        /// The table.
        table: TableId,
    },
    /// The table has other columns than the caller knew. The caller may make the operation again,
    /// by the newest configuration.
    ColumnsChanged {
        /// The table.
        table: TableId,
    },
    /// The table has no such partition, or the cluster has no such core.
    PlaceGone {
        /// The partition, if it was one.
        partition: Option<PartitionId>,
    },
    /// Too many servers with copies of the rows are down to continue without them. The caller may
    /// submit the operation again once one of them is back.
    Lost {
        /// The partition that was to be read, or at which the write was to begin.
        partition: PartitionId,
        /// The missing part and the remedy, for people.
        message: String,
    },
    /// A server of the chain has no disk space.
    DiskFull {
        /// The server.
        server: ServerId,
    },
    /// The snapshot has ended, or none can be opened. The caller may begin the statement again.
    Snapshot(SnapshotFailure),
    /// The session ended before the outcome of the request was known.
    SessionEnded,
    /// The core knows a request with the same number and another body.
    RequestMismatch,
    /// The operation is invalid, for any client.
    Invalid {
        /// For people.
        message: String,
    },
}

impl fmt::Display for SessionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionFailure::Deadline { last: None } => {
                write!(f, "no answer came before the deadline")
            }
            SessionFailure::Deadline { last: Some(last) } => {
                write!(f, "the deadline passed; the last answer was: {last}")
            }
            SessionFailure::Full => write!(
                f,
                "too many requests wait in this client: submit fewer at a time"
            ),
            SessionFailure::TableGone { table } => {
                write!(f, "table number {} was dropped", table.0)
            }
            SessionFailure::ColumnsChanged { table } => write!(
                f,
                "the columns of table number {} have changed: look the table up again",
                table.0
            ),
            SessionFailure::PlaceGone { partition: None } => {
                write!(f, "the cluster has no such server core")
            }
            SessionFailure::PlaceGone {
                partition: Some(partition),
            } => write!(
                f,
                "there is no {partition} any more: look the table up again"
            ),
            SessionFailure::DiskFull { server } => write!(
                f,
                "server {} has no room on its disk for this write: make room there, or start another \
                 server for its partitions to move to",
                server.0
            ),
            SessionFailure::Snapshot(failure) => failure.fmt(f),
            SessionFailure::SessionEnded => write!(
                f,
                "the client was silent so long that its session ended before the answer came"
            ),
            SessionFailure::RequestMismatch => write!(
                f,
                "the server knows another request under this session and number: open a new client"
            ),
            SessionFailure::Invalid { message } | SessionFailure::Lost { message, .. } => {
                f.write_str(message)
            }
        }
    }
}

/// Limits of queues, and intervals in microseconds. Every queue has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// The most unanswered attempts at one core. Further requests to the core wait in the client.
    pub in_flight_max: usize,
    /// The most submitted operations that have not ended. Further ones are refused.
    pub requests_max: usize,
    /// The largest distance between the lowest number of a session without a result and the
    /// highest. It limits the completion records that servers keep for this client (R14).
    pub span_max: u64,
    /// The most unanswered attempts at one request. Beyond it the oldest attempt counts as lost.
    pub attempts_max: usize,
    /// The time after which an attempt without an answer is repeated. It doubles up to eight times
    /// this value.
    pub attempt_us: u64,
    /// The time after which an unanswered read makes its core suspected, if nothing else arrived
    /// from the core either.
    pub silent_us: u64,
    /// The number of consecutive connections that broke or did not open, after which their core is
    /// suspected.
    pub failures_suspected: u32,
    /// The time for which reads avoid a suspected core, if other copies have the rows.
    pub suspect_us: u64,
    /// The time for which a read waits if all copies of its rows are lost.
    pub lost_us: u64,
    /// The first pause after a refusal or a broken connection. It doubles up to `pause_us_max`.
    pub pause_us: u64,
    /// The longest pause.
    pub pause_us_max: u64,
    /// The time after which a request to the coordinator is repeated. It doubles up to eight times
    /// this value.
    pub ask_us: u64,
    /// The most rows that one `Moment` reads.
    pub moment_rows_max: u64,
    /// The most bytes of rows that one `Moment` reads.
    pub moment_bytes_max: usize,
    /// The most pages that one `Moment` reads beyond the first page of each range.
    pub moment_pages_max: usize,
    /// The most ranges that one `Moment` reads at a time.
    pub moment_reads_max: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits {
            in_flight_max: 1_024,
            requests_max: 65_536,
            span_max: 65_536,
            attempts_max: 4,
            attempt_us: 1_000_000,
            silent_us: 200_000,
            failures_suspected: 2,
            suspect_us: 1_000_000,
            lost_us: 2_000_000,
            pause_us: 2_000,
            pause_us_max: 250_000,
            ask_us: 100_000,
            moment_rows_max: 16_384,
            moment_bytes_max: 4 << 20,
            moment_pages_max: 16,
            moment_reads_max: 64,
        }
    }
}
