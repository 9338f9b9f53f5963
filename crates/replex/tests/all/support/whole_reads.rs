//! Readers of whole tables, all the while: exports, reads of a snapshot by every index, and
//! `admin check`. Each result is checked. A read may fail for a named reason, after which it may be
//! begun again; failures are counted by their reasons.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, ConnectOptions, Error};
use replex::cluster::Cluster;
use tokio::process::Command;
use tokio::task::JoinHandle;

use super::counting::{ROWS, TABLE, counts_at, counts_of, expect_one_state, may_be_repeated};

/// Of a reader after each read: the machine is for the servers.
const PAUSE: Duration = Duration::from_millis(100);
/// Texts of the reasons after which a command may be given again.
const REASONS: [&str; 10] = [
    "begin the statement again",
    "begin the export again",
    "try again",
    "tried again",
    "no coordinator answers",
    "does not answer in time",
    "Try again once",
    "start one of them again",
    "look the table up again",
    "was dropped meanwhile",
];

/// A way to read whole tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadWay {
    /// `replex export`.
    Export,
    /// A snapshot, by every index and summed over every copy.
    Snapshot,
    /// `replex admin check` of the table that is counted up.
    Check,
    /// `replex admin check` of another table.
    CheckOther,
}

impl ReadWay {
    pub const ALL: [ReadWay; 4] = [
        ReadWay::Export,
        ReadWay::Snapshot,
        ReadWay::Check,
        ReadWay::CheckOther,
    ];
}

/// The reads so far, by their way.
#[derive(Clone, Debug, Default)]
struct ReadCounts {
    /// How many began, and how many returned all.
    begun: u64,
    whole: u64,
    /// When the last one that returned all began: its number.
    last_whole: u64,
    /// `admin check` without the partitions of missing servers.
    partial: u64,
    failed: BTreeMap<String, u64>,
}

type SharedCounts = Arc<Mutex<BTreeMap<ReadWay, ReadCounts>>>;

/// The readers.
pub struct WholeReads {
    over: Arc<AtomicBool>,
    counts: SharedCounts,
    readers: Vec<JoinHandle<()>>,
}

impl WholeReads {
    /// Starts a reader for each way. `other` is the other table.
    pub fn start(cluster: &Cluster, other: &'static str) -> WholeReads {
        let (over, counts) = (Arc::<AtomicBool>::default(), SharedCounts::default());
        let mut readers = Vec::new();
        for way in ReadWay::ALL {
            let (over, counts) = (Arc::clone(&over), Arc::clone(&counts));
            let addresses = cluster.coordinator_addresses().to_vec();
            readers.push(tokio::spawn(async move {
                let reader = Reader::new(way, addresses, other).await;
                while !over.load(Ordering::SeqCst) {
                    let number = note(&counts, way, |it| {
                        it.begun += 1;
                        it.begun
                    });
                    let ended = reader.read().await;
                    note(&counts, way, |it| match ended {
                        Ok(ReadEnd::Whole) => {
                            it.whole += 1;
                            it.last_whole = number;
                        }
                        Ok(ReadEnd::Partial) => it.partial += 1,
                        Err(reason) => *it.failed.entry(reason).or_default() += 1,
                    });
                    tokio::time::sleep(PAUSE).await;
                }
            }));
        }
        WholeReads {
            over,
            counts,
            readers,
        }
    }

    /// Returns how many reads of each way have begun so far.
    pub fn begun(&self) -> BTreeMap<ReadWay, u64> {
        let counts = self.counts.lock().unwrap();
        let begun = |way| counts.get(&way).map_or(0, |it| it.begun);
        ReadWay::ALL.map(|way| (way, begun(way))).into()
    }

    /// Returns the ways without a whole read that began after these had begun.
    pub fn missing_since(&self, begun: &BTreeMap<ReadWay, u64>) -> Vec<ReadWay> {
        let counts = self.counts.lock().unwrap();
        let is_missing = |way: &ReadWay| {
            let last_whole = counts.get(way).map_or(0, |it| it.last_whole);
            last_whole <= begun[way]
        };
        ReadWay::ALL.into_iter().filter(is_missing).collect()
    }

    /// Fails if a reader has ended.
    pub fn expect_running(&self) {
        let ended = self.readers.iter().any(JoinHandle::is_finished);
        assert!(!ended, "a reader of whole tables ended");
    }

    /// Has the readers end after their current reads, and prints their counts.
    pub async fn stop(self) {
        self.over.store(true, Ordering::SeqCst);
        for reader in self.readers {
            reader.await.unwrap();
        }
        for (way, counts) in &*self.counts.lock().unwrap() {
            let failed: u64 = counts.failed.values().sum();
            println!(
                "{way:?}: {} begun, {} whole and equal, {} of present servers only, {failed} \
                 failed for a named reason",
                counts.begun, counts.whole, counts.partial
            );
            for (reason, count) in &counts.failed {
                println!("    {count} × {reason}");
            }
            assert!(counts.whole > 0, "{way:?}: none was whole");
        }
    }
}

