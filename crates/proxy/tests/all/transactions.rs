//! Reads of transactions that have written run at replicas where they touch nothing of it, and fail
//! as they would on one server.

use std::time::Instant;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

/// Where a statement went.
const REPLICA: &str = "replica 1,";
const OWN: &str = "the primary, it touches writes or locks of its transaction";

/// How most transactions begin here, where that goes, and the reply.
const WRITES: [(&str, &str, &str); 2] = [
    ("BEGIN", "no server", "CZT"),
    ("UPDATE t SET n = 7 WHERE id = 1", "the primary", "CZT"),
];

/// The schema: a table that transactions write, and a table that they read.
const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0);
    CREATE TABLE u (id int PRIMARY KEY, n int); INSERT INTO u VALUES (1, 0), (2, 0);
    CREATE TABLE v (id int PRIMARY KEY, n int)";

/// A cluster whose replica has all, and a session with notices of where its statements go; none
/// where there is no PostgreSQL.
async fn cluster(further: &str) -> Option<(Cluster, Raw)> {
    if !is_there() {
        return None;
    }
    let cluster = Cluster::start_after(&format!("{SETUP}; {further}")).await;
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    Some((cluster, raw))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_behind_writes_run_elsewhere() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    raw.converse_at(&WRITES).await;
    let begun = [
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
        ("SELECT n FROM t WHERE id = 2", REPLICA, "T'0'CZT"),
        ("SELECT n FROM t WHERE id = 1", OWN, "T'7'CZT"),
        ("SELECT sum(n) FROM t", OWN, "T'7'CZT"),
        (
            "SELECT now() > 'epoch' FROM u WHERE id = 1",
            "the primary, it asks for the time",
            "T't'CZT",
        ),
    ];
    raw.converse_at(&begun).await;
    // Commits of others are seen at once, wherever the read goes.
    let other = cluster.front.connect().await;
    for n in 1..=50 {
        let update = format!("UPDATE u SET n = {n} WHERE id = 1");
        other.batch_execute(&update).await.unwrap();
        raw.query("SELECT n FROM u WHERE id = 1");
        assert_eq!(raw.reply_at().await.1, format!("T'{n}'CZT"));
    }
    cluster.settle().await;
    let ended = [
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'50'CZT"),
        ("SELECT n FROM t WHERE id = 1", OWN, "T'7'CZT"),
        ("COMMIT", "the primary", "CZI"),
    ];
    raw.converse_at(&ended).await;
    cluster.settle().await;
    let after = [("SELECT n FROM t WHERE id = 1", REPLICA, "T'7'CZI")];
    raw.converse_at(&after).await;
}

/// Sessions may ask for less than that, which the paper compares.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_choose_how_finely_reads_are_routed() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    let unknown = [("SET replex.classes = 'some'", "[22023]ZI")];
    raw.converse(&unknown).await;
    raw.converse(&[("SET replex.classes = 'tas'", "CZI")]).await;
    raw.converse_at(&WRITES).await;
    let by_tables = [
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
        ("SELECT n FROM t WHERE id = 2", OWN, "T'0'CZT"),
        ("ROLLBACK", "the primary", "CZI"),
    ];
    raw.converse_at(&by_tables).await;
    let by_transactions = [
        ("SET replex.classes TO ras", "CZI"),
        ("SET replex.balancing = 'transaction'", "CZI"),
    ];
    raw.converse(&by_transactions).await;
    let reads = ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT");
    raw.converse_at(&[WRITES[0], reads, WRITES[1]]).await;
    let before = cluster.served();
    let own = [
        (reads.0, "the primary, its transaction is there", reads.2),
        ("COMMIT", "the primary", "CZI"),
    ];
    raw.converse_at(&own).await;
    assert_eq!(cluster.served(), before);
}

