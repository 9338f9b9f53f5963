//! Foreign keys against real servers: sessions insert rows that refer to rows which other sessions
//! delete, a server is killed meanwhile, and no row ever refers to a row that does not exist.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Client, ConnectOptions, RequestResult, TransactionResult};
use placement::Value;
use protocol::transaction::{AbortReason, ReferenceFault};
use sql::{SqlError, SqlSession};

use crate::support;
use crate::support::noise::Noise;
use crate::support::sessions::{EndedSessions, beside_a_kill, numbers};

const SESSIONS: u64 = 5;
const STATEMENTS: usize = 60;
const PARENTS: u64 = 6;
const SEED_DEFAULT: u64 = 0x5eed_0057;

const SETUP: &str = "
    CREATE TABLE p (id bigint PRIMARY KEY, n bigint NOT NULL)
        WITH (partitions = 6, failures_tolerated = 1);
    CREATE TABLE c (id bigint PRIMARY KEY, p bigint REFERENCES p, INDEX by_p (p))
        WITH (partitions = 6, failures_tolerated = 1);";

/// A random change. Half of the deletions and insertions are parts of transactions.
fn change(noise: &mut Noise, id: u64) -> String {
    let parent = noise.below(PARENTS);
    let change = match noise.below(8) {
        0..3 => format!("INSERT INTO c VALUES ({id}, {parent})"),
        3 => format!(
            "UPDATE c SET p = {parent} WHERE id = {}",
            noise.below(id.max(1))
        ),
        4 => format!("DELETE FROM c WHERE p = {parent}"),
        5 => format!("DELETE FROM p WHERE id = {parent}"),
        6 => format!("UPDATE p SET n = n + 1 WHERE id = {parent}"),
        _ => format!("INSERT INTO p VALUES ({parent}, 0) ON CONFLICT (id) DO NOTHING"),
    };
    match noise.below(2) {
        0 => change,
        _ => format!("BEGIN; UPDATE p SET n = n + 1 WHERE id = {parent}; {change}; COMMIT"),
    }
}

