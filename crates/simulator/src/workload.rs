//! Generates random operations, and translates them into the protocol's requests and back.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use placement::{
    Axis, Column, ColumnType, Constraint, KeySpace, Layout, RangeStart, RowView, Schema,
    SortColumn, Value, ValueRef, decode_key, encode_key, encode_row, prefix_end,
};
use protocol::codec::Bytes;
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::{Epoch, Version};
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::ChangeOutcome;

use crate::later_columns;
use crate::model::{
    A, COLUMNS, ColumnChange, Condition, Copy, D, GROUP, GroupTransaction, ID, IndexConstraint,
    Model, ModelRow, N, NULL, Observation, PartitionRange, TAG, U, WorkloadOperation, position,
};
use crate::plan::Workload;
use crate::random::Random;

/// The distance between the first ids, and the first indexed values, of two groups. So two groups
/// have no id or value in common.
pub const GROUP_STRIDE: i64 = 16;

/// The number of kinds of operations that write. They are the first in [`Workload::weights`].
const WRITE_KINDS: usize = 5;

/// Returns the group of an id.
pub fn group_of_id(id: i64) -> i64 {
    id / GROUP_STRIDE
}

/// Draws random operations. It estimates which rows exist, only to make interesting operations
/// likely.
#[derive(Debug)]
pub struct Generator {
    workload: Workload,
    random: Random,
    tag: i64,
}

impl Generator {
    /// Returns a generator with its own stream of random numbers.
    pub fn new(workload: Workload, random: Random) -> Self {
        Self {
            workload,
            random,
            tag: 0,
        }
    }

    /// Draws the next operation's group, and whether the operation is on the first row of the
    /// group.
    pub fn draw_group(&mut self) -> (i64, bool) {
        let hot = self.random.chance(self.workload.hot);
        let group = if hot {
            0
        } else {
            self.random.below(self.workload.groups as u64) as i64
        };
        (group, hot)
    }

    /// Draws the next operation on a row of `group`: on its first row if `hot`. A read uses one of
    /// the copies in `readable`. If `readable` is empty, because the client does not know the table
    /// yet, the operation is a write: the number of a replex may belong to another copy by the time
    /// the request arrives.
    pub fn draw(
        &mut self,
        (group, hot): (i64, bool),
        model: &Model,
        readable: &[usize],
    ) -> WorkloadOperation {
        let index = if hot {
            0
        } else {
            self.random.below(self.workload.ids as u64) as i64
        };
        let id = group * GROUP_STRIDE + index;
        let weights = match readable.is_empty() {
            true => &self.workload.weights[..WRITE_KINDS],
            false => &self.workload.weights[..],
        };
        match self.random.weighted(weights) {
            0 => WorkloadOperation::Insert(self.row(group, id)),
            1 => WorkloadOperation::InsertOrKeep(self.row(group, id)),
            2 => {
                let row = self.row(group, id);
                WorkloadOperation::Upsert(row, self.changes(group), self.condition(group))
            }
            3 => WorkloadOperation::Update(id, self.changes(group), self.condition(group)),
            4 => WorkloadOperation::Delete(id, self.condition(group)),
            5 | 6 if self.random.chance(self.workload.statements) => {
                WorkloadOperation::Statement(self.statement(model, readable, group))
            }
            5 => WorkloadOperation::Read(self.point(model, readable, group, id)),
            _ => WorkloadOperation::Read(self.range(model, readable, group)),
        }
    }

