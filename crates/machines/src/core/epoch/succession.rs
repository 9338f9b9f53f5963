//! Adopts a configuration, and determines which partitions this core holds, receives and gives.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};
use protocol::configuration::Configuration;
use protocol::identity::{Epoch, PartitionId, TableId};
use protocol::message::Refusal;
use protocol::planted::{self, Bug};
use protocol::record::{PartitionStart, Record};

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::partition::tenures::LoggedTenure;
use crate::core::step::Step;

impl CoreMachine {
    /// Adopts a configuration: it determines which partitions this core holds. `changed` are the
    /// tables that differ from the earlier configuration.
    pub(crate) fn follow(
        &mut self,
        configuration: Arc<Configuration>,
        changed: &BTreeSet<TableId>,
    ) {
        self.view.replace(configuration);
        let own = (self.identity.core, self.log.is_replaying());
        self.partitions.follow(&self.view, changed, own);
    }

    /// Handles a fetched configuration.
    pub(crate) fn on_configuration<T: Tables>(
        &mut self,
        configuration: Arc<Configuration>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.leases.end_fetch();
        if configuration.epoch <= self.view.epoch() {
            self.fetch_noticed(step.output);
            return Ok(());
        }
        let changed = self.view.changed(&configuration);
        self.end_holds_of(&changed);
        self.participation.end_of_tables(&changed);
        let concerned = self.concerned(&changed);
        let held = self.partitions.keys_of(&changed);
        let held: Vec<PartitionId> = held.copied().collect();
        self.refuse_reads_of_others(&configuration, step.output);
        self.follow(configuration, &changed);
        self.view.begin(step.now, &changed);
        self.end_openings_of(step.now, &changed, step.output);
        // The coordinator waits for this core to report that it has the epoch.
        self.leases.hurry(step.now);
        for id in concerned.difference(&self.concerned(&changed)) {
            self.partitions.drop_rows(*id, step.tables)?;
            self.drop_members(*id, step.output);
        }
        self.review_left_behind(step.tables)?;
        self.review_ranges(step.now, &changed);
        self.review_entries(&changed, step.tables)?;
        self.take_given(&changed, step)?;
        self.end_old_seals(step)?;
        for id in held {
            // A partition that was given to another core has settled all operations that it took
            // part in.
            if !self.partitions.contains_key(&id) {
                self.drop_members(id, step.output);
            }
        }
        let sealed = self.unseal(&changed);
        self.seal(&changed, step)?;
        self.review_seals(step.now, step.output);
        self.end_attempts_on(&changed, step)?;
        let open = changed.into_iter().filter(|id| !self.stands_still(*id));
        let open: BTreeSet<TableId> = open.collect();
        for (id, pk) in self.partitions.queued_pks() {
            if open.contains(&id.table) && sealed.contains(&id.table) {
                self.start_queue(id, &pk, step)?;
            }
        }
        self.hurry(step.now, |member| open.contains(&member.prepare.table));
        self.hurry_transactions(step.now, |_, tables| {
            tables.iter().any(|table| open.contains(table))
        });
        self.restart_recovery(&open, step)?;
        self.review_fills(&open, step)?;
        self.refuse_lost(step)?;
        self.on_early_messages(step)?;
        self.fetch_noticed(step.output);
        Ok(())
    }

    /// Returns the partitions of these tables that this core holds, gives or receives.
    pub(crate) fn concerned(&self, tables: &BTreeSet<TableId>) -> BTreeSet<PartitionId> {
        let own = self.identity.core;
        let places = self.view.configuration().places_of(tables);
        let concerned = places.filter(|(_, place)| {
            let is_given = place.core != own && place.giver() == Some(own);
            let is_forgotten = is_given && planted::is(Bug::GiverForgets);
            place.tenures().any(|it| it.core == own) && !is_forgotten
        });
        concerned.map(|(id, _)| id).collect()
    }

