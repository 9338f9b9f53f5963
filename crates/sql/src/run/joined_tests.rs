//! Tests `UPDATE … FROM` and `DELETE … USING` over the model.

use placement::Value;

use super::tests::{done, error, rows, run};
use super::{SqlSession, StatementOutcome};
use crate::model::{Model, block_on};
use crate::parse;

fn session() -> SqlSession<Model> {
    Model::session(
        "CREATE TABLE items (id bigint PRIMARY KEY, code text, n bigint NOT NULL, note text);
         CREATE INDEX by_code ON items (code);
         CREATE TABLE prices (code text PRIMARY KEY, price numeric, owner bigint);
         INSERT INTO items VALUES (1, 'a', 1, NULL), (2, 'a', 2, 'x'), (3, 'b', 3, 'y'),
             (4, NULL, 4, NULL);
         INSERT INTO prices VALUES ('a', 1.50, 1), ('b', 2, NULL), ('z', 9, 3);",
    )
}

/// Returns the sorted rows that a change returns, and its tag.
fn returned(session: &mut SqlSession<Model>, text: &str) -> (Vec<String>, String) {
    match run(session, text) {
        Ok(StatementOutcome::Returned(rows, tag)) => {
            let shown = rows.rows.iter().map(|row| {
                let values: Vec<String> = row.iter().map(ToString::to_string).collect();
                values.join("|")
            });
            let mut shown: Vec<String> = shown.collect();
            shown.sort();
            (shown, tag)
        }
        other => panic!("{text}: {other:?}"),
    }
}

fn items(session: &mut SqlSession<Model>) -> Vec<String> {
    rows(session, "SELECT id, code, n, note FROM items ORDER BY id")
}

#[test]
fn rows_that_match_a_further_table_change() {
    let session = &mut session();
    let update = "UPDATE items SET n = n * 10 + p.price, note = p.code || '!' FROM prices AS p \
                  WHERE items.code = p.code AND p.price < 2";
    assert_eq!(done(session, update), "UPDATE 2");
    let expected = ["1|a|12|a!", "2|a|22|a!", "3|b|3|y", "4||4|"];
    assert_eq!(items(session), expected);
    let delete = "DELETE FROM items i USING prices WHERE i.code = prices.code AND owner IS NULL";
    assert_eq!(done(session, delete), "DELETE 1");
    assert_eq!(rows(session, "SELECT count(*) FROM items"), ["3"]);
    let none = "DELETE FROM items USING prices p WHERE items.code = p.code AND p.price > 100";
    assert_eq!(done(session, none), "DELETE 0");
}

#[test]
fn a_row_changes_once_and_sees_the_state_before() {
    let session = &mut session();
    // Each row matches itself and the rows before it, and none sees the new number of another.
    let update = "UPDATE items AS t SET n = t.n + 100 FROM items AS u WHERE u.n <= t.n";
    assert_eq!(done(session, update), "UPDATE 4");
    let swap = "UPDATE items AS t SET n = u.n FROM items AS u WHERE t.id + u.id = 5";
    assert_eq!(done(session, swap), "UPDATE 4");
    let numbers = rows(session, "SELECT n FROM items ORDER BY id");
    assert_eq!(numbers, ["104", "103", "102", "101"]);
    let several = "UPDATE items SET note = 'z' FROM (VALUES (1), (1), (2)) AS v(id) \
                   WHERE items.id = v.id";
    assert_eq!(done(session, several), "UPDATE 2");
}

#[test]
fn constants_stand_for_a_table() {
    let session = &mut session();
    let update = "UPDATE items SET note = v.name, n = v.n FROM \
                  (VALUES (1, 'one', '7'), (3, NULL, 8), (9, 'nine', 9)) AS v(id, name, n) \
                  WHERE items.id = v.id RETURNING items.*, v.name, v.n + 1";
    let (found, tag) = returned(session, update);
    assert_eq!(found, ["1|a|7|one|one|8", "3|b|8|||9"]);
    assert_eq!(tag, "UPDATE 2");
    let all = "DELETE FROM items USING (VALUES (1), (2)) v WHERE id = column1 RETURNING *";
    assert_eq!(returned(session, all).0, ["1|a|7|one|1", "2|a|2|x|2"]);
    let unnest = "UPDATE items SET n = v.n FROM unnest('{3,4,5}'::int[], ARRAY[30, 40]) \
                  AS v(id, n) WHERE v.id = items.id AND v.n IS NOT NULL RETURNING id, items.n";
    let failure = error(session, unnest);
    assert!(failure.contains("\"id\" is ambiguous"), "{failure}");
    let unnest = unnest.replace("RETURNING id,", "RETURNING v.id,");
    assert_eq!(returned(session, &unnest).0, ["3|30", "4|40"]);
}

