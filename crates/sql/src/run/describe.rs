//! Executes `SHOW` and `EXPLAIN`: returns the configuration, the session's settings, or a plan as
//! rows.

use placement::{
    ColumnDefault, ColumnType, Durability, ForeignKey, ReferentialAction, Schema, TableReport,
    Value, decode_sorted,
};
use protocol::configuration::{Configuration, PartitionState, PlacedTable, ServerState};

use super::{OutputColumn, ResultRows, StatementOutcome};
use crate::plan::{SessionSettings, text};
use crate::statement::{Setting, Show};

/// Returns the result of a `SHOW` of tables, one table, or servers.
pub(super) fn show(show: &Show, configuration: &Configuration) -> StatementOutcome {
    match show {
        Show::Tables => StatementOutcome::Rows(tables(configuration)),
        Show::Servers => StatementOutcome::Rows(servers(configuration)),
        Show::Table(name) => {
            let table = configuration.table_named(name);
            description(configuration, table.expect("the planner found it"))
        }
        Show::IndexRanges(name) => {
            let table = configuration.table_named(name);
            let table = table.expect("the planner found it");
            StatementOutcome::Rows(index_ranges(table))
        }
        Show::Setting(setting) => self::setting(*setting, SessionSettings::default()),
        Show::Fixed(fixed) => {
            StatementOutcome::Rows(rows(&[fixed.name], vec![vec![fixed.value.to_string()]]))
        }
    }
}

/// Returns the result of a `SHOW` of one setting.
pub(super) fn setting(setting: Setting, settings: SessionSettings) -> StatementOutcome {
    let switch = |is_on| if is_on { "on" } else { "off" }.to_string();
    let value = match setting {
        Setting::Scan => switch(settings.scan),
        Setting::ScanRows => settings.scan_rows.to_string(),
        Setting::StaleReads => switch(settings.stale_reads),
    };
    StatementOutcome::Rows(rows(&[setting.name()], vec![vec![value]]))
}

/// Returns the result of an `EXPLAIN`.
pub(super) fn plan(lines: Vec<String>) -> StatementOutcome {
    let lines = lines.into_iter().map(|line| vec![line]);
    StatementOutcome::Rows(rows(&["QUERY PLAN"], lines.collect()))
}

fn rows(columns: &[&str], rows: Vec<Vec<String>>) -> ResultRows {
    let columns = columns.iter().map(|name| OutputColumn {
        name: name.to_string(),
        column_type: Some(ColumnType::Text),
    });
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(Value::Text).collect());
    ResultRows {
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

fn tables(configuration: &Configuration) -> ResultRows {
    let names = [
        "table",
        "columns",
        "replexes",
        "partitions",
        "failures tolerated",
        "durability",
    ];
    let tables = configuration.tables.iter();
    let tables = tables.filter(|table| table.schema.sequence.is_none());
    let tables = tables.map(|table| {
        let schema = &table.schema;
        vec![
            schema.name.clone(),
            schema.visible_columns().count().to_string(),
            table.layout.copies().to_string(),
            schema.partitions.to_string(),
            schema.failures_tolerated.to_string(),
            durability(schema.durability).to_string(),
        ]
    });
    rows(&names, tables.collect())
}

fn servers(configuration: &Configuration) -> ResultRows {
    let names = [
        "server",
        "state",
        "failure domain",
        "partitions",
        "addresses",
    ];
    let servers = configuration.servers.iter().map(|server| {
        let held = configuration
            .tables
            .iter()
            .flat_map(|table| table.placement.iter().flatten())
            .filter(|place| place.core.server == server.id)
            .count();
        let state = match server.state {
            ServerState::Up => "up",
            ServerState::Down => "down",
        };
        vec![
            server.id.0.to_string(),
            state.to_string(),
            server.domain.clone(),
            held.to_string(),
            server.cores.join(", "),
        ]
    });
    rows(&names, servers.collect())
}

fn description(configuration: &Configuration, table: &PlacedTable) -> StatementOutcome {
    let report = configuration.report(table);
    let schema = &table.schema;
    let parts = match schema.thin.is_empty() {
        true => "Copies",
        false => "Copies and thin indexes",
    };
    let mut description = vec![
        (format!("Table {}", schema.name), columns(table)),
        (
            format!(
                "{parts} (failures: {} asked for, {}; durability: {})",
                schema.failures_tolerated,
                report.survival(),
                durability(schema.durability)
            ),
            copies(table, &report),
        ),
    ];
    let constraints = constraints(configuration, table);
    if !constraints.rows.is_empty() {
        description.push(("Constraints".to_string(), constraints));
    }
    StatementOutcome::Description(description)
}

/// Returns the constraints of a table that its columns and indexes do not show, and the foreign
/// keys of other tables to it.
fn constraints(configuration: &Configuration, table: &PlacedTable) -> ResultRows {
    let schema = &table.schema;
    let checks = schema.constraints.checks.iter().map(|check| {
        let condition = text::expression(schema, &check.condition);
        let state = validity(check.is_valid);
        vec![check.name.clone(), format!("CHECK ({condition}){state}")]
    });
    let keys = schema.constraints.foreign_keys.iter();
    let keys = keys.map(|key| vec![key.name.clone(), foreign_key(configuration, schema, key)]);
    let children = schema.constraints.referenced_by.iter();
    let children = children.filter_map(|child| configuration.table_named(child));
    let referring = children.flat_map(|child| {
        let keys = child.schema.constraints.foreign_keys.iter();
        let keys = keys.filter(|key| key.parent == schema.name);
        keys.map(|key| {
            let definition = foreign_key(configuration, &child.schema, key);
            let definition = format!("referenced by table {}, {definition}", child.schema.name);
            vec![key.name.clone(), definition]
        })
    });
    let lines = checks.chain(keys).chain(referring);
    rows(&["constraint", "definition"], lines.collect())
}

fn foreign_key(configuration: &Configuration, schema: &Schema, key: &ForeignKey) -> String {
    let names = |schema: &Schema, columns: &[usize]| {
        let names = columns.iter().map(|it| schema.columns[*it].name.clone());
        names.collect::<Vec<_>>().join(", ")
    };
    let parent = configuration.table_named(&key.parent);
    let parent_columns = parent.map_or_else(String::new, |parent| {
        names(&parent.schema, &parent.schema.primary_key)
    });
    let actions =
        [("DELETE", key.on_delete), ("UPDATE", key.on_update)].map(
            |(event, action)| match action {
                ReferentialAction::NoAction => String::new(),
                action => format!(" ON {event} {}", action.name()),
            },
        );
    format!(
        "FOREIGN KEY ({}) REFERENCES {}({parent_columns}){}{}{}",
        names(schema, &key.columns),
        key.parent,
        actions.concat(),
        key.deferral.clause(),
        validity(key.is_valid)
    )
}

fn validity(is_valid: bool) -> &'static str {
    if is_valid { "" } else { " NOT VALID" }
}

