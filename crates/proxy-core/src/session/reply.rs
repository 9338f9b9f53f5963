//! Relays the server's messages to the client.

use super::PeerOutput;
use super::expected::{Describes, ExpectedReply, MessageUndo, ReplyKind, TransactionStatus};
use super::link::{AttachedRole, AttachedSession, ClientFlow, RestDestination};
use super::pin_state::{PinState, SettingChanges};
use super::replica_reads::ErrorReceiver;
use super::statements::{MISSING_UNNAMED, PREFIX};
use crate::server::{ServerConnection, StatementId};
use alloc::borrow::Cow;
use alloc::format;
use pg_wire::Malformed;
use pg_wire::framing::{HEADER_LEN, StreamPiece, WireMessage};
use pg_wire::message;
use pg_wire::report::{self, Report, Severity};

/// SQLSTATE: there is no such prepared statement.
const NO_STATEMENT: &str = "26000";

const SYNC: &[u8] = b"S\0\0\0\x04";

impl AttachedSession<'_> {
    /// Handles a part of the server's stream. `is_valid` returns whether the snapshots of a batch
    /// at a replica are valid, once the batch has taken them.
    ///
    /// Fails where the server's replies do not fit its messages: both connections must end.
    pub(super) fn reply(
        &mut self,
        piece: StreamPiece<'_>,
        server: &mut ServerConnection,
        is_valid: &mut dyn FnMut() -> bool,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        if let StreamPiece::Message(message) = piece
            && self.is_proof(message.tag())
        {
            match is_valid() {
                true => self.accept_snapshot(out),
                false => self.discard_answer(),
            }
        }
        self.answering(out, |it, out| it.receive(piece, server, out))
    }

    // tidy: long — one match that shows what each message answers
    fn receive(
        &mut self,
        piece: StreamPiece<'_>,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let message = match piece {
            StreamPiece::Message(message) => message,
            StreamPiece::Rest(rest) => {
                if self.link.server_rest == RestDestination::On {
                    out.to_client.extend_from_slice(rest);
                }
                return Ok(());
            }
        };
        let front = self.link.expected.front();
        let mut is_seen =
            !front.is_some_and(|reply| reply.is_hidden || reply.prelude.statements > 0);
        match message.tag() {
            b'1' => is_seen = !self.link.take(ReplyKind::Parse)?.is_hidden,
            b'2' => is_seen = !self.link.take(ReplyKind::Bind)?.is_hidden,
            b'3' => is_seen = !self.link.take(ReplyKind::Close)?.is_hidden,
            b't' => self.parameters_described(message),
            b'T' | b'n' if self.link.awaits(ReplyKind::Describe) => {
                match self.described(message, server, out)? {
                    true => {}
                    false => return Ok(()),
                }
            }
            b'C' | b'I' | b's' => self.completed(message, server),
            b'E' => return self.error(message, server, out),
            b'Z' => is_seen = !self.ready(message)?.is_hidden && self.note_ready(),
            b'G' | b'W' => match self.link.expected.front() {
                Some(front) if front.ends_copy => {}
                Some(front) if matches!(front.kind, ReplyKind::Execute | ReplyKind::Ready) => {
                    self.link.copies();
                    self.link.expected.reopen();
                }
                _ => return Err(Malformed::new("the server asks for data of no COPY")),
            },
            b'S' => {
                let (name, value) = message::parameter_status(message.body())?;
                // The client may know of it already, where the proxy has set it.
                is_seen = self.client.parameters.get(&name) != Some(&value);
                server.report(name, value);
                self.client.parameters.know(server.parameters.clone());
            }
            b'N' | b'A' => is_seen = !self.has_failed_at_replica(),
            _ => {}
        }
        self.link.server_rest = if is_seen {
            RestDestination::On
        } else {
            RestDestination::Nowhere
        };
        if is_seen && message.tag() == b'Z' {
            message::write_ready(&mut out.to_client, self.link.reported_status().byte());
        } else if is_seen
            && message.tag() == b'T'
            && let AttachedRole::Replica(replica) = &self.link.role
        {
            replica.numbers.write(message.frame, &mut out.to_client);
        } else if is_seen && message.tag() == b'N' {
            self.noticed(message, out);
        } else if is_seen && message.tag() == b'A' {
            self.notified(message, server.process, out);
        } else if is_seen {
            out.to_client.extend_from_slice(message.frame);
        }
        self.link.expected.give_made(&mut out.to_client);
        Ok(())
    }

    /// Passes a notice to the client. A position in the statement's text becomes a position in the
    /// client's text.
    fn noticed(&self, message: WireMessage<'_>, out: &mut PeerOutput) {
        let front = self.link.expected.front();
        let prelude = front.map_or(0, |reply| reply.prelude.length);
        if prelude > 0 && message.is_whole() {
            let body = report::moved(message.body(), prelude);
            message::write(&mut out.to_client, b'N', &[&body], 0);
        } else {
            out.to_client.extend_from_slice(message.frame);
        }
    }

    /// Handles a notification: those that the client has sent itself are from the process that it
    /// knows.
    fn notified(&self, message: WireMessage<'_>, own: u32, out: &mut PeerOutput) {
        let start = out.to_client.len() + HEADER_LEN;
        out.to_client.extend_from_slice(message.frame);
        let process = out.to_client.get_mut(start..start + size_of::<u32>());
        if let Some(process) = process.filter(|process| **process == own.to_be_bytes()) {
            process.copy_from_slice(&self.client.process.to_be_bytes());
        }
    }

    /// Handles an error of the server.
    pub(super) fn error(
        &mut self,
        message: WireMessage<'_>,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let body = self.in_clients_names(message.body());
        let report = Report::read(&body);
        if report.severity == Severity::Fatal {
            match &mut self.link.role {
                AttachedRole::Primary(primary) => primary.is_end_reported = true,
                AttachedRole::Replica(_) => {
                    // The session outlives it: the client gets an error with its end.
                    self.link.server_rest = RestDestination::Nowhere;
                    return Ok(());
                }
            }
        }
        let front = self.link.expected.front();
        if front.is_some_and(|reply| reply.is_optional) {
            self.link.server_rest = RestDestination::Nowhere;
            self.failed(server, out);
            return Ok(());
        }
        if front.is_some_and(|reply| reply.is_hidden && reply.kind == ReplyKind::Ready) {
            return Err(Malformed::new(format!(
                "a statement of the proxy failed: {report}"
            )));
        }
        let prelude = front.map_or(0, |reply| reply.prelude.length);
        if report.code == NO_STATEMENT && self.link.keeping.own_names().is_none() {
            // Something else than DEALLOCATE has removed statements: each is prepared again before
            // its next use.
            server.outdate();
        }
        if self.note_failure(&report) == ErrorReceiver::Proxy {
            self.link.server_rest = RestDestination::Nowhere;
            self.failed(server, out);
            return Ok(());
        }
        // Any other error is the client's, even of a statement that was added for its sake.
        self.link.server_rest = RestDestination::On;
        self.link.transaction_fails();
        self.failed(server, out);
        if prelude > 0 && message.is_whole() {
            let body = report::moved(&body, prelude);
            message::write(&mut out.to_client, b'E', &[&body], 0);
        } else if message.is_whole() {
            message::write(&mut out.to_client, b'E', &[&body], 0);
        } else {
            out.to_client.extend_from_slice(message.frame);
        }
        self.link.expected.give_made(&mut out.to_client);
        Ok(())
    }

    /// Returns an error's fields, in which statements have the names that the client has given
    /// them.
    fn in_clients_names<'a>(&self, body: &'a [u8]) -> Cow<'a, [u8]> {
        let found = |name: &[u8]| body.windows(name.len()).position(|it| it == name);
        let quoted_missing = [b"prepared statement \"", MISSING_UNNAMED, b"\""].concat();
        let (start, length, name) = if let Some(start) = found(&quoted_missing) {
            (start, quoted_missing.len(), MISSING_UNNAMED)
        } else if let (Some(start), Some(front)) = (found(PREFIX), self.link.expected.front()) {
            let length = PREFIX.len() + 2 * size_of::<StatementId>();
            (start, length, &front.statement[..])
        } else {
            return Cow::Borrowed(body);
        };
        let Some(after) = body.get(start + length..).filter(|_| !name.is_empty()) else {
            return Cow::Borrowed(body);
        };
        Cow::Owned([&body[..start], name, after].concat())
    }

    /// Handles the end of a statement, in an extended batch or in a simple query.
    fn completed(&mut self, message: WireMessage<'_>, server: &mut ServerConnection) {
        if self.link.expected.is_empty() {
            // No client has sent one.
            return;
        }
        let mut undo = MessageUndo::Nothing;
        if self.link.awaits(ReplyKind::Execute) {
            undo = self.link.expected.pop().map_or(undo, |reply| reply.undo);
        } else if let Some(reply) = self.link.expected.front_mut() {
            reply.prelude.statements = reply.prelude.statements.saturating_sub(1);
            undo = core::mem::take(&mut reply.undo);
            if undo.is_of_names() {
                self.client.statements.take_unnamed();
            }
        }
        // Then they were removed when it was sent, and the present ones were prepared behind it.
        let is_done = matches!(undo, MessageUndo::RestoreAll(..));
        match message.body() {
            b"DEALLOCATE ALL\0" | b"DISCARD ALL\0" if !is_done => {
                server.forget_all();
                self.client.statements.take_named();
            }
            _ => {}
        }
        // Messages behind it may leave state again.
        let is_over = self.link.expected.is_over() && !self.link.is_on_replica();
        if message.body() == b"DISCARD ALL\0" && is_over {
            let is_kept = self.client.is_pinned();
            server.is_dirty = !is_kept;
            self.link.keeping = match is_kept {
                true => PinState::Kept { own_names: None },
                false => PinState::Shared(SettingChanges::Discarded),
            };
            server.forget_all();
            self.client.statements.take_named();
            self.client.parameters.name_as_at_login();
        }
    }

    /// Notes that the server skips the rest of an extended batch. Of a simple query only
    /// ReadyForQuery is left.
    fn failed(&mut self, server: &mut ServerConnection, out: &mut PeerOutput) {
        let flow = self.link.flow;
        if self.link.is_copying() {
            self.link.flow = ClientFlow::Forwards;
        }
        match self.link.expected.front_mut() {
            None => return,
            Some(reply) if reply.kind == ReplyKind::Ready => {
                // A query ends the unnamed statement, also if it fails.
                let undo = core::mem::take(&mut reply.undo);
                if undo.is_of_names() {
                    self.client.statements.take_unnamed();
                    self.undo(undo, server);
                }
                return;
            }
            Some(_) => {}
        }
        let (mut skipped, has_sync) = self.link.expected.skip_batch();
        self.link.descriptions.undescribed = None;
        let is_check = |reply: &ExpectedReply| matches!(reply.describes, Describes::Checks(_));
        if skipped.iter().any(is_check) {
            self.link.gates.drop_behind(out);
            if has_sync {
                out.to_server.extend_from_slice(SYNC);
            }
        }
        let failed = skipped.pop();
        for reply in skipped {
            self.undo(reply.undo, server);
        }
        match failed.map(|reply| reply.undo) {
            // PostgreSQL drops the old one before it looks at the new one.
            Some(MessageUndo::KeepUnnamed(..)) => {
                self.client.statements.take_unnamed();
                server.unnamed = None;
            }
            Some(undo) => self.undo(undo, server),
            None => {}
        }
        if flow == (ClientFlow::Copies { sync_ignored: true }) {
            out.to_server.extend_from_slice(SYNC);
            self.link.expected.push(ExpectedReply::of_sync());
        } else if !has_sync {
            self.link.flow = ClientFlow::Skips;
        } else {
            self.link.flow = ClientFlow::Forwards;
        }
    }

    pub(super) fn undo(&mut self, undo: MessageUndo, server: &mut ServerConnection) {
        match undo {
            MessageUndo::Nothing => {}
            MessageUndo::ForgetOnServer(id) => server.forget(&id),
            MessageUndo::KeepOnServer(id) => server.keep(id),
            MessageUndo::Forget(name) => {
                self.client.statements.remove(&name);
            }
            MessageUndo::ForgetBoth(id, name) => {
                server.forget(&id);
                self.client.statements.remove(&name);
            }
            MessageUndo::Restore(name, prepared) => {
                self.client.statements.insert(name, prepared);
            }
            MessageUndo::ForgetUnnamedOnServer => server.unnamed = None,
            MessageUndo::KeepUnnamed(of_client, of_server) => {
                self.client.statements.restore_unnamed(of_client);
                server.unnamed = of_server;
            }
            MessageUndo::ShareNames(statements, on_server) => {
                self.link.keeping.share_names();
                self.client.statements.restore_named(statements);
                server.restore_named(on_server);
            }
            MessageUndo::RestoreAll(statements, on_server) => {
                self.client.statements.restore_named(statements);
                server.restore_named(on_server);
            }
            MessageUndo::KeepPortal(portal, Some(bound)) => {
                self.link.portals.insert(portal, bound);
            }
            MessageUndo::KeepPortal(portal, None) => {
                self.link.portals.remove(&portal);
            }
        }
    }

    fn ready(&mut self, message: WireMessage<'_>) -> Result<ExpectedReply, Malformed> {
        let reply = self.link.take(ReplyKind::Ready)?;
        let body = message.body();
        let status = TransactionStatus::read(body);
        self.link.status =
            status.ok_or_else(|| Malformed::new(format!("status {body:?} of a transaction")))?;
        if self.link.is_copying() {
            self.link.flow = ClientFlow::Forwards;
        }
        if self.link.status == TransactionStatus::Idle {
            self.link.portals.clear();
        }
        Ok(reply)
    }
}
