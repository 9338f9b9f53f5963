//! `replex admin status` and `replex admin server list`: print the state of the cluster and of its
//! servers.

use protocol::configuration::{Configuration, Place, Server, ServerState};
use protocol::identity::{CoreId, ServerId};
use protocol::message::{Room, Shortage};
use replex::failure::CommandFailure;
use replex::inspect;
use serde_json::{Map, Value, json};

use super::AdminReport;
use super::source;
use crate::arguments::ClusterArguments;
use crate::output::{Screen, count};
use crate::sql_command::connect;

/// Counters that people see, with the column's name; programs see all.
const SHOWN: &[(&str, &str)] = &[
    ("clients", "#clients"),
    ("requests", "#writes"),
    ("reads", "#reads"),
    ("undecided", "#undecided"),
    ("malformed", "#malformed"),
];

/// Returns the cluster at a glance.
pub async fn status(
    cluster: &ClusterArguments,
    screen: Screen,
) -> Result<AdminReport, CommandFailure> {
    let (address, configuration) = source::configuration(cluster).await?;
    let mut header = vec!["server", "core", "address", "state", "#partitions"];
    header.extend(SHOWN.iter().map(|(_, name)| *name));
    let mut rows = Vec::new();
    let mut cores = Vec::new();
    let (mut waited_for, mut idle) = (Vec::new(), Vec::new());
    let mut is_sound = true;
    for server in &configuration.servers {
        for (number, core_address) in server.cores.iter().enumerate() {
            let core = CoreId {
                server: server.id,
                core: u16::try_from(number).expect("a configuration was checked"),
            };
            let counters = inspect::counters(core_address).await;
            let state = state(server, &counters);
            let held = partitions_of(&configuration, |place| place == core);
            match held {
                // It serves, but not every write: shortages are listed below.
                _ if state == "serving" || state == "disk full" => {}
                0 => idle.push(server.id.0),
                _ => waited_for.push(server.id.0),
            }
            is_sound &= state == "serving";
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
            let counters = counters.into_iter().map(|(key, value)| (key, value.into()));
            cores.push(json!({
                "server": server.id.0, "core": number, "address": core_address,
                "state": state, "partitions": held, "counters": Map::from_iter(counters),
            }));
        }
    }
    let (tables, mut text) = heading(&configuration, &address);
    text += &screen.table(&header, &rows);
    let short = short_tables(&configuration);
    is_sound &= short.is_empty();
    text += &short;
    let (filling, fills) = fills(cluster, &configuration, screen).await?;
    text += &filling;
    text += &advice(waited_for, idle);
    let json = json!({
        "cluster": format!("{:016x}", configuration.cluster),
        "epoch": configuration.epoch.0,
        "coordinator": address,
        "tables": tables,
        "cores": cores,
        "fills": fills,
    });
    Ok(AdminReport {
        text,
        json,
        is_sound,
    })
}

/// Returns the advice about servers with cores that do not serve: servers that hold partitions, and
/// others.
fn advice(mut waited_for: Vec<u32>, mut idle: Vec<u32>) -> String {
    waited_for.dedup();
    idle.dedup();
    idle.retain(|server| !waited_for.contains(server));
    let list = |ids: &[u32]| {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        ids.join(", ")
    };
    let mut text = String::new();
    if !waited_for.is_empty() {
        text += &format!(
            "Writes and reads of rows wait for the partitions of server {}: start it again, or give \
             its partitions to others with `replex admin server remove`.\n",
            list(&waited_for)
        );
    }
    if !idle.is_empty() {
        text += &format!(
            "Server {} does not serve and holds no partitions, so nothing waits for it: start it \
             again to let it hold some.\n",
            list(&idle)
        );
    }
    text
}

/// Returns the names of all tables that are no sequences, and the first lines of the status.
fn heading<'a>(configuration: &'a Configuration, address: &str) -> (Vec<&'a str>, String) {
    let tables = configuration.tables.iter();
    let tables = tables.filter(|table| table.schema.sequence.is_none());
    let tables: Vec<&str> = tables.map(|table| table.schema.name.as_str()).collect();
    let mut text = format!(
        "cluster {:016x}, epoch {}, coordinator {address}\n",
        configuration.cluster, configuration.epoch.0
    );
    text += &match tables[..] {
        [] => "no tables\n".to_owned(),
        _ => format!("tables: {}\n", tables.join(", ")),
    };
    (tables, text)
}

/// Returns tables that survive less now than they ask for, a line each.
fn short_tables(configuration: &Configuration) -> String {
    let reports = configuration.tables.iter();
    let reports = reports.map(|table| configuration.report(table));
    let short = reports.filter(|report| !report.holds_now());
    let line = |report: placement::TableReport| {
        let (name, asked) = (&report.table, report.failures_tolerated);
        format!(
            "table {name}: {asked} failures asked for, {}\n",
            report.survival()
        )
    };
    short.map(line).collect()
}

