//! The guarantees of the protocol hold although sessions share connections: batches, errors before
//! Sync, prepared statements, COPY and cancel. No state of one session reaches another.

use pg_local::Postgres;
use proxy_core::server::STATEMENTS_MAX;

use crate::support::cluster::{Cluster, text};
use crate::support::raw::Raw;
use crate::support::{Front, connect, is_there, options, try_connect_by};

/// Runs a test against a proxy with this many connections.
async fn with(connections: usize, test: impl AsyncFnOnce(&Front)) {
    if is_there() {
        let postgres = Postgres::start(&[]).unwrap();
        let front = Front::start(options(&postgres, connections)).await;
        test(&front).await;
    }
}

#[tokio::test]
async fn batches_and_errors_before_sync() {
    with(1, async |front: &Front| {
        let mut raw = Raw::log_in(front.address).await;
        raw.query("CREATE TABLE t (a int)");
        assert_eq!(raw.reply().await, "CZI");
        raw.query("SELECT 1; SELECT 1/0; SELECT 2");
        assert_eq!(raw.reply().await, "T'1'C[22012]ZI");
        raw.query("");
        assert_eq!(raw.reply().await, "IZI");
        raw.sync().sync();
        assert_eq!(raw.reply().await, "ZI");
        assert_eq!(raw.until_ready().await, "ZI");

        // Messages after the error are skipped, up to Sync. Messages after Sync are not.
        raw.parse("", "SELECT 7").bind("").execute(0);
        raw.parse("bad", "SELEC").bind("bad").execute(0).close("x");
        raw.sync()
            .parse("bad", "SELECT 8")
            .bind("bad")
            .execute(0)
            .sync();
        assert_eq!(raw.reply().await, "12'7'C[42601]ZI");
        assert_eq!(raw.until_ready().await, "12'8'CZI");
        // A batch is one transaction.
        raw.parse("", "INSERT INTO t VALUES (1)")
            .bind("")
            .execute(0);
        raw.parse("", "SELECT 1/0").bind("").execute(0).sync();
        raw.query("SELECT count(*) FROM t");
        assert_eq!(raw.reply().await, "12C1[22012]ZI");
        assert_eq!(raw.until_ready().await, "T'0'CZI");
        // Flush gives the answers before Sync, also of an error.
        raw.parse("", "SELECT 1/0").say(b'H', &[]).flush().await;
        assert_eq!(raw.message().await.map(|(tag, _)| tag), Some(b'1'));
        raw.bind("").execute(0).say(b'H', &[]).flush().await;
        assert_eq!(raw.message().await.map(|(tag, _)| tag), Some(b'E'));
        raw.parse("", "SELECT 1").query("SELECT 2").sync();
        assert_eq!(raw.reply().await, "ZI");
        // A portal that is suspended goes on where it was.
        raw.query("BEGIN").flush().await;
        assert_eq!(raw.until_ready().await, "CZT");
        raw.parse("", "SELECT generate_series(1, 3)")
            .bind("")
            .execute(2);
        raw.execute(2).sync();
        assert_eq!(raw.reply().await, "12'1''2's'3'CZT");
        raw.query("oops").flush().await;
        assert_eq!(raw.until_ready().await, "[42601]ZE");
        raw.query("COMMIT");
        assert_eq!(raw.reply().await, "CZI");
    })
    .await;
}

/// Sessions share the statements that servers have prepared. A session that prepares a statement
/// after its table has changed must not get one from before, which would fail for good.
#[tokio::test]
async fn statements_are_prepared_again_when_their_table_has_changed() {
    with(1, async |front: &Front| {
        let mut one = Raw::log_in(front.address).await;
        let mut two = Raw::log_in(front.address).await;
        one.query("CREATE TABLE t (a int); INSERT INTO t VALUES (7)");
        assert_eq!(one.reply().await, "CCZI");
        one.parse("s", "SELECT * FROM t");
        one.bind("s").execute(0).sync();
        assert_eq!(one.reply().await, "12'7'CZI");
        two.query("ALTER TABLE t ADD COLUMN b int");
        assert_eq!(two.reply().await, "CZI");
        two.parse("other", "SELECT * FROM t");
        two.bind("other").execute(0).sync();
        assert!(two.reply().await.starts_with("12'"));
        // A session with one from before gets an error while the columns are others, as it would
        // from PostgreSQL.
        one.bind("s").execute(0).sync();
        assert_eq!(one.reply().await, "[0A000]ZI");
        two.query("ALTER TABLE t DROP COLUMN b");
        assert_eq!(two.reply().await, "CZI");
        one.bind("s").execute(0).sync();
        assert_eq!(one.reply().await, "2'7'CZI");
        one.close("s").parse("s", "SELECT * FROM t");
        one.bind("s").execute(0).sync();
        assert_eq!(one.reply().await, "312'7'CZI");
        one.bind("s").execute(0).sync();
        assert_eq!(one.reply().await, "2'7'CZI");
    })
    .await;
}

