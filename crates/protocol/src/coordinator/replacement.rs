//! Where the partitions of removed servers go: onto a spare, else spread over those that hold the
//! same replex, as long as what the table tolerates stays proven; else wherever there is a server,
//! and everybody is told (DESIGN section 5).

use alloc::collections::BTreeSet;
use alloc::format;

use placement::{Cell, Loads, Relocation};

use super::{Coordinator, Output};
use crate::configuration::{PartitionState, Place};
use crate::identity::{CoreId, Epoch, ServerId};

impl Coordinator {
    /// Gives what the removed servers held to others, from `epoch` on.
    pub(super) fn replace(
        &mut self,
        removed: &BTreeSet<ServerId>,
        epoch: Epoch,
        output: &mut Output,
    ) {
        let mut servers = self.takers(removed);
        if servers.is_empty() {
            servers = self.servers_up(removed);
        }
        let mut loads = self.loads();
        for table in &mut self.state.configuration.tables {
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
                continue;
            }
            let relocation = Relocation {
                layout: &table.layout,
                failures_tolerated: u32::from(table.schema.failures_tolerated),
                placement: &table.bare_placement(),
                servers: &servers,
            };
            let found = relocation.relocate(&lost, &mut loads);
            let (placement, tolerated) = found.expect("some server is up");
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

    /// What all cores hold.
    pub(super) fn loads(&self) -> Loads {
        let mut held = Loads::new();
        for table in &self.state.configuration.tables {
            for (place, load) in table.bare_placement().loads(&table.layout) {
                *held.entry(place).or_default() += load;
            }
        }
        held
    }
}
