//! Reads of a thin index: first a page of its entries, then the rows of these entries (R28).
//!
//! The caller reads a partition of a thin index like one of a copy, and gets rows in the order of
//! the index. The machine divides such a read:
//!
//! 1. It asks the partition for a page of entries. The partition answers at once, and marks the
//!    entries of unsettled operations.
//! 2. It reads the rows of these entries by their pks, many rows of one partition with one request.
//!    It reads no row for an entry that is not marked and has everything that the read wants.
//! 3. An entry counts if its row, as it was read, has this entry's key. So each row counts once, at
//!    its present place.
//!
//! The entries and the rows together show one moment only as parts of a `Moment`, or of a snapshot.
//! If the partition is lost, another copy of the index answers for its keys (R56). Without one, a
//! cover of copies has its rows (`redirect`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use placement::{
    Column, RowError, RowView, SortColumn, ValueRef, ascending, columns_of, encode_row_refs,
    encode_sorted, prefix_end,
};
use protocol::codec::Bytes;
use protocol::configuration::{PlacedTable, routes};
use protocol::identity::{CoreId, PartitionId, Version};
use protocol::message::{Read, RowPage};
use protocol::planted::{self, Bug};

use super::moment::ReceivedPage;
use super::{
    RequestParent, RequestPhase, SessionFailure, SessionMachine, SessionOperation, SessionOutput,
    Ticket,
};

/// The most rows of one request.
const BATCH_ROWS_MAX: usize = 256;
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
    /// The core and the correlation of the page of entries; none if a row came from a cover, or the
    /// entries from another copy of the index.
    held_by: Option<(CoreId, u64)>,
    /// Whether the entries are those of another copy of the index.
    is_redirected: bool,
    /// The start of the next page of entries.
    next: Option<Bytes>,
    /// The start of the page after the last one of the partition that is asked; none if it has all
    /// entries.
    rest: Option<Bytes>,
    entries: Vec<Entry>,
    /// The rows that are still to be read.
    unread: VecDeque<RowBatch>,
    /// The requests in progress: reads of rows, and before them the page of entries, without rows.
    open: BTreeMap<Ticket, RowBatch>,
    bytes: usize,
}

/// A partition that gives entries, and for which keys.
pub(super) struct EntrySource {
    partition: PartitionId,
    /// The first key.
    start: Bytes,
    /// The first key after those that are asked for; none is the last one.
    end: Option<Bytes>,
    /// Where the next page starts that another partition gives; none if there is no more.
    rest: Option<Bytes>,
}

/// Rows of one partition that are read together.
#[derive(Clone, Debug, Default)]
struct RowBatch {
    partition: PartitionId,
    /// By pk: the positions of its entries on the page.
    wanted: BTreeMap<Vec<u8>, Vec<usize>>,
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
    /// The row is to be read: in this partition, by this pk.
    Wanted(PartitionId, Vec<u8>),
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
    /// The columns by which entries are ordered: those of the index, then those of the pk.
    order: Vec<SortColumn>,
    primary_key: Vec<SortColumn>,
    /// Whether an entry that is not marked has all that the read wants.
    covers: bool,
    /// Whether the partition can evaluate the filter.
    filters: bool,
    /// The wanted columns.
    wanted: Vec<usize>,
    /// Their definitions.
    output: Vec<Column>,
    /// The columns of the rows that are read: the wanted ones and those of the order.
    read: Vec<u16>,
    /// Their definitions.
    read_columns: Vec<Column>,
}

