//! Serves PostgreSQL's protocol beside a store or a server of one, on threads of its own.
//!
//! The port is bound first, so that a command whose port is taken opens no data.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use client::{Client, ConnectOptions};
use pg_auth::admission::{CertificateUse, ClientAdmission, ClientAuthentication};
use pg_server::{LoginNote, LoginOutcome, RoleNote, ServerJournal, ServerLimits, SqlServer};
use replex::credentials;
use replex::failure::CommandFailure;
use server::journal::{JournalLevel, line};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use crate::login::LoginArguments;

/// The most requests of all clients to the store at the same time.
const REQUESTS_MAX: usize = 65_536;
/// How long to wait before the coordinator is asked again.
const CONNECT_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Whether clients of other machines may connect without TLS and without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkPolicy {
    /// They may.
    Allowed,
    /// They may not, and the option with this name would allow it.
    NeedsOption(&'static str),
}

/// A port that waits for its store.
pub struct SqlListener {
    listener: TcpListener,
    address: SocketAddr,
    login: LoginArguments,
    admission: ClientAdmission,
}

/// A server of SQL. Dropping it disconnects its clients.
pub struct RunningSql {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl SqlListener {
    /// Binds an address, for clients that log in by these rules.
    ///
    /// # Errors
    /// Other machines can reach the address, and that was not allowed; a file with users or
    /// certificates is damaged; or the address cannot be bound.
    pub fn bind(
        address: SocketAddr,
        login: &LoginArguments,
        policy: NetworkPolicy,
    ) -> Result<SqlListener, CommandFailure> {
        if let NetworkPolicy::NeedsOption(option) = policy
            && !address.ip().is_loopback()
        {
            check_is_protected(address, login, option).map_err(CommandFailure::Usage)?;
        }
        let admission = admission(login).map_err(CommandFailure::Usage)?;
        let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => CommandFailure::Failed(format!(
                "another process listens at {address}: end it, or choose another port, as in \
                 {}:0 for any free port",
                address.ip()
            )),
            _ => CommandFailure::Failed(format!("cannot listen at {address}: {error}")),
        })?;
        let what = "listen for clients";
        listener
            .set_nonblocking(true)
            .map_err(CommandFailure::at(what))?;
        let address = listener.local_addr().map_err(CommandFailure::at(what))?;
        Ok(SqlListener {
            listener,
            address,
            login: login.clone(),
            admission,
        })
    }

    /// Returns the address, with the port that the system has chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients of the store with these coordinators. Returns at once; clients are answered
    /// when the store is.
    ///
    /// # Errors
    /// The threads cannot be started.
    pub fn serve(
        self,
        coordinators: Vec<String>,
        limits: ServerLimits,
    ) -> Result<(RunningSql, oneshot::Receiver<()>), CommandFailure> {
        let what = "start the threads of SQL";
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.thread_name("sql").enable_all().build();
        let runtime = runtime.map_err(CommandFailure::at(what))?;
        let (stop, stopped) = watch::channel(false);
        let (connected, is_connected) = oneshot::channel();
        let serving = async move {
            let mut is_over = stopped.clone();
            let store = tokio::select! {
                store = connect(coordinators) => store,
                _ = is_over.wait_for(|is_over| *is_over) => return,
            };
            // The waiter may have ended.
            let _ = connected.send(());
            let listener = tokio::net::TcpListener::from_std(self.listener);
            let listener = listener.expect("the runtime has an I/O driver");
            let (rules, admission) = watch::channel(Arc::new(self.admission));
            let release = env!("CARGO_PKG_VERSION");
            let server = SqlServer::new(store, limits, admission, JOURNAL, release);
            tokio::select! {
                () = server.run(listener, stopped) => {}
                () = reload_on_hangup(&self.login, &rules) => {}
            }
        };
        let thread = Builder::new().name("sql".into());
        let thread = thread.spawn(move || runtime.block_on(serving));
        let running = RunningSql {
            stop,
            thread: Some(thread.map_err(CommandFailure::at(what))?),
        };
        Ok((running, is_connected))
    }
}

