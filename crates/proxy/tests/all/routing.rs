//! Reads go to replicas and never miss an acknowledged commit. Everything else goes to the primary.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use pg_local::Postgres;
use proxy_core::freshness::{ReplicaId, ReplicaState};
use replication::ExistingData;
use tokio_postgres::Client;

use crate::support::cluster::{Cluster, PATIENCE, pause, text};
use crate::support::raw::Raw;
use crate::support::{connect, connect_by, is_there, printed, run};

/// The statements that a user may execute in the database as its owner, or by a right of its own,
/// are executed on replicas, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_in_the_database_are_the_same_everywhere() {
    if !is_there() {
        return;
    }
    let setup = "
        CREATE ROLE ann LOGIN; CREATE ROLE \"Bob B.\" LOGIN;
        ALTER DATABASE postgres OWNER TO ann;
        GRANT CREATE ON DATABASE postgres TO \"Bob B.\" WITH GRANT OPTION";
    let cluster = Cluster::start_after(setup).await;
    let (host, port) = (cluster.front.address.ip(), cluster.front.address.port());
    let line = format!("host={host} port={port} dbname=postgres user");
    for (user, text) in [
        ("ann", "CREATE TABLE t (id int PRIMARY KEY)"),
        ("'Bob B.'", "CREATE SCHEMA bobs"),
        ("'Bob B.'", "CREATE TABLE bobs.t (id int PRIMARY KEY)"),
    ] {
        let client = connect_by(&format!("{line}={user}")).await;
        client.batch_execute(text).await.unwrap();
    }
    let tables = "SELECT schemaname || tableowner FROM pg_tables WHERE tablename = 't' ORDER BY 1";
    cluster.wait_until_equal(tables).await;
    let rights = "
        SELECT rolname || privilege_type || is_grantable
          FROM pg_database, aclexplode(datacl) JOIN pg_roles r ON r.oid = grantee
         WHERE datname = current_database() ORDER BY 1";
    cluster.wait_until_equal(rights).await;
}

/// An unnamed statement outlives the mark that is written after its commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unnamed_statements_are_run_again_after_a_commit() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(0).await;
    make_two_rows(&cluster.front.connect().await, "int").await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.parse("", "UPDATE t SET n = n + 1 WHERE id = 1 RETURNING n");
    raw.bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12'1'CZI");
    for count in 2..5 {
        raw.bind("").execute(0).sync();
        assert_eq!(raw.reply().await, format!("2'{count}'CZI"));
    }
}

/// A refused statement fails as any other statement: its transaction does, and its session goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_changes_of_the_schema_leave_the_session() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    cluster.drop_triggers().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    let mixed = "CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)";
    raw.converse(&[
        (mixed, "[0A000]ZI"),
        ("BEGIN", "CZT"),
        (mixed, "[0A000]ZE"),
        ("SELECT 1", "[25P02]ZE"),
        ("ROLLBACK", "CZI"),
        ("SET TimeZone = 'UTC'", "CZI"),
        ("CREATE TABLE a (id int PRIMARY KEY)", "[0A000]ZI"),
        ("SET a.b = 1", "CZI"),
        ("CREATE TABLE a (id int PRIMARY KEY)", "[0A000]ZI"),
        ("SELECT 1", "T'1'CZI"),
    ])
    .await;
    for _ in 0..2 {
        raw.parse("", "CREATE TABLE a (id int PRIMARY KEY)");
        raw.bind("").execute(0).sync();
        assert_eq!(raw.reply().await, "12[0A000]ZI");
    }
    raw.query("CREATE TABLE a (id int PRIMARY KEY)")
        .flush()
        .await;
    while let Some((tag, body)) = raw.message().await {
        if tag == b'E' {
            let report = pg_wire::report::Report::read(&body);
            assert!(report.message.contains("changed its settings"), "{report}");
            assert!(report.hint.contains("search_path"), "{report}");
            break;
        }
    }
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
}

