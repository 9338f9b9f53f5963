//! Changes of the schema that replicas cannot repeat: each is refused on the primary, and no
//! replica is lost.

use pg_local::Postgres;
use proxy::serve::routing::Routing;
use replication::ReplicationSettings;
use tokio_postgres::error::SqlState;

use crate::support::cluster::{Cluster, text};
use crate::support::equality::assert_equal;
use crate::support::{connect, is_there};

/// The schema before there is a proxy.
const SETUP: &str = "
CREATE ROLE ann;
CREATE TABLE account (id int PRIMARY KEY, name text);
INSERT INTO account VALUES (1, 'ann'), (2, 'bob');
CREATE FUNCTION makes(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN EXECUTE format('CREATE TABLE %I (id int PRIMARY KEY)', name); END $$";

/// Each is a part of ALTER TABLE that gives the same rows wherever it runs.
const SAME: &[&str] = &[
    "ADD n int",
    "ADD n int DEFAULT 5",
    "ADD n text DEFAULT null",
    "ADD n timestamptz DEFAULT '2024-01-01 12:00'",
    "ADD n timestamptz[] DEFAULT '{}'",
    "ADD n mood DEFAULT 'sad'",
    "ADD n lucky DEFAULT 1",
    "ADD n jsonb NOT NULL DEFAULT '{}'::jsonb",
    "ADD n text DEFAULT upper('x'), ADD COLUMN IF NOT EXISTS \"it\"\"s\" int DEFAULT 1",
    "ADD n text DEFAULT 'what comes now'",
    "ADD n int GENERATED ALWAYS AS (length(word)) STORED",
    "ADD n text GENERATED ALWAYS AS (mine(word)) STORED",
    "ALTER word TYPE varchar(10)",
    "ALTER COLUMN word TYPE int USING length(word)",
    "ALTER word TYPE int USING (word)::int + 1",
    "ALTER word TYPE text USING upper(btrim(word))",
    "ALTER word TYPE numeric(10, 2) USING (coalesce(word, '0'))::numeric(10, 2)",
    "ALTER at TYPE timestamptz",
    "ALTER at TYPE timestamptz USING at AT TIME ZONE 'UTC'",
    "ALTER zoned TYPE date",
    "ALTER id TYPE timestamptz USING to_timestamp(id)",
    "ALTER id TYPE int8",
    "ALTER zoned TYPE text",
    "ALTER amount TYPE text USING amount::text",
    "SET UNLOGGED",
    "ENABLE TRIGGER x",
    "ALTER amount SET DEFAULT random(), ALTER zoned SET DEFAULT now()",
    "ALTER amount ADD GENERATED ALWAYS AS IDENTITY",
];

/// Each may give others elsewhere, or makes something run at replicas that has run already.
const OTHER: &[&str] = &[
    "ADD n timestamptz DEFAULT now()",
    "ADD n timestamptz DEFAULT CURRENT_TIMESTAMP",
    "ADD n timestamptz DEFAULT 'now'",
    "ADD n timestamp DEFAULT 'now'::timestamp",
    "ADD n timestamp DEFAULT ('now'::text)::timestamp",
    "ADD n timestamp DEFAULT ('no' || 'w')::timestamp",
    "ADD /* COLUMN */ n date DEFAULT ' Tomorrow '",
    "ADD n tstzrange DEFAULT '[now,)'",
    "ADD n timestamptz[] DEFAULT '{now}'",
    "ADD n timetz DEFAULT '12:00'",
    "ADD n float8 DEFAULT random()",
    "ADD n text DEFAULT current_user",
    "ADD n text DEFAULT txid_current()",
    "ADD n uuid DEFAULT gen_random_uuid()",
    "ADD \"n \"\"m\" float8 DEFAULT random()",
    "ADD n unlucky",
    "ADD n serial",
    "ADD n int GENERATED ALWAYS AS IDENTITY",
    "ADD n oid GENERATED ALWAYS AS (tableoid) STORED",
    "ADD n text DEFAULT mine('x')",
    "ADD n timestamptz DEFAULT '2024-01-01', ADD m timestamptz DEFAULT 'now'",
    "ALTER word TYPE timestamptz USING (word || ' 10:00')::timestamptz",
    "ALTER word TYPE timestamptz USING 'now'::timestamptz",
    "ALTER word TYPE date USING upper(word)::date",
    "ALTER word TYPE text USING (word::timetz)::text",
    "ALTER word TYPE text USING tableoid::text",
    "ALTER word TYPE text USING xmin::text",
    "ALTER word TYPE text USING to_char(now(), 'YYYY')",
    "ALTER word TYPE text USING mine(word)",
    "ALTER word TYPE text USING current_setting('port')",
    "ALTER word TYPE float8 USING \"random\"()",
    "ALTER clock TYPE time USING clock AT TIME ZONE 'Europe/Athens'",
    "ALTER at TYPE timetz USING at::time",
    "ENABLE ALWAYS TRIGGER x",
    "ENABLE REPLICA TRIGGER x",
    "ENABLE ALWAYS RULE x",
    "ENABLE REPLICA RULE x",
];

/// A table with a partition.
const SPREAD: &str = "CREATE TABLE spread (id int PRIMARY KEY) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF spread FOR VALUES FROM (0) TO (10); INSERT INTO spread VALUES (1);
CREATE TABLE times (at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE before PARTITION OF times FOR VALUES FROM (MINVALUE) TO ('2000-01-01');
CREATE TABLE words (word text) PARTITION BY LIST (word);
CREATE TABLE word PARTITION OF words FOR VALUES IN ('today', 'user', lower('Now (')) PARTITION BY HASH (word);
CREATE TABLE hashed PARTITION OF word FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE rest PARTITION OF words DEFAULT";

/// Other statements that only a replica could decide, each as messages of one session where it has
/// `;;`, and a part of the error.
const UNCLEAR: &[(&str, &str)] = &[
    (
        "CREATE TABLE place (id int PRIMARY KEY, o oid GENERATED ALWAYS AS (tableoid) STORED)",
        "tableoid",
    ),
    ("ALTER TABLE fast SET LOGGED", "SET LOGGED"),
    ("DO 'BEGIN ALTER TABLE fast SET LOGGED; END'", "SET LOGGED"),
    (
        "DO 'BEGIN ALTER TABLE fast ALTER id TYPE int8, SET LOGGED; END'",
        "SET LOGGED",
    ),
    (
        "PREPARE p AS SELECT 1 AS id;; CREATE TABLE of_p AS EXECUTE p",
        "CREATE TABLE",
    ),
    (
        "SET standard_conforming_strings = off;; ALTER TABLE account ADD c text DEFAULT 'it\\'s'",
        "standard_conforming_strings",
    ),
    (
        "BEGIN; SAVEPOINT s; ALTER TABLE account ADD p int; ROLLBACK TO s; ALTER TABLE account ADD q int; COMMIT",
        "messages of its own",
    ),
    (
        "CREATE TABLE of_one (id int PRIMARY KEY); COMMIT; CREATE TABLE of_two (id int PRIMARY KEY)",
        "messages of its own",
    ),
    (
        "CREATE TEMP TABLE mine (id int);; CREATE TABLE of_mine AS SELECT id FROM mine;",
        "temporary",
    ),
    (
        "CREATE TEMP TABLE mine (id int);; CREATE TABLE of_mine (LIKE mine)",
        "temporary",
    ),
    (
        "CREATE TEMP TABLE mine (id int);; GRANT SELECT ON account, mine TO ann",
        "a statement of their own",
    ),
    (
        "CREATE TABLE trees AS SELECT oid, ev_action FROM pg_rewrite",
        "cannot be read as text",
    ),
    (
        "CREATE TABLE trees (id int PRIMARY KEY, t pg_node_tree)",
        "cannot be read as text",
    ),
    (
        "CREATE EXTENSION pg_trgm; SELECT makes('with_extension')",
        "a message of its own",
    ),
    (
        "CREATE TABLE soon PARTITION OF times FOR VALUES FROM (current_timestamp) TO (MAXVALUE)",
        "bounds",
    ),
    (
        "DO 'BEGIN CREATE TABLE soon PARTITION OF times FOR VALUES FROM (now()) TO (MAXVALUE); END'",
        "bounds",
    ),
    (
        "CREATE TABLE IF NOT EXISTS later (at timestamptz);; ALTER TABLE times ATTACH PARTITION later
         FOR VALUES FROM ('2024-01-01') TO ('tomorrow')",
        "bounds",
    ),
    (
        "DO $$BEGIN CREATE TABLE soon PARTITION OF times FOR VALUES FROM ('today') TO (MAXVALUE); END$$",
        "bounds",
    ),
    (
        "CREATE TABLE soon PARTITION OF words FOR VALUES IN ('a', md5(random()::text))",
        "bounds",
    ),
    (
        "ALTER TABLE spread ADD n timestamptz DEFAULT now()",
        "fills existing rows",
    ),
    (
        "DO 'BEGIN ALTER TABLE spread ADD n serial; END'",
        "fills existing rows",
    ),
    ("CREATE INDEX of_set ON account (of_setting(name))", OF_SESSION),
    (
        "CREATE INDEX CONCURRENTLY of_set ON account (id) WHERE of_setting(name) > ''",
        OF_SESSION,
    ),
    (
        "ALTER TABLE account ADD CONSTRAINT of_set EXCLUDE (of_setting(name) WITH =)",
        OF_SESSION,
    ),
    (
        "DO 'BEGIN CREATE UNIQUE INDEX of_set ON account (of_clock(name)); END'",
        OF_SESSION,
    ),
    (
        "CREATE TABLE of_set (id int PRIMARY KEY, g text GENERATED ALWAYS AS (of_setting(''::text)) STORED)",
        OF_SESSION,
    ),
    (
        "CREATE OR REPLACE FUNCTION used(word text) RETURNS text LANGUAGE sql IMMUTABLE AS
         'SELECT word || pg_catalog.current_setting(''the.word'')'",
        OF_SESSION,
    ),
];

/// A part of the error for functions that depend on the session.
const OF_SESSION: &str = "depends on the session";

/// Functions that are declared immutable, of which the first two are not. The statements that use
/// the other two are not refused, nor is an index of an unlogged table.
const FUNCTIONS: &[&str] = &[
    "CREATE FUNCTION of_setting(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
     'BEGIN RETURN word || current_setting(''the.word'', true); END'",
    "CREATE FUNCTION of_clock(word text) RETURNS text LANGUAGE sql IMMUTABLE
     BEGIN ATOMIC SELECT word || CAST(extract(year FROM CURRENT_TIMESTAMP) AS text); END",
    "CREATE FUNCTION used(word text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT word || ''now'''",
    "CREATE FUNCTION unused(word text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT word'",
    "CREATE INDEX of_used ON account (used(name))",
    "CREATE OR REPLACE FUNCTION used(word text) RETURNS text LANGUAGE sql IMMUTABLE AS
     'SELECT word || ''then'''",
    "CREATE TABLE of_session (id int PRIMARY KEY, n text DEFAULT unused(''),
       m text GENERATED ALWAYS AS (used(''::text)) STORED)",
    "CREATE OR REPLACE FUNCTION unused(word text) RETURNS text LANGUAGE sql IMMUTABLE AS
     'SELECT word || current_setting(''the.word'')'",
    "CREATE UNLOGGED TABLE of_crash (id text PRIMARY KEY)",
    "CREATE INDEX of_crash_set ON of_crash (of_setting(id))",
];

/// Where only the primary's triggers see the statement, they refuse changes that may differ, and
/// nothing else: in functions, through the proxy too, and around it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nondeterministic_changes_are_refused_on_the_primary() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let around = connect(cluster.primary.socket()).await;
    let through = cluster.front.connect().await;
    let types = "CREATE TYPE mood AS ENUM ('sad', 'glad'); CREATE DOMAIN lucky AS int DEFAULT 7;
        CREATE DOMAIN unlucky AS float8 DEFAULT random();
        CREATE FUNCTION mine(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN word; END';
";
    around.batch_execute(types).await.unwrap();
    let parts = SAME
        .iter()
        .map(|part| (part, true))
        .chain(OTHER.iter().map(|part| (part, false)));
    for (number, (part, is_same)) in parts.enumerate() {
        let table = format!("t{number}");
        let make = format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, word text, at timestamp, zoned timestamptz, clock timetz,
               amount float8);
             ALTER TABLE {table} ALTER amount TYPE int, ALTER amount SET NOT NULL;
             CREATE TRIGGER x BEFORE UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
             CREATE RULE x AS ON DELETE TO {table} DO ALSO SELECT 1;
             INSERT INTO {table} VALUES (1, '1', '2024-01-01 10:00', '2024-01-01 10:00+0', '10:00+0', 1)"
        );
        around.batch_execute(&make).await.unwrap();
        let text = format!("ALTER TABLE {table} {part}");
        let in_function = format!("DO $do$ BEGIN {text}; END $do$");
        let dynamic = format!("DO $do$ BEGIN EXECUTE $it${text}$it$; END $do$");
        let refusals = [
            (&around, &text),
            (&around, &in_function),
            (&through, &dynamic),
        ];
        let last = if is_same { 1 } else { refusals.len() };
        // Statements that are not refused can be done once.
        let skipped = if is_same { number % refusals.len() } else { 0 };
        for (client, text) in refusals.into_iter().skip(skipped).take(last) {
            let done = client.batch_execute(text).await;
            let code = done.as_ref().err().and_then(|error| error.code().cloned());
            match is_same {
                true => assert!(done.is_ok(), "{text}: {done:?}"),
                false => assert_eq!(
                    code,
                    Some(SqlState::FEATURE_NOT_SUPPORTED),
                    "{text}: {done:?}"
                ),
            }
        }
        // No row is left that would be filled. Replicas keep their rows of an unlogged table.
        if *part == "SET UNLOGGED" {
            continue;
        }
        let empty = format!(
            "DELETE FROM {table}; ALTER TABLE {table} ADD filled timestamptz DEFAULT now()"
        );
        around.batch_execute(&empty).await.unwrap();
    }
    assert_equal(&cluster, "the parts of ALTER TABLE").await;
}

