//! What keeps a core in its cluster: configuration, leases, timers, messages of peers.
//!
//! A lease says until when no newer epoch can serve without this core (SAFETY R15). It is renewed
//! by the coordinator, or by as many other servers as failures are tolerated: one of those is then
//! a survivor of whatever epoch could exclude this core, and a survivor that has left the epoch
//! does not vouch. So no coordinator failure stops reads or writes.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::Durability;
use placement::tables::{Tables, TablesError};

use super::locks::Locks;
use super::moves::Held;
use super::table::TableInfo;
use super::{CoreMachine, Output, Partition, Send, Told};
use crate::configuration::Configuration;
use crate::identity::{CoreId, Epoch, Incarnation, Now, PartitionId, Position, ServerId};
use crate::message::{CoordinatorRequest, PeerHeader, PeerMessage, Refusal};
use crate::planted::{self, Bug};
use crate::record::{Record, Start};

/// Questions to peers that an answer may still come to: more than a lease's worth of heartbeats.
const QUESTIONS_MAX: usize = 64;

/// How long this core may serve.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// From the coordinator.
    pub coordinator_until_us: u64,
    /// From other servers of the same epoch.
    vouched_until_us: BTreeMap<ServerId, u64>,
    /// Until when enough of them vouch. Asked for with every request, and seldom new.
    peers_until_us: u64,
    /// When peers were asked of late: only an answer to one of these renews anything. A peer could
    /// still have one for this core's process before, whose clock began at another time.
    asked_us: VecDeque<u64>,
    next_heartbeat_us: u64,
    /// A fetch of the configuration is under way since.
    fetch_since_us: Option<u64>,
}

impl Leases {
    /// The next heartbeat goes out at the next tick.
    pub fn hurry(&mut self, now: Now) {
        self.next_heartbeat_us = now.monotonic_us;
    }
}

impl CoreMachine {
    /// Until when this core may serve, on its monotonic clock.
    pub fn lease_until_us(&self) -> u64 {
        let Leases {
            coordinator_until_us,
            peers_until_us,
            ..
        } = self.leases;
        coordinator_until_us.max(peers_until_us)
    }

    /// Counts who vouches, after that or the tables have changed.
    fn count_vouching(&mut self) {
        let tolerated = self
            .tables
            .values()
            .map(|table| table.schema.failures_tolerated);
        let needed = usize::from(tolerated.max().unwrap_or(0)).max(1);
        let mut vouched: Vec<u64> = self.leases.vouched_until_us.values().copied().collect();
        vouched.sort_unstable_by(|a, b| b.cmp(a));
        self.leases.peers_until_us = vouched.get(needed - 1).copied().unwrap_or(0);
    }

    /// Takes a configuration as its own: which partitions this core holds.
    pub(super) fn hold(&mut self, configuration: Arc<Configuration>) {
        self.tables = configuration
            .tables
            .iter()
            .map(|table| (table.id, Arc::new(TableInfo::new(table, &configuration))))
            .collect();
        let own = self.identity.core;
        let mut known = core::mem::take(&mut self.partitions);
        self.others.clear();
        for (id, place) in configuration.places() {
            if place.tenures().all(|tenure| tenure.core != own) {
                continue;
            }
            let table = Arc::clone(&self.tables[&id.table]);
            let gave = self.is_replaying && place.giver() == Some(own);
            if place.core == own || gave {
                let partition = known.remove(&id);
                let mut partition = partition.unwrap_or_else(|| Partition::new(id, &table));
                partition.table = table;
                self.partitions.insert(id, partition);
            } else {
                self.others.insert(id, Partition::new(id, &table));
            }
        }
        for server in &configuration.servers {
            for core in 0..server.cores.len() {
                let core = CoreId {
                    server: server.id,
                    core: core as u16,
                };
                self.notice_incarnation(core, server.incarnation);
            }
        }
        self.lost = configuration.lost();
        self.configuration = configuration;
        self.count_vouching();
    }

