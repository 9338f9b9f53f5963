//! The event loop of one core. It reads frames from edge-triggered sockets, passes them to a
//! handler, and writes the handler's frames.
//!
//! A turn polls once, reads from every connection that has bytes, and passes all complete frames to
//! the [`Handler`]. The handler then finishes the batch ([`Handler::turn`]: one append to a log,
//! for example). The turn ends with one write per connection. The loop never waits for a larger
//! batch. The same loop serves a core, the coordinator and the baselines.
//!
//! Memory is bounded by [`LoopLimits`], whatever peers send. An idle loop sleeps. The handler knows
//! the meaning of frames, and `protocol::frame` how they are separated.

mod connection;
mod connection_map;
mod encryption;
mod io;
mod limits;
mod owner;
mod reading;
mod timeouts;

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::event::Event;
use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token, Waker};
use protocol::frame::Frame;

use crate::error::ServerError;
use connection::ConnectionPhase;
pub use connection_map::ConnectionMap;
pub use io::Io;
use io::id_of;
pub use limits::{LoopCounters, LoopLimits, LoopOptions};

/// Identifies a connection of one loop. Ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The side that opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSide {
    /// The other side opened it.
    Accepted,
    /// This side opened it, with [`Io::connect`].
    Connected,
}

/// The code that a loop calls. All methods are called on the loop's thread, and must not block.
pub trait Handler {
    /// Handles a connection that is usable from now on.
    fn opened(&mut self, io: &mut Io, id: ConnectionId, side: ConnectionSide);

    /// Handles a whole frame that has arrived.
    ///
    /// # Errors
    /// The reason why the connection must be closed. The other side is notified.
    fn frame(&mut self, io: &mut Io, id: ConnectionId, frame: Frame) -> Result<(), String>;

    /// Handles a connection that is no longer usable. Also called for a connection that could not
    /// be opened.
    fn closed(&mut self, io: &mut Io, id: ConnectionId, reason: &str);

    /// Finishes the batch, after all frames of the turn were passed to the handler. Called once per
    /// turn, also after a wake-up and when the deadline has come.
    ///
    /// # Errors
    /// The loop ends with this error: for faults that must end the process (R23).
    fn turn(&mut self, io: &mut Io) -> Result<(), ServerError>;

    /// Returns the latest time for the next `turn`, on the loop's clock; none if the handler only
    /// waits for events.
    fn deadline_us(&self) -> Option<u64>;

    /// Handles the request to stop the loop, which accepts no connection from now on. Called once.
    fn stop(&mut self, io: &mut Io) {
        let _ = io;
    }

    /// Returns whether the work that was in progress when the loop was asked to stop is finished.
    fn is_finished(&self) -> bool {
        true
    }
}

/// Wakes or stops a loop from any thread.
#[derive(Clone, Debug)]
pub struct LoopHandle {
    waker: Arc<Waker>,
    stop: Arc<AtomicBool>,
}

impl LoopHandle {
    /// Makes the loop take a turn. Does nothing if the loop has ended.
    pub fn wake(&self) {
        // It fails only when the loop's descriptors are gone, or its counter is full: then a turn
        // is due anyway.
        let _ = self.waker.wake();
    }

    /// Returns whether the loop was asked to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Makes the loop finish its open work and end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }
}

const LISTENER: Token = Token(usize::MAX);
const WAKER: Token = Token(usize::MAX - 1);
const EVENTS_PER_POLL: usize = 1024;
/// The pause before the next attempt to accept connections after a failure (no descriptors left).
const ACCEPT_PAUSE_US: u64 = 100_000;

/// A loop that listens, but does not serve yet.
pub struct EventLoop {
    poll: Poll,
    listener: Option<TcpListener>,
    address: SocketAddr,
    options: LoopOptions,
    handle: LoopHandle,
    io: Io,
    buffer: Vec<u8>,
    /// When to accept again although no edge asks for it.
    accept_us: Option<u64>,
    stop_by_us: Option<u64>,
}

