//! Detaches a session from a server: the session releases the server, or has lost its connection to
//! it.
//!
//! A session survives the loss of a replica: its batch runs again on the primary, or the client
//! gets an error. It does not survive the loss of its connection to the primary, where a commit may
//! have been in flight.

use super::action::SessionEnding;
use super::batch::RetryableBatch;
use super::deferral::DeferredBlock;
use super::link::{
    AttachedRole, AttachedSession, ClientFlow, DetachedTransaction, ReplicaSide, ReplicaWork,
    ServerLink,
};
use super::phase::{SessionPhase, WantingPhase};
use super::pin_state::{PinState, SettingChanges};
use super::replica_reads::ErrorReceiver;
use super::{PeerOutput, Session};
use crate::server::ServerConnection;
use pg_wire::message;
use pg_wire::report::Report;

impl Session {
    /// Records that the server is released. If the batch failed there, it now waits for the
    /// primary.
    pub(super) fn released(&mut self, out: &mut PeerOutput) {
        let link = self.take_link();
        assert!(link.is_done(), "released what is in use");
        assert!(
            matches!(link.keeping, PinState::Shared(SettingChanges::Nothing)),
            "its settings are not known"
        );
        self.leave(link, out);
    }

    /// Continues the session without the server.
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

    /// Handles the loss of the server. The session survives the loss of a replica. It does not
    /// survive the loss of its connection to the primary, where a commit may have been in flight.
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

    /// Continues the session without its replica, which is lost. If `is_snapshot_lost`, so is the
    /// snapshot of its transaction: the client gets an error for its batch.
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
        let is_reported = !was_quiet && exchange.note_failure(report) == ErrorReceiver::Client;
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
