//! Lists the tables whose number of partitions is being changed.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::TableId;

/// The tables with copies that are to take the places of others. They follow from the
/// configuration.
#[derive(Debug, Default)]
pub(super) struct ResizeTracker {
    tables: BTreeSet<TableId>,
}

impl ResizeTracker {
    /// Returns the changes of the number of partitions that a configuration has in progress.
    pub fn new(configuration: &Configuration) -> ResizeTracker {
        let mut tracker = ResizeTracker::default();
        configuration.tables.iter().for_each(|it| tracker.note(it));
        tracker
    }

    /// Adds a table whose copies have changed to the list, if it now has successors.
    pub fn note(&mut self, table: &PlacedTable) {
        if table.layout.successors().next().is_some() {
            self.tables.insert(table.id);
        }
    }

    /// Returns the tables whose number of partitions is being changed.
    pub fn tables(&self) -> Vec<TableId> {
        self.tables.iter().copied().collect()
    }

    /// Forgets a table whose change has ended.
    pub fn forget(&mut self, table: TableId) {
        self.tables.remove(&table);
    }
}
