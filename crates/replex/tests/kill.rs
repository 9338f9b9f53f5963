//! Servers killed with SIGKILL at random moments under load: whatever was acknowledged is there,
//! in all copies, and nothing else is (issue point 13, SAFETY R23 to R26, I5, I7, I12).
//!
//! `REPLEX_KILL_SECONDS` says how long; two minutes before a release, a short share otherwise.
//! `REPLEX_KILL_SEED` repeats the moments of another run as far as processes can.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use placement::{Durability, Schema, Value, encode_row};
use replex::cluster::Cluster;
use replex::inspect::{Inspector, are_equal};
use support::noise::Noise;
use support::people::{Outcome, People, Person};

const WRITERS: u64 = 16;
const SECONDS_DEFAULT: u64 = 12;
/// After a restart somebody must be acknowledged again within this.
const PROGRESS_WITHIN: Duration = Duration::from_secs(30);

/// What may be there under an id: one entry if it is known, several if nobody knows which.
type Model = BTreeMap<i64, Vec<Option<Person>>>;

#[derive(Clone, Default)]
struct Shared {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
}

#[tokio::test]
async fn killed_servers_lose_nothing_that_was_acknowledged() {
    let number = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect(name))
    };
    let seconds = number("REPLEX_KILL_SECONDS", SECONDS_DEFAULT);
    let seed = number("REPLEX_KILL_SEED", 0x5eed_0002);
    println!("REPLEX_KILL_SECONDS={seconds} REPLEX_KILL_SEED={seed}");
    let mut cluster = support::cluster(3).await;
    let people = People::create(&cluster, support::people(2, Durability::Sync)).await;
    let shared = Shared::default();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(people.clone(), writer, seed, shared.clone())))
        .collect();
    let kills = kill(&mut cluster, Noise::new(seed), seconds, &shared).await;
    shared.stop.store(true, Ordering::Relaxed);
    let mut model = Model::new();
    for writer in writers {
        model.extend(writer.await.unwrap());
    }
    let acknowledged = shared.acknowledged.load(Ordering::Relaxed);
    println!(
        "{kills} kills, {acknowledged} acknowledged, {} ids",
        model.len()
    );
    assert!(kills > 0 && acknowledged > 0);
    compare(&cluster, &people.schema(), &model).await;
}

/// Kills and restarts until time is up; how often it killed.
async fn kill(cluster: &mut Cluster, mut noise: Noise, seconds: u64, shared: &Shared) -> u64 {
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut kills = 0;
    while Instant::now() < end {
        // Random moments are the point of this pause: nothing waits for anything here.
        tokio::time::sleep(Duration::from_millis(100 + noise.below(900))).await;
        let first = noise.below(3) as usize;
        // Now and then all at once, as a power cut would; the disks are all that is left.
        let count = if noise.below(4) == 0 { 3 } else { 1 };
        let victims: Vec<usize> = (0..count).map(|step| (first + step) % 3).collect();
        for victim in &victims {
            cluster.kill(*victim).await.unwrap();
            kills += 1;
        }
        tokio::time::sleep(Duration::from_millis(noise.below(300))).await;
        let killed = Instant::now();
        for victim in &victims {
            cluster.restart(*victim).await.unwrap();
        }
        let started = killed.elapsed();
        cluster.wait_until_serving().await.unwrap();
        let serving = killed.elapsed();
        let before = shared.acknowledged.load(Ordering::Relaxed);
        let since = Instant::now();
        while shared.acknowledged.load(Ordering::Relaxed) == before {
            assert!(since.elapsed() < PROGRESS_WITHIN, "nobody is acknowledged");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        println!(
            "killed {victims:?}: ready after {started:?}, serving after {serving:?}, \
             acknowledging after {:?}",
            killed.elapsed()
        );
    }
    kills
}

/// One writer, one change at a time, on ids of its own.
async fn write(people: People, writer: u64, seed: u64, shared: Shared) -> Model {
    let mut noise = Noise::new(seed ^ (writer + 1) << 32);
    let mut model = Model::new();
    let mut next = i64::try_from(writer).unwrap() * 1_000_000;
    while !shared.stop.load(Ordering::Relaxed) {
        let known: Vec<i64> = model.keys().copied().rev().take(64).collect();
        let choice = noise.below(10);
        let id = match known.get(noise.below(64) as usize) {
            Some(id) if choice >= 6 => *id,
            _ => {
                next += 1;
                next
            }
        };
        let old = model.get(&id).cloned().unwrap_or(vec![None]);
        let [old] = &old[..] else {
            continue;
        };
        let person = Person {
            id,
            city: format!("city {}", noise.below(40)),
            score: noise.below(1_000) as i64,
        };
        let (outcome, new) = match old {
            None => (people.insert(&person).await, Some(person)),
            Some(_) if choice == 9 => (people.delete(id).await, None),
            Some(_) => (people.update(&person).await, Some(person)),
        };
        let now = match outcome {
            Outcome::Done => vec![new],
            Outcome::Nothing(why) => panic!("id {id} was not changed: {why}"),
            Outcome::Unknown(_) => vec![old.clone(), new],
        };
        if now.len() == 1 {
            shared.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        model.insert(id, now);
    }
    model
}

/// Every copy holds what the model says, row by row.
async fn compare(cluster: &Cluster, schema: &Schema, model: &Model) {
    let coordinators = [cluster.coordinator_address().to_owned()];
    let mut inspector = Inspector::new(&coordinators, Duration::from_secs(60))
        .await
        .unwrap();
    let copies = inspector.sums(&schema.name).await.unwrap();
    assert!(are_equal(&copies), "{copies:#?}");
    let encode = |person: &Person| {
        let values = [
            Value::Int64(person.id),
            Value::Text(person.city.clone()),
            Value::Int64(person.score),
            Value::Null,
        ];
        encode_row(&schema.columns, &values).unwrap()
    };
    for (replex, copy) in copies.iter().enumerate() {
        let mut rows = inspector.rows(&schema.name, replex).await.unwrap();
        for (id, possible) in model {
            let found: Vec<&Option<Person>> = possible
                .iter()
                .filter(|person| match person {
                    Some(person) => rows.contains_key(&encode(person)),
                    None => true,
                })
                .collect();
            assert!(
                !found.is_empty(),
                "id {id} is not in {} as {possible:?}",
                copy.name
            );
            for person in found.into_iter().flatten() {
                rows.remove(&encode(person));
            }
        }
        assert!(
            rows.is_empty(),
            "{} rows of {} were never written or had been deleted",
            rows.len(),
            copy.name
        );
    }
}