/// A row that is locked is not read where it may be older.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_tables_are_read_on_the_primary() {
    let Some((_cluster, mut raw)) = cluster("").await else {
        return;
    };
    for (lock, expected) in [
        ("SELECT n FROM t WHERE id = 1 FOR UPDATE", "T'0'CZT"),
        (
            "SELECT n FROM (SELECT n, random() FROM t WHERE id = 1 FOR SHARE) x",
            "T'0'CZT",
        ),
        (
            "UPDATE v SET n = 1 WHERE EXISTS (SELECT FROM t FOR UPDATE)",
            "CZT",
        ),
    ] {
        raw.converse_at(&[
            ("BEGIN", "no server", "CZT"),
            (lock, "the primary", expected),
            ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
            ("SELECT n FROM t WHERE id = 2", OWN, "T'0'CZT"),
            ("ROLLBACK", "the primary", "CZI"),
        ])
        .await;
    }
    raw.converse_at(&[
        ("BEGIN", "no server", "CZT"),
        ("LOCK TABLE t", "the primary", "CZT"),
        ("SELECT n FROM u WHERE id = 1", OWN, "T'0'CZT"),
        ("SELECT 1", REPLICA, "T'1'CZT"),
        ("COMMIT", "the primary", "CZI"),
    ])
    .await;
}

/// A write that a savepoint takes back counts as written still. The rest goes on as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn savepoints_and_levels_of_isolation() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    let savepoints = [
        ("BEGIN", "no server", "CZT"),
        ("SAVEPOINT a", "the primary", "CZT"),
        ("UPDATE t SET n = 7 WHERE id = 1", "the primary", "CZT"),
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
        ("ROLLBACK TO a", "the primary", "CZT"),
        ("SELECT n FROM t WHERE id = 1", OWN, "T'0'CZT"),
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
        (
            "SELECT 1 / n FROM u WHERE id = 1",
            "the primary",
            "T[22012]ZE",
        ),
        ("SELECT n FROM u WHERE id = 1", "", "[25P02]ZE"),
        ("ROLLBACK TO a", "", "CZT"),
        ("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT"),
        ("UPDATE t SET n = 8 WHERE id = 1", "the primary", "CZT"),
        ("COMMIT", "the primary", "CZI"),
    ];
    raw.converse_at(&savepoints).await;
    let primary = connect(cluster.primary.socket()).await;
    assert_eq!(text(&primary, "SELECT n FROM t WHERE id = 1").await, "8");
    cluster.settle().await;
    let served = cluster.served();
    let stays = [
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", "", "CZT"),
        ("UPDATE t SET n = 9 WHERE id = 1", "", "CZT"),
        ("SELECT n FROM u WHERE id = 1", "", "T'0'CZT"),
        ("ROLLBACK", "", "CZI"),
        // A transaction that follows in the same text may be at another level.
        ("BEGIN", "no server", "CZT"),
        (
            "COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET n = 9 WHERE id = 2",
            "",
            "CCCZT",
        ),
        ("SELECT n FROM u WHERE id = 1", "", "T'0'CZT"),
        ("ROLLBACK", "", "CZI"),
        ("BEGIN", "no server", "CZT"),
        ("SET LOCAL search_path = public", "the primary", "CZT"),
        ("SELECT n FROM u WHERE id = 1", "", "T'0'CZT"),
        ("ROLLBACK", "", "CZI"),
    ];
    raw.converse_at(&stays).await;
    assert_eq!(cluster.served(), served);
}

/// An error elsewhere is one of the transaction, if the primary returns the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_that_fails_at_a_replica_runs_again_on_the_primary() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    let replica = connect(cluster.replicas[0].socket()).await;
    raw.converse_at(&WRITES).await;
    let rename = "ALTER TABLE u RENAME TO gone";
    replica.batch_execute(rename).await.unwrap();
    let read = "SELECT n FROM u WHERE id = 1";
    let again = "the primary, since relation \"u\" does not exist";
    raw.converse_at(&[(read, again, "T'0'CZT")]).await;
    // Both times it is prepared under its name.
    raw.parse("s", read).bind("s").execute(0).sync();
    let expected = raw.reply_at().await;
    assert_eq!(expected, (again.into(), "12'0'CZT".into()));
    let rename = "ALTER TABLE gone RENAME TO u";
    replica.batch_execute(rename).await.unwrap();
    raw.bind("s").execute(0).sync();
    let (place, expected) = raw.reply_at().await;
    assert!(place.starts_with(REPLICA), "{place}");
    assert_eq!(expected, "2'0'CZT");
    raw.converse_at(&[("COMMIT", "the primary", "CZI")]).await;
    let primary = connect(cluster.primary.socket()).await;
    assert_eq!(text(&primary, "SELECT n FROM t WHERE id = 1").await, "7");
}

