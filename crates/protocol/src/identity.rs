//! Identities: small `Copy` newtypes, so that numbers of different kinds cannot be confused.
//!
//! The order of `PartitionId` (table, replex, number) is the order of a chain (R7). Only this
//! module defines the meaning of the numbers.

use core::fmt;

pub use placement::Position;

use crate::codec::{wire_newtype, wire_struct};

/// A server's number, assigned by the coordinator. Numbers rise and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerId(pub u32);

/// One event loop of one server. A core holds partitions and has one log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CoreId {
    /// The server.
    pub server: ServerId,
    /// The number of the event loop within the server, from 0.
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

/// A number that the coordinator raises at each start of a server (R16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Incarnation(pub u32);

/// The number of a configuration (R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(pub u64);

/// A table's number, assigned by the coordinator. Numbers rise and are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableId(pub u32);

/// One partition: one cell of one replex of one table. Partitions sort in the order of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartitionId {
    /// The table.
    pub table: TableId,
    /// The position of the replex in the table's layout. The primary replex is 0.
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

    /// Returns the sorted table for the versions at which entries left this partition during its
    /// fill. No other partition uses this number, because a table has at most 63 replexes.
    pub fn departures_table(self) -> u64 {
        self.rows_table() | 1 << 31
    }

    /// Returns the sorted table of this partition's local entries in the order of another replex
    /// (`placement::Layout::order_of`).
    pub fn entries_table(self, order: u8) -> u64 {
        assert!(order < ENTRIES_MARKED, "a table has at most 63 replexes");
        self.rows_table() | u64::from(order + 1) << 16
    }

    /// Returns the sorted table that lists the orders in which this partition's local entries are
    /// complete.
    pub fn marks_table(self) -> u64 {
        self.rows_table() | u64::from(ENTRIES_MARKED + 1) << 16
    }
}

/// A table has at most 63 replexes: no order has this number.
const ENTRIES_MARKED: u8 = 63;

/// A client's session number, assigned by the coordinator. Numbers rise with time (R13, R14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub u64);

/// The name of a request, for exactly-once execution (R13): its session and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RequestId {
    /// The session.
    pub session: SessionId,
    /// A number that rises by one with each new request of the session. A retry keeps it.
    pub number: u64,
}

/// The name of a chain operation, assigned by its head core. It stays unique after restarts because
/// it includes the incarnation. A log position would not be unique: after a lost tail, positions
/// are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OperationId {
    /// The core whose partition is the head.
    pub head: CoreId,
    /// The incarnation of that core when the operation began.
    pub incarnation: Incarnation,
    /// A number that rises by one with each operation of that incarnation, from 1.
    pub sequence: u64,
}

impl OperationId {
    /// Returns the operation's place among the operations of its head core.
    pub fn order(self) -> FinishedLine {
        FinishedLine {
            incarnation: self.incarnation,
            sequence: self.sequence,
        }
    }
}

/// The name of an opening of a snapshot, and of the snapshot. The opening core assigns it. It stays
/// unique after restarts of that core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SnapshotId {
    /// The core that opens the snapshot.
    pub opener: CoreId,
    /// The incarnation of that core.
    pub incarnation: Incarnation,
    /// A number that rises by one with each opening of that incarnation, from 1.
    pub number: u64,
}

/// A client, as it names itself to the cores that open snapshots for it: a random number that it
/// draws when it starts, and keeps when its connections break (R51).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ReaderId(pub u64);

/// A position among the operations of one head core, ordered by incarnation and sequence. All
/// operations before it are decided, durably at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FinishedLine {
    /// The incarnation of the first operation that may be unfinished.
    pub incarnation: Incarnation,
    /// The sequence of that operation.
    pub sequence: u64,
}

/// A hybrid logical timestamp: microseconds of wall clock shifted left by 12, or the last version
/// plus one if the clock has not advanced. Versions of a pk are unique and rise (R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Version(pub u64);

impl Version {
    /// Returns the next version after `self` at wall time `wall_us` (microseconds since 1970).
    pub fn next(self, wall_us: u64) -> Version {
        Version((self.0 + 1).max(wall_us << 12))
    }
}

/// The time that a driver passes to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ClockReading {
    /// Microseconds of a clock that never jumps, for leases, waits and retries.
    pub monotonic_us: u64,
    /// Microseconds since 1970, only for versions. This clock may jump.
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
