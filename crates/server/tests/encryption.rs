//! The event loop with TLS: frames of every size in both directions, and other sides that use no
//! TLS, stop in the middle of a handshake, or read slowly.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

#[path = "../../../tests/certificates.rs"]
mod certificates;
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cluster_tls::{ClientConnection, CredentialFiles, Credentials, StreamOwned};
use protocol::codec::Bytes;
use protocol::frame;
use protocol::message::Message;
use server::event_loop::LoopLimits;
use support::echo::Echo;

/// How long a test waits for an answer that must come.
const PATIENCE: Duration = Duration::from_secs(30);

fn credentials() -> Credentials {
    let folder = tempfile::tempdir().unwrap();
    let issuer = certificates::authority(folder.path());
    certificates::node(folder.path(), &issuer);
    Credentials::read(folder.path(), CredentialFiles::Node).unwrap()
}

type Encrypted = StreamOwned<ClientConnection, TcpStream>;

fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn encrypted(address: SocketAddr, credentials: &Credentials) -> Encrypted {
    StreamOwned::new(credentials.connect().unwrap(), plain(address))
}

/// Returns the next message; none at the end of the connection, however it ended.
fn receive(stream: &mut impl Read, received: &mut Vec<u8>) -> Option<(u64, Message)> {
    let mut chunk = vec![0; 64 << 10];
    loop {
        if let Some((frame, size)) = frame::decode(received).unwrap() {
            received.drain(..size);
            return Some((frame.correlation, frame.message));
        }
        match stream.read(&mut chunk) {
            Ok(0) => return None,
            Ok(count) => received.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no answer"),
            Err(_) => return None,
        }
    }
}

fn echo(stream: &mut (impl Read + Write), correlation: u64, size: usize) {
    let body = Message::Echo(Bytes(vec![correlation as u8; size]));
    let mut bytes = Vec::new();
    frame::encode(correlation, &body, &mut bytes);
    stream.write_all(&bytes).unwrap();
    stream.flush().unwrap();
    let answer = receive(stream, &mut Vec::new());
    assert!(answer == Some((correlation, body)), "{size} bytes");
}

#[test]
fn frames_of_every_size_pass_a_chain_of_three() {
    let credentials = credentials();
    let start = |next| Echo::encrypted(Some(&credentials), next, LoopLimits::default());
    let last = start(None);
    let middle = start(Some(last.address));
    let first = start(Some(middle.address));
    let mut stream = encrypted(first.address, &credentials);
    let sizes = [0, 1, 4_000, 16_384, 16_385, 70_000, 1 << 20, 6 << 20, 3];
    for (correlation, size) in (1..).zip(sizes) {
        echo(&mut stream, correlation, size);
    }
    // Many at once, written beside the reading.
    let mut bytes = Vec::new();
    let body =
        |correlation: u64| Message::Echo(Bytes(vec![7; (correlation * 37 % 5_000) as usize]));
    for correlation in 100..1_100 {
        frame::encode(correlation, &body(correlation), &mut bytes);
    }
    let mut received = Vec::new();
    for piece in bytes.chunks(50_000) {
        stream.write_all(piece).unwrap();
        stream.flush().unwrap();
    }
    for correlation in 100..1_100 {
        let answer = receive(&mut stream, &mut received);
        assert!(answer == Some((correlation, body(correlation))));
    }
}

#[test]
fn a_side_without_tls_is_closed_and_harms_no_other() {
    let credentials = credentials();
    let process = Echo::encrypted(Some(&credentials), None, LoopLimits::default());
    let mut good = encrypted(process.address, &credentials);
    echo(&mut good, 1, 10);
    let mut bare = plain(process.address);
    let mut bytes = Vec::new();
    frame::encode(1, &Message::Echo(Bytes(vec![0; 10])), &mut bytes);
    bare.write_all(&bytes).unwrap();
    // An alert of TLS.
    let mut answer = Vec::new();
    let _ = bare.read_to_end(&mut answer);
    let error = frame::check_first(&answer).unwrap_err().to_string();
    assert!(error.contains("--certificates"), "{error}");
    echo(&mut good, 2, 10);

    let process = Echo::encrypted(None, None, LoopLimits::default());
    let mut eager = encrypted(process.address, &credentials);
    let error = eager.write_all(&bytes).and_then(|()| eager.flush());
    let error = error.and_then(|()| eager.read(&mut [0; 10]).map(drop));
    let error = cluster_tls::explain(&error.unwrap_err());
    assert!(error.contains("does not use TLS"), "{error}");
}

#[test]
fn an_unfinished_handshake_is_ended_in_time() {
    let credentials = credentials();
    let limits = LoopLimits {
        patience_us: 300_000,
        sweep_us: 50_000,
        ..LoopLimits::default()
    };
    let process = Echo::encrypted(Some(&credentials), None, limits);
    let mut good = encrypted(process.address, &credentials);
    echo(&mut good, 1, 10);
    let mut half = plain(process.address);
    let mut hello = Vec::new();
    credentials
        .connect()
        .unwrap()
        .write_tls(&mut hello)
        .unwrap();
    half.write_all(&hello[..hello.len() / 2]).unwrap();
    let mut silent = plain(process.address);
    for stream in [&mut half, &mut silent] {
        // The end comes; an error of the socket is an end, too.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    echo(&mut good, 2, 10);
}

#[test]
fn a_slow_reader_is_held_back_and_gets_everything_later() {
    let credentials = credentials();
    let process = Echo::encrypted(Some(&credentials), None, LoopLimits::default());
    let mut good = encrypted(process.address, &credentials);
    let mut slow = encrypted(process.address, &credentials);
    echo(&mut slow, 1, 10);
    slow.sock.set_nonblocking(true).unwrap();
    let body = Message::Echo(Bytes(vec![5; 1 << 20]));
    let mut bytes = Vec::new();
    frame::encode(7, &body, &mut bytes);
    // Sends without reading until nothing more is taken.
    let mut sent = 0_usize;
    let mut stuck = 0;
    while stuck < 20 {
        let from = sent % bytes.len();
        match slow.write(&bytes[from..]) {
            Ok(count) => {
                sent += count;
                stuck = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                stuck += 1;
                echo(&mut good, stuck, 1000);
            }
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 1 << 30, "nothing holds it back");
    }
    assert!(sent > bytes.len(), "{sent}");
    echo(&mut good, 99, 100_000);
}
