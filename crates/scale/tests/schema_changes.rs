//! Changes of the schema, around the proxy and through it: Extensions follow where they can, and say what they
//! cannot.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use scale::manager::State;
use scale::replication::Contents;
use support::cluster::{Cluster, text};
use support::{connect, is_there};

/// What is made before there is a proxy.
const SETUP: &str = "
CREATE ROLE ann;
CREATE TABLE account (id int PRIMARY KEY, name text);
INSERT INTO account VALUES (1, 'ann'), (2, 'bob');
CREATE VIEW names AS SELECT name FROM account;
CREATE FUNCTION makes(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY, word text DEFAULT ''it\"s'')', name);
  EXECUTE format('INSERT INTO %I VALUES (1)', name);
  CREATE TABLE IF NOT EXISTS made (id int PRIMARY KEY);
  INSERT INTO made SELECT count(*) FROM made;
END $$;
CREATE FUNCTION makes_in_sql() RETURNS void LANGUAGE sql AS $$ CREATE TABLE of_sql (id int PRIMARY KEY) $$;
CREATE SCHEMA other AUTHORIZATION ann";

/// Each is sent to the Primary as it is here, as several messages where it has `;;`; all is equal after it.
const CHANGES: &[&str] = &[
    "CREATE TABLE fruit (id serial PRIMARY KEY, name text)",
    "INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
    "ALTER TABLE fruit ADD price int DEFAULT 5",
    "UPDATE fruit SET price = 6 WHERE id = 2",
    "CREATE OR REPLACE VIEW names AS SELECT name || '!' AS name FROM account",
    "CREATE INDEX ON fruit (name)",
    "CREATE TABLE copied AS SELECT * FROM fruit",
    "ALTER TABLE copied REPLICA IDENTITY FULL; DELETE FROM copied WHERE id = 1",
    "CREATE MATERIALIZED VIEW dear AS SELECT * FROM fruit WHERE price > 5",
    "INSERT INTO fruit (price) VALUES (9); REFRESH MATERIALIZED VIEW dear",
    // Several statements, changes of rows among them.
    "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); ALTER TABLE a ADD n int DEFAULT 7;
     INSERT INTO a VALUES (2); CREATE TABLE IF NOT EXISTS a (wrong int); ALTER TABLE a ADD m int DEFAULT 8;
     INSERT INTO a VALUES (3, 3, 3); DROP TABLE IF EXISTS nothing; CREATE INDEX IF NOT EXISTS by_n ON a (n)",
    "BEGIN; ALTER TABLE a RENAME n TO o; UPDATE a SET o = o + 1; COMMIT",
    // What is rolled back was never done.
    "BEGIN; ALTER TABLE a ADD p int; INSERT INTO a VALUES (4);; SAVEPOINT s;; ALTER TABLE a ADD q int;;
     ROLLBACK TO s;; ALTER TABLE a ADD r int; INSERT INTO a VALUES (5); COMMIT",
    "BEGIN; DROP TABLE a; ROLLBACK",
    "BEGIN; ALTER TABLE a RENAME o TO gone; ROLLBACK; INSERT INTO a VALUES (6)",
    // Temporary ones are the session's.
    "CREATE TEMP TABLE t (id int); CREATE TABLE b (id int PRIMARY KEY); ALTER TABLE t ADD n int;
     ALTER TABLE b ADD n int; CREATE TEMP VIEW v AS SELECT 1; DROP TABLE t CASCADE; INSERT INTO b VALUES (1, 1)",
    "CREATE TEMP TABLE t AS SELECT 1 AS id; CREATE INDEX ON t (id); DROP TABLE t",
    "INSERT INTO b VALUES (20, 2); SELECT 1 AS id INTO TEMP b; CREATE TABLE c AS SELECT 2 AS id; DROP TABLE b",
    "CREATE TEMP TABLE b AS SELECT 1 AS id;; DROP TABLE IF EXISTS b, nothing",
    // Those that do nothing, and a role, for which no trigger fires.
    "ALTER TABLE IF EXISTS nothing ADD n int; ALTER TABLE c ADD n int; INSERT INTO c VALUES (1, 1);
     DROP TABLE IF EXISTS nothing; CREATE ROLE bob; ALTER TABLE c OWNER TO bob; INSERT INTO c VALUES (2)",
    // By functions, several times.
    "DO $$ BEGIN CREATE TABLE of_do (id int PRIMARY KEY); INSERT INTO of_do VALUES (1);
     ALTER TABLE of_do ADD n int DEFAULT 2; FOR i IN 1..3 LOOP
       EXECUTE format('ALTER TABLE of_do ADD %I int DEFAULT %s', 'c' || i, i);
     END LOOP; END $$",
    "SELECT makes('one'), makes('tw\"o')",
    "DO $$ BEGIN FOR i IN 1..2 LOOP CREATE TABLE again (id int PRIMARY KEY); DROP TABLE again; END LOOP; END $$",
    "DO $$ BEGIN BEGIN CREATE TABLE undone (id int PRIMARY KEY); RAISE 'no'; EXCEPTION WHEN OTHERS THEN
     CREATE TABLE done (id int PRIMARY KEY); END; END $$",
    // Names are of the one who said them.
    "SET search_path = other; CREATE TABLE fruit (id int PRIMARY KEY); INSERT INTO fruit VALUES (1)",
    "SET search_path = other; CREATE TABLE first (id int PRIMARY KEY); SET search_path = public;
     CREATE TABLE second (id int PRIMARY KEY); SET timezone = 'Asia/Tokyo';
     ALTER TABLE second ADD n timestamptz DEFAULT '2024-01-01 12:00'",
    "CREATE TEMP TABLE lucky (id int); INSERT INTO lucky VALUES (1); ALTER TABLE lucky ADD n float8 DEFAULT random()",
    "SET search_path = other, public; SET ROLE ann; CREATE TABLE anns (id int PRIMARY KEY)",
    "ALTER TABLE other.anns ADD CONSTRAINT few CHECK (id < 100) NOT VALID; COMMENT ON TABLE other.anns IS 'hers'",
    // So do texts.
    "CREATE TABLE times (id int PRIMARY KEY); INSERT INTO times VALUES (1); SET timezone = 'Asia/Tokyo';;
     SET datestyle = 'SQL, DMY'; ALTER TABLE times ADD a timestamptz DEFAULT '1/2/2024 12:00'; UPDATE times SET a = a",
    "SET intervalstyle = sql_standard;; ALTER TABLE times ADD b interval DEFAULT '-1 2:03:04';
     INSERT INTO times VALUES (2, now(), '-1 2:03:04')",
    "SET standard_conforming_strings = off;; ALTER TABLE times ADD c text DEFAULT 'plain'",
    // What is not tables.
    "CREATE TYPE mood AS ENUM ('sad', 'glad'); ALTER TABLE b ADD mood mood DEFAULT 'glad'; INSERT INTO b VALUES (2)",
    "ALTER TYPE mood ADD VALUE 'merry'",
    "CREATE FUNCTION doubled(n int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT n * 2'",
    "CREATE SEQUENCE counter; ALTER SEQUENCE counter RESTART 100; ALTER SEQUENCE counter OWNED BY b.id",
    "CREATE EXTENSION pg_trgm; CREATE INDEX ON account USING gin (name gin_trgm_ops)",
    "DROP EXTENSION pg_trgm CASCADE",
    "GRANT SELECT ON b TO ann; REVOKE SELECT ON b FROM ann; GRANT INSERT ON b TO ann",
    "CREATE TRIGGER touched BEFORE UPDATE ON b FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE SCHEMA nested CREATE TABLE one (id int PRIMARY KEY) CREATE VIEW two AS SELECT id FROM one",
    "CREATE TABLE parted (id int PRIMARY KEY) PARTITION BY RANGE (id);
     CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (10); INSERT INTO parted VALUES (1)",
    "ALTER TABLE parted DETACH PARTITION low; ALTER TABLE low ADD late int; INSERT INTO low VALUES (2, 2)",
    "CREATE RULE nothing AS ON DELETE TO copied DO INSTEAD NOTHING; ALTER TABLE copied RENAME TO copies",
    "DROP TABLE fruit, copies CASCADE; DROP VIEW names",
    "DROP SCHEMA nested CASCADE; DROP FUNCTION doubled; DROP TYPE mood CASCADE",
    "DROP OWNED BY ann CASCADE",
];

/// The rows of each table, a line for each.
const ROWS: &str = "
SELECT string_agg(format('%s %s', c.oid::regclass, query_to_xml(
         format('SELECT md5(t::text) AS h FROM %s AS t ORDER BY 1', c.oid::regclass), true, false, '')), E'\\n'
         ORDER BY c.oid::regclass::text)
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE relkind IN ('r', 'p') AND nspname NOT IN ('pg_catalog', 'information_schema', 'hihooi')
   AND relpersistence <> 't'";

/// What there is, apart from rows.
const THERE: &str = "
SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
  SELECT format('%s.%s %s %s %s %s', nspname, relname, relkind, relacl, relowner::regrole,
         obj_description(c.oid, 'pg_class')) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
   WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'hihooi')
  UNION ALL
  SELECT format('%s.%s %s %s', attrelid::regclass, attname, atttypid::regtype, pg_get_expr(adbin, adrelid))
    FROM pg_attribute a LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
   WHERE attnum > 0 AND NOT attisdropped
     AND nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'hihooi')
  UNION ALL
  SELECT format('%s %s', viewname, definition) FROM pg_views
   WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname NOT IN ('information_schema', 'hihooi')
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname NOT LIKE 'pg\\_%' AND schemaname <> 'hihooi'
  UNION ALL
  SELECT format('%s %s', conname, pg_get_constraintdef(c.oid)) FROM pg_constraint c
    JOIN pg_namespace n ON n.oid = connamespace
   WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'hihooi')
  UNION ALL
  SELECT format('%s %s', p.oid::regprocedure, prosrc) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
   WHERE nspname NOT LIKE 'pg\\_%' AND nspname NOT IN ('information_schema', 'hihooi')
  UNION ALL SELECT format('%s %s', enumtypid::regtype, enumlabel) FROM pg_enum
  UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
  UNION ALL SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename <> '_RETURN' AND oid >= 16384
  UNION ALL SELECT extname FROM pg_extension
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'hihooi'
) AS there (line)";

