//! One connection: its socket, the bytes of an unfinished frame, the bytes to be written.
//!
//! An idle connection owns no buffers: bytes are read into one buffer of the loop, and only the
//! rest of an unfinished frame is kept here. Memory is bounded by [`LoopLimits`]: received bytes by
//! one frame, and queued bytes by stopping to read (back-pressure).
//!
//! [`LoopLimits`]: super::LoopLimits

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;
use protocol::frame::FrameLimits;

use super::ConnectionSide;

/// A buffer for parts of frames that has grown beyond this is given back once it is empty.
const KEEP_BYTES: usize = 64 << 10;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Opened by this side; the other has not answered yet.
    Connecting,
    /// Frames go both ways.
    Open,
    /// A farewell is being written; received bytes are discarded.
    Closing,
    /// The farewell is written; received bytes are discarded until the other side closes, for
    /// closing over unread bytes would make the kernel discard the farewell.
    Draining,
}

/// A socket and its buffers.
pub(super) struct Connection {
    pub stream: TcpStream,
    pub side: ConnectionSide,
    pub phase: ConnectionPhase,
    /// The start of a frame that is not whole yet; or, while reading is held back, whole frames.
    pub partial: Vec<u8>,
    /// `partial` may hold whole frames.
    pub undispatched: bool,
    /// The frames that it takes.
    pub frame_limits: FrameLimits,
    /// Bytes of a large frame under way, counted against the loop's bound.
    pub claimed_bytes: usize,
    /// The socket may hold bytes that were not read: edges are reported once.
    pub readable: bool,
    /// The other side has closed or broken: read until the end regardless of the result of a read.
    pub hung_up: bool,
    /// The loop has it on its list of connections to read from.
    pub listed: bool,
    /// Requests taken and not answered yet.
    pub unanswered: usize,
    /// To be written, from `sent` on.
    pub outgoing: Vec<u8>,
    sent: usize,
    /// The loop has it on its list of connections to write to.
    pub dirty: bool,
    /// The socket takes no more for now; an edge will report when it does.
    pub blocked: bool,
    /// Whether a first frame was accepted by the handler.
    pub greeted: bool,
    /// Since when it stays in a state that may not last: see `patience_us`.
    pub since_us: u64,
}

/// The outcome of a read from a socket.
pub(super) enum ReadOutcome {
    /// So many bytes; the socket may hold more.
    Bytes(usize),
    /// The other side has closed, or the connection broke.
    Ended(Option<io::Error>),
}

impl Connection {
    pub fn new(stream: TcpStream, side: ConnectionSide, now_us: u64) -> Self {
        Connection {
            stream,
            side,
            phase: match side {
                ConnectionSide::Accepted => ConnectionPhase::Open,
                ConnectionSide::Connected => ConnectionPhase::Connecting,
            },
            partial: Vec::new(),
            undispatched: false,
            frame_limits: FrameLimits::Ordinary,
            claimed_bytes: 0,
            readable: false,
            hung_up: false,
            listed: false,
            unanswered: 0,
            outgoing: Vec::new(),
            sent: 0,
            dirty: false,
            blocked: false,
            greeted: false,
            since_us: now_us,
        }
    }

    /// Returns bytes that wait to be written.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Reads once. A short read has emptied the socket, so the read that would only show that is
    /// saved (epoll(7), on edge-triggered stream sockets).
    pub fn receive(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return ReadOutcome::Ended(None),
                Ok(count) => {
                    self.readable = count == buffer.len() || self.hung_up;
                    return ReadOutcome::Bytes(count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return ReadOutcome::Bytes(0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return ReadOutcome::Ended(Some(error)),
            }
        }
    }

    /// Writes until everything is written or the socket takes no more; how many bytes it took.
    pub fn transmit(&mut self) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked = true;
                    break;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let written = self.sent - before;
        if self.sent == self.outgoing.len() {
            self.sent = 0;
            self.outgoing.clear();
        } else if self.sent > self.outgoing.len() / 2 {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
        Ok(written)
    }

    /// Keeps the rest of a buffer after its whole frames were taken.
    pub fn keep_partial(&mut self, rest: &[u8]) {
        self.partial.clear();
        if rest.is_empty() && self.partial.capacity() > KEEP_BYTES {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(rest);
    }
}
