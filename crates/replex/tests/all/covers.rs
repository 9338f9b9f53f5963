//! Servers killed for good, one after the other, and every lookup goes on: rows are read from the
//! covers of what is lost, at as many partitions as the grid predicts (Replex section 3.1, Fig. 6).
//! One server per partition, so that each death is the loss of one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use client::{Client, ConnectOptions, Error, IfExists, Retry, Table};
use placement::{
    Column, ColumnType, CoverCosts, Cut, Durability, FurtherCopy, Index, Schema, Share,
    TableConstraints, Value, cover,
};
use protocol::configuration::routes;
use protocol::configuration::{Configuration, ServerState};
use protocol::identity::{PartitionId, ServerId};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;

use crate::support;
use crate::support::redirected::{living, redirected};

const PARTITIONS: u32 = 4;
const COPIES: usize = 4;
const ROWS: i64 = 200;
const TAILS: i64 = 20;
const NUMBERS: i64 = 7;
/// The row whose copies die one by one.
const VICTIM: i64 = 5;
const INDEXES: [&str; 3] = ["t", "by_tail", "by_number"];
/// A read of rows that are nowhere left must fail before its deadline.
const DEADLINE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn lookups_visit_as_many_partitions_as_predicted_while_servers_die() {
    let mut cluster = support::cluster(COPIES * PARTITIONS as usize).await;
    let mut options = ConnectOptions::new([cluster.coordinator_address()]);
    options.deadline = DEADLINE;
    let client = Client::connect(options).await.unwrap();
    let table = client.create_table(schema(), IfExists::Fail).await.unwrap();
    for id in 0..ROWS {
        let result = table.insert(&row(id)).await.unwrap();
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
    }
    let mut dead = BTreeSet::new();
    check(&client, &table, &dead).await;
    let layout = &table.definition().layout;
    let victim = row(VICTIM);
    // The primary, the hybrid that covers it, then the cover of that.
    for replex in [0, 3, 1] {
        let number = layout.partition_of_values(replex, |column| victim[column].as_ref());
        let server = table.definition().placement[replex][number as usize]
            .core
            .server;
        cluster.kill(server.0 as usize - 1).await.unwrap();
        dead.insert(server);
        wait_until_known(&mut cluster, &client, &dead).await;
        let visited = check(&client, &table, &dead).await;
        println!(
            "{} servers dead: partitions visited {visited:?}",
            dead.len()
        );
        let report = client.configuration().report(table.definition());
        let predicted = &report.replexes[0];
        match dead.len() {
            1 => assert_eq!(visited[0], predicted.after_one_failure.max),
            2 => assert!(visited[0] <= predicted.after_two_failures.max),
            _ => assert!(visited[0] > 0),
        }
    }
    let number = layout.partition_of_values(2, |column| victim[column].as_ref());
    let server = table.definition().placement[2][number as usize].core.server;
    cluster.kill(server.0 as usize - 1).await.unwrap();
    dead.insert(server);
    wait_until_known(&mut cluster, &client, &dead).await;
    let asked = Instant::now();
    let error = table.get(&[Value::Int64(VICTIM)]).await.unwrap_err();
    assert!(asked.elapsed() < DEADLINE / 2, "it waited for its deadline");
    assert_eq!(error.retry(), Retry::Later);
    let Error::Lost { message } = error else {
        panic!("{error}");
    };
    let home = table.definition().layout.replexes[0].name.clone();
    assert!(message.contains(&home), "{message}");
    for server in &dead {
        assert!(message.contains(&server.0.to_string()), "{message}");
    }
    let lost = check_writes(&table, &dead).await;
    for server in &dead {
        cluster.restart(server.0 as usize - 1).await.unwrap();
    }
    cluster.wait_until_serving().await.unwrap();
    let found = table.get(&[Value::Int64(VICTIM)]).await.unwrap().unwrap();
    assert_eq!(found.values, row(VICTIM));
    check(&client, &table, &BTreeSet::new()).await;
    let result = table.insert(&row(lost)).await.unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
}

/// One server more is dead than the table tolerates. So they are not replaced, and rows that have a
/// copy there take no writes. Others do. Returns the number of such a row.
async fn check_writes(table: &Table, dead: &BTreeSet<ServerId>) -> i64 {
    let is_lost = |id: &i64| {
        let row = row(*id);
        let mut homes = (0..COPIES).map(|replex| {
            let definition = table.definition();
            let number = definition
                .layout
                .partition_of_values(replex, |column| row[column].as_ref());
            definition.placement[replex][number as usize].core.server
        });
        homes.any(|server| dead.contains(&server))
    };
    let lost = (ROWS..).find(is_lost).unwrap();
    let kept = (ROWS..).find(|id| !is_lost(id)).unwrap();
    let asked = Instant::now();
    let error = table.insert(&row(lost)).await.unwrap_err();
    assert!(asked.elapsed() < DEADLINE / 2, "it waited for its deadline");
    assert_eq!(error.retry(), Retry::Later);
    let text = error.to_string();
    assert!(
        text.contains("cannot be written") && text.contains("start one of them"),
        "{text}"
    );
    let result = table.insert(&row(kept)).await.unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
    let result = table.delete(&[Value::Int64(kept)], None).await.unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
    lost
}