    /// Returns the ranges that a statement reads: several keys, or the cells that can match a part
    /// of a key. They are of one replex, and rarely of several.
    fn statement(&mut self, model: &Model, readable: &[usize], group: i64) -> Vec<PartitionRange> {
        let one = [*self.random.pick(readable)];
        let readable = match self.random.chance(0.1) {
            true => readable,
            false => &one[..],
        };
        if self.random.chance(0.4) {
            let range = self.range(model, readable, group);
            let cells = 0..model.copies[range.replex].partitions;
            let cell = |partition| PartitionRange {
                partition,
                ..range.clone()
            };
            return cells.map(cell).collect();
        }
        let count = self.random.between(2, 5);
        let keys = (0..count).map(|_| {
            let id = group * GROUP_STRIDE + self.random.below(self.workload.ids as u64) as i64;
            self.point(model, readable, group, id)
        });
        let mut ranges: Vec<PartitionRange> = Vec::new();
        for range in keys.collect::<Vec<_>>() {
            if !ranges.contains(&range) {
                ranges.push(range);
            }
        }
        ranges
    }

    /// Decides at random whether a write is part of a transaction.
    pub fn of_transaction(&mut self) -> bool {
        self.workload.transactions > 0.0 && self.random.chance(self.workload.transactions)
    }

    /// Decides at random whether a transaction changes rows of a second table.
    pub fn of_two_tables(&mut self) -> bool {
        self.random.chance(0.5)
    }

    /// Draws the part of a transaction in a group. `known` are rows that clients have read, with
    /// their versions.
    pub fn transaction(
        &mut self,
        group: i64,
        model: &Model,
        known: &[(ModelRow, Version)],
    ) -> (GroupTransaction, Vec<Version>) {
        let count = self.random.between(1, 4);
        let mut transaction = GroupTransaction {
            writes: Vec::new(),
            checks: Vec::new(),
            ranges: Vec::new(),
        };
        let mut versions = Vec::new();
        for _ in 0..count {
            let write = self.draw((group, false), model, &[]);
            let must_apply = self.random.chance(0.2);
            transaction.writes.push((write, must_apply));
        }
        if self.random.chance(0.4) {
            for _ in 0..self.random.between(1, 2) {
                let (row, version) = match known.is_empty() || self.random.chance(0.2) {
                    true => {
                        let index = self.random.below(self.workload.ids as u64) as i64;
                        let id = group * GROUP_STRIDE + index;
                        ((id, None), Version(0))
                    }
                    false => {
                        let (row, version) = *self.random.pick(known);
                        ((row[ID], Some(row)), version)
                    }
                };
                transaction.checks.push(row);
                versions.push(version);
            }
        }
        (transaction, versions)
    }

    /// Decides at random whether a transaction checks a range that was read, and whether its rows
    /// must have the same versions.
    pub fn checks_range(&mut self) -> Option<bool> {
        self.random.chance(0.3).then(|| self.random.chance(0.5))
    }

    /// Decides at random whether a read uses a snapshot.
    pub fn of_snapshot(&mut self) -> bool {
        self.workload.snapshots > 0.0 && self.random.chance(self.workload.snapshots)
    }

    /// Returns the ranges that cover all rows of a group: for each of these copies, one range in
    /// each partition.
    pub fn whole_group(model: &Model, readable: &[usize], group: i64) -> Vec<PartitionRange> {
        let mut ranges = Vec::new();
        for replex in readable {
            let copy = &model.copies[*replex];
            let (low, high) = group_bounds(copy, group);
            ranges.extend((0..copy.partitions).map(|partition| PartitionRange {
                replex: *replex,
                partition,
                low: low.clone(),
                high: high.clone(),
                descending: partition % 2 == 1,
                limit: 100,
            }));
        }
        ranges
    }

    /// Decides at random whether a read may be stale.
    pub fn stale(&mut self) -> bool {
        self.random.chance(self.workload.stale)
    }

    /// Decides at random whether a snapshot covers every table.
    pub fn of_every_table(&mut self) -> bool {
        let share = self.workload.wide_snapshots;
        share > 0.0 && self.random.chance(share)
    }

    /// Draws a group of the table at position `place` among `tables` tables.
    pub fn group_of_table(&mut self, place: usize, tables: usize) -> i64 {
        let groups = usize::try_from(self.workload.groups).expect("groups are few");
        // Every `tables`-th group from its place on is the table's.
        let own = (place..groups).step_by(tables).count();
        let number = self.random.below(own as u64) as usize;
        i64::try_from(place + number * tables).expect("groups are few")
    }

