//! Constraints on slots: the slots that a row can have under a predicate, in a lost partition, or
//! both.
//!
//! A constraint is a conjunction of residues per key space. Key spaces are taken as independent;
//! where two are not (the same columns cut in two ways) the answers are too wide, never too
//! narrow. Which cells of a grid a constraint admits is in `grid`.

use alloc::vec;
use alloc::vec::Vec;

/// `(slot / stride) mod divisions == coordinate`: the condition of one coordinate of a grid on a
/// slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Residue {
    /// The value of the same name in [`crate::Axis`], at least 1.
    pub stride: u32,
    /// The value of the same name in [`crate::Axis`], at least 1.
    pub divisions: u32,
    /// Below `divisions`.
    pub coordinate: u32,
}

impl Residue {
    /// Returns whether the residue's numbers are valid.
    pub fn is_possible(self) -> bool {
        self.stride > 0 && self.coordinate < self.divisions
    }

    /// Returns whether a slot has this residue.
    pub fn admits(self, slot: u32) -> bool {
        slot / self.stride % self.divisions == self.coordinate
    }

    /// Returns whether every slot that satisfies `self` satisfies `other`, as far as arithmetic
    /// alone shows: `self` fixes all digits that `other` fixes.
    fn implies(self, other: Residue) -> bool {
        if !other.stride.is_multiple_of(self.stride) {
            return false;
        }
        let skipped = other.stride / self.stride;
        let Some(needed) = skipped.checked_mul(other.divisions) else {
            return false;
        };
        self.divisions.is_multiple_of(needed)
            && self.coordinate / skipped % other.divisions == other.coordinate
    }
}

/// For each key space, the residues that a slot must satisfy, all of them; none means any slot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotConstraints {
    /// Indexed by key space; no residue implies another of the same key space.
    pub residues: Vec<Vec<Residue>>,
}

impl SlotConstraints {
    /// Returns constraints that allow everything, for this many key spaces.
    pub fn any(key_spaces: usize) -> SlotConstraints {
        SlotConstraints {
            residues: vec![Vec::new(); key_spaces],
        }
    }

    /// Adds one residue, keeping the list sorted and free of residues that the others imply. So
    /// equal sets of residues are equal, in whatever order they were added.
    pub fn require(&mut self, key_space: usize, residue: Residue) {
        let residues = &mut self.residues[key_space];
        if residues.iter().any(|held| held.implies(residue)) {
            return;
        }
        residues.retain(|held| !residue.implies(*held));
        let at = residues.partition_point(|held| *held < residue);
        residues.insert(at, residue);
    }

    /// Fixes the slot of a key space of `slots` slots, as a predicate on its columns does.
    pub fn require_slot(&mut self, key_space: usize, slot: u32, slots: u32) {
        assert!(slot < slots, "slots count from 0");
        self.require(
            key_space,
            Residue {
                stride: 1,
                divisions: slots,
                coordinate: slot,
            },
        );
    }

    /// Returns the conjunction of both.
    pub fn and(&self, other: &SlotConstraints) -> SlotConstraints {
        let mut both = self.clone();
        for (key_space, residues) in other.residues.iter().enumerate() {
            for residue in residues {
                both.require(key_space, *residue);
            }
        }
        both
    }

    /// Returns whether a slot of a key space satisfies its residues.
    pub fn admits_slot(&self, key_space: usize, slot: u32) -> bool {
        self.residues[key_space]
            .iter()
            .all(|residue| residue.admits(slot))
    }

    /// Returns whether a row with these slots, one per key space, satisfies all residues.
    pub fn admits(&self, slots: &[u32]) -> bool {
        assert_eq!(slots.len(), self.residues.len(), "one slot per key space");
        slots
            .iter()
            .enumerate()
            .all(|(key_space, slot)| self.admits_slot(key_space, *slot))
    }

    /// Returns the slots of a key space of `slots` slots that satisfy its residues, rising.
    pub fn allowed_slots(&self, key_space: usize, slots: u32) -> impl Iterator<Item = u32> {
        // A residue that fixes the highest digits leaves a single run of slots to look at; an
        // exact slot, the usual case, leaves that slot.
        let mut run = 0..slots;
        for residue in &self.residues[key_space] {
            if u64::from(residue.stride) * u64::from(residue.divisions) >= u64::from(slots) {
                let start = residue.coordinate.saturating_mul(residue.stride);
                run.start = run.start.max(start);
                run.end = run.end.min(start.saturating_add(residue.stride));
            }
        }
        run.filter(move |slot| self.admits_slot(key_space, *slot))
    }
}
