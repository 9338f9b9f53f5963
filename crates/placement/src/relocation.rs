//! Chooses which partitions of a table move, and to which servers: off servers that are lost or
//! drained, apart again if copies had to share a server, and evenly onto new servers.
//!
//! Invariant: where a table tolerates its stated failures, it does so after every batch of moves.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::assignment::assign;
use crate::grid::Layout;
use crate::places::{HostCore, Loads, PartitionHost, Placement, partition_load};
use crate::proof::prove;

/// Placements that are proven to find one partition whose move evens out the load.
const TRIES_MAX: usize = 64;

/// A partition of one table: its replex and its number.
pub type Cell = (usize, usize);

/// A table whose partitions are to be moved in part.
#[derive(Clone, Copy, Debug)]
pub struct Relocation<'a> {
    /// The table's grids.
    pub layout: &'a Layout,
    /// The number of failures that the table must survive.
    pub failures_tolerated: u32,
    /// The present placement.
    pub placement: &'a Placement,
    /// Servers that may take partitions.
    pub servers: &'a [PartitionHost],
    /// Servers whose partitions count as copies: those that may take some, and others that are up.
    pub counted: &'a [PartitionHost],
}

impl Placement {
    /// Returns the partitions whose cores differ in `other`, with their cores in `other`.
    pub fn moves_to(&self, other: &Placement) -> Vec<(Cell, HostCore)> {
        let replexes = self.replexes.iter().zip(&other.replexes).enumerate();
        let cells = replexes.flat_map(|(replex, (from, to))| {
            let places = from.iter().zip(to).enumerate();
            places.map(move |(number, (from, to))| ((replex, number), *from, *to))
        });
        let moves = cells.filter(|(_, from, to)| from != to);
        moves.map(|(cell, _, to)| (cell, to)).collect()
    }

    /// Returns the placement with some partitions on other cores.
    pub fn with(&self, moves: &[(Cell, HostCore)]) -> Placement {
        let mut placement = self.clone();
        for ((replex, number), place) in moves {
            placement.replexes[*replex][*number] = *place;
        }
        placement
    }

    /// Returns the partitions on servers that are not in the list.
    pub fn cells_outside(&self, servers: &[PartitionHost]) -> Vec<Cell> {
        self.cells(|place| servers.iter().all(|server| server.id != place.server))
    }

    fn cells(&self, counts: impl Fn(&HostCore) -> bool) -> Vec<Cell> {
        let replexes = self.replexes.iter().enumerate();
        let cells = replexes.flat_map(|(replex, places)| {
            let places = places.iter().enumerate();
            places.map(move |(number, place)| ((replex, number), place))
        });
        let counted = cells.filter(|(_, place)| counts(place));
        counted.map(|(cell, _)| cell).collect()
    }

    /// Returns whether a server holds a cell of another replex than this.
    fn holds_other(&self, server: u32, replex: usize) -> bool {
        let replexes = self.replexes.iter().enumerate();
        let mut others = replexes.filter(|(other, _)| *other != replex);
        others.any(|(_, places)| places.iter().any(|place| place.server == server))
    }
}

/// Which servers may take a cell.
type Candidates<'a> = &'a dyn Fn(Cell) -> Vec<&'a PartitionHost>;