    /// Decides at random whether a read only counts rows.
    pub fn counts(&mut self) -> bool {
        self.random.chance(0.1)
    }

    fn value(&mut self, group: i64) -> i64 {
        group * GROUP_STRIDE + self.random.below(self.workload.values as u64) as i64
    }

    fn unique_value(&mut self, group: i64) -> i64 {
        if self.random.chance(0.1) {
            return NULL;
        }
        // One more than there are ids, so that some fit and some collide.
        group * GROUP_STRIDE + self.random.below(self.workload.ids as u64 + 1) as i64
    }

    fn tag(&mut self) -> i64 {
        self.tag += 1;
        self.tag
    }

    fn row(&mut self, group: i64, id: i64) -> ModelRow {
        let mut row = [0; COLUMNS];
        row[GROUP] = group;
        row[ID] = id;
        row[A] = self.value(group);
        row[U] = self.unique_value(group);
        row[D] = self.random.between(1, self.workload.ids as u64) as i64;
        row[TAG] = self.tag();
        row
    }

    fn changes(&mut self, group: i64) -> Vec<ColumnChange> {
        let mut changes = Vec::new();
        if self.random.chance(0.5) {
            changes.push(ColumnChange::Set(A, self.value(group)));
        }
        if self.random.chance(0.25) {
            changes.push(ColumnChange::Set(U, self.unique_value(group)));
        }
        if changes.is_empty() || self.random.chance(0.4) {
            changes.push(ColumnChange::Add(N, 1));
        }
        if self.random.chance(0.8) {
            changes.push(ColumnChange::Set(TAG, self.tag()));
        }
        changes
    }

    fn condition(&mut self, group: i64) -> Option<Condition> {
        if !self.random.chance(self.workload.conditional) {
            return None;
        }
        Some(if self.random.chance(0.5) {
            Condition {
                column: A,
                value: self.value(group),
            }
        } else {
            Condition {
                column: N,
                value: self.random.below(3) as i64,
            }
        })
    }

    /// Returns a lookup of one key of one replex.
    fn point(&mut self, model: &Model, readable: &[usize], group: i64, id: i64) -> PartitionRange {
        let replex = *self.random.pick(readable);
        let mut row = self.row(group, id);
        row[N] = self.random.below(3) as i64;
        if row[U] == NULL {
            row[U] = group * GROUP_STRIDE;
        }
        let key = model.key(replex, &row);
        let partition = (model.copies[replex].partition)(&row);
        PartitionRange {
            replex,
            partition,
            low: key.clone(),
            high: key,
            descending: false,
            limit: 100,
        }
    }

    /// Returns a range within one partition that stays within the group.
    fn range(&mut self, model: &Model, readable: &[usize], group: i64) -> PartitionRange {
        let replex = *self.random.pick(readable);
        let copy = &model.copies[replex];
        let mut row = self.row(group, group * GROUP_STRIDE);
        if row[U] == NULL {
            // A lookup of NULLs would find those of every group.
            row[U] = group * GROUP_STRIDE;
        }
        let key = model.key(replex, &row);
        let (mut low, mut high) = group_bounds(copy, group);
        if self.random.chance(0.3) && copy.columns[0].column != GROUP {
            low = vec![key[0]];
        }
        if self.random.chance(0.3) && copy.columns[0].column != GROUP {
            high = vec![key[0].max(low[0])];
        }
        PartitionRange {
            replex,
            partition: (copy.partition)(&row),
            low,
            high,
            descending: self.random.chance(0.3),
            limit: *self.random.pick(&[1, 2, 100]),
        }
    }
}

/// Returns the first and the last value, or prefix of values, that a group has in a copy.
fn group_bounds(copy: &Copy, group: i64) -> (Vec<i64>, Vec<i64>) {
    let first = copy.columns[0];
    let values = match first.column {
        GROUP => [group, group],
        _ => [group * GROUP_STRIDE, (group + 1) * GROUP_STRIDE - 1],
    };
    let mut ends = values.map(|value| position(first, value));
    ends.sort_unstable();
    (vec![ends[0]], vec![ends[1]])
}

