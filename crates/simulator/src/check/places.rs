//! I6: every row is where the sharding function puts it, once, under its own key.

use std::collections::BTreeSet;

use placement::ValueRef;

use super::partition_contents::PartitionContents;
use crate::model::{ID, NULL};
use crate::workload::Translation;

/// Checks every entry of every partition.
pub fn right(rest: &PartitionContents, table: &Translation) -> Result<(), String> {
    for (id, partition) in rest {
        let replex = usize::from(id.replex);
        let mut present = table.model.present();
        let Some((_, copy)) = present.find(|(_, copy)| copy.number == replex) else {
            return Err(format!("{id} is of a copy that the table has not"));
        };
        let mut seen = BTreeSet::new();
        for (key, _, row) in &partition.rows {
            let belongs = (copy.partition)(row);
            if belongs != id.number {
                return Err(format!(
                    "{id} holds {row:?}, which belongs to partition {belongs}"
                ));
            }
            if !seen.insert(row[ID]) {
                return Err(format!("{id} holds the id {} twice", row[ID]));
            }
            if *key != entry_key(table, replex, row) {
                return Err(format!("{id} holds {row:?} under the key {key:02x?}"));
            }
        }
    }
    Ok(())
}

/// Returns a row's key in the order of a replex: the sorting key, then the pk, without the pk where
/// the sorting key is the pk.
pub fn entry_key(table: &Translation, replex: usize, row: &crate::model::ModelRow) -> Vec<u8> {
    let pk = placement::ascending(&table.schema.primary_key);
    let mut columns = table.layout.replexes[replex].sort_columns.clone();
    if columns != pk {
        columns.extend(pk);
    }
    placement::encode_sorted(&columns, |column| match row[column] {
        NULL => ValueRef::Null,
        value => ValueRef::Int64(value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::partition_contents::PartitionRows;
    use crate::plan::RunPlan;
    use crate::random::Random;
    use protocol::identity::PartitionId;

    #[test]
    fn a_row_in_another_partition_or_under_another_key_is_misplaced() {
        let mut schema = RunPlan::draw(&mut Random::new(1)).schema;
        schema.partitions = 3;
        let table = Translation::new(&schema, &placement::Layout::base(&schema));
        let row = [0, 1, 2, 3, 4, 5, 6];
        let number = (table.model.copies[0].partition)(&row);
        let rest = |number, key| {
            let id = PartitionId {
                number,
                ..PartitionId::default()
            };
            PartitionContents::from([(
                id,
                PartitionRows {
                    rows: vec![(key, 1, row)],
                    ..PartitionRows::default()
                },
            )])
        };
        let key = entry_key(&table, 0, &row);
        assert_eq!(right(&rest(number, key.clone()), &table), Ok(()));
        assert!(right(&rest((number + 1) % 3, key), &table).is_err());
        assert!(right(&rest(number, vec![1]), &table).is_err());
    }
}
