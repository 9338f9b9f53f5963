//! The protocol of one connection as a machine without I/O: it takes the bytes of a client, and
//! returns what the client asks for, message by message.
//!
//! ```text
//! Startup --SSLRequest, GSSENCRequest--> Startup      each once
//! Startup --CancelRequest--> Over
//! Startup --StartupMessage--> Serving
//! Serving --error in the extended protocol--> Skipping
//! Skipping --Sync--> Serving
//! any --bytes that are no message--> Over
//! ```
//!
//! The data of a COPY may be cut anywhere: a long CopyData is returned in pieces, each as a
//! message.
//!
//! Invariants: the machine holds at most one message, of at most [`MESSAGE_LEN_MAX`] bytes. Bytes
//! of clients never cause a panic. After [`Received::Close`] or a fatal report it returns nothing
//! more.

use bytes::{Bytes, BytesMut};

use pg_wire::Malformed;
use pg_wire::framing::{HEADER_LEN, MessageCutter, MessageSender, StreamPiece};
use pg_wire::frontend::ClientMessage;
use pg_wire::report::{Report, Severity};
use pg_wire::startup::{self, CancelKey, FirstPacket, StartupPacket};

use crate::errors::{MESSAGE_TOO_LONG, NOT_SUPPORTED, PROTOCOL_VIOLATION};

/// The longest message of a client, in bytes. A longer one is an error, and is not held.
pub const MESSAGE_LEN_MAX: usize = 16 << 20;

/// The machine.
#[derive(Debug)]
pub struct ClientProtocol {
    state: ProtocolState,
    cutter: MessageCutter,
    long: Option<LongMessage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProtocolState {
    /// Before the StartupMessage. Each kind of encryption may be requested once.
    Startup {
        tls_requested: bool,
        gss_requested: bool,
    },
    /// The session runs.
    Serving,
    /// A message of the extended protocol has failed. All messages before the next Sync are
    /// skipped.
    Skipping,
    /// Nothing more is read.
    Over,
}

/// A message that arrives in several pieces.
#[derive(Debug)]
enum LongMessage {
    /// It is held until it is complete.
    Held(BytesMut),
    /// Its pieces are returned one by one: it is a CopyData.
    Passed,
    /// It is too long, or is skipped.
    Dropped,
}

/// The next event of a client's stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing complete: more bytes are needed.
    Nothing,
    /// A request for TLS.
    TlsRequest,
    /// A request for encryption by GSSAPI, which there is not.
    GssRequest,
    /// The start of the session.
    Startup(StartupPacket),
    /// A request to cancel another session's statement. The connection ends.
    Cancel(CancelKey),
    /// A message, complete and valid.
    Message(MessageFrame),
    /// An invalid message, or one that is refused. The report is the answer. If it is fatal, the
    /// connection ends.
    Refused(MessageRefusal),
    /// The connection ends without an answer.
    Close,
}

/// The answer to a message that is refused.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageRefusal {
    /// The error.
    pub report: Report,
    /// Whether ReadyForQuery follows, because the message is answered on its own.
    pub is_ready_after: bool,
}

/// A complete message that was found valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageFrame(Bytes);

impl MessageFrame {
    /// Returns the message.
    pub fn message(&self) -> ClientMessage<'_> {
        let read = ClientMessage::read(self.0[0], &self.0[HEADER_LEN..]);
        read.expect("the frame was made of a message that was read")
    }
}

impl Default for ClientProtocol {
    fn default() -> ClientProtocol {
        ClientProtocol {
            state: ProtocolState::Startup {
                tls_requested: false,
                gss_requested: false,
            },
            cutter: MessageCutter::new(MessageSender::Client),
            long: None,
        }
    }
}

impl ClientProtocol {
    /// Takes the next message from the bytes that have arrived.
    pub fn next(&mut self, input: &mut BytesMut) -> Received {
        match self.state {
            ProtocolState::Startup { .. } => self.first_packet(input),
            ProtocolState::Serving | ProtocolState::Skipping => self.next_message(input),
            ProtocolState::Over => {
                input.clear();
                Received::Nothing
            }
        }
    }

    /// Returns whether the bytes that have arrived end with a complete message.
    pub fn is_between_messages(&self, input: &BytesMut) -> bool {
        input.is_empty() && self.cutter.is_between_messages() && self.long.is_none()
    }

    /// Skips all messages until the next Sync, because a message of the extended protocol has
    /// failed.
    pub fn skip_to_sync(&mut self) {
        if self.state == ProtocolState::Serving {
            self.state = ProtocolState::Skipping;
        }
    }

    fn first_packet(&mut self, input: &mut BytesMut) -> Received {
        // The sender of an impossible length may not speak the protocol: there is no answer, as
        // with PostgreSQL.
        let length = match startup::length(input) {
            Ok(Some(length)) if input.len() >= length => length,
            Ok(_) => return Received::Nothing,
            Err(_) => return self.close(),
        };
        let packet = input.split_to(length);
        let packet = match startup::read(&packet) {
            Ok(packet) => packet,
            Err(error) => return self.fatal(PROTOCOL_VIOLATION, error.to_string()),
        };
        let ProtocolState::Startup {
            tls_requested,
            gss_requested,
        } = &mut self.state
        else {
            unreachable!("a first packet is read at the start")
        };
        let (repeated, request) = match packet {
            FirstPacket::Tls => (std::mem::replace(tls_requested, true), Received::TlsRequest),
            FirstPacket::Gss => (std::mem::replace(gss_requested, true), Received::GssRequest),
            FirstPacket::Cancel(key) => {
                self.state = ProtocolState::Over;
                return Received::Cancel(key);
            }
            FirstPacket::Startup(packet) => {
                self.state = ProtocolState::Serving;
                return Received::Startup(packet);
            }
            FirstPacket::Unsupported(text) => return self.fatal(NOT_SUPPORTED, text),
        };
        if repeated {
            let text = "encryption was requested twice";
            return self.fatal(PROTOCOL_VIOLATION, text.to_owned());
        }
        request
    }

