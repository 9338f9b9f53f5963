//! A few cores without sockets, disks or clocks: every message, flush and tick is the scenario's.
//!
//! It has no coordinator (configurations are made here) and no chance (that is the simulator's).

mod entries;
mod replace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use machines::core::{
    ClientReply, CoreIdentity, CoreInput, CoreLimits, CoreMachine, CoreOutput, PeerSend,
};
use placement::tables::{MemoryTables, Tables};
use placement::{Layout, RowView, Schema, TableComments};
use protocol::codec::Wire;
use protocol::configuration::{Configuration, Place, PlacedTable, Sealing, Server, ServerState};
use protocol::identity::{
    ClockReading, CoreId, Epoch, FinishedLine, Incarnation, OperationId, PartitionId, Position,
    ServerId, TableId, Version,
};
use protocol::message::{CoordinatorRequest, PeerHeader, PeerMessage, Reply, Request, SealStage};
use protocol::record::Record;
use protocol::transaction::TransactionMessage;

pub struct Node {
    pub machine: Option<CoreMachine>,
    tables: MemoryTables,
    /// The tables at that time, and the first record that was needed still.
    checkpoint: (MemoryTables, Position),
    log: Vec<Vec<u8>>,
    durable: usize,
    /// Flushes happen when the scenario asks for them.
    pub slow_disk: bool,
    incarnation: u32,
    held_sends: Vec<PeerSend>,
    held_replies: Vec<ClientReply>,
    /// It receives nothing: its process is stopped, but not dead.
    pub asleep: bool,
    /// The partitions that its last heartbeat reported as filled.
    filled: Vec<PartitionId>,
    /// The obstacles to a copy that it has reported.
    obstacles: BTreeSet<String>,
    /// How far it was with the end of an epoch by its last heartbeat.
    stage: Option<SealStage>,
    /// The time on its clock when the world began.
    pub slow_clock: bool,
}

impl Default for Node {
    /// A server that has never run.
    fn default() -> Node {
        Node {
            machine: None,
            tables: MemoryTables::new(),
            checkpoint: (MemoryTables::new(), Position(1)),
            log: Vec::new(),
            durable: 0,
            slow_disk: false,
            incarnation: 0,
            held_sends: Vec::new(),
            held_replies: Vec::new(),
            asleep: false,
            filled: Vec::new(),
            obstacles: BTreeSet::new(),
            stage: None,
            slow_clock: false,
        }
    }
}

pub struct Flight {
    pub from: u32,
    pub to: u32,
    header: PeerHeader,
    pub message: PeerMessage,
}

pub struct Cluster {
    pub nodes: BTreeMap<u32, Node>,
    pub network: VecDeque<Flight>,
    pub configuration: Configuration,
    /// As the servers were sent it last.
    pub sent: Configuration,
    pub now_ms: u64,
    pub events: String,
    /// Replies since the last look, by client and correlation.
    pub replies: Vec<(u64, u64, Reply)>,
    limits: CoreLimits,
    /// The versions that each pk was given, by operation.
    versions: BTreeMap<Vec<u8>, BTreeMap<OperationId, Version>>,
}

impl Cluster {
    /// Replex r has all its partitions on server 1 + r mod servers; those beyond hold nothing.
    pub fn new(schema: Schema, servers: u32, limits: CoreLimits) -> Result<Cluster, String> {
        schema.validate().map_err(|error| error.to_string())?;
        let layout = Layout::base(&schema);
        let place = |replex: usize| {
            Place::serving(
                CoreId {
                    server: ServerId(replex as u32 % servers + 1),
                    core: 0,
                },
                Epoch(0),
            )
        };
        let places = |replex| vec![place(replex); layout.partition_count(replex) as usize];
        let placement = (0..layout.replexes.len()).map(places).collect();
        let servers: Vec<Server> = (1..=servers)
            .map(|id| Server {
                id: ServerId(id),
                incarnation: Incarnation(1),
                domain: format!("s{id}"),
                cores: vec![String::new()],
                state: ServerState::Up,
                is_draining: false,
                is_new: false,
            })
            .collect();
        let table = PlacedTable {
            id: TableId(1),
            epoch: Epoch(1),
            sealing: None,
            columns_since: Epoch(0),
            schema,
            layout,
            placement,
            building: Vec::new(),
            comments: TableComments::default(),
        };
        let mut configuration = Configuration::default();
        (configuration.cluster, configuration.epoch) = (1, Epoch(1));
        (configuration.servers, configuration.tables) = (servers, vec![table].into());
        let nodes = configuration.servers.iter();
        let nodes = nodes.map(|it| (it.id.0, Node::default())).collect();
        let mut cluster = Cluster {
            nodes,
            network: VecDeque::new(),
            sent: configuration.clone(),
            configuration,
            now_ms: 1000,
            events: String::new(),
            replies: Vec::new(),
            limits,
            versions: BTreeMap::new(),
        };
        for id in 1..=cluster.configuration.servers.len() as u32 {
            cluster.start(id)?;
        }
        cluster.run()?;
        cluster.events.clear();
        Ok(cluster)
    }

