//! A prepared statement keeps the types of its parameters and columns, wherever it is prepared
//! again: once its columns would be others, it fails as on one server, and nothing is done.

use std::net::SocketAddr;

use pg_local::Postgres;
use pg_wire::report::Report;

use crate::support::cluster::Cluster;
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

const SETUP: &str = "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 10);
    CREATE TABLE held (id int PRIMARY KEY); INSERT INTO held VALUES (1)";

/// The lines of three clients. A line of the second one begins with `2 `, of the third with `3 `.
const CONVERSATIONS: &[&[&str]] = &[
    // A driver that has not asked for a description knows the columns from the first run.
    &[
        "a = SELECT * FROM t",
        "a!",
        "2 ALTER TABLE t ADD COLUMN m int",
        "a!",
        "a!",
        "a?",
        "a~",
        "a = SELECT * FROM t",
        "a!",
    ],
    &[
        "a = SELECT * FROM t & a?",
        "2 ALTER TABLE t ALTER n TYPE text",
        "a!",
        "DEALLOCATE a",
        "a = SELECT * FROM t & a?",
        "a!",
    ],
    // On a connection of the primary that has never seen it; and nothing is written.
    &[
        "a = INSERT INTO t VALUES (2, 20) RETURNING n",
        "2 ALTER TABLE t ALTER n TYPE bigint",
        "3 BEGIN",
        "3 UPDATE held SET id = 1",
        "a!",
        "3 ROLLBACK",
        "a!",
        "SELECT count(*) FROM t",
        "b = INSERT INTO t VALUES (2, 20) RETURNING n & a! & b! & SELECT 1.",
        "SELECT count(*) FROM t",
        "b!",
    ],
    // On one that has it from another client, which has prepared it since.
    &[
        "a = UPDATE t SET n = n RETURNING *",
        "a!",
        "2 ALTER TABLE t ADD COLUMN m int",
        "2 b = UPDATE t SET n = n RETURNING *",
        "2 b!",
        "a!",
        "2 b!",
        "a!",
        "2 ALTER TABLE t DROP COLUMN m",
        "a!",
        "2 b!",
        "a!",
    ],
    // The transaction fails, also where it was on no server.
    &[
        "a = SELECT n FROM t",
        "a!",
        "2 ALTER TABLE t ALTER n TYPE numeric(5,1)",
        "BEGIN",
        "INSERT INTO t VALUES (3, 30)",
        "a!",
        "SELECT 1",
        "a!",
        "COMMIT",
        "BEGIN",
        "a!",
        "SELECT 1",
        "ROLLBACK",
        "SELECT count(*) FROM t",
    ],
    // The transaction's own change.
    &[
        "a = SELECT * FROM t",
        "BEGIN",
        "a!",
        "ALTER TABLE t ADD COLUMN m int",
        "a!",
        "ROLLBACK",
        "a!",
    ],
    // The unnamed statement, described before it runs.
    &[
        " = SELECT * FROM t & ?",
        "2 ALTER TABLE t ALTER n TYPE smallint",
        "!",
        "!",
        " = SELECT * FROM t & ?",
        "!",
    ],
    &[
        " = DELETE FROM t RETURNING n",
        "2 ALTER TABLE t RENAME n TO m",
        "3 BEGIN",
        "3 UPDATE held SET id = 1",
        "!",
        "3 ROLLBACK",
        "SELECT count(*) FROM t",
    ],
    // Changes that do not concern its columns, and types that come back.
    &[
        "a = SELECT id FROM t",
        "b = UPDATE t SET n = 1",
        "c = SELECT n FROM t",
        "2 CREATE INDEX ON t (n)",
        "2 ALTER TABLE t ADD COLUMN m int",
        "2 ALTER TABLE t ALTER n TYPE bigint",
        "3 BEGIN",
        "3 UPDATE held SET id = 1",
        "a!",
        "b!",
        "c!",
        "2 ALTER TABLE t ALTER n TYPE int",
        "c! & a!",
        "3 ROLLBACK",
        "a! & b! & c!",
    ],
    // Another table in the search path.
    &[
        "a = SELECT * FROM t",
        "a!",
        "2 CREATE SCHEMA another",
        "2 CREATE TABLE another.t (n text)",
        "SET search_path = another",
        "a!",
        "RESET search_path",
        "a!",
    ],
    &[
        "2 CREATE VIEW v AS SELECT id, n FROM t",
        "a = SELECT * FROM v",
        "a!",
        "2 CREATE OR REPLACE VIEW v AS SELECT id, n, 'a' AS m FROM t",
        "a!",
        "2 DROP VIEW v",
        "a!",
        "2 CREATE VIEW v AS SELECT id, n FROM t",
        "a!",
    ],
    // A parameter keeps its type: the client writes the number as it was described.
    &[
        "a = INSERT INTO t VALUES (2, $1)",
        "b = SELECT id FROM t WHERE n = $1",
        "2 ALTER TABLE t ALTER n TYPE real",
        "3 BEGIN",
        "3 UPDATE held SET id = 1",
        "a!7",
        "SELECT n FROM t WHERE id = 2",
        "b!7",
        "3 ROLLBACK",
    ],
    // SQL's PREPARE, and commands that have no plan.
    &[
        "PREPARE a AS SELECT * FROM t",
        "EXECUTE a",
        "2 ALTER TABLE t ADD COLUMN m int",
        "EXECUTE a",
        "a!",
        "DEALLOCATE a",
        "PREPARE a AS SELECT * FROM t",
        "a!",
    ],
    &[
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT 1",
        "f = FETCH c",
        "f!",
        "ROLLBACK",
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT 'a', 2",
        "f!",
        "ROLLBACK",
    ],
];