impl EntryShape {
    /// Returns the shape of a read of a thin index; none if the read is one of a copy, or names a
    /// column that there is not.
    fn of(table: &PlacedTable, read: &Read) -> Option<EntryShape> {
        let number = usize::from(read.partition.replex);
        let in_entries = table.layout.entry_columns(&table.schema, number)?;
        let columns = &table.schema.columns;
        let mut stored = columns.clone();
        stored.iter_mut().for_each(|column| column.nullable = true);
        let order = table.layout.order(number);
        let has = |column: usize| in_entries.contains(&column);
        let wanted: Vec<usize> = match &read.projection {
            _ if read.count_only => Vec::new(),
            None => (0..columns.len()).collect(),
            Some(projection) => projection.iter().copied().map(usize::from).collect(),
        };
        let mut narrow = wanted.clone();
        let sorted_by = columns_of(&order).into_iter();
        narrow.extend(sorted_by.filter(|column| !wanted.contains(column)));
        let known = narrow.iter().all(|column| *column < columns.len());
        let filter = read.filter.as_ref();
        let filters = filter.is_none_or(|it| it.all_columns(&|column| has(usize::from(column))));
        let covers = filters && wanted.iter().all(|column| has(*column));
        let defined = |numbers: &[usize]| {
            let numbers = numbers.iter();
            numbers.map(|column| columns[*column].clone()).collect()
        };
        known.then(|| EntryShape {
            covers,
            filters,
            output: defined(&wanted),
            read_columns: defined(&narrow),
            read: narrow.into_iter().map(narrow_column).collect(),
            primary_key: ascending(&table.schema.primary_key),
            stored,
            order,
            wanted,
        })
    }

    /// Returns the wanted columns of a row.
    fn project(
        &self,
        row: &RowView<'_>,
        place: impl Fn(usize) -> usize,
    ) -> Result<Vec<u8>, RowError> {
        let wanted = self.wanted.iter();
        let values: Vec<ValueRef<'_>> = wanted.map(|it| row.column(place(*it))).collect();
        encode_row_refs(&self.output, &values)
    }

    /// Takes an entry of a table as the partition has sent it.
    fn entry(
        &self,
        table: &PlacedTable,
        (version, entry): (Version, &[u8]),
        is_marked: bool,
    ) -> Result<Entry, RowError> {
        let row = RowView::parse(&self.stored, entry)?;
        let same = |column: usize| column;
        let is_certain = !is_marked || planted::is(Bug::MarkedIsTrusted);
        Ok(Entry {
            key: key(&row, same, &self.order),
            row: match self.covers && is_certain {
                true => EntryRow::Found(version, self.project(&row, same)?),
                false => {
                    let pk = key(&row, same, &self.primary_key);
                    let partition = routes::primary_partition(table, &pk);
                    EntryRow::Wanted(partition.expect("a pk that was encoded decodes"), pk)
                }
            },
        })
    }

    /// Returns the place of a column in the rows that are read.
    fn place(&self, column: usize) -> usize {
        let mut read = self.read.iter();
        let place = read.position(|it| usize::from(*it) == column);
        place.expect("all columns of the order are read")
    }
}

