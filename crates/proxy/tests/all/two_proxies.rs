//! Of two proxies in front of one primary one is active. It may be killed, stopped for longer than
//! its lease, cut off from the primary, or ended in good order.

use std::process::Command;
use std::time::Instant;

use pg_local::{Postgres, SUPERUSER};
use proxy::serve::routing::Routing;
use replication::{Replication, ReplicationSettings};
use rustix::process::Signal;
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, text, wait};
use crate::support::pair::{GOODBYES, Load, Pair, Running, refused, returned_by, run};
use crate::support::raw::Raw;
use crate::support::{Front, connect, connect_by, is_there, options, printed};

#[test]
fn standby_takes_over_from_one_that_is_killed() {
    run(
        "two_proxies::standby_takes_over_from_one_that_is_killed",
        take_over,
    );
}

async fn take_over(test: &'static str) {
    let mut pair = Pair::start(test, 1).await;
    expect_refusal(&pair.primary, &pair.active, &pair.standby).await;
    let mut load = Load::start(&pair, 0..4);
    load.grow(300).await;
    pair.active.signal(Signal::KILL);
    let killed = Instant::now();
    pair.active.child.wait().unwrap();
    pair.standby.status_text("Active").await;
    println!("active {:?} after the other was killed", killed.elapsed());
    load.grow(1).await;
    println!(
        "first commit {:?} after the other was killed",
        killed.elapsed()
    );
    load.grow(300).await;
    pair.standby.serves().await;
    let served = pair.standby.served().await;
    let more = || async { (pair.standby.served().await > served + 20).then_some(()) };
    wait("reads at the replica", more).await;
    load.end().await;
    pair.expect_everything(&load).await;
    pair.standby.serves().await;
}

/// A standby refuses its clients so that they find the active one, and shows its role to operators.
async fn expect_refusal(primary: &Postgres, active: &Running, standby: &Running) {
    let (code, message) = refused(standby.address).await;
    assert_eq!(code, "57P03");
    let of_active = format!("process {} on", active.child.id());
    assert!(message.contains(&of_active), "{message}");
    let both = format!(
        "postgresql://{SUPERUSER}@{},{}/postgres",
        standby.address, active.address
    );
    let mut psql = Command::new(primary.programs().join("psql"));
    psql.args([&both, "-Atc", "SELECT count(*) FROM counter"]);
    let output = tokio::task::spawn_blocking(move || psql.output().unwrap());
    assert_eq!(printed(&output.await.unwrap()), "10\n");
    let output = standby.ask("SHOW PROXY").await;
    assert_eq!(output.rows[0][0].as_deref(), Some("standby"));
    assert!(output.rows[0][1].as_ref().unwrap().contains(&of_active));
    let output = active.ask("SHOW PROXY").await;
    assert_eq!(output.rows[0][0].as_deref(), Some("active"));
    assert!(output.rows[0][2].is_some());
}

const READ: &str = "SELECT n FROM counter WHERE id = 1";

#[test]
fn proxy_that_slept_through_its_lease_returns_nothing_old() {
    run(
        "two_proxies::proxy_that_slept_through_its_lease_returns_nothing_old",
        sleep_through,
    );
}

async fn sleep_through(test: &'static str) {
    let pair = Pair::start(test, 1).await;
    let (replica, zombie, other) = (&pair.replicas[0], &pair.active, &pair.standby);

    let early = session_at_replica(zombie).await;
    let late = session_at_replica(zombie).await;
    let later = session_at_replica(zombie).await;
    // One has written, and not committed.
    let writer = connect(zombie.address).await;
    let begun = "BEGIN; UPDATE counter SET n = 13 WHERE id = 2";
    writer.batch_execute(begun).await.unwrap();
    // One reads at the replica, and is not answered before everything else has happened.
    let there = connect(replica.socket()).await;
    there
        .batch_execute("BEGIN; LOCK TABLE counter IN ACCESS EXCLUSIVE MODE")
        .await
        .unwrap();
    let early = tokio::spawn(async move { returned_by(&early, READ).await });
    let watch = connect(replica.socket()).await;
    wait_for_reads(&watch, READ, 1).await;
    zombie.signal(Signal::STOP);
    let stopped = Instant::now();
    // Nothing more is executed at the replica, so that reads there are old.
    let held = connect(replica.socket()).await;
    held.batch_execute("BEGIN; LOCK TABLE hihooi.applied IN EXCLUSIVE MODE")
        .await
        .unwrap();
    other.status_text("Active").await;
    println!("active {:?} after the other fell silent", stopped.elapsed());
    let new = connect(other.address).await;
    // The zombie's transactions do not block the second proxy any more.
    for write in [
        "UPDATE counter SET n = 1 WHERE id = 1",
        "UPDATE counter SET n = n + 7 WHERE id = 2",
    ] {
        new.batch_execute(write).await.unwrap();
    }
    assert_eq!(returned_by(&new, READ).await, "1");
    // These ask after the other's commit.
    let asked =
        [late, later].map(|session| tokio::spawn(async move { returned_by(&session, READ).await }));
    let commit = tokio::spawn(async move { returned_by(&writer, "COMMIT").await });
    there.batch_execute("COMMIT").await.unwrap();
    wait_for_reads(&watch, READ, 0).await;
    assert_eq!(text(&watch, READ).await, "0", "the replica's answer is old");
    zombie.signal(Signal::CONT);
    for reply in [early, commit].into_iter().chain(asked) {
        let reply = reply.await.unwrap();
        assert!(GOODBYES.contains(&reply.as_str()), "{reply}");
    }
    zombie.stands_by().await;
    assert_eq!(
        returned_by(&new, "SELECT n FROM counter WHERE id = 2").await,
        "7"
    );
    held.batch_execute("COMMIT").await.unwrap();
    other.serves().await;
    pair.expect_equal().await;
}

