//! The values that all connections of a server share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use pg_auth::admission::ClientAdmission;
use pg_wire::report::Report;
use tokio::sync::{Semaphore, watch};

use crate::audit::RoleJournal;
use crate::cancel::SessionCancels;
use crate::catalogue::SharedCatalogue;

/// The end of a login, for the operator's log.
#[derive(Debug)]
pub struct LoginNote<'a> {
    /// The user that the client names.
    pub user: &'a str,
    /// The client's address.
    pub from: IpAddr,
    /// How the login ended.
    pub outcome: LoginOutcome<'a>,
}

/// How a login ended.
#[derive(Clone, Copy, Debug)]
pub enum LoginOutcome<'a> {
    /// The client knows the password.
    ByPassword,
    /// The client has a certificate with the user's name.
    ByCertificate,
    /// The client has got this error.
    Refused(&'a Report),
}

/// Writes a line to the operator's log.
pub type LoginJournal = fn(&LoginNote<'_>);

/// Where a server notes logins and changes of roles.
#[derive(Clone, Copy, Debug)]
pub struct ServerJournal {
    /// Notes the end of each login.
    pub login: LoginJournal,
    /// Notes changes of roles and privileges.
    pub roles: RoleJournal,
}

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
    /// The rules for logins. A change applies to later clients.
    pub admission: watch::Receiver<Arc<ClientAdmission>>,
    /// Where logins and changes of roles are noted.
    pub journal: ServerJournal,
    /// The version of this program.
    pub release: String,
    /// The sessions that run, for requests to cancel their statements.
    pub cancels: SessionCancels,
    /// The catalogue of the store's tables.
    pub catalogue: Arc<SharedCatalogue>,
    /// One permit for each client that may log in.
    pub places: Arc<Semaphore>,
}
