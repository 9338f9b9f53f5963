//! A pool of connections to one server, which sessions share.
//!
//! Invariants
//! - A connection serves sessions with the same user, database and start-up settings only.
//! - An idle connection is in no transaction and has nothing of a session on it.
//! - No more than `connections_max` connections are open to a node. Each connection in use has a
//!   permit. Sessions that wait for a permit get one in the order of their requests.
//! - Where there is a ledger, no connection is used that is not in it.

pub mod connection;
pub mod ledger;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use connection::Connection;
use ledger::ConnectionLedger;
use pg_connect::address::Address;
use pg_wire::report::{Report, Severity};
use pg_wire::startup::StartupPacket;
use proxy_core::freshness::ServerLife;

/// Different settings that are remembered, at most; past this all are forgotten.
const KNOWN_MAX: usize = 1000;

/// How long initial keys of sessions are valid.
const INITIAL_KEY_MAX: Duration = Duration::from_secs(60);

/// How long a session waits for a connection to become free.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// SQLSTATE: too many connections.
const TOO_MANY: &str = "53300";

/// The properties that sessions must have in common to share connections.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionKey {
    /// The user of the login.
    pub user: String,
    /// The database.
    pub database: String,
    /// The settings at the login.
    pub settings: StartSettings,
    /// The settings that sessions have changed since the login. Servers get them after the login,
    /// so that RESET restores the session's initial values. The field is last, so that keys with
    /// the same login are neighbours.
    pub changed: StartSettings,
}

/// Settings by name. Keys from [`KnownSettings::same`] share equal settings, and are compared by
/// address.
#[derive(Clone, Debug, Default)]
pub struct StartSettings(Arc<BTreeMap<String, String>>);

impl StartSettings {
    /// Returns the settings by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the value of a setting.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns whether there are no settings.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, String)> for StartSettings {
    fn from_iter<T: IntoIterator<Item = (String, String)>>(all: T) -> StartSettings {
        StartSettings(Arc::new(all.into_iter().collect()))
    }
}

impl PartialEq for StartSettings {
    fn eq(&self, other: &StartSettings) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for StartSettings {}

impl PartialOrd for StartSettings {
    fn partial_cmp(&self, other: &StartSettings) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for StartSettings {
    fn cmp(&self, other: &StartSettings) -> Ordering {
        match Arc::ptr_eq(&self.0, &other.0) {
            true => Ordering::Equal,
            false => self.0.cmp(&other.0),
        }
    }
}

/// The initial keys of sessions, by the requested keys.
#[derive(Debug, Default)]
pub struct InitialKeys(Mutex<BTreeMap<ConnectionKey, (ConnectionKey, Instant)>>);

impl InitialKeys {
    /// Returns the initial key of a session that requested the key `asked`; none if it was not
    /// determined recently. Older results may be outdated, because the settings of roles and
    /// databases can change.
    pub fn of(&self, asked: &ConnectionKey) -> Option<ConnectionKey> {
        let keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (initial, seen) = keys.get(asked)?;
        (seen.elapsed() < INITIAL_KEY_MAX).then(|| initial.clone())
    }

    /// Records the initial key of a session that has just started.
    pub fn note(&self, asked: ConnectionKey, initial: ConnectionKey) {
        let mut keys = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= KNOWN_MAX {
            keys.clear();
        }
        keys.insert(asked, (initial, Instant::now()));
    }
}

/// The settings of all sessions, each stored once.
#[derive(Debug, Default)]
pub struct KnownSettings(Mutex<BTreeSet<StartSettings>>);

impl KnownSettings {
    /// Returns an equal key that shares its settings with other sessions.
    #[must_use]
    pub fn same(&self, mut key: ConnectionKey) -> ConnectionKey {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for settings in [&mut key.settings, &mut key.changed] {
            match known.get(settings) {
                Some(same) => *settings = same.clone(),
                None => {
                    if known.len() >= KNOWN_MAX {
                        known.clear();
                    }
                    known.insert(settings.clone());
                }
            }
        }
        key
    }
}

impl ConnectionKey {
    /// Returns the key that a client requested when it connected.
    pub fn of(startup: &StartupPacket, user: &str) -> ConnectionKey {
        let database = startup.parameter("database").unwrap_or(user);
        let is_setting =
            |name: &str| !matches!(name, "user" | "database") && !name.starts_with("_pq_.");
        let settings = startup
            .parameters
            .iter()
            .filter(|(name, _)| is_setting(name));
        ConnectionKey {
            user: user.to_string(),
            database: database.to_string(),
            settings: settings.cloned().collect(),
            changed: StartSettings::default(),
        }
    }