/// The part of an answer that was relayed stays: the primary's transaction fails behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_answers_are_relayed_as_they_come() {
    let Some((_cluster, mut raw)) = cluster("").await else {
        return;
    };
    raw.converse_at(&WRITES).await;
    let read = "SELECT repeat('x', 1000) FROM u, generate_series(1, 2000) g WHERE id = 1";
    raw.query(read);
    let (place, expected) = raw.reply_at().await;
    assert!(place.starts_with(REPLICA), "{place}");
    assert_eq!(expected.matches('\'').count(), 2 * 2000);
    assert!(expected.ends_with("CZT"));
    let read = "SELECT repeat('x', 1000), 1 / (2000 - g - n) FROM u, generate_series(1, 2000) g
        WHERE id = 1";
    for is_simple in [true, false] {
        match is_simple {
            true => raw.query(read),
            false => raw.parse("", read).bind("").execute(0).sync(),
        };
        let (place, expected) = raw.reply_at().await;
        assert_eq!(place, "the primary, since division by zero");
        assert!(expected.len() > 1_000_000, "{}", expected.len());
        assert!(expected.ends_with("[22012]ZE"));
        let failed = [
            ("SELECT n FROM u WHERE id = 1", "", "[25P02]ZE"),
            ("ROLLBACK", "", "CZI"),
        ];
        raw.converse_at(&failed).await;
        raw.converse_at(&WRITES).await;
    }
}

/// Waits until a session waits for a lock at the replica.
async fn wait_for_lock(cluster: &Cluster) {
    let replica = connect(cluster.replicas[0].socket()).await;
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let started = Instant::now();
    while text(&replica, waiting).await == "0" {
        assert!(started.elapsed() < PATIENCE, "no session waits");
        pause().await;
    }
}

/// A read that is cancelled fails, and does not begin again elsewhere; one whose replica dies does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_cancelled_and_outlive_their_replica() {
    let Some((mut cluster, mut raw)) = cluster("").await else {
        return;
    };
    let in_the_way = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE u";
    in_the_way.batch_execute(lock).await.unwrap();
    let client = cluster.front.connect().await;
    client.batch_execute("BEGIN").await.unwrap();
    let update = "UPDATE t SET n = 7 WHERE id = 1";
    client.batch_execute(update).await.unwrap();
    let cancel = client.cancel_token();
    let read = "SELECT n FROM u WHERE id = 1";
    let reading = tokio::spawn(async move {
        let read = client.simple_query(read).await;
        let next = client.simple_query("SELECT 1").await;
        (client, [read, next])
    });
    wait_for_lock(&cluster).await;
    cancel.cancel_query(NoTls).await.unwrap();
    let (client, expected) = reading.await.unwrap();
    let codes = expected.map(|expected| expected.unwrap_err().code().cloned());
    let expected = [
        SqlState::QUERY_CANCELED,
        SqlState::IN_FAILED_SQL_TRANSACTION,
    ];
    assert_eq!(codes, expected.map(Some));
    client.batch_execute("ROLLBACK").await.unwrap();
    let begun = [
        ("BEGIN", "no server", "CZT"),
        (update, "the primary", "CZT"),
    ];
    raw.converse_at(&begun).await;
    raw.query(read).flush().await;
    wait_for_lock(&cluster).await;
    cluster.replicas[0].kill();
    let (place, expected) = raw.reply_at().await;
    assert!(place.starts_with("the primary, since"), "{place}");
    assert_eq!(expected, "T'0'CZT");
    raw.converse_at(&[("COMMIT", "the primary", "CZI")]).await;
}

/// While a transaction waits, its client gets the primary's end at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_the_primary_arrive_between_statements() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    raw.converse_at(&WRITES).await;
    let begun = [("SELECT n FROM u WHERE id = 1", REPLICA, "T'0'CZT")];
    raw.converse_at(&begun).await;
    let primary = connect(cluster.primary.socket()).await;
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE state = 'idle in transaction' AND query LIKE 'UPDATE t%'";
    assert_eq!(text(&primary, end).await, "t");
    assert_eq!(raw.last_words().await.code, "57P01");
}

