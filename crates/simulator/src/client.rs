//! Clients: each keeps some operations in flight until it knows what became of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::configuration::Configuration;
use protocol::identity::{CoreId, Epoch, PartitionId, RequestId, SessionId};
use protocol::message::{
    Consistency, CoordinatorReply, CoordinatorRequest, Execute, Read, Refusal, Reply, Request,
};
use protocol::operation::Mutation;

use crate::check::linearizable::Call;
use crate::event::{Content, Event, Life};
use crate::model::{ID, Operation, Seen};
use crate::network::Node;
use crate::plan::MILLISECOND;
use crate::world::World;

/// A request without an answer is sent again after this.
const RETRY_US: u64 = 400 * MILLISECOND;
/// After a refusal.
const PAUSE_US: u64 = 30 * MILLISECOND;

/// One client.
#[derive(Debug)]
pub struct Client {
    session: Option<SessionId>,
    configuration: Option<Arc<Configuration>>,
    next_number: u64,
    next_correlation: u64,
    flights: BTreeMap<u64, Flight>,
    next_flight: u64,
    asked_at_us: Option<u64>,
    think_until_us: u64,
}

/// An operation in flight.
#[derive(Debug)]
struct Flight {
    work: Work,
    /// Where it is in the history, unless it is a stale read.
    history: Option<usize>,
    /// The core that was asked last, and under which correlation.
    asked: Option<(CoreId, u64)>,
    /// When it is sent again.
    due_us: u64,
}

#[derive(Clone, Debug)]
enum Work {
    Write {
        number: u64,
        mutation: Mutation,
        partition: PartitionId,
    },
    Read(Read),
}

impl World {
    /// A new client appears.
    pub fn add_client(&mut self) {
        let number = self.next_client;
        self.next_client += 1;
        let client = Client {
            session: None,
            configuration: None,
            next_number: 1,
            next_correlation: 1,
            flights: BTreeMap::new(),
            next_flight: 1,
            asked_at_us: None,
            think_until_us: 0,
        };
        self.clients.insert(number, client);
        self.after(0, Event::ClientWakes(number));
    }

    /// One client dies with everything that it had in flight; another one takes its place.
    pub fn replace_client(&mut self) {
        let numbers: Vec<u64> = self.clients.keys().copied().collect();
        if numbers.is_empty() {
            return;
        }
        let number = *self.random.pick(&numbers);
        self.trace
            .note(self.now_us, || format!("client {number} dies"));
        self.clients.remove(&number);
        for (core, life) in self.running_cores() {
            let node = Node::Client(number);
            let breaks = self.network.connection(node, Node::Core(core));
            let name = self.connections.name(number, life, breaks);
            let delay_us = self.random.exponential(4 * self.faults.latency_us);
            self.after(delay_us, Event::ClientGone(life, name.0));
        }
        self.add_client();
    }

    fn running_cores(&self) -> Vec<(CoreId, Life)> {
        let mut cores = Vec::new();
        for server in &self.servers {
            for core in server.cores() {
                let core = core.machine.identity().core;
                cores.push((
                    core,
                    Life {
                        core,
                        life: server.life,
                    },
                ));
            }
        }
        cores
    }

    /// Whether all that clients wanted is done.
    pub fn clients_are_done(&self) -> bool {
        self.operations_left == 0
            && self
                .clients
                .values()
                .all(|client| client.flights.is_empty())
    }

    /// What clients still wait for, in words.
    pub fn clients_left(&self) -> String {
        let flights = self
            .clients
            .values()
            .flat_map(|client| client.flights.values());
        let flights: Vec<&Work> = flights.map(|flight| &flight.work).collect();
        format!(
            "{} operations to begin, in flight {flights:?}",
            self.operations_left
        )
    }

