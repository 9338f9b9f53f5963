//! One session's sockets: moves bytes between the client, the machine and the server.
//!
//! Memory per session is bounded: nothing is read for a peer that does not take what it was sent.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Buf;

use super::Proxy;
use super::cancel::{self, Entry};
use super::login::Welcomed;
use crate::pool::stream::Peer;
use crate::pool::{Connection, Key, Login};
use crate::wire::Malformed;
use crate::wire::cut::{Cutter, Piece, Side, WHOLE_LEN_MAX};
use crate::wire::message;
use crate::wire::report::{Report, Severity};
use crate::wire::session::{Leftover, Out, Session, Wants};

/// Bytes that may wait for a peer before nothing more is read for it.
const OUTPUT_LEN_MAX: usize = 256 * 1024;

/// Bytes of a client that are read ahead, at most: one whole message, and what came with it.
const INPUT_LEN_MAX: usize = WHOLE_LEN_MAX;
/// How long a peer is waited for when a session ends.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// SQLSTATEs.
const PROTOCOL_VIOLATION: &str = "08P01";
const CONNECTION_FAILURE: &str = "08006";

/// A client's session and its sockets.
struct Relay<'a> {
    proxy: &'a Arc<Proxy>,
    client: Peer,
    cutter: Cutter,
    /// The client has sent all it will send.
    client_ended: bool,
    session: Session,
    key: Key,
    login: Login,
    entry: Entry<'a>,
    connection: Option<Connection>,
    out: Out,
}

/// Why a session ends.
enum End {
    /// The client is gone, or has said goodbye.
    Client,
    /// The client must be told.
    Told(Report),
    /// The server is gone, and has said why itself.
    Server,
}

/// Relays a session from its first message to its last.
pub async fn run(proxy: &Arc<Proxy>, welcomed: Welcomed) {
    let _logged_in = welcomed.permit;
    let entry = proxy.cancels.enter(welcomed.minor);
    let mut out = Out::default();
    message::write(&mut out.to_client, b'R', &[&0_u32.to_be_bytes()], 0);
    for (name, value) in welcomed.parameters.iter() {
        message::write(&mut out.to_client, b'S', &[name, b"\0", value, b"\0"], 0);
    }
    let process = entry.key.process.to_be_bytes();
    message::write(&mut out.to_client, b'K', &[&process, &entry.key.secret], 0);
    message::write_ready(&mut out.to_client, b'I');
    let number = proxy.session_number();
    let mut relay = Relay {
        proxy,
        client: welcomed.peer,
        cutter: Cutter::new(Side::Client),
        client_ended: false,
        session: Session::new(number, welcomed.parameters, proxy.pinning),
        key: welcomed.key,
        login: welcomed.login,
        entry,
        connection: None,
        out,
    };
    let end = loop {
        let moved = match relay.process().await {
            Ok(()) => relay.transfer().await,
            Err(end) => Err(end),
        };
        if let Err(end) = moved {
            break end;
        }
    };
    relay.end(end).await;
}

