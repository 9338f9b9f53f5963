//! Tests sequences, and the columns whose defaults come from them.

use super::*;
use crate::model::{Model, block_on};

/// Runs statements one after the other. Returns for each the values of its rows, its tag, or its
/// error.
fn outcomes(session: &mut SqlSession<Model>, texts: &[&str]) -> Vec<String> {
    let run = |text: &&str| match block_on(session.run_text(text)) {
        Ok(mut outcomes) => match outcomes.remove(0) {
            StatementOutcome::Rows(rows) | StatementOutcome::Returned(rows, _) => {
                let row = |row: &Vec<Value>| {
                    let values: Vec<String> = row.iter().map(ToString::to_string).collect();
                    values.join(" ")
                };
                let rows: Vec<String> = rows.rows.iter().map(row).collect();
                rows.join(", ")
            }
            StatementOutcome::Done(tag) => tag,
            other => format!("{other:?}"),
        },
        Err(error) => error.error.to_string(),
    };
    texts.iter().map(run).collect()
}

pub(super) fn check(session: &mut SqlSession<Model>, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let found = outcomes(session, &[*text]);
        assert!(
            found[0].contains(expected),
            "{text}\n{}\n{expected}",
            found[0]
        );
        if expected.is_empty() {
            assert_eq!(found[0], "", "{text}");
        }
    }
}

#[test]
// tidy: long — one session, statement by statement
fn functions_of_sequences() {
    let mut session = Model::session("CREATE SEQUENCE s; CREATE TABLE t (id int PRIMARY KEY)");
    check(
        &mut session,
        &[
            ("SELECT currval('s')", "is not yet defined in this session"),
            ("SELECT lastval()", "lastval is not yet defined"),
            ("SELECT last_value, is_called FROM s", "1 f"),
            ("SELECT nextval('s')", "1"),
            (
                "SELECT nextval('public.s'::regclass), nextval('\"s\"') + 10",
                "2 13",
            ),
            ("SELECT currval('s'), lastval()", "3 3"),
            ("SELECT setval('s', 10)", "10"),
            ("SELECT currval('s'), nextval('s')", "10 11"),
            ("SELECT setval('s', 20, false)", "20"),
            ("SELECT currval('s')", "11"),
            ("SELECT nextval('s')", "20"),
            (
                "SELECT setval('s', 0)",
                "setval: value 0 is out of bounds for sequence \"s\" (1..9223372036854775807)",
            ),
            ("SELECT setval('s', NULL)", ""),
            (
                "SELECT nextval('missing')",
                "relation \"missing\" does not exist",
            ),
            ("SELECT nextval('t')", "\"t\" is not a sequence"),
            (
                "INSERT INTO t VALUES (nextval('s')), (nextval('s') * 100)",
                "INSERT 0 2",
            ),
            ("SELECT id FROM t ORDER BY id", "21, 2200"),
            ("SELECT id FROM t WHERE id = currval('s') - 1", "21"),
            (
                "SELECT id FROM t WHERE id = nextval('s')",
                "nextval here is not supported",
            ),
            ("UPDATE t SET id = nextval('s')", "primary key"),
            (
                "SELECT nextval('s') FROM t",
                "for each row of a table is not supported",
            ),
            (
                "SELECT setval('s', max(id), max(id) IS NOT NULL) FROM t",
                "2200",
            ),
            (
                "SELECT setval('s', coalesce(max(id), 7), max(id) IS NOT NULL) FROM t WHERE id < 0",
                "7",
            ),
            ("SELECT nextval('s')", "7"),
            ("ALTER SEQUENCE s RESTART", "ALTER SEQUENCE"),
            ("SELECT nextval('s')", "1"),
            ("ALTER SEQUENCE s RESTART WITH 40", "ALTER SEQUENCE"),
            ("SELECT nextval('s')", "40"),
            (
                "ALTER SEQUENCE s RESTART WITH 0",
                "RESTART value (0) cannot be less than MINVALUE (1)",
            ),
            (
                "ALTER SEQUENCE missing RESTART",
                "relation \"missing\" does not exist",
            ),
            (
                "ALTER SEQUENCE IF EXISTS missing RESTART",
                "does not exist, skipping",
            ),
            ("EXPLAIN INSERT INTO t VALUES (nextval('s'))", "id"),
            ("SELECT nextval('s')", "41"),
        ],
    );
}

#[test]
fn a_rollback_returns_no_value() {
    let mut session = Model::session("CREATE TABLE t (id serial PRIMARY KEY, n int)");
    check(
        &mut session,
        &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO t (n) VALUES (1), (2) RETURNING id", "1, 2"),
            ("SELECT nextval('t_id_seq')", "3"),
            ("ROLLBACK", "ROLLBACK"),
            ("INSERT INTO t (n) VALUES (1) RETURNING id", "4"),
            ("SELECT lastval()", "4"),
        ],
    );
}

