//! Notices of its batches to a client that has asked for them.

use super::Relay;
use crate::serve::routing::{Routing, RoutingReason};
use crate::serve::trace;
use proxy_core::freshness::AccessSets;
use proxy_core::session::TraceSetting;

impl Relay<'_> {
    /// Sends a client that has asked for it the reason why its batch goes where it goes.
    pub(super) fn notify_route(&mut self, reason: &RoutingReason, touches: &str) {
        if self.is_traced() {
            trace::notice(reason, touches).write(&mut self.out.to_client);
        }
    }

    fn is_traced(&self) -> bool {
        self.session.settings().trace == TraceSetting::On
    }

    /// Returns the touched tables of its batch for a client's notice; empty if it has not asked for
    /// it.
    pub(super) fn described(&self, sets: &AccessSets, routing: &Routing) -> String {
        match self.is_traced() {
            true => routing.described(sets),
            false => String::new(),
        }
    }
}
