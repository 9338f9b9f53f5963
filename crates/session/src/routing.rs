//! Chooses the core that gets a request, by the configuration, and makes its message.

use alloc::collections::{BTreeMap, BTreeSet};

use protocol::configuration::{Configuration, PlacedTables, routes};
use protocol::identity::{CoreId, PartitionId, ServerId, TableId};
use protocol::message::{
    ChecksumRead, Execute, HoldRelease, Read, Request, SnapshotFailure, SnapshotRequest,
    StatisticsRead,
};
use protocol::operation::Mutation;
use protocol::transaction::{RangeCheck, RowCheck, Transact, TransactionChange};

use super::{SessionFailure, SessionMachine, SessionOperation, Ticket};

/// Updates the tables with servers that are down and cannot be replaced, with these servers, to the
/// next configuration. The state of a server that a table names changes the table's epoch.
pub(super) fn follow_lost(
    lost: &mut BTreeMap<TableId, BTreeSet<ServerId>>,
    configuration: &Configuration,
    before: Option<&Configuration>,
) {
    let nothing = PlacedTables::default();
    let before = before.map_or(&nothing, |before| &before.tables);
    for (now, then) in configuration.tables.differing(before) {
        let servers = now.map(|table| (table.id, configuration.lost(table)));
        match servers.filter(|(_, servers)| !servers.is_empty()) {
            Some((id, servers)) => lost.insert(id, servers),
            None => now.or(then).and_then(|table| lost.remove(&table.id)),
        };
    }
}

/// Returns the partition of the primary replex that has the operation's row. There the operation
/// begins.
pub(super) fn head(
    configuration: &Configuration,
    table: TableId,
    mutations: &[Mutation],
) -> Result<PartitionId, SessionFailure> {
    let known = configuration.table(table);
    let known = known.ok_or(SessionFailure::TableGone { table })?;
    let Some(mutation) = mutations.first() else {
        let message = "an operation has at least one mutation".into();
        return Err(SessionFailure::Invalid { message });
    };
    routes::primary_partition(known, &mutation.pk).ok_or_else(|| SessionFailure::Invalid {
        message: "the primary key does not decode".into(),
    })
}

/// Returns the primary partition of the change of a transaction at which the walk begins: that with
/// the lowest core.
pub(super) fn first_of_walk(
    configuration: &Configuration,
    changes: &[TransactionChange],
) -> Result<PartitionId, SessionFailure> {
    let mut first: Option<(CoreId, PartitionId)> = None;
    for change in changes {
        let partition = head(
            configuration,
            change.table,
            core::slice::from_ref(&change.mutation),
        )?;
        let core = core_of(configuration, partition)?;
        if first.is_none_or(|(known, _)| core < known) {
            first = Some((core, partition));
        }
    }
    let first = first.ok_or_else(|| SessionFailure::Invalid {
        message: "a transaction has at least one change".into(),
    })?;
    Ok(first.1)
}

/// Returns the tables of a transaction, ascending.
pub(super) fn tables_of(
    changes: &[TransactionChange],
    checks: &[RowCheck],
    ranges: &[RangeCheck],
) -> BTreeSet<TableId> {
    let changed = changes.iter().map(|change| change.table);
    let checked = checks.iter().map(|check| check.table);
    let read = ranges.iter().map(|check| check.read.partition.table);
    changed.chain(checked).chain(read).collect()
}

/// Returns a missing server without which a requested snapshot cannot be opened. It may be the
/// server of the opener, which then cannot refuse the snapshot itself.
pub(super) fn missing_for(
    configuration: &Configuration,
    operation: &SessionOperation,
) -> Option<ServerId> {
    let SessionOperation::OpenSnapshot(tables) = operation else {
        return None;
    };
    tables
        .iter()
        .find_map(|table| configuration.missing_in(*table))
}

