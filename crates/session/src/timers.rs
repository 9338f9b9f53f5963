//! When the session machine has to look at something again.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::identity::CoreId;

use super::Ticket;

/// The subject of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A request: its deadline, a silent attempt, the end of a pause.
    Request(Ticket),
    /// A connection may be opened again.
    Connect(CoreId),
    /// The question for a configuration is due, again.
    Fetch,
    /// The question for a session is due, again.
    Session,
}

/// All timers, by time. Requests keep the time of theirs, so that the common case is one tree.
#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeSet<(u64, Timer)>,
    /// Times of timers other than requests'.
    times: BTreeMap<Timer, u64>,
}

impl Timers {
    /// Sets a timer; other than a request's, it takes the place of the one before.
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

    /// Removes a timer other than a request's, if it is set.
    pub fn clear(&mut self, timer: Timer) {
        if let Some(at_us) = self.times.remove(&timer) {
            self.due.remove(&(at_us, timer));
        }
    }

    /// Returns the time at which the first is due.
    pub fn first_us(&self) -> Option<u64> {
        self.due.first().map(|(at_us, _)| *at_us)
    }

    /// Takes the first that is due.
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
