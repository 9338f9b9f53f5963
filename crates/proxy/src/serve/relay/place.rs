//! Where sessions are.

use std::sync::Arc;

use crate::serve::routing::{Chosen, Routing};
use crate::serve::standing::SessionServers;
use proxy_core::freshness::{Manager, ReplicaId};
use proxy_pool::ServerNode;

/// Where a server is.
#[derive(Clone)]
pub(super) struct Place {
    pub node: Arc<ServerNode>,
    /// Returns its number, if it is a replica.
    pub replica: Option<ReplicaId>,
}

impl Chosen {
    pub(super) fn place(&self) -> Place {
        Place {
            node: Arc::clone(&self.node),
            replica: Some(self.id),
        }
    }
}

impl SessionServers {
    /// Returns where statements in a database may go; none for a database that replicas do not
    /// follow.
    pub(super) fn routing_of(&self, database: &str) -> Option<&Routing> {
        let is_followed = self.primary.address.database == database;
        self.routing.as_deref().filter(|_| is_followed)
    }

    /// Returns whether another proxy is the active one by now.
    pub(super) fn is_lost(&self) -> bool {
        let routing = self.routing.as_ref();
        routing.is_some_and(|routing| routing.lease.has_ended())
    }

    pub(super) fn primary_place(&self) -> Place {
        Place {
            node: Arc::clone(&self.primary),
            replica: None,
        }
    }

    /// Counts the sessions on a server, for the choice of the least loaded.
    pub(super) fn count(&self, place: &Place, count: fn(&mut Manager, Option<ReplicaId>)) {
        if let Some(routing) = &self.routing {
            count(&mut routing.manager(), place.replica);
        }
    }
}
