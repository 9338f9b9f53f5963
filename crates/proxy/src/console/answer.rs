//! Executes the console's commands, and returns their answers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::command::{ConsoleCommand, HELP, ShowSubject};
use super::table::{ConsoleColumns, ConsoleType, ConsoleValue};
use crate::serve::clients::RouteTarget;
use crate::serve::routing::Routing;
use crate::serve::{Proxy, pending_age};
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{ReplicaId, ReplicaState};
use proxy_pool::ServerNode;
use replication::buffer::BufferStatus;
use replication::{ReplicationCheckpoint, ReplicationError};

/// SQLSTATEs.
const INVALID_VALUE: &str = "22023";
const UNKNOWN_OBJECT: &str = "42704";
const NOT_READY: &str = "55000";
const SUCCESS: &str = "00000";

/// The answer to a command.
pub struct ConsoleAnswer {
    /// The columns; none if the command returns no rows.
    pub columns: Option<ConsoleColumns>,
    /// The rows, with one value per column.
    pub rows: Vec<Vec<ConsoleValue>>,
    /// The command tag.
    pub tag: String,
    /// A notice for the operator.
    pub notice: Option<Report>,
}

const REPLICAS: ConsoleColumns = &[
    ("replica", ConsoleType::Number),
    ("address", ConsoleType::Text),
    ("database", ConsoleType::Text),
    ("state", ConsoleType::Text),
    ("doing", ConsoleType::Text),
    ("share_done", ConsoleType::Real),
    ("seconds_left", ConsoleType::Number),
    ("reads_running", ConsoleType::Number),
    ("reads_served", ConsoleType::Number),
    ("times_compared", ConsoleType::Number),
];
const ROUTES: ConsoleColumns = &[
    ("server", ConsoleType::Text),
    ("why", ConsoleType::Text),
    ("batches", ConsoleType::Number),
];
const LAG: ConsoleColumns = &[
    ("replica", ConsoleType::Number),
    ("primary_at", ConsoleType::Text),
    ("applied", ConsoleType::Text),
    ("on_disk", ConsoleType::Text),
    ("bytes_behind", ConsoleType::Number),
];
const BUFFER: ConsoleColumns = &[
    ("doing", ConsoleType::Text),
    ("has_from", ConsoleType::Text),
    ("has_until", ConsoleType::Text),
    ("pages", ConsoleType::Number),
    ("bytes", ConsoleType::Number),
    ("bytes_max", ConsoleType::Number),
];
const POOLS: ConsoleColumns = &[
    ("server", ConsoleType::Text),
    ("address", ConsoleType::Text),
    ("connections", ConsoleType::Number),
    ("in_use", ConsoleType::Number),
    ("idle", ConsoleType::Number),
    ("connections_max", ConsoleType::Number),
];
const CLIENTS: ConsoleColumns = &[
    ("client", ConsoleType::Number),
    ("user", ConsoleType::Text),
    ("database", ConsoleType::Text),
    ("address", ConsoleType::Text),
    ("seconds", ConsoleType::Number),
    ("batches", ConsoleType::Number),
    ("server", ConsoleType::Text),
];
const PROXY: ConsoleColumns = &[
    ("standing", ConsoleType::Text),
    ("waits_for", ConsoleType::Text),
    ("epoch", ConsoleType::Number),
    ("index_bytes_max", ConsoleType::Number),
    ("reads_waiting", ConsoleType::Number),
    ("commits_pending", ConsoleType::Number),
    ("oldest_pending_seconds", ConsoleType::Number),
];
const HELP_COLUMNS: ConsoleColumns = &[
    ("command", ConsoleType::Text),
    ("meaning", ConsoleType::Text),
];
const ADDED: ConsoleColumns = &[("replica", ConsoleType::Number)];

