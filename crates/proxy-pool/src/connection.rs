//! Opens one connection to a server, logs in there, and cleans the connection before another
//! session uses it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsConnector;

use super::{ConnectionKey, ServerLogin, StartSettings};
use pg_auth::{certificate, scram};
use pg_connect::address::Address;
use pg_connect::silence;
use pg_connect::stream::{BufferedStream, Stream};
use pg_connect::tls::TlsPolicy;
use pg_wire::framing::{HEADER_LEN, MessageCutter, MessageSender, StreamPiece, WHOLE_LEN_MAX};
use pg_wire::message::{self, parameter_status};
use pg_wire::quoting::literal;
use pg_wire::report::{Report, Severity};
use pg_wire::settings;
use pg_wire::startup::{self, CancelKey};
use proxy_core::freshness::ServerLife;
use proxy_core::server::ServerConnection;

/// How long a server may take to be connected to and to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may take to be made clean for its next user.
const RESET_TIMEOUT: Duration = Duration::from_secs(10);

/// SQLSTATE: no connection could be made.
const UNREACHABLE: &str = "08001";

/// A connection that has logged in at a server.
#[derive(Debug)]
pub struct Connection {
    /// The socket.
    pub peer: BufferedStream,
    /// Cuts the server's bytes into messages.
    pub cutter: MessageCutter,
    /// The state of the connection at the server.
    pub server: ServerConnection,
    /// The key for cancel requests.
    pub cancel_key: Arc<CancelKey>,
    /// The key that sessions must have to use it.
    pub key: ConnectionKey,
    /// The permit to be in use; none while it is idle.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// The settings that a session has changed since its login.
#[derive(Debug, Default)]
pub struct ChangedSettings {
    /// The settings. Each affects only the session that has it.
    pub settings: StartSettings,
    /// The schemas in which names are looked up now, in order: those of `search_path` that exist
    /// and that the user may use.
    pub schemas: Vec<String>,
}

/// Operators are named with their schema: `search_path` may be anything. A look at one that begins
/// with the temporary schema would make that schema.
const CHANGED: &str = "SELECT '', schema FROM pg_catalog.unnest(\
        CASE WHEN pg_catalog.current_setting('search_path') OPERATOR(pg_catalog.~) 'pg_temp' \
             THEN '{}' ELSE pg_catalog.current_schemas(false) END) schema \
    UNION ALL SELECT name, setting FROM pg_catalog.pg_settings \
    WHERE source OPERATOR(pg_catalog.=) 'session' \
    AND name OPERATOR(pg_catalog.<>) 'application_name'";

/// Asks whether the process has a temporary schema, which ends only with it.
const TEMPORARY_SCHEMA: &str =
    "SELECT pg_catalog.pg_my_temp_schema() OPERATOR(pg_catalog.<>) 0::pg_catalog.oid";

/// A message of a server while no session uses it.
struct IdleMessage {
    tag: u8,
    body: Vec<u8>,
}

impl Connection {
    /// Connects and logs in. The error is for the client.
    pub async fn open(
        address: &Address,
        key: &ConnectionKey,
        login: &ServerLogin,
    ) -> Result<Connection, Report> {
        let unreachable = |what: String| {
            let text = format!("the server at {address} cannot be reached: {what}");
            Report::new(Severity::Error, UNREACHABLE, text)
                .hint("It may be down or starting; try again later.")
        };
        let opened = tokio::time::timeout(LOGIN_TIMEOUT, async {
            let stream = connect(address)
                .await
                .map_err(|error| unreachable(error.to_string()))?;
            let mut connection = Connection {
                peer: BufferedStream::new(stream),
                cutter: MessageCutter::new(MessageSender::Server),
                server: ServerConnection::default(),
                cancel_key: Arc::default(),
                key: key.clone(),
                permit: None,
            };
            let packet = startup::write(key.startup());
            connection
                .send(&packet)
                .await
                .map_err(|error| unreachable(error.to_string()))?;
            connection.log_in(login).await?;
            Ok(connection)
        });
        let seconds = LOGIN_TIMEOUT.as_secs();
        let opened = opened.await;
        opened.unwrap_or_else(|_| Err(unreachable(format!("no answer for {seconds} s"))))
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.peer.write_all(bytes).await
    }

