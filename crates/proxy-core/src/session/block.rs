//! Answers the messages of a deferred transaction, which the client has begun and which runs on no
//! server yet.
//!
//! In a session that defers transactions, this module answers `BEGIN`. At READ COMMITTED each
//! statement sees the transactions that have committed when that statement begins. As long as the
//! transaction only reads, each of its statements may run on any server (P1). The transaction
//! begins on the primary before the first batch that goes to the primary. After that it is an
//! ordinary transaction of the primary. A transaction without such a batch also ends in this
//! module.
//!
//! A REPEATABLE READ, READ ONLY transaction has one *snapshot* for all of its statements. The
//! snapshot is taken before the first batch, on the server that runs this batch, and the
//! transaction stays on that server. If that server is a replica that crashes, the transaction has
//! failed, and is on no server.
//!
//! Invariant: while there is a [`DeferredBlock`], the session has no transaction on a server. So
//! the block is not part of the session's state on the primary.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;

use super::client::ClientState;
use super::deferral::{DeferredBlock, SnapshotScope};
use super::expected::TransactionStatus;
use super::held_messages::{HeldMessage, HeldMessages};
use super::link::DetachedTransaction;
use super::{PeerOutput, PreparedStatement, TraceSetting};
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{self, BindMessage, ParseMessage, StatementOrPortal};
use pg_wire::report::{Report, Severity};

/// Words that may stand behind `BEGIN` and `START`. Serializable transactions are a server's.
const MODES: &[(&[&str], TransactionMode)] = &[
    (
        &["isolation", "level", "read", "committed"],
        TransactionMode::Snapshots(SnapshotScope::OfStatements),
    ),
    (
        &["isolation", "level", "read", "uncommitted"],
        TransactionMode::Snapshots(SnapshotScope::OfStatements),
    ),
    (
        &["isolation", "level", "repeatable", "read"],
        TransactionMode::Snapshots(SnapshotScope::OfTransaction),
    ),
    (&["read", "write"], TransactionMode::ReadWrite),
    (&["read", "only"], TransactionMode::ReadOnly),
    (&["not", "deferrable"], TransactionMode::OfSerializable),
    (&["deferrable"], TransactionMode::OfSerializable),
];

/// How a text begins that begins or ends a transaction: `BEGIN`, `START`, `COMMIT`, `END`,
/// `ROLLBACK`, `ABORT`.
const STARTS: &[[u8; 2]] = &[*b"be", *b"st", *b"co", *b"en", *b"ro", *b"ab"];
/// Longer texts are a server's, in bytes.
const TEXT_LENGTH_MAX: usize = 100;

/// The mode that a client requests for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransactionMode {
    Snapshots(SnapshotScope),
    ReadOnly,
    ReadWrite,
    /// It matters only to serializable transactions.
    OfSerializable,
}

/// A text that begins or ends a transaction and does nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockCommand {
    /// PostgreSQL's answer, the requested snapshots, if any, and whether the transaction is
    /// read-only.
    Begin(&'static str, Option<SnapshotScope>, bool),
    Commit,
    Rollback,
}

/// A statement at the front of a batch of extended messages, which begins or ends a transaction.
struct FrontStatement<'a> {
    command: BlockCommand,
    text: Bytes,
    /// Under which name it is prepared here.
    parse: Option<ParseMessage<'a>>,
    is_described: bool,
    /// How many messages it takes.
    count: usize,
}

/// A session without a server.
pub(super) struct DetachedSession<'a> {
    pub client: &'a mut ClientState,
    pub transaction: &'a mut DetachedTransaction,
}