#[test]
fn parameters_have_the_types_of_their_values() {
    let session = &mut session();
    let text = "UPDATE items SET n = v.n, note = $3 FROM (VALUES ($1, $2)) AS v(id, n) \
                WHERE items.id = v.id";
    let statement = parse(text).unwrap().remove(0).statement;
    let mut run = |parameters: &[Value]| block_on(session.run(&statement, parameters));
    let text = Value::Text("t".into());
    let outcome = run(&[Value::Int32(2), Value::Int64(5), text.clone()]);
    assert_eq!(outcome, Ok(StatementOutcome::Done("UPDATE 1".into())));
    let outcome = run(&[Value::Null, Value::Int64(5), text.clone()]);
    assert_eq!(outcome, Ok(StatementOutcome::Done("UPDATE 0".into())));
    let failure = run(&[Value::Int32(2), Value::Null, text]).unwrap_err();
    assert!(failure.to_string().contains("NOT NULL"), "{failure}");
    assert_eq!(items(session)[1], "2|a|5|t");
}

#[test]
fn a_transaction_shows_its_own_changes_to_the_join() {
    let session = &mut session();
    done(session, "BEGIN");
    done(session, "INSERT INTO prices VALUES ('c', 5, NULL)");
    done(session, "UPDATE items SET code = 'c' WHERE id = 4");
    let update = "UPDATE items SET n = p.price FROM prices p WHERE p.code = items.code";
    assert_eq!(done(session, update), "UPDATE 4");
    done(session, "SAVEPOINT s");
    assert_eq!(
        done(
            session,
            "DELETE FROM items USING prices p WHERE p.code = items.code"
        ),
        "DELETE 4"
    );
    done(session, "ROLLBACK TO s");
    done(session, "COMMIT");
    let numbers = rows(session, "SELECT n FROM items ORDER BY id");
    assert_eq!(numbers, ["2", "2", "2", "5"]);
    done(session, "BEGIN READ ONLY");
    let failure = error(session, update);
    assert!(failure.contains("READ ONLY"), "{failure}");
    done(session, "ROLLBACK");
}

/// Between the reads and the commit, another operation changes a row of the further table.
#[test]
fn a_statement_that_another_operation_disturbs_runs_again() {
    let session = &mut session();
    session.store().conflict(3);
    let update = "UPDATE items SET n = 0 FROM prices p WHERE p.code = items.code";
    assert_eq!(done(session, update), "UPDATE 3");
    session.store().conflict(0);
    assert_eq!(session.transaction(), None, "nothing is open afterwards");
}

/// Statements that fail, and a part of each error.
const FAULTS: &[(&str, &str)] = &[
    (
        "UPDATE items SET n = 1 FROM prices WHERE code = 'a'",
        "column reference \"code\" is ambiguous",
    ),
    (
        "UPDATE items SET n = 1 FROM prices WHERE nosuch = 'a'",
        "column \"nosuch\" does not exist",
    ),
    (
        "UPDATE items SET n = 1 FROM prices p WHERE p.nosuch = 'a'",
        "column p.nosuch does not exist",
    ),
    (
        "UPDATE items SET n = 1 FROM prices p WHERE prices.code = 'a'",
        "missing FROM-clause entry for table \"prices\"",
    ),
    (
        "UPDATE items SET price = 1 FROM prices p WHERE p.code = items.code",
        "has no column price",
    ),
    (
        "UPDATE items SET n = 1 FROM items WHERE true",
        "specified more than once",
    ),
    ("UPDATE items SET n = 1 FROM nosuch WHERE true", "nosuch"),
    (
        "UPDATE items SET id = 9 FROM prices p WHERE p.code = items.code",
        "primary key",
    ),
    (
        "UPDATE items SET n = 1 / (p.price - 2) FROM prices p WHERE p.code = items.code",
        "division by zero",
    ),
    (
        "UPDATE items SET n = 1 FROM prices p, prices q WHERE p.code = items.code",
        "more than two tables",
    ),
    (
        "DELETE FROM items USING prices p JOIN prices q ON p.code = q.code WHERE true",
        "more than two tables",
    ),
    (
        "DELETE FROM items USING (SELECT 1) AS q WHERE true",
        "a subquery after FROM or USING is not supported",
    ),
    (
        "UPDATE items SET n = 1 FROM (VALUES (1, 2), (3)) AS v WHERE true",
        "VALUES lists must all be the same length",
    ),
    (
        "UPDATE items SET n = 1 FROM (VALUES (1, 2)) AS v(a, b, c) WHERE true",
        "2 columns available but 3 columns specified",
    ),
    (
        "UPDATE items SET n = 1 FROM (VALUES (1), (true)) AS v(a) WHERE true",
        "cannot be matched",
    ),
    (
        "UPDATE items SET n = 1 FROM (VALUES (NULL)) AS v(a) WHERE a = n",
        "text = bigint has no meaning",
    ),
];

