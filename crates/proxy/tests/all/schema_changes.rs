//! Changes of the schema, around the proxy and through it: replicas follow where they can, and
//! report where they cannot.

use proxy_core::freshness::ReplicaState;
use replication::ExistingData;
use tokio_postgres::error::SqlState;

use crate::support::cluster::{Cluster, text};
use crate::support::equality::{assert_equal, assert_equal_after};
use crate::support::{connect, is_there};

/// The schema before there is a proxy.
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

/// Each is sent to the primary as it is here, as several messages where it has `;;`; all is equal
/// after it. A message behind `!` fails.
const CHANGES: &[&str] = &[
    "CREATE TABLE fruit (id serial PRIMARY KEY, name text)",
    "INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
    "ALTER TABLE fruit ADD price int DEFAULT 5",
    "UPDATE fruit SET price = 6 WHERE id = 2",
    "CREATE OR REPLACE VIEW names AS SELECT name || '!' AS name FROM account",
    "CREATE INDEX ON fruit (name)",
    "CREATE TABLE copied AS SELECT * FROM fruit",
    "ALTER TABLE copied REPLICA IDENTITY FULL; DELETE FROM copied WHERE id = 1",
    "SELECT id, name INTO chosen FROM fruit;; SELECT 'into x' AS t, id INTO TABLE \"Chosen too\" FROM chosen",
    "SELECT 1 AS id INTO UNLOGGED quick; SELECT name INTO other.chosen FROM account UNION SELECT 'x'; DROP TABLE quick",
    "CREATE MATERIALIZED VIEW dear AS SELECT * FROM fruit WHERE price > 5",
    "INSERT INTO fruit (price) VALUES (9); REFRESH MATERIALIZED VIEW dear",
    // Several statements, changes of rows among them.
    "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1); ALTER TABLE a ADD n int DEFAULT 7;
     INSERT INTO a VALUES (2); CREATE TABLE IF NOT EXISTS a (wrong int); ALTER TABLE a ADD m int DEFAULT 8;
     INSERT INTO a VALUES (3, 3, 3); DROP TABLE IF EXISTS nothing; CREATE INDEX IF NOT EXISTS by_n ON a (n)",
    "BEGIN; ALTER TABLE a RENAME n TO o; UPDATE a SET o = o + 1; COMMIT",
    // A change that is rolled back was never made.
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
    // Statements that do nothing, and a role, for which no trigger fires.
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
    // Names are those of the session.
    "SET search_path = other; CREATE TABLE fruit (id int PRIMARY KEY); INSERT INTO fruit VALUES (1)",
    "SET search_path = other; CREATE TABLE first (id int PRIMARY KEY); SET search_path = public;
     CREATE TABLE second (id int PRIMARY KEY); SET timezone = 'Asia/Tokyo';
     ALTER TABLE second ADD n timestamptz DEFAULT '2024-01-01 12:00'",
    "CREATE TEMP TABLE lucky (id int); INSERT INTO lucky VALUES (1); ALTER TABLE lucky ADD n float8 DEFAULT random()",
    "SET search_path = other, public; SET ROLE ann; CREATE TABLE anns (id int PRIMARY KEY)",
    "ALTER TABLE other.anns ADD CONSTRAINT few CHECK (id < 100) NOT VALID; COMMENT ON TABLE other.anns IS 'hers'",
    // Functions find theirs by the path of the session that writes.
    "CREATE SCHEMA app; SET search_path = app;
     CREATE FUNCTION doubled(word text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT word || word';
     CREATE FUNCTION shown(word text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN doubled(word); END';
     CREATE TABLE word (id int PRIMARY KEY, word text, shown text GENERATED ALWAYS AS (shown(word)) STORED);
     CREATE INDEX ON word (shown(word));
     INSERT INTO word VALUES (1, 'a')",
    "SET search_path = app; INSERT INTO word VALUES (2, 'b'), (3, 'c'); UPDATE word SET word = 'd' WHERE id = 2;;
     INSERT INTO app.word VALUES (4, 'e')",
    "SET search_path = app;; BEGIN; CREATE TABLE late (id int PRIMARY KEY, word text,
       shown text GENERATED ALWAYS AS (shown(word)) STORED); INSERT INTO late VALUES (1, 'a'), (2, 'b'); COMMIT",
    // So do texts.
    "CREATE TABLE times (id int PRIMARY KEY); INSERT INTO times VALUES (1); SET timezone = 'Asia/Tokyo';;
     SET datestyle = 'SQL, DMY'; ALTER TABLE times ADD a timestamptz DEFAULT '1/2/2024 12:00'; UPDATE times SET a = a",
    "SET intervalstyle = sql_standard;; ALTER TABLE times ADD b interval DEFAULT '-1 2:03:04';
     INSERT INTO times VALUES (2, now(), '-1 2:03:04')",
    "SET standard_conforming_strings = off;; ALTER TABLE times ADD c text DEFAULT 'plain'",
    "CREATE TABLE days (id int PRIMARY KEY) PARTITION BY RANGE (id);
     CREATE TABLE day PARTITION OF days FOR VALUES FROM (0) TO (10); INSERT INTO days VALUES (1);;
     ALTER TABLE days DETACH PARTITION day CONCURRENTLY;; DELETE FROM day",
    "CREATE INDEX CONCURRENTLY by_b ON b (id);; ALTER INDEX by_b RENAME TO of_b;; DROP INDEX of_b",
    "CREATE TABLE hashes (id int PRIMARY KEY) PARTITION BY HASH (id);
     CREATE TABLE hash PARTITION OF hashes FOR VALUES WITH (MODULUS 1, REMAINDER 0); INSERT INTO hashes VALUES (1);;
     ALTER TABLE hashes DETACH PARTITION hash CONCURRENTLY;; DROP TABLE hashes;; INSERT INTO hash VALUES (2);; DROP TABLE hash",
    // An index that could not be built is invalid on the primary, and replicas do not have it.
    "CREATE TABLE fractions (a int, b int) PARTITION BY LIST (a); CREATE TABLE halves PARTITION OF fractions FOR VALUES IN (1);
     CREATE INDEX of_all ON ONLY fractions ((a / b)); INSERT INTO halves VALUES (1, 0);;
     !CREATE INDEX CONCURRENTLY of_halves ON halves ((a / b));; ALTER INDEX of_all ATTACH PARTITION of_halves;;
     DELETE FROM halves WHERE b = 0;; REINDEX INDEX CONCURRENTLY of_halves;; ALTER INDEX of_all ATTACH PARTITION of_halves;;
     COMMENT ON INDEX of_halves IS 'repaired';; DROP TABLE fractions",
    "CREATE TABLE fractions (a int, b int) PARTITION BY LIST (a); CREATE TABLE halves PARTITION OF fractions FOR VALUES IN (1);
     INSERT INTO halves VALUES (1, 0), (1, 0);; !CREATE INDEX CONCURRENTLY of_halves ON halves ((a / b));;
     !CREATE UNIQUE INDEX CONCURRENTLY ON halves (a);; CREATE INDEX of_all ON fractions ((a / b));; CREATE UNIQUE INDEX ON fractions (a);;
     CREATE TABLE thirds PARTITION OF fractions FOR VALUES IN (2);; ALTER INDEX of_all RENAME TO of_any;; DROP INDEX of_any;;
     DROP TABLE fractions",
    // The log of a TRUNCATE does not name tables that are partitioned or unlogged, though they
    // refer to those that it names.
    "CREATE TABLE prim (a int PRIMARY KEY); CREATE TABLE refs (a int REFERENCES prim) PARTITION BY RANGE (a);
     CREATE TABLE ref_1 PARTITION OF refs FOR VALUES FROM (0) TO (100);
     CREATE TABLE ref_2 PARTITION OF refs FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (a);
     CREATE TABLE ref_3 PARTITION OF ref_2 DEFAULT; INSERT INTO prim VALUES (1), (100); INSERT INTO refs VALUES (1), (100);;
     TRUNCATE prim, refs;; INSERT INTO prim VALUES (1), (100); INSERT INTO refs VALUES (1), (100);;
     TRUNCATE ref_2;; TRUNCATE prim CASCADE;; INSERT INTO prim VALUES (1); INSERT INTO refs VALUES (1); TRUNCATE refs",
    "CREATE UNLOGGED TABLE quick (id serial, a int REFERENCES prim); INSERT INTO quick (a) VALUES (1);; TRUNCATE prim, refs, quick;;
     INSERT INTO prim VALUES (1); INSERT INTO quick (a) VALUES (1); TRUNCATE prim RESTART IDENTITY CASCADE;; DROP TABLE quick",
    "CREATE TABLE key_of (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE key_1 PARTITION OF key_of FOR VALUES FROM (0) TO (10);
     CREATE TABLE key_2 PARTITION OF key_of FOR VALUES FROM (10) TO (20); INSERT INTO key_of VALUES (1), (11);
     CREATE TABLE user_of (a int PRIMARY KEY REFERENCES key_of, next int REFERENCES user_of) PARTITION BY RANGE (a);
     CREATE TABLE user_1 PARTITION OF user_of FOR VALUES FROM (0) TO (20); INSERT INTO user_of VALUES (1, 1), (11, 1);;
     TRUNCATE key_1 CASCADE;; INSERT INTO user_of VALUES (11, 11); TRUNCATE key_of, user_of;; DROP TABLE user_of, key_of",
    "CREATE TABLE elder (a int PRIMARY KEY); CREATE TABLE younger (b int PRIMARY KEY) INHERITS (elder);
     CREATE TABLE to_elder (id int PRIMARY KEY, a int REFERENCES elder); INSERT INTO elder VALUES (1); INSERT INTO younger VALUES (2, 2);
     INSERT INTO to_elder VALUES (1, 1);; TRUNCATE ONLY elder CASCADE;; INSERT INTO elder VALUES (1); INSERT INTO to_elder VALUES (1, 1);;
     TRUNCATE younger;; INSERT INTO younger VALUES (2, 2); TRUNCATE elder, to_elder;; DROP TABLE elder CASCADE",
    // Objects other than tables.
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
    "GRANT INSERT (id) ON account TO ann; ALTER TABLE b OWNER TO ann",
    "DROP OWNED BY ann CASCADE",
];

/// Changes of what is on the primary only: publications, subscriptions and large objects. Messages
/// as in [`CHANGES`].
const ON_PRIMARY: &[&str] = &[
    "CREATE PUBLICATION mine FOR TABLE account;; COMMENT ON PUBLICATION mine IS 'x';;
     ALTER PUBLICATION mine OWNER TO CURRENT_USER;; ALTER PUBLICATION mine RENAME TO others;;
     COMMENT ON PUBLICATION others IS 'x'; ALTER TABLE account ADD published int; ALTER PUBLICATION others DROP TABLE account;;
     DROP PUBLICATION others",
    "CREATE SUBSCRIPTION mine CONNECTION 'dbname=nothing' PUBLICATION p WITH (connect = false, slot_name = NONE);;
     COMMENT ON SUBSCRIPTION mine IS 'x';; ALTER SUBSCRIPTION mine RENAME TO others;;
     ALTER SUBSCRIPTION others OWNER TO CURRENT_USER; COMMENT ON TABLE account IS 'x';; DROP SUBSCRIPTION others",
    "SELECT lo_create(4343);; COMMENT ON LARGE OBJECT 4343 IS 'x';; GRANT SELECT ON LARGE OBJECT 4343 TO PUBLIC;;
     REVOKE SELECT ON LARGE OBJECT 4343 FROM PUBLIC; ALTER LARGE OBJECT 4343 OWNER TO ann; COMMENT ON TABLE account IS 'y';;
     DO $$ BEGIN GRANT UPDATE ON LARGE OBJECT 4343 TO PUBLIC; COMMENT ON LARGE OBJECT 4343 IS 'z'; END $$;;
     SELECT lo_unlink(4343)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_follow_writes_around_the_proxy() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for sql in CHANGES.iter().chain(ON_PRIMARY) {
        let around = connect(cluster.primary.socket()).await;
        for message in sql.split(";;") {
            match message.trim_start().strip_prefix('!') {
                Some(failing) => assert!(around.batch_execute(failing).await.is_err(), "{sql}"),
                None => around.batch_execute(message).await.unwrap(),
            }
        }
        assert_equal(&cluster, sql).await;
    }
}

/// Replicas execute once the statements that the proxy itself has sent to them. The effects of
/// functions that are called through it come as those of writes around it. Messages as in
/// [`CHANGES`].
const THROUGH: &[&str] = &[
    "CREATE TABLE fruit (id serial PRIMARY KEY, name text)",
    "BEGIN;; ALTER TABLE fruit ADD price int DEFAULT 5;; INSERT INTO fruit (name) VALUES ('apple');;
     SELECT makes('one');; ALTER TABLE fruit ADD weight int DEFAULT 6;; COMMIT",
    "CREATE TABLE copied AS SELECT * FROM fruit;; SELECT id INTO copies FROM copied;; UPDATE copies SET id = id + 1",
    "CREATE MATERIALIZED VIEW dear AS SELECT * FROM fruit WHERE price > 4;; REFRESH MATERIALIZED VIEW dear",
    "CREATE EXTENSION pg_trgm;; DROP EXTENSION pg_trgm",
    "CREATE TABLE other.fruit (id int PRIMARY KEY);; DROP TABLE other.fruit",
    "DO $$ BEGIN ALTER TABLE fruit DROP price CASCADE; INSERT INTO fruit (name) VALUES ('pear'); END $$",
    "CREATE TEMP TABLE mine (id int);; ALTER TABLE mine ADD n int;; SELECT 1 AS id INTO TEMP yours;;
     DROP TABLE mine, yours",
    // In a session that has changed its settings, in a session that is bound to its server, and
    // together with other statements.
    "SET lock_timeout = '4s';; CREATE ROLE cow;; DROP ROLE cow;; SET a.b = 1;; ALTER TABLE fruit ADD unbound int DEFAULT 1",
    "SET lock_timeout = '5s';; ALTER TABLE fruit ADD bound int DEFAULT 1;; SET search_path = other;;
     CREATE TABLE fruit (id int PRIMARY KEY);; INSERT INTO fruit VALUES (1);; DROP TABLE fruit;; CREATE EXTENSION pg_trgm",
    "CREATE TABLE mixed (id int PRIMARY KEY); INSERT INTO mixed VALUES (1); ALTER TABLE mixed ADD n int DEFAULT 2;
     INSERT INTO mixed VALUES (2);; BEGIN; ALTER TABLE mixed ADD m int DEFAULT 3; UPDATE mixed SET n = m; COMMIT",
    "CREATE TABLE together (id int PRIMARY KEY); ALTER TABLE together ADD n int; CREATE ROLE cat",
    "CREATE TABLE times (id int PRIMARY KEY); INSERT INTO times VALUES (1);; SET timezone = 'Asia/Tokyo';;
     SET datestyle = 'German';; ALTER TABLE times ADD a timestamptz DEFAULT '1.2.2024 12:00';;
     SET intervalstyle = sql_standard;; ALTER TABLE times ADD b interval DEFAULT '-1 2:03:04'",
    // Roles, for which no trigger fires, before and after others.
    "CREATE ROLE first; CREATE TABLE of_first (id int PRIMARY KEY); CREATE ROLE second; ALTER ROLE second NOLOGIN;
     ALTER TABLE of_first OWNER TO second;; INSERT INTO of_first VALUES (1)",
    "CREATE ROLE third; CREATE TABLE of_third (id int PRIMARY KEY); ALTER TABLE of_third OWNER TO third;;
     DROP TABLE of_third; DROP ROLE third; CREATE ROLE third; GRANT third TO ann; GRANT SELECT ON account TO third",
    "CREATE ROLE owl;; GRANT ALL ON SCHEMA public TO owl;; GRANT INSERT (id) ON account TO owl;; DROP OWNED BY owl CASCADE",
    "CREATE ROLE dog;; ALTER TABLE mixed OWNER TO dog;; REASSIGN OWNED BY dog TO ann;; COMMENT ON ROLE dog IS 'a dog'",
    "CREATE ROLE bob;; ALTER TABLE fruit OWNER TO bob;; CREATE INDEX CONCURRENTLY ON fruit (name)",
    // The proxy puts blocks with this tag in front of a text.
    "CREATE TABLE tagged (id int PRIMARY KEY); COMMENT ON TABLE tagged IS 'DO $replex_noted$ x END$replex_noted$;';
     ALTER TABLE tagged ADD n int DEFAULT 1; INSERT INTO tagged VALUES (1)",
    // Each server builds its own indexes, and renames and drops its own.
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS by_price ON fruit (weight) WHERE weight > 1;;
     ALTER INDEX by_price RENAME TO by_weight;; COMMENT ON INDEX by_weight IS 'concurrently';;
     ALTER INDEX by_weight SET (fillfactor = 70);; REINDEX INDEX CONCURRENTLY by_weight;;
     DROP INDEX CONCURRENTLY by_weight",
    "CREATE UNIQUE INDEX CONCURRENTLY once ON fruit (id, name);;
     ALTER TABLE fruit ADD CONSTRAINT once UNIQUE USING INDEX once",
    "CREATE TABLE years (id int PRIMARY KEY) PARTITION BY RANGE (id);;
     CREATE TABLE year PARTITION OF years FOR VALUES FROM (0) TO (10);; INSERT INTO years VALUES (1);;
     ALTER TABLE years DETACH PARTITION year CONCURRENTLY;; UPDATE year SET id = 2;; ALTER TABLE year DROP CONSTRAINT year_id_check;;
     INSERT INTO year VALUES (20)",
];

/// Indexes whose concurrent build has failed, so that replicas do not have them, and that are
/// repaired on the primary; then what needs them. All are sent to the primary, then through the
/// proxy, in another schema.
const REPAIRED: &[&str] = &[
    "ALTER TABLE t ADD CONSTRAINT of_a UNIQUE USING INDEX t_a",
    "ALTER TABLE t ADD UNIQUE USING INDEX \"T\"\"s b\", DROP CONSTRAINT of_a",
    "CREATE TABLE first (c int REFERENCES t (c));; INSERT INTO first VALUES (1)",
    "CREATE TABLE second (d int);; DO $$ BEGIN
       ALTER TABLE second ADD CONSTRAINT named FOREIGN KEY (d) /* to */ REFERENCES /* the */ t(d); END $$",
    "CREATE SCHEMA repaired_later CREATE TABLE third (e text REFERENCES another.t (e));; ALTER TABLE t CLUSTER ON t_f",
    "ALTER TABLE t REPLICA IDENTITY USING INDEX T_G;; UPDATE t SET h = 6 WHERE g = 2;; DELETE FROM t WHERE g = 4",
    "COMMENT ON TABLE t IS 'using index t_h references t';; ALTER TABLE t ADD i int DEFAULT 1;;
     GRANT USAGE ON SCHEMA another TO ann;; GRANT REFERENCES ON t TO ann;; GRANT CREATE ON SCHEMA public TO ann;;
     SET ROLE ann;; CREATE TABLE public.fourth (h int REFERENCES t (h));; RESET ROLE",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repaired_indexes_can_be_used() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let around = connect(cluster.primary.socket()).await;
    let through = cluster.front.connect().await;
    let make = "CREATE SCHEMA another; CREATE SCHEMA \"And one\"";
    around.batch_execute(make).await.unwrap();
    for (client, schema) in [(&around, "another"), (&through, "\"And one\"")] {
        let make = format!(
            "SET search_path = {schema};
             CREATE TABLE t (a int, b int, c int, d int, e text COLLATE \"C\", f int, g int NOT NULL, h int);
             INSERT INTO t SELECT n, n, n, n, n, n, n, n FROM generate_series(1, 5) AS n;
             INSERT INTO t SELECT n, n, n, n, n, n, n, n FROM generate_series(1, 5) AS n"
        );
        client.batch_execute(&make).await.unwrap();
        let mut indexes = vec![];
        for column in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            let name = match column {
                "b" => "\"T\"\"s b\"".to_owned(),
                column => format!("t_{column}"),
            };
            let index = format!("CREATE UNIQUE INDEX CONCURRENTLY {name} ON t ({column})");
            let failed = client.batch_execute(&index).await.unwrap_err();
            assert_eq!(failed.code(), Some(&SqlState::UNIQUE_VIOLATION));
            indexes.push(name);
        }
        let repair = "DELETE FROM t WHERE ctid NOT IN (SELECT min(ctid) FROM t GROUP BY a)";
        client.batch_execute(repair).await.unwrap();
        for index in indexes {
            let repair = format!("REINDEX INDEX CONCURRENTLY {index}");
            client.batch_execute(&repair).await.unwrap();
        }
        for sql in REPAIRED {
            for message in sql.split(";;") {
                let message = message.replace("another", schema);
                let done = client.batch_execute(&message).await;
                done.unwrap_or_else(|error| panic!("{message}: {error:?}"));
            }
            // Other indexes are not there yet.
            let constraints = "SELECT string_agg(concat(conname, pg_get_constraintdef(oid)), ' ' ORDER BY conname, conrelid::regclass::text)
                                 FROM pg_constraint WHERE connamespace <> ALL ('{pg_catalog,hihooi}'::regnamespace[])";
            cluster.wait_until_equal(constraints).await;
        }
        assert_equal(&cluster, "repaired").await;
        let drop = "DROP TABLE public.fourth; DROP SCHEMA repaired_later CASCADE";
        client.batch_execute(drop).await.unwrap();
    }
}

/// A partition that was detached by halves, when its session was ended, is detached at last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_detach_is_finished() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let around = connect(cluster.primary.socket()).await;
    let make = "CREATE TABLE years (id int PRIMARY KEY) PARTITION BY RANGE (id);
        CREATE TABLE year PARTITION OF years FOR VALUES FROM (0) TO (10); INSERT INTO years VALUES (1)";
    around.batch_execute(make).await.unwrap();
    assert_equal(&cluster, make).await;
    // The second of the detach's transactions waits for this one, which has used the table.
    let reader = connect(cluster.primary.socket()).await;
    let reads = "BEGIN; SELECT FROM years";
    reader.batch_execute(reads).await.unwrap();
    let detach = "SET lock_timeout = '50ms'; ";
    around.batch_execute(detach).await.unwrap();
    let detach = "ALTER TABLE years DETACH PARTITION year CONCURRENTLY";
    let refused = around.batch_execute(detach).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::LOCK_NOT_AVAILABLE));
    reader.batch_execute("COMMIT").await.unwrap();
    for sql in [
        "ALTER TABLE years DETACH PARTITION year FINALIZE",
        "INSERT INTO year VALUES (2)",
    ] {
        around.batch_execute(sql).await.unwrap();
        assert_equal(&cluster, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_through_the_proxy_are_executed_once() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for sql in THROUGH.iter().chain(ON_PRIMARY) {
        let through = cluster.front.connect().await;
        for message in sql.split(";;") {
            through.batch_execute(message).await.unwrap();
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
            "CREATE ROLE unused VALID UNTIL '2030-01-01'",
            "ALTER TABLE fruit ADD n int; CREATE ROLE unused VALID UNTIL '2030-01-01'",
        ] {
            let refused = text(&changed, sql).await;
            assert!(refused.contains(why), "{refused}");
        }
    }
    assert_equal(&cluster, "nothing").await;
}

/// Each statement, and its report.
const LOST: &[(&str, &str)] = &[
    (
        "SET standard_conforming_strings = off;; ALTER TABLE account ADD c text DEFAULT 'it\\'s'",
        "here: standard_conforming_strings is off",
    ),
    (
        "BEGIN; SAVEPOINT s; ALTER TABLE account ADD p int; ROLLBACK TO s; ALTER TABLE account ADD q int; COMMIT",
        "here: its text has several transactions",
    ),
];

/// A replica that cannot follow reports why, and serves no reads any more: here a replica whose
/// primary has not refused a change that it should have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_that_cannot_be_followed_are_reported() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let replicas = cluster.front.replicas();
    let admin = connect(cluster.primary.socket()).await;
    let unchecked = "CREATE OR REPLACE FUNCTION hihooi.check_text(statement text, is_conforming bool, is_whole bool,
        makes_rows bool) RETURNS void LANGUAGE plpgsql AS 'BEGIN END'";
    admin.batch_execute(unchecked).await.unwrap();
    for (sql, why) in LOST {
        let around = connect(cluster.primary.socket()).await;
        for message in sql.split(";;") {
            around.batch_execute(message).await.unwrap();
        }
        cluster
            .wait(|states| states == [ReplicaState::Quarantined])
            .await;
        let status = replicas.replication().status();
        let (id, status) = status.first_key_value().unwrap();
        assert!(status.text.contains(why), "{}", status.text);
        assert!(
            status.text.contains("add it again with EMPTY"),
            "{}",
            status.text
        );
        assert!(replicas.remove(*id).await.unwrap());
        let address = cluster.replicas[0].address("postgres");
        replicas.add(&address, ExistingData::Dropped).unwrap();
        assert_equal(&cluster, sql).await;
    }
}

