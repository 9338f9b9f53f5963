//! Cores and a coordinator over real sockets on loopback: rows go in at one end and are found by
//! every index at the other.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod support;

use std::io::{Read, Write};

use placement::{Durability, Value};
use protocol::identity::{CoreId, Epoch, FinishedLine, Incarnation, ServerId};
use protocol::message::{Hello, Message, PeerHeader, PeerMessage, Request, Room};
use protocol::operation::RequestResult;
use server::CoordinatorOptions;
use support::{Cluster, RunningCoordinator, RunningServer, Teller, Wire};

#[test]
fn a_row_is_found_by_each_of_its_keys() {
    for durability in [Durability::Replicated, Durability::Sync] {
        let cluster = Cluster::start(3);
        let mut teller = Teller::new(cluster.coordinator.address);
        teller.create(support::people(durability));
        for id in 0..50 {
            let result = teller.insert(id, &format!("name {id}"), &format!("city {}", id % 5));
            assert!(
                matches!(result, RequestResult::Applied { .. }),
                "{result:?}"
            );
        }
        let duplicate = teller.insert(99, "name 7", "nowhere");
        assert!(
            matches!(duplicate, RequestResult::Duplicate { replex: 1, .. }),
            "{duplicate:?}"
        );
        for id in 0..50 {
            assert_eq!(teller.lookup(0, Value::Int64(id)).count, 1);
            assert_eq!(teller.lookup(1, Value::Text(format!("name {id}"))).count, 1);
        }
        for city in 0..5 {
            let page = teller.lookup(2, Value::Text(format!("city {city}")));
            assert_eq!((page.count, page.rows().count()), (10, 10));
        }
        assert_eq!(teller.lookup(2, Value::Text("nowhere".into())).count, 0);
        for server in cluster.servers {
            server.stop().unwrap();
        }
        cluster.coordinator.stop().unwrap();
    }
}

#[test]
fn connections_name_their_core_and_keep_to_it() {
    let cluster = Cluster::start(1);
    let address = cluster.servers[0].ready.addresses[0];
    let (mut good, welcome) = Wire::client(address);
    let hello = |cluster, core| Message::Hello(Hello { cluster, core });
    let core = CoreId {
        server: ServerId(9),
        core: 0,
    };
    let peer = |from| {
        let header = PeerHeader {
            from,
            incarnation: Incarnation(1),
            epoch: welcome.epoch,
            table_epoch: Epoch(0),
        };
        Message::Peer(
            header,
            PeerMessage::LeaseRequest {
                sent_us: 1,
                room: Room::Free,
                finished_below: FinishedLine::default(),
            },
        )
    };
    let cases = [
        (vec![Message::Request(Request::Status)], "must be a Hello"),
        (vec![hello(Some(welcome.cluster ^ 1), None)], "of cluster"),
        (vec![hello(None, None), peer(core)], "message of a core"),
        (
            vec![
                hello(None, Some((core, Incarnation(1)))),
                peer(CoreId::default()),
            ],
            "in the name of",
        ),
        (vec![hello(None, None), hello(None, None)], "second Hello"),
    ];
    for (messages, expected) in cases {
        let mut wire = Wire::connect(address);
        let welcomes = messages.len() - 1;
        for message in &messages {
            wire.send(0, message);
        }
        for _ in 0..welcomes {
            let answer = wire.receive().unwrap().message;
            assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
        }
        let reason = wire.farewell();
        assert!(reason.contains(expected), "{reason}");
    }
    assert_eq!(good.status("malformed"), 5);
    assert_eq!(good.status("clients"), 1);
}

#[test]
fn writes_and_reads_go_on_while_the_coordinator_is_offline() {
    let mut cluster = Cluster::start(3);
    let mut teller = Teller::new(cluster.coordinator.address);
    teller.create(support::people(Durability::Replicated));
    let options = CoordinatorOptions {
        listen: cluster.coordinator.address,
        ..CoordinatorOptions::new(cluster.folder.path().join("coordinator"))
    };
    cluster.coordinator.stop().unwrap();
    // Longer than a lease of the coordinator: from then on the servers vouch for each other.
    let begin = std::time::Instant::now();
    let mut id = 0;
    while begin.elapsed().as_millis() < 1500 {
        let result = teller.insert(id, &format!("name {id}"), "city");
        assert!(
            matches!(result, RequestResult::Applied { .. }),
            "{result:?}"
        );
        assert_eq!(teller.lookup(1, Value::Text(format!("name {id}"))).count, 1);
        id += 1;
    }
    // The next coordinator knows the table, and the servers find it.
    cluster.coordinator = RunningCoordinator::start(&options);
    let mut teller = Teller::new(cluster.coordinator.address);
    assert_eq!(teller.lookup(0, Value::Int64(0)).count, 1);
    let result = teller.insert(id, "last", "city");
    assert!(
        matches!(result, RequestResult::Applied { .. }),
        "{result:?}"
    );
}

