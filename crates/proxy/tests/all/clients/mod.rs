//! Unmodified programs work through the proxy as without it.

mod drivers;
use std::net::SocketAddr;
use std::process::Command;

use pg_local::Postgres;

use crate::support;
use crate::support::cluster::Cluster;
use crate::support::{Front, is_there, options, printed, run};

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
async fn psql_as_without_the_proxy() {
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
}

/// A database with something of every kind, made through the proxy: `pg_dump` gives the same with
/// and without it, and the same schema at the replica.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pg_dump_as_without_the_proxy() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (postgres, front) = (&cluster.primary, cluster.front.address);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/clients/shop.sql");
    let load = [
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-f",
        script,
        "postgres",
    ];
    printed(&run(postgres, "psql", front, &load).await);

    let folder = tempfile::TempDir::new().unwrap();
    let dump = async |name: &str, address: SocketAddr, words: &[&str]| {
        let file = folder.path().join(name).to_string_lossy().into_owned();
        // The proxy's own tables there change all the time.
        let own = "--exclude-schema=hihooi";
        let words = [words, &[own, "-f", &file, "postgres"]].concat();
        printed(&run(postgres, "pg_dump", address, &words).await);
        file
    };
    // Newer ones begin and end with a key of chance.
    let read = |file: &str| {
        let text = std::fs::read_to_string(file).unwrap();
        let lines = text.split_inclusive('\n');
        lines.filter(|line| !line.contains("restrict ")).collect()
    };
    let texts: &[&[&str]] = &[&[], &["--inserts", "--rows-per-insert=100"]];
    for words in texts {
        let direct: String = read(&dump("direct", postgres.socket(), words).await);
        let through: String = read(&dump("through", front, words).await);
        assert!(direct.contains("a large one"), "{direct}");
        assert_eq!(through, direct);
    }
    // Three sessions that share a snapshot.
    let parallel = ["--format=directory", "--jobs=3"];
    let mut restored = Vec::new();
    for (name, address) in [("one", postgres.socket()), ("other", front)] {
        let archive = dump(name, address, &parallel).await;
        let file = format!("{archive}.sql");
        let mut restore = Command::new(postgres.programs().join("pg_restore"));
        printed(&restore.args(["-f", &file, &archive]).output().unwrap());
        let text: String = read(&file);
        restored.push(text);
    }
    assert_eq!(restored[0], restored[1]);

    cluster
        .wait_until_equal("SELECT sum(total) FROM shop.sale")
        .await;
    let schema = ["--schema-only", "--no-publications"];
    let here: String = read(&dump("here", postgres.socket(), &schema).await);
    let there = cluster.replicas[0].socket();
    let there: String = read(&dump("there", there, &schema).await);
    assert_eq!(without_triggers(&there), without_triggers(&here));
}

/// The lines of a dump but for the primary's triggers that note changes of the schema: they are in
/// no schema.
fn without_triggers(dump: &str) -> Vec<&str> {
    let is_own = |line: &str| {
        ["", "--"].contains(&line)
            || line.contains("hihooi")
            || line.trim_start().starts_with("WHEN TAG IN")
    };
    dump.lines().filter(|line| !is_own(line)).collect()
}