    /// Returns the tables of a server.
    pub fn tables(&self, id: u32) -> &MemoryTables {
        &self.nodes[&id].tables
    }

    pub fn schema(&self) -> &Schema {
        &self.configuration.tables[0].schema
    }

    pub fn layout(&self) -> &Layout {
        &self.configuration.tables[0].layout
    }

    fn now(&self, id: u32) -> ClockReading {
        let slow = self.nodes.get(&id).is_some_and(|node| node.slow_clock);
        ClockReading {
            monotonic_us: self.now_ms * 1000,
            wall_us: if slow { 0 } else { self.now_ms * 1000 },
        }
    }

    /// Heads give each operation a version higher than all before of its pk (invariant I8).
    fn check_versions(&mut self, record: &[u8]) -> Result<(), String> {
        let record = Record::decode_all(record).map_err(|error| error.to_string())?;
        let Record::Prepared { partition, prepare } = record else {
            return Ok(());
        };
        let changes = prepare
            .changes
            .iter()
            .filter(|_| partition == prepare.members[0]);
        for change in changes {
            let given = self.versions.entry(change.pk.0.clone()).or_default();
            let highest = given.values().copied().max();
            let is_known = given.insert(prepare.operation, change.version).is_some();
            if !is_known && highest.is_some_and(|highest| change.version <= highest) {
                let operation = prepare.operation;
                return Err(format!(
                    "I8: {operation:?} gives {:?} after {highest:?}",
                    change.version
                ));
            }
        }
        Ok(())
    }

    /// Starts a server over whatever its disk holds.
    pub fn start(&mut self, id: u32) -> Result<(), String> {
        let now = self.now(id);
        let configuration = Arc::new(self.configuration.clone());
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        node.incarnation += 1;
        node.obstacles.clear();
        let identity = CoreIdentity {
            cluster: 1,
            core: CoreId {
                server: ServerId(id),
                core: 0,
            },
            incarnation: Incarnation(node.incarnation),
        };
        let mut machine = CoreMachine::new(identity, self.limits, configuration);
        machine
            .restore(&mut node.tables)
            .map_err(|error| error.to_string())?;
        for (index, record) in node.log.iter().enumerate() {
            let position = Position(index as u64 + 1);
            if position >= node.checkpoint.1 {
                machine
                    .replay(position, record, &mut node.tables)
                    .map_err(|error| error.to_string())?;
            }
        }
        let next = Position(node.log.len() as u64 + 1);
        let mut output = CoreOutput::default();
        machine
            .start(now, next, &mut node.tables, &mut output)
            .map_err(|error| error.to_string())?;
        node.machine = Some(machine);
        self.perform(id, output)?;
        let epoch = self.configuration.epoch;
        let beat = CoreInput::Beat {
            sent_us: now.monotonic_us,
            epoch,
            lease_us: 3_600_000_000,
            session_floor: Default::default(),
        };
        self.step(id, beat)
    }

    /// Ends the epochs before without these servers: an epoch in which chains stand still.
    pub fn seal(&mut self, removed: Vec<u32>, leaving: Option<&str>) -> Result<(), String> {
        let next = Epoch(self.configuration.epoch.0 + 1);
        let sealing = self.configuration.tables[0].sealing.take();
        let since = sealing.map_or(next, |sealing| sealing.since);
        let removed = removed.into_iter().map(ServerId).collect();
        let replexes = (0..).zip(&self.layout().replexes);
        let leaving = replexes.filter(|(_, replex)| leaving == Some(&*replex.name));
        let leaving = leaving.map(|(number, _)| number).collect();
        self.configuration.tables[0].sealing = Some(Sealing {
            since,
            removed,
            leaving,
        });
        for node in self.nodes.values_mut() {
            node.stage = None;
        }
        self.reconfigure()
    }

