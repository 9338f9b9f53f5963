//! A model of a table: the rows of one group, and the effect of each operation on them.
//!
//! The model shares no code with the store on purpose. A row is seven numbers, so that a history
//! can be checked thousands of times a second. Rows of different groups share no key of any index,
//! so that every group is an object of its own for the linearisability checker.
//!
//! Copies come and go while the table is in use. Each change is an operation of its own in every
//! group's history: what a unique index demands holds for the writes after it.

use std::rc::Rc;

use placement::SortColumn;

use crate::linearizable::Object;

/// Columns of the simulated table.
pub const COLUMNS: usize = 7;
/// The group; part of every dense key.
pub const GROUP: usize = 0;
/// The primary key, unique over all groups.
pub const ID: usize = 1;
/// A column with a plain index; updates move it.
pub const A: usize = 2;
/// A column with a unique index; can be NULL.
pub const U: usize = 3;
/// A column that counts 1, 2, 3, … within the group where there is a dense index.
pub const D: usize = 4;
/// A counter.
pub const N: usize = 5;
/// Names the write that made the row.
pub const TAG: usize = 6;

/// NULL. It sorts last, as the keys' encoding has it.
pub const NULL: i64 = i64::MAX;

/// A row: one number per column.
pub type ModelRow = [i64; COLUMNS];

/// One column's new value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnChange {
    /// Sets the column to this value.
    Set(usize, i64),
    /// Adds this value to the column.
    Add(usize, i64),
}

/// A condition: the column equals the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The column; never NULL here.
    pub column: usize,
    /// The value that the column must have.
    pub value: i64,
}

/// An operation that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadOperation {
    /// `INSERT`.
    Insert(ModelRow),
    /// `INSERT … ON CONFLICT DO NOTHING`.
    InsertOrKeep(ModelRow),
    /// `INSERT … ON CONFLICT DO UPDATE`.
    Upsert(ModelRow, Vec<ColumnChange>, Option<Condition>),
    /// `UPDATE` by primary key.
    Update(i64, Vec<ColumnChange>, Option<Condition>),
    /// `DELETE` by primary key.
    Delete(i64, Option<Condition>),
    /// `SELECT` on one partition of one replex.
    Read(PartitionRange),
    /// `SELECT` that reads several ranges: keys, cells, pages (R35).
    Statement(Vec<PartitionRange>),
    /// All rows of the group, by id, as they are at rest.
    ReadAll,
    /// A change of the table's copies. Contains the era that it begins.
    Change(usize),
    /// The part of a transaction that concerns one group.
    Transaction(GroupTransaction),
}

/// The part of a transaction that concerns one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTransaction {
    /// The writes, and whether the transaction aborts if one does not apply.
    pub writes: Vec<(WorkloadOperation, bool)>,
    /// Rows that must be as the client has read them, by id; none must not exist.
    pub checks: Vec<(i64, Option<ModelRow>)>,
    /// Ranges that must be as the client has read them.
    pub ranges: Vec<RangeRead>,
}

/// The rows that a client has read in a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeRead {
    /// The range.
    pub range: PartitionRange,
    /// Its rows, in its order.
    pub rows: Vec<ModelRow>,
    /// Whether the rows must have the same content, and not only the same keys.
    pub versions: bool,
}

impl WorkloadOperation {
    /// Returns the id of the row that a write names.
    pub fn id(&self) -> i64 {
        match self {
            WorkloadOperation::Insert(row)
            | WorkloadOperation::InsertOrKeep(row)
            | WorkloadOperation::Upsert(row, ..) => row[ID],
            WorkloadOperation::Update(id, ..) | WorkloadOperation::Delete(id, _) => *id,
            _ => unreachable!("only writes name a row"),
        }
    }

    /// Returns whether the operation is a write of one row.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            WorkloadOperation::Insert(_)
                | WorkloadOperation::InsertOrKeep(_)
                | WorkloadOperation::Upsert(..)
                | WorkloadOperation::Update(..)
                | WorkloadOperation::Delete(..)
        )
    }

    /// Returns whether the operation only reads.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            WorkloadOperation::Read(_) | WorkloadOperation::Statement(_)
        )
    }
}