/// Every Extension has what the Primary has, and serves.
async fn assert_equal(cluster: &Cluster, after: &str) {
    let later = "UPDATE account SET name = name WHERE id = 1";
    assert_equal_after(cluster, later, after).await;
}

/// The same; `later` comes later in the log than all that was done.
async fn assert_equal_after(cluster: &Cluster, later: &str, after: &str) {
    cluster
        .front
        .connect()
        .await
        .batch_execute(later)
        .await
        .unwrap();
    cluster.settle().await;
    cluster
        .wait(|states| states.iter().all(|state| *state == State::Serving))
        .await;
    let primary = connect(cluster.primary.socket()).await;
    for sql in [THERE, ROWS] {
        let expected = text(&primary, sql).await;
        for extension in &cluster.extensions {
            let there = text(&connect(extension.socket()).await, sql).await;
            assert!(
                there == expected,
                "{after}:\n{}",
                differing(&expected, &there)
            );
        }
    }
}

/// Lines that only one of them has.
fn differing(expected: &str, there: &str) -> String {
    let only = |one: &str, other: &str, sign: char| {
        let lines = one
            .lines()
            .filter(|line| !other.lines().any(|it| it == *line));
        lines
            .map(|line| format!("{sign} {line}\n"))
            .collect::<String>()
    };
    only(expected, there, '-') + &only(there, expected, '+')
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn extensions_follow_what_goes_around_the_proxy() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for sql in CHANGES {
        let around = connect(cluster.primary.socket()).await;
        for message in sql.split(";;") {
            around.batch_execute(message).await.unwrap();
        }
        assert_equal(&cluster, sql).await;
    }
}

