//! The event loop of one core: edge-triggered sockets, frames in, frames out.
//!
//! A turn takes whatever is there: it polls once, reads from every connection that has bytes,
//! hands all whole frames to the [`Handler`], lets it finish the batch ([`Handler::turn`]: one
//! append to a log, say), and writes once per connection. Nothing is delayed to make batches
//! larger. The same loop serves a core, the coordinator and the baselines.
//!
//! Memory is bounded by [`Limits`], whatever the other sides do; an idle loop sleeps.
//! What frames mean is the handler's; how they are told apart is `protocol::frame`'s.

mod connection;
mod io;

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use protocol::frame::{self, Frame};

use crate::clock::Clock;
use crate::error::ServerError;
use connection::{Phase, Received};
pub use io::Io;
use io::id_of;

/// Names a connection of one loop; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The other side.
    Accepted,
    /// This side, by [`Io::connect`].
    Connected,
}

/// What runs on a loop. All methods are called from the loop's thread, and must not block.
pub trait Handler {
    /// A connection is usable.
    fn opened(&mut self, io: &mut Io, id: ConnectionId, side: Side);

    /// A whole frame arrived.
    ///
    /// # Errors
    /// Why the connection must be closed; the other side is told.
    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String>;

    /// A connection is no longer usable. Also told for one that could not be opened.
    fn closed(&mut self, io: &mut Io, id: ConnectionId, reason: &str);

    /// Everything that was there has been handed in: finish the batch. Called once per turn, also
    /// after a wake-up and when the deadline has come.
    ///
    /// # Errors
    /// The loop ends with it: for what a process may not survive (SAFETY R23).
    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError>;

    /// When `turn` is wanted at the latest, on the loop's clock; none waits for events.
    fn deadline_us(&self) -> Option<u64>;

    /// The loop was asked to stop: no connection is accepted from now on. Called once.
    fn stop(&mut self, io: &mut Io) {
        let _ = io;
    }

    /// Whether what was under way when the loop was asked to stop is finished.
    fn is_finished(&self) -> bool {
        true
    }
}

/// Limits of one loop; bytes and microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Accepted connections; one more is told so and closed. Below a million.
    pub connections_max: usize,
    /// Connections beyond that which are told so at the same time; more are just dropped.
    pub refusals_max: usize,
    /// Bytes read at once; one buffer of the loop.
    pub read_bytes: usize,
    /// Reads of one connection before the others have their turn.
    pub reads_per_turn: usize,
    /// Connections accepted in one turn.
    pub accepts_per_turn: usize,
    /// Queued bytes beyond which nothing is read from an open connection.
    pub queued_bytes_max: usize,
    /// Unanswered requests beyond which nothing is read from a connection.
    pub unanswered_max: usize,
    /// Bytes of all frames together that are larger than `read_bytes` and under way.
    pub large_frames_bytes_max: usize,
    /// How long a connection may take to open, to send its first frame, to complete a frame, to
    /// take bytes that wait for it.
    pub patience_us: u64,
    /// How long a closed connection may take to notice.
    pub farewell_us: u64,
    /// How often these are looked at, while a connection is in such a state.
    pub sweep_us: u64,
    /// How long stopping may take.
    pub stop_us: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            refusals_max: 64,
            read_bytes: 64 << 10,
            reads_per_turn: 4,
            accepts_per_turn: 64,
            queued_bytes_max: 256 << 10,
            unanswered_max: 4_096,
            large_frames_bytes_max: 256 << 20,
            patience_us: 30_000_000,
            farewell_us: 1_000_000,
            sweep_us: 500_000,
            stop_us: 5_000_000,
        }
    }
}

/// How a loop runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Its limits.
    pub limits: Limits,
    /// Poll without sleeping: halves a hop, burns a CPU.
    pub spin: bool,
    /// Its clock.
    pub clock: Clock,
}

impl Options {
    /// The defaults, on this clock.
    pub fn new(clock: Clock) -> Self {
        Options {
            limits: Limits::default(),
            spin: false,
            clock,
        }
    }
}

