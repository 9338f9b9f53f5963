//! Options of a client: the addresses that it connects to, its deadlines, and its limits.

use std::time::Duration;

pub use cluster_tls::{CredentialFiles, Credentials};
use session::SessionLimits;

/// Options of a connection to a cluster. [`ConnectOptions::new`] sets defaults that suit most
/// programs.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// `address:port` of each coordinator. The client tries them in turn.
    pub coordinators: Vec<String>,
    /// The time limit for connecting, and for each request without a limit of its own.
    pub deadline: Duration,
    /// The time limit for one attempt to open a connection.
    pub connect_timeout: Duration,
    /// The time after which a connection counts as broken if the other side does not acknowledge
    /// sent bytes.
    pub silence: Duration,
    /// The largest number of open requests. A further request fails with `Error::Full`.
    pub requests_max: usize,
    /// The time after which the client repeats an attempt without an answer. It doubles up to eight
    /// times this value.
    pub attempt: Duration,
    /// The certificates with which the client proves that it belongs to the cluster; none for a
    /// cluster without encryption.
    pub credentials: Option<Credentials>,
}

impl ConnectOptions {
    /// Returns options with the coordinators' addresses and defaults for the rest: 10 s for
    /// requests, 2 s for opening a connection.
    pub fn new<A: Into<String>>(coordinators: impl IntoIterator<Item = A>) -> ConnectOptions {
        let limits = SessionLimits::default();
        ConnectOptions {
            coordinators: coordinators.into_iter().map(Into::into).collect(),
            deadline: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(2),
            silence: Duration::from_secs(10),
            requests_max: limits.requests_max,
            attempt: Duration::from_micros(limits.attempt_us),
            credentials: None,
        }
    }

    /// Sets the deadline for requests.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> ConnectOptions {
        self.deadline = deadline;
        self
    }

    /// Sets the certificates for a cluster with encryption.
    #[must_use]
    pub fn credentials(mut self, credentials: Option<Credentials>) -> ConnectOptions {
        self.credentials = credentials;
        self
    }

    /// Returns the limits of the session machine that follow from these options.
    pub(crate) fn limits(&self) -> SessionLimits {
        SessionLimits {
            requests_max: self.requests_max,
            attempt_us: u64::try_from(self.attempt.as_micros()).unwrap_or(u64::MAX >> 8),
            ..SessionLimits::default()
        }
    }
}
