//! The end of a transaction at its coordinator: when clients may see the outcome, when all members
//! have it, and what a coordinator does that has restarted (R43).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use placement::tables::{Tables, TablesError};
use protocol::identity::{
    ClockReading, CoreId, OperationId, PartitionId, Position, RequestId, TableId,
};
use protocol::operation::Decision;
use protocol::planted::{self, Bug};
use protocol::transaction::{TransactionContent, TransactionResult};

use super::progress::{Coordinated, MemberProgress, Stage};
use crate::core::CoreMachine;
use crate::core::contract::CoreOutput;
use crate::core::step::Step;

/// Failure domains of a table's copies that a transaction changes.
#[derive(Debug, Default)]
pub(crate) struct ChangedDomains<'a> {
    /// The failures that the table tolerates.
    failures: usize,
    pub all: BTreeSet<&'a str>,
    /// Those with a member that counts.
    pub counted: BTreeSet<&'a str>,
}

impl ChangedDomains<'_> {
    /// Returns the number of domains that must have a commit before clients see it (R43).
    pub fn needed(&self) -> usize {
        (self.failures + 1).min(self.all.len())
    }
}

impl CoreMachine {
    /// Handles a member's report that it has the decision durably.
    pub(super) fn on_kept<T: Tables>(
        &mut self,
        (operation, id): (OperationId, PartitionId),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let member = coordinated.and_then(|coordinated| {
            coordinated.decision()?;
            coordinated.member_mut(id)
        });
        let Some(member) = member else {
            return Ok(());
        };
        member.has_kept = true;
        self.see_if_durable(operation, step)
    }