    /// A client sends what is due, and begins new operations.
    pub fn client_wakes(&mut self, number: u64) {
        let now_us = self.now_us;
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        if client.session.is_none() || client.configuration.is_none() {
            self.ask_coordinator(number);
            self.after(PAUSE_US, Event::ClientWakes(number));
            return;
        }
        let window = self.plan.workload.window as usize;
        if client.flights.len() < window && now_us >= client.think_until_us {
            let think_us = self.random.exponential(self.plan.workload.think_us);
            client.think_until_us = now_us + think_us;
            if self.operations_left > 0 {
                self.operations_left -= 1;
                self.begin_operation(number);
            }
        }
        let client = &self.clients[&number];
        let due: Vec<u64> = client
            .flights
            .iter()
            .filter(|(_, flight)| flight.due_us <= now_us)
            .map(|(flight, _)| *flight)
            .collect();
        for flight in due {
            self.send_flight(number, flight);
        }
        let client = &self.clients[&number];
        let next_us = client.flights.values().map(|flight| flight.due_us).min();
        let begins = self.operations_left > 0 && client.flights.len() < window;
        let begin_us = begins.then_some(client.think_until_us);
        if let Some(at_us) = next_us.into_iter().chain(begin_us).min() {
            self.queue
                .push(at_us.max(now_us + 1), Event::ClientWakes(number));
        }
    }

    fn ask_coordinator(&mut self, number: u64) {
        let client = self.clients.get_mut(&number).expect("callers have it");
        if client
            .asked_at_us
            .is_some_and(|at_us| at_us + PAUSE_US > self.now_us)
        {
            return;
        }
        client.asked_at_us = Some(self.now_us);
        let known = client
            .configuration
            .as_ref()
            .map_or(Epoch(0), |known| known.epoch);
        let open = client.session.is_none();
        let mut asks = vec![CoordinatorRequest::Fetch { known }];
        asks.extend(open.then_some(CoordinatorRequest::OpenSession));
        for request in asks {
            let content = Content::Ask(0, request, 0);
            self.send(Node::Client(number), Node::Coordinator, content);
        }
    }

    fn begin_operation(&mut self, number: u64) {
        let (table_id, table) = self.table.clone().expect("clients come after the table");
        let (group, operation) = self.generator.draw(&table.model);
        let client = self.clients.get_mut(&number).expect("callers have it");
        let mut kept = true;
        let work = match &operation {
            Operation::Read(range) => {
                let (start, end) = table.bounds(range);
                kept = !self.generator.stale();
                Work::Read(Read {
                    epoch: Epoch(0),
                    partition: PartitionId {
                        table: table_id,
                        replex: range.replex as u8,
                        number: range.partition,
                    },
                    start,
                    end,
                    filter: None,
                    projection: None,
                    limit: range.limit as u32,
                    descending: range.descending,
                    count_only: self.generator.counts(),
                    consistency: if kept {
                        Consistency::Linearizable
                    } else {
                        Consistency::Stale
                    },
                })
            }
            write => {
                let mutation = table.mutation(write);
                let id = match write {
                    Operation::Update(id, ..) | Operation::Delete(id, _) => *id,
                    Operation::Insert(row)
                    | Operation::InsertOrKeep(row)
                    | Operation::Upsert(row, ..) => row[ID],
                    Operation::Read(_) | Operation::ReadAll => unreachable!("matched above"),
                };
                let partition = PartitionId {
                    table: table_id,
                    replex: 0,
                    number: table.primary(id),
                };
                client.next_number += 1;
                Work::Write {
                    number: client.next_number - 1,
                    mutation,
                    partition,
                }
            }
        };
        let moment = self.next_moment();
        self.trace.note(self.now_us, || {
            format!("client {number} begins {operation:?}")
        });
        if kept {
            self.history.push((
                group,
                Call {
                    begun: moment,
                    ended: None,
                    operation,
                },
            ));
        }
        let history = kept.then(|| self.history.len() - 1);
        let client = self.clients.get_mut(&number).expect("callers have it");
        let flight = Flight {
            work,
            history,
            asked: None,
            due_us: self.now_us,
        };
        client.flights.insert(client.next_flight, flight);
        client.next_flight += 1;
    }

