//! Runs a read. The client fetches and combines the pages of partitions. Then this module does the
//! rest of the order, the limits and the computed columns that partitions could not do.

use std::cmp::Ordering;
use std::future::Future;
use std::ops::ControlFlow;
use std::sync::Mutex;

use futures_util::stream::{self, FuturesUnordered, StreamExt, TryStreamExt};
use placement::{RowView, Value};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{Expression, evaluate};
use protocol::identity::PartitionId;
use protocol::message::{Consistency, Read};
use session::gather::{Gather, GatherPlan, GatherStep, RowOrder};

use super::order::order_of_keys;
use super::size::SizeBound;
use super::{Attempt, LOOKUPS_AT_A_TIME, OutputColumn, ResultRows};
use crate::error::{SqlError, sqlstate};
use crate::plan::{OutputItem, ReadPlan, Segment, SelectPlan, SessionSettings, SortKey};
use crate::store::{SnapshotAnswer, Store, StoreError};

/// The most rows of a result that the client keeps in memory.
pub const ROWS_HELD_MAX: usize = 1_000_000;
/// Rows beyond the limit that are held before sorting drops them.
const SORT_SLACK: usize = 4096;

/// Whether a reader needs more rows.
pub(crate) type Flow = ControlFlow<()>;

/// The context of reads: store, configuration and settings.
#[derive(Debug)]
pub(crate) struct ReadContext<'a, S> {
    /// The store.
    pub store: &'a S,
    /// The configuration with which the reads were planned.
    pub configuration: &'a Configuration,
    /// The settings of the session.
    pub settings: SessionSettings,
    /// Notices for the user.
    pub notices: &'a Mutex<Vec<String>>,
    /// Whether a read that does not show one state is an error. Otherwise it causes a notice.
    pub needs_one_state: bool,
}

/// How the rows of a statement are read so that they show one state.
pub(crate) enum StatementRead<S> {
    /// The rows are few, and have been read as of one moment.
    Moment(Vec<Gather>),
    /// The rows are read page by page, from a snapshot if there is one.
    Pages(Vec<GatherPlan>, Option<S>),
}

