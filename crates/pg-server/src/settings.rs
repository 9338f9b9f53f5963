//! The settings of a session that PostgreSQL's clients know.
//!
//! A setting is accepted if it has the wanted effect, or if there is nothing in the store that it
//! could affect. Other values are refused with the reason. The store's own settings (`scan`,
//! `scan_rows`, `stale_reads`) belong to crate `sql`.

mod role;

use std::collections::BTreeMap;
use std::time::Duration;

use pg_wire::report::Report;
use placement::TimeZone;
use sql::session_zone;

use crate::errors::{INVALID_PARAMETER, UNDEFINED_OBJECT, error, unsupported};

/// The version of PostgreSQL whose protocol and dialect the server follows.
pub const POSTGRES_VERSION: &str = "15.0";
const POSTGRES_VERSION_NUMBER: &str = "150000";
/// The most settings of an application's own, and their longest value.
const CUSTOM_MAX: usize = 64;
const VALUE_LEN_MAX: usize = 1024;

/// A setting that the server knows.
struct SettingDefinition {
    name: &'static str,
    default: &'static str,
    rule: SettingRule,
}

/// The values that a setting can have.
#[derive(Clone, Copy)]
enum SettingRule {
    /// Any value: nothing depends on it.
    Any,
    /// The default alone, which has these other spellings in lower case.
    Only(&'static [&'static str]),
    /// `on` or `off`, with their other spellings.
    Switch,
    /// One of these, in lower case.
    OneOf(&'static [&'static str]),
    /// UTF-8, or `SQL_ASCII`, which means that the client sends and expects UTF-8 as well.
    Encoding,
    /// A duration; 0 is none.
    Timeout,
    /// A list of schemas. There is one schema.
    SearchPath,
    /// A time zone.
    Zone,
    /// None: the setting cannot be changed.
    Never,
}

use SettingRule::{Any, Encoding, Never, OneOf, Only, SearchPath, Switch, Timeout, Zone};

const LEVELS: &[&str] = &[
    "serializable",
    "repeatable read",
    "read committed",
    "read uncommitted",
];
const SEVERITIES: &[&str] = &[
    "debug5", "debug4", "debug3", "debug2", "debug1", "debug", "log", "info", "notice", "warning",
    "error",
];
const YES: &[&str] = &["true", "yes", "1"];
const NO: &[&str] = &["false", "no", "0"];

const fn setting(
    name: &'static str,
    default: &'static str,
    rule: SettingRule,
) -> SettingDefinition {
    SettingDefinition {
        name,
        default,
        rule,
    }
}

const SETTINGS: &[SettingDefinition] = &[
    setting("application_name", "", Any),
    setting("bytea_output", "hex", Only(&[])),
    setting("check_function_bodies", "on", Any),
    setting("client_encoding", "UTF8", Encoding),
    setting("client_min_messages", "notice", OneOf(SEVERITIES)),
    setting("DateStyle", "ISO, MDY", Only(&["iso"])),
    setting("default_table_access_method", "heap", Only(&[])),
    setting("default_tablespace", "", Only(&[])),
    setting("default_transaction_deferrable", "off", Only(NO)),
    setting(
        "default_transaction_isolation",
        "serializable",
        OneOf(LEVELS),
    ),
    setting("default_transaction_read_only", "off", Switch),
    setting("extra_float_digits", "1", OneOf(&["1", "2", "3"])),
    setting(
        "idle_in_transaction_session_timeout",
        "0",
        Only(&["0ms", "0s"]),
    ),
    setting("idle_session_timeout", "0", Only(&["0ms", "0s"])),
    setting("in_hot_standby", "off", Never),
    setting("integer_datetimes", "on", Never),
    setting("IntervalStyle", "postgres", Only(&[])),
    setting("is_superuser", "on", Never),
    setting("lc_collate", "C", Never),
    setting("lc_ctype", "C", Never),
    setting("lc_messages", "C", Only(&[])),
    setting("lc_monetary", "C", Only(&[])),
    setting("lc_numeric", "C", Only(&[])),
    setting("lc_time", "C", Only(&[])),
    setting("lock_timeout", "0", Only(&["0ms", "0s"])),
    setting("max_identifier_length", "63", Never),
    setting("row_security", "on", Any),
    setting("search_path", "\"$user\", public", SearchPath),
    setting("server_encoding", "UTF8", Never),
    setting("server_version", "", Never),
    setting("server_version_num", POSTGRES_VERSION_NUMBER, Never),
    setting("standard_conforming_strings", "on", Only(YES)),
    setting("statement_timeout", "0", Timeout),
    setting("synchronous_commit", "on", Only(YES)),
    setting("TimeZone", "UTC", Zone),
    setting(
        "transaction_isolation",
        "serializable",
        OneOf(&["serializable"]),
    ),
    setting("xmloption", "content", Any),
];

