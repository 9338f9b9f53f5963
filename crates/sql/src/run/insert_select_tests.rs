//! Tests `INSERT … SELECT`.

use super::sequence_tests::check;
use super::tests::error;
use crate::model::{Model, block_on};

const SETUP: &str = "CREATE TABLE a (id int PRIMARY KEY, n bigint, s text);
    CREATE TABLE b (id bigint PRIMARY KEY, n smallint, s varchar(3), d date);
    CREATE TABLE u (id serial PRIMARY KEY, k int UNIQUE);
    INSERT INTO a VALUES (1, 10, 'x'), (2, 20, NULL), (3, 30, 'zz')";

#[test]
fn rows_of_a_table() {
    let mut session = Model::session(SETUP);
    check(
        &mut session,
        &[
            (
                "INSERT INTO b (id, n, s) SELECT id, n, s FROM a WHERE id < 3 ORDER BY id DESC RETURNING id, n",
                "2 20, 1 10",
            ),
            ("SELECT id, n, s FROM b ORDER BY id", "1 10 x, 2 20 "),
            (
                "INSERT INTO b SELECT id + 10, n / 10, 'abc', '2020-02-03' FROM a LIMIT 2",
                "INSERT 0 2",
            ),
            (
                "SELECT id, d FROM b WHERE id > 10 ORDER BY id",
                "11 2020-02-03, 12 2020-02-03",
            ),
            ("INSERT INTO a SELECT id + 3, n, s FROM a", "INSERT 0 3"),
            ("INSERT INTO a SELECT id + 6, n, s FROM a", "INSERT 0 6"),
            ("SELECT count(*) FROM a", "12"),
            (
                "INSERT INTO a SELECT * FROM a WHERE id < 3 ON CONFLICT (id) DO NOTHING",
                "INSERT 0 0",
            ),
            (
                "INSERT INTO a SELECT id, 7, s FROM a WHERE id < 3 ON CONFLICT (id) DO UPDATE SET n = excluded.n RETURNING n",
                "7, 7",
            ),
            ("INSERT INTO a SELECT * FROM a WHERE id = 1", "1"),
            ("INSERT INTO a SELECT 50, 1, 'new'", "INSERT 0 1"),
            (
                "INSERT INTO a (id, n) SELECT max(n), count(*) FROM a RETURNING id, n",
                "30 13",
            ),
            ("INSERT INTO a SELECT id FROM a WHERE id < 0", "INSERT 0 0"),
            (
                "INSERT INTO a SELECT 1, 2, '3', 4",
                "INSERT has more expressions than target columns",
            ),
            (
                "INSERT INTO a (id, n) SELECT 1",
                "INSERT has more target columns than expressions",
            ),
            (
                "INSERT INTO b (id, n) SELECT 77, n * 100000 FROM a WHERE id = 1",
                "range",
            ),
            (
                "INSERT INTO b (id, d) SELECT 78, s FROM a WHERE id = 1",
                "date",
            ),
            (
                "EXPLAIN INSERT INTO b (id) SELECT id FROM a",
                "Insert into b the rows of",
            ),
            (
                "EXPLAIN ANALYZE INSERT INTO b (id) SELECT id FROM a",
                "is not supported",
            ),
            ("INSERT INTO missing SELECT 1", "there is no table missing"),
            (
                "INSERT INTO a SELECT * FROM missing",
                "there is no table missing",
            ),
        ],
    );
}

#[test]
fn sequences_and_unique_keys() {
    let mut session = Model::session(SETUP);
    check(
        &mut session,
        &[
            (
                "INSERT INTO u (k) SELECT n FROM a ORDER BY id RETURNING id, k",
                "1 10, 2 20, 3 30",
            ),
            (
                "INSERT INTO u SELECT nextval('u_id_seq'), n + 1 FROM a ORDER BY id RETURNING id",
                "4, 5, 6",
            ),
            ("INSERT INTO u (k) SELECT currval('u_id_seq')", "INSERT 0 1"),
            ("SELECT k FROM u WHERE id = 7", "6"),
            ("INSERT INTO u (k) SELECT n FROM a", "k"),
            (
                "INSERT INTO u (k) SELECT n FROM a ON CONFLICT DO NOTHING",
                "is not supported",
            ),
            ("SELECT count(*) FROM u", "7"),
        ],
    );
}