    fn next_message(&mut self, input: &mut BytesMut) -> Received {
        loop {
            let piece = match self.cutter.next(input) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Received::Nothing,
                Err(error) => return self.fatal(PROTOCOL_VIOLATION, error.to_string()),
            };
            let (taken, rest) = match piece {
                StreamPiece::Message(message) => (message.frame.len(), message.rest),
                StreamPiece::Rest(rest) => (rest.len(), self.cutter.rest_len()),
            };
            let is_start = matches!(piece, StreamPiece::Message(_));
            let bytes = input.split_to(taken);
            let frame = match (is_start, rest) {
                (true, 0) => bytes.freeze(),
                (true, rest) => {
                    if let Some(received) = self.begin_long(bytes, rest) {
                        return received;
                    }
                    continue;
                }
                (false, rest) => match self.long.take() {
                    Some(LongMessage::Held(mut held)) => {
                        held.extend_from_slice(&bytes);
                        if rest > 0 {
                            self.long = Some(LongMessage::Held(held));
                            continue;
                        }
                        held.freeze()
                    }
                    Some(LongMessage::Passed) => {
                        if rest > 0 {
                            self.long = Some(LongMessage::Passed);
                        }
                        if self.state == ProtocolState::Skipping {
                            continue;
                        }
                        // Only the tag of its header is read.
                        let mut piece = BytesMut::with_capacity(HEADER_LEN + bytes.len());
                        piece.extend_from_slice(&[b'd', 0, 0, 0, 0]);
                        piece.extend_from_slice(&bytes);
                        piece.freeze()
                    }
                    _ if rest > 0 => {
                        self.long = Some(LongMessage::Dropped);
                        continue;
                    }
                    _ => continue,
                },
            };
            if let Some(received) = self.accept(frame) {
                return received;
            }
        }
    }

    /// Begins a message of which more bytes follow. Returns its refusal if it is too long, and its
    /// first piece if it is the data of a COPY.
    fn begin_long(&mut self, head: BytesMut, rest: usize) -> Option<Received> {
        let length = head.len() + rest;
        let tag = head[0];
        let is_skipped = self.state == ProtocolState::Skipping;
        if tag == b'd' && !is_skipped {
            self.long = Some(LongMessage::Passed);
            return Some(Received::Message(MessageFrame(head.freeze())));
        }
        if length <= MESSAGE_LEN_MAX && !is_skipped {
            self.long = Some(LongMessage::Held(head));
            return None;
        }
        self.long = Some(LongMessage::Dropped);
        if is_skipped {
            return None;
        }
        let text = format!("a message of {length} bytes is longer than {MESSAGE_LEN_MAX} bytes");
        let report = Report::new(Severity::Error, MESSAGE_TOO_LONG, text)
            .hint("Send the data in several statements.");
        Some(self.refuse(tag, report))
    }

    /// Returns a complete message; none if it is skipped.
    fn accept(&mut self, frame: Bytes) -> Option<Received> {
        let tag = frame[0];
        if self.state == ProtocolState::Skipping {
            match tag {
                b'S' | b'X' => self.state = ProtocolState::Serving,
                _ => return None,
            }
        }
        match ClientMessage::read(tag, &frame[HEADER_LEN..]) {
            Ok(ClientMessage::FunctionCall) => {
                let text = "calling a function by its number is not supported";
                let report = Report::new(Severity::Error, NOT_SUPPORTED, text);
                Some(self.refuse(tag, report.hint("Call it in a SELECT.")))
            }
            Ok(_) => Some(Received::Message(MessageFrame(frame))),
            Err(error) => Some(self.malformed(tag, &error)),
        }
    }

    fn malformed(&mut self, tag: u8, error: &Malformed) -> Received {
        match tag {
            b'S' | b'H' | b'X' => self.fatal(PROTOCOL_VIOLATION, error.to_string()),
            tag => {
                let text = error.to_string();
                let report = Report::new(Severity::Error, PROTOCOL_VIOLATION, text);
                self.refuse(tag, report)
            }
        }
    }

    /// Refuses a message of this tag. The session goes on after it, or after the next Sync.
    fn refuse(&mut self, tag: u8, report: Report) -> Received {
        let is_ready_after = matches!(tag, b'Q' | b'F');
        if !is_ready_after && !is_of_copy(tag) {
            self.skip_to_sync();
        }
        Received::Refused(MessageRefusal {
            report,
            is_ready_after,
        })
    }

    fn fatal(&mut self, code: &str, text: String) -> Received {
        self.state = ProtocolState::Over;
        Received::Refused(MessageRefusal {
            report: Report::new(Severity::Fatal, code, text),
            is_ready_after: false,
        })
    }

    fn close(&mut self) -> Received {
        self.state = ProtocolState::Over;
        Received::Close
    }
}

fn is_of_copy(tag: u8) -> bool {
    matches!(tag, b'd' | b'c' | b'f')
}

#[cfg(test)]
mod tests;
