//! Measures how long commits have been Pending. A commit that stays Pending keeps reads of its
//! tables on the primary.

use std::sync::{LazyLock, Mutex, Weak};
use std::time::{Duration, Instant};

use log::Level;

use proxy_core::freshness::FreshnessManager;
use replication::events::EventLog;
use replication::locked;

/// How often the oldest is looked at.
const INTERVAL: Duration = Duration::from_secs(1);
/// An older one is logged.
const AGE_MAX: Duration = Duration::from_secs(10);

/// The event's name in the log.
const EVENT: &str = "pending";

/// Returns the time since this process first called the function. It is the clock for
/// [`FreshnessManager::oldest_pending`].
pub(crate) fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed()
}

/// Logs a warning about commits that are Pending for long, until the manager is dropped.
pub(super) async fn watch(manager: Weak<Mutex<FreshnessManager>>) {
    let events = EventLog::default();
    let mut is_late = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(manager) = manager.upgrade() else {
            return;
        };
        let oldest = locked(&manager).oldest_pending(now());
        if let Some(warning) = warning(oldest, &mut is_late) {
            let (level, text) = warning;
            events.report(level, EVENT, None, text);
        }
    }
}

/// Returns the event to log, where the oldest has this age. `was_late` is whether the last one was
/// logged as late.
fn warning(oldest: Option<Duration>, was_late: &mut bool) -> Option<(Level, &'static str)> {
    let is_late = oldest.is_some_and(|age| age > AGE_MAX);
    if std::mem::replace(was_late, is_late) == is_late {
        return None;
    }
    Some(match is_late {
        true => (
            Level::Warn,
            "a commit is Pending for more than 10 s: reads of its tables go to the primary until it has ended. \
             SHOW PROXY has its age, SHOW CLIENTS the sessions that are on the primary",
        ),
        false => (Level::Info, "no commit is Pending for long any more"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_once_for_as_long_as_it_lasts() {
        let mut is_late = false;
        let mut levels = Vec::new();
        for seconds in [None, Some(3), Some(11), Some(12), Some(5), None, Some(60)] {
            let warning = warning(seconds.map(Duration::from_secs), &mut is_late);
            levels.push(warning.map(|(level, _)| level));
        }
        let (warn, info) = (Some(Level::Warn), Some(Level::Info));
        assert_eq!(levels, [None, None, warn, None, info, None, warn]);
    }
}