/// A range of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionRange {
    /// The index of the copy in the model.
    pub replex: usize,
    /// The partition of the replex.
    pub partition: u32,
    /// Lowest sorting key, or a prefix of it.
    pub low: Vec<i64>,
    /// Highest sorting key, or a prefix of it, included.
    pub high: Vec<i64>,
    /// Whether rows are returned in descending order.
    pub descending: bool,
    /// The limit of rows.
    pub limit: usize,
}

/// The result of an operation, as a client saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// It was done.
    Applied,
    /// The row was left as it was.
    Kept,
    /// No such row.
    NotFound,
    /// The condition does not hold.
    ConditionFailed,
    /// A row has the key in the replex of this number.
    Duplicate(usize, Vec<i64>),
    /// The dense index of this number expects this value.
    NotDense(usize, i64),
    /// A conflict: nothing was changed, whatever the rows.
    Nothing,
    /// Rows of a read.
    Rows(Vec<ModelRow>),
    /// Rows of each range of a statement.
    Ranges(Vec<Vec<ModelRow>>),
    /// How many rows a read found.
    Count(u64),
    /// A transaction committed. Contains what each of its writes has shown.
    Committed(Vec<Observation>),
    /// A transaction aborted, because the write at this index did not apply.
    Unapplied(usize, Box<Observation>),
}

/// The constraint of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexConstraint {
    /// Nothing.
    Plain,
    /// No two rows with the same key, unless a part of it is NULL.
    Unique,
    /// The last column counts within the group of the others.
    Dense,
}

/// A function that returns the partition of a row.
pub type PartitionOf = dyn Fn(&ModelRow) -> u32;

/// One replex as the model sees it.
#[derive(Clone)]
pub struct Copy {
    /// The replex's number in the configuration. An added replex may get the number of a dropped
    /// one.
    pub number: usize,
    /// The sorting key, without the primary key behind it.
    pub columns: Vec<SortColumn>,
    /// Whether this is a thin index, and no copy.
    pub is_thin: bool,
    /// The constraint of the replex.
    pub demand: IndexConstraint,
    /// The number of partitions of the replex.
    pub partitions: u32,
    /// The partition of a row: the only thing that `placement` computes here.
    pub partition: Rc<PartitionOf>,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {:?}", self.demand, self.columns)
    }
}

/// A table: the replexes that it has and had.
#[derive(Clone, Debug)]
pub struct Model {
    /// The replexes.
    pub copies: Vec<Copy>,
    /// For each era, the replexes that the table has, the primary one first. A change of the copies
    /// begins an era.
    pub eras: Vec<Vec<usize>>,
}

/// The rows of one group, by id.
pub type GroupRows = Vec<ModelRow>;

/// The state that operations change: the rows of one group, and the era, which determines the
/// copies that check writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupState {
    /// The era of the table.
    pub era: usize,
    /// The rows.
    pub rows: GroupRows,
}

impl Object for Model {
    type State = GroupState;
    type Operation = WorkloadOperation;
    type Observation = Observation;

    fn step(
        &self,
        state: &GroupState,
        operation: &WorkloadOperation,
        seen: Option<&Observation>,
    ) -> Option<GroupState> {
        let (mut era, rows) = (state.era, &state.rows);
        let rows = match operation {
            WorkloadOperation::Change(next) => {
                era = *next;
                rows.clone()
            }
            _ => self.after((era, rows), operation, seen)?,
        };
        Some(GroupState { era, rows })
    }

    fn only_looks(&self, _: &WorkloadOperation, seen: &Observation) -> bool {
        !matches!(seen, Observation::Applied | Observation::Committed(_))
    }
}

impl Model {
    /// Returns a table that has these copies from its first moment on.
    pub fn new(copies: Vec<Copy>) -> Model {
        let eras = vec![(0..copies.len()).collect()];
        Model { copies, eras }
    }

