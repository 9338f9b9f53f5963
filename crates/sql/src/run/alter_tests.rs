//! Tests changes of tables in use over the model.

use super::SqlSession;
use super::tests::{done, error, rows, run};
use crate::model::Model;
use crate::store::Store;

const STAFF: &str = "
    CREATE TABLE staff (id bigint PRIMARY KEY, name text NOT NULL, age int CHECK (age > 0),
        CONSTRAINT staff_name_key UNIQUE (name));
    INSERT INTO staff VALUES (1, 'Ann', 30), (2, 'Bob', NULL);
";

#[test]
fn added_columns_have_their_default_in_earlier_rows() {
    let session = &mut Model::session(STAFF);
    let add = "ALTER TABLE staff ADD COLUMN level int NOT NULL DEFAULT 1, ADD note varchar(5)";
    assert_eq!(done(session, add), "ALTER TABLE");
    done(
        session,
        "ALTER TABLE staff ALTER COLUMN level SET DEFAULT 2",
    );
    done(session, "INSERT INTO staff (id, name) VALUES (3, 'Cat')");
    assert_eq!(
        rows(session, "SELECT id, level, note FROM staff ORDER BY id"),
        ["1|1|", "2|1|", "3|2|"]
    );
    done(session, "ALTER TABLE staff ALTER level DROP DEFAULT");
    let text = error(session, "INSERT INTO staff (id, name) VALUES (4, 'Dan')");
    assert!(text.contains("level"), "{text}");
    let existing = "ALTER TABLE staff ADD COLUMN IF NOT EXISTS level int";
    assert!(
        done(session, existing).starts_with("NOTICE"),
        "nothing to do"
    );
}

#[test]
fn a_moment_as_default_is_that_of_the_statement() {
    let session = &mut Model::session(STAFF);
    done(
        session,
        "ALTER TABLE staff ADD since timestamptz DEFAULT now()",
    );
    let one = rows(session, "SELECT since FROM staff WHERE id = 1");
    let other = rows(session, "SELECT since FROM staff WHERE id = 2");
    assert_eq!(one, other);
    assert_ne!(one, [""]);
    let random = "ALTER TABLE staff ADD token uuid DEFAULT gen_random_uuid()";
    let refused = error(session, random);
    assert!(refused.contains("SET DEFAULT, then UPDATE"), "{refused}");
}

#[test]
fn conditions_on_all_rows_are_checked_before_the_change() {
    let session = &mut Model::session(STAFF);
    let before = session.store().configuration();
    for (text, expected) in [
        (
            "ALTER TABLE staff ALTER age SET NOT NULL",
            "column \"age\" of relation \"staff\" contains null values",
        ),
        (
            "ALTER TABLE staff ADD CONSTRAINT old CHECK (age > 30)",
            "check constraint \"old\" of relation \"staff\" is violated by some row",
        ),
        (
            "ALTER TABLE staff ADD needed int NOT NULL",
            "column \"needed\" of relation \"staff\" contains null values",
        ),
        (
            "ALTER TABLE staff ADD small int DEFAULT 7 CHECK (small < 7)",
            "check constraint \"staff_small_check\" of relation \"staff\" is violated by some row",
        ),
    ] {
        assert_eq!(error(session, text), expected, "{text}");
    }
    let table = |session: &SqlSession<Model>| {
        let configuration = session.store().configuration();
        configuration.table_named("staff").unwrap().schema.clone()
    };
    assert_eq!(table(session), before.table_named("staff").unwrap().schema);
    done(session, "UPDATE staff SET age = 40 WHERE id = 2");
    done(
        session,
        "ALTER TABLE staff ALTER age SET NOT NULL, ADD CONSTRAINT old CHECK (age >= 30), \
         ADD small int DEFAULT 7 CHECK (small < 8)",
    );
    let schema = table(session);
    assert!(!schema.columns[2].nullable);
    let checks = schema.constraints.checks.iter();
    let checks: Vec<(&str, bool)> = checks.map(|it| (&it.name[..], it.is_valid)).collect();
    let expected = ["old", "staff_age_check", "staff_small_check"];
    assert_eq!(checks, expected.map(|name| (name, true)));
    let text = error(session, "INSERT INTO staff VALUES (3, 'Cat', 20)");
    assert!(text.contains("\"old\""), "{text}");
}

