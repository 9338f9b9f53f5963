//! The role of a proxy. A proxy is either a pooler, or one of several proxies that route
//! statements. One of the latter is active, and the others stand by.
//!
//! Invariant: a session has one [`SessionServers`] from its login to its end, and ends with the
//! lease of that.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::Proxy;
use super::routing::Routing;
use pg_connect::address::Address;
use pg_wire::report::{Report, Severity};
use proxy_pool::ServerNode;
use replication::leadership::{ProxyLeadership, register};
use replication::{ExistingData, Replication, ReplicationError, ReplicationSettings, lineage};

/// Wait between two tries to become the active proxy, after the first success.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// SQLSTATE: not now. Clients that know several servers go on to the next.
const CANNOT_CONNECT_NOW: &str = "57P03";
/// SQLSTATE: ended by an operator of the server. Drivers take the connection for broken.
const SHUTDOWN: &str = "57P01";

/// The role of a proxy.
pub enum ProxyRole {
    /// It sends everything to the primary. Any number of such proxies can run.
    Pooler(Arc<ServerNode>),
    /// It stands by. Contains the name of the active proxy, if it is known.
    Standby(Option<String>),
    /// It was active at its last check.
    Active(Arc<Routing>),
}

/// The servers on which a session's statements may run.
#[derive(Clone)]
pub struct SessionServers {
    /// The primary.
    pub primary: Arc<ServerNode>,
    /// The routing; none if there are no replicas.
    pub routing: Option<Arc<Routing>>,
}

/// The status of a proxy, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxyStatus {
    /// It stands by for this proxy.
    Waits(String),
    /// It is active.
    Active,
    /// It was active, and another proxy is now. Its sessions were ended.
    Lost,
    /// It could not become active, for this reason. It tries again.
    Failed(String),
    /// It becomes active without a replica that was added in the console, for this reason.
    Without(String),
}

impl Proxy {
    /// Makes the proxy active whenever no other proxy is, and lets it stand by otherwise. `report`
    /// gets each change.
    ///
    /// Returns the reason why it could not become active, if it could not from the beginning.
    pub async fn compete_for_leadership(
        &self,
        settings: &ReplicationSettings,
        mut report: impl FnMut(ProxyStatus),
    ) -> ReplicationError {
        let mut has_stood = false;
        loop {
            let waits = |name: &str| {
                has_stood = true;
                self.become_role(ProxyRole::Standby(Some(name.into())));
                report(ProxyStatus::Waits(name.into()));
            };
            let begun = match self.acquire_leadership(waits).await {
                Ok(leadership) => self.begin(settings, leadership).await,
                Err(problem) => Err(problem),
            };
            match begun {
                Ok((routing, problems)) => {
                    has_stood = true;
                    problems
                        .into_iter()
                        .map(ProxyStatus::Without)
                        .for_each(&mut report);
                    self.become_role(ProxyRole::Active(Arc::clone(&routing)));
                    report(ProxyStatus::Active);
                    routing.lease.ended().await;
                    self.become_role(ProxyRole::Standby(None));
                    routing.replicas.replication().give_up().await;
                    report(ProxyStatus::Lost);
                }
                // An operator can fix any such fault, and need not start the proxy again.
                Err(problem) if has_stood => {
                    report(ProxyStatus::Failed(problem.to_string()));
                    tokio::time::sleep(RETRY_WAIT).await;
                }
                Err(problem) => return problem,
            }
        }
    }

    async fn acquire_leadership(
        &self,
        waits: impl FnMut(&str),
    ) -> Result<ProxyLeadership, ReplicationError> {
        let primary = &self.options.primary;
        let mut named = self.named.lock().await.clone();
        // Without the primary nothing comes of it below.
        let registered = register::read(primary).await.unwrap_or_default();
        // Invalid URLs are reported when they are to be added.
        let parsed = registered.iter().map(|it| Address::parse(&it.url));
        named.extend(parsed.flatten());
        lineage::refuse_replaced(primary, &named).await?;
        Replication::acquire_leadership(primary, waits).await
    }

    /// Becomes the active one. Returns also which replicas could not be added.
    async fn begin(
        &self,
        settings: &ReplicationSettings,
        leadership: ProxyLeadership,
    ) -> Result<(Arc<Routing>, Vec<String>), ReplicationError> {
        let (primary, connections_max) = (&self.options.primary, self.options.connections_max);
        // A reload waits until the replicas are there that are named now.
        let named = self.named.lock().await;
        let routing = Routing::begin(primary, connections_max, settings, leadership).await?;
        for address in &*named {
            routing.replicas.add(address, ExistingData::Kept)?;
        }
        // No other proxy can write there any more.
        let registered = register::read(primary).await?;
        let problems = routing.replicas.take_up(registered);
        routing.replicas.replication().knows_all();
        Ok((Arc::new(routing), problems))
    }

    /// Returns whether the options or the file name a replica, as they were last read.
    pub async fn is_named(&self, replica: &Address) -> bool {
        let named = self.named.lock().await;
        named.iter().any(|it| it.place() == replica.place())
    }

    /// Gives up being active, so that another proxy need not wait. Clients get an error.
    pub async fn give_up(&self) {
        if let Some(routing) = self.followed() {
            routing.replicas.replication().give_up().await;
        }
    }

    /// Returns the servers for a new session. The error is for the client.
    pub fn servers(&self) -> Result<SessionServers, Report> {
        let role = self.role.read().unwrap_or_else(PoisonError::into_inner);
        match &*role {
            ProxyRole::Pooler(primary) => {
                return Ok(SessionServers {
                    primary: Arc::clone(primary),
                    routing: None,
                });
            }
            ProxyRole::Active(routing) if !routing.lease.has_ended() => {
                return Ok(SessionServers {
                    primary: Arc::clone(&routing.primary),
                    routing: Some(Arc::clone(routing)),
                });
            }
            ProxyRole::Standby(_) | ProxyRole::Active(_) => drop(role),
        }
        let text = match self.waits_for() {
            Some(name) => format!("this proxy stands by for another one: {name}"),
            None => "this proxy stands by".into(),
        };
        Err(Report::new(Severity::Fatal, CANNOT_CONNECT_NOW, text)
            .hint("Name both proxies in the connection's URL, and it finds the active one."))
    }

    /// Returns the routing, if this proxy is active.
    pub fn followed(&self) -> Option<Arc<Routing>> {
        self.servers().ok()?.routing
    }

    /// Returns the proxy for which this one stands by, if it is known.
    pub fn waits_for(&self) -> Option<String> {
        let role = self.role.read().unwrap_or_else(PoisonError::into_inner);
        match &*role {
            ProxyRole::Standby(waits_for) => waits_for.clone(),
            ProxyRole::Pooler(_) | ProxyRole::Active(_) => None,
        }
    }

    /// Returns whether the proxy uses replicas when it is active.
    pub fn is_router(&self) -> bool {
        let role = self.role.read().unwrap_or_else(PoisonError::into_inner);
        !matches!(*role, ProxyRole::Pooler(_))
    }

    fn become_role(&self, role: ProxyRole) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
    }
}

/// Returns the error that this proxy is no longer active.
pub fn is_lost() -> Report {
    let text = "this proxy is not the active one any more";
    Report::new(Severity::Fatal, SHUTDOWN, text).hint(
        "Connect again, to the other proxy. Whether a COMMIT that was under way took effect is not known.",
    )
}