/// Returns the progress of the partitions that are being filled, and the copies that could not be
/// made.
async fn fills(
    cluster: &ClusterArguments,
    configuration: &Configuration,
    screen: Screen,
) -> Result<(String, Vec<Value>), CommandFailure> {
    let client = connect(cluster).await?;
    let report = client.fills().await;
    let report = report.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let mut rows = Vec::new();
    let mut fills = Vec::new();
    for fill in &report.fills {
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
        "#rows read",
        "#of about",
    ];
    let mut text = match rows.is_empty() {
        true => String::new(),
        false => {
            screen.table(&header, &rows)
                + "Rows read: a partition is filled from all partitions of other copies that may \
                   hold its rows, so that one row may be read several times.\n"
        }
    };
    for shortage in &report.without_room {
        text += &(shortage_line(shortage) + "\n");
    }
    for failure in &report.failures {
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

/// Returns a server without room, for people.
fn shortage_line(shortage: &Shortage) -> String {
    let server = shortage.server.0;
    let takes = match shortage.room {
        Room::Full => "takes no writes",
        Room::Free | Room::Reserve => "takes only deletes and updates that make no row longer",
    };
    let what = match &shortage.stays {
        None => "its partitions move to servers with room".to_owned(),
        Some(why) => why.clone(),
    };
    format!("The disk of server {server} is full: it {takes}; {what}.")
}

/// Returns the activity of a core, by the coordinator's entry of its server and by the core's own
/// report.
fn state(server: &Server, counters: &std::io::Result<Vec<(String, u64)>>) -> String {
    match (server.state, counters) {
        (_, Err(error)) if server.state == ServerState::Up => format!("silent: {error}"),
        (ServerState::Down, _) => "down".to_owned(),
        (ServerState::Up, counters) => {
            let counters = counters.as_deref().unwrap_or_default();
            let recovering = counters.iter().any(|(k, v)| k == "recovering" && *v != 0);
            let is_set = |name| counters.iter().any(|(k, v)| k == name && *v != 0);
            match (recovering, is_set("disk_hangs"), is_set("disk_full")) {
                (true, ..) => "recovering",
                (false, true, _) => "disk hangs",
                (false, false, true) => "disk full",
                (false, false, false) => "serving",
            }
            .to_owned()
        }
    }
}

/// Takes a server's partitions from it.
pub async fn remove(
    cluster: &ClusterArguments,
    server: u32,
) -> Result<AdminReport, CommandFailure> {
    let client = connect(cluster).await?;
    let removed = client.remove_server(ServerId(server)).await;
    removed.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    Ok(AdminReport {
        text: format!(
            "Others rebuild the partitions of server {server}: `replex admin table show` shows when a \
             table survives again what it states.\n"
        ),
        json: json!({ "removed": server }),
        is_sound: true,
    })
}

/// Runs `replex admin server accept-folder`.
pub async fn accept_folder(
    cluster: &ClusterArguments,
    server: u32,
) -> Result<AdminReport, CommandFailure> {
    let client = connect(cluster).await?;
    let accepted = client.accept_folder(ServerId(server)).await;
    accepted.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    Ok(AdminReport {
        text: format!(
            "Server {server} may come back with the folder that it has. Run `replex admin check` and \
             `replex admin repair` on each table then: its copies may differ.\n"
        ),
        json: json!({ "accepted": server }),
        is_sound: true,
    })
}

/// Returns all servers, as the coordinator knows them.
pub async fn servers(
    cluster: &ClusterArguments,
    screen: Screen,
) -> Result<AdminReport, CommandFailure> {
    let (_, configuration) = source::configuration(cluster).await?;
    let client = connect(cluster).await?;
    let report = client.fills().await;
    let report = report.map_err(|error| CommandFailure::Failed(error.to_string()))?;
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
        let is_full = report.without_room.iter().any(|it| it.server == server.id);
        let state = match (server.state, server.is_draining, is_full) {
            (ServerState::Up, false, false) if server.is_new => "new",
            (ServerState::Up, false, false) => "up",
            (ServerState::Up, false, true) => "disk full",
            (ServerState::Up, true, _) => "draining",
            (ServerState::Down, ..) => "down",
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
    let mut text = if rows.is_empty() {
        "There are no servers yet: start some with `replex server --data FOLDER`.\n".to_owned()
    } else {
        screen.table(&header, &rows)
    };
    for shortage in &report.without_room {
        text += &(shortage_line(shortage) + "\n");
    }
    let is_sound = report.without_room.is_empty();
    Ok(AdminReport {
        text,
        json: Value::Array(servers),
        is_sound,
    })
}

/// Returns how many partitions are on cores that `counts` accepts.
fn partitions_of(configuration: &Configuration, counts: impl Fn(CoreId) -> bool) -> u64 {
    let places = configuration
        .tables
        .iter()
        .flat_map(|table| table.placement.iter().flatten());
    places.filter(|place| counts(place.core)).count() as u64
}
