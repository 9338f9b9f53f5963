//! `SHOW`: what the configuration and the session say, as rows.

use std::collections::BTreeSet;

use client::protocol::configuration::{Configuration, ServerState, Table};
use placement::{ColumnType, Constraint, Durability, ReplexKind, Value};

use super::{Outcome, OutputColumn, Rows};
use crate::plan::{Settings, text};
use crate::statement::{Setting, Show};

/// Tables, one table, or servers.
pub(super) fn show(show: &Show, configuration: &Configuration) -> Outcome {
    match show {
        Show::Tables => Outcome::Rows(tables(configuration)),
        Show::Servers => Outcome::Rows(servers(configuration)),
        Show::Table(name) => {
            let table = configuration.table_named(name);
            description(table.expect("the planner found it"))
        }
        Show::Setting(setting) => self::setting(*setting, Settings::default()),
    }
}

/// One setting of the session.
pub(super) fn setting(setting: Setting, settings: Settings) -> Outcome {
    let on = match setting {
        Setting::Scan => settings.scan,
        Setting::StaleReads => settings.stale_reads,
    };
    let value = if on { "on" } else { "off" };
    Outcome::Rows(rows(&[setting.name()], vec![vec![value.to_string()]]))
}

fn rows(columns: &[&str], rows: Vec<Vec<String>>) -> Rows {
    let columns = columns.iter().map(|name| OutputColumn {
        name: name.to_string(),
        column_type: Some(ColumnType::Text),
    });
    let rows = rows
        .into_iter()
        .map(|row| row.into_iter().map(Value::Text).collect());
    Rows {
        columns: columns.collect(),
        rows: rows.collect(),
    }
}

fn tables(configuration: &Configuration) -> Rows {
    let names = [
        "table",
        "columns",
        "replexes",
        "partitions",
        "failures tolerated",
        "durability",
    ];
    let tables = configuration.tables.iter().map(|table| {
        let schema = &table.schema;
        vec![
            schema.name.clone(),
            schema.columns.len().to_string(),
            table.layout.replexes.len().to_string(),
            schema.partitions.to_string(),
            schema.failures_tolerated.to_string(),
            durability(schema.durability).to_string(),
        ]
    });
    rows(&names, tables.collect())
}

fn servers(configuration: &Configuration) -> Rows {
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

fn description(table: &Table) -> Outcome {
    let schema = &table.schema;
    Outcome::Description(vec![
        (format!("Table {}", schema.name), columns(table)),
        (
            format!(
                "Copies (failures tolerated: {}, durability: {})",
                schema.failures_tolerated,
                durability(schema.durability)
            ),
            copies(table),
        ),
    ])
}

fn columns(table: &Table) -> Rows {
    let columns = table.schema.columns.iter().map(|column| {
        vec![
            column.name.clone(),
            column.column_type.name().to_string(),
            if column.nullable { "" } else { "not null" }.to_string(),
            column
                .default
                .as_ref()
                .map_or_else(String::new, text::literal),
        ]
    });
    let names = ["column", "type", "nullable", "default"];
    rows(&names, columns.collect())
}

fn copies(table: &Table) -> Rows {
    let schema = &table.schema;
    let replexes = table.layout.replexes.iter().zip(&table.placement);
    let replexes = replexes.map(|(replex, places)| {
        let kind = match replex.kind {
            ReplexKind::Primary => "primary key",
            ReplexKind::Index { index } => match schema.indexes[index].constraint {
                None => "index",
                Some(Constraint::Unique) => "unique index",
                Some(Constraint::Dense) => "dense index",
            },
            ReplexKind::Hybrid => "hybrid",
            ReplexKind::Exact { .. } => "exact copy",
            ReplexKind::Hyperspace => "hyperspace",
        };
        let servers: BTreeSet<u32> = places.iter().map(|it| it.core.server.0).collect();
        let servers: Vec<String> = servers.iter().map(u32::to_string).collect();
        let key: Vec<&str> = replex
            .sort_columns
            .iter()
            .map(|it| schema.columns[*it].name.as_str())
            .collect();
        vec![
            replex.name.clone(),
            kind.to_string(),
            key.join(", "),
            places.len().to_string(),
            servers.join(", "),
        ]
    });
    let names = ["replex", "kind", "key", "partitions", "on servers"];
    rows(&names, replexes.collect())
}

fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "sync",
        Durability::Replicated => "replicated",
    }
}
