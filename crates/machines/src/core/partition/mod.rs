//! The state of one partition: its rows with their local entries, the keys that operations hold,
//! and the operations and reads that wait for these.
//!
//! It knows nothing of chains, leases or epochs. The callers handle the consequences of a change.

pub(crate) mod entries;
pub(crate) mod locks;
pub(crate) mod peers;
pub(crate) mod queue;
pub(crate) mod ranges;
pub(crate) mod recent;
pub(crate) mod rows;
pub(crate) mod tenures;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Index, RangeInclusive};

use placement::tables::{Tables, TablesError};
use protocol::identity::{CoreId, OperationId, PartitionId, TableId};

use crate::core::table::TableInfo;
use crate::core::view::ClusterView;

use entries::EntryOrders;
use locks::Locks;
use peers::PeerCounts;
use queue::Queued;
use ranges::{Hold, WaitingRead};
use recent::RecentChanges;

/// One partition of this core.
#[derive(Debug)]
pub(crate) struct Partition {
    pub id: PartitionId,
    pub table: Arc<TableInfo>,
    /// The keys that unsettled operations hold (R7, R10).
    pub locks: Locks,
    /// The orders in which the partition's rows have local entries.
    pub orders: EntryOrders,
    /// Reads that wait for decisions (R10).
    pub reads: Vec<WaitingRead>,
    /// Ranges that statements have read and hold.
    pub holds: Vec<Hold>,
    /// Recent changes, for reads that must agree with other reads.
    pub recent: RecentChanges,
    /// Operations that wait for an earlier read or hold of the same keys. They hold no key.
    pub behind_reads: VecDeque<OperationId>,
    /// Only for primary partitions: waiting requests and walks by pk, in order of arrival (R6). No
    /// queue is empty.
    pub queues: BTreeMap<Vec<u8>, VecDeque<Queued>>,
}

impl Partition {
    /// Returns a partition without operations and reads.
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

    /// Returns whether this is a partition of a thin index.
    pub fn is_thin(&self) -> bool {
        self.table.is_thin(self.id)
    }

    /// Returns whether requests, reads or holds wait in this partition.
    fn is_waited_in(&self) -> bool {
        !self.queues.is_empty() || !self.reads.is_empty() || !self.holds.is_empty()
    }

    /// Starts again after an epoch's end. Frees the keys of dropped operations, and drops waiting
    /// requests: clients send them again, because they may have ended at another core meanwhile.
    pub fn begin_again(&mut self) {
        self.locks = Locks::default();
        self.behind_reads.clear();
        self.queues.clear();
    }
}

/// The partitions of one core. Each is in exactly one of two maps.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Partitions that take part in chains here.
    held: BTreeMap<PartitionId, Partition>,
    /// Partitions that this core takes or has given to another: they take part in no chain here.
    others: BTreeMap<PartitionId, Partition>,
    /// The held partitions in which requests, reads or holds may wait. Partitions that have none
    /// any more are removed when the set is searched.
    waited_in: BTreeSet<PartitionId>,
    /// The cores that hold partitions of the tables of `held`.
    peers: PeerCounts,
}

/// Returns the numbers that partitions of a table can have.
fn range_of(table: TableId) -> RangeInclusive<PartitionId> {
    let bound = |replex, number| PartitionId {
        table,
        replex,
        number,
    };
    bound(0, 0)..=bound(u8::MAX, u32::MAX)
}

impl Partitions {
    /// Adopts a new configuration, in which these tables differ from the earlier one. While the
    /// core replays its log, a partition that it has handed over to another core still counts as
    /// held, because the log contains operations on it.
    pub fn follow(
        &mut self,
        view: &ClusterView,
        changed: &BTreeSet<TableId>,
        (own, is_replaying): (CoreId, bool),
    ) {
        let mut known = BTreeMap::new();
        for table in changed {
            known.extend(self.held.extract_if(range_of(*table), |_, _| true));
            self.others
                .extract_if(range_of(*table), |_, _| true)
                .for_each(drop);
        }
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
        for table in changed {
            self.count_peers(*table);
        }
    }

    /// Counts the peers of a table, whose configuration or held partitions have changed.
    fn count_peers(&mut self, table: TableId) {
        let first = self.held.range(range_of(table)).next();
        let info = first.map(|(_, partition)| Arc::clone(&partition.table));
        self.peers.count(table, info);
    }

