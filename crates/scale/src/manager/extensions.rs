//! What each Extension has, whether it serves, and how many reads run there.
//!
//! Invariant: what an Extension has applied never goes back while it is known.

use std::collections::BTreeMap;

use super::items::Tsid;

/// An Extension's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExtensionId(pub u32);

/// Whether an Extension serves reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is being filled, or it is not reached.
    Away,
    /// It serves.
    Serving,
    /// It differs from the Primary; only seeding it again helps.
    Quarantined,
}

/// The life of an Extension's server in which replication speaks to it, by the key of an advisory lock that
/// replication's session holds there. Whoever sees that lock speaks to the same life of that server, which has
/// all that was ever said of it; a server that crashes begins another life, may have lost some of that, and has
/// lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life(pub i64);

/// One Extension.
#[derive(Clone, Copy, Debug)]
pub struct Extension {
    /// Whether it serves.
    pub state: State,
    /// It has every commit up to this one, and none after.
    pub applied: Tsid,
    /// In which life of its server it has that; none while nobody has connected.
    pub life: Option<Life>,
    /// It may show commits before the Primary does: a standby.
    pub shows_early: bool,
    /// Reads that run there.
    pub running: u64,
    /// Reads that were sent there.
    pub served: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Extensions(BTreeMap<ExtensionId, Extension>);

impl Extensions {
    /// A new one, or one that replication has just connected to; away.
    pub fn add(&mut self, id: ExtensionId, applied: Tsid, life: Option<Life>) {
        let extension = Extension {
            state: State::Away,
            applied,
            life,
            shows_early: false,
            running: 0,
            served: 0,
        };
        self.0.insert(id, extension);
    }

    /// Away for good.
    pub fn remove(&mut self, id: ExtensionId) {
        self.0.remove(&id);
    }

    /// Whether it serves.
    pub fn set_state(&mut self, id: ExtensionId, state: State) {
        if let Some(extension) = self.0.get_mut(&id) {
            extension.state = state;
        }
    }

    /// It may show commits before the Primary does.
    pub fn set_shows_early(&mut self, id: ExtensionId) {
        if let Some(extension) = self.0.get_mut(&id) {
            extension.shows_early = true;
        }
    }

    /// Whether it may show commits before the Primary does.
    pub fn shows_early(&self, id: ExtensionId) -> bool {
        self.0.get(&id).is_some_and(|it| it.shows_early)
    }

    /// It has committed everything up to `tsid`.
    pub fn applied(&mut self, id: ExtensionId, tsid: Tsid) {
        if let Some(extension) = self.0.get_mut(&id) {
            assert!(extension.applied <= tsid, "watermarks rise");
            extension.applied = tsid;
        }
    }

    /// Whether it serves, and has `need`.
    pub fn has(&self, id: ExtensionId, need: Tsid) -> bool {
        let mut serving = self.serving();
        serving.any(|(other, extension)| other == id && extension.applied >= need)
    }

    /// A read begins.
    pub fn started(&mut self, id: ExtensionId) {
        if let Some(extension) = self.0.get_mut(&id) {
            extension.running += 1;
            extension.served += 1;
        }
    }

    /// A read ends; it may have begun before the Extension was taken out and added again.
    pub fn ended(&mut self, id: ExtensionId) {
        if let Some(extension) = self.0.get_mut(&id) {
            extension.running = extension.running.saturating_sub(1);
        }
    }

    /// The one that has `need`, and something that is good, and runs the fewest reads, in which life, and what it
    /// has; among equals the one that served least.
    pub fn least_loaded(
        &self,
        need: Tsid,
        is_good: impl Fn(ExtensionId, Tsid) -> bool,
    ) -> Option<(ExtensionId, Life, Tsid)> {
        self.serving()
            .filter(|(id, extension)| extension.applied >= need && is_good(*id, extension.applied))
            .filter_map(|(id, extension)| Some((id, extension, extension.life?)))
            .min_by_key(|(id, extension, _)| (extension.running, extension.served, *id))
            .map(|(id, extension, life)| (id, life, extension.applied))
    }

    /// Reads that run where the fewest do, if one serves.
    pub fn running_least(&self) -> Option<u64> {
        self.serving().map(|(_, extension)| extension.running).min()
    }

    /// What the one has that has most, of those that serve.
    pub fn newest(&self) -> Option<Tsid> {
        self.serving().map(|(_, extension)| extension.applied).max()
    }

    /// What all that serve have.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.serving().map(|(_, extension)| extension.applied).min()
    }

    /// What all have that serve, or are away and have served or followed before.
    pub fn applied_wherever(&self) -> Option<Tsid> {
        let known = self.0.values().filter(|extension| match extension.state {
            State::Serving => true,
            State::Away => extension.life.is_some(),
            State::Quarantined => false,
        });
        known.map(|extension| extension.applied).min()
    }

    /// Each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ExtensionId, &Extension)> {
        self.0.iter().map(|(id, extension)| (*id, extension))
    }

    fn serving(&self) -> impl Iterator<Item = (ExtensionId, &Extension)> {
        let all = self.iter();
        all.filter(|(_, extension)| extension.state == State::Serving)
    }
}
