//! Tracks the requests to one member of a cover: the next key, and the time of the next request.

use protocol::codec::Bytes;

use crate::core::repair::timer::RetryTimer;

/// The progress of requests to one member of a cover.
#[derive(Debug)]
pub(crate) struct CoverProgress {
    /// The key to continue from; none once the member has sent everything.
    pub next: Option<Bytes>,
    pub timer: RetryTimer,
    /// The number of rows that the member has visited, and its approximate number of rows.
    pub rows: u64,
    pub of_rows: u64,
}

impl CoverProgress {
    /// Returns the progress of a member that has not been asked.
    pub fn new() -> CoverProgress {
        CoverProgress {
            next: Some(Bytes::default()),
            timer: RetryTimer::default(),
            rows: 0,
            of_rows: 0,
        }
    }

    /// Returns the time of the next request to the member; none if the member has sent everything.
    pub fn due_us(&self, retry_us: u64) -> Option<u64> {
        self.next.as_ref()?;
        Some(self.timer.due_us(retry_us))
    }

    /// Returns whether an answer that begins at this key is the awaited one.
    pub fn awaits(&self, start: &Bytes) -> bool {
        self.next.as_ref() == Some(start)
    }

    /// Continues after an answer. Returns false if the answer does not advance.
    pub fn go_on(&mut self, next: Option<Bytes>) -> bool {
        if next.is_some() && next <= self.next {
            return false;
        }
        self.next = next;
        self.timer.end();
        true
    }
}
