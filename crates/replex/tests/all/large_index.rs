//! A thin index is made over a large table and splits into ranges, while clients write the table.
//! Afterwards the index must have just the rows that the writers know.
//!
//! `REPLEX_LARGE_ROWS` is the number of rows. `cargo xtask large` sets it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, ConnectOptions, IfExists, RequestResult, Retry, SchemaBuilder, Table};
use placement::{ColumnType, Durability, ThinIndex, Value, ascending};
use protocol::configuration::Configuration;
use protocol::expression::{Assignment, Expression};
use replex::cluster::{Cluster, ClusterOptions};
use tokio::task::JoinSet;

use crate::support;
use crate::support::noise::Noise;
use crate::support::rows::{self, number};

const ROWS_DEFAULT: i64 = 20_000;
const LOADERS: i64 = 64;
const WRITERS: i64 = 8;
/// Of a writer after each change: the machine is for the servers, too.
const PAUSE: Duration = Duration::from_millis(1);
/// A range has at most this part of the rows.
const RANGES: i64 = 16;
/// How long all ranges may take to split, at the least, and for each million rows more. Each split
/// copies half of a range, with pauses for the clients of the core.
const SPLIT_WITHIN: Duration = Duration::from_secs(60);
const SPLIT_WITHIN_PER_MILLION: Duration = Duration::from_secs(600);
/// The positions of the columns.
const ID: usize = 0;
const A: usize = 1;

fn first_a(id: i64) -> i64 {
    id.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 20
}

/// Returns whether a change has taken effect. If not, it is made again. It leaves the row the same
/// if it runs twice.
fn is_done(asked: Result<RequestResult, client::Error>) -> bool {
    match asked {
        Ok(result) => result.took_effect(),
        Err(error) if error.retry() == Retry::Never => panic!("{error}"),
        Err(_) => false,
    }
}

fn row(id: i64) -> Vec<Value> {
    let note = Value::Text(format!("row number {id}"));
    vec![Value::Int64(id), Value::Int64(first_a(id)), note]
}

/// Changes the indexed column of rows of its own until it is over. Returns the last values.
async fn write(table: Table, first: i64, rows: i64, over: Arc<AtomicBool>) -> BTreeMap<i64, i64> {
    let mut noise = Noise::new(0x5eed ^ first as u64);
    let mut values = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        let id = first + noise.below((rows / WRITERS) as u64) as i64 * WRITERS;
        let value = first_a(noise.below(1 << 40) as i64);
        let change = Assignment {
            column: A as u16,
            value: Expression::Literal(Value::Int64(value)),
        };
        let pk = [Value::Int64(id)];
        while !is_done(table.update(&pk, vec![change.clone()], None).await) {}
        values.insert(id, value);
        tokio::time::sleep(PAUSE).await;
    }
    values
}

