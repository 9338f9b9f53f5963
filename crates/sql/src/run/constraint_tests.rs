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
        ("gamma(id) < 3", "the function gamma"),
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

const FAMILY: &str = "
    CREATE TABLE p (id bigint PRIMARY KEY, name text UNIQUE);
    CREATE TABLE c (id bigint PRIMARY KEY, p bigint REFERENCES p, note text, INDEX c_by_p (p));
    INSERT INTO p VALUES (1, 'a'), (2, 'b');
    INSERT INTO c VALUES (1, 1, NULL), (2, NULL, NULL);
";

#[test]
fn foreign_keys_are_resolved_and_served_by_an_index() {
    let session = &mut Model::session(FAMILY);
    let text = "CREATE TABLE d (a bigint, b bigint, id bigint, PRIMARY KEY (a, id), \
        FOREIGN KEY (a) REFERENCES p (id) ON DELETE RESTRICT ON UPDATE CASCADE, \
        CONSTRAINT other FOREIGN KEY (b) REFERENCES d2)";
    assert!(error(session, text).contains("there is no table d2"));
    let text = text.replace("d2", "p");
    assert_eq!(done(session, &text), "CREATE TABLE");
    // The primary key serves the first one.
    assert_eq!(
        session.take_notices(),
        ["index d_b_idx (b), a copy of table d, is made for foreign key other"]
    );
    let configuration = session.store().configuration();
    let d = &configuration.table_named("d").unwrap().schema;
    let keys = d.constraints.foreign_keys.iter();
    let keys: Vec<_> = keys.map(|key| (&key.name[..], &key.columns[..])).collect();
    assert_eq!(keys, [("d_a_fkey", &[0][..]), ("other", &[1][..])]);
    let p = &configuration.table_named("p").unwrap().schema;
    assert_eq!(p.constraints.referenced_by, ["c", "d"]);
    done(session, "DROP TABLE d");
    let configuration = session.store().configuration();
    let p = &configuration.table_named("p").unwrap().schema;
    assert_eq!(p.constraints.referenced_by, ["c"]);
}

#[test]
fn foreign_keys_that_are_not_possible_are_refused() {
    let session = &mut Model::session(FAMILY);
    for (key, part) in [
        (
            "REFERENCES p (name)",
            "is not supported: refer to the primary key",
        ),
        ("REFERENCES c (note)", "no unique constraint matching"),
        (
            "REFERENCES p (id, name)",
            "referenced columns for foreign key disagree",
        ),
        ("REFERENCES p MATCH FULL", "MATCH FULL of the foreign key"),
        (
            "REFERENCES p NOT DEFERRABLE INITIALLY DEFERRED",
            "INITIALLY DEFERRED must be DEFERRABLE",
        ),
        (
            "REFERENCES p ON DELETE SET DEFAULT",
            "SET DEFAULT of the foreign key",
        ),
        ("REFERENCES nothing", "there is no table nothing"),
    ] {
        let text = format!("CREATE TABLE t (id bigint PRIMARY KEY, a bigint {key})");
        let failure = error(session, &text);
        assert!(failure.contains(part), "{key}: {failure}");
    }
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, a text REFERENCES p)";
    assert!(error(session, text).contains("of incompatible types"));
}

#[test]
fn violated_foreign_keys_are_reported_as_by_postgresql() {
    let session = &mut Model::session(FAMILY);
    let no_parent = "insert or update on table \"c\" violates foreign key constraint \"c_p_fkey\" \
        (SQLSTATE 23503): Key (p)=(7) is not present in table \"p\".";
    let has_children = "update or delete on table \"p\" violates foreign key constraint \
        \"c_p_fkey\" on table \"c\" (SQLSTATE 23503): Key (id)=(1) is still referenced from table \
        \"c\".";
    for (text, failure) in [
        ("INSERT INTO c VALUES (3, 7, NULL)", no_parent),
        ("INSERT INTO c VALUES (3, 1, NULL), (4, 7, NULL)", no_parent),
        ("UPDATE c SET p = 7 WHERE id = 2", no_parent),
        (
            "INSERT INTO c VALUES (1, 1, NULL) ON CONFLICT (id) DO UPDATE SET p = 7",
            no_parent,
        ),
        ("DELETE FROM p WHERE id = 1", has_children),
        ("DELETE FROM p WHERE id > 0", has_children),
    ] {
        assert_eq!(error(session, text), failure, "{text}");
        // In a transaction the statement fails, not the commit.
        done(session, "BEGIN");
        assert_eq!(error(session, text), failure, "{text}");
        done(session, "ROLLBACK");
    }
    assert_eq!(
        rows(session, "SELECT id, p FROM c ORDER BY id"),
        ["1|1", "2|"]
    );
    assert_eq!(done(session, "DELETE FROM p WHERE id = 2"), "DELETE 1");
}

