//! Tests transactions of sessions over the model.

use super::SqlSession;
use super::tests::{done, error, rows, run};
use crate::fixture::USERS;
use crate::model::Model;

const ACCOUNTS: &str = "
    CREATE TABLE accounts (id bigint PRIMARY KEY, owner text UNIQUE, balance bigint NOT NULL);
    CREATE TABLE entries (id bigint PRIMARY KEY, account bigint, amount bigint);
    INSERT INTO accounts VALUES (1, 'ann', 100), (2, 'ben', 100), (3, NULL, 0);
";

/// Two sessions over the same rows.
fn two() -> (SqlSession<Model>, SqlSession<Model>) {
    let one = Model::session(ACCOUNTS);
    let other = SqlSession::new(one.store().clone());
    (one, other)
}

fn all(session: &mut SqlSession<Model>, texts: &[&str]) {
    for text in texts {
        assert!(
            run(session, text).is_ok(),
            "{text}: {:?}",
            run(session, text)
        );
    }
}

const BALANCES: &str = "SELECT id, balance FROM accounts ORDER BY id";

#[test]
fn changes_are_seen_by_the_transaction_and_after_the_commit_by_all() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "UPDATE accounts SET balance = balance - 10 WHERE id = 1",
            "UPDATE accounts SET balance = balance + 10 WHERE owner = 'ben'",
            "INSERT INTO entries VALUES (1, 1, -10), (2, 2, 10)",
        ],
    );
    let own = "SELECT balance FROM accounts WHERE id IN (1, 2) ORDER BY id";
    assert_eq!(rows(&mut one, own), ["90", "110"]);
    assert_eq!(
        rows(
            &mut one,
            "SELECT id FROM accounts WHERE owner = 'ben' AND balance = 110"
        ),
        ["2"]
    );
    assert_eq!(
        rows(
            &mut one,
            "SELECT count(*), max(amount) FROM entries WHERE id = 2"
        ),
        ["1|10"]
    );
    assert_eq!(rows(&mut other, BALANCES), ["1|100", "2|100", "3|0"]);
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut other, BALANCES), ["1|90", "2|110", "3|0"]);
    assert_eq!(rows(&mut other, "SELECT count(*) FROM entries"), ["2"]);
}

#[test]
fn a_rollback_leaves_nothing() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "START TRANSACTION",
            "DELETE FROM accounts WHERE id = 1",
            "ROLLBACK",
        ],
    );
    all(
        &mut one,
        &["BEGIN WORK", "DELETE FROM accounts WHERE id = 2", "ABORT"],
    );
    assert_eq!(rows(&mut other, BALANCES).len(), 3);
    assert_eq!(done(&mut one, "ROLLBACK"), "ROLLBACK");
    assert_eq!(one.take_notices().len(), 1);
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    assert_eq!(one.take_notices().len(), 1);
}

#[test]
fn a_row_that_was_read_must_not_change_before_the_commit() {
    let read = [
        "SELECT balance FROM accounts WHERE id = 1",
        "SELECT balance FROM accounts WHERE owner = 'ann'",
        "SELECT * FROM accounts WHERE id = 1 FOR UPDATE",
        "UPDATE accounts SET balance = 0 WHERE id = 1 AND balance < 50",
        "DELETE FROM accounts WHERE owner = 'ann' AND balance < 50",
        "INSERT INTO accounts VALUES (1, 'x', 0) ON CONFLICT (id) DO NOTHING",
        "SELECT count(*) FROM accounts WHERE id = 1 AND balance < 50",
    ];
    for read in read {
        let (mut one, mut other) = two();
        all(
            &mut one,
            &[
                "BEGIN",
                read,
                "UPDATE accounts SET balance = balance + 1 WHERE id = 2",
            ],
        );
        done(&mut other, "UPDATE accounts SET balance = 40 WHERE id = 1");
        let message = error(&mut one, "COMMIT");
        assert!(
            message.contains("accounts") && message.contains("(id) = (1)"),
            "{read}: {message}"
        );
        assert!(message.contains("40001"), "{message}");
        assert_eq!(
            rows(&mut other, BALANCES),
            ["1|40", "2|100", "3|0"],
            "{read}"
        );
        assert_eq!(one.transaction(), None);
    }
}

