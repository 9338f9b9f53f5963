//! R36: when a snapshot at T is opened, every operation up to T was decided before any operation
//! above T began. Afterwards no operation up to T begins.
//!
//! Reads would not always detect a violation, because a read at T waits for operations below T that
//! its partition knows. So the checker reads the log records of operations. It checks the tables of
//! one snapshot together: if an operation on one table was acknowledged before an operation on
//! another table began, the snapshot never has only the later operation.

use std::collections::BTreeMap;

use protocol::identity::{Epoch, OperationId, SnapshotId, TableId, Version};
use protocol::operation::{Decision, Prepare, RowChange};

use crate::ledger::Ledger;

/// The snapshots whose T clients have received: the highest such version of each table in each of
/// its epochs.
#[derive(Clone, Debug, Default)]
pub struct GivenSnapshots {
    highest: BTreeMap<(TableId, Epoch), Version>,
    /// The operations of each epoch of a table that have been decided or are in progress.
    operations: BTreeMap<(TableId, Epoch), BTreeMap<OperationId, OperationSpan>>,
    /// The rows of each snapshot, by table.
    rows: BTreeMap<(SnapshotId, TableId), CutRows>,
    /// Rises with each record.
    clock: u64,
}

/// The rows of a table at a version, by primary key.
pub type CutRows = BTreeMap<Vec<u8>, (Version, Vec<u8>)>;

/// When an operation was first logged anywhere, and its decision.
#[derive(Clone, Copy, Debug)]
struct OperationSpan {
    version: Version,
    begun: u64,
    decided: Option<u64>,
}

impl GivenSnapshots {
    /// Records that clients receive a snapshot of tables at T, each in its epoch.
    ///
    /// # Errors
    /// An operation up to T is in progress, or one above it began before one up to it was decided.
    pub fn give(
        &mut self,
        ledger: &Ledger,
        (snapshot, at): (SnapshotId, Version),
        tables: &[(TableId, Epoch)],
    ) -> Result<(), String> {
        for (table, epoch) in tables {
            let highest = self.highest.entry((*table, *epoch)).or_default();
            *highest = (*highest).max(at);
            let operations = ledger.operations.values();
            let mut of_table = operations.filter(|it| it.begun.contains_key(table));
            let under_way = of_table.find(|it| {
                // It began in some configuration since the table has this epoch.
                let is_present = it.prepare.epoch >= *epoch && it.decision.is_none();
                is_present && it.begun[table] <= at
            });
            if let Some(operation) = under_way {
                return Err(format!(
                    "a snapshot of table {} is given out at {at:?}, but {:?} of a lower version is \
                     under way",
                    table.0, operation.prepare.operation
                ));
            }
            let rows = self.rows.entry((snapshot, *table));
            rows.or_insert_with(|| rows_at(ledger, (*table, *epoch), at));
        }
        let spans = tables.iter().filter_map(|own| self.operations.get(own));
        let spans = spans.flat_map(BTreeMap::values);
        let (below, above): (Vec<&OperationSpan>, _) = spans.partition(|it| it.version <= at);
        let last_decided = below.iter().filter_map(|it| it.decided).max();
        let first_begun = above.iter().map(|it| it.begun).min();
        match (last_decided, first_begun) {
            (Some(decided), Some(begun)) if decided > begun => Err(format!(
                "a snapshot of tables {tables:?} is given out at {at:?}: an operation above it \
                 began before one below it was decided"
            )),
            _ => Ok(()),
        }
    }

    /// Returns the number of snapshots of a table that clients have received.
    pub fn count_of(&self, table: TableId) -> usize {
        self.rows.keys().filter(|(_, of)| *of == table).count()
    }

    /// Returns the rows of a table in a snapshot, if a client has received the snapshot.
    pub fn rows_of(&self, snapshot: SnapshotId, table: TableId) -> Option<&CutRows> {
        self.rows.get(&(snapshot, table))
    }

    /// Records the decision of an operation that a core has logged.
    pub fn note_decided(&mut self, operation: OperationId) {
        self.clock += 1;
        for operations in self.operations.values_mut() {
            if let Some(span) = operations.get_mut(&operation) {
                span.decided.get_or_insert(self.clock);
            }
        }
    }

    /// Checks an operation that no core has logged before, in an epoch of its table.
    ///
    /// # Errors
    /// The operation has a version that belongs to a snapshot whose T a client has received.
    pub fn begun(&mut self, prepare: &Prepare, epoch: Epoch) -> Result<(), String> {
        let highest = self.highest.get(&(prepare.table, epoch));
        let version = lowest_version(prepare);
        self.clock += 1;
        let span = OperationSpan {
            version,
            begun: self.clock,
            decided: None,
        };
        let operations = self.operations.entry((prepare.table, epoch)).or_default();
        // A transaction can begin at several primaries.
        let known = operations.entry(prepare.operation).or_insert(span);
        known.version = known.version.min(version);
        match highest {
            Some(at) if version <= *at => Err(format!(
                "{:?} begins at {version:?}, after a snapshot was given out at {at:?}",
                prepare.operation
            )),
            _ => Ok(()),
        }
    }
}

