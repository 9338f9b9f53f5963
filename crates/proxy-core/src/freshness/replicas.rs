//! Tracks the commits that each replica has, whether it serves, and the number of reads that run
//! there.
//!
//! Invariant: the position of a replica never goes back until replication connects to it again.

use alloc::collections::BTreeMap;

use super::items::Tsid;

/// A replica's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaId(pub u32);

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// It is offline, or is being filled.
    Unavailable,
    /// It serves reads.
    Serving,
    /// It differs from the primary and must be refilled.
    Quarantined,
}

/// One life of a replica's server, from its start to its end. It is identified by the key of an
/// advisory lock that replication holds there. A connection that sees this lock reaches the same
/// life, which has every commit that was reported for it. After a crash another life begins: the
/// lock is gone, and commits may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLife(pub i64);

/// One replica.
#[derive(Clone, Copy, Debug)]
pub struct Replica {
    /// The replica's state.
    pub state: ReplicaState,
    /// The TSID up to which the replica has every commit, as last reported.
    pub applied: Tsid,
    /// The life of the replica's server in which this was reported; none before replication has
    /// connected.
    pub life: Option<ServerLife>,
    /// Whether the replica may show commits before the primary does, as a standby may.
    pub shows_early: bool,
    /// The number of reads that run at the replica.
    pub running: u64,
    /// The number of reads that were sent to the replica.
    pub served: u64,
}

/// All replicas, by number.
#[derive(Debug, Default)]
pub struct ReplicaMap(BTreeMap<ReplicaId, Replica>);

impl ReplicaMap {
    /// Adds a replica, also when replication has just connected to it again. It is unavailable.
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

    /// Removes a replica.
    pub fn remove(&mut self, id: ReplicaId) {
        self.0.remove(&id);
    }

    /// Sets the state of a replica.
    pub fn set_state(&mut self, id: ReplicaId, state: ReplicaState) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.state = state;
        }
    }

    /// Records that a replica may show commits before the primary does.
    pub fn set_shows_early(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.shows_early = true;
        }
    }

    /// Returns whether a replica may show commits before the primary does.
    pub fn shows_early(&self, id: ReplicaId) -> bool {
        self.0.get(&id).is_some_and(|it| it.shows_early)
    }

    /// Records that a replica has every commit up to `tsid`.
    pub fn applied(&mut self, id: ReplicaId, tsid: Tsid) {
        if let Some(replica) = self.0.get_mut(&id) {
            assert!(replica.applied <= tsid, "watermarks rise");
            replica.applied = tsid;
        }
    }

    /// Returns whether a replica serves and has every commit up to `need`.
    pub fn has(&self, id: ReplicaId, need: Tsid) -> bool {
        let mut serving = self.serving();
        serving.any(|(other, replica)| other == id && replica.applied >= need)
    }

    /// Records that a read begins.
    pub fn started(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running += 1;
            replica.served += 1;
        }
    }

    /// Records that a read ends. The replica may have been removed and added again since the read
    /// began.
    pub fn ended(&mut self, id: ReplicaId) {
        if let Some(replica) = self.0.get_mut(&id) {
            replica.running = replica.running.saturating_sub(1);
        }
    }

    /// Returns the serving replica with the fewest running reads that has `need` and fulfils
    /// `is_good`, with its life and its TSID. If several replicas have equally few, it returns the
    /// replica that has served the fewest reads.
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

    /// Returns the smallest number of running reads of a serving replica; none if no replica
    /// serves.
    pub fn running_least(&self) -> Option<u64> {
        self.serving().map(|(_, replica)| replica.running).min()
    }

    /// Returns the TSID of the most advanced serving replica.
    pub fn newest(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).max()
    }

    /// Returns the TSID that all serving replicas have.
    pub fn applied_everywhere(&self) -> Option<Tsid> {
        self.serving().map(|(_, replica)| replica.applied).min()
    }

    /// Returns the TSID that all replicas have that serve, or are unavailable and have served or
    /// followed before.
    pub fn applied_wherever(&self) -> Option<Tsid> {
        let known = self.0.values().filter(|replica| match replica.state {
            ReplicaState::Serving => true,
            ReplicaState::Unavailable => replica.life.is_some(),
            ReplicaState::Quarantined => false,
        });
        known.map(|replica| replica.applied).min()
    }

    /// Returns each replica with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        self.0.iter().map(|(id, replica)| (*id, replica))
    }

    fn serving(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        let all = self.iter();
        all.filter(|(_, replica)| replica.state == ReplicaState::Serving)
    }
}
