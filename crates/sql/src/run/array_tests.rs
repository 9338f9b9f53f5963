//! Tests changes and conditions of arrays over the model, which evaluates them as the servers do.

use super::tests::{done, error, rows};
use crate::model::Model;

#[test]
fn columns_have_arrays() {
    let session = &mut Model::session(
        "CREATE TABLE posts (id bigint PRIMARY KEY, tags text[] NOT NULL DEFAULT '{new}',
             grid int[][], prices numeric(5,2)[], codes varchar(3)[],
             CONSTRAINT few CHECK (cardinality(tags) <= 3));
         INSERT INTO posts (id, grid, prices) VALUES (1, '{{1,2},{3,NULL}}', '{1.005,NULL}');
         INSERT INTO posts VALUES (2, ARRAY['a', 'b c'], NULL, ARRAY[1, 2], '{ab,\"c  \"}');",
    );
    assert_eq!(
        rows(session, "SELECT * FROM posts ORDER BY id"),
        [
            "1|{new}|{{1,2},{3,NULL}}|{1.01,NULL}|",
            "2|{a,\"b c\"}||{1.00,2.00}|{ab,\"c  \"}"
        ]
    );
    let failure = error(
        session,
        "INSERT INTO posts (id, tags) VALUES (3, '{a,b,c,d}')",
    );
    assert!(failure.contains("few"), "{failure}");
    error(
        session,
        "INSERT INTO posts (id, codes) VALUES (3, '{abcd}')",
    );
    error(
        session,
        "INSERT INTO posts (id, prices) VALUES (3, '{1000}')",
    );
    error(session, "INSERT INTO posts (id, tags) VALUES (3, '{a')");
    error(session, "UPDATE posts SET tags = ARRAY[1]");
    error(session, "SELECT unnest(tags) FROM posts");
    error(session, "SELECT 1 = ANY (SELECT id FROM posts)");
}

#[test]
fn elements_are_not_assigned() {
    let session = &mut Model::session("CREATE TABLE posts (id bigint PRIMARY KEY, tags text[])");
    let failure = error(session, "UPDATE posts SET tags[1] = 'a' WHERE id = 1");
    assert!(failure.contains("element"), "{failure}");
}

#[test]
fn changes_find_rows_by_arrays() {
    let session = &mut Model::session(
        "CREATE TABLE flights (id bigint PRIMARY KEY, origin text, n int[]);
         CREATE INDEX by_origin ON flights (origin);
         CREATE UNIQUE INDEX by_n ON flights (n);
         INSERT INTO flights VALUES (1, 'A', '{1}'), (2, 'B', '{2}'), (3, 'C', NULL),
             (4, NULL, '{4,NULL}'), (5, 'A', '{5}');",
    );
    for (condition, plan) in [
        ("id = ANY ('{1,NULL,3}')", "id IN (1, NULL, 3)"),
        ("origin = ANY (ARRAY['A', 'C'])", "origin IN ('A', 'C')"),
        ("n = '{1}'", "n = ARRAY[1]"),
    ] {
        let explained = rows(
            session,
            &format!("EXPLAIN SELECT * FROM flights WHERE {condition}"),
        );
        let expected = rows(
            session,
            &format!("EXPLAIN SELECT * FROM flights WHERE {plan}"),
        );
        assert_eq!(explained, expected, "{condition}");
    }
    done(
        session,
        "UPDATE flights SET n = n || 7 WHERE id = ANY ('{1,3,99}'::bigint[])",
    );
    done(
        session,
        "DELETE FROM flights WHERE origin = ANY ('{B,NULL}')",
    );
    assert_eq!(
        rows(
            session,
            "SELECT id, n FROM flights WHERE origin <> ALL ('{X}') ORDER BY id"
        ),
        ["1|{1,7}", "3|{7}", "5|{5}"]
    );
    error(session, "INSERT INTO flights VALUES (6, 'F', '{1,7}')");
    done(
        session,
        "INSERT INTO flights VALUES (5, 'G', '{}') ON CONFLICT (id) DO UPDATE \
         SET n = array_cat(excluded.n, flights.n)",
    );
    assert_eq!(
        rows(
            session,
            "SELECT id FROM flights WHERE n @> '{5}' OR n[1] = 4 ORDER BY n"
        ),
        ["4", "5"]
    );
}
