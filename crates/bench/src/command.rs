//! The command line of `replex bench`: it names the measurement, its duration, and the folder of
//! its results.

use std::io;

use clap::{Parser, Subcommand};

use crate::experiments;
use crate::options::MeasureOptions;
use crate::report::FigureReport;

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
        Built with the feature `proxy`, it measures the PostgreSQL proxy, too: replex bench proxy --help"
)]
pub struct MeasureArguments {
    /// The measurement.
    #[command(subcommand)]
    pub command: BenchCommand,
    /// The options of the measurement, such as its duration and the folder of its results.
    #[command(flatten)]
    pub options: MeasureOptions,
}

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum BenchCommand {
    /// The baselines alone: echo, chain-echo, fsync.
    Baselines,
    /// Lookups by each key: S1, S4, S5.
    Lookup,
    /// Inserts through three replexes: S2, S3, S6.
    Insert,
    /// `replex import` of CSV, compared with COPY of PostgreSQL, which must be installed: S12.
    Import,
    /// 64 writers of one row: S9.
    HotKey,
    /// Writes of a table while another table gets an index, and while 500 other tables are created.
    Changes,
    /// Many tables: creation, memory, starts.
    Tables,
    /// Lists, ranges and counts over several partitions: Q1.
    Statements,
    /// Thin indexes compared with copies, and with several ranges: O1 to O5.
    Indexes,
    /// A thin index that is made over a full table, with and without load: O8.
    IndexBuilding,
    /// Transactions that change two rows, compared with updates: T1 to T3.
    Transfers,
    /// Opening snapshots, and writes while snapshots are opened: Q2, Q3.
    Snapshots,
    /// Load, A, B, C, D and F with rows of 100 B and 1 kB: S7, S8.
    Ycsb,
    /// YCSB's E, scans in the order of a key, compared with PostgreSQL (must be installed): O6.
    Scans,
    /// CPU time per operation with 3, 6, 12 and 24 servers: S10.
    Servers,
    /// Memory compared with the size of the stored data, and restarts: S11.
    Memory,
    /// The rebuild of a server's partitions, without other load: F3.
    Rebuild,
    /// The loss of one and two servers during reads, with and without a hybrid: F1 to F4, the
    /// paper's Tables 3 to 5.
    Recovery,
    /// The kill of one of six servers during reads and writes: latencies before the kill, during
    /// the server's lease, while its partitions are filled, and after that.
    Killed,
    /// All shapes of hybrids, with the loss of a server of either index: the paper's Figures 13 and
    /// 14.
    Parametrization,
    /// A hybrid that three indexes share: the paper's Table 6.
    Sharing,
    /// All measurements except `import`, those that lose servers, which take many minutes, and
    /// those of the proxy.
    All,
    /// The PostgreSQL proxy, compared with its alternatives: H1 to H5.
    #[cfg(feature = "proxy")]
    #[command(subcommand)]
    Proxy(crate::proxy::Measurement),
}

/// Runs the command line's measurements.
///
/// # Errors
/// A process does not start, an operation fails, a file cannot be written.
pub fn run(arguments: &MeasureArguments) -> io::Result<()> {
    let options = &arguments.options;
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(io::Error::other(
            "--seconds must be above 0 and at most 3600",
        ));
    }
    std::fs::create_dir_all(&options.out)?;
    let commands = match arguments.command {
        BenchCommand::All => vec![
            BenchCommand::Baselines,
            BenchCommand::Lookup,
            BenchCommand::Insert,
            BenchCommand::HotKey,
            BenchCommand::Statements,
            BenchCommand::Indexes,
            BenchCommand::IndexBuilding,
            BenchCommand::Transfers,
            BenchCommand::Snapshots,
            BenchCommand::Ycsb,
            BenchCommand::Servers,
            BenchCommand::Memory,
        ],
        #[cfg(feature = "proxy")]
        BenchCommand::Proxy(crate::proxy::Measurement::All) => {
            crate::proxy::ALL.map(BenchCommand::Proxy).to_vec()
        }
        one => vec![one],
    };
    for command in commands {
        let (name, report) = measure(command, options)?;
        if report.lines.is_empty() {
            // It has printed its missing requirements.
            continue;
        }
        let path = options.out.join(format!("{name}.csv"));
        report.write_csv(&path)?;
        say!("{name}\n{}\n", report.table());
    }
    say!("CSV and SVG files: {}", options.out.display());
    Ok(())
}

