//! The clock of a core's versions (R6).

use protocol::identity::{ClockReading, Version};
use protocol::planted::{self, Bug};

/// Assigns versions that rise strictly and are higher than every version that this core has seen.
#[derive(Debug, Default)]
pub(crate) struct VersionClock {
    /// The highest version seen or given. It never falls.
    last: Version,
    /// The highest version in the log. The core knows it after a restart, too.
    logged: Version,
}

impl VersionClock {
    /// Returns the highest version that was seen or assigned.
    pub fn last(&self) -> Version {
        self.last
    }

    /// Records a version, so that the core assigns only higher versions until it restarts.
    pub fn see(&mut self, version: Version) {
        self.last = self.last.max(version);
    }

    /// Records a version that is in the log, or in a record that the caller appends, so that the
    /// core assigns only higher versions from now on.
    pub fn log(&mut self, version: Version) {
        self.see(version);
        self.logged = self.logged.max(version);
    }

    /// Returns whether the log has this version or a higher one. That the core has seen it, in the
    /// opening of a snapshot, is not enough: a restart forgets that.
    pub fn is_logged(&self, version: Version) -> bool {
        match planted::is(Bug::SeenCountsAsLogged) {
            true => version <= self.last,
            false => version <= self.logged,
        }
    }

    /// Returns the next version.
    pub fn next(&mut self, now: ClockReading) -> Version {
        self.last = self.last.next(now.wall_us);
        if planted::is(Bug::VersionFromClock) {
            self.last = Version(now.wall_us << 12);
        }
        self.last
    }
}