/// A table in the terms of the protocol and in those of the model.
#[derive(Clone, Debug)]
pub struct Translation {
    /// The table's present schema.
    pub schema: Schema,
    /// The table's present layout.
    pub layout: Layout,
    /// The table in the model, with its present and its former copies.
    pub model: Model,
    /// The definitions that the model's copies were made from, by their place there.
    definitions: Vec<Definition>,
    /// The first epoch of each of the model's eras.
    since: Vec<Epoch>,
}

/// The properties that distinguish a replex from another one that has its number before or after
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    number: usize,
    name: String,
    is_thin: bool,
    demand: IndexConstraint,
    columns: Vec<SortColumn>,
    grid: Vec<(KeySpace, Axis)>,
    ranges: Option<Vec<RangeStart>>,
}

impl Definition {
    /// Returns the definitions of a table's copies: of the primary replex first.
    fn all(schema: &Schema, layout: &Layout) -> Vec<Definition> {
        let primary = layout.primary();
        let others = layout.numbers().filter(|number| *number != primary);
        let numbers = [primary].into_iter().chain(others);
        let all = numbers.map(|number| Definition::of(schema, layout, number));
        all.collect()
    }

    fn of(schema: &Schema, layout: &Layout, number: usize) -> Definition {
        let replex = &layout.replexes[number];
        let demand = match layout.constraint(schema, number) {
            None => IndexConstraint::Plain,
            Some(Constraint::Unique) => IndexConstraint::Unique,
            Some(Constraint::Dense) => IndexConstraint::Dense,
        };
        let axes = replex.axes.iter().map(|axis| {
            let key_space = layout.key_spaces[axis.key_space].clone();
            // Its number changes when others come and go.
            let bare = Axis {
                key_space: 0,
                ..*axis
            };
            (key_space, bare)
        });
        Definition {
            number,
            name: replex.name.clone(),
            is_thin: layout.is_thin(number),
            demand,
            columns: replex.sort_columns.clone(),
            grid: axes.collect(),
            ranges: replex.ranges.as_ref().map(|ranges| ranges.starts.clone()),
        }
    }

    fn copy(&self, layout: &Layout) -> Copy {
        let (number, layout) = (self.number, layout.clone());
        let spaces = self.grid.iter();
        let mut cut_by: Vec<usize> = spaces
            .flat_map(|(space, _)| space.columns.clone())
            .collect();
        if self.ranges.is_some() {
            cut_by = layout.order_columns(number);
        }
        let partitions = layout.partition_count(number);
        let memory: RefCell<BTreeMap<Vec<i64>, u32>> = RefCell::default();
        let partition = move |row: &ModelRow| {
            let values: Vec<i64> = cut_by.iter().map(|column| row[*column]).collect();
            let find = || layout.partition_of_values(number, |column| value_ref(row[column]));
            *memory.borrow_mut().entry(values).or_insert_with(find)
        };
        Copy {
            number,
            columns: self.columns.clone(),
            is_thin: self.is_thin,
            demand: self.demand,
            partitions,
            partition: Rc::new(partition),
        }
    }
}

impl Translation {
    /// Returns the translation for a table that is new.
    pub fn new(schema: &Schema, layout: &Layout) -> Self {
        let mut translation = Translation {
            schema: schema.clone(),
            layout: layout.clone(),
            model: Model {
                copies: Vec::new(),
                eras: Vec::new(),
            },
            definitions: Vec::new(),
            since: Vec::new(),
        };
        translation.begin_era(Epoch(0));
        translation
    }

