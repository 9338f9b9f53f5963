//! The head of a chain: it receives requests and sends their results.
//!
//! One operation runs per pk at a time (R6). Requests that queue behind it join the next operation,
//! and each gets its own answer. So writes of a hot key need less than one chain round trip each.
//! Requests without a change (a failed condition, a duplicate pk) end here, with a durable
//! completion record (R13).

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use placement::ValueRef;
use placement::tables::{Tables, TablesError};
use protocol::codec::Wire;
use protocol::identity::{
    ClockReading, CoreId, OperationId, PartitionId, Position, RequestId, ServerId, TableId, Version,
};
use protocol::message::{Execute, Refusal, Reply, Room};
use protocol::operation::{Decision, Mutation, Prepare, RequestRecord, RequestResult, RowChange};
use protocol::planted::{self, Bug};
use protocol::record::Record;

use crate::core::CoreMachine;
use crate::core::answers::ReplyDestination;
use crate::core::chain::evaluate::{self, MutationOutcome};
use crate::core::chain::sessions::RequestStatus;
use crate::core::contract::CoreOutput;
use crate::core::member::MemberKey;
use crate::core::partition::queue::{Queued, QueuedRequest};
use crate::core::partition::rows::stored_row;
use crate::core::step::Step;
use crate::core::table::TableInfo;

