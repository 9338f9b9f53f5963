//! Reads that run elsewhere than their transaction.
//!
//! At READ COMMITTED each statement sees what is committed when that statement begins. So a batch
//! of reads in a transaction that is on the primary may run at a replica, if it touches nothing
//! that the transaction has written (P1). Between its batches such a transaction *waits*: its next
//! batch gathers as outside of transactions, and then runs here or there.
//!
//! A read that runs alone at a replica may be *watched*: whether its answer counts is known once
//! its snapshot is known to have been taken, see `freshness::watch`. Until then its answer is kept
//! back. If it does not count, it runs again on the primary.
//!
//! A simple query may run there as a prepared statement. If that fails, it runs on the primary as
//! the client has sent it, so that the error is that of the client's text, or there is none.
//!
//! What fails elsewhere would leave the transaction on the primary as it was, while on one server
//! it would fail, too. So the answer is kept back until all of it is there. If the batch fails
//! before anything was relayed, it runs again on the primary, as if it had never run elsewhere. If
//! part of it was relayed already, or the client itself has cancelled it, the primary is made to
//! raise the same error.
//!
//! Invariants
//! - While a transaction waits, nothing is expected from the primary.
//! - The client receives one answer to a batch: all of one server's, or one server's up to an error
//!   that the primary raised behind it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::action::{Ending, Router};
use super::block::Block;
use super::changes::{Changes, Keeping};
use super::client::ClientState;
use super::expected::{Expected, ReplyKind};
use super::held::{Held, HeldMessage};
use super::link::{Exchange, Flow, Link, OnReplica, Reads, Role, RunsThere};
use super::phase::{Phase, Transaction, Wanting};
use super::{Out, Prepared, Session};
use crate::server::{Parameters, ServerConnection, UnnamedId};
use pg_wire::Malformed;
use pg_wire::cut::{HEADER_LEN, WireMessage};
use pg_wire::message::{self, Parse, StatementOrPortal};
use pg_wire::report::Report;

/// Bytes of an answer that are kept back, at most: a longer one is relayed as it comes.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// SQLSTATE: a user's request or a timeout has cancelled it. It is not run again.
const QUERY_CANCELED: &str = "57014";

/// What shows that a batch has taken all its snapshots at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// No proof is needed.
    None,
    /// The first message that its one statement causes when it runs.
    First,
    /// Its end, or its failure.
    End,
}

/// What is wrong with a batch that ran elsewhere.
#[derive(Clone, Debug)]
pub enum BatchFault {
    /// What it has seen does not count, or is too long to be kept until that is known.
    Torn,
    /// It failed.
    Error(Report),
}

/// A transaction on the primary that waits for its next batch, or for one that runs elsewhere.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The primary's connection.
    pub link: Link,
    /// The client's unnamed portal is not the one on the primary any more.
    pub portal_is_old: bool,
}

/// A batch that runs elsewhere, and may have to come back.
#[derive(Debug)]
pub(super) struct Batch {
    /// What is still waited for; none if it is shown.
    proof: Proof,
    frames: Vec<Bytes>,
    /// What the client had before it.
    statements: Vec<(Bytes, Option<Arc<Prepared>>)>,
    unnamed: Option<(UnnamedId, Arc<Prepared>)>,
    parameters: Arc<Parameters>,
    /// What is kept back.
    answer: BytesMut,
    is_relayed: bool,
    is_answered: bool,
    fault: Option<BatchFault>,
    /// It runs otherwise than the client has sent it.
    is_as_prepared: bool,
}

/// Why a batch comes back.
#[derive(Debug)]
pub(super) struct Failure {
    pub fault: BatchFault,
    /// The error is to be sent to the client: the batch does not run again.
    is_raised: bool,
}

impl Session {
    /// Gathers the next batch of the transaction from now on. The primary's connection stays the
    /// session's.
    pub(super) fn pause(&mut self) {
        let link = self.take_link();
        assert!(link.may_pause(), "waits while something is under way");
        self.phase = Phase::empty(Transaction::Waiting(Box::new(Waiting {
            link,
            portal_is_old: false,
        })));
    }

