//! The other cores that a core has to do with: those that hold partitions of its tables. They are
//! asked for leases with every heartbeat, and a core can have ten thousand tables.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use protocol::identity::{CoreId, TableId};

use crate::core::table::TableInfo;

/// Counts, for each core, of the tables that it holds partitions of and this core does, too.
#[derive(Debug, Default)]
pub(crate) struct PeerCounts {
    counted: BTreeMap<TableId, Arc<TableInfo>>,
    /// None is zero.
    tables: BTreeMap<CoreId, usize>,
}

impl PeerCounts {
    /// Replaces the count of a table's earlier state by that of its present state; none if this
    /// core holds no partition of the table.
    pub fn count(&mut self, id: TableId, table: Option<Arc<TableInfo>>) {
        for core in table.iter().flat_map(|table| &table.holders) {
            *self.tables.entry(*core).or_default() += 1;
        }
        let before = match table {
            Some(table) => self.counted.insert(id, table),
            None => self.counted.remove(&id),
        };
        for core in before.iter().flat_map(|table| &table.holders) {
            let count = self.tables.get_mut(core).expect("it was counted");
            *count -= 1;
            if *count == 0 {
                self.tables.remove(core);
            }
        }
    }

    /// Returns the cores, in order.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> {
        self.tables.keys().copied()
    }
}
