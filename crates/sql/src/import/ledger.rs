//! Tracks the lines of an import while it runs, and the line from which another import can
//! continue.
//!
//! The ledger is shared with the caller, so that the caller can report it when the import ends
//! early, also while the import waits for its file or for the store.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{BAD_LINES_LISTED_MAX, ImportError, ImportSummary};
use crate::error::SqlError;

/// The line after the header, where rows begin.
const FIRST_LINE: u64 = 2;

/// The outcomes of the lines so far. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct ImportLedger(Arc<Mutex<Lines>>);

#[derive(Debug, Default)]
struct Lines {
    summary: ImportSummary,
    /// Lines that are to be sent, or have no answer yet.
    outstanding: BTreeSet<u64>,
    /// How many of them were not sent.
    collected: usize,
    /// Lines that another import has to read again: bad lines, and lines that the store did not
    /// answer or refused to write.
    to_repeat: BTreeSet<u64>,
    /// The line after the last line read.
    next: u64,
    /// The end of the import: the lowest line with a fault, and the fault.
    failed: Option<(u64, SqlError)>,
    /// Whether the store has failed.
    is_cut_off: bool,
}

/// The lines that an import may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sends {
    /// All lines.
    All,
    /// The lines before this one, which is bad.
    Before(u64),
    /// No line, because the store has failed.
    Nothing,
}

impl ImportLedger {
    /// Returns the current counts. `resume_line` is the lowest line that may not be written.
    pub fn summary(&self) -> ImportSummary {
        let lines = self.lines();
        let mut summary = lines.summary.clone();
        summary.undecided += (lines.outstanding.len() - lines.collected) as u64;
        summary.bad_lines.sort_by_key(|(line, _)| *line);
        let open = [lines.outstanding.first(), lines.to_repeat.first()];
        let lowest = open.into_iter().flatten().min().copied();
        summary.resume_line = lowest.unwrap_or(lines.next.max(FIRST_LINE));
        summary
    }

    /// Returns the lines that may still be sent.
    pub(super) fn sends(&self) -> Sends {
        let lines = self.lines();
        match &lines.failed {
            _ if lines.is_cut_off => Sends::Nothing,
            Some((line, _)) => Sends::Before(*line),
            None => Sends::All,
        }
    }

    /// Records that a line was read. The next one begins at `next`.
    pub(super) fn read(&self, next: u64) {
        self.lines().next = next;
    }

    /// Records a line that is to be sent.
    pub(super) fn collected(&self, line: u64) {
        let mut lines = self.lines();
        lines.outstanding.insert(line);
        lines.collected += 1;
    }

    /// Records that so many collected lines were sent to the store.
    pub(super) fn sent(&self, count: usize) {
        self.lines().collected -= count;
    }

    /// Records the answers to sent lines. With `skip_errors` the import continues after an invalid
    /// line.
    pub(super) fn answered(&self, answers: Vec<(u64, Result<bool, SqlError>)>, skip_errors: bool) {
        let mut lines = self.lines();
        for (line, result) in answers {
            lines.answered(line, result, skip_errors);
        }
    }

    /// Records a line that was invalid before it was sent.
    pub(super) fn bad_line(&self, line: u64, error: SqlError, skip_errors: bool) {
        self.lines().bad_line(line, error, skip_errors);
    }

    /// Records that the file cannot be read from this line on.
    pub(super) fn unreadable(&self, line: u64, error: SqlError) {
        self.lines().to_repeat.insert(line);
        self.lines().fail(line, error);
    }

    /// Returns the result of the import.
    pub(super) fn end(&self) -> Result<ImportSummary, ImportError> {
        let failed = self.lines().failed.clone();
        let summary = self.summary();
        match failed {
            None => Ok(summary),
            Some((line, error)) => Err(ImportError {
                line: Some(line),
                error,
                summary: Box::new(summary),
            }),
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // Each change leaves valid counts, also if a panic cut it short.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn answered(&mut self, line: u64, result: Result<bool, SqlError>, skip_errors: bool) {
        self.outstanding.remove(&line);
        match result {
            Ok(true) => self.summary.written += 1,
            Ok(false) => self.summary.skipped += 1,
            Err(
                error @ (SqlError::Duplicate { .. }
                | SqlError::NotDense { .. }
                | SqlError::Invalid { .. }
                | SqlError::CheckFailed { .. }
                | SqlError::ForeignKey { .. }),
            ) => self.bad_line(line, of_a_line(error), skip_errors),
            // The store does not write: the next line would fare no better.
            Err(error) => {
                self.summary.undecided +=
                    u64::from(matches!(error, SqlError::Store { unknown: true, .. }));
                self.to_repeat.insert(line);
                self.is_cut_off = true;
                self.fail(line, of_a_line(error));
            }
        }
    }

    /// Counts a bad line, or makes it the end of the import.
    fn bad_line(&mut self, line: u64, error: SqlError, skip_errors: bool) {
        self.summary.bad += 1;
        if self.summary.bad_lines.len() < BAD_LINES_LISTED_MAX {
            self.summary.bad_lines.push((line, error.clone()));
        }
        if !skip_errors {
            self.to_repeat.insert(line);
            self.fail(line, error);
        }
    }

    fn fail(&mut self, line: u64, error: SqlError) {
        if self.failed.as_ref().is_none_or(|(first, _)| line < *first) {
            self.failed = Some((line, error));
        }
    }
}

/// Returns an error of a statement with the remedy that an import has.
fn of_a_line(error: SqlError) -> SqlError {
    let remedy = match &error {
        SqlError::Duplicate { table, key, .. } if key.starts_with("primary key") => format!(
            "table {table} already has a row with {key}: correct the line, or choose the treatment \
             of such rows with --on-conflict skip or --on-conflict update"
        ),
        SqlError::Duplicate { table, key, .. } => format!(
            "table {table} already has another row with {key}: correct the line, or leave such \
             lines out with --skip-errors"
        ),
        SqlError::Conflict { table, .. } => format!(
            "other operations held the row of table {table} for too long, and it was not written: \
             go on with the import from this line"
        ),
        _ => return error,
    };
    SqlError::statement(remedy)
}
