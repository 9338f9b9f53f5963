//! The timers of the session machine.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::identity::CoreId;

use super::Ticket;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A request: its deadline, the check of an unanswered attempt, or the end of a pause.
    Request(Ticket),
    /// A connection may be opened again.
    Connect(CoreId),
    /// The fetch of a configuration is due, possibly again.
    Fetch,
    /// The request for a session is due, possibly again.
    Session,
}

/// All timers, by time. Each request stores the time of its own timer, so the common case needs one
/// tree.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, Timer)>,
    /// Times of timers other than requests'.
    times: BTreeMap<Timer, u64>,
}

impl Timers {
    /// Sets a timer. Unless it is a request's, it replaces the earlier timer of the same kind.
    pub fn set(&mut self, at_us: u64, timer: Timer) {
        if !matches!(timer, Timer::Request(_))
            && let Some(before) = self.times.insert(timer, at_us)
        {
            self.due.remove(&(before, timer));
        }
        self.due.insert((at_us, timer));
    }

    /// Removes a request's timer.
    pub fn remove(&mut self, at_us: u64, timer: Timer) {
        let existed = self.due.remove(&(at_us, timer));
        assert!(existed, "a request knows when its timer is due");
    }

    /// Removes a timer that is not a request's, if it is set.
    pub fn clear(&mut self, timer: Timer) {
        if let Some(at_us) = self.times.remove(&timer) {
            self.due.remove(&(at_us, timer));
        }
    }

    /// Returns the time of the first timer.
    pub fn first_us(&self) -> Option<u64> {
        self.due.first().map(|(at_us, _)| *at_us)
    }

    /// Removes and returns the first timer that is due.
    pub fn pop_due(&mut self, now_us: u64) -> Option<Timer> {
        let (at_us, timer) = *self.due.first()?;
        if at_us > now_us {
            return None;
        }
        self.due.pop_first();
        self.times.remove(&timer);
        Some(timer)
    }
}
