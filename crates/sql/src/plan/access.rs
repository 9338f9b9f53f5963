//! Chooses the replex that answers a `WHERE`, and the ranges of its partitions to read.
//!
//! A replex can answer if the columns of its key space are all equated (or listed by `IN`): then
//! each combination of values is in one partition, where it is a prefix of the sort order, and a
//! range predicate on the next column of that order narrows it further. The best is, in this
//! order: the whole primary key, a whole unique key, the most equated columns, a range, the
//! order that is asked for. Then come hyperspaces (`hyperspace`). Hybrids and replicas are cut and
//! sorted by columns of indexes that are there too, and that serve whatever they would. Without
//! any, only a scan is left, and that must be asked for.

use client::protocol::configuration::Table;
use client::protocol::expression::Expression;
use client::protocol::session::route;
use placement::{Constraint, ReplexKind, Schema, Value, encode_key, encode_value, prefix_end};

use super::facts::{Bound, Facts};
use super::hyperspace;

/// The most combinations of values that one statement looks up; longer lists are for a scan.
pub const KEYS_MAX: usize = 1024;

/// Where a statement reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The replex, as an index into the table's layout.
    pub replex: usize,
    /// How.
    pub kind: AccessKind,
    /// The ranges to read, in the order of their keys. Empty if no row can match.
    pub segments: Vec<Segment>,
    /// The columns that order rows within a partition.
    pub order_columns: Vec<usize>,
    /// How many of these columns are fixed to one value in each segment.
    pub fixed: usize,
    /// The range on the next of these columns.
    pub range: Range,
}

/// Both ends of a range, as far as there are any.
pub type Range = (Option<Bound>, Option<Bound>);

/// How much of a replex is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    /// Nothing: no row can match.
    Nothing,
    /// At most one row per segment.
    Point,
    /// A range of one partition per segment.
    Lookup,
    /// Every partition from end to end.
    Scan,
}

/// A range of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The partition's number in its replex.
    pub partition: u32,
    /// First key, memcomparable.
    pub start: Vec<u8>,
    /// First key beyond; none reads to the end.
    pub end: Option<Vec<u8>>,
    /// The values of the fixed columns.
    pub keys: Vec<Value>,
}

/// A column that rows are to be ordered by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// What the statement reads, beside its conjuncts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    /// The order; none if it is not one of columns.
    pub order: Option<&'a [Wanted]>,
    /// Whether few rows are wanted.
    pub limited: bool,
}

/// An access path and the conjuncts that it makes true by itself.
pub(super) struct Choice {
    pub access: Access,
    pub taken: Vec<usize>,
    /// Whether the segments come in the order asked for, and if so whether from the end.
    pub descending: Option<bool>,
}

