//! `replex proxy demo`: runs a primary, and replicas that are added and lost, while the clients of
//! a load see no error.
//!
//! All databases are its own, in temporary folders on loopback, and go with it however it ends.

mod chapters;
mod load;
mod package;

use std::sync::Arc;
use std::time::{Duration, Instant};

use pg_auth::admission::ClientAdmission;
use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::console::client::{self, CommandOutput};
use proxy::serve::routing::Routing;
use proxy::serve::{Admission, Proxy, ProxyOptions, WAIT_MS_DEFAULT};
use proxy_core::session::PinningPolicy;
use replex::cluster::{self, Cluster};
use replex::failure::CommandFailure;
use replex::say;
use replication::{ReplicationSettings, buffer};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::output::Screen;
use crate::story::Story;

/// The database in each server.
const DATABASE: &str = "postgres";
/// The size limit of the transactions buffer, in bytes.
const BUFFER_LENGTH_MAX: u64 = 256 << 20;
/// Time between two looks at the state.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// A step that takes longer is stuck, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Everything that runs.
struct Stage {
    primary: Postgres,
    /// By their numbers, from 1 on.
    replicas: Vec<Postgres>,
    /// The store that commits are kept in for offline replicas.
    store: Cluster,
    /// The proxy, for applications.
    proxy: Address,
    /// It serves until this is dropped.
    _serving: JoinSet<()>,
}

/// Runs `replex proxy demo`.
pub async fn run() -> Result<(), CommandFailure> {
    let started = Instant::now();
    let mut story = Story::of_stdout();
    say!(
        "{}: a PostgreSQL proxy whose replicas answer consistently.",
        story.screen.bold("Hihooi")
    );
    package::provide().await?;
    let mut stage = chapters::stage(&mut story).await?;
    chapters::routing(&mut story, &stage).await?;
    let load = chapters::load(&mut story, &stage).await?;
    chapters::third(&mut story, &mut stage, &load).await?;
    chapters::kill(&mut story, &mut stage, &load).await?;
    chapters::buffer(&mut story, &mut stage, &load).await?;
    chapters::compare(&mut story, &stage, load).await?;
    let verdict = story.verdict(started);
    drop(stage);
    say!("The databases are stopped and their data removed.");
    verdict
}

/// Starts a database; that takes a while, in which others can be started.
async fn start_postgres(settings: &'static [&'static str]) -> Result<Postgres, CommandFailure> {
    let started = tokio::task::spawn_blocking(|| Postgres::start(settings)).await;
    let started = started.map_err(CommandFailure::at("start PostgreSQL"))?;
    started.map_err(CommandFailure::at("start PostgreSQL"))
}

/// Starts a store of one server, as processes of their own.
async fn start_store() -> Result<Cluster, CommandFailure> {
    let program =
        std::env::current_exe().map_err(CommandFailure::at("find this program's own file"))?;
    let options = cluster::ClusterOptions {
        servers: 1,
        // It is killed, and no other is to take its place.
        coordinator_arguments: ["--replace-after", "never"].map(str::to_owned).into(),
        ..cluster::ClusterOptions::new(program)
    };
    let started = Cluster::start(options).await;
    started.map_err(CommandFailure::at(
        "start the store for the transactions buffer",
    ))
}

impl Stage {
    /// Starts a primary, two empty databases, and the proxy in front of the primary, without
    /// replicas.
    async fn build() -> Result<Stage, CommandFailure> {
        let (primary, first, second, store) = tokio::try_join!(
            // An answered commit is in the log that replicas follow.
            start_postgres(&["synchronous_commit=on"]),
            start_postgres(&[]),
            start_postgres(&[]),
            start_store(),
        )?;
        let filled = load::connect(&primary.address(DATABASE)).await?;
        let filled = filled.batch_execute(load::SCHEMA).await;
        filled.map_err(CommandFailure::at("fill the primary"))?;
        let options = ProxyOptions {
            serve_operator: proxy::console::serve,
            primary: primary.address(DATABASE),
            admission: Admission {
                clients: ClientAdmission::open(),
                operators: vec![SUPERUSER.into()],
            },
            replicas: Vec::new(),
            reload: Box::new(|| Err("a demo has no files".into())),
            pinning: PinningPolicy::WhenNeeded,
            connections_max: 20,
            clients_max: 100,
            login_timeout: Duration::from_secs(60),
            wait_max: Duration::from_millis(WAIT_MS_DEFAULT),
        };
        let settings = ReplicationSettings {
            buffer: Some(buffer::BufferOptions {
                coordinators: store.coordinator_addresses().to_vec(),
                length_max: BUFFER_LENGTH_MAX,
                is_for_all: true,
                absence_max: buffer::ABSENCE_MAX,
            }),
            ..ReplicationSettings::default()
        };
        let routing = Routing::start(&options.primary, options.connections_max, &settings).await;
        let routing = routing.map_err(CommandFailure::at("follow the primary"))?;
        routing.replicas.replication().knows_all();
        let listener = TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.map_err(CommandFailure::at("listen"))?;
        let place = listener
            .local_addr()
            .map_err(CommandFailure::at("listen"))?;
        let proxy: Arc<Proxy> = Proxy::new(options, Some(routing));
        let mut serving = JoinSet::new();
        // It has no end but that of the set.
        serving.spawn(async move { drop(proxy.serve(listener).await) });
        Ok(Stage {
            proxy: Address {
                host: place.ip().to_string(),
                port: place.port(),
                ..primary.address(DATABASE)
            },
            primary,
            replicas: vec![first, second],
            store,
            _serving: serving,
        })
    }

