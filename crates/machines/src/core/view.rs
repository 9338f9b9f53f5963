//! A core's view of its cluster: the configuration that it holds, and what follows from it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use protocol::configuration::{Configuration, Place};
use protocol::identity::{
    ClockReading, CoreId, Epoch, Incarnation, PartitionId, ServerId, TableId,
};
use protocol::planted::{self, Bug};

use crate::core::table::TableInfo;

/// The configuration of a core. `tables` and `lost` are always those of `configuration`.
#[derive(Debug)]
pub(crate) struct ClusterView {
    configuration: Arc<Configuration>,
    tables: BTreeMap<TableId, Arc<TableInfo>>,
    /// Servers that are down and cannot be replaced.
    lost: BTreeSet<ServerId>,
    /// The newest incarnation of each core that this one knows; never falls (R16).
    incarnations: BTreeMap<CoreId, Incarnation>,
    /// The time since which this process has held the configuration.
    since_us: u64,
}

impl ClusterView {
    /// Returns a view before there is a configuration.
    pub fn new() -> ClusterView {
        ClusterView {
            configuration: Arc::new(Configuration::default()),
            tables: BTreeMap::new(),
            lost: BTreeSet::new(),
            incarnations: BTreeMap::new(),
            since_us: 0,
        }
    }

    /// Replaces the configuration and all that follows from it.
    pub fn replace(&mut self, configuration: Arc<Configuration>) {
        let tables = configuration.tables.iter();
        let tables =
            tables.map(|table| (table.id, Arc::new(TableInfo::new(table, &configuration))));
        self.tables = tables.collect();
        for server in &configuration.servers {
            for core in 0..server.cores.len() {
                let core = CoreId {
                    server: server.id,
                    core: core as u16,
                };
                self.notice_incarnation(core, server.incarnation);
            }
        }
        self.lost = configuration.lost();
        self.configuration = configuration;
    }

    /// Begins a configuration: for how long rows were quiet before is not known.
    pub fn begin(&mut self, now: ClockReading) {
        self.since_us = now.monotonic_us;
    }

    /// Returns the time since which this process has held the configuration.
    pub fn since_us(&self) -> u64 {
        self.since_us
    }

    /// Returns the configuration.
    pub fn configuration(&self) -> &Arc<Configuration> {
        &self.configuration
    }

    /// Returns its epoch.
    pub fn epoch(&self) -> Epoch {
        self.configuration.epoch
    }

    /// Returns where a partition is; none if it is in no configuration any more.
    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        self.configuration.place(partition)
    }

    /// Returns a table, as the machine sees it.
    pub fn table(&self, id: TableId) -> Option<&Arc<TableInfo>> {
        self.tables.get(&id)
    }

    /// Returns the most failures that a table tolerates.
    pub fn failures_tolerated_max(&self) -> usize {
        let tables = self.tables.values();
        let tolerated = tables.map(|table| table.schema.failures_tolerated);
        usize::from(tolerated.max().unwrap_or(0))
    }

    /// Returns whether servers are down that cannot be replaced.
    pub fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// Returns the first server of a chain that is down and cannot be replaced.
    pub fn lost_in(&self, chain: &[PartitionId]) -> Option<ServerId> {
        if self.lost.is_empty() {
            return None;
        }
        let places = chain.iter().filter_map(|id| self.place(*id));
        let mut servers = places.map(|place| place.core.server);
        servers.find(|server| self.lost.contains(server))
    }

    /// Learns of a core's incarnation; false if a later one is known: then the core has restarted.
    pub fn notice_incarnation(&mut self, core: CoreId, incarnation: Incarnation) -> bool {
        let known = self.incarnations.entry(core).or_default();
        *known = (*known).max(incarnation);
        *known == incarnation || planted::is(Bug::IncarnationUnchecked)
    }
}
