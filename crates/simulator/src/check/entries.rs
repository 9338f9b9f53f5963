//! Local entries: each row has one in each order that its partition keeps, and there are no others
//!.

use super::partition_contents::PartitionContents;
use super::places::entry_key;
use crate::workload::Translation;

/// Checks the entries of every partition against its rows.
pub fn implied(rest: &PartitionContents, table: &Translation) -> Result<(), String> {
    for (id, partition) in rest {
        for (order, found) in &partition.entries {
            let rows = partition.rows.iter();
            let entries = rows.map(|(key, _, row)| {
                let pk_bytes = entry_key(table, table.layout.primary(), row).len();
                let sort_key = &key[..key.len() - pk_bytes];
                [&entry_key(table, *order, row)[..], sort_key].concat()
            });
            let mut implied: Vec<Vec<u8>> = entries.collect();
            implied.sort_unstable();
            if implied != *found {
                return Err(format!(
                    "{id} has the entries {found:02x?} in order {order}, its rows imply \
                     {implied:02x?}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::partition_contents::PartitionRows;
    use crate::plan::RunPlan;
    use crate::random::Random;
    use protocol::identity::PartitionId;

    #[test]
    fn an_entry_too_few_or_too_many_is_reported() {
        let mut schemas = (0..).map(|seed| RunPlan::draw(&mut Random::new(seed)).schema);
        let schema = schemas.find(|schema| !schema.indexes.is_empty());
        let schema = schema.expect("most tables have an index");
        let table = Translation::new(&schema, &placement::Layout::base(&schema));
        let row = [0, 1, 2, 3, 4, 5, 6];
        let key = entry_key(&table, 0, &row);
        let entry = entry_key(&table, 1, &row);
        let rest = |entries| {
            let partition = PartitionRows {
                rows: vec![(key.clone(), 1, row)],
                entries: [(1, entries)].into(),
            };
            PartitionContents::from([(PartitionId::default(), partition)])
        };
        assert_eq!(implied(&rest(vec![entry.clone()]), &table), Ok(()));
        assert!(implied(&rest(vec![]), &table).is_err());
        let old = [vec![1], key.clone()].concat();
        assert!(implied(&rest(vec![old, entry]), &table).is_err());
    }
}
