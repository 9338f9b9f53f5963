//! The sorted tables of one core: recently used data is in memory, the rest in the cold store.
//!
//! A table's keys are cut into ranges, each with a `Leaf` in memory. A *loaded* leaf holds every
//! entry of its range, and answers alone. Another leaf holds entries that were written or read
//! lately, and its missing entries are looked up in the cold store. Changes live in memory until a
//! checkpoint has saved them; then they may be forgotten when memory is short. The tables do not
//! log, and do not decide when a checkpoint is made.
//!
//! Invariants:
//! - Memory's entry of a key is never older than the cold store's.
//! - An entry leaves memory only if its generation is completed: the cold store has it.
//! - While checkpoint N is gathered, a leaf with changes up to N is handed over before it changes.

mod changes;
mod checkpoint;
mod cold;
mod directory;
mod leaf;
mod loading;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;

use placement::tables::{EntryVisitor, TABLE_KEY_BYTES_MAX, Tables, TablesError, VALUE_BYTES_MAX};

use changes::Changes;
pub(crate) use checkpoint::Checkpointer;
pub use cold::CheckpointMark;
pub(crate) use cold::ColdStore;
use directory::{Directory, LeafPlace};
use leaf::{Entry, EntryMark, Generation, Leaf};

/// The leaves that are checked per write while memory exceeds its budget.
const SWEEP_STEPS: usize = 8;

/// The same per leaf that is loaded from the cold store, which takes its time anyway.
const SWEEP_STEPS_LOADING: usize = 64;

/// The bytes counted for a leaf in addition to its buffers: counters of the allocation, number,
/// separator.
const LEAF_OVERHEAD_BYTES: usize = 120;

/// Sorted tables over memory and, if there is one, a cold store.
pub struct DurableTables {
    inner: RefCell<Inner>,
    cold: Option<ColdStore>,
}

struct Inner {
    tables: BTreeMap<u64, Table>,
    ranges: Vec<Range>,
    free: Vec<u32>,
    memory_bytes: usize,
    memory_bytes_max: usize,
    /// Changes get this generation.
    generation: Generation,
    /// The cold store has every change up to this generation.
    completed: Generation,
    /// Ranges with changes of the current generation, and some that are gone or listed twice.
    changed: Vec<u32>,
    /// Bytes put since the last checkpoint began.
    changed_bytes: u64,
    gathering: Option<Gathering>,
    /// Where the sweep for cold leaves continues.
    sweep: usize,
}

struct Table {
    directory: Directory,
    /// The table was dropped in this generation: its rows in the cold store are void until the
    /// generation is completed.
    dropped: Generation,
}

/// A leaf and the facts about it that are known without looking inside.
struct Range {
    table: u64,
    leaf: Arc<Leaf>,
    /// Memory holds every entry of the range.
    loaded: bool,
    /// Read or written since the sweep came by.
    touched: Cell<bool>,
    /// No change in the leaf is of a later generation.
    newest: Generation,
    /// Last generation whose list of changed ranges has this one.
    listed: Generation,
    /// Last checkpoint that this range was handed to.
    handed: Generation,
}

/// The changes of one generation on their way to the checkpointer.
struct Gathering {
    generation: Generation,
    pending: Vec<u32>,
    next: usize,
    /// Copies of changed entries: sharing whole leaves would double the memory of leaves that are
    /// written all over meanwhile.
    outbox: Changes,
}

/// The place of a key. It is valid until the tables change.
#[derive(Clone, Copy)]
struct Target {
    place: LeafPlace,
    id: u32,
    /// The index of the key in its leaf, or as an error the index where it would be inserted.
    found: Result<usize, usize>,
}

/// A leaf of many, and the bound of its range at which a scan continues.
type Bounded<B> = (Arc<Leaf>, B);

/// A generation of changes to be saved.
pub(crate) struct Generations {
    /// Changes up to this one are new to the cold store.
    pub(crate) until: Generation,
    /// Tables whose older entries are void, ascending.
    pub(crate) dropped: Vec<u64>,
}