impl<S: Store> ReadContext<'_, S> {
    /// Returns the rows of a `SELECT`.
    pub async fn select(&self, plan: SelectPlan) -> Result<ResultRows, Attempt> {
        let columns = plan.items.iter().map(|item| OutputColumn {
            name: item.name.clone(),
            column_type: item.column_type,
        });
        let columns = columns.collect();
        let limit = plan.limit.unwrap_or(u64::MAX);
        if limit == 0 {
            return Ok(ResultRows {
                columns,
                rows: Vec::new(),
            });
        }
        let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
        let take = usize::try_from(limit).unwrap_or(usize::MAX);
        let found = match &plan.read {
            None => vec![Vec::new()],
            Some(read) => self.rows(read, &plan).await?,
        };
        let mut rows = Vec::new();
        for row in found.into_iter().skip(skip).take(take) {
            rows.push(output(&plan.items, &row)?);
        }
        Ok(ResultRows { columns, rows })
    }

    /// Returns the bound on the size of a read; none if the read has no bound. Refuses the read if
    /// the table is too large now.
    pub(super) async fn bound(&self, read: &ReadPlan) -> Result<Option<SizeBound<'_, S>>, Attempt> {
        let Some(scan) = read.unasked else {
            return Ok(None);
        };
        let (table, epoch) = (self.table(read), self.configuration.epoch);
        let bound = SizeBound::new(self.store, table, epoch, scan);
        bound.check().await?;
        Ok(Some(bound))
    }

    /// Begins all reads of a statement so that they show one state (R35): as of one moment if there
    /// are few rows, otherwise from a snapshot. Streamed rows need not show one state. Nor do rows
    /// of a table that has lost a server: then there is a notice.
    pub(crate) async fn begin(
        &self,
        table: &PlacedTable,
        mut plans: Vec<GatherPlan>,
    ) -> Result<StatementRead<S::Snapshot>, Attempt> {
        if self.settings.stale_reads {
            return Ok(StatementRead::Pages(plans, None));
        }
        if let Some(moment) = self.moment(table, &plans).await? {
            return Ok(StatementRead::Moment(moment));
        }
        match self.store.snapshot(vec![table.id]).await? {
            SnapshotAnswer::Open(snapshot, id) => {
                for plan in &mut plans {
                    plan.snapshot = Some(id);
                }
                Ok(StatementRead::Pages(plans, Some(snapshot)))
            }
            SnapshotAnswer::Impossible(why) if self.needs_one_state => {
                let name = &table.schema.name;
                let text = format!(
                    "table {name} cannot be read as one state: {why}; with --without-snapshot it is \
                     exported all the same"
                );
                Err(SqlError::statement(text).into())
            }
            SnapshotAnswer::Impossible(why) => {
                let notices = self.notices.lock();
                let mut notices = notices.expect("nothing panics while it is held");
                notices.push(format!(
                    "the rows read of table {} are not of one state, because {why}; a row that moved \
                     meanwhile can be missing or be read twice",
                    table.schema.name
                ));
                Ok(StatementRead::Pages(plans, None))
            }
        }
    }

    /// Returns all that a statement reads, as of one moment; none if it is too much for that.
    async fn moment(
        &self,
        table: &PlacedTable,
        plans: &[GatherPlan],
    ) -> Result<Option<Vec<Gather>>, Attempt> {
        let gathers = plans.iter().cloned();
        let mut gathers: Vec<Gather> = gathers.map(|plan| Gather::new(table, plan)).collect();
        let reads: Vec<_> = gathers.iter().map(Gather::moment_reads).collect();
        let counts: Vec<usize> = reads.iter().map(Vec::len).collect();
        let Some(pages) = self.store.moment(reads.concat()).await? else {
            return Ok(None);
        };
        let mut ranges = pages.ranges.into_iter();
        for (gather, count) in gathers.iter_mut().zip(counts) {
            let accepted = gather.accept_moment(ranges.by_ref().take(count).collect());
            accepted.map_err(|error| malformed(table, &error.to_string()))?;
        }
        Ok(Some(gathers))
    }

    /// Returns the rows of a `SELECT` in its order, at least as many as its limit wants.
    async fn rows(&self, read: &ReadPlan, plan: &SelectPlan) -> Result<Vec<Vec<Value>>, Attempt> {
        let table = self.table(read);
        let bound = self.bound(read).await?;
        let wanted = plan.limit.map(|limit| limit.saturating_add(plan.offset));
        let in_order = plan.ordered_by_index || plan.order.is_empty();
        let pushed_limit = wanted.filter(|_| in_order);
        let plans = self.gather_plans(read, table, pushed_limit, false);
        let sorted_already = plan.order.is_empty() || (plan.ordered_by_index && plans.len() == 1);
        let keep = wanted.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        let mut held = HeldRows {
            rows: Vec::new(),
            order: if sorted_already { &[] } else { &plan.order },
            keep,
        };
        let (plans, _snapshot) = match self.begin(table, plans).await? {
            StatementRead::Moment(moment) => {
                for mut gather in moment {
                    if give_out(table, &mut gather, |row| held.push(row))? == RowsGiven::Enough {
                        break;
                    }
                }
                (Vec::new(), None)
            }
            StatementRead::Pages(plans, snapshot) => (plans, snapshot),
        };
        if let [_] = plans[..] {
            gather(self.store, table, only(plans), bound, |row| held.push(row)).await?;
        } else {
            let lookups = plans.into_iter().map(|plan| async {
                let mut rows = Vec::new();
                gather(self.store, table, plan, None, |row| {
                    rows.push(row);
                    Ok(Flow::Continue(()))
                })
                .await?;
                Ok::<_, Attempt>(rows)
            });
            let mut lookups = stream::iter(lookups).buffered(LOOKUPS_AT_A_TIME);
            'lookups: while let Some(rows) = lookups.try_next().await? {
                for row in rows {
                    if held.push(row)?.is_break() {
                        break 'lookups;
                    }
                }
            }
        }
        held.sort()?;
        Ok(held.rows)
    }

    /// Returns all rows of a read, to be changed. They are primary keys, which are small.
    pub async fn all(&self, read: &ReadPlan, max: usize) -> Result<Vec<Vec<Value>>, Attempt> {
        let table = self.table(read);
        let bound = self.bound(read).await?;
        let mut rows = Vec::new();
        let mut keep =
            |row| {
                if rows.len() == max {
                    return Err(SqlError::with_state(sqlstate::LIMIT, format!(
                    "the WHERE finds more than {max} rows of table {}: change fewer at a time",
                    table.schema.name
                ))
                .into());
                }
                rows.push(row);
                Ok(Flow::Continue(()))
            };
        let plans = self.gather_plans(read, table, None, false);
        self.each(table, plans, bound, &mut keep).await?;
        Ok(rows)
    }

    /// Passes all rows of these plans to a reader, one plan after the other. Returns the number of
    /// rows.
    pub async fn each(
        &self,
        table: &PlacedTable,
        plans: Vec<GatherPlan>,
        bound: Option<SizeBound<'_, S>>,
        mut each: impl FnMut(Vec<Value>) -> Result<Flow, Attempt>,
    ) -> Result<u64, Attempt> {
        let mut rows = 0;
        let (plans, _snapshot) = match self.begin(table, plans).await? {
            StatementRead::Moment(moment) => {
                for mut gather in moment {
                    give_out(table, &mut gather, &mut each)?;
                    rows += gather.count();
                }
                return Ok(rows);
            }
            StatementRead::Pages(plans, snapshot) => (plans, snapshot),
        };
        if bound.is_some() {
            return gather(self.store, table, only(plans), bound, each).await;
        }
        for plan in plans {
            rows += gather(self.store, table, plan, None, &mut each).await?;
        }
        Ok(rows)
    }

    /// Returns the table of a read.
    pub fn table(&self, read: &ReadPlan) -> &PlacedTable {
        let table = self.configuration.table(read.table);
        table.expect("the plan was made over this configuration")
    }

    /// Returns the reads of a plan, one per range. The partitions of a range are merged in its
    /// order.
    pub fn gather_plans(
        &self,
        read: &ReadPlan,
        table: &PlacedTable,
        limit: Option<u64>,
        count_only: bool,
    ) -> Vec<GatherPlan> {
        let partition = |number: u32| PartitionId {
            table: table.id,
            replex: u8::try_from(read.access.replex).expect("a table has few replexes"),
            number,
        };
        let order = if read.descending {
            RowOrder::Descending
        } else {
            RowOrder::Ascending
        };
        let together = |segments: &[Segment]| GatherPlan {
            partitions: segments.iter().map(|it| partition(it.partition)).collect(),
            start: Bytes(segments[0].start.clone()),
            end: segments[0].end.clone().map(Bytes),
            filter: read.filter.clone(),
            projection: read.projection.clone(),
            limit,
            order,
            count_only,
            epoch: self.configuration.epoch,
            consistency: if self.settings.stale_reads {
                Consistency::Stale
            } else {
                Consistency::Linearizable
            },
            snapshot: None,
        };
        let is_same =
            |one: &Segment, next: &Segment| one.start == next.start && one.end == next.end;
        let plans = read.access.segments.chunk_by(is_same).map(together);
        // Rows of a dense index go from the last, also over several groups of it.
        if read.descending {
            plans.rev().collect()
        } else {
            plans.collect()
        }
    }
}

