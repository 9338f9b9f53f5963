//! The reasons why a core refuses a client's request.

use alloc::string::String;
use core::fmt;

use crate::codec::wire_enum;
use crate::identity::{Epoch, ServerId};
use crate::snapshot::SnapshotFailure;

/// The reason why a core refused a request. Each variant says when the client may repeat it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The table's epoch differs. Fetch the configuration of this epoch or a newer one, then retry
    /// (R15).
    StaleEpoch {
        /// The table's epoch, as the core knows it. If the core does not know the table, the epoch
        /// of its configuration.
        epoch: Epoch,
    },
    /// This core does not hold the partition. The client's configuration is wrong, or the core's is
    /// older. Fetch the configuration.
    WrongPartition,
    /// The core is catching up after a restart, or its lease has ended. Retry after a pause.
    NotServing,
    /// A queue is full. Retry after a pause.
    Overloaded,
    /// This core, or another core that the write needs, has no disk space. Do not retry before an
    /// operator has made space.
    DiskFull {
        /// The server without space.
        server: ServerId,
    },
    /// The session has ended at the coordinator (R14). If the request was sent before, its outcome
    /// is unknown.
    SessionEnded,
    /// The number belongs to a request with another body (R13). Do not retry.
    RequestMismatch,
    /// The request is malformed or exceeds a limit. Do not retry.
    Invalid {
        /// For people.
        message: String,
    },
    /// The request began here, and the partition has moved to another core since. It may have taken
    /// effect. Fetch the configuration, then send the request to that core under its name (R13).
    Begun,
    /// A copy of the row is on a server that is down, and too many other servers are down to
    /// replace it. Start one of them.
    Lost {
        /// The server.
        server: ServerId,
        /// The request was begun: it may take effect once the server is back.
        begun: bool,
    },
    /// The snapshot does not exist, or none can be opened now. Open another one.
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
