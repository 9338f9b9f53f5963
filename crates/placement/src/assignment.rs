//! Assigns each partition to a server and core. Every row survives the failures that its table
//! tolerates, and the load is even.
//!
//! Failure domains are divided into pools that share none. Replexes that are cut alike are a family
//! and live in one pool, each copy of a partition in another domain of it, so a family of c copies
//! gives a row c domains; families of independent cuts add up only across pools. With f = n − 1 and
//! n different cuts that is one pool per replex. The result is proven before it is returned. Moving
//! placed partitions is left to the coordinator.
//!
//! Among placements of the same load, the one is taken in which the covers of any one server's
//! partitions lie on the most servers: these answer for it, and give its rows, while it is lost.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;

use crate::grid::Layout;
use crate::places::{HostCore, LOAD_PER_COPY, Loads, PartitionHost, Placement, partition_load};
use crate::proof::{PlacementProof, prove};

/// The reason why a table cannot be placed. More servers, or a table that tolerates fewer failures,
/// can help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AssignmentError {
    /// There are too few failure domains for the tolerated failures.
    TooFewDomains {
        /// f.
        failures_tolerated: usize,
        /// f + 1.
        needed: usize,
        /// Distinct domains of the servers given.
        found: usize,
    },
    /// There are too few replexes for the tolerated failures.
    TooFewCopies {
        /// f + 1.
        needed: usize,
        /// Replexes of the layout.
        found: usize,
    },
    /// A server has no cores, or an id occurs twice.
    BadServer {
        /// The server's id.
        id: u32,
    },
}

impl fmt::Display for AssignmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AssignmentError::TooFewDomains {
                failures_tolerated,
                needed,
                found,
            } => {
                write!(
                    f,
                    "failures_tolerated = {failures_tolerated} needs servers in {needed} failure domains, there are {found}: start servers in {} more",
                    needed - found
                )?;
                match found.checked_sub(1) {
                    Some(possible) => write!(f, ", or set failures_tolerated = {possible}"),
                    None => Ok(()),
                }
            }
            AssignmentError::TooFewCopies { needed, found } => write!(
                f,
                "{needed} copies are needed, the table has {found}: add indexes or exact replicas, or tolerate fewer failures"
            ),
            AssignmentError::BadServer { id } => {
                write!(
                    f,
                    "server {id} has no cores or is there twice: give each server its own id"
                )
            }
        }
    }
}

impl core::error::Error for AssignmentError {}

impl Layout {
    /// Returns families of copies that are partitioned alike, by ascending index. Their partitions
    /// are copies with the same rows. Every copy is in one family.
    pub fn families(&self) -> Vec<Vec<usize>> {
        let mut families: Vec<Vec<usize>> = Vec::new();
        for index in self.copy_numbers() {
            let replex = &self.replexes[index];
            let is_alike = |it: &&mut Vec<usize>| self.replexes[it[0]].axes == replex.axes;
            // Ranges of two copies divide rows differently.
            let mut known = families.iter_mut().filter(|_| !self.is_ranged(index));
            match known.find(is_alike) {
                Some(family) => family.push(index),
                None => families.push(vec![index]),
            }
        }
        families
    }
}

/// Places every partition so that every row has copies in f + 1 failure domains, and proves it.
/// `held` is the load of the cores from other tables.
pub fn assign(
    layout: &Layout,
    failures_tolerated: usize,
    servers: &[PartitionHost],
    held: &Loads,
) -> Result<(Placement, PlacementProof), AssignmentError> {
    let needed = failures_tolerated + 1;
    let mut domains: BTreeMap<&str, Domain<'_>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for server in servers {
        if server.cores == 0 || !ids.insert(server.id) {
            return Err(AssignmentError::BadServer { id: server.id });
        }
        let core = |core| {
            let place = HostCore {
                server: server.id,
                core,
            };
            (held.get(&place).copied().unwrap_or(0), core)
        };
        let cores: BTreeSet<(u64, u16)> = (0..server.cores).map(core).collect();
        let load = cores.iter().map(|(load, _)| load).sum();
        let domain = domains.entry(&server.domain).or_default();
        domain.servers.push(ServerLoad {
            server,
            load,
            cores,
        });
    }
    let found = domains.len();
    if found < needed {
        return Err(AssignmentError::TooFewDomains {
            failures_tolerated,
            needed,
            found,
        });
    }
    if layout.copies() < needed {
        return Err(AssignmentError::TooFewCopies {
            needed,
            found: layout.copies(),
        });
    }

    let pools = best_pools(layout, needed, domains.into_values().collect());
    let mut placement = best_dealt(layout, &pools);
    place_thin(layout, held, servers, &mut placement);
    let proof = prove(layout, &placement, servers);
    assert!(
        proof.copies_guaranteed as usize >= needed,
        "pools share no domain, so their copies add up"
    );
    Ok((placement, proof))
}

