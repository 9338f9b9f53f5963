//! Generated columns: beside a real PostgreSQL, and written by a client that knows no SQL.

use client::{Assignment, Client, ConnectOptions, Expression, RequestResult, Value};

use super::same_as_postgres::both;
use super::{Started, psql};
use crate::support::raw_client::Messages;

/// Statements with the same answers from both.
const GIVEN: &[&str] = &[
    "CREATE TABLE g (id int PRIMARY KEY, n int, s text, \
     d int GENERATED ALWAYS AS (n * 2) STORED CHECK (d < 1000), \
     l text GENERATED ALWAYS AS (lower(s)) STORED UNIQUE, \
     c varchar(3) GENERATED ALWAYS AS (s || '!') STORED)",
    "CREATE INDEX g_d ON g (d)",
    "INSERT INTO g VALUES (1, 10, 'A') RETURNING *",
    "INSERT INTO g VALUES (2, 20, 'B', DEFAULT, DEFAULT), (3, NULL, NULL, DEFAULT, DEFAULT)",
    "INSERT INTO g (d, id, n) VALUES (DEFAULT, 4, 40) RETURNING d",
    "SELECT * FROM g ORDER BY id",
    "SELECT id FROM g WHERE d = 40",
    "SELECT id FROM g WHERE d > 20 ORDER BY d DESC",
    // Values for generated columns.
    "INSERT INTO g VALUES (5, 1, 'x', 2)",
    "INSERT INTO g VALUES (5, 1, 'x', NULL)",
    "INSERT INTO g (id, d) VALUES (5, 2)",
    "INSERT INTO g (id, d) VALUES (5, 2), (6, DEFAULT)",
    "INSERT INTO g (id, d) OVERRIDING SYSTEM VALUE VALUES (5, 2)",
    "INSERT INTO g (id, d) SELECT id + 10, n FROM g",
    "UPDATE g SET d = 5 WHERE id = 1",
    "UPDATE g SET d = NULL WHERE id = 1",
    "UPDATE g SET n = 11, d = DEFAULT WHERE id = 1 RETURNING n, d",
    "UPDATE g SET d = DEFAULT WHERE id = 1",
    // Changes that the servers evaluate.
    "UPDATE g SET n = n + 1 WHERE id = 1",
    "UPDATE g SET n = n + 1 WHERE n > 15",
    "UPDATE g SET n = n + 1 WHERE d = 42 AND l = 'b'",
    "UPDATE g SET s = s || 'b' WHERE l = 'a'",
    "SELECT * FROM g ORDER BY id",
    "INSERT INTO g VALUES (1, 7, 'Q') ON CONFLICT (id) DO UPDATE SET n = g.n + excluded.d, \
     s = excluded.l",
    "INSERT INTO g VALUES (1, 1, 'W') ON CONFLICT (id) DO UPDATE SET d = DEFAULT, n = g.d \
     WHERE g.d > 5 RETURNING *",
    "INSERT INTO g VALUES (1, 1, 'W') ON CONFLICT (id) DO UPDATE SET d = 1",
    "INSERT INTO g VALUES (9, 1, 'q') ON CONFLICT DO NOTHING",
    "INSERT INTO g (id, n, s) SELECT id + 20, n + 1, s || 'z' FROM g WHERE id = 2",
    "SELECT * FROM g ORDER BY id",
    // Errors of the expression, and of constraints over its value.
    "INSERT INTO g (id, n) VALUES (30, 2000000000)",
    "UPDATE g SET n = 2000000000 WHERE id = 2",
    "UPDATE g SET n = n * 100000000 WHERE id = 2",
    "INSERT INTO g (id, n) VALUES (30, 500)",
    "UPDATE g SET n = n + 480 WHERE id = 2",
    "INSERT INTO g (id, s) VALUES (30, 'Q')",
    "UPDATE g SET s = 'Q' WHERE id = 2",
    "INSERT INTO g (id, s) VALUES (30, 'long')",
    "UPDATE g SET s = 'long' WHERE id = 2",
    "SELECT * FROM g ORDER BY id",
    // Transactions see their own changes.
    "BEGIN",
    "INSERT INTO g VALUES (40, 4, 'T')",
    "UPDATE g SET n = n + 1 WHERE id = 40",
    "SELECT * FROM g WHERE id = 40",
    "SELECT id FROM g WHERE d = 10",
    "UPDATE g SET n = n + 1 WHERE d = 10",
    "COMMIT",
    "SELECT * FROM g WHERE d = 12",
    // COPY leaves them out.
    "CREATE TABLE copied (id int PRIMARY KEY, d int GENERATED ALWAYS AS (id * 2) STORED, s text)",
    "INSERT INTO copied VALUES (1, DEFAULT, 'a'), (2, DEFAULT, NULL)",
    "COPY copied TO STDOUT",
    "COPY g (id, d) FROM STDIN",
    "COPY (SELECT id, d FROM g ORDER BY id) TO STDOUT",
    // Definitions.
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (b + 1) STORED, \
     b int GENERATED ALWAYS AS (id) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (a + 1) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (missing) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a timestamptz GENERATED ALWAYS AS (now()) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a date GENERATED ALWAYS AS (current_date) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a uuid GENERATED ALWAYS AS (gen_random_uuid()) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a timestamp, \
     b timestamptz GENERATED ALWAYS AS (a::timestamptz) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (max(id)) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS ((SELECT 1)) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a boolean GENERATED ALWAYS AS (id + 1) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int DEFAULT 1 GENERATED ALWAYS AS (id) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a serial GENERATED ALWAYS AS (id) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS IDENTITY \
     GENERATED ALWAYS AS (id) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id) STORED \
     GENERATED ALWAYS AS (id) STORED)",
    "CREATE TABLE x (id int PRIMARY KEY, a int GENERATED ALWAYS AS (id) STORED NOT NULL, \
     b int GENERATED ALWAYS AS (nullif(id, 1)) STORED NOT NULL)",
    "INSERT INTO x VALUES (2)",
    "INSERT INTO x VALUES (1)",
    "SELECT * FROM x",
    "ALTER TABLE g ALTER d SET DEFAULT 1",
    "ALTER TABLE g ALTER d DROP DEFAULT",
    "ALTER TABLE g DROP COLUMN n",
    "ALTER TABLE g ALTER s TYPE varchar(10)",
    "ALTER TABLE g RENAME COLUMN n TO m",
    "INSERT INTO g VALUES (50, 6) RETURNING *",
    "ALTER TABLE g DROP COLUMN m CASCADE",
    "SELECT * FROM g WHERE id = 50",
    "ALTER TABLE g DROP COLUMN l",
    "INSERT INTO g VALUES (51, 'u') RETURNING *",
    // Foreign keys.
    "CREATE TABLE p (id int PRIMARY KEY)",
    "INSERT INTO p VALUES (2), (4)",
    "CREATE TABLE r (id int PRIMARY KEY, n int, \
     p int GENERATED ALWAYS AS (n * 2) STORED REFERENCES p ON DELETE SET NULL)",
    "CREATE TABLE r (id int PRIMARY KEY, n int, \
     p int GENERATED ALWAYS AS (n * 2) STORED REFERENCES p ON UPDATE CASCADE)",
    "CREATE TABLE r (id int PRIMARY KEY, n int, \
     p int GENERATED ALWAYS AS (n * 2) STORED REFERENCES p ON DELETE CASCADE)",
    "INSERT INTO r VALUES (1, 1), (2, 2)",
    "INSERT INTO r VALUES (3, 3)",
    "UPDATE r SET n = 3 WHERE id = 1",
    "UPDATE r SET n = n + 1 WHERE id = 2",
    "BEGIN",
    "UPDATE r SET n = n + 1 WHERE id = 2",
    "ROLLBACK",
    "UPDATE r SET n = n + 1 WHERE id = 1",
    "DELETE FROM p WHERE id = 4",
    "SELECT * FROM r",
    "CREATE TABLE q (id int PRIMARY KEY, p int REFERENCES p ON DELETE SET NULL, \
     k text GENERATED ALWAYS AS (coalesce(p, -1)::text) STORED)",
    "INSERT INTO q VALUES (1, 2) RETURNING *",
    "DELETE FROM p WHERE id = 2",
    "SELECT * FROM q",
    // The catalogue.
    "SELECT attname, attgenerated, atthasdef FROM pg_attribute a JOIN pg_class c \
     ON c.oid = a.attrelid WHERE relname = 'r' AND attnum > 0 ORDER BY attnum",
    "SELECT column_name, column_default, is_generated, generation_expression \
     FROM information_schema.columns WHERE table_name = 'r' ORDER BY ordinal_position",
    "SELECT pg_get_expr(adbin, adrelid), pg_get_expr(adbin, adrelid, true) FROM pg_attrdef d \
     JOIN pg_class c ON c.oid = d.adrelid WHERE relname = 'r'",
];

