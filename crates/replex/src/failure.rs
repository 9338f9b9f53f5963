//! How a command ends when it does not end well: one message for people, one exit code for
//! programs.

use std::fmt;

/// Why a command failed. `Display` says what happened, to what, and what to do.
#[derive(Debug)]
pub enum Failure {
    /// It did not work, or a check found something wrong.
    Failed(String),
    /// What was asked for cannot be: the command line is wrong in a way that its grammar cannot
    /// tell.
    Usage(String),
    /// The cluster cannot be reached; may be tried again.
    Unreachable(String),
    /// Ctrl-C or SIGTERM.
    Interrupted,
    /// Whoever reports it has said everything.
    Said,
}

impl Failure {
    /// For `map_err`: something with what was being done.
    pub fn at<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Failure {
        move |error| Failure::Failed(format!("cannot {what}: {error}"))
    }

    /// The exit code, as `replex --help` lists them.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Failed(_) | Failure::Said => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Interrupted => 130,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(message) | Failure::Usage(message) | Failure::Unreachable(message) => {
                f.write_str(message)
            }
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Said => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}
