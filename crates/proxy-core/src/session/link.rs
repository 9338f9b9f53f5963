//! The session's view of its connection to a server, and the exchange of messages with that server.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use bytes::Bytes;

use super::action::{AfterTransaction, BatchTransaction, RunningOwner, SessionAction};
use super::batch::RetryableBatch;
use super::client::ClientState;
use super::deferral::{DeferredBlock, SnapshotScope};
use super::expected::{ExpectedReply, ReplyKind, ReplyQueue, TransactionStatus};
use super::gates::Gates;
use super::pin_state::{PinState, SettingChanges};
use super::table_oids::TableOidMap;
use super::{BoundStatement, PORTALS_MAX, PreparedStatement, SessionLeftover};
use pg_wire::Malformed;
use pg_wire::message;
use pg_wire::report::Report;

/// The session's view of its attached server.
#[derive(Debug)]
pub(super) struct ServerLink {
    pub role: AttachedRole,
    pub keeping: PinState,
    /// The transaction's status that the server reported last.
    pub status: TransactionStatus,
    /// The outstanding replies.
    pub expected: ReplyQueue,
    pub flow: ClientFlow,
    /// The statements of the current transaction's portals.
    pub portals: BTreeMap<Bytes, BoundStatement>,
    /// Bytes that wait for an answer of the server.
    pub gates: Gates,
    pub descriptions: Descriptions,
    /// The destination of the rest of a long message of the client. The next field is the same for
    /// the server.
    pub client_rest: RestDestination,
    pub server_rest: RestDestination,
}

/// The parts of a description that have arrived or must still be requested.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    /// The statement that was just prepared and is not described yet, with the client's name.
    pub undescribed: Option<(Bytes, Arc<PreparedStatement>)>,
    /// The body of the last ParameterDescription.
    pub parameters: Bytes,
}

/// The role of the attached server.
#[derive(Debug)]
pub(super) enum AttachedRole {
    Primary(PrimaryState),
    /// A replica. The session can continue without it.
    Replica(ReplicaSide),
}

/// The session's state on the primary.
#[derive(Debug)]
pub(super) struct PrimaryState {
    /// Whether the session's transaction was deferred, is at READ COMMITTED, and has not ended.
    pub is_read_committed: bool,
    /// Whether the server has announced that it ends the session.
    pub is_end_reported: bool,
}

impl PrimaryState {
    /// Returns the state on the primary of a session whose transaction begins.
    pub fn new(is_read_committed: bool) -> PrimaryState {
        PrimaryState {
            is_read_committed,
            is_end_reported: false,
        }
    }
}

/// The session's state at a replica.
#[derive(Debug)]
pub(super) struct ReplicaSide {
    /// The OIDs of tables at the attached server.
    pub numbers: TableOidMap,
    pub runs: ReplicaWork,
}

/// The work of a replica for a session.
#[derive(Debug)]
pub(super) enum ReplicaWork {
    /// A whole transaction, which has taken its snapshot there.
    Snapshot,
    /// A batch of reads.
    Reads(ReplicaReads),
}

/// A batch of reads at a replica.
#[derive(Debug)]
pub(super) struct ReplicaReads {
    /// The transaction of the reads.
    pub transaction: DetachedTransaction,
    /// The data for another run on the primary; none once that is impossible, see `replica_reads`.
    pub batch: Option<Box<RetryableBatch>>,
}

/// A transaction that the client has begun, but that is not on the attached server.
#[derive(Debug, Default)]
pub(super) enum DetachedTransaction {
    /// There is none.
    #[default]
    None,
    /// It is on no server.
    Deferred(DeferredBlock),
    /// It is on the primary. Its next batch is incomplete, or runs at a replica.
    Waiting(Box<WaitingTransaction>),
}

impl DetachedTransaction {
    /// Returns the status of the transaction, as it was reported to the client.
    pub fn status(&self) -> TransactionStatus {
        match self {
            DetachedTransaction::None => TransactionStatus::Idle,
            DetachedTransaction::Deferred(block) if block.is_failed => TransactionStatus::Failed,
            DetachedTransaction::Deferred(_) | DetachedTransaction::Waiting(_) => {
                TransactionStatus::Inside
            }
        }
    }

    pub fn is_none(&self) -> bool {
        matches!(self, DetachedTransaction::None)
    }

    pub fn is_waiting(&self) -> bool {
        matches!(self, DetachedTransaction::Waiting(_))
    }

    /// Returns the transaction of a batch that waits for a server.
    pub fn batch_in(&self) -> BatchTransaction {
        match self {
            DetachedTransaction::None => BatchTransaction::NoTransaction,
            DetachedTransaction::Deferred(block) => match block.snapshots {
                SnapshotScope::OfStatements => BatchTransaction::Deferred,
                SnapshotScope::OfTransaction => BatchTransaction::Snapshot,
            },
            DetachedTransaction::Waiting(_) => BatchTransaction::Waiting,
        }
    }

