//! The console for operators. A client that connects to the database `hihooi` of the proxy reaches
//! the console.
//!
//! Only operators may use it. It accepts simple queries, and extended ones without parameters. It
//! has no transactions: each command takes effect by itself.

pub mod client;
pub mod metrics;

mod answer;
mod command;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::BytesMut;

use crate::serve::Proxy;
use answer::ConsoleAnswer;
use command::ConsoleCommand;
use pg_connect::stream::BufferedStream;
use pg_wire::Malformed;
use pg_wire::framing::{MessageCutter, MessageSender, StreamPiece};
use pg_wire::message::{
    self, BindMessage, ParseMessage, StatementOrPortal as Described, split_string,
};
use pg_wire::report::{Report, Severity};
use replication::events::without_literals;
use table::ValueFormat;

/// Statements that one operator may have prepared.
const STATEMENTS_MAX: usize = 1_000;

/// SQLSTATEs.
const PROTOCOL_VIOLATION: &str = "08P01";
const UNKNOWN_STATEMENT: &str = "26000";
const UNSUPPORTED: &str = "0A000";
const TOO_MANY: &str = "54000";

/// Settings that an operator's client gets at login, so that drivers take it for a server.
const PARAMETERS: &[(&str, &str)] = &[
    ("server_version", "15.0 (Hihooi's console)"),
    ("server_encoding", "UTF8"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, YMD"),
    ("integer_datetimes", "on"),
    ("standard_conforming_strings", "on"),
];

/// Serves an operator after the login, until the connection ends.
pub fn serve(
    proxy: Arc<Proxy>,
    peer: BufferedStream,
    user: String,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move { run(&proxy, peer, user).await })
}

async fn run(proxy: &Arc<Proxy>, peer: BufferedStream, user: String) {
    let mut console = Console {
        proxy,
        user,
        peer,
        out: BytesMut::new(),
        statements: BTreeMap::new(),
        portals: BTreeMap::new(),
        is_skipping: false,
    };
    // A client that is gone needs no answer.
    let _ = console.serve().await;
    console.peer.shutdown().await;
}

struct Console<'a> {
    proxy: &'a Arc<Proxy>,
    /// The operator that has logged in.
    user: String,
    peer: BufferedStream,
    out: BytesMut,
    statements: BTreeMap<Vec<u8>, String>,
    portals: BTreeMap<Vec<u8>, Portal>,
    /// An extended batch has failed, and is skipped up to Sync.
    is_skipping: bool,
}

#[derive(Clone)]
struct Portal {
    text: String,
    formats: Vec<ValueFormat>,
}

impl Portal {
    /// Returns the format in which the client requested a column. A single format counts for all
    /// columns, and no format means text.
    fn format(&self, position: usize) -> ValueFormat {
        let only = (self.formats.len() == 1).then(|| self.formats[0]);
        let own = self.formats.get(position).copied();
        only.or(own).unwrap_or(ValueFormat::Text)
    }
}

