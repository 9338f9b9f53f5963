//! Assigns the names of requests: a session, and numbers that rise by one and are never reused
//! (R13).
//!
//! The module also knows which results servers may forget: those below the lowest number whose
//! result the client does not know (R14). The session machine decides when sessions begin and end.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::identity::{RequestId, SessionId};

/// The client's sessions: the current one, and earlier ones that have open requests.
#[derive(Debug, Default)]
pub(super) struct Numbering {
    current: Option<SessionId>,
    sessions: BTreeMap<SessionId, Numbers>,
    /// The highest session that was ever current: a late answer does not bring back an older one.
    newest: Option<SessionId>,
}

#[derive(Debug)]
struct Numbers {
    next: u64,
    /// Numbers whose result is not known yet.
    open: BTreeSet<u64>,
}

impl Numbers {
    fn acknowledged_below(&self) -> u64 {
        self.open.first().copied().unwrap_or(self.next)
    }
}

impl Numbering {
    pub fn current(&self) -> Option<SessionId> {
        self.current
    }

    /// Begins a session. Returns false if it is not newer than all earlier sessions.
    pub fn begin(&mut self, session: SessionId) -> bool {
        if self.newest.is_some_and(|newest| newest >= session) {
            return false;
        }
        self.newest = Some(session);
        let before = self.current.replace(session);
        self.sessions.insert(
            session,
            Numbers {
                next: 1,
                open: BTreeSet::new(),
            },
        );
        if let Some(before) = before {
            self.forget_if_idle(before);
        }
        true
    }

    /// Ends a session: it assigns no more numbers, because the coordinator has ended it.
    pub fn end(&mut self, session: SessionId) {
        if self.current == Some(session) {
            self.current = None;
        }
        self.forget_if_idle(session);
    }

    /// Returns the next request number of the current session. Returns none without a session, or
    /// while the oldest open number lags by `span_max`.
    pub fn open(&mut self, span_max: u64) -> Option<RequestId> {
        let session = self.current?;
        let numbers = self
            .sessions
            .get_mut(&session)
            .expect("the current session has numbers");
        if numbers.next - numbers.acknowledged_below() >= span_max {
            return None;
        }
        let number = numbers.next;
        numbers.next += 1;
        assert!(numbers.open.insert(number), "a number is given once");
        Some(RequestId { session, number })
    }

    /// Closes a request whose result is known, or which no caller will send again.
    pub fn close(&mut self, request: RequestId) {
        let numbers = self
            .sessions
            .get_mut(&request.session)
            .expect("a session with an open request is kept");
        assert!(
            numbers.open.remove(&request.number),
            "a request is closed once"
        );
        if self.current != Some(request.session) {
            self.forget_if_idle(request.session);
        }
    }

    /// Returns the number below which all requests of the session are closed. Every attempt carries
    /// it.
    pub fn acknowledged_below(&self, request: RequestId) -> u64 {
        let below = self.sessions[&request.session].acknowledged_below();
        assert!(
            below <= request.number,
            "an open request is not acknowledged"
        );
        below
    }

    fn forget_if_idle(&mut self, session: SessionId) {
        let idle = |numbers: &Numbers| numbers.open.is_empty();
        if self.current != Some(session) && self.sessions.get(&session).is_some_and(idle) {
            self.sessions.remove(&session);
        }
    }
}
