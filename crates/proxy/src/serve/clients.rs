//! Lists the logged-in clients, with the number of their batches by server, for the console and for
//! metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use proxy_core::freshness::ReplicaId;

/// A server: a replica, or none for the primary.
pub type RouteTarget = Option<ReplicaId>;

/// A client that is logged in.
#[derive(Debug)]
pub struct ConnectedClient {
    /// The user of the login.
    pub user: String,
    /// The client's database.
    pub database: String,
    /// The client's IP address and port; none over a Unix socket.
    pub address: Option<SocketAddr>,
    /// The time of the login.
    pub since: Instant,
    /// The number of times that the session was attached to a server.
    pub batches: AtomicU64,
    /// The server that the session uses now.
    pub server: Mutex<Option<RouteTarget>>,
}

/// All clients, and the numbers of their batches.
#[derive(Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ConnectedClient>>>,
    routes: Mutex<BTreeMap<(RouteTarget, &'static str), u64>>,
}

/// A client's entry, which is removed when its session ends.
pub struct ClientEntry<'a> {
    clients: &'a Clients,
    number: u64,
    client: Arc<ConnectedClient>,
}

impl Clients {
    /// Adds a client, whose session has this number.
    pub fn enter(&self, number: u64, client: ConnectedClient) -> ClientEntry<'_> {
        let client = Arc::new(client);
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(number, Arc::clone(&client));
        ClientEntry {
            clients: self,
            number,
            client,
        }
    }

    /// Returns all clients by their numbers.
    pub fn all(&self) -> BTreeMap<u64, Arc<ConnectedClient>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Returns the numbers of batches by server and reason.
    pub fn routes(&self) -> BTreeMap<(RouteTarget, &'static str), u64> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.clone()
    }
}

impl ClientEntry<'_> {
    /// Records that the client's batch runs on this server, and the reason.
    pub fn count_route(&self, server: RouteTarget, why: &'static str) {
        self.client.batches.fetch_add(1, Ordering::Relaxed);
        self.set(Some(server));
        let routes = self.clients.routes.lock();
        let mut routes = routes.unwrap_or_else(PoisonError::into_inner);
        *routes.entry((server, why)).or_default() += 1;
    }

    /// Records that the client's next batch runs on the server that the session has kept.
    pub fn returns(&self, server: RouteTarget) {
        self.set(Some(server));
    }

    /// Records that the session has released its server.
    pub fn leaves(&self) {
        self.set(None);
    }

    fn set(&self, server: Option<RouteTarget>) {
        let now = self.client.server.lock();
        *now.unwrap_or_else(PoisonError::into_inner) = server;
    }
}

impl Drop for ClientEntry<'_> {
    fn drop(&mut self) {
        let all = self.clients.all.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.number);
    }
}
