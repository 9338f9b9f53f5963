//! YCSB with 32 clients, rows of 100 B and 1 kB, `replicated`, compared with `echo` with as many
//! connections, and with published figures of rivals (S7, S8).

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use client::Table;
use placement::Durability;

use super::LOOKUP_FRAME_BYTES;
use crate::baselines::BaselineChain;
use crate::measure::{Series, latency_plot, run as measure};
use crate::options::MeasureOptions;
use crate::plot::BarChart;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::{FigureReport, shown};
use crate::store::{self, InsertWorker, RowShape};
use crate::ycsb::{WORKLOADS, YcsbClient, YcsbRows};

const CLIENTS: usize = 32;
const NAMES: [&str; 6] = ["Load", "A", "B", "C", "D", "F"];
/// Server CPU per operation, µs, of HyperDex's last source, with three servers, two failures, ten
/// fields and 32 clients on a machine of two cores. Single runs, ± 25%. F was not measured.
const HYPERDEX_US: [(usize, [Option<f64>; 6]); 2] = [
    (
        10,
        [
            Some(268.0),
            Some(120.0),
            Some(34.0),
            Some(18.0),
            Some(36.0),
            None,
        ],
    ),
    (
        100,
        [
            Some(342.0),
            Some(163.0),
            Some(29.0),
            Some(16.0),
            Some(43.0),
            None,
        ],
    ),
];
/// The same of Cassandra 5.0.9, three copies, writes acknowledged by one, 100 B.
const CASSANDRA_US: [Option<f64>; 6] = [
    Some(280.0),
    Some(191.0),
    Some(157.0),
    Some(137.0),
    Some(123.0),
    None,
];

/// The results at one row size.
struct Measured {
    /// In the order of [`NAMES`].
    workloads: Vec<Series>,
    /// The echo that ran just before each.
    echoes: Vec<Series>,
}

/// Runs `replex bench ycsb`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    for (field_bytes, hyperdex) in HYPERDEX_US {
        let size = if field_bytes == 10 { "100 B" } else { "1 kB" };
        let it = rows_of(options, field_bytes).await?;
        add_to(&mut report, size, &it, &hyperdex);
        let series: Vec<(&str, &Series)> = NAMES.into_iter().zip(&it.workloads).collect();
        let file = size.replace(' ', "");
        let plot = latency_plot(&format!("YCSB, 32 clients, rows of {size}"), &series);
        options.draw_lines(&format!("ycsb-latency-{file}"), &plot)?;
        let cassandra = (field_bytes == 10).then_some(&CASSANDRA_US);
        let bars = bars(size, &it, &hyperdex, cassandra);
        options.draw_bars(&format!("ycsb-cpu-{file}"), &bars)?;
    }
    Ok(report)
}

async fn rows_of(options: &MeasureOptions, field_bytes: usize) -> io::Result<Measured> {
    let shape = RowShape {
        rows: options.rows,
        field_bytes,
    };
    let cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let echo = BaselineChain::start(cluster.folder(), 1)?;
    let clients = store::clients(&cluster, CLIENTS).await?;
    let table = store::create(&clients[0], "usertable", Durability::Replicated).await?;
    store::load(&table, shape).await?;
    let tables = store::tables(&clients, "usertable").await?;
    store::create(&clients[0], "load", Durability::Replicated).await?;
    let loaded = store::tables(&clients, "load").await?;

    let next = Rc::new(Cell::new(0));
    let shared = Rc::new(RefCell::new(YcsbRows::new(shape.rows)));
    let (ids, echo_ids, span) = (cluster.server_ids(), echo.ids(), options.span());
    let mut it = Measured {
        workloads: vec![Series::default(); NAMES.len()],
        echoes: vec![Series::default(); NAMES.len()],
    };
    for pair in 0..options.pairs {
        for position in 0..NAMES.len() {
            let workers = echo.windows(CLIENTS, 1, LOOKUP_FRAME_BYTES).await?;
            it.echoes[position].push(measure(workers, span, &echo_ids).await?);
            let sample = if position == 0 {
                measure(inserts(&loaded, field_bytes, &next), span, &ids).await?
            } else {
                let workload = WORKLOADS[position - 1];
                let seeds = u64::from(pair) * 1000..;
                let workers = tables.iter().zip(seeds);
                let workers = workers.map(|(table, seed)| {
                    YcsbClient::new(table.clone(), workload, shape, shared.clone(), seed)
                });
                measure(workers.collect(), span, &ids).await?
            };
            it.workloads[position].push(sample);
        }
    }
    Ok(it)
}

fn inserts(tables: &[Table], field_bytes: usize, next: &Rc<Cell<u64>>) -> Vec<InsertWorker> {
    tables
        .iter()
        .map(|table| InsertWorker {
            table: table.clone(),
            field_bytes,
            next: next.clone(),
            end: u64::MAX,
        })
        .collect()
}

fn add_to(report: &mut FigureReport, size: &str, it: &Measured, hyperdex: &[Option<f64>; 6]) {
    for (position, name) in NAMES.into_iter().enumerate() {
        let (series, echo) = (&it.workloads[position], &it.echoes[position]);
        let (id, share) = match name {
            "Load" | "A" => ("S7", 4.0),
            "F" => ("", f64::NAN),
            _ => ("S8", 1.5),
        };
        let what = format!("YCSB {name}, {size}");
        let target = hyperdex[position].map_or(String::new(), |rival| {
            format!("≤ {} µs (HyperDex {rival} µs)", shown(rival / share))
        });
        report.pair(
            (id, &target),
            &format!("{what}: server CPU"),
            (&series.server_us(), "µs"),
            ("echo", &echo.server_us()),
        );
        report.pair(
            ("", ""),
            &format!("{what}: rate"),
            (&series.rate(), "1/s"),
            ("echo", &echo.rate()),
        );
        report.plain(
            "",
            &format!("{what}: client CPU"),
            &series.client_us(),
            "µs",
        );
        report.plain("", &format!("{what}: p50"), &series.p50_us(), "µs");
    }
}

fn bars(
    size: &str,
    it: &Measured,
    hyperdex: &[Option<f64>; 6],
    cassandra: Option<&[Option<f64>; 6]>,
) -> BarChart {
    let mut series = vec!["Replex".to_owned(), "HyperDex".to_owned()];
    series.extend(cassandra.map(|_| "Cassandra 5, writes at ONE".to_owned()));
    let groups = NAMES.into_iter().enumerate().map(|(position, name)| {
        let ours = it.workloads[position].server_us().median();
        let mut values = vec![Some(ours), hyperdex[position]];
        values.extend(cassandra.map(|values| values[position]));
        (name.to_owned(), values)
    });
    BarChart {
        title: format!("YCSB, rows of {size}: server CPU per operation"),
        y: "µs, all servers together".to_owned(),
        groups: groups.collect(),
        series,
    }
}
