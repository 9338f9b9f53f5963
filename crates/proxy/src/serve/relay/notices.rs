//! Sends notices about the routes of batches to a client that has requested them.

use super::Relay;
use crate::serve::routing::{Routing, RoutingReason};
use crate::serve::trace;
use proxy_core::freshness::AccessSets;
use proxy_core::session::TraceSetting;

impl Relay<'_> {
    /// Sends the client a notice with the server of its batch and the reason, if it has requested
    /// notices.
    pub(super) fn notify_route(&mut self, reason: &RoutingReason, touches: &str) {
        if self.is_traced() {
            trace::notice(reason, touches).write(&mut self.out.to_client);
        }
    }

    fn is_traced(&self) -> bool {
        self.session.settings().trace == TraceSetting::On
    }

    /// Returns the touched tables of the batch for a notice; empty if the client has requested
    /// none.
    pub(super) fn described(&self, sets: &AccessSets, routing: &Routing) -> String {
        match self.is_traced() {
            true => routing.described(sets),
            false => String::new(),
        }
    }
}
