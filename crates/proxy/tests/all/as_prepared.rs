//! Simple queries that read a row by its key run at replicas as prepared statements. Clients do not
//! notice, but for the replica's own view of its sessions.

use crate::support::cluster::{Cluster, text, wait};
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, n int, m bigint, note text);
    INSERT INTO t VALUES (1, 10, 2, 'one'), (-2, 20, 4, NULL), (3, 30, 0, '');
    CREATE TABLE two (a smallint, b bigint, n numeric, PRIMARY KEY (b, a));
    INSERT INTO two VALUES (1, 2, 1.50), (2, 1, 2.5);
    CREATE TABLE named (id text PRIMARY KEY, n int);
    INSERT INTO named VALUES ('1', 1)";

/// Every message of the answer to a simple query, except those about settings and keys.
async fn answer(raw: &mut Raw, text: &str) -> Vec<(u8, Vec<u8>)> {
    raw.query(text).flush().await;
    let mut all = Vec::new();
    while let Some((tag, body)) = raw.message().await {
        if !b"SKR".contains(&tag) {
            all.push((tag, body));
        }
        if tag == b'Z' {
            break;
        }
    }
    all
}

/// Notices of the parser come when a text is parsed.
fn without_notices(answer: &[(u8, Vec<u8>)]) -> Vec<&(u8, Vec<u8>)> {
    answer.iter().filter(|(tag, _)| *tag != b'N').collect()
}

async fn cluster() -> Option<Cluster> {
    if !is_there() {
        return None;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    Some(cluster)
}

/// The text that the replica's server processes have run last that have read `table`.
async fn last_run(cluster: &Cluster, table: &str) -> String {
    let query = format!(
        "SELECT query FROM pg_stat_activity WHERE query LIKE '%FROM {table} %'
         AND pid <> pg_backend_pid() ORDER BY query_start DESC LIMIT 1"
    );
    text(&connect(cluster.replicas[0].socket()).await, &query).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_the_same_byte_by_byte() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let mut raw = Raw::log_in(cluster.front.address).await;
    let mut direct = Raw::log_in(cluster.primary.socket()).await;
    let long = format!("SELECT n AS \"{}\" FROM t WHERE id = 1", "x".repeat(200));
    for (query, runs) in [
        (
            "SELECT n FROM t WHERE id = 1",
            "SELECT n FROM t WHERE id = $1",
        ),
        (
            "SELECT n FROM t WHERE id = 7",
            "SELECT n FROM t WHERE id = $1",
        ),
        (
            "select *, n / m AS \"a b\" FROM t u WHERE note IS NULL AND u.id=-2 ;",
            "select *, n / m AS \"a b\" FROM t u WHERE note IS NULL AND u.id=$1 ;",
        ),
        (
            "SELECT n, a FROM two WHERE 1 = a AND b = 2",
            "SELECT n, a FROM two WHERE $1 = a AND b = $2",
        ),
        // It reports that it cuts the name off, each time that it is parsed; and now and then
        // without that.
        (&long, &long.replace("= 1", "= $1")),
        // Numbers that are none of the key's, have another type, or do not have the key's type.
        ("SELECT n, 7 FROM t WHERE id = 1", ""),
        ("SELECT n FROM t WHERE id = 1 ORDER BY 1", ""),
        ("SELECT n FROM t WHERE id = 1 LIMIT 1", ""),
        ("SELECT n FROM t WHERE id = 3000000000", ""),
        ("SELECT n FROM t WHERE id = 1::int8", ""),
        ("SELECT n FROM t WHERE id = 1 OR id = 3", ""),
        ("SELECT n FROM named WHERE id = '1'", ""),
        (
            "SELECT n FROM t WHERE id = 1; SELECT n FROM t WHERE id = 3",
            "",
        ),
    ] {
        for _ in 0..7 {
            let served = cluster.served();
            let expected = answer(&mut direct, query).await;
            let output = answer(&mut raw, query).await;
            assert_eq!(
                without_notices(&output),
                without_notices(&expected),
                "{query}"
            );
            assert!(cluster.served() > served, "{query}");
        }
        let table = ["two", "named"]
            .into_iter()
            .find(|name| query.contains(name));
        let ran = last_run(&cluster, table.unwrap_or("t")).await;
        let expected = if runs.is_empty() { query } else { runs };
        assert_eq!(ran, expected);
    }
}

/// A text that fails as a prepared statement is run unchanged, on the primary, and the client gets
/// the error from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_equal_those_of_the_simple_query() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let mut raw = Raw::log_in(cluster.front.address).await;
    let mut direct = Raw::log_in(cluster.primary.socket()).await;
    for begin in ["", "BEGIN"] {
        for query in [
            "SELECT n / m FROM t WHERE id = 3",
            "SELECT note::int FROM t WHERE id = 1",
        ] {
            for _ in 0..2 {
                for text in [begin, query, "ROLLBACK"] {
                    let expected = answer(&mut direct, text).await;
                    let output = answer(&mut raw, text).await;
                    assert_eq!(
                        without_notices(&output),
                        without_notices(&expected),
                        "{text}"
                    );
                }
            }
        }
    }
    raw.query("SET replex.trace = on");
    raw.reply().await;
    raw.converse_at(&[(
        "SELECT n / m FROM t WHERE id = 3",
        "the primary, since division by zero",
        "T[22012]ZI",
    )])
    .await;
}

