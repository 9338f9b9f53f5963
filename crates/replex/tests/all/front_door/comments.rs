//! Comments on tables and their parts: as a real PostgreSQL shows them, and after a restart.

use super::psql;
use super::same_as_postgres::both;

/// Statements with the same answers from both.
const GIVEN: &[&str] = &[
    "CREATE TABLE a (id int PRIMARY KEY, n int CHECK (n > 0), s text UNIQUE)",
    "CREATE INDEX a_n ON a (n)",
    "CREATE SEQUENCE q",
    "COMMENT ON TABLE a IS 'rows of a'",
    "COMMENT ON COLUMN a.n IS E'a\\nnumber'",
    "COMMENT ON COLUMN public.a.s IS 'it''s ä'",
    "COMMENT ON INDEX a_n IS 'sorted'",
    "COMMENT ON INDEX a_s_key IS 'unique'",
    "COMMENT ON CONSTRAINT a_s_key ON a IS 'no text twice'",
    "COMMENT ON CONSTRAINT a_n_check ON public.a IS 'positive'",
    "COMMENT ON SEQUENCE q IS 'numbers'",
    // Objects that are not there, and other forms.
    "COMMENT ON TABLE missing IS 'x'",
    "COMMENT ON TABLE q IS 'x'",
    "COMMENT ON COLUMN a.missing IS 'x'",
    "COMMENT ON COLUMN missing.n IS 'x'",
    "COMMENT ON COLUMN n IS 'x'",
    "COMMENT ON INDEX missing IS 'x'",
    "COMMENT ON INDEX a IS 'x'",
    "COMMENT ON SEQUENCE missing IS 'x'",
    "COMMENT ON SEQUENCE a IS 'x'",
    "COMMENT ON CONSTRAINT missing ON a IS 'x'",
    "COMMENT ON CONSTRAINT a_n_check ON missing IS 'x'",
    "COMMENT ON TABLE a IS 5",
    "COMMENT ON TABLE a",
    "COMMENT TABLE a IS 'x'",
    SHOWN,
    "SELECT obj_description('a'::regclass, 'pg_class'), obj_description('a'::regclass, 'pg_type'), \
     col_description('a'::regclass, 1), col_description('a'::regclass, 2), \
     obj_description('q'::regclass, 'pg_class')",
    // They follow the names of their objects.
    "ALTER INDEX a_n RENAME TO b_n",
    "ALTER TABLE a RENAME n TO m",
    "ALTER TABLE a RENAME CONSTRAINT a_n_check TO b_check",
    "ALTER TABLE a ADD x int",
    "ALTER TABLE a RENAME TO b",
    "TRUNCATE b",
    SHOWN,
    // They change, and go with their objects.
    "COMMENT ON TABLE b IS 'other rows'",
    "COMMENT ON COLUMN b.m IS NULL",
    "COMMENT ON SEQUENCE q IS ''",
    "DROP INDEX b_n",
    "CREATE INDEX b_n ON b (x)",
    "ALTER TABLE b DROP CONSTRAINT b_check",
    "ALTER TABLE b DROP s",
    SHOWN,
    "BEGIN",
    "COMMENT ON COLUMN b.x IS 'new'",
    "COMMIT",
    SHOWN,
    "DROP TABLE b",
    SHOWN,
    "CREATE TABLE a (id int PRIMARY KEY, n int CHECK (n > 0), s text DEFAULT 'x')",
    "COMMENT ON TABLE a IS 'kept'",
    "COMMENT ON COLUMN a.id IS 'key'",
    "COMMENT ON CONSTRAINT a_pkey ON a IS 'primary'",
    "COMMENT ON CONSTRAINT a_n_check ON a IS 'check'",
];

/// Shows the comments of all objects of users.
const SHOWN: &str = "SELECT coalesce(relname, conname), objsubid, description FROM pg_description d \
     LEFT JOIN pg_class c ON c.oid = d.objoid AND d.classoid = 1259 \
     LEFT JOIN pg_constraint k ON k.oid = d.objoid AND d.classoid = 2606 \
     WHERE d.objoid >= 16384 ORDER BY 1, 2, 3";

#[tokio::test]
async fn comments_are_shown_as_by_postgres() {
    let Some((mut started, postgres, mut both)) = both().await else {
        return;
    };
    for text in GIVEN {
        both.query(text);
    }
    let theirs = postgres.socket();
    for command in ["\\d+ a", "\\dd"] {
        let (ours, expected) = (psql(started.sql(), &[command]), psql(theirs, &[command]));
        assert_eq!(ours, expected, "{command}");
    }
    let long = format!("COMMENT ON TABLE a IS '{}'", "x".repeat(8193));
    for (text, code) in [
        ("COMMENT ON DATABASE postgres IS 'x'", "0A000"),
        ("COMMENT ON EXTENSION plpgsql IS 'x'", "0A000"),
        ("COMMENT ON FUNCTION f() IS 'x'", "0A000"),
        (&long[..], "54000"),
    ] {
        let answers = both
            .store
            .ask(&crate::support::raw_client::Messages::new().query(text));
        let error = answers.iter().find(|it| it.tag == b'E').unwrap();
        assert_eq!(error.report().code, code, "{text}");
    }
    drop(both);
    let before = psql(started.sql(), &["\\d+ a", "\\dt+ a"]);
    assert!(before.0.contains("kept"), "{}", before.0);
    assert!(started.process.stop().await.unwrap().success());
    started.again().await;
    assert_eq!(psql(started.sql(), &["\\d+ a", "\\dt+ a"]), before);
}
