//! The operations of a handler on connections: to send, open and close them, and to count
//! outstanding requests.
//!
//! All of them only queue: bytes are written once per turn and connection, when the loop has
//! handled everything that had arrived. A connection that is gone is no error here: the handler is
//! notified of it by `closed`.

use std::io;
use std::net::SocketAddr;

use cluster_tls::{Connection as Tls, Credentials};
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use protocol::frame::{self, FrameLimits};
use protocol::message::Message;
use socket2::{SockRef, TcpKeepalive};

use super::connection::{Connection, ConnectionPhase};
use super::{ConnectionId, ConnectionSide, LoopCounters, LoopLimits, owner};

/// Low bits of a [`ConnectionId`] that name the slot; the rest is a serial number, never reused.
const SLOT_BITS: u32 = 20;

/// Empty buffers for writing that are kept for the next connection that needs one, and the
/// largest that is kept.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 1 << 20;

/// The time after which the kernel probes a silent peer, and the interval of further probes. The
/// loop detects a peer that has vanished after a minute and a half. An idle connection costs the
/// loop nothing.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(std::time::Duration::from_secs(60))
    .with_interval(std::time::Duration::from_secs(10))
    .with_retries(3);

/// The connections of one loop.
pub struct Io {
    registry: Registry,
    /// The certificates of this process; none sends bytes as they are.
    credentials: Option<Credentials>,
    slots: Vec<Option<(ConnectionId, Connection)>>,
    free: Vec<u32>,
    serial: u64,
    /// Connections that may have unread or unhandled bytes.
    pub(super) ready: Vec<ConnectionId>,
    /// Connections with bytes to write.
    pub(super) dirty: Vec<ConnectionId>,
    /// Connections that have ended since the handler was last notified, with the reasons.
    pub(super) ended: Vec<(ConnectionId, String)>,
    pub(super) limits: LoopLimits,
    pub(super) counters: LoopCounters,
    pub(super) now_us: u64,
    /// Bytes of large frames in progress.
    claimed_bytes: usize,
    /// The time of the next check for connections that have stayed too long in a temporary state.
    pub(super) sweep_us: Option<u64>,
    accepted: usize,
    /// Empty buffers: connections own one only while they have something to write.
    spares: Vec<Vec<u8>>,
}

impl Io {
    pub(super) fn new(
        registry: Registry,
        limits: LoopLimits,
        credentials: Option<Credentials>,
    ) -> Self {
        assert!(limits.connections_max < 1 << SLOT_BITS);
        Io {
            registry,
            credentials,
            slots: Vec::new(),
            free: Vec::new(),
            serial: 0,
            ready: Vec::new(),
            dirty: Vec::new(),
            ended: Vec::new(),
            limits,
            counters: LoopCounters::default(),
            now_us: 0,
            claimed_bytes: 0,
            sweep_us: None,
            accepted: 0,
            spares: Vec::new(),
        }
    }

    /// Returns the loop's monotonic time, sampled once per turn.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Returns the loop's counters so far.
    pub fn counters(&self) -> &LoopCounters {
        &self.counters
    }

    /// Returns the number of open connections of both sides.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Queues a frame. If the connection is not open yet, the frame waits. Returns false without
    /// queueing if the connection has ended or is being closed.
    pub fn send(&mut self, id: ConnectionId, correlation: u64, message: &Message) -> bool {
        let Some(connection) = find_in(&mut self.slots, id) else {
            return false;
        };
        if !matches!(
            connection.phase,
            ConnectionPhase::Open | ConnectionPhase::Connecting
        ) {
            return false;
        }
        if connection.outgoing.capacity() == 0 {
            connection.outgoing = self.spares.pop().unwrap_or_default();
        }
        frame::encode(correlation, message, &mut connection.outgoing);
        if connection.phase == ConnectionPhase::Open {
            self.write_soon(id);
        }
        self.counters.frames_out += 1;
        true
    }

    /// Adds a connection to the list of connections to write, unless its socket is full.
    pub(super) fn write_soon(&mut self, id: ConnectionId) {
        let Some(connection) = find_in(&mut self.slots, id) else {
            return;
        };
        if !connection.dirty && !connection.blocked {
            connection.dirty = true;
            self.dirty.push(id);
        }
    }

    /// Returns the number of bytes that wait to be written; 0 if the connection has ended. Senders
    /// that can repeat messages check this first.
    pub fn queued_bytes(&self, id: ConnectionId) -> usize {
        self.look(id).map_or(0, Connection::queued_bytes)
    }

