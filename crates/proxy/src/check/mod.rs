//! Checks the requirements on databases before a proxy is put in front of them, and names the
//! remedies.
//!
//! It changes nothing in the databases.

mod primary;
mod replica;

use std::collections::BTreeMap;
use std::fmt::Display;

use tokio_postgres::Client;

use pg_connect::address::Address;
use replication::leadership::register::{self, RegisteredReplica};
use replication::{ReplicationError, connect, query};

/// The oldest PostgreSQL that is understood: its slots give the proxy's messages.
const VERSION_MIN: u64 = 14;
/// Connections that replication has to each database, besides those of sessions.
const OWN_CONNECTIONS: u64 = 10;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingWeight {
    /// The checked object is as required.
    Fine,
    /// The proxy works, but the operator should know of it.
    Mind,
    /// It would stop the proxy, or prevent this replica.
    Stops,
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckFinding {
    /// The checked object.
    pub place: String,
    /// The finding's severity.
    pub weight: FindingWeight,
    /// The finding, in words.
    pub what: String,
    /// The remedy; empty if none is needed.
    pub fix: String,
}

/// Checks a primary, databases that will be replicas, and the replicas that were added in the
/// console. `connections` is the number of connections for sessions to each server.
pub async fn check(primary: &Address, replicas: &[Address], connections: u64) -> Vec<CheckFinding> {
    let mut report = DatabaseFindings::at(format!("primary at {primary}"), connections);
    let client = report.connect(primary).await;
    let mut findings = Vec::new();
    if let Some(client) = &client {
        let looked = primary::look(&mut report, primary, client).await;
        report.finish(looked);
    }
    let added = match &client {
        Some(_) => added(&mut report, primary, replicas).await,
        None => Vec::new(),
    };
    findings.append(&mut report.findings);
    for address in replicas.iter().chain(&added) {
        let mut report = DatabaseFindings::at(format!("replica at {address}"), connections);
        if let Some(there) = report.connect(address).await {
            let looked = replica::look(&mut report, client.as_ref(), &there).await;
            report.finish(looked);
        }
        findings.append(&mut report.findings);
    }
    findings
}

/// Returns the replicas that the console has added and no option names.
async fn added(
    report: &mut DatabaseFindings,
    primary: &Address,
    named: &[Address],
) -> Vec<Address> {
    let registered = match register::read(primary).await {
        Ok(registered) => registered,
        Err(problem) => {
            report.finish(Err(problem));
            return Vec::new();
        }
    };
    let mut added = Vec::new();
    for RegisteredReplica { place, url } in registered {
        match Address::parse(&url) {
            Ok(address) if named.iter().all(|it| it.place() != address.place()) => {
                report.fine(format!("the console has added the replica at {place}"));
                added.push(address);
            }
            Ok(_) => {}
            Err(problem) => report.mind(
                format!("the console has added the replica at {place}, which cannot be followed from here: {problem}"),
                "Put the files that its URL names on this machine, too, or REMOVE REPLICA and add it again.",
            ),
        }
    }
    added
}

/// The findings at one database.
struct DatabaseFindings {
    place: String,
    connections: u64,
    findings: Vec<CheckFinding>,
}

impl DatabaseFindings {
    fn at(place: String, connections: u64) -> DatabaseFindings {
        DatabaseFindings {
            place,
            connections,
            findings: Vec::new(),
        }
    }

    fn note(&mut self, weight: FindingWeight, what: impl Display, fix: impl Display) {
        self.findings.push(CheckFinding {
            place: self.place.clone(),
            weight,
            what: what.to_string(),
            fix: fix.to_string(),
        });
    }

    fn fine(&mut self, what: impl Display) {
        self.note(FindingWeight::Fine, what, "");
    }

    fn mind(&mut self, what: impl Display, fix: impl Display) {
        self.note(FindingWeight::Mind, what, fix);
    }

    fn stops(&mut self, what: impl Display, fix: impl Display) {
        self.note(FindingWeight::Stops, what, fix);
    }

    /// Notes that checking the rest was not possible.
    fn finish(&mut self, looked: Result<(), ReplicationError>) {
        if let Err(problem) = looked {
            let fix = "See the server's log, and check again.";
            self.stops(format!("it cannot be checked: {problem}"), fix);
        }
    }

    async fn connect(&mut self, address: &Address) -> Option<Client> {
        match connect(address, "replex check").await {
            Ok(client) => Some(client),
            Err(problem) => {
                self.stops(
                    format!("no connection: {problem}"),
                    "Is it running, does listen_addresses let this machine in, does pg_hba.conf let \
                     this user in, are name, password and database right?",
                );
                None
            }
        }
    }

    /// Checks the requirements of every database.
    async fn look_at_server(&mut self, client: &Client) -> Result<(), ReplicationError> {
        let version = major(client).await?;
        match version >= VERSION_MIN {
            true => self.fine(format!("PostgreSQL {version}")),
            false => self.stops(
                format!("PostgreSQL {version}"),
                format!("Upgrade it to {VERSION_MIN} or newer."),
            ),
        }
        let is_superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user";
        let user = query::one(client, "SELECT current_user").await?;
        match query::one(client, is_superuser).await?.as_str() {
            "t" => self.fine(format!("user {user} is a superuser")),
            _ => self.stops(
                format!("user {user} is not a superuser"),
                format!("ALTER ROLE \"{user}\" SUPERUSER, or name another user in the URL."),
            ),
        }
        let (max, needed) = (
            setting(client, "max_connections").await?,
            self.connections + OWN_CONNECTIONS,
        );
        if max < needed {
            self.mind(
                format!("max_connections = {max}, but up to {needed} may be used"),
                format!(
                    "Set max_connections = {needed} and restart it, or give fewer --connections."
                ),
            );
        }
        Ok(())
    }
}

/// Returns a server's major version.
async fn major(client: &Client) -> Result<u64, ReplicationError> {
    Ok(setting(client, "server_version_num").await? / 10_000)
}

/// Returns a setting that is a number.
async fn setting(client: &Client, name: &str) -> Result<u64, ReplicationError> {
    let text = format!("SELECT setting FROM pg_settings WHERE name = '{name}'");
    query::number(&query::one(client, &text).await?)
}

/// Returns the properties that must be equal, or else texts are ordered or stored otherwise.
async fn texts(client: &Client) -> Result<BTreeMap<&'static str, String>, ReplicationError> {
    let mut found = BTreeMap::new();
    for (name, column) in [
        ("encoding", "pg_encoding_to_char(encoding)"),
        ("collation", "datcollate"),
        ("character type", "datctype"),
    ] {
        let text = format!("SELECT {column} FROM pg_database WHERE datname = current_database()");
        found.insert(name, query::one(client, &text).await?);
    }
    Ok(found)
}