/// Statements that were prepared before their tables changed do not get into the way of others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_change() {
    const READ: &str = "SELECT * FROM t WHERE id = 1";
    let Some(cluster) = cluster().await else {
        return;
    };
    let columns = |answer: &[(u8, Vec<u8>)]| {
        let output: Vec<u8> = answer.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(output, b"TDCZ");
        u16::from_be_bytes(*answer[0].1.first_chunk().unwrap())
    };
    let mut raw = Raw::log_in(cluster.front.address).await;
    let mut other = Raw::log_in(cluster.front.address).await;
    for (change, expected) in [
        ("", 4),
        ("ALTER TABLE t ADD COLUMN o int", 5),
        ("ALTER TABLE t DROP COLUMN note", 4),
        ("ALTER TABLE t ADD COLUMN note numeric, ADD COLUMN q int", 6),
        ("ALTER TABLE t ALTER COLUMN n TYPE bigint", 6),
    ] {
        if !change.is_empty() {
            other.converse(&[(change, "CZI")]).await;
        }
        for _ in 0..3 {
            assert_eq!(columns(&answer(&mut raw, READ).await), expected, "{change}");
        }
        cluster.settle().await;
        // The first one after the catalogue has followed runs as it is.
        wait("a prepared statement", || async {
            let mut raw = Raw::log_in(cluster.front.address).await;
            assert_eq!(columns(&answer(&mut raw, READ).await), expected, "{change}");
            (last_run(&cluster, "t").await == "SELECT * FROM t WHERE id = $1").then_some(())
        })
        .await;
        let served = cluster.served();
        assert_eq!(columns(&answer(&mut raw, READ).await), expected, "{change}");
        assert_eq!(cluster.served() - served, 1);
    }
    // Another client changes the replica's table itself.
    let replica = connect(cluster.replicas[0].socket()).await;
    let change = "SET session_replication_role = replica; ALTER TABLE t ADD COLUMN z int";
    replica.batch_execute(change).await.unwrap();
    // The first fails there, and finds the primary's; then it is prepared again.
    assert_eq!(columns(&answer(&mut raw, READ).await), 6);
    assert_eq!(columns(&answer(&mut raw, READ).await), 7);
}

/// A read whose server process dies runs again. A cancelled read does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_are_cut_off() {
    const READ: &str = "SELECT n FROM t WHERE id = 1";
    let Some(cluster) = cluster().await else {
        return;
    };
    let replica = connect(cluster.replicas[0].socket()).await;
    // A transaction's view of other sessions' activities does not change.
    let admin = connect(cluster.replicas[0].socket()).await;
    for (ends, expected) in [
        ("pg_terminate_backend", "T'10'CZI"),
        ("pg_cancel_backend", "[57014]ZI"),
    ] {
        let mut raw = Raw::log_in(cluster.front.address).await;
        raw.converse(&[(READ, "T'10'CZI")]).await;
        replica
            .batch_execute("BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE")
            .await
            .unwrap();
        raw.query(READ).flush().await;
        let end = format!(
            "SELECT count({ends}(pid)) FROM pg_stat_activity
             WHERE wait_event_type = 'Lock' AND query LIKE '%FROM t WHERE id = $1'"
        );
        wait("the read waits", || async {
            (text(&admin, &end).await == "1").then_some(())
        })
        .await;
        assert_eq!(raw.until_ready().await, expected, "{ends}");
        replica.batch_execute("COMMIT").await.unwrap();
        raw.converse(&[(READ, "T'10'CZI")]).await;
    }
}

/// A client's own unnamed statement ends with a simple query, as ever; and no client finds the
/// proxy's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_clients_are_theirs() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.parse("", "SELECT n FROM t WHERE id = 3").sync();
    assert_eq!(raw.reply().await, "1ZI");
    raw.converse(&[("SELECT n FROM t WHERE id = 1", "T'10'CZI")])
        .await;
    raw.bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "[26000]ZI");
    raw.parse("a", "SELECT n FROM t WHERE id = $1").sync();
    assert_eq!(raw.reply().await, "1ZI");
    raw.converse(&[("SELECT n FROM t WHERE id = 1", "T'10'CZI")])
        .await;
    // In transactions, too, and with several in one go.
    raw.query("BEGIN").query("SELECT n FROM t WHERE id = -2");
    raw.flush().await;
    assert_eq!(raw.until_ready().await, "CZT");
    assert_eq!(raw.until_ready().await, "T'20'CZT");
    raw.converse(&[
        ("UPDATE t SET n = 11 WHERE id = 1", "CZT"),
        ("SELECT n FROM t WHERE id = 1", "T'11'CZT"),
        ("SELECT n FROM t WHERE id = 3", "T'30'CZT"),
        ("ROLLBACK", "CZI"),
        ("SELECT n FROM t WHERE id = 1", "T'10'CZI"),
    ])
    .await;
}

/// At a level at which a replica may not know the tables as they are, nothing is prepared there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn weak_reads_run_as_they_are() {
    let Some(cluster) = cluster().await else {
        return;
    };
    let mut raw = Raw::log_in(cluster.front.address).await;
    for level in ["weak", "rsi-pc"] {
        let set = format!("SET replex.consistency = '{level}'");
        raw.converse(&[(&set, "CZI")]).await;
        let served = cluster.served();
        raw.converse(&[("SELECT n FROM t WHERE id = 1", "T'10'CZI")])
            .await;
        assert_eq!(cluster.served() - served, 1);
        assert_eq!(
            last_run(&cluster, "t").await,
            "SELECT n FROM t WHERE id = 1"
        );
    }
}