    /// Returns the copies that the table has now.
    pub fn present(&self) -> impl Iterator<Item = (usize, &Copy)> {
        let era = self.eras.last().into_iter().flatten();
        era.map(|copy| (*copy, &self.copies[*copy]))
    }

    /// Returns the rows after `operation` on `rows`; none if the operation cannot have the result
    /// `seen` on them. If the client never learnt the result, `seen` is none.
    fn after(
        &self,
        (era, rows): (usize, &GroupRows),
        operation: &WorkloadOperation,
        seen: Option<&Observation>,
    ) -> Option<GroupRows> {
        if let WorkloadOperation::Read(range) = operation {
            let agrees = match seen {
                None => true,
                Some(Observation::Rows(found)) => self.read(rows, range).iter().eq(found),
                Some(Observation::Count(count)) => self.read(rows, range).len() as u64 == *count,
                Some(_) => false,
            };
            return agrees.then(|| rows.clone());
        }
        if let WorkloadOperation::Statement(ranges) = operation {
            let found = || ranges.iter().map(|range| self.read(rows, range));
            let agrees = match seen {
                None => true,
                Some(Observation::Ranges(seen)) => found().eq(seen.iter().cloned()),
                Some(_) => false,
            };
            return agrees.then(|| rows.clone());
        }
        if let WorkloadOperation::ReadAll = operation {
            let agrees = seen.is_none_or(|seen| *seen == Observation::Rows(rows.clone()));
            return agrees.then(|| rows.clone());
        }
        if seen == Some(&Observation::Nothing) {
            return Some(rows.clone());
        }
        if let WorkloadOperation::Transaction(transaction) = operation {
            return self.after_transaction((era, rows), transaction, seen);
        }
        let agrees = |expected: &Observation| seen.is_none_or(|seen| seen == expected);
        // A row that keeps its key, which others have, too, may be judged or not: there is a copy
        // being made that cannot be, because of them.
        match self.proposal((era, rows), operation) {
            Err(outcome) => agrees(&outcome).then(|| rows.clone()),
            Ok((old, new)) => {
                let violations = self.violations((era, rows), old, new);
                let must_fail = violations.iter().any(|(_, is_certain)| *is_certain);
                if !must_fail && agrees(&Observation::Applied) {
                    return Some(replaced(rows, old, new));
                }
                let mut reasons = violations.iter().map(|(reason, _)| reason);
                reasons.any(agrees).then(|| rows.clone())
            }
        }
    }

    /// Returns the rows after the part of a transaction in this group; none if it cannot have this
    /// result. Its constraints are judged by the rows that it leaves.
    fn after_transaction(
        &self,
        (era, rows): (usize, &GroupRows),
        transaction: &GroupTransaction,
        seen: Option<&Observation>,
    ) -> Option<GroupRows> {
        let agrees = |expected: &Observation| seen.is_none_or(|seen| seen == expected);
        let mut left = rows.clone();
        let mut shown = Vec::new();
        let mut reasons = Vec::new();
        // The rows whose evaluation has failed: what follows on them is not evaluated.
        let mut failed: Vec<i64> = Vec::new();
        let mut written: Vec<i64> = Vec::new();
        for (index, (write, must_apply)) in transaction.writes.iter().enumerate() {
            let id = write.id();
            if failed.contains(&id) {
                continue;
            }
            match self.proposal((era, &left), write) {
                Ok((old, new)) => {
                    left = replaced(&left, old, new);
                    written.push(id);
                    shown.push(Observation::Applied);
                }
                Err(duplicate @ Observation::Duplicate(..)) => {
                    failed.push(id);
                    reasons.push((duplicate, true));
                }
                Err(outcome) if *must_apply => {
                    failed.push(id);
                    reasons.push((Observation::Unapplied(index, Box::new(outcome)), true));
                }
                Err(outcome) => shown.push(outcome),
            }
        }
        if reasons.is_empty() {
            reasons = self.violations_left((era, rows), &left, &written);
        }
        let is_unchanged = |(id, row): &(i64, Option<ModelRow>)| {
            rows.iter().find(|known| known[ID] == *id) == row.as_ref()
        };
        let has_rows = |read: &RangeRead| {
            let found = self.read(rows, &read.range);
            match read.versions {
                true => found == read.rows,
                false => found
                    .iter()
                    .map(|row| row[ID])
                    .eq(read.rows.iter().map(|row| row[ID])),
            }
        };
        let may_commit = !reasons.iter().any(|(_, is_certain)| *is_certain)
            && transaction.checks.iter().all(is_unchanged)
            && transaction.ranges.iter().all(has_rows);
        if may_commit && agrees(&Observation::Committed(shown)) {
            return Some(left);
        }
        let aborts = seen.is_none() || reasons.iter().any(|(reason, _)| agrees(reason));
        aborts.then(|| rows.clone())
    }