    /// Counts a request that must be answered. Beyond a limit, nothing more is read from the
    /// connection.
    pub fn owe(&mut self, id: ConnectionId) {
        if let Some(connection) = self.find(id) {
            connection.unanswered += 1;
        }
    }

    /// Counts an answered request.
    pub fn settle(&mut self, id: ConnectionId) {
        let limit = self.limits.unanswered_max;
        let Some(connection) = self.find(id) else {
            return;
        };
        assert!(connection.unanswered > 0, "an answer without a request");
        connection.unanswered -= 1;
        if connection.unanswered + 1 == limit {
            self.list(id);
        }
    }

    /// Opens a connection. The handler's `opened` or `closed` reports the result.
    ///
    /// # Errors
    /// No socket or no route; the caller tries again later, as after `closed`.
    pub fn connect(&mut self, address: SocketAddr) -> io::Result<ConnectionId> {
        let stream = TcpStream::connect(address)?;
        self.add(stream, ConnectionSide::Connected)
    }

    /// Takes frames with configurations on a connection from now on.
    pub fn expect_configurations(&mut self, id: ConnectionId) {
        if let Some(connection) = self.find(id) {
            connection.frame_limits = FrameLimits::Configurations;
        }
    }

    pub(super) fn frame_limits(&mut self, id: ConnectionId) -> FrameLimits {
        let connection = self.find(id);
        connection.map_or(FrameLimits::Ordinary, |it| it.frame_limits)
    }

    /// Sends `Goodbye` and closes the connection. The handler's `closed` is called at the end of
    /// this turn.
    pub fn close(&mut self, id: ConnectionId, reason: &str) {
        let now_us = self.now_us;
        match self.find(id).map(|connection| connection.phase) {
            Some(ConnectionPhase::Open) => {}
            Some(ConnectionPhase::Connecting) => return self.remove(id, reason),
            Some(ConnectionPhase::Closing | ConnectionPhase::Draining) | None => return,
        }
        let farewell = Message::Goodbye {
            reason: reason.to_owned(),
        };
        self.send(id, 0, &farewell);
        let connection = self.find(id).expect("it was there above");
        connection.phase = ConnectionPhase::Closing;
        connection.since_us = now_us;
        connection.partial = Vec::new();
        connection.undispatched = false;
        self.release_claim(id);
        // Bytes that arrive from now on are read to be discarded.
        self.list(id);
        self.watch();
        self.ended.push((id, reason.to_owned()));
    }

    /// Returns the ids of all connections.
    pub(super) fn ids(&self) -> Vec<ConnectionId> {
        self.slots.iter().flatten().map(|(id, _)| *id).collect()
    }

    pub(super) fn find(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        find_in(&mut self.slots, id)
    }

    fn look(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(slot_of(id))?.as_ref()?;
        (slot.0 == id).then_some(&slot.1)
    }

    /// Adds an accepted socket. Beyond the limit of connections, and from another user, it is
    /// refused with a reason. Far beyond the limit it is dropped without one, so that many
    /// connections cost no memory.
    pub(super) fn accept(&mut self, stream: TcpStream) -> io::Result<Option<ConnectionId>> {
        self.counters.connections_accepted += 1;
        let over = self.accepted >= self.limits.connections_max;
        let stranger = self.limits.own_user_only && !owner::may_connect(&stream);
        if over || stranger {
            self.counters.connections_refused += 1;
        }
        if self.accepted >= self.limits.connections_max + self.limits.refusals_max {
            return Ok(None);
        }
        let id = self.add(stream, ConnectionSide::Accepted)?;
        let reason = match (stranger, over) {
            (false, false) => return Ok(Some(id)),
            (true, _) => owner::REFUSAL.to_owned(),
            (false, true) => format!(
                "this core has {} connections, its limit: close some, use another core, or try later",
                self.limits.connections_max
            ),
        };
        self.close(id, &reason);
        // The handler never knew it.
        self.ended.retain(|(ended, _)| *ended != id);
        Ok(None)
    }

