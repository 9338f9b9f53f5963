//! The machine of one client's session, over server connections that change between its
//! transactions.
//!
//! It is pure: it gets messages of both peers and returns bytes for both. It knows the replies to
//! each message that was sent to the server. So it can add messages of its own and remove their
//! replies, and knows where a batch ends.
//!
//! A *batch* is the messages that the server answers with one ReadyForQuery: a simple query, a
//! function call, or extended messages up to Sync. Batches run one after the other: the next batch
//! is read when the previous one is done, because it may go to another server.
//!
//! An input of a session is one [`SessionEvent`], and its output one [`SessionAction`]. A session
//! is in one phase, which owns the data of that phase. Other state belongs to the client: its
//! statements and its settings.
//!
//! ```text
//!     ┌──────────────────────── Released ─────────────────────────┐
//!     ▼      a batch               Attach                         │
//! Gathering ─────────▶ Wanting ──────────────▶ Attached (Link) ───┘
//!     ▲                 │    ▲                  │        │
//!     │ Sync            │    └── a batch comes back      │ Pause: the transaction keeps its
//! Skipping ◀── Refuse ──┘        from a replica          ▼ link, and its next batch gathers
//! ```
//!
//! A transaction that the client has begun is where its server is: in the link to the primary, or
//! to the replica where it has its snapshot. Otherwise the phase has it as a `Transaction`. A
//! *deferred* transaction is on no server, see `block`. A *waiting* transaction has the link to the
//! primary, see `replica_reads`.
//!
//! Invariants
//! - A reply reaches the client only if it answers a message of the client.
//! - `expected` holds, in the server's order, one entry for each reply that is still to come.
//! - A prepared statement has the text that its client prepared under that name, on any server.
//!   Names on servers are hashes of text and types, so that clients share them.
//! - The session releases a server only outside of transactions and without outstanding replies.
//!   The server is dirty if the session may have left any state there except known settings (see
//!   `changes`).

mod action;
mod added;
mod attach;
mod batch;
mod block;
mod changes;
mod client;
mod deferral;
mod demand;
mod descriptions;
mod detach;
mod expected;
mod failed_block;
mod forward;
mod gates;
mod gather;
mod held_messages;
mod link;
mod look;
mod names;
mod phase;
mod pin_state;
mod replica_reads;
mod reply;
mod settings;
mod statements;
mod table_oids;
#[cfg(test)]
mod tests;

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use bytes::BytesMut;

use crate::grammar::Grammar;
use crate::server::{ReportedParameters, ServerConnection};
pub use action::{
    AfterTransaction, AttachedServer, Attachment, BatchTransaction, ClientPart, ComingMessage,
    MessageEffect, MessageRouter, MessageTreatment, ReplicaRead, RunKind, RunningOwner,
    SessionAction, SessionEnding, SessionEvent, SnapshotState,
};
pub use batch::{BatchFault, SnapshotProof};
pub use block::is_end;
use client::ClientState;
use deferral::Deferral;
pub use deferral::SnapshotScope;
pub use demand::{StatementText, WaitingBatch};
use link::{AttachedSession, DetachedTransaction, RestDestination};
use pg_wire::Malformed;
use pg_wire::framing::StreamPiece;
use phase::{SessionPhase, WantingPhase};
pub use pin_state::SettingChanges;
use settings::ClientParameters;
pub use settings::{ClassPrecision, ClientSettings, ReadBalancing, TraceSetting};
use statements::ClientStatements;
pub use statements::{BoundStatement, PreparedForm, PreparedStatement};
pub use table_oids::TableOidMap;

/// Bytes of a batch that are held until a server is chosen; a longer batch goes to the primary.
pub const HELD_LEN_MAX: usize = 64 * 1024;
/// Prepared statements that one client may have.
pub const STATEMENTS_MAX: usize = 10_000;

/// Portals of one transaction whose statements are remembered.
const PORTALS_MAX: usize = 1_000;
/// Longer parameters of a portal are not remembered, in bytes.
const PARAMETERS_LEN_MAX: usize = 1024;