/// A session whose reads go to the replica.
async fn session_at_replica(proxy: &Running) -> Client {
    let session = connect(proxy.address).await;
    let served = proxy.served().await;
    wait("read at the replica", || async {
        assert_eq!(returned_by(&session, READ).await, "0");
        (proxy.served().await > served).then_some(())
    })
    .await;
    session
}

/// Returns the holder of the active proxy's lock: its process on the primary.
const HOLDER: &str = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
    AND classid = 1751738479 AND granted";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn standby_follows_at_once_when_the_active_proxy_gives_up() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let address = primary.address("postgres");
    let first = Routing::start(&address, 10, &ReplicationSettings::default())
        .await
        .unwrap();
    let epoch = first.replicas.replication().epoch();
    let front = Front::routed(options(&primary, 10), Some(first)).await;
    let mut raw = Raw::log_in(front.address).await;
    let (waits, mut is_waiting) = tokio::sync::mpsc::unbounded_channel();
    let second = {
        let address = address.clone();
        let output = move |name: &str| waits.send(name.to_owned()).unwrap();
        tokio::spawn(async move {
            Replication::acquire_leadership(&address, output)
                .await
                .unwrap()
        })
    };
    let name = is_waiting.recv().await.unwrap();
    assert!(
        name.contains(&format!("process {}", std::process::id())),
        "{name}"
    );
    let began = Instant::now();
    front.proxy.give_up().await;
    let leadership = second.await.unwrap();
    println!("active {:?} after the other gave up", began.elapsed());
    assert!(leadership.epoch > epoch);
    assert!(leadership.lease.is_valid());
    let last = raw.last_words().await;
    assert_eq!(last.code, "57P01", "{last}");
    assert_eq!(refused(front.address).await.0, "57P03");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxy_that_loses_its_session_goes_on_if_no_other_came() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let primary = connect(cluster.primary.socket()).await;
    let client = cluster.front.connect().await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let epoch = text(&primary, "SELECT epoch FROM hihooi.leader").await;
    let before = text(&primary, HOLDER).await;
    let end = format!("SELECT pg_terminate_backend({before})");
    primary.batch_execute(&end).await.unwrap();
    wait("session that has the lock", || async {
        let holder = text(&primary, HOLDER).await;
        (!holder.is_empty() && holder != before).then_some(())
    })
    .await;
    // The session goes on, writes, and is answered by the replica; others can come.
    client
        .batch_execute("INSERT INTO t VALUES (1)")
        .await
        .unwrap();
    reads_at_replica(&cluster, &client).await;
    let other = cluster.front.connect().await;
    other
        .batch_execute("INSERT INTO t VALUES (2)")
        .await
        .unwrap();
    assert_eq!(
        text(&primary, "SELECT epoch FROM hihooi.leader").await,
        epoch
    );
}

async fn reads_at_replica(cluster: &Cluster, client: &Client) {
    let served = cluster.served();
    wait("read at the replica", || async {
        client
            .batch_execute("SELECT count(*) FROM t")
            .await
            .unwrap();
        (cluster.served() > served).then_some(())
    })
    .await;
}

