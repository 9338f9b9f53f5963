//! One client's connection: its socket, its login, and the session over both.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use bytes::BytesMut;
use pg_auth::admission::{ClientAdmission, ClientAuthentication, ClientOrigin};
use pg_auth::password::{INVALID_AUTHORIZATION, LoginProgress};
use pg_wire::report::{Report, Severity};
use pg_wire::startup::{self, StartupPacket};
use sql::Store;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::audit::SessionAudit;
use crate::context::{LoginNote, LoginOutcome, ServerContext};
use crate::errors::{PROTOCOL_VIOLATION, SHUTDOWN, TOO_MANY_CONNECTIONS};
use crate::output::ClientOutput;
use crate::protocol::{ClientProtocol, Received};
use crate::roles;
use crate::session::{ClientSession, SessionFlow};

/// A socket with or without TLS.
type ClientSocket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

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
    (socket, from): (TcpStream, IpAddr),
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let admission = context.admission.borrow().clone();
    let connection = Connection {
        input: BytesMut::new(),
        protocol: ClientProtocol::default(),
        out: ClientOutput::new(Either::Left(socket)),
        from,
        stop,
    };
    let login = connection.log_in(&context, &admission);
    // A client that says nothing for so long gets no answer, as with PostgreSQL.
    let Ok(entered) = tokio::time::timeout(context.limits.login, login).await else {
        return Ok(());
    };
    let (mut connection, entrance) = entered?;
    drop(admission);
    let served = match entrance {
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

struct Connection {
    input: BytesMut,
    protocol: ClientProtocol,
    out: ClientOutput<ClientSocket>,
    from: IpAddr,
    stop: watch::Receiver<bool>,
}

/// The StartupMessage of a client that is logged in, and its place among the clients.
type ClientEntrance = (StartupPacket, OwnedSemaphorePermit);

impl Connection {
    /// Logs the client in. Returns no entrance if the client wanted something else or is refused;
    /// its answer is in the output then.
    async fn log_in<S: Store + Clone>(
        mut self,
        context: &ServerContext<S>,
        admission: &ClientAdmission,
    ) -> io::Result<(Connection, Option<ClientEntrance>)> {
        loop {
            match self.protocol.next(&mut self.input) {
                Received::Nothing => {
                    if !self.read().await? {
                        return Ok((self, None));
                    }
                }
                Received::TlsRequest => match &admission.tls {
                    Some(_) if !self.input.is_empty() => {
                        // They may be an attacker's: CVE-2021-23222.
                        let text = "received unencrypted data after SSL request";
                        self.refuse(&Report::new(Severity::Fatal, PROTOCOL_VIOLATION, text));
                        return Ok((self, None));
                    }
                    Some(identity) => {
                        let config = Arc::clone(&identity.config);
                        self = self.encrypt(config).await?;
                    }
                    None => self.say_no().await?,
                },
                Received::GssRequest => self.say_no().await?,
                Received::Cancel(key) => {
                    context.cancels.cancel(&key);
                    return Ok((self, None));
                }
                Received::Startup(startup) => {
                    let proved = self.prove(&startup, context, admission).await?;
                    let permit = proved.and_then(|()| {
                        let permit = Arc::clone(&context.places).try_acquire_owned();
                        permit.map_err(|_| too_many(context.limits.connections))
                    });
                    let permit = permit.map_err(|report| self.refuse(&report)).ok();
                    return Ok((self, permit.map(|permit| (startup, permit))));
                }
                Received::Refused(refusal) => {
                    self.refuse(&refusal.report);
                    return Ok((self, None));
                }
                Received::Close => return Ok((self, None)),
                Received::Message(_) => unreachable!("the machine is at the start"),
            }
        }
    }

    async fn say_no(&mut self) -> io::Result<()> {
        self.out.buffer.extend_from_slice(b"N");
        self.out.flush().await
    }

    /// Answers a request for TLS, and begins it.
    async fn encrypt(mut self, config: Arc<ServerConfig>) -> io::Result<Connection> {
        self.out.buffer.extend_from_slice(b"S");
        self.out.flush().await?;
        let Either::Left(socket) = self.out.into_stream() else {
            unreachable!("the machine returns one request for TLS");
        };
        let stream = TlsAcceptor::from(config).accept(socket).await?;
        self.out = ClientOutput::new(Either::Right(Box::new(stream)));
        Ok(self)
    }

    /// Lets the client prove that it is the user that it names. Returns the error for one that is
    /// refused.
    async fn prove<S: Store>(
        &mut self,
        startup: &StartupPacket,
        context: &ServerContext<S>,
        admission: &ClientAdmission,
    ) -> io::Result<Result<(), Report>> {
        let user = startup.parameter("user").unwrap_or_default();
        let from = self.from;
        let note = |outcome| {
            (context.journal.login)(&LoginNote {
                user,
                from,
                outcome,
            });
        };
        if let Some(negotiation) = startup::negotiation(startup, startup.minor_spoken()) {
            self.out.buffer.extend_from_slice(&negotiation);
        }
        let roles = roles::for_login(&context.store, user).await;
        let (permitted, secret) = roles::for_user(&roles, user);
        let begun = match self.out.stream() {
            Either::Left(_) if needs_tls(from, admission) => Err(unencrypted(user)),
            Either::Left(_) => admission.begin_as(user, ClientOrigin::Plain, secret),
            Either::Right(tls) => {
                let certificates = tls.get_ref().1.peer_certificates();
                let first = certificates.and_then(<[_]>::first);
                admission.begin_as(user, ClientOrigin::Encrypted(first), secret)
            }
        };
        let login = match begun {
            Ok(login) => login,
            Err(report) => {
                note(LoginOutcome::Refused(&report));
                return Ok(Err(report));
            }
        };
        let Some(mut login) = login else {
            match &permitted {
                Err(report) => note(LoginOutcome::Refused(report)),
                Ok(()) if matches!(admission.authentication, ClientAuthentication::Scram(_)) => {
                    note(LoginOutcome::ByCertificate);
                }
                Ok(()) => {}
            }
            return Ok(permitted);
        };
        login.offer(&mut self.out.buffer);
        loop {
            self.out.flush().await?;
            match login.next(&mut self.input, &mut self.out.buffer) {
                Ok(LoginProgress::Waits) if self.out.buffer.is_empty() => {
                    if !self.read().await? {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Ok(LoginProgress::Waits) => {}
                Ok(LoginProgress::LoggedIn) => {
                    note(match &permitted {
                        Ok(()) => LoginOutcome::ByPassword,
                        Err(report) => LoginOutcome::Refused(report),
                    });
                    return Ok(permitted);
                }
                Err(report) => {
                    note(LoginOutcome::Refused(&report));
                    return Ok(Err(report));
                }
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
        let catalogue = Arc::clone(&context.catalogue);
        let audit = SessionAudit {
            journal: context.journal.roles,
            from: self.from,
        };
        let store = (context.store.clone(), catalogue, audit);
        let session = ClientSession::begin(store, startup, process, requests, release);
        let mut session = match session {
            Ok(session) => session,
            Err(report) => {
                self.refuse(&report);
                return Ok(());
            }
        };
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
                Received::TlsRequest
                | Received::GssRequest
                | Received::Startup(_)
                | Received::Cancel(_) => {
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
            let count = self.out.stream_mut().read(&mut first).await?;
            self.input.extend_from_slice(&first[..count]);
            return Ok(count > 0);
        }
        self.input.reserve(READ_LEN);
        Ok(self.out.stream_mut().read_buf(&mut self.input).await? > 0)
    }

    fn refuse(&mut self, report: &Report) {
        report.write(&mut self.out.buffer);
    }
}

/// Returns whether a client at this address must use TLS.
fn needs_tls(from: IpAddr, admission: &ClientAdmission) -> bool {
    !from.to_canonical().is_loopback() && admission.tls.is_some()
}

/// Returns the error for a client of another machine whose connection is not encrypted.
fn unencrypted(user: &str) -> Report {
    let text = format!("the connection of user \"{user}\" is not encrypted");
    Report::new(Severity::Fatal, INVALID_AUTHORIZATION, text)
        .hint("Connect with TLS, as with sslmode=require.")
}

fn too_many(connections: usize) -> Report {
    let text = "sorry, too many clients already";
    Report::new(Severity::Fatal, TOO_MANY_CONNECTIONS, text)
        .detail(format!("The server accepts {connections} connections."))
        .hint("Close connections, or use a pool.")
}

#[cfg(test)]
mod tests {
    use pg_auth::identity;

    use super::*;

    #[test]
    fn clients_of_other_machines_need_tls_where_there_is_a_certificate() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_string()]).unwrap();
        let files = [
            folder.path().join("chain.pem"),
            folder.path().join("key.pem"),
        ];
        std::fs::write(&files[0], made.cert.pem()).unwrap();
        std::fs::write(&files[1], made.signing_key.serialize_pem()).unwrap();
        let without = ClientAdmission::open();
        let identity = identity::identity(&files[0], &files[1], None).unwrap();
        let with = ClientAdmission {
            tls: Some(identity),
            ..ClientAdmission::open()
        };
        for (from, is_near) in [
            ("127.0.0.1", true),
            ("127.8.9.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("0.0.0.0", false),
            ("2001:db8::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            let from = from.parse().unwrap();
            assert!(!needs_tls(from, &without), "{from}");
            assert_eq!(needs_tls(from, &with), !is_near, "{from}");
        }
    }
}