#[test]
fn a_row_that_was_not_there_must_not_come_before_the_commit() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "SELECT * FROM accounts WHERE id = 9",
            "UPDATE accounts SET balance = 1 WHERE id = 2",
        ],
    );
    done(&mut other, "INSERT INTO accounts VALUES (9, 'x', 0)");
    assert!(error(&mut one, "COMMIT").contains("40001"));
}

#[test]
fn two_transactions_add_to_the_same_number() {
    let (mut one, mut other) = two();
    for session in [&mut one, &mut other] {
        all(
            session,
            &[
                "BEGIN",
                "UPDATE accounts SET balance = balance + 5 WHERE id = 3",
                "UPDATE accounts SET balance = balance - 5 WHERE owner = 'ann'",
            ],
        );
    }
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    assert_eq!(done(&mut other, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut one, BALANCES), ["1|90", "2|100", "3|10"]);
}

#[test]
fn a_change_that_was_reported_must_apply_at_the_commit() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "UPDATE accounts SET balance = 0 WHERE id = 1 AND balance >= 100",
        ],
    );
    done(&mut other, "UPDATE accounts SET balance = 99 WHERE id = 1");
    let message = error(&mut one, "COMMIT");
    assert!(
        message.contains("(id) = (1)") && message.contains("40001"),
        "{message}"
    );
    // A row that comes after an INSERT was reported.
    all(
        &mut one,
        &["BEGIN", "INSERT INTO accounts VALUES (7, NULL, 0)"],
    );
    done(&mut other, "INSERT INTO accounts VALUES (7, NULL, 1)");
    assert!(error(&mut one, "COMMIT").contains("already has a row with primary key (id) = (7)"));
    // And a key of a unique index.
    all(
        &mut one,
        &["BEGIN", "INSERT INTO accounts VALUES (8, 'new', 0)"],
    );
    done(&mut other, "INSERT INTO accounts VALUES (9, 'new', 1)");
    assert!(error(&mut one, "COMMIT").contains("(owner) = ('new')"));
}

#[test]
fn no_two_reads_show_what_no_serial_order_has() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &["BEGIN", "SELECT balance FROM accounts WHERE id = 1"],
    );
    let transfer = "UPDATE accounts SET balance = 0 WHERE id IN (1, 2)";
    done(&mut other, transfer);
    let message = error(&mut one, "SELECT balance FROM accounts WHERE id = 2");
    assert!(message.contains("40001"), "{message}");
    assert_eq!(one.transaction(), Some(true));
    assert!(error(&mut one, "SELECT 1").contains("ROLLBACK"));
    // Of a failed transaction, a commit is a rollback.
    assert_eq!(done(&mut one, "COMMIT"), "ROLLBACK");
}

#[test]
fn a_failed_statement_is_left_by_a_savepoint() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "INSERT INTO entries VALUES (1, 1, 1)",
            "SAVEPOINT a",
            "INSERT INTO entries VALUES (2, 1, 2)",
        ],
    );
    let message = error(&mut one, "INSERT INTO entries VALUES (3, 1, 3), (1, 1, 4)");
    assert!(message.contains("(id) = (1)"), "{message}");
    assert!(error(&mut one, "SELECT 1").contains("ROLLBACK"));
    assert!(error(&mut one, "SAVEPOINT b").contains("ROLLBACK"));
    assert_eq!(done(&mut one, "ROLLBACK TO SAVEPOINT a"), "ROLLBACK");
    assert_eq!(
        rows(&mut one, "SELECT id FROM entries WHERE id IN (1, 2, 3)"),
        ["1"]
    );
    // It can be gone back to again.
    all(
        &mut one,
        &["INSERT INTO entries VALUES (5, 1, 5)", "ROLLBACK TO a"],
    );
    all(
        &mut one,
        &["INSERT INTO entries VALUES (6, 1, 6)", "RELEASE a"],
    );
    assert!(error(&mut one, "ROLLBACK TO a").contains("no savepoint a"));
    assert_eq!(done(&mut one, "ROLLBACK"), "ROLLBACK");
    assert_eq!(rows(&mut other, "SELECT count(*) FROM entries"), ["0"]);
}

