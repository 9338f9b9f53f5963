//! Answers the client's messages in a transaction that has failed and is on no server.
//!
//! PostgreSQL refuses there every message that runs, prepares or binds a statement. It still closes
//! statements, answers an empty query and Sync, and reports errors of syntax, and statements and
//! portals that do not exist.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use bytes::Bytes;

use super::PeerOutput;
use super::block::{DetachedSession, is_end};
use super::deferral::in_failed_transaction;
use super::held_messages::HeldMessages;
use crate::grammar::Grammar;
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{
    self, BindMessage, ParseMessage, StatementOrPortal, executed_portal, split_string,
};
use pg_wire::report::{Report, Severity};

/// SQLSTATEs.
const SYNTAX_ERROR: &str = "42601";
const NO_STATEMENT: &str = "26000";
const IS_STATEMENT: &str = "42P05";
const NO_PORTAL: &str = "34000";
const NO_SAVEPOINT: &str = "3B001";

/// The handling of the messages after a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowingMessages {
    /// The following messages are answered.
    Answered,
    /// The following messages are skipped, up to Sync.
    Skipped,
}

impl DetachedSession<'_> {
    /// Answers the held messages with an error. No server is needed.
    pub(super) fn answer_failed(
        &mut self,
        held: &HeldMessages,
        out: &mut PeerOutput,
    ) -> FollowingMessages {
        let mut behind = FollowingMessages::Answered;
        for frame in held.frames() {
            if behind == FollowingMessages::Answered || frame[0] == b'S' {
                behind = self.answer_one(frame, out);
            }
        }
        behind
    }

    /// Closes the statement or portal of a Close message, and answers the message. Returns false
    /// for any other message.
    pub(super) fn closes(&mut self, frame: &Bytes, out: &mut PeerOutput) -> bool {
        let (b'C', Ok(subject)) = (frame[0], StatementOrPortal::read(&frame[HEADER_LEN..])) else {
            return false;
        };
        match subject {
            StatementOrPortal::Statement(b"") => drop(self.client.statements.take_unnamed()),
            StatementOrPortal::Statement(name) => {
                self.client.statements.remove(name);
            }
            StatementOrPortal::Portal(_) => {}
        }
        message::write(&mut out.to_client, b'3', &[], 0);
        true
    }

    fn answer_one(&mut self, frame: &Bytes, out: &mut PeerOutput) -> FollowingMessages {
        let (tag, body) = (frame[0], &frame[HEADER_LEN..]);
        let statements = self.client.grammar.statements;
        let is_empty = |text: &[u8]| statements(text) == Ok(0);
        match tag {
            b'S' => self.write_ready(out),
            b'Q' if split_string(body).is_ok_and(|(text, _)| is_empty(text)) => {
                self.client.statements.take_unnamed();
                message::write(&mut out.to_client, b'I', &[], 0);
                self.write_ready(out);
            }
            b'Q' | b'F' => {
                if tag == b'Q' {
                    self.client.statements.take_unnamed();
                }
                let text = split_string(body).ok().filter(|_| tag == b'Q');
                let report = text.map_or_else(in_failed_transaction, |(text, _)| {
                    let missing = no_savepoint(text, self.client.grammar);
                    missing.unwrap_or_else(|| self.not_run(text, usize::MAX))
                });
                report.write(&mut out.to_client);
                self.write_ready(out);
            }
            b'H' | b'd' | b'c' | b'f' => {}
            _ if self.closes(frame, out) || self.prepares_end(tag, body, out) => {}
            _ => {
                self.what_fails(tag, body).write(&mut out.to_client);
                return FollowingMessages::Skipped;
            }
        }
        FollowingMessages::Answered
    }

    /// Returns the error for a text of at most `statements_max` statements, which does not run:
    /// PostgreSQL parses the text before it looks at the transaction.
    fn not_run(&self, text: &[u8], statements_max: usize) -> Report {
        match (self.client.grammar.statements)(text) {
            Err(error) => Report::new(Severity::Error, SYNTAX_ERROR, error),
            Ok(count) if count > statements_max => {
                let text = "cannot insert multiple commands into a prepared statement";
                Report::new(Severity::Error, SYNTAX_ERROR, text)
            }
            Ok(_) => in_failed_transaction(),
        }
    }

    /// Prepares the statement of a Parse message if it ends the transaction or is empty: PostgreSQL
    /// prepares only these in a failed transaction. Returns false for any other message.
    fn prepares_end(&mut self, tag: u8, body: &[u8], out: &mut PeerOutput) -> bool {
        let parse = ParseMessage::read(body).ok().filter(|_| tag == b'P');
        let parse = parse.filter(|parse| {
            let is_new = !self.client.statements.has(parse.name);
            let statements = self.client.grammar.statements;
            let may_be = |text| is_end(text) || statements(text) == Ok(0);
            is_new && parse.text().is_ok_and(may_be)
        });
        if let Some(parse) = parse {
            self.prepare(parse, None);
            message::write(&mut out.to_client, b'1', &[], 0);
        }
        parse.is_some()
    }

    /// Returns the error with which a message of the extended protocol fails.
    fn what_fails(&mut self, tag: u8, body: &[u8]) -> Report {
        let statement = match tag {
            b'P' => {
                let parse = ParseMessage::read(body).ok();
                if parse.is_some_and(|parse| parse.name.is_empty()) {
                    self.client.statements.take_unnamed();
                }
                let text = parse.and_then(|parse| parse.text().ok());
                return match (parse, text) {
                    (Some(parse), Some(text)) if is_end(text) => is_there(parse.name),
                    (_, Some(text)) => self.not_run(text, 1),
                    _ => in_failed_transaction(),
                };
            }
            b'B' => BindMessage::read(body).map(|bind| bind.statement),
            b'D' => match StatementOrPortal::read(body) {
                Ok(StatementOrPortal::Portal(portal)) => return no_portal(portal),
                Ok(StatementOrPortal::Statement(name)) => Ok(name),
                Err(error) => Err(error),
            },
            _ => return no_portal(executed_portal(body).unwrap_or_default()),
        };
        match statement {
            Ok(name) if self.client.statements.find(name).is_none() => no_statement(name),
            _ => in_failed_transaction(),
        }
    }
}

/// Returns the error for a text that rolls back to a savepoint, because a transaction that is on no
/// server has no savepoints; none for other texts.
fn no_savepoint(text: &[u8], grammar: Grammar) -> Option<Report> {
    let name = (grammar.rollback_to)(text)?;
    let text = format!("savepoint \"{name}\" does not exist");
    Some(Report::new(Severity::Error, NO_SAVEPOINT, text))
}

fn no_statement(name: &[u8]) -> Report {
    let text = match name {
        b"" => "unnamed prepared statement does not exist".to_owned(),
        name => {
            let name = String::from_utf8_lossy(name);
            format!("prepared statement \"{name}\" does not exist")
        }
    };
    Report::new(Severity::Error, NO_STATEMENT, text)
}

fn is_there(name: &[u8]) -> Report {
    let name = String::from_utf8_lossy(name);
    let text = format!("prepared statement \"{name}\" already exists");
    Report::new(Severity::Error, IS_STATEMENT, text)
}

fn no_portal(name: &[u8]) -> Report {
    let name = String::from_utf8_lossy(name);
    let text = format!("portal \"{name}\" does not exist");
    Report::new(Severity::Error, NO_PORTAL, text)
}
