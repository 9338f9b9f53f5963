//! Snapshots: what clients ask for, and what cores send each other to open one (R36-R39).
//!
//! A core opens a snapshot for clients by a *drained cut*. Every core of the tables holds back new
//! operations and reports its clock once its own have ended; T is the highest clock; each core
//! moves its clock to T and goes on. So everything at or below T has ended before anything above T
//! begins.

use alloc::vec::Vec;
use core::fmt;

use crate::codec::{wire_enum, wire_struct};
use crate::identity::{Epoch, ReaderId, ServerId, SnapshotId, TableId, Version};

/// A client's request about snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotRequest {
    /// Open a snapshot of these tables, each with its epoch as the client knows it.
    Open {
        /// The client.
        reader: ReaderId,
        /// The tables.
        tables: Vec<(TableId, Epoch)>,
    },
    /// The statement goes on: renew the lease. Only its own client may (R51).
    Keep(SnapshotUse),
    /// The statement has ended. Only its own client may send it (R51).
    Close(SnapshotUse),
}

/// A statement's share in a snapshot: several statements may have joined one opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotUse {
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// The client of the statement.
    pub reader: ReaderId,
    /// The statement, as the opener numbered it.
    pub user: u64,
}

/// The answer to a [`SnapshotRequest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotReply {
    /// It is open.
    Opened(OpenedSnapshot),
    /// It is kept for another `lease_us`.
    Kept,
    /// The statement has no share in it any more.
    Closed,
}

/// A snapshot that a statement may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenedSnapshot {
    /// Names it in reads, and in [`SnapshotRequest::Keep`] and `Close`.
    pub share: SnapshotUse,
    /// T: it has every version up to this one, and none above.
    pub at: Version,
    /// It ends after so many microseconds without [`SnapshotRequest::Keep`].
    pub lease_us: u64,
}

/// Why there is no snapshot, or none any more. The statement may be begun again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFailure {
    /// The core does not know it: the core has restarted, or the snapshot ended long ago.
    Unknown,
    /// A table of it, or a server with one of its copies, has changed.
    ClusterChanged,
    /// Writers changed more rows since it was opened than a core may keep.
    HistoryFull,
    /// Its client renewed it too late.
    LeaseOver,
    /// A server with copies of its tables is down or is being filled: reads at one version need all
    /// of them.
    ServerMissing(ServerId),
    /// Operations under way did not end soon enough, or too many snapshots are open or being
    /// opened.
    Busy,
    /// The client reads as many snapshots as one client may (R52).
    TooMany,
}

/// A message between the core that opens a snapshot and the cores of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SnapshotMessage {
    /// Begin no operation of these tables as their head, keep history, and report once nothing of
    /// them is under way.
    Hold {
        /// The opening.
        snapshot: SnapshotId,
        /// The tables, each with the epoch in which it is opened.
        tables: Vec<(TableId, Epoch)>,
        /// The hold ends by itself after so many microseconds.
        hold_us: u64,
    },
    /// The sender holds, and nothing is under way there.
    Held {
        /// The opening.
        snapshot: SnapshotId,
        /// The highest version that the sender has given or received.
        clock: Version,
    },
    /// Move the clock to T, know the snapshot, and go on.
    Close {
        /// The opening.
        snapshot: SnapshotId,
        /// T.
        at: Version,
        /// The snapshot ends after so many microseconds without `Keep`.
        lease_us: u64,
    },
    /// The sender has closed.
    Closed {
        /// The opening.
        snapshot: SnapshotId,
    },
    /// The sender does not take part in the opening, or not any more.
    Refused {
        /// The opening.
        snapshot: SnapshotId,
        /// Why.
        reason: SnapshotFailure,
    },
    /// It is still read: renew its lease.
    Keep {
        /// The snapshot.
        snapshot: SnapshotId,
        /// From now on.
        lease_us: u64,
    },
    /// No statement reads it any more, or the opening is void.
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
                "server {} is down or is being filled, and a snapshot needs every server of its \
                 tables: try again once `replex admin status` shows it serving",
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
