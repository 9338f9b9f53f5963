//! Measures statements that read several partitions: an `IN` list that is read as of one moment, a
//! range of every partition compared with a scan for the same rows, and a count (Q1).

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Bound;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use client::{BinaryOperator, Expression, Table, Value};
use placement::{Durability, prefix_end};
use protocol::codec::Bytes;
use protocol::identity::PartitionId;
use protocol::message::Read;

use crate::distribution::BenchRandom;
use crate::measure::{MeasuredWorker, Series, latency_plot, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, RowShape, failed};

const TABLE: &str = "statements";
/// Keys of the list.
const LIST: usize = 8;
/// Rows of the range.
const RANGE_ROWS: u64 = 100;

/// The statement that a worker repeats.
#[derive(Clone, Copy)]
enum Statement {
    /// This number of lookups, sent together.
    Lookups(usize),
    /// One read of this number of keys, as of one moment.
    List(usize),
    /// The rows between two primary keys.
    Range,
    /// A scan of the whole table that filters the same rows.
    FilteredScan,
    /// The number of all rows.
    Count,
}

struct StatementWorker {
    table: Table,
    statement: Statement,
    /// Encoded primary keys of all rows.
    keys: Rc<Vec<Vec<u8>>>,
    random: BenchRandom,
}

/// Runs `replex bench statements`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.rows,
        field_bytes: 10,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, 1).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let keys = Rc::new(store::encoded_keys(shape, 0));
    let partitions = {
        let layout = &table.definition().layout;
        layout.partition_count(layout.primary()) as usize
    };
    let statements = [
        Statement::Lookups(LIST),
        Statement::List(LIST),
        Statement::Lookups(partitions),
        Statement::Range,
        Statement::FilteredScan,
        Statement::Count,
    ];
    let (ids, span) = (cluster.server_ids(), options.span());
    let mut series = statements.map(|_| Series::default());
    for _ in 0..options.pairs {
        for (statement, series) in statements.iter().zip(&mut series) {
            let worker = StatementWorker {
                table: table.clone(),
                statement: *statement,
                keys: keys.clone(),
                random: BenchRandom::new(1),
            };
            series.push(measure(vec![worker], span, &ids).await?);
        }
    }
    let [lookups, list, _, range, scan, _] = &series;
    let plot = latency_plot(
        "Statements over several partitions, one client",
        &[
            ("8 lookups, sent together", lookups),
            ("list of 8 keys, one moment", list),
            ("range of 100 rows", range),
            ("the same by a scan", scan),
        ],
    );
    options.draw_lines("statements", &plot)?;
    Ok(report(&series, partitions, shape.rows))
}

/// Returns the figures of all statements, in the order in which they were measured.
fn report(series: &[Series; 6], partitions: usize, rows: u64) -> FigureReport {
    let [lookups, list, seeks, range, scan, count] = series;
    let mut report = FigureReport::default();
    report.pair(
        ("Q1", "≤ 1.3 ×"),
        "list of 8 keys as of one moment, one client: p50",
        (&list.p50_us(), "µs"),
        ("8 lookups", &lookups.p50_us()),
    );
    report.work("list of 8 keys", list);
    let what = format!("range of {RANGE_ROWS} rows from {partitions} partitions");
    report.pair(
        ("", ""),
        &format!("{what}: p50"),
        (&range.p50_us(), "µs"),
        (&format!("{partitions} lookups"), &seeks.p50_us()),
    );
    report.work(&what, range);
    report.pair(
        ("", ""),
        &format!("a scan of {} rows for the same: server CPU", rows),
        (&scan.server_us(), "µs"),
        ("range", &range.server_us()),
    );
    report.plain(
        "",
        &format!("count of {} rows: p50", rows),
        &count.p50_us(),
        "µs",
    );
    report.work("count of all rows", count);
    report
}

