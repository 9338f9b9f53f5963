//! The limits, options and counters of an event loop.

use cluster_tls::Credentials;

use crate::clock::Clock;

/// The limits of one loop, in bytes and microseconds.
#[derive(Clone, Copy, Debug)]
pub struct LoopLimits {
    /// Whether only root and the user of this process may connect, from this machine. Others get
    /// the reason and are closed.
    pub own_user_only: bool,
    /// The most accepted connections, below a million. Further ones get the reason and are closed.
    pub connections_max: usize,
    /// The most connections beyond the limit that get the reason at the same time. Others are
    /// dropped.
    pub refusals_max: usize,
    /// The most bytes of one read: the size of the loop's buffer.
    pub read_bytes: usize,
    /// The most reads of one connection before other connections are read.
    pub reads_per_turn: usize,
    /// The most connections accepted in one turn.
    pub accepts_per_turn: usize,
    /// The queued bytes beyond which an open connection is not read.
    pub queued_bytes_max: usize,
    /// The unanswered requests beyond which a connection is not read.
    pub unanswered_max: usize,
    /// The most bytes of all incomplete frames that are larger than `read_bytes`.
    pub large_frames_bytes_max: usize,
    /// The longest time in which a connection must open, send its first frame, complete a frame, or
    /// accept waiting bytes.
    pub patience_us: u64,
    /// The longest time in which the other side must notice that the connection is closed.
    pub farewell_us: u64,
    /// The interval at which the loop checks the time limits of connections, while a connection is
    /// in a state with a time limit.
    pub sweep_us: u64,
    /// The longest time to stop.
    pub stop_us: u64,
}

impl Default for LoopLimits {
    fn default() -> Self {
        LoopLimits {
            own_user_only: false,
            connections_max: 10_000,
            refusals_max: 64,
            read_bytes: 64 << 10,
            reads_per_turn: 4,
            accepts_per_turn: 64,
            queued_bytes_max: 256 << 10,
            unanswered_max: 4_096,
            large_frames_bytes_max: 256 << 20,
            patience_us: 30_000_000,
            farewell_us: 1_000_000,
            sweep_us: 500_000,
            stop_us: 5_000_000,
        }
    }
}

/// The options of a loop.
#[derive(Clone, Debug)]
pub struct LoopOptions {
    /// The loop's limits.
    pub limits: LoopLimits,
    /// Whether to poll without sleeping. It halves the time of a hop and uses a whole CPU.
    pub spin: bool,
    /// The loop's clock.
    pub clock: Clock,
    /// The certificates of the process, if its connections are encrypted.
    pub credentials: Option<Credentials>,
}

impl LoopOptions {
    /// Returns the default options with this clock.
    pub fn new(clock: Clock) -> Self {
        LoopOptions {
            limits: LoopLimits::default(),
            spin: false,
            clock,
            credentials: None,
        }
    }
}

/// The counters of a loop since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounters {
    /// The number of polls.
    pub turns: u64,
    /// The number of complete received frames.
    pub frames_in: u64,
    /// The number of queued frames.
    pub frames_out: u64,
    /// The number of read bytes.
    pub bytes_in: u64,
    /// The number of written bytes.
    pub bytes_out: u64,
    /// The number of connections closed because of invalid bytes, or of a frame that the handler
    /// refused.
    pub malformed: u64,
    /// The number of accepted connections, including refused ones.
    pub connections_accepted: u64,
    /// The number of connections refused because there were too many.
    pub connections_refused: u64,
    /// The number of closed connections.
    pub connections_closed: u64,
    /// The number of connections closed because they stayed too long in a temporary state.
    pub impatient: u64,
}

impl LoopCounters {
    /// Returns the counters by name, as `Request::Status` reports them.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("turns", self.turns),
            ("frames_in", self.frames_in),
            ("frames_out", self.frames_out),
            ("bytes_in", self.bytes_in),
            ("bytes_out", self.bytes_out),
            ("malformed", self.malformed),
            ("connections_accepted", self.connections_accepted),
            ("connections_refused", self.connections_refused),
            ("connections_closed", self.connections_closed),
            ("connections_impatient", self.impatient),
        ]
    }
}
