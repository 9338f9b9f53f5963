//! Recovers a restarted core after it has read its log: it asks its peers for votes and outcomes
//! that the log may lack.
//!
//! A member may forward a prepare before the prepare is durable (R1). So the log can lack votes
//! that this core has cast, and a second vote could commit two rows with one unique key. So a
//! restarted core casts no votes on a table until every peer has reported each operation of the
//! table in which both cores are members. It adopts its own votes from these reports. Peers keep
//! operations until every member has the outcome durably (`confirm`), so no operation is missing.
//! Messages from before the restart are dropped because of their incarnation. Until all peers have
//! reported, the core does not answer reads either. The decider shows an outcome while prepares of
//! earlier members may not be durable. A member that has lost such a prepare would return the old
//! row after the decider has returned the new one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{ClockReading, CoreId, Position, TableId};
use protocol::message::PeerMessage;
use protocol::operation::{Decision, Prepare, Vote};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::contract::{CoreOutput, PeerSend};
use crate::core::member::{IncomingDecision, Member, MemberKey};
use crate::core::restart::inquiry::{Inquiry, Question};
use crate::core::step::Step;
use crate::core::table::TableInfo;

/// The recovery of a table at a restarted core: its inquiry, and the decisions that it received
/// meanwhile.
#[derive(Debug)]
pub(crate) struct RecoveryState {
    inquiry: Inquiry,
    /// Decisions received meanwhile, and whether they are settled. They are logged and applied when
    /// all operations are known: an earlier operation on the same row may arrive last, and must not
    /// bring back what a later one has removed.
    decisions: BTreeMap<MemberKey, IncomingDecision>,
}

impl RecoveryState {
    /// Keeps a decision until the recovery ends.
    pub fn remember(&mut self, key: MemberKey, incoming: IncomingDecision) {
        if let Some(known) = self.decisions.get_mut(&key) {
            assert_eq!(
                known.decision, incoming.decision,
                "a decision never changes"
            );
            known.settled |= incoming.settled;
            known.in_order |= incoming.in_order;
        } else {
            self.decisions.insert(key, incoming);
        }
    }

    /// Returns a decision that was received meanwhile.
    pub fn remembered(&self, key: &MemberKey) -> Option<&IncomingDecision> {
        self.decisions.get(key)
    }
}

impl CoreMachine {
    /// Starts the machine once the log is read. `next` is the position of the next record. Asks the
    /// peers for votes and decisions that this core may have forgotten.
    ///
    /// # Errors
    /// A cold read failed.
    pub fn start<T: Tables>(
        &mut self,
        now: ClockReading,
        next: Position,
        tables: &mut T,
        output: &mut CoreOutput,
    ) -> Result<(), TablesError> {
        let step = &mut Step {
            now,
            tables,
            output,
        };
        self.find_left_behind(step)?;
        self.log.start(next);
        let all = self.view.table_ids();
        self.view.begin(step.now, &all);
        self.leases.start(step.now);
        self.confirmations.clear();
        self.awaited.clear();
        self.counters = Default::default();
        // Tables that were dropped while this core was offline are in the log alone.
        let logged = self.tenures.tables();
        self.take_given(&all.union(&logged).copied().collect(), step)?;
        self.end_old_seals(step)?;
        self.end_replay(step.output);
        self.review_ranges(step.now, &all);
        let keys: Vec<MemberKey> = self.members.keys().copied().collect();
        for key in keys {
            let member = self.members.get_mut(&key).expect("it was just listed");
            member.since_us = step.now.monotonic_us;
            member.confirm_again();
            if member.is_transaction() {
                member.retry_due_us = step.now.monotonic_us + self.limits.retry_us;
                continue;
            }
            if member.place == 0 {
                self.watch(key, step.now.monotonic_us + self.limits.retry_us);
            }
            let member = &self.members[&key];
            if member.decision().is_some() {
                let position = member.decided_at();
                self.awaited.push(position, key);
            } else if member.is_decider() && member.table.sync {
                let position = member.prepared_at().expect("a replayed member is prepared");
                self.awaited.push(position, key);
            }
        }
        self.awaited.sort();
        if planted::is(Bug::CompletionsNotRestored) {
            self.sessions = Default::default();
        }
        self.resume_transactions(step.now);
        if !planted::is(Bug::RecoverySkipped) {
            self.begin_recovery(step.output);
        }
        self.seal(&all, step)?;
        let open = all.into_iter().filter(|id| !self.stands_still(*id));
        self.review_fills(&open.collect(), step)?;
        let durable = self.log.durable();
        self.on_durable(durable, step)?;
        step.output.deadline_us = Some(step.now.monotonic_us);
        Ok(())
    }

