//! The SQL shell: statements and backslash commands, from a person or from a script.
//!
//! A script stops at the first statement that fails, unless told otherwise, and says on which
//! line it stands. A person gets line editing over several lines, a history that stays, and a
//! prompt that says whether the statement is whole.

mod commands;
mod interactive;

use std::io::Write;
use std::time::Instant;

use crate::error::Error;
use crate::format::{Format, write_outcome};
use crate::parse::{ParseError, parse};
use crate::run::Session;
use crate::statement::Statement;
use crate::store::Store;
use commands::Command;

pub use interactive::interactive;

/// How the shell behaves; backslash commands change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How results are written.
    pub format: Format,
    /// Whether to tell how long each statement took.
    pub timing: bool,
    /// What to do after a statement that failed.
    pub on_error: OnError,
}

/// What to do after a statement that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Nothing more of the script is run.
    Stop,
    /// Go on with the next statement; the script fails at its end.
    Continue,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            format: Format::Table,
            timing: false,
            on_error: OnError::Stop,
        }
    }
}

/// Where the shell writes.
pub struct Output<'a> {
    /// Results.
    pub out: &'a mut dyn Write,
    /// Errors.
    pub err: &'a mut dyn Write,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Output")
    }
}

/// Why a script ended early or not wholly done. What failed was written already.
#[derive(Debug)]
pub enum ScriptError {
    /// So many statements failed.
    Failed(usize),
    /// Its output could not be written, as into a pipe that was closed.
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

/// A conversation: a session, how it is shown, and whether it is over.
#[derive(Debug)]
pub struct Shell<S> {
    session: Session<S>,
    options: Options,
    over: bool,
    failures: usize,
}

impl<S: Store> Shell<S> {
    /// A shell over a session.
    pub fn new(session: Session<S>, options: Options) -> Shell<S> {
        Shell {
            session,
            options,
            over: false,
            failures: 0,
        }
    }

    /// Whether `\q` was said.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Runs a script; `name` is told in errors, as `name:line`. Lines that begin with a backslash
    /// are commands; the statements between two of them are one batch, so that `CREATE INDEX`
    /// may follow its `CREATE TABLE`.
    ///
    /// # Errors
    /// [`ScriptError::Failed`] if a statement failed, after its error was written.
    pub async fn script(
        &mut self,
        name: &str,
        text: &str,
        output: &mut Output<'_>,
    ) -> Result<(), ScriptError> {
        let before = self.failures;
        let mut start = 0;
        let mut position = 0;
        for line in text.split_inclusive('\n') {
            let end = position + line.len();
            // A backslash inside an open statement or quote is part of it.
            let command = line.trim_start().starts_with('\\')
                && crate::script::is_whole(&text[start..position]);
            if command {
                self.batch(Some(name), text, start..position, output)
                    .await?;
                if !self.goes_on(before) {
                    break;
                }
                let number = text[..position].lines().count() + 1;
                self.command(line.trim(), Some((name, number)), output)
                    .await?;
                start = end;
                if !self.goes_on(before) {
                    break;
                }
            }
            position = end;
        }
        if self.goes_on(before) {
            self.batch(Some(name), text, start..text.len(), output)
                .await?;
        }
        match self.failures - before {
            0 => Ok(()),
            failures => Err(ScriptError::Failed(failures)),
        }
    }

    /// Runs what a person typed: statements or one command. Errors are told without a place,
    /// since the text is on the screen.
    ///
    /// # Errors
    /// As [`Shell::script`].
    pub async fn typed(&mut self, text: &str, output: &mut Output<'_>) -> Result<(), ScriptError> {
        let before = self.failures;
        if text.trim_start().starts_with('\\') {
            self.command(text, None, output).await?;
        } else {
            self.batch(None, text, 0..text.len(), output).await?;
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

    /// Runs the statements of a part of a text.
    async fn batch(
        &mut self,
        name: Option<&str>,
        text: &str,
        part: std::ops::Range<usize>,
        output: &mut Output<'_>,
    ) -> Result<(), ScriptError> {
        // Empty lines in place of what stands before, so that lines are counted from the start.
        let lines_before = text[..part.start].matches('\n').count();
        let padded = "\n".repeat(lines_before) + &text[part];
        let before = self.failures;
        let statements = match parse(&padded) {
            Ok(statements) => statements,
            Err(ParseError { error, line }) => {
                return self.fail(name.map(|name| (name, line)), &error, output);
            }
        };
        for parsed in statements {
            if !self.goes_on(before) {
                break;
            }
            let place = name.map(|name| (name, parsed.line));
            self.statement(&parsed.statement, place, output).await?;
        }
        Ok(())
    }

    async fn statement(
        &mut self,
        statement: &Statement,
        place: Option<(&str, usize)>,
        output: &mut Output<'_>,
    ) -> Result<(), ScriptError> {
        let start = Instant::now();
        let outcome = self.session.run(statement, &[]).await;
        let took = start.elapsed();
        match outcome {
            Ok(outcome) => write_outcome(output.out, &outcome, self.options.format)?,
            Err(error) => self.fail(place, &error, output)?,
        }
        if self.options.timing {
            // Programs read results, so the time goes beside them.
            let to: &mut dyn Write = match self.options.format {
                Format::Table => output.out,
                Format::Csv | Format::Json => output.err,
            };
            writeln!(to, "Time: {:.3} ms", took.as_secs_f64() * 1e3)?;
        }
        output.out.flush()?;
        Ok(())
    }

    fn fail(
        &mut self,
        place: Option<(&str, usize)>,
        error: &Error,
        output: &mut Output<'_>,
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
        output: &mut Output<'_>,
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
                if self.options.format == Format::Table {
                    writeln!(output.out, "Timing is {state}.")?;
                }
            }
            Ok(Command::Format(format)) => self.options.format = format,
            Err(message) => self.fail(place, &Error::Statement { message }, output)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