/// The body of a function may have any words: its session may change the schema further.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn functions_and_triggers_keep_no_session() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    cluster.drop_triggers().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    let function = |name: &str| {
        format!(
            "CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM set_config('a.b', '1', true); EXECUTE 'SELECT 1'; RETURN NEW;
             END $$"
        )
    };
    let trigger = "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()";
    for text in [
        &*function("f"),
        "CREATE TABLE t (id int PRIMARY KEY)",
        trigger,
    ] {
        raw.query(text);
        assert_eq!(raw.reply().await, "CZI", "{text}");
    }
    for begin in ["SELECT 1", "BEGIN"] {
        raw.query(begin);
        raw.reply().await;
        let text = function(&format!("after_{}", begin.len()));
        raw.parse("", &text).bind("").execute(0).sync();
        assert!(raw.reply().await.starts_with("12CZ"));
    }
    raw.query(&function("g"));
    assert_eq!(raw.reply().await, "CZT");
    raw.query("COMMIT");
    assert_eq!(raw.reply().await, "CZI");
    raw.query("CREATE TABLE u (id int PRIMARY KEY)");
    assert_eq!(raw.reply().await, "CZI");
    let names = "SELECT string_agg(proname, ' ' ORDER BY 1) FROM pg_proc WHERE oid >= 16384
        AND pronamespace = 'public'::regnamespace";
    cluster.wait_until_equal(names).await;
    // An object that is made for the session alone keeps it.
    let temporary = function("pg_temp.own");
    raw.query(&temporary);
    assert_eq!(raw.reply().await, "CZI");
    raw.query("CREATE TABLE v (id int PRIMARY KEY)");
    assert_eq!(raw.reply().await, "[0A000]ZI");
}

/// A table with a key of this type, and two rows.
async fn make_two_rows(client: &Client, key: &str) {
    let create = format!("CREATE TABLE t (id {key} PRIMARY KEY, n int)");
    client.batch_execute(&create).await.unwrap();
    let insert = "INSERT INTO t VALUES (1, 0), (2, 0)";
    client.batch_execute(insert).await.unwrap();
}

/// R32: every reader after a commit was acknowledged sees it, through any connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_never_miss_acknowledged_commits() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(2).await;
    let (writer, reader) = (cluster.front.connect().await, cluster.front.connect().await);
    make_two_rows(&writer, "int").await;
    writer
        .batch_execute("CREATE TABLE calm (id int PRIMARY KEY)")
        .await
        .unwrap();
    let select = reader
        .prepare("SELECT n FROM t WHERE id = $1")
        .await
        .unwrap();
    for round in 1..=300 {
        match round % 4 {
            0 => {
                let text = format!("UPDATE t SET n = {round} WHERE id = 1");
                writer.batch_execute(&text).await.unwrap();
            }
            1 => {
                let text = "UPDATE t SET n = $1 WHERE id = 1";
                writer.execute(text, &[&round]).await.unwrap();
            }
            2 => {
                let text = format!("BEGIN; UPDATE t SET n = {round} WHERE id = 1; COMMIT");
                writer.batch_execute(&text).await.unwrap();
            }
            _ => {
                let text = format!("UPDATE t SET n = {round} WHERE id = 1");
                writer.batch_execute("BEGIN").await.unwrap();
                writer.batch_execute(&text).await.unwrap();
                writer.batch_execute("COMMIT").await.unwrap();
            }
        }
        let row = reader.query_one(&select, &[&1]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), round);
        reader.query("SELECT id FROM calm", &[]).await.unwrap();
    }
    // Rows that were not written were read at replicas meanwhile.
    assert!(cluster.served() >= 200, "{}", cluster.served());
}

/// Reads of one row do not wait for the commit of another one, also where both name their rows by
/// parameters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_named_by_parameters_too() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (writer, reader) = (cluster.front.connect().await, cluster.front.connect().await);
    make_two_rows(&writer, "int8").await;
    let read = reader.prepare("SELECT n FROM t WHERE id = $1").await;
    let read = read.unwrap();
    // Also the manager has to know that the replica has them.
    cluster.settle().await;
    let in_the_way = connect(cluster.primary.socket()).await;
    let lock = "BEGIN; SELECT n FROM t WHERE id = 1 FOR UPDATE";
    in_the_way.batch_execute(lock).await.unwrap();
    let row_1_is_pending = tokio::spawn(async move {
        let text = "UPDATE t SET n = $1 WHERE id = $2";
        let update = writer.prepare(text).await.unwrap();
        writer.execute(&update, &[&5, &1_i64]).await.unwrap();
        // Its end would be sent to a server, too, and be counted there.
        update
    });
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let started = Instant::now();
    while text(&in_the_way, waiting).await == "0" {
        assert!(started.elapsed() < PATIENCE, "no session waits for the row");
        pause().await;
    }
    let read = async |id: i64| {
        let before = cluster.served();
        let row = reader.query_one(&read, &[&id]).await.unwrap();
        (row.get::<_, i32>(0), cluster.served() - before)
    };
    assert_eq!(read(2).await, (0, 1));
    assert_eq!(read(1).await, (0, 0));
    in_the_way.batch_execute("COMMIT").await.unwrap();
    let _update = row_1_is_pending.await.unwrap();
    assert_eq!(read(1).await.0, 5);
    assert_eq!(read(2).await, (0, 1));
}