/// Bytes for both peers.
#[derive(Debug, Default)]
pub struct PeerOutput {
    /// For the client.
    pub to_client: BytesMut,
    /// For the server.
    pub to_server: BytesMut,
}

/// The conditions under which a session keeps its server until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinningPolicy {
    /// Once it has run a statement that may leave state on it: transaction pooling.
    WhenNeeded,
    /// From its first server on: session pooling.
    Always,
}

/// State that a session has begun on its server and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLeftover {
    /// Nothing.
    Nothing,
    /// A transaction, in which the server waits for the next statement.
    Transaction,
    /// Something that the server has not answered, or waits for more of.
    Batch,
}

/// The initial options of a session, after its client has logged in.
#[derive(Debug)]
pub struct SessionOptions {
    /// The session's number, which is unique among sessions.
    pub number: u64,
    /// The server process that was reported to the client.
    pub process: u32,
    /// The settings that were reported to the client.
    pub parameters: Arc<ReportedParameters>,
    /// The conditions under which sessions keep their servers.
    pub pinning: PinningPolicy,
    /// The functions that parse statements.
    pub grammar: Grammar,
    /// The scope of snapshots in transactions whose BEGIN names no isolation level; none if such
    /// transactions must begin on a server.
    pub snapshots: Option<SnapshotScope>,
}

/// The machine of one client's session.
#[derive(Debug)]
pub struct Session {
    client: ClientState,
    phase: SessionPhase,
}

impl Session {
    /// Returns a session that has just logged in.
    pub fn new(options: SessionOptions) -> Session {
        Session {
            client: ClientState {
                process: options.process,
                grammar: options.grammar,
                pinning: options.pinning,
                statements: ClientStatements::of(options.number),
                parameters: ClientParameters::new(options.parameters),
                settings: ClientSettings::default(),
                deferral: Deferral::new(options.snapshots),
            },
            phase: SessionPhase::empty(DetachedTransaction::None),
        }
    }

    /// Handles an event, and returns the next action.
    ///
    /// Fails where a peer does not keep to the protocol: its connection cannot continue.
    pub fn step(
        &mut self,
        event: SessionEvent<'_>,
        out: &mut PeerOutput,
    ) -> Result<SessionAction, Malformed> {
        if let Some(link) = self.phase.link_mut() {
            link.gates.rejoin(out);
        }
        let handled = self.handle(event, out);
        if let Some(link) = self.phase.link_mut() {
            link.gates.part(out);
        }
        handled?;
        Ok(self.next())
    }

    /// Handles what has happened, see [`Session::step`].
    fn handle(&mut self, event: SessionEvent<'_>, out: &mut PeerOutput) -> Result<(), Malformed> {
        match event {
            SessionEvent::Client {
                piece,
                server,
                router,
            } => self.sent(piece, (server, router), out)?,
            SessionEvent::Silence => self.want_server(out),
            SessionEvent::Server {
                piece,
                server,
                is_valid,
            } => self.replied(piece, server, is_valid, out)?,
            SessionEvent::ServerLost { report, is_cut } => self.server_lost(report, is_cut, out),
            SessionEvent::Pause => self.pause(),
            SessionEvent::Attach { server, attachment } => self.attach(server, attachment, out)?,
            SessionEvent::Resume { server, router } => self.resume(server, router, out)?,
            SessionEvent::Refuse(report) => self.refuse(report, out),
            SessionEvent::Run { statements, server } => {
                let mut exchange = self.exchange();
                for statement in statements {
                    exchange.run(statement, server, out);
                }
            }
            SessionEvent::Settings { server, snapshots } => self.goes_on(server, snapshots),
            SessionEvent::Keep => self.keep_server(),
            SessionEvent::Released => self.released(out),
        }
        Ok(())
    }