    pub(super) fn on_configuration<T: Tables>(
        &mut self,
        now: Now,
        configuration: Arc<Configuration>,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.leases.fetch_since_us = None;
        if configuration.epoch <= self.configuration.epoch {
            return Ok(());
        }
        self.quiet_from_us = now.monotonic_us;
        let concerned = self.concerned();
        let held: Vec<PartitionId> = self.partitions.keys().copied().collect();
        self.refuse_reads_of_others(&configuration, output);
        // A vouching for the epoch before says nothing of this one.
        self.leases.vouched_until_us.clear();
        self.hold(configuration);
        // The coordinator waits for this core to say that it has the epoch.
        self.leases.hurry(now);
        for id in concerned.difference(&self.concerned()) {
            self.drop_partition(*id, tables, output)?;
        }
        self.review_left_behind(tables)?;
        self.review_entries(tables)?;
        self.take_given(tables, output)?;
        let stood_still = self.stands_still();
        self.end_old_seal(now, tables, output)?;
        for id in held {
            // What was given away has settled all that it took part in.
            if !self.partitions.contains_key(&id) {
                self.drop_members(id, output);
            }
        }
        if self.configuration.sealing.is_some() {
            return self.seal(now, tables, output);
        }
        if stood_still {
            self.unseal(now, tables, output)?;
        } else {
            self.hurry(now, |_| true);
            self.recover_anew(now, tables, output)?;
        }
        self.review_fills(now, tables, output)?;
        self.refuse_lost(now, tables, output)
    }

    /// The partitions that this core holds, gives away or takes.
    pub(super) fn concerned(&self) -> BTreeSet<PartitionId> {
        let own = self.identity.core;
        let places = self.configuration.places();
        let concerned = places.filter(|(_, place)| {
            let is_given = place.core != own && place.giver() == Some(own);
            let is_forgotten = is_given && planted::is(Bug::GiverForgets);
            place.tenures().any(|it| it.core == own) && !is_forgotten
        });
        concerned.map(|(id, _)| id).collect()
    }

    /// Lookups that wait in partitions that another core holds next go there.
    fn refuse_reads_of_others(&mut self, next: &Configuration, output: &mut Output) {
        let own = self.identity.core;
        let is_own = |id| next.place(id).is_some_and(|place| place.core == own);
        let partitions = self.partitions.values_mut();
        let given = partitions.filter(|partition| !is_own(partition.id));
        let reads: Vec<_> = given
            .flat_map(|partition| partition.reads.drain(..))
            .collect();
        for read in reads {
            self.refuse(read.asked, Refusal::WrongPartition, output);
        }
    }

    /// Partitions that the configuration gives to this core anew: what it had of them is void, or where
    /// it takes them over from who serves, a hint.
    pub(super) fn take_given<T: Tables>(
        &mut self,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let concerned = self.concerned();
        for partition in &concerned {
            let since = self.configuration.tenure(*partition, self.identity.core);
            let since = since.expect("it is concerned");
            if self.held.get(partition).copied().unwrap_or_default().since == since {
                continue;
            }
            let place = self.configuration.place(*partition);
            let is_taken = place.and_then(|place| place.taker()) == Some(self.identity.core);
            let start = match (is_taken, self.left_behind.remove(partition)) {
                (false, _) => Start::Empty,
                (true, false) => Start::Taken,
                (true, true) => Start::Compared,
            };
            self.give(*partition, (since, start), tables, output)?;
            let record = Record::Given {
                partition: *partition,
                since,
                start,
            };
            self.log(&record, Durability::Replicated, output);
        }
        self.held.retain(|id, _| concerned.contains(id));
        Ok(())
    }

