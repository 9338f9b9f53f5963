//! `replex admin check` and `replex admin repair`: count and sum every copy and every thin index of
//! a table, show the rows and entries that differ, and repair them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use indicatif::ProgressBar;
use replex::compare::CopyDifference;
use replex::compare_entries::{EntryComparison, EntryDifference};
use replex::compare_snapshot::CopyComparison;
use replex::failure::CommandFailure;
use replex::inspect::{CopySum, InspectError, Inspector, are_equal};
use serde_json::json;

use super::AdminReport;
use crate::arguments::ClusterArguments;
use crate::output::{Screen, checksum, count};

/// The most differing rows that are named.
const NAMED_MAX: usize = 10;

/// Compares all copies, and the thin indexes with the rows.
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
        indexes,
    } = found.await.map_err(|error| failure(table, error))?;
    let entries: Vec<&EntryDifference> = entry_differences(&indexes).collect();
    let left_out = left_out(&copies, &indexes);
    let is_equal = differences.is_empty();
    let is_sound = is_equal && entries.is_empty() && left_out.is_empty();
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
        (false, _) => screen.bad("The copies differ.") + "\n" + &named(&differences),
    };
    if !indexes.is_empty() {
        text += &indexes_table(screen, &indexes);
        text += &entries_verdict(screen, &entries);
    }
    if !(is_equal && entries.is_empty()) {
        text += &advice(table);
    }
    text += &left_out;
    Ok(AdminReport {
        text,
        json: json!({
            "table": table,
            "equal": is_equal && entries.is_empty(),
            "complete": left_out.is_empty(),
            "copies": copies.iter().map(|copy| json!({
                "copy": copy.name, "partitions": copy.partitions, "servers": copy.servers,
                "rows": copy.rows, "checksum": checksum(copy.sum),
                "not_compared": copy.absent.keys().collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
            "differences": differences.iter().map(|it| json!({
                "key": it.key, "wrong": wrong_copies(it),
            })).collect::<Vec<_>>(),
            "indexes": indexes.iter().map(|EntryComparison { entries, differences, .. }| json!({
                "index": entries.name, "partitions": entries.partitions,
                "servers": entries.servers, "entries": entries.rows,
                "not_compared": entries.absent.keys().collect::<Vec<_>>(),
                "differences": differences.iter().map(|it| json!({
                    "key": it.key,
                    "wanted": it.wanted.as_ref().map(|(_, entry)| entry),
                    "found": it.found.iter().map(|(_, entry)| entry).collect::<Vec<_>>(),
                    "wrong": it.wrong,
                })).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
        is_sound,
    })
}

/// Has partitions refilled whose rows most copies contradict, or the trusted one does. Then has
/// partitions of thin indexes refilled whose entries the rows contradict.
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
        check_trusted(&inspector, table, trust)?;
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
    let mut text = format!("{} rows differ.\n", count(differences.len() as u64));
    text += &refill(&mut inspector, table, &cells).await?;
    let left = inspector.differences(table, trust).await.map_err(failed)?;
    let entries = match left.is_empty() {
        true => repair_entries(&mut inspector, table).await?,
        // They would be refilled from rows that may be wrong.
        false => RepairedEntries::default(),
    };
    let left_out = left_out(&copies, &entries.indexes);
    let is_equal = left.is_empty() && entry_differences(&entries.indexes).next().is_none();
    let is_sound = is_equal && left_out.is_empty();
    text += &entries.text;
    text += &match left.is_empty() {
        true if !left_out.is_empty() => {
            screen.good("All rows that could be compared are the same.") + "\n"
        }
        true => screen.good("All copies hold the same rows.") + "\n",
        false => {
            let named = named(&left);
            screen.bad("The copies still differ.") + " Entries are not repaired before.\n" + &named
        }
    };
    if !entries.indexes.is_empty() {
        let left: Vec<&EntryDifference> = entry_differences(&entries.indexes).collect();
        text += &entries_verdict(screen, &left);
    }
    text += &left_out;
    let json = json!({
        "table": table, "differences": differences.len(), "partitions": cells.len(),
        "entry_differences": entries.differences, "entry_partitions": entries.partitions,
        "equal": is_equal, "complete": left_out.is_empty(),
    });
    Ok(AdminReport {
        text,
        json,
        is_sound,
    })
}

/// Checks that a table has the copy that is said to be right.
fn check_trusted(inspector: &Inspector, table: &str, trust: &str) -> Result<(), CommandFailure> {
    let copies = inspector.copies(table);
    let copies = copies.map_err(|error| failure(table, error))?;
    match copies.iter().any(|copy| copy == trust) {
        true => Ok(()),
        false => Err(CommandFailure::Failed(format!(
            "table {table:?} has no copy {trust:?}; it has: {}",
            copies.join(", ")
        ))),
    }
}

/// The repair of the thin indexes of a table.
#[derive(Default)]
struct RepairedEntries {
    /// For people; nothing if the table has no thin index.
    text: String,
    /// The number of rows whose entries were wrong.
    differences: usize,
    /// The number of partitions that were refilled.
    partitions: usize,
    /// The indexes after the repair.
    indexes: Vec<EntryComparison>,
}

/// Has partitions of thin indexes refilled whose entries the rows contradict.
async fn repair_entries(
    inspector: &mut Inspector,
    table: &str,
) -> Result<RepairedEntries, CommandFailure> {
    let compared = inspector.entry_comparisons(table).await;
    let compared = compared.map_err(|error| failure(table, error))?;
    if compared.is_empty() {
        return Ok(RepairedEntries::default());
    }
    let mut cells = BTreeSet::new();
    for index in &compared {
        let wrong = index.differences.iter().flat_map(|it| &it.wrong);
        cells.extend(wrong.map(|number| (index.replex, *number)));
    }
    let differences = entry_differences(&compared).count();
    let mut text = format!("{} rows have wrong entries.\n", count(differences as u64));
    text += &refill(inspector, table, &cells).await?;
    let after = inspector.entry_comparisons(table).await;
    Ok(RepairedEntries {
        text,
        differences,
        partitions: cells.len(),
        indexes: after.map_err(|error| failure(table, error))?,
    })
}

/// Has partitions refilled, and waits until they serve. Returns the outcome for people.
async fn refill(
    inspector: &mut Inspector,
    table: &str,
    cells: &BTreeSet<(u8, u32)>,
) -> Result<String, CommandFailure> {
    if cells.is_empty() {
        return Ok(String::new());
    }
    let progress = ProgressBar::new_spinner();
    let on_progress = |open| progress.set_message(format!("{open} partitions are being filled"));
    let renewed = inspector.renew(table, cells, on_progress).await;
    progress.finish_and_clear();
    renewed.map_err(|error| failure(table, error))?;
    Ok(format!("{} partitions are refilled.\n", cells.len()))
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

/// Returns the parts that were not compared, a line for each copy and index; nothing if everything
/// was.
fn left_out(copies: &[CopySum], indexes: &[EntryComparison]) -> String {
    let mut text = String::new();
    let sums = copies.iter().chain(indexes.iter().map(|it| &it.entries));
    for copy in sums.filter(|copy| !copy.absent.is_empty()) {
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
fn named(differences: &[impl Display]) -> String {
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
        "`replex admin repair {table}` refills the partitions that most copies contradict, and \
         partitions of indexes that contradict the rows. Before that, keep the data folders of \
         all servers and report this.\n"
    )
}

fn wrong_copies(difference: &CopyDifference) -> Option<Vec<[u32; 2]>> {
    let wrong = difference.wrong.as_ref()?;
    let cell = |(replex, number): &(u8, u32)| [u32::from(*replex), *number];
    Some(wrong.iter().map(cell).collect())
}

fn entry_differences(indexes: &[EntryComparison]) -> impl Iterator<Item = &EntryDifference> {
    indexes.iter().flat_map(|it| &it.differences)
}

/// Returns the thin indexes, for people.
fn indexes_table(screen: Screen, indexes: &[EntryComparison]) -> String {
    let header = ["index", "servers", "#partitions", "#entries"];
    let rows: Vec<Vec<String>> = indexes
        .iter()
        .map(|EntryComparison { entries, .. }| {
            vec![
                entries.name.clone(),
                servers(entries),
                count(entries.partitions),
                count(entries.rows),
            ]
        })
        .collect();
    screen.table(&header, &rows)
}

/// Returns whether entries and rows agree, for people, with the first differences.
fn entries_verdict(screen: Screen, differences: &[&EntryDifference]) -> String {
    match differences.is_empty() {
        true => screen.good("All entries that could be compared agree with the rows.") + "\n",
        false => screen.bad("Entries contradict the rows.") + "\n" + &named(differences),
    }
}

fn servers(copy: &CopySum) -> String {
    let servers: Vec<String> = copy.servers.iter().map(u32::to_string).collect();
    servers.join(", ")
}

/// Returns the copies, for people.
pub fn copies_table(screen: Screen, copies: &[CopySum]) -> String {
    let header = ["copy", "servers", "#partitions", "#rows", "checksum"];
    let rows: Vec<Vec<String>> = copies
        .iter()
        .map(|copy| {
            vec![
                copy.name.clone(),
                servers(copy),
                count(copy.partitions),
                count(copy.rows),
                checksum(copy.sum),
            ]
        })
        .collect();
    screen.table(&header, &rows)
}
