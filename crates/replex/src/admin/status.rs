//! `replex admin status` and `replex admin server list`.

use protocol::configuration::{Configuration, Place, Server, ServerState};
use protocol::identity::{CoreId, ServerId};
use replex::failure::Failure;
use replex::inspect;
use serde_json::{Map, Value, json};

use super::Report;
use super::source;
use crate::arguments::Cluster;
use crate::front::connect;
use crate::output::{Screen, count};

/// Counters that people see, with the column's name; programs see all.
const SHOWN: &[(&str, &str)] = &[
    ("clients", "#clients"),
    ("requests", "#writes"),
    ("reads", "#reads"),
    ("undecided", "#undecided"),
    ("malformed", "#malformed"),
];

/// The cluster at a glance.
pub async fn status(cluster: &Cluster, screen: Screen) -> Result<Report, Failure> {
    let (address, configuration) = source::configuration(cluster).await?;
    let mut header = vec!["server", "core", "address", "state", "#partitions"];
    header.extend(SHOWN.iter().map(|(_, name)| *name));
    let mut rows = Vec::new();
    let mut cores = Vec::new();
    let mut is_sound = true;
    for server in &configuration.servers {
        for (number, core_address) in server.cores.iter().enumerate() {
            let core = CoreId {
                server: server.id,
                core: u16::try_from(number).expect("a configuration was checked"),
            };
            let counters = inspect::counters(core_address).await;
            let state = state(server, &counters);
            is_sound &= state == "serving";
            let held = partitions_of(&configuration, |place| place == core);
            let mut row = vec![
                server.id.0.to_string(),
                number.to_string(),
                core_address.clone(),
                state.clone(),
                count(held),
            ];
            let counters = counters.unwrap_or_default();
            row.extend(SHOWN.iter().map(|(name, _)| {
                let found = counters.iter().find(|(known, _)| known == name);
                found.map_or_else(|| "–".to_owned(), |(_, value)| count(*value))
            }));
            rows.push(row);
            let counters = counters.into_iter();
            let counters: Map<String, Value> = counters.map(|(k, v)| (k, v.into())).collect();
            cores.push(json!({
                "server": server.id.0, "core": number, "address": core_address,
                "state": state, "partitions": held, "counters": counters,
            }));
        }
    }
    let tables = configuration.tables.iter();
    let tables: Vec<&str> = tables.map(|table| table.schema.name.as_str()).collect();
    let mut text = format!(
        "cluster {:016x}, epoch {}, coordinator {address}\n",
        configuration.cluster, configuration.epoch.0
    );
    text += &match tables[..] {
        [] => "no tables\n".to_owned(),
        _ => format!("tables: {}\n", tables.join(", ")),
    };
    text += &screen.table(&header, &rows);
    let (filling, fills) = fills(cluster, &configuration, screen).await?;
    text += &filling;
    if !is_sound {
        text += "A core that does not serve is waited for by writes to the rows that it holds, \
                 and by reads of its copy: start its server again.\n";
    }
    let json = json!({
        "cluster": format!("{:016x}", configuration.cluster),
        "epoch": configuration.epoch.0,
        "coordinator": address,
        "tables": tables,
        "cores": cores,
        "fills": fills,
    });
    Ok(Report {
        text,
        json,
        is_sound,
    })
}

/// How far partitions are that are being filled, and copies that could not be made.
async fn fills(
    cluster: &Cluster,
    configuration: &Configuration,
    screen: Screen,
) -> Result<(String, Vec<Value>), Failure> {
    let client = connect(cluster).await?;
    let told = client.fills().await;
    let told = told.map_err(|error| Failure::Failed(error.to_string()))?;
    let mut rows = Vec::new();
    let mut fills = Vec::new();
    for fill in &told.fills {
        let Some(table) = configuration.table(fill.table) else {
            continue;
        };
        let replex = table.layout.replexes.get(usize::from(fill.replex));
        let copy = replex.map_or("", |replex| &replex.name);
        let name = &table.schema.name;
        rows.push(vec![
            name.clone(),
            copy.to_owned(),
            count(fill.partitions),
            format!("{}%", fill.percent()),
            count(fill.rows),
            count(fill.of_rows),
        ]);
        fills.push(json!({
            "table": name, "copy": copy, "partitions": fill.partitions,
            "percent": fill.percent(), "rows": fill.rows, "of_rows": fill.of_rows,
        }));
    }
    let header = [
        "filling",
        "copy",
        "#partitions",
        "#done",
        "#rows",
        "#of about",
    ];
    let mut text = match rows.is_empty() {
        true => String::new(),
        false => screen.table(&header, &rows),
    };
    for failure in &told.failures {
        if let Some(table) = configuration.table(failure.table) {
            let name = &table.schema.name;
            text += &format!(
                "{} of {name} could not be made: {}\n",
                failure.name, failure.why
            );
        }
    }
    Ok((text, fills))
}

