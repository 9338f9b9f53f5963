//! Measures reads alone, with a rising number of replicas. Each database gets an equal share of a
//! core (H3, the paper's Figure 3 (a)).
//!
//! Each number of replicas has its own primary and its own proxy, so that the runs can alternate.

use std::io;

use super::databases::DatabaseSite;
use super::latency::{SELECT, schema};
use super::pgbench::PgbenchLoad;
use super::{CLIENTS_PER_REPLICA, RAMP_UP, SHARE, has_quotas};
use crate::measure::Series;
use crate::options::MeasureOptions;
use crate::plot::{AxisScale, LineChart};
use crate::report::FigureReport;

const REPLICAS: [usize; 4] = [1, 2, 3, 4];

/// The results with one number of replicas.
#[derive(Default)]
struct Measured {
    /// Its primary, asked directly by as many clients.
    alone: Series,
    proxy: Series,
}

/// Runs `replex bench proxy reads`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    if !has_quotas("H3") {
        return Ok(FigureReport::default());
    }
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let mut sites = Vec::new();
    for count in REPLICAS {
        let mut site = DatabaseSite::start(&base, &schema(options.rows), count, &[]).await?;
        site.hold_back()?;
        sites.push((site, Measured::default()));
    }
    note!("each database is held to {SHARE} from here on");
    // The first round opens the pool's connections, and does not count.
    for round in 0..=options.pairs {
        options.say_round(round, "reads");
        for (site, measured) in &mut sites {
            let clients = CLIENTS_PER_REPLICA * site.replicas.len();
            let mut load = PgbenchLoad::of(SELECT, options.rows, clients, options.span());
            load.ramp_up = RAMP_UP;
            let alone = load.run(site.primary.socket(), &[]).await?;
            let proxy = load.run(site.place()?, &[site.proxy_id()?]).await?;
            if round > 0 {
                measured.alone.push(alone);
                measured.proxy.push(proxy);
            }
        }
    }
    let measured: Vec<&Measured> = sites.iter().map(|(_, measured)| measured).collect();
    options.draw_lines("proxy-reads", &plot(&measured))?;
    Ok(report(&measured))
}

fn report(measured: &[&Measured]) -> FigureReport {
    let mut report = FigureReport::default();
    let one = measured[0].proxy.rate();
    for (it, count) in measured.iter().zip(REPLICAS) {
        let what = format!("reads, replicas: {count}");
        let alone = it.alone.rate();
        let of_primary = format!("{what}: rate of the primary asked directly");
        report.plain("", &of_primary, &alone, "1/s");
        let target = match count {
            4 => ("H3", "≥ 3.4 ×"),
            _ => ("", ""),
        };
        let rate = it.proxy.rate();
        let through = format!("{what}: rate through the proxy");
        report.pair(target, &through, (&rate, "1/s"), ("one replica", &one));
        report.pair(
            ("", ""),
            &through,
            (&rate, "1/s"),
            ("primary directly", &alone),
        );
        report.plain(
            "",
            &format!("{what}: CPU of the proxy"),
            &it.proxy.server_us(),
            "µs",
        );
    }
    report
}

fn plot(measured: &[&Measured]) -> LineChart {
    let line = |rate: &dyn Fn(&Measured, usize) -> f64| {
        let points = measured.iter().zip(REPLICAS);
        points
            .map(|(it, count)| (count as f64, rate(it, count)))
            .collect()
    };
    let one = measured[0].proxy.rate().median();
    LineChart {
        title: format!("Reads by key, each database held to {SHARE}"),
        x: "replicas".to_owned(),
        y: "reads per second".to_owned(),
        x_scale: AxisScale::Linear,
        series: vec![
            (
                "through the proxy".to_owned(),
                line(&|it, _| it.proxy.rate().median()),
            ),
            (
                "so many times one replica".to_owned(),
                line(&|_, count| one * count as f64),
            ),
            (
                "primary, asked directly".to_owned(),
                line(&|it, _| it.alone.rate().median()),
            ),
        ],
    }
}