#[test]
fn savepoints_of_one_name_hide_each_other() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "SAVEPOINT s",
            "INSERT INTO entries VALUES (1, 1, 1)",
            "SAVEPOINT s",
            "INSERT INTO entries VALUES (2, 1, 1)",
            "ROLLBACK TO s",
            "RELEASE SAVEPOINT s",
            "INSERT INTO entries VALUES (3, 1, 1)",
            "COMMIT",
        ],
    );
    assert_eq!(
        rows(&mut other, "SELECT id FROM entries ORDER BY id"),
        ["1", "3"]
    );
}

#[test]
fn rows_read_before_a_rollback_to_a_savepoint_still_count() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "SAVEPOINT a",
            "SELECT balance FROM accounts WHERE id = 1",
            "ROLLBACK TO a",
            "UPDATE accounts SET balance = 7 WHERE id = 2",
        ],
    );
    done(&mut other, "UPDATE accounts SET balance = 1 WHERE id = 1");
    assert!(error(&mut one, "COMMIT").contains("40001"));
}

#[test]
fn rows_move_between_keys_of_an_index_in_the_transaction() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "UPDATE accounts SET owner = 'zoe' WHERE owner = 'ann'",
            "INSERT INTO accounts VALUES (4, 'ann', 4)",
            "DELETE FROM accounts WHERE owner = 'ben'",
            "INSERT INTO accounts VALUES (2, 'bob', 5) ON CONFLICT (id) DO NOTHING",
        ],
    );
    let find = |owner: &str| format!("SELECT id, balance FROM accounts WHERE owner = '{owner}'");
    assert_eq!(rows(&mut one, &find("zoe")), ["1|100"]);
    assert_eq!(rows(&mut one, &find("ann")), ["4|4"]);
    assert_eq!(rows(&mut one, &find("bob")), ["2|5"]);
    done(&mut one, "COMMIT");
    assert_eq!(
        rows(&mut other, "SELECT id, owner FROM accounts ORDER BY id"),
        ["1|zoe", "2|bob", "3|", "4|ann"]
    );
}

#[test]
fn a_range_that_was_read_must_not_change_before_the_commit() {
    let reads = [
        "SELECT count(*) FROM accounts",
        "SELECT * FROM accounts WHERE balance >= 100 ORDER BY id",
        "SELECT * FROM accounts WHERE owner IS NULL",
        "SELECT * FROM accounts WHERE owner = 'new'",
        "SELECT id FROM accounts WHERE id > 1 ORDER BY id DESC LIMIT 2",
        "UPDATE accounts SET balance = balance + 1 WHERE balance >= 100",
        "DELETE FROM accounts WHERE owner = 'new'",
        "SELECT max(id) FROM accounts",
    ];
    for read in reads {
        let (mut one, mut other) = two();
        all(
            &mut one,
            &["BEGIN", read, "INSERT INTO entries VALUES (1, 1, 1)"],
        );
        done(&mut other, "INSERT INTO accounts VALUES (9, 'new', 200)");
        done(&mut other, "INSERT INTO accounts VALUES (8, NULL, 200)");
        let message = error(&mut one, "COMMIT");
        assert!(
            message.contains("accounts") && message.contains("40001"),
            "{read}: {message}"
        );
        assert_eq!(
            rows(&mut other, "SELECT count(*) FROM entries"),
            ["0"],
            "{read}"
        );
    }
}

