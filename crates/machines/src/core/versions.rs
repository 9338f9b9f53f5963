//! The clock of a core's versions (R6).

use protocol::identity::{ClockReading, Version};
use protocol::planted::{self, Bug};

/// Assigns versions that rise strictly and are higher than every version that this core has seen.
#[derive(Debug, Default)]
pub(crate) struct VersionClock {
    /// The highest version seen or given. It never falls.
    last: Version,
}

impl VersionClock {
    /// Returns the highest version that was seen or assigned.
    pub fn last(&self) -> Version {
        self.last
    }

    /// Records a version, so that the core assigns only higher versions from now on. Returns false
    /// if the version is not higher than all known ones.
    pub fn see(&mut self, version: Version) -> bool {
        let is_news = self.last < version;
        self.last = self.last.max(version);
        is_news
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
