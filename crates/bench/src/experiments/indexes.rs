//! Thin indexes compared with copies: lookups of one row, ranges of 100 rows, overwrites that
//! change entries (O1 to O4). Copies and thin indexes are read by the same calls of the client. O5
//! is in `index_ranges`.

use std::cell::Cell;
use std::io;
use std::ops::Bound;
use std::rc::Rc;
use std::time::Duration;

use client::{Client, IfExists, SchemaBuilder, Table, Value};
use placement::{ColumnType, Durability, Index, ThinIndex, ascending, encode_key};
use protocol::expression::{Assignment, Expression};

use super::index_ranges;
use crate::distribution::BenchRandom;
use crate::measure::{MeasuredWorker, Series, run as measure};
use crate::options::MeasureOptions;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, applied, failed};

const TABLE: &str = "entries";
/// Rows of a range, and of a group.
const RANGE_ROWS: u64 = 100;
/// Writes in flight while a table is filled.
const LOAD_WINDOW: usize = 64;
/// Columns of the overwritten tables beside the primary key.
const WRITTEN: u16 = 8;
/// Rows of the overwritten tables.
const OVERWRITTEN_ROWS: u64 = 1_000;
/// The numbers of thin indexes on an overwritten table.
const INDEX_COUNTS: [u16; 3] = [0, 1, 8];

/// The read that a worker repeats.
#[derive(Clone, Copy)]
enum IndexedRead {
    /// One row by a copy that is sorted by the column, as bytes, which S1 measures.
    BytesByCopy,
    /// One row by a copy that is sorted by the column.
    LookupByCopy,
    /// One row by a thin index, which needs the row.
    LookupByEntry,
    /// One row by a thin index that includes all wanted columns.
    LookupIncluded,
    /// A range of rows from one partition of a copy.
    RangeOfCopy,
    /// A range of rows by a thin index.
    RangeByEntries,
    /// A range of rows by a copy that ranges divide.
    RangeByRanges,
}

struct ReadWorker {
    table: Table,
    read: IndexedRead,
    rows: u64,
    random: BenchRandom,
}

/// Sets all columns beside the primary key of rows, so that every entry changes.
struct OverwriteWorker {
    table: Table,
    random: BenchRandom,
}

/// Inserts rows by rising number. Several workers share the numbers.
struct LoadWorker {
    table: Table,
    next: Rc<Cell<u64>>,
    end: u64,
}

/// Runs `replex bench indexes`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, 1).await?;
    store::wait_until_up(&clients[0]).await?;
    let mut report = FigureReport::default();
    let table = read_table(&clients[0]).await?;
    // Whole groups.
    let rows = options.rows.max(RANGE_ROWS) / RANGE_ROWS * RANGE_ROWS;
    load(&table, rows).await?;
    make_thin(&clients[0]).await?;
    make_ranged(&clients[0]).await?;
    let table = clients[0].table(TABLE).await.map_err(failed)?;
    reads(options, &cluster, (&table, rows), &mut report).await?;
    overwrites(options, &cluster, &clients[0], &mut report).await?;
    drop(cluster);
    index_ranges::run(options, &mut report).await?;
    Ok(report)
}

/// Makes the table that is read, with copies and without thin indexes.
async fn read_table(client: &Client) -> io::Result<Table> {
    let schema = SchemaBuilder::new(TABLE)
        .column("id", ColumnType::Int64)
        .column("grp", ColumnType::Int64)
        .column("a", ColumnType::Int64)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_a", &["a"])
        .index("by_group", &["grp", "a"])
        .partitioned_by_first(1)
        .failures_tolerated(2)
        .durability(Durability::Replicated)
        .build()
        .map_err(failed)?;
    let created = client.create_table(schema, IfExists::Fail);
    created.await.map_err(failed)
}

/// Makes the thin indexes on the full table.
async fn make_thin(client: &Client) -> io::Result<()> {
    let indexes = [("thin", Vec::new()), ("thin_with_all", vec![1, 3])];
    for (name, included) in indexes {
        let table = client.table(TABLE).await.map_err(failed)?;
        let mut wanted = table.schema().clone();
        wanted.thin.push(ThinIndex {
            name: name.to_owned(),
            columns: ascending(&[2]),
            included,
            by_range: true,
            unique: false,
            copies: 1,
        });
        client.add_copy(wanted, &|_| {}).await.map_err(failed)?;
    }
    Ok(())
}

