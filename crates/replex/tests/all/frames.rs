//! Bytes and requests that no client would send: the process reports the reason, closes or refuses,
//! and no other client notices.

use std::io::ErrorKind;

use placement::Durability;
use protocol::frame;
use protocol::identity::{CoreId, Epoch, PartitionId, ServerId, TableId};
use protocol::message::{Hello, Message, Read, Refusal, Reply, Request};
use replex::cluster::Cluster;
use replex::wire::FrameConnection;

use crate::support;
use crate::support::noise::Noise;

/// Memory that a process may take beyond its earlier size, for any number of malformed frames.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// The first core of the first server, and its address.
async fn first_core(cluster: &Cluster) -> String {
    let configuration = cluster.configuration().await.unwrap();
    configuration.servers[0].cores[0].clone()
}

/// Sends bytes and reads until the other side closes. Returns the reason it gave.
async fn provoke(address: &str, bytes: &[u8]) -> Option<String> {
    let mut connection = FrameConnection::open(address).await.unwrap();
    // It may close before it has read everything.
    let _ = connection.send(bytes).await;
    let mut reason = None;
    loop {
        match connection.receive().await {
            Ok(frame) => {
                if let Message::Goodbye { reason: text } = frame.message {
                    reason = Some(text);
                }
            }
            Err(error) => {
                let closed = [
                    ErrorKind::UnexpectedEof,
                    ErrorKind::ConnectionReset,
                    ErrorKind::BrokenPipe,
                ];
                assert!(closed.contains(&error.kind()), "not closed: {error}");
                return reason;
            }
        }
    }
}

fn hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    let hello = Hello {
        cluster: None,
        core: None,
    };
    frame::encode(0, &Message::Hello(hello), &mut bytes);
    bytes
}

/// One frame that is malformed in a way that depends on `noise`.
fn malformed(noise: &mut Noise) -> Vec<u8> {
    let mut bytes = Vec::new();
    let request = Message::Request(Request::Status);
    frame::encode(noise.next(), &request, &mut bytes);
    match noise.next() % 4 {
        // A flipped bit, which the checksum finds (in the length field: another length).
        0 => {
            let at = 4 + noise.next() as usize % (bytes.len() - 4);
            bytes[at] ^= 1 << (noise.next() % 8);
            bytes
        }
        // A length below the header's.
        1 => {
            let length = (noise.next() % 12) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes
        }
        // A length beyond the limit.
        2 => {
            let length = frame::FRAME_BYTES_MAX as u32 + (noise.next() >> 40) as u32;
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            bytes
        }
        // A whole frame, checksum and all, around bytes that are no message.
        _ => {
            let mut body = vec![frame::FORMAT_VERSION];
            body.extend_from_slice(&noise.next().to_le_bytes());
            body.push(0xee);
            body.extend((0..noise.next() % 64).map(|_| noise.next() as u8));
            let mut bytes = (body.len() as u32 + 4).to_le_bytes().to_vec();
            bytes.extend_from_slice(&crc32c::crc32c(&body).to_le_bytes());
            bytes.extend_from_slice(&body);
            bytes
        }
    }
}

#[tokio::test]
async fn ten_thousand_malformed_frames_cost_only_their_connections() {
    let cluster = support::cluster(1).await;
    let address = first_core(&cluster).await;
    let (mut bystander, _) = FrameConnection::greet(&address).await.unwrap();
    let mut noise = Noise::new(0x5eed_0001);
    // The first ones warm up buffers that stay.
    for _ in 0..200 {
        provoke(&address, &malformed(&mut noise)).await;
    }
    let before = cluster.server(0).resident_bytes().unwrap();
    let mut with_reason = 0;
    for round in 0..10_000 {
        let mut bytes = if round % 2 == 0 { hello() } else { Vec::new() };
        bytes.extend(malformed(&mut noise));
        with_reason += u32::from(provoke(&address, &bytes).await.is_some());
        if round % 1_000 == 0 {
            let reply = bystander.request(Request::Status).await.unwrap();
            assert!(matches!(reply, Reply::Status(_)), "{reply:?}");
        }
    }
    assert!(with_reason > 9_900, "only {with_reason} received a reason");
    let after = cluster.server(0).resident_bytes().unwrap();
    assert!(
        after < before + GROWTH_BYTES_MAX,
        "resident memory went from {before} to {after} bytes"
    );
    let core = CoreId {
        server: ServerId(1),
        core: 0,
    };
    let counters = cluster.counters(core).await.unwrap();
    let counted = counters.iter().find(|(name, _)| name == "malformed");
    assert!(counted.unwrap().1 >= 10_000, "{counted:?}");
}

