//! Runs aggregates: combines what the partitions counted, and the rows that they returned.

use std::ops::ControlFlow;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use placement::Value;
use protocol::expression::evaluate;

use super::read::{StatementRead, give_out, only};
use super::{Attempt, LOOKUPS_AT_A_TIME, OutputColumn, ReadContext, ResultRows, gather};
use crate::error::SqlError;
use crate::plan::{AggregateOutput, AggregatePart, AggregatePlan, AggregateRead};
use crate::statement::AggregateFunction;
use crate::store::Store;

impl<S: Store> ReadContext<'_, S> {
    /// Returns the row of a `SELECT` of aggregates. All of its reads show one state (R35).
    pub async fn aggregate(&self, plan: AggregatePlan) -> Result<ResultRows, Attempt> {
        let columns = plan.outputs.iter().map(|output| OutputColumn {
            name: output.name.clone(),
            column_type: output.column_type,
        });
        let columns = columns.collect();
        if !plan.is_returned {
            let rows = Vec::new();
            return Ok(ResultRows { columns, rows });
        }
        let table = self.table(&plan.reads[0].read);
        let (mut bounds, mut plans, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for AggregateRead { read, part } in &plan.reads {
            bounds.push(self.bound(read).await?);
            let limit = (*part == AggregatePart::First).then_some(1);
            let count_only = *part == AggregatePart::Count;
            let of_read = self.gather_plans(read, table, limit, count_only);
            counts.push(of_read.len());
            plans.extend(of_read);
        }
        let mut folds: Vec<AggregateFold<'_>> = (0..plan.reads.len())
            .map(|read| AggregateFold::new(&plan, read))
            .collect();
        let (plans, _snapshot) = match self.begin(table, plans).await? {
            StatementRead::Moment(moment) => {
                let mut gathers = moment.into_iter();
                for (fold, count) in folds.iter_mut().zip(counts) {
                    for mut gather in gathers.by_ref().take(count) {
                        give_out(table, &mut gather, |row| fold.add_row(&row))?;
                        fold.add_count(gather.count());
                    }
                }
                return Ok(row_of(columns, &plan, &folds));
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
            parts.into_iter().for_each(|part| fold.add(part));
        }
        Ok(row_of(columns, &plan, &folds))
    }
}

/// The aggregates of one read, over the rows so far.
#[derive(Clone)]
struct AggregateFold<'p> {
    part: AggregatePart,
    outputs: Vec<&'p AggregateOutput>,
    /// One value per output.
    values: Vec<AggregateValue>,
}

/// An aggregate of the rows so far.
#[derive(Clone, Debug, PartialEq)]
enum AggregateValue {
    Count(u64),
    /// The smallest or largest value; NULL if there is none yet.
    Extreme(Value),
}

impl<'p> AggregateFold<'p> {
    /// Returns the aggregates of no rows.
    fn new(plan: &'p AggregatePlan, read: usize) -> AggregateFold<'p> {
        let outputs = plan.outputs.iter().filter(|it| it.read == read);
        let outputs: Vec<&AggregateOutput> = outputs.collect();
        let values = outputs.iter().map(|output| match output.function {
            AggregateFunction::Count => AggregateValue::Count(0),
            AggregateFunction::Min | AggregateFunction::Max => AggregateValue::Extreme(Value::Null),
        });
        AggregateFold {
            part: plan.reads[read].part,
            values: values.collect(),
            outputs,
        }
    }

    /// Adds a row that the read returned.
    fn add_row(&mut self, row: &Vec<Value>) -> Result<ControlFlow<()>, Attempt> {
        for (output, value) in self.outputs.iter().zip(&mut self.values) {
            let found = match &output.argument {
                None => AggregateValue::Count(1),
                Some(argument) => {
                    let found = evaluate(argument, row, None);
                    let found = found.map_err(|error| SqlError::Expression {
                        text: output.name.clone(),
                        error,
                    })?;
                    match output.function {
                        AggregateFunction::Count => {
                            AggregateValue::Count(u64::from(!found.is_null()))
                        }
                        _ => AggregateValue::Extreme(found),
                    }
                }
            };
            value.combine(output.function, found);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Adds the number of rows that the read counted, if partitions count them.
    fn add_count(&mut self, count: u64) {
        if self.part == AggregatePart::Count {
            for (output, value) in self.outputs.iter().zip(&mut self.values) {
                value.combine(output.function, AggregateValue::Count(count));
            }
        }
    }

    /// Adds the aggregates of other rows.
    fn add(&mut self, other: AggregateFold<'_>) {
        let values = self.values.iter_mut().zip(other.values);
        for (output, (value, other)) in self.outputs.iter().zip(values) {
            value.combine(output.function, other);
        }
    }
}

impl AggregateValue {
    /// Adds a value of the same aggregate over other rows.
    fn combine(&mut self, function: AggregateFunction, other: AggregateValue) {
        match (self, other) {
            (AggregateValue::Count(count), AggregateValue::Count(more)) => {
                *count = count.saturating_add(more);
            }
            (AggregateValue::Extreme(value), AggregateValue::Extreme(other)) => {
                let is_better = match function {
                    AggregateFunction::Max => other > *value,
                    _ => other < *value,
                };
                if !other.is_null() && (value.is_null() || is_better) {
                    *value = other;
                }
            }
            (value, other) => unreachable!("{value:?} and {other:?} are of one aggregate"),
        }
    }
}

/// Returns the result: the values of all outputs in the order of the statement.
fn row_of(
    columns: Vec<OutputColumn>,
    plan: &AggregatePlan,
    folds: &[AggregateFold<'_>],
) -> ResultRows {
    let mut values: Vec<_> = folds.iter().map(|fold| fold.values.iter()).collect();
    let row = plan.outputs.iter().map(|output| {
        let value = values[output.read].next();
        match value.expect("a read has one value for each of its outputs") {
            AggregateValue::Count(count) => Value::Int64(i64::try_from(*count).unwrap_or(i64::MAX)),
            AggregateValue::Extreme(value) => value.clone(),
        }
    });
    let rows = vec![row.collect()];
    ResultRows { columns, rows }
}