/// At `1sr` a commit is answered when every replica has it; at `gssi` when the primary has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_at_1sr_wait_for_replicas() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let client = cluster.front.connect().await;
    let create = "CREATE TABLE t (id int PRIMARY KEY, n int)";
    client.batch_execute(create).await.unwrap();
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let replica = connect(cluster.replicas[0].socket()).await;
    let lock = "BEGIN; LOCK TABLE t IN EXCLUSIVE MODE";
    replica.batch_execute(lock).await.unwrap();
    client
        .batch_execute("INSERT INTO t VALUES (1, 1)")
        .await
        .unwrap();
    let one_copy = "SET replex.consistency = '1sr'";
    client.batch_execute(one_copy).await.unwrap();
    let commit = tokio::spawn(async move {
        let insert = "BEGIN; INSERT INTO t VALUES (2, 2); COMMIT";
        client.batch_execute(insert).await.unwrap();
        client
    });
    let primary = connect(cluster.primary.socket()).await;
    let started = Instant::now();
    let is_everywhere_known = || cluster.manager.lock().unwrap().pending_count() == 0;
    while text(&primary, "SELECT count(*) FROM t").await != "2" || !is_everywhere_known() {
        assert!(started.elapsed() < PATIENCE);
        pause().await;
    }
    assert!(!commit.is_finished());
    replica.batch_execute("COMMIT").await.unwrap();
    let client = commit.await.unwrap();
    assert_eq!(text(&replica, "SELECT count(*) FROM t").await, "2");
    assert_eq!(text(&client, "SELECT sum(n) FROM t").await, "3");
}

/// A load through the proxy leaves all databases equal, and a replica that dies takes no read
/// with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_are_equal_after_a_load() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(2).await;
    let init = ["-i", "-q", "--init-steps=dtpG", "postgres"];
    printed(&run(&cluster.primary, "pgbench", cluster.front.address, &init).await);
    let client = cluster.front.connect().await;
    // It has no key.
    let full = "ALTER TABLE pgbench_history REPLICA IDENTITY FULL";
    client.batch_execute(full).await.unwrap();
    let words = [
        "-n",
        "-c4",
        "-j4",
        "-t50",
        "-b",
        "tpcb-like@1",
        "-b",
        "select-only@3",
        "postgres",
    ];
    let output = run(&cluster.primary, "pgbench", cluster.front.address, &words).await;
    assert!(printed(&output).contains("failed transactions: 0 "));
    for (table, order) in [
        ("accounts", "aid"),
        ("branches", "bid"),
        ("tellers", "tid"),
        ("history", "tid, aid, delta, mtime"),
    ] {
        let query = format!(
            "SELECT count(*) || md5(string_agg(t::text, ',' ORDER BY {order})) FROM pgbench_{table} t"
        );
        cluster.wait_until_equal(&query).await;
    }
    cluster.replicas[0].kill();
    let words = ["-n", "-c4", "-j4", "-t50", "-S", "postgres"];
    let output = run(&cluster.primary, "pgbench", cluster.front.address, &words).await;
    assert!(printed(&output).contains("failed transactions: 0 "));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_statements_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    cluster.drop_triggers().await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.query("CREATE TABLE a (id int PRIMARY KEY); INSERT INTO a VALUES (1)");
    assert_eq!(raw.reply().await, "[0A000]ZI");
    raw.query("CREATE TABLE a (id int PRIMARY KEY, oops)");
    raw.flush().await;
    let Some((b'E', body)) = raw.message().await else {
        panic!("no error")
    };
    // The place is that in the client's own text.
    let fields: Vec<&[u8]> = body.split(|byte| *byte == 0).collect();
    assert!(
        fields.contains(&&b"P41"[..]),
        "{}",
        String::from_utf8_lossy(&body)
    );
    assert_eq!(raw.until_ready().await, "ZI");
    raw.query("BEGIN");
    assert_eq!(raw.reply().await, "CZT");
    raw.query("CREATE TABLE a (id int PRIMARY KEY)");
    assert_eq!(raw.reply().await, "CZT");
    raw.parse("", "CREATE TABLE b (id int PRIMARY KEY)")
        .bind("")
        .execute(0)
        .sync();
    assert_eq!(raw.reply().await, "12CZT");
    raw.query("ROLLBACK");
    assert_eq!(raw.reply().await, "CZI");
    raw.parse("", "CREATE TABLE c (id int PRIMARY KEY)")
        .bind("")
        .execute(0)
        .sync();
    assert_eq!(raw.reply().await, "12CZI");
    let query = "SELECT string_agg(relname, ',') FROM pg_class WHERE relname IN ('a', 'b', 'c')";
    cluster.wait_until_equal(query).await;
    raw.query("SET a.b = 1");
    assert_eq!(raw.reply().await, "CZI");
    raw.query("CREATE TABLE d (id int PRIMARY KEY)");
    assert_eq!(raw.reply().await, "[0A000]ZI");
}

