//! Tests the texts, the bytes, the keys and the limits of arrays.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Array, ArrayDimension, ArrayError, ArrayRef, ElementType};
use crate::key::{decode_key, encode_key};
use crate::value::{ColumnType, Value, ValueRef};

fn array(element: ElementType, text: &str) -> Value {
    Value::parse(ColumnType::Array(element), text).unwrap()
}

fn texts(text: &str) -> Option<Vec<String>> {
    let value = Value::parse(ColumnType::Array(ElementType::Text), text).ok()?;
    let Value::Array(array) = value else {
        unreachable!("an array was read");
    };
    let texts = array.as_ref().values().map(|it| match it {
        ValueRef::Null => "NULL".to_string(),
        value => alloc::format!("'{value}'"),
    });
    Some(texts.collect())
}

#[test]
fn texts_have_elements() {
    for (text, expected) in [
        ("{}", &[][..]),
        ("{ }", &[]),
        (" { } ", &[]),
        ("{1,2}", &["'1'", "'2'"]),
        (" { a b , NULL,null } ", &["'a b'", "NULL", "NULL"]),
        (
            "{\"a,b\", \"NULL\" ,\"q\\\"x\\\\\",\"\"}",
            &["'a,b'", "'NULL'", "'q\"x\\'", "''"],
        ),
        ("{a\\,b}", &["'a,b'"]),
        ("{a\\ }", &["'a '"]),
        ("{{a,b},{c,d}}", &["'a'", "'b'", "'c'", "'d'"]),
    ] {
        let found = texts(text).unwrap_or_else(|| panic!("{text} is an array"));
        assert_eq!(found, expected, "{text}");
    }
    for text in [
        "",
        "{",
        "1,2",
        "{1",
        "{,}",
        "{1,}",
        "{,1}",
        "{\"a}",
        "{\"a\"b}",
        "{a\\",
        "{{1},{2,3}}",
        "{{1},2}",
        "{{{1}},{2}}",
        "{{}}",
        "{1}}",
        "[1:2]={1}",
        "[1:1]",
        "[2:1]={1}",
    ] {
        assert_eq!(texts(text), None, "{text}");
    }
}

#[test]
fn faults_have_their_reasons() {
    for (text, expected) in [
        ("{", ArrayError::Malformed),
        (
            "{{{{{{{1}}}}}}}",
            ArrayError::TooManyDimensions { found: 7 },
        ),
        ("[2:1]={1}", ArrayError::BoundsReversed),
        ("[1:134217727][1:2]={1}", ArrayError::TooManyElements),
        (
            "[2147483647:2147483647]={1}",
            ArrayError::BoundTooLarge { lower: i32::MAX },
        ),
    ] {
        let error = Value::parse(ColumnType::Array(ElementType::Int32), text).unwrap_err();
        assert_eq!(error.array_fault(), Some(expected), "{text}");
    }
    // The fault of an element is that of its type.
    let error = Value::parse(ColumnType::Array(ElementType::Int32), "{1,x}").unwrap_err();
    assert_eq!((error.column_type, &*error.text), (ColumnType::Int32, "x"));
}

#[test]
fn printed_arrays_are_read_again() {
    for text in [
        "{}",
        "{1,NULL,3}",
        "{{1,2},{3,4}}",
        "[0:1]={7,8}",
        "[-1:0][2:3]={{1,2},{3,4}}",
        "{{{1}},{{2}}}",
    ] {
        assert_eq!(array(ElementType::Int64, text).to_string(), text);
    }
    let text = "{\"\",\"NULL\",a,\"b c\",\"\\\"\",\"\\\\\",\"{\",\"a,b\",NULL}";
    assert_eq!(array(ElementType::Text, text).to_string(), text);
    let padded = ColumnType::Array(ElementType::Char(3));
    let value = Value::parse(padded, "{ab,c}").unwrap();
    assert_eq!(padded.shown(&value), "{\"ab \",\"c  \"}");
}

