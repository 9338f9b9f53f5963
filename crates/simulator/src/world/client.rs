//! The simulated clients: each runs the real session machine with random operations, and checks the
//! results.
//!
//! A client has a few operations in flight until it learns their outcomes. An operation that the
//! session reports as failed must have had no effect. An operation that it reports as unknown may
//! take effect at any time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use protocol::identity::{CoreId, Epoch, PartitionId, RequestId, TableId};
use protocol::message::{Consistency, CoordinatorReply, Execute, Read, Reply, Request, RowPage};
use protocol::operation::{Action, Mutation, RequestResult};
use protocol::transaction::{AbortReason, RangeCheck, TransactionResult};
use session::{
    ANY_EPOCH, Completion, SessionFailure, SessionInput, SessionLimits, SessionMachine,
    SessionOperation, SessionOutcome, SessionOutput, Ticket,
};

use crate::check::cycles::ShownRange;
use crate::check::newer_epoch::{self, WaitingClient};
use crate::clock::SimulatedClock;
use crate::event::{CoreLife, Event, PacketContent};
use crate::linearizable::Call;
use crate::model::{ID, Model, Observation, PartitionRange, WorkloadOperation};
use crate::network::Node;
use crate::plan::{MILLISECOND, SECOND};
use crate::workload::{Generator, Translation};
use crate::world::snapshot::{SnapshotStatement, StatementPart};
use crate::world::submitted::{GroupPart, SubmittedOperation, is_possible_failure};
use crate::world::{SimulatedTable, World};

/// Correlations of probes start here; the session never gets so far.
const PROBES: u64 = 1 << 63;
/// The most keys of a page: more than any range has.
const ROWS_MAX: usize = 100;
/// The share of answered writes that are followed by another body under their number.
const PROBED: f64 = 0.02;

/// One client.
#[derive(Debug)]
pub struct SimulatedClient {
    pub(super) session: SessionMachine,
    clock: SimulatedClock,
    /// The operations that were submitted.
    pub submitted: BTreeMap<Ticket, SubmittedOperation>,
    /// The parts of the submitted transactions.
    pub transactions: BTreeMap<Ticket, Vec<GroupPart>>,
    /// The operations of statements that read a snapshot.
    pub statements: BTreeMap<Ticket, SnapshotStatement>,
    /// How many such statements are in progress.
    open_statements: usize,
    /// Operations whose outcomes are not checked.
    pub asides: BTreeSet<Ticket>,
    /// Since when writes have been submitted.
    writes: BTreeMap<Ticket, u64>,
    next_ticket: u64,
    /// Connections that are open, to which life of the core.
    open: BTreeMap<CoreId, CoreLife>,
    /// Writes that were sent, for probes.
    sent: BTreeMap<u64, (CoreId, Execute)>,
    /// The requests that were sent, by correlation.
    pub(super) asked: BTreeMap<u64, RequestId>,
    /// The ranges that transactions check.
    pub(super) checked_ranges: Vec<(RangeCheck, ShownRange)>,
    /// When the next wake-up comes.
    wake_at_us: Option<u64>,
    /// On its clock.
    deadline_us: Option<u64>,
    think_until_us: u64,
}

impl SimulatedClient {
    /// Returns a ticket that was not used before.
    pub fn next_ticket(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        ticket
    }

    /// Returns a deadline on the client's clock.
    pub fn deadline_after(&self, now_us: u64, patience_us: u64) -> u64 {
        self.clock.now(now_us).monotonic_us + patience_us
    }

    /// Records that a statement which reads a snapshot has ended.
    pub fn end_statement(&mut self) {
        self.open_statements -= 1;
    }

    /// Returns how many operations and statements are in progress.
    fn under_way(&self) -> usize {
        self.submitted.len() + self.open_statements
    }

    fn is_idle(&self) -> bool {
        self.under_way() == 0 && self.asides.is_empty()
    }
}

