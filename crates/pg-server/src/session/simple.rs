//! Strings of statements, which a client sends in one message.
//!
//! The statements of a string are one transaction, unless `BEGIN` and `COMMIT` in the string divide
//! it otherwise. A change of tables takes effect at once, and commits the changes before it.

use pg_wire::backend;
use pg_wire::report::Report;
use sql::Store;
use sql::statement::{Statement, TransactionMode, TransactionStatement};
use tokio::io::AsyncWrite;

use super::copy_in::CopyOrigin;
use super::extended::check_length;
use super::rows::{describe_columns, rows_tag, write_row};
use super::run::{Ran, RowsWanted};
use super::string::StatementString;
use super::{AnswerFailure, ClientSession};
use crate::errors::error;
use crate::output::ClientOutput;
use crate::statement::{StatementKind, check_columns};

impl<S: Store> ClientSession<S> {
    /// Runs the statements of a string.
    pub(super) async fn query<W: AsyncWrite + Unpin + Send>(
        &mut self,
        text: &str,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        // It begins with a clean slate, as in PostgreSQL.
        self.close_implicit(out).await?;
        self.statements.remove("");
        self.portals.remove("");
        check_length(text)?;
        let pieces = sql::split(text).map_err(|fault| crate::errors::syntax(&fault, text))?;
        let mut kinds = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            // Nothing runs if one of the statements is invalid.
            kinds.push(StatementKind::parse(piece, text, self.settings.zone())?);
        }
        drop(pieces);
        if kinds.is_empty() {
            backend::empty_query(&mut out.buffer);
            return Ok(());
        }
        let string = StatementString {
            text: text.to_owned(),
            kinds,
            next: 0,
        };
        self.run_string(string, out).await
    }

    /// Runs the statements of a string from the next one on. A COPY keeps the rest of the string
    /// until it has its data.
    pub(super) async fn run_string<W: AsyncWrite + Unpin + Send>(
        &mut self,
        mut string: StatementString,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        self.is_in_string = string.kinds.len() > 1;
        while let Some(kind) = string.kinds.get(string.next) {
            string.next += 1;
            self.check_not_failed(kind)?;
            let is_last = string.kinds[string.next..].iter().all(is_of_session);
            if kind.writes() && !is_last {
                self.open_implicit().await?;
            }
            match kind {
                StatementKind::Copy(copy) if kind.writes() => {
                    let copy = copy.clone();
                    return self
                        .begin_copy_in(&copy, CopyOrigin::String(string), out)
                        .await;
                }
                kind => self.run_of_string(kind, &string.text, out).await?,
            }
        }
        self.commit_implicit().await?;
        Ok(())
    }

    async fn run_of_string<W: AsyncWrite + Unpin + Send>(
        &mut self,
        kind: &StatementKind,
        text: &str,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        if self.is_implicit && self.makes_explicit(kind)? {
            backend::command_complete(&mut out.buffer, "BEGIN");
            return Ok(());
        }
        if let StatementKind::Catalogue(statement) = kind {
            return self.answer_of_string(statement, out).await;
        }
        let wanted = RowsWanted::Streamed {
            described: None,
            formats: &[],
        };
        match self.run(kind, text, (&[], wanted), out).await? {
            Ran::Rows(rows, word) => {
                check_columns(Some(&rows.columns))?;
                describe_columns(out, &rows.columns, &[]);
                let count = rows.rows.len();
                for row in rows.rows {
                    let columns = (&rows.columns[..], &[][..]);
                    write_row(&mut out.buffer, &row, columns, &self.settings.zone())?;
                    out.drain_if_long().await?;
                }
                backend::command_complete(&mut out.buffer, &rows_tag(&word, count));
            }
            ran => ran.complete(&mut out.buffer),
        }
        Ok(())
    }

    /// Returns whether a statement is a BEGIN, which makes the implicit transaction explicit.
    /// Refuses statements that need an explicit one.
    fn makes_explicit(&mut self, kind: &StatementKind) -> Result<bool, Report> {
        let StatementKind::Stored(stored) = kind else {
            return Ok(false);
        };
        match &stored.statement {
            Statement::Transaction(TransactionStatement::Begin(
                None | Some(TransactionMode::ReadWrite),
            )) => {
                self.is_implicit = false;
                Ok(true)
            }
            Statement::Transaction(TransactionStatement::Begin(Some(
                TransactionMode::ReadOnly,
            ))) => {
                let text = "BEGIN READ ONLY must come before statements that change rows";
                Err(error("25001", text))
            }
            Statement::Transaction(
                TransactionStatement::Savepoint(_)
                | TransactionStatement::Release(_)
                | TransactionStatement::RollbackTo(_),
            ) => Err(error(
                "25P01",
                "savepoints can only be used in transaction blocks",
            )),
            _ => Ok(false),
        }
    }
}

/// Returns whether a statement is about the session, so that it is no part of a transaction.
fn is_of_session(kind: &StatementKind) -> bool {
    matches!(kind, StatementKind::Empty | StatementKind::Session(_))
}
