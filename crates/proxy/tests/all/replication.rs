//! Replicas follow a real primary under any writes and any kill of a server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, Instant};

use pg_local::Postgres;
use proxy_core::freshness::mark::AnnouncedStatement;
use proxy_core::freshness::{
    AccessSets, CommitOutcome, ConsistencyLevel, FreshnessManager, ReadTarget, ReplicaId,
    ReplicaState,
};
use replication::{
    ExistingData, Replication, ReplicationError, ReplicationSettings, StartedReplication,
};
use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::support::cluster::pause;
use crate::support::{connect, is_there, signal};

/// A wait beyond this has come to a stop, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);
const FIRST: ReplicaId = ReplicaId(1);
const SECOND: ReplicaId = ReplicaId(2);

fn postgres() -> Postgres {
    // Acknowledged commits are on disk, as far as a killed process goes: the slot reads only those.
    Postgres::start(&["synchronous_commit=on", "max_prepared_transactions=5"]).unwrap()
}

struct Hihooi(StartedReplication);

impl Hihooi {
    async fn start(primary: &Postgres) -> Hihooi {
        Hihooi::with_connections(primary, 4).await
    }

    async fn with_connections(primary: &Postgres, replay_connections: u16) -> Hihooi {
        let address = primary.address("postgres");
        let settings = ReplicationSettings {
            replay_connections,
            ..ReplicationSettings::default()
        };
        let since = Instant::now();
        loop {
            match Replication::start(&address, &settings).await {
                Ok(started) => return Hihooi(started),
                Err(problem) => assert!(since.elapsed() < PATIENCE, "{problem}"),
            }
        }
    }

