//! Foreign keys as statements act on them: finds the rows that refer to a row, and what a foreign
//! key does to them when the row is deleted.
//!
//! The servers check the references of every transaction by themselves (R57). A row that comes
//! after it was looked for here makes the transaction fail, and the statement begins again.

use placement::{ForeignKey, ReferentialAction, Value, encode_key, prefix_end};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable, routes};
use protocol::expression::{Assignment, BinaryOperator, Expression};
use protocol::identity::TableId;
use protocol::message::Consistency;
use protocol::operation::{Action, Mutation};
use session::gather::{GatherPlan, RowOrder};

use super::{Attempt, Flow, gather};
use crate::error::SqlError;
use crate::store::Store;

/// A change that a foreign key demands of a row because the row to which it refers is deleted.
#[derive(Debug)]
pub(super) struct ChildChange {
    pub table: TableId,
    pub mutation: Mutation,
}

/// Returns the foreign keys to a table, with their tables.
pub(super) fn references_to<'a>(
    configuration: &'a Configuration,
    parent: &'a PlacedTable,
) -> impl Iterator<Item = (&'a PlacedTable, &'a ForeignKey)> {
    let children = parent.schema.constraints.referenced_by.iter();
    let children = children.filter_map(|name| configuration.table_named(name));
    children.flat_map(move |child| {
        let keys = child.schema.constraints.foreign_keys.iter();
        let keys = keys.filter(move |key| key.parent == parent.schema.name);
        keys.map(move |key| (child, key))
    })
}

/// Returns whether the deletion of rows of a table can change rows that refer to them.
pub(super) fn changes_children(configuration: &Configuration, parent: &PlacedTable) -> bool {
    references_to(configuration, parent).any(|(_, key)| acts(key))
}

/// Returns whether a foreign key changes the rows that refer to a deleted row.
pub(super) fn acts(key: &ForeignKey) -> bool {
    matches!(
        key.on_delete,
        ReferentialAction::Cascade | ReferentialAction::SetNull
    )
}

/// Returns the changes of the rows that refer to a deleted row.
pub(super) async fn changes_of_children<S: Store>(
    store: &S,
    configuration: &Configuration,
    (parent, pk): (&PlacedTable, &[u8]),
) -> Result<Vec<ChildChange>, Attempt> {
    let mut changes = Vec::new();
    for (child, key) in references_to(configuration, parent).filter(|(_, key)| acts(key)) {
        let values = parent.schema.decode_primary_key(pk);
        let values = values.map_err(|error| SqlError::statement(error.to_string()))?;
        // A row that refers to another one meanwhile stays as it is.
        let equal = key.columns.iter().zip(&values).map(|(column, value)| {
            let column = Expression::Column(position(*column));
            let value = Expression::Literal(value.clone());
            Expression::Binary(BinaryOperator::Equal, Box::new(column), Box::new(value))
        });
        let condition = Expression::all(equal.collect());
        for pk in children(store, (parent, pk), (child, key), None).await? {
            let condition = condition.clone();
            let action = match key.on_delete {
                ReferentialAction::Cascade => Action::Delete { condition },
                _ => Action::Update {
                    assignments: nulls(key),
                    condition,
                },
            };
            changes.push(ChildChange {
                table: child.id,
                mutation: Mutation {
                    pk: Bytes(pk),
                    action,
                },
            });
        }
    }
    Ok(changes)
}

/// Returns the primary keys of the rows that refer to a row by a foreign key, `limit` at most.
pub(super) async fn children<S: Store>(
    store: &S,
    (parent, pk): (&PlacedTable, &[u8]),
    (child, key): (&PlacedTable, &ForeignKey),
    limit: Option<u64>,
) -> Result<Vec<Vec<u8>>, Attempt> {
    let partitions = routes::partitions_of_children(&parent.schema, (child, key), pk);
    let Some(partitions) = partitions else {
        let (table, name) = (&child.schema.name, &key.name);
        return Err(SqlError::statement(format!(
            "the index of table {table} for foreign key {name} is being made: try again later"
        ))
        .into());
    };
    let columns = child.schema.key_projection();
    let places: Vec<usize> = child
        .schema
        .primary_key
        .iter()
        .map(|column| columns.binary_search(&position(*column)))
        .map(|place| place.expect("the projection holds the primary key"))
        .collect();
    let plan = GatherPlan {
        partitions,
        start: Bytes(pk.to_vec()),
        end: prefix_end(pk).map(Bytes),
        filter: None,
        projection: Some(columns),
        limit,
        order: RowOrder::Any,
        count_only: false,
        epoch: store.configuration().epoch,
        consistency: Consistency::Linearizable,
        snapshot: None,
    };
    let mut found = Vec::new();
    gather(store, child, plan, None, |row| {
        found.push(encode_key(places.iter().map(|place| row[*place].as_ref())));
        Ok(Flow::Continue(()))
    })
    .await?;
    Ok(found)
}

fn nulls(key: &ForeignKey) -> Vec<Assignment> {
    let columns = key.columns.iter();
    let nulls = columns.map(|column| Assignment {
        column: position(*column),
        value: Expression::Literal(Value::Null),
    });
    nulls.collect()
}

fn position(column: usize) -> u16 {
    u16::try_from(column).expect("Schema::validate bounds the columns")
}