    /// Ends the replay, and drops the members of partitions that this core gave to others, because
    /// their records are settled by now.
    fn end_replay(&mut self, output: &mut CoreOutput) {
        self.log.end_replay();
        for id in self.partitions.end_replay(&self.view, self.identity.core) {
            self.drop_members(id, output);
        }
    }

    /// Begins to ask, for each table of which this core holds partitions.
    fn begin_recovery(&mut self, output: &mut CoreOutput) {
        let held: BTreeSet<TableId> = self.partitions.keys().map(|id| id.table).collect();
        for table in held {
            let mut peers = self.peers_of(table).peekable();
            if peers.peek().is_some() {
                let recovering = RecoveryState {
                    inquiry: Inquiry::new(Question::Forgotten, table, peers),
                    decisions: BTreeMap::new(),
                };
                self.recovering.insert(table, recovering);
            }
        }
        self.recover_again(output);
    }

    /// Returns whether this core has restarted, and waits for peers to report operations of a
    /// table.
    pub(crate) fn recovers(&self, table: TableId) -> bool {
        self.recovering.contains_key(&table)
    }

    /// Restarts the recovery of tables whose epochs have changed: reports from the earlier epoch no
    /// longer count. All reports must come from one epoch, and so from one life of each peer.
    /// Otherwise a peer could report an operation only to another core, forget it in a restart, and
    /// then report to this core: no report would have the operation. For a table that was dropped
    /// no peer is left to ask.
    pub(crate) fn restart_recovery<T: Tables>(
        &mut self,
        tables: &BTreeSet<TableId>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let recovering = self.recovering.keys().copied();
        let tables: Vec<TableId> = recovering.filter(|id| tables.contains(id)).collect();
        for table in tables {
            let is_held = self.partitions.holds_of(table);
            let peers = self.peers_of(table).filter(|_| is_held);
            let peers: Vec<CoreId> = peers.collect();
            if let Some(recovering) = self.recovering.get_mut(&table) {
                recovering.inquiry.restart(peers.into_iter());
            }
            self.end_recovery(table, step)?;
        }
        self.recover_again(step.output);
        Ok(())
    }

    /// Asks all peers that have not reported completely.
    pub(crate) fn recover_again(&mut self, output: &mut CoreOutput) {
        for (table, recovering) in &mut self.recovering {
            if !self.view.stands_still(*table) {
                recovering.inquiry.ask_all(output);
            }
        }
    }

    /// Asks one peer, which has just been connected.
    pub(crate) fn ask_again(&mut self, core: CoreId, output: &mut CoreOutput) {
        for (table, recovering) in &mut self.recovering {
            if !self.view.stands_still(*table) {
                recovering.inquiry.ask(core, output);
            }
        }
    }

    /// Drops the operations that came from a restarted peer and wait for keys here. Such an
    /// operation has no vote to report, and the peer may have forgotten it. If no other core knows
    /// it, it must not be voted on and decided without its own members. A core that knows it sends
    /// it again.
    fn drop_waiting<T: Tables>(
        &mut self,
        (from, table): (CoreId, TableId),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let came_from = |member: &Member| {
            if member.is_transaction() {
                return member.prepare.operation.head == from;
            }
            let count = if member.is_side() { 1 } else { member.place };
            let before = &member.prepare.members[..count];
            self.view.configuration().takes_part(from, before)
        };
        let members = self.members.iter();
        let members = members.filter(|(key, _)| key.1.table == table);
        let waiting =
            members.filter(|(_, member)| member.prepared_at().is_none() && came_from(member));
        let waiting: Vec<MemberKey> = waiting.map(|(key, _)| *key).collect();
        for key in waiting {
            // Letting go of an earlier one's keys may have let it in.
            let waits = self
                .members
                .get(&key)
                .is_some_and(|member| member.prepared_at().is_none());
            if waits {
                self.release(key, step)?;
                self.members.remove(&key);
            }
        }
        Ok(())
    }

