//! Serves clients: accepts them, logs them in, and relays each session to servers.
//!
//! Each client has one task. This module must not know the meaning of statements, which
//! `pg-analysis` and the manager know.

mod cancel;
pub mod clients;
pub mod listener;
mod login;
mod login_failure;
mod numbers;
pub(crate) mod pending_age;
mod processes;
mod proof;
pub mod proxy_role;
mod relay;
pub mod replicas;
mod router;
pub mod routing;
mod routing_reason;
mod server_settings;
pub mod spinning;
mod trace;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use cancel::CancelRegistry;
use clients::{Clients, RouteTarget};
use listener::Listener;
use login::ClientEntrance;
use pg_auth::admission::ClientAdmission;
use pg_connect::address::Address;
use pg_connect::stream::{BufferedStream, Stream};
use processes::ProcessRegistry;
use proxy_core::session::PinningPolicy;
use proxy_pool::{InitialKeys, KnownSettings, ServerNode};
use proxy_role::ProxyRole;
use routing::Routing;

/// Reads that wait for a replica at a time, at most.
const WAITING_MAX: usize = 256;
/// Clients that may be logging in at a time; more are refused.
const LOGINS_MAX: usize = 1_000;

/// The rules for logins: which users may log in, and how. A reload can change them. Clients that
/// are logged in stay connected.
#[derive(Debug)]
pub struct Admission {
    /// The users that may log in, and how. Certificates do not apply to Unix sockets, where clients
    /// have none.
    pub clients: ClientAdmission,
    /// The users that may use the console.
    pub operators: Vec<String>,
}

/// The options that a reload can change.
pub struct ReloadedOptions {
    /// The users that may log in.
    pub admission: Admission,
    /// The replicas in the file; none if there is no file for them.
    pub replicas: Option<Vec<Address>>,
}

/// Reads these options again from their source. The error is for people.
pub type ReloadOptions = Box<dyn Fn() -> Result<ReloadedOptions, String> + Send + Sync>;

/// The name of the console's database.
pub const CONSOLE: &str = "hihooi";

/// Serves an operator after the login, until the connection ends.
pub type ServeOperator =
    fn(Arc<Proxy>, BufferedStream, String) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The default of the longest wait of a read for a replica, in milliseconds (P1).
pub const WAIT_MS_DEFAULT: u64 = 100;

/// The options of a proxy.
pub struct ProxyOptions {
    /// The primary's address.
    pub primary: Address,
    /// The users that may log in.
    pub admission: Admission,
    /// The replicas at the start.
    pub replicas: Vec<Address>,
    /// Reads users and replicas again.
    pub reload: ReloadOptions,
    /// The function that serves the console, see [`crate::console::serve`].
    pub serve_operator: ServeOperator,
    /// Whether sessions keep their connections.
    pub pinning: PinningPolicy,
    /// The most connections for sessions to each server.
    pub connections_max: usize,
    /// The most clients that are logged in.
    pub clients_max: usize,
    /// The longest time of a login.
    pub login_timeout: Duration,
    /// The longest wait of a read for a replica.
    pub wait_max: Duration,
}

/// The options that do not change while it runs.
struct FixedOptions {
    primary: Address,
    connections_max: usize,
    wait_max: Duration,
}

/// A running proxy.
pub struct Proxy {
    options: FixedOptions,
    role: RwLock<ProxyRole>,
    admission: Mutex<Arc<Admission>>,
    reload: ReloadOptions,
    serve_operator: ServeOperator,
    /// Replicas that were named when that was last read; held while it is read again.
    named: tokio::sync::Mutex<Vec<Address>>,
    pinning: PinningPolicy,
    login_timeout: Duration,
    logins: Arc<Semaphore>,
    clients: Arc<Semaphore>,
    /// Reads that wait for a replica.
    waiting: Semaphore,
    sessions: AtomicU64,
    cancels: CancelRegistry,
    processes: ProcessRegistry,
    visitors: Clients,
    known: KnownSettings,
    initial_keys: InitialKeys,
}

impl Proxy {
    /// Creates a proxy that serves no clients yet. Without a routing all statements go to the
    /// primary. With one, the proxy refuses its clients once another proxy is active.
    pub fn new(options: ProxyOptions, routing: Option<Routing>) -> Arc<Proxy> {
        let role = match routing {
            Some(routing) => ProxyRole::Active(Arc::new(routing)),
            None => {
                let node = ServerNode::new(options.primary.clone(), options.connections_max);
                ProxyRole::Pooler(Arc::new(node))
            }
        };
        Proxy::of(options, role)
    }

