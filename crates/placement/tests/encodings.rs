//! Keys and rows: the order of keys is the order of values, written values are read back, and no
//! bytes make a decoder panic.

mod cases;

use cases::{column, column_type, config, value, value_or_null};
use placement::{
    Column, ColumnType, KEY_BYTES_MAX, KeyError, ROW_BYTES_MAX, RowError, RowView, Value, ValueRef,
    decode_key, encode_key, encode_row, encode_row_refs, key_has_null, prefix_end,
};
use proptest::prelude::*;

fn key(values: &[Value]) -> Vec<u8> {
    encode_key(values.iter().map(Value::as_ref))
}

fn tuple(types: &[ColumnType]) -> impl Strategy<Value = Vec<Value>> + use<> {
    types
        .iter()
        .map(|it| value_or_null(*it))
        .collect::<Vec<_>>()
}

/// Two tuples of the same types with equal first columns in many cases.
fn two_tuples() -> impl Strategy<Value = (Vec<ColumnType>, Vec<Value>, Vec<Value>)> {
    prop::collection::vec(column_type(), 1..5).prop_flat_map(|types| {
        let pair = (
            Just(types.clone()),
            tuple(&types),
            tuple(&types),
            0..=types.len(),
        );
        pair.prop_map(|(types, a, mut b, shared)| {
            b[..shared].clone_from_slice(&a[..shared]);
            (types, a, b)
        })
    })
}

/// Columns with a row of values for them.
fn row() -> impl Strategy<Value = (Vec<Column>, Vec<Value>)> {
    prop::collection::vec(column_type(), 1..20).prop_flat_map(|types| {
        let columns: Vec<Column> = types
            .iter()
            .enumerate()
            .map(|(number, it)| Column {
                nullable: true,
                ..column(&format!("c{number}"), *it)
            })
            .collect();
        (Just(columns), tuple(&types))
    })
}