#[test]
fn a_transaction_reads_its_own_rows() {
    let mut session = Model::session(SETUP);
    check(
        &mut session,
        &[
            ("BEGIN", "BEGIN"),
            ("INSERT INTO a VALUES (9, 90, 'own')", "INSERT 0 1"),
            (
                "INSERT INTO b (id, n) SELECT id, n FROM a WHERE id > 2",
                "INSERT 0 2",
            ),
            ("COMMIT", "COMMIT"),
            ("SELECT id FROM b ORDER BY id", "3, 9"),
        ],
    );
}

#[test]
fn too_many_rows_are_refused_before_one_is_written() {
    let mut session =
        Model::session("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY)");
    let rows: Vec<String> = (0..=10_000).map(|id| format!("({id})")).collect();
    let text = format!("INSERT INTO a VALUES {}", rows.join(", "));
    block_on(session.run_text(&text)).unwrap();
    check(
        &mut session,
        &[
            (
                "INSERT INTO b SELECT id FROM a",
                "it has more than 10000 rows",
            ),
            ("SELECT count(*) FROM b", "0"),
        ],
    );
}

#[test]
fn a_series_of_numbers_is_inserted() {
    let session = &mut Model::session("CREATE TABLE t (id int PRIMARY KEY, name text, n int)");
    check(
        session,
        &[
            (
                "INSERT INTO t (id, name) SELECT i, 'no. ' || i FROM generate_series(1, 3) AS i \
             RETURNING id, name",
                "1 no. 1, 2 no. 2, 3 no. 3",
            ),
            (
                "INSERT INTO t (id, n) SELECT g.n + 100, -n / 2 FROM generate_series(10, -4, -7) g(n) \
             RETURNING id, n",
                "110 -5, 103 -1, 96 2",
            ),
            (
                "INSERT INTO t (id) SELECT generate_series + 20 FROM generate_series(1, 2) \
             ON CONFLICT DO NOTHING RETURNING id",
                "21, 22",
            ),
            (
                "INSERT INTO t (id) SELECT i FROM generate_series(5, 4) i",
                "INSERT 0 0",
            ),
            (
                "INSERT INTO t (id) SELECT i FROM generate_series(5, 4, 2) i",
                "INSERT 0 0",
            ),
        ],
    );
    for (text, why) in [
        (
            "INSERT INTO t (id) SELECT i FROM generate_series(1, 2, 0) i",
            "cannot equal zero",
        ),
        (
            "INSERT INTO t (id) SELECT i FROM generate_series(-9223372036854775807, \
             9223372036854775807) i",
            "insert it in parts",
        ),
        (
            "INSERT INTO t (id) SELECT j FROM generate_series(1, 2) i",
            "not supported",
        ),
        (
            "INSERT INTO t (id) SELECT i FROM generate_series(1, 2) i WHERE i > 1",
            "not supported",
        ),
    ] {
        let refused = error(session, text);
        assert!(refused.contains(why), "{text}: {refused}");
    }
}

#[test]
fn rows_of_constants_are_inserted_in_their_order() {
    let session = &mut Model::session(
        "CREATE TABLE t (id serial PRIMARY KEY, name varchar(9), n int DEFAULT 7)",
    );
    check(
        session,
        &[
            (
                "INSERT INTO t (name, n) SELECT p0::VARCHAR, p1 FROM (VALUES ('b', 2, 1), ('a', 1, 0)) \
             AS imp_sen(p0, p1, sen_counter) ORDER BY sen_counter RETURNING t.id, t.name",
                "1 a, 2 b",
            ),
            (
                "INSERT INTO t (name) SELECT v.column1 FROM (VALUES ('c'), (NULL)) v RETURNING id, n",
                "3 7, 4 7",
            ),
            (
                "INSERT INTO t (name, n) SELECT name, -(n + 1) FROM (VALUES ('d', 4)) AS v (name, n) \
             RETURNING name, n",
                "d -5",
            ),
        ],
    );
    for text in [
        "INSERT INTO t (name) SELECT b FROM (VALUES ('x')) AS v (a)",
        "INSERT INTO t (name) SELECT a FROM (VALUES ('x'), ('y')) AS v (a) ORDER BY a",
        "INSERT INTO t (name) SELECT a FROM (VALUES ('x')) AS v (a) WHERE a > 'z'",
        "INSERT INTO t (n) SELECT a FROM (VALUES (nextval('t_id_seq'))) AS v (a)",
    ] {
        let refused = error(session, text);
        assert!(refused.contains("not supported"), "{text}: {refused}");
    }
}
