//! Fetches the configuration for `replex admin` from the coordinator itself, so that it is not the
//! cached one of a client.

use protocol::configuration::{Configuration, PlacedTable};
use replex::failure::CommandFailure;
use replex::inspect;

use crate::arguments::ClusterArguments;

/// Returns the newest configuration, of the first coordinator that answers.
pub async fn configuration(
    cluster: &ClusterArguments,
) -> Result<(String, Configuration), CommandFailure> {
    let fetched = inspect::fetch_any(&cluster.coordinator).await;
    fetched.map_err(|failures| {
        CommandFailure::Unreachable(format!(
            "no coordinator answers:{failures}\nStart one with `replex coordinator --data \
             FOLDER`, or name its address with --coordinator HOST:PORT or REPLEX_COORDINATOR."
        ))
    })
}

/// Returns a table by its name.
pub fn table<'a>(
    configuration: &'a Configuration,
    name: &str,
) -> Result<&'a PlacedTable, CommandFailure> {
    configuration.table_named(name).ok_or_else(|| {
        let names = configuration
            .tables
            .iter()
            .map(|it| it.schema.name.as_str());
        let names: Vec<&str> = names.collect();
        let there_are = if names.is_empty() {
            "there are none yet".to_owned()
        } else {
            format!("there are: {}", names.join(", "))
        };
        CommandFailure::Failed(format!("there is no table {name:?}; {there_are}"))
    })
}
