//! Clients that do not follow the protocol: each gets an error or nothing, and the others notice
//! nothing.
//!
//! Random bytes have seeds. For one again: `REPLEX_FRONT_DOOR_HOSTILE_SEEDS=7..8 cargo test
//! -p replex --features proxy --test all front_door`.

use std::io::Write;
use std::net::Shutdown;
use std::ops::Range;
use std::time::{Duration, Instant};

use pg_wire::startup::{self, CancelKey};

use super::Started;
use crate::ranges_postgres::seeds;
use crate::support::drawn_ranges::Draw;
use crate::support::raw_client::{Messages, RawClient};

const SEEDS: Range<u64> = 0..40;
const SEEDS_OF_RUN: &str = "REPLEX_FRONT_DOOR_HOSTILE_SEEDS";
/// The clients before those that are measured: what the first statements of each thread take, some
/// MB, is no client's.
const FIRST_CLIENTS: u64 = 100;
/// The idle clients whose memory is measured, and what each may take. They take a third; the memory
/// grows by pages of 2 MiB.
const IDLE_CLIENTS: u64 = 400;
const IDLE_CLIENT_BYTES_MAX: u64 = 20_000;
/// The allocator gives memory back some time after the clients have become idle.
const GIVES_BACK: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_wrong_cancel_key_has_no_effect() {
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    let key = client.greeting.iter().find(|it| it.tag == b'K').unwrap();
    let process = u32::from_be_bytes(key.body[..4].try_into().unwrap());
    for secret in [vec![0; 4], vec![1; 32], vec![2; 256]] {
        let mut canceling = RawClient::open(started.sql());
        canceling.send(&startup::write_cancel(&CancelKey { process, secret }));
        assert_eq!(canceling.answer(), None);
    }
    assert_eq!(client.rows("SELECT 1"), [["1"]]);
}

#[tokio::test]
async fn newer_protocols_are_negotiated() {
    let started = Started::new().await;
    for (minor, spoken, secret_len) in [
        (0, None, 4),
        (1, Some(0), 4),
        (2, None, 32),
        (9, Some(2), 32),
    ] {
        let mut client = RawClient::open(started.sql());
        let mut packet = startup::write([("user", "ann")]);
        packet[7] = minor;
        client.send(&packet);
        let answers = client.until_ready();
        let negotiated = answers.iter().find(|it| it.tag == b'v');
        assert_eq!(negotiated.map(|it| it.body[3]), spoken, "3.{minor}");
        let key = answers.iter().find(|it| it.tag == b'K').unwrap();
        assert_eq!(key.body.len(), 4 + secret_len, "3.{minor}");
    }
}

#[tokio::test]
async fn first_packets_that_are_refused() {
    let started = Started::new().await;
    for (packet, code) in [
        (startup::write([("database", "a")]), "28000"),
        (
            startup::write([("user", "a"), ("replication", "database")]),
            "0A000",
        ),
        (
            startup::write([("user", "a"), ("client_encoding", "LATIN1")]),
            "0A000",
        ),
        (
            startup::write([("user", "a"), ("no_such_setting", "1")]),
            "42704",
        ),
        (startup::write([("user", "a"), ("options", "--")]), "42601"),
    ] {
        let mut client = RawClient::open(started.sql());
        client.send(&packet);
        let refused = client.answer().unwrap();
        assert_eq!((refused.tag, refused.report().code), (b'E', code.into()));
        assert_eq!(client.answer(), None);
    }
    let mut client = RawClient::open(started.sql());
    client.send(&startup::write_tls());
    let mut answer = [0];
    std::io::Read::read_exact(&mut client.stream, &mut answer).unwrap();
    assert_eq!(answer, *b"N");
    client.send(&startup::write([("user", "a")]));
    assert_eq!(client.until_ready().last().unwrap().tag, b'Z');
    // A second StartupMessage is no message.
    client.send(&startup::write([("user", "a")]));
    assert_eq!(client.answer().unwrap().report().code, "08P01");
    assert_eq!(client.answer(), None);
}

