//! Handles rows on a core's disk of partitions that it does not hold. Rows of dropped tables and
//! copies are removed. Rows of partitions that the core held until its server was lost may be
//! useful later (R25; `docs/reference/protocol-repair.md`, "Old disks").

use alloc::collections::BTreeSet;
use alloc::format;

use placement::tables::{Tables, TablesError};
use protocol::configuration::PlacedTable;
use protocol::identity::PartitionId;

use crate::core::CoreMachine;
use crate::core::partition::entries::marked;
use crate::core::restart::checkpoint::SAVED_TABLE;
use crate::core::step::Step;

impl CoreMachine {
    /// Returns the partitions of which this core has rows of an earlier tenure that may be of use.
    ///
    /// These rows are in the state of the checkpoint: the log's records of that tenure are not read
    /// ([`CoreMachine::is_of_tenure`]), now or at any later start. So a comparison with these rows,
    /// whose differences are logged, has the same result whenever the log is read.
    fn left_behind(&self) -> BTreeSet<PartitionId> {
        let own = self.identity.core;
        let unsettled = self.view.configuration().tables.unsettled();
        let places = unsettled.flat_map(PlacedTable::places);
        let left_behind = places.filter(|(id, place)| {
            let tenure = self.view.configuration().tenure(*id, own);
            place.former == Some(own) && (tenure.is_none() || !self.is_of_tenure(*id))
        });
        left_behind.map(|(id, _)| id).collect()
    }

    /// Removes rows of partitions that this core does not hold. Their tables were dropped while it
    /// was offline, or no place names it as former holder. If the configuration is older than the
    /// disk, all rows stay, because the configuration may lack newer tables.
    pub(crate) fn find_left_behind<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.tenures.leave_behind(self.left_behind());
        let mut known = BTreeSet::from([SAVED_TABLE]);
        for id in self.tenures.left_behind() {
            known.extend(
                marked(*id, step.tables)?
                    .keys()
                    .map(|it| id.entries_table(*it)),
            );
            known.extend([id.rows_table(), id.marks_table()]);
        }
        for partition in self.partitions.all_with_rows() {
            let id = partition.id;
            let orders = partition.orders.all().iter();
            known.extend(orders.map(|order| id.entries_table(*order)));
            known.extend([id.rows_table(), id.marks_table()]);
            known.extend(self.is_rebuilding(id).then(|| id.departures_table()));
        }
        let mut next = Some(0);
        while let Some(first) = next {
            let table = step.tables.table_from(first)?;
            next = table.and_then(|table| table.checked_add(1));
            let Some(table) = table.filter(|table| !known.contains(table)) else {
                continue;
            };
            if self.epoch() < self.log.newest_epoch() {
                let text = format!(
                    "the configuration is of epoch {}, the disk of {}: rows of step.tables that it \
                     does not name are kept; start the coordinator on its newest state",
                    self.epoch().0,
                    self.log.newest_epoch().0
                );
                self.note(&text, step.output);
                return Ok(());
            }
            step.tables.drop_table(table);
        }
        Ok(())
    }

    /// Removes rows of earlier tenures that are not needed any more.
    pub(crate) fn review_left_behind<T: Tables>(
        &mut self,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let (configuration, own) = (self.view.configuration(), self.identity.core);
        let is_void = |id: PartitionId| {
            let place = configuration.place(id);
            place.is_none_or(|place| place.former != Some(own))
        };
        for id in self.tenures.take_void(is_void) {
            self.partitions.drop_rows(id, tables)?;
        }
        Ok(())
    }
}
