//! Runs reads of a transaction on the primary at a replica, outside of the transaction.
//!
//! At READ COMMITTED each statement sees the transactions that have committed when that statement
//! begins. So a batch of reads in a transaction that is on the primary may run at a replica, if it
//! touches nothing that the transaction has written (P1). Between its batches such a transaction
//! *waits*: its next batch gathers as outside of transactions, and then runs on the primary or at a
//! replica.
//!
//! A read at a replica may be *watched*: whether its answer is valid is known only once its
//! snapshot is taken, see `freshness::watch`. Until then the session does not send the answer to
//! the client. If the answer is invalid, the read runs again on the primary.
//!
//! A simple query may run at a replica as a prepared statement. If that fails, the client's text
//! runs on the primary, so an error is that of the client's text.
//!
//! An error at a replica would leave the transaction on the primary intact, while on one server the
//! transaction would fail. So the answer is held back until it is complete. If the batch fails
//! before anything was relayed, it runs again on the primary, as if it had never run at the
//! replica. If a part was relayed already, or the client cancelled it, the primary is made to raise
//! the same error.
//!
//! Invariants
//! - While a transaction waits, nothing is expected from the primary.
//! - The client receives one answer to a batch: all of one server's, or one server's up to an error
//!   that the primary raised behind it.

use alloc::boxed::Box;
use core::mem::replace;

use super::action::MessageRouter;
use super::added::raising;
use super::batch::{BatchFailure, RetryableBatch, SnapshotProof};
use super::expected::{ExpectedReply, ReplyKind};
use super::held_messages::HeldMessage;
use super::link::{AttachedSession, DetachedTransaction, ReplicaReads, WaitingTransaction};
use super::phase::{SessionPhase, WantingPhase};
use super::{PeerOutput, Session};
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;
use pg_wire::message;
use pg_wire::report::Report;

/// The receiver of a server's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorReceiver {
    Client,
    /// The proxy: it runs the batch again on the primary, or makes the primary raise the error.
    Proxy,
}

impl Session {
    /// Gathers the next batch of the transaction. The session keeps the connection to the primary.
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
}

impl AttachedSession<'_> {
    /// Returns whether the server's next message, with this tag, proves that the batch has taken
    /// its snapshots.
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

    /// Records that the snapshots of the batch are valid. Sends its answer to the client, unless
    /// the batch may still run again.
    pub(super) fn accept_snapshot(&mut self, out: &mut PeerOutput) {
        let Some(reads) = self.link.reads_mut() else {
            return;
        };
        let is_alone = !reads.transaction.is_waiting();
        reads
            .batch
            .take_if(|batch| batch.accept_snapshot(is_alone, out));
    }

    /// Records that the answer of the batch is invalid: the batch runs again on the primary.
    pub(super) fn discard_answer(&mut self) {
        if let Some(batch) = self.link.batch_mut() {
            batch.discard_answer();
        }
    }

    /// Runs `act`, which writes to the client or into the held answer.
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

    /// Records the server's ReadyForQuery for the client's batch. Returns whether to relay it: not
    /// if the batch runs again.
    pub(super) fn note_ready(&mut self) -> bool {
        let batch = self.link.batch_mut();
        batch.is_none_or(RetryableBatch::note_ready)
    }

    /// Returns whether the batch has failed at its replica.
    pub(super) fn has_failed_at_replica(&self) -> bool {
        self.link.batch().is_some_and(RetryableBatch::has_failed)
    }

    /// Records a server's error, and returns its receiver. The client gets the error if no batch
    /// runs at a replica, or if the batch cannot run again: it is not part of a transaction on the
    /// primary, and ran unchanged.
    pub(super) fn note_failure(&mut self, report: &Report) -> ErrorReceiver {
        let Some(reads) = self.link.reads_mut() else {
            return ErrorReceiver::Client;
        };
        let is_alone = !reads.transaction.is_waiting();
        let cannot_come_back =
            |batch: &mut Box<RetryableBatch>| is_alone && !batch.comes_back_alone(report);
        reads.batch.take_if(cannot_come_back);
        match &mut reads.batch {
            Some(batch) => {
                batch.note_failure(report);
                ErrorReceiver::Proxy
            }
            None => ErrorReceiver::Client,
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
