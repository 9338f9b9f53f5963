//! Measures YCSB's balanced mix, 85% reads of a row and 15% inserts, with a rising number of
//! replicas. Compares the proxy over replicas, Pgpool-II over streaming standbys, and the primary
//! alone. Each database gets an equal share of a core (H4, the paper's Figure 11).
//!
//! The popularity of keys follows Zipf's law, popular keys are not neighbours, and rows have ten
//! fields. The exponent is 1.001, the least that pgbench accepts, while YCSB has 0.99. Clients send
//! simple queries, because Pgpool-II handles them better than extended ones. Pgpool-II may return
//! stale answers, and the proxy does not.

use std::io;
use std::net::SocketAddr;
use std::time::Instant;

use pg_local::Postgres;

use super::databases::{DatabaseSite, Streaming, ask, await_row, connect};
use super::pgbench::{PgbenchLoad, Script};
use super::rivals::{Rival, has_pgpool, pgpool};
use super::{CLIENTS_PER_REPLICA, RAMP_UP, SHARE, has_quotas};
use crate::measure::{Sample, Series};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::{AxisScale, LineChart};
use crate::report::FigureReport;
use crate::store::FIELDS;

const REPLICAS: [usize; 3] = [1, 2, 4];
/// The number of reads in a hundred operations.
pub const READS: u32 = 85;
pub const INSERTS: u32 = 15;
/// Rows that one client inserts in a run, at most.
const INSERTS_MAX: u64 = 10_000_000;
/// Clients, at most.
const CLIENTS_MAX: u64 = 100;

/// One system's runs with one number of replicas.
#[derive(Default)]
struct Measured {
    series: Series,
    /// From the end of a run until every replica had everything, seconds.
    behind: Measurements,
}

/// One run.
struct Run {
    sample: Sample,
    /// From its end until the replicas had everything.
    behind_seconds: f64,
}

impl Measured {
    fn push(&mut self, run: Run) {
        self.series.push(run.sample);
        self.behind.push(run.behind_seconds);
    }
}

fn clients(replicas: usize) -> usize {
    CLIENTS_PER_REPLICA * replicas
}

/// All systems with one number of replicas.
struct Size {
    replicas: usize,
    site: DatabaseSite,
    streaming: Option<(Rival, Streaming)>,
    proxy: Measured,
    pgpool: Measured,
    alone: Series,
}

impl Size {
    async fn start(
        options: &MeasureOptions,
        replicas: usize,
        with_pgpool: bool,
    ) -> io::Result<Size> {
        let (base, schema) = (options.base(), schema(options.rows));
        let mut site = DatabaseSite::start(&base, &schema, replicas, &[]).await?;
        site.hold_back()?;
        let streaming = if with_pgpool {
            let databases = Streaming::start(&base, &schema, replicas).await?;
            let rival = pgpool(&base, &databases, clients(replicas)).await?;
            rival.map(|rival| (rival, databases))
        } else {
            None
        };
        Ok(Size {
            replicas,
            site,
            streaming,
            proxy: Measured::default(),
            pgpool: Measured::default(),
            alone: Series::default(),
        })
    }
}

/// Runs loads whose inserts never meet.
struct Runs<'a> {
    options: &'a MeasureOptions,
    count: u64,
}

