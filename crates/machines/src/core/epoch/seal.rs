//! The end of an epoch: members are replaced, those that remain seal it and resolve what it left
//! undecided (R4, R5, R16; `docs/reference/protocol-chain.md`, "The end of an epoch").
//!
//! While the configuration seals, chains stand still: nothing is voted on, decided or settled. Each
//! core makes durable that it has sealed, and with that all it had. Then it sends every other core
//! what its log holds of the operations that both take part in. So all members of an operation
//! receive the same of it and come to the same outcome on their own. Nothing of that may be seen
//! before an epoch without sealing begins: then all remaining cores have it durably.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{Durability, prove};
use protocol::configuration::Server;
use protocol::identity::{ClockReading, CoreId, Epoch, OperationId, Position, ServerId};
use protocol::message::{PeerMessage, Refusal, SealReport, SealStage};
use protocol::operation::{Decision, Prepare};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::epoch::resolution::{MemberReport, Resolution, outcome};
use crate::core::member::MemberKey;
use crate::core::restart::inquiry::Inquiry;
use crate::core::restart::recovery::with_known_votes;
use crate::core::step::Step;

/// An epoch that is being ended.
#[derive(Debug)]
struct Seal {
    inquiry: Inquiry,
    /// The record of that.
    sealed_at: Position,
    /// Whether this core knows all that it ever voted.
    forgot_nothing: bool,
    /// Questions that came before that record was durable; of each core the last.
    early: BTreeMap<CoreId, u64>,
    /// What other logs hold, by operation, by place in its chain.
    witnesses: BTreeMap<OperationId, BTreeMap<usize, Witness>>,
    /// Other cores that may have forgotten something.
    forgetful: BTreeSet<CoreId>,
    progress: Progress,
}

/// What one log holds of an operation.
#[derive(Debug)]
struct Witness {
    prepare: Arc<Prepare>,
    decision: Option<(Decision, Option<Epoch>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Hearing,
    /// Everything is decided, durably once the log is durable up to here.
    Resolving(Position),
    Resolved,
    Stuck,
}

/// The seals that the log has after the last epoch that served.
#[derive(Clone, Copy, Debug)]
struct SealedOnDisk {
    first_at: Position,
    /// Of the last one.
    epoch: Epoch,
    forgot_nothing: bool,
}

/// The progress of this core with the end of earlier epochs.
#[derive(Debug, Default)]
pub(crate) struct SealProgress {
    /// Set while these epochs are being ended: chains stand still.
    current: Option<Seal>,
    /// Set from the first seal of the log until an epoch serves after it.
    on_disk: Option<SealedOnDisk>,
    /// Peers that have sent a message in the present epoch.
    arrived: BTreeSet<CoreId>,
}

impl SealProgress {
    /// Forgets which peers have sent messages, because the epoch has changed.
    pub fn forget_arrivals(&mut self) {
        self.arrived.clear();
    }

    /// Notes a peer's message in this epoch, and returns whether it is its first.
    pub fn note_arrival(&mut self, core: CoreId) -> bool {
        self.arrived.insert(core)
    }

    /// Returns the log's first seal after the last epoch that served.
    pub fn first_at(&self) -> Option<Position> {
        self.on_disk.map(|sealed| sealed.first_at)
    }

    /// Returns the epoch of the log's last seal after the last epoch that served: decisions in the
    /// log after it come from the resolution of that epoch's end.
    pub fn sealed_epoch(&self) -> Option<Epoch> {
        self.on_disk.map(|sealed| sealed.epoch)
    }

    /// Notes a seal in the log. Decisions from the first seal on are settled when an epoch serves,
    /// so that all of them are kept until then.
    pub fn note(&mut self, at: Position, epoch: Epoch, forgot_nothing: bool) {
        self.on_disk = Some(SealedOnDisk {
            first_at: self.first_at().unwrap_or(at),
            epoch,
            forgot_nothing,
        });
    }
}

impl CoreMachine {
    /// Returns whether chains stand still.
    pub(crate) fn stands_still(&self) -> bool {
        self.sealing.current.is_some()
    }

