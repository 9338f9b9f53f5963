//! `replex import` of CSV into three copies, `sync`, compared with PostgreSQL's `COPY` of the same
//! file into one table with two secondary indexes (S12).
//!
//! Both are measured as a user would run them, each with a client process. Each round begins with a
//! new folder and an empty table, and only one of the two systems runs at a time. PostgreSQL is
//! Debian's, with its default settings.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use client::{IfExists, SchemaBuilder};
use placement::{ColumnType, Durability, Schema};

use crate::cpu;
use crate::distribution::BenchRandom;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::BarChart;
use crate::postgres::DebianPostgres;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store;

const TABLE: &str = "imported";
const SERVERS: usize = 3;

/// The form of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    /// Rows of numbers and short strings, indexed by a customer and by an article: about 60 bytes
    /// each.
    Orders,
    /// Rows with a text key and ten text columns of 10 bytes, indexed by two of them, as in the
    /// other measurements.
    Texts,
}

/// The result of one side.
#[derive(Default)]
struct Side {
    seconds: Measurements,
    server_us: Measurements,
}

/// Runs `replex bench import`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let mut groups = Vec::new();
    std::fs::create_dir_all(options.base())?;
    for rows in [Rows::Orders, Rows::Texts] {
        let folder = tempfile::tempdir_in(options.base())?;
        let file = folder.path().join("rows.csv");
        rows.write(options.import_rows, &file)?;
        let (mut ours, mut theirs) = (Side::default(), Side::default());
        for round in 1..=options.pairs {
            options.say_round(round, rows.name());
            if !copy_round(rows, options, &file, &mut theirs)? {
                note!("PostgreSQL is not installed: apt-get install postgresql");
                return Ok(FigureReport::default());
            }
            import_round(rows, options, &file, &mut ours).await?;
        }
        let id = if rows == Rows::Orders { "S12" } else { "" };
        let target = if rows == Rows::Orders {
            "≤ 1.5 ×"
        } else {
            ""
        };
        let (count, name) = (options.import_rows, rows.name());
        report.pair(
            (id, target),
            &format!("import of {count} {name}, three copies, sync"),
            (&ours.seconds, "s"),
            ("COPY", &theirs.seconds),
        );
        report.pair(
            ("", ""),
            &format!("{name}: CPU of all servers per row"),
            (&ours.server_us, "µs"),
            ("COPY", &theirs.server_us),
        );
        let seconds = [&ours, &theirs].map(|side| Some(side.seconds.median()));
        groups.push((name.to_owned(), seconds.to_vec()));
    }
    let plot = BarChart {
        title: format!("{} rows of CSV", options.import_rows),
        y: "seconds".to_owned(),
        series: vec![
            "replex import, three copies".to_owned(),
            "PostgreSQL COPY, two indexes".to_owned(),
        ],
        groups,
    };
    options.draw_bars("import", &plot)?;
    Ok(report)
}

/// Measures one import into a new cluster.
async fn import_round(
    rows: Rows,
    options: &MeasureOptions,
    file: &Path,
    side: &mut Side,
) -> io::Result<()> {
    let cluster = BenchCluster::start(&options.base(), SERVERS, ServerKind::default())?;
    let clients = store::clients(&cluster, 1).await?;
    store::wait_until_up(&clients[0]).await?;
    let created = clients[0].create_table(rows.schema()?, IfExists::Fail);
    let table = created.await.map_err(store::failed)?;
    let (ids, before) = (cluster.server_ids(), Instant::now());
    let cpu_before = cpu::processes_us(&ids)?;
    let mut import = Command::new(std::env::current_exe()?);
    import
        .args(["import", "--coordinator", cluster.address()?])
        .args(["--table", TABLE])
        .arg(file)
        .stdin(Stdio::null());
    let output = import.output()?;
    let seconds = before.elapsed().as_secs_f64();
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("the import failed: {words}")));
    }
    let cpu_us = cpu::processes_us(&ids)? - cpu_before;
    let found = table.scan().count().await.map_err(store::failed)?;
    if found != options.import_rows {
        return Err(io::Error::other(format!("{found} rows were imported")));
    }
    side.seconds.push(seconds);
    side.server_us.push(cpu_us / options.import_rows as f64);
    Ok(())
}

