//! One client's session over server connections that change between its transactions.
//!
//! Pure: messages of both peers go in, bytes for both come out. The machine knows what each message
//! that was sent to the server will be answered by. So it can add messages of its own and remove
//! their answers, and knows where a batch ends.
//!
//! A *batch* is what the server answers with one ReadyForQuery: a simple query, a function call, or
//! extended messages up to Sync. Batches run one after the other: what a client sends behind one is
//! looked at when it is done, because it may go to another server.
//!
//! ```text
//! Free      no server; a batch of extended messages gathers until Sync, Flush or HELD_LEN_MAX
//! Wanting   a batch waits for a server
//! Attached  a server runs a batch or is inside of a transaction, or belongs to the session
//! ```
//!
//! A transaction on the primary that waits (see `elsewhere`) is Free or Wanting between its
//! batches.
//!
//! Invariants
//! - A reply reaches the client only if the client sent what it replies to.
//! - `expected` holds, in the server's order, one entry for each reply that is still to come.
//! - A prepared statement is what its client prepared under that name, on whatever server. Names on
//!   servers are hashes of text and types, so that clients share them.
//! - A server is given back only outside of transactions, with nothing expected, and dirty if the
//!   session may have left anything on it but settings that are known (see `changes`).

mod added;
mod block;
mod changes;
mod demand;
mod elsewhere;
mod expected;
mod failed_block;
mod forward;
mod names;
mod numbers;
mod reply;
mod settings;
mod statements;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use crate::grammar::{Grammar, SessionEffect};
use crate::server::{Parameters, ServerConnection, Turn};
use block::Block;
pub use block::Snapshots;
pub use changes::Changes;
pub use demand::{Text, WaitingBatch};
use elsewhere::{Batch, Failure, Waiting};
pub use elsewhere::{BatchFault, Proof};
use expected::{Expected, ReplyKind};
pub use numbers::Numbers;
use pg_wire::Malformed;
use pg_wire::cut::{Piece, WireMessage};
use pg_wire::message::{self, Parse};
use pg_wire::report::Report;
use settings::ClientParameters;
pub use settings::{Balancing, Classes, ClientSettings, TraceSetting};
use statements::ClientStatements;
pub use statements::{AsPrepared, Bound, Prepared};

/// Bytes of a batch that are held until a server is chosen; a longer batch goes to the primary.
pub const HELD_LEN_MAX: usize = 64 * 1024;
/// Prepared statements that one client may have.
pub const STATEMENTS_MAX: usize = 10_000;

/// Portals of one transaction whose statements are remembered.
const PORTALS_MAX: usize = 1_000;
/// Longer parameters of a portal are not remembered, in bytes.
const PARAMETERS_LEN_MAX: usize = 1024;
/// Outside of a transaction, in ReadyForQuery.
const IDLE: u8 = b'I';
/// Inside of a transaction.
const INSIDE: u8 = b'T';
/// Inside of a transaction that has failed.
const FAILED: u8 = b'E';

/// Bytes for both peers.
#[derive(Debug, Default)]
pub struct Out {
    /// For the client.
    pub to_client: BytesMut,
    /// For the server.
    pub to_server: BytesMut,
}

/// What the session wants from the owner of the sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Messages.
    Messages,
    /// A server, see [`Session::demand`]; then [`Session::attach`] or [`Session::refuse`].
    Server,
    /// To give its server back. If [`Session::changes`] asks for it, its settings are to be read
    /// first, and it may have to keep it.
    Release,
    /// To end: the client has sent Terminate.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Free,
    Wanting,
    Attached,
    Ended,
}

/// What a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// It runs anything.
    Primary,
    /// It runs single reads, or all of one transaction that only reads, whose snapshot has been
    /// taken there. What shows that a read has taken its own?
    Replica(Proof),
}

/// When a session keeps its server until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinning {
    /// Once it has done what may leave something on it: transaction pooling.
    WhenNeeded,
    /// From its first server on: session pooling.
    Always,
}

/// What a session has begun on its server and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leftover {
    /// Nothing.
    Nothing,
    /// A transaction, in which the server waits for the next statement.
    Transaction,
    /// Something that the server has not answered, or waits for more of.
    Batch,
}

