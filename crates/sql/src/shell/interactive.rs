//! The shell at a terminal: prompts, editing over several lines, and a history.

use std::io::{self, Write};
use std::path::Path;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Completer, Config, Editor, Helper, Highlighter, Hinter};
use tokio::runtime::Runtime;

use super::{Shell, ShellOutput};
use crate::script::is_whole;
use crate::store::Store;

/// The most statements that the history keeps.
const HISTORY_MAX: usize = 10_000;

/// Knows when a statement is whole.
#[derive(Completer, Helper, Highlighter, Hinter)]
struct StatementValidator;

impl Validator for StatementValidator {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = context.input();
        let command = text.trim_start().starts_with('\\');
        Ok(if command || is_whole(text) {
            ValidationResult::Valid(None)
        } else {
            ValidationResult::Incomplete
        })
    }
}

/// Runs an interactive session until the user leaves. It must run in the runtime in which the
/// session's client was opened. `history` is the file of typed lines, if any.
///
/// # Errors
/// Errors of the terminal. A history that cannot be read or written is reported and is no error.
pub fn interactive<S: Store>(
    mut shell: Shell<S>,
    runtime: &Runtime,
    history: Option<&Path>,
) -> io::Result<()> {
    let config = Config::builder()
        .max_history_size(HISTORY_MAX)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(io::Error::other)?
        .build();
    let mut editor: Editor<StatementValidator, FileHistory> =
        Editor::with_config(config).map_err(io::Error::other)?;
    editor.set_helper(Some(StatementValidator));
    if let Some(path) = history {
        match editor.load_history(path) {
            Ok(()) => {}
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => note(&format!(
                "the history {} is not read: {error}",
                path.display()
            )),
        }
    }
    writeln!(
        io::stdout(),
        "Statements end with a semicolon. \\? for help, \\q to leave."
    )?;
    while !shell.is_over() {
        // As psql shows it.
        let prompt = match shell.session.transaction() {
            None => "replex=> ",
            Some(false) => "replex=*> ",
            Some(true) => "replex=!> ",
        };
        match editor.readline(prompt) {
            Ok(text) if text.trim().is_empty() => {}
            Ok(text) => {
                // A text that cannot be added to the history can still be run.
                let _ = editor.add_history_entry(text.trim_end());
                runtime.block_on(converse(&mut shell, &text))?;
            }
            // The typed text is discarded, as in psql.
            Err(ReadlineError::Interrupted) => {}
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    if let Some(path) = history
        && let Err(error) = editor.save_history(path)
    {
        note(&format!(
            "the history {} is not kept: {error}",
            path.display()
        ));
    }
    Ok(())
}

async fn converse<S: Store>(shell: &mut Shell<S>, text: &str) -> io::Result<()> {
    let mut out = io::stdout();
    let mut err = io::stderr();
    let mut output = ShellOutput {
        out: &mut out,
        err: &mut err,
    };
    // Between statements the editor sees ctrl-C itself.
    let ended = tokio::select! {
        ended = shell.typed(text, &mut output) => ended,
        _ = tokio::signal::ctrl_c() => {
            shell.session.fail_transaction();
            note(
                "Cancelled. Changes that were on their way may still be made: read before repeating \
                 them. An index goes on being made; DROP INDEX gives it up.",
            );
            return Ok(());
        }
    };
    match ended {
        Ok(()) | Err(super::ScriptError::Failed(_)) => Ok(()),
        Err(super::ScriptError::Output(error)) => Err(error),
    }
}

/// Writes a line to stderr, which may be closed.
fn note(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
