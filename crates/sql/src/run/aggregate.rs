//! Runs statements whose results are computed from groups of rows: combines what the partitions
//! counted, and the rows that they returned.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use placement::Value;
use protocol::expression::Expression;

use super::accumulate::{AggregateState, result};
use super::read::{HeldRows, ROWS_HELD_MAX, StatementRead, give_out, only, output, value_of};
use super::{Attempt, LOOKUPS_AT_A_TIME, OutputColumn, ReadContext, ResultRows, gather};
use crate::error::{SqlError, sqlstate};
use crate::plan::{AggregateCall, AggregatePart, AggregatePlan, AggregateRead};
use crate::store::Store;

impl<S: Store> ReadContext<'_, S> {
    /// Returns the rows of a `SELECT` of groups. All of its reads show one state (R35).
    pub async fn aggregate(&self, plan: AggregatePlan) -> Result<ResultRows, Attempt> {
        let columns = plan.items.iter().map(|item| OutputColumn {
            name: item.name.clone(),
            column_type: item.column_type,
        });
        let columns = columns.collect();
        let rows = match plan.limit {
            Some(0) => Vec::new(),
            _ => results(&plan, self.folds(&plan).await?)?,
        };
        Ok(ResultRows { columns, rows })
    }

    /// Returns the groups of each read.
    async fn folds<'p>(&self, plan: &'p AggregatePlan) -> Result<Vec<GroupFold<'p>>, Attempt> {
        let Some(first) = plan.reads.first() else {
            let mut fold = GroupFold::new(plan, 0);
            let added = fold.add_row(&Vec::new())?;
            debug_assert!(added.is_continue(), "a fold takes all rows");
            return Ok(vec![fold]);
        };
        let table = self.table(&first.read);
        let (mut bounds, mut plans, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for AggregateRead { read, part } in &plan.reads {
            bounds.push(self.bound(read).await?);
            let limit = (*part == AggregatePart::First).then_some(1);
            let count_only = *part == AggregatePart::Count;
            let of_read = self.gather_plans(read, table, limit, count_only);
            counts.push(of_read.len());
            plans.extend(of_read);
        }
        let numbers = 0..plan.reads.len();
        let mut folds: Vec<GroupFold<'_>> = numbers.map(|it| GroupFold::new(plan, it)).collect();
        let (plans, _snapshot) = match self.begin(table, plans).await? {
            StatementRead::Moment(moment) => {
                let mut gathers = moment.into_iter();
                for (fold, count) in folds.iter_mut().zip(counts) {
                    for mut gather in gathers.by_ref().take(count) {
                        give_out(table, &mut gather, |row| fold.add_row(&row))?;
                        fold.add_count(gather.count());
                    }
                }
                return Ok(folds);
            }
            StatementRead::Pages(plans, snapshot) => (plans, snapshot),
        };
        let mut plans = plans.into_iter();
        for ((fold, bound), count) in folds.iter_mut().zip(bounds).zip(counts) {
            let of_read = plans.by_ref().take(count).collect();
            if bound.is_some() {
                let each = |row: Vec<Value>| fold.add_row(&row);
                let count = gather(self.store, table, only(of_read), bound, each).await?;
                fold.add_count(count);
                continue;
            }
            let parts = stream::iter(of_read).map(|plan| {
                let mut part = fold.clone();
                async move {
                    let each = |row: Vec<Value>| part.add_row(&row);
                    let count = gather(self.store, table, plan, None, each).await?;
                    part.add_count(count);
                    Ok::<_, Attempt>(part)
                }
            });
            let parts: Vec<_> = parts
                .buffer_unordered(LOOKUPS_AT_A_TIME)
                .try_collect()
                .await?;
            for part in parts {
                fold.add(part)?;
            }
        }
        Ok(folds)
    }
}

/// The groups of one read, over the rows so far.
#[derive(Clone)]
struct GroupFold<'p> {
    part: AggregatePart,
    keys: &'p [Expression],
    /// The names of the keys, for errors.
    names: &'p [String],
    /// The aggregates of the read.
    calls: Vec<&'p AggregateCall>,
    /// For each list of keys, one state per aggregate.
    groups: BTreeMap<Vec<Value>, Vec<AggregateState>>,
    /// The number of values that are held: of keys, and of aggregates that count each value once.
    held: usize,
}