const TREE: &str = "
    CREATE TABLE t (id bigint PRIMARY KEY, up bigint REFERENCES t ON DELETE CASCADE,
        INDEX t_up (up));
    CREATE TABLE notes (id bigint PRIMARY KEY, t bigint REFERENCES t ON DELETE SET NULL,
        text text, INDEX notes_t (t));
    CREATE TABLE locks (id bigint PRIMARY KEY REFERENCES t ON DELETE RESTRICT);
    INSERT INTO t VALUES (1, NULL), (2, 1), (3, 2), (4, 2), (5, 4), (6, 6), (7, NULL);
    INSERT INTO notes VALUES (1, 1, 'a'), (2, 3, 'b'), (3, 7, 'c');
    INSERT INTO locks VALUES (7);
";

#[test]
fn deletes_change_the_rows_that_refer_to_the_deleted_ones() {
    for in_block in [false, true] {
        let session = &mut Model::session(TREE);
        let run_one = |session: &mut _, text: &str| {
            if !in_block {
                return done(session, text);
            }
            done(session, "BEGIN");
            let outcome = done(session, text);
            assert_eq!(done(session, "COMMIT"), "COMMIT");
            outcome
        };
        let ids = |session: &mut _| rows(session, "SELECT id FROM t ORDER BY id").join(" ");
        assert_eq!(run_one(session, "DELETE FROM t WHERE id = 9"), "DELETE 0");
        // A row to which others refer, and whose condition does not hold.
        let text = "DELETE FROM t WHERE id = 2 AND up = 7";
        assert_eq!(run_one(session, text), "DELETE 0");
        assert_eq!(ids(session), "1 2 3 4 5 6 7");
        assert_eq!(run_one(session, "DELETE FROM t WHERE id = 2"), "DELETE 1");
        assert_eq!(ids(session), "1 6 7");
        let notes = "SELECT id, t FROM notes ORDER BY id";
        assert_eq!(rows(session, notes), ["1|1", "2|", "3|7"]);
        let text = "DELETE FROM t WHERE id IN (1, 6, 8)";
        assert_eq!(run_one(session, text), "DELETE 2");
        assert_eq!(rows(session, notes), ["1|", "2|", "3|7"]);
        let failure = match in_block {
            false => error(session, "DELETE FROM t WHERE id = 7"),
            true => {
                done(session, "BEGIN");
                let failure = error(session, "DELETE FROM t WHERE id = 7");
                done(session, "ROLLBACK");
                failure
            }
        };
        assert!(
            failure.contains("\"locks_id_fkey\" on table \"locks\""),
            "{failure}"
        );
        assert_eq!(rows(session, notes), ["1|", "2|", "3|7"]);
    }
}

#[test]
fn a_transaction_checks_its_own_rows_and_its_commit_those_of_others() {
    let session = &mut Model::session(FAMILY);
    let other = &mut crate::run::SqlSession::new(session.store().clone());
    for text in [
        "BEGIN",
        "INSERT INTO p VALUES (3, 'c')",
        "INSERT INTO c VALUES (3, 3, NULL)",
        "UPDATE c SET p = 2 WHERE id = 1",
        "DELETE FROM p WHERE id = 1",
        "COMMIT",
    ] {
        done(session, text);
    }
    let all = "SELECT id, p FROM c ORDER BY id";
    assert_eq!(rows(session, all), ["1|2", "2|", "3|3"]);
    // A parent that is there at the statement and gone at the commit.
    done(session, "BEGIN");
    done(session, "UPDATE c SET p = 3 WHERE id = 1");
    done(other, "DELETE FROM c WHERE id = 3");
    done(other, "DELETE FROM p WHERE id = 3");
    let failure = error(session, "COMMIT");
    assert!(
        failure.contains("Key (p)=(3) is not present in table \"p\""),
        "{failure}"
    );
    // An update of the parent is no obstacle.
    done(session, "BEGIN");
    done(session, "INSERT INTO c VALUES (4, 2, NULL)");
    done(other, "UPDATE p SET name = 'x' WHERE id = 2");
    assert_eq!(done(session, "COMMIT"), "COMMIT");
}

