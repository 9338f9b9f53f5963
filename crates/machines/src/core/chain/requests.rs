//! The requests that a head executes now, and the clients that wait for their results.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use protocol::identity::{OperationId, RequestId};

use crate::core::answers::ReplyDestination;
use crate::core::contract::ClientId;
use crate::core::partition::queue::QueuedRequest;

/// Clients that wait for one request; a retry beyond takes the oldest one's place.
const ASKERS_MAX: usize = 4;

/// The running requests of one head.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Requests that wait in a queue, or are part of an operation in progress.
    running: BTreeMap<RequestId, Running>,
    /// Bodies of the requests of operations that carry several, to be evaluated one by one if
    /// their operation aborts.
    folded: BTreeMap<OperationId, Vec<QueuedRequest>>,
}

#[derive(Debug)]
struct Running {
    digest: u64,
    /// The clients that wait for the result: more than one after a retry, at most `ASKERS_MAX`.
    askers: Vec<ReplyDestination>,
}

impl Requests {
    /// Returns the number of running requests.
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Returns the hash of a request's body, if the request is running.
    pub fn digest(&self, request: RequestId) -> Option<u64> {
        self.running.get(&request).map(|running| running.digest)
    }

    /// Returns the names of all running requests.
    pub fn names(&self) -> Vec<RequestId> {
        self.running.keys().copied().collect()
    }

    /// Begins a client's request.
    pub fn begin(&mut self, request: RequestId, digest: u64, asker: ReplyDestination) {
        let askers = alloc::vec![asker];
        self.running.insert(request, Running { digest, askers });
    }

    /// Adds a request of an operation that was restored after a restart. No client of this process
    /// waits for it.
    pub fn resume(&mut self, request: RequestId, digest: u64) {
        let askers = Vec::new();
        let running = self.running.entry(request);
        running.or_insert(Running { digest, askers });
    }

    /// Adds a client that has sent a running request again.
    pub fn join(&mut self, request: RequestId, asker: ReplyDestination) {
        let running = self.running.get_mut(&request);
        let askers = &mut running.expect("callers know it to be under way").askers;
        if !askers.contains(&asker) {
            askers.truncate(ASKERS_MAX - 1);
            askers.push(asker);
        }
    }

    /// Ends a request, and returns the clients that wait for it.
    pub fn end(&mut self, request: RequestId) -> Vec<ReplyDestination> {
        let running = self.running.remove(&request);
        running.map_or_else(Vec::new, |running| running.askers)
    }

    /// Detaches the clients that wait for a request, and returns them.
    pub fn leave(&mut self, request: RequestId) -> Vec<ReplyDestination> {
        let running = self.running.get_mut(&request);
        running.map_or_else(Vec::new, |running| core::mem::take(&mut running.askers))
    }

    /// Drops the state of a client whose connection has ended.
    pub fn forget_client(&mut self, client: ClientId) {
        for running in self.running.values_mut() {
            running.askers.retain(|asker| asker.client != client);
        }
    }

    /// Returns whether a client waits for any request.
    pub fn are_awaited(&self) -> bool {
        self.running.values().any(|it| !it.askers.is_empty())
    }

    /// Keeps the bodies of the requests that one operation executes.
    pub fn fold(&mut self, operation: OperationId, queued: Vec<QueuedRequest>) {
        self.folded.insert(operation, queued);
    }

    /// Ends an operation of several requests, and returns their bodies. Returns none if it had one
    /// request.
    pub fn unfold(&mut self, operation: OperationId) -> Option<Vec<QueuedRequest>> {
        self.folded.remove(&operation)
    }
}