impl CoreMachine {
    /// Handles a client's `Execute`: checks it, puts it into the queue of its key, and begins an
    /// operation unless another one runs on the key.
    pub(crate) fn execute<T: Tables>(
        &mut self,
        asker: ReplyDestination,
        execute: Execute,
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        self.counters.requests += 1;
        let Execute {
            request,
            acknowledged_below,
            partition,
            mut mutations,
            ..
        } = execute;
        let digest = digest(&mutations);
        self.notice_epoch(execute.epoch, step.output);
        if let Err(refusal) = self.admit(step.now, &mutations, execute.epoch, partition) {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        self.sessions
            .acknowledge(request.session, acknowledged_below);
        if planted::is(Bug::CompletionForgotten) {
            self.sessions.forget_below(request.session, request.number);
        }
        let named = (request, partition.table);
        if self.is_known(step.now, asker, named, digest, step.output) {
            return Ok(());
        }
        let mutation = mutations
            .pop()
            .expect("admission checked that there is one");
        let table = &self.partitions[&partition].table;
        let checked = evaluate::check(table, &mutation)
            .map_err(|message| Refusal::Invalid { message })
            .and_then(|()| self.check_room());
        if let Err(refusal) = checked {
            self.refuse(asker, refusal, step.output);
            return Ok(());
        }
        let schema = &self.partitions[&partition].table.schema;
        if mutation.action.may_need_reference(schema) {
            // References are checked when all members have voted, which a chain does not do (R57).
            self.requests.begin(request, digest, asker);
            let named = (request, acknowledged_below, digest);
            return self.transact_one(named, (partition, mutation), step);
        }
        self.partitions.note_waiting(partition);
        let queues = &mut self
            .partitions
            .get_mut(&partition)
            .expect("admitted")
            .queues;
        let pk = mutation.pk.0.clone();
        let queue = queues.entry(pk.clone()).or_default();
        if queue.len() >= self.limits.requests_per_key_max {
            self.refuse(asker, Refusal::Overloaded, step.output);
            return Ok(());
        }
        queue.push_back(Queued::Request(QueuedRequest {
            request,
            acknowledged_below,
            digest,
            mutation,
            since_us: step.now.monotonic_us,
            alone: false,
        }));
        self.requests.begin(request, digest, asker);
        self.start_queue(partition, &pk, step)
    }

    /// Answers a request that has ended with its first result. Adds the client to those that wait
    /// for a request that is running (R13). Returns false if the request is new.
    pub(crate) fn is_known(
        &mut self,
        now: ClockReading,
        asker: ReplyDestination,
        (request, table): (RequestId, TableId),
        digest: u64,
        output: &mut CoreOutput,
    ) -> bool {
        // First: a member of the same chain further down, on this core, knows the result before it
        // may be sent, which is when it has come up to the head (R1).
        if let Some(known) = self.requests.digest(request) {
            if known != digest {
                self.refuse(asker, Refusal::RequestMismatch, output);
            } else if let Some(server) = self.lost_to(request) {
                let begun = true;
                self.refuse(asker, Refusal::Lost { server, begun }, output);
            } else {
                self.requests.join(request, asker);
            }
            return true;
        }
        match self.sessions.known(request, digest) {
            RequestStatus::Completed(_) if planted::is(Bug::RetryRunsAgain) => {}
            RequestStatus::Completed(result) => {
                // One without effect is known here alone, and another head may have come to
                // another: it needs the lease as when it was new.
                let is_local = !result.took_effect();
                let valid_until_us = is_local.then(|| self.lease_until_us(now, table));
                let reply = Reply::Executed(result.clone());
                // The record may be younger than the last flush.
                let after = self.log.last();
                self.answer(asker, after, valid_until_us, reply, output);
                return true;
            }
            RequestStatus::Mismatch => {
                self.refuse(asker, Refusal::RequestMismatch, output);
                return true;
            }
            RequestStatus::Ended => {
                self.refuse(asker, Refusal::SessionEnded, output);
                return true;
            }
            RequestStatus::New => {}
        }
        false
    }

    /// Checks that a request may begin at this core now.
    fn admit(
        &self,
        now: ClockReading,
        mutations: &[Mutation],
        epoch: protocol::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        self.check_taking(now, epoch, partition)?;
        let invalid = |message: &str| {
            Err(Refusal::Invalid {
                message: message.into(),
            })
        };
        let [mutation] = mutations else {
            return invalid("an operation has one mutation: several are a transaction");
        };
        let table = &self.partitions[&partition].table;
        match primary_partition(table, &mutation.pk) {
            None => invalid("the primary key does not decode"),
            Some(number) if number != partition.number => Err(Refusal::WrongPartition),
            Some(_) => Ok(()),
        }
    }

    /// Checks that a primary partition of this core may begin operations now.
    pub(crate) fn check_taking(
        &self,
        now: ClockReading,
        epoch: protocol::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        self.check_held(now, epoch, partition)?;
        let fill = self.fills.get(&partition);
        let not_filled = fill.is_some_and(|fill| !fill.takes_requests());
        let table = partition.table;
        if self.recovers(table) || self.stands_still(table) || not_filled {
            return Err(Refusal::NotServing);
        }
        match self.partitions[&partition].table.is_primary(partition) {
            true => Ok(()),
            false => Err(Refusal::Invalid {
                message: "an operation goes to a partition of the primary replex".into(),
            }),
        }
    }

    /// Checks that there is room for a new request.
    pub(crate) fn check_room(&self) -> Result<(), Refusal> {
        if self.space.own() == Room::Full {
            let server = self.identity.core.server;
            return Err(Refusal::DiskFull { server });
        }
        let busy = self.requests.len().max(self.members.len());
        if busy >= self.limits.operations_max {
            return Err(Refusal::Overloaded);
        }
        Ok(())
    }

    /// Checks what every read of a client needs: the partition serves (R17), its copy is not being
    /// dropped (R15), and the epoch and lease are valid.
    pub(crate) fn check_serving(
        &self,
        now: ClockReading,
        epoch: protocol::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        self.check_held(now, epoch, partition)?;
        if self.is_rebuilding(partition) && !planted::is(Bug::ReadWhileRebuilding) {
            return Err(Refusal::NotServing);
        }
        if self.view.configuration().is_leaving(partition) {
            return Err(Refusal::NotServing);
        }
        Ok(())
    }

    /// Checks what every request of a client needs (R15): the table's epoch, the partition, and a
    /// valid lease.
    fn check_held(
        &self,
        now: ClockReading,
        epoch: protocol::identity::Epoch,
        partition: PartitionId,
    ) -> Result<(), Refusal> {
        let known = self.view.table_epoch(partition.table);
        if epoch != known && !planted::is(Bug::EpochUnchecked) {
            return Err(Refusal::StaleEpoch { epoch: known });
        }
        if !self.partitions.contains_key(&partition) {
            return Err(Refusal::WrongPartition);
        }
        if !self.is_leased(now, partition.table) {
            return Err(Refusal::NotServing);
        }
        Ok(())
    }

    fn is_leased(&self, now: ClockReading, table: TableId) -> bool {
        let until_us = self.lease_until_us(now, table);
        until_us > now.monotonic_us || planted::is(Bug::LeaseUnchecked)
    }

    /// Returns whether a walk may hold a free key of a partition at once: nothing but the key's
    /// holders and its queue can make it wait, see [`CoreMachine::start_queue`].
    pub(crate) fn starts_at_once(&self, id: PartitionId) -> bool {
        let partition = &self.partitions[&id];
        let is_quiet = partition.reads.is_empty()
            && partition.holds.is_empty()
            && !partition.table.schema.constraints.has_references();
        let table = id.table;
        let waits =
            self.participation.holds(table) || self.recovers(table) || self.stands_still(table);
        is_quiet && !waits && self.fills.get(&id).is_none()
    }

    /// Begins the next operation on a pk, unless an operation, a read or a snapshot holds the pk.
    pub(crate) fn start_queue<T: Tables>(
        &mut self,
        id: PartitionId,
        pk: &[u8],
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        loop {
            let partition = self.partitions.get(&id);
            let Some(partition) = partition.filter(|it| !it.queues.is_empty()) else {
                return Ok(());
            };
            let behind_read = partition.reads.iter().any(|read| read.covers(pk))
                || partition.holds.iter().any(|hold| hold.covers(pk));
            let held = partition.locks.is_held(pk) && !planted::is(Bug::HeadDoesNotOrder);
            if held && let Some(server) = self.lost_before(id, pk) {
                self.refuse_queue(id, pk, server, step.output);
                return Ok(());
            }
            let waits = behind_read || held || self.participation.holds(id.table);
            if waits || self.recovers(id.table) || self.stands_still(id.table) {
                return Ok(());
            }
            if !partition.queues.contains_key(pk) || self.fetches_for_head(id, pk, step)? {
                return Ok(());
            }
            let partition = &self.partitions[&id];
            let has_references = partition.table.schema.constraints.has_references();
            if has_references && self.returns_reference(id, pk, step.output) {
                continue;
            }
            let partition = self.partitions.get_mut(&id).expect("it was just there");
            let queue = partition.queues.get_mut(pk).expect("it was just there");
            if let Some(Queued::Walk(operation)) = queue.front() {
                let operation = *operation;
                queue.pop_front();
                if queue.is_empty() {
                    partition.queues.remove(pk);
                }
                self.grant_to_walk(operation, (id, pk), step)?;
                continue;
            }
            let table = Arc::clone(&partition.table);
            let stored = step.tables.value(id.rows_table(), pk)?;
            let fold = fold(
                &table,
                id,
                queue,
                stored.as_deref(),
                self.limits.folded_requests_max,
            );
            if queue.is_empty() {
                partition.queues.remove(pk);
            }
            if fold.ended.is_empty() {
                return Ok(());
            }
            let before = stored.as_deref().map(stored_row);
            if fold.writes
                && let Some(refusal) = self.refusal_of(&table, pk, before, &fold)
            {
                let queued = fold.ended.into_iter().map(|(queued, _)| queued);
                self.refuse_undone(queued, &refusal, step.output);
                continue;
            }
            if fold.writes {
                return self.begin(id, (before, fold), step);
            }
            self.end_locally(step.now, (id, &table), fold, step.output);
        }
    }

    /// Refuses the first request of a queue if it came before a foreign key that concerns it. Its
    /// client sends it again, and it runs as a transaction (R57).
    fn returns_reference(&mut self, id: PartitionId, pk: &[u8], output: &mut CoreOutput) -> bool {
        let partition = self.partitions.get_mut(&id).expect("callers have it");
        let queue = partition.queues.get_mut(pk).expect("callers have it");
        let first = queue.front().and_then(Queued::request);
        let schema = &partition.table.schema;
        let concerns = |first: &QueuedRequest| first.mutation.action.may_need_reference(schema);
        let Some(request) = first.filter(|it| concerns(it)).map(|it| it.request) else {
            return false;
        };
        queue.pop_front();
        if queue.is_empty() {
            partition.queues.remove(pk);
        }
        let epoch = self.view.epoch();
        self.refuse_running(request, &Refusal::StaleEpoch { epoch }, output);
        true
    }

    /// Logs the results of requests that change nothing, and answers them: they need no chain.
    fn end_locally(
        &mut self,
        now: ClockReading,
        (id, table): (PartitionId, &TableInfo),
        fold: Fold,
        output: &mut CoreOutput,
    ) {
        let requests = fold
            .ended
            .into_iter()
            .map(|(queued, result)| record_of(&queued, result));
        let requests: Vec<RequestRecord> = requests.collect();
        self.counters.local_results += requests.len() as u64;
        for request in &requests {
            self.sessions.complete(id, request, &request.result);
        }
        let record = Record::Completed {
            partition: id,
            requests,
        };
        let position = self.append(&record, table.durability(), output);
        let after = if table.sync { position } else { Position(0) };
        let Record::Completed { requests, .. } = record else {
            unreachable!("made above")
        };
        for request in requests {
            // It shows the row, as a read does.
            let terms = (after, Some(self.lease_until_us(now, table.id)));
            self.answer_waiters(request.request, request.result, terms, output);
        }
    }

    /// Returns the reason why the chain of a write cannot run: a member is lost, or its disk has no
    /// room. Returns none if it can run.
    fn refusal_of(
        &self,
        table: &TableInfo,
        pk: &[u8],
        before: Option<(Version, &[u8])>,
        fold: &Fold,
    ) -> Option<Refusal> {
        if !self.view.has_lost() && self.space.is_free_everywhere() {
            return None;
        }
        let change = RowChange {
            pk: pk.to_vec().into(),
            version: Version(0),
            old: evaluate::old_row(table, before, fold.image.as_deref()),
            new: fold.image.clone().map(Into::into),
        };
        let (chain, _) = table.members(&change);
        let begun = false;
        if let Some(server) = self.view.lost_in(&chain) {
            return Some(Refusal::Lost { server, begun });
        }
        let bytes_before = before.map_or(0, |(_, row)| row.len());
        let grows = fold
            .image
            .as_ref()
            .is_some_and(|row| row.len() > bytes_before);
        let needed = if grows { Room::Free } else { Room::Reserve };
        let server = self.without_room(&chain, needed)?;
        Some(Refusal::DiskFull { server })
    }

    /// Returns the server of the first member of a chain whose disk has less room than needed; none
    /// if all have enough.
    pub(crate) fn without_room(&self, chain: &[PartitionId], needed: Room) -> Option<ServerId> {
        let places = chain.iter().filter_map(|id| self.view.place(*id));
        let mut cores = places.map(|place| place.core);
        let room = |core: &CoreId| match *core == self.identity.core {
            true => self.space.own(),
            false => self.space.of_peer(*core),
        };
        let core = cores.find(|core| room(core) > needed)?;
        Some(core.server)
    }

    /// Begins an operation: computes the change and its chain, and creates the head's member.
    fn begin<T: Tables>(
        &mut self,
        id: PartitionId,
        (before, fold): (Option<(Version, &[u8])>, Fold),
        step: &mut Step<'_, T>,
    ) -> Result<(), TablesError> {
        let table = Arc::clone(&self.partitions[&id].table);
        let finished_below = self.own_finished();
        let operation = self.operations.begin();
        self.versions
            .see(before.map_or(Version(0), |(version, _)| version));
        let (requests, queued) = self.versioned(step.now, fold.ended);
        self.counters.operations += 1;
        self.counters.folded += requests.len() as u64 - 1;
        let change = RowChange {
            pk: queued[0].mutation.pk.clone(),
            version: self.versions.last(),
            old: evaluate::old_row(&table, before, fold.image.as_deref()),
            new: fold.image.map(Into::into),
        };
        let (mut members, sides) = table.members(&change);
        if planted::is(Bug::ChainReversed) && operation.sequence % 2 == 1 {
            let end = members.len() - usize::from(sides);
            members[1..end].reverse();
        }
        let prepare = Prepare {
            operation,
            epoch: self.view.epoch(),
            finished_below,
            table: table.id,
            members,
            sides,
            side: None,
            votes: Vec::new(),
            changes: alloc::vec![Arc::new(change)],
            requests,
            transaction: None,
        };
        assert_eq!(prepare.members[0], id, "the head is the primary partition");
        if queued.len() > 1 {
            self.requests.fold(operation, queued);
        }
        let key = (operation, id);
        let member = self
            .member(step.now, Arc::new(prepare), 0)
            .expect("the head holds its partition");
        self.members.insert(key, member);
        self.watch(key, step.now.monotonic_us + self.limits.retry_us);
        self.acquire(key, step)?;
        Ok(())
    }

    /// Gives every applied request its own version. The row has the version of the last one.
    fn versioned(
        &mut self,
        now: ClockReading,
        ended: Vec<(QueuedRequest, RequestResult)>,
    ) -> (Vec<RequestRecord>, Vec<QueuedRequest>) {
        let mut requests = Vec::with_capacity(ended.len());
        let mut queued = Vec::with_capacity(ended.len());
        for (request, result) in ended {
            let result = match result {
                RequestResult::Applied { .. } => {
                    let version = self.versions.next(now);
                    RequestResult::Applied { version }
                }
                result => result,
            };
            requests.push(record_of(&request, result));
            queued.push(request);
        }
        (requests, queued)
    }

    /// Answers the requests of an operation that is settled at the head, once the head's own
    /// prepare is durable, too (R1). That it was aborted is answered under the lease: no other
    /// member need know it, and another head may run the request again (R13).
    pub(crate) fn finish_requests(
        &mut self,
        now: ClockReading,
        key: MemberKey,
        output: &mut CoreOutput,
    ) {
        let member = &self.members[&key];
        let prepare = Arc::clone(&member.prepare);
        let after = match member.prepared_at() {
            Some(position) if member.table.sync && !planted::is(Bug::AnsweredBeforeDurable) => {
                position
            }
            _ => Position(0),
        };
        let folded = self.requests.unfold(key.0);
        let reason = match member.decision() {
            Some(Decision::Abort(reason)) => Some(reason.clone()),
            _ => None,
        };
        match (reason, &prepare.requests[..]) {
            (Some(reason), [request]) => {
                let lease_us = self.lease_until_us(now, key.1.table);
                let lease_us = Some(lease_us).filter(|_| !planted::is(Bug::AbortNeedsNoLease));
                self.answer_waiters(request.request, reason, (after, lease_us), output);
            }
            (Some(_), requests) => self.run_alone(key, folded, requests, output),
            (None, requests) => {
                for request in requests {
                    let result = request.result.clone();
                    self.answer_waiters(request.request, result, (after, None), output);
                }
            }
        }
    }

    /// Queues the requests of an aborted folded operation again. They run one at a time, before
    /// later requests.
    fn run_alone(
        &mut self,
        (operation, id): MemberKey,
        folded: Option<Vec<QueuedRequest>>,
        requests: &[RequestRecord],
        output: &mut CoreOutput,
    ) {
        let Some(folded) = folded else {
            // After a restart no server remembers the bodies. The clients send them again, unless
            // they run alone already.
            for request in requests {
                if self.is_under_way(request.request, operation) {
                    continue;
                }
                for asker in self.requests.end(request.request) {
                    self.refuse(asker, Refusal::NotServing, output);
                }
            }
            return;
        };
        self.partitions.note_waiting(id);
        let Some(partition) = self.partitions.get_mut(&id) else {
            return;
        };
        let pk = folded[0].mutation.pk.0.clone();
        let queue = partition.queues.entry(pk).or_default();
        for queued in folded.into_iter().rev() {
            queue.push_front(Queued::Request(QueuedRequest {
                alone: true,
                ..queued
            }));
        }
    }

    /// Returns whether an operation of this head other than the given one carries the request, and
    /// is not settled.
    fn is_under_way(&self, request: RequestId, except: OperationId) -> bool {
        self.members.iter().any(|((operation, _), member)| {
            let others = *operation != except && member.place == 0 && !member.is_settled();
            let mut requests = member.prepare.requests.iter();
            others && requests.any(|record| record.request == request)
        })
    }

    /// Sends a request's result to all clients that wait for it.
    pub(crate) fn answer_waiters(
        &mut self,
        request: RequestId,
        result: RequestResult,
        (after, valid_until_us): (Position, Option<u64>),
        output: &mut CoreOutput,
    ) {
        for asker in self.requests.end(request) {
            let reply = Reply::Executed(result.clone());
            self.answer(asker, after, valid_until_us, reply, output);
        }
    }

    /// Records the requests of an operation that was restored after a restart, as running.
    pub(crate) fn resume_requests(&mut self, prepare: &Prepare) {
        for request in &prepare.requests {
            self.requests.resume(request.request, request.digest);
        }
    }

    /// Returns whether a request waits for its pk, or is part of a running operation.
    pub(crate) fn is_queued(&self, request: RequestId) -> bool {
        let queues = self
            .partitions
            .waited_in()
            .flat_map(|partition| partition.queues.values());
        let mut requests = queues.flatten().filter_map(Queued::request);
        requests.any(|queued| queued.request == request) || self.coordinates(request)
    }

    /// Refuses a request that will not end at this core: the waiting clients receive the reason.
    pub(crate) fn refuse_running(
        &mut self,
        request: RequestId,
        refusal: &Refusal,
        output: &mut CoreOutput,
    ) {
        for asker in self.requests.end(request) {
            self.refuse(asker, refusal.clone(), output);
        }
    }

    /// Refuses the requests that have waited too long for their pk. Such a request has changed
    /// nothing, and its client may send it again.
    pub(crate) fn refuse_old_requests(&mut self, now: ClockReading, output: &mut CoreOutput) {
        let deadline = now.monotonic_us.saturating_sub(self.limits.wait_us_max);
        let mut late = Vec::new();
        for id in self.partitions.waited_in_ids() {
            let partition = self.partitions.get_mut(&id).expect("it is held");
            for queue in partition.queues.values_mut() {
                // A walk ends its wait itself.
                let is_late = |queued: &Queued| {
                    let request = queued.request();
                    request.is_some_and(|queued| queued.since_us < deadline)
                };
                while queue.front().is_some_and(is_late) {
                    late.extend(queue.pop_front().and_then(Queued::into_request));
                }
            }
            partition.queues.retain(|_, queue| !queue.is_empty());
        }
        for queued in late {
            self.refuse_running(queued.request, &Refusal::Overloaded, output);
        }
    }
}

/// Requests evaluated one after the other on one row.
struct Fold {
    ended: Vec<(QueuedRequest, RequestResult)>,
    /// The last image; meaningful if there was a write.
    image: Option<Vec<u8>>,
    writes: bool,
}

/// Removes requests from the queue as long as they fit into one operation, and applies them to the
/// stored row. After the first write only requests fit that change no constrained column.
fn fold(
    table: &TableInfo,
    partition: PartitionId,
    queue: &mut VecDeque<Queued>,
    stored: Option<&[u8]>,
    count_max: usize,
) -> Fold {
    let mut image = stored.map(|value| stored_row(value).1.to_vec());
    let mut fold = Fold {
        ended: Vec::new(),
        image: None,
        writes: false,
    };
    let take = |queue: &mut VecDeque<Queued>| {
        let queued = queue.pop_front().and_then(Queued::into_request);
        queued.expect("it was in front")
    };
    while let Some(queued) = queue.front().and_then(Queued::request) {
        let is_last = fold.ended.len() == count_max || (queued.alone && !fold.ended.is_empty());
        if is_last || queued.mutation.action.may_need_reference(&table.schema) {
            break;
        }
        match evaluate::apply(table, partition, &queued.mutation, image.as_deref()) {
            MutationOutcome::Ended(result) => {
                let queued = take(queue);
                fold.ended.push((queued, result));
            }
            MutationOutcome::Write(new) => {
                let free = match (&image, &new) {
                    (Some(before), Some(after)) => evaluate::same_constraints(table, before, after),
                    _ => false,
                };
                if fold.writes && !free {
                    break;
                }
                let queued = take(queue);
                let alone = queued.alone;
                let applied = RequestResult::Applied {
                    version: Version::default(),
                };
                fold.ended.push((queued, applied));
                image = new;
                fold.writes = true;
                if alone {
                    break;
                }
            }
        }
    }
    fold.image = image;
    fold
}

fn record_of(queued: &QueuedRequest, result: RequestResult) -> RequestRecord {
    RequestRecord {
        request: queued.request,
        acknowledged_below: queued.acknowledged_below,
        digest: queued.digest,
        result,
    }
}

/// Returns the primary partition of a memcomparable pk; none if it does not decode.
pub(crate) fn primary_partition(table: &TableInfo, pk: &[u8]) -> Option<u32> {
    let columns = &table.schema.primary_key;
    let values = table.schema.decode_primary_key(pk).ok()?;
    let value = |column: usize| {
        let index = columns.iter().position(|key| *key == column);
        index.map_or(ValueRef::Null, |index| values[index].as_ref())
    };
    let primary = table.layout.primary();
    Some(table.layout.partition_of_values(primary, value))
}

/// Returns a hash of a request's body.
fn digest(mutations: &[Mutation]) -> u64 {
    let mut bytes = Vec::with_capacity(256);
    for mutation in mutations {
        mutation.encode(&mut bytes);
    }
    xxhash_rust::xxh3::xxh3_64(&bytes)
}
