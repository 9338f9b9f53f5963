//! The prepared statements of a session, by the names that the client uses.

use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use ring::digest;

use super::STATEMENTS_MAX;
use crate::description::{Description, is_planned};
use crate::grammar::{Grammar, SessionEffect};
use crate::server::{PreparationNumber, StatementId, UnnamedId};
use pg_wire::message::{self, ParseMessage};

/// The beginning of each statement name on servers.
pub(super) const PREFIX: &[u8] = b"replex_";
/// PostgreSQL's name for a missing unnamed statement in its errors.
pub(super) const MISSING_UNNAMED: &[u8] = b"unnamed prepared statement";

/// The object identifiers from here on may differ between servers.
const OID_OF_NODE_MIN: u32 = 10_000;

/// A statement that a client has prepared.
#[derive(Clone, Debug)]
pub struct PreparedStatement {
    /// The statement's identity among all statements of all clients.
    pub id: StatementId,
    /// The statement's name on servers, with the zero byte.
    pub server_name: Bytes,
    /// Text, zero byte and parameter types, to prepare it on another server; none if it was too
    /// long to be kept.
    pub body: Option<Bytes>,
    /// The state that the statement may leave in its session.
    pub effect: SessionEffect,
    /// The number of the preparation by the client.
    pub since: PreparationNumber,
    /// The statement's description for the client, once a server has described it.
    pub described: Option<Arc<Description>>,
}

impl PreparedStatement {
    /// Returns a statement from a complete Parse message.
    pub fn of(parse: ParseMessage<'_>, grammar: Grammar) -> PreparedStatement {
        match parse.name.is_empty() {
            true => PreparedStatement::unnamed(parse.rest, grammar),
            false => PreparedStatement::named(parse.rest, grammar),
        }
    }

    /// Returns a named statement: its identity is a hash of text and types.
    fn named(body: &[u8], grammar: Grammar) -> PreparedStatement {
        let hash = digest::digest(&digest::SHA256, body);
        let id = *hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
        PreparedStatement {
            id,
            server_name: server_name(&id),
            body: Some(Bytes::copy_from_slice(body)),
            effect: grammar.effect_of_parse(body),
            since: PreparationNumber::next(),
            described: None,
        }
    }

    /// Returns a statement of the proxy itself, with parameters of these types.
    pub fn by_proxy(text: &str, types: &[u32], grammar: Grammar) -> PreparedStatement {
        let mut body = BytesMut::new();
        body.extend_from_slice(text.as_bytes());
        body.put_u8(0);
        body.put_u16(u16::try_from(types.len()).expect("a template has few parameters"));
        for type_oid in types {
            body.put_u32(*type_oid);
        }
        PreparedStatement::named(&body, grammar)
    }

    /// Returns an unnamed statement, which is on a server under no name.
    fn unnamed(body: &[u8], grammar: Grammar) -> PreparedStatement {
        PreparedStatement {
            id: StatementId::default(),
            server_name: Bytes::from_static(b"\0"),
            body: Some(Bytes::copy_from_slice(body)),
            effect: grammar.effect_of_parse(body),
            since: PreparationNumber::next(),
            described: None,
        }
    }

    /// Returns a statement that is too long to be kept: it exists on the session's own server only.
    fn long(session: u64, count: u64) -> PreparedStatement {
        let mut id = StatementId::default();
        id[..8].copy_from_slice(&session.to_be_bytes());
        id[8..].copy_from_slice(&count.to_be_bytes());
        PreparedStatement {
            id,
            server_name: server_name(&id),
            body: None,
            effect: SessionEffect::KeepsSession,
            since: PreparationNumber::next(),
            described: None,
        }
    }

    /// Returns whether the statement has no name on servers.
    pub(super) fn is_unnamed(&self) -> bool {
        &self.server_name[..] == b"\0"
    }

    /// Returns whether a server must describe the statement, because its types are not known yet.
    pub(super) fn is_to_be_described(&self) -> bool {
        self.described.is_none() && self.text().is_some_and(is_planned)
    }

    /// Returns the body of the Parse message that prepares the statement on another server; none if
    /// the statement is too long to be kept. Its parameters keep the types from the first server,
    /// even if columns have changed since, if these types have the same OIDs on the other server.
    pub(super) fn body_again(&self, is_on_primary: bool) -> Option<Cow<'_, [u8]>> {
        let body = self.body.as_deref()?;
        let known = self.described.as_deref().map(|it| &it.parameters[..]);
        let types = known.unwrap_or_default();
        let is_same = |oid: &u32| is_on_primary || *oid < OID_OF_NODE_MIN;
        let (Some(text), Ok(count)) = (self.text(), u16::try_from(types.len())) else {
            return Some(Cow::Borrowed(body));
        };
        if count == 0 || !types.iter().all(is_same) {
            return Some(Cow::Borrowed(body));
        }
        let mut again = Vec::with_capacity(text.len() + 3 + 4 * types.len());
        again.put_slice(text);
        again.put_u8(0);
        again.put_u16(count);
        for oid in types {
            again.put_u32(*oid);
        }
        Some(Cow::Owned(again))
    }

    /// Returns the statement's query string, without the zero byte; none if the statement is too
    /// long to be kept.
    pub fn text(&self) -> Option<&[u8]> {
        let (text, _) = message::split_string(self.body.as_deref()?).ok()?;
        Some(text)
    }

    /// Returns the OIDs of the types of the statement's first parameters; 0 lets the server
    /// determine the type.
    pub fn parameter_types(&self) -> impl Iterator<Item = u32> {
        let body = self.body.as_deref().unwrap_or_default();
        let types = message::split_string(body).ok();
        let types = types
            .and_then(|(_, rest)| rest.get(2..))
            .unwrap_or_default();
        let types = types.as_chunks::<4>().0.iter();
        types.map(|oid| u32::from_be_bytes(*oid))
    }
}