    /// An epoch serves after one in which chains stood still.
    pub fn unseal(&mut self) -> Result<(), String> {
        self.configuration.tables[0].sealing = None;
        self.reconfigure()
    }

    /// Sends the configuration in a new epoch to the servers that run.
    fn reconfigure(&mut self) -> Result<(), String> {
        self.configuration.epoch.0 += 1;
        self.spread()
    }

    /// Sends the configuration to the servers that run.
    pub fn spread(&mut self) -> Result<(), String> {
        self.configuration.date_changes(&self.sent);
        self.sent = self.configuration.clone();
        for node in self.nodes.values_mut() {
            node.filled.clear();
        }
        let ids: Vec<u32> = self.nodes.keys().copied().collect();
        for id in ids {
            let configuration = Arc::new(self.configuration.clone());
            self.step(id, CoreInput::Configuration(configuration))?;
        }
        Ok(())
    }

    /// The coordinator has noticed that a server does not run.
    pub fn note_down(&mut self, id: u32) -> Result<(), String> {
        self.configuration.servers[id as usize - 1].state = ServerState::Down;
        self.reconfigure()
    }

    /// Starts a server as the coordinator lets it: in an epoch that knows of its new life, and that
    /// the running servers receive first.
    pub fn rejoin(&mut self, id: u32) -> Result<(), String> {
        let incarnation = self.nodes[&id].incarnation + 1;
        let server = &mut self.configuration.servers[id as usize - 1];
        server.incarnation = Incarnation(incarnation);
        server.state = ServerState::Up;
        self.reconfigure()?;
        self.start(id)
    }

