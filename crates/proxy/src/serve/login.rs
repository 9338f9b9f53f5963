//! A client's first words: TLS, whom it says it is, and what its session is told at the start.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::TlsAcceptor;

use super::standing::Servers;
use super::{Admission, CONSOLE, Proxy, proof};
use pg_connect::stream::{Peer, Stream};
use pg_wire::message;
use pg_wire::report::{Report, Severity};
use pg_wire::settings;
use pg_wire::startup::{self, First, Startup};
use proxy_core::server::Parameters;
use proxy_pool::{Connection, Key, Known, Login, Settings};
use replication::events::without_literals;

/// SQLSTATEs.
const PROTOCOL_VIOLATION: &str = "08P01";
const TOO_MANY: &str = "53300";
const NOT_ALLOWED: &str = "42501";
const UNSUPPORTED: &str = "0A000";
const CONNECTION_FAILURE: &str = "08006";
/// The class of those that say that somebody is not who they say they are.
const INVALID_AUTHORIZATION: &str = "28";

/// What a client gets that has logged in, and has not been told yet.
pub enum Entrance {
    /// A session on servers.
    Session(Box<Welcome>),
    /// The console, with the operator's name.
    Console(String),
}

/// What a session begins with.
pub struct Welcome {
    /// The minor version of the protocol that its client speaks.
    pub minor: u16,
    /// What its servers must have.
    pub outset: Outset,
    /// How to log in there.
    pub login: Login,
    /// Where it may run.
    pub servers: Servers,
    /// Settings as servers start with.
    pub parameters: Arc<Parameters>,
    /// The right to be logged in.
    pub permit: OwnedSemaphorePermit,
}

/// How a session's statements are read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Where names are looked up.
    pub search_path: Vec<String>,
    /// Whether texts are in UTF-8, as those of row images are.
    pub is_utf8: bool,
    /// Whether a backslash is an escape in every literal: `standard_conforming_strings` is off.
    pub has_escapes: bool,
    /// Whether the session has changed by what its texts mean, apart from where names are looked
    /// up.
    pub is_changed: bool,
}

/// How transactions are isolated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each statement sees what is committed when it begins.
    #[default]
    ReadCommitted,
    /// All see what was committed when the first one began.
    RepeatableRead,
    /// As if they ran one after the other: what they read counts as well.
    Serializable,
}

impl Isolation {
    /// As PostgreSQL's setting says it.
    fn of(setting: &str) -> Isolation {
        match setting {
            "read committed" | "read uncommitted" => Isolation::ReadCommitted,
            "repeatable read" => Isolation::RepeatableRead,
            _ => Isolation::Serializable,
        }
    }
}

/// What a session has on every server.
#[derive(Clone)]
pub struct Outset {
    /// User, database and settings.
    pub key: Key,
    /// The same for reads at replicas: should one write after all, it fails.
    pub reads: Key,
    /// How its statements are read.
    pub reading: Reading,
    /// How its transactions are isolated unless it says otherwise.
    pub isolation: Isolation,
}

impl Outset {
    /// Where nothing needs to be known of it.
    fn of(key: Key) -> Outset {
        Outset {
            reads: key.clone(),
            key,
            reading: Reading::default(),
            isolation: Isolation::default(),
        }
    }

    /// What a session that began with this has when it has changed these settings since.
    pub fn changed_to(&self, changed: Settings, known: &Known) -> Outset {
        let mut reading = self.reading.clone();
        if let Some(path) = changed.value("search_path") {
            reading.search_path = pg_analysis::search_path(path, &self.key.user);
        }
        if let Some(encoding) = changed.value("client_encoding") {
            reading.is_utf8 = encoding == "UTF8";
        }
        if let Some(setting) = changed.value("standard_conforming_strings") {
            reading.has_escapes = setting != "on";
        }
        reading.is_changed = changed.iter().any(|(name, _)| settings::is_of_texts(name));
        let isolation = changed.value("default_transaction_isolation");
        Outset {
            reading,
            isolation: isolation.map_or(self.isolation, Isolation::of),
            reads: known.same(self.reads.changed_to(changed.clone())),
            key: known.same(self.key.changed_to(changed)),
        }
    }
}

/// What decides which rows a statement gives and how they look: a replica's own settings must
/// not.
const OUTSET: &str = "SELECT current_setting('search_path'), \
    current_setting('default_transaction_isolation'), current_setting('TimeZone'), \
    current_setting('DateStyle'), current_setting('IntervalStyle'), \
    current_setting('client_encoding'), current_setting('extra_float_digits'), \
    current_setting('bytea_output'), current_setting('lc_monetary'), \
    current_setting('lc_numeric'), current_setting('lc_time'), current_setting('xmloption'), \
    current_setting('default_text_search_config'), current_setting('standard_conforming_strings')";
