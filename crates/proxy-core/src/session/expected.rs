//! Lists the replies that the server still has to send, in order.

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
    /// No reply of a server: the proxy's own message goes to the client instead.
    Made,
}

/// The status of a transaction, as servers report it.
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
    /// Reads the status from the body of ReadyForQuery.
    pub fn read(body: &[u8]) -> Option<TransactionStatus> {
        match body {
            b"I" => Some(TransactionStatus::Idle),
            b"T" => Some(TransactionStatus::Inside),
            b"E" => Some(TransactionStatus::Failed),
            _ => None,
        }
    }

    /// Returns the byte for the status.
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
    /// The client has requested it.
    #[default]
    Nothing,
    /// It becomes this statement's description for the client.
    Learns(Arc<PreparedStatement>),
    /// It must equal this statement's description for the client. Otherwise the statement does not
    /// run.
    Checks(Arc<PreparedStatement>),
}

/// The change to undo if a message was never executed.
#[derive(Debug, Default)]
pub enum MessageUndo {
    /// Nothing.
    #[default]
    Nothing,
    /// The statement is not prepared on the server.
    ForgetOnServer(StatementId),
    /// The statement is still on the server, because only this message closes it.
    KeepOnServer(StatementId),
    /// The client has no statement with this name.
    Forget(Bytes),
    /// The client still has this statement under its name.
    Restore(Bytes, Arc<PreparedStatement>),
    /// Neither the client nor the server has this statement.
    ForgetBoth(StatementId, Bytes),
    /// The client and the server still have these statements.
    RestoreAll(BTreeMap<Bytes, Arc<PreparedStatement>>, ServerStatements),
    /// The same, and the server still uses the names that sessions share.
    ShareNames(BTreeMap<Bytes, Arc<PreparedStatement>>, ServerStatements),
    /// The server has no unnamed statement.
    ForgetUnnamedOnServer,
    /// The client and the server still have these unnamed statements. A statement that runs and
    /// fails ends both anyway.
    KeepUnnamed(
        Option<(UnnamedId, Arc<PreparedStatement>)>,
        Option<UnnamedId>,
    ),
    /// The client's portal with this name still runs this statement.
    KeepPortal(Bytes, Option<BoundStatement>),
}

impl MessageUndo {
    /// Returns whether the message restores statements that were removed by name.
    pub fn is_of_names(&self) -> bool {
        matches!(self, MessageUndo::Restore(..) | MessageUndo::RestoreAll(..))
    }
}

/// The kind of message that a ReadyForQuery answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyCause {
    /// Sync. A server that skips a failed batch continues after it.
    Sync,
    /// A simple query or a function call. A server that skips a failed batch skips it, too, without
    /// an answer.
    Query,
}

/// Statements before the client's in one simple query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prelude {
    /// The number of statements whose CommandComplete is outstanding.
    pub statements: usize,
    /// The length of the client's query string in characters.
    pub length: usize,
}

/// An outstanding reply.
#[derive(Debug)]
pub struct ExpectedReply {
    /// The kind of message that the reply answers.
    pub kind: ReplyKind,
    /// Whether the session itself sent the message. Then the client does not see the reply.
    pub is_hidden: bool,
    /// Whether the message may fail without a report to the client.
    pub is_optional: bool,
    /// Only for a simple query: the statements before the client's, whose replies the client does
    /// not see.
    pub prelude: Prelude,
    /// Only for ReadyForQuery: the kind of message that it answers.
    pub ends: ReadyCause,
    /// The client's name of the statement that the message concerns. Empty for none and for the
    /// unnamed statement.
    pub statement: Bytes,
    /// Only for Execute: whether the end of a COPY's data was sent after it.
    pub ends_copy: bool,
    /// Only for Describe: its purpose.
    pub describes: Describes,
    /// The change to undo if the server skips the message.
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

