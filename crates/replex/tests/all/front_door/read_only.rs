//! Sessions and transactions that can only read, beside a real PostgreSQL.

use super::same_as_postgres::both;

/// Statements with the same answers from both.
const GIVEN: &[&str] = &[
    "CREATE TABLE o (id int PRIMARY KEY, n int)",
    "INSERT INTO o VALUES (1, 1)",
    "SHOW default_transaction_read_only",
    "SHOW transaction_read_only",
    // The session.
    "SET default_transaction_read_only = on",
    "SHOW transaction_read_only",
    "INSERT INTO o VALUES (2, 2)",
    "INSERT INTO o VALUES (2, 2) RETURNING id",
    "UPDATE o SET n = 2",
    "UPDATE o SET n = 2 WHERE id = 1",
    "DELETE FROM o WHERE id = 1",
    "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) DELETE FROM o WHERE id = 1",
    "EXPLAIN (ANALYZE, FORMAT JSON) DELETE FROM o WHERE id = 1",
    "UPDATE o SET n = v.n FROM (VALUES (1, 5)) AS v(id, n) WHERE o.id = v.id",
    "TRUNCATE o",
    "CREATE TABLE x (id int PRIMARY KEY)",
    "CREATE INDEX i ON o (n)",
    "ALTER TABLE o ADD COLUMN m int",
    "DROP TABLE o",
    "GRANT SELECT ON o TO PUBLIC",
    "COPY o FROM STDIN",
    "COPY o TO STDOUT",
    "SELECT * FROM o WHERE id = 1",
    "INSERT INTO o VALUES (2, 2); SELECT 1",
    "SELECT 1; INSERT INTO o VALUES (2, 2)",
    // Transactions that name no mode, and that do.
    "BEGIN",
    "SHOW transaction_read_only",
    "DELETE FROM o WHERE id = 1",
    "ROLLBACK",
    "BEGIN ISOLATION LEVEL SERIALIZABLE",
    "SHOW transaction_read_only",
    "COMMIT",
    "BEGIN READ WRITE",
    "SHOW transaction_read_only",
    "INSERT INTO o VALUES (3, 3)",
    "COMMIT",
    "BEGIN",
    "SET TRANSACTION READ WRITE",
    "INSERT INTO o VALUES (4, 4)",
    "COMMIT",
    "SELECT * FROM o ORDER BY id",
    // Other ways to say it.
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "SHOW default_transaction_read_only",
    "INSERT INTO o VALUES (5, 5)",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    "SHOW default_transaction_read_only",
    "INSERT INTO o VALUES (6, 6)",
    "RESET default_transaction_read_only",
    "INSERT INTO o VALUES (6, 6)",
    "SET default_transaction_read_only = yes",
    "SHOW default_transaction_read_only",
    "SET default_transaction_read_only TO 'OF'",
    "SHOW default_transaction_read_only",
    "SET default_transaction_read_only = o",
    "SET default_transaction_read_only = 2",
    "SET default_transaction_read_only = 1",
    "DISCARD ALL",
    "SHOW default_transaction_read_only",
    // The mode of a transaction stays if another one of its properties is set.
    "BEGIN READ ONLY",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SHOW transaction_read_only",
    "INSERT INTO o VALUES (7, 7)",
    "ROLLBACK",
    "SELECT * FROM o ORDER BY id",
];

#[tokio::test]
async fn sessions_that_only_read_answer_as_postgres() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for text in GIVEN {
        both.query(text);
    }
}