    /// Returns the next action.
    pub fn next(&self) -> SessionAction {
        match &self.phase {
            SessionPhase::Gathering(gathering) if gathering.held.is_empty() => {
                SessionAction::Exchange
            }
            SessionPhase::Gathering(_) => SessionAction::Gather,
            SessionPhase::Skipping(_) => SessionAction::Exchange,
            SessionPhase::Wanting(wanting) => SessionAction::Route(wanting.transaction.batch_in()),
            SessionPhase::Attached(link) => link.next(),
            SessionPhase::Ended(by, _) => SessionAction::End(by.clone()),
        }
    }

    /// Returns the batch that waits for a server, see [`SessionAction::Route`].
    pub fn demand(&self) -> WaitingBatch<'_> {
        let SessionPhase::Wanting(wanting) = &self.phase else {
            panic!("no batch waits for a server");
        };
        let fault = wanting.failure.as_ref().map(|failure| &failure.fault);
        WaitingBatch {
            fault,
            ..wanting.held.demand(&self.client)
        }
    }

    /// Returns the statement that begins the transaction of the waiting batch, and takes its
    /// snapshot, see [`BatchTransaction::Snapshot`].
    pub fn snapshot_taking(&self) -> Option<String> {
        match &self.phase {
            SessionPhase::Wanting(WantingPhase {
                transaction: DetachedTransaction::Deferred(block),
                ..
            }) => Some(format!("{};SELECT 1", block.begin)),
            _ => None,
        }
    }

    /// Returns the client's settings of the proxy.
    pub fn settings(&self) -> ClientSettings {
        self.client.settings
    }

    /// Returns the owner of the statements that the server runs now or next.
    pub fn running_owner(&self) -> RunningOwner {
        match &self.phase {
            SessionPhase::Attached(link) => link.running_owner(),
            _ => RunningOwner::Clients,
        }
    }

    /// Returns whether the client has begun a transaction that is on no server, and nothing of its
    /// next batch has come.
    pub fn is_idle_on_no_server(&self) -> bool {
        match &self.phase {
            SessionPhase::Gathering(gathering) => {
                let transaction = &gathering.transaction;
                let is_deferred = matches!(transaction, DetachedTransaction::Deferred(_));
                is_deferred && gathering.held.is_empty()
            }
            _ => false,
        }
    }

    /// Returns the state that the session would leave on its server if it ended now.
    pub fn leftover(&self) -> SessionLeftover {
        self.phase.leftover()
    }

    /// Handles a piece of the client's stream.
    fn sent(
        &mut self,
        piece: StreamPiece<'_>,
        (server, router): (Option<&mut ServerConnection>, &mut dyn MessageRouter),
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        match (piece, &mut self.phase) {
            (StreamPiece::Message(message), _) if message.tag() == b'X' => {
                self.ends(SessionEnding::Client)
            }
            (StreamPiece::Message(message), SessionPhase::Attached(link)) => {
                let server = server.expect("the server that is attached has a connection");
                let client = &mut self.client;
                let mut exchange = AttachedSession { client, link };
                exchange.pass(
                    message,
                    held_messages::HeldMessageContent::Nothing,
                    (server, router),
                    out,
                )?;
            }
            (StreamPiece::Message(message), _) => self.gather(message, out),
            (StreamPiece::Rest(rest), SessionPhase::Attached(link))
                if link.client_rest == RestDestination::On =>
            {
                out.to_server.extend_from_slice(rest);
            }
            // Of a message that goes to no server.
            (StreamPiece::Rest(_), _) => {}
        }
        Ok(())
    }

    /// Handles a piece of the server's stream.
    fn replied(
        &mut self,
        piece: StreamPiece<'_>,
        server: &mut ServerConnection,
        is_valid: &mut dyn FnMut() -> bool,
        out: &mut PeerOutput,
    ) -> Result<(), Malformed> {
        match &mut self.phase {
            // The client has gone.
            SessionPhase::Ended(..) => Ok(()),
            _ => self.exchange().reply(piece, server, is_valid, out),
        }
    }

    /// Returns the exchange with the server that has a connection of the session.
    fn exchange(&mut self) -> AttachedSession<'_> {
        AttachedSession {
            client: &mut self.client,
            link: self.phase.link_mut().expect("a server has a connection"),
        }
    }
}