/// Reads every part. A part that parses must also encode again.
fn read_all(columns: &[Column], bytes: &[u8]) {
    let Ok(row) = RowView::parse(columns, bytes) else {
        return;
    };
    let values = row.to_values();
    assert_eq!(values.len(), columns.len());
    let again = encode_row(columns, &values).expect("values that were read are of their types");
    let reread = RowView::parse(columns, &again).expect("what is written can be read");
    assert_eq!(reread.to_values(), values);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn key_order_is_value_order((types, a, b) in two_tuples()) {
        let (key_a, key_b) = (key(&a), key(&b));
        prop_assert_eq!(key_a.cmp(&key_b), a.cmp(&b));
        prop_assert_eq!(decode_key(&key_a, &types), Ok(a.clone()));
        prop_assert_eq!(key_has_null(a.iter().map(Value::as_ref)), a.contains(&Value::Null));
        for bytes in 0..key_a.len() {
            prop_assert!(decode_key(&key_a[..bytes], &types).is_err(), "a cut key is no key");
        }
    }

    #[test]
    fn no_column_is_a_prefix_of_another(
        (a, b) in column_type().prop_flat_map(|it| (value_or_null(it), value_or_null(it)))
    ) {
        let (key_a, key_b) = (encode_key([a.as_ref()]), encode_key([b.as_ref()]));
        prop_assert_eq!(key_a.starts_with(&key_b), a == b);
    }

    #[test]
    fn prefix_end_bounds_exactly_the_prefix(
        prefix in prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xfe, 0xff]), 0..4),
        key in prop::collection::vec(prop::sample::select(vec![0u8, 1, 0xfe, 0xff]), 0..6),
    ) {
        let below = prefix_end(&prefix).is_none_or(|end| key < end);
        prop_assert_eq!(key.starts_with(&prefix), prefix <= key && below);
    }

    #[test]
    fn any_bytes_are_a_key_or_an_error(
        types in prop::collection::vec(column_type(), 0..4),
        bytes in prop::collection::vec(prop_oneof![0..4u8, Just(0xff), any::<u8>()], 0..40),
    ) {
        if let Ok(values) = decode_key(&bytes, &types) {
            prop_assert_eq!(key(&values), bytes, "one encoding per value");
        }
    }

    #[test]
    fn rows_read_back((columns, values) in row(), shown in 0..20usize) {
        let bytes = encode_row(&columns, &values).unwrap();
        let refs: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
        prop_assert_eq!(&encode_row_refs(&columns, &refs).unwrap(), &bytes);
        let row = RowView::parse(&columns, &bytes).unwrap();
        prop_assert_eq!(row.to_values(), values.clone());
        let index = shown % columns.len();
        prop_assert_eq!(row.column(index), values[index].as_ref());
    }

    #[test]
    fn columns_added_later_read_as_their_value_in_earlier_rows(
        (columns, values) in row(),
        kept in 0..20usize,
        default in value(ColumnType::Text),
    ) {
        let kept = kept % columns.len();
        let bytes = encode_row(&columns[..kept], &values[..kept]).unwrap();
        let mut columns = columns;
        columns.push(Column { missing: Some(default.clone()), ..column("new", ColumnType::Text) });
        let row = RowView::parse(&columns, &bytes).unwrap();
        let mut expected = values[..kept].to_vec();
        expected.resize(columns.len() - 1, Value::Null);
        expected.push(default);
        prop_assert_eq!(row.to_values(), expected);
        if kept > 0 {
            let fewer = RowView::parse(&columns[..kept - 1], &bytes).map(|_| ());
            prop_assert_eq!(fewer, Err(RowError::Newer));
        }
    }

    #[test]
    fn cut_or_flipped_rows_never_panic(
        (columns, values) in row(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u32), 1..4),
    ) {
        let bytes = encode_row(&columns, &values).unwrap();
        for cut in 0..bytes.len() {
            let cut = RowView::parse(&columns, &bytes[..cut]).map(|_| ());
            prop_assert!(cut.is_err(), "a cut row is no row");
        }
        let mut flipped = bytes;
        for (at, bit) in flips {
            let at = at.index(flipped.len());
            flipped[at] ^= 1 << bit;
        }
        read_all(&columns, &flipped);
    }

    #[test]
    fn any_bytes_are_a_row_or_an_error(
        (columns, _) in row(),
        mut bytes in prop::collection::vec(prop_oneof![0..9u8, any::<u8>()], 0..80),
        count in 0..21u8,
        flags in 0..8u8,
    ) {
        read_all(&columns, &bytes);
        // With a header that may be right, the check gets further.
        bytes.splice(0..0, [count, flags << 3]);
        read_all(&columns, &bytes);
    }

    #[test]
    fn printed_values_parse_back(
        (column_type, value) in column_type().prop_flat_map(|it| (Just(it), value(it)))
    ) {
        let text = value.to_string();
        prop_assert_eq!(Value::parse(column_type, &text), Ok(value), "{}", text);
    }

    #[test]
    fn any_text_is_a_value_or_an_error(
        column_type in column_type(),
        text in prop_oneof![any::<String>(), "[-0-9 :.TZ+BCex\\\\]{0,30}", "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.+-]{0,12}"],
    ) {
        if let Ok(value) = Value::parse(column_type, &text) {
            prop_assert_eq!(value.column_type(), Some(column_type.of_values()));
            prop_assert_eq!(Value::parse(column_type, &value.to_string()), Ok(value));
        }
    }
}

