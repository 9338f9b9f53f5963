//! Computes groups, aggregates and windows.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::{Env, HeldRows, Run, order_values};
use crate::casts;
use crate::datum::Datum;
use crate::error::CatalogueError;
use crate::functions;
use crate::plan::{Aggregate, AggregateFunction, Groups, Node, Select, Window, WindowFunction};
use crate::types;

impl<'r> Run<'r> {
    /// Returns one row for each group: the first row of the group, with the values of its keys and
    /// aggregates.
    pub(super) fn grouped(
        &self,
        select: &Select,
        groups: &Groups,
        parent: Option<&Env<'_>>,
    ) -> Result<HeldRows<'r>, CatalogueError> {
        let mut rows = self.empty();
        self.rows(select, parent, &mut |row| {
            for (key, slot) in &groups.keys {
                row[*slot] = self.value(key, &Env { row, parent })?;
            }
            rows.push(row.clone())
        })?;
        let mut members: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<Vec<&Datum>, usize> = HashMap::new();
        for (position, row) in rows.rows.iter().enumerate() {
            let key = groups.keys.iter().map(|(_, slot)| &row[*slot]).collect();
            let group = *known.entry(key).or_insert_with(|| {
                members.push(Vec::new());
                members.len() - 1
            });
            members[group].push(position);
        }
        if !groups.has_keys && members.is_empty() {
            // Without keys, there is one group even of no rows.
            members.push(Vec::new());
        }
        let mut out = self.empty();
        for members in members {
            let mut row = match members.first() {
                Some(first) => rows.rows[*first].clone(),
                None => vec![Datum::Null; select.width],
            };
            let of_group: Vec<&[Datum]> = members.iter().map(|it| &rows.rows[*it][..]).collect();
            for aggregate in &groups.aggregates {
                row[aggregate.slot] = self.aggregate(aggregate, &of_group, parent)?;
            }
            let is_kept = match &groups.having {
                None => true,
                Some(having) => self.value(having, &Env { row: &row, parent })?.is_true(),
            };
            if is_kept {
                out.push(row)?;
            }
        }
        Ok(out)
    }

    fn aggregate(
        &self,
        aggregate: &Aggregate,
        rows: &[&[Datum]],
        parent: Option<&Env<'_>>,
    ) -> Result<Datum, CatalogueError> {
        let mut values: Vec<(Vec<Datum>, Datum)> = Vec::new();
        let mut separator = Datum::Null;
        for row in rows {
            self.step()?;
            let env = Env { row, parent };
            if let Some(filter) = &aggregate.filter
                && !self.value(filter, &env)?.is_true()
            {
                continue;
            }
            let value = match &aggregate.argument {
                None => Datum::Bool(true),
                Some(argument) => self.value(argument, &env)?,
            };
            if value.is_null() && aggregate.function != AggregateFunction::Array {
                continue;
            }
            if let Some(written) = &aggregate.separator {
                separator = self.value(written, &env)?;
            }
            let keys = aggregate
                .order
                .iter()
                .map(|(key, ..)| self.value(key, &env));
            values.push((keys.collect::<Result<_, _>>()?, value));
        }
        if aggregate.distinct {
            let mut seen = HashSet::new();
            values.retain(|(_, value)| seen.insert(value.clone()));
            if aggregate.order.is_empty() {
                values.sort_by(|(_, left), (_, right)| left.order(right));
            }
        }
        if !aggregate.order.is_empty() {
            values.sort_by(|(left, _), (right, _)| order_keys(&aggregate.order, left, right));
        }
        let values = values.into_iter().map(|(_, value)| value).collect();
        finish(aggregate.function, values, &separator)
    }

    /// Computes a window for all rows.
    pub(super) fn window(
        &self,
        window: &Window,
        rows: &mut [Vec<Datum>],
        parent: Option<&Env<'_>>,
    ) -> Result<(), CatalogueError> {
        let mut partitions: HashMap<Vec<Datum>, Vec<(Vec<Datum>, usize)>> = HashMap::new();
        for (position, row) in rows.iter().enumerate() {
            self.step()?;
            let env = Env { row, parent };
            let key = window.partition.iter().map(|it| self.value(it, &env));
            let order = window.order.iter().map(|(it, ..)| self.value(it, &env));
            let order = order.collect::<Result<Vec<_>, _>>()?;
            let partition = partitions
                .entry(key.collect::<Result<_, _>>()?)
                .or_default();
            partition.push((order, position));
        }
        for mut members in partitions.into_values() {
            members.sort_by(|(left, _), (right, _)| order_keys(&window.order, left, right));
            if let WindowFunction::Aggregate(aggregate) = &window.function {
                let of_partition: Vec<&[Datum]> = members
                    .iter()
                    .map(|(_, position)| &rows[*position][..])
                    .collect();
                let value = self.aggregate(aggregate, &of_partition, parent)?;
                for (_, position) in members {
                    rows[position][window.slot] = value.clone();
                }
                continue;
            }
            let (mut rank, mut dense) = (0, 0);
            for (index, (order, position)) in members.iter().enumerate() {
                let number = i64::try_from(index + 1).unwrap_or(i64::MAX);
                let before = index.checked_sub(1).map(|before| &members[before].0);
                let is_peer = before.is_some_and(|before| before == order);
                if !is_peer {
                    rank = number;
                    dense += 1;
                }
                rows[*position][window.slot] = Datum::Int(match window.function {
                    WindowFunction::Rank => rank,
                    WindowFunction::DenseRank => dense,
                    _ => number,
                });
            }
        }
        Ok(())
    }
}