    /// Asks the console.
    async fn ask(&self, command: &str) -> Result<CommandOutput, CommandFailure> {
        let output = client::ask(&self.proxy, command).await;
        output.map_err(CommandFailure::at(format!("do `{command}`")))
    }

    /// Returns the console's view of the transactions buffer.
    async fn buffer(&self) -> Result<BufferView, CommandFailure> {
        let output = self.ask("SHOW BUFFER").await?;
        let row = output.rows.into_iter().next();
        let row =
            row.ok_or_else(|| CommandFailure::Failed("there is no transactions buffer".into()))?;
        let text = |at: usize| row[at].clone().unwrap_or_default();
        Ok(BufferView {
            doing: text(0),
            from: text(1),
            until: text(2),
        })
    }

    /// Adds a replica, and returns its URL.
    async fn add(&self, replica: &Postgres) -> Result<String, CommandFailure> {
        let url = format!("postgresql://{SUPERUSER}@{}/{DATABASE}", replica.socket());
        self.ask(&format!("ADD REPLICA '{url}'")).await?;
        Ok(url)
    }

    /// Returns a replica's line in the console: its state, its activity, and its progress.
    async fn replica(&self, number: usize) -> Result<ReplicaView, CommandFailure> {
        let output = self.ask("SHOW REPLICAS").await?;
        let number = number.to_string();
        let mut rows = output.rows.into_iter();
        let row = rows.find(|row| row[0].as_deref() == Some(&number));
        let row = row.ok_or_else(|| CommandFailure::Failed(format!("replica {number} is gone")))?;
        let text = |at: usize| row[at].clone().unwrap_or_default();
        Ok(ReplicaView {
            state: text(3),
            doing: text(4),
            share: text(5).parse().ok(),
            seconds_left: text(6).parse().ok(),
        })
    }

    /// Waits until a replica is in this state, and shows its status on the way.
    async fn wait(&self, story: &Story, number: usize, state: &str) -> Result<(), CommandFailure> {
        let begun = Instant::now();
        let mut shown = String::new();
        loop {
            let now = self.replica(number).await?;
            let line = now.line(story.screen);
            if line != shown {
                story.say(format!("   replica {number}: {line}"));
                shown = line;
            }
            if now.state == state {
                return Ok(());
            }
            if now.state == "failed" || begun.elapsed() > PATIENCE {
                return Err(CommandFailure::Failed(format!(
                    "replica {number} is {} after {} s, not {state}: {}",
                    now.state,
                    begun.elapsed().as_secs(),
                    now.doing
                )));
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

/// The state of the transactions buffer, and where its commits begin and end in the primary's log.
struct BufferView {
    doing: String,
    from: String,
    until: String,
}

/// The state of a replica, for people.
struct ReplicaView {
    state: String,
    doing: String,
    share: Option<f64>,
    seconds_left: Option<u64>,
}

impl ReplicaView {
    /// Returns a line for people. Estimates are rounded to 10 %, so that not every change is
    /// printed.
    fn line(&self, screen: Screen) -> String {
        let mut line = format!("{}, {}", self.state, self.doing);
        if let Some(share) = self.share {
            line += &format!(", {} %", (share * 10.0) as u64 * 10);
            if let Some(left) = self.seconds_left {
                line += &format!(", about {left} s left");
            }
        }
        screen.dim(line)
    }
}
