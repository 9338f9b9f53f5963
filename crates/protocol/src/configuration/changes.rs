//! The differences of a configuration from an earlier one: so that a change of one table does not
//! send all tables to every server and client.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Configuration, PlacedTable, Server};
use crate::codec::wire_struct;
use crate::identity::{Epoch, TableId};

/// The difference between a configuration and any earlier one of its cluster since some epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationChanges {
    /// The cluster.
    pub cluster: u64,
    /// The first epoch whose configuration it can be applied to.
    pub since: Epoch,
    /// The epoch of the configuration that comes of it.
    pub epoch: Epoch,
    /// All servers, by id, rising.
    pub servers: Vec<Server>,
    /// Tables that have changed since, or are new, by id, rising.
    pub tables: Vec<Arc<PlacedTable>>,
    /// Tables that are gone since, by id, rising.
    pub dropped: Vec<TableId>,
}

impl ConfigurationChanges {
    /// Returns what `newest` has that its cluster's configurations from epoch `since` on lack.
    /// `dropped` are the tables that are gone since.
    pub fn between(
        newest: &Configuration,
        since: Epoch,
        dropped: Vec<TableId>,
    ) -> ConfigurationChanges {
        let tables = newest.tables.changed_after(since);
        ConfigurationChanges {
            cluster: newest.cluster,
            since,
            epoch: newest.epoch,
            servers: newest.servers.clone(),
            tables: tables.cloned().collect(),
            dropped,
        }
    }

    /// Returns the difference between a configuration and this earlier one.
    pub fn from_to(before: &Configuration, after: &Configuration) -> ConfigurationChanges {
        let (mut tables, mut dropped) = (Vec::new(), Vec::new());
        for (now, then) in after.tables.differing(&before.tables) {
            match (now, then) {
                (Some(now), then) if Some(now) != then => tables.push(Arc::clone(now)),
                (None, Some(then)) => dropped.push(then.id),
                _ => {}
            }
        }
        ConfigurationChanges {
            cluster: after.cluster,
            since: before.epoch,
            epoch: after.epoch,
            servers: after.servers.clone(),
            tables,
            dropped,
        }
    }

    /// Returns the configuration that comes of an earlier one. None if it is of another cluster or
    /// too old: then the whole configuration is needed.
    pub fn apply(self, known: &Configuration) -> Option<Configuration> {
        if known.cluster != self.cluster || known.epoch < self.since || self.epoch < known.epoch {
            return None;
        }
        let mut tables = known.tables.clone();
        for id in &self.dropped {
            tables.remove(*id);
        }
        for table in self.tables {
            tables.put(table);
        }
        Some(Configuration {
            cluster: self.cluster,
            epoch: self.epoch,
            servers: self.servers,
            tables,
        })
    }
}

wire_struct!(ConfigurationChanges {
    cluster,
    since,
    epoch,
    servers,
    tables,
    dropped,
});
