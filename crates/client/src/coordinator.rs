//! The client's connection to the coordinator. It is open to one of the configured coordinators at
//! a time, the first one that answers.
//!
//! Requests of the session machine may be lost, because the machine repeats them. This task never
//! repeats a caller's request that it has sent. If the connection then breaks, it returns
//! [`CallOutcome::Lost`]: the outcome of a change is unknown, and a question can be asked again.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use cluster_tls::stream::ClusterStream;
use protocol::frame;
use protocol::message::{CoordinatorReply, Hello, Message};
use session::SessionInput;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::coordinator_call::{CallOutcome, CoordinatorCall};
use crate::framing::FrameReader;
use crate::greeting::greet;
use crate::hub::Hub;
use crate::options::ConnectOptions;

/// The first pause after no coordinator answered, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The task that sends requests to the coordinator, until no caller can send any more.
pub(crate) struct Coordinator {
    options: ConnectOptions,
    asks: mpsc::UnboundedReceiver<CoordinatorCall>,
    /// Questions of callers that came while no coordinator answered.
    backlog: VecDeque<CoordinatorCall>,
    /// The cluster, once it is known.
    cluster: Option<u64>,
    /// The coordinator that answered last.
    preferred: usize,
    hub: Weak<Hub>,
}

/// An open connection.
struct Connection {
    stream: ClusterStream,
    reader: FrameReader,
    address: String,
    last_correlation: u64,
    /// Questions that have no answer yet.
    open: BTreeMap<u64, CoordinatorCall>,
    /// How long a question may stay without an answer. A coordinator that works answers at once. A
    /// coordinator without an answer may be suspended, and another coordinator may lead.
    patience: Duration,
    /// When the oldest of them was sent since an answer came.
    asked_at: Option<Instant>,
}

impl Coordinator {
    /// Creates a connection for requests before the client exists, because the first answer is
    /// needed to create it.
    pub fn new(
        options: ConnectOptions,
        asks: mpsc::UnboundedReceiver<CoordinatorCall>,
    ) -> Coordinator {
        Coordinator {
            options,
            asks,
            backlog: VecDeque::new(),
            cluster: None,
            preferred: 0,
            hub: Weak::new(),
        }
    }

    /// Serves requests until the client is closed. `hub` delivers the client's hub once it exists.
    pub async fn run(mut self, mut hub: oneshot::Receiver<Weak<Hub>>) {
        while let Some(first) = self.next().await {
            let Some((mut connection, first)) = self.connect(first).await else {
                continue;
            };
            let lost = match connection.send(first).await {
                Ok(()) => self.serve(&mut connection, &mut hub).await,
                Err(reason) => reason,
            };
            for (_, ask) in std::mem::take(&mut connection.open) {
                ask.answer(CallOutcome::Lost(format!("{}: {lost}", connection.address)));
            }
        }
    }

    /// Returns the next question that a caller still waits for; none once the client is closed.
    async fn next(&mut self) -> Option<CoordinatorCall> {
        loop {
            let ask = match self.backlog.pop_front() {
                Some(ask) => ask,
                None => self.asks.recv().await?,
            };
            if ask.is_wanted() {
                return Some(ask);
            }
            ask.answer(CallOutcome::NotSent(Vec::new()));
        }
    }

    /// Drops the machine's queued questions while no coordinator answers, so that they do not
    /// accumulate. The machine asks again later.
    fn drop_machine_asks(&mut self) {
        while let Ok(ask) = self.asks.try_recv() {
            if ask.waiter.is_some() {
                self.backlog.push_back(ask);
            }
        }
    }

