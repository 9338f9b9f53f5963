//! The options that all measurements share.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::plot::{BarChart, LineChart};

/// The options that all measurements share.
#[derive(Args, Clone, Debug)]
pub struct MeasureOptions {
    /// The duration of one run. A measurement has several runs for each pair.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, global = true)]
    pub seconds: f64,
    /// The number of pairs of baseline and store. With fewer than five pairs, medians mean little.
    #[arg(long, default_value_t = 5, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// The number of rows that are loaded before a measurement.
    #[arg(long, default_value_t = 20_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub rows: u64,
    /// Rows that `memory` loads; S11 asks for 10,000,000, which takes some minutes.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub memory_rows: u64,
    /// Tables that `tables` creates.
    #[arg(long, default_value_t = 10_000, global = true, value_parser = clap::value_parser!(u32).range(1000..=16_000))]
    pub tables: u32,
    /// Rows that `import` loads; S12 asks for 1,000,000.
    #[arg(long, default_value_t = 1_000_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub import_rows: u64,
    /// Rows of 100 B that `rebuild`, `recovery`, `killed`, `parametrization` and `sharing` load,
    /// and a tenth as many of 1 kB; the paper has 10,000,000.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(20..))]
    pub failure_rows: u64,
    /// The folder of the CSV and SVG files.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "target/bench",
        global = true
    )]
    pub out: PathBuf,
    /// The folder of the servers' data, which determines the measured disk. The system's temporary
    /// folder by default.
    #[arg(long, value_name = "FOLDER", global = true)]
    pub folder: Option<PathBuf>,
}

impl MeasureOptions {
    /// Returns the duration of one run.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Prints the progress of a long measurement.
    pub fn say_round(&self, round: u32, what: &str) {
        note!("round {round} of {}: {what}", self.pairs);
    }

    /// Returns the folder of the processes' data.
    pub fn base(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_lines(&self, name: &str, lines: &LineChart) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), lines.svg())
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_bars(&self, name: &str, bars: &BarChart) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), bars.svg())
    }
}