#[test]
fn names_and_faults_are_as_in_postgresql() {
    let session = &mut session();
    for (text, expected) in FAULTS {
        let failure = error(session, text);
        assert!(failure.contains(expected), "{text}: {failure}");
    }
    let expected = ["1|a|1|", "2|a|2|x", "3|b|3|y", "4||4|"];
    assert_eq!(items(session), expected, "no statement has changed a row");
}

#[test]
fn the_explanation_shows_both_reads() {
    let session = &mut session();
    let lines = rows(
        session,
        "EXPLAIN UPDATE items SET n = 1 FROM prices p WHERE p.code = items.code AND p.owner = 1",
    );
    let text = lines.join("\n");
    for part in [
        "Update items: each row that matches a row of p, once",
        "Scan of prices",
        "Range lookup in items by",
        "items.code",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let lines = rows(
        session,
        "EXPLAIN ANALYZE DELETE FROM items USING (VALUES (1), (2)) v(id) WHERE items.id = v.id",
    );
    let text = lines.join("\n");
    for part in [
        "2 rows of v",
        "Lookup in items by the primary key",
        "result: DELETE 2",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// The further table is too large to be read as a whole, and an index finds the rows to change.
#[test]
fn the_changed_rows_are_read_first_if_an_index_finds_them() {
    let session = &mut Model::session(
        "CREATE TABLE big (id int PRIMARY KEY, n int);
         INSERT INTO big SELECT i, i * 2 FROM generate_series(1, 400) AS i;
         CREATE TABLE t (id int PRIMARY KEY, big int, n int);
         INSERT INTO t VALUES (1, 300, 0), (2, 301, 0), (3, NULL, 0), (4, 300, 0);",
    );
    let update = "UPDATE t SET n = big.n FROM big WHERE big.id = t.big AND t.id IN (1, 3, 4)";
    let explained = rows(session, &format!("EXPLAIN {update}")).join("\n");
    let way = "Lookup in big by the primary key, for each row of t";
    assert!(explained.contains(way), "{explained}");
    assert_eq!(done(session, update), "UPDATE 2");
    let numbers = rows(session, "SELECT n FROM t ORDER BY id");
    assert_eq!(numbers, ["600", "0", "0", "600"]);
    let delete = "DELETE FROM t USING big WHERE big.id = t.big AND t.id = 2 AND big.n > 602";
    assert_eq!(done(session, delete), "DELETE 0");
    assert_eq!(done(session, &delete.replace('>', ">=")), "DELETE 1");
}

#[test]
fn rows_are_found_by_keys_and_by_other_indexes() {
    let session = &mut Model::session(
        "CREATE TABLE t (id int PRIMARY KEY, k int, n int);
         CREATE INDEX ON t (k);
         INSERT INTO t SELECT i, i, 0 FROM generate_series(1, 400) AS i;",
    );
    let values: Vec<String> = (101..301).map(|it| format!("({it}, {it})")).collect();
    let by_key = format!(
        "UPDATE t SET n = v.n FROM (VALUES {}) AS v(id, n) WHERE v.id = t.id",
        values.join(", ")
    );
    assert_eq!(done(session, &by_key), "UPDATE 200");
    let values: Vec<String> = (101..151).map(|it| format!("({it}, {it})")).collect();
    let by_index = format!(
        "UPDATE t SET n = t.n + v.n FROM (VALUES {}) AS v(k, n) WHERE v.k = t.k AND v.n + 0 = t.n",
        values.join(", ")
    );
    assert_eq!(done(session, &by_index), "UPDATE 50");
    assert_eq!(rows(session, "SELECT sum(n) FROM t"), ["46375"]);
    let many: Vec<String> = (0..10_001).map(|it| format!("({it})")).collect();
    let failure = error(
        session,
        &format!(
            "DELETE FROM t USING (VALUES {}) AS v(id) WHERE v.id = t.id",
            many.join(", ")
        ),
    );
    assert!(
        failure.contains("more than 10000 rows after FROM or USING"),
        "{failure}"
    );
}
