//! TPC-C in the paper's four mixes, at each level of consistency, with more and more Extensions, each database
//! held to an equal share of a core (the paper's Figure 2 and, of the times, Figure 4).

use std::io;

use super::databases::Site;
use super::pgbench::{Load, Script};
use super::{CLIENTS_PER_EXTENSION, RAMP_UP, SHARE, has_quotas, tpcc};
use crate::command::Options;
use crate::measure::Series;
use crate::plot::{Lines, Scale};
use crate::report::Report;

const EXTENSIONS: [usize; 3] = [1, 2, 4];

/// The proxy's levels; the first is what it promises unless told otherwise.
const LEVELS: [&str; 4] = ["gssi", "weak", "rsi-pc", "1sr"];

/// A mix of the paper's Table 6, in hundredths.
struct Mix {
    name: &'static str,
    file: &'static str,
    new_order: u32,
    payment: u32,
    order_status: u32,
    stock_level: u32,
}

const MIXES: [Mix; 4] = [
    Mix {
        name: "read-only",
        file: "scale-tpcc-read-only",
        new_order: 0,
        payment: 0,
        order_status: 50,
        stock_level: 50,
    },
    Mix {
        name: "read-heavy",
        file: "scale-tpcc-read-heavy",
        new_order: 0,
        payment: 3,
        order_status: 50,
        stock_level: 47,
    },
    Mix {
        name: "balanced",
        file: "scale-tpcc-balanced",
        new_order: 2,
        payment: 3,
        order_status: 85,
        stock_level: 10,
    },
    Mix {
        name: "write-heavy",
        file: "scale-tpcc-write-heavy",
        new_order: 7,
        payment: 5,
        order_status: 73,
        stock_level: 15,
    },
];

/// A proxy over so many Extensions, and what was measured: by mix and level, and of its Primary alone by mix.
struct Size {
    site: Site,
    measured: [[Series; LEVELS.len()]; MIXES.len()],
    alone: [Series; MIXES.len()],
}

/// `replex bench scale tpcc`
pub async fn run(options: &Options) -> io::Result<Report> {
    if !has_quotas("TPC-C") {
        return Ok(Report::default());
    }
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let mut sizes = Vec::new();
    for count in EXTENSIONS {
        let mut site = Site::start(&base, &tpcc::schema(), (count, &[])).await?;
        site.hold_back()?;
        sizes.push(Size {
            site,
            measured: Default::default(),
            alone: Default::default(),
        });
    }
    eprintln!("each database is held to {SHARE} from here on");
    for _ in 0..options.pairs {
        for (number, mix) in MIXES.iter().enumerate() {
            for size in &mut sizes {
                let alone = load(mix, None, size, options);
                let alone = alone.run(size.site.primary.socket(), &[]).await?;
                size.alone[number].push(alone);
                for (level, name) in LEVELS.into_iter().enumerate() {
                    let load = load(mix, Some(name), size, options);
                    let place = size.site.place()?;
                    let sample = load.run(place, &[size.site.proxy_id()?]).await?;
                    size.measured[number][level].push(sample);
                }
            }
        }
    }
    let mut report = Report::default();
    for (number, mix) in MIXES.iter().enumerate() {
        tell(&mut report, (number, mix), &sizes);
        options.draw_lines(mix.file, &plot((number, mix), &sizes))?;
    }
    Ok(report)
}

/// A mix at a level, which sessions ask for at first; none where there is no proxy.
fn load(mix: &Mix, level: Option<&str>, size: &Size, options: &Options) -> Load {
    let clients = CLIENTS_PER_EXTENSION * size.site.extensions.len();
    let first = level.map_or(String::new(), |level| {
        format!("\\if :first\nSET replex.consistency = '{level}';\n\\set first 0\n\\endif\n")
    });
    let parts = [
        (tpcc::new_order(), mix.new_order),
        (tpcc::payment(), mix.payment),
        (tpcc::order_status(), mix.order_status),
        (tpcc::stock_level(), mix.stock_level),
    ];
    let scripts = parts.into_iter().filter(|(_, weight)| *weight > 0);
    let scripts = scripts.map(|(text, weight)| Script {
        text: format!("{first}{text}"),
        weight,
    });
    let mut load = Load::of("", 0, clients, options.span());
    load.scripts = scripts.collect();
    load.variables.push(("first", 1));
    load.ramp_up = RAMP_UP;
    load
}

fn tell(report: &mut Report, (number, mix): (usize, &Mix), sizes: &[Size]) {
    for (size, count) in sizes.iter().zip(EXTENSIONS) {
        let what = format!("TPC-C {}, Extensions: {count}", mix.name);
        let alone = size.alone[number].rate();
        report.plain("", &format!("{what}: Primary alone"), &alone, "1/s");
        for (level, name) in LEVELS.into_iter().enumerate() {
            let series = &size.measured[number][level];
            let rate = series.rate();
            let through = format!("{what}: {name}");
            report.pair(
                ("", ""),
                &through,
                (&rate, "1/s"),
                ("Primary alone", &alone),
            );
            let p50 = format!("{through}: p50");
            report.plain("", &p50, &series.p50_us(), "µs");
        }
    }
}

fn plot((number, mix): (usize, &Mix), sizes: &[Size]) -> Lines {
    let line = |series: &dyn Fn(&Size) -> &Series| {
        let points = sizes.iter().zip(EXTENSIONS);
        let points = points.map(|(size, count)| (count as f64, series(size).rate().median()));
        points.collect()
    };
    let mut all: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (level, name) in LEVELS.into_iter().enumerate() {
        all.push((name.to_owned(), line(&|size| &size.measured[number][level])));
    }
    all.push((
        "Primary alone".to_owned(),
        line(&|size| &size.alone[number]),
    ));
    Lines {
        title: format!("TPC-C, {}, each database held to {SHARE}", mix.name),
        x: "Extensions".to_owned(),
        y: "transactions per second".to_owned(),
        x_scale: Scale::Linear,
        series: all,
    }
}