/// Runs random changes. Returns how many have been done, and how many foreign keys have refused.
async fn session(client: Client, number: u64, mut noise: Noise) -> (usize, usize) {
    let mut session = SqlSession::new(client);
    let (mut done, mut refused) = (0, 0);
    for turn in 0..STATEMENTS {
        let id = 1000 * (number + 1) + turn as u64;
        match numbers(&mut session, &change(&mut noise, id)).await {
            Ok(_) => done += 1,
            Err(SqlError::ForeignKey { .. }) => refused += 1,
            Err(SqlError::Serialization { .. } | SqlError::Conflict { .. }) => {}
            Err(SqlError::Store { .. } | SqlError::Transaction { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        if session.transaction().is_some() {
            numbers(&mut session, "ROLLBACK").await.unwrap();
        }
    }
    (done, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_refers_to_a_row_that_others_delete() {
    let seed = ("REPLEX_FOREIGN_KEYS_SEED", SEED_DEFAULT);
    let EndedSessions {
        mut cluster,
        mut observer,
        results,
    } = beside_a_kill(seed, SETUP, SESSIONS, session).await;
    let done: usize = results.iter().map(|(done, _)| done).sum();
    let refused: usize = results.iter().map(|(_, refused)| refused).sum();
    let parents = numbers(&mut observer, "SELECT id FROM p ORDER BY id").await;
    let parents: BTreeSet<i64> = parents.unwrap().iter().map(|row| row[0]).collect();
    let read = "SELECT id, p FROM c WHERE p IS NOT NULL ORDER BY id";
    let children = numbers(&mut observer, read).await.unwrap();
    for child in &children {
        assert!(parents.contains(&child[1]), "{child:?} refers to no row");
    }
    println!(
        "{done} done, {refused} refused, {} children",
        children.len()
    );
    assert!(done >= 50, "{done} were done");
    assert!(refused >= 5, "{refused} were refused");
    cluster.check_processes().unwrap();
}

/// The native client states no checks, also one that had the tables before the foreign key.
#[tokio::test]
async fn native_clients_are_bound_by_foreign_keys() {
    let cluster = support::cluster(3).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let old = Client::connect(options.clone()).await.unwrap();
    let mut session = SqlSession::new(Client::connect(options).await.unwrap());
    let (parent, child) = SETUP.split_once(';').unwrap();
    session.run_text(parent).await.unwrap();
    old.refresh().await.unwrap();
    let p = old.table("p").await.unwrap();
    let number = Value::Int64;
    let applied = |result: &RequestResult| matches!(result, RequestResult::Applied { .. });
    assert!(applied(&p.insert(&[number(1), number(0)]).await.unwrap()));
    // This client does not know of the child yet.
    session.run_text(child).await.unwrap();
    session
        .run_text("INSERT INTO c VALUES (1, 1)")
        .await
        .unwrap();
    let fault = |result: &TransactionResult| match result {
        TransactionResult::Aborted {
            reason: AbortReason::ReferenceViolated(violation),
            ..
        } => violation.fault,
        other => panic!("{other:?}"),
    };
    let refused = p.delete(&[number(1)], None).await.unwrap();
    let RequestResult::Transaction(result) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault(result), ReferenceFault::HasChildren);
    assert_eq!(
        p.explain(&refused),
        "update or delete on table \"p\" violates foreign key constraint \"c_p_fkey\" on table \
         \"c\": Key (id)=(1) is still referenced from table \"c\"."
    );
    let c = old.table("c").await.unwrap();
    let refused = c.insert(&[number(2), number(7)]).await.unwrap();
    let RequestResult::Transaction(result) = &refused else {
        panic!("{refused:?}");
    };
    assert_eq!(fault(result), ReferenceFault::NoParent);
    assert!(applied(&c.insert(&[number(2), Value::Null]).await.unwrap()));
    let mut both = old.transaction();
    both.insert(&p, &[number(7), number(0)]).unwrap();
    both.insert(&c, &[number(3), number(7)]).unwrap();
    let committed = both.commit().await.unwrap();
    assert!(matches!(committed, TransactionResult::Committed { .. }));
    let mut moved = old.transaction();
    moved.set(&c, &[number(1)], "p", number(7)).unwrap();
    moved.delete(&p, &[number(1)], None).unwrap();
    let committed = moved.commit().await.unwrap();
    assert!(
        matches!(committed, TransactionResult::Committed { .. }),
        "{committed:?}"
    );
    let mut alone = old.transaction();
    alone.delete(&p, &[number(7)], None).unwrap();
    assert_eq!(
        fault(&alone.commit().await.unwrap()),
        ReferenceFault::HasChildren
    );
}

const UNBOUND: &str = "
    CREATE TABLE p (id bigint PRIMARY KEY, n bigint NOT NULL)
        WITH (partitions = 6, failures_tolerated = 1);
    CREATE TABLE c (id bigint PRIMARY KEY, p bigint) WITH (partitions = 6, failures_tolerated = 1);";
const ADD: &str = "ALTER TABLE c ADD CONSTRAINT bound FOREIGN KEY (p) REFERENCES p";

/// Inserts rows that refer to rows which are there, and deletes rows with those that refer to them,
/// until the end. Without a foreign key both at once can leave a row that refers to nothing.
async fn change_unbound(client: Client, number: u64, mut noise: Noise, over: Arc<AtomicBool>) {
    let mut session = SqlSession::new(client);
    let mut id = 1_000_000 * number;
    while !over.load(Ordering::Relaxed) {
        id += 1;
        let parent = noise.below(PARENTS);
        let change = match noise.below(4) {
            0 => format!("DELETE FROM c WHERE p = {parent}; DELETE FROM p WHERE id = {parent}"),
            1 => format!("INSERT INTO p VALUES ({parent}, 0) ON CONFLICT (id) DO NOTHING"),
            _ => format!("INSERT INTO c SELECT {id}, id FROM p WHERE id = {parent}"),
        };
        match numbers(&mut session, &change).await {
            Ok(_)
            | Err(
                SqlError::ForeignKey { .. }
                | SqlError::Serialization { .. }
                | SqlError::Conflict { .. }
                | SqlError::Store { .. }
                | SqlError::Transaction { .. },
            ) => {}
            Err(error) => panic!("{change}: {error}"),
        }
    }
}

/// Rows of `c` that refer to nothing.
async fn orphans(observer: &mut SqlSession<Client>) -> Vec<i64> {
    let children = numbers(observer, "SELECT id, p FROM c WHERE p IS NOT NULL").await;
    let mut found = Vec::new();
    for child in children.unwrap() {
        let (id, parent) = (child[0], child[1]);
        let read = format!("SELECT id FROM p WHERE id = {parent}");
        if !numbers(observer, &read).await.unwrap().is_empty() {
            continue;
        }
        // Both may have gone since. A row that was there all the time referred to nothing.
        let read = format!("SELECT id FROM c WHERE id = {id}");
        if !numbers(observer, &read).await.unwrap().is_empty() {
            found.push(id);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_key_comes_while_rows_change() {
    let cluster = support::cluster(3).await;
    let options = ConnectOptions::new([cluster.coordinator_address()]);
    let mut observer = SqlSession::new(Client::connect(options.clone()).await.unwrap());
    observer.run_text(UNBOUND).await.unwrap();
    observer.run_text("SET scan = on").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = Vec::new();
    for number in 1..=3 {
        let client = Client::connect(options.clone()).await.unwrap();
        let noise = Noise::new(SEED_DEFAULT + number);
        let over = Arc::clone(&over);
        workers.push(tokio::spawn(change_unbound(client, number, noise, over)));
    }
    let (mut added, mut refused) = (0, 0);
    while added < 4 {
        match observer.run_text(ADD).await {
            Ok(_) => {
                added += 1;
                let orphans = orphans(&mut observer).await;
                assert!(orphans.is_empty(), "{orphans:?} refer to no row");
                let drop = "ALTER TABLE c DROP CONSTRAINT bound; DROP INDEX c_p_idx ON c";
                observer.run_text(drop).await.unwrap();
            }
            Err(failed) => {
                assert!(
                    matches!(failed.error, SqlError::ForeignKey { .. }),
                    "{failed:?}"
                );
                refused += 1;
                for id in orphans(&mut observer).await {
                    let delete = format!("DELETE FROM c WHERE id = {id}");
                    observer.run_text(&delete).await.unwrap();
                }
            }
        }
    }
    println!("{added} added, {refused} refused");
    over.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
}
