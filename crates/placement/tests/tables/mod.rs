//! Tables that the tests share.
#![allow(dead_code, reason = "each test binary uses some of them")]

use placement::{Column, ColumnType, Constraint, Durability, Index, Schema};

pub fn column(name: &str, column_type: ColumnType) -> Column {
    Column {
        name: name.into(),
        column_type,
        nullable: false,
        default: None,
    }
}

/// A table of int64 columns: the primary key, and so many indexes of one column each.
pub fn table(partitions: u32, indexes: usize, failures_tolerated: u8) -> Schema {
    let columns = (0..=indexes)
        .map(|it| column(&format!("c{it}"), ColumnType::Int64))
        .collect();
    let index = |it| Index {
        name: format!("index_{it}"),
        columns: vec![it],
        constraint: None,
    };
    Schema {
        name: "t".into(),
        columns,
        primary_key: vec![0],
        indexes: (1..=indexes).map(index).collect(),
        partitions,
        failures_tolerated,
        durability: Durability::Sync,
    }
}

/// Flights, by id, by tail number and by route.
pub fn flights(partitions: u32, failures_tolerated: u8) -> Schema {
    let mut columns: Vec<Column> = ["tail_number", "origin", "destination"]
        .map(|it| column(it, ColumnType::Text))
        .into();
    columns.insert(0, column("id", ColumnType::Int64));
    let index = |name: &str, columns: &[usize]| Index {
        name: name.into(),
        columns: columns.into(),
        constraint: None,
    };
    Schema {
        name: "flights".into(),
        columns,
        primary_key: vec![0],
        indexes: vec![index("by_tail_number", &[1]), index("by_route", &[2, 3])],
        partitions,
        failures_tolerated,
        durability: Durability::Sync,
    }
}

/// The shared log of Replex section 2.3: a global dense sequence, and one per structure.
pub fn shared_log() -> Schema {
    let mut schema = table(8, 0, 2);
    schema.columns = vec![
        column("id", ColumnType::Int64),
        column("global", ColumnType::Int64),
        column("structure", ColumnType::Text),
        column("local", ColumnType::Int64),
    ];
    let index = |name: &str, columns: &[usize], constraint| Index {
        name: name.into(),
        columns: columns.into(),
        constraint,
    };
    schema.indexes = vec![
        index("by_structure", &[2], None),
        index("by_global", &[1], Some(Constraint::Dense)),
        index("by_local", &[2, 3], Some(Constraint::Dense)),
    ];
    schema
}
