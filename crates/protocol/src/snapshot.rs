//! Messages about snapshots: between clients and cores, and between cores that open one (R36-R39).
//!
//! A core opens a snapshot for clients by a *drained cut*. Every core of the tables holds back new
//! operations, and reports its clock once its own operations have ended. T is the highest clock.
//! Each core moves its clock to T and continues. So everything at or below T has ended before
//! anything above T begins.

use alloc::vec::Vec;
use core::fmt;

use crate::codec::{wire_enum, wire_struct};
use crate::identity::{Epoch, ReaderId, ServerId, SnapshotId, TableId, Version};

/// A client's request about snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Opens a snapshot of these tables. Each has the epoch that the client knows.
    Open {
        /// The client.
        reader: ReaderId,
        /// The tables.
        tables: Vec<(TableId, Epoch)>,
    },
    /// Renews the statement's lease, because it still reads. Only the statement's own client may
    /// send this (R51).
    Keep(SnapshotUse),
    /// Ends the statement's lease. Only the statement's own client may send this (R51).
    Close(SnapshotUse),
}

/// A statement's lease on a snapshot. Several statements can read one snapshot, each with its own
/// lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotUse {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The client of the statement.
    pub reader: ReaderId,
    /// The number that the opener assigned to the statement.
    pub user: u64,
}

/// The answer to a [`SnapshotRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotReply {
    /// The snapshot is open.
    Opened(OpenedSnapshot),
    /// The lease is renewed for `lease_us`.
    Kept,
    /// The statement's lease has ended.
    Closed,
}

/// A snapshot that a statement may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedSnapshot {
    /// The lease, to be named in reads, in [`SnapshotRequest::Keep`] and in `Close`.
    pub share: SnapshotUse,
    /// T: the snapshot has every version up to this one, and none above.
    pub at: Version,
    /// The snapshot ends after this many microseconds without [`SnapshotRequest::Keep`].
    pub lease_us: u64,
}

/// The reason why a snapshot cannot be opened or has ended. The client may begin the statement
/// again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFailure {
    /// The core does not know the snapshot: the core has restarted, or the snapshot ended long ago.
    Unknown,
    /// A table of the snapshot, or a server with one of its copies, has changed.
    ClusterChanged,
    /// Since the opening, clients changed more rows than a core may keep.
    HistoryFull,
    /// The client did not renew the lease in time.
    LeaseOver,
    /// A server with partitions of the tables is down, or one of these partitions is being rebuilt.
    /// Reads at one version need all partitions.
    ServerMissing(ServerId),
    /// Operations in progress did not end in time, or too many snapshots are open or being opened.
    Busy,
    /// The client already reads 32 snapshots of this opener, the most that one client may read
    /// (R52).
    TooMany,
}

/// A message between the core that opens a snapshot and the cores of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotMessage {
    /// Asks the receiver to pause: it begins no operation of these tables as their head, keeps
    /// history, and answers `Held` once no operation of them is in progress.
    Hold {
        /// The opening.
        snapshot: SnapshotId,
        /// The tables, each with its epoch.
        tables: Vec<(TableId, Epoch)>,
        /// The pause ends by itself after this many microseconds.
        hold_us: u64,
    },
    /// The sender is paused for the opening, and has no operation of its tables in progress.
    Held {
        /// The opening.
        snapshot: SnapshotId,
        /// The highest version that the sender has assigned or received.
        clock: Version,
    },
    /// Closes the opening: the receiver moves its clock to T, records the snapshot, and begins
    /// operations again.
    Close {
        /// The opening.
        snapshot: SnapshotId,
        /// T.
        at: Version,
        /// The snapshot ends when the receiver gets no `Keep` for this many microseconds.
        lease_us: u64,
    },
    /// The sender has carried out `Close`.
    Closed {
        /// The opening.
        snapshot: SnapshotId,
    },
    /// The sender does not take part in the opening, or has left it.
    Refused {
        /// The opening.
        snapshot: SnapshotId,
        /// The reason.
        reason: SnapshotFailure,
    },
    /// A statement still reads the snapshot: renew its lease.
    Keep {
        /// The snapshot.
        snapshot: SnapshotId,
        /// The duration of the renewed lease, from the receipt of this message, in microseconds.
        lease_us: u64,
    },
    /// No statement reads the snapshot any more, or the opening has failed.
    End {
        /// The snapshot.
        snapshot: SnapshotId,
    },
}

wire_enum!(SnapshotRequest {
    0 => Open { reader, tables }, 1 => Keep(share), 2 => Close(share),
});
wire_struct!(SnapshotUse {
    snapshot,
    reader,
    user
});
wire_enum!(SnapshotReply { 0 => Opened(opened), 1 => Kept, 2 => Closed });
wire_struct!(OpenedSnapshot {
    share,
    at,
    lease_us
});
wire_enum!(SnapshotFailure {
    0 => Unknown, 1 => ClusterChanged, 2 => HistoryFull, 3 => LeaseOver, 4 => ServerMissing(server),
    5 => Busy, 6 => TooMany,
});
wire_enum!(SnapshotMessage {
    0 => Hold { snapshot, tables, hold_us }, 1 => Held { snapshot, clock },
    2 => Close { snapshot, at, lease_us }, 3 => Closed { snapshot },
    4 => Refused { snapshot, reason }, 5 => Keep { snapshot, lease_us }, 6 => End { snapshot },
});

impl fmt::Display for SnapshotFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotFailure::Unknown => write!(
                f,
                "the server does not know the snapshot, because it has restarted or the snapshot \
                 ended: begin the statement again"
            ),
            SnapshotFailure::ClusterChanged => write!(
                f,
                "the table or one of its servers changed while the snapshot was read: begin the \
                 statement again"
            ),
            SnapshotFailure::HistoryFull => write!(
                f,
                "more rows changed while the snapshot was read than a server keeps: begin the \
                 statement again when fewer are written, or read less in it"
            ),
            SnapshotFailure::LeaseOver => write!(
                f,
                "the client was silent for so long that the snapshot ended: begin the statement \
                 again"
            ),
            SnapshotFailure::ServerMissing(server) => write!(
                f,
                "server {} is down, or one of its partitions is being rebuilt, and a snapshot needs \
                 all partitions of its tables: try again once `replex admin status` shows the \
                 server as serving and lists no fills",
                server.0
            ),
            SnapshotFailure::Busy => write!(
                f,
                "operations under way did not end soon enough to open a snapshot: try again"
            ),
            SnapshotFailure::TooMany => write!(
                f,
                "this client reads as many snapshots of the table as one client may: try again \
                 after one of its statements has ended"
            ),
        }
    }
}
