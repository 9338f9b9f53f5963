//! Ends a table's epoch: the remaining members seal it and resolve its undecided operations (R4,
//! R5, R16; `docs/reference/protocol-chain.md`, "The end of an epoch").
//!
//! While the configuration seals a table, its chains are stopped: nothing is voted on, decided or
//! settled. Each of its cores durably logs that it has sealed the table. Then it sends every other
//! core of the table what its log has about their common operations. So all members of an operation
//! receive the same reports, and compute the same outcome by themselves. No outcome is visible
//! before the next epoch of the table that serves: then all remaining cores have it durably. Other
//! tables continue meanwhile.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use placement::{Durability, prove};
use protocol::configuration::Server;
use protocol::identity::{
    ClockReading, CoreId, Epoch, OperationId, PartitionId, Position, ServerId, TableId,
};
use protocol::message::{PeerMessage, Refusal, SealReport, SealStage};
use protocol::operation::{Decision, Prepare};
use protocol::planted::{self, Bug};
use protocol::record::Record;
use protocol::transaction::TransactionResult;

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::epoch::resolution::{MemberReport, Resolution, outcome};
use crate::core::member::MemberKey;
use crate::core::restart::inquiry::{Inquiry, Question};
use crate::core::restart::recovery::with_known_votes;
use crate::core::step::Step;
use crate::core::table::TableInfo;
use crate::core::transactions::ChangedDomains;

/// A table whose epoch is being ended.
#[derive(Debug)]
struct Seal {
    inquiry: Inquiry,
    /// When this core last vouched for a server that is being removed, before it sealed.
    vouched_us: Option<u64>,
    /// The position of the record that this core has sealed the table.
    sealed_at: Position,
    /// Whether this core knows all that it ever voted.
    forgot_nothing: bool,
    /// The last question of each core that came before the record was durable.
    early: BTreeMap<CoreId, u64>,
    /// The records of other logs, by operation and by index in the operation's chain.
    witnesses: BTreeMap<OperationId, BTreeMap<usize, Witness>>,
    /// Other cores that may have forgotten something.
    forgetful: BTreeSet<CoreId>,
    progress: Progress,
}

/// The records that one log holds of an operation.
#[derive(Debug)]
struct Witness {
    prepare: Arc<Prepare>,
    decision: Option<(Decision, Option<Epoch>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Hearing,
    /// All operations are decided. The core has resolved them once its log is durable up to this
    /// position.
    Resolving(Position),
    Resolved,
    Stuck,
}

/// The seals of a table that the log has after the last epoch of it that served.
#[derive(Clone, Copy, Debug)]
struct SealedOnDisk {
    first_at: Position,
    /// Of the last one.
    epoch: Epoch,
    forgot_nothing: bool,
}

/// The progress of this core with the end of earlier epochs, by table.
#[derive(Debug, Default)]
pub(crate) struct SealProgress {
    /// Tables whose epochs are being ended, so that their chains are blocked.
    current: BTreeMap<TableId, Seal>,
    /// Tables with a seal in the log, until an epoch of them serves after it.
    on_disk: BTreeMap<TableId, SealedOnDisk>,
    /// For each table whose operations are stopped: the peers that have sent a message in the
    /// table's present epoch.
    arrived: BTreeSet<(TableId, CoreId)>,
}

impl SealProgress {
    /// Records a peer's message about a table in this epoch. Returns whether it is the peer's first
    /// one.
    pub fn note_arrival(&mut self, table: TableId, core: CoreId) -> bool {
        self.arrived.insert((table, core))
    }

    /// Returns the position of the log's first seal of any table after the last epoch of the table
    /// that served; none if there is no such seal.
    pub fn first_at(&self) -> Option<Position> {
        self.on_disk.values().map(|sealed| sealed.first_at).min()
    }

    /// Returns the epoch of the log's last seal of a table after the last epoch of the table that
    /// served. Later decisions in the log come from that epoch's resolution.
    pub fn sealed_epoch(&self, table: TableId) -> Option<Epoch> {
        self.on_disk.get(&table).map(|sealed| sealed.epoch)
    }

