//! `replex scale`: the PostgreSQL proxy.
//!
//! The command line becomes `scale`'s options here; what is done with them is that crate's.

mod arguments;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use replex::failure::Failure;
use scale::address::Address;
use scale::auth::tls;
use scale::auth::users::Users;
use scale::manager::ExtensionId;
use scale::pool::Node;
use scale::proxy::routing::Routing;
use scale::proxy::{Authentication, Options, Proxy};
use scale::replication::Replication;
use scale::wire::session::Pinning;
use tokio::net::TcpListener;

pub use arguments::Scale;
use arguments::{Pooling, Serve};

/// `replex scale`
pub fn run(arguments: &Scale) -> Result<(), Failure> {
    let options = options(&arguments.serve)?;
    let extensions = arguments.serve.extension.iter();
    let extensions: Result<Vec<Address>, String> =
        extensions.map(|url| Address::parse(url)).collect();
    let extensions = extensions.map_err(Failure::Usage)?;
    let serving = crate::interruptible(serve(options, extensions, arguments.serve.listen));
    match runtime()?.block_on(serving) {
        // It has no end of its own: to be stopped is how it ends well.
        Err(Failure::Interrupted) => Ok(()),
        other => other,
    }
}

/// A thread for each CPU: sessions are many, and have nothing to do with each other.
fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build();
    runtime.map_err(Failure::at("start the event loop"))
}

async fn serve(
    options: Options,
    extensions: Vec<Address>,
    listen: SocketAddr,
) -> Result<(), Failure> {
    let listener = TcpListener::bind(listen).await;
    let listener = listener.map_err(Failure::at(format!("listen at {listen}")))?;
    let address = listener.local_addr().map_err(Failure::at("listen"))?;
    // It replicates until it is dropped.
    let (_replication, routing) = replicate(&options, &extensions).await?.unzip();
    let proxy = Proxy::new(options, routing);
    let mut stdout = std::io::stdout();
    // Nobody may be listening any more, which is no reason not to serve.
    let _ = writeln!(stdout, "ready proxy={address}");
    let _ = stdout.flush();
    proxy.serve(listener).await.map_err(Failure::at("serve"))
}

/// Makes Extensions follow the Primary, and says how reads find them. None without Extensions.
async fn replicate(
    options: &Options,
    extensions: &[Address],
) -> Result<Option<(Replication, Routing)>, Failure> {
    if extensions.is_empty() {
        return Ok(None);
    }
    let started = Replication::start(&options.primary).await;
    let what = format!("replicate from the Primary at {}", options.primary);
    let (replication, manager, analyser) = started.map_err(Failure::at(what))?;
    let mut nodes = BTreeMap::new();
    for (id, address) in (1..).map(ExtensionId).zip(extensions) {
        let added = replication.add_extension(id, address);
        added.map_err(Failure::at(format!("take up the Extension at {address}")))?;
        let node = Node::new(address.clone(), options.connections_max);
        nodes.insert(id, Arc::new(node));
    }
    let routing = Routing {
        analyser,
        manager,
        extensions: nodes,
    };
    Ok(Some((replication, routing)))
}

fn options(serve: &Serve) -> Result<Options, Failure> {
    let primary = Address::parse(&serve.primary).map_err(Failure::Usage)?;
    let tls = match (&serve.tls_certificate, &serve.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(tls::server_config(certificate, key).map_err(Failure::Failed)?)
        }
        _ => None,
    };
    if !serve.listen.ip().is_loopback() && tls.is_none() && !serve.allow_unencrypted_network {
        return Err(Failure::Usage(format!(
            "{} can be reached from a network, and nothing would be encrypted: give \
             --tls-certificate and --tls-key, or, in a network that you trust, \
             --allow-unencrypted-network",
            serve.listen
        )));
    }
    Ok(Options {
        authentication: authentication(serve, &primary)?,
        primary,
        tls,
        pinning: match serve.pooling {
            Pooling::Transaction => Pinning::WhenNeeded,
            Pooling::Session => Pinning::Always,
        },
        connections_max: usize::from(serve.connections),
        clients_max: usize::from(serve.clients),
        login_timeout: Duration::from_secs(serve.login_timeout),
    })
}

fn authentication(serve: &Serve, primary: &Address) -> Result<Authentication, Failure> {
    let mut users = match &serve.users {
        Some(file) => Users::read(file).map_err(Failure::Failed)?,
        None => Users::default(),
    };
    if let Some(password) = &primary.password
        && users.find(&primary.user).is_none()
    {
        let added = users.add(&primary.user, password);
        added.map_err(|error| Failure::Usage(format!("the password in --primary: {error}")))?;
    }
    if serve.trust {
        return Ok(Authentication::Trust(users));
    }
    if serve.users.is_none() && primary.password.is_none() {
        return Err(Failure::Usage(
            "nobody could log in: give --users FILE, a password in --primary, or --trust".into(),
        ));
    }
    Ok(Authentication::Scram(users))
}
