//! Transactions of several SQL sessions at once, whose rules only a serial order keeps: a group may
//! not be overdrawn although each transaction takes from one of its accounts only (write skew), and
//! has a limited number of accounts (phantoms). A server is killed meanwhile.

use client::Client;
use sql::{SqlError, SqlSession};

use crate::support::noise::Noise;
use crate::support::sessions::{EndedSessions, beside_a_kill, numbers};

const SESSIONS: u64 = 4;
const TRANSACTIONS: usize = 40;
const GROUPS: u64 = 2;
const ACCOUNTS_MAX: usize = 4;
const SEED_DEFAULT: u64 = 0x5eed_0077;

const SETUP: &str = "
    CREATE TABLE accounts (id bigint PRIMARY KEY, grp bigint NOT NULL, balance bigint NOT NULL,
        INDEX by_group (grp)) WITH (partitions = 6, failures_tolerated = 1);
    CREATE TABLE taken (id bigint PRIMARY KEY, amount bigint NOT NULL)
        WITH (partitions = 6, failures_tolerated = 1);
    INSERT INTO accounts VALUES (1, 0, 500), (2, 0, 500), (3, 1, 500), (4, 1, 500);";

/// Takes from a group's accounts as long as the group has enough, or adds an account as long as it
/// has few. Returns whether the transaction has certainly committed.
async fn transact(
    session: &mut SqlSession<Client>,
    noise: &mut Noise,
    id: i64,
) -> Result<bool, SqlError> {
    let group = noise.below(GROUPS);
    numbers(session, "BEGIN").await?;
    let read = format!("SELECT id, balance FROM accounts WHERE grp = {group} ORDER BY id");
    let accounts = numbers(session, &read).await?;
    if noise.below(3) == 0 && accounts.len() < ACCOUNTS_MAX {
        let insert = format!("INSERT INTO accounts VALUES ({id}, {group}, 100)");
        numbers(session, &insert).await?;
        let taken = format!("INSERT INTO taken VALUES ({id}, -100)");
        numbers(session, &taken).await?;
    } else {
        let whole: i64 = accounts.iter().map(|account| account[1]).sum();
        let amount = noise.below(150) as i64 + 1;
        if whole < amount {
            numbers(session, "ROLLBACK").await?;
            return Ok(false);
        }
        let account = accounts[noise.below(accounts.len() as u64) as usize][0];
        let update =
            format!("UPDATE accounts SET balance = balance - {amount} WHERE id = {account}");
        numbers(session, &update).await?;
        let taken = format!("INSERT INTO taken VALUES ({id}, {amount})");
        numbers(session, &taken).await?;
    }
    numbers(session, "COMMIT").await?;
    Ok(true)
}

/// Runs transactions. Returns the ids of those that have certainly committed, and how many must
/// have begun again.
async fn session(client: Client, number: u64, mut noise: Noise) -> (Vec<i64>, usize) {
    let mut session = SqlSession::new(client);
    let (mut committed, mut again) = (Vec::new(), 0);
    for turn in 0..TRANSACTIONS {
        let id = (1000 * (number + 1)) as i64 + turn as i64;
        match transact(&mut session, &mut noise, id).await {
            Ok(true) => committed.push(id),
            Ok(false) => {}
            Err(error) => {
                let is_expected = matches!(
                    error,
                    SqlError::Serialization { .. } | SqlError::Store { .. }
                );
                assert!(is_expected, "{error}");
                again += usize::from(matches!(error, SqlError::Serialization { .. }));
                // After a commit that has failed there is nothing to roll back.
                numbers(&mut session, "ROLLBACK").await.unwrap();
            }
        }
    }
    (committed, again)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_transactions_keep_rules_that_need_a_serial_order() {
    let seed = ("REPLEX_SQL_SESSIONS_SEED", SEED_DEFAULT);
    let EndedSessions {
        mut cluster,
        mut observer,
        results,
    } = beside_a_kill(seed, SETUP, SESSIONS, session).await;
    let committed: Vec<i64> = results.iter().flat_map(|(ids, _)| ids).copied().collect();
    let again: usize = results.iter().map(|(_, again)| again).sum();
    let read = "SELECT grp, balance FROM accounts WHERE id >= 0 ORDER BY id";
    let accounts = numbers(&mut observer, read).await.unwrap();
    for group in 0..GROUPS as i64 {
        let own = accounts.iter().filter(|account| account[0] == group);
        let balances: Vec<i64> = own.map(|account| account[1]).collect();
        assert!(
            balances.iter().sum::<i64>() >= 0,
            "group {group} is overdrawn: {balances:?}"
        );
        assert!(
            balances.len() <= ACCOUNTS_MAX,
            "group {group} has {balances:?}"
        );
    }
    let taken = numbers(
        &mut observer,
        "SELECT id, amount FROM taken WHERE id >= 0 ORDER BY id",
    )
    .await;
    let taken = taken.unwrap();
    for id in &committed {
        assert!(
            taken.iter().any(|row| row[0] == *id),
            "{id} has committed and is lost"
        );
    }
    // Each transaction happened whole, also those whose outcome no session knows.
    let left: i64 = accounts.iter().map(|account| account[1]).sum();
    let gone: i64 = taken.iter().map(|row| row[1]).sum();
    assert_eq!(left + gone, 2_000, "{accounts:?} {taken:?}");
    assert!(committed.len() >= 10, "{} committed", committed.len());
    println!("{} committed, {again} began again", committed.len());
    cluster.check_processes().unwrap();
}
