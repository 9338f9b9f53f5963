//! Runs a store of one server in this process: for `replex start`, and for commands that need a
//! store and got no address of one.
//!
//! The store listens on loopback only, at free ports, and serves processes of the same user. All of
//! its data is in one folder.

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
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::failure::CommandFailure;

/// The memory for the store's tables, in bytes. Colder rows are read from disk.
const MEMORY: usize = 64 << 20;
/// Bytes of the log between two checkpoints, and of a segment of the log.
const CHECKPOINT: u64 = 64 << 20;
const SEGMENT: u64 = 16 << 20;

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
}

impl EmbeddedOptions {
    /// Returns the options of a small store beside another service.
    pub fn small(folder: &Path) -> EmbeddedOptions {
        EmbeddedOptions {
            folder: folder.to_owned(),
            memory_bytes: MEMORY,
            cores: 1,
            small_log: Some((CHECKPOINT, SEGMENT)),
        }
    }
}

/// A store that runs until it is dropped.
pub struct EmbeddedStore {
    coordinator: SocketAddr,
    /// Gets the name of each part that has ended by itself.
    ended: Mutex<UnboundedReceiver<&'static str>>,
    stop_coordinator: LoopHandle,
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
        let folder = &wanted.folder;
        let what = || format!("start the store in {}", folder.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(CommandFailure::at(what()))?;
        let mut options = CoordinatorOptions::new(folder.join("coordinator"));
        options.loop_limits.own_user_only = true;
        let process = CoordinatorProcess::bind(&options).map_err(CommandFailure::at(what()))?;
        let (coordinator, stop_coordinator) = (process.address(), process.handle());
        let (has_ended, ended) = unbounded_channel();
        let of_coordinator = has_ended.clone();
        let run = move || {
            report_end("coordinator", process.run());
            // The store may be stopping.
            let _ = of_coordinator.send("coordinator");
        };
        let thread = Builder::new().name("coordinator".into()).spawn(run);
        let mut threads = vec![thread.map_err(CommandFailure::at(what()))?];
        let mut options = ServerOptions::new(folder.join("server"), vec![coordinator.to_string()]);
        options.loop_limits.own_user_only = true;
        options.cores = wanted.cores;
        options.store.memory_bytes = wanted.memory_bytes;
        if let Some((checkpoint, segment)) = wanted.small_log {
            options.store.checkpoint_bytes = checkpoint;
            options.store.segment_bytes = segment;
        }
        let server = ServerProcess::bind(options).map_err(CommandFailure::at(what()))?;
        let stop_server = server.stopper();
        let (ready, is_ready) = mpsc::channel();
        let serve = move || {
            // The waiter has gone if this cannot be sent.
            let failed = ready.clone();
            let ended = server.run(move |_| drop(ready.send(Ok(()))));
            if let Err(mpsc::SendError(ended)) = failed.send(ended) {
                report_end("server", ended);
            }
            // The store may be stopping.
            let _ = has_ended.send("server");
        };
        let serving = Builder::new().name("server".into()).spawn(serve);
        threads.insert(0, serving.map_err(CommandFailure::at(what()))?);
        let store = EmbeddedStore {
            coordinator,
            ended: Mutex::new(ended),
            stop_coordinator,
            stop_server,
            threads,
        };
        let ended = is_ready
            .recv()
            .expect("it reports something before it ends");
        ended.map_err(CommandFailure::at(what()))?;
        Ok(store)
    }

    /// Waits until a part of the store has ended by itself, because it cannot go on. Returns its
    /// name.
    pub async fn ended(&self) -> &'static str {
        let mut ended = self.ended.lock().await;
        ended.recv().await.unwrap_or("store")
    }

    /// Returns the address of the store's coordinator.
    pub fn coordinator(&self) -> SocketAddr {
        self.coordinator
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
        self.stop_coordinator.stop();
        threads.for_each(join);
    }
}
