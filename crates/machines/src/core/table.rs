//! A table as the machine uses it: its layout, and the facts about each partition that follow from
//! the layout.
//!
//! It is computed once per epoch of the table, so that requests only look things up. Only this
//! module turns a row change into the entries that a partition loses and gains, and into the keys
//! that the operation holds there.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use placement::{
    Column, Constraint, Durability, KEY_BYTES_MAX, KeyInterval, Layout, RangeTransfer, RowError,
    RowView, Schema, SortColumn, ValueRef, encode_row_refs, encode_sorted,
};
use protocol::configuration::{Configuration, PartitionState, Place, PlacedTable, Sealing};
use protocol::identity::{CoreId, Epoch, PartitionId, ServerId, TableId};
use protocol::operation::{OldRow, Prepare, RowChange, Vote};
use protocol::planted::{self, Bug};

use crate::core::key::Key;

/// The machine's view of a table.
#[derive(Debug)]
pub(crate) struct TableInfo {
    pub id: TableId,
    /// The epoch of the table's last change.
    pub epoch: Epoch,
    /// Set while its chains are stopped.
    pub sealing: Option<Sealing>,
    /// The cores that hold a partition of it.
    pub holders: BTreeSet<CoreId>,
    /// The number of other servers that must vouch for a core that serves the table without the
    /// coordinator.
    pub vouchers_needed: usize,
    /// Servers that are down and whose loss blocks the table.
    pub lost: BTreeSet<ServerId>,
    pub schema: Schema,
    pub layout: Layout,
    pub placement: Vec<Vec<Place>>,
    /// The replexes, by number.
    pub replexes: Vec<ReplexInfo>,
    /// For each column, whether it is in a key space or a sorting key. Such columns are sent as old
    /// coordinates.
    pub key_columns: Vec<bool>,
    /// The columns of a row of old coordinates: those of the table, all nullable.
    pub coordinate_columns: Vec<Column>,
    /// For each column, whether it is in a sorting key with a constraint. A second request of an
    /// operation may not change it.
    pub constrained_columns: Vec<bool>,
    /// Whether a column is generated.
    pub has_generated: bool,
    /// The largest size of a row in bytes for which no key can be too long.
    pub row_bytes_short: usize,
    /// The numbers of all copies and unique thin indexes in the order of chains.
    chain: Vec<usize>,
    /// The numbers of the thin indexes whose partitions are side members.
    sides: Vec<usize>,
    /// By replex, its position in chains, from 1: what k and x count (R3); 0 if vacant.
    positions: Vec<usize>,
    /// k of R3: the position of the last replex that can vote no, counted from 1.
    pub last_voter: usize,
    /// x of R3: the position of the replex, counted from 1, at which a decision must be durable
    /// before any client may see it. If it is the number of replexes, durable prepares are enough.
    pub settle_position: usize,
    pub sync: bool,
}

/// The machine's view of a replex.
#[derive(Debug)]
pub(crate) struct ReplexInfo {
    /// The columns of an entry's key: the sorting key, then the pk. If the sorting key is the pk,
    /// only the pk.
    pub entry_columns: Vec<SortColumn>,
    /// The number of columns of the sorting key.
    pub sort_count: usize,
    pub constraint: Option<Constraint>,
    /// The number of the order of its entries (`Layout::order_of`).
    pub order: u8,
    /// The orders in which the copy's partitions keep local entries: the orders of copies that
    /// serve. In orders of other copies, rows can have keys that are too long.
    pub entry_orders: Vec<u8>,
    /// Whether the copy is being added and has never served.
    pub is_building: bool,
    /// Whether a partition of the replex is being filled from copies.
    pub is_filled: bool,
    /// Of a thin index, whether entries have each column. Empty for a copy.
    pub entry_has: Vec<bool>,
}

/// The effect of a change on one partition. A change without effect changes no entry of a thin
/// index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionEffect {
    /// The key of the removed entry.
    pub remove: Option<Key>,
    /// The key of the added or replaced entry.
    pub put: Option<Key>,
}

