//! The server that a session uses: the primary or a replica.

use std::sync::Arc;

use crate::serve::proxy_role::SessionServers;
use crate::serve::routing::{ChosenReplica, Routing};
use proxy_core::freshness::{FreshnessManager, ReplicaId};
use proxy_pool::ServerNode;

/// A server with its connections.
#[derive(Clone)]
pub(super) struct ServerPlace {
    pub node: Arc<ServerNode>,
    /// The replica's number; none for the primary.
    pub replica: Option<ReplicaId>,
}

impl ChosenReplica {
    pub(super) fn place(&self) -> ServerPlace {
        ServerPlace {
            node: Arc::clone(&self.node),
            replica: Some(self.id),
        }
    }
}

impl SessionServers {
    /// Returns the routing of statements in a database; none for a database that replicas do not
    /// follow.
    pub(super) fn routing_of(&self, database: &str) -> Option<&Routing> {
        let is_followed = self.primary.address.database == database;
        self.routing.as_deref().filter(|_| is_followed)
    }

    /// Returns whether another proxy is active now.
    pub(super) fn is_lost(&self) -> bool {
        let routing = self.routing.as_ref();
        routing.is_some_and(|routing| routing.lease.has_ended())
    }

    pub(super) fn primary_place(&self) -> ServerPlace {
        ServerPlace {
            node: Arc::clone(&self.primary),
            replica: None,
        }
    }

    /// Counts the sessions on a server, for the choice of the least loaded one.
    pub(super) fn count(
        &self,
        place: &ServerPlace,
        count: fn(&mut FreshnessManager, Option<ReplicaId>),
    ) {
        if let Some(routing) = &self.routing {
            count(&mut routing.manager(), place.replica);
        }
    }
}
