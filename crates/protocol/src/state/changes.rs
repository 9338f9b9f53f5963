//! The difference between two states of a coordinator. With it a change of one table does not write
//! all tables.

use alloc::vec::Vec;

use super::CoordinatorState;
use crate::codec::wire_struct;
use crate::configuration::PlacedTables;
use crate::identity::TableId;

/// The change that makes a later state of an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct StateChange {
    /// The version of the state that it applies to.
    pub since: u64,
    /// The later state, without the tables that both have.
    pub state: CoordinatorState,
    /// Tables that only the earlier one has, by id, rising.
    pub dropped: Vec<TableId>,
}

impl StateChange {
    /// Returns the change from one state of a cluster to a later one.
    pub fn between(before: &CoordinatorState, after: &CoordinatorState) -> StateChange {
        let (mut changed, mut dropped) = (PlacedTables::default(), Vec::new());
        let tables = &after.configuration.tables;
        for (now, then) in tables.differing(&before.configuration.tables) {
            match (now, then) {
                (Some(now), then) if Some(now) != then => changed.put(now.clone()),
                (None, Some(then)) => dropped.push(then.id),
                _ => {}
            }
        }
        let mut state = after.clone_without_tables();
        state.configuration.tables = changed;
        StateChange {
            since: before.version,
            state,
            dropped,
        }
    }

    /// Returns the later state. None if the change belongs to another cluster or version.
    pub fn apply(self, before: &CoordinatorState) -> Option<CoordinatorState> {
        let same_cluster = before.configuration.cluster == self.state.configuration.cluster;
        if before.version != self.since || self.state.version <= self.since || !same_cluster {
            return None;
        }
        let mut tables = before.configuration.tables.clone();
        for id in self.dropped {
            tables.remove(id);
        }
        let mut after = self.state;
        for table in after.configuration.tables.shared() {
            tables.put(table.clone());
        }
        after.configuration.tables = tables;
        Some(after)
    }
}

wire_struct!(StateChange {
    since,
    state,
    dropped
});