impl DurableTables {
    /// Returns tables in memory only.
    pub fn in_memory() -> Self {
        Self::new(None, usize::MAX, true)
    }

    /// Returns tables over `cold`, which holds nothing yet if `empty`.
    pub(crate) fn over(cold: ColdStore, memory_bytes_max: usize, empty: bool) -> Self {
        Self::new(Some(cold), memory_bytes_max, empty)
    }

    fn new(cold: Option<ColdStore>, memory_bytes_max: usize, empty: bool) -> Self {
        let inner = Inner {
            tables: BTreeMap::new(),
            ranges: vec![],
            free: vec![],
            memory_bytes: 0,
            memory_bytes_max,
            // A cold store with something in it counts as generation 1.
            generation: if empty { 1 } else { 2 },
            completed: if empty { 0 } else { 1 },
            changed: vec![],
            changed_bytes: 0,
            gathering: None,
            sweep: 0,
        };
        Self {
            inner: RefCell::new(inner),
            cold,
        }
    }

    /// Returns bytes that the tables take in memory, their index included.
    pub fn memory_bytes(&self) -> usize {
        self.inner.borrow().memory_bytes
    }

    /// Returns bytes put since the last checkpoint began: they cannot leave memory before the next
    /// one.
    pub fn changed_bytes(&self) -> u64 {
        self.inner.borrow().changed_bytes
    }

    /// Begins to gather the changes up to now. Nothing may be gathered already.
    pub(crate) fn begin_gathering(&mut self) -> Generations {
        let inner = self.inner.get_mut();
        assert!(inner.gathering.is_none(), "one checkpoint at a time");
        let generation = inner.generation;
        inner.generation += 1;
        inner.changed_bytes = 0;
        inner.gathering = Some(Gathering {
            generation,
            pending: std::mem::take(&mut inner.changed),
            next: 0,
            outbox: Changes::default(),
        });
        let dropped = inner.tables.iter();
        let dropped = dropped.filter(|(_, table)| table.dropped > inner.completed);
        Generations {
            until: generation,
            dropped: dropped.map(|(&table, _)| table).collect(),
        }
    }

    /// Hands over the changes of up to `ranges_max` more leaves; true with the last ones.
    pub(crate) fn gather(&mut self, ranges_max: usize) -> (Changes, bool) {
        let inner = self.inner.get_mut();
        let Some(gathering) = &inner.gathering else {
            return (Changes::default(), true);
        };
        let until = gathering.pending.len().min(gathering.next + ranges_max);
        for at in gathering.next..until {
            let id = inner.gathering.as_ref().expect("checked above").pending[at];
            inner.hand_over(id);
        }
        let gathering = inner.gathering.as_mut().expect("checked above");
        gathering.next = until;
        let changes = std::mem::take(&mut gathering.outbox);
        let done = until == gathering.pending.len();
        if done {
            inner.gathering = None;
        }
        (changes, done)
    }

    /// Records that the cold store has every change up to `generation`.
    pub(crate) fn complete(&mut self, generation: Generation) {
        let inner = self.inner.get_mut();
        assert!(inner.completed < generation && generation < inner.generation);
        inner.completed = generation;
    }

    /// Forgets the tombstones of the range that holds `key`, now that they are saved.
    pub(crate) fn purge(&mut self, table: u64, key: &[u8]) {
        let inner = self.inner.get_mut();
        let Some(place) = inner
            .tables
            .get(&table)
            .map(|table| table.directory.find(key))
        else {
            return;
        };
        inner.purge(table, place);
    }

    /// Returns the leaf that covers `start`, loaded, and where it ends.
    fn leaf_from(
        &self,
        table: u64,
        start: &[u8],
    ) -> Result<Option<Bounded<Option<Vec<u8>>>>, TablesError> {
        let inner = &mut *self.inner.borrow_mut();
        let Some(mut place) = inner.place(table, start, self.cold.is_some()) else {
            return Ok(None);
        };
        if !inner.range(table, place).loaded {
            inner.load_from(self.cold(), table, start)?;
            place = inner.tables[&table].directory.find(start);
        }
        let upper = inner.tables[&table]
            .directory
            .upper(place)
            .map(<[u8]>::to_vec);
        let range = inner.range(table, place);
        range.touched.set(true);
        Ok(Some((Arc::clone(&range.leaf), upper)))
    }