#[tokio::test]
async fn frame_that_claims_four_gigabytes_is_refused_before_memory_is_taken() {
    let cluster = support::cluster(1).await;
    let core = first_core(&cluster).await;
    for (address, process) in [
        (core.as_str(), cluster.server(0)),
        (cluster.coordinator_address(), cluster.coordinator(0)),
    ] {
        let before = process.resident_bytes().unwrap();
        let mut bytes = hello();
        bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        bytes.extend_from_slice(&[0; 4_096]);
        let reason = provoke(address, &bytes).await.unwrap();
        assert!(reason.contains("4294967295 bytes"), "{reason}");
        let after = process.resident_bytes().unwrap();
        assert!(after < before + GROWTH_BYTES_MAX, "{before} to {after}");
    }
}

#[tokio::test]
async fn first_frame_must_be_a_hello_to_the_right_cluster() {
    let cluster = support::cluster(1).await;
    let address = first_core(&cluster).await;
    let mut bytes = Vec::new();
    frame::encode(1, &Message::Request(Request::Status), &mut bytes);
    let reason = provoke(&address, &bytes).await.unwrap();
    assert!(reason.contains("Hello"), "{reason}");

    let mut bytes = Vec::new();
    let stranger = Hello {
        cluster: Some(0xdead_beef),
        core: None,
    };
    frame::encode(1, &Message::Hello(stranger), &mut bytes);
    let reason = provoke(&address, &bytes).await.unwrap();
    assert!(reason.contains("00000000deadbeef"), "{reason}");
}

fn read(epoch: Epoch, partition: PartitionId) -> Request {
    Request::Read(Read {
        limit: 10,
        ..Read::of(epoch, partition)
    })
}

#[tokio::test]
async fn stale_client_and_wrong_server_are_refused() {
    let cluster = support::cluster(3).await;
    support::create(&cluster, support::people(2, Durability::Sync)).await;
    let configuration = cluster.configuration().await.unwrap();
    let table = configuration.table_named("people").unwrap();
    let held = PartitionId {
        table: table.id,
        replex: 1,
        number: 2,
    };
    let place = configuration.place(held).unwrap();
    let address = configuration.address(place.core).unwrap();
    let (mut holder, _) = FrameConnection::greet(address).await.unwrap();

    let reply = holder
        .request(read(configuration.epoch, held))
        .await
        .unwrap();
    assert!(matches!(reply, Reply::Rows(_)), "{reply:?}");
    let stale = Epoch(configuration.epoch.0 - 1);
    let reply = holder.request(read(stale, held)).await.unwrap();
    let epoch = configuration.epoch;
    assert_eq!(reply, Reply::Refused(Refusal::StaleEpoch { epoch }));

    let mut servers = configuration.servers.iter();
    let other = servers.find(|server| server.id != place.core.server);
    let (mut other, _) = FrameConnection::greet(&other.unwrap().cores[0])
        .await
        .unwrap();
    let reply = other
        .request(read(configuration.epoch, held))
        .await
        .unwrap();
    assert_eq!(reply, Reply::Refused(Refusal::WrongPartition));
    let nowhere = PartitionId {
        table: TableId(table.id.0 + 1),
        ..held
    };
    let reply = holder
        .request(read(configuration.epoch, nowhere))
        .await
        .unwrap();
    assert_eq!(reply, Reply::Refused(Refusal::WrongPartition));
}