    /// Connects to any coordinator, for as long as the first question has time. A question of
    /// the machine has one round: it comes again.
    async fn connect(&mut self, first: CoordinatorCall) -> Option<(Connection, CoordinatorCall)> {
        let mut pause = PAUSE_MIN;
        loop {
            let mut tried = Vec::new();
            for offset in 0..self.options.coordinators.len() {
                let index = (self.preferred + offset) % self.options.coordinators.len();
                match self.open(index).await {
                    Ok(connection) => {
                        self.preferred = index;
                        return Some((connection, first));
                    }
                    Err(reason) => {
                        tried.push(format!("{}: {reason}", self.options.coordinators[index]));
                    }
                }
            }
            let time_left = first.waiter.as_ref().is_some_and(|(sender, deadline)| {
                !sender.is_closed() && *deadline > Instant::now() + pause
            });
            self.drop_machine_asks();
            if !time_left {
                first.answer(CallOutcome::NotSent(tried));
                return None;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn open(&mut self, index: usize) -> Result<Connection, String> {
        let address = self.options.coordinators[index].clone();
        let hello = Hello {
            cluster: self.cluster,
            core: None,
        };
        let patience = self.options.connect_timeout;
        let credentials = self.options.credentials.as_ref();
        let greeting = greet(&address, hello, self.options.silence, credentials);
        let (stream, mut reader, message) = timeout(patience, greeting)
            .await
            .map_err(|_| format!("no answer within {} ms", patience.as_millis()))??;
        match message {
            Message::Welcome(welcome) if welcome.core.is_some() => {
                Err("a server answers there, not a coordinator".to_owned())
            }
            Message::Welcome(welcome) => {
                if self.cluster.is_some_and(|known| known != welcome.cluster) {
                    return Err(format!("it serves cluster {:016x}", welcome.cluster));
                }
                self.cluster = Some(welcome.cluster);
                reader.expect_configurations();
                Ok(Connection {
                    stream,
                    reader,
                    address,
                    last_correlation: 0,
                    open: BTreeMap::new(),
                    patience,
                    asked_at: None,
                })
            }
            Message::Leadership(leadership) => Err(leadership.to_string()),
            Message::Goodbye { reason } => Err(reason),
            _ => Err("it does not greet".to_owned()),
        }
    }

    /// Sends questions and receives answers until the connection breaks. Returns the reason for
    /// that.
    async fn serve(
        &mut self,
        connection: &mut Connection,
        hub: &mut oneshot::Receiver<Weak<Hub>>,
    ) -> String {
        loop {
            loop {
                match connection.reader.next() {
                    Ok(None) => break,
                    Err(error) => return error.to_string(),
                    Ok(Some(frame)) => match frame.message {
                        Message::Answer(reply) => {
                            if let Ok(made) = hub.try_recv() {
                                self.hub = made;
                            }
                            connection.asked_at = None;
                            match connection.open.remove(&frame.correlation) {
                                Some(ask) => self.answer(ask, reply),
                                None => self.heed(&reply),
                            }
                        }
                        Message::Leadership(leadership) => return leadership.to_string(),
                        Message::Goodbye { reason } => return reason,
                        _ => return "it sent an unexpected message".to_owned(),
                    },
                }
            }
            let expiry = connection.next_deadline();
            let space = match connection.reader.space() {
                Ok(space) => space,
                Err(error) => return error.to_string(),
            };
            tokio::select! {
                ask = self.next() => {
                    let Some(ask) = ask else {
                        return "the client is closed".to_owned();
                    };
                    if let Err(reason) = connection.send(ask).await {
                        return reason;
                    }
                }
                count = connection.stream.read(space) => match count {
                    Ok(0) => return "it closed the connection".to_owned(),
                    Ok(count) => connection.reader.filled(count),
                    Err(error) => return error.to_string(),
                },
                () = expired(expiry) => {
                    connection.expire();
                    if connection.stands_still() {
                        return "it does not answer".to_owned();
                    }
                }
            }
        }
    }

    /// Handles an announcement. Any other answer without a question is one that came too late.
    fn heed(&self, reply: &CoordinatorReply) {
        if let CoordinatorReply::NewEpoch { epoch } = *reply
            && let Some(hub) = self.hub.upgrade()
        {
            hub.step(SessionInput::NewEpoch { epoch });
        }
    }

    fn answer(&self, ask: CoordinatorCall, reply: CoordinatorReply) {
        if ask.waiter.is_some() {
            let cluster = self.cluster.expect("a connection has been greeted");
            ask.answer(CallOutcome::Reply(Box::new(reply), cluster));
            return;
        }
        let input = match reply {
            CoordinatorReply::Configuration(configuration) => {
                SessionInput::Configuration(Arc::new(configuration))
            }
            CoordinatorReply::Changes(changes) => SessionInput::Changes(changes),
            CoordinatorReply::Unchanged { epoch } => SessionInput::Unchanged { epoch },
            CoordinatorReply::Session { session, life_us } => {
                SessionInput::Session { session, life_us }
            }
            // Refused: the machine asks again.
            _ => return,
        };
        if let Some(hub) = self.hub.upgrade() {
            hub.step(input);
        }
    }
}

impl Connection {
    async fn send(&mut self, ask: CoordinatorCall) -> Result<(), String> {
        self.last_correlation += 1;
        let correlation = self.last_correlation;
        let mut bytes = Vec::new();
        frame::encode(correlation, &Message::Ask(ask.request.clone()), &mut bytes);
        if ask.waiter.is_none() {
            self.asked_at.get_or_insert_with(Instant::now);
        }
        self.open.insert(correlation, ask);
        let text = |error: std::io::Error| error.to_string();
        self.stream.write_all(&bytes).await.map_err(text)?;
        // TLS may hold bytes back until then.
        self.stream.flush().await.map_err(text)
    }

    /// Returns the earliest time at which a caller or the machine gives up waiting for an answer;
    /// none if neither waits.
    fn next_deadline(&self) -> Option<Instant> {
        let waiters = self.open.values().filter_map(|ask| ask.waiter.as_ref());
        let deadlines = waiters.map(|(_, deadline)| *deadline);
        deadlines
            .chain(self.asked_at.map(|at| at + self.patience))
            .min()
    }

    /// Returns whether the machine has been patient for long enough.
    fn stands_still(&self) -> bool {
        self.asked_at
            .is_some_and(|at| at + self.patience <= Instant::now())
    }

    /// Answers callers whose patience has ended.
    fn expire(&mut self) {
        let now = Instant::now();
        let late = |ask: &CoordinatorCall| {
            let waiter = ask.waiter.as_ref();
            waiter.is_some_and(|(_, deadline)| *deadline <= now)
        };
        let late: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, ask)| late(ask))
            .map(|(correlation, _)| *correlation)
            .collect();
        for correlation in late {
            if let Some(ask) = self.open.remove(&correlation) {
                let reason = format!("{} did not answer in time", self.address);
                ask.answer(CallOutcome::Lost(reason));
            }
        }
    }
}

async fn expired(at: Option<Instant>) {
    match at {
        None => std::future::pending().await,
        Some(at) => {
            // The inner future never ends: only time does.
            let _ = timeout_at(at, std::future::pending::<()>()).await;
        }
    }
}