    /// Returns the leaf that covers the keys below `end`, loaded, and where it starts.
    fn leaf_before(
        &self,
        table: u64,
        end: Option<&[u8]>,
    ) -> Result<Option<Bounded<Vec<u8>>>, TablesError> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.place(table, b"", self.cold.is_some()).is_none() {
            return Ok(None);
        }
        let mut place = inner.tables[&table].directory.find_before(end);
        if !inner.range(table, place).loaded {
            inner.load_before(self.cold(), table, end)?;
            place = inner.tables[&table].directory.find_before(end);
        }
        let lower = inner.tables[&table].directory.lower(place).to_vec();
        let range = inner.range(table, place);
        range.touched.set(true);
        Ok(Some((Arc::clone(&range.leaf), lower)))
    }

    fn cold(&self) -> &ColdStore {
        let cold = self.cold.as_ref();
        cold.expect("without a cold store every range is loaded from the start")
    }

    /// Reads a key that memory knows nothing of, and keeps the result.
    fn read_cold(
        &self,
        table: u64,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TablesError> {
        let Some(value) = self.cold().get(table, key)? else {
            return Ok(false);
        };
        self.inner.borrow_mut().keep(table, key, &value);
        visit(&value);
        Ok(true)
    }
}

impl Tables for DurableTables {
    fn read(
        &self,
        table: u64,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, TablesError> {
        let inner = self.inner.borrow();
        let Some(known) = inner.tables.get(&table) else {
            // Before its first write a table is as the cold store has it.
            let maybe_cold = inner.completed > 0;
            drop(inner);
            return match maybe_cold && self.cold.is_some() {
                true => self.read_cold(table, key, visit),
                false => Ok(false),
            };
        };
        let range = &inner.ranges[known.directory.leaf(known.directory.find(key)) as usize];
        let loaded = range.loaded;
        match range.leaf.search(key) {
            Ok(index) => {
                range.touched.set(true);
                let leaf = Arc::clone(&range.leaf);
                // The visitor may look around in the tables.
                drop(inner);
                let entry = leaf.entry(index);
                if !entry.mark.tombstone {
                    visit(entry.value);
                }
                Ok(!entry.mark.tombstone)
            }
            Err(_) => {
                drop(inner);
                if loaded {
                    Ok(false)
                } else {
                    self.read_cold(table, key, visit)
                }
            }
        }
    }

    fn scan(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        let mut start = start.to_vec();
        while end.is_none_or(|end| &*start < end) {
            let Some((leaf, upper)) = self.leaf_from(table, &start)? else {
                return Ok(());
            };
            for index in leaf.lower_bound(&start)..leaf.len() {
                let entry = leaf.entry(index);
                if end.is_some_and(|end| entry.key >= end) {
                    return Ok(());
                }
                if !entry.mark.tombstone && visit(entry.key, entry.value).is_break() {
                    return Ok(());
                }
            }
            match upper {
                Some(upper) => start = upper,
                None => return Ok(()),
            }
        }
        Ok(())
    }

    fn scan_reverse(
        &self,
        table: u64,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut EntryVisitor,
    ) -> Result<(), TablesError> {
        let mut end = end.map(<[u8]>::to_vec);
        while end.as_deref().is_none_or(|end| start < end) {
            let Some((leaf, lower)) = self.leaf_before(table, end.as_deref())? else {
                return Ok(());
            };
            let below = end
                .as_deref()
                .map_or(leaf.len(), |end| leaf.lower_bound(end));
            for index in (0..below).rev() {
                let entry = leaf.entry(index);
                if entry.key < start {
                    return Ok(());
                }
                if !entry.mark.tombstone && visit(entry.key, entry.value).is_break() {
                    return Ok(());
                }
            }
            if lower.is_empty() {
                return Ok(());
            }
            end = Some(lower);
        }
        Ok(())
    }

    fn table_from(&self, first: u64) -> Result<Option<u64>, TablesError> {
        let inner = self.inner.borrow();
        let hot = inner.tables.range(first..).next().map(|(table, _)| *table);
        let cold = match &self.cold {
            Some(cold) if inner.completed > 0 => cold.table_from(first)?,
            _ => None,
        };
        Ok(hot.into_iter().chain(cold).min())
    }

    /// Leaves of which memory has not all are taken to be like the others.
    fn entries_about(&self, table: u64) -> u64 {
        let inner = self.inner.borrow();
        let Some(known) = inner.tables.get(&table) else {
            return 0;
        };
        let (mut leaves, mut loaded, mut entries) = (0, 0, 0);
        for leaf in known.directory.leaves() {
            let range = &inner.ranges[leaf as usize];
            leaves += 1;
            if range.loaded {
                loaded += 1;
                entries += range.leaf.live() as u64;
            }
        }
        (entries * leaves).checked_div(loaded).unwrap_or(0)
    }

    fn put(&mut self, table: u64, key: &[u8], value: &[u8]) {
        check_sizes(key, value);
        self.inner.get_mut().write(table, key, Some(value));
    }

    fn put_if(
        &mut self,
        table: u64,
        key: &[u8],
        value: &[u8],
        decides: &mut dyn FnMut(Option<&[u8]>) -> bool,
    ) -> Result<bool, TablesError> {
        check_sizes(key, value);
        let inner = self.inner.get_mut();
        let target = inner.target(table, key);
        let range = &inner.ranges[target.id as usize];
        let known = target.found.ok().map(|index| range.leaf.entry(index));
        let puts = match known {
            Some(entry) => {
                range.touched.set(true);
                decides((!entry.mark.tombstone).then_some(entry.value))
            }
            None if range.loaded => decides(None),
            None => {
                let cold = self.cold().get(table, key)?;
                decides(cold.as_deref())
            }
        };
        if puts {
            self.inner
                .get_mut()
                .write_at(target, (table, key), Some(value));
        }
        Ok(puts)
    }

    /// Memory is read in passes. A pass depends on earlier passes only, so that a processor waits
    /// for the memory of many keys at once.
    fn announce(&self, table: u64, keys: &[&[u8]]) {
        let inner = self.inner.borrow();
        let Some(known) = inner.tables.get(&table) else {
            return;
        };
        let directory = &known.directory;
        let ids = keys.iter().map(|key| directory.leaf(directory.find(key)));
        let ids: Vec<u32> = ids.collect();
        let leaves = ids.iter().map(|id| &*inner.ranges[*id as usize].leaf);
        let leaves: Vec<&Leaf> = leaves.collect();
        let entries: usize = leaves.iter().map(|leaf| leaf.len()).sum();
        let slots = leaves.iter().fold(0, |sum, leaf| sum ^ leaf.touch_slots());
        let found = leaves.iter().zip(keys);
        let first = found.fold(0, |sum, (leaf, key)| sum ^ leaf.touch_entry(key));
        std::hint::black_box((entries, slots, first));
    }

    fn delete(&mut self, table: u64, key: &[u8]) {
        self.inner.get_mut().write(table, key, None);
    }

    fn drop_table(&mut self, table: u64) {
        self.inner.get_mut().drop_table(table);
    }
}

impl Inner {
    fn range(&self, table: u64, place: LeafPlace) -> &Range {
        &self.ranges[self.tables[&table].directory.leaf(place) as usize]
    }