fn schema() -> Schema {
    let column = |name: &str, column_type| Column {
        name: name.into(),
        column_type,
        nullable: false,
        default: None,
        missing: None,
    };
    let index = |name: &str, column| Index {
        name: name.into(),
        columns: vec![column],
        constraint: None,
        partition_columns: None,
        by_range: false,
    };
    let share = |index| Share {
        index,
        divisions: 2,
    };
    Schema {
        name: "t".into(),
        columns: vec![
            column("id", ColumnType::Int64),
            column("tail", ColumnType::Text),
            column("number", ColumnType::Int64),
        ],
        primary_key: vec![0],
        indexes: vec![index("by_tail", 1), index("by_number", 2)],
        thin: Vec::new(),
        further: vec![FurtherCopy {
            name: "hybrid".into(),
            cut: Cut::Hybrid {
                shares: vec![share(None), share(Some(0))],
            },
        }],
        partitions: PARTITIONS,
        failures_tolerated: 3,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Replicated,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

fn row(id: i64) -> Vec<Value> {
    vec![
        Value::Int64(id),
        Value::Text(format!("N{}", id % TAILS)),
        Value::Int64(id % NUMBERS),
    ]
}

/// Waits until the client, and every server that is left, know which servers are dead.
async fn wait_until_known(cluster: &mut Cluster, client: &Client, dead: &BTreeSet<ServerId>) {
    let down = |configuration: &Configuration| -> BTreeSet<ServerId> {
        let servers = configuration.servers.iter();
        let down = servers.filter(|server| server.state == ServerState::Down);
        down.map(|server| server.id).collect()
    };
    let known = cluster
        .wait_until("the dead to be known", |it| down(it) == *dead)
        .await
        .unwrap();
    let known: Configuration = known;
    while client.refresh().await.unwrap().epoch < known.epoch {}
    for core in living(client, dead) {
        let counter = |counters: Vec<(String, u64)>| {
            let mut counters = counters.into_iter();
            counters.find(|(name, _)| name == "epoch").unwrap().1
        };
        while counter(client.status(core).await.unwrap()) < known.epoch.0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Looks up every key of every index, and reads everything. All rows must be there, once. Each
/// redirected lookup must visit the partitions that the grid predicts, and read only the rows that
/// it returns. Returns the most that were visited, by index.
async fn check(client: &Client, table: &Table, dead: &BTreeSet<ServerId>) -> Vec<u32> {
    let mut visited = Vec::new();
    for (column, index) in INDEXES.iter().enumerate() {
        let mut rows: BTreeMap<String, (Value, Vec<Vec<Value>>)> = BTreeMap::new();
        for id in 0..ROWS {
            let key = row(id)[column].clone();
            let entry = rows.entry(key.to_string()).or_insert((key, Vec::new()));
            entry.1.push(row(id));
        }
        let mut most = 0;
        for (key, expected) in rows.into_values().take(24) {
            let predicted = predicted(table, column, &key, dead);
            // The first one may have to find out which servers are there.
            let found = table
                .lookup(*index, std::slice::from_ref(&key))
                .unwrap()
                .await
                .unwrap();
            let [reads, rows] = redirected(client, dead).await;
            let again = table
                .lookup(*index, std::slice::from_ref(&key))
                .unwrap()
                .await
                .unwrap();
            let after = redirected(client, dead).await;
            let (measured, looked_at) = (after[0] - reads, after[1] - rows);
            assert_eq!(found, again);
            let found: Vec<Vec<Value>> = found.into_iter().map(|row| row.values).collect();
            assert_eq!(found, expected, "{index} = {key}");
            assert_eq!(measured, u64::from(predicted), "{index} = {key}");
            let given = if predicted == 0 { 0 } else { expected.len() };
            // Each other copy has a row once; where a member is lost too, several are looked at.
            let copies = if dead.len() == 1 { 1 } else { COPIES - 1 };
            let at_most = copies * given;
            assert!(
                (given as u64..=at_most as u64).contains(&looked_at),
                "{index} = {key}: {looked_at} rows looked at for {given}"
            );
            most = most.max(predicted);
            let last = table.lookup(*index, std::slice::from_ref(&key)).unwrap();
            let last = last.descending().limit(1).await.unwrap();
            assert_eq!(last[0].values, *expected.last().unwrap());
        }
        visited.push(most);
    }
    let mut all = table.scan().ascending().rows().unwrap();
    for id in 0..ROWS {
        assert_eq!(all.next().await.unwrap().unwrap().values, row(id));
    }
    assert_eq!(all.next().await.unwrap(), None);
    assert_eq!(table.scan().count().await.unwrap(), ROWS as u64);
    visited
}

/// How many partitions a lookup must visit instead of its own; 0 if that is there.
fn predicted(table: &Table, column: usize, key: &Value, dead: &BTreeSet<ServerId>) -> u32 {
    let definition = table.definition();
    let index = column.checked_sub(1);
    let replex = routes::replex_of_index(definition, index).unwrap();
    let equated = |it| (it == column).then(|| key.as_ref());
    let numbers = routes::partitions(definition, replex, equated, (&[], None));
    let lives = |replex: usize, number: u32| {
        let place = definition.placement[replex][number as usize];
        !dead.contains(&place.core.server)
    };
    let lost = PartitionId {
        table: table.id(),
        replex,
        number: numbers[0],
    };
    if lives(usize::from(lost.replex), lost.number) {
        return 0;
    }
    let lost = (usize::from(lost.replex), lost.number);
    let cover = cover(&definition.layout, lost, &lives, &CoverCosts::LOOKUP);
    cover.unwrap().amplification()
}