impl Runs<'_> {
    /// Returns the load of the next run.
    fn next(&mut self, clients: usize) -> PgbenchLoad {
        let mut load = PgbenchLoad::of(READ, self.options.rows, clients, self.options.span());
        load.scripts[0].weight = READS;
        load.scripts.push(Script {
            text: insert(),
            weight: INSERTS,
        });
        load.ramp_up = RAMP_UP;
        self.count += 1;
        load.variables.push(("n", 0));
        load.variables.push(("base", self.first_key()));
        load
    }

    /// Returns the first key of the present run. All lower keys belong to earlier runs.
    fn first_key(&self) -> u64 {
        first_key(self.count)
    }

    /// Measures one system, until its replicas have everything.
    async fn measure(
        &mut self,
        (place, ids): (SocketAddr, &[u32]),
        primary: &Postgres,
        replicas: &[Postgres],
    ) -> io::Result<Run> {
        // To connect is work, too: it is done before.
        let writer = connect(primary.socket()).await?;
        let mut readers = Vec::new();
        for replica in replicas {
            readers.push(connect(replica.socket()).await?);
        }
        let load = self.next(clients(replicas.len()));
        let sample = load.run(place, ids).await?;
        let ended = Instant::now();
        // After everything else.
        let last = self.first_key() - 1;
        let insert = format!("INSERT INTO usertable (key) VALUES ({last})");
        ask(&writer, &insert).await?;
        let there = format!("SELECT 1 FROM usertable WHERE key = {last}");
        for reader in &readers {
            await_row(reader, &there).await?;
        }
        Ok(Run {
            sample,
            behind_seconds: ended.elapsed().as_secs_f64(),
        })
    }
}

/// Runs `replex bench proxy balanced`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    if !has_quotas("H4") {
        return Ok(FigureReport::default());
    }
    std::fs::create_dir_all(options.base())?;
    let with_pgpool = has_pgpool();
    let alone = Streaming::start(&options.base(), &schema(options.rows), 0).await?;
    let mut sizes = Vec::new();
    for replicas in REPLICAS {
        sizes.push(Size::start(options, replicas, with_pgpool).await?);
    }
    note!("each database is held to {SHARE} from here on");
    let mut runs = Runs { options, count: 0 };
    // The first round opens the pools' connections, and does not count.
    for round in 0..=options.pairs {
        options.say_round(round, "balanced");
        for size in &mut sizes {
            let load = runs.next(clients(size.replicas));
            let of_alone = load.run(alone.primary.socket(), &[]).await?;
            let site = &size.site;
            let way = (site.place()?, &[site.proxy_id()?][..]);
            let of_proxy = runs.measure(way, &site.primary, &site.replicas).await?;
            let mut of_pgpool = None;
            if let Some((rival, databases)) = &size.streaming {
                let (primary, standbys) = (&databases.primary, &databases.standbys);
                let way = (rival.place, &rival.ids()?[..]);
                of_pgpool = Some(runs.measure(way, primary, standbys).await?);
            }
            if round > 0 {
                size.alone.push(of_alone);
                size.proxy.push(of_proxy);
                of_pgpool.into_iter().for_each(|it| size.pgpool.push(it));
            }
        }
    }
    options.draw_lines("proxy-balanced", &plot(&sizes, with_pgpool))?;
    report(&sizes).await
}

async fn report(sizes: &[Size]) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    for size in sizes {
        let what = format!("85/15, replicas: {}", size.replicas);
        let alone = size.alone.rate();
        let primary = format!("{what}, primary alone: rate");
        report.plain("", &primary, &alone, "1/s");
        let (proxy, rate) = (format!("{what}, proxy"), size.proxy.series.rate());
        let of_proxy = format!("{proxy}: rate");
        let own = (&rate, "1/s");
        report.pair(("", ""), &of_proxy, own, ("primary alone", &alone));
        if size.streaming.is_some() {
            let (pgpool, rival) = (format!("{what}, Pgpool-II"), size.pgpool.series.rate());
            let target = ("H4", "≥ 1.35 ×");
            report.pair(target, &of_proxy, own, ("Pgpool-II", &rival));
            let of_pgpool = format!("{pgpool}: rate");
            report.pair(
                ("", ""),
                &of_pgpool,
                (&rival, "1/s"),
                ("primary alone", &alone),
            );
            report_rows(&mut report, &pgpool, &size.pgpool);
        }
        report_rows(&mut report, &proxy, &size.proxy);
        let mut share = Measurements::default();
        share.push(size.site.share_at_replicas().await? * 100.0);
        let answered = format!("{proxy}: answered by replicas");
        report.plain("", &answered, &share, "%");
    }
    Ok(report)
}

