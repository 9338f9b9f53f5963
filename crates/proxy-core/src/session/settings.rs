//! The settings of a session that the proxy itself stores: its own ones, which clients change in a
//! simple query `SET replex.… = …`, and `application_name`, which some drivers set in every
//! session.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::PeerOutput;
use super::expected::TransactionStatus;
use alloc::borrow::ToOwned;
use alloc::string::String;

use crate::freshness::ConsistencyLevel;
use crate::server::{ReportedParameters, ServerConnection};
use pg_wire::message;
use pg_wire::report::{Report, Severity};

/// The setting with the application name of a session.
pub const APPLICATION_NAME: &[u8] = b"application_name";
/// PostgreSQL cuts longer ones, in bytes.
const APPLICATION_NAME_LEN_MAX: usize = 63;

/// Settings that differ between the primary and replicas, which is nothing to clients.
const OF_NODES: [&[u8]; 2] = [b"default_transaction_read_only", b"in_hot_standby"];

/// SQLSTATE: a parameter's value is invalid.
const INVALID_VALUE: &str = "22023";

/// All of them.
const NAMES: [&str; 4] = [
    "replex.trace",
    "replex.consistency",
    "replex.classes",
    "replex.balancing",
];

/// A client's settings of the proxy itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Whether the client gets a notice about the route of each batch.
    pub trace: TraceSetting,
    /// The consistency level of the session's reads.
    pub level: ConsistencyLevel,
    /// The precision of the analysis of reads.
    pub classes: ClassPrecision,
    /// The reads that may run on another server than their transaction.
    pub balancing: ReadBalancing,
}

/// The precision of the analysis of reads (the paper's section 7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassPrecision {
    /// By rows where they are known, otherwise by columns.
    #[default]
    Rows,
    /// By columns: TAS and CAS.
    Columns,
    /// By tables: TAS.
    Tables,
}

/// Whether reads of a transaction that has written may go to replicas (the paper's section 7.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadBalancing {
    /// Reads that are independent of the transaction's writes.
    #[default]
    Statement,
    /// None: after its first write, the whole transaction runs on the primary.
    Transaction,
}

/// Whether the client gets notices about the routes of its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceSetting {
    /// It gets none.
    #[default]
    Off,
    /// It gets one for each batch.
    On,
}

impl ClientSettings {
    /// Executes a simple query that only sets these settings, in a transaction with this status.
    /// Returns false if a server must run it.
    pub(super) fn carry_out(
        &mut self,
        text: &[u8],
        status: TransactionStatus,
        out: &mut PeerOutput,
    ) -> bool {
        let Some(text) = set_text(text) else {
            return false;
        };
        let text = text.to_ascii_lowercase();
        let words: Vec<&str> = text
            .split(|sign: char| sign.is_whitespace() || sign == '=')
            .filter(|word| !word.is_empty() && *word != "to")
            .collect();
        let ["set", name, value] = words[..] else {
            return false;
        };
        let value = value.trim_matches('\'');
        let Some(is_valid) = self.set(name, value) else {
            return false;
        };
        if is_valid {
            message::write(&mut out.to_client, b'C', &[b"SET\0"], 0);
        } else {
            let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
            let report = Report::new(Severity::Error, INVALID_VALUE, text);
            let hint = "There is replex.trace = on or off, replex.consistency = gssi, weak, rsi-pc or \
                        1sr, replex.classes = ras, cas or tas, and replex.balancing = statement or \
                        transaction.";
            report.hint(hint).write(&mut out.to_client);
        }
        message::write_ready(&mut out.to_client, status.byte());
        true
    }

    /// Sets one of them. Returns none if there is no such setting; false if the value is invalid,
    /// which changes nothing.
    fn set(&mut self, name: &str, value: &str) -> Option<bool> {
        match (name, value) {
            ("replex.trace", "on" | "true" | "1") => self.trace = TraceSetting::On,
            ("replex.trace", "off" | "false" | "0") => self.trace = TraceSetting::Off,
            ("replex.consistency", "gssi") => self.level = ConsistencyLevel::Gssi,
            ("replex.consistency", "weak") => self.level = ConsistencyLevel::Weak,
            ("replex.consistency", "rsi-pc") => self.level = ConsistencyLevel::RsiPc,
            ("replex.consistency", "1sr") => self.level = ConsistencyLevel::OneCopy,
            ("replex.classes", "ras") => self.classes = ClassPrecision::Rows,
            ("replex.classes", "cas") => self.classes = ClassPrecision::Columns,
            ("replex.classes", "tas") => self.classes = ClassPrecision::Tables,
            ("replex.balancing", "statement") => self.balancing = ReadBalancing::Statement,
            ("replex.balancing", "transaction") => self.balancing = ReadBalancing::Transaction,
            _ => return NAMES.contains(&name).then_some(false),
        }
        Some(true)
    }
}

/// The settings that were reported to the client, and the application name of its session for
/// servers.
#[derive(Debug)]
pub(super) struct ClientParameters {
    reported: Arc<ReportedParameters>,
    /// The application name that servers get, and the name without a suffix.
    application: Option<Bytes>,
    application_at_login: Option<Bytes>,
}

impl ClientParameters {
    /// Records the settings that were reported at the login.
    pub fn new(reported: Arc<ReportedParameters>) -> ClientParameters {
        let application = reported.get(APPLICATION_NAME).cloned();
        ClientParameters {
            reported,
            application: application.clone(),
            application_at_login: application,
        }
    }

