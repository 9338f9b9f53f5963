//! Rows with values of every type, PostgreSQL's own and its contributed modules', in arrays,
//! domains and rows, are found at replicas: by all their values and by their keys.

use pg_local::SUPERUSER;
use proxy_core::freshness::ReplicaState;

use crate::support::cluster::{Cluster, text};
use crate::support::{connect, is_there};

/// Modules are where no search path leads. Each text becomes a value of each type that takes it, in
/// two rows that are alike, and each type that can be a key gets a table with one.
const SETUP: &str = r#"
CREATE SCHEMA ext;
CREATE EXTENSION citext SCHEMA ext; CREATE EXTENSION hstore SCHEMA ext; CREATE EXTENSION ltree SCHEMA ext;
CREATE EXTENSION cube SCHEMA ext; CREATE EXTENSION isn SCHEMA ext; CREATE EXTENSION seg SCHEMA ext;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TYPE pair AS (a int, b char(3));
CREATE DOMAIN flag AS bool; CREATE DOMAIN five AS char(5); CREATE DOMAIN many AS int[]; CREATE DOMAIN couple AS pair;
CREATE DOMAIN word AS ext.citext; CREATE DOMAIN spot AS inet;
CREATE TABLE sample (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text NOT NULL);
INSERT INTO sample (text) VALUES
  ('t'), ('f'), ('1'), ('-1'), ('0'), ('-0'), ('1.0'), ('1.00'), ('NaN'), ('infinity'), ('0.1'), ('1e-300'), (''), ('a'),
  ('A'), ('ab '), ('a b'), ('é'), ('it''s "\'), ('sad'), ('glad'), ('10.0.0.1'), ('10.0.0.1/32'), ('10.0.0.0/8'), ('::1'),
  ('08:00:2b:01:02:03'), ('08:00:2b:01:02:03:04:05'), ('2024-02-29'), ('0044-03-15 BC'), ('12:34:56.789'),
  ('12:34:56+02'), ('24:00:00'), ('2024-02-29 12:34:56.789+02'), ('1 day 2:03'), ('1 mon'), ('30 days'), ('720:00:00'),
  ('{"a": 1}'), ('{"a":1.0}'), ('[1, 2]'), ('null'), ('<a/>'), ('<a></a>'), ('101'), ('0101'), ('{1,2}'), ('{1,2,3}'),
  ('(1,2)'), ('(1,)'), ('(,)'), ('(1, 2 )'), ('((0,0),(1,1))'), ('[(0,0),(1,1)]'), ('<(0,0),1>'), ('[1,3)'), ('(0,2]'),
  ('empty'), ('{[1,3)}'), ('{}'), ('[2024-01-01,2024-02-01)'), ('{[2024-01-01,2024-02-01)}'), ('1/2'), ('1:1:'),
  ('1:2:1'), ('pg_class'), ('sample'), ('mood'), ('integer'), ('english'), ('simple'), ('public'), ('ext'),
  ('now'), ('now()'), ('=(integer,integer)'), ('\x00ff'), ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
  ('"a"=>"1", "b"=>NULL'), ('a.b.c'), ('a.*'), ('$.a[*]'), ('a & b'), ('a:1A b:2'), ('1.5 .. 2.5'), ('~1'),
  ('978-0-393-04002-9'), ('0-393-04002-X'), ('1436-4522'), ('4006381333931'), ('12.34'), ('1 2 3'), ('{1,NULL}');
CREATE FUNCTION fill() RETURNS void LANGUAGE plpgsql AS $$
DECLARE kind record; one record; is_key bool;
BEGIN
  FOR kind IN
    SELECT t.oid, t.oid::regtype AS name, t.typarray <> 0 AS has_array FROM pg_type t
      LEFT JOIN pg_class c ON c.oid = t.typrelid JOIN pg_namespace n ON n.oid = t.typnamespace
     WHERE t.typtype IN ('b', 'r', 'm', 'd', 'e', 'c') AND t.typcategory <> 'A' AND coalesce(c.relkind = 'c', true)
       AND n.nspname IN ('pg_catalog', 'ext', 'public')
  LOOP
    EXECUTE format('CREATE TABLE whole_%s (id int, v %s, a %s[])', kind.oid, kind.name,
                   CASE WHEN kind.has_array THEN kind.name ELSE 'text' END);
    EXECUTE format('ALTER TABLE whole_%s REPLICA IDENTITY FULL', kind.oid);
    is_key := true;
    BEGIN
      EXECUTE format('CREATE TABLE keyed_%s (v %s PRIMARY KEY, n int)', kind.oid, kind.name);
    EXCEPTION WHEN undefined_object THEN is_key := false;
    END;
    FOR one IN SELECT * FROM sample LOOP
      BEGIN
        EXECUTE format('INSERT INTO whole_%s SELECT %s, %L::%s, ARRAY[%L::%s, NULL] FROM generate_series(1, 2)',
                       kind.oid, one.id, one.text, kind.name, one.text, CASE WHEN kind.has_array THEN kind.name ELSE 'text' END);
        IF is_key THEN
          EXECUTE format('INSERT INTO keyed_%s VALUES (%L, %s) ON CONFLICT DO NOTHING', kind.oid, one.text, one.id);
        END IF;
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
    END LOOP;
  END LOOP;
END $$;
SELECT fill()"#;

/// Half of this type's bytes are no characters of their own, so that `pg_dump` cannot copy them.
const BYTES: &str = "
INSERT INTO whole_18 SELECT n, n::\"char\" FROM generate_series(-128, 127) AS n;
INSERT INTO keyed_18 SELECT n::\"char\", n FROM generate_series(-128, -120) AS n";

/// Changes of all of them. Where two rows are alike, of one.
const CHANGES: &str = "
DO $$
DECLARE t regclass;
BEGIN
  FOR t IN SELECT oid FROM pg_class WHERE relname LIKE 'whole\\_%' AND relkind = 'r' ORDER BY oid LOOP
    EXECUTE format('INSERT INTO %s SELECT id + 1000, v, a FROM %s', t, t);
    EXECUTE format('UPDATE %s SET id = id + 10000 WHERE ctid IN (SELECT min(ctid) FROM %s GROUP BY id)', t, t);
    EXECUTE format('UPDATE %s SET v = NULL, id = id + 1 WHERE id %% 5 = 0', t);
    EXECUTE format('DELETE FROM %s WHERE ctid IN (SELECT min(ctid) FROM %s WHERE id %% 3 = 0 GROUP BY id)', t, t);
  END LOOP;
  FOR t IN SELECT oid FROM pg_class WHERE relname LIKE 'keyed\\_%' AND relkind = 'r' ORDER BY oid LOOP
    EXECUTE format('UPDATE %s SET n = n + 1000', t);
    EXECUTE format('UPDATE %s SET n = n + 1 WHERE n %% 7 = 0', t);
    EXECUTE format('DELETE FROM %s WHERE n %% 3 = 0', t);
    EXECUTE format('WITH old AS (DELETE FROM %s WHERE n %% 2 = 0 RETURNING *) INSERT INTO %s SELECT v, n + 1 FROM old WHERE n > 1030', t, t);
  END LOOP;
END $$";

/// The rows of each table, a line for each.
const ROWS: &str = "
SELECT string_agg(format('%s %s', c.oid::regclass, query_to_xml(
         format('SELECT format(''%%s'', t.*) AS row FROM %s AS t ORDER BY 1 COLLATE \"C\"', c.oid::regclass),
         true, false, '')), E'\\n' ORDER BY c.oid::regclass::text)
  FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '%\\_18'";

/// All replicas serve, and have the primary's rows.
async fn assert_equal(cluster: &Cluster, query: &str) {
    cluster.settle().await;
    cluster
        .wait(|states| states.iter().all(|state| *state == ReplicaState::Serving))
        .await;
    let expected = text(&connect(cluster.primary.socket()).await, query).await;
    let there = text(&connect(cluster.replicas[0].socket()).await, query).await;
    let (mut expected, mut there) = (expected.lines(), there.lines());
    loop {
        match (expected.next(), there.next()) {
            (None, None) => return,
            (expected, there) => assert_eq!(expected, there),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_by_values_of_every_type() {
    if !is_there() {
        return;
    }
    // Settings by which the same values look otherwise; roles are copied with them.
    let looks = format!(
        "ALTER ROLE {SUPERUSER} SET extra_float_digits = -15; ALTER ROLE {SUPERUSER} SET bytea_output = 'escape';
         ALTER ROLE {SUPERUSER} SET IntervalStyle = 'iso_8601'; ALTER ROLE {SUPERUSER} SET DateStyle = 'German';
         ALTER ROLE {SUPERUSER} SET TimeZone = 'Asia/Tokyo'; ALTER ROLE {SUPERUSER} SET array_nulls = off;"
    );
    let cluster = Cluster::start_after(&(looks + SETUP)).await;
    let primary = connect(cluster.primary.socket()).await;
    // A sample that no type takes any more would test nothing.
    let kinds = "SELECT count(*) FROM pg_class WHERE relname LIKE 'whole\\_%' AND relkind = 'r' AND pg_relation_size(oid) > 0";
    let kinds: u32 = text(&primary, kinds).await.parse().unwrap();
    assert!(kinds >= 80, "{kinds} types have values");
    primary.batch_execute(BYTES).await.unwrap();
    primary.batch_execute(CHANGES).await.unwrap();
    let through = cluster.front.connect().await;
    for sql in [
        // Its row is found by all of it.
        "UPDATE sample SET text = text || '!' WHERE id = 1",
        // The reports of its kind.
        "UPDATE whole_16 SET id = id + 1; DELETE FROM whole_1042; UPDATE whole_869 SET v = NULL",
    ] {
        through.batch_execute(sql).await.unwrap();
    }
    assert_equal(&cluster, ROWS).await;
    let bytes =
        "SELECT string_agg(format('%s %s', id, v::int), ' ' ORDER BY id, v::int) FROM whole_18";
    assert_equal(&cluster, bytes).await;
    assert_equal(
        &cluster,
        "SELECT string_agg(format('%s %s', v::int, n), ' ' ORDER BY n) FROM keyed_18",
    )
    .await;
}

/// An identity that is always generated can be given its next value, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identities_that_are_always_generated_change() {
    if !is_there() {
        return;
    }
    let setup = "
        CREATE TABLE key (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, v text);
        CREATE TABLE beside (id int PRIMARY KEY, n int GENERATED ALWAYS AS IDENTITY, v text, twice int
          GENERATED ALWAYS AS (id * 2) STORED);
        CREATE TABLE whole (n int GENERATED ALWAYS AS IDENTITY, v text);
        ALTER TABLE whole REPLICA IDENTITY FULL;
        ALTER TABLE key ALTER v SET STORAGE EXTERNAL; ALTER TABLE beside ALTER v SET STORAGE EXTERNAL;
        ALTER TABLE whole ALTER v SET STORAGE EXTERNAL;
        INSERT INTO key (v) SELECT repeat(n::text, 3000) FROM generate_series(1, 9) AS n;
        INSERT INTO beside (id, v) SELECT n, repeat(n::text, 3000) FROM generate_series(1, 9) AS n;
        INSERT INTO whole (v) SELECT repeat(n::text, 3000) FROM generate_series(1, 9) AS n";
    let cluster = Cluster::start_after(setup).await;
    let through = cluster.front.connect().await;
    for table in ["key", "beside", "whole"] {
        for sql in [
            format!("UPDATE {table} SET v = 'short' WHERE v LIKE '3%'"),
            format!(
                "UPDATE {table} SET {} = DEFAULT",
                if table == "key" { "id" } else { "n" }
            ),
        ] {
            through.batch_execute(&sql).await.unwrap();
        }
        let rows =
            format!("SELECT string_agg(md5((t.*)::text), ' ' ORDER BY t.*) FROM {table} AS t");
        assert_equal(&cluster, &rows).await;
    }
}
