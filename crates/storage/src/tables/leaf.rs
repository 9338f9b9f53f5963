//! A leaf: neighbouring entries of one table, packed into one buffer.
//!
//! Entries lie in the buffer in any order; slots hold their order, each with the four bytes that
//! follow the prefix common to all keys, so that a search reads slots and one or two keys. Every
//! entry carries the generation of the checkpoint that will save it and whether it is a tombstone.
//! The caller decides which range a leaf covers, and when it is split.

use std::cmp::Ordering;
use std::ops::Range;

/// The length beyond which a leaf with two or more entries is split.
pub(super) const LEAF_BYTES: usize = 6 * 1024;

/// Buffers grow by this many bytes, and slots by this many. A leaf wastes little, and another leaf
/// can use the memory that it frees. Allocators round the size of larger buffers up to twice as
/// much.
const BYTES_STEP: usize = 512;
const LARGE_BYTES: usize = 4096;
const SLOTS_STEP: usize = 16;

/// The slots in a line of a processor's cache.
const SLOTS_PER_LINE: usize = 64 / size_of::<Slot>();

/// A common prefix up to this length is kept beside the slots: most searches and inserts then read
/// no entry at all.
const PREFIX_KEPT_MAX: usize = 24;

/// Bytes of an entry before its key: key length, value length, mark.
const ENTRY_HEADER_BYTES: usize = 10;

/// The number of the checkpoint that saves a change. Generation 0 is the state of the cold store.
pub(crate) type Generation = u32;

/// The data of an entry besides its key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryMark {
    pub(super) generation: Generation,
    /// Whether the key is deleted, even if the cold store has it.
    pub(super) tombstone: bool,
}

impl EntryMark {
    fn encode(self) -> u32 {
        assert!(self.generation < 1 << 31, "2^31 checkpoints take centuries");
        self.generation << 1 | u32::from(self.tombstone)
    }

    fn decode(word: u32) -> Self {
        Self {
            generation: word >> 1,
            tombstone: word & 1 == 1,
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
    pub(super) mark: EntryMark,
}

impl<'a> Entry<'a> {
    /// Returns the entry at the start of `bytes`.
    pub(super) fn decode(bytes: &'a [u8]) -> Self {
        let (header, rest) = bytes
            .split_first_chunk::<ENTRY_HEADER_BYTES>()
            .expect("entries are written whole");
        let key_bytes = usize::from(u16::from_le_bytes([header[0], header[1]]));
        let value_bytes = u32::from_le_bytes([header[2], header[3], header[4], header[5]]);
        let mark = u32::from_le_bytes([header[6], header[7], header[8], header[9]]);
        let (key, rest) = rest.split_at(key_bytes);
        Self {
            key,
            value: &rest[..value_bytes as usize],
            mark: EntryMark::decode(mark),
        }
    }

    /// Returns the bytes of the entry in a buffer.
    pub(super) fn bytes(&self) -> usize {
        ENTRY_HEADER_BYTES + self.key.len() + self.value.len()
    }
}

/// Sorted entries without duplicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaf {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    /// Every key begins with the same bytes, this many at least.
    prefix_bytes: usize,
    /// The first bytes of the common prefix, as many as fit.
    prefix: [u8; PREFIX_KEPT_MAX],
    /// Bytes of the buffer that no slot points to.
    garbage_bytes: usize,
    tombstones: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    offset: u32,
}

impl Leaf {
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of entries that are no tombstones.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.tombstones
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(super) fn has_tombstones(&self) -> bool {
        self.tombstones > 0
    }

    /// Returns the allocated bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.slots.capacity() * size_of::<Slot>() + size_of::<Self>()
    }

    pub(super) fn must_split(&self) -> bool {
        self.bytes.len() - self.garbage_bytes > LEAF_BYTES && self.len() >= 2
    }