    /// Answers a restarted peer: sends every operation of a table that the peer takes part in.
    pub(crate) fn on_recover<T: Tables>(
        &mut self,
        from: CoreId,
        (table, attempt): (TableId, u64),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.drop_waiting((from, table), step)?;
        let mut count = 0;
        for (key, member) in self
            .members
            .iter()
            .filter(|(key, member)| key.1.table == table && member.prepared_at().is_some())
            // Their votes and decisions are on disk.
            .filter(|(_, member)| !member.is_transaction())
        {
            if !self
                .view
                .configuration()
                .takes_part(from, &member.prepare.members)
            {
                continue;
            }
            count += 1;
            let decision = self.decision_to_send(key, member);
            let prepare = Arc::clone(&member.prepare);
            let message = PeerMessage::Adopt {
                attempt,
                prepare,
                decision,
            };
            step.output.sends.push(PeerSend {
                to: from,
                after: Position(0),
                message,
            });
        }
        let finished_below = self.own_finished();
        let message = PeerMessage::RecoverEnd {
            table,
            attempt,
            count,
            finished_below,
        };
        step.output.sends.push(PeerSend {
            to: from,
            after: Position(0),
            message,
        });
        Ok(())
    }

    /// Returns the decision of an operation that may be sent to a restarted peer, and whether it is
    /// settled; none if it must not be sent yet. As on the way up, a decision is sent only once
    /// this member's own record of it is durable. With `replicated` there is no such wait: a
    /// recovering core also sends the decisions that it has received itself.
    fn decision_to_send(&self, key: &MemberKey, member: &Member) -> Option<(Decision, bool)> {
        if let Some(decision) = member.decision() {
            let may_pass = member.decision_after() <= self.log.durable();
            return may_pass.then(|| (decision.clone(), member.is_settled()));
        }
        let recovering = self.recovering.get(&key.1.table);
        let recovering = recovering.filter(|_| !member.table.sync);
        let incoming = recovering?.remembered(key)?;
        Some((incoming.decision.clone(), incoming.settled))
    }

    /// Handles a peer's report of an operation: this core's vote, and the outcome.
    pub(crate) fn on_adopt<T: Tables>(
        &mut self,
        from: CoreId,
        attempt: u64,
        prepare: Arc<Prepare>,
        decision: Option<(Decision, bool)>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let table_id = prepare.table;
        let Some(recovering) = self.recovering.get_mut(&table_id) else {
            return Ok(());
        };
        let holder = prepare.holder().filter(|_| prepare.is_consistent());
        let holder = holder.filter(|_| prepare.transaction.is_none());
        let Some(sender) = holder else {
            return Ok(());
        };
        let item = (prepare.operation, sender);
        if !recovering.inquiry.note_item(from, attempt, item) {
            return Ok(());
        }
        let table = self.view.table(prepare.table).map(Arc::clone);
        let decided = decision.as_ref().map(|(decision, _)| decision);
        let is_from_side = prepare.side.is_some();
        let prepare = match is_from_side {
            true => prepare,
            false => with_known_votes(prepare, decided, table.as_deref()),
        };
        for place in adoptable(&prepare) {
            let partition = prepare.members[place];
            let key = (prepare.operation, partition);
            let finished = prepare.operation.order() < self.finished_below(prepare.operation.head);
            if !self.partitions.contains_key(&partition) || finished {
                continue;
            }
            if !self.members.contains_key(&key) {
                self.adopt(step.now, key, &prepare, place, step.output);
                self.report_side(key, step.output);
            }
            let member = &self.members[&key];
            // A decision goes up member by member, past durable prepares (R1): one that comes from
            // further down may have overtaken a member that has lost its prepare. The head will ask
            // for it along the chain. With `replicated` it is taken, for it may be all that is left
            // of one that was seen, but position x does not settle it before it has come up the
            // chain. The sender may have it from a report itself: only what the decider sends to
            // the member before it skips no member.
            let is_side = place >= prepare.chain().len();
            let in_order = match is_side {
                true => sender == 0,
                false => sender <= place + 1 && !is_from_side,
            };
            let passed = !member.table.sync || in_order;
            let skips_none = member.is_decider() || in_order && sender + 1 == prepare.chain().len();
            if let Some((decision, settled)) = decision.clone().filter(|_| passed) {
                let incoming = IncomingDecision {
                    decision,
                    settled,
                    in_order: skips_none,
                };
                self.on_decision(key, incoming, step)?;
            } else if member.is_decider() && member.table.sync && member.decision().is_none() {
                let position = member.prepared_at().expect("adopted with its vote");
                self.awaited.push(position, key);
            }
        }
        self.end_recovery(table_id, step)
    }