impl World {
    /// Adds a client.
    pub fn add_client(&mut self) {
        let number = self.next_client;
        self.next_client += 1;
        let limits = SessionLimits {
            moment_reads_max: *self.random.pick(&[1, 2, 64]),
            attempt_us: *self.random.pick(&[100, 400, 1_000]) * MILLISECOND,
            in_flight_max: *self.random.pick(&[1, 2, 1_024]),
            ..SessionLimits::default()
        };
        let base_us = self.random.below(SECOND);
        let client = SimulatedClient {
            session: SessionMachine::new(limits, self.random.bits(), None),
            clock: SimulatedClock {
                base_us,
                drift_ppm: 0,
                step_us: 0,
            },
            submitted: BTreeMap::new(),
            transactions: BTreeMap::new(),
            statements: BTreeMap::new(),
            open_statements: 0,
            asides: BTreeSet::new(),
            writes: BTreeMap::new(),
            next_ticket: 1,
            open: BTreeMap::new(),
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
            checked_ranges: Vec::new(),
            wake_at_us: None,
            deadline_us: None,
            think_until_us: 0,
        };
        self.clients.insert(number, client);
        self.wake_client(number, self.now_us);
    }

    /// Kills a client with everything that it has in flight, and adds a new client.
    pub fn replace_client(&mut self) {
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        let number = *self.random.pick(&numbers);
        self.trace
            .note(self.now_us, || format!("client {number} dies"));
        let client = self.clients.remove(&number).expect("it was just listed");
        for (core, life) in client.open {
            let breaks = self
                .network
                .connection(Node::Client(number), Node::Core(core));
            let name = self.connections.name(number, life, breaks);
            let delay_us = self.random.exponential(4 * self.faults.latency_us);
            self.after(delay_us, Event::ClientGone(life, name.0));
        }
        self.add_client();
    }

    /// Returns whether all operations of clients have ended.
    pub fn clients_are_done(&self) -> bool {
        self.operations_left == 0 && self.clients.values().all(|client| client.is_idle())
    }

    /// Returns a description of the operations that clients still wait for.
    pub fn clients_left(&self) -> String {
        let submitted = self
            .clients
            .values()
            .flat_map(|client| client.submitted.values());
        let waits = submitted
            .filter_map(|submitted| submitted.history)
            .map(|index| &self.history[index].1.operation);
        let waits: Vec<&WorkloadOperation> = waits.collect();
        format!(
            "{} operations to begin, in flight {waits:?}",
            self.operations_left
        )
    }

