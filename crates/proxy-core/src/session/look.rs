//! Passes each message of a client to a router before it goes to the attached server. The router
//! records the writes of the message, and may run statements before it or in its place.

use alloc::sync::Arc;

use bytes::BytesMut;

use super::action::{
    ComingMessage, MessageEffect, MessageRouter, MessageTreatment, RunKind, SnapshotState,
};
use super::added::{raising, with_prelude};
use super::demand::StatementText;
use super::expected::TransactionStatus;
use super::forward::Forwarding;
use super::held_messages::HeldMessageContent;
use super::link::{AttachedRole, AttachedSession, ClientFlow, RestDestination};
use super::{BoundStatement, PeerOutput, TraceSetting};
use crate::grammar::SessionEffect;
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;
use pg_wire::message::{self, StatementOrPortal};

impl AttachedSession<'_> {
    /// Forwards a client's message to the server, as the router decides. `known` is what is already
    /// known of it.
    pub(super) fn pass(
        &mut self,
        message: WireMessage<'_>,
        known: HeldMessageContent,
        (server, router): (&mut ServerConnection, &mut dyn MessageRouter),
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let mut how = Forwarding {
            known,
            ..Forwarding::default()
        };
        if self.link.flow == ClientFlow::Skips {
            return self.forward(message, how, server, out);
        }
        let bound = match message.tag() {
            b'E' => self.link.executed(message.body()).ok().flatten(),
            _ => None,
        };
        let treatment = router.look(&self.coming(message, bound.as_ref()));
        how.is_schema_only = treatment.is_schema_only;
        let instead = if let Some(report) = &treatment.raises {
            how.known = HeldMessageContent::Effect(SessionEffect::Nothing);
            self.raise(message.tag(), &raising(report), out)
        } else {
            self.treat(&treatment, out);
            if message.tag() == b'Q' && !treatment.prelude.is_empty() {
                let effect = self.client.grammar.effect_of_query(message);
                how.known = HeldMessageContent::Effect(effect);
                let (frame, prelude) = with_prelude(&treatment.prelude, message.frame);
                how.prelude = prelude;
                Some(frame)
            } else {
                for statement in &treatment.prelude {
                    self.add(statement, out);
                }
                None
            }
        };
        let Some(frame) = instead else {
            return self.forward(message, how, server, out);
        };
        let replaced = WireMessage {
            frame: &frame,
            rest: 0,
        };
        self.forward(replaced, how, server, out)?;
        self.link.client_rest = RestDestination::Nowhere;
        Ok(())
    }

    /// Notifies the client, and adds numbers of tables.
    fn treat(&mut self, treatment: &MessageTreatment, out: &mut PeerOutput) {
        if let AttachedRole::Replica(replica) = &mut self.link.role {
            replica.numbers.add(&treatment.numbers);
        }
        if let Some(notice) = &treatment.notice {
            self.notify(notice, out);
        }
    }

    /// Has the server raise an error by this statement. Returns the message that goes in its place;
    /// none if it is skipped behind the error.
    fn raise(&mut self, tag: u8, statement: &str, out: &mut PeerOutput) -> Option<BytesMut> {
        let has_snapshot = self.link.has_snapshot();
        if has_snapshot && self.link.status != TransactionStatus::Failed {
            // The client begins its transaction again, which then finds its objects.
            self.client.deferral.keep_snapshots();
        }
        let mut frame = BytesMut::new();
        if matches!(tag, b'Q' | b'F') {
            message::write_query(&mut frame, statement);
            return Some(frame);
        }
        self.add(statement, out);
        // The effect of the message must not keep the session at a replica: Flush stands in its
        // place, which has no answer, and the messages behind it are skipped.
        message::write(&mut frame, b'H', &[], 0);
        has_snapshot.then_some(frame)
    }

    /// Returns the effect of a message at the server. A portal that it executes is bound to this.
    fn coming<'a>(
        &self,
        message: WireMessage<'a>,
        bound: Option<&'a BoundStatement>,
    ) -> ComingMessage<'a> {
        let has_snapshot = self.link.has_snapshot();
        let does = match message.tag() {
            b'P' => ComingMessage::prepares(message),
            b'D' => match StatementOrPortal::read(message.body()) {
                Ok(StatementOrPortal::Statement(name)) => {
                    let statement = self.client.statements.find(name);
                    statement.map_or(MessageEffect::Nothing, MessageEffect::Describes)
                }
                _ => MessageEffect::Nothing,
            },
            b'S' => MessageEffect::Syncs,
            b'Q' => match message::split_string(message.body()) {
                // The state that it leaves behind is analysed where it is forwarded.
                Ok((text, _)) if message.is_whole() => MessageEffect::Runs(
                    StatementText::Simple(text, SessionEffect::Nothing),
                    RunKind::Query,
                ),
                _ => MessageEffect::Runs(StatementText::Unknown, RunKind::Query),
            },
            b'E' => match bound {
                Some(bound) => {
                    let text = StatementText::Bound(Arc::clone(&bound.prepared), &bound.parameters);
                    MessageEffect::Runs(text, RunKind::Execute)
                }
                // A portal that was not bound in the transaction is not there.
                None if has_snapshot && self.link.knows_portals() => MessageEffect::Nothing,
                None => MessageEffect::Runs(StatementText::Unknown, RunKind::Execute),
            },
            b'F' => MessageEffect::Runs(StatementText::Unknown, RunKind::Call),
            _ => MessageEffect::Nothing,
        };
        let is_inside = self.link.status != TransactionStatus::Idle;
        let is_quiet = is_inside && self.link.is_quiet();
        ComingMessage {
            does,
            snapshot: has_snapshot.then_some(match is_quiet {
                true => SnapshotState::Quiet,
                false => SnapshotState::Busy,
            }),
            is_inside,
            is_failed: self.link.status == TransactionStatus::Failed,
            is_pinned: self.link.keeping.is_kept(),
            is_traced: self.client.settings.trace == TraceSetting::On,
        }
    }
}
