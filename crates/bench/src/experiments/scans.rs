//! YCSB's workload E with 32 clients: scans of 1 to 100 rows in the order of the key, and inserts
//! (O6). It is compared with PostgreSQL with the same rows and indexes on the same machine.
//!
//! The table has three copies, as in the other measurements, and for the scans a thin index whose
//! entries have all columns. PostgreSQL has one copy, and syncs its log. So the ratio of CPU times
//! says what a scan costs, and not what an insert costs.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use placement::{Durability, ThinIndex, ascending};

use crate::measure::{Series, run as measure};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::postgres::DebianPostgres;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, FIELDS, RowShape, failed};
use crate::ycsb::{SCAN_INDEX, SCAN_ROWS_MAX, SCANS, YcsbClient, YcsbRows};

const CLIENTS: usize = 32;

/// PostgreSQL's results.
#[derive(Default)]
struct Theirs {
    server_us: Measurements,
    rate: Measurements,
}

/// Runs `replex bench scans`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    for field_bytes in [10, 100] {
        let size = if field_bytes == 10 { "100 B" } else { "1 kB" };
        let shape = RowShape {
            rows: options.rows,
            field_bytes,
        };
        let Some(postgres) = DebianPostgres::start(&options.base())? else {
            note!("PostgreSQL is not installed: apt-get install postgresql");
            return Ok(FigureReport::default());
        };
        fill(&postgres, shape)?;
        let (ours, theirs) = rows_of(options, &postgres, shape).await?;
        let what = format!("YCSB E, {size}");
        report.pair(
            ("O6", "≤ 1 × (aim)"),
            &format!("{what}: server CPU"),
            (&ours.server_us(), "µs"),
            ("PostgreSQL", &theirs.server_us),
        );
        report.pair(
            ("", ""),
            &format!("{what}: rate"),
            (&ours.rate(), "1/s"),
            ("PostgreSQL", &theirs.rate),
        );
        report.plain("", &format!("{what}: client CPU"), &ours.client_us(), "µs");
        report.plain("", &format!("{what}: p50"), &ours.p50_us(), "µs");
    }
    Ok(report)
}

async fn rows_of(
    options: &MeasureOptions,
    postgres: &DebianPostgres,
    shape: RowShape,
) -> io::Result<(Series, Theirs)> {
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let clients = store::clients(&cluster, CLIENTS).await?;
    let table = store::create(&clients[0], "usertable", Durability::Replicated).await?;
    let mut wanted = table.schema().clone();
    wanted.thin.push(ThinIndex {
        name: SCAN_INDEX.into(),
        columns: ascending(&[0]),
        included: (1..=FIELDS).collect(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    clients[0].add_copy(wanted, &|_| {}).await.map_err(failed)?;
    let tables = store::tables(&clients, "usertable").await?;
    store::load(&tables[0], shape).await?;

    let shared = Rc::new(RefCell::new(YcsbRows::new(shape.rows)));
    let (ids, span) = (cluster.server_ids(), options.span());
    let (scan, insert) = (scan_script(), insert_script(shape.field_bytes));
    let scripts = [(&scan[..], 95), (&insert[..], 5)];
    let (mut ours, mut theirs) = (Series::default(), Theirs::default());
    for pair in 0..options.pairs {
        options.say_round(pair + 1, "scans");
        let seeds = u64::from(pair) * 1000..;
        let workers = tables.iter().zip(seeds).map(|(table, seed)| {
            YcsbClient::new(table.clone(), SCANS, shape, shared.clone(), seed)
        });
        ours.push(measure(workers.collect(), span, &ids).await?);
        let before = postgres.cpu_us()?;
        let count = postgres.pgbench(&scripts, shape.rows, (CLIENTS, span))? as f64;
        theirs.server_us.push((postgres.cpu_us()? - before) / count);
        theirs.rate.push(count / span.as_secs().max(1) as f64);
    }
    Ok((ours, theirs))
}

/// Creates the table with the same rows and indexes.
fn fill(postgres: &DebianPostgres, shape: RowShape) -> io::Result<()> {
    let fields: Vec<String> = (0..FIELDS)
        .map(|field| format!("field{field} text"))
        .collect();
    let table = format!(
        "CREATE TABLE usertable (key text PRIMARY KEY, {})",
        fields.join(", ")
    );
    let values = values(shape.field_bytes);
    let rows = format!(
        "INSERT INTO usertable SELECT {}, {values} FROM generate_series(0, {}) n",
        key("n"),
        shape.rows.max(1) - 1
    );
    let statements = [
        &table[..],
        &rows,
        "CREATE INDEX ON usertable (field0)",
        "CREATE INDEX ON usertable (field1)",
        "VACUUM ANALYZE usertable",
    ];
    postgres.psql(&statements).map(drop)
}

/// Returns the key of a row in SQL, as [`store::key`] makes it.
fn key(number: &str) -> String {
    format!("'user' || lpad({number}::text, 10, '0')")
}

/// Returns the fields of row `n`.
fn values(field_bytes: usize) -> String {
    let repeats = field_bytes.div_ceil(32);
    let fields = (0..FIELDS)
        .map(|field| format!("left(repeat(md5({field} || n::text), {repeats}), {field_bytes})"));
    fields.collect::<Vec<_>>().join(", ")
}

/// Returns a scan in pgbench's language. Its parameter of the distribution is the smallest one that
/// pgbench takes; YCSB's is 0.99.
fn scan_script() -> String {
    format!(
        "\\set n random_zipfian(1, :rows, 1.001) - 1\n\
         \\set count random(1, {SCAN_ROWS_MAX})\n\
         SELECT * FROM usertable WHERE key >= {} ORDER BY key LIMIT :count;\n",
        key("(:n)")
    )
}

/// Returns an insert in pgbench's language.
fn insert_script(field_bytes: usize) -> String {
    let values = values(field_bytes);
    format!(
        "\\set n random(:rows, 2000000000)\n\
         INSERT INTO usertable SELECT {}, {values} \
         FROM (SELECT (:n)::bigint AS n) drawn ON CONFLICT DO NOTHING;\n",
        key("n")
    )
}