/// Reads that run at a replica which dies fail with a clear error; their sessions go on, and so
/// does the replica when it is back, with all that was written meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_outlive_a_replica() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let mut raw = Raw::log_in(cluster.front.address).await;
    raw.query("CREATE TABLE t (id int PRIMARY KEY, n int)");
    assert_eq!(raw.reply().await, "CZI");
    cluster.wait_until_equal("SELECT count(*) FROM t").await;
    let slow = "SELECT count(*) FROM t, generate_series(1, 1000000000)";
    // A function that waits would go to the primary, so this one is busy: messages in one batch and
    // in several.
    let mut extended = Raw::log_in(cluster.front.address).await;
    extended.parse("kept", "SELECT 7").sync();
    assert_eq!(extended.reply().await, "1ZI");
    for session in [&mut raw, &mut extended] {
        session.query("SET replex.trace = on");
        assert_eq!(session.reply().await, "CZI");
    }
    let busy = slow.replace("FROM t,", "FROM (SELECT count(*) FROM t) t,");
    raw.query(&busy).flush().await;
    extended
        .parse("", &busy)
        .bind("")
        .execute(0)
        .sync()
        .flush()
        .await;
    for session in [&mut raw, &mut extended] {
        let (tag, body) = session.message().await.unwrap();
        let message = pg_wire::report::Report::read(&body).message;
        assert!(tag == b'N' && message.contains("replica 1"), "{message}");
    }
    cluster.replicas[0].kill();
    let output = raw.until_ready().await;
    assert!(output.ends_with("[08006]ZI"), "{output}");
    let output = extended.until_ready().await;
    assert!(output.ends_with("[08006]ZI"), "{output}");
    extended.bind("kept").execute(0).sync();
    assert_eq!(extended.reply().await, "N2'7'CZI");
    raw.query("INSERT INTO t VALUES (1, 1)");
    assert_eq!(raw.reply().await, "NCZI");
    raw.query("SELECT n FROM t");
    assert_eq!(raw.reply().await, "NT'1'CZI");
    cluster.replicas[0].start_again().unwrap();
    cluster
        .wait(|states| states == [ReplicaState::Serving])
        .await;
    cluster.wait_until_equal("SELECT n FROM t").await;
}