impl StatementWorker {
    /// Returns keys of rows, each with equal chance.
    fn drawn(&mut self, count: usize) -> Vec<Vec<u8>> {
        let all = self.keys.len() as u64;
        let drawn = (0..count).map(|_| self.keys[self.random.below(all) as usize].clone());
        drawn.collect()
    }

    /// Sends `count` lookups of one key each together, and returns the number of rows that they
    /// find.
    async fn look_up(&mut self, count: usize) -> io::Result<u64> {
        let keys = self.drawn(count);
        let table = &self.table;
        let lookups = keys.iter().map(|key| Box::pin(table.get_raw(0, key, 2)));
        let pages = all(lookups.collect()).await;
        pages.into_iter().try_fold(0, |sum, page| {
            let page = page.map_err(failed)?;
            Ok(sum + page.count)
        })
    }

    /// Sends one read of `count` keys, and returns the number of rows that it finds.
    async fn read_list(&mut self, count: usize) -> io::Result<u64> {
        let keys = self.drawn(count);
        let epoch = self.table.client().configuration().epoch;
        let read = |key: Vec<u8>| {
            let partition = PartitionId {
                table: self.table.id(),
                replex: 0,
                number: store::partition_of(&self.table, 0, &key),
            };
            Read {
                end: prefix_end(&key).map(Bytes),
                start: Bytes(key),
                limit: 2,
                ..Read::of(epoch, partition)
            }
        };
        let reads = keys.into_iter().map(read).collect();
        let pages = self.table.read_moment(reads, None).await.map_err(failed)?;
        let pages = pages.ok_or_else(|| io::Error::other("nothing changes, yet no moment"))?;
        Ok(pages.ranges.iter().flatten().map(|page| page.count).sum())
    }

    /// Returns the first and the last key of a range.
    fn ends(&mut self) -> [Value; 2] {
        let last = (self.keys.len() as u64).saturating_sub(RANGE_ROWS);
        let first = self.random.below(last + 1);
        [first, first + RANGE_ROWS - 1].map(|number| Value::Text(store::key(number)))
    }
}

impl MeasuredWorker for StatementWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let all_rows = self.keys.len() as u64;
        let (found, expected) = match self.statement {
            Statement::Lookups(count) => (self.look_up(count).await?, count as u64),
            Statement::List(count) => (self.read_list(count).await?, count as u64),
            Statement::Range => {
                let [from, to] = self.ends().map(|key| [key]);
                let range =
                    self.table
                        .range("statements", Bound::Included(&from), Bound::Included(&to));
                let rows = range.map_err(failed)?.await.map_err(failed)?;
                (rows.len() as u64, RANGE_ROWS.min(all_rows))
            }
            Statement::FilteredScan => {
                let [from, to] = self.ends();
                let bound = |operator, value| {
                    let (column, value) = (Expression::Column(0), Expression::Literal(value));
                    Expression::Binary(operator, Box::new(column), Box::new(value))
                };
                let filter = Expression::all(vec![
                    bound(BinaryOperator::GreaterEqual, from),
                    bound(BinaryOperator::LessEqual, to),
                ]);
                let scan = self.table.scan().filter(filter.expect("there are two"));
                let rows = scan.rows().map_err(failed)?.all().await.map_err(failed)?;
                (rows.len() as u64, RANGE_ROWS.min(all_rows))
            }
            Statement::Count => (self.table.scan().count().await.map_err(failed)?, all_rows),
        };
        match found == expected {
            true => Ok(1),
            false => Err(io::Error::other(format!(
                "{found} rows were found where there are {expected}"
            ))),
        }
    }
}

/// Waits for all of these futures concurrently, and returns their results.
async fn all<F: Future + Unpin>(mut futures: Vec<F>) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_over = true;
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none() {
                match Pin::new(future).poll(context) {
                    Poll::Ready(ready) => *output = Some(ready),
                    Poll::Pending => is_over = false,
                }
            }
        }
        match is_over {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    outputs.into_iter().flatten().collect()
}
