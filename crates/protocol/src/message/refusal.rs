//! Why a core did not do what a client asked for.

use alloc::string::String;
use core::fmt;

use super::SnapshotFailure;
use crate::codec::wire_enum;
use crate::identity::{Epoch, ServerId};

/// Why a core did not do it. The request may be sent again, after what each variant names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Fetch the configuration of this epoch or newer, then retry (R15).
    StaleEpoch {
        /// The table's epoch, as the core knows it; that of its configuration if it knows no such
        /// table.
        epoch: Epoch,
    },
    /// Not held by this core: the client's configuration is wrong or the core's is older; fetch.
    WrongPartition,
    /// It has restarted and is catching up, or its lease ran out; retry after a pause.
    NotServing,
    /// A queue is full; retry after a pause.
    Overloaded,
    /// No space for writes on this core or one that the write must reach. Not to be retried until
    /// an operator has made space.
    DiskFull {
        /// The server without space.
        server: ServerId,
    },
    /// The session has ended at the coordinator (R14); the request's fate is unknown if it
    /// had been sent before.
    SessionEnded,
    /// The number was used with another body (R13). Not to be retried.
    RequestMismatch,
    /// It cannot be done: malformed, or beyond a limit. Not to be retried.
    Invalid {
        /// For people.
        message: String,
    },
    /// It was begun here, and the partition has gone to another core since: it may have taken
    /// effect. Fetch, then send it there under its number (R13).
    Begun,
    /// A copy of the row is on a server that is down, and too many others are down for it to be
    /// replaced: start one of them.
    Lost {
        /// The server.
        server: ServerId,
        /// The request was begun: it may take effect once the server is back.
        begun: bool,
    },
    /// There is no such snapshot, or none can be opened now. Open another one.
    Snapshot(SnapshotFailure),
}

wire_enum!(Refusal {
    0 => StaleEpoch { epoch }, 1 => WrongPartition, 2 => NotServing, 3 => Overloaded,
    4 => DiskFull { server }, 5 => SessionEnded, 6 => RequestMismatch, 7 => Invalid { message },
    8 => Begun, 9 => Lost { server, begun }, 10 => Snapshot(failure),
});

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::StaleEpoch { epoch } => {
                write!(f, "the server is at configuration {}", epoch.0)
            }
            Refusal::WrongPartition => write!(f, "the server does not hold the partition"),
            Refusal::Lost { server, .. } => write!(
                f,
                "a copy of the row is on server {}, which is down, and too many others are",
                server.0
            ),
            Refusal::Begun => write!(f, "the server has handed the partition over meanwhile"),
            Refusal::NotServing => write!(f, "the server is not serving the partition now"),
            Refusal::Overloaded => write!(f, "the server is overloaded"),
            Refusal::DiskFull { server } => write!(f, "server {} has no space", server.0),
            Refusal::SessionEnded => write!(f, "the session has ended"),
            Refusal::RequestMismatch => write!(f, "the request's number is taken"),
            Refusal::Invalid { message } => f.write_str(message),
            Refusal::Snapshot(failure) => failure.fmt(f),
        }
    }
}
