//! `replex admin table list` and `replex admin table show`: print a table's copies, the failures
//! that it survives, and the cost of a failure (Replex sections 2.4 and 3).

use placement::{Durability, ReplexReport, Spread, TableReport};
use replex::failure::CommandFailure;
use serde_json::{Value, json};

use super::AdminReport;
use super::source;
use crate::arguments::ClusterArguments;
use crate::output::{Screen, count};

/// Returns the report of all tables.
pub async fn list(
    cluster: &ClusterArguments,
    screen: Screen,
) -> Result<AdminReport, CommandFailure> {
    let (_, configuration) = source::configuration(cluster).await?;
    let header = [
        "table",
        "#columns",
        "#copies",
        "#partitions",
        "#failures tolerated",
        "durability",
    ];
    let mut rows = Vec::new();
    let mut tables = Vec::new();
    let listed = configuration.tables.iter();
    for table in listed.filter(|table| table.schema.sequence.is_none()) {
        let schema = &table.schema;
        let copies = table.layout.copies();
        rows.push(vec![
            schema.name.clone(),
            count(schema.visible_columns().count() as u64),
            count(copies as u64),
            count(schema.partitions),
            schema.failures_tolerated.to_string(),
            durability(schema.durability).to_owned(),
        ]);
        tables.push(json!({
            "table": schema.name, "columns": schema.visible_columns().count(), "copies": copies,
            "partitions": schema.partitions, "failures_tolerated": schema.failures_tolerated,
            "durability": durability(schema.durability),
        }));
    }
    let text = if rows.is_empty() {
        "There are no tables yet: create one with `replex sql`.\n".to_owned()
    } else {
        screen.table(&header, &rows)
    };
    let is_sound = true;
    Ok(AdminReport {
        text,
        json: Value::Array(tables),
        is_sound,
    })
}

/// Returns the report of one table.
pub async fn show(
    cluster: &ClusterArguments,
    screen: Screen,
    name: &str,
) -> Result<AdminReport, CommandFailure> {
    let (_, configuration) = source::configuration(cluster).await?;
    let report = configuration.report(source::table(&configuration, name)?);
    let header = [
        "copy",
        "kind",
        "a row is in the partition",
        "#partitions",
        "sorted by",
        "servers",
        "after one failure",
        "after two",
    ];
    let rows: Vec<Vec<String>> = report
        .replexes
        .iter()
        .map(|replex| {
            vec![
                replex.name.clone(),
                replex.kind.clone(),
                replex.axes.join(" × "),
                count(replex.partitions),
                replex.sorted_by.join(", "),
                server_list(replex),
                replex.after_one_failure.to_string(),
                replex.after_two_failures.to_string(),
            ]
        })
        .collect();
    let is_sound = report.holds_now();
    let mut text = summary(&report);
    text += &screen.table(&header, &rows);
    text += "After a failure: how many partitions of other copies a lookup visits instead of the \
             one that was lost.\n";
    Ok(AdminReport {
        text,
        json: json(&report),
        is_sound,
    })
}

fn summary(report: &TableReport) -> String {
    let mut text = format!(
        "table {}: {} copies of every row, each partitioned and sorted by another key\n",
        report.table, report.copies
    );
    text += &format!(
        "failures: {} asked for, {}\n",
        report.failures_tolerated,
        report.survival()
    );
    text += &format!(
        "writes: a chain of {} copies; the first {} can vote no; an outcome can be seen once it is \
         durable at copy {}\n",
        report.copies, report.last_voter, report.decision_position
    );
    text += match report.local_entries {
        true => "local entries: on; instead of a lost partition: index lookup at each member\n",
        false => {
            "local entries: off; instead of a lost partition: scan, where the order is another\n"
        }
    };
    text += match report.durability {
        Durability::Sync => "durability: sync, acknowledged when it is on every copy's disk\n",
        Durability::Replicated => {
            "durability: replicated, acknowledged when every copy has it in memory; disks follow\n"
        }
    };
    text
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Replicated => "replicated",
    }
}

fn server_list(replex: &ReplexReport) -> String {
    let servers: Vec<String> = replex.servers.iter().map(u32::to_string).collect();
    servers.join(", ")
}

fn json(report: &TableReport) -> Value {
    let spread = |spread: &Spread| {
        json!({
            "max": spread.max, "mean": spread.mean,
            "unreadable": spread.unreadable, "cases": spread.cases,
        })
    };
    let replexes = report.replexes.iter().map(|replex| {
        json!({
            "copy": replex.name, "kind": replex.kind, "axes": replex.axes,
            "partitions": replex.partitions, "sorted_by": replex.sorted_by,
            "servers": replex.servers,
            "after_one_failure": spread(&replex.after_one_failure),
            "after_two_failures": spread(&replex.after_two_failures),
        })
    });
    json!({
        "table": report.table,
        "copies": report.copies,
        "failures_tolerated": report.failures_tolerated,
        "failures_proven": report.failures_proven,
        "failures_survived": report.failures_survived,
        "shortfall": report.shortfall,
        "local_entries": report.local_entries,
        "last_voter": report.last_voter,
        "decision_position": report.decision_position,
        "durability": durability(report.durability),
        "replexes": replexes.collect::<Vec<_>>(),
    })
}
