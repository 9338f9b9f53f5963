//! Divides a stream of bytes into messages, and long messages into pieces.
//!
//! A message is a tag, a length of four bytes that counts itself, and a body. A message of up to
//! [`WHOLE_LEN_MAX`] bytes is returned whole. A longer one is returned as its head, with at least
//! [`HEAD_LEN`] bytes, and then piece by piece as it arrives, so that no peer has to hold it.

use crate::Malformed;
use alloc::format;

/// The bytes of a message before its body: tag and length.
pub const HEADER_LEN: usize = 5;
/// The longest message in bytes that is returned as a whole.
pub const WHOLE_LEN_MAX: usize = 256 * 1024;
/// The fewest bytes of a longer message that are returned first: enough for the names at its
/// beginning.
pub const HEAD_LEN: usize = 16 * 1024;
/// The longest message that PostgreSQL takes, in bytes (`PQ_LARGE_MESSAGE_LIMIT`).
const LARGE_LEN_MAX: usize = 0x3fff_fffe;
/// The longest message of a kind that carries no data of users, in bytes
/// (`PQ_SMALL_MESSAGE_LIMIT`).
const SMALL_LEN_MAX: usize = 10_000;

/// The sender of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageSender {
    /// A client. Only known tags are accepted, as in PostgreSQL.
    Client,
    /// A server. Unknown tags are accepted, and rows are returned as they arrive.
    Server,
}

/// A piece of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamPiece<'a> {
    /// A message, or the beginning of a long one.
    Message(WireMessage<'a>),
    /// The rest of a message whose beginning was returned before.
    Rest(&'a [u8]),
}

/// A message, or the beginning of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireMessage<'a> {
    /// Header and body, as received.
    pub frame: &'a [u8],
    /// The number of bytes of the message that have not arrived; 0 for a complete message.
    pub rest: usize,
}

impl<'a> WireMessage<'a> {
    /// Returns the first byte, which identifies the kind of the message.
    pub fn tag(&self) -> u8 {
        self.frame[0]
    }

    /// Returns the bytes after the header that have arrived.
    pub fn body(&self) -> &'a [u8] {
        &self.frame[HEADER_LEN..]
    }

    /// Returns whether the message is complete.
    pub fn is_whole(&self) -> bool {
        self.rest == 0
    }
}

/// Cuts the stream of one peer into messages.
#[derive(Debug)]
pub struct MessageCutter {
    sender: MessageSender,
    /// Bytes of the current message that have not been given yet.
    rest: usize,
}

impl MessageCutter {
    /// Returns a cutter at the start of a message.
    pub fn new(sender: MessageSender) -> MessageCutter {
        MessageCutter { sender, rest: 0 }
    }

    /// Returns whether the next byte is the first of a message.
    pub fn is_between_messages(&self) -> bool {
        self.rest == 0
    }

    /// Returns how many bytes of the current message are still to be given.
    pub fn rest_len(&self) -> usize {
        self.rest
    }