/// Where the rest of a long message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RestGoes {
    On,
    Nowhere,
}

/// The machine of one client's session.
#[derive(Debug)]
pub struct Session {
    /// The server process that was reported to the client.
    process: u32,
    stage: Stage,
    /// The transaction's status that a server has reported last.
    status: u8,
    /// Frames of a batch that waits for a server.
    held: Vec<Bytes>,
    held_len: usize,
    /// Bytes of the last held message that are still to come.
    held_rest: usize,
    /// What a simple query may leave behind that is held, or forwarded from there.
    held_effect: Option<SessionEffect>,
    /// How statements are read.
    grammar: Grammar,
    /// The statements of the Parse messages that are held, or forwarded from there, in order.
    held_statements: VecDeque<Arc<Prepared>>,
    expected: expected::ReplyQueue,
    /// A batch has failed: the server skips everything up to Sync, and so does the session.
    is_skipping: bool,
    /// The server reads data of COPY.
    copies_in: bool,
    /// A Sync came while the server read data of COPY, which ignores it.
    sync_ignored: bool,
    pinning: Pinning,
    settings: ClientSettings,
    /// The session keeps its server until it ends.
    is_pinned: bool,
    changes: Changes,
    client_rest: RestGoes,
    server_rest: RestGoes,
    statements: ClientStatements,
    /// What is forwarded next changes nothing but the schema, whatever words it has.
    is_schema_only: bool,
    /// What was put in front of the simple query that is forwarded next.
    prelude: expected::Prelude,
    /// What the simple query that is forwarded next runs as.
    as_prepared: Option<AsPrepared>,
    /// Since when the server that it keeps knows statements by the client's names.
    own_names: Option<Turn>,
    /// What the portals of the current transaction run.
    portals: BTreeMap<Bytes, Bound>,
    /// The server has announced that it ends the session.
    is_end_reported: bool,
    /// Its server is a replica, without which it can go on.
    is_on_replica: bool,
    /// The numbers that tables have there.
    numbers: Numbers,
    /// Its transactions begin on a server only where they must; with such snapshots unless they say
    /// otherwise.
    defers: Option<Snapshots>,
    /// A transaction that has begun and is on no server.
    block: Option<Block>,
    /// Its transaction on the server was one such: at READ COMMITTED, unless it has ended since.
    is_read_committed: bool,
    /// Its transaction has taken its snapshot at the replica that is attached.
    has_snapshot_elsewhere: bool,
    /// Its transactions take their snapshots on the primary.
    keeps_snapshots: bool,
    /// A transaction on the primary of which the next batch may run elsewhere.
    waiting: Option<Waiting>,
    /// A batch that runs elsewhere, and may have to come back; or has come back, and why.
    batch: Option<Batch>,
    failure: Option<Failure>,
    parameters: ClientParameters,
}

impl Session {
    /// Makes a session that has just logged in, with the settings that were reported to it.
    /// `number` is unique among sessions.
    pub fn new(
        number: u64,
        parameters: Arc<Parameters>,
        pinning: Pinning,
        grammar: Grammar,
    ) -> Session {
        Session {
            process: 0,
            stage: Stage::Free,
            status: IDLE,
            held: Vec::new(),
            held_len: 0,
            held_rest: 0,
            held_effect: None,
            grammar,
            held_statements: VecDeque::new(),
            expected: expected::ReplyQueue::default(),
            is_skipping: false,
            copies_in: false,
            sync_ignored: false,
            pinning,
            settings: ClientSettings::default(),
            is_pinned: pinning == Pinning::Always,
            changes: Changes::Nothing,
            client_rest: RestGoes::On,
            server_rest: RestGoes::On,
            statements: ClientStatements::of(number),
            is_schema_only: false,
            prelude: expected::Prelude::default(),
            as_prepared: None,
            own_names: None,
            portals: BTreeMap::new(),
            is_end_reported: false,
            is_on_replica: false,
            numbers: Numbers::Unknown,
            defers: None,
            block: None,
            is_read_committed: false,
            has_snapshot_elsewhere: false,
            keeps_snapshots: false,
            waiting: None,
            batch: None,
            failure: None,
            parameters: ClientParameters::new(parameters),
        }
    }

