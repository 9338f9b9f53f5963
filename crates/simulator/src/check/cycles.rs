//! I19: all operations and reads have one order, over all groups and tables, which respects real
//! time (strict serialisability).
//!
//! The check of linearisability judges each group of rows alone, so it cannot see that a
//! transaction shows itself in one group before it does in another. Here, what must come before
//! what is a graph: an operation comes after the one whose state it replaces, a read after the
//! operations whose states it shows and before those that replace them, and everything after what
//! had ended before it began. An order exists only if the graph has no cycle.
//!
//! A read that shows no row, or a row whose version it does not show, may have been at one of
//! several states of the row. It counts if these follow on each other.

use std::collections::{BTreeMap, VecDeque};

use protocol::codec::Bytes;
use protocol::identity::{RequestId, TableId};
use protocol::transaction::RowCheck;

use crate::ledger::Ledger;
use crate::model::{GROUP, ID, Model, ModelRow, PartitionRange};
use crate::workload::Translation;

/// The time of an operation or a read, as its client saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The moment at which it was sent.
    pub begun: u64,
    /// The moment at which its outcome was known; none if it never was.
    pub ended: Option<u64>,
}

impl Span {
    /// Returns the span of what has two spans and one place in the order.
    fn both(self, other: Span) -> Span {
        Span {
            begun: self.begun.max(other.begun),
            ended: self.ended.into_iter().chain(other.ended).min(),
        }
    }
}

/// The meaning of the versions that a range shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownVersions {
    /// The versions.
    Exactly,
    /// Versions that the rows had, or have: those of the entries of a thin index.
    AtLeast,
    /// Nothing.
    Nothing,
}

/// The rows of a range at one moment.
#[derive(Clone, Debug)]
pub struct ShownRange {
    /// The place of its table in the list of tables.
    pub table: usize,
    /// The group of rows that it is part of.
    pub group: i64,
    /// The range.
    pub range: PartitionRange,
    /// The id of each row, and a version.
    pub rows: Vec<(i64, u64)>,
    /// The meaning of the versions.
    pub versions: ShownVersions,
}

/// A request that changes rows.
#[derive(Clone, Debug)]
pub struct ShownRequest {
    /// Its time.
    pub span: Span,
    /// The rows that it has checked if it committed.
    pub checks: Vec<RowCheck>,
    /// The ranges that it has checked if it committed.
    pub ranges: Vec<ShownRange>,
}

/// A read of one moment.
#[derive(Clone, Debug)]
pub struct ShownRead {
    /// Its time.
    pub span: Span,
    /// The rows that it has shown.
    pub ranges: Vec<ShownRange>,
}

/// The requests and reads of all clients.
#[derive(Debug, Default)]
pub struct Shown {
    /// The requests that were sent.
    pub requests: BTreeMap<RequestId, ShownRequest>,
    /// The reads that ended.
    pub reads: Vec<ShownRead>,
}

/// Checks that the committed operations and the reads can be put into one order.
///
/// # Errors
/// Describes the shortest cycle that was found, or a read of what no operation has left.
pub fn none(
    ledger: &Ledger,
    tables: &[(TableId, &Translation)],
    shown: &Shown,
) -> Result<(), String> {
    let mut order = Order::default();
    let mut rows = Rows::default();
    let mut checked = Vec::new();
    for (operation, entry) in ledger.committed() {
        let mut span = Span {
            begun: 0,
            ended: None,
        };
        let records = entry.prepare.requests.iter();
        let effective = records.filter(|record| record.result.took_effect());
        let requests: Vec<&ShownRequest> = effective
            .filter_map(|record| shown.requests.get(&record.request))
            .collect();
        for request in &requests {
            span = span.both(request.span);
        }
        let node = order.add(span, format!("{operation:?}"));
        for ((table, pk), change) in &entry.changes {
            let place = tables.iter().position(|(known, _)| known == table);
            let place = place.ok_or_else(|| format!("{table:?} is not known"))?;
            let row = change.new.as_ref();
            let row = row.map(|row| tables[place].1.parse(row));
            let state = RowState {
                version: change.version.0,
                row: row.transpose()?,
                writer: Some(node),
            };
            rows.add((place, *table, pk), state);
        }
        checked.push((node, requests));
    }
    rows.sort();
    for row in &rows.all {
        let writers = row.states.iter().filter_map(|state| state.writer);
        let writers: Vec<usize> = writers.collect();
        for pair in writers.windows(2) {
            order.before(pair[0], pair[1], "replaced by");
        }
    }
    for (node, requests) in checked {
        for request in requests {
            order.checks(node, request, (&rows, tables))?;
        }
    }
    for read in &shown.reads {
        let node = order.add(read.span, format!("a read of {:?}", read.ranges));
        for range in &read.ranges {
            let model = &tables[range.table].1.model;
            order.reads_range(node, &rows, (model, range))?;
        }
    }
    match order.cycle() {
        Some(cycle) => Err(cycle),
        None => Ok(()),
    }
}