#[test]
fn changes_outside_of_a_range_are_no_conflict() {
    let reads = [
        "SELECT count(*) FROM accounts WHERE balance < 50",
        "SELECT id FROM accounts WHERE id < 3 ORDER BY id LIMIT 2",
        "SELECT * FROM accounts WHERE owner = 'no such owner'",
        // Others may add to the rows that it changes.
        "UPDATE accounts SET balance = balance - 1 WHERE balance >= 100",
    ];
    for read in reads {
        let (mut one, mut other) = two();
        all(
            &mut one,
            &["BEGIN", read, "INSERT INTO entries VALUES (1, 1, 1)"],
        );
        done(&mut other, "INSERT INTO accounts VALUES (9, 'new', 60)");
        if read.starts_with("UPDATE") {
            done(
                &mut other,
                "UPDATE accounts SET balance = balance + 5 WHERE id = 1",
            );
        }
        assert!(run(&mut one, "COMMIT").is_ok(), "{read}");
    }
}

#[test]
fn ranges_show_the_own_changes() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "INSERT INTO accounts VALUES (5, 'eve', 150)",
            "DELETE FROM accounts WHERE id = 1",
            "UPDATE accounts SET balance = 120, owner = 'bob' WHERE balance = 100",
        ],
    );
    assert_eq!(
        rows(&mut one, "SELECT count(*), max(balance) FROM accounts"),
        ["3|150"]
    );
    assert_eq!(
        rows(
            &mut one,
            "SELECT id FROM accounts WHERE balance > 100 ORDER BY balance DESC"
        ),
        ["5", "2"]
    );
    assert_eq!(
        rows(&mut one, "SELECT id FROM accounts ORDER BY id LIMIT 2"),
        ["2", "3"]
    );
    assert_eq!(
        rows(&mut one, "SELECT id FROM accounts ORDER BY id DESC LIMIT 1"),
        ["5"]
    );
    assert_eq!(
        rows(&mut one, "SELECT id FROM accounts WHERE owner = 'ben'"),
        [""; 0]
    );
    assert_eq!(
        done(&mut one, "UPDATE accounts SET balance = 0 WHERE id >= 3"),
        "UPDATE 2"
    );
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut other, BALANCES), ["2|120", "3|0", "5|0"]);
}

#[test]
fn a_range_is_compared_with_each_statement() {
    let (mut one, mut other) = two();
    all(&mut one, &["BEGIN", "SELECT count(*) FROM accounts"]);
    done(&mut other, "INSERT INTO accounts VALUES (9, NULL, 0)");
    let message = error(&mut one, "SELECT * FROM entries WHERE id = 1");
    assert!(message.contains("40001"), "{message}");
}

/// Two sessions over a table with thin indexes and this many rows.
fn thin(count: usize) -> (SqlSession<Model>, SqlSession<Model>) {
    let values: Vec<String> = (0..count)
        .map(|id| format!("({id}, {}, {id}, 0)", id % 14))
        .collect();
    let setup = format!(
        "CREATE TABLE t (id bigint PRIMARY KEY, a bigint, u bigint, n bigint);
        CREATE INDEX by_a ON t (a);
        CREATE UNIQUE INDEX by_u ON t USING btree (u);
        INSERT INTO t VALUES {};",
        values.join(", ")
    );
    let one = Model::session(&setup);
    let other = SqlSession::new(one.store().clone());
    (one, other)
}

