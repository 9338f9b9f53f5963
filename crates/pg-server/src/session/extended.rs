//! The extended protocol: Parse, Bind, Describe, Execute and Close.

use std::sync::Arc;

use pg_wire::backend;
use pg_wire::frontend::{BindRequest, WireFormat};
use pg_wire::message::StatementOrPortal;
use pg_wire::report::Report;
use placement::Value;
use sql::statement::NamedStatement;
use sql::{OutputColumn, Store, time_input};
use tokio::io::AsyncWrite;

use super::catalogue::{catalogue_values, check_same, describe_answer};
use super::copy_in::CopyOrigin;
use super::portal::{Portal, PortalProgress, SuspendedRows, row_bytes, values_bytes};
use super::rows::{as_described, describe_columns, rows_tag, write_row};
use super::run::{Ran, RowsWanted};
use super::{
    AnswerFailure, ClientSession, HELD_BYTES_MAX, PORTALS_MAX, PendingExecute, STATEMENT_LEN_MAX,
    STATEMENTS_MAX,
};
use crate::errors::{
    self, MESSAGE_TOO_LONG, PROTOCOL_VIOLATION, SYNTAX_ERROR, StatementScope, error,
};
use crate::output::ClientOutput;
use crate::statement::{DescribedStatement, PrepareFailure, StatementKind};

