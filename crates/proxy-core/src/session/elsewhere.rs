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
//! - While a transaction waits, nothing is expected from the primary, and the last reported status
//!   is that of the other server that is attached.
//! - The client receives one answer to a batch: all of one server's, or one server's up to an error
//!   that the primary raised behind it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::changes::Changes;
use super::expected::{Expected, ReplyKind};
use super::{Bound, IDLE, INSIDE, Out, Prepared, Session, Stage};
use crate::grammar::SessionEffect;
use crate::server::{Parameters, ServerConnection, UnnamedId};
use pg_wire::cut::HEADER_LEN;
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
    /// What its portals run.
    portals: BTreeMap<Bytes, Bound>,
    /// The client's unnamed portal is not the one on the primary any more.
    portal_is_old: bool,
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
    fault: BatchFault,
    /// The error is to be sent to the client: the batch does not run again.
    is_raised: bool,
}

impl Session {
    /// Is it between two batches of a transaction on the primary of which the next may run
    /// elsewhere?
    pub fn may_wait(&self) -> bool {
        let is_between = self.stage == Stage::Attached && !self.is_within_batch();
        let is_idle = self.expected.is_empty() && !self.copies_in && !self.is_end_reported;
        let is_known = self.changes == Changes::Nothing;
        let is_there = !self.is_on_replica && self.status == INSIDE && is_known;
        self.is_read_committed && is_between && is_idle && is_there && !self.is_pinned
    }

    /// Gathers the next batch from now on. The primary's connection stays the session's.
    pub fn wait(&mut self) {
        assert!(self.may_wait(), "waits while something is under way");
        self.waiting = Some(Waiting {
            portals: core::mem::take(&mut self.portals),
            portal_is_old: false,
        });
        self.status = IDLE;
        self.stage = Stage::Free;
    }

    /// Does its transaction wait?
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Returns why the batch that waits for a server must go to the primary, if it ran elsewhere
    /// before.
    pub fn failure_elsewhere(&self) -> Option<&BatchFault> {
        self.failure.as_ref().map(|failure| &failure.fault)
    }

    /// The batch goes to the primary, where its transaction is. Returns its messages, which are to
    /// be given to [`Session::client`] as if they came now, and how many bytes of the last are to
    /// come.
    pub fn resume(&mut self, server: &mut ServerConnection, out: &mut Out) -> (Vec<Bytes>, usize) {
        assert_eq!(self.stage, Stage::Wanting, "resumed what was not wanted");
        let waiting = self.waiting.take().expect("its transaction waits");
        assert!(self.batch.is_none(), "its batch runs elsewhere");
        self.stage = Stage::Attached;
        self.status = INSIDE;
        self.portals = waiting.portals;
        self.parameters.report(server, out);
        self.held_len = 0;
        let frames = core::mem::take(&mut self.held);
        let is_simple = matches!(frames.first().map(|frame| frame[0]), Some(b'Q' | b'F'));
        if waiting.portal_is_old && !is_simple {
            self.portals.remove(&b""[..]);
            message::write(&mut out.to_server, b'C', &[b"P\0"], 0);
            self.expected.push(Expected::hidden(ReplyKind::Close));
        }
        if let Some(Failure {
            fault: BatchFault::Error(report),
            is_raised: true,
        }) = self.failure.take()
        {
            self.add(&super::added::raising(&report), out);
            message::write(&mut out.to_server, b'S', &[], 0);
            self.expected.push(Expected::of_sync());
        }
        (frames, core::mem::take(&mut self.held_rest))
    }