/// Returns whether a change may move the row in the order of a copy. A thin index that is being
/// filled must then have the entry from the operation, even if the entry stays the same (R55).
fn may_move(change: &RowChange) -> bool {
    matches!(change.old, OldRow::Keys { .. }) && !planted::is(Bug::UnchangedEntryLeftOut)
}

/// Returns the length up to which no row has a key that is too long. Every byte of a row takes at
/// most two bytes in a key, and four if the sorting key of a replex and the pk after it have a
/// column in common. Each column adds at most four bytes.
fn row_bytes_short(replexes: &[ReplexInfo]) -> usize {
    let has_column_twice = |replex: &ReplexInfo| {
        let (sort, pk) = replex.entry_columns.split_at(replex.sort_count);
        pk.iter()
            .any(|it| sort.iter().any(|own| own.column == it.column))
    };
    let short = |replex: &ReplexInfo| {
        let own_bytes = 4 * replex.entry_columns.len();
        let times = if has_column_twice(replex) { 4 } else { 2 };
        KEY_BYTES_MAX.saturating_sub(own_bytes) / times
    };
    replexes.iter().map(short).min().unwrap_or(0)
}

impl ReplexInfo {
    fn new(table: &PlacedTable, position: usize) -> ReplexInfo {
        let layout = &table.layout;
        let replex = &layout.replexes[position];
        let serves = |order: usize| {
            let mut serving = layout.copy_numbers().filter(|it| !table.is_building(*it));
            serving.any(|replex| layout.order_of(replex) == order)
        };
        let number = |replex: usize| u8::try_from(replex).expect("a table has at most 63 replexes");
        let orders = layout.entry_orders(position).into_iter();
        ReplexInfo {
            entry_columns: layout.order(position),
            sort_count: replex.sort_columns.len(),
            constraint: layout.constraint(&table.schema, position),
            order: number(layout.order_of(position)),
            entry_orders: orders.filter(|order| serves(*order)).map(number).collect(),
            is_building: table.is_building(position),
            is_filled: table.placement[position]
                .iter()
                .any(|place| place.state == PartitionState::Rebuilding),
            entry_has: match layout.entry_columns(&table.schema, position) {
                Some(in_entries) => {
                    let columns = 0..table.schema.columns.len();
                    columns.map(|it| in_entries.contains(&it)).collect()
                }
                None => Vec::new(),
            },
        }
    }

    /// Returns whether the replex is a thin index.
    pub fn is_thin(&self) -> bool {
        !self.entry_has.is_empty()
    }
}

impl TableInfo {
    pub fn new(table: &PlacedTable, configuration: &Configuration) -> TableInfo {
        let schema = table.schema.clone();
        let layout = table.layout.clone();
        let mut key_columns = alloc::vec![false; schema.columns.len()];
        let mut constrained_columns = key_columns.clone();
        let key_spaces = layout.key_spaces.iter().flat_map(|space| &space.columns);
        for column in key_spaces.chain(&schema.primary_key) {
            key_columns[*column] = true;
        }
        let positions = 0..layout.replexes.len();
        let replexes: Vec<ReplexInfo> = positions.map(|it| ReplexInfo::new(table, it)).collect();
        for (replex, info) in layout.replexes.iter().zip(&replexes) {
            for column in &replex.sort_columns {
                key_columns[column.column] = true;
                constrained_columns[column.column] |= info.constraint.is_some();
            }
            for (column, has) in info.entry_has.iter().enumerate() {
                key_columns[column] |= *has;
            }
        }
        let mut coordinate_columns = schema.columns.clone();
        coordinate_columns
            .iter_mut()
            .for_each(|column| column.nullable = true);
        let sync = schema.durability == Durability::Sync;
        let chain = layout.chain(&schema);
        let sides = layout.side_numbers(&schema);
        let mut positions = alloc::vec![0; replexes.len()];
        for (position, number) in (1..).zip(&chain) {
            positions[*number] = position;
        }
        let k = layout.voters(&schema);
        let has_generated = schema.generated_columns().next().is_some();
        TableInfo {
            id: table.id,
            epoch: table.epoch,
            sealing: table.sealing.clone(),
            holders: table.holders(),
            vouchers_needed: table.vouchers_needed(),
            lost: configuration.lost(table),
            has_generated,
            schema,
            layout,
            placement: table.placement.clone(),
            key_columns,
            coordinate_columns,
            constrained_columns,
            row_bytes_short: row_bytes_short(&replexes),
            replexes,
            chain,
            sides,
            positions,
            last_voter: k,
            // With `replicated`, durable means in memory, and a crash is a loss of it.
            settle_position: configuration.decision_position(table),
            sync,
        }
    }

