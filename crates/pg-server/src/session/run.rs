//! Runs one statement: a command of the session here, any other one in the store.
//!
//! A statement ends early if its client cancels it or if it exceeds `statement_timeout`. If it may
//! have changed something by then, the error says that its outcome is unknown. A COMMIT is never
//! ended early.

use std::future::Future;
use std::time::Duration;

use bytes::BytesMut;
use pg_wire::backend;
use pg_wire::frontend::WireFormat;
use pg_wire::report::{Report, Severity};
use placement::{ColumnType, TimeZone, Value};
use protocol::configuration::Configuration;
use sql::statement::{Statement, TransactionStatement};
use sql::{
    FAILURES_TOLERATED_DEFAULT, OutputColumn, ResultRows, RowSink, SqlError, StatementOutcome,
    Store, StreamOutcome, sqlstate,
};
use tokio::io::AsyncWrite;
use tokio::sync::watch;

use super::portal::Portal;
use super::rows::{as_described, describe_columns, rows_tag, write_row};
use super::{AnswerFailure, ClientSession};
use crate::command::SessionCommand;
use crate::errors::{
    self, QUERY_CANCELED, STATEMENT_UNKNOWN, SUCCESS, StatementScope, error, unsupported,
};
use crate::functions::FunctionCalls;
use crate::output::ClientOutput;
use crate::settings::{SettingSpan, TransactionEnd};
use crate::statement::{StatementKind, StoredStatement, check_columns};

/// How a statement has ended.
#[derive(Debug)]
pub(super) enum Ran {
    /// It was empty.
    Empty,
    /// It returns no rows. Contains its tag.
    Done(String),
    /// It returns rows. Contains its tag, which has the number of rows after it if it is a SELECT.
    Rows(ResultRows, String),
    /// The client has its rows. Contains their number.
    Streamed(usize),
}

impl Ran {
    /// Appends the end of a statement whose rows, if it has any, the client has.
    pub(super) fn complete(&self, out: &mut BytesMut) {
        match self {
            Ran::Empty => backend::empty_query(out),
            Ran::Done(tag) => backend::command_complete(out, tag),
            Ran::Streamed(count) => backend::command_complete(out, &rows_tag("SELECT", *count)),
            Ran::Rows(..) => unreachable!("callers return the rows first"),
        }
    }
}

/// How the rows of a statement are returned.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowsWanted<'a> {
    /// To the client while they are read, if that is possible.
    Streamed {
        /// The columns that the client knows; without them RowDescription comes first.
        described: Option<&'a [OutputColumn]>,
        /// The formats of the columns.
        formats: &'a [WireFormat],
    },
    /// As a whole.
    Held,
}

/// Why a statement was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    Canceled,
    TimedOut,
}

impl Interruption {
    pub(super) fn text(self) -> &'static str {
        match self {
            Interruption::Canceled => "canceling statement due to user request",
            Interruption::TimedOut => "canceling statement due to statement timeout",
        }
    }
}

/// How a statement has ended whose rows may have been passed on.
enum StreamEnd {
    Streamed(usize),
    Held(StatementOutcome),
}

/// Writes rows to the client while they are read.
struct ClientRows<'a, W> {
    out: &'a mut ClientOutput<W>,
    described: Option<&'a [OutputColumn]>,
    formats: &'a [WireFormat],
    zone: TimeZone<'static>,
    columns: Vec<OutputColumn>,
    count: usize,
    /// Why the client takes no more rows.
    failure: Option<AnswerFailure>,
}

impl<'a, W> ClientRows<'a, W> {
    fn new(
        out: &'a mut ClientOutput<W>,
        described: Option<&'a [OutputColumn]>,
        formats: &'a [WireFormat],
        zone: TimeZone<'static>,
    ) -> ClientRows<'a, W> {
        ClientRows {
            out,
            zone,
            described,
            formats,
            columns: Vec::new(),
            count: 0,
            failure: None,
        }
    }

    /// Keeps a failure, and returns an error that ends the statement.
    fn end(&mut self, failure: impl Into<AnswerFailure>) -> SqlError {
        self.failure = Some(failure.into());
        SqlError::Statement {
            sqlstate: sqlstate::STATEMENT,
            message: "the client takes no more rows".into(),
        }
    }
}

