//! A partition's rows in sorted tables, and beside them its thin local entries (DESIGN section 4).
//!
//! An entry is for a row and for an order that the partition's own does not serve. Its key is the
//! one that the row has in that order, then what the one that it has here begins with, without the
//! pk, which both end with. Its value says where in it the pk begins and where it ends (two `u16`,
//! little-endian). So what is asked for in the order of a lost partition's replex is looked up, not
//! searched for. Invariants:
//!
//! - Each row has entries of its own. For a moment a pk can have two rows, if it is inserted again
//!   and the removal of the row before is told later.
//! - Rows change here and nowhere else, each together with its entries, so that the entries are
//!   what the rows imply, after any history, and whatever checkpoint the log is read over.
//! - A partition has entries in the orders of [`Partition::orders`], and these are marked in a
//!   sorted table: from a moment on at which it had no rows, and until the table's layout no longer
//!   has the order. In one that is newer than the rows it has none.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::RowView;
use placement::tables::{EntryVisitor, Tables, TablesError};

use super::table::TableInfo;
use super::{CoreMachine, Partition};
use crate::identity::{PartitionId, Version};
use crate::planted::{self, Bug};

/// Entries that are read at once; their rows are looked up after that.
const ENTRIES_AT_ONCE: usize = 64;

/// The rows of one partition.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub table: &'a TableInfo,
    pub id: PartitionId,
    /// In which they have entries.
    pub orders: &'a [u8],
}

/// What is known of a row that is there.
pub(super) struct Stored {
    pub version: Version,
    /// By order.
    entries: Vec<Entry>,
}

/// An entry's key and value.
type Entry = (Vec<u8>, [u8; 4]);

/// Keys of one order.
#[derive(Clone, Copy)]
pub(super) struct KeyRange<'a> {
    pub start: &'a [u8],
    /// The first key beyond; none is to the end.
    pub end: Option<&'a [u8]>,
    /// From the last key to the first.
    pub descending: bool,
}

impl KeyRange<'_> {
    /// Visits what a sorted table has of it, in its direction.
    pub fn visit<T: Tables>(
        &self,
        table: u64,
        tables: &T,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        match self.descending {
            false => tables.scan(table, self.start, self.end, visit),
            true => tables.scan_reverse(table, self.start, self.end, visit),
        }
    }
}