    /// Logs a vote again that this core had cast.
    pub(crate) fn adopt(
        &mut self,
        now: ClockReading,
        key: MemberKey,
        prepare: &Arc<Prepare>,
        place: usize,
        output: &mut CoreOutput,
    ) {
        self.counters.adopted += 1;
        let mut prepare = Prepare::clone(prepare);
        let side = place.checked_sub(prepare.chain().len());
        prepare.side = side.map(|side| u8::try_from(side).expect("members are few"));
        prepare.votes.truncate(side.map_or(place + 1, |_| 1));
        let prepare = Arc::new(prepare);
        let durability = self.partitions[&key.1].table.durability();
        let record = Record::Prepared {
            partition: key.1,
            prepare: Arc::clone(&prepare),
        };
        let position = self.append(&record, durability, output);
        self.know_versions(&prepare);
        self.take_back(now, prepare, place, position);
        if place == 0 {
            self.watch(key, now.monotonic_us + self.limits.retry_us);
        }
    }

    pub(crate) fn on_recover_end<T: Tables>(
        &mut self,
        from: CoreId,
        (table, attempt): (TableId, u64),
        count: u64,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let Some(recovering) = self.recovering.get_mut(&table) else {
            return Ok(());
        };
        if !recovering.inquiry.note_end(from, attempt, count) {
            return Ok(());
        }
        self.end_recovery(table, step)
    }

    fn end_recovery<T: Tables>(
        &mut self,
        table: TableId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let recovering = self.recovering.get(&table);
        if !recovering.is_some_and(|recovering| recovering.inquiry.is_complete()) {
            return Ok(());
        }
        let recovered = self.recovering.remove(&table).expect("checked above");
        self.hurry(step.now, |member: &Member| member.prepare.table == table);
        if self.recovering.is_empty() {
            let text = format!(
                "caught up with its peers: {} operations adopted, {} open",
                self.counters.adopted,
                self.members.len()
            );
            self.note(&text, step.output);
            // Old incarnations' operations of this head that no core knows any more are finished.
            self.confirmations.owe(self.peers());
            self.confirmations.send_by(step.now.monotonic_us);
        }
        for (key, decided) in recovered.decisions {
            if self.members.contains_key(&key) {
                self.on_decision(key, decided, step)?;
            }
        }
        // Operations that were reported as finished meanwhile could not be forgotten before they
        // were settled.
        let lines: Vec<_> = self.finished.iter().collect();
        for line in lines {
            self.forget(line, step)?;
        }
        self.ask_covers(step.now, step.output);
        Ok(())
    }
}

/// Returns the members, as indexes, that can take their part in an operation from a peer's prepare:
/// those of which the prepare has votes, and the side members, which have none. A side member's
/// prepare has the head's vote alone.
fn adoptable(prepare: &Prepare) -> impl Iterator<Item = usize> + use<> {
    let sides = match prepare.side {
        None if planted::is(Bug::SidesAdoptNothing) => 0..0,
        None => prepare.chain().len()..prepare.members.len(),
        Some(_) => 0..0,
    };
    let count = match prepare.side {
        Some(_) if planted::is(Bug::SidesNotAsked) => 0,
        Some(_) => 1,
        None => prepare.votes.len(),
    };
    (0..count).chain(sides)
}

/// Adds votes that are implied, for members that may have forgotten theirs. In a commit all votes
/// were yes; in an abort nothing depends on them any more. If all members that can vote no have
/// voted yes, the others can only vote the same. With `replicated`, one of these may have decided
/// and shown the outcome, so it must not answer as if it had never known the operation (R4, third
/// and fourth case).
pub(crate) fn with_known_votes(
    mut prepare: Arc<Prepare>,
    decision: Option<&Decision>,
    table: Option<&TableInfo>,
) -> Arc<Prepare> {
    let vote = match decision {
        Some(Decision::Commit) => Some(Vote::Yes),
        Some(Decision::Abort(reason)) => Some(Vote::No(reason.clone())),
        None => {
            let agreed = table.is_some_and(|table| !table.sync && table.is_agreed(&prepare));
            agreed.then_some(Vote::Yes)
        }
    };
    if let Some(vote) = vote {
        let count = prepare.chain().len();
        Arc::make_mut(&mut prepare).votes.resize(count, vote);
    }
    prepare
}
