//! Measures clusters of 3 to 24 servers on one machine, in memory. The CPU time per operation
//! should not rise, because an operation involves the same number of servers in each cluster (S10).
//!
//! The rates have no meaning, because all servers share the machine's few cores.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use client::Table;
use placement::Durability;

use crate::measure::{Series, run as measure};
use crate::options::MeasureOptions;
use crate::plot::{AxisScale, LineChart};
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, InsertWorker, LookupWorker, RowShape};

const SIZES: [usize; 4] = [3, 6, 12, 24];
const CLIENTS: usize = 4;
/// Load grows with the servers, so that each has as much to do at once.
const WORKERS_PER_SERVER: usize = 8;
const TABLE: &str = "scale";

/// A cluster with its table, filled.
struct OutageSite {
    cluster: BenchCluster,
    tables: Vec<Table>,
    keys: Rc<Vec<Vec<u8>>>,
    next: Rc<Cell<u64>>,
    lookups: Series,
    inserts: Series,
}

/// Runs `replex bench servers`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let shape = RowShape {
        rows: options.rows,
        field_bytes: 10,
    };
    let mut sites = Vec::new();
    for size in SIZES {
        sites.push(site(options, shape, size).await?);
    }
    for _ in 0..options.pairs {
        for site in &mut sites {
            let ids = site.cluster.server_ids();
            let count = WORKERS_PER_SERVER * ids.len();
            let tables = || site.tables.iter().cycle().take(count).cloned();
            let workers = tables()
                .zip(0..)
                .map(|(table, seed)| LookupWorker::new(table, 0, site.keys.clone(), seed));
            let sample = measure(workers.collect(), options.span(), &ids).await?;
            site.lookups.push(sample);
            let workers = tables().map(|table| InsertWorker {
                table,
                field_bytes: shape.field_bytes,
                next: site.next.clone(),
                end: u64::MAX,
            });
            let sample = measure(workers.collect(), options.span(), &ids).await?;
            site.inserts.push(sample);
        }
    }
    let mut report = FigureReport::default();
    for (what, figures) in [
        (
            "lookup",
            &(|site: &OutageSite| site.lookups.server_us()) as &dyn Fn(&OutageSite) -> _,
        ),
        ("insert", &|site: &OutageSite| site.inserts.server_us()),
    ] {
        for (site, size) in sites.iter().zip(SIZES) {
            report.pair(
                ("S10", "0.9 to 1.1 ×"),
                &format!("{what}, {size} servers: server CPU"),
                (&figures(site), "µs"),
                ("3 servers", &figures(&sites[0])),
            );
        }
    }
    options.draw_lines("servers", &plot(&sites))?;
    Ok(report)
}

fn plot(sites: &[OutageSite]) -> LineChart {
    let line = |figure: fn(&OutageSite) -> f64| {
        let points = sites.iter().zip(SIZES);
        points
            .map(|(site, size)| (size as f64, figure(site)))
            .collect()
    };
    LineChart {
        title: "CPU per operation as the cluster grows".to_owned(),
        x: "servers".to_owned(),
        y: "server CPU per operation, µs".to_owned(),
        x_scale: AxisScale::Linear,
        series: vec![
            (
                "insert through three replexes".to_owned(),
                line(|site| site.inserts.server_us().median()),
            ),
            (
                "lookup".to_owned(),
                line(|site| site.lookups.server_us().median()),
            ),
        ],
    }
}

async fn site(options: &MeasureOptions, shape: RowShape, size: usize) -> io::Result<OutageSite> {
    let cluster = BenchCluster::start(
        &options.base(),
        size,
        ServerKind {
            memory: true,
            ..ServerKind::default()
        },
    )?;
    let clients = store::clients(&cluster, CLIENTS).await?;
    let table = store::create(&clients[0], TABLE, Durability::Replicated).await?;
    store::load(&table, shape).await?;
    Ok(OutageSite {
        tables: store::tables(&clients, TABLE).await?,
        keys: Rc::new(store::encoded_keys(shape, 0)),
        next: Rc::new(Cell::new(shape.rows)),
        cluster,
        lookups: Series::default(),
        inserts: Series::default(),
    })
}