/// A statement with the parameters of a portal.
#[derive(Clone, Debug)]
pub struct BoundStatement {
    /// The statement.
    pub prepared: Arc<PreparedStatement>,
    /// The bytes after the names in the Bind message; empty if they were too long.
    pub parameters: Bytes,
}

/// The prepared form of a simple query. With it the server need not parse and plan the query again.
#[derive(Clone, Debug)]
pub struct PreparedForm {
    /// The statement.
    pub prepared: Arc<PreparedStatement>,
    /// The bytes after the names in the Bind message.
    pub parameters: Bytes,
}

/// Statements by the client's names.
pub(super) type NamedStatements = BTreeMap<Bytes, Arc<PreparedStatement>>;

/// The prepared statements of a client, on any server. Every unnamed statement has its own
/// identity, and so does every statement that is too long.
#[derive(Debug)]
pub(super) struct ClientStatements {
    /// The session's number, which is unique.
    session: u64,
    /// How many have got an identity by it.
    count: u64,
    named: NamedStatements,
    unnamed: Option<(UnnamedId, Arc<PreparedStatement>)>,
}

impl ClientStatements {
    /// Returns the statements of a new session: none.
    pub fn of(session: u64) -> ClientStatements {
        ClientStatements {
            session,
            count: 0,
            named: BTreeMap::new(),
            unnamed: None,
        }
    }

    /// Returns the client's statement with a name.
    pub fn find(&self, name: &[u8]) -> Option<Arc<PreparedStatement>> {
        match name.is_empty() {
            true => self.unnamed.as_ref().map(|(_, it)| Arc::clone(it)),
            false => self.named.get(name).cloned(),
        }
    }

    /// Records the description of the client's statement with a name, if it was prepared at that
    /// time.
    pub fn describe(
        &mut self,
        name: &[u8],
        since: PreparationNumber,
        described: &Arc<Description>,
    ) {
        let found = match name.is_empty() {
            true => self.unnamed.as_mut().map(|(_, it)| it),
            false => self.named.get_mut(name),
        };
        if let Some(prepared) = found
            && prepared.since == since
            && prepared.described.is_none()
        {
            Arc::make_mut(prepared).described = Some(Arc::clone(described));
        }
    }

    /// Returns whether the client has a statement with this non-empty name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.named.contains_key(name)
    }

    /// Returns whether the client has the most named statements that it may have.
    pub fn is_full(&self) -> bool {
        self.named.len() >= STATEMENTS_MAX
    }

    /// Returns the named statements.
    pub fn named(&self) -> &NamedStatements {
        &self.named
    }

    /// Returns the unnamed statement.
    pub fn unnamed(&self) -> Option<&(UnnamedId, Arc<PreparedStatement>)> {
        self.unnamed.as_ref()
    }

    /// Stores a statement under a name. Returns the statement that it replaces.
    pub fn insert(
        &mut self,
        name: Bytes,
        prepared: Arc<PreparedStatement>,
    ) -> Option<Arc<PreparedStatement>> {
        self.named.insert(name, prepared)
    }

    /// Removes the statement with a name.
    pub fn remove(&mut self, name: &[u8]) -> Option<(Bytes, Arc<PreparedStatement>)> {
        self.named.remove_entry(name)
    }

    /// Removes and returns the named statements.
    pub fn take_named(&mut self) -> NamedStatements {
        core::mem::take(&mut self.named)
    }

    /// Restores these named statements, and no others.
    pub fn restore_named(&mut self, named: NamedStatements) {
        self.named = named;
    }

    /// Replaces the unnamed statement. Returns its identity, and the earlier statement.
    pub fn replace_unnamed(
        &mut self,
        prepared: Arc<PreparedStatement>,
    ) -> (UnnamedId, Option<(UnnamedId, Arc<PreparedStatement>)>) {
        self.count += 1;
        let id = (self.session, self.count);
        (id, self.unnamed.replace((id, prepared)))
    }

    /// Removes the unnamed statement.
    pub fn take_unnamed(&mut self) -> Option<(UnnamedId, Arc<PreparedStatement>)> {
        self.unnamed.take()
    }

    /// Restores this unnamed statement.
    pub fn restore_unnamed(&mut self, unnamed: Option<(UnnamedId, Arc<PreparedStatement>)>) {
        self.unnamed = unnamed;
    }

    /// Returns a statement that is too long to be kept.
    pub fn long(&mut self) -> PreparedStatement {
        self.count += 1;
        PreparedStatement::long(self.session, self.count)
    }
}

/// Returns a statement's name on servers, with the zero byte.
pub fn server_name(id: &StatementId) -> Bytes {
    let mut name = String::from_utf8_lossy(PREFIX).into_owned();
    for byte in id {
        write!(name, "{byte:02x}").expect("a string takes everything");
    }
    name.push('\0');
    name.into()
}
