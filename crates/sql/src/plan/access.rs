//! The reads of a statement: ranges of partitions of one replex, and the shared parts of all
//! choices of them.
//!
//! Which replex answers is chosen in `access_path`.

use std::ops::Bound;
use std::sync::Arc;

use placement::{SortColumn, Value, encode_prefix, prefix_end, sorted_range};
use protocol::configuration::PlacedTable;
use protocol::identity::TableId;
use session::statistics::TableStatistics;

use super::facts::{Facts, KnownEnd, RangeEnd};
use super::{Context, StatisticsSource, WithoutStatistics};

/// The most combinations of values that one statement looks up. A longer list is read by a scan.
pub const KEYS_MAX: usize = 1024;

/// The access path of a read: the replex, and the part of it that is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Access {
    /// The replex, as an index into the table's layout.
    pub replex: usize,
    /// The part of the replex that is read.
    pub kind: AccessKind,
    /// The ranges to read, in the order of their keys. It is empty if no row can match.
    pub segments: Vec<Segment>,
    /// The order of rows within a partition.
    pub order_columns: Vec<SortColumn>,
    /// The number of these columns that each segment equates with one value.
    pub fixed: usize,
    /// The range of the next of these columns.
    pub range: ValueRange,
}

/// The two ends of a range; an end may be missing. A range with an end has no NULL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueRange {
    /// The lower end.
    pub lower: Option<RangeEnd>,
    /// The upper end.
    pub upper: Option<RangeEnd>,
    /// Whether the range has all values but NULL, if it has no end.
    pub not_null: bool,
}

impl ValueRange {
    /// Returns whether the range has an end, so that an index with its column serves it.
    pub fn is_bounded(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }
}

/// The part of a replex that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessKind {
    /// Nothing, because no row can match.
    Nothing,
    /// At most one row per segment.
    Point,
    /// A range of one partition per segment.
    Lookup,
    /// The same range of every partition that may have its rows, for each key.
    Range,
    /// All of every partition.
    Scan,
    /// The first rows of every partition in the order of the replex, up to a limit. With a filter,
    /// more rows may be read until there are enough.
    First,
}

/// A range of one partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The partition's number in its replex.
    pub partition: u32,
    /// The first key, memcomparable.
    pub start: Vec<u8>,
    /// The first key after the range; none reads to the end.
    pub end: Option<Vec<u8>>,
    /// The values of the fixed columns.
    pub keys: Vec<Value>,
}

/// A column of an `ORDER BY`.
#[derive(Clone, Copy, Debug)]
pub(super) struct OrderColumn {
    pub column: usize,
    pub descending: bool,
    pub nulls_first: bool,
}

/// The order and the number of rows that a statement needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRequirements<'a> {
    /// The order; none if it is not an order of columns.
    pub order: Option<&'a [OrderColumn]>,
    /// The number of rows, including those that `OFFSET` skips; none is all.
    pub rows: Option<u64>,
    /// Whether this number is so small that no index is needed.
    pub limited: bool,
    /// Whether only the number of rows is needed.
    pub counted: bool,
    /// The columns that are needed; none is all of them.
    pub columns: Option<&'a [u16]>,
    /// Estimates about tables.
    pub estimates: Estimates<'a>,
}

/// Estimates about tables, for the choice between indexes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimates<'a> {
    source: &'a dyn StatisticsSource,
    /// Whether estimates are wanted although there is no choice, as for `EXPLAIN`.
    always: bool,
}

impl<'a> Estimates<'a> {
    /// No estimates.
    pub const NONE: Estimates<'static> = Estimates {
        source: &WithoutStatistics,
        always: false,
    };

    pub fn of(context: &Context<'a>) -> Estimates<'a> {
        Estimates {
            source: context.statistics,
            always: context.explains,
        }
    }

    /// Returns the estimates about a table, to choose between so many ways to read it.
    pub fn about(&self, table: TableId, choices: usize) -> Option<Arc<TableStatistics>> {
        let is_wanted = choices > 1 || self.always;
        is_wanted.then(|| self.source.of(table)).flatten()
    }
}

/// An access path, and the conjuncts that it already guarantees.
pub(super) struct AccessChoice {
    pub access: Access,
    pub taken: Vec<usize>,
    /// Whether the segments are in the requested order, and if so, whether in reverse.
    pub descending: Option<bool>,
}

impl ReadRequirements<'_> {
    /// Returns whether the statement needs the first rows in some order, and the segments have that
    /// order or its reverse.
    pub fn wants_first(&self, descending: Option<bool>) -> bool {
        let is_ordered = self.order.is_some_and(|order| !order.is_empty());
        self.limited && is_ordered && descending.is_some()
    }
}