/// The same of texts and statements for which the replicas' part is undecidable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn undecidable_changes_are_refused_on_the_primary() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let admin = connect(cluster.primary.socket()).await;
    for statement in SPREAD.split(';') {
        admin.batch_execute(statement).await.unwrap();
    }
    let made = "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)";
    admin.batch_execute(made).await.unwrap();
    for statement in FUNCTIONS {
        admin.batch_execute(statement).await.unwrap();
    }
    let toast = "SELECT reltoastrelid::regclass::text FROM pg_class WHERE relname = 'account'";
    let toast = format!("GRANT SELECT ON {} TO ann", text(&admin, toast).await);
    let unclear = UNCLEAR.iter().copied().chain([(&toast[..], "pg_toast")]);
    for (sql, why) in unclear {
        for through in [false, true] {
            let client = match through {
                true => cluster.front.connect().await,
                false => connect(cluster.primary.socket()).await,
            };
            let mut refused = String::new();
            for message in sql.split(";;") {
                assert_eq!(refused, "");
                if let Err(error) = client.batch_execute(message).await {
                    let error = error.as_db_error().unwrap();
                    refused = format!("{} {}", error.message(), error.hint().unwrap_or(""));
                }
            }
            assert!(
                refused.contains(why),
                "{sql} (through: {through}): {refused}"
            );
            // CONCURRENTLY has made the index before it is refused.
            let drop = "DROP INDEX IF EXISTS of_set";
            admin.batch_execute(drop).await.unwrap();
        }
    }
    assert_equal(&cluster, "what is unclear").await;
}

