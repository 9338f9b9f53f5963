//! How far a member of a cover has given its rows.

use protocol::codec::Bytes;

use crate::core::repair::timer::RetryTimer;

/// The progress of the questions to one member of the cover.
#[derive(Debug)]
pub(crate) struct CoverProgress {
    /// Where to go on; none once it has given everything.
    pub next: Option<Bytes>,
    pub timer: RetryTimer,
    /// Rows that it has looked at, and about how many it has.
    pub rows: u64,
    pub of_rows: u64,
}

impl CoverProgress {
    /// Returns one that is to be asked from the beginning.
    pub fn new() -> CoverProgress {
        CoverProgress {
            next: Some(Bytes::default()),
            timer: RetryTimer::default(),
            rows: 0,
            of_rows: 0,
        }
    }

    /// Returns the time at which it is to be asked, if at all.
    pub fn due_us(&self, retry_us: u64) -> Option<u64> {
        self.next.as_ref()?;
        Some(self.timer.due_us(retry_us))
    }

    /// Returns whether this is the answer that is waited for.
    pub fn awaits(&self, start: &Bytes) -> bool {
        self.next.as_ref() == Some(start)
    }

    /// Goes on after an answer. False if that does not lead on.
    pub fn go_on(&mut self, next: Option<Bytes>) -> bool {
        if next.is_some() && next <= self.next {
            return false;
        }
        self.next = next;
        self.timer.end();
        true
    }
}
