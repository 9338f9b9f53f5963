//! The Rust client against a cluster of processes: its example, its errors, and writes that go on
//! exactly once while servers are killed.

#[allow(dead_code, reason = "the example's own `main` is not called here")]
#[path = "../../../client/examples/flights.rs"]
mod flights;

use client::{
    Client, ConnectOptions, Error, IfExists, IfMissing, IndexSelector, Retry, SchemaBuilder,
};
use placement::{ColumnType, Constraint, Value};
use protocol::codec::Bytes;
use protocol::operation::RequestResult;

use crate::support;

#[tokio::test]
async fn example_prints_its_documented_output() {
    let cluster = support::cluster(3).await;
    let seen = flights::tour(cluster.coordinator_address()).await.unwrap();
    let expected = [
        "N3 flew 20 times",
        "28 flights from EWR were 6 minutes late",
        "56 were 5 minutes late or more, the last of them number 195",
        "N3 has 19 flights",
        "N777 has 1 flights",
        "compare and set: true",
        "compare and set: false",
        "a row with (id) = (3) exists already in the primary key of table tour",
        "the first 150 rows end with id 149: true",
        "3 copies of 200 rows are equal: true",
    ];
    assert_eq!(seen, expected);
}

// tidy: long — one refusal after another, on one cluster
#[tokio::test]
async fn errors_name_the_thing_and_the_remedy() {
    let cluster = support::cluster(1).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let client = Client::connect(options).await.unwrap();
    let schema = || {
        SchemaBuilder::new("t")
            .column("id", ColumnType::Int64)
            .column("a", ColumnType::Text)
            .column("b", ColumnType::Text)
            .primary_key(&["id"])
            .constrained_index("by_a_b", &["a", "b"], Constraint::Unique)
    };
    let error = client.table("t").await.unwrap_err();
    assert!(matches!(&error, Error::NoTable { tables, .. } if tables.is_empty()));
    assert_eq!(error.retry(), Retry::Never);
    let too_safe = schema().failures_tolerated(2).build().unwrap();
    let error = client
        .create_table(too_safe, IfExists::Fail)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("failure"), "{error}");

    let built = schema().build().unwrap();
    let table = client
        .create_table(built.clone(), IfExists::Fail)
        .await
        .unwrap();
    let error = client
        .create_table(built.clone(), IfExists::Fail)
        .await
        .unwrap_err();
    assert!(error.to_string().contains('t'), "{error}");
    client.create_table(built, IfExists::Accept).await.unwrap();

    let row = |id: i64, a: &str| {
        [
            Value::Int64(id),
            Value::Text(a.into()),
            Value::Text("x".into()),
        ]
    };
    let result = table.insert(&row(1, "one")).await.unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
    let duplicate = table.insert(&row(2, "one")).await.unwrap();
    assert!(matches!(
        duplicate,
        RequestResult::Duplicate { replex: 1, .. }
    ));
    assert_eq!(
        table.explain(&duplicate),
        "a row with (a, b) = (one, x) exists already in index by_a_b of table t"
    );
    let wrong = table.insert(&[Value::Int64(3)]).await.unwrap_err();
    assert!(
        wrong.to_string().contains("1 values for 3 columns"),
        "{wrong}"
    );
    let wrong = table.get(&[Value::Text("1".into())]).await.unwrap_err();
    assert!(
        wrong.to_string().contains("column id is of type bigint"),
        "{wrong}"
    );
    let wrong = table.lookup("by_c", &[]).unwrap_err();
    assert!(wrong.to_string().contains("by_a_b (a, b)"), "{wrong}");
    let wrong = table
        .lookup("by_a_b", &[Value::Text("one".into())])
        .unwrap_err();
    assert!(wrong.to_string().contains("a, b"), "{wrong}");
    let found = table.get(&[Value::Int64(1)]).await.unwrap().unwrap();
    assert_eq!(found.values, row(1, "one"));
    let page = table
        .get_raw(0, &table.pk(&[Value::Int64(1)]).unwrap(), 10)
        .await
        .unwrap();
    assert_eq!(page.count, 1);
    assert_eq!(
        table
            .lookup(IndexSelector::PrimaryKey, &[Value::Int64(2)])
            .unwrap()
            .await
            .unwrap(),
        []
    );

    client.drop_table("t", IfMissing::Fail).await.unwrap();
    let error = client.drop_table("t", IfMissing::Fail).await.unwrap_err();
    assert!(error.to_string().contains('t'), "{error}");
    let gone = table.insert(&row(4, "four")).await.unwrap_err();
    assert!(
        matches!(&gone, Error::TableGone { table } if table == "t"),
        "{gone}"
    );
    let gone = table.get(&[Value::Int64(1)]).await.unwrap_err();
    assert!(matches!(gone, Error::TableGone { .. }), "{gone}");
    let invalid = table.client().status(Default::default()).await.unwrap_err();
    assert_eq!(invalid.retry(), Retry::Never);
}

