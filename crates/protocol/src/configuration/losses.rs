//! Determines which servers the cluster can lose and continue to serve.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::{TableReport, prove};

use super::{Configuration, PartitionState, PlacedTable, Server, ServerState};
use crate::identity::{CoreId, ServerId, TableId};

impl Configuration {
    /// Returns the servers that block a table: they are down, hold partitions of it, and are not
    /// replaced. Rows with a copy on them accept no writes until enough of them return.
    pub fn lost(&self, table: &PlacedTable) -> BTreeSet<ServerId> {
        let down = self.servers.iter();
        let down =
            down.filter(|server| server.state == ServerState::Down && table.names(server.id));
        let down: BTreeSet<ServerId> = down.map(|server| server.id).collect();
        match self.cannot_lose(table, &down) {
            Some(_) => down,
            None => BTreeSet::new(),
        }
    }

    /// Returns a server without which no snapshot of a table can be opened. It is down with a
    /// partition of the table, or it fills a partition of a copy that serves.
    pub fn missing_in(&self, table: TableId) -> Option<ServerId> {
        let table = self.table(table)?;
        let mut places = table.places();
        let missing = places.find(|(id, place)| {
            let is_filled = place.state == PartitionState::Rebuilding
                && !table.is_building(usize::from(id.replex));
            let server = self.server(place.core.server);
            is_filled || server.is_none_or(|server| server.state == ServerState::Down)
        });
        missing.map(|(_, place)| place.core.server)
    }

    /// Returns a core that held partitions of a table in an earlier configuration and holds none
    /// now, although the table was not sealed then, or has not served since (R15). Returns none if
    /// there is no such core.
    pub fn left_unsealed(&self, before: &Configuration) -> Option<(TableId, CoreId)> {
        let mut tables = before.tables.iter();
        tables.find_map(|earlier| {
            // Most tables stay as they are.
            let table = self.table(earlier.id)?;
            if table.placement == earlier.placement {
                return None;
            }
            let since = |table: &PlacedTable| table.sealing.as_ref().map(|it| it.since);
            let serves_again = earlier.sealing.is_some() && since(table) != since(earlier);
            let holders = table.holders();
            let before = earlier.holders();
            let mut left = before.difference(&holders).filter(|_| !serves_again);
            left.next().map(|core| (table.id, *core))
        })
    }

    /// Returns the reason why a table cannot continue without these servers, if there is one.
    pub fn cannot_lose(&self, table: &PlacedTable, servers: &BTreeSet<ServerId>) -> Option<String> {
        if servers.is_empty() {
            return None;
        }
        let name = &table.schema.name;
        // More of them could vouch for one another, and serve an old epoch for ever (R15).
        let most = table.vouchers_needed();
        if servers.len() > most {
            return Some(format!(
                "servers {} are down at once, and table {name} tolerates no more than {most}: start \
                 one of them",
                names(servers)
            ));
        }
        let others = self.servers.iter();
        let others = others.filter(|server| !servers.contains(&server.id));
        let others: Vec<placement::PartitionHost> = others.map(Server::bare).collect();
        let proof = prove(&table.layout, &table.full_copies(), &others);
        (proof.copies_guaranteed == 0).then(|| {
            format!(
                "servers {} hold all copies of some rows of table {name}: they wait until one of \
                 them is back",
                names(servers)
            )
        })
    }
}

impl Configuration {
    /// Returns the number of failure domains of all servers.
    pub fn failure_domains(&self) -> usize {
        let domains = self.servers.iter().map(|server| &server.domain);
        domains.collect::<BTreeSet<_>>().len()
    }

    /// Returns how many failures a table survives with its complete copies, at the servers where
    /// they are. Copies that are being made may turn out to be impossible, and count for nothing.
    pub fn survived_by_complete_copies(&self, table: &PlacedTable) -> u32 {
        let proof = prove(&table.layout, &table.full_copies(), &self.hosts());
        let copies = table.layout.copy_numbers();
        let complete = copies.filter(|number| !table.is_building(*number)).count();
        let beside = u32::try_from(complete.saturating_sub(1)).unwrap_or(u32::MAX);
        proof.failures_tolerated().min(beside)
    }

    /// Adds to the report how many failures a table survives with its readable copies, which are
    /// filled and on servers that are up.
    pub(super) fn survive(&self, table: &PlacedTable, report: &mut TableReport) {
        let is_up = |server: &&Server| server.state == ServerState::Up;
        let up = self.servers.iter().filter(is_up).map(Server::bare);
        let up: Vec<placement::PartitionHost> = up.collect();
        let copies = table.full_copies();
        let now = prove(&table.layout, &copies, &up).copies_guaranteed;
        report.failures_survived = now.checked_sub(1);
        if report.failures_survived == report.failures_proven {
            return;
        }
        let places = || table.placement.iter().flatten();
        let filling = places().filter(|place| place.state == PartitionState::Rebuilding);
        let filling = filling.count();
        let is_down = |id: &ServerId| {
            let server = self.server(*id);
            server.is_some_and(|server| server.state == ServerState::Down)
        };
        let down = places().map(|place| place.core.server).filter(is_down);
        let down: BTreeSet<ServerId> = down.collect();
        let mut reasons = Vec::new();
        if !down.is_empty() {
            let these = names(&down);
            reasons.push(match down.len() {
                1 => format!("server {these} is down"),
                _ => format!("servers {these} are down"),
            });
        }
        if filling > 0 {
            reasons.push(match filling {
                1 => "1 partition is being filled".into(),
                _ => format!("{filling} partitions are being filled"),
            });
        }
        report.shortfall = reasons.join(", ");
    }
}

impl PlacedTable {
    /// Returns how many other servers must grant a core a lease for the table, so that the core may
    /// serve without the coordinator. No more servers are removed from the table before it serves
    /// again. So every epoch that excludes the core has a survivor among them (R15).
    pub fn vouchers_needed(&self) -> usize {
        usize::from(self.schema.failures_tolerated).max(1)
    }

    /// Returns the placement without the partitions that are not filled yet.
    pub fn full_copies(&self) -> placement::Placement {
        let mut bare = self.bare_placement();
        for (replex, places) in self.placement.iter().enumerate() {
            for (number, place) in places.iter().enumerate() {
                if place.state == PartitionState::Rebuilding {
                    bare.replexes[replex][number].server = 0;
                }
            }
        }
        bare
    }
}

/// Returns the servers' numbers as text.
pub fn names(servers: &BTreeSet<ServerId>) -> String {
    let names: Vec<String> = servers.iter().map(|id| format!("{}", id.0)).collect();
    names.join(", ")
}