    /// Returns how far this core is with the end of the epochs before, if they are being ended.
    pub(crate) fn seal_report(&self, now: ClockReading) -> Option<SealReport> {
        let stage = match self.sealing.current.as_ref()?.progress {
            Progress::Hearing | Progress::Resolving(_) => SealStage::Sealing,
            Progress::Resolved => SealStage::Resolved,
            Progress::Stuck => SealStage::Stuck,
        };
        let configuration = self.view.configuration();
        let last = self
            .leases
            .last_vouched_us(|server| configuration.is_removed(server));
        Some(SealReport {
            stage,
            vouched_ago_us: last.map(|at_us| now.monotonic_us.saturating_sub(at_us)),
        })
    }

    /// Seals the epochs before, which the configuration ends: from here on this core takes part in
    /// none of their operations.
    pub(crate) fn seal<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        let Some(sealing) = self.view.configuration().sealing.clone() else {
            return Ok(());
        };
        let whole_on_disk = self
            .sealing
            .on_disk
            .is_some_and(|sealed| sealed.forgot_nothing && sealed.epoch >= sealing.since);
        let forgot_nothing = self.recovering.is_none() || whole_on_disk || self.log.is_complete();
        let peers = self.peers().into_iter();
        let remaining = peers.filter(|core| !self.view.configuration().is_removed(core.server));
        let question = |attempt| PeerMessage::AskSealed { attempt };
        let inquiry = Inquiry::new(question, remaining);
        let record = Record::Sealed {
            epoch: self.epoch(),
            forgot_nothing,
        };
        let sealed_at = self.append(&record, Durability::Sync, step.output);
        self.sealing.note(sealed_at, self.epoch(), forgot_nothing);
        self.sealing.current = Some(Seal {
            inquiry,
            sealed_at,
            forgot_nothing,
            early: BTreeMap::new(),
            witnesses: BTreeMap::new(),
            forgetful: BTreeSet::new(),
            progress: Progress::Hearing,
        });
        self.operations.stop_retries();
        self.confirmations.stop();
        self.drop_unvoted(step)?;
        self.ask_sealed(step.output);
        self.seal_goes_on(step.now, step.output);
        Ok(())
    }