fn order_keys(keys: &[(Node, bool, bool)], left: &[Datum], right: &[Datum]) -> Ordering {
    let mut orders = keys.iter().zip(left.iter().zip(right)).map(
        |((_, descending, nulls_first), (left, right))| {
            order_values(left, right, (*descending, *nulls_first))
        },
    );
    let first = orders.find(|order| *order != Ordering::Equal);
    first.unwrap_or(Ordering::Equal)
}

/// Returns the value of an aggregate over values, none of which is NULL except in an array.
fn finish(
    function: AggregateFunction,
    values: Vec<Datum>,
    separator: &Datum,
) -> Result<Datum, CatalogueError> {
    if function == AggregateFunction::Count {
        return Ok(Datum::Int(i64::try_from(values.len()).unwrap_or(i64::MAX)));
    }
    if values.is_empty() {
        return Ok(Datum::Null);
    }
    let extreme = |wanted: Ordering| {
        let mut values = values.iter();
        let mut found = values.next()?;
        for value in values {
            if value.order(found) == wanted {
                found = value;
            }
        }
        Some(found.clone())
    };
    Ok(match function {
        AggregateFunction::Count => unreachable!("it is handled above"),
        AggregateFunction::Min => extreme(Ordering::Less).unwrap_or(Datum::Null),
        AggregateFunction::Max => extreme(Ordering::Greater).unwrap_or(Datum::Null),
        AggregateFunction::And => Datum::Bool(values.iter().all(Datum::is_true)),
        AggregateFunction::Or => Datum::Bool(values.iter().any(Datum::is_true)),
        AggregateFunction::Array => Datum::array(values),
        AggregateFunction::Texts => {
            let texts: Vec<&str> = values.iter().filter_map(Datum::as_text).collect();
            let separator = separator.as_text().unwrap_or_default();
            let length = texts.iter().map(|it| it.len() + separator.len()).sum();
            functions::check_length(length)?;
            Datum::text(texts.join(separator))
        }
        AggregateFunction::Sum => {
            let whole: Option<Vec<i64>> = values.iter().map(Datum::as_int).collect();
            match whole {
                Some(whole) => {
                    let sum = whole.into_iter().try_fold(0_i64, i64::checked_add);
                    let sum = sum.ok_or_else(|| CatalogueError::out_of_range("bigint"))?;
                    casts::whole(sum, types::INT8)?
                }
                None => Datum::float(values.iter().filter_map(Datum::as_float).sum()),
            }
        }
        AggregateFunction::Average => {
            let sum: f64 = values.iter().filter_map(Datum::as_float).sum();
            #[allow(
                clippy::cast_precision_loss,
                reason = "a count of rows in memory is small"
            )]
            let count = values.len() as f64;
            Datum::float(sum / count)
        }
    })
}
