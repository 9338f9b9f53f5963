//! The state that statements leave in their sessions, by PostgreSQL itself and by the servers of a
//! session's reads.

use pg_analysis::effect;
use pg_local::Postgres;
use proxy_core::grammar::SessionEffect;

use crate::support::cluster::{Cluster, text};
use crate::support::raw::Raw;
use crate::support::{connect, is_there};

const TABLES: &str = "
    CREATE TABLE t (id int PRIMARY KEY, temp int, hold int, load int, listen text, prepared int, discard int);
    CREATE TABLE temp (id int PRIMARY KEY, setseed int, set_config int, pg_advisory_lock int);
    CREATE FUNCTION execute(int) RETURNS int LANGUAGE sql RETURN 1;
    CREATE FUNCTION trigger() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
    INSERT INTO t VALUES (1, 2, 3, 4, 'five', 6, 7)";

/// All that a session has of its own, as far as it can be asked.
const STATE: &str = "SELECT concat_ws('|',
    (SELECT string_agg(name || '=' || setting, ',' ORDER BY name) FROM pg_settings
      WHERE source = 'session' AND name !~ '^transaction_'),
    nullif(current_setting('a.b', true), ''), current_user, session_user,
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
    (SELECT string_agg(it, ',') FROM pg_listening_channels() it),
    (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_proc WHERE pronamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_type WHERE typnamespace = pg_my_temp_schema()),
    (SELECT count(*) FROM pg_replication_slots WHERE active_pid = pg_backend_pid()))";

/// Words of statements that leave something, and so are the names of the functions below.
const WORDS: &[&str] = &[
    "current_schema",
    "discard",
    "deallocate",
    "dblink_connect",
    "execute",
    "hold",
    "listen",
    "load",
    "pg_temp",
    "pg_temp_1",
    "prepare",
    "prepared",
    "temp",
    "temporary",
    "currval",
    "lastval",
    "pg_advisory_lock",
    "pg_try_advisory_lock_shared",
    "pg_advisory_unlock",
    "query_to_xml",
    "set_config",
    "setseed",
    "binary_upgrade_x",
    "ts_stat",
];

/// Where a word stands that leaves nothing.
const FORMS: &[&str] = &[
    "SELECT '?'",
    "SELECT '? it''s ?(1)', 1",
    "SELECT 1 AS \"?\"",
    "SELECT 1 AS \"a\"\"?\"",
    "SELECT x.\"?\" FROM (SELECT 1) x(\"?\")",
    "SELECT 1 -- ?(1)",
    "SELECT /* ? /* ?(1) */ ?(1) */ 1",
    "SELECT $$?(1)$$, $x$ ? $x$",
    "WITH \"?\" AS (SELECT 1) SELECT * FROM \"?\"",
    "INSERT INTO t VALUES (2, 1, 1, 1, '?') ON CONFLICT DO NOTHING",
    "UPDATE t SET listen = '?' WHERE listen <> '?'",
    "BEGIN; DECLARE \"?\" CURSOR FOR SELECT '?'; FETCH ALL FROM \"?\"; COMMIT",
    "CREATE SCHEMA \"a?\"; COMMENT ON SCHEMA \"a?\" IS '?'; DROP SCHEMA \"a?\"",
    "SET LOCAL a.\"?\" = '?'",
    "NOTIFY \"?\", '?'",
    "BEGIN; SAVEPOINT \"?\"; RELEASE \"?\"; COMMIT",
];

/// Statements of every kind, whether they leave something or not.
const STATEMENTS: &[&str] = &[
    "SELECT current_schema(), current_schema, current_schemas(true)",
    "SELECT temp, hold, load, listen, prepared, discard FROM t",
    "SELECT temp.setseed, temp.set_config, temp.pg_advisory_lock FROM temp",
    "SELECT execute(1), pg_catalog.lower('temp')",
    "CREATE TABLE hold (temp int, \"temporary\" int); ALTER TABLE hold ADD load int; DROP TABLE hold",
    "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION trigger(); DROP TRIGGER x ON t",
    "GRANT EXECUTE ON FUNCTION execute(int) TO PUBLIC",
    "CREATE VIEW v AS SELECT temp FROM t; DROP VIEW v",
    "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1 -- setseed(1)'; DROP FUNCTION f()",
    "EXPLAIN ANALYZE SELECT temp FROM t",
    "COPY t (temp) TO STDOUT",
    "BEGIN; LOCK TABLE temp; COMMIT",
    "SELECT pg_advisory_xact_lock(temp) FROM t",
    "SELECT pg_try_advisory_xact_lock_shared(temp) FROM t",
    "SELECT pg_advisory_unlock_all()",
    "BEGIN; SELECT set_config('a.b', '1', true), set_config('work_mem', '1MB', 'true'); COMMIT",
    "BEGIN; SET LOCAL a.b = 1; SET LOCAL role = postgres; SET TRANSACTION READ ONLY; COMMIT",
    "BEGIN; DECLARE c NO SCROLL CURSOR WITHOUT HOLD FOR SELECT temp FROM t; MOVE c; CLOSE c; COMMIT",
    "CLOSE ALL; UNLISTEN *; DISCARD PLANS; DISCARD SEQUENCES; DISCARD TEMP",
    "REFRESH MATERIALIZED VIEW m",
    "SET a.b = 1",
    "SET work_mem = '1MB'",
    "SET SESSION work_mem TO '2MB'; SELECT temp FROM t",
    "SET TIME ZONE 'Asia/Tokyo'",
    "SET SCHEMA 'temp'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET ROLE ann",
    "SET SESSION AUTHORIZATION ann",
    "SELECT set_config('a.b', '1', false)",
    "SELECT set_config('a.b', '1', temp > 5) FROM t",
    "SELECT count(set_config('a.b', '1', false)) FROM t WHERE temp IN (SELECT temp FROM t)",
    "WITH x AS (SELECT set_config('a.b', '1', false)) SELECT * FROM x",
    "SELECT \"pg_catalog\" . \"set_config\" /* x */ ('a.b', '1', false)",
    "INSERT INTO t (id, listen) VALUES (9, set_config('a.b', '1', false))",
    "PREPARE x AS SELECT 1",
    "CREATE TEMP TABLE n (a int)",
    "CREATE TABLE pg_temp.n (a int)",
    "CREATE TEMPORARY VIEW n AS SELECT 1",
    "CREATE TEMP SEQUENCE n",
    "CREATE TEMP TABLE n AS SELECT temp FROM t",
    "SELECT 1 AS a INTO TEMP n",
    "SELECT 1 AS a INTO pg_temp.n UNION SELECT 2",
    "CREATE FUNCTION pg_temp.n() RETURNS int LANGUAGE sql RETURN 1",
    "CREATE TYPE pg_temp.n AS ENUM ('a')",
    "CREATE DOMAIN pg_temp.n AS int",
    "EXPLAIN ANALYZE CREATE TEMP TABLE n AS SELECT 1",
    "LISTEN x",
    "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_lock(1, 2)",
    "SELECT pg_advisory_lock_shared(temp) FROM t",
    "COPY (SELECT pg_advisory_lock(1)) TO STDOUT",
    "CREATE TABLE n AS SELECT pg_try_advisory_lock(1); DROP TABLE n",
    "EXPLAIN ANALYZE SELECT pg_advisory_lock(1)",
    "BEGIN; DECLARE c CURSOR FOR SELECT pg_advisory_lock(1); FETCH c; COMMIT",
    "SELECT query_to_xml('SELECT pg_advisory_lock(1)', true, true, '')",
    "SELECT * FROM ts_stat('SELECT pg_advisory_lock(1)::text::tsvector')",
    "SELECT pg_create_physical_replication_slot('n', false, true)",
    "DO 'BEGIN PERFORM pg_advisory_lock(1); END'",
];