/// Makes a copy on the full table that ranges divide.
async fn make_ranged(client: &Client) -> io::Result<()> {
    let table = client.table(TABLE).await.map_err(failed)?;
    let mut wanted = table.schema().clone();
    wanted.indexes.push(Index {
        name: "ranged".to_owned(),
        columns: vec![2],
        constraint: None,
        partition_columns: None,
        by_range: true,
    });
    let added = client.add_copy(wanted, &|_| {});
    added.await.map(|_| ()).map_err(failed)
}

async fn load(table: &Table, rows: u64) -> io::Result<()> {
    let next = Rc::new(Cell::new(0));
    let workers = (0..LOAD_WINDOW).map(|_| LoadWorker {
        table: table.clone(),
        next: next.clone(),
        end: rows,
    });
    let sample = measure(workers.collect(), Duration::MAX / 4, &[]).await?;
    assert_eq!(sample.operations, rows, "every insert was counted");
    Ok(())
}

/// Measures reads by copies and by thin indexes.
async fn reads(
    options: &MeasureOptions,
    cluster: &BenchCluster,
    (table, rows): (&Table, u64),
    report: &mut FigureReport,
) -> io::Result<()> {
    let reads = [
        IndexedRead::BytesByCopy,
        IndexedRead::LookupByCopy,
        IndexedRead::LookupByEntry,
        IndexedRead::LookupIncluded,
        IndexedRead::RangeOfCopy,
        IndexedRead::RangeByEntries,
        IndexedRead::RangeByRanges,
    ];
    let (ids, span) = (cluster.server_ids(), options.span());
    let mut series = reads.map(|_| Series::default());
    for _ in 0..options.pairs {
        for (read, series) in reads.into_iter().zip(&mut series) {
            let worker = ReadWorker {
                table: table.clone(),
                read,
                rows,
                random: BenchRandom::new(1),
            };
            series.push(measure(vec![worker], span, &ids).await?);
        }
    }
    report_reads(&series, report);
    Ok(())
}

/// Reports the reads, in the order in which [`reads`] measures them.
fn report_reads(series: &[Series; 7], report: &mut FigureReport) {
    let [
        bytes,
        by_copy,
        by_entry,
        included,
        of_copy,
        by_entries,
        by_ranges,
    ] = series;
    let copy = ("by a copy", &by_copy.p50_us());
    report.pair(
        ("O1", "≤ 2.2 ×"),
        "lookup of one row by a thin index, one client: p50",
        (&by_entry.p50_us(), "µs"),
        copy,
    );
    report.pair(
        ("O1", "1.1 ×"),
        "the same with all columns in the entry: p50",
        (&included.p50_us(), "µs"),
        copy,
    );
    report.pair(
        ("", ""),
        "the same lookup by a copy, with decoded columns: p50",
        (&by_copy.p50_us(), "µs"),
        ("its bytes, as S1 measures", &bytes.p50_us()),
    );
    report.work("lookup by a thin index", by_entry);
    let copy = ("one partition of a copy", &of_copy.server_us());
    report.pair(
        ("O4", "≤ 4 ×"),
        &format!("range of {RANGE_ROWS} rows by a thin index: server CPU per row"),
        (&by_entries.server_us(), "µs"),
        copy,
    );
    report.pair(
        ("", ""),
        "the same by a copy that ranges divide: server CPU per row",
        (&by_ranges.server_us(), "µs"),
        copy,
    );
    report.work("range by a thin index, per row", by_entries);
}

/// Measures overwrites of a table with several numbers of thin indexes.
async fn overwrites(
    options: &MeasureOptions,
    cluster: &BenchCluster,
    client: &Client,
    report: &mut FigureReport,
) -> io::Result<()> {
    let mut tables = Vec::new();
    for count in INDEX_COUNTS {
        tables.push(overwritten_table(client, count).await?);
    }
    let (ids, span) = (cluster.server_ids(), options.span());
    let mut series = INDEX_COUNTS.map(|_| Series::default());
    for _ in 0..options.pairs {
        for (table, series) in tables.iter().zip(&mut series) {
            let worker = OverwriteWorker {
                table: table.clone(),
                random: BenchRandom::new(1),
            };
            series.push(measure(vec![worker], span, &ids).await?);
        }
    }
    let [none, one, eight] = &series;
    let without = ("without", &none.p50_us());
    report.pair(
        ("O2", "≤ 1.3 ×"),
        "overwrite that changes the key of a thin index, one client: p50",
        (&one.p50_us(), "µs"),
        without,
    );
    report.pair(
        ("O3", "≤ 1.8 ×"),
        "the same with 8 thin indexes: p50",
        (&eight.p50_us(), "µs"),
        without,
    );
    let without = ("without", &none.server_us());
    for (what, series) in [("one thin index", one), ("8 thin indexes", eight)] {
        report.pair(
            ("", ""),
            &format!("overwrite with {what}: server CPU"),
            (&series.server_us(), "µs"),
            without,
        );
    }
    Ok(())
}

