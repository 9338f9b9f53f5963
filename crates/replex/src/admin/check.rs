//! `replex admin check` and `replex admin repair`: count and sum every copy of a table, show the
//! rows that differ, and repair them.

use std::collections::BTreeSet;
use std::time::Duration;

use indicatif::ProgressBar;
use replex::compare::CopyDifference;
use replex::compare_snapshot::CopyComparison;
use replex::failure::CommandFailure;
use replex::inspect::{CopySum, InspectError, Inspector, are_equal};
use serde_json::json;

use super::AdminReport;
use crate::arguments::ClusterArguments;
use crate::output::{Screen, checksum, count};

/// The most differing rows that are named.
const NAMED_MAX: usize = 10;

/// Compares all copies.
pub async fn check(
    cluster: &ClusterArguments,
    screen: Screen,
    table: &str,
) -> Result<AdminReport, CommandFailure> {
    let within = Duration::from_secs(cluster.deadline);
    let found = async {
        let inspector = Inspector::new(&cluster.coordinator, within).await?;
        inspector.leaving_out().comparison(table).await
    };
    let CopyComparison {
        copies,
        differences,
    } = found.await.map_err(|error| failure(table, error))?;
    let left_out = left_out(&copies);
    let is_equal = differences.is_empty();
    let is_sound = is_equal && left_out.is_empty();
    let mut text = copies_table(screen, &copies);
    text += &match (is_equal, are_equal(&copies)) {
        (true, false) if !left_out.is_empty() => {
            screen.good("All rows that could be compared are the same") + ", one by one.\n"
        }
        (true, true) => screen.good("All copies hold the same rows.") + "\n",
        (true, false) => {
            screen.good("All copies hold the same rows")
                + ", looked at one by one; without a snapshot sums differ while clients write.\n"
        }
        (false, _) => {
            screen.bad("The copies differ.") + "\n" + &named(&differences) + &advice(table)
        }
    };
    text += &left_out;
    Ok(AdminReport {
        text,
        json: json!({
            "table": table,
            "equal": is_equal,
            "complete": left_out.is_empty(),
            "copies": copies.iter().map(|copy| json!({
                "copy": copy.name, "partitions": copy.partitions, "servers": copy.servers,
                "rows": copy.rows, "checksum": checksum(copy.sum),
                "not_compared": copy.absent.keys().collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "differences": differences.iter().map(|it| json!({
                "key": it.key, "wrong": wrong_copies(it),
            })).collect::<Vec<_>>(),
        }),
        is_sound,
    })
}

/// Has partitions refilled whose rows most copies contradict, or the trusted one does.
pub async fn repair(
    cluster: &ClusterArguments,
    screen: Screen,
    table: &str,
    trust: Option<&str>,
) -> Result<AdminReport, CommandFailure> {
    let within = Duration::from_secs(cluster.deadline);
    let failed = |error| failure(table, error);
    let inspector = Inspector::new(&cluster.coordinator, within).await;
    let mut inspector = inspector.map_err(failed)?.leaving_out();
    if let Some(trust) = trust {
        let copies = inspector.copies(table).map_err(failed)?;
        if !copies.iter().any(|copy| copy == trust) {
            return Err(CommandFailure::Failed(format!(
                "table {table:?} has no copy {trust:?}; it has: {}",
                copies.join(", ")
            )));
        }
    }
    let differences = inspector.differences(table, trust).await.map_err(failed)?;
    let tied: Vec<CopyDifference> = differences
        .iter()
        .filter(|it| it.wrong.is_none())
        .cloned()
        .collect();
    if !tied.is_empty() {
        return Err(CommandFailure::Failed(format!(
            "no version of these rows has a majority:\n{}Name the right copy with --trust COPY.",
            named(&tied)
        )));
    }
    let cells: BTreeSet<(u8, u32)> = differences
        .iter()
        .flat_map(|it| it.wrong.iter().flatten().copied())
        .collect();
    let copies = inspector.sums(table).await.map_err(failed)?;
    let left_out = left_out(&copies);
    let mut text = format!("{} rows differ.\n", count(differences.len() as u64));
    if !cells.is_empty() {
        let progress = ProgressBar::new_spinner();
        let on_progress =
            |open| progress.set_message(format!("{open} partitions are being filled"));
        let renewed = inspector.renew(table, &cells, on_progress).await;
        progress.finish_and_clear();
        renewed.map_err(failed)?;
        text += &format!("{} partitions are refilled.\n", cells.len());
    }
    let left = inspector.differences(table, trust).await.map_err(failed)?;
    let is_equal = left.is_empty();
    let is_sound = is_equal && left_out.is_empty();
    text += &match is_equal {
        true if !left_out.is_empty() => {
            screen.good("All rows that could be compared are the same.") + "\n"
        }
        true => screen.good("All copies hold the same rows.") + "\n",
        false => screen.bad("The copies still differ.") + "\n" + &named(&left),
    };
    text += &left_out;
    let json = json!({
        "table": table, "differences": differences.len(), "partitions": cells.len(),
        "equal": is_equal, "complete": left_out.is_empty(),
    });
    Ok(AdminReport {
        text,
        json,
        is_sound,
    })
}

fn failure(table: &str, error: InspectError) -> CommandFailure {
    match error {
        InspectError::NoTable(_) | InspectError::CopiesChanged => {
            CommandFailure::Failed(format!("table {table:?}: {error}"))
        }
        InspectError::NoCoordinator(_) => CommandFailure::Unreachable(error.to_string()),
        InspectError::Core(_) | InspectError::Absent(_) | InspectError::SnapshotEnded(_) => {
            CommandFailure::Failed(error.to_string())
        }
    }
}

/// Returns the parts that were not compared, a line for each copy; nothing if everything was.
fn left_out(copies: &[CopySum]) -> String {
    let mut text = String::new();
    for copy in copies.iter().filter(|copy| !copy.absent.is_empty()) {
        let mut servers: Vec<u32> = copy.absent.values().copied().collect();
        servers.sort_unstable();
        servers.dedup();
        let servers: Vec<String> = servers.iter().map(u32::to_string).collect();
        text += &format!(
            "Not compared: {} of {} partitions of {}, on servers that are down or fill them: {}\n",
            copy.absent.len(),
            copy.partitions,
            copy.name,
            servers.join(", ")
        );
    }
    if !text.is_empty() {
        text += "Check again when `replex admin status` shows that all of them serve.\n";
    }
    text
}

/// Returns the first differences, a line each.
fn named(differences: &[CopyDifference]) -> String {
    let mut text: String = differences
        .iter()
        .take(NAMED_MAX)
        .map(|it| format!("  {it}\n"))
        .collect();
    if differences.len() > NAMED_MAX {
        let more = differences.len() - NAMED_MAX;
        text += &format!("  and {} more\n", count(more as u64));
    }
    text
}

fn advice(table: &str) -> String {
    format!(
        "`replex admin repair {table}` refills the partitions that most copies contradict. Before that, keep the data \
         folders of all servers and report this.\n"
    )
}

fn wrong_copies(difference: &CopyDifference) -> Option<Vec<[u32; 2]>> {
    let wrong = difference.wrong.as_ref()?;
    let cell = |(replex, number): &(u8, u32)| [u32::from(*replex), *number];
    Some(wrong.iter().map(cell).collect())
}

/// Returns the copies, for people.
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