    /// Records that the client got an error.
    pub fn fails(&mut self) {
        if let DetachedTransaction::Deferred(block) = self {
            block.fails();
        }
    }

    /// Returns the error because of which nothing more runs in the transaction; none if it has not
    /// failed.
    pub fn failure(&self) -> Option<Report> {
        match self {
            DetachedTransaction::Deferred(block) => block.failure(),
            DetachedTransaction::None | DetachedTransaction::Waiting(_) => None,
        }
    }

    /// Returns whether the transaction has failed on no server, and the client got the error.
    pub fn has_failed_here(&self) -> bool {
        matches!(self, DetachedTransaction::Deferred(block) if block.is_reported())
    }

    /// Returns the unfinished work on the attached server.
    pub fn leftover(&self) -> SessionLeftover {
        match self {
            DetachedTransaction::Waiting(_) => SessionLeftover::Transaction,
            DetachedTransaction::None | DetachedTransaction::Deferred(_) => {
                SessionLeftover::Nothing
            }
        }
    }
}

/// A transaction that waits on the primary. Its next batch is incomplete, or runs at a replica.
#[derive(Debug)]
pub(super) struct WaitingTransaction {
    /// The connection to the primary.
    pub link: ServerLink,
    /// Whether the unnamed portal on the primary is not the client's present one any more.
    pub portal_is_old: bool,
}

/// The destination of the client's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientFlow {
    /// The client's messages go to the server.
    Forwards,
    /// A batch has failed: the server and the session skip everything up to Sync.
    Skips,
    /// The server reads data of COPY.
    Copies {
        /// A Sync came meanwhile, which the server ignores.
        sync_ignored: bool,
    },
}

/// The destination of the rest of a long message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestDestination {
    On,
    Nowhere,
}

impl ServerLink {
    /// Returns a connection without messages so far.
    pub fn new(role: AttachedRole, keeping: PinState) -> ServerLink {
        let status = match &role {
            AttachedRole::Replica(ReplicaSide {
                runs: ReplicaWork::Snapshot,
                ..
            }) => TransactionStatus::Inside,
            AttachedRole::Primary(_) | AttachedRole::Replica(_) => TransactionStatus::Idle,
        };
        ServerLink {
            role,
            keeping,
            status,
            expected: ReplyQueue::default(),
            flow: ClientFlow::Forwards,
            portals: BTreeMap::new(),
            gates: Gates::default(),
            descriptions: Descriptions::default(),
            client_rest: RestDestination::On,
            server_rest: RestDestination::On,
        }
    }

    /// Returns the session's next action.
    pub fn next(&self) -> SessionAction {
        let is_of_waiting = self.reads().is_some_and(|it| it.transaction.is_waiting());
        match &self.keeping {
            PinState::Shared(_) if self.is_done() && is_of_waiting => SessionAction::Return,
            PinState::Shared(changes) if self.is_done() => {
                SessionAction::Over(AfterTransaction::Release(*changes))
            }
            PinState::Kept { .. } if self.is_done() && !is_of_waiting => {
                SessionAction::Over(AfterTransaction::Keep)
            }
            _ if self.gates.are_closed() => SessionAction::AwaitCheck,
            _ if self.may_pause() => SessionAction::Pause,
            _ if self.is_copying() || !self.expected.awaits_ready() => SessionAction::Exchange,
            _ => SessionAction::Await,
        }
    }

    /// Returns whether the session is between two batches of a transaction on the primary, and the
    /// next batch may run at a replica.
    pub fn may_pause(&self) -> bool {
        let is_deferred = matches!(
            self.role,
            AttachedRole::Primary(PrimaryState {
                is_read_committed: true,
                is_end_reported: false
            })
        );
        let is_shared = matches!(self.keeping, PinState::Shared(SettingChanges::Nothing));
        let is_inside = self.status == TransactionStatus::Inside && !self.is_copying();
        is_deferred && is_shared && is_inside && self.is_quiet()
    }

    /// Returns whether nothing is outstanding and no transaction is open. Then the session can
    /// release the server.
    pub fn is_done(&self) -> bool {
        self.status == TransactionStatus::Idle && self.is_quiet()
    }

    /// Returns whether the server has answered all messages, and no batch has begun.
    pub fn is_quiet(&self) -> bool {
        self.expected.is_empty() && !self.is_within_batch()
    }

    /// Returns whether a batch has begun that Sync has not ended.
    pub fn is_within_batch(&self) -> bool {
        self.flow == ClientFlow::Skips || self.expected.has_open_batch()
    }

    /// Records that the server reads data of COPY.
    pub fn copies(&mut self) {
        if !self.is_copying() {
            self.flow = ClientFlow::Copies {
                sync_ignored: false,
            };
        }
    }

