//! Chooses the replex that answers a `WHERE`, and the ranges of its partitions to read.
//!
//! A replex can answer if the columns of its key space are all equated (or listed by `IN`): then
//! each combination of values is in one partition, where it is a prefix of the sort order, and a
//! range predicate on the next column of that order narrows it further. The best is, in this
//! order: the whole primary key, a whole unique key, the most equated columns, a range, the
//! order that is requested. Then come hyperspaces (`hyperspace`). Hybrids and replicas are cut and
//! sorted by columns of indexes that are there too, and that serve whatever they would. Without
//! any, only a scan is left, and that must be asked for.

use std::cmp::Reverse;

use placement::{Constraint, ReplexKind, Schema, Value};
use protocol::configuration::PlacedTable;
use protocol::expression::Expression;

use super::access::{
    Access, AccessChoice, AccessKind, AccessRank, KEYS_MAX, ReadRequirements, Segment, ValueRange,
    combined, order_columns, range_of, segment, serves,
};
use super::facts::Facts;
use super::hyperspace;

/// Returns the best access by an index, or none.
pub(super) fn by_index(
    table: &PlacedTable,
    conjuncts: &[Expression],
    request: ReadRequirements<'_>,
) -> Option<AccessChoice> {
    let facts = Facts::of(&table.schema, conjuncts);
    if facts.impossible {
        return Some(AccessChoice {
            access: Access {
                replex: 0,
                kind: AccessKind::Nothing,
                segments: Vec::new(),
                order_columns: order_columns(table, 0),
                fixed: 0,
                range: ValueRange::default(),
            },
            taken: Vec::new(),
            descending: Some(false),
        });
    }
    let candidates =
        table
            .readable()
            .filter_map(|replex| match table.layout.replexes[replex].kind {
                ReplexKind::Hyperspace => hyperspace::candidate(table, replex, &facts, request),
                _ => candidate(table, replex, &facts, request),
            });
    candidates
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, choice)| choice)
}

/// Returns a scan of the replex that comes in the order asked for, or else of the primary one.
pub(super) fn by_scan(table: &PlacedTable, request: ReadRequirements<'_>) -> AccessChoice {
    let ordered = table.readable().find_map(|replex| {
        let descending = serves(table, &order_columns(table, replex), 0, request)?;
        Some((replex, descending))
    });
    let (replex, descending) = match ordered {
        Some((replex, descending)) => (replex, Some(descending)),
        None => (0, None),
    };
    let partitions = 0..table.layout.partition_count(replex);
    let segments = partitions.map(|partition| Segment {
        partition,
        start: Vec::new(),
        end: None,
        keys: Vec::new(),
    });
    AccessChoice {
        access: Access {
            replex,
            kind: AccessKind::Scan,
            segments: segments.collect(),
            order_columns: order_columns(table, replex),
            fixed: 0,
            range: ValueRange::default(),
        },
        taken: Vec::new(),
        descending,
    }
}

/// Returns the indexes that a `WHERE` may fix, as `by_tail (tailnum)`, for people.
pub(super) fn describe_indexes(table: &PlacedTable) -> Vec<String> {
    let names = |columns| column_names(&table.schema, columns);
    let replexes = table.readable().map(|it| &table.layout.replexes[it]);
    let shown = replexes.filter_map(|replex| match replex.kind {
        ReplexKind::Primary => Some(format!("the primary key ({})", names(&replex.sort_columns))),
        ReplexKind::Index { index } => {
            let columns = key_columns(&table.schema, index);
            Some(format!("{} ({})", replex.name, names(columns)))
        }
        ReplexKind::Hybrid
        | ReplexKind::Exact { .. }
        | ReplexKind::Hyperspace
        | ReplexKind::Vacant => None,
    });
    shown.collect()
}

/// Returns the hyperspaces of which a `WHERE` may fix any column, as `s (origin, dest)`, for
/// people.
pub(super) fn describe_hyperspaces(table: &PlacedTable) -> Vec<String> {
    let replexes = table.readable().map(|it| &table.layout.replexes[it]);
    let shown = replexes
        .filter(|replex| replex.kind == ReplexKind::Hyperspace)
        .map(|it| {
            let columns = column_names(&table.schema, &it.sort_columns);
            format!("{} ({columns})", it.name)
        });
    shown.collect()
}

