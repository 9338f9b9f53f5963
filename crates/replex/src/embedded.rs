//! Runs a store of one server in this process: for `replex start`, and for commands that need a
//! store and got no address of one.
//!
//! Unless other machines are to join it, the store listens on loopback only, at free ports, and
//! serves processes of the same user. All of its data is in one folder.
//!
//! The same process can also be one more server of an existing cluster. Then it has no coordinator.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use server::event_loop::LoopHandle;
use server::{
    CoordinatorOptions, CoordinatorProcess, ServerError, ServerOptions, ServerProcess, Stopper,
};

use tokio::sync::Mutex;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::credentials;
use crate::failure::CommandFailure;

/// The memory for the store's tables, in bytes. Colder rows are read from disk.
const MEMORY: usize = 64 << 20;
/// Bytes of the log between two checkpoints, and of a segment of the log.
const CHECKPOINT: u64 = 64 << 20;
const SEGMENT: u64 = 16 << 20;

/// The parts of a store's folder.
pub const COORDINATOR: &str = "coordinator";
/// As above.
pub const SERVER: &str = "server";

/// The options of an embedded store.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The folder of all data, created if it is missing.
    pub folder: PathBuf,
    /// The memory for the tables of each core, in bytes. Colder rows are read from disk.
    pub memory_bytes: usize,
    /// The number of cores: event loops, each with its own log and partitions.
    pub cores: u16,
    /// The bytes of the log between two checkpoints, and of a segment of the log; none is the
    /// default of a server.
    pub small_log: Option<(u64, u64)>,
    /// The cluster that others join, or that this store joins; none is a store of one server.
    pub cluster: Option<ClusterPlace>,
}

/// The place of a store in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterPlace {
    /// The address of this machine. The coordinator has the port, and the cores have the next
    /// ports; port 0 stands for free ports.
    pub address: SocketAddr,
    /// The coordinator of the cluster to join; none starts one here.
    pub coordinator: Option<String>,
    /// The failure domain; empty if the server fails alone.
    pub domain: String,
    /// Whether connections over a network need no encryption.
    pub allow_unencrypted: bool,
}

impl EmbeddedOptions {
    /// Returns the options of a small store beside another service.
    pub fn small(folder: &Path) -> EmbeddedOptions {
        EmbeddedOptions {
            folder: folder.to_owned(),
            memory_bytes: MEMORY,
            cores: 1,
            small_log: Some((CHECKPOINT, SEGMENT)),
            cluster: None,
        }
    }
}

impl EmbeddedOptions {
    /// Returns whether only processes of the same user may connect.
    fn is_private(&self) -> bool {
        let place = self.cluster.as_ref();
        place.is_none_or(|it| it.address.ip().is_loopback() && credentials::current().is_none())
    }
}

impl ClusterPlace {
    /// Returns the address of the first core.
    fn cores(&self) -> SocketAddr {
        let port = match self.address.port() {
            0 => 0,
            port => port.saturating_add(1),
        };
        SocketAddr::new(self.address.ip(), port)
    }
}

/// Returns the options of the coordinator in this process.
fn coordinator_options(wanted: &EmbeddedOptions) -> CoordinatorOptions {
    let mut options = CoordinatorOptions::new(wanted.folder.join(COORDINATOR));
    options.loop_limits.own_user_only = wanted.is_private();
    if let Some(place) = &wanted.cluster {
        // As of `replex coordinator`: others take over from a lost server at once.
        options.settings.replace_after_us = 0;
        options.listen = place.address;
        options.allow_unencrypted_network = place.allow_unencrypted;
        options.credentials = credentials::current();
    }
    options
}

/// The start of a store that may take long.
pub struct StoreStart {
    reports: UnboundedReceiver<Result<(), ServerError>>,
    /// The attempt that an error is about.
    what: String,
}

/// Returns the options of the server in this process.
fn server_options(wanted: &EmbeddedOptions, coordinator: String) -> ServerOptions {
    let mut options = ServerOptions::new(wanted.folder.join(SERVER), vec![coordinator]);
    options.loop_limits.own_user_only = wanted.is_private();
    if let Some(place) = &wanted.cluster {
        options.listen = place.cores();
        options.domain.clone_from(&place.domain);
        options.allow_unencrypted_network = place.allow_unencrypted;
        options.credentials = credentials::current();
    }
    options.cores = wanted.cores;
    options.store.memory_bytes = wanted.memory_bytes;
    if let Some((checkpoint, segment)) = wanted.small_log {
        options.store.checkpoint_bytes = checkpoint;
        options.store.segment_bytes = segment;
    }
    options
}

/// Returns the attempt that an error is about.
fn starting(wanted: &EmbeddedOptions) -> String {
    format!("start the store in {}", wanted.folder.display())
}

/// A store that runs until it is dropped.
pub struct EmbeddedStore {
    coordinator: String,
    /// Gets the name of each part that has ended by itself.
    ended: Mutex<UnboundedReceiver<&'static str>>,
    stop_coordinator: Option<LoopHandle>,
    stop_server: Stopper,
    /// The server's first, which sends its goodbye to the coordinator.
    threads: Vec<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Starts a small store, with its data in this folder. Returns when the store serves.
    ///
    /// # Errors
    /// The folder cannot be used: another process has it, or it is damaged.
    pub fn start(folder: &Path) -> Result<EmbeddedStore, CommandFailure> {
        EmbeddedStore::start_with(&EmbeddedOptions::small(folder))
    }