/// Returns the columns of a command's answer; none if it returns no rows.
pub fn columns(command: &ConsoleCommand) -> Option<ConsoleColumns> {
    match command {
        ConsoleCommand::Show(ShowSubject::Replicas) => Some(REPLICAS),
        ConsoleCommand::Show(ShowSubject::Routes) => Some(ROUTES),
        // Also the answer of a checkpoint.
        ConsoleCommand::Show(ShowSubject::Lag) | ConsoleCommand::Checkpoint => Some(LAG),
        ConsoleCommand::Show(ShowSubject::Buffer) => Some(BUFFER),
        ConsoleCommand::Show(ShowSubject::Pools) => Some(POOLS),
        ConsoleCommand::Show(ShowSubject::Clients) => Some(CLIENTS),
        ConsoleCommand::Show(ShowSubject::Proxy) => Some(PROXY),
        ConsoleCommand::Show(ShowSubject::Help) => Some(HELP_COLUMNS),
        ConsoleCommand::Add { .. } => Some(ADDED),
        ConsoleCommand::Remove(_) | ConsoleCommand::Reload | ConsoleCommand::Ignored(_) => None,
    }
}

/// Executes a command of the console, and returns its answer.
pub async fn to(proxy: &Proxy, command: ConsoleCommand) -> Result<ConsoleAnswer, Report> {
    let columns = columns(&command);
    let mut notice = None;
    let (rows, tag) = match command {
        ConsoleCommand::Show(subject) => (shown(proxy, subject), "SHOW"),
        ConsoleCommand::Add {
            url,
            contents,
            seed,
        } => {
            let replicas = &followed(proxy)?.replicas;
            let added = replicas.register(&url, contents, seed).await;
            let row = vec![ConsoleValue::count(added.map_err(refused)?.0.into())];
            (vec![row], "ADD REPLICA")
        }
        ConsoleCommand::Remove(id) => {
            notice = remove(proxy, id).await?;
            (Vec::new(), "REMOVE REPLICA")
        }
        ConsoleCommand::Checkpoint => {
            let routing = followed(proxy)?;
            let made = routing.replicas.replication().checkpoint().await;
            let ReplicationCheckpoint { at, without } = made.map_err(refused)?;
            let text = format!("not there, and not waited for: {}", without.join(", "));
            let report = Report::new(Severity::Notice, SUCCESS, text);
            let hint = format!("All commits up to {at} are on disk at all others.");
            notice = (!without.is_empty()).then(|| report.hint(hint));
            (lag(&routing), "CHECKPOINT")
        }
        ConsoleCommand::Reload => {
            let refused = |text: String| {
                Report::new(Severity::Error, INVALID_VALUE, text)
                    .hint("The previous configuration stays in force.")
            };
            proxy.reload().await.map_err(refused)?;
            (Vec::new(), "RELOAD")
        }
        ConsoleCommand::Ignored(tag) => (Vec::new(), tag),
    };
    Ok(ConsoleAnswer {
        columns,
        rows,
        tag: tag.to_string(),
        notice,
    })
}

/// Removes a replica. Returns a notice for the operator if options or the configuration file still
/// name the replica.
async fn remove(proxy: &Proxy, id: ReplicaId) -> Result<Option<Report>, Report> {
    let routing = followed(proxy)?;
    let node = routing.replicas.node(id);
    if !routing.replicas.remove(id).await.map_err(refused)? {
        let text = format!("there is no replica {}", id.0);
        let report = Report::new(Severity::Error, UNKNOWN_OBJECT, text);
        return Err(report.hint("SHOW REPLICAS has the numbers."));
    }
    let is_named = match node {
        Some(node) => proxy.is_named(&node.address).await,
        None => false,
    };
    let text = "options or the file name it: it is there again when they are read again";
    let notice = Report::new(Severity::Notice, SUCCESS, text);
    Ok(is_named.then(|| notice.hint("Take it out there, too.")))
}

