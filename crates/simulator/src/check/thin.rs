//! I13: at rest a thin index has an entry for each row, with the row's values, and no other entry.

use std::collections::BTreeMap;

use super::partition_contents::{PartitionContents, of_replex};
use super::places::entry_key;
use crate::model::{ModelRow, NULL};
use crate::workload::Translation;

/// Compares the entries of all thin indexes with the rows of the primary replex. An entry's version
/// is that of the row's last change that changed the entry.
pub fn match_rows(
    thin: &PartitionContents,
    copies: &PartitionContents,
    table: &Translation,
) -> Result<(), String> {
    let rows = of_replex(copies, table.layout.primary());
    for replex in table.layout.thin_numbers() {
        let mut wanted: BTreeMap<(u32, Vec<u8>), (u64, ModelRow)> = BTreeMap::new();
        for (version, row) in &rows {
            let entry = entry_of(table, replex, row);
            let value = |column: usize| crate::workload::value_ref(row[column]);
            let number = table.layout.partition_of_values(replex, value);
            wanted.insert((number, entry_key(table, replex, row)), (*version, entry));
        }
        let partitions = thin
            .iter()
            .filter(|(id, _)| usize::from(id.replex) == replex);
        for (id, partition) in partitions {
            for (key, version, entry) in &partition.rows {
                let found = wanted.remove(&(id.number, key.clone()));
                let is_right = found.is_some_and(|(last, row)| row == *entry && *version <= last);
                if !is_right {
                    return Err(format!(
                        "{id} has the entry {entry:?} of version {version}, the row has {found:?}"
                    ));
                }
            }
        }
        if let Some(((number, _), (version, entry))) = wanted.pop_first() {
            return Err(format!(
                "partition {number} of thin index {replex} lacks the entry {entry:?} of the row \
                 with version {version}"
            ));
        }
    }
    Ok(())
}

/// Returns the columns of a row that the entries of a thin index have, and NULL for the others.
fn entry_of(table: &Translation, replex: usize, row: &ModelRow) -> ModelRow {
    let Some(columns) = table.layout.entry_columns(&table.schema, replex) else {
        return *row;
    };
    let mut entry = [NULL; crate::model::COLUMNS];
    for column in columns {
        entry[column] = row[column];
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::partition_contents::PartitionRows;
    use crate::plan::RunPlan;
    use crate::random::Random;
    use placement::{Layout, SortColumn, ThinIndex};
    use protocol::identity::PartitionId;

    #[test]
    fn missing_wrong_and_orphaned_entries_are_found() {
        let mut schema = RunPlan::draw(&mut Random::new(1)).schema;
        schema.partitions = 1;
        schema.thin = vec![ThinIndex {
            name: "thin".into(),
            columns: vec![SortColumn::descending(crate::model::A)],
            included: Vec::new(),
            by_range: false,
            unique: false,
            copies: 1,
        }];
        let table = Translation::new(&schema, &Layout::base(&schema));
        let replex = table.layout.thin_numbers().next().expect("it was added");
        let row = [0, 1, 2, 3, 4, 5, 6];
        let entry = entry_of(&table, replex, &row);
        assert_eq!(
            (entry[crate::model::ID], entry[crate::model::TAG]),
            (1, NULL)
        );
        let contents = |replex: usize, rows| {
            let id = PartitionId {
                replex: u8::try_from(replex).expect("replexes are few"),
                ..PartitionId::default()
            };
            let rows = PartitionRows {
                rows,
                ..PartitionRows::default()
            };
            PartitionContents::from([(id, rows)])
        };
        let key = entry_key(&table, replex, &row);
        let copies = contents(0, vec![(vec![1], 5, row)]);
        let check = |entries| match_rows(&contents(replex, entries), &copies, &table);
        assert_eq!(check(vec![(key.clone(), 4, entry)]), Ok(()));
        assert!(check(Vec::new()).is_err(), "missing");
        assert!(check(vec![(key.clone(), 6, entry)]).is_err(), "too new");
        assert!(check(vec![(key.clone(), 5, row)]).is_err(), "other columns");
        let orphan = (vec![9], 5, entry);
        assert!(check(vec![(key, 5, entry), orphan]).is_err());
    }
}