    /// Records the table's definition from an epoch on. Begins an era of the model if the copies
    /// differ.
    pub fn change(&mut self, epoch: Epoch, schema: &Schema, layout: &Layout) -> Option<usize> {
        if *schema == self.schema && *layout == self.layout {
            return None;
        }
        self.schema = schema.clone();
        self.layout = layout.clone();
        self.begin_era(epoch);
        Some(self.model.eras.len() - 1)
    }

    /// Records that the table had its present definition in this epoch, if that is earlier than
    /// was known.
    pub fn note_late(&mut self, epoch: Epoch, schema: &Schema, layout: &Layout) {
        let [.., before, last] = &mut self.since[..] else {
            return;
        };
        if !(*before < epoch && epoch < *last) {
            return;
        }
        let present = self.model.eras.last().expect("it began with one");
        let present = present.iter().map(|copy| &self.definitions[*copy]);
        if Definition::all(schema, layout).iter().eq(present) {
            *last = epoch;
        }
    }

    fn begin_era(&mut self, epoch: Epoch) {
        let before = self.model.eras.last().cloned().unwrap_or_default();
        let mut era = Vec::new();
        for definition in Definition::all(&self.schema, &self.layout) {
            let mut stayed = before.iter().copied();
            let stayed = stayed.find(|copy| self.definitions[*copy] == definition);
            era.push(stayed.unwrap_or_else(|| {
                self.model.copies.push(definition.copy(&self.layout));
                self.definitions.push(definition);
                self.definitions.len() - 1
            }));
        }
        self.model.eras.push(era);
        self.since.push(epoch);
    }

    /// Returns the copies, by their positions in the model, that the table had in an epoch.
    pub fn copies_in(&self, epoch: Epoch) -> &[usize] {
        let era = self.since.partition_point(|since| *since <= epoch) - 1;
        &self.model.eras[era]
    }

    /// Returns a write as a mutation of the protocol.
    pub fn mutation(&self, operation: &WorkloadOperation) -> Mutation {
        let (id, action) = match operation {
            WorkloadOperation::Insert(row) => (row[ID], Action::Insert { row: self.row(row) }),
            WorkloadOperation::InsertOrKeep(row) => {
                (row[ID], Action::InsertOrKeep { row: self.row(row) })
            }
            WorkloadOperation::Upsert(row, changes, condition) => (
                row[ID],
                Action::Upsert {
                    row: self.row(row),
                    assignments: changes.iter().map(assignment).collect(),
                    condition: condition.map(expression),
                },
            ),
            WorkloadOperation::Update(id, changes, condition) => (
                *id,
                Action::Update {
                    assignments: changes.iter().map(assignment).collect(),
                    condition: condition.map(expression),
                },
            ),
            WorkloadOperation::Delete(id, condition) => (
                *id,
                Action::Delete {
                    condition: condition.map(expression),
                },
            ),
            WorkloadOperation::Read(_)
            | WorkloadOperation::Statement(_)
            | WorkloadOperation::ReadAll
            | WorkloadOperation::Transaction(_)
            | WorkloadOperation::Change(_) => unreachable!("only writes are mutations"),
        };
        Mutation {
            pk: Bytes(self.pk(id)),
            action,
        }
    }

    /// Returns the memcomparable primary key of an id.
    pub fn pk(&self, id: i64) -> Vec<u8> {
        let values = self.schema.primary_key.iter().map(|column| match *column {
            GROUP => ValueRef::Int64(group_of_id(id)),
            _ => ValueRef::Int64(id),
        });
        encode_key(values)
    }

    /// Returns the primary partition of an id.
    pub fn primary(&self, id: i64) -> u32 {
        let mut row = [0; COLUMNS];
        row[GROUP] = group_of_id(id);
        row[ID] = id;
        let (_, primary) = self.model.present().next().expect("a table has copies");
        (primary.partition)(&row)
    }

