//! Stores the members of operations at this core, in the order of their keys.
//!
//! A step uses the same member repeatedly, and the map is large. So the members are in slots, and
//! the slot that was used last is found without a search. The number of slots is the highest number
//! of members so far, at most `CoreLimits::operations_max`.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::{Index, RangeBounds};

use crate::core::member::{Member, MemberKey};

/// The members of this core, by operation and partition.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// The slot of each one.
    slots_by_key: BTreeMap<MemberKey, usize>,
    slots: Vec<Option<Member>>,
    /// Slots without a member.
    free: Vec<usize>,
    /// The member that was found last, and its slot; it is still there.
    last: Cell<Option<(MemberKey, usize)>>,
}

impl Members {
    pub fn get(&self, key: &MemberKey) -> Option<&Member> {
        self.slots[self.slot(key)?].as_ref()
    }

    pub fn get_mut(&mut self, key: &MemberKey) -> Option<&mut Member> {
        let slot = self.slot(key)?;
        self.slots[slot].as_mut()
    }

    pub fn contains_key(&self, key: &MemberKey) -> bool {
        self.slot(key).is_some()
    }

    pub fn insert(&mut self, key: MemberKey, member: Member) {
        assert!(!self.contains_key(&key), "a member comes once");
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(member);
        self.slots_by_key.insert(key, slot);
        self.last.set(Some((key, slot)));
    }

    pub fn remove(&mut self, key: &MemberKey) -> Option<Member> {
        let slot = self.slots_by_key.remove(key)?;
        self.last.set(None);
        self.free.push(slot);
        self.slots[slot].take()
    }

    pub fn len(&self) -> usize {
        self.slots_by_key.len()
    }

    pub fn keys(&self) -> impl Iterator<Item = &MemberKey> {
        self.slots_by_key.keys()
    }

    pub fn values(&self) -> impl Iterator<Item = &Member> {
        self.iter().map(|(_, member)| member)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&MemberKey, &Member)> {
        self.range(..)
    }

    pub fn range(
        &self,
        keys: impl RangeBounds<MemberKey>,
    ) -> impl Iterator<Item = (&MemberKey, &Member)> {
        let slots = self.slots_by_key.range(keys);
        slots.map(|(key, slot)| {
            let member = self.slots[*slot].as_ref();
            (key, member.expect("a key has its member"))
        })
    }

    fn slot(&self, key: &MemberKey) -> Option<usize> {
        if let Some((last, slot)) = self.last.get()
            && last == *key
        {
            return Some(slot);
        }
        let slot = *self.slots_by_key.get(key)?;
        self.last.set(Some((*key, slot)));
        Some(slot)
    }
}

impl Index<&MemberKey> for Members {
    type Output = Member;

    fn index(&self, key: &MemberKey) -> &Member {
        self.get(key).expect("the caller knows it to be there")
    }
}
