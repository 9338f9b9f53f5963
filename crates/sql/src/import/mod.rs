//! CSV into a table, and a table into CSV.
//!
//! The header names the columns, in any order; a column that is missing gets its default. Fields
//! are read by the type of their column, as quoted literals are. An empty field is NULL where
//! that is allowed, else an empty text. Rows are operations of their own, many at a time, so an
//! import that was stopped can be run again with `--on-conflict skip`.

mod export;
mod header;
mod source;

use std::io::Read;
use std::sync::Arc;

use client::protocol::configuration::Configuration;
use client::protocol::operation::Mutation;
use futures_util::stream::{FuturesUnordered, StreamExt};
use indicatif::ProgressBar;

use crate::error::Error;
use crate::plan::has_dense;
use crate::run::Sender;
use crate::store::Store;
use header::Header;

pub use export::export;
pub use source::{decompressed, open, progress_bar};

/// Rows on their way at the same time, unless the options say otherwise.
pub const ROWS_IN_FLIGHT_DEFAULT: usize = 512;
/// The most bad lines that a summary tells one by one; the others are counted.
pub const BAD_LINES_TOLD_MAX: usize = 20;

/// How to import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// The table.
    pub table: String,
    /// What to do where the primary key exists.
    pub on_conflict: OnConflict,
    /// Whether to go on after a bad line.
    pub skip_errors: bool,
    /// A text that means NULL, beside the empty field.
    pub null: Option<String>,
    /// Rows on their way at the same time. A table with a dense index takes one at a time.
    pub in_flight: usize,
}

/// What to do with a row whose primary key exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It is a bad line.
    Error,
    /// The row that exists stays.
    Skip,
    /// The columns in the file overwrite those of the row that exists.
    Update,
}

impl std::str::FromStr for OnConflict {
    type Err = String;

    fn from_str(text: &str) -> Result<OnConflict, String> {
        match text {
            "error" => Ok(OnConflict::Error),
            "skip" => Ok(OnConflict::Skip),
            "update" => Ok(OnConflict::Update),
            other => Err(format!(
                "{other} is nothing to do on a conflict: write error, skip or update"
            )),
        }
    }
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Rows written: new ones, and with [`OnConflict::Update`] those that were there.
    pub written: u64,
    /// Rows left as they were ([`OnConflict::Skip`]).
    pub skipped: u64,
    /// Lines that were not imported because they are bad.
    pub bad: u64,
    /// The first of them, each with its line number from 1, the header included.
    pub bad_lines: Vec<(u64, Error)>,
}

/// Why an import stopped. Rows before it, and some after it, were written.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportError {
    /// The line, from 1, the header included; none if it was not about one.
    pub line: Option<u64>,
    /// What is wrong.
    pub error: Error,
    /// What was done nevertheless.
    pub summary: Box<Summary>,
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(
            f,
            "{} ({} rows had been written)",
            self.error, self.summary.written
        )
    }
}

impl std::error::Error for ImportError {}

impl ImportOptions {
    /// Into this table; a conflict or a bad line stops the import.
    pub fn new(table: impl Into<String>) -> ImportOptions {
        ImportOptions {
            table: table.into(),
            on_conflict: OnConflict::Error,
            skip_errors: false,
            null: None,
            in_flight: ROWS_IN_FLIGHT_DEFAULT,
        }
    }
}