    /// Begins a partition from nothing, or from rows of an earlier tenure.
    pub(super) fn give<T: Tables>(
        &mut self,
        partition: PartitionId,
        (since, start): (Epoch, Start),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let rows_are_newer = self.next_position < self.rows_from;
        // Keys of operations that are gone are free, and requests that came before are asked again:
        // they may have ended elsewhere meanwhile.
        if let Some(held) = self.partitions.get_mut(&partition) {
            held.locks = Locks::default();
            held.behind_reads.clear();
            held.queues.clear();
        }
        // What an earlier tenure had filled says nothing of this one.
        self.fills.partitions.remove(&partition);
        self.taking.remove(&partition);
        self.drop_members(partition, output);
        let keeps_rows = start == Start::Compared || planted::is(Bug::EarlierTenureTrusted);
        if !rows_are_newer && !keeps_rows {
            self.drop_rows(partition, tables)?;
        }
        let is_whole = start == Start::Empty;
        self.held.insert(partition, Held { since, is_whole });
        Ok(())
    }

    /// A partition is not this core's any more: nothing of it is kept.
    fn drop_partition<T: Tables>(
        &mut self,
        id: PartitionId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.drop_rows(id, tables)?;
        self.drop_members(id, output);
        Ok(())
    }

    /// Forgets a partition's operations and requests.
    pub(super) fn drop_members(&mut self, id: PartitionId, output: &mut Output) {
        let gone: Vec<_> = self
            .members
            .keys()
            .filter(|key| key.1 == id)
            .copied()
            .collect();
        for key in gone {
            let member = self.members.remove(&key).expect("it was just listed");
            self.folded.remove(&key.0);
            if member.place > 0 {
                continue;
            }
            self.unfinished.remove(&key.0.order());
            // Once it has voted, others may have carried it on.
            let refusal = match member.prepared_at {
                Some(_) => Refusal::Begun,
                None => Refusal::WrongPartition,
            };
            for request in &member.prepare.requests {
                self.refuse_running(request.request, &refusal, output);
            }
        }
        let orphans: Vec<_> = self.running.keys().copied().collect();
        let queued = |machine: &Self, request| {
            let mut members = machine
                .members
                .values()
                .flat_map(|member| &member.prepare.requests);
            members.any(|record| record.request == request) || machine.is_queued(request)
        };
        for request in orphans {
            if !queued(self, request) {
                self.refuse_running(request, &Refusal::WrongPartition, output);
            }
        }
    }

    /// Learns that an epoch exists; fetches it if it is newer.
    pub(super) fn notice_epoch(&mut self, epoch: Epoch, output: &mut Output) {
        if epoch > self.configuration.epoch && self.leases.fetch_since_us.is_none() {
            self.leases.fetch_since_us = Some(0);
            output.asks.push(CoordinatorRequest::Fetch {
                known: self.configuration.epoch,
            });
        }
    }

    /// False if the speaker is an earlier life of a core that has restarted since.
    fn notice_incarnation(&mut self, core: CoreId, incarnation: Incarnation) -> bool {
        let known = self.incarnations.entry(core).or_default();
        *known = (*known).max(incarnation);
        *known == incarnation || planted::is(Bug::IncarnationUnchecked)
    }

