//! The errors that the client returns, and which requests the caller may retry.
//!
//! A negative *decision* on a request (a duplicate key, a condition that did not hold) is no error.
//! It is a [`RequestResult`](crate::RequestResult), which the caller must check.

use std::fmt;

use placement::{ColumnType, KeyError, RowError, SchemaError};
use protocol::identity::ServerId;
use protocol::message::SnapshotFailure;
use session::SessionFailure;

/// The reason why a request failed, or why its outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// No coordinator answered in time. The caller may try again.
    NoCoordinator {
        /// Each address with its failure.
        tried: Vec<String>,
    },
    /// There was no result before the deadline, and nothing was changed. The caller may try again.
    Deadline {
        /// The requested item.
        what: String,
        /// The last obstacle, as far as it is known.
        reason: String,
    },
    /// The operation may have taken effect, or may still take effect. Read before you repeat it.
    Unknown {
        /// The requested item.
        what: String,
        /// Why its fate is not known.
        reason: String,
    },
    /// Too many requests wait in this client. Try again after some of them have ended.
    Full,
    /// A read needs rows whose copies are all on servers that are down. Or a write needs a copy on
    /// such a server, and too many servers are down to continue without it. Try again once one of
    /// them is back.
    Lost {
        /// The missing partition or server, and the remedy.
        message: String,
    },
    /// A server that must take part in a write has no disk space. Try again once it has.
    DiskFull {
        /// The server.
        server: ServerId,
    },
    /// The coordinator refused the request. Its message names the remedy.
    Refused {
        /// The text of the refusal.
        message: String,
        /// Whether the same request may succeed later without a change.
        retry: bool,
    },
    /// There is no such table. Do not repeat the request unchanged.
    NoTable {
        /// The name asked for.
        name: String,
        /// The tables of the cluster.
        tables: Vec<String>,
    },
    /// The table has other columns, or the index or other copy that the request reads was dropped.
    /// Look the table up again: this handle has the old definition.
    TableChanged {
        /// The table's name, or its number.
        table: String,
    },
    /// The table was dropped. Look it up by its name again.
    TableGone {
        /// The table's name, or its number where the name is not known.
        table: String,
    },
    /// The table has no such column. Do not repeat the request unchanged.
    UnknownColumn {
        /// The table.
        table: String,
        /// The name or the number asked for.
        column: String,
        /// The columns that there are.
        columns: Vec<String>,
    },
    /// The table has no such index. Do not repeat the request unchanged.
    UnknownIndex {
        /// The table.
        table: String,
        /// The name or the number asked for.
        index: String,
        /// The indexes that there are, each with its columns.
        indexes: Vec<String>,
    },
    /// The number of values does not fit the index. With too few values a lookup would have to read
    /// every partition. Do not repeat the request unchanged.
    IncompleteKey {
        /// The table.
        table: String,
        /// All columns of the key.
        columns: Vec<String>,
        /// How many of them, the first ones, need a value each.
        needed: usize,
        /// How many values were given.
        given: usize,
    },
    /// A value has another type than its column. Do not repeat the request unchanged.
    WrongType {
        /// The column.
        column: String,
        /// The column's type.
        expected: ColumnType,
        /// The value's type.
        found: ColumnType,
    },
    /// The values are invalid for a row of the table. Do not repeat the request unchanged.
    Row(RowError),
    /// The values are invalid for a key. Do not repeat the request unchanged.
    Key(KeyError),
    /// The schema is invalid. Do not repeat the request unchanged.
    Schema(SchemaError),
    /// A server rejected the request as invalid. Do not repeat the request unchanged.
    Invalid {
        /// The text of the error.
        message: String,
    },
    /// The server uses another version of the protocol. Use the same release on both sides.
    Protocol {
        /// The error's message.
        message: String,
    },
    /// No snapshot could be opened, or the snapshot has ended. The caller may begin the read again.
    Snapshot {
        /// Why.
        reason: SnapshotFailure,
    },
    /// The client was closed, or its runtime has ended.
    Closed,
}

/// Whether the caller may repeat a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The request would fail again in the same way.
    Never,
    /// Nothing was changed, and the request may succeed later.
    Later,
    /// The request may have taken effect: read first.
    AfterReading,
}

