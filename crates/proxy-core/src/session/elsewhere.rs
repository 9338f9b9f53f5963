//! Reads that run elsewhere than their transaction.
//!
//! At READ COMMITTED each statement sees the transactions that have committed when that statement
//! begins. So a batch of reads in a transaction that is on the primary may run at a replica, if it
//! touches nothing that the transaction has written (P1). Between its batches such a transaction
//! *waits*: its next batch gathers as outside of transactions, and then runs here or there.
//!
//! A read that runs alone at a replica may be *watched*: whether its answer counts is known once
//! its snapshot is known to have been taken, see `freshness::watch`. Until then its answer is kept
//! back. If it does not count, it runs again on the primary.
//!
//! A simple query may run there as a prepared statement. If that fails, it runs on the primary as
//! the client has sent it, so that the error is that of the client's text, or there is none.
//!
//! An error elsewhere would leave the transaction on the primary as it was, while on one server the
//! transaction would fail, too. So the answer is kept back until all of it is there. If the batch
//! fails before anything was relayed, it runs again on the primary, as if it had never run
//! elsewhere. If part of it was relayed already, or the client itself has cancelled it, the primary
//! is made to raise the same error.
//!
//! Invariants
//! - While a transaction waits, nothing is expected from the primary.
//! - The client receives one answer to a batch: all of one server's, or one server's up to an error
//!   that the primary raised behind it.

use alloc::boxed::Box;
use core::mem::replace;

use super::action::{MessageRouter, SessionEnding};
use super::added::raising;
use super::batch::{BatchFailure, RetryableBatch, SnapshotProof};
use super::deferral::DeferredBlock;
use super::expected::{ExpectedReply, ReplyKind};
use super::held_messages::HeldMessage;
use super::link::{
    AttachedRole, AttachedSession, ClientFlow, DetachedTransaction, ReplicaReads, ReplicaSide,
    ReplicaWork, ServerLink, WaitingTransaction,
};
use super::phase::{SessionPhase, WantingPhase};
use super::pin_state::{PinState, SettingChanges};
use super::{PeerOutput, Session};
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;
use pg_wire::message;
use pg_wire::report::Report;

impl Session {
    /// Gathers the next batch of the transaction from now on. The primary's connection stays the
    /// session's.
    pub(super) fn pause(&mut self) {
        let link = self.take_link();
        assert!(link.may_pause(), "waits while something is under way");
        self.phase =
            SessionPhase::empty(DetachedTransaction::Waiting(Box::new(WaitingTransaction {
                link,
                portal_is_old: false,
            })));
    }

    /// Runs the batch on the primary, where its transaction is.
    pub(super) fn resume(
        &mut self,
        server: &mut ServerConnection,
        router: &mut dyn MessageRouter,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let WantingPhase {
            transaction,
            held,
            failure,
        } = self.take_wanting();
        let DetachedTransaction::Waiting(waiting) = transaction else {
            panic!("its transaction does not wait");
        };
        let WaitingTransaction {
            link,
            portal_is_old,
        } = *waiting;
        self.phase = SessionPhase::Attached(link);
        let mut exchange = self.exchange();
        exchange.client.parameters.report(server, out);
        let first = held.messages().first().map(|message| message.frame[0]);
        let is_simple = matches!(first, Some(b'Q' | b'F'));
        if portal_is_old && !is_simple {
            exchange.link.portals.remove(&b""[..]);
            message::write(&mut out.to_server, b'C', &[b"P\0"], 0);
            let expected = &mut exchange.link.expected;
            expected.push(ExpectedReply::hidden(ReplyKind::Close));
        }
        if let Some(report) = failure.as_ref().and_then(BatchFailure::raised) {
            exchange.add(&raising(report), out);
            message::write(&mut out.to_server, b'S', &[], 0);
            exchange.link.expected.push(ExpectedReply::of_sync());
        }
        for (HeldMessage { frame, known }, rest) in held.into_messages() {
            let message = WireMessage {
                frame: &frame,
                rest,
            };
            exchange.pass(message, known, (&mut *server, &mut *router), out)?;
        }
        Ok(())
    }