#[derive(Clone)]
struct ServerLoad<'a> {
    server: &'a PartitionHost,
    /// Sum over the cores.
    load: u64,
    /// (load, core), the least loaded first.
    cores: BTreeSet<(u64, u16)>,
}

#[derive(Clone, Default)]
struct Domain<'a> {
    servers: Vec<ServerLoad<'a>>,
}

impl Domain<'_> {
    fn load(&self) -> u64 {
        self.servers.iter().map(|server| server.load).sum()
    }

    fn cores(&self) -> u64 {
        self.servers
            .iter()
            .map(|server| u64::from(server.server.cores))
            .sum()
    }
}

/// Domains that hold some families and nothing else of the table.
#[derive(Clone, Default)]
struct Pool<'a> {
    families: Vec<Vec<usize>>,
    domains: Vec<Domain<'a>>,
    /// Load that the families bring and that the domains hold.
    load: u64,
    cores: u64,
    /// Domains that it must have at least.
    domains_min: usize,
}

impl Pool<'_> {
    fn copies_max(&self) -> usize {
        self.families.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Returns the load per core, in small units. It is the highest for a pool without domains.
    fn pressure(&self) -> u64 {
        self.load.checked_div(self.cores).unwrap_or(u64::MAX)
    }
}

/// Returns the division into pools that gives `needed` domains per row with the least load per
/// core; among equals the one with the most pools, which tolerates more than was asked for.
fn best_pools<'a>(layout: &Layout, needed: usize, mut domains: Vec<Domain<'a>>) -> Vec<Pool<'a>> {
    let mut families = layout.families();
    // Stable, so that chain order breaks ties.
    families.sort_by_key(|family| Reverse(family.len()));
    // The emptiest domain first, then the largest, then by name, in which order they came.
    domains.sort_by_key(|domain| (domain.load() / domain.cores(), Reverse(domain.cores())));
    let mut best: Option<(u64, Vec<Pool<'a>>)> = None;
    for count in 1..=families.len().min(domains.len()) {
        let copies: usize = families[..count].iter().map(Vec::len).sum();
        if copies < needed {
            continue;
        }
        let pools = divide(&families, needed, count, &domains);
        let pressure = pools.iter().map(Pool::pressure).max().unwrap_or(u64::MAX);
        if best.as_ref().is_none_or(|(least, _)| pressure <= *least) {
            best = Some((pressure, pools));
        }
    }
    best.expect("f + 1 families, or fewer with more copies, reach f + 1 copies in f + 1 domains")
        .1
}

