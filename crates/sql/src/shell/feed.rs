//! Feeds a script to the shell, from a file at once or from a pipe piece by piece. Complete
//! statements are run, and the rest waits for more input.

use std::ops::Range;

use crate::parse::{ParseError, parse};
use crate::script::is_whole;
use crate::store::Store;

use super::{ScriptError, Shell, ShellOutput};

/// A script that is being read.
#[derive(Debug)]
pub struct ScriptFeed {
    /// The script's name in errors.
    name: String,
    /// Text that has come and was not run, from the start of a line.
    pending: Vec<u8>,
    /// The lines before that.
    lines_before: usize,
    /// Failures of the shell before the script.
    failures_before: usize,
}

/// Whether more of a script may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptInput {
    /// More may follow.
    Open,
    /// The script is complete.
    Ended,
}

impl<S: Store> Shell<S> {
    /// Returns a script for [`Shell::feed`]. Errors mention `name`, as `name:line`.
    pub fn feed_named(&self, name: &str) -> ScriptFeed {
        ScriptFeed {
            name: name.to_owned(),
            pending: Vec::new(),
            lines_before: 0,
            failures_before: self.failures,
        }
    }

    /// Adds the next part of a script, and runs the lines that are complete: up to a line that ends
    /// a statement, and at the end of the input all. Statements of one part are one batch, so
    /// `CREATE INDEX` may follow its `CREATE TABLE`. Returns whether the script continues.
    ///
    /// # Errors
    /// [`ScriptError::Output`]. A failure is written, and counted for [`Shell::end`].
    pub async fn feed(
        &mut self,
        feed: &mut ScriptFeed,
        piece: &[u8],
        input: ScriptInput,
        output: &mut ShellOutput<'_>,
    ) -> Result<bool, ScriptError> {
        feed.pending.extend_from_slice(piece);
        // A character may be cut in two, a line end is none of its bytes.
        let lines = match input {
            ScriptInput::Ended => feed.pending.len(),
            ScriptInput::Open => match feed.pending.iter().rposition(|byte| *byte == b'\n') {
                Some(last) => last + 1,
                None => return Ok(self.goes_on(feed.failures_before)),
            },
        };
        let text = match String::from_utf8(feed.pending[..lines].to_vec()) {
            Ok(text) => text,
            Err(error) => {
                let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                let line = feed.lines_before + line_ends(valid) + 1;
                let message = "the script is not UTF-8 from here on: convert it";
                let error = crate::SqlError::statement(message);
                self.fail(Some((&feed.name, line)), &error, output)?;
                return Ok(false);
            }
        };
        let run = self.run_lines(feed, &text, input, output).await?;
        feed.lines_before += line_ends(&text.as_bytes()[..run]);
        feed.pending.drain(..run);
        Ok(self.goes_on(feed.failures_before))
    }

    /// Ends a script.
    ///
    /// # Errors
    /// [`ScriptError::Failed`] if a statement failed, after its error was written.
    pub fn end(&self, feed: &ScriptFeed) -> Result<(), ScriptError> {
        match self.failures - feed.failures_before {
            0 => Ok(()),
            failures => Err(ScriptError::Failed(failures)),
        }
    }

    /// Runs the lines that are whole, and returns how many bytes they have. Lines that begin with a
    /// backslash are commands, the statements between two of them a batch.
    async fn run_lines(
        &mut self,
        feed: &ScriptFeed,
        text: &str,
        input: ScriptInput,
        output: &mut ShellOutput<'_>,
    ) -> Result<usize, ScriptError> {
        // The batch begins at `start`, and is whole up to `whole`.
        let (mut start, mut whole, mut position) = (0, 0, 0);
        for line in text.split_inclusive('\n') {
            let end = position + line.len();
            // A backslash inside an open statement or quote is part of it.
            let command = line.trim_start().starts_with('\\') && is_whole(&text[whole..position]);
            if command {
                self.batch(feed, text, start..position, output).await?;
                if !self.goes_on(feed.failures_before) {
                    return Ok(end);
                }
                let number = feed.lines_before + line_ends(&text.as_bytes()[..position]) + 1;
                self.command(line.trim(), Some((&feed.name, number)), output)
                    .await?;
                if !self.goes_on(feed.failures_before) {
                    return Ok(end);
                }
                (start, whole) = (end, end);
            } else if line.contains(';') && is_whole(&text[whole..end]) {
                whole = end;
            }
            position = end;
        }
        let end = match input {
            ScriptInput::Ended => text.len(),
            ScriptInput::Open => whole,
        };
        self.batch(feed, text, start..end, output).await?;
        Ok(end)
    }

    /// Runs the statements of a part of a text.
    async fn batch(
        &mut self,
        feed: &ScriptFeed,
        text: &str,
        part: Range<usize>,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        let lines_before = feed.lines_before + line_ends(&text.as_bytes()[..part.start]);
        let statements = match parse(&text[part]) {
            Ok(statements) => statements,
            Err(error) => {
                let ParseError { error, line } = error.moved_down(lines_before);
                self.session.fail_transaction();
                return self.fail(Some((&feed.name, line)), &error, output);
            }
        };
        for parsed in statements {
            if !self.goes_on(feed.failures_before) {
                break;
            }
            let place = Some((feed.name.as_str(), lines_before + parsed.line));
            self.statement(&parsed.statement, place, output).await?;
        }
        Ok(())
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}
