//! The tables, columns and rows that transactions touch, by the primary's numbers.
//!
//! A row is known by a hash of its canonical key. Two rows with one hash count as one row. That can
//! send a read to the primary or delay a transaction, but can never hide a conflict.

use alloc::collections::BTreeMap;

use xxhash_rust::xxh3::Xxh3Default;

/// A table, identified by its OID on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableOid(pub u32);

/// A column, identified by its attribute number in its table, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnNumber(pub u16);

impl ColumnNumber {
    /// Stands for the set of rows of a table. A write of all columns may create or delete rows, and
    /// every read of the table depends on this.
    pub const EXISTENCE: ColumnNumber = ColumnNumber(0);
}

/// A row of a table: the hash of a key and its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowHash(pub u64);

impl RowHash {
    /// Returns the row with these values of a key. `key` is 0 for the canonical key, otherwise the
    /// OID of a unique index. Each value is the canonical text of its type (from `int_out` and the
    /// like).
    ///
    /// Every statement and every image names a row by the canonical key; images name it by its
    /// other unique keys too, so that two transactions that would wait for one another at a unique
    /// index of a replica are known to be dependent (R31).
    pub fn of_key(key: u32, values: impl IntoIterator<Item = impl AsRef<[u8]>>) -> RowHash {
        let mut hash = Xxh3Default::new();
        hash.update(&key.to_le_bytes());
        for value in values {
            let value = value.as_ref();
            hash.update(&(value.len() as u64).to_le_bytes());
            hash.update(value);
        }
        RowHash(hash.digest())
    }
}

/// The position of a commit in the primary's WAL (R29), in bytes: the position after its commit
/// record. It is the same after every restart, rises with every commit, and has gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tsid(pub u64);

impl core::fmt::Display for Tsid {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// A multiset of items: for each item the number of statements that touch it, and the number of
/// statements that touch all items.
///
/// The paper's hash tables of counters (section 4.2): because items are counted, removing an added
/// set leaves exactly the earlier items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedItems<T: Ord> {
    all: u64,
    named: BTreeMap<T, u64>,
}

impl<T: Ord> Default for CountedItems<T> {
    fn default() -> CountedItems<T> {
        CountedItems {
            all: 0,
            named: BTreeMap::new(),
        }
    }
}

impl<T: Ord + Copy> FromIterator<T> for CountedItems<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> CountedItems<T> {
        CountedItems {
            all: 0,
            named: items.into_iter().map(|item| (item, 1)).collect(),
        }
    }
}

impl<T: Ord + Copy> CountedItems<T> {
    /// Returns the set of all items: `*`.
    pub fn all() -> CountedItems<T> {
        CountedItems {
            all: 1,
            named: BTreeMap::new(),
        }
    }

    /// Returns a set of one item.
    pub fn one(item: T) -> CountedItems<T> {
        [item].into_iter().collect()
    }

    /// Returns whether the set has all items.
    pub fn is_all(&self) -> bool {
        self.all > 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.all == 0 && self.named.is_empty()
    }

    /// Returns the items that are named one by one, ascending.
    pub fn named(&self) -> impl Iterator<Item = T> + '_ {
        self.named.keys().copied()
    }

    /// Returns whether both sets have a common item.
    pub fn meets(&self, other: &CountedItems<T>) -> bool {
        if self.is_all() || other.is_all() {
            return !self.is_empty() && !other.is_empty();
        }
        let (few, many) = match self.named.len() <= other.named.len() {
            true => (&self.named, &other.named),
            false => (&other.named, &self.named),
        };
        few.keys().any(|item| many.contains_key(item))
    }

    /// Adds the items and counts of another set.
    pub fn merge(&mut self, other: &CountedItems<T>) {
        self.all += other.all;
        for (item, count) in &other.named {
            *self.named.entry(*item).or_default() += count;
        }
    }

    /// Adds the other set's items and counts, without copying them if it is the only user.
    pub fn absorb(&mut self, other: CountedItems<T>) {
        match self.is_empty() {
            true => *self = other,
            false => self.merge(&other),
        }
    }

    /// Adds one item.
    pub fn add(&mut self, item: T) {
        *self.named.entry(item).or_default() += 1;
    }

    /// Subtracts items that were merged before.
    pub fn remove(&mut self, other: &CountedItems<T>) {
        assert!(self.all >= other.all, "only what was merged is removed");
        self.all -= other.all;
        for (item, count) in &other.named {
            let here = self
                .named
                .get_mut(item)
                .expect("only what was merged is removed");
            assert!(*here >= *count, "only what was merged is removed");
            *here -= count;
            if *here == 0 {
                self.named.remove(item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn row_hashes_keep_values_and_keys_apart() {
        let row = |key, values: &[&str]| RowHash::of_key(key, values.iter().map(|v| v.as_bytes()));
        assert_ne!(row(0, &["ab", "c"]), row(0, &["a", "bc"]));
        assert_ne!(row(0, &["a"]), row(7, &["a"]));
        assert_eq!(row(0, &["a", "b"]), row(0, &["a", "b"]));
    }

    #[test]
    fn all_intersects_every_nonempty_set() {
        let some: CountedItems<ColumnNumber> = [ColumnNumber(2)].into_iter().collect();
        assert!(CountedItems::all().meets(&some));
        assert!(some.meets(&CountedItems::all()));
        assert!(!CountedItems::all().meets(&CountedItems::<ColumnNumber>::default()));
    }

    #[test]
    fn tsid_prints_as_a_log_position() {
        assert_eq!(Tsid(0x1_0000_00AB).to_string(), "1/AB");
    }
}
