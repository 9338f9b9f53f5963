//! A string of statements while it runs: a COPY in it waits for data before the rest can run.

use crate::statement::StatementKind;

/// A string of statements, some of which have run.
#[derive(Debug)]
pub(super) struct StatementString {
    /// The string itself.
    pub text: String,
    /// The statements.
    pub kinds: Vec<StatementKind>,
    /// The position of the statement to run next.
    pub next: usize,
}