fn columns(table: &PlacedTable) -> ResultRows {
    let columns = table.schema.columns.iter();
    let columns = columns.filter(|column| !column.is_dropped()).map(|column| {
        vec![
            column.name.clone(),
            column.column_type.to_string(),
            if column.nullable { "" } else { "not null" }.to_string(),
            match &column.default {
                None => String::new(),
                Some(ColumnDefault::Constant(value)) => text::literal(value),
                Some(ColumnDefault::Computed(computed)) => computed.text().to_owned(),
                Some(ColumnDefault::Sequence(default)) => default.to_string(),
                Some(ColumnDefault::Generated(expression)) => {
                    let expression = text::expression(&table.schema, expression);
                    format!("generated always as ({expression}) stored")
                }
            },
        ]
    });
    let names = ["column", "type", "nullable", "default"];
    rows(&names, columns.collect())
}

fn copies(table: &PlacedTable, report: &TableReport) -> ResultRows {
    let numbered = table.layout.numbers().zip(&report.replexes);
    let replexes = numbered.map(|(number, replex)| {
        let state = match table.is_building(number) {
            true => ", being made",
            false => "",
        };
        let servers: Vec<String> = replex.servers.iter().map(u32::to_string).collect();
        vec![
            replex.name.clone(),
            format!("{}{state}", replex.kind),
            replex.sorted_by.join(", "),
            replex.partitions.to_string(),
            servers.join(", "),
            replex.after_one_failure.to_string(),
            replex.after_two_failures.to_string(),
        ]
    });
    let names = [
        "replex",
        "kind",
        "key",
        "partitions",
        "on servers",
        "after one failure",
        "after two",
    ];
    rows(&names, replexes.collect())
}

/// Returns the ranges of a table's copies and thin indexes, by index, in the order of their keys.
fn index_ranges(table: &PlacedTable) -> ResultRows {
    let layout = &table.layout;
    let mut lines = Vec::new();
    for number in layout.numbers() {
        let Some(ranges) = &layout.replexes[number].ranges else {
            continue;
        };
        let order = layout.order(number);
        let types: Vec<ColumnType> = order
            .iter()
            .map(|it| table.schema.columns[it.column].column_type)
            .collect();
        let bound = |key: &[u8]| match decode_sorted(&order, &types, key) {
            Ok(values) if !key.is_empty() => {
                let values: Vec<String> = values.iter().map(text::literal).collect();
                format!("({})", values.join(", "))
            }
            _ => String::new(),
        };
        for start in &ranges.starts {
            let (from, to) = ranges.of(start.partition).expect("it has a range");
            let place = table.placement[number][start.partition as usize];
            let state = match place.state {
                PartitionState::Rebuilding => "is being filled".to_string(),
                PartitionState::Serving if ranges.is_transferring(start.partition) => {
                    "serves, and is being split or merged".to_string()
                }
                PartitionState::Serving => match place.taker() {
                    Some(taker) => format!("serves, and moves to {taker}"),
                    None => "serves".to_string(),
                },
            };
            lines.push(vec![
                layout.replexes[number].name.clone(),
                bound(from),
                to.map_or_else(String::new, bound),
                start.partition.to_string(),
                place.core.to_string(),
                state,
            ]);
        }
    }
    let names = ["index", "from", "up to", "partition", "on", "state"];
    rows(&names, lines)
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Replicated => "replicated",
    }
}