impl EventLoop {
    /// Listens at `address`. Port 0 uses a free port.
    ///
    /// # Errors
    /// The address is in use or not this machine's, or the system has no descriptors left.
    pub fn bind(address: SocketAddr, options: LoopOptions) -> Result<Self, ServerError> {
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
            io: Io::new(registry, options.limits, options.credentials.clone()),
            buffer: vec![0; options.limits.read_bytes],
            options,
            handle: LoopHandle {
                waker: Arc::new(waker),
                stop: Arc::default(),
            },
            accept_us: None,
            stop_by_us: None,
        })
    }

    /// Returns the listening address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a handle to wake or stop the loop.
    pub fn handle(&self) -> LoopHandle {
        self.handle.clone()
    }

    /// Serves until the loop is stopped.
    ///
    /// # Errors
    /// The error with which the handler ended the loop, or a failure of the poll.
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
            self.accept_again(handler);
            self.note_events(&events, handler);
            self.read_ready(&mut ready, handler);
            self.sweep();
            self.begin_stop(handler);
            self.report_ended(handler);
            handler.turn(&mut self.io)?;
            self.write();
            self.report_ended(handler);
            if self.may_end(handler) {
                return Ok(());
            }
            timeout = self.timeout(handler);
        }
    }

    /// Accepts the connections that were left after a failure to accept, once the pause is over. No
    /// event of the socket reports these connections again.
    fn accept_again<H: Handler>(&mut self, handler: &mut H) {
        if self.accept_us.is_some_and(|at| at <= self.io.now_us) {
            self.accept(handler);
        }
    }

    fn note_events<H: Handler>(&mut self, events: &Events, handler: &mut H) {
        for event in events {
            self.note(event, handler);
        }
    }

    /// Reads from the connections that have bytes. Connections with bytes left are listed for the
    /// next turn, so `ready` is used again.
    fn read_ready<H: Handler>(&mut self, ready: &mut Vec<ConnectionId>, handler: &mut H) {
        std::mem::swap(ready, &mut self.io.ready);
        for id in ready.drain(..) {
            self.read(id, handler);
        }
    }

    /// Stops listening once the loop was asked to stop.
    fn begin_stop<H: Handler>(&mut self, handler: &mut H) {
        if self.handle.is_stopped() && self.stop_by_us.is_none() {
            self.listener = None;
            self.stop_by_us = Some(self.io.now_us + self.options.limits.stop_us);
            handler.stop(&mut self.io);
        }
    }

    /// Handles an event, without reading. Reads come after all events of the turn are known.
    fn note<H: Handler>(&mut self, event: &Event, handler: &mut H) {
        match event.token() {
            WAKER => {}
            LISTENER => self.accept(handler),
            token => {
                let id = id_of(token);
                let Some(connection) = self.io.find(id) else {
                    return;
                };
                if connection.phase == ConnectionPhase::Connecting {
                    self.finish_connecting(id, handler);
                }
                let Some(connection) = self.io.find(id) else {
                    return;
                };
                if event.is_read_closed() || event.is_error() {
                    connection.hung_up = true;
                }
                let has_input = event.is_readable() || event.is_read_closed() || event.is_error();
                connection.readable |= has_input;
                if event.is_writable() && connection.blocked {
                    connection.blocked = false;
                    self.io.write_soon(id);
                }
                if has_input {
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
                        handler.opened(&mut self.io, id, ConnectionSide::Accepted);
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
                connection.phase = ConnectionPhase::Open;
                if connection.must_transmit() {
                    self.io.write_soon(id);
                }
                handler.opened(&mut self.io, id, ConnectionSide::Connected);
            }
            Err(error) if error.kind() == ErrorKind::NotConnected => {}
            Err(error) => self.io.remove(id, &format!("cannot connect: {error}")),
        }
    }

    /// Writes the queued bytes, once per connection.
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
                    let is_done = !blocked && connection.queued_bytes() == 0;
                    if connection.phase == ConnectionPhase::Closing && is_done {
                        connection.phase = ConnectionPhase::Draining;
                        // It fails where the other side is gone: the next read reports it.
                        let _ = connection.stream.shutdown(std::net::Shutdown::Write);
                    }
                    self.io.counters.bytes_out += written as u64;
                    self.io.reuse_buffer(id);
                    if blocked {
                        self.io.watch();
                    }
                    if was_held_back && !self.io.is_held_back(id) {
                        self.io.list(id);
                    }
                }
            }
        }
        // Closing sends farewell to connections while others are written; their turn is next.
        dirty.append(&mut self.io.dirty);
        self.io.dirty = dirty;
    }

    fn report_ended<H: Handler>(&mut self, handler: &mut H) {
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
        Some(Duration::from_micros(
            earliest_us.saturating_sub(self.options.clock.monotonic_us()),
        ))
    }
}

/// Returns whether an error of `accept` belongs to the connection, and not to the listener
/// (accept(2)).
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
