//! The connection to a server that is attached, as far as the session knows it, and the exchange of
//! messages with that server.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use bytes::Bytes;

use super::action::{Action, Then, UnderWay};
use super::changes::{Changes, Keeping};
use super::client::ClientState;
use super::elsewhere::Batch;
use super::expected::{Expected, ReplyKind, ReplyQueue};
use super::numbers::Numbers;
use super::phase::Transaction;
use super::{Bound, Leftover, PORTALS_MAX};
use pg_wire::Malformed;
use pg_wire::message;

/// What the session knows of the server that is attached.
#[derive(Debug)]
pub(super) struct Link {
    pub role: Role,
    pub keeping: Keeping,
    /// The transaction's status that the server has reported last.
    pub status: Status,
    /// The replies that are to come.
    pub expected: ReplyQueue,
    pub flow: Flow,
    /// What the portals of the current transaction run.
    pub portals: BTreeMap<Bytes, Bound>,
    /// The rest of a long message, of each peer.
    pub client_rest: RestGoes,
    pub server_rest: RestGoes,
}

/// What the server is.
#[derive(Debug)]
pub(super) enum Role {
    Primary(OnPrimary),
    /// A replica, without which the session can go on.
    Replica(OnReplica),
}

/// What a session has on the primary.
#[derive(Debug)]
pub(super) struct OnPrimary {
    /// Its transaction was deferred, and is at READ COMMITTED, unless it has ended since.
    pub is_read_committed: bool,
    /// The server has announced that it ends the session.
    pub is_end_reported: bool,
}

impl OnPrimary {
    /// What a session has there whose transaction begins.
    pub fn new(is_read_committed: bool) -> OnPrimary {
        OnPrimary {
            is_read_committed,
            is_end_reported: false,
        }
    }
}

/// What a session has at a replica.
#[derive(Debug)]
pub(super) struct OnReplica {
    /// The numbers that tables have there.
    pub numbers: Numbers,
    pub runs: RunsThere,
}

/// What a replica runs for a session.
#[derive(Debug)]
pub(super) enum RunsThere {
    /// All of a transaction, which has taken its snapshot there.
    Snapshot,
    /// A batch of reads.
    Reads(Reads),
}

/// A batch of reads at a replica.
#[derive(Debug)]
pub(super) struct Reads {
    /// The transaction that the reads are of.
    pub transaction: Transaction,
    /// What is needed if they come back; none once they cannot, see `elsewhere`.
    pub batch: Option<Box<Batch>>,
}

/// How far a transaction is, as servers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// Outside of a transaction.
    Idle,
    /// Inside of a transaction.
    Inside,
    /// Inside of a transaction that has failed.
    Failed,
}

impl Status {
    /// Reads it from the body of ReadyForQuery.
    pub fn read(body: &[u8]) -> Option<Status> {
        match body {
            b"I" => Some(Status::Idle),
            b"T" => Some(Status::Inside),
            b"E" => Some(Status::Failed),
            _ => None,
        }
    }

    /// Returns the byte for it.
    pub fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::Inside => b'T',
            Status::Failed => b'E',
        }
    }
}

/// What becomes of what the client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It goes to the server.
    Forwards,
    /// A batch has failed: the server skips everything up to Sync, and so does the session.
    Skips,
    /// The server reads data of COPY.
    Copies {
        /// A Sync came meanwhile, which the server ignores.
        sync_ignored: bool,
    },
}

/// Where the rest of a long message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestGoes {
    On,
    Nowhere,
}

impl Link {
    /// A connection on which nothing has happened yet.
    pub fn new(role: Role, keeping: Keeping) -> Link {
        let status = match &role {
            Role::Replica(OnReplica {
                runs: RunsThere::Snapshot,
                ..
            }) => Status::Inside,
            Role::Primary(_) | Role::Replica(_) => Status::Idle,
        };
        Link {
            role,
            keeping,
            status,
            expected: ReplyQueue::default(),
            flow: Flow::Forwards,
            portals: BTreeMap::new(),
            client_rest: RestGoes::On,
            server_rest: RestGoes::On,
        }
    }

    /// Returns what the session wants next.
    pub fn next(&self) -> Action {
        let is_of_waiting = self.reads().is_some_and(|it| it.transaction.is_waiting());
        match &self.keeping {
            Keeping::Shared(_) if self.is_done() && is_of_waiting => Action::Return,
            Keeping::Shared(changes) if self.is_done() => Action::Over(Then::Release(*changes)),
            Keeping::Kept { .. } if self.is_done() && !is_of_waiting => Action::Over(Then::Keep),
            _ if self.may_pause() => Action::Pause,
            _ if self.is_copying() || !self.expected.awaits_ready() => Action::Exchange,
            _ => Action::Await,
        }
    }

    /// Is it between two batches of a transaction on the primary of which the next may run
    /// elsewhere?
    pub fn may_pause(&self) -> bool {
        let is_deferred = matches!(
            self.role,
            Role::Primary(OnPrimary {
                is_read_committed: true,
                is_end_reported: false
            })
        );
        let is_shared = matches!(self.keeping, Keeping::Shared(Changes::Nothing));
        let is_inside = self.status == Status::Inside && !self.is_copying();
        is_deferred && is_shared && is_inside && self.is_quiet()
    }

