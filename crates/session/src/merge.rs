//! Merges pages of a cover's members into one page of the lost partition.
//!
//! Members return rows in the lost partition's order or in their own. The merged page is in the
//! lost partition's order and has each row once. Of two copies of a row it has the one with the
//! higher version, which is the later one. Memory is bounded: it keeps no more rows than the page
//! may have.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use placement::{
    Column, RowError, RowView, SortColumn, ValueRef, ascending, encode_row_refs, encode_sorted,
};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::configuration::routes::order;
use protocol::identity::Version;
use protocol::message::{Read, RowPage};

/// Bytes of the rows of one page, beyond which it is cut.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Merges the pages of a cover's members into one page.
#[derive(Debug)]
pub(super) struct Merge {
    /// The columns that members must return: those of the read, and those that determine the order.
    pub projection: Option<Vec<u16>>,
    /// Columns of the rows that come, and how many of them the read asks for.
    columns: Vec<Column>,
    visible: usize,
    /// Where the order's columns and the pk's are in the rows that come.
    order: Vec<SortColumn>,
    pk: Vec<SortColumn>,
    limit: usize,
    descending: bool,
    count_only: bool,
    /// By key in the lost partition's order.
    rows: BTreeMap<Vec<u8>, (Version, Vec<u8>)>,
    /// The same rows' keys, by pk.
    keys: BTreeMap<Vec<u8>, Vec<u8>>,
    bytes: usize,
    /// Not all rows from here on are known or, descending, before here.
    frontier: Option<Vec<u8>>,
}

impl Merge {
    /// Begins one page of `read`, whose partition is lost.
    pub fn new(table: &PlacedTable, read: &Read) -> Merge {
        let all = &table.schema.columns;
        let mut projection = match read.count_only {
            true => Some(Vec::new()),
            false => read.projection.clone(),
        };
        let visible = projection.as_ref().map_or(all.len(), Vec::len);
        let mut place = |column: usize| match &mut projection {
            None => column,
            Some(projection) => {
                let wanted = u16::try_from(column).expect("a table has few columns");
                let known = projection.iter().position(|it| *it == wanted);
                known.unwrap_or_else(|| {
                    projection.push(wanted);
                    projection.len() - 1
                })
            }
        };
        let order = order(table, read.partition.replex);
        let pk = ascending(&table.schema.primary_key);
        let mut placed = |it: SortColumn| SortColumn {
            column: place(it.column),
            ..it
        };
        let order = order.into_iter().map(&mut placed).collect();
        let pk = pk.into_iter().map(placed).collect();
        let columns = match &projection {
            None => all.clone(),
            Some(columns) => {
                let columns = columns.iter().map(|column| usize::from(*column));
                columns
                    .filter_map(|column| all.get(column))
                    .cloned()
                    .collect()
            }
        };
        Merge {
            projection,
            columns,
            visible,
            order,
            pk,
            limit: read.limit.max(1) as usize,
            descending: read.descending,
            count_only: read.count_only,
            rows: BTreeMap::new(),
            keys: BTreeMap::new(),
            bytes: 0,
            frontier: None,
        }
    }

    /// Adds a member's page. `in_order` states whether the page is in the lost partition's order.
    /// If so, and it is not the last page, the merged page can only go as far as this page.
    ///
    /// # Errors
    /// A row is malformed.
    pub fn take(&mut self, page: &RowPage, in_order: bool) -> Result<(), RowError> {
        for (version, row) in page.rows() {
            let view = RowView::parse(&self.columns, row)?;
            let key = |columns: &[SortColumn]| encode_sorted(columns, |place| view.column(place));
            let (pk, key) = (key(&self.pk), key(&self.order));
            if let Some(before) = self.keys.get(&pk) {
                let before = before.clone();
                if self.rows[&before].0 >= version {
                    continue;
                }
                self.remove(&before, &pk);
            }
            self.bytes += row.len();
            self.keys.insert(pk, key.clone());
            self.rows.insert(key, (version, row.to_vec()));
        }
        if in_order && let Some(next) = &page.next {
            self.move_frontier(&next.0);
        }
        self.trim()
    }

    /// Returns the merged page.
    ///
    /// # Errors
    /// A row is malformed.
    pub fn page(self) -> Result<RowPage, RowError> {
        let mut page = RowPage {
            next: self.frontier.map(Bytes),
            ..RowPage::default()
        };
        if self.count_only {
            page.count = self.rows.len() as u64;
            return Ok(page);
        }
        let mut rows: Vec<(Version, Vec<u8>)> = self.rows.into_values().collect();
        if self.descending {
            rows.reverse();
        }
        for (version, row) in rows {
            if self.visible == self.columns.len() {
                page.push(version, &row);
                continue;
            }
            let view = RowView::parse(&self.columns, &row)?;
            let values: Vec<ValueRef<'_>> = (0..self.visible).map(|it| view.column(it)).collect();
            page.push(
                version,
                &encode_row_refs(&self.columns[..self.visible], &values)?,
            );
        }
        Ok(page)
    }

    fn remove(&mut self, key: &[u8], pk: &[u8]) {
        let removed = self.rows.remove(key);
        self.bytes -= removed.map_or(0, |(_, row)| row.len());
        self.keys.remove(pk);
    }

    fn move_frontier(&mut self, key: &[u8]) {
        let nearer = self.frontier.as_deref().is_none_or(|frontier| {
            if self.descending {
                key > frontier
            } else {
                key < frontier
            }
        });
        if nearer {
            self.frontier = Some(key.to_vec());
        }
    }

    /// Leaves out rows beyond the frontier, and rows beyond the size of one page.
    fn trim(&mut self) -> Result<(), RowError> {
        loop {
            let farthest = match self.descending {
                true => self.rows.first_key_value(),
                false => self.rows.last_key_value(),
            };
            let Some((key, (_, row))) = farthest else {
                return Ok(());
            };
            let unknown = self.frontier.as_ref().is_some_and(|frontier| {
                if self.descending {
                    key < frontier
                } else {
                    key >= frontier
                }
            });
            let too_many = self.rows.len() > self.limit;
            let too_large = self.bytes > PAGE_BYTES_MAX && self.rows.len() > 1;
            if !unknown && !too_many && !too_large {
                return Ok(());
            }
            let view = RowView::parse(&self.columns, row)?;
            let pk = encode_sorted(&self.pk, |place| view.column(place));
            let key = key.clone();
            self.remove(&key, &pk);
            let frontier = match self.descending {
                true => self.rows.first_key_value().map(|(last, _)| last.clone()),
                false => Some(key),
            };
            if !unknown && let Some(frontier) = frontier {
                self.move_frontier(&frontier);
            }
        }
    }
}
