//! Tables, layouts and strategies that the tests share.
#![allow(dead_code, reason = "each test binary uses some of them")]

use placement::{
    Array, ArrayDimension, Axis, Column, ColumnType, Constraint, DATES, Durability, ElementType,
    Index, Interval, KeySpace, Layout, Numeric, Replex, ReplexKind, Schema, TableConstraints,
    Value,
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Equal runs unless `PROPTEST_RNG_SEED` is set; `PROPTEST_CASES` gives more cases.
pub fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if matches!(config.rng_seed, RngSeed::Random) {
        config.rng_seed = RngSeed::Fixed(1);
    }
    config.failure_persistence = None;
    config
}

/// Integers of a type, more of them small or extreme than others.
macro_rules! edges {
    ($type:ty) => {
        prop_oneof![
            any::<$type>(),
            -2..3 as $type,
            Just(<$type>::MIN),
            Just(<$type>::MAX)
        ]
    };
}

/// Decimal numbers with few digits and with many, at all scales.
fn numeric() -> impl Strategy<Value = Numeric> {
    let written = prop_oneof![
        (-300..300_i32, 0..5_i32).prop_map(|(digits, scale)| format!("{digits}e-{scale}")),
        ("-?[0-9]{1,60}", -40..40_i32).prop_map(|(digits, power)| format!("{digits}e{power}")),
        "-?[1-9](\\.[0-9]{1,20})?e-?[0-9]{1,4}",
        "-?0\\.[0-9]{1,30}",
        Just("NaN".to_string()),
        Just("Infinity".to_string()),
        Just("-Infinity".to_string()),
    ];
    written.prop_filter_map("it has too many digits", |it| Numeric::parse(&it).ok())
}

// tidy: long — one arm per type.
/// Values of one type that lie close together and at the edges, so that comparisons matter.
pub fn value(column_type: ColumnType) -> BoxedStrategy<Value> {
    match column_type {
        ColumnType::Bool => any::<bool>().prop_map(Value::Bool).boxed(),
        ColumnType::Int64 => edges!(i64).prop_map(Value::Int64).boxed(),
        ColumnType::Float64 => prop_oneof![
            any::<u64>().prop_map(|bits| Value::Float64(f64::from_bits(bits))),
            (-3..3i32).prop_map(|it| Value::Float64(f64::from(it) / 2.0)),
            Just(Value::Float64(-0.0)),
            Just(Value::Float64(f64::NAN)),
            Just(Value::Float64(-f64::NAN)),
            Just(Value::Float64(f64::INFINITY)),
            Just(Value::Float64(f64::NEG_INFINITY)),
        ]
        .boxed(),
        ColumnType::Int32 => edges!(i32).prop_map(Value::Int32).boxed(),
        ColumnType::Int16 => edges!(i16).prop_map(Value::Int16).boxed(),
        ColumnType::Float32 => prop_oneof![
            any::<u32>().prop_map(|bits| Value::Float32(f32::from_bits(bits))),
            (-3..3i8).prop_map(|it| Value::Float32(f32::from(it) / 2.0)),
            Just(Value::Float32(-0.0)),
            Just(Value::Float32(f32::NAN)),
            Just(Value::Float32(f32::INFINITY)),
        ]
        .boxed(),
        ColumnType::Varchar(limit) | ColumnType::Char(limit) => {
            let letters = prop::sample::select(vec!['\0', 'a', 'b', 'é']);
            let texts = prop::collection::vec(letters, 0..=limit.min(5) as usize);
            texts
                .prop_map(|it| Value::Text(it.into_iter().collect()))
                .boxed()
        }
        ColumnType::Date => date().prop_map(Value::Date).boxed(),
        ColumnType::TimestampTz => timestamp().prop_map(Value::TimestampTz).boxed(),
        ColumnType::Text => prop_oneof![
            prop::collection::vec(
                prop::sample::select(vec!['\0', '\u{1}', 'a', 'b', 'é', '\u{10ffff}']),
                0..5
            )
            .prop_map(|it| Value::Text(it.into_iter().collect())),
            any::<String>().prop_map(Value::Text),
        ]
        .boxed(),
        ColumnType::Bytes => prop_oneof![
            prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0xfe, 0xff]), 0..5)
                .prop_map(Value::Bytes),
            prop::collection::vec(any::<u8>(), 0..300).prop_map(Value::Bytes),
        ]
        .boxed(),
        ColumnType::Timestamp => timestamp().prop_map(Value::Timestamp).boxed(),
        ColumnType::Uuid => any::<[u8; 16]>().prop_map(Value::Uuid).boxed(),
        ColumnType::Numeric | ColumnType::Decimal { .. } => numeric()
            .prop_filter_map("it has too many digits", move |it| {
                Value::Numeric(it).assigned(column_type).ok()
            })
            .boxed(),
        ColumnType::Time(_) => {
            prop_oneof![0..=86_400_000_000_i64, 0..3_i64, Just(86_400_000_000_i64),]
                .prop_filter_map("it has too many digits", move |it| {
                    Value::Time(it).assigned(column_type).ok()
                })
                .boxed()
        }
        ColumnType::Interval(_) => interval()
            .prop_filter_map("it has too many digits", move |it| {
                Value::Interval(it).assigned(column_type).ok()
            })
            .boxed(),
        ColumnType::Json => json().prop_map(Value::Json).boxed(),
        ColumnType::Jsonb => json()
            .prop_filter_map("it is no jsonb", move |it| {
                Value::parse(column_type, &it).ok()
            })
            .boxed(),
        ColumnType::Array(element) => {
            let lengths = prop::collection::vec((1..3_u32, any::<i8>()), 0..3);
            let elements = prop::collection::vec(value(element.column_type()), 4);
            (lengths, elements)
                .prop_map(move |(lengths, elements)| {
                    let dimensions = lengths.iter().map(|(length, lower)| ArrayDimension {
                        length: *length,
                        lower: i32::from(*lower),
                    });
                    let dimensions: Vec<ArrayDimension> = dimensions.collect();
                    let count = dimensions.iter().map(|it| it.length as usize).product();
                    let count = if dimensions.is_empty() { 0 } else { count };
                    let elements = elements[..count].iter().map(Value::as_ref);
                    let array = Array::new(element, &dimensions, elements);
                    Value::Array(array.expect("there are few elements"))
                })
                .boxed()
        }
    }
}

