//! Tables that are cut into another number of partitions while they are read and written, with
//! processes that are killed meanwhile (R53).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Assignment, Client, ConnectOptions, Error, Expression, IfExists, Table};
use placement::{Durability, Value};
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::BinaryOperator;
use replex::cluster::Cluster;

use crate::support;
use crate::support::rows::{fill, insert_until};

const ROWS: i64 = 12_000;
const WRITERS: i64 = 64;
/// Each note is long, so that filling takes its time.
const NOTE_BYTES: usize = 1000;

fn person(id: i64) -> Vec<Value> {
    let city = Value::Text(format!("city {}", id % 17));
    let note = Value::Text(format!("{id:0NOTE_BYTES$}"));
    vec![Value::Int64(id), city, Value::Int64(0), note]
}

async fn full_table(cluster: &Cluster) -> (Client, Table) {
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let client = Client::connect(options).await.unwrap();
    let schema = support::people(1, Durability::Replicated);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    fill(&table, 0..ROWS, WRITERS, person).await;
    (client, table)
}

fn people(configuration: &Configuration) -> &PlacedTable {
    configuration.table_named("people").unwrap()
}

fn is_resized(configuration: &Configuration) -> bool {
    people(configuration).layout.next_partitions().is_some()
}

/// Counts one row up, and reads it back, until it is over. Returns how often.
async fn count_until(table: Table, id: i64, over: Arc<AtomicBool>) -> i64 {
    let one_more = Expression::Binary(
        BinaryOperator::Add,
        Box::new(Expression::Column(2)),
        Box::new(Expression::Literal(Value::Int64(1))),
    );
    let pk = [Value::Int64(id)];
    let mut count = 0;
    while !over.load(Ordering::Relaxed) {
        let assignment = Assignment {
            column: 2,
            value: one_more.clone(),
        };
        let written = table.update(&pk, vec![assignment], None).await.unwrap();
        assert!(written.took_effect(), "{written:?}");
        count += 1;
        let row = table.get(&pk).await.unwrap().expect("no client deletes it");
        assert_eq!(row.values[2], Value::Int64(count), "one effect per request");
    }
    count
}

/// Checks that all copies have so many partitions and the same rows, and finds rows by each key.
async fn expect_partitions(cluster: &Cluster, client: &Client, partitions: u32, rows: i64) {
    let configuration = cluster.configuration().await.unwrap();
    let table = people(&configuration);
    assert_eq!(table.schema.partitions, partitions);
    for number in table.layout.numbers() {
        assert_eq!(table.layout.partition_count(number), partitions);
    }
    let address = cluster.coordinator_address();
    let check = support::run_well(&["admin", "check", "people", "-C", address]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
    let counted = support::run_well(&["sql", "-C", address, "-c", "SELECT count(*) FROM people"]);
    assert!(counted.contains(&rows.to_string()), "{counted}");
    let found = client.table("people").await.unwrap();
    let by_city = [Value::Text("city 5".into())];
    let by_city = found.lookup("by_city", &by_city).unwrap().await.unwrap();
    assert_eq!(by_city.len() as i64, (rows - 5 + 16) / 17);
    for id in (0..rows).step_by(977) {
        let row = found.get(&[Value::Int64(id)]).await.unwrap().unwrap();
        assert_eq!(row.values[1], person(id)[1]);
    }
}

#[tokio::test]
async fn the_number_changes_under_load_though_processes_are_killed() {
    let mut cluster = support::cluster(4).await;
    let (client, table) = full_table(&cluster).await;
    let over = Arc::new(AtomicBool::new(false));
    let inserting = insert_until(table.clone(), ROWS, person, Arc::clone(&over));
    let inserting = tokio::spawn(inserting);
    let counting = tokio::spawn(count_until(table.clone(), 7, Arc::clone(&over)));

    let maker = client.clone();
    let made = tokio::spawn(async move { maker.set_partitions("people", 20, &|_| {}).await });
    cluster
        .wait_until("it has begun", is_resized)
        .await
        .unwrap();
    let configuration = cluster.configuration().await.unwrap();
    let (successor, _) = people(&configuration).layout.successors().next().unwrap();
    let place = people(&configuration).placement[successor][0];
    let killed = place.core.server.0 as usize - 1;
    let unfinished = support::kill_and_restart(&mut cluster, killed, &made).await;
    made.await.unwrap().unwrap();
    assert!(unfinished, "the kills came late");

    // The number can fall as well, and heads of the first time are long gone by then.
    client.set_partitions("people", 5, &|_| {}).await.unwrap();
    over.store(true, Ordering::Relaxed);
    let rows = ROWS + inserting.await.unwrap();
    assert!(counting.await.unwrap() > 0 && rows > ROWS);
    expect_partitions(&cluster, &client, 5, rows).await;

    // All of it is durable, and found again.
    for server in 0..4 {
        cluster.kill(server).await.unwrap();
    }
    for server in 0..4 {
        cluster.restart(server).await.unwrap();
    }
    expect_partitions(&cluster, &client, 5, rows).await;
}

#[tokio::test]
async fn a_change_can_be_given_up_and_others_wait_for_it() {
    let mut cluster = support::cluster(3).await;
    let (client, table) = full_table(&cluster).await;
    let before = table.schema().partitions;
    let maker = client.clone();
    let made = tokio::spawn(async move { maker.set_partitions("people", 48, &|_| {}).await });
    cluster
        .wait_until("it has begun", is_resized)
        .await
        .unwrap();
    let address = cluster.coordinator_address().to_owned();
    let sql = |text: &str| support::run(&["sql", "-C", &address, "-c", text]);

    let index = sql("CREATE INDEX late ON people USING replex (note)");
    let again = sql("ALTER TABLE people SET (partitions = 24)");
    for refused in [index, again] {
        assert!(!refused.status.success());
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains("is being cut into 48 partitions"), "{text}");
        assert!(
            text.contains(&format!("SET (partitions = {before})")),
            "{text}"
        );
    }
    let given_up = sql(&format!("ALTER TABLE people SET (partitions = {before})"));
    assert!(given_up.status.success(), "{given_up:?}");
    let error = made.await.unwrap().unwrap_err();
    assert!(
        matches!(&error, Error::Refused { message, .. } if message.contains("was given up")),
        "{error}"
    );
    expect_partitions(&cluster, &client, before, ROWS).await;
    support::run_well(&[
        "sql",
        "-C",
        &address,
        "-c",
        "CREATE INDEX late ON people USING replex (note)",
    ]);
}