#[test]
fn a_range_of_a_thin_index_shows_own_changes_and_is_compared() {
    let sevens = "SELECT id, n FROM t WHERE a = 7 AND n < 5 ORDER BY id";
    // A change of another transaction meanwhile, and whether the commit fails.
    for (meanwhile, fails) in [
        ("UPDATE t SET n = n + 1 WHERE id = 3", false),
        ("UPDATE t SET a = 6 WHERE id = 3", false),
        ("INSERT INTO t VALUES (900, 6, 900, 0)", false),
        ("UPDATE t SET n = n + 1 WHERE id = 35", true),
        // It did not pass the filter, but might now.
        ("UPDATE t SET n = 1 WHERE id = 21", true),
        ("UPDATE t SET a = 7 WHERE id = 3", true),
        ("UPDATE t SET a = 8 WHERE id = 35", true),
        ("DELETE FROM t WHERE id = 35", true),
        ("INSERT INTO t VALUES (900, 7, 900, 9)", true),
    ] {
        let (mut one, mut other) = thin(40);
        done(&mut one, "UPDATE t SET n = 9 WHERE id = 21");
        done(&mut one, "BEGIN");
        assert_eq!(rows(&mut one, sevens), ["7|0", "35|0"]);
        done(&mut one, "UPDATE t SET a = 7 WHERE id = 1");
        done(&mut one, "UPDATE t SET a = 8 WHERE id = 7");
        assert_eq!(rows(&mut one, sevens), ["1|0", "35|0"]);
        done(&mut other, meanwhile);
        let failed = run(&mut one, "COMMIT").is_err();
        assert_eq!(failed, fails, "{meanwhile}");
    }
}

#[test]
fn a_key_that_a_thin_index_lacks_is_compared() {
    let (mut one, mut other) = thin(40);
    let missing = "SELECT id FROM t WHERE u = 777";
    all(&mut one, &["BEGIN", "UPDATE t SET n = 1 WHERE id = 1"]);
    assert_eq!(rows(&mut one, missing), [""; 0]);
    done(&mut other, "UPDATE t SET u = 778 WHERE id = 2");
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    all(&mut one, &["BEGIN", "UPDATE t SET n = 2 WHERE id = 1"]);
    assert_eq!(rows(&mut one, missing), [""; 0]);
    done(&mut other, "UPDATE t SET u = 777 WHERE id = 2");
    assert!(error(&mut one, "COMMIT").contains("40001"));
}

#[test]
fn a_change_by_a_thin_index_needs_the_same_rows() {
    let change = "UPDATE t SET n = n + 1 WHERE a = 7";
    let (mut one, mut other) = thin(40);
    done(&mut one, "BEGIN");
    assert_eq!(done(&mut one, change), "UPDATE 3");
    // It reads nothing of them but that they are there.
    done(&mut other, "UPDATE t SET n = n + 10 WHERE id = 7");
    assert_eq!(done(&mut one, "COMMIT"), "COMMIT");
    assert_eq!(rows(&mut one, "SELECT n FROM t WHERE id = 7"), ["11"]);
    for meanwhile in [
        "INSERT INTO t VALUES (900, 7, 900, 0)",
        "DELETE FROM t WHERE id = 7",
    ] {
        let (mut one, mut other) = thin(40);
        all(&mut one, &["BEGIN", change]);
        done(&mut other, meanwhile);
        let message = error(&mut one, "COMMIT");
        assert!(message.contains("40001"), "{meanwhile}: {message}");
    }
}

#[test]
fn after_too_many_rows_a_transaction_only_reads() {
    let (mut one, mut other) = thin(300);
    let text = "SELECT count(*), max(n) FROM t WHERE n >= 0";
    let found = rows(&mut other, text);
    all(&mut one, &["BEGIN", "SELECT * FROM t WHERE id = 1"]);
    assert_eq!(rows(&mut one, text), found);
    // It reads one state from now on.
    done(&mut other, "UPDATE t SET n = 5 WHERE id = 7");
    assert_eq!(rows(&mut one, text), found);
    assert_eq!(rows(&mut one, "SELECT n FROM t WHERE id = 7"), ["0"]);
    let message = error(&mut one, "UPDATE t SET a = 1 WHERE id = 1");
    assert!(message.contains("since it has read more"), "{message}");
    assert!(message.contains("too many rows of table t"), "{message}");
    done(&mut one, "ROLLBACK");
    assert_ne!(rows(&mut one, text), found);
    // It has changed a row, which a snapshot would not show.
    all(&mut one, &["BEGIN", "UPDATE t SET a = 1 WHERE id = 1"]);
    assert!(error(&mut one, text).contains("too many rows"));
}