    pub(super) fn entry(&self, index: usize) -> Entry<'_> {
        Entry::decode(&self.bytes[self.slots[index].offset as usize..])
    }

    pub(super) fn entries(&self) -> impl DoubleEndedIterator<Item = Entry<'_>> {
        (0..self.len()).map(|index| self.entry(index))
    }

    fn key(&self, index: usize) -> &[u8] {
        self.entry(index).key
    }

    /// Returns the index of `key`, or as an error the index where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        if self.is_empty() {
            return Err(0);
        }
        let Range {
            start: mut low,
            end: mut high,
        } = self.ties(key);
        let shared = key.len().min(self.prefix_bytes);
        match key[..shared].cmp(self.prefix_near(low)) {
            Ordering::Less => return Err(0),
            Ordering::Greater => return Err(self.len()),
            Ordering::Equal => {}
        }
        // Entries of an index often end with a rising key.
        if high > low + 1 {
            match self.key(high - 1).cmp(key) {
                Ordering::Less => return Err(high),
                Ordering::Equal => return Ok(high - 1),
                Ordering::Greater => high -= 1,
            }
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.key(middle).cmp(key) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// Returns the slots whose heads are that of a key.
    fn ties(&self, key: &[u8]) -> Range<usize> {
        let head = head(key, self.prefix_bytes);
        let low = self.slots.partition_point(|slot| slot.head < head);
        low..low + self.slots[low..].partition_point(|slot| slot.head == head)
    }

    /// Returns the bytes that all keys begin with; read, if they must be, from a key near `index`,
    /// which the caller reads anyway.
    fn prefix_near(&self, index: usize) -> &[u8] {
        match self.prefix.get(..self.prefix_bytes) {
            Some(prefix) => prefix,
            None => &self.key(index.min(self.len() - 1))[..self.prefix_bytes],
        }
    }

    /// Returns the index of the first key that is not less than `key`.
    pub(super) fn lower_bound(&self, key: &[u8]) -> usize {
        self.search(key).unwrap_or_else(|index| index)
    }

    /// Sets value and mark of `entry.key`, which a search has found at this index, or would insert
    /// there.
    pub(super) fn put_at(&mut self, found: Result<usize, usize>, entry: Entry) {
        match found {
            Ok(index) => self.replace(index, entry),
            Err(index) => self.insert(index, entry),
        }
    }

    /// Reads from each line of the slots, independently of the others, and from the end of the
    /// buffer. Returns a number that depends on all of them.
    pub(super) fn touch_slots(&self) -> u32 {
        let lines = self.slots.iter().step_by(SLOTS_PER_LINE);
        let end = self.bytes.last().copied().unwrap_or_default();
        lines.fold(u32::from(end), |sum, slot| sum ^ slot.head)
    }

    /// Reads from the entry that a search for the key reads first. Returns a number that depends on
    /// it.
    pub(super) fn touch_entry(&self, key: &[u8]) -> u32 {
        let ties = self.ties(key);
        let slot = ties.last().and_then(|last| self.slots.get(last));
        slot.map_or(0, |slot| u32::from(self.bytes[slot.offset as usize]))
    }

    /// Inserts an entry, unless its key exists already.
    pub(super) fn put_if_absent(&mut self, entry: Entry) {
        if let Err(index) = self.search(entry.key) {
            self.insert(index, entry);
        }
    }

    fn insert(&mut self, index: usize, entry: Entry) {
        if self.is_empty() {
            self.prefix_bytes = entry.key.len();
            let kept = entry.key.len().min(PREFIX_KEPT_MAX);
            self.prefix[..kept].copy_from_slice(&entry.key[..kept]);
        } else {
            let prefix = self.prefix_near(index);
            if !entry.key.starts_with(prefix) {
                let shared = common_prefix(entry.key, prefix);
                self.prefix_bytes = shared;
                for at in 0..self.len() {
                    self.slots[at].head = head(self.key(at), shared);
                }
            }
        }
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(SLOTS_STEP);
        }
        let offset = self.push_bytes(entry);
        let head = head(entry.key, self.prefix_bytes);
        self.slots.insert(index, Slot { head, offset });
        self.tombstones += usize::from(entry.mark.tombstone);
    }

    fn replace(&mut self, index: usize, entry: Entry) {
        let old = self.entry(index);
        let (was_tombstone, old_bytes) = (old.mark.tombstone, old.bytes());
        let same_length = old.value.len() == entry.value.len();
        self.tombstones += usize::from(entry.mark.tombstone);
        self.tombstones -= usize::from(was_tombstone);
        if same_length {
            let at = self.slots[index].offset as usize;
            let value = at + ENTRY_HEADER_BYTES + entry.key.len();
            self.bytes[at + 6..at + 10].copy_from_slice(&entry.mark.encode().to_le_bytes());
            self.bytes[value..value + entry.value.len()].copy_from_slice(entry.value);
        } else {
            self.garbage_bytes += old_bytes;
            // The old bytes may be dropped by compaction while the new ones are pushed.
            let empty = Slot {
                head: 0,
                offset: u32::MAX,
            };
            let head = std::mem::replace(&mut self.slots[index], empty).head;
            let offset = self.push_bytes(entry);
            self.slots[index] = Slot { head, offset };
        }
    }

    fn push_bytes(&mut self, entry: Entry) -> u32 {
        let needed = entry.bytes();
        if self.bytes.len() + needed > self.bytes.capacity() {
            if self.garbage_bytes > self.bytes.len() / 4 {
                self.compact(needed);
            } else {
                let capacity = buffer_bytes(self.bytes.len() + needed);
                self.bytes.reserve_exact(capacity - self.bytes.len());
            }
        }
        let offset = u32::try_from(self.bytes.len()).expect("a leaf of one value is below 4 GiB");
        let key_bytes = u16::try_from(entry.key.len()).expect("keys are bounded");
        let value_bytes = u32::try_from(entry.value.len()).expect("values are bounded");
        self.bytes.extend_from_slice(&key_bytes.to_le_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        self.bytes
            .extend_from_slice(&entry.mark.encode().to_le_bytes());
        self.bytes.extend_from_slice(entry.key);
        self.bytes.extend_from_slice(entry.value);
        offset
    }

    /// Copies the entries of the slots into a new buffer with room for `extra` bytes more.
    fn compact(&mut self, extra: usize) {
        let kept = self.bytes.len() - self.garbage_bytes;
        let mut bytes = Vec::with_capacity(buffer_bytes(kept + extra));
        for index in 0..self.len() {
            if self.slots[index].offset == u32::MAX {
                continue;
            }
            let length = self.entry(index).bytes();
            let at = self.slots[index].offset as usize;
            self.slots[index].offset = bytes.len() as u32;
            bytes.extend_from_slice(&self.bytes[at..at + length]);
        }
        self.bytes = bytes;
        self.garbage_bytes = 0;
    }

    /// Removes tombstones that the cold store includes.
    pub(super) fn purge(&mut self, completed: Generation) {
        let dead = |mark: EntryMark| mark.tombstone && mark.generation <= completed;
        if self.has_tombstones() && self.entries().any(|entry| dead(entry.mark)) {
            *self = collect(self, 0..self.len(), |entry| !dead(entry.mark));
        }
    }

    /// Appends the changes from after one generation up to another to `to`, in order.
    pub(super) fn copy_changes(&self, after: Generation, until: Generation, to: &mut Vec<u8>) {
        for (slot, entry) in self.slots.iter().zip(self.entries()) {
            if entry.mark.generation > after && entry.mark.generation <= until {
                let at = slot.offset as usize;
                to.extend_from_slice(&self.bytes[at..at + entry.bytes()]);
            }
        }
    }

    /// Keeps the entries below `key`, and returns the others.
    pub(super) fn split_at(&mut self, key: &[u8]) -> Leaf {
        let index = self.lower_bound(key);
        let right = collect(self, index..self.len(), |_| true);
        let left = collect(self, 0..index, |_| true);
        *self = left;
        right
    }

    /// Returns a key that divides the leaf into halves by bytes. `written` was put last: ascending
    /// inserts therefore leave full leaves behind.
    pub(super) fn separator(&self, written: &[u8]) -> Vec<u8> {
        assert!(self.len() >= 2);
        let last = self.len() - 1;
        let index = if self.key(last) == written {
            last
        } else {
            let half = (self.bytes.len() - self.garbage_bytes) / 2;
            let mut sum = 0;
            let middle = self.entries().take_while(|entry| {
                sum += entry.bytes();
                sum <= half
            });
            middle.count().clamp(1, last)
        };
        let (left, right) = (self.key(index - 1), self.key(index));
        right[..common_prefix(left, right) + 1].to_vec()
    }
}

