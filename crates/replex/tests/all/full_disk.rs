//! A disk that is full: writes are refused clearly, reads go on, nothing is lost, and once an
//! operator has made space everything goes on (R3).
//!
//! Needs the right to mount a small tmpfs.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use placement::Durability;
use protocol::configuration::Configuration;
use protocol::identity::ServerId;
use replex::cluster::{Cluster, ClusterOptions};
use replex::inspect::{Inspector, are_equal};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::support;
use crate::support::needs;
use crate::support::people::{Outcome, People, Person};
use crate::support::rows::is_quiet;

const TMPFS: &str = "the right to mount a tmpfs, which root has";
/// The small disk, and the space that another process uses on it.
const DISK_BYTES: usize = 256 << 20;
const BALLAST_BYTES: usize = 100 << 20;
/// Rows are this large, so that the disk fills soon.
const NOTE_BYTES: usize = 256 << 10;
/// More rows than fit on the disk.
const ROWS_MAX: i64 = (DISK_BYTES / NOTE_BYTES) as i64;
/// Space that was made is noticed within this.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
/// A server with a full disk has no partitions any more within this.
const LEFT_WITHIN: Duration = Duration::from_secs(120);

/// A mounted tmpfs. Processes that have files open on it keep them.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> rustix::io::Result<SmallDisk> {
        fs::create_dir(&path).unwrap();
        let data = std::ffi::CString::new(format!("size={DISK_BYTES}")).unwrap();
        mount("none", &path, "tmpfs", MountFlags::empty(), data.as_c_str())?;
        Ok(SmallDisk(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn person(id: i64) -> Person {
    Person {
        id,
        city: format!("city {id}"),
        score: id,
    }
}

/// Inserts rows until one is refused, and returns why.
async fn fill(people: &People, note: &str, written: &mut i64) -> String {
    loop {
        assert!(*written < ROWS_MAX, "the disk is never full");
        match people.insert_noted(&person(*written), note).await {
            Outcome::Done => *written += 1,
            Outcome::Nothing(why) => return why,
            Outcome::Unknown(why) => panic!("row {written}: {why}"),
        }
    }
}

async fn check_copies(cluster: &Cluster, rows: i64) {
    let coordinators = [cluster.coordinator_address().to_owned()];
    let within = Duration::from_secs(60);
    let mut inspector = Inspector::new(&coordinators, within).await.unwrap();
    let copies = inspector.sums("people").await.unwrap();
    assert!(are_equal(&copies), "{copies:#?}");
    assert_eq!(copies[0].rows, rows as u64);
}

#[tokio::test]
async fn full_disk_refuses_writes_and_loses_nothing() {
    let mut cluster = support::cluster(2).await;
    let disk = SmallDisk::mount(cluster.server_folder(2));
    let Some(disk) = needs::require(TMPFS, disk.ok()) else {
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![7; BALLAST_BYTES]).unwrap();
    let small = cluster.add_server().await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    let people = People::create(&cluster, support::people(2, Durability::Sync)).await;

    let note = "x".repeat(NOTE_BYTES);
    let mut written = 0;
    let address = cluster.coordinator_address().to_owned();
    let refusal = fill_for_good(&people, (&note, &mut written), &address).await;
    println!("{written} rows, then: {refusal}");
    assert!(written > 10);
    let full = cluster.server(small).ready_value("server").unwrap();
    assert!(
        refusal.contains(&format!("server {full} is full")),
        "{refusal}"
    );

    for id in [0, written / 2, written - 1] {
        assert_eq!(people.by_id(id).await, [person(id)]);
        assert_eq!(people.by_city(&person(id).city).await, [person(id)]);
    }
    // Writes that free space are admitted.
    assert_eq!(people.delete(0).await, Outcome::Done);
    assert!(people.by_id(0).await.is_empty());
    assert_eq!(people.update(&person(1)).await, Outcome::Done);
    assert!(people.by_id(written).await.is_empty());
    cluster.check_processes().unwrap();
    check_copies(&cluster, written - 1).await;

    // An index that is begun now is complete once there is space, if not before.
    let indexed = address.clone();
    let making = tokio::task::spawn_blocking(move || {
        let create = "CREATE INDEX of_score ON people (score) INCLUDE (city)";
        support::run_well(&["sql", "-C", &indexed, "-c", create])
    });
    let is_known = |configuration: &Configuration| !configuration.tables[0].schema.thin.is_empty();
    cluster.wait_until("it is known", is_known).await.unwrap();

    fs::remove_file(&ballast).unwrap();
    let since = Instant::now();
    while people.insert_noted(&person(written), &note).await != Outcome::Done {
        assert!(since.elapsed() < NOTICED_WITHIN, "space is not noticed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    written += 1;
    making.await.unwrap();
    let check = support::run_well(&["admin", "-C", &address, "check", "people"]);
    assert!(check.contains("agree with the rows"), "{check}");
    cluster.kill(small).await.unwrap();
    cluster.restart(small).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    check_copies(&cluster, written - 1).await;
}

/// Writes until a server's disk is full and every report shows that. Returns the last refusal.
async fn fill_for_good(
    people: &People,
    (note, written): (&str, &mut i64),
    address: &str,
) -> String {
    // A checkpoint that ends just now may free space. Later writes then fill the disk for good.
    let since = Instant::now();
    loop {
        assert!(
            since.elapsed() < NOTICED_WITHIN,
            "the full disk is not reported"
        );
        let refusal = fill(people, note, written).await;
        let [status, servers] = [&["status"][..], &["server", "list"]].map(|command| {
            let arguments = [&["admin"], command, &["-C", address]].concat();
            support::run(&arguments)
        });
        if status.status.code() == Some(1) && servers.status.code() == Some(1) {
            // Every report shows it, and why its partitions stay: each other server has a copy.
            for output in [status, servers] {
                let text = String::from_utf8(output.stdout).unwrap();
                assert!(text.contains("disk full"), "{text}");
                assert!(text.contains("start another server"), "{text}");
            }
            return refusal;
        }
    }
}

/// Starts three servers and a fourth one with a small disk, which holds partitions of the table.
async fn with_small_disk(
    options: ClusterOptions,
) -> Option<(SmallDisk, Cluster, People, ServerId)> {
    let mut cluster = Cluster::start(options).await.unwrap();
    let disk = SmallDisk::mount(cluster.server_folder(3));
    let disk = needs::require(TMPFS, disk.ok())?;
    fs::write(disk.0.join("ballast"), vec![7; 180 << 20]).unwrap();
    let small = cluster.add_server().await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    let people = People::create(&cluster, support::people(1, Durability::Sync)).await;
    let full = cluster.server(small).ready_value("server").unwrap();
    let full = ServerId(full.parse().unwrap());
    assert!(cluster.configuration().await.unwrap().holds(full));
    Some((disk, cluster, people, full))
}

/// Writes rows until all partitions have left a full server. Returns the number of rows.
async fn fill_until_left(cluster: &Cluster, people: &People, full: ServerId) -> i64 {
    let note = "x".repeat(NOTE_BYTES);
    let (mut written, mut refused) = (0, 0);
    let since = Instant::now();
    while cluster.configuration().await.unwrap().holds(full) {
        assert!(written < ROWS_MAX, "the disk is never full");
        assert!(since.elapsed() < LEFT_WITHIN, "partitions stay at {full:?}");
        match people.insert_noted(&person(written), &note).await {
            Outcome::Done => written += 1,
            Outcome::Nothing(_) => refused += 1,
            Outcome::Unknown(why) => panic!("row {written}: {why}"),
        }
    }
    println!("{written} rows, {refused} refusals until all had moved");
    let rows = written + 20;
    while written < rows {
        match people.insert_noted(&person(written), &note).await {
            Outcome::Done => written += 1,
            // It waited too long behind a range that is handed over: clients try again.
            Outcome::Nothing(why) if why == "Conflict" && since.elapsed() < LEFT_WITHIN => {}
            other => panic!("row {written}: {other:?}"),
        }
    }
    written
}

#[tokio::test]
async fn partitions_leave_a_full_disk_while_writes_go_on() {
    let Some((_disk, mut cluster, people, full)) = with_small_disk(support::options(3)).await
    else {
        return;
    };
    let written = fill_until_left(&cluster, &people, full).await;
    cluster.wait_until("nothing moves", is_quiet).await.unwrap();
    cluster.check_processes().unwrap();
    check_copies(&cluster, written).await;
}

/// Ranges are to be split all the while, by servers with a full disk and by others. It is not
/// checked that a split was under way at the moment when the disk got full.
#[tokio::test]
async fn ranges_split_while_a_disk_gets_full() {
    let mut options = support::options(3);
    let few = ["--range-entries", "8"].map(String::from);
    options.server_arguments.extend(few);
    let Some((_disk, mut cluster, people, full)) = with_small_disk(options).await else {
        return;
    };
    let address = cluster.coordinator_address().to_owned();
    let create = "CREATE INDEX of_score ON people (score) INCLUDE (city)";
    let sql = ["sql", "-C", &address, "-c", create];
    support::run_well(&sql);
    let written = fill_until_left(&cluster, &people, full).await;
    // Splits go on once nothing leaves the full server any more.
    let have_split = |configuration: &Configuration| {
        let mut replexes = configuration.tables[0].layout.replexes.iter();
        let ranges = replexes.find_map(|replex| replex.ranges.as_ref());
        ranges.is_some_and(|ranges| ranges.starts.len() > 8)
    };
    let waited = cluster.wait_until("the index has many ranges", have_split);
    waited.await.unwrap();
    cluster.check_processes().unwrap();
    check_copies(&cluster, written).await;
    let check = support::run_well(&["admin", "-C", &address, "check", "people"]);
    assert!(check.contains("agree with the rows"), "{check}");
}