/// Settings of PostgreSQL's planner and memory, of which the store has neither.
const WITHOUT_EFFECT: &[&str] = &[
    "constraint_exclusion",
    "cpu_index_tuple_cost",
    "cpu_operator_cost",
    "cpu_tuple_cost",
    "cursor_tuple_fraction",
    "default_statistics_target",
    "effective_cache_size",
    "effective_io_concurrency",
    "force_parallel_mode",
    "from_collapse_limit",
    "geqo",
    "geqo_threshold",
    "jit",
    "jit_above_cost",
    "join_collapse_limit",
    "maintenance_work_mem",
    "max_parallel_workers_per_gather",
    "plan_cache_mode",
    "random_page_cost",
    "seq_page_cost",
    "temp_buffers",
    "work_mem",
];
/// Switches of the planner begin so.
const OF_PLANNER: &str = "enable_";

/// The settings that a client is notified of.
pub const REPORTED: &[&str] = &[
    "application_name",
    "client_encoding",
    "DateStyle",
    "default_transaction_read_only",
    "in_hot_standby",
    "integer_datetimes",
    "IntervalStyle",
    "is_superuser",
    "server_encoding",
    "server_version",
    "session_authorization",
    "standard_conforming_strings",
    "TimeZone",
];

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct SessionVariables {
    user: String,
    /// Whether the role of the session may do everything.
    is_superuser: bool,
    server_version: String,
    /// The values that differ from the defaults, by their names in lower case.
    values: BTreeMap<String, String>,
    /// The values with which the session has begun, for `RESET`.
    initial: BTreeMap<String, String>,
    /// Names of settings that have changed, and of which the client is to be notified.
    changed: Vec<&'static str>,
    /// The time zone that the setting `TimeZone` names.
    zone: TimeZone<'static>,
    /// The values to go back to; none if no setting has changed since the transaction began.
    transaction: Option<TransactionValues>,
}

/// The values that a transaction goes back to.
#[derive(Clone, Debug)]
struct TransactionValues {
    /// The values before its first change of a setting.
    before: BTreeMap<String, String>,
    /// The values that stay after its commit: those without `SET LOCAL`.
    kept: BTreeMap<String, String>,
    /// The savepoints since its first change.
    savepoints: Vec<SavedValues>,
}

/// The values at a savepoint.
#[derive(Clone, Debug)]
struct SavedValues {
    savepoint: String,
    values: BTreeMap<String, String>,
    kept: BTreeMap<String, String>,
}

/// How long a change of a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingSpan {
    /// Until the end of the session, if the transaction is not undone.
    Session,
    /// Until the end of the transaction.
    Transaction,
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// By its commit.
    Committed,
    /// It was undone.
    Undone,
}

impl SessionVariables {
    /// Returns the defaults of a user's session. `release` is this program's version.
    pub fn new(user: &str, release: &str) -> SessionVariables {
        SessionVariables {
            user: user.to_owned(),
            is_superuser: true,
            server_version: format!("{POSTGRES_VERSION} (Replex {release})"),
            values: BTreeMap::new(),
            initial: BTreeMap::new(),
            changed: Vec::new(),
            zone: TimeZone::UTC,
            transaction: None,
        }
    }

    /// Makes the present values those with which the session has begun.
    pub fn begin(&mut self) {
        self.initial = self.values.clone();
        self.changed.clear();
        self.transaction = None;
    }

    /// Returns whether transactions that name no mode can only read.
    pub fn is_read_only(&self) -> bool {
        let value = self.values.get("default_transaction_read_only");
        value.is_some_and(|value| value == "on")
    }

