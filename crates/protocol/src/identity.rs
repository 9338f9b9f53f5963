//! Names of things: small `Copy` newtypes, so that no number is taken for another.
//!
//! Orders matter: `PartitionId` sorts by table, replex, number, which is the order of a chain (R7).
//! The meaning of the numbers is written here and nowhere else.

use core::fmt;

pub use placement::Position;

use crate::codec::{wire_newtype, wire_struct};

/// A server as the coordinator numbered it; rises, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(pub u32);

/// One event loop of one server: the unit that holds partitions and a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CoreId {
    /// The server.
    pub server: ServerId,
    /// The loop within it, from 0.
    pub core: u16,
}

impl From<placement::HostCore> for CoreId {
    fn from(place: placement::HostCore) -> CoreId {
        CoreId {
            server: ServerId(place.server),
            core: place.core,
        }
    }
}

/// How often a server has joined; the coordinator raises it at each start (R16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u32);

/// The number of a configuration (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// A table as the coordinator numbered it; rises, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableId(pub u32);

/// One cell of one replex of one table. The order is the order of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionId {
    /// The table.
    pub table: TableId,
    /// Position of the replex in the table's layout, from 0 (the primary replex).
    pub replex: u8,
    /// The cell of the grid, from 0.
    pub number: u32,
}

impl PartitionId {
    /// Returns the sorted table of `placement::tables` that holds this partition's rows.
    pub fn rows_table(self) -> u64 {
        assert!(
            self.number < 1 << 16,
            "a replex has at most 4096 partitions"
        );
        u64::from(self.table.0) << 32 | u64::from(self.replex) << 24 | u64::from(self.number)
    }

    /// Returns the sorted table that holds, while this partition is being filled, the versions at
    /// which entries left it: a table has at most 63 replexes, so that this is no other one's.
    pub fn departures_table(self) -> u64 {
        self.rows_table() | 1 << 31
    }

    /// Returns the sorted table that holds this partition's local entries in the order that a
    /// replex of the table names (`placement::Layout::order_of`).
    pub fn entries_table(self, order: u8) -> u64 {
        assert!(order < ENTRIES_MARKED, "a table has at most 63 replexes");
        self.rows_table() | u64::from(order + 1) << 16
    }

    /// Returns the sorted table of the orders in which this partition's local entries are complete.
    pub fn marks_table(self) -> u64 {
        self.rows_table() | u64::from(ENTRIES_MARKED + 1) << 16
    }
}

/// A table has at most 63 replexes: no order has this number.
const ENTRIES_MARKED: u8 = 63;

/// A client's session as the coordinator numbered it; rises with time (R13, R14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u64);

/// One request of a session; the pair is its name for exactly-once execution (R13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestId {
    /// The session.
    pub session: SessionId,
    /// Rises by one with each new request of the session; a retry keeps it.
    pub number: u64,
}

/// A chain operation: numbered by its head core, unique over restarts of it because the incarnation
/// is part of the name (a log position would not be: a lost tail is written again).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OperationId {
    /// The core whose partition is the head.
    pub head: CoreId,
    /// That core's incarnation when the operation began.
    pub incarnation: Incarnation,
    /// Rises by one with each operation of that incarnation, from 1.
    pub sequence: u64,
}

impl OperationId {
    /// Returns its place among the operations of its head core.
    pub fn order(self) -> FinishedLine {
        FinishedLine {
            incarnation: self.incarnation,
            sequence: self.sequence,
        }
    }
}

/// An opening of a snapshot, and the snapshot that comes from it: numbered by the core that opens
/// it, unique over restarts of that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SnapshotId {
    /// The core that opens it.
    pub opener: CoreId,
    /// That core's incarnation.
    pub incarnation: Incarnation,
    /// Rises by one with each opening of that incarnation, from 1.
    pub number: u64,
}

/// A client, as it names itself to the cores that open snapshots for it: a random number that it
/// draws when it starts, and keeps when its connections break (R51).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReaderId(pub u64);

/// A line through the operations of one head core, ordered by incarnation and sequence: all
/// before it are decided, and durably so at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FinishedLine {
    /// The incarnation of the first operation that may not be.
    pub incarnation: Incarnation,
    /// Its sequence.
    pub sequence: u64,
}

/// A hybrid logical timestamp: microseconds of wall clock shifted left by 12, or the last
/// version plus one where the clock has not moved on. Unique and rising per pk (R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl Version {
    /// Returns the next version after `self` at wall time `wall_us` (microseconds since 1970).
    pub fn next(self, wall_us: u64) -> Version {
        Version((self.0 + 1).max(wall_us << 12))
    }
}

/// Time as a driver hands it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ClockReading {
    /// Microseconds on a clock that never steps: leases, waits and retries.
    pub monotonic_us: u64,
    /// Microseconds since 1970, for versions only; may step.
    pub wall_us: u64,
}

wire_newtype!(
    Epoch,
    Incarnation,
    Position,
    ReaderId,
    ServerId,
    SessionId,
    TableId,
    Version
);
wire_struct!(CoreId { server, core });
wire_struct!(PartitionId {
    table,
    replex,
    number
});
wire_struct!(FinishedLine {
    incarnation,
    sequence
});
wire_struct!(RequestId { session, number });
wire_struct!(SnapshotId {
    opener,
    incarnation,
    number
});
wire_struct!(OperationId {
    head,
    incarnation,
    sequence
});

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {} core {}", self.server.0, self.core)
    }
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "partition {} of replex {} of table {}",
            self.number, self.replex, self.table.0
        )
    }
}
