//! Maps the process numbers of sessions. A client knows its session by the number in its cancel
//! key. A server knows the session by another number, which changes between transactions.
//!
//! A session that names another one in a statement about processes asks it for its process at the
//! primary. A session without one acquires a connection for that. Either way the connection is not
//! given to any other session before the statement has been answered. So `pg_terminate_backend`
//! hits the client that was named, and PostgreSQL decides whether the user may do that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use pg_wire::startup::CancelKey;

/// How long a session waits for the process of another one. Then the number stays the client's,
/// which is none of a server: PostgreSQL says so.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests that a session has not answered, at most.
const REQUESTS_MAX: usize = 16;
/// Connections whose users are remembered, before those that were closed are forgotten.
const USERS_MIN: usize = 64;

/// A request for the number of a session's process at the primary.
pub struct ProcessRequest {
    /// Gets its number.
    pub answer: oneshot::Sender<u32>,
    /// Ends when the answer is of no use any more.
    pub until: oneshot::Receiver<()>,
}

/// A loan of another session's server process. The process belongs to that session until the loan
/// is dropped.
pub struct ProcessLoan {
    /// The number of the session's process at the primary.
    pub process: u32,
    _until: oneshot::Sender<()>,
}

impl ProcessLoan {
    /// Returns a loan, and a receiver that completes when the loan is dropped.
    pub fn of(process: u32) -> (ProcessLoan, oneshot::Receiver<()>) {
        let (until, ends) = oneshot::channel();
        let loan = ProcessLoan {
            process,
            _until: until,
        };
        (loan, ends)
    }
}

/// All sessions, by the number that their clients know.
#[derive(Default)]
pub struct ProcessRegistry {
    sessions: Mutex<BTreeMap<u32, mpsc::Sender<ProcessRequest>>>,
    users: Mutex<ConnectionUsers>,
}

/// The last user of each connection to the primary, by the number of its process.
#[derive(Default)]
struct ConnectionUsers {
    last: BTreeMap<u32, (Weak<CancelKey>, u32)>,
    /// The number of entries from which those of closed connections are dropped.
    count_max: usize,
}

/// A session's entry, which ends with it.
pub struct ProcessEntry<'a> {
    registry: &'a ProcessRegistry,
    /// The number that the client knows.
    pub number: u32,
    requests: mpsc::Receiver<ProcessRequest>,
}

impl ProcessRegistry {
    /// Adds the session whose client got this number.
    pub fn enter(&self, number: u32) -> ProcessEntry<'_> {
        let (sender, requests) = mpsc::channel(REQUESTS_MAX);
        self.sessions().insert(number, sender);
        ProcessEntry {
            registry: self,
            number,
            requests,
        }
    }

    fn sessions(&self) -> MutexGuard<'_, BTreeMap<u32, mpsc::Sender<ProcessRequest>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self) -> MutexGuard<'_, ConnectionUsers> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether a session has this number.
    pub fn has(&self, number: u32) -> bool {
        self.sessions().contains_key(&number)
    }

    /// Returns the process of a session at the primary; none if the session has ended, or is busy
    /// for too long.
    pub async fn ask(&self, number: u32) -> Option<ProcessLoan> {
        let session = self.sessions().get(&number)?.clone();
        let (answer, answered) = oneshot::channel();
        let (until, ends) = oneshot::channel();
        session
            .try_send(ProcessRequest {
                answer,
                until: ends,
            })
            .ok()?;
        let answered = tokio::time::timeout(ANSWER_TIMEOUT, answered).await;
        let process = answered.ok()?.ok()?;
        Some(ProcessLoan {
            process,
            _until: until,
        })
    }

    /// Records that the session with this number uses a connection to the primary.
    pub fn note_user(&self, connection: &Arc<CancelKey>, number: u32) {
        let mut users = self.users();
        let user = (Arc::downgrade(connection), number);
        users.last.insert(connection.process, user);
        if users.last.len() >= users.count_max.max(USERS_MIN) {
            users.last.retain(|_, (key, _)| key.strong_count() > 0);
            users.count_max = 2 * users.last.len();
        }
    }

    /// Returns the number of the client that uses this process of the primary, or used it last.
    pub fn user_of(&self, process: u32) -> Option<u32> {
        let users = self.users();
        let (key, number) = users.last.get(&process)?;
        (key.strong_count() > 0).then_some(*number)
    }
}

impl ProcessEntry<'_> {
    /// Returns the next request.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<ProcessRequest> {
        match self.requests.poll_recv(context) {
            Poll::Ready(Some(request)) => Poll::Ready(request),
            // The registry has a sender for as long as the entry is there.
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for ProcessEntry<'_> {
    fn drop(&mut self) {
        self.registry.sessions().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_closed_connections_are_forgotten() {
        let registry = ProcessRegistry::default();
        let connection = |process| {
            Arc::new(CancelKey {
                process,
                secret: Vec::new(),
            })
        };
        let open = connection(1);
        registry.note_user(&open, 7);
        registry.note_user(&connection(2), 8);
        assert_eq!((registry.user_of(1), registry.user_of(2)), (Some(7), None));
        for process in 3..3 + USERS_MIN as u32 {
            registry.note_user(&connection(process), 9);
        }
        let count = registry.users().last.len();
        assert!(count < USERS_MIN, "{count}");
        registry.note_user(&open, 10);
        assert_eq!(registry.user_of(1), Some(10));
    }
}