/// Each is a part of ALTER TABLE that may give existing rows other values at replicas.
const OF_ROWS: &[&str] = &[
    "ADD n serial",
    "ADD n timestamptz DEFAULT now()",
    "ADD n uuid DEFAULT gen_random_uuid(), ADD m serial",
    "ADD n bigserial UNIQUE, ALTER word TYPE varchar(10)",
    "ALTER word TYPE date USING word::date",
    "ALTER word TYPE timestamptz USING (word || ' 10:00')::timestamptz",
];

/// A change that may give existing rows other values is allowed while the table has none, and
/// refused as soon as it has one: committed after the transaction's snapshot, or in a child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_fill_rows_are_refused_only_if_there_are_rows() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let around = connect(cluster.primary.socket()).await;
    let client = cluster.front.connect().await;
    for (number, part) in OF_ROWS.iter().enumerate() {
        let change = |table: &str| format!("ALTER TABLE {table} {part}");
        let make = format!(
            "CREATE TABLE empty{number} (id int PRIMARY KEY, word text);
             CREATE TABLE full{number} (id int PRIMARY KEY, word text);
             CREATE TABLE parent{number} (id int PRIMARY KEY, word text);
             CREATE TABLE child{number} (PRIMARY KEY (id)) INHERITS (parent{number});
             CREATE TABLE late{number} (id int PRIMARY KEY, word text);
             CREATE TABLE left{number} (id int PRIMARY KEY, word text);
             INSERT INTO full{number} VALUES (1, '2024-01-01');
             INSERT INTO child{number} VALUES (1, '2024-01-01');
             INSERT INTO left{number} VALUES (1, '2024-01-01'); TRUNCATE left{number}"
        );
        around.batch_execute(&make).await.unwrap();
        client
            .batch_execute(&change(&format!("empty{number}")))
            .await
            .unwrap();
        client
            .execute(&change(&format!("left{number}")), &[])
            .await
            .unwrap();
        let insert = format!("INSERT INTO empty{number} (id) VALUES (1), (2)");
        client.batch_execute(&insert).await.unwrap();

        let refusal = |result: Result<(), tokio_postgres::Error>| {
            let error = result.unwrap_err();
            let error = error.as_db_error().unwrap().clone();
            assert_eq!(*error.code(), SqlState::FEATURE_NOT_SUPPORTED, "{error:?}");
            assert!(error.message().contains("existing rows"), "{error:?}");
            assert!(
                error.hint().is_some_and(|hint| hint.ends_with('.')),
                "{error:?}"
            );
        };
        refusal(
            client
                .batch_execute(&change(&format!("full{number}")))
                .await,
        );
        refusal(
            client
                .batch_execute(&change(&format!("parent{number}")))
                .await,
        );
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM account";
        client.batch_execute(begin).await.unwrap();
        let insert = format!("INSERT INTO late{number} VALUES (1, '2024-01-01')");
        around.batch_execute(&insert).await.unwrap();
        refusal(
            client
                .batch_execute(&change(&format!("late{number}")))
                .await,
        );
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_equal(&cluster, "changes of tables without rows").await;
}

