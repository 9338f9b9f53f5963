//! What can go wrong, and who may try again.
//!
//! What a request *decided* (a duplicate key, a condition that did not hold) is no error: it is a
//! [`RequestResult`](protocol::operation::RequestResult).

use std::fmt;

use placement::{ColumnType, KeyError, RowError, SchemaError};
use protocol::identity::ServerId;
use protocol::session::Failure;

/// Why something was not done, or is not known to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No coordinator answered in time. Try again once one does.
    NoCoordinator {
        /// Each address with what happened there.
        tried: Vec<String>,
    },
    /// No result came before the deadline, and certainly nothing was changed. May be tried again.
    Deadline {
        /// What was wanted.
        what: String,
        /// What stood in the way last, as far as is known.
        reason: String,
    },
    /// An operation may have happened, or may happen yet (SAFETY R14). Read before repeating it.
    Unknown {
        /// What was wanted.
        what: String,
        /// Why its fate is not known.
        reason: String,
    },
    /// Too many requests wait in this client. Try again after some have ended.
    Full,
    /// What was to be read is on servers that are down, in every copy, or a copy of what was to be
    /// written is, and too many are down to go on without them. Try again once one of them is back.
    Lost {
        /// What is missing, and what to do.
        message: String,
    },
    /// A server on the way of a write has no space. Try again once somebody has made space.
    DiskFull {
        /// The server.
        server: ServerId,
    },
    /// The coordinator did not do it, and says what to do.
    Refused {
        /// Its words.
        message: String,
        /// Whether the same request may succeed later by itself.
        retry: bool,
    },
    /// There is no such table. Not to be tried again as it is.
    NoTable {
        /// The name asked for.
        name: String,
        /// Those that there are.
        tables: Vec<String>,
    },
    /// The copy that was to be read by, an index or another one, is gone. Look the table up anew:
    /// this handle names what was there before.
    TableChanged {
        /// The table's name, or its number.
        table: String,
    },
    /// The table was dropped meanwhile; look it up by name anew.
    TableGone {
        /// Its name, or its number where the name is not known.
        table: String,
    },
    /// No such index, or not enough key values for it. Not to be tried again as it is.
    NoIndex {
        /// What is missing, and which indexes there are.
        message: String,
    },
    /// A value of another type than its column. Not to be tried again as it is.
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        expected: ColumnType,
        /// The value's type.
        found: ColumnType,
    },
    /// Values that make no row of the table. Not to be tried again as they are.
    Row(RowError),
    /// Values that make no key. Not to be tried again as they are.
    Key(KeyError),
    /// Not a table that can be. Not to be tried again as it is.
    Schema(SchemaError),
    /// A server said that it cannot be done, whoever asks. Not to be tried again as it is.
    Invalid {
        /// Its words.
        message: String,
    },
    /// The other side does not speak as this release does. Use the same release on both.
    Protocol {
        /// What it said.
        message: String,
    },
    /// The client was closed meanwhile, or the runtime that it was opened in has ended.
    Closed,
}

/// Whether to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It ends the same way again.
    Never,
    /// Nothing was changed, and it may succeed later.
    Later,
    /// It may have happened: find out first.
    AfterReading,
}

impl Error {
    /// Whether, and how, to try again.
    pub fn retry(&self) -> Retry {
        match self {
            Error::Unknown { .. } => Retry::AfterReading,
            Error::NoCoordinator { .. }
            | Error::Deadline { .. }
            | Error::Full
            | Error::Lost { .. }
            | Error::DiskFull { .. }
            | Error::Refused { retry: true, .. } => Retry::Later,
            Error::Refused { retry: false, .. }
            | Error::NoTable { .. }
            | Error::TableGone { .. }
            | Error::TableChanged { .. }
            | Error::NoIndex { .. }
            | Error::WrongType { .. }
            | Error::Row(_)
            | Error::Key(_)
            | Error::Schema(_)
            | Error::Invalid { .. }
            | Error::Protocol { .. }
            | Error::Closed => Retry::Never,
        }
    }

    /// From what the session machine says. `trouble` is what happened to connections last.
    pub(crate) fn from_failure(failure: Failure, what: &str, trouble: Option<&str>) -> Error {
        match failure {
            Failure::Deadline { .. } => {
                let trouble = trouble.map_or(String::new(), |trouble| format!(" ({trouble})"));
                Error::Deadline {
                    what: what.to_owned(),
                    reason: format!("{failure}{trouble}"),
                }
            }
            Failure::Full => Error::Full,
            Failure::Lost { message, .. } => Error::Lost { message },
            Failure::TableGone { table } => Error::TableGone {
                table: format!("number {}", table.0),
            },
            Failure::DiskFull { server } => Error::DiskFull { server },
            Failure::PlaceGone {
                partition: Some(partition),
            } => Error::TableChanged {
                table: format!("number {}", partition.table.0),
            },
            Failure::PlaceGone { partition: None }
            | Failure::SessionEnded
            | Failure::RequestMismatch
            | Failure::Invalid { .. } => Error::Invalid {
                message: failure.to_string(),
            },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoCoordinator { tried } => write!(
                f,
                "no coordinator answers: start one, or give its address ({})",
                tried.join("; ")
            ),
            Error::Deadline { what, reason } => {
                write!(f, "{what} was not done: {reason}; it may be tried again")
            }
            Error::Unknown { what, reason } => write!(
                f,
                "it is not known whether {what} was done: {reason}; read before repeating it"
            ),
            Error::Full => f.write_str(
                "too many requests wait in this client: submit fewer at a time, or raise \
                 requests_max",
            ),
            Error::DiskFull { server } => write!(
                f,
                "server {} has no space for writes: make space on its disk, then try again",
                server.0
            ),
            Error::Refused { message, .. }
            | Error::Invalid { message }
            | Error::Lost { message } => f.write_str(message),
            Error::NoTable { name, tables } if tables.is_empty() => {
                write!(
                    f,
                    "there is no table {name}, nor any other: create it first"
                )
            }
            Error::NoTable { name, tables } => write!(
                f,
                "there is no table {name}: there are {}",
                tables.join(", ")
            ),
            Error::TableChanged { table } => write!(
                f,
                "the copy of table {table} that was to be read by was dropped meanwhile: look the \
                 table up anew"
            ),
            Error::TableGone { table } => write!(
                f,
                "table {table} was dropped meanwhile: look it up by its name anew"
            ),
            Error::NoIndex { message } => f.write_str(message),
            Error::WrongType {
                column,
                expected,
                found,
            } => write!(
                f,
                "column {column} is of type {}, the value of type {}: convert it",
                expected.name(),
                found.name()
            ),
            Error::Row(error) => error.fmt(f),
            Error::Key(error) => error.fmt(f),
            Error::Schema(error) => error.fmt(f),
            Error::Protocol { message } => write!(
                f,
                "the other side speaks another language: {message}; use the same release on both"
            ),
            Error::Closed => f.write_str("the client is closed: open a new one"),
        }
    }
}

impl std::error::Error for Error {}

impl From<RowError> for Error {
    fn from(error: RowError) -> Error {
        Error::Row(error)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        Error::Key(error)
    }
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Error {
        Error::Schema(error)
    }
}
