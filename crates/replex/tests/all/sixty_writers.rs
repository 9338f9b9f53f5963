//! Sixty writers, while indexes of every kind are dropped and made again, one changes its kind, and
//! servers are killed or replaced. After each round every index must have just the rows that the
//! writers know.
//!
//! `REPLEX_WRITERS_ROUNDS` is the number of rounds, and `REPLEX_WRITERS_SEED` repeats the changes
//! of another run as far as processes can. `cargo xtask writers` sets them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Client, ConnectOptions, IfExists, RequestResult, Retry, Table};
use placement::{Durability, Value};
use protocol::configuration::Configuration;
use protocol::expression::{Assignment, Expression};
use protocol::identity::ServerId;
use replex::cluster::{Cluster, ClusterOptions};
use tokio::task::JoinSet;

use crate::support;
use crate::support::noise::Noise;
use crate::support::rows::is_quiet;

const SERVERS: usize = 4;
const WRITERS: i64 = 60;
/// Rows of one writer.
const IDS: i64 = 40;
const KILLS_PER_ROUND: usize = 3;
/// The coordinator replaces a server that has not returned after so many seconds.
const REPLACE_AFTER: &str = "1";
/// An index that becomes a copy of the table, and a thin index again.
const CHANGING: &str = "w_changing";
const SEED_DEFAULT: u64 = 0x5eed_0060;
/// Ranges of thin indexes split in every round.
const RANGE_ENTRIES: &str = "128";
/// An index that is made again and again must be there after so long, whatever was killed.
const MADE_WITHIN: Duration = Duration::from_secs(120);
/// A writer's request must end after so long.
const WRITTEN_WITHIN: Duration = Duration::from_secs(120);

/// Indexes of every kind, by name. The note of a row is of that row only, so that it is unique.
const INDEXES: [(&str, &str); 12] = [
    (CHANGING, "INDEX w_changing ON people (score, note)"),
    ("w_ranges", "INDEX w_ranges ON people (score, city DESC)"),
    (
        "w_included",
        "INDEX w_included ON people (city) INCLUDE (score)",
    ),
    (
        "w_hashed",
        "INDEX w_hashed ON people (score) WITH (ranges = off)",
    ),
    (
        "w_twice",
        "INDEX w_twice ON people (city, score) WITH (copies = 2)",
    ),
    (
        "w_unique",
        "UNIQUE INDEX w_unique ON people USING btree (note)",
    ),
    ("w_copy", "INDEX w_copy ON people USING replex (score, id)"),
    (
        "w_ranged_copy",
        "INDEX w_ranged_copy ON people USING replex (score, city) WITH (ranges = on)",
    ),
    (
        "w_unique_copy",
        "UNIQUE INDEX w_unique_copy ON people USING replex (note)",
    ),
    (
        "w_replica",
        "INDEX w_replica ON people USING replica (by_city)",
    ),
    (
        "w_hybrid",
        "INDEX w_hybrid ON people USING hybrid (by_city, by_score) WITH (divisions = '2,2')",
    ),
    (
        "w_space",
        "INDEX w_space ON people USING hyperspace (city, score) WITH (divisions = '2,2')",
    ),
];