    /// Returns the first piece of `buffer`, which the caller then removes; none until more bytes
    /// have arrived.
    ///
    /// Fails where no message can start so.
    pub fn next<'a>(&mut self, buffer: &'a [u8]) -> Result<Option<StreamPiece<'a>>, Malformed> {
        if buffer.is_empty() {
            return Ok(None);
        }
        if self.rest > 0 {
            let taken = buffer.len().min(self.rest);
            self.rest -= taken;
            return Ok(Some(StreamPiece::Rest(&buffer[..taken])));
        }
        let tag = buffer[0];
        let len_max = self.len_max(tag)?;
        let Some(length) = buffer.get(1..HEADER_LEN) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([length[0], length[1], length[2], length[3]]) as usize;
        if length < 4 || length > len_max {
            let tag = char::from(tag).escape_default();
            return Err(Malformed::new(format!(
                "invalid length {length} of a message `{tag}`"
            )));
        }
        let total = length + 1;
        let needed = if self.sender == MessageSender::Server && matches!(tag, b'D' | b'd') {
            HEADER_LEN
        } else if total <= WHOLE_LEN_MAX {
            total
        } else {
            HEAD_LEN
        };
        if buffer.len() < needed.min(total) {
            return Ok(None);
        }
        let taken = if total <= WHOLE_LEN_MAX && needed == total {
            total
        } else {
            buffer.len().min(total)
        };
        self.rest = total - taken;
        Ok(Some(StreamPiece::Message(WireMessage {
            frame: &buffer[..taken],
            rest: self.rest,
        })))
    }

    fn len_max(&self, tag: u8) -> Result<usize, Malformed> {
        if self.sender == MessageSender::Server {
            // A server's rows may be as long as the length can say.
            return Ok(u32::MAX as usize);
        }
        match tag {
            b'Q' | b'P' | b'B' | b'F' | b'd' => Ok(LARGE_LEN_MAX),
            b'C' | b'D' | b'E' | b'H' | b'S' | b'X' | b'c' | b'f' => Ok(SMALL_LEN_MAX),
            _ => Err(Malformed::new(format!(
                "invalid frontend message type {tag}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn frame(tag: u8, body_len: usize) -> Vec<u8> {
        let mut frame = vec![tag];
        frame.extend_from_slice(&u32::try_from(body_len + 4).unwrap().to_be_bytes());
        frame.resize(HEADER_LEN + body_len, b'x');
        frame
    }

    /// Returns all pieces of `bytes` as they come in chunks of `chunk`, put together again.
    fn pieces(
        sender: MessageSender,
        bytes: &[u8],
        chunk: usize,
    ) -> Result<(usize, Vec<u8>), Malformed> {
        let mut cutter = MessageCutter::new(sender);
        let (mut buffer, mut given, mut messages) = (Vec::new(), Vec::new(), 0);
        for chunk in bytes.chunks(chunk) {
            buffer.extend_from_slice(chunk);
            while let Some(piece) = cutter.next(&buffer)? {
                let taken = match piece {
                    StreamPiece::Message(message) => {
                        messages += 1;
                        message.frame
                    }
                    StreamPiece::Rest(rest) => rest,
                };
                given.extend_from_slice(taken);
                let taken = taken.len();
                buffer.drain(..taken);
                assert!(buffer.len() <= WHOLE_LEN_MAX + chunk.len());
            }
        }
        given.extend_from_slice(&buffer);
        Ok((messages, given))
    }

    #[test]
    fn long_message_comes_in_pieces() {
        let long = frame(b'Q', 2 * WHOLE_LEN_MAX);
        let bytes = [frame(b'S', 0), long, frame(b'H', 0)].concat();
        for chunk in [1_000, 4_096, bytes.len()] {
            assert_eq!(
                pieces(MessageSender::Client, &bytes, chunk),
                Ok((3, bytes.clone())),
                "{chunk}"
            );
        }
        let mut cutter = MessageCutter::new(MessageSender::Client);
        let Ok(Some(StreamPiece::Message(sync))) = cutter.next(&bytes) else {
            panic!("no message")
        };
        assert!(sync.is_whole());
        let Ok(Some(StreamPiece::Message(head))) = cutter.next(&bytes[5..5 + HEAD_LEN]) else {
            panic!("no head")
        };
        assert_eq!(head.rest, HEADER_LEN + 2 * WHOLE_LEN_MAX - HEAD_LEN);
    }

    #[test]
    fn row_of_a_server_is_not_waited_for() {
        let row = frame(b'D', 1_000);
        let mut cutter = MessageCutter::new(MessageSender::Server);
        let Ok(Some(StreamPiece::Message(head))) = cutter.next(&row[..10]) else {
            panic!("waited")
        };
        assert_eq!(head.rest, row.len() - 10);
        assert_eq!(
            cutter.next(&row[10..]),
            Ok(Some(StreamPiece::Rest(&row[10..])))
        );
        assert!(cutter.is_between_messages());
    }

    #[test]
    fn lengths_that_cannot_be() {
        for bytes in [
            *b"Q\xff\xff\xff\xff",
            *b"Q\x00\x00\x00\x03",
            *b"S\x00\x00\xff\xff",
            *b"B\x40\x00\x00\x00",
            *b"!\x00\x00\x00\x04",
        ] {
            assert!(
                MessageCutter::new(MessageSender::Client)
                    .next(&bytes)
                    .is_err(),
                "{bytes:?}"
            );
        }
        assert!(
            MessageCutter::new(MessageSender::Server)
                .next(b"Z\x00\x00\x00\x00")
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn stream_in_pieces_keeps_every_byte(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            chunk in 1_usize..50,
        ) {
            if let Ok((_, given)) = pieces(MessageSender::Server, &bytes, chunk) {
                prop_assert_eq!(given, bytes);
            }
        }
    }
}
