//! The values that all connections of a server share.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::cancel::SessionCancels;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// The most clients at a time.
    pub connections: usize,
    /// The time within which a client must have sent its StartupMessage.
    pub login: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            connections: 10_000,
            login: Duration::from_secs(60),
        }
    }
}

/// The store and the sessions of a server.
#[derive(Debug)]
pub struct ServerContext<S> {
    /// The store, of which each session has a clone.
    pub store: S,
    /// The limits.
    pub limits: ServerLimits,
    /// The version of this program.
    pub release: String,
    /// The sessions that run, for requests to cancel their statements.
    pub cancels: SessionCancels,
    /// One permit for each client that may log in.
    pub places: Arc<Semaphore>,
}
