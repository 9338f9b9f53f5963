//! How a client connects, and its deadlines and limits.

use std::time::Duration;

use session::SessionLimits;

/// How to connect. `ConnectOptions::new` has defaults that suit most.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `address:port` of each coordinator; all are tried, one after the other.
    pub coordinators: Vec<String>,
    /// How long a request may take unless it has its own limit, and connecting too.
    pub deadline: Duration,
    /// How long one attempt to open a connection may take.
    pub connect_timeout: Duration,
    /// A connection whose sent bytes are not acknowledged for so long counts as broken.
    pub silence: Duration,
    /// How many requests may be open at a time; one more ends with `Error::Full`.
    pub requests_max: usize,
    /// After this, an attempt without an answer is repeated; the pause doubles up to eight times.
    pub attempt: Duration,
}

impl ConnectOptions {
    /// Returns the coordinators' addresses, and defaults for the rest: 10 s for requests, 2 s for
    /// connections.
    pub fn new<A: Into<String>>(coordinators: impl IntoIterator<Item = A>) -> ConnectOptions {
        let limits = SessionLimits::default();
        ConnectOptions {
            coordinators: coordinators.into_iter().map(Into::into).collect(),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            silence: Duration::from_secs(10),
            requests_max: limits.requests_max,
            attempt: Duration::from_micros(limits.attempt_us),
        }
    }

    /// Sets the deadline for requests.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> ConnectOptions {
        self.deadline = deadline;
        self
    }

    /// Returns the limits of the session machine.
    pub(crate) fn limits(&self) -> SessionLimits {
        SessionLimits {
            requests_max: self.requests_max,
            attempt_us: u64::try_from(self.attempt.as_micros()).unwrap_or(u64::MAX >> 8),
            ..SessionLimits::default()
        }
    }
}
