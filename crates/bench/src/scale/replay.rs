//! How quickly an Extension makes up for what was written while the proxy was away, with one
//! connection, which is serial replay, and with several (H5).
//!
//! The load is TPC-C's two transactions that write most, New-Order and Payment, as often as there (45 to
//! 43), over ten warehouses: it goes to the Primary directly while there is no proxy. Orders have ten
//! lines, which is TPC-C's mean, customers are found by number, and reads that leave nothing behind are
//! left out. The time is that between two commits at the Extension, the first and the last of what
//! it missed, by its own clock.
//!
//! And how long an Extension takes for one statement that changes many rows, beside what that took at the
//! Primary.

use std::io;
use std::time::Instant;

use super::databases::{Site, ask, await_row, connect};
use super::pgbench::{Load, Script};
use super::tpcc;
use crate::command::Options;
use crate::pairs::Figures;
use crate::plot::{Lines, Scale};
use crate::report::Report;

/// Connections at the Extension. The first is serial replay, the third what the proxy has unless told
/// otherwise.
const CONNECTIONS: [usize; 4] = [1, 2, 4, 8];
const DEFAULT: usize = 4;
const CLIENTS: usize = 8;
/// What is written down of each run, and what single statements change.
const RUNS: &str = "
CREATE TABLE run (number bigint, what text, PRIMARY KEY (number, what));
CREATE TABLE many (id int PRIMARY KEY, kind int, word text, changed timestamptz)";
/// Rows that one statement changes.
const MANY: u64 = 50_000;

/// Statements that change many rows of `many`, one after the other.
fn statements() -> [(&'static str, String); 3] {
    let insert = format!(
        "INSERT INTO many SELECT n, n % 100, 'row ' || n, now() FROM generate_series(1, {MANY}) n"
    );
    let update = "UPDATE many SET kind = kind + 1, changed = now()";
    [
        ("INSERT", insert),
        ("UPDATE", update.to_owned()),
        ("DELETE", "DELETE FROM many".to_owned()),
    ]
}

/// `replex bench scale replay`
pub async fn run(options: &Options) -> io::Result<Report> {
    let base = options.base();
    std::fs::create_dir_all(&base)?;
    let settings = ["track_commit_timestamp=on"];
    let schema = format!("{RUNS}; {}", tpcc::schema());
    let mut site = Site::start(&base, &schema, (1, &settings)).await?;
    let mut measured = CONNECTIONS.map(|_| Figures::default());
    let mut run = 0;
    for round in 1..=options.pairs {
        options.say_round(round, "replay");
        for (connections, figures) in CONNECTIONS.into_iter().zip(&mut measured) {
            run += 1;
            figures.push(rate(&mut site, (run, connections), options).await?);
        }
    }
    let many = many_rows(&site, options).await?;
    let mut report = Report::default();
    let serial = ("serial", &measured[0]);
    for (connections, figures) in CONNECTIONS.into_iter().zip(&measured) {
        let what = format!("replay on {connections} at a time");
        let own = (figures, "1/s");
        match connections {
            1 => report.plain("", &what, figures, "1/s"),
            DEFAULT => report.pair(("H5", "≥ 1.7 ×"), &what, own, serial),
            _ => report.pair(("", ""), &what, own, serial),
        }
    }
    for ((name, _), [primary, extension]) in statements().into_iter().zip(&many) {
        let what = format!("{name} of {MANY} rows: from its answer until the Extension has it");
        report.pair(
            ("", ""),
            &what,
            (extension, "s"),
            ("the statement itself", primary),
        );
    }
    let points = CONNECTIONS.into_iter().zip(&measured);
    let points = points.map(|(count, figures)| (count as f64, figures.median()));
    let plot = Lines {
        title: "New-Order and Payment of TPC-C, replayed at one Extension".to_owned(),
        x: "connections".to_owned(),
        y: "transactions per second".to_owned(),
        x_scale: Scale::Linear,
        series: vec![("replay".to_owned(), points.collect())],
    };
    options.draw_lines("scale-replay", &plot)?;
    Ok(report)
}

/// For each statement that changes many rows, how long it takes at the Primary, and from there until the
/// Extension has it; seconds.
async fn many_rows(site: &Site, options: &Options) -> io::Result<[[Figures; 2]; 3]> {
    let primary = connect(site.primary.socket()).await?;
    let extension = connect(site.extensions[0].socket()).await?;
    let mut measured = statements().map(|_| [Figures::default(), Figures::default()]);
    for run in 0..options.pairs {
        for (number, (_, statement)) in statements().into_iter().enumerate() {
            let name = format!("many {run}");
            let marked =
                format!("BEGIN; {statement}; INSERT INTO run VALUES ({number}, '{name}'); COMMIT");
            let begun = Instant::now();
            ask(&primary, &marked).await?;
            measured[number][0].push(begun.elapsed().as_secs_f64());
            let answered = Instant::now();
            let there = format!("SELECT 1 FROM run WHERE number = {number} AND what = '{name}'");
            await_row(&extension, &there).await?;
            measured[number][1].push(answered.elapsed().as_secs_f64());
        }
    }
    Ok(measured)
}

/// Has the Extension miss a load, and gives how many transactions a second it makes up for.
async fn rate(
    site: &mut Site,
    (run, connections): (u64, usize),
    options: &Options,
) -> io::Result<f64> {
    let primary = connect(site.primary.socket()).await?;
    site.stop_proxy()?;
    ask(
        &primary,
        &format!("INSERT INTO run VALUES ({run}, 'begun')"),
    )
    .await?;
    let sample = load(options).run(site.primary.socket(), &[]).await?;
    ask(
        &primary,
        &format!("INSERT INTO run VALUES ({run}, 'ended')"),
    )
    .await?;
    let connections = connections.to_string();
    site.start_proxy(&["--replay-connections", &connections])
        .await?;
    let extension = connect(site.extensions[0].socket()).await?;
    let took = format!(
        "SELECT extract(epoch FROM pg_xact_commit_timestamp(ended.xmin)
                                 - pg_xact_commit_timestamp(begun.xmin))
           FROM run begun, run ended
          WHERE begun.number = {run} AND begun.what = 'begun'
            AND ended.number = {run} AND ended.what = 'ended'"
    );
    let seconds: f64 = await_row(&extension, &took)
        .await?
        .parse()
        .map_err(io::Error::other)?;
    Ok(sample.operations as f64 / seconds)
}

fn load(options: &Options) -> Load {
    let mut load = Load::of(
        &tpcc::new_order(tpcc::Reads::None),
        0,
        CLIENTS,
        options.span(),
    );
    load.scripts[0].weight = 45;
    load.scripts.push(Script {
        text: tpcc::payment(),
        weight: 43,
    });
    load
}