impl Console<'_> {
    async fn serve(&mut self) -> io::Result<()> {
        message::write(&mut self.out, b'R', &[&0_u32.to_be_bytes()], 0);
        for (name, value) in PARAMETERS {
            let parts = [name.as_bytes(), b"\0", value.as_bytes(), b"\0"];
            message::write(&mut self.out, b'S', &parts, 0);
        }
        // Cancel requests have no effect here: commands that wait have a timeout.
        message::write(&mut self.out, b'K', &[&[0; 8]], 0);
        message::write_ready(&mut self.out, b'I');
        let mut cutter = MessageCutter::new(MessageSender::Client);
        loop {
            let input = self.peer.input.split();
            let piece = match cutter.next(&input) {
                Ok(piece) => piece,
                Err(error) => return self.end_with_error(&error.to_string()).await,
            };
            let Some(piece) = piece else {
                self.peer.input = input;
                let out = self.out.split();
                self.peer.write_all(&out).await?;
                if self.peer.read().await? == 0 {
                    return Ok(());
                }
                continue;
            };
            let StreamPiece::Message(message) = piece else {
                return self
                    .end_with_error("a message is too long for the console")
                    .await;
            };
            if !message.is_whole() {
                return self
                    .end_with_error("a message is too long for the console")
                    .await;
            }
            let (tag, body, length) = (message.tag(), message.body(), message.frame.len());
            if tag == b'X' {
                return Ok(());
            }
            if let Err(error) = self.message(tag, body).await {
                return self.end_with_error(&error.to_string()).await;
            }
            let mut rest = input;
            drop(rest.split_to(length));
            self.peer.input = rest;
        }
    }

    async fn end_with_error(&mut self, why: &str) -> io::Result<()> {
        Report::new(Severity::Fatal, PROTOCOL_VIOLATION, why).write(&mut self.out);
        let out = self.out.split();
        self.peer.write_all(&out).await
    }

    async fn message(&mut self, tag: u8, body: &[u8]) -> Result<(), Malformed> {
        match tag {
            b'S' => {
                self.is_skipping = false;
                self.portals.clear();
                message::write_ready(&mut self.out, b'I');
            }
            b'Q' => {
                let (text, _) = split_string(body)?;
                self.simple(&String::from_utf8_lossy(text)).await;
            }
            _ if self.is_skipping => {}
            b'P' | b'B' | b'D' | b'E' | b'C' => {
                if let Err(report) = self.extended(tag, body).await? {
                    report.write(&mut self.out);
                    self.is_skipping = true;
                }
            }
            b'H' => {}
            _ => {
                let text = "the console knows queries only";
                Report::new(Severity::Error, UNSUPPORTED, text).write(&mut self.out);
                message::write_ready(&mut self.out, b'I');
            }
        }
        Ok(())
    }

    /// Runs the commands of a simple query up to the first failure.
    async fn simple(&mut self, text: &str) {
        let texts = command::split(text);
        if texts.is_empty() {
            message::write(&mut self.out, b'I', &[], 0);
        }
        for text in texts {
            match self.answer(text).await {
                Ok(answer) => {
                    if let Some(columns) = answer.columns {
                        table::describe(columns, |_| ValueFormat::Text, &mut self.out);
                    }
                    self.rows(&answer, |_| ValueFormat::Text);
                }
                Err(report) => {
                    report.write(&mut self.out);
                    break;
                }
            }
        }
        message::write_ready(&mut self.out, b'I');
    }

    async fn answer(&self, text: &str) -> Result<ConsoleAnswer, Report> {
        let command = ConsoleCommand::parse(text)?;
        let name = command.name();
        let answer = answer::to(self.proxy, command).await;
        // A command that only shows something changes nothing.
        if let Some(name) = name {
            let outcome = match &answer {
                Ok(_) => "done".to_owned(),
                Err(report) => without_literals(&report.message),
            };
            log::info!(event = "console", user = &*self.user, command = name; "{outcome}");
        }
        answer
    }

    fn rows(&mut self, answer: &ConsoleAnswer, format: impl Fn(usize) -> ValueFormat) {
        for row in &answer.rows {
            table::write_row(row, &format, &mut self.out);
        }
        if let Some(notice) = &answer.notice {
            notice.write(&mut self.out);
        }
        message::write(&mut self.out, b'C', &[answer.tag.as_bytes(), b"\0"], 0);
    }

    /// Handles one message of an extended batch. The inner error is the client's.
    async fn extended(&mut self, tag: u8, body: &[u8]) -> Result<Result<(), Report>, Malformed> {
        let unknown = || {
            let text = "there is no statement or portal of this name";
            Report::new(Severity::Error, UNKNOWN_STATEMENT, text)
        };
        match tag {
            b'P' => {
                let parse = ParseMessage::read(body)?;
                if self.statements.len() >= STATEMENTS_MAX {
                    let text = "too many prepared statements";
                    return Ok(Err(Report::new(Severity::Error, TOO_MANY, text)));
                }
                let text = String::from_utf8_lossy(parse.text()?).into_owned();
                if let Err(report) = ConsoleCommand::parse(&text) {
                    return Ok(Err(report));
                }
                self.statements.insert(parse.name.to_vec(), text);
                message::write(&mut self.out, b'1', &[], 0);
            }
            b'B' => {
                let bind = BindMessage::read(body)?;
                let formats = result_formats(bind.rest)?;
                let Some(text) = self.statements.get(bind.statement).cloned() else {
                    return Ok(Err(unknown()));
                };
                // Portals go at Sync; until then there are as many as statements at most.
                if self.portals.len() >= STATEMENTS_MAX {
                    self.portals.clear();
                }
                let portal = Portal { text, formats };
                self.portals.insert(bind.portal.to_vec(), portal);
                message::write(&mut self.out, b'2', &[], 0);
            }
            b'D' => {
                let described = Described::read(body)?;
                return Ok(self.describe(described).ok_or_else(unknown));
            }
            b'C' => {
                match Described::read(body)? {
                    Described::Statement(name) => drop(self.statements.remove(name)),
                    Described::Portal(name) => drop(self.portals.remove(name)),
                }
                message::write(&mut self.out, b'3', &[], 0);
            }
            _ => {
                let (name, _) = split_string(body)?;
                let Some(portal) = self.portals.get(name).cloned() else {
                    return Ok(Err(unknown()));
                };
                match self.answer(&portal.text).await {
                    Ok(answer) => self.rows(&answer, |position| portal.format(position)),
                    Err(report) => return Ok(Err(report)),
                }
            }
        }
        Ok(Ok(()))
    }

    /// Describes a statement or portal. Returns none if it does not exist.
    fn describe(&mut self, described: Described<'_>) -> Option<()> {
        let portal = match described {
            Described::Statement(name) => {
                let text = self.statements.get(name)?.clone();
                // It has no parameters.
                message::write(&mut self.out, b't', &[&[0; 2]], 0);
                let formats = Vec::new();
                Portal { text, formats }
            }
            Described::Portal(name) => self.portals.get(name)?.clone(),
        };
        let command = ConsoleCommand::parse(&portal.text).ok();
        match command.and_then(|command| answer::columns(&command)) {
            Some(columns) => table::describe(columns, |at| portal.format(at), &mut self.out),
            None => message::write(&mut self.out, b'n', &[], 0),
        }
        Some(())
    }
}

/// Returns the formats of results, after a Bind's names. Parameters are refused, as no command has
/// any.
fn result_formats(rest: &[u8]) -> Result<Vec<ValueFormat>, Malformed> {
    let short = || Malformed::new("a Bind message is too short");
    let number = |bytes: &[u8]| bytes.first_chunk::<2>().map(|two| u16::from_be_bytes(*two));
    let formats = usize::from(number(rest).ok_or_else(short)?);
    let rest = rest.get(2 + 2 * formats..).ok_or_else(short)?;
    if number(rest).ok_or_else(short)? != 0 {
        return Err(Malformed::new("commands of the console have no parameters"));
    }
    let count = rest.get(2..).and_then(number).ok_or_else(short)?;
    let codes = rest.get(4..4 + 2 * usize::from(count)).ok_or_else(short)?;
    let (codes, _) = codes.as_chunks::<2>();
    let format = |code: &[u8; 2]| match code {
        [0, 1] => ValueFormat::Binary,
        _ => ValueFormat::Text,
    };
    Ok(codes.iter().map(format).collect())
}
