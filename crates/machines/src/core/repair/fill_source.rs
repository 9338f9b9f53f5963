//! Answers a core that fills a partition. As a member of the cover, this core sends pages of rows,
//! and rows that are needed at once.
//!
//! Every answer follows from the request and the tables alone, so requests may be repeated. Rows in
//! the tables are settled (R3). The answers wait for no operation in progress, because the
//! requesting partition is a member of all that move its rows (R55). Only a transaction can be in
//! progress since an earlier epoch of the table, in which this partition was no member. Nothing is
//! given before that has ended (R44).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};
use placement::{RowView, prefix_end};
use protocol::codec::Bytes;
use protocol::configuration::PartitionState;
use protocol::identity::{CoreId, PartitionId, Position};
use protocol::message::{PeerMessage, RowPage, ScanCounts};
use protocol::planted::{self, Bug};

use crate::core::CoreMachine;
use crate::core::contract::PeerSend;
use crate::core::partition::rows::{AccessPath, KeyRange, Rows, stored_row};
use crate::core::repair::sums::page_sum;
use crate::core::step::Step;
use crate::core::table::TableInfo;

impl CoreMachine {
    /// Returns the table of a cover's member `from` on this core; none if the member cannot give
    /// rows for `of`. A member cannot while it lacks rows itself, or while this core recovers
    /// records that it may have forgotten.
    fn gives_rows(&self, of: PartitionId, from: PartitionId) -> Option<Arc<TableInfo>> {
        let table = &self.partitions.get(&from)?.table;
        let serves = table.place(from)?.state == PartitionState::Serving;
        let is_asked = of.table == from.table && table.place(of).is_some();
        let gives = serves && is_asked && !self.recovers(of.table);
        gives.then(|| Arc::clone(table))
    }

    /// Answers a request for a page of this member's rows. One page serves all requested ranges.
    pub(crate) fn on_copy<T: Tables>(
        &mut self,
        asker: CoreId,
        of: Vec<PartitionId>,
        from: PartitionId,
        start: Bytes,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let gives = |of: &PartitionId| self.gives_rows(*of, from);
        let tables_of: Option<Vec<Arc<TableInfo>>> = of.iter().map(gives).collect();
        let Some(table) = tables_of.and_then(|known| known.into_iter().next()) else {
            return Ok(());
        };
        let mut pages: Vec<RowPage> = of.iter().map(|_| RowPage::default()).collect();
        let mut next: Option<Bytes> = None;
        let mut looked = ScanCounts::default();
        if start.is_empty() {
            looked.of_rows = step.tables.entries_about(from.rows_table());
        }
        let mut keys_left = self.limits.fill_page_keys_max;
        let mut bytes_left = self.limits.fill_page_bytes_max;
        step.tables
            .scan(from.rows_table(), &start, None, &mut |key, value| {
                if keys_left == 0 || bytes_left == 0 {
                    next = Some(key.into());
                    return ControlFlow::Break(());
                }
                keys_left -= 1;
                looked.rows += 1;
                looked.bytes += value.len() as u64;
                let (version, row) = stored_row(value);
                let view = RowView::checked_before(&table.schema.columns, row);
                let view = view.expect("a committed row decodes");
                if !table.gives(from, &view) {
                    return ControlFlow::Continue(());
                }
                for (of, page) in of.iter().zip(&mut pages) {
                    if table.layout.partition_of_row(usize::from(of.replex), &view) == of.number {
                        let row = table.stored_form(*of, row);
                        page.push(version, &row);
                        bytes_left = bytes_left.saturating_sub(row.len());
                    }
                }
                ControlFlow::Continue(())
            })?;
        for (of, mut page) in of.into_iter().zip(pages) {
            page.next.clone_from(&next);
            step.output.sends.push(PeerSend {
                to: asker,
                after: Position(0),
                message: PeerMessage::Copied {
                    of,
                    from,
                    start: start.clone(),
                    sum: page_sum(&page),
                    page,
                    looked,
                },
            });
            // They were looked at once.
            looked.bytes = 0;
        }
        Ok(())
    }

    /// Answers a request for the last rows of some ranges of a partition that is being filled.
    pub(crate) fn on_fetch<T: Tables>(
        &mut self,
        asker: CoreId,
        of: PartitionId,
        from: PartitionId,
        (pass, wanted, start): (u64, Vec<Range>, Bytes),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(table) = self.gives_rows(of, from) else {
            return Ok(());
        };
        let rows = Rows::of(&self.partitions[&from]);
        let mut search = Search::new(wanted, self.limits.fetched_rows_max);
        let (way, first) = way_on(rows, of, &start);
        // Where rows are in order, each range is in one place.
        let places = match way {
            AccessPath::Scan(_) => alloc::vec![(first, None)],
            AccessPath::Rows | AccessPath::Entries(_) => search.ranges_from(&first),
        };
        let mut next = None;
        let mut keys_left = self.limits.page_keys_max;
        let bytes_max = self.limits.fill_page_bytes_max;
        for (first, beyond) in places {
            let visit = &mut |key: &[u8], value: &[u8]| {
                if keys_left == 0 || search.bytes >= bytes_max {
                    next = Some(going_on(way, key));
                    return ControlFlow::Break(());
                }
                keys_left -= 1;
                search.look_at(&table, (of, from), value);
                ControlFlow::Continue(())
            };
            let range = KeyRange {
                start: &first,
                end: beyond.as_deref(),
                descending: false,
            };
            match way {
                AccessPath::Entries(order) => rows.look_up(order, range, step.tables, visit)?,
                AccessPath::Rows | AccessPath::Scan(_) => {
                    range.visit(from.rows_table(), step.tables, visit)?
                }
            }
            if next.is_some() {
                break;
            }
        }
        self.counters.fetch_rows_looked_at += (self.limits.page_keys_max - keys_left) as u64;
        let (page, complete_from) = search.page(next, &table, of);
        step.output.sends.push(PeerSend {
            to: asker,
            after: Position(0),
            message: PeerMessage::Fetched {
                of,
                from,
                pass,
                start,
                page,
                complete_from,
            },
        });
        Ok(())
    }
}

