//! Servers that stop in good order: the work that they wait for, their last messages, and that the
//! next process of a server then need not wait for a lease (R15).
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod support;

use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use ::coordinator::CoordinatorSettings;
use placement::{Durability, Value};
use protocol::identity::{Incarnation, Position, ServerId};
use protocol::message::{CoordinatorRequest, Message};
use protocol::operation::RequestResult;
use server::ServerOptions;
use support::{Cluster, PATIENCE, RunningServer, Teller, Wire};

const HOUR_US: u64 = 3_600_000_000;

/// Leases that outlast every test: a server that gets in does so because a lease was given back.
fn long_leases() -> CoordinatorSettings {
    CoordinatorSettings {
        lease_us: HOUR_US,
        ..CoordinatorSettings::default()
    }
}

fn impatient(options: ServerOptions) -> ServerOptions {
    ServerOptions {
        join_patience: Duration::ZERO,
        ..options
    }
}

#[test]
fn a_server_that_stopped_is_let_in_again_at_once() {
    let mut cluster = Cluster::start_with(1, long_leases());
    for incarnation in 2..4 {
        cluster.servers[0].stop_and_wait().unwrap();
        let server = RunningServer::start(impatient(cluster.server_options(0))).unwrap();
        let expected = (ServerId(1), Incarnation(incarnation));
        assert_eq!((server.ready.server, server.ready.incarnation), expected);
        cluster.servers[0] = server;
    }
}

#[test]
fn a_lost_goodbye_is_reported_by_the_folder() {
    let cluster = Cluster::start_with(0, long_leases());
    let coordinator = LossyCoordinator::before(cluster.coordinator.address);
    let mut options = cluster.server_options(0);
    options.coordinators = vec![coordinator.address.to_string()];
    let server = RunningServer::start(options.clone()).unwrap();
    let address = server.ready.addresses[0];
    let (mut client, _) = Wire::client(address);
    let stopping = std::thread::spawn(move || server.stop());

    let (goodbye, connection) = coordinator.goodbyes.recv_timeout(PATIENCE).unwrap();
    let expected = CoordinatorRequest::Stopped {
        server: ServerId(1),
        incarnation: Incarnation(1),
        logs: vec![last_position(&goodbye)],
    };
    assert_eq!(goodbye, expected);
    // The process is still there, and waits for an answer; it serves nothing any more.
    TcpStream::connect(address).unwrap_err();
    assert_eq!(client.farewell(), "this process is stopping");
    connection.stream.shutdown(Shutdown::Both).unwrap();
    stopping.join().unwrap().unwrap();

    options.coordinators = vec![cluster.coordinator.address.to_string()];
    let copied = cluster.folder.path().join("copy");
    support::copy_folder(&options.folder, &copied);
    let server = RunningServer::start(impatient(options.clone())).unwrap();
    assert_eq!(server.ready.incarnation, Incarnation(2));
    // A copy reports the same, of a process that is not the last one any more.
    options.folder = copied;
    let error = RunningServer::start(impatient(options)).err().unwrap();
    assert!(error.to_string().contains("server 1 is in use"), "{error}");
}

#[test]
fn a_stopping_server_waits_for_its_own_clients_only() {
    let mut cluster = Cluster::start(1);
    for number in 1..3 {
        let mut options = cluster.server_options(number);
        options.loop_limits.stop_us = HOUR_US;
        cluster.servers.push(RunningServer::start(options).unwrap());
    }
    let mut teller = Teller::new(cluster.coordinator.address);
    teller.create(support::people(Durability::Sync));
    // The decider is offline, so that an insert stays undecided at the members before it.
    cluster.servers[2].stop_and_wait().unwrap();
    let insert = std::thread::spawn(move || {
        let result = teller.insert(1, "Ada", "London");
        (teller, result)
    });
    let middle = cluster.servers[1].ready.addresses[0];
    let (mut middle, _) = Wire::client(middle);
    let begin = Instant::now();
    while middle.status("undecided") == 0 {
        assert!(begin.elapsed() < PATIENCE, "the insert does not come");
    }
    cluster.servers[1].stop_and_wait().unwrap();
    for number in 1..3 {
        cluster.servers[number] = RunningServer::start(cluster.server_options(number)).unwrap();
    }
    let (mut teller, result) = insert.join().unwrap();
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
    assert_eq!(teller.lookup(1, Value::Text("Ada".into())).count, 1);
}

/// Passes everything on to a coordinator and back, but for goodbyes, which it keeps to itself.
struct LossyCoordinator {
    address: SocketAddr,
    /// Goodbyes, each with the connection on which its sender waits.
    goodbyes: Receiver<(CoordinatorRequest, Wire)>,
}

impl LossyCoordinator {
    fn before(coordinator: SocketAddr) -> LossyCoordinator {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, goodbyes) = mpsc::channel();
        // Its threads end with their connections, or with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, sender) = (stream.unwrap(), sender.clone());
                std::thread::spawn(move || pass_on(stream, coordinator, &sender));
            }
        });
        LossyCoordinator { address, goodbyes }
    }
}

fn pass_on(
    server: TcpStream,
    coordinator: SocketAddr,
    sender: &Sender<(CoordinatorRequest, Wire)>,
) {
    let mut upstream = Wire::connect(coordinator);
    let mut answers = upstream.stream.try_clone().unwrap();
    let mut back = server.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
    let mut server = Wire::over(server);
    while let Some(frame) = server.receive() {
        match frame.message {
            Message::Ask(request @ CoordinatorRequest::Stopped { .. }) => {
                // The receiver is gone once the test has its result.
                let _ = sender.send((request, server));
                return;
            }
            message => upstream.send(frame.correlation, &message),
        }
    }
}

/// Where the log of the only core ends, by the goodbye.
fn last_position(goodbye: &CoordinatorRequest) -> Position {
    match goodbye {
        CoordinatorRequest::Stopped { logs, .. } => logs[0],
        other => panic!("{other:?}"),
    }
}