#[tokio::test]
async fn prepared_statements_are_their_clients_own() {
    with(1, async |front: &Front| {
        let mut one = Raw::log_in(front.address).await;
        let mut two = Raw::log_in(front.address).await;
        one.parse("s", "SELECT 1").sync();
        two.parse("s", "SELECT 2").sync();
        assert_eq!(one.reply().await, "1ZI");
        assert_eq!(two.reply().await, "1ZI");
        for _ in 0..2 {
            one.bind("s").execute(0).sync();
            two.bind("s").execute(0).sync();
            assert_eq!(one.reply().await, "2'1'CZI");
            assert_eq!(two.reply().await, "2'2'CZI");
        }
        // The unnamed one, too, outlives its batch, but no simple query.
        one.parse("", "SELECT 10").sync();
        two.parse("", "SELECT 20").sync();
        assert_eq!(one.reply().await, "1ZI");
        assert_eq!(two.reply().await, "1ZI");
        one.bind("").execute(0).sync();
        assert_eq!(one.reply().await, "2'10'CZI");
        two.query("SELECT 0");
        assert_eq!(two.reply().await, "T'0'CZI");
        two.bind("").execute(0).sync();
        assert_eq!(two.reply().await, "[26000]ZI");
        // A name is taken until it is closed. A name that is not there is not found.
        one.parse("s", "SELECT 3").sync();
        assert_eq!(one.reply().await, "[42P05]ZI");
        one.close("s")
            .parse("s", "SELECT 3")
            .bind("s")
            .execute(0)
            .sync();
        assert_eq!(one.reply().await, "312'3'CZI");
        one.bind("t").execute(0).sync();
        assert_eq!(one.reply().await, "[26000]ZI");
        // A statement whose batch failed before it was never prepared, and one is not closed.
        one.bind("t").parse("u", "SELECT 4").close("s").sync();
        assert_eq!(one.reply().await, "[26000]ZI");
        one.bind("s").execute(0).sync().bind("u").execute(0).sync();
        assert_eq!(one.reply().await, "2'3'CZI");
        assert_eq!(one.until_ready().await, "[26000]ZI");
        one.query("DEALLOCATE ALL");
        assert_eq!(one.reply().await, "CZI");
        one.bind("s").sync();
        assert_eq!(one.reply().await, "[26000]ZI");
    })
    .await;
}

#[tokio::test]
async fn more_prepared_statements_than_a_server_holds() {
    with(1, async |front: &Front| {
        let mut raw = Raw::log_in(front.address).await;
        for round in ["1", ""] {
            for number in 0..STATEMENTS_MAX + 10 {
                let name = format!("s{number}");
                if !round.is_empty() {
                    raw.parse(&name, &format!("SELECT {number}"));
                }
                raw.bind(&name).execute(0).sync();
                assert_eq!(raw.reply().await, format!("{round}2'{number}'CZI"));
            }
        }
        // The view has the client's, by the names that it has given them.
        raw.query("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 's%'");
        assert_eq!(raw.reply().await, format!("T'{}'CZI", STATEMENTS_MAX + 10));
    })
    .await;
}