    /// Gives the server back. A batch that has failed there wants the primary.
    pub(super) fn released(&mut self, out: &mut PeerOutput) {
        let link = self.take_link();
        assert!(link.is_done(), "released what is in use");
        assert!(
            matches!(link.keeping, PinState::Shared(SettingChanges::Nothing)),
            "its settings are not known"
        );
        self.leave(link, out);
    }

    /// Goes on without the server.
    fn leave(&mut self, link: ServerLink, out: &mut PeerOutput) {
        self.phase = match link.role {
            AttachedRole::Replica(ReplicaSide {
                runs: ReplicaWork::Reads(reads),
                ..
            }) => match reads.batch {
                Some(batch) => {
                    let (held, failure) = batch.back(&mut self.client, out);
                    SessionPhase::Wanting(WantingPhase {
                        transaction: reads.transaction,
                        held,
                        failure: Some(failure),
                    })
                }
                None => SessionPhase::empty(reads.transaction),
            },
            AttachedRole::Primary(_) | AttachedRole::Replica(_) => {
                SessionPhase::empty(DetachedTransaction::None)
            }
        };
    }

    /// Handles the loss of the server. A session outlives a replica, but not the primary's
    /// connection: there a commit may have been under way.
    pub(super) fn server_lost(&mut self, report: Report, is_cut: bool, out: &mut PeerOutput) {
        let Some(link) = self.phase.link_mut() else {
            self.ends(SessionEnding::Server);
            return;
        };
        let keeps_answer = link.batch().is_some_and(RetryableBatch::keeps_answer);
        if link.is_end_reported() || is_cut && !keeps_answer {
            self.ends(SessionEnding::Server);
            return;
        }
        let hint = match link.has_snapshot() {
            true => "Its transaction only read: begin that again, and it goes elsewhere.",
            false => "It was a read: ask again, and it goes elsewhere.",
        };
        let is_snapshot_lost = link.has_snapshot() && !link.is_done();
        if link.may_be_lost(is_snapshot_lost) {
            self.replica_lost(&report.hint(hint), is_snapshot_lost, out);
            return;
        }
        let hint = "Whether a COMMIT that was under way took effect is not known.";
        self.ends(SessionEnding::Lost(report.hint(hint)));
    }

    /// Goes on without its replica, which is lost, and with it the snapshot of its transaction if
    /// `is_snapshot_lost`: the client gets an error for its batch.
    fn replica_lost(&mut self, report: &Report, is_snapshot_lost: bool, out: &mut PeerOutput) {
        let mut link = self.take_link();
        let (was_quiet, was_skipping) = (link.is_quiet(), link.flow == ClientFlow::Skips);
        // The replica's connection is gone, and its state with it.
        let mut gone = ServerConnection::default();
        let (skipped, has_sync) = link.expected.skip_batch();
        let mut exchange = AttachedSession {
            client: &mut self.client,
            link: &mut link,
        };
        for reply in skipped {
            exchange.undo(reply.undo, &mut gone);
        }
        exchange.link.expected.pop();
        assert!(exchange.link.expected.is_empty(), "there was one batch");
        let is_reported = !was_quiet && !exchange.fails_elsewhere(report);
        out.to_server.clear();
        self.leave(link, out);
        if is_snapshot_lost {
            self.phase =
                SessionPhase::empty(DetachedTransaction::Deferred(DeferredBlock::lost(report)));
        }
        // A batch that comes back, or of which nothing was under way, has no error.
        let gathering = match &mut self.phase {
            SessionPhase::Gathering(gathering) if is_reported => gathering,
            _ => return,
        };
        if !was_skipping {
            report.write(&mut out.to_client);
        }
        gathering.transaction.fails();
        match has_sync {
            true => {
                let status = gathering.transaction.status();
                message::write_ready(&mut out.to_client, status.byte());
            }
            false => self.phase = SessionPhase::Skipping(gathering.take().0),
        }
    }
}

