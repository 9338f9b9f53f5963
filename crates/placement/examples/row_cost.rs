//! The cost of one row in CPU time: to encode, to check, to read and to route. Run with `cargo run
//! --release -p placement --example row_cost`; medians of 11 rounds, nothing asserted.

use std::hint::black_box;
use std::time::Instant;

use placement::{
    Column, ColumnType, Durability, Layout, RowView, Schema, TableConstraints, Value, ValueRef,
    encode_key, encode_row, median,
};

const ROUNDS: usize = 11;
const REPEATS: u32 = 200_000;

fn main() {
    // Rows as YCSB has them: ten fields of ten bytes each, the first of them the key.
    let column = |number: usize| Column {
        name: format!("field{number}"),
        column_type: ColumnType::Text,
        nullable: false,
        default: None,
        missing: None,
    };
    let columns: Vec<Column> = (0..10).map(column).collect();
    let schema = Schema {
        name: "rows".into(),
        columns: columns.clone(),
        primary_key: vec![0],
        indexes: Vec::new(),
        further: Vec::new(),
        thin: Vec::new(),
        partitions: 12,
        failures_tolerated: 0,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
    };
    let layout = Layout::base(&schema);
    let values: Vec<Value> = (0..10)
        .map(|number| Value::Text(format!("value{number:05}")))
        .collect();
    let bytes = encode_row(&columns, &values).expect("the values are of their types");
    let row = RowView::parse(&columns, &bytes).expect("what is written can be read");

    println!("10 columns of 10 bytes: {} bytes", bytes.len());
    report("encode a row", 1, || {
        black_box(encode_row(&columns, black_box(&values))).is_ok()
    });
    report("check a row", 1, || {
        black_box(RowView::parse(&columns, black_box(&bytes))).is_ok()
    });
    report("read a column", 10, || {
        (0..10).all(|index| !black_box(black_box(&row).column(index)).is_null())
    });
    report("check and read, per column", 10, || {
        let row = RowView::parse(&columns, black_box(&bytes)).expect("it was checked before");
        (0..10).all(|index| !black_box(row.column(index)).is_null())
    });
    report("find the partition", 1, || {
        black_box(layout.partition_of_row(0, black_box(&row))) < layout.partition_count(0)
    });
    report("encode a key", 1, || {
        !black_box(encode_key([black_box(ValueRef::Text("value00000"))])).is_empty()
    });
}

fn report(what: &str, parts: u32, mut step: impl FnMut() -> bool) {
    let mut rounds = [0.0; ROUNDS];
    for round in &mut rounds {
        let start = Instant::now();
        for _ in 0..REPEATS {
            assert!(step(), "every step succeeds");
        }
        *round = start.elapsed().as_nanos() as f64 / f64::from(REPEATS * parts);
    }
    println!("{what:<28} {:6.1} ns", median(&rounds));
}
