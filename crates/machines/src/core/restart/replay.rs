//! Replays a core's own log after a restart, with its votes, decisions and settled operations.

use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::tables::Tables;
use protocol::codec::Wire;
use protocol::identity::{ClockReading, CoreId, FinishedLine, PartitionId, Position};
use protocol::message::RowPage;
use protocol::operation::{Decision, Prepare, Vote};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::member::{MemberKey, members_below};
use crate::core::restart::checkpoint::RecoveryError;
use crate::core::step::Step;

impl CoreMachine {
    // tidy: long — a dispatching match over the kinds of records.
    /// Replays one record of the log. Records come in order, from [`CoreMachine::retain_from`] of
    /// the checkpoint on.
    ///
    /// # Errors
    /// See [`RecoveryError`]; not to be retried.
    pub fn replay<T: Tables>(
        &mut self,
        position: Position,
        record: &[u8],
        tables: &mut T,
    ) -> Result<(), RecoveryError> {
        let record = Record::decode_all(record);
        let record = record.map_err(|error| RecoveryError::Record(position, error))?;
        // Messages sent here go nowhere: neighbours are asked once the log is read.
        let step = &mut Step {
            now: ClockReading::default(),
            tables,
            output: &mut CoreOutput::default(),
        };
        self.log.replay_at(position);
        match record {
            Record::Prepared { partition, prepare } => {
                self.log.note_epoch(prepare.epoch);
                let below = (prepare.operation.head, prepare.finished_below);
                if planted::is(Bug::ReplayedLineSettles) {
                    self.on_finished(below, step)?;
                }
                self.forget_settled(below);
                // This core knows of these versions, whatever became of the partition that voted.
                self.know_versions(&prepare);
                let place = prepare.holder().unwrap_or(0);
                let is_own = prepare.members.get(place) == Some(&partition);
                // The checkpoint can name a tenure that began after this record.
                let is_present = prepare.epoch >= self.tenures.of(partition).since;
                if is_own && is_present && self.is_of_tenure(partition) {
                    self.take_back(step.now, prepare, place, position);
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
                    self.settle(key, step)?;
                }
            }
            Record::Settled {
                partition,
                operation,
            } => {
                let key = (operation, partition);
                let member = self.members.get(&key);
                if member.is_some_and(|member| member.decision().is_some() && !member.is_settled())
                {
                    self.settle(key, step)?;
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
                self.replay_copied(partition, rows, step.tables)?;
            }
            Record::Matched {
                partition,
                rows,
                gone,
            } if self.is_of_tenure(partition) => {
                if !self.log.rows_are_newer() {
                    let page = RowPage {
                        rows,
                        ..RowPage::default()
                    };
                    self.put_matched(partition, &page, &gone, step.tables)?;
                }
            }
            Record::Copied { .. } | Record::Matched { .. } => {}
            Record::Whole { partition } => {
                if self.is_of_tenure(partition) {
                    self.tenures.note_whole(partition);
                }
            }
            Record::Versions { last } => {
                self.versions.log(last);
            }
            Record::Sealed { epoch, tables } => {
                self.log.note_epoch(epoch);
                for sealed in tables {
                    self.sealing.note(position, epoch, sealed);
                }
            }
            Record::Resolved { epoch, tables } => {
                self.log.note_epoch(epoch);
                self.settle_resolved(&tables.into_iter().collect(), step)?;
            }
            Record::Given {
                partition,
                since,
                start,
            } => {
                self.log.note_epoch(since);
                self.give(partition, since, start, step)?;
            }
        }
        Ok(())
    }

    /// Returns whether the log's records of a partition at this point belong to the core's present
    /// tenure. Between tenures the partition may have been at other cores.
    pub(crate) fn is_of_tenure(&self, partition: PartitionId) -> bool {
        let since = self
            .view
            .configuration()
            .tenure(partition, self.identity.core);
        since == Some(self.tenures.of(partition).since)
    }

    /// Takes up a decision; true if it may be settled with that.
    fn replay_decision(&mut self, key: MemberKey, decision: Decision, position: Position) -> bool {
        // Decisions of an epoch's end are settled when the next epoch serves.
        let Some(member) = self.members.get_mut(&key) else {
            return false;
        };
        let tables = member.prepare.tables().into_iter();
        let resolved_in = match member.is_transaction() {
            true => tables.filter_map(|it| self.sealing.sealed_epoch(it)).max(),
            false => self.sealing.sealed_epoch(key.1.table),
        };
        if member.is_settled() || member.decision().is_some() && resolved_in.is_none() {
            return false;
        }
        member.decide(decision, position, resolved_in);
        resolved_in.is_none()
    }

    /// Drops settled operations that a later record of their head calls finished. Others wait for
    /// the end of the recovery: the record can be from a recovery or from the end of an epoch, in
    /// which they were not settled yet, and a checkpoint can include the record and not their
    /// effects.
    fn forget_settled(&mut self, (head, before): (CoreId, FinishedLine)) {
        self.finished.raise(head, before);
        let range = members_below(head, before);
        let settled = self
            .members
            .range(range)
            .filter(|(_, member)| member.is_settled());
        let keys: Vec<MemberKey> = settled.map(|(key, _)| *key).collect();
        for key in keys {
            self.members.remove(&key);
            if head == self.identity.core {
                self.operations.end(key.0);
            }
        }
    }

    /// Restores an operation that this core had voted on, with its vote.
    pub(crate) fn take_back(
        &mut self,
        now: ClockReading,
        prepare: Arc<Prepare>,
        place: usize,
        position: Position,
    ) {
        let key = (prepare.operation, prepare.members[place]);
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
        let vote = match member.is_transaction() {
            true => member.prepare.votes.first(),
            false => member.prepare.votes.get(place),
        };
        let voted_no = vote.is_some_and(|vote| *vote != Vote::Yes);
        let is_released = partition.is_thin() && planted::is(Bug::UniqueEntriesReleased);
        let waits = !voted_no && !is_released && !planted::is(Bug::ReadBeforeRecovery);
        for held in member.held.iter().filter(|_| waits) {
            partition.locks.force(held, key.0);
        }
        member.grant_all();
        member.prepare_at(position);
        if member.is_transaction() {
            // `resume_transactions` takes up those that this core coordinates.
        } else if place == 0 {
            self.operations.resume(key.0);
            let prepare = Arc::clone(&member.prepare);
            self.resume_requests(&prepare);
        }
        self.members.insert(key, member);
    }
}
