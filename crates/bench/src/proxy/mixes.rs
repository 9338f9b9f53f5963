//! Measures TPC-C and YCSB in the paper's mixes. Each database gets an equal share of a core. Four
//! parameters vary:
//!
//! - the level of consistency, with 1, 2 and 4 replicas (the paper's Figures 2 to 4)
//! - whether replicas apply commits one after the other or in parallel (Figure 7)
//! - whether reads wait for a replica
//! - the affecting class by which reads are routed, with two replicas (Figures 6 and 8)
//!
//! YCSB runs as in `balanced`. Its range scans read up to 100 rows, beginning at a key.

use std::io;

use super::databases::{DatabaseSite, Streaming};
use super::pgbench::{PgbenchLoad, Script};
use super::tpcc::{self, TpccReads};
use super::{CLIENTS_PER_REPLICA, RAMP_UP, SHARE, balanced, has_quotas};
use crate::measure::Series;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::plot::{AxisScale, BarChart, LineChart};
use crate::report::FigureReport;

/// The numbers of replicas with which levels of consistency are compared.
const REPLICAS: &[usize] = &[1, 2, 4];
/// The number of replicas for all other comparisons, as in the paper.
const TWO: &[usize] = &[2];
/// The number of replicas that shows the gain of waiting.
const FOUR: &[usize] = &[4];

/// A way to run a mix.
#[derive(Clone, Copy, Debug)]
struct MixVariant {
    name: &'static str,
    /// The statement by which sessions ask for it, if they do.
    asks: &'static str,
    /// Options of the proxy.
    options: &'static [&'static str],
}

impl MixVariant {
    const fn asked(name: &'static str, asks: &'static str) -> MixVariant {
        MixVariant {
            name,
            asks,
            options: &[],
        }
    }

    const fn started(name: &'static str, options: &'static [&'static str]) -> MixVariant {
        MixVariant {
            name,
            asks: "",
            options,
        }
    }
}

/// The proxy's levels; the first is the default.
const LEVELS: &[MixVariant] = &[
    MixVariant::asked("gssi", "SET replex.consistency = 'gssi'"),
    MixVariant::asked("weak", "SET replex.consistency = 'weak'"),
    MixVariant::asked("rsi-pc", "SET replex.consistency = 'rsi-pc'"),
    MixVariant::asked("1sr", "SET replex.consistency = '1sr'"),
];
const CLASSES: &[MixVariant] = &[
    MixVariant::asked("TAS only", "SET replex.classes = 'tas'"),
    MixVariant::asked("TAS and CAS", "SET replex.classes = 'cas'"),
    MixVariant::asked("all classes", "SET replex.classes = 'ras'"),
];
const BALANCING: &[MixVariant] = &[
    MixVariant::asked("by transaction", "SET replex.balancing = 'transaction'"),
    MixVariant::asked("by statement", "SET replex.balancing = 'statement'"),
];
const REPLAY: &[MixVariant] = &[
    MixVariant::started(
        "serial",
        &["--replay-connections", "1", "--replay-group", "1"],
    ),
    MixVariant::started("parallel", &["--replay-connections", "4"]),
];
const WAITS: &[MixVariant] = &[
    MixVariant::started("never wait", &["--wait-ms", "0"]),
    MixVariant::started("wait 10 ms", &["--wait-ms", "10"]),
    MixVariant::started("wait 100 ms", &["--wait-ms", "100"]),
];

const BUFFERS: &[MixVariant] = &[
    MixVariant::started("without", &["--buffer", "none"]),
    MixVariant::started("with", &[]),
];

/// The plotted figure of runs, and its name.
type Figure = (&'static str, fn(&Series) -> f64);

const RATE: Figure = ("transactions per second", |series| series.rate().median());
const TIME: Figure = ("mean time of a transaction, ms", |series| {
    series.mean_us().median() / 1000.0
});

/// How often each of its transactions comes, in hundredths.
struct Mix {
    name: &'static str,
    scripts: Vec<Script>,
}

/// The workload: tables, and mixes of transactions over them.
struct Workload {
    name: &'static str,
    /// In names of files.
    file: &'static str,
    schema: String,
    mixes: Vec<Mix>,
    rows: u64,
}

fn mix(name: &'static str, scripts: &[(&str, u32)]) -> Mix {
    let scripts = scripts.iter().filter(|(_, weight)| *weight > 0);
    let scripts = scripts.map(|(text, weight)| Script {
        text: (*text).to_owned(),
        weight: *weight,
    });
    Mix {
        name,
        scripts: scripts.collect(),
    }
}

impl Workload {
    /// Returns TPC-C in the mixes of the paper's Table 6.
    fn tpcc(reads: TpccReads) -> Workload {
        let (order, payment) = (tpcc::new_order(reads), tpcc::payment());
        let (status, level) = (tpcc::order_status(), tpcc::stock_level());
        let of = |name, [orders, payments, statuses, levels]: [u32; 4]| {
            let scripts = [
                (&*order, orders),
                (&*payment, payments),
                (&*status, statuses),
                (&*level, levels),
            ];
            mix(name, &scripts)
        };
        Workload {
            name: "TPC-C",
            file: "tpcc",
            schema: tpcc::schema(),
            mixes: vec![
                of("read-only", [0, 0, 50, 50]),
                of("read-heavy", [0, 3, 50, 47]),
                of("balanced", [2, 3, 85, 10]),
                of("write-heavy", [7, 5, 73, 15]),
            ],
            rows: 0,
        }
    }

    /// Returns YCSB in the mixes of the paper's section 7.1.
    fn ycsb(rows: u64) -> Workload {
        let (read, insert) = (balanced::READ, balanced::insert());
        let (scan, update) = (balanced::SCAN, balanced::UPDATE);
        Workload {
            name: "YCSB",
            file: "ycsb",
            schema: balanced::schema(rows),
            mixes: vec![
                mix("read-only", &[(read, 100)]),
                mix("read-heavy", &[(scan, 95), (&insert, 5)]),
                mix("balanced", &[(read, 85), (&insert, 15)]),
                mix("write-heavy", &[(read, 50), (update, 50)]),
            ],
            rows,
        }
    }
}

/// A proxy over some replicas.
struct Size {
    site: DatabaseSite,
    /// The proxy was started with these.
    options: &'static [&'static str],
    /// By mix and way.
    measured: Vec<Vec<Measured>>,
    /// A database without replicas, with as many clients, by mix.
    alone: Vec<Series>,
}

impl Size {
    /// Has a proxy with these options.
    async fn start(&mut self, options: &'static [&'static str]) -> io::Result<()> {
        if self.options != options {
            self.site.stop_proxy()?;
            self.site.start_proxy(options).await?;
            self.options = options;
        }
        Ok(())
    }

