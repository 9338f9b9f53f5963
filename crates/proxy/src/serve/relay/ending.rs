//! Ends sessions: the client gets the reason, and connections are released or closed.

use std::sync::Arc;

use super::{GOODBYE_TIMEOUT, PROTOCOL_VIOLATION, Relay, SessionEnd};
use crate::serve::cancel;
use proxy_core::freshness::FreshnessManager;
use proxy_core::session::SessionLeftover;

impl Relay<'_> {
    /// Ends the session: sends the client the reason, and leaves the server in order.
    pub(super) async fn end(mut self, end: SessionEnd) {
        let is_server_usable = matches!(end, SessionEnd::Client)
            || matches!(&end, SessionEnd::Reported(report) if report.code == PROTOCOL_VIOLATION);
        let is_unproven = self.check_unproven();
        if is_unproven {
            // It would be old, and is never relayed.
            self.out.to_client.clear();
            self.has_read = false;
        }
        // Behind a part of a message nothing else is understood.
        if let SessionEnd::Reported(report) = end
            && !(is_unproven && self.is_cut)
        {
            report.write(&mut self.out.to_client);
        }
        self.entry.leads_to(None).await;
        if let Some(kept) = self.kept.take() {
            let place = self.servers.primary_place();
            self.servers.count(&place, FreshnessManager::ended);
            let primary = place.node;
            tokio::spawn(async move { primary.recycle(kept, true).await });
        }
        if let Some(connection) = self.connection.take() {
            let is_drained =
                self.out.to_server.is_empty() && connection.cutter.is_between_messages();
            let node = Arc::clone(&self.place.node);
            self.servers.count(&self.place, FreshnessManager::ended);
            let is_in_doubt = self.writes.is_pending();
            if let (Some(routing), None) = (self.routing, self.place.replica) {
                self.writes
                    .lost(connection.cancel_key.process, || routing.manager());
            }
            match self.session.leftover() {
                leftover @ (SessionLeftover::Nothing | SessionLeftover::Transaction)
                    if is_server_usable && is_drained && !is_in_doubt =>
                {
                    let is_in_transaction = leftover == SessionLeftover::Transaction;
                    tokio::spawn(async move {
                        node.recycle(connection, is_in_transaction).await;
                    });
                }
                _ => {
                    tokio::spawn(async move {
                        let key = connection.cancel_key.clone();
                        // No client waits for its statement. If this fails, the statement runs to
                        // its end.
                        let sent = cancel::send(&node, &key);
                        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, sent).await;
                        node.close(connection);
                    });
                }
            }
        }
        let goodbye = async {
            // A client that is gone, or does not read, gets nothing.
            let _ = self.flush_client().await;
            self.client.shutdown().await;
        };
        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, goodbye).await;
    }
}

/// Ends the session's Pending commits with it, also where its task ends in the middle: none
/// outlives it.
impl Drop for Relay<'_> {
    fn drop(&mut self) {
        let place = self.place.clone();
        let primary = self.servers.primary_place();
        if let Some(lent) = self.processes.lent.take() {
            primary.node.close(lent);
        }
        for (place, connection) in [(place, self.connection.take()), (primary, self.kept.take())] {
            let Some(connection) = connection else {
                continue;
            };
            if let (Some(routing), None) = (self.routing, place.replica) {
                self.writes
                    .lost(connection.cancel_key.process, || routing.manager());
            }
            self.servers.count(&place, FreshnessManager::ended);
            place.node.close(connection);
        }
        if let Some(routing) = self.routing {
            self.writes.never_sent(|| routing.manager());
        }
    }
}
