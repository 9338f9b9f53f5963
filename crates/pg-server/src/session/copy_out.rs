//! `COPY … TO STDOUT`: the rows of a `SELECT`, each as a message with one line or binary row.
//!
//! The rows are sent while they are read if that is possible, and the read waits for the client.

use bytes::BytesMut;
use pg_wire::backend;
use pg_wire::frontend::WireFormat;
use pg_wire::report::Report;
use placement::{TimeZone, Value};
use sql::copy::CopyWriter;
use sql::statement::{CopyDirection, CopyFormat, CopyOptions, CopyStatement, Statement};
use sql::{OutputColumn, RowSink, SqlError, StatementOutcome, Store, StreamOutcome, sqlstate};
use tokio::io::AsyncWrite;

use super::copy_binary::BinaryWriter;
use super::run::interruptible;
use super::{AnswerFailure, ClientSession};
use crate::errors::{self, QUERY_CANCELED, StatementScope, error};
use crate::output::ClientOutput;
use crate::statement::check_columns;

/// Writes rows as the data of a COPY.
struct CopiedRows<'a, W> {
    out: &'a mut ClientOutput<W>,
    options: &'a CopyOptions,
    zone: TimeZone<'static>,
    /// It is there after the columns have come.
    writer: Option<DataWriter>,
    count: u64,
    /// Why the client takes no more rows.
    failure: Option<AnswerFailure>,
}

/// Writes data in the format of the statement, with the bytes that are not sent yet.
enum DataWriter {
    Lines(Box<CopyWriter>, Vec<u8>),
    Binary(BinaryWriter, BytesMut),
}

impl<W> CopiedRows<'_, W> {
    fn begin(&mut self, columns: &[OutputColumn]) -> Result<(), Report> {
        check_columns(Some(columns))?;
        for name in self.options.force_quote.names() {
            if !columns.iter().any(|column| column.name == *name) {
                let text = format!("FORCE_QUOTE column \"{name}\" not referenced by COPY");
                return Err(error(sqlstate::INVALID_REFERENCE, text));
            }
        }
        let count = u16::try_from(columns.len()).expect("it was checked");
        if self.options.format == CopyFormat::Binary {
            backend::copy_out_response(&mut self.out.buffer, count, WireFormat::Binary);
            let mut first = BytesMut::new();
            let writer = BinaryWriter::new(columns, &mut first);
            self.writer = Some(DataWriter::Binary(writer, first));
            return Ok(());
        }
        backend::copy_out_response(&mut self.out.buffer, count, WireFormat::Text);
        let writer = CopyWriter::new(self.options, columns, self.zone);
        let mut line = Vec::new();
        if writer.header(&mut line) {
            backend::copy_data(&mut self.out.buffer, &line);
        }
        self.writer = Some(DataWriter::Lines(Box::new(writer), line));
        Ok(())
    }

    fn write(&mut self, row: &[Value]) -> Result<(), Report> {
        match self.writer.as_mut().expect("the columns have come first") {
            DataWriter::Lines(writer, line) => {
                line.clear();
                writer.row(row, line);
                backend::copy_data(&mut self.out.buffer, line);
            }
            DataWriter::Binary(writer, begun) => {
                writer.row(row, begun)?;
                backend::copy_data(&mut self.out.buffer, begun);
                begun.clear();
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Ends the data.
    fn finish(&mut self) {
        if let Some(DataWriter::Binary(writer, begun)) = &mut self.writer {
            writer.end(begun);
            backend::copy_data(&mut self.out.buffer, begun);
        }
        backend::copy_done(&mut self.out.buffer);
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

impl<W: AsyncWrite + Unpin + Send> RowSink for CopiedRows<'_, W> {
    fn columns(&mut self, columns: &[OutputColumn]) -> Result<(), SqlError> {
        self.begin(columns).map_err(|report| self.end(report))
    }

    fn row(&mut self, row: &[Value]) -> Result<(), SqlError> {
        self.write(row).map_err(|report| self.end(report))
    }

    async fn ready(&mut self) -> Result<(), SqlError> {
        let drained = self.out.drain_if_long().await;
        drained.map_err(|error| self.end(error))
    }
}

impl<S: Store> ClientSession<S> {
    /// Runs a `COPY … TO STDOUT`. Returns its tag.
    pub(super) async fn copy_out<W: AsyncWrite + Unpin + Send>(
        &mut self,
        copy: &CopyStatement,
        text: &str,
        out: &mut ClientOutput<W>,
    ) -> Result<String, AnswerFailure> {
        let CopyDirection::To(select) = &copy.direction else {
            unreachable!("callers begin a COPY of the client's data")
        };
        let select = Statement::Select((**select).clone());
        let select = self.with_session_values(&select, &[], text)?;
        let mut rows = CopiedRows {
            out,
            options: &copy.options,
            zone: self.settings.zone(),
            writer: None,
            count: 0,
            failure: None,
        };
        let limit = self.settings.statement_timeout();
        let running = self.sql.run_into(&select, &[], &mut rows);
        let ended = interruptible(running, &mut self.cancels, limit).await;
        if let Some(failure) = rows.failure.take() {
            return Err(failure);
        }
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(interruption) => return Err(error(QUERY_CANCELED, interruption.text()).into()),
        };
        let outcome =
            outcome.map_err(|fault| errors::report(&fault, text, StatementScope::Statement))?;
        if let StreamOutcome::Held(StatementOutcome::Rows(held)) = outcome {
            rows.begin(&held.columns)?;
            for row in held.rows {
                rows.write(&row)?;
                rows.out.drain_if_long().await?;
            }
        }
        self.write_notices(&mut rows.out.buffer);
        rows.finish();
        let count = rows.count;
        Ok(format!("COPY {count}"))
    }
}
