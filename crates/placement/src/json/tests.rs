//! Tests of trees of JSON: their texts, order, keys and paths.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn json(text: &str) -> Json {
    Json::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn texts_have_one_form() {
    for (text, expected) in [
        (
            " { \"bb\" : 1 , \"a\":[ 1.50,-0, 1e2 ] } ",
            "{\"a\": [1.50, 0, 100], \"bb\": 1}",
        ),
        ("{\"a\":1,\"a\":2}", "{\"a\": 2}"),
        ("\"\\u00e4\\ud83d\\ude00\\/\\n\"", "\"\u{e4}\u{1f600}/\\n\""),
        ("[]", "[]"),
        ("{}", "{}"),
        (" null", "null"),
        ("\"\\u0001\\b\"", "\"\\u0001\\b\""),
    ] {
        assert_eq!(json(text).to_string(), expected, "{text}");
        assert_eq!(json(expected).to_string(), expected, "{text}");
    }
}

#[test]
fn faults_are_those_of_postgresql() {
    use JsonError::{NumberRange, Syntax, TooDeep, ZeroCharacter};
    for (text, fault, plain) in [
        ("", Syntax, Some(Syntax)),
        ("[1,]", Syntax, Some(Syntax)),
        ("{\"a\"}", Syntax, Some(Syntax)),
        ("01", Syntax, Some(Syntax)),
        ("1.", Syntax, Some(Syntax)),
        ("\"\t\"", Syntax, Some(Syntax)),
        ("\"\\x\"", Syntax, Some(Syntax)),
        ("tru", Syntax, Some(Syntax)),
        ("1 2", Syntax, Some(Syntax)),
        ("\"\\u0000\"", ZeroCharacter, None),
        ("\"\\ud800\"", Syntax, None),
        ("\"\\udc00\"", Syntax, None),
        ("\"\\ud800\\u0041\"", Syntax, None),
        ("1e200000", NumberRange, None),
        (&"[".repeat(JSON_DEPTH_MAX + 2), TooDeep, Some(TooDeep)),
    ] {
        assert_eq!(Json::parse(text).err(), Some(fault), "{text}");
        assert_eq!(check_json(text).err(), plain, "{text}");
    }
    let deep = format!(
        "{}{}",
        "[".repeat(JSON_DEPTH_MAX),
        "]".repeat(JSON_DEPTH_MAX)
    );
    let tree = json(&deep);
    assert_eq!(tree.to_string(), deep);
    assert!(tree.is_within_depth());
    let wrapped = Json::Array(Vec::from([Json::Array(Vec::from([tree]))]));
    assert!(!wrapped.is_within_depth());
    assert!(Json::parse(&wrapped.to_string()).is_err());
}

#[test]
fn order_is_that_of_postgresql() {
    let sorted = [
        "[]",
        "null",
        "\"\"",
        "\"a\"",
        "\"b\"",
        "-1",
        "2",
        "10",
        "false",
        "true",
        "[null]",
        "[1]",
        "[[]]",
        "[{}]",
        "[1, 2]",
        "{}",
        "{\"a\": 1}",
        "{\"a\": 2}",
        "{\"b\": 0}",
        "{\"a\": 1, \"b\": 0}",
        "{\"aa\": 1, \"b\": 0}",
    ];
    // The first key of the last object but one is "a", that of the last one "b".
    for pair in sorted.windows(2) {
        assert!(json(pair[0]) < json(pair[1]), "{pair:?}");
    }
    assert_eq!(json("[1.0]"), json("[1.00]"));
}

#[test]
fn parts_are_as_written() {
    let parts = |text| {
        let parts = json_parts(text).unwrap();
        parts.map(|parts| {
            let parts = parts.into_iter().map(|it| (it.key, it.text));
            parts.collect::<Vec<(Option<String>, &str)>>()
        })
    };
    assert_eq!(
        parts(" {\"\\u0061\" : [1 , 2], \"b\":{ }}"),
        Some(Vec::from([
            (Some("a".into()), "[1 , 2]"),
            (Some("b".into()), "{ }")
        ]))
    );
    assert_eq!(parts("[ 1,\"x\" ]").map(|it| it.len()), Some(2));
    assert_eq!(parts(" 1 "), None);
}

