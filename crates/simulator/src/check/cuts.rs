//! R36 and R38: when a snapshot at T is given out, every operation up to T has been decided, and
//! none begins afterwards.
//!
//! Readers would not always notice: a read at T waits for operations below T that its partition
//! knows. So this looks at the records of operations themselves.

use std::collections::BTreeMap;

use protocol::identity::{Epoch, TableId, Version};
use protocol::operation::Prepare;

use crate::ledger::Ledger;

/// The snapshots that were given out: the highest version of each table in each epoch of it.
#[derive(Debug, Default)]
pub struct GivenSnapshots {
    highest: BTreeMap<(TableId, Epoch), Version>,
}

impl GivenSnapshots {
    /// Notes a snapshot of a table at T that is given out, in an epoch of the table.
    ///
    /// # Errors
    /// An operation up to T is under way.
    pub fn give(
        &mut self,
        ledger: &Ledger,
        (table, epoch): (TableId, Epoch),
        at: Version,
    ) -> Result<(), String> {
        let highest = self.highest.entry((table, epoch)).or_default();
        *highest = (*highest).max(at);
        let operations = ledger.operations.values();
        let mut of_table = operations.filter(|it| it.prepare.table == table);
        let under_way = of_table.find(|it| {
            // It began in some configuration since the table has this epoch.
            let is_present = it.prepare.epoch >= epoch && it.decision.is_none();
            is_present && lowest_version(&it.prepare) <= at
        });
        match under_way {
            None => Ok(()),
            Some(operation) => Err(format!(
                "a snapshot of table {} is given out at {at:?}, but {:?} of a lower version is under \
                 way",
                table.0, operation.prepare.operation
            )),
        }
    }

    /// Checks an operation that no core has logged before, in an epoch of its table.
    ///
    /// # Errors
    /// It has a version that belongs to a snapshot which was given out.
    pub fn begun(&self, prepare: &Prepare, epoch: Epoch) -> Result<(), String> {
        let highest = self.highest.get(&(prepare.table, epoch));
        let version = lowest_version(prepare);
        match highest {
            Some(at) if version <= *at => Err(format!(
                "{:?} begins at {version:?}, after a snapshot was given out at {at:?}",
                prepare.operation
            )),
            _ => Ok(()),
        }
    }
}

fn lowest_version(prepare: &Prepare) -> Version {
    let versions = prepare.changes.iter().map(|change| change.version);
    versions.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::testing::prepare;

    #[test]
    fn nothing_begins_below_what_was_given_out() {
        let (ledger, mut given) = (Ledger::default(), GivenSnapshots::default());
        let prepare = prepare(1, &[]);
        let own = (prepare.table, prepare.epoch);
        let version = lowest_version(&prepare);
        assert_eq!(given.begun(&prepare, prepare.epoch), Ok(()));
        let other = (TableId(prepare.table.0 + 1), prepare.epoch);
        given
            .give(&ledger, other, version)
            .expect("nothing is under way");
        let before = Version(version.0.wrapping_sub(1));
        if before < version {
            given
                .give(&ledger, own, before)
                .expect("nothing is under way");
            assert_eq!(given.begun(&prepare, prepare.epoch), Ok(()));
        }
        given
            .give(&ledger, own, version)
            .expect("nothing is under way");
        assert!(given.begun(&prepare, prepare.epoch).is_err());
    }

    #[test]
    fn nothing_is_under_way_when_a_snapshot_is_given_out() {
        let mut ledger = Ledger::default();
        let prepare = prepare(1, &[protocol::operation::Vote::Yes]);
        crate::ledger::testing::prepared(&mut ledger, 1, 0, &prepare);
        let own = (prepare.table, prepare.epoch);
        let mut given = GivenSnapshots::default();
        let highest = Version(u64::MAX);
        assert!(given.give(&ledger, own, highest).is_err());
    }
}