/// The state of a row between two operations.
#[derive(Debug)]
struct RowState {
    version: u64,
    /// The row; none if it does not exist.
    row: Option<ModelRow>,
    /// The operation that has left it; none at the beginning.
    writer: Option<usize>,
}

impl RowState {
    fn present_version(&self) -> Option<u64> {
        self.row.map(|_| self.version)
    }
}

/// A row, with its states in order.
#[derive(Debug)]
struct Row {
    table: usize,
    states: Vec<RowState>,
}

#[derive(Debug, Default)]
struct Rows {
    all: Vec<Row>,
    by_pk: BTreeMap<(TableId, Bytes), usize>,
    by_group: BTreeMap<(usize, i64), Vec<(i64, usize)>>,
}

impl Rows {
    fn add(&mut self, (place, table, pk): (usize, TableId, &Bytes), state: RowState) {
        let next = self.all.len();
        let number = *self.by_pk.entry((table, pk.clone())).or_insert(next);
        if number == next {
            let absent = RowState {
                version: 0,
                row: None,
                writer: None,
            };
            self.all.push(Row {
                table: place,
                states: vec![absent],
            });
        }
        self.all[number].states.push(state);
    }

    /// Brings the states of each row into their order, once all are known.
    fn sort(&mut self) {
        for (number, row) in self.all.iter_mut().enumerate() {
            row.states.sort_by_key(|state| state.version);
            // A row that no operation has made was never there.
            if let Some(row_of) = row.states.iter().find_map(|state| state.row) {
                let group = self.by_group.entry((row.table, row_of[GROUP])).or_default();
                group.push((row_of[ID], number));
            }
        }
    }
}

/// The order in which operations and reads must come.
#[derive(Debug, Default)]
struct Order {
    spans: Vec<Span>,
    names: Vec<String>,
    /// By node: the nodes that come later, and why.
    later: Vec<Vec<(usize, &'static str)>>,
}

impl Order {
    fn add(&mut self, span: Span, name: String) -> usize {
        self.spans.push(span);
        self.names.push(name);
        self.later.push(Vec::new());
        self.names.len() - 1
    }

    fn before(&mut self, first: usize, second: usize, why: &'static str) {
        if first != second {
            self.later[first].push((second, why));
        }
    }

    /// Notes that a node has read a row in one of the states for which `shows` holds.
    fn reads(
        &mut self,
        node: usize,
        row: &Row,
        shows: impl Fn(&RowState) -> bool,
    ) -> Result<(), String> {
        // An operation reads the state before its own change.
        let own = row
            .states
            .iter()
            .position(|state| state.writer == Some(node));
        let states = &row.states[..own.unwrap_or(row.states.len())];
        let Some(first) = states.iter().position(&shows) else {
            return Err(format!(
                "{} shows what no operation has left: {:?}",
                self.names[node], row.states
            ));
        };
        let last = states.iter().rposition(&shows).expect("there is a first");
        if !states[first..=last].iter().all(shows) {
            return Ok(());
        }
        if let Some(writer) = states[first].writer {
            self.before(writer, node, "shown by");
        }
        if let Some(next) = row.states.get(last + 1).and_then(|state| state.writer) {
            self.before(node, next, "does not show");
        }
        Ok(())
    }