    /// Runs a mix in a way through the proxy.
    async fn measure(&mut self, load: &PgbenchLoad, mix: usize, way: usize) -> io::Result<()> {
        self.site.settle().await?;
        let (all_before, there_before) = self.site.batches().await?;
        let sample = load
            .run(self.site.place()?, &[self.site.proxy_id()?])
            .await?;
        let (all, there) = self.site.batches().await?;
        let measured = &mut self.measured[mix][way];
        measured.series.push(sample);
        let share = (there - there_before) / (all - all_before);
        measured.at_replicas.push(share * 100.0);
        Ok(())
    }
}

/// One way's runs.
#[derive(Default)]
struct Measured {
    series: Series,
    /// Of a hundred batches.
    at_replicas: Measurements,
}

/// A workload, run in several ways with several numbers of replicas.
struct Experiment<'a> {
    workload: Workload,
    ways: &'static [MixVariant],
    sizes: Vec<Size>,
    /// The database without replicas.
    lone: Streaming,
    options: &'a MeasureOptions,
    runs: u64,
}

/// Runs `replex bench proxy tpcc`.
pub async fn tpcc(options: &MeasureOptions) -> io::Result<FigureReport> {
    levels(Workload::tpcc(TpccReads::None), options).await
}

/// Runs `replex bench proxy ycsb`.
pub async fn ycsb(options: &MeasureOptions) -> io::Result<FigureReport> {
    levels(Workload::ycsb(options.rows), options).await
}

/// Runs `replex bench proxy classes`.
pub async fn classes(options: &MeasureOptions) -> io::Result<FigureReport> {
    both("classes", (CLASSES, TWO), TpccReads::All, options).await
}

/// Runs `replex bench proxy waits`.
pub async fn waits(options: &MeasureOptions) -> io::Result<FigureReport> {
    both("waits", (WAITS, FOUR), TpccReads::None, options).await
}

/// Runs `replex bench proxy buffers`.
pub async fn buffers(options: &MeasureOptions) -> io::Result<FigureReport> {
    both("buffers", (BUFFERS, TWO), TpccReads::None, options).await
}

