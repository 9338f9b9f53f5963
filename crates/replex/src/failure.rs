//! The failures of a command: each has a message for people and an exit code for programs.

use std::fmt;

/// Why a command failed. `Display` shows the event, its object, and the remedy.
#[derive(Debug)]
pub enum CommandFailure {
    /// The command failed, or a check found a problem.
    Failed(String),
    /// The command line is wrong in a way that its grammar cannot detect.
    Usage(String),
    /// The cluster cannot be reached. The user may retry.
    Unreachable(String),
    /// Ctrl-C, SIGTERM or a closed terminal.
    Interrupted,
    /// The command was interrupted. Contains the work that it had completed.
    InterruptedAfter(String),
    /// The command failed, and has already printed the error.
    Reported,
    /// The reader of stdout has left, which is no failure; or it cannot be written, which the end
    /// of the command reports.
    OutputEnded,
}

impl CommandFailure {
    /// Returns a function for `map_err` that adds the action that failed.
    pub fn at<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> CommandFailure {
        move |error| CommandFailure::Failed(format!("cannot {what}: {error}"))
    }

    /// Returns the exit code, as `replex --help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            CommandFailure::OutputEnded => 0,
            CommandFailure::Failed(_) | CommandFailure::Reported => 1,
            CommandFailure::Usage(_) => 2,
            CommandFailure::Unreachable(_) => 3,
            CommandFailure::Interrupted | CommandFailure::InterruptedAfter(_) => 130,
        }
    }
}

impl fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandFailure::Failed(message)
            | CommandFailure::Usage(message)
            | CommandFailure::Unreachable(message) => f.write_str(message),
            CommandFailure::Interrupted => f.write_str("interrupted"),
            CommandFailure::InterruptedAfter(done) => write!(f, "interrupted: {done}"),
            CommandFailure::Reported | CommandFailure::OutputEnded => Ok(()),
        }
    }
}

impl std::error::Error for CommandFailure {}
