//! Stores a partition's rows and their local entries in sorted tables.
//!
//! An entry belongs to one row, and to one order that the partition's own order does not serve. Its
//! key consists of the row's key in that order, and of the row's key in this partition without the
//! pk, with which both keys end. Its value holds the offsets in the entry's key at which the pk
//! begins and ends (two `u16`, little-endian). So a read in the order of a lost partition's replex
//! looks rows up and scans nothing. Invariants:
//!
//! - Each row has entries of its own. For a moment a pk can have two rows, if it is inserted again
//!   and the removal of the row before arrives later.
//! - Rows change here and nowhere else, each together with its entries, so that the entries are
//!   what the rows imply, after any history, and whatever checkpoint the log is read over.
//! - No entry is without its row. `entries` knows the orders in which every row has an entry.
//! - A row has no entry in an order in which its key is too long. Such a row is older than the copy
//!   with this order, and the copy cannot serve before the row is gone.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::{Bound, ControlFlow};

use placement::tables::{EntryVisitor, Tables, TablesError};
use placement::{KEY_BYTES_MAX, RowView};
use protocol::identity::{PartitionId, Version};
use protocol::message::Read;
use protocol::planted::{self, Bug};

use crate::core::partition::Partition;
use crate::core::table::TableInfo;

/// Entries that are read at once; their rows are looked up after that.
const ENTRIES_AT_ONCE: usize = 64;

/// The rows of one partition.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    pub table: &'a TableInfo,
    pub id: PartitionId,
    /// The orders in which the rows have local entries.
    pub orders: &'a [u8],
    /// The part of `orders` in which some rows have no entries yet.
    pub unmade: &'a [u8],
}

/// A stored row: its version and its local entries.
pub(crate) struct StoredRow {
    pub version: Version,
    /// By order.
    entries: Vec<Option<LocalEntry>>,
}

/// A row that is to be stored: its key, its version, and itself as the partition stores it.
pub(crate) struct NewRow<'a> {
    pub key: &'a [u8],
    pub version: Version,
    row: Cow<'a, [u8]>,
    /// Its local entries, by order.
    entries: Vec<Option<LocalEntry>>,
}

/// A local entry: its key and its value.
pub(crate) type LocalEntry = (Vec<u8>, [u8; 4]);

/// A range of keys in one order.
#[derive(Clone, Copy)]
pub(crate) struct KeyRange<'a> {
    pub start: &'a [u8],
    /// The first key after the range; none reads to the end.
    pub end: Option<&'a [u8]>,
    /// Whether to read from the last key to the first.
    pub descending: bool,
}

