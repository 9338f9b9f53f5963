//! Any order of messages is answered through the proxy as PostgreSQL answers it straight.
//!
//! A seed draws bursts of messages, of all kinds that a client may send, sensible or not. They are
//! sent to a PostgreSQL, and through the proxy to another one that began alike. All answers must be
//! equal, but for names of a server's own things: object identifiers, and places in its source.
//! Each burst ends with a *fence*, which both answer in any state that the burst has left:
//! CopyFail, Sync, and an empty query, whose answer nothing else has. Where a burst ends the
//! connection, both must have ended.

use std::time::Duration;

use bytes::BytesMut;
use pg_local::Postgres;
use pg_wire::message;
use pg_wire::report::Report;

use crate::support::cluster::Cluster;
use crate::support::connect;
use crate::support::is_there;
use crate::support::raw::Raw;

/// Seeds that the test runs, unless [`SEEDS`] is set.
const SEEDS_DEFAULT: u64 = 150;
/// Names the environment's variable with a number of seeds.
const SEEDS: &str = "REPLEX_ORDERS_SEEDS";
/// Names the environment's variable with the first seed.
const SEED: &str = "REPLEX_ORDERS_SEED";
/// The error of a statement that cannot run in a transaction whose snapshot is at a replica.
const AT_REPLICA: &str = "the transaction has its snapshot at a replica";
/// One burst is answered within this.
const PATIENCE: Duration = Duration::from_secs(20);

const SETUP: &str =
    "CREATE TABLE t (id int PRIMARY KEY, n int DEFAULT 0); INSERT INTO t (id) VALUES (1), (2), (3)";
const RESTORE: &str = "TRUNCATE t; INSERT INTO t (id) VALUES (1), (2), (3)";

const NAMES: &[&str] = &["", "", "a", "a", "b"];
const PORTALS: &[&str] = &["", "", "", "p"];
const TEXTS: &[&str] = &[
    "SELECT 1",
    "SELECT id FROM t ORDER BY id",
    "SELECT $1::int + 1",
    "SELECT n FROM t WHERE id = $1",
    "SELECT id FROM t WHERE id = 2",
    "SELECT 1/0",
    "SELECT 5",
    "SELECT 6 AS six",
    "SELECT n FROM t ORDER BY n",
    "SELECT nothing FROM t",
    "selec",
    "INSERT INTO t VALUES (7) RETURNING id",
    "INSERT INTO t VALUES (8)",
    "INSERT INTO t VALUES (1)",
    "UPDATE t SET n = n + 1 WHERE id = 2",
    "BEGIN",
    "BEGIN",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "COMMIT",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "COPY t FROM STDIN",
    "COPY (SELECT id FROM t ORDER BY id) TO STDOUT",
    "SELECT id FROM t ORDER BY id; SELECT 2",
    "INSERT INTO t VALUES (9); SELECT 1/0",
    "DEALLOCATE a",
    "DEALLOCATE a",
    "DEALLOCATE PREPARE \"b\"",
    "DEALLOCATE ALL",
    "DEALLOCATE b; SELECT 3",
    "DISCARD ALL",
    "PREPARE b AS SELECT 4",
    "EXECUTE a",
    "EXECUTE b",
    "SELECT name, from_sql FROM pg_prepared_statements ORDER BY name",
    "SET replex.none = 1",
    "SET TIME ZONE 'UTC'",
];

/// Numbers that a seed gives.
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it ^ (it >> 31)) % count as u64).unwrap()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// A message, and how it reads.
#[derive(Clone)]
struct SentMessage {
    bytes: BytesMut,
    story: String,
}

fn message(tag: u8, parts: &[&[u8]], story: String) -> SentMessage {
    let mut bytes = BytesMut::new();
    message::write(&mut bytes, tag, parts, 0);
    SentMessage { bytes, story }
}

