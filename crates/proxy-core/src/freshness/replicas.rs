//! What each replica has, whether it serves, and how many reads run there.
//!
//! Invariant: what a replica has applied never goes back while it is known.

use alloc::collections::BTreeMap;

use super::items::Tsid;

/// A replica's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u32);

/// Whether a replica serves reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It is being filled, or it is not reached.
    Unavailable,
    /// It serves.
    Serving,
    /// It differs from the primary; only seeding it again helps.
    Quarantined,
}

/// The life of a replica's server in which replication speaks to it, by the key of an advisory lock
/// that replication's session holds there. Whoever sees that lock speaks to the same life of that
/// server, which has all that was ever said of it; a server that crashes begins another life, may
/// have lost some of that, and has lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLife(pub i64);

/// One replica.
#[derive(Clone, Copy, Debug)]
pub struct Replica {
    /// Whether it serves.
    pub state: ReplicaState,
    /// It has every commit up to this one, and none after.
    pub applied: Tsid,
    /// In which life of its server it has that; none while nobody has connected.
    pub life: Option<ServerLife>,
    /// It may show commits before the primary does: a standby.
    pub shows_early: bool,
    /// Reads that run there.
    pub running: u64,
    /// Reads that were sent there.
    pub served: u64,
}

/// All of them.
#[derive(Debug, Default)]
pub struct ReplicaMap(BTreeMap<ReplicaId, Replica>);

impl ReplicaMap {
    /// A new one, or one that replication has just connected to; away.
    pub fn add(&mut self, id: ReplicaId, applied: Tsid, life: Option<ServerLife>) {
        let replica = Replica {
            state: ReplicaState::Unavailable,
            applied,
            life,
            shows_early: false,
            running: 0,
            served: 0,
        };
        self.0.insert(id, replica);
    }

    /// Away for good.
    pub fn remove(&mut self, id: ReplicaId) {
        self.0.remove(&id);
    }

    /// Whether it serves.
    pub fn set_state(&mut self, id: ReplicaId, state: ReplicaState) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.state = state;
        }
    }

    /// It may show commits before the primary does.
    pub fn set_shows_early(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.shows_early = true;
        }
    }

    /// Whether it may show commits before the primary does.
    pub fn shows_early(&self, id: ReplicaId) -> bool {
        self.0.get(&id).is_some_and(|it| it.shows_early)
    }

    /// It has committed everything up to `tsid`.
    pub fn applied(&mut self, id: ReplicaId, tsid: Tsid) {
        if let Some(replica) = self.0.get_mut(&id) {
            assert!(replica.applied <= tsid, "watermarks rise");
            replica.applied = tsid;
        }
    }

    /// Whether it serves, and has `need`.
    pub fn has(&self, id: ReplicaId, need: Tsid) -> bool {
        let mut serving = self.serving();
        serving.any(|(other, replica)| other == id && replica.applied >= need)
    }

    /// A read begins.
    pub fn started(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running += 1;
            replica.served += 1;
        }
    }

    /// A read ends; it may have begun before the replica was taken out and added again.
    pub fn ended(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running = replica.running.saturating_sub(1);
        }
    }

    /// The one that has `need`, and something that is good, and runs the fewest reads, in which
    /// life, and what it has; among equals the one that served least.
    pub fn least_loaded(
        &self,
        need: Tsid,
        is_good: impl Fn(ReplicaId, Tsid) -> bool,
    ) -> Option<(ReplicaId, ServerLife, Tsid)> {
        self.serving()
            .filter(|(id, replica)| replica.applied >= need && is_good(*id, replica.applied))
            .filter_map(|(id, replica)| Some((id, replica, replica.life?)))
            .min_by_key(|(id, replica, _)| (replica.running, replica.served, *id))
            .map(|(id, replica, life)| (id, life, replica.applied))
    }

    /// Reads that run where the fewest do, if one serves.
    pub fn running_least(&self) -> Option<u64> {
        self.serving().map(|(_, replica)| replica.running).min()
    }

    /// What the one has that has most, of those that serve.
    pub fn newest(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).max()
    }

    /// What all that serve have.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).min()
    }

    /// What all have that serve, or are away and have served or followed before.
    pub fn applied_wherever(&self) -> Option<Tsid> {
        let known = self.0.values().filter(|replica| match replica.state {
            ReplicaState::Serving => true,
            ReplicaState::Unavailable => replica.life.is_some(),
            ReplicaState::Quarantined => false,
        });
        known.map(|replica| replica.applied).min()
    }

    /// Each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        self.0.iter().map(|(id, replica)| (*id, replica))
    }

    fn serving(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        let all = self.iter();
        all.filter(|(_, replica)| replica.state == ReplicaState::Serving)
    }
}
