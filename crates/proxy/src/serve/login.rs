//! Handles the first messages of a client: TLS, the user's name and authentication, and the initial
//! settings of the session.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::login_failure::{LoginFailure, violation};
use super::proxy_role::SessionServers;
use super::server_settings::{ServerSettings, read_server_settings};
use super::{Admission, CONSOLE, Proxy, proof};
use pg_auth::password;
use pg_connect::stream::{BufferedStream, Stream};
use pg_wire::report::{Report, Severity};
use pg_wire::startup::{self, FirstPacket, StartupPacket};
use proxy_core::server::ReportedParameters;
use proxy_pool::{Connection, ConnectionKey, ServerLogin, ServerNode};
use replication::events::without_literals;

/// SQLSTATE: the proxy has as many clients as it may have.
const TOO_MANY: &str = "53300";
/// SQLSTATE: the user may not use the console.
const NOT_ALLOWED: &str = "42501";
/// SQLSTATE: the proxy does not support this.
const UNSUPPORTED: &str = "0A000";
/// SQLSTATE: the connection to the primary failed.
const CONNECTION_FAILURE: &str = "08006";
/// SQLSTATE class of invalid authorization: of clients that are not the users that they name.
const INVALID_AUTHORIZATION: &str = "28";

/// The destination of an authenticated client, before the proxy answers its login.
pub enum ClientEntrance {
    /// A session on servers.
    Session(Box<SessionStart>),
    /// The console, with the operator's name.
    Console(String),
}

/// The initial state of a session.
pub struct SessionStart {
    /// The minor version of the protocol that the client uses.
    pub minor: u16,
    /// The settings that the session needs on its servers.
    pub server_settings: ServerSettings,
    /// The login at these servers.
    pub login: ServerLogin,
    /// The servers on which the session may run.
    pub servers: SessionServers,
    /// The settings that servers report at the start.
    pub parameters: Arc<ReportedParameters>,
    /// The permit that counts the client as logged in.
    pub permit: OwnedSemaphorePermit,
}

impl Proxy {
    /// Logs a client in. Returns none if the client requested something else, or if the login
    /// failed; the client then has its answer.
    pub(super) async fn welcome(
        &self,
        stream: Stream,
        address: Option<SocketAddr>,
    ) -> Option<(BufferedStream, ClientEntrance)> {
        let mut peer = BufferedStream::new(stream);
        // A reload in the meantime applies to later clients.
        let admission = self.admission();
        loop {
            let first = match first(&mut peer).await {
                Ok(first) => first,
                Err(failed) => return self.refuse(peer, failed, address).await,
            };
            match first {
                FirstPacket::Tls => peer = encrypt(peer, &admission).await?,
                FirstPacket::Gss => peer.write_all(b"N").await.ok()?,
                FirstPacket::Cancel(key) => {
                    self.cancels.cancel(&key).await;
                    return None;
                }
                FirstPacket::Unsupported(text) => {
                    let failed = Report::new(Severity::Fatal, UNSUPPORTED, text).into();
                    return self.refuse(peer, failed, address).await;
                }
                FirstPacket::Startup(startup) => {
                    return match self.log_in(&mut peer, &admission, &startup).await {
                        Ok(entrance) => Some((peer, entrance)),
                        Err(failed) => self.refuse(peer, failed, address).await,
                    };
                }
            }
        }
    }

    async fn refuse(
        &self,
        mut peer: BufferedStream,
        failed: LoginFailure,
        address: Option<SocketAddr>,
    ) -> Option<(BufferedStream, ClientEntrance)> {
        if let LoginFailure::Reported(report) = failed {
            log_refusal(&report, address);
            let mut out = BytesMut::new();
            report.write(&mut out);
            // A client that is gone cannot get an answer.
            let _ = peer.write_all(&out).await;
            peer.shutdown().await;
        }
        None
    }

