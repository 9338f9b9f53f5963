//! The types that statements give to their parameters and results.

use super::*;
use crate::fixture;
use crate::parse::parse;
use crate::session_functions::tests::Version;

fn described(text: &str, declared: &[Option<ColumnType>]) -> Result<String, SqlError> {
    let statement = parse(text).unwrap().remove(0).statement;
    let configuration = fixture::configuration();
    let found = describe(&statement, &configuration, declared, &Version)?;
    let parameters = found.parameters.iter().map(|it| it.name());
    let columns = found.columns.map(|columns| {
        let columns = columns.iter().map(|column| {
            let name = column.column_type.map_or("NULL", ColumnType::name);
            format!("{} {name}", column.name)
        });
        columns.collect::<Vec<_>>().join(", ")
    });
    let parameters = parameters.collect::<Vec<_>>().join(", ");
    Ok(format!(
        "{parameters} -> {}",
        columns.as_deref().unwrap_or("nothing")
    ))
}

#[test]
fn parameters_have_the_types_of_their_places() {
    for (text, expected) in [
        ("SELECT $1", "text -> ?column? text"),
        (
            "SELECT id FROM flights WHERE tailnum = $1 AND id < $2",
            "text, bigint -> id bigint",
        ),
        (
            "SELECT count(*), max(dep_delay) FROM flights WHERE $1 > dep_delay",
            "double precision -> count bigint, max double precision",
        ),
        (
            "SELECT id FROM flights WHERE (origin, id) = ($1, $2) LIMIT $3 OFFSET $4",
            "text, bigint, bigint, bigint -> id bigint",
        ),
        (
            "SELECT id + $1, dep_delay * $2 AS late FROM flights WHERE scheduled BETWEEN $3 AND $4",
            "bigint, double precision, timestamp, timestamp -> \
             ?column? bigint, late double precision",
        ),
        (
            "SELECT note LIKE $1, $2::bigint, NULL FROM flights WHERE id IN ($3, $4)",
            "text, bigint, bigint, bigint -> ?column? boolean, ?column? bigint, ?column? NULL",
        ),
        (
            "INSERT INTO flights (id, origin, dest, cancelled) VALUES ($1, $2, DEFAULT, $3)",
            "bigint, text, boolean -> nothing",
        ),
        (
            "INSERT INTO users VALUES ($1, $2, $3, $4) ON CONFLICT (region, number) DO UPDATE \
             SET n = users.n + $5 WHERE excluded.email = $6",
            "text, bigint, text, bigint, bigint, text -> nothing",
        ),
        (
            "UPDATE flights SET note = $1, dep_delay = $2 WHERE id = $3 AND NOT cancelled = $4",
            "text, double precision, bigint, boolean -> nothing",
        ),
        (
            "DELETE FROM flights WHERE id = 1 + $1 OR scheduled = $2",
            "integer, timestamp -> nothing",
        ),
        (
            "SELECT version(), 1 < $1",
            "integer -> version text, ?column? boolean",
        ),
        ("SHOW scan", " -> scan text"),
        (
            "EXPLAIN SELECT id FROM flights WHERE id = $1",
            "bigint -> QUERY PLAN text",
        ),
        ("BEGIN", " -> nothing"),
    ] {
        assert_eq!(described(text, &[]).unwrap(), expected, "{text}");
    }
}

#[test]
fn declared_types_stay() {
    let declared = [None, Some(ColumnType::Float64)];
    let text = "SELECT id FROM flights WHERE id = $1 AND id > $2";
    let expected = "bigint, double precision -> id bigint";
    assert_eq!(described(text, &declared).unwrap(), expected);
}

#[test]
fn missing_objects_are_found_without_values() {
    let fails = |text| described(text, &[]).unwrap_err();
    assert!(matches!(
        fails("SELECT * FROM missing WHERE id = $1"),
        SqlError::UnknownTable { .. }
    ));
    for text in [
        "SELECT missing FROM flights",
        "SELECT id FROM flights WHERE missing = $1",
        "INSERT INTO flights (missing) VALUES ($1)",
        "UPDATE flights SET missing = $1",
    ] {
        let error = fails(text);
        assert!(matches!(error, SqlError::UnknownColumn { .. }), "{text}");
    }
    assert!(described("SELECT $65536", &[]).is_err());
    let deep = format!("SELECT {}$1", "- ".repeat(100));
    assert!(parse(&deep).is_err() || described(&deep, &[]).is_err());
}
