//! The clocks of a process. Only this module reads them; the machines get a [`ClockReading`].

use std::time::{SystemTime, UNIX_EPOCH};

use protocol::identity::ClockReading;
use rustix::time::{ClockId, clock_gettime};

/// The clocks of one process. Copies share one monotonic time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start_us: u64,
}

impl Clock {
    /// Returns a clock whose monotonic time starts here.
    pub fn start() -> Self {
        Clock {
            start_us: since_boot_us(),
        }
    }

    /// Returns the microseconds since the start, counted from 1; 0 is before every time.
    pub fn monotonic_us(&self) -> u64 {
        since_boot_us() - self.start_us + 1
    }

    /// Reads both clocks.
    pub fn now(&self) -> ClockReading {
        ClockReading {
            monotonic_us: self.monotonic_us(),
            wall_us: wall_us(),
        }
    }
}

/// Returns the microseconds since 1970; 0 if the clock is set to an earlier time.
pub fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_micros()).expect("the year is below 500,000")
    })
}

/// Returns the time since the machine's start, with the time for which it was suspended. A machine
/// must not believe after a suspension that its leases are still valid (R15), and std's clock does
/// not advance during one.
fn since_boot_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).expect("time since boot is positive");
    let nanoseconds = u64::try_from(time.tv_nsec).expect("parts of a second are positive");
    seconds * 1_000_000 + nanoseconds / 1000
}
