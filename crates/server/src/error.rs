//! Errors that end a server, or keep it from starting.

use std::fmt;
use std::io;
use std::path::PathBuf;

use storage::StorageError;

/// Why a server ended or did not start. None of these is retried by the process itself; a new
/// start may succeed once the cause is gone.
#[derive(Debug)]
pub enum ServerError {
    /// The operating system refused something.
    Io {
        /// The failed action and its object.
        what: String,
        /// Its message.
        source: io::Error,
    },
    /// The options do not fit together. Contains the file and the remedy.
    Options(String),
    /// A table could not be read: memory no longer agrees with the log, and the process must stop
    /// rather than answer.
    Tables(String),
    /// The log or the tables cannot be opened, or failed: the process must stop (R23).
    Storage(StorageError),
    /// Another process has the folder open.
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// Its process number, if it could be read.
        process: Option<u32>,
    },
    /// The contents of the folder cannot be used. Contains the fault and the remedy. Nothing was
    /// changed.
    Folder(String),
    /// The coordinator refused; its words.
    Refused(String),
    /// The process was asked to stop before it served.
    Stopped,
    /// A core's thread panicked: a broken invariant, printed on stderr.
    Panicked,
}

impl ServerError {
    /// Returns a function for `map_err` that adds the action that failed to an I/O error.
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
            ServerError::Options(message)
            | ServerError::Tables(message)
            | ServerError::Folder(message) => f.write_str(message),
            ServerError::FolderInUse { folder, process } => {
                write!(f, "the folder {} is in use by ", folder.display())?;
                match process {
                    Some(process) => write!(f, "process {process}")?,
                    None => write!(f, "another process")?,
                }
                write!(f, ": stop that one, or name another folder")
            }
            ServerError::Storage(error) => write!(f, "{error}"),
            ServerError::Refused(message) => write!(f, "the coordinator refused: {message}"),
            ServerError::Stopped => write!(f, "stopped before it served"),
            ServerError::Panicked => write!(
                f,
                "a core came upon a broken invariant and stopped: its message is above; report it"
            ),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServerError::Io { source, .. } => Some(source),
            ServerError::Storage(error) => Some(error),
            _ => None,
        }
    }
}