/// Imports CSV with a header. The bar's message tells how many rows were written.
///
/// # Errors
/// [`ImportError`] for a header that does not fit, for the first bad line unless they are
/// skipped, and for whatever keeps the store from writing.
pub async fn import<S: Store>(
    store: &S,
    source: impl Read,
    options: &ImportOptions,
    progress: &ProgressBar,
) -> Result<Summary, ImportError> {
    let unread = |line, error| ImportError {
        line,
        error,
        summary: Box::default(),
    };
    let configuration = known_table(store, &options.table).await;
    let configuration = configuration.map_err(|error| unread(None, error))?;
    let table = configuration
        .table_named(&options.table)
        .expect("it was looked for");
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .from_reader(source);
    let mut record = csv::ByteRecord::new();
    let header = match reader.read_byte_record(&mut record) {
        Ok(true) => Header::read(table, &record, options),
        Ok(false) => Err(Error::statement(format!(
            "the file is empty: its first line must name columns of table {}",
            options.table
        ))),
        Err(error) => Err(Error::statement(error.to_string())),
    };
    let header = header.map_err(|error| unread(Some(1), error))?;
    let in_flight = if has_dense(&table.schema) {
        1
    } else {
        options.in_flight.max(1)
    };
    let sender = Sender { store, table };
    let mut sent = FuturesUnordered::new();
    let mut lines = Lines { reader, header };
    let mut tally = Tally::new(options.skip_errors);
    loop {
        while tally.failed.is_none() && sent.len() < in_flight {
            match lines.next() {
                None => break,
                Some((line, Ok(mutation))) => {
                    let write = sender.send(mutation);
                    sent.push(async move { (line, write.await) });
                }
                Some((line, Err(error))) => tally.bad_line(line, error),
            }
        }
        // Lines that were bad left no write behind, so nothing under way means nothing left.
        let Some((line, result)) = sent.next().await else {
            break;
        };
        tally.count(line, result.map_err(Error::from));
        if tally.summary.written.is_multiple_of(1000) {
            progress.set_message(format!("{} rows", tally.summary.written));
        }
    }
    progress.set_message(format!("{} rows", tally.summary.written));
    tally.end()
}

/// The lines after the header, as operations.
struct Lines<'a, R> {
    reader: csv::Reader<R>,
    header: Header<'a>,
}

impl<R: Read> Iterator for Lines<'_, R> {
    type Item = (u64, Result<Mutation, Error>);

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.reader.position().line();
        let mut record = csv::ByteRecord::new();
        match self.reader.read_byte_record(&mut record) {
            Ok(false) => None,
            Ok(true) => {
                let line = record.position().map_or(line, csv::Position::line);
                Some((line, self.header.mutation(&record)))
            }
            Err(error) => Some((line, Err(Error::statement(error.to_string())))),
        }
    }
}

/// What became of the lines so far.
struct Tally {
    summary: Summary,
    /// What ended the import.
    failed: Option<(u64, Error)>,
    skip_errors: bool,
}

impl Tally {
    fn new(skip_errors: bool) -> Tally {
        Tally {
            summary: Summary::default(),
            failed: None,
            skip_errors,
        }
    }

    /// Counts a line that was sent.
    fn count(&mut self, line: u64, result: Result<bool, Error>) {
        match result {
            Ok(true) => self.summary.written += 1,
            Ok(false) => self.summary.skipped += 1,
            Err(
                error @ (Error::Duplicate { .. } | Error::NotDense { .. } | Error::Invalid { .. }),
            ) => self.bad_line(line, error),
            // The store does not write: the next line would fare no better.
            Err(error) => {
                self.failed.get_or_insert((line, error));
            }
        }
    }

    /// Counts a bad line, or makes it the end of the import.
    fn bad_line(&mut self, line: u64, error: Error) {
        self.summary.bad += 1;
        if self.summary.bad_lines.len() < BAD_LINES_TOLD_MAX {
            self.summary.bad_lines.push((line, error.clone()));
        }
        if !self.skip_errors {
            self.failed.get_or_insert((line, error));
        }
    }

    fn end(mut self) -> Result<Summary, ImportError> {
        self.summary.bad_lines.sort_by_key(|(line, _)| *line);
        match self.failed {
            None => Ok(self.summary),
            Some((line, error)) => Err(ImportError {
                line: Some(line),
                error,
                summary: Box::new(self.summary),
            }),
        }
    }
}

/// A configuration that has the table.
async fn known_table<S: Store>(store: &S, table: &str) -> Result<Arc<Configuration>, Error> {
    let known = store.configuration();
    if known.table_named(table).is_some() {
        return Ok(known);
    }
    let newest = store.refresh().await?;
    if newest.table_named(table).is_some() {
        return Ok(newest);
    }
    Err(Error::UnknownTable {
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