/// The rank of a lookup that fixes the partitioning columns of a copy.
pub(super) const CLASS_LOOKUP: u8 = 2;
/// The rank of ranges of some cells of a hyperspace.
pub(super) const CLASS_PARTIAL: u8 = 3;
/// The rank of a range of every partition.
pub(super) const CLASS_RANGE: u8 = 4;
/// The rank of some cells of a hyperspace, whole.
pub(super) const CLASS_CELLS: u8 = 5;
/// The rank of every partition's first rows.
pub(super) const CLASS_FIRST: u8 = 6;

/// A rank; smaller is better. It compares the class, the fixed columns, whether there is a range,
/// whether rows are in order, whether the index is thin, the number of ranges, and the replex.
pub(super) type AccessRank = (u8, std::cmp::Reverse<usize>, bool, bool, bool, usize, usize);

/// Returns each tuple extended by each of the keys.
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

/// Returns the segment of one partition: rows whose first columns of the order have these values,
/// and whose next column is in the range. Returns none if the range is empty: a partition refuses
/// such a range.
pub(super) fn segment(
    order: &[SortColumn],
    keys: Vec<Value>,
    partition: u32,
    range: &ValueRange,
) -> Option<Segment> {
    let bound = |end: &'_ Option<RangeEnd>| match end {
        None => Bound::Unbounded,
        Some(RangeEnd { value, inclusive }) => match inclusive {
            true => Bound::Included(value.clone()),
            false => Bound::Excluded(value.clone()),
        },
    };
    let (start, end) = match range.is_bounded() || range.not_null {
        true => {
            let (lower, upper) = (bound(&range.lower), bound(&range.upper));
            sorted_range(order, &keys, lower.as_ref(), upper.as_ref())?
        }
        false => {
            let prefix = encode_prefix(order, &keys);
            let end = prefix_end(&prefix);
            (prefix, end)
        }
    };
    Some(Segment {
        partition,
        start,
        end,
        keys,
    })
}

/// Returns the range of a column from the facts, and the conjuncts that determine it.
pub(super) fn range_of(facts: &Facts, column: Option<usize>) -> (ValueRange, Vec<usize>) {
    let Some(fact) = column.and_then(|it| facts.columns.get(&it)) else {
        return (ValueRange::default(), Vec::new());
    };
    let end = |known: &Option<KnownEnd>| known.as_ref().map(|known| known.end.clone());
    let range = ValueRange {
        lower: end(&fact.lower),
        upper: end(&fact.upper),
        not_null: fact.not_null.is_some(),
    };
    let known = fact.lower.iter().chain(&fact.upper);
    let known = known.map(|known| known.conjunct).chain(fact.not_null);
    (range, known.collect())
}

/// Returns false if the rows of a segment are in the requested order, and true if they are in its
/// reverse. Returns none if they are in neither, or if no order is requested.
///
/// | column of the index | forwards | backwards |
/// |---|---|---|
/// | `a` | `a ASC NULLS LAST` | `a DESC NULLS FIRST` |
/// | `a DESC` | `a DESC NULLS FIRST` | `a ASC NULLS LAST` |
/// | `a NULLS FIRST` | `a ASC NULLS FIRST` | `a DESC NULLS LAST` |
///
/// The place of NULLs does not matter for a column without them.
pub(super) fn serves(
    table: &PlacedTable,
    order: &[SortColumn],
    fixed: usize,
    request: ReadRequirements<'_>,
) -> Option<bool> {
    let mut rest = order[fixed..].iter();
    let mut backwards = None;
    for wanted in request.order? {
        if order[..fixed].iter().any(|it| it.column == wanted.column) {
            continue;
        }
        let sorted = rest.next().filter(|it| it.column == wanted.column)?;
        let is_turned = sorted.descending != wanted.descending;
        let nullable = table.schema.columns[wanted.column].nullable;
        let nulls_are_turned = sorted.nulls_first != wanted.nulls_first;
        let same_way = *backwards.get_or_insert(is_turned) == is_turned;
        if !same_way || (nullable && nulls_are_turned != is_turned) {
            return None;
        }
    }
    Some(backwards.unwrap_or(false))
}

/// Returns whether these columns place a row in one partition of a replex.
pub(super) fn is_placed(table: &PlacedTable, replex: usize, fixed: &[SortColumn]) -> bool {
    let replex = &table.layout.replexes[replex];
    if replex.ranges.is_some() {
        // Whole keys are mostly in one range.
        return replex.sort_columns.iter().all(|it| fixed.contains(it));
    }
    let axes = replex.axes.iter();
    let mut partitioning = axes.flat_map(|axis| &table.layout.key_spaces[axis.key_space].columns);
    partitioning.all(|column| fixed.iter().any(|it| it.column == *column))
}