/// What a loop has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Polls.
    pub turns: u64,
    /// Whole frames received.
    pub frames_in: u64,
    /// Frames queued.
    pub frames_out: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Connections closed because of bytes that are no frame, or a frame that the handler refused.
    pub malformed: u64,
    /// Connections accepted, those refused included.
    pub connections_accepted: u64,
    /// Connections refused because there were too many.
    pub connections_refused: u64,
    /// Connections closed.
    pub connections_closed: u64,
    /// Connections closed because they stayed too long in a state that may not last.
    pub impatient: u64,
}

impl Counters {
    /// By name, as `Request::Status` tells them.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("turns", self.turns),
            ("frames_in", self.frames_in),
            ("frames_out", self.frames_out),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("malformed", self.malformed),
            ("connections_accepted", self.connections_accepted),
            ("connections_refused", self.connections_refused),
            ("connections_closed", self.connections_closed),
            ("connections_impatient", self.impatient),
        ]
    }
}

/// Wakes or stops a loop from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
}

impl Handle {
    /// Makes the loop take a turn. A loop that is gone does not mind.
    pub fn wake(&self) {
        // It fails only when the loop's descriptors are gone, or its counter is full: then a turn
        // is due anyway.
        let _ = self.waker.wake();
    }

    /// Asks the loop to finish what is under way and end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const EVENTS_PER_POLL: usize = 1024;
/// After a failure to accept (no descriptors left) the next attempt waits for this long.
const ACCEPT_PAUSE_US: u64 = 100_000;

/// A loop that listens and does not run yet.
pub struct EventLoop {
    poll: Poll,
    listener: Option<TcpListener>,
    address: SocketAddr,
    options: Options,
    handle: Handle,
    io: Io,
    buffer: Vec<u8>,
    /// When to accept again although no edge tells to.
    accept_us: Option<u64>,
    stop_by_us: Option<u64>,
}

impl EventLoop {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the system has no descriptors left.
    pub fn bind(address: SocketAddr, options: Options) -> Result<Self, ServerError> {
        let prepare = ServerError::io("prepare an event loop");
        let (poll, waker) = Poll::new()
            .and_then(|poll| Waker::new(poll.registry(), WAKER).map(|waker| (poll, waker)))
            .map_err(prepare)?;
        let mut listener =
            TcpListener::bind(address).map_err(ServerError::io(format!("listen at {address}")))?;
        let (address, registry) = listener
            .local_addr()
            .and_then(|address| poll.registry().try_clone().map(|clone| (address, clone)))
            .and_then(|(address, registry)| {
                registry.register(&mut listener, LISTENER, Interest::READABLE)?;
                Ok((address, registry))
            })
            .map_err(ServerError::io(format!("listen at {address}")))?;
        Ok(EventLoop {
            poll,
            listener: Some(listener),
            address,
            io: Io::new(registry, options.limits),
            buffer: vec![0; options.limits.read_bytes],
            options,
            handle: Handle {
                waker: Arc::new(waker),
                stop: Arc::default(),
            },
            accept_us: None,
            stop_by_us: None,
        })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// To wake or stop it.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// What the handler ended it with, or a failure of the poll itself.
    pub fn run<H: Handler>(mut self, handler: &mut H) -> Result<(), ServerError> {
        let mut events = Events::with_capacity(EVENTS_PER_POLL);
        let mut ready = Vec::new();
        // The first turn comes at once: the handler may have something to begin.
        let mut timeout = Some(Duration::ZERO);
        loop {
            match self.poll.poll(&mut events, timeout) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => events.clear(),
                Err(error) => return Err(ServerError::io("wait for events")(error)),
            }
            self.io.now_us = self.options.clock.monotonic_us();
            self.io.counters.turns += 1;
            if self.accept_us.is_some_and(|at| at <= self.io.now_us) {
                self.accept(handler);
            }
            for event in &events {
                self.note(event, handler);
            }
            std::mem::swap(&mut ready, &mut self.io.ready);
            for id in ready.drain(..) {
                self.read(id, handler);
            }
            self.sweep();
            if self.handle.stop.load(Ordering::Acquire) && self.stop_by_us.is_none() {
                self.listener = None;
                self.stop_by_us = Some(self.io.now_us + self.options.limits.stop_us);
                handler.stop(&mut self.io);
            }
            self.tell_ended(handler);
            handler.turn(&mut self.io)?;
            self.write();
            self.tell_ended(handler);
            if self.may_end(handler) {
                return Ok(());
            }
            timeout = self.timeout(handler);
        }
    }

