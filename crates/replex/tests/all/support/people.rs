//! The table of the load tests, and a client that does one thing at a time.
//!
//! It repeats refused and lost requests under the same name and does nothing clever, so that the
//! tests find the servers' faults. The client that programs use has tests of its own.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use placement::{RowView, Schema, Value, ValueRef, encode_key, encode_row};
use protocol::codec::{Bytes, Reader, Wire};
use protocol::configuration::routes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::expression::{Assignment, Expression};
use protocol::identity::{PartitionId, RequestId, SessionId, Version};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, Execute, Read, Refusal, Reply, Request,
};
use protocol::operation::{Action, Mutation, RequestResult};
use replex::cluster::Cluster;
use replex::inspect;
use replex::wire::FrameConnection;
use tokio::sync::Mutex;

const DEADLINE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: i64,
    pub city: String,
    pub score: i64,
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Certainly nothing was changed, and why.
    Nothing(String),
    /// It is unknown.
    Unknown(String),
}

/// One client's view; a clone is another client.
pub struct People {
    coordinator: String,
    state: Mutex<State>,
}

struct State {
    configuration: Configuration,
    connections: HashMap<String, FrameConnection>,
    session: Option<SessionId>,
    number: u64,
}

impl Clone for People {
    fn clone(&self) -> People {
        let state = self.state.try_lock().unwrap();
        People::new(&self.coordinator, state.configuration.clone())
    }
}

impl People {
    fn new(coordinator: &str, configuration: Configuration) -> People {
        People {
            coordinator: coordinator.to_owned(),
            state: Mutex::new(State {
                configuration,
                connections: HashMap::new(),
                session: None,
                number: 0,
            }),
        }
    }

    /// Creates the table.
    pub async fn create(cluster: &Cluster, schema: Schema) -> People {
        super::create(cluster, schema).await;
        let configuration = cluster.configuration().await.unwrap();
        People::new(cluster.coordinator_address(), configuration)
    }

    pub async fn insert(&self, person: &Person) -> Outcome {
        self.insert_row(person, Value::Null).await
    }

    /// As `insert`, with the column that is in no index.
    pub async fn insert_noted(&self, person: &Person, note: &str) -> Outcome {
        self.insert_row(person, Value::Text(note.to_owned())).await
    }

    async fn insert_row(&self, person: &Person, note: Value) -> Outcome {
        let schema = self.state.lock().await.table().schema.clone();
        let values = [
            Value::Int64(person.id),
            Value::Text(person.city.clone()),
            Value::Int64(person.score),
            note,
        ];
        let row = Bytes(encode_row(&schema.columns, &values).unwrap());
        self.execute(person.id, Action::Insert { row }).await
    }

    pub async fn update(&self, person: &Person) -> Outcome {
        let set = |column, value| Assignment {
            column,
            value: Expression::Literal(value),
        };
        let assignments = vec![
            set(1, Value::Text(person.city.clone())),
            set(2, Value::Int64(person.score)),
        ];
        let action = Action::Update {
            assignments,
            condition: None,
        };
        self.execute(person.id, action).await
    }

    pub async fn delete(&self, id: i64) -> Outcome {
        self.execute(id, Action::Delete { condition: None }).await
    }

    pub async fn by_id(&self, id: i64) -> Vec<Person> {
        self.lookup(0, 0, Value::Int64(id)).await
    }

    pub async fn by_city(&self, city: &str) -> Vec<Person> {
        self.lookup(1, 1, Value::Text(city.to_owned())).await
    }

