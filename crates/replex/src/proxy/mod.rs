//! `replex proxy`: runs the PostgreSQL proxy and its tools.
//!
//! This module converts the command line to the options of crate `proxy`, which contains the proxy.

mod admin;
mod arguments;
mod buffer_setup;
mod check;
mod demo;
mod file;
mod journal;
mod promote;
mod sessions;

use std::convert::Infallible;
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pg_auth::admission::ClientAuthentication;
use pg_connect::address::{Address, socket_in};
use proxy::serve::listener::UnixSocket;
use proxy::serve::proxy_role::ProxyStatus;
use proxy::serve::{Admission, Proxy, ProxyOptions, ReloadedOptions};
use proxy_core::session::PinningPolicy;
use replex::failure::CommandFailure;
use replication::{ReplicationSettings, buffer};
use server::journal::JournalLevel;
use server::metrics::Metrics;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub use arguments::ProxyArguments;
use arguments::{Databases, Pooling, ProxyCommand, ServeArguments};
use buffer_setup::BufferSetup;
use sessions::Sessions;

/// Runs `replex proxy`.
pub fn run(arguments: &ProxyArguments) -> Result<(), CommandFailure> {
    match &arguments.command {
        Some(ProxyCommand::Admin(arguments)) => run_to_its_end(admin::run(arguments)),
        Some(ProxyCommand::Check(arguments)) => run_to_its_end(check::run(arguments)),
        Some(ProxyCommand::Promote(arguments)) => run_to_its_end(promote::run(arguments)),
        Some(ProxyCommand::Demo) => run_to_its_end(demo::run()),
        None => match runtime(Some(threads(&arguments.serve)))?.block_on(serve(&arguments.serve)) {
            // It has no end of its own: to be stopped is how it ends well.
            Err(CommandFailure::Interrupted) => Ok(()),
            other => other,
        },
    }
}

fn run_to_its_end(
    work: impl Future<Output = Result<(), CommandFailure>>,
) -> Result<(), CommandFailure> {
    runtime(None)?.block_on(crate::interruptible(work))
}

/// Returns the number of threads that the options request; 1 if the options have errors, which are
/// reported when they are read again.
fn threads(arguments: &ServeArguments) -> u16 {
    file::with_file(arguments).map_or(1, |arguments| arguments.threads)
}

