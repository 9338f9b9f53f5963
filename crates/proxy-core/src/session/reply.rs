//! The server's messages on their way to the client.

use super::expected::{Expected, ReplyKind, Undo};
use super::{Changes, IDLE, Out, Pinning, RestGoes, Session, Stage};
use crate::server::ServerConnection;
use alloc::format;
use pg_wire::Malformed;
use pg_wire::cut::{HEADER_LEN, Piece, WireMessage};
use pg_wire::message;
use pg_wire::report::{self, Report, Severity};

/// SQLSTATE: there is no such prepared statement.
const NO_STATEMENT: &str = "26000";

const SYNC: &[u8] = b"S\0\0\0\x04";

impl Session {
    /// Takes a piece of what the attached server sends.
    ///
    /// Fails where the server's replies do not fit what it was sent: both connections must end.
    pub fn server(
        &mut self,
        piece: Piece<'_>,
        server: &mut ServerConnection,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        self.answering(out, |session, out| session.receive(piece, server, out))
    }

    fn receive(
        &mut self,
        piece: Piece<'_>,
        server: &mut ServerConnection,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        let message = match piece {
            Piece::Message(message) => message,
            Piece::Rest(rest) => {
                if self.server_rest == RestGoes::On {
                    out.to_client.extend_from_slice(rest);
                }
                return Ok(());
            }
        };
        let front = self.expected.front();
        let mut is_seen =
            !front.is_some_and(|reply| reply.is_hidden || reply.prelude.statements > 0);
        match message.tag() {
            b'1' => is_seen = !self.take(ReplyKind::Parse)?.is_hidden,
            b'2' => is_seen = !self.take(ReplyKind::Bind)?.is_hidden,
            b'3' => is_seen = !self.take(ReplyKind::Close)?.is_hidden,
            b'T' | b'n' if self.awaits(ReplyKind::Describe) => {
                self.expected.pop();
            }
            b'C' | b'I' | b's' => self.completed(message, server),
            b'E' => return self.error(message, server, out),
            b'Z' => is_seen = !self.ready(message)?.is_hidden && !self.is_ready_elsewhere(),
            b'G' | b'W' => match self.expected.front() {
                Some(front) if front.ends_copy => {}
                Some(front) if matches!(front.kind, ReplyKind::Execute | ReplyKind::Ready) => {
                    self.copies_in = true;
                    self.expected.reopen();
                }
                _ => return Err(Malformed::new("the server asks for data of no COPY")),
            },
            b'S' => {
                let (name, value) = message::parameter_status(message.body())?;
                // The client may know of it already, where the proxy has set it.
                is_seen = self.parameters.get(&name) != Some(&value);
                server.report(name, value);
                self.parameters.know(server.parameters.clone());
            }
            b'N' | b'A' => is_seen = !self.has_failed_elsewhere(),
            _ => {}
        }
        self.server_rest = if is_seen {
            RestGoes::On
        } else {
            RestGoes::Nowhere
        };
        if is_seen && message.tag() == b'Z' {
            message::write_ready(&mut out.to_client, self.reported_status());
        } else if is_seen && message.tag() == b'T' && self.is_on_replica {
            self.numbers.write(message.frame, &mut out.to_client);
        } else if is_seen && message.tag() == b'A' {
            self.notified(message, server.process, out);
        } else if is_seen {
            out.to_client.extend_from_slice(message.frame);
        }
        self.expected.give_made(&mut out.to_client);
        Ok(())
    }

    /// Handles a notification: those that the client has sent itself are from the process that it
    /// knows.
    fn notified(&self, message: WireMessage<'_>, own: u32, out: &mut Out) {
        let start = out.to_client.len() + HEADER_LEN;
        out.to_client.extend_from_slice(message.frame);
        let process = out.to_client.get_mut(start..start + size_of::<u32>());
        if let Some(process) = process.filter(|process| **process == own.to_be_bytes()) {
            process.copy_from_slice(&self.process.to_be_bytes());
        }
    }

