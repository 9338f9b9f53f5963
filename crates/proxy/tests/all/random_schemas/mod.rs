//! Changes of schemas and rows by chance, through the proxy and straight to another server. Both
//! answer alike, except for statements that the proxy refuses by name, and every replica follows.
//!
//! CI runs a few fixed seeds. `REPLEX_SCHEMAS_MINUTES` runs others for so long, from
//! `REPLEX_SCHEMAS_SEED` on.

mod grammar;
#[path = "../../../../proxy-simulation/src/random.rs"]
mod random;

use std::time::{Duration, Instant};

use grammar::{Catalogue, Grammar};
use pg_local::Postgres;
use proxy_core::freshness::ReplicaState;
use random::Random;
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, differing, text};
use crate::support::{connect, is_there};

/// Messages of a seed.
const MESSAGES: usize = 40;
/// Seeds that CI runs.
const SEEDS: u64 = 12;
/// A replica that has not everything after so long has failed.
const LAG_MAX: Duration = Duration::from_secs(600);

const SETUP: &str =
    "CREATE ROLE r0; CREATE ROLE r1; CREATE SCHEMA s1; GRANT ALL ON SCHEMA public, s1 TO r0";
/// The initial schema of a seed.
const EMPTY: &str = "
RESET ROLE; DROP SCHEMA public, s1 CASCADE; CREATE SCHEMA public; CREATE SCHEMA s1; GRANT ALL ON SCHEMA public, s1 TO r0;
CREATE TABLE t0 (id int PRIMARY KEY, c0 text, c1 int DEFAULT 7); INSERT INTO t0 SELECT n, 'x', n FROM generate_series(1, 5) AS n;
CREATE TABLE t1 (id serial PRIMARY KEY, c0 timestamptz); CREATE SEQUENCE q0";

/// Types of columns.
const TYPES: &str = "
SELECT format_type(oid, NULL) FROM pg_type
 WHERE typtype IN ('b', 'r', 'm') AND typnamespace = 'pg_catalog'::regnamespace AND typcategory NOT IN ('A', 'Z')
   AND typname !~ '^(pg_|aclitem|gtsvector|refcursor|txid_snapshot)' ORDER BY 1";
/// Functions of these that look at nothing but their arguments and the session.
const FUNCTIONS: &str = "
SELECT proname || '|' || format_type(prorettype, NULL) || coalesce('|' || (
         SELECT string_agg(format_type(kind, NULL), '|' ORDER BY place)
           FROM unnest(proargtypes) WITH ORDINALITY AS a (kind, place)), '')
  FROM pg_proc
 WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset AND pronargs BETWEEN 1 AND 3
   AND proname ~ '^[a-z_0-9]+$'
   AND proname !~ '^(pg_|lo_|lo[a-z]+$|set|nextval|currval|binary_upgrade|query_to|table_to|schema_to|database_to|cursor_to|txid)'
   AND NOT EXISTS (SELECT FROM unnest(proargtypes || prorettype) AS a (kind) JOIN pg_type t ON t.oid = kind
                    WHERE typtype = 'p' OR typname ~ '^(pg_|aclitem|gtsvector|refcursor|txid_snapshot|_)')
 ORDER BY 1";
/// Operators between these.
const OPERATORS: &str = "
SELECT oprname || '|' || format_type(oprleft, NULL) || '|' || format_type(oprright, NULL) FROM pg_operator
 WHERE oprnamespace = 'pg_catalog'::regnamespace AND oprleft <> 0 AND oprcode <> 0
   AND NOT EXISTS (SELECT FROM pg_type t WHERE t.oid IN (oprleft, oprright)
                    AND (typtype = 'p' OR typname ~ '^(pg_|aclitem|gtsvector|_)')) ORDER BY 1";

