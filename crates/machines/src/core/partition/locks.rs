//! The keys that operations hold in one partition, and the operations that wait for them.
//!
//! Waiting operations get a key in the order of their arrival (R7). A read must wait for a held key
//! (R10). Operations hold keys until their outcome is settled, so that constraints are only checked
//! against settled rows (R8). The callers exclude deadlocks by the order in which they acquire
//! keys.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use protocol::identity::OperationId;
use smallvec::SmallVec;

use crate::core::key::Key;

/// The held keys of one partition.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    keys: BTreeMap<Key, Lock>,
    /// The number of keys that several operations hold.
    shared: usize,
}

/// The holders and waiters of one key.
#[derive(Debug, Default)]
struct Lock {
    /// The holder. There are several only after a restart: operations that this core adopted, and
    /// that had held the key one after the other.
    holders: SmallVec<[OperationId; 1]>,
    waiters: VecDeque<OperationId>,
}

/// The state of a key after an operation has released it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// No operation holds it or waits for it.
    Free,
    /// This operation must try again.
    Wakes(OperationId),
    /// Other operations hold it.
    Held,
}

impl Locks {
    /// Acquires the key, or joins its queue. Returns true if the operation holds it now.
    pub fn acquire(&mut self, key: &Key, operation: OperationId) -> bool {
        if let Some(lock) = self.keys.get_mut(key) {
            if lock.holders.contains(&operation) {
                return true;
            }
            if lock.holders.is_empty() && lock.waiters.front() == Some(&operation) {
                lock.waiters.pop_front();
                lock.holders.push(operation);
                return true;
            }
            if !lock.waiters.contains(&operation) {
                lock.waiters.push_back(operation);
            }
            return false;
        }
        self.force(key, operation);
        true
    }

    /// Acquires keys in order, up to the first one that another operation holds. Returns how many.
    pub fn acquire_in_order(&mut self, keys: &[Key], operation: OperationId) -> usize {
        let blocked = keys.iter().position(|key| !self.acquire(key, operation));
        blocked.unwrap_or(keys.len())
    }

    /// Acquires the key if no operation holds it or waits for it. Returns true if it did.
    pub fn take_free(&mut self, key: &Key, operation: OperationId) -> bool {
        match self.keys.entry(Arc::clone(key)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(free) => {
                free.insert(Lock {
                    holders: SmallVec::from_buf([operation]),
                    waiters: VecDeque::new(),
                });
                true
            }
        }
    }

    /// Acquires the key although another operation holds it, for operations that had voted before a
    /// restart.
    pub fn force(&mut self, key: &Key, operation: OperationId) {
        let lock = self.keys.entry(Arc::clone(key)).or_default();
        if !lock.holders.contains(&operation) {
            lock.holders.push(operation);
            self.shared += usize::from(lock.holders.len() == 2);
        }
    }

    /// Releases the key, or leaves its queue.
    pub fn release(&mut self, key: &Key, operation: OperationId) -> Released {
        let Entry::Occupied(mut entry) = self.keys.entry(Arc::clone(key)) else {
            return Released::Free;
        };
        let lock = entry.get_mut();
        let was_shared = lock.holders.len() > 1;
        lock.holders.retain(|holder| *holder != operation);
        self.shared -= usize::from(was_shared && lock.holders.len() < 2);
        lock.waiters.retain(|waiter| *waiter != operation);
        if lock.holders.is_empty() && lock.waiters.is_empty() {
            entry.remove();
            return Released::Free;
        }
        match lock.waiters.front() {
            Some(waiter) if lock.holders.is_empty() => Released::Wakes(*waiter),
            _ => Released::Held,
        }
    }

    /// Returns whether several operations hold a key.
    pub fn is_any_shared(&self) -> bool {
        self.shared > 0
    }

    /// Returns the other operations that hold the key.
    pub fn other_holders(
        &self,
        key: &[u8],
        operation: OperationId,
    ) -> impl Iterator<Item = OperationId> {
        let holders = self.holders(key).iter().copied();
        holders.filter(move |holder| *holder != operation)
    }

