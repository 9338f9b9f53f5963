//! Finds the leaf that covers a key of a table. The separators between leaves are in order, in
//! chunks.
//!
//! Every key belongs to exactly one leaf: the one with the greatest separator that is not above the
//! key. The first separator is empty. Two levels suffice: a chunk holds up to [`CHUNK_ENTRIES`]
//! leaves, so a table of ten million rows has a few hundred chunks. This module knows leaves by
//! their numbers only, and not their contents.

use std::cmp::Ordering;

use super::leaf::common_prefix;

const CHUNK_ENTRIES: usize = 512;

/// The bytes of a key that are kept where a search reads anyway.
const KEPT_BYTES: usize = 24;

#[derive(Debug)]
pub(super) struct Directory {
    /// Never empty, and no chunk is empty.
    chunks: Vec<Chunk>,
    /// The beginnings of the first separators of the chunks.
    firsts: Vec<Kept>,
}

/// The beginning of a key, without a pointer: the key itself is elsewhere in memory, and reading it
/// takes longer than all the rest of a search.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    bytes: [u8; KEPT_BYTES],
    /// The length of the whole key.
    length: usize,
}

/// The position of a leaf in the directory. It is valid until the directory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeafPlace {
    chunk: usize,
    index: usize,
}

#[derive(Debug)]
struct Chunk {
    separators: Vec<Box<[u8]>>,
    leaves: Vec<u32>,
    /// The sixteen bytes of each separator after the common prefix, as numbers that sort alike.
    heads: Vec<u128>,
    /// The bytes that all separators but the first have in common.
    prefix: Kept,
}

impl Kept {
    fn of(key: &[u8]) -> Self {
        let mut bytes = [0; KEPT_BYTES];
        let kept = key.len().min(KEPT_BYTES);
        bytes[..kept].copy_from_slice(&key[..kept]);
        Self {
            bytes,
            length: key.len(),
        }
    }

    /// Compares the beginning of the key, as much of it as is kept, with that of another one.
    fn compare(&self, other: &[u8]) -> Ordering {
        let kept = self.length.min(KEPT_BYTES);
        self.bytes[..kept].cmp(&other[..other.len().min(kept)])
    }

    fn is_whole(&self) -> bool {
        self.length <= KEPT_BYTES
    }
}

impl Directory {
    /// Creates a directory in which one leaf covers all keys.
    pub(super) fn new(leaf: u32) -> Self {
        let chunk = Chunk::new(vec![Box::default()], vec![leaf]);
        Self {
            chunks: vec![chunk],
            firsts: vec![Kept::default()],
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> LeafPlace {
        let after = self.firsts.partition_point(|first| {
            // A key that is shorter, and equal so far, comes before it.
            first.compare(key) != Ordering::Greater
        });
        // A first separator that is not kept whole may be greater after all.
        let is_greater = |chunk: &usize| {
            !self.firsts[*chunk].is_whole() && &*self.chunks[*chunk].separators[0] > key
        };
        let chunk = (0..after).rev().find(|chunk| !is_greater(chunk));
        let chunk = chunk.expect("the first separator is empty");
        let index = self.chunks[chunk].find(key);
        LeafPlace { chunk, index }
    }

    /// Returns the leaf that covers the keys directly below `end`; the last leaf for none.
    pub(super) fn find_before(&self, end: Option<&[u8]>) -> LeafPlace {
        let Some(end) = end else {
            let chunk = self.chunks.len() - 1;
            let index = self.chunks[chunk].leaves.len() - 1;
            return LeafPlace { chunk, index };
        };
        let place = self.find(end);
        match self.lower(place) == end {
            true => self.before(place).unwrap_or(place),
            false => place,
        }
    }

    pub(super) fn leaf(&self, place: LeafPlace) -> u32 {
        self.chunks[place.chunk].leaves[place.index]
    }

    pub(super) fn lower(&self, place: LeafPlace) -> &[u8] {
        &self.chunks[place.chunk].separators[place.index]
    }

    /// Returns the end of the leaf's keys; none for the last leaf.
    pub(super) fn upper(&self, place: LeafPlace) -> Option<&[u8]> {
        let chunk = &self.chunks[place.chunk];
        let within = chunk.separators.get(place.index + 1);
        let next = || {
            self.chunks
                .get(place.chunk + 1)
                .map(|next| &next.separators[0])
        };
        within.or_else(next).map(|separator| &**separator)
    }

    pub(super) fn before(&self, place: LeafPlace) -> Option<LeafPlace> {
        if place.index > 0 {
            let index = place.index - 1;
            return Some(LeafPlace { index, ..place });
        }
        let chunk = place.chunk.checked_sub(1)?;
        let index = self.chunks[chunk].leaves.len() - 1;
        Some(LeafPlace { chunk, index })
    }

    pub(super) fn leaves(&self) -> impl Iterator<Item = u32> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.leaves.iter().copied())
    }

    /// Assigns the keys from `separator` on, which the leaf at `place` covered, to `leaf`.
    pub(super) fn insert_after(&mut self, place: LeafPlace, separator: &[u8], leaf: u32) {
        assert!(self.lower(place) < separator);
        assert!(self.upper(place).is_none_or(|upper| separator < upper));
        let chunk = &mut self.chunks[place.chunk];
        chunk.insert(place.index + 1, separator, leaf);
        if chunk.leaves.len() > CHUNK_ENTRIES {
            // Rising inserts leave full chunks behind.
            let rising = place.index + 2 == chunk.leaves.len();
            let at = if rising {
                CHUNK_ENTRIES
            } else {
                CHUNK_ENTRIES / 2
            };
            let right = Chunk::new(chunk.separators.split_off(at), chunk.leaves.split_off(at));
            chunk.rebuild_heads();
            let first = Kept::of(&right.separators[0]);
            self.firsts.insert(place.chunk + 1, first);
            self.chunks.insert(place.chunk + 1, right);
        }
    }

