//! Handles watched reads, which may be torn, at a replica. See `proxy_core::freshness::watch`.

use super::Relay;
use crate::serve::routing::ChosenReplica;
use proxy_core::session::SnapshotProof;

impl Relay<'_> {
    /// Begins to watch a read at a replica, if it may be torn there. Returns the proof of its
    /// snapshots.
    pub(super) fn watches(&mut self, chosen: ChosenReplica) -> SnapshotProof {
        let (watch, proof) = chosen.watched.map(|watched| *watched).unzip();
        self.watch = watch;
        proof.unwrap_or(SnapshotProof::None)
    }
}
