//! Clients that run random operations on random rows and write down their observations, and the
//! judge. Is there an order of all operations that a single machine could have gone through (R9 to
//! R12)?
//!
//! Rows are in groups that share no key of any index, so each group is an object of its own to
//! judge. A group is used for some while, by all clients at once, then left as it is, and has to
//! be like that at the end. The table, the operations and the search are the simulator's.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, ConnectOptions, Error, IfExists, Retry, SchemaBuilder, Table};
use placement::{
    ColumnType, Constraint, Cut, FurtherCopy, RowView, Schema, Share, SortColumn, ThinIndex, Value,
};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::operation::RequestResult;
use replex::cluster::Cluster;
use replex::inspect::{Inspector, are_equal};
use simulator::linearizable::{Call, Verdict, check};
use simulator::model::{
    A, COLUMNS, ColumnChange, Copy, D, GROUP, GroupState, ID, IndexConstraint, Model, ModelRow, N,
    Observation, PartitionRange, TAG, U, WorkloadOperation,
};

use super::noise::Noise;

pub const TABLE: &str = "rows";
const COLUMN_NAMES: [&str; COLUMNS] = ["g", "id", "a", "u", "d", "n", "tag"];
/// Groups that are in use at a time.
const GROUPS_AT_ONCE: usize = 4;
/// Operations on a group before it is left.
const OPERATIONS_PER_GROUP: usize = 150;
/// Keys of a group are its number times this and a little more.
const KEYS_PER_GROUP: i64 = 100;
/// Rows, values of the plain index and values of the unique one in a group. They are few, so that
/// operations meet.
const IDS: u64 = 4;
const PLAIN_VALUES: u64 = 2;
const UNIQUE_VALUES: u64 = 5;
/// Of a client after each operation: the machine is for the servers.
const PAUSE: Duration = Duration::from_millis(5);
/// Steps of the model for one group: far more than any took.
const STEPS_MAX: u64 = 20_000_000;
/// The positions of the copies in the model.
const BY_ID: usize = 0;
const BY_UNIQUE: usize = 1;
const BY_PLAIN: usize = 2;
const BY_ENTRIES: usize = 3;
const BY_RANGED: usize = 4;
/// By these positions, what lookups name.
const INDEXES: [&str; 5] = [TABLE, "by_u", "by_a", "thin_a", "ranged_a"];
/// Time for every copy to be read.
const INSPECT_WITHIN: Duration = Duration::from_secs(120);

type History = Vec<Call<WorkloadOperation, Observation>>;

/// The operations and observations so far, shared by clients and judge.
#[derive(Clone, Default)]
pub struct Record {
    /// Orders beginnings and ends; no two are equal.
    clock: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    groups: Arc<Mutex<Groups>>,
}

#[derive(Default)]
struct Groups {
    /// By number. Those beyond the first ones are begun when one is left.
    all: BTreeMap<i64, Vec<Entry>>,
    /// How many were left.
    left: usize,
    in_use: [i64; GROUPS_AT_ONCE],
}

/// A call of a history while it may still be under way.
#[derive(Clone)]
struct Entry {
    call: Call<WorkloadOperation, Observation>,
    /// Certainly nothing happened, and nothing was seen.
    void: bool,
}

impl Record {
    /// Operations that a client knows the outcome of.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    /// Has the clients end after their current operations.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        let groups = self.groups.lock().unwrap();
        groups.all.values().map(Vec::len).sum()
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn begin(&self, group: i64, operation: WorkloadOperation) -> usize {
        let begun = self.now();
        let mut groups = self.groups.lock().unwrap();
        let entries = groups.all.entry(group).or_default();
        let ended = None;
        entries.push(Entry {
            call: Call {
                begun,
                ended,
                operation,
            },
            void: false,
        });
        entries.len() - 1
    }

