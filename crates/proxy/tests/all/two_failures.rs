//! A proxy fails, and with it the primary, a replica or the other proxy, while clients write and
//! read: one proxy goes on, nothing that was acknowledged is lost or done twice, and nothing old is
//! read.

use std::time::Duration;

use rustix::process::Signal;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use crate::support::cluster::{text, wait};
use crate::support::pair::{GOODBYES, Load, Pair, Running, returned_by, run};
use crate::support::{connect, signal};

/// Commits between one thing that happens and the next, at least.
const COMMITS: usize = 300;
/// Sessions that ask a proxy that sleeps.
const ASKED: usize = 8;
/// A proxy sleeps for so long: longer than its lease.
const SLEEP: Duration = Duration::from_secs(4);

/// Two proxies with two replicas, and clients that have begun.
async fn under_load(test: &'static str) -> (Pair, Load) {
    let pair = Pair::start(test, 2).await;
    let load = Load::start(&pair, 0..4);
    load.grow(COMMITS).await;
    (pair, load)
}

/// The other proxy is active: clients write and read there, also at replicas, and everything is in
/// its place.
async fn expect_taken_over(pair: &Pair, load: Load) {
    pair.standby.status_text("Active").await;
    expect_served(pair, &pair.standby, load).await;
}

/// The same by this one, which is the active one already.
async fn expect_served(pair: &Pair, active: &Running, mut load: Load) {
    load.grow(COMMITS).await;
    active.serves().await;
    let served = active.served().await;
    let more = || async { (active.served().await > served + 20).then_some(()) };
    wait("reads at replicas", more).await;
    load.end().await;
    pair.expect_everything(&load).await;
    active.serves().await;
}

fn kill_active(pair: &mut Pair) {
    pair.active.signal(Signal::KILL);
    pair.active.child.wait().unwrap();
}

#[test]
fn proxy_and_primary_die_at_once() {
    run("two_failures::proxy_and_primary_die_at_once", lose_both);
}

async fn lose_both(test: &'static str) {
    let (mut pair, load) = under_load(test).await;
    pair.active.signal(Signal::KILL);
    pair.primary.crash().unwrap();
    pair.active.child.wait().unwrap();
    // It has no primary either.
    pair.standby.status_text("Failed").await;
    pair.primary.start_again().unwrap();
    expect_taken_over(&pair, load).await;
}

#[test]
fn proxy_dies_while_the_primary_stops_for_a_moment() {
    run(
        "two_failures::proxy_dies_while_the_primary_stops_for_a_moment",
        stop_for_a_moment,
    );
}

/// A request that clients of the proxy had sent is executed when it is gone. A session that waits
/// for a row is not there any more when it could go on.
async fn stop_for_a_moment(test: &'static str) {
    let mut pair = Pair::start(test, 2).await;
    let load = Load::start(&pair, 0..4);
    let direct = connect(pair.primary.socket()).await;
    let lock = "BEGIN; SELECT FROM counter WHERE id = 9 FOR UPDATE";
    direct.batch_execute(lock).await.unwrap();
    let waiting = connect(pair.active.address).await;
    let write = "UPDATE counter SET n = n + 1 WHERE id = 9";
    let waiting = tokio::spawn(async move { returned_by(&waiting, write).await });
    let watch = connect(pair.primary.socket()).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
        AND query LIKE 'UPDATE counter%id = 9%'";
    wait("write that waits", || async {
        (text(&watch, count).await == "1").then_some(())
    })
    .await;
    load.grow(COMMITS).await;
    signal(&pair.primary, Signal::STOP);
    kill_active(&mut pair);
    signal(&pair.primary, Signal::CONT);
    assert_eq!(waiting.await.unwrap(), "closed");
    pair.standby.status_text("Active").await;
    assert_eq!(text(&watch, count).await, "0");
    direct.batch_execute("ROLLBACK").await.unwrap();
    expect_taken_over(&pair, load).await;
}

#[test]
fn proxy_dies_while_the_primary_stops_for_long() {
    run(
        "two_failures::proxy_dies_while_the_primary_stops_for_long",
        stop_for_long,
    );
}

/// The other one finds no primary meanwhile.
async fn stop_for_long(test: &'static str) {
    let (mut pair, load) = under_load(test).await;
    signal(&pair.primary, Signal::STOP);
    kill_active(&mut pair);
    pair.standby.status_text("Failed").await;
    signal(&pair.primary, Signal::CONT);
    expect_taken_over(&pair, load).await;
}

#[test]
fn proxy_and_replica_die_at_once() {
    run("two_failures::proxy_and_replica_die_at_once", lose_replica);
}

