//! The inputs and outputs of the coordinator's machine.
//!
//! The driver owns sockets, the place where the state is kept, and time. After each step, or batch
//! of steps, it first keeps `persist`, if there is one, and only then sends the replies whose
//! `after` is kept. So a coordinator that is killed at any moment has sent no configuration that
//! its successor does not know.

use alloc::string::String;
use alloc::vec::Vec;

use protocol::message::{CoordinatorReply, CoordinatorRequest};
use protocol::state::CoordinatorState;

/// Names a connection to the coordinator; the driver chooses it and never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequesterId(pub u64);

/// An event that the coordinator handles.
#[derive(Clone, Debug)]
pub enum CoordinatorInput {
    /// A client, a server or an operator sends a request.
    Request {
        /// The connection.
        from: RequesterId,
        /// Returned with the reply.
        correlation: u64,
        /// What.
        request: CoordinatorRequest,
    },
    /// A connection is gone: no reply to it is needed any more. The change that it requested is
    /// done.
    Gone {
        /// The connection.
        from: RequesterId,
    },
    /// The deadline of the last output has come.
    Tick,
}

/// Actions that the driver is to take. The driver empties it after each step or batch of steps.
#[derive(Debug, Default)]
pub struct CoordinatorOutput {
    /// The state, to be kept instead of the one before; the last one of a batch counts. It shares
    /// its tables with the states before, so that a driver can find and keep the changes alone.
    pub persist: Option<CoordinatorState>,
    /// Replies, in the order of the requests that they answer as far as these did not wait; and
    /// announcements of epochs, which answer none.
    pub replies: Vec<CoordinatorAnswer>,
    /// When to step with [`CoordinatorInput::Tick`] at the latest, on the monotonic clock; the last
    /// one counts.
    pub deadline_us: Option<u64>,
    /// For the operator's log.
    pub notes: Vec<String>,
}

/// A reply to the sender of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CoordinatorAnswer {
    /// The connection.
    pub to: RequesterId,
    /// From the request.
    pub correlation: u64,
    /// Not before the state of this version is kept.
    pub after: u64,
    /// What.
    pub reply: CoordinatorReply,
}

/// Intervals, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// How long a core may serve after it sent the heartbeat that was answered.
    pub lease_us: u64,
    /// By how much a clock that measures a lease may differ from the coordinator's.
    pub drift_us: u64,
    /// After this a client opens a new session; after twice this the old one has ended
    /// (R14).
    pub session_life_us: u64,
    /// The longest time for which creating or dropping a table waits until servers know of it.
    pub wait_us_max: u64,
    /// After a server fell silent and its lease ended, how long until its partitions go to others;
    /// `u64::MAX` is never.
    pub replace_after_us: u64,
    /// The same after a server has reported its stop.
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

/// Servers of one cluster.
pub const SERVERS_MAX: usize = 1024;
/// Cores of one server.
pub const CORES_MAX: usize = 256;
/// Tables of one cluster.
pub const TABLES_MAX: usize = 16_384;
/// Bytes of an address or of a failure domain's name.
pub const TEXT_BYTES_MAX: usize = 255;
/// Bytes of an encoded configuration: it travels in one frame, with room for what is around it.
pub const CONFIGURATION_BYTES_MAX: usize = 24 << 20;
/// Requests that wait until servers know of a change.
pub const WAITING_MAX: usize = 4096;
/// Copies that could not be made and whose reasons the state keeps.
pub const FAILURES_MAX: usize = 64;
/// Session numbers that are taken from the state at once, so that opening one writes nothing.
pub const SESSION_BLOCK: u64 = 4096;