/// Counters that are raised by one, many at a time, while each server is killed and started
/// again: at the end each counter is at least the number of raises that were acknowledged, and at
/// most that of those that were not certainly refused.
#[tokio::test]
async fn additions_happen_exactly_once_while_servers_are_killed() {
    const COUNTERS: i64 = 8;
    const WRITERS: usize = 16;
    let mut cluster = support::cluster(3).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let client = Client::connect(options).await.unwrap();
    let schema = SchemaBuilder::new("counters")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .primary_key(&["id"])
        .index("by_n", &["n"])
        .partitions(3)
        .failures_tolerated(2)
        .build()
        .unwrap();
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    for id in 0..COUNTERS {
        let row = [Value::Int64(id), Value::Int64(0)];
        let result = table.insert(&row).await.unwrap();
        assert!(matches!(result, RequestResult::Applied { .. }));
    }
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (table, stop) = (table.clone(), stop.clone());
        writers.spawn(async move { raise(&table, writer as i64 % COUNTERS, &stop).await });
    }
    for server in 0..3 {
        let before = total(&table, COUNTERS).await;
        cluster.kill(server).await.unwrap();
        cluster.restart(server).await.unwrap();
        cluster.wait_until_serving().await.unwrap();
        // Writes go on before the next one is killed.
        while total(&table, COUNTERS).await < before + 20 {
            tokio::task::yield_now().await;
        }
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut acknowledged = 0;
    let mut unknown = 0;
    while let Some(counts) = writers.join_next().await {
        let counts = counts.unwrap();
        acknowledged += counts.0;
        unknown += counts.1;
    }
    let total = total(&table, COUNTERS).await;
    assert!(acknowledged >= 60, "{acknowledged} acknowledged");
    assert!(
        (acknowledged..=acknowledged + unknown).contains(&total),
        "{acknowledged} were acknowledged, {unknown} are unknown, the counters show {total}"
    );
    let sums = table.checksums().await.unwrap();
    assert!(sums.iter().all(|(_, sum)| *sum == sums[0].1), "{sums:?}");
}

/// Raises a counter until it is stopped; how many times certainly, and how many times maybe.
async fn raise(table: &client::Table, id: i64, stop: &std::sync::atomic::AtomicBool) -> (i64, i64) {
    use protocol::expression::{Assignment, BinaryOperator, Expression};
    let n = table.column("n").unwrap();
    let one_more = Assignment {
        column: n,
        value: Expression::Binary(
            BinaryOperator::Add,
            Box::new(Expression::Column(n)),
            Box::new(Expression::Literal(Value::Int64(1))),
        ),
    };
    let (mut acknowledged, mut unknown) = (0, 0);
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        let changes = vec![one_more.clone()];
        match table.update(&[Value::Int64(id)], changes, None).await {
            Ok(RequestResult::Applied { .. }) => acknowledged += 1,
            Ok(other) => panic!("{other:?}"),
            Err(Error::Unknown { .. }) => unknown += 1,
            Err(error) => assert_eq!(error.retry(), Retry::Later, "{error}"),
        }
    }
    (acknowledged, unknown)
}

async fn total(table: &client::Table, counters: i64) -> i64 {
    let mut total = 0;
    for id in 0..counters {
        let row = table.get(&[Value::Int64(id)]).await.unwrap().unwrap();
        match row.values[1] {
            Value::Int64(n) => total += n,
            _ => panic!("{row:?}"),
        }
    }
    total
}

#[test]
fn bytes_of_a_key_are_those_of_the_protocol() {
    // Callers that encode keys themselves depend on it.
    let key = placement::encode_key([Value::Int64(1).as_ref()]);
    assert_eq!(Bytes(key).0, [1, 0x80, 0, 0, 0, 0, 0, 0, 1]);
}
