//! The client over real sockets against a server that misbehaves: which requests are repeated,
//! which outcomes are unknown, and the texts of errors.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use client::{Client, ConnectOptions, Error, IfExists, IfMissing, Retry};
use fake::Reaction;
use placement::{Value, encode_row};
use protocol::identity::{Epoch, ReaderId, RequestId, SnapshotId, Version};
use protocol::message::{
    OpenedSnapshot, Refusal, Reply, Request, RowPage, SnapshotReply, SnapshotRequest, SnapshotUse,
};
use protocol::operation::RequestResult;
use tokio::net::TcpListener;

const APPLIED: RequestResult = RequestResult::Applied {
    version: Version(7),
};

fn row(id: i64) -> [Value; 2] {
    [Value::Int64(id), Value::Bytes(vec![1])]
}

fn quick(options: &mut ConnectOptions) {
    options.deadline = Duration::from_millis(300);
}

/// An address that no process listens at.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_reply_lost_with_its_connection_arrives_by_the_next_one() {
    let effects: Arc<Mutex<HashMap<RequestId, u32>>> = Arc::default();
    let seen = effects.clone();
    let fake = fake::start(move |_, request| {
        let Request::Execute(execute) = request else {
            panic!("{request:?}");
        };
        let mut effects = effects.lock().unwrap();
        let times = effects.entry(execute.request).or_default();
        *times += 1;
        match *times {
            1 => Reaction::Close,
            _ => Reaction::Reply(Reply::Executed(APPLIED)),
        }
    })
    .await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    for id in 0..5 {
        assert_eq!(table.insert(&row(id)).await.unwrap(), APPLIED);
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 5, "each under a name of its own");
    assert!(seen.values().all(|times| *times == 2));
}

#[tokio::test]
async fn silence_until_the_deadline_is_unknown_for_writes_and_a_failure_for_reads() {
    let fake = fake::start(|_, _| Reaction::Silence).await;
    let client = fake.client(quick).await;
    let table = client.table("t").await.unwrap();
    let error = table.insert(&row(1)).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error}");
    assert_eq!(error.retry(), Retry::AfterReading);
    let error = table.get(&[Value::Int64(1)]).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert_eq!(error.retry(), Retry::Later);
}

#[tokio::test]
async fn an_unavailable_server_is_a_failure_with_its_address_and_reason() {
    let address = nowhere().await;
    let fake = fake::start_at(address.clone(), None, |_, _| Reaction::Silence).await;
    let client = fake.client(quick).await;
    let table = client.table("t").await.unwrap();
    let error = table.insert(&row(1)).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&address) && text.contains("refused"),
        "{text}"
    );
    assert!(text.contains("a write to table t"), "{text}");
}

#[tokio::test]
async fn a_server_at_a_new_address_is_found() {
    let fake = fake::start_at(nowhere().await, None, |_, _| Reaction::Silence).await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let there = fake::start(|_, _| Reaction::Reply(Reply::Executed(APPLIED))).await;
    {
        let moved = there.configuration.lock().unwrap().servers.clone();
        let mut configuration = fake.configuration.lock().unwrap();
        configuration.servers = moved;
        configuration.epoch = Epoch(2);
    }
    assert_eq!(table.insert(&row(1)).await.unwrap(), APPLIED);
}

#[tokio::test]
async fn an_accepted_change_is_unknown_if_the_coordinator_ends_before_the_client_learns_of_it() {
    for change in 0..5 {
        let fake = fake::start(|_, _| Reaction::Silence).await;
        let client = fake.client(quick).await;
        fake.accepts.store(true, Ordering::SeqCst);
        let result = match change {
            0 => client
                .create_table(fake::schema(), IfExists::Accept)
                .await
                .map(drop),
            1 => client.drop_table("t", IfMissing::Fail).await,
            2 => client.drain_server(fake::core().server).await,
            3 => client.end_drain(fake::core().server).await,
            _ => client.drop_copy("t", "by_a", IfMissing::Fail).await,
        };
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{change}: {error}");
        assert_eq!(error.retry(), Retry::AfterReading);
        assert!(error.to_string().contains("accepted"), "{error}");
    }
}

#[tokio::test]
async fn a_question_lost_with_its_connection_is_asked_again() {
    let fake = fake::start(|_, _| Reaction::Silence).await;
    fake.losses.store(2, Ordering::SeqCst);
    let client = fake.client(|_| {}).await;
    fake.losses.store(2, Ordering::SeqCst);
    fake.configuration.lock().unwrap().epoch = Epoch(2);
    assert_eq!(client.refresh().await.unwrap().epoch, Epoch(2));
    assert_eq!(fake.losses.load(Ordering::SeqCst), 0);

    // The coordinator of this test serves one connection at a time.
    drop(client);
    let client = fake.client(quick).await;
    fake.losses.store(u64::MAX, Ordering::SeqCst);
    let error = client.refresh().await.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let error = Client::connect(ConnectOptions {
        deadline: Duration::from_millis(300),
        ..ConnectOptions::new([&fake.coordinator])
    });
    let error = error.await.err().unwrap();
    assert!(matches!(error, Error::NoCoordinator { .. }), "{error}");
}

