//! Imports CSV into a table, and exports a table as CSV.
//!
//! The header names the columns, in any order; a column that is missing gets its default. Fields
//! are read by the type of their column, as quoted literals are. An empty field is NULL if the
//! column allows NULL, otherwise an empty string. Rows are operations of their own, many at a time.
//! An import that ended early reports from which line another one can continue.

mod batch;
mod export;
mod header;
mod ledger;
mod source;

use std::io::Read;
use std::sync::Arc;

use protocol::configuration::Configuration;
use protocol::operation::Mutation;

use futures_util::stream::{FuturesUnordered, StreamExt};
use indicatif::ProgressBar;

use crate::error::SqlError;
use crate::run::Sender;
use crate::store::Store;
use batch::{Batch, Collected};
use header::Header;
use ledger::Sends;

pub use export::{ExportState, ExportSummary, export};
pub use ledger::ImportLedger;
pub use source::{decompressed, open, progress_bar};

/// The number of rows that are in flight at the same time, unless the options set another one.
pub const ROWS_IN_FLIGHT_DEFAULT: usize = 4_000;
/// The number of transactions in which the rows in flight are sent.
pub const BATCHES_IN_FLIGHT: usize = 4;
/// The most invalid lines that a summary lists. The others are only counted.
pub const BAD_LINES_LISTED_MAX: usize = 20;

/// The options of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The table.
    pub table: String,
    /// The action for a row whose primary key exists already.
    pub on_conflict: ImportConflict,
    /// Whether to continue after an invalid line.
    pub skip_errors: bool,
    /// A string that means NULL, in addition to the empty field.
    pub null: Option<String>,
    /// The number of rows in flight at the same time. A table with a dense index allows one.
    pub in_flight: usize,
    /// The first line to import. The header is line 1; the lines between are skipped.
    pub from_line: u64,
}

/// The action for a row whose primary key exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportConflict {
    /// Treat the line as invalid.
    Error,
    /// Keep the existing row.
    Skip,
    /// Overwrite the columns of the existing row that the file has.
    Update,
}

impl std::str::FromStr for ImportConflict {
    type Err = String;

    fn from_str(text: &str) -> Result<ImportConflict, String> {
        match text {
            "error" => Ok(ImportConflict::Error),
            "skip" => Ok(ImportConflict::Skip),
            "update" => Ok(ImportConflict::Update),
            other => Err(format!(
                "{other} is nothing to do on a conflict: write error, skip or update"
            )),
        }
    }
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ImportSummary {
    /// The number of written rows: new ones, and with [`ImportConflict::Update`] existing ones.
    pub written: u64,
    /// The number of rows that were kept ([`ImportConflict::Skip`]).
    pub skipped: u64,
    /// The number of invalid lines, which were not imported.
    pub bad: u64,
    /// The first of these lines, each with its number from 1, counting the header.
    pub bad_lines: Vec<(u64, SqlError)>,
    /// The number of rows that were sent without an answer. They may be written or not.
    pub undecided: u64,
    /// The lowest line that may not be written. Another import can continue there, and finds some
    /// of the rows after it written.
    pub resume_line: u64,
}

/// The reason why an import stopped. Rows before it, and some after it, were written.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportError {
    /// The line number from 1, counting the header; none if the error concerns no line.
    pub line: Option<u64>,
    /// The error.
    pub error: SqlError,
    /// The summary of the imported rows.
    pub summary: Box<ImportSummary>,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        self.error.fmt(f)
    }
}

impl std::error::Error for ImportError {}

impl ImportOptions {
    /// Returns the options of an import into this table. A conflict or an invalid line stops the
    /// import.
    pub fn new(table: impl Into<String>) -> ImportOptions {
        ImportOptions {
            table: table.into(),
            on_conflict: ImportConflict::Error,
            skip_errors: false,
            null: None,
            in_flight: ROWS_IN_FLIGHT_DEFAULT,
            from_line: 1,
        }
    }
}

