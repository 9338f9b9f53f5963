//! The initial state of a session on every server: its login, its settings, and how its statements
//! are parsed.

use std::io;
use std::time::Duration;

use pg_wire::settings;
use proxy_pool::{Connection, ConnectionKey, KnownSettings, StartSettings};

/// The settings by which servers parse a session's statements.
#[derive(Clone, Debug, Default)]
pub struct ParseContext {
    /// The schemas in which names are looked up.
    pub search_path: Vec<String>,
    /// Whether the texts are UTF-8, as row images are.
    pub is_utf8: bool,
    /// Whether a backslash is an escape in every literal, because `standard_conforming_strings` is
    /// off.
    pub has_escapes: bool,
    /// Whether the session has changed the meaning of its texts, other than by the schemas in which
    /// names are looked up.
    pub is_changed: bool,
}

/// The isolation of transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IsolationLevel {
    /// Each statement sees the transactions that were committed when it began.
    #[default]
    ReadCommitted,
    /// All statements see the transactions that were committed when the first statement began.
    RepeatableRead,
    /// The transactions have the effect of some serial order. Their reads count as well.
    Serializable,
}

impl IsolationLevel {
    /// Returns the isolation level that a PostgreSQL setting names.
    fn of(setting: &str) -> IsolationLevel {
        match setting {
            "read committed" | "read uncommitted" => IsolationLevel::ReadCommitted,
            "repeatable read" => IsolationLevel::RepeatableRead,
            _ => IsolationLevel::Serializable,
        }
    }
}

/// The initial settings of a session, which are the same on every server.
#[derive(Clone)]
pub struct ServerSettings {
    /// User, database and settings.
    pub key: ConnectionKey,
    /// The key of the session's connections to replicas, where a write fails.
    pub reads: ConnectionKey,
    /// The settings by which servers parse the session's statements.
    pub reading: ParseContext,
    /// The default isolation level of the session's transactions.
    pub isolation: IsolationLevel,
    /// The longest time for which the client may leave a transaction idle; none is no limit.
    pub idle_max: Option<Duration>,
}

/// PostgreSQL's setting for [`ServerSettings::idle_max`].
const IDLE_TIMEOUT: &str = "idle_in_transaction_session_timeout";

/// Returns the time that a setting gives in milliseconds; none if the setting is 0 or no number.
fn milliseconds(setting: &str) -> Option<Duration> {
    let milliseconds = setting.parse().ok().filter(|it| *it > 0);
    milliseconds.map(Duration::from_millis)
}

impl ServerSettings {
    /// Returns settings with this key and no others.
    pub fn of(key: ConnectionKey) -> ServerSettings {
        ServerSettings {
            reads: key.clone(),
            key,
            reading: ParseContext::default(),
            isolation: IsolationLevel::default(),
            idle_max: None,
        }
    }

    /// Returns the settings of a session that started with these and has changed some.
    pub fn changed_to(&self, changed: StartSettings, known: &KnownSettings) -> ServerSettings {
        let mut reading = self.reading.clone();
        if let Some(path) = changed.value("search_path") {
            reading.search_path = pg_analysis::search_path(path, &self.key.user);
        }
        if let Some(encoding) = changed.value("client_encoding") {
            reading.is_utf8 = encoding == "UTF8";
        }
        if let Some(setting) = changed.value("standard_conforming_strings") {
            reading.has_escapes = setting != "on";
        }
        reading.is_changed = changed.iter().any(|(name, _)| settings::is_of_texts(name));
        let isolation = changed.value("default_transaction_isolation");
        let idle_max = changed.value(IDLE_TIMEOUT);
        ServerSettings {
            idle_max: idle_max.map_or(self.idle_max, milliseconds),
            reading,
            isolation: isolation.map_or(self.isolation, IsolationLevel::of),
            reads: known.same(self.reads.changed_to(changed.clone())),
            key: known.same(self.key.changed_to(changed)),
        }
    }
}

/// The settings that determine which rows a statement returns and in which format. The session's
/// values apply at a replica, never the replica's own.
///
/// The query also returns whether the role could begin this session now. An idle connection may be
/// older than the loss of this right, or than the dropping of the role.
const SETTINGS_QUERY: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = session_user \
      AND rolcanlogin AND coalesce(rolvaliduntil > pg_catalog.now(), true)) \
    AND pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CONNECT'), \
    current_setting('search_path'), \
    current_setting('default_transaction_isolation'), current_setting('TimeZone'), \
    current_setting('DateStyle'), current_setting('IntervalStyle'), \
    current_setting('client_encoding'), current_setting('extra_float_digits'), \
    current_setting('bytea_output'), current_setting('lc_monetary'), \
    current_setting('lc_numeric'), current_setting('lc_time'), current_setting('xmloption'), \
    current_setting('default_text_search_config'), current_setting('standard_conforming_strings'), \
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'idle_in_transaction_session_timeout')";
const SETTING_NAMES: [&str; 14] = [
    "search_path",
    "default_transaction_isolation",
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "client_encoding",
    "extra_float_digits",
    "bytea_output",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "xmloption",
    "default_text_search_config",
    "standard_conforming_strings",
];

/// The settings of a connection before any statement changes them.
pub struct InitialReading {
    /// The initial settings of a session.
    pub server_settings: ServerSettings,
    /// Whether the session's role may log in now.
    pub may_log_in: bool,
}

/// Reads the initial settings of a session, from a connection without changes.
pub async fn read_server_settings(
    connection: &mut Connection,
    known: &KnownSettings,
) -> io::Result<InitialReading> {
    let mut values = connection.row(SETTINGS_QUERY).await?;
    if values.is_empty() {
        return Err(io::Error::other("the server reports no settings"));
    }
    let may_log_in = values.remove(0) == "t";
    let [search_path, isolation, _, _, _, encoding, .., strings, idle] = &values[..] else {
        return Err(io::Error::other("the server reports no settings"));
    };
    let key = &connection.key;
    let names = SETTING_NAMES.map(str::to_string);
    let key = known.same(key.with(names.into_iter().zip(values.iter().cloned())));
    let read_only = ("default_transaction_read_only".into(), "on".into());
    let server_settings = ServerSettings {
        reading: ParseContext {
            search_path: pg_analysis::search_path(search_path, &key.user),
            is_utf8: encoding == "UTF8",
            has_escapes: strings != "on",
            is_changed: false,
        },
        isolation: IsolationLevel::of(isolation),
        idle_max: milliseconds(idle),
        reads: known.same(key.with([read_only])),
        key,
    };
    Ok(InitialReading {
        server_settings,
        may_log_in,
    })
}