    /// Records a seal of the log. Decisions after the first seal are settled only when an epoch
    /// serves, so the log keeps all of them until then.
    pub fn note(&mut self, at: Position, epoch: Epoch, (table, forgot_nothing): (TableId, bool)) {
        let known = self.on_disk.get(&table);
        let first_at = known.map_or(at, |sealed| sealed.first_at);
        let sealed = SealedOnDisk {
            first_at,
            epoch,
            forgot_nothing,
        };
        self.on_disk.insert(table, sealed);
    }
}

impl CoreMachine {
    /// Returns whether the chains of a table are stopped: from its seal in the configuration until
    /// this core has settled all resolved operations.
    pub(crate) fn stands_still(&self, table: TableId) -> bool {
        self.view.stands_still(table) || self.has_sealed(table)
    }

    /// Returns whether this core has sealed a table whose chains are stopped.
    pub(crate) fn has_sealed(&self, table: TableId) -> bool {
        self.sealing.current.contains_key(&table)
    }

    /// Returns this core's progress with the end of each table's earlier epochs.
    pub(crate) fn seal_reports(&self, now: ClockReading) -> Vec<SealReport> {
        let seals = self.sealing.current.iter();
        let reports = seals.map(|(table, seal)| SealReport {
            table: *table,
            stage: match seal.progress {
                Progress::Hearing | Progress::Resolving(_) => SealStage::Sealing,
                Progress::Resolved => SealStage::Resolved,
                Progress::Stuck => SealStage::Stuck,
            },
            vouched_ago_us: seal
                .vouched_us
                .map(|at_us| now.monotonic_us.saturating_sub(at_us)),
        });
        reports.collect()
    }

    /// Seals the earlier epochs of those of the given tables that the configuration seals. From
    /// here on this core takes part in no operation of these epochs.
    pub(crate) fn seal<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let own = self.identity.core;
        let sealed = tables.iter().filter_map(|id| self.view.table(*id));
        let sealed = sealed.filter(|table| table.sealing.is_some());
        let sealed = sealed.filter(|table| {
            table.holders.contains(&own) || !self.parts_touching(table.id).is_empty()
        });
        let sealed: Vec<Arc<TableInfo>> = sealed.map(Arc::clone).collect();
        if sealed.is_empty() {
            return Ok(());
        }
        let forgot_nothing = sealed.iter().map(|table| self.has_forgotten_nothing(table));
        let forgot_nothing: Vec<bool> = forgot_nothing.collect();
        let ids = sealed.iter().map(|table| table.id);
        let record = Record::Sealed {
            epoch: self.epoch(),
            tables: ids.zip(forgot_nothing.iter().copied()).collect(),
        };
        let sealed_at = self.append(&record, Durability::Sync, step.output);
        for (table, forgot_nothing) in sealed.iter().zip(forgot_nothing) {
            let epoch = self.epoch();
            self.sealing
                .note(sealed_at, epoch, (table.id, forgot_nothing));
            let sealing = table.sealing.as_ref().expect("it is sealed");
            let seal = Seal {
                inquiry: Inquiry::new(Question::Sealed, table.id, core::iter::empty()),
                vouched_us: self.leases.last_vouched_us(&sealing.removed),
                sealed_at,
                forgot_nothing,
                early: BTreeMap::new(),
                witnesses: BTreeMap::new(),
                forgetful: BTreeSet::new(),
                progress: Progress::Hearing,
            };
            self.sealing.current.insert(table.id, seal);
        }
        let ids: BTreeSet<TableId> = sealed.iter().map(|table| table.id).collect();
        self.confirmations.forget_gathered(&ids);
        for table in &sealed {
            self.drop_unvoted(table.id, step)?;
            self.review_witnesses(table.id);
            self.ask_sealed(Some(table.id), step.output);
            self.seal_goes_on(table.id, step.now, step.output);
        }
        Ok(())
    }

    /// Reviews whom seals ask, because the configuration has changed: a server can be removed whose
    /// tables are others.
    pub(crate) fn review_seals(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let tables: Vec<TableId> = self.sealing.current.keys().copied().collect();
        for table in tables {
            if self.review_witnesses(table) {
                self.ask_sealed(Some(table), output);
            }
            // A server that is back, or the end of another table's seal, may tell an outcome.
            let seal = self.sealing.current.get_mut(&table);
            let seal = seal.expect("it was just listed");
            if seal.progress == Progress::Stuck && !planted::is(Bug::StuckForGood) {
                seal.progress = Progress::Hearing;
            }
            self.seal_goes_on(table, now, output);
        }
    }

