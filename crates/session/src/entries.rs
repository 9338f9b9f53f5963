//! Reads of a thin index: first a page of its entries, then the rows of these entries (R28).
//!
//! The caller reads a partition of a thin index like one of a copy, and gets rows in the order of
//! the index. The machine divides such a read:
//!
//! 1. It asks the partition for a page of entries. The partition answers at once, and marks the
//!    entries of unsettled operations.
//! 2. It reads the row of each entry by its pk, unless the entry is not marked and has everything
//!    that the read wants.
//! 3. An entry counts if its row, as it was read, has this entry's key. So each row counts once, at
//!    its present place.
//!
//! The entries and the rows together show one moment only as parts of a `Moment`, or of a snapshot.
//! If the partition is lost, a cover of copies has its rows (`redirect`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use placement::{
    Column, ReplexKind, RowError, RowView, ValueRef, encode_row_refs, encode_value, prefix_end,
};
use protocol::codec::Bytes;
use protocol::configuration::{PlacedTable, routes};
use protocol::identity::{CoreId, Version};
use protocol::message::{Agreement, Read, RowPage};
use protocol::planted::{self, Bug};

use super::moment::ReceivedPage;
use super::{
    RequestParent, RequestPhase, SessionFailure, SessionMachine, SessionOperation, SessionOutput,
    Ticket,
};

/// Bytes of the rows of one page, beyond which no more of them are read.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// All reads of thin indexes in progress, by the ticket of the read.
pub(super) type EntryReads = BTreeMap<Ticket, EntryRead>;

/// A read of a page of a thin index, in progress.
#[derive(Debug)]
pub(super) struct EntryRead {
    shape: EntryShape,
    /// Since when nothing that was read so far has changed.
    quiet_since_us: u64,
    /// The core and the correlation of the page of entries; none if a row came from a cover.
    held_by: Option<(CoreId, u64)>,
    /// The start of the next page of entries.
    next: Option<Bytes>,
    entries: Vec<Entry>,
    /// Entries whose rows are still to be read, in order.
    unread: VecDeque<usize>,
    /// The requests in progress: the page of entries, or reads of rows with their entry.
    open: BTreeMap<Ticket, usize>,
    bytes: usize,
}

/// One entry of the page.
#[derive(Debug)]
struct Entry {
    /// The entry's key in the order of the index.
    key: Vec<u8>,
    row: EntryRow,
}

#[derive(Debug)]
enum EntryRow {
    /// The row is to be read, by this pk.
    Wanted(Vec<u8>),
    /// The wanted columns of the row.
    Found(Version, Vec<u8>),
    /// No row has this entry and passes the filter.
    Gone,
}

/// The columns that a read of a thin index wants, and those of the index.
#[derive(Debug)]
struct EntryShape {
    /// The columns as entries are stored: any of them may be NULL.
    stored: Vec<Column>,
    columns: Vec<Column>,
    /// The columns by which entries are ordered: those of the index, then those of the pk.
    order: Vec<usize>,
    primary_key: Vec<usize>,
    /// Whether an entry that is not marked has all that the read wants.
    covers: bool,
    /// Whether the partition can evaluate the filter.
    filters: bool,
    /// The wanted columns.
    wanted: Vec<usize>,
    /// The columns of the rows that are read: the wanted ones and those of the order.
    read: Vec<u16>,
}

impl EntryShape {
    /// Returns the shape of a read of a thin index; none if the read is one of a copy, or names a
    /// column that there is not.
    fn of(table: &PlacedTable, read: &Read) -> Option<EntryShape> {
        let number = usize::from(read.partition.replex);
        let ReplexKind::Thin { index } = table.layout.replexes.get(number)?.kind else {
            return None;
        };
        let columns = table.schema.columns.clone();
        let mut stored = columns.clone();
        stored.iter_mut().for_each(|column| column.nullable = true);
        let order = table.layout.order_columns(number);
        let included = &table.schema.thin[index].included;
        let has = |column: usize| order.contains(&column) || included.contains(&column);
        let wanted: Vec<usize> = match &read.projection {
            _ if read.count_only => Vec::new(),
            None => (0..columns.len()).collect(),
            Some(projection) => projection.iter().copied().map(usize::from).collect(),
        };
        let mut narrow = wanted.clone();
        narrow.extend(order.iter().filter(|column| !wanted.contains(column)));
        let known = narrow.iter().all(|column| *column < columns.len());
        let filter = read.filter.as_ref();
        let filters = filter.is_none_or(|it| it.all_columns(&|column| has(usize::from(column))));
        let covers = filters && wanted.iter().all(|column| has(*column));
        known.then(|| EntryShape {
            covers,
            filters,
            read: narrow.into_iter().map(narrow_column).collect(),
            primary_key: table.schema.primary_key.clone(),
            stored,
            columns,
            order,
            wanted,
        })
    }

    /// Returns the key of a row in the order of the index, by the places of the columns in it.
    fn key(&self, row: &RowView<'_>, place: impl Fn(usize) -> usize, of: &[usize]) -> Vec<u8> {
        let mut key = Vec::with_capacity(48);
        for column in of {
            encode_value(&mut key, row.column(place(*column)));
        }
        key
    }

