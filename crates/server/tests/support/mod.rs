//! Code that the tests share: a blocking client of frames, and processes on threads.
//!
//! Nothing waits by sleeping: sockets block until there is an answer, with a limit that fails the
//! test.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod echo;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ::coordinator::CoordinatorSettings;
use placement::{
    Column, ColumnType, Constraint, Durability, Index, Schema, TableConstraints, Value,
};
use placement::{encode_key, encode_row, prefix_end};
use protocol::codec::Bytes;
use protocol::configuration::{Configuration, PlacedTable};
use protocol::frame::{self, Frame};
use protocol::identity::{Epoch, PartitionId, RequestId, SessionId};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, Execute, Hello, Message, Read as ReadRequest, Refusal,
    Reply, Request, RowPage, Welcome,
};
use protocol::operation::{Action, Mutation, RequestResult};
use server::event_loop::LoopHandle;
use server::{
    CoordinatorOptions, CoordinatorProcess, ServerError, ServerOptions, ServerProcess,
    ServingServer, Stopper,
};

/// How long an answer may take before the test fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A blocking connection that speaks frames.
pub struct Wire {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub fn connect(address: SocketAddr) -> Wire {
        Wire::over(TcpStream::connect(address).unwrap())
    }

    pub fn over(stream: TcpStream) -> Wire {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Wire {
            stream,
            received: Vec::new(),
        }
    }

    /// Connects and sends Hello as a client.
    pub fn client(address: SocketAddr) -> (Wire, Welcome) {
        let mut wire = Wire::connect(address);
        let hello = Hello {
            cluster: None,
            core: None,
        };
        wire.send(0, &Message::Hello(hello));
        match wire.receive().unwrap().message {
            Message::Welcome(welcome) => (wire, welcome),
            other => panic!("{other:?} instead of a Welcome"),
        }
    }