impl Drop for RunningSql {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed the panic.
            let _ = thread.join();
        }
    }
}

/// Checks that logins at an address on a network are encrypted and proved. The error is for people.
fn check_is_protected(
    address: SocketAddr,
    login: &LoginArguments,
    option: &str,
) -> Result<(), String> {
    let (lacks, remedy) = match (login.can_encrypt(), has_login(login)) {
        (true, true) => return Ok(()),
        (false, true) => (
            "its connections would not be encrypted",
            "--tls-certificate FILE and --tls-key FILE",
        ),
        (true, false) => (
            "any process that reaches it could read and change everything",
            "--users FILE",
        ),
        (false, false) => (
            "there would be no encryption and no login: any process that reaches it could read and \
             change everything",
            "--users FILE, --tls-certificate FILE and --tls-key FILE",
        ),
    };
    Err(format!(
        "{address} can be reached from the network, and {lacks}. Give {remedy}, or listen at a \
         loopback address such as 127.0.0.1, or, in a network that you trust, add {option}"
    ))
}

fn has_login(login: &LoginArguments) -> bool {
    login.users.is_some() || login.takes_certificates()
}

/// Returns the rules for logins. Reads their files. The error is for people.
fn admission(login: &LoginArguments) -> Result<ClientAdmission, String> {
    if login.certificates() == CertificateUse::Required && login.users.is_none() {
        return Err(
            "--tls-client-auth verify-full asks each client for a password, too: give --users FILE, \
             or --tls-client-auth cert"
                .into(),
        );
    }
    let users = login.read_users()?;
    let authentication = match has_login(login) {
        true => ClientAuthentication::Scram(users),
        false => ClientAuthentication::Trust(users),
    };
    login.admission(authentication)
}

/// Reads the files of users and certificates again whenever SIGHUP comes. If one is damaged, the
/// rules stay as they are.
async fn reload_on_hangup(login: &LoginArguments, rules: &watch::Sender<Arc<ClientAdmission>>) {
    let Ok(mut hangup) = signal(SignalKind::hangup()) else {
        return std::future::pending().await;
    };
    while hangup.recv().await.is_some() {
        match admission(login) {
            Ok(read) => {
                rules.send_replace(Arc::new(read));
                line(JournalLevel::Info, "logins_reloaded", &[]);
            }
            Err(error) => {
                let text = format!("the rules for logins stay as they are: {error}");
                line(JournalLevel::Error, "reload_failed", &[("note", &text)]);
            }
        }
    }
    std::future::pending().await
}

/// Writes to the operator's log.
const JOURNAL: ServerJournal = ServerJournal {
    login: note_login,
    roles: note_roles,
};

/// Writes a change of roles or privileges to the operator's log.
fn note_roles(note: &RoleNote<'_>) {
    let (user, role) = (("user", &note.user as _), ("role", &note.role as _));
    let (from, what) = (("from", &note.from as _), ("what", &note.what as _));
    line(
        JournalLevel::Info,
        "roles_changed",
        &[user, role, from, what],
    );
}

/// Writes a login to the operator's log.
fn note_login(login: &LoginNote<'_>) {
    let (user, from) = (("user", &login.user as _), ("from", &login.from as _));
    let by = match login.outcome {
        LoginOutcome::ByPassword => "password",
        LoginOutcome::ByCertificate => "certificate",
        LoginOutcome::Refused(report) => {
            let (state, note) = (
                ("sqlstate", &report.code as _),
                ("note", &report.message as _),
            );
            return line(
                JournalLevel::Warn,
                "login_refused",
                &[user, from, state, note],
            );
        }
    };
    line(JournalLevel::Info, "login", &[user, from, ("by", &by)]);
}

/// Connects to the store, however long it takes.
async fn connect(coordinators: Vec<String>) -> Client {
    loop {
        let options = ConnectOptions {
            requests_max: REQUESTS_MAX,
            credentials: credentials::current(),
            ..ConnectOptions::new(coordinators.iter().cloned())
        };
        match Client::connect(options).await {
            Ok(client) => return client,
            Err(_) => tokio::time::sleep(CONNECT_AGAIN_AFTER).await,
        }
    }
}