impl DetachedSession<'_> {
    /// Writes ReadyForQuery.
    pub(super) fn write_ready(&self, out: &mut PeerOutput) {
        message::write_ready(&mut out.to_client, self.transaction.status().byte());
    }

    /// Executes a simple query that only begins or ends a transaction on no server. Returns false
    /// if a server must run it.
    pub(super) fn run_block_command(&mut self, text: &[u8], out: &mut PeerOutput) -> bool {
        let Some(command) = self.command(text) else {
            return false;
        };
        self.execute_block_command(command, text, out);
        self.client.statements.take_unnamed();
        self.write_ready(out);
        true
    }

    /// Executes the first statement of a batch that Sync ends, like
    /// [`DetachedSession::run_block_command`]. Returns true if the batch has nothing else.
    pub(super) fn turns_batch(&mut self, held: &mut HeldMessages, out: &mut PeerOutput) -> bool {
        let mut count = 0;
        loop {
            let messages = &held.messages()[count..];
            let first = messages.first().map(|message| &message.frame);
            if self.transaction.has_failed_here() && first.is_some_and(|it| self.closes(it, out)) {
                count += 1;
                continue;
            }
            let Some(front) = self.front(messages) else {
                break;
            };
            if let Some(parse) = front.parse {
                self.prepare(parse, messages[0].known.statement());
                message::write(&mut out.to_client, b'1', &[], 0);
            }
            message::write(&mut out.to_client, b'2', &[], 0);
            if front.is_described {
                message::write(&mut out.to_client, b'n', &[], 0);
            }
            self.execute_block_command(front.command, &front.text, out);
            count += front.count;
        }
        held.drop_front(count);
        let is_done = held.is_empty();
        if is_done {
            self.write_ready(out);
        }
        is_done
    }

    /// Returns the transaction command of a text that the session executes without a server; none
    /// for any other text.
    fn command(&self, text: &[u8]) -> Option<BlockCommand> {
        let deferral = &self.client.deferral;
        if !deferral.is_possible() || self.client.is_pinned() || self.transaction.is_waiting() {
            return None;
        }
        let command = command_of(text)?;
        let is_begin = matches!(command, BlockCommand::Begin(..));
        if let BlockCommand::Begin(_, asked, reads_only) = command {
            deferral.snapshots(asked, reads_only)?;
        }
        let is_deferred = matches!(self.transaction, DetachedTransaction::Deferred(_));
        (is_begin != is_deferred).then_some(command)
    }

    fn execute_block_command(&mut self, command: BlockCommand, text: &[u8], out: &mut PeerOutput) {
        let (tag, why) = match command {
            BlockCommand::Begin(tag, asked, reads_only) => {
                let snapshots = self.client.deferral.snapshots(asked, reads_only);
                let snapshots = snapshots.expect("it is deferred, see command");
                *self.transaction =
                    DetachedTransaction::Deferred(DeferredBlock::begun(text, snapshots));
                (tag, "its transaction begins where it must")
            }
            BlockCommand::Commit | BlockCommand::Rollback => {
                let has_failed = self.transaction.status() != TransactionStatus::Inside;
                *self.transaction = DetachedTransaction::None;
                let is_commit = command == BlockCommand::Commit && !has_failed;
                let tag = if is_commit { "COMMIT" } else { "ROLLBACK" };
                (tag, "its transaction was on no server")
            }
        };
        if self.client.settings.trace == TraceSetting::On {
            let text = format!("replex: no server, {why}");
            Report::new(Severity::Notice, "00000", text).write(&mut out.to_client);
        }
        message::write(&mut out.to_client, b'C', &[tag.as_bytes(), b"\0"], 0);
    }

    /// Returns the statement at the front of a batch, if it begins or ends a transaction that is on
    /// no server.
    fn front<'a>(&self, messages: &'a [HeldMessage]) -> Option<FrontStatement<'a>> {
        let frame = |index: usize| {
            let frame = &messages.get(index)?.frame;
            Some((frame[0], &frame[HEADER_LEN..]))
        };
        let parse = match frame(0)? {
            (b'P', body) => Some(ParseMessage::read(body).ok()?),
            _ => None,
        };
        let mut count = usize::from(parse.is_some());
        let (b'B', body) = frame(count)? else {
            return None;
        };
        count += 1;
        let bind = BindMessage::read(body).ok()?;
        let known;
        let text = match parse {
            Some(parse) => parse.text().ok()?,
            None => {
                known = self.client.statements.find(bind.statement)?;
                known.text()?
            }
        };
        let command = self.command(text)?;
        let is_of_parse = parse.is_none_or(|parse| {
            let has_room = !self.client.statements.is_full();
            let is_new = !self.client.statements.has(parse.name);
            parse.name == bind.statement && is_new && has_room
        });
        let no_values = message::values(bind.rest).is_ok_and(|values| values.is_empty());
        if !is_of_parse || !bind.portal.is_empty() || !no_values {
            return None;
        }
        let mut is_described = false;
        if let Some((b'D', body)) = frame(count) {
            is_described = StatementOrPortal::read(body) == Ok(StatementOrPortal::Portal(b""));
            count += usize::from(is_described);
        }
        let (b'E', body) = frame(count)? else {
            return None;
        };
        count += 1;
        // The portal is on no server, where it could be used again.
        let mut behind = messages[count..].iter().map(|message| &message.frame);
        let used = behind.find(|frame| matches!(frame[0], b'B' | b'E' | b'D' | b'S'));
        let is_used_again = used.is_some_and(|frame| match frame[0] {
            b'E' => message::executed_portal(&frame[HEADER_LEN..]) == Ok(b""),
            b'D' => {
                StatementOrPortal::read(&frame[HEADER_LEN..]) == Ok(StatementOrPortal::Portal(b""))
            }
            _ => false,
        });
        let is_of_it = message::executed_portal(body) == Ok(b"") && !is_used_again;
        is_of_it.then(|| FrontStatement {
            command,
            text: Bytes::copy_from_slice(text),
            parse,
            is_described,
            count,
        })
    }

    /// Records a statement of the client that is on no server yet.
    pub(super) fn prepare(
        &mut self,
        parse: ParseMessage<'_>,
        known: Option<&Arc<PreparedStatement>>,
    ) {
        let prepared = match known {
            Some(known) => Arc::clone(known),
            None => Arc::new(PreparedStatement::of(parse, self.client.grammar)),
        };
        if parse.name.is_empty() {
            self.client.statements.replace_unnamed(prepared);
        } else {
            let name = Bytes::copy_from_slice(parse.name);
            self.client.statements.insert(name, prepared);
        }
    }
}

