//! The way of a batch to the server that it has waited for.

use alloc::boxed::Box;
use alloc::string::String;

use super::action::{At, Attachment, BatchIn, ReadThere};
use super::added::with_prelude;
use super::batch::{Batch, Proof};
use super::deferral::Snapshots;
use super::forward::Forwarding;
use super::held::{Held, HeldMessage};
use super::link::{Exchange, Link, OnPrimary, OnReplica, Reads, Role, RunsThere, Transaction};
use super::phase::{Phase, Wanting};
use super::{AsPrepared, Out, Session};
use crate::server::ServerConnection;
use pg_wire::Malformed;
use pg_wire::cut::WireMessage;

/// How a batch starts at a server.
struct Start {
    role: Role,
    /// What begins its transaction there.
    begin: Option<String>,
    /// If it is one of reads at a replica: what shows that it has taken its snapshots.
    proof: Option<Proof>,
    as_prepared: Option<AsPrepared>,
}

impl Start {
    fn at_role(role: Role) -> Start {
        Start {
            role,
            begin: None,
            proof: None,
            as_prepared: None,
        }
    }

    /// Returns how a batch of this transaction starts at a server. On a replica nothing is begun
    /// that outlives a batch, but for a transaction's snapshot.
    fn of(at: At, transaction: Transaction) -> Start {
        match (at, transaction) {
            (At::Primary, Transaction::None) => {
                Start::at_role(Role::Primary(OnPrimary::new(false)))
            }
            (At::Primary, Transaction::Deferred(block)) => {
                let is_read_committed = block.snapshots == Snapshots::OfStatements;
                Start {
                    begin: Some(block.begin),
                    ..Start::at_role(Role::Primary(OnPrimary::new(is_read_committed)))
                }
            }
            (At::Primary, Transaction::Waiting(_)) => panic!("its transaction is there: resume"),
            (At::Snapshot(numbers), transaction) => {
                let batch_in = transaction.batch_in();
                assert_eq!(batch_in, BatchIn::Snapshot, "it takes no snapshot");
                let runs = RunsThere::Snapshot;
                Start::at_role(Role::Replica(OnReplica { numbers, runs }))
            }
            (At::Replica(there), transaction) => {
                let batch_in = transaction.batch_in();
                assert_ne!(batch_in, BatchIn::Snapshot, "it takes its snapshot there");
                let ReadThere {
                    proof,
                    numbers,
                    as_prepared,
                } = there;
                let runs = RunsThere::Reads(Reads {
                    transaction,
                    batch: None,
                });
                Start {
                    proof: Some(proof),
                    as_prepared,
                    ..Start::at_role(Role::Replica(OnReplica { numbers, runs }))
                }
            }
        }
    }
}

impl Session {
    /// Attaches the server that was wanted: what was held goes to it.
    pub(super) fn attach(
        &mut self,
        server: &mut ServerConnection,
        attachment: Attachment,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        let Wanting {
            transaction,
            held,
            failure,
        } = self.take_wanting();
        let start = Start::of(attachment.at, transaction);
        let as_prepared = start.as_prepared.filter(|_| held.is_query());
        let keeping = self.client.keeping();
        server.is_dirty |= keeping.is_kept();
        self.phase = Phase::Attached(Link::new(start.role, keeping));
        let mut exchange = self.exchange();
        exchange.name_application(server, out);
        if let Some(begin) = &start.begin {
            exchange.run(begin, server, out);
        }
        exchange.client.parameters.report(server, out);
        if let Some(proof) = start.proof
            && let Some(reads) = exchange.link.reads_mut()
        {
            assert!(failure.is_none(), "it has failed elsewhere before");
            let is_as_prepared = as_prepared.is_some();
            let is_waiting = reads.transaction.is_waiting();
            if is_waiting || proof != Proof::None || is_as_prepared {
                let batch = Batch::of(&held, (proof, is_as_prepared), exchange.client);
                reads.batch = Some(Box::new(batch));
            }
        }
        let how = Forwarding {
            is_schema_only: attachment.is_schema_only,
            as_prepared,
            ..Forwarding::default()
        };
        exchange.forward_held(held, (how, &attachment.prelude), server, out)
    }
}

impl Exchange<'_> {
    /// Forwards what was held, with statements in front of it. If it is to be forwarded as a
    /// prepared statement, it is one simple query.
    fn forward_held(
        &mut self,
        held: Held,
        (how, prelude): (Forwarding, &[String]),
        server: &mut ServerConnection,
        out: &mut Out,
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