/// Returns a leaf of some of `from`'s entries, with little room to spare.
fn collect(from: &Leaf, indexes: Range<usize>, keep: impl Fn(&Entry) -> bool) -> Leaf {
    let kept = || indexes.clone().map(|index| from.entry(index)).filter(&keep);
    let mut leaf = Leaf::default();
    let (mut bytes, mut count) = (0, 0);
    let mut ends: Option<(&[u8], &[u8])> = None;
    for entry in kept() {
        bytes += entry.bytes();
        count += 1;
        ends = Some((ends.map_or(entry.key, |(first, _)| first), entry.key));
    }
    let Some((first, last)) = ends else {
        return leaf;
    };
    leaf.bytes.reserve_exact(buffer_bytes(bytes));
    leaf.slots
        .reserve_exact(usize::next_multiple_of(count, SLOTS_STEP));
    // Keys between two others begin with what these have in common.
    leaf.prefix_bytes = common_prefix(first, last);
    let prefix = &first[..leaf.prefix_bytes.min(PREFIX_KEPT_MAX)];
    leaf.prefix[..prefix.len()].copy_from_slice(prefix);
    for entry in kept() {
        let head = head(entry.key, leaf.prefix_bytes);
        let offset = leaf.push_bytes(entry);
        leaf.slots.push(Slot { head, offset });
        leaf.tombstones += usize::from(entry.mark.tombstone);
    }
    leaf
}