/// Reads the whole index and compares it with the rows that the writers know. If the read fails,
/// for example because a range splits meanwhile, the caller begins it again.
async fn expect_rows(
    table: &Table,
    rows: i64,
    changed: &BTreeMap<i64, i64>,
) -> Result<(), client::Error> {
    let range = table.range("by_a", Bound::Unbounded, Bound::Unbounded);
    let range = range.unwrap().projection([ID as u16, A as u16]);
    let mut coming = range.rows().unwrap();
    let mut seen = vec![false; rows as usize];
    let mut last = (i64::MIN, i64::MIN);
    while let Some(row) = coming.next().await? {
        let (id, a) = (number(&row.values[0]), number(&row.values[1]));
        let expected = changed.get(&id).copied().unwrap_or_else(|| first_a(id));
        assert_eq!(a, expected, "of row {id}");
        assert!(last < (a, id), "row {id} is not in order");
        assert!(!std::mem::replace(&mut seen[id as usize], true), "{id}");
        last = (a, id);
    }
    let missing: Vec<i64> = (0..rows).filter(|id| !seen[*id as usize]).collect();
    let shown = &missing[..missing.len().min(10)];
    assert!(
        missing.is_empty(),
        "{} are missing: {shown:?}",
        missing.len()
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_splits_while_its_table_is_written() {
    let rows = std::env::var("REPLEX_LARGE_ROWS");
    let rows = rows.map_or(ROWS_DEFAULT, |text| text.parse::<i64>().unwrap());
    let entries = (rows / RANGES).to_string();
    let options = ClusterOptions {
        servers: 3,
        server_arguments: vec!["--range-entries".into(), entries],
        ..ClusterOptions::new(support::program())
    };
    let mut cluster = Cluster::start(options).await.unwrap();
    let options = ConnectOptions::new(cluster.coordinator_addresses().to_vec());
    let client = Client::connect(options).await.unwrap();
    let schema = SchemaBuilder::new("large")
        .column("id", ColumnType::Int64)
        .column("a", ColumnType::Int64)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .failures_tolerated(1)
        .durability(Durability::Replicated)
        .build()
        .unwrap();
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    let begun = Instant::now();
    for tenth in 0..10 {
        let ids = rows * tenth / 10..rows * (tenth + 1) / 10;
        let loaded = ids.end;
        rows::fill(&table, ids, LOADERS, row).await;
        println!("{loaded} of {rows} rows");
    }
    println!("{rows} rows are loaded after {:.1?}", begun.elapsed());

    let over = Arc::new(AtomicBool::new(false));
    let mut writing = JoinSet::new();
    for first in 0..WRITERS {
        writing.spawn(write(table.clone(), first, rows, Arc::clone(&over)));
    }
    let begun = Instant::now();
    add_index(&client, &table).await;
    let made = begun.elapsed();
    wait_until_split(&mut cluster, rows).await;
    println!(
        "the index is made after {made:.1?}, with {} ranges after {:.1?}",
        ranges(&cluster.configuration().await.unwrap()),
        begun.elapsed()
    );
    over.store(true, Ordering::Relaxed);
    let changed = writing.join_all().await.into_iter().flatten();
    let changed: BTreeMap<i64, i64> = changed.collect();
    let mut begun = Instant::now();
    loop {
        client.refresh().await.unwrap();
        let table = client.table("large").await.unwrap();
        match expect_rows(&table, rows, &changed).await {
            Ok(()) => break,
            Err(error) => assert!(error.retry() != Retry::Never, "{error}"),
        }
        begun = Instant::now();
    }
    println!(
        "the index has all {rows} rows, {} of them changed meanwhile; read in {:.1?}",
        changed.len(),
        begun.elapsed()
    );
}

async fn add_index(client: &Client, table: &Table) {
    let mut wanted = table.schema().clone();
    wanted.thin.push(ThinIndex {
        name: "by_a".into(),
        columns: ascending(&[A]),
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies: 1,
    });
    client.add_copy(wanted, &|_| {}).await.unwrap();
}

/// Returns the number of ranges of the index; 0 while one is split or merged.
fn ranges(configuration: &Configuration) -> usize {
    let table = configuration.table_named("large");
    let layout = &table.expect("it was created").layout;
    let mut ranges = layout.replexes.iter().filter_map(|it| it.ranges.as_ref());
    let settled = ranges.next().filter(|ranges| ranges.transfers.is_empty());
    settled.map_or(0, |ranges| ranges.starts.len())
}

async fn wait_until_split(cluster: &mut Cluster, rows: i64) {
    let begun = Instant::now();
    let millions = u32::try_from(rows / 1_000_000).unwrap();
    let patience = SPLIT_WITHIN + SPLIT_WITHIN_PER_MILLION * millions;
    loop {
        let split = |configuration: &Configuration| ranges(configuration) as i64 >= RANGES / 2;
        match cluster.wait_until("the index is split", split).await {
            Ok(_) => return,
            Err(error) => assert!(begun.elapsed() < patience, "{error}"),
        }
    }
}