    /// Returns every reason to refuse the rows that a transaction leaves, and whether a member
    /// certainly does. `written` contains the ids of the rows that it writes, which can leave a row
    /// as it was.
    fn violations_left(
        &self,
        (era, rows): (usize, &GroupRows),
        left: &GroupRows,
        written: &[i64],
    ) -> Vec<(Observation, bool)> {
        let before = |id: i64| rows.iter().find(|row| row[ID] == id);
        let changed = left.iter().filter(|row| written.contains(&row[ID]));
        let changed: Vec<&ModelRow> = changed.collect();
        let mut violations = Vec::new();
        for &replex in &self.eras[era] {
            let copy = &self.copies[replex];
            let key = |row: &ModelRow| self.key(replex, row);
            match copy.demand {
                IndexConstraint::Plain => {}
                IndexConstraint::Unique => {
                    for new in &changed {
                        let taken = left
                            .iter()
                            .any(|row| row[ID] != new[ID] && key(row) == key(new));
                        if taken && !self.key_has_null(replex, new) {
                            let old = before(new[ID]);
                            let keeps = old.is_some_and(|old| key(old) == key(new));
                            let seen = Observation::Duplicate(copy.number, key(new));
                            violations.push((seen, !keeps));
                        }
                    }
                }
                IndexConstraint::Dense => {
                    let places = |rows: &GroupRows| {
                        let places = rows.iter().map(key);
                        places.collect::<std::collections::BTreeSet<Vec<i64>>>()
                    };
                    let (old, new) = (places(rows), places(left));
                    let leaves: Vec<Vec<i64>> = old.difference(&new).cloned().collect();
                    let enters: Vec<Vec<i64>> = new.difference(&old).cloned().collect();
                    let group = |key: &Vec<i64>| key[..key.len() - 1].to_vec();
                    let mut groups: Vec<Vec<i64>> =
                        leaves.iter().chain(&enters).map(group).collect();
                    // Two rows of one place.
                    let doubled = left.len() != new.len();
                    if doubled {
                        groups.extend(changed.iter().map(|row| group(&key(row))));
                    }
                    groups.sort_unstable();
                    groups.dedup();
                    for of in groups {
                        let in_group = |key: &&Vec<i64>| group(key) == of;
                        let count = old.iter().filter(in_group).count() as i64;
                        let last = |key: &Vec<i64>| key[key.len() - 1];
                        let out: Vec<i64> = leaves.iter().filter(in_group).map(last).collect();
                        let into: Vec<i64> = enters.iter().filter(in_group).map(last).collect();
                        let next = count + into.len() as i64 - out.len() as i64;
                        let ends = out.iter().all(|value| (next + 1..=count).contains(value));
                        let follows = into.iter().all(|value| (count + 1..=next).contains(value));
                        let one_way = out.is_empty() || into.is_empty();
                        let twice = left.iter().filter(|row| group(&key(row)) == of).count()
                            != new.iter().filter(in_group).count();
                        if !ends || !follows || !one_way || twice {
                            violations.push((Observation::NotDense(copy.number, count + 1), true));
                        }
                    }
                }
            }
        }
        violations
    }

