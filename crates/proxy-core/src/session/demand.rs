//! Describes a batch that waits for a server, so that the relay can choose the server.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::PreparedStatement;
use super::batch::BatchFault;
use super::client::ClientState;
use super::held_messages::{HeldMessage, HeldMessages};
use super::statements::ClientStatements;
use crate::grammar::SessionEffect;
use pg_wire::framing::HEADER_LEN;
use pg_wire::message::{
    BindMessage, ParseMessage, StatementOrPortal, executed_portal, split_string,
};
use pg_wire::report::{Report, Severity};

/// SQLSTATE: a feature that pooling by transaction does not support.
const UNSUPPORTED: &str = "0A000";

/// A statement of a batch.
#[derive(Clone, Debug)]
pub enum StatementText<'a> {
    /// The query string of a simple query, which may have several statements, and the state that it
    /// may leave in its session.
    Simple(&'a [u8], SessionEffect),
    /// A statement that extended messages prepare.
    Prepared(Arc<PreparedStatement>),
    /// A statement that extended messages run, and the bytes after the names in its Bind message.
    Bound(Arc<PreparedStatement>, &'a [u8]),
    /// Something else: a function call, a too long text, or an unknown statement.
    Unknown,
}

impl StatementText<'_> {
    /// Returns the query string, if it is known.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            StatementText::Simple(text, _) => Some(text),
            StatementText::Prepared(prepared) | StatementText::Bound(prepared, _) => {
                prepared.text()
            }
            StatementText::Unknown => None,
        }
    }

    /// Returns the types of the statement's first parameters, as the client has declared them, by
    /// their OIDs on the primary.
    pub fn parameter_types(&self) -> impl Iterator<Item = u32> {
        let prepared = match self {
            StatementText::Prepared(prepared) | StatementText::Bound(prepared, _) => Some(prepared),
            StatementText::Simple(..) | StatementText::Unknown => None,
        };
        prepared.into_iter().flat_map(|it| it.parameter_types())
    }

    /// Returns the state that the batch may leave in its session.
    pub fn effect(&self) -> SessionEffect {
        match self {
            StatementText::Simple(_, effect) => *effect,
            StatementText::Prepared(prepared) | StatementText::Bound(prepared, _) => {
                prepared.effect
            }
            StatementText::Unknown => SessionEffect::Nothing,
        }
    }
}

/// The batch that waits for a server.
#[derive(Debug)]
pub struct WaitingBatch<'a> {
    /// The batch's statements, in the order of its messages.
    pub texts: Vec<StatementText<'a>>,
    /// Whether the batch is complete. Otherwise more statements may follow.
    pub is_whole: bool,
    /// Whether the message that ends an implicit transaction has not arrived: Sync, a query or a
    /// function call.
    pub is_open: bool,
    /// Whether the batch executes something. Otherwise it only prepares statements.
    pub executes: bool,
    /// Whether the batch may leave portals for later batches of its transaction, or use those of
    /// earlier ones.
    pub shares_portals: bool,
    /// Whether the session keeps the server that it gets.
    pub is_pinned: bool,
    /// The reason why the batch must go to the primary, if it ran at a replica before.
    pub fault: Option<&'a BatchFault>,
}

impl WaitingBatch<'_> {
    /// Returns the reason why the batch must not run on any server.
    pub fn refusal(&self) -> Option<Report> {
        let first = self.texts.first()?;
        (first.effect() == SessionEffect::ReadsSequenceState).then(|| {
            let text = "the last value of a sequence is known only in the transaction that drew it";
            Report::new(Severity::Error, UNSUPPORTED, text)
                .hint("Use INSERT … RETURNING, or one transaction for both, or --pooling session.")
        })
    }
}

/// The contents of a batch, as far as its messages have been read.
#[derive(Default)]
struct GatheredBatch<'a> {
    texts: Vec<StatementText<'a>>,
    /// A name that the batch itself prepares or describes, and where: it is found here before the
    /// client's.
    prepared: Vec<(&'a [u8], usize, Arc<PreparedStatement>)>,
}

impl<'a> GatheredBatch<'a> {
    fn prepares(&mut self, name: &'a [u8], statement: Arc<PreparedStatement>) {
        let at = self.texts.len();
        self.prepared.push((name, at, Arc::clone(&statement)));
        self.texts.push(StatementText::Prepared(statement));
    }

