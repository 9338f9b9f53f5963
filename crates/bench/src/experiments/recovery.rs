//! Measures reads while one or two servers are lost for good, with and without a hybrid (Replex
//! section 5.2, Figures 11 and 12, Tables 3 to 5; targets F1 to F4).

use std::io;
use std::time::Duration;

use super::failures::{OutageRuns, PaperFigures, kilobyte_rows, lines};
use crate::options::MeasureOptions;
use crate::outage::{IdleRecovery, OutageSite, OutageTable, ServerLoss};
use crate::pairs::Measurements;
use crate::report::FigureReport;
use crate::store::RowShape;

/// The number of the index's copy in the table. The primary key's copy has number 0.
pub const INDEX: usize = 1;
const HYBRID: usize = 2;
/// Reads of both keys alike.
const HALVES: [u32; 2] = [50, 50];

/// Runs `replex bench recovery`.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut report = FigureReport::default();
    let systems = [
        (
            OutageTable::replex_2(),
            [("50 ± 1", "18,989"), ("6.7 ± 0.6", "70,084")],
        ),
        (
            OutageTable {
                name: "Replex-3 (3,4)".to_owned(),
                keys: 2,
                hybrid: Some(vec![3, 4]),
            },
            [("60 ± 1", "65,780"), ("8.7 ± 0.6", "110,280")],
        ),
    ];
    let shapes = [
        ("table 3, 100 B", options.failure_rows, 10),
        ("table 4, 1 kB", kilobyte_rows(options), 100),
    ];
    for (position, (table, rows, field_bytes)) in shapes.into_iter().enumerate() {
        let shape = RowShape { rows, field_bytes };
        let mut plotted = Vec::new();
        for (grid, paper) in &systems {
            let mut site = OutageSite::new(options, grid, shape, 1).await?;
            let what = format!("{table}, {}", grid.name);
            memory(&mut report, &what, &site)?;
            // Without quotas and load: the limit of one machine.
            let quiet = site.quiet_loss(&[(INDEX, 0)]).await?;
            add_quiet(&mut report, &what, quiet);
            site.hold_back();
            let (seconds, rate) = paper[position];
            let published = PaperFigures {
                what: &what,
                paper_seconds: seconds,
                paper_rate: rate,
            };
            let losses = [ServerLoss {
                at: options.span(),
                holder_of: (INDEX, 0),
            }];
            let mut runs = OutageRuns::default();
            for _ in 0..options.pairs {
                runs.push(site.outage(&HALVES, &losses, options.span()).await?);
            }
            runs.add_to(&mut report, &published);
            plotted.push((grid.name.clone(), runs.timeline()));
            if grid.hybrid.is_some() {
                write_gaps(&mut report, options, &mut site, &what).await?;
            }
        }
        let title = format!("Reads while a server is lost, {rows} rows ({table})");
        let name = ["recovery-100B", "recovery-1kB"][position];
        options.draw_lines(name, &lines(&title, plotted))?;
    }
    two(options, &mut report, &systems[1].0).await?;
    Ok(report)
}

/// Measures the loss of two servers, one after the other, with two spare servers.
async fn two(
    options: &MeasureOptions,
    report: &mut FigureReport,
    grid: &OutageTable,
) -> io::Result<()> {
    let shape = RowShape {
        rows: kilobyte_rows(options),
        field_bytes: 100,
    };
    let mut site = OutageSite::new(options, grid, shape, 2).await?;
    let what = format!("table 5, 1 kB, two lost, {}", grid.name);
    let quiet = site.quiet_loss(&[(INDEX, 0), (HYBRID, 0)]).await?;
    add_quiet(report, &what, quiet);
    site.hold_back();
    // The second one a fifth of the paper's 25 seconds later, as there.
    let second = options.span() + options.span() / 5;
    let losses = [
        ServerLoss {
            at: options.span(),
            holder_of: (INDEX, 0),
        },
        ServerLoss {
            at: second,
            holder_of: (HYBRID, 0),
        },
    ];
    let mut runs = OutageRuns::default();
    for _ in 0..options.pairs {
        runs.push(site.outage(&HALVES, &losses, options.span()).await?);
    }
    let published = PaperFigures {
        what: &what,
        paper_seconds: "37.6 ± 1.2",
        paper_rate: "60,844",
    };
    runs.add_to(report, &published);
    let title = format!(
        "Reads while two servers are lost, {} rows of 1 kB",
        shape.rows
    );
    let timeline = vec![(grid.name.clone(), runs.timeline())];
    options.draw_lines("recovery-two", &lines(&title, timeline))
}

fn memory(report: &mut FigureReport, what: &str, site: &OutageSite) -> io::Result<()> {
    let mut figures = Measurements::default();
    figures.push(site.resident_bytes()? as f64 / f64::from(1 << 20));
    report.plain(
        "",
        &format!("{what}: memory of all servers"),
        &figures,
        "MiB",
    );
    Ok(())
}

/// Adds targets F3 and F4 to the report.
fn add_quiet(report: &mut FigureReport, what: &str, quiet: IdleRecovery) {
    let single = |value: f64| {
        let mut figures = Measurements::default();
        figures.push(value);
        figures
    };
    report.pair(
        ("F4", "1 ×"),
        &format!("{what}: partitions per lookup of what is lost"),
        (&single(quiet.measured), ""),
        ("the grid predicts", &single(quiet.predicted)),
    );
    let rate = quiet.rows as f64 / quiet.seconds;
    report.plain(
        "F3",
        &format!("{what}: {} rows rebuilt, no quotas, no load", quiet.rows),
        &single(rate),
        "1/s",
    );
}

/// Measures target F1, the gap in writes after the loss of a server, and adds it to the report.
async fn write_gaps(
    report: &mut FigureReport,
    options: &MeasureOptions,
    site: &mut OutageSite,
    what: &str,
) -> io::Result<()> {
    let mut gaps = Measurements::default();
    for _ in 0..options.pairs {
        let loss = ServerLoss {
            at: options.span(),
            holder_of: (INDEX, 0),
        };
        let gap: Duration = site.write_gap(loss, options.span()).await?;
        gaps.push(gap.as_secs_f64());
    }
    let text = format!("{what}: longest gap in writes to its rows");
    report.plain("F1", &text, &gaps, "s");
    Ok(())
}