    /// Returns the wanted columns of a row.
    fn project(
        &self,
        row: &RowView<'_>,
        place: impl Fn(usize) -> usize,
    ) -> Result<Vec<u8>, RowError> {
        let wanted = self.wanted.iter();
        let values: Vec<ValueRef<'_>> = wanted.clone().map(|it| row.column(place(*it))).collect();
        let columns: Vec<Column> = wanted.map(|column| self.columns[*column].clone()).collect();
        encode_row_refs(&columns, &values)
    }

    /// Takes an entry as the partition has sent it.
    fn entry(
        &self,
        (version, entry): (Version, &[u8]),
        is_marked: bool,
    ) -> Result<Entry, RowError> {
        let row = RowView::parse(&self.stored, entry)?;
        let same = |column: usize| column;
        let is_certain = !is_marked || planted::is(Bug::MarkedIsTrusted);
        Ok(Entry {
            key: self.key(&row, same, &self.order),
            row: match self.covers && is_certain {
                true => EntryRow::Found(version, self.project(&row, same)?),
                false => EntryRow::Wanted(self.key(&row, same, &self.primary_key)),
            },
        })
    }

    /// Takes the row of an entry, as its partition has sent it.
    fn row(&self, key: &[u8], page: &RowPage) -> Result<EntryRow, RowError> {
        let Some((version, row)) = page.rows().next() else {
            return Ok(EntryRow::Gone);
        };
        let columns = self
            .read
            .iter()
            .map(|it| self.columns[usize::from(*it)].clone());
        let columns: Vec<Column> = columns.collect();
        let row = RowView::parse(&columns, row)?;
        let place = |column: usize| {
            let mut read = self.read.iter();
            let place = read.position(|it| usize::from(*it) == column);
            place.expect("all columns of the order are read")
        };
        let is_there = self.key(&row, place, &self.order) == key;
        Ok(match is_there || planted::is(Bug::EntryTrusted) {
            true => EntryRow::Found(version, self.project(&row, place)?),
            false => EntryRow::Gone,
        })
    }
}

fn narrow_column(column: usize) -> u16 {
    u16::try_from(column).expect("a table has few columns")
}

impl SessionMachine {
    /// Divides a read of a thin index. Returns false if the read is another one.
    pub(super) fn read_entries(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        output: &mut SessionOutput,
    ) -> bool {
        let pending = &self.requests[&ticket];
        let SessionOperation::Read(read) = &pending.operation else {
            return false;
        };
        if let Some(RequestParent::Entries(_)) = pending.part_of {
            return false;
        }
        let configuration = self.configuration.as_ref().expect("it was routed");
        let table = configuration.table(read.partition.table);
        let table = table.expect("it was routed");
        let Some(shape) = EntryShape::of(table, read) else {
            return false;
        };
        let entries = Read {
            filter: read.filter.clone().filter(|_| shape.filters),
            projection: None,
            count_only: false,
            agreement: agreement_of_part(read),
            ..read.clone()
        };
        let deadline_us = pending.deadline_us;
        self.drop_entries(ticket);
        self.move_to(ticket, RequestPhase::Parted, None);
        let parent = RequestParent::Entries(ticket);
        let part = self.part(parent, deadline_us, SessionOperation::Read(entries));
        let begun = EntryRead {
            shape,
            quiet_since_us: 0,
            held_by: None,
            next: None,
            entries: Vec::new(),
            unread: VecDeque::new(),
            open: BTreeMap::from([(part, 0)]),
            bytes: 0,
        };
        self.entry_reads.insert(ticket, begun);
        self.place(now_us, part, output);
        true
    }

    /// Handles a page of entries, or the row of one.
    pub(super) fn on_entry_page(
        &mut self,
        now_us: u64,
        part: Ticket,
        came: ReceivedPage,
        output: &mut SessionOutput,
    ) {
        let Some(RequestParent::Entries(ticket)) = self.requests[&part].part_of else {
            panic!("callers have looked");
        };
        self.remove(part);
        let read = self.entry_reads.get_mut(&ticket).expect("it has parts");
        let number = read.open.remove(&part).expect("it was under way");
        // Up to when it was taken, which was not after now. Clocks differ by less than a sixteenth.
        let quiet_us = came.page.quiet_us.unwrap_or(0);
        let since_us = now_us.saturating_sub(quiet_us - quiet_us / 16);
        read.quiet_since_us = read.quiet_since_us.max(since_us);
        let taken = match read.entries.is_empty() {
            true => read.take_entries(came),
            false => read.take_row(number, &came),
        };
        if let Err(error) = taken {
            let message = alloc::format!("an entry of a thin index is malformed: {error}");
            self.fail(ticket, SessionFailure::Invalid { message }, output);
            return;
        }
        self.read_rows(now_us, ticket, output);
    }

