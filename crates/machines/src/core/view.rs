//! A core's view of its cluster: its configuration, and facts that follow from it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use protocol::configuration::{Configuration, Place};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId,
};
use protocol::planted::{self, Bug};

use crate::core::table::TableInfo;

/// The configuration of a core, with its tables as the machine sees them.
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

    /// Replaces the configuration and everything derived from it.
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

    /// Begins an epoch of these tables. It is unknown how long rows had been unchanged before.
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

    /// Returns the epoch of the configuration.
    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Returns a table's epoch, or the configuration's epoch if it has no such table.
    pub fn table_epoch(&self, table: TableId) -> Epoch {
        self.tables.get(&table).map_or(self.epoch(), |it| it.epoch)
    }

    /// Returns the tables whose epoch differs in another configuration, and those that it lacks.
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

    /// Returns whether the chains of a table are stopped.
    pub fn stands_still(&self, table: TableId) -> bool {
        let is_stopped = |table: &Arc<TableInfo>| table.sealing.is_some();
        if planted::is(Bug::SealStopsAll) && self.tables.values().any(is_stopped) {
            return true;
        }
        self.tables.get(&table).is_some_and(is_stopped)
    }

    /// Returns whether a server is being removed from a table.
    pub fn removes(&self, table: TableId, server: ServerId) -> bool {
        let table = self.tables.get(&table);
        table.is_some_and(|table| table.sealing.as_ref().is_some_and(|it| it.removes(server)))
    }

    /// Returns the place of a partition; none if no configuration has it any more.
    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        self.configuration.place(partition)
    }

    /// Returns the information about a table; none if the configuration does not have the table.
    pub fn table(&self, id: TableId) -> Option<&Arc<TableInfo>> {
        self.tables.get(&id)
    }

    /// Returns whether servers are down whose loss blocks some table.
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

    /// Returns the newest incarnation of a core that this one knows.
    pub fn incarnation(&self, core: CoreId) -> Incarnation {
        self.incarnations.get(&core).copied().unwrap_or_default()
    }

    /// Records a core's incarnation. Returns false if a later one is known, because then the core
    /// has restarted.
    pub fn notice_incarnation(&mut self, core: CoreId, incarnation: Incarnation) -> bool {
        let known = self.incarnations.entry(core).or_default();
        *known = (*known).max(incarnation);
        *known == incarnation || planted::is(Bug::IncarnationUnchecked)
    }
}
