//! The failures of a core's disk, and how the process and its operator must react.

use std::fmt;
use std::io;

/// An expected failure. The text says what happened, to which object, and what to do.
#[derive(Debug)]
pub enum StorageError {
    /// The operating system refused an action. While a store opens: remove the cause and start
    /// again. Later: the process must stop (R23).
    Io {
        /// The failed action and its file.
        action: String,
        /// The system's own words.
        source: io::Error,
    },
    /// Another process has the folder open. Start again when it has ended.
    Locked {
        /// The folder.
        folder: String,
        /// The other process, if it left its number.
        holder: Option<u32>,
    },
    /// A newer program wrote the folder. Nothing was changed. Start that program.
    NewerFormat {
        /// The file that shows it.
        file: String,
        /// The format that the file has.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The folder has a file of another log. Nothing was changed. An operator must find out why.
    Foreign {
        /// The file.
        file: String,
    },
    /// Required files are missing or unreadable. The partitions are lost: wipe the folder, and the
    /// server returns under a new incarnation (R16).
    Lost {
        /// The missing or unreadable file.
        what: String,
    },
    /// The record is too long for the log. The caller must split or refuse it.
    RecordTooLarge {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        bytes_max: usize,
    },
    /// A write or a flush failed, or a thread of the log ended with an error. The contents of the
    /// disk are unknown, and the process must stop. A restart reads the contents (R23).
    Fatal {
        /// The failed part.
        what: String,
    },
}

impl StorageError {
    /// Returns a function for `map_err` that adds the action that the operating system refused.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "could not {action}: {source}"),
            Self::Locked { folder, holder } => {
                write!(f, "folder {folder} is in use by ")?;
                match holder {
                    Some(process) => write!(f, "process {process}")?,
                    None => write!(f, "another process")?,
                }
                write!(f, "; stop it or choose another folder")
            }
            Self::NewerFormat { file, found, known } => write!(
                f,
                "{file} has format {found}, this program knows up to {known}; nothing was \
                 changed: start the newer program"
            ),
            Self::Foreign { file } => write!(
                f,
                "{file} belongs to another log; nothing was changed: move it aside, or open the \
                 folder it came from"
            ),
            Self::Lost { what } => write!(
                f,
                "{what}; wipe the folder to let the server return empty and be refilled"
            ),
            Self::RecordTooLarge { bytes, bytes_max } => write!(
                f,
                "a record of {bytes} bytes is longer than the log takes ({bytes_max})"
            ),
            Self::Fatal { what } => write!(
                f,
                "{what}; the process must stop, since the contents of the disk are unknown"
            ),
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