/// Writes the messages of a line: a simple query; or, in one batch, `name = text` to prepare,
/// `name?` to describe, `name!` to run, also with a parameter, which is an `int4` in binary format,
/// `name~` to close, and `text.` to prepare and run without a name.
fn say(raw: &mut Raw, line: &str) {
    let is_simple = !line.contains(" = ") && !line.contains(['!', '?', '~']);
    if is_simple || line.starts_with(|it: char| it.is_uppercase()) {
        raw.query(line);
        return;
    }
    for part in line.split(" & ") {
        if let Some((name, text)) = part.split_once(" = ") {
            raw.parse(name.trim(), text);
        } else if let Some(name) = part.strip_suffix('?') {
            raw.say(b'D', &[b"S", name.as_bytes(), b"\0"]);
        } else if let Some(name) = part.strip_suffix('~') {
            raw.close(name);
        } else if let Some((name, "")) = part.split_once('!') {
            raw.bind(name).execute(0);
        } else if let Some((name, number)) = part.split_once('!') {
            let number: i32 = number.parse().unwrap();
            let start = b"\0\0\x01\0\x01\0\x01\0\0\0\x04";
            let value = number.to_be_bytes();
            raw.say(b'B', &[b"\0", name.as_bytes(), start, &value, b"\0\0"]);
            raw.execute(0);
        } else {
            raw.parse("", part.trim_end_matches('.'));
            raw.bind("").execute(0);
        }
    }
    raw.sync();
}

/// Has three clients converse at an address. Returns the tags of the replies, see
/// [`Raw::until_ready`].
async fn converse(address: SocketAddr, lines: &[&str]) -> Vec<String> {
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(Raw::log_in(address).await);
    }
    let mut replies = Vec::new();
    for line in lines {
        let (client, said) = match line.split_once(' ') {
            Some(("2", said)) => (1, said),
            Some(("3", said)) => (2, said),
            _ => (0, *line),
        };
        say(&mut clients[client], said);
        replies.push(format!("{line}: {}", clients[client].reply().await));
    }
    replies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_keep_their_types() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let straight = Postgres::start(&[]).unwrap();
    let addresses = [straight.socket(), cluster.front.address];
    connect(addresses[0])
        .await
        .batch_execute(SETUP)
        .await
        .unwrap();
    for lines in CONVERSATIONS {
        cluster.settle().await;
        let expected = converse(addresses[0], lines).await;
        assert_eq!(converse(addresses[1], lines).await, expected);
        for address in addresses {
            let client = connect(address).await;
            let drops = "DROP SCHEMA IF EXISTS another CASCADE; DROP TABLE t CASCADE;
                DROP TABLE held; ";
            for statement in (drops.to_owned() + SETUP).split(';') {
                client.batch_execute(statement).await.unwrap();
            }
        }
    }
    cluster.settle().await;
}

/// Drivers know the error by its fields, and heal by preparing the statement again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_is_postgresqls() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    say(&mut raw, "a = UPDATE t SET n = n RETURNING *");
    raw.reply().await;
    raw.query("ALTER TABLE t ADD COLUMN m int");
    raw.reply().await;
    // On a connection that does not have it yet.
    let mut other = Raw::log_in(cluster.front.address).await;
    other
        .converse(&[("BEGIN", "CZT"), ("UPDATE held SET id = 1", "CZT")])
        .await;
    say(&mut raw, "a!");
    raw.flush().await;
    let mut found = Vec::new();
    while let Some((tag, body)) = raw.message().await {
        match tag {
            b'E' => found.push(body),
            b'Z' => break,
            _ => {}
        }
    }
    let [error] = &found[..] else {
        panic!("{} errors", found.len());
    };
    let report = Report::read(error);
    assert_eq!(report.code, "0A000");
    assert_eq!(report.message, "cached plan must not change result type");
    let fields = String::from_utf8_lossy(error);
    assert!(fields.contains("\0Fplancache.c\0"), "{fields}");
    assert!(fields.contains("\0RRevalidateCachedQuery\0"), "{fields}");
}