#[tokio::test]
async fn copy_in_simple_and_extended_protocol() {
    with(1, async |front: &Front| {
        let mut raw = Raw::log_in(front.address).await;
        raw.query("CREATE TABLE t (a int)");
        assert_eq!(raw.reply().await, "CZI");
        raw.query("COPY t FROM STDIN")
            .say(b'd', &[b"1\n"])
            .say(b'c', &[]);
        assert_eq!(raw.reply().await, "GCZI");
        // The server ignores the Sync that libpq sends before the data.
        raw.parse("", "COPY t FROM STDIN")
            .bind("")
            .execute(0)
            .sync();
        raw.say(b'd', &[b"2\n"]).say(b'c', &[]).sync();
        assert_eq!(raw.reply().await, "12GCZI");
        // An error in the data: the rest of the data is ignored.
        raw.query("COPY t FROM STDIN")
            .say(b'd', &[b"x\n"])
            .flush()
            .await;
        assert_eq!(raw.message().await.map(|(tag, _)| tag), Some(b'G'));
        raw.say(b'c', &[]).flush().await;
        assert_eq!(raw.until_ready().await, "[22P02]ZI");
        raw.say(b'd', &[b"3\n"])
            .say(b'c', &[])
            .query("SELECT sum(a) FROM t");
        assert_eq!(raw.reply().await, "T'3'CZI");
        raw.parse("", "COPY t FROM STDIN")
            .bind("")
            .execute(0)
            .sync();
        raw.say(b'f', &[b"no\0"]).sync();
        assert_eq!(raw.reply().await, "12G[57014]ZI");
        raw.query("COPY t TO STDOUT");
        assert_eq!(raw.reply().await, "HddcCZI");
    })
    .await;
}

#[tokio::test]
async fn session_state_never_reaches_another_session() {
    with(1, async |front: &Front| {
        for leaves in [
            "SET search_path = elsewhere",
            "SET SESSION AUTHORIZATION DEFAULT; SET replex_test.x = 'seen'",
            "CREATE TEMP TABLE secret (a int)",
            "SELECT pg_advisory_lock(7)",
            "PREPARE secret AS SELECT 1",
            "LISTEN secret",
            "SELECT set_config('replex_test.x', 'seen', false)",
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "BEGIN; SET LOCAL search_path = elsewhere",
        ] {
            let mut one = Raw::log_in(front.address).await;
            one.query(leaves);
            let output = one.reply().await;
            assert!(!output.contains('['), "{leaves}: {output}");
            // It is still there for the session that left it.
            one.query("SELECT 1");
            assert!(one.reply().await.starts_with("T'1'C"), "{leaves}");
            one.say(b'X', &[]).flush().await;
            assert_eq!(one.message().await, None);
            let mut two = Raw::log_in(front.address).await;
            two.query(
                "SELECT current_setting('search_path') || coalesce(current_setting('replex_test.x', true), '')
                   || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')
                   || (SELECT count(*) FROM pg_class WHERE relname = 'secret')
                   || (SELECT count(*) FROM pg_listening_channels())
                   || (SELECT count(*) FROM pg_cursors)
                   || (SELECT count(*) FROM pg_prepared_statements)",
            );
            assert_eq!(two.reply().await, "T'\"$user\", public00000'CZI", "{leaves}");
        }
    })
    .await;
}

#[tokio::test]
async fn settings_of_a_session_stay_with_it() {
    with(3, async |front: &Front| {
        let (one, two) = (front.connect().await, front.connect().await);
        one.batch_execute("SET application_name = 'mine'; CREATE TEMP TABLE t (a int)")
            .await
            .unwrap();
        for _ in 0..3 {
            let row = two.query_one("SHOW application_name", &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "");
            let row = one.query_one("SHOW application_name", &[]).await.unwrap();
            assert_eq!(row.get::<_, String>(0), "mine");
            one.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap();
        }
        assert!(two.execute("INSERT INTO t VALUES (1)", &[]).await.is_err());
    })
    .await;
}

/// Some drivers give a name in every session: that does not keep them from sharing connections.
#[tokio::test]
async fn names_of_applications_are_carried_along() {
    with(1, async |front: &Front| {
        let mut one = Raw::log_in(front.address).await;
        let mut two = Raw::log_in(front.address).await;
        one.parse("s", "SHOW application_name").sync();
        assert_eq!(one.reply().await, "1ZI");
        for name in ["first", "it's"] {
            let text = format!("SET application_name = '{}'", name.replace('\'', "''"));
            one.query(&text);
            assert_eq!(one.reply().await, "CZI");
            for _ in 0..2 {
                one.bind("s").execute(0).sync();
                assert_eq!(one.reply().await, format!("2'{name}'CZI"));
                two.query("SHOW application_name");
                assert_eq!(two.reply().await, "T''CZI");
            }
        }
        // A session that keeps its server for another reason sets it there, until all is reset.
        one.query("SET replex_test.x = '1MB'");
        assert_eq!(one.reply().await, "CZI");
        one.query("SET application_name = 'third'");
        assert_eq!(one.reply().await, "CZI");
        one.query("SHOW application_name");
        assert_eq!(one.reply().await, "T'third'CZI");
        one.query("DISCARD ALL");
        assert_eq!(one.reply().await, "CZI");
        two.query("SHOW application_name");
        assert_eq!(two.reply().await, "T''CZI");
        one.query("SHOW application_name");
        assert_eq!(one.reply().await, "T''CZI");
    })
    .await;
}

