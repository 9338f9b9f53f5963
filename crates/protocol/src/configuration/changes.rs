//! The differences between two configurations. With them a change of one table does not send all
//! tables to every server and client.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Configuration, PlacedTable, Roles, Server};
use crate::codec::wire_struct;
use crate::identity::{Epoch, TableId};

/// The changes from an earlier configuration of a cluster to its newest. They apply to every
/// configuration from epoch `since` on.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfigurationChanges {
    /// The cluster.
    pub cluster: u64,
    /// The earliest epoch whose configuration the changes can be applied to.
    pub since: Epoch,
    /// The epoch of the resulting configuration.
    pub epoch: Epoch,
    /// All servers, by ascending id.
    pub servers: Vec<Server>,
    /// Tables that have changed or were created since, by ascending id.
    pub tables: Vec<Arc<PlacedTable>>,
    /// Tables that were dropped since, by ascending id.
    pub dropped: Vec<TableId>,
    /// The roles; none if they have not changed since.
    pub roles: Option<Arc<Roles>>,
}

impl ConfigurationChanges {
    /// Returns the changes from any configuration since epoch `since` to `newest`. `dropped` are
    /// the tables that were dropped since.
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
            roles: (newest.roles.epoch > since).then(|| Arc::clone(&newest.roles)),
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
            roles: (after.roles != before.roles).then(|| Arc::clone(&after.roles)),
        }
    }

    /// Returns the configuration that results from `known`. Returns none if `known` is of another
    /// cluster or too old. Then the whole configuration is needed.
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
            roles: self.roles.unwrap_or_else(|| Arc::clone(&known.roles)),
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
    roles,
});