/// A read of no table has the operators, types and functions that were made before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_of_no_table_see_the_schema() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let through = cluster.front.connect().await;
    for round in 1..=30 {
        let name = "@#".repeat(round);
        let makes = [
            format!("CREATE OPERATOR {name} (rightarg = int8, procedure = factorial)"),
            format!("CREATE TYPE mood_{round} AS ENUM ('sad')"),
            format!("CREATE FUNCTION new_{round}() RETURNS int IMMUTABLE RETURN {round}"),
        ];
        let reads = [
            format!("SELECT {name} 3"),
            format!("SELECT 'sad'::mood_{round}"),
            format!("SELECT new_{round}()"),
        ];
        for (make, read) in makes.iter().zip(reads) {
            through.batch_execute(make).await.unwrap();
            let done = through.simple_query(&read).await;
            assert!(done.is_ok(), "{read}: {done:?}");
        }
    }
}

/// A view is read with its present definition, and waits for the tables that it reads now.
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

/// The triggers work for a user that may do nothing else there, and no other user may write their
/// table.
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
    // Our own schema belongs to us alone, and goes as a whole.
    admin
        .batch_execute("GRANT USAGE ON SCHEMA hihooi TO ann")
        .await
        .unwrap();
    assert_equal(&cluster, "GRANT").await;
    let there = "SELECT count(*) FROM pg_event_trigger";
    assert_eq!(text(&admin, there).await, "4");
    let replica = connect(cluster.replicas[0].socket()).await;
    assert_eq!(text(&replica, there).await, "0");
    drop(cluster.front);
    admin
        .batch_execute("DROP SCHEMA hihooi CASCADE")
        .await
        .unwrap();
    assert_eq!(text(&admin, there).await, "0");
}

