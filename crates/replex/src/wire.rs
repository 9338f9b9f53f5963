//! A connection that sends and receives single frames: one question at a time, without routing or
//! retries.
//!
//! It is for code that has to know exactly which bytes go over the wire: waiting until a process is
//! ready, and tests with messages that no client sends. All other code uses crate `client`.

use std::io;
use std::time::Duration;

use cluster_tls::explain;
use cluster_tls::stream::{ClusterStream, secure};
use protocol::frame::{self, Frame, FrameLimits, HEADER_BYTES};
use protocol::message::{
    CoordinatorReply, CoordinatorRequest, Hello, Leadership, Message, Reply, Request, Welcome,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::credentials;

/// A process that does not answer within this does not answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// A connection to a core or to the coordinator.
pub struct FrameConnection {
    stream: ClusterStream,
    correlation: u64,
    received: Vec<u8>,
    /// Whether a frame has come.
    is_greeted: bool,
}

impl FrameConnection {
    /// Connects without sending a message.
    ///
    /// # Errors
    /// No process listens there; may be tried again.
    pub async fn open(address: &str) -> io::Result<Self> {
        let stream = within(TcpStream::connect(address)).await?;
        stream.set_nodelay(true)?;
        let credentials = credentials::current();
        let stream = within(secure(stream, credentials.as_ref())).await?;
        Ok(FrameConnection {
            stream,
            correlation: 0,
            received: Vec::new(),
            is_greeted: false,
        })
    }

    /// Connects and sends hello as a client.
    ///
    /// # Errors
    /// No process listens there, or it is no Replex process.
    pub async fn greet(address: &str) -> io::Result<(Self, Welcome)> {
        let mut connection = FrameConnection::open(address).await?;
        let hello = Message::Hello(Hello {
            cluster: None,
            core: None,
        });
        match connection.call(&hello).await? {
            Message::Welcome(welcome) => Ok((connection, welcome)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request to the coordinator, and returns the answer.
    ///
    /// # Errors
    /// The connection broke, or the other side sends an unexpected message.
    pub async fn ask(&mut self, request: CoordinatorRequest) -> io::Result<CoordinatorReply> {
        match self.call(&Message::Ask(request)).await? {
            Message::Answer(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks a coordinator which coordinator leads.
    ///
    /// # Errors
    /// As [`FrameConnection::ask`].
    pub async fn find_leader(&mut self) -> io::Result<Leadership> {
        match self.call(&Message::FindLeader).await? {
            Message::Leadership(leadership) => Ok(leadership),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request to a core, and returns the reply.
    ///
    /// # Errors
    /// As [`FrameConnection::ask`].
    pub async fn request(&mut self, request: Request) -> io::Result<Reply> {
        match self.call(&Message::Request(request)).await? {
            Message::Reply(reply) => Ok(reply),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a message and returns its answer.
    async fn call(&mut self, message: &Message) -> io::Result<Message> {
        self.correlation += 1;
        let mut bytes = Vec::new();
        frame::encode(self.correlation, message, &mut bytes);
        self.send(&bytes).await?;
        loop {
            let frame = self.receive().await?;
            let answers = frame.correlation == self.correlation
                || matches!(
                    frame.message,
                    Message::Welcome(_) | Message::Leadership(_) | Message::Goodbye { .. }
                );
            if answers {
                return Ok(frame.message);
            }
        }
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        within(self.stream.write_all(bytes)).await?;
        within(self.stream.flush()).await
    }

    /// Returns the next frame of any kind.
    ///
    /// # Errors
    /// The connection ended (`UnexpectedEof`), broke, or carried no frame (`InvalidData`).
    pub async fn receive(&mut self) -> io::Result<Frame> {
        loop {
            let first = match self.is_greeted {
                true => Ok(()),
                false => frame::check_first(&self.received),
            };
            let decoded = first
                .and_then(|()| frame::decode_within(&self.received, FrameLimits::Configurations))
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            if let Some((frame, size)) = decoded {
                assert!(size >= HEADER_BYTES, "a decoded frame has its header");
                self.is_greeted = true;
                self.received.drain(..size);
                return Ok(frame);
            }
            let read = within(self.stream.read_buf(&mut self.received)).await;
            // Whether the other side accepts this one's certificate shows at the first read.
            if read.map_err(|error| io::Error::new(error.kind(), explain(&error)))? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

async fn within<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match timeout(ANSWER_WITHIN, work).await {
        Ok(result) => result,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

fn unexpected(message: &Message) -> io::Error {
    let text = match message {
        Message::Goodbye { reason } => reason.clone(),
        Message::Leadership(leadership) => leadership.to_string(),
        other => format!("an answer that was not asked for: {other:?}"),
    };
    io::Error::new(io::ErrorKind::InvalidData, text)
}