/// Returns the only plan of a read that no index serves: all partitions are asked for the same.
pub(super) fn only(plans: Vec<GatherPlan>) -> GatherPlan {
    let [plan] = <[GatherPlan; 1]>::try_from(plans).expect("one range of every partition is read");
    plan
}

/// Takes the rows of a read.
pub(crate) trait RowReader {
    /// Takes a row. Returns whether more are needed.
    fn row(&mut self, row: Vec<Value>) -> Result<Flow, Attempt>;

    /// Waits between two pages until more rows can be taken.
    fn ready(&mut self) -> impl Future<Output = Result<(), Attempt>> + Send {
        std::future::ready(Ok(()))
    }
}

/// A reader that is a function, and can always take more rows.
struct FunctionReader<F>(F);

impl<F: FnMut(Vec<Value>) -> Result<Flow, Attempt>> RowReader for FunctionReader<F> {
    fn row(&mut self, row: Vec<Value>) -> Result<Flow, Attempt> {
        (self.0)(row)
    }
}

/// Runs one read: requests pages and passes the rows to a function. Returns the number of rows.
/// Fails if the table grows beyond its limit.
pub(crate) async fn gather<S: Store>(
    store: &S,
    table: &PlacedTable,
    plan: GatherPlan,
    bound: Option<SizeBound<'_, S>>,
    each: impl FnMut(Vec<Value>) -> Result<Flow, Attempt>,
) -> Result<u64, Attempt> {
    gather_into(store, table, plan, bound, &mut FunctionReader(each)).await
}

/// Runs one read as [`gather`] does, for a reader that may have to wait.
pub(crate) async fn gather_into<S: Store>(
    store: &S,
    table: &PlacedTable,
    plan: GatherPlan,
    mut bound: Option<SizeBound<'_, S>>,
    reader: &mut impl RowReader,
) -> Result<u64, Attempt> {
    let mut gather = Gather::new(table, plan);
    let mut pages = FuturesUnordered::new();
    let page = async |source, read| store.page(read).await.map(|page| (source, page));
    loop {
        ask(&mut gather, &pages, page);
        if give_out(table, &mut gather, |row| reader.row(row))? != RowsGiven::AllThatCame {
            return Ok(gather.count());
        }
        reader.ready().await?;
        // Of the pages that were kept none may be left now, and none be under way.
        ask(&mut gather, &pages, page);
        let (source, page) = pages
            .try_next()
            .await?
            .expect("the helper waits only for pages that were asked for");
        if let Some(bound) = &mut bound {
            bound.on_page(&page).await?;
        }
        let accepted = gather.accept(source, page);
        accepted.map_err(|error| malformed(table, &error.to_string()))?;
    }
}