    fn send_flight(&mut self, number: u64, flight: u64) {
        let client = self.clients.get_mut(&number).expect("callers have it");
        let configuration = Arc::clone(client.configuration.as_ref().expect("it has one"));
        let session = client.session.expect("it has one");
        let epoch = configuration.epoch;
        let numbers = client
            .flights
            .values()
            .filter_map(|flight| match flight.work {
                Work::Write { number, .. } => Some(number),
                Work::Read(_) => None,
            });
        let acknowledged_below = numbers.min().unwrap_or(client.next_number);
        let correlation = client.next_correlation;
        client.next_correlation += 1;
        let flight = client.flights.get_mut(&flight).expect("callers have it");
        let (partition, request) = match &flight.work {
            Work::Write {
                number,
                mutation,
                partition,
            } => {
                let execute = Execute {
                    request: RequestId {
                        session,
                        number: *number,
                    },
                    acknowledged_below,
                    epoch,
                    table: partition.table,
                    partition: *partition,
                    mutations: vec![mutation.clone()],
                };
                (*partition, Request::Execute(execute))
            }
            Work::Read(read) => (
                read.partition,
                Request::Read(Read {
                    epoch,
                    ..read.clone()
                }),
            ),
        };
        flight.due_us = self.now_us + RETRY_US;
        let Some(place) = configuration.place(partition) else {
            flight.due_us = self.now_us + PAUSE_US;
            self.ask_coordinator(number);
            return;
        };
        flight.asked = Some((place.core, correlation));
        let life = self.life(place.core).map_or(0, |life| life.life);
        let content = Content::Request(correlation, request, life);
        self.send(Node::Client(number), Node::Core(place.core), content);
    }

    /// A core has answered a client.
    pub fn client_reply(&mut self, number: u64, correlation: u64, reply: Reply) {
        let now_us = self.now_us;
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        let mut flights = client.flights.iter_mut();
        let asked =
            flights.find(|(_, flight)| flight.asked.is_some_and(|(_, asked)| asked == correlation));
        let Some((&key, flight)) = asked else { return };
        if let Reply::Refused(refusal) = &reply {
            flight.due_us = now_us + PAUSE_US;
            flight.asked = None;
            match refusal {
                Refusal::StaleEpoch { .. } | Refusal::WrongPartition => {
                    self.ask_coordinator(number);
                }
                Refusal::NotServing | Refusal::Overloaded | Refusal::DiskFull { .. } => {}
                other => {
                    let text = format!("a good request of client {number} met {other:?}");
                    self.check("I7 one result per request", Err(text));
                }
            }
            self.queue
                .push(now_us + PAUSE_US, Event::ClientWakes(number));
            return;
        }
        let flight = client.flights.remove(&key).expect("it was just found");
        match self.seen(&reply) {
            Err(text) => self.check("a reply can be understood", Err(text)),
            Ok(seen) => {
                self.trace
                    .note(now_us, || format!("client {number} sees {seen:?}"));
                if let Some(index) = flight.history {
                    let moment = self.next_moment();
                    self.history[index].1.ended = Some((moment, seen));
                }
            }
        }
        self.queue.push(now_us, Event::ClientWakes(number));
    }

    /// What a reply says, in the model's words. A version of a row has one content.
    fn seen(&mut self, reply: &Reply) -> Result<Seen, String> {
        let (_, table) = self.table.as_ref().expect("clients come after the table");
        match reply {
            Reply::Executed(result) => table.seen(result),
            Reply::Rows(page) if page.rows.is_empty() => Ok(match page.count {
                0 => Seen::Rows(Vec::new()),
                count => Seen::Count(count),
            }),
            Reply::Rows(page) => {
                let mut rows = Vec::new();
                for (version, bytes) in page.rows() {
                    let row = table.parse(bytes)?;
                    let known = self.contents.entry((row[ID], version.0)).or_insert(row);
                    if *known != row {
                        return Err(format!("{version:?} is {known:?} and {row:?}"));
                    }
                    rows.push(row);
                }
                Ok(Seen::Rows(rows))
            }
            other => Err(format!("nobody asked for {other:?}")),
        }
    }

    /// The coordinator has answered a client.
    pub fn client_answered(&mut self, number: u64, _correlation: u64, reply: CoordinatorReply) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        match reply {
            CoordinatorReply::Configuration(configuration) => {
                client.configuration = Some(Arc::new(configuration));
            }
            CoordinatorReply::Session { session, .. } if client.session.is_none() => {
                client.session = Some(session);
            }
            _ => {}
        }
        self.queue.push(self.now_us, Event::ClientWakes(number));
    }

    /// A client's connection is gone: it asks again.
    pub fn client_disconnected(&mut self, number: u64, core: CoreId) {
        let Some(client) = self.clients.get_mut(&number) else {
            return;
        };
        for flight in client.flights.values_mut() {
            if flight.asked.is_some_and(|(asked, _)| asked == core) {
                flight.due_us = self.now_us + PAUSE_US;
            }
        }
        self.queue
            .push(self.now_us + PAUSE_US, Event::ClientWakes(number));
    }
}