/// Returns `count` pools. The largest families get a pool each. Each other family goes to the
/// smallest pool. Then every domain goes to the pool that needs it most.
fn divide<'a>(
    families: &[Vec<usize>],
    needed: usize,
    count: usize,
    domains: &[Domain<'a>],
) -> Vec<Pool<'a>> {
    let mut pools = vec![
        Pool {
            domains_min: 1,
            ..Pool::default()
        };
        count
    ];
    for (index, family) in families.iter().enumerate() {
        let pool = if index < count {
            &mut pools[index]
        } else {
            // The first of equals, in chain order.
            pools
                .iter_mut()
                .min_by_key(|pool| pool.load)
                .expect("there is a pool")
        };
        pool.families.push(family.clone());
        pool.load += family.len() as u64 * LOAD_PER_COPY;
    }
    for _ in count..needed {
        let can_grow = pools
            .iter_mut()
            .filter(|pool| pool.domains_min < pool.copies_max());
        let pool = can_grow.max_by_key(|pool| pool.load / pool.domains_min as u64);
        pool.expect("the pools' families have the copies needed")
            .domains_min += 1;
    }
    for (index, domain) in domains.iter().enumerate() {
        let missing = |pool: &Pool<'_>| pool.domains_min.saturating_sub(pool.domains.len());
        let must_serve = pools.iter().map(missing).sum::<usize>() == domains.len() - index;
        let takers = pools
            .iter_mut()
            .filter(|pool| !must_serve || missing(pool) > 0);
        // `max_by_key` takes the last of equals; the first in the chain is wanted.
        let pool = takers
            .rev()
            .max_by_key(|pool| pool.pressure())
            .expect("some pool takes it");
        pool.load += domain.load();
        pool.cores += domain.cores();
        pool.domains.push(domain.clone());
    }
    pools
}

/// In which order a family's partitions are dealt to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DealOrder {
    /// Neighbouring partitions go to different servers.
    Apart,
    /// Neighbouring partitions go to the same server.
    Together,
}

impl DealOrder {
    fn order(self, count: u32, servers: u32) -> Vec<u32> {
        let mut order: Vec<u32> = (0..count).collect();
        if self == DealOrder::Together {
            let rounds = count.div_ceil(servers);
            order.sort_by_key(|partition| partition % rounds);
        }
        order
    }
}

/// Families whose dealing is tried both ways; of the others neighbours go apart.
const DEALT_MAX: usize = 5;

/// Partitions of a table, all copies together, up to which other dealings are tried.
const PARTITIONS_MAX: u32 = 512;

