//! The servers that can hold partitions, the core that holds each partition, and the load that a
//! placement gives to servers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::grid::Layout;

/// The load of one complete copy of a table. It is large, so that the load of one partition, its
/// fraction of the copy, is a whole number.
pub const LOAD_PER_COPY: u64 = 1 << 32;

/// A server that can hold partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionHost {
    /// The server's number, unique in the cluster.
    pub id: u32,
    /// The failure domain, such as its own name, a rack or a zone.
    pub domain: String,
    /// The number of event loops; at least 1. Each can hold partitions.
    pub cores: u16,
}

/// The core that holds a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostCore {
    /// [`PartitionHost::id`].
    pub server: u32,
    /// The number of the core on its server, below [`PartitionHost::cores`].
    pub core: u16,
}

/// The cores that hold the partitions of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// The core of each partition of each replex.
    pub replexes: Vec<Vec<HostCore>>,
}

/// The load of each core, in units of [`LOAD_PER_COPY`] per copy of a table.
pub type Loads = BTreeMap<HostCore, u64>;

impl Placement {
    /// Returns the load of each core from this placement.
    pub fn loads(&self, layout: &Layout) -> Loads {
        let mut loads = Loads::new();
        for (replex, places) in self.replexes.iter().enumerate() {
            for place in places {
                *loads.entry(*place).or_default() += partition_load(layout, replex);
            }
        }
        loads
    }
}

impl Placement {
    /// Returns how many of these partitions are in the failure domain of a server. A server that is
    /// not in the list is a domain of its own.
    pub fn count_beside(
        &self,
        cells: &[(usize, u32)],
        servers: &[PartitionHost],
        server: u32,
    ) -> usize {
        let cells = cells.iter();
        let holders = cells.map(|(replex, number)| self.replexes[*replex][*number as usize].server);
        holders.filter(beside(servers, server)).count()
    }
}

/// Returns which servers are in the failure domain of a server. A server that is not in the list is
/// a domain of its own.
pub fn beside(servers: &[PartitionHost], server: u32) -> impl Fn(&u32) -> bool {
    let domain = move |id: u32| {
        let known = servers.iter().find(|host| host.id == id);
        known.map(|host| &host.domain)
    };
    let own = domain(server);
    move |other| *other == server || own.is_some() && domain(*other) == own
}

pub(crate) fn partition_load(layout: &Layout, replex: usize) -> u64 {
    LOAD_PER_COPY / u64::from(layout.partition_count(replex))
}
