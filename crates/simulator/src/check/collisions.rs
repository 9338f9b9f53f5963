//! R20: a unique index that is being made is given up only if two rows had the same key when its
//! first epoch began.
//!
//! From this epoch on the index is part of all chains, so later writes add no collision. The
//! partitions find collisions row by row while writes continue, without a snapshot. So the checker
//! compares what they find with the rows in the ledger at that moment.

use std::collections::{BTreeMap, BTreeSet};

use protocol::identity::{Epoch, TableId, Version};
use protocol::message::CopyFailure;

use super::cuts::rows_at;
use crate::ledger::Ledger;
use crate::model::IndexConstraint;
use crate::workload::Translation;

/// The unique indexes that were added to tables with rows, and the copies that could not be made.
#[derive(Debug, Default)]
pub struct Collisions {
    /// For each index: whether two rows had the same key when its first epoch began.
    begun: BTreeMap<(TableId, String), bool>,
    /// The failures in the coordinator's last state.
    failures: Vec<CopyFailure>,
}

impl Collisions {
    /// Records the indexes that a table has from an epoch on and did not have before. All earlier
    /// operations are decided.
    ///
    /// Clients cannot see all these decisions yet. Some may never count, because only cores that
    /// have left know them ([`rows_at`]). So rows collide if they do with these decisions or
    /// without them.
    ///
    /// # Errors
    /// A row in the ledger does not parse.
    pub fn begin(
        &mut self,
        ledger: &Ledger,
        (id, epoch): (TableId, Epoch),
        table: &Translation,
    ) -> Result<(), String> {
        let eras = &table.model.eras;
        let before = eras.len().checked_sub(2).map(|era| &eras[era]);
        let is_new = |copy: &usize| before.is_none_or(|before| !before.contains(copy));
        let states = [Epoch(0), epoch];
        let states = states.map(|since| rows_at(ledger, (id, since), Version(u64::MAX)));
        for (place, copy) in table.model.present().filter(|(place, _)| is_new(place)) {
            if copy.demand != IndexConstraint::Unique {
                continue;
            }
            let mut collide = false;
            for rows in &states {
                let mut keys = BTreeSet::new();
                for (_, row) in rows.values() {
                    let row = table.parse(row)?;
                    let has_null = table.model.key_has_null(place, &row);
                    collide |= !has_null && !keys.insert(table.model.key(place, &row));
                }
            }
            let name = &table.layout.replexes[copy.number].name;
            self.begun.insert((id, name.clone()), collide);
        }
        Ok(())
    }

    /// Checks the copies that the coordinator could not make, in its new state.
    ///
    /// # Errors
    /// A copy was given up that could be made.
    pub fn given_up(&mut self, failures: &[CopyFailure]) -> Result<(), String> {
        let known = std::mem::replace(&mut self.failures, failures.to_vec());
        let mut new = failures.iter().filter(|failure| !known.contains(failure));
        // Other changes fail for other reasons, and an index can fail before its first epoch.
        let is_wrong = |failure: &&CopyFailure| {
            let index = (failure.table, failure.name.clone());
            self.begun.get(&index) == Some(&false) && failure.why.contains("rows have")
        };
        match new.find(is_wrong) {
            None => Ok(()),
            Some(CopyFailure { table, name, why }) => Err(format!(
                "{name} of table {} was given up ({why}), but no two rows had the same key when \
                 its first epoch began",
                table.0
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use placement::{Constraint, Index, Layout};
    use protocol::identity::Position;
    use protocol::operation::{Decision, Prepare, Vote};

    use super::*;
    use crate::ledger::testing::{core, decided, prepare, prepared};
    use crate::model::{ModelRow, NULL, U};
    use crate::plan::RunPlan;
    use crate::random::Random;

    /// Returns a table with one row per value of `u`, to which the unique index `late` is added.
    fn begun(values: &[i64]) -> Collisions {
        let mut schema = RunPlan::draw(&mut Random::new(1)).schema;
        (schema.indexes, schema.further, schema.thin) = Default::default();
        let mut table = Translation::new(&schema, &Layout::base(&schema));
        let mut ledger = Ledger::default();
        for (sequence, value) in (1..).zip(values) {
            let mut row: ModelRow = [sequence as i64; 7];
            row[U] = *value;
            let mut prepare = Prepare::clone(&prepare(sequence, &[Vote::Yes]));
            let change = Arc::make_mut(&mut prepare.changes[0]);
            change.pk.0 = vec![sequence as u8];
            change.new = Some(table.row(&row));
            prepared(&mut ledger, sequence * 2, 0, &prepare.into());
            let record = decided(sequence, 0, Decision::Commit);
            ledger.append((core(0), Position(sequence * 2 + 1)), &record, None);
        }
        schema.indexes.push(Index {
            name: "late".into(),
            columns: vec![U],
            constraint: Some(Constraint::Unique),
            partition_columns: None,
            by_range: false,
        });
        let changed = table.change(Epoch(2), &schema, &Layout::base(&schema));
        changed.expect("it has another copy");
        let mut collisions = Collisions::default();
        let noted = collisions.begin(&ledger, (TableId(1), Epoch(2)), &table);
        noted.expect("the rows parse");
        collisions
    }

    fn failure(name: &str) -> CopyFailure {
        CopyFailure {
            table: TableId(1),
            name: name.into(),
            why: "several rows have (u) = (7)".into(),
        }
    }

    #[test]
    fn an_index_without_collisions_is_not_given_up() {
        let is_right = |values| begun(values).given_up(&[failure("late")]).is_ok();
        assert!(is_right(&[7, 8, 7]));
        assert!(!is_right(&[7, 8, 9]));
        assert!(!is_right(&[NULL, 8, NULL]));
        assert!(!is_right(&[]));
    }

    #[test]
    fn only_new_failures_count() {
        let mut collisions = begun(&[7, 7]);
        assert!(collisions.given_up(&[failure("late")]).is_ok());
        collisions.begun.clear();
        assert!(collisions.given_up(&[failure("late")]).is_ok());
        let other = failure("other");
        let index = (other.table, other.name.clone());
        assert!(
            collisions
                .given_up(&[failure("late"), other.clone()])
                .is_ok()
        );
        collisions.failures.pop();
        collisions.begun.insert(index, false);
        assert!(collisions.given_up(&[failure("late"), other]).is_err());
    }
}
