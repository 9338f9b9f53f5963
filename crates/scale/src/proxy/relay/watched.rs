//! Reads at an Extension that may be torn, see `manager::watch`.

use super::Relay;
use crate::manager::Watch;
use crate::proxy::routing::{Chosen, Routing};
use crate::wire::cut::Piece;
use crate::wire::report::{Report, Severity};
use crate::wire::session::{At, Out, Proof, Session};

/// SQLSTATE: it is to be done again.
const SERIALIZATION_FAILURE: &str = "40001";

impl Relay<'_> {
    /// Where what is held goes now; what may be torn there is watched from now on.
    pub(super) fn at(&mut self, chosen: Option<Chosen>) -> At {
        self.watch = None;
        match chosen.map(|chosen| chosen.watched) {
            None => At::Primary,
            // That snapshot has been taken.
            Some(_) if self.session.is_snapshot_deferred() => At::Extension(Proof::None),
            Some(None) => At::Extension(Proof::None),
            Some(Some((watch, proof))) => {
                self.watch = Some(watch);
                At::Extension(proof)
            }
        }
    }
}

/// Says whether what a batch has read at an Extension counts, if what comes next from there shows that its
/// snapshots have been taken. True if it was said.
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
        let text = "commits since may be seen in another order there";
        session.tears(Report::new(Severity::Error, SERIALIZATION_FAILURE, text));
    } else {
        session.counts(out);
    }
    true
}
