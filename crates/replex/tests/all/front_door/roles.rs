//! Roles and privileges: beside a real PostgreSQL, and at the servers of a cluster, of which one
//! makes the changes that another one enforces.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use replex::cluster::Cluster;
use tokio_postgres::{Client, Config, Error, NoTls};

use super::same_as_postgres::both;
use super::{PATIENCE, Started, psql};
use crate::support;
use crate::support::raw_client::{Answer, Messages};

/// Returns the tag or the error, and the rows, of a statement. Notices are left out.
fn outcome(answers: &[Answer]) -> Vec<String> {
    let compared = answers.iter().filter_map(|answer| match answer.tag {
        b'E' => {
            let report = answer.report();
            Some(format!("{} {}", report.code, report.message))
        }
        b'C' => Some(String::from_utf8_lossy(&answer.body).into_owned()),
        b'D' => Some(pg_wire::message::row(&answer.body).unwrap().join("|")),
        _ => None,
    });
    compared.collect()
}

#[tokio::test]
// tidy: long — one conversation, statement by statement
async fn statements_answer_as_postgres() {
    let Some((_started, _postgres, mut both)) = both().await else {
        return;
    };
    for text in [
        "CREATE ROLE ann LOGIN PASSWORD 'secret'",
        "CREATE ROLE ann",
        "CREATE ROLE pg_mine",
        "CREATE ROLE public",
        "CREATE USER bob",
        "CREATE ROLE readers",
        "CREATE ROLE writers IN ROLE readers",
        "GRANT readers TO ann",
        "GRANT readers TO ann",
        "GRANT ann TO readers",
        "GRANT missing TO ann",
        "GRANT readers TO missing",
        "CREATE TABLE r (id int PRIMARY KEY, n int)",
        "CREATE TABLE k (id serial PRIMARY KEY, n int)",
        "CREATE SEQUENCE sq",
        "INSERT INTO r VALUES (1, 1), (2, 2)",
        "SET ROLE missing",
        "SET ROLE ann",
        "SELECT current_user, session_user",
        "SHOW role",
        "SHOW is_superuser",
        "SELECT * FROM r",
        "SELECT * FROM missing",
        "INSERT INTO r VALUES (3, 3)",
        "UPDATE r SET n = 1",
        "DELETE FROM r",
        "TRUNCATE r",
        "DROP TABLE r",
        "ALTER TABLE r ADD COLUMN x int",
        "ALTER TABLE r RENAME TO s",
        "ALTER TABLE r OWNER TO ann",
        "CREATE INDEX i ON r (n)",
        "CREATE TABLE own (id int PRIMARY KEY)",
        "CREATE SEQUENCE own",
        "SELECT nextval('sq')",
        "SELECT setval('sq', 1)",
        "DROP SEQUENCE sq",
        "CREATE ROLE eve",
        "CREATE ROLE eve SUPERUSER",
        "DROP ROLE bob",
        "ALTER ROLE bob NOLOGIN",
        "ALTER ROLE bob SUPERUSER",
        "ALTER ROLE ann PASSWORD 'other'",
        "ALTER ROLE postgres PASSWORD 'other'",
        "GRANT readers TO bob",
        "GRANT SELECT ON r TO bob",
        "REVOKE SELECT ON r FROM bob",
        "RESET ROLE",
        "SELECT current_user",
        "GRANT SELECT ON r TO readers",
        "SET ROLE ann",
        "SELECT * FROM r WHERE id = 1",
        "SELECT id FROM r FOR UPDATE",
        "UPDATE r SET n = 1 WHERE id = 1",
        "EXPLAIN DELETE FROM r",
        "COPY r TO STDOUT",
        "GRANT SELECT ON r TO bob",
        "SET ROLE NONE",
        "REVOKE SELECT ON r FROM readers",
        "GRANT INSERT, UPDATE ON TABLE r, k TO ann",
        "SET ROLE ann",
        "INSERT INTO r VALUES (5, 5)",
        "INSERT INTO r VALUES (6, 6) RETURNING id",
        "INSERT INTO r VALUES (5, 6) ON CONFLICT DO NOTHING",
        "INSERT INTO r VALUES (5, 6) ON CONFLICT (id) DO UPDATE SET n = 7",
        "UPDATE r SET n = 8",
        "UPDATE r SET n = n + 1",
        "UPDATE r SET n = 8 WHERE id = 1",
        "INSERT INTO k (n) VALUES (1)",
        "RESET ROLE",
        "GRANT USAGE ON SEQUENCE k_id_seq TO ann",
        "GRANT DELETE ON r TO ann",
        "SET ROLE ann",
        "INSERT INTO k (n) VALUES (1)",
        "DELETE FROM r WHERE id = 1",
        "DELETE FROM r",
        "RESET ROLE",
        "GRANT SELECT ON r TO PUBLIC",
        "SET SESSION AUTHORIZATION ann",
        "SELECT current_user, session_user",
        "SELECT count(*) FROM r",
        "SET ROLE bob",
        "SET ROLE readers",
        "SELECT current_user, session_user",
        "RESET ROLE",
        "SET SESSION AUTHORIZATION bob",
        "RESET SESSION AUTHORIZATION",
        "SELECT current_user, session_user",
        "BEGIN",
        "SET LOCAL ROLE bob",
        "SELECT current_user",
        "COMMIT",
        "SELECT current_user",
        "BEGIN",
        "SET ROLE bob",
        "ROLLBACK",
        "SELECT current_user",
        "DROP ROLE ann",
        "GRANT CREATE ON SCHEMA public TO ann",
        "SET ROLE ann",
        "CREATE TABLE own (id serial PRIMARY KEY, r int)",
        "ALTER TABLE own ADD FOREIGN KEY (r) REFERENCES r",
        "ALTER TABLE own OWNER TO bob",
        "GRANT SELECT ON own TO bob",
        "RESET ROLE",
        "SELECT relname, pg_get_userbyid(relowner), relacl FROM pg_class WHERE relname IN ('own', \
         'k_id_seq', 'sq') ORDER BY 1",
        "SELECT has_table_privilege('bob', 'own', 'SELECT'), has_table_privilege('bob', 'own', \
         'INSERT'), has_table_privilege('ann', 'own', 'DELETE'), has_table_privilege('own', 'SELECT')",
        "SELECT has_table_privilege('bob', 'own', 'NOTHING')",
        "SELECT has_table_privilege('missing', 'own', 'SELECT')",
        "SELECT has_sequence_privilege('ann', 'k_id_seq', 'USAGE'), has_schema_privilege('bob', \
         'public', 'CREATE'), has_schema_privilege('bob', 'public', 'USAGE'), pg_has_role('ann', \
         'readers', 'MEMBER'), pg_has_role('bob', 'readers', 'USAGE')",
        "SELECT grantor, grantee, privilege_type, is_grantable FROM \
         information_schema.role_table_grants WHERE table_name = 'own' ORDER BY 2, 3",
        "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles WHERE rolname IN ('ann', 'bob', \
         'readers', 'postgres') ORDER BY 1",
        "SELECT r.rolname, m.rolname FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN \
         pg_roles m ON m.oid = a.member WHERE r.rolname = 'readers' ORDER BY 2",
        "SELECT usename, usesuper FROM pg_user WHERE usename IN ('ann', 'readers') ORDER BY 1",
        "GRANT USAGE ON r TO ann",
        "GRANT SELECT ON missing TO ann",
        "GRANT SELECT ON SEQUENCE r TO ann",
        "REVOKE ALL ON ALL TABLES IN SCHEMA public FROM ann, bob, PUBLIC",
        "REVOKE ALL ON ALL SEQUENCES IN SCHEMA public FROM ann",
        "REVOKE CREATE ON SCHEMA public FROM ann",
        "DROP ROLE ann",
        "ALTER TABLE own OWNER TO CURRENT_USER",
        "DROP ROLE ann",
        "DROP ROLE ann",
        "DROP ROLE IF EXISTS ann, bob",
        "DROP ROLE postgres",
        "ALTER ROLE readers RENAME TO lectors",
        "ALTER ROLE lectors RENAME TO writers",
        "ALTER ROLE missing LOGIN",
        "REVOKE lectors FROM writers",
        "DROP ROLE lectors, writers",
        "SELECT count(*) FROM pg_auth_members WHERE member >= 16384",
    ] {
        let messages = Messages::new().query(text);
        let [ours, theirs] = [both.store.ask(&messages), both.postgres.ask(&messages)];
        assert_eq!(outcome(&ours), outcome(&theirs), "{text}");
    }
}

