//! The end of an epoch: members are replaced, those that remain seal it and resolve what it left
//! undecided (SAFETY R4, R5, R16; `docs/protocol.md`, "The end of an epoch").
//!
//! While the configuration says so, chains stand still: nothing is voted on, decided or settled.
//! Each core makes durable that it has sealed, and with that all it had; then it tells every other
//! core what its log holds of the operations that both take part in. So all members of an operation
//! hear the same of it and come to the same outcome on their own. Nothing of that may be seen
//! before an epoch without sealing begins: then all who remain have it durably.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{Durability, prove};

use super::inquiry::Inquiry;
use super::recovery::with_known_votes;
use super::resolution::{Outcome, Part, outcome};
use super::settle::newest_version;
use super::{CoreMachine, MemberKey, Output, Send};
use crate::configuration::Server;
use crate::identity::{CoreId, Epoch, Now, OperationId, Position, ServerId};
use crate::message::{PeerMessage, Refusal, SealReport, SealStage};
use crate::operation::{Decision, Prepare};
use crate::planted::{self, Bug};
use crate::record::Record;

/// An epoch that is being ended.
#[derive(Debug)]
pub(super) struct Seal {
    inquiry: Inquiry,
    /// The record that says so.
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
pub(super) struct SealedOnDisk {
    pub first_at: Position,
    /// Of the last one.
    pub epoch: Epoch,
    pub forgot_nothing: bool,
}

impl CoreMachine {
    /// Whether chains stand still.
    pub(super) fn stands_still(&self) -> bool {
        self.seal.is_some()
    }

    /// How far this core is with the end of the epochs before, if they are being ended.
    pub(super) fn seal_report(&self, now: Now) -> Option<SealReport> {
        let stage = match self.seal.as_ref()?.progress {
            Progress::Hearing | Progress::Resolving(_) => SealStage::Sealing,
            Progress::Resolved => SealStage::Resolved,
            Progress::Stuck => SealStage::Stuck,
        };
        let vouched = self.vouched_us.iter();
        let removed = vouched.filter(|(server, _)| self.configuration.is_removed(**server));
        let last = removed.map(|(_, at_us)| *at_us).max();
        Some(SealReport {
            stage,
            vouched_ago_us: last.map(|at_us| now.monotonic_us.saturating_sub(at_us)),
        })
    }

    /// The configuration ends the epochs before: from here on nothing of them is taken part in.
    pub(super) fn seal<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let Some(sealing) = self.configuration.sealing.clone() else {
            return Ok(());
        };
        let whole_on_disk = self
            .sealed_on_disk
            .is_some_and(|sealed| sealed.forgot_nothing && sealed.epoch >= sealing.since);
        let forgot_nothing = self.recovering.is_none() || whole_on_disk;
        let peers = self.peers().into_iter();
        let remaining = peers.filter(|core| !self.configuration.is_removed(core.server));
        let question = |attempt| PeerMessage::AskSealed { attempt };
        let inquiry = Inquiry::new(question, remaining);
        let record = Record::Sealed {
            epoch: self.epoch(),
            forgot_nothing,
        };
        let sealed_at = self.log(&record, Durability::Sync, output);
        self.note_seal(sealed_at, self.epoch(), forgot_nothing);
        self.seal = Some(Seal {
            inquiry,
            sealed_at,
            forgot_nothing,
            early: BTreeMap::new(),
            witnesses: BTreeMap::new(),
            forgetful: BTreeSet::new(),
            progress: Progress::Hearing,
        });
        self.retries.clear();
        self.confirm_due_us = None;
        self.drop_unvoted(now, tables, output)?;
        self.ask_sealed(output);
        self.seal_goes_on(now, output);
        Ok(())
    }

    /// The log has a seal. What it decides from the first one on is settled when an epoch serves, so
    /// that all of them are kept until then.
    pub(super) fn note_seal(&mut self, at: Position, epoch: Epoch, forgot_nothing: bool) {
        let first = self.sealed_on_disk.map_or(at, |sealed| sealed.first_at);
        self.sealed_on_disk = Some(SealedOnDisk {
            first_at: first,
            epoch,
            forgot_nothing,
        });
    }