#[tokio::test]
async fn a_goodbye_is_reported() {
    let fake = fake::start(|_, _| Reaction::Goodbye("the cellar is flooded".into())).await;
    let client = fake.client(quick).await;
    let table = client.table("t").await.unwrap();
    let error = table.get(&[Value::Int64(1)]).await.unwrap_err();
    assert!(
        error.to_string().contains("the cellar is flooded"),
        "{error}"
    );
}

#[tokio::test]
async fn bytes_that_are_no_frame_cost_a_connection_and_nothing_else() {
    let mut bad = vec![
        vec![0xff; 40],
        vec![0; 40],
        vec![13, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0],
    ];
    let fake = fake::start(move |_, _| match bad.pop() {
        Some(bytes) => Reaction::Bytes(bytes),
        None => Reaction::Reply(Reply::Executed(APPLIED)),
    })
    .await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    assert_eq!(table.insert(&row(1)).await.unwrap(), APPLIED);
    assert_eq!(fake.counts.lock().unwrap().1, 4, "connections");
}

#[tokio::test]
async fn a_stale_configuration_is_fetched_once_and_the_request_repeated() {
    let fake = fake::start(|_, request| {
        let Request::Execute(execute) = request else {
            panic!("{request:?}");
        };
        let epoch = Epoch(5);
        Reaction::Reply(match execute.epoch == epoch {
            true => Reply::Executed(APPLIED),
            false => Reply::Refused(Refusal::StaleEpoch { epoch }),
        })
    })
    .await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    {
        let mut configuration = fake.configuration.lock().unwrap();
        configuration.epoch = Epoch(5);
        configuration.tables[0].epoch = Epoch(5);
    }
    let before = fake.counts.lock().unwrap().0;
    assert_eq!(table.insert(&row(1)).await.unwrap(), APPLIED);
    assert_eq!(client.configuration().epoch, Epoch(5));
    assert_eq!(fake.counts.lock().unwrap().0, before + 1);
}

