//! Collects the rows of all replexes when no operation is in progress, for the checkers at rest.

use std::collections::BTreeMap;

use protocol::identity::PartitionId;

use crate::model::ModelRow;

/// The content of one partition's sorted table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionRows {
    /// Key, version and row, in the order of the keys.
    pub rows: Vec<(Vec<u8>, u64, ModelRow)>,
    /// For each order, by its replex: the rows' keys in that order, each followed by the key in the
    /// partition's own order without the pk.
    pub entries: BTreeMap<usize, Vec<Vec<u8>>>,
}

/// All partitions of the table.
pub type PartitionContents = BTreeMap<PartitionId, PartitionRows>;

/// Returns the rows of one replex by version and content, sorted.
pub fn of_replex(rest: &PartitionContents, replex: usize) -> Vec<(u64, ModelRow)> {
    let partitions = rest
        .iter()
        .filter(|(id, _)| usize::from(id.replex) == replex);
    let mut rows: Vec<(u64, ModelRow)> = partitions
        .flat_map(|(_, partition)| {
            partition
                .rows
                .iter()
                .map(|(_, version, row)| (*version, *row))
        })
        .collect();
    rows.sort_unstable();
    rows
}