    /// Stops a server at once. Records that were not flushed are lost, unless `keeps_all`.
    pub fn crash(&mut self, id: u32, keeps_all: bool) -> Result<(), String> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        node.machine = None;
        if !keeps_all {
            node.log.truncate(node.durable);
        }
        node.durable = node.log.len();
        node.tables = node.checkpoint.0.clone();
        node.held_sends.clear();
        node.held_replies.clear();
        self.network
            .retain(|flight| flight.from != id && flight.to != id);
        Ok(())
    }

    /// A server that is about to crash has not written its last record.
    pub fn lose_last_record(&mut self, id: u32) -> Result<(), String> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        node.log.pop().ok_or("its log is empty")?;
        Ok(())
    }

    /// Flushes a server's log, then makes what its tables are durable and cuts the log.
    pub fn checkpoint(&mut self, id: u32) -> Result<(), String> {
        self.flush(id)?;
        self.checkpoint_unflushed(id)
    }

    /// The same before the machine receives that its log is durable.
    pub fn checkpoint_unflushed(&mut self, id: u32) -> Result<(), String> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        let machine = node.machine.as_ref().ok_or("it is down")?;
        machine.before_checkpoint(&mut node.tables);
        node.checkpoint = (node.tables.clone(), machine.retain_from());
        Ok(())
    }

    pub fn step(&mut self, id: u32, input: CoreInput) -> Result<(), String> {
        let now = self.now(id);
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        let machine = node.machine.as_mut().filter(|_| !node.asleep);
        let Some(machine) = machine else {
            return Ok(());
        };
        let mut output = CoreOutput::default();
        machine
            .step(now, input, &mut node.tables, &mut output)
            .map_err(|error| error.to_string())?;
        self.perform(id, output)
    }

    fn perform(&mut self, id: u32, output: CoreOutput) -> Result<(), String> {
        for record in &output.records {
            self.check_versions(&record.bytes)?;
        }
        let node = self.nodes.get_mut(&id).expect("it stepped");
        for record in output.records {
            node.log.push(record.bytes);
            assert_eq!(
                record.position.0 as usize,
                node.log.len(),
                "positions agree with the log"
            );
        }
        for ask in output.asks {
            let CoordinatorRequest::Heartbeat {
                epoch,
                filled,
                fills,
                seals,
                ..
            } = ask
            else {
                continue;
            };
            for obstacle in fills.into_iter().flat_map(|fill| fill.obstacles) {
                if node.obstacles.insert(obstacle.clone()) {
                    let _ = writeln!(self.events, "s{id} reports: {obstacle}");
                }
            }
            node.stage = seals.first().map(|report| report.stage);
            // As the coordinator does: what is filled is reported of places as they are now.
            let is_open = self.configuration.tables[0].sealing.is_none();
            let is_current = epoch == self.configuration.epoch && is_open;
            if is_current && filled != node.filled {
                let cells: Vec<String> = filled.iter().map(cell).collect();
                if !cells.is_empty() {
                    let _ = writeln!(self.events, "s{id} has filled {}", cells.join(" "));
                }
                node.filled = filled;
            }
        }
        node.held_sends.extend(output.sends);
        node.held_replies.extend(output.replies);
        for note in output.notes {
            let _ = writeln!(self.events, "s{id} notes: {note}");
        }
        let node = self.nodes.get_mut(&id).expect("it stepped");
        if !node.slow_disk && node.durable < node.log.len() {
            return self.flush(id);
        }
        self.send_released(id);
        Ok(())
    }

    /// Makes a server's log durable.
    pub fn flush(&mut self, id: u32) -> Result<(), String> {
        let node = self.nodes.get_mut(&id).ok_or("there is no such server")?;
        node.durable = node.log.len();
        let durable = Position(node.durable as u64);
        self.send_released(id);
        self.step(id, CoreInput::Durable(durable))
    }

    /// Sends what waited for nothing, or for what is durable now.
    fn send_released(&mut self, id: u32) {
        let node = self.nodes.get_mut(&id).expect("it stepped");
        let durable = Position(node.durable as u64);
        let Some(machine) = &node.machine else { return };
        for send in node.held_sends.extract_if(.., |send| send.after <= durable) {
            let header = machine.header(&send.message);
            let PeerSend { to, message, .. } = send;
            let flight = Flight {
                from: id,
                to: to.server.0,
                header,
                message,
            };
            if !matches!(flight.message, PeerMessage::LeaseGrant { .. }) {
                let _ = writeln!(
                    self.events,
                    "s{id} → s{}: {}",
                    to.server.0,
                    describe(&flight.message)
                );
                self.network.push_back(flight);
            }
        }
        for held in node
            .held_replies
            .extract_if(.., |reply| reply.after <= durable)
        {
            let text = describe_reply(&held.reply, &self.configuration.tables[0].schema);
            let client = held.client.0;
            self.replies.push((client, held.correlation, held.reply));
            let number = held.correlation;
            let _ = writeln!(self.events, "s{id} → client {client} #{number}: {text}");
        }
    }

    pub fn ask(
        &mut self,
        server: u32,
        client: u64,
        correlation: u64,
        request: Request,
    ) -> Result<(), String> {
        let client = machines::core::ClientId(client);
        self.step(
            server,
            CoreInput::Request {
                client,
                correlation,
                request,
            },
        )
    }

    pub fn deliver(&mut self, index: usize) -> Result<(), String> {
        let flight = self
            .network
            .remove(index)
            .ok_or("there is no such message")?;
        self.step(
            flight.to,
            CoreInput::Peer {
                header: flight.header,
                message: flight.message,
            },
        )
    }

    /// Delivers everything, and what follows from it, in order.
    pub fn run(&mut self) -> Result<(), String> {
        for _ in 0..10_000 {
            if self.network.is_empty() {
                return Ok(());
            }
            self.deliver(0)?;
        }
        let lines: Vec<&str> = self.events.lines().collect();
        let last = lines[lines.len().saturating_sub(8)..].join("\n");
        Err(format!("the network does not come to rest:\n{last}"))
    }

    pub fn duplicate(&mut self, index: usize) {
        let flight = &self.network[index];
        let copy = Flight {
            header: flight.header,
            message: flight.message.clone(),
            ..*flight
        };
        self.network.push_back(copy);
    }

    /// Time passes; every server's timers run.
    pub fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.now_ms += ms;
        for id in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.step(id, CoreInput::Tick)?;
        }
        Ok(())
    }

    pub fn finds(&self, kind: &str, from: u32, to: u32) -> Option<usize> {
        let mut flights = self.network.iter();
        flights.position(|flight| {
            flight.from == from && flight.to == to && describe(&flight.message).starts_with(kind)
        })
    }

    /// Every replex's committed rows.
    pub fn rows(&self) -> String {
        let mut out = String::new();
        let table = &self.configuration.tables[0];
        for replex in table.layout.numbers() {
            let places = &table.placement[replex];
            let _ = writeln!(out, "{}:", table.layout.replexes[replex].name);
            for (number, place) in places.iter().enumerate() {
                let id = PartitionId {
                    table: table.id,
                    replex: replex as u8,
                    number: number as u32,
                };
                let node = &self.nodes[&place.core.server.0];
                let _ = node
                    .tables
                    .scan(id.rows_table(), b"", None, &mut |_, value| {
                        let _ = writeln!(out, "  {}", describe_row(&table.schema, &value[8..]));
                        std::ops::ControlFlow::Continue(())
                    });
            }
        }
        out
    }
}

