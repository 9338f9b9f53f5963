//! The inputs and outputs of a client's session machine.
//!
//! The driver (client library or simulator) owns connections and time. It opens the requested
//! connections, writes the outgoing messages, and hands in the answers. A connection must deliver a
//! request at most once, as TCP does: a refusal then speaks for its attempt.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use protocol::configuration::{Configuration, ConfigurationChanges};
use protocol::identity::{CoreId, Epoch, PartitionId, ServerId, SessionId, TableId};
use protocol::message::{ChecksumPart, ChecksumRead, CoordinatorRequest, HoldRelease, Read};
use protocol::message::{
    Refusal, Reply, Request, RowPage, SnapshotFailure, SnapshotReply, SnapshotUse,
};
use protocol::operation::{Mutation, RequestResult};

/// Names one thing that was submitted; the driver chooses it and never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticket(pub u64);

/// An operation of a client. Epochs in it are overwritten by the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionOperation {
    /// Changes, run exactly once, by the core of the primary partition of the first pk.
    Execute {
        /// The table.
        table: TableId,
        /// The mutations: one for now, at least one.
        mutations: Vec<Mutation>,
    },
    /// One page of one partition. Its epoch is that of the configuration by which its copy was
    /// chosen: numbers of copies are used again. It is sent with the epoch that its table has when
    /// it is sent.
    Read(Read),
    /// Ranges of partitions of one table, read as of one moment (R35). Each is as a `Read` whose
    /// limit is that of all its pages together, and whose agreement is overwritten.
    Moment(Vec<Read>),
    /// The end of holds; only the machine itself asks for it.
    Release(HoldRelease),
    /// One part of one partition's checksum.
    Checksum(ChecksumRead),
    /// The counters of a core.
    Status(CoreId),
    /// A snapshot of tables, for reads and checksums that name it.
    OpenSnapshot(Vec<TableId>),
    /// The renewal of a snapshot's lease.
    KeepSnapshot(SnapshotUse),
    /// The end of a statement's share in a snapshot.
    CloseSnapshot(SnapshotUse),
}

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum SessionInput {
    /// Something is wanted.
    Submit {
        /// Its name.
        ticket: Ticket,
        /// The operation.
        operation: SessionOperation,
        /// When to give up, on the monotonic clock.
        deadline_us: u64,
    },
    /// The caller does not wait for it any more. If it is an operation that was sent, it may still
    /// happen.
    Cancel {
        /// Its name.
        ticket: Ticket,
    },
    /// A connection that was asked for is open, and its `Welcome` had this epoch.
    Connected {
        /// The destination.
        core: CoreId,
        /// The core's epoch.
        epoch: Epoch,
    },
    /// A connection broke, or could not be opened.
    Disconnected {
        /// The destination.
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
    /// The changes of the configuration since the known one came from the coordinator.
    Changes(ConfigurationChanges),
    /// The coordinator answered `Fetch`: there is none newer than this.
    Unchanged {
        /// Its epoch.
        epoch: Epoch,
    },
    /// The coordinator opened a session.
    Session {
        /// Its number.
        session: SessionId,
        /// How long to begin requests in it, in microseconds.
        life_us: u64,
    },
    /// The deadline of the last output has come.
    Tick,
}

/// An output of the machine. The driver empties it after each step or batch of steps.
#[derive(Debug, Default)]
pub struct SessionOutput {
    /// Connections to open, at the address in the configuration; each is answered by
    /// [`SessionInput::Connected`] or [`SessionInput::Disconnected`].
    pub connects: Vec<CoreId>,
    /// Requests for connections that are open.
    pub sends: Vec<Attempt>,
    /// For the coordinator: `Fetch` and `OpenSession`. They may be lost; they are asked again.
    pub asks: Vec<CoordinatorRequest>,
    /// The operations that have ended.
    pub completions: Vec<Completion>,
    /// When to step with [`SessionInput::Tick`] at the latest, on the monotonic clock; the last one
    /// counts.
    pub deadline_us: Option<u64>,
}

/// A request on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The destination.
    pub core: CoreId,
    /// Returned with the reply; never reused.
    pub correlation: u64,
    /// The request.
    pub request: Request,
}