    /// An operation that waits for keys has no vote that a peer could have received.
    fn drop_unvoted<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        let members = self.members.iter();
        let unvoted = members.filter(|(_, member)| member.prepared_at().is_none());
        let unvoted: Vec<MemberKey> = unvoted.map(|(key, _)| *key).collect();
        for key in unvoted {
            self.release(key, step)?;
            let member = self.members.remove(&key).expect("it was just listed");
            if member.place == 0 {
                self.operations.end(key.0);
                self.requests.unfold(key.0);
                for request in &member.prepare.requests {
                    self.refuse_running(request.request, &Refusal::WrongPartition, step.output);
                }
            }
        }
        Ok(())
    }

    /// Asks all peers that have not reported everything.
    pub(crate) fn ask_sealed(&mut self, output: &mut CoreOutput) {
        if let Some(seal) = &mut self.sealing.current {
            seal.inquiry.ask_all(output);
        }
    }

    /// Asks one peer, which has just been connected.
    pub(crate) fn ask_sealed_of(&mut self, core: CoreId, output: &mut CoreOutput) {
        if let Some(seal) = &mut self.sealing.current {
            seal.inquiry.ask(core, output);
        }
    }

    /// Handles a peer's question about the contents of this log. The answer is sent once they are
    /// durable (R16).
    pub(crate) fn on_ask_sealed(&mut self, from: CoreId, attempt: u64, output: &mut CoreOutput) {
        let Some(seal) = &mut self.sealing.current else {
            return;
        };
        if self.log.durable() < seal.sealed_at && !planted::is(Bug::SealReportedEarly) {
            seal.early.insert(from, attempt);
        } else {
            self.testify(from, attempt, output);
        }
    }

    fn testify(&self, to: CoreId, attempt: u64, output: &mut CoreOutput) {
        let forgot_nothing = self
            .sealing
            .current
            .as_ref()
            .is_some_and(|seal| seal.forgot_nothing);
        let mut count = 0;
        let mut send = |message| {
            let after = Position(0);
            output.sends.push(PeerSend { to, after, message });
        };
        for (key, member) in self.members.iter() {
            if !self
                .view
                .configuration()
                .takes_part(to, &member.prepare.chain)
            {
                continue;
            }
            count += 1;
            send(PeerMessage::Witness {
                attempt,
                prepare: Arc::clone(&member.prepare),
                decision: self.known_decision(key),
            });
        }
        send(PeerMessage::WitnessEnd {
            attempt,
            count,
            forgot_nothing,
        });
    }

    /// Returns a decision that this core has or received, and the epoch of the resolution it comes
    /// from.
    fn known_decision(&self, key: &MemberKey) -> Option<(Decision, Option<Epoch>)> {
        let member = self.members.get(key)?;
        if let Some(decision) = member.decision() {
            return Some((decision.clone(), member.resolved_in()));
        }
        let known = self.recovering.as_ref()?.remembered(key)?;
        Some((known.decision.clone(), None))
    }

    pub(crate) fn on_witness(
        &mut self,
        now: ClockReading,
        (from, attempt): (CoreId, u64),
        prepare: Arc<Prepare>,
        decision: Option<(Decision, Option<Epoch>)>,
        output: &mut CoreOutput,
    ) {
        let Some(seal) = &mut self.sealing.current else {
            return;
        };
        let (operation, votes) = (prepare.operation, prepare.votes.len());
        let Some(place) = votes.checked_sub(1).filter(|it| *it < prepare.chain.len()) else {
            return;
        };
        if !seal.inquiry.note_item(from, attempt, (operation, votes)) {
            return;
        }
        let places = seal.witnesses.entry(operation).or_default();
        places.insert(place, Witness { prepare, decision });
        self.seal_goes_on(now, output);
    }

    pub(crate) fn on_witness_end(
        &mut self,
        now: ClockReading,
        from: CoreId,
        attempt: u64,
        (count, forgot_nothing): (u64, bool),
        output: &mut CoreOutput,
    ) {
        let Some(seal) = &mut self.sealing.current else {
            return;
        };
        if seal.inquiry.note_end(from, attempt, count) {
            if !forgot_nothing {
                seal.forgetful.insert(from);
            }
            self.seal_goes_on(now, output);
        }
    }

    /// Continues the seal, which may have waited for the disk or for the last of the witnesses.
    pub(crate) fn seal_goes_on(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let Some(seal) = &mut self.sealing.current else {
            return;
        };
        if self.log.durable() < seal.sealed_at {
            return;
        }
        for (core, attempt) in core::mem::take(&mut seal.early) {
            self.testify(core, attempt, output);
        }
        let seal = self.sealing.current.as_ref().expect("checked above");
        match seal.progress {
            Progress::Hearing if seal.inquiry.is_complete() => self.resolve(now, output),
            Progress::Resolving(position)
                if self.log.durable() >= position || planted::is(Bug::ResolvedReportedEarly) =>
            {
                self.advance(now, Progress::Resolved);
            }
            _ => {}
        }
    }

    /// Reports to the coordinator at once.
    fn advance(&mut self, now: ClockReading, progress: Progress) {
        let seal = self.sealing.current.as_mut().expect("callers have it");
        seal.progress = progress;
        self.leases.hurry(now);
    }

    /// All have reported what they know: decides every operation that this core takes part in.
    fn resolve(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let seal = self.sealing.current.as_ref().expect("callers have it");
        let known = self.members.keys().map(|key| key.0);
        let operations: BTreeSet<OperationId> =
            known.chain(seal.witnesses.keys().copied()).collect();
        let outcomes: Vec<_> = operations
            .iter()
            .filter_map(|operation| self.resolution(*operation))
            .collect();
        let stuck = outcomes.iter().filter(|(_, it)| *it == Resolution::Stuck);
        let stuck = stuck.count();
        if stuck > 0 || self.may_lack_unknown() {
            let text = format!(
                "cannot determine the outcome of {stuck} operations: more servers are lost or \
                 have forgotten than is tolerated; start one of those that are down"
            );
            self.note(&text, output);
            return self.advance(now, Progress::Stuck);
        }
        let mut last = self
            .sealing
            .current
            .as_ref()
            .expect("callers have it")
            .sealed_at;
        for (prepare, outcome) in outcomes {
            if let Resolution::Decided(decision) = outcome
                && let Some(position) = self.take_resolution(now, &prepare, &decision, output)
            {
                last = last.max(position);
            }
        }
        self.advance(now, Progress::Resolving(last));
        self.seal_goes_on(now, output);
    }

    /// Returns an operation's outcome by what all logs hold, with its prepare of the most votes;
    /// none if its table is gone.
    fn resolution(&self, operation: OperationId) -> Option<(Arc<Prepare>, Resolution)> {
        let seal = self.sealing.current.as_ref()?;
        let witnesses = seal.witnesses.get(&operation);
        let own = self.own_members(operation);
        let witnessed = witnesses.into_iter().flat_map(BTreeMap::values);
        let prepares = own.map(|key| &self.members[&key].prepare);
        let prepares = prepares.chain(witnessed.map(|witness| &witness.prepare));
        let prepare = prepares.max_by_key(|prepare| prepare.votes.len())?;
        let table = self.view.table(prepare.table)?;
        let mut parts = Vec::with_capacity(prepare.chain.len());
        for (place, partition) in prepare.chain.iter().enumerate() {
            let core = self.view.place(*partition)?.core;
            let own_key = (operation, *partition);
            let is_own = core == self.identity.core;
            let witness = witnesses.and_then(|places| places.get(&place));
            parts.push(match witness {
                _ if self.view.configuration().is_removed(core.server) => MemberReport::Gone,
                _ if is_own => MemberReport::Present {
                    certain: seal.forgot_nothing,
                    votes: self.members.get(&own_key).map(|it| &it.prepare.votes[..]),
                    decision: self.known_decision(&own_key),
                },
                witness => MemberReport::Present {
                    certain: !seal.forgetful.contains(&core),
                    votes: witness.map(|witness| &witness.prepare.votes[..]),
                    decision: witness.and_then(|witness| witness.decision.clone()),
                },
            });
        }
        let outcome = outcome(table, &prepare.chain, &parts);
        Some((Arc::clone(prepare), outcome))
    }

    fn own_members(&self, operation: OperationId) -> impl Iterator<Item = MemberKey> {
        let first = (operation, protocol::identity::PartitionId::default());
        let members = self.members.range(first..);
        let own = members.take_while(move |(key, _)| key.0 == operation);
        own.map(|(key, _)| *key)
    }

    /// Returns whether there may be an operation that was seen, and that no remaining core knows:
    /// with some servers removed and others that may have forgotten, more than is tolerated.
    fn may_lack_unknown(&self) -> bool {
        let seal = self.sealing.current.as_ref().expect("callers have it");
        let own = (!seal.forgot_nothing).then_some(self.identity.core);
        let forgetful = seal.forgetful.iter().copied().chain(own);
        let forgetful: BTreeSet<ServerId> = forgetful.map(|core| core.server).collect();
        if forgetful.is_empty() {
            return false;
        }
        let is_gone = |server: ServerId| self.view.configuration().is_removed(server);
        let servers = self.view.configuration().servers.iter();
        let knowing: Vec<placement::PartitionHost> = servers
            .filter(|server| !is_gone(server.id) && !forgetful.contains(&server.id))
            .map(Server::bare)
            .collect();
        let held: BTreeSet<_> = self.partitions.keys().map(|id| id.table).collect();
        let mut tables = held
            .iter()
            .filter_map(|id| self.view.configuration().table(*id));
        tables.any(|table| {
            let places = table.placement.iter().flatten();
            let servers: BTreeSet<ServerId> = places.map(|place| place.core.server).collect();
            let gone = servers.iter().filter(|server| is_gone(**server)).count();
            let forgetful = servers.intersection(&forgetful).count();
            let too_many = gone + forgetful > usize::from(table.schema.failures_tolerated);
            // A table whose copies had to be put together tolerates less than it states.
            let is_alone = || {
                let proof = prove(&table.layout, &table.bare_placement(), &knowing);
                proof.copies_guaranteed == 0
            };
            gone > 0 && (too_many || is_alone())
        })
    }

    /// Logs an outcome at this core's members of the operation; returns the last record.
    fn take_resolution(
        &mut self,
        now: ClockReading,
        prepare: &Arc<Prepare>,
        decision: &Decision,
        output: &mut CoreOutput,
    ) -> Option<Position> {
        let resolved_in = Some(self.epoch());
        let table = self.view.table(prepare.table).map(Arc::clone);
        let known = with_known_votes(Arc::clone(prepare), Some(decision), table.as_deref());
        let mut last = None;
        for (place, partition) in prepare.chain.iter().enumerate() {
            let key = (prepare.operation, *partition);
            if !self.partitions.contains_key(partition) {
                continue;
            }
            if !self.members.contains_key(&key) {
                // A finished operation was settled here before it was forgotten, and a core that
                // does not know an abort lacks nothing of it.
                let finished = key.0.order() < self.finished_below(key.0.head);
                if finished || matches!(decision, Decision::Abort(_)) {
                    continue;
                }
                self.adopt(now, key, &known, place, output);
            }
            let member = &self.members[&key];
            if member.is_settled() || member.decision() == Some(decision) {
                continue;
            }
            let record = Record::Decided {
                partition: *partition,
                operation: key.0,
                decision: decision.clone(),
                settles: false,
            };
            let position = self.append(&record, Durability::Sync, output);
            let member = self.members.get_mut(&key).expect("it was there");
            member.decide(decision.clone(), position, resolved_in);
            last = Some(position);
        }
        last
    }

    /// Ends an old seal. An epoch serves, or has served while this core was offline, after the one
    /// that it has sealed: all remaining cores have resolved everything, durably. It is settled
    /// here, and no core will ask for it any more.
    pub(crate) fn end_old_seal<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let sealing = self.view.configuration().sealing.as_ref();
        let goes_on = |sealed: &SealedOnDisk| sealing.is_some_and(|it| it.since <= sealed.epoch);
        if self.sealing.on_disk.as_ref().is_none_or(goes_on) {
            return Ok(());
        }
        self.settle_resolved(step)?;
        let record = Record::Resolved {
            epoch: self.epoch(),
        };
        self.append(&record, Durability::Replicated, step.output);
        Ok(())
    }

    /// Chains go on, with what has queued meanwhile.
    pub(crate) fn unseal<T: Tables>(&mut self, step: &mut Step<'_, T>) -> Result<(), TablesError> {
        self.sealing.current = None;
        let waiting = self.partitions.queued_pks();
        for (id, pk) in waiting {
            self.start_queue(id, &pk, step)?;
        }
        Ok(())
    }

    /// Settles all that is decided, in the order of versions, and forgets it.
    pub(crate) fn settle_resolved<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let members = self
            .members
            .iter()
            .filter(|(_, member)| !member.is_settled());
        let mut open: Vec<_> = members
            .map(|(key, member)| (member.newest_version(), *key))
            .collect();
        open.sort_unstable();
        for (_, key) in open {
            let member = &self.members[&key];
            assert!(
                member.decision().is_some(),
                "an epoch serves once everything before is decided durably: {key:?}"
            );
            if !member.is_settled() {
                self.settle(key, step)?;
            }
        }
        let keys: Vec<MemberKey> = self.members.keys().copied().collect();
        for key in keys {
            self.members.remove(&key);
        }
        self.operations.end_all();
        self.awaited.clear();
        self.confirmations.forget_gathered();
        self.recovering = None;
        self.sealing.on_disk = None;
        Ok(())
    }
}
