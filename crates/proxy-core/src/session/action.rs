//! The inputs and outputs of a session: everything that the owner of the sockets and the machine
//! exchange.

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

/// Something that has happened to a session.
pub enum SessionEvent<'a> {
    /// The client has sent this. To be given only if [`SessionAction::takes`] allows it.
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
    /// The server has sent this.
    Server {
        /// A message, or more of one.
        piece: StreamPiece<'a>,
        /// That server.
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
    /// The waiting batch has got this server, see [`SessionAction::Route`].
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
    /// These run on the server, each in a transaction of its own, see [`SessionAction::Over`].
    Run {
        /// The statements.
        statements: &'a [String],
        /// The server.
        server: &'a mut ServerConnection,
    },
    /// The session goes on with any server that has the settings of this one, see
    /// [`AfterTransaction::Release`].
    Settings {
        /// The server.
        server: &'a mut ServerConnection,
        /// The snapshots of transactions that do not ask for others, if they need not begin on a
        /// server.
        snapshots: Option<SnapshotScope>,
    },
    /// No other session can have the settings of this one: it keeps its server.
    Keep,
    /// The session has no connection to the server any more, see [`AfterTransaction::Release`] and
    /// [`SessionAction::Return`].
    Released,
}

/// The next action of the owner of the sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAction {
    /// Messages of both peers.
    Exchange,
    /// Messages of the server. More of the client's last message is taken, but no other.
    Await,
    /// Messages of the server, on which depends whether what the client has sent runs. Nothing of
    /// the client is taken.
    AwaitCheck,
    /// Messages of the client, of whose batch a part has gathered. A silent client may wait for an
    /// error: then [`SessionEvent::Silence`].
    Gather,
    /// Messages of both peers. If reads of the transaction may run at a replica:
    /// [`SessionEvent::Pause`].
    Pause,
    /// Everything is answered, and no transaction is open on the server. If something must follow
    /// the transaction there: [`SessionEvent::Run`]. Otherwise the owner uses the server like this.
    Over(AfterTransaction),
    /// A replica's connection is to be given back, as the transaction waits on the primary:
    /// [`SessionEvent::Released`].
    Return,
    /// A batch waits for a server, see [`super::Session::demand`]. If its transaction waits on the
    /// primary: [`SessionEvent::Attach`] with a replica, or [`SessionEvent::Resume`]. Otherwise
    /// [`SessionEvent::Attach`], or [`SessionEvent::Refuse`].
    Route(BatchTransaction),
    /// The session is to end.
    End(SessionEnding),
}

impl SessionAction {
    /// Returns whether the session goes on with its present server, as far as it is given messages.
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

    /// Returns whether the session may be given this part of the client's stream.
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
    /// A message, or the head of a long one.
    Message,
    /// More of a message whose head was taken.
    Rest,
}

/// The use of a server after its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterTransaction {
    /// It stays the session's, which takes messages.
    Keep,
    /// It is to be given back: [`SessionEvent::Released`]. If statements may have changed
    /// something, its settings are read before: [`SessionEvent::Settings`] or
    /// [`SessionEvent::Keep`].
    Release(SettingChanges),
}

/// In which transaction a batch waits for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchTransaction {
    /// In none that the client has begun.
    NoTransaction,
    /// In a transaction that is on no server yet.
    Deferred,
    /// In a transaction that is on no server yet, and takes its snapshot where this batch goes.
    Snapshot,
    /// In a transaction that waits on the primary.
    Waiting,
}

/// Why a session ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// The client has sent Terminate.
    Client,
    /// The server is lost, and has reported the reason itself, or was cut in the middle of a
    /// message.
    Server,
    /// The server is lost: the client gets this.
    Lost(Report),
}

/// How the waiting batch runs at a server.
#[derive(Debug)]
pub struct Attachment {
    /// Where that server is.
    pub at: AttachedServer,
    /// Statements that run in front of it in the same transaction, unseen by the client.
    pub prelude: Vec<String>,
    /// It changes nothing but the schema: that leaves nothing behind, though the body of a function
    /// may have any words.
    pub is_schema_only: bool,
}