    fn wake_client(&mut self, number: u64, at_us: u64) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        if client
            .wake_at_us
            .is_none_or(|wake_at_us| at_us < wake_at_us)
        {
            client.wake_at_us = Some(at_us);
            self.queue.push(at_us, Event::ClientWakes(number));
        }
    }

    /// Handles a client's deadline, or the time to begin an operation.
    pub fn client_wakes(&mut self, number: u64) {
        let now_us = self.now_us;
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        if client.wake_at_us != Some(now_us) {
            return;
        }
        client.wake_at_us = None;
        let now = client.clock.now(now_us);
        if client
            .deadline_us
            .is_some_and(|deadline_us| deadline_us <= now.monotonic_us)
        {
            client.deadline_us = None;
            self.step_client(number, SessionInput::Tick);
        }
        let window = self.plan.workload.window as usize;
        let client = &self.clients[&number];
        let begins = self.operations_left > 0 && client.under_way() < window;
        if begins && now_us >= client.think_until_us {
            let think_us = self.random.exponential(self.plan.workload.think_us);
            let client = self.clients.get_mut(&number).expect("it was there");
            client.think_until_us = now_us + think_us;
            self.operations_left -= 1;
            self.begin_operation(number);
        }
        self.plan_wake(number);
    }

    /// Plans a client's next wake-up.
    fn plan_wake(&mut self, number: u64) {
        let Some(client) = self.clients.get(&number) else {
            return;
        };
        let window = self.plan.workload.window as usize;
        let begins = self.operations_left > 0 && client.under_way() < window;
        let begin_us = begins.then_some(client.think_until_us);
        let deadline_us = client
            .deadline_us
            .map(|deadline_us| client.clock.when(deadline_us));
        if let Some(at_us) = begin_us.into_iter().chain(deadline_us).min() {
            self.wake_client(number, at_us.max(self.now_us + 1));
        }
    }

    fn begin_operation(&mut self, number: u64) {
        let (group, hot) = self.generator.draw_group();
        let place = self.plan.table_of(group);
        let SimulatedTable {
            id: table_id,
            translation: table,
        } = self.tables[place].clone();
        let readable = self.readable(number, table_id, &table);
        let drawn = self.draw_operation((group, hot), &table.model, &readable);
        let (operation, of_snapshot) = drawn;
        if operation.is_write() && self.generator.of_transaction() {
            return self.begin_transaction(number, group);
        }
        let session = &self.clients[&number].session;
        let epoch = session.configuration().map_or(Epoch(0), |it| it.epoch);
        let (wanted, kept) = self.request_of(&operation, &table, (table_id, epoch));
        let of_snapshot = of_snapshot && kept;
        // Some give up early, so that outcomes stay unknown.
        let patience_us = match self.random.chance(0.1) {
            true => self.random.between(MILLISECOND, 500 * MILLISECOND),
            false => 45 * SECOND,
        };
        let begun = self.next_moment();
        self.trace.note(self.now_us, || {
            format!("client {number} begins {operation:?}")
        });
        if kept {
            self.history.push((
                group,
                Call {
                    begun,
                    ended: None,
                    operation,
                },
            ));
        }
        let history = kept.then(|| self.history.len() - 1);
        let client = self.clients.get_mut(&number).expect("callers have it");
        let submitted = SubmittedOperation {
            history,
            table: place,
        };
        let deadline_us = client.deadline_after(self.now_us, patience_us);
        if of_snapshot && let SessionOperation::Moment(reads) = wanted {
            client.open_statements += 1;
            let mut parts = vec![StatementPart::new(submitted, group, reads)];
            if self.generator.of_every_table() {
                parts.extend(self.parts_of_other_tables(number, place, begun));
            }
            self.begin_snapshot(number, parts, deadline_us);
            return;
        }
        let ticket = client.next_ticket();
        client.submitted.insert(ticket, submitted);
        // As the next page of a read does: the copy that was chosen may have gone since.
        if matches!(
            wanted,
            SessionOperation::Read(_) | SessionOperation::Moment(_)
        ) && self.random.chance(0.02)
        {
            let delay_us = self.random.between(MILLISECOND, 500 * MILLISECOND);
            self.after(delay_us, Event::Submit(number, ticket, wanted, deadline_us));
            return;
        }
        self.submit(number, ticket, wanted, deadline_us);
    }

    /// Draws an operation, and whether it is a read of a snapshot.
    fn draw_operation(
        &mut self,
        (group, hot): (i64, bool),
        model: &Model,
        readable: &[usize],
    ) -> (WorkloadOperation, bool) {
        let mut operation = self.generator.draw((group, hot), model, readable);
        // One page may not hold a range, least of all one that is read from a cover: it is read as
        // a statement. Entries and rows of a thin index must agree, too.
        if let WorkloadOperation::Read(range) = &operation
            && (self.plan.limits.page_keys_max < ROWS_MAX || model.copies[range.replex].is_thin)
        {
            operation = WorkloadOperation::Statement(vec![range.clone()]);
        }
        let of_snapshot = operation.is_read() && self.generator.of_snapshot();
        if of_snapshot {
            let ranges = Generator::whole_group(model, readable, group);
            operation = WorkloadOperation::Statement(ranges);
        }
        (operation, of_snapshot)
    }

    /// Returns the parts of a statement that read the other tables: a group of each table, by every
    /// copy.
    fn parts_of_other_tables(&mut self, number: u64, own: usize, begun: u64) -> Vec<StatementPart> {
        let mut parts = Vec::new();
        for place in (0..self.plan.tables).filter(|place| *place != own) {
            let SimulatedTable {
                id,
                translation: table,
            } = self.tables[place].clone();
            let readable = self.readable(number, id, &table);
            let group = self.generator.group_of_table(place, self.plan.tables);
            let ranges = Generator::whole_group(&table.model, &readable, group);
            let session = &self.clients[&number].session;
            let epoch = session.configuration().map_or(Epoch(0), |it| it.epoch);
            let reads = ranges
                .iter()
                .map(|range| read(&table, (id, epoch), range, true));
            let reads = reads.collect();
            let operation = WorkloadOperation::Statement(ranges);
            let call = Call {
                begun,
                ended: None,
                operation,
            };
            self.history.push((group, call));
            let submitted = SubmittedOperation {
                history: Some(self.history.len() - 1),
                table: place,
            };
            parts.push(StatementPart::new(submitted, group, reads));
        }
        parts
    }

    /// Returns an operation in a session's words, by the copies of a table in an epoch, and whether
    /// what it shows is kept: not if it may be stale.
    fn request_of(
        &mut self,
        operation: &WorkloadOperation,
        table: &Translation,
        (id, epoch): (TableId, Epoch),
    ) -> (SessionOperation, bool) {
        let read = |range, kept| read(table, (id, epoch), range, kept);
        match operation {
            WorkloadOperation::Read(range) => {
                let kept = !self.generator.stale();
                let read = Read {
                    count_only: self.generator.counts(),
                    ..read(range, kept)
                };
                (SessionOperation::Read(read), kept)
            }
            WorkloadOperation::Statement(ranges) => {
                let kept = !self.generator.stale();
                let reads = ranges.iter().map(|range| read(range, kept)).collect();
                (SessionOperation::Moment(reads), kept)
            }
            _ => {
                let mutations = vec![table.mutation(operation)];
                let execute = SessionOperation::Execute {
                    table: id,
                    mutations,
                    planned: ANY_EPOCH,
                };
                (execute, true)
            }
        }
    }

    /// Hands an operation to a client's session.
    pub fn submit(
        &mut self,
        number: u64,
        ticket: Ticket,
        operation: SessionOperation,
        deadline_us: u64,
    ) {
        let writes = matches!(
            operation,
            SessionOperation::Execute { .. } | SessionOperation::Transact { .. }
        );
        if let Some(client) = self.clients.get_mut(&number).filter(|_| writes) {
            client.writes.insert(ticket, self.now_us);
        }
        self.step_client(
            number,
            SessionInput::Submit {
                ticket,
                operation,
                deadline_us,
            },
        );
    }

    /// Returns the copies that a client may read; none if it does not know the table. A few read
    /// one that is being made, as no client should: they receive what the others have.
    fn readable(&mut self, number: u64, id: TableId, table: &Translation) -> Vec<usize> {
        let early = self.random.chance(0.05);
        let session = &self.clients[&number].session;
        let Some(known) = session.configuration() else {
            return Vec::new();
        };
        let Some(placed) = known.table(id) else {
            return Vec::new();
        };
        let copies = table.copies_in(known.epoch).iter().copied();
        let serves = |copy: &usize| early || !placed.is_building(table.model.copies[*copy].number);
        copies.filter(serves).collect()
    }

    /// Hands an input to a client's session. Returns whether a request has ended with an effect.
    fn step_client(&mut self, number: u64, input: SessionInput) -> bool {
        let Some(client) = self.clients.get_mut(&number) else {
            return false;
        };
        let mut output = SessionOutput::default();
        client
            .session
            .step(client.clock.now(self.now_us), input, &mut output);
        if output.deadline_us.is_some() {
            client.deadline_us = output.deadline_us;
        }
        for core in output.connects {
            let delay_us = 2 * self.faults.latency_us + self.random.below(100);
            self.after(delay_us, Event::ClientConnects(number, core));
        }
        for attempt in output.sends {
            self.note_request(number, attempt.correlation, &attempt.request);
            let client = self.clients.get_mut(&number).expect("it was there");
            if let Request::Execute(execute) = &attempt.request {
                client
                    .sent
                    .insert(attempt.correlation, (attempt.core, execute.clone()));
            }
            // A request that goes into a connection that has just broken is lost.
            if let Some(life) = client.open.get(&attempt.core) {
                let content =
                    PacketContent::Request(attempt.correlation, attempt.request, life.life);
                self.send(Node::Client(number), Node::Core(attempt.core), content);
            }
        }
        for ask in output.asks {
            self.send(
                Node::Client(number),
                Node::Coordinator,
                PacketContent::Ask(0, ask, 0),
            );
        }
        let mut ends = false;
        for completion in output.completions {
            let executed = match &completion.outcome {
                SessionOutcome::Executed(result) => result.took_effect(),
                _ => false,
            };
            ends |= executed;
            self.client_learns(number, completion);
        }
        self.plan_wake(number);
        ends
    }

    /// Opens a connection for a client, or lets it fail.
    pub fn client_connects(&mut self, number: u64, core: CoreId) {
        let life = self.life(core);
        let alive = life.and_then(|life| self.alive(life));
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let input = match (life, alive) {
            (Some(life), Some(place)) => {
                client.open.insert(core, life);
                let machine = &self.servers[place].cores()[usize::from(core.core)].machine;
                SessionInput::Connected {
                    core,
                    epoch: machine.epoch(),
                }
            }
            _ => SessionInput::Disconnected { core },
        };
        self.step_client(number, input);
    }

    /// Handles the loss of a client's connection.
    pub fn client_disconnected(&mut self, number: u64, core: CoreId) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        if client.open.remove(&core).is_some() {
            // Nothing of it may arrive any more: the next connection is another one.
            self.network
                .break_connection(self.now_us, Node::Client(number), Node::Core(core));
            self.network
                .break_connection(self.now_us, Node::Core(core), Node::Client(number));
            self.step_client(number, SessionInput::Disconnected { core });
        }
    }

    /// Handles a core's answer to a client.
    pub fn client_reply(&mut self, number: u64, core: CoreId, correlation: u64, reply: Reply) {
        if correlation >= PROBES {
            let result = match reply {
                Reply::Refused(_) => Ok(()),
                other => Err(format!(
                    "another body under a used number was answered {other:?}"
                )),
            };
            self.check("I7 one effect and one result per request", result);
            return;
        }
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let sent = client.sent.remove(&correlation);
        let request = client.asked.remove(&correlation);
        let probe = match (&reply, sent) {
            (Reply::Executed(_), Some(sent)) if self.is_sync() && self.random.chance(PROBED) => {
                Some(sent)
            }
            _ => None,
        };
        let ends = self.step_client(
            number,
            SessionInput::Reply {
                core,
                correlation,
                reply,
            },
        );
        if let Some(request) = request.filter(|_| ends) {
            self.note_end(request);
        }
        if let Some((core, execute)) = probe {
            self.probe(number, core, correlation, execute);
        }
    }

    /// Sends another body under a number whose result is known: it must be refused (R13).
    fn probe(&mut self, number: u64, core: CoreId, correlation: u64, mut execute: Execute) {
        let pk = execute.mutations[0].pk.clone();
        let same = matches!(
            execute.mutations[0].action,
            Action::Delete { condition: None }
        );
        let action = match same {
            true => Action::Update {
                assignments: Vec::new(),
                condition: None,
            },
            false => Action::Delete { condition: None },
        };
        execute.mutations = vec![Mutation { pk, action }];
        let Some(client) = self.clients.get(&number) else {
            return;
        };
        if let Some(life) = client.open.get(&core) {
            let request = Request::Execute(execute);
            let content = PacketContent::Request(PROBES + correlation, request, life.life);
            self.send(Node::Client(number), Node::Core(core), content);
        }
    }

    /// Handles the coordinator's answer to a client.
    pub fn client_answered(&mut self, number: u64, reply: CoordinatorReply) {
        let input = match reply {
            CoordinatorReply::Configuration(configuration) => {
                SessionInput::Configuration(Arc::new(configuration))
            }
            CoordinatorReply::Changes(changes) => SessionInput::Changes(changes),
            CoordinatorReply::Unchanged { epoch } => SessionInput::Unchanged { epoch },
            CoordinatorReply::NewEpoch { epoch } => SessionInput::NewEpoch { epoch },
            CoordinatorReply::Session { session, life_us } => {
                SessionInput::Session { session, life_us }
            }
            other => {
                self.check(
                    "coordinator",
                    Err(format!("a client was answered {other:?}")),
                );
                return;
            }
        };
        self.step_client(number, input);
    }

    /// Checks that clients which wait for writes know an epoch that was first sent some time ago,
    /// if they could reach the coordinator since.
    pub fn judge_news(&mut self, epoch: Epoch, coordinator_life: u64, announced_us: u64) {
        if !self.coordinator.leads(coordinator_life) {
            return;
        }
        let reach = |number: u64| {
            let (client, coordinator) = (Node::Client(number), Node::Coordinator);
            self.network.flows_since(announced_us, client, coordinator)
                && self.network.flows_since(announced_us, coordinator, client)
        };
        let waiting = self.clients.iter().filter_map(|(number, client)| {
            let since_us = *client.writes.values().min()?;
            let known = client
                .session
                .configuration()
                .map_or(Epoch(0), |it| it.epoch);
            reach(*number).then_some(WaitingClient {
                client: *number,
                known,
                since_us,
            })
        });
        let result = newer_epoch::learned(epoch, announced_us, waiting);
        self.check("R15 a client that waits learns of a newer epoch", result);
    }

    /// Handles the outcome of a request at its client.
    fn client_learns(&mut self, number: u64, completion: Completion) {
        let Completion { ticket, outcome } = completion;
        self.trace.note(self.now_us, || {
            format!("client {number} learns {outcome:?}")
        });
        let client = self.clients.get_mut(&number).expect("it has just stepped");
        client.writes.remove(&ticket);
        if client.asides.remove(&ticket) {
            return self.aside_learns(number, ticket, &outcome);
        }
        let Some(outcome) = self.statement_learns(number, ticket, outcome) else {
            return;
        };
        let client = self.clients.get_mut(&number).expect("it has just stepped");
        let Some(submitted) = client.submitted.remove(&ticket) else {
            let text = format!("{ticket:?} ended twice, the second time with {outcome:?}");
            self.check("I7 one effect and one result per request", Err(text));
            return;
        };
        if let Some(parts) = client.transactions.remove(&ticket) {
            let result = match &outcome {
                SessionOutcome::Executed(result) => Ok(Some(result.clone())),
                SessionOutcome::Failed(failure) => is_possible_failure(failure).map(|()| {
                    let table = TableId(0);
                    let result = TransactionResult::conflict(table);
                    Some(RequestResult::Transaction(result))
                }),
                SessionOutcome::Unknown(failure) => is_possible_failure(failure).map(|()| None),
                other => Err(format!("no client asked for {other:?}")),
            };
            match result {
                Ok(result) => self.transaction_learns(&parts, result.as_ref()),
                Err(text) => self.check("what a client learns makes sense", Err(text)),
            }
            return;
        }
        let SubmittedOperation { history, table } = submitted;
        if let Some(history) = history {
            self.note_pages(table, history, &outcome);
        }
        let seen = match outcome {
            SessionOutcome::Executed(result) => match result.of_one_change() {
                // The model knows no foreign keys: nothing was changed.
                result if is_violated_reference(&result) => Ok(Some(Observation::Nothing)),
                result => self.tables[table].translation.seen(&result).map(Some),
            },
            SessionOutcome::Rows(page) => self.rows(table, &page).map(Some),
            SessionOutcome::Moment(pages) => self.ranges(table, &pages.ranges).map(Some),
            SessionOutcome::NoMoment => Ok(Some(Observation::Nothing)),
            SessionOutcome::Failed(SessionFailure::PlaceGone { .. }) if self.has_changed(table) => {
                Ok(Some(Observation::Nothing))
            }
            SessionOutcome::Failed(failure) => {
                is_possible_failure(&failure).map(|()| Some(Observation::Nothing))
            }
            SessionOutcome::Unknown(failure) => is_possible_failure(&failure).map(|()| None),
            other => Err(format!("no client asked for {other:?}")),
        };
        match (seen, history) {
            (Err(text), _) => self.check("what a client learns makes sense", Err(text)),
            (Ok(Some(Observation::Nothing)), Some(index)) if self.is_read(index) => {}
            (Ok(Some(seen)), Some(index)) => {
                let moment = self.next_moment();
                self.history[index].1.ended = Some((moment, seen));
            }
            (Ok(_), _) => {}
        }
    }

    /// Returns whether a copy may have gone while a client was reading it.
    fn has_changed(&self, table: usize) -> bool {
        self.tables[table].translation.model.eras.len() > 1
    }

    fn is_read(&self, index: usize) -> bool {
        self.history[index].1.operation.is_read()
    }

    /// Returns the pages of a statement as ranges of the model.
    pub fn ranges(&mut self, table: usize, ranges: &[Vec<RowPage>]) -> Result<Observation, String> {
        let mut found = Vec::new();
        for pages in ranges {
            let mut rows = Vec::new();
            for page in pages {
                match self.rows(table, page)? {
                    Observation::Rows(page) => rows.extend(page),
                    other => return Err(format!("a range is read as {other:?}")),
                }
            }
            found.push(rows);
        }
        Ok(Observation::Ranges(found))
    }

    /// Returns a page in the model's words. A version of a row has one content.
    fn rows(&mut self, table: usize, page: &RowPage) -> Result<Observation, String> {
        if page.rows.is_empty() && page.count > 0 {
            return Ok(Observation::Count(page.count));
        }
        let table = &self.tables[table].translation;
        let mut rows = Vec::new();
        for (version, bytes) in page.rows() {
            let row = table.parse(bytes)?;
            let known = self.contents.entry((row[ID], version.0)).or_insert(row);
            if *known != row {
                return Err(format!("{version:?} is {known:?} and {row:?}"));
            }
            rows.push(row);
        }
        Ok(Observation::Rows(rows))
    }
}

/// Returns the read of a range of a table, by its copies of an epoch.
pub fn read(
    table: &Translation,
    (id, epoch): (TableId, Epoch),
    range: &PartitionRange,
    kept: bool,
) -> Read {
    let (start, end) = table.bounds(range);
    Read {
        start,
        end,
        limit: range.limit as u32,
        descending: range.descending,
        consistency: if kept {
            Consistency::Linearizable
        } else {
            Consistency::Stale
        },
        ..Read::of(
            epoch,
            PartitionId {
                table: id,
                replex: table.model.copies[range.replex].number as u8,
                number: range.partition,
            },
        )
    }
}

fn is_violated_reference(result: &RequestResult) -> bool {
    let RequestResult::Transaction(TransactionResult::Aborted { reason, .. }) = result else {
        return false;
    };
    matches!(reason, AbortReason::ReferenceViolated(_))
}
