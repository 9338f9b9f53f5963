//! Reads at a replica that may be torn, see `proxy_core::freshness::watch`.

use super::Relay;
use crate::serve::routing::{Chosen, Routing};
use pg_wire::cut::Piece;
use proxy_core::freshness::Watch;
use proxy_core::session::{At, Out, Proof, Session};

impl Relay<'_> {
    /// Returns where what is held goes now; what may be torn there is watched from now on.
    pub(super) fn at(&mut self, chosen: Option<Chosen>) -> At {
        self.watch = None;
        let Some(chosen) = chosen else {
            return At::Primary;
        };
        // A transaction's snapshot has been taken by now.
        let watched = chosen
            .watched
            .filter(|_| !self.session.is_snapshot_deferred());
        let (watch, proof) = watched.map(|watched| *watched).unzip();
        self.watch = watch;
        At::Replica(proof.unwrap_or(Proof::None))
    }
}

/// Notes whether what a batch has read at a replica counts, if what comes next from there shows
/// that its snapshots have been taken. Returns true if that was noted.
pub(super) fn judge(
    watch: &Watch,
    piece: &Piece<'_>,
    routing: &Routing,
    (session, out): (&mut Session, &mut Out),
) -> bool {
    let Piece::Message(message) = piece else {
        return false;
    };
    if !session.is_proof(message.tag()) {
        return false;
    }
    if routing.manager().is_torn(watch) {
        session.tears();
    } else {
        session.counts(out);
    }
    true
}