    /// Returns the cores that hold partitions of a table, if this core holds one, too. The result
    /// includes this core.
    pub fn holders_of_same_tables(&self) -> impl Iterator<Item = CoreId> {
        self.peers.cores()
    }

    /// Ends the replay: partitions that this core has given to others take part in chains no
    /// longer. Returns these partitions.
    pub fn end_replay(&mut self, view: &ClusterView, own: CoreId) -> Vec<PartitionId> {
        let is_own = |id| view.place(id).is_some_and(|place| place.core == own);
        let given = self.held.extract_if(.., |id, _| !is_own(*id));
        let given: Vec<_> = given.collect();
        let ids: Vec<PartitionId> = given.iter().map(|(id, _)| *id).collect();
        self.others.extend(given);
        let tables: BTreeSet<TableId> = ids.iter().map(|id| id.table).collect();
        for table in tables {
            self.count_peers(table);
        }
        ids
    }

    /// Returns a held partition.
    pub fn get(&self, id: &PartitionId) -> Option<&Partition> {
        self.held.get(id)
    }

    /// Returns a held partition for changes.
    pub fn get_mut(&mut self, id: &PartitionId) -> Option<&mut Partition> {
        self.held.get_mut(id)
    }

    /// Returns a partition of which this core has rows, whether it holds, receives or has given it.
    pub fn with_rows(&self, id: PartitionId) -> Option<&Partition> {
        self.held.get(&id).or_else(|| self.others.get(&id))
    }

    /// Returns the partition that [`Partitions::with_rows`] returns, as a mutable reference.
    pub fn with_rows_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        let held = self.held.get_mut(&id);
        held.or_else(|| self.others.get_mut(&id))
    }

    /// Returns all partitions of which this core has rows: first the held ones.
    pub fn all_with_rows(&self) -> impl Iterator<Item = &Partition> {
        self.held.values().chain(self.others.values())
    }

    /// Returns all partitions of these tables whose rows this core has.
    pub fn with_rows_of(&self, tables: &BTreeSet<TableId>) -> Vec<PartitionId> {
        let others = tables
            .iter()
            .flat_map(|table| self.others.range(range_of(*table)));
        let others = others.map(|(id, _)| id);
        self.keys_of(tables).chain(others).copied().collect()
    }

    /// Returns the pks for which requests wait, by partition.
    pub fn queued_pks(&self) -> Vec<(PartitionId, Vec<u8>)> {
        let queued = self.waited_in().flat_map(|partition| {
            let pks = partition.queues.keys();
            pks.map(|pk| (partition.id, pk.clone()))
        });
        queued.collect()
    }

    /// Drops a partition's rows. Rows that are added from now on get entries in all orders.
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

    /// Records that a request, a read or a hold waits in a partition.
    pub fn note_waiting(&mut self, id: PartitionId) {
        self.waited_in.insert(id);
    }

    /// Returns the held partitions in which something may wait, ascending.
    pub fn waited_in(&self) -> impl Iterator<Item = &Partition> {
        let waited_in = self.waited_in.iter();
        waited_in.filter_map(|id| self.held.get(id))
    }

    /// Returns the held partitions in which something waits, ascending.
    pub fn waited_in_ids(&mut self) -> Vec<PartitionId> {
        let held = &self.held;
        let waits = |id: &PartitionId| held.get(id).is_some_and(Partition::is_waited_in);
        self.waited_in.retain(waits);
        self.waited_in.iter().copied().collect()
    }

    /// Returns whether this core holds partitions of a table.
    pub fn holds_of(&self, table: TableId) -> bool {
        self.held.range(range_of(table)).next().is_some()
    }

    /// Returns the held partitions of these tables, ascending.
    pub fn keys_of(&self, tables: &BTreeSet<TableId>) -> impl Iterator<Item = &PartitionId> {
        let tables = tables.iter();
        tables.flat_map(|table| self.held.range(range_of(*table)).map(|(id, _)| id))
    }

    /// Returns whether the core holds a partition.
    pub fn contains_key(&self, id: &PartitionId) -> bool {
        self.held.contains_key(id)
    }

    /// Returns the number of held partitions.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Returns the ids of the held partitions, ascending.
    pub fn keys(&self) -> impl Iterator<Item = &PartitionId> {
        self.held.keys()
    }

    /// Returns the held partitions, ascending.
    pub fn values(&self) -> impl Iterator<Item = &Partition> {
        self.held.values()
    }

    /// Returns the held partitions for changes, ascending.
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