impl<'a> Rows<'a> {
    pub fn of(partition: &'a Partition) -> Rows<'a> {
        Rows {
            table: &partition.table,
            id: partition.id,
            orders: &partition.orders,
        }
    }

    /// The row that is there under a key.
    pub fn stored<T: Tables>(&self, key: &[u8], tables: &T) -> Result<Option<Stored>, TablesError> {
        let mut stored = None;
        tables.read(self.id.rows_table(), key, &mut |value| {
            let (version, row) = stored_row(value);
            let entries = self.entries_of(key, row);
            stored = Some(Stored { version, entries });
        })?;
        Ok(stored)
    }

    /// Puts a row under its key, where `stored` is.
    pub fn put<T: Tables>(
        &self,
        key: &[u8],
        (version, row): (Version, &[u8]),
        stored: Option<&Stored>,
        tables: &mut T,
    ) {
        tables.put(self.id.rows_table(), key, &stored_value(version, row));
        let entries = self.entries_of(key, row);
        for (place, (entry, pk)) in entries.iter().enumerate() {
            let old = stored.map(|stored| &stored.entries[place].0);
            if old == Some(entry) {
                continue;
            }
            let table = self.id.entries_table(self.orders[place]);
            if let Some(old) = old.filter(|_| !planted::is(Bug::OldEntryKept)) {
                tables.delete(table, old);
            }
            tables.put(table, entry, pk);
        }
    }

    /// Removes the row that is there under a key.
    pub fn remove<T: Tables>(&self, key: &[u8], stored: &Stored, tables: &mut T) {
        tables.delete(self.id.rows_table(), key);
        for (order, (entry, _)) in self.orders.iter().zip(&stored.entries) {
            tables.delete(self.id.entries_table(*order), entry);
        }
    }

    /// Visits rows in an order in which all have entries, each with its key in that order, until
    /// the visitor breaks.
    pub fn look_up<T: Tables>(
        &self,
        order: u8,
        range: KeyRange<'_>,
        tables: &T,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        let (mut start, mut end) = (range.start.to_vec(), range.end.map(<[u8]>::to_vec));
        loop {
            let table = self.id.entries_table(order);
            let mut entries: Vec<Entry> = Vec::new();
            let take = &mut |entry: &[u8], pk: &[u8]| {
                let pk = pk.try_into().expect("an entry's value is two places");
                entries.push((entry.to_vec(), pk));
                match entries.len() < ENTRIES_AT_ONCE {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            };
            let rest = KeyRange {
                start: &start,
                end: end.as_deref(),
                descending: range.descending,
            };
            rest.visit(table, tables, take)?;
            for (entry, [a, b, c, d]) in &entries {
                let [pk, end] = [[*a, *b], [*c, *d]].map(|it| usize::from(u16::from_le_bytes(it)));
                let key = [&entry[end..], &entry[pk..end]].concat();
                let mut flow = ControlFlow::Continue(());
                let rows = self.id.rows_table();
                let found = tables.read(rows, &key, &mut |row| flow = visit(&entry[..end], row))?;
                assert!(found, "an entry goes together with its row");
                if flow.is_break() {
                    return Ok(());
                }
            }
            let is_last = entries.len() < ENTRIES_AT_ONCE;
            let Some((last, _)) = entries.pop().filter(|_| !is_last) else {
                return Ok(());
            };
            match range.descending {
                // The first key after the last one.
                false => start = [&last[..], &[0]].concat(),
                true => end = Some(last),
            }
        }
    }

    /// A row's entries, by order.
    fn entries_of(&self, key: &[u8], row: &[u8]) -> Vec<Entry> {
        if self.orders.is_empty() {
            return Vec::new();
        }
        let row = RowView::parse(&self.table.schema.columns, row);
        let row = row.expect("a committed row decodes");
        let pk_bytes = self.table.entry_key(0, &row).len();
        let entry = |order: &u8| {
            let mut entry = self.table.entry_key(usize::from(*order), &row);
            let pk = [entry.len() - pk_bytes, entry.len()]
                .map(|place| u16::try_from(place).expect("keys have at most 1024 bytes"));
            entry.extend_from_slice(&key[..key.len() - pk_bytes]);
            let [[a, b], [c, d]] = pk.map(u16::to_le_bytes);
            (entry, [a, b, c, d])
        };
        self.orders.iter().map(entry).collect()
    }
}

impl CoreMachine {
    /// A partition of which this core has rows, whether it holds it, takes it or has given it away.
    pub(super) fn part(&self, id: PartitionId) -> Option<&Partition> {
        let held = self.partitions.get(&id);
        held.or_else(|| self.others.get(&id))
    }

    /// Drops a partition's rows. It has none from now on, so that those that come have entries.
    pub(super) fn drop_rows<T: Tables>(
        &mut self,
        id: PartitionId,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        tables.drop_table(id.rows_table());
        tables.drop_table(id.departures_table());
        for order in marked(id, tables)?.into_keys() {
            drop_entries(id, order, tables);
        }
        let held = self.partitions.get_mut(&id);
        if let Some(partition) = held.or_else(|| self.others.get_mut(&id)) {
            partition.orders.clone_from(&wanted_orders(partition));
            for order in &partition.orders {
                tables.put(id.marks_table(), &[*order], &mark(&partition.table, *order));
            }
        }
        Ok(())
    }

    /// The configuration is new, or the core has started: finds out in which orders partitions have
    /// entries. Those in orders that are gone go, because rows change without them from now on.
    pub(super) fn review_entries<T: Tables>(&mut self, tables: &mut T) -> Result<(), TablesError> {
        let partitions = self.partitions.values_mut();
        for partition in partitions.chain(self.others.values_mut()) {
            let (id, wanted) = (partition.id, wanted_orders(partition));
            let mut has_rows = false;
            tables.scan(id.rows_table(), b"", None, &mut |_, _| {
                has_rows = true;
                ControlFlow::Break(())
            })?;
            partition.orders.clear();
            let mut marks = marked(id, tables)?;
            for order in wanted {
                let mark = mark(&partition.table, order);
                let is_marked =
                    marks.get(&order) == Some(&mark) || planted::is(Bug::OrderTakenForComplete);
                if !is_marked && has_rows {
                    continue;
                }
                if !is_marked {
                    drop_entries(id, order, tables);
                    tables.put(id.marks_table(), &[order], &mark);
                }
                marks.remove(&order);
                partition.orders.push(order);
            }
            for order in marks.into_keys() {
                drop_entries(id, order, tables);
            }
        }
        Ok(())
    }
}

/// The orders in which a partition ought to have entries.
fn wanted_orders(partition: &Partition) -> Vec<u8> {
    let replex = usize::from(partition.id.replex);
    partition.table.replexes[replex].entry_orders.clone()
}

/// The orders in which a partition has entries, and what says so.
pub(super) fn marked<T: Tables>(
    id: PartitionId,
    tables: &T,
) -> Result<BTreeMap<u8, Vec<u8>>, TablesError> {
    let mut marks = BTreeMap::new();
    tables.scan(id.marks_table(), b"", None, &mut |key, mark| {
        let [order] = key else {
            panic!("an order has a number of one byte");
        };
        marks.insert(*order, mark.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(marks)
}

/// What an order's mark says: the columns of the order, so that it is no other one's.
fn mark(table: &TableInfo, order: u8) -> Vec<u8> {
    let columns = &table.replexes[usize::from(order)].entry_columns;
    let numbers = columns.iter().map(|column| *column as u32);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn drop_entries<T: Tables>(id: PartitionId, order: u8, tables: &mut T) {
    tables.drop_table(id.entries_table(order));
    tables.delete(id.marks_table(), &[order]);
}

/// A row as a sorted table holds it.
pub(super) fn stored_value(version: Version, row: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + row.len());
    value.extend_from_slice(&version.0.to_le_bytes());
    value.extend_from_slice(row);
    value
}

/// A stored value's version and row.
pub(super) fn stored_row(value: &[u8]) -> (Version, &[u8]) {
    let (version, row) = value
        .split_first_chunk::<8>()
        .expect("a stored row has a version");
    (Version(u64::from_le_bytes(*version)), row)
}

/// Notes that an entry left a partition that is being filled, or is known not to be there.
pub(super) fn depart<T: Tables>(
    partition: PartitionId,
    key: &[u8],
    version: Version,
    tables: &mut T,
) -> Result<(), TablesError> {
    if departed(partition, key, tables)?.is_none_or(|known| known < version) {
        tables.put(partition.departures_table(), key, &version.0.to_le_bytes());
    }
    Ok(())
}

/// The version at which an entry left a partition that is being filled.
pub(super) fn departed<T: Tables>(
    partition: PartitionId,
    key: &[u8],
    tables: &T,
) -> Result<Option<Version>, TablesError> {
    let mut version = None;
    tables.read(partition.departures_table(), key, &mut |value| {
        version = Some(stored_row(value).0);
    })?;
    Ok(version)
}
