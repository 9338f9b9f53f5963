//! Objects that differ on each server: tablespaces, other databases, and checks that depend on the
//! time, the user, settings or other tables. No such statement stops a replica.

use proxy_core::freshness::ReplicaState;

use crate::support::cluster::{Cluster, text};
use crate::support::{connect, is_there};

/// The schema before there is a proxy.
const SETUP: &str = "
CREATE ROLE ann;
CREATE TABLE known (id int PRIMARY KEY);
INSERT INTO known VALUES (1), (2);
CREATE FUNCTION is_known(n int) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN IF NOT EXISTS (SELECT FROM public.known WHERE id = n) THEN RAISE 'unknown %', n; END IF; RETURN true; END $$;
CREATE TABLE before (id int PRIMARY KEY, CONSTRAINT is_on CHECK (current_setting('app.mode', true) = 'on') NO INHERIT);
CREATE DOMAIN by_setting AS text CONSTRAINT is_on CHECK (VALUE = current_setting('app.mode', true));
GRANT CREATE, USAGE ON SCHEMA public TO ann;
GRANT ALL ON ALL TABLES IN SCHEMA public TO ann";
/// Each alone.
const OF_SERVER: [&str; 3] = [
    "SET allow_in_place_tablespaces = on",
    "CREATE TABLESPACE fast LOCATION ''",
    "CREATE DATABASE elsewhere",
];