    /// Removes the leaf at `place`. The leaf before it covers its keys from now on. Returns false
    /// and changes nothing for the first leaf.
    pub(super) fn remove(&mut self, place: LeafPlace) -> bool {
        if place.chunk == 0 && place.index == 0 {
            return false;
        }
        let chunk = &mut self.chunks[place.chunk];
        chunk.separators.remove(place.index);
        chunk.leaves.remove(place.index);
        chunk.heads.remove(place.index);
        match chunk.separators.first() {
            None => {
                self.chunks.remove(place.chunk);
                self.firsts.remove(place.chunk);
            }
            Some(first) => self.firsts[place.chunk] = Kept::of(first),
        }
        true
    }
}

impl Chunk {
    fn new(separators: Vec<Box<[u8]>>, leaves: Vec<u32>) -> Self {
        let mut chunk = Self {
            separators,
            leaves,
            heads: vec![],
            prefix: Kept::default(),
        };
        chunk.rebuild_heads();
        chunk
    }

    fn rebuild_heads(&mut self) {
        self.prefix = match &self.separators[1..] {
            [] => Kept::default(),
            [first, .., last] => Kept::of(&first[..common_prefix(first, last)]),
            [only] => Kept::of(only),
        };
        let heads = self.separators.iter();
        let heads = heads.map(|separator| head(separator, self.prefix.length));
        self.heads = heads.collect();
    }

    /// Returns the last index whose separator is not above `key`. The first is known not to be.
    fn find(&self, key: &[u8]) -> usize {
        if self.separators.len() < 2 {
            return 0;
        }
        let prefix_bytes = self.prefix.length;
        let compared = match self.prefix.is_whole() {
            true => self.prefix.compare(key),
            false => self.separators[1][..prefix_bytes].cmp(&key[..key.len().min(prefix_bytes)]),
        };
        match compared {
            Ordering::Greater => return 0,
            Ordering::Less => return self.separators.len() - 1,
            Ordering::Equal => {}
        }
        let head = head(key, prefix_bytes);
        let heads = &self.heads[1..];
        let low = 1 + heads.partition_point(|&other| other < head);
        let ties = self.heads[low..].partition_point(|&other| other == head);
        let within = &self.separators[low..low + ties];
        low + within.partition_point(|separator| &**separator <= key) - 1
    }

    fn insert(&mut self, index: usize, separator: &[u8], leaf: u32) {
        self.separators.insert(index, separator.into());
        self.leaves.insert(index, leaf);
        let others = if index == 1 { 2 } else { 1 };
        let shares = self
            .separators
            .get(others)
            .is_some_and(|other| common_prefix(other, separator) >= self.prefix.length);
        if shares {
            self.heads
                .insert(index, head(separator, self.prefix.length));
        } else {
            self.rebuild_heads();
        }
    }
}

fn head(key: &[u8], prefix_bytes: usize) -> u128 {
    let rest = key.get(prefix_bytes..).unwrap_or_default();
    match rest.first_chunk::<16>() {
        Some(bytes) => u128::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 16];
            bytes[..rest.len()].copy_from_slice(rest);
            u128::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn finds_like_an_ordered_map() {
        // The common bytes of the keys are kept, or are too many.
        for same in [4, KEPT_BYTES - 2, KEPT_BYTES, KEPT_BYTES + 7] {
            check_against_map(&vec![b's'; same]);
        }
    }

    fn check_against_map(same: &[u8]) {
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        println!("seed {state}");
        let mut random = move |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut directory = Directory::new(0);
        let mut map = BTreeMap::from([(vec![], 0)]);
        let key = |number: u64, tail: u64| {
            let bytes = number.to_be_bytes();
            let tail = &b"xxxxxxxxxxxxxxxxxxxx"[..tail as usize];
            [same, &bytes[4..], tail].concat()
        };
        for leaf in 1..20_000 {
            let separator = key(random(3000), random(20));
            let place = directory.find(&separator);
            let (lower, expected) = map.range(..=separator.clone()).next_back().unwrap();
            assert_eq!(directory.leaf(place), *expected);
            assert_eq!(directory.lower(place), lower);
            if *lower == separator {
                if random(2) == 0 {
                    assert!(directory.remove(place));
                    map.remove(&separator);
                }
            } else {
                let upper = map
                    .range(separator.clone()..)
                    .next()
                    .map(|(key, _)| &key[..]);
                assert_eq!(directory.upper(place), upper);
                directory.insert_after(place, &separator, leaf);
                map.insert(separator.clone(), leaf);
            }
            let end = key(random(3000), 1);
            let before = map.range(..end.clone()).next_back().unwrap();
            assert_eq!(directory.leaf(directory.find_before(Some(&end))), *before.1);
        }
        assert!(directory.chunks.len() > 5);
        assert!(directory.leaves().eq(map.values().copied()));
        assert_eq!(directory.leaf(directory.find(b"a")), 0);
        assert_eq!(directory.find(b"z"), directory.find_before(None));
    }
}
