//! Chooses the replex that answers a `WHERE`, and the ranges of its partitions to read.
//!
//! Every partition of a replex is sorted by its columns. Where the columns of its key space are all
//! equated (or listed by `IN`), each combination of values is in one partition, a prefix of its
//! order, and a range predicate on the next column narrows it further. Where they are not, but the
//! first columns are equated or the next one has a range, each partition is asked for that range:
//! as many seeks as there are partitions, and their rows merge in the order of the index. The best
//! is, in this order: the whole primary key, a whole unique key, the most equated columns, a range,
//! the order that is requested. Then come ranges of cells of hyperspaces (`hyperspace`), ranges of
//! every partition, whole cells, and the first rows of every partition, if few are wanted in an
//! order that an index has. Hybrids and replicas are cut and sorted by columns of indexes that
//! exist too, and that serve the same statements. A thin index serves like a copy with its order,
//! but its rows are read in a second hop, after its entries, so a copy is preferred. Without any, a
//! scan is left: large tables are scanned only on request. Where estimates are known (`cost`), they
//! choose between lookups and ranges instead.

use std::cmp::Reverse;

use placement::{Replex, ReplexKind, Schema, SortColumn, Value};
use protocol::configuration::PlacedTable;
use protocol::configuration::routes;
use protocol::expression::Expression;

use super::access::{
    Access, AccessChoice, AccessKind, AccessRank, CLASS_FIRST, CLASS_LOOKUP, CLASS_RANGE, KEYS_MAX,
    ReadRequirements, Segment, ValueRange, combined, is_placed, range_of, segment, serves,
};
use super::cost::{EstimatedChoice, cheapest};
use super::facts::{Facts, RangeEnd};
use super::{UnaskedScan, hyperspace};
use crate::error::SqlError;

/// Returns the best access by an index, and the estimates by which it was chosen; none if no index
/// serves.
pub(super) fn by_index(
    table: &PlacedTable,
    conjuncts: &[Expression],
    request: ReadRequirements<'_>,
) -> Option<(AccessChoice, Option<EstimatedChoice>)> {
    let facts = Facts::of(&table.schema, conjuncts);
    if facts.impossible {
        let nothing = AccessChoice {
            access: Access {
                replex: table.layout.primary(),
                kind: AccessKind::Nothing,
                segments: Vec::new(),
                order_columns: table.layout.order(table.layout.primary()),
                fixed: 0,
                range: ValueRange::default(),
            },
            taken: Vec::new(),
            descending: Some(false),
        };
        return Some((nothing, None));
    }
    let candidates =
        table
            .searchable()
            .filter_map(|replex| match table.layout.replexes[replex].kind {
                ReplexKind::Hyperspace => hyperspace::candidate(table, replex, &facts, request),
                _ => candidate(table, replex, &facts, request),
            });
    let mut candidates: Vec<_> = candidates.collect();
    candidates.sort_by_key(|(rank, _)| *rank);
    // A row with its key is read at once. The first rows of an order may turn out to be all of
    // them, so they are read only if no other way is left.
    let is_compared = |class: u8| (CLASS_LOOKUP..CLASS_FIRST).contains(&class);
    let best = candidates.first().map(|((class, ..), _)| *class)?;
    let mut choices = Vec::new();
    for ((class, ..), choice) in candidates {
        if choices.is_empty() || is_compared(best) && is_compared(class) {
            choices.push(choice);
        }
    }
    cheapest(choices, table, conjuncts, request)
}

/// Returns a scan of a replex in the requested order, or otherwise of the primary replex.
pub(super) fn by_scan(table: &PlacedTable, request: ReadRequirements<'_>) -> AccessChoice {
    let ordered = table.readable().find_map(|replex| {
        let descending = serves(table, &table.layout.order(replex), 0, request)?;
        Some((replex, descending))
    });
    let (replex, descending) = match ordered {
        Some((replex, descending)) => (replex, Some(descending)),
        None => (table.layout.primary(), None),
    };
    let partitions = table.layout.partitions_with_rows(replex).into_iter();
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
            order_columns: table.layout.order(replex),
            fixed: 0,
            range: ValueRange::default(),
        },
        taken: Vec::new(),
        descending,
    }
}

/// Returns the error for a statement that no index serves, if the table has more rows than it may
/// read.
pub(crate) fn too_large(table: &PlacedTable, scan: UnaskedScan) -> SqlError {
    SqlError::NoIndex {
        table: table.schema.name.clone(),
        rows_max: scan.rows_max,
        rows_wanted: scan.rows_wanted,
        indexes: describe_indexes(table),
        hyperspaces: describe_hyperspaces(table),
    }
}

