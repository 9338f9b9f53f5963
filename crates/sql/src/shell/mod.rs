//! The SQL shell: runs statements and backslash commands, from a terminal or from a script.
//!
//! A script stops at the first statement that fails, unless set otherwise, and prints its line. At
//! a terminal it has line editing over several lines, a persistent history, and a prompt that shows
//! whether the statement is complete.

mod commands;
mod feed;
mod interactive;

use std::io::Write;
use std::time::Instant;

use crate::error::SqlError;
use crate::format::{OutputFormat, write_outcome};
use crate::parse::{ParseError, parse};
use crate::run::SqlSession;
use crate::statement::Statement;
use crate::store::Store;
use commands::Command;

pub use feed::{ScriptFeed, ScriptInput};
pub use interactive::interactive;

/// The options of the shell. Backslash commands change them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellOptions {
    /// The format of results.
    pub format: OutputFormat,
    /// Whether to print the duration of each statement.
    pub timing: bool,
    /// The action after a statement that failed.
    pub on_error: OnError,
}

/// The action after a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// End the script.
    Stop,
    /// Continue with the next statement. The script still fails at its end.
    Continue,
}

impl Default for ShellOptions {
    fn default() -> ShellOptions {
        ShellOptions {
            format: OutputFormat::Table,
            timing: false,
            on_error: OnError::Stop,
        }
    }
}

/// The outputs of the shell.
pub struct ShellOutput<'a> {
    /// The output of results.
    pub out: &'a mut dyn Write,
    /// The output of errors.
    pub err: &'a mut dyn Write,
}

impl std::fmt::Debug for ShellOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShellOutput")
    }
}

/// The failure of a script or of a user's input.
#[derive(Debug)]
pub enum ScriptError {
    /// This many statements or commands failed. The shell has printed the error of each.
    Failed(usize),
    /// The output cannot be written, for example to a closed pipe. The shell has not printed this
    /// error.
    Output(std::io::Error),
}

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ScriptError::Failed(1) => write!(f, "a statement failed"),
            ScriptError::Failed(count) => write!(f, "{count} statements failed"),
            ScriptError::Output(error) => write!(f, "the result could not be written: {error}"),
        }
    }
}

impl std::error::Error for ScriptError {}

impl From<std::io::Error> for ScriptError {
    fn from(error: std::io::Error) -> ScriptError {
        ScriptError::Output(error)
    }
}

/// An interactive shell or a script: a session, its options, and whether it has ended.
#[derive(Debug)]
pub struct Shell<S: Store> {
    session: SqlSession<S>,
    options: ShellOptions,
    over: bool,
    failures: usize,
}

impl<S: Store> Shell<S> {
    /// Returns a shell for a session.
    pub fn new(session: SqlSession<S>, options: ShellOptions) -> Shell<S> {
        Shell {
            session,
            options,
            over: false,
            failures: 0,
        }
    }

    /// Returns whether `\q` was entered.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Runs a script. Errors mention `name`, as `name:line`. Lines that begin with a backslash are
    /// commands. The statements between two of them are one batch, so `CREATE INDEX` may follow its
    /// `CREATE TABLE`.
    ///
    /// # Errors
    /// [`ScriptError::Failed`] if a statement failed, after its error was written.
    pub async fn script(
        &mut self,
        name: &str,
        text: &str,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        let mut feed = self.feed_named(name);
        self.feed(&mut feed, text.as_bytes(), ScriptInput::Ended, output)
            .await?;
        self.end(&feed)
    }

    /// Runs a user's input: statements or one command. Errors are printed without a line number,
    /// because the text is on the screen.
    ///
    /// # Errors
    /// As [`Shell::script`].
    pub async fn typed(
        &mut self,
        text: &str,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        let before = self.failures;
        if text.trim_start().starts_with('\\') {
            self.command(text, None, output).await?;
        } else {
            match parse(text) {
                Ok(statements) => {
                    for parsed in statements {
                        if self.goes_on(before) {
                            self.statement(&parsed.statement, None, output).await?;
                        }
                    }
                }
                Err(ParseError { error, .. }) => {
                    self.session.fail_transaction();
                    self.fail(None, &error, output)?;
                }
            }
        }
        match self.failures - before {
            0 => Ok(()),
            failures => Err(ScriptError::Failed(failures)),
        }
    }

    fn goes_on(&self, failures_before: usize) -> bool {
        let stops = self.failures > failures_before && self.options.on_error == OnError::Stop;
        !self.over && !stops
    }

    async fn statement(
        &mut self,
        statement: &Statement,
        place: Option<(&str, usize)>,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        let start = Instant::now();
        let outcome = self.session.run(statement, &[]).await;
        let took = start.elapsed();
        match outcome {
            Ok(outcome) => write_outcome(output.out, output.err, &outcome, self.options.format)?,
            Err(error) => self.fail(place, &error, output)?,
        }
        for notice in self.session.take_notices() {
            writeln!(output.err, "NOTICE:  {notice}")?;
        }
        if self.options.timing {
            // Programs read results, so the time goes beside them.
            let to: &mut dyn Write = match self.options.format {
                OutputFormat::Table => output.out,
                OutputFormat::Csv | OutputFormat::Json => output.err,
            };
            writeln!(to, "Time: {:.3} ms", took.as_secs_f64() * 1e3)?;
        }
        output.out.flush()?;
        output.err.flush()?;
        Ok(())
    }

    fn fail(
        &mut self,
        place: Option<(&str, usize)>,
        error: &SqlError,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        self.failures += 1;
        output.out.flush()?;
        if let Some((name, line)) = place {
            write!(output.err, "{name}:{line}: ")?;
        }
        writeln!(output.err, "ERROR: {error}")?;
        output.err.flush()?;
        Ok(())
    }

    async fn command(
        &mut self,
        line: &str,
        place: Option<(&str, usize)>,
        output: &mut ShellOutput<'_>,
    ) -> Result<(), ScriptError> {
        match commands::parse(line) {
            Ok(Command::Quit) => self.over = true,
            Ok(Command::Help) => write!(output.out, "{}", commands::HELP)?,
            Ok(Command::Show(show)) => {
                let statement = Statement::Show(show);
                self.statement(&statement, place, output).await?;
            }
            Ok(Command::Timing(on)) => {
                self.options.timing = on.unwrap_or(!self.options.timing);
                let state = if self.options.timing { "on" } else { "off" };
                if self.options.format == OutputFormat::Table {
                    writeln!(output.out, "Timing is {state}.")?;
                }
            }
            Ok(Command::Format(format)) => self.options.format = format,
            Err(message) => self.fail(place, &SqlError::statement(message), output)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