/// Makes and fills a table of three copies with this number of thin indexes.
async fn overwritten_table(client: &Client, indexes: u16) -> io::Result<Table> {
    let mut builder =
        SchemaBuilder::new(format!("overwritten_{indexes}")).column("id", ColumnType::Int64);
    for column in 0..WRITTEN {
        builder = builder.column(format!("c{column}"), ColumnType::Int64);
    }
    let schema = builder
        .primary_key(&["id"])
        .failures_tolerated(2)
        .durability(Durability::Replicated);
    let mut schema = schema.build().map_err(failed)?;
    schema.thin = (0..indexes)
        .map(|index| ThinIndex {
            name: format!("thin_{index}"),
            columns: ascending(&[usize::from(index) + 1]),
            included: Vec::new(),
            by_range: true,
            unique: false,
            copies: 1,
        })
        .collect();
    let created = client.create_table(schema, IfExists::Fail);
    let table = created.await.map_err(failed)?;
    for id in 0..OVERWRITTEN_ROWS {
        let row = vec![Value::Int64(id as i64); usize::from(WRITTEN) + 1];
        applied(table.insert(&row).await)?;
    }
    Ok(table)
}

impl MeasuredWorker for LoadWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let number = self.next.get();
        if number >= self.end {
            return Ok(0);
        }
        self.next.set(number + 1);
        let id = number as i64;
        let group = id / RANGE_ROWS as i64;
        let note = Value::Text(format!("a note about row {number:030}"));
        let row = [
            Value::Int64(id),
            Value::Int64(group),
            Value::Int64(id),
            note,
        ];
        applied(self.table.insert(&row).await)?;
        Ok(1)
    }
}

impl MeasuredWorker for ReadWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let number = self.random.below(self.rows) as i64;
        let first = number / RANGE_ROWS as i64 * RANGE_ROWS as i64;
        let value = [Value::Int64(number)];
        let (found, expected) = match self.read {
            IndexedRead::BytesByCopy => {
                let key = encode_key(value.iter().map(Value::as_ref));
                let replex = store::replex_of(&self.table, 2);
                let page = self.table.get_raw(replex, &key, 2).await;
                (page.map_err(failed)?.count, 1)
            }
            IndexedRead::LookupByCopy
            | IndexedRead::LookupByEntry
            | IndexedRead::LookupIncluded => {
                let index = match self.read {
                    IndexedRead::LookupByCopy => "by_a",
                    IndexedRead::LookupIncluded => "thin_with_all",
                    _ => "thin",
                };
                let lookup = self.table.lookup(index, &value).map_err(failed)?;
                (lookup.await.map_err(failed)?.len() as u64, 1)
            }
            IndexedRead::RangeOfCopy => {
                let group = [Value::Int64(number / RANGE_ROWS as i64)];
                let lookup = self.table.lookup("by_group", &group).map_err(failed)?;
                (lookup.await.map_err(failed)?.len() as u64, RANGE_ROWS)
            }
            IndexedRead::RangeByEntries | IndexedRead::RangeByRanges => {
                let index = match self.read {
                    IndexedRead::RangeByRanges => "ranged",
                    _ => "thin",
                };
                let (from, to) = (
                    [Value::Int64(first)],
                    [Value::Int64(first + RANGE_ROWS as i64)],
                );
                let (from, to) = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
                let range = self.table.range(index, from, to).map_err(failed)?;
                (range.await.map_err(failed)?.len() as u64, RANGE_ROWS)
            }
        };
        match found == expected {
            true => Ok(found),
            false => Err(io::Error::other(format!(
                "{found} rows were found where there are {expected}"
            ))),
        }
    }
}

impl MeasuredWorker for OverwriteWorker {
    async fn operate(&mut self) -> io::Result<u64> {
        let id = [Value::Int64(self.random.below(OVERWRITTEN_ROWS) as i64)];
        let value = self.random.below(1 << 40) as i64;
        let assignments = (1..=WRITTEN).map(|column| Assignment {
            column,
            value: Expression::Literal(Value::Int64(value)),
        });
        applied(self.table.update(&id, assignments.collect(), None).await)?;
        Ok(1)
    }
}
