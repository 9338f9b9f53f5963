//! The proxy: takes clients, lets them log in, and relays each one's session to servers.
//!
//! One task a client. It must not know what statements mean: `wire` and the manager do.

mod cancel;
mod login;
mod relay;
pub mod routing;
mod writes;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::address::Address;
use crate::auth::users::Users;
use crate::pool::Node;
use crate::wire::session::Pinning;
use cancel::Registry;
use routing::Routing;

/// Clients that may be logging in at a time; more are turned away.
const LOGINS_MAX: usize = 1_000;

/// How clients prove who they are.
#[derive(Debug)]
pub enum Authentication {
    /// By SCRAM-SHA-256.
    Scram(Users),
    /// Not at all. Users are passed to servers all the same, with these passwords.
    Trust(Users),
}

/// What a proxy is told.
pub struct Options {
    /// The database that takes all writes.
    pub primary: Address,
    /// Who may log in.
    pub authentication: Authentication,
    /// Certificate and key that clients are shown; without one nothing is encrypted.
    pub tls: Option<Arc<ServerConfig>>,
    /// When sessions keep their servers.
    pub pinning: Pinning,
    /// Connections to each server.
    pub connections_max: usize,
    /// Clients that may be logged in at a time.
    pub clients_max: usize,
    /// How long a client may take to log in.
    pub login_timeout: Duration,
}

/// A running proxy.
pub struct Proxy {
    primary: Arc<Node>,
    routing: Option<Routing>,
    authentication: Authentication,
    tls: Option<Arc<ServerConfig>>,
    pinning: Pinning,
    login_timeout: Duration,
    logins: Arc<Semaphore>,
    clients: Arc<Semaphore>,
    sessions: AtomicU64,
    cancels: Registry,
}

impl Proxy {
    /// A proxy that serves nobody yet. Without a routing everything goes to the Primary.
    pub fn new(options: Options, routing: Option<Routing>) -> Arc<Proxy> {
        Arc::new(Proxy {
            primary: Arc::new(Node::new(options.primary, options.connections_max)),
            routing,
            authentication: options.authentication,
            tls: options.tls,
            pinning: options.pinning,
            login_timeout: options.login_timeout,
            logins: Arc::new(Semaphore::new(LOGINS_MAX)),
            clients: Arc::new(Semaphore::new(options.clients_max)),
            sessions: AtomicU64::new(0),
            cancels: Registry::default(),
        })
    }

    /// Serves clients for as long as it is polled.
    pub async fn serve(self: &Arc<Self>, listener: TcpListener) -> io::Result<()> {
        loop {
            let socket = match listener.accept().await {
                Ok((socket, _)) => socket,
                // Out of descriptors, or a client that has gone: others may still come.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&self.logins).try_acquire_owned() else {
                continue;
            };
            let proxy = Arc::clone(self);
            tokio::spawn(async move { proxy.client(socket, permit).await });
        }
    }

    /// One client, from its first byte to its last.
    async fn client(self: Arc<Self>, socket: TcpStream, login_permit: OwnedSemaphorePermit) {
        // Only a hint to the system.
        let _ = socket.set_nodelay(true);
        let welcomed = tokio::time::timeout(self.login_timeout, self.welcome(socket)).await;
        drop(login_permit);
        if let Ok(Some(welcomed)) = welcomed {
            relay::run(&self, welcomed).await;
        }
    }

    fn session_number(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
}