/// Returns the size of a buffer for so many bytes.
fn buffer_bytes(needed: usize) -> usize {
    match needed <= LARGE_BYTES {
        true => needed.next_multiple_of(BYTES_STEP),
        false => needed.next_multiple_of(2 * BYTES_STEP),
    }
}

pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

/// Returns the four bytes of `key` after `prefix_bytes`, as a number that sorts like them.
fn head(key: &[u8], prefix_bytes: usize) -> u32 {
    let rest = key.get(prefix_bytes..).unwrap_or_default();
    match rest.first_chunk::<4>() {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 4];
            bytes[..rest.len()].copy_from_slice(rest);
            u32::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn entry<'a>(key: &'a [u8], value: &'a [u8]) -> Entry<'a> {
        let mark = EntryMark {
            generation: value.len() as u32,
            tombstone: value.is_empty(),
        };
        Entry { key, value, mark }
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_map(
            // Short enough to be kept beside the slots, or too long.
            prefix_bytes in prop_oneof![0_usize..6, 20_usize..30],
            writes in prop::collection::vec(
                (prop::collection::vec(0_u8..3, 0..7), 0_usize..40, any::<bool>()), 1..120),
            probe in prop::collection::vec(0_u8..3, 0..8),
        ) {
            let prefix: Vec<u8> = (0..prefix_bytes).map(|at| (at % 2) as u8).collect();
            let mut leaf = Leaf::default();
            let mut map = BTreeMap::new();
            for (key, length, prefixed) in writes {
                let key = if prefixed { [prefix.clone(), key].concat() } else { key };
                let value = vec![length as u8; length];
                leaf.put_at(leaf.search(&key), entry(&key, &value));
                map.insert(key, value);
                prop_assert_eq!(leaf.len(), map.len());
            }
            for (entry, (key, value)) in leaf.entries().zip(&map) {
                prop_assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
                prop_assert_eq!(entry.mark.generation as usize, value.len());
                prop_assert_eq!(leaf.search(key).map(|index| leaf.entry(index).key), Ok(&key[..]));
            }
            prop_assert_eq!(leaf.lower_bound(&probe), map.range(..probe.clone()).count());
            if leaf.len() >= 2 {
                let separator = leaf.separator(&probe);
                let mut left = leaf.clone();
                let right = left.split_at(&separator);
                prop_assert!(!left.is_empty() && !right.is_empty());
                let both = left.entries().chain(right.entries()).map(|entry| entry.key.to_vec());
                prop_assert_eq!(both.collect::<Vec<_>>(), map.keys().cloned().collect::<Vec<_>>());
            }
            leaf.purge(0);
            prop_assert!(leaf.entries().all(|entry| !entry.mark.tombstone));
            prop_assert!(!leaf.has_tombstones());
        }
    }
}