    /// Returns whether a row is in a range.
    pub fn is_in(&self, range: &PartitionRange, row: &ModelRow) -> bool {
        let key = self.key(range.replex, row);
        key[..range.low.len()] >= range.low[..]
            && key[..range.high.len()] <= range.high[..]
            && (self.copies[range.replex].partition)(row) == range.partition
    }

    /// Returns the rows of a range, in its order.
    fn read(&self, rows: &GroupRows, range: &PartitionRange) -> Vec<ModelRow> {
        let mut matching: Vec<(Vec<i64>, ModelRow)> = Vec::with_capacity(rows.len());
        for row in rows {
            if self.is_in(range, row) {
                let mut key = self.key(range.replex, row);
                key.push(row[ID]);
                matching.push((key, *row));
            }
        }
        matching.sort_unstable();
        if range.descending {
            matching.reverse();
        }
        matching.truncate(range.limit);
        matching.into_iter().map(|(_, row)| row).collect()
    }

    /// Returns the old and new row that an operation is about, or what it shows instead.
    fn proposal(
        &self,
        (era, rows): (usize, &GroupRows),
        operation: &WorkloadOperation,
    ) -> Result<(Option<ModelRow>, Option<ModelRow>), Observation> {
        let find = |id: i64| rows.iter().find(|row| row[ID] == id).copied();
        let check = |row: &ModelRow, condition: &Option<Condition>| match condition {
            Some(condition) if row[condition.column] != condition.value => {
                Err(Observation::ConditionFailed)
            }
            _ => Ok(()),
        };
        match operation {
            WorkloadOperation::Insert(row) => match find(row[ID]) {
                Some(_) => {
                    let primary = self.eras[era][0];
                    let number = self.copies[primary].number;
                    Err(Observation::Duplicate(number, self.key(primary, row)))
                }
                None => Ok((None, Some(*row))),
            },
            WorkloadOperation::InsertOrKeep(row) => match find(row[ID]) {
                Some(_) => Err(Observation::Kept),
                None => Ok((None, Some(*row))),
            },
            WorkloadOperation::Upsert(row, changes, condition) => match find(row[ID]) {
                Some(old) => {
                    check(&old, condition)?;
                    Ok((Some(old), Some(changed(&old, changes))))
                }
                None => Ok((None, Some(*row))),
            },
            WorkloadOperation::Update(id, changes, condition) => {
                let old = find(*id).ok_or(Observation::NotFound)?;
                check(&old, condition)?;
                Ok((Some(old), Some(changed(&old, changes))))
            }
            WorkloadOperation::Delete(id, condition) => {
                let old = find(*id).ok_or(Observation::NotFound)?;
                check(&old, condition)?;
                Ok((Some(old), None))
            }
            WorkloadOperation::Read(_)
            | WorkloadOperation::Statement(_)
            | WorkloadOperation::ReadAll
            | WorkloadOperation::Transaction(_)
            | WorkloadOperation::Change(_) => unreachable!("only writes propose something"),
        }
    }