    /// Is nothing under way, in no transaction? Then the server can be taken from the session.
    pub fn is_done(&self) -> bool {
        self.status == Status::Idle && self.is_quiet()
    }

    /// Is everything answered, and no batch begun?
    pub fn is_quiet(&self) -> bool {
        self.expected.is_empty() && !self.is_within_batch()
    }

    /// Has a batch begun that Sync has not ended?
    pub fn is_within_batch(&self) -> bool {
        self.flow == Flow::Skips || self.expected.has_open_batch()
    }

    pub fn is_copying(&self) -> bool {
        matches!(self.flow, Flow::Copies { .. })
    }

    /// Returns what is left to do on the server if the session ended now.
    pub fn leftover(&self) -> Leftover {
        match self.status {
            _ if !self.is_quiet() => Leftover::Batch,
            Status::Idle => Leftover::Nothing,
            Status::Inside | Status::Failed => Leftover::Transaction,
        }
    }

    /// Returns of whom the server runs something, now or next.
    pub fn under_way(&self) -> UnderWay {
        match self.expected.front() {
            Some(front) if front.is_hidden && self.expected.has_seen() => {
                UnderWay::OwnBeforeClients
            }
            Some(front) if front.is_hidden => UnderWay::Own,
            _ => UnderWay::Clients,
        }
    }

    /// Can the session go on without the server, which is lost? It can without a replica that runs
    /// one batch, or has the snapshot of a transaction that is lost with it.
    pub fn may_be_lost(&mut self, is_snapshot_lost: bool) -> bool {
        if !self.is_on_replica() {
            return false;
        }
        self.expected.forget_hidden();
        let is_alone = self.status == Status::Idle || is_snapshot_lost;
        let has_more = self.keeping.is_kept() || self.is_copying();
        is_alone && !has_more && self.expected.is_one_batch()
    }

    pub fn is_on_replica(&self) -> bool {
        matches!(self.role, Role::Replica(_))
    }

    /// Has the session's transaction its snapshot here, at a replica?
    pub fn has_snapshot(&self) -> bool {
        matches!(
            self.role,
            Role::Replica(OnReplica {
                runs: RunsThere::Snapshot,
                ..
            })
        )
    }

    /// Has the server announced to the client that it ends the session?
    pub fn is_end_reported(&self) -> bool {
        matches!(&self.role, Role::Primary(primary) if primary.is_end_reported)
    }

    pub fn reads(&self) -> Option<&Reads> {
        match &self.role {
            Role::Replica(OnReplica {
                runs: RunsThere::Reads(reads),
                ..
            }) => Some(reads),
            Role::Primary(_) | Role::Replica(_) => None,
        }
    }

    pub fn reads_mut(&mut self) -> Option<&mut Reads> {
        match &mut self.role {
            Role::Replica(OnReplica {
                runs: RunsThere::Reads(reads),
                ..
            }) => Some(reads),
            Role::Primary(_) | Role::Replica(_) => None,
        }
    }

    /// Returns the batch that may come back from here.
    pub fn batch(&self) -> Option<&Batch> {
        self.reads()?.batch.as_deref()
    }

    pub fn batch_mut(&mut self) -> Option<&mut Batch> {
        self.reads_mut()?.batch.as_deref_mut()
    }

    /// Returns the transaction's status as it was reported to the client.
    pub fn reported_status(&self) -> Status {
        match self.reads() {
            Some(reads) if !reads.transaction.is_none() => reads.transaction.status(),
            _ => self.status,
        }
    }

    /// Notes that an error was sent to the client.
    pub fn transaction_fails(&mut self) {
        if let Some(reads) = self.reads_mut() {
            reads.transaction.fails();
        }
    }

    /// Does it know all portals that were made by Bind in its transaction?
    pub fn knows_portals(&self) -> bool {
        self.portals.len() < PORTALS_MAX
    }

    pub fn expect(&mut self, kind: ReplyKind) {
        self.expected.push(Expected::of(kind));
    }

    pub fn awaits(&self, kind: ReplyKind) -> bool {
        let front = self.expected.front();
        front.is_some_and(|reply| reply.kind == kind)
    }

    /// Takes the front of what is to come, which the server has replied to.
    pub fn take(&mut self, kind: ReplyKind) -> Result<Expected, Malformed> {
        match self.expected.pop() {
            Some(reply) if reply.kind == kind => Ok(reply),
            other => Err(Malformed(alloc::format!(
                "the server replied to {kind:?} where {:?} was to come",
                other.map(|reply| reply.kind)
            ))),
        }
    }

    /// Returns what the portal runs that an Execute message executes, if it was made by Bind.
    pub fn executed(&self, body: &[u8]) -> Result<Option<Bound>, Malformed> {
        let portal = message::executed_portal(body)?;
        Ok(self.portals.get(portal).cloned())
    }
}

/// A session and the server that is attached: messages go from one peer to the other.
pub(super) struct Exchange<'a> {
    pub client: &'a mut ClientState,
    pub link: &'a mut Link,
}