/// A setting is reported to a client once, when it changes: the values are PostgreSQL's.
#[tokio::test]
async fn settings_are_reported_once() {
    with(2, async |front: &Front| {
        let mut one = Raw::log_in(front.address).await;
        let mut two = Raw::log_in(front.address).await;
        for (text, output) in [
            ("SET application_name = 'x'", "application_name=x"),
            ("SET application_name = 'x'", ""),
            ("SELECT 1", ""),
            ("BEGIN", ""),
            ("SET LOCAL application_name = 'y'", "application_name=y"),
            ("SET application_name = 'y'", ""),
            ("ROLLBACK", "application_name=x"),
            ("SET DateStyle = 'German'", "DateStyle=German, DMY"),
            ("SET application_name = 'z'", "application_name=z"),
            ("SELECT 1", ""),
            ("RESET application_name", "application_name="),
            ("SET application_name = ''", ""),
            ("DISCARD ALL", "DateStyle=ISO, MDY"),
        ] {
            one.query(text);
            assert_eq!(one.reported_settings().await, output, "{text}");
            two.query("SET application_name = 'other'");
            two.reported_settings().await;
            two.query("SELECT 1");
            assert_eq!(two.reported_settings().await, "");
        }
    })
    .await;
}

#[tokio::test]
async fn last_value_of_a_sequence_is_no_one_elses() {
    with(1, async |front: &Front| {
        let mut raw = Raw::log_in(front.address).await;
        raw.query("CREATE SEQUENCE s");
        assert_eq!(raw.reply().await, "CZI");
        raw.query("SELECT nextval('s')");
        assert_eq!(raw.reply().await, "T'1'CZI");
        raw.query("SELECT lastval()");
        assert_eq!(raw.reply().await, "[0A000]ZI");
        raw.parse("", "SELECT lastval()").bind("").execute(0).sync();
        assert_eq!(raw.reply().await, "[0A000]ZI");
        raw.query("BEGIN; SELECT nextval('s')");
        assert_eq!(raw.reply().await, "CT'2'CZT");
        raw.query("SELECT lastval()");
        assert_eq!(raw.reply().await, "T'2'CZT");
    })
    .await;
}