    /// Returns a setting's value.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn value(&self, name: &str) -> Result<&str, Report> {
        let name = name.to_ascii_lowercase();
        match &*name {
            "session_authorization" => return Ok(self.session_user()),
            "role" => return Ok(self.role().unwrap_or("none")),
            "is_superuser" if !self.is_superuser => return Ok("off"),
            "server_version" => return Ok(&self.server_version),
            _ => {}
        }
        if let Some(value) = self.values.get(&name) {
            return Ok(value);
        }
        match definition(&name) {
            Some(known) => Ok(known.default),
            None if is_without_effect(&name) => Ok(""),
            None => Err(unknown(&name)),
        }
    }

    /// Returns all settings and their values, by name.
    pub fn all(&self) -> Vec<(String, String)> {
        let known = SETTINGS.iter().map(|it| it.name);
        let mut names: Vec<&str> = known.collect();
        names.extend(
            self.values
                .keys()
                .filter(|it| definition(it).is_none())
                .map(String::as_str),
        );
        names.sort_unstable_by_key(|name| name.to_ascii_lowercase());
        let values = names.into_iter().map(|name| {
            let value = self.value(name).unwrap_or_default();
            (name.to_owned(), value.to_owned())
        });
        values.collect()
    }

    /// Returns the name of a setting as PostgreSQL shows it.
    pub fn shown_name(&self, name: &str) -> String {
        let name = name.to_ascii_lowercase();
        definition(&name).map_or(name, |known| known.name.to_owned())
    }

    /// Sets a setting; none is its default.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have the value.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Report> {
        self.set_for(SettingSpan::Session, name, value)
    }

    /// Sets a setting; none is its default.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have the value.
    pub fn set_for(
        &mut self,
        span: SettingSpan,
        name: &str,
        value: Option<&str>,
    ) -> Result<(), Report> {
        let name = name.to_ascii_lowercase();
        let value = match value {
            Some(value) => Some(self.accepted(&name, value)?),
            None if role::is_of_role(&name) => None,
            None => {
                self.value(&name)?;
                self.initial.get(&name).cloned()
            }
        };
        self.put(span, &name, value);
        Ok(())
    }

    /// Sets a setting to a value that was checked; none is the default.
    fn put(&mut self, span: SettingSpan, name: &str, value: Option<String>) {
        let transaction = self.transaction.get_or_insert_with(|| TransactionValues {
            before: self.values.clone(),
            kept: self.values.clone(),
            savepoints: Vec::new(),
        });
        let kept = match span {
            SettingSpan::Session => Some(&mut transaction.kept),
            SettingSpan::Transaction => None,
        };
        for values in kept.into_iter().chain([&mut self.values]) {
            match &value {
                Some(value) => drop(values.insert(name.to_owned(), value.clone())),
                None => drop(values.remove(name)),
            }
        }
        self.note(name);
    }

    /// Returns a value as the setting keeps it.
    fn accepted(&self, name: &str, value: &str) -> Result<String, Report> {
        if value.len() > VALUE_LEN_MAX {
            let text = format!("a value is longer than {VALUE_LEN_MAX} bytes");
            return Err(error(INVALID_PARAMETER, text));
        }
        Ok(match definition(name) {
            Some(known) => known.accepted(value)?,
            None if is_without_effect(name) => value.to_owned(),
            None if role::is_of_role(name) => {
                let hint = "Write SET ROLE or SET SESSION AUTHORIZATION.";
                return Err(unsupported(format!("the setting {name} by a value"), hint));
            }
            None if name.contains('.') => {
                let custom = self.values.keys().filter(|known| known.contains('.'));
                if custom.count() >= CUSTOM_MAX && !self.values.contains_key(name) {
                    let text = format!("a session has at most {CUSTOM_MAX} settings of its own");
                    return Err(error("53400", text));
                }
                value.to_owned()
            }
            None => return Err(unknown(name)),
        })
    }

    /// Sets all settings as they were when the session has begun, but for the role.
    pub fn reset_all(&mut self) {
        let mut initial = self.initial.clone();
        let roles = self
            .values
            .iter()
            .filter(|(name, _)| role::is_of_role(name));
        initial.extend(roles.map(|(name, value)| (name.clone(), value.clone())));
        let transaction = self.transaction.get_or_insert_with(|| TransactionValues {
            before: self.values.clone(),
            kept: BTreeMap::new(),
            savepoints: Vec::new(),
        });
        transaction.kept = initial.clone();
        self.replace(initial);
    }

    /// Remembers the values at a savepoint.
    pub fn save(&mut self, savepoint: &str) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        transaction.savepoints.push(SavedValues {
            savepoint: savepoint.to_owned(),
            values: self.values.clone(),
            kept: transaction.kept.clone(),
        });
    }

    /// Forgets a savepoint and those after it. Its changes stay.
    pub fn release(&mut self, savepoint: &str) {
        if let Some(transaction) = &mut self.transaction {
            let saved = transaction.savepoints.iter();
            let found = saved.rev().position(|it| it.savepoint == savepoint);
            let left = found.map_or(0, |found| transaction.savepoints.len() - 1 - found);
            transaction.savepoints.truncate(left);
        }
    }

    /// Goes back to the values at a savepoint. A savepoint that is older than the first change has
    /// the values before it.
    pub fn undo_to(&mut self, savepoint: &str) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        let mut saved = transaction.savepoints.iter();
        let values = match saved.rposition(|it| it.savepoint == savepoint) {
            Some(found) => {
                transaction.savepoints.truncate(found + 1);
                let saved = &transaction.savepoints[found];
                transaction.kept = saved.kept.clone();
                saved.values.clone()
            }
            None => {
                transaction.savepoints.clear();
                transaction.kept = transaction.before.clone();
                transaction.before.clone()
            }
        };
        self.replace(values);
    }

    /// Ends a transaction: its local changes, and all if it is undone.
    pub fn end_transaction(&mut self, end: TransactionEnd) {
        if let Some(transaction) = self.transaction.take() {
            self.replace(match end {
                TransactionEnd::Committed => transaction.kept,
                TransactionEnd::Undone => transaction.before,
            });
        }
    }

    /// Replaces all values.
    fn replace(&mut self, values: BTreeMap<String, String>) {
        let before = std::mem::replace(&mut self.values, values);
        let names = before.keys().chain(self.values.keys());
        let names = names.filter(|it| before.get(*it) != self.values.get(*it));
        let changed: Vec<String> = names.cloned().collect();
        changed.iter().for_each(|name| self.note(name));
    }

    /// Returns the time zone.
    pub fn zone(&self) -> TimeZone<'static> {
        self.zone
    }

    /// Returns the settings of which the client is to be notified, and forgets them.
    pub fn take_changed(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.changed)
    }

    /// Returns the longest time that a statement may take; none has no limit.
    pub fn statement_timeout(&self) -> Option<Duration> {
        let value = self.values.get("statement_timeout")?;
        timeout(value).filter(|limit| !limit.is_zero())
    }

    /// Returns whether the client wants notices.
    pub fn wants_notices(&self) -> bool {
        !matches!(
            self.values.get("client_min_messages").map(String::as_str),
            Some("warning" | "error")
        )
    }

    /// Returns whether the client wants warnings.
    pub fn wants_warnings(&self) -> bool {
        self.values.get("client_min_messages").map(String::as_str) != Some("error")
    }

    /// Follows a change of a setting.
    fn note(&mut self, name: &str) {
        if name == "timezone" {
            let named = self.values.get(name).and_then(|it| session_zone(it));
            self.zone = named.unwrap_or(TimeZone::UTC);
        }
        let mut reported = REPORTED.iter();
        let reported = reported.find(|known| known.eq_ignore_ascii_case(name));
        if let Some(name) = reported
            && !self.changed.contains(name)
        {
            self.changed.push(name);
        }
    }
}

