//! The planner chooses between indexes of a real cluster by estimates of its partitions.

use client::Client;
use placement::Value;
use replex::cluster::{Cluster, ClusterOptions};
use sql::SqlSession;

use crate::support;
use crate::support::statements;

const ROWS: i64 = 4_000;
/// Rows of one `INSERT`.
const BATCH: i64 = 500;

/// Runs statements, and returns the rows of the last one, each as a line.
async fn run(session: &mut SqlSession<Client>, text: &str) -> Vec<String> {
    let line = |row: &Vec<Value>| {
        let values: Vec<String> = row.iter().map(Value::to_string).collect();
        values.join("|")
    };
    let rows = statements::run(session, text).await;
    rows.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_index_with_the_fewest_rows_is_read() {
    let options = ClusterOptions {
        servers: 2,
        ..ClusterOptions::new(support::program())
    };
    let cluster = Cluster::start(options).await.unwrap();
    let mut session = statements::session(cluster.coordinator_address()).await;
    run(
        &mut session,
        "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, code bigint NOT NULL, \
         INDEX by_customer (customer)) WITH (partitions = 4, failures_tolerated = 1, \
         durability = 'replicated'); \
         CREATE INDEX by_code ON orders (code)",
    )
    .await;
    for first in (0..ROWS).step_by(BATCH as usize) {
        let rows = (first..first + BATCH).map(|id| format!("({id}, {}, {})", id % 3, id / 2));
        let rows: Vec<String> = rows.collect();
        run(
            &mut session,
            &format!("INSERT INTO orders VALUES {}", rows.join(", ")),
        )
        .await;
    }
    // The rules prefer a copy. A customer has a third of the rows, and a code two.
    let statement = "SELECT id FROM orders WHERE customer = 1 AND code = 500";
    let lines = run(&mut session, &format!("EXPLAIN {statement}")).await;
    let plan = lines.join("\n");
    assert!(plan.contains("by thin index by_code"), "{plan}");
    assert!(plan.contains("of 4,000 rows"), "{plan}");
    assert!(plan.contains("instead of: by_customer"), "{plan}");
    assert_eq!(run(&mut session, statement).await, ["1000"]);
    let analyzed = run(&mut session, &format!("EXPLAIN ANALYZE {statement}")).await;
    let analyzed = analyzed.join("\n");
    assert!(analyzed.contains("result: 1 row"), "{analyzed}");
    // A range of codes is wider than a customer, or narrower.
    let of_range =
        |range: &str| format!("EXPLAIN SELECT id FROM orders WHERE customer = 1 AND code {range}");
    let wide = run(&mut session, &of_range("> 100")).await.join("\n");
    assert!(wide.contains("by index by_customer"), "{wide}");
    let narrow = run(&mut session, &of_range("BETWEEN 100 AND 103")).await;
    let narrow = narrow.join("\n");
    assert!(narrow.contains("by thin index by_code"), "{narrow}");
}