#[tokio::test]
async fn limits_of_a_session() {
    let started = Started::new().await;
    let mut client = RawClient::connect(started.sql());
    let code = |answers: &[crate::support::raw_client::Answer]| {
        let error = answers.iter().find(|it| it.tag == b'E');
        error.map(|it| it.report().code).unwrap_or_default()
    };
    let long = format!("SELECT '{}'", "x".repeat(pg_server::STATEMENT_LEN_MAX));
    assert_eq!(code(&client.ask(&Messages::new().query(&long))), "54000");
    let longer = vec![Some(vec![b'x'; pg_server::MESSAGE_LEN_MAX])];
    let messages = Messages::new().parse("", "SELECT $1", &[25]);
    let messages = messages.bind(("", ""), 0, &longer, 0).sync();
    assert_eq!(code(&client.ask(&messages)), "54000");
    let columns = vec!["1"; 1665].join(", ");
    assert_eq!(
        code(&client.ask(&Messages::new().query(&format!("SELECT {columns}")))),
        "54011"
    );
    let mut portals = Messages::new().parse("", "SELECT 1", &[]);
    for number in 0..=pg_server::PORTALS_MAX {
        portals = portals.bind((&format!("p{number}"), ""), 0, &[], 0);
    }
    assert_eq!(code(&client.ask(&portals.sync())), "53400");
    let mut held = Messages::new().query("BEGIN");
    client.ask(&held);
    let value = vec![Some(vec![b'x'; 15 << 20])];
    held = Messages::new().parse("", "SELECT $1", &[25]);
    for number in 0..5 {
        held = held.bind((&format!("p{number}"), ""), 0, &value, 0);
    }
    assert_eq!(code(&client.ask(&held.sync())), "53200");
    client.rows("ROLLBACK");
}

#[tokio::test]
async fn random_bytes_do_no_harm() {
    let started = Started::new().await;
    let mut witness = RawClient::connect(started.sql());
    witness.rows("CREATE TABLE t (id bigint PRIMARY KEY)");
    let good = Messages::new()
        .query("SELECT id FROM t")
        .parse("a", "INSERT INTO t VALUES ($1)", &[20])
        .bind(("", "a"), 0, &[Some(b"1".to_vec())], 0)
        .describe(b'P', "")
        .execute("", 1)
        .close(b'S', "a")
        .flush()
        .sync();
    for seed in seeds(SEEDS_OF_RUN, SEEDS) {
        println!("seed {seed}");
        let mut random = Draw(seed);
        let mut client = match random.one_in(3) {
            true => RawClient::open(started.sql()),
            false => RawClient::connect(started.sql()),
        };
        let mut bytes = good.0.to_vec();
        for _ in 0..1 + random.below(6) {
            let at = random.below(bytes.len());
            match random.below(4) {
                0 => bytes.truncate(at.max(1)),
                1 => bytes[at] = random.below(256) as u8,
                2 => bytes.insert(at, random.below(256) as u8),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                bytes.push(0);
            }
        }
        // The server may end the connection before it has all.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        while client.answer().is_some() {}
        let rows = witness.rows("SELECT count(*) FROM t");
        assert_eq!(rows.len(), 1, "seed {seed}");
        witness.rows("DELETE FROM t WHERE id = 1");
    }
}

/// Waits until the clients since `before` take little. Returns what each takes otherwise, in bytes.
async fn settled_bytes(started: &Started, before: u64) -> Result<(), u64> {
    let begun = Instant::now();
    loop {
        let after = started.process.resident_bytes().unwrap();
        let each = after.saturating_sub(before) / IDLE_CLIENTS;
        println!("{each} bytes each");
        if each < IDLE_CLIENT_BYTES_MAX {
            return Ok(());
        }
        if begun.elapsed() >= GIVES_BACK {
            return Err(each);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn idle_clients_take_little_memory() {
    let started = Started::new().await;
    let connect = |count| -> Vec<RawClient> {
        let connected = (0..count).map(|_| {
            let mut client = RawClient::connect(started.sql());
            assert_eq!(client.rows("SELECT 1"), [["1"]]);
            client
        });
        connected.collect()
    };
    let first = connect(FIRST_CLIENTS);
    // The store's other work may take memory meanwhile. Only the clients take it each time.
    let mut idle = Vec::new();
    loop {
        let before = started.process.resident_bytes().unwrap();
        idle.push(connect(IDLE_CLIENTS));
        match settled_bytes(&started, before).await {
            Ok(()) => break,
            Err(each) => assert!(idle.len() < 2, "{each} bytes each"),
        }
    }
    drop((first, idle));
}
