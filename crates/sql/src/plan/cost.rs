//! Estimates what an access costs, to choose between indexes that serve a statement.
//!
//! The estimates come from a sample of a few partitions (`session::statistics`). Where they are not
//! known, the ranks of `access_path` choose.

use std::sync::Arc;

use protocol::configuration::PlacedTable;
use protocol::expression::Expression;
use session::statistics::TableStatistics;

use super::access::{Access, AccessChoice, AccessKind, ReadRequirements, is_placed};
use super::facts::Facts;

/// The cost of asking one partition for a range. The unit is a row that a partition looks at.
const PARTITION: f64 = 50.0;
/// The further cost of a row that is read by its entry in a thin index.
const ROW_OF_ENTRY: f64 = 3.0;
/// The part of the rows for which a condition holds, if nothing is known about its columns.
const UNKNOWN_PART: f64 = 1.0 / 3.0;
/// The same for a column that equals a value.
const UNKNOWN_KEY_PART: f64 = 0.1;
/// The part of the rows of a key that are in a range with two ends.
const RANGE_PART: f64 = 0.05;

/// The estimated work of a read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReadEstimate {
    /// The rows that the partitions look at.
    pub looked_at: f64,
    /// The rows that they return.
    pub returned: f64,
    /// The rows of the table.
    pub of: f64,
    /// The cost, in rows that a partition looks at.
    pub cost: f64,
}

/// The estimates by which an access was chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimatedChoice {
    /// The chosen access.
    pub chosen: ReadEstimate,
    /// The others, by the number of their replex, from cheap to expensive.
    pub others: Vec<(usize, ReadEstimate)>,
}

/// The estimates about a statement's table, and the statement.
struct Estimator<'a> {
    table: &'a PlacedTable,
    known: Arc<TableStatistics>,
    conjuncts: &'a [Expression],
    request: ReadRequirements<'a>,
}

impl Estimator<'_> {
    /// Returns the estimate for an access; none if its replex has no statistics.
    fn estimate(&self, choice: &AccessChoice) -> Option<ReadEstimate> {
        let AccessChoice { access, taken, .. } = choice;
        let of = self.known.rows();
        let matching = self.matching(access)?.min(of);
        let rest = self.conjuncts.iter().enumerate();
        let rest = rest.filter(|(number, _)| !taken.contains(number));
        let rest: Vec<&Expression> = rest.map(|(_, conjunct)| conjunct).collect();
        let part: f64 = rest.iter().map(|conjunct| self.part(conjunct)).product();
        let partitions = access.segments.len() as f64;
        let mut looked_at = matching;
        let limit = self.request.rows.filter(|_| choice.descending.is_some());
        if let Some(limit) = limit {
            // Each partition returns so many, unless it has fewer.
            let wanted = partitions.max(1.0) * limit as f64 / part.max(f64::EPSILON);
            looked_at = looked_at.min(wanted);
        }
        let returned = looked_at * part;
        let mut cost = partitions * PARTITION + looked_at;
        if self.reads_rows_of_entries(access, &rest) {
            let primary = self.table.layout.primary();
            let asked = self.table.layout.partition_count(primary);
            cost += looked_at * ROW_OF_ENTRY + looked_at.min(f64::from(asked)) * PARTITION;
        }
        Some(ReadEstimate {
            looked_at,
            returned,
            of,
            cost,
        })
    }

    /// Returns the rows in the segments of an access.
    fn matching(&self, access: &Access) -> Option<f64> {
        let known = self.known.of(access.replex)?;
        let segments = access.segments.len() as f64;
        let ends = access.range.lower.iter().chain(&access.range.upper);
        Some(match access.kind {
            AccessKind::Nothing => 0.0,
            AccessKind::Point => segments,
            AccessKind::Scan | AccessKind::First => known.rows(),
            AccessKind::Lookup | AccessKind::Range if access.fixed > 0 => {
                let part = match ends.count() {
                    0 => 1.0,
                    1 => UNKNOWN_PART,
                    _ => RANGE_PART,
                };
                (known.rows_per_key(access.fixed) * part * segments).max(1.0)
            }
            AccessKind::Lookup | AccessKind::Range => {
                let Some(first) = access.segments.first() else {
                    return Some(0.0);
                };
                let rows = known.rows_within((&first.start, first.end.as_deref()));
                let partitions = self.table.layout.partition_count(access.replex);
                let rows = match self.table.layout.is_ranged(access.replex) {
                    true if known.is_whole() => rows,
                    // Of the first and the last range a part is read.
                    true => (segments - 1.0).max(UNKNOWN_PART) * known.rows_of_partition(),
                    // A hyperspace is asked for some of its cells.
                    false => rows * (segments / f64::from(partitions)).min(1.0),
                };
                rows.max(1.0)
            }
        })
    }

    /// Returns the part of the rows for which a conjunct holds.
    fn part(&self, conjunct: &Expression) -> f64 {
        let facts = Facts::of(&self.table.schema, std::slice::from_ref(conjunct));
        if facts.impossible {
            return 0.0;
        }
        let mut columns = facts.columns.into_iter();
        let Some((column, fact)) = columns.next() else {
            return UNKNOWN_PART;
        };
        match &fact.keys {
            Some(known) => {
                let part = self.part_of_key(column).unwrap_or(UNKNOWN_KEY_PART);
                (part * known.keys.len() as f64).min(1.0)
            }
            None => UNKNOWN_PART,
        }
    }

    /// Returns the part of the rows with one value of a column; none if no index begins with it.
    fn part_of_key(&self, column: usize) -> Option<f64> {
        let mut replexes = self.table.searchable();
        replexes.find_map(|replex| {
            let order = self.table.layout.order(replex);
            let first = order.first().filter(|it| it.column == column)?;
            let known = self.known.of(replex)?;
            let is_ranged = self.table.layout.is_ranged(replex);
            let partitions = match is_ranged || is_placed(self.table, replex, &[*first]) {
                true => 1.0,
                false => known.rows() / known.rows_of_partition().max(1.0),
            };
            let rows = known.rows_per_key(1) * partitions;
            Some((rows / known.rows().max(1.0)).min(1.0))
        })
    }

    /// Returns whether the rows are read by the entries of a thin index, because entries lack
    /// columns.
    fn reads_rows_of_entries(&self, access: &Access, rest: &[&Expression]) -> bool {
        let layout = &self.table.layout;
        let Some(columns) = layout.entry_columns(&self.table.schema, access.replex) else {
            return false;
        };
        let has = |column: u16| columns.contains(&usize::from(column));
        let needed = self.request.columns;
        let has_output = needed.is_some_and(|columns| columns.iter().all(|it| has(*it)));
        !has_output || !rest.iter().all(|conjunct| conjunct.all_columns(&has))
    }
}

