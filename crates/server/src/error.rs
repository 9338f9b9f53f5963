//! What can end a server, or keep it from starting.

use std::fmt;
use std::io;

/// Why a server ended or did not start. None of these is retried by the process itself; a new
/// start may succeed once the cause is gone.
#[derive(Debug)]
pub enum ServerError {
    /// The operating system refused something.
    Io {
        /// What was being done, to what.
        what: String,
        /// What it said.
        source: io::Error,
    },
    /// The options do not fit together; says which and what to do.
    Options(String),
}

impl ServerError {
    /// For `map_err`: an I/O error with what was being done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        move |source| ServerError::Io {
            what: what.into(),
            source,
        }
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerError::Io { what, source } => write!(f, "cannot {what}: {source}"),
            ServerError::Options(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Io { source, .. } => Some(source),
            ServerError::Options(_) => None,
        }
    }
}