/// What the proxy has told Extensions itself they do once; what functions do that are called through it comes as
/// what goes around it. Messages as in [`CHANGES`].
const THROUGH: &[&str] = &[
    "CREATE TABLE fruit (id serial PRIMARY KEY, name text)",
    "BEGIN;; ALTER TABLE fruit ADD price int DEFAULT 5;; INSERT INTO fruit (name) VALUES ('apple');;
     SELECT makes('one');; ALTER TABLE fruit ADD weight int DEFAULT 6;; COMMIT",
    "CREATE TABLE copied AS SELECT * FROM fruit",
    "CREATE MATERIALIZED VIEW dear AS SELECT * FROM fruit WHERE price > 4;; REFRESH MATERIALIZED VIEW dear",
    "CREATE EXTENSION pg_trgm;; DROP EXTENSION pg_trgm",
    "CREATE TABLE other.fruit (id int PRIMARY KEY);; DROP TABLE other.fruit",
    "DO $$ BEGIN ALTER TABLE fruit DROP price CASCADE; INSERT INTO fruit (name) VALUES ('pear'); END $$",
    "CREATE TEMP TABLE mine (id int);; ALTER TABLE mine ADD n int;; SELECT 1 AS id INTO TEMP yours;;
     DROP TABLE mine, yours",
    // In a session that has changed its settings, one that is bound to its server, and together with other statements.
    "SET lock_timeout = '4s';; CREATE ROLE cow;; DROP ROLE cow;; SET a.b = 1;; ALTER TABLE fruit ADD unbound int DEFAULT 1",
    "SET lock_timeout = '5s';; ALTER TABLE fruit ADD bound int DEFAULT 1;; SET search_path = other;;
     CREATE TABLE fruit (id int PRIMARY KEY);; INSERT INTO fruit VALUES (1);; DROP TABLE fruit;; CREATE EXTENSION pg_trgm",
    "CREATE TABLE mixed (id int PRIMARY KEY); INSERT INTO mixed VALUES (1); ALTER TABLE mixed ADD n int DEFAULT 2;
     INSERT INTO mixed VALUES (2);; BEGIN; ALTER TABLE mixed ADD m int DEFAULT 3; UPDATE mixed SET n = m; COMMIT",
    "CREATE TABLE together (id int PRIMARY KEY); ALTER TABLE together ADD n int; CREATE ROLE cat",
    "CREATE TABLE times (id int PRIMARY KEY); INSERT INTO times VALUES (1);; SET timezone = 'Asia/Tokyo';;
     SET datestyle = 'German';; ALTER TABLE times ADD a timestamptz DEFAULT '1.2.2024 12:00';;
     SET intervalstyle = sql_standard;; ALTER TABLE times ADD b interval DEFAULT '-1 2:03:04'",
    "CREATE ROLE dog;; ALTER TABLE mixed OWNER TO dog;; REASSIGN OWNED BY dog TO ann;; COMMENT ON ROLE dog IS 'a dog'",
    "CREATE ROLE bob;; ALTER TABLE fruit OWNER TO bob;; CREATE INDEX CONCURRENTLY ON fruit (name)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_through_the_proxy_is_done_once() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for sql in THROUGH {
        let through = cluster.front.connect().await;
        for message in sql.split(";;") {
            through.batch_execute(message).await.unwrap();
        }
        if sql.contains("CONCURRENTLY") {
            // Such indexes are the Primary's alone.
            let gone = "DROP INDEX fruit_name_idx";
            let primary = connect(cluster.primary.socket()).await;
            primary
                .batch_execute(&format!("SET session_replication_role = replica; {gone}"))
                .await
                .unwrap();
        }
        assert_equal(&cluster, sql).await;
    }
    // For a role no trigger fires.
    for (set, why) in [
        ("SET a.b = 1", "session that has changed its settings"),
        (
            "SET datestyle = 'German'",
            "session that has changed how its texts are read",
        ),
    ] {
        let changed = cluster.front.connect().await;
        changed.batch_execute(set).await.unwrap();
        for sql in [
            "CREATE ROLE nobody",
            "ALTER TABLE fruit ADD n int; CREATE ROLE nobody",
        ] {
            let refused = text(&changed, sql).await;
            assert!(refused.contains(why), "{refused}");
        }
    }
    assert_equal(&cluster, "nothing").await;
}

