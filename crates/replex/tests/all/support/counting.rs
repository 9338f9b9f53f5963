//! A table of rows that are counted up by pairs, the second of a pair once the first is
//! acknowledged, whatever fails meanwhile. In each state of the table the two are equal or one
//! apart (R36), by every index.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use client::{Client, ConnectOptions, Error, IfExists, Retry, SchemaBuilder, Snapshot, Table};
use placement::{ColumnType, Constraint, Index, Schema, ThinIndex, Value, ascending};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;
use tokio::task::JoinHandle;

pub const TABLE: &str = "counters";
/// Together more than a moment reads, so that a read of all needs a snapshot.
pub const ROWS: i64 = 300;
/// Of each row that is not counted up.
const PAD_BYTES: usize = 8_192;
pub const WRITERS: i64 = 4;
/// Of a writer after each pair: the machine is for the servers.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
/// The positions of the columns.
pub const ID: usize = 0;
const BACK: usize = 1;
pub const N: usize = 2;

/// The counts of a state of the table, by the number of the row.
pub type Counts = BTreeMap<i64, i64>;

/// The writers, and how many pairs they have counted up.
pub struct Counting {
    over: Arc<AtomicBool>,
    pairs: Arc<AtomicU64>,
    writers: Vec<JoinHandle<()>>,
}

impl Counting {
    /// Creates the table and starts the writers, each with a client of its own.
    pub async fn start(cluster: &Cluster) -> Counting {
        let first = create(cluster).await;
        for id in 0..ROWS {
            assert!(first.insert(&row(id)).await.unwrap().took_effect());
        }
        let (over, pairs) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let table = create(cluster).await;
            let (over, pairs) = (Arc::clone(&over), Arc::clone(&pairs));
            writers.push(tokio::spawn(async move {
                let mut round = 0;
                while !over.load(Ordering::SeqCst) {
                    round += 1;
                    // The rows of a pair are far apart, so that a slow read meets many writes.
                    for id in [writer, ROWS - 1 - writer] {
                        count_up(&table, id, round).await;
                    }
                    pairs.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(PAUSE).await;
                }
            }));
        }
        Counting {
            over,
            pairs,
            writers,
        }
    }

    /// Returns how many pairs were counted up.
    pub fn pairs(&self) -> u64 {
        self.pairs.load(Ordering::SeqCst)
    }

    /// Fails if a writer has ended.
    pub fn expect_running(&self) {
        let ended = self.writers.iter().any(JoinHandle::is_finished);
        assert!(!ended, "a writer of pairs ended");
    }

    /// Has the writers end after their current pairs.
    pub async fn stop(self) {
        self.over.store(true, Ordering::SeqCst);
        for writer in self.writers {
            writer.await.unwrap();
        }
    }
}

/// Checks that all of so many rows are there, and pairs equal or one apart.
pub fn expect_one_state(counts: &Counts, rows: i64, what: &str) {
    let missing: Vec<i64> = (0..rows).filter(|id| !counts.contains_key(id)).collect();
    assert!(missing.is_empty(), "{what}: rows {missing:?} are missing");
    assert_eq!(counts.len() as i64, rows, "{what}: rows were never written");
    for writer in 0..WRITERS {
        let (first, second) = (counts[&writer], counts[&(rows - 1 - writer)]);
        assert!(
            first == second || first == second + 1,
            "{what}: writer {writer} has counted {first} and {second}"
        );
    }
}

/// The table with one index more, which counts are in, too.
pub fn with_index(schema: &Schema, name: &str) -> Schema {
    let mut wanted = schema.clone();
    wanted.indexes.push(Index {
        name: name.to_owned(),
        columns: vec![N, ID],
        constraint: None,
        partition_columns: None,
        by_range: false,
    });
    wanted
}

