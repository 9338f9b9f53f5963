//! Builds one page of a read, row by row.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::{Column, RowView, ValueRef, encode_row_refs};
use protocol::codec::Bytes;
use protocol::expression::holds;
use protocol::identity::Version;
use protocol::message::{Read, RowPage};

use crate::core::partition::ranges::RedirectFilter;
use crate::core::partition::rows::{AccessPath, stored_row};
use crate::core::table::{ReplexInfo, TableInfo};

/// Collects the rows of one page of a read.
pub(crate) struct PageBuilder<'a> {
    columns: &'a [Column],
    read: &'a Read,
    /// Set if the read is redirected.
    pub wanted: Option<RedirectFilter<'a>>,
    /// Rows come in the partition's own order, forwards, and are looked through for those of the
    /// range.
    scans: bool,
    /// The columns of a projected row.
    projected: Option<Vec<Column>>,
    pub page: RowPage,
    pub keys_left: usize,
    pub bytes_max: usize,
    /// Where a descending read stands: the end of its next page.
    last_key: Vec<u8>,
    pub error: Option<String>,
}

impl<'a> PageBuilder<'a> {
    pub fn new(table: &'a TableInfo, read: &'a Read, way: AccessPath<'_>) -> Result<Self, String> {
        let replex = usize::from(read.partition.replex);
        check_entries(&table.replexes[replex], read)?;
        let columns = table.stored_columns(replex);
        if let Some(filter) = &read.filter {
            let scope = protocol::expression::Scope::Row;
            protocol::expression::check_condition(filter, columns, scope)
                .map_err(|error| error.to_string())?;
        }
        let named = &table.schema.columns;
        let column = |index: &u16| named.get(usize::from(*index)).cloned();
        let projected = match &read.projection {
            None => None,
            Some(indexes) => {
                let projected: Option<Vec<Column>> = indexes.iter().map(column).collect();
                Some(projected.ok_or("the projection names a column that is not there")?)
            }
        };
        Ok(PageBuilder {
            columns,
            read,
            wanted: RedirectFilter::of(table, read),
            scans: matches!(way, AccessPath::Scan(_)),
            projected,
            page: RowPage {
                own_order: matches!(way, AccessPath::Scan(_)),
                ..RowPage::default()
            },
            keys_left: 0,
            bytes_max: 0,
            last_key: Vec::new(),
            error: None,
        })
    }

    /// Visits a row. Breaks at an error, and once the page is full, with the key in `next`.
    pub fn visit(&mut self, key: &[u8], value: &[u8]) -> ControlFlow<()> {
        self.pass(key)?;
        let taken = self.take(value);
        taken.map_or_else(|message| self.fail(message), ControlFlow::Continue)
    }

    fn fail(&mut self, message: String) -> ControlFlow<()> {
        self.error = Some(message);
        ControlFlow::Break(())
    }

    /// Visits a marked entry, for which the row decides: it passes every filter. Breaks once the
    /// page is full, with the key in `next`.
    pub fn visit_marked(&mut self, key: &[u8], version: Version, entry: &[u8]) -> ControlFlow<()> {
        self.pass(key)?;
        let index = u32::try_from(self.page.count).expect("a page has few entries");
        self.page.marked.push(index);
        let pushed = self.push(version, entry);
        pushed.map_or_else(|message| self.fail(message), ControlFlow::Continue)
    }

    /// Visits a key without a row. Breaks once the page is full, with the key in `next`.
    pub fn pass(&mut self, key: &[u8]) -> ControlFlow<()> {
        // A marked entry may not count: its row decides.
        let certain = self.page.count - self.page.marked.len() as u64;
        let full = certain >= u64::from(self.read.limit)
            || self.keys_left == 0
            || self.page.rows.len() >= self.bytes_max;
        if full {
            let next = if self.descends() {
                &self.last_key[..]
            } else {
                key
            };
            self.page.next = Some(Bytes::from(next));
            return ControlFlow::Break(());
        }
        self.keys_left -= 1;
        if self.descends() {
            self.last_key.clear();
            self.last_key.extend_from_slice(key);
        }
        ControlFlow::Continue(())
    }

    /// Returns whether no more rows are to be visited: the page is full, or an error ended it.
    pub fn is_over(&self) -> bool {
        self.page.next.is_some() || self.error.is_some()
    }

    fn descends(&self) -> bool {
        self.read.descending && !self.scans
    }

    /// Adds a row to the page if it is asked for and passes the filter.
    fn take(&mut self, value: &[u8]) -> Result<(), String> {
        let (version, row) = stored_row(value);
        if self.read.filter.is_none() && self.wanted.is_none() {
            return self.push(version, row);
        }
        let view = RowView::parse(self.columns, row).map_err(|error| error.to_string())?;
        if let Some(wanted) = &self.wanted
            && (!wanted.admits(&view) || self.scans && !wanted.ranges_over(&view))
        {
            return Ok(());
        }
        if let Some(filter) = &self.read.filter
            && !holds(filter, &view, None).map_err(|error| error.to_string())?
        {
            return Ok(());
        }
        self.push(version, row)
    }

    /// Counts a row, or adds its wanted columns to the page.
    fn push(&mut self, version: Version, row: &[u8]) -> Result<(), String> {
        match (&self.projected, &self.read.projection) {
            _ if self.read.count_only => self.page.count += 1,
            (Some(columns), Some(indexes)) => {
                let view = RowView::parse(self.columns, row).map_err(|error| error.to_string())?;
                let indexes = indexes.iter().map(|index| usize::from(*index));
                let values: Vec<ValueRef<'_>> = indexes.map(|index| view.column(index)).collect();
                let row = encode_row_refs(columns, &values).map_err(|error| error.to_string())?;
                self.page.push(version, &row);
            }
            _ => self.page.push(version, row),
        }
        Ok(())
    }
}

/// Checks that the entries of a thin index have everything that a read asks for.
fn check_entries(replex: &ReplexInfo, read: &Read) -> Result<(), String> {
    if !replex.is_thin() {
        return Ok(());
    }
    if read.redirect.is_some() {
        return Err("a thin index is part of no cover".into());
    }
    if read.count_only && read.snapshot.is_none() {
        return Err("entries with marks cannot be counted: their rows decide".into());
    }
    let has = |index: u16| replex.entry_has.get(usize::from(index)) == Some(&true);
    let mut projection = read.projection.iter().flatten();
    let filter = read.filter.as_ref();
    match projection.all(|index| has(*index)) && filter.is_none_or(|it| it.all_columns(&has)) {
        true => Ok(()),
        false => Err("the entries do not have every column that the read names".into()),
    }
}