/// Runs one measurement in an event loop of its own. Returns its name and its report.
fn measure(
    command: BenchCommand,
    options: &MeasureOptions,
) -> io::Result<(&'static str, FigureReport)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let report = match command {
            BenchCommand::Baselines => ("baselines", experiments::baselines::run(options).await?),
            BenchCommand::Lookup => ("lookup", experiments::lookup::run(options).await?),
            BenchCommand::Insert => ("insert", experiments::insert::run(options).await?),
            BenchCommand::Import => ("import", experiments::import::run(options).await?),
            BenchCommand::HotKey => ("hot-key", experiments::hot_key::run(options).await?),
            BenchCommand::Changes => ("changes", experiments::changes::run(options).await?),
            BenchCommand::Tables => ("tables", experiments::tables::run(options).await?),
            BenchCommand::Statements => {
                ("statements", experiments::statements::run(options).await?)
            }
            BenchCommand::Indexes => ("indexes", experiments::indexes::run(options).await?),
            BenchCommand::IndexBuilding => (
                "index-building",
                experiments::index_building::run(options).await?,
            ),
            BenchCommand::Transfers => ("transfers", experiments::transfers::run(options).await?),
            BenchCommand::Snapshots => ("snapshots", experiments::snapshots::run(options).await?),
            BenchCommand::Ycsb => ("ycsb", experiments::ycsb::run(options).await?),
            BenchCommand::Scans => ("scans", experiments::scans::run(options).await?),
            BenchCommand::Servers => ("servers", experiments::servers::run(options).await?),
            BenchCommand::Memory => ("memory", experiments::memory::run(options).await?),
            BenchCommand::Rebuild => ("rebuild", experiments::rebuild::run(options).await?),
            BenchCommand::Recovery => ("recovery", experiments::recovery::run(options).await?),
            BenchCommand::Killed => ("killed", experiments::killed::run(options).await?),
            BenchCommand::Parametrization => {
                let report = experiments::parametrization::run(options).await?;
                ("parametrization", report)
            }
            BenchCommand::Sharing => ("sharing", experiments::sharing::run(options).await?),
            BenchCommand::All => unreachable!("it was taken apart into the others"),
            #[cfg(feature = "proxy")]
            BenchCommand::Proxy(what) => crate::proxy::run(what, options).await?,
        };
        Ok(report)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parsed(words: &str) -> Result<MeasureArguments, clap::Error> {
        MeasureArguments::try_parse_from(format!("bench {words}").split(' '))
    }

    #[test]
    fn options_stand_behind_any_measurement() {
        let arguments = parsed("servers --seconds 0.5 --pairs 3").unwrap();
        assert_eq!(arguments.command, BenchCommand::Servers);
        assert_eq!(arguments.options.pairs, 3);
        assert_eq!(arguments.options.span(), Duration::from_millis(500));
        assert!(parsed("lookup --pairs 0").is_err());
        assert!(parsed("nothing").is_err());
    }

    #[cfg(feature = "proxy")]
    #[test]
    fn the_proxy_has_measurements_of_its_own() {
        use crate::proxy::{ALL, Measurement};

        let names = ["latency", "reads", "balanced", "replay", "outages"];
        for (name, measurement) in names.into_iter().zip(ALL) {
            let arguments = parsed(&format!("proxy {name} --rows 300")).unwrap();
            assert_eq!(arguments.command, BenchCommand::Proxy(measurement));
            assert_eq!(arguments.options.rows, 300);
        }
        let all = parsed("proxy all").unwrap();
        assert_eq!(all.command, BenchCommand::Proxy(Measurement::All));
        assert!(parsed("proxy").is_err());
    }
}