fn note<T>(counts: &SharedCounts, way: ReadWay, change: impl FnOnce(&mut ReadCounts) -> T) -> T {
    change(counts.lock().unwrap().entry(way).or_default())
}

/// How a read ended that found nothing wrong.
enum ReadEnd {
    Whole,
    Partial,
}

struct Reader {
    way: ReadWay,
    addresses: Vec<String>,
    client: Client,
    folder: tempfile::TempDir,
    other: &'static str,
}

impl Reader {
    async fn new(way: ReadWay, addresses: Vec<String>, other: &'static str) -> Reader {
        let client = Client::connect(ConnectOptions::new(addresses.clone()));
        Reader {
            way,
            client: client.await.unwrap(),
            addresses,
            folder: tempfile::tempdir().unwrap(),
            other,
        }
    }

    /// Reads once and checks the result. Returns why it failed if it may be begun again.
    async fn read(&self) -> Result<ReadEnd, String> {
        match self.way {
            ReadWay::Export => self.export().await,
            ReadWay::Snapshot => self.snapshot().await.map_err(|error| {
                assert!(may_be_repeated(&error), "a snapshot: {error}");
                short(&error.to_string())
            }),
            ReadWay::Check => self.check(TABLE).await,
            ReadWay::CheckOther => self.check(self.other).await,
        }
    }

    async fn export(&self) -> Result<ReadEnd, String> {
        let path = self.folder.path().join("export.csv");
        let output = path.to_str().expect("a folder of this test");
        let export = ["export", TABLE, "-o", output];
        let (code, _, stderr) = self.run(&export).await;
        if code != 0 {
            return Err(reason_of(&export, &stderr));
        }
        expect_one_state(&counts_of(&path), ROWS, "the export");
        Ok(ReadEnd::Whole)
    }

    async fn snapshot(&self) -> Result<ReadEnd, Error> {
        let table = self.client.table(TABLE).await?;
        let snapshot = self.client.snapshot(&[&table]).await?;
        let first = counts_at(&table, TABLE, &snapshot).await?;
        expect_one_state(&first, ROWS, "by id");
        let layout = &table.definition().layout;
        let mut sums = Vec::new();
        for replex in table.definition().readable() {
            let name = &layout.replexes[replex].name;
            if !layout.is_thin(replex) {
                let number = u8::try_from(replex).expect("copies are few");
                let sum = table.checksum_at(number, Some(&snapshot)).await?;
                sums.push((name.clone(), sum));
            }
            if replex > 0 {
                let counts = counts_at(&table, name, &snapshot).await?;
                assert_eq!(counts, first, "{name} at {:?}", snapshot.version());
            }
        }
        let is_equal = sums.iter().all(|(_, sum)| *sum == sums[0].1);
        assert!(is_equal, "at {:?}: {sums:?}", snapshot.version());
        Ok(ReadEnd::Whole)
    }

    async fn check(&self, table: &str) -> Result<ReadEnd, String> {
        let check = ["admin", "check", table, "--json"];
        let (code, stdout, stderr) = self.run(&check).await;
        let Ok(report) = serde_json::from_str::<serde_json::Value>(&stdout) else {
            return Err(reason_of(&check, &stderr));
        };
        assert_eq!(report["equal"], true, "{report:#}");
        match report["complete"] == true {
            true => {
                assert_eq!(code, 0, "{report:#}");
                Ok(ReadEnd::Whole)
            }
            false => Ok(ReadEnd::Partial),
        }
    }

    /// Runs the program to its end.
    async fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let output = Command::new(super::program())
            .args(arguments)
            .args(["-C", &self.addresses.join(",")])
            .env_remove("REPLEX_COORDINATOR")
            .kill_on_drop(true)
            .output()
            .await
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().expect("no test kills it");
        (code, text(output.stdout), text(output.stderr))
    }
}

/// Returns the reason of a command that failed; it must be one after which it may be given again.
fn reason_of(command: &[&str], stderr: &str) -> String {
    let is_named = REASONS.iter().any(|reason| stderr.contains(reason));
    assert!(is_named, "{command:?}: {stderr}");
    short(stderr)
}

/// Returns a reason without its numbers, so that equal reasons are counted as one.
fn short(reason: &str) -> String {
    let reason = reason.trim();
    let letters: String = reason
        .chars()
        .map(|letter| if letter.is_ascii_digit() { '#' } else { letter })
        .take(160)
        .collect();
    letters.replace('\n', " ")
}
