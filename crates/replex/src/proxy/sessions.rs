//! The threads that serve sessions. Replication has its own threads, so that neither delays the
//! other. The threads of sessions only wait for messages, so no timer has to be set for each wait.

use std::future::pending;
use std::io;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use proxy::serve::Proxy;
use proxy::serve::listener::Listener;
use proxy::serve::spinning::spin;
use replex::failure::CommandFailure;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinError;

/// Threads, which end together with their tasks when this is dropped.
pub struct Sessions {
    handle: Handle,
    /// None once they are to end.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sessions {
    /// Starts `threads` threads. A single thread polls for messages for the time `spins` before it
    /// sleeps.
    pub fn start(threads: u16, spins: Duration) -> Result<Sessions, CommandFailure> {
        let runtime = super::runtime(Some(threads))?;
        let handle = runtime.handle().clone();
        if !spins.is_zero() {
            if threads > 1 {
                let text =
                    "--spin-us needs --threads 1: it is for the one thread that serves sessions";
                return Err(CommandFailure::Usage(text.into()));
            }
            handle.spawn(spin(spins));
        }
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("sessions".into());
        let thread = thread.spawn(move || {
            // The sender is gone: it is the same.
            let _ = runtime.block_on(stopped);
        });
        Ok(Sessions {
            handle,
            stop: Some(stop),
            thread: Some(thread.map_err(CommandFailure::at("start a thread"))?),
        })
    }

    /// Serves clients there, until the threads end.
    pub async fn serve(
        &self,
        proxy: &Arc<Proxy>,
        listener: impl Into<Listener> + Send + 'static,
    ) -> io::Result<()> {
        let proxy = Arc::clone(proxy);
        let serving = async move { proxy.serve(listener).await };
        let served = self.handle.spawn(serving).await;
        match served.map_err(JoinError::try_into_panic) {
            Ok(served) => served,
            Err(Ok(panic)) => resume_unwind(panic),
            // The threads end, and the caller with them.
            Err(Err(_)) => pending().await,
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its own panic has been reported.
            let _ = thread.join();
        }
    }
}