    /// Returns the leaf to which `key` belongs; none if the table certainly has no entry.
    fn place(&mut self, table: u64, key: &[u8], cold: bool) -> Option<LeafPlace> {
        if !self.tables.contains_key(&table) {
            if self.completed == 0 || !cold {
                return None;
            }
            self.create(table, 0, false);
        }
        Some(self.tables[&table].directory.find(key))
    }

    fn create(&mut self, table: u64, dropped: Generation, loaded: bool) {
        let id = self.add(Range {
            table,
            leaf: Arc::default(),
            loaded,
            touched: Cell::new(true),
            newest: 0,
            listed: 0,
            handed: 0,
        });
        let directory = Directory::new(id);
        self.tables.insert(table, Table { directory, dropped });
    }

    fn add(&mut self, range: Range) -> u32 {
        self.memory_bytes += range.leaf.memory_bytes() + LEAF_OVERHEAD_BYTES;
        match self.free.pop() {
            Some(id) => {
                self.ranges[id as usize] = range;
                id
            }
            None => {
                self.ranges.push(range);
                u32::try_from(self.ranges.len() - 1).expect("2^32 leaves take 24 TB")
            }
        }
    }

    fn release(&mut self, id: u32) {
        let range = &mut self.ranges[id as usize];
        let leaf = std::mem::take(&mut range.leaf);
        self.memory_bytes -= leaf.memory_bytes() + LEAF_OVERHEAD_BYTES;
        // Entries of this number in lists mean nothing from now on.
        (range.newest, range.listed) = (0, 0);
        self.free.push(id);
    }

