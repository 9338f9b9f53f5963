//! Checksums of partitions, by which a client compares the copies of a table, and thin indexes with
//! the rows.

use crate::codec::{Bytes, wire_struct};
use crate::identity::{Epoch, PartitionId, SnapshotId};

/// A request for the checksum of a part of a partition. The client repeats it from `next` until
/// there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumRead {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
    /// The first key of this part.
    pub start: Bytes,
    /// The most rows of this part.
    pub limit: u32,
    /// The snapshot to read from; none reads the present rows.
    pub snapshot: Option<SnapshotId>,
    /// The number of a thin index. A partition of this index sums its entries, and a partition of
    /// a copy sums the entries that its rows should have there. None sums the rows.
    pub entries_of: Option<u8>,
}

/// The checksum of a part of a partition. It does not depend on the order of the rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChecksumPart {
    /// The number of rows.
    pub count: u64,
    /// The wrapping sum over all rows of a hash of (pk, version, row). Equal sets of rows have
    /// equal sums, in any sort order. Of entries the hash is of (partition, key, entry).
    pub sum: u64,
    /// The start of the next part; none at the end.
    pub next: Option<Bytes>,
}

wire_struct!(ChecksumRead {
    epoch,
    partition,
    start,
    limit,
    snapshot,
    entries_of
});
wire_struct!(ChecksumPart { count, sum, next });
