//! Compares replicas with the primary: their schemas and all of their rows.

use proxy_core::freshness::ReplicaState;

use super::cluster::{Cluster, differing, text};
use super::connect;

/// The rows of each table, a line for each.
const ROWS: &str = "
SELECT string_agg(format('%s %s', c.oid::regclass, query_to_xml(
         format('SELECT md5(t::text) AS h FROM %s AS t ORDER BY 1', c.oid::regclass), true, false, '')), E'\\n'
         ORDER BY c.oid::regclass::text)
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE relkind IN ('r', 'p') AND nspname NOT IN ('pg_catalog', 'information_schema', 'hihooi')
   AND relpersistence <> 't'";

/// The objects of a database, apart from rows.
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
  UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger
   WHERE NOT tgisinternal AND tgrelid::regclass::text NOT LIKE 'pg\\_temp%'
  UNION ALL SELECT pg_get_ruledef(oid) FROM pg_rewrite WHERE rulename <> '_RETURN' AND oid >= 16384
     AND ev_class::regclass::text NOT LIKE 'pg\\_temp%'
  UNION ALL SELECT extname FROM pg_extension
  UNION ALL SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'hihooi'
) AS there (line)";
/// Every replica has the primary's rows, and serves.
pub async fn assert_equal(cluster: &Cluster, after: &str) {
    let later = "UPDATE account SET name = name WHERE id = 1";
    assert_equal_after(cluster, later, after).await;
}

/// The same; `later` comes later in the log than all that was done.
pub async fn assert_equal_after(cluster: &Cluster, later: &str, after: &str) {
    cluster
        .front
        .connect()
        .await
        .batch_execute(later)
        .await
        .unwrap();
    cluster.settle().await;
    cluster
        .wait(|states| states.iter().all(|state| *state == ReplicaState::Serving))
        .await;
    let primary = connect(cluster.primary.socket()).await;
    for sql in [THERE, ROWS] {
        let expected = text(&primary, sql).await;
        for replica in &cluster.replicas {
            let there = text(&connect(replica.socket()).await, sql).await;
            assert!(
                there == expected,
                "{after}:\n{}",
                differing(&expected, &there)
            );
        }
    }
}