    // tidy: long — a dispatching match over the messages of peers.
    pub(super) fn on_peer<T: Tables>(
        &mut self,
        now: Now,
        header: PeerHeader,
        message: PeerMessage,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if !self.notice_incarnation(header.from, header.incarnation) {
            return Ok(());
        }
        if let PeerMessage::NewerEpoch { epoch } = message {
            self.notice_epoch(epoch, output);
            return Ok(());
        }
        if header.epoch != self.configuration.epoch && !planted::is(Bug::EpochUnchecked) {
            self.counters.stale_epochs += 1;
            if header.epoch > self.configuration.epoch {
                self.notice_epoch(header.epoch, output);
            } else {
                let message = PeerMessage::NewerEpoch {
                    epoch: self.configuration.epoch,
                };
                output.sends.push(Send {
                    to: header.from,
                    after: Position(0),
                    message,
                });
            }
            return Ok(());
        }
        let from = header.from;
        if self.stands_still() && message.is_of_chain() {
            return Ok(());
        }
        match message {
            PeerMessage::Prepare(prepare) => self.on_prepare(now, prepare, tables, output),
            PeerMessage::Decision {
                operation,
                to,
                decision,
                settled,
            } => {
                let told = Told {
                    decision,
                    settled,
                    in_order: true,
                };
                self.on_decision(now, (operation, to), told, tables, output)
            }
            PeerMessage::Settled { operation, to } => {
                self.on_settled(now, operation, to, tables, output)
            }
            PeerMessage::Durable { operations } => {
                self.on_member_durable(now, operations, tables, output)
            }
            PeerMessage::Confirm { operations } => {
                self.on_confirm(now, (from, operations), tables, output)
            }
            PeerMessage::Finished(below) => self.on_finished(now, (from, below), tables, output),
            PeerMessage::Recover { attempt } => {
                self.on_recover(now, (from, attempt), tables, output)
            }
            PeerMessage::Adopt {
                attempt,
                prepare,
                decision,
            } => self.on_adopt(now, (from, attempt), prepare, decision, (tables, output)),
            PeerMessage::RecoverEnd {
                attempt,
                count,
                finished_below,
            } => {
                self.on_finished(now, (from, finished_below), tables, output)?;
                self.on_recover_end(now, (from, attempt), count, (tables, output))
            }
            PeerMessage::AskSealed { attempt } => {
                self.on_ask_sealed(from, attempt, output);
                Ok(())
            }
            PeerMessage::Witness {
                attempt,
                prepare,
                decision,
            } => {
                self.on_witness(now, (from, attempt), prepare, decision, output);
                Ok(())
            }
            PeerMessage::WitnessEnd {
                attempt,
                count,
                forgot_nothing,
            } => {
                let end = (count, forgot_nothing);
                self.on_witness_end(now, (from, attempt), end, output);
                Ok(())
            }
            PeerMessage::LeaseRequest { sent_us } => {
                self.vouched_us.insert(from.server, now.monotonic_us);
                let message = PeerMessage::LeaseGrant {
                    sent_us,
                    admits: self.admits,
                };
                output.sends.push(Send {
                    to: from,
                    after: Position(0),
                    message,
                });
                Ok(())
            }
            PeerMessage::LeaseGrant { sent_us, admits } => {
                self.on_lease_grant(from.server, sent_us, admits);
                Ok(())
            }
            PeerMessage::NewerEpoch { .. } => unreachable!("handled above"),
            message => self.on_fill_message(now, from, message, (tables, output)),
        }
    }

    fn on_lease_grant(&mut self, from: ServerId, sent_us: u64, admits: bool) {
        if admits {
            self.full_servers.remove(&from);
        } else {
            self.full_servers.insert(from);
        }
        if self.leases.asked_us.contains(&sent_us) {
            let until = self.leases.vouched_until_us.entry(from).or_default();
            *until = (*until).max(sent_us + self.limits.lease_us);
            self.count_vouching();
        }
    }

    /// A connection to a peer is new: what it may have missed is sent again.
    pub(super) fn on_peer_connected(&mut self, now: Now, core: CoreId, output: &mut Output) {
        if self.stands_still() {
            return self.ask_sealed_of(core, output);
        }
        let configuration = Arc::clone(&self.configuration);
        self.hurry(now, |member| {
            configuration.takes_part(core, &member.prepare.chain)
        });
        self.ask_again(core, output);
        self.ask_cover_again(now, core, output);
    }