impl<'p> GroupFold<'p> {
    /// Returns the groups of no rows.
    fn new(plan: &'p AggregatePlan, read: usize) -> GroupFold<'p> {
        let calls = plan.aggregates.iter().filter(|it| it.read == read);
        let calls: Vec<&AggregateCall> = calls.collect();
        let mut groups = BTreeMap::new();
        if !plan.has_keys {
            let states = calls.iter().map(|call| AggregateState::of_none(call));
            groups.insert(Vec::new(), states.collect());
        }
        let read = plan.reads.get(read);
        GroupFold {
            part: read.map_or(AggregatePart::All, |read| read.part),
            keys: &plan.keys,
            names: &plan.names,
            calls,
            groups,
            held: 0,
        }
    }

    /// Adds a row that the read returned.
    fn add_row(&mut self, row: &Vec<Value>) -> Result<ControlFlow<()>, Attempt> {
        let keys = self.keys.iter().zip(self.names);
        let keys = keys.map(|(key, name)| value_of(key, row, name));
        let keys: Vec<Value> = keys.collect::<Result<_, SqlError>>()?;
        let states = match self.groups.get_mut(&keys) {
            Some(states) => states,
            None => {
                self.held += 1;
                let states = self.calls.iter().map(|call| AggregateState::of_none(call));
                self.groups.entry(keys).or_insert(states.collect())
            }
        };
        for (call, state) in self.calls.iter().zip(states) {
            let name = call.function.name();
            if let Some(filter) = &call.filter
                && value_of(filter, row, name)? != Value::Bool(true)
            {
                continue;
            }
            let value = call.argument.as_ref();
            let value = value.map(|argument| value_of(argument, row, name));
            let keys = call.order.iter();
            let keys = keys.map(|key| value_of(&key.expression, row, name));
            let keys = keys.collect::<Result<Vec<Value>, SqlError>>()?;
            self.held += state.add(call, (value.transpose()?, keys))?;
        }
        self.check_held()?;
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the number of rows that the read counted, if partitions count them.
    fn add_count(&mut self, count: u64) {
        if self.part == AggregatePart::Count {
            for states in self.groups.values_mut() {
                states.iter_mut().for_each(|state| state.add_count(count));
            }
        }
    }

    /// Adds the groups of other rows.
    fn add(&mut self, other: GroupFold<'_>) -> Result<(), Attempt> {
        for (keys, others) in other.groups {
            match self.groups.get_mut(&keys) {
                Some(states) => {
                    for ((call, state), other) in self.calls.iter().zip(states).zip(others) {
                        self.held += state.merge(call, other)?;
                    }
                }
                None => {
                    self.held += 1 + others.iter().map(AggregateState::held).sum::<usize>();
                    self.groups.insert(keys, others);
                }
            }
            self.check_held()?;
        }
        Ok(())
    }

    fn check_held(&self) -> Result<(), SqlError> {
        match self.held <= ROWS_HELD_MAX {
            true => Ok(()),
            false => Err(SqlError::with_state(
                sqlstate::LIMIT,
                format!(
                    "the statement has more than {ROWS_HELD_MAX} groups and distinct values: add a \
                     WHERE, or use replex export"
                ),
            )),
        }
    }
}

/// Returns the rows of the result, from the groups of all reads.
fn results(plan: &AggregatePlan, folds: Vec<GroupFold<'_>>) -> Result<Vec<Vec<Value>>, Attempt> {
    let limit = plan.limit.unwrap_or(u64::MAX);
    let wanted = limit.saturating_add(plan.offset);
    let mut held = HeldRows {
        rows: Vec::new(),
        order: &plan.order,
        keep: match plan.distinct {
            true => usize::MAX,
            false => usize::try_from(wanted).unwrap_or(usize::MAX),
        },
    };
    for row in group_rows(plan, folds)? {
        let is_wanted = match &plan.having {
            Some(having) => value_of(having, &row, "HAVING")? == Value::Bool(true),
            None => true,
        };
        if is_wanted && held.push(row)?.is_break() {
            break;
        }
    }
    held.sort()?;
    let skip = usize::try_from(plan.offset).unwrap_or(usize::MAX);
    let take = usize::try_from(limit).unwrap_or(usize::MAX);
    if !plan.distinct {
        let rows = held.rows.iter().skip(skip).take(take);
        return Ok(rows
            .map(|row| output(&plan.items, row))
            .collect::<Result<_, _>>()?);
    }
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for row in &held.rows {
        let row = output(&plan.items, row)?;
        if seen.insert(row.clone()) {
            rows.push(row);
        }
    }
    Ok(rows.into_iter().skip(skip).take(take).collect())
}

/// Returns the row of each group: its keys, then its aggregates in the order of the plan.
fn group_rows(
    plan: &AggregatePlan,
    mut folds: Vec<GroupFold<'_>>,
) -> Result<Vec<Vec<Value>>, SqlError> {
    if let [fold] = &mut folds[..] {
        let groups = std::mem::take(&mut fold.groups).into_iter();
        let rows = groups.map(|(mut row, states)| {
            for (call, state) in plan.aggregates.iter().zip(states) {
                row.push(result(call, state)?);
            }
            Ok(row)
        });
        return rows.collect();
    }
    // Only aggregates of all rows have reads of their own.
    let mut states = folds.into_iter().map(|fold| {
        let groups: Vec<Vec<AggregateState>> = fold.groups.into_values().collect();
        groups.into_iter().flatten()
    });
    let mut states: Vec<_> = states.by_ref().collect();
    let values = plan.aggregates.iter().map(|call| {
        let state = states[call.read].next();
        result(
            call,
            state.expect("a read has a state for each of its aggregates"),
        )
    });
    Ok(vec![values.collect::<Result<_, SqlError>>()?])
}
