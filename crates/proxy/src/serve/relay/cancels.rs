//! Cancel requests while a server is attached: they hit the client's statements, never the proxy's
//! own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{GOODBYE_TIMEOUT, Relay};
use crate::serve::cancel::{self, CancelGoal};
use proxy_core::session::RunningOwner;

/// Where cancel requests go.
pub(super) enum CancelRoute {
    /// To the server, or to the goal of the session's entry.
    Lead,
    /// They wait until the proxy's own statements in front of the client's are done.
    Wait(Arc<AtomicBool>),
    /// Nowhere: every message of the client is answered.
    GoNowhere,
}

impl Relay<'_> {
    /// Has requests wait for the end of the proxy's own statements that run first, if there are
    /// any. To be called before that is sent.
    pub(super) async fn hold_cancels(&mut self) {
        self.cancels = CancelRoute::Lead;
        if self.session.running_owner() != RunningOwner::Clients {
            let is_cancelled = Arc::<AtomicBool>::default();
            let goal = CancelGoal::Wait(Arc::clone(&is_cancelled));
            self.entry.leads_to(Some(goal)).await;
            self.cancels = CancelRoute::Wait(is_cancelled);
        }
    }

    /// Lets requests go to the server again once that runs nothing of the proxy's own any more.
    /// Until then they wait if the client has sent something behind it.
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