#[test]
fn a_deferred_foreign_key_is_checked_by_the_commit() {
    let session = &mut Model::session(
        "CREATE TABLE p (id bigint PRIMARY KEY);
         CREATE TABLE c (id bigint PRIMARY KEY, INDEX (p),
            p bigint REFERENCES p DEFERRABLE INITIALLY DEFERRED);
         CREATE TABLE d (id bigint PRIMARY KEY, p bigint, INDEX (p),
            FOREIGN KEY (p) REFERENCES p ON DELETE RESTRICT DEFERRABLE INITIALLY DEFERRED);",
    );
    for text in [
        "BEGIN",
        "INSERT INTO c VALUES (1, 7)",
        "INSERT INTO p VALUES (7)",
        "COMMIT",
        "BEGIN",
        "DELETE FROM p WHERE id = 7",
        "DELETE FROM c WHERE id = 1",
        "INSERT INTO p VALUES (7)",
        "INSERT INTO d VALUES (1, 7)",
        "COMMIT",
        "BEGIN",
        "INSERT INTO c VALUES (1, 8)",
    ] {
        done(session, text);
    }
    assert!(error(session, "COMMIT").contains("\"c_p_fkey\" (SQLSTATE 23503)"));
    assert!(error(session, "INSERT INTO c VALUES (1, 8)").contains("SQLSTATE 23503"));
    // A refusal by RESTRICT is not deferred.
    done(session, "BEGIN");
    assert!(error(session, "DELETE FROM p WHERE id = 7").contains("\"d_p_fkey\""));
    done(session, "ROLLBACK");
}

#[test]
fn a_transaction_says_when_its_foreign_keys_are_checked() {
    let session = &mut Model::session(
        "CREATE TABLE p (id bigint PRIMARY KEY);
         CREATE TABLE c (id bigint PRIMARY KEY,
             p bigint CONSTRAINT late REFERENCES p DEFERRABLE,
             q bigint CONSTRAINT now REFERENCES p);",
    );
    done(session, "BEGIN");
    assert!(error(session, "INSERT INTO c VALUES (1, 1)").contains("\"late\""));
    done(
        session,
        "ROLLBACK; BEGIN; SET CONSTRAINTS public.late DEFERRED",
    );
    done(session, "INSERT INTO c VALUES (1, 1)");
    assert!(error(session, "SET CONSTRAINTS ALL IMMEDIATE").contains("\"late\""));
    assert_eq!(session.transaction(), Some(true));
    done(session, "ROLLBACK; BEGIN; SET CONSTRAINTS ALL DEFERRED");
    done(
        session,
        "INSERT INTO c VALUES (1, 1); INSERT INTO p VALUES (1)",
    );
    done(session, "SET CONSTRAINTS \"late\" IMMEDIATE");
    assert!(error(session, "INSERT INTO c VALUES (2, 2)").contains("\"late\""));
    done(session, "ROLLBACK; BEGIN; SET CONSTRAINTS ALL DEFERRED");
    assert!(error(session, "INSERT INTO c VALUES (1, NULL, 1)").contains("\"now\""));
    for (text, expected) in [
        (
            "SET CONSTRAINTS late, other DEFERRED",
            "constraint \"other\" does not exist",
        ),
        (
            "SET CONSTRAINTS now DEFERRED",
            "constraint \"now\" is not deferrable",
        ),
    ] {
        done(session, "ROLLBACK; BEGIN");
        assert!(error(session, text).contains(expected), "{text}");
    }
    done(session, "ROLLBACK");
    session.take_notices();
    done(session, "SET CONSTRAINTS ALL DEFERRED");
    assert_eq!(session.take_notices().len(), 1, "no transaction is open");
}