    /// Returns what it wants next.
    pub fn wants(&self) -> Wants {
        match self.stage {
            Stage::Wanting => Wants::Server,
            Stage::Ended => Wants::End,
            Stage::Attached if self.is_done() && !self.is_pinned => Wants::Release,
            Stage::Free | Stage::Attached => Wants::Messages,
        }
    }

    /// May the next message of the client be given to it? Otherwise the server is waited for.
    pub fn takes_client(&self) -> bool {
        match self.stage {
            Stage::Free => true,
            Stage::Attached => self.copies_in || !self.expected.awaits_ready(),
            Stage::Wanting | Stage::Ended => false,
        }
    }

    /// Does it hold nothing, in no transaction? Then a server can be taken from it.
    fn is_done(&self) -> bool {
        self.status == IDLE && self.expected.is_empty() && !self.is_within_batch()
    }

    /// Has a batch begun that Sync has not ended?
    fn is_within_batch(&self) -> bool {
        self.is_skipping || self.expected.has_open_batch()
    }

    /// May the rest of a message whose head was taken be given to it?
    pub fn takes_rest(&self) -> bool {
        self.stage != Stage::Wanting
    }

    /// Returns what is left to do on its server if it ended now.
    pub fn leftover(&self) -> Leftover {
        if self.is_waiting() && self.stage != Stage::Attached {
            Leftover::Transaction
        } else if !self.expected.is_empty() || self.is_within_batch() {
            Leftover::Batch
        } else if self.status == IDLE {
            Leftover::Nothing
        } else {
            Leftover::Transaction
        }
    }

    /// Has the server announced to the client that it ends the session?
    pub fn is_end_reported(&self) -> bool {
        self.is_end_reported
    }

    /// Takes a piece of what the client sends. To be called only if [`Session::takes_client`], or
    /// with the rest of a message whose head was taken; `server` is the one that is attached.
    ///
    /// Fails where the client's connection cannot go on.
    pub fn client(
        &mut self,
        piece: Piece<'_>,
        server: Option<&mut ServerConnection>,
        out: &mut Out,
    ) -> Result<(), Malformed> {
        let message = match piece {
            Piece::Message(message) => message,
            Piece::Rest(rest) => {
                if self.client_rest == RestGoes::On {
                    out.to_server.extend_from_slice(rest);
                }
                return Ok(());
            }
        };
        match (self.stage, server) {
            (Stage::Attached, Some(server)) => {
                let forwarded = self.forward(message, server, out);
                self.is_schema_only = false;
                forwarded
            }
            _ => self.gather(message, out),
        }
    }

    /// Drops the rest of a message that something else has replaced.
    pub fn drop_rest(&mut self) {
        self.client_rest = RestGoes::Nowhere;
    }

    /// Notes that what is forwarded next, be it held or not, changes nothing but the schema: that
    /// leaves nothing behind, though the body of a function may have any words.
    pub fn knows_schema_only(&mut self) {
        self.is_schema_only = true;
    }

    /// Has what is held run as this prepared statement at the replica that is attached next, if it
    /// is a simple query and nothing else. If that fails, it runs on the primary, as it is.
    pub fn runs_as(&mut self, prepared: AsPrepared) {
        let is_query = matches!(&self.held[..], [frame] if frame[0] == b'Q');
        self.as_prepared = Some(prepared).filter(|_| is_query && self.held_rest == 0);
    }

    /// Notes the numbers of the tables that what is held reads at the replica to which it goes
    /// next.
    pub fn numbers_tables(&mut self, numbers: Numbers) {
        self.numbers = numbers;
    }

    /// Adds numbers of tables that what goes to that replica next reads, too: there and on the
    /// primary.
    pub fn numbers_tables_also(&mut self, pairs: Vec<(u32, u32)>) {
        match &mut self.numbers {
            Numbers::Pairs(known) => {
                for pair in pairs {
                    if !known.contains(&pair) {
                        known.push(pair);
                    }
                }
            }
            Numbers::Unknown | Numbers::One(_) => self.numbers = Numbers::Pairs(pairs),
        }
    }