    /// Returns the first key of a range and the first key beyond it.
    pub fn bounds(&self, range: &PartitionRange) -> (Bytes, Option<Bytes>) {
        let columns = &self.model.copies[range.replex].columns;
        let encode = |positions: &[i64]| {
            let mut key = Vec::new();
            for (column, at) in columns.iter().zip(positions) {
                column.encode(&mut key, value_ref(position(*column, *at)));
            }
            key
        };
        (
            Bytes(encode(&range.low)),
            prefix_end(&encode(&range.high)).map(Bytes),
        )
    }

    /// Returns a row as bytes.
    pub fn row(&self, row: &ModelRow) -> Bytes {
        let values: Vec<Value> = row
            .iter()
            .map(|value| value_ref(*value).to_owned())
            .collect();
        // Clients never learn of the columns that are added later (R50).
        let columns = &self.schema.columns[..COLUMNS];
        Bytes(encode_row(columns, &values).expect("rows fit the schema"))
    }

    /// Returns the columns of a row's primary key, as a read that projects them returns them.
    pub fn pk_row(&self, row: &ModelRow) -> Vec<u8> {
        let columns = self.schema.key_projection();
        let values = columns
            .iter()
            .map(|column| value_ref(row[usize::from(*column)]).to_owned());
        let values: Vec<Value> = values.collect();
        let columns = columns
            .iter()
            .map(|column| self.schema.columns[usize::from(*column)].clone());
        encode_row(&columns.collect::<Vec<_>>(), &values).expect("rows fit the schema")
    }

    /// Returns a row from bytes.
    pub fn parse(&self, bytes: &[u8]) -> Result<ModelRow, String> {
        later_columns::hold(&self.schema.columns, bytes)?;
        Self::parse_as(&self.schema.columns, bytes)
    }

    /// Returns the columns of a row that an entry of a thin index has, and NULL for the others.
    pub fn parse_entry(&self, bytes: &[u8]) -> Result<ModelRow, String> {
        let mut columns = self.schema.columns.clone();
        columns.iter_mut().for_each(|column| column.nullable = true);
        Self::parse_as(&columns, bytes)
    }

    fn parse_as(columns: &[Column], bytes: &[u8]) -> Result<ModelRow, String> {
        let view = RowView::parse(columns, bytes)
            .map_err(|error| format!("a row does not parse: {error}"))?;
        let mut row = [0; COLUMNS];
        for (column, value) in row.iter_mut().enumerate() {
            *value = match view.column(column) {
                ValueRef::Int64(value) => value,
                ValueRef::Null => NULL,
                other => return Err(format!("column {column} is {other:?}, not a number")),
            };
        }
        Ok(row)
    }

    /// Returns what a write of a transaction has done as an observation of the model.
    pub fn done(outcome: ChangeOutcome) -> Observation {
        match outcome {
            ChangeOutcome::Applied => Observation::Applied,
            ChangeOutcome::Kept => Observation::Kept,
            ChangeOutcome::NotFound => Observation::NotFound,
            ChangeOutcome::ConditionFailed => Observation::ConditionFailed,
        }
    }

    /// Returns a result as an observation of the model.
    pub fn seen(&self, result: &RequestResult) -> Result<Observation, String> {
        Ok(match result {
            RequestResult::Applied { .. } => Observation::Applied,
            RequestResult::Kept => Observation::Kept,
            RequestResult::NotFound => Observation::NotFound,
            RequestResult::ConditionFailed => Observation::ConditionFailed,
            RequestResult::Duplicate { replex, key } => {
                let numbers = key_of_numbers(key)
                    .ok_or_else(|| format!("the duplicate key {key:?} of replex {replex}"))?;
                Observation::Duplicate(usize::from(*replex), numbers)
            }
            RequestResult::NotDense { replex, expected } => {
                Observation::NotDense(usize::from(*replex), *expected)
            }
            RequestResult::Conflict => Observation::Nothing,
            RequestResult::CheckFailed { .. } | RequestResult::Transaction(_) => {
                return Err(format!("a single write has the result {result:?}"));
            }
            RequestResult::Invalid { message } => {
                return Err(format!("a valid mutation was called invalid: {message}"));
            }
        })
    }
}

