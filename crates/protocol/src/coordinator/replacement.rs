//! Where the partitions of removed servers go: onto a spare, else spread over those that hold the
//! same replex, as long as what the table tolerates stays proven; else wherever there is a server,
//! and everybody is told (DESIGN section 5).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use placement::{Place as Bare, Placement, prove};

use super::{Coordinator, Output};
use crate::configuration::{PartitionState, Place, Server, ServerState, Table};
use crate::identity::{CoreId, Epoch, ServerId};

/// A partition of one table: replex and number.
type Cell = (usize, usize);

impl Coordinator {
    /// Gives what the removed servers held to others, from `epoch` on.
    pub(super) fn replace(
        &mut self,
        removed: &BTreeSet<ServerId>,
        epoch: Epoch,
        output: &mut Output,
    ) {
        let configuration = &self.state.configuration;
        let up = configuration.servers.iter();
        let up = up.filter(|it| it.state == ServerState::Up && !removed.contains(&it.id));
        let servers: Vec<placement::Server> = up.map(Server::bare).collect();
        let mut loads: BTreeMap<(u32, u16), usize> = BTreeMap::new();
        for table in &configuration.tables {
            for place in table.placement.iter().flatten() {
                *loads
                    .entry((place.core.server.0, place.core.core))
                    .or_default() += 1;
            }
        }
        for table in &mut self.state.configuration.tables {
            let lost = lost_cells(table, removed);
            if lost.is_empty() {
                continue;
            }
            let (placement, tolerated) = choose(table, (&lost, removed), &servers, &mut loads);
            for (replex, number) in &lost {
                let Bare { server, core } = placement.replexes[*replex][*number];
                table.placement[*replex][*number] = Place {
                    core: CoreId {
                        server: ServerId(server),
                        core,
                    },
                    state: PartitionState::Rebuilding,
                    since: epoch,
                };
            }
            output.notes.push(format!(
                "table {}: {} partitions are rebuilt",
                table.schema.name,
                lost.len()
            ));
            if tolerated < u32::from(table.schema.failures_tolerated) {
                output.notes.push(format!(
                    "table {} is DEGRADED: once rebuilt it survives {tolerated} failures, not \
                     the {} that it tolerates; start another server",
                    table.schema.name, table.schema.failures_tolerated
                ));
            }
        }
    }
}

fn lost_cells(table: &Table, removed: &BTreeSet<ServerId>) -> Vec<Cell> {
    let replexes = table.placement.iter().enumerate();
    let cells = replexes.flat_map(|(replex, places)| {
        let places = places.iter().enumerate();
        places.map(move |(number, place)| (replex, number, place))
    });
    cells
        .filter(|(_, _, place)| removed.contains(&place.core.server))
        .map(|(replex, number, _)| (replex, number))
        .collect()
}

/// Which servers may take a cell.
type Candidates<'a> = &'a dyn Fn(Cell) -> Vec<&'a placement::Server>;

/// A placement of the table with the lost cells elsewhere, and how many failures it survives.
fn choose(
    table: &Table,
    (lost, removed): (&[Cell], &BTreeSet<ServerId>),
    servers: &[placement::Server],
    loads: &mut BTreeMap<(u32, u16), usize>,
) -> (Placement, u32) {
    let bare = table.bare_placement();
    let places = bare.replexes.iter().flatten();
    let holders: BTreeSet<u32> = places.map(|place| place.server).collect();
    let spares: Vec<&placement::Server> = servers
        .iter()
        .filter(|it| !holders.contains(&it.id))
        .collect();
    let of_replex = |replex: usize| -> Vec<&placement::Server> {
        let others = |server: u32| {
            let replexes = bare.replexes.iter().enumerate();
            let mut others = replexes.filter(|(other, _)| *other != replex);
            others.any(|(_, places)| places.iter().any(|place| place.server == server))
        };
        let same = servers.iter().filter(|server| !others(server.id));
        same.filter(|server| holders.contains(&server.id)).collect()
    };
    // Each lost server's partitions go to one spare, so that what was apart stays apart.
    let replaced: Vec<u32> = removed.iter().map(|id| id.0).collect();
    let spare_of = |(replex, number): Cell| -> Vec<&placement::Server> {
        let was = bare.replexes[replex][number].server;
        let index = replaced.iter().position(|id| *id == was).unwrap_or(0);
        spares.get(index).copied().into_iter().collect()
    };
    let anywhere = |_: Cell| -> Vec<&placement::Server> { servers.iter().collect() };
    let same_replex = |(replex, _): Cell| of_replex(replex);
    let ways: [Candidates<'_>; 2] = [&spare_of, &same_replex];
    let needed = u32::from(table.schema.failures_tolerated);
    for way in ways {
        let mut tried = loads.clone();
        if let Some(placement) = place_all(&bare, lost, way, &mut tried) {
            let tolerated = prove(&table.layout, &placement, servers).failures_tolerated();
            if tolerated >= needed {
                *loads = tried;
                return (placement, tolerated);
            }
        }
    }
    let placement = place_all(&bare, lost, &anywhere, loads).expect("some server is up");
    let tolerated = prove(&table.layout, &placement, servers).failures_tolerated();
    (placement, tolerated)
}

/// Each lost cell on the core that holds least, of the servers that may take it; none if there is
/// none for some cell. Servers that hold other replexes of the table come last.
fn place_all(
    bare: &Placement,
    lost: &[Cell],
    candidates: Candidates<'_>,
    loads: &mut BTreeMap<(u32, u16), usize>,
) -> Option<Placement> {
    let mut placement = bare.clone();
    for (replex, number) in lost {
        let shared = |server: u32| {
            let replexes = placement.replexes.iter().enumerate();
            let others = replexes.filter(|(other, _)| other != replex);
            let places = others.flat_map(|(_, places)| places);
            places.filter(|place| place.server == server).count()
        };
        let servers = candidates((*replex, *number));
        let cores = servers.iter().flat_map(|server| {
            let shared = shared(server.id);
            (0..server.cores).map(move |core| (shared, server.id, core))
        });
        let load = |server, core| loads.get(&(server, core)).copied().unwrap_or(0);
        let (_, server, core) = cores
            .min_by_key(|(shared, server, core)| (*shared, load(*server, *core), *server, *core))?;
        *loads.entry((server, core)).or_default() += 1;
        placement.replexes[*replex][*number] = Bare { server, core };
    }
    Some(placement)
}