/// Replicas are added and removed while clients read and write. Nothing fails, and the final
/// replicas are equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_come_and_go_under_load() {
    if !is_there() {
        return;
    }
    let mut cluster = Cluster::start(1).await;
    let init = ["-i", "-q", "-s2", "--init-steps=dtpG", "postgres"];
    printed(&run(&cluster.primary, "pgbench", cluster.front.address, &init).await);
    let client = cluster.front.connect().await;
    let full = "ALTER TABLE pgbench_history REPLICA IDENTITY FULL";
    client.batch_execute(full).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let (stop, client) = (Arc::clone(&stop), cluster.front.connect().await);
        tokio::spawn(async move {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let update = format!(
                    "UPDATE pgbench_tellers SET tbalance = {round} WHERE tid = {}",
                    round % 20 + 1
                );
                client.batch_execute(&update).await.unwrap();
                let read = "SELECT max(tbalance)::text FROM pgbench_tellers";
                assert_eq!(text(&client, read).await, round.to_string());
            }
        })
    };
    let added = Postgres::start(&[]).unwrap();
    let address = added.address("postgres");
    let replicas = cluster.front.replicas();
    let second = replicas.add(&address, ExistingData::Kept).unwrap();
    let twice = replicas.add(&address, ExistingData::Kept).unwrap_err();
    assert!(
        twice.to_string().contains("is replica 2 already"),
        "{twice}"
    );
    cluster.replicas.push(added);
    cluster
        .wait(|states| states == [ReplicaState::Serving; 2])
        .await;
    let replicas = cluster.front.replicas();
    assert!(replicas.remove(ReplicaId(1)).await.unwrap());
    assert!(!replicas.remove(ReplicaId(1)).await.unwrap());
    let emptied = replicas.add(
        &cluster.replicas[0].address("postgres"),
        ExistingData::Dropped,
    );
    assert_eq!((second, emptied.unwrap()), (ReplicaId(2), ReplicaId(3)));
    cluster
        .wait(|states| states == [ReplicaState::Serving; 2])
        .await;
    stop.store(true, Ordering::Relaxed);
    load.await.unwrap();
    cluster
        .wait_until_equal(
            "SELECT md5(string_agg(t::text, ',' ORDER BY tid)) FROM pgbench_tellers t",
        )
        .await;
}

/// Replicas follow one database; those beside it are not theirs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_databases_stay_on_the_primary() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let sockets = [cluster.primary.socket(), cluster.replicas[0].socket()];
    for (socket, number) in sockets.into_iter().zip(["1", "2"]) {
        let create = connect(socket).await;
        create.batch_execute("CREATE DATABASE other").await.unwrap();
        let words = [
            "-c",
            &format!("CREATE TABLE t AS SELECT {number} AS n"),
            "other",
        ];
        printed(&run(&cluster.primary, "psql", socket, &words).await);
    }
    let through = cluster.front.address;
    for statement in ["UPDATE t SET n = n + 10", "SELECT n FROM t"] {
        let words = ["-At", "-c", statement, "other"];
        let output = printed(&run(&cluster.primary, "psql", through, &words).await);
        assert!(
            ["UPDATE 1\n", "11\n"].contains(&output.as_str()),
            "{output}"
        );
    }
    assert_eq!(cluster.served(), 0);
    assert_eq!(cluster.manager.lock().unwrap().pending_count(), 0);
}

/// A cluster whose replica has two rows, and a session; none where there is no PostgreSQL.
async fn two_rows_at_a_replica() -> Option<(Cluster, Raw)> {
    if !is_there() {
        return None;
    }
    let cluster = Cluster::start(1).await;
    make_two_rows(&cluster.front.connect().await, "int").await;
    cluster.wait_until_equal("SELECT id, n FROM t").await;
    let raw = Raw::log_in(cluster.front.address).await;
    Some((cluster, raw))
}

/// Where statements inside of transactions go, and the answers that their clients receive in
/// transactions that were on no server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_begin_where_they_must() {
    let Some((cluster, mut raw)) = two_rows_at_a_replica().await else {
        return;
    };
    let served = cluster.served();
    raw.converse(&[
        ("BEGIN", "CZT"),
        ("SELECT n FROM t WHERE id = 1", "T'0'CZT"),
        ("SELECT n FROM t WHERE id = 2", "T'0'CZT"),
        ("COMMIT", "CZI"),
        ("START TRANSACTION READ ONLY", "CZT"),
        ("SELECT count(*) FROM t", "T'2'CZT"),
        ("END", "CZI"),
    ])
    .await;
    assert_eq!(cluster.served() - served, 3);
    // The statement that writes takes the transaction to the primary.
    raw.converse(&[
        ("BEGIN", "CZT"),
        ("SELECT n FROM t WHERE id = 1", "T'0'CZT"),
        ("UPDATE t SET n = 7 WHERE id = 1", "CZT"),
        ("SELECT n FROM t WHERE id = 1", "T'7'CZT"),
        ("ROLLBACK", "CZI"),
        ("SELECT n FROM t WHERE id = 1", "T'0'CZI"),
        // How it was begun counts there.
        ("BEGIN READ ONLY", "CZT"),
        ("SELECT n FROM t WHERE id = 1", "T'0'CZT"),
        ("UPDATE t SET n = 7 WHERE id = 1", "[25006]ZE"),
        ("ROLLBACK", "CZI"),
        // The time of a transaction is one for all of its statements.
        ("BEGIN", "CZT"),
        (
            "SELECT count(DISTINCT x) FROM (VALUES (now()), (now())) a(x)",
            "T'1'CZT",
        ),
        ("COMMIT", "CZI"),
        // Without an end it is none of the next client's on that server.
        ("BEGIN", "CZT"),
    ])
    .await;
    drop(raw);
    let other = cluster.front.connect().await;
    other.batch_execute("UPDATE t SET n = 1").await.unwrap();
}