const OUTSET_NAMES: [&str; 14] = [
    "search_path",
    "default_transaction_isolation",
    "TimeZone",
    "DateStyle",
    "IntervalStyle",
    "client_encoding",
    "extra_float_digits",
    "bytea_output",
    "lc_monetary",
    "lc_numeric",
    "lc_time",
    "xmloption",
    "default_text_search_config",
    "standard_conforming_strings",
];

/// Reads what a session begins with from a connection that has just been opened for it.
async fn outset(connection: &mut Connection, known: &Known) -> io::Result<Outset> {
    let values = connection.row(OUTSET).await?;
    let [search_path, isolation, _, _, _, encoding, .., strings] = &values[..] else {
        return Err(io::Error::other("the server gives no settings"));
    };
    let key = &connection.key;
    let names = OUTSET_NAMES.map(str::to_string);
    let key = known.same(key.with(names.into_iter().zip(values.iter().cloned())));
    let read_only = ("default_transaction_read_only".into(), "on".into());
    Ok(Outset {
        reading: Reading {
            search_path: pg_analysis::search_path(search_path, &key.user),
            is_utf8: encoding == "UTF8",
            has_escapes: strings != "on",
            is_changed: false,
        },
        isolation: Isolation::of(isolation),
        reads: known.same(key.with([read_only])),
        key,
    })
}

/// Why a login failed.
pub enum Failed {
    /// The client is told.
    Told(Report),
    /// The client is gone, or nobody it could be told to.
    Gone,
}

impl From<io::Error> for Failed {
    fn from(_: io::Error) -> Failed {
        Failed::Gone
    }
}

impl From<Report> for Failed {
    fn from(report: Report) -> Failed {
        Failed::Told(report.fatal())
    }
}

/// The client does not keep to the protocol.
pub fn violation(what: impl Into<String>) -> Failed {
    Report::new(Severity::Fatal, PROTOCOL_VIOLATION, what).into()
}

impl Proxy {
    /// Lets a client log in. None if it wanted something else, or could not: then it was told.
    pub(super) async fn welcome(
        &self,
        stream: Stream,
        address: Option<SocketAddr>,
    ) -> Option<(Peer, Entrance)> {
        let mut peer = Peer::new(stream);
        // What is read again meanwhile is for those who come later.
        let admission = self.admission();
        loop {
            let first = match first(&mut peer).await {
                Ok(first) => first,
                Err(failed) => return self.turn_away(peer, failed, address).await,
            };
            match first {
                First::Tls => peer = encrypt(peer, &admission).await?,
                First::Gss => peer.write_all(b"N").await.ok()?,
                First::Cancel(key) => {
                    self.cancels.cancel(&key).await;
                    return None;
                }
                First::Unsupported(text) => {
                    let failed = Report::new(Severity::Fatal, UNSUPPORTED, text).into();
                    return self.turn_away(peer, failed, address).await;
                }
                First::Startup(startup) => {
                    return match self.log_in(&mut peer, &admission, &startup).await {
                        Ok(entrance) => Some((peer, entrance)),
                        Err(failed) => self.turn_away(peer, failed, address).await,
                    };
                }
            }
        }
    }

    async fn turn_away(
        &self,
        mut peer: Peer,
        failed: Failed,
        address: Option<SocketAddr>,
    ) -> Option<(Peer, Entrance)> {
        if let Failed::Told(report) = failed {
            tell_refusal(&report, address);
            let mut out = BytesMut::new();
            report.write(&mut out);
            // A client that is gone cannot be told.
            let _ = peer.write_all(&out).await;
            peer.shutdown().await;
        }
        None
    }