#[test]
fn a_column_without_values_can_be_added_to_an_empty_table() {
    let session = &mut Model::session(STAFF);
    done(session, "TRUNCATE staff");
    done(
        session,
        "ALTER TABLE staff ADD needed int NOT NULL, ADD small int CHECK (small IS NOT NULL)",
    );
    let schema = session.store().configuration();
    let schema = &schema.table_named("staff").unwrap().schema;
    let checks = schema.constraints.checks.iter().map(|it| &it.name[..]);
    assert!(
        checks.eq(["staff_age_check", "staff_small_check"]),
        "the others are gone"
    );
}

#[test]
fn constraints_can_be_added_without_a_check_of_the_rows() {
    let session = &mut Model::session(STAFF);
    done(
        session,
        "ALTER TABLE staff ADD CONSTRAINT old CHECK (age > 30) NOT VALID",
    );
    let shown = format!("{:?}", run(session, "SHOW TABLE staff"));
    assert!(shown.contains("CHECK (age > 30) NOT VALID"), "{shown}");
    let refused = error(session, "ALTER TABLE staff VALIDATE CONSTRAINT old");
    assert!(refused.contains("is violated by some row"), "{refused}");
    let text = error(session, "INSERT INTO staff VALUES (3, 'Cat', 20)");
    assert!(text.contains("\"old\""), "it binds new rows: {text}");
    done(session, "UPDATE staff SET age = 31");
    done(session, "ALTER TABLE staff VALIDATE CONSTRAINT old");
    done(session, "ALTER TABLE staff RENAME CONSTRAINT old TO grown");
    done(session, "ALTER TABLE staff DROP CONSTRAINT grown");
    done(session, "INSERT INTO staff VALUES (3, 'Cat', 20)");
}

#[test]
fn names_change() {
    let session = &mut Model::session(STAFF);
    done(session, "ALTER TABLE staff RENAME COLUMN age TO years");
    done(session, "ALTER TABLE staff RENAME TO people");
    assert_eq!(
        done(session, "ALTER INDEX staff_name_key RENAME TO by_name"),
        "ALTER INDEX"
    );
    assert_eq!(
        rows(session, "SELECT years FROM people WHERE name = 'Ann'"),
        ["30"]
    );
    let text = error(session, "INSERT INTO people VALUES (3, 'Ann', 1)");
    assert!(text.contains("by_name"), "{text}");
    let text = error(session, "INSERT INTO people VALUES (3, 'Cat', -1)");
    assert!(text.contains("staff_age_check"), "{text}");
    error(session, "SELECT 1 FROM staff");
    done(session, "ALTER TABLE people DROP CONSTRAINT by_name");
    done(session, "INSERT INTO people VALUES (3, 'Ann', 1)");
}

#[test]
fn statements_that_fit_nothing_are_refused_by_name() {
    let session = &mut Model::session(STAFF);
    done(session, "CREATE TABLE other (id int PRIMARY KEY)");
    for (text, expected) in [
        (
            "ALTER TABLE staff RENAME TO other",
            "\"other\" already exists",
        ),
        ("ALTER TABLE staff RENAME age TO name", "already exists"),
        ("ALTER TABLE staff RENAME agee TO x", "agee"),
        (
            "ALTER TABLE staff ALTER id DROP NOT NULL",
            "is in a primary key",
        ),
        ("ALTER TABLE staff ADD name text", "already exists"),
        ("ALTER TABLE staff DROP CONSTRAINT x", "does not exist"),
        ("ALTER TABLE staff VALIDATE CONSTRAINT x", "does not exist"),
        (
            "ALTER TABLE staff ADD CONSTRAINT staff_age_check CHECK (true)",
            "already exists",
        ),
        (
            "ALTER TABLE staff ADD a int, RENAME age TO b",
            "stands alone",
        ),
        ("ALTER TABLE staff DROP COLUMN id", "in the primary key"),
        ("ALTER TABLE staff DROP COLUMN agee", "agee"),
        ("ALTER TABLE staff ALTER age TYPE bigint", "not supported"),
        (
            "ALTER TABLE staff ALTER name TYPE text USING upper(name)",
            "not supported",
        ),
        (
            "ALTER TABLE staff ADD FOREIGN KEY (name) REFERENCES other",
            "incompatible types",
        ),
        (
            "ALTER TABLE staff ADD FOREIGN KEY (age) REFERENCES nothing",
            "nothing",
        ),
        (
            "ALTER TABLE staff ADD \"........pg.dropped.1........\" int",
            "system column",
        ),
        (
            "ALTER TABLE staff ADD a int CHECK (a < age)",
            "not supported",
        ),
        ("ALTER TABLE staff DISABLE TRIGGER ALL", "not supported"),
    ] {
        let text_of_error = error(session, text);
        assert!(text_of_error.contains(expected), "{text}: {text_of_error}");
        done(session, "ROLLBACK");
    }
    let missing = "ALTER TABLE IF EXISTS missing ADD a int";
    assert!(
        done(session, missing).starts_with("NOTICE"),
        "nothing to do"
    );
}