impl Relocation<'_> {
    /// Returns the number of failures that a placement survives.
    pub fn tolerated(&self, placement: &Placement) -> u32 {
        prove(self.layout, placement, self.counted).failures_tolerated()
    }

    /// Returns the placement with these partitions on other cores, and the number of failures that
    /// it survives. The partitions of each server go to one spare server, otherwise to servers that
    /// hold the same replex, otherwise to any server with the least load. Returns none without
    /// servers. `loads` has the loads of all tables, and is updated.
    pub fn relocate(&self, cells: &[Cell], loads: &mut Loads) -> Option<(Placement, u32)> {
        let before = self.placement;
        let places = before.replexes.iter().flatten();
        let holders: BTreeSet<u32> = places.map(|place| place.server).collect();
        let is_spare = |server: &&PartitionHost| !holders.contains(&server.id);
        let spares: Vec<&PartitionHost> = self.servers.iter().filter(is_spare).collect();
        let left = cells.iter();
        let left = left.map(|(replex, number)| before.replexes[*replex][*number].server);
        let left: BTreeSet<u32> = left.collect();
        // Each server's partitions go to one spare, so that separate copies stay separate.
        let spare_of = |(replex, number): Cell| -> Vec<&PartitionHost> {
            let was = before.replexes[replex][number].server;
            let index = left.iter().position(|id| *id == was).unwrap_or(0);
            spares.get(index).copied().into_iter().collect()
        };
        let same_replex = |(replex, _): Cell| -> Vec<&PartitionHost> {
            let holds = |server: &&PartitionHost| {
                holders.contains(&server.id) && !before.holds_other(server.id, replex)
            };
            self.servers.iter().filter(holds).collect()
        };
        let anywhere = |_: Cell| -> Vec<&PartitionHost> { self.servers.iter().collect() };
        let ways: [Candidates<'_>; 2] = [&spare_of, &same_replex];
        for way in ways {
            let mut tried = loads.clone();
            if let Some(placement) = self.place_all(cells, way, &mut tried) {
                let tolerated = self.tolerated(&placement);
                if tolerated >= self.failures_tolerated {
                    *loads = tried;
                    return Some((placement, tolerated));
                }
            }
        }
        let placement = self.place_all(cells, &anywhere, loads)?;
        let tolerated = self.tolerated(&placement);
        Some((placement, tolerated))
    }

    /// Returns each cell on the core that holds least, of the servers that may take it; none if
    /// there is none for some cell. Servers that hold other replexes of the table come last.
    fn place_all(
        &self,
        cells: &[Cell],
        candidates: Candidates<'_>,
        loads: &mut Loads,
    ) -> Option<Placement> {
        let mut placement = self.placement.clone();
        for (replex, number) in cells {
            let shared = |server: u32| {
                let replexes = placement.replexes.iter().enumerate();
                let others = replexes.filter(|(other, _)| other != replex);
                let places = others.flat_map(|(_, places)| places);
                places.filter(|place| place.server == server).count()
            };
            let servers = candidates((*replex, *number));
            let twins = self.layout.twins(*replex, *number as u32);
            let places = servers.iter().flat_map(|server| {
                let beside = placement.count_beside(&twins, self.counted, server.id);
                let shared = (beside, shared(server.id));
                places_of(server).map(move |place| (shared, place))
            });
            let load = |place: &HostCore| loads.get(place).copied().unwrap_or(0);
            let (_, place) = places.min_by_key(|(shared, place)| (*shared, load(place), *place))?;
            let was = placement.replexes[*replex][*number];
            self.shift(*replex, was, place, loads);
            placement.replexes[*replex][*number] = place;
        }
        Some(placement)
    }

    fn shift(&self, replex: usize, from: HostCore, to: HostCore, loads: &mut Loads) {
        let load = partition_load(self.layout, replex);
        let before = loads.entry(from).or_default();
        *before = before.saturating_sub(load);
        *loads.entry(to).or_default() += load;
    }

    /// Returns a placement without these partitions at their present cores that survives the
    /// table's requested failures, if there is one. Other partitions move only if necessary.
    pub fn clear(&self, cells: &[Cell], loads: &mut Loads) -> Option<Placement> {
        let mut tried = loads.clone();
        let (placement, tolerated) = self.relocate(cells, &mut tried)?;
        if tolerated < self.failures_tolerated {
            return self.place_again(loads);
        }
        *loads = tried;
        Some(placement)
    }

    /// Returns a placement that survives the table's requested failures again, if there is one.
    pub fn heal(&self, loads: &mut Loads) -> Option<Placement> {
        for replex in 0..self.layout.replexes.len() {
            let shares = |place: &HostCore| self.placement.holds_other(place.server, replex);
            let cells = self.placement.cells(shares);
            let cells: Vec<Cell> = cells.into_iter().filter(|cell| cell.0 == replex).collect();
            let mut tried = loads.clone();
            let found = self.relocate(&cells, &mut tried);
            if let Some((placement, tolerated)) = found
                && tolerated >= self.failures_tolerated
            {
                *loads = tried;
                return Some(placement);
            }
        }
        self.place_again(loads)
    }

    fn place_again(&self, loads: &mut Loads) -> Option<Placement> {
        let mut others = loads.clone();
        for (place, load) in self.placement.loads(self.layout) {
            let all = others.entry(place).or_default();
            *all = all.saturating_sub(load);
        }
        let failures = self.failures_tolerated as usize;
        let (placement, _) = assign(self.layout, failures, self.servers, &others).ok()?;
        for (place, load) in placement.loads(self.layout) {
            *others.entry(place).or_default() += load;
        }
        *loads = others;
        Some(placement)
    }

    /// Returns the one move onto one of these servers that balances the load of cores best, and
    /// after which the table still survives its requested failures. Returns none if no move reduces
    /// the difference of two cores' loads by at least the partition's load.
    pub fn even_out(&self, onto: &[PartitionHost], loads: &mut Loads) -> Option<(Cell, HostCore)> {
        let load = |place: &HostCore| loads.get(place).copied().unwrap_or(0);
        let mut tries: Vec<(u64, Cell, HostCore)> = Vec::new();
        let mut seen = BTreeSet::new();
        let replexes = self.placement.replexes.iter().enumerate();
        for (replex, places) in replexes.filter(|(_, places)| !places.is_empty()) {
            let part = partition_load(self.layout, replex);
            // Cells of one replex on one core are as good as one another.
            let firsts = places.iter().enumerate();
            for (number, from) in firsts.filter(|(_, from)| seen.insert((replex, **from))) {
                for to in onto.iter().flat_map(places_of) {
                    let gain = load(from).saturating_sub(load(&to));
                    if gain >= 2 * part {
                        tries.push((gain, (replex, number), to));
                    }
                }
            }
        }
        tries.sort_by_key(|(gain, cell, to)| (Reverse(*gain), *cell, *to));
        let tried = tries.into_iter().take(TRIES_MAX);
        let mut moves = tried.map(|(_, cell, to)| (cell, to));
        let (cell, to) = moves.find(|(cell, to)| {
            let from = self.placement.replexes[cell.0][cell.1];
            let beside = self.beside_twins(*cell);
            beside(to.server) <= beside(from.server)
                && self.tolerated(&self.placement.with(&[(*cell, *to)])) >= self.failures_tolerated
        })?;
        let from = self.placement.replexes[cell.0][cell.1];
        self.shift(cell.0, from, to, loads);
        Some((cell, to))
    }

    /// Returns a move by which a partition of a thin index leaves a failure domain with another
    /// copy of its entries. Returns none if all copies are apart, or no domain is free of them.
    pub fn part_twins(&self, loads: &mut Loads) -> Option<(Cell, HostCore)> {
        let mut cells = self.layout.thin_numbers().flat_map(|replex| {
            let places = self.placement.replexes[replex].iter().enumerate();
            places.map(move |(number, place)| ((replex, number), *place))
        });
        let (cell, from, to) = cells.find_map(|(cell, from)| {
            let beside = self.beside_twins(cell);
            if beside(from.server) == 0 {
                return None;
            }
            let servers = self.servers.iter();
            let free = servers.filter(|server| beside(server.id) == 0);
            let load = |place: &HostCore| (loads.get(place).copied().unwrap_or(0), *place);
            let to = free.flat_map(places_of).min_by_key(load)?;
            Some((cell, from, to))
        })?;
        self.shift(cell.0, from, to, loads);
        Some((cell, to))
    }

    /// Returns for each server how many copies of entries that a partition has are in the server's
    /// failure domain.
    fn beside_twins(&self, (replex, number): Cell) -> impl Fn(u32) -> usize {
        let twins = self.layout.twins(replex, number as u32);
        move |server| self.placement.count_beside(&twins, self.counted, server)
    }
}

/// Returns the cores of a server.
fn places_of(server: &PartitionHost) -> impl Iterator<Item = HostCore> {
    let id = server.id;
    (0..server.cores).map(move |core| HostCore { server: id, core })
}