fn finished(below: FinishedLine) -> String {
    format!("finished below {}.{}", below.incarnation.0, below.sequence)
}

/// A partition as replex.number.
fn cell(id: &PartitionId) -> String {
    format!("{}.{}", id.replex, id.number)
}

pub fn describe_row(schema: &Schema, row: &[u8]) -> String {
    let row = RowView::parse(&schema.columns, row).expect("rows decode");
    let values = row.to_values().into_iter().zip(&schema.columns);
    let values: Vec<String> = values
        .map(|(value, column)| format!("{}={value}", column.name))
        .collect();
    values.join(" ")
}

/// A message in words; versions are left out, because they hold the time.
// tidy: long — a dispatching match over the messages of peers.
pub fn describe(message: &PeerMessage) -> String {
    use protocol::operation::{Decision, Vote};
    let name =
        |operation: &OperationId| format!("{}.{}", operation.incarnation.0, operation.sequence);
    let outcome = |decision: &Decision| match decision {
        Decision::Commit => "commit".into(),
        Decision::Abort(reason) => format!("abort ({})", describe_result(reason)),
    };
    match message {
        PeerMessage::Prepare(prepare) => {
            let votes = prepare.votes.iter().map(|vote| match vote {
                Vote::Yes => "yes".to_string(),
                Vote::No(reason) => format!("no ({})", describe_result(reason)),
            });
            let votes: Vec<String> = votes.collect();
            let requests = prepare.requests.len();
            format!(
                "prepare {} of {requests}, votes {}",
                name(&prepare.operation),
                votes.join(" ")
            )
        }
        PeerMessage::Decision {
            operation,
            decision,
            settled,
            ..
        } => {
            let settled = if *settled { ", settled" } else { "" };
            format!(
                "decision {}: {}{settled}",
                name(operation),
                outcome(decision)
            )
        }
        PeerMessage::Settled { operation, .. } => format!("settled {}", name(operation)),
        PeerMessage::Reported { operation, .. } => format!("reported {}", name(operation)),
        PeerMessage::Durable { operations } => {
            let names: Vec<String> = operations.iter().map(|(one, _)| name(one)).collect();
            format!("durable {}", names.join(" "))
        }
        PeerMessage::Confirm { operations } => {
            let names: Vec<String> = operations.iter().map(|(one, _, _)| name(one)).collect();
            format!("confirm {}", names.join(" "))
        }
        PeerMessage::Finished(below) => finished(*below),
        PeerMessage::Recover { .. } => "recover".into(),
        PeerMessage::Adopt {
            prepare, decision, ..
        } => {
            let decision = decision
                .as_ref()
                .map_or("undecided".into(), |(one, _)| outcome(one));
            format!(
                "adopt {}, {} votes, {decision}",
                name(&prepare.operation),
                prepare.votes.len()
            )
        }
        PeerMessage::RecoverEnd { count, .. } => format!("recover-end after {count}"),
        PeerMessage::NewerEpoch { epoch } => format!("newer epoch {}", epoch.0),
        PeerMessage::AskSealed { .. } => "ask-sealed".into(),
        PeerMessage::Witness {
            prepare, decision, ..
        } => {
            let decision = decision
                .as_ref()
                .map_or(String::new(), |(decision, resolved)| {
                    let resolved = if resolved.is_some() { ", resolved" } else { "" };
                    format!(", {}{resolved}", outcome(decision))
                });
            format!(
                "witness {}, {} votes{decision}",
                name(&prepare.operation),
                prepare.votes.len()
            )
        }
        PeerMessage::WitnessEnd {
            count,
            forgot_nothing,
            ..
        } => {
            let forgetful = if *forgot_nothing {
                ""
            } else {
                ", may have forgotten"
            };
            format!("witness-end after {count}{forgetful}")
        }
        PeerMessage::LeaseRequest { finished_below, .. } => {
            format!("lease request, {}", finished(*finished_below))
        }
        PeerMessage::LeaseGrant { .. } => "lease grant".into(),
        message => describe_fill(message),
    }
}

