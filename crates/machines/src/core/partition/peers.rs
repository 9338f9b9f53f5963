//! The peers of a core: the other cores that hold partitions of its tables. The core requests
//! leases from them with every heartbeat. A core can have ten thousand tables, so the list is
//! updated at each change of a table, and not computed each time.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use protocol::identity::{CoreId, TableId};

use crate::core::table::TableInfo;

/// For each other core: the number of tables of which both that core and this core hold partitions.
#[derive(Debug, Default)]
pub(crate) struct PeerCounts {
    counted: BTreeMap<TableId, Arc<TableInfo>>,
    /// No count is zero.
    tables: BTreeMap<CoreId, usize>,
}

impl PeerCounts {
    /// Updates the counts when a table changes. `table` is its present state; none if this core
    /// holds no partition of it.
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

    /// Returns the cores, ascending.
    pub fn cores(&self) -> impl Iterator<Item = CoreId> {
        self.tables.keys().copied()
    }
}