/// Each may be sent around the proxy and through it; `;;` separates messages.
const STATEMENTS: &[&str] = &[
    // Checks, of tables and of domains.
    "SET app.mode = 'on';; INSERT INTO before VALUES (1)",
    "CREATE TABLE mine (id int PRIMARY KEY, owner name CHECK (owner = current_user));; GRANT ALL ON mine TO ann;;
     SET ROLE ann;; INSERT INTO mine VALUES (1, 'ann');; RESET ROLE;; DROP TABLE mine",
    "CREATE TABLE looked_up (id int PRIMARY KEY CONSTRAINT found CHECK (is_known(id)));; INSERT INTO looked_up VALUES (2);;
     DELETE FROM known WHERE id = 2;; UPDATE looked_up SET id = 1;; INSERT INTO known VALUES (2);; DROP TABLE looked_up",
    "SET app.mode = 'x';; CREATE TABLE typed (id int PRIMARY KEY, a by_setting, b by_setting[]);;
     INSERT INTO typed VALUES (1, 'x', '{x,x}');; DROP TABLE typed",
    "SET app.mode = '7';; CREATE DOMAIN later AS int;; CREATE TABLE typed (id later PRIMARY KEY);;
     ALTER DOMAIN later ADD CONSTRAINT now CHECK (VALUE = current_setting('app.mode')::int);;
     INSERT INTO typed VALUES (7);; ALTER DOMAIN later RENAME CONSTRAINT now TO later_on;;
     ALTER DOMAIN later VALIDATE CONSTRAINT later_on;; ALTER DOMAIN later DROP CONSTRAINT later_on;;
     INSERT INTO typed VALUES (8);; DROP TABLE typed;; DROP DOMAIN later",
    "CREATE TABLE parent (id int PRIMARY KEY, t date);; CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);;
     CREATE TABLE grandchild (PRIMARY KEY (id)) INHERITS (child);;
     ALTER TABLE child ADD CONSTRAINT soon CHECK (t > current_date);;
     ALTER TABLE parent ADD CHECK (t <> 'today'::text::date), ADD CONSTRAINT soon_too CHECK (t > current_date);;
     INSERT INTO grandchild VALUES (1, current_date + 1);; INSERT INTO parent VALUES (2, current_date + 1);;
     ALTER TABLE parent RENAME CONSTRAINT soon_too TO soonest;; ALTER TABLE parent DROP CONSTRAINT soonest;;
     ALTER TABLE child NO INHERIT parent;; ALTER TABLE child INHERIT parent;; DROP TABLE parent CASCADE",
    "SET app.mode = 'p';; CREATE TABLE whole (id int PRIMARY KEY, m text CHECK (m = current_setting('app.mode')))
       PARTITION BY RANGE (id);;
     CREATE TABLE part PARTITION OF whole FOR VALUES FROM (0) TO (10);; INSERT INTO whole VALUES (1, 'p');;
     CREATE TABLE loose (LIKE whole INCLUDING ALL);; ALTER TABLE whole ATTACH PARTITION loose FOR VALUES FROM (10) TO (20);;
     INSERT INTO whole VALUES (11, 'p');; ALTER TABLE whole DETACH PARTITION loose;; DROP TABLE whole, loose",
    "SET app.mode = 'c';; CREATE TABLE typed (id int PRIMARY KEY, n varchar(9) CHECK (n = current_setting('app.mode')));;
     ALTER TABLE typed ALTER n TYPE text;; INSERT INTO typed VALUES (1, 'c');; DROP TABLE typed",
    // Tablespaces.
    "CREATE TABLE placed (id int PRIMARY KEY USING INDEX TABLESPACE fast, n int) TABLESPACE fast;;
     CREATE INDEX placed_n ON placed (n) TABLESPACE fast;; INSERT INTO placed VALUES (1, 1);;
     ALTER TABLE placed ADD UNIQUE (n) USING INDEX TABLESPACE fast;; ALTER INDEX placed_n SET TABLESPACE pg_default;;
     ALTER TABLE placed SET TABLESPACE pg_default;; ALTER TABLE placed SET TABLESPACE \"fast\";; DROP TABLE placed",
    "CREATE TABLE placed (id int, PRIMARY KEY (id) USING INDEX TABLESPACE fast) PARTITION BY RANGE (id) TABLESPACE fast;;
     CREATE TABLE placed_low PARTITION OF placed FOR VALUES FROM (0) TO (9);; CREATE INDEX ON placed (id) TABLESPACE fast;;
     INSERT INTO placed VALUES (1);; ALTER TABLE placed SET TABLESPACE fast;; DROP TABLE placed",
    "CREATE TABLE placed TABLESPACE fast AS SELECT id, 'x' AS tablespace FROM known;; DROP TABLE placed",
    "CREATE MATERIALIZED VIEW placed TABLESPACE fast AS SELECT id FROM known;; DROP MATERIALIZED VIEW placed",
    "SET default_tablespace = fast;; CREATE TABLE placed (id int PRIMARY KEY);; INSERT INTO placed VALUES (1);;
     DROP TABLE placed",
    "COMMENT ON TABLESPACE fast IS 'fast';; GRANT CREATE ON TABLESPACE fast TO ann;;
     ALTER TABLESPACE fast OWNER TO ann;; ALTER TABLESPACE fast SET (random_page_cost = 2);;
     ALTER TABLESPACE fast RENAME TO faster;; ALTER TABLESPACE faster RENAME TO fast;;
     REVOKE ALL ON TABLESPACE fast FROM ann",
    // Databases.
    "COMMENT ON DATABASE elsewhere IS 'it''s there';; GRANT CREATE ON DATABASE elsewhere TO ann;;
     ALTER DATABASE elsewhere OWNER TO ann;; REVOKE CREATE ON DATABASE elsewhere FROM ann;;
     ALTER DATABASE elsewhere SET work_mem = '5MB';; ALTER DATABASE elsewhere RENAME TO there;;
     ALTER DATABASE there RENAME TO elsewhere",
    "COMMENT ON DATABASE postgres IS 'here';; GRANT TEMPORARY ON DATABASE postgres TO ann",
    // Spellings of statements that make tables of queries.
    "CREATE TABLE made AS SELECT id FROM known WITH DATA -- all of them;; DROP TABLE made",
    "CREATE TABLE made AS SELECT 'with data' AS t, id FROM known WITH /* all */ DATA;; DROP TABLE made",
    "CREATE TABLE seen (id int PRIMARY KEY, n int);; CREATE STATISTICS seen_both ON id, n FROM seen;;
     /* STATISTICS */ DROP STATISTICS seen_both;; DROP TABLE seen",
];

/// The rows of tables that last.
const ROWS: &str = "SELECT (SELECT string_agg(id::text, ',' ORDER BY id) FROM known) || ' ' ||
    (SELECT count(*) FROM before)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_about_one_server_stop_no_replica() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let admin = connect(cluster.primary.socket()).await;
    for statement in OF_SERVER {
        admin.batch_execute(statement).await.unwrap();
    }
    for statement in &STATEMENTS[1..] {
        for is_through in [true, false] {
            let client = match is_through {
                true => cluster.front.connect().await,
                false => connect(cluster.primary.socket()).await,
            };
            for message in statement.split(";;") {
                let done = client.batch_execute(message).await;
                done.unwrap_or_else(|error| panic!("{is_through}: {message}: {error:?}"));
            }
            let wrote = "INSERT INTO known SELECT max(id) + 1 FROM known";
            admin.batch_execute(wrote).await.unwrap();
            cluster.settle().await;
            cluster
                .wait(|states| states == [ReplicaState::Serving])
                .await;
            cluster.wait_until_equal(ROWS).await;
        }
    }
}

