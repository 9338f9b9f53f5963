//! Statements that the proxy adds to a session, whose replies the client does not see.

use bytes::{Bytes, BytesMut};

use super::expected::{Expected, Kind, Prelude};
use super::{Out, Session};
use crate::wire::cut::HEADER_LEN;
use crate::wire::message;

/// Name of the statement and the portal that are added to extended batches.
const NAME: &[u8] = b"replex_added\0";

impl Session {
    /// Runs a statement in a simple query of its own. To be called while the session is idle, or
    /// inside of a transaction with nothing expected.
    pub fn run(&mut self, statement: &str, out: &mut Out) {
        message::write_query(&mut out.to_server, statement);
        self.expected.push(Expected::hidden(Kind::Ready));
    }

    /// Adds a statement to an extended batch, in front of what the client sends next.
    pub fn add(&mut self, statement: &str, out: &mut Out) {
        let to_server = &mut out.to_server;
        message::write(to_server, b'P', &[NAME, statement.as_bytes(), b"\0\0\0"], 0);
        message::write(to_server, b'B', &[NAME, NAME, b"\0\0\0\0\0\0"], 0);
        message::write(to_server, b'E', &[NAME, b"\0\0\0\0"], 0);
        message::write(to_server, b'C', &[b"P", NAME], 0);
        message::write(to_server, b'C', &[b"S", NAME], 0);
        let kinds = [
            Kind::Parse,
            Kind::Bind,
            Kind::Execute,
            Kind::Close,
            Kind::Close,
        ];
        for kind in kinds {
            self.expected.push(Expected::hidden(kind));
        }
    }

    /// A simple query's frame with statements in front of its text.
    pub(super) fn with_prelude(&mut self, prelude: &[String], frame: &Bytes) -> Bytes {
        if prelude.is_empty() {
            return frame.clone();
        }
        let text: String = prelude
            .iter()
            .map(|statement| format!("{statement};"))
            .collect();
        self.prelude = Prelude {
            statements: prelude.len(),
            length: text.chars().count(),
        };
        let mut out = BytesMut::new();
        message::write(&mut out, b'Q', &[text.as_bytes(), &frame[HEADER_LEN..]], 0);
        out.freeze()
    }
}
