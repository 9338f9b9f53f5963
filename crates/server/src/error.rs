//! The errors that end a server, or prevent its start.

use std::fmt;
use std::io;
use std::path::PathBuf;

use storage::StorageError;

/// The reason why a server ended or did not start. The process does not retry. Another start may
/// succeed once the cause is gone.
#[derive(Debug)]
pub enum ServerError {
    /// The operating system refused an action.
    Io {
        /// The failed action and its object.
        what: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The options do not fit together. Contains the file and the remedy.
    Options(String),
    /// A table could not be read. Memory no longer agrees with the log, so the process must stop.
    Tables(String),
    /// The log or the tables failed or cannot be opened. The process must stop (R23).
    Storage(StorageError),
    /// Another process has the folder open.
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// The number of the process that uses the folder, if it could be read.
        process: Option<u32>,
    },
    /// The contents of the folder are unusable. Contains the fault and the remedy. Nothing was
    /// changed.
    Folder(String),
    /// The coordinator refused. Contains its message.
    Refused(String),
    /// The process was asked to stop before it served.
    Stopped,
    /// A core's thread panicked because of a broken invariant, which is printed on stderr.
    Panicked,
}

impl ServerError {
    /// Returns a function for `map_err` that adds the failed action to an I/O error.
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
