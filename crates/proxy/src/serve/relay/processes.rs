//! Replaces process numbers in a session's messages. A statement may name the process of another
//! session: that session then lends its server process until the statement is answered.
//!
//! A loan outlives the use of the connection: when a session gives back a connection whose process
//! was lent, the relay keeps it aside until the other statement was answered. If its server ends it
//! meanwhile, the session ends, as it would without the proxy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::oneshot;

use super::{Relay, SessionEnd};
use crate::serve::processes::{ProcessEntry, ProcessLoan, ProcessRegistry, ProcessRequest};
use pg_analysis::client_view::{
    ClientIdentity, ClientView, Replacement, process_of_value, value_of_process,
};
use pg_wire::framing::{HEADER_LEN, WHOLE_LEN_MAX};
use pg_wire::message::{self, BindMessage, ParseMessage};
use pg_wire::report::{Report, Severity};
use proxy_core::session::{SessionAction, SessionLeftover};
use proxy_pool::{Connection, ConnectionKey};

/// How long a session without a process waits for a connection to lend.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// The most names of statements about processes that a session may have. The parameters of further
/// statements are not replaced.
const STATEMENTS_MAX: usize = 100;
/// The process number of a notification, in bytes.
const PROCESS_LEN: usize = 4;
/// SQLSTATE: an operator has ended the session.
const ADMIN_SHUTDOWN: &str = "57P01";

/// The processes that a session has lent and borrowed.
pub(super) struct RelayProcesses<'a> {
    registry: &'a ProcessRegistry,
    entry: ProcessEntry<'a>,
    /// Requests that wait for an answer.
    asked: Vec<ProcessRequest>,
    /// The loans of this session's process. Each receiver ends when its loan ends.
    lent_until: Vec<oneshot::Receiver<()>>,
    /// A connection whose process is lent, and that the session does not use.
    pub(super) lent: Option<Box<Connection>>,
    /// The processes of other sessions that are named in messages which the server has not
    /// answered.
    borrowed: Vec<ProcessLoan>,
    /// Names of prepared statements about processes.
    statements: BTreeSet<Vec<u8>>,
    /// Bytes of the client's input that have been looked at.
    seen: usize,
}

impl<'a> RelayProcesses<'a> {
    /// Registers a session whose client was sent this process number. It has lent and borrowed no
    /// process.
    pub(super) fn new(registry: &'a ProcessRegistry, number: u32) -> RelayProcesses<'a> {
        RelayProcesses {
            registry,
            entry: registry.enter(number),
            asked: Vec::new(),
            lent_until: Vec::new(),
            lent: None,
            borrowed: Vec::new(),
            statements: BTreeSet::new(),
            seen: 0,
        }
    }

    /// Records that `count` bytes of the client's input have been handled.
    pub(super) fn advance(&mut self, count: usize) {
        self.seen = self.seen.saturating_sub(count);
    }

    /// Records that the session uses this connection to the primary from now on.
    pub(super) fn uses(&self, connection: &Connection) {
        self.registry
            .note_user(&connection.cancel_key, self.entry.number);
    }

    /// Replaces the process number in a notification at the start of a server's bytes by the number
    /// of the client that sent the notification.
    pub(super) fn name_notifier(&self, input: &mut [u8]) {
        let process = match input {
            [b'A', _, _, _, _, rest @ ..] => rest.first_chunk_mut::<PROCESS_LEN>(),
            _ => None,
        };
        if let Some(process) = process
            && let Some(client) = self.registry.user_of(u32::from_be_bytes(*process))
        {
            *process = client.to_be_bytes();
        }
    }

    /// Returns the connection that is kept aside, if the session can use it: then a statement that
    /// ends the session's process ends the one in which it runs.
    pub(super) fn take_lent(&mut self, key: &ConnectionKey) -> Option<Box<Connection>> {
        let can_be_used = |lent: &mut Box<Connection>| lent.key == *key && !lent.server.is_dirty;
        self.lent.take_if(can_be_used)
    }

    /// Keeps a connection that the session gives back, if its process is lent; otherwise returns
    /// the connection.
    pub(super) fn keeps(&mut self, connection: Box<Connection>) -> Option<Box<Connection>> {
        if self.lent_until.is_empty() || self.lent.is_some() {
            return Some(connection);
        }
        self.lent = Some(connection);
        None
    }

    /// Returns ready if there is a request, a loan has ended, or bytes have arrived on the kept
    /// connection. The value is false if the server has ended this connection.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let mut has_changed = false;
        while let Poll::Ready(request) = self.entry.poll(context) {
            self.asked.push(request);
            has_changed = true;
        }
        let count = self.lent_until.len();
        self.lent_until
            .retain_mut(|until| std::pin::Pin::new(until).poll(context).is_pending());
        has_changed |= self.lent_until.len() < count;
        if let Some(lent) = &mut self.lent
            && let Poll::Ready(read) = lent.peer.poll_read(context)
        {
            if !matches!(read, Ok(count) if count > 0) || has_error(&lent.peer.input) {
                return Poll::Ready(false);
            }
            has_changed = true;
        }
        match has_changed {
            true => Poll::Ready(true),
            false => Poll::Pending,
        }
    }
}

