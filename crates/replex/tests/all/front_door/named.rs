//! Prepared statements and cursors that clients name in SQL, beside a real PostgreSQL.

use super::same_as_postgres::both;
use crate::support::raw_client::Messages;

/// Strings of statements, one after the other in one session.
const STRINGS: &[&str] = &[
    "CREATE TABLE p (id bigint PRIMARY KEY, s text, n integer)",
    "INSERT INTO p VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', NULL), (4, 'd', 40), (5, 'e', 50)",
    // Prepared statements.
    "PREPARE one AS SELECT s FROM p WHERE id = $1",
    "EXECUTE one(2)",
    "EXECUTE one(1 + 2)",
    "EXECUTE one('4')",
    "EXECUTE one(NULL)",
    "EXECUTE one",
    "EXECUTE one(1, 2)",
    "EXECUTE one('x')",
    "PREPARE one AS SELECT 1",
    "DEALLOCATE one",
    "EXECUTE one(1)",
    "PREPARE typed (integer, text) AS SELECT $1, $2, $3 + 1",
    "EXECUTE typed(1, 'a', 5)",
    "PREPARE change (bigint, text) AS INSERT INTO p (id, s) VALUES ($1, $2)",
    "EXECUTE change(6, 'f')",
    "EXECUTE change(6, 'f')",
    "EXECUTE change(7, 'g'); EXECUTE change(8, 'h'); SELECT id, s FROM p WHERE id > 5 ORDER BY id",
    "EXECUTE change(9, 'i'); EXECUTE change(9, 'i')",
    "SELECT id FROM p WHERE id = 9",
    "PREPARE remove AS DELETE FROM p WHERE id > $1 RETURNING id",
    "BEGIN",
    "EXECUTE remove(6)",
    "ROLLBACK",
    "EXECUTE remove(5)",
    "PREPARE bad AS SELECT missing FROM p",
    "PREPARE bad AS CREATE TABLE q (id bigint PRIMARY KEY)",
    "PREPARE all_rows AS SELECT id FROM p ORDER BY id; EXECUTE all_rows; DEALLOCATE all_rows",
    // Cursors.
    "DECLARE c CURSOR FOR SELECT id FROM p",
    "BEGIN",
    "DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT id, s FROM p ORDER BY id",
    "FETCH c",
    "FETCH NEXT FROM c",
    "FETCH FORWARD 2 IN c",
    "FETCH 0 FROM missing",
    "ROLLBACK",
    "BEGIN",
    "DECLARE c CURSOR FOR SELECT id, s FROM p ORDER BY id",
    "UPDATE p SET s = 'changed' WHERE id = 2",
    "MOVE FORWARD 1 FROM c",
    "FETCH 2 FROM c",
    "MOVE ALL FROM c",
    "FETCH ALL FROM c",
    "FETCH c",
    "CLOSE c",
    "COMMIT",
    "FETCH c",
    "CLOSE c",
    "BEGIN; DECLARE d CURSOR FOR SELECT 1; DECLARE d CURSOR FOR SELECT 2",
    "ROLLBACK",
    "DECLARE h CURSOR WITH HOLD FOR SELECT id FROM p ORDER BY id",
    "FETCH 2 FROM h",
    "BEGIN",
    "DECLARE i CURSOR WITH HOLD FOR SELECT s FROM p ORDER BY id",
    "ROLLBACK",
    "FETCH i",
    "FETCH FORWARD ALL FROM h",
    "BEGIN",
    "DECLARE j INSENSITIVE CURSOR WITH HOLD FOR SELECT n FROM p ORDER BY n",
    "COMMIT",
    "FETCH 3 FROM j",
    "CLOSE ALL",
    "FETCH j",
    "FETCH h",
    "BEGIN; DECLARE c CURSOR FOR DELETE FROM p",
    "ROLLBACK",
    "DECLARE",
    "FETCH",
    "CLOSE",
    "EXECUTE",
];

#[tokio::test]
async fn named_statements_have_the_same_messages() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for text in STRINGS {
        both.query(text);
    }
    // The names are those of the extended protocol, too.
    let new = Messages::new;
    for (what, messages) in [
        (
            "a statement of Parse, executed in SQL",
            new()
                .parse("x", "SELECT s FROM p WHERE id = $1", &[])
                .sync(),
        ),
        ("execute", new().query("EXECUTE x(1)")),
        (
            "a cursor with a parameter",
            new()
                .query("BEGIN")
                .parse(
                    "",
                    "DECLARE c CURSOR FOR SELECT id FROM p WHERE id > $1 ORDER BY id",
                    &[],
                )
                .bind_texts(&["2"])
                .describe(b'P', "")
                .execute("", 0)
                .sync(),
        ),
        (
            "its rows",
            new()
                .parse("", "FETCH 2 FROM c", &[])
                .bind_texts(&[])
                .describe(b'P', "")
                .execute("", 0)
                .sync()
                .query("COMMIT"),
        ),
        (
            "a statement of PREPARE, bound by the protocol",
            new()
                .query("PREPARE y (bigint) AS SELECT n FROM p WHERE id = $1")
                .describe(b'S', "y")
                .sync(),
        ),
    ] {
        both.ask(&messages, what);
    }
}