/// What a core does, from what the coordinator holds of its server and what it says itself.
fn state(server: &Server, counters: &std::io::Result<Vec<(String, u64)>>) -> String {
    match (server.state, counters) {
        (_, Err(error)) if server.state == ServerState::Up => format!("silent: {error}"),
        (ServerState::Down, _) => "down".to_owned(),
        (ServerState::Up, counters) => {
            let counters = counters.as_deref().unwrap_or_default();
            let recovering = counters.iter().any(|(k, v)| k == "recovering" && *v != 0);
            if recovering { "recovering" } else { "serving" }.to_owned()
        }
    }
}

/// Takes a server's partitions from it.
pub async fn remove(cluster: &Cluster, server: u32) -> Result<Report, Failure> {
    let client = connect(cluster).await?;
    let removed = client.remove_server(ServerId(server)).await;
    removed.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(Report {
        text: format!(
            "Others rebuild what server {server} held: `replex admin table show` tells when a \
             table survives again what it states.\n"
        ),
        json: json!({ "removed": server }),
        is_sound: true,
    })
}

/// All servers, as the coordinator knows them.
pub async fn servers(cluster: &Cluster, screen: Screen) -> Result<Report, Failure> {
    let (_, configuration) = source::configuration(cluster).await?;
    let header = [
        "server",
        "state",
        "failure domain",
        "#started",
        "#partitions",
        "#moving in",
        "#moving out",
        "cores",
    ];
    let mut rows = Vec::new();
    let mut servers = Vec::new();
    for server in &configuration.servers {
        let state = match (server.state, server.is_draining) {
            (ServerState::Up, false) => "up",
            (ServerState::Up, true) => "draining",
            (ServerState::Down, _) => "down",
        };
        let is_here = |core: Option<CoreId>| core.is_some_and(|core| core.server == server.id);
        let moving = |counts: &dyn Fn(&Place) -> bool| {
            let places = configuration.places();
            places.filter(|(_, place)| counts(place)).count() as u64
        };
        let moving_in = moving(&|place| is_here(place.taker()));
        let moving_out = moving(&|place| is_here(place.giver()));
        let ServerId(id) = server.id;
        let held = partitions_of(&configuration, |core| core.server == server.id);
        rows.push(vec![
            id.to_string(),
            state.to_owned(),
            server.domain.clone(),
            count(server.incarnation.0),
            count(held),
            count(moving_in),
            count(moving_out),
            server.cores.join(", "),
        ]);
        servers.push(json!({
            "server": id, "state": state, "domain": server.domain,
            "incarnation": server.incarnation.0, "partitions": held, "moving_in": moving_in,
            "moving_out": moving_out, "cores": server.cores,
        }));
    }
    let text = if rows.is_empty() {
        "There are no servers yet: start some with `replex server --data FOLDER`.\n".to_owned()
    } else {
        screen.table(&header, &rows)
    };
    let is_sound = true;
    Ok(Report {
        text,
        json: Value::Array(servers),
        is_sound,
    })
}

/// How many partitions are on cores that `counts` accepts.
fn partitions_of(configuration: &Configuration, counts: impl Fn(CoreId) -> bool) -> u64 {
    let tables = configuration.tables.iter();
    let places = tables.flat_map(|table| table.placement.iter().flatten());
    places.filter(|place| counts(place.core)).count() as u64
}
