//! Forwards the client's messages to the attached server.

use alloc::format;
use alloc::sync::Arc;

use bytes::Bytes;

use super::expected::{Describes, ExpectedReply, MessageUndo, Prelude, ReplyKind};
use super::held_messages::HeldMessageContent;
use super::link::{AttachedSession, ClientFlow, RestDestination};
use super::statements::MISSING_UNNAMED;
use super::{
    BoundStatement, PARAMETERS_LEN_MAX, PeerOutput, PreparedForm, PreparedStatement, STATEMENTS_MAX,
};
use crate::server::{ServerConnection, StatementId};
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;
use pg_wire::message::{self, BindMessage, ParseMessage, StatementOrPortal};

const PARSE_COMPLETE: &[u8] = b"1\0\0\0\x04";
const CLOSE_COMPLETE: &[u8] = b"3\0\0\0\x04";
/// Describes the unnamed portal, executes it whole, and ends the batch.
const RUN_UNNAMED: &[u8] = b"D\0\0\0\x06P\0E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04";

/// How a message is forwarded.
#[derive(Clone, Debug, Default)]
pub(super) struct Forwarding {
    /// The known content of the message.
    pub known: HeldMessageContent,
    /// Whether the message only changes the schema, whatever other keywords its query string has.
    pub is_schema_only: bool,
    /// The statements that the proxy sends before the message, if the message is a simple query.
    pub prelude: Prelude,
    /// The batch's prepared form, if it is a simple query.
    pub prepared_form: Option<PreparedForm>,
}

