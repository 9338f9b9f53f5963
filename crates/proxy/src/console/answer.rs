//! What the console's commands give and do.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::command::{Command, HELP, Subject};
use super::table::{Columns, Type, Value};
use crate::serve::clients::Where;
use crate::serve::routing::Routing;
use crate::serve::{Proxy, pending_age};
use pg_wire::report::{Report, Severity};
use proxy_core::freshness::{ReplicaId, State};
use proxy_pool::Node;
use replication::buffer::Standing;
use replication::{Checkpoint, Error};

/// SQLSTATEs.
const INVALID_VALUE: &str = "22023";
const UNKNOWN_OBJECT: &str = "42704";
const NOT_READY: &str = "55000";
const SUCCESS: &str = "00000";

/// A command's answer.
pub struct Answer {
    /// None if it gives no rows.
    pub columns: Option<Columns>,
    /// A value for each column.
    pub rows: Vec<Vec<Value>>,
    /// What was done, in a word or two.
    pub tag: String,
    /// What the operator should know.
    pub notice: Option<Report>,
}

const REPLICAS: Columns = &[
    ("replica", Type::Number),
    ("address", Type::Text),
    ("database", Type::Text),
    ("state", Type::Text),
    ("doing", Type::Text),
    ("share_done", Type::Real),
    ("seconds_left", Type::Number),
    ("reads_running", Type::Number),
    ("reads_served", Type::Number),
    ("times_compared", Type::Number),
];
const ROUTES: Columns = &[
    ("server", Type::Text),
    ("why", Type::Text),
    ("batches", Type::Number),
];
const LAG: Columns = &[
    ("replica", Type::Number),
    ("primary_at", Type::Text),
    ("applied", Type::Text),
    ("on_disk", Type::Text),
    ("bytes_behind", Type::Number),
];
const BUFFER: Columns = &[
    ("doing", Type::Text),
    ("has_from", Type::Text),
    ("has_until", Type::Text),
    ("pages", Type::Number),
    ("bytes", Type::Number),
    ("bytes_max", Type::Number),
];
const POOLS: Columns = &[
    ("server", Type::Text),
    ("address", Type::Text),
    ("connections", Type::Number),
    ("in_use", Type::Number),
    ("idle", Type::Number),
    ("connections_max", Type::Number),
];
const CLIENTS: Columns = &[
    ("client", Type::Number),
    ("user", Type::Text),
    ("database", Type::Text),
    ("address", Type::Text),
    ("seconds", Type::Number),
    ("batches", Type::Number),
    ("server", Type::Text),
];
const PROXY: Columns = &[
    ("standing", Type::Text),
    ("waits_for", Type::Text),
    ("epoch", Type::Number),
    ("index_bytes_max", Type::Number),
    ("reads_waiting", Type::Number),
    ("commits_pending", Type::Number),
    ("oldest_pending_seconds", Type::Number),
];
const HELP_COLUMNS: Columns = &[("command", Type::Text), ("meaning", Type::Text)];
const ADDED: Columns = &[("replica", Type::Number)];

/// The columns that a command gives, if any.
pub fn columns(command: &Command) -> Option<Columns> {
    match command {
        Command::Show(Subject::Replicas) => Some(REPLICAS),
        Command::Show(Subject::Routes) => Some(ROUTES),
        // Also what a checkpoint leaves.
        Command::Show(Subject::Lag) | Command::Checkpoint => Some(LAG),
        Command::Show(Subject::Buffer) => Some(BUFFER),
        Command::Show(Subject::Pools) => Some(POOLS),
        Command::Show(Subject::Clients) => Some(CLIENTS),
        Command::Show(Subject::Proxy) => Some(PROXY),
        Command::Show(Subject::Help) => Some(HELP_COLUMNS),
        Command::Add { .. } => Some(ADDED),
        Command::Remove(_) | Command::Reload | Command::Ignored(_) => None,
    }
}

/// Does what a command says.
pub async fn to(proxy: &Proxy, command: Command) -> Result<Answer, Report> {
    let columns = columns(&command);
    let mut notice = None;
    let (rows, tag) = match command {
        Command::Show(subject) => (shown(proxy, subject), "SHOW"),
        Command::Add {
            url,
            contents,
            seed,
        } => {
            let replicas = &followed(proxy)?.replicas;
            let added = replicas.register(&url, contents, seed).await;
            let row = vec![Value::count(added.map_err(refused)?.0.into())];
            (vec![row], "ADD REPLICA")
        }
        Command::Remove(id) => {
            notice = remove(proxy, id).await?;
            (Vec::new(), "REMOVE REPLICA")
        }
        Command::Checkpoint => {
            let routing = followed(proxy)?;
            let made = routing.replicas.replication().checkpoint().await;
            let Checkpoint { at, without } = made.map_err(refused)?;
            let text = format!("not there, and not waited for: {}", without.join(", "));
            let report = Report::new(Severity::Notice, SUCCESS, text);
            let hint = format!("What is committed up to {at} is on disk at all others.");
            notice = (!without.is_empty()).then(|| report.hint(hint));
            (lag(&routing), "CHECKPOINT")
        }
        Command::Reload => {
            let refused = |text: String| {
                Report::new(Severity::Error, INVALID_VALUE, text)
                    .hint("What was in force before still is.")
            };
            proxy.reload().await.map_err(refused)?;
            (Vec::new(), "RELOAD")
        }
        Command::Ignored(tag) => (Vec::new(), tag),
    };
    Ok(Answer {
        columns,
        rows,
        tag: tag.to_string(),
        notice,
    })
}

