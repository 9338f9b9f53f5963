//! How a client connects and how patient it is.

use std::time::Duration;

use protocol::session::Limits;

/// How to connect. `ConnectOptions::new` gives what suits most.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `address:port` of each coordinator; all are tried, one after the other.
    pub coordinators: Vec<String>,
    /// How long a request may take unless it says otherwise, and connecting too.
    pub deadline: Duration,
    /// How long one attempt to open a connection may take.
    pub connect_timeout: Duration,
    /// A connection whose sent bytes nobody acknowledges for so long is broken.
    pub silence: Duration,
    /// Limits of queues and windows.
    pub limits: Limits,
}

impl ConnectOptions {
    /// The coordinators' addresses, and defaults for the rest: 10 s for requests, 2 s for
    /// connections.
    pub fn new<A: Into<String>>(coordinators: impl IntoIterator<Item = A>) -> ConnectOptions {
        ConnectOptions {
            coordinators: coordinators.into_iter().map(Into::into).collect(),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            silence: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }

    /// Another deadline for requests.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> ConnectOptions {
        self.deadline = deadline;
        self
    }
}