    /// Changes a leaf and keeps account of its memory.
    fn change<R>(&mut self, id: u32, change: impl FnOnce(&mut Leaf) -> R) -> R {
        let leaf = &mut self.ranges[id as usize].leaf;
        let before = leaf.memory_bytes();
        // Copies the leaf if a visitor higher up still reads it.
        let result = change(Arc::make_mut(leaf));
        self.memory_bytes += leaf.memory_bytes();
        self.memory_bytes -= before;
        result
    }

    /// Returns the place of a key. The table exists afterwards.
    fn target(&mut self, table: u64, key: &[u8]) -> Target {
        if !self.tables.contains_key(&table) {
            self.create(table, 0, self.completed == 0);
        }
        let directory = &self.tables[&table].directory;
        let place = directory.find(key);
        let id = directory.leaf(place);
        let found = self.ranges[id as usize].leaf.search(key);
        Target { place, id, found }
    }

    fn write(&mut self, table: u64, key: &[u8], value: Option<&[u8]>) {
        let target = self.target(table, key);
        if value.is_none() && target.found.is_err() && self.ranges[target.id as usize].loaded {
            return;
        }
        self.write_at(target, (table, key), value);
    }

    fn write_at(&mut self, target: Target, (table, key): (u64, &[u8]), value: Option<&[u8]>) {
        let Target { place, id, found } = target;
        self.hand_over(id);
        let generation = self.generation;
        let range = &mut self.ranges[id as usize];
        range.touched.set(true);
        range.newest = generation;
        if range.listed < generation {
            range.listed = generation;
            self.changed.push(id);
        }
        self.changed_bytes += (key.len() + value.map_or(0, <[u8]>::len)) as u64;
        let mark = EntryMark {
            generation,
            tombstone: value.is_none(),
        };
        let value = value.unwrap_or_default();
        self.change(id, |leaf| leaf.put_at(found, Entry { key, value, mark }));
        self.settle((table, place, id), key);
    }

    /// Keeps an entry that was read from the cold store.
    fn keep(&mut self, table: u64, key: &[u8], value: &[u8]) {
        let place = self
            .place(table, key, true)
            .expect("the cold store has the table");
        let id = self.tables[&table].directory.leaf(place);
        let mark = EntryMark {
            generation: 0,
            tombstone: false,
        };
        self.ranges[id as usize].touched.set(true);
        self.change(id, |leaf| leaf.put_if_absent(Entry { key, value, mark }));
        self.settle((table, place, id), key);
    }

    /// Splits a leaf that has grown, if it is too large, and drops others if memory is short.
    fn settle(&mut self, (table, place, id): (u64, LeafPlace, u32), written: &[u8]) {
        let leaf = &self.ranges[id as usize].leaf;
        if leaf.must_split() {
            let separator = leaf.separator(written);
            self.split(table, place, &separator);
        }
        if self.memory_bytes > self.memory_bytes_max {
            self.sweep(SWEEP_STEPS);
        }
    }