/// The table with one thin index more, of the counts or of a unique column.
pub fn with_thin_index(schema: &Schema, name: &str, unique: bool) -> Schema {
    let mut wanted = schema.clone();
    wanted.thin.push(ThinIndex {
        name: name.to_owned(),
        columns: ascending(if unique { &[BACK] } else { &[N] }),
        included: Vec::new(),
        by_range: !unique,
        unique,
        copies: 1,
    });
    wanted
}

/// Returns the table, but for how it is placed.
pub fn schema() -> SchemaBuilder {
    SchemaBuilder::new(TABLE)
        .column("id", ColumnType::Int64)
        .column("back", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("pad", ColumnType::Text)
        .primary_key(&["id"])
        .constrained_index("by_back", &["back"], Constraint::Unique)
        .index("by_n", &["n"])
}

async fn create(cluster: &Cluster) -> Table {
    let schema = schema()
        .partitions(4)
        .failures_tolerated(2)
        .thin_index("thin_n", &["n"], &[])
        .unique_thin_index("thin_back", &["back"], &[])
        .build()
        .unwrap();
    let options = ConnectOptions::new(cluster.coordinator_addresses().to_vec());
    let client = Client::connect(options).await.unwrap();
    client.create_table(schema, IfExists::Accept).await.unwrap()
}

fn row(id: i64) -> Vec<Value> {
    let is_counted = !(WRITERS..ROWS - WRITERS).contains(&id);
    let pad_bytes = if is_counted { 8 } else { PAD_BYTES };
    vec![
        Value::Int64(id),
        Value::Int64(ROWS - id),
        Value::Int64(0),
        Value::Text("x".repeat(pad_bytes)),
    ]
}

/// Counts a row up to `n`, which takes effect once however often it is sent: a copy that is late
/// finds another count.
async fn count_up(table: &Table, id: i64, n: i64) {
    let column = u16::try_from(N).expect("columns are few");
    let is_before = Expression::Binary(
        BinaryOperator::Equal,
        Box::new(Expression::Column(column)),
        Box::new(Expression::Literal(Value::Int64(n - 1))),
    );
    let mut may_have_happened = false;
    loop {
        let assignment = Assignment {
            column,
            value: Expression::Literal(Value::Int64(n)),
        };
        let pk = [Value::Int64(id)];
        let counted = table.update(&pk, vec![assignment], Some(is_before.clone()));
        match counted.await {
            Ok(RequestResult::Applied { .. }) => return,
            Ok(RequestResult::ConditionFailed) if may_have_happened => return,
            Ok(RequestResult::Conflict) => {}
            Ok(other) => panic!("row {id} is counted up to {n}: {other:?}"),
            Err(error) => match error.retry() {
                Retry::Later => {}
                Retry::AfterReading => may_have_happened = true,
                Retry::Never => panic!("row {id} is counted up to {n}: {error}"),
            },
        }
    }
}

/// Returns whether an error of a read is one after which the read may be begun again. An index
/// that was dropped meanwhile has to be looked up again.
pub fn may_be_repeated(error: &Error) -> bool {
    error.retry() != Retry::Never || matches!(error, Error::TableChanged { .. })
}

/// Returns the counts that an export has.
pub fn counts_of(path: &Path) -> Counts {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let mut counts = Counts::new();
    for record in reader.records() {
        let record = record.unwrap();
        let (id, n) = (record[ID].parse().unwrap(), record[N].parse().unwrap());
        assert_eq!(counts.insert(id, n), None, "row {id} is there twice");
    }
    counts
}

/// Returns the counts of a snapshot by an index.
pub async fn counts_at(table: &Table, index: &str, snapshot: &Snapshot) -> Result<Counts, Error> {
    let range = table.range(index, Bound::Unbounded, Bound::Unbounded)?;
    let mut counts = Counts::new();
    for row in range.at(snapshot).await? {
        let (Value::Int64(id), Value::Int64(n)) = (&row.values[ID], &row.values[N]) else {
            panic!("{row:?}");
        };
        assert!(row.version <= snapshot.version());
        assert_eq!(counts.insert(*id, *n), None, "row {id} is there twice");
    }
    Ok(counts)
}