    /// Returns the next message, whole. The cutter is between messages before and after.
    async fn receive(&mut self) -> io::Result<IdleMessage> {
        loop {
            if let Some(header) = self.peer.input.first_chunk::<HEADER_LEN>() {
                let [tag, length @ ..] = *header;
                let length = u32::from_be_bytes(length) as usize;
                if !(4..WHOLE_LEN_MAX).contains(&length) {
                    return Err(io::Error::other("a message is too long here"));
                }
                if self.peer.input.len() > length {
                    let message = self.peer.input.split_to(length + 1);
                    let body = message[HEADER_LEN..].to_vec();
                    return Ok(IdleMessage { tag, body });
                }
            }
            if self.peer.read().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn log_in(&mut self, login: &ServerLogin) -> Result<(), Report> {
        let lost = |error: io::Error| {
            let text = format!("the server's connection failed while logging in: {error}");
            Report::new(Severity::Error, UNREACHABLE, text)
        };
        loop {
            let answer = self.receive().await.map_err(lost)?;
            match answer.tag {
                b'R' => self.authenticate(&answer.body, login).await?,
                b'E' => return Err(Report::read(&answer.body)),
                b'S' => self.parameter_status(&answer.body),
                b'K' => {
                    if let Some((process, secret)) = answer.body.split_first_chunk::<4>() {
                        self.server.process = u32::from_be_bytes(*process);
                        self.cancel_key = Arc::new(CancelKey {
                            process: u32::from_be_bytes(*process),
                            secret: secret.to_vec(),
                        });
                    }
                }
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }

    fn parameter_status(&mut self, body: &[u8]) {
        if let Ok((name, value)) = parameter_status(body) {
            self.server.report(name, value);
        }
    }

    /// Answers one Authentication message.
    async fn authenticate(&mut self, body: &[u8], login: &ServerLogin) -> Result<(), Report> {
        let (kind, rest) = match body.split_first_chunk::<4>() {
            Some((kind, rest)) => (u32::from_be_bytes(*kind), rest),
            None => (u32::MAX, body),
        };
        if kind == 0 {
            return Ok(());
        }
        let user = &self.key.user;
        let Some(password) = login.password.as_deref() else {
            let text = format!("the server asks for the password of user \"{user}\"");
            return Err(
                refused(text).hint("Put the password itself into the proxy's file of users.")
            );
        };
        let failed = |error: io::Error| refused(format!("logging in to the server: {error}"));
        match kind {
            3 => {
                if !self.peer.is_encrypted() {
                    let text = "the server asks for a password in clear text without TLS";
                    return Err(refused(text.into()));
                }
                self.password(&[password.as_bytes(), b"\0"])
                    .await
                    .map_err(failed)
            }
            5 => {
                let salt = rest.first_chunk::<4>();
                let salt = *salt.ok_or_else(|| refused("the server's salt is damaged".into()))?;
                let hash = md5_hash(user.as_bytes(), password.as_bytes(), salt);
                self.password(&[hash.as_bytes(), b"\0"])
                    .await
                    .map_err(failed)
            }
            10 => self.scram(rest, password).await.map_err(failed),
            kind => Err(refused(format!(
                "the server asks for authentication method {kind}, which is not known"
            ))),
        }
    }

    async fn password(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut out = BytesMut::new();
        message::write(&mut out, b'p', parts, 0);
        self.send(&out).await
    }

    /// Logs in by the best of the mechanisms that the server offers, as names that end in zero
    /// bytes.
    async fn scram(&mut self, offered: &[u8], password: &str) -> io::Result<()> {
        let mut names = offered.split(|&byte| byte == 0);
        let is_plus_offered = names.any(|name| name == scram::MECHANISM_PLUS.as_bytes());
        let end_point = self.peer.certificate().and_then(certificate::end_point);
        let (mechanism, binding) = match end_point {
            Some(end_point) if is_plus_offered => (
                scram::MECHANISM_PLUS,
                ChannelBinding::tls_server_end_point(end_point),
            ),
            // A server that has offered it after all learns that the offer was removed on its way.
            Some(_) => (scram::MECHANISM, ChannelBinding::unrequested()),
            None => (scram::MECHANISM, ChannelBinding::unsupported()),
        };
        let mut scram = ScramSha256::new(password.as_bytes(), binding);
        let length = u32::try_from(scram.message().len()).map_err(io::Error::other)?;
        let first = scram.message().to_vec();
        let parts: [&[u8]; 4] = [mechanism.as_bytes(), b"\0", &length.to_be_bytes(), &first];
        self.password(&parts).await?;
        let challenge = self.sasl(11).await?;
        scram.update(&challenge)?;
        let last = scram.message().to_vec();
        self.password(&[&last]).await?;
        let proof = self.sasl(12).await?;
        scram.finish(&proof)
    }

    /// Returns the data of the next Authentication message, which must be of this kind.
    async fn sasl(&mut self, kind: u32) -> io::Result<Vec<u8>> {
        let answer = self.receive().await?;
        match (answer.tag, answer.body.split_first_chunk::<4>()) {
            (b'R', Some((found, rest))) if u32::from_be_bytes(*found) == kind => Ok(rest.to_vec()),
            (b'E', _) => Err(io::Error::other(Report::read(&answer.body))),
            _ => Err(io::Error::other("the server leaves the SCRAM exchange")),
        }
    }

    /// Returns the columns of a query's only row, as strings. NULL becomes an empty string.
    pub async fn row(&mut self, query: &str) -> io::Result<Vec<String>> {
        let rows = self.rows(query).await?.map_err(io::Error::other)?;
        Ok(rows.into_iter().next_back().unwrap_or_default())
    }

    /// Returns all rows of a query, or the error of the server, which is ready for the next in
    /// either case. Otherwise as [`Connection::row`].
    async fn rows(&mut self, query: &str) -> io::Result<Result<Vec<Vec<String>>, Report>> {
        // Any simple query ends the unnamed statement.
        self.server.unnamed = None;
        let mut out = BytesMut::new();
        message::write_query(&mut out, query);
        self.send(&out).await?;
        let mut rows = Ok(Vec::new());
        loop {
            let answer = self.receive().await?;
            match answer.tag {
                b'S' => self.parameter_status(&answer.body),
                b'E' => rows = Err(Report::read(&answer.body)),
                b'D' => {
                    let row = message::row(&answer.body).map_err(io::Error::other)?;
                    if let Ok(rows) = &mut rows {
                        rows.push(row);
                    }
                }
                b'Z' => return Ok(rows),
                _ => {}
            }
        }
    }

    /// Returns the settings that the session on this connection has changed since the login,
    /// without the application name, which servers report. Returns none if another connection could
    /// not get the same settings.
    pub async fn changed(&mut self) -> io::Result<Option<ChangedSettings>> {
        let rows = tokio::time::timeout(RESET_TIMEOUT, self.rows(CHANGED)).await;
        let Ok(rows) = rows.map_err(io::Error::other)?? else {
            return Ok(None);
        };
        let is_utf8 = [&b"client_encoding"[..], b"server_encoding"]
            .iter()
            .all(|name| {
                self.server
                    .parameters
                    .get(*name)
                    .is_some_and(|it| it == "UTF8")
            });
        let mut changed = ChangedSettings::default();
        let mut settings = Vec::new();
        for row in rows {
            let [name, value] = <[String; 2]>::try_from(row)
                .map_err(|_| io::Error::other("the server reports no settings"))?;
            if name.is_empty() {
                changed.schemas.push(value);
                continue;
            }
            // A backslash may be an escape, by `standard_conforming_strings`.
            let is_plain = (is_utf8 || value.is_ascii()) && !value.contains('\\');
            if !settings::is_own(name.as_bytes()) || !is_plain {
                return Ok(None);
            }
            settings.push((name, value));
        }
        changed.settings = settings.into_iter().collect();
        Ok(Some(changed))
    }

    /// Changes the settings of an idle connection to those of this key, which has the same login.
    /// After an error the connection is useless. The error is for the client.
    pub async fn change_to(&mut self, key: &ConnectionKey) -> Result<(), Report> {
        let failed = |code: &str, what: String| {
            let text = format!("the server cannot be given the session's settings: {what}");
            Report::new(Severity::Error, code, text)
        };
        let set = |(name, value)| {
            let (name, value) = (literal(name), literal(value));
            format!("pg_catalog.set_config({name}, {value}, false)")
        };
        let sets: Vec<String> = key.changed.iter().map(set).collect();
        let select = if sets.is_empty() { "" } else { ";SELECT " };
        let text = format!("RESET ALL{select}{}", sets.join(", "));
        let changed = tokio::time::timeout(RESET_TIMEOUT, self.rows(&text)).await;
        let changed = changed.map_err(|error| failed(UNREACHABLE, error.to_string()))?;
        let changed = changed.map_err(|error| failed(UNREACHABLE, error.to_string()))?;
        changed.map_err(|report| failed(&report.code, report.message))?;
        self.becomes(key);
        Ok(())
    }

    /// Records that the connection now has the settings of this key. The key must have the
    /// connection's login.
    pub fn becomes(&mut self, key: &ConnectionKey) {
        if self.key != *key {
            self.server.outdate();
            self.key = key.clone();
        }
    }

    /// Checks, after a login at a replica, that its server is still in this life. If not, the
    /// server has crashed, and may have lost commits that were not on its disk.
    pub async fn is_in(&mut self, life: ServerLife) -> Result<(), Report> {
        let unknown = |what: String| {
            let text = format!("it is not known whether it has crashed: {what}");
            Report::new(Severity::Error, UNREACHABLE, text)
        };
        // Any user may see locks, and a lock's key is shown in two halves.
        let ServerLife(key) = life;
        let (high, low) = (key >> 32 & 0xffff_ffff, key & 0xffff_ffff);
        let holds = format!(
            "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND granted
                AND objsubid = 1 AND classid = {high} AND objid = {low}"
        );
        let row = tokio::time::timeout(RESET_TIMEOUT, self.row(&holds)).await;
        let row = row.map_err(|error| unknown(error.to_string()))?;
        let row = row.map_err(|error| unknown(error.to_string()))?;
        match row.first().map(String::as_str) {
            Some("1") => Ok(()),
            _ => {
                let text = "it may have crashed: replication must connect to it again first";
                Err(Report::new(Severity::Error, UNREACHABLE, text))
            }
        }
    }

    /// Handles settings and notices that arrived while the connection was idle. Returns false if
    /// other messages arrived, because the connection is then useless.
    pub fn take_in(&mut self) -> bool {
        loop {
            let (tag, length) = match self.cutter.next(&self.peer.input) {
                Ok(None) => return self.peer.input.is_empty(),
                Ok(Some(StreamPiece::Message(message))) if message.is_whole() => {
                    (message.tag(), message.frame.len())
                }
                _ => return false,
            };
            let message = self.peer.input.split_to(length);
            match tag {
                b'S' => self.parameter_status(&message[HEADER_LEN..]),
                b'N' => {}
                _ => return false,
            }
        }
    }

    /// Ends an open transaction, and removes the state of the last session, so that the next
    /// session finds the server as after a login.
    pub async fn reset(&mut self, is_in_transaction: bool) -> io::Result<()> {
        let mut out = BytesMut::new();
        let mut expected = 0;
        if is_in_transaction {
            message::write_query(&mut out, "ROLLBACK");
            expected += 1;
        }
        if self.server.is_dirty {
            message::write_query(&mut out, "DISCARD ALL");
            expected += 1;
        }
        let done = tokio::time::timeout(RESET_TIMEOUT, async {
            self.send(&out).await?;
            while expected > 0 {
                let answer = self.receive().await?;
                match answer.tag {
                    b'S' => self.parameter_status(&answer.body),
                    b'E' => return Err(io::Error::other(Report::read(&answer.body))),
                    b'Z' if answer.body == b"I" => expected -= 1,
                    _ => {}
                }
            }
            Ok(())
        });
        done.await.map_err(io::Error::other)??;
        if self.server.is_dirty {
            // The schema outlives its tables. A transaction that looks at it makes none, which the
            // next session could see.
            let asked = tokio::time::timeout(RESET_TIMEOUT, self.row(TEMPORARY_SCHEMA)).await;
            if asked.map_err(io::Error::other)?? != ["f"] {
                return Err(io::Error::other("the server has a temporary schema"));
            }
            self.server.forget_all();
            self.server.is_dirty = false;
            self.key = self.key.changed_to(StartSettings::default());
        }
        Ok(())
    }
}

fn refused(text: String) -> Report {
    Report::new(Severity::Error, "28000", text)
}

/// Opens a socket to a server, with TLS as its address states.
pub async fn connect(address: &Address) -> io::Result<Stream> {
    if let Some(path) = address.socket() {
        return Ok(Stream::Local(UnixStream::connect(path).await?));
    }
    let mut socket = TcpStream::connect((address.host.as_str(), address.port)).await?;
    socket.set_nodelay(true)?;
    silence::WITH_SERVERS.bound(&socket)?;
    let (config, is_needed) = match &address.tls {
        TlsPolicy::Disable => return Ok(Stream::Plain(socket)),
        TlsPolicy::Prefer(tls) => (&tls.config, false),
        TlsPolicy::Require(tls) | TlsPolicy::Verify(tls) => (&tls.config, true),
    };
    let mut answer = [0];
    socket.write_all(&startup::write_tls()).await?;
    socket.read_exact(&mut answer).await?;
    match (&answer, is_needed) {
        (b"S", _) => {
            let name = ServerName::try_from(address.host.clone()).map_err(io::Error::other)?;
            let connector = TlsConnector::from(config.clone());
            let stream = connector.connect(name, socket).await?;
            Ok(Stream::Tls(Box::new(stream.into())))
        }
        (_, false) => Ok(Stream::Plain(socket)),
        (_, true) => Err(io::Error::other(
            "it has no TLS, which the URL's sslmode requires",
        )),
    }
}