impl KeyRange<'_> {
    /// Returns the first key, and the first key after the range.
    pub fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let end = self.end.map_or(Bound::Unbounded, Bound::Excluded);
        (Bound::Included(self.start), end)
    }

    /// Visits the keys of a sorted table in this range, in its direction.
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
            orders: partition.orders.all(),
            unmade: partition.orders.unmade(),
        }
    }

    /// Returns whether the partition is of a thin index.
    pub fn is_thin(&self) -> bool {
        self.table.is_thin(self.id)
    }

    /// Returns the row that is stored under a key.
    pub fn stored<T: Tables>(
        &self,
        key: &[u8],
        tables: &T,
    ) -> Result<Option<StoredRow>, TablesError> {
        let mut stored = None;
        tables.read(self.id.rows_table(), key, &mut |value| {
            let (version, row) = stored_row(value);
            let entries = self.entries_of(key, row);
            stored = Some(StoredRow { version, entries });
        })?;
        Ok(stored)
    }

    /// Returns a row that is to be stored under a key. It has the form in which the partition
    /// stores it.
    pub fn new_row<'b>(&self, key: &'b [u8], version: Version, row: Cow<'b, [u8]>) -> NewRow<'b> {
        NewRow {
            entries: self.entries_of(key, &row),
            key,
            version,
            row,
        }
    }

    /// Says that rows are stored next.
    pub fn announce<'b, T: Tables>(
        &self,
        rows: impl Iterator<Item = &'b NewRow<'b>> + Clone,
        tables: &T,
    ) {
        let keys: Vec<&[u8]> = rows.clone().map(|row| row.key).collect();
        tables.announce(self.id.rows_table(), &keys);
        for (place, order) in self.orders.iter().enumerate() {
            let entries = rows.clone().filter_map(|row| row.entries[place].as_ref());
            let entries: Vec<&[u8]> = entries.map(|(entry, _)| &entry[..]).collect();
            tables.announce(self.id.entries_table(*order), &entries);
        }
    }

    /// Stores a row under its key, if `replaces` returns true for the version that is stored there,
    /// or for none. Returns what it has returned.
    pub fn put_if<T: Tables>(
        &self,
        new: &NewRow<'_>,
        tables: &mut T,
        replaces: impl Fn(Option<Version>) -> bool,
    ) -> Result<bool, TablesError> {
        let mut old_entries = None;
        let value = stored_value(new.version, &new.row);
        let puts = tables.put_if(self.id.rows_table(), new.key, &value, &mut |stored| {
            let Some((version, row)) = stored.map(stored_row) else {
                return replaces(None);
            };
            let puts = replaces(Some(version));
            if puts {
                old_entries = Some(self.entries_of(new.key, row));
            }
            puts
        })?;
        if !puts {
            return Ok(false);
        }
        for (place, entry) in new.entries.iter().enumerate() {
            let old = old_entries.as_ref();
            let old = old.and_then(|entries| entries[place].as_ref());
            let is_missed =
                planted::is(Bug::WriteMissedByMaking) && self.unmade.contains(&self.orders[place]);
            if old == entry.as_ref() || is_missed {
                continue;
            }
            let table = self.id.entries_table(self.orders[place]);
            if let Some((old, _)) = old.filter(|_| !planted::is(Bug::OldEntryKept)) {
                tables.delete(table, old);
            }
            if let Some((entry, pk)) = entry {
                tables.put(table, entry, pk);
            }
        }
        Ok(true)
    }

    /// Removes the row that is stored under a key.
    pub fn remove<T: Tables>(&self, key: &[u8], stored: &StoredRow, tables: &mut T) {
        tables.delete(self.id.rows_table(), key);
        for (order, entry) in self.orders.iter().zip(&stored.entries) {
            if let Some((entry, _)) = entry {
                tables.delete(self.id.entries_table(*order), entry);
            }
        }
    }

    /// Visits rows by their local entries in an order, with their keys in that order, until the
    /// visitor breaks. All rows must have entries in this order.
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
            let mut entries: Vec<LocalEntry> = Vec::new();
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

    /// Returns a row's local entries, one per order.
    pub fn entries_of(&self, key: &[u8], row: &[u8]) -> Vec<Option<LocalEntry>> {
        if self.orders.is_empty() {
            return Vec::new();
        }
        let row = RowView::checked_before(&self.table.schema.columns, row);
        let row = row.expect("a committed row decodes");
        let pk_bytes = self
            .table
            .entry_key(self.table.layout.primary(), &row)
            .len();
        let entry = |order: &u8| {
            let mut entry = self.table.entry_key(usize::from(*order), &row);
            if entry.len() > KEY_BYTES_MAX {
                return None;
            }
            let pk = [entry.len() - pk_bytes, entry.len()]
                .map(|place| u16::try_from(place).expect("keys have at most 1024 bytes"));
            entry.extend_from_slice(&key[..key.len() - pk_bytes]);
            let [[a, b], [c, d]] = pk.map(u16::to_le_bytes);
            Some((entry, [a, b, c, d]))
        };
        self.orders.iter().map(entry).collect()
    }
}

/// How a partition finds the rows of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessPath<'a> {
    /// By its own order.
    Rows,
    /// By its local entries in this order.
    Entries(u8),
    /// By a scan of all of its rows in its own order, from this key on.
    Scan(&'a [u8]),
}

impl<'a> AccessPath<'a> {
    /// Returns the access path of a checked read. A member of a cover scans if its previous page
    /// was a scan, or if it has no entries in the lost partition's order.
    pub fn of(rows: Rows<'_>, read: &'a Read) -> AccessPath<'a> {
        let Some(redirect) = &read.redirect else {
            return AccessPath::Rows;
        };
        match &redirect.scan_from {
            Some(from) => AccessPath::Scan(from),
            None => rows.way(redirect.replex),
        }
    }
}

impl Rows<'_> {
    /// Returns the path by which the partition finds rows in the order of another replex.
    pub fn way(&self, replex: u8) -> AccessPath<'static> {
        let [own, other] = [self.id.replex, replex].map(|it| &self.table.replexes[usize::from(it)]);
        if own.entry_columns.starts_with(&other.entry_columns) {
            return AccessPath::Rows;
        }
        let is_whole = self.orders.contains(&other.order) && !self.unmade.contains(&other.order);
        match is_whole {
            true => AccessPath::Entries(other.order),
            false => AccessPath::Scan(b""),
        }
    }
}

impl Rows<'_> {
    /// Returns the replex with the order of a redirected read, if the partition's own keys begin
    /// with the keys of this order and are longer. A page must name a key of the order as the next
    /// one, because another member may continue the read.
    pub fn finer_than(&self, read: &Read) -> Option<usize> {
        let order = usize::from(read.redirect.as_ref()?.replex);
        let [own, other] = [usize::from(self.id.replex), order].map(|it| &self.table.replexes[it]);
        (own.entry_columns != other.entry_columns).then_some(order)
    }

    /// Returns the key of a stored row in the order of a replex.
    pub fn key_in_order(&self, replex: usize, value: &[u8]) -> Vec<u8> {
        let row = RowView::checked_before(&self.table.schema.columns, stored_row(value).1);
        let row = row.expect("a committed row decodes");
        self.table.entry_key(replex, &row)
    }
}

