//! Statistics of partitions, from which a client estimates how many rows a statement reads.

use alloc::vec::Vec;

use crate::codec::{Bytes, wire_struct};
use crate::identity::{Epoch, PartitionId};

/// A request for the statistics of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatisticsRead {
    /// The table's epoch, as the client knows it.
    pub epoch: Epoch,
    /// The partition.
    pub partition: PartitionId,
}

/// Estimates about the rows, or entries, of one partition. They come from a small sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionStatistics {
    /// The number of rows; none if it is not known, as after a start with rows that are not in
    /// memory.
    pub rows: Option<u64>,
    /// The number of rows that have the same values in the first columns of the order: in the first
    /// one, the first two, and so on. None of a partition without rows.
    pub rows_per_key: Vec<u64>,
    /// The first key.
    pub first: Bytes,
    /// The last key.
    pub last: Bytes,
}

wire_struct!(StatisticsRead { epoch, partition });
wire_struct!(PartitionStatistics {
    rows,
    rows_per_key,
    first,
    last
});
