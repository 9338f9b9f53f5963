//! Tests values in both formats.

use placement::{Numeric, TimeInput, TimeZone};
use proptest::prelude::*;

use super::*;

fn read(oid: u32, format: WireFormat, bytes: &[u8]) -> Result<Value, String> {
    let declared = ParameterType::of(oid).unwrap().unwrap();
    declared
        .read(format, bytes, 1, &TimeInput::UTC)
        .map_err(|report| report.code)
}

fn written(value: &Value, format: WireFormat) -> Vec<u8> {
    let mut out = BytesMut::new();
    write(
        &mut out,
        value,
        value.column_type(),
        (format, &TimeZone::UTC),
    )
    .unwrap();
    out.to_vec()
}

fn text(oid: u32, text: &str) -> Result<Value, String> {
    read(oid, WireFormat::Text, text.as_bytes())
}

#[test]
fn oids_belong_to_their_types() {
    for column_type in ColumnType::ALL {
        let declared = ParameterType::of(oid(Some(column_type))).unwrap();
        assert_eq!(declared, Some(ParameterType(column_type)));
    }
    assert_eq!(ParameterType::of(0).unwrap(), None);
    assert_eq!(ParameterType::of(705).unwrap(), None);
    assert_eq!(ParameterType::of(142).unwrap_err().code, NOT_SUPPORTED);
}

#[test]
fn jsonb_in_binary_has_a_version() {
    let binary = |bytes: &[u8]| read(3802, WireFormat::Binary, bytes);
    let value = Value::Jsonb("{\"a\": 1}".into());
    assert_eq!(binary(b"\x01{\"a\":1}"), Ok(value.clone()));
    assert_eq!(written(&value, WireFormat::Binary), b"\x01{\"a\": 1}");
    assert_eq!(binary(b"\x02{}"), Err("22P03".into()));
    assert_eq!(binary(b"{}"), Err("22P03".into()));
    assert_eq!(text(3802, "{"), Err("22P02".into()));
    assert_eq!(text(3802, "\"\\u0000\""), Err("22P05".into()));
    assert_eq!(text(3802, "1e200000"), Err("22003".into()));
    let plain = Value::Json(" {\"a\" :1}".into());
    assert_eq!(read(114, WireFormat::Binary, b" {\"a\" :1}"), Ok(plain));
}

#[test]
fn times_and_intervals_have_their_parts_in_binary() {
    let binary = |oid, bytes: &[u8]| read(oid, WireFormat::Binary, bytes);
    let noon = 43_200_000_000_i64.to_be_bytes();
    assert_eq!(binary(1083, &noon), Ok(Value::Time(43_200_000_000)));
    assert_eq!(
        written(&Value::Time(43_200_000_000), WireFormat::Binary),
        noon
    );
    assert_eq!(binary(1083, &i64::MAX.to_be_bytes()), Err("22008".into()));
    assert_eq!(binary(1083, &[0; 7]), Err("08P01".into()));
    let parts = [&(-1_i64).to_be_bytes()[..], &[0, 0, 0, 2], &[0, 0, 0, 14]].concat();
    let value = binary(1186, &parts).unwrap();
    assert_eq!(value.to_string(), "1 year 2 mons 2 days -00:00:00.000001");
    assert_eq!(written(&value, WireFormat::Binary), parts);
    assert_eq!(
        text(1186, "1 year 2 mons 2 days -00:00:00.000001"),
        Ok(value)
    );
    assert_eq!(binary(1186, &parts[1..]), Err("08P01".into()));
    assert_eq!(text(1186, "1 fortnight"), Err("22007".into()));
    assert_eq!(text(1186, "99999999999 days"), Err("22015".into()));
    assert_eq!(text(1083, "25:00"), Err("22008".into()));
    assert_eq!(modifier(Some(ColumnType::INTERVAL)), -1);
    assert_eq!(modifier(Some(ColumnType::Interval(3))), 2_147_418_115);
    assert_eq!(modifier(Some(ColumnType::Time(3))), 3);
}

