//! Foreign keys of the model: all rows are looked through after each change.

use std::collections::BTreeMap;

use placement::{Value, encode_key, key_has_null};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::identity::{TableId, Version};
use protocol::transaction::{AbortReason, ReferenceFault, ReferenceViolation, TransactionResult};

type Rows = BTreeMap<TableId, BTreeMap<Vec<u8>, (Version, Vec<Value>)>>;

/// Returns the result of a change that leaves a row which refers to no row; none if there is no
/// such row.
pub(crate) fn violated(
    configuration: &Configuration,
    before: &Rows,
    after: &Rows,
) -> Option<TransactionResult> {
    let tables = configuration.tables.iter();
    let rows = tables.flat_map(|table| after[&table.id].iter().map(move |row| (table, row)));
    let mut violated = rows.flat_map(|(child, (pk, (_, row)))| {
        let keys = child.schema.constraints.foreign_keys.iter();
        keys.filter_map(move |key| {
            let parent = configuration.table_named(&key.parent)?.id;
            let referred = referred(&key.columns, row)?;
            if after[&parent].contains_key(&referred) {
                return None;
            }
            let old = before[&child.id].get(pk);
            let is_same = old.is_some_and(|(_, old)| {
                self::referred(&key.columns, old).as_ref() == Some(&referred)
            });
            let (table, fault) = match is_same {
                true => (parent, ReferenceFault::HasChildren),
                false => (child.id, ReferenceFault::NoParent),
            };
            let reason = AbortReason::ReferenceViolated(ReferenceViolation {
                child: child.id,
                constraint: key.name.clone(),
                key: Bytes(referred),
                fault,
            });
            Some(TransactionResult::Aborted { table, reason })
        })
    });
    violated.next()
}

fn referred(columns: &[usize], row: &[Value]) -> Option<Vec<u8>> {
    let values = || columns.iter().map(|column| row[*column].as_ref());
    (!key_has_null(values())).then(|| encode_key(values()))
}

/// Adds a table to the lists of its parents, or removes it.
pub(crate) fn note_child(configuration: &mut Configuration, child: &PlacedTable, is_new: bool) {
    let name = &child.schema.name;
    for key in &child.schema.constraints.foreign_keys {
        let parent = configuration.table_named(&key.parent).map(|it| it.id);
        let Some(parent) = parent.and_then(|id| configuration.tables.get_mut(id)) else {
            continue;
        };
        let by = &mut parent.schema.constraints.referenced_by;
        by.retain(|it| it != name);
        if is_new {
            by.push(name.clone());
            by.sort_unstable();
        }
    }
}