    async fn log_in(
        &self,
        peer: &mut BufferedStream,
        admission: &Admission,
        startup: &StartupPacket,
    ) -> Result<ClientEntrance, LoginFailure> {
        let Some(user) = startup.parameter("user").filter(|user| !user.is_empty()) else {
            let text = "no PostgreSQL user name specified in startup packet";
            return Err(Report::new(Severity::Fatal, password::INVALID_AUTHORIZATION, text).into());
        };
        let replication = startup.parameter("replication").unwrap_or("off");
        if !matches!(replication, "off" | "false" | "no" | "0") {
            let text = "replication connections do not go through the proxy";
            return Err(Report::new(Severity::Fatal, UNSUPPORTED, text)
                .hint("Connect to the database itself.")
                .into());
        }
        if startup.parameter("database") == Some(CONSOLE) {
            log_in_operator(peer, admission, startup, user).await?;
            return Ok(ClientEntrance::Console(user.to_owned()));
        }
        // Before any client is asked for a password: libpq goes on to its next host only then.
        let servers = self.servers()?;
        let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() else {
            let text = "sorry, too many clients already";
            return Err(Report::new(Severity::Fatal, TOO_MANY, text).into());
        };
        if let Some(negotiation) = startup::negotiation(startup, startup.minor_spoken()) {
            peer.write_all(&negotiation).await?;
        }
        let login = proof::ask(peer, admission, user).await?;
        let key = ConnectionKey::of(startup, user);
        // An idle connection begins as this session would.
        let begun = self.initial_keys.of(&key);
        let begins_as = begun.as_ref().unwrap_or(&key);
        let (mut connection, server_settings) = self
            .begin_session(&servers.primary, begins_as, &login)
            .await?;
        let parameters = Arc::clone(&connection.server.parameters);
        let server_settings = match &servers.routing {
            None => ServerSettings::of(key),
            Some(_) => {
                if begun.is_none() {
                    self.initial_keys.note(key, server_settings.key.clone());
                }
                server_settings
            }
        };
        // It has the same settings without them, and resets them to the same values.
        connection.key = server_settings.key.clone();
        servers.primary.give_back(connection);
        Ok(ClientEntrance::Session(Box::new(SessionStart {
            minor: startup.minor_spoken(),
            server_settings,
            login,
            servers,
            parameters,
            permit,
        })))
    }

    /// Returns a connection of this key, and the initial settings of a session there. An idle one
    /// must be of a role that could log in now; otherwise the server decides that, and gives the
    /// reason.
    async fn begin_session(
        &self,
        primary: &ServerNode,
        key: &ConnectionKey,
        login: &ServerLogin,
    ) -> Result<(Box<Connection>, ServerSettings), Report> {
        let mut connection = primary.take(key, login).await?;
        let mut read = read_server_settings(&mut connection, &self.known).await;
        if !matches!(&read, Ok(beginning) if beginning.may_log_in) {
            primary.close(connection);
            primary.close_idle_of(&key.user);
            connection = primary.open_new(key, login).await?;
            read = read_server_settings(&mut connection, &self.known).await;
        }
        match read {
            Ok(beginning) => Ok((connection, beginning.server_settings)),
            Err(error) => {
                primary.close(connection);
                let text = format!("cannot read the session's settings: {error}");
                Err(Report::new(Severity::Fatal, CONNECTION_FAILURE, text))
            }
        }
    }
}

/// Logs the refusal of a client for the name or proof that it has sent (SQLSTATE class 28).
fn log_refusal(report: &Report, address: Option<SocketAddr>) {
    if report.code.starts_with(INVALID_AUTHORIZATION) {
        let from = address.map_or_else(|| "this machine".to_owned(), |it| it.to_string());
        let (code, message) = (&*report.code, without_literals(&report.message));
        log::warn!(event = "login_refused", from = &*from, sqlstate = code; "{message}");
    }
}

/// Answers a client that asks for TLS. There is none on Unix sockets, as with PostgreSQL.
async fn encrypt(mut peer: BufferedStream, admission: &Admission) -> Option<BufferedStream> {
    let identity = admission
        .clients
        .tls
        .as_ref()
        .filter(|_| peer.network().is_some());
    let Some(identity) = identity else {
        peer.write_all(b"N").await.ok()?;
        return Some(peer);
    };
    if peer.is_encrypted() {
        return None;
    }
    peer.write_all(b"S").await.ok()?;
    // Bytes that came before the handshake may be from an attacker: CVE-2021-23222.
    let Stream::Plain(socket) = peer.into_stream()? else {
        return None;
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
    let stream = acceptor.accept(socket).await.ok()?;
    Some(BufferedStream::new(Stream::Tls(Box::new(stream.into()))))
}

/// Operators can log in regardless of the number of clients and the state of the servers.
async fn log_in_operator(
    peer: &mut BufferedStream,
    admission: &Admission,
    startup: &StartupPacket,
    user: &str,
) -> Result<(), LoginFailure> {
    if let Some(negotiation) = startup::negotiation(startup, 0) {
        peer.write_all(&negotiation).await?;
    }
    proof::ask(peer, admission, user).await?;
    if admission.operators.iter().any(|known| known == user) {
        return Ok(());
    }
    let text = format!("user \"{user}\" is not an operator of this proxy");
    Err(Report::new(Severity::Fatal, NOT_ALLOWED, text)
        .hint("Operators are named by --operator.")
        .into())
}

/// Returns the first packet, whole.
async fn first(peer: &mut BufferedStream) -> Result<FirstPacket, LoginFailure> {
    loop {
        // The sender of such a packet may not speak the protocol: like PostgreSQL, the proxy
        // closes the connection without an answer.
        let length = startup::length(&peer.input).map_err(|_| LoginFailure::Gone)?;
        if let Some(length) = length.filter(|length| peer.input.len() >= *length) {
            let packet = peer.input.split_to(length);
            return startup::read(&packet).map_err(|error| violation(error.to_string()));
        }
        if peer.read().await? == 0 {
            return Err(LoginFailure::Gone);
        }
    }
}