#[test]
fn what_was_read_before_must_be_the_same_in_the_snapshot() {
    for read in [
        "SELECT * FROM t WHERE id = 1",
        "SELECT count(*) FROM t WHERE id < 9",
        "SELECT id FROM t WHERE a = 1 AND id < 5",
    ] {
        let (mut one, mut other) = thin(300);
        all(&mut one, &["BEGIN", read]);
        done(&mut other, "UPDATE t SET n = 7 WHERE id = 1");
        let message = error(&mut one, "SELECT count(*), max(n) FROM t WHERE n >= 0");
        assert!(message.contains("40001"), "{read}: {message}");
    }
}

#[test]
fn a_read_only_transaction_reads_one_state() {
    let (mut one, _) = two();
    done(
        &mut one,
        "BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
    );
    assert_eq!(rows(&mut one, BALANCES).len(), 3);
    assert_eq!(rows(&mut one, "SELECT count(*) FROM entries"), ["0"]);
    assert_eq!(one.store().snapshots(), 1);
    let message = error(&mut one, "DELETE FROM accounts WHERE id = 1");
    assert!(message.contains("READ ONLY"), "{message}");
    done(&mut one, "ROLLBACK");
    all(
        &mut one,
        &[
            "BEGIN",
            "SET TRANSACTION READ ONLY",
            "SELECT * FROM accounts",
            "COMMIT",
        ],
    );
    all(&mut one, &["BEGIN", "SELECT * FROM accounts WHERE id = 1"]);
    assert!(error(&mut one, "SET TRANSACTION READ ONLY").contains("before"));
    assert!(error(&mut Model::session(USERS), "SET TRANSACTION READ ONLY").contains("BEGIN"));
}

#[test]
fn a_snapshot_that_ends_ends_its_transaction() {
    let (mut one, _) = two();
    all(&mut one, &["BEGIN READ ONLY", "SELECT * FROM accounts"]);
    one.store().end_snapshots(1);
    let message = error(&mut one, "SELECT * FROM accounts");
    assert!(message.contains("40001"), "{message}");
    assert_eq!(one.transaction(), Some(true));
}

#[test]
fn a_change_of_tables_commits_what_comes_before_it() {
    let (mut one, mut other) = two();
    all(
        &mut one,
        &[
            "BEGIN",
            "SAVEPOINT a",
            "CREATE TABLE notes (id bigint PRIMARY KEY)",
        ],
    );
    let at_once = "the statement takes effect at once: ROLLBACK does not undo it";
    assert_eq!(one.take_notices(), [at_once]);
    all(
        &mut one,
        &[
            "INSERT INTO notes VALUES (1)",
            "INSERT INTO entries VALUES (1, 1, 1)",
        ],
    );
    assert!(one.take_notices().is_empty());
    assert_eq!(rows(&mut other, "SELECT count(*) FROM notes"), ["0"]);
    done(&mut one, "ALTER TABLE notes ADD text text");
    let notices = one.take_notices();
    assert!(
        notices[0].contains("before it are committed"),
        "{notices:?}"
    );
    assert_eq!(rows(&mut other, "SELECT id, text FROM notes"), ["1|"]);
    // The savepoint is still there: it stands for the state after the statement.
    all(
        &mut one,
        &[
            "DELETE FROM notes WHERE id = 1",
            "ROLLBACK TO a",
            "INSERT INTO notes VALUES (2, 'b')",
            "RELEASE a",
            "ROLLBACK",
        ],
    );
    assert_eq!(rows(&mut other, "SELECT id FROM notes"), ["1"]);
    assert_eq!(rows(&mut other, "SELECT id FROM entries"), ["1"]);
}

