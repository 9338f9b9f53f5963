//! Reads that run elsewhere than their transaction.
//!
//! At READ COMMITTED each statement sees what is committed when that statement begins. So a batch of
//! reads in a transaction that is on the Primary may run at an Extension, if it touches nothing that the
//! transaction has written (HIHOOI c6). Between its batches such a transaction *waits*: its next batch
//! gathers as outside of transactions, and then runs here or there.
//!
//! What fails elsewhere would leave the transaction on the Primary as it was, while on one server it would
//! fail, too. So the answer is kept back until all of it is there. If the batch fails before anything was
//! told, it runs again on the Primary, as if it had never run elsewhere. If it was told already, or the
//! client itself has cancelled it, the Primary is made to raise the same error.
//!
//! Invariants
//! - While a transaction waits, nothing is expected from the Primary, and the status that its server has
//!   told last is that of whatever else is attached.
//! - The client hears of a batch once: all of one server's answer, or what one said up to an error that
//!   the Primary raised behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::expected::{Expected, Kind};
use super::{Bound, IDLE, INSIDE, Out, Prepared, Session, Stage};
use crate::wire::cut::HEADER_LEN;
use crate::wire::effect::Effect;
use crate::wire::message::{self, Parse, Subject};
use crate::wire::report::Report;
use crate::wire::server::{Parameters, Server, UnnamedId};

/// Bytes of an answer that are kept back, at most: a longer one is told as it comes.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// SQLSTATE: somebody, or a timeout, has cancelled it. It is not run again.
const QUERY_CANCELED: &str = "57014";

/// A transaction on the Primary that waits for its next batch, or for one that runs elsewhere.
#[derive(Debug)]
pub(super) struct Waiting {
    /// What its portals run.
    portals: BTreeMap<Bytes, Bound>,
    /// The client's unnamed portal is not the one on the Primary any more.
    portal_is_old: bool,
    batch: Option<Batch>,
    /// Why a batch that ran elsewhere comes back.
    failure: Option<Failure>,
}

/// A batch that runs elsewhere.
#[derive(Debug)]
struct Batch {
    frames: Vec<Bytes>,
    /// What the client had before it.
    statements: Vec<(Bytes, Option<Arc<Prepared>>)>,
    unnamed: Option<(UnnamedId, Arc<Prepared>)>,
    parameters: Arc<Parameters>,
    /// What is kept back.
    answer: BytesMut,
    is_told: bool,
    is_answered: bool,
    failure: Option<Report>,
}

#[derive(Debug)]
struct Failure {
    report: Report,
    /// The client is to be told of it: the batch does not run again.
    is_raised: bool,
}

impl Session {
    /// Is it between two batches of a transaction on the Primary of which the next may run elsewhere?
    pub fn may_wait(&self) -> bool {
        let is_between = self.stage == Stage::Attached && !self.is_within_batch();
        let is_idle = self.expected.is_empty() && !self.copies_in && !self.is_told_of_end;
        let is_there = !self.is_on_extension && self.status == INSIDE;
        self.is_read_committed && is_between && is_idle && is_there && !self.is_pinned
    }

    /// From now on the next batch gathers. The Primary's connection stays the session's.
    pub fn wait(&mut self) {
        assert!(self.may_wait(), "waits while something is under way");
        self.waiting = Some(Waiting {
            portals: std::mem::take(&mut self.portals),
            portal_is_old: false,
            batch: None,
            failure: None,
        });
        self.status = IDLE;
        self.stage = Stage::Free;
    }

    /// Does its transaction wait?
    pub fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Why the batch that waits for a server must go to the Primary, if it ran elsewhere before.
    pub fn failure_elsewhere(&self) -> Option<&Report> {
        let failure = self.waiting.as_ref()?.failure.as_ref();
        failure.map(|failure| &failure.report)
    }

    /// The batch goes to the Primary, where its transaction is. Returns its messages, which are to be
    /// given to [`Session::client`] as if they came now, and how many bytes of the last are to come.
    pub fn resume(&mut self, server: &mut Server, out: &mut Out) -> (Vec<Bytes>, usize) {
        assert_eq!(self.stage, Stage::Wanting, "resumed what was not wanted");
        let waiting = self.waiting.take().expect("its transaction waits");
        assert!(waiting.batch.is_none(), "its batch runs elsewhere");
        self.stage = Stage::Attached;
        self.status = INSIDE;
        self.portals = waiting.portals;
        self.tell_parameters(server, out);
        self.held_len = 0;
        let frames = std::mem::take(&mut self.held);
        let is_simple = matches!(frames.first().map(|frame| frame[0]), Some(b'Q' | b'F'));
        if waiting.portal_is_old && !is_simple {
            self.portals.remove(&b""[..]);
            message::write(&mut out.to_server, b'C', &[b"P\0"], 0);
            self.expected.push(Expected::hidden(Kind::Close));
        }
        if let Some(failure) = waiting.failure.filter(|failure| failure.is_raised) {
            self.add(&super::added::raising(&failure.report), out);
            message::write(&mut out.to_server, b'S', &[], 0);
            self.expect(Kind::Ready);
        }
        (frames, std::mem::take(&mut self.held_rest))
    }

