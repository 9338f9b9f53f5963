//! Combines single pages into reads of many pages and many partitions.
//!
//! The code is pure: it returns the pages to request, accepts them in any order, and returns rows,
//! merged by key if an order is needed. Memory is bounded: it keeps at most two pages per
//! partition, and requests no page whose rows exceed the limit.
//!
//! There are three kinds of reads. A small result is read as of one moment (R35): a *moment* of all
//! partitions ([`Gather::moment_reads`]). The caller passes all of its pages at once. A larger
//! result is read page by page from a *snapshot* ([`Gather::read_at`]). Without a snapshot, the
//! pages need not have one epoch or show one moment (R12). Every row that does not change during
//! the read is returned exactly once, because a row has one key in the order of a replex. A row
//! that moves in the order of an index replex during the read may be missed or returned twice. Rows
//! do not move in the primary replex.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use placement::{Column, RowError, RowView, SortColumn};
use protocol::codec::{Bytes, Reader, Wire};
use protocol::configuration::PlacedTable;
use protocol::configuration::routes::order;
use protocol::expression::Expression;
use protocol::identity::{Epoch, PartitionId, SnapshotId, Version};
use protocol::message::{Consistency, Read, RowPage};

/// The most rows of a page. Pages are limited by bytes, too.
pub const PAGE_ROWS_MAX: u32 = 4_096;
/// The number of partitions that are read at a time if the read needs no order.
pub const PARTITIONS_AT_A_TIME: usize = 4;
/// Pages of a partition that are kept while more are requested.
const PAGES_KEPT: usize = 1;

/// The order in which a read returns rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// The order of their arrival.
    Any,
    /// The sort order of the replex.
    Ascending,
    /// The reverse sort order of the replex.
    Descending,
}

/// The plan of a read.
#[derive(Clone, Debug, PartialEq)]
pub struct GatherPlan {
    /// The partitions to read, all of one replex of one table.
    pub partitions: Vec<PartitionId>,
    /// The first key, memcomparable.
    pub start: Bytes,
    /// The first key after the range; none reads to the end.
    pub end: Option<Bytes>,
    /// Only rows that fulfil this condition are read.
    pub filter: Option<Expression>,
    /// The columns to return, by position; none returns all.
    pub projection: Option<Vec<u16>>,
    /// The most rows to return; none returns all.
    pub limit: Option<u64>,
    /// The order of the rows.
    pub order: RowOrder,
    /// Whether to return only the number of rows.
    pub count_only: bool,
    /// The epoch of the configuration from which the copies were chosen.
    pub epoch: Epoch,
    /// How fresh each page must be.
    pub consistency: Consistency,
    /// The snapshot to read from; none reads the present rows.
    pub snapshot: Option<SnapshotId>,
}

/// A read in progress.
#[derive(Debug)]
pub struct Gather {
    plan: GatherPlan,
    /// The projection that is requested: the plan's, and columns to merge by.
    projection: Option<Vec<u16>>,
    /// Columns of the rows that come.
    columns: Vec<Column>,
    /// How many of them the plan asks for.
    visible: usize,
    /// The columns to merge by, by their places in the rows; empty where nothing is merged.
    merge_by: Vec<SortColumn>,
    sources: Vec<Source>,
    /// Rows given out, or counted.
    given: u64,
    /// The source of the row that was given out last and is still lent.
    lent: Option<usize>,
}

/// One partition's part of a read.
#[derive(Debug)]
struct Source {
    partition: PartitionId,
    start: Bytes,
    end: Option<Bytes>,
    /// Whether a page was requested and has not arrived.
    asked: bool,
    /// Whether the last page has arrived.
    ended: bool,
    pages: VecDeque<Page>,
    /// The number of rows in `pages`.
    buffered: u64,
    /// The key of the first row in `pages`, if rows are merged.
    key: Vec<u8>,
}

#[derive(Debug)]
struct Page {
    bytes: Vec<u8>,
    /// The offset in `bytes` at which the next row starts.
    at: usize,
}

/// The next result of a read.
#[derive(Debug, PartialEq, Eq)]
pub enum GatherStep<'a> {
    /// A row, encoded by `placement::row` with the columns of [`Gather::columns`].
    Row(Version, &'a [u8]),
    /// There is no row until another page arrives.
    Wait,
    /// The read has returned all rows.
    End,
}

impl Source {
    /// Returns whether a page that continues at `next` leaves less of the range to read, so that
    /// the read ends whatever servers send.
    fn advances(&self, next: &Bytes, descending: bool) -> bool {
        let is_within = *next >= self.start && self.end.as_ref().is_none_or(|end| next < end);
        is_within && (descending || *next != self.start)
    }
}

/// A page that no server of this release sends. Repeating the request does not help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatherError {
    /// The page has fewer rows than it declares, or a row is cut off.
    Page,
    /// The next page would begin outside the range, or where this one began.
    Next,
    /// A row is malformed.
    Row(RowError),
}