    /// Cuts the range at `place` in two; both parts stay as loaded and as changed as it was.
    fn split(&mut self, table: u64, place: LeafPlace, separator: &[u8]) {
        let id = self.tables[&table].directory.leaf(place);
        self.hand_over(id);
        let right = self.change(id, |leaf| leaf.split_at(separator));
        let left = &self.ranges[id as usize];
        let range = Range {
            table,
            leaf: Arc::new(right),
            loaded: left.loaded,
            touched: Cell::new(true),
            newest: left.newest,
            listed: left.listed,
            handed: left.handed,
        };
        let listed = left.listed == self.generation;
        let right = self.add(range);
        if listed {
            self.changed.push(right);
        }
        let known = self
            .tables
            .get_mut(&table)
            .expect("the caller found the place in it");
        known.directory.insert_after(place, separator, right);
    }

    /// Adds a leaf that is about to change to the checkpoint that is being collected, unless the
    /// checkpoint already has it.
    fn hand_over(&mut self, id: u32) {
        let Some(gathering) = &mut self.gathering else {
            return;
        };
        let range = &mut self.ranges[id as usize];
        let due = range.newest > self.completed && range.newest <= gathering.generation;
        if due && range.handed < gathering.generation {
            range.handed = gathering.generation;
            let (after, until) = (self.completed, gathering.generation);
            gathering
                .outbox
                .push(range.table, &range.leaf, after, until);
        }
    }

    fn drop_table(&mut self, table: u64) {
        if let Some(known) = self.tables.remove(&table) {
            for id in known.directory.leaves() {
                self.hand_over(id);
                self.release(id);
            }
        }
        self.create(table, self.generation, true);
    }

    /// Looks at some leaves in turn, and drops the leaves that were not used since the last time.
    fn sweep(&mut self, steps: usize) {
        for _ in 0..steps.min(self.ranges.len()) {
            let id = self.sweep % self.ranges.len();
            self.sweep = id + 1;
            let range = &self.ranges[id];
            // Free numbers and emptied ranges have nothing to forget.
            if range.leaf.is_empty() || range.touched.replace(false) {
                continue;
            }
            let (table, saved) = (range.table, range.newest <= self.completed);
            if !saved || self.tables[&table].dropped > self.completed {
                continue;
            }
            let key = self.ranges[id].leaf.entry(0).key;
            let place = self.tables[&table].directory.find(key);
            assert_eq!(self.tables[&table].directory.leaf(place) as usize, id);
            self.change(id as u32, |leaf| *leaf = Leaf::default());
            self.ranges[id].loaded = false;
            self.merge_before(table, place);
        }
    }

    fn purge(&mut self, table: u64, place: LeafPlace) {
        let id = self.tables[&table].directory.leaf(place);
        let (range, completed) = (&self.ranges[id as usize], self.completed);
        if !range.leaf.has_tombstones() {
            return;
        }
        // The changes that were handed over must include the tombstones of their own generation.
        self.hand_over(id);
        self.change(id, |leaf| leaf.purge(completed));
        if self.ranges[id as usize].leaf.is_empty() {
            self.merge_before(table, place);
        }
    }

    /// Gives the keys of an emptied range to the one before, if that knows as much of them.
    fn merge_before(&mut self, table: u64, place: LeafPlace) {
        let known = &self.tables[&table];
        let Some(before) = known.directory.before(place) else {
            return;
        };
        let id = known.directory.leaf(place);
        let before = known.directory.leaf(before);
        let same = self.ranges[id as usize].loaded == self.ranges[before as usize].loaded;
        assert!(self.ranges[id as usize].leaf.is_empty());
        if same {
            let known = self.tables.get_mut(&table).expect("looked up above");
            assert!(known.directory.remove(place));
            self.release(id);
        }
    }
}

fn check_sizes(key: &[u8], value: &[u8]) {
    let (key, value) = (key.len(), value.len());
    assert!(key <= TABLE_KEY_BYTES_MAX, "key of {key} bytes");
    assert!(value <= VALUE_BYTES_MAX, "value of {value} bytes");
}
