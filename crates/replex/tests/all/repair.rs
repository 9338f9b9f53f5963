//! Copies that differ, planted in the logs of servers that are stopped: `admin check` names the
//! rows, `admin repair` refills the partitions that most copies contradict.

use std::time::Duration;

use placement::{Durability, RowView, Value, encode_row};
use protocol::codec::{Bytes, Wire};
use protocol::identity::Version;
use protocol::record::Record;
use replex::cluster::Cluster;
use replex::inspect::Inspector;

use crate::support;
use crate::support::rows;

const ROWS: i64 = 300;
const NOTE: usize = 3;

#[tokio::test]
async fn minority_copy_is_named_and_refilled() {
    let mut cluster = support::cluster(3).await;
    let coordinator = cluster.coordinator_address().to_owned();
    support::create(&cluster, support::people(2, Durability::Sync)).await;
    let values = |id: i64| format!("({id}, 'city {}', {}, 'note {id}')", id % 7, id % 11);
    let rows: Vec<String> = (0..ROWS).map(values).collect();
    let insert = format!("INSERT INTO people VALUES {}", rows.join(", "));
    support::run_well(&["sql", "-C", &coordinator, "-c", &insert]);
    let check = ["admin", "-C", &coordinator, "check", "people"];
    assert!(support::run_well(&check).contains("All copies hold the same rows."));

    // One row differs in the primary copy, another one in an index.
    plant(&mut cluster, 0, |id| id == 7).await;
    plant(&mut cluster, 1, |id| id == 8).await;
    let output = support::run(&check);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("The copies differ."), "{text}");
    assert!(text.contains("  (7): people has version "), "{text}");
    assert!(text.contains("  (8): people has version "), "{text}");
    assert!(!text.contains("  (9): "), "{text}");

    let refused = support::run_badly(
        &[
            "admin",
            "-C",
            &coordinator,
            "repair",
            "people",
            "--trust",
            "strangers",
        ],
        1,
    );
    assert!(
        refused.contains("it has: people, by_city, by_score"),
        "{refused}"
    );
    let repaired = support::run_well(&["admin", "-C", &coordinator, "repair", "people"]);
    assert!(repaired.contains("2 rows differ."), "{repaired}");
    assert!(
        repaired.contains("2 partitions are refilled."),
        "{repaired}"
    );
    assert!(support::run_well(&check).contains("All copies hold the same rows."));
    let select = "SELECT note FROM people WHERE id = 7";
    let note = support::run_well(&["sql", "-C", &coordinator, "-c", select]);
    assert!(note.contains("note 7"), "{note}");
    cluster.check_processes().unwrap();
}

#[tokio::test]
async fn different_copies_are_found_automatically() {
    let mut options = support::options(3);
    let every = ["--check-every", "0.1"].map(str::to_owned);
    options.coordinator_arguments.extend(every);
    let mut cluster = Cluster::start(options).await.unwrap();
    let coordinator = cluster.coordinator_address().to_owned();
    support::create(&cluster, support::people(2, Durability::Sync)).await;
    let insert = "INSERT INTO people VALUES (1, 'a', 1, 'x'), (2, 'b', 2, 'y')";
    support::run_well(&["sql", "-C", &coordinator, "-c", insert]);
    let is_sound = "event=self-check table=people rows=2 seconds=0";
    logged(&cluster, is_sound).await;
    assert!(!cluster.coordinator(0).log_text().contains("copies-differ"));
    plant(&mut cluster, 1, |id| id == 2).await;
    let differs = "error event=copies-differ table=people row=\"(2): people has version ";
    logged(&cluster, differs).await;
    logged(&cluster, "see=\"replex admin check people; ").await;
    logged(
        &cluster,
        "error event=self-check table=people rows=2 differ=1",
    )
    .await;
    support::run_well(&["admin", "-C", &coordinator, "repair", "people"]);
    cluster.check_processes().unwrap();
}

/// Waits for something in the coordinator's log.
async fn logged(cluster: &Cluster, text: &str) {
    let found = async {
        while !cluster.coordinator(0).log_text().contains(text) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let within = tokio::time::timeout(Duration::from_secs(60), found).await;
    let log = || cluster.coordinator(0).log_text();
    within.unwrap_or_else(|_| panic!("{text:?} is not in the log:\n{}", log()));
}

/// Sums and rows are compared at one snapshot, so that a difference of the sums always has its
/// rows, although these are written meanwhile and differ no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_differ_belong_to_the_sums_while_clients_write() {
    let mut cluster = support::cluster(3).await;
    let table = rows::create_of(&cluster, 2).await;
    rows::insert(&table, 0..ROWS).await;
    let planted = plant(&mut cluster, 1, |_| true).await;
    assert!(planted.len() > 10, "{planted:?}");
    let address = cluster.coordinator_address().to_owned();
    let check = ["admin", "-C", &address, "check", "people", "--json"];
    let compared = || {
        let output = support::run(&check);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let copies = report["copies"].as_array().unwrap();
        let sums_differ = copies
            .iter()
            .any(|it| it["checksum"] != copies[0]["checksum"]);
        let differences = report["differences"].as_array().unwrap().len();
        assert_eq!(sums_differ, differences > 0, "{report:#}");
        assert_eq!(output.status.success(), !sums_differ);
        differences
    };
    assert_eq!(compared(), planted.len());
    // A row that is written is the same everywhere again.
    let writer = tokio::spawn(async move {
        for id in planted {
            let pk = [Value::Int64(id)];
            assert!(table.delete(&pk, None).await.unwrap().took_effect());
            rows::insert(&table, id..id + 1).await;
        }
    });
    while compared() > 0 {}
    writer.await.unwrap();
    cluster.check_processes().unwrap();
}

/// Stops the server that holds rows in a replex, gives its log other rows with their pks, and
/// starts it again. It does so for the wanted rows of one partition, and returns their pks.
async fn plant(cluster: &mut Cluster, replex: usize, is_wanted: fn(i64) -> bool) -> Vec<i64> {
    let configuration = cluster.configuration().await.unwrap();
    let table = configuration.table_named("people").unwrap();
    let coordinators = cluster.coordinator_addresses().to_vec();
    let mut inspector = Inspector::new(&coordinators, Duration::from_secs(30))
        .await
        .unwrap();
    let rows = inspector.rows("people", replex).await.unwrap();
    let columns = &table.schema.columns;
    let (mut planted, mut packed, mut number) = (Vec::new(), Vec::new(), None);
    for (row, version) in &rows {
        let view = RowView::parse(columns, row).unwrap();
        let mut values = view.to_values();
        let Value::Int64(id) = values[0] else {
            panic!("{values:?}");
        };
        let own = table.layout.partition_of_row(replex, &view);
        if !is_wanted(id) || *number.get_or_insert(own) != own {
            continue;
        }
        planted.push(id);
        values[NOTE] = Value::Text("planted".into());
        Version(version.0 + 1).encode(&mut packed);
        Bytes(encode_row(columns, &values).unwrap()).encode(&mut packed);
    }
    let number = number.unwrap();
    let partition = table.partition(replex, number);
    let record = Record::Copied {
        partition,
        rows: Bytes(packed),
    };
    support::damage::append(cluster, partition, &record).await;
    planted
}