    fn manager(&self) -> MutexGuard<'_, FreshnessManager> {
        self.0.manager.lock().unwrap()
    }

    fn route(&self, reads: &AccessSets, level: ConsistencyLevel) -> ReadTarget {
        self.manager().route(reads, level)
    }

    fn add(&self, id: ReplicaId, replica: &Postgres) {
        let address = replica.address("postgres");
        let contents = ExistingData::Kept;
        self.0.replication.add_replica(id, &address, contents);
    }

    /// Returns a replica's status, in words.
    fn status_text(&self, id: ReplicaId) -> String {
        let status = self.0.replication.status().remove(&id);
        status.map(|status| status.text).unwrap_or_default()
    }

    /// Waits until a replica has everything that is committed now.
    async fn wait_for(&self, id: ReplicaId, primary: &Client) {
        let end = number(
            primary,
            "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn",
        )
        .await;
        // Something after it, so that the stream goes past it.
        let nudge = "SELECT pg_logical_emit_message(true, 'test', '')";
        primary.batch_execute(nudge).await.unwrap();
        let there = || {
            let manager = self.manager();
            let mut replicas = manager.replicas();
            replicas.any(|(other, replica)| {
                other == id && replica.state == ReplicaState::Serving && replica.applied.0 >= end
            })
        };
        self.wait(there).await;
    }

    async fn wait(&self, condition: impl Fn() -> bool) {
        let started = Instant::now();
        while !condition() {
            let status = self.0.replication.status();
            assert!(started.elapsed() < PATIENCE, "{status:?}");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    fn state(&self, id: ReplicaId) -> Option<ReplicaState> {
        let manager = self.manager();
        let mut replicas = manager.replicas();
        replicas
            .find(|(other, _)| *other == id)
            .map(|(_, replica)| replica.state)
    }
}

/// A primary and one replica that has all of it.
struct Pair {
    primary: Postgres,
    replica: Postgres,
    /// At the primary.
    client: Client,
    hihooi: Hihooi,
}

impl Pair {
    /// None where there is no PostgreSQL.
    async fn start(schema: &str) -> Option<Pair> {
        if !is_there() {
            return None;
        }
        let (primary, replica) = (postgres(), postgres());
        let client = connect(primary.socket()).await;
        client.batch_execute(schema).await.unwrap();
        let hihooi = Hihooi::start(&primary).await;
        hihooi.add(FIRST, &replica);
        hihooi.wait_for(FIRST, &client).await;
        Some(Pair {
            primary,
            replica,
            client,
            hihooi,
        })
    }
}

async fn number(client: &Client, sql: &str) -> u64 {
    text(client, sql).await.parse().unwrap()
}

async fn text(client: &Client, sql: &str) -> String {
    for row in client.simple_query(sql).await.unwrap() {
        if let SimpleQueryMessage::Row(row) = row {
            return row.get(0).unwrap_or("NULL").to_owned();
        }
    }
    panic!("no row from {sql}")
}

/// One line for each table: its count and its rows' checksum. Then all columns, with their types,
/// and indexes.
async fn checksums(client: &Client) -> Vec<String> {
    let tables = client
        .simple_query(
            "SET timezone = 'UTC';
             SELECT c.oid::regclass FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
              WHERE relkind IN ('r', 'p') AND c.oid >= 16384 AND relpersistence = 'p'
                AND nspname NOT IN ('hihooi', 'information_schema') ORDER BY c.oid::regclass::text",
        )
        .await
        .unwrap();
    let mut sums = Vec::new();
    for table in tables {
        if let SimpleQueryMessage::Row(row) = table {
            let table = row.get(0).unwrap();
            let sum = format!(
                "SELECT '{table} ' || count(*) || ' '
                        || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {table} t"
            );
            sums.push(text(client, &sum).await);
            let shape = format!(
                "SELECT coalesce(string_agg(attname || ' ' || atttypid::regtype, ', ' ORDER BY attnum), '')
                        || ' ' || coalesce((SELECT string_agg(indexdef, ', ' ORDER BY indexdef)
                             FROM pg_indexes WHERE indexname IN (
                               SELECT indexrelid::regclass::text FROM pg_index
                                WHERE indrelid = '{table}'::regclass)), '')
                   FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0
                    AND NOT attisdropped"
            );
            sums.push(text(client, &shape).await);
        }
    }
    sums
}

async fn assert_equal(hihooi: &Hihooi, id: ReplicaId, primary: &Client, replica: &Postgres) {
    hihooi.wait_for(id, primary).await;
    let replica = connect(replica.socket()).await;
    assert_eq!(checksums(&replica).await, checksums(primary).await);
}

const SCHEMA: &str = "
CREATE TABLE account (id int PRIMARY KEY, email text UNIQUE, balance numeric NOT NULL DEFAULT 0,
                      seen timestamptz DEFAULT now(), note jsonb);
CREATE TABLE entry (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, account int NOT NULL
                    REFERENCES account ON DELETE CASCADE ON UPDATE CASCADE, amount float8,
                    luck float8 DEFAULT random(), doubled float8 GENERATED ALWAYS AS (amount * 2) STORED);
CREATE TABLE loose (word text, place point);
ALTER TABLE loose REPLICA IDENTITY FULL;
CREATE TABLE audit (n serial PRIMARY KEY, what text);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN INSERT INTO audit (what) VALUES (TG_OP || coalesce(NEW.id, OLD.id)); RETURN NEW; END$$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE ON account FOR EACH ROW EXECUTE FUNCTION noted();
INSERT INTO account SELECT n, 'user' || n FROM generate_series(1, 50) n;
";

/// One write of a mixed load; conflicts between writers may refuse it.
async fn write(client: &Client, round: u64) {
    let id = round * 7 % 60 + 1;
    let other = round * 13 % 60 + 1;
    let sql = match round % 9 {
        0 => format!(
            "INSERT INTO account (id, email) VALUES ({id}, 'new{round}') ON CONFLICT (id) DO UPDATE SET balance = account.balance + 1"
        ),
        1 => format!(
            "INSERT INTO entry (account, amount) SELECT id, {round} FROM account WHERE id IN ({id}, {other})"
        ),
        2 => format!(
            "UPDATE account SET balance = balance + 1, note = '{{\"r\": {round}}}' WHERE id < {id}"
        ),
        3 => format!(
            "BEGIN; UPDATE account SET balance = balance - 1 WHERE id = {id}; UPDATE account SET balance = balance + 1 WHERE id = {other}; COMMIT"
        ),
        4 => format!("DELETE FROM account WHERE id = {id} AND balance > 30"),
        5 => format!(
            "INSERT INTO loose VALUES ('it''s \\ {round}', '(1,2)'), (NULL, NULL), ('x', NULL)"
        ),
        6 => "DELETE FROM loose WHERE ctid IN (SELECT ctid FROM loose WHERE word = 'x' LIMIT 1)"
            .into(),
        7 => format!(
            "UPDATE account SET id = id + 100 WHERE id = {id} AND NOT EXISTS (SELECT FROM account WHERE id = {id} + 100)"
        ),
        _ => format!(
            "UPDATE account SET email = 'moved{round}' WHERE id = {id}; UPDATE entry SET amount = amount + 1 WHERE account = {other}"
        ),
    };
    if client.batch_execute(&sql).await.is_err() {
        client.batch_execute("ROLLBACK").await.unwrap();
    }
}

/// Writers that go on until `writes` have been made in all.
fn load(primary: &Postgres, rounds: &Arc<AtomicU64>, writes: u64) -> JoinSet<()> {
    let mut writers = JoinSet::new();
    for _ in 0..4 {
        let (rounds, socket) = (Arc::clone(rounds), primary.socket());
        writers.spawn(async move {
            let client = connect(socket).await;
            while rounds.load(Ordering::Relaxed) < writes {
                let round = rounds.fetch_add(1, Ordering::Relaxed);
                write(&client, round).await;
            }
        });
    }
    writers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_stay_equal_under_load_and_kills() {
    if !is_there() {
        return;
    }
    let (primary, mut first, second) = (postgres(), postgres(), postgres());
    let client = connect(primary.socket()).await;
    client.batch_execute(SCHEMA).await.unwrap();
    let hihooi = Hihooi::start(&primary).await;
    let rounds = Arc::new(AtomicU64::new(0));
    let writers = load(&primary, &rounds, 4000);
    let reach = |count: u64| {
        let rounds = Arc::clone(&rounds);
        move || rounds.load(Ordering::Relaxed) >= count
    };

    // Both are filled while the load goes on.
    hihooi.add(FIRST, &first);
    hihooi.wait_for(FIRST, &client).await;
    hihooi.add(SECOND, &second);
    hihooi.wait(reach(1000)).await;

    // One is killed, and comes back where it was.
    first.kill();
    hihooi
        .wait(|| hihooi.state(FIRST) == Some(ReplicaState::Unavailable))
        .await;
    hihooi.wait(reach(2000)).await;
    first.start_again().unwrap();
    hihooi.wait_for(FIRST, &client).await;

    // The reader and the Extractors end, and others go on.
    drop(hihooi);
    let hihooi = Hihooi::start(&primary).await;
    hihooi.add(FIRST, &first);
    hihooi.add(SECOND, &second);
    writers.join_all().await;
    assert_equal(&hihooi, FIRST, &client, &first).await;
    assert_equal(&hihooi, SECOND, &client, &second).await;

    // The primary is killed, and comes back.
    let mut primary = primary;
    primary.kill();
    primary.start_again().unwrap();
    let client = connect(primary.socket()).await;
    write(&client, 2).await;
    assert_equal(&hihooi, FIRST, &client, &first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_goes_on_with_more_and_with_fewer_connections() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        primary,
        replica,
        client,
        hihooi,
    } = pair;
    drop(hihooi);
    let rounds = Arc::new(AtomicU64::new(0));
    for (count, writes) in [(6, 300), (1, 600), (3, 900)] {
        load(&primary, &rounds, writes).join_all().await;
        let hihooi = Hihooi::with_connections(&primary, count).await;
        hihooi.add(FIRST, &replica);
        assert_equal(&hihooi, FIRST, &client, &replica).await;
    }
}

/// Each would differ if the statements were run again (R30).
const CONSTRUCTS: &[&str] = &[
    "INSERT INTO account (id, email) SELECT 1000 + (random() * 1000000)::int, gen_random_uuid()",
    "INSERT INTO entry (account) VALUES (1), (1), (2)",
    "SELECT setval('audit_n_seq', 5000); INSERT INTO account (id) VALUES (501)",
    "INSERT INTO account (id, seen) VALUES (502, clock_timestamp())",
    "UPDATE account SET balance = 1.50 WHERE id IN (SELECT id FROM account LIMIT 3)",
    "WITH gone AS (DELETE FROM entry WHERE account = 1 RETURNING amount)
       INSERT INTO loose SELECT amount::text FROM gone",
    "INSERT INTO account (id, email) VALUES (3, 'x') ON CONFLICT (id) DO UPDATE SET email = 'y'",
    "INSERT INTO account (id, email) VALUES (4, 'x') ON CONFLICT DO NOTHING",
    "UPDATE account SET id = 900 WHERE id = 2",
    "DELETE FROM account WHERE id = 900",
    "BEGIN; UPDATE account SET id = -1 WHERE id = 5; UPDATE account SET id = 5 WHERE id = 6;
     UPDATE account SET id = 6 WHERE id = -1; COMMIT",
    "BEGIN; INSERT INTO account (id) VALUES (700); SAVEPOINT a; INSERT INTO account (id)
     VALUES (701); ROLLBACK TO a; INSERT INTO account (id) VALUES (702); COMMIT",
    "BEGIN; INSERT INTO account (id) VALUES (710); PREPARE TRANSACTION 'two'",
    "INSERT INTO account (id) VALUES (711)",
    "COMMIT PREPARED 'two'",
    "DO $$BEGIN INSERT INTO account (id) VALUES (720); END$$",
    "UPDATE account SET note = (SELECT jsonb_object_agg(n, repeat('x', 100))
       FROM generate_series(1, 500) n) WHERE id = 7",
    "UPDATE account SET balance = 9 WHERE id = 7",
    "UPDATE account SET id = 777 WHERE id = 7",
    "INSERT INTO loose SELECT 'many' FROM generate_series(1, 6000)",
    "UPDATE loose SET place = '(3,4)' WHERE word = 'many' AND ctid < '(2,1)'",
    "SELECT pg_logical_emit_message(true, 'hihooi', 'forged'),
            pg_logical_emit_message(true, 'hihooi.statement', '\\x00')",
    "INSERT INTO entry (account) VALUES (10); TRUNCATE entry",
    "TRUNCATE account CASCADE",
    "INSERT INTO account (id, note, email) VALUES (1, '{\"a\": null}', E'tab\\t''\"\\\\ é')",
    "INSERT INTO account (id, balance, seen) VALUES (2, 'NaN', 'infinity'), (3, 1e30, '0044-03-15 BC')",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_construct_arrives_as_it_was() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        replica,
        client,
        hihooi,
        ..
    } = pair;
    for sql in CONSTRUCTS {
        client.simple_query(sql).await.unwrap();
        assert_equal(&hihooi, FIRST, &client, &replica).await;
    }
}

