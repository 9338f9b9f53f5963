//! Ranges of random tables, as the store and PostgreSQL answer them.
//!
//! A few seeds run always. For more, or for one again: `REPLEX_RANGE_SEEDS=1000..2000 cargo test
//! -p replex --features proxy --test all ranges_postgres`.

use std::ops::Range;

use client::{Client, ConnectOptions};
use pg_local::Postgres;
use placement::Value;
use sql::{SqlSession, StatementOutcome};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::support::{self, drawn_ranges};

const SEEDS: Range<u64> = 1..6;
/// The seeds of one run, as `from..to`.
const SEEDS_OF_RUN: &str = "REPLEX_RANGE_SEEDS";

/// The result of a statement: rows as text, or how many rows it changed; none if it is refused.
pub type Answer = Option<Vec<Vec<Option<String>>>>;

/// Returns the seeds that the environment names, as `from..to`.
pub fn seeds(name: &str, usual: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(name) else {
        return usual;
    };
    let range = text.split_once("..").and_then(|(from, to)| {
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        Some(from..to)
    });
    range.unwrap_or_else(|| panic!("{name} is {text}: write FROM..TO"))
}

pub async fn ask_store(session: &mut SqlSession<Client>, text: &str) -> Answer {
    let outcome = session.run_text(text).await.ok()?.pop().unwrap();
    let shown = |value: &Value| match value {
        Value::Null => None,
        value => Some(value.to_string()),
    };
    Some(match outcome {
        StatementOutcome::Rows(rows) | StatementOutcome::Returned(rows, _) => {
            let rows = rows.rows.iter();
            rows.map(|row| row.iter().map(shown).collect()).collect()
        }
        // `INSERT 0 3`, `UPDATE 3`
        StatementOutcome::Done(tag) => {
            let count = tag.rsplit(' ').next().unwrap();
            vec![vec![Some(count.to_owned())]]
        }
        StatementOutcome::Description(_) => panic!("{text} describes nothing"),
    })
}

pub async fn ask_postgres(postgres: &tokio_postgres::Client, text: &str) -> Answer {
    let messages = postgres.simple_query(text).await.ok()?;
    let mut rows = Vec::new();
    let mut returns_rows = false;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => returns_rows = true,
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|it| row.get(it).map(str::to_owned));
                rows.push(values.collect());
            }
            SimpleQueryMessage::CommandComplete(count) if !returns_rows => {
                rows.push(vec![Some(count.to_string())]);
            }
            _ => {}
        }
    }
    Some(rows)
}

pub async fn connect(server: &Postgres) -> tokio_postgres::Client {
    let address = format!(
        "host={} port={} user={} dbname=postgres",
        server.socket().ip(),
        server.socket().port(),
        pg_local::SUPERUSER
    );
    let (client, connection) = tokio_postgres::connect(&address, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

fn forget_sign_of_zero(answer: &mut Answer) {
    let cells = answer.iter_mut().flatten().flatten().flatten();
    for zero in cells.filter(|it| *it == "-0") {
        zero.remove(0);
    }
}

/// Asks both, and returns how many statements have an answer with something in it.
async fn compare(
    session: &mut SqlSession<Client>,
    postgres: &tokio_postgres::Client,
    seed: u64,
) -> usize {
    let case = drawn_ranges::case(seed);
    for text in ["DROP TABLE IF EXISTS t"]
        .into_iter()
        .map(str::to_owned)
        .chain(case.store.clone())
    {
        let answer = ask_store(session, &text).await;
        assert!(answer.is_some(), "seed {seed}: the store refuses {text}");
    }
    for text in ["DROP TABLE IF EXISTS t"]
        .into_iter()
        .map(str::to_owned)
        .chain(case.postgres)
    {
        let answer = ask_postgres(postgres, &text).await;
        assert!(answer.is_some(), "seed {seed}: PostgreSQL refuses {text}");
    }
    let mut telling = 0;
    for statement in case.statements {
        let mut ours = ask_store(session, &statement.text).await;
        let mut theirs = ask_postgres(postgres, &statement.text).await;
        if statement.ignores_sign_of_zero {
            forget_sign_of_zero(&mut ours);
            forget_sign_of_zero(&mut theirs);
        }
        if !statement.is_ordered {
            ours.iter_mut().for_each(|rows| rows.sort());
            theirs.iter_mut().for_each(|rows| rows.sort());
        }
        assert_eq!(
            ours, theirs,
            "seed {seed}: the store and PostgreSQL answer {}\n{}",
            statement.text, case.store[0]
        );
        let zero = [vec![Some("0".to_owned())]];
        telling += usize::from(theirs.is_some_and(|rows| !rows.is_empty() && rows != zero));
    }
    telling
}

#[tokio::test]
async fn ranges_have_the_rows_that_postgresql_finds() {
    if !support::postgres_is_there() {
        return;
    }
    let server = Postgres::start(&[]).unwrap();
    let postgres = connect(&server).await;
    let cluster = support::cluster(3).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let mut session = SqlSession::new(Client::connect(options).await.unwrap());
    let (mut telling, seeds) = (0, seeds(SEEDS_OF_RUN, SEEDS));
    for seed in seeds.clone() {
        println!("seed {seed}");
        telling += compare(&mut session, &postgres, seed).await;
    }
    let all = (seeds.end - seeds.start) as usize * drawn_ranges::STATEMENTS;
    assert!(
        all < 100 || telling * 4 > all,
        "{telling} of {all} find something"
    );
}