#[test]
fn a_table_to_which_others_refer_is_emptied_with_them() {
    let session = &mut Model::session(STAFF);
    done(
        session,
        "CREATE TABLE pets (id int PRIMARY KEY, owner bigint REFERENCES staff, INDEX (owner));
         INSERT INTO pets VALUES (1, 1)",
    );
    let text = error(session, "TRUNCATE staff");
    assert!(
        text.contains("table \"pets\" references \"staff\""),
        "{text}"
    );
    assert_eq!(
        done(session, "TRUNCATE TABLE pets, staff"),
        "TRUNCATE TABLE"
    );
    assert_eq!(rows(session, "SELECT count(*) FROM staff"), ["0"]);
    done(session, "TRUNCATE staff CASCADE");
    assert_eq!(
        session.take_notices(),
        ["truncate cascades to table \"pets\""]
    );
}

#[test]
fn a_transaction_begins_again_if_its_table_gets_other_columns() {
    let one = &mut Model::session(STAFF);
    let other = &mut SqlSession::new(one.store().clone());
    done(one, "BEGIN");
    assert_eq!(rows(one, "SELECT id FROM staff WHERE age = 30"), ["1"]);
    done(other, "ALTER TABLE staff ADD level int DEFAULT 1");
    let text = error(one, "SELECT * FROM staff WHERE id = 1");
    assert!(
        text.contains("columns of table staff have changed"),
        "{text}"
    );
    done(one, "ROLLBACK");
    done(one, "BEGIN");
    assert_eq!(rows(one, "SELECT level FROM staff WHERE id = 1"), ["1"]);
    done(one, "COMMIT");
}