/// Of temporary tables there is nothing at replicas. Messages as in [`CHANGES`], all of one
/// session.
const TEMPORARY: &[&str] = &[
    "CREATE TEMP TABLE mine (id int PRIMARY KEY, n int);; GRANT SELECT ON mine TO ann;; REVOKE ALL ON mine FROM ann",
    "GRANT SELECT ON pg_temp.mine TO ann;; GRANT SELECT (id) ON mine TO PUBLIC",
    "CREATE TRIGGER t BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "ALTER TRIGGER t ON mine RENAME TO u;; COMMENT ON TRIGGER u ON mine IS 'mine';; DROP TRIGGER u ON mine",
    "CREATE RULE r AS ON DELETE TO mine DO INSTEAD NOTHING;; COMMENT ON RULE r ON mine IS 'mine';; DROP RULE r ON mine",
    "ALTER TABLE mine ENABLE ROW LEVEL SECURITY;; CREATE POLICY p ON mine USING (true);; ALTER POLICY p ON mine TO ann;;
     DROP POLICY p ON mine",
    "CREATE STATISTICS s ON id, n FROM mine;; COMMENT ON STATISTICS s IS 'mine';; ALTER STATISTICS s RENAME TO z;;
     DROP STATISTICS z",
    "CREATE INDEX i ON mine (n);; COMMENT ON INDEX i IS 'mine';; COMMENT ON COLUMN mine.n IS 'mine';; DROP INDEX i",
    "CREATE TRIGGER t BEFORE UPDATE ON mine FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
     CREATE STATISTICS s ON id, n FROM mine; GRANT SELECT ON mine TO ann; CREATE TABLE lasts (id int PRIMARY KEY);
     DROP TRIGGER t ON mine; DROP STATISTICS s",
    "CREATE VIEW over AS SELECT * FROM mine;; GRANT SELECT ON over TO ann;; DROP VIEW over",
    "CREATE SEQUENCE pg_temp.q OWNED BY mine.id;; ALTER TABLE mine ALTER n SET DEFAULT nextval('q')",
    "CREATE TEMP TABLE child () INHERITS (lasts);; INSERT INTO child VALUES (7);; DROP TABLE child",
    "CREATE TEMP TABLE like_mine (LIKE mine INCLUDING ALL);; CREATE TEMP TABLE of_mine AS SELECT * FROM mine",
    "CREATE FUNCTION pg_temp.f(mine) RETURNS int LANGUAGE sql AS 'SELECT 1';; GRANT EXECUTE ON FUNCTION pg_temp.f TO ann",
    "DO $$ BEGIN CREATE TEMP TABLE inner_one (id int); GRANT SELECT ON inner_one TO ann;
     CREATE TABLE by_do (id int PRIMARY KEY); INSERT INTO by_do VALUES (1); DROP TABLE inner_one; END $$",
    // A table with the name of a temporary table is another one with its schema.
    "CREATE TEMP TABLE account (x int);; CREATE TABLE of_real AS SELECT * FROM public.account;;
     GRANT SELECT ON public.account TO ann;; ALTER TABLE account ADD y int;; DROP TABLE account",
    "CREATE TABLE mine_too (LIKE public.account INCLUDING ALL);; COMMENT ON TABLE mine_too IS 'no temporary one'",
    "SET search_path = pg_temp, public;; CREATE TABLE silent (id int);; GRANT SELECT ON silent TO ann",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_objects_are_left_out() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let clients = [
        ("through", cluster.front.connect().await),
        ("around", connect(cluster.primary.socket()).await),
    ];
    for (way, client) in &clients {
        for sql in TEMPORARY {
            for message in sql.split(";;") {
                let done = client.batch_execute(message).await;
                done.unwrap_or_else(|error| panic!("{way}: {message}: {error:?}"));
            }
            assert_equal(&cluster, sql).await;
        }
        let gone = "DROP TABLE lasts, by_do, of_real, mine_too";
        client
            .batch_execute(&format!("SET search_path = public; {gone}"))
            .await
            .unwrap();
    }
}