    /// Returns every reason to vote no, and whether a member certainly does. The real chain reports
    /// the first, the model allows any.
    fn violations(
        &self,
        (era, rows): (usize, &GroupRows),
        old: Option<ModelRow>,
        new: Option<ModelRow>,
    ) -> Vec<(Observation, bool)> {
        let mut violations = Vec::new();
        for &replex in &self.eras[era] {
            let copy = &self.copies[replex];
            match copy.demand {
                IndexConstraint::Plain => {}
                IndexConstraint::Unique => {
                    let Some(new) = new else { continue };
                    let key = self.key(replex, &new);
                    let taken = rows
                        .iter()
                        .any(|row| row[ID] != new[ID] && self.key(replex, row) == key);
                    if !self.key_has_null(replex, &new) && taken {
                        let keeps_key = old.is_some_and(|old| self.key(replex, &old) == key);
                        violations.push((Observation::Duplicate(copy.number, key), !keeps_key));
                    }
                }
                IndexConstraint::Dense => {
                    let key = |row: ModelRow| self.key(replex, &row);
                    let (old, new) = (old.map(key), new.map(key));
                    let Some(any) = old.as_ref().or(new.as_ref()).filter(|_| old != new) else {
                        continue;
                    };
                    let group = &any[..any.len() - 1];
                    let count = rows
                        .iter()
                        .filter(|row| self.key(replex, row).starts_with(group))
                        .count() as i64;
                    let last = |key: Vec<i64>| key[key.len() - 1];
                    let taken = old.is_none_or(|old| last(old) == count);
                    if !taken || new.is_some_and(|new| last(new) != count + 1) {
                        violations.push((Observation::NotDense(copy.number, count + 1), true));
                    }
                }
            }
        }
        violations
    }

    /// Returns whether a column of the sorting key of a row in a replex is NULL.
    pub fn key_has_null(&self, replex: usize, row: &ModelRow) -> bool {
        let mut columns = self.copies[replex].columns.iter();
        columns.any(|it| row[it.column] == NULL)
    }

    /// Returns the sorting key of a row in a replex.
    pub fn key(&self, replex: usize, row: &ModelRow) -> Vec<i64> {
        self.copies[replex]
            .columns
            .iter()
            .map(|it| position(*it, row[it.column]))
            .collect()
    }
}

/// Returns the number by which a value, or NULL, sorts in a column of a key. Returns the value of
/// such a number, too.
pub fn position(column: SortColumn, value: i64) -> i64 {
    // Inversion reverses the order, and with it the place of NULL.
    assert_eq!(
        column.descending, column.nulls_first,
        "NULL is larger than every value"
    );
    if column.descending { !value } else { value }
}

fn changed(old: &ModelRow, changes: &[ColumnChange]) -> ModelRow {
    let mut new = *old;
    for change in changes {
        match *change {
            ColumnChange::Set(column, value) => new[column] = value,
            ColumnChange::Add(column, value) => new[column] = old[column] + value,
        }
    }
    new
}