async fn lose_replica(test: &'static str) {
    let (mut pair, load) = under_load(test).await;
    pair.active.signal(Signal::KILL);
    pair.replicas[0].crash().unwrap();
    pair.active.child.wait().unwrap();
    // The other one begins with one replica, which serves; the second is back later.
    pair.standby.status_text("Active").await;
    load.grow(COMMITS).await;
    let more = || async { (pair.standby.served().await > 20).then_some(()) };
    wait("reads at the other replica", more).await;
    pair.replicas[0].start_again().unwrap();
    expect_taken_over(&pair, load).await;
}

#[test]
fn proxy_sleeps_while_the_primary_dies() {
    run(
        "two_failures::proxy_sleeps_while_the_primary_dies",
        sleep_and_lose,
    );
}

/// The rows that replicas show are old by then, and clients read them.
async fn sleep_and_lose(test: &'static str) {
    let mut pair = Pair::start(test, 2).await;
    let mut load = Load::start(&pair, 0..4);
    let writer = connect(pair.active.address).await;
    let begun = "BEGIN; UPDATE counter SET n = n + 1 WHERE id = 9";
    writer.batch_execute(begun).await.unwrap();
    let read = "SELECT n FROM counter WHERE id = 4";
    let mut sessions = Vec::new();
    for _ in 0..ASKED {
        let session = connect(pair.active.address).await;
        assert_eq!(returned_by(&session, read).await, "0");
        sessions.push((session, read));
    }
    sessions.push((writer, "COMMIT"));
    load.grow(COMMITS).await;
    pair.active.signal(Signal::STOP);
    // Nothing is executed at replicas any more once the sleeper's transactions there are ended.
    let mut held = JoinSet::new();
    for replica in &pair.replicas {
        let client = connect(replica.socket()).await;
        held.spawn(async move {
            let lock = "BEGIN; LOCK TABLE hihooi.applied IN EXCLUSIVE MODE";
            client.batch_execute(lock).await.unwrap();
            client
        });
    }
    pair.primary.crash().unwrap();
    pair.standby.status_text("Failed").await;
    pair.primary.start_again().unwrap();
    pair.standby.status_text("Active").await;
    let held = held.join_all().await;
    // New clients come, as those from before wait for the proxy that sleeps.
    load.join(4..8);
    let is_written = || async { (load.counter(4) > 0).then_some(()) };
    wait("commit that was acknowledged", is_written).await;
    for replica in &pair.replicas {
        let there = connect(replica.socket()).await;
        assert_eq!(text(&there, read).await, "0", "what is there is old");
    }
    let ask = |(it, query): (Client, &'static str)| async move { returned_by(&it, query).await };
    let asked: Vec<_> = sessions
        .into_iter()
        .map(|session| tokio::spawn(ask(session)))
        .collect();
    pair.active.signal(Signal::CONT);
    for reply in asked {
        let reply = reply.await.unwrap();
        assert!(GOODBYES.contains(&reply.as_str()), "{reply}");
    }
    pair.active.stands_by().await;
    drop(held);
    expect_taken_over(&pair, load).await;
}

#[test]
fn proxy_wakes_while_the_primary_comes_back() {
    run(
        "two_failures::proxy_wakes_while_the_primary_comes_back",
        wake_together,
    );
}

/// Whichever of the two is first, it is one.
async fn wake_together(test: &'static str) {
    let (mut pair, load) = under_load(test).await;
    pair.active.signal(Signal::STOP);
    pair.primary.crash().unwrap();
    tokio::time::sleep(SLEEP).await;
    pair.active.signal(Signal::CONT);
    pair.primary.start_again().unwrap();
    load.grow(COMMITS).await;
    let proxies = [&pair.active, &pair.standby];
    let active = wait("one proxy that is active", || async {
        let mut active = Vec::new();
        for proxy in proxies {
            if proxy.is_active().await {
                active.push(proxy);
            }
        }
        (active.len() == 1).then(|| active[0])
    })
    .await;
    expect_served(&pair, active, load).await;
}

#[test]
fn proxy_that_slept_follows_the_one_that_followed_it() {
    run(
        "two_failures::proxy_that_slept_follows_the_one_that_followed_it",
        sleep_and_inherit,
    );
}

/// It knows nothing of the other proxy's work, so that it begins from scratch.
async fn sleep_and_inherit(test: &'static str) {
    let (mut pair, mut load) = under_load(test).await;
    pair.active.signal(Signal::STOP);
    pair.standby.status_text("Active").await;
    load.join(4..8);
    let is_written = || async { (load.counter(4) > 0).then_some(()) };
    wait("commit that was acknowledged", is_written).await;
    pair.standby.signal(Signal::KILL);
    pair.standby.child.wait().unwrap();
    pair.active.signal(Signal::CONT);
    pair.active.status_text("Lost").await;
    expect_served(&pair, &pair.active, load).await;
}
