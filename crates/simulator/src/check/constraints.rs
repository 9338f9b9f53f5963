//! I4: constraints hold over committed rows: primary keys, unique and dense indexes, foreign keys.

use std::collections::{BTreeMap, BTreeSet};

use super::partition_contents::{PartitionContents, of_replex};
use crate::model::{ID, IndexConstraint, Model, ModelRow, NULL};

/// Checks the rows of every copy, and the entries of every thin index. `reference` is the column
/// that refers to the primary key, if there is one.
pub fn hold(
    rest: &PartitionContents,
    model: &Model,
    reference: Option<usize>,
) -> Result<(), String> {
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
        let rows = rows.iter().map(|(_, row)| row);
        if let Some(column) = reference.filter(|_| !copy.is_thin) {
            let orphan = orphan(rows, column);
            orphan.map_or(Ok(()), |row| Err(format!("{row:?} refers to no row")))?;
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

/// Returns a row that refers to a primary key which no row has.
pub fn orphan<'a>(
    rows: impl Iterator<Item = &'a ModelRow> + Clone,
    column: usize,
) -> Option<&'a ModelRow> {
    let ids: BTreeSet<i64> = rows.clone().map(|row| row[ID]).collect();
    let mut rows = rows;
    rows.find(|row| row[column] != NULL && !ids.contains(&row[column]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::partition_contents::PartitionRows;
    use crate::model::{Copy, D, GROUP, U};
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
        hold(&rest, &Model::new(vec![copy]), None)
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

    #[test]
    fn orphans_refer_to_no_row() {
        let [a, b] = [[0, 1, 0, 2, 1, 0, 0], [0, 2, 0, NULL, 2, 0, 0]];
        assert_eq!(orphan([a, b].iter(), U), None);
        assert_eq!(orphan([a].iter(), U), Some(&a));
        assert_eq!(orphan([b].iter(), U), None);
    }
}
