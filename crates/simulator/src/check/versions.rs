//! I8: the versions of a pk rise, and each committed change follows from the previous one (R6).

use std::collections::BTreeMap;

use protocol::codec::Bytes;
use protocol::identity::{OperationId, TableId};
use protocol::operation::{OldRow, RowChange};

use crate::ledger::Ledger;

/// Checks that the committed changes of each row form a chain by version: each change finds the row
/// that the one before left.
pub fn rise(ledger: &Ledger) -> Result<(), String> {
    let mut rows: BTreeMap<(TableId, &Bytes), Vec<(&RowChange, OperationId)>> = BTreeMap::new();
    for (operation, entry) in ledger.committed() {
        for ((table, pk), change) in &entry.changes {
            let key = (*table, pk);
            rows.entry(key).or_default().push((change, *operation));
        }
    }
    for changes in rows.values_mut() {
        changes.sort_by_key(|(change, _)| change.version);
        let mut before: Option<(&RowChange, OperationId)> = None;
        for (change, operation) in changes.iter() {
            let left = before.filter(|(before, _)| before.new.is_some());
            let left = left.map(|(before, _)| before.version);
            let found = match &change.old {
                OldRow::Absent => None,
                OldRow::SameKeys { version } | OldRow::Keys { version, .. } => Some(*version),
            };
            if found != left {
                return Err(format!(
                    "{operation:?} found version {found:?} of the row {:?}, but {before:?} had \
                     left {left:?}",
                    change.pk
                ));
            }
            if before.is_some_and(|(before, _)| before.version == change.version) {
                return Err(format!("{operation:?} has the version of {before:?}"));
            }
            before = Some((change, *operation));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::ledger::testing::{core, decided, prepare, prepared};
    use protocol::identity::{Position, Version};
    use protocol::operation::{Decision, Prepare, Vote};

    fn commit(ledger: &mut Ledger, sequence: u64, version: u64, old: OldRow) {
        let mut prepare = Prepare::clone(&prepare(sequence, &[Vote::Yes]));
        let change = Arc::make_mut(&mut prepare.changes[0]);
        change.version = Version(version);
        change.old = old;
        prepared(ledger, sequence * 2, 0, &prepare.into());
        let record = decided(sequence, 0, Decision::Commit);
        ledger.append((core(0), Position(sequence * 2 + 1)), &record, None);
    }

    #[test]
    fn each_change_finds_what_the_one_before_left() {
        let mut ledger = Ledger::default();
        commit(&mut ledger, 1, 10, OldRow::Absent);
        commit(
            &mut ledger,
            2,
            20,
            OldRow::SameKeys {
                version: Version(10),
            },
        );
        assert_eq!(rise(&ledger), Ok(()));
        commit(
            &mut ledger,
            3,
            30,
            OldRow::SameKeys {
                version: Version(10),
            },
        );
        assert!(rise(&ledger).is_err(), "a lost update");
    }

    #[test]
    fn a_version_is_not_given_twice_nor_backwards() {
        let mut ledger = Ledger::default();
        commit(&mut ledger, 1, 10, OldRow::Absent);
        commit(
            &mut ledger,
            2,
            5,
            OldRow::SameKeys {
                version: Version(10),
            },
        );
        assert!(rise(&ledger).is_err());
    }
}