/// As [`describe`], of messages while a partition is being filled.
fn describe_fill(message: &PeerMessage) -> String {
    match message {
        PeerMessage::Copy { of, from, .. } => {
            let of: Vec<String> = of.iter().map(cell).collect();
            format!("copy {} to {}", cell(from), of.join(" and "))
        }
        PeerMessage::Copied { of, from, page, .. } => {
            let more = if page.next.is_some() {
                ", and more"
            } else {
                ""
            };
            let (from, of) = (cell(from), cell(of));
            format!("copied {from} to {of}, {} rows{more}", page.count)
        }
        PeerMessage::Fetch {
            of, from, wanted, ..
        } => format!("fetch {} from {} to {}", wanted.len(), cell(from), cell(of)),
        PeerMessage::Fetched { of, from, page, .. } => {
            let more = if page.next.is_some() {
                ", and more"
            } else {
                ""
            };
            let (from, of) = (cell(from), cell(of));
            format!("fetched {from} to {of}, {} rows{more}", page.count)
        }
        PeerMessage::Compare { of, ranges, .. } => {
            format!("compare {} in {} ranges", cell(of), ranges.len())
        }
        PeerMessage::Compared {
            of,
            differing,
            page,
            ..
        } => {
            let more = if page.next.is_some() {
                ", and more"
            } else {
                ""
            };
            let (of, differ) = (cell(of), differing.len());
            format!(
                "compared {of}, {differ} ranges differ, {} rows{more}",
                page.count
            )
        }
        PeerMessage::Changes { of, since, .. } => format!("changes of {} since {since}", cell(of)),
        PeerMessage::Changed {
            of,
            page,
            gone,
            is_all,
            ..
        } => {
            let more = if *is_all { "" } else { ", and more" };
            let (of, gone) = (cell(of), gone.len());
            format!("changed {of}, {} rows, {gone} gone{more}", page.count)
        }
        PeerMessage::CopyCompletions { of, .. } => format!("completions for {}?", cell(of)),
        PeerMessage::CopiedCompletions {
            of, completions, ..
        } => format!("{} completions for {}", completions.len(), cell(of)),
        PeerMessage::Transaction(message) => describe_transaction(message),
        _ => panic!("all others are described elsewhere"),
    }
}

fn describe_transaction(message: &TransactionMessage) -> String {
    let text = format!("{:?}", message.content);
    let kind = text.split([' ', '(']).next().unwrap_or_default();
    format!("transaction: {kind}")
}

pub fn describe_result(result: &protocol::operation::RequestResult) -> String {
    use protocol::operation::RequestResult;
    match result {
        RequestResult::Applied { .. } => "applied".into(),
        RequestResult::Kept => "kept".into(),
        RequestResult::NotFound => "not found".into(),
        RequestResult::ConditionFailed => "condition failed".into(),
        RequestResult::Duplicate { replex, .. } => format!("duplicate in replex {replex}"),
        RequestResult::NotDense { replex, expected } => {
            format!("not dense in replex {replex}, {expected} comes next")
        }
        RequestResult::Invalid { message } => format!("invalid: {message}"),
        RequestResult::CheckFailed { constraint } => format!("violates {constraint}"),
        RequestResult::Conflict => "conflict".into(),
        RequestResult::Transaction(result) => format!("transaction: {result:?}"),
    }
}

fn describe_reply(reply: &Reply, schema: &Schema) -> String {
    match reply {
        Reply::Executed(result) => describe_result(result),
        Reply::Rows(page) => {
            let rows: Vec<String> = page
                .rows()
                .map(|(_, row)| describe_row(schema, row))
                .collect();
            let more = if page.next.is_some() {
                ", and more"
            } else {
                ""
            };
            format!("{} rows [{}]{more}", page.count, rows.join("; "))
        }
        Reply::Checksum(part) => format!("{} rows summed", part.count),
        Reply::Statistics(statistics) => format!("estimates: {statistics:?}"),
        Reply::Status(counters) => {
            let looked_at = counters
                .iter()
                .filter(|(name, _)| name.ends_with("rows_looked_at"));
            let counts = looked_at.map(|(name, count)| format!("{name} {count}"));
            counts.collect::<Vec<String>>().join(", ")
        }
        Reply::Released(unchanged) => format!("released, unchanged: {unchanged}"),
        Reply::Snapshot(reply) => format!("snapshot: {reply:?}"),
        Reply::Refused(refusal) => format!("refused: {refusal:?}"),
    }
}