    /// What waits for keys has no vote that anybody could have heard of.
    fn drop_unvoted<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let members = self.members.iter();
        let unvoted = members.filter(|(_, member)| member.prepared_at.is_none());
        let unvoted: Vec<MemberKey> = unvoted.map(|(key, _)| *key).collect();
        for key in unvoted {
            self.release(now, key, tables, output)?;
            let member = self.members.remove(&key).expect("it was just listed");
            if member.place == 0 {
                self.unfinished.remove(&key.0.order());
                self.folded.remove(&key.0);
                for request in &member.prepare.requests {
                    self.refuse_running(request.request, &Refusal::WrongPartition, output);
                }
            }
        }
        Ok(())
    }

    /// Asks all that have not told everything.
    pub(super) fn ask_sealed(&mut self, output: &mut Output) {
        if let Some(seal) = &mut self.seal {
            seal.inquiry.ask_all(output);
        }
    }

    /// Asks one peer, which has just been connected.
    pub(super) fn ask_sealed_of(&mut self, core: CoreId, output: &mut Output) {
        if let Some(seal) = &mut self.seal {
            seal.inquiry.ask(core, output);
        }
    }

    /// Somebody asks what this log holds: it is told once that is durable (SAFETY R16).
    pub(super) fn on_ask_sealed(&mut self, from: CoreId, attempt: u64, output: &mut Output) {
        let Some(seal) = &mut self.seal else {
            return;
        };
        if self.durable < seal.sealed_at && !planted::is(Bug::SealToldEarly) {
            seal.early.insert(from, attempt);
        } else {
            self.testify(from, attempt, output);
        }
    }

    fn testify(&self, to: CoreId, attempt: u64, output: &mut Output) {
        let forgot_nothing = self.seal.as_ref().is_some_and(|seal| seal.forgot_nothing);
        let mut count = 0;
        let mut send = |message| {
            let after = Position(0);
            output.sends.push(Send { to, after, message });
        };
        for (key, member) in self.members.iter() {
            if !self.configuration.takes_part(to, &member.prepare.chain) {
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

    /// A decision that this core has or was told, and the epoch of the resolution it comes from.
    fn known_decision(&self, key: &MemberKey) -> Option<(Decision, Option<Epoch>)> {
        let member = self.members.get(key)?;
        if let Some(decision) = &member.decision {
            return Some((decision.clone(), member.resolved_in));
        }
        let told = self.recovering.as_ref()?.remembered(key)?;
        Some((told.decision.clone(), None))
    }

    pub(super) fn on_witness(
        &mut self,
        now: Now,
        (from, attempt): (CoreId, u64),
        prepare: Arc<Prepare>,
        decision: Option<(Decision, Option<Epoch>)>,
        output: &mut Output,
    ) {
        let Some(seal) = &mut self.seal else {
            return;
        };
        let (operation, votes) = (prepare.operation, prepare.votes.len());
        let Some(place) = votes.checked_sub(1).filter(|it| *it < prepare.chain.len()) else {
            return;
        };
        if !seal.inquiry.hear(from, attempt, (operation, votes)) {
            return;
        }
        let places = seal.witnesses.entry(operation).or_default();
        places.insert(place, Witness { prepare, decision });
        self.seal_goes_on(now, output);
    }

    pub(super) fn on_witness_end(
        &mut self,
        now: Now,
        (from, attempt): (CoreId, u64),
        (count, forgot_nothing): (u64, bool),
        output: &mut Output,
    ) {
        let Some(seal) = &mut self.seal else {
            return;
        };
        if seal.inquiry.hear_end(from, attempt, count) {
            if !forgot_nothing {
                seal.forgetful.insert(from);
            }
            self.seal_goes_on(now, output);
        }
    }

    /// Something that was waited for may have come: the disk, or the last of the witnesses.
    pub(super) fn seal_goes_on(&mut self, now: Now, output: &mut Output) {
        let Some(seal) = &mut self.seal else {
            return;
        };
        if self.durable < seal.sealed_at {
            return;
        }
        for (core, attempt) in core::mem::take(&mut seal.early) {
            self.testify(core, attempt, output);
        }
        let seal = self.seal.as_ref().expect("checked above");
        match seal.progress {
            Progress::Hearing if seal.inquiry.is_complete() => self.resolve(now, output),
            Progress::Resolving(position)
                if self.durable >= position || planted::is(Bug::ResolvedToldEarly) =>
            {
                self.advance(now, Progress::Resolved);
            }
            _ => {}
        }
    }

    /// Tells the coordinator at once.
    fn advance(&mut self, now: Now, progress: Progress) {
        let seal = self.seal.as_mut().expect("callers have it");
        seal.progress = progress;
        self.leases.hurry(now);
    }

    /// All have told what they know: decides, for every operation that this core takes part in.
    fn resolve(&mut self, now: Now, output: &mut Output) {
        let seal = self.seal.as_ref().expect("callers have it");
        let known = self.members.keys().map(|key| key.0);
        let operations: BTreeSet<OperationId> =
            known.chain(seal.witnesses.keys().copied()).collect();
        let outcomes: Vec<_> = operations
            .iter()
            .filter_map(|operation| self.resolution(*operation))
            .collect();
        let stuck = outcomes.iter().filter(|(_, it)| *it == Outcome::Stuck);
        let stuck = stuck.count();
        if stuck > 0 || self.may_lack_unknown() {
            let text = format!(
                "cannot tell what became of {stuck} operations: more servers are lost or have \
                 forgotten than is tolerated; start one of those that are down"
            );
            self.note(&text, output);
            return self.advance(now, Progress::Stuck);
        }
        let mut last = self.seal.as_ref().expect("callers have it").sealed_at;
        for (prepare, outcome) in outcomes {
            if let Outcome::Decided(decision) = outcome
                && let Some(position) = self.take_resolution(now, &prepare, &decision, output)
            {
                last = last.max(position);
            }
        }
        self.advance(now, Progress::Resolving(last));
        self.seal_goes_on(now, output);
    }

    /// An operation's outcome by what all logs hold, with its prepare of the most votes; none if
    /// its table is gone.
    fn resolution(&self, operation: OperationId) -> Option<(Arc<Prepare>, Outcome)> {
        let seal = self.seal.as_ref()?;
        let witnesses = seal.witnesses.get(&operation);
        let own = self.own_members(operation);
        let heard = witnesses.into_iter().flat_map(BTreeMap::values);
        let prepares = own.map(|key| &self.members[&key].prepare);
        let prepares = prepares.chain(heard.map(|witness| &witness.prepare));
        let prepare = prepares.max_by_key(|prepare| prepare.votes.len())?;
        let table = self.tables.get(&prepare.table)?;
        let mut parts = Vec::with_capacity(prepare.chain.len());
        for (place, partition) in prepare.chain.iter().enumerate() {
            let core = self.configuration.place(*partition)?.core;
            let own_key = (operation, *partition);
            let is_own = core == self.identity.core;
            let witness = witnesses.and_then(|places| places.get(&place));
            parts.push(match witness {
                _ if self.configuration.is_removed(core.server) => Part::Gone,
                _ if is_own => Part::Present {
                    certain: seal.forgot_nothing,
                    votes: self.members.get(&own_key).map(|it| &it.prepare.votes[..]),
                    decision: self.known_decision(&own_key),
                },
                witness => Part::Present {
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
        let first = (operation, crate::identity::PartitionId::default());
        let members = self.members.range(first..);
        let own = members.take_while(move |(key, _)| key.0 == operation);
        own.map(|(key, _)| *key)
    }

    /// Whether there may be an operation that was seen, and that nobody who remains has heard of: with
    /// some servers removed and others that may have forgotten, more than is tolerated.
    fn may_lack_unknown(&self) -> bool {
        let seal = self.seal.as_ref().expect("callers have it");
        let own = (!seal.forgot_nothing).then_some(self.identity.core);
        let forgetful = seal.forgetful.iter().copied().chain(own);
        let forgetful: BTreeSet<ServerId> = forgetful.map(|core| core.server).collect();
        if forgetful.is_empty() {
            return false;
        }
        let is_gone = |server: ServerId| self.configuration.is_removed(server);
        let servers = self.configuration.servers.iter();
        let knowing: Vec<placement::Server> = servers
            .filter(|server| !is_gone(server.id) && !forgetful.contains(&server.id))
            .map(Server::bare)
            .collect();
        let held: BTreeSet<_> = self.partitions.keys().map(|id| id.table).collect();
        let mut tables = held.iter().filter_map(|id| self.configuration.table(*id));
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
        now: Now,
        prepare: &Arc<Prepare>,
        decision: &Decision,
        output: &mut Output,
    ) -> Option<Position> {
        let resolved_in = Some(self.epoch());
        let table = self.tables.get(&prepare.table).map(Arc::clone);
        let known = with_known_votes(Arc::clone(prepare), Some(decision), table.as_deref());
        let mut last = None;
        for (place, partition) in prepare.chain.iter().enumerate() {
            let key = (prepare.operation, *partition);
            if !self.partitions.contains_key(partition) {
                continue;
            }
            if !self.members.contains_key(&key) {
                // What is finished was settled here before it was forgotten, and of an abort nothing
                // is missing where it is not known.
                let finished = key.0.order() < self.finished_below(key.0.head);
                if finished || matches!(decision, Decision::Abort(_)) {
                    continue;
                }
                self.adopt(now, key, &known, place, output);
            }
            let member = &self.members[&key];
            if member.settled || member.decision.as_ref() == Some(decision) {
                continue;
            }
            let record = Record::Decided {
                partition: *partition,
                operation: key.0,
                decision: decision.clone(),
                settles: false,
            };
            let position = self.log(&record, Durability::Sync, output);
            let member = self.members.get_mut(&key).expect("it was there");
            member.decision = Some(decision.clone());
            member.decided_at = position;
            member.resolved_in = resolved_in;
            last = Some(position);
        }
        last
    }

    /// An epoch serves, or has served while this core was away, after the one that it has sealed:
    /// all who remained have resolved everything, durably. It is settled here, and nobody will ask
    /// for it any more.
    pub(super) fn end_old_seal<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let sealing = self.configuration.sealing.as_ref();
        let goes_on = |sealed: &SealedOnDisk| sealing.is_some_and(|it| it.since <= sealed.epoch);
        if self.sealed_on_disk.as_ref().is_none_or(goes_on) {
            return Ok(());
        }
        self.settle_resolved(now, tables, output)?;
        let record = Record::Resolved {
            epoch: self.epoch(),
        };
        self.log(&record, Durability::Replicated, output);
        Ok(())
    }

    /// Chains go on, with what has queued meanwhile.
    pub(super) fn unseal<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.seal = None;
        let queues = self.partitions.iter();
        let waiting: Vec<_> = queues
            .flat_map(|(id, partition)| partition.queues.keys().map(|pk| (*id, pk.clone())))
            .collect();
        for (id, pk) in waiting {
            self.start_queue(now, id, &pk, tables, output)?;
        }
        Ok(())
    }

    /// Settles all that is decided, in the order of versions, and forgets it.
    pub(super) fn settle_resolved<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let members = self.members.iter().filter(|(_, member)| !member.settled);
        let mut open: Vec<_> = members
            .map(|(key, member)| (newest_version(member), *key))
            .collect();
        open.sort_unstable();
        for (_, key) in open {
            let member = &self.members[&key];
            assert!(
                member.decision.is_some(),
                "an epoch serves once everything before is decided durably: {key:?}"
            );
            if !member.settled {
                self.settle(now, key, tables, output)?;
            }
        }
        let keys: Vec<MemberKey> = self.members.keys().copied().collect();
        for key in keys {
            self.members.remove(&key);
        }
        self.unfinished.clear();
        self.retries.clear();
        self.undurable.clear();
        self.confirmations.clear();
        self.recovering = None;
        self.sealed_on_disk = None;
        Ok(())
    }
}
