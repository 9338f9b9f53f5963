//! Generates the load with PostgreSQL's own pgbench and our scripts.
//!
//! pgbench supports simple and extended queries, keeps variables for each client, and logs the time
//! of each transaction in microseconds. Its cost is the same for all compared systems. The duration
//! of a run is a whole number of seconds.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pg_local::SUPERUSER;
use tokio::process::Command;

use super::databases::DATABASE;
use crate::cpu;
use crate::measure::Sample;
use crate::pairs::Latencies;

/// Tries of a transaction that deadlocks.
const TRIES_MAX: &str = "10";
/// Of many clients' transactions this share is logged: a log of all would be load itself.
const LOGGED_SHARE: &str = "0.1";
/// The kernel counts the time of processes that have ended in hundredths of a second.
const TICK_US: f64 = 10_000.0;

/// The protocol by which pgbench sends statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Simple queries.
    Simple,
    /// Named prepared statements.
    Prepared,
}

impl Protocol {
    /// Returns the protocol's name, as pgbench's option takes it.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Prepared => "prepared",
        }
    }
}

/// One kind of transaction.
#[derive(Clone, Debug)]
pub struct Script {
    /// In pgbench's language.
    pub text: String,
    /// The relative frequency of this script among all scripts of the load.
    pub weight: u32,
}

/// The load of one run: the scripts, the clients, and the duration.
#[derive(Clone, Debug)]
pub struct PgbenchLoad {
    pub scripts: Vec<Script>,
    /// The number of clients. Each always has one transaction in progress.
    pub clients: usize,
    pub protocol: Protocol,
    /// The variables of the scripts.
    pub variables: Vec<(&'static str, u64)>,
    /// The duration, in whole seconds, at least one.
    pub span: Duration,
    /// The time before the measurement begins, in whole seconds: servers open and warm their
    /// connections.
    pub ramp_up: Duration,
}

impl PgbenchLoad {
    /// Returns a load of one script over `rows` rows.
    pub fn of(text: &str, rows: u64, clients: usize, span: Duration) -> PgbenchLoad {
        PgbenchLoad {
            scripts: vec![Script {
                text: text.to_owned(),
                weight: 1,
            }],
            clients,
            protocol: Protocol::Simple,
            variables: vec![("rows", rows)],
            span,
            ramp_up: Duration::ZERO,
        }
    }

    /// Runs the load against a server. `ids` are the processes whose CPU time is measured. The
    /// latencies are those of a tenth of the transactions, or of all if there is one client or a
    /// ramp-up.
    ///
    /// # Errors
    /// pgbench is missing, or one of its transactions failed.
    pub async fn run(&self, place: SocketAddr, ids: &[u32]) -> io::Result<Sample> {
        let folder = tempfile::tempdir()?;
        let words = self.words(folder.path())?;
        let program = pg_local::programs().unwrap_or_default().join("pgbench");
        let server_before = cpu::processes_us(ids)?;
        let client_before = ended_children_us()?;
        let output = Command::new(&program)
            .args(words)
            .args([
                "-h",
                &place.ip().to_string(),
                "-p",
                &place.port().to_string(),
            ])
            .args(["-U", SUPERUSER, DATABASE])
            .kill_on_drop(true)
            .output()
            .await
            .map_err(|error| io::Error::other(format!("{}: {error}", program.display())))?;
        let server_us = cpu::processes_us(ids)? - server_before;
        let client_us = ended_children_us()? - client_before;
        let printed = String::from_utf8_lossy(&output.stdout);
        let counts = output.status.success().then(|| counts(&printed)).flatten();
        let (operations, rate) = counts.ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            io::Error::other(format!("pgbench at {place} failed: {printed}{errors}"))
        })?;
        let logged = logged(folder.path())?;
        if self.ramp_up.is_zero() {
            return Ok(Sample {
                operations,
                seconds: operations as f64 / rate,
                server_us,
                client_us,
                latencies: latencies(&logged),
            });
        }
        let counted = within(&logged, self.ramp_up, self.span);
        let share = counted.len() as f64 / operations as f64;
        Ok(Sample {
            operations: counted.len() as u64,
            seconds: self.span.as_secs_f64(),
            server_us: server_us * share,
            client_us: client_us * share,
            latencies: latencies(&counted),
        })
    }

    /// Returns the command line of pgbench, without the server's address. Writes the scripts to the
    /// folder, where the logs go, too.
    fn words(&self, folder: &Path) -> io::Result<Vec<String>> {
        let whole = |span: Duration| span.as_secs_f64().ceil();
        let seconds = whole(self.span).max(1.0) + whole(self.ramp_up);
        let logs_all = self.clients == 1 || !self.ramp_up.is_zero();
        let share = if logs_all { "1" } else { LOGGED_SHARE };
        let log = folder.join(LOG).display().to_string();
        let mut words: Vec<String> = [
            ("--no-vacuum", String::new()),
            ("--time=", seconds.to_string()),
            ("--client=", self.clients.to_string()),
            ("--protocol=", self.protocol.name().to_owned()),
            ("--max-tries=", TRIES_MAX.to_owned()),
            ("--log", String::new()),
            ("--log-prefix=", log),
            ("--sampling-rate=", share.to_owned()),
        ]
        .map(|(name, value)| format!("{name}{value}"))
        .to_vec();
        for (name, value) in &self.variables {
            words.push(format!("--define={name}={value}"));
        }
        for (number, script) in self.scripts.iter().enumerate() {
            let path = folder.join(format!("script-{number}"));
            std::fs::write(&path, &script.text)?;
            words.push(format!("--file={}@{}", path.display(), script.weight));
        }
        Ok(words)
    }
}