    /// Starts a store. Returns when the store serves.
    ///
    /// # Errors
    /// The folder cannot be used: another process has it, or it is damaged.
    pub fn start_with(wanted: &EmbeddedOptions) -> Result<EmbeddedStore, CommandFailure> {
        let (ready, is_ready) = mpsc::channel();
        let report = move |report| ready.send(report).map_err(|unheard| unheard.0);
        let store = EmbeddedStore::spawn(wanted, report)?;
        let ended = is_ready
            .recv()
            .expect("it reports something before it ends");
        ended.map_err(CommandFailure::at(starting(wanted)))?;
        Ok(store)
    }

    /// Starts the threads of a store. Returns before the store serves.
    ///
    /// # Errors
    /// As [`EmbeddedStore::start_with`].
    pub fn begin(wanted: &EmbeddedOptions) -> Result<(EmbeddedStore, StoreStart), CommandFailure> {
        let (ready, reports) = unbounded_channel();
        let report = move |report| ready.send(report).map_err(|SendError(unheard)| unheard);
        let store = EmbeddedStore::spawn(wanted, report)?;
        let what = starting(wanted);
        Ok((store, StoreStart { reports, what }))
    }

    /// Starts the threads of a store. `report` gets word once the server serves, or the error with
    /// which it has ended before, and returns what has no reader any more.
    fn spawn(
        wanted: &EmbeddedOptions,
        report: impl Fn(Result<(), ServerError>) -> Result<(), Result<(), ServerError>> + Send + 'static,
    ) -> Result<EmbeddedStore, CommandFailure> {
        let folder = &wanted.folder;
        let what = || starting(wanted);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(CommandFailure::at(what()))?;
        let (has_ended, ended) = unbounded_channel();
        let joined = wanted.cluster.as_ref();
        let joined = joined.and_then(|place| place.coordinator.clone());
        let mut threads = Vec::new();
        let (coordinator, stop_coordinator) = match joined {
            Some(coordinator) => (coordinator, None),
            None => {
                let process = CoordinatorProcess::bind(&coordinator_options(wanted));
                let process = process.map_err(CommandFailure::at(what()))?;
                let (address, stop) = (process.address(), process.handle());
                let has_ended = has_ended.clone();
                let run = move || {
                    report_end("coordinator", process.run());
                    // The store may be stopping.
                    let _ = has_ended.send("coordinator");
                };
                let thread = Builder::new().name("coordinator".into()).spawn(run);
                threads.push(thread.map_err(CommandFailure::at(what()))?);
                (address.to_string(), Some(stop))
            }
        };
        let server = ServerProcess::bind(server_options(wanted, coordinator.clone()));
        let server = server.map_err(CommandFailure::at(what()))?;
        let stop_server = server.stopper();
        let serve = move || {
            let ended = server.run(|_| drop(report(Ok(()))));
            // The waiter has gone.
            if let Err(ended) = report(ended) {
                report_end("server", ended);
            }
            // The store may be stopping.
            let _ = has_ended.send("server");
        };
        let serving = Builder::new().name("server".into()).spawn(serve);
        threads.insert(0, serving.map_err(CommandFailure::at(what()))?);
        Ok(EmbeddedStore {
            coordinator,
            ended: Mutex::new(ended),
            stop_coordinator,
            stop_server,
            threads,
        })
    }

    /// Waits until a part of the store has ended by itself, because it cannot go on. Returns its
    /// name.
    pub async fn ended(&self) -> &'static str {
        let mut ended = self.ended.lock().await;
        ended.recv().await.unwrap_or("store")
    }

    /// Returns the address of the store's coordinator.
    pub fn coordinator(&self) -> &str {
        &self.coordinator
    }
}

impl StoreStart {
    /// Waits until the store serves. A store that joins a cluster waits for its coordinator,
    /// however long that takes.
    ///
    /// # Errors
    /// The store has ended before it served: the coordinator refused it, or the folder is damaged.
    pub async fn wait(mut self) -> Result<(), CommandFailure> {
        let ended = self.reports.recv().await;
        let ended = ended.expect("it reports something before it ends");
        ended.map_err(CommandFailure::at(self.what))
    }
}

/// Prints the error with which a part of the store has ended, because no thread waits for that end.
fn report_end(what: &str, ended: Result<(), ServerError>) {
    if let Err(error) = ended {
        crate::note!("replex: the embedded store's {what} has ended: {error}");
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.stop_server.stop();
        let mut threads = std::mem::take(&mut self.threads).into_iter();
        let join = |thread: JoinHandle<()>| {
            // A thread that panicked has printed the panic.
            let _ = thread.join();
        };
        threads.next().into_iter().for_each(join);
        if let Some(coordinator) = &self.stop_coordinator {
            coordinator.stop();
        }
        threads.for_each(join);
    }
}