    /// Takes a message while no server is attached.
    fn gather(&mut self, message: WireMessage<'_>, out: &mut Out) -> Result<(), Malformed> {
        self.client_rest = RestGoes::Nowhere;
        let ends = match message.tag() {
            b'X' => {
                self.stage = Stage::Ended;
                return Ok(());
            }
            // PostgreSQL, too, ignores what is left of a COPY that has failed.
            b'd' | b'c' | b'f' if !self.may_copy() => return Ok(()),
            _ if self.is_skipping => {
                if message.tag() == b'S' {
                    self.is_skipping = false;
                    message::write_ready(&mut out.to_client, self.reported_status());
                }
                return Ok(());
            }
            b'Q' if self.sets_by(message, out) || self.turns_by(message, out) => return Ok(()),
            b'Q' if self.deallocates_by(message, out) => return Ok(()),
            b'S' if self.turns_batch(out) => return Ok(()),
            b'H' if self.held.is_empty() => return Ok(()),
            b'Q' | b'F' | b'S' | b'H' => true,
            _ => false,
        };
        match message.tag() {
            b'Q' => self.held_effect = Some(self.grammar.effect_of_query(message)),
            b'P' if message.is_whole() => {
                let parse = Parse::read(message.body()).ok();
                let statement = parse.map(|parse| Arc::new(Prepared::of(parse, self.grammar)));
                self.held_statements.extend(statement);
            }
            _ => {}
        }
        self.held.push(Bytes::copy_from_slice(message.frame));
        self.held_len += message.frame.len();
        self.held_rest = message.rest;
        if ends || self.held_len > HELD_LEN_MAX || !message.is_whole() {
            self.client_rest = RestGoes::On;
            self.gathers_no_more(out);
        }
        Ok(())
    }

    /// Has a part of a batch gathered, and may more of it come?
    pub fn is_gathering(&self) -> bool {
        self.stage == Stage::Free && !self.held.is_empty()
    }

    /// Has what was gathered go to a server, also if more is to come.
    pub fn gathers_no_more(&mut self, out: &mut Out) {
        self.stage = Stage::Wanting;
        if self.is_block_failed() {
            self.answer_failed(out);
        } else if let Some(failure) = self.block_failure() {
            self.refuse(&failure, out);
        }
    }

    /// Notes the server process that was reported to the client.
    pub fn is_called(&mut self, process: u32) {
        self.process = process;
    }

    /// Does its server run something next that is the session's own?
    pub fn runs_own(&self) -> bool {
        self.expected.front().is_some_and(|front| front.is_hidden)
    }

    /// Does its server run something that the client has sent, now or next?
    pub fn runs_for_client(&self) -> bool {
        self.expected.has_seen()
    }

    /// May what is held read data of COPY, which comes right behind it?
    fn may_copy(&self) -> bool {
        !self.is_skipping && self.held.iter().any(|frame| frame[0] == b'E')
    }

    /// Is a message all about settings of the proxy? Then it is done.
    fn sets_by(&mut self, message: WireMessage<'_>, out: &mut Out) -> bool {
        let Ok((text, _)) = message::split_string(message.body()) else {
            return false;
        };
        if !self.held.is_empty() || self.expected.is_empty() {
            return self.held.is_empty() && self.sets(text, out);
        }
        // It is answered when its turn comes.
        let mut answer = Out::default();
        let is_done = self.sets(text, &mut answer);
        if is_done {
            self.expected.push(Expected::made(answer.to_client));
        }
        is_done
    }

    /// Is a message all about a transaction that is on no server? Then it is done.
    fn turns_by(&mut self, message: WireMessage<'_>, out: &mut Out) -> bool {
        let text = message::split_string(message.body()).ok();
        let text = text.filter(|_| self.held.is_empty() && message.is_whole());
        text.is_some_and(|(text, _)| self.turns(text, out))
    }