    pub(super) fn on_tick<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if !self.stands_still() {
            self.send_confirmations(now, tables, output)?;
            self.retry(now, tables, output)?;
            if self.fills.due_us.is_some_and(|due| due <= now.monotonic_us) {
                self.ask_covers(now, output);
            }
            self.make_entries(now, tables)?;
        }
        if now.monotonic_us < self.leases.next_heartbeat_us {
            return Ok(());
        }
        self.leases.next_heartbeat_us = now.monotonic_us + self.limits.heartbeat_us;
        self.heartbeat(now, output);
        self.recover_again(output);
        self.ask_sealed(output);
        self.refuse_old_requests(now, output);
        self.drop_reads(now, None, tables, output)?;
        self.end_long_waits(now, tables, output)
    }

    fn heartbeat(&mut self, now: Now, output: &mut Output) {
        output.asks.push(CoordinatorRequest::Heartbeat {
            core: self.identity.core,
            incarnation: self.identity.incarnation,
            epoch: self.configuration.epoch,
            sent_us: now.monotonic_us,
            filled: self.filled(),
            fills: self.fill_reports(),
            seal: self.seal_report(now),
        });
        if self.leases.asked_us.len() == QUESTIONS_MAX {
            self.leases.asked_us.pop_front();
        }
        self.leases.asked_us.push_back(now.monotonic_us);
        let lease = PeerMessage::LeaseRequest {
            sent_us: now.monotonic_us,
        };
        // Said again and again, so that a lost message does not make a peer keep operations, and
        // the log behind them, until the next one begins.
        let finished = PeerMessage::Finished(self.own_finished());
        for to in self.peers() {
            for message in [lease.clone(), finished.clone()] {
                let after = Position(0);
                output.sends.push(Send { to, after, message });
            }
        }
        // An answer that was lost must not keep the core from asking again.
        match self.leases.fetch_since_us {
            Some(0) => self.leases.fetch_since_us = Some(now.monotonic_us),
            Some(_) => self.leases.fetch_since_us = None,
            None => {}
        }
    }

    /// The other cores that hold partitions of this core's tables.
    pub(super) fn peers(&self) -> BTreeSet<CoreId> {
        let mine: BTreeSet<_> = self.partitions.keys().map(|id| id.table).collect();
        let tables = mine.iter().filter_map(|id| self.tables.get(id));
        let places = tables.flat_map(|table| table.placement.iter().flatten());
        let cores = places.map(|place| place.core);
        cores.filter(|core| *core != self.identity.core).collect()
    }

    /// A wait beyond its bound ends in a vote of `Conflict` (SAFETY R8).
    fn end_long_waits<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        if self.stands_still() {
            return Ok(());
        }
        let deadline = now.monotonic_us.saturating_sub(self.limits.wait_us_max);
        let late = |member: &super::Member| {
            member.prepared_at.is_none() && member.since_us < deadline && member.may_refuse()
        };
        let members = self.members.iter().filter(|(_, member)| late(member));
        let late_keys: Vec<_> = members.map(|(key, _)| *key).collect();
        for key in late_keys {
            // An earlier one of the list may have let it in.
            if self.members.get(&key).is_some_and(late) {
                self.give_up(now, key, tables, output)?;
            }
        }
        Ok(())
    }

    /// When the machine wants to be stepped at the latest.
    pub(super) fn deadline_us(&self) -> u64 {
        if self.stands_still() {
            return self.leases.next_heartbeat_us;
        }
        let retry = self.retries.first().map_or(u64::MAX, |(due, _)| *due);
        let confirm = self.confirm_due_us.unwrap_or(u64::MAX);
        let fills = self.fills.due_us.unwrap_or(u64::MAX);
        let entries = self.entries_due_us.unwrap_or(u64::MAX);
        self.leases
            .next_heartbeat_us
            .min(retry)
            .min(confirm)
            .min(fills)
            .min(entries)
    }

    /// For the operator's log.
    pub(super) fn note(&self, text: &str, output: &mut Output) {
        output.notes.push(format!("{}: {text}", self.identity.core));
    }
}
