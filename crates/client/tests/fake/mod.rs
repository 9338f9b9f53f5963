//! A cluster of one server that follows a test's script, on loopback: for events that are too rare
//! with real servers.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use client::{Client, ConnectOptions, SchemaBuilder};
use placement::{ColumnType, Layout, Schema, TableComments};
use protocol::configuration::{Configuration, Place, PlacedTable, Server, ServerState};
use protocol::frame::{self, Frame};
use protocol::identity::{CoreId, Epoch, Incarnation, ServerId, SessionId, TableId};
use protocol::message::{CoordinatorReply, CoordinatorRequest, Message, Reply, Request, Welcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub const CLUSTER: u64 = 0xabc;

/// The server's reaction to a request.
pub enum Reaction {
    /// Answers.
    Reply(Reply),
    /// Keeps silent.
    Silence,
    /// Closes the connection.
    Close,
    /// Sends the reason, and closes the connection.
    Goodbye(String),
    /// Sends bytes that may be no frame.
    Bytes(Vec<u8>),
    /// Answers these, in this order.
    Replies(Vec<(u64, Reply)>),
}

type Script = dyn FnMut(u64, Request) -> Reaction + Send;

/// The server's address, and the requests that it received.
pub struct Fake {
    pub coordinator: String,
    pub configuration: Arc<Mutex<Configuration>>,
    /// Questions for configurations, and connections to the server.
    pub counts: Arc<Mutex<(u64, u64)>>,
    /// Whether the coordinator accepts the next change. It ends after its answer.
    pub accepts: Arc<AtomicBool>,
    /// How many of the next questions for a configuration end the coordinator's connection.
    pub losses: Arc<AtomicU64>,
}

pub fn schema() -> Schema {
    SchemaBuilder::new("t")
        .column("id", ColumnType::Int64)
        .column("a", ColumnType::Bytes)
        .primary_key(&["id"])
        .partitions(2)
        .build()
        .unwrap()
}

/// Starts a coordinator that answers well, and a server that follows the script.
pub async fn start(script: impl FnMut(u64, Request) -> Reaction + Send + 'static) -> Fake {
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = server.local_addr().unwrap().to_string();
    start_at(address, Some(server), script).await
}

/// The same with a server at this address, which may be none.
pub async fn start_at(
    address: String,
    server: Option<TcpListener>,
    script: impl FnMut(u64, Request) -> Reaction + Send + 'static,
) -> Fake {
    let configuration = Arc::new(Mutex::new(configuration(address)));
    let counts = Arc::new(Mutex::new((0, 0)));
    let coordinator = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let accepts = Arc::new(AtomicBool::new(false));
    let losses = Arc::new(AtomicU64::new(0));
    let fake = Fake {
        coordinator: coordinator.local_addr().unwrap().to_string(),
        configuration: configuration.clone(),
        counts: counts.clone(),
        accepts: accepts.clone(),
        losses: losses.clone(),
    };
    tokio::spawn(coordinate(
        coordinator,
        configuration.clone(),
        counts.clone(),
        accepts,
        losses,
    ));
    if let Some(server) = server {
        let script: Arc<Mutex<Box<Script>>> = Arc::new(Mutex::new(Box::new(script)));
        tokio::spawn(async move {
            loop {
                let (stream, _) = server.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                counts.lock().unwrap().1 += 1;
                tokio::spawn(serve(stream, configuration.clone(), script.clone()));
            }
        });
    }
    fake
}

impl Fake {
    pub async fn client(&self, options: impl FnOnce(&mut ConnectOptions)) -> Client {
        let mut all = ConnectOptions::new([&self.coordinator]);
        options(&mut all);
        Client::connect(all).await.unwrap()
    }
}

pub fn core() -> CoreId {
    CoreId {
        server: ServerId(1),
        core: 0,
    }
}

fn configuration(address: String) -> Configuration {
    let schema = schema();
    let layout = Layout::base(&schema);
    let place = Place::serving(core(), Epoch(1));
    Configuration {
        cluster: CLUSTER,
        epoch: Epoch(1),
        servers: vec![Server {
            id: ServerId(1),
            incarnation: Incarnation(1),
            domain: "one".into(),
            cores: vec![address],
            state: ServerState::Up,
            is_draining: false,
            is_new: false,
        }],
        tables: vec![PlacedTable {
            id: TableId(1),
            epoch: Epoch(1),
            sealing: None,
            columns_since: Epoch(0),
            placement: vec![vec![place; 2]; layout.replexes.len()],
            schema,
            layout,
            building: Vec::new(),
            comments: TableComments::default(),
        }]
        .into(),
        roles: Default::default(),
    }
}

async fn coordinate(
    listener: TcpListener,
    configuration: Arc<Mutex<Configuration>>,
    counts: Arc<Mutex<(u64, u64)>>,
    accepts: Arc<AtomicBool>,
    losses: Arc<AtomicU64>,
) {
    let mut sessions = 0;
    let one_less = |left: u64| left.checked_sub(1);
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while let Some(frame) = next_frame(&mut stream, &mut received).await {
            let message = match frame.message {
                Message::Hello(_) => welcome(&configuration, None),
                Message::Ask(CoordinatorRequest::Fetch { known }) => {
                    counts.lock().unwrap().0 += 1;
                    let lost = losses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
                    if lost.is_ok() {
                        break;
                    }
                    let configuration = configuration.lock().unwrap().clone();
                    Message::Answer(if configuration.epoch > known {
                        CoordinatorReply::Configuration(configuration)
                    } else {
                        CoordinatorReply::Unchanged { epoch: known }
                    })
                }
                Message::Ask(CoordinatorRequest::OpenSession) => {
                    sessions += 1;
                    Message::Answer(CoordinatorReply::Session {
                        session: SessionId(sessions),
                        life_us: 3_600_000_000,
                    })
                }
                Message::Ask(_) if accepts.load(Ordering::SeqCst) => {
                    let epoch = Epoch(configuration.lock().unwrap().epoch.0 + 1);
                    let done = CoordinatorReply::Done { epoch, table: None };
                    send(&mut stream, frame.correlation, &Message::Answer(done)).await;
                    return;
                }
                Message::Ask(_) => Message::Answer(CoordinatorReply::Refused {
                    message: "this coordinator changes nothing".into(),
                    retry: false,
                }),
                other => panic!("{other:?}"),
            };
            send(&mut stream, frame.correlation, &message).await;
        }
    }
}

