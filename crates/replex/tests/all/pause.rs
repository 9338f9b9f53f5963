//! A server that stands still past its lease, as a suspended machine does, and then goes on. No
//! reader ever sees a value that is older than the acknowledged one before its request, by any
//! index, and the server catches up (R9, R10, R15).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use placement::Durability;
use protocol::configuration::{Configuration, ServerState};
use replex::inspect::{Inspector, are_equal};

use crate::support;
use crate::support::people::{Outcome, People, Person};

/// The counter's row; its city never changes, so that it is always found.
const ID: i64 = 1;
const CITY: &str = "Ulm";

/// How far the counter goes before and after each pause.
const STEPS: i64 = 200;

#[derive(Clone, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    /// The counter's value as last acknowledged, and as last sent.
    acknowledged: Arc<AtomicI64>,
    sent: Arc<AtomicI64>,
    reads: Arc<AtomicU64>,
}

#[tokio::test]
async fn server_paused_past_its_lease_answers_nothing_stale() {
    let mut cluster = support::cluster(3).await;
    let people = People::create(&cluster, support::people(2, Durability::Sync)).await;
    let first = Person {
        id: ID,
        city: CITY.to_owned(),
        score: 0,
    };
    assert_eq!(people.insert(&first).await, Outcome::Done);
    let shared = Shared::default();
    let mut tasks = vec![tokio::spawn(count(people.clone(), shared.clone()))];
    for by_city in [false, true, false, true] {
        tasks.push(tokio::spawn(read(people.clone(), by_city, shared.clone())));
    }
    for victim in 0..3 {
        let before = shared.acknowledged.load(Ordering::SeqCst);
        progress(&shared, before).await;
        cluster.pause(victim).unwrap();
        let state = |configuration: &Configuration, wanted: ServerState| {
            configuration.servers[victim].state == wanted
        };
        // The coordinator calls it down when its lease is over for certain.
        let what = "the paused server is down";
        let is_down = |it: &Configuration| state(it, ServerState::Down);
        cluster.wait_until(what, is_down).await.unwrap();
        cluster.resume(victim).unwrap();
        let what = "the server is up again";
        let is_up = |it: &Configuration| state(it, ServerState::Up);
        cluster.wait_until(what, is_up).await.unwrap();
        cluster.wait_until_serving().await.unwrap();
        let reads = shared.reads.load(Ordering::SeqCst);
        let after = shared.acknowledged.load(Ordering::SeqCst);
        progress(&shared, after).await;
        assert!(shared.reads.load(Ordering::SeqCst) >= reads);
    }
    shared.stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
    let (value, reads) = (
        shared.acknowledged.load(Ordering::SeqCst),
        shared.reads.load(Ordering::SeqCst),
    );
    println!("counted to {value}, {reads} reads");
    let coordinators = [cluster.coordinator_address().to_owned()];
    let within = Duration::from_secs(30);
    let mut inspector = Inspector::new(&coordinators, within).await.unwrap();
    let copies = inspector.sums("people").await.unwrap();
    assert!(are_equal(&copies), "{copies:#?}");
}

/// Waits until the counter has gone on, and a client has read.
async fn progress(shared: &Shared, from: i64) {
    let reads = shared.reads.load(Ordering::SeqCst);
    let waited = tokio::time::timeout(Duration::from_secs(30), async {
        while shared.acknowledged.load(Ordering::SeqCst) < from + STEPS
            || shared.reads.load(Ordering::SeqCst) <= reads
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.expect("writes and reads go on");
}

async fn count(people: People, shared: Shared) {
    let mut score = 0;
    while !shared.stop.load(Ordering::SeqCst) {
        score += 1;
        let person = Person {
            id: ID,
            city: CITY.to_owned(),
            score,
        };
        shared.sent.store(score, Ordering::SeqCst);
        assert_eq!(people.update(&person).await, Outcome::Done);
        shared.acknowledged.store(score, Ordering::SeqCst);
    }
}

async fn read(people: People, by_city: bool, shared: Shared) {
    while !shared.stop.load(Ordering::SeqCst) {
        let acknowledged = shared.acknowledged.load(Ordering::SeqCst);
        let found = if by_city {
            people.by_city(CITY).await
        } else {
            people.by_id(ID).await
        };
        let sent = shared.sent.load(Ordering::SeqCst);
        let [person] = &found[..] else {
            panic!("found {found:?}");
        };
        assert!(
            (acknowledged..=sent).contains(&person.score),
            "read {} by {} although {acknowledged} was acknowledged before and {sent} sent",
            person.score,
            if by_city { "city" } else { "id" }
        );
        shared.reads.fetch_add(1, Ordering::SeqCst);
    }
}
