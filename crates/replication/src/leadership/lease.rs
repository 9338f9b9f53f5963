//! Determines how long a proxy may assume that it is active, and when a standby concludes that the
//! active proxy is silent.
//!
//! Times are of a clock that cannot be set, and that includes the time for which the machine is
//! suspended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

/// The duration of the lease: a proxy may assume that it is active for this time after it has sent
/// a query that the primary answers.
pub const LEASE: Duration = Duration::from_secs(3);
/// The time after which the lease of another proxy has certainly ended, even if its clock is slower
/// by a tenth.
pub const LEASE_SURELY: Duration = Duration::from_millis(3300);
/// The time without a heartbeat after which an active proxy counts as silent.
pub const SILENCE: Duration = Duration::from_secs(4);
/// The time between two checks of a standby.
pub const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// A time of the system's clock since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// Returns the present time.
    pub fn now() -> BootTime {
        let now = clock_gettime(ClockId::Boottime);
        let whole = u64::try_from(now.tv_sec).unwrap_or(0);
        let rest = u32::try_from(now.tv_nsec).unwrap_or(0);
        BootTime(Duration::new(whole, rest))
    }

    /// Returns the time after a wait.
    #[must_use]
    pub fn after(self, wait: Duration) -> BootTime {
        BootTime(self.0 + wait)
    }

    /// Returns the time since an earlier one.
    pub fn since(self, earlier: BootTime) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    fn nanoseconds(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The proof of a proxy that it is active. All clones share one state.
#[derive(Clone, Debug)]
pub struct Lease(Arc<Proven>);

#[derive(Debug)]
struct Proven {
    /// In nanoseconds.
    until: AtomicU64,
    has_standby: AtomicBool,
    has_ended: AtomicBool,
    ended: watch::Sender<bool>,
}

impl Lease {
    /// Creates a lease that was not proven yet.
    pub(super) fn new() -> Lease {
        Lease(Arc::new(Proven {
            until: AtomicU64::new(0),
            has_standby: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            ended: watch::Sender::new(false),
        }))
    }

    /// Returns whether no other proxy can be active now. An answer of a replica may be relayed only
    /// then (R15).
    pub fn is_valid(&self) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        !self.has_ended() && BootTime::now().nanoseconds() < until
    }

    /// Returns whether the primary has confirmed that no other proxy is active, in answer to a
    /// query that was sent at this time or later.
    pub fn is_proven_since(&self, moment: BootTime) -> bool {
        let until = self.0.until.load(Ordering::Acquire);
        !self.has_ended() && moment.after(LEASE).nanoseconds() <= until
    }

    /// Returns whether another proxy stood by at the last query.
    pub fn has_standby(&self) -> bool {
        self.0.has_standby.load(Ordering::Acquire)
    }

    /// Returns whether the lease has ended for good.
    pub fn has_ended(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Waits until the lease has ended for good.
    pub fn ended(&self) -> impl Future<Output = ()> + Send + Sync + use<> {
        let mut ended = self.0.ended.subscribe();
        // Keeps the sender, so that this does not end otherwise.
        let lease = self.clone();
        async move {
            let waited = ended.wait_for(|ended| *ended).await;
            waited.expect("the sender is kept");
            drop(lease);
        }
    }

    /// Records whether another proxy stands by.
    pub(super) fn sees_standby(&self, has_standby: bool) {
        self.0.has_standby.store(has_standby, Ordering::Release);
    }

    /// Records the primary's confirmation that the proxy is active, with the time of the question.
    pub(super) fn prove(&self, asked: BootTime) {
        let until = asked.after(LEASE).nanoseconds();
        self.0.until.fetch_max(until, Ordering::AcqRel);
    }

    /// Ends the lease for good.
    pub(crate) fn end(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.0.ended.send_replace(true);
    }
}

/// A heartbeat of the active proxy: its epoch, and a number that rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderHeartbeat {
    /// The epoch of the leader.
    pub epoch: u64,
    /// The number of heartbeats of the active proxy so far.
    pub number: u64,
}

/// The active proxy, as a standby sees it.
#[derive(Debug, Default)]
pub struct ObservedLeader {
    beat: Option<LeaderHeartbeat>,
    /// When that was seen first.
    first_seen: Option<BootTime>,
    looked: Option<BootTime>,
    silent: Duration,
}