    async fn log_in(
        &self,
        peer: &mut Peer,
        admission: &Admission,
        startup: &Startup,
    ) -> Result<Entrance, Failed> {
        let Some(user) = startup.parameter("user").filter(|user| !user.is_empty()) else {
            let text = "no PostgreSQL user name specified in startup packet";
            return Err(Report::new(Severity::Fatal, proof::INVALID_AUTHORIZATION, text).into());
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
            return Ok(Entrance::Console(user.to_owned()));
        }
        // Before anybody is asked for a password: libpq goes on to its next host only then.
        let servers = self.servers()?;
        let Ok(permit) = Arc::clone(&self.clients).try_acquire_owned() else {
            let text = "sorry, too many clients already";
            return Err(Report::new(Severity::Fatal, TOO_MANY, text).into());
        };
        if startup.minor != startup.minor_spoken() || startup.protocol_options().next().is_some() {
            peer.write_all(&negotiation(startup)).await?;
        }
        let login = proof::ask(peer, admission, user).await?;
        let key = Key::of(startup, user);
        // One that is idle begins as this session would.
        let begun = self.outsets.of(&key);
        let begins_as = begun.as_ref().unwrap_or(&key);
        let mut connection = servers.primary.take(begins_as, &login).await?;
        let parameters = Arc::clone(&connection.server.parameters);
        let outset = match &servers.routing {
            None => Outset::of(key),
            Some(_) => match outset(&mut connection, &self.known).await {
                Ok(outset) => {
                    if begun.is_none() {
                        self.outsets.saw(key, outset.key.clone());
                    }
                    outset
                }
                Err(error) => {
                    servers.primary.close(connection);
                    let text = format!("cannot read the session's settings: {error}");
                    return Err(Report::new(Severity::Fatal, CONNECTION_FAILURE, text).into());
                }
            },
        };
        // It has the same settings by itself, and resets them to the same values.
        connection.key = outset.key.clone();
        servers.primary.give_back(connection);
        Ok(Entrance::Session(Box::new(Welcome {
            minor: startup.minor_spoken(),
            outset,
            login,
            servers,
            parameters,
            permit,
        })))
    }
}

/// Tells the log who was not let in for what they have said of themselves (SQLSTATE class 28).
fn tell_refusal(report: &Report, address: Option<SocketAddr>) {
    if report.code.starts_with(INVALID_AUTHORIZATION) {
        let from = address.map_or_else(|| "this machine".to_owned(), |it| it.to_string());
        let (code, said) = (&*report.code, without_literals(&report.message));
        log::warn!(event = "login_refused", from = &*from, sqlstate = code; "{said}");
    }
}

/// Answers a client that asks for TLS. There is none on Unix sockets, as with PostgreSQL.
async fn encrypt(mut peer: Peer, admission: &Admission) -> Option<Peer> {
    let identity = admission.tls.as_ref().filter(|_| peer.network().is_some());
    let Some(identity) = identity else {
        peer.write_all(b"N").await.ok()?;
        return Some(peer);
    };
    if peer.is_encrypted() {
        return None;
    }
    peer.write_all(b"S").await.ok()?;
    // Bytes that came before the handshake could be anybody's: CVE-2021-23222.
    let Stream::Plain(socket) = peer.into_stream()? else {
        return None;
    };
    let acceptor = TlsAcceptor::from(Arc::clone(&identity.config));
    let stream = acceptor.accept(socket).await.ok()?;
    Some(Peer::new(Stream::Tls(Box::new(stream.into()))))
}

/// Operators come in however many clients there are, and whatever has become of the servers.
async fn log_in_operator(
    peer: &mut Peer,
    admission: &Admission,
    startup: &Startup,
    user: &str,
) -> Result<(), Failed> {
    if startup.minor != 0 || startup.protocol_options().next().is_some() {
        let mut plain = startup.clone();
        plain.minor = 0;
        peer.write_all(&negotiation(&plain)).await?;
    }
    proof::ask(peer, admission, user).await?;
    if admission.operators.iter().any(|known| known == user) {
        return Ok(());
    }
    let text = format!("user \"{user}\" is no operator of this proxy");
    Err(Report::new(Severity::Fatal, NOT_ALLOWED, text)
        .hint("Operators are named by --operator.")
        .into())
}

/// The first packet, whole.
async fn first(peer: &mut Peer) -> Result<First, Failed> {
    loop {
        let length = startup::length(&peer.input).map_err(|error| violation(error.0))?;
        if let Some(length) = length.filter(|length| peer.input.len() >= *length) {
            let packet = peer.input.split_to(length);
            return startup::read(&packet).map_err(|error| violation(error.0));
        }
        if peer.read().await? == 0 {
            return Err(Failed::Gone);
        }
    }
}

/// NegotiateProtocolVersion: which version is spoken, and which options are not known.
fn negotiation(startup: &Startup) -> BytesMut {
    let options: Vec<&str> = startup.protocol_options().collect();
    let count = u32::try_from(options.len()).expect("a startup packet is short");
    let mut body = Vec::new();
    body.extend_from_slice(&(3 << 16 | u32::from(startup.minor_spoken())).to_be_bytes());
    body.extend_from_slice(&count.to_be_bytes());
    for option in options {
        body.extend_from_slice(option.as_bytes());
        body.push(0);
    }
    let mut out = BytesMut::new();
    message::write(&mut out, b'v', &[&body], 0);
    out
}