/// Measures all mixes of both workloads, and returns the report.
async fn both(
    what: &str,
    (ways, replicas): (&'static [MixVariant], &[usize]),
    reads: TpccReads,
    options: &MeasureOptions,
) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    for workload in [Workload::tpcc(reads), Workload::ycsb(options.rows)] {
        let file = format!("proxy-{what}-{}", workload.file);
        let done = Experiment::done((workload, ways, replicas), options, &mut report).await?;
        if let Some(experiment) = done {
            options.draw_bars(&file, &experiment.bars())?;
        }
    }
    Ok(report)
}

/// Runs `replex bench proxy statements`.
pub async fn statements(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let mut workload = Workload::tpcc(TpccReads::All);
    workload.mixes.retain(|mix| mix.name != "read-only");
    let done = Experiment::done((workload, BALANCING, TWO), options, &mut report).await?;
    if let Some(experiment) = done {
        options.draw_bars("proxy-statements", &experiment.bars())?;
    }
    Ok(report)
}

/// Runs `replex bench proxy parallel`.
pub async fn parallel(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let mut workload = Workload::tpcc(TpccReads::None);
    workload.mixes.retain(|mix| mix.name != "read-only");
    let done = Experiment::done((workload, REPLAY, REPLICAS), options, &mut report).await?;
    if let Some(experiment) = done {
        for (number, mix) in experiment.workload.mixes.iter().enumerate() {
            let file = format!("proxy-parallel-{}", mix.name);
            options.draw_lines(&file, &experiment.lines(number, &RATE))?;
        }
    }
    Ok(report)
}

async fn levels(workload: Workload, options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let done = Experiment::done((workload, LEVELS, REPLICAS), options, &mut report).await?;
    if let Some(experiment) = done {
        for (number, mix) in experiment.workload.mixes.iter().enumerate() {
            let file = format!("proxy-{}-{}", experiment.workload.file, mix.name);
            options.draw_lines(&file, &experiment.lines(number, &RATE))?;
            let file = format!("{file}-time");
            options.draw_lines(&file, &experiment.lines(number, &TIME))?;
        }
    }
    Ok(report)
}

impl<'a> Experiment<'a> {
    /// Runs a workload in these variants with these numbers of replicas, and reports it. Returns
    /// none if this machine cannot hold databases to equal CPU quotas.
    async fn done(
        what: (Workload, &'static [MixVariant], &[usize]),
        options: &'a MeasureOptions,
        report: &mut FigureReport,
    ) -> io::Result<Option<Experiment<'a>>> {
        let mut started = Experiment::start(what, options).await?;
        if let Some(experiment) = &mut started {
            experiment.run().await?;
            experiment.report_rows(report).await?;
        }
        Ok(started)
    }

    async fn start(
        (workload, ways, replicas): (Workload, &'static [MixVariant], &[usize]),
        options: &'a MeasureOptions,
    ) -> io::Result<Option<Experiment<'a>>> {
        if !has_quotas(workload.name) {
            return Ok(None);
        }
        let base = options.base();
        std::fs::create_dir_all(&base)?;
        let mixes = workload.mixes.len();
        let mut sizes = Vec::new();
        for count in replicas {
            let mut site = DatabaseSite::start(&base, &workload.schema, *count, &[]).await?;
            site.hold_back()?;
            let of_ways = || ways.iter().map(|_| Measured::default()).collect();
            sizes.push(Size {
                site,
                options: &[],
                measured: (0..mixes).map(|_| of_ways()).collect(),
                alone: (0..mixes).map(|_| Series::default()).collect(),
            });
        }
        let lone = Streaming::start(&base, &workload.schema, 0).await?;
        note!("each database is held to {SHARE} from here on");
        Ok(Some(Experiment {
            workload,
            ways,
            sizes,
            lone,
            options,
            runs: 0,
        }))
    }

    /// Opens the connections of pools, which takes seconds where many clients come to one database
    /// at once.
    async fn warm_up(&mut self) -> io::Result<()> {
        let mix = self.workload.mixes.len() - 1;
        for size in 0..self.sizes.len() {
            self.options.say_round(0, "warming up");
            let load = self.load(mix, size, Some(self.ways[0]));
            load.run(self.sizes[size].site.place()?, &[]).await?;
        }
        Ok(())
    }