    /// Lookups that wait in partitions that another core holds next go there.
    fn refuse_reads_of_others(&mut self, next: &Configuration, output: &mut CoreOutput) {
        let own = self.identity.core;
        let is_own = |id| next.place(id).is_some_and(|place| place.core == own);
        for id in self.partitions.waited_in_ids() {
            if is_own(id) {
                continue;
            }
            self.refuse_reads(id, &Refusal::WrongPartition, output);
        }
    }

    /// Refuses the reads that wait in a partition that this core holds.
    fn refuse_reads(&mut self, id: PartitionId, refusal: &Refusal, output: &mut CoreOutput) {
        let partition = self.partitions.get_mut(&id).expect("it is held");
        for read in core::mem::take(&mut partition.reads) {
            self.refuse(read.asker, refusal.clone(), output);
        }
    }

    /// Begins new tenures of partitions of these tables, as the configuration assigns them to this
    /// core. Its earlier rows of them are void, or a hint if a serving core gives the partition.
    pub(crate) fn take_given<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let concerned = self.concerned(tables);
        for partition in &concerned {
            let since = self
                .view
                .configuration()
                .tenure(*partition, self.identity.core);
            let since = since.expect("it is concerned");
            if self.tenures.of(*partition).since == since {
                continue;
            }
            let place = self.view.place(*partition);
            let is_taken = place.and_then(|place| place.taker()) == Some(self.identity.core);
            let start = match (is_taken, self.tenures.take_left_behind(*partition)) {
                (false, _) => PartitionStart::Empty,
                (true, false) => PartitionStart::Taken,
                (true, true) => PartitionStart::Compared,
            };
            self.give(*partition, since, start, step)?;
            let record = Record::Given {
                partition: *partition,
                since,
                start,
            };
            self.append(&record, Durability::Replicated, step.output);
        }
        self.tenures.retain_of(tables, |id| concerned.contains(&id));
        Ok(())
    }

    /// Begins a tenure of a partition, with no rows or with rows of an earlier tenure.
    pub(crate) fn give<T: Tables>(
        &mut self,
        partition: PartitionId,
        since: Epoch,
        start: PartitionStart,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.begin_again();
            // The operations that they wait for are dropped, and end nowhere here.
            self.refuse_reads(
                partition,
                &Refusal::StaleEpoch { epoch: since },
                step.output,
            );
        }
        self.fills.forget(partition);
        self.takings.forget(partition);
        self.drop_members(partition, step.output);
        let keeps_rows =
            start == PartitionStart::Compared || planted::is(Bug::EarlierTenureTrusted);
        if !self.log.rows_are_newer() && !keeps_rows {
            self.partitions.drop_rows(partition, step.tables)?;
        }
        let is_whole = start == PartitionStart::Empty;
        self.tenures
            .begin(partition, LoggedTenure { since, is_whole });
        Ok(())
    }

    /// Forgets a partition's operations and requests.
    pub(crate) fn drop_members(&mut self, id: PartitionId, output: &mut CoreOutput) {
        self.forget_coordinated_by(id, output);
        let gone: Vec<_> = self
            .members
            .keys()
            .filter(|key| key.1 == id)
            .copied()
            .collect();
        for key in gone {
            let member = self.members.remove(&key).expect("it was just listed");
            self.requests.unfold(key.0);
            if member.place > 0 || member.is_transaction() {
                continue;
            }
            self.end_operation(key.0);
            // Once it has voted, others may have carried it on.
            let refusal = match member.prepared_at() {
                Some(_) => Refusal::Begun,
                None => Refusal::WrongPartition,
            };
            for request in &member.prepare.requests {
                self.refuse_running(request.request, &refusal, output);
            }
        }
        let queued = |machine: &Self, request| {
            let mut members = machine
                .members
                .values()
                .flat_map(|member| &member.prepare.requests);
            members.any(|record| record.request == request) || machine.is_queued(request)
        };
        for request in self.requests.names() {
            if !queued(self, request) {
                self.refuse_running(request, &Refusal::WrongPartition, output);
            }
        }
    }
}
