//! The event loop against clients that are slow, silent, many, or malformed: each gets a reason,
//! and none of them costs the others anything.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

#[path = "../../../tests/needs.rs"]
mod needs;
mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use protocol::codec::Bytes;
use protocol::frame::{self, Frame};
use protocol::message::Message;
use server::ServerError;
use server::clock::Clock;
use server::event_loop::{
    ConnectionId, ConnectionSide, EventLoop, Handler, Io, LoopLimits, LoopOptions,
};
use support::Wire;
use support::echo::Echo;

/// A user's number that no user has.
const UNUSED_USER: u32 = 65534;

/// Small, fast and the same on every machine (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

#[test]
fn strangers_are_refused_with_a_reason() {
    let limits = LoopLimits {
        own_user_only: true,
        ..LoopLimits::default()
    };
    let echo = Echo::start(limits);
    let mut own = Wire::connect(echo.address);
    own.echo(1, 10);
    let is_root = rustix::process::geteuid().is_root();
    if needs::require("root, which can run as another user", is_root.then_some(())).is_none() {
        return;
    }
    let (host, port) = (echo.address.ip(), echo.address.port());
    let listen = format!("exec 3<>/dev/tcp/{host}/{port}; cat <&3");
    let mut stranger = Command::new("bash");
    let output = stranger
        .args(["-c", &listen])
        .uid(UNUSED_USER)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout);
    assert!(output.contains("only processes of the user"), "{output}");
    own.echo(2, 10);
}

#[test]
fn answers_come_in_order_with_their_correlations() {
    let echo = Echo::start(LoopLimits::default());
    let mut wire = Wire::connect(echo.address);
    let mut bytes = Vec::new();
    for correlation in 0..20_000_u64 {
        let body = vec![correlation as u8; (correlation % 300) as usize];
        frame::encode(correlation, &Message::Echo(Bytes(body)), &mut bytes);
    }
    // Written beside the reading, for the echo stops reading from a client that does not take its
    // answers.
    let mut writer = wire.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    for correlation in 0..20_000_u64 {
        let frame = wire.receive().unwrap();
        assert_eq!(frame.correlation, correlation);
        let body = vec![correlation as u8; (correlation % 300) as usize];
        assert_eq!(frame.message, Message::Echo(Bytes(body)));
    }
    writing.join().unwrap();
}

#[test]
fn frames_of_every_size_arrive_in_any_pieces() {
    let echo = Echo::start(LoopLimits {
        read_bytes: 4096,
        ..LoopLimits::default()
    });
    let mut wire = Wire::connect(echo.address);
    let mut random = Random(1);
    let sizes = [0, 1, 4000, 4074, 4075, 4096, 5000, 100_000, 3 << 20, 17];
    for (correlation, size) in (0..).zip(sizes) {
        let mut bytes = Vec::new();
        let message = Message::Echo(Bytes(vec![3; size]));
        frame::encode(correlation, &message, &mut bytes);
        let mut writer = wire.stream.try_clone().unwrap();
        let pieces: Vec<usize> = (0..20).map(|_| random.below(bytes.len())).collect();
        let writing = std::thread::spawn(move || {
            let mut cuts = pieces;
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            for cut in cuts.windows(2) {
                writer.write_all(&bytes[cut[0]..cut[1]]).unwrap();
            }
        });
        let frame = wire.receive().unwrap();
        assert_eq!((frame.correlation, frame.message), (correlation, message));
        writing.join().unwrap();
    }
}

#[test]
fn malformed_frames_are_answered_with_a_reason_and_do_no_harm() {
    let echo = Echo::start(LoopLimits::default());
    let mut other = Wire::connect(echo.address);
    let mut good = Vec::new();
    frame::encode(5, &Message::Echo(Bytes(vec![1; 40])), &mut good);
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut bad = good.clone();
        let mut wire = Wire::connect(echo.address);
        let random_bytes = seed % 2 == 0;
        if random_bytes {
            bad = (0..64).map(|_| random.next() as u8).collect();
            // A length that never comes would be waited for.
            bad[..4].copy_from_slice(&60_u32.to_le_bytes());
        } else {
            let at = 4 + random.below(bad.len() - 4);
            bad[at] ^= 1 << random.below(8);
        }
        wire.stream.write_all(&bad).unwrap();
        let reason = wire.farewell();
        assert!(reason.contains("a frame"), "seed {seed}: {reason}");
        if seed % 100 == 0 {
            other.echo(seed, 100);
        }
    }
    other.echo(1, 100);
}