/// Nothing is read at replicas while the primary does not confirm that the proxy is active, and
/// earlier answers from there are relayed only once it has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_say_nothing_while_the_lease_is_not_renewed() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (client, early) = (cluster.front.connect().await, cluster.front.connect().await);
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    reads_at_replica(&cluster, &client).await;
    let there = connect(cluster.replicas[0].socket()).await;
    let watch = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE t IN ACCESS EXCLUSIVE MODE";
    there.batch_execute(lock).await.unwrap();
    let read = "SELECT 5 + count(*) FROM t";
    let early = tokio::spawn(async move { returned_by(&early, read).await });
    wait_for_reads(&watch, read, 1).await;
    let held = connect(cluster.primary.socket()).await;
    let lock = "BEGIN; LOCK TABLE hihooi.beat IN ACCESS EXCLUSIVE MODE";
    held.batch_execute(lock).await.unwrap();
    let lease = cluster.front.proxy.followed().unwrap().lease.clone();
    wait("lease that has run out", || async {
        (!lease.is_valid()).then_some(())
    })
    .await;
    there.batch_execute("COMMIT").await.unwrap();
    wait_for_reads(&watch, read, 0).await;
    let served = cluster.served();
    for _ in 0..20 {
        assert_eq!(returned_by(&client, "SELECT count(*) FROM t").await, "0");
    }
    assert_eq!(cluster.served(), served);
    let routes = cluster.front.proxy.visitors().routes();
    let why = (None, "another proxy might be the active one");
    assert_eq!(routes.get(&why), Some(&20), "{routes:?}");
    assert!(!early.is_finished(), "{:?}", early.await);
    held.batch_execute("COMMIT").await.unwrap();
    assert_eq!(early.await.unwrap(), "5");
    reads_at_replica(&cluster, &client).await;
}

/// Waits until so many sessions of a replica are with this statement.
async fn wait_for_reads(replica: &Client, read: &str, count: u64) {
    // By its key it is read by a prepared statement.
    let prepared = read.replace("id = 1", "id = $1");
    let running = format!(
        "SELECT count(*) FROM pg_stat_activity
          WHERE state = 'active' AND pid <> pg_backend_pid() AND query IN ('{read}', '{prepared}')"
    );
    wait("other number of reads at the replica", || async {
        (text(replica, &running).await == count.to_string()).then_some(())
    })
    .await;
}

/// A session of no proxy may have the lock; it is left alone, and waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stranger_with_the_lock_is_waited_for() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let line = format!(
        "host={} port={} user={SUPERUSER} dbname=postgres application_name=ann",
        primary.socket().ip(),
        primary.socket().port()
    );
    let stranger = connect_by(&line).await;
    let lock = "SELECT pg_advisory_lock(1751738479, 1)";
    stranger.batch_execute(lock).await.unwrap();
    let address = primary.address("postgres");
    let (waits, mut is_waiting) = tokio::sync::mpsc::unbounded_channel();
    let output = move |name: &str| waits.send(name.to_owned()).unwrap();
    let standing =
        tokio::spawn(async move { Replication::acquire_leadership(&address, output).await });
    let name = is_waiting.recv().await.unwrap();
    assert!(
        name.contains(&format!("an unknown session: user {SUPERUSER}")),
        "{name}"
    );
    assert!(!standing.is_finished());
    let unlock = "SELECT pg_advisory_unlock(1751738479, 1)";
    stranger.batch_execute(unlock).await.unwrap();
    let leadership = standing.await.unwrap().unwrap();
    assert!(leadership.lease.is_valid());
}

/// A transaction that an earlier proxy has begun at a replica, and not committed, is never
/// committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extractor_of_a_proxy_before_is_ended() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    let table = "CREATE TABLE t (id int PRIMARY KEY)";
    client.batch_execute(table).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let socket = cluster.replicas[0].socket();
    let (host, port) = (socket.ip(), socket.port());
    let line = format!(
        "host={host} port={port} user={SUPERUSER} dbname=postgres application_name='replex extractor'"
    );
    let before = connect_by(&line).await;
    let begun = "BEGIN; INSERT INTO t VALUES (1); UPDATE hihooi.applied SET tsid = tsid";
    before.batch_execute(begun).await.unwrap();
    let process = text(&before, "SELECT pg_backend_pid()").await;
    let end_others = format!(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE application_name = 'replex extractor' AND pid <> {process}"
    );
    let replica = connect(socket).await;
    replica.batch_execute(&end_others).await.unwrap();
    let insert = "INSERT INTO t VALUES (1), (2)";
    client.batch_execute(insert).await.unwrap();
    cluster
        .wait_until_equal("SELECT id FROM t ORDER BY id")
        .await;
    let reply = returned_by(&before, "COMMIT").await;
    assert!(GOODBYES.contains(&reply.as_str()), "{reply}");
}

/// A replica that a later proxy follows is not executed at any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_of_a_later_epoch_is_left_alone() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    let take_up = "UPDATE hihooi.epoch SET epoch = epoch + 1;
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE application_name = 'replex extractor'";
    replica.batch_execute(take_up).await.unwrap();
    wait("word of the other proxy", || async {
        let status = cluster.front.replicas().replication().status();
        let mut all = status.values();
        all.any(|it| it.text.contains("another proxy has taken it up"))
            .then_some(())
    })
    .await;
    // Neither does it stay, nor does it come back.
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'replex extractor'";
    wait("replica without its Extractor", || async {
        (text(&replica, sessions).await == "0").then_some(())
    })
    .await;
}
