//! One client's connection: the protocol machine and the session over a socket.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use pg_wire::report::{Report, Severity};
use pg_wire::startup::{self, StartupPacket};
use sql::Store;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::context::ServerContext;
use crate::errors::{SHUTDOWN, TOO_MANY_CONNECTIONS};
use crate::output::ClientOutput;
use crate::protocol::{ClientProtocol, Received};
use crate::session::{ClientSession, SessionFlow};

/// How many bytes are read at a time, at least.
const READ_LEN: usize = 16 << 10;
/// How many bytes are read first after a pause: enough for most messages.
const FIRST_READ_LEN: usize = 512;

/// Serves a client until it or the server ends.
///
/// # Errors
/// The client is gone.
pub async fn serve<S: Store + Clone + 'static>(
    context: Arc<ServerContext<S>>,
    (reader, writer): (
        impl AsyncRead + Unpin + Send,
        impl AsyncWrite + Unpin + Send,
    ),
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let mut connection = Connection {
        reader,
        input: BytesMut::new(),
        protocol: ClientProtocol::default(),
        out: ClientOutput::new(writer),
        stop,
    };
    let login = tokio::time::timeout(context.limits.login, connection.log_in(&context));
    // A client that says nothing for so long gets no answer, as with PostgreSQL.
    let Ok(startup) = login.await else {
        return Ok(());
    };
    let served = match startup? {
        Some((startup, permit)) => {
            let served = connection.run(&context, &startup).await;
            drop(permit);
            served
        }
        None => Ok(()),
    };
    connection.out.flush().await?;
    connection.out.shutdown().await;
    served
}

struct Connection<R, W> {
    reader: R,
    input: BytesMut,
    protocol: ClientProtocol,
    out: ClientOutput<W>,
    stop: watch::Receiver<bool>,
}

impl<R: AsyncRead + Unpin + Send, W: AsyncWrite + Unpin + Send> Connection<R, W> {
    /// Returns the client's StartupMessage and its place among the clients. Returns none if the
    /// client wanted something else or is refused; its answer is in the output then.
    async fn log_in<S: Store + Clone>(
        &mut self,
        context: &ServerContext<S>,
    ) -> io::Result<Option<(StartupPacket, OwnedSemaphorePermit)>> {
        loop {
            match self.protocol.next(&mut self.input) {
                Received::Nothing => {
                    if !self.read().await? {
                        return Ok(None);
                    }
                }
                Received::EncryptionRequest => {
                    self.out.buffer.extend_from_slice(b"N");
                    self.out.flush().await?;
                }
                Received::Cancel(key) => {
                    context.cancels.cancel(&key);
                    return Ok(None);
                }
                Received::Startup(startup) => {
                    return Ok(match Arc::clone(&context.places).try_acquire_owned() {
                        Ok(permit) => Some((startup, permit)),
                        Err(_) => {
                            self.refuse(&too_many(context.limits.connections));
                            None
                        }
                    });
                }
                Received::Refused(refusal) => {
                    self.refuse(&refusal.report);
                    return Ok(None);
                }
                Received::Close => return Ok(None),
                Received::Message(_) => unreachable!("the machine is at the start"),
            }
        }
    }

    async fn run<S: Store + Clone>(
        &mut self,
        context: &ServerContext<S>,
        startup: &StartupPacket,
    ) -> io::Result<()> {
        let minor = startup.minor_spoken();
        let entry = context.cancels.enter(minor)?;
        let requests = entry.requests.clone();
        let (process, release) = (entry.key.process, &*context.release);
        let session =
            ClientSession::begin(context.store.clone(), startup, process, requests, release);
        let mut session = match session {
            Ok(session) => session,
            Err(report) => {
                self.refuse(&report);
                return Ok(());
            }
        };
        if let Some(negotiation) = startup::negotiation(startup, minor) {
            self.out.buffer.extend_from_slice(&negotiation);
        }
        session.greet(&entry.key, &mut self.out.buffer);
        loop {
            let received = self.protocol.next(&mut self.input);
            let flow = match received {
                Received::Nothing => match self.wait(&session).await? {
                    true => SessionFlow::Continue,
                    false => return Ok(()),
                },
                // Boxed, so that the memory of a running statement is released with its end.
                Received::Message(frame) => {
                    Box::pin(session.handle(frame.message(), &mut self.out)).await?
                }
                Received::Refused(refusal) => {
                    let flow = session.refused().await;
                    self.refuse(&refusal.report);
                    if refusal.report.severity == Severity::Fatal {
                        return Ok(());
                    }
                    if refusal.is_ready_after && flow == SessionFlow::Continue {
                        session.ready(&mut self.out);
                    }
                    flow
                }
                Received::Close => return Ok(()),
                Received::EncryptionRequest | Received::Startup(_) | Received::Cancel(_) => {
                    unreachable!("the machine has passed the start")
                }
            };
            match flow {
                SessionFlow::Continue => self.out.drain_if_long().await?,
                SessionFlow::SkipToSync => self.protocol.skip_to_sync(),
                SessionFlow::End => return Ok(()),
            }
        }
    }

    /// Sends what there is, and waits for more bytes. Returns false if the connection ends.
    async fn wait<S: Store>(&mut self, session: &ClientSession<S>) -> io::Result<bool> {
        self.out.flush().await?;
        if session.is_idle() && self.protocol.is_between_messages(&self.input) {
            self.out.release();
            self.input = BytesMut::new();
        }
        let mut stop = self.stop.clone();
        tokio::select! {
            more = self.read() => more,
            _ = stop.wait_for(|is_over| *is_over) => {
                let text = "terminating connection due to administrator command";
                self.refuse(&Report::new(Severity::Fatal, SHUTDOWN, text));
                Ok(false)
            }
        }
    }

    /// Reads once. Returns false at the end of the stream.
    async fn read(&mut self) -> io::Result<bool> {
        if self.input.is_empty() {
            // A client that is idle has no larger buffer than this.
            let mut first = [0; FIRST_READ_LEN];
            let count = self.reader.read(&mut first).await?;
            self.input.extend_from_slice(&first[..count]);
            return Ok(count > 0);
        }
        self.input.reserve(READ_LEN);
        Ok(self.reader.read_buf(&mut self.input).await? > 0)
    }

    fn refuse(&mut self, report: &Report) {
        report.write(&mut self.out.buffer);
    }
}

fn too_many(connections: usize) -> Report {
    let text = "sorry, too many clients already";
    Report::new(Severity::Fatal, TOO_MANY_CONNECTIONS, text)
        .detail(format!("The server accepts {connections} connections."))
        .hint("Close connections, or use a pool.")
}
