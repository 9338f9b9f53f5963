//! Closes connections that stay in a temporary state for too long.
//!
//! A connection that opens, has not sent a first frame, has begun a frame, or has not yet received
//! its queued bytes uses memory here. So each of these states has a time limit. An idle connection
//! may stay open for ever, and is not checked.

use super::connection::ConnectionPhase;
use super::{ConnectionSide, EventLoop};

impl EventLoop {
    /// Closes connections that have stayed too long in a temporary state.
    pub(super) fn sweep(&mut self) {
        let now_us = self.io.now_us;
        if self.io.sweep_us.is_none_or(|at| at > now_us) {
            return;
        }
        self.io.sweep_us = None;
        let limits = self.options.limits;
        let mut waiting = false;
        for id in self.io.ids() {
            let held_back = self.io.is_held_back(id);
            let Some(connection) = self.io.find(id) else {
                continue;
            };
            let unfinished = !connection.partial.is_empty() && !held_back;
            let (patience_us, reason) = match connection.phase {
                ConnectionPhase::Closing | ConnectionPhase::Draining => (limits.farewell_us, ""),
                ConnectionPhase::Connecting => (limits.patience_us, "no process answered"),
                ConnectionPhase::Open if connection.blocked => (
                    limits.patience_us,
                    "it did not read the bytes that were sent to it",
                ),
                ConnectionPhase::Open if unfinished => {
                    (limits.patience_us, "it began a frame and did not end it")
                }
                ConnectionPhase::Open
                    if !connection.greeted && connection.side == ConnectionSide::Accepted =>
                {
                    (limits.patience_us, "it sent nothing")
                }
                ConnectionPhase::Open => continue,
            };
            if connection.since_us + patience_us > now_us {
                waiting = true;
            } else {
                let lasting = connection.phase == ConnectionPhase::Open;
                let speaks = lasting && !connection.blocked;
                self.io.counters.impatient += u64::from(lasting);
                if speaks {
                    self.io.close(id, reason);
                } else {
                    self.io.remove(id, reason);
                }
            }
        }
        if waiting {
            self.io.watch();
        }
    }
}