    /// Notes that a statement is described to the client: the description must fit the tables and
    /// types of now.
    fn describes(&mut self, statements: &ClientStatements, name: &'a [u8]) {
        let is_here = self.prepared.iter().any(|(known, ..)| *known == name);
        if let Some(statement) = statements.find(name).filter(|_| !is_here) {
            self.prepares(name, statement);
        }
    }

    fn binds(&mut self, statements: &ClientStatements, name: &'a [u8], parameters: &'a [u8]) {
        let mut of_batch = self.prepared.iter().rev();
        if let Some((_, at, statement)) = of_batch.find(|(known, ..)| *known == name) {
            let bound = StatementText::Bound(Arc::clone(statement), parameters);
            // Its parameters' values are known in addition to its text.
            match &self.texts[*at] {
                StatementText::Prepared(_) => self.texts[*at] = bound,
                _ => self.texts.push(bound),
            }
            return;
        }
        let of_client = statements.find(name);
        let bound = of_client.map(|statement| StatementText::Bound(statement, parameters));
        self.texts.push(bound.unwrap_or(StatementText::Unknown));
    }
}

impl HeldMessages {
    /// Returns the contents of the batch.
    pub(super) fn demand<'a>(&'a self, client: &ClientState) -> WaitingBatch<'a> {
        let mut gathered = GatheredBatch::default();
        let has_whole = self.has_whole_messages();
        let last = self.messages().len().saturating_sub(1);
        for (index, HeldMessage { frame, known }) in self.messages().iter().enumerate() {
            let body = &frame[HEADER_LEN..];
            match frame[0] {
                b'Q' if has_whole => match split_string(body) {
                    Ok((text, _)) => {
                        let effect = known.effect().unwrap_or(SessionEffect::KeepsSession);
                        gathered.texts.push(StatementText::Simple(text, effect));
                    }
                    Err(_) => gathered.texts.push(StatementText::Unknown),
                },
                b'P' if has_whole => match ParseMessage::read(body) {
                    Ok(parse) => {
                        let statement = known.statement().cloned();
                        let statement = statement.unwrap_or_else(|| {
                            Arc::new(PreparedStatement::of(parse, client.grammar))
                        });
                        gathered.prepares(parse.name, statement);
                    }
                    Err(_) => gathered.texts.push(StatementText::Unknown),
                },
                b'B' => match BindMessage::read(body) {
                    Ok(bind) => {
                        let is_whole = index < last || has_whole;
                        let parameters = if is_whole { bind.rest } else { &[] };
                        gathered.binds(&client.statements, bind.statement, parameters);
                    }
                    Err(_) => gathered.texts.push(StatementText::Unknown),
                },
                b'D' => {
                    if let Ok(StatementOrPortal::Statement(name)) = StatementOrPortal::read(body) {
                        gathered.describes(&client.statements, name);
                    }
                }
                b'E' | b'C' | b'S' | b'H' | b'd' | b'c' | b'f' => {}
                _ => gathered.texts.push(StatementText::Unknown),
            }
        }
        let tags = self.frames().map(|frame| frame[0]);
        let last_tag = tags.clone().next_back();
        let executes = tags.clone().any(|tag| matches!(tag, b'Q' | b'F' | b'E'));
        WaitingBatch {
            texts: gathered.texts,
            is_whole: has_whole && self.is_to_end(),
            is_open: !matches!(last_tag, Some(b'Q' | b'F' | b'S')),
            executes,
            shares_portals: self.shares_portals(),
            is_pinned: client.is_pinned(),
            fault: None,
        }
    }

    fn shares_portals(&self) -> bool {
        let mut bound: Vec<&[u8]> = Vec::new();
        let mut shares = false;
        for frame in self.frames() {
            let body = &frame[HEADER_LEN..];
            let used = match frame[0] {
                b'B' => {
                    let portal = BindMessage::read(body).map_or(&b""[..], |bind| bind.portal);
                    bound.push(portal);
                    shares |= !portal.is_empty();
                    continue;
                }
                b'E' => {
                    shares |= !body.ends_with(&[0; 4]);
                    executed_portal(body).ok()
                }
                b'D' | b'C' => match StatementOrPortal::read(body) {
                    Ok(StatementOrPortal::Portal(portal)) => Some(portal),
                    _ => continue,
                },
                _ => continue,
            };
            shares |= used.is_none_or(|portal| !bound.contains(&portal));
        }
        shares
    }
}