    /// Handles an error of the server.
    fn error(
        &mut self,
        message: WireMessage<'_>,
        server: &mut ServerConnection,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        let body = self.in_clients_names(message.body());
        let report = Report::read(&body);
        if report.severity == Severity::Fatal {
            if self.is_on_replica {
                // The session outlives it: the client gets an error with its end.
                self.server_rest = RestGoes::Nowhere;
                return Ok(());
            }
            self.is_end_reported = true;
        }
        let front = self.expected.front();
        if front.is_some_and(|reply| reply.is_optional) {
            self.server_rest = RestGoes::Nowhere;
            self.failed(server, out);
            return Ok(());
        }
        if front.is_some_and(|reply| reply.is_hidden && reply.kind == ReplyKind::Ready) {
            return Err(Malformed(format!(
                "a statement of the proxy failed: {report}"
            )));
        }
        let prelude = front.map_or(0, |reply| reply.prelude.length);
        if report.code == NO_STATEMENT && self.own_names.is_none() {
            // Something else than DEALLOCATE has removed statements: each is prepared again before
            // its next use.
            server.outdate();
        }
        if self.fails_elsewhere(&report) {
            self.server_rest = RestGoes::Nowhere;
            self.failed(server, out);
            return Ok(());
        }
        // Any other error is the client's, even of what was added for its sake.
        self.server_rest = RestGoes::On;
        self.block_fails();
        self.failed(server, out);
        if prelude > 0 && message.is_whole() {
            let body = report::moved(&body, prelude);
            message::write(&mut out.to_client, b'E', &[&body], 0);
        } else if message.is_whole() {
            message::write(&mut out.to_client, b'E', &[&body], 0);
        } else {
            out.to_client.extend_from_slice(message.frame);
        }
        self.expected.give_made(&mut out.to_client);
        Ok(())
    }

    /// Notes that its server is lost. Where that was a replica, the client gets an error for its
    /// batch, and the session goes on: true.
    pub fn lost(&mut self, report: &Report, out: &mut Out) -> bool {
        let had_snapshot = self.has_snapshot_elsewhere && !self.is_done();
        if self.is_on_replica {
            self.expected.forget_hidden();
        }
        let has_more = self.is_pinned || self.copies_in || !self.expected.is_one_batch();
        let is_alone = self.status == IDLE || had_snapshot;
        if !self.is_on_replica || !is_alone || has_more {
            return false;
        }
        // What it knew is gone with it.
        let mut gone = ServerConnection::default();
        let was_idle = self.expected.is_empty() && !self.is_within_batch();
        if had_snapshot {
            self.snapshot_is_lost(report);
        }
        self.has_snapshot_elsewhere = false;
        let (skipped, has_sync) = self.expected.skip_batch();
        for reply in skipped {
            self.undo(reply.undo, &mut gone);
        }
        self.expected.pop();
        assert!(self.expected.is_empty(), "there was one batch");
        if !was_idle && !self.fails_elsewhere(report) {
            if !self.is_skipping {
                report.write(&mut out.to_client);
            }
            self.block_fails();
            self.is_skipping = !has_sync;
            if has_sync {
                message::write_ready(&mut out.to_client, self.reported_status());
            }
        }
        out.to_server.clear();
        self.portals.clear();
        self.is_on_replica = false;
        self.server_rest = RestGoes::Nowhere;
        self.stage = Stage::Free;
        self.comes_back(out);
        true
    }

    fn awaits(&self, kind: ReplyKind) -> bool {
        self.expected
            .front()
            .is_some_and(|reply| reply.kind == kind)
    }

    fn take(&mut self, kind: ReplyKind) -> Result<Expected, Malformed> {
        match self.expected.pop() {
            Some(reply) if reply.kind == kind => Ok(reply),
            other => Err(Malformed(format!(
                "the server replied to {kind:?} where {:?} was to come",
                other.map(|reply| reply.kind)
            ))),
        }
    }