/// A transaction that has failed on no server ends like one on a server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_on_no_server_fail() {
    let Some((cluster, mut raw)) = two_rows_at_a_replica().await else {
        return;
    };
    let served = cluster.served();
    raw.converse(&[
        ("BEGIN", "CZT"),
        ("SELECT 1 / n FROM t", "T[22012]ZE"),
        ("SELECT n FROM t", "[25P02]ZE"),
        ("ROLLBACK TO s", "[3B001]ZE"),
        ("ROLLBACK WORK TO SAVEPOINT s; SELECT 1", "[3B001]ZE"),
        ("SAVEPOINT s", "[25P02]ZE"),
        ("RELEASE s", "[25P02]ZE"),
        ("UPDATE t SET n = 1", "[25P02]ZE"),
        ("SELECT n FROM t WHERE (time('t')) IS NULL", "[42601]ZE"),
        ("SELECT 1; SELECT 'a", "[42601]ZE"),
        ("ROLLBACK TO", "[42601]ZE"),
        (" -- nothing\n; /* */", "IZE"),
        ("BEGIN", "[25P02]ZE"),
        ("COMMIT", "CZI"),
        ("SELECT count(*) FROM t WHERE n = 0", "T'2'CZI"),
    ])
    .await;
    assert_eq!(cluster.served() - served, 2);
    raw.query("BEGIN");
    assert_eq!(raw.reply().await, "CZT");
    // An extended batch, which is skipped up to Sync.
    raw.parse("", "SELECT 1 / n FROM t").bind("").execute(0);
    raw.parse("", "SELECT n FROM t").bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12[22012]ZE");
    raw.parse("", "SELECT n FROM t").bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "[25P02]ZE");
    for (text, reply) in [
        ("selec", "[42601]ZE"),
        ("ROLLBACK; ROLLBACK", "[42601]ZE"),
        ("-- nothing", "1[25P02]ZE"),
    ] {
        raw.parse("", text).bind("").execute(0).sync();
        assert_eq!(raw.reply().await, reply, "{text}");
    }
    raw.parse("", "ROLLBACK").bind("").execute(0).sync();
    assert_eq!(raw.reply().await, "12CZI");
}

/// Drivers that begin transactions by extended messages, in front of the first statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_begin_transactions() {
    let Some((cluster, mut raw)) = two_rows_at_a_replica().await else {
        return;
    };
    let served = cluster.served();
    for round in 0..3 {
        match round {
            0 => raw.parse("b", "BEGIN").bind("b").execute(0),
            _ => raw.bind("b").execute(0),
        };
        raw.parse("", "SELECT id FROM t WHERE id = 1");
        raw.bind("").execute(0).sync();
        let prepared = if round == 0 { "1" } else { "" };
        assert_eq!(raw.reply().await, format!("{prepared}2C12'1'CZT"));
        raw.parse("", "COMMIT").bind("").execute(0).sync();
        assert_eq!(raw.reply().await, "12CZI");
    }
    assert_eq!(cluster.served() - served, 3);
    // A portal that is to go on in the next batch needs a transaction on a server.
    raw.bind("b").execute(0);
    raw.parse("", "SELECT id FROM t ORDER BY id");
    raw.bind("").execute(1).sync();
    assert_eq!(raw.reply().await, "2C12'1'sZT");
    raw.execute(1).sync();
    assert_eq!(raw.reply().await, "'2'sZT");
    raw.bind("b").execute(0).sync();
    // A warning: there is a transaction already.
    assert_eq!(raw.reply().await, "2NCZT");
    raw.query("ROLLBACK");
    assert_eq!(raw.reply().await, "CZI");
}