impl AttachedSession<'_> {
    // tidy: long — one match that shows where each message goes
    pub(super) fn forward(
        &mut self,
        message: WireMessage<'_>,
        how: Forwarding,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        self.link.client_rest = RestDestination::On;
        let tag = message.tag();
        if let ClientFlow::Copies { sync_ignored } = &mut self.link.flow {
            match tag {
                // The server ignores Sync and Flush between data.
                b'S' => *sync_ignored = true,
                b'H' => {}
                b'c' | b'f' => {
                    self.link.flow = ClientFlow::Forwards;
                    out.to_server.extend_from_slice(message.frame);
                }
                // If it is no data, the server ends the session: it looks for nothing else here.
                _ => out.to_server.extend_from_slice(message.frame),
            }
            return Ok(());
        }
        let is_data = matches!(tag, b'd' | b'c' | b'f');
        let is_skipped = self.link.flow == ClientFlow::Skips && tag != b'S';
        // Data may come right behind the statement that reads it. PostgreSQL ignores all other
        // data.
        if is_skipped || is_data && self.link.expected.is_empty() {
            self.link.client_rest = RestDestination::Nowhere;
            return Ok(());
        }
        self.describe_before(message, out);
        match tag {
            b'c' | b'f' => {
                self.link.expected.copy_ends();
                out.to_server.extend_from_slice(message.frame);
            }
            b'P' => self.parse(message, &how, server, out)?,
            b'B' => self.bind(message, &how, server, out)?,
            b'D' => {
                let mut reply = ExpectedReply::of(ReplyKind::Describe);
                if let StatementOrPortal::Statement(name) = StatementOrPortal::read(message.body())?
                {
                    reply = reply.about(name);
                    let there = self.on_server(name, server, out);
                    message::write(&mut out.to_server, b'D', &[b"S", &there], 0);
                    let statement = self.client.statements.find(name);
                    if let Some(statement) = statement.filter(|it| it.is_to_be_described())
                        && self.link.keeping.own_names().is_none()
                    {
                        reply.describes = Describes::Learns(statement);
                    }
                } else {
                    out.to_server.extend_from_slice(message.frame);
                }
                self.link.expected.push(reply);
            }
            b'C' => self.close(message, server, out)?,
            b'E' => {
                let bound = self.link.executed(message.body())?;
                let text = bound.as_ref().and_then(|bound| bound.prepared.text());
                let undo = self.deallocates(text.unwrap_or_default(), server, out);
                out.to_server.extend_from_slice(message.frame);
                self.link
                    .expected
                    .push(ExpectedReply::of(ReplyKind::Execute).or(undo));
            }
            b'S' => {
                self.link.flow = ClientFlow::Forwards;
                out.to_server.extend_from_slice(message.frame);
                self.link.expected.push(ExpectedReply::of_sync());
            }
            b'Q' if self.sets_by(message, out) => {}
            b'Q' => match &how.prepared_form {
                Some(prepared_form) => self.run_prepared(prepared_form, server, out),
                None => {
                    let undo = self.query(message, &how, server, out);
                    out.to_server.extend_from_slice(message.frame);
                    let mut reply = ExpectedReply::of(ReplyKind::Ready).or(undo);
                    reply.prelude = how.prelude;
                    self.link.expected.push(reply);
                }
            },
            b'F' => {
                out.to_server.extend_from_slice(message.frame);
                self.link.expect(ReplyKind::Ready);
            }
            _ => out.to_server.extend_from_slice(message.frame),
        }
        self.link.expected.give_made(&mut out.to_client);
        Ok(())
    }

    /// Handles a message that is all about settings of the proxy: it is answered when its turn
    /// comes. Returns false if the message is about anything else.
    fn sets_by(&mut self, message: WireMessage<'_>, out: &mut PeerOutput) -> bool {
        let Ok((text, _)) = message::split_string(message.body()) else {
            return false;
        };
        let status = self.link.reported_status();
        if self.link.expected.is_empty() {
            return self.client.settings.carry_out(text, status, out);
        }
        let mut answer = PeerOutput::default();
        let is_done = self.client.settings.carry_out(text, status, &mut answer);
        if is_done {
            self.link
                .expected
                .push(ExpectedReply::made(answer.to_client));
        }
        is_done
    }

    /// Runs a simple query as a prepared statement. It fails if an object that it refers to has
    /// changed since it was prepared, and is prepared again the next time.
    fn run_prepared(
        &mut self,
        it: &PreparedForm,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) {
        self.client.statements.take_unnamed();
        let name = self.prepared_on(server, &it.prepared, out);
        let parts: [&[u8]; 3] = [b"\0", &name, &it.parameters];
        message::write(&mut out.to_server, b'B', &parts, 0);
        out.to_server.extend_from_slice(RUN_UNNAMED);
        self.link
            .expected
            .push(ExpectedReply::hidden(ReplyKind::Bind));
        self.link.expect(ReplyKind::Describe);
        // A failure before its end leaves that undone.
        let again = MessageUndo::KeepOnServer(it.prepared.id);
        self.link
            .expected
            .push(ExpectedReply::of(ReplyKind::Execute).or(again));
        self.link.expected.push(ExpectedReply::of_sync());
    }

    /// Forwards a simple query, which also ends the unnamed statement unless it is skipped.
    fn query(
        &mut self,
        message: WireMessage<'_>,
        how: &Forwarding,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> MessageUndo {
        let known = how.known.effect();
        let effect = known.unwrap_or_else(|| self.client.grammar.effect_of_query(message));
        self.leaves(effect, how, server);
        let (text, _) = message::split_string(message.body()).unwrap_or_default();
        self.names_for(text, effect, (&mut *server, &mut *out));
        match self.deallocates(text, server, out) {
            MessageUndo::Nothing => MessageUndo::KeepUnnamed(
                self.client.statements.take_unnamed(),
                server.unnamed.take(),
            ),
            // The unnamed statement ends when it is answered.
            undo => undo,
        }
    }

    fn parse(
        &mut self,
        message: WireMessage<'_>,
        how: &Forwarding,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let parse = ParseMessage::read(message.body())?;
        if message.is_whole() {
            parse.text()?;
        }
        let prepared = match how.known.statement() {
            Some(known) => Arc::clone(known),
            None if message.is_whole() => {
                Arc::new(PreparedStatement::of(parse, self.client.grammar))
            }
            None => Arc::new(self.client.statements.long()),
        };
        self.leaves(prepared.effect, how, server);
        let text = prepared.text().unwrap_or_default();
        self.names_for(text, prepared.effect, (&mut *server, &mut *out));
        if parse.name.is_empty() {
            self.is_prepared(parse.name, &prepared);
            let (id, of_client) = self.client.statements.replace_unnamed(prepared);
            let of_server = server.unnamed.replace(id);
            out.to_server.extend_from_slice(message.frame);
            let undo = MessageUndo::KeepUnnamed(of_client, of_server);
            self.link
                .expected
                .push(ExpectedReply::of(ReplyKind::Parse).or(undo));
            return Ok(());
        }
        if self.link.keeping.own_names().is_some() {
            self.parse_as_it_is(message, (parse.name, prepared), out);
            return Ok(());
        }
        if self.client.statements.has(parse.name) {
            // The server knows the name, too, and refuses it.
            let name = self.on_server(parse.name, server, out);
            message::write(&mut out.to_server, b'P', &[&name, parse.rest], message.rest);
            self.link
                .expected
                .push(ExpectedReply::of(ReplyKind::Parse).about(parse.name));
            return Ok(());
        }
        if self.client.statements.is_full() {
            return Err(Malformed::new(format!(
                "a session may have {STATEMENTS_MAX} prepared statements: close some"
            )));
        }
        let client_name = Bytes::copy_from_slice(parse.name);
        if !self.wants_to_prepare(&prepared, server, out) {
            let made = ExpectedReply::made(PARSE_COMPLETE);
            self.link
                .expected
                .push(made.or(MessageUndo::Forget(client_name.clone())));
        } else {
            let parts: [&[u8]; 2] = [&prepared.server_name, parse.rest];
            self.make_room(&prepared, server, out);
            message::write(&mut out.to_server, b'P', &parts, message.rest);
            let reply = ExpectedReply::of(ReplyKind::Parse).about(parse.name);
            self.link
                .expected
                .push(reply.or(MessageUndo::ForgetBoth(prepared.id, client_name.clone())));
        }
        self.is_prepared(parse.name, &prepared);
        self.client.statements.insert(client_name, prepared);
        Ok(())
    }

    /// Forwards a Parse message as it is, as the server knows statements by the client's names.
    fn parse_as_it_is(
        &mut self,
        message: WireMessage<'_>,
        (name, prepared): (&[u8], Arc<PreparedStatement>),
        out: &mut PeerOutput,
    ) {
        let name = Bytes::copy_from_slice(name);
        let undo = match self.client.statements.insert(name.clone(), prepared) {
            Some(before) => MessageUndo::Restore(name, before),
            None => MessageUndo::Forget(name),
        };
        out.to_server.extend_from_slice(message.frame);
        self.link
            .expected
            .push(ExpectedReply::of(ReplyKind::Parse).or(undo));
    }

    fn bind(
        &mut self,
        message: WireMessage<'_>,
        how: &Forwarding,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let bind = BindMessage::read(message.body())?;
        let name = self.on_server(bind.statement, server, out);
        let statement = self.client.statements.find(bind.statement);
        // Its other effects were noted when it was prepared.
        if let Some(prepared) = statement.as_ref()
            && prepared.effect.is_of_settings()
        {
            self.leaves(prepared.effect, how, server);
        }
        let portal = Bytes::copy_from_slice(bind.portal);
        let before = match statement {
            Some(prepared) if self.link.knows_portals() => {
                let is_kept = message.is_whole() && bind.rest.len() <= PARAMETERS_LEN_MAX;
                let parameters = if is_kept { bind.rest } else { &[] };
                let bound = BoundStatement {
                    prepared,
                    parameters: Bytes::copy_from_slice(parameters),
                };
                self.link.portals.insert(portal.clone(), bound)
            }
            _ => self.link.portals.remove(bind.portal),
        };
        if name.len() == 1 && bind.statement.is_empty() {
            out.to_server.extend_from_slice(message.frame);
        } else {
            let parts: [&[u8]; 4] = [bind.portal, b"\0", &name, bind.rest];
            message::write(&mut out.to_server, b'B', &parts, message.rest);
        }
        let undo = MessageUndo::KeepPortal(portal, before);
        let reply = ExpectedReply::of(ReplyKind::Bind).about(bind.statement);
        self.link.expected.push(reply.or(undo));
        Ok(())
    }

    /// Closes a statement for the client only: others may use it on the server.
    fn close(
        &mut self,
        message: WireMessage<'_>,
        server: &ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        if let StatementOrPortal::Statement(name) = StatementOrPortal::read(message.body())? {
            let made = ExpectedReply::made(CLOSE_COMPLETE);
            if self.link.keeping.own_names().is_some() && !name.is_empty() {
                let undo = match self.client.statements.remove(name) {
                    Some((name, prepared)) => MessageUndo::Restore(name, prepared),
                    None => MessageUndo::Nothing,
                };
                out.to_server.extend_from_slice(message.frame);
                self.link
                    .expected
                    .push(ExpectedReply::of(ReplyKind::Close).or(undo));
                return Ok(());
            }
            if let Some((name, prepared)) = self.client.statements.remove(name) {
                self.link
                    .expected
                    .push(made.or(MessageUndo::Restore(name, prepared)));
                return Ok(());
            }
            if name.is_empty() {
                let undo =
                    MessageUndo::KeepUnnamed(self.client.statements.take_unnamed(), server.unnamed);
                self.link.expected.push(made.or(undo));
                return Ok(());
            }
        }
        out.to_server.extend_from_slice(message.frame);
        self.link.expect(ReplyKind::Close);
        Ok(())
    }

    /// Returns the name, with its zero byte, that the client's statement has on the server; it is
    /// prepared there if it is not. A statement that the client does not have is none that the
    /// server has.
    fn on_server(
        &mut self,
        name: &[u8],
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Bytes {
        if name.is_empty() {
            let Some((id, prepared)) = self.client.statements.unnamed().cloned() else {
                return [MISSING_UNNAMED, b"\0"].concat().into();
            };
            if server.unnamed != Some(id) {
                server.unnamed = Some(id);
                let body = prepared.body_again(!self.link.is_on_replica());
                message::write(
                    &mut out.to_server,
                    b'P',
                    &[b"\0", &body.unwrap_or_default()],
                    0,
                );
                let reply = ExpectedReply::hidden(ReplyKind::Parse);
                self.link
                    .expected
                    .push(reply.or(MessageUndo::ForgetUnnamedOnServer));
                self.check(&prepared, server, out);
            }
            return Bytes::from_static(b"\0");
        }
        let prepared = self.client.statements.find(name);
        // A statement beyond the length limit stays where it is.
        let is_there = |prepared: &PreparedStatement| {
            let own_names = self.link.keeping.own_names();
            let since = own_names.filter(|_| prepared.body.is_none());
            own_names.is_none() || since.is_some_and(|since| prepared.since < since)
        };
        let Some(prepared) = prepared.filter(|prepared| is_there(prepared)) else {
            // It has this name there, or was made by SQL's PREPARE, if at all: that keeps the
            // session's server.
            return [name, b"\0"].concat().into();
        };
        self.prepared_on(server, &prepared, out)
    }

    /// Returns the name, with its zero byte, that a statement has on the server; it is prepared
    /// there if it is not.
    fn prepared_on(
        &mut self,
        server: &mut ServerConnection,
        prepared: &Arc<PreparedStatement>,
        out: &mut PeerOutput,
    ) -> Bytes {
        if self.wants_to_prepare(prepared, server, out)
            && let Some(body) = prepared.body_again(!self.link.is_on_replica())
        {
            self.make_room(prepared, server, out);
            let parts: [&[u8]; 2] = [&prepared.server_name, &body];
            message::write(&mut out.to_server, b'P', &parts, 0);
            let reply = ExpectedReply::hidden(ReplyKind::Parse);
            self.link
                .expected
                .push(reply.or(MessageUndo::ForgetOnServer(prepared.id)));
            self.check(prepared, server, out);
        }
        prepared.server_name.clone()
    }

    /// Returns whether a client's statement must be prepared on the server. It must also be if the
    /// server has it from before the client prepared it, as the objects that it names may have
    /// changed since, or with other types than the client knows. Then it is closed there.
    fn wants_to_prepare(
        &mut self,
        prepared: &PreparedStatement,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> bool {
        let Some((since, there)) = server.uses(&prepared.id) else {
            return true;
        };
        let is_same = prepared.described.is_none() || there == prepared.described.as_ref();
        if since > prepared.since && is_same || self.may_have_portal(&prepared.id) {
            return false;
        }
        server.forget(&prepared.id);
        self.close_on_server(prepared.id, out);
        true
    }

    /// Makes room for a statement that is about to be prepared on the server: another may have to
    /// be closed for it.
    fn make_room(
        &mut self,
        prepared: &PreparedStatement,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) {
        if let Some(closed) = server.prepare(prepared.id) {
            self.close_on_server(closed, out);
        }
    }

    /// Closes a statement on the server, and with it the portals that run it.
    fn close_on_server(&mut self, id: StatementId, out: &mut PeerOutput) {
        let name = super::statements::server_name(&id);
        message::write(&mut out.to_server, b'C', &[b"S", &name], 0);
        let reply = ExpectedReply::hidden(ReplyKind::Close);
        self.link
            .expected
            .push(reply.or(MessageUndo::KeepOnServer(id)));
    }

    /// Returns whether a portal of the current transaction may run this statement.
    fn may_have_portal(&self, id: &StatementId) -> bool {
        let mut portals = self.link.portals.values();
        !self.link.knows_portals() || portals.any(|bound| bound.prepared.id == *id)
    }
}
