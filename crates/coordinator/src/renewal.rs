//! Makes partitions with wrong rows void, and refills them from the other copies. The mechanism is
//! that of lost partitions, but the partitions stay on the same cores.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use placement::prove;
use protocol::configuration::{PartitionState, PlacedTable};
use protocol::identity::Epoch;
use protocol::planted::{self, Bug};

use super::{Coordinator, CoordinatorOutput, Outcome, Refused, RequestedChange};

impl Coordinator {
    /// Makes partitions of a table void, and refills them from the next epoch that serves on. The
    /// coordinator answers the request at once.
    pub(super) fn renew(
        &mut self,
        name: &str,
        cells: Vec<(u8, u32)>,
        output: &mut CoordinatorOutput,
    ) -> Result<Outcome, Refused> {
        let table = self.table_to_change(name)?;
        for (replex, number) in &cells {
            let places = table.placement.get(usize::from(*replex));
            let place = places.and_then(|places| places.get(*number as usize));
            match place.map(|place| place.state) {
                None => {
                    return Err(Refused::new(format!(
                        "table {name} has no partition {number} in copy {replex}"
                    )));
                }
                Some(PartitionState::Rebuilding) => {
                    return Err(Refused {
                        message: format!(
                            "partition {number} of copy {replex} of table {name} is being \
                             filled: try again when it serves"
                        ),
                        retry: true,
                    });
                }
                Some(PartitionState::Serving) => {}
            }
        }
        if !self.has_others(table, &cells) {
            return Err(Refused::new(only_copies(name)));
        }
        let id = table.id;
        let cells: BTreeSet<(u8, u32)> = cells.into_iter().collect();
        let text = format!(
            "{} partitions of table {name} will be refilled",
            cells.len()
        );
        output.notes.push(text);
        let cells = cells.into_iter().collect();
        self.change(id, RequestedChange::Renew { cells }, output);
        Ok(self.done_now())
    }

    /// Begins to refill the partitions once the earlier epochs of their tables have ended. It does
    /// not if a server with the other copies was lost meanwhile.
    ///
    /// # Errors
    /// For people: it had.
    pub(super) fn renewed(
        &self,
        table: &PlacedTable,
        cells: &[(u8, u32)],
        epoch: Epoch,
    ) -> Result<PlacedTable, String> {
        match self.has_others(table, cells) {
            true => Ok(table.renewed(cells, epoch)),
            false => Err(only_copies(&table.schema.name)),
        }
    }

    /// Returns whether every row has a full copy elsewhere.
    fn has_others(&self, table: &PlacedTable, cells: &[(u8, u32)]) -> bool {
        if planted::is(Bug::OnlyCopiesRefilled) {
            return true;
        }
        let mut kept = table.full_copies();
        for (replex, number) in cells {
            let places = kept.replexes.get_mut(usize::from(*replex));
            if let Some(place) = places.and_then(|places| places.get_mut(*number as usize)) {
                place.server = 0;
            }
        }
        let servers = self.state.configuration.hosts();
        prove(&table.layout, &kept, &servers).copies_guaranteed > 0
    }
}

fn only_copies(table: &str) -> String {
    format!(
        "these partitions of table {table} hold the only copies of some rows, from which nothing \
         could refill them: name fewer at a time"
    )
}
