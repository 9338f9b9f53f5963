//! SQL and the protocol share the names of prepared statements, as they do in PostgreSQL. A
//! session's statements on a shared server remain when another session deallocates there.

use crate::support::cluster::Cluster;
use crate::support::is_there;
use crate::support::raw::Raw;

const SETUP: &str = "CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2);
    CREATE FUNCTION deallocates_all() RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'DEALLOCATE ' || 'ALL'; RETURN 1; END $$";

/// Conversations of clients, each in a session of its own.
const CONVERSATIONS: &[&[&str]] = &[
    // As PDO does, in and outside of a transaction.
    &[
        "pdo_stmt_00000001 = SELECT id FROM t WHERE id = 1",
        "pdo_stmt_00000001!",
        "DEALLOCATE pdo_stmt_00000001",
        "pdo_stmt_00000001!",
        "BEGIN",
        "pdo_stmt_00000002 = INSERT INTO t VALUES (7)",
        "pdo_stmt_00000002!",
        "DEALLOCATE pdo_stmt_00000002",
        "pdo_stmt_00000003 = SELECT count(*) FROM t",
        "pdo_stmt_00000003!",
        "DEALLOCATE pdo_stmt_00000003",
        "ROLLBACK",
        "DEALLOCATE pdo_stmt_00000003",
    ],
    &[
        "a = SELECT 1",
        "deallocate prepare \"a\";",
        "a = SELECT 2",
        "a!",
        "DEALLOCATE A",
        "a!",
    ],
    &[
        "a = SELECT 1",
        "DEALLOCATE a.",
        "a!",
        "d = DEALLOCATE a",
        "a = SELECT 2",
        "d!",
        "d!",
        "a!",
    ],
    // A statement that is prepared after it in the batch is there.
    &[
        "a = SELECT 1",
        "deallocate all. & b = SELECT 2",
        "b!",
        "a!",
        "discard all.",
        "b!",
    ],
    &[
        "a = SELECT 1",
        "deallocate all. & a = SELECT 2 & a!",
        "a!",
        "SELECT 1/0. & deallocate all.",
        "a!",
    ],
    &[
        "d = deallocate all",
        "a = SELECT 1",
        "d! & a = SELECT 3 & a!",
        "a!",
        "DISCARD ALL",
        "a!",
    ],
    // In a transaction that has failed nothing is deallocated.
    &[
        "a = SELECT 1",
        "BEGIN",
        "SELECT 1/0",
        "DEALLOCATE a",
        "deallocate all.",
        "ROLLBACK",
        "a!",
    ],
    &[
        "a = SELECT 1",
        "BEGIN",
        "DEALLOCATE a",
        "ROLLBACK",
        "a!",
        "BEGIN",
        "DEALLOCATE a",
        "SELECT 1",
        "ROLLBACK",
    ],
    // SQL finds the statements that the protocol has prepared, and the other way round.
    &[
        "a = SELECT 1",
        "EXECUTE a",
        "DEALLOCATE a",
        "EXECUTE a",
        "a!",
        "a = SELECT 2",
        "a!",
        "EXECUTE a",
    ],
    &[
        "PREPARE a AS SELECT 5",
        "a!",
        "a = SELECT 6",
        "DEALLOCATE a",
        "a = SELECT 6",
        "a!",
    ],
    &[
        "a = SELECT 1",
        "PREPARE a AS SELECT 5",
        "DEALLOCATE a; PREPARE a AS SELECT 5",
        "a!",
        "EXECUTE a.",
    ],
    &[
        "a = SELECT 1",
        "EXECUTE a.",
        "a = SELECT 7",
        "EXPLAIN (COSTS off) EXECUTE a",
        "SELECT 3; EXECUTE a",
    ],
    &[
        "b = SELECT 1",
        "a = SELECT 2",
        "SELECT name FROM pg_prepared_statements ORDER BY name",
        "SELECT statement FROM pg_prepared_statements WHERE NOT from_sql ORDER BY name",
        "c = SELECT 3",
        "SELECT name FROM pg_prepared_statements ORDER BY name.",
        "DO $$ BEGIN EXECUTE 'DEALLOCATE a'; END $$",
        "a!",
        "b!",
    ],
];

/// Sends each line, and returns the tags, see [`Raw::until_ready`]. A line is a simple query; or
/// `name = text` to prepare, `name!` to run and `text.` to prepare and run a statement without a
/// name, several of which with `&` between go in one batch.
async fn converse(raw: &mut Raw, lines: &[&str]) -> Vec<String> {
    let mut replies = Vec::new();
    for line in lines {
        let is_simple = !line.contains(" = ") && !line.ends_with(['!', '.']);
        if is_simple {
            raw.query(line);
        } else {
            for part in line.split(" & ") {
                if let Some((name, text)) = part.split_once(" = ") {
                    raw.parse(name, text);
                } else if let Some(name) = part.strip_suffix('!') {
                    raw.bind(name).execute(0);
                } else {
                    raw.parse("", part.trim_end_matches('.'))
                        .bind("")
                        .execute(0);
                }
            }
            raw.sync();
        }
        replies.push(format!("{line}: {}", raw.reply().await));
    }
    replies
}

/// The same messages go to a PostgreSQL, and through the proxy to that same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_equal_those_of_the_client() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    for lines in CONVERSATIONS {
        let mut straight = Raw::log_in(cluster.primary.socket()).await;
        let mut through = Raw::log_in(cluster.front.address).await;
        let expected = converse(&mut straight, lines).await;
        assert_eq!(converse(&mut through, lines).await, expected);
    }
}

/// DEALLOCATE leaves the session free to read anywhere, and its error names the statement as the
/// client does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deallocate_keeps_no_connection() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    for text in ["DEALLOCATE a", "DEALLOCATE ALL"] {
        raw.parse("a", "SELECT id FROM t").sync();
        raw.reply().await;
        raw.query(text);
        assert_eq!(raw.reply().await, "CZI");
        // A table that did not exist before may have been written by anything.
        cluster.settle().await;
        raw.converse_at(&[("SELECT count(*) FROM t", "replica", "T'2'CZI")])
            .await;
        raw.bind("a").execute(0).sync();
        raw.flush().await;
        let mut message = String::new();
        while let Some((tag, body)) = raw.message().await {
            if tag == b'E' {
                message = pg_wire::report::Report::read(&body).message;
            }
            if tag == b'Z' {
                break;
            }
        }
        assert_eq!(message, "prepared statement \"a\" does not exist");
    }
}

/// A function that deallocates everything removes nothing from other sessions on the same
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_keep_their_statements() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    let mut other = Raw::log_in(cluster.front.address).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    for how in [
        "SELECT deallocates_all()",
        "DO $$ BEGIN PERFORM deallocates_all(); END $$",
    ] {
        raw.parse("k", "UPDATE t SET id = 2 WHERE id = 2 RETURNING id")
            .sync();
        raw.reply().await;
        raw.bind("k").execute(0).sync();
        assert_eq!(raw.reply().await, "2'2'CZI");
        other.query(how);
        assert!(other.reply().await.ends_with("CZI"));
        for begin in ["SELECT 1", "BEGIN"] {
            raw.query(begin);
            raw.reply().await;
            raw.bind("k").execute(0).sync();
            let replies = raw.reply().await;
            assert!(replies.starts_with("2'2'C"), "{how}, {begin}: {replies}");
        }
        raw.query("ROLLBACK");
        raw.reply().await;
        raw.close("k").sync();
        raw.reply().await;
    }
}
