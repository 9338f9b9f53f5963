//! The common code of measurements of lost servers: several runs, reported with the paper's
//! figures.

use crate::options::MeasureOptions;
use crate::outage::OutageOutcome;
use crate::pairs::Measurements;
use crate::plot::{AxisScale, LineChart};
use crate::report::FigureReport;

/// The paper has ten times as many rows of 100 B as of 1 kB.
const KILOBYTE_SHARE: u64 = 10;

/// Returns rows of 1 kB.
pub fn kilobyte_rows(options: &MeasureOptions) -> u64 {
    (options.failure_rows / KILOBYTE_SHARE).max(2)
}

/// The paper's figures, to be reported with the measured ones.
pub struct PaperFigures<'a> {
    pub what: &'a str,
    /// The paper's recovery time in seconds, and its lookups per second during the recovery. Empty
    /// if the paper gives none.
    pub paper_seconds: &'a str,
    pub paper_rate: &'a str,
}

/// Runs of the same outage.
#[derive(Default)]
pub struct OutageRuns {
    outcomes: Vec<OutageOutcome>,
}

impl OutageRuns {
    /// Adds a run.
    pub fn push(&mut self, outcome: OutageOutcome) {
        note!(
            "  {:.0} lookups/s before, {:.0} during {:.1} s of recovery",
            outcome.before,
            outcome.during,
            outcome.recovery_seconds
        );
        self.outcomes.push(outcome);
    }

    /// Adds the recovery time to the report, and the throughput during the recovery compared with
    /// the throughput before it (F2).
    pub fn add_to(&self, report: &mut FigureReport, published: &PaperFigures<'_>) {
        let figures = |figure: fn(&OutageOutcome) -> f64| {
            let mut figures = Measurements::default();
            self.outcomes.iter().for_each(|it| figures.push(figure(it)));
            figures
        };
        let paper = |figure: &str| match figure {
            "" => String::new(),
            figure => format!("paper: {figure}"),
        };
        let what = published.what;
        let seconds = figures(|outcome| outcome.recovery_seconds);
        report.plain("", &format!("{what}: recovery time"), &seconds, "s");
        report.last().baseline = paper(published.paper_seconds);
        report.pair(
            ("F2", "≥ 0.7 ×"),
            &format!("{what}: lookups until then"),
            (&figures(|outcome| outcome.during), "1/s"),
            ("before", &figures(|outcome| outcome.before)),
        );
        if !published.paper_rate.is_empty() {
            let line = report.last();
            line.baseline = format!("{}; {}", line.baseline, paper(published.paper_rate));
        }
    }

    /// Returns the timeline of the first run.
    pub fn timeline(&self) -> Vec<(f64, f64)> {
        self.outcomes
            .first()
            .map(|it| it.timeline.clone())
            .unwrap_or_default()
    }
}

/// Returns a chart of the throughput over time.
pub fn lines(title: &str, series: Vec<(String, Vec<(f64, f64)>)>) -> LineChart {
    LineChart {
        title: title.to_owned(),
        x: "seconds".to_owned(),
        y: "lookups per second".to_owned(),
        x_scale: AxisScale::Linear,
        series,
    }
}