fn column_names(schema: &Schema, columns: &[usize]) -> String {
    let names = columns.iter().map(|it| schema.columns[*it].name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// Returns the columns of a secondary index that fix its partition: all but the count of a dense
/// one.
fn key_columns(schema: &Schema, index: usize) -> &[usize] {
    let index = &schema.indexes[index];
    match (&index.constraint, &index.columns[..]) {
        (Some(Constraint::Dense), [group @ .., _]) if !group.is_empty() => group,
        (_, columns) => columns,
    }
}

fn candidate(
    table: &PlacedTable,
    replex: usize,
    facts: &Facts,
    request: ReadRequirements<'_>,
) -> Option<(AccessRank, AccessChoice)> {
    let constraint = match table.layout.replexes[replex].kind {
        ReplexKind::Primary => None,
        ReplexKind::Index { index } => table.schema.indexes[index].constraint,
        ReplexKind::Hybrid
        | ReplexKind::Exact { .. }
        | ReplexKind::Hyperspace
        | ReplexKind::Vacant => return None,
    };
    let order_columns = order_columns(table, replex);
    let fixed = fixed_columns(table, replex, &order_columns, facts)?;
    let mut taken: Vec<usize> = Vec::new();
    for column in &order_columns[..fixed] {
        let known = facts.keys(*column).expect("the column is fixed");
        taken.extend(&known.conjuncts);
    }
    let (range, from) = range_of(facts, order_columns.get(fixed));
    taken.extend(from);
    let has_range = range != ValueRange::default();
    let descending = serves(table, &order_columns, fixed, request);
    // A table in one partition is still read from end to end, unless little of it is wanted.
    let ordered = request.order.is_some_and(|order| !order.is_empty());
    let tail = request.limited && descending.is_some() && ordered;
    if fixed == 0 && !has_range && !tail {
        return None;
    }
    let own_columns = table.layout.replexes[replex].sort_columns.len();
    let holds_null = |column: &usize| {
        let known = facts.keys(*column).expect("the column is fixed");
        known.keys.contains(&Value::Null)
    };
    let unique = replex == 0 || constraint.is_some();
    // Any number of rows may have NULL in a unique key.
    let one_row = unique && fixed >= own_columns && !order_columns[..fixed].iter().any(holds_null);
    let (class, kind) = match one_row {
        true if replex == 0 => (0, AccessKind::Point),
        true => (1, AccessKind::Point),
        false => (2, AccessKind::Lookup),
    };
    let segments = segments(table, replex, &order_columns[..fixed], facts, &range);
    let rank = (
        class,
        Reverse(fixed),
        !has_range,
        descending.is_none(),
        segments.len(),
        replex,
    );
    let access = Access {
        replex,
        kind,
        segments,
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

/// Returns how many of the columns that order a replex the facts fix, if they fix its partition
/// too.
fn fixed_columns(
    table: &PlacedTable,
    replex: usize,
    order_columns: &[usize],
    facts: &Facts,
) -> Option<usize> {
    let mut combinations: usize = 1;
    let fixed = order_columns
        .iter()
        .take_while(|column| match facts.keys(**column) {
            Some(known) if combinations * known.keys.len() <= KEYS_MAX => {
                combinations *= known.keys.len();
                true
            }
            _ => false,
        })
        .count();
    let axes = table.layout.replexes[replex].axes.iter();
    let mut partitioning = axes.flat_map(|axis| &table.layout.key_spaces[axis.key_space].columns);
    partitioning
        .all(|column| order_columns[..fixed].contains(column))
        .then_some(fixed)
}

fn segments(
    table: &PlacedTable,
    replex: usize,
    fixed: &[usize],
    facts: &Facts,
    range: &ValueRange,
) -> Vec<Segment> {
    let mut tuples: Vec<Vec<Value>> = vec![Vec::new()];
    for column in fixed {
        let known = facts.keys(*column).expect("the column is fixed");
        tuples = combined(&tuples, &known.keys, Value::clone);
    }
    let segments = tuples.into_iter().filter_map(|keys| {
        let partition = table.layout.partition_of_values(replex, |column| {
            let position = fixed.iter().position(|it| *it == column);
            keys[position.expect("the partitioning columns are fixed")].as_ref()
        });
        segment(keys, partition, range)
    });
    segments.collect()
}