/// Returns the cheapest candidate, and what was estimated. Candidates without an estimate leave the
/// choice to the ranks: the first candidate is chosen.
pub(super) fn cheapest(
    mut candidates: Vec<AccessChoice>,
    table: &PlacedTable,
    conjuncts: &[Expression],
    request: ReadRequirements<'_>,
) -> Option<(AccessChoice, Option<EstimatedChoice>)> {
    let known = request.estimates.about(table.id, candidates.len());
    let estimates = known.and_then(|known| {
        let estimator = Estimator {
            table,
            known,
            conjuncts,
            request,
        };
        let estimates = candidates.iter().map(|it| estimator.estimate(it));
        estimates.collect::<Option<Vec<ReadEstimate>>>()
    });
    let Some(estimates) = estimates else {
        return (!candidates.is_empty()).then(|| (candidates.swap_remove(0), None));
    };
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|one, other| estimates[*one].cost.total_cmp(&estimates[*other].cost));
    let (chosen, others) = order.split_first()?;
    let others = others
        .iter()
        .map(|it| (candidates[*it].access.replex, estimates[*it]));
    let estimated = EstimatedChoice {
        chosen: estimates[*chosen],
        others: others.collect(),
    };
    Some((candidates.swap_remove(*chosen), Some(estimated)))
}

/// Returns the lines of `EXPLAIN` about estimates.
pub(super) fn lines(table: &PlacedTable, estimated: &EstimatedChoice) -> Vec<String> {
    let EstimatedChoice { chosen, others } = estimated;
    let mut lines = vec![format!(
        "  expected: partitions read {} of {} rows and return {}; cost {}",
        about(chosen.looked_at),
        about(chosen.of),
        about(chosen.returned),
        about(chosen.cost)
    )];
    lines.extend(others.iter().map(|(replex, estimate)| {
        format!(
            "  instead of: {}, {} rows; cost {}",
            table.layout.replexes[*replex].name,
            about(estimate.looked_at),
            about(estimate.cost)
        )
    }));
    lines
}

/// Returns a number rounded to two significant digits, such as `1,200,000`.
fn about(number: f64) -> String {
    let magnitude = number.max(1.0).log10().floor() as i32 - 1;
    let unit = 10_f64.powi(magnitude.max(0));
    let digits = format!("{:.0}", (number / unit).round() * unit);
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