#[tokio::test]
async fn replies_in_any_order_reach_their_request() {
    reorder().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replies_in_any_order_reach_their_request_on_several_threads() {
    for _ in 0..10 {
        reorder().await;
    }
}

/// A hundred reads at a time, answered in reverse.
async fn reorder() {
    const COUNT: usize = 100;
    let mut waiting = Vec::new();
    let fake = fake::start(move |correlation, request| {
        let Request::Read(read) = request else {
            panic!("{request:?}");
        };
        let mut page = RowPage::default();
        page.push(Version(1), &read.start);
        waiting.push((correlation, Reply::Rows(page)));
        if waiting.len() < COUNT {
            return Reaction::Silence;
        }
        waiting.reverse();
        Reaction::Replies(std::mem::take(&mut waiting))
    })
    .await;
    // Nothing is repeated, however slow the machine.
    let patient =
        |options: &mut ConnectOptions| options.attempt = Duration::from_micros(u64::MAX >> 8);
    let client = fake.client(patient).await;
    let table = client.table("t").await.unwrap();
    let mut reads = tokio::task::JoinSet::new();
    for id in 0..COUNT {
        let table = table.clone();
        reads.spawn(async move {
            let key = table.pk(&[Value::Int64(id as i64)]).unwrap();
            let page = table.get_raw(0, &key, 1).await.unwrap();
            assert_eq!(page.rows().next().unwrap().1, &key[..]);
        });
    }
    while let Some(result) = reads.join_next().await {
        result.unwrap();
    }
}

#[tokio::test]
async fn a_request_without_a_waiter_is_acknowledged() {
    let below: Arc<Mutex<Vec<u64>>> = Arc::default();
    let seen = below.clone();
    let mut first = true;
    let fake = fake::start(move |_, request| {
        let Request::Execute(execute) = request else {
            panic!("{request:?}");
        };
        below.lock().unwrap().push(execute.acknowledged_below);
        if std::mem::take(&mut first) {
            return Reaction::Silence;
        }
        Reaction::Reply(Reply::Executed(APPLIED))
    })
    .await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let (one, another) = (row(1), row(2));
    tokio::select! {
        biased;
        result = table.insert(&one) => panic!("{result:?}"),
        () = asked(&seen) => {}
    }
    assert_eq!(table.insert(&another).await.unwrap(), APPLIED);
    assert_eq!(*seen.lock().unwrap(), [1, 2]);
}

/// Ends when the server has been asked something.
async fn asked(seen: &Mutex<Vec<u64>>) {
    while seen.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn large_rows_come_page_by_page() {
    const ROWS: i64 = 12;
    let columns = fake::schema().columns;
    let opened = OpenedSnapshot {
        share: SnapshotUse {
            snapshot: SnapshotId::default(),
            reader: ReaderId(1),
            user: 1,
        },
        at: Version(1),
        lease_us: 10_000_000,
    };
    let fake = fake::start(move |_, request| {
        let read = match request {
            Request::Read(read) => read,
            Request::Snapshot(SnapshotRequest::Open { .. }) => {
                return Reaction::Reply(Reply::Snapshot(SnapshotReply::Opened(opened)));
            }
            Request::Snapshot(SnapshotRequest::Close(share)) => {
                assert_eq!(share, opened.share);
                return Reaction::Reply(Reply::Snapshot(SnapshotReply::Closed));
            }
            other => panic!("{other:?}"),
        };
        // Every page has one row of half a megabyte; its key continues the read.
        let number = read.start.first().copied().unwrap_or(0);
        let mut page = RowPage::default();
        let id = i64::from(number) * 2 + i64::from(read.partition.number);
        let large = Value::Bytes(vec![number; 500_000]);
        let row = encode_row(&columns, &[Value::Int64(id), large]).unwrap();
        page.push(Version(1), &row);
        let more = i64::from(number) + 1 < ROWS / 2;
        page.next = more.then(|| vec![number + 1].into());
        Reaction::Reply(Reply::Rows(page))
    })
    .await;
    let client = fake.client(|_| {}).await;
    let table = client.table("t").await.unwrap();
    let mut rows = table.scan().ascending().rows().unwrap();
    let mut ids = Vec::new();
    while let Some(page) = rows.next_page().await.unwrap() {
        ids.extend(page.iter().map(|row| row.values[0].clone()));
    }
    let expected: Vec<Value> = (0..ROWS).map(Value::Int64).collect();
    assert_eq!(ids, expected);
    let limited = table.scan().limit(3).rows().unwrap().all().await.unwrap();
    assert_eq!(limited.len(), 3);
}

#[tokio::test]
async fn every_coordinator_is_tried_and_named() {
    let fake = fake::start(|_, _| Reaction::Silence).await;
    let dead = nowhere().await;
    let options = ConnectOptions::new([dead.clone(), fake.coordinator.clone()]);
    let client = Client::connect(options).await.unwrap();
    assert_eq!(client.configuration().epoch, Epoch(1));

    let mut options = ConnectOptions::new([dead.clone(), "127.0.0.1:1".to_owned()]);
    quick(&mut options);
    let error = Client::connect(options).await.unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains(&dead) && text.contains("127.0.0.1:1:"),
        "{text}"
    );
    assert_eq!(error.retry(), Retry::Later);
}

#[tokio::test]
async fn the_coordinators_refusal_is_returned_in_its_words() {
    let fake = fake::start(|_, _| Reaction::Silence).await;
    let client = fake.client(|_| {}).await;
    let error = client.drop_table("t", IfMissing::Fail).await.unwrap_err();
    assert_eq!(error.to_string(), "this coordinator changes nothing");
    assert_eq!(error.retry(), Retry::Never);
    let error = client.table("u").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no table u: there are t");
}

#[tokio::test]
async fn too_much_at_once_is_refused_here() {
    let fake = fake::start(|_, _| Reaction::Silence).await;
    let client = fake
        .client(|options| {
            quick(options);
            options.requests_max = 3;
        })
        .await;
    let table = client.table("t").await.unwrap();
    let mutations: Vec<_> = (0..5)
        .map(|id| table.insertion(&row(id)).unwrap())
        .collect();
    let results = table.execute_all(mutations, 10).await;
    let full = results.iter().filter(|it| **it == Err(Error::Full)).count();
    assert_eq!(full, 2, "{results:?}");
}

#[test]
fn a_client_ends_with_its_runtime_and_reports_it() {
    let runtime = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let first = runtime();
    let table = first.block_on(async {
        let fake = fake::start(|_, _| Reaction::Silence).await;
        let client = fake.client(|_| {}).await;
        client.table("t").await.unwrap()
    });
    drop(first);
    let error = runtime().block_on(table.client().refresh()).unwrap_err();
    assert_eq!(error, Error::Closed);
    let error = runtime().block_on(table.insert(&row(1))).unwrap_err();
    assert_eq!(error, Error::Closed);
}

#[test]
fn handles_may_go_to_any_thread() {
    fn any_thread<T: Send + Sync>() {}
    any_thread::<Client>();
    any_thread::<client::Table>();
    any_thread::<client::Rows>();
    any_thread::<client::Lookup>();
    any_thread::<Error>();
}
