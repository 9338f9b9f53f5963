//! The inputs and outputs of the coordinator's machine.
//!
//! The driver owns sockets, the storage of the state, and time. After each step, or batch of steps,
//! it first stores `persist`, if there is one. Only then does it send the replies whose `after` is
//! stored. So a coordinator that is killed at any moment has sent no configuration that its
//! successor does not know.

use alloc::string::String;
use alloc::vec::Vec;

use protocol::message::{CoordinatorReply, CoordinatorRequest};
use protocol::state::CoordinatorState;

/// Identifies a connection to the coordinator. The driver chooses the number and never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequesterId(pub u64);

/// An input of the coordinator.
#[allow(
    clippy::large_enum_variant,
    reason = "an input is handled as soon as it is made, and most inputs are requests"
)]
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A client, a server or an operator sends a request.
    Request {
        /// The connection.
        from: RequesterId,
        /// Returned with the reply.
        correlation: u64,
        /// The request.
        request: CoordinatorRequest,
    },
    /// A connection has ended. No reply to it is needed any more, but its requested change is still
    /// made.
    Gone {
        /// The connection.
        from: RequesterId,
    },
    /// The deadline of the last output has come.
    Tick,
}

/// The output of the coordinator. The driver empties it after each step or batch of steps.
#[derive(Debug, Default)]
pub struct CoordinatorOutput {
    /// The state, to be stored in place of the earlier one. The last one of a batch counts. It
    /// shares its tables with the earlier states, so that a driver can find and store only the
    /// changes.
    pub persist: Option<CoordinatorState>,
    /// Replies, in the order of their requests, except those that had to wait; and announcements of
    /// epochs, which answer no request.
    pub replies: Vec<CoordinatorAnswer>,
    /// The latest time for the next [`CoordinatorInput::Tick`], on the monotonic clock. A later
    /// output replaces it.
    pub deadline_us: Option<u64>,
    /// Lines for the operator's log.
    pub notes: Vec<String>,
}

/// A reply to the sender of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorAnswer {
    /// The connection.
    pub to: RequesterId,
    /// The correlation of the request.
    pub correlation: u64,
    /// The version of the state that must be stored before the reply is sent.
    pub after: u64,
    /// The reply.
    pub reply: CoordinatorReply,
}

/// Intervals, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// The time for which a core may serve, counted from the sending of the answered heartbeat.
    pub lease_us: u64,
    /// The largest difference between a clock that measures a lease and the coordinator's clock.
    pub drift_us: u64,
    /// The time after which a client opens a new session. After twice this time the old session has
    /// ended (R14).
    pub session_life_us: u64,
    /// The longest wait of creating or dropping a table for servers to learn of the change.
    pub wait_us_max: u64,
    /// The time from the end of a silent server's lease until other servers receive its partitions;
    /// `u64::MAX` is never.
    pub replace_after_us: u64,
    /// The time after which a server that has reported its stop is replaced.
    pub replace_stopped_after_us: u64,
}

impl Default for CoordinatorSettings {
    fn default() -> Self {
        CoordinatorSettings {
            lease_us: 1_000_000,
            drift_us: 50_000,
            session_life_us: 3_600_000_000,
            wait_us_max: 10_000_000,
            replace_after_us: u64::MAX,
            replace_stopped_after_us: u64::MAX,
        }
    }
}

/// The most servers of one cluster.
pub const SERVERS_MAX: usize = 1024;
/// The most cores of one server.
pub const CORES_MAX: usize = 256;
/// The most tables of one cluster.
pub const TABLES_MAX: usize = 16_384;
/// The most bytes of an address or of a failure domain's name.
pub const TEXT_BYTES_MAX: usize = 255;
/// The most bytes of an encoded configuration, so that it fits into one frame.
pub const CONFIGURATION_BYTES_MAX: usize = 24 << 20;
/// The most requests that wait for servers to learn of a change.
pub const WAITING_MAX: usize = 4096;
/// The most failed copies whose reasons the state keeps.
pub const FAILURES_MAX: usize = 64;
/// The number of session numbers that are reserved in the state at once, so that opening a session
/// writes nothing.
pub const SESSION_BLOCK: u64 = 4096;