/// Measures one `COPY` into a new PostgreSQL server. Returns false if PostgreSQL is not installed.
fn copy_round(
    rows: Rows,
    options: &MeasureOptions,
    file: &Path,
    side: &mut Side,
) -> io::Result<bool> {
    let Some(postgres) = DebianPostgres::start(&options.base())? else {
        return Ok(false);
    };
    let statements = rows.statements();
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    postgres.psql(&statements)?;
    let cpu_before = postgres.cpu_us()?;
    let copy = format!("\\copy {TABLE} FROM '{}' CSV HEADER", file.display());
    let taken = postgres.psql(&[&copy])?;
    side.seconds.push(taken.as_secs_f64());
    let cpu_us = postgres.cpu_us()? - cpu_before;
    side.server_us.push(cpu_us / options.import_rows as f64);
    Ok(true)
}

impl Rows {
    fn name(self) -> &'static str {
        match self {
            Rows::Orders => "orders",
            Rows::Texts => "rows of ten texts",
        }
    }

    /// Returns names and types of the columns, the primary key first, as SQL writes them.
    fn columns(self) -> Vec<(String, &'static str)> {
        match self {
            Rows::Orders => [
                ("id", "bigint"),
                ("customer", "bigint"),
                ("article", "text"),
                ("quantity", "bigint"),
                ("price", "double precision"),
                ("note", "text"),
            ]
            .map(|(name, type_name)| (name.to_owned(), type_name))
            .into(),
            Rows::Texts => {
                let fields = (0..store::FIELDS).map(|field| format!("field{field}"));
                let names = std::iter::once("key".to_owned()).chain(fields);
                names.map(|name| (name, "text")).collect()
            }
        }
    }

    fn indexed(self) -> [&'static str; 2] {
        match self {
            Rows::Orders => ["customer", "article"],
            Rows::Texts => ["field0", "field1"],
        }
    }

    fn schema(self) -> io::Result<Schema> {
        let mut builder = SchemaBuilder::new(TABLE);
        let columns = self.columns();
        for (name, type_name) in &columns {
            let column_type = match *type_name {
                "bigint" => ColumnType::Int64,
                "double precision" => ColumnType::Float64,
                _ => ColumnType::Text,
            };
            builder = builder.column(name.clone(), column_type);
        }
        builder = builder.primary_key(&[columns[0].0.as_str()]);
        for column in self.indexed() {
            builder = builder.index(format!("by_{column}"), &[column]);
        }
        let builder = builder.failures_tolerated(2).durability(Durability::Sync);
        builder.build().map_err(store::failed)
    }

    /// Returns the statements that make the table in PostgreSQL.
    fn statements(self) -> Vec<String> {
        let columns = self.columns();
        let columns = columns.iter().map(|(name, it)| format!("{name} {it}"));
        let columns: Vec<String> = columns.collect();
        let mut statements = vec![format!("CREATE TABLE {TABLE} ({})", columns.join(", "))];
        let key = self.columns().swap_remove(0).0;
        statements.push(format!("ALTER TABLE {TABLE} ADD PRIMARY KEY ({key})"));
        for column in self.indexed() {
            statements.push(format!("CREATE INDEX ON {TABLE} ({column})"));
        }
        statements
    }

    /// Writes the file: the same rows in every run.
    fn write(self, count: u64, path: &Path) -> io::Result<()> {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        let names: Vec<String> = self.columns().into_iter().map(|(name, _)| name).collect();
        writeln!(file, "{}", names.join(","))?;
        let mut random = BenchRandom::new(12);
        for number in 0..count {
            match self {
                Rows::Orders => {
                    let customer = random.below(100_000);
                    let article = random.below(5_000);
                    let quantity = 1 + random.below(20);
                    let price = random.below(10_000) as f64 / 100.0;
                    let note = random.text(30);
                    writeln!(
                        file,
                        "{number},{customer},sku{article:05},{quantity},{price},{note}"
                    )?;
                }
                Rows::Texts => {
                    let fields: Vec<String> = (0..store::FIELDS).map(|_| random.text(10)).collect();
                    writeln!(file, "{},{}", store::key(number), fields.join(","))?;
                }
            }
        }
        file.flush()
    }
}
