//! `COPY … FROM STDIN`: the client's lines, or binary rows, become rows while they arrive.
//!
//! ```text
//! statement --> CopyInResponse --> CopyData … --CopyDone--> CommandComplete
//!                                     --CopyFail, error--> ErrorResponse
//! ```
//!
//! In a transaction the rows are part of it. Outside of one they are a transaction if they fit into
//! one, and otherwise several, one after the other. Invariants: the session holds at most the rows
//! of one transaction and one line. An error names the rows that were written before it. A
//! transaction is not ended early: a cancel request takes effect after it.

use std::io;
use std::time::Instant;

use pg_wire::backend;
use pg_wire::frontend::{ClientMessage, CopyMessage, WireFormat};
use pg_wire::report::{Report, Severity};
use protocol::operation::Mutation;
use sql::copy::{CopyBatch, CopyFault, CopyReader, CopyTarget};
use sql::statement::{CopyDirection, CopyFormat, CopyHeader, CopyStatement, Statement};
use sql::{RoleRights, Store, time_input};
use tokio::io::AsyncWrite;

use super::copy_binary::BinaryReader;
use super::run::Interruption;
use super::string::StatementString;
use super::{AnswerFailure, ClientSession, SessionFlow};
use crate::errors::{
    self, PROTOCOL_VIOLATION, QUERY_CANCELED, READ_ONLY, STATEMENT_UNKNOWN, StatementScope, error,
};
use crate::output::ClientOutput;

/// SQLSTATE: a warning.
const WARNING: &str = "01000";

/// A COPY whose data the client sends.
#[derive(Debug)]
pub struct CopyIn {
    target: CopyTarget,
    reader: DataReader,
    batch: CopyBatch,
    origin: CopyOrigin,
    begun: Instant,
    /// Whether the next line has the names of the columns.
    expects_header: bool,
    in_transaction: bool,
    /// The rows of all statements that have run.
    rows: u64,
    /// The lines up to the last row of the statements that have run.
    lines_written: u64,
    /// The lines up to the last row that was read before the present one.
    lines_read: u64,
    /// The statements that have run.
    batches: u64,
}

/// Reads the data of a client.
#[derive(Debug)]
enum DataReader {
    /// Lines of text or CSV.
    Lines(Box<CopyReader>),
    /// Rows in the binary format, each of which counts as a line.
    Binary(BinaryReader),
}

/// The message that has begun a COPY.
#[derive(Debug)]
pub enum CopyOrigin {
    /// A Query. The rest of its string follows.
    String(StatementString),
    /// An Execute.
    Portal,
}

impl<S: Store> ClientSession<S> {
    /// Begins a `COPY … FROM STDIN`.
    pub(super) async fn begin_copy_in<W: AsyncWrite + Unpin + Send>(
        &mut self,
        copy: &CopyStatement,
        origin: CopyOrigin,
        out: &mut ClientOutput<W>,
    ) -> Result<(), AnswerFailure> {
        let CopyDirection::From { table, columns } = &copy.direction else {
            unreachable!("callers run a COPY to the client at once")
        };
        self.sql.set_read_only(self.settings.is_read_only());
        if self.sql.is_read_only() {
            let text = "cannot execute COPY FROM in a read-only transaction";
            return Err(error(READ_ONLY, text).into());
        }
        self.follow_role()?;
        let input = time_input(self.settings.zone(), Some(sql::now_us()));
        let store = self.sql.store();
        let found = CopyTarget::find(store, table, columns.as_deref(), &copy.options, input);
        let target = found
            .await
            .map_err(|fault| errors::report(&fault, "", StatementScope::Statement))?;
        let rights = RoleRights::of(target.configuration(), self.sql.settings().role);
        let checked = rights.and_then(|it| it.check_copy_from(table, columns.as_deref()));
        checked.map_err(|fault| errors::report(&fault, "", StatementScope::Statement))?;
        let count = u16::try_from(target.fields()).expect("a table has fewer columns");
        let (reader, format) = match copy.options.format {
            CopyFormat::Binary => (DataReader::Binary(BinaryReader::new()), WireFormat::Binary),
            CopyFormat::Text | CopyFormat::Csv => {
                let reader = Box::new(CopyReader::new(copy.options.clone()));
                (DataReader::Lines(reader), WireFormat::Text)
            }
        };
        backend::copy_in_response(&mut out.buffer, count, format);
        // Earlier requests to cancel were about earlier statements.
        self.cancels.mark_unchanged();
        let in_transaction = self.sql.transaction().is_some();
        self.copy = Some(Box::new(CopyIn {
            batch: CopyBatch::new(&target, in_transaction),
            target,
            reader,
            origin,
            begun: Instant::now(),
            expects_header: copy.options.header != CopyHeader::No,
            in_transaction,
            rows: 0,
            lines_written: 0,
            lines_read: 0,
            batches: 0,
        }));
        Ok(())
    }

