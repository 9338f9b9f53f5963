//! Prepared statements and cursors that a client names in SQL: `PREPARE`, `EXECUTE`, `DECLARE`,
//! `FETCH`, `MOVE` and `CLOSE`.
//!
//! They share their names with the statements and portals of the extended protocol, as in
//! PostgreSQL. A cursor reads its rows when it is declared, so that later changes of its
//! transaction are not in it. Invariant: the rows of cursors count among those that a session
//! holds.

use std::sync::Arc;

use placement::{ColumnType, Value};
use sql::statement::{FetchedRows, NamedStatement};
use sql::{ResultRows, Store, argument_values};
use tokio::io::AsyncWrite;

use super::extended::no_cursor;
use super::portal::{Portal, PortalProgress, SuspendedRows, row_bytes};
use super::run::{Ran, RowsWanted};
use super::{AnswerFailure, ClientSession};
use crate::errors::{self, SYNTAX_ERROR, StatementScope, error};
use crate::output::ClientOutput;
use crate::statement::{DescribedStatement, StatementKind};
use crate::types;

impl<S: Store> ClientSession<S> {
    // tidy: long — a dispatching match over the statements.
    /// Runs a statement about a prepared statement or a cursor.
    pub(super) async fn run_named<W: AsyncWrite + Unpin + Send>(
        &mut self,
        named: &NamedStatement,
        text: &str,
        (parameters, wanted): (&[Value], RowsWanted<'_>),
        out: &mut ClientOutput<W>,
    ) -> Result<Ran, AnswerFailure> {
        match named {
            NamedStatement::Prepare {
                name,
                types,
                statement,
            } => {
                self.check_new_statement(name)?;
                let types = types.iter().map(|it| types::oid(Some(*it)));
                let types: Vec<u32> = types.collect();
                let kind = StatementKind::of_store((**statement).clone());
                let prepared = self.prepare_kind(kind, text, &types).await?;
                self.keep_statement(name, prepared)?;
                Ok(Ran::Done("PREPARE".into()))
            }
            NamedStatement::Execute { name, arguments } => {
                let statement = Arc::clone(self.statement(name)?);
                let expected = statement.parameters.len();
                if arguments.len() != expected {
                    let text =
                        format!("wrong number of parameters for prepared statement \"{name}\"");
                    let found = arguments.len();
                    return Err(error(SYNTAX_ERROR, text)
                        .detail(format!("Expected {expected} parameters but got {found}."))
                        .into());
                }
                let types = statement.parameters.iter();
                let types = types.map(|it| it.declared.0);
                let types: Vec<ColumnType> = types.collect();
                let values = argument_values(arguments, &types, self.settings.zone());
                let values =
                    values.map_err(|fault| errors::report(&fault, text, StatementScope::Statement));
                let values = values?;
                let values = (&values[..], wanted);
                Box::pin(self.run(&statement.kind, &statement.text, values, out)).await
            }
            NamedStatement::Declare {
                name,
                is_held,
                select,
            } => {
                if !is_held && (self.sql.transaction().is_none() || self.is_implicit) {
                    let text = "DECLARE CURSOR can only be used in transaction blocks";
                    return Err(error("25P01", text).into());
                }
                self.check_new_portal(name)?;
                let kind = StatementKind::of_store((**select).clone());
                let values = (parameters, RowsWanted::Held);
                let ran = Box::pin(self.run(&kind, text, values, out)).await?;
                let Ran::Rows(rows, word) = ran else {
                    unreachable!("a SELECT that is held returns its rows")
                };
                self.declare(name, *is_held, (kind, text), (rows, word))?;
                Ok(Ran::Done("DECLARE CURSOR".into()))
            }
            NamedStatement::Fetch { name, rows, moves } => {
                self.begin_portal(name, out).await?;
                Ok(self.fetch(name, *rows, *moves)?)
            }
            NamedStatement::Close(None) => {
                self.portals.clear();
                Ok(Ran::Done("CLOSE CURSOR ALL".into()))
            }
            NamedStatement::Close(Some(name)) => match self.portals.remove(name) {
                Some(_) => Ok(Ran::Done("CLOSE CURSOR".into())),
                None => Err(no_cursor(name).into()),
            },
        }
    }

    /// Keeps the rows of a cursor.
    fn declare(
        &mut self,
        name: &str,
        is_held: bool,
        (kind, text): (StatementKind, &str),
        (rows, word): (ResultRows, String),
    ) -> Result<(), AnswerFailure> {
        let bytes = rows.rows.iter().map(|row| row_bytes(row)).sum();
        self.check_held(bytes)?;
        let statement = DescribedStatement {
            text: text.to_owned(),
            kind,
            parameters: Vec::new(),
            columns: Some(rows.columns.clone()),
            catalogue: None,
        };
        let suspended = SuspendedRows {
            columns: rows.columns,
            rows: rows.rows.into_iter(),
            bytes,
            word,
        };
        let portal = Portal {
            statement: Arc::new(statement),
            parameters: Vec::new(),
            catalogue_parameters: Vec::new(),
            formats: Vec::new(),
            progress: PortalProgress::Suspended(suspended),
            is_held,
            is_of_transaction: self.sql.transaction().is_some(),
        };
        self.portals.insert(name.to_owned(), portal);
        Ok(())
    }

    /// Runs the statement of a portal that a message Bind has made, and keeps its rows. Does
    /// nothing if the portal has begun, or is about the catalogue.
    async fn begin_portal<W: AsyncWrite + Unpin + Send>(
        &mut self,
        name: &str,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let Some(portal) = self.portals.get_mut(name) else {
            return Ok(());
        };
        let is_ready = matches!(portal.progress, PortalProgress::Ready);
        if !is_ready || matches!(portal.statement.kind, StatementKind::Catalogue(_)) {
            return Ok(());
        }
        portal.progress = PortalProgress::Done;
        let (statement, parameters) = (Arc::clone(&portal.statement), portal.parameters.clone());
        let values = (&parameters[..], RowsWanted::Held);
        let ran = Box::pin(self.run(&statement.kind, &statement.text, values, out)).await?;
        let Ran::Rows(rows, word) = ran else {
            return Ok(());
        };
        let bytes = rows.rows.iter().map(|row| row_bytes(row)).sum();
        self.check_held(bytes)?;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.progress = PortalProgress::Suspended(SuspendedRows {
                columns: rows.columns,
                rows: rows.rows.into_iter(),
                bytes,
                word,
            });
        }
        Ok(())
    }

