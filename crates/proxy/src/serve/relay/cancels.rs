//! Handles cancel requests while a server is attached. They may cancel the client's statements, but
//! never the proxy's own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{GOODBYE_TIMEOUT, Relay};
use crate::serve::cancel::{self, CancelGoal};
use proxy_core::session::RunningOwner;

/// The handling of the client's cancel requests.
pub(super) enum CancelRoute {
    /// Requests to cancel go to the server, or to the destination in the session's entry.
    Lead,
    /// Requests to cancel wait until the server has run the proxy's own statements before the
    /// client's.
    Wait(Arc<AtomicBool>),
    /// Requests to cancel are ignored, because every message of the client is answered.
    GoNowhere,
}

impl Relay<'_> {
    /// Makes cancel requests wait while the proxy's own statements run first, if there are any.
    /// Call it before they are sent.
    pub(super) async fn hold_cancels(&mut self) {
        self.cancels = CancelRoute::Lead;
        if self.session.running_owner() != RunningOwner::Clients {
            let is_cancelled = Arc::<AtomicBool>::default();
            let goal = CancelGoal::Wait(Arc::clone(&is_cancelled));
            self.entry.leads_to(Some(goal)).await;
            self.cancels = CancelRoute::Wait(is_cancelled);
        }
    }

    /// Lets cancel requests go to the server again, once it runs no statement of the proxy's own.
    /// Until then they wait if the client has sent something after these statements.
    pub(super) async fn lead_cancels(&mut self) {
        if matches!(self.cancels, CancelRoute::Lead) {
            return;
        }
        let is_late = matches!(self.cancels, CancelRoute::GoNowhere);
        match self.session.running_owner() {
            RunningOwner::OwnBeforeClients if is_late => return self.hold_cancels().await,
            RunningOwner::Own | RunningOwner::OwnBeforeClients => return,
            RunningOwner::Clients => {}
        }
        let before = std::mem::replace(&mut self.cancels, CancelRoute::Lead);
        let Some(connection) = &self.connection else {
            return;
        };
        let (node, key) = (Arc::clone(&self.place.node), connection.cancel_key.clone());
        let goal = CancelGoal::Server(Arc::clone(&node), Arc::clone(&key));
        self.entry.leads_to(Some(goal)).await;
        if let CancelRoute::Wait(is_cancelled) = before
            && is_cancelled.load(Ordering::Acquire)
        {
            // A server that cannot be reached cannot get the request.
            let _ = tokio::time::timeout(GOODBYE_TIMEOUT, cancel::send(&node, &key)).await;
        }
    }
}
