//! A blocking connection that sends and receives frames. It is for the few uses outside of event
//! loops: to join a cluster, and to read counters.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use cluster_tls::{Credentials, StreamOwned, explain};
use protocol::frame::{self, FrameLimits};
use protocol::message::{Hello, Message};

/// The bytes of a connection, encrypted or not.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A connection with blocking calls, on which this side has sent `Hello`.
pub(crate) struct Blocking {
    stream: Box<dyn Stream>,
    /// The socket beneath, for its options.
    socket: TcpStream,
    received: Vec<u8>,
    /// Whether a message has come.
    is_greeted: bool,
}

impl Blocking {
    /// Connects, and sends `Hello` as a client of the cluster, if the cluster is known.
    pub fn connect(
        address: SocketAddr,
        cluster: Option<u64>,
        patience: Duration,
        credentials: Option<&Credentials>,
    ) -> Result<Blocking> {
        let socket = TcpStream::connect_timeout(&address, patience)?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        socket.set_nodelay(true)?;
        let mut connection = Blocking::over(socket)?;
        if let Some(credentials) = credentials {
            let tls = credentials.connect().map_err(Error::other)?;
            let socket = connection.socket.try_clone()?;
            connection.stream = Box::new(StreamOwned::new(tls, socket));
        }
        let hello = Hello {
            cluster,
            core: None,
        };
        connection.send(&Message::Hello(hello))?;
        Ok(connection)
    }

    /// Uses a connection on which nothing was sent yet.
    pub fn over(socket: TcpStream) -> Result<Blocking> {
        Ok(Blocking {
            stream: Box::new(socket.try_clone()?),
            socket,
            received: Vec::new(),
            is_greeted: false,
        })
    }

    /// Sets the longest wait of the next read.
    pub fn set_read_timeout(&self, patience: Duration) -> Result<()> {
        self.socket.set_read_timeout(Some(patience))
    }

    pub fn send(&mut self, message: &Message) -> Result<()> {
        let mut bytes = Vec::new();
        frame::encode(0, message, &mut bytes);
        self.stream.write_all(&bytes).map_err(explained)
    }

    /// Returns the next message.
    pub fn receive(&mut self) -> Result<Message> {
        let mut chunk = [0; 16 << 10];
        loop {
            let first = match self.is_greeted {
                true => Ok(()),
                false => frame::check_first(&self.received),
            };
            let decoded = first
                .and_then(|()| frame::decode_within(&self.received, FrameLimits::Configurations));
            let decoded = decoded.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
            if let Some((frame, size)) = decoded {
                self.is_greeted = true;
                self.received.drain(..size);
                return Ok(frame.message);
            }
            match self.stream.read(&mut chunk).map_err(explained)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

/// Returns an error with a text for people, if TLS has failed.
fn explained(error: Error) -> Error {
    match error.kind() {
        ErrorKind::InvalidData => Error::new(ErrorKind::InvalidData, explain(&error)),
        _ => error,
    }
}
