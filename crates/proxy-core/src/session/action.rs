//! The inputs and outputs of a session's machine, which the machine exchanges with the relay.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::batch::SnapshotProof;
use super::deferral::SnapshotScope;
use super::demand::StatementText;
use super::pin_state::SettingChanges;
use super::statements::{PreparedForm, PreparedStatement};
use super::table_oids::TableOidMap;
use crate::server::ServerConnection;
use pg_wire::framing::{StreamPiece, WireMessage};
use pg_wire::message::ParseMessage;
use pg_wire::report::Report;

/// An input of the session's machine.
pub enum SessionEvent<'a> {
    /// A part of a client's message. It may be passed only if [`SessionAction::takes`] allows it.
    Client {
        /// A message, or more of one.
        piece: StreamPiece<'a>,
        /// The server that has a connection of the session, if there is one.
        server: Option<&'a mut ServerConnection>,
        /// Looks at messages that go to it.
        router: &'a mut dyn MessageRouter,
    },
    /// The client was silent for a while, see [`SessionAction::Gather`].
    Silence,
    /// A part of a server's message.
    Server {
        /// A message, or more of one.
        piece: StreamPiece<'a>,
        /// The connection to the server.
        server: &'a mut ServerConnection,
        /// Returns whether the snapshots of the batch are valid. It is called once the batch has
        /// taken its snapshots at a replica.
        is_valid: &'a mut dyn FnMut() -> bool,
    },
    /// The connection to the server is lost.
    ServerLost {
        /// How that is reported, without a hint.
        report: Report,
        /// Whether the connection ended in the middle of a message.
        is_cut: bool,
    },
    /// The next batch of the transaction may run at a replica, see [`SessionAction::Pause`].
    Pause,
    /// This server runs the waiting batch, see [`SessionAction::Route`].
    Attach {
        /// The server.
        server: &'a mut ServerConnection,
        /// The server, and how the waiting batch runs there.
        attachment: Attachment,
    },
    /// The waiting batch runs on the primary, where its transaction is.
    Resume {
        /// The primary.
        server: &'a mut ServerConnection,
        /// Looks at messages that go to it.
        router: &'a mut dyn MessageRouter,
    },
    /// No server can run the waiting batch, for this reason.
    Refuse(&'a Report),
    /// The server runs these statements, each in a transaction of its own, see
    /// [`SessionAction::Over`].
    Run {
        /// The statements.
        statements: &'a [String],
        /// The server.
        server: &'a mut ServerConnection,
    },
    /// The session may continue on any server with the settings of this one, see
    /// [`AfterTransaction::Release`].
    Settings {
        /// The server.
        server: &'a mut ServerConnection,
        /// The snapshots of transactions that do not ask for others, if they need not begin on a
        /// server.
        snapshots: Option<SnapshotScope>,
    },
    /// No other session can have these settings, so the session keeps its server.
    Keep,
    /// The session has no connection to a server any more, see [`AfterTransaction::Release`] and
    /// [`SessionAction::Return`].
    Released,
}

/// The next action of the relay, which owns the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Read messages of both peers.
    Exchange,
    /// Read messages of the server. From the client, read only the rest of its last message.
    Await,
    /// Read messages of the server only. They determine whether the client's messages run.
    AwaitCheck,
    /// Read messages of the client, whose batch is incomplete. If the client is silent, it may wait
    /// for an error: pass [`SessionEvent::Silence`].
    Gather,
    /// Read messages of both peers. If reads of the transaction may run at a replica, pass
    /// [`SessionEvent::Pause`].
    Pause,
    /// Everything is answered, and no transaction is open on the server. If statements must follow
    /// the transaction there, pass [`SessionEvent::Run`]. Otherwise use the server as stated.
    Over(AfterTransaction),
    /// Return the replica's connection, because the transaction waits on the primary. Then pass
    /// [`SessionEvent::Released`].
    Return,
    /// Choose a server for the waiting batch, see [`super::Session::demand`]. If its transaction
    /// waits on the primary, pass [`SessionEvent::Attach`] with a replica, or
    /// [`SessionEvent::Resume`]. Otherwise pass [`SessionEvent::Attach`] or
    /// [`SessionEvent::Refuse`].
    Route(BatchTransaction),
    /// End the session.
    End(SessionEnding),
}

impl SessionAction {
    /// Returns whether the session continues on its present server once it gets messages.
    pub fn is_exchange(&self) -> bool {
        match self {
            SessionAction::Exchange
            | SessionAction::Await
            | SessionAction::AwaitCheck
            | SessionAction::Gather
            | SessionAction::Pause => true,
            SessionAction::Over(then) => *then == AfterTransaction::Keep,
            SessionAction::Return | SessionAction::Route(_) | SessionAction::End(_) => false,
        }
    }

    /// Returns whether the session accepts this part of the client's stream now.
    pub fn takes(&self, taken: ClientPart) -> bool {
        match self {
            SessionAction::Await => taken == ClientPart::Rest,
            SessionAction::AwaitCheck | SessionAction::Route(_) | SessionAction::End(_) => false,
            _ => true,
        }
    }
}

/// A part of the client's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientPart {
    /// A message, or the beginning of a long one.
    Message,
    /// The rest of a message whose beginning was accepted.
    Rest,
}

