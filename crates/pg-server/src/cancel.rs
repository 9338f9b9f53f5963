//! Requests of clients to cancel the statements of their sessions.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::sync::watch;

use pg_wire::startup::CancelKey;

/// The bytes of a secret in protocol 3.0, and in 3.2.
const SECRET_LEN_SHORT: usize = 4;
const SECRET_LEN: usize = 32;

/// The sessions that run, by their numbers.
#[derive(Debug, Default)]
pub struct SessionCancels {
    sessions: Mutex<Sessions>,
}

#[derive(Debug, Default)]
struct Sessions {
    last: u32,
    by_process: BTreeMap<u32, RegisteredSession>,
}

#[derive(Debug)]
struct RegisteredSession {
    secret: Vec<u8>,
    requests: watch::Sender<()>,
}

/// The place of a session in the registry. Dropping it removes the session.
#[derive(Debug)]
pub struct SessionCancelEntry<'a> {
    registry: &'a SessionCancels,
    /// The session's key, for its client.
    pub key: CancelKey,
    /// Changes with each request to cancel the present statement.
    pub requests: watch::Receiver<()>,
}

impl SessionCancels {
    /// Registers a session of this minor version of the protocol.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn enter(&self, minor: u16) -> io::Result<SessionCancelEntry<'_>> {
        let length = match minor {
            0 | 1 => SECRET_LEN_SHORT,
            _ => SECRET_LEN,
        };
        let mut secret = vec![0; length];
        // The system returns so few bytes at once.
        let count = getrandom(&mut secret, GetRandomFlags::empty())?;
        assert_eq!(count, length, "getrandom returns up to 256 bytes whole");
        let (sender, requests) = watch::channel(());
        let mut sessions = self.lock();
        loop {
            sessions.last = sessions.last.wrapping_add(1) & 0x7fff_ffff;
            if sessions.last != 0 && !sessions.by_process.contains_key(&sessions.last) {
                break;
            }
        }
        let process = sessions.last;
        let registered = RegisteredSession {
            secret: secret.clone(),
            requests: sender,
        };
        sessions.by_process.insert(process, registered);
        Ok(SessionCancelEntry {
            registry: self,
            key: CancelKey { process, secret },
            requests,
        })
    }

    /// Cancels the present statement of the session with this key. Another key has no effect, and
    /// its sender cannot find out.
    pub fn cancel(&self, key: &CancelKey) {
        let sessions = self.lock();
        if let Some(session) = sessions.by_process.get(&key.process)
            && is_same(&session.secret, &key.secret)
        {
            session.requests.send_replace(());
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SessionCancelEntry<'_> {
    fn drop(&mut self) {
        self.registry.lock().by_process.remove(&self.key.process);
    }
}

/// Returns whether two secrets are the same, in a time that depends on their lengths only.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differences = one
        .iter()
        .zip(other)
        .fold(0, |found, (a, b)| found | (a ^ b));
    one.len() == other.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_key_cancels() {
        let registry = SessionCancels::default();
        let mut first = registry.enter(0).unwrap();
        let mut second = registry.enter(2).unwrap();
        assert_eq!((first.key.secret.len(), second.key.secret.len()), (4, 32));
        assert_ne!(first.key.process, second.key.process);
        let mut wrong = first.key.clone();
        wrong.secret[0] ^= 1;
        registry.cancel(&wrong);
        wrong.secret.clear();
        registry.cancel(&wrong);
        assert!(!first.requests.has_changed().unwrap());
        registry.cancel(&first.key);
        assert!(first.requests.has_changed().unwrap());
        first.requests.mark_unchanged();
        assert!(!second.requests.has_changed().unwrap());
        let gone = second.key.clone();
        second.requests.mark_unchanged();
        drop(second);
        registry.cancel(&gone);
        assert!(!first.requests.has_changed().unwrap());
        assert_eq!(registry.lock().by_process.len(), 1);
    }
}
