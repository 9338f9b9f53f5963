//! The clients that are logged in, and where batches went: for the console and for metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use proxy_core::freshness::ReplicaId;

/// Where something runs: at a replica, or at the primary.
pub type RouteTarget = Option<ReplicaId>;

/// A client that is logged in.
#[derive(Debug)]
pub struct ConnectedClient {
    /// The user that it has logged in as.
    pub user: String,
    /// Its database.
    pub database: String,
    /// Its IP address and port; none over a Unix socket.
    pub address: Option<SocketAddr>,
    /// When it came.
    pub since: Instant,
    /// How often it was given a server.
    pub batches: AtomicU64,
    /// Which server it uses now.
    pub server: Mutex<Option<RouteTarget>>,
}

/// All clients, and counts of their batches.
#[derive(Default)]
pub struct Clients {
    all: Mutex<BTreeMap<u64, Arc<ConnectedClient>>>,
    routes: Mutex<BTreeMap<(RouteTarget, &'static str), u64>>,
}

/// A client's entry, which ends with its session.
pub struct ClientEntry<'a> {
    clients: &'a Clients,
    number: u64,
    client: Arc<ConnectedClient>,
}

impl Clients {
    /// Adds a client. Its session has this number.
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

    /// Returns each client by its number.
    pub fn all(&self) -> BTreeMap<u64, Arc<ConnectedClient>> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.clone()
    }

    /// Returns how many batches went where, and why.
    pub fn routes(&self) -> BTreeMap<(RouteTarget, &'static str), u64> {
        let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        routes.clone()
    }
}

impl ClientEntry<'_> {
    /// Notes that the client is given a server.
    pub fn count_route(&self, server: RouteTarget, why: &'static str) {
        self.client.batches.fetch_add(1, Ordering::Relaxed);
        self.set(Some(server));
        let routes = self.clients.routes.lock();
        let mut routes = routes.unwrap_or_else(PoisonError::into_inner);
        *routes.entry((server, why)).or_default() += 1;
    }

    /// Notes that the client goes on with a server that it kept.
    pub fn returns(&self, server: RouteTarget) {
        self.set(Some(server));
    }

    /// Notes that the client gives its server back.
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
