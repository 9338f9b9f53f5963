//! Whom the cluster can go on without.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::prove;

use super::{Configuration, PartitionState, Server, ServerState, Table};
use crate::identity::ServerId;

impl Configuration {
    /// Servers that are down and have to do with partitions, if the cluster cannot go on without
    /// them: nobody replaces them, and rows of which they hold a copy take no writes until enough of
    /// them are back.
    pub fn lost(&self) -> BTreeSet<ServerId> {
        let down = self.servers.iter();
        let down = down.filter(|server| server.state == ServerState::Down && self.holds(server.id));
        let down: BTreeSet<ServerId> = down.map(|server| server.id).collect();
        match self.cannot_lose(&down) {
            Some(_) => down,
            None => BTreeSet::new(),
        }
    }

    /// Why the cluster cannot go on without these servers, if so.
    pub fn cannot_lose(&self, servers: &BTreeSet<ServerId>) -> Option<String> {
        if servers.is_empty() {
            return None;
        }
        let tables = self.tables.iter();
        let tolerated = tables.map(|table| usize::from(table.schema.failures_tolerated));
        // More of them could vouch for one another, and serve an old epoch for ever (SAFETY R15).
        let most = tolerated.max().unwrap_or(0).max(1);
        if servers.len() > most {
            return Some(format!(
                "servers {} are down at once, and no table tolerates more than {most}: start one \
                 of them",
                names(servers)
            ));
        }
        let others = self.servers.iter();
        let others = others.filter(|server| !servers.contains(&server.id));
        let others: Vec<placement::Server> = others.map(Server::bare).collect();
        let mut tables = self.tables.iter();
        let table = tables.find(|table| {
            prove(&table.layout, &table.full_copies(), &others).copies_guaranteed == 0
        })?;
        Some(format!(
            "servers {} hold all copies of some rows of table {}: they wait until one of them is \
             back",
            names(servers),
            table.schema.name
        ))
    }
}

impl Table {
    /// The placement, with partitions that are not filled yet nowhere.
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

/// The servers' numbers, for people.
pub(crate) fn names(servers: &BTreeSet<ServerId>) -> String {
    let names: Vec<String> = servers.iter().map(|id| format!("{}", id.0)).collect();
    names.join(", ")
}
