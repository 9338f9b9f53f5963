//! Tracks which settings the statements of a session may have changed. The session can continue on
//! any server that gets the same settings.
//!
//! Only the session's server has the current values, because statements may fail and transactions
//! may be rolled back. So before the server is released, the relay reads the settings there, and
//! reports them to the session.
//!
//! Invariant: a server whose settings may have changed is dirty until the session knows the
//! settings.

use super::Session;
use super::deferral::SnapshotScope;
use super::forward::Forwarding;
use super::link::{AttachedSession, ServerLink};
use super::phase::SessionPhase;
use super::pin_state::{PinState, SettingChanges};
use crate::grammar::SessionEffect;
use crate::server::ServerConnection;

impl Session {
    /// Records the session's settings on this server. From now on the session may use any server
    /// with the same settings, and its transactions have these snapshots.
    pub(super) fn goes_on(
        &mut self,
        server: &mut ServerConnection,
        snapshots: Option<SnapshotScope>,
    ) {
        let link = self.link_of_over();
        if matches!(link.keeping, PinState::Shared(SettingChanges::Set)) {
            // Statements that were prepared meanwhile may depend on settings that were rolled back.
            server.outdate();
        }
        link.keeping = PinState::Shared(SettingChanges::Nothing);
        self.client.deferral.change(snapshots);
        self.client.parameters.name_as(server);
        server.is_dirty = false;
    }

    /// Records that no other session can have this session's settings. So the session keeps its
    /// server.
    pub(super) fn keep_server(&mut self) {
        self.link_of_over().keeping.keep();
    }

    /// Returns the server's link after its transaction.
    fn link_of_over(&mut self) -> &mut ServerLink {
        let SessionPhase::Attached(link) = &mut self.phase else {
            panic!("no server is attached");
        };
        assert!(link.is_done(), "its transaction is not over");
        link
    }
}

impl AttachedSession<'_> {
    /// Records the state that forwarded statements may leave behind.
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
            PinState::Shared(changes) if !is_replica && effect.is_of_settings() => {
                *changes = match (*changes, effect) {
                    (SettingChanges::Nothing, SessionEffect::ResetsSettings) => {
                        SettingChanges::Reset
                    }
                    (changes, SessionEffect::ResetsSettings) => changes,
                    _ => SettingChanges::Set,
                };
            }
            keeping => keeping.keep(),
        }
    }
}