#[tokio::test]
async fn a_number_that_cannot_be_is_refused_with_a_remedy() {
    let mut cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let sql = |text: &str| support::run(&["sql", "-C", &address, "-c", text]);
    let made = sql(
        "CREATE TABLE small (id bigint PRIMARY KEY, a bigint, INDEX by_a (a)) WITH (partitions = 4);
         CREATE TABLE cut (id bigint PRIMARY KEY, a bigint, INDEX by_a (a),
           INDEX h USING hybrid (cut, by_a) WITH (divisions = '2,2')) WITH (partitions = 4)",
    );
    assert!(made.status.success(), "{made:?}");
    let refusals = [
        (
            "ALTER TABLE small SET (partitions = 0)",
            "a whole number from 1 to 4096",
        ),
        (
            "ALTER TABLE small SET (partitions = 4097)",
            "a whole number from 1 to 4096",
        ),
        (
            "ALTER TABLE small SET (partitions = many)",
            "a whole number from 1 to 4096",
        ),
        (
            "ALTER TABLE small SET (durability = 'sync')",
            "only partitions and failures_tolerated can",
        ),
        (
            "ALTER TABLE small SET (partitions = 8, x = 1)",
            "changes one option",
        ),
        ("ALTER TABLE nothing SET (partitions = 8)", "nothing"),
        ("ALTER TABLE cut SET (partitions = 8)", "drop h first"),
    ];
    for (statement, expected) in refusals {
        let refused = sql(statement);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{statement}");
        assert!(text.contains(expected), "{statement}: {text}");
    }
    // The same number changes nothing, many can be had, and one is enough.
    for partitions in [4, 64, 1, 6] {
        let statement = format!("ALTER TABLE small SET (partitions = {partitions})");
        let done = sql(&statement);
        assert!(done.status.success(), "{statement}: {done:?}");
    }
    cluster.kill(0).await.unwrap();
    let is_down = |it: &Configuration| {
        let mut servers = it.servers.iter();
        servers.any(|server| server.state == protocol::configuration::ServerState::Down)
    };
    cluster.wait_until("it is down", is_down).await.unwrap();
    let refused = sql("ALTER TABLE small SET (partitions = 8)");
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("is down"), "{text}");
}