impl Relay<'_> {
    /// Looks at everything that has been read, as far as both peers take what comes of it.
    async fn process(&mut self) -> Result<(), End> {
        loop {
            self.read_server()?;
            match self.session.wants() {
                Wants::End => return Err(End::Client),
                Wants::Release => self.release().await,
                Wants::Server => self.attach().await?,
                Wants::Messages => {}
            }
            if !self.read_client()? {
                break;
            }
        }
        let is_over = self.client_ended && self.session.takes_client();
        if is_over && self.out.to_client.is_empty() && self.out.to_server.is_empty() {
            return Err(End::Client);
        }
        Ok(())
    }

    /// What the server has sent.
    fn read_server(&mut self) -> Result<(), End> {
        let Some(connection) = &mut self.connection else {
            return Ok(());
        };
        let mut used = 0;
        while self.out.to_client.len() < OUTPUT_LEN_MAX {
            let input = &connection.peer.input[used..];
            let Some(piece) = connection.cutter.next(input).map_err(out_of_step)? else {
                break;
            };
            used += length(&piece);
            self.session
                .server(piece, &mut connection.server, &mut self.out)
                .map_err(out_of_step)?;
        }
        connection.peer.input.advance(used);
        Ok(())
    }

    /// What the client has sent. Has the session come to want something?
    fn read_client(&mut self) -> Result<bool, End> {
        let mut used = 0;
        let mut server = self.connection.as_mut();
        while self.out.to_server.len() < OUTPUT_LEN_MAX {
            let is_rest = !self.cutter.is_between_messages() && self.session.takes_rest();
            if !is_rest && !self.session.takes_client() {
                break;
            }
            let input = &self.client.input[used..];
            let Some(piece) = self.cutter.next(input).map_err(violation)? else {
                break;
            };
            used += length(&piece);
            let server = server.as_mut().map(|connection| &mut connection.server);
            self.session
                .client(piece, server, &mut self.out)
                .map_err(violation)?;
            if self.session.wants() != Wants::Messages {
                break;
            }
        }
        self.client.input.advance(used);
        Ok(self.session.wants() != Wants::Messages)
    }

    /// Finds a server for what the session holds.
    async fn attach(&mut self) -> Result<(), End> {
        // It may take a while: the client gets first what is its own already.
        self.flush_client().await?;
        let taken = match self.session.refusal() {
            Some(report) => Err(report),
            None => self.proxy.primary.take(&self.key, &self.login).await,
        };
        let connection = match taken {
            Ok(connection) => self.connection.insert(connection),
            Err(report) => {
                self.session.refuse(&report, &mut self.out);
                return Ok(());
            }
        };
        *self.entry.target.lock().await = Some(connection.cancel_key.clone());
        self.session
            .attach(&mut connection.server, &mut self.out)
            .map_err(violation)
    }

    async fn flush_client(&mut self) -> Result<(), End> {
        if !self.out.to_client.is_empty() {
            let output = self.out.to_client.split();
            let written = self.client.write_all(&output).await;
            written.map_err(|_| End::Client)?;
        }
        Ok(())
    }

    /// Gives the server to others.
    async fn release(&mut self) {
        // Waits for a cancel request that is under way.
        *self.entry.target.lock().await = None;
        self.session.released();
        if let Some(connection) = self.connection.take() {
            if self.out.to_server.is_empty() && !connection.server.is_dirty {
                self.proxy.primary.give_back(connection);
            } else {
                self.out.to_server.clear();
                self.proxy.primary.close(connection);
            }
        }
    }

    /// Waits until something can be read or written, and does it.
    async fn transfer(&mut self) -> Result<(), End> {
        poll_fn(|context| self.poll_transfer(context)).await
    }

    fn poll_transfer(&mut self, context: &mut Context<'_>) -> Poll<Result<(), End>> {
        let mut has_moved = false;
        if let Some(connection) = &mut self.connection {
            let peer = &mut connection.peer;
            if peer.has_to_write(&self.out.to_server)
                && let Poll::Ready(written) = peer.poll_write(context, &mut self.out.to_server)
            {
                // What the server said before it went is still read.
                if written.is_err() {
                    self.out.to_server.clear();
                }
                has_moved = true;
            }
            if self.out.to_client.len() < OUTPUT_LEN_MAX
                && let Poll::Ready(read) = peer.poll_read(context)
            {
                match read {
                    Ok(count) if count > 0 => has_moved = true,
                    read => return Poll::Ready(Err(self.server_lost(read.err()))),
                }
            }
        }
        if self.client.has_to_write(&self.out.to_client)
            && let Poll::Ready(written) = self.client.poll_write(context, &mut self.out.to_client)
        {
            match written {
                Ok(()) => has_moved = true,
                Err(_) => return Poll::Ready(Err(End::Client)),
            }
        }
        if !self.client_ended
            && self.client.input.len() < INPUT_LEN_MAX
            && let Poll::Ready(read) = self.client.poll_read(context)
        {
            match read {
                Ok(0) => self.client_ended = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(Err(End::Client)),
            }
            has_moved = true;
        }
        if has_moved {
            Poll::Ready(Ok(()))
        } else {
            Poll::Pending
        }
    }

    fn server_lost(&self, error: Option<io::Error>) -> End {
        if self.session.is_told_of_end() {
            return End::Server;
        }
        let address = &self.proxy.primary.address;
        let mut text = format!("the server at {address} closed the connection");
        if let Some(error) = error {
            text += &format!(": {error}");
        }
        let report = Report::new(Severity::Fatal, CONNECTION_FAILURE, text);
        End::Told(report.hint("Whether a COMMIT that was under way took effect is not known."))
    }

    /// Ends the session: tells the client why, and leaves its server in order.
    async fn end(mut self, end: End) {
        let is_server_usable = matches!(end, End::Client)
            || matches!(&end, End::Told(report) if report.code == PROTOCOL_VIOLATION);
        if let End::Told(report) = end {
            report.write(&mut self.out.to_client);
        }
        *self.entry.target.lock().await = None;
        if let Some(connection) = self.connection.take() {
            let is_drained =
                self.out.to_server.is_empty() && connection.cutter.is_between_messages();
            let proxy = Arc::clone(self.proxy);
            match self.session.leftover() {
                leftover @ (Leftover::Nothing | Leftover::Transaction)
                    if is_server_usable && is_drained =>
                {
                    let is_in_transaction = leftover == Leftover::Transaction;
                    tokio::spawn(async move {
                        proxy.primary.recycle(connection, is_in_transaction).await;
                    });
                }
                _ => {
                    tokio::spawn(async move {
                        let key = connection.cancel_key.clone();
                        // Nobody waits for what it runs; if this fails, it runs to its end.
                        let sent = cancel::send(&proxy.primary, &key);
                        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, sent).await;
                        proxy.primary.close(connection);
                    });
                }
            }
        }
        let goodbye = async {
            // A client that is gone, or does not read, hears nothing.
            let _ = self.flush_client().await;
            self.client.shutdown().await;
        };
        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, goodbye).await;
    }
}

fn length(piece: &Piece<'_>) -> usize {
    match piece {
        Piece::Message(message) => message.frame.len(),
        Piece::Rest(rest) => rest.len(),
    }
}

fn violation(error: Malformed) -> End {
    End::Told(Report::new(Severity::Fatal, PROTOCOL_VIOLATION, error.0))
}

fn out_of_step(error: Malformed) -> End {
    let text = format!("the server does not keep to the protocol: {error}");
    End::Told(Report::new(Severity::Fatal, CONNECTION_FAILURE, text))
}