impl core::fmt::Display for GatherError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            GatherError::Page => write!(f, "a page of rows is malformed"),
            GatherError::Next => write!(f, "a page of rows does not lead to the next one"),
            GatherError::Row(error) => write!(f, "a row of a page is malformed: {error}"),
        }
    }
}

impl core::error::Error for GatherError {}

impl Gather {
    /// Begins a read. The plan's partitions and columns are those of this table.
    ///
    /// # Panics
    /// If the plan names a column or a replex that the table does not have.
    pub fn new(table: &PlacedTable, plan: GatherPlan) -> Gather {
        let all = &table.schema.columns;
        let mut projection = plan.projection.clone();
        let mut merge_by = Vec::new();
        let merged = plan.order != RowOrder::Any && plan.partitions.len() > 1 && !plan.count_only;
        let visible = projection.as_ref().map_or(all.len(), Vec::len);
        if merged {
            for sorted in order(table, plan.partitions[0].replex) {
                let column = sorted.column;
                let place = match &mut projection {
                    None => column,
                    Some(projection) => {
                        let column = u16::try_from(column).expect("a table has few columns");
                        let known = projection.iter().position(|it| *it == column);
                        known.unwrap_or_else(|| {
                            projection.push(column);
                            projection.len() - 1
                        })
                    }
                };
                merge_by.push(SortColumn {
                    column: place,
                    ..sorted
                });
            }
        }
        let columns = match &projection {
            None => all.clone(),
            Some(projection) => projection
                .iter()
                .map(|column| all[usize::from(*column)].clone())
                .collect(),
        };
        let source = |partition: &PartitionId| Source {
            partition: *partition,
            start: plan.start.clone(),
            end: plan.end.clone(),
            asked: false,
            ended: false,
            pages: VecDeque::new(),
            buffered: 0,
            key: Vec::new(),
        };
        Gather {
            sources: plan.partitions.iter().map(source).collect(),
            plan,
            projection,
            columns,
            visible,
            merge_by,
            given: 0,
            lent: None,
        }
    }

    /// Returns the columns of the rows: the plan's columns, and others after them if the order
    /// needs them.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns how many of [`Gather::columns`] the plan requests.
    pub fn visible_columns(&self) -> usize {
        self.visible
    }

    /// Returns how many rows the read has returned or counted so far.
    pub fn count(&self) -> u64 {
        self.given
    }

    /// Returns the next page to request now, with the number to pass to [`Gather::accept`]. Returns
    /// none while the read has enough pages, or waits for some.
    pub fn next_read(&mut self) -> Option<(usize, Read)> {
        self.advance();
        let wanted = self.wanted();
        if wanted == 0 {
            return None;
        }
        let merged = !self.merge_by.is_empty();
        let buffered: u64 = self.sources.iter().map(|source| source.buffered).sum();
        if !merged && buffered >= wanted {
            return None;
        }
        let at_a_time = if merged {
            self.sources.len()
        } else {
            PARTITIONS_AT_A_TIME
        };
        let mut open = self
            .sources
            .iter_mut()
            .enumerate()
            .filter(|(_, source)| !source.ended)
            .take(at_a_time);
        let (index, source) = open.find(|(_, source)| {
            !source.asked && source.pages.len() <= PAGES_KEPT && source.buffered < wanted
        })?;
        source.asked = true;
        let most = u64::from(if self.plan.count_only {
            u32::MAX
        } else {
            PAGE_ROWS_MAX
        });
        let limit = (wanted - source.buffered).min(most);
        let limit = u32::try_from(limit).expect("it is at most `most`");
        Some((index, self.read(index, limit)))
    }

    /// Returns the unread rest of a partition.
    fn read(&self, index: usize, limit: u32) -> Read {
        let source = &self.sources[index];
        Read {
            start: source.start.clone(),
            end: source.end.clone(),
            filter: self.plan.filter.clone(),
            projection: self.projection.clone(),
            limit,
            descending: self.plan.order == RowOrder::Descending,
            count_only: self.plan.count_only,
            consistency: self.plan.consistency,
            snapshot: self.plan.snapshot,
            ..Read::of(self.plan.epoch, source.partition)
        }
    }

    /// Sets the snapshot of a read that has not begun.
    ///
    /// # Panics
    /// If pages were requested before.
    pub fn read_at(&mut self, snapshot: SnapshotId) {
        self.assert_untouched();
        self.plan.snapshot = Some(snapshot);
    }

    fn assert_untouched(&self) {
        let untouched = |source: &Source| !source.asked && !source.ended && source.pages.is_empty();
        assert!(
            self.sources.iter().all(untouched),
            "all pages of a read are of one state"
        );
    }

    /// Returns one read per partition for a `Moment`. Pass its pages to [`Gather::accept_moment`].
    /// If the `Moment` fails, continue page by page with [`Gather::next_read`].
    ///
    /// # Panics
    /// If pages were requested before.
    pub fn moment_reads(&self) -> Vec<Read> {
        self.assert_untouched();
        let limit = u32::try_from(self.wanted()).unwrap_or(u32::MAX);
        (0..self.sources.len())
            .map(|index| self.read(index, limit))
            .collect()
    }

