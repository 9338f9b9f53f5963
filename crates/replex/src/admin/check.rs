//! `replex admin check`: every copy of a table, counted and summed by itself.

use std::time::Duration;

use replex::failure::Failure;
use replex::inspect::{CopySum, InspectError, Inspector, are_equal};
use serde_json::json;

use super::Report;
use crate::arguments::Cluster;
use crate::output::{Screen, checksum, count};

/// Compares all copies.
pub async fn check(cluster: &Cluster, screen: Screen, table: &str) -> Result<Report, Failure> {
    let within = Duration::from_secs(cluster.deadline);
    let copies = async {
        let mut inspector = Inspector::new(&cluster.coordinator, within).await?;
        inspector.sums(table).await
    };
    let copies = copies.await.map_err(|error| match error {
        InspectError::NoTable(_) => Failure::Failed(format!("table {table:?}: {error}")),
        InspectError::NoCoordinator(_) => Failure::Unreachable(error.to_string()),
        InspectError::Core(_) => Failure::Failed(error.to_string()),
    })?;
    let are_equal = are_equal(&copies);
    let mut text = copies_table(screen, &copies);
    text += &if are_equal {
        screen.good("All copies hold the same rows.")
    } else {
        screen.bad("The copies differ.")
    };
    text += if are_equal {
        "\n"
    } else {
        " If somebody is writing to the table just now, that is why; check again when nobody is. \
         If not, keep the data folders of all servers and report this.\n"
    };
    let json = json!({
        "table": table,
        "equal": are_equal,
        "copies": copies.iter().map(|copy| json!({
            "copy": copy.name, "partitions": copy.partitions, "servers": copy.servers,
            "rows": copy.rows, "checksum": checksum(copy.sum),
        })).collect::<Vec<_>>(),
    });
    Ok(Report {
        text,
        json,
        is_sound: are_equal,
    })
}

/// The copies, for people.
pub fn copies_table(screen: Screen, copies: &[CopySum]) -> String {
    let header = ["copy", "servers", "#partitions", "#rows", "checksum"];
    let rows: Vec<Vec<String>> = copies
        .iter()
        .map(|copy| {
            let servers: Vec<String> = copy.servers.iter().map(u32::to_string).collect();
            vec![
                copy.name.clone(),
                servers.join(", "),
                count(copy.partitions),
                count(copy.rows),
                checksum(copy.sum),
            ]
        })
        .collect();
    screen.table(&header, &rows)
}