impl ObservedLeader {
    /// Records an answer of the primary with the last heartbeat. If the heartbeat is the same as
    /// before, the active proxy was silent since the previous check. A long time between two checks
    /// counts as two check intervals at most, because the primary may have answered late.
    pub fn note(&mut self, beat: Option<LeaderHeartbeat>, now: BootTime) {
        let gap = self
            .looked
            .map_or(Duration::ZERO, |looked| now.since(looked));
        self.looked = Some(now);
        if self.first_seen.is_some() && self.beat == beat {
            self.silent += gap.min(2 * LOOK_INTERVAL);
            return;
        }
        self.beat = beat;
        self.first_seen = Some(now);
        self.silent = Duration::ZERO;
    }

    /// Returns whether the active proxy has sent no heartbeat for too long.
    pub fn is_silent(&self) -> bool {
        self.silent >= SILENCE
    }

    /// Returns the time at which the lease of the previous proxy has certainly ended. That proxy
    /// has lost its lock, and `last` is its last heartbeat.
    ///
    /// The previous proxy sent its query before the primary stored a heartbeat, and so before this
    /// proxy saw the heartbeat.
    pub fn run_out(&self, last: Option<LeaderHeartbeat>, now: BootTime) -> BootTime {
        let seen = self
            .first_seen
            .filter(|_| last.is_some() && self.beat == last);
        seen.unwrap_or(now).after(LEASE_SURELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(number: u64) -> Option<LeaderHeartbeat> {
        Some(LeaderHeartbeat { epoch: 7, number })
    }

    #[test]
    fn lease_counts_from_the_question() {
        let lease = Lease::new();
        assert!(!lease.is_valid());
        let now = BootTime::now();
        lease.prove(BootTime(now.0.saturating_sub(LEASE)));
        assert!(!lease.is_valid());
        lease.prove(now);
        assert!(lease.is_valid());
        // An older answer takes nothing back.
        lease.prove(BootTime(Duration::ZERO));
        assert!(lease.is_valid());
    }

    #[test]
    fn lease_is_proven_since_the_question() {
        let (lease, before) = (Lease::new(), BootTime::now());
        assert!(!lease.is_proven_since(before));
        let asked = before.after(Duration::from_nanos(1));
        lease.prove(asked);
        assert!(lease.is_proven_since(before) && lease.is_proven_since(asked));
        assert!(!lease.is_proven_since(asked.after(Duration::from_nanos(1))));
        lease.end();
        assert!(!lease.is_proven_since(before));
    }

    #[tokio::test]
    async fn lease_that_has_ended_stays_so() {
        let lease = Lease::new();
        let ended = lease.ended();
        lease.end();
        lease.prove(BootTime::now());
        assert!(!lease.is_valid());
        ended.await;
        lease.ended().await;
    }

    #[test]
    fn silence_is_of_the_proxy_and_not_of_the_primary() {
        let start = BootTime(Duration::from_secs(100));
        let mut watched = ObservedLeader::default();
        watched.note(beat(1), start);
        // The primary did not answer for a minute.
        watched.note(beat(1), start.after(Duration::from_mins(1)));
        assert!(!watched.is_silent());
        let mut now = start.after(Duration::from_mins(1));
        let mut looks = 0;
        while !watched.is_silent() {
            now = now.after(LOOK_INTERVAL);
            watched.note(beat(1), now);
            looks += 1;
            assert!(looks <= 16, "four seconds are sixteen looks");
        }
        assert!(looks >= 14, "{looks}");
        watched.note(beat(2), now);
        assert!(!watched.is_silent());
    }

    #[test]
    fn lease_of_another_is_waited_for_from_its_last_beat() {
        let start = BootTime(Duration::from_secs(100));
        let later = start.after(Duration::from_secs(2));
        let mut watched = ObservedLeader::default();
        // Never seen: it may have asked just now.
        assert_eq!(watched.run_out(beat(1), start), start.after(LEASE_SURELY));
        watched.note(beat(1), start);
        watched.note(beat(1), later);
        assert_eq!(watched.run_out(beat(1), later), start.after(LEASE_SURELY));
        // Another one than was seen, or none any more: it may be from just now.
        for last in [beat(2), None] {
            assert_eq!(watched.run_out(last, later), later.after(LEASE_SURELY));
        }
        let mut nothing = ObservedLeader::default();
        nothing.note(None, start);
        assert_eq!(nothing.run_out(None, later), later.after(LEASE_SURELY));
    }
}
