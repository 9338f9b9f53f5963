//! Runs one statement: a command of the session here, any other one in the store.
//!
//! A statement ends early if its client cancels it or if it exceeds `statement_timeout`. If it may
//! have changed something by then, the error says that its outcome is unknown. A COMMIT is never
//! ended early.

use std::future::Future;
use std::time::Duration;

use bytes::BytesMut;
use pg_wire::backend::RowWriter;
use pg_wire::frontend::{ValueFormat, format_of};
use pg_wire::report::{Report, Severity};
use placement::{ColumnType, Value};
use protocol::configuration::Configuration;
use sql::statement::{Statement, TransactionStatement};
use sql::{
    FAILURES_TOLERATED_DEFAULT, OutputColumn, ResultRows, SqlError, StatementOutcome, Store,
};
use tokio::io::AsyncWrite;
use tokio::sync::watch;

use super::{ClientSession, SessionFailure};
use crate::command::SessionCommand;
use crate::errors::{self, QUERY_CANCELED, STATEMENT_UNKNOWN, SUCCESS, StatementScope, error};
use crate::functions::FunctionCalls;
use crate::output::ClientOutput;
use crate::statement::{StatementKind, StoredStatement, failure};
use crate::types;

/// How a statement has ended.
#[derive(Debug)]
pub(super) enum Ran {
    /// It was empty.
    Empty,
    /// It returns no rows. Contains its tag.
    Done(String),
    /// It returns rows. Contains the first word of its tag.
    Rows(ResultRows, &'static str),
}

/// Why a statement was ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interruption {
    Canceled,
    TimedOut,
}

impl<S: Store> ClientSession<S> {
    /// Runs a statement. Its notices are in `out`.
    pub(super) async fn run(
        &mut self,
        kind: &StatementKind,
        text: &str,
        parameters: &[Value],
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<Ran, SessionFailure> {
        let stored = match kind {
            StatementKind::Empty => return Ok(Ran::Empty),
            StatementKind::Session(command) => return Ok(self.command(command)?),
            StatementKind::Stored(stored) => stored,
        };
        let mut calls = FunctionCalls {
            identity: &self.identity,
            settings: &mut self.settings,
            failure: None,
        };
        let called = stored.statement.with_session_values(parameters, &mut calls);
        let called = called.map_err(|fault| match calls.failure {
            Some(report) => report,
            None => errors::report(&fault, text, StatementScope::Statement),
        })?;
        let mut statement = called.unwrap_or_else(|| stored.statement.clone());
        let tolerance = self.prepare_table(stored, &mut statement)?;
        let warning = self.warning(&statement);
        let may_change = (kind.writes() && self.sql.transaction().is_none()) || kind.defines();
        let outcome = self
            .run_stored(&statement, parameters, text, may_change)
            .await;
        if let Some((code, warning)) = warning {
            // It replaces the store's own notice.
            self.sql.take_notices();
            self.write_notice(Severity::Warning, code, warning, &mut out.buffer);
        }
        self.write_notices(&mut out.buffer);
        let outcome = outcome?;
        if let Some(notice) = tolerance {
            self.write_notice(Severity::Notice, SUCCESS, &notice, &mut out.buffer);
        }
        Ok(match outcome {
            StatementOutcome::Rows(rows) => Ran::Rows(rows, word(&statement)),
            StatementOutcome::Description(parts) => {
                Ran::Rows(sql::format::lines(&parts), word(&statement))
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
        let running = self.sql.run(statement, parameters);
        let ended = match is_commit {
            true => Ok(running.await),
            false => interruptible(running, &mut self.cancels, limit).await,
        };
        let scope = match is_commit {
            true => StatementScope::Commit,
            false => StatementScope::Statement,
        };
        match ended {
            Ok(outcome) => outcome.map_err(|fault| match fault {
                SqlError::UnknownTable { .. } => {
                    let words = sql::split(text).unwrap_or_default();
                    let words = words.first().map(|piece| piece.words()).unwrap_or_default();
                    failure(&fault, text, &words)
                }
                fault => errors::report(&fault, text, scope),
            }),
            Err(interruption) => {
                let why = match interruption {
                    Interruption::Canceled => "canceling statement due to user request",
                    Interruption::TimedOut => "canceling statement due to statement timeout",
                };
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

    fn command(&mut self, command: &SessionCommand) -> Result<Ran, Report> {
        Ok(match command {
            SessionCommand::Set(name, value) => {
                self.settings.set(name, value.as_deref())?;
                Ran::Done("SET".into())
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
                Ran::Rows(rows, "SHOW")
            }
            SessionCommand::Discard(tag) => {
                if *tag == "DISCARD ALL" {
                    if self.sql.transaction().is_some() {
                        let text = "DISCARD ALL cannot run inside a transaction block";
                        return Err(error("25001", text));
                    }
                    self.settings.reset_all();
                    self.statements.clear();
                    self.portals.clear();
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
        })
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

    /// Lets a new table survive as many failures as the servers allow, up to the default, unless the
    /// statement says how many. Returns a notice if they are fewer than the default.
    fn prepare_table(
        &self,
        stored: &StoredStatement,
        statement: &mut Statement,
    ) -> Result<Option<String>, Report> {
        let Statement::CreateTable {
            schema,
            if_not_exists,
        } = statement
        else {
            return Ok(None);
        };
        let configuration = self.sql.store().configuration();
        let name = &schema.name;
        if configuration.table_named(name).is_some() && !*if_not_exists {
            let text = format!("relation \"{name}\" already exists");
            return Err(error("42P07", text));
        }
        let tolerated = tolerance_of(&configuration);
        if !stored.is_tolerance_open || tolerated >= FAILURES_TOLERATED_DEFAULT {
            return Ok(None);
        }
        let notice = format!(
            "table {name} does not survive the loss of its server, because the store has one server"
        );
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
async fn interruptible<T>(
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

/// Appends a row.
///
/// # Errors
/// A value is of another type than its column. Nothing of the row is appended.
pub(super) fn write_row(
    out: &mut BytesMut,
    row: &[Value],
    columns: &[OutputColumn],
    formats: &[ValueFormat],
) -> Result<(), Report> {
    let start = out.len();
    let count = u16::try_from(columns.len()).expect("columns are bounded when they are described");
    let mut failed = Ok(());
    let mut writer = RowWriter::new(out, count);
    for (position, (value, column)) in row.iter().zip(columns).enumerate() {
        if value.is_null() {
            writer.null();
            continue;
        }
        let format = format_of(formats, position);
        writer.value(|out| {
            let written = types::write(out, value, column.column_type, format);
            failed = std::mem::replace(&mut failed, Ok(())).and(written);
        });
    }
    writer.end();
    if failed.is_err() {
        out.truncate(start);
    }
    failed
}

/// Returns the tag of a result with this many rows.
pub(super) fn rows_tag(word: &str, count: usize) -> String {
    match word {
        "SELECT" => format!("SELECT {count}"),
        word => word.to_owned(),
    }
}

/// Returns the first word of the tag of a statement that returns rows.
fn word(statement: &Statement) -> &'static str {
    match statement {
        Statement::Show(_) => "SHOW",
        Statement::Explain(_) | Statement::ExplainAnalyze(_) => "EXPLAIN",
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
        Statement::SetUsing(_) => "ALTER INDEX",
        _ => "ALTER TABLE",
    }
}
