//! R49: ranges with too many entries are split. When faults have stopped, no range keeps so many
//! entries that its holder should report it.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use placement::tables::Tables;
use protocol::configuration::{Configuration, PlacedTable, ServerState};
use protocol::identity::PartitionId;

use crate::world::World;

/// Returns a range that is still to be split, with its number of entries; none if there is none.
pub fn pending(world: &World) -> Option<(PartitionId, u64)> {
    let configuration = world.coordinator.configuration()?;
    let mut tables = configuration.tables.iter();
    tables.find_map(|table| pending_of(world, configuration, table))
}

/// Returns how many cores can take a range of a replex for certain: of a thin index all, and of a
/// copy those in the failure domains that have ranges of this copy.
fn takers(configuration: &Configuration, table: &PlacedTable, replex: usize) -> usize {
    let numbers = table.layout.partitions_with_rows(replex).into_iter();
    let holders = numbers.map(|number| table.placement[replex][number as usize].core.server);
    let domains: BTreeSet<&str> = holders
        .filter_map(|holder| Some(&configuration.server(holder)?.domain[..]))
        .collect();
    let servers = configuration.servers.iter();
    let takers = servers.filter(|it| it.state == ServerState::Up && !it.is_draining);
    let takers =
        takers.filter(|it| table.layout.is_thin(replex) || domains.contains(&it.domain[..]));
    takers.map(|server| server.cores.len()).sum()
}

fn pending_of(
    world: &World,
    configuration: &Configuration,
    table: &PlacedTable,
) -> Option<(PartitionId, u64)> {
    for (replex, it) in table.layout.replexes.iter().enumerate() {
        let Some(ranges) = it.ranges.as_ref().filter(|_| !table.is_building(replex)) else {
            continue;
        };
        if takers(configuration, table, replex) < 2 {
            // The upper half of a range goes to another core.
            continue;
        }
        for start in &ranges.starts {
            let id = table.partition(replex, start.partition);
            let place = table.placement[replex][start.partition as usize];
            let server = &world.servers[*world.places.get(&place.core.server)?];
            let core = server.cores().get(usize::from(place.core.core))?;
            let (from, to) = ranges.of(start.partition).expect("it has a range");
            let mut entries = 0;
            let counted = core.tables.scan(id.rows_table(), from, to, &mut |_, _| {
                entries += 1;
                ControlFlow::Continue(())
            });
            counted.expect("memory can be read");
            if entries >= world.plan.limits.range_entries_max {
                return Some((id, entries));
            }
        }
    }
    None
}