    /// Accepts the pages of all ranges of [`Gather::moment_reads`], in their order.
    ///
    /// # Errors
    /// A page is malformed.
    pub fn accept_moment(&mut self, ranges: Vec<Vec<RowPage>>) -> Result<(), GatherError> {
        if ranges.len() != self.sources.len() {
            return Err(GatherError::Page);
        }
        for (index, pages) in ranges.into_iter().enumerate() {
            for page in pages {
                self.sources[index].asked = true;
                self.accept(index, page)?;
            }
            self.sources[index].ended = true;
        }
        Ok(())
    }

    /// Accepts a page that [`Gather::next_read`] requested.
    pub fn accept(&mut self, index: usize, page: RowPage) -> Result<(), GatherError> {
        if !self.plan.count_only {
            check_page(&page, (!self.merge_by.is_empty()).then_some(&self.columns))?;
        }
        let wanted = self.wanted();
        let source = &mut self.sources[index];
        assert!(source.asked, "a page is taken once");
        source.asked = false;
        let descending = self.plan.order == RowOrder::Descending;
        match page.next {
            None => source.ended = true,
            Some(next) if !source.advances(&next, descending) => return Err(GatherError::Next),
            Some(next) if descending => source.end = Some(next),
            Some(next) => source.start = next,
        }
        if self.plan.count_only {
            self.given += page.count.min(wanted);
        } else if page.count > 0 {
            source.buffered += page.count;
            source.pages.push_back(Page {
                bytes: page.rows.0,
                at: 0,
            });
            if source.pages.len() == 1 {
                self.find_key(index);
            }
        }
        Ok(())
    }

    /// Returns the next row, or reports that the read must wait for a page or has ended.
    pub fn step(&mut self) -> GatherStep<'_> {
        self.advance();
        if self.wanted() == 0 {
            return GatherStep::End;
        }
        let unknown = |source: &Source| source.pages.is_empty() && !source.ended;
        let waits = self.sources.iter().any(unknown);
        let merged = !self.merge_by.is_empty();
        if merged && waits {
            return GatherStep::Wait;
        }
        let with_rows = self.sources.iter().enumerate();
        let mut with_rows = with_rows.filter(|(_, source)| !source.pages.is_empty());
        let next = match self.plan.order {
            _ if !merged => with_rows.next(),
            RowOrder::Descending => with_rows.max_by(|one, other| one.1.key.cmp(&other.1.key)),
            _ => with_rows.min_by(|one, other| one.1.key.cmp(&other.1.key)),
        };
        let Some((index, _)) = next else {
            return if waits {
                GatherStep::Wait
            } else {
                GatherStep::End
            };
        };
        self.lent = Some(index);
        self.given += 1;
        let source = &mut self.sources[index];
        source.buffered -= 1;
        let (version, row) = source.pages[0].row();
        GatherStep::Row(version, row)
    }

    /// Returns the number of rows that the read may still return.
    fn wanted(&self) -> u64 {
        self.plan
            .limit
            .map_or(u64::MAX, |limit| limit.saturating_sub(self.given))
    }

    /// Goes to the row after the last returned one, which was borrowed from its page until now.
    fn advance(&mut self) {
        let Some(index) = self.lent.take() else {
            return;
        };
        let source = &mut self.sources[index];
        let page = source.pages.front_mut().expect("the row came from it");
        page.at += ROW_HEADER_BYTES + page.row().1.len();
        if page.at == page.bytes.len() {
            source.pages.pop_front();
        }
        self.find_key(index);
    }

    fn find_key(&mut self, index: usize) {
        let source = &mut self.sources[index];
        if self.merge_by.is_empty() {
            return;
        }
        source.key.clear();
        if let Some(page) = source.pages.front() {
            let row = RowView::parse(&self.columns, page.row().1)
                .expect("the page was checked when it came");
            for column in &self.merge_by {
                column.encode(&mut source.key, row.column(column.column));
            }
        }
    }
}

/// The number of bytes before each row: its version and its length, see [`RowPage`].
const ROW_HEADER_BYTES: usize = 12;

impl Page {
    /// Returns the page's next row, with its version.
    fn row(&self) -> (Version, &[u8]) {
        let mut reader = Reader::new(&self.bytes[self.at..]);
        let checked = "the page was checked when it came";
        let version = Version::decode(&mut reader).expect(checked);
        (version, reader.bytes().expect(checked))
    }
}

/// Checks a page wholly, and its rows where they will be read.
fn check_page(page: &RowPage, columns: Option<&[Column]>) -> Result<(), GatherError> {
    let mut count = 0;
    let mut bytes = 0;
    for (_, row) in page.rows() {
        count += 1;
        bytes += ROW_HEADER_BYTES + row.len();
        if let Some(columns) = columns {
            RowView::parse(columns, row).map_err(GatherError::Row)?;
        }
    }
    if count != page.count || bytes != page.rows.len() {
        return Err(GatherError::Page);
    }
    Ok(())
}
