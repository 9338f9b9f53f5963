//! Times the repetition of a request. The wait doubles each time, so that a slow peer does not get
//! more work.

/// How many times a wait can double.
const DOUBLINGS_MAX: u32 = 3;

/// The time of the last request, and the number of requests without an answer.
#[derive(Debug, Default)]
pub(crate) struct RetryTimer {
    /// None if it is to be asked.
    at_us: Option<u64>,
    times: u32,
}

impl RetryTimer {
    /// Returns the time of the next request. `retry_us` is the first wait.
    pub fn due_us(&self, retry_us: u64) -> u64 {
        let doublings = self.times.saturating_sub(1).min(DOUBLINGS_MAX);
        self.at_us
            .map_or(0, |at_us| at_us + (retry_us << doublings))
    }

    /// Returns whether an answer is outstanding.
    pub fn is_under_way(&self, now_us: u64, retry_us: u64) -> bool {
        self.due_us(retry_us) > now_us
    }

    /// Returns the time since the last request; 0 if it is to be asked.
    pub fn elapsed_us(&self, now_us: u64) -> u64 {
        self.at_us.map_or(0, |at_us| now_us.saturating_sub(at_us))
    }

    /// Records that the request is sent now.
    pub fn ask(&mut self, now_us: u64) {
        self.at_us = Some(now_us);
        self.times += 1;
    }

    /// Makes the request due at once, because it may be lost.
    pub fn lose(&mut self) {
        self.at_us = None;
    }

    /// Resets the timer after an answer.
    pub fn end(&mut self) {
        *self = RetryTimer::default();
    }
}