    /// Returns whether all members that can vote no have voted yes.
    pub fn is_agreed(&self, prepare: &Prepare) -> bool {
        self.covers_voters(prepare.chain(), &prepare.votes)
    }

    /// Returns whether `votes`, which are the votes of the chain's first members, are all yes, and
    /// include the votes of all members that can vote no.
    pub fn covers_voters(&self, chain: &[PartitionId], votes: &[Vote]) -> bool {
        let mut open = chain[votes.len()..].iter();
        votes.iter().all(|vote| *vote == Vote::Yes)
            && open.all(|id| self.position(*id) > self.last_voter)
    }

    /// Returns the position of a partition's replex in chains, counted from 1; 0 if the copy was
    /// dropped.
    pub fn position(&self, partition: PartitionId) -> usize {
        let position = self.positions.get(usize::from(partition.replex));
        position.copied().unwrap_or(0)
    }

    /// Returns whether the outcome may be visible as soon as a member has the decision, without a
    /// durable record `Decided`.
    pub fn settles_at_decision(&self) -> bool {
        self.settle_position == self.chain.len()
    }

    pub fn durability(&self) -> Durability {
        self.schema.durability
    }

    pub fn place(&self, partition: PartitionId) -> Option<Place> {
        let replex = self.placement.get(usize::from(partition.replex))?;
        replex.get(partition.number as usize).copied()
    }

    /// Returns whether a partition is one of the primary replex.
    pub fn is_primary(&self, partition: PartitionId) -> bool {
        usize::from(partition.replex) == self.layout.primary()
    }

    /// Returns whether a partition is of a thin index.
    pub fn is_thin(&self, partition: PartitionId) -> bool {
        self.replexes[usize::from(partition.replex)].is_thin()
    }

    pub fn partition(&self, replex: usize, number: u32) -> PartitionId {
        let replex = u8::try_from(replex).expect("a table has at most 63 replexes");
        PartitionId {
            table: self.id,
            replex,
            number,
        }
    }

    /// Returns the key columns of the row before a change, with NULL in the other columns. Returns
    /// none if there was no row, if the change affects no key column, or if the bytes are invalid.
    pub fn old_row<'a>(&'a self, change: &'a RowChange) -> Option<RowView<'a>> {
        match &change.old {
            OldRow::Keys { row, .. } => RowView::parse(&self.coordinate_columns, row).ok(),
            OldRow::Absent | OldRow::SameKeys { .. } => None,
        }
    }

    pub fn new_row<'a>(&'a self, change: &'a RowChange) -> Option<RowView<'a>> {
        let row = change.new.as_ref()?;
        RowView::parse(&self.schema.columns, row).ok()
    }

    /// Returns the members of the operation of one change, and the number of side members. First
    /// comes the chain: in each copy and each unique thin index the partition that the row leaves
    /// and the one that it enters, in chain order (HyperDex's value-dependent chaining). Then come
    /// the partitions of other thin indexes that an entry leaves or enters. If a thin index is
    /// being filled, an operation that moves a row in some order visits it even if the entry stays
    /// the same (R55).
    pub fn members(&self, change: &RowChange) -> (Vec<PartitionId>, u8) {
        let mut members = self.chain(change);
        if self.sides.is_empty() {
            return (members, 0);
        }
        let count = members.len();
        let rows = [self.old_row(change), self.new_row(change)];
        let may_move = may_move(change);
        for &replex in &self.sides {
            let is_followed = may_move && self.replexes[replex].is_filled;
            if !is_followed && !self.changes_entry(replex, change, &rows) {
                continue;
            }
            let numbers = rows.iter().flatten();
            let numbers = numbers.map(|row| self.layout.partition_of_row(replex, row));
            let numbers: BTreeSet<u32> = numbers.collect();
            members.extend(numbers.into_iter().map(|it| self.partition(replex, it)));
        }
        let sides = members.len() - count;
        (
            members,
            u8::try_from(sides).expect("a table has at most 63 replexes"),
        )
    }