impl SettingDefinition {
    /// Returns the value as it is shown, if the setting can have it.
    fn accepted(&self, value: &str) -> Result<String, Report> {
        let lower = value.trim().to_ascii_lowercase();
        let is_default = lower == self.default.to_ascii_lowercase();
        let accepted = match self.rule {
            Any => Some(value.to_owned()),
            Only(spellings) => {
                let is = is_default || spellings.contains(&&*lower);
                is.then(|| self.default.to_owned())
            }
            Switch => {
                let Some(is_on) = switch(&lower) else {
                    let text = format!("parameter \"{}\" requires a Boolean value", self.name);
                    return Err(error(INVALID_PARAMETER, text));
                };
                Some(if is_on { "on" } else { "off" }.to_owned())
            }
            OneOf(values) => values.contains(&&*lower).then_some(lower),
            Encoding => encoding(value).map(str::to_owned),
            Timeout => {
                let Some(limit) = timeout(&lower) else {
                    let text =
                        format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
                    return Err(error(INVALID_PARAMETER, text).hint(
                        "Write a number of milliseconds, or a number with ms, s, min or h.",
                    ));
                };
                Some(shown_timeout(limit))
            }
            SearchPath => is_search_path(value).then(|| value.to_owned()),
            Zone => {
                let Some(zone) = session_zone(value) else {
                    let text =
                        format!("invalid value for parameter \"{}\": \"{value}\"", self.name);
                    return Err(error(INVALID_PARAMETER, text));
                };
                Some(zone.name().to_owned())
            }
            Never => {
                let text = format!("parameter \"{}\" cannot be changed", self.name);
                return Err(error("55P02", text));
            }
        };
        accepted.ok_or_else(|| {
            let hint = match self.rule {
                OneOf(values) => format!("Write one of {}.", values.join(", ")),
                Encoding => "Write and read UTF8.".into(),
                SearchPath => "All tables are in the schema public.".into(),
                _ => format!("It is always \"{}\".", self.default),
            };
            unsupported(
                format!("the value \"{value}\" of parameter \"{}\"", self.name),
                &hint,
            )
        })
    }
}