/// A lasting object that needs a temporary table is refused, and replicas go on: by a client of the
/// proxy, and in functions.
const OF_TEMPORARY: &[&str] = &[
    "CREATE TABLE bad AS SELECT * FROM mine",
    "CREATE TABLE bad AS SELECT * FROM account WHERE id IN (SELECT id FROM pg_temp.mine)",
    "CREATE TABLE bad AS SELECT * FROM over_mine",
    "CREATE TABLE bad (LIKE mine INCLUDING ALL)",
    "CREATE TABLE IF NOT EXISTS bad (key int PRIMARY KEY, LIKE mine)",
    "CREATE TABLE bad (id int PRIMARY KEY, m mine)",
    "CREATE TABLE bad (id int PRIMARY KEY DEFAULT nextval('own'))",
    "ALTER TABLE account ALTER id SET DEFAULT nextval('own')",
    "CREATE FUNCTION bad(mine) RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION bad() RETURNS SETOF mine LANGUAGE sql AS 'SELECT NULL::mine'",
    "CREATE RULE bad AS ON INSERT TO account DO ALSO INSERT INTO mine VALUES (1)",
    "CREATE POLICY bad ON account USING (id IN (SELECT id FROM mine))",
    "CREATE DOMAIN bad AS mine",
    "CREATE CAST (mine AS text) WITH INOUT",
    "DROP TABLE mine, dropped CASCADE",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lasting_changes_by_temporary_objects_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let make =
        "CREATE TABLE IF NOT EXISTS dropped (id int PRIMARY KEY); CREATE TEMP TABLE mine (id int);
                CREATE TEMP VIEW over_mine AS SELECT * FROM mine; CREATE TEMP SEQUENCE own";
    let through = cluster.front.connect().await;
    let around = connect(cluster.primary.socket()).await;
    for client in [&through, &around] {
        client.batch_execute(make).await.unwrap();
    }
    let refused =
        |message: String, sql: &str| assert!(message.contains("temporary"), "{sql}: {message}");
    for sql in OF_TEMPORARY {
        refused(text(&through, sql).await, sql);
        let inside = format!("DO $do$ BEGIN {sql}; END $do$");
        for client in [&through, &around] {
            refused(text(client, &inside).await, &inside);
        }
        assert_equal(&cluster, sql).await;
    }
    for sql in [
        "GRANT SELECT ON mine, account TO ann",
        "CREATE TEMP TABLE new_one (id int); CREATE TABLE bad AS SELECT * FROM new_one",
        "SELECT 1 AS id INTO TEMP new_one; CREATE TABLE bad (LIKE new_one)",
    ] {
        refused(text(&through, sql).await, sql);
        assert_equal(&cluster, sql).await;
    }
}