impl Relay<'_> {
    /// Answers other sessions that ask for this one's process, and ends loans.
    pub(super) async fn lend_process(&mut self) -> Result<(), SessionEnd> {
        for request in std::mem::take(&mut self.processes.asked) {
            // Without a connection the other session gets no answer.
            if let Some(process) = self.own_process().await
                && request.answer.send(process).is_ok()
            {
                self.processes.lent_until.push(request.until);
            }
        }
        let is_over = self.processes.lent_until.is_empty();
        if let Some(mut lent) = self.processes.lent.take_if(|_| is_over) {
            // A signal that was sent before the loan ended has come before this query.
            if lent.row("SELECT 1").await.is_err() {
                return Err(self.ended_by_operator());
            }
            let primary = Arc::clone(&self.servers.primary);
            match lent.server.is_dirty {
                true => primary.close(lent),
                false => primary.give_back(lent),
            }
        }
        Ok(())
    }

    /// Returns the end of a session whose process was ended by an operator.
    pub(super) fn ended_by_operator(&self) -> SessionEnd {
        let connection = self.connection.as_ref();
        match connection.is_none_or(|it| it.cutter.is_between_messages()) {
            true => {
                let text = "terminating connection due to administrator command";
                SessionEnd::Reported(Report::new(Severity::Fatal, ADMIN_SHUTDOWN, text))
            }
            // Behind a part of a message nothing else is understood.
            false => SessionEnd::Server,
        }
    }

    /// Returns the session's process at the primary. A session that has none acquires a connection.
    async fn own_process(&mut self) -> Option<u32> {
        let used = match self.place.replica {
            None => self.connection.as_ref(),
            Some(_) => self.kept.as_ref(),
        };
        let found = used.or(self.processes.lent.as_ref());
        if let Some(found) = found {
            return Some(found.cancel_key.process);
        }
        let key = &self.server_settings.key;
        let taken = self.servers.primary.take(key, &self.login);
        let taken = tokio::time::timeout(CONNECTION_TIMEOUT, taken).await;
        let connection = taken.ok()?.ok()?;
        let process = connection.cancel_key.process;
        self.processes.lent = Some(connection);
        Some(process)
    }

    /// Ends the loans of other sessions' processes once everything that names them is answered.
    pub(super) fn return_processes(&mut self) {
        let is_done = self.session.leftover() == SessionLeftover::Nothing
            && self.session.next() != SessionAction::Gather
            && self.client.input.is_empty()
            && self.out.to_server.is_empty();
        if is_done {
            self.processes.borrowed.clear();
        }
    }

    /// Replaces the process numbers that clients know by those of the server, in all messages of
    /// the client's input.
    pub(super) async fn name_processes(&mut self) {
        let mut at = self.processes.seen.max(self.cutter.rest_len());
        while let Some(header) = self.client.input.get(at..at + HEADER_LEN) {
            let (tag, length) = (header[0], header[1..].first_chunk().copied());
            let length = u32::from_be_bytes(length.unwrap_or_default()) as usize;
            let end = at + 1 + length;
            if !(4..WHOLE_LEN_MAX).contains(&length) || self.client.input.len() < end {
                break;
            }
            // Most messages are left as they are, and not copied.
            let is_candidate = match tag {
                b'Q' => ClientView::may_be(&self.client.input[at..end]),
                b'P' => {
                    !self.processes.statements.is_empty()
                        || ClientView::may_be(&self.client.input[at..end])
                }
                b'B' => !self.processes.statements.is_empty(),
                _ => false,
            };
            if is_candidate {
                let body = self.client.input[at + HEADER_LEN..end].to_vec();
                if let Some(body) = self.named(tag, &body).await {
                    at = self.replace(at..end, (tag, &body));
                    continue;
                }
            }
            at = end;
        }
        self.processes.seen = at;
    }

    /// Replaces a message of the client's input. Returns the end of the new message in the input.
    fn replace(&mut self, range: std::ops::Range<usize>, (tag, body): (u8, &[u8])) -> usize {
        let input = &mut self.client.input;
        let after = input.split_off(range.end);
        input.truncate(range.start);
        let mut written = BytesMut::new();
        message::write(&mut written, tag, &[body], 0);
        input.extend_from_slice(&written);
        let end = input.len();
        input.extend_from_slice(&after);
        end
    }

    /// Returns a message's body with the server's process numbers; none if the body stays the same.
    async fn named(&mut self, tag: u8, body: &[u8]) -> Option<Vec<u8>> {
        match tag {
            b'Q' => {
                let (text, rest) = message::split_string(body).ok()?;
                let text = self.named_text(text).await.0?;
                Some([&text[..], b"\0", rest].concat())
            }
            b'P' => {
                let parse = ParseMessage::read(body).ok()?;
                let (text, types) = message::split_string(parse.rest).ok()?;
                let (named, has_parameters) = self.named_text(text).await;
                let statements = &mut self.processes.statements;
                if !has_parameters {
                    statements.remove(parse.name);
                } else if statements.len() < STATEMENTS_MAX {
                    statements.insert(parse.name.to_vec());
                }
                Some([parse.name, b"\0", &named?, b"\0", types].concat())
            }
            _ => {
                let bind = BindMessage::read(body).ok()?;
                if !self.processes.statements.contains(bind.statement) {
                    return None;
                }
                self.named_values(body, bind.rest).await
            }
        }
    }

    /// Returns a text with the server's process numbers, or none if the text stays the same. Also
    /// returns whether the text has parameters that may be process numbers of clients.
    async fn named_text(&mut self, text: &[u8]) -> (Option<Vec<u8>>, bool) {
        let registry = self.processes.registry;
        let view = ClientView::of(
            text,
            &ClientIdentity {
                process: self.processes.entry.number,
                is_client: &|number| registry.has(number),
                has_publication: self.routing.is_some(),
            },
        );
        let mut named = Vec::new();
        let mut from = 0;
        for (range, by) in &view.edits {
            let by = match by {
                Replacement::Text(by) => by.clone().into_bytes(),
                Replacement::ProcessOf(client) => match self.borrow(*client).await {
                    Some(process) => value_of_process(process, false, range.len()),
                    None => continue,
                },
            };
            named.extend_from_slice(&text[from..range.start]);
            named.extend_from_slice(&by);
            from = range.end;
        }
        named.extend_from_slice(&text[from..]);
        ((from > 0).then_some(named), view.has_process_parameters)
    }

    /// Returns the body of a Bind message with the server's process numbers; none if the body stays
    /// the same.
    async fn named_values(&mut self, body: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
        let mut named = None;
        let values = message::values(rest).ok()?;
        for value in values {
            let Some(bytes) = value.bytes else { continue };
            let Some(number) = process_of_value(bytes, value.binary) else {
                continue;
            };
            let is_client =
                number == self.processes.entry.number || self.processes.registry.has(number);
            let process = match is_client {
                true => self.borrow(number).await,
                false => None,
            };
            if let Some(process) = process {
                let start = bytes.as_ptr().addr() - body.as_ptr().addr();
                let by = value_of_process(process, value.binary, bytes.len());
                let named = named.get_or_insert_with(|| body.to_vec());
                named[start..start + bytes.len()].copy_from_slice(&by);
            }
        }
        named
    }

    /// Returns the process of a client's session at the primary, and has the session keep the
    /// process for now; none if the session has no process.
    async fn borrow(&mut self, client: u32) -> Option<u32> {
        if client == self.processes.entry.number {
            let process = self.own_process().await?;
            let (loan, until) = ProcessLoan::of(process);
            self.processes.lent_until.push(until);
            self.processes.borrowed.push(loan);
            return Some(process);
        }
        let loan = self.processes.registry.ask(client).await?;
        let process = loan.process;
        self.processes.borrowed.push(loan);
        Some(process)
    }
}

/// Returns whether a server's messages have an error.
fn has_error(mut input: &[u8]) -> bool {
    while let Some(([tag, length @ ..], rest)) = input.split_first_chunk::<HEADER_LEN>() {
        if *tag == b'E' {
            return true;
        }
        let length = u32::from_be_bytes(*length) as usize;
        input = rest.get(length.saturating_sub(4)..).unwrap_or_default();
    }
    false
}
