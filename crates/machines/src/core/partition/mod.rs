//! The state of one partition: its rows with their local entries, the keys that operations hold,
//! and the operations and reads that wait for these.
//!
//! It knows nothing of chains, leases or epochs: the consequences of a change are for the callers.

pub(crate) mod entries;
pub(crate) mod locks;
pub(crate) mod queue;
pub(crate) mod ranges;
pub(crate) mod recent;
pub(crate) mod rows;
pub(crate) mod tenures;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Index;

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, OperationId, PartitionId, TableId};

use crate::core::table::TableInfo;
use crate::core::view::ClusterView;

use entries::EntryOrders;
use locks::Locks;
use queue::QueuedRequest;
use ranges::{Hold, WaitingRead};
use recent::RecentChanges;

/// One partition of this core.
#[derive(Debug)]
pub(crate) struct Partition {
    pub id: PartitionId,
    pub table: Arc<TableInfo>,
    /// Keys of unsettled operations (R7, R10).
    pub locks: Locks,
    /// The orders in which its rows have local entries.
    pub orders: EntryOrders,
    /// Lookups that wait for decisions (R10).
    pub reads: Vec<WaitingRead>,
    /// Ranges that statements have read, and hold until they have read their others.
    pub holds: Vec<Hold>,
    /// Recent changes, for reads that must agree with others.
    pub recent: RecentChanges,
    /// Operations that came after a waiting lookup or a hold of what they touch. They hold no key.
    pub behind_reads: VecDeque<OperationId>,
    /// Of a primary partition: requests by pk, in order of arrival (R6). No queue is empty.
    pub queues: BTreeMap<Vec<u8>, VecDeque<QueuedRequest>>,
}

impl Partition {
    /// Returns one that nothing has happened to yet.
    pub fn new(id: PartitionId, table: &Arc<TableInfo>) -> Partition {
        Partition {
            id,
            table: Arc::clone(table),
            locks: Locks::default(),
            orders: EntryOrders::default(),
            reads: Vec::new(),
            holds: Vec::new(),
            recent: RecentChanges::default(),
            behind_reads: VecDeque::new(),
            queues: BTreeMap::new(),
        }
    }

    /// Begins again: keys of operations that are gone are free, and requests that came before are
    /// sent again, for they may have ended elsewhere meanwhile.
    pub fn begin_again(&mut self) {
        self.locks = Locks::default();
        self.behind_reads.clear();
        self.queues.clear();
    }
}

/// The partitions of one core. Each is in one of the two maps, never in both.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Partitions that take part in chains here.
    held: BTreeMap<PartitionId, Partition>,
    /// Partitions that this core takes or has given to another: they take part in no chain here.
    others: BTreeMap<PartitionId, Partition>,
}

impl Partitions {
    /// Follows a new configuration, in which these tables differ from the one before. While the log
    /// is read, a partition that this core has given to another is still held: the log has
    /// operations of it.
    pub fn follow(
        &mut self,
        view: &ClusterView,
        changed: &BTreeSet<TableId>,
        (own, is_replaying): (CoreId, bool),
    ) {
        let is_changed = |id: &PartitionId, _: &mut Partition| changed.contains(&id.table);
        let mut known: BTreeMap<_, _> = self.held.extract_if(.., is_changed).collect();
        self.others.retain(|id, _| !changed.contains(&id.table));
        for (id, place) in view.configuration().places_of(changed) {
            if place.tenures().all(|tenure| tenure.core != own) {
                continue;
            }
            let table = view.table(id.table).expect("a place is one of a table");
            let gave = is_replaying && place.giver() == Some(own);
            if place.core == own || gave {
                let partition = known.remove(&id);
                let mut partition = partition.unwrap_or_else(|| Partition::new(id, table));
                partition.table = Arc::clone(table);
                self.held.insert(id, partition);
            } else {
                self.others.insert(id, Partition::new(id, table));
            }
        }
    }

    /// Ends the replay: partitions that this core has given to others take part in chains no
    /// longer. Returns the partitions that this concerns.
    pub fn end_replay(&mut self, view: &ClusterView, own: CoreId) -> Vec<PartitionId> {
        let is_own = |id| view.place(id).is_some_and(|place| place.core == own);
        let given = self.held.extract_if(.., |id, _| !is_own(*id));
        let given: Vec<_> = given.collect();
        let ids = given.iter().map(|(id, _)| *id).collect();
        self.others.extend(given);
        ids
    }

    /// Returns a partition that is held.
    pub fn get(&self, id: &PartitionId) -> Option<&Partition> {
        self.held.get(id)
    }

    /// Returns a partition that is held.
    pub fn get_mut(&mut self, id: &PartitionId) -> Option<&mut Partition> {
        self.held.get_mut(id)
    }

    /// Returns a partition of which this core has rows, whether it holds it, takes it or has given
    /// it to another.
    pub fn with_rows(&self, id: PartitionId) -> Option<&Partition> {
        self.held.get(&id).or_else(|| self.others.get(&id))
    }

    /// Returns the same as [`Partitions::with_rows`], to be changed.
    pub fn with_rows_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        let held = self.held.get_mut(&id);
        held.or_else(|| self.others.get_mut(&id))
    }

    /// Returns all of which this core has rows: first those that are held.
    pub fn all_with_rows(&self) -> impl Iterator<Item = &Partition> {
        self.held.values().chain(self.others.values())
    }

    /// Returns the same as [`Partitions::all_with_rows`], to be changed.
    pub fn all_with_rows_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.held.values_mut().chain(self.others.values_mut())
    }

    /// Returns the pks for which requests wait, by partition.
    pub fn queued_pks(&self) -> Vec<(PartitionId, Vec<u8>)> {
        let partitions = self.held.values();
        let queued = partitions.flat_map(|partition| {
            let pks = partition.queues.keys();
            pks.map(|pk| (partition.id, pk.clone()))
        });
        queued.collect()
    }

    /// Drops a partition's rows. Rows that come from now on have entries in all orders.
    pub fn drop_rows<T: Tables>(
        &mut self,
        id: PartitionId,
        tables: &mut T,
    ) -> Result<(), TablesError> {
        entries::drop_rows(id, tables)?;
        if let Some(partition) = self.with_rows_mut(id) {
            partition.begin_entries(tables);
        }
        Ok(())
    }

    /// Returns whether a partition is held.
    pub fn contains_key(&self, id: &PartitionId) -> bool {
        self.held.contains_key(id)
    }

    /// Returns how many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns those that are held, in order.
    pub fn keys(&self) -> impl Iterator<Item = &PartitionId> {
        self.held.keys()
    }

    /// Returns those that are held, in order.
    pub fn values(&self) -> impl Iterator<Item = &Partition> {
        self.held.values()
    }

    /// Returns those that are held, in order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Partition> {
        self.held.values_mut()
    }
}

impl Index<&PartitionId> for Partitions {
    type Output = Partition;

    fn index(&self, id: &PartitionId) -> &Partition {
        self.get(id).expect("callers know it to be held")
    }
}
