//! What a core finds on its disk of partitions that it does not hold: rows of tables and copies that
//! were dropped, which go, and of partitions that it held until its server was lost, which may be of
//! use (SAFETY R25; `docs/protocol.md`, "Old disks").

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};

use super::entries::marked;
use super::recovery::SAVED_TABLE;
use super::{CoreMachine, Output};
use crate::identity::PartitionId;

impl CoreMachine {
    /// The partitions of which this core has rows of an earlier tenure that may be of use.
    ///
    /// They are as the checkpoint has them: what the log has of that tenure is not read
    /// ([`CoreMachine::is_of_tenure`]), now or at any later start. So what is compared with them, and
    /// logged as the difference, is the same whenever the log is read.
    fn left_behind(&self) -> BTreeSet<PartitionId> {
        let own = self.identity.core;
        let places = self.configuration.places();
        let left_behind = places.filter(|(id, place)| {
            let tenure = self.configuration.tenure(*id, own);
            place.former == Some(own) && (tenure.is_none() || !self.is_of_tenure(*id))
        });
        left_behind.map(|(id, _)| id).collect()
    }

    /// Rows of partitions that this core does not hold go: their tables were dropped while it was
    /// away, or nobody waits for them. A configuration older than the disk knows nothing of newer
    /// tables: then all stay.
    pub(super) fn find_left_behind<T: Tables>(
        &mut self,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.left_behind = self.left_behind();
        let mut known = BTreeSet::from([SAVED_TABLE]);
        for id in &self.left_behind {
            known.extend(marked(*id, tables)?.keys().map(|it| id.entries_table(*it)));
            known.extend([id.rows_table(), id.marks_table()]);
        }
        for (id, partition) in self.partitions.iter().chain(&self.others) {
            let orders = partition.orders.iter();
            known.extend(orders.map(|order| id.entries_table(*order)));
            known.extend([id.rows_table(), id.marks_table()]);
            known.extend(self.is_rebuilding(*id).then(|| id.departures_table()));
        }
        let mut next = Some(0);
        while let Some(first) = next {
            let table = tables.table_from(first)?;
            next = table.and_then(|table| table.checked_add(1));
            let Some(table) = table.filter(|table| !known.contains(table)) else {
                continue;
            };
            if self.epoch() < self.epoch_on_disk {
                let text = format!(
                    "the configuration is of epoch {}, the disk of {}: rows of tables that it \
                     does not name are kept; start the coordinator on its newest state",
                    self.epoch().0,
                    self.epoch_on_disk.0
                );
                self.note(&text, output);
                return Ok(());
            }
            tables.drop_table(table);
        }
        Ok(())
    }

    /// Rows of earlier tenures go that nobody waits for any more.
    pub(super) fn review_left_behind<T: Tables>(
        &mut self,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let (configuration, own) = (&self.configuration, self.identity.core);
        let is_void = |id: &PartitionId| {
            let place = configuration.place(*id);
            place.is_none_or(|place| place.former != Some(own))
        };
        let void = self.left_behind.extract_if(.., is_void);
        let void: Vec<PartitionId> = void.collect();
        for id in void {
            self.drop_rows(id, tables)?;
        }
        Ok(())
    }
}