#[test]
fn a_frame_that_claims_four_gigabytes_is_refused_at_once() {
    let echo = Echo::start(LoopLimits::default());
    let mut other = Wire::connect(echo.address);
    for length in [u32::MAX, frame::FRAME_BYTES_MAX as u32, 12, 0] {
        let mut wire = Wire::connect(echo.address);
        wire.stream.write_all(&length.to_le_bytes()).unwrap();
        let reason = wire.farewell();
        assert!(reason.contains(&length.to_string()), "{reason}");
        other.echo(1, 10);
    }
}

#[test]
fn large_frames_under_way_share_a_bound() {
    let echo = Echo::start(LoopLimits {
        large_frames_bytes_max: 10 << 20,
        ..LoopLimits::default()
    });
    let begin = |size: u32| {
        let mut wire = Wire::connect(echo.address);
        wire.stream.write_all(&size.to_le_bytes()).unwrap();
        wire
    };
    let mut first = begin(7 << 20);
    // It must have been counted before the second one comes.
    let mut echoed = Wire::connect(echo.address);
    echoed.echo(1, 1);
    let mut second = begin(7 << 20);
    let reason = second.farewell();
    assert!(reason.contains("large frames"), "{reason}");
    // The first connection ends: its share is free again.
    first.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(first.receive(), None);
    let mut third = Wire::connect(echo.address);
    third.echo(3, 7 << 20);
}

