//! Assigns the partitions of removed servers to other servers. They go to a spare server. Without a
//! spare, they are spread over servers that hold the same replex, if the table then still survives
//! `failures_tolerated` failures. Otherwise they go to any server, and operators are notified.

use alloc::collections::BTreeSet;
use alloc::format;

use placement::{Cell, Loads, Placement, Relocation};
use protocol::configuration::{PartitionState, Place};
use protocol::identity::{CoreId, Epoch, ServerId, TableId};

use super::{Coordinator, CoordinatorOutput};

impl Coordinator {
    /// Assigns the removed servers' partitions of a table to other servers, from `epoch` on.
    pub(super) fn replace(
        &mut self,
        id: TableId,
        removed: &BTreeSet<ServerId>,
        epoch: Epoch,
        output: &mut CoordinatorOutput,
    ) {
        if removed.is_empty() {
            return;
        }
        let mut servers = self.takers(removed);
        if servers.is_empty() {
            servers = self.servers_up(removed);
        }
        let counted = self.servers_up(removed);
        let full = self.without_room();
        let has_room = |server: &&placement::PartitionHost| !full.contains(&ServerId(server.id));
        let roomy: alloc::vec::Vec<_> = servers.iter().filter(has_room).cloned().collect();
        let mut loads = self.loads();
        let table = self.state.configuration.tables.get_mut(id);
        if let Some(table) = table {
            for place in table.placement.iter_mut().flatten() {
                *place = place.without(|server| removed.contains(&server), epoch);
            }
            let places = table.placement.iter().enumerate();
            let cells = places.flat_map(|(replex, places)| {
                let places = places.iter().enumerate();
                places.map(move |(number, place)| ((replex, number), place.core.server))
            });
            let lost = cells.filter(|(_, server)| removed.contains(server));
            let lost: alloc::vec::Vec<Cell> = lost.map(|(cell, _)| cell).collect();
            if lost.is_empty() {
                return;
            }
            let relocation = Relocation {
                layout: &table.layout,
                failures_tolerated: u32::from(table.schema.failures_tolerated),
                placement: &table.bare_placement(),
                servers: &servers,
                counted: &counted,
            };
            let (placement, tolerated) = relocate(&relocation, &roomy, &lost, &mut loads);
            for (replex, number) in &lost {
                let bare = placement.replexes[*replex][*number];
                let place = &mut table.placement[*replex][*number];
                let had_all = place.state == PartitionState::Serving;
                *place = Place {
                    core: CoreId::from(bare),
                    state: PartitionState::Rebuilding,
                    since: epoch,
                    moving: None,
                    former: had_all.then_some(place.core).or(place.former),
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

    /// Makes the partitions of a table on these servers void from `epoch` on, and refills them at
    /// their places, because the servers' folders are older copies.
    pub(super) fn void_places(
        &mut self,
        id: TableId,
        servers: &BTreeSet<ServerId>,
        epoch: Epoch,
        output: &mut CoordinatorOutput,
    ) {
        let table = self.state.configuration.tables.get_mut(id);
        if let Some(table) = table {
            let mut count = 0;
            for place in table.placement.iter_mut().flatten() {
                *place = place.without(|server| servers.contains(&server), epoch);
                if servers.contains(&place.core.server) {
                    *place = Place {
                        state: PartitionState::Rebuilding,
                        since: epoch,
                        moving: None,
                        ..*place
                    };
                    count += 1;
                }
            }
            if count > 0 {
                output.notes.push(format!(
                    "table {}: {count} partitions of old folders are void and refilled",
                    table.schema.name
                ));
            }
        }
    }
}

/// Returns a placement with new cores for the lost partitions, and the number of failures that the
/// table survives with it. A partition goes to a core with a full disk only if the table's promise
/// requires this.
fn relocate(
    relocation: &Relocation<'_>,
    with_room: &[placement::PartitionHost],
    lost: &[Cell],
    loads: &mut Loads,
) -> (Placement, u32) {
    let mut tried = loads.clone();
    let onto_room = Relocation {
        servers: with_room,
        ..*relocation
    };
    let found = onto_room.relocate(lost, &mut tried);
    let found = found.filter(|(_, tolerated)| *tolerated >= relocation.failures_tolerated);
    if let Some(found) = found {
        *loads = tried;
        return found;
    }
    let found = relocation.relocate(lost, loads);
    found.expect("some server is up")
}