    fn end(&self, group: i64, place: usize, seen: Result<Observation, Error>) {
        let now = self.now();
        let mut groups = self.groups.lock().unwrap();
        let entry = &mut groups.all.get_mut(&group).expect("it was begun")[place];
        match seen {
            Ok(seen) => {
                entry.call.ended = Some((now, seen));
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => match error.retry() {
                Retry::Later => entry.void = true,
                Retry::AfterReading => {}
                Retry::Never => panic!("{:?}: {error}", entry.call.operation),
            },
        }
    }

    /// Returns a group in use.
    fn group(&self, noise: &mut Noise) -> i64 {
        let slot = noise.below(GROUPS_AT_ONCE as u64) as usize;
        let mut groups = self.groups.lock().unwrap();
        // Those in use at first are numbered like their slots, from 1.
        let group = match groups.in_use[slot] {
            0 => slot as i64 + 1,
            group => group,
        };
        let operations = groups.all.get(&group).map_or(0, Vec::len);
        let group = if operations < OPERATIONS_PER_GROUP {
            group
        } else {
            groups.left += 1;
            (GROUPS_AT_ONCE + groups.left) as i64
        };
        groups.in_use[slot] = group;
        group
    }

    fn histories(&self) -> BTreeMap<i64, History> {
        let groups = self.groups.lock().unwrap();
        let describe = |entries: &Vec<Entry>| {
            let real = entries.iter().filter(|entry| !entry.void);
            real.map(|entry| entry.call.clone()).collect()
        };
        let all = groups.all.iter();
        all.map(|(group, entries)| (*group, describe(entries)))
            .collect()
    }

    /// Judges the groups that were left since the last time.
    pub fn judge(&self, judged: &mut BTreeSet<i64>) {
        let in_use = self.groups.lock().unwrap().in_use;
        for (group, history) in self.histories() {
            if !in_use.contains(&group) && judged.insert(group) {
                judge(group, &history);
            }
        }
    }

    /// Judges everything together with the final rows: all copies are equal, and hold the effects
    /// of the operations. Returns how many rows there are.
    pub async fn judge_at_rest(&self, cluster: &Cluster) -> usize {
        let mut inspector = Inspector::new(cluster.coordinator_addresses(), INSPECT_WITHIN)
            .await
            .unwrap();
        let copies = inspector.sums(TABLE).await.unwrap();
        assert!(are_equal(&copies), "{copies:#?}");
        let columns = schema().columns;
        let mut at_rest: BTreeMap<i64, Vec<ModelRow>> = BTreeMap::new();
        let first = inspector.rows(TABLE, 0).await.unwrap();
        for bytes in first.keys() {
            let row = row_of(&RowView::parse(&columns, bytes).unwrap().to_values());
            at_rest.entry(row[GROUP]).or_default().push(row);
        }
        for (replex, copy) in copies.iter().enumerate() {
            let rows = inspector.rows(TABLE, replex).await.unwrap();
            assert!(rows == first, "{} holds other rows", copy.name);
        }
        for (group, mut history) in self.histories() {
            let mut rows = at_rest.remove(&group).unwrap_or_default();
            rows.sort_unstable_by_key(|row| row[ID]);
            history.push(Call {
                begun: self.now(),
                ended: Some((self.now(), Observation::Rows(rows))),
                operation: WorkloadOperation::ReadAll,
            });
            judge(group, &history);
        }
        assert!(at_rest.is_empty(), "never written: {at_rest:?}");
        first.len()
    }
}

fn judge(group: i64, history: &History) {
    let copy = |number, columns: &[usize], demand| Copy {
        number,
        columns: placement::ascending(columns),
        is_thin: number == BY_ENTRIES,
        demand,
        partitions: 1,
        partition: Rc::new(|_| 0),
    };
    let mut copies = vec![copy(BY_ID, &[ID], IndexConstraint::Plain); INDEXES.len()];
    copies[BY_UNIQUE] = copy(BY_UNIQUE, &[U], IndexConstraint::Unique);
    copies[BY_PLAIN] = copy(BY_PLAIN, &[A], IndexConstraint::Plain);
    copies[BY_ENTRIES] = copy(BY_ENTRIES, &[A], IndexConstraint::Plain);
    copies[BY_RANGED] = copy(BY_RANGED, &[A], IndexConstraint::Plain);
    let model = Model::new(copies);
    match check(&model, GroupState::default(), history, STEPS_MAX) {
        Verdict::Linearizable => {}
        Verdict::Undecided => println!("group {group} takes too long to judge"),
        Verdict::Violated { ordered, stuck } => {
            let stuck: Vec<_> = stuck.iter().map(|index| &history[*index]).collect();
            for call in history {
                println!("{call:?}");
            }
            panic!("group {group}: {ordered} operations can be ordered, then none of {stuck:#?}");
        }
    }
}

/// The table: two indexes, one of them unique, a hybrid, and a thin index and a further copy whose
/// ranges split. It tolerates the loss of two servers.
fn schema() -> Schema {
    let mut builder = SchemaBuilder::new(TABLE);
    for name in COLUMN_NAMES {
        builder = builder.column(name, ColumnType::Int64);
    }
    let mut schema = builder
        .primary_key(&["id"])
        .constrained_index("by_u", &["u"], Constraint::Unique)
        .index("by_a", &["a"])
        .ranged_index(INDEXES[BY_RANGED], &["a"])
        .partitions(4)
        .failures_tolerated(2)
        .build()
        .unwrap();
    let share = |index| Share {
        index,
        divisions: 2,
    };
    schema.further = vec![FurtherCopy {
        name: "hybrid".into(),
        cut: Cut::Hybrid {
            shares: vec![share(None), share(Some(1))],
        },
    }];
    schema.thin = vec![ThinIndex {
        name: INDEXES[BY_ENTRIES].into(),
        columns: vec![SortColumn::descending(A)],
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies: 1,
    }];
    schema
}

/// Creates the table and starts so many clients.
pub async fn start(
    cluster: &Cluster,
    clients: u64,
    seed: u64,
    record: &Record,
) -> Vec<tokio::task::JoinHandle<()>> {
    let mut tasks = Vec::new();
    for number in 0..clients {
        let options = ConnectOptions::new(cluster.coordinator_addresses().to_vec());
        let client = Client::connect(options).await.unwrap();
        let table = client.create_table(schema(), IfExists::Accept);
        let table = table.await.unwrap();
        let noise = Noise::new(seed ^ (number + 1) << 32);
        tasks.push(tokio::spawn(work(table, noise, number, record.clone())));
    }
    tasks
}

async fn work(table: Table, mut noise: Noise, client: u64, record: Record) {
    let mut tag = client as i64;
    while !record.stop.load(Ordering::SeqCst) {
        // Names every write of every client.
        tag += 1_000;
        let group = record.group(&mut noise);
        let operation = draw(&mut noise, group, tag);
        let place = record.begin(group, operation.clone());
        let seen = run(&table, &operation).await;
        record.end(group, place, seen);
        tokio::time::sleep(PAUSE).await;
    }
}

fn draw(noise: &mut Noise, group: i64, tag: i64) -> WorkloadOperation {
    let mut key = |count: u64| group * KEYS_PER_GROUP + noise.below(count) as i64;
    let (id, plain, unique) = (key(IDS), key(PLAIN_VALUES), key(UNIQUE_VALUES));
    let read = |replex, value| {
        WorkloadOperation::Read(PartitionRange {
            replex,
            partition: 0,
            low: vec![value],
            high: vec![value],
            descending: false,
            limit: usize::MAX,
        })
    };
    match noise.below(20) {
        0..5 => {
            let mut row = [0; COLUMNS];
            (row[GROUP], row[ID], row[TAG]) = (group, id, tag);
            (row[A], row[U]) = (plain, unique);
            WorkloadOperation::Insert(row)
        }
        5..9 => {
            let mut changes = vec![ColumnChange::Add(N, 1), ColumnChange::Set(TAG, tag)];
            if noise.below(2) == 0 {
                changes.push(ColumnChange::Set(A, plain));
            }
            if noise.below(2) == 0 {
                changes.push(ColumnChange::Set(U, unique));
            }
            WorkloadOperation::Update(id, changes, None)
        }
        9..11 => WorkloadOperation::Delete(id, None),
        11..14 => read(BY_ID, id),
        14..17 => read(BY_UNIQUE, unique),
        17 => read(BY_ENTRIES, plain),
        18 => read(BY_RANGED, plain),
        _ => read(BY_PLAIN, plain),
    }
}

async fn run(table: &Table, operation: &WorkloadOperation) -> Result<Observation, Error> {
    match operation {
        WorkloadOperation::Insert(row) => {
            let result = table.insert(&row.map(Value::Int64)).await?;
            Ok(seen(&result, row[ID], Some(row[U])))
        }
        WorkloadOperation::Update(id, changes, _) => {
            let unique = changes.iter().find_map(|change| match change {
                ColumnChange::Set(U, value) => Some(*value),
                _ => None,
            });
            let assignments = changes.iter().map(assignment).collect();
            let pk = [Value::Int64(*id)];
            let result = table.update(&pk, assignments, None).await?;
            Ok(seen(&result, *id, unique))
        }
        WorkloadOperation::Delete(id, _) => {
            let result = table.delete(&[Value::Int64(*id)], None).await?;
            Ok(seen(&result, *id, None))
        }
        WorkloadOperation::Read(range) => {
            let index = INDEXES[range.replex];
            let rows = table.lookup(index, &[Value::Int64(range.low[0])])?.await?;
            let rows = rows.iter().map(|row| row_of(&row.values)).collect();
            Ok(Observation::Rows(rows))
        }
        other => unreachable!("no client does {other:?}"),
    }
}

fn assignment(change: &ColumnChange) -> Assignment {
    let column = |column: usize| u16::try_from(column).expect("columns are few");
    match *change {
        ColumnChange::Set(at, value) => Assignment {
            column: column(at),
            value: Expression::Literal(Value::Int64(value)),
        },
        ColumnChange::Add(at, value) => Assignment {
            column: column(at),
            value: Expression::Binary(
                BinaryOperator::Add,
                Box::new(Expression::Column(column(at))),
                Box::new(Expression::Literal(Value::Int64(value))),
            ),
        },
    }
}

fn seen(result: &RequestResult, id: i64, unique: Option<i64>) -> Observation {
    match result {
        RequestResult::Applied { .. } => Observation::Applied,
        RequestResult::NotFound => Observation::NotFound,
        RequestResult::Conflict => Observation::Nothing,
        RequestResult::Duplicate { replex: 0, .. } => Observation::Duplicate(BY_ID, vec![id]),
        RequestResult::Duplicate { .. } => {
            let unique = unique.expect("it wrote one");
            Observation::Duplicate(BY_UNIQUE, vec![unique])
        }
        other => panic!("row {id}: {other:?}"),
    }
}

fn row_of(values: &[Value]) -> ModelRow {
    let mut row = [0; COLUMNS];
    for (place, value) in row.iter_mut().zip(values) {
        let Value::Int64(number) = value else {
            panic!("not a number: {value:?}");
        };
        *place = *number;
    }
    assert_eq!(row[D], 0, "no client writes it");
    row
}