/// A client that leaves takes its transaction along, also while a read runs elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_leave_no_transactions() {
    let Some((cluster, raw)) = cluster("").await else {
        return;
    };
    let in_the_way = connect(cluster.replicas[0].socket()).await;
    in_the_way
        .batch_execute("BEGIN; LOCK TABLE u")
        .await
        .unwrap();
    for is_reading in [false, true] {
        let mut gone = Raw::log_in(cluster.front.address).await;
        let begun = [("BEGIN", "CZT"), ("UPDATE t SET n = 7 WHERE id = 1", "CZT")];
        gone.converse(&begun).await;
        if is_reading {
            gone.query("SELECT n FROM u WHERE id = 1").flush().await;
            wait_for_lock(&cluster).await;
        }
        drop(gone);
        if is_reading {
            in_the_way.batch_execute("COMMIT").await.unwrap();
        }
        // It would wait for the row for ever.
        let other = cluster.front.connect().await;
        let update = "UPDATE t SET n = n + 1 WHERE id = 1";
        let updated = tokio::time::timeout(PATIENCE, other.batch_execute(update));
        updated.await.expect("the row is free").unwrap();
    }
    drop(raw);
    let primary = connect(cluster.primary.socket()).await;
    assert_eq!(text(&primary, "SELECT n FROM t WHERE id = 1").await, "2");
}

/// Portals belong to the transaction. Portals that outlive their batch are on the primary, and the
/// unnamed one is that of the last batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn portals_and_prepared_statements() {
    let Some((_cluster, mut raw)) = cluster("").await else {
        return;
    };
    raw.parse("u", "SELECT n FROM u ORDER BY id").sync();
    assert_eq!(raw.reply_at().await.1, "1ZI");
    raw.converse_at(&WRITES).await;
    let goes = async |raw: &mut Raw, place: &str, expected: &str| {
        let (went, reply) = raw.reply_at().await;
        assert_eq!(reply, expected);
        assert!(went.starts_with(place), "{went}");
    };
    let portals = "the primary, its transaction goes on with its portals";
    raw.bind("u").execute(0).sync();
    goes(&mut raw, REPLICA, "2'0''0'CZT").await;
    raw.bind("u").execute(1).sync();
    goes(&mut raw, portals, "2'0'sZT").await;
    raw.execute(1).sync();
    goes(&mut raw, portals, "'0'sZT").await;
    raw.bind("u").execute(1).sync();
    goes(&mut raw, portals, "2'0'sZT").await;
    raw.bind("u").execute(0).sync();
    goes(&mut raw, REPLICA, "2'0''0'CZT").await;
    raw.parse("t", "SELECT n FROM t WHERE id = 1").sync();
    goes(&mut raw, OWN, "1ZT").await;
    raw.bind("t").execute(0).sync();
    goes(&mut raw, OWN, "2'7'CZT").await;
    raw.parse("", "UPDATE t SET n = 8 WHERE id = 2")
        .bind("")
        .execute(0)
        .sync();
    goes(&mut raw, "the primary, it writes", "12CZT").await;
    raw.bind("u").execute(1).sync();
    goes(&mut raw, portals, "2'0'sZT").await;
    raw.bind("u").execute(0).sync();
    goes(&mut raw, REPLICA, "2'0''0'CZT").await;
    // It has ended. The primary's portal of this name is older.
    raw.execute(0).sync();
    goes(&mut raw, portals, "[34000]ZE").await;
    raw.query("ROLLBACK");
    goes(&mut raw, "", "CZI").await;
}