    /// What is held runs elsewhere, and may have to come back: if its transaction waits, or if it
    /// is watched. What must be known then.
    pub(super) fn goes_elsewhere(&mut self, proof: Proof) {
        let is_as_prepared = self.as_prepared.is_some();
        if self.waiting.is_none() && proof == Proof::None && !is_as_prepared {
            return;
        }
        assert!(self.failure.is_none(), "it has failed elsewhere before");
        let mut statements: Vec<(Bytes, Option<Arc<Prepared>>)> = Vec::new();
        for frame in &self.held {
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
                let before = self.statements.find(name);
                statements.push((Bytes::copy_from_slice(name), before));
            }
        }
        self.batch = Some(Batch {
            proof,
            frames: self.held.clone(),
            statements,
            unnamed: self.statements.unnamed().cloned(),
            parameters: self.parameters.shared(),
            answer: BytesMut::new(),
            is_relayed: false,
            is_answered: false,
            fault: None,
            is_as_prepared,
        });
    }

    /// Does the server's next message show that the batch has taken its snapshots there? Then the
    /// caller first decides whether they count: [`Session::counts`] or [`Session::tears`].
    pub fn is_proof(&self, tag: u8) -> bool {
        let of_batch = |front: &Expected| !front.is_hidden;
        let is_of_batch = self.expected.front().is_some_and(of_batch);
        match self.batch.as_ref().map_or(Proof::None, |batch| batch.proof) {
            Proof::None => false,
            // Nothing runs before it is described; and some things are about no statement.
            Proof::First => is_of_batch && !b"123TtnNSA".contains(&tag),
            Proof::End => is_of_batch && b"EZ".contains(&tag),
        }
    }

    /// Notes that what the batch has seen counts.
    pub fn counts(&mut self, out: &mut Out) {
        let is_alone = self.waiting.is_none();
        if let Some(batch) = &mut self.batch {
            batch.proof = Proof::None;
            if is_alone && !batch.is_as_prepared {
                out.to_client.unsplit(batch.answer.split());
                self.batch = None;
            }
        }
    }

    /// Notes that what the batch has seen does not count: it runs again on the primary.
    pub fn tears(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.tears();
        }
    }

    /// Are its server's messages kept back from the client?
    pub fn keeps_answer(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| !batch.is_relayed)
    }

    /// Lets `act` write to the client, if need be into what is kept back.
    pub(super) fn answering<T>(
        &mut self,
        out: &mut Out,
        act: impl FnOnce(&mut Session, &mut Out) -> T,
    ) -> T {
        let kept = self.batch.as_mut().filter(|batch| !batch.is_relayed);
        let to_client = kept.map(|batch| {
            let answer = core::mem::take(&mut batch.answer);
            core::mem::replace(&mut out.to_client, answer)
        });
        let done = act(self, out);
        if let Some(to_client) = to_client {
            let answer = core::mem::replace(&mut out.to_client, to_client);
            match &mut self.batch {
                Some(batch) => batch.answer = answer,
                None => out.to_client.unsplit(answer),
            }
        }
        if let Some(batch) = &mut self.batch {
            batch.relay(out);
        }
        self.forget_answered();
        done
    }

    /// Forgets a batch that ran elsewhere once all of it is answered.
    fn forget_answered(&mut self) {
        if self.batch.take_if(|batch| batch.is_answered).is_some()
            && let Some(waiting) = &mut self.waiting
        {
            // A simple query, too, ends the unnamed portal.
            waiting.portal_is_old = true;
        }
    }

    /// Handles the server's ReadyForQuery for the client's batch. Returns true if it is not
    /// relayed.
    pub(super) fn is_ready_elsewhere(&mut self) -> bool {
        let Some(batch) = &mut self.batch else {
            return false;
        };
        batch.is_answered = batch.fault.is_none();
        !batch.is_answered
    }

    /// Has the batch failed that runs elsewhere?
    pub(super) fn has_failed_elsewhere(&self) -> bool {
        let fault = self.batch.as_ref().map(|batch| &batch.fault);
        fault.is_some_and(Option::is_some)
    }

    /// Notes why a batch has failed that runs elsewhere. Returns false if the client gets the
    /// error: there is none, or it is no part of a transaction on the primary, and ran as the
    /// client has sent it.
    pub(super) fn fails_elsewhere(&mut self, report: &Report) -> bool {
        let is_alone = self.waiting.is_none();
        self.batch.take_if(|batch| {
            let may_run_again = batch.is_torn() || batch.is_as_prepared && !batch.is_relayed;
            is_alone && (!may_run_again || report.code == QUERY_CANCELED)
        });
        let Some(batch) = &mut self.batch else {
            return false;
        };
        batch
            .fault
            .get_or_insert_with(|| BatchFault::Error(report.clone()));
        true
    }

    /// Gives the other server back: what has failed there wants the primary.
    pub(super) fn comes_back(&mut self, out: &mut Out) {
        let Some(batch) = self.batch.take() else {
            return;
        };
        let fault = batch.fault.expect("it was answered, or it has failed");
        let is_canceled =
            matches!(&fault, BatchFault::Error(report) if report.code == QUERY_CANCELED);
        let is_raised = batch.is_relayed || is_canceled;
        self.failure = Some(Failure { fault, is_raised });
        self.stage = Stage::Wanting;
        if is_raised {
            out.to_client.unsplit(batch.answer);
            return;
        }
        for (name, before) in batch.statements.into_iter().rev() {
            match before {
                Some(prepared) => drop(self.statements.insert(name, prepared)),
                None => drop(self.statements.remove(&name)),
            }
        }
        self.statements.restore_unnamed(batch.unnamed);
        self.parameters.know(batch.parameters);
        self.held_len = batch.frames.iter().map(Bytes::len).sum();
        self.held = batch.frames;
        // What may leave anything does not run elsewhere.
        let is_simple = self.held.first().is_some_and(|frame| frame[0] == b'Q');
        self.held_effect = is_simple.then_some(SessionEffect::Nothing);
    }
}

impl Batch {
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