/// Returns the rows of a table that were committed up to a version, in an epoch of the table that
/// serves.
///
/// The end of an earlier epoch may have committed an operation although the epoch never served. If
/// the cores with this decision left before a later epoch served, the operation was never made, and
/// no client has seen it.
pub fn rows_at(ledger: &Ledger, (table, epoch): (TableId, Epoch), at: Version) -> CutRows {
    let operations = ledger.operations.values();
    let committed = operations.filter(|it| {
        let is_made = it.visible || it.prepare.epoch >= epoch;
        it.decision == Some(Decision::Commit) && is_made
    });
    let changes = committed.flat_map(|it| &it.changes);
    let changes = changes.filter(|((of, _), _)| *of == table);
    let changes = changes.map(|(_, change)| change);
    let mut last: BTreeMap<&[u8], &RowChange> = BTreeMap::new();
    for change in changes.filter(|change| change.version <= at) {
        let last = last.entry(&change.pk).or_insert(change);
        if last.version < change.version {
            *last = change;
        }
    }
    let rows = last.into_iter().filter_map(|(pk, change)| {
        let row = change.new.as_ref()?;
        Some((pk.to_vec(), (change.version, row.to_vec())))
    });
    rows.collect()
}

fn lowest_version(prepare: &Prepare) -> Version {
    let versions = prepare.changes.iter().map(|change| change.version);
    versions.min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use protocol::identity::{CoreId, Incarnation, Position, ServerId};
    use protocol::record::Record;

    use super::*;
    use crate::ledger::testing::prepare;

    const NAME: SnapshotId = SnapshotId {
        opener: CoreId {
            server: ServerId(1),
            core: 0,
        },
        incarnation: Incarnation(1),
        number: 1,
    };

    #[test]
    fn nothing_begins_below_what_was_given_out() {
        let (ledger, mut given) = (Ledger::default(), GivenSnapshots::default());
        let prepare = prepare(1, &[]);
        let own = (prepare.table, prepare.epoch);
        let version = lowest_version(&prepare);
        assert_eq!(given.begun(&prepare, prepare.epoch), Ok(()));
        let other = (TableId(prepare.table.0 + 1), prepare.epoch);
        given
            .give(&ledger, (NAME, version), &[other])
            .expect("nothing is under way");
        let before = Version(version.0.wrapping_sub(1));
        if before < version {
            given
                .give(&ledger, (NAME, before), &[own])
                .expect("nothing is under way");
            assert_eq!(given.begun(&prepare, prepare.epoch), Ok(()));
        }
        given
            .give(&ledger, (NAME, version), &[own])
            .expect("nothing is under way");
        assert!(given.begun(&prepare, prepare.epoch).is_err());
    }

    #[test]
    fn nothing_above_begins_before_all_below_is_decided() {
        let ledger = Ledger::default();
        let one = prepare(1, &[]);
        let mut other = (*prepare(2, &[])).clone();
        other.changes = one.changes.clone();
        for change in &mut other.changes {
            Arc::make_mut(change).version.0 += 1;
        }
        let own = (one.table, one.epoch);
        let between = lowest_version(&one);
        for decided_first in [true, false] {
            let mut given = GivenSnapshots::default();
            given.begun(&one, one.epoch).expect("nothing is given out");
            if decided_first {
                given.note_decided(one.operation);
            }
            given
                .begun(&other, one.epoch)
                .expect("nothing is given out");
            given.note_decided(one.operation);
            let given = given.give(&ledger, (NAME, between), &[own]);
            assert_eq!(given.is_ok(), decided_first);
        }
    }

    #[test]
    fn nothing_of_another_table_above_begins_before_all_below_is_decided() {
        let ledger = Ledger::default();
        let one = prepare(1, &[]);
        let mut other = (*prepare(2, &[])).clone();
        other.table = TableId(one.table.0 + 1);
        other.changes = one.changes.clone();
        for change in &mut other.changes {
            Arc::make_mut(change).version.0 += 1;
        }
        let between = lowest_version(&one);
        let tables = [(one.table, one.epoch), (other.table, one.epoch)];
        let mut given = GivenSnapshots::default();
        given.begun(&one, one.epoch).expect("nothing is given out");
        given
            .begun(&other, one.epoch)
            .expect("nothing is given out");
        given.note_decided(one.operation);
        // Each table on its own shows nothing.
        for table in tables {
            let mut given = given.clone();
            given
                .give(&ledger, (NAME, between), &[table])
                .expect("it is of one table");
        }
        assert!(given.give(&ledger, (NAME, between), &tables).is_err());
    }

    #[test]
    fn nothing_is_under_way_when_a_snapshot_is_given_out() {
        let mut ledger = Ledger::default();
        let prepare = prepare(1, &[protocol::operation::Vote::Yes]);
        crate::ledger::testing::prepared(&mut ledger, 1, 0, &prepare);
        let own = (prepare.table, prepare.epoch);
        let mut given = GivenSnapshots::default();
        let highest = Version(u64::MAX);
        assert!(given.give(&ledger, (NAME, highest), &[own]).is_err());
    }

    #[test]
    fn decision_of_an_epoch_that_never_served_counts_no_more() {
        use crate::ledger::testing::{core, decided, partition, prepared};
        let mut ledger = Ledger::default();
        let own = prepare(1, &[]);
        prepared(&mut ledger, 1, 0, &own);
        let sealed = Record::Sealed {
            epoch: Epoch(2),
            tables: vec![(partition(0).table, true)],
        };
        ledger.append((core(0), Position(2)), &sealed, None);
        let decided = decided(1, 0, Decision::Commit);
        ledger.append((core(0), Position(3)), &decided, None);
        let rows = |ledger: &Ledger, epoch| {
            rows_at(ledger, (own.table, Epoch(epoch)), Version(u64::MAX)).len()
        };
        assert_eq!(rows(&ledger, 3), 0);
        // Unless the epoch does serve.
        let tables = [own.table, partition(0).table];
        let served = ledger.served((core(0), Epoch(2)), &tables, |_| true);
        served.expect("it is the only decision");
        assert_eq!(rows(&ledger, 3), 1);
    }
}