/// The first byte of a page's start key if the member sends the pages of a fetch in its own order,
/// because it lacks entries in the requested order. Other start keys begin with 0. So a member that
/// has lost its entries can change to its own order during a fetch, and never mistakes a key of one
/// order for a key of the other.
const IN_OWN_ORDER: u8 = 1;

/// Returns how a member finds the rows of a fetch, and the key to start from.
fn way_on(rows: Rows<'_>, of: PartitionId, start: &Bytes) -> (AccessPath<'static>, Bytes) {
    let way = rows.way(of.replex);
    match (start.split_first(), way) {
        (Some((&IN_OWN_ORDER, key)), _) => (AccessPath::Scan(b""), key.into()),
        (Some((_, key)), AccessPath::Rows | AccessPath::Entries(_)) => (way, key.into()),
        _ => (way, Bytes::default()),
    }
}

/// Returns the start key of the next page, after the last key of this one.
fn going_on(way: AccessPath<'_>, key: &[u8]) -> Bytes {
    let kind = match way {
        AccessPath::Scan(_) => IN_OWN_ORDER,
        AccessPath::Rows | AccessPath::Entries(_) => 0,
    };
    Bytes([&[kind], key].concat())
}

/// The prefix of a range's keys, and the first key after the range; none if the range has all keys
/// with the prefix.
type Range = (Bytes, Option<Bytes>);

/// A search for the last rows of each of some ranges.
struct Search {
    rows_max: usize,
    /// The ranges, in order. No prefix begins with another one, because all prefixes have the same
    /// columns.
    wanted: Vec<Range>,
    /// The found rows, by range.
    found: Vec<Found>,
    /// The bytes of all found rows, with those that were left out.
    bytes: usize,
}

/// The rows that were found of one range.
#[derive(Default)]
struct Found {
    /// Values by key.
    rows: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Whether earlier rows of the range were left out.
    left_out: bool,
}

impl Search {
    fn new(mut wanted: Vec<Range>, rows_max: usize) -> Search {
        wanted.sort_unstable();
        Search {
            rows_max,
            found: wanted.iter().map(|_| Found::default()).collect(),
            wanted,
            bytes: 0,
        }
    }

    /// Returns the requested ranges with both bounds, without the keys before `start`.
    fn ranges_from(&self, start: &Bytes) -> Vec<(Bytes, Option<Bytes>)> {
        let ranges = self.wanted.iter().map(|(prefix, end)| {
            let prefix_end = prefix_end(prefix).map(Bytes::from);
            (prefix.max(start).clone(), end.clone().or(prefix_end))
        });
        ranges.collect()
    }

    fn look_at(&mut self, table: &TableInfo, (of, from): (PartitionId, PartitionId), value: &[u8]) {
        let replex = usize::from(of.replex);
        let (_, row) = stored_row(value);
        let row =
            RowView::checked_before(&table.schema.columns, row).expect("a committed row decodes");
        let is_wanted = table.layout.partition_of_row(replex, &row) == of.number;
        if !is_wanted || !table.gives(from, &row) {
            return;
        }
        let key = table.entry_key(replex, &row);
        let after = self
            .wanted
            .partition_point(|(prefix, _)| **prefix <= key[..]);
        let Some(index) = after.checked_sub(1) else {
            return;
        };
        let (prefix, end) = &self.wanted[index];
        if !key.starts_with(prefix) || end.as_ref().is_some_and(|end| key[..] >= **end) {
            return;
        }
        self.bytes += value.len();
        let found = &mut self.found[index];
        found.rows.insert(key, value.to_vec());
        if found.rows.len() > self.rows_max {
            found.rows.pop_first();
            found.left_out = true;
        }
    }

    /// Returns the found rows as a page, as the partition `of` stores them. Also returns the prefix
    /// of each range of which rows were left out, with the key from which the page has all rows of
    /// the range.
    fn page(
        self,
        next: Option<Bytes>,
        table: &TableInfo,
        of: PartitionId,
    ) -> (RowPage, Vec<(Bytes, Bytes)>) {
        let mut page = RowPage {
            next,
            ..RowPage::default()
        };
        let mut complete_from = Vec::new();
        for ((prefix, _), Found { rows, left_out }) in self.wanted.into_iter().zip(self.found) {
            if let Some((first, _)) = rows.first_key_value()
                && left_out
            {
                complete_from.push((prefix, Bytes::from(&first[..])));
            }
            for value in rows.values() {
                let (version, row) = stored_row(value);
                match planted::is(Bug::FetchedAsRows) {
                    true => page.push(version, row),
                    false => page.push(version, &table.stored_form(of, row)),
                }
            }
        }
        (page, complete_from)
    }
}
