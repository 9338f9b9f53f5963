//! The replies that are due from the server, in order.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

use super::{BoundStatement, PreparedStatement};
use crate::server::{ServerStatements, StatementId, UnnamedId};

/// The kind of message that a reply belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// Ends with ParseComplete.
    Parse,
    /// Ends with BindComplete.
    Bind,
    /// Ends with RowDescription or NoData.
    Describe,
    /// Ends with CommandComplete, EmptyQueryResponse or PortalSuspended.
    Execute,
    /// Ends with CloseComplete.
    Close,
    /// Ends with ReadyForQuery.
    Ready,
    /// No reply of the server: the proxy's own message goes to the client in its place.
    Made,
}

/// How far a transaction is, as servers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransactionStatus {
    /// Outside of a transaction.
    Idle,
    /// Inside of a transaction.
    Inside,
    /// Inside of a transaction that has failed.
    Failed,
}

impl TransactionStatus {
    /// Reads it from the body of ReadyForQuery.
    pub fn read(body: &[u8]) -> Option<TransactionStatus> {
        match body {
            b"I" => Some(TransactionStatus::Idle),
            b"T" => Some(TransactionStatus::Inside),
            b"E" => Some(TransactionStatus::Failed),
            _ => None,
        }
    }

    /// Returns the byte for it.
    pub fn byte(self) -> u8 {
        match self {
            TransactionStatus::Idle => b'I',
            TransactionStatus::Inside => b'T',
            TransactionStatus::Failed => b'E',
        }
    }
}

/// The purpose of a description.
#[derive(Debug, Default)]
pub enum Describes {
    /// The client.
    #[default]
    Nothing,
    /// It is what this statement is to the client.
    Learns(Arc<PreparedStatement>),
    /// This statement is what it was to the client, or does not run.
    Checks(Arc<PreparedStatement>),
}

/// The change that must be undone if the message was never executed.
#[derive(Debug, Default)]
pub enum MessageUndo {
    /// Nothing.
    #[default]
    Nothing,
    /// A statement is not prepared on the server.
    ForgetOnServer(StatementId),
    /// A statement is closed on the server only by this message.
    KeepOnServer(StatementId),
    /// The client has no statement of this name.
    Forget(Bytes),
    /// The client still has this statement under its name.
    Restore(Bytes, Arc<PreparedStatement>),
    /// Neither the client nor the server has this statement.
    ForgetBoth(StatementId, Bytes),
    /// The client still has these statements, and the server those.
    RestoreAll(BTreeMap<Bytes, Arc<PreparedStatement>>, ServerStatements),
    /// The same, and names on the server are the shared names of sessions.
    ShareNames(BTreeMap<Bytes, Arc<PreparedStatement>>, ServerStatements),
    /// The server has no unnamed statement.
    ForgetUnnamedOnServer,
    /// The client and the server have these unnamed statements still. A statement that runs and
    /// fails ends both anyway.
    KeepUnnamed(
        Option<(UnnamedId, Arc<PreparedStatement>)>,
        Option<UnnamedId>,
    ),
    /// The client's portal of this name runs this still.
    KeepPortal(Bytes, Option<BoundStatement>),
}

impl MessageUndo {
    /// Returns whether this gives statements back that are removed by their names.
    pub fn is_of_names(&self) -> bool {
        matches!(self, MessageUndo::Restore(..) | MessageUndo::RestoreAll(..))
    }
}

/// The kind of message that a ReadyForQuery answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyCause {
    /// Sync, at which a server that skips a batch that has failed goes on.
    Sync,
    /// A simple query or a function call, which is skipped, too, in such a batch, and not answered.
    Query,
}

/// Statements in front of the client's in one simple query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prelude {
    /// Statements whose CommandComplete is still due.
    pub statements: usize,
    /// Their text's length, in characters.
    pub length: usize,
}

/// One reply that is to come.
#[derive(Debug)]
pub struct ExpectedReply {
    /// The kind of message that it belongs to.
    pub kind: ReplyKind,
    /// The session itself asked for it; the client does not see it.
    pub is_hidden: bool,
    /// It may fail, which is not reported.
    pub is_optional: bool,
    /// Of a simple query: statements in front of the client's, whose replies the client does not
    /// see, and the length of their text in characters.
    pub prelude: Prelude,
    /// The kind of message that ReadyForQuery answers, if it is that.
    pub ends: ReadyCause,
    /// The statement that the message is about, as the client calls it; empty if it is about none,
    /// or the unnamed one.
    pub statement: Bytes,
    /// Of Execute: the end of a COPY's data was sent behind it.
    pub ends_copy: bool,
    /// Of Describe: its purpose.
    pub describes: Describes,
    /// The change to undo if the message is skipped.
    pub undo: MessageUndo,
    /// Of the proxy's own message: the message.
    made: Bytes,
}

impl ExpectedReply {
    /// Returns a reply that the client sees.
    pub fn of(kind: ReplyKind) -> ExpectedReply {
        ExpectedReply {
            kind,
            is_hidden: false,
            is_optional: false,
            prelude: Prelude::default(),
            ends: ReadyCause::Query,
            statement: Bytes::new(),
            ends_copy: false,
            describes: Describes::Nothing,
            undo: MessageUndo::Nothing,
            made: Bytes::new(),
        }
    }

    /// Returns the expected reply to Sync.
    pub fn of_sync() -> ExpectedReply {
        ExpectedReply {
            ends: ReadyCause::Sync,
            ..ExpectedReply::of(ReplyKind::Ready)
        }
    }

    /// Returns a message that was made for the client.
    pub fn made(message: impl Into<Bytes>) -> ExpectedReply {
        ExpectedReply {
            made: message.into(),
            ..ExpectedReply::of(ReplyKind::Made)
        }
    }