    /// Notes the rows and ranges that a committed transaction has checked.
    fn checks(
        &mut self,
        node: usize,
        request: &ShownRequest,
        (rows, tables): (&Rows, &[(TableId, &Translation)]),
    ) -> Result<(), String> {
        for check in &request.checks {
            if let Some(number) = rows.by_pk.get(&(check.table, check.pk.clone())) {
                let version = check.version.map(|version| version.0);
                let shows = |state: &RowState| state.present_version() == version;
                self.reads(node, &rows.all[*number], shows)?;
            }
        }
        for range in &request.ranges {
            self.reads_range(node, rows, (&tables[range.table].1.model, range))?;
        }
        Ok(())
    }

    /// Notes that a node has read a range.
    fn reads_range(
        &mut self,
        node: usize,
        rows: &Rows,
        (model, shown): (&Model, &ShownRange),
    ) -> Result<(), String> {
        let ShownRange {
            table,
            group,
            range,
            ..
        } = shown;
        let is_in = |state: &RowState| state.row.is_some_and(|row| model.is_in(range, &row));
        let is_whole = shown.rows.len() < range.limit;
        let known = rows.by_group.get(&(*table, *group));
        for (id, number) in known.into_iter().flatten() {
            let row = &rows.all[*number];
            let found = shown.rows.iter().find(|(other, _)| other == id);
            match (found, shown.versions) {
                (Some((_, version)), ShownVersions::Exactly) => {
                    self.reads(node, row, |state| state.present_version() == Some(*version))?;
                }
                (Some((_, version)), ShownVersions::AtLeast) => {
                    self.reads(node, row, |state| is_in(state) && state.version >= *version)?;
                }
                (Some(_), ShownVersions::Nothing) => self.reads(node, row, is_in)?,
                (None, _) if is_whole => self.reads(node, row, |state| !is_in(state))?,
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// Returns a description of a shortest cycle through one of the nodes that cannot be ordered;
    /// none if there is no cycle.
    fn cycle(mut self) -> Option<String> {
        let real = self.names.len();
        self.add_real_time();
        // Nodes without anything before them are taken out, until none is left or all have some.
        let mut before = vec![0_usize; self.later.len()];
        for (next, _) in self.later.iter().flatten() {
            before[*next] += 1;
        }
        let free = |node: &usize| before[*node] == 0;
        let mut free: Vec<usize> = (0..before.len()).filter(free).collect();
        while let Some(node) = free.pop() {
            for (next, _) in &self.later[node] {
                before[*next] -= 1;
                if before[*next] == 0 {
                    free.push(*next);
                }
            }
        }
        let stuck = (0..real).filter(|node| before[*node] > 0);
        let cycles = stuck.filter_map(|node| self.shortest(node));
        let cycle = cycles.min_by_key(Vec::len)?;
        let mut text = String::from("no order of these exists:");
        for (node, why) in cycle {
            if node < real {
                let Span { begun, ended } = self.spans[node];
                text += &format!("\n  {} from {begun} to {ended:?}", self.names[node]);
            }
            if !why.is_empty() {
                text += &format!("\n    {why}");
            }
        }
        Some(text)
    }

    /// Adds a chain of nodes, one for each end: everything that begins after an end comes later.
    fn add_real_time(&mut self) {
        let nodes = self.spans.iter().enumerate();
        let ends = nodes.filter_map(|(node, span)| Some((span.ended?, node)));
        let mut ends: Vec<(u64, usize)> = ends.collect();
        ends.sort_unstable();
        let first = self.later.len();
        self.later.resize_with(first + ends.len(), Vec::new);
        for (place, (_, node)) in ends.iter().enumerate() {
            self.later[*node].push((first + place, "ended before the begin of"));
            if place > 0 {
                self.later[first + place - 1].push((first + place, ""));
            }
        }
        for (node, span) in self.spans.iter().enumerate() {
            let earlier = ends.partition_point(|(ended, _)| *ended < span.begun);
            if let Some(place) = earlier.checked_sub(1) {
                self.later[first + place].push((node, ""));
            }
        }
    }

    /// Returns the shortest way from a node back to it, with the reason of each step.
    fn shortest(&self, start: usize) -> Option<Vec<(usize, &'static str)>> {
        let mut came_from: BTreeMap<usize, (usize, &'static str)> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (next, why) in &self.later[node] {
                if came_from.contains_key(next) {
                    continue;
                }
                came_from.insert(*next, (node, *why));
                if *next == start {
                    let mut way = Vec::new();
                    let mut at = start;
                    loop {
                        let (from, why) = came_from[&at];
                        way.push((from, why));
                        at = from;
                        if at == start {
                            way.reverse();
                            return Some(way);
                        }
                    }
                }
                queue.push_back(*next);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(spans: &[(u64, Option<u64>)]) -> Order {
        let mut order = Order::default();
        for (number, (begun, ended)) in spans.iter().enumerate() {
            let span = Span {
                begun: *begun,
                ended: *ended,
            };
            order.add(span, format!("node {number}"));
        }
        order
    }

    /// Returns a row that some nodes have written one after the other; a negative one deletes it.
    fn row(writers: &[i64]) -> Row {
        let mut states = vec![RowState {
            version: 0,
            row: None,
            writer: None,
        }];
        for (number, writer) in writers.iter().enumerate() {
            states.push(RowState {
                version: number as u64 + 1,
                row: (*writer >= 0).then_some([0; crate::model::COLUMNS]),
                writer: Some(writer.unsigned_abs() as usize),
            });
        }
        Row { table: 0, states }
    }

    /// A transaction of which no client has learnt writes two rows. One read shows the first, and
    /// the next read does not show the second.
    fn read_skew(second_read: (u64, Option<u64>)) -> Option<String> {
        let mut order = order(&[(1, None), (2, Some(5)), second_read]);
        let written = row(&[0]);
        let new = |state: &RowState| state.version == 1;
        order.reads(1, &written, new).unwrap();
        order.reads(2, &written, |state| !new(state)).unwrap();
        order.cycle()
    }

    #[test]
    fn reads_in_turn_see_a_transaction_in_all_rows() {
        let cycle = read_skew((6, Some(7))).expect("the second read began later");
        assert!(
            cycle.contains("node 0 from 1 to None\n    shown by"),
            "{cycle}"
        );
        assert!(cycle.contains("ended before the begin of"), "{cycle}");
        assert_eq!(read_skew((4, Some(7))), None);
    }

    /// Two transactions each read the row that the other one writes.
    #[test]
    fn write_skew_is_a_cycle() {
        let mut order = order(&[(1, Some(4)), (2, Some(3))]);
        let (x, y) = (row(&[0]), row(&[1]));
        order.reads(0, &y, |state| state.row.is_none()).unwrap();
        assert!(order.later[0] == [(1, "does not show")]);
        order.reads(1, &x, |state| state.row.is_none()).unwrap();
        assert!(order.cycle().is_some());
    }

    #[test]
    fn a_missing_row_counts_if_its_state_is_certain() {
        let absent = |state: &RowState| state.row.is_none();
        let later = |writers: &[i64]| {
            let mut order = order(&[(1, None), (2, None), (3, None), (4, Some(5))]);
            order.reads(3, &row(writers), absent).unwrap();
            order.later
        };
        // Before it was written, and not after it was deleted or before: either is possible.
        assert_eq!(later(&[1])[3], [(1, "does not show")]);
        assert!(later(&[1, -2]).iter().all(Vec::is_empty));
        assert_eq!(later(&[1, 2])[3], [(1, "does not show")]);
    }

    #[test]
    fn a_row_that_no_operation_has_left_is_noticed() {
        let mut order = order(&[(1, None), (2, Some(3))]);
        let seen = order.reads(1, &row(&[0]), |state| state.version == 7);
        assert!(seen.is_err());
    }

    #[test]
    fn an_operation_reads_what_was_before_its_own_change() {
        let mut order = order(&[(1, None), (2, Some(3))]);
        let written = row(&[0, 1]);
        assert!(
            order
                .reads(1, &written, |state| state.version == 2)
                .is_err()
        );
        order
            .reads(1, &written, |state| state.version == 1)
            .unwrap();
        assert_eq!(order.later[0], [(1, "shown by")]);
        assert!(order.later[1].is_empty());
    }
}
