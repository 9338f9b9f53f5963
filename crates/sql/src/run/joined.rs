//! Runs `UPDATE … FROM` and `DELETE … USING`, in a transaction.
//!
//! First the rows of the further table are read, then those of the changed table that may match
//! them, or the other way around. The rows are joined here, and each changed row gets new values
//! that are constants. All rows that were read count for the transaction: its commit fails if one
//! of them has changed, so the statement sees one state. A row that matches several rows of the
//! further table is changed once, by the first of them.

use std::collections::{BTreeMap, HashSet};

use placement::{Value, ValueRef, encode_key};
use protocol::codec::Bytes;
use protocol::configuration::PlacedTable;
use protocol::expression::{Assignment, BinaryOperator, Columns, Expression, evaluate_for};
use protocol::operation::{Action, Mutation};
use protocol::transaction::CHANGES_MAX;

use super::change::{CHANGE_ROWS_MAX, RowChanges, apply, table};
use super::returning::Returned;
use super::{Attempt, ReadContext, StatementOutcome};
use crate::error::{SqlError, sqlstate};
use crate::plan::{ChangeKind, JoinedPlan, ReadPlan, SourceRows, all_hold};
use crate::store::Store;

/// The most rows of the further table that a statement reads.
const SOURCE_ROWS_MAX: usize = CHANGES_MAX;
/// The most pairs of rows that are compared.
const PAIRS_MAX: usize = 1_000_000;

/// Runs the plan of a change with a further table.
pub(super) async fn run<S: Store>(
    reading: &ReadContext<'_, S>,
    plan: JoinedPlan,
) -> Result<StatementOutcome, Attempt> {
    assert!(
        reading.store.is_transaction(),
        "the session runs such a statement in a transaction"
    );
    let table = table(reading, plan.table);
    let (targets, sources) = match &plan.source {
        SourceRows::Read(read) if plan.begins_with_target => {
            let targets = targets(reading, table, vec![plan.target_read(table)]).await?;
            let further = reading.table(read);
            let rows = targets.iter().map(|(_, row)| row.as_slice());
            let mut sources = Vec::new();
            for read in plan.source_reads(further, rows) {
                sources.extend(reading.all(&read, SOURCE_ROWS_MAX).await?);
            }
            (targets, sources)
        }
        source => {
            let sources = match source {
                SourceRows::Known(rows) => rows.clone(),
                SourceRows::Read(read) => reading.all(read, SOURCE_ROWS_MAX).await?,
            };
            check_sources(&sources)?;
            let reads = plan.target_reads(table, sources.iter().map(Vec::as_slice));
            (targets(reading, table, reads).await?, sources)
        }
    };
    check_sources(&sources)?;
    let pairs = joined(&plan, &targets, &sources)?;
    let mut mutations = Vec::with_capacity(pairs.len());
    let mut beside = Vec::with_capacity(pairs.len());
    for (target, source) in pairs {
        let (pk, row) = &targets[target];
        let row = JoinedRow {
            target: row,
            source: &sources[source],
        };
        let action = match &plan.change {
            ChangeKind::Update(assignments) => Action::Update {
                assignments: assigned(table, assignments, &row)?,
                condition: None,
            },
            ChangeKind::Delete => Action::Delete { condition: None },
        };
        let pk = Bytes(pk.clone());
        mutations.push(Mutation { pk, action });
        beside.push(sources[source].clone());
    }
    let changes = RowChanges {
        table,
        mutations,
        is_delete: plan.change == ChangeKind::Delete,
        in_order: plan.in_order,
        returned: Returned::beside(&plan.returning, table.id, beside),
    };
    apply(reading, changes).await
}

/// Refuses too many rows of the further table.
fn check_sources(sources: &[Vec<Value>]) -> Result<(), SqlError> {
    match sources.len() > SOURCE_ROWS_MAX {
        true => Err(SqlError::with_state(
            sqlstate::LIMIT,
            format!(
                "there are more than {SOURCE_ROWS_MAX} rows after FROM or USING: run the statement \
                 for parts of them"
            ),
        )),
        false => Ok(()),
    }
}

