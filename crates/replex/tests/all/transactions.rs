//! Transfers between accounts while servers and the coordinator are killed. Each transfer changes
//! two accounts and inserts a row into another table, together or not at all.
//!
//! `REPLEX_TRANSFERS_ROUNDS` is the number of rounds, and `REPLEX_TRANSFERS_SEED` draws the
//! transfers and the servers that are killed.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{
    AbortReason, ChangeOutcome, Client, ConnectOptions, Error, IfExists, IndexSelector, Retry,
    Snapshot, Table, TransactionResult,
};
use placement::{Durability, Value};
use tokio::task::JoinSet;

use crate::support;
use crate::support::noise::Noise;
use crate::support::rows::{self, is_quiet, number};

const SERVERS: usize = 4;
const ACCOUNTS: i64 = 24;
const WRITERS: i64 = 8;
/// The balance of each account at the start.
const BALANCE: i64 = 1_000;
const SEED_DEFAULT: u64 = 0x5eed_0061;
/// At least so many transfers of each round.
const TRANSFERS_PER_ROUND: usize = 40;

/// The results of one writer.
#[derive(Default)]
struct Results {
    committed: Vec<i64>,
    aborted: Vec<i64>,
    unknown: Vec<i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transfers_are_whole_while_servers_are_killed() {
    let rounds = support::setting("REPLEX_TRANSFERS_ROUNDS", 2);
    let seed = support::setting("REPLEX_TRANSFERS_SEED", SEED_DEFAULT);
    println!("REPLEX_TRANSFERS_ROUNDS={rounds} REPLEX_TRANSFERS_SEED={seed}");
    let mut noise = Noise::new(seed);
    let mut cluster = support::cluster(SERVERS).await;
    let client = Client::connect(ConnectOptions::new([cluster.coordinator_address()]));
    let client = client.await.unwrap();
    let accounts = support::people(1, Durability::Sync);
    let mut moves = support::people(1, Durability::Replicated);
    moves.name = "moves".to_owned();
    let accounts = client.create_table(accounts, IfExists::Fail).await.unwrap();
    let moves = client.create_table(moves, IfExists::Fail).await.unwrap();
    for id in 0..ACCOUNTS {
        let mut row = rows::person(id);
        row[2] = Value::Int64(BALANCE);
        let _ = accounts.insert(&row).await.unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (accounts, moves, over) = (accounts.clone(), moves.clone(), Arc::clone(&over));
        let noise = Noise::new(noise.next());
        writers.spawn(async move { transfer_all((&accounts, &moves), writer, noise, &over).await });
    }
    let mut checked = 0;
    for round in 0..rounds {
        wait_for_moves(&client, &moves, (round as usize + 1) * TRANSFERS_PER_ROUND).await;
        checked += usize::from(expect_whole(&client, &accounts, &moves).await);
        let killed = noise.below(SERVERS as u64) as usize;
        cluster.kill(killed).await.unwrap();
        if round % 2 == 1 {
            cluster.kill_coordinator(0).await.unwrap();
            cluster.start_coordinator(0).await.unwrap();
        }
        cluster.restart(killed).await.unwrap();
        cluster.wait_until_serving().await.unwrap();
    }
    over.store(true, Ordering::Relaxed);
    let mut results = Results::default();
    while let Some(writer) = writers.join_next().await {
        let writer = writer.unwrap();
        results.committed.extend(writer.committed);
        results.aborted.extend(writer.aborted);
        results.unknown.extend(writer.unknown);
    }
    cluster.wait_until("all is filled", is_quiet).await.unwrap();
    client.refresh().await.unwrap();
    assert!(expect_whole(&client, &accounts, &moves).await);
    expect_results(&moves, &results).await;
    for table in ["people", "moves"] {
        let address = cluster.coordinator_address();
        let check = support::run_well(&["admin", "-C", address, "check", table]);
        assert!(check.contains("All copies hold the same rows"), "{check}");
    }
    let count = |ids: &[i64]| ids.len();
    println!(
        "{} committed, {} aborted, {} unknown, {checked} snapshots",
        count(&results.committed),
        count(&results.aborted),
        count(&results.unknown)
    );
    cluster.check_processes().unwrap();
}

/// Transfers until it is over. Every move has a number of its own.
async fn transfer_all(
    (accounts, moves): (&Table, &Table),
    writer: i64,
    mut noise: Noise,
    over: &AtomicBool,
) -> Results {
    let mut results = Results::default();
    let mut number = writer;
    while !over.load(Ordering::Relaxed) {
        number += WRITERS;
        let from = noise.below(ACCOUNTS as u64) as i64;
        let to = (from + 1 + noise.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let amount = 1 + noise.below(5) as i64;
        let reads = noise.below(2) == 0;
        let pair = (from, to, amount);
        match transfer((accounts, moves), number, pair, reads).await {
            Ok(TransactionResult::Committed { .. }) => results.committed.push(number),
            Ok(TransactionResult::Aborted { reason, .. }) => {
                let expected =
                    matches!(reason, AbortReason::Conflict | AbortReason::Changed { .. });
                assert!(expected, "{reason:?}");
                results.aborted.push(number);
            }
            Err(error) if error.retry() == Retry::AfterReading => results.unknown.push(number),
            Err(error) => {
                assert_eq!(error.retry(), Retry::Later, "{error}");
                results.aborted.push(number);
            }
        }
    }
    results
}

/// Moves an amount, and notes the move: a row of `moves` has both accounts as its city, and the
/// amount as its score.
async fn transfer(
    (accounts, moves): (&Table, &Table),
    number: i64,
    (from, to, amount): (i64, i64, i64),
    reads: bool,
) -> Result<TransactionResult, Error> {
    let mut transfer = accounts.client().transaction();
    if reads {
        let row = transfer.get(accounts, &[Value::Int64(from)]).await?;
        let balance = rows::number(&row.expect("no account is ever removed").values[2]);
        let balance = Value::Int64(balance - amount);
        transfer.set(accounts, &[Value::Int64(from)], "score", balance)?;
    } else {
        transfer.add(accounts, &[Value::Int64(from)], "score", -amount)?;
    }
    transfer.add(accounts, &[Value::Int64(to)], "score", amount)?;
    let pair = Value::Text(format!("{from} {to}"));
    let row = [
        Value::Int64(number),
        pair,
        Value::Int64(amount),
        Value::Null,
    ];
    transfer.insert(moves, &row)?;
    transfer.commit().await
}

/// Waits until there are so many moves.
async fn wait_for_moves(client: &Client, moves: &Table, count: usize) {
    loop {
        let range = moves.range("by_score", Bound::Unbounded, Bound::Unbounded);
        match range.unwrap().await {
            Ok(rows) if rows.len() >= count => return,
            Ok(_) => {}
            Err(error) => assert_ne!(error.retry(), Retry::Never, "{error}"),
        }
        client.refresh().await.unwrap();
    }
}

/// Compares the balances of one moment with the moves of the same moment, by every index. Returns
/// false if there was no snapshot, because servers were down.
async fn expect_whole(client: &Client, accounts: &Table, moves: &Table) -> bool {
    let snapshot = match client.snapshot(&[accounts, moves]).await {
        Ok(snapshot) => snapshot,
        Err(error) => {
            assert_ne!(error.retry(), Retry::Never, "{error}");
            return false;
        }
    };
    for index in ["by_city", "by_score"] {
        let Some(noted) = rows_at(moves, index, &snapshot).await else {
            return false;
        };
        let mut expected: BTreeMap<i64, i64> = (0..ACCOUNTS).map(|id| (id, BALANCE)).collect();
        for (_, (pair, amount)) in noted {
            let (from, to) = pair.split_once(' ').unwrap();
            *expected.get_mut(&from.parse().unwrap()).unwrap() -= amount;
            *expected.get_mut(&to.parse().unwrap()).unwrap() += amount;
        }
        let Some(found) = rows_at(accounts, index, &snapshot).await else {
            return false;
        };
        let found = found.into_iter().map(|(id, (_, balance))| (id, balance));
        assert_eq!(found.collect::<BTreeMap<i64, i64>>(), expected, "{index}");
    }
    true
}

/// The text and the number of each row of a snapshot, by id; none if a server was lost meanwhile.
async fn rows_at(
    table: &Table,
    index: &str,
    snapshot: &Snapshot,
) -> Option<BTreeMap<i64, (String, i64)>> {
    let range = table.range(index, Bound::Unbounded, Bound::Unbounded);
    let rows = match range.unwrap().at(snapshot).await {
        Ok(rows) => rows,
        Err(error) => {
            assert_ne!(error.retry(), Retry::Never, "{error}");
            return None;
        }
    };
    let row = |row: client::Row| {
        let Value::Text(text) = &row.values[1] else {
            panic!("{row:?}");
        };
        (
            number(&row.values[0]),
            (text.clone(), number(&row.values[2])),
        )
    };
    Some(rows.into_iter().map(row).collect())
}

/// Compares the moves with what the writers were answered.
async fn expect_results(moves: &Table, results: &Results) {
    let range = moves.range("by_city", Bound::Unbounded, Bound::Unbounded);
    let rows = range.unwrap().await.unwrap();
    let mut found: Vec<i64> = rows.iter().map(|row| number(&row.values[0])).collect();
    found.sort_unstable();
    for committed in &results.committed {
        assert!(
            found.binary_search(committed).is_ok(),
            "{committed} is lost"
        );
    }
    for aborted in &results.aborted {
        assert!(found.binary_search(aborted).is_err(), "{aborted} happened");
    }
    let known = results.committed.len() + results.unknown.len();
    assert!(found.len() <= known, "{} of {known} moves", found.len());
}

#[tokio::test]
async fn commit_has_every_change_or_none() {
    let cluster = support::cluster(2).await;
    let table = rows::create(&cluster).await;
    rows::insert(&table, 0..2).await;
    let client = table.client();
    let score = async |id: i64| {
        let found = table.lookup(IndexSelector::PrimaryKey, &[Value::Int64(id)]);
        let found = found.unwrap().await.unwrap();
        found.first().map(|row| number(&row.values[2]))
    };
    let pk = [0, 1, 2].map(|id| [Value::Int64(id)]);

    // Changes of one row follow each other, and a savepoint cuts off those after it.
    let mut kept = client.transaction();
    kept.add(&table, &pk[0], "score", 5).unwrap();
    kept.set(&table, &pk[0], "city", Value::Text("Oslo".into()))
        .unwrap();
    let point = kept.savepoint();
    kept.insert(&table, &rows::person(1)).unwrap();
    kept.roll_back_to(point);
    kept.insert(&table, &rows::person(2)).unwrap();
    kept.add(&table, &pk[2], "score", 1).unwrap();
    let committed = kept.commit().await.unwrap();
    let TransactionResult::Committed { outcomes, .. } = &committed else {
        panic!("{}", client.explain(&committed));
    };
    assert_eq!(outcomes, &[ChangeOutcome::Applied; 4]);
    assert_eq!([score(0).await, score(2).await], [Some(5), Some(3)]);
    let found = table.lookup("by_city", &[Value::Text("Oslo".into())]);
    assert_eq!(found.unwrap().await.unwrap().len(), 1);

    // A duplicate, a missing row, and a row that has changed since it was read.
    let mut duplicate = client.transaction();
    duplicate.add(&table, &pk[0], "score", 1).unwrap();
    duplicate.insert(&table, &rows::person(1)).unwrap();
    let text = client.explain(&duplicate.commit().await.unwrap());
    assert!(text.contains("exists already"), "{text}");
    let mut missing = client.transaction();
    missing.delete(&table, &pk[0], None).unwrap();
    missing.delete(&table, &[Value::Int64(77)], None).unwrap();
    let text = client.explain(&missing.commit().await.unwrap());
    assert!(text.contains("change number 1"), "{text}");
    let mut late = client.transaction();
    late.get(&table, &pk[1]).await.unwrap().unwrap();
    late.add(&table, &pk[0], "score", 1).unwrap();
    let mut between = client.transaction();
    between.add(&table, &pk[1], "score", 1).unwrap();
    let _ = between.commit().await.unwrap();
    let text = client.explain(&late.commit().await.unwrap());
    assert!(text.contains("has changed since"), "{text}");
    assert_eq!(score(0).await, Some(5));
}

#[tokio::test]
async fn transaction_above_a_limit_is_refused_and_harms_nothing() {
    let mut cluster = support::cluster(2).await;
    let table = rows::create(&cluster).await;
    let client = table.client();
    let mut many = client.transaction();
    for id in 0..=10_000 {
        many.add(&table, &[Value::Int64(id)], "score", 1).unwrap();
    }
    let text = many.commit().await.unwrap_err().to_string();
    assert!(text.contains("10001 changes"), "{text}");

    let note = Value::Text("n".repeat(900_000));
    let large = |id: i64| {
        let mut row = rows::person(id);
        row[3] = note.clone();
        row
    };
    let mut written = client.transaction();
    for id in 0..4 {
        written.insert(&table, &large(id)).unwrap();
    }
    let text = written.commit().await.unwrap_err().to_string();
    assert!(text.contains("bytes of changes"), "{text}");

    // Small changes of large rows.
    for id in 0..6 {
        let _ = table.insert(&large(id)).await.unwrap();
    }
    let mut updated = client.transaction();
    for id in 0..6 {
        updated
            .add(&table, &[Value::Int64(id)], "score", 1)
            .unwrap();
    }
    let text = client.explain(&updated.commit().await.unwrap());
    assert!(text.contains("split it"), "{text}");
    let mut fewer = client.transaction();
    for id in 0..4 {
        fewer.add(&table, &[Value::Int64(id)], "score", 1).unwrap();
    }
    let result = fewer.commit().await.unwrap();
    assert!(result.took_effect(), "{}", client.explain(&result));
    cluster.check_processes().unwrap();
}