#[test]
fn golden_row() {
    let types = [
        ColumnType::Int64,
        ColumnType::Text,
        ColumnType::Bool,
        ColumnType::Text,
    ];
    let columns: Vec<Column> = types
        .iter()
        .map(|it| Column {
            nullable: true,
            ..column("c", *it)
        })
        .collect();
    let values = [
        Value::Int64(1),
        Value::Text("ab".into()),
        Value::Null,
        Value::Text("c".into()),
    ];
    let mut expected = vec![4, 1 << 5, 0b0100, 8, 10, 10, 11];
    expected.extend([1, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']);
    assert_eq!(encode_row(&columns, &values).unwrap(), expected);
}

#[test]
fn wide_rows_take_wide_offsets() {
    let columns = [
        column("a", ColumnType::Bytes),
        column("b", ColumnType::Bytes),
    ];
    for (bytes, width) in [
        (100, 1),
        (127, 1),
        (128, 2),
        (32_767, 2),
        (32_768, 4),
        (200_000, 4),
    ] {
        let values = [Value::Bytes(vec![1; bytes]), Value::Bytes(vec![2; bytes])];
        let row = encode_row(&columns, &values).unwrap();
        assert_eq!(row.len(), 2 + 2 * width + 2 * bytes);
        assert_eq!(RowView::parse(&columns, &row).unwrap().to_values(), values);
    }
}

#[test]
fn small_row_overhead_is_bounded() {
    let columns: Vec<Column> = (0..10)
        .map(|it| column(&format!("field{it}"), ColumnType::Text))
        .collect();
    let values = vec![Value::Text("0123456789".into()); 10];
    assert_eq!(encode_row(&columns, &values).unwrap().len(), 112);
}

#[test]
fn bad_rows_name_the_column() {
    let columns = [
        column("a", ColumnType::Int64),
        column("b", ColumnType::Bytes),
    ];
    let message = |values: &[Value]| encode_row(&columns, values).unwrap_err().to_string();
    assert_eq!(
        message(&[Value::Int64(1)]),
        "1 values for 2 columns: give one value per column"
    );
    assert_eq!(
        message(&[Value::Null, Value::Bytes(vec![])]),
        "column a is NOT NULL: give it a value"
    );
    assert_eq!(
        message(&[Value::Bool(true), Value::Bytes(vec![])]),
        "column a is of type bigint, the value of type boolean: convert it"
    );
    let fits = ROW_BYTES_MAX - 2 - 2 * 4 - 8;
    assert!(encode_row(&columns, &[Value::Int64(1), Value::Bytes(vec![0; fits])]).is_ok());
    assert_eq!(
        encode_row(
            &columns,
            &[Value::Int64(1), Value::Bytes(vec![0; fits + 1])]
        ),
        Err(RowError::TooLong {
            bytes: ROW_BYTES_MAX + 1
        })
    );
    let too_long = vec![0; ROW_BYTES_MAX + 1];
    assert_eq!(
        RowView::parse(&columns, &too_long).map(|_| ()),
        Err(RowError::TooLong {
            bytes: ROW_BYTES_MAX + 1
        })
    );
}

#[test]
fn rows_of_a_later_format_are_refused() {
    let columns = [column("a", ColumnType::Bool)];
    for header in [1 | 1 << 14, 1 | 1 << 15, 1 | 3 << 11, 2u16] {
        let mut bytes = header.to_le_bytes().to_vec();
        bytes.extend([1, 1]);
        assert_eq!(
            RowView::parse(&columns, &bytes).map(|_| ()),
            Err(RowError::Newer)
        );
    }
}

#[test]
fn no_byte_of_a_row_is_without_meaning() {
    let columns = [Column {
        nullable: true,
        ..column("a", ColumnType::Bool)
    }];
    let row = encode_row(&columns, &[Value::Null]).unwrap();
    let parse = |bytes: &[u8]| RowView::parse(&columns, bytes).map(|row| row.to_values());
    assert_eq!(parse(&row), Ok(vec![Value::Null]));
    let longer = [row.as_slice(), &[0]].concat();
    assert_eq!(parse(&longer), Err(RowError::Length));
    let mut null_beyond = row;
    null_beyond[2] |= 0b10;
    assert_eq!(parse(&null_beyond), Err(RowError::Malformed { column: 1 }));
}

#[test]
fn long_keys_name_the_limit() {
    let long = key(&[Value::Text("x".repeat(KEY_BYTES_MAX))]);
    let error = placement::check_key_bytes(&long).unwrap_err();
    assert_eq!(
        error,
        KeyError::TooLong {
            bytes: KEY_BYTES_MAX + 3
        }
    );
    assert_eq!(
        error.to_string(),
        "the key takes 1027 bytes, the limit is 1024: index shorter columns or a hash of them"
    );
}