    fn add(&mut self, stream: TcpStream, side: ConnectionSide) -> io::Result<ConnectionId> {
        let tls = self.encryption(side).map_err(io::Error::other)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_keepalive(&KEEPALIVE)?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("slots are bounded")
        });
        self.serial += 1;
        let id = ConnectionId(self.serial << SLOT_BITS | u64::from(slot));
        let mut connection = Connection::new(stream, tls, side, self.now_us);
        // Both directions at once and for good: edges cost nothing until they happen.
        let registered = self.registry.register(
            &mut connection.stream,
            token_of(id),
            Interest::READABLE | Interest::WRITABLE,
        );
        if let Err(error) = registered {
            self.free.push(slot);
            return Err(error);
        }
        self.slots[slot as usize] = Some((id, connection));
        self.accepted += usize::from(side == ConnectionSide::Accepted);
        self.watch();
        Ok(id)
    }

    /// Returns the encryption of a new connection, before its handshake.
    fn encryption(&self, side: ConnectionSide) -> Result<Option<Box<Tls>>, cluster_tls::Error> {
        let Some(credentials) = &self.credentials else {
            return Ok(None);
        };
        let tls = match side {
            ConnectionSide::Accepted => credentials.accept()?.into(),
            ConnectionSide::Connected => credentials.connect()?.into(),
        };
        Ok(Some(Box::new(tls)))
    }

    /// Removes a connection and closes its socket. Notifies the handler, unless it was notified
    /// before.
    pub(super) fn remove(&mut self, id: ConnectionId, reason: &str) {
        self.release_claim(id);
        let Some(connection) = self.find(id) else {
            return;
        };
        let known = matches!(
            connection.phase,
            ConnectionPhase::Open | ConnectionPhase::Connecting
        );
        let side = connection.side;
        if known {
            self.ended.push((id, reason.to_owned()));
        }
        // Dropping the socket closes it, and closing takes it out of the poll set.
        self.slots[slot_of(id)] = None;
        self.free.push(slot_of(id) as u32);
        self.accepted -= usize::from(side == ConnectionSide::Accepted);
        self.counters.connections_closed += 1;
    }

    /// Keeps the buffer of a connection that has written everything, for the next connection.
    pub(super) fn reuse_buffer(&mut self, id: ConnectionId) {
        let Some(connection) = find_in(&mut self.slots, id) else {
            return;
        };
        if connection.queued_bytes() > 0 {
            return;
        }
        let buffer = std::mem::take(&mut connection.outgoing);
        if buffer.capacity() <= SPARE_BYTES_MAX && self.spares.len() < SPARES_MAX {
            self.spares.push(buffer);
        }
    }

    /// Adds a connection to the list of connections to read.
    pub(super) fn list(&mut self, id: ConnectionId) {
        let Some(connection) = self.find(id) else {
            return;
        };
        if !connection.listed {
            connection.listed = true;
            self.ready.push(id);
        }
    }

    /// Returns whether nothing more may be read from the connection now: it reads its answers too
    /// slowly, or too many of its requests are unanswered. Connections that this side opened are
    /// always read, because two processes that wait for each other would wait forever.
    pub(super) fn is_held_back(&self, id: ConnectionId) -> bool {
        self.look(id).is_some_and(|connection| {
            connection.phase == ConnectionPhase::Open
                && connection.side == ConnectionSide::Accepted
                && (connection.queued_bytes() > self.limits.queued_bytes_max
                    || connection.unanswered >= self.limits.unanswered_max)
        })
    }

    /// Counts a frame of `size` bytes that does not fit the loop's buffer, within the limit of all
    /// such frames. Returns false if it exceeds the limit.
    pub(super) fn claim(&mut self, id: ConnectionId, size: usize) -> bool {
        let room = self.limits.large_frames_bytes_max - self.claimed_bytes;
        let Some(connection) = self.find(id) else {
            return true;
        };
        if connection.claimed_bytes > 0 {
            return true;
        }
        if size > room {
            return false;
        }
        connection.claimed_bytes = size;
        self.claimed_bytes += size;
        true
    }

    pub(super) fn release_claim(&mut self, id: ConnectionId) {
        let Some(connection) = self.find(id) else {
            return;
        };
        let claimed = std::mem::take(&mut connection.claimed_bytes);
        self.claimed_bytes -= claimed;
    }

    /// Schedules a check of all connections, unless one is scheduled.
    pub(super) fn watch(&mut self) {
        let due_us = self.now_us + self.limits.sweep_us;
        self.sweep_us.get_or_insert(due_us);
    }
}

/// Returns the connection with this id; none if it is closed. This is separate from [`Io::find`],
/// so that a caller can use the other fields of an [`Io`] at the same time.
fn find_in(
    slots: &mut [Option<(ConnectionId, Connection)>],
    id: ConnectionId,
) -> Option<&mut Connection> {
    let slot = slots.get_mut(slot_of(id))?.as_mut()?;
    (slot.0 == id).then_some(&mut slot.1)
}

pub(super) fn token_of(id: ConnectionId) -> Token {
    Token(usize::try_from(id.0).expect("64-bit systems only"))
}

pub(super) fn id_of(token: Token) -> ConnectionId {
    ConnectionId(token.0 as u64)
}

pub(super) fn slot_of(id: ConnectionId) -> usize {
    (id.0 & ((1 << SLOT_BITS) - 1)) as usize
}