    /// Creates a proxy that serves no clients yet. It refuses clients until
    /// [`Proxy::compete_for_leadership`] makes it active.
    pub fn standing_by(options: ProxyOptions) -> Arc<Proxy> {
        Proxy::of(options, ProxyRole::Standby(None))
    }

    fn of(options: ProxyOptions, role: ProxyRole) -> Arc<Proxy> {
        Arc::new(Proxy {
            options: FixedOptions {
                primary: options.primary,
                connections_max: options.connections_max,
                wait_max: options.wait_max,
            },
            role: RwLock::new(role),
            admission: Mutex::new(Arc::new(options.admission)),
            reload: options.reload,
            serve_operator: options.serve_operator,
            named: tokio::sync::Mutex::new(options.replicas),
            pinning: options.pinning,
            login_timeout: options.login_timeout,
            logins: Arc::new(Semaphore::new(LOGINS_MAX)),
            clients: Arc::new(Semaphore::new(options.clients_max)),
            waiting: Semaphore::new(WAITING_MAX),
            sessions: AtomicU64::new(0),
            cancels: CancelRegistry::default(),
            processes: ProcessRegistry::default(),
            visitors: Clients::default(),
            known: KnownSettings::default(),
            initial_keys: InitialKeys::default(),
        })
    }

    /// Serves clients of a listener while the future is polled. It can be called for several
    /// listeners.
    pub async fn serve(self: &Arc<Self>, listener: impl Into<Listener>) -> io::Result<()> {
        let listener = listener.into();
        loop {
            let (stream, address) = match listener.accept().await {
                Ok(accepted) => accepted,
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
            tokio::spawn(async move { proxy.client(stream, address, permit).await });
        }
    }

    /// Serves one client, from its first byte to its last.
    async fn client(
        self: Arc<Self>,
        stream: Stream,
        address: Option<SocketAddr>,
        login_permit: OwnedSemaphorePermit,
    ) {
        let welcomed =
            tokio::time::timeout(self.login_timeout, self.welcome(stream, address)).await;
        drop(login_permit);
        match welcomed {
            Ok(Some((peer, ClientEntrance::Session(welcome)))) => {
                relay::run(&self, peer, address, *welcome).await;
            }
            Ok(Some((peer, ClientEntrance::Console(user)))) => {
                (self.serve_operator)(Arc::clone(&self), peer, user).await;
            }
            Ok(None) | Err(_) => {}
        }
    }

    /// Reads the options again that a reload can change. If that fails, nothing changes, except
    /// that replicas are added where possible.
    pub async fn reload(&self) -> Result<(), String> {
        let mut named = self.named.lock().await;
        let reloaded = (self.reload)()?;
        let is_named = |named: &Vec<Address>| !named.is_empty();
        if !self.is_router() && reloaded.replicas.as_ref().is_some_and(is_named) {
            return Err("it was started without replicas: restart it with them".into());
        }
        *self
            .admission
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(reloaded.admission);
        let Some(wanted) = reloaded.replicas else {
            return Ok(());
        };
        let before = std::mem::replace(&mut *named, wanted);
        match self.followed() {
            Some(routing) => routing.replicas.exchange(&before, &named).await,
            // They are taken up when this proxy becomes the active one.
            None => Ok(()),
        }
    }

    /// Returns the primary's address.
    pub fn primary(&self) -> &Address {
        &self.options.primary
    }

    fn admission(&self) -> Arc<Admission> {
        let admission = self.admission.lock();
        Arc::clone(&admission.unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the clients that are logged in, with the number of batches of each.
    pub fn visitors(&self) -> &Clients {
        &self.visitors
    }

    /// Returns the number of reads that wait for a replica.
    pub fn reads_waiting(&self) -> usize {
        WAITING_MAX - self.waiting.available_permits()
    }

    /// Returns all servers; none while the proxy stands by.
    pub fn nodes(&self) -> BTreeMap<RouteTarget, Arc<ServerNode>> {
        let Ok(servers) = self.servers() else {
            return BTreeMap::new();
        };
        let replicas = servers.routing.map(|routing| routing.replicas.all());
        let replicas = replicas.into_iter().flatten();
        let mut nodes: BTreeMap<RouteTarget, Arc<ServerNode>> =
            replicas.map(|(id, node)| (Some(id), node)).collect();
        nodes.insert(None, servers.primary);
        nodes
    }

    fn session_number(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
}
