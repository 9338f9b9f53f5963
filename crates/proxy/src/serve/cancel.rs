//! Handles cancel requests. The key in the request identifies a client's session, and the proxy
//! cancels the statement that this session runs on a server now.
//!
//! While a request is in flight to a server, the server's connection is not given to another
//! session, whose statement the request could cancel.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ring::rand::{SecureRandom, SystemRandom};

use pg_connect::stream::BufferedStream;
use pg_wire::startup::{CancelKey, write_cancel};
use proxy_pool::ServerNode;
use proxy_pool::connection::connect;

/// How long a cancel request may take at a server.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The destination of a session's cancel requests.
pub enum CancelGoal {
    /// Requests to cancel go to the server that the session uses.
    Server(Arc<ServerNode>, Arc<CancelKey>),
    /// The session waits for a server, and checks this flag.
    Wait(Arc<AtomicBool>),
}

/// The present destination, if any. It is locked while a request is in progress.
pub type CancelTarget = Arc<tokio::sync::Mutex<Option<CancelGoal>>>;

/// The cancel keys of all sessions.
#[derive(Default)]
pub struct CancelRegistry {
    sessions: Mutex<BTreeMap<u32, (Vec<u8>, CancelTarget)>>,
}

/// A session's entry, which is removed when it is dropped.
pub struct CancelEntry<'a> {
    registry: &'a CancelRegistry,
    /// The key that the client gets.
    pub key: CancelKey,
    target: CancelTarget,
}

impl CancelEntry<'_> {
    /// Sets the destination of cancel requests. Waits for a request in progress.
    pub async fn leads_to(&self, goal: Option<CancelGoal>) {
        let mut target = match self.target.try_lock() {
            Ok(target) => target,
            Err(_) => self.target.lock().await,
        };
        *target = goal;
    }
}

/// Returns a process number that no server's process has: positive, and more than Linux gives (2²²
/// at most). So a number in a statement is either a client's or a server's, see `processes`.
fn as_process(number: u32) -> u32 {
    number & 0x3fff_ffff | 0x4000_0000
}

impl CancelRegistry {
    /// Returns an entry with a key for a new session. In protocol 3.0 the secret has 4 bytes, in
    /// 3.2 more.
    pub fn enter(&self, minor: u16) -> CancelEntry<'_> {
        let random = SystemRandom::new();
        let mut bytes = [0; 36];
        random
            .fill(&mut bytes)
            .expect("the system gives random bytes");
        let (process, secret) = bytes.split_first_chunk::<4>().expect("there are 36");
        let secret = if minor < 2 { &secret[..4] } else { secret };
        let target = CancelTarget::default();
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        // A number that is taken is passed over.
        let mut process = as_process(u32::from_be_bytes(*process));
        while sessions.contains_key(&process) {
            process = as_process(process + 1);
        }
        sessions.insert(process, (secret.to_vec(), Arc::clone(&target)));
        CancelEntry {
            registry: self,
            key: CancelKey {
                process,
                secret: secret.to_vec(),
            },
            target,
        }
    }

    /// Forwards a cancel request if its key is valid. The client gets no reply.
    pub async fn cancel(&self, key: &CancelKey) {
        let target = {
            let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            match sessions.get(&key.process) {
                Some((secret, target)) if *secret == key.secret => Arc::clone(target),
                _ => return,
            }
        };
        let target = target.lock().await;
        match &*target {
            Some(CancelGoal::Server(node, key)) => {
                // A server that cannot be reached cannot get the request.
                let _ = tokio::time::timeout(TIMEOUT, send(node, key)).await;
            }
            Some(CancelGoal::Wait(is_cancelled)) => is_cancelled.store(true, Ordering::Release),
            None => {}
        }
    }
}

/// Sends a cancel request to a server, and waits until the server has handled it.
pub async fn send(node: &ServerNode, key: &CancelKey) -> std::io::Result<()> {
    let mut peer = BufferedStream::new(connect(&node.address).await?);
    peer.write_all(&write_cancel(key)).await?;
    while peer.read().await? > 0 {
        peer.input.clear();
    }
    Ok(())
}

impl Drop for CancelEntry<'_> {
    fn drop(&mut self) {
        let mut sessions = self.registry.sessions.lock();
        let sessions = sessions.as_mut();
        if let Ok(sessions) = sessions {
            sessions.remove(&self.key.process);
        }
    }
}