#[tokio::test]
async fn generated_columns_answer_as_postgres() {
    let Some((started, postgres, mut both)) = both().await else {
        return;
    };
    for text in GIVEN {
        both.query(text);
    }
    let lines = [&b"60\tup\n61\t\\N\n"[..]];
    let copy = Messages::new().query("COPY g FROM STDIN");
    let copy = copy.message(b'd', &lines).message(b'c', &[]);
    both.ask(&copy, "COPY g FROM STDIN");
    both.query("SELECT * FROM g WHERE id >= 60 ORDER BY id");
    // PostgreSQL prints a pair of parentheses for each conversion that it hides.
    both.query("ALTER TABLE g DROP COLUMN c");
    // The other two have indexes of their foreign keys, which PostgreSQL does not make.
    let (ours, theirs) = (started.sql(), postgres.socket());
    assert_eq!(psql(ours, &["\\d g"]), psql(theirs, &["\\d g"]));
}

#[tokio::test]
async fn no_client_can_write_another_value() {
    let mut started = Started::new().await;
    let create = "CREATE TABLE g (id bigint PRIMARY KEY, n bigint NOT NULL, \
                  d bigint NOT NULL GENERATED ALWAYS AS (n * 2) STORED, INDEX by_d (d))";
    let (created, failed) = psql(started.sql(), &[create]);
    assert!(created.contains("CREATE TABLE"), "{failed}");
    let coordinator = started.process.ready_value("coordinator").unwrap();
    let options = ConnectOptions::new([coordinator.to_owned()]);
    let client = Client::connect(options).await.unwrap();
    let table = client.table("g").await.unwrap();
    let id = |id| Value::Int64(id);
    let applied = |result| matches!(result, RequestResult::Applied { .. });
    let inserted = table.insert(&[id(1), id(4), id(99)]).await.unwrap();
    assert!(applied(inserted));
    let add = |column| Assignment {
        column,
        value: Expression::Literal(id(5)),
    };
    let updated = table.update(&[id(1)], vec![add(1)], None).await.unwrap();
    assert!(applied(updated));
    let refused = table.update(&[id(1)], vec![add(2)], None).await;
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("column d of table g is generated"),
        "{refused}"
    );
    let row = [id(1), id(7), Value::Null];
    let upserted = table.upsert(&row, vec![add(1)], None);
    assert!(applied(upserted.await.unwrap()));
    // A row whose bytes the client has made by itself.
    let bytes = placement::encode_row(&table.schema().columns, &[id(2), id(6), id(0)]).unwrap();
    let mutation = client::Mutation {
        pk: table.pk(&[id(2)]).unwrap(),
        action: protocol::operation::Action::Insert { row: bytes.into() },
    };
    assert!(applied(table.execute(mutation).await.unwrap()));
    let found = table.lookup("by_d", &[id(12)]).unwrap().await.unwrap();
    assert_eq!(found[0].values, [id(2), id(6), id(12)]);
    drop(client);
    assert!(started.process.stop().await.unwrap().success());
    started.again().await;
    let (rows, _) = psql(
        started.sql(),
        &["\\pset format unaligned", "SELECT * FROM g ORDER BY id"],
    );
    assert!(rows.contains("1|5|10\n2|6|12\n"), "{rows}");
}