    /// Handles a message while a COPY expects data.
    pub(super) async fn during_copy<W: AsyncWrite + Unpin + Send>(
        &mut self,
        message: ClientMessage<'_>,
        out: &mut ClientOutput<W>,
    ) -> io::Result<SessionFlow> {
        let message = match message {
            ClientMessage::Copy(message) => message,
            // As PostgreSQL: a client need not know yet that the COPY has begun.
            ClientMessage::Flush | ClientMessage::Sync => return Ok(SessionFlow::Continue),
            message => {
                self.copy = None;
                let text = format!(
                    "unexpected message type 0x{:02X} during COPY from stdin",
                    tag(&message)
                );
                self.fail(error(PROTOCOL_VIOLATION, text).into(), out)
                    .await?;
                let text = "terminating connection because protocol synchronization was lost";
                Report::new(Severity::Fatal, PROTOCOL_VIOLATION, text).write(&mut out.buffer);
                return Ok(SessionFlow::End);
            }
        };
        let mut copy = self.copy.take().expect("callers have seen it");
        let handled = match message {
            CopyMessage::Data(data) => {
                copy.reader.push(data);
                self.read_copy(&mut copy).await.map(|()| false)
            }
            CopyMessage::Done => self.end_copy(&mut copy).await.map(|()| true),
            CopyMessage::Fail(reason) => {
                let text = format!("COPY from stdin failed: {reason}");
                let context = copy.context();
                Err(error(QUERY_CANCELED, text).within(context))
            }
        };
        match handled {
            Ok(false) => {
                self.copy = Some(copy);
                return Ok(SessionFlow::Continue);
            }
            Ok(true) => {
                self.write_notices(&mut out.buffer);
                if copy.batches > 1 {
                    self.warn_of_parts(&copy, out);
                }
                let rows = copy.rows;
                backend::command_complete(&mut out.buffer, &format!("COPY {rows}"));
            }
            Err(report) => {
                if copy.batches > 0 {
                    self.warn_of_parts(&copy, out);
                }
                let report = copy.with_written(report);
                self.fail(report.into(), out).await?;
                return Ok(match copy.origin {
                    CopyOrigin::Portal => SessionFlow::SkipToSync,
                    CopyOrigin::String(_) => {
                        self.ready(out);
                        SessionFlow::Continue
                    }
                });
            }
        }
        if let CopyOrigin::String(string) = copy.origin {
            let ran = self.run_string(string, out).await;
            self.end_string(ran, out).await?;
        }
        Ok(SessionFlow::Continue)
    }

    /// Reads the lines that have arrived.
    async fn read_copy(&mut self, copy: &mut CopyIn) -> Result<(), Report> {
        self.check_interrupted(copy)?;
        loop {
            copy.lines_read = copy.reader.lines();
            let prepared = copy.target.prepare(self.sql.store()).await;
            prepared.map_err(|error| copy.report_line(&error.into()))?;
            let Some(mutation) = copy.next_row()? else {
                return Ok(());
            };
            if let Some(full) = copy.batch.add(mutation) {
                self.send_copied(copy, full, copy.lines_read).await?;
                self.check_interrupted(copy)?;
            }
        }
    }

    /// Reads the rest of the lines, and sends the last rows.
    async fn end_copy(&mut self, copy: &mut CopyIn) -> Result<(), Report> {
        copy.reader.end();
        self.read_copy(copy).await?;
        match copy.batch.take() {
            Some(last) => self.send_copied(copy, last, copy.reader.lines()).await,
            None => Ok(()),
        }
    }

    /// Inserts rows, the last of which ends at this line.
    async fn send_copied(
        &mut self,
        copy: &mut CopyIn,
        rows: Statement,
        line: u64,
    ) -> Result<(), Report> {
        let Statement::InsertRows(new) = &rows else {
            unreachable!("a batch is an insertion of rows")
        };
        let count = new.rows.len() as u64;
        let sent = self.sql.run(&rows, &[]).await;
        sent.map_err(|fault| {
            let report = errors::report(&fault, "", StatementScope::Statement);
            report.within(format!(
                "COPY {}, lines {} to {line}",
                copy.target.table().1,
                copy.lines_written + 1
            ))
        })?;
        copy.rows += count;
        copy.lines_written = line;
        copy.batches += 1;
        Ok(())
    }

    /// Ends a COPY that was canceled, or has taken too long.
    fn check_interrupted(&mut self, copy: &CopyIn) -> Result<(), Report> {
        let limit = self.settings.statement_timeout();
        let is_late = limit.is_some_and(|limit| copy.begun.elapsed() > limit);
        // The sender lives as long as the session.
        let interruption = match self.cancels.has_changed().unwrap_or(false) {
            true => Interruption::Canceled,
            false if is_late => Interruption::TimedOut,
            false => return Ok(()),
        };
        Err(error(QUERY_CANCELED, interruption.text()).within(copy.context()))
    }

