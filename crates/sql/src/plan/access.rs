//! The reads of a statement: ranges of partitions of one replex, and the shared parts of all
//! choices of them.
//!
//! Which replex answers is chosen in `access_path`.

use placement::{Value, encode_key, encode_value, prefix_end};
use protocol::configuration::PlacedTable;
use protocol::configuration::routes;

use super::facts::{Facts, KnownEnd, RangeEnd};

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
    /// The columns that order rows within a partition.
    pub order_columns: Vec<usize>,
    /// The number of these columns that each segment equates with one value.
    pub fixed: usize,
    /// The range of the next of these columns.
    pub range: ValueRange,
}

/// The two ends of a range; an end may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValueRange {
    /// The lower end.
    pub lower: Option<RangeEnd>,
    /// The upper end.
    pub upper: Option<RangeEnd>,
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

/// Returns the columns that order the rows within a partition of a replex.
pub(super) fn order_columns(table: &PlacedTable, replex: usize) -> Vec<usize> {
    let replex = u8::try_from(replex).expect("a table has few replexes");
    routes::order_columns(table, replex)
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

/// Returns the segment of one partition; none if the range is empty.
pub(super) fn segment(keys: Vec<Value>, partition: u32, range: &ValueRange) -> Option<Segment> {
    let (start, end) = spans(&keys, range)?;
    Some(Segment {
        partition,
        start,
        end,
        keys,
    })
}

/// Returns the first key, and the first key beyond, of the rows whose first columns have these
/// values and whose next column is in the range. Returns none if its ends have crossed: a partition
/// refuses such a range.
fn spans(keys: &[Value], range: &ValueRange) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let prefix = encode_key(keys.iter().map(Value::as_ref));
    let with = |value: &Value| {
        let mut key = prefix.clone();
        encode_value(&mut key, value.as_ref());
        key
    };
    let past = |key: Vec<u8>| prefix_end(&key).expect("a key begins with a marker below ff");
    let start = match &range.lower {
        None => prefix.clone(),
        Some(bound) if bound.inclusive => with(&bound.value),
        Some(bound) => past(with(&bound.value)),
    };
    let end = match &range.upper {
        // NULLs sort last and are in no range.
        None if range.lower.is_some() => Some(with(&Value::Null)),
        None => prefix_end(&prefix),
        Some(bound) if bound.inclusive => Some(past(with(&bound.value))),
        Some(bound) => Some(with(&bound.value)),
    };
    let has_crossed = end.as_ref().is_some_and(|end| start >= *end);
    (!has_crossed).then_some((start, end))
}

/// Returns the range of a column from the facts, and the conjuncts that determine it.
pub(super) fn range_of(facts: &Facts, column: Option<&usize>) -> (ValueRange, Vec<usize>) {
    let Some(fact) = column.and_then(|it| facts.columns.get(it)) else {
        return (ValueRange::default(), Vec::new());
    };
    let end = |known: &Option<KnownEnd>| known.as_ref().map(|known| known.end.clone());
    let range = ValueRange {
        lower: end(&fact.lower),
        upper: end(&fact.upper),
    };
    let known = fact.lower.iter().chain(&fact.upper);
    (range, known.map(|known| known.conjunct).collect())
}

/// Returns false if the rows of a segment are in the requested order, and true if they are in its
/// reverse. Returns none if they are in neither, or if no order is requested.
pub(super) fn serves(
    table: &PlacedTable,
    order_columns: &[usize],
    fixed: usize,
    request: ReadRequirements<'_>,
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