/// The use of a server after a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTransaction {
    /// The session keeps it.
    Keep,
    /// Return it to the pool, then pass [`SessionEvent::Released`]. If statements may have changed
    /// settings, read the settings before, and pass [`SessionEvent::Settings`] or
    /// [`SessionEvent::Keep`].
    Release(SettingChanges),
}

/// The transaction of a batch that waits for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchTransaction {
    /// No transaction that the client has begun.
    NoTransaction,
    /// A transaction that is on no server yet.
    Deferred,
    /// A transaction that is on no server yet, and takes its snapshot where this batch runs.
    Snapshot,
    /// A transaction that waits on the primary.
    Waiting,
}

/// The reason why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// The client has sent Terminate.
    Client,
    /// The server is lost. It has reported the reason itself, or was cut off in the middle of a
    /// message.
    Server,
    /// The server is lost. The client gets this error.
    Lost(Report),
}

/// The way in which the waiting batch runs on a server.
#[derive(Debug)]
pub struct Attachment {
    /// The server.
    pub at: AttachedServer,
    /// Statements that run before the batch in the same transaction, and whose replies the client
    /// does not see.
    pub prelude: Vec<String>,
    /// Whether the batch only changes the schema. Then it leaves no state behind, whatever words
    /// the body of a function has.
    pub is_schema_only: bool,
}

impl Attachment {
    /// Returns an attachment that runs the waiting batch unchanged on this server.
    pub fn at(at: AttachedServer) -> Attachment {
        Attachment {
            at,
            prelude: Vec::new(),
            is_schema_only: false,
        }
    }
}

/// The role of an attached server.
#[derive(Debug)]
pub enum AttachedServer {
    /// The primary, which runs anything.
    Primary,
    /// A replica that runs single reads. Nothing outlives a batch there.
    Replica(ReplicaRead),
    /// A replica that runs a whole read-only transaction, which has taken its snapshot there.
    /// Contains the OIDs of the batch's tables there.
    Snapshot(TableOidMap),
}

/// The way in which a batch of reads runs at a replica.
#[derive(Debug)]
pub struct ReplicaRead {
    /// The reply that proves that the batch has taken its snapshots, if a proof is needed.
    pub proof: SnapshotProof,
    /// The OIDs of the batch's tables at the replica.
    pub numbers: TableOidMap,
    /// The batch's prepared form, if the batch is one simple query. If that fails, the original
    /// query runs on the primary.
    pub prepared_form: Option<PreparedForm>,
}

/// Checks each message of a session before it goes to a server.
pub trait MessageRouter {
    /// Notes the possible writes of the message, and returns its treatment.
    fn look(&mut self, coming: &ComingMessage<'_>) -> MessageTreatment;
}

/// A message that is about to go to a server.
#[derive(Debug)]
pub struct ComingMessage<'a> {
    /// The message's effect at the server.
    pub does: MessageEffect<'a>,
    /// Set if the server is a replica with the transaction's snapshot. States whether everything
    /// sent to it is answered.
    pub snapshot: Option<SnapshotState>,
    /// Whether the batch runs inside a transaction that the client has begun.
    pub is_inside: bool,
    /// Whether that transaction has failed.
    pub is_failed: bool,
    /// Whether the session keeps its server.
    pub is_pinned: bool,
    /// Whether the client has requested notices about routing.
    pub is_traced: bool,
}

/// The state of a transaction that has its snapshot at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// Everything is answered, and the transaction is still open.
    Quiet,
    /// Something is not answered yet.
    Busy,
}

/// The effect of a message on a server.
#[derive(Debug)]
pub enum MessageEffect<'a> {
    /// It prepares a statement; none if the statement is unknown.
    Prepares(Option<ParseMessage<'a>>),
    /// It describes this statement.
    Describes(Arc<PreparedStatement>),
    /// It ends the batch's transaction, unless the client has begun that.
    Syncs,
    /// It runs this statement.
    Runs(StatementText<'a>, RunKind),
    /// It does nothing of the above.
    Nothing,
}

/// The kind of message that runs a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A simple query.
    Query,
    /// Execute. It ends its transaction only if the statement does.
    Execute,
    /// A function call.
    Call,
}

/// How a message is handled on its way to a server.
#[derive(Debug, Default)]
pub struct MessageTreatment {
    /// If set, the message does not run. Instead the server raises this error, so that the
    /// transaction fails as after an error of the server itself.
    pub raises: Option<Report>,
    /// Statements that run before the message in the same transaction, and whose replies the client
    /// does not see.
    pub prelude: Vec<String>,
    /// Whether the batch only changes the schema, see [`Attachment::is_schema_only`].
    pub is_schema_only: bool,
    /// A notice for the client, after the replies to its earlier messages.
    pub notice: Option<Report>,
    /// The OIDs of the tables that the batch reads at a replica: the replica's, and the primary's.
    pub numbers: Vec<(u32, u32)>,
}

/// Whose statements a server runs, for cancel requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningOwner {
    /// Statements of the client, or none.
    Clients,
    /// Statements of the session itself, and none of the client after them.
    Own,
    /// Statements of the session itself, and some of the client after them.
    OwnBeforeClients,
}

impl<'a> ComingMessage<'a> {
    /// Returns the effect of a complete Parse message.
    pub(super) fn prepares(message: WireMessage<'a>) -> MessageEffect<'a> {
        let parse = ParseMessage::read(message.body()).ok();
        MessageEffect::Prepares(parse.filter(|_| message.is_whole()))
    }
}
