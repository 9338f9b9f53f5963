//! Random statements and transactions of one session, as the store and PostgreSQL run them: with
//! savepoints, errors and rollbacks in between, reads of their own changes, and the rows that they
//! return.
//!
//! A few seeds run always. For one again, or for more: `REPLEX_SQL_TRANSACTION_SEEDS=100..200 cargo
//! test -p replex --features proxy --test all transactions_postgres`.

use std::ops::Range;

use super::ranges_postgres::seeds;
use crate::support::both::Both;
use crate::support::drawn_ranges::Draw;

const SEEDS: Range<u64> = 0..6;
const SEEDS_OF_RUN: &str = "REPLEX_SQL_TRANSACTION_SEEDS";
const TRANSACTIONS: usize = 40;

/// A random statement inside of a transaction. The owner of an account names its id, so that only
/// the primary key is ever a duplicate: another unique key is found at the commit.
fn statement(random: &mut Draw) -> String {
    let id = random.below(8);
    let other = random.below(8);
    let amount = random.below(25) as i64 - 5;
    let letter = ["o", "p"][random.below(2)];
    match random.below(24) {
        0 => format!("INSERT INTO accounts VALUES ({id}, '{letter}{id}', {amount})"),
        1 => format!("INSERT INTO accounts (id, balance) VALUES ({id}, {amount})"),
        2 => format!("INSERT INTO accounts VALUES ({id}, NULL, 1) ON CONFLICT (id) DO NOTHING"),
        3 => format!(
            "INSERT INTO accounts VALUES ({id}, '{letter}{id}', {amount}) ON CONFLICT (id) DO UPDATE \
             SET balance = accounts.balance + excluded.balance"
        ),
        4 => format!(
            "INSERT INTO accounts VALUES ({id}, NULL, 0), ({}, NULL, {amount})",
            (id + 1) % 8
        ),
        5 | 6 => format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {id}"),
        7 => format!(
            "UPDATE accounts SET balance = balance - 1 WHERE id = {id} AND balance > {amount}"
        ),
        8 => format!("UPDATE accounts SET balance = -balance WHERE id IN ({id}, {other})"),
        9 => format!("UPDATE accounts SET owner = '{letter}{id}' WHERE id = {id}"),
        10 => format!("UPDATE accounts SET balance = 7 WHERE owner = '{letter}{id}'"),
        11 => format!("DELETE FROM accounts WHERE id = {id}"),
        12 => format!("DELETE FROM accounts WHERE owner = '{letter}{id}' AND balance > 3"),
        13 => format!("SELECT * FROM accounts WHERE owner = '{letter}{id}'"),
        14 => format!("SELECT count(*), max(balance) FROM accounts WHERE id = {id}"),
        15 => format!(
            "SELECT id, balance * 2 FROM accounts WHERE id = {id} AND balance < 9 FOR UPDATE"
        ),
        16 => format!("SELECT * FROM accounts WHERE balance > {amount} ORDER BY id"),
        17 => format!("SELECT count(*), min(balance) FROM accounts WHERE id > {id}"),
        18 => format!("UPDATE accounts SET balance = balance + 1 WHERE balance < {amount}"),
        19 => format!("DELETE FROM accounts WHERE id >= {id} AND balance > {amount}"),
        20 => "SELECT id, balance FROM accounts ORDER BY id DESC LIMIT 3".to_owned(),
        21 => "SELECT id FROM accounts WHERE owner IS NULL ORDER BY id".to_owned(),
        _ => format!("SELECT * FROM accounts WHERE id IN ({id}, {other}, 3) ORDER BY id DESC"),
    }
}

/// A random statement, which returns the rows that it changes in one of three cases.
fn maybe_returning(random: &mut Draw) -> String {
    let text = statement(random);
    // PostgreSQL returns several rows in the order in which it finds them.
    let is_of_one = text.contains("WHERE id = ") || text.contains("WHERE owner = ");
    let changes = is_of_one && !text.starts_with("SELECT") || text.contains("VALUES (");
    let returning = [
        " RETURNING *",
        " RETURNING id, balance + 1 AS more",
        " RETURNING owner IS NULL, 100 / (balance - 3)",
    ];
    match changes && random.one_in(3) {
        true => text + returning[random.below(3)],
        false => text,
    }
}

/// A random way to go on after a statement has failed.
fn recovery(random: &mut Draw, savepoints: &[&'static str]) -> String {
    match savepoints.last() {
        Some(name) if !random.one_in(3) => format!("ROLLBACK TO SAVEPOINT {name}"),
        _ => "ROLLBACK".into(),
    }
}

/// Runs one random transaction, and returns how many statements have worked.
async fn transaction(both: &mut Both, random: &mut Draw) -> usize {
    let mut worked = 0;
    if random.one_in(3) {
        for _ in 0..1 + random.below(5) {
            let text = maybe_returning(random);
            worked += usize::from(both.run(&text).await);
        }
        return worked;
    }
    let mut savepoints: Vec<&'static str> = Vec::new();
    both.run("BEGIN").await;
    for _ in 0..1 + random.below(11) {
        let text = match random.below(12) {
            0 => {
                let name = ["a", "b"][random.below(2)];
                savepoints.push(name);
                format!("SAVEPOINT {name}")
            }
            1 if !savepoints.is_empty() => {
                let name = savepoints[savepoints.len() - 1];
                format!("ROLLBACK TO {name}")
            }
            2 if !savepoints.is_empty() => format!("RELEASE {}", savepoints.pop().unwrap()),
            _ => maybe_returning(random),
        };
        if both.run(&text).await {
            worked += 1;
            continue;
        }
        let recovery = recovery(random, &savepoints);
        both.run(&recovery).await;
        if recovery == "ROLLBACK" {
            return worked;
        }
    }
    let end = ["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"][random.below(4)];
    both.run(end).await;
    worked
}

#[tokio::test]
async fn transactions_end_as_those_of_postgresql() {
    let Some(mut both) = Both::start().await else {
        return;
    };
    let (mut worked, seeds) = (0, seeds(SEEDS_OF_RUN, SEEDS));
    for seed in seeds.clone() {
        let mut random = Draw(seed);
        both.begin(seed);
        both.run(
            "CREATE TABLE accounts (id bigint PRIMARY KEY, owner text UNIQUE, balance bigint NOT NULL)",
        )
        .await;
        // With it, ranges of balances are read by a thin index.
        if seed % 2 == 1 {
            both.run("CREATE INDEX by_balance ON accounts (balance)")
                .await;
        }
        for _ in 0..TRANSACTIONS {
            worked += transaction(&mut both, &mut random).await;
            both.run("SELECT * FROM accounts ORDER BY id").await;
        }
        both.run("DROP TABLE accounts").await;
    }
    let all = (seeds.end - seeds.start) as usize * TRANSACTIONS;
    assert!(
        worked > 2 * all,
        "{worked} statements of {all} transactions have worked"
    );
}