/// Statements that merge checks of parents and children, which call a function where they are named
/// `own`; and whether they are refused. All tables are in a schema of their own.
const MERGED_CHECKS: &[(&str, bool)] = &[
    (
        "ALTER TABLE child ADD CONSTRAINT own CHECK (b = same(b));; ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b)) NOT VALID",
        true,
    ),
    (
        "ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b));; ALTER TABLE child ADD CONSTRAINT own CHECK (b = same(b))",
        true,
    ),
    (
        "ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b));;
         CREATE TABLE other (CONSTRAINT own CHECK (b = same(b))) INHERITS (parent)",
        true,
    ),
    (
        "ALTER TABLE parted ADD CONSTRAINT own CHECK (now() < 'infinity');;
         CREATE TABLE part_2 PARTITION OF parted (CONSTRAINT own CHECK (now() < 'infinity')) FOR VALUES IN (2)",
        true,
    ),
    (
        "ALTER TABLE part ADD CONSTRAINT own CHECK (b = same(b));; ALTER TABLE parted ADD CONSTRAINT own CHECK (b = same(b))",
        true,
    ),
    (
        "ALTER TABLE child ADD c int CONSTRAINT own CHECK (c = same(c));; ALTER TABLE parent ADD c int CONSTRAINT own CHECK (c = same(c))",
        true,
    ),
    (
        "DO $$ BEGIN ALTER TABLE child ADD CONSTRAINT own CHECK (b = same(b)); ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b)); END $$",
        true,
    ),
    // Checks that stay as they are at replicas, and those of one table.
    (
        "ALTER TABLE child ADD CONSTRAINT few CHECK (b < 9);; ALTER TABLE parent ADD CONSTRAINT few CHECK (b < 9);;
         CREATE TABLE other (CONSTRAINT few CHECK (b < 9)) INHERITS (parent);; ALTER TABLE parent DROP CONSTRAINT few;;
         ALTER TABLE child DROP CONSTRAINT few",
        false,
    ),
    (
        "ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b));; CREATE TABLE other () INHERITS (parent);;
         CREATE TABLE third (CONSTRAINT more CHECK (a = same(a))) INHERITS (parent);; INSERT INTO third VALUES (1, 1);;
         ALTER TABLE parent VALIDATE CONSTRAINT own;; ALTER TABLE parent DROP CONSTRAINT own",
        false,
    ),
    (
        "CREATE TABLE other (a int, b int, CONSTRAINT own CHECK (b = same(b)));; ALTER TABLE parent ADD CONSTRAINT own CHECK (b = same(b));;
         ALTER TABLE other INHERIT parent;; INSERT INTO other VALUES (1, 1);; ALTER TABLE other NO INHERIT parent;;
         ALTER TABLE parent DROP CONSTRAINT own;; ALTER TABLE other DROP CONSTRAINT own",
        false,
    ),
    (
        "ALTER TABLE parted ADD CONSTRAINT own CHECK (b = same(b));; CREATE TABLE part_2 PARTITION OF parted FOR VALUES IN (2);;
         CREATE TABLE part_3 (b int, a int, CONSTRAINT own CHECK (b = same(b)));; ALTER TABLE parted ATTACH PARTITION part_3 FOR VALUES IN (3);;
         INSERT INTO parted VALUES (3, 3);; ALTER TABLE parted DETACH PARTITION part_3;; ALTER TABLE part_3 DROP CONSTRAINT own",
        false,
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merged_checks_that_call_functions_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let admin = connect(cluster.primary.socket()).await;
    for (sql, is_refused) in MERGED_CHECKS {
        for through in [false, true] {
            let make = "CREATE SCHEMA IF NOT EXISTS own; DROP SCHEMA own CASCADE; CREATE SCHEMA own; SET search_path = own;
                CREATE FUNCTION same(n int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN n; END';
                CREATE TABLE parent (a int, b int); CREATE TABLE child () INHERITS (parent); INSERT INTO child VALUES (1, 1);
                CREATE TABLE parted (a int, b int) PARTITION BY LIST (a);
                CREATE TABLE part PARTITION OF parted FOR VALUES IN (1); INSERT INTO parted VALUES (1, 1)";
            admin.batch_execute(make).await.unwrap();
            let client = match through {
                true => cluster.front.connect().await,
                false => connect(cluster.primary.socket()).await,
            };
            client.batch_execute("SET search_path = own").await.unwrap();
            let mut refused = None;
            for message in sql.split(";;") {
                assert!(refused.is_none(), "{sql} (through: {through}): {refused:?}");
                refused = client.batch_execute(message).await.err();
            }
            let text = refused
                .as_ref()
                .map(|error| error.as_db_error().unwrap().message());
            let is_it = text.is_some_and(|text| text.starts_with("a check that calls functions"));
            assert_eq!(is_it, *is_refused, "{sql} (through: {through}): {text:?}");
            let checks = "SELECT conrelid::regclass::text, conname::text, conislocal::text, coninhcount::text
                FROM pg_constraint WHERE contype = 'c' AND connamespace = 'own'::regnamespace ORDER BY 1, 2";
            cluster.wait_until_equal(checks).await;
        }
    }
}

/// Statements that fill, convert or fire, after which each replica has the same rows, whether they
/// were refused or not; and whether they must be.
const FILLS: &[(&str, bool)] = &[
    (
        "CREATE DOMAIN lucky AS float8 DEFAULT random();; ALTER TABLE t ADD x lucky",
        true,
    ),
    (
        "CREATE DOMAIN late AS text DEFAULT random()::text;; ALTER TABLE t ALTER v TYPE late",
        false,
    ),
    (
        "ALTER TABLE t ADD w timestamp DEFAULT ('now'::text)::timestamp",
        true,
    ),
    ("ALTER TABLE t ADD w timestamptz DEFAULT 'now'", true),
    (
        "ALTER TABLE t ADD w timestamptz DEFAULT '2024-01-01 12:00'",
        false,
    ),
    ("ALTER TABLE t ADD w tstzrange DEFAULT '[now,)'", true),
    ("ALTER TABLE t ADD w timestamptz[] DEFAULT '{now}'", true),
    (
        "CREATE TYPE stamp AS (a timestamptz);; ALTER TABLE t ADD c stamp DEFAULT '(now)'",
        true,
    ),
    ("ALTER TABLE t ALTER v TYPE text USING tableoid::text", true),
    ("ALTER TABLE t ALTER v TYPE text USING xmin::text", true),
    ("ALTER TABLE t ALTER v TYPE int USING length(v)", false),
    (
        "ALTER TABLE t ADD g oid GENERATED ALWAYS AS (tableoid) STORED",
        true,
    ),
    (
        "ALTER TABLE t ADD g int GENERATED ALWAYS AS (length(v)) STORED;; UPDATE t SET v = v || '!'",
        false,
    ),
    (
        "SET extra_float_digits = -10;; ALTER TABLE t ALTER f TYPE text",
        false,
    ),
    (
        "SET bytea_output = 'escape';; ALTER TABLE t ALTER b TYPE text USING b::text",
        false,
    ),
    (
        "SET timezone = 'Asia/Tokyo';; ALTER TABLE t ALTER at TYPE timestamptz",
        false,
    ),
    (
        "CREATE UNLOGGED TABLE u (id int PRIMARY KEY);; INSERT INTO u VALUES (1);; ALTER TABLE u SET LOGGED;; DROP TABLE u",
        true,
    ),
    (
        "ALTER TABLE t SET UNLOGGED;; UPDATE t SET v = 'other';; ALTER TABLE t SET LOGGED;; DROP TABLE t",
        true,
    ),
    (
        "ALTER TABLE t ENABLE ALWAYS TRIGGER counts;; INSERT INTO t VALUES (3, 'c')",
        true,
    ),
    (
        "ALTER TABLE t ENABLE REPLICA TRIGGER counts;; INSERT INTO t VALUES (3, 'c')",
        true,
    ),
    (
        "CREATE RULE r AS ON INSERT TO t DO ALSO DELETE FROM l;; ALTER TABLE t ENABLE ALWAYS RULE r",
        true,
    ),
    (
        "EXPLAIN CREATE TABLE explained AS SELECT 1 AS id;; EXPLAIN SELECT 1 AS id INTO explained",
        false,
    ),
    (
        "DO $$ BEGIN EXECUTE 'EXPLAIN ANALYZE SELECT * INTO TABLE e FROM t'; END $$;; DROP TABLE e",
        true,
    ),
    (
        "CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
           EXECUTE 'EXPLAIN ANALYZE CREATE TABLE e AS SELECT ''x'' AS v'; END $$",
        true,
    ),
    (
        "DROP TABLE l CASCADE; COMMIT; SELECT * FROM account; DROP TABLE t",
        true,
    ),
    (
        "CREATE VIEW w AS SELECT 'now'::timestamp AS at",
        true,
    ),
    (
        "CREATE OR REPLACE VIEW w AS SELECT id FROM t WHERE at < timestamp $$today$$",
        true,
    ),
    (
        "DO $do$ BEGIN CREATE VIEW w AS SELECT '[now,)'::tstzrange AS at; END $do$",
        true,
    ),
    (
        "CREATE MATERIALIZED VIEW w AS SELECT CAST('now' AS time) AS at",
        true,
    ),
    (
        "CREATE TABLE g (id int PRIMARY KEY, at timestamp GENERATED ALWAYS AS ('now'::timestamp) STORED)",
        true,
    ),
    (
        "ALTER TABLE t ADD g bool GENERATED ALWAYS AS (at < 'yesterday') STORED",
        true,
    ),
    (
        "CREATE VIEW w AS SELECT id FROM t WHERE at < now() AND at > '2020-01-01';; SELECT id FROM w;;
         CREATE VIEW words AS SELECT id, 'today' AS word FROM t;; SELECT word FROM words",
        false,
    ),
    (
        "CREATE FUNCTION g() RETURNS text LANGUAGE plpgsql AS $$ DECLARE l text; BEGIN
           EXECUTE 'EXPLAIN ANALYZE INSERT INTO t VALUES (7)' INTO l; RETURN l; END $$;; SELECT g()",
        false,
    ),
];

/// The schema before each of them.
const FILLED: &str = "
DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE account (id int PRIMARY KEY, name text);
INSERT INTO account VALUES (1, 'ann');
CREATE TABLE t (id int PRIMARY KEY, v text, f float8 DEFAULT 0.1 + 0.2, b bytea DEFAULT '\\x00ff', at timestamp DEFAULT '2024-07-01');
INSERT INTO t VALUES (1, 'a'), (2, 'b');
CREATE TABLE l (id serial PRIMARY KEY);
CREATE FUNCTION counts() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO l DEFAULT VALUES; RETURN new; END';
CREATE TRIGGER counts AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION counts()";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_fill_rows_fill_them_alike_or_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for (sql, is_refused) in FILLS {
        let admin = cluster.front.connect().await;
        admin.batch_execute(FILLED).await.unwrap();
        assert_equal(&cluster, FILLED).await;
        let client = cluster.front.connect().await;
        let mut refused = None;
        for message in sql.split(";;") {
            match client.simple_query(message).await {
                Ok(_) => {}
                Err(error) => refused = Some(error.as_db_error().unwrap().message().to_owned()),
            }
            // The proxy's view of the schema is the committed one.
            cluster.settle().await;
        }
        assert_eq!(refused.is_some(), *is_refused, "{sql}: {refused:?}");
        assert_equal(&cluster, sql).await;
    }
}

/// Where it is so already, the proxy does not start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn triggers_that_fire_again_are_found_at_the_start() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&[]).unwrap();
    let admin = connect(primary.socket()).await;
    let make = "CREATE TABLE t (id int PRIMARY KEY); CREATE TRIGGER again BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION
                suppress_redundant_updates_trigger(); ALTER TABLE t ENABLE ALWAYS TRIGGER again";
    admin.batch_execute(make).await.unwrap();
    let address = primary.address("postgres");
    let routing = Routing::start(&address, 4, &ReplicationSettings::default()).await;
    let problem = routing.err().unwrap().to_string();
    assert!(problem.contains("trigger again on t"), "{problem}");
    let found = proxy::check::check(&address, &[], 4).await;
    let found = found
        .iter()
        .find(|it| it.what.contains("trigger again on t"));
    assert_eq!(found.unwrap().weight, proxy::check::FindingWeight::Stops);
    admin
        .batch_execute("ALTER TABLE t ENABLE TRIGGER again")
        .await
        .unwrap();
    Routing::start(&address, 4, &ReplicationSettings::default())
        .await
        .unwrap();
}