    /// Determines whom the seal of a table asks: the remaining cores that hold the table, if this
    /// core does, and those that take part in a transaction which touches the table (R44). Returns
    /// whether there is a new one.
    fn review_witnesses(&mut self, id: TableId) -> bool {
        let own = self.identity.core;
        let Some(table) = self.view.table(id).map(Arc::clone) else {
            return false;
        };
        let mut cores: BTreeSet<CoreId> = BTreeSet::new();
        if table.holders.contains(&own) {
            let holders = table.holders.iter();
            cores.extend(holders.filter(|core| !self.view.removes(id, core.server)));
        }
        let Some(seal) = self.sealing.current.get(&id) else {
            return false;
        };
        let own_parts = self.members.values().map(|member| &member.prepare);
        let witnessed = seal.witnesses.values().flat_map(BTreeMap::values);
        let prepares = own_parts.chain(witnessed.map(|witness| &witness.prepare));
        let linked = prepares.filter(|prepare| {
            let touches = prepare.touches(|table| table == id);
            touches && prepare.transaction.is_some() && !planted::is(Bug::SealAsksOwnTableOnly)
        });
        for member in linked.flat_map(|prepare| &prepare.members) {
            let place = self.view.place(*member);
            let place = place.filter(|it| !self.view.removes(member.table, it.core.server));
            cores.extend(place.map(|place| place.core));
        }
        cores.remove(&own);
        let seal = self.sealing.current.get_mut(&id);
        let seal = seal.expect("it was just there");
        seal.inquiry.set_peers(&cores)
    }

    /// Returns whether this core knows all that it ever voted on in a table that it seals now.
    fn has_forgotten_nothing(&self, table: &TableInfo) -> bool {
        let since = table.sealing.as_ref().map(|sealing| sealing.since);
        let on_disk = self.sealing.on_disk.get(&table.id);
        let whole_on_disk =
            on_disk.is_some_and(|sealed| sealed.forgot_nothing && Some(sealed.epoch) >= since);
        !self.recovers(table.id) || whole_on_disk || self.log.is_complete()
    }

    /// Drops the table's operations that still wait for keys here: this core has not voted on them,
    /// so no peer has received a vote. A head refuses their requests.
    fn drop_unvoted<T: Tables>(
        &mut self,
        table: TableId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let members = self.members.iter();
        let members = members.filter(|(_, it)| it.prepare.touches(|touched| touched == table));
        let unvoted = members.filter(|(_, member)| member.prepared_at().is_none());
        let unvoted: Vec<MemberKey> = unvoted.map(|(key, _)| *key).collect();
        for key in unvoted {
            self.release(key, step)?;
            let member = self.members.remove(&key).expect("it was just listed");
            if member.place == 0 && !member.is_transaction() {
                self.end_operation(key.0);
                self.requests.unfold(key.0);
                for request in &member.prepare.requests {
                    self.refuse_running(request.request, &Refusal::WrongPartition, step.output);
                }
            }
        }
        Ok(())
    }

    /// Asks all peers that have not reported completely, about one table or all.
    pub(crate) fn ask_sealed(&mut self, table: Option<TableId>, output: &mut CoreOutput) {
        for (id, seal) in &mut self.sealing.current {
            if table.is_none_or(|table| table == *id) {
                seal.inquiry.ask_all(output);
            }
        }
    }

    /// Asks one peer that has just been connected, or has just received a table's epoch.
    pub(crate) fn ask_sealed_of(
        &mut self,
        core: CoreId,
        table: Option<TableId>,
        output: &mut CoreOutput,
    ) {
        for (id, seal) in &mut self.sealing.current {
            if table.is_none_or(|table| table == *id) {
                seal.inquiry.ask(core, output);
            }
        }
    }