/// Returns the rows that some reads find, each once, with their primary keys.
async fn targets<S: Store>(
    reading: &ReadContext<'_, S>,
    table: &PlacedTable,
    reads: Vec<ReadPlan>,
) -> Result<Vec<TargetRow>, Attempt> {
    let mut known = HashSet::new();
    let mut targets = Vec::new();
    for read in &reads {
        for row in reading.all(read, CHANGE_ROWS_MAX).await? {
            let columns = table.schema.primary_key.iter();
            let pk = encode_key(columns.map(|column| row[*column].as_ref()));
            if known.insert(pk.clone()) {
                targets.push((pk, row));
            }
        }
    }
    Ok(targets)
}

/// A row of the changed table, after its primary key.
type TargetRow = (Vec<u8>, Vec<Value>);

/// Returns the positions of the rows that match, at most one pair for each row of the changed
/// table.
fn joined(
    plan: &JoinedPlan,
    targets: &[TargetRow],
    sources: &[Vec<Value>],
) -> Result<Vec<(usize, usize)>, SqlError> {
    let equated = equated_columns(plan);
    let mut by_key: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
    for (target, (_, row)) in targets.iter().enumerate() {
        let columns = equated.iter().map(|(own, _)| row[*own].as_ref());
        by_key.entry(encode_key(columns)).or_default().push(target);
    }
    let mut pairs = Vec::new();
    let mut compared = 0;
    for (source, further) in sources.iter().enumerate() {
        let columns = equated.iter().map(|(_, column)| further[*column].as_ref());
        let Some(open) = by_key.get_mut(&encode_key(columns)) else {
            continue;
        };
        compared += open.len();
        if compared > PAIRS_MAX {
            return Err(SqlError::with_state(
                sqlstate::LIMIT,
                format!(
                    "the statement compares more than {PAIRS_MAX} pairs of rows: compare columns of \
                     both tables by =, or change fewer rows at a time"
                ),
            ));
        }
        let mut still_open = Vec::with_capacity(open.len());
        for target in open.drain(..) {
            let row = JoinedRow {
                target: &targets[target].1,
                source: further,
            };
            match all_hold(&plan.join, &row)? {
                true => pairs.push((target, source)),
                false => still_open.push(target),
            }
        }
        *open = still_open;
    }
    Ok(pairs)
}

/// The row of a pair: the columns of the changed table, followed by those of the further one.
struct JoinedRow<'a> {
    target: &'a [Value],
    source: &'a [Value],
}

impl Columns for JoinedRow<'_> {
    fn column(&self, index: usize) -> Option<ValueRef<'_>> {
        let value = match index.checked_sub(self.target.len()) {
            None => self.target.get(index),
            Some(further) => self.source.get(further),
        };
        value.map(Value::as_ref)
    }
}

/// Returns the columns of both tables that must be equal, as positions in their own rows, and whose
/// keys have the same bytes if they are equal.
fn equated_columns(plan: &JoinedPlan) -> Vec<(usize, usize)> {
    let own = plan.own_columns();
    let pairs = plan.join.iter().filter_map(|conjunct| {
        let Expression::Binary(BinaryOperator::Equal, left, right) = conjunct else {
            return None;
        };
        let (Expression::Column(left), Expression::Column(right)) = (&**left, &**right) else {
            return None;
        };
        let (left, right) = (usize::from(*left), usize::from(*right));
        let (target, further) = (left.min(right), left.max(right));
        let types = [plan.column_type(target), plan.column_type(further)];
        let shares_keys = types[0].shares_keys(types[1]);
        (target < own && further >= own && shares_keys).then(|| (target, further - own))
    });
    pairs.collect()
}

/// Returns the new values of a row as constants.
fn assigned(
    table: &PlacedTable,
    assignments: &[Assignment],
    row: &JoinedRow<'_>,
) -> Result<Vec<Assignment>, SqlError> {
    let values = assignments.iter().map(|assignment| {
        let column = &table.schema.columns[usize::from(assignment.column)];
        let value = evaluate_for(column.column_type, &assignment.value, row, None);
        let value = value.map_err(|error| SqlError::Expression {
            text: format!("column {} of table {}", column.name, table.schema.name),
            error,
        })?;
        Ok(Assignment {
            column: assignment.column,
            value: Expression::Literal(value),
        })
    });
    values.collect()
}