    /// Takes in what an event says; reading comes later, so that all of them are known first.
    fn note<H: Handler>(&mut self, event: &Event, handler: &mut H) {
        match event.token() {
            WAKER => {}
            LISTENER => self.accept(handler),
            token => {
                let id = id_of(token);
                let Some(connection) = self.io.find(id) else {
                    return;
                };
                if connection.phase == Phase::Connecting {
                    self.finish_connecting(id, handler);
                }
                let Some(connection) = self.io.find(id) else {
                    return;
                };
                if event.is_read_closed() || event.is_error() {
                    connection.hung_up = true;
                }
                if event.is_writable() && connection.blocked {
                    connection.blocked = false;
                    connection.dirty = true;
                    self.io.dirty.push(id);
                }
                if event.is_readable() || event.is_read_closed() || event.is_error() {
                    if let Some(connection) = self.io.find(id) {
                        connection.readable = true;
                    }
                    self.io.list(id);
                }
            }
        }
    }

    fn accept<H: Handler>(&mut self, handler: &mut H) {
        self.accept_us = None;
        for _ in 0..self.options.limits.accepts_per_turn {
            let Some(listener) = &self.listener else {
                return;
            };
            match listener.accept() {
                Ok((stream, _)) => {
                    if let Ok(Some(id)) = self.io.accept(stream) {
                        handler.opened(&mut self.io, id, Side::Accepted);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    self.accept_us = Some(self.io.now_us + ACCEPT_PAUSE_US);
                    return;
                }
            }
        }
        self.accept_us = Some(self.io.now_us);
    }

    fn finish_connecting<H: Handler>(&mut self, id: ConnectionId, handler: &mut H) {
        let Some(connection) = self.io.find(id) else {
            return;
        };
        let result = match connection.stream.take_error() {
            Ok(Some(error)) | Err(error) => Err(error),
            Ok(None) => connection.stream.peer_addr(),
        };
        match result {
            Ok(_) => {
                connection.phase = Phase::Open;
                if connection.queued_bytes() > 0 {
                    connection.dirty = true;
                    self.io.dirty.push(id);
                }
                handler.opened(&mut self.io, id, Side::Connected);
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => self.io.remove(id, &format!("cannot connect: {error}")),
        }
    }

    /// Reads from one connection what its share of the turn allows.
    fn read<H: Handler>(&mut self, id: ConnectionId, handler: &mut H) {
        if let Some(connection) = self.io.find(id) {
            connection.listed = false;
        }
        for _ in 0..self.options.limits.reads_per_turn {
            let held_back = self.io.is_held_back(id);
            let Some(connection) = self.io.find(id) else {
                return;
            };
            if connection.phase == Phase::Connecting {
                return;
            }
            if held_back {
                // It is listed again when what holds it back is gone.
                return;
            }
            if connection.undispatched {
                connection.undispatched = false;
                let whole = std::mem::take(&mut connection.partial);
                let taken = self.dispatch(id, &whole, handler);
                self.keep(id, &whole[taken..]);
                continue;
            }
            if !connection.readable {
                return;
            }
            self.receive(id, handler);
        }
        // Its share is used up: the others come first.
        let more = |connection: &mut connection::Connection| {
            connection.readable || connection.undispatched
        };
        if self.io.find(id).is_some_and(more) {
            self.io.list(id);
        }
    }

    /// One read of the socket, and the frames that it completes.
    fn receive<H: Handler>(&mut self, id: ConnectionId, handler: &mut H) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let Some(connection) = self.io.find(id) else {
            self.buffer = buffer;
            return;
        };
        // The start of a frame is put before what is read, so that whole frames are read in
        // place; only a frame that does not fit the buffer is gathered on its own.
        let held = connection.partial.len();
        let in_place = connection.claimed_bytes == 0 && held < buffer.len();
        let start = if in_place { held } else { 0 };
        match connection.receive(&mut buffer[start..]) {
            Received::Ended(error) => {
                let reason = error.map_or_else(
                    || "the other side closed the connection".to_owned(),
                    |error| format!("the connection broke: {error}"),
                );
                self.io.remove(id, &reason);
            }
            Received::Bytes(count) => {
                self.io.counters.bytes_in += count as u64;
                let connection = self.io.find(id).expect("it was there above");
                if matches!(connection.phase, Phase::Closing | Phase::Draining) {
                } else if in_place {
                    let whole = &mut buffer[..start + count];
                    whole[..start].copy_from_slice(&connection.partial);
                    let taken = self.dispatch(id, whole, handler);
                    self.keep(id, &whole[taken..]);
                } else {
                    connection.partial.extend_from_slice(&buffer[..count]);
                    let whole = std::mem::take(&mut connection.partial);
                    let taken = self.dispatch(id, &whole, handler);
                    match self.io.find(id) {
                        Some(connection) if taken == 0 => connection.partial = whole,
                        _ => self.keep(id, &whole[taken..]),
                    }
                }
            }
        }
        self.buffer = buffer;
    }

    /// Hands the whole frames at the start of `bytes` to the handler; how many bytes are done
    /// with.
    fn dispatch<H: Handler>(&mut self, id: ConnectionId, bytes: &[u8], handler: &mut H) -> usize {
        let mut taken = 0;
        loop {
            let frame = match frame::decode(&bytes[taken..]) {
                Ok(Some((frame, size))) => {
                    taken += size;
                    frame
                }
                Ok(None) => break,
                Err(error) => {
                    self.io.counters.malformed += 1;
                    self.io.close(id, &error.to_string());
                    return bytes.len();
                }
            };
            self.io.counters.frames_in += 1;
            self.io.release_claim(id);
            if let Err(reason) = handler.frame(&mut self.io, id, frame) {
                self.io.counters.malformed += 1;
                self.io.close(id, &reason);
            }
            let held_back = self.io.is_held_back(id);
            let now_us = self.io.now_us;
            let Some(connection) = self.io.find(id) else {
                return bytes.len();
            };
            if connection.phase != Phase::Open {
                return bytes.len();
            }
            connection.greeted = true;
            connection.since_us = now_us;
            if held_back {
                if let Some(connection) = self.io.find(id) {
                    connection.undispatched = taken < bytes.len();
                }
                return taken;
            }
        }
        if let Ok(Some(size)) = frame::size(&bytes[taken..])
            && size > self.options.limits.read_bytes
            && !self.io.claim(id, size)
        {
            self.io.close(
                id,
                "too many large frames are under way: try again later, with smaller ones",
            );
            return bytes.len();
        }
        taken
    }

    fn keep(&mut self, id: ConnectionId, rest: &[u8]) {
        let now_us = self.io.now_us;
        let Some(connection) = self.io.find(id) else {
            return;
        };
        let begins = connection.partial.is_empty() && !rest.is_empty();
        connection.keep_partial(rest);
        if begins {
            connection.since_us = now_us;
            self.io.watch();
        }
    }

    /// Writes what is queued, once per connection.
    fn write(&mut self) {
        let mut dirty = std::mem::take(&mut self.io.dirty);
        for id in dirty.drain(..) {
            let was_held_back = self.io.is_held_back(id);
            let now_us = self.io.now_us;
            let Some(connection) = self.io.find(id) else {
                continue;
            };
            connection.dirty = false;
            match connection.transmit() {
                Err(error) => self
                    .io
                    .remove(id, &format!("the connection broke: {error}")),
                Ok(written) => {
                    let blocked = connection.blocked;
                    if blocked {
                        connection.since_us = now_us;
                    }
                    if connection.phase == Phase::Closing && !blocked {
                        connection.phase = Phase::Draining;
                        // It fails where the other side is gone: the next read says so.
                        let _ = connection.stream.shutdown(std::net::Shutdown::Write);
                    }
                    self.io.counters.bytes_out += written as u64;
                    if blocked {
                        self.io.watch();
                    }
                    if was_held_back && !self.io.is_held_back(id) {
                        self.io.list(id);
                    }
                }
            }
        }
        // Closing says farewell to connections while others are written; their turn is next.
        dirty.append(&mut self.io.dirty);
        self.io.dirty = dirty;
    }

    /// Closes what stayed too long in a state that may not last.
    fn sweep(&mut self) {
        let now_us = self.io.now_us;
        if self.io.sweep_us.is_none_or(|at| at > now_us) {
            return;
        }
        self.io.sweep_us = None;
        let limits = self.options.limits;
        let mut waiting = false;
        for id in self.io.ids() {
            let held_back = self.io.is_held_back(id);
            let Some(connection) = self.io.find(id) else {
                continue;
            };
            let unfinished = !connection.partial.is_empty() && !held_back;
            let (patience_us, reason) = match connection.phase {
                Phase::Closing | Phase::Draining => (limits.farewell_us, ""),
                Phase::Connecting => (limits.patience_us, "nobody answered"),
                Phase::Open if connection.blocked => {
                    (limits.patience_us, "it did not take what was sent to it")
                }
                Phase::Open if unfinished => {
                    (limits.patience_us, "it began a frame and did not end it")
                }
                Phase::Open if !connection.greeted && connection.side == Side::Accepted => {
                    (limits.patience_us, "it said nothing")
                }
                Phase::Open => continue,
            };
            if connection.since_us + patience_us > now_us {
                waiting = true;
            } else {
                let lasting = connection.phase == Phase::Open;
                let speaks = lasting && !connection.blocked;
                self.io.counters.impatient += u64::from(lasting);
                if speaks {
                    self.io.close(id, reason);
                } else {
                    self.io.remove(id, reason);
                }
            }
        }
        if waiting {
            self.io.watch();
        }
    }

    fn tell_ended<H: Handler>(&mut self, handler: &mut H) {
        while !self.io.ended.is_empty() {
            for (id, reason) in std::mem::take(&mut self.io.ended) {
                handler.closed(&mut self.io, id, &reason);
            }
        }
    }

    fn may_end<H: Handler>(&mut self, handler: &H) -> bool {
        let Some(stop_by_us) = self.stop_by_us else {
            return false;
        };
        if stop_by_us <= self.io.now_us {
            return true;
        }
        if !handler.is_finished() {
            return false;
        }
        for id in self.io.ids() {
            self.io.close(id, "this process is stopping");
        }
        self.write();
        let mut ids = self.io.ids().into_iter();
        ids.all(|id| self.io.queued_bytes(id) == 0)
    }

    fn timeout<H: Handler>(&self, handler: &H) -> Option<Duration> {
        if self.options.spin || !self.io.ready.is_empty() || !self.io.dirty.is_empty() {
            return Some(Duration::ZERO);
        }
        let deadlines = [
            handler.deadline_us(),
            self.io.sweep_us,
            self.accept_us,
            self.stop_by_us,
        ];
        let earliest_us = deadlines.into_iter().flatten().min()?;
        let now_us = self.options.clock.monotonic_us();
        Some(Duration::from_micros(earliest_us.saturating_sub(now_us)))
    }
}

/// Errors of `accept` that belong to the connection, not to the listener (accept(2)).
fn is_of_one_connection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
            | ErrorKind::NetworkUnreachable
            | ErrorKind::HostUnreachable
            | ErrorKind::TimedOut
    )
}