#[test]
fn numbers_of_other_types_keep_their_values() {
    let binary = |oid, bytes: &[u8]| read(oid, WireFormat::Binary, bytes);
    assert_eq!(binary(21, &[0xff, 0xfe]), Ok(Value::Int16(-2)));
    assert_eq!(binary(23, &[0, 0, 1, 0]), Ok(Value::Int32(256)));
    assert_eq!(binary(700, &1.5_f32.to_be_bytes()), Ok(Value::Float32(1.5)));
    for (bytes, expected) in [
        (&[0, 0, 0, 0, 0, 0, 0, 0][..], "0"),
        (&[0, 0, 0, 0, 0, 0, 0, 2], "0.00"),
        // 12345.678: 1, 2345, 6780 with three digits after the point.
        (
            &[0, 3, 0, 1, 0, 0, 0, 3, 0, 1, 9, 0x29, 0x1a, 0x7c],
            "12345.678",
        ),
        (&[0, 1, 0, 1, 0x40, 0, 0, 0, 0, 7], "-70000"),
        (&[0, 1, 0xff, 0xff, 0, 0, 0, 2, 0x13, 0x88], "0.50"),
        (
            &[0, 1, 0xff, 0xfd, 0, 0, 0, 12, 0x13, 0x88],
            "0.000000005000",
        ),
        (&[0, 0, 0, 0, 0xc0, 0, 0, 0], "NaN"),
        (&[0, 0, 0, 0, 0xd0, 0, 0, 32], "Infinity"),
        (&[0, 0, 0, 0, 0xf0, 0, 0, 32], "-Infinity"),
    ] {
        let found = binary(1700, bytes).unwrap();
        assert_eq!(found.to_string(), expected, "{bytes:?}");
        assert_eq!(written(&found, WireFormat::Binary), bytes, "{expected}");
    }
    // Digits beyond the scale are left out.
    let found = binary(1700, &[0, 1, 0xff, 0xff, 0, 0, 0, 1, 0x27, 0x0f]);
    assert_eq!(found.unwrap().to_string(), "0.9");
    for bytes in [
        &[0, 1, 0, 0, 0, 0, 0, 0][..],
        &[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10],
        &[0, 0, 0, 0, 0x10, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0, 0x40, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 1],
    ] {
        assert_eq!(binary(1700, bytes), Err("22P03".into()), "{bytes:?}");
    }
    assert_eq!(binary(1700, &[]), Err("08P01".into()));
    assert_eq!(binary(20, &[1]), Err("08P01".into()));
    assert_eq!(text(1700, " 1.50 ").unwrap().to_string(), "1.50");
    assert_eq!(text(1700, "1e131072"), Err("22003".into()));
    assert_eq!(text(1700, "1.5.0"), Err("22P02".into()));
    assert_eq!(text(23, "2147483648"), Err("22003".into()));
    assert_eq!(text(21, "x"), Err("22P02".into()));
}

#[test]
fn timestamps_with_zones_are_in_utc() {
    let at = |text: &str| match Value::parse(ColumnType::Timestamp, text) {
        Ok(Value::Timestamp(at)) => Value::TimestampTz(at),
        other => panic!("{other:?}"),
    };
    for (zoned, utc) in [
        ("2020-01-01 12:00:00+02", "2020-01-01 10:00:00"),
        ("2020-01-01T12:00:00.5-05:30", "2020-01-01 17:30:00.5"),
        ("2020-01-01 00:00:00Z", "2020-01-01 00:00:00"),
        ("2020-01-01 00:00:00", "2020-01-01 00:00:00"),
        ("2020-01-01", "2020-01-01 00:00:00"),
        ("0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00 BC"),
        ("infinity", "infinity"),
    ] {
        assert_eq!(text(1184, zoned), Ok(at(utc)), "{zoned}");
    }
    let microseconds = 1_000_000_i64.to_be_bytes();
    assert_eq!(
        read(1184, WireFormat::Binary, &microseconds),
        Ok(at("2000-01-01 00:00:01"))
    );
    let days = 366_i32.to_be_bytes();
    assert_eq!(
        read(1082, WireFormat::Binary, &days),
        Ok(Value::parse(ColumnType::Date, "2001-01-01").unwrap())
    );
    for days in [i32::MAX - 1, i32::MIN + 1] {
        let found = read(1082, WireFormat::Binary, &days.to_be_bytes());
        assert_eq!(found, Err("22008".into()));
    }
    let early = (TIMESTAMP_MIN_US - 1).to_be_bytes();
    assert_eq!(read(1114, WireFormat::Binary, &early), Err("22008".into()));
}