    /// Warns of a COPY that was no transaction.
    fn warn_of_parts(
        &mut self,
        copy: &CopyIn,
        out: &mut ClientOutput<impl AsyncWrite + Unpin + Send>,
    ) {
        if copy.in_transaction {
            return;
        }
        let transactions = match copy.batches {
            1 => "1 transaction".to_owned(),
            count => format!("{count} transactions"),
        };
        let text = format!(
            "the COPY was not atomic: {} rows were written in {transactions}, because one does not \
             take all rows",
            copy.rows
        );
        self.write_notice(Severity::Warning, WARNING, &text, &mut out.buffer);
    }
}

impl DataReader {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            DataReader::Lines(reader) => reader.push(bytes),
            DataReader::Binary(reader) => reader.push(bytes),
        }
    }

    fn end(&mut self) {
        match self {
            DataReader::Lines(reader) => reader.end(),
            DataReader::Binary(reader) => reader.end(),
        }
    }

    fn lines(&self) -> u64 {
        match self {
            DataReader::Lines(reader) => reader.lines(),
            DataReader::Binary(reader) => reader.rows(),
        }
    }
}

impl CopyIn {
    /// Returns the insertion of the next row; none if it has not arrived, or if there is none.
    fn next_row(&mut self) -> Result<Option<Mutation>, Report> {
        loop {
            let reader = match &mut self.reader {
                DataReader::Lines(reader) => reader,
                DataReader::Binary(reader) => {
                    let Some(values) = reader.next_row(&self.target)? else {
                        return Ok(None);
                    };
                    let mutation = self.target.mutation_of_values(values);
                    return match mutation {
                        Ok(mutation) => Ok(Some(mutation)),
                        Err(error) => Err(self.report_line(&error.into())),
                    };
                }
            };
            let fields = match reader.next_row() {
                Ok(Some(fields)) => fields,
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.report_line(&error.into())),
            };
            if std::mem::take(&mut self.expects_header) {
                let checked = self.target.check_header(&fields);
                checked.map_err(|error| self.report_line(&error.into()))?;
                continue;
            }
            let mutation = self.target.mutation(fields);
            return match mutation {
                Ok(mutation) => Ok(Some(mutation)),
                Err(fault) => Err(self.report_line(&fault)),
            };
        }
    }

    fn context(&self) -> String {
        let line = self.reader.lines() + 1;
        format!("COPY {}, line {line}", self.target.table().1)
    }

    /// Returns the report of a fault in the line that was read last.
    fn report_line(&self, fault: &CopyFault) -> Report {
        let report = errors::report(&fault.error, "", StatementScope::Statement);
        let line = self.reader.lines();
        let place = format!("COPY {}, line {line}", self.target.table().1);
        report.within(match fault.column.as_deref() {
            Some((column, field)) => {
                let shown: String = field.chars().take(100).collect();
                let more = if shown.len() < field.len() { "..." } else { "" };
                format!("{place}, column {column}: \"{shown}{more}\"")
            }
            None => match &self.reader {
                DataReader::Lines(reader) => format!("{place}: \"{}\"", reader.last_line()),
                DataReader::Binary(_) => place,
            },
        })
    }

    /// Adds to an error which rows were written in earlier transactions.
    fn with_written(&self, mut report: Report) -> Report {
        if self.in_transaction || self.batches == 0 {
            return report;
        }
        let written = format!(
            "{} rows were written before, those of the lines up to {}.",
            self.rows, self.lines_written
        );
        report.detail = match &*report.detail {
            "" => written,
            detail => format!("{detail}\n{written}"),
        };
        if report.code == STATEMENT_UNKNOWN {
            return report;
        }
        let hint = format!("Continue with line {} of the data.", self.lines_written + 1);
        report.hint = match &*report.hint {
            "" => hint,
            earlier => format!("{earlier} {hint}"),
        };
        report
    }
}

/// Returns the first byte of a message that no COPY expects.
fn tag(message: &ClientMessage<'_>) -> u8 {
    match message {
        ClientMessage::Query(_) => b'Q',
        ClientMessage::Parse { .. } => b'P',
        ClientMessage::Bind(_) => b'B',
        ClientMessage::Describe(_) => b'D',
        ClientMessage::Execute { .. } => b'E',
        ClientMessage::Close(_) => b'C',
        ClientMessage::Flush => b'H',
        ClientMessage::Sync => b'S',
        ClientMessage::FunctionCall => b'F',
        ClientMessage::Copy(_) => b'd',
        ClientMessage::Terminate => b'X',
    }
}
