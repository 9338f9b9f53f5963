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

/// One Extension.
#[derive(Clone, Copy, Debug)]
pub struct Extension {
    /// Whether it serves.
    pub state: State,
    /// It has every commit up to this one, and none after.
    pub applied: Tsid,
    /// Its own database says that it has everything up to here: what has no effect is not noted there
    /// at once.
    pub noted: Tsid,
    /// Reads that run there.
    pub running: u64,
    /// Reads that were sent there.
    pub served: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct Extensions(BTreeMap<ExtensionId, Extension>);

impl Extensions {
    /// A new one, away.
    pub fn add(&mut self, id: ExtensionId, applied: Tsid) {
        let extension = Extension {
            state: State::Away,
            applied,
            noted: Tsid(0),
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

    /// It has committed everything up to `tsid`, and its own database says so up to `noted`.
    pub fn applied(&mut self, id: ExtensionId, tsid: Tsid, noted: Tsid) {
        assert!(noted <= tsid, "nothing is noted before it is done");
        if let Some(extension) = self.0.get_mut(&id) {
            assert!(extension.applied <= tsid, "watermarks rise");
            extension.applied = tsid;
            extension.noted = noted;
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

    /// The one that has `need` and runs the fewest reads; among equals the one that served least.
    pub fn least_loaded(&self, need: Tsid) -> Option<(ExtensionId, &Extension)> {
        self.serving()
            .filter(|(_, extension)| extension.applied >= need)
            .min_by_key(|(id, extension)| (extension.running, extension.served, *id))
    }

    /// What all that serve have.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.serving().map(|(_, extension)| extension.applied).min()
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
