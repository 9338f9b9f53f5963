//! Serves PostgreSQL's protocol beside a store or a server of one, on threads of its own.
//!
//! The port is bound first, so that a command whose port is taken opens no data.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use client::{Client, ConnectOptions};
use pg_server::{ServerLimits, SqlServer};
use replex::failure::CommandFailure;
use tokio::sync::{oneshot, watch};

/// The most requests of all clients to the store at the same time.
const REQUESTS_MAX: usize = 65_536;
/// How long to wait before the coordinator is asked again.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Whether clients of other machines may connect. There is no encryption and no login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// They may.
    Allowed,
    /// They may not, and the option with this name would allow it.
    NeedsOption(&'static str),
}

/// A port that waits for its store.
pub struct SqlListener {
    listener: TcpListener,
    address: SocketAddr,
}

/// A server of SQL. Dropping it disconnects its clients.
pub struct RunningSql {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl SqlListener {
    /// Binds an address.
    ///
    /// # Errors
    /// Other machines can reach the address, and that was not allowed; or it cannot be bound.
    pub fn bind(address: SocketAddr, policy: NetworkPolicy) -> Result<SqlListener, CommandFailure> {
        if let NetworkPolicy::NeedsOption(option) = policy
            && !address.ip().is_loopback()
        {
            return Err(CommandFailure::Usage(format!(
                "{address} can be reached from the network, and there is no encryption and no login \
                 yet: any process that reaches it can read and change everything. Listen at a \
                 loopback address such as 127.0.0.1, or, in a network that you trust, add {option}"
            )));
        }
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => CommandFailure::Failed(format!(
                "another process listens at {address}: end it, or choose another port, as in \
                 {}:0 for any free port",
                address.ip()
            )),
            _ => CommandFailure::Failed(format!("cannot listen at {address}: {error}")),
        })?;
        let what = "listen for clients";
        listener
            .set_nonblocking(true)
            .map_err(CommandFailure::at(what))?;
        let address = listener.local_addr().map_err(CommandFailure::at(what))?;
        Ok(SqlListener { listener, address })
    }

    /// Returns the address, with the port that the system has chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients of the store with these coordinators. Returns at once; clients are answered
    /// when the store is.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn serve(
        self,
        coordinators: Vec<String>,
        limits: ServerLimits,
    ) -> Result<(RunningSql, oneshot::Receiver<()>), CommandFailure> {
        let what = "start the threads of SQL";
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.thread_name("sql").enable_all().build();
        let runtime = runtime.map_err(CommandFailure::at(what))?;
        let (stop, stopped) = watch::channel(false);
        let (connected, is_connected) = oneshot::channel();
        let serving = async move {
            let mut is_over = stopped.clone();
            let store = tokio::select! {
                store = connect(coordinators) => store,
                _ = is_over.wait_for(|is_over| *is_over) => return,
            };
            // The waiter may have ended.
            let _ = connected.send(());
            let listener = tokio::net::TcpListener::from_std(self.listener);
            let listener = listener.expect("the runtime has an I/O driver");
            let server = SqlServer::new(store, limits, env!("CARGO_PKG_VERSION"));
            server.run(listener, stopped).await;
        };
        let thread = Builder::new().name("sql".into());
        let thread = thread.spawn(move || runtime.block_on(serving));
        let running = RunningSql {
            stop,
            thread: Some(thread.map_err(CommandFailure::at(what))?),
        };
        Ok((running, is_connected))
    }
}

impl Drop for RunningSql {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed the panic.
            let _ = thread.join();
        }
    }
}

/// Connects to the store, however long it takes.
async fn connect(coordinators: Vec<String>) -> Client {
    loop {
        let options = ConnectOptions {
            requests_max: REQUESTS_MAX,
            ..ConnectOptions::new(coordinators.iter().cloned())
        };
        match Client::connect(options).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(CONNECT_AGAIN_AFTER).await,
        }
    }
}