    /// Returns the key with further settings.
    #[must_use]
    pub fn with(&self, settings: impl IntoIterator<Item = (String, String)>) -> ConnectionKey {
        let mut all = BTreeMap::clone(&self.settings.0);
        for (name, value) in settings {
            // PostgreSQL's names have no case.
            all.retain(|known, _| !known.eq_ignore_ascii_case(&name));
            all.insert(name, value);
        }
        ConnectionKey {
            settings: StartSettings(Arc::new(all)),
            ..self.clone()
        }
    }

    /// Returns the key of a session that has changed exactly these settings.
    #[must_use]
    pub fn changed_to(&self, changed: StartSettings) -> ConnectionKey {
        ConnectionKey {
            changed,
            ..self.clone()
        }
    }

    /// Returns whether sessions of both keys log in in the same way.
    fn logs_in_as(&self, other: &ConnectionKey) -> bool {
        (&self.user, &self.database, &self.settings)
            == (&other.user, &other.database, &other.settings)
    }

    /// Returns this key with another database.
    pub fn of_database<'a>(&'a self, database: &str) -> Cow<'a, ConnectionKey> {
        if self.database == database {
            return Cow::Borrowed(self);
        }
        Cow::Owned(ConnectionKey {
            database: database.to_owned(),
            ..self.clone()
        })
    }

    /// Returns the parameters of a server's start-up packet.
    fn startup(&self) -> impl Iterator<Item = (&str, &str)> {
        let identity = [
            ("user", self.user.as_str()),
            ("database", self.database.as_str()),
        ];
        identity.into_iter().chain(self.settings.iter())
    }
}

/// The login of a key's sessions at servers.
#[derive(Clone, Default)]
pub struct ServerLogin {
    /// The password, if it is known.
    pub password: Option<String>,
}

/// One server: the primary or a replica.
pub struct ServerNode {
    /// The server's address.
    pub address: Address,
    permits: Arc<Semaphore>,
    connections_max: usize,
    /// Where its connections are written down.
    ledger: Option<ConnectionLedger>,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    /// Idle connections, the last used last.
    #[expect(
        clippy::vec_box,
        reason = "they go from hand to hand, a pointer each time"
    )]
    idle: BTreeMap<ConnectionKey, Vec<Box<Connection>>>,
    /// All connections that are open or being opened.
    count: usize,
}

impl ServerNode {
    /// Returns a server without connections.
    pub fn new(address: Address, connections_max: usize) -> ServerNode {
        ServerNode {
            address,
            permits: Arc::new(Semaphore::new(connections_max)),
            connections_max,
            ledger: None,
            open: Mutex::new(OpenConnections::default()),
        }
    }

    /// Returns the server with a ledger, which records each connection before its use.
    #[must_use]
    pub fn with_ledger(mut self, ledger: ConnectionLedger) -> ServerNode {
        self.ledger = Some(ledger);
        self
    }

    fn open(&self) -> std::sync::MutexGuard<'_, OpenConnections> {
        // Nothing between lock and unlock leaves it half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection with this key: an idle one or a new one. The error is for the client.
    pub async fn take(
        &self,
        key: &ConnectionKey,
        login: &ServerLogin,
    ) -> Result<Box<Connection>, Report> {
        self.take_passing(key, login, async |_| Ok(())).await
    }

    /// Returns a connection with this key, for a read at a replica whose state is known for this
    /// life. If a new connection reaches another life, it is refused: the server has crashed, and
    /// may have lost commits that the read must see. An idle connection is of the same life,
    /// because a crash closes it.
    pub async fn take_for_read(
        &self,
        key: &ConnectionKey,
        login: &ServerLogin,
        life: ServerLife,
    ) -> Result<Box<Connection>, Report> {
        self.take_passing(key, login, async |connection| {
            if let Some(socket) = connection.peer.network() {
                // Only a hint to the system.
                let _ = pg_connect::silence::WITH_SERVERS.bound_sent(socket);
            }
            connection.is_in(life).await
        })
        .await
    }