#[test]
// tidy: long — one session, statement by statement
fn serial_and_identity_columns() {
    let mut session = Model::session(
        "CREATE TABLE t (id serial PRIMARY KEY, a int GENERATED ALWAYS AS IDENTITY (START 100), \
         b bigint GENERATED BY DEFAULT AS IDENTITY (INCREMENT -1), c text DEFAULT 'c');
         CREATE SEQUENCE s INCREMENT 5; CREATE TABLE u (id int PRIMARY KEY DEFAULT nextval('s'))",
    );
    check(
        &mut session,
        &[
            ("INSERT INTO t DEFAULT VALUES RETURNING *", "1 100 -1 c"),
            (
                "INSERT INTO t VALUES (DEFAULT, DEFAULT, 7), (50, DEFAULT, DEFAULT) RETURNING *",
                "2 101 7 c, 50 102 -2 c",
            ),
            (
                "INSERT INTO t (c, a) VALUES ('x', 1)",
                "cannot insert a non-DEFAULT value into column \"a\"",
            ),
            (
                "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1), (DEFAULT) RETURNING *",
                "3 1 -3 c, 4 103 -4 c",
            ),
            (
                "INSERT INTO t (id, a, b) OVERRIDING USER VALUE VALUES (60, 1, 1) RETURNING *",
                "60 104 -5 c",
            ),
            (
                "UPDATE t SET a = 5 WHERE id = 1",
                "column \"a\" can only be updated to DEFAULT",
            ),
            ("UPDATE t SET b = 5 WHERE id = 1", "UPDATE 1"),
            ("UPDATE t SET b = DEFAULT WHERE id = 1", "is not supported"),
            (
                "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET c = 'd' RETURNING id, c",
                "1 d",
            ),
            (
                "INSERT INTO t (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET a = 1",
                "can only be updated",
            ),
            ("INSERT INTO u DEFAULT VALUES RETURNING id", "1"),
            ("INSERT INTO u VALUES (DEFAULT) RETURNING id", "6"),
            (
                "SELECT pg_get_serial_sequence('t', 'id')",
                "public.t_id_seq",
            ),
            (
                "SELECT setval(pg_get_serial_sequence('\"t\"', 'id'), 70)",
                "70",
            ),
            ("SELECT pg_get_serial_sequence('t', 'c')", ""),
            ("SELECT pg_get_serial_sequence('u', 'id')", ""),
            ("SELECT pg_get_serial_sequence('t', 'x')", "x"),
            (
                "DROP SEQUENCE s",
                "default value for column id of table u depends on sequence s",
            ),
            ("DROP SEQUENCE t_a_seq", "column a of table t requires it"),
            ("DROP SEQUENCE t", "\"t\" is not a sequence"),
            ("DROP TABLE s", "\"s\" is not a table"),
            (
                "INSERT INTO s VALUES (1, 0, true, 0)",
                "\"s\" is not a table",
            ),
            ("UPDATE s SET last_value = 1", "\"s\" is not a table"),
            ("DELETE FROM s", "\"s\" is not a table"),
            ("CREATE INDEX ON s (last_value)", "\"s\" is not a table"),
            ("DROP TABLE t", "DROP TABLE"),
            (
                "SELECT nextval('t_id_seq')",
                "relation \"t_id_seq\" does not exist",
            ),
            (
                "CREATE TABLE t (id smallserial PRIMARY KEY)",
                "CREATE TABLE",
            ),
            ("INSERT INTO t DEFAULT VALUES RETURNING id", "1"),
            ("SELECT setval('t_id_seq', 32767)", "32767"),
            (
                "INSERT INTO t DEFAULT VALUES",
                "nextval: reached maximum value of sequence \"t_id_seq\" (32767)",
            ),
            ("DROP TABLE u", "DROP TABLE"),
            ("DROP SEQUENCE s, s", "DROP SEQUENCE"),
            ("DROP SEQUENCE s", "sequence \"s\" does not exist"),
            (
                "DROP SEQUENCE IF EXISTS s",
                "sequence \"s\" does not exist, skipping",
            ),
        ],
    );
}

#[test]
fn names_that_are_taken() {
    let mut session = Model::session("CREATE SEQUENCE t_id_seq");
    check(
        &mut session,
        &[
            (
                "CREATE SEQUENCE t_id_seq",
                "relation \"t_id_seq\" already exists",
            ),
            (
                "CREATE SEQUENCE IF NOT EXISTS t_id_seq",
                "already exists, skipping",
            ),
            ("CREATE TABLE t (id serial PRIMARY KEY)", "CREATE TABLE"),
            (
                "SELECT pg_get_serial_sequence('t', 'id')",
                "public.t_id_seq1",
            ),
            ("CREATE TABLE t_id_seq (id int PRIMARY KEY)", "exists"),
            (
                "CREATE TABLE u (id int PRIMARY KEY DEFAULT nextval('missing'))",
                "relation \"missing\" does not exist",
            ),
            (
                "CREATE TABLE u (id text PRIMARY KEY DEFAULT nextval('t_id_seq'))",
                "cannot have the default",
            ),
            (
                "CREATE TABLE u (id serial NULL PRIMARY KEY)",
                "conflicting NULL/NOT NULL",
            ),
            (
                "CREATE TABLE u (id serial DEFAULT 1 PRIMARY KEY)",
                "multiple default values",
            ),
            (
                "CREATE TABLE u (id text GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
                "identity column type must be",
            ),
            (
                "CREATE TABLE u (id int DEFAULT 1 GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
                "both default and identity",
            ),
        ],
    );
}