/// Checks that are replaced where rows are applied are enforced for all others, as after a
/// promotion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_checks_are_enforced_for_others() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    let client = cluster.front.connect().await;
    for message in STATEMENTS[0].split(";;") {
        client.batch_execute(message).await.unwrap();
    }
    cluster.settle().await;
    cluster.wait_until_equal(ROWS).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    replica.batch_execute("SET app.mode = 'off'").await.unwrap();
    for refused in ["INSERT INTO before VALUES (2)", "SELECT 'x'::by_setting"] {
        let error = replica.batch_execute(refused).await.unwrap_err();
        assert_eq!(error.code().unwrap().code(), "23514", "{error:?}");
    }
    let allowed = "SET app.mode = 'on'; INSERT INTO before VALUES (2); SELECT 'on'::by_setting";
    replica.batch_execute(allowed).await.unwrap();
    let definition = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'is_on' AND contypid = 0";
    assert_eq!(
        text(&replica, definition).await,
        "CHECK (((current_setting('session_replication_role'::text) = 'replica'::text) OR \
         (current_setting('app.mode'::text, true) = 'on'::text))) NO INHERIT NOT VALID"
    );
}

/// Roles, by sessions that keep their connection, or have changed how their texts are read.
const ROLES: &[&str] = &[
    "CREATE TEMP TABLE mine (id int);; CREATE ROLE four;; ALTER ROLE four RENAME TO five;;
     ALTER USER five RENAME TO six;; COMMENT ON DATABASE postgres IS 'of a bound session'",
    "CREATE TEMP TABLE mine (id int);; CREATE ROLE bound CREATEDB;; GRANT bound TO ann;; ALTER ROLE bound NOCREATEDB",
    "SET a.b = 1;; ALTER ROLE bound SET work_mem = '5MB';; COMMENT ON ROLE bound IS 'it''s';; ALTER ROLE bound RESET ALL",
    "SET DateStyle = 'German';; SET TimeZone = 'Asia/Tokyo';; CREATE USER german PASSWORD 'x';; DROP ROLE german",
    "PREPARE p AS SELECT 1;; CREATE ROLE another ROLE ann;; REASSIGN OWNED BY another TO ann;; REVOKE bound FROM ann",
    "CREATE TEMP TABLE mine (id int);; BEGIN;; CREATE ROLE undone;; ROLLBACK;; CREATE ROLE one; CREATE ROLE two",
];
/// Expressions that depend on their session, or on its settings.
const OF_SESSIONS: &[&str] = &[
    "GRANT one TO CURRENT_USER",
    "ALTER ROLE CURRENT_USER SET work_mem = '6MB'",
    "ALTER ROLE one SET work_mem FROM CURRENT",
    "CREATE ROLE late VALID UNTIL '1.2.2030'",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_follow_sessions_that_are_bound() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(SETUP).await;
    for statement in ROLES {
        let client = cluster.front.connect().await;
        for message in statement.split(";;") {
            let done = client.batch_execute(message).await;
            done.unwrap_or_else(|error| panic!("{message}: {error:?}"));
        }
    }
    let bound = cluster.front.connect().await;
    let bind = "CREATE TEMP TABLE mine (id int)";
    bound.batch_execute(bind).await.unwrap();
    for statement in OF_SESSIONS {
        let message = text(&bound, statement).await;
        assert!(
            message.contains("cannot change the schema in this way"),
            "{statement}: {message}"
        );
    }
    let write = "INSERT INTO known VALUES (100)";
    bound.batch_execute(write).await.unwrap();
    cluster.settle().await;
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
    let roles = "SELECT string_agg(format('%s %s %s %s', rolname, rolcreatedb, rolcanlogin, array(
                        SELECT roleid::regrole FROM pg_auth_members WHERE member = r.oid ORDER BY 1)), ', ' ORDER BY rolname)
                   FROM pg_roles r WHERE rolname !~ '^pg_' AND NOT rolsuper";
    cluster.wait_until_equal(roles).await;
    let comment =
        "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'postgres'";
    cluster.wait_until_equal(comment).await;
    let primary = connect(cluster.primary.socket()).await;
    assert_eq!(text(&primary, comment).await, "of a bound session");
    assert!(
        text(&primary, roles)
            .await
            .contains("another f f {}, bound f f {}")
    );
}
