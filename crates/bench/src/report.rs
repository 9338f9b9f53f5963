//! Writes the report of a measurement: a table for people, CSV for programs.

use std::io;
use std::path::Path;

use comfy_table::{CellAlignment, Table, presets};

use crate::measure::Series;
use crate::pairs::Measurements;

/// One figure, with its reference.
#[derive(Clone, Debug)]
pub struct FigureLine {
    /// The target's number, as S1; empty if there is none.
    pub id: String,
    pub what: String,
    pub value: f64,
    /// The least and the greatest value of the runs.
    pub range: (f64, f64),
    pub unit: &'static str,
    pub baseline: String,
    /// The median over pairs of the figure divided by the baseline's.
    pub ratio: f64,
    /// The target of the ratio or of the figure; empty if there is none.
    pub target: String,
}

/// All figures of a run, in the order of their measurement.
#[derive(Clone, Debug, Default)]
pub struct FigureReport {
    pub lines: Vec<FigureLine>,
}

const HEADER: [&str; 9] = [
    "id",
    "what",
    "median",
    "least",
    "greatest",
    "unit",
    "baseline",
    "ratio",
    "must reach",
];

impl FigureReport {
    /// Adds a figure without a baseline.
    pub fn plain(&mut self, id: &str, what: &str, figures: &Measurements, unit: &'static str) {
        self.lines.push(FigureLine {
            id: id.to_owned(),
            what: what.to_owned(),
            value: figures.median(),
            range: figures.range(),
            unit,
            baseline: String::new(),
            ratio: f64::NAN,
            target: String::new(),
        });
    }

    /// Adds a figure and its baseline, which were measured in pairs.
    pub fn pair(
        &mut self,
        (id, target): (&str, &str),
        what: &str,
        (figures, unit): (&Measurements, &'static str),
        (baseline_name, baseline): (&str, &Measurements),
    ) {
        self.plain(id, what, figures, unit);
        let line = self.last();
        line.baseline = format!("{baseline_name} {}", shown(baseline.median()));
        line.ratio = figures.ratio(baseline);
        line.target = target.to_owned();
    }

    /// Returns the figure that was added last.
    ///
    /// # Panics
    /// If there is none.
    pub fn last(&mut self) -> &mut FigureLine {
        self.lines.last_mut().expect("one was added")
    }

    /// Adds the rate and the CPU time of a series.
    pub fn work(&mut self, what: &str, series: &Series) {
        self.plain("", &format!("{what}: rate"), &series.rate(), "1/s");
        self.plain(
            "",
            &format!("{what}: server CPU"),
            &series.server_us(),
            "µs",
        );
        self.plain(
            "",
            &format!("{what}: client CPU"),
            &series.client_us(),
            "µs",
        );
    }

    /// Returns the table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(HEADER);
        for column in [2, 3, 4, 7] {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        for line in &self.lines {
            table.add_row(line.cells());
        }
        table.to_string()
    }

    /// Writes the figures as CSV.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_csv(&self, path: &Path) -> io::Result<()> {
        let mut writer = csv::Writer::from_path(path)?;
        writer.write_record(HEADER)?;
        for line in &self.lines {
            writer.write_record(line.cells())?;
        }
        writer.flush()
    }
}

impl FigureLine {
    fn cells(&self) -> [String; 9] {
        [
            self.id.clone(),
            self.what.clone(),
            shown(self.value),
            shown(self.range.0),
            shown(self.range.1),
            self.unit.to_owned(),
            self.baseline.clone(),
            shown(self.ratio),
            self.target.clone(),
        ]
    }
}

/// Returns a value as text, with two digits after the point, one from 10 on, and none from 100 on.
/// The text is empty for a value that was not measured.
pub fn shown(value: f64) -> String {
    match value.abs() {
        _ if value.is_nan() => String::new(),
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: [f64; 3]) -> Measurements {
        let mut figures = Measurements::default();
        values.into_iter().for_each(|value| figures.push(value));
        figures
    }

    #[test]
    fn csv_has_a_line_per_figure_and_quotes_special_characters() {
        let mut report = FigureReport::default();
        report.plain("", "a, \"b\"", &figures([1.0, 3.0, 200.0]), "µs");
        let ours = figures([15.0, 30.0, 45.0]);
        let baseline = figures([10.0, 20.0, 30.0]);
        let target = ("S1", "≤ 1.5");
        report.pair(target, "lookup", (&ours, "µs"), ("echo", &baseline));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.csv");
        report.write_csv(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], HEADER.join(","));
        assert_eq!(lines[1], ",\"a, \"\"b\"\"\",3.00,1.00,200,µs,,,");
        assert_eq!(lines[2], "S1,lookup,30.0,15.0,45.0,µs,echo 20.0,1.50,≤ 1.5");
        assert!(report.table().contains("echo 20.0"));
    }
}
