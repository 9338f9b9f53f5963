//! One connection: its socket, the bytes of an unfinished frame, the bytes to be written.
//!
//! An idle connection owns no buffers: bytes are read into one buffer of the loop, and only the
//! rest of an unfinished frame is kept here. Memory is bounded by [`LoopLimits`]: received bytes by
//! one frame, and queued bytes by stopping to read (back-pressure).
//!
//! [`LoopLimits`]: super::LoopLimits

use std::io::{self, ErrorKind, Read, Write};

use cluster_tls::Connection as Tls;
use mio::net::TcpStream;
use protocol::frame::FrameLimits;

use super::{ConnectionSide, encryption};

/// A buffer for parts of frames that has grown beyond this is given back once it is empty.
const KEEP_BYTES: usize = 64 << 10;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// This side opened it, and the other side has not accepted yet.
    Connecting,
    /// Frames go both ways.
    Open,
    /// A last frame is being written. Received bytes are discarded.
    Closing,
    /// The last frame is written. Received bytes are discarded until the other side closes, because
    /// closing with unread bytes would make the kernel discard the last frame.
    Draining,
}

/// A socket and its buffers.
pub(super) struct Connection {
    pub stream: TcpStream,
    /// The encryption; none sends bytes as they are.
    tls: Option<Box<Tls>>,
    pub side: ConnectionSide,
    pub phase: ConnectionPhase,
    /// The beginning of an incomplete frame; or complete frames, while reading is paused.
    pub partial: Vec<u8>,
    /// Whether `partial` may contain complete frames.
    pub undispatched: bool,
    /// The limits of the frames that the connection accepts.
    pub frame_limits: FrameLimits,
    /// The bytes of an incomplete large frame, counted for the loop's limit.
    pub claimed_bytes: usize,
    /// Whether the socket may have unread bytes. The system reports this only once.
    pub readable: bool,
    /// Whether the other side has closed the connection or it broke. Then it is read until its end.
    pub hung_up: bool,
    /// Whether the connection is on the loop's list of connections to read.
    pub listed: bool,
    /// The number of unanswered requests.
    pub unanswered: usize,
    /// The bytes to write, from `sent` on.
    pub outgoing: Vec<u8>,
    sent: usize,
    /// Whether the connection is on the loop's list of connections to write.
    pub dirty: bool,
    /// Whether the socket is full. The system reports when it is not.
    pub blocked: bool,
    /// Whether the handler has accepted a first frame.
    pub greeted: bool,
    /// The time since which the connection has been in a state with a time limit, see
    /// `patience_us`.
    pub since_us: u64,
}

/// The result of a read from a socket.
pub(super) enum ReadOutcome {
    /// The number of bytes read. The socket may have more.
    Bytes(usize),
    /// The other side has closed the connection, or it broke.
    Ended(Option<io::Error>),
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        tls: Option<Box<Tls>>,
        side: ConnectionSide,
        now_us: u64,
    ) -> Self {
        Connection {
            stream,
            tls,
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

    /// Returns the number of bytes to write.
    pub fn queued_bytes(&self) -> usize {
        self.outgoing.len() - self.sent
    }

    /// Returns whether there are bytes to write that the socket may take.
    pub fn must_transmit(&self) -> bool {
        match &self.tls {
            None => self.queued_bytes() > 0,
            Some(tls) => tls.wants_write() || !tls.is_handshaking() && self.queued_bytes() > 0,
        }
    }

    /// Reads once. A read of fewer bytes than requested has emptied the socket, so no further read
    /// is needed to see that (epoll(7), on edge-triggered stream sockets).
    pub fn receive(&mut self, buffer: &mut [u8]) -> ReadOutcome {
        loop {
            let read = match &mut self.tls {
                None => self.stream.read(buffer),
                Some(tls) => encryption::read(tls, &mut self.stream, buffer),
            };
            match read {
                Ok(0) => return ReadOutcome::Ended(None),
                Ok(count) => {
                    let more = count == buffer.len() || self.hung_up;
                    self.readable = more || self.tls.is_some();
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

    /// Writes until everything is written or the socket is full. Returns the number of written
    /// bytes.
    pub fn transmit(&mut self) -> io::Result<usize> {
        let before = self.sent;
        if let Some(tls) = &mut self.tls {
            let waiting = &self.outgoing[self.sent..];
            let (written, is_full) = encryption::write(tls, &mut self.stream, waiting)?;
            self.sent += written;
            self.blocked |= is_full;
        }
        while self.tls.is_none() && self.sent < self.outgoing.len() {
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

    /// Keeps the rest of a buffer after its complete frames.
    pub fn keep_partial(&mut self, rest: &[u8]) {
        self.partial.clear();
        if rest.is_empty() && self.partial.capacity() > KEEP_BYTES {
            self.partial = Vec::new();
        }
        self.partial.extend_from_slice(rest);
    }
}
