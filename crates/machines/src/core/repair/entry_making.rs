//! Adds missing local entries in the background (`partition::entries`).

use alloc::collections::BTreeSet;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, TableId};
use protocol::message::Room;

use crate::core::CoreMachine;

/// The state of adding missing local entries, for all partitions.
#[derive(Debug, Default)]
pub(crate) struct EntryMaking {
    /// The time at which the next entries are made. Set while a partition lacks some.
    due_us: Option<u64>,
}

impl EntryMaking {
    /// Returns the time at which the next entries are added.
    pub fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    fn begin(&mut self) {
        self.due_us.get_or_insert(0);
    }
}

impl CoreMachine {
    /// Reviews the entries of all partitions of some tables, which have changed or whose core has
    /// started.
    pub(crate) fn review_entries<T: Tables>(
        &mut self,
        changed: &BTreeSet<TableId>,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let mut is_unmade = false;
        for id in self.partitions.with_rows_of(changed) {
            let partition = self.partitions.with_rows_mut(id);
            let partition = partition.expect("it was just found");
            partition.review_entries(tables)?;
            is_unmade |= !partition.orders.unmade().is_empty();
        }
        if is_unmade {
            self.making.begin();
        }
        Ok(())
    }

    /// Adds the next missing entries.
    pub(crate) fn make_entries<T: Tables>(
        &mut self,
        now: ClockReading,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        let now_us = now.monotonic_us;
        if self.space.own() != Room::Free {
            // There will be space again.
            self.making.due_us = Some(now_us + self.limits.retry_us);
            return Ok(());
        }
        let limits = &self.limits;
        let most = (limits.entry_page_max, limits.fill_page_bytes_max);
        let mut unmade = self
            .partitions
            .values_mut()
            .filter(|it| !it.orders.unmade().is_empty());
        let Some(partition) = unmade.next() else {
            self.making.due_us = None;
            return Ok(());
        };
        let made = partition.make_entries(most, tables)?;
        self.counters.entries_made += made.entries;
        let pause_us =
            |count: u64, per_second: u64| count.saturating_mul(1_000_000) / per_second.max(1);
        let pause_us = pause_us(made.entries, limits.entries_per_second)
            .max(pause_us(made.bytes, limits.fill_bytes_per_second));
        self.making.due_us = Some(now_us + pause_us);
        Ok(())
    }

    /// Returns the number of orders, over all partitions, whose entries are incomplete.
    pub(crate) fn orders_unmade(&self) -> usize {
        let partitions = self.partitions.values();
        partitions.map(|it| it.orders.unmade().len()).sum()
    }
}