/// Returns the core that an operation goes to; none for a `Moment`, whose reads go to several
/// cores.
pub(super) fn target(
    configuration: &Configuration,
    operation: &SessionOperation,
) -> Result<Option<CoreId>, SessionFailure> {
    let partition = match operation {
        SessionOperation::Moment(reads) => {
            for read in reads {
                core_of(configuration, read.partition)?;
            }
            return Ok(None);
        }
        SessionOperation::Release(release) => release.partition,
        SessionOperation::Execute {
            table, mutations, ..
        } => head(configuration, *table, mutations)?,
        SessionOperation::Transact {
            changes,
            checks,
            ranges,
            ..
        } => {
            for table in tables_of(changes, checks, ranges) {
                let gone = SessionFailure::TableGone { table };
                configuration.table(table).ok_or(gone)?;
            }
            first_of_walk(configuration, changes)?
        }
        SessionOperation::Read(read) => read.partition,
        SessionOperation::Checksum(read) => read.partition,
        SessionOperation::Statistics(read) => read.partition,
        // The opener of snapshots of the same table is the same for all clients, so that openings
        // do not get in each other's way.
        SessionOperation::OpenSnapshot(tables) => {
            let table = tables.iter().min().copied().unwrap_or_default();
            let gone = SessionFailure::TableGone { table };
            configuration.table(table).ok_or(gone)?.primary_partition(0)
        }
        SessionOperation::KeepSnapshot(share) | SessionOperation::CloseSnapshot(share) => {
            let opener = share.snapshot.opener;
            let gone = SessionFailure::Snapshot(SnapshotFailure::ClusterChanged);
            let address = configuration.address(opener);
            return address.map(|_| Some(opener)).ok_or(gone);
        }
        SessionOperation::Status(core) => {
            let gone = SessionFailure::PlaceGone { partition: None };
            let address = configuration.address(*core);
            return address.map(|_| Some(*core)).ok_or(gone);
        }
    };
    core_of(configuration, partition).map(Some)
}

/// Returns the core that holds a partition.
fn core_of(
    configuration: &Configuration,
    partition: PartitionId,
) -> Result<CoreId, SessionFailure> {
    if configuration.table(partition.table).is_none() {
        return Err(SessionFailure::TableGone {
            table: partition.table,
        });
    }
    let place = configuration.place(partition);
    place
        .map(|place| place.core)
        .ok_or(SessionFailure::PlaceGone {
            partition: Some(partition),
        })
}

impl SessionMachine {
    // tidy: long — a dispatching match over the operations
    /// Returns the message of the next attempt: with the present epoch and acknowledgement, and
    /// with the name and body of all attempts (R13).
    pub(super) fn request(&self, ticket: Ticket) -> Request {
        let configuration = self.configuration.as_ref().expect("it was routed");
        let epoch = self.table_epoch(ticket);
        let pending = &self.requests[&ticket];
        match &pending.operation {
            SessionOperation::Execute {
                table, mutations, ..
            } => {
                let name = pending.name.expect("it was named before it is sent");
                let routed = configuration.table(*table).expect("it was routed");
                let partition = routes::primary_partition(routed, &mutations[0].pk);
                Request::Execute(Execute {
                    request: name,
                    acknowledged_below: self.numbering.acknowledged_below(name),
                    epoch,
                    table: *table,
                    partition: partition.expect("it was routed"),
                    mutations: mutations.clone(),
                })
            }
            SessionOperation::Transact {
                changes,
                checks,
                ranges,
                ..
            } => {
                let name = pending.name.expect("it was named before it is sent");
                let tables = tables_of(changes, checks, ranges).into_iter();
                let partition = first_of_walk(configuration, changes);
                Request::Transact(Transact {
                    request: name,
                    acknowledged_below: self.numbering.acknowledged_below(name),
                    epochs: tables.map(|table| (table, self.epoch_of(table))).collect(),
                    partition: partition.expect("it was routed"),
                    changes: changes.clone(),
                    checks: checks.clone(),
                    ranges: ranges.clone(),
                })
            }
            SessionOperation::Read(read) => Request::Read(Read {
                epoch,
                ..read.clone()
            }),
            SessionOperation::Checksum(read) => Request::Checksum(ChecksumRead {
                epoch,
                ..read.clone()
            }),
            SessionOperation::Statistics(read) => Request::Statistics(StatisticsRead {
                epoch,
                ..read.clone()
            }),
            SessionOperation::Release(release) => Request::Release(HoldRelease {
                epoch,
                ..release.clone()
            }),
            SessionOperation::Status(_) => Request::Status,
            SessionOperation::OpenSnapshot(tables) => {
                let tables = tables.iter().map(|table| (*table, self.epoch_of(*table)));
                Request::Snapshot(SnapshotRequest::Open {
                    reader: self.reader,
                    tables: tables.collect(),
                })
            }
            SessionOperation::KeepSnapshot(share) => {
                Request::Snapshot(SnapshotRequest::Keep(*share))
            }
            SessionOperation::CloseSnapshot(share) => {
                Request::Snapshot(SnapshotRequest::Close(*share))
            }
            SessionOperation::Moment(_) => panic!("its parts are sent instead"),
        }
    }
}