/// The rows of one writer, or of all, by id.
type Rows = BTreeMap<i64, Vec<Value>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_index_has_the_rows_of_sixty_writers() {
    let rounds = support::setting("REPLEX_WRITERS_ROUNDS", 1);
    let seed = support::setting("REPLEX_WRITERS_SEED", SEED_DEFAULT);
    println!("REPLEX_WRITERS_ROUNDS={rounds} REPLEX_WRITERS_SEED={seed}");
    let mut noise = Noise::new(seed);
    let mut options: ClusterOptions = support::options(SERVERS);
    options.coordinator_arguments = ["--replace-after", REPLACE_AFTER].map(str::to_owned).into();
    options.server_arguments = ["--range-entries", RANGE_ENTRIES].map(str::to_owned).into();
    let mut cluster = Cluster::start(options).await.unwrap();
    let address = cluster.coordinator_address().to_owned();
    let client = Client::connect(ConnectOptions::new([&address]));
    let client = client.await.unwrap();
    let durability = [Durability::Sync, Durability::Replicated][noise.below(2) as usize];
    let schema = support::people(1, durability);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    let mut known: Vec<Rows> = vec![Rows::new(); WRITERS as usize];
    for round in 0..rounds {
        let over = Arc::new(AtomicBool::new(false));
        let mut writers = start_writers(&table, known, &mut noise, &over);
        let order = Noise::new(noise.next());
        let address_of = address.clone();
        let making = tokio::task::spawn_blocking(move || make_all_again(&address_of, order));
        for _ in 0..KILLS_PER_ROUND {
            fail_one(&mut cluster, &mut noise).await;
        }
        making.await.unwrap();
        over.store(true, Ordering::Relaxed);
        let mut ended = BTreeMap::new();
        let mut written = 0;
        while let Some(writer) = writers.join_next().await {
            let (number, writer) = writer.unwrap();
            written += writer.written;
            ended.insert(number, writer.rows);
        }
        known = ended.into_values().collect();
        cluster.wait_until("all is filled", is_quiet).await.unwrap();
        expect_rows(&client, &address, &known).await;
        let check = support::run_well(&["admin", "-C", &address, "check", "people"]);
        assert!(check.contains("All copies hold the same rows"), "{check}");
        assert!(check.contains("agree with the rows"), "{check}");
        println!("round {round}: {written} changes");
        assert!(written > 0, "nothing was written");
    }
    cluster.check_processes().unwrap();
}

/// Starts the writers with the rows that they know.
fn start_writers(
    table: &Table,
    known: Vec<Rows>,
    noise: &mut Noise,
    over: &Arc<AtomicBool>,
) -> JoinSet<(usize, Writer)> {
    let mut writers = JoinSet::new();
    for (number, rows) in known.into_iter().enumerate() {
        let mut writer = Writer {
            table: table.clone(),
            first: number as i64 * IDS,
            rows,
            noise: Noise::new(noise.next()),
            written: 0,
        };
        let over = Arc::clone(over);
        writers.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                writer.write().await;
            }
            (number, writer)
        });
    }
    writers
}

/// Kills a server and starts it again, at once or after others have its partitions.
async fn fail_one(cluster: &mut Cluster, noise: &mut Noise) {
    let killed = noise.below(SERVERS as u64) as usize;
    cluster.kill(killed).await.unwrap();
    if noise.below(3) == 0 {
        let lost = ServerId(killed as u32 + 1);
        let is_replaced = |configuration: &Configuration| {
            let mut places = configuration.places();
            places.all(|(_, place)| place.core.server != lost)
        };
        let replaced = cluster.wait_until("it is replaced", is_replaced).await;
        replaced.unwrap();
    }
    cluster.restart(killed).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    cluster.wait_until("all is filled", is_quiet).await.unwrap();
}