/// A node's schema without the parts that differ by nature (the text of checks, rows of
/// materialised views). In a default or a rule
/// `'now'` is the moment at which each server made it.
const THERE: &str = "
SELECT string_agg(line, E'\\n' ORDER BY line) FROM (
  SELECT format('%s.%s %s %s %s %s %s', nspname, relname, relkind, relpersistence, relacl, relowner::regrole, obj_description(c.oid, 'pg_class'))
    FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
   WHERE nspname IN ('public', 's1')
  UNION ALL
  SELECT format('%s.%s %s %s %s %s', attrelid::regclass, attname, format_type(atttypid, atttypmod), attnotnull, attgenerated,
         regexp_replace(pg_get_expr(adbin, adrelid), '''[^'']*:\\d\\d\\.\\d+[^'']*''::time', '''now''::time', 'g'))
    FROM pg_attribute a LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    JOIN pg_class c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = relnamespace
   WHERE attnum > 0 AND NOT attisdropped AND nspname IN ('public', 's1')
  UNION ALL SELECT format('%s %s', viewname, definition) FROM pg_views WHERE schemaname IN ('public', 's1')
  UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname IN ('public', 's1')
  UNION ALL
  SELECT format('%s %s %s %s', conname, contype, coninhcount, CASE WHEN contype <> 'c' THEN pg_get_constraintdef(c.oid) END)
    FROM pg_constraint c JOIN pg_namespace n ON n.oid = connamespace WHERE nspname IN ('public', 's1')
  UNION ALL
  SELECT format('%s %s %s', p.oid::regprocedure, prosrc, provolatile) FROM pg_proc p JOIN pg_namespace n ON n.oid = pronamespace
   WHERE nspname IN ('public', 's1')
  UNION ALL SELECT format('%s %s', enumtypid::regtype, enumlabel) FROM pg_enum
  UNION ALL SELECT pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
   WHERE NOT tgisinternal AND relpersistence <> 't'
  UNION ALL SELECT regexp_replace(pg_get_ruledef(oid), '''[^'']*:\\d\\d\\.\\d+[^'']*''::time', '''now''::time', 'g') FROM pg_rewrite WHERE rulename <> '_RETURN' AND oid >= 16384
     AND ev_class::regclass::text NOT LIKE 'pg\\_temp%') AS there (line)";
/// The rows of each table that every node has.
const ROWS: &str = "
SELECT string_agg(format('%s %s', c.oid::regclass, query_to_xml(
         format('SELECT count(*), sum(hashtextextended(t::text, 0)::numeric) AS h FROM ONLY %s AS t', c.oid::regclass), true, false, '')),
         E'\\n' ORDER BY c.oid::regclass::text)
  FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
 WHERE relkind = 'r' AND relpersistence = 'p' AND nspname IN ('public', 's1')";

async fn lines(client: &Client, query: &str) -> Vec<Vec<String>> {
    let lines = text(client, query).await;
    let fields = |line: &str| line.split('|').map(str::to_owned).collect();
    lines.lines().map(fields).collect()
}

async fn catalogue(client: &Client) -> Catalogue {
    let types = lines(client, TYPES).await.into_iter().flatten().collect();
    let functions = lines(client, FUNCTIONS)
        .await
        .into_iter()
        .map(|mut fields| {
            let arguments = fields.split_off(2);
            (fields[0].clone(), arguments, fields[1].clone())
        });
    let operators = lines(client, OPERATORS)
        .await
        .into_iter()
        .filter_map(|fields| match &fields[..] {
            [name, left, right] => Some((name.clone(), left.clone(), right.clone())),
            // The operator is written with the sign that parts fields.
            _ => None,
        });
    Catalogue {
        types,
        functions: functions.collect(),
        operators: operators.collect(),
    }
}

/// The SQLSTATE of a message; empty if all went well.
async fn run(client: &Client, message: &str) -> (String, String) {
    match client.simple_query(message).await {
        Ok(_) => (String::new(), String::new()),
        Err(error) => match error.as_db_error() {
            Some(message) => (
                message.code().code().to_owned(),
                format!("{} {:?}", message.message(), message.hint()),
            ),
            None => ("lost".into(), error.to_string()),
        },
    }
}

/// Returns whether a part does not depend on rows, which may differ where values are of a time or
/// by chance.
fn is_of_schema(code: &str) -> bool {
    ["0A", "08", "25", "26", "42", "XX", "57", "lost"]
        .iter()
        .any(|class| code.starts_with(class))
        || code.is_empty()
}

/// Returns whether the proxy refuses it by name. PostgreSQL's own refusals of this code are the
/// same without the proxy.
fn is_refused(code: &str, message: &str) -> bool {
    let ours = [
        "repl",
        "proxy",
        "replica",
        "sent together",
        "between databases",
        "temporary",
        "settings",
        "texts are read",
    ];
    code == "0A000" && ours.iter().any(|word| message.contains(word))
}

struct World {
    cluster: Cluster,
    straight: Postgres,
    catalogue: Catalogue,
}

impl World {
    async fn start() -> World {
        let cluster = Cluster::start_after(SETUP).await;
        let straight = Postgres::start(&[]).unwrap();
        let client = connect(straight.socket()).await;
        client.batch_execute(SETUP).await.unwrap();
        World {
            catalogue: catalogue(&client).await,
            cluster,
            straight,
        }
    }

    /// Runs one seed. Returns the answer that differs.
    async fn run(&self, seed: u64) -> Vec<String> {
        let mut grammar = Grammar {
            chance: Random::new(seed),
            catalogue: &self.catalogue,
        };
        let through = self.cluster.front.connect().await;
        let straight = connect(self.straight.socket()).await;
        let mut history = Vec::new();
        let mut differing = Vec::new();
        for client in [&through, &straight] {
            for statement in EMPTY.split(';') {
                client.batch_execute(statement).await.unwrap();
            }
        }
        for _ in 0..MESSAGES {
            let message = grammar.message();
            let (code, returned) = run(&through, &message).await;
            history.push(format!("{message}; -- {code} {returned}"));
            if is_refused(&code, &returned) {
                // It ends a transaction there, too.
                run(&straight, "DO 'BEGIN RAISE ''refused''; END'").await;
                continue;
            }
            let (expected, expectation) = run(&straight, &message).await;
            if code != expected && (is_of_schema(&code) || is_of_schema(&expected)) {
                let history = history.join("\n    ");
                differing.push(format!(
                    "seed {seed}: {message}\n    straight {expected} {expectation}\n    through {code} {returned}\n    \
                     after\n    {history}"
                ));
                // Later answers would differ as well.
                break;
            }
        }
        run(&through, "ROLLBACK").await;
        self.expect_equal(seed, &history).await;
        differing
    }

    /// Every replica serves and has the primary's rows.
    async fn expect_equal(&self, seed: u64, history: &[String]) {
        let history = || format!("seed {seed}:\n{}", history.join("\n"));
        let admin = connect(self.cluster.primary.socket()).await;
        // Later in the log than all before.
        let last = format!("public.last_of_{seed}");
        admin
            .batch_execute(&format!("CREATE TABLE {last} (id int PRIMARY KEY)"))
            .await
            .unwrap();
        let started = Instant::now();
        loop {
            let states: Vec<ReplicaState> = {
                let manager = self.cluster.manager.lock().unwrap();
                manager
                    .replicas()
                    .map(|(_, replica)| replica.state)
                    .collect()
            };
            let status = self.cluster.front.replicas().replication().status();
            assert!(
                !states.contains(&ReplicaState::Quarantined),
                "{status:?}\n{}",
                history()
            );
            assert!(
                started.elapsed() < LAG_MAX,
                "{states:?} {status:?}\n{}",
                history()
            );
            let replica = connect(self.cluster.replicas[0].socket()).await;
            // Before that it lags, as on a busy machine.
            let has_all = text(&replica, &format!("SELECT to_regclass('{last}')")).await;
            let mut differs = String::new();
            for query in [THERE, ROWS] {
                let (here, there) = (text(&admin, query).await, text(&replica, query).await);
                if here != there {
                    differs = differing(&here, &there);
                }
            }
            if states.iter().all(|state| *state == ReplicaState::Serving) && differs.is_empty() {
                return;
            }
            let is_lag = has_all.is_empty() || differs.is_empty();
            assert!(is_lag, "{differs}\n{}", history());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_changes_are_followed() {
    if !is_there() {
        return;
    }
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .and_then(|text| text.parse::<u64>().ok())
    };
    let minutes = number("REPLEX_SCHEMAS_MINUTES");
    let first = number("REPLEX_SCHEMAS_SEED").unwrap_or(1);
    let started = Instant::now();
    let world = World::start().await;
    let mut differing = Vec::new();
    for seed in first.. {
        let is_over = match minutes {
            None => seed >= first + SEEDS,
            Some(minutes) => started.elapsed() >= Duration::from_secs(60 * minutes),
        };
        if is_over {
            println!(
                "{} seeds, {} answered in another way",
                seed - first,
                differing.len()
            );
            break;
        }
        let found = world.run(seed).await;
        found.iter().for_each(|it| println!("{it}"));
        differing.extend(found);
    }
    assert!(differing.is_empty(), "{} differ", differing.len());
}