/// Returns a row as sorted tables store it.
pub(crate) fn stored_value(version: Version, row: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(8 + row.len());
    value.extend_from_slice(&version.0.to_le_bytes());
    value.extend_from_slice(row);
    value
}

/// Returns the version and the row of a stored value.
pub(crate) fn stored_row(value: &[u8]) -> (Version, &[u8]) {
    let (version, row) = value
        .split_first_chunk::<8>()
        .expect("a stored row has a version");
    (Version(u64::from_le_bytes(*version)), row)
}

/// Records that an entry left a partition that is being filled, or is known to be absent. An entry
/// with a too long key never existed.
pub(crate) fn depart<T: Tables>(
    partition: PartitionId,
    key: &[u8],
    version: Version,
    tables: &mut T,
) -> Result<(), TablesError> {
    let could_be = key.len() <= KEY_BYTES_MAX;
    if could_be && departed(partition, key, tables)?.is_none_or(|known| known < version) {
        tables.put(partition.departures_table(), key, &version.0.to_le_bytes());
    }
    Ok(())
}

/// Returns the version at which an entry left a partition that is being filled.
pub(crate) fn departed<T: Tables>(
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec;
    use placement::tables::MemoryTables;
    use placement::{
        Column, ColumnType, Durability, Index, Layout, Schema, TableComments, TableConstraints,
        Value, encode_key, encode_row,
    };

    use protocol::configuration::{Configuration, Place, PlacedTable};
    use protocol::identity::{CoreId, Epoch, ServerId, TableId};

    /// Returns a table with an index by a text, the order of which is 1.
    fn table() -> TableInfo {
        let column = |name: &str, column_type| Column {
            name: name.into(),
            column_type,
            nullable: false,
            default: None,
            missing: None,
        };
        let schema = Schema {
            name: "t".into(),
            columns: vec![
                column("id", ColumnType::Int64),
                column("tail", ColumnType::Text),
            ],
            primary_key: vec![0],
            indexes: vec![Index {
                name: "by_tail".into(),
                columns: vec![1],
                constraint: None,
                partition_columns: None,
                by_range: false,
            }],
            further: Vec::new(),
            thin: Vec::new(),
            partitions: 1,
            failures_tolerated: 1,
            failures_wanted: 0,
            local_entries: true,
            durability: Durability::Sync,
            primary_partition_columns: None,
            sequence: None,
            constraints: TableConstraints::default(),
        };
        let place = |server| {
            Place::serving(
                CoreId {
                    server: ServerId(server),
                    core: 0,
                },
                Epoch(0),
            )
        };
        let table = PlacedTable {
            id: TableId(1),
            epoch: Epoch(0),
            sealing: None,
            columns_since: Epoch(0),
            layout: Layout::base(&schema),
            schema,
            placement: vec![vec![place(1)], vec![place(2)]],
            building: Vec::new(),
            comments: TableComments::default(),
        };
        TableInfo::new(&table, &Configuration::default())
    }

    /// Returns entries after a row with a text of `bytes[0]` bytes was changed to each next one in
    /// turn.
    fn entries_after(bytes: &[usize]) -> Vec<usize> {
        let table = table();
        let rows = Rows {
            table: &table,
            id: table.partition(0, 0),
            orders: &[1],
            unmade: &[],
        };
        let mut tables = MemoryTables::new();
        let key = encode_key([Value::Int64(7).as_ref()]);
        let mut counts = Vec::new();
        for (version, bytes) in (1..).zip(bytes) {
            let values = [
                Value::Int64(7),
                Value::Text(String::from("x").repeat(*bytes)),
            ];
            let row = encode_row(&table.schema.columns, &values).expect("it is of the table");
            let new = rows.new_row(&key, Version(version), Cow::Borrowed(&row));
            let put = rows.put_if(&new, &mut tables, |_| true);
            assert_eq!(put, Ok(true), "memory is read");
            let entries = rows.id.entries_table(1);
            counts.push(tables.entries().filter(|it| it.0 == entries).count());
        }
        let stored = rows.stored(&key, &tables).expect("memory is read");
        let stored = stored.expect("it was put");
        rows.remove(&key, &stored, &mut tables);
        assert_eq!(tables, MemoryTables::new());
        counts
    }

    #[test]
    fn a_key_that_is_too_long_has_no_entry() {
        assert_eq!(entries_after(&[1, 70_000, 2_000, 2]), [1, 0, 0, 1]);
        assert_eq!(entries_after(&[70_000]), [0]);
    }
}