/// Returns the numbers of a key, whatever their count, because the copy of the key may no longer
/// exist.
fn key_of_numbers(key: &[u8]) -> Option<Vec<i64>> {
    let number = |value: &Value| match value {
        Value::Int64(value) => *value,
        _ => NULL,
    };
    let decoded = (1..=COLUMNS)
        .find_map(|count| decode_key(key, &[ColumnType::Int64; COLUMNS][..count]).ok());
    Some(decoded?.iter().map(number).collect())
}

/// Returns a value of the model as a value of a row.
pub fn value_ref(value: i64) -> ValueRef<'static> {
    if value == NULL {
        ValueRef::Null
    } else {
        ValueRef::Int64(value)
    }
}

fn literal(value: i64) -> Expression {
    Expression::Literal(value_ref(value).to_owned())
}

fn assignment(change: &ColumnChange) -> Assignment {
    let (column, value) = match *change {
        ColumnChange::Set(column, value) => (column, literal(value)),
        ColumnChange::Add(column, value) => {
            let old = Box::new(Expression::Column(column as u16));
            let value = Box::new(literal(value));
            (column, Expression::Binary(BinaryOperator::Add, old, value))
        }
    };
    Assignment {
        column: column as u16,
        value,
    }
}

fn expression(condition: Condition) -> Expression {
    let column = Box::new(Expression::Column(condition.column as u16));
    let value = Box::new(literal(condition.value));
    Expression::Binary(BinaryOperator::Equal, column, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RunPlan;

    #[test]
    fn rows_and_bounds_translate_both_ways() {
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let plan = RunPlan::draw(&mut random);
            let layout = Layout::base(&plan.schema);
            let translation = Translation::new(&plan.schema, &layout);
            let mut generator = Generator::new(plan.workload, random);
            for _ in 0..50 {
                let (group, hot) = generator.draw_group();
                let operation = generator.draw((group, hot), &translation.model, &[0]);
                match operation {
                    WorkloadOperation::Insert(row) => {
                        assert_eq!(translation.parse(&translation.row(&row)).unwrap(), row);
                        assert_eq!(group_of_id(row[ID]), group);
                    }
                    WorkloadOperation::Read(range) => {
                        let (start, end) = translation.bounds(&range);
                        assert!(end.is_none_or(|end| start.0 < end.0));
                    }
                    WorkloadOperation::Statement(ranges) => assert!(!ranges.is_empty()),
                    other => assert!(!translation.mutation(&other).pk.is_empty()),
                }
            }
        }
    }

    #[test]
    fn a_copy_that_gets_the_number_of_another_one_is_new() {
        let schema = RunPlan::draw(&mut Random::new(1)).schema;
        let with = |columns: &[usize], constraint| {
            let mut wanted = schema.clone();
            wanted.further.clear();
            wanted.indexes = vec![placement::Index {
                name: "late".into(),
                columns: columns.to_vec(),
                constraint,
                partition_columns: None,
                by_range: false,
            }];
            wanted
        };
        let eras = [
            with(&[A], None),
            with(&[A], Some(Constraint::Unique)),
            with(&[A], Some(Constraint::Unique)),
            with(&[U], None),
        ];
        let mut table = Translation::new(&eras[0], &Layout::base(&eras[0]));
        let mut begun = Vec::new();
        for (epoch, schema) in (7..).zip(&eras) {
            begun.push(table.change(Epoch(epoch), schema, &Layout::base(schema)));
        }
        assert_eq!(begun, [None, Some(1), None, Some(2)]);
        let late = |epoch| {
            let copies = table.copies_in(Epoch(epoch)).iter();
            let mut late = copies.filter(|copy| table.definitions[**copy].name == "late");
            *late.next().unwrap()
        };
        assert_eq!(late(0), late(7));
        assert!(late(7) < late(8) && late(8) == late(9) && late(9) < late(10));
        assert_eq!(table.model.copies[late(8)].demand, IndexConstraint::Unique);
    }
}
