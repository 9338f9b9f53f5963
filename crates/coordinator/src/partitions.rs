//! Changes the number of partitions of a table in use (R53).
//!
//! The coordinator adds successors with the new number of partitions like other copies (`copies`):
//! it ends the table's earlier epochs, and the successors are filled while the table is in use.
//! Once all successors serve, it ends the table's epochs again, and the successors replace the
//! earlier copies. The coordinator's state has both steps as changes of copies, and the
//! configuration has the successors. So another coordinator can continue at either step.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use placement::{HostCore, Layout, Loads, PartitionHost, Placement, assign, prove};
use protocol::configuration::PlacedTable;
use protocol::configuration::partitions::resize_name;
use protocol::identity::{CoreId, Epoch};
use protocol::message::CopyFailure;
use protocol::planted::{self, Bug};

use super::copies::{PLACE_BYTES_MAX, check_is_not_resized};
use super::{CONFIGURATION_BYTES_MAX, Coordinator, CoordinatorOutput, RequestedChange};
use super::{Outcome, Refused};

impl Coordinator {
    /// Begins to change the number of partitions of a table's copies, or cancels such a change.
    /// Answered at once.
    pub(super) fn set_partitions(
        &mut self,
        name: &str,
        partitions: u32,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let table = self.table_to_change(name)?;
        let under_way = table.layout.next_partitions();
        let now = table.schema.partitions;
        if under_way == Some(partitions) || under_way.is_none() && now == partitions {
            return Ok(self.done_now());
        }
        if partitions == now {
            self.given_up(table).map_err(|message| Refused {
                message,
                retry: true,
            })?;
        } else {
            check_is_not_resized(table)?;
            self.check_resize(table, partitions)?;
        }
        let id = table.id;
        output.notes.push(match partitions == now {
            true => format!("table {name} keeps its {partitions} partitions"),
            false => format!("table {name} will have {partitions} partitions instead of {now}"),
        });
        let names = [under_way, Some(partitions)].into_iter().flatten();
        let names: Vec<String> = names.map(resize_name).collect();
        let is_old = |it: &CopyFailure| it.table == id && names.contains(&it.name);
        self.state.failures.retain(|failure| !is_old(failure));
        self.change(id, RequestedChange::Resize { partitions }, output);
        Ok(self.done_now())
    }

    /// Checks that the copies of a table can be cut so and be placed, and that the configuration
    /// has room for them.
    fn check_resize(&self, table: &PlacedTable, partitions: u32) -> Result<(), Refused> {
        if !table.building.is_empty() {
            return Err(Refused {
                message: format!(
                    "a copy of table {} is being made: try again when it serves",
                    table.schema.name
                ),
                retry: true,
            });
        }
        let layout = table.layout_with(partitions);
        let (layout, added) = layout.map_err(Refused::new)?;
        let cells = added.iter().map(|it| layout.partition_count(*it) as usize);
        let places = cells.sum::<usize>() * PLACE_BYTES_MAX;
        let bytes = self.configuration_bytes() + places;
        if bytes > CONFIGURATION_BYTES_MAX {
            return Err(Refused::new(format!(
                "with {partitions} partitions in each copy of table {} the configuration would \
                 take {bytes} bytes, the limit is {CONFIGURATION_BYTES_MAX}: choose fewer",
                table.schema.name
            )));
        }
        let found = self.placement_with(table, (&layout, &added));
        found.map(|_| ()).map_err(Refused::new)
    }

    /// Returns a placement with the partitions of new copies. Once the new copies have replaced
    /// others, the table survives as many failures as before.
    ///
    /// # Errors
    /// A message for people: there is no such placement.
    fn placement_with(
        &self,
        table: &PlacedTable,
        (layout, added): (&Layout, &[usize]),
    ) -> Result<Placement, String> {
        let held = self.loads_without(table);
        let failures = usize::from(table.schema.failures_tolerated);
        // Copies that stay are where they are.
        let present = table.bare_placement();
        let with_present = |mut placement: Placement| {
            for number in layout.numbers().filter(|number| !added.contains(number)) {
                placement.replexes[number].clone_from(&present.replexes[number]);
            }
            self.check_tolerance(table, layout, &placement)?;
            Ok(placement)
        };
        let place = |servers: &[PartitionHost]| {
            let assigned = assign(layout, failures, servers, &held);
            let (placement, _) = assigned.map_err(|error| format!("{error}"))?;
            with_present(placement)
        };
        let anywhere = self.takers(&BTreeSet::new());
        let placed = place(&self.takers(&self.without_room())).or_else(|_| place(&anywhere));
        placed.or_else(|why: String| {
            // They were placed apart from one another, and may be beside copies that stay. The
            // copies that they replace are not.
            let replaced = table.layout.numbers();
            let replaced = replaced.filter(|number| layout.numbers().all(|it| it != *number));
            let mut placement = Placement {
                replexes: vec![Vec::new(); layout.replexes.len()],
            };
            for (number, of) in added.iter().zip(replaced) {
                let cores = present.replexes[of].iter();
                let is_up = |core: &&HostCore| anywhere.iter().any(|it| it.id == core.server);
                let cores: BTreeSet<HostCore> = cores.filter(is_up).copied().collect();
                if cores.is_empty() {
                    return Err(why);
                }
                let count = layout.partition_count(*number) as usize;
                let cores = cores.iter().copied().cycle();
                placement.replexes[*number] = cores.take(count).collect();
            }
            with_present(placement).map_err(|_| why)
        })
    }