    /// Lets clients see a commit once it is durable in f + 1 failure domains of each table that it
    /// changes (R43).
    pub(super) fn see_if_durable<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = &self.transactions.coordinated[&operation];
        if coordinated.is_seen || coordinated.decision() != Some(&Decision::Commit) {
            return Ok(());
        }
        if !self.is_kept_widely(coordinated) && !planted::is(Bug::CommitSeenBeforeKept) {
            return Ok(());
        }
        let (request, tables) = (coordinated.request.clone(), coordinated.tables.clone());
        let members: Vec<PartitionId> = coordinated.members.iter().map(|it| it.id).collect();
        let at = coordinated.at;
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        coordinated.expect("it was just there").is_seen = true;
        // Before the client sends the request again.
        self.sessions.complete(at, &request, &request.result);
        for id in members {
            let content = TransactionContent::Decision {
                to: id,
                decision: Decision::Commit,
                settled: true,
            };
            self.send_to_member(id, (operation, &tables), content, step.output);
        }
        // Without an effect it shows rows, as a read does.
        let is_local = !request.result.took_effect();
        let lease_us = is_local.then(|| self.lease_until_us(step.now, at.table));
        let terms = (Position(0), lease_us);
        self.answer_waiters(request.request, request.result, terms, step.output);
        Ok(())
    }

    /// Returns whether members in f + 1 failure domains of each changed table have the decision
    /// durably: of copies, for an entry of a thin index is none.
    fn is_kept_widely(&self, coordinated: &Coordinated) -> bool {
        let changed = coordinated.members.len() - coordinated.unchanged;
        // Without a change, its answer must survive a restart of the primaries.
        if changed == 0 {
            return coordinated.all(|member| member.has_kept || member.has_ended);
        }
        let members = coordinated.members[..changed].iter();
        let members = members.map(|member| (member.id, member.has_kept || member.has_ended));
        let domains = self.changed_domains(members);
        domains.values().all(|it| it.counted.len() >= it.needed())
    }

    /// Returns the failure domains of the copies among these members, by table. Each member comes
    /// with whether it counts.
    pub(crate) fn changed_domains(
        &self,
        members: impl Iterator<Item = (PartitionId, bool)>,
    ) -> BTreeMap<TableId, ChangedDomains<'_>> {
        let mut domains: BTreeMap<TableId, ChangedDomains<'_>> = BTreeMap::new();
        for (id, counts) in members {
            let (table, place) = (self.view.table(id.table), self.view.place(id));
            let (Some(table), Some(place)) = (table, place) else {
                continue;
            };
            let server = self.view.configuration().server(place.core.server);
            let is_thin = table.is_thin(id);
            let Some(server) = server.filter(|_| !is_thin) else {
                continue;
            };
            let of_table = domains.entry(id.table).or_default();
            of_table.failures = usize::from(table.schema.failures_tolerated);
            of_table.all.insert(&server.domain);
            if counts {
                of_table.counted.insert(&server.domain);
            }
        }
        domains
    }

    /// Handles a member's report that the transaction has ended there.
    pub(super) fn on_ended<T: Tables>(
        &mut self,
        (operation, id): (OperationId, PartitionId),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.decision().is_some()) else {
            return Ok(());
        };
        if let Some(member) = coordinated.member_mut(id) {
            member.has_ended = true;
        }
        self.see_if_durable(operation, step)?;
        self.end_if_over(step.now, operation);
        Ok(())
    }

    /// Counts the members of dropped tables as ended.
    pub(super) fn leave_out_dropped<T: Tables>(
        &mut self,
        operation: OperationId,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let coordinated = coordinated.expect("callers have it");
        for member in &mut coordinated.members {
            if self.view.place(member.id).is_none() {
                member.has_answered = true;
                member.has_ended = true;
            }
        }
        let table = coordinated.tables[0];
        if coordinated.stage == Stage::Asking && coordinated.all(|member| member.has_answered) {
            let result = TransactionResult::conflict(table);
            let abort = Decision::abort_transaction(result);
            return self.decide_transaction(operation, abort, step);
        }
        if coordinated.decision().is_some() {
            self.see_if_durable(operation, step)?;
            self.end_if_over(step.now, operation);
        }
        Ok(())
    }

    /// Forgets a transaction that has ended at all members, and draws the line below it.
    fn end_if_over(&mut self, now: ClockReading, operation: OperationId) {
        let coordinated = &self.transactions.coordinated[&operation];
        let is_gone = |id: PartitionId| self.view.place(id).is_none();
        let is_over = coordinated.is_seen && coordinated.all(|it| it.has_ended || is_gone(it.id));
        if !is_over {
            return;
        }
        let members = coordinated.members.iter();
        let places = members.filter_map(|member| self.view.place(member.id));
        let cores: Vec<CoreId> = places.map(|place| place.core).collect();
        self.transactions.coordinated.remove(&operation);
        self.operations.end(operation);
        self.confirmations
            .send_by(now.monotonic_us + self.limits.confirm_us);
        self.confirmations.owe(cores);
    }

    /// Answers a member that has heard nothing for long.
    pub(super) fn on_ask(
        &mut self,
        from: CoreId,
        (operation, member): (OperationId, PartitionId),
        output: &mut CoreOutput,
    ) {
        // An operation whose members are in the log of this core is known from its start on.
        if self.transactions.coordinated.contains_key(&operation)
            || operation.head != self.identity.core
        {
            return;
        }
        let content = TransactionContent::Over {
            to: member,
            finished_below: self.own_finished(),
        };
        let of = (operation, core::slice::from_ref(&member.table));
        self.send_transaction(from, of, Position(0), content, output);
    }

    /// Handles a member's answer to a coordinator that has restarted.
    pub(super) fn on_known<T: Tables>(
        &mut self,
        (operation, id): (OperationId, PartitionId),
        decision: Option<Decision>,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let coordinated = self.transactions.coordinated.get_mut(&operation);
        let Some(coordinated) = coordinated.filter(|it| it.stage == Stage::Asking) else {
            return Ok(());
        };
        let table = coordinated.tables[0];
        if let Some(member) = coordinated.member_mut(id) {
            member.has_answered = true;
        }
        let is_complete = coordinated.all(|member| member.has_answered);
        let abort = || Decision::abort_transaction(TransactionResult::conflict(table));
        match decision {
            Some(decision) => self.decide_transaction(operation, decision, step),
            // No member has one, and none accepts one that was sent before the restart.
            None if is_complete => self.decide_transaction(operation, abort(), step),
            None => Ok(()),
        }
    }

    /// Takes the transactions up again that this core coordinated before it restarted, from the
    /// members in its log.
    pub(crate) fn resume_transactions(&mut self, now: ClockReading) {
        let own = self.identity.core;
        let mut resumed: Vec<Coordinated> = Vec::new();
        let mut names = Vec::new();
        for (key, member) in self.members.iter() {
            let prepare = &member.prepare;
            let is_own = key.0.head == own && prepare.transaction.is_some();
            if !is_own || names.last() == Some(&key.0) {
                continue;
            }
            let Some(request) = prepare.requests.first() else {
                continue;
            };
            names.push(key.0);
            let members = prepare.members.iter();
            let members = members.map(|id| MemberProgress::new(*id, None));
            resumed.push(Coordinated {
                stage: Stage::Asking,
                attempts: 1,
                members: members.collect(),
                unchanged: prepare.members.len() - prepare.changed().len(),
                retry_us: self.limits.retry_us,
                ..Coordinated::new(request.clone(), key.1, prepare.tables(), now)
            });
        }
        for (operation, coordinated) in names.into_iter().zip(resumed) {
            self.operations.resume(operation);
            let request = &coordinated.request;
            let is_known = self.sessions.effect_of(request.request).is_some();
            if !is_known {
                self.requests.resume(request.request, request.digest);
            }
            self.transactions.coordinated.insert(operation, coordinated);
        }
    }

    /// Returns whether this core coordinates the request of a transaction.
    pub(crate) fn coordinates(&self, request: RequestId) -> bool {
        let mut coordinated = self.transactions.coordinated.values();
        coordinated.any(|it| it.request.request == request)
    }
}