fn replaced(rows: &GroupRows, old: Option<ModelRow>, new: Option<ModelRow>) -> GroupRows {
    let mut rows = rows.clone();
    if let Some(old) = old {
        rows.retain(|row| row[ID] != old[ID]);
    }
    if let Some(new) = new {
        let place = rows.partition_point(|row| row[ID] < new[ID]);
        rows.insert(place, new);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Primary, a plain index on `a`, a unique one on `u`, a dense one on (group, `d`); all rows
    /// in partition 0.
    fn model() -> Model {
        let copy = |number, columns: &[usize], demand| Copy {
            number,
            columns: placement::ascending(columns),
            is_thin: false,
            demand,
            partitions: 1,
            partition: Rc::new(|_| 0),
        };
        Model::new(vec![
            copy(0, &[ID], IndexConstraint::Plain),
            copy(1, &[U], IndexConstraint::Unique),
            copy(2, &[GROUP, D], IndexConstraint::Dense),
            copy(3, &[A], IndexConstraint::Plain),
        ])
    }

    fn state(rows: Vec<ModelRow>) -> GroupState {
        GroupState { era: 0, rows }
    }

    fn row(id: i64, a: i64, u: i64, d: i64) -> ModelRow {
        [0, id, a, u, d, 0, id]
    }

    #[test]
    fn unique_keys_are_taken_once_and_nulls_never() {
        let model = model();
        let rows = state(vec![row(1, 5, 7, 1)]);
        let insert = WorkloadOperation::Insert(row(2, 5, 7, 2));
        assert_eq!(
            model.step(&rows, &insert, Some(&Observation::Applied)),
            None
        );
        let duplicate = Observation::Duplicate(1, vec![7]);
        assert_eq!(
            model.step(&rows, &insert, Some(&duplicate)),
            Some(rows.clone())
        );
        let rows = state(vec![row(1, 5, NULL, 1)]);
        let insert = WorkloadOperation::Insert(row(2, 5, NULL, 2));
        assert!(
            model
                .step(&rows, &insert, Some(&Observation::Applied))
                .is_some()
        );
    }

    #[test]
    fn dense_values_have_no_holes() {
        let model = model();
        let rows = state(vec![row(1, 5, 1, 1), row(2, 5, 2, 2)]);
        let insert = WorkloadOperation::Insert(row(3, 5, 3, 4));
        let expected = Observation::NotDense(2, 3);
        assert!(model.step(&rows, &insert, Some(&expected)).is_some());
        assert!(
            model
                .step(&rows, &insert, Some(&Observation::Applied))
                .is_none()
        );
        let delete = WorkloadOperation::Delete(1, None);
        assert!(model.step(&rows, &delete, Some(&expected)).is_some());
        let delete = WorkloadOperation::Delete(2, None);
        assert_eq!(
            model.step(&rows, &delete, Some(&Observation::Applied)),
            Some(state(vec![rows.rows[0]]))
        );
    }

    #[test]
    fn reads_show_the_range_in_order() {
        let model = model();
        let rows = state(vec![row(1, 6, 1, 1), row(2, 5, 2, 2), row(3, 8, 3, 3)]);
        let mut range = PartitionRange {
            replex: 3,
            partition: 0,
            low: vec![5],
            high: vec![6],
            descending: false,
            limit: 10,
        };
        let shows = |range: &PartitionRange, found: &[ModelRow]| {
            let read = WorkloadOperation::Read(range.clone());
            model
                .step(&rows, &read, Some(&Observation::Rows(found.to_vec())))
                .is_some()
        };
        assert!(shows(&range, &[rows.rows[1], rows.rows[0]]));
        assert!(!shows(&range, &[rows.rows[0], rows.rows[1]]));
        assert!(!shows(&range, &[rows.rows[1]]));
        range.descending = true;
        range.limit = 1;
        assert!(shows(&range, &[rows.rows[0]]));
        range.partition = 1;
        assert!(shows(&range, &[]));
    }

    #[test]
    fn conditions_are_compared_with_the_row_before() {
        let model = model();
        let rows = state(vec![row(1, 5, 1, 1)]);
        let condition = Some(Condition {
            column: N,
            value: 0,
        });
        let update = WorkloadOperation::Update(1, vec![ColumnChange::Add(N, 1)], condition);
        let after = model
            .step(&rows, &update, Some(&Observation::Applied))
            .unwrap();
        assert_eq!(after.rows[0][N], 1);
        assert!(
            model
                .step(&after, &update, Some(&Observation::Applied))
                .is_none()
        );
        assert!(
            model
                .step(&after, &update, Some(&Observation::ConditionFailed))
                .is_some()
        );
        assert_eq!(model.step(&after, &update, None), Some(after));
    }

    #[test]
    fn a_unique_index_demands_from_its_coming_to_its_going() {
        let mut model = model();
        model.eras.push(vec![0, 3]);
        model.copies[3].demand = IndexConstraint::Unique;
        model.eras[0] = vec![0];
        let rows = state(vec![row(1, 5, 1, 1)]);
        let insert = WorkloadOperation::Insert(row(2, 5, 2, 2));
        let duplicate = Observation::Duplicate(3, vec![5]);
        assert_eq!(model.step(&rows, &insert, Some(&duplicate)), None);
        assert!(
            model
                .step(&rows, &insert, Some(&Observation::Applied))
                .is_some()
        );
        let later = model.step(
            &rows,
            &WorkloadOperation::Change(1),
            Some(&Observation::Applied),
        );
        let later = later.unwrap();
        assert_eq!(
            model.step(&later, &insert, Some(&Observation::Applied)),
            None
        );
        assert!(model.step(&later, &insert, Some(&duplicate)).is_some());
    }
}
