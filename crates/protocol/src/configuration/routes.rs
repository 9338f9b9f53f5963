//! Finds the partitions of keys, and the cores that can serve them, by a configuration.

use alloc::vec::Vec;

use placement::{
    Cover, CoverCosts, ForeignKey, KeyInterval, ReplexKind, Schema, SortColumn, Value, ValueRef,
    ascending, cover, prefix_end,
};

use super::{Configuration, PartitionState, Place, PlacedTable, ServerState};
use crate::identity::{CoreId, PartitionId};
use crate::planted::{self, Bug};

/// Returns the partition of the primary replex that has this pk. Returns none if the bytes are no
/// valid key of the table. It allocates nothing if the primary replex is partitioned by the whole
/// pk.
pub fn primary_partition(table: &PlacedTable, pk: &[u8]) -> Option<PartitionId> {
    let layout = &table.layout;
    let primary = layout.primary();
    let replex = &layout.replexes[primary];
    let by_pk = |key_space: usize| {
        let columns = &layout.key_spaces[key_space].columns;
        columns.is_empty() || *columns == table.schema.primary_key
    };
    let number = if replex.axes.iter().all(|axis| by_pk(axis.key_space)) {
        layout.partition_of_key(primary, pk)
    } else {
        let values = table.schema.decode_primary_key(pk).ok()?;
        let value = |column: usize| {
            let place = table.schema.primary_key.iter().position(|it| *it == column);
            place.map_or(ValueRef::Null, |place| values[place].as_ref())
        };
        layout.partition_of_values(primary, value)
    };
    Some(table.primary_partition(number))
}

/// Returns the position of the replex that serves an index of the schema; none stands for the
/// primary key.
pub fn replex_of_index(table: &PlacedTable, index: Option<usize>) -> Option<u8> {
    let kind = index.map_or(ReplexKind::Primary, |index| ReplexKind::Index { index });
    let position = |replex: &placement::Replex| replex.kind == kind;
    let position = table.layout.replexes.iter().position(position)?;
    u8::try_from(position).ok()
}

/// Returns whether a replex number means the same copy in two configurations of a table: the same
/// order and the same partitions, of rows or of entries. A new replex may get the number of a
/// dropped one.
pub fn is_same_copy(one: &PlacedTable, other: &PlacedTable, replex: u8) -> bool {
    fn parts(table: &PlacedTable, replex: u8) -> Option<impl PartialEq + use<'_>> {
        let replex = table.layout.replexes.get(usize::from(replex))?;
        let axes = replex.axes.iter().map(|axis| {
            let key_space = &table.layout.key_spaces[axis.key_space];
            (key_space, axis.stride, axis.divisions)
        });
        let is_thin = matches!(replex.kind, ReplexKind::Thin { .. });
        let ranges = replex.ranges.as_ref();
        let ranges = ranges.filter(|_| !planted::is(Bug::OldRangesRead));
        let starts = ranges.map(|ranges| &ranges.starts);
        Some((
            is_thin,
            &replex.sort_columns,
            axes.collect::<Vec<_>>(),
            starts,
        ))
    }
    parts(one, replex) == parts(other, replex)
}

/// Returns whether a partition is one of a thin index.
pub fn is_thin(configuration: &Configuration, partition: PartitionId) -> bool {
    let table = configuration.table(partition.table);
    let replex = table.and_then(|it| it.layout.replexes.get(usize::from(partition.replex)));
    replex.is_some_and(|replex| matches!(replex.kind, ReplexKind::Thin { .. }))
}

/// Returns the partitions of a replex that can have rows with these column values and with keys of
/// this range, ascending, or in the order of their ranges if ranges divide the replex. It is one
/// partition if the values determine the key space of the replex.
pub fn partitions<'a>(
    table: &PlacedTable,
    replex: u8,
    equated: impl Fn(usize) -> Option<ValueRef<'a>>,
    keys: KeyInterval<'_>,
) -> Vec<u32> {
    let number = usize::from(replex);
    if let Some(ranges) = &table.layout.replexes[number].ranges {
        return ranges.overlapping(keys);
    }
    let constraints = table.layout.constraints_of_predicate(equated);
    table.layout.partitions(&constraints, number)
}

/// Returns the partitions that have all rows which refer by a foreign key to the row with this pk:
/// of the copy of the child of which the fewest have to be asked. The keys of these rows in its
/// order begin with the pk. None if no such copy serves, or the bytes are no primary key.
pub fn partitions_of_children(
    parent: &Schema,
    (child, key): (&PlacedTable, &ForeignKey),
    pk: &[u8],
) -> Option<Vec<PartitionId>> {
    let values = parent.decode_primary_key(pk).ok()?;
    let wanted = ascending(&key.columns);
    let end = prefix_end(pk);
    let copies = child.readable().filter(|number| {
        let replex = &child.layout.replexes[*number];
        let is_index = matches!(replex.kind, ReplexKind::Primary | ReplexKind::Index { .. });
        is_index && replex.sort_columns.starts_with(&wanted)
    });
    let candidates = copies.map(|number| {
        let replex = u8::try_from(number).expect("a table has few replexes");
        let equated = |column: usize| {
            let place = key.columns.iter().position(|it| *it == column)?;
            values.get(place).map(Value::as_ref)
        };
        let numbers = partitions(child, replex, equated, (pk, end.as_deref()));
        let partitions = numbers.into_iter().map(|number| PartitionId {
            table: child.id,
            replex,
            number,
        });
        partitions.collect::<Vec<_>>()
    });
    candidates.min_by_key(Vec::len)
}

/// Returns whether the partition cannot be read at this place: the place does not serve, or its
/// server is down or not in the configuration.
pub fn is_down(configuration: &Configuration, place: Place) -> bool {
    let server = configuration.server(place.core.server);
    let serves = place.state == PartitionState::Serving || planted::is(Bug::ReadWhileRebuilding);
    !serves || server.is_none_or(|server| server.state == ServerState::Down)
}

/// Returns the cheapest cover of a lost partition, if there is one (Replex section 3.1). Its
/// partitions are not down, and their cores can be reached.
pub fn cover_of_lost(
    configuration: &Configuration,
    lost: PartitionId,
    is_reachable: &dyn Fn(CoreId) -> bool,
) -> Option<Cover> {
    let table = configuration.table(lost.table)?;
    let available = |replex: usize, number: u32| {
        let place = table.placement[replex][number as usize];
        !is_down(configuration, place) && is_reachable(place.core)
    };
    let lost = (usize::from(lost.replex), lost.number);
    cover(&table.layout, lost, &available, &CoverCosts::LOOKUP)
}

/// Returns the order of a replex, as [`placement::Layout::order`] does.
pub fn order(table: &PlacedTable, replex: u8) -> Vec<SortColumn> {
    table.layout.order(usize::from(replex))
}
