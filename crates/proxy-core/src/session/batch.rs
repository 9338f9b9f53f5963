//! A batch at a replica that may have to run again on the primary.

use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::client::ClientState;
use super::held_messages::HeldMessages;
use super::{PeerOutput, PreparedStatement};
use crate::server::{ReportedParameters, UnnamedId};
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{ParseMessage, StatementOrPortal};
use pg_wire::report::Report;

/// The most bytes of an answer that are kept back. A longer answer is relayed piece by piece.
const ANSWER_LEN_MAX: usize = 256 * 1024;

/// SQLSTATE: a user's request or a timeout has cancelled it. It is not run again.
const QUERY_CANCELED: &str = "57014";

/// The reply that proves that a batch has taken all its snapshots at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotProof {
    /// No proof is needed.
    None,
    /// The first message in reply to its only statement.
    First,
    /// The end of the batch, or its failure.
    End,
}

/// The reason why a batch at a replica must run again.
#[derive(Clone, Debug)]
pub enum BatchFault {
    /// The batch's snapshots are torn, or its answer is too long to be held until they are checked.
    Torn,
    /// It failed with this error.
    Error(Report),
}

/// A batch at a replica that may have to run again on the primary.
#[derive(Debug)]
pub(super) struct RetryableBatch {
    /// The proof that has not arrived yet; none once it has.
    proof: SnapshotProof,
    frames: Vec<Bytes>,
    /// The client's statements before the batch.
    statements: Vec<(Bytes, Option<Arc<PreparedStatement>>)>,
    unnamed: Option<(UnnamedId, Arc<PreparedStatement>)>,
    parameters: Arc<ReportedParameters>,
    /// The answer that is kept back from the client.
    answer: BytesMut,
    is_relayed: bool,
    is_answered: bool,
    fault: Option<BatchFault>,
    /// It runs otherwise than the client has sent it.
    has_prepared_form: bool,
}

/// Why and how a batch runs again.
#[derive(Debug)]
pub(super) struct BatchFailure {
    pub fault: BatchFault,
    /// The error is to be sent to the client: the batch does not run again.
    is_raised: bool,
}

impl BatchFailure {
    /// Returns the error that the client receives instead of another run; none if the batch runs
    /// again.
    pub fn raised(&self) -> Option<&Report> {
        match &self.fault {
            BatchFault::Error(report) if self.is_raised => Some(report),
            BatchFault::Error(_) | BatchFault::Torn => None,
        }
    }
}

impl RetryableBatch {
    /// Returns the data with which the held batch can run again on the primary. At the replica it
    /// runs in prepared form or unchanged.
    pub fn of(
        held: &HeldMessages,
        (proof, has_prepared_form): (SnapshotProof, bool),
        client: &ClientState,
    ) -> RetryableBatch {
        let mut statements: Vec<(Bytes, Option<Arc<PreparedStatement>>)> = Vec::new();
        for frame in held.frames() {
            let body = &frame[HEADER_LEN..];
            let name = match frame[0] {
                b'P' => ParseMessage::read(body).map_or(&b""[..], |parse| parse.name),
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
        RetryableBatch {
            proof,
            frames: held.frames().cloned().collect(),
            statements,
            unnamed: client.statements.unnamed().cloned(),
            parameters: client.parameters.shared(),
            answer: BytesMut::new(),
            is_relayed: false,
            is_answered: false,
            fault: None,
            has_prepared_form,
        }
    }

    /// Returns the reply that is still needed to prove that the batch's snapshots were taken.
    pub fn proof(&self) -> SnapshotProof {
        self.proof
    }

    /// Records that the batch's snapshots are valid. Returns true if the batch cannot run again any
    /// more, because it is unchanged and not part of a transaction on the primary. Then its answer
    /// is relayed.
    pub fn accept_snapshot(&mut self, is_alone: bool, out: &mut PeerOutput) -> bool {
        self.proof = SnapshotProof::None;
        let is_settled = is_alone && !self.has_prepared_form;
        if is_settled {
            out.to_client.unsplit(self.answer.split());
        }
        is_settled
    }

    /// Records that the batch's answer is invalid: its snapshots are torn, or the answer is too
    /// long to be buffered until they are checked.
    pub fn discard_answer(&mut self) {
        self.proof = SnapshotProof::None;
        self.fault = Some(BatchFault::Torn);
    }

    /// Returns whether the batch runs again after this error, although it is not part of a
    /// transaction on the primary. The client gets an error only if its own text fails.
    pub fn comes_back_alone(&self, report: &Report) -> bool {
        let may_run_again = self.is_torn() || self.has_prepared_form && !self.is_relayed;
        may_run_again && report.code != QUERY_CANCELED
    }

    /// Records the first failure of the batch.
    pub fn note_failure(&mut self, report: &Report) {
        self.fault
            .get_or_insert_with(|| BatchFault::Error(report.clone()));
    }

    pub fn has_failed(&self) -> bool {
        self.fault.is_some()
    }

    /// Records the server's ReadyForQuery. Returns whether this answers the batch. It does not if
    /// the batch has failed.
    pub fn note_ready(&mut self) -> bool {
        self.is_answered = !self.has_failed();
        self.is_answered
    }

    /// Returns whether the whole batch is answered.
    pub fn is_answered(&self) -> bool {
        self.is_answered
    }

    /// Returns whether the session holds the batch's answer back from the client.
    pub fn keeps_answer(&self) -> bool {
        !self.is_relayed
    }

    /// Removes and returns the held answer, to extend it, see [`RetryableBatch::put_answer`].
    pub fn take_answer(&mut self) -> BytesMut {
        core::mem::take(&mut self.answer)
    }

    pub fn put_answer(&mut self, answer: BytesMut) {
        self.answer = answer;
    }

    /// Returns the messages to run on the primary, and the reason. If they run again, it is as if
    /// they had never run at the replica. Otherwise the client gets the held answer.
    pub fn back(
        self,
        client: &mut ClientState,
        out: &mut PeerOutput,
    ) -> (HeldMessages, BatchFailure) {
        let fault = self.fault.expect("it was answered, or it has failed");
        let is_canceled =
            matches!(&fault, BatchFault::Error(report) if report.code == QUERY_CANCELED);
        let is_raised = self.is_relayed || is_canceled;
        let failure = BatchFailure { fault, is_raised };
        if is_raised {
            out.to_client.unsplit(self.answer);
            return (HeldMessages::default(), failure);
        }
        for (name, before) in self.statements.into_iter().rev() {
            match before {
                Some(prepared) => drop(client.statements.insert(name, prepared)),
                None => drop(client.statements.remove(&name)),
            }
        }
        client.statements.restore_unnamed(self.unnamed);
        client.parameters.know(self.parameters);
        (HeldMessages::back(self.frames), failure)
    }

    fn is_torn(&self) -> bool {
        matches!(self.fault, Some(BatchFault::Torn))
    }

    /// Relays the part of the answer that need not be held any more.
    pub fn relay(&mut self, out: &mut PeerOutput) {
        let is_long = self.answer.len() > ANSWER_LEN_MAX;
        if self.is_torn() {
            self.answer.clear();
        } else if self.proof != SnapshotProof::None {
            if is_long {
                self.discard_answer();
            }
        } else if self.fault.is_none() && (self.is_answered || is_long) {
            out.to_client.unsplit(self.answer.split());
            self.is_relayed = true;
        }
    }
}