/// Statements in functions that do not report their statements, and whether they are refused.
const IN_SQL: &[(&str, bool)] = &[
    ("CREATE TABLE of_sql (id int PRIMARY KEY)", true),
    ("CREATE TABLE of_sql AS SELECT id FROM account", true),
    ("ALTER TABLE account ADD of_sql int", true),
    ("DROP TABLE goes", true),
    ("GRANT SELECT ON goes TO ann", true),
    ("CREATE TEMP TABLE of_sql AS SELECT id FROM account", false),
    ("CREATE TEMP TABLE of_sql_too (id int)", false),
    ("INSERT INTO goes VALUES (1)", false),
];

/// No replica is lost by a function in SQL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unannounced_changes_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let through = cluster.front.connect().await;
    let around = connect(cluster.primary.socket()).await;
    let goes = "CREATE TABLE goes (id int)";
    through.batch_execute(goes).await.unwrap();
    for (sql, is_refused) in IN_SQL {
        for client in [&through, &around] {
            let function = format!(
                "CREATE OR REPLACE FUNCTION does() RETURNS void LANGUAGE sql AS $$ {sql} $$"
            );
            client.batch_execute(&function).await.unwrap();
            let message = text(client, "SELECT does()").await;
            assert_eq!(
                message.contains("PL/pgSQL"),
                *is_refused,
                "{sql}: {message}"
            );
            assert_equal(&cluster, sql).await;
        }
    }
}