#[tokio::test]
async fn cancel_stops_only_the_session_with_the_key() {
    with(2, async |front: &Front| {
        let client = front.connect().await;
        let token = client.cancel_token();
        let slept = tokio::spawn(async move {
            let slept = client.batch_execute("SELECT pg_sleep(600)").await;
            (client, slept)
        });
        let watcher = front.connect().await;
        loop {
            let text = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            let row = watcher.query_one(text, &[]).await.unwrap();
            if row.get::<_, i64>(0) == 1 {
                break;
            }
        }
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        let (client, slept) = slept.await.unwrap();
        let error = slept.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
        client.batch_execute("SELECT 1").await.unwrap();
        // A cancel of a session that runs nothing hits no other.
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        client.batch_execute("SELECT 1").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn client_that_leaves_in_the_middle_frees_its_server() {
    with(1, async |front: &Front| {
        let mut setup = Raw::log_in(front.address).await;
        setup.query("CREATE TABLE t (a int)");
        assert_eq!(setup.reply().await, "CZI");
        for text in [
            "BEGIN; INSERT INTO t VALUES (1)",
            "SELECT pg_sleep(600)",
            "COPY t FROM STDIN",
        ] {
            let mut raw = Raw::log_in(front.address).await;
            raw.query(text).flush().await;
            if text.starts_with("BEGIN") {
                assert_eq!(raw.until_ready().await, "CCZT");
            }
            // Without Terminate, and with an error for a client that writes to it.
            raw.socket.set_zero_linger().unwrap();
            drop(raw);
            setup.query("SELECT count(*) FROM t");
            assert_eq!(setup.reply().await, "T'0'CZI", "{text}");
        }
    })
    .await;
}

#[tokio::test]
async fn long_messages_both_ways() {
    with(2, async |front: &Front| {
        let client = front.connect().await;
        client
            .batch_execute("CREATE TABLE t (a bytea)")
            .await
            .unwrap();
        let value = vec![7_u8; 5_000_000];
        for _ in 0..2 {
            client
                .execute("INSERT INTO t VALUES ($1)", &[&value])
                .await
                .unwrap();
        }
        let rows = client.query("SELECT a FROM t", &[]).await.unwrap();
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.get::<_, Vec<u8>>(0) == value));
        // A long text runs as well. Its effect on the session is not known, so the connection is
        // kept.
        let text = format!("SELECT length('{}')", "x".repeat(1_000_000));
        let row = client.query_one(&text, &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 1_000_000);
        client.simple_query(&text).await.unwrap();
        client
            .query_one("SELECT count(*) FROM t", &[])
            .await
            .unwrap();
    })
    .await;
}

/// Clients that come and go one after the other use the same connection, also with replicas.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_and_go_share_a_connection() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    for _ in 0..20 {
        let mut raw = Raw::log_in(cluster.front.address).await;
        // For the primary, and no write: the mark of one may still be under way when the next
        // client comes.
        raw.query("SELECT count(*) = 0 FROM pg_stat_activity");
        assert_eq!(raw.reply().await, "T'f'CZI");
        // The answer comes before the connection is given back: the client has gone once the proxy
        // has closed its socket.
        raw.say(b'X', &[]).flush().await;
        assert!(raw.message().await.is_none());
    }
    let own = connect(cluster.primary.socket()).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
                 AND application_name NOT LIKE 'replex%' AND pid <> pg_backend_pid()";
    let count: usize = text(&own, count).await.parse().unwrap();
    assert_eq!(count, 1);
}

/// PostgreSQL keeps a session's temporary schema until its process ends: the next session would see
/// that there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_temporary_schema_is_left_to_the_next_session() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&primary, 1)).await;
    let has = "SELECT pg_my_temp_schema() <> 0::oid";
    for make in ["CREATE TEMP TABLE mine (id int)", "LISTEN x"] {
        let client = front.connect().await;
        client.batch_execute(make).await.unwrap();
        drop(client);
        // It waits for the only connection.
        let next = front.connect().await;
        assert_eq!(text(&next, has).await, "f", "{make}");
    }
}

/// A role that the server would refuse gets no session over a connection that is idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_that_may_not_log_in_any_more_are_refused() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let plain = Front::start(options(&cluster.primary, 4)).await;
    let admin = connect(cluster.primary.socket()).await;
    for front in [&cluster.front, &plain] {
        let (host, port) = (front.address.ip(), front.address.port());
        let line = format!("host={host} port={port} user=rx dbname=postgres");
        let connect = || try_connect_by(&line);
        for (make, revoke, code) in [
            ("CREATE ROLE rx LOGIN", "DROP ROLE rx", "28000"),
            ("CREATE ROLE rx LOGIN", "ALTER ROLE rx NOLOGIN", "28000"),
            (
                "ALTER ROLE rx LOGIN",
                "REVOKE CONNECT ON DATABASE postgres FROM PUBLIC",
                "42501",
            ),
            (
                "GRANT CONNECT ON DATABASE postgres TO PUBLIC",
                "DROP ROLE rx; CREATE ROLE rx",
                "28000",
            ),
        ] {
            admin.batch_execute(make).await.unwrap();
            let user = "SELECT session_user";
            assert_eq!(text(&connect().await.unwrap(), user).await, "rx", "{make}");
            admin.batch_execute(revoke).await.unwrap();
            let refused = connect().await.err().unwrap();
            let refused = refused.code().map(|code| code.code().to_owned());
            assert_eq!(refused.as_deref(), Some(code), "{revoke}");
        }
        // Of a role that was made again, no connection of the first one is used.
        admin.batch_execute("ALTER ROLE rx LOGIN").await.unwrap();
        let again = connect().await.unwrap();
        assert_eq!(text(&again, "SELECT current_user").await, "rx");
        admin.batch_execute("DROP ROLE rx").await.unwrap();
    }
}