/// Returns the error for a command that failed with this problem.
fn refused(problem: ReplicationError) -> Report {
    let code = match problem {
        ReplicationError::Connection(_) | ReplicationError::Stream(_) => NOT_READY,
        ReplicationError::Differs(_) | ReplicationError::Setup(_) => INVALID_VALUE,
    };
    Report::new(Severity::Error, code, problem.to_string())
}

fn followed(proxy: &Proxy) -> Result<Arc<Routing>, Report> {
    if proxy.is_router() {
        // The refusal that it sends to its clients holds here, too.
        let servers = proxy.servers().map_err(|report| Report {
            severity: Severity::Error,
            ..report
        })?;
        return Ok(servers.routing.expect("a proxy that routes knows how"));
    }
    let text = "this proxy only pools connections: it was started without replicas";
    Err(Report::new(Severity::Error, NOT_READY, text)
        .hint("Start it with --replica URL, or with --replicate and add replicas later."))
}

fn shown(proxy: &Proxy, subject: ShowSubject) -> Vec<Vec<ConsoleValue>> {
    let of_routing = |rows: fn(&Routing) -> Vec<Vec<ConsoleValue>>| {
        let routing = proxy.followed();
        routing.map(|routing| rows(&routing)).unwrap_or_default()
    };
    match subject {
        ShowSubject::Replicas => of_routing(replicas),
        ShowSubject::Lag => of_routing(lag),
        ShowSubject::Buffer => of_routing(buffer),
        ShowSubject::Routes => routes(proxy),
        ShowSubject::Pools => pools(proxy),
        ShowSubject::Clients => clients(proxy),
        ShowSubject::Proxy => vec![own_status(proxy)],
        ShowSubject::Help => {
            let row = |(command, meaning): &(&str, &str)| {
                vec![ConsoleValue::text(command), ConsoleValue::text(meaning)]
            };
            HELP.iter().map(row).collect()
        }
    }
}

fn own_status(proxy: &Proxy) -> Vec<ConsoleValue> {
    let (standing, waits_for) = match proxy.servers() {
        Ok(_) if proxy.is_router() => ("active", None),
        Ok(_) => ("pooler", None),
        Err(_) => ("standby", proxy.waits_for()),
    };
    let routing = proxy.followed();
    let epoch = routing.as_ref().map(|it| it.replicas.replication().epoch());
    let of_manager = routing.map(|routing| {
        let mut manager = routing.manager();
        let oldest = manager.oldest_pending(pending_age::now());
        (
            manager.index_bytes_max() as u64,
            manager.pending_count() as u64,
            oldest.map(|age| age.as_secs()),
        )
    });
    let (bytes, pending) = of_manager.map(|it| (it.0, it.1)).unzip();
    let oldest = of_manager.and_then(|it| it.2);
    vec![
        ConsoleValue::text(standing),
        waits_for.map_or(ConsoleValue::Null, ConsoleValue::text),
        epoch.map_or(ConsoleValue::Null, ConsoleValue::count),
        bytes.map_or(ConsoleValue::Null, ConsoleValue::count),
        ConsoleValue::count(proxy.reads_waiting() as u64),
        pending.map_or(ConsoleValue::Null, ConsoleValue::count),
        oldest.map_or(ConsoleValue::Null, ConsoleValue::count),
    ]
}

/// Returns a server's name, for people.
pub fn name(server: RouteTarget) -> String {
    match server {
        None => "primary".into(),
        Some(ReplicaId(number)) => format!("replica {number}"),
    }
}

/// Returns a state's name for people.
fn state_name(state: ReplicaState) -> &'static str {
    match state {
        ReplicaState::Unavailable => "unavailable",
        ReplicaState::Serving => "serving",
        ReplicaState::Quarantined => "failed",
    }
}