/// How logs begin.
const LOG: &str = "log";

/// Returns how many transactions pgbench has counted, and how many per second; none if one has
/// failed, or if its output has no count.
fn counts(output: &str) -> Option<(u64, f64)> {
    let after = |what: &str| {
        let mut lines = output.lines();
        let found = lines.find_map(|line| line.strip_prefix(what));
        found.map(|rest| rest.split([' ', '/']).next().unwrap_or_default())
    };
    // Before version 15 none could fail without ending all.
    let failed = after("number of failed transactions: ").unwrap_or("0");
    let operations = after("number of transactions actually processed: ")?;
    let operations: u64 = operations.parse().ok()?;
    let rate: f64 = after("tps = ")?.parse().ok()?;
    (failed == "0" && operations > 0).then_some((operations, rate))
}

/// A transaction as pgbench logs it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Logged {
    /// When it ended, µs since 1970.
    ended_us: u64,
    took_us: f64,
}

/// Returns the transactions in the logs of a folder.
fn logged(folder: &Path) -> io::Result<Vec<Logged>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path: PathBuf = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(LOG)) {
            for line in std::fs::read_to_string(&path)?.lines() {
                let wrong = || io::Error::other(format!("pgbench logged no time: {line}"));
                all.push(logged_in(line).ok_or_else(wrong)?);
            }
        }
    }
    Ok(all)
}

/// Parses a line of a log: client, number, duration in µs, script, and the time of the end, in
/// seconds and µs. Returns none for another line.
fn logged_in(line: &str) -> Option<Logged> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [_, _, took, _, seconds, micros, ..] = fields[..] else {
        return None;
    };
    let seconds: u64 = seconds.parse().ok()?;
    let micros: u64 = micros.parse().ok()?;
    Some(Logged {
        ended_us: seconds * 1_000_000 + micros,
        took_us: took.parse().ok()?,
    })
}

/// Returns the transactions that ended within `span` after a run had ramped up. Its end shows
/// little: the last transactions of many clients may come late.
fn within(all: &[Logged], ramp_up: Duration, span: Duration) -> Vec<Logged> {
    let started = all
        .iter()
        .map(|it| it.ended_us.saturating_sub(it.took_us as u64));
    let begin = started.min().unwrap_or_default() + ramp_up.as_micros() as u64;
    let end = begin + span.as_micros() as u64;
    let is_in = |it: &&Logged| (begin + 1..=end).contains(&it.ended_us);
    all.iter().filter(is_in).copied().collect()
}