    /// Returns a setting as the client knows it.
    pub fn get(&self, name: &[u8]) -> Option<&Bytes> {
        self.reported.get(name)
    }

    /// Returns all settings as the client knows them.
    pub fn shared(&self) -> Arc<ReportedParameters> {
        Arc::clone(&self.reported)
    }

    /// Records that the client has received the values of these settings.
    pub fn know(&mut self, reported: Arc<ReportedParameters>) {
        self.reported = reported;
    }

    /// Returns the session's application name for servers.
    pub fn application(&self) -> Option<&Bytes> {
        self.application.as_ref()
    }

    /// Records a new application name for servers. Returns true if the client does not know it yet.
    pub fn name_application(&mut self, value: Bytes) -> bool {
        self.application = Some(value.clone());
        let is_news = self.get(APPLICATION_NAME) != Some(&value);
        if is_news {
            let name = Bytes::from_static(APPLICATION_NAME);
            Arc::make_mut(&mut self.reported).insert(name, value);
        }
        is_news
    }

    /// Records that all servers of the session must have the application name of this server.
    pub fn name_as(&mut self, server: &ServerConnection) {
        self.application = server.parameters.get(APPLICATION_NAME).cloned();
    }

    /// Records that all servers of the session must have the application name from the login.
    pub fn name_as_at_login(&mut self) {
        self.application.clone_from(&self.application_at_login);
    }

    /// Executes a simple query that only sets the application name, while the session has no
    /// server. Returns false if it is something else. An attached server must run it itself,
    /// because a transaction may roll it back.
    pub fn sets_application(&mut self, text: &[u8], out: &mut PeerOutput) -> bool {
        let Some(name) = set_text(text).and_then(application_name) else {
            return false;
        };
        let value = Bytes::copy_from_slice(name.as_bytes());
        message::write(&mut out.to_client, b'C', &[b"SET\0"], 0);
        if self.name_application(value) {
            let parts: [&[u8]; 4] = [APPLICATION_NAME, b"\0", name.as_bytes(), b"\0"];
            message::write(&mut out.to_client, b'S', &parts, 0);
        }
        message::write_ready(&mut out.to_client, TransactionStatus::Idle.byte());
        true
    }

    /// Reports to the client the settings that differ at this server.
    pub fn report(&mut self, server: &ServerConnection, out: &mut PeerOutput) {
        if Arc::ptr_eq(&self.reported, &server.parameters) {
            return;
        }
        for (name, value) in server.parameters.iter() {
            let is_reported = !OF_NODES.contains(&&name[..]) && name != APPLICATION_NAME;
            if is_reported && self.get(name) != Some(value) {
                message::write(&mut out.to_client, b'S', &[name, b"\0", value, b"\0"], 0);
            }
        }
        let name = APPLICATION_NAME;
        let reported = self.get(name).cloned();
        self.reported = Arc::clone(&server.parameters);
        // The server is yet to get the session's name.
        if let Some(reported) =
            reported.filter(|reported| server.parameters.get(name) != Some(reported))
        {
            Arc::make_mut(&mut self.reported).insert(Bytes::from_static(name), reported);
        }
    }
}

/// Returns a text without its terminator; none if it does not begin with SET.
fn set_text(text: &[u8]) -> Option<&str> {
    let first = text.trim_ascii_start().get(..3);
    if !first.is_some_and(|word| word.eq_ignore_ascii_case(b"set")) {
        return None;
    }
    let text = str::from_utf8(text).ok()?;
    Some(text.trim().trim_end_matches(';').trim_end())
}

/// Returns the name in `SET application_name = '…'`, if servers take it as it is. With a backslash
/// it may mean something else, by `standard_conforming_strings`.
fn application_name(text: &str) -> Option<String> {
    let skip = |text: &str, word: &str| {
        let (start, rest) = text.split_at_checked(word.len())?;
        start.eq_ignore_ascii_case(word).then(|| rest.to_owned())
    };
    let rest = skip(text, "SET")?;
    if !rest.starts_with(|sign: char| sign.is_ascii_whitespace()) {
        return None;
    }
    let rest = skip(rest.trim_start(), "application_name")?;
    let rest = rest.trim_start();
    let value = skip(rest, "=").or_else(|| skip(rest, "TO "))?;
    let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
    let name = value.replace("''", "'");
    let is_text = value.split("''").all(|part| !part.contains(['\'', '\\']));
    let is_plain = name.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    (is_text && is_plain && name.len() <= APPLICATION_NAME_LEN_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_applications() {
        let named = |text: &str, name: &str| {
            assert_eq!(application_name(text).as_deref(), Some(name), "{text}");
        };
        named(
            "SET application_name = 'PostgreSQL JDBC Driver'",
            "PostgreSQL JDBC Driver",
        );
        named("set Application_Name TO 'it''s'", "it's");
        named("SET  application_name=''", "");
        for text in [
            "SET application_name = 'a'; SELECT 'b'",
            "SET application_name = 'a\\'",
            "SET application_name = DEFAULT",
            "SET application_name = 'ä'",
            "SETapplication_name = 'a'",
            "SET LOCAL application_name = 'a'",
            "SET application_name = 'a', 'b'",
        ] {
            assert_eq!(application_name(text), None, "{text}");
        }
    }
}