/// Each, and what is said of it.
const LOST: &[(&str, &str)] = &[
    (
        "ALTER TABLE account ADD luck float8 DEFAULT random()",
        "ALTER TABLE cannot be run again here: this ALTER TABLE fills existing rows",
    ),
    (
        "SELECT 1 AS id INTO chosen",
        "here: SELECT INTO is not replicated: write CREATE TABLE",
    ),
    (
        "SET standard_conforming_strings = off;; ALTER TABLE account ADD c text DEFAULT 'it\\'s'",
        "here: standard_conforming_strings is off",
    ),
    (
        "SELECT makes_in_sql()",
        "here: a function ran it that is not in PL/pgSQL",
    ),
    (
        "BEGIN; SAVEPOINT s; ALTER TABLE account ADD p int; ROLLBACK TO s; ALTER TABLE account ADD q int; COMMIT",
        "here: its text has several transactions",
    ),
];

/// Whoever cannot follow says why, and is not asked any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_followed_is_said() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let extensions = cluster.front.extensions();
    for (sql, why) in LOST {
        let around = connect(cluster.primary.socket()).await;
        for message in sql.split(";;") {
            around.batch_execute(message).await.unwrap();
        }
        cluster.wait(|states| states == [State::Quarantined]).await;
        let status = extensions.replication().status();
        let (id, status) = status.first_key_value().unwrap();
        assert!(status.text.contains(why), "{}", status.text);
        assert!(
            status.text.contains("add it again with EMPTY"),
            "{}",
            status.text
        );
        assert!(extensions.remove(*id).await.unwrap());
        let address = cluster.extensions[0].address("postgres");
        extensions.add(&address, Contents::Dropped).unwrap();
        assert_equal(&cluster, sql).await;
    }
}

