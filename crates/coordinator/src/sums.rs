//! Maintains sums over all tables: the load of each core and server, and the size of the
//! configuration.
//!
//! The sums are updated from the tables that have changed, so that creating a table costs the same
//! in a cluster of ten thousand tables as in an empty one. During a change, before its epoch
//! begins, a sum covers the last epoch and the changes made so far.

use alloc::collections::BTreeMap;

use placement::Loads;
use protocol::codec::Wire;
use protocol::configuration::{Configuration, PlacedTable, PlacedTables};
use protocol::identity::{CoreId, ServerId};

use super::Coordinator;

/// The sums, and the tables that they are of.
#[derive(Debug, Default)]
pub(super) struct TableSums {
    of: PlacedTables,
    counted: Counted,
}

/// Only what is not zero has an entry.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counted {
    loads: Loads,
    /// Places by the core that holds them.
    places: BTreeMap<CoreId, u64>,
    /// Cores that have to do with a place, by server.
    tenures: BTreeMap<ServerId, u64>,
    /// Of all tables, encoded.
    bytes: u64,
}

impl TableSums {
    /// Returns the sums over these tables.
    pub fn new(tables: &PlacedTables) -> TableSums {
        let mut sums = TableSums::default();
        sums.follow(tables);
        sums
    }

    /// Counts what has changed.
    pub fn follow(&mut self, tables: &PlacedTables) {
        self.counted.follow(tables, &self.of);
        self.of = tables.clone();
    }

    fn at(&self, tables: &PlacedTables) -> Counted {
        let mut counted = self.counted.clone();
        counted.follow(tables, &self.of);
        counted
    }
}

impl Counted {
    fn follow(&mut self, now: &PlacedTables, then: &PlacedTables) {
        for (now, then) in now.differing(then) {
            if let Some(table) = now {
                self.count(table, u64::wrapping_add);
            }
            if let Some(table) = then {
                self.count(table, u64::wrapping_sub);
            }
        }
        self.loads.retain(|_, load| *load != 0);
        self.places.retain(|_, count| *count != 0);
        self.tenures.retain(|_, count| *count != 0);
    }

    /// Changes are added before they are subtracted, so that no sum is negative in between.
    fn count(&mut self, table: &PlacedTable, change: fn(u64, u64) -> u64) {
        for (core, load) in table.bare_placement().loads(&table.layout) {
            let sum = self.loads.entry(core).or_default();
            *sum = change(*sum, load);
        }
        for place in table.placement.iter().flatten() {
            let count = self.places.entry(place.core).or_default();
            *count = change(*count, 1);
            for tenure in place.tenures() {
                let count = self.tenures.entry(tenure.core.server).or_default();
                *count = change(*count, 1);
            }
        }
        self.bytes = change(self.bytes, table.to_bytes().len() as u64);
    }
}

impl Coordinator {
    /// Returns the loads of all cores.
    pub(super) fn loads(&self) -> Loads {
        self.sums.at(&self.state.configuration.tables).loads
    }

    /// Returns how many partitions of other tables than this one each core holds.
    pub(super) fn places_held_beside(&self, table: &PlacedTable) -> BTreeMap<CoreId, u64> {
        let mut held = self.sums.at(&self.state.configuration.tables).places;
        for place in table.placement.iter().flatten() {
            *held.entry(place.core).or_default() -= 1;
        }
        held
    }

    /// Returns whether a server holds partitions, or gives or receives some.
    pub(super) fn holds(&self, server: ServerId) -> bool {
        let counted = self.sums.at(&self.state.configuration.tables);
        counted.tenures.contains_key(&server)
    }

    /// Returns how many bytes the configuration takes, encoded.
    pub(super) fn configuration_bytes(&self) -> usize {
        let configuration = &self.state.configuration;
        let without = Configuration {
            servers: configuration.servers.clone(),
            roles: configuration.roles.clone(),
            ..Configuration::default()
        };
        let tables = self.sums.at(&configuration.tables).bytes;
        without.to_bytes().len() + tables as usize
    }
}
