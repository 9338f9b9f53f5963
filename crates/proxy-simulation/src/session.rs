//! A client's session: its next step, and the event that it waits for. The real code notes its
//! writes.

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
    /// Its client asks for nothing.
    #[default]
    Nothing,
    /// It has sent a statement of its transaction.
    Statement {
        statement: Statement,
        /// How many more there will be.
        more: u64,
        /// Whether it is a transaction of its own.
        alone: bool,
    },
    /// It has sent COMMIT, or ROLLBACK.
    End { commits: bool },
    /// Its commit is in the log, at this place.
    Logged(usize),
    /// It has sent its marks.
    Marks(VecDeque<String>),
    /// Its read waits for a replica that is fresh enough.
    Waits(Read, ReadMoment),
    /// Its read waits for a connection.
    Asks(Read, Option<Chosen>),
    /// Its read runs at a replica.
    Runs(Read, Chosen),
    /// Its read has taken its snapshot there, which has this; the proxy has not received that yet.
    Answers(Read, Chosen, Tsid),
}

/// A read.
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
