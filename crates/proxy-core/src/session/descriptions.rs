//! Keeps the types of a prepared statement's parameters and columns as its client knows them, when
//! the statement is prepared again on another server.
//!
//! PostgreSQL fixes the types of a statement's parameters and columns when it is prepared, and
//! answers `cached plan must not change result type` once the columns would be others. A statement
//! that is prepared again, on another connection, would just have the new ones, while its client
//! reads rows by the first ones. So a server describes each statement once, behind its Parse if
//! the client does not ask for that, and again wherever it is prepared again. The messages that
//! use it there wait for that answer.
//!
//! This leaves out the unnamed statement that a client prepares and runs in one batch: such a
//! client prepares it each time. It also leaves out statements under the client's own names, see
//! `names`.

use alloc::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::expected::{Describes, ExpectedReply, ReplyKind};
use super::link::AttachedSession;
use super::{PeerOutput, PreparedStatement};
use crate::description::Description;
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;
use pg_wire::message::{self, StatementOrPortal};

/// PostgreSQL's error; drivers know it by its code and by the function that reports it.
const RESULT_TYPE_CHANGED: &[u8] = b"SERROR\0VERROR\0C0A000\0\
    Mcached plan must not change result type\0\
    Fplancache.c\0L723\0RRevalidateCachedQuery\0\0";

/// Fails as a server prepares it, with a text for the server's log.
const FAILING: &[u8] = b"\0SELECT 'cached plan must not change result type'::int\0\0\0";

impl AttachedSession<'_> {
    /// Records that a statement has just been prepared.
    pub(super) fn is_prepared(&mut self, name: &[u8], prepared: &Arc<PreparedStatement>) {
        if prepared.is_to_be_described() {
            let name = Bytes::copy_from_slice(name);
            self.link.descriptions.undescribed = Some((name, Arc::clone(prepared)));
        }
    }

    /// Makes the server describe the statement that was just prepared, before this message, unless
    /// the message does so itself.
    pub(super) fn describe_before(&mut self, message: WireMessage<'_>, out: &mut PeerOutput) {
        let Some((name, prepared)) = self.link.descriptions.undescribed.take() else {
            return;
        };
        let is_described = match message.tag() {
            b'D' => {
                StatementOrPortal::read(message.body()) == Ok(StatementOrPortal::Statement(&name))
            }
            b'S' | b'H' => false,
            _ => name.is_empty(),
        };
        if !is_described {
            let describe: [&[u8]; 2] = [b"S", &prepared.server_name];
            message::write(&mut out.to_server, b'D', &describe, 0);
            let mut reply = ExpectedReply::hidden(ReplyKind::Describe).about(&name);
            reply.describes = Describes::Learns(prepared);
            self.link.expected.push(reply);
        }
    }

    /// Holds back later messages until the server has described a statement that was prepared
    /// again, if the client knows an earlier description.
    pub(super) fn check(
        &mut self,
        prepared: &Arc<PreparedStatement>,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) {
        let Some(described) = &prepared.described else {
            return;
        };
        server.describe(&prepared.id, Arc::clone(described));
        let describe: [&[u8]; 2] = [b"S", &prepared.server_name];
        message::write(&mut out.to_server, b'D', &describe, 0);
        message::write(&mut out.to_server, b'H', &[], 0);
        let mut reply = ExpectedReply::hidden(ReplyKind::Describe);
        reply.describes = Describes::Checks(Arc::clone(prepared));
        self.link.expected.push(reply);
        self.link.gates.close(out);
    }

    /// Handles the message ParameterDescription.
    pub(super) fn parameters_described(&mut self, message: WireMessage<'_>) {
        self.link.descriptions.parameters = match message.is_whole() {
            true => Bytes::copy_from_slice(message.body()),
            false => Bytes::new(),
        };
    }

    /// Handles the end of a description. Returns false if the batch has failed because of it.
    pub(super) fn described(
        &mut self,
        message: WireMessage<'_>,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<bool, Malformed> {
        let parameters = core::mem::take(&mut self.link.descriptions.parameters);
        let found = message.is_whole().then(|| {
            let columns = if message.tag() == b'T' {
                message.body()
            } else {
                &[]
            };
            Arc::new(Description::read(&parameters, columns))
        });
        let front = self.link.expected.front();
        if let Some(Describes::Checks(prepared)) = front.map(|it| &it.describes)
            && let (Some(known), Some(found)) = (&prepared.described, &found)
            && !known.has_columns_of(found)
        {
            server.describe(&prepared.id, Arc::clone(found));
            if prepared.is_unnamed() {
                // The next use prepares it again, too.
                server.unnamed = None;
            }
            let known = Arc::clone(known);
            self.fails_check(&known, server, out)?;
            return Ok(false);
        }
        let Some(front) = self.link.expected.pop() else {
            return Ok(true);
        };
        match (front.describes, found) {
            (Describes::Learns(prepared), Some(found)) => {
                let statements = &mut self.client.statements;
                statements.describe(&front.statement, prepared.since, &found);
                server.describe(&prepared.id, found);
            }
            (Describes::Checks(_), _) => self.link.gates.open(out),
            (Describes::Nothing | Describes::Learns(_), _) => {}
        }
        Ok(true)
    }

    /// Fails the batch as PostgreSQL would, and drops the replies that were held back. The
    /// statement then fails on the server, too, and with it the transaction.
    fn fails_check(
        &mut self,
        known: &Description,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        // A replica may have run it at a schema of before.
        self.discard_answer();
        let second = self.link.expected.second();
        if second.is_some_and(|it| it.kind == ReplyKind::Describe && !it.is_hidden) {
            // A Describe message gets the parameters before it fails.
            known.write_parameters(&mut out.to_client);
        }
        let to_server = self.link.gates.in_front(out);
        message::write(to_server, b'P', &[b"replex_failing", FAILING], 0);
        let mut frame = BytesMut::new();
        message::write(&mut frame, b'E', &[RESULT_TYPE_CHANGED], 0);
        let message = WireMessage {
            frame: &frame,
            rest: 0,
        };
        self.error(message, server, out)?;
        let fails = ExpectedReply::optional(ReplyKind::Parse);
        self.link.expected.push_front(fails);
        Ok(())
    }
}