    /// Asks for as many rows as may be in flight. Ends the read when it has all of them.
    fn read_rows(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        loop {
            let at_once = self.limits.moment_reads_max;
            let Some(entries) = self.entry_reads.get_mut(&ticket) else {
                return;
            };
            if entries.bytes > PAGE_BYTES_MAX {
                entries.cut();
            }
            if entries.open.len() >= at_once {
                return;
            }
            let Some(number) = entries.unread.pop_front() else {
                if entries.open.is_empty() {
                    self.end_entries(now_us, ticket, output);
                }
                return;
            };
            let EntryRow::Wanted(pk) = &entries.entries[number].row else {
                continue;
            };
            let pending = &self.requests[&ticket];
            let SessionOperation::Read(read) = &pending.operation else {
                panic!("callers have looked");
            };
            let configuration = self.configuration.as_ref().expect("it was routed");
            let table = configuration.table(read.partition.table);
            let primary = table.and_then(|table| routes::primary_partition(table, pk));
            let Some(partition) = primary else {
                let message = "an entry of a thin index has no valid primary key".into();
                self.fail(ticket, SessionFailure::Invalid { message }, output);
                return;
            };
            let row = Read {
                partition,
                start: Bytes(pk.clone()),
                end: prefix_end(pk).map(Bytes),
                projection: Some(entries.shape.read.clone()),
                limit: 1,
                descending: false,
                count_only: false,
                agreement: agreement_of_part(read),
                ..read.clone()
            };
            let deadline_us = pending.deadline_us;
            let parent = RequestParent::Entries(ticket);
            let part = self.part(parent, deadline_us, SessionOperation::Read(row));
            let entries = self.entry_reads.get_mut(&ticket).expect("it was there");
            entries.open.insert(part, number);
            self.place(now_us, part, output);
        }
    }

    /// Completes a read with the rows of its entries.
    fn end_entries(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        let entries = self.entry_reads.remove(&ticket).expect("callers hold it");
        let SessionOperation::Read(read) = &self.requests[&ticket].operation else {
            panic!("callers have looked");
        };
        let held_by = entries.held_by;
        let quiet_us = now_us.saturating_sub(entries.quiet_since_us);
        let mut page = entries.page(read);
        page.quiet_us = read.must_agree().then_some(quiet_us);
        self.give_page(now_us, ticket, ReceivedPage { page, held_by }, output);
    }

    /// Begins a read of a thin index again, because its partition is lost.
    pub(super) fn entries_again(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        output: &mut SessionOutput,
    ) {
        self.drop_entries(ticket);
        self.place(now_us, ticket, output);
    }

    /// Drops the requests of a read of a thin index.
    pub(super) fn drop_entries(&mut self, ticket: Ticket) {
        if let Some(entries) = self.entry_reads.remove(&ticket) {
            for part in entries.open.into_keys() {
                self.remove(part);
            }
        }
    }
}

impl EntryRead {
    fn take_entries(&mut self, came: ReceivedPage) -> Result<(), RowError> {
        let ReceivedPage { page, held_by } = came;
        self.held_by = held_by;
        let mut marked = page.marked.iter().copied().peekable();
        for (index, entry) in (0..).zip(page.rows()) {
            let is_marked = marked.next_if_eq(&index).is_some();
            let entry = self.shape.entry(entry, is_marked)?;
            if let EntryRow::Wanted(_) = entry.row {
                self.unread.push_back(self.entries.len());
            }
            self.entries.push(entry);
        }
        self.next = page.next;
        Ok(())
    }

    fn take_row(&mut self, number: usize, came: &ReceivedPage) -> Result<(), RowError> {
        if came.held_by.is_none() {
            self.held_by = None;
        }
        let key = &self.entries[number].key;
        let row = self.shape.row(key, &came.page)?;
        if let EntryRow::Found(_, row) = &row {
            self.bytes += row.len();
        }
        self.entries[number].row = row;
        Ok(())
    }

    /// Reads no more rows: the page ends before the first entry whose row was not asked for.
    fn cut(&mut self) {
        self.unread.clear();
    }

    /// Returns the page of rows.
    fn page(self, read: &Read) -> RowPage {
        let mut page = RowPage {
            next: self.next,
            ..RowPage::default()
        };
        let mut last: Option<Vec<u8>> = None;
        for entry in self.entries {
            let is_full = page.count == u64::from(read.limit);
            if is_full || matches!(entry.row, EntryRow::Wanted(_)) {
                page.next = Some(Bytes(match last.filter(|_| read.descending) {
                    Some(last) => last,
                    None => entry.key,
                }));
                return page;
            }
            match entry.row {
                EntryRow::Found(..) if read.count_only => page.count += 1,
                EntryRow::Found(version, row) => page.push(version, &row),
                _ => {}
            }
            last = Some(entry.key);
        }
        page
    }
}

/// Returns how a part of a read must agree: it never holds its range.
fn agreement_of_part(read: &Read) -> Agreement {
    match read.agreement {
        Agreement::Alone => Agreement::Alone,
        Agreement::Quiet | Agreement::Hold(_) => Agreement::Quiet,
    }
}
