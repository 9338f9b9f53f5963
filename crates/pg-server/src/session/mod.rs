//! The session of a client: its statements, portals and settings, and what its messages do.
//!
//! Messages arrive in order through [`ClientSession::handle`]. An Execute waits for the message
//! after it: a statement alone before a Sync is an operation of its own, and several are one
//! transaction, as in PostgreSQL. The client cannot notice this, because it waits for nothing
//! before it has sent a Sync or a Flush.
//!
//! Invariant: an implicit transaction ends at the latest with the next Sync, or with the end of the
//! string of statements.

mod catalogue;
mod copy_binary;
mod copy_in;
mod copy_out;
mod extended;
mod identity;
mod named;
mod portal;
mod roles;
mod rows;
mod run;
mod simple;
mod string;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use pg_auth::password::INVALID_AUTHORIZATION;
use pg_wire::backend;
use pg_wire::frontend::ClientMessage;
use pg_wire::message::write_ready;
use pg_wire::report::{Report, Severity};
use pg_wire::startup::{CancelKey, StartupPacket};
use sql::statement::{Statement, TransactionStatement};
use sql::{SqlSession, Store};
use tokio::io::AsyncWrite;
use tokio::sync::watch;

use crate::audit::SessionAudit;
use crate::catalogue::SharedCatalogue;
use crate::errors::{self, FAILED_TRANSACTION, NOT_SUPPORTED, SUCCESS, error};
use crate::functions::SessionIdentity;
use crate::output::ClientOutput;
use crate::settings::{REPORTED, SessionVariables, TransactionEnd};
use crate::statement::{DescribedStatement, StatementKind};

use copy_in::CopyIn;
use portal::Portal;

/// The most prepared statements of a session.
pub const STATEMENTS_MAX: usize = 5_000;
/// The most open portals of a session.
pub const PORTALS_MAX: usize = 100;
/// The longest query string, in bytes. Larger data belongs into parameters.
pub const STATEMENT_LEN_MAX: usize = 2 << 20;
/// The most bytes that a session holds for its client between two messages: query strings of
/// prepared statements, parameters, and rows that wait behind the limit of an Execute.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Why a message could not be handled.
#[derive(Debug)]
pub enum AnswerFailure {
    /// The client gets this error.
    Reported(Report),
    /// The client is gone.
    Gone(io::Error),
}

impl From<Report> for AnswerFailure {
    fn from(report: Report) -> AnswerFailure {
        AnswerFailure::Reported(report)
    }
}

impl From<io::Error> for AnswerFailure {
    fn from(error: io::Error) -> AnswerFailure {
        AnswerFailure::Gone(error)
    }
}

/// How a session goes on after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFlow {
    /// With the next message.
    Continue,
    /// With the next Sync, because a message of the extended protocol has failed.
    SkipToSync,
    /// The session ends.
    End,
}

/// An Execute that waits for the message after it.
#[derive(Debug)]
struct PendingExecute {
    portal: String,
    rows_max: i32,
}

/// A client's session.
#[derive(Debug)]
pub struct ClientSession<S: Store> {
    sql: SqlSession<S>,
    /// The catalogue, which all sessions share.
    catalogue: Arc<SharedCatalogue>,
    audit: SessionAudit,
    identity: SessionIdentity,
    settings: SessionVariables,
    statements: BTreeMap<String, Arc<DescribedStatement>>,
    portals: BTreeMap<String, Portal>,
    pending: Option<PendingExecute>,
    /// The `COPY … FROM STDIN` whose data the client sends now.
    copy: Option<Box<CopyIn>>,
    /// Whether the open transaction ends by itself, because no BEGIN has opened it.
    is_implicit: bool,
    /// Whether the present statement is one of several of a string.
    is_in_string: bool,
    /// Changes with each request to cancel the present statement.
    cancels: watch::Receiver<()>,
}