/// Adds the other results of a system's runs than their rate to the report.
fn report_rows(report: &mut FigureReport, what: &str, measured: &Measured) {
    let (p50, cpu) = (measured.series.p50_us(), measured.series.server_us());
    report.plain("", &format!("{what}: p50"), &p50, "µs");
    report.plain(
        "",
        &format!("{what}: CPU of what stands between"),
        &cpu,
        "µs",
    );
    let until = format!("{what}: from a run's end until replicas had everything");
    report.plain("", &until, &measured.behind, "s");
}

fn plot(sizes: &[Size], with_pgpool: bool) -> LineChart {
    let line = |rate: &dyn Fn(&Size) -> Measurements| {
        sizes
            .iter()
            .map(|size| (size.replicas as f64, rate(size).median()))
            .collect()
    };
    let mut series = vec![
        ("proxy".to_owned(), line(&|size| size.proxy.series.rate())),
        ("primary alone".to_owned(), line(&|size| size.alone.rate())),
    ];
    if with_pgpool {
        let rate = line(&|size| size.pgpool.series.rate());
        series.push(("Pgpool-II over streaming standbys".to_owned(), rate));
    }
    LineChart {
        title: format!("YCSB, 85% reads and 15% inserts, each database held to {SHARE}"),
        x: "replicas or standbys".to_owned(),
        y: "operations per second".to_owned(),
        x_scale: AxisScale::Linear,
        series,
    }
}

/// The script that reads one row. Some rows are more popular than others.
pub const READ: &str = "\\set z random_zipfian(1, :rows, 1.001)\n\
    \\set key permute(:z - 1, :rows)\n\
    SELECT * FROM usertable WHERE key = :key;\n";

/// The script that reads a range of rows from a popular row on.
pub const SCAN: &str = "\\set z random_zipfian(1, :rows, 1.001)\n\
    \\set key permute(:z - 1, :rows)\n\
    \\set count random(1, 100)\n\
    SELECT * FROM usertable WHERE key >= :key ORDER BY key LIMIT :count;\n";

/// The script that updates a field of one row.
pub const UPDATE: &str = "\\set z random_zipfian(1, :rows, 1.001)\n\
    \\set key permute(:z - 1, :rows)\n\
    \\set field random(1000000000, 9999999999)\n\
    UPDATE usertable SET field0 = ':field' WHERE key = :key;\n";

/// Returns the first key of a run's inserts, which no other run uses.
pub fn first_key(run: u64) -> u64 {
    run * INSERTS_MAX * CLIENTS_MAX
}

/// Returns the script that inserts a row that no other client inserts.
pub fn insert() -> String {
    let mut sets = format!(
        "\\set n :n + 1\n\
         \\set key :base + :client_id * {INSERTS_MAX} + :n\n"
    );
    let mut values = String::from(":key");
    for field in 0..FIELDS {
        sets += &format!("\\set field{field} random(1000000000, 9999999999)\n");
        values += &format!(", ':field{field}'");
    }
    format!("{sets}INSERT INTO usertable VALUES ({values});\n")
}

/// Returns the statements that create the table with `rows` rows.
pub fn schema(rows: u64) -> String {
    let columns = (0..FIELDS).map(|field| format!("field{field} text"));
    let columns: Vec<String> = columns.collect();
    let values =
        (0..FIELDS).map(|field| format!("substr(md5((n * {FIELDS} + {field})::text), 1, 10)"));
    let values: Vec<String> = values.collect();
    format!(
        "CREATE TABLE usertable (key bigint PRIMARY KEY, {});
         INSERT INTO usertable SELECT n, {} FROM generate_series(0, {rows} - 1) n;
         ANALYZE usertable",
        columns.join(", "),
        values.join(", ")
    )
}