/// Asks for all pages that there is room for.
fn ask<F>(gather: &mut Gather, pages: &FuturesUnordered<F>, page: impl Fn(usize, Read) -> F) {
    while let Some((source, read)) = gather.next_read() {
        pages.push(page(source, read));
    }
}

/// How far rows were given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsGiven {
    /// All rows.
    All,
    /// All rows that have arrived; more follow.
    AllThatCame,
    /// As many rows as the reader needs.
    Enough,
}

/// Gives out the rows that have come.
pub(super) fn give_out(
    table: &PlacedTable,
    gather: &mut Gather,
    mut each: impl FnMut(Vec<Value>) -> Result<Flow, Attempt>,
) -> Result<RowsGiven, Attempt> {
    let columns = gather.columns().to_vec();
    let visible = gather.visible_columns();
    loop {
        let row = match gather.step() {
            GatherStep::Row(_, row) => row,
            GatherStep::Wait => return Ok(RowsGiven::AllThatCame),
            GatherStep::End => return Ok(RowsGiven::All),
        };
        let view = RowView::parse(&columns, row);
        let view = view.map_err(|error| malformed(table, &error.to_string()))?;
        let values = (0..visible).map(|column| view.column(column).to_owned());
        if each(values.collect())?.is_break() {
            return Ok(RowsGiven::Enough);
        }
    }
}

fn malformed(table: &PlacedTable, what: &str) -> StoreError {
    StoreError::plain(format!(
        "table {}: {what}: the server is of another release or damaged",
        table.schema.name
    ))
}

/// Returns the output of a row that was read, or of a group's row.
pub(super) fn output(items: &[OutputItem], row: &Vec<Value>) -> Result<Vec<Value>, SqlError> {
    let items = items.iter();
    let values = items.map(|item| value_of(&item.expression, row, &item.name));
    values.collect()
}

/// Returns the value of an expression over a row. `name` stands for it in errors.
pub(super) fn value_of(
    expression: &Expression,
    row: &Vec<Value>,
    name: &str,
) -> Result<Value, SqlError> {
    match expression {
        Expression::Column(column) => Ok(row[usize::from(*column)].clone()),
        expression => evaluate(expression, row, None).map_err(|error| SqlError::Expression {
            text: name.to_string(),
            error,
        }),
    }
}

/// Rows of a result while they come.
pub(super) struct HeldRows<'p> {
    pub rows: Vec<Vec<Value>>,
    /// Empty if they come in their order.
    pub order: &'p [SortKey],
    /// How many are wanted.
    pub keep: usize,
}

impl HeldRows<'_> {
    pub fn push(&mut self, row: Vec<Value>) -> Result<Flow, Attempt> {
        if self.order.is_empty() && self.rows.len() >= self.keep {
            return Ok(Flow::Break(()));
        }
        if self.rows.len() >= self.keep.saturating_add(SORT_SLACK) {
            self.sort()?;
            self.rows.truncate(self.keep);
        }
        if self.rows.len() >= ROWS_HELD_MAX {
            return Err(SqlError::with_state(
                sqlstate::LIMIT,
                format!(
                    "the result has more than {ROWS_HELD_MAX} rows: add LIMIT, or use replex export"
                ),
            )
            .into());
        }
        self.rows.push(row);
        Ok(Flow::Continue(()))
    }

    /// Sorts by the order; rows that are equal in it stay as they came.
    pub fn sort(&mut self) -> Result<(), Attempt> {
        if self.order.is_empty() {
            return Ok(());
        }
        let order = self.order;
        let mut keyed = Vec::with_capacity(self.rows.len());
        for row in self.rows.drain(..) {
            let values = order
                .iter()
                .map(|key| value_of(&key.expression, &row, "ORDER BY"));
            let values = values.collect::<Result<_, _>>()?;
            keyed.push((SortedValues { values, order }, row));
        }
        keyed.sort_by(|(left, _), (right, _)| left.cmp(right));
        self.rows.extend(keyed.into_iter().map(|(_, row)| row));
        Ok(())
    }
}

/// Values that compare as `ORDER BY` specifies.
struct SortedValues<'p> {
    values: Vec<Value>,
    order: &'p [SortKey],
}

impl Ord for SortedValues<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        order_of_keys(self.order, &self.values, &other.values)
    }
}

impl PartialOrd for SortedValues<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for SortedValues<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for SortedValues<'_> {}