async fn serve(
    mut stream: TcpStream,
    configuration: Arc<Mutex<Configuration>>,
    script: Arc<Mutex<Box<Script>>>,
) {
    let mut received = Vec::new();
    while let Some(frame) = next_frame(&mut stream, &mut received).await {
        let correlation = frame.correlation;
        let request = match frame.message {
            Message::Hello(_) => {
                let message = welcome(&configuration, Some((core(), Incarnation(1))));
                send(&mut stream, correlation, &message).await;
                continue;
            }
            Message::Request(request) => request,
            other => panic!("{other:?}"),
        };
        let reaction = script.lock().unwrap()(correlation, request);
        match reaction {
            Reaction::Silence => {}
            Reaction::Close => return,
            Reaction::Reply(reply) => {
                send(&mut stream, correlation, &Message::Reply(reply)).await;
            }
            Reaction::Replies(replies) => {
                for (correlation, reply) in replies {
                    send(&mut stream, correlation, &Message::Reply(reply)).await;
                }
            }
            Reaction::Goodbye(reason) => {
                send(&mut stream, 0, &Message::Goodbye { reason }).await;
                return;
            }
            Reaction::Bytes(bytes) => {
                // The client may have closed the connection already.
                let _ = stream.write_all(&bytes).await;
            }
        }
    }
}

fn welcome(configuration: &Mutex<Configuration>, core: Option<(CoreId, Incarnation)>) -> Message {
    Message::Welcome(Welcome {
        cluster: CLUSTER,
        core,
        epoch: configuration.lock().unwrap().epoch,
    })
}

async fn send(stream: &mut TcpStream, correlation: u64, message: &Message) {
    let mut bytes = Vec::new();
    frame::encode(correlation, message, &mut bytes);
    // The client may have closed the connection already.
    let _ = stream.write_all(&bytes).await;
}

async fn next_frame(stream: &mut TcpStream, received: &mut Vec<u8>) -> Option<Frame> {
    loop {
        if let Some((frame, size)) = frame::decode(received).unwrap() {
            received.drain(..size);
            return Some(frame);
        }
        if stream.read_buf(received).await.ok()? == 0 {
            return None;
        }
    }
}