    /// Checks that a table survives with these copies what it promises, or at least as much as now.
    fn check_tolerance(
        &self,
        table: &PlacedTable,
        layout: &Layout,
        placement: &Placement,
    ) -> Result<(), String> {
        let servers = self.state.configuration.hosts();
        let survives = |layout: &Layout, placement: &Placement| {
            prove(layout, placement, &servers).copies_guaranteed
        };
        let needed = u32::from(table.schema.failures_tolerated) + 1;
        let (next, now) = (
            survives(layout, placement),
            survives(&table.layout, &table.full_copies()),
        );
        if next >= needed.min(now) && next > 0 {
            return Ok(());
        }
        let name = &table.schema.name;
        Err(match next {
            0 => format!(
                "other copies of table {name} are being filled, and until they serve these have the \
                 only copies of some rows: try again then"
            ),
            next => format!(
                "table {name} would survive {} failures then, and it promises to survive {}: start \
                 servers in more failure domains, or add a copy first",
                next - 1,
                needed - 1
            ),
        })
    }

    /// Returns the table without the copies that were to have another number of partitions.
    ///
    /// # Errors
    /// For people: servers were lost, and the table cannot do without them yet.
    pub(super) fn given_up(&self, table: &PlacedTable) -> Result<PlacedTable, String> {
        let without = table.without_successors();
        if !planted::is(Bug::SuccessorsDroppedUnchecked) {
            self.check_tolerance(table, &without.layout, &without.full_copies())?;
        }
        Ok(without)
    }

    /// Returns the load of all cores, without that of a table.
    fn loads_without(&self, table: &PlacedTable) -> Loads {
        let mut held = self.loads();
        for (place, load) in table.bare_placement().loads(&table.layout) {
            if let Some(held) = held.get_mut(&place) {
                *held -= load;
            }
        }
        held
    }

    /// Returns the table with successors of this number of partitions, or without the successors of
    /// another number. Its earlier epochs must have ended.
    ///
    /// # Errors
    /// For people: servers that would be needed were lost meanwhile.
    pub(super) fn resized(
        &self,
        table: &PlacedTable,
        partitions: u32,
        epoch: Epoch,
    ) -> Result<PlacedTable, String> {
        if partitions == table.schema.partitions {
            return self.given_up(table);
        }
        let (layout, added) = table.layout_with(partitions)?;
        let placement = self.placement_with(table, (&layout, &added))?;
        let place = |_: &PlacedTable, replex: usize, number: u32| {
            let cells: &[HostCore] = placement.replexes.get(replex)?;
            cells.get(number as usize).map(|cell| CoreId::from(*cell))
        };
        table.with_successors(partitions, epoch, &place)
    }

    /// Returns the table after its successors have replaced the earlier copies. Its earlier epochs
    /// must have ended.
    ///
    /// # Errors
    /// For people: a server that was lost meanwhile had some of them.
    pub(super) fn promoted(&self, table: &PlacedTable) -> Result<PlacedTable, String> {
        if !table.has_filled_successors() {
            return Err("not all of the new partitions serve: they are filled again first".into());
        }
        let promoted = table.with_promoted();
        if !planted::is(Bug::SuccessorPromotedEarly) {
            self.check_tolerance(table, &promoted.layout, &promoted.full_copies())?;
        }
        Ok(promoted)
    }

    /// Lets successors replace the earlier copies once all their partitions serve.
    pub(super) fn advance_resizes(&mut self, output: &mut CoordinatorOutput) {
        let tables = self.resizes.tables();
        for id in tables {
            let table = self.state.configuration.table(id);
            let resized = table.filter(|table| table.layout.successors().next().is_some());
            let Some(table) = resized else {
                self.resizes.forget(id);
                continue;
            };
            let mut changes = self.state.changes.iter();
            let is_free = table.sealing.is_none() && !changes.any(|change| change.table == id);
            if is_free && self.missing(table).is_none() && self.promoted(table).is_ok() {
                self.change(id, RequestedChange::Promote, output);
            }
        }
    }
}
