//! Tracks the orders in which a partition has local entries of all its rows, and adds missing
//! entries.
//!
//! A partition that begins without rows has entries in all orders of its table. The entries for a
//! later copy's order are *made*: the partition goes through its rows in the background, page by
//! page, while clients write. Invariants:
//!
//! - As soon as the partition begins to make an order, every change of a row also changes its entry
//!   in this order. So a visited row has its entry, and need not be visited again.
//! - Every order with entries has a mark, which names its columns, for a copy's number can be
//!   another one's next. The mark becomes *whole* when no row lacks its entry. No lookup uses an
//!   order whose mark is not whole.
//! - Marks, entries and rows are of one checkpoint. After a restart, an order whose mark is not
//!   whole is made from scratch, because its progress is only in memory.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use protocol::identity::PartitionId;
use protocol::planted::{self, Bug};

use crate::core::partition::Partition;
use crate::core::partition::rows::{LocalEntry, Rows, stored_row};
use crate::core::table::TableInfo;

/// The orders of other replexes in which a partition keeps local entries.
#[derive(Debug, Default)]
pub(crate) struct EntryOrders {
    /// All of them. A row that changes changes its entries in all of these.
    all: Vec<u8>,
    /// Set while rows lack their entries in some; these are among `all`.
    making: Option<Making>,
}

/// Orders of one partition in which its rows are given entries.
#[derive(Debug)]
struct Making {
    /// Never empty.
    orders: Vec<u8>,
    /// The first key of a row that has not been looked at.
    next: Vec<u8>,
}

impl EntryOrders {
    /// Returns all orders in which the rows have local entries, or are getting them.
    pub fn all(&self) -> &[u8] {
        &self.all
    }

    /// Returns the orders in which some rows have no local entries yet.
    pub fn unmade(&self) -> &[u8] {
        self.making.as_ref().map_or(&[], |making| &making.orders)
    }
}

/// How far an order is; a mark's first byte.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Stage {
    Begun = 0,
    Whole = 1,
}

impl Partition {
    /// Determines the orders in which the rows have entries. Drops entries in orders that are not
    /// needed any more, because they would become outdated. Missing entries are added later.
    pub fn review_entries<T: Tables>(&mut self, tables: &mut T) -> Result<(), TablesError> {
        let id = self.id;
        let mut has_rows = false;
        tables.scan(id.rows_table(), b"", None, &mut |_, _| {
            has_rows = true;
            ControlFlow::Break(())
        })?;
        let mut marks = marked(id, tables)?;
        let before = self.orders.making.take();
        let mut making = Making {
            orders: Vec::new(),
            next: before.as_ref().map_or(Vec::new(), |it| it.next.clone()),
        };
        self.orders.all.clear();
        for order in self.wanted_orders() {
            let known = marks.remove(&order);
            let is = |stage| known == Some(mark(&self.table, order, stage));
            if is(Stage::Whole) || planted::is(Bug::OrderTakenForComplete) {
                self.orders.all.push(order);
                continue;
            }
            let goes_on = before.as_ref().is_some_and(|it| it.orders.contains(&order));
            if !has_rows || !goes_on || !is(Stage::Begun) {
                drop_entries(id, order, tables);
                making.next.clear();
            }
            let (stage, list) = match has_rows {
                true => (Stage::Begun, &mut making.orders),
                false => (Stage::Whole, &mut self.orders.all),
            };
            put_mark(id, &self.table, order, stage, tables);
            list.push(order);
        }
        for order in marks.into_keys() {
            drop_entries(id, order, tables);
        }
        self.orders.all.extend(&making.orders);
        self.orders.making = (!making.orders.is_empty()).then_some(making);
        Ok(())
    }

    /// Starts with no rows: rows that are added get entries in all orders.
    pub fn begin_entries<T: Tables>(&mut self, tables: &mut T) {
        self.orders.all = self.wanted_orders();
        self.orders.making = None;
        for order in &self.orders.all {
            put_mark(self.id, &self.table, *order, Stage::Whole, tables);
        }
    }

    /// Adds the entries of the next rows. The limits are a number of entries, and an approximate
    /// number of bytes of rows.
    pub fn make_entries<T: Tables>(
        &mut self,
        (entries_max, bytes_max): (usize, usize),
        tables: &mut T,
    ) -> Result<BuiltEntries, TablesError> {
        let Some(making) = &mut self.orders.making else {
            return Ok(BuiltEntries::default());
        };
        let rows = Rows {
            table: &self.table,
            id: self.id,
            orders: &making.orders,
            unmade: &[],
        };
        let rows_max = (entries_max / making.orders.len()).max(1);
        let mut made = BuiltEntries::default();
        let mut next = None;
        let mut entries: Vec<Vec<Option<LocalEntry>>> = Vec::new();
        tables.scan(
            self.id.rows_table(),
            &making.next,
            None,
            &mut |key, value| {
                if entries.len() == rows_max || made.bytes >= bytes_max as u64 {
                    next = Some(key.to_vec());
                    return ControlFlow::Break(());
                }
                made.bytes += value.len() as u64;
                entries.push(rows.entries_of(key, stored_row(value).1));
                ControlFlow::Continue(())
            },
        )?;
        for entries in &entries {
            for (order, entry) in making.orders.iter().zip(entries) {
                if let Some((entry, pk)) = entry {
                    tables.put(self.id.entries_table(*order), entry, pk);
                    made.entries += 1;
                }
            }
        }
        if let Some(next) = next {
            making.next = next;
            return Ok(made);
        }
        for order in &making.orders {
            put_mark(self.id, &self.table, *order, Stage::Whole, tables);
        }
        self.orders.making = None;
        Ok(made)
    }

    /// Returns the orders in which it ought to have entries.
    fn wanted_orders(&self) -> Vec<u8> {
        let replex = usize::from(self.id.replex);
        self.table.replexes[replex].entry_orders.clone()
    }
}

/// The work of one step that adds local entries.
#[derive(Default)]
pub(crate) struct BuiltEntries {
    /// The bytes of the visited rows.
    pub bytes: u64,
    pub entries: u64,
}

/// Drops a partition's rows and their entries from the tables.
pub(crate) fn drop_rows<T: Tables>(id: PartitionId, tables: &mut T) -> Result<(), TablesError> {
    tables.drop_table(id.rows_table());
    tables.drop_table(id.departures_table());
    for order in marked(id, tables)?.into_keys() {
        drop_entries(id, order, tables);
    }
    Ok(())
}

/// Returns the orders in which a partition has complete entries, from its marks.
pub(crate) fn marked<T: Tables>(
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

/// Returns an order's mark: how far it is, and its columns (`u32`, little-endian).
fn mark(table: &TableInfo, order: u8, stage: Stage) -> Vec<u8> {
    let columns = &table.replexes[usize::from(order)].entry_columns;
    let columns = columns
        .iter()
        .flat_map(|it| (it.column as u32).to_le_bytes());
    core::iter::once(stage as u8).chain(columns).collect()
}

fn put_mark<T: Tables>(
    id: PartitionId,
    table: &TableInfo,
    order: u8,
    stage: Stage,
    tables: &mut T,
) {
    tables.put(id.marks_table(), &[order], &mark(table, order, stage));
}

fn drop_entries<T: Tables>(id: PartitionId, order: u8, tables: &mut T) {
    tables.drop_table(id.entries_table(order));
    tables.delete(id.marks_table(), &[order]);
}