    async fn execute(&self, id: i64, action: Action) -> Outcome {
        let mut state = self.state.lock().await;
        let pk = encode_key([ValueRef::Int64(id)]);
        let session = state.session(&self.coordinator).await;
        state.number += 1;
        let request = RequestId {
            session,
            number: state.number,
        };
        let deadline = Instant::now() + DEADLINE;
        loop {
            let table = state.table();
            let partition = routes::primary_partition(table, &pk).unwrap();
            let execute = Execute {
                request,
                acknowledged_below: request.number,
                epoch: state.configuration.epoch,
                table: table.id,
                partition,
                mutations: vec![Mutation {
                    pk: Bytes(pk.clone()),
                    action: action.clone(),
                }],
            };
            let reply = state.ask(partition, Request::Execute(execute)).await;
            match reply {
                Ok(Reply::Executed(RequestResult::Applied { .. })) => return Outcome::Done,
                Ok(Reply::Executed(result)) => return Outcome::Nothing(format!("{result:?}")),
                Ok(Reply::Refused(Refusal::DiskFull { server })) => {
                    return Outcome::Nothing(format!("server {} is full", server.0));
                }
                other if Instant::now() > deadline => {
                    return Outcome::Unknown(format!("{other:?}"));
                }
                _ => state.pause(&self.coordinator).await,
            }
        }
    }

    async fn lookup(&self, replex: u8, column: usize, value: Value) -> Vec<Person> {
        let mut state = self.state.lock().await;
        let start = encode_key([value.as_ref()]);
        let end = placement::prefix_end(&start).map(Bytes);
        let deadline = Instant::now() + DEADLINE;
        loop {
            let table = state.table();
            let equated = |at: usize| (at == column).then_some(value.as_ref());
            let numbers = routes::partitions(table, replex, equated, (&start, None));
            let partition = PartitionId {
                table: table.id,
                replex,
                number: numbers[0],
            };
            let read = Read {
                start: Bytes(start.clone()),
                end: end.clone(),
                limit: 10_000,
                ..Read::of(state.configuration.epoch, partition)
            };
            match state.ask(partition, Request::Read(read)).await {
                Ok(Reply::Rows(page)) => return unpack(state.table(), &page.rows.0),
                other => assert!(Instant::now() < deadline, "no rows: {other:?}"),
            }
            state.pause(&self.coordinator).await;
        }
    }
}

impl State {
    fn table(&self) -> &PlacedTable {
        self.configuration.table_named("people").unwrap()
    }

    async fn session(&mut self, coordinator: &str) -> SessionId {
        if let Some(session) = self.session {
            return session;
        }
        let (mut connection, _) = FrameConnection::greet(coordinator).await.unwrap();
        match connection
            .ask(CoordinatorRequest::OpenSession)
            .await
            .unwrap()
        {
            CoordinatorReply::Session { session, .. } => {
                self.session = Some(session);
                session
            }
            other => panic!("no session: {other:?}"),
        }
    }

    async fn ask(&mut self, partition: PartitionId, request: Request) -> std::io::Result<Reply> {
        let place = self.configuration.place(partition).unwrap();
        let address = self.configuration.address(place.core).unwrap().to_owned();
        let mut connection = match self.connections.remove(&address) {
            Some(connection) => connection,
            None => FrameConnection::greet(&address).await?.0,
        };
        let reply = connection.request(request).await?;
        self.connections.insert(address, connection);
        Ok(reply)
    }

    async fn pause(&mut self, coordinator: &str) {
        tokio::time::sleep(PAUSE).await;
        if let Ok(configuration) = inspect::fetch(coordinator).await {
            self.configuration = configuration;
        }
    }
}

fn unpack(table: &PlacedTable, packed: &[u8]) -> Vec<Person> {
    let mut reader = Reader::new(packed);
    let mut people = Vec::new();
    while reader.remaining() > 0 {
        Version::decode(&mut reader).unwrap();
        let row = reader.bytes().unwrap();
        let row = RowView::parse(&table.schema.columns, row).unwrap();
        match &row.to_values()[..] {
            [Value::Int64(id), Value::Text(city), Value::Int64(score), _] => people.push(Person {
                id: *id,
                city: city.clone(),
                score: *score,
            }),
            other => panic!("no person: {other:?}"),
        }
    }
    people
}