/// The end of something submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// Its name.
    pub ticket: Ticket,
    /// How it ended.
    pub outcome: SessionOutcome,
}

/// How something ended.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionOutcome {
    /// The one result of an `Execute`.
    Executed(RequestResult),
    /// A page.
    Rows(RowPage),
    /// The pages of each range of a `Moment`, all as of one moment between its submission and this.
    Moment(Vec<Vec<RowPage>>),
    /// A `Moment` reads more than the limits allow, or its pages never agreed: read page by page,
    /// the rows are of no one moment.
    NoMoment,
    /// A part's sum.
    Checksum(ChecksumPart),
    /// Counters by name.
    Status(Vec<(String, u64)>),
    /// A snapshot is open, kept or closed.
    Snapshot(SnapshotReply),
    /// Certainly nothing was changed, nor will be.
    Failed(SessionFailure),
    /// An operation that may have happened, or may happen yet (R14): never a failure.
    Unknown(SessionFailure),
}

/// Why something did not end with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionFailure {
    /// The deadline passed. May be submitted again.
    Deadline {
        /// The answer of the last core that was asked, if there was one.
        last: Option<Refusal>,
    },
    /// Too much is waiting in this client already. May be submitted again later.
    Full,
    /// The table was dropped.
    TableGone {
        /// The table.
        table: TableId,
    },
    /// The table has no such partition, or the cluster no such core.
    PlaceGone {
        /// The partition, if it was one.
        partition: Option<PartitionId>,
    },
    /// Servers with copies of its rows are down, too many to go on without them. May be submitted
    /// again once one is back.
    Lost {
        /// The partition that was to be read, or at which the write was to begin.
        partition: PartitionId,
        /// The missing part and the remedy, for people.
        message: String,
    },
    /// A server has no space for writes.
    DiskFull {
        /// The server.
        server: ServerId,
    },
    /// There is no such snapshot any more, or none can be opened. The statement may be begun again.
    Snapshot(SnapshotFailure),
    /// The session ended before the request's fate was known.
    SessionEnded,
    /// A core knows another body under the request's number.
    RequestMismatch,
    /// It cannot be done, for any client.
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

/// Limits of queues, and intervals in microseconds. Every queue has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Attempts at one core without an answer; further ones wait here (window).
    pub in_flight_max: usize,
    /// Everything submitted and not ended; further submissions are refused.
    pub requests_max: usize,
    /// Numbers of one session between the lowest without a result and the highest: bounds the
    /// completion records that servers keep for this client (R14).
    pub span_max: u64,
    /// Attempts at one request without an answer; beyond, the oldest counts as lost.
    pub attempts_max: usize,
    /// An attempt without an answer is repeated after this, doubling up to eight times it.
    pub attempt_us: u64,
    /// A read that has had no answer for so long makes its core suspected, if nothing else was
    /// received from the core since either.
    pub silent_us: u64,
    /// So many connections that broke or did not open, with no answer between, make it suspected
    /// too.
    pub failures_suspected: u32,
    /// For so long reads go around a core that is suspected, where other copies have their rows.
    pub suspect_us: u64,
    /// A read of lost rows without another copy waits for so long.
    pub lost_us: u64,
    /// The first pause after a refusal or a broken connection, doubling up to `pause_us_max`.
    pub pause_us: u64,
    /// The longest pause.
    pub pause_us_max: u64,
    /// Questions to the coordinator are asked again after this, doubling up to eight times it.
    pub ask_us: u64,
    /// Rows that one `Moment` reads at most.
    pub moment_rows_max: u64,
    /// Bytes of rows that it reads at most.
    pub moment_bytes_max: usize,
    /// Pages that it reads at most, beyond the first of each range.
    pub moment_pages_max: usize,
    /// Ranges of it that are read at a time.
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