/// Returns the indexes that a `WHERE` may fix, as `by_tail (tailnum)`, for people.
fn describe_indexes(table: &PlacedTable) -> Vec<String> {
    let names = |replex: &Replex| sorted_names(&table.schema, replex);
    let replexes = table.searchable().map(|it| &table.layout.replexes[it]);
    let shown = replexes.filter_map(|replex| match replex.kind {
        ReplexKind::Primary => Some(format!("the primary key ({})", names(replex))),
        ReplexKind::Index { .. } | ReplexKind::Thin { .. } => {
            Some(format!("{} ({})", replex.name, names(replex)))
        }
        ReplexKind::Hybrid
        | ReplexKind::Exact { .. }
        | ReplexKind::Hyperspace
        | ReplexKind::Successor { .. }
        | ReplexKind::Vacant => None,
    });
    shown.collect()
}

/// Returns the hyperspaces of which a `WHERE` may fix any column, as `s (origin, dest)`, for
/// people.
fn describe_hyperspaces(table: &PlacedTable) -> Vec<String> {
    let replexes = table.readable().map(|it| &table.layout.replexes[it]);
    let shown = replexes
        .filter(|replex| replex.kind == ReplexKind::Hyperspace)
        .map(|it| {
            let columns = sorted_names(&table.schema, it);
            format!("{} ({columns})", it.name)
        });
    shown.collect()
}

/// Returns the sorting key of a replex as in its definition.
fn sorted_names(schema: &Schema, replex: &Replex) -> String {
    let columns = replex.sort_columns.iter();
    let names: Vec<String> = columns.map(|it| schema.sorted_name(it)).collect();
    names.join(", ")
}

fn candidate(
    table: &PlacedTable,
    replex: usize,
    facts: &Facts,
    request: ReadRequirements<'_>,
) -> Option<(AccessRank, AccessChoice)> {
    let constraint = match table.layout.replexes[replex].kind {
        ReplexKind::Primary | ReplexKind::Index { .. } | ReplexKind::Thin { .. } => {
            table.layout.constraint(&table.schema, replex)
        }
        ReplexKind::Hybrid
        | ReplexKind::Exact { .. }
        | ReplexKind::Hyperspace
        | ReplexKind::Successor { .. }
        | ReplexKind::Vacant => return None,
    };
    let order_columns = table.layout.order(replex);
    let fixed = fixed_columns(&order_columns, facts, KEYS_MAX);
    if !is_placed(table, replex, &order_columns[..fixed]) {
        return range(table, replex, (order_columns, facts), request);
    }
    let narrowed = range_of(facts, order_columns.get(fixed).map(|it| it.column));
    let has_range = narrowed.0.is_bounded();
    let descending = serves(table, &order_columns, fixed, request);
    // A table in one partition is still read from end to end, unless little of it is wanted.
    if fixed == 0 && !has_range && !request.wants_first(descending) {
        return None;
    }
    let own_columns = table.layout.replexes[replex].sort_columns.len();
    let holds_null = |it: &SortColumn| {
        let known = facts.keys(it.column).expect("the column is fixed");
        known.keys.contains(&Value::Null)
    };
    let is_primary = replex == table.layout.primary();
    let unique = is_primary || constraint.is_some();
    // Any number of rows may have NULL in a unique key.
    let one_row = unique && fixed >= own_columns && !order_columns[..fixed].iter().any(holds_null);
    let (class, kind) = match one_row {
        true if is_primary => (0, AccessKind::Point),
        true => (1, AccessKind::Point),
        false if fixed > 0 || has_range => (CLASS_LOOKUP, AccessKind::Lookup),
        false => (CLASS_FIRST, AccessKind::First),
    };
    let served = ServedPart {
        replex,
        order_columns,
        fixed,
        narrowed,
        descending,
    };
    Some(served.ranked(table, facts, (class, kind)))
}

/// The part of a statement that an index serves.
struct ServedPart {
    replex: usize,
    order_columns: Vec<SortColumn>,
    /// How many of these columns are equated.
    fixed: usize,
    /// The range of the next one, and the conjuncts that it makes true.
    narrowed: (ValueRange, Vec<usize>),
    descending: Option<bool>,
}

