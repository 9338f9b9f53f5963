//! A request that waits for its pk, and has not been evaluated yet.

use protocol::identity::RequestId;
use protocol::operation::Mutation;

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