/// A view is read as it is now, and waits for what it reads now.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_follow_views() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(
        "CREATE TABLE one (id int PRIMARY KEY, n int); CREATE TABLE two (id int PRIMARY KEY, n int);
         INSERT INTO one VALUES (1, 0); INSERT INTO two VALUES (1, 0); CREATE VIEW v AS SELECT n FROM one",
    )
    .await;
    let through = cluster.front.connect().await;
    let around = connect(cluster.primary.socket()).await;
    for table in ["two", "one", "two"] {
        let replace = format!("CREATE OR REPLACE VIEW v AS SELECT n FROM {table}");
        around.batch_execute(&replace).await.unwrap();
        assert_equal_after(&cluster, "UPDATE one SET n = 0", &replace).await;
        let served = cluster.served();
        for round in 1..=100 {
            let write = format!("UPDATE {table} SET n = {round}");
            through.batch_execute(&write).await.unwrap();
            assert_eq!(text(&through, "SELECT n FROM v").await, round.to_string());
            // Where nothing is under way.
            cluster.settle().await;
            assert_eq!(text(&through, "SELECT n FROM v").await, round.to_string());
        }
        assert!(cluster.served() > served);
    }
}

/// Names that stand before PostgreSQL's own.
const EVIL: &str = "
CREATE SCHEMA evil AUTHORIZATION ann; GRANT CREATE ON SCHEMA public TO ann;
CREATE FUNCTION evil.fail(text, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE OPERATOR evil.= (FUNCTION = evil.fail, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR evil.<> (FUNCTION = evil.fail, LEFTARG = text, RIGHTARG = text);
CREATE OPERATOR evil.~ (FUNCTION = evil.fail, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION evil.fail_text(text, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE OPERATOR evil.|| (FUNCTION = evil.fail_text, LEFTARG = text, RIGHTARG = text);
CREATE FUNCTION evil.starts_with(text, text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE FUNCTION evil.strpos(text, text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'evil'; END $$;
CREATE DOMAIN evil.text AS pg_catalog.text CHECK (VALUE <> 'none');
CREATE DOMAIN evil.bool AS pg_catalog.bool CHECK (NOT VALUE);
CREATE TABLE evil.schema_change (id int)";

/// The triggers work for who may do nothing else there, and nobody who may not write what they write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_are_nobodys_tool() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let admin = connect(cluster.primary.socket()).await;
    admin.batch_execute(EVIL).await.unwrap();
    assert_equal(&cluster, EVIL).await;
    let ann = connect(cluster.primary.socket()).await;
    let becomes = "SET ROLE ann; SET search_path = evil, public, pg_catalog";
    ann.batch_execute(becomes).await.unwrap();
    let changes = [
        "CREATE TABLE public.anns AS SELECT 1 AS id",
        "ALTER TABLE public.anns ADD n int DEFAULT 1; CREATE INDEX ON public.anns (n)",
        "DO $$ BEGIN CREATE TABLE public.others (id int PRIMARY KEY); END $$",
        "DROP TABLE public.others",
    ];
    for sql in changes {
        ann.batch_execute(sql).await.unwrap();
        assert_equal(&cluster, sql).await;
    }
    let forged = "INSERT INTO hihooi.schema_change (at, event, tag, matters, settings, path, role, query, context)
        VALUES ('', 'ddl_command_end', 'DROP TABLE', true, '', '', 'postgres', 'DROP TABLE account', '')";
    assert!(text(&ann, forged).await.contains("permission denied"));
    let called = "SELECT hihooi.note_schema_change()";
    assert!(text(&ann, called).await.contains("permission denied"));
    // Our own schema is nobody else's, and goes as a whole.
    admin
        .batch_execute("GRANT USAGE ON SCHEMA hihooi TO ann")
        .await
        .unwrap();
    assert_equal(&cluster, "GRANT").await;
    let there = "SELECT count(*) FROM pg_event_trigger";
    assert_eq!(text(&admin, there).await, "3");
    let extension = connect(cluster.extensions[0].socket()).await;
    assert_eq!(text(&extension, there).await, "0");
    drop(cluster.front);
    admin
        .batch_execute("DROP SCHEMA hihooi CASCADE")
        .await
        .unwrap();
    assert_eq!(text(&admin, there).await, "0");
}
