//! The inputs and outputs of a core's machine, as closed enums and plain data.
//!
//! The driver (server or simulator) owns sockets, the log and time. It passes inputs to the
//! machine, and carries out the output in the order of the fields of [`CoreOutput`]. "Durable
//! before sent" is a field (`after`), not a comment.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use protocol::configuration::{Configuration, ConfigurationChanges};
use protocol::identity::{CoreId, Epoch, Incarnation, Position, SessionId};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage, Reply, Request, Room};

/// Identifies a client's connection to this core. The driver chooses the number and never reuses
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// An input of the machine.
#[derive(Clone, Debug)]
pub enum CoreInput {
    /// A client sends a request.
    Request {
        /// The client's connection.
        client: ClientId,
        /// Returned with the reply.
        correlation: u64,
        /// The client's request.
        request: Request,
    },
    /// A client's connection has ended. The machine drops its waiting reads; its writes continue.
    ClientGone {
        /// The connection.
        client: ClientId,
    },
    /// A message of another core, or of this core.
    Peer {
        /// The sender.
        header: PeerHeader,
        /// The message.
        message: PeerMessage,
    },
    /// A connection to a peer was opened. The machine sends messages again that the peer has not
    /// confirmed.
    PeerConnected {
        /// The peer.
        core: CoreId,
    },
    /// A fetched configuration. The machine ignores it if it has a newer one.
    Configuration(Arc<Configuration>),
    /// The changes since the configuration that this core has, fetched from the coordinator.
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
    /// All records up to this position are durable.
    Durable(Position),
    /// The room on the disk changed. At first the disk has room for all writes.
    Space(Room),
    /// The deadline of the last output has come.
    Tick,
}

/// The output of the machine. The driver empties it after each step or batch of steps. It first
/// appends `records`, then sends all messages and replies whose `after` is durable, and keeps the
/// others until theirs is.
#[derive(Debug, Default)]
pub struct CoreOutput {
    /// Records to append to the log, in this order.
    pub records: Vec<LogRecord>,
    /// Messages to peers.
    pub sends: Vec<PeerSend>,
    /// Replies to clients.
    pub replies: Vec<ClientReply>,
    /// Requests to the coordinator.
    pub asks: Vec<CoordinatorRequest>,
    /// The latest time for the next [`CoreInput::Tick`], on the monotonic clock. A later output
    /// replaces it.
    pub deadline_us: Option<u64>,
    /// Lines for the operator's log.
    pub notes: Vec<String>,
}

/// One record for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The record's position in the log. The machine counts positions, and the log must agree.
    pub position: Position,
    /// The epoch in which the record was written (R24).
    pub epoch: Epoch,
    /// `Sync` requests a flush now. `Replicated` waits for the next flush.
    pub durability: Durability,
    /// The encoded [`protocol::record::Record`].
    pub bytes: Vec<u8>,
}

/// A message to another core.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerSend {
    /// The receiver. It may be this core itself: then the driver passes the message back as
    /// [`CoreInput::Peer`].
    pub to: CoreId,
    /// The position that must be durable before the message is sent; 0 sends it now.
    pub after: Position,
    /// The message.
    pub message: PeerMessage,
}

/// A reply to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientReply {
    /// The client's connection.
    pub client: ClientId,
    /// The correlation of the request.
    pub correlation: u64,
    /// The position that must be durable before the reply is sent; 0 sends it now.
    pub after: Position,
    /// The end of the lease under which the rows were read, on the monotonic clock. If it has
    /// passed when the driver is about to send, the driver sends `Refusal::NotServing` instead
    /// (R15). None needs no lease.
    pub valid_until_us: Option<u64>,
    /// The reply.
    pub reply: Reply,
}

/// The identity of this core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreIdentity {
    /// The cluster.
    pub cluster: u64,
    /// The core.
    pub core: CoreId,
    /// The core's incarnation.
    pub incarnation: Incarnation,
}

