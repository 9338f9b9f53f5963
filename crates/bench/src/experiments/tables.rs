//! Measures a cluster with many tables: the time to create a table among few and among many tables,
//! the memory and disk space of the configuration, and the time that processes take to start.
//!
//! The tables are empty.

use std::io;
use std::ops::Range;
use std::time::Instant;

use client::Client;
use protocol::codec::Wire;
use protocol::configuration::ConfigurationChanges;

use crate::cpu;
use crate::options::MeasureOptions;
use crate::pairs::Measurements;
use crate::processes::{BenchCluster, ServerKind};
use crate::report::FigureReport;
use crate::store::{self, failed};

/// Tables whose creation is measured at a time.
const GROUP: u32 = 500;
/// Clients that create tables side by side.
const CREATORS: u32 = 4;

/// Runs `replex bench tables`.
///
/// # Errors
/// A process does not start, an operation fails.
pub async fn run(options: &MeasureOptions) -> io::Result<FigureReport> {
    let mut cluster = BenchCluster::start(&options.base(), 3, ServerKind::default())?;
    let mut report = FigureReport::default();
    let clients = store::clients(&cluster, CREATORS as usize).await?;
    let empty = Memory::of(&cluster)?;
    let many = options.tables.max(2 * GROUP);
    let first = created(&cluster, &clients, 0..GROUP).await?;
    created(&cluster, &clients, GROUP..many - GROUP).await?;
    let last = created(&cluster, &clients, many - GROUP..many).await?;
    for (name, of) in [
        ("a table created", 0),
        ("CPU of coordinator", 1),
        ("CPU of servers", 2),
    ] {
        report.pair(
            ("", ""),
            &format!("{name}, the last {GROUP} of {many}"),
            (&single(last[of]), "ms"),
            ("the first", &single(first[of])),
        );
    }
    sizes(&mut report, &cluster, (&clients[0], many), &empty).await?;
    starts(&mut report, &mut cluster, (&clients[0], many + 1)).await?;
    Ok(report)
}

/// Adds the memory and the bytes that the configuration takes. Creates a table of this number.
async fn sizes(
    report: &mut FigureReport,
    cluster: &BenchCluster,
    (client, number): (&Client, u32),
    empty: &Memory,
) -> io::Result<()> {
    let full = Memory::of(cluster)?;
    let mebibyte = f64::from(1 << 20);
    let mut plain = |name: &str, value: f64, unit: &'static str| {
        report.plain("", name, &single(value), unit);
    };
    plain(
        "memory of the coordinator, more",
        (full.coordinator - empty.coordinator) / mebibyte,
        "MiB",
    );
    plain(
        "memory of a server, more",
        (full.server - empty.server) / mebibyte,
        "MiB",
    );
    let before = client.refresh().await.map_err(failed)?;
    store::create_one_of_many(client, number).await?;
    let after = client.refresh().await.map_err(failed)?;
    let bytes = after.to_bytes().len() as f64;
    plain("configuration, encoded", bytes / mebibyte, "MiB");
    let changes = ConfigurationChanges::from_to(&before, &after);
    plain(
        "change of one table, encoded",
        changes.to_bytes().len() as f64,
        "B",
    );
    let on_disk = |name: &str| -> io::Result<f64> {
        let file = cluster.folder().join("coordinator").join(name);
        Ok(std::fs::metadata(file)?.len() as f64 / mebibyte)
    };
    plain(
        "file of the coordinator's state",
        on_disk("coordinator")?,
        "MiB",
    );
    plain(
        "file of its changes",
        on_disk("coordinator.changes")?,
        "MiB",
    );
    Ok(())
}

/// Adds how long processes take to start. Creates a table of this number.
async fn starts(
    report: &mut FigureReport,
    cluster: &mut BenchCluster,
    (client, number): (&Client, u32),
) -> io::Result<()> {
    let mut plain = |name: &str, value: f64, unit: &'static str| {
        report.plain("", name, &single(value), unit);
    };
    let start = Instant::now();
    store::clients(cluster, 1).await?;
    plain(
        "a client connects",
        start.elapsed().as_secs_f64() * 1000.0,
        "ms",
    );
    let start = Instant::now();
    cluster.restart(0)?;
    plain(
        "stop, restart and serve again, a server",
        start.elapsed().as_secs_f64(),
        "s",
    );
    let start = Instant::now();
    cluster.restart_coordinator()?;
    // It may fail: this thread was blocked, so the client first notices that its connection ended.
    let _ = client.refresh().await;
    store::create_one_of_many(client, number).await?;
    let seconds = start.elapsed().as_secs_f64();
    plain(
        "stop, restart and create a table, the coordinator",
        seconds,
        "s",
    );
    Ok(())
}

/// Creates tables of these numbers. Returns milliseconds for each: time, CPU of the coordinator,
/// CPU of all servers.
async fn created(
    cluster: &BenchCluster,
    clients: &[Client],
    numbers: Range<u32>,
) -> io::Result<[f64; 3]> {
    let coordinator = [cluster.coordinator.id()];
    let servers = cluster.server_ids();
    let before = [
        cpu::processes_us(&coordinator)?,
        cpu::processes_us(&servers)?,
    ];
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for (place, client) in (0..).zip(clients) {
        let (client, numbers) = (client.clone(), numbers.clone());
        tasks.spawn(async move {
            let own = numbers.filter(|number| number % CREATORS == place);
            for number in own {
                store::create_one_of_many(&client, number).await?;
            }
            Ok::<(), io::Error>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.map_err(io::Error::other)??;
    }
    let count = f64::from(numbers.end - numbers.start);
    let seconds = start.elapsed().as_secs_f64();
    let after = [
        cpu::processes_us(&coordinator)?,
        cpu::processes_us(&servers)?,
    ];
    let spent = |of: usize| (after[of] - before[of]) / 1000.0 / count;
    Ok([seconds * 1000.0 / count, spent(0), spent(1)])
}

/// Resident memory, in bytes.
struct Memory {
    coordinator: f64,
    /// The mean of all.
    server: f64,
}

impl Memory {
    fn of(cluster: &BenchCluster) -> io::Result<Memory> {
        let ids = cluster.server_ids();
        let servers: io::Result<u64> = ids.iter().map(|id| cpu::resident_bytes(*id)).sum();
        Ok(Memory {
            coordinator: cpu::resident_bytes(cluster.coordinator.id())? as f64,
            server: servers? as f64 / ids.len() as f64,
        })
    }
}

fn single(value: f64) -> Measurements {
    let mut figures = Measurements::default();
    figures.push(value);
    figures
}