impl AttachedSession<'_> {
    /// Returns whether the server's next message, which has this tag, shows that the batch has
    /// taken its snapshots there.
    pub(super) fn is_proof(&self, tag: u8) -> bool {
        let of_batch = |front: &ExpectedReply| !front.is_hidden;
        let is_of_batch = self.link.expected.front().is_some_and(of_batch);
        match self
            .link
            .batch()
            .map_or(SnapshotProof::None, RetryableBatch::proof)
        {
            SnapshotProof::None => false,
            // Nothing runs before it is described; and some things are about no statement.
            SnapshotProof::First => is_of_batch && !b"123TtnNSA".contains(&tag),
            SnapshotProof::End => is_of_batch && b"EZ".contains(&tag),
        }
    }

    /// Notes that the snapshots of the batch are valid.
    pub(super) fn counts(&mut self, out: &mut PeerOutput) {
        let Some(reads) = self.link.reads_mut() else {
            return;
        };
        let is_alone = !reads.transaction.is_waiting();
        reads.batch.take_if(|batch| batch.counts(is_alone, out));
    }

    /// Notes that the snapshots of the batch are torn: it runs again on the primary.
    pub(super) fn tears(&mut self) {
        if let Some(batch) = self.link.batch_mut() {
            batch.tears();
        }
    }

    /// Has `act` write to the client, or into the answer that is kept back.
    pub(super) fn answering<T>(
        &mut self,
        out: &mut PeerOutput,
        act: impl FnOnce(&mut AttachedSession<'_>, &mut PeerOutput) -> T,
    ) -> T {
        let kept = self.link.batch_mut().filter(|batch| batch.keeps_answer());
        let to_client = kept.map(|batch| replace(&mut out.to_client, batch.take_answer()));
        let done = act(self, out);
        if let Some(to_client) = to_client {
            let answer = replace(&mut out.to_client, to_client);
            match self.link.batch_mut() {
                Some(batch) => batch.put_answer(answer),
                None => out.to_client.unsplit(answer),
            }
        }
        if let Some(reads) = self.link.reads_mut() {
            reads.relay(out);
        }
        done
    }

    /// Handles the server's ReadyForQuery for the client's batch. Returns true if it is not
    /// relayed.
    pub(super) fn is_ready_elsewhere(&mut self) -> bool {
        let batch = self.link.batch_mut();
        batch.is_some_and(|batch| !batch.is_ready())
    }

    /// Returns whether the batch that runs elsewhere has failed.
    pub(super) fn has_failed_elsewhere(&self) -> bool {
        self.link.batch().is_some_and(RetryableBatch::has_failed)
    }

    /// Notes why a batch has failed that runs elsewhere. Returns false if the client gets the
    /// error: there is none, or it is no part of a transaction on the primary, and ran as the
    /// client has sent it.
    pub(super) fn fails_elsewhere(&mut self, report: &Report) -> bool {
        let Some(reads) = self.link.reads_mut() else {
            return false;
        };
        let is_alone = !reads.transaction.is_waiting();
        let is_alone_for_good =
            |batch: &mut Box<RetryableBatch>| is_alone && !batch.comes_back_alone(report);
        reads.batch.take_if(is_alone_for_good);
        match &mut reads.batch {
            Some(batch) => {
                batch.fails(report);
                true
            }
            None => false,
        }
    }
}

impl ReplicaReads {
    /// Relays the part of the answer that need not be kept back any more, and drops the batch once
    /// all of it is answered.
    fn relay(&mut self, out: &mut PeerOutput) {
        if let Some(batch) = &mut self.batch {
            batch.relay(out);
        }
        if self.batch.take_if(|batch| batch.is_answered()).is_some()
            && let DetachedTransaction::Waiting(waiting) = &mut self.transaction
        {
            // A simple query, too, ends the unnamed portal.
            waiting.portal_is_old = true;
        }
    }
}
