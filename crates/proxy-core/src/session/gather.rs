//! Handles the client's messages while no server is attached.

use alloc::sync::Arc;

use super::block::DetachedSession;
use super::failed_block::FollowingMessages;
use super::held_messages::{HeldMessageContent, HeldMessages};
use super::phase::{SessionPhase, WantingPhase};
use super::{PeerOutput, PreparedStatement, Session};
use pg_wire::framing::WireMessage;
use pg_wire::message::{self, ParseMessage};
use pg_wire::report::Report;

impl Session {
    /// Handles a message while no server is attached.
    pub(super) fn gather(&mut self, message: WireMessage<'_>, out: &mut PeerOutput) {
        match &mut self.phase {
            SessionPhase::Gathering(gathering) => {
                let mut alone = DetachedSession {
                    client: &mut self.client,
                    transaction: &mut gathering.transaction,
                };
                alone.take(message, &mut gathering.held, out);
                if gathering.held.wants_server() {
                    self.want_server(out);
                }
            }
            SessionPhase::Skipping(transaction) if message.tag() == b'S' => {
                message::write_ready(&mut out.to_client, transaction.status().byte());
                self.phase = SessionPhase::empty(core::mem::take(transaction));
            }
            SessionPhase::Skipping(_) => {}
            SessionPhase::Wanting(_) | SessionPhase::Attached(_) | SessionPhase::Ended(..) => {
                panic!("a message came that is not taken");
            }
        }
    }

    /// Makes the gathered messages wait for a server, even if the batch is incomplete.
    pub(super) fn want_server(&mut self, out: &mut PeerOutput) {
        let SessionPhase::Gathering(gathering) = &mut self.phase else {
            return;
        };
        if gathering.transaction.has_failed_here() {
            let mut alone = DetachedSession {
                client: &mut self.client,
                transaction: &mut gathering.transaction,
            };
            let behind = alone.answer_failed(&gathering.held, out);
            let (transaction, _) = gathering.take();
            self.phase = match behind {
                FollowingMessages::Answered => SessionPhase::empty(transaction),
                FollowingMessages::Skipped => SessionPhase::Skipping(transaction),
            };
            return;
        }
        let failure = gathering.transaction.failure();
        let (transaction, held) = gathering.take();
        self.phase = SessionPhase::Wanting(WantingPhase {
            transaction,
            held,
            failure: None,
        });
        if let Some(failure) = failure {
            self.refuse(&failure, out);
        }
    }

    /// Answers the held messages with an error, because no server can run them. The session
    /// continues.
    pub(super) fn refuse(&mut self, report: &Report, out: &mut PeerOutput) {
        let WantingPhase {
            mut transaction,
            held,
            ..
        } = self.take_wanting();
        assert!(!transaction.is_waiting(), "its transaction has a server");
        report.write(&mut out.to_client);
        transaction.fails();
        if held.is_to_end() {
            message::write_ready(&mut out.to_client, transaction.status().byte());
            self.phase = SessionPhase::empty(transaction);
        } else {
            self.phase = SessionPhase::Skipping(transaction);
        }
    }
}

impl DetachedSession<'_> {
    /// Takes a message: answers it, ignores it, or holds it.
    fn take(&mut self, message: WireMessage<'_>, held: &mut HeldMessages, out: &mut PeerOutput) {
        let known = match message.tag() {
            // PostgreSQL, too, ignores the rest of a COPY that has failed.
            b'd' | b'c' | b'f' if !held.may_copy() => return,
            b'Q' if held.is_empty() && self.answers(message, out) => return,
            b'S' if self.turns_batch(held, out) => return,
            b'H' if held.is_empty() => return,
            b'Q' => HeldMessageContent::Effect(self.client.grammar.effect_of_query(message)),
            b'P' if message.is_whole() => match ParseMessage::read(message.body()) {
                Ok(parse) => HeldMessageContent::Statement(Arc::new(PreparedStatement::of(
                    parse,
                    self.client.grammar,
                ))),
                Err(_) => HeldMessageContent::Nothing,
            },
            _ => HeldMessageContent::Nothing,
        };
        held.push(message, known);
    }

    /// Answers a simple query that needs no server. Returns false if it needs one.
    fn answers(&mut self, message: WireMessage<'_>, out: &mut PeerOutput) -> bool {
        let Ok((text, _)) = message::split_string(message.body()) else {
            return false;
        };
        let sets_application =
            self.transaction.is_none() && self.client.parameters.sets_application(text, out);
        let status = self.transaction.status();
        if sets_application || self.client.settings.carry_out(text, status, out) {
            return true;
        }
        message.is_whole() && (self.run_block_command(text, out) || self.deallocates(text, out))
    }
}
