//! Tests generated columns over the model.

use super::tests::{done, error, rows, run};
use crate::model::Model;

const ORDERS: &str = "
    CREATE TABLE orders (id bigint PRIMARY KEY, price int, amount int NOT NULL DEFAULT 1,
        total int GENERATED ALWAYS AS (price * amount) STORED CHECK (total <= 1000),
        label text GENERATED ALWAYS AS ('n' || id) STORED, UNIQUE (total));
    INSERT INTO orders VALUES (1, 10, 2), (2, 7, 3, DEFAULT, DEFAULT), (3, NULL, 4);
";

#[test]
fn values_follow_each_change() {
    let session = &mut Model::session(ORDERS);
    let all = "SELECT id, total, label FROM orders ORDER BY id";
    assert_eq!(rows(session, all), ["1|20|n1", "2|21|n2", "3||n3"]);
    for (text, tag) in [
        (
            "UPDATE orders SET price = price + 1 WHERE id = 1",
            "UPDATE 1",
        ),
        ("UPDATE orders SET amount = 5 WHERE total = 21", "UPDATE 1"),
        (
            "UPDATE orders SET total = DEFAULT, price = 9 WHERE id = 3",
            "UPDATE 1",
        ),
        (
            "INSERT INTO orders VALUES (3, 50, 1) ON CONFLICT (id) DO UPDATE SET price = \
             excluded.total + orders.total",
            "INSERT 0 1",
        ),
        (
            "INSERT INTO orders (id, price) SELECT id + 3, price + 1 FROM orders WHERE id = 1",
            "INSERT 0 1",
        ),
    ] {
        assert_eq!(done(session, text), tag, "{text}");
    }
    let after = ["1|22|n1", "2|35|n2", "3|344|n3", "4|12|n4"];
    assert_eq!(rows(session, all), after);
    assert_eq!(
        rows(session, "SELECT id FROM orders WHERE total = 344"),
        ["3"]
    );
    done(session, "BEGIN");
    done(session, "INSERT INTO orders VALUES (5, 3, 5)");
    done(
        session,
        "UPDATE orders SET price = price * 2 WHERE total = 15",
    );
    assert_eq!(
        rows(session, "SELECT total FROM orders WHERE id = 5"),
        ["30"]
    );
    done(session, "COMMIT");
    assert_eq!(
        rows(session, "SELECT label FROM orders WHERE total = 30"),
        ["n5"]
    );
}

#[test]
// tidy: long — one refusal after another
fn other_values_and_invalid_ones_are_refused() {
    let session = &mut Model::session(ORDERS);
    for (text, expected) in [
        (
            "INSERT INTO orders VALUES (5, 1, 1, 1)",
            "cannot insert a non-DEFAULT value into column \"total\"",
        ),
        (
            "UPDATE orders SET total = 1 WHERE id = 1",
            "column \"total\" can only be updated to DEFAULT",
        ),
        (
            "INSERT INTO orders VALUES (5, 2000000000, 2)",
            "out of range",
        ),
        (
            "UPDATE orders SET price = 2000000000 WHERE id = 1",
            "out of range",
        ),
        ("INSERT INTO orders VALUES (5, 1001)", "orders_total_check"),
        (
            "UPDATE orders SET price = 7, amount = 3 WHERE id = 1",
            "orders_total_key",
        ),
        ("ALTER TABLE orders DROP COLUMN price", "depend on it"),
        (
            "ALTER TABLE orders ALTER total SET DEFAULT 1",
            "is a generated column",
        ),
        (
            "ALTER TABLE orders ADD x int GENERATED ALWAYS AS (price) STORED",
            "no row has its value",
        ),
    ] {
        let failure = error(session, text);
        assert!(failure.contains(expected), "{text}: {failure}");
    }
    let table =
        |column: &str| format!("CREATE TABLE t (id int PRIMARY KEY, a timestamp, {column})");
    for (column, expected) in [
        (
            "b int GENERATED ALWAYS AS (c) STORED, c int GENERATED ALWAYS AS (1) STORED",
            "cannot use generated column \"c\"",
        ),
        (
            "b timestamptz GENERATED ALWAYS AS (now()) STORED",
            "is not immutable",
        ),
        (
            "b interval GENERATED ALWAYS AS (age(a)) STORED",
            "is not immutable",
        ),
        (
            "b timestamptz GENERATED ALWAYS AS (a) STORED",
            "is not immutable",
        ),
        ("b int GENERATED ALWAYS AS (x) STORED", "has no column x"),
        (
            "b int GENERATED ALWAYS AS (id) STORED, b int",
            "two columns named b",
        ),
        (
            "b int DEFAULT 1 GENERATED ALWAYS AS (id) STORED",
            "both default and generation",
        ),
        (
            "b int GENERATED ALWAYS AS (id) STORED, UNIQUE (b), PRIMARY KEY (b)",
            "two primary keys",
        ),
    ] {
        let failure = error(session, &table(column));
        assert!(failure.contains(expected), "{column}: {failure}");
    }
    let key = "CREATE TABLE t (id int, b int GENERATED ALWAYS AS (id) STORED, PRIMARY KEY (b))";
    assert!(error(session, key).contains("cannot be in the primary key"));
    let zone = "b timestamptz GENERATED ALWAYS AS (a AT TIME ZONE 'UTC') STORED";
    assert!(run(session, &table(zone)).is_ok());
}

#[test]
fn columns_go_with_those_they_are_computed_from() {
    let session = &mut Model::session(ORDERS);
    done(session, "ALTER TABLE orders RENAME COLUMN price TO cost");
    done(session, "UPDATE orders SET cost = 30 WHERE id = 1");
    assert_eq!(
        rows(session, "SELECT total FROM orders WHERE id = 1"),
        ["60"]
    );
    done(session, "ALTER TABLE orders DROP COLUMN cost CASCADE");
    done(session, "INSERT INTO orders VALUES (7, 2)");
    assert_eq!(
        rows(session, "SELECT * FROM orders WHERE id = 7"),
        ["7|2|n7"]
    );
}