/// The text of a `json` of a few levels.
fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_string()),
        Just("true".to_string()),
        Just("-1.50".to_string()),
        any::<i64>().prop_map(|it| it.to_string()),
        "\"[ab\u{e9}]{0,3}\"".prop_map(|it| it),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|it| format!("[{}]", it.join(", "))),
            prop::collection::vec(("[ab]{0,2}", inner), 0..3).prop_map(|pairs| {
                let pairs = pairs
                    .iter()
                    .map(|(key, value)| format!("\"{key}\": {value}"));
                format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
            }),
        ]
    })
}

/// Intervals of all parts, of which many are equal with other parts.
fn interval() -> impl Strategy<Value = Interval> {
    const DAY: i64 = 86_400_000_000;
    let micros = prop_oneof![
        edges!(i64),
        (-3..3_i64).prop_map(|days| days * DAY),
        (-3..3_i64).prop_map(|days| days * 30 * DAY),
    ];
    let days = prop_oneof![edges!(i32), (-3..3_i32).prop_map(|months| months * 30)];
    // As in PostgreSQL, the text of the smallest number of microseconds cannot be read.
    (edges!(i32), days, micros).prop_map(|(months, days, micros)| Interval {
        months,
        days,
        micros: micros.max(-i64::MAX),
    })
}

/// From PostgreSQL's first timestamp on; the ends of the integers are its infinities.
fn timestamp() -> impl Strategy<Value = i64> {
    const FIRST: i64 = -210_866_803_200_000_000;
    edges!(i64).prop_map(|micros| match micros {
        i64::MIN => micros,
        micros => micros.max(FIRST),
    })
}

/// A day that PostgreSQL has, or an infinity.
fn date() -> impl Strategy<Value = i32> {
    edges!(i32).prop_map(|days| match days {
        i32::MIN | i32::MAX => days,
        days => days.clamp(*DATES.start(), *DATES.end()),
    })
}