/// A statement counts as leaving something exactly where a session of PostgreSQL has something
/// afterwards that it did not have before.
#[tokio::test]
async fn effects_equal_those_of_postgresql() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    admin.batch_execute(TABLES).await.unwrap();
    let more = "CREATE ROLE ann SUPERUSER; CREATE MATERIALIZED VIEW m AS SELECT temp FROM t";
    admin.batch_execute(more).await.unwrap();
    let forms = FORMS.iter().flat_map(|form| {
        let in_form = |word: &&str| form.replace('?', word);
        WORDS.iter().map(in_form)
    });
    let statements = STATEMENTS.iter().map(ToString::to_string);
    let mut raw = Raw::log_in(postgres.socket()).await;
    for statement in forms.chain(statements) {
        raw.query(STATE);
        let before = raw.reply().await;
        raw.query(&statement);
        let reply = raw.reply().await;
        assert!(!reply.contains('['), "{statement}: {reply}");
        raw.query(STATE);
        let leaves = raw.reply().await != before;
        let effect = effect::of(statement.as_bytes());
        assert_eq!(
            effect != SessionEffect::Nothing,
            leaves,
            "{statement}: {effect:?}"
        );
        if leaves {
            drop(raw);
            // The server ends a session some time after its connection, and its locks with it.
            let free = "SELECT pg_advisory_lock(1); SELECT pg_advisory_unlock(1)";
            admin.batch_execute(free).await.unwrap();
            raw = Raw::log_in(postgres.socket()).await;
        }
    }
}

/// A statement that leaves nothing does not bind its session: it goes on reading at the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_bound_by_statements_not_by_words() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLES).await;
    cluster.settle().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.query("SET replex.trace = on");
    raw.reply().await;
    const REPLICA: &str = "replica 1";
    const PRIMARY: &str = "the primary";
    let read = ("SELECT id FROM t WHERE id = 1", REPLICA, "T'1'CZI");
    raw.converse_at(&[
        ("SELECT current_schema()", PRIMARY, "T'public'CZI"),
        read,
        ("SELECT 'please prepare'", REPLICA, "T'please prepare'CZI"),
        ("SELECT 'listen'", REPLICA, "T'listen'CZI"),
        (
            "SELECT temp FROM t WHERE hold = 3 AND load = 4",
            REPLICA,
            "T'2'CZI",
        ),
        read,
        ("SELECT pg_advisory_unlock_all()", PRIMARY, "T''CZI"),
        ("SELECT pg_try_advisory_xact_lock(1)", PRIMARY, "T't'CZI"),
        read,
        ("SELECT set_config('a.b', '1', true)", PRIMARY, "T'1'CZI"),
        read,
    ])
    .await;
    for (text, is_bound) in [
        ("SELECT prepared FROM t", false),
        ("SELECT currval FROM (SELECT id AS currval FROM t) x", false),
        ("SELECT pg_try_advisory_lock(7)", true),
    ] {
        raw.parse("", text).bind("").execute(0).sync();
        raw.reply().await;
        raw.query(read.0);
        let (place, _) = raw.reply_at().await;
        let expected = if is_bound { PRIMARY } else { REPLICA };
        assert!(place.starts_with(expected), "{text}: {place}");
    }
    // The lock is held as long as its session is there.
    let other = cluster.front.connect().await;
    assert_eq!(
        text(&other, "SELECT pg_try_advisory_xact_lock(7)").await,
        "f"
    );
    drop(raw);
}
