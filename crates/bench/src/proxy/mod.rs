//! `replex bench proxy …`: compares the PostgreSQL proxy with a direct connection, with PgBouncer,
//! and with Pgpool-II over streaming standbys, all in one run (H1 to H5).
//!
//! A measurement starts its databases on loopback in temporary folders, without durability, because
//! it measures the proxies and not the disk. PgBouncer and Pgpool-II are Debian's packages. If one
//! of them is not installed, the measurement leaves it out and prints a message.

mod balanced;
mod databases;
mod latency;
mod mixes;
mod outages;
mod pgbench;
mod reads;
mod replay;
mod rivals;
mod tpcc;

use std::io;
use std::time::Duration;

use clap::Subcommand;
use tokio::signal::unix::{SignalKind, signal};

use crate::options::MeasureOptions;
use crate::quota::{self, CoreShare};
use crate::report::FigureReport;

/// The quota of each database, where they are to be equal.
const SHARE: CoreShare = CoreShare::of_core(10);
/// Under quotas it takes a while until all connections have opened and have warm caches.
const RAMP_UP: Duration = Duration::from_secs(4);
/// Clients for each replica, as in the paper.
const CLIENTS_PER_REPLICA: usize = 6;

/// The measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Measurement {
    /// The cost that the proxy and PgBouncer add to a query: time with one client, CPU with 16: H1,
    /// H2.
    Latency,
    /// Reads through the proxy with 1 to 4 replicas, each database under a quota: H3, the paper's
    /// Figure 3 (a).
    Reads,
    /// YCSB, 85% reads and 15% inserts, compared with Pgpool-II and the primary alone, each
    /// database under a quota: H4, the paper's Figure 11.
    Balanced,
    /// How quickly a replica catches up, over its number of connections: H5.
    Replay,
    /// Reads and errors of clients while a replica is offline, and while replicas receive no
    /// commit, each database under a quota: the paper's Figures 9 and 10.
    Outages,
    /// TPC-C in the paper's four mixes, at each level of consistency, each database under a quota:
    /// its Figure 2. It takes a quarter of an hour, and is none of `all`.
    Tpcc,
    /// YCSB in the paper's four mixes, at each level of consistency, each database under a quota:
    /// its Figure 3.
    Ycsb,
    /// TPC-C and YCSB routed by tables only, by columns, too, and by rows, each database under a
    /// quota: the paper's Figure 6. It takes some minutes, and is none of `all`.
    Classes,
    /// TPC-C in which reads of transactions that have written run on the primary, or wherever they
    /// may run, each database under a quota: the paper's Figure 8. It is not part of `all`.
    Statements,
    /// TPC-C with replay on one connection, and on four, each database under a quota: the paper's
    /// Figure 7. It takes ten minutes, and is none of `all`.
    Parallel,
    /// TPC-C and YCSB over four replicas, with reads that never wait for a replica, and that
    /// wait for up to 10 and 100 ms, each database under a quota. It takes ten minutes, and is none
    /// of `all`.
    Waits,
    /// TPC-C and YCSB without a transactions buffer, and with one in a folder, each database under
    /// a quota. It takes ten minutes, and is none of `all`.
    Buffers,
    /// All measurements that this enum lists before `tpcc`.
    All,
}

/// The measurements of [`Measurement::All`].
pub const ALL: [Measurement; 5] = [
    Measurement::Latency,
    Measurement::Reads,
    Measurement::Balanced,
    Measurement::Replay,
    Measurement::Outages,
];

/// Runs a measurement, and returns its name and its report. Stops and removes everything that the
/// measurement started, also when a signal interrupts it.
///
/// # Errors
/// A process does not start, a query fails, a file cannot be written, or a signal interrupts the
/// measurement.
pub async fn run(
    what: Measurement,
    options: &MeasureOptions,
) -> io::Result<(&'static str, FigureReport)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let measured = async {
        Ok(match what {
            Measurement::Latency => ("proxy-latency", latency::run(options).await?),
            Measurement::Reads => ("proxy-reads", reads::run(options).await?),
            Measurement::Balanced => ("proxy-balanced", balanced::run(options).await?),
            Measurement::Replay => ("proxy-replay", replay::run(options).await?),
            Measurement::Outages => ("proxy-outages", outages::run(options).await?),
            Measurement::Tpcc => ("proxy-tpcc", mixes::tpcc(options).await?),
            Measurement::Ycsb => ("proxy-ycsb", mixes::ycsb(options).await?),
            Measurement::Classes => ("proxy-classes", mixes::classes(options).await?),
            Measurement::Statements => ("proxy-statements", mixes::statements(options).await?),
            Measurement::Parallel => ("proxy-parallel", mixes::parallel(options).await?),
            Measurement::Waits => ("proxy-waits", mixes::waits(options).await?),
            Measurement::Buffers => ("proxy-buffers", mixes::buffers(options).await?),
            Measurement::All => unreachable!("it was taken apart into the others"),
        })
    };
    tokio::select! {
        measured = measured => measured,
        _ = tokio::signal::ctrl_c() => Err(io::Error::other("interrupted")),
        _ = terminate.recv() => Err(io::Error::other("interrupted")),
    }
}

/// Returns whether this machine can hold databases to equal CPU quotas. If not, prints that
/// measurement `id` is left out.
fn has_quotas(id: &str) -> bool {
    match quota::try_out() {
        Ok(()) => true,
        Err(error) => {
            note!(
                "NOT MEASURED: {id} needs every database under an equal CPU quota, which takes root \
                 and control groups of version 1 with the controller `cpu` ({error})"
            );
            false
        }
    }
}