/// Reads a Boolean value in lower case, which may be shortened as far as it stays unique.
fn switch(value: &str) -> Option<bool> {
    let begins = |word: &str, least: usize| value.len() >= least && word.starts_with(value);
    match value {
        _ if begins("true", 1) || begins("yes", 1) || begins("on", 2) || value == "1" => Some(true),
        _ if begins("false", 1) || begins("no", 1) || begins("off", 2) || value == "0" => {
            Some(false)
        }
        _ => None,
    }
}

fn definition(name: &str) -> Option<&'static SettingDefinition> {
    let mut all = SETTINGS.iter();
    all.find(|known| known.name.eq_ignore_ascii_case(name))
}

fn is_without_effect(name: &str) -> bool {
    WITHOUT_EFFECT.contains(&name) || name.starts_with(OF_PLANNER)
}

fn unknown(name: &str) -> Report {
    error(
        UNDEFINED_OBJECT,
        format!("unrecognized configuration parameter \"{name}\""),
    )
}

/// Returns the name of an encoding. Signs do not count, as in PostgreSQL.
fn encoding(value: &str) -> Option<&'static str> {
    let letters = value.chars().filter(char::is_ascii_alphanumeric);
    match &*letters.collect::<String>().to_ascii_lowercase() {
        "utf8" | "unicode" => Some("UTF8"),
        "sqlascii" => Some("SQL_ASCII"),
        _ => None,
    }
}

fn is_search_path(value: &str) -> bool {
    value.split(',').all(|schema| {
        let schema = schema.trim().trim_matches(['"', '\'']);
        matches!(schema, "" | "$user" | "public" | "pg_catalog")
    })
}