/// Deals the families in all ways, and takes the way that spreads covers best; the first of equals.
fn best_dealt(layout: &Layout, pools: &[Pool<'_>]) -> Placement {
    let families: usize = pools.iter().map(|pool| pool.families.len()).sum();
    let partitions: u32 = layout.numbers().map(|it| layout.partition_count(it)).sum();
    let tried = match partitions {
        0..=PARTITIONS_MAX => families.min(DEALT_MAX),
        _ => 0,
    };
    let instead = match tried {
        0 => Vec::new(),
        _ => instead_of_each(layout),
    };
    let ways = (0..1_u32 << tried).map(|way| {
        let dealing = |family: usize| match family < tried && way >> family & 1 == 1 {
            true => DealOrder::Together,
            false => DealOrder::Apart,
        };
        deal(layout, pools.to_vec(), dealing)
    });
    let best = ways.min_by_key(|placement| concentration(&instead, placement));
    best.expect("there is one way at least")
}

fn deal(layout: &Layout, pools: Vec<Pool<'_>>, dealing: impl Fn(usize) -> DealOrder) -> Placement {
    let mut placement = Placement {
        replexes: (0..layout.replexes.len())
            .map(|replex| {
                let place = HostCore { server: 0, core: 0 };
                vec![place; layout.partition_count(replex) as usize]
            })
            .collect(),
    };
    let mut number = 0;
    for mut pool in pools {
        for family in &pool.families {
            let dealing = dealing(number);
            place_family(layout, family, dealing, &mut pool.domains, &mut placement);
            number += 1;
        }
    }
    placement
}

/// The partitions that are read instead of a partition while it alone is lost: partitions of the
/// copy of which the fewest are (Replex section 3.1).
struct ReadsInstead {
    lost: (usize, u32),
    copy: usize,
    partitions: Vec<u32>,
}

fn instead_of_each(layout: &Layout) -> Vec<ReadsInstead> {
    let partitions = layout.copy_numbers().flat_map(|replex| {
        let partitions = 0..layout.partition_count(replex);
        partitions.map(move |partition| (replex, partition))
    });
    let instead = partitions.filter_map(|lost| {
        let constraints = layout.constraints_of_partition(lost.0, lost.1);
        let others = layout.copy_numbers().filter(|copy| *copy != lost.0);
        let others = others.map(|copy| ReadsInstead {
            lost,
            copy,
            partitions: layout.partitions(&constraints, copy),
        });
        others.min_by_key(|instead| instead.partitions.len())
    });
    instead.collect()
}

/// Returns the most partitions that one server is asked for instead of those of another one, added
/// up over the requests for each of that one's partitions, and how often that is so.
fn concentration(instead: &[ReadsInstead], placement: &Placement) -> (u64, u64) {
    let server = |replex: usize, partition: u32| {
        let places = &placement.replexes[replex];
        places[partition as usize].server
    };
    let mut asked: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    for it in instead {
        let lost = server(it.lost.0, it.lost.1);
        for partition in &it.partitions {
            *asked
                .entry((lost, server(it.copy, *partition)))
                .or_default() += 1;
        }
    }
    let most = asked.values().copied().max().unwrap_or(0);
    let times = asked.values().filter(|count| **count == most).count();
    (most, times as u64)
}

/// Places each partition of the thin indexes on the core with the fewest partitions, if possible in
/// a failure domain that has no other copy of its entries.
fn place_thin(layout: &Layout, held: &Loads, servers: &[PartitionHost], placement: &mut Placement) {
    let cores = servers.iter().flat_map(|server| {
        let place = |core| HostCore {
            server: server.id,
            core,
        };
        (0..server.cores).map(place)
    });
    let load = |place: HostCore| (held.get(&place).copied().unwrap_or(0), place);
    let mut cores: BTreeSet<(u64, HostCore)> = cores.map(load).collect();
    let mut take = |suits: &dyn Fn(HostCore) -> bool, added: u64| {
        let (load, place) = *cores.iter().find(|(_, place)| suits(*place))?;
        cores.remove(&(load, place));
        cores.insert((load + added, place));
        Some(place)
    };
    for replex in layout.copy_numbers() {
        for place in &placement.replexes[replex] {
            let taken = take(&|it| it == *place, partition_load(layout, replex));
            taken.expect("the copies are on these servers");
        }
    }
    for replex in layout.thin_numbers() {
        for number in 0..layout.partition_count(replex) {
            let mut twins = layout.twins(replex, number);
            twins.retain(|(other, _)| *other < replex);
            let is_apart =
                |place: HostCore| placement.count_beside(&twins, servers, place.server) == 0;
            let load = partition_load(layout, replex);
            let place = take(&is_apart, load).or_else(|| take(&|_| true, load));
            let place = place.expect("there are servers");
            placement.replexes[replex][number as usize] = place;
        }
    }
}

/// Places the copies of each partition in different domains of the pool as far as it has them,
/// each on the least loaded server there, on its least loaded core.
fn place_family(
    layout: &Layout,
    family: &[usize],
    dealing: DealOrder,
    domains: &mut [Domain<'_>],
    placement: &mut Placement,
) {
    let load = partition_load(layout, family[0]);
    let servers: usize = domains.iter().map(|domain| domain.servers.len()).sum();
    let servers = u32::try_from(servers).expect("servers have numbers of 32 bits");
    for partition in dealing.order(layout.partition_count(family[0]), servers) {
        let mut used = vec![false; domains.len()];
        for replex in family {
            if used.iter().all(|used| *used) {
                used.fill(false);
            }
            let open = domains
                .iter_mut()
                .enumerate()
                .filter(|(domain, _)| !used[*domain]);
            let servers = open
                .flat_map(|(domain, it)| it.servers.iter_mut().map(move |server| (domain, server)));
            let least = servers.min_by_key(|(_, server)| {
                (
                    server.load / u64::from(server.server.cores),
                    server.server.id,
                )
            });
            let (domain, server) = least.expect("a domain has servers");
            let (core_load, core) = server.cores.pop_first().expect("a server has cores");
            server.cores.insert((core_load + load, core));
            server.load += load;
            used[domain] = true;
            placement.replexes[*replex][partition as usize] = HostCore {
                server: server.server.id,
                core,
            };
        }
    }
}