#[test]
fn paths_are_edited_as_in_postgresql() {
    let one = json("1");
    for (text, path, edit, expected) in [
        (
            "{\"a\": [0]}",
            &["a", "0"][..],
            PathEdit::Set(&one),
            "{\"a\": [1]}",
        ),
        (
            "{\"a\": [0]}",
            &["a", "7"],
            PathEdit::Set(&one),
            "{\"a\": [0, 1]}",
        ),
        (
            "{\"a\": [0]}",
            &["a", "-7"],
            PathEdit::Set(&one),
            "{\"a\": [1, 0]}",
        ),
        (
            "{\"a\": [0]}",
            &["a", "7"],
            PathEdit::Replace(&one),
            "{\"a\": [0]}",
        ),
        (
            "{\"a\": [0]}",
            &["b", "c"],
            PathEdit::Set(&one),
            "{\"a\": [0]}",
        ),
        (
            "{\"a\": [0]}",
            &["b"],
            PathEdit::Set(&one),
            "{\"a\": [0], \"b\": 1}",
        ),
        (
            "{\"a\": [0]}",
            &["a", "-1"],
            PathEdit::Remove,
            "{\"a\": []}",
        ),
        ("{}", &["a"], PathEdit::Remove, "{}"),
    ] {
        let path: Vec<Option<&str>> = path.iter().copied().map(Some).collect();
        let edited = json(text).edited(&path, edit).unwrap();
        assert_eq!(edited.to_string(), expected, "{text} {path:?}");
    }
    let edited = json("[0]").edited(&[Some("a")], PathEdit::Remove);
    assert_eq!(edited.err(), Some(JsonError::NoPosition));
    assert_eq!(
        json("[0]").edited(&[None], PathEdit::Remove).err(),
        Some(JsonError::NullStep)
    );
    assert_eq!(
        json("1").edited(&[], PathEdit::Set(&one)).err(),
        Some(JsonError::NotSettable)
    );
}

fn trees() -> impl Strategy<Value = Json> {
    let number = prop_oneof![
        Just("0"),
        Just("-1.50"),
        Just("1.5"),
        Just("123456789012345678901")
    ];
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        number.prop_map(|it| Json::Number(Numeric::parse(it).unwrap())),
        "[ab\u{1}\u{7f}\u{e4}\"\\\\]{0,3}".prop_map(Json::String),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let key = "[ab\"]{0,2}";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::Array),
            prop::collection::vec((key, inner), 0..3).prop_map(Json::object),
        ]
    })
}

proptest! {
    #[test]
    fn texts_read_back(tree in trees()) {
        let text = tree.to_string();
        prop_assert_eq!(json(&text).to_string(), text.clone());
        prop_assert_eq!(json(&text), tree);
        prop_assert!(check_json(&text).is_ok());
    }

    #[test]
    fn keys_have_the_order_of_values(left in trees(), right in trees()) {
        let key = |tree: &Json| {
            let mut bytes = Vec::new();
            tree.write_key(&mut |it| bytes.extend_from_slice(it));
            bytes
        };
        prop_assert_eq!(key(&left).cmp(&key(&right)), left.cmp(&right));
        let bytes = key(&left);
        let mut rest = &bytes[..];
        prop_assert_eq!(Json::read_key(&mut rest), Ok(left));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[\\[\\]{}:,\"\\\\u0dtruefalsn1.e-]{0,24}") {
        let read = Json::parse(&text);
        if read.is_ok() {
            prop_assert!(check_json(&text).is_ok());
        }
        let _ = json_parts(&text);
    }

    #[test]
    fn any_key_is_read_without_a_panic(bytes in prop::collection::vec(0u8..8, 0..24)) {
        let _ = Json::read_key(&mut &bytes[..]);
    }
}
