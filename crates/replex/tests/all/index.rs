//! Indexes that come to a full table and go from it while it is written to, with processes that are
//! killed meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, Error, IfExists, IfMissing, RequestResult, Table};
use placement::{Constraint, Durability, Schema, ThinIndex, Value};
use protocol::configuration::Configuration;
use replex::cluster::Cluster;

use crate::support;
use crate::support::rows::{fill, insert_until, with_index};

const ROWS: i64 = 20_000;
const WRITERS: i64 = 64;
/// Different notes; each is long, so that filling takes its time.
const NOTES: i64 = 100;
const NOTE_BYTES: usize = 1000;

#[tokio::test]
async fn an_index_is_made_under_load_though_processes_are_killed() {
    let (mut cluster, client, table) = people(4, Durability::Replicated).await;
    let address = cluster.coordinator_address().to_owned();
    fill(&table, 0..ROWS, WRITERS, person).await;

    let over = Arc::new(AtomicBool::new(false));
    let writer = insert_until(table.clone(), ROWS, person, Arc::clone(&over));
    let writer = tokio::spawn(writer);
    let maker = client.clone();
    let wanted = with_index(table.schema(), "by_note");
    let made = tokio::spawn(async move { maker.add_copy(wanted, &|_| {}).await });
    let building = |configuration: &Configuration| !configuration.tables[0].building.is_empty();
    cluster.wait_until("it is made", building).await.unwrap();
    let places = cluster.configuration().await.unwrap().tables[0].placement[3].clone();
    let killed = places[0].core.server.0 as usize - 1;
    let unfinished = support::kill_and_restart(&mut cluster, killed, &made).await;
    made.await.unwrap().unwrap();
    over.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    assert!(
        unfinished && written > 0,
        "the kills came late, or writes stood still"
    );

    let check = support::run_well(&["admin", "check", "people", "-C", &address]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
    assert!(check.contains("by_note"), "{check}");
    let found = client.table("people").await.unwrap();
    let found = found.lookup("by_note", &[note(7)]).unwrap().await.unwrap();
    assert_eq!(found.len() as i64, (ROWS + written - 7 + NOTES - 1) / NOTES);

    // Another one is given up while it is made.
    let table = client.table("people").await.unwrap();
    let wanted = with_index(table.schema(), "late");
    let maker = client.clone();
    let made = tokio::spawn(async move { maker.add_copy(wanted, &|_| {}).await });
    cluster.wait_until("it is made", building).await.unwrap();
    let dropped = client.drop_copy("people", "late", IfMissing::Fail).await;
    dropped.unwrap();
    let error = made.await.unwrap().unwrap_err();
    assert!(matches!(&error, Error::Refused { message, .. } if message.contains("was dropped")));
    let gone = |configuration: &Configuration| configuration.tables[0].schema.indexes.len() == 3;
    cluster.wait_until("it is gone", gone).await.unwrap();
}

/// Returns a cluster, a client of it, and an empty table of people.
async fn people(servers: usize, durability: Durability) -> (Cluster, Client, Table) {
    let cluster = support::cluster(servers).await;
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let schema = support::people(1, durability);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    (cluster, client, table)
}

fn note(id: i64) -> Value {
    Value::Text(format!("{:0width$}", id % NOTES, width = NOTE_BYTES))
}

fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    vec![Value::Int64(id), city, Value::Int64(id % 5), note(id)]
}

/// A thin index over a key that is too long names the row and leaves nothing. Once there is an
/// index, it refuses such a row.
#[tokio::test]
async fn a_thin_index_has_no_long_keys() {
    let (mut cluster, client, table) = people(2, Durability::Sync).await;
    let address = cluster.coordinator_address().to_owned();
    let mut long = person(1);
    long[3] = Value::Text("x".repeat(2_000));
    assert!(table.insert(&long).await.unwrap().took_effect());
    assert!(table.insert(&person(2)).await.unwrap().took_effect());
    let with_thin = |schema: &Schema, name: &str| {
        let mut schema = schema.clone();
        schema.thin.push(ThinIndex {
            name: name.into(),
            columns: placement::ascending(&[3]),
            included: Vec::new(),
            by_range: false,
            unique: name == "unique",
            copies: 1,
        });
        schema
    };
    for name in ["plain", "unique"] {
        let wanted = with_thin(table.schema(), name);
        let error = client.add_copy(wanted, &|_| {}).await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("at most 1024 are possible"), "{text}");
        assert!(text.contains("(id) = (1)"), "{text}");
        let is_gone = |configuration: &Configuration| {
            let table = &configuration.tables[0];
            table.schema.thin.is_empty() && table.building.is_empty()
        };
        cluster.wait_until("it is gone", is_gone).await.unwrap();
    }

    assert!(table.delete(&long[..1], None).await.unwrap().took_effect());
    // The same index twice, under two names.
    for name in ["plain", "again"] {
        let table = client.table("people").await.unwrap();
        let wanted = with_thin(table.schema(), name);
        client.add_copy(wanted, &|_| {}).await.unwrap();
    }
    let table = client.table("people").await.unwrap();
    let refused = table.insert(&long).await.unwrap();
    let RequestResult::Invalid { message } = &refused else {
        panic!("{refused:?}");
    };
    assert!(message.contains("the key of index plain has "), "{message}");
    for name in ["plain", "again"] {
        let found = table.lookup(name, &[note(2)]).unwrap().await.unwrap();
        assert_eq!(found.len(), 1, "{name}");
    }
    let check = support::run_well(&["admin", "-C", &address, "check", "people"]);
    assert!(check.contains("agree with the rows"), "{check}");
}

