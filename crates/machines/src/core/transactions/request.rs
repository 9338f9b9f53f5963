//! A client's transaction, at the core of its first primary.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::codec::Wire;
use protocol::identity::{CoreId, PartitionId, RequestId, TableId};
use protocol::message::Refusal;
use protocol::operation::Mutation;
use protocol::transaction::{Transact, TransactionChange, check_size};

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::chain::{evaluate, primary_partition};
use crate::core::step::Step;

impl CoreMachine {
    /// Handles a client's `Transact`: checks it, and begins its walk at this core.
    pub(crate) fn transact<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        transact: Transact,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.counters.requests += 1;
        for (_, epoch) in &transact.epochs {
            self.notice_epoch(*epoch, step.output);
        }
        let route = match self.admit_transaction(&transact) {
            Ok(route) => route,
            Err(refusal) => {
                self.refuse(asker, refusal, step.output);
                return Ok(());
            }
        };
        let request = transact.request;
        self.sessions
            .acknowledge(request.session, transact.acknowledged_below);
        let digest = digest(&transact);
        let named = (request, transact.partition.table);
        if self.is_known(step.now, asker, named, digest, step.output) {
            return Ok(());
        }
        if let Err(refusal) = self.check_room() {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        self.requests.begin(request, digest, asker);
        self.begin_transaction((transact, digest), route, step)
    }

    /// Begins a single change as a transaction, at the core of its primary. The request runs
    /// already.
    pub(crate) fn transact_one<T: Tables>(
        &mut self,
        (request, acknowledged_below, digest): (RequestId, u64, u64),
        (partition, mutation): (PartitionId, Mutation),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let table = partition.table;
        let transact = Transact {
            request,
            acknowledged_below,
            epochs: alloc::vec![(table, self.view.table_epoch(table))],
            partition,
            changes: alloc::vec![TransactionChange {
                table,
                mutation,
                must_apply: false,
            }],
            checks: Vec::new(),
            ranges: Vec::new(),
        };
        let route = alloc::vec![self.identity.core];
        self.begin_transaction((transact, digest), route, step)
    }

    /// Checks that a transaction may begin here. Returns the cores of its primaries, ascending.
    fn admit_transaction(&self, transact: &Transact) -> Result<Vec<CoreId>, Refusal> {
        let invalid = |message: String| Refusal::Invalid { message };
        check_size(&transact.changes, &transact.checks, &transact.ranges).map_err(invalid)?;
        if transact.changes.is_empty() {
            return Err(invalid(
                "a transaction without changes needs no commit".into(),
            ));
        }
        for (table, epoch) in &transact.epochs {
            let known = self.view.table_epoch(*table);
            if *epoch != known {
                return Err(Refusal::StaleEpoch { epoch: known });
            }
        }
        let named: BTreeSet<TableId> = transact.epochs.iter().map(|(table, _)| *table).collect();
        let read = transact.ranges.iter();
        let read = read.map(|check| check.read.partition.table);
        let checked = transact.checks.iter().map(|check| check.table).chain(read);
        let mut used = transact.changes.iter().map(|change| change.table);
        if !used.all(|table| named.contains(&table))
            || !checked.into_iter().all(|it| named.contains(&it))
        {
            return Err(invalid(
                "the transaction names no epoch of one of its tables".into(),
            ));
        }
        let mut cores = BTreeSet::new();
        for check in &transact.checks {
            self.primary_of_row(check.table, &check.pk)?;
        }
        for change in &transact.changes {
            let primary = self.primary_of(change)?;
            let place = self.view.place(primary).ok_or(Refusal::WrongPartition)?;
            let table = self
                .view
                .table(change.table)
                .ok_or(Refusal::WrongPartition)?;
            evaluate::check(table, &change.mutation).map_err(invalid)?;
            cores.insert(place.core);
        }
        let is_here = cores.first() == Some(&self.identity.core)
            && self.partitions.contains_key(&transact.partition);
        match is_here {
            true => Ok(cores.into_iter().collect()),
            false => Err(Refusal::WrongPartition),
        }
    }

    /// Returns the primary partition of a change.
    ///
    /// # Errors
    /// The table is not known, or the primary key does not decode.
    pub(super) fn primary_of(&self, change: &TransactionChange) -> Result<PartitionId, Refusal> {
        self.primary_of_row(change.table, &change.mutation.pk)
    }

    /// Returns the primary partition of a row.
    ///
    /// # Errors
    /// The table is not known, or the primary key does not decode.
    pub(super) fn primary_of_row(&self, table: TableId, pk: &[u8]) -> Result<PartitionId, Refusal> {
        let table = self.view.table(table).ok_or(Refusal::WrongPartition)?;
        let number = primary_partition(table, pk);
        let number = number.ok_or_else(|| Refusal::Invalid {
            message: "the primary key does not decode".into(),
        })?;
        Ok(table.partition(table.layout.primary(), number))
    }
}

/// Returns a hash of a transaction's body.
fn digest(transact: &Transact) -> u64 {
    let mut bytes = Vec::with_capacity(1024);
    transact.changes.encode(&mut bytes);
    transact.checks.encode(&mut bytes);
    transact.ranges.encode(&mut bytes);
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
