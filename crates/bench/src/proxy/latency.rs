//! Measures the time that a proxy adds to a query. Compares PgBouncer, the proxy as a pooler, and
//! the proxy that routes to a replica, all before the same primary (H1, H2).

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;

use tempfile::TempDir;

use super::databases::{DatabaseSite, place, proxy};
use super::pgbench::{PgbenchLoad, Protocol};
use super::rivals::{Rival, pgbouncer};
use crate::measure::{Series, latency_plot};
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::BarChart;
use crate::processes::BenchProcess;
use crate::report::FigureReport;

/// The clients of H1 and of H2.
const ONE: usize = 1;
const MANY: usize = 16;
/// The time for which a spinning thread polls for messages, in µs: longer than a query takes.
const SPIN_US: &str = "1000";
const PROTOCOLS: [Protocol; 2] = [Protocol::Simple, Protocol::Prepared];
/// The query of `pgbench -S`, over our own number of rows.
pub const SELECT: &str = "\\set aid random(1, :rows)\n\
    SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";

/// Returns the statements that make the table of `pgbench -S`.
pub fn schema(rows: u64) -> String {
    format!(
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
         INSERT INTO pgbench_accounts SELECT n, 1, n % 1000, '' FROM generate_series(1, {rows}) n;
         ANALYZE pgbench_accounts"
    )
}

/// A path from the client to the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionPath {
    Direct,
    PgBouncer,
    Pooling,
    Routing,
    Spinning,
}

impl ConnectionPath {
    fn name(self) -> &'static str {
        match self {
            ConnectionPath::Direct => "direct",
            ConnectionPath::PgBouncer => "PgBouncer",
            ConnectionPath::Pooling => "proxy without replicas",
            ConnectionPath::Routing => "proxy with a replica",
            ConnectionPath::Spinning => "the same, which spins",
        }
    }
}

