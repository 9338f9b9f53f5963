//! Attaches a session to the server that its batch has waited for, and sends the batch there.

use alloc::boxed::Box;
use alloc::string::String;

use super::action::{AttachedServer, Attachment, BatchTransaction, ReplicaRead};
use super::added::with_prelude;
use super::batch::{RetryableBatch, SnapshotProof};
use super::deferral::SnapshotScope;
use super::forward::Forwarding;
use super::held_messages::{HeldMessage, HeldMessages};
use super::link::{
    AttachedRole, AttachedSession, DetachedTransaction, PrimaryState, ReplicaReads, ReplicaSide,
    ReplicaWork, ServerLink,
};
use super::phase::{SessionPhase, WantingPhase};
use super::{PeerOutput, PreparedForm, Session};
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::framing::WireMessage;

/// How a batch starts at a server.
struct BatchStart {
    role: AttachedRole,
    /// The statement that begins its transaction there.
    begin: Option<String>,
    /// For reads at a replica: the reply that proves that the batch has taken its snapshots.
    proof: Option<SnapshotProof>,
    prepared_form: Option<PreparedForm>,
}

impl BatchStart {
    fn at_role(role: AttachedRole) -> BatchStart {
        BatchStart {
            role,
            begin: None,
            proof: None,
            prepared_form: None,
        }
    }

    /// Returns the start of a batch of this transaction at a server. On a replica, nothing outlives
    /// a batch except a transaction's snapshot.
    fn of(at: AttachedServer, transaction: DetachedTransaction) -> BatchStart {
        match (at, transaction) {
            (AttachedServer::Primary, DetachedTransaction::None) => {
                BatchStart::at_role(AttachedRole::Primary(PrimaryState::new(false)))
            }
            (AttachedServer::Primary, DetachedTransaction::Deferred(block)) => {
                let is_read_committed = block.snapshots == SnapshotScope::OfStatements;
                BatchStart {
                    begin: Some(block.begin),
                    ..BatchStart::at_role(AttachedRole::Primary(PrimaryState::new(
                        is_read_committed,
                    )))
                }
            }
            (AttachedServer::Primary, DetachedTransaction::Waiting(_)) => {
                panic!("its transaction is there: resume")
            }
            (AttachedServer::Snapshot(numbers), transaction) => {
                let batch_in = transaction.batch_in();
                assert_eq!(batch_in, BatchTransaction::Snapshot, "it takes no snapshot");
                let runs = ReplicaWork::Snapshot;
                BatchStart::at_role(AttachedRole::Replica(ReplicaSide { numbers, runs }))
            }
            (AttachedServer::Replica(there), transaction) => {
                let batch_in = transaction.batch_in();
                assert_ne!(
                    batch_in,
                    BatchTransaction::Snapshot,
                    "it takes its snapshot there"
                );
                let ReplicaRead {
                    proof,
                    numbers,
                    prepared_form,
                } = there;
                let runs = ReplicaWork::Reads(ReplicaReads {
                    transaction,
                    batch: None,
                });
                BatchStart {
                    proof: Some(proof),
                    prepared_form,
                    ..BatchStart::at_role(AttachedRole::Replica(ReplicaSide { numbers, runs }))
                }
            }
        }
    }
}

impl Session {
    /// Attaches a server, and sends the held messages to it.
    pub(super) fn attach(
        &mut self,
        server: &mut ServerConnection,
        attachment: Attachment,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let WantingPhase {
            transaction,
            held,
            failure,
        } = self.take_wanting();
        let start = BatchStart::of(attachment.at, transaction);
        let prepared_form = start.prepared_form.filter(|_| held.is_query());
        let keeping = self.client.keeping();
        server.is_dirty |= keeping.is_kept();
        self.phase = SessionPhase::Attached(ServerLink::new(start.role, keeping));
        let mut exchange = self.exchange();
        exchange.name_application(server, out);
        if let Some(begin) = &start.begin {
            exchange.run(begin, server, out);
        }
        exchange.client.parameters.report(server, out);
        if let Some(proof) = start.proof
            && let Some(reads) = exchange.link.reads_mut()
        {
            assert!(failure.is_none(), "it has failed at a replica before");
            let has_prepared_form = prepared_form.is_some();
            let is_waiting = reads.transaction.is_waiting();
            if is_waiting || proof != SnapshotProof::None || has_prepared_form {
                let batch = RetryableBatch::of(&held, (proof, has_prepared_form), exchange.client);
                reads.batch = Some(Box::new(batch));
            }
        }
        let how = Forwarding {
            is_schema_only: attachment.is_schema_only,
            prepared_form,
            ..Forwarding::default()
        };
        exchange.forward_held(held, (how, &attachment.prelude), server, out)
    }
}

impl AttachedSession<'_> {
    /// Forwards the held messages, with statements in front of them. If it is to be forwarded as a
    /// prepared statement, it is one simple query.
    fn forward_held(
        &mut self,
        held: HeldMessages,
        (how, prelude): (Forwarding, &[String]),
        server: &mut ServerConnection,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        let first = held.messages().first().map(|message| message.frame[0]);
        let is_simple = first == Some(b'Q');
        if !is_simple {
            for statement in prelude {
                self.add(statement, out);
            }
        }
        self.answering(out, |exchange, out| {
            for (HeldMessage { mut frame, known }, rest) in held.into_messages() {
                let mut how = Forwarding {
                    known,
                    ..how.clone()
                };
                if is_simple && !prelude.is_empty() {
                    let (with, in_front) = with_prelude(prelude, &frame);
                    frame = with.freeze();
                    how.prelude = in_front;
                }
                let message = WireMessage {
                    frame: &frame,
                    rest,
                };
                exchange.forward(message, how, server, out)?;
            }
            Ok(())
        })
    }
}
