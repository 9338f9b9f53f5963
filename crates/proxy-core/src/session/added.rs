//! Adds the proxy's own statements to a session. The client does not see the replies to them.

use alloc::format;
use alloc::string::String;
use bytes::BytesMut;

use super::PeerOutput;
use super::expected::{ExpectedReply, Prelude, ReplyKind};
use super::link::AttachedSession;
use super::settings::APPLICATION_NAME;
use crate::server::ServerConnection;
use pg_wire::framing::HEADER_LEN;
use pg_wire::message;
use pg_wire::quoting::literal;
use pg_wire::report::Report;

/// Name of the statement and the portal that are added to extended batches.
const NAME: &[u8] = b"replex_added\0";

impl AttachedSession<'_> {
    /// Runs a statement in a simple query of its own. Call it while the session is idle, or inside
    /// a transaction without outstanding replies.
    pub(super) fn run(
        &mut self,
        statement: &str,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) {
        // Any simple query ends the server's unnamed statement; the client's goes on.
        server.unnamed = None;
        message::write_query(&mut out.to_server, statement);
        self.link
            .expected
            .push(ExpectedReply::hidden(ReplyKind::Ready));
    }

    /// Sets the application name at the server to the client's.
    pub(super) fn name_application(&mut self, server: &mut ServerConnection, out: &mut PeerOutput) {
        let application = self.client.parameters.application();
        if server.parameters.get(APPLICATION_NAME) != application
            && let Some(Ok(name)) = application.map(|name| str::from_utf8(name))
        {
            let set = format!("SET application_name = {}", literal(name));
            self.run(&set, server, out);
        }
    }

    /// Adds a statement to an extended batch, before the client's next message.
    pub(super) fn add(&mut self, statement: &str, out: &mut PeerOutput) {
        let to_server = &mut out.to_server;
        // It is there still if it failed before: statements outlive transactions.
        message::write(to_server, b'C', &[b"S", NAME], 0);
        message::write(to_server, b'P', &[NAME, statement.as_bytes(), b"\0\0\0"], 0);
        message::write(to_server, b'B', &[NAME, NAME, b"\0\0\0\0\0\0"], 0);
        message::write(to_server, b'E', &[NAME, b"\0\0\0\0"], 0);
        message::write(to_server, b'C', &[b"P", NAME], 0);
        message::write(to_server, b'C', &[b"S", NAME], 0);
        let kinds = [
            ReplyKind::Close,
            ReplyKind::Parse,
            ReplyKind::Bind,
            ReplyKind::Execute,
            ReplyKind::Close,
            ReplyKind::Close,
        ];
        for kind in kinds {
            self.link.expected.push(ExpectedReply::hidden(kind));
        }
    }

    /// Sends the client a notice, after the replies to its messages so far.
    pub(super) fn notify(&mut self, notice: &Report, out: &mut PeerOutput) {
        let mut message = BytesMut::new();
        notice.write(&mut message);
        self.answering(out, |it, out| match it.link.expected.is_empty() {
            true => out.to_client.unsplit(message),
            false => it.link.expected.push(ExpectedReply::made(message)),
        });
    }
}

/// Returns a simple query with statements added before its text, and the number and length of these
/// statements.
pub(super) fn with_prelude(prelude: &[String], frame: &[u8]) -> (BytesMut, Prelude) {
    let text: String = prelude
        .iter()
        .map(|statement| format!("{statement};"))
        .collect();
    let prelude = Prelude {
        statements: prelude.len(),
        length: text.chars().count(),
    };
    let mut out = BytesMut::new();
    message::write(&mut out, b'Q', &[text.as_bytes(), &frame[HEADER_LEN..]], 0);
    (out, prelude)
}

/// Returns a statement that makes the server raise an error in place of a client's message, so that
/// the transaction fails as after an error of its own.
pub(super) fn raising(report: &Report) -> String {
    format!("DO $replex$BEGIN {}; END$replex$", report.raised())
}