    async fn run(&mut self) -> io::Result<()> {
        self.warm_up().await?;
        for round in 1..=self.options.pairs {
            for mix in 0..self.workload.mixes.len() {
                self.options.say_round(round, self.workload.mixes[mix].name);
                for size in 0..self.sizes.len() {
                    let load = self.load(mix, size, None);
                    let alone = load.run(self.lone.primary.socket(), &[]).await?;
                    self.sizes[size].alone[mix].push(alone);
                    for way in 0..self.ways.len() {
                        let load = self.load(mix, size, Some(self.ways[way]));
                        self.sizes[size].start(self.ways[way].options).await?;
                        self.sizes[size].measure(&load, mix, way).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the load of a mix. Each session first requests the variant `way`; none where there
    /// is no proxy.
    fn load(&mut self, mix: usize, size: usize, way: Option<MixVariant>) -> PgbenchLoad {
        self.runs += 1;
        let clients = CLIENTS_PER_REPLICA * self.sizes[size].site.replicas.len();
        let asks = way.map_or("", |way| way.asks);
        let first = match asks {
            "" => String::new(),
            asks => format!("\\if :first\n{asks};\n\\set first 0\n\\endif\n"),
        };
        let mut load = PgbenchLoad::of("", self.workload.rows, clients, self.options.span());
        let scripts = self.workload.mixes[mix].scripts.iter();
        let scripts = scripts.map(|script| Script {
            text: format!("{first}{}", script.text),
            weight: script.weight,
        });
        load.scripts = scripts.collect();
        let base = balanced::first_key(self.runs);
        load.variables
            .extend([("first", 1), ("n", 0), ("base", base)]);
        load.ramp_up = RAMP_UP;
        load
    }

    async fn report_rows(&self, report: &mut FigureReport) -> io::Result<()> {
        for (number, mix) in self.workload.mixes.iter().enumerate() {
            for size in &self.sizes {
                let count = size.site.replicas.len();
                let what = format!("{} {}, replicas: {count}", self.workload.name, mix.name);
                let alone = size.alone[number].rate();
                report.plain("", &format!("{what}: primary alone"), &alone, "1/s");
                for (way, measured) in self.ways.iter().zip(&size.measured[number]) {
                    let rate = measured.series.rate();
                    let through = format!("{what}: {}", way.name);
                    let baseline = ("primary alone", &alone);
                    report.pair(("", ""), &through, (&rate, "1/s"), baseline);
                    let mean = measured.series.mean_us();
                    report.plain("", &format!("{through}: mean time"), &mean, "µs");
                    let there = format!("{through}: answered by replicas");
                    report.plain("", &there, &measured.at_replicas, "%");
                }
            }
        }
        for size in &self.sizes {
            let count = size.site.replicas.len();
            let what = format!(
                "{}, replicas: {count}: memory of the indexes",
                self.workload.name
            );
            let mut bytes = Measurements::default();
            bytes.push(size.site.index_bytes_max().await? / 1000.0);
            report.plain("H7", &what, &bytes, "kB");
            report.last().target = "< 300 kB".to_owned();
        }
        Ok(())
    }

    /// Returns a chart of a figure of one mix, over the numbers of replicas.
    fn lines(&self, mix: usize, (name, figure): &Figure) -> LineChart {
        let line = |series: &dyn Fn(&Size) -> &Series| {
            let points = self.sizes.iter().map(|size| {
                let count = size.site.replicas.len() as f64;
                (count, figure(series(size)))
            });
            points.collect()
        };
        let ways = self.ways.iter().enumerate();
        let ways = ways.map(|(number, way)| {
            let of_way = line(&|size| &size.measured[mix][number].series);
            (way.name.to_owned(), of_way)
        });
        let alone = ("primary alone".to_owned(), line(&|size| &size.alone[mix]));
        let (workload, mix) = (self.workload.name, self.workload.mixes[mix].name);
        LineChart {
            title: format!("{workload}, {mix}, each database held to {SHARE}"),
            x: "replicas".to_owned(),
            y: (*name).to_owned(),
            x_scale: AxisScale::Linear,
            series: ways.chain([alone]).collect(),
        }
    }

    /// Returns a chart of the rates of all mixes, with the first number of replicas.
    fn bars(&self) -> BarChart {
        let size = &self.sizes[0];
        let groups = self.workload.mixes.iter().zip(&size.measured);
        let groups = groups.map(|(mix, ways)| {
            let rates = ways.iter().map(|way| Some(way.series.rate().median()));
            (mix.name.to_owned(), rates.collect())
        });
        let count = size.site.replicas.len();
        BarChart {
            title: format!(
                "{}, {count} replicas, each database held to {SHARE}",
                self.workload.name
            ),
            y: "transactions per second".to_owned(),
            series: self.ways.iter().map(|way| way.name.to_owned()).collect(),
            groups: groups.collect(),
        }
    }
}