/// DDL as the proxy sends it: its text is written into the transaction before it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_changes_are_made_in_their_place() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        replica,
        client,
        hihooi,
        ..
    } = pair;
    let path = ["public".to_owned()];
    let key = hihooi.manager().key().clone();
    let texts = [
        "CREATE ROLE ann",
        "CREATE TABLE fruit (id serial PRIMARY KEY, name text) -- with a comment",
        "INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
        "ALTER TABLE fruit ADD price int DEFAULT 5",
        "UPDATE fruit SET price = 6 WHERE id = 2",
        "CREATE INDEX ON fruit (name)",
        "CREATE TABLE copied AS SELECT * FROM fruit",
        "ALTER TABLE fruit DROP name",
        "INSERT INTO fruit (price) VALUES (7)",
        "ALTER TABLE fruit OWNER TO ann",
        "CREATE VIEW dear AS SELECT id FROM fruit WHERE price > 5",
        "DROP TABLE audit",
    ];
    for text in texts {
        let analysis = hihooi.0.analyser.analyse(text, &path);
        let schema = match &analysis[0].action {
            pg_analysis::StatementAction::Schema(text) => Some(AnnouncedStatement {
                search_path: "public".into(),
                role: "postgres".into(),
                text: text.clone(),
            }),
            _ => None,
        };
        let writes = analysis[0].sets(&[]);
        let mark = hihooi.manager().begin_commit(writes, None);
        let before = schema.map(|schema| schema.sql(&key)).unwrap_or_default();
        let all = format!("BEGIN; {before}; {text}\n; {}; COMMIT", mark.sql(&key));
        client.simple_query(&all).await.unwrap();
        let outcome = CommitOutcome::Committed;
        hihooi.manager().note_outcome(mark.id, outcome);
        assert_equal(&hihooi, FIRST, &client, &replica).await;
    }
    assert_eq!(hihooi.manager().pending_count(), 0);
    // The catalogue followed.
    let view = hihooi.0.analyser.analyse("SELECT id FROM dear", &path);
    assert_eq!(view[0].action, pg_analysis::StatementAction::Read);
}