fn latencies(all: &[Logged]) -> Latencies {
    let mut latencies = Latencies::default();
    for it in all {
        latencies.push(it.took_us);
    }
    latencies
}

/// Returns the CPU time of the ended child processes of this process, in µs.
fn ended_children_us() -> io::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let wrong = || io::Error::other("/proc/self/stat has no times of children");
    ended_children_ticks(&stat)
        .map(|ticks| ticks as f64 * TICK_US)
        .ok_or_else(wrong)
}

/// Returns the sum of the 16th and the 17th field of a `stat` (proc(5)): user and system time. The
/// second field may contain spaces, and ends with a bracket.
fn ended_children_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(13);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "transaction type: multiple scripts\n\
        number of clients: 16\n\
        number of transactions actually processed: 37405\n\
        number of failed transactions: 0 (0.000%)\n\
        latency average = 0.427 ms\n\
        tps = 37391.250000 (without initial connection time)\n";

    #[test]
    fn counts_are_read() {
        assert_eq!(counts(OUTPUT), Some((37_405, 37_391.25)));
        let of_each = OUTPUT.replace("37405", "100/100");
        assert_eq!(counts(&of_each), Some((100, 37_391.25)));
    }

    #[test]
    fn runs_in_which_something_failed_do_not_count() {
        for (before, after) in [
            ("failed transactions: 0", "failed transactions: 3"),
            ("processed: 37405", "processed: 0"),
            ("tps", "rate"),
        ] {
            assert_eq!(counts(&OUTPUT.replace(before, after)), None, "{after}");
        }
    }

    #[test]
    fn times_are_read() {
        let line = logged_in("0 1 57 0 1700000000 123456").unwrap();
        assert_eq!(line.ended_us, 1_700_000_000_123_456);
        assert_eq!(latencies(&[line]).percentile(0.5), 57.0);
        assert_eq!(logged_in("0 1 failed 0 1700000000 123456"), None);
        assert_eq!(logged_in("0 1 57 0"), None);
    }

    #[test]
    fn ramp_up_is_not_counted() {
        let all: Vec<Logged> = (1..=10)
            .map(|second| Logged {
                ended_us: second * 1_000_000,
                took_us: second as f64 * 1e5,
            })
            .collect();
        // It began at 0.9 s.
        let seconds = Duration::from_secs;
        let counted = within(&all, seconds(4), seconds(3));
        let ended: Vec<u64> = counted.iter().map(|it| it.ended_us / 1_000_000).collect();
        assert_eq!(ended, [5, 6, 7]);
        assert_eq!(within(&all, Duration::ZERO, seconds(60)), all);
        assert_eq!(within(&[], seconds(1), seconds(1)), []);
    }

    #[test]
    fn command_line_names_all() {
        let folder = tempfile::tempdir().unwrap();
        let mut load = PgbenchLoad::of("SELECT 1", 7, 16, Duration::from_millis(1200));
        load.protocol = Protocol::Prepared;
        let words = load.words(folder.path()).unwrap();
        for word in [
            "--time=2",
            "--client=16",
            "--protocol=prepared",
            "--sampling-rate=0.1",
            "--define=rows=7",
        ] {
            assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
        }
        assert!(words.last().unwrap().ends_with("script-0@1"), "{words:?}");
        let script = std::fs::read_to_string(folder.path().join("script-0"));
        assert_eq!(script.unwrap(), "SELECT 1");
        load.ramp_up = Duration::from_secs(3);
        let words = load.words(folder.path()).unwrap();
        for word in ["--time=5", "--sampling-rate=1"] {
            assert!(words.iter().any(|it| it == word), "{word}: {words:?}");
        }
    }

    #[test]
    fn times_of_children_are_found_whatever_the_name() {
        let numbers: Vec<String> = (3..=52).map(|field: u32| field.to_string()).collect();
        let stat = format!("7 (a ) b) {}", numbers.join(" "));
        assert_eq!(ended_children_ticks(&stat), Some(16 + 17));
        assert!(ended_children_us().unwrap() >= 0.0);
    }
}