#[test]
fn texts_have_no_zero_byte() {
    assert_eq!(text(25, "a\0b"), Err("22021".into()));
    assert_eq!(read(25, WireFormat::Text, b"\xff"), Err("22021".into()));
    assert_eq!(read(25, WireFormat::Binary, b"a\0b"), Err("22021".into()));
}

#[test]
fn limited_texts_are_padded_and_described() {
    let mut out = BytesMut::new();
    let value = Value::Text("\u{e4}".into());
    for format in [WireFormat::Text, WireFormat::Binary] {
        write(
            &mut out,
            &value,
            Some(ColumnType::Char(3)),
            (format, &TimeZone::UTC),
        )
        .unwrap();
    }
    write(
        &mut out,
        &value,
        Some(ColumnType::Varchar(3)),
        (WireFormat::Text, &TimeZone::UTC),
    )
    .unwrap();
    assert_eq!(out, "\u{e4}  \u{e4}  \u{e4}");
    assert_eq!(modifier(Some(ColumnType::Varchar(3))), 7);
    assert_eq!(modifier(Some(ColumnType::Text)), -1);
    let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
    assert_eq!(modifier(Some(decimal(10, 2))), (10 << 16 | 2) + 4);
    assert_eq!(modifier(Some(decimal(2, -2))), (2 << 16 | 0x7fe) + 4);
    assert_eq!(modifier(Some(ColumnType::Numeric)), -1);
    assert_eq!(oid(Some(decimal(10, 2))), 1700);
    assert_eq!(oid(Some(ColumnType::Char(3))), 1042);
}

#[test]
fn a_value_of_another_type_is_not_written() {
    let mut out = BytesMut::new();
    let value = Value::Text("1".into());
    let written = write(
        &mut out,
        &value,
        Some(ColumnType::Int64),
        (WireFormat::Binary, &TimeZone::UTC),
    );
    assert_eq!(written.unwrap_err().code, "XX000");
}

fn values() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int64),
        any::<f64>().prop_map(Value::Float64),
        "[^\0]*".prop_map(Value::Text),
        any::<Vec<u8>>().prop_map(Value::Bytes),
        (-200_000_000_000_000_000_i64..8_000_000_000_000_000_000).prop_map(Value::Timestamp),
        Just(Value::Timestamp(i64::MIN)),
        Just(Value::Timestamp(i64::MAX)),
        any::<[u8; 16]>().prop_map(Value::Uuid),
        any::<i16>().prop_map(Value::Int16),
        any::<i32>().prop_map(Value::Int32),
        any::<f32>().prop_map(Value::Float32),
        (-2_400_000..1_000_000).prop_map(Value::Date),
        Just(Value::Date(i32::MIN)),
        Just(Value::Date(i32::MAX)),
        (-200_000_000_000_000_000_i64..8_000_000_000_000_000_000).prop_map(Value::TimestampTz),
        "-?[0-9]{1,30}(\\.[0-9]{1,30})?|-?0\\.0{0,9}[0-9]|NaN|-?Infinity"
            .prop_map(|it| Value::Numeric(Numeric::parse(&it).unwrap())),
        "-?[1-9]{1,9}| [{]\"a\":  [1-9][}]|\\[\\]".prop_map(Value::Json),
        "-?[1-9]{1,9}|[{]\"a\": [1-9][}]|\\[\\]".prop_map(Value::Jsonb),
    ]
}

proptest! {
    #[test]
    fn values_come_back_in_both_formats(value in values()) {
        let oid = oid(value.column_type());
        for format in [WireFormat::Text, WireFormat::Binary] {
            let bytes = written(&value, format);
            let found = read(oid, format, &bytes);
            prop_assert_eq!(&found, &Ok(value.clone()));
            // Equal numbers can have other scales.
            prop_assert_eq!(found.unwrap().to_string(), value.to_string());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        oid in prop::sample::select(DECLARED.iter().map(|it| it.0).collect::<Vec<_>>()),
        bytes in any::<Vec<u8>>(),
    ) {
        let _ = read(oid, WireFormat::Text, &bytes);
        let _ = read(oid, WireFormat::Binary, &bytes);
    }

    #[test]
    fn any_numeric_is_read_or_refused(words in prop::collection::vec(0_u16..10_000, 4..12)) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let _ = read(1700, WireFormat::Binary, &bytes);
    }
}