/// Returns the key that these columns of a row make, by their places in it.
fn key(row: &RowView<'_>, place: impl Fn(usize) -> usize, columns: &[SortColumn]) -> Vec<u8> {
    encode_sorted(columns, |column| row.column(place(column)))
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
        let mut entries = Read {
            filter: read.filter.clone().filter(|_| shape.filters),
            projection: None,
            count_only: false,
            agreement: read.agreement.without_hold(),
            ..read.clone()
        };
        let source = self.other_source(now_us, read);
        let is_redirected = source.is_some();
        let rest = source.and_then(|source| {
            entries.partition = source.partition;
            (entries.start, entries.end) = (source.start, source.end);
            source.rest
        });
        let deadline_us = pending.deadline_us;
        self.drop_entries(ticket);
        self.move_to(ticket, RequestPhase::Parted, None);
        let parent = RequestParent::Entries(ticket);
        let part = self.part(parent, deadline_us, SessionOperation::Read(entries));
        let begun = EntryRead {
            shape,
            quiet_since_us: 0,
            held_by: None,
            is_redirected,
            next: None,
            rest,
            entries: Vec::new(),
            unread: VecDeque::new(),
            open: BTreeMap::from([(part, RowBatch::default())]),
            bytes: 0,
        };
        self.entry_reads.insert(ticket, begun);
        self.place(now_us, part, output);
        true
    }

    /// Returns a partition of another copy of a thin index that can give the entries of a read.
    /// Returns none if the partition that the read names is not lost, if there is no such copy, or
    /// if the read is one of a copy of the table.
    pub(super) fn other_source(&self, now_us: u64, read: &Read) -> Option<EntrySource> {
        let configuration = self.configuration.as_ref()?;
        let is_there = |partition| {
            let place = configuration.place(partition);
            place.is_some_and(|place| {
                !routes::is_down(configuration, place) && self.is_reachable(place.core, now_us)
            })
        };
        if !routes::is_thin(configuration, read.partition) || is_there(read.partition) {
            return None;
        }
        let table = configuration.table(read.partition.table)?;
        let others = table.layout.other_thin(usize::from(read.partition.replex));
        let mut sources = others.filter_map(|other| EntrySource::of_copy(table, read, other));
        sources.find(|source| is_there(source.partition))
    }

    /// Handles a page of entries, or of their rows.
    pub(super) fn on_entry_page(
        &mut self,
        now_us: u64,
        part: Ticket,
        came: ReceivedPage,
        output: &mut SessionOutput,
    ) {
        let pending = &self.requests[&part];
        let Some(RequestParent::Entries(ticket)) = pending.part_of else {
            panic!("callers have looked");
        };
        let SessionOperation::Read(asked) = &pending.operation else {
            panic!("entries and rows are read");
        };
        let table = asked.partition.table;
        self.remove(part);
        let read = self.entry_reads.get_mut(&ticket).expect("it has parts");
        let batch = read.open.remove(&part).expect("it was under way");
        // Up to when it was taken, which was not after now. Clocks differ by less than a sixteenth.
        let quiet_us = came.page.quiet_us.unwrap_or(0);
        let since_us = now_us.saturating_sub(quiet_us - quiet_us / 16);
        read.quiet_since_us = read.quiet_since_us.max(since_us);
        let taken = match batch.wanted.is_empty() {
            true => {
                let configuration = self.configuration.as_ref().expect("it was routed");
                let table = configuration.table(table).expect("reads of others end");
                read.take_entries(table, came)
            }
            false => read.take_rows(batch, &came),
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
            let Some(batch) = entries.unread.pop_front() else {
                if entries.open.is_empty() {
                    self.end_entries(now_us, ticket, output);
                }
                return;
            };
            let pending = &self.requests[&ticket];
            let SessionOperation::Read(read) = &pending.operation else {
                panic!("callers have looked");
            };
            let rows = batch.read(read, &entries.shape);
            let deadline_us = pending.deadline_us;
            let parent = RequestParent::Entries(ticket);
            let part = self.part(parent, deadline_us, SessionOperation::Read(rows));
            let entries = self.entry_reads.get_mut(&ticket).expect("it was there");
            entries.open.insert(part, batch);
            self.place(now_us, part, output);
        }
    }

    /// Reads the rows of a batch one by one, because a cover answers no read of several keys.
    pub(super) fn part_batch(&mut self, now_us: u64, part: Ticket, output: &mut SessionOutput) {
        let Some(RequestParent::Entries(ticket)) = self.requests[&part].part_of else {
            panic!("callers have looked");
        };
        self.remove(part);
        let entries = self.entry_reads.get_mut(&ticket).expect("it has parts");
        let batch = entries.open.remove(&part).expect("it was under way");
        let partition = batch.partition;
        for (pk, positions) in batch.wanted {
            entries.unread.push_front(RowBatch {
                partition,
                wanted: BTreeMap::from([(pk, positions)]),
            });
        }
        self.read_rows(now_us, ticket, output);
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

impl EntrySource {
    /// Returns the partition of another copy of a thin index that has the first entries of a read,
    /// in the direction of the read. Returns none if no key belongs to the read.
    fn of_copy(table: &PlacedTable, read: &Read, copy: usize) -> Option<EntrySource> {
        let layout = &table.layout;
        let (replex, number) = (usize::from(read.partition.replex), read.partition.number);
        let keys = (&read.start[..], read.end.as_deref());
        // The copy knows nothing of the range that the read's own partition has.
        let (start, end) = layout.keys_in_partition(replex, number, keys);
        let other = match &layout.replexes[copy].ranges {
            None => number,
            Some(ranges) => {
                let mut overlapping = ranges.overlapping((start, end)).into_iter();
                match read.descending {
                    true => overlapping.next_back()?,
                    false => overlapping.next()?,
                }
            }
        };
        let (first, after) = layout.keys_in_partition(copy, other, (start, end));
        let rest = match read.descending {
            true => (first != start).then_some(first),
            false => after.filter(|_| after != end),
        };
        let rest = rest.filter(|_| !planted::is(Bug::RangeOfCopyIgnored));
        Some(EntrySource {
            partition: table.partition(copy, other),
            start: first.into(),
            end: after.map(Bytes::from),
            rest: rest.map(Bytes::from),
        })
    }
}

impl RowBatch {
    /// Returns the read of these rows for a read of a thin index.
    fn read(&self, read: &Read, shape: &EntryShape) -> Read {
        let (first, last) = (self.wanted.first_key_value(), self.wanted.last_key_value());
        let ((first, _), (last, _)) = first.zip(last).expect("a batch has rows");
        let keys = match self.wanted.len() {
            1 => Vec::new(),
            _ => self.wanted.keys().cloned().map(Bytes).collect(),
        };
        Read {
            partition: self.partition,
            start: Bytes(first.clone()),
            end: prefix_end(last).map(Bytes),
            projection: Some(shape.read.clone()),
            limit: u32::try_from(self.wanted.len()).expect("batches are small"),
            descending: false,
            count_only: false,
            agreement: read.agreement.without_hold(),
            keys,
            ..read.clone()
        }
    }
}

impl EntryRead {
    fn take_entries(&mut self, table: &PlacedTable, came: ReceivedPage) -> Result<(), RowError> {
        let ReceivedPage { page, held_by } = came;
        // Without the usual partition there may be no snapshot either, so that a moment is tried
        // longer, as with a cover.
        self.held_by = held_by.filter(|_| !self.is_redirected);
        let mut marked = page.marked.iter().copied().peekable();
        // The batches that are not full, by their partition.
        let mut filling: BTreeMap<PartitionId, RowBatch> = BTreeMap::new();
        for (index, entry) in (0..).zip(page.rows()) {
            let is_marked = marked.next_if_eq(&index).is_some();
            let entry = self.shape.entry(table, entry, is_marked)?;
            if let EntryRow::Wanted(partition, pk) = &entry.row {
                let batch = filling.entry(*partition).or_default();
                batch.partition = *partition;
                let positions = batch.wanted.entry(pk.clone()).or_default();
                positions.push(self.entries.len());
                if batch.wanted.len() == BATCH_ROWS_MAX {
                    self.unread.push_back(core::mem::take(batch));
                    filling.remove(partition);
                }
            }
            self.entries.push(entry);
        }
        self.unread.extend(filling.into_values());
        self.next = page.next.or_else(|| self.rest.take());
        Ok(())
    }

    /// Takes the rows of a batch. Those beyond the end of the page are asked for again.
    fn take_rows(&mut self, mut batch: RowBatch, came: &ReceivedPage) -> Result<(), RowError> {
        if came.held_by.is_none() {
            self.held_by = None;
        }
        let shape = &self.shape;
        let place = |column: usize| shape.place(column);
        for (version, row) in came.page.rows() {
            let row = RowView::parse(&shape.read_columns, row)?;
            let pk = key(&row, place, &shape.primary_key);
            let Some(positions) = batch.wanted.remove(&pk) else {
                continue;
            };
            let entry_key = key(&row, place, &shape.order);
            let projected = shape.project(&row, place)?;
            for position in positions {
                let entry = &mut self.entries[position];
                let is_there = entry.key == entry_key || planted::is(Bug::EntryTrusted);
                entry.row = match is_there {
                    true => EntryRow::Found(version, projected.clone()),
                    false => EntryRow::Gone,
                };
            }
            self.bytes += projected.len();
        }
        let left = match &came.page.next {
            Some(next) => batch.wanted.split_off(&next.0),
            None => BTreeMap::new(),
        };
        for position in batch.wanted.into_values().flatten() {
            self.entries[position].row = EntryRow::Gone;
        }
        if !left.is_empty() {
            self.unread.push_front(RowBatch {
                partition: batch.partition,
                wanted: left,
            });
        }
        Ok(())
    }

    /// Reads no more rows than the first entry's. The page ends before the first entry whose row
    /// was not read. It has at least one entry, so that the read advances.
    fn cut(&mut self) {
        self.unread.clear();
        let has_first = |batch: &RowBatch| batch.wanted.values().flatten().any(|it| *it == 0);
        if let Some(EntryRow::Wanted(partition, pk)) = self.entries.first().map(|it| &it.row)
            && !self.open.values().any(has_first)
        {
            self.unread.push_back(RowBatch {
                partition: *partition,
                wanted: BTreeMap::from([(pk.clone(), Vec::from([0]))]),
            });
        }
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
            if is_full || matches!(entry.row, EntryRow::Wanted(..)) {
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