#[test]
fn restarted_servers_have_every_row_and_take_new_ones() {
    let mut cluster = Cluster::start(3);
    let mut teller = Teller::new(cluster.coordinator.address);
    teller.create(support::people(Durability::Sync));
    let mut id = 0;
    for round in 0..3 {
        for _ in 0..20 {
            let result = teller.insert(id, &format!("name {id}"), "city");
            assert!(
                matches!(result, RequestResult::Applied { .. }),
                "{result:?}"
            );
            id += 1;
        }
        // One server, then another one, then all three at once.
        let restarted = if round < 2 { round..round + 1 } else { 0..3 };
        for number in restarted.clone() {
            cluster.servers[number].stop_and_wait().unwrap();
        }
        for number in restarted {
            let server = RunningServer::start(cluster.server_options(number)).unwrap();
            assert_eq!(server.ready.server.0 as usize, number + 1);
            assert_eq!(
                server.ready.incarnation,
                Incarnation(2 + u32::from(round == 2 && number < 2))
            );
            cluster.servers[number] = server;
        }
        for id in 0..id {
            assert_eq!(teller.lookup(0, Value::Int64(id)).count, 1, "row {id}");
            let name = Value::Text(format!("name {id}"));
            assert_eq!(teller.lookup(1, name).count, 1, "row {id}");
        }
        assert_eq!(
            teller.lookup(2, Value::Text("city".into())).count,
            id as u64
        );
        let duplicate = teller.insert(1000, "name 3", "city");
        assert!(
            matches!(duplicate, RequestResult::Duplicate { .. }),
            "{duplicate:?}"
        );
    }
}

#[test]
fn counters_are_served_as_text() {
    let mut cluster = Cluster::start(0);
    let mut options = cluster.server_options(0);
    options.cores = 2;
    options.metrics = Some("127.0.0.1:0".parse().unwrap());
    let server = RunningServer::start(options).unwrap();
    let address = server.ready.metrics.unwrap();
    cluster.servers.push(server);
    for _ in 0..2 {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        for core in 0..2 {
            let labels = format!("{{server=\"1\",core=\"{core}\"}}");
            assert!(
                body.contains(&format!("replex_core_up{labels} 1\n")),
                "{body}"
            );
            assert!(
                body.contains(&format!("replex_log_flushes{labels} ")),
                "{body}"
            );
        }
    }
}

#[test]
fn checkpoints_cut_the_log_and_lose_nothing() {
    let mut cluster = Cluster::start(0);
    let options = |cluster: &Cluster, number| {
        let mut options = cluster.server_options(number);
        options.store.memory_bytes = 1 << 20;
        options.store.checkpoint_bytes = 64 << 10;
        options.store.segment_bytes = 256 << 10;
        options
    };
    for number in 0..3 {
        let server = RunningServer::start(options(&cluster, number)).unwrap();
        cluster.servers.push(server);
    }
    let mut teller = Teller::new(cluster.coordinator.address);
    teller.create(support::people(Durability::Replicated));
    let mut id = 0;
    let status = |cluster: &Cluster, number: usize, name| {
        let address = cluster.servers[number].ready.addresses[0];
        Wire::client(address).0.status(name)
    };
    for round in 0..2 {
        let enough = |cluster: &Cluster| (0..3).all(|it| status(cluster, it, "checkpoints") >= 2);
        let begin = std::time::Instant::now();
        while !enough(&cluster) {
            assert!(
                begin.elapsed() < support::PATIENCE,
                "no checkpoint is taken"
            );
            for _ in 0..100 {
                let city = format!("city {}", id % 7);
                let result = teller.insert(id, &format!("name {id}"), &city);
                assert!(
                    matches!(result, RequestResult::Applied { .. }),
                    "{result:?}"
                );
                id += 1;
            }
        }
        let number = round;
        cluster.servers[number].stop_and_wait().unwrap();
        cluster.servers[number] = RunningServer::start(options(&cluster, number)).unwrap();
        for id in 0..id {
            assert_eq!(teller.lookup(0, Value::Int64(id)).count, 1, "row {id}");
            let name = Value::Text(format!("name {id}"));
            assert_eq!(teller.lookup(1, name).count, 1, "row {id}");
        }
    }
}

#[test]
fn a_log_that_is_missing_is_a_loss() {
    let cluster = Cluster::start(1);
    let options = cluster.server_options(0);
    for server in cluster.servers {
        server.stop().unwrap();
    }
    std::fs::remove_dir_all(options.folder.join("core-0")).unwrap();
    let error = RunningServer::start(options).err().unwrap().to_string();
    assert!(error.contains("core-0") || error.contains("log"), "{error}");
    cluster.coordinator.stop().unwrap();
}
