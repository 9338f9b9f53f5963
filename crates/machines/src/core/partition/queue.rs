//! The queue of a pk: requests that have not been evaluated yet, and walks of transactions.

use protocol::identity::{OperationId, RequestId};
use protocol::operation::Mutation;

/// An entry of a queue. The first one has the next turn.
#[derive(Clone, Debug)]
pub(crate) enum Queued {
    Request(QueuedRequest),
    /// The walk of a transaction, which then holds the key until the transaction has ended (R42).
    Walk(OperationId),
}

impl Queued {
    /// Returns the request, if this is one.
    pub fn request(&self) -> Option<&QueuedRequest> {
        match self {
            Queued::Request(request) => Some(request),
            Queued::Walk(_) => None,
        }
    }

    /// Takes the request, if this is one.
    pub fn into_request(self) -> Option<QueuedRequest> {
        match self {
            Queued::Request(request) => Some(request),
            Queued::Walk(_) => None,
        }
    }
}

/// A request that waits for its pk.
#[derive(Clone, Debug)]
pub(crate) struct QueuedRequest {
    pub request: RequestId,
    pub acknowledged_below: u64,
    /// The hash of the request's body.
    pub digest: u64,
    pub mutation: Mutation,
    pub since_us: u64,
    /// Whether the request was part of an aborted operation, and now runs in an operation of its
    /// own.
    pub alone: bool,
}