/// An index becomes a copy and a thin index again while clients write. The client that asks for it
/// is killed, and the next one goes on. Statements use an index by this name all the while.
#[tokio::test]
async fn an_index_changes_its_kind_under_load_though_its_client_is_killed() {
    let (mut cluster, client, table) = people(3, Durability::Replicated).await;
    let address = cluster.coordinator_address().to_owned();
    fill(&table, 0..ROWS, WRITERS, person).await;
    let sql = |text: &str| support::run_well(&["sql", "-C", &address, "-c", text]);
    sql("CREATE INDEX of_note ON people (note)");
    client.refresh().await.unwrap();

    let over = Arc::new(AtomicBool::new(false));
    let writer = insert_until(table.clone(), ROWS, person, Arc::clone(&over));
    let writer = tokio::spawn(writer);
    let reader = {
        let (client, over) = (client.clone(), Arc::clone(&over));
        tokio::spawn(async move {
            let mut read = 0;
            while !over.load(Ordering::Relaxed) {
                let table = client.table("people").await.unwrap();
                let found = table.lookup("of_note", &[note(7)]).unwrap().await;
                match found {
                    Ok(rows) => assert!(rows.len() as i64 >= ROWS / NOTES),
                    // The definition that the client knew is no longer valid.
                    Err(error) => assert!(error.to_string().contains("changed"), "{error}"),
                }
                read += 1;
            }
            read
        })
    };

    let change = "ALTER INDEX of_note SET USING replex";
    let mut asking = std::process::Command::new(support::program());
    asking.args(["sql", "-C", &address, "-c", change]);
    let mut asking = asking.stdout(std::process::Stdio::null()).spawn().unwrap();
    let building = |configuration: &Configuration| !configuration.tables[0].building.is_empty();
    cluster.wait_until("it is made", building).await.unwrap();
    asking.kill().unwrap();
    asking.wait().unwrap();
    let shown = sql("EXPLAIN SELECT * FROM people WHERE note = 'x'");
    assert!(shown.contains("by thin index of_note\n"), "{shown}");

    for kind in ["replex", "btree INCLUDE (city)"] {
        sql(&format!("ALTER INDEX of_note SET USING {kind}"));
        let configuration = cluster.configuration().await.unwrap();
        let Schema { indexes, thin, .. } = &configuration.tables[0].schema;
        let copies = indexes.iter().filter(|it| it.name == "of_note").count();
        let thin = thin.iter().filter(|it| it.name == "of_note").count();
        let wanted = if kind == "replex" { (1, 0) } else { (0, 1) };
        assert_eq!((copies, thin), wanted);
    }
    over.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    assert!(written > 0 && reader.await.unwrap() > 0);
    let check = support::run_well(&["admin", "-C", &address, "check", "people"]);
    assert!(check.contains("agree with the rows"), "{check}");
    let found = client.table("people").await.unwrap();
    let found = found.lookup("of_note", &[note(7)]).unwrap().await.unwrap();
    assert_eq!(found.len() as i64, (ROWS + written - 7 + NOTES - 1) / NOTES);
}

/// A unique index judges each row under its lock, so a value that goes from one row to another
/// while the index is made is never seen twice. No snapshot is needed for that.
#[tokio::test]
async fn a_value_may_go_to_another_row_while_its_unique_index_is_made() {
    let (mut cluster, client, table) = people(3, Durability::Replicated).await;
    let address = cluster.coordinator_address().to_owned();
    fill(&table, 0..ROWS, WRITERS, |id| badged(id, id)).await;

    let over = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for first in 0..8 {
        writers.spawn(hand_on(table.clone(), first, Arc::clone(&over)));
    }
    let mut wanted = with_index(table.schema(), "by_badge");
    wanted.indexes.last_mut().unwrap().constraint = Some(Constraint::Unique);
    let made = client.add_copy(wanted.clone(), &|_| {}).await;
    over.store(true, Ordering::Relaxed);
    made.expect("no value is in two rows at any moment");
    let mut handed_on = 0;
    while let Some(written) = writers.join_next().await {
        handed_on += written.unwrap();
    }
    assert!(handed_on > 100, "{handed_on} values were handed on");
    let check = support::run_well(&["admin", "check", "people", "-C", &address]);
    assert!(check.contains("All copies hold the same rows"), "{check}");

    // With two rows of one value it cannot be made, and says which value that is.
    client
        .drop_copy("people", "by_badge", IfMissing::Fail)
        .await
        .unwrap();
    let gone = |configuration: &Configuration| configuration.tables[0].schema.indexes.len() == 2;
    cluster.wait_until("it is gone", gone).await.unwrap();
    let table = client.table("people").await.unwrap();
    let result = table.insert(&badged(-1, 9_999)).await.unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
    let error = client.add_copy(wanted, &|_| {}).await.unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("several rows have") && error.contains("9999"),
        "{error}"
    );
}

/// Gives each eighth value to new rows, in turn, until it is over. Returns how often it did.
async fn hand_on(table: Table, first: i64, over: Arc<AtomicBool>) -> i64 {
    let mut written = 0;
    let mut holders: Vec<(i64, i64)> = (first..ROWS).step_by(8).map(|id| (id, id)).collect();
    while !over.load(Ordering::Relaxed) {
        let next = written as usize % holders.len();
        let (badge, holder) = holders[next];
        let new = (written + 1) * ROWS + badge;
        let result = table.delete(&[Value::Int64(holder)], None).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
        let result = table.insert(&badged(new, badge)).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
        holders[next].1 = new;
        written += 1;
    }
    written
}

/// A person whose note is a value that no other row has.
fn badged(id: i64, badge: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    let note = format!("{badge:0width$}", width = NOTE_BYTES / 2);
    vec![
        Value::Int64(id),
        city,
        Value::Int64(id % 5),
        Value::Text(note),
    ]
}
