//! Cancel requests: a client's key leads to what its session runs on a server now.
//!
//! While a request is on its way to a server, that server's connection is not given to another
//! session: the request could hit that one's statement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use crate::pool::Node;
use crate::pool::connection::connect;
use crate::pool::stream::Peer;
use crate::wire::startup::{CancelKey, write_cancel};

/// How long a cancel request may take at a server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The server that a session uses now, to cancel there. Held locked while a request is under way.
pub type Target = Arc<tokio::sync::Mutex<Option<(Arc<Node>, CancelKey)>>>;

/// Whether a session waits for a server, where a request finds none.
#[derive(Debug, Default)]
pub struct Wait(Mutex<Option<Waiting>>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Goes,
    Cancelled,
}

impl Wait {
    /// It waits until this is dropped.
    pub fn begin(&self) -> Waits<'_> {
        *self.state() = Some(Waiting::Goes);
        Waits(self)
    }

    fn cancel(&self) {
        if let Some(waiting) = &mut *self.state() {
            *waiting = Waiting::Cancelled;
        }
    }

    fn state(&self) -> MutexGuard<'_, Option<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session waits.
pub struct Waits<'a>(&'a Wait);

impl Waits<'_> {
    /// Has it been asked to cancel what it waits with?
    pub fn is_cancelled(&self) -> bool {
        *self.0.state() == Some(Waiting::Cancelled)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        *self.0.state() = None;
    }
}

/// What a key leads to.
struct Keyed {
    secret: Vec<u8>,
    target: Target,
    wait: Arc<Wait>,
}

/// The keys of all sessions.
#[derive(Default)]
pub struct Registry {
    sessions: Mutex<BTreeMap<u32, Keyed>>,
}

/// A session's entry, which ends with it.
pub struct Entry<'a> {
    registry: &'a Registry,
    /// What the client is told.
    pub key: CancelKey,
    /// What it leads to.
    pub target: Target,
    /// And what else.
    pub wait: Arc<Wait>,
}

impl Registry {
    /// A key for a new session; protocol 3.0 has room for 4 bytes of secret, 3.2 for more.
    pub fn enter(&self, minor: u16) -> Entry<'_> {
        let random = SystemRandom::new();
        let mut bytes = [0; 36];
        random
            .fill(&mut bytes)
            .expect("the system gives random bytes");
        let (process, secret) = bytes.split_first_chunk::<4>().expect("there are 36");
        let secret = if minor < 2 { &secret[..4] } else { secret };
        let target = Target::default();
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // Positive, as a process number is; a number that is taken is passed over.
        let mut process = u32::from_be_bytes(*process) & 0x7fff_ffff;
        while sessions.contains_key(&process) {
            process = (process + 1) & 0x7fff_ffff;
        }
        let wait = Arc::<Wait>::default();
        let keyed = Keyed {
            secret: secret.to_vec(),
            target: Arc::clone(&target),
            wait: Arc::clone(&wait),
        };
        sessions.insert(process, keyed);
        Entry {
            registry: self,
            key: CancelKey {
                process,
                secret: secret.to_vec(),
            },
            target,
            wait,
        }
    }

    /// Passes a request on, if its key is right. Nobody is told how it went.
    pub async fn cancel(&self, key: &CancelKey) {
        let (target, wait) = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            match sessions.get(&key.process) {
                Some(keyed) if keyed.secret == key.secret => {
                    (Arc::clone(&keyed.target), Arc::clone(&keyed.wait))
                }
                _ => return,
            }
        };
        let target = target.lock().await;
        let Some((node, key)) = &*target else {
            return wait.cancel();
        };
        // A server that cannot be reached cannot be told to cancel.
        let _ = tokio::time::timeout(TIMEOUT, send(node, key)).await;
    }
}

/// Sends a cancel request, and waits until the server has passed it on.
pub async fn send(node: &Node, key: &CancelKey) -> std::io::Result<()> {
    let mut peer = Peer::new(connect(&node.address).await?);
    peer.write_all(&write_cancel(key)).await?;
    while peer.read().await? > 0 {
        peer.input.clear();
    }
    Ok(())
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut sessions = self.registry.sessions.lock();
        let sessions = sessions.as_mut();
        if let Ok(sessions) = sessions {
            sessions.remove(&self.key.process);
        }
    }
}