    /// Attaches the server that was wanted: what was held goes to it. `prelude` are statements that
    /// run in front of it in the same transaction, unseen by the client; on a replica, nothing is
    /// begun that outlives a batch but for a transaction's snapshot.
    pub fn attach(
        &mut self,
        server: &mut ServerConnection,
        (at, prelude): (At, &[String]),
        out: &mut Out,
    ) -> Result<(), Malformed> {
        assert_eq!(self.stage, Stage::Wanting, "attached what was not wanted");
        self.stage = Stage::Attached;
        self.is_on_replica = at != At::Primary;
        server.is_dirty |= self.is_pinned;
        self.name_application(server, out);
        assert!(
            at != At::Primary || !self.is_waiting(),
            "its transaction is there: see resume"
        );
        self.is_read_committed &= self.is_waiting();
        self.begin(at, server, out);
        self.parameters.report(server, out);
        match at {
            At::Replica(proof) => self.goes_elsewhere(proof),
            At::Primary => self.failure = None,
        }
        self.held_len = 0;
        let held_rest = core::mem::take(&mut self.held_rest);
        let mut held = core::mem::take(&mut self.held);
        if let Some(first) = held.first_mut().filter(|first| first[0] == b'Q') {
            if !prelude.is_empty() {
                *first = self.with_prelude(prelude, first).freeze();
            }
        } else {
            for statement in prelude {
                self.add(statement, out);
            }
        }
        let last = held.len().saturating_sub(1);
        let forwarded = self.answering(out, |session, out| {
            held.iter().enumerate().try_for_each(|(index, frame)| {
                let rest = if index == last { held_rest } else { 0 };
                session.forward(WireMessage { frame, rest }, server, out)
            })
        });
        self.is_schema_only = false;
        forwarded
    }

    /// Drops what is held, and the wish for a server. Returns the messages that were held.
    fn drop_held(&mut self) -> Vec<Bytes> {
        self.stage = Stage::Free;
        self.held_len = 0;
        self.held_rest = 0;
        self.client_rest = RestGoes::Nowhere;
        self.held_effect = None;
        self.is_schema_only = false;
        self.held_statements.clear();
        core::mem::take(&mut self.held)
    }

    /// Answers what is held with an error, as no server can run it. The session goes on.
    pub fn refuse(&mut self, report: &Report, out: &mut Out) {
        assert_eq!(self.stage, Stage::Wanting, "refused what was not wanted");
        assert!(!self.is_waiting(), "its transaction has a server");
        self.failure = None;
        let is_ended = self.is_held_to_end();
        self.drop_held();
        report.write(&mut out.to_client);
        self.block_fails();
        if is_ended {
            message::write_ready(&mut out.to_client, self.reported_status());
        } else {
            self.is_skipping = true;
        }
    }

    /// Notes that its server was detached, as it wanted.
    pub fn released(&mut self, out: &mut Out) {
        assert_eq!(self.wants(), Wants::Release, "released what is in use");
        assert_eq!(self.changes, Changes::Nothing, "its settings are not known");
        self.stage = Stage::Free;
        self.is_on_replica = false;
        self.has_snapshot_elsewhere = false;
        self.comes_back(out);
    }

    /// Is it with a server, in no transaction, with nothing expected?
    pub fn is_idle(&self) -> bool {
        self.is_attached() && self.is_done() && !self.is_waiting()
    }

    /// Does what the client sends go to its server at once?
    pub fn is_attached(&self) -> bool {
        self.stage == Stage::Attached
    }

    /// Does it keep its server?
    pub fn is_pinned(&self) -> bool {
        self.is_pinned
    }

    /// Is it inside of a transaction that the client has begun?
    pub fn is_in_transaction(&self) -> bool {
        self.status != IDLE
    }

    /// Has its transaction failed, so that only a rollback can follow?
    pub fn is_failed(&self) -> bool {
        self.status == FAILED
    }

    /// Does it skip what the client sends, up to Sync?
    pub fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    /// Returns what a portal runs, as far as it was made by Bind.
    pub fn of_portal(&self, portal: &[u8]) -> Option<Bound> {
        self.portals.get(portal).cloned()
    }

    /// Is it inside of a transaction on a server, with nothing under way?
    pub fn is_inside_quietly(&self) -> bool {
        self.status != IDLE && self.expected.is_empty() && !self.is_within_batch()
    }

    /// Does it know all portals that were made by Bind in its transaction?
    pub fn knows_portals(&self) -> bool {
        self.portals.len() < PORTALS_MAX
    }

    fn expect(&mut self, kind: ReplyKind) {
        self.expected.push(Expected::of(kind));
    }
}