impl Error {
    /// Returns whether the caller may repeat the request, and when.
    pub fn retry(&self) -> Retry {
        match self {
            Error::Unknown { .. } => Retry::AfterReading,
            Error::NoCoordinator { .. }
            | Error::Deadline { .. }
            | Error::Full
            | Error::Lost { .. }
            | Error::DiskFull { .. }
            | Error::Snapshot { .. }
            | Error::Refused { retry: true, .. } => Retry::Later,
            Error::Refused { retry: false, .. }
            | Error::NoTable { .. }
            | Error::TableGone { .. }
            | Error::TableChanged { .. }
            | Error::UnknownColumn { .. }
            | Error::UnknownIndex { .. }
            | Error::IncompleteKey { .. }
            | Error::WrongType { .. }
            | Error::Row(_)
            | Error::Key(_)
            | Error::Schema(_)
            | Error::Invalid { .. }
            | Error::Protocol { .. }
            | Error::Closed => Retry::Never,
        }
    }

    /// Returns the error of a change that the coordinator has accepted, if a later step of the
    /// call failed with this error. Errors after which nothing was changed become
    /// [`Error::Unknown`].
    pub(crate) fn after_acceptance(self, what: &str) -> Error {
        match self {
            Error::NoCoordinator { .. } | Error::Deadline { .. } => Error::Unknown {
                what: what.to_owned(),
                reason: format!("the coordinator has accepted it, but then {self}"),
            },
            other => other,
        }
    }

    /// Returns the error for a failure of the session machine. `trouble` is the last error of a
    /// connection.
    pub(crate) fn from_failure(
        failure: SessionFailure,
        what: &str,
        trouble: Option<&str>,
    ) -> Error {
        match failure {
            SessionFailure::Deadline { .. } => {
                let trouble = trouble.map_or(String::new(), |trouble| format!(" ({trouble})"));
                Error::Deadline {
                    what: what.to_owned(),
                    reason: format!("{failure}{trouble}"),
                }
            }
            SessionFailure::Full => Error::Full,
            SessionFailure::Lost { message, .. } => Error::Lost { message },
            SessionFailure::ColumnsChanged { table } => Error::TableChanged {
                table: format!("number {}", table.0),
            },
            SessionFailure::TableGone { table } => Error::TableGone {
                table: format!("number {}", table.0),
            },
            SessionFailure::DiskFull { server } => Error::DiskFull { server },
            SessionFailure::Snapshot(reason) => Error::Snapshot { reason },
            SessionFailure::PlaceGone {
                partition: Some(partition),
            } => Error::TableChanged {
                table: format!("number {}", partition.table.0),
            },
            SessionFailure::PlaceGone { partition: None }
            | SessionFailure::SessionEnded
            | SessionFailure::RequestMismatch
            | SessionFailure::Invalid { .. } => Error::Invalid {
                message: failure.to_string(),
            },
        }
    }
}

/// Names that a message lists.
const LISTED_MAX: usize = 20;

/// Returns names for people: the first ones, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let first = names.iter().take(LISTED_MAX);
    let first: Vec<&str> = first.map(String::as_str).collect();
    match names.len().saturating_sub(LISTED_MAX) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

impl fmt::Display for Error {
    // tidy: long — a dispatching match: a text for each error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NoCoordinator { tried } => write!(
                f,
                "no coordinator answers: start one, or give its address ({})",
                tried.join("; ")
            ),
            Error::Snapshot { reason } => reason.fmt(f),
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
                "server {} has no room on its disk for this write; deletes and reads go on. Make room there, \
                 or start another server for its partitions to move to, then try again",
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
            Error::NoTable { name, tables } => {
                write!(f, "there is no table {name}: there are {}", listed(tables))
            }
            Error::TableChanged { table } => write!(
                f,
                "the copy of table {table} that was to be read by was dropped meanwhile: look the \
                 table up again"
            ),
            Error::TableGone { table } => write!(
                f,
                "table {table} was dropped meanwhile: look it up by its name again"
            ),
            Error::UnknownColumn {
                table,
                column,
                columns,
            } => write!(
                f,
                "table {table} has no column {column}: it has {}",
                columns.join(", ")
            ),
            Error::UnknownIndex {
                table,
                index,
                indexes,
            } => write!(
                f,
                "table {table} has no index {index}: it has {}",
                indexes.join(", ")
            ),
            Error::IncompleteKey {
                table,
                columns,
                needed,
                given,
            } => {
                let names = columns.join(", ");
                write!(f, "{given} values for the key ({names}) of table {table}: ")?;
                match *needed == columns.len() || given > &columns.len() {
                    true => write!(f, "give one for each column"),
                    false => write!(f, "give at least the first {needed}, or read a range"),
                }
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_lists_so_many_names() {
        let names = |count: usize| (0..count).map(|number| format!("t{number}")).collect();
        let error = |count| Error::NoTable {
            name: "t".to_owned(),
            tables: names(count),
        };
        assert!(error(20).to_string().ends_with("t18, t19"));
        assert!(
            error(10_000)
                .to_string()
                .ends_with("t18, t19 and 9980 more")
        );
    }
}
