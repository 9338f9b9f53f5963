//! A restarted core: its own log first, then what its peers remember of it.
//!
//! A prepare may have been forwarded before it was durable (SAFETY R1), so the log can lack votes
//! that this core has given, and giving another one could commit two rows of one unique key.
//! Therefore a restarted core votes on nothing until every peer has told it of each operation that
//! both take part in: it adopts its own votes from there. Peers keep operations until every
//! member has the outcome durably (`confirm`), so that nothing is missing. Messages of its earlier
//! life that arrive later are dropped by their incarnation. Nor does it answer reads before: a lookup
//! at the decider sees an outcome while prepares further up are not durable yet, so that a member
//! which has lost its own would tell the old row afterwards.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::ControlFlow;

use placement::tables::{Tables, TablesError};

use super::inquiry::Inquiry;
use super::moves::Held;
use super::settle::newest_version;
use super::table::TableInfo;
use super::{CoreMachine, Member, MemberKey, Output, Send, Told};
use crate::codec::{DecodeError, Wire};
use crate::identity::{CoreId, Finished, Now, OperationId, PartitionId, Position, Version};
use crate::message::{PeerMessage, RowPage};
use crate::operation::{Decision, Prepare, Vote};
use crate::planted::{self, Bug};
use crate::record::{Record, SavedCompletion};

/// The sorted table for what lives outside rows; no partition has this number.
pub(super) const SAVED_TABLE: u64 = u64::MAX;
const LOGGED_KEY: &[u8] = b"logged";
const VERSION_KEY: &[u8] = b"version";
const EPOCH_KEY: &[u8] = b"epoch";
const SESSION_FLOOR_KEY: &[u8] = b"sessions";
const COMPLETION_PREFIX: &[u8] = b"completion/";
const HELD_PREFIX: &[u8] = b"held/";
const FINISHED_PREFIX: &[u8] = b"finished/";

