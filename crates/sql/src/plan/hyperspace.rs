//! Plans a `WHERE` over a hyperspace. Whichever of its columns are equated, the plan reads the
//! fewest cells that can hold a matching row (HyperDex's search by several attributes).
//!
//! If the `WHERE` fixes all columns of the hyperspace, the access is a lookup. If it fixes only
//! some, the planner prefers any index that serves the `WHERE`, which reads one partition for each
//! key. If it does not fix the first column of the hyperspace's order, the cells are read whole.
//! Then the planner also prefers an index of which it reads one range in every partition.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use placement::{Value, columns_of};
use protocol::configuration::PlacedTable;
use protocol::configuration::routes;

use super::access::{
    Access, AccessChoice, AccessKind, AccessRank, CLASS_CELLS, CLASS_LOOKUP, CLASS_PARTIAL,
    KEYS_MAX, ReadRequirements, combined, range_of, segment, serves,
};
use super::facts::{Facts, KnownKeys};

/// Partitions, each with the values of the leading columns that it is asked for.
type Cells = BTreeSet<(Vec<Value>, u32)>;

/// Returns the access by a hyperspace, if the facts fix one of its columns.
pub(super) fn candidate(
    table: &PlacedTable,
    replex: usize,
    facts: &Facts,
    request: ReadRequirements<'_>,
) -> Option<(AccessRank, AccessChoice)> {
    let dimensions = columns_of(&table.layout.replexes[replex].sort_columns);
    let tuples = tuples(&dimensions, facts);
    if tuples[0].is_empty() {
        return None;
    }
    let is_fixed = |column: &&usize| tuples[0].iter().any(|(fixed, _)| fixed == *column);
    let leading = dimensions.iter().take_while(is_fixed).count();
    // Ranges within cells are worth it only while they are few.
    let most = KEYS_MAX.max(table.layout.partition_count(replex) as usize);
    let (fixed, cells) = [leading, 0].into_iter().find_map(|fixed| {
        let cells = cells(table, replex, &tuples, fixed);
        (cells.len() <= most).then_some((fixed, cells))
    })?;
    let order_columns = table.layout.order(replex);
    let (range, mut taken) = range_of(facts, order_columns.get(fixed).map(|it| it.column));
    for sorted in &order_columns[..fixed] {
        let known = facts.keys(sorted.column).expect("the column is fixed");
        taken.extend(&known.conjuncts);
    }
    let descending = serves(table, &order_columns, fixed, request);
    let is_whole = fixed == dimensions.len();
    let partitions: BTreeSet<u32> = cells.iter().map(|(_, partition)| *partition).collect();
    // Of some columns only the number of cells counts.
    let rank = (
        match is_whole {
            true => CLASS_LOOKUP,
            false if fixed > 0 || range.is_bounded() => CLASS_PARTIAL,
            false => CLASS_CELLS,
        },
        Reverse(if is_whole { fixed } else { 0 }),
        false,
        is_whole && descending.is_none(),
        false,
        partitions.len(),
        replex,
    );
    let access = Access {
        replex,
        kind: AccessKind::Lookup,
        segments: cells
            .into_iter()
            .filter_map(|(keys, partition)| segment(&order_columns, keys, partition, &range))
            .collect(),
        order_columns,
        fixed,
        range,
    };
    let choice = AccessChoice {
        access,
        taken,
        descending,
    };
    Some((rank, choice))
}

/// Returns every combination of the values that columns are fixed to, up to a limit; an empty
/// combination if nothing is fixed.
fn tuples(dimensions: &[usize], facts: &Facts) -> Vec<Vec<(usize, Value)>> {
    let mut tuples = vec![Vec::new()];
    for column in dimensions {
        let Some(KnownKeys { keys, .. }) = facts.keys(*column) else {
            continue;
        };
        if tuples.len() * keys.len() > KEYS_MAX {
            continue;
        }
        tuples = combined(&tuples, keys, |key| (*column, key.clone()));
    }
    tuples
}

/// Returns the cells that can match, each with the values of the first `fixed` columns, in the
/// order of these values. No row is in two of them.
fn cells(
    table: &PlacedTable,
    replex: usize,
    tuples: &[Vec<(usize, Value)>],
    fixed: usize,
) -> Cells {
    let mut cells = BTreeSet::new();
    for tuple in tuples {
        let equated = |column: usize| {
            let found = tuple.iter().find(|(it, _)| *it == column);
            found.map(|(_, value)| value.as_ref())
        };
        let keys: Vec<Value> = tuple[..fixed].iter().map(|it| it.1.clone()).collect();
        let number = u8::try_from(replex).expect("a table has few replexes");
        let partitions = routes::partitions(table, number, equated, (&[], None));
        cells.extend(partitions.into_iter().map(|it| (keys.clone(), it)));
    }
    cells
}
