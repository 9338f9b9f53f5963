//! The state of a server connection that sessions hand on to each other: its prepared statements,
//! and the last values of settings that the server reported.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::description::Description;

/// The most prepared statements of a server connection.
pub const STATEMENTS_MAX: usize = 500;

/// Settings that the server reports, by name.
pub type ReportedParameters = BTreeMap<Bytes, Bytes>;

/// Identifies a statement among those of all clients: a hash of its text and parameter types.
pub type StatementId = [u8; 16];

/// The identity of an unnamed statement: the client's session, and a count within the session.
pub type UnnamedId = (u64, u64);

/// The position of a preparation in the order of all preparations by all clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PreparationNumber(u64);

impl PreparationNumber {
    /// Returns a number higher than all earlier ones.
    pub fn next() -> PreparationNumber {
        static LAST: AtomicU64 = AtomicU64::new(0);
        PreparationNumber(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// The statements of a server connection.
pub type ServerStatements = BTreeMap<StatementId, StatementUse>;

/// The times at which a statement was prepared and last used on a connection.
#[derive(Debug)]
pub struct StatementUse {
    since: PreparationNumber,
    /// The statement's description on the connection, if the server has described it there.
    described: Option<Arc<Description>>,
    /// The time of its last use.
    last: u64,
}

/// The state of one server connection.
#[derive(Debug, Default)]
pub struct ServerConnection {
    /// Prepared on it, or sent to be.
    prepared: BTreeMap<StatementId, StatementUse>,
    /// The process number of the backend.
    pub process: u32,
    /// The client whose unnamed statement it has.
    pub unnamed: Option<UnnamedId>,
    /// The settings that the server has reported. They are shared until they change.
    pub parameters: Arc<ReportedParameters>,
    /// Whether a session has left state on it that another session must not see.
    pub is_dirty: bool,
    uses: u64,
}

impl ServerConnection {
    /// Returns the time since which a statement is prepared on the connection, or its preparation
    /// was sent, with its description; none if it is neither. The call counts as a use of the
    /// statement.
    pub fn uses(
        &mut self,
        id: &StatementId,
    ) -> Option<(PreparationNumber, Option<&Arc<Description>>)> {
        self.uses += 1;
        let used = self.prepared.get_mut(id)?;
        used.last = self.uses;
        Some((used.since, used.described.as_ref()))
    }

    /// Records the description of a statement, if it is prepared.
    pub fn describe(&mut self, id: &StatementId, described: Arc<Description>) {
        if let Some(used) = self.prepared.get_mut(id) {
            used.described = Some(described);
        }
    }

    /// Records that a statement is being prepared. If there are too many, returns the statement
    /// that must be closed.
    pub fn prepare(&mut self, id: StatementId) -> Option<StatementId> {
        let mut closed = None;
        if self.prepared.len() >= STATEMENTS_MAX {
            let oldest = self.prepared.iter().min_by_key(|(_, used)| used.last);
            closed = oldest.map(|(id, _)| *id);
        }
        if let Some(closed) = &closed {
            self.prepared.remove(closed);
        }
        self.uses += 1;
        self.put(id, PreparationNumber::next());
        closed
    }

    /// Records that a statement is not prepared after all.
    pub fn forget(&mut self, id: &StatementId) {
        self.prepared.remove(id);
    }

    /// Records that a statement that should have been closed is still prepared.
    pub fn keep(&mut self, id: StatementId) {
        self.put(id, PreparationNumber::default());
    }

    fn put(&mut self, id: StatementId, since: PreparationNumber) {
        let used = StatementUse {
            since,
            described: None,
            last: self.uses,
        };
        self.prepared.insert(id, used);
    }

    /// Records that the connection has other settings now. Earlier statements may mean something
    /// else, so they are prepared again when they are used.
    pub fn outdate(&mut self) {
        self.unnamed = None;
        for used in self.prepared.values_mut() {
            used.since = PreparationNumber::default();
        }
    }

    /// Records that the server has dropped all prepared statements, as after DEALLOCATE ALL.
    pub fn forget_all(&mut self) {
        self.prepared.clear();
        self.unnamed = None;
    }

    /// Removes all named statements, and returns them.
    pub fn forget_named(&mut self) -> ServerStatements {
        core::mem::take(&mut self.prepared)
    }

    /// Restores these statements.
    pub fn restore_named(&mut self, statements: ServerStatements) {
        self.prepared = statements;
    }

    /// Records a setting that the server has reported.
    pub fn report(&mut self, name: Bytes, value: Bytes) {
        if self.parameters.get(&name) != Some(&value) {
            Arc::make_mut(&mut self.parameters).insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> StatementId {
        (number as u128).to_be_bytes()
    }

    #[test]
    fn least_recently_used_is_closed() {
        let mut server = ServerConnection::default();
        for number in 0..STATEMENTS_MAX {
            assert_eq!(server.prepare(id(number)), None);
        }
        let first = server.uses(&id(0)).map(|(since, _)| since);
        assert!(first.is_some());
        assert_eq!(server.prepare(id(STATEMENTS_MAX)), Some(id(1)));
        assert_eq!(server.uses(&id(1)), None);
        let since = |server: &mut ServerConnection, id| server.uses(&id).map(|(since, _)| since);
        assert_eq!(since(&mut server, id(0)), first);
        assert!(since(&mut server, id(STATEMENTS_MAX)) > first);
    }
}