pub fn column_type() -> impl Strategy<Value = ColumnType> {
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    let limited = [ColumnType::Varchar(3), ColumnType::Char(2)];
    let limited = limited.into_iter().chain([decimal(6, 2), decimal(3, -2)]);
    let arrays = [
        ColumnType::Int32,
        ColumnType::Numeric,
        ColumnType::Char(2),
        ColumnType::Text,
    ];
    let arrays = arrays.map(|it| ElementType::of(it).map_or(it, ColumnType::Array));
    let limited = limited.chain(arrays);
    let types: Vec<ColumnType> = ColumnType::ALL.into_iter().chain(limited).collect();
    prop::sample::select(types)
}

/// A value of the type, or NULL now and then.
pub fn value_or_null(column_type: ColumnType) -> impl Strategy<Value = Value> {
    prop_oneof![4 => value(column_type), 1 => Just(Value::Null)]
}

/// A grid over any key spaces, several axes on one of them included, small enough that all
/// combinations of slots can be enumerated.
pub fn layout() -> impl Strategy<Value = Layout> {
    let slots = prop::collection::vec(prop::sample::select(vec![1u32, 2, 3, 4, 6, 8]), 1..4);
    slots.prop_flat_map(|slots| {
        let axis = prop::sample::select(all_axes(&slots));
        let replexes = prop::collection::vec(prop::collection::vec(axis, 0..3), 2..5);
        replexes.prop_map(move |replexes| {
            let key_space = |(column, slots): (usize, &u32)| KeySpace {
                columns: vec![column],
                slots: *slots,
            };
            let replex = |(number, axes): (usize, Vec<Axis>)| Replex {
                ranges: None,
                name: format!("r{number}"),
                kind: if number == 0 {
                    ReplexKind::Primary
                } else {
                    ReplexKind::Hybrid
                },
                axes,
                sort_columns: placement::ascending(&[number]),
            };
            Layout {
                key_spaces: slots.iter().enumerate().map(key_space).collect(),
                replexes: replexes.into_iter().enumerate().map(replex).collect(),
                local_entries: true,
            }
        })
    })
}

fn all_axes(slots: &[u32]) -> Vec<Axis> {
    let mut axes = Vec::new();
    for (key_space, slots) in slots.iter().enumerate() {
        for stride in 1..=*slots {
            axes.extend((1..=slots / stride).map(|divisions| Axis {
                key_space,
                stride,
                divisions,
            }));
        }
    }
    axes
}

/// Every combination of slots: all possible rows from a layout's point of view.
pub fn all_rows(layout: &Layout) -> Vec<Vec<u32>> {
    layout
        .key_spaces
        .iter()
        .fold(vec![Vec::new()], |rows, key_space| {
            let longer = |row: &Vec<u32>, slot: u32| row.iter().copied().chain([slot]).collect();
            rows.iter()
                .flat_map(|row| (0..key_space.slots).map(move |slot| longer(row, slot)))
                .collect()
        })
}

pub fn column(name: &str, column_type: ColumnType) -> Column {
    Column {
        name: name.into(),
        column_type,
        nullable: false,
        default: None,
        missing: None,
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
        partition_columns: None,
        by_range: false,
    };
    Schema {
        name: "t".into(),
        columns,
        primary_key: vec![0],
        indexes: (1..=indexes).map(index).collect(),
        further: Vec::new(),
        thin: Vec::new(),
        partitions,
        failures_tolerated,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
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
        partition_columns: None,
        by_range: false,
    };
    Schema {
        name: "flights".into(),
        columns,
        primary_key: vec![0],
        indexes: vec![index("by_tail_number", &[1]), index("by_route", &[2, 3])],
        further: Vec::new(),
        thin: Vec::new(),
        partitions,
        failures_tolerated,
        failures_wanted: 0,
        local_entries: true,
        durability: Durability::Sync,
        primary_partition_columns: None,
        sequence: None,
        constraints: TableConstraints::default(),
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
        partition_columns: None,
        by_range: false,
    };
    schema.indexes = vec![
        index("by_structure", &[2], None),
        index("by_global", &[1], Some(Constraint::Dense)),
        index("by_local", &[2, 3], Some(Constraint::Dense)),
    ];
    schema
}
