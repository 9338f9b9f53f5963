//! Commits that change many rows: replicas change them together, and one by one where that fails.

use proxy_core::freshness::ReplicaState;

use crate::support::cluster::{Cluster, text};
use crate::support::{connect, is_there};

/// Counts statements on `t` at a replica.
const COUNT: &str = "
CREATE SEQUENCE hihooi.statements;
CREATE FUNCTION hihooi.count() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN PERFORM nextval('hihooi.statements'); RETURN NULL; END$$;
CREATE TRIGGER count BEFORE INSERT OR UPDATE OR DELETE ON t EXECUTE FUNCTION hihooi.count();
ALTER TABLE t ENABLE ALWAYS TRIGGER count";

/// Refuses statements on `t` that change more than one row.
const REFUSE: &str = "
CREATE FUNCTION hihooi.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$BEGIN IF (SELECT count(*) FROM rows) > 1 THEN RAISE 'together'; END IF; RETURN NULL; END$$;
CREATE TRIGGER refuse_i AFTER INSERT ON t REFERENCING NEW TABLE AS rows EXECUTE FUNCTION hihooi.refuse();
CREATE TRIGGER refuse_u AFTER UPDATE ON t REFERENCING NEW TABLE AS rows EXECUTE FUNCTION hihooi.refuse();
CREATE TRIGGER refuse_d AFTER DELETE ON t REFERENCING OLD TABLE AS rows EXECUTE FUNCTION hihooi.refuse();
ALTER TABLE t ENABLE ALWAYS TRIGGER refuse_i, ENABLE ALWAYS TRIGGER refuse_u,
              ENABLE ALWAYS TRIGGER refuse_d";

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE, v text)";

/// Few rows, which are kept in memory, and many, which are not.
const CHANGES: [&str; 8] = [
    "INSERT INTO t SELECT n, n, 'few' FROM generate_series(1, 20) n",
    "UPDATE t SET v = v || id",
    "UPDATE t SET u = -u",
    "DELETE FROM t WHERE id % 2 = 0",
    "INSERT INTO t SELECT n, n, 'many' FROM generate_series(100, 5099) n",
    "UPDATE t SET v = repeat(id::text, 10), u = -u",
    "UPDATE t SET id = id + 10000 WHERE id > 2500",
    "DELETE FROM t WHERE id < 12500",
];

/// All rows of `t` in order, as one number.
const ALL: &str =
    "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_statement_changes_many_rows() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLE).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    replica.batch_execute(COUNT).await.unwrap();
    let client = cluster.front.connect().await;
    let mut before = 0;
    for sql in CHANGES {
        let rows = client.execute(sql, &[]).await.unwrap();
        cluster.wait_until_equal(ALL).await;
        let count = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM hihooi.statements";
        let count: u64 = text(&replica, count).await.parse().unwrap();
        // Changes of keys are done one by one.
        let most = match sql.contains("SET id") {
            true => rows,
            false => 1 + rows / 100,
        };
        let statements = count - before;
        assert!((1..=most).contains(&statements), "{sql}: {statements}");
        before = count;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_multirow_change_is_executed_row_by_row() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(TABLE).await;
    let replica = connect(cluster.replicas[0].socket()).await;
    replica.batch_execute(REFUSE).await.unwrap();
    let client = cluster.front.connect().await;
    for sql in CHANGES {
        client.batch_execute(sql).await.unwrap();
        cluster.wait_until_equal(ALL).await;
    }
    cluster.settle().await;
    cluster
        .wait(|states| states.iter().all(|state| *state == ReplicaState::Serving))
        .await;
}

/// Columns of many kinds, one of them dropped; a key of two columns; a computed column; no key; a
/// child table, and partitions.
const KINDS: &str = r#"
CREATE TABLE "Odd ""name" ("a,b" text, gone int, "k(" int, x bytea, y text[], z numeric(12, 3), c char(5),
                           j jsonb, big text, PRIMARY KEY ("k(", "a,b"));
