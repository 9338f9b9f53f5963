//! How long an answer is waited for before a question is asked again: twice as long each time, so
//! that a slow peer is not given more to do.

/// A wait is doubled so many times at most.
const DOUBLINGS_MAX: u32 = 3;

/// When something was asked for, and how often without an answer.
#[derive(Debug, Default)]
pub(crate) struct RetryTimer {
    /// None if it is to be asked.
    at_us: Option<u64>,
    times: u32,
}

impl RetryTimer {
    /// Returns the time of the next question; `retry_us` is the first wait.
    pub fn due_us(&self, retry_us: u64) -> u64 {
        let doublings = self.times.saturating_sub(1).min(DOUBLINGS_MAX);
        self.at_us
            .map_or(0, |at_us| at_us + (retry_us << doublings))
    }

    /// Returns whether an answer is being waited for.
    pub fn is_under_way(&self, now_us: u64, retry_us: u64) -> bool {
        self.due_us(retry_us) > now_us
    }

    /// Notes that the question is sent now.
    pub fn ask(&mut self, now_us: u64) {
        self.at_us = Some(now_us);
        self.times += 1;
    }

    /// Makes the question due at once, because it may be lost.
    pub fn lose(&mut self) {
        self.at_us = None;
    }

    /// Ends with the answer; the next question is another one.
    pub fn end(&mut self) {
        *self = RetryTimer::default();
    }
}