#[test]
fn bytes_that_are_no_array_are_refused() {
    let Value::Array(value) = array(ElementType::Text, "[0:1]={a,NULL}") else {
        unreachable!("an array was read");
    };
    let bytes = value.as_bytes();
    assert!(ArrayRef::from_bytes(bytes).is_some());
    for end in 0..bytes.len() {
        assert!(ArrayRef::from_bytes(&bytes[..end]).is_none(), "{end}");
    }
    let changed = |at: usize, byte: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = byte;
        bytes
    };
    // The type, the dimensions, the length, the mark and the length of an element.
    for bad in [
        changed(0, 16),
        changed(1, 7),
        changed(2, 0),
        changed(5, 0xff),
        changed(10, 2),
        changed(11, 9),
        vec![3, 1, 0, 0, 0, 0, 1, 0, 0, 0],
    ] {
        assert!(ArrayRef::from_bytes(&bad).is_none(), "{bad:?}");
    }
}

#[test]
fn keys_have_the_order_of_arrays() {
    let texts = [
        "{}",
        "{-1}",
        "{1}",
        "{1,0}",
        "{1,2}",
        "[2:3]={1,2}",
        "{{1,2}}",
        "{1,2,0}",
        "{1,NULL}",
        "{2}",
        "{NULL}",
    ];
    let values: Vec<Value> = texts
        .iter()
        .map(|it| array(ElementType::Int32, it))
        .collect();
    for (place, value) in values.iter().enumerate() {
        let key = encode_key([value.as_ref(), ValueRef::Int64(1)]);
        let types = [ColumnType::Array(ElementType::Int32), ColumnType::Int64];
        let decoded = decode_key(&key, &types).unwrap();
        assert!(decoded[0].as_ref().is_same(value.as_ref()), "{value}");
        for end in 0..key.len() {
            assert!(decode_key(&key[..end], &types).is_err());
        }
        for other in &values[place + 1..] {
            let other_key = encode_key([other.as_ref(), ValueRef::Int64(0)]);
            assert!(value < other, "{value} {other}");
            assert!(key < other_key, "{value} {other}");
        }
    }
}

#[test]
fn names_of_types_have_brackets() {
    for (name, element) in [
        ("INT[]", ElementType::Int32),
        ("int [3][]", ElementType::Int32),
        ("varchar(7)[]", ElementType::Varchar(7)),
        ("timestamp with time zone[]", ElementType::TimestampTz),
        (
            "numeric(5,2)[]",
            ElementType::Decimal {
                precision: 5,
                scale: 2,
            },
        ),
    ] {
        let column_type = ColumnType::Array(element);
        assert_eq!(ColumnType::parse(name), Some(column_type), "{name}");
        let printed = column_type.to_string();
        assert_eq!(ColumnType::parse(&printed), Some(column_type), "{printed}");
    }
    for other in ["int]", "[]", "int[x]", "int[][", "nosuch[]", "varchar(0)[]"] {
        assert_eq!(ColumnType::parse(other), None, "{other}");
    }
}

#[test]
fn limits_are_those_of_the_elements() {
    let column = ColumnType::Array(ElementType::Varchar(2));
    let short = array(ElementType::Text, "{ab,\"c  \",NULL}");
    let stored = short.clone().assigned(column).unwrap();
    assert_eq!(stored.to_string(), "{ab,\"c \",NULL}");
    assert!(array(ElementType::Text, "{abc}").assigned(column).is_err());
    let cut = array(ElementType::Text, "{abc}").cast(column).unwrap();
    assert_eq!(cut.to_string(), "{ab}");
    assert!(!column.admits(short.as_ref()));
}

#[test]
fn dimensions_without_elements_are_those_of_no_array() {
    let dimensions = [ArrayDimension {
        length: 0,
        lower: 5,
    }];
    let empty = Array::new(ElementType::Int32, &dimensions, [].into_iter()).unwrap();
    assert_eq!(
        empty.as_bytes(),
        Array::empty(ElementType::Int32).as_bytes()
    );
    assert_eq!(empty.as_ref().dimension_count(), 0);
}