impl<S: Store> ClientSession<S> {
    /// Prepares a statement.
    pub(super) async fn parse(
        &mut self,
        name: &str,
        text: &str,
        types: &[u32],
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<(), AnswerFailure> {
        if name.is_empty() {
            // It is gone even if the new one is invalid, as in PostgreSQL.
            self.statements.remove(name);
        }
        check_length(text)?;
        self.check_new_statement(name)?;
        let prepared = self.prepare(text, types).await?;
        self.keep_statement(name, prepared)?;
        backend::parse_complete(&mut out.buffer);
        Ok(())
    }

    /// Refuses a further prepared statement, if its name is taken or there are too many.
    pub(super) fn check_new_statement(&self, name: &str) -> Result<(), Report> {
        if self.statements.contains_key(name) {
            let text = format!("prepared statement \"{name}\" already exists");
            return Err(error("42P05", text));
        }
        if self.statements.len() >= STATEMENTS_MAX {
            let text = format!("a session has at most {STATEMENTS_MAX} prepared statements");
            return Err(error("53400", text).hint("Close some of them."));
        }
        Ok(())
    }

    pub(super) fn keep_statement(
        &mut self,
        name: &str,
        prepared: DescribedStatement,
    ) -> Result<(), Report> {
        self.check_held(prepared.text.len())?;
        self.statements.insert(name.to_owned(), Arc::new(prepared));
        Ok(())
    }

    async fn prepare(&self, text: &str, types: &[u32]) -> Result<DescribedStatement, Report> {
        let pieces = sql::split(text).map_err(|fault| errors::syntax(&fault, text))?;
        let kind = match &pieces[..] {
            [] => StatementKind::Empty,
            [piece] => StatementKind::parse(piece, text, self.settings.zone())?,
            _ => {
                let text = "cannot insert multiple commands into a prepared statement";
                return Err(error(SYNTAX_ERROR, text));
            }
        };
        self.check_not_failed(&kind)?;
        drop(pieces);
        self.prepare_kind(kind, text, types).await
    }

    /// Prepares a statement that was parsed. `types` are the OIDs of parameters as far as they are
    /// declared.
    pub(super) async fn prepare_kind(
        &self,
        kind: StatementKind,
        text: &str,
        types: &[u32],
    ) -> Result<DescribedStatement, Report> {
        if let StatementKind::Catalogue(statement) = &kind {
            let catalogue = self.newest_catalogue().await;
            return DescribedStatement::prepare_catalogue(statement, text, types, &catalogue);
        }
        let columns = match &kind {
            StatementKind::Named(named) => self.named_columns(named)?,
            _ => None,
        };
        let with_columns = |prepared: DescribedStatement| DescribedStatement {
            columns: prepared.columns.or(columns),
            ..prepared
        };
        let store = self.sql.store();
        let known = store.configuration();
        let first = DescribedStatement::prepare(kind.clone(), text, types, &known);
        let fault = match first {
            Ok(prepared) => return Ok(with_columns(prepared)),
            Err(PrepareFailure::Reported(report)) => return Err(report),
            Err(PrepareFailure::Planned(fault)) => fault,
        };
        let refused = |fault| errors::report(fault, text, StatementScope::Statement);
        // Another client may have created the table.
        match store.refresh().await {
            Ok(newest) if newest.epoch != known.epoch => {
                match DescribedStatement::prepare(kind, text, types, &newest) {
                    Ok(prepared) => Ok(with_columns(prepared)),
                    Err(PrepareFailure::Reported(report)) => Err(report),
                    Err(PrepareFailure::Planned(fault)) => Err(refused(&fault)),
                }
            }
            _ => Err(refused(&fault)),
        }
    }

    /// Returns the columns of a statement about a prepared statement or a cursor; none if it
    /// returns no rows.
    fn named_columns(&self, named: &NamedStatement) -> Result<Option<Vec<OutputColumn>>, Report> {
        match named {
            NamedStatement::Execute { name, .. } => Ok(self.statement(name)?.columns.clone()),
            NamedStatement::Fetch {
                name, moves: false, ..
            } => {
                let cursor = self.portals.get(name).ok_or_else(|| no_cursor(name))?;
                Ok(cursor.statement.columns.clone())
            }
            _ => Ok(None),
        }
    }

    /// Creates a portal.
    pub(super) fn bind(
        &mut self,
        bind: &BindRequest<'_>,
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<(), AnswerFailure> {
        let statement = Arc::clone(self.statement(bind.statement)?);
        let expected = statement.parameter_oids().len();
        if bind.values.len() != expected {
            let text = format!(
                "bind message supplies {} parameters, but prepared statement \"{}\" requires {expected}",
                bind.values.len(),
                bind.statement
            );
            return Err(error(PROTOCOL_VIOLATION, text).into());
        }
        self.check_not_failed(&statement.kind)?;
        let columns = statement.column_count();
        let formats = bind.result_formats.len();
        if formats > 1 && formats != columns {
            let text = format!(
                "bind message has {formats} result formats but query has {columns} columns"
            );
            return Err(error(PROTOCOL_VIOLATION, text).into());
        }
        if bind.portal.is_empty() {
            self.portals.remove("");
        }
        self.check_new_portal(bind.portal)?;
        let catalogue_parameters = match statement.catalogue {
            Some(_) => catalogue_values(bind),
            None => Vec::new(),
        };
        let input = time_input(self.settings.zone(), Some(sql::now_us()));
        let mut parameters = Vec::with_capacity(expected);
        for (position, (value, parameter)) in
            bind.values.iter().zip(&statement.parameters).enumerate()
        {
            parameters.push(match value {
                None => Value::Null,
                Some(bytes) => {
                    let format = bind.format(position);
                    parameter
                        .declared
                        .read(format, bytes, position + 1, &input)?
                }
            });
        }
        let bytes = row_bytes(&parameters) + values_bytes(&catalogue_parameters);
        self.check_held(bytes)?;
        let portal = Portal {
            statement,
            parameters,
            catalogue_parameters,
            formats: bind.result_formats.clone(),
            progress: PortalProgress::Ready,
            is_held: false,
            is_of_transaction: false,
        };
        self.portals.insert(bind.portal.to_owned(), portal);
        backend::bind_complete(&mut out.buffer);
        Ok(())
    }

    /// Refuses a further portal, if its name is taken or there are too many.
    pub(super) fn check_new_portal(&self, name: &str) -> Result<(), Report> {
        if self.portals.contains_key(name) {
            let text = format!("cursor \"{name}\" already exists");
            return Err(error("42P03", text));
        }
        if self.portals.len() >= PORTALS_MAX {
            let text = format!("a session has at most {PORTALS_MAX} open portals");
            return Err(error("53400", text).hint("Close some of them."));
        }
        Ok(())
    }

    /// Describes a statement or a portal.
    pub(super) fn describe(
        &mut self,
        what: StatementOrPortal<'_>,
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<(), AnswerFailure> {
        let (statement, formats) = match what {
            StatementOrPortal::Statement(name) => {
                let statement = self.statement(&String::from_utf8_lossy(name))?;
                backend::parameter_description(&mut out.buffer, &statement.parameter_oids());
                (statement, &[][..])
            }
            StatementOrPortal::Portal(name) => {
                let name = String::from_utf8_lossy(name);
                let portal = self.portals.get(&*name).ok_or_else(|| no_portal(&name))?;
                (&portal.statement, &portal.formats[..])
            }
        };
        match (&statement.catalogue, &statement.columns) {
            (Some(types), _) => describe_answer(out, &types.columns, formats),
            (None, Some(columns)) => describe_columns(out, columns, formats),
            (None, None) => backend::no_data(&mut out.buffer),
        }
        Ok(())
    }

    /// Closes a statement or a portal. It need not exist.
    pub(super) fn close(
        &mut self,
        what: StatementOrPortal<'_>,
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) -> Result<(), AnswerFailure> {
        match what {
            StatementOrPortal::Statement(name) => {
                self.statements.remove(&*String::from_utf8_lossy(name));
            }
            StatementOrPortal::Portal(name) => {
                self.portals.remove(&*String::from_utf8_lossy(name));
            }
        }
        backend::close_complete(&mut out.buffer);
        Ok(())
    }

    // tidy: long — the states of a portal.
    /// Runs a portal, or goes on with it. `is_alone` is whether a Sync follows directly.
    pub(super) async fn execute<W: AsyncWrite + Unpin + Send>(
        &mut self,
        pending: PendingExecute,
        is_alone: bool,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let PendingExecute { portal, rows_max } = pending;
        let limit = usize::try_from(rows_max).ok().filter(|limit| *limit > 0);
        let known = self.portals.get_mut(&portal);
        let known = known.ok_or_else(|| no_portal(&portal))?;
        let statement = Arc::clone(&known.statement);
        let formats = known.formats.clone();
        let progress = std::mem::replace(&mut known.progress, PortalProgress::Done);
        let suspended = match progress {
            PortalProgress::Suspended(suspended) => suspended,
            PortalProgress::SuspendedAnswer(answer) => {
                return self.return_answer((&portal, answer), limit, out).await;
            }
            PortalProgress::Done if statement.returns_rows() => {
                backend::command_complete(&mut out.buffer, "SELECT 0");
                return Ok(());
            }
            PortalProgress::Done => {
                let text = format!("portal \"{portal}\" cannot be run");
                return Err(error("55000", text).into());
            }
            PortalProgress::Ready => {
                let parameters = known.parameters.clone();
                let values = known.catalogue_parameters.clone();
                self.check_not_failed(&statement.kind)?;
                if let (StatementKind::Catalogue(asked), Some(types)) =
                    (&statement.kind, &statement.catalogue)
                {
                    let binary = formats.iter().map(|it| *it == WireFormat::Binary).collect();
                    let (columns, rows) = self
                        .ask_catalogue(asked, &types.parameters, (values, binary))
                        .await?;
                    check_same(&columns, &types.columns)?;
                    return self
                        .return_answer((&portal, rows.into_iter()), limit, out)
                        .await;
                }
                if statement.kind.writes() && !is_alone {
                    self.open_implicit().await?;
                }
                if let StatementKind::Copy(copy) = &statement.kind
                    && statement.kind.writes()
                {
                    return self.begin_copy_in(copy, CopyOrigin::Portal, out).await;
                }
                // Rows behind a limit wait in the portal.
                let wanted = match limit {
                    None => RowsWanted::Streamed {
                        described: Some(statement.columns.as_deref().unwrap_or_default()),
                        formats: &formats,
                    },
                    Some(_) => RowsWanted::Held,
                };
                let values = (&parameters[..], wanted);
                match self
                    .run(&statement.kind, &statement.text, values, out)
                    .await?
                {
                    Ran::Rows(rows, word) => {
                        let described = statement.columns.as_deref().unwrap_or_default();
                        let columns = as_described(rows.columns, described)?;
                        SuspendedRows {
                            columns,
                            rows: rows.rows.into_iter(),
                            bytes: 0,
                            word,
                        }
                    }
                    ran => {
                        ran.complete(&mut out.buffer);
                        return Ok(());
                    }
                }
            }
        };
        self.return_rows((&portal, suspended), limit, &formats, out)
            .await
    }

    /// Returns the rows of a portal up to a limit, and keeps the others.
    async fn return_rows<W: AsyncWrite + Unpin + Send>(
        &mut self,
        (portal, mut suspended): (&str, SuspendedRows),
        limit: Option<usize>,
        formats: &[WireFormat],
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let SuspendedRows {
            columns,
            rows,
            bytes,
            word,
        } = &mut suspended;
        let count = limit.map_or(rows.len(), |limit| limit.min(rows.len()));
        for row in rows.by_ref().take(count) {
            write_row(
                &mut out.buffer,
                &row,
                (columns, formats),
                &self.settings.zone(),
            )?;
            out.drain_if_long().await?;
        }
        // As PostgreSQL, which does not look whether there is a further row.
        if limit != Some(count) {
            backend::command_complete(&mut out.buffer, &rows_tag(word, count));
            return Ok(());
        }
        if *bytes == 0 {
            *bytes = rows.as_slice().iter().map(|row| row_bytes(row)).sum();
            self.check_held(*bytes)?;
        }
        if let Some(known) = self.portals.get_mut(portal) {
            known.progress = PortalProgress::Suspended(suspended);
        }
        backend::portal_suspended(&mut out.buffer);
        Ok(())
    }

    pub(super) fn statement(&self, name: &str) -> Result<&Arc<DescribedStatement>, Report> {
        self.statements.get(name).ok_or_else(|| {
            let text = match name {
                "" => "unnamed prepared statement does not exist".to_owned(),
                name => format!("prepared statement \"{name}\" does not exist"),
            };
            error("26000", text)
        })
    }

    /// Refuses to hold so many more bytes for the client.
    pub(super) fn check_held(&self, more: usize) -> Result<(), Report> {
        let texts: usize = self.statements.values().map(|it| it.text.len()).sum();
        let portals: usize = self.portals.values().map(Portal::held_bytes).sum();
        if texts + portals + more <= HELD_BYTES_MAX {
            return Ok(());
        }
        let text = format!("a session holds at most {HELD_BYTES_MAX} bytes of statements and rows");
        Err(error("53200", text)
            .hint("Close statements and portals, or read rows without a limit."))
    }
}

/// Refuses a query string that is too long.
pub(super) fn check_length(text: &str) -> Result<(), Report> {
    if text.len() <= STATEMENT_LEN_MAX {
        return Ok(());
    }
    let text = format!(
        "a query string of {} bytes is longer than {STATEMENT_LEN_MAX} bytes",
        text.len()
    );
    Err(error(MESSAGE_TOO_LONG, text)
        .hint("Send the data as parameters, or in several statements."))
}

/// Returns the error for a cursor that a client names in SQL.
pub(super) fn no_cursor(name: &str) -> Report {
    error("34000", format!("cursor \"{name}\" does not exist"))
}

fn no_portal(name: &str) -> Report {
    error("34000", format!("portal \"{name}\" does not exist"))
}
