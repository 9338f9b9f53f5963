//! The commits that each replica has, whether it serves, and how many reads run there.
//!
//! Invariant: the position of a replica never goes back until replication connects to it again.

use alloc::collections::BTreeMap;

use super::items::Tsid;

/// A replica's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u32);

/// Whether a replica serves reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It is being filled, or it is offline.
    Unavailable,
    /// It serves.
    Serving,
    /// It differs from the primary and must be filled again.
    Quarantined,
}

/// The life of a replica's server with which replication has its connection, named by the key of an
/// advisory lock that replication's session holds there. A connection that sees that lock is to the
/// same life of that server, which has everything that was ever reported of it. A server that
/// crashes begins another life: it may have lost some of that, and has lost the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLife(pub i64);

/// One replica.
#[derive(Clone, Copy, Debug)]
pub struct Replica {
    /// Whether it serves.
    pub state: ReplicaState,
    /// It has every commit up to this one, as far as is reported.
    pub applied: Tsid,
    /// The life of its server that has it; none while replication has not connected.
    pub life: Option<ServerLife>,
    /// It may show commits before the primary does: a standby.
    pub shows_early: bool,
    /// Reads that run there.
    pub running: u64,
    /// Reads that were sent there.
    pub served: u64,
}

/// All replicas by their numbers.
#[derive(Debug, Default)]
pub struct ReplicaMap(BTreeMap<ReplicaId, Replica>);

impl ReplicaMap {
    /// Adds a replica that is new, or to which replication has just connected again. It is
    /// unavailable.
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

    /// Removes one for good.
    pub fn remove(&mut self, id: ReplicaId) {
        self.0.remove(&id);
    }

    /// Sets whether it serves.
    pub fn set_state(&mut self, id: ReplicaId, state: ReplicaState) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.state = state;
        }
    }

    /// Notes that it may show commits before the primary does.
    pub fn set_shows_early(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.shows_early = true;
        }
    }

    /// Returns whether it may show commits before the primary does.
    pub fn shows_early(&self, id: ReplicaId) -> bool {
        self.0.get(&id).is_some_and(|it| it.shows_early)
    }

    /// Notes that it has committed everything up to `tsid`.
    pub fn applied(&mut self, id: ReplicaId, tsid: Tsid) {
        if let Some(replica) = self.0.get_mut(&id) {
            assert!(replica.applied <= tsid, "watermarks rise");
            replica.applied = tsid;
        }
    }

    /// Returns whether it serves, and has `need`.
    pub fn has(&self, id: ReplicaId, need: Tsid) -> bool {
        let mut serving = self.serving();
        serving.any(|(other, replica)| other == id && replica.applied >= need)
    }

    /// Notes that a read begins.
    pub fn started(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running += 1;
            replica.served += 1;
        }
    }

    /// Notes that a read ends; it may have begun before the replica was removed and added again.
    pub fn ended(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running = replica.running.saturating_sub(1);
        }
    }

    /// Returns the replica with the fewest running reads among the replicas that have `need` and
    /// fulfil `is_good`, with its life and its position. Among equals it is the replica that has
    /// served least.
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

    /// Returns how many reads run where the fewest do, if one serves.
    pub fn running_least(&self) -> Option<u64> {
        self.serving().map(|(_, replica)| replica.running).min()
    }

    /// Returns the position of the most advanced serving replica.
    pub fn newest(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).max()
    }

    /// Returns the position that all serving replicas have.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).min()
    }

    /// Returns the position that all replicas have that serve, or are unavailable and have served
    /// or followed before.
    pub fn applied_wherever(&self) -> Option<Tsid> {
        let known = self.0.values().filter(|replica| match replica.state {
            ReplicaState::Serving => true,
            ReplicaState::Unavailable => replica.life.is_some(),
            ReplicaState::Quarantined => false,
        });
        known.map(|replica| replica.applied).min()
    }

    /// Returns each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        self.0.iter().map(|(id, replica)| (*id, replica))
    }

    fn serving(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        let all = self.iter();
        all.filter(|(_, replica)| replica.state == ReplicaState::Serving)
    }
}