    /// Returns a reply that the client does not see.
    pub fn hidden(kind: ReplyKind) -> ExpectedReply {
        ExpectedReply {
            is_hidden: true,
            ..ExpectedReply::of(kind)
        }
    }

    /// Returns a reply to a message about this statement.
    pub fn about(mut self, statement: &[u8]) -> ExpectedReply {
        self.statement = Bytes::copy_from_slice(statement);
        self
    }

    /// Returns a reply that the client does not see, and that may be an error.
    pub fn optional(kind: ReplyKind) -> ExpectedReply {
        ExpectedReply {
            is_optional: true,
            ..ExpectedReply::hidden(kind)
        }
    }

    /// Returns the expected reply to a Sync of the session's own.
    pub fn hidden_sync() -> ExpectedReply {
        ExpectedReply {
            is_hidden: true,
            ..ExpectedReply::of_sync()
        }
    }

    /// Adds the change to undo if it fails.
    pub fn or(mut self, undo: MessageUndo) -> ExpectedReply {
        self.undo = undo;
        self
    }
}

/// All replies that are to come.
#[derive(Debug, Default)]
pub struct ReplyQueue {
    entries: VecDeque<ExpectedReply>,
    /// Entries of kind [`ReplyKind::Ready`].
    ready: usize,
    /// Extended messages were sent that no Sync has followed.
    open: bool,
}

impl ReplyQueue {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns whether a ReadyForQuery is to come.
    pub fn awaits_ready(&self) -> bool {
        self.ready > 0
    }

    /// Returns whether the client must send Sync to end its batch.
    pub fn has_open_batch(&self) -> bool {
        self.open
    }

    /// Returns whether nothing is to come but ReadyForQuery.
    pub fn is_over(&self) -> bool {
        self.entries.iter().all(|it| it.kind == ReplyKind::Ready)
    }

    /// Returns whether nothing is to come behind the first ReadyForQuery. A server that asks for
    /// data of COPY may be sent more.
    pub fn is_one_batch(&self) -> bool {
        self.ready == 0 || self.ready == 1 && !self.open
    }

    pub fn push(&mut self, expected: ExpectedReply) {
        let is_ready = expected.kind == ReplyKind::Ready;
        self.ready += usize::from(is_ready);
        self.open = !is_ready;
        self.entries.push_back(expected);
    }

    /// Notes that the end of a COPY's data is sent, before it is known whether the last message
    /// reads any.
    pub fn copy_ends(&mut self) {
        if let Some(last) = self.entries.back_mut() {
            last.ends_copy = last.kind == ReplyKind::Execute;
        }
    }

    /// Returns whether a reply is to come that the client sees, and that a server gives.
    pub fn has_seen(&self) -> bool {
        let mut all = self.entries.iter();
        all.any(|expected| !expected.is_hidden && expected.kind != ReplyKind::Made)
    }

    pub fn front(&self) -> Option<&ExpectedReply> {
        self.entries.front()
    }

    /// Returns the reply that is expected after the next one.
    pub fn second(&self) -> Option<&ExpectedReply> {
        self.entries.get(1)
    }

    pub fn front_mut(&mut self) -> Option<&mut ExpectedReply> {
        self.entries.front_mut()
    }

    /// Adds what is answered next.
    pub fn push_front(&mut self, expected: ExpectedReply) {
        self.ready += usize::from(expected.kind == ReplyKind::Ready);
        self.entries.push_front(expected);
    }

    pub fn pop(&mut self) -> Option<ExpectedReply> {
        let expected = self.entries.pop_front()?;
        self.ready -= usize::from(expected.kind == ReplyKind::Ready);
        Some(expected)
    }

    /// Drops the expected replies of the session's own statements in front of the client's batches:
    /// they are answered no more.
    pub fn forget_hidden(&mut self) {
        while let Some(ExpectedReply {
            kind: ReplyKind::Ready,
            is_hidden: true,
            ..
        }) = self.front()
        {
            self.pop();
        }
    }

    /// Passes the proxy's own messages that are next in order to the client.
    pub fn give_made(&mut self, to_client: &mut BytesMut) {
        while let Some(ExpectedReply {
            kind: ReplyKind::Made,
            made,
            ..
        }) = self.entries.front()
        {
            to_client.extend_from_slice(made);
            self.entries.pop_front();
        }
    }

    /// Reopens the batch as a COPY reads data in it: the server ignores a Sync that was sent right
    /// behind its Execute.
    pub fn reopen(&mut self) {
        let entries = self.entries.iter().map(|it| (it.kind, it.ends));
        if entries.eq([
            (ReplyKind::Execute, ReadyCause::Query),
            (ReplyKind::Ready, ReadyCause::Sync),
        ]) {
            self.entries.pop_back();
            self.ready -= 1;
            self.open = true;
        }
    }

    /// Drops the replies that the server skips as the batch has failed. Returns them, last first,
    /// and whether the end of the batch is among the sent messages. That end is Sync, but for a
    /// query that stands alone.
    pub fn skip_batch(&mut self) -> (Vec<ExpectedReply>, bool) {
        let mut entries = self.entries.iter().enumerate();
        let end = entries.position(|(index, it)| {
            it.kind == ReplyKind::Ready && (index == 0 || it.ends == ReadyCause::Sync)
        });
        let skipped = self.entries.drain(..end.unwrap_or(self.entries.len()));
        let skipped: Vec<ExpectedReply> = skipped.rev().collect();
        let is_ready = |it: &&ExpectedReply| it.kind == ReplyKind::Ready;
        self.ready -= skipped.iter().filter(is_ready).count();
        if end.is_none() {
            self.open = false;
        }
        (skipped, end.is_some())
    }
}