    pub fn is_copying(&self) -> bool {
        matches!(self.flow, ClientFlow::Copies { .. })
    }

    /// Returns the work that would be unfinished on the server if the session ended now.
    pub fn leftover(&self) -> SessionLeftover {
        match self.status {
            _ if !self.is_quiet() => SessionLeftover::Batch,
            TransactionStatus::Idle => SessionLeftover::Nothing,
            TransactionStatus::Inside | TransactionStatus::Failed => SessionLeftover::Transaction,
        }
    }

    /// Returns whose statements the server runs now or next.
    pub fn running_owner(&self) -> RunningOwner {
        match self.expected.front() {
            Some(front) if front.is_hidden && self.expected.has_seen() => {
                RunningOwner::OwnBeforeClients
            }
            Some(front) if front.is_hidden => RunningOwner::Own,
            _ => RunningOwner::Clients,
        }
    }

    /// Returns whether the session can continue without its lost server. It can if a replica ran
    /// one batch, or had the snapshot of a transaction, which is then lost.
    pub fn may_be_lost(&mut self, is_snapshot_lost: bool) -> bool {
        if !self.is_on_replica() {
            return false;
        }
        self.expected.forget_hidden();
        let is_alone = self.status == TransactionStatus::Idle || is_snapshot_lost;
        let has_more = self.keeping.is_kept() || self.is_copying();
        is_alone && !has_more && self.expected.is_one_batch()
    }

    pub fn is_on_replica(&self) -> bool {
        matches!(self.role, AttachedRole::Replica(_))
    }

    /// Returns whether the transaction has its snapshot at the attached server, a replica.
    pub fn has_snapshot(&self) -> bool {
        matches!(
            self.role,
            AttachedRole::Replica(ReplicaSide {
                runs: ReplicaWork::Snapshot,
                ..
            })
        )
    }

    /// Returns whether the server has announced to the client that it ends the session.
    pub fn is_end_reported(&self) -> bool {
        matches!(&self.role, AttachedRole::Primary(primary) if primary.is_end_reported)
    }

    pub fn reads(&self) -> Option<&ReplicaReads> {
        match &self.role {
            AttachedRole::Replica(ReplicaSide {
                runs: ReplicaWork::Reads(reads),
                ..
            }) => Some(reads),
            AttachedRole::Primary(_) | AttachedRole::Replica(_) => None,
        }
    }

    pub fn reads_mut(&mut self) -> Option<&mut ReplicaReads> {
        match &mut self.role {
            AttachedRole::Replica(ReplicaSide {
                runs: ReplicaWork::Reads(reads),
                ..
            }) => Some(reads),
            AttachedRole::Primary(_) | AttachedRole::Replica(_) => None,
        }
    }

    /// Returns the batch that may have to run again.
    pub fn batch(&self) -> Option<&RetryableBatch> {
        self.reads()?.batch.as_deref()
    }

    pub fn batch_mut(&mut self) -> Option<&mut RetryableBatch> {
        self.reads_mut()?.batch.as_deref_mut()
    }

    /// Returns the transaction's status, as it was reported to the client.
    pub fn reported_status(&self) -> TransactionStatus {
        match self.reads() {
            Some(reads) if !reads.transaction.is_none() => reads.transaction.status(),
            _ => self.status,
        }
    }

    /// Records that the client got an error.
    pub fn transaction_fails(&mut self) {
        if let Some(reads) = self.reads_mut() {
            reads.transaction.fails();
        }
    }

    /// Returns whether all portals of the connection's transaction are known.
    pub fn knows_portals(&self) -> bool {
        self.portals.len() < PORTALS_MAX
    }

    pub fn expect(&mut self, kind: ReplyKind) {
        self.expected.push(ExpectedReply::of(kind));
    }

    pub fn awaits(&self, kind: ReplyKind) -> bool {
        let front = self.expected.front();
        front.is_some_and(|reply| reply.kind == kind)
    }

    /// Removes the next outstanding reply, which the server has sent.
    pub fn take(&mut self, kind: ReplyKind) -> Result<ExpectedReply, Malformed> {
        match self.expected.pop() {
            Some(reply) if reply.kind == kind => Ok(reply),
            other => Err(Malformed::new(alloc::format!(
                "the server replied to {kind:?} where {:?} was to come",
                other.map(|reply| reply.kind)
            ))),
        }
    }

    /// Returns the statement of the portal in an Execute message, if Bind created the portal.
    pub fn executed(&self, body: &[u8]) -> Result<Option<BoundStatement>, Malformed> {
        let portal = message::executed_portal(body)?;
        Ok(self.portals.get(portal).cloned())
    }
}

/// A session with its attached server.
pub(super) struct AttachedSession<'a> {
    pub client: &'a mut ClientState,
    pub link: &'a mut ServerLink,
}