/// A transaction sees the rows that its triggers and cascades have written, in any table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_of_triggers_and_cascades_are_seen() {
    let further = "
        CREATE TABLE audit (id int PRIMARY KEY);
        CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO audit SELECT count(*) FROM audit; RETURN NULL; END $$;
        CREATE TABLE watched (id int PRIMARY KEY);
        CREATE TRIGGER audit AFTER INSERT ON watched FOR EACH ROW EXECUTE FUNCTION audit();
        CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE);
        INSERT INTO child VALUES (1, 1), (2, 2);
        CREATE TABLE grandchild (id int PRIMARY KEY, child int REFERENCES child ON DELETE SET NULL);
        INSERT INTO grandchild VALUES (1, 1);
        CREATE TABLE parted (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
        CREATE TABLE part PARTITION OF parted FOR VALUES FROM (1) TO (10);
        CREATE TRIGGER audit AFTER DELETE ON part FOR EACH ROW EXECUTE FUNCTION audit();
        CREATE TABLE plain (id int PRIMARY KEY, n int) PARTITION BY RANGE (id);
        CREATE TABLE plain_part PARTITION OF plain FOR VALUES FROM (1) TO (10);
        INSERT INTO parted VALUES (1, 0); INSERT INTO plain VALUES (1, 0);
        CREATE FUNCTION own() RETURNS int LANGUAGE sql AS 'INSERT INTO audit VALUES (100); SELECT 1'";
    let Some((cluster, mut raw)) = cluster(further).await else {
        return;
    };
    for (write, read, expected) in [
        (
            "INSERT INTO watched VALUES (1)",
            "SELECT count(*) FROM audit",
            "1",
        ),
        (
            "DELETE FROM t WHERE id = 1",
            "SELECT count(*) FROM child",
            "1",
        ),
        (
            "DELETE FROM t WHERE id = 1",
            "SELECT count(child) FROM grandchild",
            "0",
        ),
        (
            "DELETE FROM parted WHERE id = 1",
            "SELECT count(*) FROM audit",
            "1",
        ),
        (
            "UPDATE plain SET n = 7 WHERE id = 1",
            "SELECT n FROM plain_part",
            "7",
        ),
        (
            "UPDATE plain_part SET n = 7 WHERE id = 1",
            "SELECT n FROM plain",
            "7",
        ),
        ("SELECT own()", "SELECT count(*) FROM audit", "1"),
        ("TRUNCATE u", "SELECT count(*) FROM u", "0"),
    ] {
        let expected = format!("T'{expected}'CZT");
        raw.query("BEGIN");
        assert_eq!(raw.reply_at().await.1, "CZT");
        raw.query(write);
        assert!(raw.reply_at().await.1.ends_with("ZT"), "{write}");
        raw.converse_at(&[(read, "", &expected), ("ROLLBACK", "", "CZI")])
            .await;
    }
    assert_eq!(cluster.served(), 0);
}

/// A statement that a client has prepared since a table changed is not run as it was prepared on
/// another server before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_are_prepared_again_wherever_they_run() {
    let Some((cluster, mut raw)) = cluster("").await else {
        return;
    };
    let all = "SELECT * FROM u WHERE id = 1";
    raw.parse("before", all).bind("before").execute(0).sync();
    assert!(raw.reply_at().await.0.starts_with(REPLICA));
    raw.query("ALTER TABLE u ADD COLUMN note text DEFAULT 'new'");
    raw.reply_at().await;
    cluster.settle().await;
    // A transaction that asks for the time is on the primary, and so are its prepared statements.
    raw.query("BEGIN");
    raw.reply_at().await;
    raw.query("SELECT now() > 'epoch'");
    assert!(raw.reply_at().await.0.starts_with("the primary"));
    raw.parse("after", "SELECT now()").bind("after").execute(0);
    raw.parse("since", all).sync();
    assert!(raw.reply_at().await.0.starts_with("the primary"));
    raw.query("COMMIT");
    raw.reply_at().await;
    raw.bind("since").execute(0).sync();
    let (place, reply) = raw.reply_at().await;
    assert!(place.starts_with(REPLICA), "{place}");
    assert!(reply.contains("new") && reply.ends_with("CZI"), "{reply}");
}

/// A transaction that the client leaves idle ends with its session, also where it is on no server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_transactions_end() {
    if !is_there() {
        return;
    }
    // The sessions that fill a replica have the settings of their role, too.
    let setup = "CREATE TABLE idle (id int PRIMARY KEY); INSERT INTO idle VALUES (1);
        ALTER ROLE postgres SET idle_in_transaction_session_timeout = 400";
    let cluster = Cluster::start_after(setup).await;
    cluster.settle().await;
    for before in [
        &[][..],
        &["SELECT id FROM idle"],
        &["SELECT 1 / 0"],
        &["INSERT INTO idle VALUES (2)"],
        &[
            "ROLLBACK",
            "SET idle_in_transaction_session_timeout = '300ms'",
            "BEGIN",
        ],
        &[
            "ROLLBACK",
            "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
        ],
    ] {
        let mut reports = Vec::new();
        for address in [cluster.primary.socket(), cluster.front.address] {
            let mut raw = Raw::log_in(address).await;
            for text in ["BEGIN"].iter().chain(before) {
                raw.query(text);
                raw.reply().await;
            }
            reports.push(raw.last_words().await);
        }
        assert_eq!(reports[0].code, "25P03");
        assert_eq!(reports[0], reports[1], "{before:?}");
    }
}
