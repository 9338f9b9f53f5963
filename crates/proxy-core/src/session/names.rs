//! Lets the client's SQL refer to prepared statements by the client's names, although the
//! statements have other names on servers.
//!
//! On servers, statements have names that sessions share. SQL that uses a client's name still
//! works:
//!
//! - `DEALLOCATE` alone is answered here, where no server is attached. Otherwise something is
//!   prepared on the server under the client's name right before it, so that the server itself
//!   answers, as the transaction's state has it.
//! - Before anything else that makes the session keep its server, and names statements, all of the
//!   client's are prepared there under the client's names. From then on names go to that server as
//!   they are.

use alloc::vec::Vec;

use bytes::Bytes;

use super::PeerOutput;
use super::block::DetachedSession;
use super::expected::{ExpectedReply, MessageUndo, ReplyKind, TransactionStatus};
use super::link::AttachedSession;
use crate::grammar::SessionEffect;
use crate::names::{self, Deallocation};
use crate::server::{ServerConnection, ServerStatements};
use pg_wire::message;

impl DetachedSession<'_> {
    /// Executes `DEALLOCATE` in a simple query while no server is attached. Returns false if a
    /// server must run it.
    pub(super) fn deallocates(&mut self, text: &[u8], out: &mut PeerOutput) -> bool {
        let is_server = self.client.is_pinned() || self.transaction.has_failed_here();
        if is_server || !names::is_deallocate(text) {
            return false;
        }
        let statements = &mut self.client.statements;
        let tag: &[u8] = match names::command_of(text) {
            Some(Deallocation::DeallocateAll) => {
                statements.take_named();
                b"DEALLOCATE ALL\0"
            }
            Some(Deallocation::Deallocate(name)) if statements.remove(&name[..]).is_some() => {
                b"DEALLOCATE\0"
            }
            // The server reports that it is not there.
            _ => return false,
        };
        statements.take_unnamed();
        message::write(&mut out.to_client, b'C', &[tag], 0);
        self.write_ready(out);
        true
    }
}

impl AttachedSession<'_> {
    /// Prepares for a text that is about to run on the attached server. If it removes statements,
    /// the client does not have them any more. Returns the statements to restore if the text does
    /// not run.
    pub(super) fn deallocates(
        &mut self,
        text: &[u8],
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> MessageUndo {
        match names::command_of(text) {
            Some(Deallocation::Deallocate(name)) => {
                let Some((name, prepared)) = self.client.statements.remove(&name[..]) else {
                    return MessageUndo::Nothing;
                };
                if self.link.keeping.own_names().is_none() {
                    let with_end: [&[u8]; 2] = [&name, b"\0"];
                    let close: [&[u8]; 3] = [b"S", &name, b"\0"];
                    message::write(&mut out.to_server, b'C', &close, 0);
                    let parse: [&[u8]; 3] = [with_end[0], with_end[1], b"\0\0\0"];
                    message::write(&mut out.to_server, b'P', &parse, 0);
                    self.link
                        .expected
                        .push(ExpectedReply::hidden(ReplyKind::Close));
                    self.link
                        .expected
                        .push(ExpectedReply::hidden(ReplyKind::Parse));
                }
                MessageUndo::Restore(name, prepared)
            }
            Some(Deallocation::DeallocateAll) => {
                MessageUndo::RestoreAll(self.client.statements.take_named(), server.forget_named())
            }
            None => MessageUndo::Nothing,
        }
    }

    /// Prepares for a text that may leave this state and is about to be sent. If it may mention
    /// statements by name, the server gets them under the client's names.
    pub(super) fn names_for(
        &mut self,
        text: &[u8],
        effect: SessionEffect,
        (server, out): (&mut ServerConnection, &mut PeerOutput),
    ) {
        let looks = names::looks_at_statements(text);
        // A change of nothing but the schema has left it unpinned.
        let is_kept = effect == SessionEffect::KeepsSession && self.link.keeping.is_kept();
        let may_name = is_kept && names::mentions(text);
        let is_one = names::command_of(text).is_some();
        let is_failed = self.link.status == TransactionStatus::Failed;
        if !looks && !may_name || is_one || self.link.is_on_replica() || is_failed {
            return;
        }
        self.link.keeping.keep();
        server.is_dirty = true;
        let statements = self.client.statements.named().clone();
        let undo = match self.link.keeping.own_names() {
            None => MessageUndo::ShareNames(statements, self.gives_own_names(server, out)),
            Some(_) => MessageUndo::RestoreAll(statements, ServerStatements::new()),
        };
        if names::may_change_names(text) && !looks {
            // From here on only the server knows their meaning.
            self.client.statements.take_named();
        }
        // It has no reply, and is skipped together with the messages behind it.
        self.link
            .expected
            .push(ExpectedReply::made(Bytes::new()).or(undo));
    }

    /// Returns the server's statements under the client's own names.
    fn gives_own_names(
        &mut self,
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> ServerStatements {
        // A statement that cannot be prepared any more must not fail later messages, nor end an
        // implicit transaction that goes on.
        let is_apart = !self.link.is_within_batch();
        let long = self
            .client
            .statements
            .named()
            .values()
            .filter(|it| it.body.is_none());
        let long: Vec<_> = long.map(|it| it.id).collect();
        let on_server = server.forget_named();
        for id in on_server.keys().filter(|id| !long.contains(id)) {
            let name = super::statements::server_name(id);
            message::write(&mut out.to_server, b'C', &[b"S", &name], 0);
            self.link
                .expected
                .push(ExpectedReply::hidden(ReplyKind::Close));
        }
        if is_apart {
            self.sync_apart(out);
        }
        for (name, prepared) in self.client.statements.named() {
            let Some(body) = prepared.body_again(true) else {
                continue;
            };
            // Something else may be there from a DEALLOCATE that has failed.
            message::write(&mut out.to_server, b'C', &[b"S", name, b"\0"], 0);
            self.link
                .expected
                .push(ExpectedReply::hidden(ReplyKind::Close));
            let parts: [&[u8]; 3] = [name, b"\0", &body];
            message::write(&mut out.to_server, b'P', &parts, 0);
            self.link.expected.push(match is_apart {
                true => ExpectedReply::optional(ReplyKind::Parse),
                false => ExpectedReply::hidden(ReplyKind::Parse),
            });
            if is_apart {
                message::write(&mut out.to_server, b'S', &[], 0);
                self.link.expected.push(ExpectedReply::hidden_sync());
            }
        }
        self.link.keeping.give_own_names();
        on_server
    }

    fn sync_apart(&mut self, out: &mut PeerOutput) {
        message::write(&mut out.to_server, b'S', &[], 0);
        self.link.expected.push(ExpectedReply::hidden_sync());
    }
}
