//! The Extensions there are: they come and go while the proxy runs.
//!
//! Invariant: a number is never given twice, so that what is said of an Extension that went is never
//! said of another.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::address::Address;
use crate::manager::ExtensionId;
use crate::pool::Node;
use crate::replication::{Contents, Error, Replication};

/// See the module.
pub struct Extensions {
    replication: Replication,
    connections_max: usize,
    nodes: Mutex<Nodes>,
}

#[derive(Default)]
struct Nodes {
    last: u32,
    all: BTreeMap<ExtensionId, Arc<Node>>,
}

impl Nodes {
    /// Which of them is this database.
    fn at(&self, address: &Address) -> Option<ExtensionId> {
        let mut all = self.all.iter();
        let found = all.find(|(_, node)| node.address.place() == address.place());
        found.map(|(id, _)| *id)
    }
}

impl Extensions {
    /// None so far. Each will have so many connections for sessions, at most.
    pub fn new(replication: Replication, connections_max: usize) -> Extensions {
        Extensions {
            replication,
            connections_max,
            nodes: Mutex::default(),
        }
    }

    /// Takes one up; it is filled and follows in the background, and serves when it has everything.
    /// What becomes of it is said by [`Replication::status`].
    pub fn add(&self, address: &Address, contents: Contents) -> Result<ExtensionId, Error> {
        let mut nodes = self.nodes();
        if let Some(id) = nodes.at(address) {
            return Err(Error::Setup(format!(
                "{address}/{} is Extension {} already: remove that first",
                address.database, id.0
            )));
        }
        let id = ExtensionId(nodes.last + 1);
        self.replication.add_extension(id, address, contents);
        nodes.last = id.0;
        let node = Node::new(address.clone(), self.connections_max);
        nodes.all.insert(id, Arc::new(node));
        Ok(id)
    }

    /// Lets one go, whose database stays as it is. Reads that run there end in peace. Returns false if
    /// there is none of this number.
    pub async fn remove(&self, id: ExtensionId) -> bool {
        let removed = self.nodes().all.remove(&id);
        self.replication.remove_extension(id).await;
        removed.is_some()
    }

    /// Removes those that were named before and are no more, and takes up those that are named and not
    /// there. Others, which nobody named, stay. The error says which could not be taken up.
    pub async fn exchange(&self, before: &[Address], after: &[Address]) -> Result<(), String> {
        let stays = |gone: &&Address| after.iter().any(|it| it.place() == gone.place());
        for gone in before.iter().filter(|gone| !stays(gone)) {
            let id = self.nodes().at(gone);
            if let Some(id) = id {
                self.remove(id).await;
            }
        }
        let mut problems = Vec::new();
        for address in after {
            let is_there = self.nodes().at(address).is_some();
            if !is_there && let Err(problem) = self.add(address, Contents::Kept) {
                problems.push(format!("the Extension at {address}: {problem}"));
            }
        }
        match problems[..] {
            [] => Ok(()),
            _ => Err(problems.join("; ")),
        }
    }

    /// One of them.
    pub fn node(&self, id: ExtensionId) -> Option<Arc<Node>> {
        self.nodes().all.get(&id).cloned()
    }

    /// All of them.
    pub fn all(&self) -> BTreeMap<ExtensionId, Arc<Node>> {
        self.nodes().all.clone()
    }

    /// What makes them follow the Primary.
    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        // Nothing between lock and unlock leaves it half changed.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
