//! Tests changes and conditions of `json` and `jsonb` over the model, which evaluates them as the
//! servers do.

use super::tests::{done, error, rows};
use crate::model::Model;

#[test]
fn conditions_and_changes_are_evaluated_with_the_row() {
    let session = &mut Model::session(
        "CREATE TABLE docs (id bigint PRIMARY KEY, raw json, doc jsonb DEFAULT '{}',
             CONSTRAINT is_object CHECK (jsonb_typeof(doc) = 'object'),
             CONSTRAINT has_name CHECK (doc ?| '{name,title}' OR doc = '{}'));
         INSERT INTO docs VALUES (1, ' {\"b\": 1, \"a\": 2} ', '{\"name\":\"x\", \"n\":1}'),
             (2, NULL, '{\"title\":\"y\", \"tags\":[\"p\"]}');
         INSERT INTO docs (id) VALUES (3);",
    );
    assert_eq!(
        rows(session, "SELECT raw, doc FROM docs WHERE id = 1"),
        [" {\"b\": 1, \"a\": 2} |{\"n\": 1, \"name\": \"x\"}"]
    );
    let failure = error(session, "INSERT INTO docs VALUES (4, NULL, '[]')");
    assert!(failure.contains("has_name"), "{failure}");
    done(
        session,
        "UPDATE docs SET doc = jsonb_set(doc, '{n}', to_jsonb((doc -> 'n')::int + 1)) \
         WHERE doc ->> 'name' = 'x'",
    );
    done(
        session,
        "UPDATE docs SET doc = jsonb_set(doc, '{tags,-1}', '\"q\"') - 'title' || \
         '{\"name\": null}' WHERE doc @> '{\"tags\": [\"p\"]}'",
    );
    assert_eq!(
        rows(session, "SELECT id, doc FROM docs ORDER BY id"),
        [
            "1|{\"n\": 2, \"name\": \"x\"}",
            "2|{\"name\": null, \"tags\": [\"q\"]}",
            "3|{}"
        ]
    );
    let failure = error(session, "UPDATE docs SET doc = doc - 'name' WHERE id = 1");
    assert!(failure.contains("has_name"), "{failure}");
    done(
        session,
        "INSERT INTO docs VALUES (1, '1', '{}') ON CONFLICT (id) DO UPDATE \
         SET raw = excluded.raw, doc = docs.doc || '{\"seen\": true}'",
    );
    assert_eq!(
        rows(session, "SELECT raw, doc -> 'seen' FROM docs WHERE id = 1"),
        ["1|true"]
    );
}

#[test]
fn keys_have_an_order() {
    let session = &mut Model::session(
        "CREATE TABLE keyed (k jsonb PRIMARY KEY, n bigint);
         CREATE UNIQUE INDEX by_n ON keyed (n, k);
         INSERT INTO keyed VALUES ('{\"a\": 1.50}', 1), ('[]', 2), ('7', 3);",
    );
    assert_eq!(
        rows(session, "SELECT k FROM keyed WHERE k = '{\"a\":1.5}'"),
        ["{\"a\": 1.50}"]
    );
    let failure = error(session, "INSERT INTO keyed VALUES ('{\"a\": 1.5}', 4)");
    assert!(failure.contains("already has a row"), "{failure}");
    assert_eq!(
        rows(session, "SELECT k FROM keyed ORDER BY k"),
        ["[]", "7", "{\"a\": 1.50}"]
    );
    for text in [
        "CREATE TABLE refused (k json PRIMARY KEY)",
        "CREATE TABLE refused (id bigint PRIMARY KEY, k json UNIQUE)",
    ] {
        let failure = error(session, text);
        assert!(failure.contains("no order"), "{text}: {failure}");
    }
}

#[test]
fn depth_has_a_limit() {
    let session = &mut Model::session("");
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let deep = nested(placement::JSON_DEPTH_MAX);
    assert_eq!(
        rows(
            session,
            &format!(
                "SELECT ('{deep}'::jsonb -> 0) || '1' < '{deep}', '{deep}'::json #>> '{{0,0}}'"
            )
        ),
        [format!("f|{}", nested(placement::JSON_DEPTH_MAX - 2))]
    );
    let deeper = nested(placement::JSON_DEPTH_MAX + 2);
    error(session, &format!("SELECT '{deeper}'::jsonb"));
    for wrapped in [
        format!("jsonb_build_array(jsonb_build_array('{deep}'::jsonb))"),
        format!("jsonb_set('[[]]', '{{0,0}}', '{deep}')"),
        format!("json_build_array(json_build_array('{deep}'::json))"),
    ] {
        let failure = error(session, &format!("SELECT {wrapped}::text"));
        assert!(failure.contains("deeper"), "{failure}");
    }
}

#[test]
fn prepared_statements_infer_json() {
    use crate::describe::describe;
    use crate::fixture;
    use crate::session_functions::tests::Version;
    let described = |text: &str| {
        let statement = crate::parse(text).unwrap().remove(0).statement;
        let found = describe(&statement, &fixture::configuration(), &[], &Version).unwrap();
        let parameters: Vec<&str> = found.parameters.iter().map(|it| it.name()).collect();
        let columns = found.columns.unwrap_or_default();
        let columns = columns
            .iter()
            .map(|it| it.column_type.map_or("NULL", |it| it.name()));
        let columns: Vec<&str> = columns.collect();
        format!("{} -> {}", parameters.join(", "), columns.join(", "))
    };
    for (text, expected) in [
        (
            "SELECT $1::jsonb -> $2, $3::json ->> 0",
            "jsonb, text, json -> jsonb, text",
        ),
        (
            "SELECT $1::jsonb || $2, $3::jsonb - $4",
            "jsonb, jsonb, jsonb, text -> jsonb, jsonb",
        ),
        (
            "SELECT $1::jsonb @> $2, $3::jsonb ? $4",
            "jsonb, jsonb, jsonb, text -> boolean, boolean",
        ),
        (
            "SELECT jsonb_set($1, $2, $3, $4), $5::json #> ARRAY[$6]",
            "jsonb, text, jsonb, boolean, json, text -> jsonb, json",
        ),
        (
            "SELECT to_jsonb(note), jsonb_typeof($1) FROM flights",
            "jsonb -> jsonb, text",
        ),
    ] {
        assert_eq!(described(text), expected, "{text}");
    }
}