fn any(chance: &mut Chance) -> SentMessage {
    let (name, portal, text) = (chance.of(NAMES), chance.of(PORTALS), chance.of(TEXTS));
    match chance.of(b"PPPPBBBBBEEEEEDdCcHSSSQQQFxyz") {
        b'P' => {
            let parts: [&[u8]; 4] = [name.as_bytes(), b"\0", text.as_bytes(), b"\0\0\0"];
            message(b'P', &parts, format!("Parse {name:?} {text:?}"))
        }
        b'B' => {
            let parameters = chance.of(&[&b"\0\0"[..], b"\0\0", b"\0\x01\0\0\0\x012"]);
            let story = format!("Bind {portal:?} {name:?} {parameters:?}");
            let (portal, name) = (portal.as_bytes(), name.as_bytes());
            let parts: [&[u8]; 7] = [portal, b"\0", name, b"\0", b"\0\0", parameters, b"\0\0"];
            message(b'B', &parts, story)
        }
        b'E' => {
            let rows = chance.of(&[0_u8, 0, 0, 1]);
            let parts: [&[u8]; 3] = [portal.as_bytes(), b"\0\0\0\0", &[rows]];
            message(b'E', &parts, format!("Execute {portal:?} {rows}"))
        }
        b'D' => message(
            b'D',
            &[b"S", name.as_bytes(), b"\0"],
            format!("Describe {name:?}"),
        ),
        b'd' => {
            let story = format!("Describe portal {portal:?}");
            message(b'D', &[b"P", portal.as_bytes(), b"\0"], story)
        }
        b'C' => message(
            b'C',
            &[b"S", name.as_bytes(), b"\0"],
            format!("Close {name:?}"),
        ),
        b'c' => {
            let story = format!("Close portal {portal:?}");
            message(b'C', &[b"P", portal.as_bytes(), b"\0"], story)
        }
        b'H' => message(b'H', &[], "Flush".into()),
        b'S' => message(b'S', &[], "Sync".into()),
        b'Q' => message(b'Q', &[text.as_bytes(), b"\0"], format!("Query {text:?}")),
        b'F' => {
            // abs(int4) of 7, as text.
            let call = b"\0\0\x05\x75\0\0\0\x01\0\0\0\x017\0\0";
            // In a transaction that has failed it has been seen to end PostgreSQL 15's server
            // process.
            let mut both = message(
                b'Q',
                &[b"ROLLBACK\0"],
                "Query ROLLBACK, FunctionCall".into(),
            );
            message::write(&mut both.bytes, b'F', &[call], 0);
            both
        }
        b'x' => message(b'd', &[b"11\t1\n"], "CopyData".into()),
        b'y' => message(b'c', &[], "CopyDone".into()),
        _ => message(b'f', &[b"no\0"], "CopyFail".into()),
    }
}

/// Bursts of a session.
fn bursts(seed: u64) -> Vec<Vec<SentMessage>> {
    let mut chance = Chance(seed);
    let count = 1 + chance.below(6);
    let burst = |chance: &mut Chance| {
        let count = 1 + chance.below(9);
        (0..count).map(|_| any(chance)).collect()
    };
    (0..count).map(|_| burst(&mut chance)).collect()
}

/// Sends a burst and its fence; returns the messages up to the fence's answer, or to the
/// connection's end.
async fn reply(raw: &mut Raw, burst: &[SentMessage]) -> Vec<String> {
    for message in burst {
        raw.out.extend_from_slice(&message.bytes);
    }
    raw.say(b'f', &[b"fence\0"]).sync().query("");
    let mut replies = Vec::new();
    let out = std::mem::take(&mut raw.out);
    if tokio::io::AsyncWriteExt::write_all(&mut raw.socket, &out)
        .await
        .is_err()
    {
        return vec!["END".into()];
    }
    let mut is_over = false;
    loop {
        let Some((tag, body)) = raw.message().await else {
            replies.push("END".into());
            return replies;
        };
        replies.push(match tag {
            b'S' | b'K' | b'R' => continue,
            b'E' | b'N' => {
                let report = Report::read(&body);
                format!("{} {} {}", char::from(tag), report.code, report.message)
            }
            b'T' => {
                let columns = usize::from(u16::from_be_bytes([body[0], body[1]]));
                format!("T {columns}")
            }
            tag => format!("{} {}", char::from(tag), body.escape_ascii()),
        });
        is_over |= tag == b'I';
        if tag == b'Z' && is_over {
            return replies;
        }
    }
}

