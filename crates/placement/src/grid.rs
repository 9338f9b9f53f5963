//! The grids of a table's copies. They determine which replexes a table has, and which partitions a
//! row, a predicate or a lost partition belongs to (Replex sections 2.2 and 3, HyperDex subspaces).
//!
//! A replex is a list of axes. An axis keeps `(slot / stride) mod divisions` of its key space's
//! slot. The partition number is the mixed radix of these coordinates, and the first axis weighs
//! most. Key spaces are cut by hash. The copy of an index, or a thin index, may be divided by
//! ranges of its order instead ([`Ranges`]).

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::key::{Sink, encode_value_to};
use crate::ranges::{KeyInterval, Ranges};
use crate::row::RowView;
use crate::schema::{Constraint, Schema, ThinIndex};
use crate::slots::{Residue, SlotConstraints};
use crate::sort::{SortColumn, ascending, columns_of};
use crate::value::ValueRef;

/// Columns whose hash determines a row's slot, and the number of slots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeySpace {
    /// The columns, as indexes into the table's columns. Without columns every row has slot 0.
    pub columns: Vec<usize>,
    /// The number of slots, at least 1:
    /// `slot = xxh3_64(memcomparable key of the columns) mod slots`.
    pub slots: u32,
}

/// One dimension of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Index into [`Layout::key_spaces`].
    pub key_space: usize,
    /// The divisor that removes the lower part of the slot; at least 1.
    pub stride: u32,
    /// The number of coordinates; at least 1.
    pub divisions: u32,
}

/// The purpose of a replex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplexKind {
    /// Partitioned by the primary key. It orders the operations of each row.
    Primary,
    /// Partitioned by a secondary index.
    Index {
        /// Index into [`Schema::indexes`].
        index: usize,
    },
    /// Shared by several indexes, to make lookups of their lost partitions cheap (Replex section
    /// 3).
    Hybrid,
    /// Partitioned and sorted like another replex (Replex section 2.4).
    Exact {
        /// Index into [`Layout::replexes`].
        of: usize,
    },
    /// One axis per column, for searches by any of them (HyperDex).
    Hyperspace,
    /// A copy with another number of partitions. It replaces another copy once it has all of its
    /// rows. Until then no statement reads it.
    Successor {
        /// Index into [`Layout::replexes`].
        of: usize,
    },
    /// The entries of a thin index. It is no copy: rows cannot be restored from it.
    Thin {
        /// Index into [`Schema::thin`].
        index: usize,
        /// Which copy of the entries, below [`ThinIndex::copies`].
        copy: u8,
    },
    /// The number of a dropped copy. It has no partitions, until another copy gets the number.
    Vacant,
}

/// A full copy of a table, or the entries of a thin index, divided into partitions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replex {
    /// Unique within the table.
    pub name: String,
    /// The replex's purpose.
    pub kind: ReplexKind,
    /// The axes of the grid; without axes there is one partition.
    pub axes: Vec<Axis>,
    /// The sorting key within a partition. The store appends the primary key. Only thin indexes
    /// have descending columns.
    pub sort_columns: Vec<SortColumn>,
    /// Ranges of the order that divide the copy of an index, or a thin index, instead of axes.
    pub ranges: Option<Ranges>,
}

/// All copies of a table. A copy keeps its number, which is its place in the list, because files on
/// disk have it in their names. The primary replex of a new table has number 0.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The key spaces of the axes.
    pub key_spaces: Vec<KeySpace>,
    /// The copies, by number.
    pub replexes: Vec<Replex>,
    /// Whether copies keep local entries; see [`Schema::local_entries`].
    pub local_entries: bool,
}

