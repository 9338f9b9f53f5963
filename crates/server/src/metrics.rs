//! Serves the counters of a server in Prometheus's text format, on a separate port.
//!
//! A thread that sleeps until a request comes: it then asks each core for its status, as any client
//! does, so that nothing is shared with the event loops. It answers one request at a time, and
//! every path alike. It serves figures only; its address decides which programs can read them.
//! Other processes serve their own figures in the same way.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use cluster_tls::Credentials;
use protocol::identity::ServerId;
use protocol::message::{Message, Reply, Request};

use crate::blocking::Blocking;
use crate::error::ServerError;

/// How long a scrape, or a core, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a question's head that are read at most.
const HEAD_BYTES_MAX: u64 = 8 << 10;

/// A port that serves counters.
pub struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at `address`. Port 0 uses a free port.
    ///
    /// # Errors
    /// The address is taken.
    pub fn bind(address: SocketAddr) -> Result<Self, ServerError> {
        let what = format!("listen at {address} for metrics");
        let listener = TcpListener::bind(address).map_err(ServerError::io(what.clone()))?;
        let address = listener.local_addr().map_err(ServerError::io(what))?;
        Ok(Metrics { listener, address })
    }

    /// Returns the listening address, with the port that the system chose.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers every request with the result of `text`, on a thread that ends with the process.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn serve(self, text: impl Fn() -> String + Send + 'static) -> Result<(), ServerError> {
        let run = move || {
            for stream in self.listener.incoming() {
                match stream {
                    // A client that asks and does not read loses its answer: that is no error.
                    Ok(stream) => drop(answer(stream, &text)),
                    // No descriptors left: others have to give some back first.
                    Err(_) => std::thread::sleep(PATIENCE),
                }
            }
        };
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(run)
            .map_err(ServerError::io("start the thread for metrics"))?;
        Ok(())
    }
}

fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    // The head is read to its end, since closing over unread bytes would destroy the answer.
    let mut head = BufReader::new((&stream).take(HEAD_BYTES_MAX));
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    let body = text();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}

/// Returns the counters of a server's cores.
pub fn text(server: ServerId, cores: &[SocketAddr], credentials: Option<&Credentials>) -> String {
    let mut text = String::new();
    for (core, address) in cores.iter().enumerate() {
        let labels = format!("{{server=\"{}\",core=\"{core}\"}}", server.0);
        let counters = status(*address, credentials);
        let up = u64::from(counters.is_ok());
        // Writing to a string does not fail.
        let _ = writeln!(text, "replex_core_up{labels} {up}");
        for (name, value) in counters.unwrap_or_default() {
            let _ = writeln!(text, "replex_{name}{labels} {value}");
        }
    }
    text
}

fn status(
    address: SocketAddr,
    credentials: Option<&Credentials>,
) -> std::io::Result<Vec<(String, u64)>> {
    let mut connection = Blocking::connect(address, None, PATIENCE, credentials)?;
    connection.send(&Message::Request(Request::Status))?;
    loop {
        match connection.receive()? {
            Message::Welcome(_) => {}
            Message::Reply(Reply::Status(counters)) => return Ok(counters),
            other => {
                let what = format!("{other:?} instead of counters");
                return Err(std::io::Error::other(what));
            }
        }
    }
}