/// The best access by an index, or none.
pub(super) fn by_index(
    table: &Table,
    conjuncts: &[Expression],
    request: Request<'_>,
) -> Option<Choice> {
    let facts = Facts::of(&table.schema, conjuncts);
    if facts.impossible {
        return Some(Choice {
            access: Access {
                replex: 0,
                kind: AccessKind::Nothing,
                segments: Vec::new(),
                order_columns: order_columns(table, 0),
                fixed: 0,
                range: (None, None),
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

/// A scan of the replex that comes in the order asked for, or else of the primary one.
pub(super) fn by_scan(table: &Table, request: Request<'_>) -> Choice {
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
    Choice {
        access: Access {
            replex,
            kind: AccessKind::Scan,
            segments: segments.collect(),
            order_columns: order_columns(table, replex),
            fixed: 0,
            range: (None, None),
        },
        taken: Vec::new(),
        descending,
    }
}

/// The indexes that a `WHERE` may fix, as `by_tail (tailnum)`, for people.
pub(super) fn describe_indexes(table: &Table) -> Vec<String> {
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

/// The hyperspaces of which a `WHERE` may fix any column, as `s (origin, dest)`, for people.
pub(super) fn describe_hyperspaces(table: &Table) -> Vec<String> {
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

/// The columns of a secondary index that fix its partition: all but the count of a dense one.
fn key_columns(schema: &Schema, index: usize) -> &[usize] {
    let index = &schema.indexes[index];
    match (&index.constraint, &index.columns[..]) {
        (Some(Constraint::Dense), [group @ .., _]) if !group.is_empty() => group,
        (_, columns) => columns,
    }
}

/// The columns by which rows are ordered within a partition of a replex.
pub(super) fn order_columns(table: &Table, replex: usize) -> Vec<usize> {
    let replex = u8::try_from(replex).expect("a table has few replexes");
    route::order_columns(table, replex)
}

/// Smaller is better; see the module's header.
pub(super) type Rank = (u8, std::cmp::Reverse<usize>, bool, bool, usize, usize);

fn candidate(
    table: &Table,
    replex: usize,
    facts: &Facts,
    request: Request<'_>,
) -> Option<(Rank, Choice)> {
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
        let (_, from) = facts.keys(*column).expect("the column is fixed");
        taken.extend(from);
    }
    let (range, from) = range_of(facts, order_columns.get(fixed));
    taken.extend(from);
    let has_range = range.0.is_some() || range.1.is_some();
    let descending = serves(table, &order_columns, fixed, request);
    // A table in one partition is still read from end to end, unless little of it is wanted.
    let ordered = request.order.is_some_and(|order| !order.is_empty());
    let tail = request.limited && descending.is_some() && ordered;
    if fixed == 0 && !has_range && !tail {
        return None;
    }
    let own_columns = table.layout.replexes[replex].sort_columns.len();
    let holds_null = |column: &usize| {
        let (keys, _) = facts.keys(*column).expect("the column is fixed");
        keys.contains(&Value::Null)
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
        std::cmp::Reverse(fixed),
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
    let choice = Choice {
        access,
        taken,
        descending,
    };
    Some((rank, choice))
}

/// How many of the columns that order a replex the facts fix, if they fix its partition too.
fn fixed_columns(
    table: &Table,
    replex: usize,
    order_columns: &[usize],
    facts: &Facts,
) -> Option<usize> {
    let mut combinations: usize = 1;
    let fixed = order_columns
        .iter()
        .take_while(|column| match facts.keys(**column) {
            Some((keys, _)) if combinations * keys.len() <= KEYS_MAX => {
                combinations *= keys.len();
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
    table: &Table,
    replex: usize,
    fixed: &[usize],
    facts: &Facts,
    range: &Range,
) -> Vec<Segment> {
    let mut tuples: Vec<Vec<Value>> = vec![Vec::new()];
    for column in fixed {
        let (keys, _) = facts.keys(*column).expect("the column is fixed");
        tuples = combined(&tuples, keys, Value::clone);
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

/// Each tuple with each of the keys behind it, as `part` puts it.
pub(super) fn combined<P: Clone>(
    tuples: &[Vec<P>],
    keys: &[Value],
    part: impl Fn(&Value) -> P,
) -> Vec<Vec<P>> {
    let pairs = tuples
        .iter()
        .flat_map(|tuple| keys.iter().map(move |key| (tuple, key)));
    let longer = pairs.map(|(tuple, key)| {
        let mut longer = tuple.clone();
        longer.push(part(key));
        longer
    });
    longer.collect()
}

/// What is looked up in one partition; none if the range's ends have crossed.
pub(super) fn segment(keys: Vec<Value>, partition: u32, range: &Range) -> Option<Segment> {
    let (start, end) = spans(&keys, range)?;
    Some(Segment {
        partition,
        start,
        end,
        keys,
    })
}

/// The first key, and the first beyond, of the rows whose first columns have these values and
/// whose next one is in the range; none if its ends have crossed, which a partition must not be
/// asked for.
fn spans(keys: &[Value], range: &Range) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let prefix = encode_key(keys.iter().map(Value::as_ref));
    let with = |value: &Value| {
        let mut key = prefix.clone();
        encode_value(&mut key, value.as_ref());
        key
    };
    let past = |key: Vec<u8>| prefix_end(&key).expect("a key begins with a marker below ff");
    let start = match &range.0 {
        None => prefix.clone(),
        Some(bound) if bound.inclusive => with(&bound.value),
        Some(bound) => past(with(&bound.value)),
    };
    let end = match &range.1 {
        // NULLs sort last and are in no range.
        None if range.0.is_some() => Some(with(&Value::Null)),
        None => prefix_end(&prefix),
        Some(bound) if bound.inclusive => Some(past(with(&bound.value))),
        Some(bound) => Some(with(&bound.value)),
    };
    let has_crossed = end.as_ref().is_some_and(|end| start >= *end);
    (!has_crossed).then_some((start, end))
}

/// What the facts say of the range of a column, and the conjuncts that say so.
pub(super) fn range_of(facts: &Facts, column: Option<&usize>) -> (Range, Vec<usize>) {
    let fact = column.and_then(|it| facts.columns.get(it));
    let ends = fact.map(|fact| (fact.lower.clone(), fact.upper.clone()));
    let (lower, upper) = ends.unwrap_or((None, None));
    let from = lower.iter().chain(&upper).map(|(_, conjunct)| *conjunct);
    let from = from.collect();
    ((lower.map(|it| it.0), upper.map(|it| it.0)), from)
}

/// Whether rows of a segment come in the order asked for, and if so whether from the end.
pub(super) fn serves(
    table: &Table,
    order_columns: &[usize],
    fixed: usize,
    request: Request<'_>,
) -> Option<bool> {
    let mut rest = order_columns[fixed..].iter();
    let mut descending = None;
    for wanted in request.order? {
        if order_columns[..fixed].contains(&wanted.column) {
            continue;
        }
        let nullable = table.schema.columns[wanted.column].nullable;
        let nulls_in_place = !nullable || wanted.nulls_first == wanted.descending;
        let same_way = *descending.get_or_insert(wanted.descending) == wanted.descending;
        if rest.next() != Some(&wanted.column) || !nulls_in_place || !same_way {
            return None;
        }
    }
    Some(descending.unwrap_or(false))
}