impl Attachment {
    /// Returns an attachment that runs the waiting batch unchanged at this server.
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
    /// It runs anything.
    Primary,
    /// It runs single reads: nothing is begun there that outlives a batch.
    Replica(ReplicaRead),
    /// It runs all of one read-only transaction, which has taken its snapshot there. The tables
    /// that the batch reads have these numbers there.
    Snapshot(TableOidMap),
}

/// How a batch of reads runs at a replica.
#[derive(Debug)]
pub struct ReplicaRead {
    /// The answer that shows that the batch has taken its snapshots, if that must be shown.
    pub proof: SnapshotProof,
    /// The numbers that its tables have there.
    pub numbers: TableOidMap,
    /// Its prepared form, if it is a simple query and nothing else. If that fails, it runs on the
    /// primary, as it is.
    pub prepared_form: Option<PreparedForm>,
}

/// Looks at each message that goes to a server of the session.
pub trait MessageRouter {
    /// Notes the possible writes of the message, and returns its treatment.
    fn look(&mut self, coming: &ComingMessage<'_>) -> MessageTreatment;
}

/// A message that is about to go to a server.
#[derive(Debug)]
pub struct ComingMessage<'a> {
    /// Its effect there.
    pub does: MessageEffect<'a>,
    /// Whether everything is answered that was sent to this server, if it is a replica at which the
    /// transaction has its snapshot.
    pub snapshot: Option<SnapshotState>,
    /// It runs inside of a transaction that the client has begun.
    pub is_inside: bool,
    /// That has failed.
    pub is_failed: bool,
    /// The session keeps its server.
    pub is_pinned: bool,
    /// The client has asked for notices of where its statements go.
    pub is_traced: bool,
}

/// How far a transaction is that has its snapshot at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotState {
    /// Everything that was sent is answered, and it is still open.
    Quiet,
    /// Something is under way.
    Busy,
}

/// The effect of a message at a server.
#[derive(Debug)]
pub enum MessageEffect<'a> {
    /// It prepares a statement; none if that is not known.
    Prepares(Option<ParseMessage<'a>>),
    /// It describes this statement.
    Describes(Arc<PreparedStatement>),
    /// It ends the transaction that its batch runs in, unless the client has begun that.
    Syncs,
    /// It runs this.
    Runs(StatementText<'a>, RunKind),
    /// Nothing of that.
    Nothing,
}

/// The kind of message that runs a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// A simple query.
    Query,
    /// Execute, in a transaction that does not end with it unless it ends that itself.
    Execute,
    /// A function call.
    Call,
}

/// How a message is to be treated on its way to a server.
#[derive(Debug, Default)]
pub struct MessageTreatment {
    /// It does not run: the server raises this error in its place, so that its transaction fails as
    /// it would by an error of its own.
    pub raises: Option<Report>,
    /// Statements that run in front of it in the same transaction, unseen by the client.
    pub prelude: Vec<String>,
    /// It changes nothing but the schema, see [`Attachment::is_schema_only`].
    pub is_schema_only: bool,
    /// The client gets this behind the replies to its earlier messages.
    pub notice: Option<Report>,
    /// Numbers of tables that it reads at a replica, there and on the primary.
    pub numbers: Vec<(u32, u32)>,
}

/// The owner of the statements that a server runs, for cancel requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunningOwner {
    /// Of the client, or nothing.
    Clients,
    /// Of the session itself, and nothing of the client behind it.
    Own,
    /// Of the session itself, and something of the client behind it.
    OwnBeforeClients,
}

impl<'a> ComingMessage<'a> {
    /// Returns a whole Parse message.
    pub(super) fn prepares(message: WireMessage<'a>) -> MessageEffect<'a> {
        let parse = ParseMessage::read(message.body()).ok();
        MessageEffect::Prepares(parse.filter(|_| message.is_whole()))
    }
}