    /// Returns whether a change adds, removes or changes an entry of a thin index.
    fn changes_entry(
        &self,
        replex: usize,
        change: &RowChange,
        rows: &[Option<RowView<'_>>; 2],
    ) -> bool {
        match (&change.old, rows) {
            (OldRow::SameKeys { .. }, _) => false,
            (OldRow::Keys { .. }, [Some(old), Some(new)]) => {
                let has = self.replexes[replex].entry_has.iter().enumerate();
                let mut columns = has.filter(|(_, has)| **has).map(|(column, _)| column);
                columns.any(|column| !old.column(column).is_same(new.column(column)))
            }
            _ => true,
        }
    }

    /// Returns the row as a partition stores it: the whole row, or of a thin index the columns of
    /// its entries.
    pub fn stored_form<'a>(&self, partition: PartitionId, row: &'a [u8]) -> Cow<'a, [u8]> {
        let info = &self.replexes[usize::from(partition.replex)];
        if !info.is_thin() {
            return Cow::Borrowed(row);
        }
        let row = RowView::checked_before(&self.schema.columns, row);
        let row = row.expect("a row in use decodes");
        Cow::Owned(self.entry_of(info, &row))
    }

    /// Returns an entry of a thin index as an operation would store it now: an entry that is older
    /// than a column has fewer columns.
    ///
    /// # Errors
    /// The entry does not decode.
    pub fn present_entry(&self, replex: usize, entry: &[u8]) -> Result<Vec<u8>, RowError> {
        let row = RowView::parse(&self.coordinate_columns, entry)?;
        Ok(self.entry_of(&self.replexes[replex], &row))
    }

    fn entry_of(&self, info: &ReplexInfo, row: &RowView<'_>) -> Vec<u8> {
        let values = info.entry_has.iter().enumerate();
        let values = values.map(|(column, has)| match has {
            true => row.column(column),
            false => ValueRef::Null,
        });
        let values: Vec<ValueRef<'_>> = values.collect();
        let entry = encode_row_refs(&self.coordinate_columns, &values);
        entry.expect("a part of a row is a row")
    }

    /// Returns the columns of the rows that partitions of a replex store.
    pub fn stored_columns(&self, replex: usize) -> &[Column] {
        match self.replexes[replex].is_thin() {
            true => &self.coordinate_columns,
            false => &self.schema.columns,
        }
    }

    /// Returns the chain of one change.
    fn chain(&self, change: &RowChange) -> Vec<PartitionId> {
        let rows = [self.old_row(change), self.new_row(change)];
        let mut chain = Vec::with_capacity(self.chain.len() + 1);
        for &replex in &self.chain {
            let mut numbers = rows
                .iter()
                .flatten()
                .map(|row| self.layout.partition_of_row(replex, row));
            let first = numbers.next().expect("a change has an old or a new row");
            let second = numbers.next().unwrap_or(first);
            chain.push(self.partition(replex, first.min(second)));
            if first != second {
                chain.push(self.partition(replex, first.max(second)));
            }
        }
        chain
    }

    /// Returns whether a partition has a range of its order.
    pub fn is_ranged(&self, partition: PartitionId) -> bool {
        self.layout.is_ranged(usize::from(partition.replex))
    }

    /// Returns the part of a range of keys that a partition has, see
    /// [`Layout::keys_in_partition`].
    pub fn keys_in_partition<'a>(
        &'a self,
        partition: PartitionId,
        keys: KeyInterval<'a>,
    ) -> KeyInterval<'a> {
        let replex = usize::from(partition.replex);
        self.layout
            .keys_in_partition(replex, partition.number, keys)
    }

    /// Returns whether a partition may give a row that it stores to readers and other partitions.
    /// After a transfer, rows beyond its range are left for a while (R47).
    pub fn gives(&self, partition: PartitionId, row: &RowView<'_>) -> bool {
        let replex = usize::from(partition.replex);
        !self.is_ranged(partition)
            || self.layout.partition_of_row(replex, row) == partition.number
            || planted::is(Bug::RowsOutsideGiven)
    }

    /// Returns the transfers of the ranges of a copy or a thin index.
    pub fn transfers(&self, replex: u8) -> &[RangeTransfer] {
        let replex = self.layout.replexes.get(usize::from(replex));
        let ranges = replex.and_then(|replex| replex.ranges.as_ref());
        ranges.map_or(&[], |ranges| &ranges.transfers)
    }

    /// Returns the sorted table's key for a row in a replex.
    pub fn entry_key(&self, replex: usize, row: &RowView<'_>) -> Vec<u8> {
        let columns = &self.replexes[replex].entry_columns;
        encode_sorted(columns, |column| row.column(column))
    }

    /// Returns the key of a row in a partition, from the row as the partition stores it; none if
    /// the row is not in the partition.
    pub fn key_in(&self, partition: PartitionId, row: &[u8]) -> Option<Vec<u8>> {
        let replex = usize::from(partition.replex);
        let row = RowView::parse(self.stored_columns(replex), row).ok()?;
        let is_here = self.layout.is_in_partition(replex, partition.number, &row);
        is_here.then(|| self.entry_key(replex, &row))
    }

    /// Returns the effect of a row change on a partition. Adds the keys that its operation holds at
    /// this partition: the keys of the entries, and the key or group of a constraint.
    pub fn part(
        &self,
        partition: PartitionId,
        change: &RowChange,
        held: &mut Vec<Key>,
    ) -> PartitionEffect {
        let replex = usize::from(partition.replex);
        let rows = [self.old_row(change), self.new_row(change)];
        let info = &self.replexes[replex];
        let is_in_chain = info.is_thin() && info.constraint.is_some();
        if is_in_chain && !may_move(change) && !self.changes_entry(replex, change, &rows) {
            // A unique thin index is in the chain of every operation. An operation that moves the
            // row in some order writes the entry even if it stays the same (R55). This does not
            // depend on whether the index is being filled now, because a log may be replayed later.
            return PartitionEffect::default();
        }
        let [remove, put] = rows.map(|row| {
            let here =
                |row: &RowView<'_>| self.layout.is_in_partition(replex, partition.number, row);
            row.filter(here)
                .map(|row| Key::from(self.entry_key(replex, &row)))
        });
        // The same entry is replaced, not removed and put.
        let remove = if remove == put { None } else { remove };
        held.extend(remove.iter().chain(&put).cloned());
        if self.replexes[replex].constraint.is_some() {
            for row in rows.iter().flatten() {
                held.extend(self.constrained_key(replex, row).map(Key::from));
            }
        }
        PartitionEffect { remove, put }
    }

    /// Returns the key of a unique index, or the group of a dense one. Returns none if a NULL
    /// exempts the row, as in SQL.
    pub fn constrained_key(&self, replex: usize, row: &RowView<'_>) -> Option<Vec<u8>> {
        let info = &self.replexes[replex];
        let count = match info.constraint? {
            Constraint::Unique => info.sort_count,
            Constraint::Dense => info.sort_count - 1,
        };
        let columns = &info.entry_columns[..count];
        if columns.iter().any(|it| row.column(it.column).is_null()) {
            return None;
        }
        Some(encode_sorted(columns, |column| row.column(column)))
    }

    /// Returns the value that a dense index counts: the last column of the sorting key.
    pub fn dense_value(&self, replex: usize, row: &RowView<'_>) -> i64 {
        let info = &self.replexes[replex];
        match row.column(info.entry_columns[info.sort_count - 1].column) {
            ValueRef::Int64(value) => value,
            _ => panic!("a dense index ends with an Int64 that is never NULL"),
        }
    }
}