/// Drops each index, and makes it again, in any order.
fn make_all_again(address: &str, mut order: Noise) {
    let mut left: Vec<(&str, &str)> = INDEXES.to_vec();
    while !left.is_empty() {
        let next = order.below(left.len() as u64) as usize;
        let (name, definition) = left.swap_remove(next);
        let create = definition.replacen("INDEX ", "INDEX IF NOT EXISTS ", 1);
        let mut statements = vec![
            format!("DROP INDEX IF EXISTS {name} ON people"),
            format!("CREATE {create}"),
        ];
        if name == CHANGING {
            let kinds = [
                "replex",
                "replex WITH (ranges = on)",
                "btree INCLUDE (city)",
            ];
            statements.extend(kinds.map(|kind| format!("ALTER INDEX {name} SET USING {kind}")));
        }
        for statement in statements {
            let started = Instant::now();
            loop {
                let output = support::run(&["sql", "-C", address, "-c", &statement]);
                if output.status.success() {
                    break;
                }
                // While a server is down, indexes stay as they are.
                let error = String::from_utf8_lossy(&output.stderr);
                assert!(started.elapsed() < MADE_WITHIN, "{statement}: {error}");
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Reads every index that answers ranges, and compares its rows with those of the writers.
async fn expect_rows(client: &Client, address: &str, known: &[Rows]) {
    let mut expected = Rows::new();
    for rows in known {
        expected.extend(rows.clone());
    }
    client.refresh().await.unwrap();
    let table = client.table("people").await.unwrap();
    let schema = table.schema();
    let copies = schema.indexes.iter().map(|it| it.name.as_str());
    let thin = schema.thin.iter().map(|it| it.name.as_str());
    for index in copies.chain(thin) {
        let range = table.range(index, Bound::Unbounded, Bound::Unbounded);
        let rows = range.unwrap().await.unwrap();
        let mut found = Rows::new();
        for row in rows {
            let id = id_of(&row.values);
            assert!(found.insert(id, row.values).is_none(), "{index}: {id}");
        }
        if found != expected {
            let differs = |id: &&i64| found.get(id) != expected.get(id);
            let ids = expected.keys().chain(found.keys());
            let id = ids.into_iter().find(differs).unwrap();
            let (has, wanted) = (found.get(id), expected.get(id));
            let check = support::run(&["admin", "-C", address, "check", "people"]);
            let check = String::from_utf8_lossy(&check.stdout);
            panic!("{index} has {has:?}, and the row is {wanted:?}\n{check}");
        }
    }
}

fn id_of(row: &[Value]) -> i64 {
    match row[0] {
        Value::Int64(id) => id,
        _ => panic!("{row:?}"),
    }
}

/// A client that changes rows of its own.
struct Writer {
    table: Table,
    first: i64,
    rows: Rows,
    noise: Noise,
    written: u64,
}

/// A change of a row: the row that is there afterwards, if one is.
enum Change {
    Insert(Vec<Value>),
    Update(Vec<Value>),
    Delete,
}

impl Writer {
    /// Inserts, changes or deletes one row.
    async fn write(&mut self) {
        let id = self.first + self.noise.below(IDS as u64) as i64;
        let change = match (self.rows.contains_key(&id), self.noise.below(3)) {
            (false, _) => Change::Insert(self.row(id)),
            (true, 0) => Change::Delete,
            (true, _) => Change::Update(self.row(id)),
        };
        let started = Instant::now();
        loop {
            let asked = self.ask(id, &change).await;
            assert!(started.elapsed() < WRITTEN_WITHIN, "{id}: {asked:?}");
            match asked {
                Ok(result) if result.took_effect() => {
                    self.note(id, change);
                    return;
                }
                Ok(RequestResult::Conflict) => {}
                Ok(other) => panic!("row {id}: {other:?}"),
                Err(error) => match error.retry() {
                    Retry::Later => {}
                    Retry::AfterReading => return self.read(id).await,
                    Retry::Never => panic!("row {id}: {error}"),
                },
            }
        }
    }

    fn row(&mut self, id: i64) -> Vec<Value> {
        vec![
            Value::Int64(id),
            Value::Text(format!("city {}", self.noise.below(17))),
            Value::Int64(self.noise.below(50) as i64),
            Value::Text(format!("{id} {}", self.noise.below(1_000))),
        ]
    }

    async fn ask(&self, id: i64, change: &Change) -> Result<RequestResult, client::Error> {
        let pk = [Value::Int64(id)];
        match change {
            Change::Insert(row) => self.table.insert(row).await,
            Change::Update(row) => {
                let assignments = (1..).zip(&row[1..]).map(|(column, value)| Assignment {
                    column,
                    value: Expression::Literal(value.clone()),
                });
                self.table.update(&pk, assignments.collect(), None).await
            }
            Change::Delete => self.table.delete(&pk, None).await,
        }
    }

    fn note(&mut self, id: i64, change: Change) {
        self.written += 1;
        match change {
            Change::Insert(row) | Change::Update(row) => self.rows.insert(id, row),
            Change::Delete => self.rows.remove(&id),
        };
    }

    /// Reads a row after a change of it whose outcome is unknown.
    async fn read(&mut self, id: i64) {
        let started = Instant::now();
        loop {
            match self.table.get(&[Value::Int64(id)]).await {
                Ok(Some(row)) => self.rows.insert(id, row.values),
                Ok(None) => self.rows.remove(&id),
                Err(error) => {
                    assert!(started.elapsed() < WRITTEN_WITHIN, "{id}: {error}");
                    continue;
                }
            };
            return;
        }
    }
}