impl<S: Store> ClientSession<S> {
    /// Begins the session of a StartupMessage. `release` is this program's version.
    ///
    /// # Errors
    /// The client wants something that there is not. The report is fatal.
    pub fn begin(
        (store, catalogue, audit): (S, Arc<SharedCatalogue>, SessionAudit),
        startup: &StartupPacket,
        process: u32,
        cancels: watch::Receiver<()>,
        release: &str,
    ) -> Result<ClientSession<S>, Report> {
        let user = startup.parameter("user").unwrap_or_default();
        if user.is_empty() {
            let text = "no PostgreSQL user name specified in startup packet";
            return Err(Report::new(Severity::Fatal, INVALID_AUTHORIZATION, text));
        }
        let replication = startup.parameter("replication").unwrap_or("off");
        if !matches!(replication, "off" | "false" | "no" | "0") {
            let text = "replication connections are not supported";
            return Err(Report::new(Severity::Fatal, NOT_SUPPORTED, text));
        }
        let database = startup.parameter("database").filter(|it| !it.is_empty());
        let mut settings = SessionVariables::new(user, release);
        for (name, value) in &startup.parameters {
            match &**name {
                "user" | "database" | "replication" => {}
                "options" => {
                    for (name, value) in options(value)? {
                        settings.set(&name, Some(&value)).map_err(Report::fatal)?;
                    }
                }
                name if name.starts_with("_pq_.") => {}
                name => settings.set(name, Some(value)).map_err(Report::fatal)?,
            }
        }
        settings.begin();
        let role = store.configuration().roles.named(user).map(|role| role.id);
        let mut sql = SqlSession::new(store);
        sql.set_time_zone(settings.zone());
        let mut session = ClientSession {
            sql,
            catalogue,
            audit,
            identity: SessionIdentity {
                user: user.to_owned(),
                database: database.unwrap_or(user).to_owned(),
                process,
                role,
            },
            settings,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            pending: None,
            copy: None,
            is_implicit: false,
            is_in_string: false,
            cancels,
        };
        session.follow_role().map_err(Report::fatal)?;
        // The client gets all values when the session begins.
        session.settings.take_changed();
        Ok(session)
    }

    /// Appends the answer to a StartupMessage.
    pub fn greet(&self, key: &CancelKey, out: &mut BytesMut) {
        backend::authentication_ok(out);
        for name in REPORTED {
            let value = self.settings.value(name);
            backend::parameter_status(out, name, value.expect("it is a setting"));
        }
        backend::backend_key_data(out, key);
        write_ready(out, b'I');
    }

    /// Handles a message. Its answers are in `out`, and sent as far as they are many.
    ///
    /// # Errors
    /// The client is gone.
    pub async fn handle<W: AsyncWrite + Unpin + Send>(
        &mut self,
        message: ClientMessage<'_>,
        out: &mut ClientOutput<W>,
    ) -> io::Result<SessionFlow> {
        if self.copy.is_some() {
            return self.during_copy(message, out).await;
        }
        let is_sync = message == ClientMessage::Sync;
        if let Some(pending) = self.pending.take()
            && let Err(failure) = self.execute(pending, is_sync, out).await
        {
            self.fail(failure, out).await?;
            if !is_sync {
                return Ok(SessionFlow::SkipToSync);
            }
        }
        if self.copy.is_some() {
            return self.during_copy(message, out).await;
        }
        let handled = match message {
            ClientMessage::Query(text) => {
                let ran = self.query(text, out).await;
                self.end_string(ran, out).await?;
                Ok(())
            }
            ClientMessage::Sync => {
                self.close_implicit(out).await?;
                self.ready(out);
                Ok(())
            }
            ClientMessage::Parse { name, text, types } => self.parse(name, text, &types, out).await,
            ClientMessage::Bind(bind) => self.bind(&bind, out),
            ClientMessage::Describe(what) => self.describe(what, out),
            ClientMessage::Close(what) => self.close(what, out),
            ClientMessage::Execute { portal, rows_max } => {
                let portal = portal.to_owned();
                self.pending = Some(PendingExecute { portal, rows_max });
                Ok(())
            }
            ClientMessage::Flush => out.flush().await.map_err(AnswerFailure::Gone),
            ClientMessage::Terminate => return Ok(SessionFlow::End),
            // As PostgreSQL: a client may still send the data of a COPY that has failed.
            ClientMessage::Copy(_) => Ok(()),
            ClientMessage::FunctionCall => unreachable!("the protocol machine refuses it"),
        };
        match handled {
            Ok(()) => Ok(SessionFlow::Continue),
            Err(failure) => {
                self.fail(failure, out).await?;
                Ok(SessionFlow::SkipToSync)
            }
        }
    }