    pub fn send(&mut self, correlation: u64, message: &Message) {
        let mut bytes = Vec::new();
        frame::encode(correlation, message, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The next frame; none at the end of the connection, however it ended.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut chunk = [0; 64 << 10];
        loop {
            if let Some((frame, size)) = frame::decode(&self.received).unwrap() {
                self.received.drain(..size);
                return Some(frame);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The reason of the farewell that must come next, and then the end.
    pub fn farewell(&mut self) -> String {
        let frame = self.receive().expect("a farewell before the end");
        let Message::Goodbye { reason } = frame.message else {
            panic!("{frame:?} instead of a farewell");
        };
        assert_eq!(self.receive(), None, "nothing comes after a farewell");
        reason
    }

    pub fn echo(&mut self, correlation: u64, bytes: usize) {
        self.send(correlation, &Message::Echo(Bytes(vec![7; bytes])));
        let frame = self.receive().expect("an answer");
        assert_eq!(frame.correlation, correlation);
        assert_eq!(frame.message, Message::Echo(Bytes(vec![7; bytes])));
    }

    pub fn request(&mut self, request: Request) -> Reply {
        self.send(9, &Message::Request(request));
        match self.receive().expect("a reply").message {
            Message::Reply(reply) => reply,
            other => panic!("{other:?} instead of a reply"),
        }
    }

    pub fn ask(&mut self, request: CoordinatorRequest) -> CoordinatorReply {
        self.send(9, &Message::Ask(request));
        match self.receive().expect("an answer").message {
            Message::Answer(reply) => reply,
            other => panic!("{other:?} instead of an answer"),
        }
    }

    pub fn status(&mut self, name: &str) -> u64 {
        let Reply::Status(counters) = self.request(Request::Status) else {
            panic!("no counters");
        };
        let found = counters.into_iter().find(|(counter, _)| counter == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

/// A coordinator on a thread; stopped when dropped.
pub struct RunningCoordinator {
    pub address: SocketAddr,
    handle: LoopHandle,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl RunningCoordinator {
    pub fn start(options: &CoordinatorOptions) -> RunningCoordinator {
        let process = CoordinatorProcess::bind(options).unwrap();
        let (address, handle) = (process.address(), process.handle());
        let thread = Some(std::thread::spawn(move || process.run()));
        RunningCoordinator {
            address,
            handle,
            thread,
        }
    }

    pub fn stop(mut self) -> Result<(), ServerError> {
        self.handle.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RunningCoordinator {
    fn drop(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server on threads; stopped when dropped.
pub struct RunningServer {
    pub ready: ServingServer,
    pub stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServerError>>>,
}

impl RunningServer {
    pub fn start(options: ServerOptions) -> Result<RunningServer, ServerError> {
        let server = ServerProcess::bind(options)?;
        let stopper = server.stopper();
        let (sender, is_ready) = mpsc::channel();
        let thread =
            std::thread::spawn(move || server.run(|ready| sender.send(ready.clone()).unwrap()));
        // The sender goes with the thread, so that a server that never serves ends the wait.
        match is_ready.recv() {
            Ok(ready) => Ok(RunningServer {
                ready,
                stopper,
                thread: Some(thread),
            }),
            Err(_) => Err(thread.join().unwrap().unwrap_err()),
        }
    }

    pub fn stop(mut self) -> Result<(), ServerError> {
        self.stop_and_wait()
    }

    pub fn stop_and_wait(&mut self) -> Result<(), ServerError> {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// id, name (unique), city; three replexes.
pub fn people(durability: Durability) -> Schema {
    let column = |name: &str, column_type| Column {
        name: name.into(),
        column_type,
        nullable: false,
        default: None,
        missing: None,
    };
    Schema {
        name: "people".into(),
        columns: vec![
            column("id", ColumnType::Int64),
            column("name", ColumnType::Text),
            column("city", ColumnType::Text),
        ],
        primary_key: vec![0],
        indexes: vec![
            Index {
                name: "by_name".into(),
                columns: vec![1],
                constraint: Some(Constraint::Unique),
                partition_columns: None,
                by_range: false,
            },
            Index {
                name: "by_city".into(),
                columns: vec![2],
                constraint: None,
                partition_columns: None,
                by_range: false,
            },
        ],
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 6,
        failures_tolerated: 2,
        failures_wanted: 0,
        local_entries: true,
        durability,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    }
}

/// A small client of the store: it asks the coordinator and the right cores, one at a time.
pub struct Teller {
    coordinator: Wire,
    pub configuration: Configuration,
    session: SessionId,
    number: u64,
    cores: std::collections::BTreeMap<String, Wire>,
}

impl Teller {
    pub fn new(coordinator: SocketAddr) -> Teller {
        let (mut wire, _) = Wire::client(coordinator);
        let CoordinatorReply::Session { session, .. } = wire.ask(CoordinatorRequest::OpenSession)
        else {
            panic!("no session");
        };
        let mut teller = Teller {
            coordinator: wire,
            configuration: Configuration::default(),
            session,
            number: 0,
            cores: Default::default(),
        };
        teller.fetch();
        teller
    }

    pub fn fetch(&mut self) {
        assert!(self.try_fetch(), "no answer of the coordinator");
    }

    /// Whether the coordinator answered; the last configuration stays where it is offline.
    fn try_fetch(&mut self) -> bool {
        let mut bytes = Vec::new();
        let ask = Message::Ask(CoordinatorRequest::Fetch { known: Epoch(0) });
        frame::encode(9, &ask, &mut bytes);
        let sent = self.coordinator.stream.write_all(&bytes);
        let frame = sent.ok().and_then(|()| self.coordinator.receive());
        match frame.map(|frame| frame.message) {
            Some(Message::Answer(CoordinatorReply::Configuration(configuration))) => {
                self.configuration = configuration;
                true
            }
            Some(Message::Goodbye { .. }) | None => false,
            Some(other) => panic!("{other:?} instead of a configuration"),
        }
    }

    pub fn create(&mut self, schema: Schema) {
        let request = CoordinatorRequest::CreateTable {
            schema,
            if_not_exists: false,
            sequences: Vec::new(),
            owner: Default::default(),
        };
        match self.coordinator.ask(request) {
            CoordinatorReply::Done { .. } => self.fetch(),
            other => panic!("{other:?} instead of a table"),
        }
    }

    fn table(&self) -> &PlacedTable {
        self.configuration.table_named("people").unwrap()
    }

    /// Sends to the core of a partition until it is not refused for now.
    fn ask(&mut self, partition: PartitionId, make: &dyn Fn(Epoch) -> Request) -> Reply {
        let begin = std::time::Instant::now();
        loop {
            let place = self.configuration.place(partition).unwrap();
            let address = self.configuration.address(place.core).unwrap().to_owned();
            let request = make(self.configuration.epoch);
            let reply = self.try_ask(&address, request);
            match reply {
                Some(Reply::Refused(
                    Refusal::StaleEpoch { .. }
                    | Refusal::NotServing
                    | Refusal::Overloaded
                    | Refusal::WrongPartition,
                ))
                | None => {
                    assert!(begin.elapsed() < PATIENCE, "{reply:?} for too long");
                    if !self.try_fetch() {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                Some(reply) => return reply,
            }
        }
    }

    fn try_ask(&mut self, address: &str, request: Request) -> Option<Reply> {
        if !self.cores.contains_key(address) {
            let address = address.parse().unwrap();
            // The server may be offline.
            TcpStream::connect(address).ok()?;
            let (wire, _) = Wire::client(address);
            self.cores.insert(address.to_string(), wire);
        }
        let wire = self.cores.get_mut(address).unwrap();
        let mut bytes = Vec::new();
        frame::encode(1, &Message::Request(request), &mut bytes);
        let sent = wire.stream.write_all(&bytes);
        match sent.ok().and_then(|()| wire.receive()) {
            Some(Frame {
                message: Message::Reply(reply),
                ..
            }) => Some(reply),
            _ => {
                self.cores.remove(address);
                None
            }
        }
    }

    pub fn insert(&mut self, id: i64, name: &str, city: &str) -> RequestResult {
        let values = [
            Value::Int64(id),
            Value::Text(name.into()),
            Value::Text(city.into()),
        ];
        let table = self.table();
        let row = Bytes(encode_row(&table.schema.columns, &values).unwrap());
        let number = table
            .layout
            .partition_of_values(0, |column| values[column].as_ref());
        let partition = PartitionId {
            table: table.id,
            replex: 0,
            number,
        };
        self.number += 1;
        let request = RequestId {
            session: self.session,
            number: self.number,
        };
        let pk = Bytes(encode_key([values[0].as_ref()]));
        let make = |epoch| {
            Request::Execute(Execute {
                request,
                acknowledged_below: request.number,
                epoch,
                table: partition.table,
                partition,
                mutations: vec![Mutation {
                    pk: pk.clone(),
                    action: Action::Insert { row: row.clone() },
                }],
            })
        };
        match self.ask(partition, &make) {
            Reply::Executed(result) => result,
            other => panic!("{other:?} instead of a result"),
        }
    }

    /// Looks up by the key of a replex: 0 is the id, 1 the name, 2 the city.
    pub fn lookup(&mut self, replex: u8, key: Value) -> RowPage {
        let table = self.table();
        let number = table
            .layout
            .partition_of_values(usize::from(replex), |_| key.as_ref());
        let partition = PartitionId {
            table: table.id,
            replex,
            number,
        };
        let start = encode_key([key.as_ref()]);
        let end = prefix_end(&start).map(Bytes);
        let make = |epoch| {
            Request::Read(ReadRequest {
                start: Bytes(start.clone()),
                end: end.clone(),
                limit: 100,
                ..ReadRequest::of(epoch, partition)
            })
        };
        match self.ask(partition, &make) {
            Reply::Rows(page) => page,
            other => panic!("{other:?} instead of rows"),
        }
    }
}

/// A coordinator and servers, in one temporary folder.
pub struct Cluster {
    pub coordinator: RunningCoordinator,
    pub servers: Vec<RunningServer>,
    pub folder: tempfile::TempDir,
}

impl Cluster {
    pub fn start(servers: usize) -> Cluster {
        Cluster::start_with(servers, CoordinatorSettings::default())
    }

    pub fn start_with(servers: usize, settings: CoordinatorSettings) -> Cluster {
        let folder = tempfile::tempdir().unwrap();
        let options = CoordinatorOptions {
            settings,
            ..CoordinatorOptions::new(folder.path().join("coordinator"))
        };
        let coordinator = RunningCoordinator::start(&options);
        let mut cluster = Cluster {
            coordinator,
            servers: Vec::new(),
            folder,
        };
        for number in 0..servers {
            let server = RunningServer::start(cluster.server_options(number)).unwrap();
            cluster.servers.push(server);
        }
        cluster
    }

    pub fn server_options(&self, number: usize) -> ServerOptions {
        let folder = self.folder.path().join(format!("server-{number}"));
        ServerOptions::new(folder, vec![self.coordinator.address.to_string()])
    }
}

/// Copies a folder with all that is in it, as `cp -r` does.
pub fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
