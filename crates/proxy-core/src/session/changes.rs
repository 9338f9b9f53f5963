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
use crate::grammar::SessionEffect;
use crate::server::ServerConnection;

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

impl Session {
    /// Returns what its statements may have changed.
    pub fn changes(&self) -> Changes {
        self.changes
    }

    /// Notes its settings on this server: from now on it goes on with any server that has the same,
    /// and with the snapshots of [`Session::defer_transactions`].
    pub fn goes_on(&mut self, server: &mut ServerConnection, snapshots: Option<Snapshots>) {
        assert!(self.block.is_none(), "its transaction is on no server");
        if self.changes == Changes::Set {
            // What was prepared meanwhile may be of settings that were taken back.
            server.outdate();
        }
        self.changes = Changes::Nothing;
        self.defers = snapshots;
        self.parameters.name_as(server);
        server.is_dirty = false;
    }

    /// Notes that no other session can have the settings that it has: it keeps its server.
    pub fn keep_server(&mut self) {
        self.is_pinned = true;
    }

    /// Notes that statements are sent to its server that leave this.
    pub(super) fn leaves(&mut self, effect: SessionEffect, server: &mut ServerConnection) {
        if self.is_schema_only
            || matches!(
                effect,
                SessionEffect::Nothing | SessionEffect::ReadsSequenceState
            )
        {
            return;
        }
        server.is_dirty = true;
        if self.is_pinned || self.is_on_replica || !effect.is_of_settings() {
            self.is_pinned = true;
            return;
        }
        self.changes = match (self.changes, effect) {
            (Changes::Nothing, SessionEffect::ResetsSettings) => Changes::Reset,
            (changes, SessionEffect::ResetsSettings) => changes,
            _ => Changes::Set,
        };
    }
}
