//! Assigns numbers to client sessions, and reports the number below which all sessions have ended
//! (R14).
//!
//! The state reserves numbers in blocks, so opening a session writes nothing. A new process begins
//! a new block. From time to time the process records the highest number as a mark. Sessions below
//! a mark end two session lifetimes later. A process that ends forgets its marks, so some sessions
//! only last longer.

use alloc::collections::VecDeque;

use protocol::identity::{ClockReading, SessionId};

use super::{CoordinatorSettings, CoordinatorState, SESSION_BLOCK};

/// Marks in one life: a session lasts at most so much of a life longer than two.
const MARKS_PER_LIFE: u64 = 8;

/// The number of low bits of a session's number for the sessions of one microsecond of the wall
/// clock: enough until the year 2112.
const SESSIONS_PER_MICROSECOND_BITS: u32 = 9;

/// The sessions of one process.
#[derive(Debug)]
pub(super) struct Sessions {
    /// The next number; below `CoordinatorState::sessions_reserved`, or equal to it.
    next: u64,
    /// Rising in both parts.
    marks: VecDeque<Mark>,
    /// The last mark that was made, also if it has been used up.
    last: Mark,
}

/// All sessions below `next` were opened before `at_us`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at_us: u64,
    next: u64,
}

impl Sessions {
    pub(super) fn new(state: &CoordinatorState) -> Sessions {
        let next = state.sessions_reserved;
        Sessions {
            next,
            marks: VecDeque::new(),
            last: Mark { at_us: 0, next },
        }
    }

    /// Starts after earlier processes, which may have opened sessions a moment ago.
    ///
    /// A state that is an older copy does not know how many were opened since: numbers of this
    /// process begin at the wall clock's time, if that is further on. No client opens hundreds of
    /// sessions in a microsecond. So those of earlier processes are all below, also if this one is
    /// started at once.
    pub(super) fn start(&mut self, now: ClockReading, state: &CoordinatorState) {
        let by_clock = now.wall_us << SESSIONS_PER_MICROSECOND_BITS;
        if now.wall_us >> (61 - SESSIONS_PER_MICROSECOND_BITS) == 0
            && by_clock > state.sessions_reserved
        {
            self.next = by_clock;
            self.last.next = self.next;
        }
        self.last.at_us = now.monotonic_us;
        self.marks.push_back(self.last);
    }

    /// Returns a new session, and whether the state has changed.
    pub(super) fn open(&mut self, state: &mut CoordinatorState) -> (SessionId, bool) {
        let reserve = self.next >= state.sessions_reserved;
        if reserve {
            state.sessions_reserved = self.next + SESSION_BLOCK;
        }
        let session = SessionId(self.next);
        self.next += 1;
        assert!(session >= state.session_floor, "a new session is open");
        assert!(
            self.next <= state.sessions_reserved,
            "the number is reserved"
        );
        (session, reserve)
    }

    /// Records the time of sessions, and raises the number below which they have ended. Returns
    /// whether the state has changed.
    pub(super) fn advance(
        &mut self,
        now: ClockReading,
        settings: &CoordinatorSettings,
        state: &mut CoordinatorState,
    ) -> bool {
        if self
            .mark_due_us(settings)
            .is_some_and(|due| due <= now.monotonic_us)
        {
            self.last = Mark {
                at_us: now.monotonic_us,
                next: self.next,
            };
            self.marks.push_back(self.last);
        }
        let before = state.session_floor;
        while let Some(mark) = self.marks.front()
            && mark.at_us + 2 * settings.session_life_us <= now.monotonic_us
        {
            assert!(
                mark.next <= self.next,
                "a session that was not opened cannot end"
            );
            state.session_floor = state.session_floor.max(SessionId(mark.next));
            state.sessions_reserved = state.sessions_reserved.max(mark.next);
            self.marks.pop_front();
        }
        state.session_floor != before
    }

    /// Returns the time of the next call of [`Sessions::advance`].
    pub(super) fn deadline_us(&self, settings: &CoordinatorSettings) -> Option<u64> {
        let end = self.marks.front();
        let end = end.map(|mark| mark.at_us + 2 * settings.session_life_us);
        self.mark_due_us(settings).into_iter().chain(end).min()
    }

    /// Returns the time of the next mark; none if no session was opened after the last one.
    fn mark_due_us(&self, settings: &CoordinatorSettings) -> Option<u64> {
        let due = self.last.at_us + settings.session_life_us / MARKS_PER_LIFE;
        (self.next > self.last.next).then_some(due)
    }
}