    /// Fails the open transaction, because the protocol machine has refused a message. A session
    /// that expects the data of a COPY ends, as in PostgreSQL.
    pub async fn refused(&mut self) -> SessionFlow {
        self.pending = None;
        let copy = self.copy.take();
        self.abort().await;
        match copy {
            Some(_) => SessionFlow::End,
            None => SessionFlow::Continue,
        }
    }

    /// Appends ReadyForQuery with the state of the transaction.
    pub fn ready(&mut self, out: &mut ClientOutput<impl AsyncWrite + Unpin>) {
        self.is_in_string = false;
        if self.sql.transaction().is_none() {
            self.end_settings(TransactionEnd::Committed);
        }
        for name in self.settings.take_changed() {
            let value = self.settings.value(name);
            backend::parameter_status(&mut out.buffer, name, value.expect("it is a setting"));
        }
        let status = match self.sql.transaction() {
            None => b'I',
            Some(false) => b'T',
            Some(true) => b'E',
        };
        if status == b'I' {
            // Portals end with their transaction.
            self.portals.retain(|_, portal| portal.is_held);
        }
        write_ready(&mut out.buffer, status);
    }

    /// Returns whether the session holds nothing that a client that is idle would need to keep.
    pub fn is_idle(&self) -> bool {
        self.pending.is_none() && self.copy.is_none() && self.sql.transaction().is_none()
    }

    /// Ends a string of statements, unless one of them expects data now.
    async fn end_string<W: AsyncWrite + Unpin + Send>(
        &mut self,
        ran: Result<(), AnswerFailure>,
        out: &mut ClientOutput<W>,
    ) -> io::Result<()> {
        if let Err(failure) = ran {
            self.fail(failure, out).await?;
        }
        if self.copy.is_none() {
            self.ready(out);
        }
        Ok(())
    }

    /// Reports a failure, and fails or ends the open transaction.
    async fn fail<W: AsyncWrite + Unpin + Send>(
        &mut self,
        failure: AnswerFailure,
        out: &mut ClientOutput<W>,
    ) -> io::Result<()> {
        let report = match failure {
            AnswerFailure::Reported(report) => report,
            AnswerFailure::Gone(error) => return Err(error),
        };
        self.write_notices(&mut out.buffer);
        report.write(&mut out.buffer);
        self.abort().await;
        Ok(())
    }

    /// Fails an open transaction, or undoes it if it is implicit.
    async fn abort(&mut self) {
        self.sql.fail_transaction();
        if std::mem::take(&mut self.is_implicit) {
            let rollback = Statement::Transaction(TransactionStatement::Rollback);
            let undone = self.sql.run(&rollback, &[]).await;
            undone.expect("a rollback sends nothing, and cannot fail");
        }
        if self.sql.transaction().is_none() {
            self.end_settings(TransactionEnd::Undone);
        }
    }

    /// Commits the implicit transaction, if one is open. Reports its failure.
    async fn close_implicit<W: AsyncWrite + Unpin + Send>(
        &mut self,
        out: &mut ClientOutput<W>,
    ) -> io::Result<()> {
        match self.commit_implicit().await {
            Ok(()) => Ok(()),
            Err(report) => self.fail(report.into(), out).await,
        }
    }

