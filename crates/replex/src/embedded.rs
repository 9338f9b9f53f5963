//! Runs a store of one server in this process, for commands that need a store and got no address of
//! one.
//!
//! The store listens on loopback only, at free ports, and serves processes of the same user. All of
//! its data is in one folder.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::mpsc;
use std::thread::{Builder, JoinHandle};

use server::event_loop::LoopHandle;
use server::{
    CoordinatorOptions, CoordinatorProcess, ServerError, ServerOptions, ServerProcess, Stopper,
};

use crate::failure::CommandFailure;

/// The memory for the store's tables, in bytes. Colder rows are read from disk.
const MEMORY: usize = 64 << 20;
/// Bytes of the log between two checkpoints, and of a segment of the log.
const CHECKPOINT: u64 = 64 << 20;
const SEGMENT: u64 = 16 << 20;

/// A store that runs until it is dropped.
pub struct EmbeddedStore {
    coordinator: SocketAddr,
    stop_coordinator: LoopHandle,
    stop_server: Stopper,
    /// The server's first, which sends its goodbye to the coordinator.
    threads: Vec<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Starts the store, with its data in this folder, which is created if it is missing. Returns
    /// when the store serves.
    ///
    /// # Errors
    /// The folder cannot be used: another process has it, or it is damaged.
    pub fn start(folder: &Path) -> Result<EmbeddedStore, CommandFailure> {
        let what = || format!("start the store in {}", folder.display());
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(CommandFailure::at(what()))?;
        let mut options = CoordinatorOptions::new(folder.join("coordinator"));
        options.loop_limits.own_user_only = true;
        let process = CoordinatorProcess::bind(&options).map_err(CommandFailure::at(what()))?;
        let (coordinator, stop_coordinator) = (process.address(), process.handle());
        let run = move || report_end("coordinator", process.run());
        let thread = Builder::new().name("coordinator".into()).spawn(run);
        let mut threads = vec![thread.map_err(CommandFailure::at(what()))?];
        let mut options = ServerOptions::new(folder.join("server"), vec![coordinator.to_string()]);
        options.loop_limits.own_user_only = true;
        options.store.memory_bytes = MEMORY;
        options.store.checkpoint_bytes = CHECKPOINT;
        options.store.segment_bytes = SEGMENT;
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
        };
        let serving = Builder::new().name("server".into()).spawn(serve);
        threads.insert(0, serving.map_err(CommandFailure::at(what()))?);
        let store = EmbeddedStore {
            coordinator,
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