/// Returns whether a query string only ends a transaction.
pub fn is_end(text: &[u8]) -> bool {
    matches!(
        command_of(text),
        Some(BlockCommand::Commit | BlockCommand::Rollback)
    )
}

/// Returns the effect of a text, if it is one such statement and nothing else, not even a comment.
fn command_of(text: &[u8]) -> Option<BlockCommand> {
    // Most texts are something else.
    let start = text.trim_ascii_start().first_chunk()?;
    if !STARTS.contains(&start.map(|byte: u8| byte.to_ascii_lowercase()))
        || text.len() > TEXT_LENGTH_MAX
    {
        return None;
    }
    let text = str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let is_plain = |sign: char| sign.is_ascii_alphabetic() || sign.is_whitespace() || sign == ',';
    if !text.chars().all(is_plain) {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let mut parts = text.split(',').map(|part| part.split_whitespace());
    let first: Vec<&str> = parts.next()?.collect();
    let (mut command, mut modes) = match &first[..] {
        ["begin", "work" | "transaction", modes @ ..] | ["begin", modes @ ..] => {
            (BlockCommand::Begin("BEGIN", None, false), modes)
        }
        ["start", "transaction", modes @ ..] => {
            (BlockCommand::Begin("START TRANSACTION", None, false), modes)
        }
        ["commit" | "end", "work" | "transaction"] | ["commit" | "end"] => {
            (BlockCommand::Commit, &[][..])
        }
        ["rollback" | "abort", "work" | "transaction"] | ["rollback" | "abort"] => {
            (BlockCommand::Rollback, &[][..])
        }
        _ => return None,
    };
    let further: Vec<Vec<&str>> = parts.map(Iterator::collect).collect();
    if !further.is_empty() && (modes.is_empty() || !matches!(command, BlockCommand::Begin(..))) {
        return None;
    }
    let mut lists = further.iter();
    loop {
        while !modes.is_empty() {
            let (words, mode) = MODES.iter().find(|(words, _)| modes.starts_with(words))?;
            modes = &modes[words.len()..];
            // The last one counts, as with PostgreSQL.
            if let BlockCommand::Begin(_, snapshots, reads_only) = &mut command {
                match mode {
                    TransactionMode::Snapshots(asked) => *snapshots = Some(*asked),
                    TransactionMode::ReadOnly => *reads_only = true,
                    TransactionMode::ReadWrite => *reads_only = false,
                    TransactionMode::OfSerializable => {}
                }
            }
        }
        match lists.next() {
            None => return Some(command),
            Some(list) if list.is_empty() => return None,
            Some(list) => modes = list,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_only_begin_or_end() {
        for (text, command) in [
            ("BEGIN", BlockCommand::Begin("BEGIN", None, false)),
            (" begin work; ", BlockCommand::Begin("BEGIN", None, false)),
            (
                "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY;",
                BlockCommand::Begin("BEGIN", Some(SnapshotScope::OfStatements), true),
            ),
            (
                "BEGIN READ ONLY ISOLATION LEVEL REPEATABLE READ",
                BlockCommand::Begin("BEGIN", Some(SnapshotScope::OfTransaction), true),
            ),
            (
                "begin read only, read write not deferrable",
                BlockCommand::Begin("BEGIN", None, false),
            ),
            (
                "START\nTRANSACTION",
                BlockCommand::Begin("START TRANSACTION", None, false),
            ),
            ("COMMIT", BlockCommand::Commit),
            ("end transaction;", BlockCommand::Commit),
            ("ROLLBACK", BlockCommand::Rollback),
            ("abort work", BlockCommand::Rollback),
        ] {
            assert_eq!(command_of(text.as_bytes()), Some(command), "{text}");
        }
    }

    #[test]
    fn texts_that_are_a_servers() {
        for text in [
            "",
            "BEGIN ISOLATION LEVEL SERIALIZABLE",
            "BEGIN; SELECT 1",
            "BEGIN,",
            "BEGIN READ ONLY,",
            "COMMIT AND CHAIN",
            "COMMIT, READ ONLY",
            "COMMIT PREPARED 'x'",
            "ROLLBACK TO a",
            "BEGIN -- so",
            "BEGIN READ",
            "begin;;",
            "SELECT 1",
        ] {
            assert_eq!(command_of(text.as_bytes()), None, "{text}");
        }
    }
}
