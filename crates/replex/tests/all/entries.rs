//! Entries of a thin index that contradict the rows, planted in the log of a server that is
//! stopped: `admin check` names them, and `admin repair` refills their partitions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, ConnectOptions, IfExists, Table};
use placement::{Durability, RowView, SortColumn, ThinIndex, Value, encode_row, encode_sorted};
use protocol::codec::{Bytes, Wire};
use protocol::configuration::{Configuration, ServerState};
use protocol::identity::{ServerId, Version};
use protocol::record::Record;
use replex::cluster::Cluster;
use replex::inspect::Inspector;
use serde_json::Value as Json;

use crate::support;
use crate::support::rows::{insert, is_quiet, person};

const ROWS: i64 = 300;

/// Damaged entries: their primary keys, by the kind of the damage.
struct Damage {
    missing: i64,
    with_wrong_column: i64,
    with_two_entries: i64,
    without_row: i64,
    partition: u32,
    server: ServerId,
    /// The server that has all rows of the primary copy.
    primary: ServerId,
}

impl Damage {
    fn ids(&self) -> Vec<i64> {
        let mut ids = vec![
            self.missing,
            self.with_wrong_column,
            self.with_two_entries,
            self.without_row,
        ];
        ids.sort_unstable();
        ids
    }
}

#[tokio::test]
async fn wrong_entries_are_named_and_refilled() {
    let (mut cluster, _) = people().await;
    let address = cluster.coordinator_address().to_owned();
    let check = ["admin", "-C", &address, "check", "people"];
    let sound = support::run_well(&check);
    assert!(sound.contains("agree with the rows"), "{sound}");
    let damage = damage(&mut cluster).await;
    let output = support::run(&check);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("All copies hold the same rows."), "{text}");
    assert!(text.contains("Entries contradict the rows."), "{text}");
    let line = |id: i64| {
        let start = format!("  index of_city, row ({id}): ");
        let found = text.lines().find(|line| line.starts_with(&start));
        found.unwrap_or_else(|| panic!("{id}: {text}")).to_owned()
    };
    assert!(
        line(damage.missing).ends_with("; the index has none"),
        "{text}"
    );
    assert!(
        line(damage.without_row).contains("there is no row; the index has ("),
        "{text}"
    );
    let two = line(damage.with_two_entries);
    assert!(
        two.contains(") of version ") && two.contains(" and ("),
        "{text}"
    );
    assert!(
        line(damage.with_wrong_column).contains(", 1000) of version "),
        "{text}"
    );
    let (code, report) = report(&check);
    assert_eq!(code, Some(1));
    assert_eq!(report["equal"], false);
    assert_eq!(report["indexes"][0]["index"], "of_city");
    assert_eq!(named(&report), damage.ids());
    for difference in report["indexes"][0]["differences"].as_array().unwrap() {
        assert_eq!(difference["wrong"], serde_json::json!([damage.partition]));
    }

    let repaired = support::run_well(&["admin", "-C", &address, "repair", "people"]);
    assert!(repaired.contains("0 rows differ."), "{repaired}");
    assert!(
        repaired.contains("4 rows have wrong entries."),
        "{repaired}"
    );
    assert!(
        repaired.contains("1 partitions are refilled."),
        "{repaired}"
    );
    assert!(repaired.contains("agree with the rows"), "{repaired}");
    let sound = support::run_well(&check);
    assert!(sound.contains("agree with the rows"), "{sound}");
    cluster.check_processes().unwrap();
}

/// Nothing is reported because of a write that is under way, and a repair undoes none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_are_compared_and_refilled_while_clients_write() {
    let (mut cluster, table) = people_with(&[], IndexShape::Ranges).await;
    let address = cluster.coordinator_address().to_owned();
    let over = Arc::new(AtomicBool::new(false));
    let writing = tokio::spawn(write_until(table.clone(), over.clone()));
    let check = ["admin", "-C", &address, "check", "people"];
    for _ in 0..3 {
        support::run_well(&check);
    }
    let damage = damage(&mut cluster).await;
    let orphan = format!(
        "  index of_city, row ({}): there is no row",
        damage.without_row
    );
    let found = support::run(&check);
    let text = String::from_utf8(found.stdout).unwrap();
    assert!(text.contains(&orphan), "{text}");
    support::run_well(&["admin", "-C", &address, "repair", "people"]);
    support::run_well(&check);
    over.store(true, Ordering::Relaxed);
    let written = writing.await.unwrap();
    assert!(written > 0);
    support::run_well(&check);
    cluster.check_processes().unwrap();
}

#[tokio::test]
async fn entries_are_compared_while_a_server_is_down() {
    let (mut cluster, _) = people().await;
    let address = cluster.coordinator_address().to_owned();
    let damage = damage(&mut cluster).await;
    let is_free = |it: &ServerId| *it != damage.server && *it != damage.primary;
    let lost = (1..=3).map(ServerId).find(is_free).unwrap();
    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let is_down = |configuration: &Configuration| {
        let server = configuration.server(lost);
        server.is_some_and(|server| server.state == ServerState::Down)
    };
    cluster.wait_until("it is down", is_down).await.unwrap();
    let (code, present) = report(&["admin", "-C", &address, "check", "people"]);
    assert_eq!(code, Some(1));
    assert_eq!(present["complete"], false);
    // All rows are there, and so are the damaged entries.
    assert_eq!(named(&present), damage.ids(), "{present:#}");
    let absent = present["indexes"][0]["not_compared"].as_array().unwrap();
    assert!(!absent.is_empty(), "{present:#}");
    cluster.restart(lost.0 as usize - 1).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    cluster.wait_until("all is filled", is_quiet).await.unwrap();
    support::run_well(&["admin", "-C", &address, "repair", "people"]);
    support::run_well(&["admin", "-C", &address, "check", "people"]);
    cluster.check_processes().unwrap();
}