struct Servers {
    straight: Postgres,
    cluster: Cluster,
}

/// One seed. The error shows where the replies differ.
async fn run(servers: &Servers, seed: u64) -> Result<usize, String> {
    let bursts = bursts(seed);
    let mut straight = Raw::log_in(servers.straight.socket()).await;
    let mut through = Raw::log_in(servers.cluster.front.address).await;
    let mut story = String::new();
    let mut count = 0;
    for burst in &bursts {
        for message in burst {
            story += &format!("  {}\n", message.story);
        }
        story += "  fence\n";
        let expected = tokio::time::timeout(PATIENCE, reply(&mut straight, burst)).await;
        let expected = expected.map_err(|_| format!("{story}PostgreSQL itself waits"))?;
        let replies = tokio::time::timeout(PATIENCE, reply(&mut through, burst)).await;
        let replies =
            replies.map_err(|_| format!("{story}the proxy waits; expected {expected:#?}"))?;
        if differs_as_known(&expected, &replies) {
            // Later answers may differ, too.
            break;
        }
        if replies != expected {
            return Err(format!("{story}expected {expected:#?}\nheard {replies:#?}"));
        }
        count += replies.len();
        if replies.last().is_some_and(|last| last == "END") {
            break;
        }
    }
    Ok(count)
}

/// Returns whether their first difference is a known one. In a transaction whose snapshot is at a
/// replica, a statement that cannot run there fails, as documented. A transaction that has read
/// elsewhere has read nothing on the primary, where its modes may be set still. While a transaction
/// is on no server yet, the portal of its BEGIN is not there. Once it has failed, statements
/// without rows are not described, and no further faults are found.
fn differs_as_known(expected: &[String], replies: &[String]) -> bool {
    let mut both = expected.iter().zip(replies);
    let Some((expected, replies)) = both.find(|(expected, replies)| expected != replies) else {
        return false;
    };
    let is_of_begin = ["E 55000", "E 25P02", "n "]
        .iter()
        .any(|it| expected.starts_with(it))
        && replies.as_str() == "E 34000 portal \"\" does not exist";
    let is_of_failed = ["E ", "t "].iter().any(|it| expected.starts_with(it));
    let is_of_failed = is_of_failed && replies.starts_with("E 25P02");
    let is_of_order = expected.contains("must be called before any query");
    replies.contains(AT_REPLICA) || is_of_order || is_of_begin || is_of_failed
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().expect("it is a whole number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_is_answered_as_by_postgresql() {
    if !is_there() {
        return;
    }
    let straight = Postgres::start(&[]).unwrap();
    let admin = connect(straight.socket()).await;
    admin.batch_execute(SETUP).await.unwrap();
    let cluster = Cluster::start_after(SETUP).await;
    let of_primary = connect(cluster.primary.socket()).await;
    let servers = Servers { straight, cluster };
    let (first, seeds) = (
        number(SEED).unwrap_or(0),
        number(SEEDS).unwrap_or(SEEDS_DEFAULT),
    );
    let mut failed = Vec::new();
    let mut count = 0;
    for seed in first..first + seeds {
        admin.batch_execute(RESTORE).await.unwrap();
        of_primary.batch_execute(RESTORE).await.unwrap();
        match run(&servers, seed).await {
            Ok(replies) => count += replies,
            Err(difference) => {
                println!("{difference}\nreplay: {SEED}={seed} {SEEDS}=1\n");
                failed.push(seed);
            }
        }
        if failed.len() >= 10 {
            break;
        }
    }
    println!(
        "{seeds} seeds, {count} replies, {} reads at the replica",
        servers.cluster.served()
    );
    assert_eq!(failed, [0; 0], "seeds differ");
    servers.cluster.settle().await;
}