    /// Returns a connection of this key: an idle one, or a new one that passes `check`.
    async fn take_passing(
        &self,
        key: &ConnectionKey,
        login: &ServerLogin,
        passes: impl AsyncFnOnce(&mut Connection) -> Result<(), Report>,
    ) -> Result<Box<Connection>, Report> {
        let permit = self.permit().await?;
        if let Some(mut connection) = self.take_idle(key) {
            connection.permit = Some(permit);
            return Ok(connection);
        }
        if let Some(mut connection) = self.take_with_same_login(key) {
            // It has a place already.
            let counted = CountedConnection(self);
            if connection.change_to(key).await.is_ok() {
                std::mem::forget(counted);
                connection.permit = Some(permit);
                return Ok(connection);
            }
        }
        self.open_with(permit, (key, login), passes).await
    }

    /// Opens and returns a new connection with this key. So the server has checked the login just
    /// now.
    pub async fn open_new(
        &self,
        key: &ConnectionKey,
        login: &ServerLogin,
    ) -> Result<Box<Connection>, Report> {
        let permit = self.permit().await?;
        self.open_with(permit, (key, login), async |_| Ok(())).await
    }

    async fn open_with(
        &self,
        permit: OwnedSemaphorePermit,
        (key, login): (&ConnectionKey, &ServerLogin),
        passes: impl AsyncFnOnce(&mut Connection) -> Result<(), Report>,
    ) -> Result<Box<Connection>, Report> {
        let counted = CountedConnection::new(self);
        let mut connection = Box::new(Connection::open(&self.address, key, login).await?);
        if let Some(ledger) = &self.ledger {
            ledger.write(connection.cancel_key.process).await?;
        }
        passes(&mut connection).await?;
        if !key.changed.is_empty() {
            connection.change_to(key).await?;
        }
        std::mem::forget(counted);
        connection.permit = Some(permit);
        Ok(connection)
    }

