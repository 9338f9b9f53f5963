//! `replex bench …`: which measurement, how long, and where its results go.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use crate::experiments;
use crate::plot::{Bars, Lines};
use crate::report::Report;

/// Measure, each figure as a ratio to a baseline.
///
/// Every measurement starts its own processes on this machine, runs baseline and store in turn,
/// prints a table of medians and writes it as CSV, with plots as SVG. On a machine that does
/// something else too, trust ratios and CPU times, not rates.
#[derive(Debug, Parser)]
#[command(
    name = "replex bench",
    after_help = "Examples:\n  \
        replex bench all --seconds 1\n  \
        replex bench lookup\n  \
        replex bench ycsb --rows 100000 --out results\n\n\
        Built with the feature `scale`, it measures the PostgreSQL proxy, too: replex bench scale --help"
)]
pub struct Arguments {
    /// What to measure.
    #[command(subcommand)]
    pub command: Command,
    /// How, and where to.
    #[command(flatten)]
    pub options: Options,
}

/// What all measurements share.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// How long one run lasts; a measurement has several runs per pair.
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0, global = true)]
    pub seconds: f64,
    /// Pairs of baseline and store; below five, medians say little.
    #[arg(long, default_value_t = 5, global = true, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Rows loaded before anything is measured.
    #[arg(long, default_value_t = 20_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub rows: u64,
    /// Rows that `memory` loads; S11 asks for 10,000,000, which takes some minutes.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(2..))]
    pub memory_rows: u64,
    /// Rows of 100 B that `rebuild`, `recovery`, `parametrization` and `sharing` load, and a tenth as
    /// many of 1 kB; the paper has 10,000,000.
    #[arg(long, default_value_t = 200_000, global = true, value_parser = clap::value_parser!(u64).range(20..))]
    pub failure_rows: u64,
    /// Where CSV and SVG files go.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "target/bench",
        global = true
    )]
    pub out: PathBuf,
    /// Where servers keep their data: the disk under measurement. The system's temporary folder
    /// unless told.
    #[arg(long, value_name = "FOLDER", global = true)]
    pub folder: Option<PathBuf>,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// The baselines alone: echo, chain-echo, fsync.
    Baselines,
    /// Lookups by each key: S1, S4, S5.
    Lookup,
    /// Inserts through three replexes: S2, S3, S6.
    Insert,
    /// 64 writers of one row: S9.
    HotKey,
    /// Load, A, B, C, D and F with rows of 100 B and 1 kB: S7, S8.
    Ycsb,
    /// CPU time per operation with 3, 6, 12 and 24 servers: S10.
    Servers,
    /// Memory beside the data held, and restarts: S11.
    Memory,
    /// What a server held is rebuilt, with nothing else to do: F3.
    Rebuild,
    /// Servers lost under reads, with and without a hybrid: F1 to F4, the paper's Tables 3 to 5.
    Recovery,
    /// Hybrids of all shapes, a server of either index lost: the paper's Figures 13 and 14.
    Parametrization,
    /// A hybrid that three indexes share: the paper's Table 6.
    Sharing,
    /// All of them but those of lost servers, which take many minutes, and of the proxy.
    All,
    /// The PostgreSQL proxy, beside what one would use instead: H1 to H5.
    #[cfg(feature = "scale")]
    #[command(subcommand)]
    Scale(crate::scale::Measurement),
}

impl Options {
    /// How long one run lasts.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Tells who waits how far a long measurement is.
    pub fn say_round(&self, round: u32, what: &str) {
        eprintln!("round {round} of {}: {what}", self.pairs);
    }

    /// Where processes keep their data.
    pub fn base(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(std::env::temp_dir)
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_lines(&self, name: &str, lines: &Lines) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), lines.svg())
    }

    /// Writes a plot.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn draw_bars(&self, name: &str, bars: &Bars) -> io::Result<()> {
        std::fs::write(self.out.join(format!("{name}.svg")), bars.svg())
    }
}

/// Runs what the command line asks for.
///
/// # Errors
/// A process does not start, an operation fails, a file cannot be written.
pub fn run(arguments: &Arguments) -> io::Result<()> {
    let options = &arguments.options;
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(io::Error::other(
            "--seconds must be above 0 and at most 3600",
        ));
    }
    std::fs::create_dir_all(&options.out)?;
    let commands = match arguments.command {
        Command::All => vec![
            Command::Baselines,
            Command::Lookup,
            Command::Insert,
            Command::HotKey,
            Command::Ycsb,
            Command::Servers,
            Command::Memory,
        ],
        #[cfg(feature = "scale")]
        Command::Scale(crate::scale::Measurement::All) => {
            crate::scale::ALL.map(Command::Scale).to_vec()
        }
        one => vec![one],
    };
    for command in commands {
        let (name, report) = measure(command, options)?;
        if report.lines.is_empty() {
            // It has said what it lacks.
            continue;
        }
        let path = options.out.join(format!("{name}.csv"));
        report.write_csv(&path)?;
        println!("{name}\n{}\n", report.table());
    }
    println!("CSV and SVG files: {}", options.out.display());
    Ok(())
}

/// One measurement in an event loop of its own.
fn measure(command: Command, options: &Options) -> io::Result<(&'static str, Report)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let report = match command {
            Command::Baselines => ("baselines", experiments::baselines::run(options).await?),
            Command::Lookup => ("lookup", experiments::lookup::run(options).await?),
            Command::Insert => ("insert", experiments::insert::run(options).await?),
            Command::HotKey => ("hot-key", experiments::hot_key::run(options).await?),
            Command::Ycsb => ("ycsb", experiments::ycsb::run(options).await?),
            Command::Servers => ("servers", experiments::servers::run(options).await?),
            Command::Memory => ("memory", experiments::memory::run(options).await?),
            Command::Rebuild => ("rebuild", experiments::rebuild::run(options).await?),
            Command::Recovery => ("recovery", experiments::recovery::run(options).await?),
            Command::Parametrization => {
                let report = experiments::parametrization::run(options).await?;
                ("parametrization", report)
            }
            Command::Sharing => ("sharing", experiments::sharing::run(options).await?),
            Command::All => unreachable!("it was taken apart into the others"),
            #[cfg(feature = "scale")]
            Command::Scale(what) => crate::scale::run(what, options).await?,
        };
        Ok(report)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(format!("bench {words}").split(' '))
    }

    #[test]
    fn options_stand_behind_any_measurement() {
        let arguments = parsed("servers --seconds 0.5 --pairs 3").unwrap();
        assert_eq!(arguments.command, Command::Servers);
        assert_eq!(arguments.options.pairs, 3);
        assert_eq!(arguments.options.span(), Duration::from_millis(500));
        assert!(parsed("lookup --pairs 0").is_err());
        assert!(parsed("nothing").is_err());
    }

    #[cfg(feature = "scale")]
    #[test]
    fn the_proxy_has_measurements_of_its_own() {
        use crate::scale::{ALL, Measurement};

        let names = ["latency", "reads", "balanced", "replay", "outages"];
        for (name, measurement) in names.into_iter().zip(ALL) {
            let arguments = parsed(&format!("scale {name} --rows 300")).unwrap();
            assert_eq!(arguments.command, Command::Scale(measurement));
            assert_eq!(arguments.options.rows, 300);
        }
        let all = parsed("scale all").unwrap();
        assert_eq!(all.command, Command::Scale(Measurement::All));
        assert!(parsed("scale").is_err());
    }
}