#[test]
fn defaults_come_from_sequences_and_identities_keep_theirs() {
    let session = &mut Model::session(
        "CREATE SEQUENCE numbers START 7;
         CREATE TABLE t (id serial PRIMARY KEY, n int);
         CREATE TABLE identified (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY)",
    );
    done(
        session,
        "ALTER TABLE t ALTER n SET DEFAULT nextval('numbers')",
    );
    done(session, "ALTER TABLE t RENAME id TO number");
    done(session, "ALTER TABLE t RENAME TO u");
    done(session, "INSERT INTO u DEFAULT VALUES");
    done(session, "ALTER TABLE u ALTER n DROP DEFAULT");
    done(session, "INSERT INTO u DEFAULT VALUES");
    let all = "SELECT number, n FROM u ORDER BY number";
    assert_eq!(rows(session, all), ["1|7", "2|"]);
    for (text, expected) in [
        (
            "ALTER TABLE u ALTER n SET DEFAULT nextval('missing')",
            "relation \"missing\" does not exist",
        ),
        (
            "ALTER TABLE u ADD m serial",
            "with another value in each row",
        ),
        (
            "ALTER TABLE u ADD m int DEFAULT nextval('numbers')",
            "another value in each row",
        ),
        (
            "ALTER TABLE identified ALTER id DROP DEFAULT",
            "column \"id\" of relation \"identified\" is an identity column",
        ),
        (
            "ALTER TABLE identified ALTER id DROP NOT NULL",
            "column \"id\" of relation \"identified\" is an identity column",
        ),
        ("ALTER TABLE numbers RENAME TO others", "a sequence"),
        ("TRUNCATE numbers", "a sequence"),
    ] {
        let found = error(session, text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    done(session, "DROP TABLE u");
    let gone = error(session, "SELECT nextval('t_id_seq')");
    assert!(gone.contains("does not exist"), "{gone}");
}

#[test]
fn a_dropped_column_goes_with_all_that_is_over_it() {
    let session = &mut Model::session(STAFF);
    done(
        session,
        "CREATE TABLE teams (id int PRIMARY KEY);
         INSERT INTO teams VALUES (1);
         ALTER TABLE staff ADD team int REFERENCES teams",
    );
    let names = |session: &SqlSession<Model>| -> Vec<String> {
        let configuration = session.store().configuration();
        let tables = configuration.tables.iter();
        tables.map(|table| table.schema.name.clone()).collect()
    };
    done(session, "CREATE INDEX by_age ON staff (age) INCLUDE (team)");
    done(
        session,
        "ALTER TABLE staff ADD CHECK (age < team OR team = 1)",
    );
    done(session, "UPDATE staff SET team = 1 WHERE id = 1");
    done(session, "ALTER TABLE staff DROP COLUMN team");
    let configuration = session.store().configuration();
    let staff = &configuration.table_named("staff").unwrap().schema;
    assert!(staff.constraints.foreign_keys.is_empty());
    assert_eq!(staff.constraints.checks.len(), 1, "that of age");
    assert!(staff.thin.is_empty() && staff.indexes.len() <= 1);
    let teams = &configuration.table_named("teams").unwrap().schema;
    assert!(teams.constraints.referenced_by.is_empty());
    assert_eq!(
        rows(session, "SELECT * FROM staff ORDER BY id"),
        ["1|Ann|30", "2|Bob|"]
    );
    let unknown = error(session, "SELECT team FROM staff");
    assert!(
        unknown.contains("team") && !unknown.contains("dropped"),
        "{unknown}"
    );
    done(session, "INSERT INTO staff VALUES (3, 'Cat', 20)");
    assert!(error(session, "INSERT INTO staff VALUES (4, 'Dan', 20, 1)").contains("values"));
    done(session, "ALTER TABLE staff ADD team text DEFAULT 'new'");
    assert_eq!(
        rows(session, "SELECT * FROM staff ORDER BY id"),
        ["1|Ann|30|new", "2|Bob||new", "3|Cat|20|new"]
    );
    let notice = done(session, "ALTER TABLE staff DROP COLUMN IF EXISTS nothing");
    assert!(notice.starts_with("NOTICE"), "{notice}");
    // The name of a unique constraint is free with its column.
    done(
        session,
        "ALTER TABLE staff DROP COLUMN name CASCADE, ADD name text",
    );
    done(session, "INSERT INTO staff (id) VALUES (5), (6)");

    done(
        session,
        "CREATE TABLE counted (id int PRIMARY KEY, number serial)",
    );
    assert!(names(session).contains(&"counted_number_seq".into()));
    done(session, "ALTER TABLE counted DROP number");
    assert!(!names(session).contains(&"counted_number_seq".into()));
    done(session, "INSERT INTO counted VALUES (1)");
}

#[test]
fn types_change_if_the_rows_stay_as_they_are() {
    let session = &mut Model::session(
        "CREATE TABLE t (id int PRIMARY KEY, a varchar(5), b char(3), c numeric(5,2), d text);
         INSERT INTO t VALUES (1, 'abcde', 'xy', 1.50, 'äöü')",
    );
    done(
        session,
        "ALTER TABLE t ALTER a TYPE varchar(10), ALTER b SET DATA TYPE char(5), \
         ALTER c TYPE numeric(7,2), ALTER d TYPE varchar(3) USING d::varchar(3)",
    );
    done(
        session,
        "INSERT INTO t VALUES (2, 'abcdefghij', 'xyz', 12345.67, 'abc')",
    );
    assert_eq!(
        rows(session, "SELECT a, b, c, d FROM t ORDER BY id"),
        ["abcde|xy|1.50|äöü", "abcdefghij|xyz|12345.67|abc"]
    );
    assert!(error(session, "INSERT INTO t VALUES (3, '', '', 0, 'abcd')").contains("too long"));
    for (text, expected) in [
        (
            "ALTER TABLE t ALTER a TYPE varchar(9)",
            "value too long for type character varying(9)",
        ),
        ("ALTER TABLE t ALTER c TYPE numeric(7,3)", "not supported"),
        ("ALTER TABLE t ALTER id TYPE text", "not supported"),
    ] {
        let refused = error(session, text);
        assert!(refused.contains(expected), "{text}: {refused}");
    }
    done(
        session,
        "ALTER TABLE t ALTER a TYPE text, ALTER c TYPE numeric",
    );
    let configuration = session.store().configuration();
    let schema = &configuration.table_named("t").unwrap().schema;
    assert!(schema.constraints.checks.is_empty(), "only for the change");
}

#[test]
fn a_foreign_key_is_added_to_rows_that_satisfy_it() {
    let session = &mut Model::session(STAFF);
    done(
        session,
        "CREATE TABLE pets (id int PRIMARY KEY, owner bigint);
         INSERT INTO pets VALUES (1, 1), (2, NULL), (3, 7)",
    );
    let add = "ALTER TABLE pets ADD CONSTRAINT owned FOREIGN KEY (owner) REFERENCES staff (id)";
    let refused = error(session, add);
    assert!(refused.contains("\"owned\""), "{refused}");
    let schema = |session: &SqlSession<Model>, name: &str| {
        let configuration = session.store().configuration();
        configuration.table_named(name).unwrap().schema.clone()
    };
    assert!(schema(session, "pets").constraints.foreign_keys.is_empty());
    assert!(schema(session, "pets").indexes.is_empty());
    done(session, &format!("{add} ON DELETE CASCADE NOT VALID"));
    assert!(!schema(session, "pets").constraints.foreign_keys[0].is_valid);
    let shown = run(session, "SHOW TABLE pets").unwrap();
    assert!(format!("{shown:?}").contains("NOT VALID"));
    assert!(error(session, "INSERT INTO pets VALUES (4, 8)").contains("\"owned\""));
    let validate = "ALTER TABLE pets VALIDATE CONSTRAINT owned";
    // It stays, and still binds new rows.
    assert!(error(session, validate).contains("\"owned\""));
    assert!(!schema(session, "pets").constraints.foreign_keys[0].is_valid);
    done(session, "DELETE FROM pets WHERE id = 3");
    done(session, validate);
    assert!(schema(session, "pets").constraints.foreign_keys[0].is_valid);
    done(session, "DELETE FROM staff WHERE id = 1");
    assert_eq!(rows(session, "SELECT id FROM pets"), ["2"]);
    done(session, "ALTER TABLE pets DROP CONSTRAINT owned CASCADE");
    assert!(
        schema(session, "staff")
            .constraints
            .referenced_by
            .is_empty()
    );
    assert!(
        error(
            session,
            &format!("{add}, ADD CONSTRAINT owned CHECK (id > 0)")
        )
        .contains("exists")
    );
    done(
        session,
        "ALTER TABLE staff ADD boss bigint UNIQUE REFERENCES staff",
    );
    done(session, "UPDATE staff SET boss = 2 WHERE id = 2");
    assert!(error(session, "UPDATE staff SET boss = 9 WHERE id = 2").contains("staff_boss_fkey"));
}

#[test]
fn emptied_tables_can_count_from_the_start() {
    let session = &mut Model::session(
        "CREATE TABLE t (id serial PRIMARY KEY, a text);
         INSERT INTO t (a) VALUES ('x'), ('y');
         TRUNCATE t;
         INSERT INTO t (a) VALUES ('z')",
    );
    assert_eq!(rows(session, "SELECT id FROM t"), ["3"]);
    done(session, "TRUNCATE t RESTART IDENTITY");
    done(session, "INSERT INTO t (a) VALUES ('z')");
    assert_eq!(rows(session, "SELECT id FROM t"), ["1"]);
}

#[test]
fn tables_that_refer_to_each_other_are_dropped() {
    let session = &mut Model::session(
        "CREATE TABLE a (id int PRIMARY KEY, b int);
         CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a);
         ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b;
         CREATE TABLE c (id int PRIMARY KEY, a int REFERENCES a);
         INSERT INTO a VALUES (1); INSERT INTO c VALUES (1, 1)",
    );
    session.take_notices();
    done(session, "DROP TABLE b, a CASCADE");
    assert_eq!(
        session.take_notices(),
        ["drop cascades to constraint c_a_fkey on table c"]
    );
    done(session, "INSERT INTO c VALUES (2, 7)");
    let configuration = session.store().configuration();
    assert_eq!(configuration.tables.iter().count(), 1);
}
