//! `replex admin server drain` and `undrain`: moves all partitions off a running server, or ends
//! that.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use protocol::configuration::Configuration;
use protocol::identity::ServerId;
use replex::failure::CommandFailure;
use serde_json::json;

use super::{AdminReport, source};
use crate::arguments::ClusterArguments;
use crate::sql_command::connect;

/// How often the command checks the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Moves everything off a server.
pub async fn drain(
    cluster: &ClusterArguments,
    server: u32,
    no_wait: bool,
) -> Result<AdminReport, CommandFailure> {
    let id = ServerId(server);
    let client = connect(cluster).await?;
    let begun = client.drain_server(id).await;
    begun.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    let text = if no_wait {
        format!(
            "Server {server} is drained: `replex admin server list` shows how much it still \
             holds.\n"
        )
    } else {
        wait_until_empty(cluster, id).await?;
        format!("Server {server} holds nothing any more: it may be stopped.\n")
    };
    Ok(AdminReport {
        text,
        json: json!({ "server": server, "draining": true, "empty": !no_wait }),
        is_sound: true,
    })
}

/// Waits until a draining server holds no partitions. Shows a progress bar at a terminal.
async fn wait_until_empty(cluster: &ClusterArguments, id: ServerId) -> Result<(), CommandFailure> {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {pos} of {len} partitions");
    let bar = ProgressBar::new(0).with_style(style.expect("the template is well-formed"));
    bar.set_message(format!("draining server {}", id.0));
    loop {
        let (_, configuration) = source::configuration(cluster).await?;
        let draining = configuration.server(id).is_some_and(|it| it.is_draining);
        if !draining {
            let text = format!("server {} is drained no longer: an operator ended it", id.0);
            return Err(CommandFailure::Failed(text));
        }
        let left = held(&configuration, id);
        bar.set_length(bar.length().unwrap_or(0).max(left));
        bar.set_position(bar.length().unwrap_or(0) - left);
        if left == 0 {
            bar.finish_and_clear();
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns partitions that a server holds, or has not handed over wholly.
fn held(configuration: &Configuration, id: ServerId) -> u64 {
    let held = configuration.places().filter(|(_, place)| {
        let mut tenures = place.tenures();
        tenures.any(|tenure| tenure.core.server == id)
    });
    held.count() as u64
}

/// Lets a server hold partitions again.
pub async fn undrain(
    cluster: &ClusterArguments,
    server: u32,
) -> Result<AdminReport, CommandFailure> {
    let client = connect(cluster).await?;
    let ended = client.end_drain(ServerId(server)).await;
    ended.map_err(|error| CommandFailure::Failed(error.to_string()))?;
    Ok(AdminReport {
        text: format!("Server {server} may hold partitions again.\n"),
        json: json!({ "server": server, "draining": false }),
        is_sound: true,
    })
}
