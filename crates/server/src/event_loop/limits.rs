//! The limits of a loop, its options, and its counters.

use crate::clock::Clock;

/// Limits of one loop; bytes and microseconds.
#[derive(Clone, Copy, Debug)]
pub struct LoopLimits {
    /// Only the user that runs this process, and root, may connect, from this machine; others
    /// receive the reason and are closed.
    pub own_user_only: bool,
    /// Accepted connections; one more receives the reason and is closed. Below a million.
    pub connections_max: usize,
    /// Connections beyond that which receive the reason at the same time; more are just dropped.
    pub refusals_max: usize,
    /// Bytes read at once; one buffer of the loop.
    pub read_bytes: usize,
    /// Reads of one connection before the others have their turn.
    pub reads_per_turn: usize,
    /// Connections accepted in one turn.
    pub accepts_per_turn: usize,
    /// Queued bytes beyond which nothing is read from an open connection.
    pub queued_bytes_max: usize,
    /// Unanswered requests beyond which nothing is read from a connection.
    pub unanswered_max: usize,
    /// Bytes of all frames together that are larger than `read_bytes` and under way.
    pub large_frames_bytes_max: usize,
    /// How long a connection may take to open, to send its first frame, to complete a frame, to
    /// take bytes that wait for it.
    pub patience_us: u64,
    /// How long a closed connection may take to notice.
    pub farewell_us: u64,
    /// How often these are looked at, while a connection is in such a state.
    pub sweep_us: u64,
    /// How long stopping may take.
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

/// How a loop runs.
#[derive(Clone, Copy, Debug)]
pub struct LoopOptions {
    /// Its limits.
    pub limits: LoopLimits,
    /// Poll without sleeping: halves a hop, burns a CPU.
    pub spin: bool,
    /// Its clock.
    pub clock: Clock,
}

impl LoopOptions {
    /// Returns the defaults, on this clock.
    pub fn new(clock: Clock) -> Self {
        LoopOptions {
            limits: LoopLimits::default(),
            spin: false,
            clock,
        }
    }
}

/// The counters of a loop since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounters {
    /// Polls.
    pub turns: u64,
    /// Frames received completely.
    pub frames_in: u64,
    /// Frames queued.
    pub frames_out: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Connections closed because of bytes that are no frame, or a frame that the handler refused.
    pub malformed: u64,
    /// Connections accepted, those refused included.
    pub connections_accepted: u64,
    /// Connections refused because there were too many.
    pub connections_refused: u64,
    /// Connections closed.
    pub connections_closed: u64,
    /// Connections closed because they stayed too long in a state that may not last.
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