/// A log or a checkpoint that this program cannot take up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryError {
    /// A record with a valid checksum does not decode: another program wrote it.
    Record(Position, DecodeError),
    /// What a checkpoint saved does not decode.
    Checkpoint(DecodeError),
    /// A cold read failed.
    Tables(TablesError),
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Record(position, error) => write!(
                f,
                "log record {} is intact but unreadable ({error}): was the folder written by a \
                 newer release?",
                position.0
            ),
            RecoveryError::Checkpoint(error) => write!(
                f,
                "the checkpoint is unreadable ({error}): was the folder written by a newer \
                 release?"
            ),
            RecoveryError::Tables(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for RecoveryError {}

impl From<TablesError> for RecoveryError {
    fn from(error: TablesError) -> Self {
        RecoveryError::Tables(error)
    }
}

/// What a restarted core is still waiting to be told.
#[derive(Debug)]
pub(super) struct Recovering {
    inquiry: Inquiry,
    /// Decisions heard meanwhile, and whether they are settled. They are logged and applied when
    /// all operations are known, in the order of versions: an earlier operation on the same row may
    /// be told of last, and must not bring back what a later one has removed.
    decisions: BTreeMap<MemberKey, Told>,
}

impl Recovering {
    /// Keeps a decision for the end of recovery.
    pub fn remember(&mut self, key: MemberKey, told: Told) {
        if let Some(known) = self.decisions.get_mut(&key) {
            assert_eq!(known.decision, told.decision, "a decision never changes");
            known.settled |= told.settled;
            known.in_order |= told.in_order;
        } else {
            self.decisions.insert(key, told);
        }
    }

    /// A decision that was heard meanwhile.
    pub fn remembered(&self, key: &MemberKey) -> Option<&Told> {
        self.decisions.get(key)
    }
}

impl CoreMachine {
    /// Saves what lives outside the rows, for a checkpoint taken right after.
    pub fn before_checkpoint<T: Tables>(&self, tables: &mut T) {
        tables.drop_table(SAVED_TABLE);
        let logged = self.next_position.0.to_bytes();
        tables.put(SAVED_TABLE, LOGGED_KEY, &logged);
        tables.put(SAVED_TABLE, VERSION_KEY, &self.last_version.to_bytes());
        tables.put(SAVED_TABLE, EPOCH_KEY, &self.epoch().to_bytes());
        tables.put(
            SAVED_TABLE,
            SESSION_FLOOR_KEY,
            &self.sessions.floor().to_bytes(),
        );
        for (number, completion) in self.sessions.saved().enumerate() {
            let key = [COMPLETION_PREFIX, &(number as u64).to_be_bytes()].concat();
            tables.put(SAVED_TABLE, &key, &completion.to_bytes());
        }
        for (partition, held) in &self.held {
            let key = [HELD_PREFIX, &partition.to_bytes()].concat();
            // What the log has of it is in the checkpoint, be it durable or not: it is not read again.
            let is_whole = held.is_whole || self.logged_whole(*partition);
            let saved = (*partition, held.since, is_whole);
            tables.put(SAVED_TABLE, &key, &saved.to_bytes());
        }
        let own = (self.identity.core, self.own_finished());
        let others = self
            .finished
            .iter()
            .map(|(core, finished)| (*core, *finished));
        for (core, finished) in others.chain([own]) {
            let key = [FINISHED_PREFIX, &core.to_bytes()].concat();
            tables.put(SAVED_TABLE, &key, &(core, finished).to_bytes());
        }
    }

    /// The log from this position on is still needed, whatever a checkpoint holds.
    pub fn retain_from(&self) -> Position {
        let kept = self
            .members
            .values()
            .filter_map(|member| member.prepared_at);
        let sealed = self.sealed_on_disk.map(|sealed| sealed.first_at);
        if planted::is(Bug::LogCutEarly) {
            return self.next_position;
        }
        kept.chain(sealed).min().unwrap_or(self.next_position)
    }

    /// Takes up what a checkpoint saved. The first step of a restart.
    ///
    /// # Errors
    /// See [`RecoveryError`]; nobody may retry.
    pub fn restore<T: Tables>(&mut self, tables: &mut T) -> Result<(), RecoveryError> {
        let mut result = Ok(());
        tables.scan(SAVED_TABLE, b"", None, &mut |key, value| {
            result = self.restore_entry(key, value);
            if result.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        result.map_err(RecoveryError::Checkpoint)?;
        Ok(self.review_entries(tables)?)
    }

    fn restore_entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        if key == LOGGED_KEY {
            self.rows_from = Position(Wire::decode_all(value)?);
        } else if key == VERSION_KEY {
            self.last_version = Version::decode_all(value)?;
        } else if key == EPOCH_KEY {
            self.epoch_on_disk = Wire::decode_all(value)?;
        } else if key == SESSION_FLOOR_KEY {
            self.sessions.end_below(Wire::decode_all(value)?);
        } else if key.starts_with(COMPLETION_PREFIX) {
            let saved = SavedCompletion::decode_all(value)?;
            self.sessions.keep(saved.head, &saved.request);
        } else if key.starts_with(HELD_PREFIX) {
            let (partition, since, is_whole) = Wire::decode_all(value)?;
            self.held.insert(partition, Held { since, is_whole });
        } else if key.starts_with(FINISHED_PREFIX) {
            let (core, finished) = <(CoreId, Finished)>::decode_all(value)?;
            self.finished.insert(core, finished);
        }
        Ok(())
    }

    // tidy: long — a dispatching match over the kinds of records.
    /// Takes up one record of the log. Records come in order, from [`CoreMachine::retain_from`]
    /// of the checkpoint on.
    ///
    /// # Errors
    /// See [`RecoveryError`]; nobody may retry.
    pub fn replay<T: Tables>(
        &mut self,
        position: Position,
        record: &[u8],
        tables: &mut T,
    ) -> Result<(), RecoveryError> {
        let record = Record::decode_all(record);
        let record = record.map_err(|error| RecoveryError::Record(position, error))?;
        // Nobody hears what is said here: neighbours are asked once the log is read.
        let mut unheard = Output::default();
        let now = Now::default();
        self.next_position = position;
        match record {
            Record::Prepared { partition, prepare } => {
                self.epoch_on_disk = self.epoch_on_disk.max(prepare.epoch);
                let below = (prepare.operation.head, prepare.finished_below);
                self.on_finished(now, below, tables, &mut unheard)?;
                self.forget_own(below);
                // Whatever became of the partition that voted: this core knows of these versions.
                self.know_versions(&prepare);
                let place = prepare.votes.len().saturating_sub(1);
                let is_own = prepare.chain.get(place) == Some(&partition);
                if is_own && self.is_of_tenure(partition) {
                    self.take_back(now, prepare, place, position);
                }
            }
            Record::Decided {
                partition,
                operation,
                decision,
                settles,
            } => {
                let key = (operation, partition);
                if self.replay_decision(key, decision, position) && settles {
                    self.settle(now, key, tables, &mut unheard)?;
                }
            }
            Record::Settled {
                partition,
                operation,
            } => {
                let key = (operation, partition);
                let member = self.members.get(&key);
                if member.is_some_and(|member| member.decision.is_some() && !member.settled) {
                    self.settle(now, key, tables, &mut unheard)?;
                }
            }
            Record::Completed {
                partition,
                requests,
            } => {
                for request in &requests {
                    self.sessions.keep(partition, request);
                }
            }
            Record::Copied { partition, rows } if self.is_of_tenure(partition) => {
                self.replay_copied(partition, rows, tables)?;
            }
            Record::Matched {
                partition,
                rows,
                gone,
            } if self.is_of_tenure(partition) => {
                if self.next_position >= self.rows_from {
                    let page = RowPage {
                        rows,
                        ..RowPage::default()
                    };
                    self.put_matched(partition, &page, &gone, tables)?;
                }
            }
            Record::Copied { .. } | Record::Matched { .. } => {}
            Record::Whole { partition } => {
                if self.is_of_tenure(partition) {
                    self.note_whole(partition);
                }
            }
            Record::Versions { last } => self.last_version = self.last_version.max(last),
            Record::Sealed {
                epoch,
                forgot_nothing,
            } => {
                self.epoch_on_disk = self.epoch_on_disk.max(epoch);
                self.note_seal(position, epoch, forgot_nothing);
            }
            Record::Resolved { epoch } => {
                self.epoch_on_disk = self.epoch_on_disk.max(epoch);
                self.settle_resolved(now, tables, &mut unheard)?;
            }
            Record::Given {
                partition,
                since,
                start,
            } => {
                self.epoch_on_disk = self.epoch_on_disk.max(since);
                self.give(partition, (since, start), tables, &mut unheard)?;
            }
        }
        Ok(())
    }

    /// Whether what the log has of a partition at this point is of the tenure in which this core
    /// holds it now: it may have been with others meanwhile.
    pub(super) fn is_of_tenure(&self, partition: PartitionId) -> bool {
        let since = self.configuration.tenure(partition, self.identity.core);
        let held = self.held.get(&partition).copied().unwrap_or_default();
        since == Some(held.since)
    }

    /// Takes up a decision; true if it may be settled with that.
    fn replay_decision(&mut self, key: MemberKey, decision: Decision, position: Position) -> bool {
        // What an epoch's end decides is settled when the next one serves.
        let resolved_in = self.sealed_on_disk.map(|sealed| sealed.epoch);
        let Some(member) = self.members.get_mut(&key) else {
            return false;
        };
        if member.settled || member.decision.is_some() && resolved_in.is_none() {
            return false;
        }
        member.decision = Some(decision);
        member.decided_at = position;
        member.resolved_in = resolved_in;
        resolved_in.is_none()
    }

    /// Drops own operations that an own, later record calls finished.
    fn forget_own(&mut self, (head, before): (CoreId, Finished)) {
        if head != self.identity.core {
            return;
        }
        let from = OperationId {
            head,
            ..OperationId::default()
        };
        let known = self.finished.entry(self.identity.core).or_default();
        *known = (*known).max(before);
        let beyond = OperationId {
            incarnation: before.incarnation,
            sequence: before.sequence,
            ..from
        };
        let range = (from, PartitionId::default())..(beyond, PartitionId::default());
        let own = self
            .members
            .range(range)
            .filter(|(_, member)| member.settled);
        let keys: Vec<MemberKey> = own.map(|(key, _)| *key).collect();
        for key in keys {
            self.members.remove(&key);
            self.unfinished.remove(&key.0.order());
        }
    }

    /// Puts back an operation that this core had voted on, with the vote it gave.
    fn take_back(&mut self, now: Now, prepare: Arc<Prepare>, place: usize, position: Position) {
        let key = (prepare.operation, prepare.chain[place]);
        if self.members.contains_key(&key) {
            return;
        }
        let Some(mut member) = self.member(now, prepare, place) else {
            return;
        };
        let partition = self
            .partitions
            .get_mut(&key.1)
            .expect("members' partitions are held");
        let voted_no = matches!(member.prepare.votes[place], Vote::No(_));
        let waits = !voted_no && !planted::is(Bug::ReadBeforeRecovery);
        for held in member.held.iter().filter(|_| waits) {
            partition.locks.force(held, key.0);
        }
        member.granted = member.held.len();
        member.prepared_at = Some(position);
        if place == 0 {
            self.unfinished.insert(key.0.order());
            let prepare = Arc::clone(&member.prepare);
            self.resume_requests(&prepare);
        }
        self.members.insert(key, member);
    }

    /// The log is read: `next` is the position of the next record. Asks the peers what this core
    /// may have forgotten.
    ///
    /// # Errors
    /// A cold read failed.
    pub fn start<T: Tables>(
        &mut self,
        now: Now,
        next: Position,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        assert!(next.0 >= 1, "positions start at 1");
        self.find_left_behind(tables, output)?;
        self.next_position = next;
        self.rows_from = Position(0);
        self.quiet_from_us = now.monotonic_us;
        self.durable = Position(next.0 - 1);
        self.confirmations.clear();
        self.undurable.clear();
        self.counters = Default::default();
        self.take_given(tables, output)?;
        self.end_old_seal(now, tables, output)?;
        self.end_replay(output);
        let keys: Vec<MemberKey> = self.members.keys().copied().collect();
        for key in keys {
            let member = self.members.get_mut(&key).expect("it was just listed");
            member.since_us = now.monotonic_us;
            member.confirmed = false;
            if member.place == 0 {
                self.watch(key, now.monotonic_us + self.limits.retry_us);
            }
            let member = &self.members[&key];
            if member.decision.is_some() {
                let position = member.decided_at;
                self.undurable.push_back((position, key));
            } else if member.is_decider() && member.table.sync {
                let position = member.prepared_at.expect("a replayed member is prepared");
                self.undurable.push_back((position, key));
            }
        }
        self.undurable.make_contiguous().sort_unstable();
        let peers = self.peers();
        if planted::is(Bug::CompletionsNotRestored) {
            self.sessions = Default::default();
        }
        if !peers.is_empty() && !planted::is(Bug::RecoverySkipped) {
            let question = |attempt| PeerMessage::Recover { attempt };
            self.recovering = Some(Recovering {
                inquiry: Inquiry::new(question, peers.into_iter()),
                decisions: BTreeMap::new(),
            });
            self.recover_again(output);
        }
        self.seal(now, tables, output)?;
        self.review_fills(now, tables, output)?;
        let durable = self.durable;
        self.on_durable(now, durable, tables, output)?;
        output.deadline_us = Some(now.monotonic_us);
        Ok(())
    }

    /// What the log had of partitions that this core gave away is settled by now.
    fn end_replay(&mut self, output: &mut Output) {
        self.is_replaying = false;
        let (configuration, own) = (Arc::clone(&self.configuration), self.identity.core);
        let is_own = |id| {
            configuration
                .place(id)
                .is_some_and(|place| place.core == own)
        };
        let given = self.partitions.extract_if(.., |id, _| !is_own(*id));
        let given: Vec<_> = given.collect();
        for (id, partition) in given {
            self.others.insert(id, partition);
            self.drop_members(id, output);
        }
    }

    /// The epoch has changed: what peers told in the one before no longer counts. All of it must
    /// come from one epoch, and so from one life of each peer: otherwise a peer that has told an
    /// operation to another one only, and has forgotten it by a restart since, would be heard
    /// twice, and the operation by nobody. Nobody is left to ask where all shared tables are gone.
    pub(super) fn recover_anew<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let peers = self.peers();
        if let Some(recovering) = &mut self.recovering {
            recovering.inquiry.restart(peers.into_iter());
            self.recover_again(output);
        }
        self.end_recovery(now, tables, output)
    }

    /// Asks all peers that have not told everything.
    pub(super) fn recover_again(&mut self, output: &mut Output) {
        if self.stands_still() {
            return;
        }
        if let Some(recovering) = &mut self.recovering {
            recovering.inquiry.ask_all(output);
        }
    }

    /// Asks one peer, which has just been connected.
    pub(super) fn ask_again(&mut self, core: CoreId, output: &mut Output) {
        if let Some(recovering) = &mut self.recovering {
            recovering.inquiry.ask(core, output);
        }
    }

    /// What came from a restarted peer and waits for keys here has no vote to tell of. It is
    /// dropped, for the peer may have forgotten it: if nobody else remembers, it must not be voted
    /// on and decided behind the back of its own members. Whoever does remember sends it again.
    fn drop_waiting<T: Tables>(
        &mut self,
        now: Now,
        from: CoreId,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let came_from = |member: &Member| {
            let before = &member.prepare.chain[..member.place];
            self.configuration.takes_part(from, before)
        };
        let waiting = self
            .members
            .iter()
            .filter(|(_, member)| member.prepared_at.is_none() && came_from(member));
        let waiting: Vec<MemberKey> = waiting.map(|(key, _)| *key).collect();
        for key in waiting {
            // Letting go of an earlier one's keys may have let it in.
            let waits = self
                .members
                .get(&key)
                .is_some_and(|member| member.prepared_at.is_none());
            if waits {
                self.release(now, key, tables, output)?;
                self.members.remove(&key);
            }
        }
        Ok(())
    }

    /// A restarted peer asks: tells every operation that its core takes part in.
    pub(super) fn on_recover<T: Tables>(
        &mut self,
        now: Now,
        (from, attempt): (CoreId, u64),
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        self.drop_waiting(now, from, tables, output)?;
        let mut count = 0;
        for (key, member) in self
            .members
            .iter()
            .filter(|(_, member)| member.prepared_at.is_some())
        {
            if !self.configuration.takes_part(from, &member.prepare.chain) {
                continue;
            }
            count += 1;
            let decision = self.decision_to_tell(key, member);
            let prepare = Arc::clone(&member.prepare);
            let message = PeerMessage::Adopt {
                attempt,
                prepare,
                decision,
            };
            output.sends.push(Send {
                to: from,
                after: Position(0),
                message,
            });
        }
        let finished_below = self.own_finished();
        let message = PeerMessage::RecoverEnd {
            attempt,
            count,
            finished_below,
        };
        output.sends.push(Send {
            to: from,
            after: Position(0),
            message,
        });
        Ok(())
    }

    /// What a restarted peer may be told of an operation's decision. As on the way up, it is not
    /// told before this member's own record of it is durable. With `replicated` there is nothing
    /// to wait for: also what this core has been told itself, while it recovers, goes on.
    fn decision_to_tell(&self, key: &MemberKey, member: &Member) -> Option<(Decision, bool)> {
        if let Some(decision) = &member.decision {
            let told = member.decision_after() <= self.durable;
            return told.then(|| (decision.clone(), member.settled));
        }
        let recovering = self.recovering.as_ref().filter(|_| !member.table.sync);
        let told = recovering?.remembered(key)?;
        Some((told.decision.clone(), told.settled))
    }

    /// A peer tells of an operation: takes back what this core had voted, and the outcome.
    pub(super) fn on_adopt<T: Tables>(
        &mut self,
        now: Now,
        (from, attempt): (CoreId, u64),
        prepare: Arc<Prepare>,
        decision: Option<(Decision, bool)>,
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        let Some(recovering) = &mut self.recovering else {
            return Ok(());
        };
        let item = (prepare.operation, prepare.votes.len());
        if !recovering.inquiry.hear(from, attempt, item) {
            return Ok(());
        }
        let sender = prepare.votes.len().saturating_sub(1);
        let table = self.tables.get(&prepare.table).map(Arc::clone);
        let decided = decision.as_ref().map(|(decision, _)| decision);
        let prepare = with_known_votes(prepare, decided, table.as_deref());
        for place in 0..prepare.votes.len() {
            let partition = prepare.chain[place];
            let key = (prepare.operation, partition);
            let finished = prepare.operation.order() < self.finished_below(prepare.operation.head);
            if !self.partitions.contains_key(&partition) || finished {
                continue;
            }
            if !self.members.contains_key(&key) {
                self.adopt(now, key, &prepare, place, output);
            }
            let member = &self.members[&key];
            // A decision goes up member by member, past durable prepares (SAFETY R1): one that comes
            // from further down may have overtaken a member that has lost its prepare. The head
            // will ask for it along the chain. With `replicated` it is taken, for it may be all that
            // is left of one that was seen, but position x does not settle it before it has come
            // up the chain.
            let in_order = sender <= place + 1;
            let passed = !member.table.sync || in_order;
            if let Some((decision, settled)) = decision.clone().filter(|_| passed) {
                let told = Told {
                    decision,
                    settled,
                    in_order,
                };
                self.on_decision(now, key, told, tables, output)?;
            } else if member.is_decider() && member.table.sync && member.decision.is_none() {
                let position = member.prepared_at.expect("adopted with its vote");
                self.undurable.push_back((position, key));
            }
        }
        self.end_recovery(now, tables, output)
    }

    /// Logs again a vote that this core had given.
    pub(super) fn adopt(
        &mut self,
        now: Now,
        key: MemberKey,
        prepare: &Arc<Prepare>,
        place: usize,
        output: &mut Output,
    ) {
        self.counters.adopted += 1;
        let mut prepare = Prepare::clone(prepare);
        prepare.votes.truncate(place + 1);
        let prepare = Arc::new(prepare);
        let durability = self.partitions[&key.1].table.durability();
        let record = Record::Prepared {
            partition: key.1,
            prepare: Arc::clone(&prepare),
        };
        let position = self.log(&record, durability, output);
        self.know_versions(&prepare);
        self.take_back(now, prepare, place, position);
        if place == 0 {
            self.watch(key, now.monotonic_us + self.limits.retry_us);
        }
    }

    pub(super) fn on_recover_end<T: Tables>(
        &mut self,
        now: Now,
        (from, attempt): (CoreId, u64),
        count: u64,
        (tables, output): (&mut T, &mut Output),
    ) -> Result<(), TablesError> {
        let Some(recovering) = &mut self.recovering else {
            return Ok(());
        };
        if !recovering.inquiry.hear_end(from, attempt, count) {
            return Ok(());
        }
        self.end_recovery(now, tables, output)
    }

    fn end_recovery<T: Tables>(
        &mut self,
        now: Now,
        tables: &mut T,
        output: &mut Output,
    ) -> Result<(), TablesError> {
        let Some(recovering) = &self.recovering else {
            return Ok(());
        };
        if !recovering.inquiry.is_complete() {
            return Ok(());
        }
        let decisions = self.recovering.take().expect("checked above").decisions;
        let text = format!(
            "caught up with its peers: {} operations adopted, {} open",
            self.counters.adopted,
            self.members.len()
        );
        self.note(&text, output);
        self.hurry(now, |_: &Member| true);
        // Old incarnations' operations of this head that nobody knows any more are finished.
        self.finished_owed.extend(self.peers());
        self.confirm_due_us.get_or_insert(now.monotonic_us);
        let mut ordered: Vec<_> = decisions
            .into_iter()
            .filter_map(|(key, decided)| {
                Some((newest_version(self.members.get(&key)?), key, decided))
            })
            .collect();
        ordered.sort_unstable_by_key(|(version, key, _)| (*version, *key));
        for (_, key, decided) in ordered {
            self.on_decision(now, key, decided, tables, output)?;
        }
        // What was called finished meanwhile could not be forgotten before it was settled.
        for line in self.finished.clone() {
            self.forget(now, line, tables, output)?;
        }
        self.ask_covers(now, output);
        Ok(())
    }
}

/// Votes that are implied, for members that may have forgotten theirs. All of a commit were yes; of
/// an abort nothing depends on them any more. Where all who can refuse have said yes, the others
/// can only say the same: with `replicated`, one of them may have decided and shown it, so that
/// it must not answer as if it had never known the operation (SAFETY R4, third and fourth case).
pub(super) fn with_known_votes(
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
        let count = prepare.chain.len();
        Arc::make_mut(&mut prepare).votes.resize(count, vote);
    }
    prepare
}
