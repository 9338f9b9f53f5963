//! Unmodified programs work through the proxy as without it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod drivers;
#[path = "../support/mod.rs"]
mod support;

use scale::local::Postgres;
use support::{Front, is_there, options, printed, run};

/// Eight clients share four connections, in each of pgbench's protocols: no transaction is lost or
/// done twice. Each has a thread of its own, because pgbench prepares statements while it holds up
/// all clients of a thread, those inside of transactions, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pgbench_in_its_three_protocols() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 4)).await;
    let init = run(
        &postgres,
        "pgbench",
        front.address,
        &["-i", "-q", "postgres"],
    )
    .await;
    printed(&init);
    for protocol in ["simple", "extended", "prepared"] {
        for script in ["tpcb-like", "select-only"] {
            let words = [
                "-n", "-c8", "-j8", "-t50", "-b", script, "-M", protocol, "postgres",
            ];
            let output = run(&postgres, "pgbench", front.address, &words).await;
            let text = printed(&output);
            assert!(text.contains("processed: 400/400"), "{text}");
            assert!(text.contains("failed transactions: 0 "), "{text}");
        }
    }
    let client = support::connect(postgres.socket()).await;
    let row = client
        .query_one(
            "SELECT count(*), sum(delta)::int8, (SELECT sum(abalance)::int8 FROM pgbench_accounts)
               FROM pgbench_history",
            &[],
        )
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 3 * 400);
    assert_eq!(row.get::<_, i64>(1), row.get::<_, i64>(2));
}

/// Scripts of psql with COPY both ways, errors and transactions print the same through the proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn psql_and_pg_dump_as_without_the_proxy() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 3)).await;
    let script = "
        CREATE TABLE t (id int PRIMARY KEY, note text);
        COPY t FROM STDIN;\n1\tone\n2\ttwo\n\\.\n
        COPY t FROM STDIN;\n3\tthree\n3\ttwice\n\\.\n
        SELECT * FROM t ORDER BY id;
        BEGIN; INSERT INTO t VALUES (4, 'four'); SELECT 1/0; SELECT 2; COMMIT;
        BEGIN; DECLARE c CURSOR FOR SELECT * FROM t; FETCH 1 FROM c; COMMIT;
        COPY (SELECT repeat('x', 100000) || id FROM t) TO STDOUT;
        SELECT repeat('y', 300000) \\; SELECT 5 AS five;
        SET search_path = nowhere; SELECT * FROM t; RESET search_path;
        SELECT 'x' \\gdesc
        DROP TABLE t;";
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).unwrap();
    let words = ["-X", "-a", "-f", file.to_str().unwrap(), "postgres"];
    let direct = run(&postgres, "psql", postgres.socket(), &words).await;
    let through = run(&postgres, "psql", front.address, &words).await;
    assert_eq!(printed(&through), printed(&direct));
    assert_eq!(through.stderr, direct.stderr);
    assert!(through.stdout.len() > 500_000);

    let init = ["-i", "-q", "postgres"];
    printed(&run(&postgres, "pgbench", postgres.socket(), &init).await);
    let direct = run(&postgres, "pg_dump", postgres.socket(), &["postgres"]).await;
    let through = run(&postgres, "pg_dump", front.address, &["postgres"]).await;
    // Newer ones begin and end with a key of chance.
    let lines = |text: String| {
        let lines = text.lines().filter(|line| !line.contains("restrict "));
        lines.map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(lines(printed(&through)), lines(printed(&direct)));
}
