//! Reads bytes from sockets and divides them into frames: decides which connections may be read and
//! how much, and keeps the bytes of an unfinished frame.
//!
//! Bytes are read into one buffer of the loop and frames decoded in place; a connection keeps only
//! the start of an unfinished frame. A frame larger than the buffer is gathered by its connection,
//! as its bytes come, under a bound for all of them together. Only the handler knows the meaning of
//! a frame.

use protocol::frame;

use super::connection::{Connection, ConnectionPhase, ReadOutcome};
use super::{ConnectionId, EventLoop, Handler};

impl EventLoop {
    /// Reads from one connection, up to its share of the turn.
    pub(super) fn read<H: Handler>(&mut self, id: ConnectionId, handler: &mut H) {
        if let Some(connection) = self.io.find(id) {
            connection.listed = false;
        }
        for _ in 0..self.options.limits.reads_per_turn {
            let held_back = self.io.is_held_back(id);
            let Some(connection) = self.io.find(id) else {
                return;
            };
            if connection.phase == ConnectionPhase::Connecting {
                return;
            }
            if held_back {
                // It is listed again when the cause of the hold is gone.
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
        let more = |connection: &mut Connection| connection.readable || connection.undispatched;
        if self.io.find(id).is_some_and(more) {
            self.io.list(id);
        }
    }

    /// Reads once from a connection's socket, and passes the frames that this completes to the
    /// handler.
    fn receive<H: Handler>(&mut self, id: ConnectionId, handler: &mut H) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let Some(connection) = self.io.find(id) else {
            self.buffer = buffer;
            return;
        };
        // The start of a frame is put before the bytes that are read, so that whole frames are read
        // in place. Only a frame that does not fit the buffer is gathered on its own.
        let held = connection.partial.len();
        let in_place = connection.claimed_bytes == 0 && held < buffer.len();
        let start = if in_place { held } else { 0 };
        let received = connection.receive(&mut buffer[start..]);
        // A handshake answers to what it reads.
        let answers = connection.must_transmit();
        match received {
            ReadOutcome::Ended(error) => {
                let reason = error.map_or_else(
                    || "the other side closed the connection".to_owned(),
                    |error| format!("the connection broke: {error}"),
                );
                self.io.remove(id, &reason);
            }
            ReadOutcome::Bytes(count) => {
                self.io.counters.bytes_in += count as u64;
                if answers {
                    self.io.write_soon(id);
                }
                let connection = self.io.find(id).expect("it was there above");
                if matches!(
                    connection.phase,
                    ConnectionPhase::Closing | ConnectionPhase::Draining
                ) {
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
            // The handler may have changed them with the frame before.
            let limits = self.io.frame_limits(id);
            let is_first = self.io.find(id).is_some_and(|it| !it.greeted);
            let first = match is_first {
                true => frame::check_first(&bytes[taken..]),
                false => Ok(()),
            };
            let decoded = first.and_then(|()| frame::decode_within(&bytes[taken..], limits));
            let frame = match decoded {
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
            if connection.phase != ConnectionPhase::Open {
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
        if let Ok(Some(size)) = frame::size(&bytes[taken..], self.io.frame_limits(id))
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
}