    async fn commit_implicit(&mut self) -> Result<(), Report> {
        if !std::mem::take(&mut self.is_implicit) {
            return Ok(());
        }
        let commit = Statement::Transaction(TransactionStatement::Commit);
        let scope = errors::StatementScope::Commit;
        let committed = self.sql.run(&commit, &[]).await;
        committed
            .map(drop)
            .map_err(|fault| errors::report(&fault, "", scope))
    }

    /// Opens an implicit transaction before a statement that changes rows and is not alone.
    async fn open_implicit(&mut self) -> Result<(), Report> {
        if self.sql.transaction().is_some() {
            return Ok(());
        }
        self.sql.set_read_only(self.settings.is_read_only());
        let begin = Statement::Transaction(TransactionStatement::Begin(None));
        let scope = errors::StatementScope::Statement;
        let begun = self.sql.run(&begin, &[]).await;
        begun.map_err(|fault| errors::report(&fault, "", scope))?;
        self.is_implicit = true;
        Ok(())
    }

    /// Refuses a statement in a transaction that has failed, unless the statement ends it.
    fn check_not_failed(&self, kind: &StatementKind) -> Result<(), Report> {
        if self.sql.transaction() != Some(true) || ends_failure(kind) {
            return Ok(());
        }
        let text =
            "current transaction is aborted, commands ignored until end of transaction block";
        Err(error(FAILED_TRANSACTION, text)
            .hint("End it with ROLLBACK, or go back with ROLLBACK TO SAVEPOINT."))
    }

    /// Appends the notices of the last statement.
    fn write_notices(&mut self, out: &mut BytesMut) {
        for text in self.sql.take_notices() {
            self.write_notice(Severity::Notice, SUCCESS, &text, out);
        }
    }

    fn write_notice(&self, severity: Severity, code: &str, text: &str, out: &mut BytesMut) {
        let is_wanted = match severity {
            Severity::Notice => self.settings.wants_notices(),
            _ => self.settings.wants_warnings(),
        };
        if is_wanted {
            Report::new(severity, code, text).write(out);
        }
    }
}

/// Returns whether a statement can run in a transaction that has failed.
fn ends_failure(kind: &StatementKind) -> bool {
    match kind {
        StatementKind::Empty => true,
        StatementKind::Session(_)
        | StatementKind::Copy(_)
        | StatementKind::Named(_)
        | StatementKind::Roles(_)
        | StatementKind::Catalogue(_) => false,
        StatementKind::Stored(stored) => matches!(
            stored.statement,
            Statement::Transaction(
                TransactionStatement::Commit
                    | TransactionStatement::Rollback
                    | TransactionStatement::RollbackTo(_)
            )
        ),
    }
}

/// Returns the settings in the startup parameter `options`: `-c name=value` and `--name=value`. A
/// backslash escapes a space.
fn options(text: &str) -> Result<Vec<(String, String)>, Report> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        let last = words.last_mut().expect("there is always a word");
        match character {
            '\\' => last.extend(characters.next()),
            ' ' => words.push(String::new()),
            other => last.push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    let mut words = words.into_iter();
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match (word.strip_prefix("-c"), word.strip_prefix("--")) {
            (Some(""), _) => words.next().unwrap_or_default(),
            (Some(setting), _) | (None, Some(setting)) => setting.to_owned(),
            (None, None) => word.clone(),
        };
        match setting.split_once('=') {
            Some((name, value)) if word.starts_with('-') => {
                settings.push((name.replace('-', "_"), value.to_owned()));
            }
            _ => {
                let text = format!("invalid command-line argument for server process: {word}");
                return Err(Report::new(Severity::Fatal, "42601", text)
                    .hint("Write settings as -c name=value."));
            }
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_startup_packet() {
        let found = options(r"-c application_name=a\ b  --work-mem=1MB -csearch_path=public");
        let expected = [
            ("application_name", "a b"),
            ("work_mem", "1MB"),
            ("search_path", "public"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(found.unwrap(), expected);
        for text in ["-c", "work_mem=1", "-d 3", "-c work_mem", "\\"] {
            assert!(options(text).is_err() || text == "\\", "{text}");
        }
    }
}
