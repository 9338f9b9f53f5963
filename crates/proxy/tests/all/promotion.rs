//! A replica takes the place of a primary that is gone.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::check::{FindingWeight, check};
use proxy::serve::Proxy;
use proxy::serve::replicas::Replicas;
use proxy::serve::routing::Routing;
use proxy_core::freshness::ReplicaState;
use replication::lineage;
use replication::promotion::{PromotionOutcome, promote};
use replication::{ExistingData, ReplicationError, ReplicationSettings};
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::{Front, connect, is_there, options_at, try_connect};

/// Sequences of every kind, and changes that do not come as row images.
const SETUP: &str = "
    CREATE TABLE owned (id serial PRIMARY KEY, n int);
    CREATE TABLE identity (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
    CREATE SEQUENCE shared;
    CREATE TABLE one (id int8 PRIMARY KEY DEFAULT nextval('shared'), n int);
    CREATE TABLE \"Two\" (id int PRIMARY KEY, \"N\" int8 DEFAULT nextval('shared'));
    CREATE SEQUENCE falling INCREMENT BY -1;
    CREATE TABLE down (id int PRIMARY KEY DEFAULT nextval('falling'), n int);
    CREATE SEQUENCE free;
    CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM owned";

/// Writes something by each of them.
const WRITE: [&str; 5] = [
    "INSERT INTO owned (n) SELECT generate_series(1, 40)",
    "INSERT INTO identity (n) SELECT generate_series(1, 40)",
    "INSERT INTO one (n) SELECT generate_series(1, 40)",
    "INSERT INTO \"Two\" (id) SELECT 1 + coalesce(max(id), 0) FROM \"Two\"",
    "INSERT INTO down (n) SELECT generate_series(1, 40)",
];

const ALL: &str = "
    SELECT (SELECT count(*) || '/' || sum(id) FROM owned) || ' '
        || (SELECT count(*) || '/' || sum(id) FROM identity) || ' '
        || (SELECT count(*) || '/' || sum(id) FROM one) || ' '
        || (SELECT count(*) || '/' || sum(\"N\") FROM \"Two\") || ' '
        || (SELECT count(*) || '/' || sum(id) FROM down)";

fn ignore(_: &str) {}

async fn write(client: &Client) {
    for write in WRITE {
        client.batch_execute(write).await.unwrap();
    }
}

/// Why it could not be done.
fn refused(promoted: Result<PromotionOutcome, ReplicationError>) -> String {
    match promoted {
        Ok(promoted) => panic!("{:?} was promoted", promoted.primary),
        Err(problem) => problem.to_string(),
    }
}

fn addresses(cluster: &Cluster) -> Vec<Address> {
    let replicas = cluster.replicas.iter();
    replicas.map(|it| it.address("postgres")).collect()
}

/// A proxy in front of the promoted server.
async fn front(promoted: &PromotionOutcome) -> Front {
    let routing = Routing::start(&promoted.primary, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    for follower in &promoted.followers {
        routing.replicas.add(follower, ExistingData::Kept).unwrap();
    }
    for (address, _) in &promoted.left {
        routing
            .replicas
            .add(address, ExistingData::Dropped)
            .unwrap();
    }
    routing.replicas.replication().knows_all();
    let manager = Arc::clone(&routing.manager);
    let front = Front::routed(options_at(promoted.primary.clone(), 10), Some(routing)).await;
    let started = Instant::now();
    let serve = |manager: &proxy_core::freshness::FreshnessManager| {
        manager
            .replicas()
            .all(|(_, it)| it.state == ReplicaState::Serving)
    };
    while !serve(&manager.lock().unwrap()) {
        let status = front.replicas().replication().status();
        assert!(started.elapsed() < PATIENCE, "{status:?}");
        pause().await;
    }
    front
}

async fn wait_until(front: &Front, database: &Address, expected: &str) {
    let started = Instant::now();
    loop {
        // It may be dropped meanwhile.
        if let Ok(client) = try_connect(socket(database)).await
            && text(&client, ALL).await == expected
        {
            break;
        }
        let status = front.replicas().replication().status();
        assert!(started.elapsed() < PATIENCE, "{status:?}");
        pause().await;
    }
}

fn socket(database: &Address) -> SocketAddr {
    let (host, port) = (&database.host, database.port);
    format!("{host}:{port}").parse().unwrap()
}

async fn two_replicas() -> Cluster {
    let mut cluster = Cluster::start_after(SETUP).await;
    let second = Postgres::start(&[]).unwrap();
    let replicas = cluster.front.replicas();
    replicas
        .add(&second.address("postgres"), ExistingData::Kept)
        .unwrap();
    cluster.replicas.push(second);
    cluster
        .wait(|states| states == [ReplicaState::Serving; 2])
        .await;
    cluster
}

/// Waits until one of the replicas has a status with this text.
async fn wait_for(replicas: &Replicas, what: &str) {
    let started = Instant::now();
    loop {
        let status = replicas.replication().status();
        if status.values().any(|it| it.text.contains(what)) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{status:?}");
        pause().await;
    }
}

/// The primary that was replaced is started again: the proxy in front of it finds that out, and no
/// other one stands there.
async fn come_back(cluster: &mut Cluster, by: &Address) {
    let old = cluster.primary.address("postgres");
    cluster.primary.start_again().unwrap();
    let started = Instant::now();
    while cluster.front.proxy.followed().is_some() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    cluster.front.replicas().replication().give_up().await;
    let stood = lineage::refuse_replaced(&old, std::slice::from_ref(by)).await;
    let why = stood.unwrap_err().to_string();
    assert!(why.contains("was promoted to be the primary"), "{why}");
}

/// Replicas of the new primary, and that itself, are not taken up by a proxy before the old one.
async fn stay_apart(old: &Address, promoted: &PromotionOutcome, named: &[Address]) {
    let found = check(old, named, 10).await;
    let found = found.iter().filter(|it| it.weight == FindingWeight::Stops);
    let found: BTreeSet<&str> = found.map(|it| it.what.as_str()).collect();
    let expected = [
        "it is a replica of another primary",
        "it was promoted to be the primary",
    ];
    assert_eq!(found, expected.into());
    // A server that follows the new primary does not follow it, even where no other names it.
    let routing = Routing::start(old, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    let replicas = &routing.replicas;
    replicas
        .add(&promoted.followers[0], ExistingData::Kept)
        .unwrap();
    wait_for(replicas, "a replica of another primary").await;
    // Nor is the new one emptied for it.
    replicas
        .add(&promoted.primary, ExistingData::Dropped)
        .unwrap();
    wait_for(replicas, "this database was promoted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_takes_the_primarys_place() {
    if !is_there() {
        return;
    }
    let mut cluster = two_replicas().await;
    let client = cluster.front.connect().await;
    write(&client).await;
    let before = text(&client, ALL).await;
    cluster.settle().await;

    let (old, named) = (cluster.primary.address("postgres"), addresses(&cluster));
    let why = refused(promote(&old, &named, None, ignore).await);
    assert!(why.contains("is there"), "{why}");
    cluster.primary.crash().unwrap();
    let mut messages = Vec::new();
    let promoted = promote(&old, &named, None, |what| messages.push(what.to_string())).await;
    let promoted = promoted.unwrap();
    assert_eq!((promoted.followers.len(), promoted.left.len()), (1, 0));
    assert_eq!(
        promoted.notes,
        [
            "the sequence public.free is for no column of whole numbers: set it by hand, it may be behind"
        ]
    );
    assert!(
        messages
            .iter()
            .any(|it| it == "filling the materialised view public.seen")
    );

    // A second try returns the same, and no server is disturbed.
    let new = front(&promoted).await;
    let client = new.connect().await;
    assert_eq!(text(&client, ALL).await, before);
    assert_eq!(text(&client, "SELECT n FROM seen").await, "40");
    write(&client).await;
    let again = promote(&old, &named, None, ignore).await.unwrap();
    assert_eq!(
        format!("{:?}", again.primary),
        format!("{:?}", promoted.primary)
    );
    assert_eq!((again.followers.len(), again.left.len()), (1, 0));
    write(&client).await;
    let after = text(&client, ALL).await;
    assert_ne!(after, before);
    wait_until(&new, &promoted.followers[0], &after).await;
    let compared = new.replicas().replication();
    let started = Instant::now();
    while compared.compared().values().all(|times| *times == 0) {
        compared.compare_now();
        assert!(started.elapsed() < PATIENCE, "{:?}", compared.status());
        pause().await;
    }

    come_back(&mut cluster, &promoted.primary).await;
    let others = lineage::refuse_replaced(&old, &promoted.followers).await;
    others.unwrap();
    stay_apart(&old, &promoted, &named).await;
    // Emptied, the old one can follow the new one.
    new.replicas().add(&old, ExistingData::Dropped).unwrap();
    wait_until(&new, &old, &text(&client, ALL).await).await;
}

/// A commit that was acknowledged at `1sr` is there, whenever the primary dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn promotion_keeps_every_commit_that_all_replicas_had() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(2).await;
    let client = cluster.front.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(create).await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for number in 0..4 {
        let (client, is_over) = (cluster.front.connect().await, Arc::clone(&is_over));
        writers.push(tokio::spawn(async move {
            let set = "SET replex.consistency = '1sr'";
            client.batch_execute(set).await.unwrap();
            let mut answered = BTreeSet::new();
            for id in (number..).step_by(4) {
                let insert = format!("INSERT INTO t VALUES ({id})");
                if client.batch_execute(&insert).await.is_err() {
                    break;
                }
                answered.insert(id.to_string());
            }
            assert!(is_over.load(Ordering::Relaxed));
            answered
        }));
    }
    let started = Instant::now();
    let many = "SELECT 1 FROM t HAVING count(*) > 500";
    while text(&client, many).await.is_empty() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    is_over.store(true, Ordering::Relaxed);
    cluster.primary.crash().unwrap();
    let old = cluster.primary.address("postgres");
    let promoted = promote(&old, &addresses(&cluster), None, ignore)
        .await
        .unwrap();
    // A proxy that waits for replicas that are gone waits until the primary is back.
    cluster.front.replicas().replication().give_up().await;
    let new = connect(socket(&promoted.primary)).await;
    let there = text(&new, "SELECT id FROM t").await;
    let there: BTreeSet<&str> = there.lines().collect();
    for writer in writers {
        let answered = writer.await.unwrap();
        assert!(!answered.is_empty());
        let lost: Vec<_> = answered
            .iter()
            .filter(|id| !there.contains(id.as_str()))
            .collect();
        assert!(lost.is_empty(), "{lost:?}");
    }
    let front = front(&promoted).await;
    let client = front.connect().await;
    client
        .batch_execute("INSERT INTO t VALUES (-1)")
        .await
        .unwrap();
    let replicas = promoted.followers.iter();
    for address in replicas.chain(promoted.left.iter().map(|(address, _)| address)) {
        let started = Instant::now();
        let there = connect(socket(address)).await;
        let all = "SELECT count(*) || '/' || sum(id) FROM t";
        while text(&there, all).await != text(&client, all).await {
            assert!(started.elapsed() < PATIENCE);
            pause().await;
        }
    }
}

/// So many replicas, of which the first cannot change a table until this session ends.
async fn held_back(replicas: usize) -> (Cluster, Client) {
    let cluster = Cluster::start(replicas).await;
    let client = cluster.front.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(create).await.unwrap();
    cluster.settle().await;
    let behind = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE t IN SHARE MODE";
    behind.batch_execute(lock).await.unwrap();
    (cluster, behind)
}

/// A commit at `1sr` is not answered because its replica goes to take the primary's place without
/// it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commit_that_a_promoted_replica_lacks_is_not_acknowledged() {
    if !is_there() {
        return;
    }
    let (mut cluster, _behind) = held_back(1).await;
    let client = cluster.front.connect().await;
    let set = "SET replex.consistency = '1sr'";
    client.batch_execute(set).await.unwrap();
    let insert = async move { client.batch_execute("INSERT INTO t VALUES (1)").await };
    let insert = tokio::spawn(insert);
    let primary = connect(cluster.primary.socket()).await;
    let started = Instant::now();
    while text(&primary, "SELECT id FROM t").await != "1" {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    cluster.primary.crash().unwrap();
    let old = cluster.primary.address("postgres");
    let promoted = promote(&old, &addresses(&cluster), None, ignore).await;
    promoted.unwrap();
    cluster
        .wait(|states| states != [ReplicaState::Serving])
        .await;
    let routing = cluster.front.proxy.followed().unwrap();
    while routing.lease.is_valid() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    routing.replicas.replication().give_up().await;
    assert!(insert.await.unwrap().is_err());
}

/// A replica that lags is not promoted unless the others are given up, and cannot follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lagging_replica_is_not_promoted() {
    if !is_there() {
        return;
    }
    let (mut cluster, behind) = held_back(2).await;
    let client = cluster.front.connect().await;
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    let ahead = connect(cluster.replicas[1].socket()).await;
    let started = Instant::now();
    while text(&ahead, "SELECT id FROM t").await != "1" {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    cluster.primary.crash().unwrap();
    let (old, named) = (cluster.primary.address("postgres"), addresses(&cluster));
    let why = refused(promote(&old, &named, Some(&named[0]), ignore).await);
    assert!(why.contains("has less than"), "{why}");
    let why = refused(promote(&old, &named, Some(&old), ignore).await);
    assert!(why.contains("is not among the replicas"), "{why}");
    let unreached = Postgres::start(&[]).unwrap();
    let empty = [unreached.address("postgres")];
    let why = refused(promote(&old, &empty, None, ignore).await);
    assert!(why.contains("it was never filled"), "{why}");

    // It stops half way, and is gone on with.
    let fill = "SELECT pg_create_physical_replication_slot('s' || n) FROM generate_series(1, 10) n";
    ahead.batch_execute(fill).await.unwrap();
    let why = refused(promote(&old, &named, None, ignore).await);
    assert!(why.contains("replication slots are in use"), "{why}");
    let why = refused(promote(&old, &named, Some(&named[0]), ignore).await);
    assert!(why.contains("was promoted before"), "{why}");
    let free = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots";
    ahead.batch_execute(free).await.unwrap();
    let promoted = promote(&old, &named, None, ignore).await.unwrap();
    assert_eq!(format!("{:?}", promoted.primary), format!("{:?}", named[1]));
    assert!(
        promoted.left[0].1.contains("EMPTY"),
        "{}",
        promoted.left[0].1
    );
    drop(behind);
    let front = front(&promoted).await;
    assert_eq!(text(&front.connect().await, "SELECT id FROM t").await, "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_takes_the_primarys_place() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(0).await;
    let standby = Postgres::standby_of(&cluster.primary, &[]).unwrap();
    let address = standby.address("postgres");
    let url = format!("postgresql://{SUPERUSER}@{}/postgres", standby.socket());
    let replicas = cluster.front.replicas();
    replicas
        .register(&url, ExistingData::Kept, None)
        .await
        .unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
    let client = cluster.front.connect().await;
    for change in SETUP.split_inclusive(';') {
        client.batch_execute(change).await.unwrap();
    }
    write(&client).await;
    let before = text(&client, ALL).await;
    cluster.settle().await;
    cluster.primary.crash().unwrap();
    let old = cluster.primary.address("postgres");
    let promoted = promote(&old, std::slice::from_ref(&address), None, ignore)
        .await
        .unwrap();
    assert_eq!((promoted.followers.len(), promoted.left.len()), (0, 0));
    let new = front(&promoted).await;
    let client = new.connect().await;
    // It was in the register that it had from the old one.
    let registered = "SELECT count(*) FROM hihooi.replica";
    assert_eq!(
        text(&connect(standby.socket()).await, registered).await,
        "0"
    );
    assert_eq!(text(&client, ALL).await, before);
    write(&client).await;
    let replica = Postgres::start(&[]).unwrap();
    new.replicas()
        .add(&replica.address("postgres"), ExistingData::Kept)
        .unwrap();
    wait_until(
        &new,
        &replica.address("postgres"),
        &text(&client, ALL).await,
    )
    .await;

    come_back(&mut cluster, &address).await;
    // A proxy whose options do not name it finds it in the register.
    let other = Proxy::standing_by(options_at(old, 10));
    let stood = tokio::time::timeout(
        PATIENCE,
        other.compete_for_leadership(&ReplicationSettings::default(), |_| {}),
    )
    .await;
    let why = stood.expect("it does not stand there").to_string();
    assert!(why.contains("was promoted to be the primary"), "{why}");
}

/// A primary with some rows, a replica, and a standby that is one, too.
async fn standby_and_replica() -> (Cluster, Postgres) {
    let cluster = Cluster::start_after("CREATE TABLE t (id int PRIMARY KEY)").await;
    let standby = Postgres::standby_of(&cluster.primary, &[]).unwrap();
    let replicas = cluster.front.replicas();
    replicas
        .add(&standby.address("postgres"), ExistingData::Kept)
        .unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Serving; 2])
        .await;
    let client = cluster.front.connect().await;
    let insert = "INSERT INTO t SELECT generate_series(1, 40)";
    client.batch_execute(insert).await.unwrap();
    cluster.settle().await;
    (cluster, standby)
}

/// The effects of a promotion that ends right behind it.
async fn promote_half_way(standby: &Postgres) {
    let standby = connect(standby.socket()).await;
    assert_eq!(text(&standby, "SELECT pg_promote(true, 60)").await, "t");
}

/// A standby that was promoted, and has no mark of that, is the new primary, and no other one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_that_was_promoted_half_way_is_gone_on_with() {
    if !is_there() {
        return;
    }
    let (mut cluster, standby) = standby_and_replica().await;
    let (old, new) = (
        cluster.primary.address("postgres"),
        standby.address("postgres"),
    );
    let mut named = addresses(&cluster);
    cluster.primary.crash().unwrap();
    promote_half_way(&standby).await;
    // The other one would be a second primary.
    let other = named[0].clone();
    named.push(new.clone());
    let why = refused(promote(&old, &named, Some(&other), ignore).await);
    assert!(why.contains("was promoted before"), "{why}");

    // It stops once more, after its mark.
    let there = connect(standby.socket()).await;
    let fill = "SELECT pg_create_physical_replication_slot('s' || n) FROM generate_series(1, 10) n";
    there.batch_execute(fill).await.unwrap();
    // No proxy knows of this.
    let insert = "INSERT INTO t VALUES (41)";
    there.batch_execute(insert).await.unwrap();
    let why = refused(promote(&old, &named, None, ignore).await);
    assert!(why.contains("replication slots are in use"), "{why}");
    let free = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots";
    there.batch_execute(free).await.unwrap();
    for chosen in [None, Some(&new), None] {
        let promoted = promote(&old, &named, chosen, ignore).await.unwrap();
        assert_eq!(format!("{:?}", promoted.primary), format!("{new:?}"));
        assert!(promoted.followers.is_empty());
        let why = &promoted.left[0].1;
        assert!(why.contains("EMPTY"), "{why}");
    }
    let promoted = promote(&old, &named, None, ignore).await.unwrap();
    let front = front(&promoted).await;
    let all = "SELECT count(*) || '/' || sum(id) FROM t";
    let expected = text(&front.connect().await, all).await;
    assert_eq!(expected, "41/861");
    let there = connect(socket(&other)).await;
    let started = Instant::now();
    while text(&there, all).await != expected {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    come_back(&mut cluster, &new).await;
}

/// A standby that takes writes for other reasons looks the same: it is not taken where others have
/// more, or where it is in use, and none is promoted beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_that_takes_writes_for_long_is_not_promoted() {
    if !is_there() {
        return;
    }
    let (mut cluster, standby) = standby_and_replica().await;
    let new = standby.address("postgres");
    promote_half_way(&standby).await;
    let client = cluster.front.connect().await;
    let insert = "INSERT INTO t VALUES (41)";
    client.batch_execute(insert).await.unwrap();
    cluster.wait_until_equal("SELECT id FROM t").await;
    cluster.primary.crash().unwrap();
    let (old, mut named) = (cluster.primary.address("postgres"), addresses(&cluster));
    named.push(new.clone());
    for chosen in [None, Some(&named[0]), Some(&new)] {
        let why = refused(promote(&old, &named, chosen, ignore).await);
        assert!(why.contains("and has less than"), "{why}");
    }
    // A proxy begins in front of it, or did.
    let there = connect(standby.socket()).await;
    let lock = "SELECT pg_advisory_lock(1751738479, 1)";
    there.batch_execute(lock).await.unwrap();
    let why = refused(promote(&old, &named, None, ignore).await);
    assert!(why.contains("is a primary"), "{why}");
    // A proxy that has just ended is no reason.
    let unlock = "SELECT pg_sleep(0.5), pg_advisory_unlock_all()";
    let (promoted, unlocked) = tokio::join!(
        promote(&old, &named, None, ignore),
        there.batch_execute(unlock)
    );
    unlocked.unwrap();
    let why = refused(promoted);
    assert!(why.contains("and has less than"), "{why}");
    let slot = "SELECT pg_create_logical_replication_slot('hihooi', 'pgoutput')";
    there.batch_execute(slot).await.unwrap();
    let why = refused(promote(&old, std::slice::from_ref(&new), None, ignore).await);
    assert!(why.contains("is a primary"), "{why}");
    // It is left out.
    let promoted = promote(&old, &named[..1], None, ignore).await.unwrap();
    let front = front(&promoted).await;
    let all = "SELECT count(*) FROM t";
    assert_eq!(text(&front.connect().await, all).await, "41");
    let named = [promoted.primary.clone(), new];
    let why = refused(promote(&old, &named, None, ignore).await);
    assert!(why.contains("both take writes"), "{why}");
}

/// The mark that a standby has from its primary is not its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_of_one_that_was_promoted_is_gone_on_with() {
    if !is_there() {
        return;
    }
    let (mut cluster, first) = standby_and_replica().await;
    cluster.primary.crash().unwrap();
    let (old, middle) = (
        cluster.primary.address("postgres"),
        first.address("postgres"),
    );
    let promoted = promote(&old, std::slice::from_ref(&middle), None, ignore).await;
    assert!(promoted.unwrap().left.is_empty());
    let mut first = first;
    let second = Postgres::standby_of(&first, &[]).unwrap();
    first.crash().unwrap();
    promote_half_way(&second).await;
    let new = second.address("postgres");
    let promoted = promote(&middle, std::slice::from_ref(&new), None, ignore).await;
    assert!(promoted.unwrap().left.is_empty());
    first.start_again().unwrap();
    cluster.primary.start_again().unwrap();
    for replaced in [&old, &middle] {
        let stood = lineage::refuse_replaced(replaced, std::slice::from_ref(&new)).await;
        let why = stood.unwrap_err().to_string();
        assert!(why.contains("was promoted to be the primary"), "{why}");
    }
}
