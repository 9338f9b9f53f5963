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

    /// Refuses one that is there.
    fn refuse(&self, address: &Address) -> Result<(), Error> {
        let known = |id: ExtensionId| {
            Error::Setup(format!(
                "{address}/{} is Extension {} already: remove that first",
                address.database, id.0
            ))
        };
        self.at(address).map_or(Ok(()), |id| Err(known(id)))
    }
}

/// It could not be written down on the Primary that an Extension comes or goes.
fn unnoted(what: &str, problem: &Error) -> Error {
    Error::Setup(format!(
        "it is not {what}, since that cannot be written down on the Primary: {problem}"
    ))
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
        nodes.refuse(address)?;
        let id = ExtensionId(nodes.last + 1);
        self.replication.add_extension(id, address, contents);
        nodes.last = id.0;
        let node = Node::new(address.clone(), self.connections_max);
        nodes.all.insert(id, Arc::new(node));
        Ok(id)
    }

    /// Takes one up by its URL, and writes that down on the Primary: whichever proxy is active next follows it, too.
    pub async fn add_for_good(&self, url: &str, contents: Contents) -> Result<ExtensionId, Error> {
        let address = Address::parse(url).map_err(Error::Setup)?;
        self.nodes().refuse(&address)?;
        let noted = self.replication.keep(&address, url).await;
        noted.map_err(|problem| unnoted("added", &problem))?;
        self.add(&address, contents)
    }

    /// Lets one go as [`Extensions::remove`], which the next active proxy does not follow, unless it is named to
    /// that.
    pub async fn remove_for_good(&self, id: ExtensionId) -> Result<bool, Error> {
        let Some(node) = self.node(id) else {
            return Ok(false);
        };
        let noted = self.replication.forget(&node.address).await;
        noted.map_err(|problem| unnoted("removed", &problem))?;
        Ok(self.remove(id).await)
    }

    /// Takes up those that are written down on the Primary and not there. Returns what is wrong with those that
    /// cannot be taken up.
    pub async fn add_kept(&self) -> Result<Vec<String>, Error> {
        let mut problems = Vec::new();
        for url in self.replication.kept().await? {
            let added = match Address::parse(&url) {
                Ok(address) if self.nodes().at(&address).is_some() => continue,
                Ok(address) => self.add(&address, Contents::Kept).map(drop),
                Err(problem) => Err(Error::Setup(problem)),
            };
            if let Err(problem) = added {
                problems.push(format!(
                    "an Extension that was added by the console: {problem}"
                ));
            }
        }
        Ok(problems)
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