ALTER TABLE "Odd ""name" DROP gone;
ALTER TABLE "Odd ""name" ALTER big SET STORAGE EXTERNAL;
CREATE TABLE computed (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int,
                       twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE TABLE loose (word text, n int);
ALTER TABLE loose REPLICA IDENTITY FULL;
CREATE TABLE parent (id int PRIMARY KEY, v text);
CREATE TABLE child (PRIMARY KEY (id)) INHERITS (parent);
CREATE TABLE parted (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (100);
CREATE TABLE high PARTITION OF parted FOR VALUES FROM (100) TO (1000)"#;

const EACH: [&str; 5] = [
    r#"SELECT coalesce(string_agg(t::text, '|' ORDER BY t::text), '') FROM "Odd ""name" t"#,
    "SELECT coalesce(string_agg(t::text, '|' ORDER BY id), '') FROM computed t",
    "SELECT coalesce(string_agg(t::text, '|' ORDER BY t::text), '') FROM loose t",
    "SELECT coalesce(string_agg(tableoid::regclass || t::text, '|' ORDER BY id, tableoid), '') FROM parent t",
    "SELECT coalesce(string_agg(t::text, '|' ORDER BY id), '') FROM parted t",
];

const DONE: [&str; 18] = [
    r#"INSERT INTO "Odd ""name" SELECT E'it''s "\\", (' || n, n, decode('5c2227', 'hex'), ARRAY['a"b', NULL, ''],
       n / 7.0, 'c', '{"a": "\\\""}', repeat('x' || n, 3000) FROM generate_series(1, 12) n"#,
    r#"UPDATE "Odd ""name" SET y = '{}', c = NULL, x = NULL"#,
    r#"UPDATE "Odd ""name" SET y = NULL, c = '', z = 'NaN', j = 'null', big = '' WHERE "k(" > 6"#,
    r#"BEGIN; UPDATE "Odd ""name" SET z = 1; UPDATE "Odd ""name" SET z = z + "k("; COMMIT"#,
    r#"UPDATE "Odd ""name" SET "a,b" = E'\n\t' || "k(", z = 5 WHERE "k(" > 4"#,
    r#"DELETE FROM "Odd ""name" WHERE "k(" > 2"#,
    "INSERT INTO computed (n) SELECT n FROM generate_series(1, 10) n",
    "UPDATE computed SET n = n + 1",
    "DELETE FROM computed WHERE n > 5",
    "INSERT INTO loose SELECT 'w', n % 3 FROM generate_series(1, 10) n",
    "UPDATE loose SET n = n + 1 WHERE n < 2",
    "DELETE FROM loose WHERE ctid IN (SELECT ctid FROM loose ORDER BY n LIMIT 5)",
    "INSERT INTO parent SELECT n, 'p' FROM generate_series(1, 8) n;
     INSERT INTO child SELECT n, 'c' FROM generate_series(1, 8) n",
    "UPDATE ONLY parent SET v = 'q'; UPDATE ONLY parent SET v = 'r' WHERE id = 1; DELETE FROM ONLY parent WHERE id = 2",
    "TRUNCATE ONLY parent",
    "INSERT INTO parted SELECT n, 'v' FROM generate_series(90, 110) n; UPDATE parted SET v = 'w'",
    "UPDATE parted SET id = id + 50",
    "TRUNCATE parted, parent",
];

/// At once, and where a group of rows fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_every_kind_arrive() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(KINDS).await;
    let client = cluster.front.connect().await;
    for sql in DONE {
        client.batch_execute(sql).await.unwrap();
        cluster.settle().await;
        for query in EACH {
            cluster.wait_until_equal(query).await;
        }
    }
    let replica = connect(cluster.replicas[0].socket()).await;
    assert_eq!(text(&replica, EACH[4]).await, "");
    cluster
        .wait(|states| states.iter().all(|state| *state == ReplicaState::Serving))
        .await;
}