impl<W: AsyncWrite + Unpin + Send> RowSink for ClientRows<'_, W> {
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        let checked = match self.described {
            Some(described) => as_described(columns.to_vec(), described),
            None => check_columns(Some(columns)).map(|()| columns.to_vec()),
        };
        self.columns = checked.map_err(|report| self.end(report))?;
        if self.described.is_none() {
            describe_columns(self.out, &self.columns, self.formats);
        }
        Ok(())
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        let written = write_row(
            &mut self.out.buffer,
            row,
            (&self.columns, self.formats),
            &self.zone,
        );
        written.map_err(|report| self.end(report))?;
        self.count += 1;
        Ok(())
    }

    async fn ready(&mut self) -> Result<(), SqlError> {
        let drained = self.out.drain_if_long().await;
        drained.map_err(|error| self.end(error))
    }
}

fn is_select(statement: &Statement) -> bool {
    matches!(statement, Statement::Select(_))
}

impl<S: Store> ClientSession<S> {
    // tidy: long — a dispatching match over the kinds of statements.
    /// Runs a statement. Its notices are in `out`.
    pub(super) async fn run(
        &mut self,
        kind: &StatementKind,
        text: &str,
        (parameters, wanted): (&[Value], RowsWanted<'_>),
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<Ran, AnswerFailure> {
        self.sql.set_read_only(self.settings.is_read_only());
        if kind.needs_role() {
            self.follow_role()?;
        }
        let stored = match kind {
            StatementKind::Empty => return Ok(Ran::Empty),
            StatementKind::Session(SessionCommand::SetRole(span, role)) => {
                return Ok(self.set_role(*span, role, &mut out.buffer).await?);
            }
            StatementKind::Session(SessionCommand::Reset(command)) => {
                match &**command {
                    SessionCommand::SetRole(span, role) => {
                        self.set_role(*span, role, &mut out.buffer).await?
                    }
                    command => self.command(command, &mut out.buffer)?,
                };
                return Ok(Ran::Done("RESET".into()));
            }
            StatementKind::Session(command) => {
                return Ok(self.command(command, &mut out.buffer)?);
            }
            StatementKind::Roles(statement) => {
                return Ok(self.run_roles(statement, &mut out.buffer).await?);
            }
            StatementKind::Copy(copy) => {
                let copied = Box::pin(self.copy_out(copy, text, out));
                return copied.await.map(Ran::Done);
            }
            StatementKind::Named(named) => {
                let values = (parameters, wanted);
                return Box::pin(self.run_named(named, text, values, out)).await;
            }
            StatementKind::Catalogue(_) => {
                let hint = "Run it by itself, or prepare it by your driver.";
                return Err(unsupported("EXECUTE of a statement about the catalogue", hint).into());
            }
            StatementKind::Stored(stored) => stored,
        };
        let mut statement = self.with_session_values(&stored.statement, parameters, text)?;
        let tolerance = self.prepare_table(stored, &mut statement).await?;
        let warning = self.warning(&statement);
        let may_change = (kind.writes() && self.sql.transaction().is_none()) || kind.defines();
        let outcome = match wanted {
            RowsWanted::Streamed { described, formats } if is_select(&statement) => {
                let rows = ClientRows::new(out, described, formats, self.settings.zone());
                self.stream(&statement, parameters, text, rows).await
            }
            _ => {
                let ran = self.run_stored(&statement, parameters, text, may_change);
                let ran = ran.await.map_err(AnswerFailure::Reported);
                ran.map(StreamEnd::Held)
            }
        };
        if let Some((code, warning)) = warning {
            // It replaces the store's own notice.
            self.sql.take_notices();
            self.write_notice(Severity::Warning, code, warning, &mut out.buffer);
        }
        self.write_notices(&mut out.buffer);
        let outcome = match outcome? {
            StreamEnd::Streamed(count) => return Ok(Ran::Streamed(count)),
            StreamEnd::Held(outcome) => outcome,
        };
        if let Some(notice) = tolerance {
            self.write_notice(Severity::Notice, SUCCESS, &notice, &mut out.buffer);
        }
        Ok(match outcome {
            StatementOutcome::Rows(rows) => Ran::Rows(rows, word(&statement).to_owned()),
            StatementOutcome::Returned(rows, tag) => Ran::Rows(rows, tag),
            StatementOutcome::Description(parts) => {
                Ran::Rows(sql::format::lines(&parts), word(&statement).to_owned())
            }
            StatementOutcome::Done(tag) => match tag.strip_prefix("NOTICE: ") {
                Some(notice) => {
                    self.write_notice(Severity::Notice, SUCCESS, notice, &mut out.buffer);
                    Ran::Done(tag_of_definition(&statement).to_owned())
                }
                None if stored.is_start => Ran::Done("START TRANSACTION".into()),
                None => Ran::Done(tag),
            },
        })
    }

    /// Returns a statement with the values of functions about the session.
    pub(super) fn with_session_values(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        text: &str,
    ) -> Result<Statement, Report> {
        let mut calls = FunctionCalls {
            identity: &self.identity,
            settings: &mut self.settings,
            failure: None,
        };
        let called = statement.with_session_values(parameters, &mut calls);
        let called = called.map_err(|fault| match calls.failure {
            Some(report) => report,
            None => errors::report(&fault, text, StatementScope::Statement),
        })?;
        self.sql.set_time_zone(self.settings.zone());
        Ok(called.unwrap_or_else(|| statement.clone()))
    }

    /// Runs a `SELECT`, whose rows the client gets while they are read if that is possible.
    async fn stream<W: AsyncWrite + Unpin + Send>(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        text: &str,
        mut rows: ClientRows<'_, W>,
    ) -> Result<StreamEnd, AnswerFailure> {
        let limit = self.settings.statement_timeout();
        let running = self.sql.run_into(statement, parameters, &mut rows);
        let ended = interruptible(running, &mut self.cancels, limit).await;
        if let Some(failure) = rows.failure.take() {
            return Err(failure);
        }
        match ended {
            Ok(Ok(StreamOutcome::Streamed)) => Ok(StreamEnd::Streamed(rows.count)),
            Ok(Ok(StreamOutcome::Held(outcome))) => Ok(StreamEnd::Held(outcome)),
            Ok(Err(fault)) => Err(errors::report(&fault, text, StatementScope::Statement).into()),
            Err(interruption) => Err(error(QUERY_CANCELED, interruption.text()).into()),
        }
    }

    async fn run_stored(
        &mut self,
        statement: &Statement,
        parameters: &[Value],
        text: &str,
        may_change: bool,
    ) -> Result<StatementOutcome, Report> {
        let control = match statement {
            Statement::Transaction(control) => Some(control),
            _ => None,
        };
        let is_commit = control == Some(&TransactionStatement::Commit);
        if is_commit || control == Some(&TransactionStatement::Rollback) {
            self.is_implicit = false;
        }
        let limit = self.settings.statement_timeout();
        let has_failed = self.sql.transaction() == Some(true);
        let running = self.sql.run(statement, parameters);
        let ended = match is_commit {
            true => Ok(running.await),
            false => interruptible(running, &mut self.cancels, limit).await,
        };
        let scope = match is_commit {
            true => StatementScope::Commit,
            false => StatementScope::Statement,
        };
        if let Some(control) = control {
            let is_done = matches!(&ended, Ok(Ok(_)));
            self.end_cursors(is_commit && is_done);
            if is_done {
                self.follow_transaction(control);
            }
            if self.sql.transaction().is_none() {
                self.end_settings(match is_commit && is_done && !has_failed {
                    true => TransactionEnd::Committed,
                    false => TransactionEnd::Undone,
                });
            }
        }
        match ended {
            Ok(outcome) => outcome.map_err(|fault| errors::report(&fault, text, scope)),
            Err(interruption) => {
                let why = interruption.text();
                Err(match may_change {
                    true => error(
                        STATEMENT_UNKNOWN,
                        format!("{why}: it may have taken effect"),
                    )
                    .hint("Read what it would have changed before you repeat it."),
                    false => error(QUERY_CANCELED, why),
                })
            }
        }
    }

    /// Saves the settings, or goes back to saved ones, with the savepoints of the transaction.
    fn follow_transaction(&mut self, control: &TransactionStatement) {
        match control {
            TransactionStatement::Savepoint(name) => self.settings.save(name),
            TransactionStatement::Release(name) => self.settings.release(name),
            TransactionStatement::RollbackTo(name) => {
                self.settings.undo_to(name);
                self.sql.set_time_zone(self.settings.zone());
            }
            _ => {}
        }
    }

    /// Ends the changes of settings of a transaction that has ended.
    pub(super) fn end_settings(&mut self, end: TransactionEnd) {
        self.settings.end_transaction(end);
        self.sql.set_time_zone(self.settings.zone());
    }

    /// Ends the cursors of a transaction that has ended, except those that outlive its commit.
    fn end_cursors(&mut self, is_committed: bool) {
        if self.sql.transaction().is_some() {
            return;
        }
        let stays = |portal: &Portal| portal.is_held && (is_committed || !portal.is_of_transaction);
        self.portals.retain(|_, portal| stays(portal));
        for portal in self.portals.values_mut() {
            portal.is_of_transaction = false;
        }
    }

    /// Runs a statement about the session. Its warnings are in `out`.
    fn command(&mut self, command: &SessionCommand, out: &mut BytesMut) -> Result<Ran, Report> {
        let ran = match command {
            SessionCommand::Set(name, value) => {
                self.settings.set(name, value.as_deref())?;
                Ran::Done("SET".into())
            }
            SessionCommand::SetLocal(name, value) => {
                let span = SettingSpan::Transaction;
                self.settings.set_for(span, name, value.as_deref())?;
                self.warn_of_local(span, out);
                Ran::Done("SET".into())
            }
            SessionCommand::SetRole(..) | SessionCommand::Reset(_) => {
                unreachable!("callers run it, because it may wait")
            }
            SessionCommand::ResetAll => {
                self.settings.reset_all();
                Ran::Done("RESET".into())
            }
            SessionCommand::Show(name) => {
                let value = match &**name {
                    "transaction_read_only" => match self.sql.is_read_only() {
                        true => "on",
                        false => "off",
                    },
                    name => self.settings.value(name)?,
                };
                let column = OutputColumn {
                    name: self.settings.shown_name(name),
                    column_type: Some(ColumnType::Text),
                };
                let rows = ResultRows {
                    columns: vec![column],
                    rows: vec![vec![Value::Text(value.to_owned())]],
                };
                Ran::Rows(rows, "SHOW".to_owned())
            }
            SessionCommand::Discard(tag) => {
                if *tag == "DISCARD ALL" {
                    if self.sql.transaction().is_some() {
                        let text = "DISCARD ALL cannot run inside a transaction block";
                        return Err(error("25001", text));
                    }
                    self.settings.reset_all();
                    self.settings.set_authorization(SettingSpan::Session, None);
                    self.statements.clear();
                    self.portals.clear();
                }
                if matches!(*tag, "DISCARD ALL" | "DISCARD SEQUENCES") {
                    self.sql.forget_sequences();
                }
                Ran::Done((*tag).into())
            }
            SessionCommand::Deallocate(None) => {
                self.statements.clear();
                Ran::Done("DEALLOCATE ALL".into())
            }
            SessionCommand::Deallocate(Some(name)) => {
                if self.statements.remove(name).is_none() {
                    let text = format!("prepared statement \"{name}\" does not exist");
                    return Err(error("26000", text));
                }
                Ran::Done("DEALLOCATE".into())
            }
            SessionCommand::Nothing(tag) => Ran::Done((*tag).into()),
        };
        self.sql.set_time_zone(self.settings.zone());
        Ok(ran)
    }

    /// Warns of a setting that ends at once, because no transaction is open.
    pub(super) fn warn_of_local(&self, span: SettingSpan, out: &mut BytesMut) {
        let is_open = self.sql.transaction().is_some() || self.is_in_string;
        if span == SettingSpan::Transaction && !is_open {
            let text = "SET LOCAL can only be used in transaction blocks";
            self.write_notice(Severity::Warning, "25P01", text, out);
        }
    }

    /// Returns the warning of a statement that does not fit the state of the transaction.
    fn warning(&self, statement: &Statement) -> Option<(&'static str, &'static str)> {
        let Statement::Transaction(control) = statement else {
            return None;
        };
        let is_explicit = self.sql.transaction().is_some() && !self.is_implicit;
        match control {
            TransactionStatement::Begin(_) if is_explicit => {
                Some(("25001", "there is already a transaction in progress"))
            }
            TransactionStatement::Commit | TransactionStatement::Rollback if !is_explicit => {
                Some(("25P01", "there is no transaction in progress"))
            }
            _ => None,
        }
    }

    /// Lets a new table survive as many failures as the servers allow, up to the default, unless
    /// the statement says how many. Returns a notice if they are fewer than the default.
    async fn prepare_table(
        &self,
        stored: &StoredStatement,
        statement: &mut Statement,
    ) -> Result<Option<String>, Report> {
        let Statement::CreateTable {
            schema,
            if_not_exists,
            ..
        } = statement
        else {
            return Ok(None);
        };
        // Servers and tables may have come since the last statement.
        let store = self.sql.store();
        let newest = store.refresh().await;
        let configuration = newest.unwrap_or_else(|_| store.configuration());
        let name = &schema.name;
        if configuration.table_named(name).is_some() && !*if_not_exists {
            let text = format!("relation \"{name}\" already exists");
            return Err(error(sqlstate::DUPLICATE_TABLE, text));
        }
        let tolerated = tolerance_of(&configuration);
        if !stored.is_tolerance_open || tolerated >= FAILURES_TOLERATED_DEFAULT {
            return Ok(None);
        }
        let notice = format!(
            "table {name} does not survive the loss of its server yet, because the store has one server"
        );
        schema.failures_wanted = schema.failures_tolerated;
        schema.failures_tolerated = tolerated;
        Ok(Some(notice))
    }
}

/// Returns how many failures a new table can survive by default.
fn tolerance_of(configuration: &Configuration) -> u8 {
    let beside = configuration.servers.len().saturating_sub(1);
    u8::try_from(beside)
        .unwrap_or(u8::MAX)
        .min(FAILURES_TOLERATED_DEFAULT)
}

/// Runs a statement until it ends, is canceled, or has taken too long.
pub(super) async fn interruptible<T>(
    running: impl Future<Output = T>,
    cancels: &mut watch::Receiver<()>,
    limit: Option<Duration>,
) -> Result<T, Interruption> {
    // Earlier requests were about earlier statements.
    cancels.mark_unchanged();
    let canceled = async {
        // The sender lives as long as the session.
        if cancels.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let timed_out = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ended = running => Ok(ended),
        () = canceled => Err(Interruption::Canceled),
        () = timed_out => Err(Interruption::TimedOut),
    }
}

/// Returns the first word of the tag of a statement that returns rows.
fn word(statement: &Statement) -> &'static str {
    match statement {
        Statement::Show(_) => "SHOW",
        Statement::Explain(_) | Statement::ExplainAnalyze(_) | Statement::ExplainAsJson(_) => {
            "EXPLAIN"
        }
        _ => "SELECT",
    }
}

/// Returns the tag of a change of tables that had nothing to do.
fn tag_of_definition(statement: &Statement) -> &'static str {
    match statement {
        Statement::CreateTable { .. } => "CREATE TABLE",
        Statement::CreateIndex(_) => "CREATE INDEX",
        Statement::DropIndex { .. } => "DROP INDEX",
        Statement::DropTable { .. } => "DROP TABLE",
        Statement::CreateSequence { .. } => "CREATE SEQUENCE",
        Statement::RestartSequence { .. } => "ALTER SEQUENCE",
        Statement::DropSequence { .. } => "DROP SEQUENCE",
        Statement::SetUsing(_) => "ALTER INDEX",
        Statement::AlterTable(alter) if alter.renames_index() => "ALTER INDEX",
        Statement::Comment(_) => "COMMENT",
        _ => "ALTER TABLE",
    }
}