/// Tables without a key, however they are made: they can be changed, and go on with a key once they
/// have one.
const KEYLESS: &[&str] = &[
    "CREATE TABLE plain (id int, n int);; INSERT INTO plain VALUES (1, 1), (1, 1), (2, NULL)",
    "UPDATE plain SET n = 5 WHERE id = 2;; DELETE FROM plain WHERE ctid = (SELECT min(ctid) FROM plain)",
    "CREATE TABLE made AS SELECT n AS id FROM generate_series(1, 3) AS n;; UPDATE made SET id = id + 1",
    "CREATE SCHEMA within CREATE TABLE one (id int);; INSERT INTO within.one VALUES (1);; DELETE FROM within.one",
    "CREATE TABLE many (id int) PARTITION BY LIST (id);; CREATE TABLE first PARTITION OF many DEFAULT;;
     INSERT INTO many VALUES (1);; UPDATE many SET id = 2",
    "DO $$ BEGIN CREATE TABLE inside (id int); INSERT INTO inside VALUES (1); UPDATE inside SET id = 2; END $$",
    "ALTER TABLE made ADD PRIMARY KEY (id);; UPDATE made SET id = id + 10",
    // Tables that declare that they have none, and tables whose key goes with a column that it
    // needs.
    "ALTER TABLE plain REPLICA IDENTITY NOTHING;; UPDATE plain SET n = 6;; DELETE FROM plain WHERE id = 1",
    "CREATE TABLE nothing (id int PRIMARY KEY);; INSERT INTO nothing VALUES (1);;
     ALTER TABLE nothing REPLICA IDENTITY NOTHING;; UPDATE nothing SET id = 2",
    "CREATE TABLE by_index (id int NOT NULL);; CREATE UNIQUE INDEX its ON by_index (id);;
     ALTER TABLE by_index REPLICA IDENTITY USING INDEX its;; INSERT INTO by_index VALUES (1);; DROP INDEX its;;
     UPDATE by_index SET id = 2;; DELETE FROM by_index",
    "CREATE DOMAIN number AS int;; CREATE TABLE by_type (id number PRIMARY KEY, n int);; INSERT INTO by_type VALUES (1, 1);;
     DROP DOMAIN number CASCADE;; UPDATE by_type SET n = 2",
    "CREATE SCHEMA gone;; CREATE DOMAIN gone.number AS int;; CREATE TABLE by_schema (id gone.number PRIMARY KEY, n int);;
     INSERT INTO by_schema VALUES (1, 1);; DROP SCHEMA gone CASCADE;; DELETE FROM by_schema",
    "ALTER TABLE account DROP CONSTRAINT account_pkey;; UPDATE account SET name = name || '!'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_without_a_key_can_be_changed() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for sql in KEYLESS {
        let client = cluster.front.connect().await;
        for message in sql.split(";;") {
            let done = client.batch_execute(message).await;
            done.unwrap_or_else(|error| panic!("{message}: {error:?}"));
        }
        assert_equal(&cluster, sql).await;
    }
    let identities =
        "SELECT string_agg(format('%s%s', relname, relreplident), ' ' ORDER BY relname) FROM pg_class
                       WHERE relname IN ('account', 'made', 'plain')";
    for server in [&cluster.primary, &cluster.replicas[0]] {
        let found = text(&connect(server.socket()).await, identities).await;
        assert_eq!(found, "accountf maded plainf");
    }
}