/// The runs, by way, clients and protocol.
#[derive(Default)]
struct Measured(BTreeMap<(ConnectionPath, usize, &'static str), Series>);

impl Measured {
    /// Returns the runs over one path; none if the path was not measured.
    fn of(&self, way: ConnectionPath, clients: usize, protocol: Protocol) -> Option<&Series> {
        self.0.get(&(way, clients, protocol.name()))
    }

    fn direct(&self, clients: usize, protocol: Protocol) -> &Series {
        let series = self.of(ConnectionPath::Direct, clients, protocol);
        series.expect("it can always be gone")
    }

    /// Returns the time that a path adds to a query of one client, in µs; none if the path was not
    /// measured.
    fn added_us(&self, way: ConnectionPath, protocol: Protocol) -> Option<Measurements> {
        let direct = self.direct(ONE, protocol).p50_of_whole_us();
        let series = self.of(way, ONE, protocol)?;
        Some(series.p50_of_whole_us().minus(&direct))
    }
}

/// The running processes.
struct Stage {
    pgbouncer: Option<(Rival, bool)>,
    pooling: BenchProcess,
    routing: DatabaseSite,
    /// A spinning proxy in front of its own databases, if the machine has a processor for it.
    spinning: Option<DatabaseSite>,
    _folder: TempDir,
}

impl Stage {
    async fn build(options: &MeasureOptions) -> io::Result<Stage> {
        let base = options.base();
        std::fs::create_dir_all(&base)?;
        let routing = DatabaseSite::start(&base, &schema(options.rows), 1, &[]).await?;
        let pgbouncer = pgbouncer(&base, &routing.primary).await?;
        if let Some((_, false)) = pgbouncer {
            note!("LEFT OUT: this PgBouncer does not know prepared statements, 1.21 and later do");
        }
        let folder = tempfile::tempdir_in(&base)?;
        let has_more = std::thread::available_parallelism()?.get() > 1;
        let spinning = match has_more {
            true => {
                let mut site = DatabaseSite::start(&base, &schema(options.rows), 1, &[]).await?;
                site.stop_proxy()?;
                site.start_proxy(&["--spin-us", SPIN_US]).await?;
                Some(site)
            }
            false => {
                note!("LEFT OUT: a proxy that spins, on a single processor");
                None
            }
        };
        Ok(Stage {
            pgbouncer,
            pooling: proxy(&routing.primary, folder.path(), &[])?,
            routing,
            spinning,
            _folder: folder,
        })
    }

    /// Returns each path with the address to connect to and the ids of the processes on the path.
    fn ways(&self, protocol: Protocol) -> io::Result<Vec<(ConnectionPath, SocketAddr, Vec<u32>)>> {
        let mut ways = vec![(
            ConnectionPath::Direct,
            self.routing.primary.socket(),
            Vec::new(),
        )];
        if let Some((rival, prepares)) = &self.pgbouncer
            && (*prepares || protocol == Protocol::Simple)
        {
            ways.push((ConnectionPath::PgBouncer, rival.place, rival.ids()?));
        }
        let pooling = vec![self.pooling.id()];
        ways.push((ConnectionPath::Pooling, place(&self.pooling)?, pooling));
        let routing = vec![self.routing.proxy_id()?];
        ways.push((ConnectionPath::Routing, self.routing.place()?, routing));
        if let Some(site) = &self.spinning {
            ways.push((
                ConnectionPath::Spinning,
                site.place()?,
                vec![site.proxy_id()?],
            ));
        }
        Ok(ways)
    }
}

/// Runs `replex bench proxy latency`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let stage = Stage::build(options).await?;
    let mut measured = Measured::default();
    for round in 1..=options.pairs {
        options.say_round(round, "latency");
        for (clients, protocol) in [ONE, MANY].into_iter().flat_map(|clients| {
            PROTOCOLS
                .into_iter()
                .map(move |protocol| (clients, protocol))
        }) {
            let mut load = PgbenchLoad::of(SELECT, options.rows, clients, options.span());
            load.protocol = protocol;
            for (way, place, ids) in stage.ways(protocol)? {
                let sample = load.run(place, &ids).await?;
                let series = measured.0.entry((way, clients, protocol.name()));
                series.or_default().push(sample);
            }
        }
    }
    let mut report = FigureReport::default();
    report_latency(&mut report, &measured);
    report_work(&mut report, &measured);
    let mut share = Measurements::default();
    share.push(stage.routing.share_at_replicas().await? * 100.0);
    let what = "proxy with a replica: reads that it answered";
    report.plain("", what, &share, "%");
    draw(options, &measured)?;
    Ok(report)
}

/// Adds target H1 to the report: the time that each path adds to a query.
fn report_latency(report: &mut FigureReport, measured: &Measured) {
    for protocol in PROTOCOLS {
        let name = protocol.name();
        let direct = measured.direct(ONE, protocol).p50_of_whole_us();
        let what = format!("{name}, one client, direct: p50");
        report.plain("", &what, &direct, "µs");
        let rival = measured.added_us(ConnectionPath::PgBouncer, protocol);
        if let Some(rival) = &rival {
            let what = format!("{name}, one client, PgBouncer: added p50");
            report.plain("", &what, rival, "µs");
        }
        for way in [
            ConnectionPath::Pooling,
            ConnectionPath::Routing,
            ConnectionPath::Spinning,
        ] {
            let Some(added) = measured.added_us(way, protocol) else {
                continue;
            };
            let what = format!("{name}, one client, {}: added p50", way.name());
            let target = match rival {
                Some(_) => "≤ 1 ×",
                None => "≤ 18 µs",
            };
            beside(report, ("H1", target), &what, (&added, rival.as_ref()));
        }
    }
}

/// Adds target H2 to the report: the rate of queries and the CPU time of each path.
fn report_work(report: &mut FigureReport, measured: &Measured) {
    for protocol in PROTOCOLS {
        let direct = measured.direct(MANY, protocol);
        let at = format!("{}, {MANY} clients", protocol.name());
        report.plain("", &format!("{at}, direct: rate"), &direct.rate(), "1/s");
        report.plain(
            "",
            &format!("{at}, direct: client CPU"),
            &direct.client_us(),
            "µs",
        );
        for way in [
            ConnectionPath::PgBouncer,
            ConnectionPath::Pooling,
            ConnectionPath::Routing,
            ConnectionPath::Spinning,
        ] {
            let Some(series) = measured.of(way, MANY, protocol) else {
                continue;
            };
            let what = format!("{at}, {}", way.name());
            report.pair(
                ("", ""),
                &format!("{what}: rate"),
                (&series.rate(), "1/s"),
                ("direct", &direct.rate()),
            );
            let (what, own) = (format!("{what}: CPU per query"), series.server_us());
            if way == ConnectionPath::PgBouncer {
                report.plain("", &what, &own, "µs");
                continue;
            }
            let rival = measured.of(ConnectionPath::PgBouncer, MANY, protocol);
            let rival = rival.map(Series::server_us);
            beside(report, ("H2", "≤ 26 µs"), &what, (&own, rival.as_ref()));
        }
    }
}

/// Adds a figure in µs to the report, compared with PgBouncer's if there is one.
fn beside(
    report: &mut FigureReport,
    (id, target): (&str, &str),
    what: &str,
    (own, rival): (&Measurements, Option<&Measurements>),
) {
    match rival {
        Some(rival) => report.pair((id, target), what, (own, "µs"), ("PgBouncer", rival)),
        None => {
            report.plain(id, what, own, "µs");
            report.last().target = target.to_owned();
        }
    }
}

fn draw(options: &MeasureOptions, measured: &Measured) -> io::Result<()> {
    let ways = [
        ConnectionPath::Direct,
        ConnectionPath::PgBouncer,
        ConnectionPath::Pooling,
        ConnectionPath::Routing,
        ConnectionPath::Spinning,
    ];
    let series = ways.into_iter().filter_map(|way| {
        let series = measured.of(way, ONE, Protocol::Simple)?;
        Some((way.name(), series))
    });
    let series: Vec<(&str, &Series)> = series.collect();
    let plot = latency_plot("Reads by key, one client, simple queries", &series);
    options.draw_lines("proxy-latency", &plot)?;
    let is_there = |way: &ConnectionPath| measured.of(*way, MANY, Protocol::Simple).is_some();
    let between: Vec<ConnectionPath> = ways[1..].iter().copied().filter(is_there).collect();
    let groups = PROTOCOLS.into_iter().map(|protocol| {
        let values = between.iter().map(|way| {
            let series = measured.of(*way, MANY, protocol)?;
            Some(series.server_us().median())
        });
        (protocol.name().to_owned(), values.collect())
    });
    let bars = BarChart {
        title: format!("What stands between: CPU per query, {MANY} clients"),
        y: "µs".to_owned(),
        groups: groups.collect(),
        series: between.iter().map(|way| way.name().to_owned()).collect(),
    };
    options.draw_bars("proxy-cpu", &bars)
}