impl Layout {
    /// Returns the numbers of all copies and thin indexes, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        let replexes = self.replexes.iter().enumerate();
        let replexes = replexes.filter(|(_, replex)| replex.kind != ReplexKind::Vacant);
        replexes.map(|(number, _)| number)
    }

    /// Returns the numbers of all copies, ascending.
    pub fn copy_numbers(&self) -> impl Iterator<Item = usize> {
        self.numbers().filter(|number| !self.is_thin(*number))
    }

    /// Returns the numbers of all thin indexes, ascending.
    pub fn thin_numbers(&self) -> impl Iterator<Item = usize> {
        self.numbers().filter(|number| self.is_thin(*number))
    }

    /// Returns the numbers of the thin indexes whose partitions are side members of operations,
    /// ascending. Unique ones vote, so they are members of the chain (R48).
    pub fn side_numbers(&self, schema: &Schema) -> Vec<usize> {
        let mut numbers: Vec<usize> = self.thin_numbers().collect();
        numbers.retain(|number| !self.votes(schema, *number));
        numbers
    }

    /// Returns whether a replex has entries instead of rows.
    pub fn is_thin(&self, number: usize) -> bool {
        matches!(self.replexes[number].kind, ReplexKind::Thin { .. })
    }

    /// Returns whether a replex is a copy of a thin index other than the first. Statements name the
    /// first.
    pub fn is_thin_copy(&self, number: usize) -> bool {
        matches!(
            self.replexes[number].kind,
            ReplexKind::Thin { copy: 1.., .. }
        )
    }

    /// Returns the numbers of the other copies of a thin index, ascending.
    pub fn other_thin(&self, number: usize) -> impl Iterator<Item = usize> {
        let of = |number: usize| match self.replexes[number].kind {
            ReplexKind::Thin { index, .. } => Some(index),
            _ => None,
        };
        let own = of(number);
        let all = self.thin_numbers();
        all.filter(move |other| *other != number && of(*other) == own)
    }

    /// Returns the partitions of other copies of a thin index that can have entries which this
    /// partition has or is to receive.
    pub fn twins(&self, replex: usize, partition: u32) -> Vec<(usize, u32)> {
        if self.other_thin(replex).next().is_none() {
            return Vec::new();
        }
        let ranges = self.replexes[replex].ranges.as_ref();
        let own = ranges.map(|ranges| ranges.keys_of(partition));
        self.twins_of_keys(replex, partition, &own.unwrap_or_default())
    }

    /// Returns the partitions of other copies of a thin index that can have entries with such keys.
    /// If hashes divide the index, they are those with the number `partition`.
    pub fn twins_of_keys(
        &self,
        replex: usize,
        partition: u32,
        keys: &[KeyInterval<'_>],
    ) -> Vec<(usize, u32)> {
        let others = self.other_thin(replex).flat_map(|other| {
            let numbers = match &self.replexes[other].ranges {
                Some(ranges) => {
                    let overlapping = keys.iter().flat_map(|keys| ranges.overlapping(*keys));
                    overlapping.collect()
                }
                None => vec![partition],
            };
            numbers.into_iter().map(move |number| (other, number))
        });
        others.collect()
    }

    /// Returns whether ranges of its order divide a replex, and not hashes.
    pub fn is_ranged(&self, number: usize) -> bool {
        self.replexes[number].ranges.is_some()
    }

    /// Returns the columns that the entries of a thin index have: those of its order, and included
    /// ones. Returns none if the replex is another one.
    pub fn entry_columns(&self, schema: &Schema, number: usize) -> Option<Vec<usize>> {
        let ReplexKind::Thin { index, .. } = self.replexes.get(number)?.kind else {
            return None;
        };
        let mut columns = self.order_columns(number);
        columns.extend_from_slice(&schema.thin[index].included);
        Some(columns)
    }

    /// Returns the number of the primary replex.
    ///
    /// # Panics
    /// If there is none, which [`Layout::validate`] refuses.
    pub fn primary(&self) -> usize {
        let mut replexes = self.replexes.iter();
        let primary = replexes.position(|replex| replex.kind == ReplexKind::Primary);
        primary.expect("a table has a primary replex")
    }

    /// Returns the number of copies, n.
    pub fn copies(&self) -> usize {
        self.copy_numbers().count()
    }

    /// Returns the numbers of all copies and unique thin indexes in the order in which an operation
    /// visits them: the primary replex, then those that can vote no (unique, dense), then the
    /// others (R3). All operations have the same order (R7).
    pub fn chain(&self, schema: &Schema) -> Vec<usize> {
        let mut chain: Vec<usize> = self.numbers().collect();
        chain.retain(|number| !self.is_thin(*number) || self.votes(schema, *number));
        let is_primary = |number: usize| self.replexes[number].kind == ReplexKind::Primary;
        chain.sort_by_key(|number| (!is_primary(*number), !self.votes(schema, *number)));
        chain
    }

    /// Returns the number of partitions of a replex.
    pub fn partition_count(&self, replex: usize) -> u32 {
        let replex = &self.replexes[replex];
        if replex.kind == ReplexKind::Vacant {
            return 0;
        }
        if let Some(ranges) = &replex.ranges {
            return ranges.count;
        }
        replex.axes.iter().map(|axis| axis.divisions).product()
    }

    /// Returns the partitions of a replex that have rows or entries, ascending: those with a range,
    /// if ranges divide the replex.
    pub fn partitions_with_rows(&self, replex: usize) -> Vec<u32> {
        let Some(ranges) = &self.replexes[replex].ranges else {
            return (0..self.partition_count(replex)).collect();
        };
        let mut partitions = ranges.overlapping((&[], None));
        partitions.sort_unstable();
        partitions
    }

    /// Returns the columns that order the entries of a replex, as [`Layout::order`] does, without
    /// their directions.
    pub fn order_columns(&self, replex: usize) -> Vec<usize> {
        columns_of(&self.order(replex))
    }

    /// Returns the order of the entries of a replex: its sorting key, then the primary key. If the
    /// sorting key is the primary key, the columns occur once.
    pub fn order(&self, replex: usize) -> Vec<SortColumn> {
        let primary_key = &self.replexes[self.primary()].sort_columns;
        let mut columns = self.replexes[replex].sort_columns.clone();
        if columns != *primary_key {
            columns.extend_from_slice(primary_key);
        }
        columns
    }

    /// Returns the first copy with the same order of entries as this replex. Its number identifies
    /// the order. A thin index whose order no copy has identifies its order itself.
    pub fn order_of(&self, replex: usize) -> usize {
        let same = |other: &usize| {
            self.replexes[*other].sort_columns == self.replexes[replex].sort_columns
        };
        self.copy_numbers().find(same).unwrap_or(replex)
    }

    /// Returns the orders, by [`Layout::order_of`], in which partitions of a replex keep local
    /// entries: all orders of the table's copies that their own order does not serve. Returns none
    /// if the table has no local entries, or if the replex is a thin index.
    pub fn entry_orders(&self, member: usize) -> Vec<usize> {
        if !self.local_entries || self.is_thin(member) {
            return Vec::new();
        }
        let own = self.order(member);
        let orders = self.copy_numbers().filter(|it| self.order_of(*it) == *it);
        orders
            .filter(|order| !own.starts_with(&self.order(*order)))
            .collect()
    }

    /// Returns the index of the key space with these columns and slots. Adds it if it does not
    /// exist.
    pub fn key_space(&mut self, columns: &[usize], slots: u32) -> usize {
        let key_space = KeySpace {
            columns: columns.to_vec(),
            slots,
        };
        let known = self.key_spaces.iter().position(|other| *other == key_space);
        known.unwrap_or_else(|| {
            self.key_spaces.push(key_space);
            self.key_spaces.len() - 1
        })
    }

    /// Returns how many replexes, from the head of the chain on, can vote no: k of R3. The primary
    /// always can, because of duplicate keys.
    pub fn voters(&self, schema: &Schema) -> usize {
        self.numbers()
            .filter(|number| self.votes(schema, *number))
            .count()
    }

    fn votes(&self, schema: &Schema, number: usize) -> bool {
        let is_primary = self.replexes[number].kind == ReplexKind::Primary;
        is_primary || self.constraint(schema, number).is_some()
    }

    /// Returns the condition that an index or a thin index imposes on the rows, if any.
    pub fn constraint(&self, schema: &Schema, number: usize) -> Option<Constraint> {
        match self.replexes[number].kind {
            ReplexKind::Index { index } => schema.indexes[index].constraint,
            // One vote is enough, because each copy has all entries.
            ReplexKind::Thin { index, copy } => {
                let votes = schema.thin[index].unique && copy == 0;
                votes.then_some(Constraint::Unique)
            }
            ReplexKind::Primary
            | ReplexKind::Hybrid
            | ReplexKind::Exact { .. }
            | ReplexKind::Hyperspace
            | ReplexKind::Successor { .. }
            | ReplexKind::Vacant => None,
        }
    }

    /// Returns the slot of a row in each key space. `values` returns a column's value by its index.
    pub fn slots<'a>(&self, values: &dyn Fn(usize) -> ValueRef<'a>) -> Vec<u32> {
        (0..self.key_spaces.len())
            .map(|key_space| self.slot(key_space, values))
            .collect()
    }

    /// Returns the slot of a row in one key space. It allocates only if the key is longer than 256
    /// bytes.
    pub fn slot<'a>(&self, key_space: usize, values: impl Fn(usize) -> ValueRef<'a>) -> u32 {
        let KeySpace { columns, slots } = &self.key_spaces[key_space];
        if columns.is_empty() || *slots == 1 {
            return 0;
        }
        let mut key = KeyBuffer::new();
        for column in columns {
            encode_value_to(&mut key, values(*column));
        }
        self.slot_of_key(key_space, key.bytes())
    }

    /// Returns the slot for the memcomparable key of a key space's columns, for callers that have
    /// the encoded key. Invalid keys also get a slot, but no row has them.
    pub fn slot_of_key(&self, key_space: usize, key: &[u8]) -> u32 {
        let KeySpace { columns, slots } = &self.key_spaces[key_space];
        if columns.is_empty() || *slots == 1 {
            return 0;
        }
        let hash = xxhash_rust::xxh3::xxh3_64(key);
        (hash % u64::from(*slots)) as u32
    }

    /// Returns the partition of a replex that holds a row.
    pub fn partition_of_row(&self, replex: usize, row: &RowView<'_>) -> u32 {
        if let Some(ranges) = &self.replexes[replex].ranges {
            return ranges.owner(self.key_in_order(replex, |it| row.column(it)).bytes());
        }
        self.partition_by(replex, |key_space| {
            self.slot(key_space, |column| row.column(column))
        })
    }

    /// Returns the partition of a row that is not encoded, in a replex. See
    /// [`Layout::partition_of_row`].
    pub fn partition_of_values<'a>(
        &self,
        replex: usize,
        values: impl Fn(usize) -> ValueRef<'a>,
    ) -> u32 {
        if let Some(ranges) = &self.replexes[replex].ranges {
            return ranges.owner(self.key_in_order(replex, values).bytes());
        }
        self.partition_by(replex, |key_space| self.slot(key_space, &values))
    }

    /// Returns the partition of a replex that holds rows with this memcomparable key. The key has
    /// exactly the columns of each key space. If ranges divide the replex, the key may be any
    /// prefix, and the result is the first partition with it.
    pub fn partition_of_key(&self, replex: usize, key: &[u8]) -> u32 {
        if let Some(ranges) = &self.replexes[replex].ranges {
            return ranges.owner(key);
        }
        self.partition_by(replex, |key_space| self.slot_of_key(key_space, key))
    }

    /// Returns whether a row belongs into a partition of a replex. While a range is transferred,
    /// its rows belong into the partition that gives them, too, and into the one that receives
    /// them.
    pub fn is_in_partition(&self, replex: usize, partition: u32, row: &RowView<'_>) -> bool {
        let Some(ranges) = &self.replexes[replex].ranges else {
            return self.partition_of_row(replex, row) == partition;
        };
        let key = self.key_in_order(replex, |it| row.column(it));
        ranges.has(partition, key.bytes())
    }

    /// Returns the part of a range of keys that a partition has, in the order of its replex. The
    /// part is empty if the partition has none of it. A replex that ranges do not divide may have
    /// every key in every partition.
    pub fn keys_in_partition<'a>(
        &'a self,
        replex: usize,
        partition: u32,
        (start, end): KeyInterval<'a>,
    ) -> KeyInterval<'a> {
        let Some(ranges) = &self.replexes[replex].ranges else {
            return (start, end);
        };
        let Some((first, after)) = ranges.of(partition) else {
            return (&[], Some(&[]));
        };
        let ends = [after, end].into_iter().flatten();
        (first.max(start), ends.min())
    }

    /// Returns the key of a row in the order of a replex.
    fn key_in_order<'a>(&self, replex: usize, values: impl Fn(usize) -> ValueRef<'a>) -> KeyBuffer {
        let sort_columns = &self.replexes[replex].sort_columns;
        let primary_key = &self.replexes[self.primary()].sort_columns;
        let primary_key = primary_key.iter().filter(|_| sort_columns != primary_key);
        let mut key = KeyBuffer::new();
        for column in sort_columns.iter().chain(primary_key) {
            column.encode_to(&mut key, values(column.column));
        }
        key
    }

    /// Returns the partition of a row with these slots, one per key space, in a replex. See
    /// [`Layout::partition_of_row`].
    pub fn partition_of_slots(&self, replex: usize, slots: &[u32]) -> u32 {
        assert_eq!(slots.len(), self.key_spaces.len(), "one slot per key space");
        self.partition_by(replex, |key_space| slots[key_space])
    }

    /// Returns whether a row satisfies the constraints. A member of a cover returns only such rows.
    pub fn admits_row(&self, constraints: &SlotConstraints, row: &RowView<'_>) -> bool {
        assert_eq!(
            constraints.residues.len(),
            self.key_spaces.len(),
            "one entry per key space"
        );
        let mut constrained =
            (0..self.key_spaces.len()).filter(|it| !constraints.residues[*it].is_empty());
        constrained.all(|key_space| {
            let slot = self.slot(key_space, |column| row.column(column));
            constraints.admits_slot(key_space, slot)
        })
    }

    /// Returns the slots that a predicate determines: those of each key space whose columns it
    /// equates to values.
    pub fn constraints_of_predicate<'a>(
        &self,
        equated: impl Fn(usize) -> Option<ValueRef<'a>>,
    ) -> SlotConstraints {
        let mut constraints = SlotConstraints::any(self.key_spaces.len());
        for (index, key_space) in self.key_spaces.iter().enumerate() {
            if key_space
                .columns
                .iter()
                .all(|column| equated(*column).is_some())
            {
                let value = |column| equated(column).expect("checked for every column");
                constraints.require_slot(index, self.slot(index, value), key_space.slots);
            }
        }
        constraints
    }

    /// Returns the slots of the rows in a partition, as constraints.
    pub fn constraints_of_partition(&self, replex: usize, partition: u32) -> SlotConstraints {
        assert!(
            partition < self.partition_count(replex),
            "partitions count from 0"
        );
        let mut constraints = SlotConstraints::any(self.key_spaces.len());
        let mut rest = partition;
        for axis in self.replexes[replex].axes.iter().rev() {
            let Axis {
                key_space,
                stride,
                divisions,
            } = *axis;
            let coordinate = rest % divisions;
            rest /= divisions;
            constraints.require(
                key_space,
                Residue {
                    stride,
                    divisions,
                    coordinate,
                },
            );
        }
        constraints
    }

    /// Returns the partitions of a replex that can have a row with these constraints, ascending.
    /// Lookups, reads after failures and rebuilds use it.
    pub fn partitions(&self, constraints: &SlotConstraints, replex: usize) -> Vec<u32> {
        assert_eq!(
            constraints.residues.len(),
            self.key_spaces.len(),
            "one entry per key space"
        );
        if let Some(ranges) = &self.replexes[replex].ranges {
            // Slots say nothing about ranges.
            return ranges.overlapping((&[], None));
        }
        let mut partitions = vec![0];
        for (index, key_space) in self.key_spaces.iter().enumerate() {
            let mut allowed = constraints.allowed_slots(index, key_space.slots);
            // The weights of other axes are kept apart: each key space contributes its own digits
            // of the partition number, and the number is their sum.
            let weights: Vec<(Axis, u32)> = self
                .weighted_axes(replex)
                .filter(|(axis, _)| axis.key_space == index)
                .collect();
            if weights.is_empty() {
                if allowed.next().is_none() {
                    return Vec::new();
                }
                continue;
            }
            let mut digits: Vec<u32> = allowed
                .map(|slot| {
                    weights
                        .iter()
                        .map(|(axis, weight)| axis.coordinate(slot) * weight)
                        .sum()
                })
                .collect();
            digits.sort_unstable();
            digits.dedup();
            partitions = partitions
                .iter()
                .flat_map(|partition| digits.iter().map(move |digit| partition + digit))
                .collect();
        }
        partitions.sort_unstable();
        partitions
    }

    pub(crate) fn partition_by(&self, replex: usize, slot: impl Fn(usize) -> u32) -> u32 {
        let axes = &self.replexes[replex].axes;
        axes.iter().fold(0, |number, axis| {
            number * axis.divisions + axis.coordinate(slot(axis.key_space))
        })
    }

    /// Returns the axes of a replex, each with the step along it in the partition number.
    fn weighted_axes(&self, replex: usize) -> impl Iterator<Item = (Axis, u32)> {
        let axes = self.replexes[replex].axes.iter().rev();
        axes.scan(1, |weight, axis| {
            let own = *weight;
            *weight *= axis.divisions;
            Some((*axis, own))
        })
    }

    /// Returns the replex of a copy of a thin index. Adds the key space that it needs.
    pub(crate) fn thin_replex(&mut self, schema: &Schema, index: usize, copy: u8) -> Replex {
        let ThinIndex {
            columns, by_range, ..
        } = &schema.thin[index];
        let divisions = schema.partitions;
        let axes = match by_range {
            true => Vec::new(),
            false => vec![Axis {
                key_space: self.key_space(&columns_of(columns), divisions),
                stride: 1,
                divisions,
            }],
        };
        Replex {
            name: schema.thin[index].replex_name(copy),
            kind: ReplexKind::Thin { index, copy },
            axes,
            sort_columns: columns.clone(),
            ranges: by_range.then(Ranges::whole),
        }
    }

    /// Returns the replex of the primary key or of an index. Adds the key space that it needs.
    pub(crate) fn index_replex(
        &mut self,
        schema: &Schema,
        columns: &[usize],
        index: Option<usize>,
    ) -> Replex {
        let definition = index.map(|index| &schema.indexes[index]);
        let is_ranged = definition.is_some_and(|it| it.by_range);
        let axes = match is_ranged {
            true => Vec::new(),
            false => {
                let group = schema.partition_columns(index);
                // A sequence without groups is one partition: more would stay empty.
                let divisions = if group.is_empty() {
                    1
                } else {
                    schema.partitions
                };
                vec![Axis {
                    key_space: self.key_space(group, divisions),
                    stride: 1,
                    divisions,
                }]
            }
        };
        Replex {
            name: definition.map_or(&schema.name, |it| &it.name).clone(),
            kind: index.map_or(ReplexKind::Primary, |index| ReplexKind::Index { index }),
            axes,
            sort_columns: ascending(columns),
            ranges: is_ranged.then(Ranges::whole),
        }
    }
}

impl Axis {
    /// Returns the coordinate of a slot along this axis.
    pub fn coordinate(&self, slot: u32) -> u32 {
        slot / self.stride % self.divisions
    }
}

/// An encoded key on the stack, to be hashed; on the heap when it is long.
struct KeyBuffer {
    inline: [u8; KeyBuffer::INLINE_BYTES],
    length: usize,
    /// Holds the whole key once it no longer fits inline.
    spilled: Vec<u8>,
}

impl KeyBuffer {
    const INLINE_BYTES: usize = 256;

    fn new() -> KeyBuffer {
        KeyBuffer {
            inline: [0; KeyBuffer::INLINE_BYTES],
            length: 0,
            spilled: Vec::new(),
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.spilled.is_empty() {
            &self.inline[..self.length]
        } else {
            &self.spilled
        }
    }
}

impl Sink for KeyBuffer {
    fn write(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if self.spilled.is_empty() && end <= KeyBuffer::INLINE_BYTES {
            self.inline[self.length..end].copy_from_slice(bytes);
            self.length = end;
            return;
        }
        if self.spilled.is_empty() {
            self.spilled.extend_from_slice(&self.inline[..self.length]);
        }
        self.spilled.extend_from_slice(bytes);
    }
}
