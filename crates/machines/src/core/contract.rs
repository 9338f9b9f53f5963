//! The inputs and outputs of a core's machine: closed enums and plain data.
//!
//! The driver (server or simulator) owns sockets, the log and time; it hands in what happened and
//! carries out what comes out, in the order of the fields of [`CoreOutput`]. "Durable before sent"
//! is a field (`after`), never a comment.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use protocol::configuration::{Configuration, ConfigurationChanges};
use protocol::identity::{CoreId, Epoch, Incarnation, Position, SessionId};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage, Reply, Request, Room};

/// Names a client's connection to this core; the driver chooses it and never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// An event that the machine handles.
#[derive(Clone, Debug)]
pub enum CoreInput {
    /// A client asks.
    Request {
        /// Its connection.
        client: ClientId,
        /// Returned with the reply.
        correlation: u64,
        /// The client's request.
        request: Request,
    },
    /// A client's connection is gone: reads that wait for it are dropped, writes go on.
    ClientGone {
        /// The connection.
        client: ClientId,
    },
    /// A message of another core, or of this one.
    Peer {
        /// The sender.
        header: PeerHeader,
        /// What.
        message: PeerMessage,
    },
    /// A connection to a peer is new: messages that the peer has not confirmed are sent again.
    PeerConnected {
        /// The peer.
        core: CoreId,
    },
    /// A configuration was fetched; older ones than the known are ignored.
    Configuration(Arc<Configuration>),
    /// The changes of the configuration since the one that this core knows were fetched.
    Changes(ConfigurationChanges),
    /// The coordinator answered a heartbeat.
    Beat {
        /// When the heartbeat was sent, on this core's monotonic clock.
        sent_us: u64,
        /// The newest epoch.
        epoch: Epoch,
        /// The lease's length, counted from `sent_us`.
        lease_us: u64,
        /// Sessions below this one have ended.
        session_floor: SessionId,
    },
    /// The coordinator announced an epoch.
    NewEpoch(Epoch),
    /// All records up to this one are durable.
    Durable(Position),
    /// The room on the disk, as the storage reports it. Initially for everything.
    Space(Room),
    /// The deadline of the last output has come.
    Tick,
}

/// Actions that the driver is to take. The driver empties it after each step or batch of steps:
/// first appends `records`, then sends what may be sent now, and keeps the rest until its `after`
/// is durable.
#[derive(Debug, Default)]
pub struct CoreOutput {
    /// To be appended to the log, in this order.
    pub records: Vec<LogRecord>,
    /// To peers.
    pub sends: Vec<PeerSend>,
    /// To clients.
    pub replies: Vec<ClientReply>,
    /// To the coordinator.
    pub asks: Vec<CoordinatorRequest>,
    /// When to step with [`CoreInput::Tick`] at the latest, on the monotonic clock; the last one
    /// counts.
    pub deadline_us: Option<u64>,
    /// For the operator's log.
    pub notes: Vec<String>,
}

/// One record for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// Its number; the machine counts, the log must agree.
    pub position: Position,
    /// The epoch it was written in (R24).
    pub epoch: Epoch,
    /// `Sync` asks for a flush now; `Replicated` rides along with the next one.
    pub durability: Durability,
    /// A `record::Record`.
    pub bytes: Vec<u8>,
}

/// A message to another core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerSend {
    /// To whom; can be this core itself, then it is handed in again as [`CoreInput::Peer`].
    pub to: CoreId,
    /// Not before the record of this position is durable; 0 is now.
    pub after: Position,
    /// What.
    pub message: PeerMessage,
}

/// A reply to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReply {
    /// Its connection.
    pub client: ClientId,
    /// From the request.
    pub correlation: u64,
    /// Not before the record of this position is durable; 0 is now.
    pub after: Position,
    /// The lease under which the value was taken, on the monotonic clock: if it is over when the
    /// driver is about to send, `Refusal::NotServing` is sent instead (R15). None needs no
    /// lease.
    pub valid_until_us: Option<u64>,
    /// What.
    pub reply: Reply,
}

