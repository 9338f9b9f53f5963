//! Settings that statements of a session may have changed, by which it can go on with other servers
//! that have the same.
//!
//! What they are now is known to its server only: statements may fail, and transactions may be
//! rolled back. So before the server is released, the owner of the sockets reads them there, and
//! reports with what the session goes on.
//!
//! Invariant: a server on which something may have been changed is dirty until that was reported.

use super::Session;
use super::block::Snapshots;
use super::forward::Forwarding;
use super::link::{Exchange, Link};
use super::phase::Phase;
use crate::grammar::SessionEffect;
use crate::server::{ServerConnection, Turn};

/// What statements may have changed since it was last known what settings the session has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// Some are again what they were when the session began, at most.
    Reset,
    /// Some are anything.
    Set,
    /// All are again what they were when the session began.
    Discarded,
}

/// Whether a session gives its server back between transactions.
#[derive(Debug)]
pub(super) enum Keeping {
    /// It does. Its statements may have changed this.
    Shared(Changes),
    /// It is pinned: it keeps the server until it ends.
    Kept {
        /// Since when the server knows statements by the client's names, if it does.
        own_names: Option<Turn>,
    },
}

impl Keeping {
    pub fn is_kept(&self) -> bool {
        matches!(self, Keeping::Kept { .. })
    }

    /// Pins the session, if it is not.
    pub fn keep(&mut self) {
        if !self.is_kept() {
            *self = Keeping::Kept { own_names: None };
        }
    }

    pub fn own_names(&self) -> Option<Turn> {
        match self {
            Keeping::Kept { own_names } => *own_names,
            Keeping::Shared(_) => None,
        }
    }

    /// Notes that the server knows statements by the client's names from now on, and keeps it.
    pub fn give_own_names(&mut self) {
        let own_names = Some(Turn::now());
        *self = Keeping::Kept { own_names };
    }

    /// Notes that the server knows statements by the names that sessions share, after all.
    pub fn share_names(&mut self) {
        if let Keeping::Kept { own_names } = self {
            *own_names = None;
        }
    }
}

impl Session {
    /// Notes its settings on this server: from now on it goes on with any server that has the same,
    /// and with these snapshots of transactions.
    pub(super) fn goes_on(&mut self, server: &mut ServerConnection, snapshots: Option<Snapshots>) {
        let link = self.link_of_over();
        if matches!(link.keeping, Keeping::Shared(Changes::Set)) {
            // What was prepared meanwhile may be of settings that were taken back.
            server.outdate();
        }
        link.keeping = Keeping::Shared(Changes::Nothing);
        self.client.deferral.change(snapshots);
        self.client.parameters.name_as(server);
        server.is_dirty = false;
    }

    /// Notes that no other session can have the settings that it has: it keeps its server.
    pub(super) fn keep_server(&mut self) {
        self.link_of_over().keeping.keep();
    }

    /// Returns the server's link, whose transaction is over.
    fn link_of_over(&mut self) -> &mut Link {
        let Phase::Attached(link) = &mut self.phase else {
            panic!("no server is attached");
        };
        assert!(link.is_done(), "its transaction is not over");
        link
    }
}

impl Exchange<'_> {
    /// Notes that statements are forwarded to the server that leave this.
    pub(super) fn leaves(
        &mut self,
        effect: SessionEffect,
        how: &Forwarding,
        server: &mut ServerConnection,
    ) {
        let leaves_nothing = matches!(
            effect,
            SessionEffect::Nothing | SessionEffect::ReadsSequenceState
        );
        if how.is_schema_only || leaves_nothing {
            return;
        }
        server.is_dirty = true;
        let is_replica = self.link.is_on_replica();
        match &mut self.link.keeping {
            Keeping::Shared(changes) if !is_replica && effect.is_of_settings() => {
                *changes = match (*changes, effect) {
                    (Changes::Nothing, SessionEffect::ResetsSettings) => Changes::Reset,
                    (changes, SessionEffect::ResetsSettings) => changes,
                    _ => Changes::Set,
                };
            }
            keeping => keeping.keep(),
        }
    }
}