    /// Returns the reply to a Sync.
    pub fn of_sync() -> ExpectedReply {
        ExpectedReply {
            ends: ReadyCause::Sync,
            ..ExpectedReply::of(ReplyKind::Ready)
        }
    }

    /// Returns a message that the proxy made for the client.
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

    /// Returns the reply to a message about this statement.
    pub fn about(mut self, statement: &[u8]) -> ExpectedReply {
        self.statement = Bytes::copy_from_slice(statement);
        self
    }

    /// Returns a reply that the client does not see and that may be an error.
    pub fn optional(kind: ReplyKind) -> ExpectedReply {
        ExpectedReply {
            is_optional: true,
            ..ExpectedReply::hidden(kind)
        }
    }

    /// Returns the reply to a Sync that the session itself sent.
    pub fn hidden_sync() -> ExpectedReply {
        ExpectedReply {
            is_hidden: true,
            ..ExpectedReply::of_sync()
        }
    }

    /// Sets the change to undo if it fails.
    pub fn or(mut self, undo: MessageUndo) -> ExpectedReply {
        self.undo = undo;
        self
    }
}

/// All outstanding replies.
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

    /// Returns whether a ReadyForQuery is outstanding.
    pub fn awaits_ready(&self) -> bool {
        self.ready > 0
    }

    /// Returns whether the client must send Sync to end its batch.
    pub fn has_open_batch(&self) -> bool {
        self.open
    }

    /// Returns whether nothing but ReadyForQuery is outstanding.
    pub fn is_over(&self) -> bool {
        self.entries.iter().all(|it| it.kind == ReplyKind::Ready)
    }

    /// Returns whether nothing is outstanding after the first ReadyForQuery. If the server asks for
    /// data of COPY, more may be sent.
    pub fn is_one_batch(&self) -> bool {
        self.ready == 0 || self.ready == 1 && !self.open
    }

    pub fn push(&mut self, expected: ExpectedReply) {
        let is_ready = expected.kind == ReplyKind::Ready;
        self.ready += usize::from(is_ready);
        self.open = !is_ready;
        self.entries.push_back(expected);
    }

    /// Records that the client has sent the end of a COPY's data. It is not known yet whether the
    /// last message starts a COPY that reads this data.
    pub fn copy_ends(&mut self) {
        if let Some(last) = self.entries.back_mut() {
            last.ends_copy = last.kind == ReplyKind::Execute;
        }
    }

    /// Returns whether a reply of the server is outstanding that the client sees.
    pub fn has_seen(&self) -> bool {
        let mut all = self.entries.iter();
        all.any(|expected| !expected.is_hidden && expected.kind != ReplyKind::Made)
    }

    pub fn front(&self) -> Option<&ExpectedReply> {
        self.entries.front()
    }

    /// Returns the reply after the next one.
    pub fn second(&self) -> Option<&ExpectedReply> {
        self.entries.get(1)
    }

    pub fn front_mut(&mut self) -> Option<&mut ExpectedReply> {
        self.entries.front_mut()
    }

    /// Adds a reply as the next one.
    pub fn push_front(&mut self, expected: ExpectedReply) {
        self.ready += usize::from(expected.kind == ReplyKind::Ready);
        self.entries.push_front(expected);
    }

    pub fn pop(&mut self) -> Option<ExpectedReply> {
        let expected = self.entries.pop_front()?;
        self.ready -= usize::from(expected.kind == ReplyKind::Ready);
        Some(expected)
    }

    /// Drops the outstanding replies of the session's own statements before the client's batches,
    /// because the server does not send them any more.
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

    /// Sends the client the proxy's own messages that are next in order.
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

    /// Reopens the batch because a COPY reads data in it: the server ignores a Sync that was sent
    /// directly after its Execute.
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

    /// Drops the replies that the server skips because the batch has failed. Returns them, last
    /// first, and whether the end of the batch was sent. The end is Sync, or for a single query the
    /// query itself.
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
