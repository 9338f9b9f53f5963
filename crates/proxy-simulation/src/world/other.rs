//! A second proxy, which has its own transactions buffer.

use std::collections::BTreeSet;

use super::World;
use crate::buffer::Buffer;
use proxy_core::freshness::ReplicaId;

/// A second proxy that waits to take over, with a transactions buffer of its own.
pub(super) struct Other {
    /// The other proxy's buffer. It follows no commits while that proxy is not active.
    pub buffer: Buffer,
    /// Whether the other proxy stands by, and takes over if the active one dies.
    pub waits: bool,
    /// Replicas that lagged behind the slot when it came: if it takes over, no source has their
    /// missing commits.
    pub helpless: BTreeSet<ReplicaId>,
}

impl Other {
    /// Returns a proxy that is not there yet.
    pub fn new() -> Other {
        Other {
            buffer: Buffer::new(u64::MAX),
            waits: false,
            helpless: BTreeSet::new(),
        }
    }
}

impl World {
    /// Makes the other proxy begin to wait, or end.
    pub(super) fn come_or_go(&mut self) {
        let behind = self.behind();
        let other = self.other.as_mut().expect("there is one");
        other.waits = !other.waits;
        if other.waits {
            other.helpless.extend(behind);
        }
    }

    /// Removes from the helpless the replicas that have by now reached the slot's position.
    pub(super) fn are_less_helpless(&mut self) {
        let behind = self.behind();
        if let Some(other) = &mut self.other {
            other.helpless.retain(|id| behind.contains(id));
        }
    }

    /// Replicas that have less on disk than the slot gives, as far as the proxy knows.
    fn behind(&self) -> BTreeSet<ReplicaId> {
        let has = |id: &ReplicaId| match self.durable.get(id) {
            Some(durable) => *durable,
            None => self.databases[id].on_disk(),
        };
        let ids = self.databases.keys().copied();
        ids.filter(|id| has(id) < self.confirmed).collect()
    }

    /// Decides whether the other proxy, if it waits, is active next, as the active one has died.
    pub(super) fn take_over(&mut self) {
        let Some(other) = self.other.as_mut().filter(|other| other.waits) else {
            return;
        };
        if self.random.one_in(2) {
            let own = self.buffer.as_mut().expect("each has one");
            std::mem::swap(own, &mut other.buffer);
            other.waits = false;
        }
    }

    /// Returns whether a replica may get the error that no source has its missing commits.
    pub(super) fn may_lack(&self, id: ReplicaId) -> bool {
        let other = self.other.as_ref();
        let buffers = self.buffer.iter().chain(other.map(|other| &other.buffer));
        let is_helpless = other.is_some_and(|other| other.helpless.contains(&id));
        is_helpless || buffers.into_iter().any(|buffer| buffer.has_lost)
    }
}