    /// Returns or skips rows of a cursor.
    fn fetch(
        &mut self,
        name: &str,
        wanted: FetchedRows,
        moves: bool,
    ) -> Result<Ran, AnswerFailure> {
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        let most = match wanted {
            FetchedRows::UpTo(count) => usize::try_from(count).unwrap_or(usize::MAX),
            FetchedRows::All => usize::MAX,
            FetchedRows::Earlier => {
                let hint = "Fetch NEXT, FORWARD, a number of rows or ALL.";
                let report = error("55000", "cursor can only scan forward").hint(hint);
                return Err(report.into());
            }
        };
        let (columns, rows) = match &mut portal.progress {
            PortalProgress::Suspended(SuspendedRows { columns, rows, .. }) => {
                let rows: Vec<Vec<Value>> = rows.by_ref().take(most).collect();
                (columns.clone(), rows)
            }
            PortalProgress::SuspendedAnswer(rows) if moves => {
                let skipped = rows.by_ref().take(most).count();
                return Ok(Ran::Done(format!("MOVE {skipped}")));
            }
            PortalProgress::Ready | PortalProgress::SuspendedAnswer(_) => {
                let text = format!("FETCH from portal \"{name}\", which is about the catalogue,");
                let hint = "Send an Execute for it.";
                return Err(errors::unsupported(text, hint).into());
            }
            PortalProgress::Done => {
                let columns = portal.statement.columns.clone().unwrap_or_default();
                (columns, Vec::new())
            }
        };
        Ok(match moves {
            true => Ran::Done(format!("MOVE {}", rows.len())),
            false => Ran::Rows(ResultRows { columns, rows }, "FETCH".into()),
        })
    }
}
