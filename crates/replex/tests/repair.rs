//! Copies that differ, planted in the logs of servers that are stopped: `admin check` names the
//! rows, `admin repair` refills the partitions that most copies contradict.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use placement::{Durability, RowView, Value, encode_row};
use protocol::codec::{Bytes, Wire};
use protocol::identity::{PartitionId, Version};
use protocol::record::Record;
use replex::cluster::Cluster;
use replex::inspect::Inspector;
use server::folder::DataFolder;
use server::identity_file::ServerIdentity;
use storage::log::FlushTiming;
use storage::{DurableStore, StoreOptions};

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
    plant(&mut cluster, 0, 7).await;
    plant(&mut cluster, 1, 8).await;
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
    plant(&mut cluster, 1, 2).await;
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

/// Stops the server that holds a row in a replex, gives its log another row with this pk, and
/// starts it again.
async fn plant(cluster: &mut Cluster, replex: usize, id: i64) {
    let configuration = cluster.configuration().await.unwrap();
    let table = configuration.table_named("people").unwrap();
    let coordinators = cluster.coordinator_addresses().to_vec();
    let mut inspector = Inspector::new(&coordinators, Duration::from_secs(30))
        .await
        .unwrap();
    let rows = inspector.rows("people", replex).await.unwrap();
    let columns = &table.schema.columns;
    let (row, version) = rows
        .iter()
        .find(|(row, _)| {
            let view = RowView::parse(columns, row).unwrap();
            view.column(0).to_owned() == Value::Int64(id)
        })
        .unwrap();
    let view = RowView::parse(columns, row).unwrap();
    let number = table.layout.partition_of_row(replex, &view);
    let mut values = view.to_values();
    values[NOTE] = Value::Text("planted".into());
    let wrong = encode_row(columns, &values).unwrap();
    let mut packed = Vec::new();
    Version(version.0 + 1).encode(&mut packed);
    Bytes(wrong).encode(&mut packed);
    let record = Record::Copied {
        partition: PartitionId {
            table: table.id,
            replex: replex as u8,
            number,
        },
        rows: Bytes(packed),
    };

    let place = table.placement[replex][number as usize];
    let position = place.core.server.0 as usize - 1;
    cluster.stop(position).await.unwrap();
    let folder = cluster.server_folder(position);
    let disk = {
        let folder = DataFolder::open(&folder).unwrap();
        ServerIdentity::read(&folder).unwrap().unwrap().disk
    };
    let options = StoreOptions {
        create: false,
        ..StoreOptions::default()
    };
    let core = folder.join(format!("core-{}", place.core.core));
    let (mut store, recovery) = DurableStore::open(&core, disk, options, || {}).unwrap();
    recovery.log.replay(&mut |_| Ok(())).unwrap();
    let epoch = configuration.epoch.0;
    let at = store
        .log
        .append(epoch, &record.to_bytes(), FlushTiming::Now)
        .unwrap();
    store.submit();
    while store.log.durable() < at {
        store.health().unwrap();
        std::thread::yield_now();
    }
    drop(store);
    cluster.restart(position).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
}
