//! Manages the replicas of an active proxy. Operators can add and remove them while it runs.
//!
//! The primary's register has the replicas that operators have added. When this proxy or another
//! one becomes active, it follows them again.
//!
//! Invariants:
//! - A number is never used twice while a proxy is active, so that a report of a removed replica
//!   never counts for another one.
//! - The register is changed before this process's own list.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pg_connect::address::Address;
use proxy_core::freshness::ReplicaId;
use proxy_pool::ServerNode;
use replication::leadership::register::{RegisterChange, RegisteredReplica};
use replication::{ExistingData, ReplicaIntake, Replication, ReplicationError};

/// The replicas of an active proxy, with their connections. Operators can add and remove some.
pub struct Replicas {
    replication: Replication,
    connections_max: usize,
    nodes: Mutex<ReplicaNodes>,
    /// The lock that a change of the set of replicas holds while the proxy runs.
    changing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct ReplicaNodes {
    last: u32,
    all: BTreeMap<ReplicaId, Arc<ServerNode>>,
    /// URLs of the replicas that are in the register.
    registered: BTreeMap<ReplicaId, String>,
}

impl ReplicaNodes {
    /// Returns the replica whose database has this address; none if there is no such replica.
    fn at(&self, address: &Address) -> Option<ReplicaId> {
        let mut all = self.all.iter();
        let found = all.find(|(_, node)| node.address.place() == address.place());
        found.map(|(id, _)| *id)
    }

    /// Returns an error if the database at this address is a replica already.
    fn refuse_second(&self, address: &Address) -> Result<(), ReplicationError> {
        match self.at(address) {
            Some(id) => Err(ReplicationError::Setup(format!(
                "{address}/{} is replica {} already: remove that first",
                address.database, id.0
            ))),
            None => Ok(()),
        }
    }
}

impl Replicas {
    /// Creates an empty set. `connections_max` is the most connections for sessions to each
    /// replica.
    pub fn new(replication: Replication, connections_max: usize) -> Replicas {
        Replicas {
            replication,
            connections_max,
            nodes: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Adds a replica. It is filled in the background, and serves once it has everything.
    /// [`Replication::status`] shows its progress. The register is not changed.
    pub fn add(
        &self,
        address: &Address,
        intake: impl Into<ReplicaIntake>,
    ) -> Result<ReplicaId, ReplicationError> {
        let mut nodes = self.nodes();
        nodes.refuse_second(address)?;
        let id = ReplicaId(nodes.last + 1);
        self.replication.add_replica(id, address, intake);
        nodes.last = id.0;
        let node = ServerNode::new(address.clone(), self.connections_max);
        nodes.all.insert(id, Arc::new(node));
        Ok(id)
    }

    /// Adds a replica to the register and to the set. Fails, and adds nothing, if the URL is
    /// invalid, if the database is a replica already, or if the primary does not store the change.
    ///
    /// If it must be filled, it is filled from the replica `seed`; without that, from the primary.
    pub async fn register(
        &self,
        url: &str,
        contents: ExistingData,
        seed: Option<ReplicaId>,
    ) -> Result<ReplicaId, ReplicationError> {
        let address = Address::parse(url).map_err(ReplicationError::Setup)?;
        let _changing = self.changing.lock().await;
        self.nodes().refuse_second(&address)?;
        let seed = seed.map(|id| {
            let node = self.node(id);
            node.ok_or_else(|| {
                ReplicationError::Setup(format!("there is no replica {} to fill it from", id.0))
            })
        });
        let seed = seed.transpose()?.map(|node| node.address.clone());
        let (change, before) = (
            RegisterChange::of(&address, Some(url)),
            RegisterChange::of(&address, None),
        );
        let register = self.replication.register();
        register.write(change, before).await?;
        let id = self.add(&address, ReplicaIntake { contents, seed })?;
        self.nodes().registered.insert(id, url.into());
        Ok(id)
    }

    /// Adds the replicas of the register that are missing. Returns the replicas that could not be
    /// added, with the reasons.
    pub fn take_up(&self, registered: Vec<RegisteredReplica>) -> Vec<String> {
        let mut problems = Vec::new();
        for RegisteredReplica { place, url } in registered {
            let taken_up = Address::parse(&url).and_then(|address| {
                let there = self.nodes().at(&address);
                let added = || self.add(&address, ExistingData::Kept);
                there.map_or_else(added, Ok).map_err(|it| it.to_string())
            });
            match taken_up {
                Ok(id) => drop(self.nodes().registered.insert(id, url)),
                Err(problem) => problems.push(format!("the replica at {place}: {problem}")),
            }
        }
        problems
    }

    /// Removes a replica. Its database stays as it is, and reads that run there may finish. Returns
    /// false if there is no replica with this number. Fails, and keeps the replica, if the primary
    /// cannot remove it from the register.
    pub async fn remove(&self, id: ReplicaId) -> Result<bool, ReplicationError> {
        let _changing = self.changing.lock().await;
        let url = self.nodes().registered.get(&id).cloned();
        if let (Some(url), Some(node)) = (url, self.node(id)) {
            let (change, before) = (
                RegisterChange::of(&node.address, None),
                RegisterChange::of(&node.address, Some(&url)),
            );
            let register = self.replication.register();
            register.write(change, before).await?;
            self.nodes().registered.remove(&id);
        }
        Ok(self.release(id).await)
    }

    async fn release(&self, id: ReplicaId) -> bool {
        let removed = self.nodes().all.remove(&id);
        self.replication.remove_replica(id).await;
        removed.is_some()
    }

    /// Removes the replicas that are in `before` and not in `after`, unless they are in the
    /// register. Adds those in `after` that are missing. Other replicas stay. The error names the
    /// replicas that could not be added.
    pub async fn exchange(&self, before: &[Address], after: &[Address]) -> Result<(), String> {
        let _changing = self.changing.lock().await;
        let stays = |gone: &&Address| after.iter().any(|it| it.place() == gone.place());
        for gone in before.iter().filter(|gone| !stays(gone)) {
            let id = {
                let nodes = self.nodes();
                let id = nodes.at(gone);
                id.filter(|id| !nodes.registered.contains_key(id))
            };
            if let Some(id) = id {
                self.release(id).await;
            }
        }
        let mut problems = Vec::new();
        for address in after {
            let is_there = self.nodes().at(address).is_some();
            if !is_there && let Err(problem) = self.add(address, ExistingData::Kept) {
                problems.push(format!("the replica at {address}: {problem}"));
            }
        }
        match problems[..] {
            [] => Ok(()),
            _ => Err(problems.join("; ")),
        }
    }

    /// Returns a replica's connections.
    pub fn node(&self, id: ReplicaId) -> Option<Arc<ServerNode>> {
        self.nodes().all.get(&id).cloned()
    }

    /// Returns the connections of all replicas.
    pub fn all(&self) -> BTreeMap<ReplicaId, Arc<ServerNode>> {
        self.nodes().all.clone()
    }

    /// Returns the replication that keeps the replicas up to date.
    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    fn nodes(&self) -> MutexGuard<'_, ReplicaNodes> {
        // Nothing between lock and unlock leaves it half changed.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