#[tokio::test]
async fn wrong_entries_are_found_automatically() {
    let every = ["--check-every", "0.1"].map(str::to_owned);
    let (mut cluster, _) = people_with(&every, IndexShape::Ranges).await;
    let damage = damage(&mut cluster).await;
    let orphan = damage.without_row;
    let line =
        format!("error event=entries-differ table=people row=\"index of_city, row ({orphan})");
    let found = async {
        while !cluster.coordinator(0).log_text().contains(&line) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(60), found).await;
    within.unwrap_or_else(|_| panic!("{}", cluster.coordinator(0).log_text()));
    cluster.check_processes().unwrap();
}

async fn people() -> (Cluster, Table) {
    people_with(&[], IndexShape::Hashed).await
}

/// How the thin index is divided and sorted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexShape {
    /// Into partitions by hash, ascending.
    Hashed,
    /// Into ranges, descending.
    Ranges,
}

/// A table with a thin index of the city that includes the score, in three copies on three servers.
async fn people_with(coordinator_arguments: &[String], shape: IndexShape) -> (Cluster, Table) {
    let mut options = support::options(3);
    let arguments = coordinator_arguments.iter().cloned();
    options.coordinator_arguments.extend(arguments);
    let cluster = Cluster::start(options).await.unwrap();
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let mut schema = support::people(2, Durability::Sync);
    schema.thin.push(ThinIndex {
        name: "of_city".into(),
        columns: match shape {
            IndexShape::Hashed => vec![SortColumn::ascending(1)],
            IndexShape::Ranges => vec![SortColumn::descending(1)],
        },
        by_range: shape == IndexShape::Ranges,
        included: vec![2],
        unique: false,
        copies: 1,
    });
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    insert(&table, 0..ROWS).await;
    (cluster, table)
}

/// Damages entries of one partition of the index.
async fn damage(cluster: &mut Cluster) -> Damage {
    let configuration = cluster.configuration().await.unwrap();
    let table = configuration.table_named("people").unwrap().clone();
    let replex = table.layout.thin_numbers().next().unwrap();
    let coordinators = cluster.coordinator_addresses().to_vec();
    let mut inspector = Inspector::new(&coordinators, Duration::from_secs(30))
        .await
        .unwrap();
    let entries = inspector.rows("people", replex).await.unwrap();
    let mut stored = table.schema.columns.clone();
    stored.iter_mut().for_each(|column| column.nullable = true);
    // Of the partition of the first entry: one entry of another city, and some of this one.
    let mut number = None;
    let mut here = Vec::new();
    for (entry, version) in &entries {
        let view = RowView::parse(&stored, entry).unwrap();
        let own = table.layout.partition_of_row(replex, &view);
        if *number.get_or_insert(own) == own {
            here.push((view.to_values(), *version));
        }
    }
    let number = number.unwrap();
    let server = table.placement[replex][number as usize].core.server;
    let id = |values: &[Value]| match values[0] {
        Value::Int64(id) => id,
        _ => panic!("{values:?}"),
    };
    let missing = here[0].0.clone();
    let (with_wrong_column, version) = here[1].clone();
    let other = here[2..].iter().find(|it| it.0[1] != missing[1]);
    let (with_two_entries, second) = other.expect("two cities share a partition").clone();
    let mut packed = Vec::new();
    let mut put = |values: &[Value], version: Version| {
        version.encode(&mut packed);
        Bytes(encode_row(&stored, values).unwrap()).encode(&mut packed);
    };
    let mut wrong = with_wrong_column.clone();
    wrong[2] = Value::Int64(1_000);
    put(&wrong, version);
    let mut two = with_two_entries.clone();
    two[1] = missing[1].clone();
    put(&two, second);
    let without_row = 10 * ROWS;
    let mut orphan = missing.clone();
    orphan[0] = Value::Int64(without_row);
    put(&orphan, version);
    let order = table.layout.order(replex);
    let gone = encode_sorted(&order, |column| missing[column].as_ref());
    let partition = table.partition(replex, number);
    let record = Record::Matched {
        partition,
        rows: Bytes(packed),
        gone: vec![Bytes(gone)],
    };
    support::damage::append(cluster, partition, &record).await;
    Damage {
        missing: id(&missing),
        with_wrong_column: id(&with_wrong_column),
        with_two_entries: id(&with_two_entries),
        without_row,
        partition: number,
        server,
        primary: table.placement[table.layout.primary()][0].core.server,
    }
}

/// Changes, deletes and inserts rows; how many.
async fn write_until(table: Table, over: Arc<AtomicBool>) -> i64 {
    let mut written = 0;
    while !over.load(Ordering::Relaxed) {
        let id = written * 7 % ROWS;
        let mut row = person(id);
        row[1] = Value::Text(format!("city {}", written % 23));
        row[2] = Value::Int64(written);
        let deleted = table.delete(&row[..1], None).await.unwrap();
        let inserted = table.insert(&row).await.unwrap();
        assert!(deleted.took_effect() && inserted.took_effect());
        written += 1;
    }
    written
}

/// Runs a check with `--json`.
fn report(command: &[&str]) -> (Option<i32>, Json) {
    let output = support::run(&[command, &["--json"]].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), report)
}

/// Returns the primary keys that a report names, ascending.
fn named(report: &Json) -> Vec<i64> {
    let differences = report["indexes"][0]["differences"].as_array().unwrap();
    let id = |it: &Json| it["key"][0].as_str().unwrap().parse().unwrap();
    let mut ids: Vec<i64> = differences.iter().map(id).collect();
    ids.sort_unstable();
    ids
}