#[test]
fn a_change_of_tables_that_fails_makes_the_transaction_fail() {
    let (mut one, mut other) = two();
    all(&mut one, &["BEGIN", "INSERT INTO entries VALUES (1, 1, 1)"]);
    error(&mut one, "CREATE TABLE entries (id bigint PRIMARY KEY)");
    assert_eq!(one.transaction(), Some(true));
    assert!(error(&mut one, "DROP TABLE entries").contains("ROLLBACK"));
    done(&mut one, "ROLLBACK");
    // Its changes before the statement are committed.
    assert_eq!(rows(&mut other, "SELECT id FROM entries"), ["1"]);

    // The changes before the statement cannot be committed: the statement is not run.
    all(
        &mut one,
        &["BEGIN", "UPDATE accounts SET balance = 1 WHERE id = 1"],
    );
    assert_eq!(
        rows(&mut one, "SELECT balance FROM accounts WHERE id = 2"),
        ["100"]
    );
    done(&mut other, "UPDATE accounts SET balance = 5 WHERE id = 2");
    assert!(error(&mut one, "DROP TABLE entries").contains("40001"));
    done(&mut one, "ROLLBACK");
    assert_eq!(rows(&mut other, "SELECT id FROM entries"), ["1"]);

    done(&mut one, "BEGIN READ ONLY");
    assert!(error(&mut one, "DROP TABLE entries").contains("READ ONLY"));
    assert_eq!(one.transaction(), Some(true));
}

#[test]
fn statements_outside_are_refused_with_the_remedy() {
    let mut one = Model::session(ACCOUNTS);
    for text in ["SAVEPOINT a", "RELEASE a", "ROLLBACK TO a"] {
        assert!(error(&mut one, text).contains("BEGIN"), "{text}");
    }
    all(&mut one, &["BEGIN", "BEGIN"]);
    assert_eq!(one.take_notices().len(), 1);
}

#[test]
fn a_conflict_at_the_commit_names_the_table() {
    let (mut one, _) = two();
    all(
        &mut one,
        &["BEGIN", "UPDATE accounts SET balance = 7 WHERE id = 2"],
    );
    one.store().conflict(1);
    let message = error(&mut one, "COMMIT");
    assert!(
        message.contains("accounts") && message.contains("40001"),
        "{message}"
    );
}

#[test]
fn a_statement_of_several_rows_is_one_transaction() {
    let (mut one, _) = two();
    let insert = "INSERT INTO accounts VALUES (4, 'cat', 0), (5, 'ann', 0), (6, 'dan', 0)";
    let message = error(&mut one, insert);
    assert!(message.contains("(owner) = ('ann')"), "{message}");
    assert!(!message.contains("rows were changed"), "{message}");
    let before = one.store().executed();
    assert_eq!(
        done(
            &mut one,
            "UPDATE accounts SET balance = balance + 1 WHERE balance >= 0"
        ),
        "UPDATE 3"
    );
    assert_eq!(one.store().executed() - before, 1);
    let overflow = "UPDATE accounts SET balance = balance + 9223372036854775707 WHERE id IN (1, 3)";
    assert!(error(&mut one, overflow).contains("accounts"));
    assert_eq!(rows(&mut one, BALANCES), ["1|101", "2|101", "3|1"]);
    assert_eq!(
        done(&mut one, "DELETE FROM accounts WHERE id IN (1, 2, 8)"),
        "DELETE 2"
    );
}

#[test]
fn a_statement_beyond_the_limits_says_that_it_is_no_transaction() {
    let mut one = Model::session(ACCOUNTS);
    let values: Vec<String> = (0..10_001).map(|id| format!("({id}, 0, 0)")).collect();
    let insert = format!("INSERT INTO entries VALUES {}", values.join(", "));
    assert_eq!(done(&mut one, &insert), "INSERT 0 10001");
    let notices = one.take_notices();
    assert!(
        notices[0].contains("each row is changed by itself"),
        "{notices:?}"
    );
}
