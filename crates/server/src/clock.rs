//! Time for the machines: one place reads the clocks, everything else is handed a [`Now`].

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use protocol::identity::Now;

/// The clocks of one process. Copies agree, so that several loops share one monotonic time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose monotonic time starts here.
    pub fn start() -> Self {
        Clock {
            start: Instant::now(),
        }
    }

    /// Microseconds since the start, from 1: 0 stands before every moment.
    pub fn monotonic_us(&self) -> u64 {
        let elapsed = self.start.elapsed().as_micros();
        u64::try_from(elapsed).expect("no process runs for 500,000 years") + 1
    }

    /// Both clocks.
    pub fn now(&self) -> Now {
        Now {
            monotonic_us: self.monotonic_us(),
            wall_us: wall_us(),
        }
    }
}

/// Microseconds since 1970; 0 where the clock is set before that.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).expect("the year is below 500,000")
    })
}