/// Limits of queues, and intervals in microseconds. Every queue has a limit.
#[derive(Clone, Copy, Debug)]
pub struct CoreLimits {
    /// The most running requests of this core. Also the most members of operations that are not
    /// finished everywhere.
    pub operations_max: usize,
    /// The most requests that wait at the head for one pk. Requests of an aborted operation of
    /// several requests come on top.
    pub requests_per_key_max: usize,
    /// The most requests that one operation executes.
    pub folded_requests_max: usize,
    /// The most reads that wait for decisions.
    pub waiting_reads_max: usize,
    /// The most operations that wait for one key at a member.
    pub waiters_per_key_max: usize,
    /// The time after which an operation that waits for a key gets the vote `Conflict` (R8).
    pub wait_us_max: u64,
    /// The time after which an undecided operation is sent again. It doubles up to sixteen times
    /// this value.
    pub retry_us: u64,
    /// The time for which confirmations of durability are collected.
    pub confirm_us: u64,
    /// The interval of heartbeats to the coordinator and of lease requests to peers.
    pub heartbeat_us: u64,
    /// The time for which a grant of a peer counts, from its request on. The coordinator waits as
    /// long before an epoch without this core serves (R15).
    pub lease_us: u64,
    /// The duration of a flush after which the disk counts as hanging. The core then renews no
    /// lease until the flush ends.
    pub flush_us_max: u64,
    /// The most bytes of rows in one page.
    pub page_bytes_max: usize,
    /// The most keys that one read visits for a page, however few match.
    pub page_keys_max: usize,
    /// The most keys that a member of a cover visits for one page of a fill. Requests that arrive
    /// meanwhile wait until the page is complete.
    pub fill_page_keys_max: usize,
    /// The largest number of bytes of rows in one page of a fill.
    pub fill_page_bytes_max: usize,
    /// The most such pages that a core awaits at a time.
    pub fill_pages_max: usize,
    /// The most rows in one message of fetched rows (R18).
    pub fetched_rows_max: usize,
    /// The bytes of rows per second that members of covers may visit for all fills of this core, so
    /// that they and this core have time for requests. Accepted bytes count five times more.
    /// Visiting a row of 100 bytes took a member 0.8 µs, and accepting it took this core 4 µs.
    pub fill_bytes_per_second: u64,
    /// The most local entries that one step adds to existing rows. All entries of one row are
    /// always added together. Requests that arrive meanwhile wait until the step ends.
    pub entry_page_max: usize,
    /// The most such entries per second, so that the core has time for requests.
    pub entries_per_second: u64,
    /// A range of a thin index with this many entries is split.
    pub range_entries_max: u64,
    /// A range of a thin index with this many requests per second is split.
    pub range_requests_max: u64,
    /// The time over which the requests at a range are counted.
    pub range_window_us: u64,
    /// The time for which a range must have had few requests before it is merged with another.
    pub range_calm_us: u64,
    /// The time for which cores pause in the first attempt to open a snapshot.
    pub snapshot_hold_us: u64,
    /// The time after which a snapshot ends if its client does not renew it.
    pub snapshot_lease_us: u64,
    /// The most snapshots of one opener that the statements of one client read at a time (R52).
    pub snapshots_per_reader_max: usize,
    /// The memory for replaced rows that open snapshots need. Beyond it, the older snapshots of the
    /// table with most of these rows end.
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
            fill_page_keys_max: 256,
            fill_page_bytes_max: 128 << 10,
            fill_pages_max: 8,
            fetched_rows_max: 64,
            fill_bytes_per_second: 256 << 20,
            entry_page_max: 512,
            range_entries_max: 1 << 19,
            range_requests_max: 10_000,
            range_window_us: 1_000_000,
            range_calm_us: 60_000_000,
            entries_per_second: 100_000,
            snapshot_hold_us: 20_000,
            snapshot_lease_us: 10_000_000,
            snapshots_per_reader_max: 32,
            history_bytes_max: 64 << 20,
        }
    }
}