async fn connect(address: SocketAddr, user: &str, password: &str) -> Result<Client, Error> {
    let mut config = Config::new();
    config.host(address.ip().to_string()).port(address.port());
    config.user(user).password(password).dbname("replex");
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn code<T>(result: Result<T, Error>) -> String {
    let error = result.err().expect("it fails");
    let error = error.as_db_error().unwrap_or_else(|| panic!("{error}"));
    format!("{} {}", error.code().code(), error.message())
}

/// Runs a statement until it is refused: another server learns of a change a moment later.
async fn until_denied(client: &Client, text: &str) -> String {
    let begun = Instant::now();
    loop {
        match client.simple_query(text).await {
            Err(error) => return code::<()>(Err(error)),
            Ok(_) => assert!(begun.elapsed() < PATIENCE, "{text} is never refused"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn cluster() -> (Cluster, Vec<SocketAddr>) {
    let mut options = support::options(3);
    options.server_arguments = ["--sql", "127.0.0.1:0"].map(str::to_owned).into();
    let cluster = Cluster::start(options).await.unwrap();
    let addresses = (0..3).map(|server| {
        let address = cluster.server(server).ready_value("sql").unwrap();
        address.parse().unwrap()
    });
    let addresses = addresses.collect();
    (cluster, addresses)
}

#[tokio::test]
// tidy: long — one story of three servers
async fn changes_at_one_server_hold_at_all() {
    let (mut cluster, addresses) = cluster().await;
    // No role has a password yet.
    let admin = connect(addresses[0], "someone", "").await.unwrap();
    admin
        .batch_execute("CREATE ROLE boss SUPERUSER LOGIN PASSWORD 'high'")
        .await
        .unwrap();
    admin
        .batch_execute(
            "CREATE ROLE ann LOGIN PASSWORD 'right'; CREATE ROLE bob LOGIN PASSWORD 'hat'",
        )
        .await
        .unwrap();
    admin
        .batch_execute("CREATE ROLE readers; CREATE TABLE t (id bigint PRIMARY KEY, n bigint)")
        .await
        .unwrap();
    // From now on each client needs one, at each server.
    for address in &addresses {
        for (user, password) in [("someone", ""), ("ann", "wrong"), ("readers", "x")] {
            let refused = connect(*address, user, password).await;
            assert!(refused.is_err(), "{user} logs in at {address}");
        }
        assert!(connect(*address, "boss", "high").await.is_ok());
    }
    let boss = connect(addresses[0], "boss", "high").await.unwrap();
    let ann = connect(addresses[1], "ann", "right").await.unwrap();
    let bob = connect(addresses[2], "bob", "hat").await.unwrap();
    let read = "SELECT n FROM t WHERE id = 1";
    let write = "INSERT INTO t VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = 2";
    let denied = "42501 permission denied for table t";
    let prepared = ann.prepare(read).await.unwrap();
    for client in [&ann, &bob] {
        assert_eq!(code(client.simple_query(read).await), denied);
        assert_eq!(code(client.simple_query(write).await), denied);
    }
    assert_eq!(code(ann.query(&prepared, &[]).await), denied);
    boss.batch_execute("GRANT SELECT ON t TO readers; GRANT readers TO ann; GRANT ALL ON t TO bob")
        .await
        .unwrap();
    // A refusal is checked again with the newest privileges.
    bob.simple_query(write).await.unwrap();
    assert_eq!(ann.query(&prepared, &[]).await.unwrap().len(), 1);
    assert_eq!(code(ann.simple_query(write).await), denied);
    assert_eq!(
        code(bob.simple_query("DROP TABLE t").await),
        "42501 must be owner of table t"
    );
    boss.batch_execute("REVOKE readers FROM ann; REVOKE UPDATE ON t FROM bob")
        .await
        .unwrap();
    assert_eq!(until_denied(&ann, read).await, denied);
    assert_eq!(code(ann.query(&prepared, &[]).await), denied);
    assert_eq!(until_denied(&bob, write).await, denied);
    bob.simple_query(read).await.unwrap();

    cluster.kill_coordinator(0).await.unwrap();
    bob.simple_query(read).await.unwrap();
    assert_eq!(code(ann.simple_query(read).await), denied);
    cluster.start_coordinator(0).await.unwrap();
    let ann = connect(addresses[2], "ann", "right").await.unwrap();
    assert_eq!(code(ann.simple_query(read).await), denied);
    let boss = connect(addresses[1], "boss", "high").await.unwrap();
    boss.batch_execute("GRANT SELECT ON t TO ann; ALTER ROLE bob NOLOGIN PASSWORD 'new'")
        .await
        .unwrap();
    assert_eq!(ann.query(read, &[]).await.unwrap().len(), 1);
    cluster.stop(0).await.unwrap();
    cluster.restart(0).await.unwrap();
    let address = cluster.server(0).ready_value("sql").unwrap();
    let address = address.parse().unwrap();
    let ann = connect(address, "ann", "right").await.unwrap();
    assert_eq!(ann.query(read, &[]).await.unwrap().len(), 1);
    assert_eq!(
        code(connect(address, "bob", "new").await),
        "28000 role \"bob\" is not permitted to log in"
    );
    // The statement that truncates gives the table another number.
    boss.batch_execute("TRUNCATE t").await.unwrap();
    assert!(ann.query(read, &[]).await.unwrap().is_empty());
    boss.batch_execute("DROP TABLE t; DROP ROLE ann")
        .await
        .unwrap();
    let begun = Instant::now();
    while ann.simple_query("SELECT 1").await.is_ok() {
        assert!(begun.elapsed() < PATIENCE, "a session outlives its role");
    }
    assert!(code(ann.simple_query("SELECT 1").await).contains("role \"ann\" does not exist"));
}

#[tokio::test]
async fn roles_decide_for_users_of_the_file_and_changes_are_noted() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    std::fs::write(&users, "\"root\" \"file\"\n\"ann\" \"file\"\n").unwrap();
    let users = users.display().to_string();
    let started = Started::with(&["--users", &users]).await;
    let address = started.sql();
    let root = connect(address, "root", "file").await.unwrap();
    let ann = connect(address, "ann", "file").await.unwrap();
    ann.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY)")
        .await
        .unwrap();
    root.batch_execute("CREATE ROLE ann LOGIN").await.unwrap();
    // The session that runs is bound by it, too.
    let denied = "42501 permission denied for table t";
    assert_eq!(code(ann.simple_query("SELECT * FROM t").await), denied);
    assert!(connect(address, "ann", "file").await.is_ok());
    root.batch_execute("ALTER ROLE ann PASSWORD 'own secret'")
        .await
        .unwrap();
    assert!(connect(address, "ann", "file").await.is_err());
    let ann = connect(address, "ann", "own secret").await.unwrap();
    root.batch_execute("GRANT SELECT, INSERT ON t TO ann")
        .await
        .unwrap();
    ann.batch_execute("ALTER ROLE CURRENT_USER PASSWORD 'my secret'")
        .await
        .unwrap();
    ann.simple_query("SELECT * FROM t").await.unwrap();
    // A copy is checked when it begins.
    let copy = "COPY t FROM STDIN";
    let sink = ann.copy_in::<_, bytes::Bytes>(copy).await.unwrap();
    drop(sink);
    root.batch_execute("REVOKE INSERT ON t FROM ann")
        .await
        .unwrap();
    let refused = ann.copy_in::<_, bytes::Bytes>(copy).await;
    assert_eq!(code(refused.map(drop)), denied);
    let log = started.process.log_text();
    for line in [
        "info event=roles_changed user=root role=root from=127.0.0.1 what=\"CREATE ROLE ann LOGIN\"",
        "info event=roles_changed user=root role=root from=127.0.0.1 what=\"ALTER ROLE ann PASSWORD\"",
        "what=\"GRANT INSERT, SELECT ON t TO ann\"",
        "info event=roles_changed user=ann role=ann from=127.0.0.1 what=\"ALTER ROLE CURRENT_USER \
         PASSWORD\"",
    ] {
        assert!(log.contains(line), "{line} is not in\n{log}");
    }
    for secret in ["own secret", "my secret", "SCRAM-SHA-256$"] {
        assert!(!log.contains(secret), "{secret} is in\n{log}");
    }
}

#[tokio::test]
async fn psql_lists_roles_and_privileges() {
    if !support::postgres_is_there() {
        return;
    }
    let started = Started::new().await;
    let (stdout, stderr) = psql(
        started.sql(),
        &[
            "CREATE ROLE readers",
            "CREATE ROLE ann LOGIN IN ROLE readers",
            "CREATE TABLE fish (id bigint PRIMARY KEY)",
            "GRANT SELECT, INSERT ON fish TO readers",
            "GRANT SELECT ON fish TO PUBLIC",
            "\\du",
            "\\dp fish",
            "\\dt",
        ],
    );
    for line in [
        " ann       |                                                            | {readers}",
        " postgres  | Superuser,",
        " readers   | Cannot login ",
        " public | fish | table | postgres=arwdDxt/postgres+",
        "=r/postgres ",
        "readers=ar/postgres ",
        " public | fish | table | postgres",
    ] {
        assert!(
            stdout.contains(line),
            "{line} is not in\n{stdout}\n{stderr}"
        );
    }
}
