//! R15: a core answers a read only under a lease that it was really granted, and refuses a request
//! of another epoch.
//!
//! The simulator sees both ends: when a renewal was asked for in true time, and when its answer
//! arrived. The lease that the machine derives from it is compared with that. A lease is a promise
//! about time: a reply may leave under one that was given in an epoch before.

use std::collections::{BTreeMap, BTreeSet};

use machines::core::ClientId;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{CoreId, Epoch, ServerId, TableId};

/// The leases that cores have received.
#[derive(Debug, Default)]
pub struct Leases {
    cores: BTreeMap<CoreId, Given>,
    /// Requests that came with another epoch than that which the core has of the table.
    mismatched: BTreeSet<(ClientId, u64)>,
}

#[derive(Debug, Default)]
struct Given {
    coordinator_until_us: u64,
    /// The longest grants of each core, by the epoch of which it vouched.
    vouched_until_us: BTreeMap<(CoreId, Epoch), u64>,
    /// The end of the longest lease that enough servers have given, by table.
    by_peers_until_us: BTreeMap<TableId, u64>,
}

impl Given {
    /// Returns the end of the lease for a table that other servers have given: those that hold
    /// partitions of it, vouched since it is as it is, and are enough.
    fn by_peers(&self, core: CoreId, table: &PlacedTable) -> u64 {
        if table.sealing.is_some() {
            return 0;
        }
        let holders = table.holders();
        let mut servers: BTreeMap<ServerId, u64> = BTreeMap::new();
        for ((by, epoch), until_us) in &self.vouched_until_us {
            if by.server != core.server && holders.contains(by) && table.epoch <= *epoch {
                let until = servers.entry(by.server).or_default();
                *until = (*until).max(*until_us);
            }
        }
        let mut until_us: Vec<u64> = servers.into_values().collect();
        until_us.sort_unstable_by(|a, b| b.cmp(a));
        let needed = usize::from(table.schema.failures_tolerated).max(1);
        until_us.get(needed - 1).copied().unwrap_or(0)
    }
}

impl Leases {
    /// Records that a core has restarted.
    pub fn started(&mut self, core: CoreId) {
        self.cores.insert(core, Given::default());
    }

    /// Records that the coordinator's answer has arrived at a core. Both times are simulated time.
    pub fn note_lease_renewal(&mut self, core: CoreId, until_us: u64) {
        let given = self.cores.entry(core).or_default();
        given.coordinator_until_us = given.coordinator_until_us.max(until_us);
    }

    /// Records that another core's grant, as of an epoch, has arrived at a core that knows the
    /// epoch.
    pub fn note_lease_grant(&mut self, core: CoreId, (by, epoch, until_us): (CoreId, Epoch, u64)) {
        let given = self.cores.entry(core).or_default();
        // A later grant of a later epoch counts wherever an earlier one does.
        let vouched = &mut given.vouched_until_us;
        let earlier = vouched.range((by, Epoch(0))..(by, epoch));
        let passed: Vec<_> = earlier
            .filter(|(_, until)| **until <= until_us)
            .map(|(key, _)| *key)
            .collect();
        for key in passed {
            vouched.remove(&key);
        }
        let until = vouched.entry((by, epoch)).or_default();
        *until = until_us.max(*until);
    }

    /// Counts the grants of a core for each table as the core knows it. A reply may leave later,
    /// under a lease from an earlier epoch.
    pub fn count(&mut self, core: CoreId, configuration: &Configuration) {
        let given = self.cores.entry(core).or_default();
        for table in configuration.tables.iter() {
            let until_us = given.by_peers(core, table);
            let longest = given.by_peers_until_us.entry(table.id).or_default();
            *longest = until_us.max(*longest);
        }
    }

    /// Checks the lease of a core that answers a read of a table at `now_us`.
    pub fn answers(&self, core: CoreId, table: TableId, now_us: u64) -> Result<(), String> {
        let Some(given) = self.cores.get(&core) else {
            return Err(format!("{core} answers, but was never given a lease"));
        };
        let by_peers = given.by_peers_until_us.get(&table).copied().unwrap_or(0);
        let until_us = given.coordinator_until_us.max(by_peers);
        if until_us < now_us {
            return Err(format!(
                "{core} answers a read of table {} at {now_us}, its lease ended at {until_us}",
                table.0
            ));
        }
        Ok(())
    }

    /// Records a request with another epoch than the core's.
    pub fn mismatched(&mut self, client: ClientId, correlation: u64) {
        self.mismatched.insert((client, correlation));
    }

    /// Checks a request that a core does not refuse: its epoch must be the core's.
    pub fn served(&self, client: ClientId, correlation: u64) -> Result<(), String> {
        if self.mismatched.contains(&(client, correlation)) {
            return Err("a request of another epoch was served".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use placement::{Durability, Layout, Schema, TableComments, TableConstraints};
    use protocol::configuration::Place;

    /// Returns a configuration of one table, as it is since an epoch, on cores of three servers.
    fn configuration(since: u64) -> Configuration {
        let schema = Schema {
            name: "t".into(),
            columns: Vec::new(),
            primary_partition_columns: None,
            sequence: None,
            constraints: TableConstraints::default(),
            primary_key: Vec::new(),
            indexes: Vec::new(),
            partitions: 3,
            further: Vec::new(),
            thin: Vec::new(),
            failures_tolerated: 2,
            failures_wanted: 0,
            local_entries: false,
            durability: Durability::Sync,
        };
        let place = |server| Place::serving(core(server), Epoch(since));
        let table = PlacedTable {
            id: TableId(1),
            epoch: Epoch(since),
            sealing: None,
            columns_since: Epoch(0),
            layout: Layout::base(&schema),
            schema,
            placement: vec![(1..=3).map(place).collect()],
            building: Vec::new(),
            comments: TableComments::default(),
        };
        Configuration {
            epoch: Epoch(since),
            tables: vec![table].into(),
            ..Configuration::default()
        }
    }

    fn core(server: u32) -> CoreId {
        CoreId {
            server: ServerId(server),
            core: 0,
        }
    }

    #[test]
    fn a_lease_comes_from_the_coordinator_or_from_enough_peers() {
        let (own, table) = (core(1), TableId(1));
        let mut leases = Leases::default();
        assert!(leases.answers(own, table, 5).is_err());
        leases.note_lease_renewal(own, 10);
        assert_eq!(leases.answers(own, table, 10), Ok(()));
        assert!(leases.answers(own, table, 11).is_err());
        leases.note_lease_grant(own, (core(2), Epoch(1), 30));
        leases.count(own, &configuration(1));
        assert!(leases.answers(own, table, 11).is_err());
        leases.note_lease_grant(own, (core(3), Epoch(1), 20));
        leases.count(own, &configuration(1));
        assert_eq!(leases.answers(own, table, 20), Ok(()));
        assert!(leases.answers(own, table, 21).is_err());
        assert!(leases.answers(own, TableId(2), 20).is_err());
        // One after the table has changed takes nothing back, and adds nothing alone.
        leases.note_lease_grant(own, (core(3), Epoch(2), 40));
        leases.count(own, &configuration(2));
        assert_eq!(leases.answers(own, table, 20), Ok(()));
        assert!(leases.answers(own, table, 21).is_err());
        leases.started(own);
        assert!(leases.answers(own, table, 5).is_err());
    }

    #[test]
    fn a_mismatched_request_may_only_be_refused() {
        let mut leases = Leases::default();
        leases.mismatched(ClientId(3), 7);
        assert!(leases.served(ClientId(3), 7).is_err());
        assert_eq!(leases.served(ClientId(3), 8), Ok(()));
    }
}