// tidy: long — the steps of an import in their order
/// Imports CSV with a header. The bar's message shows the number of written rows. The ledger has
/// the outcomes of the lines, even after the future was dropped.
///
/// # Errors
/// [`ImportError`] for a header that does not fit, for the first bad line unless bad lines are
/// skipped, and for every failure of the store.
pub async fn import<S: Store>(
    store: &S,
    source: impl Read,
    options: &ImportOptions,
    progress: &ProgressBar,
    ledger: &ImportLedger,
) -> Result<ImportSummary, ImportError> {
    let unread = |line, error| ImportError {
        line,
        error,
        summary: Box::new(ledger.summary()),
    };
    let known = known_table(store, &options.table).await;
    let configuration = known.map_err(|error| unread(None, error))?;
    let table = configuration
        .table_named(&options.table)
        .expect("it was looked for");
    let source = source::without_mark(source).map_err(|error| unread(Some(1), error))?;
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .from_reader(source);
    let mut record = csv::ByteRecord::new();
    let header = match reader.read_byte_record(&mut record) {
        Ok(true) => Header::read(table, &record, options),
        Ok(false) => Err(SqlError::statement(format!(
            "the file is empty: its first line must name columns of table {}",
            options.table
        ))),
        Err(error) => Err(SqlError::statement(error.to_string())),
    };
    let header = header.map_err(|error| unread(Some(1), error))?;
    let in_flight = options.in_flight.max(1);
    let (rows_max, batches_max) = batch::limits(&table.schema, in_flight);
    let sender = Sender {
        store,
        table,
        planned: configuration.epoch,
    };
    let mut collected = Collected::new(&configuration, table, rows_max.max(1));
    let mut sent = FuturesUnordered::new();
    let mut rows_sent = 0;
    let mut lines = Lines {
        reader,
        header,
        from_line: options.from_line,
        ledger,
    };
    loop {
        while rows_sent < in_flight && sent.len() < batches_max {
            let batch = lines.batch(&mut collected, in_flight, options.skip_errors);
            let Some(batch) = batch else {
                if !lines.header.defaults.lacks_values() {
                    break;
                }
                let drawn = lines.header.defaults.draw(store, &configuration).await;
                drawn.map_err(|error| unread(None, error))?;
                continue;
            };
            ledger.sent(batch.len());
            rows_sent += batch.len();
            sent.push(batch::send(&sender, batch));
        }
        // Lines that were bad left no write behind, so nothing under way means nothing left.
        let Some(answers) = sent.next().await else {
            break;
        };
        rows_sent -= answers.len();
        ledger.answered(answers, options.skip_errors);
        progress.set_message(format!("{} rows", ledger.summary().written));
    }
    progress.set_message(format!("{} rows", ledger.summary().written));
    ledger.end()
}

/// The lines after the header, as operations.
struct Lines<'a, R> {
    reader: csv::Reader<R>,
    header: Header<'a>,
    from_line: u64,
    ledger: &'a ImportLedger,
}

impl<R: Read> Lines<'_, R> {
    /// Reads lines until there are enough for a transaction. Bad lines are left out. None if no
    /// line is left, or no further one may be sent.
    fn batch(
        &mut self,
        collected: &mut Collected<'_>,
        rows_max: usize,
        skip_errors: bool,
    ) -> Option<Batch> {
        loop {
            match self.ledger.sends() {
                Sends::Nothing => return None,
                Sends::Before(end) => return collected.take_before(end),
                Sends::All => {}
            }
            if collected.rows() >= rows_max {
                return collected.take_largest();
            }
            // The caller draws values of sequences for further lines.
            if self.header.defaults.lacks_values() {
                return None;
            }
            match self.next() {
                None => return collected.take_largest(),
                Some((line, Ok(mutation))) => {
                    self.ledger.collected(line);
                    if let Some(batch) = collected.add(line, mutation) {
                        return Some(batch);
                    }
                }
                Some((line, Err(error))) => self.ledger.bad_line(line, error, skip_errors),
            }
        }
    }
}

impl<R: Read> Iterator for Lines<'_, R> {
    type Item = (u64, Result<Mutation, SqlError>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut record = csv::ByteRecord::new();
        loop {
            let start = self.reader.position().line();
            let read = self.reader.read_byte_record(&mut record);
            self.ledger.read(self.reader.position().line());
            let line = record.position().map_or(start, csv::Position::line);
            return match read {
                Ok(false) => None,
                Ok(true) if line < self.from_line => continue,
                Ok(true) => Some((line, self.header.mutation(&record))),
                // The file cannot be read on, unlike one with a line that is no CSV.
                Err(error) if error.is_io_error() => {
                    let error = format!("the file could not be read: {error}");
                    self.ledger.unreadable(start, SqlError::statement(error));
                    None
                }
                Err(error) => Some((start, Err(SqlError::statement(error.to_string())))),
            };
        }
    }
}

/// Returns a configuration that has the table.
pub(crate) async fn known_table<S: Store>(
    store: &S,
    table: &str,
) -> Result<Arc<Configuration>, SqlError> {
    let known = store.configuration();
    if known.table_named(table).is_some() {
        return Ok(known);
    }
    let newest = store.refresh().await?;
    if newest.table_named(table).is_some() {
        return Ok(newest);
    }
    Err(SqlError::UnknownTable {
        table: table.to_string(),
        tables: newest
            .tables
            .iter()
            .map(|it| it.schema.name.clone())
            .collect(),
    })
}

#[cfg(test)]
mod tests;