impl ServedPart {
    /// Returns the access of this class and kind, and its rank.
    fn ranked(
        self,
        table: &PlacedTable,
        facts: &Facts,
        (class, kind): (u8, AccessKind),
    ) -> (AccessRank, AccessChoice) {
        let ServedPart {
            replex,
            order_columns,
            fixed,
            narrowed: (range, from),
            descending,
        } = self;
        let segments = segments((table, replex), &order_columns, fixed, facts, &range);
        let rank = (
            class,
            Reverse(fixed),
            !range.is_bounded(),
            descending.is_none(),
            table.layout.is_thin(replex),
            segments.len(),
            replex,
        );
        let choice = AccessChoice {
            taken: [taken_by(&order_columns[..fixed], facts), from].concat(),
            access: Access {
                replex,
                kind,
                segments,
                order_columns,
                fixed,
                range,
            },
            descending,
        };
        (rank, choice)
    }
}

/// Returns the access to a range of every partition of a replex, if the facts narrow it, or few
/// rows are wanted in its order.
fn range(
    table: &PlacedTable,
    replex: usize,
    (order_columns, facts): (Vec<SortColumn>, &Facts),
    request: ReadRequirements<'_>,
) -> Option<(AccessRank, AccessChoice)> {
    // Keys are in few of the ranges of an index.
    let partition_count = match table.layout.replexes[replex].ranges {
        Some(_) => 1,
        None => table.layout.partition_count(replex) as usize,
    };
    let fixed = fixed_columns(&order_columns, facts, KEYS_MAX / partition_count.max(1));
    let next = order_columns.get(fixed).map(|it| it.column);
    // Of too many keys to ask for each, from the first to the last; those between are filtered.
    let keys = next.and_then(|column| facts.keys(column));
    let narrowed = match keys.and_then(|known| range_of_keys(&known.keys)) {
        Some(range) => (range, Vec::new()),
        None => range_of(facts, next),
    };
    let descending = serves(table, &order_columns, fixed, request);
    let (class, kind) = match () {
        () if fixed > 0 || narrowed.0.is_bounded() => (CLASS_RANGE, AccessKind::Range),
        () if request.wants_first(descending) => (CLASS_FIRST, AccessKind::First),
        () => return None,
    };
    let served = ServedPart {
        replex,
        order_columns,
        fixed,
        narrowed,
        descending,
    };
    Some(served.ranked(table, facts, (class, kind)))
}

/// Returns the range that holds all of these keys, which rise; none if NULL is among them, which is
/// in no range.
fn range_of_keys(keys: &[Value]) -> Option<ValueRange> {
    let end = |value: &Value| RangeEnd {
        value: value.clone(),
        inclusive: true,
    };
    let [first, .., last] = keys else { return None };
    (!keys.contains(&Value::Null)).then(|| ValueRange {
        lower: Some(end(first)),
        upper: Some(end(last)),
        not_null: true,
    })
}

/// Returns the conjuncts that equate these columns.
fn taken_by(fixed: &[SortColumn], facts: &Facts) -> Vec<usize> {
    let known = fixed.iter().map(|it| {
        let known = facts.keys(it.column);
        known.expect("the column is fixed").conjuncts.iter()
    });
    known.flatten().copied().collect()
}

/// Returns how many of a replex's order columns the facts fix, as long as the combinations of
/// their values give at most `keys_max` keys.
fn fixed_columns(order_columns: &[SortColumn], facts: &Facts, keys_max: usize) -> usize {
    let mut combinations: usize = 1;
    order_columns
        .iter()
        .take_while(|it| match facts.keys(it.column) {
            Some(known) if combinations * known.keys.len() <= keys_max.max(1) => {
                combinations *= known.keys.len();
                true
            }
            _ => false,
        })
        .count()
}

/// Returns the reads for each combination of keys: their range, in each partition that may have
/// such rows.
fn segments(
    (table, replex): (&PlacedTable, usize),
    order: &[SortColumn],
    fixed: usize,
    facts: &Facts,
    range: &ValueRange,
) -> Vec<Segment> {
    let mut tuples: Vec<Vec<Value>> = vec![Vec::new()];
    for sorted in &order[..fixed] {
        let known = facts.keys(sorted.column).expect("the column is fixed");
        tuples = combined(&tuples, &known.keys, Value::clone);
    }
    let number = u8::try_from(replex).expect("a table has few replexes");
    let mut segments = Vec::new();
    for keys in tuples {
        let equated = |column: usize| {
            let position = order[..fixed].iter().position(|it| it.column == column)?;
            Some(keys[position].as_ref())
        };
        let Some(any) = segment(order, keys.clone(), 0, range) else {
            continue;
        };
        let span = (&any.start[..], any.end.as_deref());
        let partitions = routes::partitions(table, number, equated, span).into_iter();
        segments.extend(partitions.map(|partition| Segment {
            partition,
            ..any.clone()
        }));
    }
    segments
}