/// Returns a duration, which is in milliseconds if it has no unit.
fn timeout(value: &str) -> Option<Duration> {
    let value = value.trim();
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let ms = match unit.trim() {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let total = number.checked_mul(ms)?;
    // PostgreSQL's largest value.
    (total <= i32::MAX as u64).then_some(Duration::from_millis(total))
}

/// Returns a duration in its largest unit that leaves a whole number, as PostgreSQL shows it.
fn shown_timeout(limit: Duration) -> String {
    let ms = limit.as_millis();
    match ms {
        0 => "0".into(),
        ms if ms % 3_600_000 == 0 => format!("{}h", ms / 3_600_000),
        ms if ms % 60_000 == 0 => format!("{}min", ms / 60_000),
        ms if ms % 1000 == 0 => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> SessionVariables {
        SessionVariables::new("ann", "0.1.0")
    }

    #[test]
    fn values_that_have_the_wanted_effect() {
        let mut settings = variables();
        for (name, value, shown) in [
            ("application_name", "psql", "psql"),
            ("Client_Encoding", "'utf-8'", "UTF8"),
            ("client_encoding", "SQL_ASCII", "SQL_ASCII"),
            ("DATESTYLE", "iso", "ISO, MDY"),
            ("timezone", "etc/utc", "Etc/UTC"),
            ("timezone", "-7", "<-07>+07"),
            ("timezone", "europe/berlin", "Europe/Berlin"),
            ("extra_float_digits", "3", "3"),
            ("search_path", "public, \"$user\"", "public, \"$user\""),
            ("search_path", "", ""),
            ("statement_timeout", "120s", "2min"),
            ("statement_timeout", "250", "250ms"),
            ("enable_seqscan", "off", "off"),
            ("shop.tenant", "7", "7"),
            (
                "default_transaction_isolation",
                "Read Committed",
                "read committed",
            ),
        ] {
            settings.set(name, Some(value)).unwrap();
            assert_eq!(settings.value(name).unwrap(), shown, "{name}");
        }
        assert_eq!(
            settings.statement_timeout(),
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            settings.value("server_version").unwrap(),
            "15.0 (Replex 0.1.0)"
        );
        assert_eq!(settings.value("session_authorization").unwrap(), "ann");
    }

    #[test]
    fn values_that_would_be_untrue_are_refused() {
        let mut settings = variables();
        for (name, value, code) in [
            ("client_encoding", "LATIN1", "0A000"),
            ("DateStyle", "German", "0A000"),
            ("TimeZone", "Europe/Nowhere", "22023"),
            ("search_path", "other", "0A000"),
            ("extra_float_digits", "0", "0A000"),
            ("lock_timeout", "5s", "0A000"),
            ("statement_timeout", "soon", "22023"),
            ("statement_timeout", "2147483648", "22023"),
            ("server_version", "16", "55P02"),
            ("no_such_setting", "1", "42704"),
        ] {
            let refused = settings.set(name, Some(value)).unwrap_err();
            assert_eq!(refused.code, code, "{name}");
        }
        let long = "x".repeat(VALUE_LEN_MAX + 1);
        assert!(settings.set("application_name", Some(&long)).is_err());
        for number in 0..CUSTOM_MAX {
            settings.set(&format!("a.b{number}"), Some("")).unwrap();
        }
        assert_eq!(settings.set("a.more", Some("")).unwrap_err().code, "53400");
    }

    #[test]
    fn local_values_end_with_their_transaction() {
        let mut settings = variables();
        let zone = |settings: &SessionVariables| settings.value("TimeZone").unwrap().to_owned();
        let set = |settings: &mut SessionVariables, span, zone| {
            settings.set_for(span, "TimeZone", Some(zone)).unwrap();
        };
        let (session, local) = (SettingSpan::Session, SettingSpan::Transaction);
        set(&mut settings, local, "Asia/Tokyo");
        assert_eq!(settings.zone().name(), "Asia/Tokyo");
        assert_eq!(settings.take_changed(), ["TimeZone"]);
        settings.end_transaction(TransactionEnd::Committed);
        assert_eq!(zone(&settings), "UTC");
        assert_eq!(settings.zone(), TimeZone::UTC);
        assert_eq!(settings.take_changed(), ["TimeZone"]);
        set(&mut settings, session, "Europe/Paris");
        set(&mut settings, local, "Asia/Tokyo");
        settings.end_transaction(TransactionEnd::Committed);
        assert_eq!(zone(&settings), "Europe/Paris");
        set(&mut settings, session, "Asia/Tokyo");
        settings.end_transaction(TransactionEnd::Undone);
        assert_eq!(zone(&settings), "Europe/Paris");
    }

    #[test]
    fn savepoints_have_their_values() {
        let mut settings = variables();
        let name =
            |settings: &SessionVariables| settings.value("application_name").unwrap().to_owned();
        let set = |settings: &mut SessionVariables, value| {
            settings.set("application_name", Some(value)).unwrap();
        };
        settings.save("a");
        set(&mut settings, "1");
        settings.save("b");
        set(&mut settings, "2");
        settings.save("a");
        set(&mut settings, "3");
        settings.undo_to("a");
        assert_eq!(name(&settings), "2");
        settings.release("a");
        settings.undo_to("b");
        assert_eq!(name(&settings), "1");
        settings.undo_to("a");
        assert_eq!(name(&settings), "");
        set(&mut settings, "4");
        settings.end_transaction(TransactionEnd::Committed);
        assert_eq!(name(&settings), "4");
    }

    #[test]
    fn a_reset_returns_to_the_start_of_the_session() {
        let mut settings = variables();
        settings.set("application_name", Some("first")).unwrap();
        settings.begin();
        settings.set("application_name", Some("second")).unwrap();
        settings.set("work_mem", Some("1MB")).unwrap();
        assert_eq!(settings.take_changed(), ["application_name"]);
        settings.set("application_name", None).unwrap();
        assert_eq!(settings.value("application_name").unwrap(), "first");
        settings.reset_all();
        assert_eq!(settings.value("work_mem").unwrap(), "");
        assert!(!settings.take_changed().is_empty());
        assert_eq!(settings.take_changed(), [""; 0]);
    }
}