#[test]
fn a_slow_reader_is_held_back_and_stalls_no_other() {
    let echo = Echo::start(LoopLimits::default());
    let mut slow = Wire::connect(echo.address);
    slow.stream.set_nonblocking(true).unwrap();
    let mut frames = Vec::new();
    for correlation in 0..64 {
        frame::encode(
            correlation,
            &Message::Echo(Bytes(vec![9; 16 << 10])),
            &mut frames,
        );
    }
    // Nothing is read back, so at some point nothing more is taken: the kernel's buffers and the
    // loop's limit are full. That is far below the size that an unbounded loop would have read.
    let bound = 64 << 20;
    let mut taken = 0;
    let mut refusals = 0;
    let mut other = Wire::connect(echo.address);
    while taken < bound && refusals < 50 {
        match slow.stream.write(&frames[taken % frames.len()..]) {
            Ok(count) => {
                taken += count;
                refusals = 0;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => refusals += 1,
            Err(error) => panic!("{error}"),
        }
        // Complete round trips of another client are the clock here.
        other.echo(1, 100);
    }
    assert!(
        taken < bound,
        "{taken} bytes were taken from a client that reads nothing"
    );
    // When it reads at last, everything that was taken comes back in order.
    slow.stream.set_nonblocking(false).unwrap();
    let whole = taken / (frames.len() / 64);
    for at in 0..whole {
        let frame = slow.receive().unwrap();
        assert_eq!(frame.correlation, at as u64 % 64);
    }
}

#[test]
fn silent_and_unfinished_connections_are_closed_and_idle_ones_stay() {
    let echo = Echo::start(LoopLimits {
        patience_us: 200_000,
        sweep_us: 50_000,
        ..LoopLimits::default()
    });
    let mut idle = Wire::connect(echo.address);
    idle.echo(1, 10);
    let mut silent = Wire::connect(echo.address);
    let mut unfinished = Wire::connect(echo.address);
    unfinished.echo(1, 10);
    let mut bytes = Vec::new();
    frame::encode(5, &Message::Echo(Bytes(vec![1; 40])), &mut bytes);
    unfinished.stream.write_all(&bytes[..30]).unwrap();
    assert_eq!(silent.farewell(), "it sent nothing");
    assert_eq!(unfinished.farewell(), "it began a frame and did not end it");
    idle.echo(2, 10);
}

#[test]
fn a_connection_beyond_the_limit_is_refused_with_a_reason() {
    let echo = Echo::start(LoopLimits {
        connections_max: 3,
        refusals_max: 2,
        ..LoopLimits::default()
    });
    let mut wires: Vec<Wire> = (0..3)
        .map(|_| {
            let mut wire = Wire::connect(echo.address);
            wire.echo(1, 1);
            wire
        })
        .collect();
    for _ in 0..5 {
        let mut over = Wire::connect(echo.address);
        let reason = over.farewell();
        assert!(reason.contains("3 connections"), "{reason}");
    }
    // A connection that leaves makes room, once the loop has noticed.
    let gone = wires.pop().unwrap();
    gone.stream.shutdown(Shutdown::Write).unwrap();
    let mut gone = gone;
    assert_eq!(gone.receive(), None);
    Wire::connect(echo.address).echo(1, 1);
    for wire in &mut wires {
        wire.echo(2, 1);
    }
}

#[test]
fn stop_answers_open_requests_and_sends_farewell() {
    let echo = Echo::start(LoopLimits::default());
    let mut wire = Wire::connect(echo.address);
    wire.echo(1, 10);
    echo.handle.stop();
    let reason = wire.farewell();
    assert!(reason.contains("stopping"), "{reason}");
    drop(echo);
}

#[test]
fn a_chain_of_three_passes_frames_down_and_up() {
    let last = Echo::start(LoopLimits::default());
    let middle = Echo::chained(Some(last.address), LoopLimits::default());
    let first = Echo::chained(Some(middle.address), LoopLimits::default());
    let mut one = Wire::connect(first.address);
    let mut two = Wire::connect(first.address);
    for correlation in 0..100 {
        one.echo(correlation, 64);
        two.echo(correlation + 1000, 64);
    }
    let mut bytes = Vec::new();
    for correlation in 0..5000 {
        frame::encode(correlation, &Message::Echo(Bytes(vec![0; 64])), &mut bytes);
    }
    let mut writer = one.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    for correlation in 0..5000 {
        assert_eq!(one.receive().unwrap().correlation, correlation);
    }
    writing.join().unwrap();
    // The chain is taken down from its head: each link is lost only when no process needs it.
    drop(first);
    drop(middle);
}

/// Counts the turns that it is given.
struct TurnCounter(Arc<AtomicU64>);

impl Handler for TurnCounter {
    fn opened(&mut self, _: &mut Io, _: ConnectionId, _: ConnectionSide) {}

    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String> {
        io.send(id, frame.correlation, &frame.message);
        Ok(())
    }

    fn closed(&mut self, _: &mut Io, _: ConnectionId, _: &str) {}

    fn turn(&mut self, _: &mut Io) -> Result<(), ServerError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn deadline_us(&self) -> Option<u64> {
        None
    }
}

#[test]
fn an_idle_loop_sleeps() {
    let limits = LoopLimits {
        patience_us: 1_000,
        sweep_us: 1_000,
        ..LoopLimits::default()
    };
    let options = LoopOptions {
        limits,
        ..LoopOptions::new(Clock::start())
    };
    let turns = Arc::new(AtomicU64::new(0));
    let event_loop = EventLoop::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
    let (address, handle) = (event_loop.address(), event_loop.handle());
    let mut handler = TurnCounter(Arc::clone(&turns));
    let thread = std::thread::spawn(move || event_loop.run(&mut handler));
    let mut wire = Wire::connect(address);
    wire.echo(1, 10);
    // The subject is silence: nothing may come in this time, and the loop takes no turn but the
    // last check whether the new connection has spoken.
    let silence = Some(Duration::from_millis(300));
    wire.stream.set_read_timeout(silence).unwrap();
    let before = turns.load(Ordering::Relaxed);
    assert!(
        wire.stream.read(&mut [0; 1]).is_err(),
        "nothing was to come"
    );
    let taken = turns.load(Ordering::Relaxed) - before;
    assert!(taken <= 2, "{taken} turns in silence");
    handle.stop();
    thread.join().unwrap().unwrap();
}