/// Makes a runtime with `threads` threads, or with one for each processor. A runtime of one thread
/// has no scheduler that passes tasks to other threads, and handles each message sooner.
fn runtime(threads: Option<u16>) -> Result<tokio::runtime::Runtime, CommandFailure> {
    let mut builder = match threads {
        Some(1) => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if let Some(threads) = threads {
        builder.worker_threads(threads.into());
    }
    let runtime = builder.enable_all().build();
    runtime.map_err(CommandFailure::at("start the event loop"))
}

async fn serve(arguments: &ServeArguments) -> Result<(), CommandFailure> {
    journal::begin();
    // Before anything else: SIGHUP must not end a process that has just been started.
    let catch = |kind| signal(kind).map_err(CommandFailure::at("wait for signals"));
    let mut hangup = catch(SignalKind::hangup())?;
    let mut terminate = catch(SignalKind::terminate())?;
    if arguments.until_stdin_ends {
        crate::stdin::stop_when_stdin_ends();
    }
    let serving = async {
        let arguments = &file::with_file(arguments).map_err(CommandFailure::Usage)?;
        let listen = arguments.listen;
        let options = options(arguments)?;
        let listener = TcpListener::bind(listen).await;
        let listener = listener.map_err(CommandFailure::at(format!("listen at {listen}")))?;
        let is_router = !arguments.replica.is_empty() || arguments.replicate;
        let keeping = BufferSetup::of(arguments)?;
        let proxy = match is_router {
            true => Proxy::standing_by(options),
            false => Proxy::new(options, None),
        };
        let address = listener
            .local_addr()
            .map_err(CommandFailure::at("listen"))?;
        let local = listen_locally(arguments.socket_directory.as_deref(), address).await?;
        let mut places = format!("proxy={address}");
        if let Some(local) = &local {
            places += &format!(" socket={}", local.path().display());
        }
        places += &with_metrics(&proxy, arguments.metrics)?;
        if let Some(keeping) = &keeping {
            places += &format!(" buffer={}", keeping.place);
        }
        let buffer = keeping.as_ref().map(|keeping| keeping.buffer.clone());
        let spins = Duration::from_micros(arguments.spin_us.into());
        let sessions = Sessions::start(arguments.threads, spins)?;
        let serving_locally = async {
            match local {
                Some(local) => sessions.serve(&proxy, local).await,
                None => std::future::pending().await,
            }
        };
        let stood = async {
            match is_router {
                true => stand(&proxy, arguments, buffer, &places).await,
                false => {
                    say(&format!("ready {places}"));
                    std::future::pending().await
                }
            }
        };
        let ended = async {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
        };
        tokio::select! {
            served = sessions.serve(&proxy, listener) => served.map_err(CommandFailure::at("serve")),
            stood = stood => stood.map(|never| match never {}),
            served = serving_locally => served.map_err(CommandFailure::at("serve")),
            () = reload_on(&mut hangup, &proxy) => Ok(()),
            () = ended => {
                proxy.give_up().await;
                Err(CommandFailure::Interrupted)
            }
        }
    };
    serving.await
}

/// Makes the proxy active whenever no other proxy is. Fails if the proxy cannot become active.
async fn stand(
    proxy: &Proxy,
    arguments: &ServeArguments,
    buffer: Option<buffer::BufferOptions>,
    places: &str,
) -> Result<Infallible, CommandFailure> {
    let output = |standing| match standing {
        ProxyStatus::Active => {
            say(&format!("ready {places}"));
            log_event(JournalLevel::Info, "active", "this is the active proxy");
        }
        ProxyStatus::Waits(name) => {
            say(&format!("standby {places} for {name}"));
            log_event(
                JournalLevel::Info,
                "standby",
                &format!("this proxy stands by for {name}"),
            );
        }
        ProxyStatus::Lost => {
            let note = "another proxy may be the active one: this one stands by, its clients were disconnected";
            log_event(JournalLevel::Warn, "standby", note);
        }
        ProxyStatus::Failed(problem) => {
            log_event(JournalLevel::Error, "cannot_be_active", &problem)
        }
        ProxyStatus::Without(problem) => {
            log_event(JournalLevel::Error, "replica_not_added", &problem)
        }
    };
    let settings = ReplicationSettings {
        replay_connections: arguments.replay_connections,
        replay_group: arguments.replay_group,
        buffer,
    };
    let problem = proxy.compete_for_leadership(&settings, output).await;
    let what = format!("replicate from the primary at {}", proxy.primary());
    Err(CommandFailure::at(what)(problem))
}

/// Listens at the Unix socket of the same port; none if no folder for it is given.
async fn listen_locally(
    folder: Option<&Path>,
    address: SocketAddr,
) -> Result<Option<UnixSocket>, CommandFailure> {
    let Some(folder) = folder else {
        return Ok(None);
    };
    let path = socket_in(folder, address.port());
    let local = UnixSocket::bind(folder, address.port()).await;
    let local = local.map_err(CommandFailure::at(format!("listen at {}", path.display())))?;
    Ok(Some(local))
}

/// Serves metrics from here on, if there are to be any. Returns the address, for people.
fn with_metrics(proxy: &Arc<Proxy>, metrics: Option<SocketAddr>) -> Result<String, CommandFailure> {
    let mut line = String::new();
    if let Some(metrics) = metrics {
        let metrics = Metrics::bind(metrics).map_err(CommandFailure::at("serve metrics"))?;
        line += &format!(" metrics={}", metrics.address());
        let proxy = Arc::clone(proxy);
        let served = metrics.serve(move || proxy::console::metrics::text(&proxy));
        served.map_err(CommandFailure::at("serve metrics"))?;
    }
    Ok(line)
}

fn log_event(level: JournalLevel, event: &str, note: &str) {
    server::journal::line(level, event, &[("note", &note)]);
}

fn say(line: &str) {
    let mut stdout = std::io::stdout();
    // There may be no reader any more, which is no reason not to serve.
    let _ = writeln!(stdout, "{line}");
    let _ = stdout.flush();
}

/// Reads again which users may log in, whenever the signal comes.
async fn reload_on(hangup: &mut Signal, proxy: &Proxy) {
    while hangup.recv().await.is_some() {
        match proxy.reload().await {
            Ok(()) => log_event(
                JournalLevel::Info,
                "reloaded",
                "the configuration was reloaded",
            ),
            Err(problem) => {
                let note = format!("the previous configuration stays in force: {problem}");
                log_event(JournalLevel::Error, "reload_failed", &note);
            }
        }
    }
}

fn addresses(urls: &[String]) -> Result<Vec<Address>, String> {
    urls.iter().map(|url| Address::parse(url)).collect()
}

/// Returns the addresses of the primary and of the replicas.
fn databases(named: &Databases) -> Result<(Address, Vec<Address>), CommandFailure> {
    let primary = Address::parse(&named.primary).map_err(CommandFailure::Usage)?;
    let replicas = addresses(&named.replica).map_err(CommandFailure::Usage)?;
    Ok((primary, replicas))
}

/// Reads the changeable options of a proxy again that was started with `before`.
fn reload(before: &ServeArguments, primary: &Address) -> Result<ReloadedOptions, String> {
    let serve = file::with_file(before)?;
    let fixed = before.fixed().into_iter().zip(serve.fixed());
    let changed = fixed.filter(|(before, after)| before != after);
    let changed: Vec<&str> = changed.map(|((name, _), _)| name).collect();
    if !changed.is_empty() {
        let names = changed.join(", ");
        return Err(format!("{names}: restart the proxy to change that"));
    }
    let replicas = addresses(&serve.replica)?;
    Ok(ReloadedOptions {
        admission: admission(&serve, primary)?,
        replicas: serve.config.is_some().then_some(replicas),
    })
}

fn options(serve: &ServeArguments) -> Result<ProxyOptions, CommandFailure> {
    let Some(primary) = &serve.primary else {
        let text = "give --primary URL, or see `replex proxy --help`";
        return Err(CommandFailure::Usage(text.into()));
    };
    let primary = Address::parse(primary).map_err(CommandFailure::Usage)?;
    if !serve.listen.ip().is_loopback()
        && !serve.login.can_encrypt()
        && !serve.allow_unencrypted_network
    {
        return Err(CommandFailure::Usage(format!(
            "{} can be reached from a network, and nothing would be encrypted: give \
             --tls-certificate and --tls-key, or, in a network that you trust, \
             --allow-unencrypted-network",
            serve.listen
        )));
    }
    let has_passwords = serve.login.users.is_some() || primary.password.is_some();
    if !has_passwords && !serve.login.takes_certificates() && !serve.trust {
        return Err(CommandFailure::Usage(
            "no client could log in: give --users FILE, a password in --primary, or --trust".into(),
        ));
    }
    let (before, address) = (serve.clone(), primary.clone());
    Ok(ProxyOptions {
        serve_operator: proxy::console::serve,
        admission: admission(serve, &primary).map_err(CommandFailure::Failed)?,
        replicas: addresses(&serve.replica).map_err(CommandFailure::Usage)?,
        reload: Box::new(move || reload(&before, &address)),
        primary,
        pinning: match serve.pooling {
            Pooling::Transaction => PinningPolicy::WhenNeeded,
            Pooling::Session => PinningPolicy::Always,
        },
        connections_max: usize::from(serve.connections),
        clients_max: usize::from(serve.clients),
        login_timeout: Duration::from_secs(serve.login_timeout),
        wait_max: Duration::from_millis(serve.wait_ms),
    })
}

/// Reads from files which users may log in.
fn admission(serve: &ServeArguments, primary: &Address) -> Result<Admission, String> {
    let mut users = serve.login.read_users()?;
    if let Some(password) = &primary.password
        && users.find(&primary.user).is_none()
    {
        let added = users.add(&primary.user, password);
        added.map_err(|error| format!("the password in --primary: {error}"))?;
    }
    let operators = match &serve.operator[..] {
        [] => vec![primary.user.clone()],
        named => named.to_vec(),
    };
    let authentication = match serve.trust {
        true => ClientAuthentication::Trust(users),
        false => ClientAuthentication::Scram(users),
    };
    Ok(Admission {
        clients: serve.login.admission(authentication)?,
        operators,
    })
}
