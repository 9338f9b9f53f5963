//! `replex admin coordinator`: shows the leader, the standbys and where the state is stored. Also
//! moves the state.

use protocol::message::Leadership;
use replex::failure::CommandFailure;
use replex::wire::FrameConnection;
use serde_json::{Value, json};
use server::coordinator::migrate::{to_etcd, to_file};
use server::options::EtcdOptions;

use super::AdminReport;
use crate::arguments::{ClusterArguments, MigrateArguments, StatePlace};
use crate::output::Screen;

/// Returns all coordinators: the given ones, and others that these know of.
pub async fn show(
    cluster: &ClusterArguments,
    screen: Screen,
) -> Result<AdminReport, CommandFailure> {
    let mut answers_by_address: Vec<(String, Result<Leadership, String>)> = Vec::new();
    let mut to_ask = cluster.coordinator.clone();
    while let Some(address) = to_ask.pop() {
        if answers_by_address
            .iter()
            .any(|(known, _)| *known == address)
        {
            continue;
        }
        let answer = ask(&address).await.map_err(|error| error.to_string());
        if let Ok(leadership) = &answer {
            to_ask.extend(leadership.standbys.iter().cloned());
            to_ask.extend(leadership.leader.clone());
        }
        answers_by_address.push((address, answer));
    }
    answers_by_address.sort_by(|left, right| left.0.cmp(&right.0));
    if answers_by_address.iter().all(|(_, answer)| answer.is_err()) {
        let failures = answers_by_address.iter().filter_map(|(address, answer)| {
            let error = answer.as_ref().err()?;
            Some(format!("\n  {address}: {error}"))
        });
        let failures: String = failures.collect();
        return Err(CommandFailure::Unreachable(format!(
            "no coordinator answers:{failures}"
        )));
    }
    Ok(report(&answers_by_address, screen))
}

async fn ask(address: &str) -> std::io::Result<Leadership> {
    FrameConnection::open(address).await?.find_leader().await
}

fn report(
    answers_by_address: &[(String, Result<Leadership, String>)],
    screen: Screen,
) -> AdminReport {
    let answers = || {
        answers_by_address
            .iter()
            .filter_map(|(_, answer)| answer.as_ref().ok())
    };
    let leader = answers_by_address.iter().find_map(|(address, answer)| {
        let leads = answer.as_ref().is_ok_and(|leadership| leadership.leads);
        leads.then(|| address.clone())
    });
    let leading = answers().find(|leadership| leadership.leads);
    let kept_in = leading.or(answers().next()).map(|it| it.kept_in.clone());
    let kept_in = kept_in.expect("one has answered");
    let states: Vec<(&String, String)> = answers_by_address
        .iter()
        .map(|(address, answer)| {
            let state = match answer {
                Ok(leadership) if leadership.leads => "leads".to_owned(),
                Ok(_) => "stands by".to_owned(),
                Err(error) => format!("silent: {error}"),
            };
            (address, state)
        })
        .collect();
    let rows: Vec<Vec<String>> = states
        .iter()
        .map(|(address, state)| vec![(*address).clone(), state.clone()])
        .collect();
    let mut text = format!("the state is in {kept_in}\n");
    text += &screen.table(&["coordinator", "state"], &rows);
    if leader.is_none() {
        text += "No coordinator leads: reads and writes go on, and nothing can be reconfigured. See the \
                 logs of the coordinators, and whether the place of the state is there.\n";
    }
    let coordinators: Vec<Value> = states
        .iter()
        .map(|(address, state)| json!({ "address": address, "state": state }))
        .collect();
    AdminReport {
        text,
        is_sound: leader.is_some(),
        json: json!({
            "leader": leader,
            "kept_in": kept_in,
            "coordinators": coordinators,
        }),
    }
}

/// Moves the state.
pub fn migrate(arguments: &MigrateArguments) -> Result<AdminReport, CommandFailure> {
    let etcd = EtcdOptions {
        urls: arguments.etcd.clone(),
        prefix: arguments.etcd_prefix.clone(),
    };
    let moved = match arguments.to {
        StatePlace::Etcd => to_etcd(&arguments.data, &etcd),
        StatePlace::File => to_file(&etcd, &arguments.data),
    };
    let moved = moved.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let cluster = format!("{:016x}", moved.cluster);
    Ok(AdminReport {
        text: format!(
            "The state of cluster {cluster}, epoch {}, has moved from {} to {}: start the \
             coordinators there.\n",
            moved.epoch, moved.from, moved.to
        ),
        json: json!({
            "cluster": cluster,
            "epoch": moved.epoch,
            "from": moved.from,
            "to": moved.to,
        }),
        is_sound: true,
    })
}
