//! One connection to one core of a server.
//!
//! Whoever submits a request writes it to the socket himself while nothing else is under way:
//! that saves a task switch. Otherwise the writer task writes whatever has gathered in one piece.
//! The reader task hands every whole frame that is there to the session machine in one go.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::frame;
use protocol::identity::{CoreId, Epoch};
use protocol::message::{Hello, Message, Reply};
use protocol::session::Input;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::framing::FrameReader;
use crate::hub::Hub;

/// A buffer for sending that has grown beyond this is given back once it is empty.
const OUTGOING_BYTES_KEPT: usize = 1 << 20;

/// The writing side of a connection.
#[derive(Debug)]
pub(crate) struct LinkWriter {
    half: OwnedWriteHalf,
    outgoing: Mutex<Outgoing>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl LinkWriter {
    fn new(half: OwnedWriteHalf) -> LinkWriter {
        LinkWriter {
            half,
            outgoing: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Puts a frame behind what waits.
    pub fn push(&self, correlation: u64, message: &Message) {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        frame::encode(correlation, message, &mut outgoing.bytes);
    }

    /// Has the writer task write what waits, after the tasks that are ready now have added theirs.
    pub fn flush_soon(&self) {
        self.wake.notify_one();
    }

    /// Writes what waits at once, as far as the socket takes it; the writer task does the rest.
    pub fn flush_now(&self) {
        // An error shows at the reading side too, which ends the connection.
        if !matches!(self.write_some(), Ok(true)) {
            self.wake.notify_one();
        }
    }

    /// Writes as much as the socket takes; true if nothing is left.
    fn write_some(&self) -> std::io::Result<bool> {
        let mut outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        while outgoing.written < outgoing.bytes.len() {
            match self.half.try_write(&outgoing.bytes[outgoing.written..]) {
                Ok(count) => outgoing.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        outgoing.written = 0;
        outgoing.bytes.clear();
        if outgoing.bytes.capacity() > OUTGOING_BYTES_KEPT {
            outgoing.bytes = Vec::new();
        }
        Ok(true)
    }

    /// Writes until the connection breaks.
    async fn run(&self) -> std::io::Result<()> {
        loop {
            self.wake.notified().await;
            while !self.write_some()? {
                self.half.writable().await?;
            }
        }
    }
}

/// Where a link leads.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub core: CoreId,
    pub address: String,
    pub cluster: u64,
}

/// Opens a connection, serves it until it breaks, and tells the session machine of both. The
/// text says why it broke.
pub(crate) async fn run(hub: Arc<Hub>, target: Target) {
    let core = target.core;
    let reason = match open(&hub, &target).await {
        Err(reason) => reason,
        Ok((stream, reader, epoch)) => {
            let (read_half, write_half) = stream.into_split();
            let writer = Arc::new(LinkWriter::new(write_half));
            hub.connected(core, epoch, Arc::clone(&writer));
            tokio::select! {
                reason = read(&hub, core, read_half, reader) => reason,
                result = writer.run() => match result {
                    Ok(()) => "the writer ended".to_owned(),
                    Err(error) => error.to_string(),
                },
            }
        }
    };
    let reason = format!("server {} at {}: {reason}", core.server.0, target.address);
    hub.disconnected(core, reason);
}

/// Opens a connection and exchanges greetings.
async fn open(hub: &Hub, target: &Target) -> Result<(TcpStream, FrameReader, Epoch), String> {
    let greeting = async {
        let hello = Hello {
            cluster: Some(target.cluster),
            core: None,
        };
        let (stream, reader, message) =
            greet(&target.address, hello, hub.options().silence).await?;
        match message {
            Message::Welcome(welcome) if welcome.cluster != target.cluster => Err(format!(
                "it belongs to cluster {:016x}, not {:016x}",
                welcome.cluster, target.cluster
            )),
            Message::Welcome(welcome) => match welcome.core {
                Some((core, _)) if core == target.core => Ok((stream, reader, welcome.epoch)),
                _ => Err("another server answers there".to_owned()),
            },
            Message::Goodbye { reason } => Err(reason),
            _ => Err("it does not greet".to_owned()),
        }
    };
    let patience = hub.options().connect_timeout;
    match timeout(patience, greeting).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} ms", patience.as_millis())),
    }
}

/// Connects, says hello and takes the first frame.
pub(crate) async fn greet(
    address: &str,
    hello: Hello,
    silence: Duration,
) -> Result<(TcpStream, FrameReader, Message), String> {
    let text = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    // A host that vanished without a word is noticed by what it does not acknowledge.
    let socket = SockRef::from(&stream);
    socket.set_tcp_user_timeout(Some(silence)).map_err(text)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(silence)
        .with_interval(silence / 4);
    socket.set_tcp_keepalive(&keepalive).map_err(text)?;
    let mut bytes = Vec::new();
    frame::encode(0, &Message::Hello(hello), &mut bytes);
    stream.write_all(&bytes).await.map_err(text)?;
    let mut reader = FrameReader::new();
    loop {
        if let Some(frame) = reader.next().map_err(|error| error.to_string())? {
            return Ok((stream, reader, frame.message));
        }
        let space = reader.space().map_err(|error| error.to_string())?;
        match stream.read(space).await.map_err(text)? {
            0 => return Err("it closed the connection".to_owned()),
            count => reader.filled(count),
        }
    }
}

/// Hands replies to the session machine until the connection ends; says why.
async fn read(hub: &Hub, core: CoreId, mut half: OwnedReadHalf, mut reader: FrameReader) -> String {
    let mut replies: Vec<(u64, Reply)> = Vec::new();
    loop {
        let end = loop {
            match reader.next() {
                Ok(None) => break None,
                Err(error) => break Some(error.to_string()),
                Ok(Some(frame)) => match frame.message {
                    Message::Reply(reply) => replies.push((frame.correlation, reply)),
                    Message::Goodbye { reason } => break Some(reason),
                    _ => break Some("it sent what no client asks for".to_owned()),
                },
            }
        };
        if !replies.is_empty() {
            hub.step_all(replies.drain(..).map(|(correlation, reply)| Input::Reply {
                core,
                correlation,
                reply,
            }));
        }
        if let Some(reason) = end {
            return reason;
        }
        let space = match reader.space() {
            Ok(space) => space,
            Err(error) => return error.to_string(),
        };
        match half.read(space).await {
            Ok(0) => return "it closed the connection".to_owned(),
            Ok(count) => reader.filled(count),
            Err(error) => return error.to_string(),
        }
    }
}
