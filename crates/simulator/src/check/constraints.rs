//! I4: constraints hold over committed rows: primary keys, unique and dense indexes.

use std::collections::{BTreeMap, BTreeSet};

use super::partition_contents::{PartitionContents, of_replex};
use crate::model::{ID, IndexConstraint, Model};

/// Checks the rows of every copy, and the entries of every thin index.
pub fn hold(rest: &PartitionContents, model: &Model) -> Result<(), String> {
    for (place, copy) in model.present() {
        let replex = copy.number;
        let rows = of_replex(rest, replex);
        let mut ids = BTreeSet::new();
        let mut keys = BTreeSet::new();
        let mut groups: BTreeMap<Vec<i64>, Vec<i64>> = BTreeMap::new();
        for (_, row) in &rows {
            if !ids.insert(row[ID]) {
                return Err(format!("replex {replex} holds the id {} twice", row[ID]));
            }
            let key = model.key(place, row);
            match copy.demand {
                IndexConstraint::Plain => {}
                IndexConstraint::Unique => {
                    if !model.key_has_null(place, row) && !keys.insert(key.clone()) {
                        return Err(format!(
                            "unique replex {replex} holds the key {key:?} twice"
                        ));
                    }
                }
                IndexConstraint::Dense => {
                    let (value, group) = key.split_last().expect("a key has columns");
                    groups.entry(group.to_vec()).or_default().push(*value);
                }
            }
        }
        for (group, mut values) in groups {
            values.sort_unstable();
            if values
                .iter()
                .enumerate()
                .any(|(index, value)| *value != index as i64 + 1)
            {
                return Err(format!(
                    "dense replex {replex} holds {values:?} in the group {group:?}"
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
    use crate::model::{Copy, D, GROUP, ModelRow, NULL, U};
    use placement::SortColumn;
    use std::rc::Rc;

    fn check(rows: &[ModelRow], columns: &[usize], demand: IndexConstraint) -> Result<(), String> {
        check_sorted(rows, placement::ascending(columns), demand)
    }

    fn check_sorted(
        rows: &[ModelRow],
        columns: Vec<SortColumn>,
        demand: IndexConstraint,
    ) -> Result<(), String> {
        let rows = rows.iter().map(|row| (vec![], 1, *row)).collect();
        let rest = PartitionContents::from([(
            Default::default(),
            PartitionRows {
                rows,
                ..PartitionRows::default()
            },
        )]);
        let copy = Copy {
            number: 0,
            columns,
            is_thin: false,
            demand,
            partitions: 1,
            partition: Rc::new(|_| 0),
        };
        hold(&rest, &Model::new(vec![copy]))
    }

    #[test]
    fn unique_means_once_unless_null() {
        let [a, b] = [[0, 1, 0, 7, 1, 0, 0], [0, 2, 0, 7, 2, 0, 0]];
        assert!(check(&[a, b], &[U], IndexConstraint::Unique).is_err());
        assert_eq!(check(&[a, b], &[U], IndexConstraint::Plain), Ok(()));
        assert!(
            check(&[a, a], &[U], IndexConstraint::Plain).is_err(),
            "a pk twice"
        );
        let nulls = [a, b].map(|mut row| {
            row[U] = NULL;
            row
        });
        assert_eq!(check(&nulls, &[U], IndexConstraint::Unique), Ok(()));
        let descending = |rows: &[ModelRow]| {
            let columns = vec![SortColumn::descending(U)];
            check_sorted(rows, columns, IndexConstraint::Unique)
        };
        assert!(descending(&[a, b]).is_err());
        assert_eq!(descending(&nulls), Ok(()));
    }

    #[test]
    fn dense_means_without_holes_from_one() {
        let [a, b] = [[0, 1, 0, 7, 1, 0, 0], [0, 2, 0, 8, 2, 0, 0]];
        assert_eq!(check(&[a, b], &[GROUP, D], IndexConstraint::Dense), Ok(()));
        assert!(check(&[b], &[GROUP, D], IndexConstraint::Dense).is_err());
    }
}