    /// Handles the end of a statement, in an extended batch or in a simple query.
    fn completed(&mut self, message: WireMessage<'_>, server: &mut ServerConnection) {
        if self.expected.is_empty() {
            // No client has sent one.
            return;
        }
        let mut undo = Undo::Nothing;
        if self.awaits(ReplyKind::Execute) {
            undo = self.expected.pop().map_or(undo, |reply| reply.undo);
        } else if let Some(reply) = self.expected.front_mut() {
            reply.prelude.statements = reply.prelude.statements.saturating_sub(1);
            undo = core::mem::take(&mut reply.undo);
            if undo.is_of_names() {
                self.statements.take_unnamed();
            }
        }
        // Then they were removed when it was sent, and what is there now was prepared behind it.
        let is_done = matches!(undo, Undo::RestoreAll(..));
        match message.body() {
            b"DEALLOCATE ALL\0" | b"DISCARD ALL\0" if !is_done => {
                server.forget_all();
                self.statements.take_named();
            }
            _ => {}
        }
        // What was sent behind it may leave something again.
        let is_over = self.expected.is_over() && !self.is_on_replica;
        if message.body() == b"DISCARD ALL\0" && is_over {
            let is_kept = self.pinning == Pinning::Always;
            server.is_dirty = !is_kept;
            self.is_pinned = is_kept;
            self.own_names = None;
            server.forget_all();
            self.statements.take_named();
            self.changes = Changes::Discarded;
            self.parameters.name_as_at_login();
        }
    }

    /// Notes that the server skips what is left of an extended batch. Of a simple query only
    /// ReadyForQuery is left.
    fn failed(&mut self, server: &mut ServerConnection, out: &mut Out) {
        let was_copying = core::mem::take(&mut self.copies_in);
        match self.expected.front_mut() {
            None => return,
            Some(reply) if reply.kind == ReplyKind::Ready => {
                // A query ends the unnamed statement, also if it fails.
                let undo = core::mem::take(&mut reply.undo);
                if undo.is_of_names() {
                    self.statements.take_unnamed();
                    self.undo(undo, server);
                }
                return;
            }
            Some(_) => {}
        }
        let (mut skipped, has_sync) = self.expected.skip_batch();
        let failed = skipped.pop();
        for reply in skipped {
            self.undo(reply.undo, server);
        }
        match failed.map(|reply| reply.undo) {
            // PostgreSQL drops the old one before it looks at the new one.
            Some(Undo::KeepUnnamed(..)) => {
                self.statements.take_unnamed();
                server.unnamed = None;
            }
            Some(undo) => self.undo(undo, server),
            None => {}
        }
        self.is_skipping = !has_sync;
        if was_copying && core::mem::take(&mut self.sync_ignored) {
            out.to_server.extend_from_slice(SYNC);
            self.is_skipping = false;
            self.expected.push(Expected::of_sync());
        }
    }

    fn undo(&mut self, undo: Undo, server: &mut ServerConnection) {
        match undo {
            Undo::Nothing => {}
            Undo::ForgetOnServer(id) => server.forget(&id),
            Undo::KeepOnServer(id) => server.keep(id),
            Undo::Forget(name) => {
                self.statements.remove(&name);
            }
            Undo::ForgetBoth(id, name) => {
                server.forget(&id);
                self.statements.remove(&name);
            }
            Undo::Restore(name, prepared) => {
                self.statements.insert(name, prepared);
            }
            Undo::ForgetUnnamedOnServer => server.unnamed = None,
            Undo::KeepUnnamed(of_client, of_server) => {
                self.statements.restore_unnamed(of_client);
                server.unnamed = of_server;
            }
            Undo::ShareNames(statements, on_server) => {
                self.own_names = None;
                self.statements.restore_named(statements);
                server.restore_named(on_server);
            }
            Undo::RestoreAll(statements, on_server) => {
                self.statements.restore_named(statements);
                server.restore_named(on_server);
            }
            Undo::KeepPortal(portal, Some(bound)) => {
                self.portals.insert(portal, bound);
            }
            Undo::KeepPortal(portal, None) => {
                self.portals.remove(&portal);
            }
        }
    }

    fn ready(&mut self, message: WireMessage<'_>) -> Result<Expected, Malformed> {
        let reply = self.take(ReplyKind::Ready)?;
        match message.body() {
            [status @ (b'I' | b'T' | b'E')] => self.status = *status,
            body => return Err(Malformed(format!("status {body:?} of a transaction"))),
        }
        self.copies_in = false;
        if self.status == IDLE {
            self.portals.clear();
        }
        Ok(reply)
    }
}
