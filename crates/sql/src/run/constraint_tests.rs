//! Tests the constraints of tables over the model.

use super::tests::{done, error, rows, run};
use crate::model::Model;
use crate::store::Store;

const ACCOUNTS: &str = "
    CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint CHECK (balance >= 0),
        kind text, CHECK (kind <> 'x' OR balance = 0), CONSTRAINT few CHECK (id < 10 AND id > -10),
        CHECK (true), CHECK (id <> 5));
    INSERT INTO accounts VALUES (1, 100, 'a'), (2, NULL, 'x'), (3, 0, NULL);
";

#[test]
fn checks_have_the_names_that_postgresql_gives_them() {
    let session = &mut Model::session(ACCOUNTS);
    let table = session.store().configuration();
    let checks = &table.table_named("accounts").unwrap().schema.constraints;
    let names = checks.checks.iter().map(|it| it.name.as_str());
    assert!(names.eq([
        "accounts_balance_check",
        "accounts_check",
        "accounts_check1",
        "accounts_id_check",
        "few"
    ]));
}

#[test]
fn rows_that_violate_a_check_are_refused_by_its_name() {
    let session = &mut Model::session(ACCOUNTS);
    let all = "SELECT id, balance, kind FROM accounts ORDER BY id";
    let before = rows(session, all);
    let refused = [
        (
            "INSERT INTO accounts VALUES (4, -1, 'a')",
            "accounts_balance_check",
        ),
        ("INSERT INTO accounts VALUES (4, 1, 'x')", "accounts_check"),
        (
            "INSERT INTO accounts VALUES (5, 1, 'a')",
            "accounts_id_check",
        ),
        (
            "INSERT INTO accounts VALUES (4, 1, 'a'), (10, 1, 'a')",
            "few",
        ),
        (
            "UPDATE accounts SET balance = balance - 101 WHERE id = 1",
            "accounts_balance_check",
        ),
        (
            "UPDATE accounts SET balance = 7, kind = 'x' WHERE id > 0",
            "accounts_check",
        ),
        (
            "INSERT INTO accounts VALUES (1, -5, 'a') ON CONFLICT (id) DO NOTHING",
            "accounts_balance_check",
        ),
        (
            "INSERT INTO accounts VALUES (1, 5, 'a') ON CONFLICT (id) DO UPDATE SET balance = -1",
            "accounts_balance_check",
        ),
    ];
    for (text, name) in refused {
        let message = format!("violates check constraint \"{name}\" (SQLSTATE 23514)");
        let failure = error(session, text);
        assert!(failure.contains(&message), "{text}: {failure}");
        assert!(
            failure.contains("new row for relation \"accounts\""),
            "{failure}"
        );
        // Inside a transaction the statement fails, not the commit.
        done(session, "BEGIN");
        let failure = error(session, text);
        assert!(failure.contains(&message), "{text}: {failure}");
        done(session, "ROLLBACK");
    }
    assert_eq!(rows(session, all), before);
    assert_eq!(
        done(session, "UPDATE accounts SET balance = NULL WHERE id = 1"),
        "UPDATE 1"
    );
}

#[test]
fn checks_that_need_more_than_the_row_are_refused() {
    let session = &mut Model::session("");
    for (condition, what) in [
        ("at < now()", "now here"),
        ("length(name) < 3", "the function length"),
    ] {
        let text = format!(
            "CREATE TABLE t (id bigint PRIMARY KEY, at timestamp, name text, CHECK ({condition}))"
        );
        let failure = error(session, &text);
        assert!(failure.contains("is not supported"), "{failure}");
        assert!(failure.contains(what), "{failure}");
    }
    let wrong = "CREATE TABLE t (id bigint PRIMARY KEY CHECK (id + 1))";
    assert!(error(session, wrong).contains("a condition must be boolean"));
    assert!(
        run(
            session,
            "CREATE TABLE t (id bigint PRIMARY KEY, CHECK (null))"
        )
        .is_ok()
    );
    assert_eq!(done(session, "INSERT INTO t VALUES (1)"), "INSERT 0 1");
}
