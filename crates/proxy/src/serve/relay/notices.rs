//! What a client is told of its batches that has asked for it.

use super::Relay;
use crate::serve::routing::{Routing, Why};
use crate::serve::trace;
use proxy_core::freshness::Sets;
use proxy_core::session::TraceSetting;

impl Relay<'_> {
    /// Tells a client that has asked for it why its batch goes where it goes.
    pub(super) fn notify_route(&mut self, why: &Why, touches: &str) {
        if self.is_traced() {
            trace::notice(why, touches).write(&mut self.out.to_client);
        }
    }

    fn is_traced(&self) -> bool {
        self.session.settings().trace == TraceSetting::On
    }

    /// What a client that has asked for it is told that its batch touches; else empty.
    pub(super) fn described(&self, sets: &Sets, routing: &Routing) -> String {
        match self.is_traced() {
            true => routing.described(sets),
            false => String::new(),
        }
    }
}