/// The name of this core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreIdentity {
    /// The cluster.
    pub cluster: u64,
    /// The core.
    pub core: CoreId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

/// Limits of queues, and intervals in microseconds. Every queue has one.
#[derive(Clone, Copy, Debug)]
pub struct CoreLimits {
    /// Requests under way at this core, and likewise its members of operations that are not
    /// finished everywhere.
    pub operations_max: usize,
    /// Requests waiting at the head behind one pk. Requests that were folded into an operation
    /// which aborts come on top.
    pub requests_per_key_max: usize,
    /// Requests folded into one operation.
    pub folded_requests_max: usize,
    /// Reads waiting for decisions.
    pub waiting_reads_max: usize,
    /// Operations waiting for one key at a member.
    pub waiters_per_key_max: usize,
    /// A wait for a key beyond this is voted `Conflict` (R8).
    pub wait_us_max: u64,
    /// Undecided operations are sent again after this, doubling up to sixteen times it.
    pub retry_us: u64,
    /// Confirmations of durability are gathered for this long.
    pub confirm_us: u64,
    /// Heartbeats to the coordinator and lease requests to peers.
    pub heartbeat_us: u64,
    /// How long a peer's vouching holds, from the moment it was asked for; the coordinator waits
    /// as long before an epoch without this core serves (R15).
    pub lease_us: u64,
    /// A flush of the log that takes longer is taken for a disk that hangs: the core renews no
    /// lease until it ends.
    pub flush_us_max: u64,
    /// Rows of one page are cut at this many bytes.
    pub page_bytes_max: usize,
    /// Keys that one read looks at before it returns a page, however few match.
    pub page_keys_max: usize,
    /// Keys that a member of a cover looks at for one page of a partition that is being filled. A
    /// request that comes meanwhile waits so long.
    pub fill_page_keys_max: usize,
    /// Rows of such a page are cut at this many bytes.
    pub fill_page_bytes_max: usize,
    /// Such pages that a core awaits at a time.
    pub fill_pages_max: usize,
    /// Rows that it sends in one message, of those that cannot wait (R18).
    pub fetched_rows_max: usize,
    /// Bytes of rows per second that members of covers may look at for all partitions that this
    /// core fills, so that they and it have time for requests; those that are taken count five
    /// times more. A row of 100 bytes took a member 0.8 µs to look at, and this core 4 µs to take.
    pub fill_bytes_per_second: u64,
    /// Local entries that one step adds to existing rows, or those of one row. A request that comes
    /// meanwhile waits so long.
    pub entry_page_max: usize,
    /// Such entries that a core gives in a second at most, so that it has time for requests.
    pub entries_per_second: u64,
    /// How long cores hold back operations in the first attempt to open a snapshot; doubled with
    /// each further one.
    pub snapshot_hold_us: u64,
    /// A snapshot whose client does not renew it ends after this.
    pub snapshot_lease_us: u64,
    /// Memory for rows of open snapshots that were replaced since. Beyond it the older snapshots of
    /// the table that takes most of it end.
    pub history_bytes_max: usize,
}

impl Default for CoreLimits {
    fn default() -> Self {
        CoreLimits {
            operations_max: 65_536,
            requests_per_key_max: 1_024,
            folded_requests_max: 256,
            waiting_reads_max: 65_536,
            waiters_per_key_max: 4_096,
            wait_us_max: 5_000_000,
            retry_us: 250_000,
            confirm_us: 20_000,
            heartbeat_us: 150_000,
            lease_us: 1_000_000,
            flush_us_max: 2_000_000,
            page_bytes_max: 1 << 20,
            page_keys_max: 16_384,
            fill_page_keys_max: 512,
            fill_page_bytes_max: 128 << 10,
            fill_pages_max: 8,
            fetched_rows_max: 64,
            fill_bytes_per_second: 256 << 20,
            entry_page_max: 512,
            entries_per_second: 100_000,
            snapshot_hold_us: 20_000,
            snapshot_lease_us: 10_000_000,
            history_bytes_max: 64 << 20,
        }
    }
}