/// Lets go of a replica. Gives what the operator should know of that.
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

/// Why it is not done.
fn refused(problem: Error) -> Report {
    let code = match problem {
        Error::Connection(_) | Error::Stream(_) => NOT_READY,
        Error::Differs(_) | Error::Setup(_) => INVALID_VALUE,
    };
    Report::new(Severity::Error, code, problem.to_string())
}

fn followed(proxy: &Proxy) -> Result<Arc<Routing>, Report> {
    if proxy.is_router() {
        // What it says to clients that it refuses is true here, too.
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

fn shown(proxy: &Proxy, subject: Subject) -> Vec<Vec<Value>> {
    let of_routing = |rows: fn(&Routing) -> Vec<Vec<Value>>| {
        let routing = proxy.followed();
        routing.map(|routing| rows(&routing)).unwrap_or_default()
    };
    match subject {
        Subject::Replicas => of_routing(replicas),
        Subject::Lag => of_routing(lag),
        Subject::Buffer => of_routing(buffer),
        Subject::Routes => routes(proxy),
        Subject::Pools => pools(proxy),
        Subject::Clients => clients(proxy),
        Subject::Proxy => vec![standing(proxy)],
        Subject::Help => {
            let row = |(command, meaning): &(&str, &str)| {
                vec![Value::text(command), Value::text(meaning)]
            };
            HELP.iter().map(row).collect()
        }
    }
}

fn standing(proxy: &Proxy) -> Vec<Value> {
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
        Value::text(standing),
        waits_for.map_or(Value::Null, Value::text),
        epoch.map_or(Value::Null, Value::count),
        bytes.map_or(Value::Null, Value::count),
        Value::count(proxy.reads_waiting() as u64),
        pending.map_or(Value::Null, Value::count),
        oldest.map_or(Value::Null, Value::count),
    ]
}

/// A server's name for people.
pub fn name(server: Where) -> String {
    match server {
        None => "primary".into(),
        Some(ReplicaId(number)) => format!("replica {number}"),
    }
}

/// A state's name for people.
fn state_name(state: State) -> &'static str {
    match state {
        State::Away => "away",
        State::Serving => "serving",
        State::Quarantined => "failed",
    }
}

fn replicas(routing: &Routing) -> Vec<Vec<Value>> {
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
            Value::count(id.0.into()),
            Value::text(address),
            Value::text(&address.database),
            Value::text(state_name(replica.state)),
            Value::text(status.text),
            share.map_or(Value::Null, Value::Real),
            left.map_or(Value::Null, |left| Value::count(left.as_secs())),
            Value::count(replica.running),
            Value::count(replica.served),
            Value::count(compared.get(&id).copied().unwrap_or(0)),
        ])
    });
    rows.collect()
}

fn lag(routing: &Routing) -> Vec<Vec<Value>> {
    let durable = routing.replicas.replication().durable();
    let manager = routing.manager();
    let latest = manager.latest();
    let rows = manager.replicas().map(|(id, replica)| {
        vec![
            Value::count(id.0.into()),
            Value::text(latest),
            Value::text(replica.applied),
            durable.get(&id).map_or(Value::Null, Value::text),
            Value::count(latest.0.saturating_sub(replica.applied.0)),
        ]
    });
    rows.collect()
}

fn buffer(routing: &Routing) -> Vec<Vec<Value>> {
    let standing = routing.replicas.replication().buffer();
    let row = |it: Standing| {
        let (from, until) = it.covered.unzip();
        vec![
            Value::text(it.text),
            from.map_or(Value::Null, Value::text),
            until.map_or(Value::Null, Value::text),
            Value::count(it.pages),
            Value::count(it.length),
            Value::count(it.length_max),
        ]
    };
    standing.into_iter().map(row).collect()
}

fn routes(proxy: &Proxy) -> Vec<Vec<Value>> {
    let row = |((server, why), batches)| {
        vec![
            Value::text(name(server)),
            Value::text(why),
            Value::count(batches),
        ]
    };
    proxy.visitors().routes().into_iter().map(row).collect()
}

fn pools(proxy: &Proxy) -> Vec<Vec<Value>> {
    let row = |(server, node): (Where, Arc<Node>)| {
        let usage = node.usage();
        vec![
            Value::text(name(server)),
            Value::text(&node.address),
            Value::count(usage.open as u64),
            Value::count(usage.in_use as u64),
            Value::count(usage.idle as u64),
            Value::count(usage.max as u64),
        ]
    };
    proxy.nodes().into_iter().map(row).collect()
}

fn clients(proxy: &Proxy) -> Vec<Vec<Value>> {
    let all = proxy.visitors().all();
    let rows = all.into_iter().map(|(number, client)| {
        let server = *client.server.lock().unwrap_or_else(PoisonError::into_inner);
        vec![
            Value::count(number),
            Value::text(&client.user),
            Value::text(&client.database),
            client.address.map_or(Value::Null, Value::text),
            Value::count(client.since.elapsed().as_secs()),
            Value::count(client.batches.load(Ordering::Relaxed)),
            server.map_or(Value::Null, |server| Value::text(name(server))),
        ]
    });
    rows.collect()
}