    /// What is held runs elsewhere, if its transaction waits: what must be known if it fails there.
    pub(super) fn goes_elsewhere(&mut self) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        assert!(waiting.failure.is_none(), "it has failed elsewhere before");
        let mut statements: Vec<(Bytes, Option<Arc<Prepared>>)> = Vec::new();
        for frame in &self.held {
            let body = &frame[HEADER_LEN..];
            let name = match frame[0] {
                b'P' => Parse::read(body).map_or(&b""[..], |parse| parse.name),
                b'C' => match Subject::read(body) {
                    Ok(Subject::Statement(name)) => name,
                    _ => b"",
                },
                _ => b"",
            };
            if !name.is_empty() {
                let before = self.statements.get(name).cloned();
                statements.push((Bytes::copy_from_slice(name), before));
            }
        }
        waiting.batch = Some(Batch {
            frames: self.held.clone(),
            statements,
            unnamed: self.unnamed.clone(),
            parameters: Arc::clone(&self.parameters),
            answer: BytesMut::new(),
            is_told: false,
            is_answered: false,
            failure: None,
        });
    }

    /// Is what its server says kept back from the client?
    pub fn keeps_answer(&self) -> bool {
        self.batch().is_some_and(|batch| !batch.is_told)
    }

    /// Lets `act` write to the client, if need be into what is kept back.
    pub(super) fn answering<T>(
        &mut self,
        out: &mut Out,
        act: impl FnOnce(&mut Session, &mut Out) -> T,
    ) -> T {
        let is_kept = self.keeps_answer();
        if is_kept {
            self.exchange_answer(out);
        }
        let done = act(self, out);
        if is_kept {
            self.exchange_answer(out);
        }
        if let Some(batch) = self.batch_mut()
            && batch.failure.is_none()
            && (batch.is_answered || batch.answer.len() > ANSWER_LEN_MAX)
        {
            out.to_client.unsplit(batch.answer.split());
            batch.is_told = true;
        }
        self.forget_answered();
        done
    }

    fn exchange_answer(&mut self, out: &mut Out) {
        if let Some(batch) = self.batch_mut() {
            std::mem::swap(&mut batch.answer, &mut out.to_client);
        }
    }

    /// All of a batch is answered that ran elsewhere.
    fn forget_answered(&mut self) {
        let is_answered = self.batch().is_some_and(|batch| batch.is_answered);
        if let Some(waiting) = self.waiting.as_mut().filter(|_| is_answered) {
            // A simple query, too, ends the unnamed portal.
            waiting.portal_is_old = true;
            waiting.batch = None;
        }
    }

    /// The server has said ReadyForQuery to the client's batch. True if the client is not told.
    pub(super) fn is_ready_elsewhere(&mut self) -> bool {
        let Some(batch) = self.batch_mut() else {
            return false;
        };
        batch.is_answered = batch.failure.is_none();
        !batch.is_answered
    }

    /// Has the batch failed that runs elsewhere?
    pub(super) fn has_failed_elsewhere(&self) -> bool {
        self.batch().is_some_and(|batch| batch.failure.is_some())
    }

    /// Notes why a batch has failed that runs elsewhere. False if there is none.
    pub(super) fn fails_elsewhere(&mut self, report: &Report) -> bool {
        let Some(batch) = self.batch_mut() else {
            return false;
        };
        batch.failure.get_or_insert_with(|| report.clone());
        true
    }

    /// The other server is not the session's any more: what has failed there wants the Primary.
    pub(super) fn comes_back(&mut self, out: &mut Out) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let Some(batch) = waiting.batch.take() else {
            return;
        };
        let report = batch.failure.expect("it was answered, or it has failed");
        let is_raised = batch.is_told || report.code == QUERY_CANCELED;
        waiting.failure = Some(Failure { report, is_raised });
        self.stage = Stage::Wanting;
        if is_raised {
            out.to_client.unsplit(batch.answer);
            return;
        }
        for (name, before) in batch.statements.into_iter().rev() {
            match before {
                Some(prepared) => self.statements.insert(name, prepared),
                None => self.statements.remove(&name),
            };
        }
        self.unnamed = batch.unnamed;
        self.parameters = batch.parameters;
        self.held_len = batch.frames.iter().map(Bytes::len).sum();
        self.held = batch.frames;
        // What may leave anything does not run elsewhere.
        let is_simple = self.held.first().is_some_and(|frame| frame[0] == b'Q');
        self.held_effect = is_simple.then_some(Effect::Nothing);
    }

    fn batch(&self) -> Option<&Batch> {
        self.waiting.as_ref()?.batch.as_ref()
    }

    fn batch_mut(&mut self) -> Option<&mut Batch> {
        self.waiting.as_mut()?.batch.as_mut()
    }
}