    /// Handles a peer's question about the contents of this log. The answer is sent once these are
    /// durable (R16).
    pub(crate) fn on_ask_sealed(
        &mut self,
        from: CoreId,
        (table, attempt): (TableId, u64),
        output: &mut CoreOutput,
    ) {
        let Some(seal) = self.sealing.current.get_mut(&table) else {
            // A core that neither holds the table nor takes part in a transaction that touches it
            // has nothing to report, and takes part in none of this epoch any more.
            let known = self.view.table(table);
            let is_sealed = known.is_some_and(|known| {
                known.sealing.is_some() && !known.holders.contains(&self.identity.core)
            });
            if is_sealed {
                self.testify(from, (table, attempt), output);
            }
            return;
        };
        if self.log.durable() < seal.sealed_at && !planted::is(Bug::SealReportedEarly) {
            seal.early.insert(from, attempt);
        } else {
            self.testify(from, (table, attempt), output);
        }
    }

    fn testify(&self, to: CoreId, (table, attempt): (TableId, u64), output: &mut CoreOutput) {
        let seal = self.sealing.current.get(&table);
        let forgot_nothing = seal.is_none_or(|seal| seal.forgot_nothing);
        let mut count = 0;
        let mut send = |message| {
            let after = Position(0);
            output.sends.push(PeerSend { to, after, message });
        };
        for (key, member) in self.members.iter() {
            let configuration = self.view.configuration();
            let touches = member.prepare.touches(|touched| touched == table);
            if !touches || !configuration.takes_part(to, &member.prepare.members) {
                continue;
            }
            count += 1;
            send(PeerMessage::Witness {
                table,
                attempt,
                prepare: Arc::clone(&member.prepare),
                decision: self.known_decision(key),
            });
        }
        send(PeerMessage::WitnessEnd {
            table,
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
        let known = self.recovering.get(&key.1.table)?.remembered(key)?;
        Some((known.decision.clone(), None))
    }

    pub(crate) fn on_witness(
        &mut self,
        now: ClockReading,
        (from, table, attempt): (CoreId, TableId, u64),
        prepare: Arc<Prepare>,
        decision: Option<(Decision, Option<Epoch>)>,
        output: &mut CoreOutput,
    ) {
        let Some(seal) = self.sealing.current.get_mut(&table) else {
            return;
        };
        let operation = prepare.operation;
        let holder = prepare.holder().filter(|_| prepare.is_consistent());
        let Some(place) = holder else {
            return;
        };
        if !seal.inquiry.note_item(from, attempt, (operation, place)) {
            return;
        }
        let places = seal.witnesses.entry(operation).or_default();
        let is_transaction = prepare.transaction.is_some();
        places.insert(place, Witness { prepare, decision });
        if is_transaction && self.review_witnesses(table) {
            self.ask_sealed(Some(table), output);
        }
        self.seal_goes_on(table, now, output);
    }

    pub(crate) fn on_witness_end(
        &mut self,
        now: ClockReading,
        (from, table, attempt): (CoreId, TableId, u64),
        (count, forgot_nothing): (u64, bool),
        output: &mut CoreOutput,
    ) {
        let Some(seal) = self.sealing.current.get_mut(&table) else {
            return;
        };
        if seal.inquiry.note_end(from, attempt, count) {
            if !forgot_nothing {
                seal.forgetful.insert(from);
            }
            self.seal_goes_on(table, now, output);
        }
    }

    /// Continues all seals, because records that they may wait for are durable.
    pub(crate) fn seals_go_on(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let tables: Vec<TableId> = self.sealing.current.keys().copied().collect();
        for table in tables {
            self.seal_goes_on(table, now, output);
        }
    }

    /// Continues a table's seal, which may have waited for the disk or for the last of the
    /// witnesses.
    fn seal_goes_on(&mut self, table: TableId, now: ClockReading, output: &mut CoreOutput) {
        let Some(seal) = self.sealing.current.get_mut(&table) else {
            return;
        };
        if self.log.durable() < seal.sealed_at {
            return;
        }
        for (core, attempt) in core::mem::take(&mut seal.early) {
            self.testify(core, (table, attempt), output);
        }
        let seal = &self.sealing.current[&table];
        match seal.progress {
            Progress::Hearing if seal.inquiry.is_complete() => self.resolve(table, now, output),
            Progress::Resolving(position)
                if self.log.durable() >= position || planted::is(Bug::ResolvedReportedEarly) =>
            {
                self.advance(table, now, Progress::Resolved);
            }
            _ => {}
        }
    }

    /// Records the new progress with a table's seal, and reports it to the coordinator at once.
    fn advance(&mut self, table: TableId, now: ClockReading, progress: Progress) {
        let seal = self.sealing.current.get_mut(&table);
        seal.expect("callers have it").progress = progress;
        self.leases.hurry(now);
    }

    /// Decides every operation of the table in which this core takes part, once all cores have
    /// reported their records.
    fn resolve(&mut self, table: TableId, now: ClockReading, output: &mut CoreOutput) {
        let seal = &self.sealing.current[&table];
        let members = self.members.iter();
        let known = members.filter(|(_, it)| it.prepare.touches(|touched| touched == table));
        let known = known.map(|(key, _)| key.0);
        let operations: BTreeSet<OperationId> =
            known.chain(seal.witnesses.keys().copied()).collect();
        let outcomes: Vec<_> = operations
            .iter()
            .filter_map(|operation| self.resolution(table, *operation))
            .collect();
        let stuck = outcomes.iter().filter(|(_, it)| *it == Resolution::Stuck);
        let stuck = stuck.count();
        if stuck > 0 || self.may_lack_unknown(table) {
            let name = self
                .view
                .table(table)
                .map(|table| table.schema.name.as_str());
            let text = format!(
                "cannot determine the outcome of {stuck} operations on table {}: more servers are \
                 lost or have forgotten than is tolerated; start one of those that are down",
                name.unwrap_or_default()
            );
            self.note(&text, output);
            return self.advance(table, now, Progress::Stuck);
        }
        let mut last = self.sealing.current[&table].sealed_at;
        for (prepare, outcome) in outcomes {
            if let Resolution::Decided(decision) = outcome
                && let Some(position) = self.take_resolution(now, &prepare, &decision, output)
            {
                last = last.max(position);
            }
        }
        self.advance(table, now, Progress::Resolving(last));
        self.seal_goes_on(table, now, output);
    }

    /// Returns an operation's outcome by what all logs hold, with its prepare of the most votes.
    fn resolution(
        &self,
        table: TableId,
        operation: OperationId,
    ) -> Option<(Arc<Prepare>, Resolution)> {
        let seal = self.sealing.current.get(&table)?;
        let witnesses = seal.witnesses.get(&operation);
        let own = self.own_members(operation);
        let witnessed = witnesses.into_iter().flat_map(BTreeMap::values);
        let prepares = own.map(|key| &self.members[&key].prepare);
        let prepares = prepares.chain(witnessed.map(|witness| &witness.prepare));
        let prepare = prepares.max_by_key(|prepare| prepare.votes.len())?;
        if prepare.transaction.is_some() {
            let outcome = self.resolution_of_transaction(operation, prepare, witnesses);
            return Some((Arc::clone(prepare), outcome));
        }
        let table = self.view.table(prepare.table)?;
        let mut parts = Vec::with_capacity(prepare.members.len());
        for (place, partition) in prepare.members.iter().enumerate() {
            let core = self.view.place(*partition)?.core;
            let own_key = (operation, *partition);
            let is_own = core == self.identity.core;
            let witness = witnesses.and_then(|places| places.get(&place));
            parts.push(match witness {
                _ if self.view.removes(table.id, core.server) => MemberReport::Gone,
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
        let outcome = outcome(table, prepare.chain(), &parts);
        Some((Arc::clone(prepare), outcome))
    }

    /// Returns a transaction's outcome by what all remaining members report: it commits if one of
    /// them knows that. Clients can have seen a commit only once it was durable in f + 1 failure
    /// domains of each table that is changed. So it aborts if one of these tables has lost fewer.
    fn resolution_of_transaction(
        &self,
        operation: OperationId,
        prepare: &Prepare,
        witnesses: Option<&BTreeMap<usize, Witness>>,
    ) -> Resolution {
        let mut decisions = Vec::new();
        for (place, member) in prepare.members.iter().enumerate() {
            decisions.extend(self.known_decision(&(operation, *member)));
            let server = self.view.place(*member).map(|it| it.core.server);
            let is_gone = server.is_none_or(|server| self.view.removes(member.table, server));
            let witness = witnesses.and_then(|places| places.get(&place));
            let witness = witness.filter(|_| !is_gone);
            decisions.extend(witness.and_then(|witness| witness.decision.clone()));
        }
        let commits = decisions
            .iter()
            .any(|(known, _)| *known == Decision::Commit);
        if commits && !planted::is(Bug::ResolutionForgetsCommit) {
            return Resolution::Decided(Decision::Commit);
        }
        let abort = decisions
            .into_iter()
            .find(|(known, resolved)| resolved.is_none() && *known != Decision::Commit);
        if let Some((known, _)) = abort {
            return Resolution::Decided(known);
        }
        let remains = |id: PartitionId| {
            let place = self.view.place(id);
            place.is_some_and(|place| !self.view.removes(id.table, place.core.server))
        };
        let changed = prepare.changed().iter();
        let domains = self.changed_domains(changed.map(|id| (*id, remains(*id))));
        let knows = |it: &ChangedDomains<'_>| it.all.len() - it.counted.len() < it.needed();
        let result = TransactionResult::conflict(prepare.table);
        let abort = Decision::abort_transaction(result);
        match domains.is_empty() || domains.values().any(knows) {
            true => Resolution::Decided(abort),
            false => Resolution::Stuck,
        }
    }

    pub(crate) fn own_members(&self, operation: OperationId) -> impl Iterator<Item = MemberKey> {
        let first = (operation, PartitionId::default());
        let members = self.members.range(first..);
        let own = members.take_while(move |(key, _)| key.0 == operation);
        own.map(|(key, _)| *key)
    }

    /// Returns whether clients may have seen an operation on a table that no remaining core knows.
    /// This is possible if servers were removed, and more servers are removed or may have forgotten
    /// records than the table tolerates.
    fn may_lack_unknown(&self, table: TableId) -> bool {
        let seal = &self.sealing.current[&table];
        let own = (!seal.forgot_nothing).then_some(self.identity.core);
        let forgetful = seal.forgetful.iter().copied().chain(own);
        let forgetful: BTreeSet<ServerId> = forgetful.map(|core| core.server).collect();
        if forgetful.is_empty() {
            return false;
        }
        let is_gone = |server: ServerId| self.view.removes(table, server);
        let Some(table) = self.view.configuration().table(table) else {
            return false;
        };
        let servers = self.view.configuration().servers.iter();
        let knowing: Vec<placement::PartitionHost> = servers
            .filter(|server| !is_gone(server.id) && !forgetful.contains(&server.id))
            .map(Server::bare)
            .collect();
        let holders: BTreeSet<ServerId> = table.holders().iter().map(|it| it.server).collect();
        let gone = holders.iter().filter(|server| is_gone(**server)).count();
        let forgetful = holders.intersection(&forgetful).count();
        let too_many = gone + forgetful > usize::from(table.schema.failures_tolerated);
        // A table whose copies had to be put together tolerates less than it states.
        let is_alone = || {
            let proof = prove(&table.layout, &table.bare_placement(), &knowing);
            proof.copies_guaranteed == 0
        };
        gone > 0 && (too_many || is_alone())
    }

    /// Logs an outcome at this core's members of the operation. Returns the position of the last
    /// record; none if nothing was logged.
    fn take_resolution(
        &mut self,
        now: ClockReading,
        prepare: &Arc<Prepare>,
        decision: &Decision,
        output: &mut CoreOutput,
    ) -> Option<Position> {
        let resolved_in = Some(self.epoch());
        let is_transaction = prepare.transaction.is_some();
        let table = self.view.table(prepare.table).map(Arc::clone);
        let table = table.filter(|_| !is_transaction);
        let known = match is_transaction {
            true => Arc::clone(prepare),
            false => with_known_votes(Arc::clone(prepare), Some(decision), table.as_deref()),
        };
        let mut last = None;
        for (place, partition) in prepare.members.iter().enumerate() {
            let key = (prepare.operation, *partition);
            if !self.partitions.contains_key(partition) {
                continue;
            }
            if !self.members.contains_key(&key) {
                // A commit has the durable vote of every member: this one was finished.
                if is_transaction {
                    continue;
                }
                // A finished operation was settled here before it was forgotten, and a core that
                // does not know an abort lacks nothing of it.
                let finished = key.0.order() < self.finished_below(key.0.head);
                if finished || matches!(decision, Decision::Abort(_)) {
                    continue;
                }
                self.adopt(now, key, &known, place, output);
            }
            let member = &self.members[&key];
            let is_known = match (member.decision(), is_transaction) {
                // The reason of an abort is known to its coordinator alone.
                (Some(known), true) => {
                    core::mem::discriminant(known) == core::mem::discriminant(decision)
                }
                (known, _) => known == Some(decision),
            };
            if member.is_settled() || is_known {
                // The seal of another table of a transaction can just have decided it.
                last = last.max(Some(member.decided_at()));
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

    /// Ends seals of tables that serve again, or have served again while this core was offline. All
    /// remaining cores have then resolved everything durably. This core settles it, and no core
    /// will ask for it any more.
    pub(crate) fn end_old_seals<T: Tables>(
        &mut self,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let goes_on = |table: TableId, sealed: &SealedOnDisk| {
            let table = self.view.table(table);
            let sealing = table.and_then(|table| table.sealing.as_ref());
            sealing.is_some_and(|it| it.since <= sealed.epoch)
        };
        let sealed = self.sealing.on_disk.iter();
        let ended = sealed.filter(|(table, sealed)| !goes_on(**table, sealed));
        let tables: BTreeSet<TableId> = ended.map(|(table, _)| *table).collect();
        if tables.is_empty() {
            return Ok(());
        }
        self.settle_resolved(&tables, step)?;
        let record = Record::Resolved {
            epoch: self.epoch(),
            tables: tables.into_iter().collect(),
        };
        self.append(&record, Durability::Replicated, step.output);
        // Later operations on other tables may have waited for those that are finished with that.
        self.confirmations.send_by(step.now.monotonic_us);
        Ok(())
    }

    /// Forgets the seals of these tables, whose epochs have changed. Returns the tables that were
    /// sealed.
    pub(crate) fn unseal(&mut self, tables: &BTreeSet<TableId>) -> BTreeSet<TableId> {
        let sealed = tables.iter().copied().filter(|id| self.has_sealed(*id));
        let sealed: BTreeSet<TableId> = sealed.collect();
        self.sealing
            .current
            .retain(|table, _| !tables.contains(table));
        self.sealing
            .arrived
            .retain(|(table, _)| !tables.contains(table));
        sealed
    }

    /// Settles the decided operations of these tables, each after those that have changed one of
    /// its rows before, and forgets them.
    pub(crate) fn settle_resolved<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let others_too = planted::is(Bug::SealConcernsAll);
        let concerns = |machine: &Self, key: &MemberKey| {
            let member = &machine.members[key];
            if !member.is_transaction() {
                return tables.contains(&key.1.table) || others_too;
            }
            // All remaining members of its other tables have the outcome durably, too. It may have
            // none if one of the tables was dropped before: then its coordinator ends it.
            let touched = match planted::is(Bug::SettledAfterOthers) {
                true => member.prepare.tables(),
                false => vec![key.1.table],
            };
            member.prepare.touches(|table| tables.contains(&table))
                && member.decision().is_some()
                && !machine.any_other_sealed(&touched, tables)
        };
        let members = self.members.iter().filter(|(key, _)| concerns(self, key));
        let members = members.filter(|(_, member)| {
            !member.is_settled() && (!others_too || member.decision().is_some())
        });
        for key in members.map(|(key, _)| *key).collect::<Vec<MemberKey>>() {
            let member = &self.members[&key];
            let is_decided = member.decision().is_some();
            assert!(is_decided, "an epoch serves after every decision: {key:?}");
            if !member.is_settled() {
                self.settle(key, step)?;
            }
        }
        let ended = self.members.keys().filter(|key| concerns(self, key));
        for key in ended.copied().collect::<Vec<MemberKey>>() {
            let member = self.members.remove(&key).expect("it was just listed");
            assert!(member.is_settled(), "nothing is left before it: {key:?}");
            if member.place == 0 && !member.is_transaction() {
                self.end_operation(key.0);
            }
        }
        self.end_resolved(tables, step);
        self.confirmations.forget_gathered(tables);
        for table in tables {
            self.side_reports.forget_table(*table);
            self.recovering.remove(table);
            self.sealing.on_disk.remove(table);
        }
        Ok(())
    }
}
