//! The fuzzer's entries under a generator of our own, so that every run of the tests exercises
//! them: valid bytes, spoilt a little or not at all, the same ones each time.

use placement::{ColumnType, ElementType, Interval, Numeric, Value, encode_key, encode_row};
use protocol::codec::Wire;
use protocol::expression::Expression;
use protocol::frame;
use protocol::message::{CoordinatorReply, Message};
use protocol::record::Record;
use protocol::state::CoordinatorState;

use super::entries::{self, ENTRIES};
use super::samples;
use super::samples::generate::{Generate, Source};
use super::spoil::{Random, holds_for_spoilt_bytes};

/// A value of each type, or NULL.
fn of_all_types() -> Vec<Value> {
    let value = |column_type: &ColumnType| match column_type {
        ColumnType::Bool => Value::Bool(true),
        ColumnType::Int16 => Value::Int16(-7),
        ColumnType::Int32 => Value::Int32(7),
        ColumnType::Int64 => Value::Int64(7),
        ColumnType::Float32 => Value::Float32(0.1),
        ColumnType::Float64 => Value::Float64(0.5),
        ColumnType::Text => Value::Text("a\0b".into()),
        ColumnType::Date => Value::Date(1),
        ColumnType::Timestamp => Value::Timestamp(1),
        ColumnType::TimestampTz => Value::TimestampTz(-1),
        ColumnType::Numeric => Value::Numeric(Numeric::from(-150)),
        ColumnType::Json => Value::Json(" {}".into()),
        ColumnType::Time(_) => Value::Time(1),
        ColumnType::Interval(_) => Value::Interval(Interval {
            months: 1,
            days: -2,
            micros: 3,
        }),
        ColumnType::Jsonb => Value::Jsonb("{\"a\": 1.0}".into()),
        _ => Value::Null,
    };
    let array = ColumnType::Array(ElementType::Text);
    let array = Value::parse(array, "[0:1]={a,NULL}").expect("it is an array");
    ColumnType::ALL.iter().map(value).chain([array]).collect()
}

/// Valid bytes for an entry, in many shapes.
fn valid(name: &str, random: &mut Random) -> Vec<u8> {
    let seed = random.bytes(300);
    let mut source = Source::new(&seed);
    let golden = samples::samples();
    let golden = golden
        .values()
        .nth(random.below(golden.len()))
        .expect("there is one");
    match name {
        "frame" => {
            let mut buffer = Vec::new();
            frame::encode(random.next(), golden, &mut buffer);
            buffer
        }
        "message" if random.below(2) == 0 => golden.to_bytes(),
        "message" => Message::generate(&mut source).to_bytes(),
        "configuration" => samples::configuration().to_bytes(),
        "row" => {
            let values = of_all_types();
            let columns = entries::columns();
            let row = encode_row(&columns, &values).expect("the types fit");
            let count = u8::try_from(columns.len()).expect("the types are few");
            [&[count], &row[..]].concat()
        }
        "key" => {
            let values = of_all_types();
            // As many types in a row as the byte can choose.
            let count = values.len();
            let length = (count - 1).min(usize::from(u8::MAX) / count - 1);
            let first = random.below(count - length + 1);
            let choice = u8::try_from(length * count + first).expect("the types are few");
            let chosen = values.iter().cycle().skip(first).take(length);
            let key = encode_key(chosen.map(Value::as_ref));
            [&[choice], &key[..]].concat()
        }
        "expression" => Expression::generate(&mut source).to_bytes(),
        "log_record" => Record::generate(&mut source).to_bytes(),
        other => panic!("make valid bytes for {other} here"),
    }
}

#[test]
fn entries_hold_for_spoilt_bytes() {
    for (name, entry) in ENTRIES {
        holds_for_spoilt_bytes(name, *entry, |random| valid(name, random));
    }
}

/// Golden messages that are configurations are valid, so the entries reach past their checks.
#[test]
fn valid_bytes_pass_the_checks() {
    assert_eq!(samples::configuration().check(), Ok(()));
    let state: CoordinatorState = samples::state();
    let bytes = protocol::state::encode_state(&state);
    assert_eq!(protocol::state::decode_state(&bytes).as_ref(), Ok(&state));
    let samples = samples::samples();
    let Message::Answer(CoordinatorReply::Configuration(configuration)) =
        &samples["answer-configuration"]
    else {
        panic!("the sample is named after its kind")
    };
    assert_eq!(*configuration, samples::configuration());
}

/// A configuration with further copies that cannot be goes no further than its check.
#[test]
fn malformed_further_copies_are_refused() {
    let refused = |change: fn(&mut placement::Schema), part: &str| {
        let mut configuration = samples::configuration();
        change(&mut configuration.tables[0].schema);
        let fault = configuration.check().unwrap_err();
        assert!(fault.contains(part), "{fault}");
    };
    use placement::Cut;
    refused(|it| it.further[0].name = "by_tail".into(), "already");
    refused(
        |it| it.further[2].cut = Cut::Replica { of: Some(3) },
        "copy r of table flights names an index that the table does not have",
    );
    refused(
        |it| it.further[0].cut = Cut::Hybrid { shares: Vec::new() },
        "name at least two",
    );
    refused(|it| it.partitions = 3, "does not divide it");
    refused(|it| it.partitions = 4, "do not multiply");
}

/// Every entry has its target for the fuzzer, and every target its entry.
#[test]
fn fuzz_targets_are_the_entries() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/fuzz_targets");
    let files = std::fs::read_dir(folder).expect("the folder is part of the repository");
    let mut targets: Vec<String> = files
        .map(|file| file.expect("it can be listed").path())
        .map(|path| {
            path.file_stem()
                .expect("a file")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    targets.sort();
    let mut names: Vec<&str> = ENTRIES.iter().map(|(name, _)| *name).collect();
    // These are beside the tests of storage and of machines.
    names.extend(["coordinator_state", "log_scan"]);
    names.sort();
    assert_eq!(targets, names);
}