/// Every acknowledged commit is seen by every read that begins later, on any server (R32). No
/// replica shows a later commit without an earlier one (R31).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_see_all_that_was_answered() {
    let Some(pair) = Pair::start(
        "CREATE TABLE counter (id int PRIMARY KEY, n bigint);
                  INSERT INTO counter VALUES (1, 0), (2, 0)",
    )
    .await
    else {
        return;
    };
    let Pair {
        primary,
        replica,
        client,
        hihooi,
    } = pair;
    let hihooi = Arc::new(hihooi);

    let answered = Arc::new(AtomicU64::new(0));
    let writer = {
        let (hihooi, answered) = (Arc::clone(&hihooi), Arc::clone(&answered));
        tokio::spawn(async move {
            let key = hihooi.manager().key().clone();
            for count in 1..=400 {
                for id in [1, 2] {
                    let update = format!("UPDATE counter SET n = {count} WHERE id = {id}");
                    let analysis = hihooi.0.analyser.analyse(&update, &["public".into()]);
                    let writes = analysis[0].sets(&[]);
                    let mark = hihooi.manager().begin_commit(writes, None);
                    // The proxy writes the mark behind it. Inside, it ends Pending as well.
                    let all = format!("BEGIN; {update}; {}; COMMIT", mark.sql(&key));
                    client.simple_query(&all).await.unwrap();
                    let outcome = CommitOutcome::Committed;
                    hihooi.manager().note_outcome(mark.id, outcome);
                }
                answered.store(count, Ordering::SeqCst);
            }
            client
        })
    };
    let at_primary = connect(primary.socket()).await;
    let at_replica = connect(replica.socket()).await;
    let mut served = 0;
    while !writer.is_finished() {
        let text = "SELECT n FROM counter WHERE id = 2";
        let reads = hihooi.0.analyser.analyse(text, &["public".into()])[0].sets(&[]);
        let before = answered.load(Ordering::SeqCst);
        let target = hihooi.route(&reads, ConsistencyLevel::Gssi);
        let node = match target {
            ReadTarget::Primary(_) => &at_primary,
            ReadTarget::Replica { .. } => {
                served += 1;
                &at_replica
            }
        };
        assert!(number(node, text).await >= before);
        let pair =
            "SELECT max(n) FILTER (WHERE id = 1) - max(n) FILTER (WHERE id = 2) FROM counter";
        assert!(number(&at_replica, pair).await <= 1);
    }
    let client = writer.await.unwrap();
    hihooi.wait_for(FIRST, &client).await;
    let reads = hihooi
        .0
        .analyser
        .analyse("SELECT * FROM counter", &["public".into()])[0]
        .sets(&[]);
    let target = hihooi.route(&reads, ConsistencyLevel::Gssi);
    assert!(matches!(target, ReadTarget::Replica { .. }), "{target:?}");
    println!("{served} reads were served by the replica");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_differs_is_quarantined() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        replica,
        client,
        hihooi,
        ..
    } = pair;
    let meddler = connect(replica.socket()).await;
    meddler
        .batch_execute("DELETE FROM account WHERE id = 9")
        .await
        .unwrap();
    let update = "UPDATE account SET balance = 2 WHERE id = 9";
    client.batch_execute(update).await.unwrap();
    hihooi
        .wait(|| hihooi.state(FIRST) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(FIRST);
    assert!(status.contains("found 0 rows instead of 1"), "{status}");
    let reads = hihooi
        .0
        .analyser
        .analyse("SELECT 1 FROM loose", &["public".into()])[0]
        .sets(&[]);
    let target = hihooi.route(&reads, ConsistencyLevel::Weak);
    assert!(matches!(target, ReadTarget::Primary(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_that_is_silent_serves_nothing_until_it_answers() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        replica,
        client,
        hihooi,
        ..
    } = pair;
    // It is stopped in the midst of commits: the statements that it was sent are still executed
    // when it goes on.
    for round in 0..50 {
        write(&client, round).await;
    }
    signal(&replica, Signal::STOP);
    hihooi
        .wait(|| hihooi.state(FIRST) == Some(ReplicaState::Unavailable))
        .await;
    for round in 50..100 {
        write(&client, round).await;
    }
    signal(&replica, Signal::CONT);
    assert_equal(&hihooi, FIRST, &client, &replica).await;
}

/// Commits that the slot no longer gives are never skipped in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_slot_is_noticed() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        primary,
        replica,
        client,
        hihooi,
    } = pair;
    drop(hihooi);
    let drop_slot = "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots;
                     SELECT pg_drop_replication_slot('hihooi')";
    let started = Instant::now();
    while client.batch_execute(drop_slot).await.is_err() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    let lost = "INSERT INTO account (id) VALUES (12345)";
    client.batch_execute(lost).await.unwrap();
    let hihooi = Hihooi::start(&primary).await;
    hihooi.add(FIRST, &replica);
    hihooi
        .wait(|| hihooi.state(FIRST) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(FIRST);
    assert!(status.contains("the commits between are lost"), "{status}");
    assert!(status.contains("give --buffer"), "{status}");
}

/// A difference that no change meets is found by comparing, and lag is not taken for a difference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_difference_is_found() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let Pair {
        primary,
        replica,
        client,
        hihooi,
    } = pair;
    let rounds = Arc::new(AtomicU64::new(0));
    let writers = load(&primary, &rounds, 1500);
    let compared = || hihooi.0.replication.compared().get(&FIRST).copied();
    hihooi
        .wait(|| {
            hihooi.0.replication.compare_now();
            compared() >= Some(5)
        })
        .await;
    assert_eq!(hihooi.state(FIRST), Some(ReplicaState::Serving));
    writers.join_all().await;
    hihooi.wait_for(FIRST, &client).await;
    let meddler = connect(replica.socket()).await;
    let change = "SET session_replication_role = replica;
                  UPDATE account SET note = '1' WHERE id = (SELECT min(id) FROM account)";
    meddler.batch_execute(change).await.unwrap();
    hihooi
        .wait(|| {
            hihooi.0.replication.compare_now();
            hihooi.state(FIRST) == Some(ReplicaState::Quarantined)
        })
        .await;
    let status = hihooi.status_text(FIRST);
    assert!(status.contains("\"public\".\"account\" has"), "{status}");

    // It is not followed as if nothing had been; emptied, it is filled again.
    let started = Instant::now();
    while text(
        &meddler,
        "SELECT count(*) FROM pg_tables WHERE tablename = 'difference'",
    )
    .await
        == "0"
    {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    hihooi.0.replication.remove_replica(FIRST).await;
    hihooi.add(SECOND, &replica);
    hihooi
        .wait(|| hihooi.state(SECOND) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(SECOND);
    assert!(status.contains("was found to differ"), "{status}");
    hihooi.0.replication.remove_replica(SECOND).await;
    let (third, address) = (ReplicaId(3), replica.address("postgres"));
    hihooi
        .0
        .replication
        .add_replica(third, &address, ExistingData::Dropped);
    assert_equal(&hihooi, third, &client, &replica).await;
}

/// The primary keeps its log for no removed replica. A replica that comes back where the log still
/// begins goes on. Another replica gets the error that it cannot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_replica_goes_on_only_where_nothing_is_lost() {
    let Some(pair) = Pair::start(SCHEMA).await else {
        return;
    };
    let (hihooi, client, replica) = (&pair.hihooi, &pair.client, &pair.replica);
    hihooi.0.replication.remove_replica(FIRST).await;
    assert!(hihooi.0.replication.status().is_empty());
    write(client, 2).await;
    // The slot still begins where it was.
    hihooi.add(SECOND, replica);
    assert_equal(hihooi, SECOND, client, replica).await;

    hihooi.0.replication.knows_all();
    hihooi.0.replication.remove_replica(SECOND).await;
    write(client, 2).await;
    let end = number(client, "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn").await;
    let confirmed = "SELECT confirmed_flush_lsn - '0/0' FROM pg_replication_slots";
    let started = Instant::now();
    while number(client, confirmed).await < end {
        assert!(started.elapsed() < PATIENCE);
        write(client, 2).await;
    }
    let third = ReplicaId(3);
    hihooi.add(third, replica);
    hihooi
        .wait(|| hihooi.state(third) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(third);
    assert!(status.contains("add it again with EMPTY"), "{status}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doubt_about_a_commit_is_settled() {
    if !is_there() {
        return;
    }
    let primary = postgres();
    let client = connect(primary.socket()).await;
    client.batch_execute(SCHEMA).await.unwrap();
    let hihooi = Hihooi::start(&primary).await;
    let lost = connect(primary.socket()).await;
    let backend = number(&lost, "SELECT pg_backend_pid()").await as i32;
    let writes = hihooi
        .0
        .analyser
        .analyse("DELETE FROM loose", &["public".into()])[0]
        .sets(&[]);
    let mark = hihooi.manager().begin_commit(writes, None);
    hihooi
        .manager()
        .note_outcome(mark.id, CommitOutcome::InDoubt { backend });
    // While its process lives, this is not known.
    assert_eq!(hihooi.manager().pending_count(), 1);
    drop(lost);
    hihooi.wait(|| hihooi.manager().pending_count() == 0).await;
}

/// A slot that is dropped and made again leaves a gap: that is reported, and not passed over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recreated_slot_is_noticed() {
    let Some(pair) = Pair::start("CREATE TABLE t (id int PRIMARY KEY)").await else {
        return;
    };
    for sql in [
        "DO $$BEGIN LOOP
           PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active;
           BEGIN PERFORM pg_drop_replication_slot('hihooi'); EXIT;
           EXCEPTION WHEN object_in_use THEN NULL; END; END LOOP; END$$",
        "INSERT INTO t VALUES (1)",
        "SELECT pg_create_logical_replication_slot('hihooi', 'pgoutput')",
        "INSERT INTO t VALUES (2)",
    ] {
        pair.client.batch_execute(sql).await.unwrap();
    }
    let message = || pair.hihooi.status_text(FIRST);
    pair.hihooi.wait(|| message().contains("EMPTY")).await;
    let there = connect(pair.replica.socket()).await;
    assert_eq!(text(&there, "SELECT count(*) FROM t").await, "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_primary_is_refused_with_its_reason() {
    if !is_there() {
        return;
    }
    let message = |primary: &Postgres| {
        let address = primary.address("postgres");
        async move {
            match Replication::start(&address, &ReplicationSettings::default()).await {
                Err(ReplicationError::Setup(text)) => text,
                Err(other) => panic!("{other:?}"),
                Ok(_) => panic!("it started"),
            }
        }
    };
    let plain = Postgres::start(&["wal_level=replica"]).unwrap();
    assert!(message(&plain).await.contains("set wal_level = logical"));
    let primary = postgres();
    let client = connect(primary.socket()).await;
    client
        .batch_execute("CREATE TABLE keyless (a int)")
        .await
        .unwrap();
    assert!(
        message(&primary)
            .await
            .contains("no primary key, so their changes cannot be replicated: keyless")
    );

    let full = "ALTER TABLE keyless REPLICA IDENTITY FULL";
    client.batch_execute(full).await.unwrap();
    let hihooi = Hihooi::start(&primary).await;
    hihooi.add(FIRST, &primary);
    hihooi
        .wait(|| hihooi.state(FIRST) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(FIRST);
    assert_eq!(status, "it is the primary itself");
    let filled = postgres();
    let there = connect(filled.socket()).await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    there.batch_execute(table).await.unwrap();
    hihooi.add(SECOND, &filled);
    hihooi
        .wait(|| hihooi.state(SECOND) == Some(ReplicaState::Quarantined))
        .await;
    let status = hihooi.status_text(SECOND);
    assert!(status.contains("give an empty one"), "{status}");
}