    /// Returns whether an operation holds the key.
    pub fn is_held(&self, key: &[u8]) -> bool {
        self.keys
            .get(key)
            .is_some_and(|lock| !lock.holders.is_empty())
    }

    /// Returns the holders of the key.
    pub fn holders(&self, key: &[u8]) -> &[OperationId] {
        self.keys.get(key).map_or(&[], |lock| &lock.holders)
    }

    /// Returns the number of operations that wait for the key.
    pub fn waiters(&self, key: &[u8]) -> usize {
        self.keys.get(key).map_or(0, |lock| lock.waiters.len())
    }

    /// Returns the operations that hold keys from `start` up to `end`.
    pub fn holders_in(&self, start: &[u8], end: Option<&[u8]>) -> Vec<OperationId> {
        if self.keys.is_empty() || end.is_some_and(|end| end <= start) {
            return Vec::new();
        }
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.keys.range::<[u8], _>((Bound::Included(start), end));
        range
            .flat_map(|(_, lock)| lock.holders.iter().copied())
            .collect()
    }

    /// Returns every wait as a pair of waiting operation and holder, to check that there is no
    /// cycle (invariant I11).
    pub fn waits(&self) -> impl Iterator<Item = (OperationId, OperationId)> {
        self.keys.values().flat_map(|lock| {
            let waits = lock.waiters.iter();
            waits.flat_map(|waiter| lock.holders.iter().map(|holder| (*waiter, *holder)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(sequence: u64) -> OperationId {
        OperationId {
            sequence,
            ..OperationId::default()
        }
    }

    #[test]
    fn first_come_first_served() {
        let mut locks = Locks::default();
        let [a, b, c] = [1, 2, 3].map(operation);
        assert!(locks.acquire(&Key::from(&b"k"[..]), a));
        assert!(!locks.acquire(&Key::from(&b"k"[..]), b));
        assert!(!locks.acquire(&Key::from(&b"k"[..]), c));
        assert_eq!(locks.release(&Key::from(&b"k"[..]), a), Released::Wakes(b));
        assert!(
            !locks.acquire(&Key::from(&b"k"[..]), c),
            "b is before c although it has not come back yet"
        );
        assert!(locks.acquire(&Key::from(&b"k"[..]), b));
        assert_eq!(locks.waits().collect::<Vec<_>>(), [(c, b)]);
        assert_eq!(locks.release(&Key::from(&b"k"[..]), b), Released::Wakes(c));
        assert!(locks.acquire(&Key::from(&b"k"[..]), c));
        assert_eq!(locks.release(&Key::from(&b"k"[..]), c), Released::Free);
        assert!(!locks.is_held(b"k"));
    }

    #[test]
    fn a_waiter_that_gives_up_lets_the_next_one_by() {
        let mut locks = Locks::default();
        let [a, b, c] = [1, 2, 3].map(operation);
        locks.acquire(&Key::from(&b"k"[..]), a);
        locks.acquire(&Key::from(&b"k"[..]), b);
        locks.acquire(&Key::from(&b"k"[..]), c);
        assert_eq!(locks.release(&Key::from(&b"k"[..]), b), Released::Held);
        assert_eq!(locks.release(&Key::from(&b"k"[..]), a), Released::Wakes(c));
    }

    #[test]
    fn holders_are_found_by_range() {
        let mut locks = Locks::default();
        let [a, b] = [1, 2].map(operation);
        locks.acquire(&Key::from(&b"ka"[..]), a);
        locks.acquire(&Key::from(&b"kb"[..]), b);
        assert_eq!(locks.holders_in(b"k", Some(b"kb")), [a]);
        assert_eq!(locks.holders_in(b"kb", None), [b]);
        assert!(locks.holders_in(b"l", None).is_empty());
        assert!(locks.holders_in(b"l", Some(b"k")).is_empty());
    }
}