    /// Runs the batch on the primary, where its transaction is.
    pub(super) fn resume(
        &mut self,
        server: &mut ServerConnection,
        router: &mut dyn Router,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        let Wanting {
            transaction,
            held,
            failure,
        } = self.take_wanting();
        let Transaction::Waiting(waiting) = transaction else {
            panic!("its transaction does not wait: {transaction:?}");
        };
        let Waiting {
            link,
            portal_is_old,
        } = *waiting;
        self.phase = Phase::Attached(link);
        let mut exchange = self.exchange();
        exchange.client.parameters.report(server, out);
        let first = held.messages().first().map(|message| message.frame[0]);
        let is_simple = matches!(first, Some(b'Q' | b'F'));
        if portal_is_old && !is_simple {
            exchange.link.portals.remove(&b""[..]);
            message::write(&mut out.to_server, b'C', &[b"P\0"], 0);
            let expected = &mut exchange.link.expected;
            expected.push(Expected::hidden(ReplyKind::Close));
        }
        if let Some(Failure {
            fault: BatchFault::Error(report),
            is_raised: true,
        }) = failure
        {
            exchange.add(&super::added::raising(&report), out);
            message::write(&mut out.to_server, b'S', &[], 0);
            exchange.link.expected.push(Expected::of_sync());
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

    /// Gives the server back. What has failed there wants the primary.
    pub(super) fn released(&mut self, out: &mut Out) {
        let link = self.take_link();
        assert!(link.is_done(), "released what is in use");
        assert!(
            matches!(link.keeping, Keeping::Shared(Changes::Nothing)),
            "its settings are not known"
        );
        self.leave(link, out);
    }

    /// Goes on without the server.
    fn leave(&mut self, link: Link, out: &mut Out) {
        self.phase = match link.role {
            Role::Replica(OnReplica {
                runs: RunsThere::Reads(reads),
                ..
            }) => match reads.batch {
                Some(batch) => Phase::Wanting(batch.back(reads.transaction, &mut self.client, out)),
                None => Phase::empty(reads.transaction),
            },
            Role::Primary(_) | Role::Replica(_) => Phase::empty(Transaction::None),
        };
    }

    /// Handles the loss of the server. A session outlives a replica, but not the primary's
    /// connection: there a commit may have been under way.
    pub(super) fn server_lost(&mut self, report: Report, is_cut: bool, out: &mut Out) {
        let Some(link) = self.phase.link_mut() else {
            self.ends(Ending::Server);
            return;
        };
        let keeps_answer = link.batch().is_some_and(|batch| !batch.is_relayed);
        if link.is_end_reported() || is_cut && !keeps_answer {
            self.ends(Ending::Server);
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
        self.ends(Ending::Lost(report.hint(hint)));
    }

    /// Goes on without its replica, which is lost, and with it the snapshot of its transaction if
    /// `is_snapshot_lost`: the client gets an error for its batch.
    fn replica_lost(&mut self, report: &Report, is_snapshot_lost: bool, out: &mut Out) {
        let mut link = self.take_link();
        let (was_quiet, was_skipping) = (link.is_quiet(), link.flow == Flow::Skips);
        // What it knew is gone with it.
        let mut gone = ServerConnection::default();
        let (skipped, has_sync) = link.expected.skip_batch();
        let mut exchange = Exchange {
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
            self.phase = Phase::empty(Transaction::Deferred(Block::lost(report)));
        }
        let Phase::Gathering(gathering) = &mut self.phase else {
            return;
        };
        if !is_reported {
            return;
        }
        if !was_skipping {
            report.write(&mut out.to_client);
        }
        gathering.transaction.fails();
        match has_sync {
            true => {
                let status = gathering.transaction.status();
                message::write_ready(&mut out.to_client, status.byte());
            }
            false => self.phase = Phase::Skipping(gathering.take().0),
        }
    }
}

impl Exchange<'_> {
    /// Does the server's next message show that the batch has taken its snapshots there?
    pub(super) fn is_proof(&self, tag: u8) -> bool {
        let of_batch = |front: &Expected| !front.is_hidden;
        let is_of_batch = self.link.expected.front().is_some_and(of_batch);
        match self.link.batch().map_or(Proof::None, |batch| batch.proof) {
            Proof::None => false,
            // Nothing runs before it is described; and some things are about no statement.
            Proof::First => is_of_batch && !b"123TtnNSA".contains(&tag),
            Proof::End => is_of_batch && b"EZ".contains(&tag),
        }
    }

    /// Notes that what the batch has seen counts.
    pub(super) fn counts(&mut self, out: &mut Out) {
        let Some(reads) = self.link.reads_mut() else {
            return;
        };
        let is_alone = !reads.transaction.is_waiting();
        if let Some(batch) = &mut reads.batch {
            batch.proof = Proof::None;
            if is_alone && !batch.is_as_prepared {
                out.to_client.unsplit(batch.answer.split());
                reads.batch = None;
            }
        }
    }

    /// Notes that what the batch has seen does not count: it runs again on the primary.
    pub(super) fn tears(&mut self) {
        if let Some(batch) = self.link.batch_mut() {
            batch.tears();
        }
    }

    /// Lets `act` write to the client, if need be into what is kept back.
    pub(super) fn answering<T>(
        &mut self,
        out: &mut Out,
        act: impl FnOnce(&mut Exchange<'_>, &mut Out) -> T,
    ) -> T {
        let kept = self.link.batch_mut().filter(|batch| !batch.is_relayed);
        let to_client = kept.map(|batch| {
            let answer = core::mem::take(&mut batch.answer);
            core::mem::replace(&mut out.to_client, answer)
        });
        let done = act(self, out);
        if let Some(to_client) = to_client {
            let answer = core::mem::replace(&mut out.to_client, to_client);
            match self.link.batch_mut() {
                Some(batch) => batch.answer = answer,
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
        let Some(batch) = self.link.batch_mut() else {
            return false;
        };
        batch.is_answered = batch.fault.is_none();
        !batch.is_answered
    }

    /// Has the batch failed that runs elsewhere?
    pub(super) fn has_failed_elsewhere(&self) -> bool {
        self.link.batch().is_some_and(|batch| batch.fault.is_some())
    }

    /// Notes why a batch has failed that runs elsewhere. Returns false if the client gets the
    /// error: there is none, or it is no part of a transaction on the primary, and ran as the
    /// client has sent it.
    pub(super) fn fails_elsewhere(&mut self, report: &Report) -> bool {
        let Some(reads) = self.link.reads_mut() else {
            return false;
        };
        let is_alone = !reads.transaction.is_waiting();
        reads.batch.take_if(|batch| {
            let may_run_again = batch.is_torn() || batch.is_as_prepared && !batch.is_relayed;
            is_alone && (!may_run_again || report.code == QUERY_CANCELED)
        });
        let Some(batch) = &mut reads.batch else {
            return false;
        };
        batch
            .fault
            .get_or_insert_with(|| BatchFault::Error(report.clone()));
        true
    }
}

impl Reads {
    /// Relays what need not be kept back any more, and forgets the batch once all of it is
    /// answered.
    fn relay(&mut self, out: &mut Out) {
        if let Some(batch) = &mut self.batch {
            batch.relay(out);
        }
        if self.batch.take_if(|batch| batch.is_answered).is_some()
            && let Transaction::Waiting(waiting) = &mut self.transaction
        {
            // A simple query, too, ends the unnamed portal.
            waiting.portal_is_old = true;
        }
    }
}

impl Batch {
    /// Returns what is needed if the batch that is held comes back from a replica, where it runs as
    /// a prepared statement or as it is; none if it cannot come back.
    pub(super) fn of(
        held: &Held,
        (proof, is_as_prepared): (Proof, bool),
        transaction: &Transaction,
        client: &ClientState,
    ) -> Option<Box<Batch>> {
        if !transaction.is_waiting() && proof == Proof::None && !is_as_prepared {
            return None;
        }
        let mut statements: Vec<(Bytes, Option<Arc<Prepared>>)> = Vec::new();
        for frame in held.frames() {
            let body = &frame[HEADER_LEN..];
            let name = match frame[0] {
                b'P' => Parse::read(body).map_or(&b""[..], |parse| parse.name),
                b'C' => match StatementOrPortal::read(body) {
                    Ok(StatementOrPortal::Statement(name)) => name,
                    _ => b"",
                },
                _ => b"",
            };
            if !name.is_empty() {
                let before = client.statements.find(name);
                statements.push((Bytes::copy_from_slice(name), before));
            }
        }
        Some(Box::new(Batch {
            proof,
            frames: held.frames().cloned().collect(),
            statements,
            unnamed: client.statements.unnamed().cloned(),
            parameters: client.parameters.shared(),
            answer: BytesMut::new(),
            is_relayed: false,
            is_answered: false,
            fault: None,
            is_as_prepared,
        }))
    }

    /// Returns how the batch waits for the primary. If it runs again, it is as if it had never run
    /// elsewhere.
    fn back(self, transaction: Transaction, client: &mut ClientState, out: &mut Out) -> Wanting {
        let fault = self.fault.expect("it was answered, or it has failed");
        let is_canceled =
            matches!(&fault, BatchFault::Error(report) if report.code == QUERY_CANCELED);
        let is_raised = self.is_relayed || is_canceled;
        let failure = Some(Failure { fault, is_raised });
        if is_raised {
            out.to_client.unsplit(self.answer);
            return Wanting {
                transaction,
                held: Held::default(),
                failure,
            };
        }
        for (name, before) in self.statements.into_iter().rev() {
            match before {
                Some(prepared) => drop(client.statements.insert(name, prepared)),
                None => drop(client.statements.remove(&name)),
            }
        }
        client.statements.restore_unnamed(self.unnamed);
        client.parameters.know(self.parameters);
        Wanting {
            transaction,
            held: Held::back(self.frames),
            failure,
        }
    }

    fn is_torn(&self) -> bool {
        matches!(self.fault, Some(BatchFault::Torn))
    }

    fn tears(&mut self) {
        self.proof = Proof::None;
        self.fault = Some(BatchFault::Torn);
    }

    /// Relays what need not be kept back any more.
    fn relay(&mut self, out: &mut Out) {
        let is_long = self.answer.len() > ANSWER_LEN_MAX;
        if self.is_torn() {
            self.answer.clear();
        } else if self.proof != Proof::None {
            if is_long {
                self.tears();
            }
        } else if self.fault.is_none() && (self.is_answered || is_long) {
            out.to_client.unsplit(self.answer.split());
            self.is_relayed = true;
        }
    }
}
