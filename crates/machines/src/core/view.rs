//! A core's view of its cluster: the configuration that it holds, and what follows from it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use protocol::configuration::{Configuration, Place};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId,
};
use protocol::planted::{self, Bug};

use crate::core::table::TableInfo;

/// The configuration of a core. `tables` are always those of `configuration`.
#[derive(Debug)]
pub(crate) struct ClusterView {
    configuration: Arc<Configuration>,
    tables: BTreeMap<TableId, Arc<TableInfo>>,
    /// Since when this process has held each table's epoch.
    since_us: BTreeMap<TableId, u64>,
    /// The tables that cannot do without servers that are down.
    lost: BTreeSet<TableId>,
    /// The newest incarnation of each core that this one knows; never falls (R16).
    incarnations: BTreeMap<CoreId, Incarnation>,
}

impl ClusterView {
    /// Returns a view before there is a configuration.
    pub fn new() -> ClusterView {
        ClusterView {
            configuration: Arc::new(Configuration::default()),
            tables: BTreeMap::new(),
            since_us: BTreeMap::new(),
            lost: BTreeSet::new(),
            incarnations: BTreeMap::new(),
        }
    }

    /// Replaces the configuration and all that follows from it.
    pub fn replace(&mut self, configuration: Arc<Configuration>) {
        for (now, then) in configuration.tables.differing(&self.configuration.tables) {
            let Some(table) = now else {
                let gone = then.expect("one of the two has it").id;
                self.tables.remove(&gone);
                self.lost.remove(&gone);
                continue;
            };
            let known = self.tables.get(&table.id);
            if known.is_some_and(|known| known.epoch == table.epoch) {
                continue;
            }
            let info = Arc::new(TableInfo::new(table, &configuration));
            match info.lost.is_empty() {
                true => self.lost.remove(&table.id),
                false => self.lost.insert(table.id),
            };
            self.tables.insert(table.id, info);
        }
        for server in &configuration.servers {
            for core in 0..server.cores.len() {
                let core = CoreId {
                    server: server.id,
                    core: core as u16,
                };
                self.notice_incarnation(core, server.incarnation);
            }
        }
        self.configuration = configuration;
    }

    /// Begins an epoch of these tables: for how long rows were quiet before is not known.
    pub fn begin(&mut self, now: ClockReading, tables: &BTreeSet<TableId>) {
        for table in tables {
            match self.tables.contains_key(table) {
                true => self.since_us.insert(*table, now.monotonic_us),
                false => self.since_us.remove(table),
            };
        }
    }

    /// Returns the time since which this process has held a table's epoch.
    pub fn since_us(&self, table: TableId) -> u64 {
        self.since_us.get(&table).copied().unwrap_or(u64::MAX)
    }

    /// Returns the configuration.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// Returns its epoch.
    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Returns a table's epoch; that of the configuration if it has no such table.
    pub fn table_epoch(&self, table: TableId) -> Epoch {
        self.tables.get(&table).map_or(self.epoch(), |it| it.epoch)
    }

    /// Returns the tables that a configuration has in another epoch than this one, and those that
    /// it lacks.
    pub fn changed(&self, next: &Configuration) -> BTreeSet<TableId> {
        let differing = next.tables.differing(&self.configuration.tables);
        let changed = differing.filter(|(now, then)| {
            let epochs = [now, then].map(|table| table.map(|table| table.epoch));
            epochs[0] != epochs[1]
        });
        let tables = changed.filter_map(|(now, then)| now.or(then));
        tables.map(|table| table.id).collect()
    }

    /// Returns all tables.
    pub fn table_ids(&self) -> BTreeSet<TableId> {
        self.tables.keys().copied().collect()
    }

    /// Returns whether the chains of a table stand still.
    pub fn stands_still(&self, table: TableId) -> bool {
        self.tables
            .get(&table)
            .is_some_and(|it| it.sealing.is_some())
    }

    /// Returns whether a server is being removed from a table.
    pub fn removes(&self, table: TableId, server: ServerId) -> bool {
        let table = self.tables.get(&table);
        table.is_some_and(|table| table.sealing.as_ref().is_some_and(|it| it.removes(server)))
    }

    /// Returns where a partition is; none if it is in no configuration any more.
    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        self.configuration.place(partition)
    }

    /// Returns a table, as the machine sees it.
    pub fn table(&self, id: TableId) -> Option<&Arc<TableInfo>> {
        self.tables.get(&id)
    }

    /// Returns whether servers are down that some table cannot do without.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Returns the first server of a chain that is down and cannot be replaced.
    pub fn lost_in(&self, chain: &[PartitionId]) -> Option<ServerId> {
        let table = self.table(chain.first()?.table)?;
        if table.lost.is_empty() {
            return None;
        }
        let places = chain.iter().filter_map(|id| self.place(*id));
        let mut servers = places.map(|place| place.core.server);
        servers.find(|server| table.lost.contains(server))
    }

    /// Learns of a core's incarnation; false if a later one is known: then the core has restarted.
    pub fn notice_incarnation(&mut self, core: CoreId, incarnation: Incarnation) -> bool {
        let known = self.incarnations.entry(core).or_default();
        *known = (*known).max(incarnation);
        *known == incarnation || planted::is(Bug::IncarnationUnchecked)
    }
}
