//! A simulated client's session: its next step, and the event that it waits for. The real code
//! records its writes.

use std::collections::VecDeque;

use super::primary::{Reads, Statement};
use proxy_core::freshness::{ConsistencyLevel, ReadMoment, ReadWatch, ReplicaId, ServerLife, Tsid};
use proxy_core::writes::SessionWrites;

/// A simulated session. Its writes are noted by the real code.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// The session's connection to the primary.
    pub backend: Option<i32>,
    pub writes: SessionWrites,
    pub doing: Doing,
}

/// The activity of a session.
#[derive(Debug, Default)]
pub(crate) enum Doing {
    /// The session's client requests nothing.
    #[default]
    Nothing,
    /// The session has sent a statement of its transaction.
    Statement {
        statement: Statement,
        /// The number of statements that will follow.
        more: u64,
        /// Whether the statement is a transaction of its own.
        alone: bool,
    },
    /// The session has sent COMMIT, or ROLLBACK.
    End { commits: bool },
    /// The session's commit is in the log, at this index.
    Logged(usize),
    /// The session has sent its marks.
    Marks(VecDeque<String>),
    /// The session's read waits for a replica that is fresh enough.
    Waits(Read, ReadMoment),
    /// The session's read waits for a connection.
    Asks(Read, Option<Chosen>),
    /// The session's read runs at a replica.
    Runs(Read, Chosen),
    /// The session's read has taken its snapshot at a replica, with the commits up to this
    /// position. The proxy has not received the answer yet.
    Answers(Read, Chosen, Tsid),
}

/// A read of a simulated client, from its begin to its answer.
#[derive(Debug)]
pub(crate) struct Read {
    pub reads: Reads,
    pub level: ConsistencyLevel,
    pub started: u64,
    /// Whether a read of the session takes its snapshot late.
    pub is_slow: bool,
    pub watch: Option<ReadWatch>,
}

/// A replica that was chosen for a read, with the life of its server at the choice and the life in
/// which the read runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    pub id: ReplicaId,
    pub need: Tsid,
    pub life: ServerLife,
    pub server: u64,
}