    /// Returns the numbers of connections.
    pub fn usage(&self) -> ConnectionUsage {
        let open = self.open();
        ConnectionUsage {
            open: open.count,
            in_use: self.connections_max - self.permits.available_permits(),
            idle: open.idle.values().map(Vec::len).sum(),
            max: self.connections_max,
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Report> {
        let permits = Arc::clone(&self.permits);
        if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            return Ok(permit);
        }
        let permit = tokio::time::timeout(WAIT_MAX, permits.acquire_owned()).await;
        let permit = permit.map_err(|_| {
            let (seconds, max) = (WAIT_MAX.as_secs(), self.connections_max);
            let text = format!(
                "no connection to {} became free in {seconds} s",
                self.address
            );
            Report::new(Severity::Error, TOO_MANY, text).hint(format!(
                "All {max} are in use by sessions: see --connections."
            ))
        })?;
        Ok(permit.expect("the semaphore is never closed"))
    }

    /// Returns the idle connection of a key that was used last and still lives.
    fn take_idle(&self, key: &ConnectionKey) -> Option<Box<Connection>> {
        loop {
            let mut connection = self.open().idle.get_mut(key)?.pop()?;
            if is_alive(&mut connection) {
                return Some(connection);
            }
            self.open().count -= 1;
        }
    }

    /// Returns an idle connection that has logged in as this key does, if it can be spared: it has
    /// other settings since. A single one is left to its own sessions, but for new logins: else
    /// each of them would open another.
    fn take_with_same_login(&self, key: &ConnectionKey) -> Option<Box<Connection>> {
        loop {
            let mut open = self.open();
            let has_room = open.count < self.connections_max;
            let first = key.changed_to(StartSettings::default());
            let alike = open.idle.range_mut(first..);
            let alike = alike.take_while(|(other, _)| key.logs_in_as(other));
            let (mut count, mut longest) = (0, None);
            for (_, idle) in alike {
                count += idle.len();
                longest = longest.or((!idle.is_empty()).then_some(idle));
            }
            if count < 2 && has_room && !key.changed.is_empty() {
                return None;
            }
            let mut connection = longest?.remove(0);
            drop(open);
            if is_alive(&mut connection) {
                return Some(connection);
            }
            self.open().count -= 1;
        }
    }

    /// Returns a connection to the pool. It must be in no transaction, and have no state of a
    /// session.
    pub fn give_back(&self, mut connection: Box<Connection>) {
        let permit = connection.permit.take();
        let mut open = self.open();
        match open.idle.get_mut(&connection.key) {
            Some(idle) => idle.push(connection),
            None => {
                // Sessions may come to have ever other settings.
                open.idle.retain(|_, idle| !idle.is_empty());
                let key = connection.key.clone();
                open.idle.insert(key, vec![connection]);
            }
        }
        drop(open);
        // Only now: the next holder of the permit finds the connection.
        drop(permit);
    }

    /// Closes the idle connections of a user, who may have been dropped and created again since
    /// they were opened.
    pub fn close_idle_of(&self, user: &str) {
        let mut open = self.open();
        let mut closed = Vec::new();
        for (_, idle) in open.idle.iter_mut().filter(|(key, _)| key.user == user) {
            closed.append(idle);
        }
        open.count -= closed.len();
    }

    /// Closes a connection that cannot be used again.
    pub fn close(&self, mut connection: Box<Connection>) {
        let permit = connection.permit.take();
        drop(connection);
        self.open().count -= 1;
        drop(permit);
    }

    /// Resets a connection and returns it to the pool. Closes it if that fails.
    pub async fn recycle(&self, mut connection: Box<Connection>, is_in_transaction: bool) {
        match connection.reset(is_in_transaction).await {
            Ok(()) => self.give_back(connection),
            Err(_) => self.close(connection),
        }
    }
}

/// The numbers of a server's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionUsage {
    /// Connections that are open or being opened.
    pub open: usize,
    /// Connections that sessions use, or wait for while they are opened.
    pub in_use: usize,
    /// Idle connections.
    pub idle: usize,
    /// The most connections.
    pub max: usize,
}

/// A place among the open connections; given up unless it is forgotten.
struct CountedConnection<'a>(&'a ServerNode);

impl CountedConnection<'_> {
    /// Closes an idle connection of another key if there is no place: the caller has a permit, so
    /// that not all open ones can be in use.
    fn new(node: &ServerNode) -> CountedConnection<'_> {
        let mut open = node.open();
        if open.count >= node.connections_max {
            let mut idle = open.idle.values_mut();
            let evicted = idle
                .find_map(|connections| (!connections.is_empty()).then(|| connections.remove(0)));
            assert!(evicted.is_some(), "more connections than permits");
            open.count -= 1;
        }
        open.count += 1;
        drop(open);
        CountedConnection(node)
    }
}

impl Drop for CountedConnection<'_> {
    fn drop(&mut self) {
        self.0.open().count -= 1;
    }
}

/// Returns whether an idle connection has stayed open. It reads the messages that the server has
/// sent meanwhile, as the server may have announced its end before it closed the connection.
fn is_alive(connection: &mut Connection) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match connection.peer.poll_read(&mut context) {
            Poll::Pending => return connection.take_in(),
            Poll::Ready(Ok(count)) if count > 0 => {
                if !connection.take_in() {
                    return false;
                }
            }
            Poll::Ready(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_settings_have_no_case() {
        let setting = |name: &str, value: &str| (name.to_string(), value.to_string());
        let asked = [setting("datestyle", "German"), setting("a.b", "c")];
        let key = ConnectionKey {
            user: "ann".into(),
            database: "app".into(),
            settings: asked.into_iter().collect(),
            changed: StartSettings::default(),
        };
        let key = key.with([
            setting("DateStyle", "German, DMY"),
            setting("TimeZone", "UTC"),
        ]);
        let found: Vec<_> = key.settings.iter().collect();
        assert_eq!(
            found,
            [
                ("DateStyle", "German, DMY"),
                ("TimeZone", "UTC"),
                ("a.b", "c")
            ]
        );
    }
}