fn replicas(routing: &Routing) -> Vec<Vec<ConsoleValue>> {
    let nodes = routing.replicas.all();
    let status = routing.replicas.replication().status();
    let compared = routing.replicas.replication().compared();
    let manager = routing.manager();
    let known = manager.replicas();
    let rows = known.filter_map(|(id, replica)| {
        let address = &nodes.get(&id)?.address;
        let status = status.get(&id).cloned().unwrap_or_default();
        let share = status.progress.map(|progress| progress.share);
        let left = status.progress.and_then(|progress| progress.left);
        Some(vec![
            ConsoleValue::count(id.0.into()),
            ConsoleValue::text(address),
            ConsoleValue::text(&address.database),
            ConsoleValue::text(state_name(replica.state)),
            ConsoleValue::text(status.text),
            share.map_or(ConsoleValue::Null, ConsoleValue::Real),
            left.map_or(ConsoleValue::Null, |left| {
                ConsoleValue::count(left.as_secs())
            }),
            ConsoleValue::count(replica.running),
            ConsoleValue::count(replica.served),
            ConsoleValue::count(compared.get(&id).copied().unwrap_or(0)),
        ])
    });
    rows.collect()
}

fn lag(routing: &Routing) -> Vec<Vec<ConsoleValue>> {
    let durable = routing.replicas.replication().durable();
    let manager = routing.manager();
    let latest = manager.latest();
    let rows = manager.replicas().map(|(id, replica)| {
        vec![
            ConsoleValue::count(id.0.into()),
            ConsoleValue::text(latest),
            ConsoleValue::text(replica.applied),
            durable
                .get(&id)
                .map_or(ConsoleValue::Null, ConsoleValue::text),
            ConsoleValue::count(latest.0.saturating_sub(replica.applied.0)),
        ]
    });
    rows.collect()
}

fn buffer(routing: &Routing) -> Vec<Vec<ConsoleValue>> {
    let standing = routing.replicas.replication().buffer();
    let row = |it: BufferStatus| {
        let (from, until) = it.covered.unzip();
        vec![
            ConsoleValue::text(it.text),
            from.map_or(ConsoleValue::Null, ConsoleValue::text),
            until.map_or(ConsoleValue::Null, ConsoleValue::text),
            ConsoleValue::count(it.pages),
            ConsoleValue::count(it.length),
            ConsoleValue::count(it.length_max),
        ]
    };
    standing.into_iter().map(row).collect()
}

fn routes(proxy: &Proxy) -> Vec<Vec<ConsoleValue>> {
    let row = |((server, why), batches)| {
        vec![
            ConsoleValue::text(name(server)),
            ConsoleValue::text(why),
            ConsoleValue::count(batches),
        ]
    };
    proxy.visitors().routes().into_iter().map(row).collect()
}

fn pools(proxy: &Proxy) -> Vec<Vec<ConsoleValue>> {
    let row = |(server, node): (RouteTarget, Arc<ServerNode>)| {
        let usage = node.usage();
        vec![
            ConsoleValue::text(name(server)),
            ConsoleValue::text(&node.address),
            ConsoleValue::count(usage.open as u64),
            ConsoleValue::count(usage.in_use as u64),
            ConsoleValue::count(usage.idle as u64),
            ConsoleValue::count(usage.max as u64),
        ]
    };
    proxy.nodes().into_iter().map(row).collect()
}

fn clients(proxy: &Proxy) -> Vec<Vec<ConsoleValue>> {
    let all = proxy.visitors().all();
    let rows = all.into_iter().map(|(number, client)| {
        let server = *client.server.lock().unwrap_or_else(PoisonError::into_inner);
        vec![
            ConsoleValue::count(number),
            ConsoleValue::text(&client.user),
            ConsoleValue::text(&client.database),
            client
                .address
                .map_or(ConsoleValue::Null, ConsoleValue::text),
            ConsoleValue::count(client.since.elapsed().as_secs()),
            ConsoleValue::count(client.batches.load(Ordering::Relaxed)),
            server.map_or(ConsoleValue::Null, |server| {
                ConsoleValue::text(name(server))
            }),
        ]
    });
    rows.collect()
}
