//! A session that changes settings which concern only itself goes on with any connection that has
//! the same: it reads at replicas, rows look as on the primary, and no other session notices.

use pg_local::Postgres;
use pg_wire::message::parameter_status;
use pg_wire::startup;

use crate::support;
use crate::support::cluster::Cluster;
use crate::support::raw::Raw;
use crate::support::{Front, connect, is_there, options};

const SETUP: &str = "
    CREATE TABLE t (id int PRIMARY KEY, at timestamptz, d date, span interval, f float8, raw bytea);
    INSERT INTO t VALUES (1, '2024-01-02 00:00:00+00', '2024-01-02', '1 day 2 hours', 0.1::float8 + 0.2, 'ab');
    CREATE SCHEMA a; CREATE TABLE a.s (id int PRIMARY KEY, n int); INSERT INTO a.s VALUES (1, 10);
    CREATE SCHEMA b; CREATE TABLE b.s (id int PRIMARY KEY, n int); INSERT INTO b.s VALUES (1, 20)";
/// Of statements that change settings.
const SESSION: &str = "the primary, it is about the session";
const THERE: &str = "replica 1";
const AT: &str = "SELECT at FROM t WHERE id = 1";
const UTC: &str = "T'2024-01-02 00:00:00+00'CZI";
const TOKYO: &str = "T'2024-01-02 09:00:00+09'CZI";

/// A statement that sets something, a read, and the answer of the read from then on.
const LOOKS: &[(&str, &str, &str)] = &[
    ("SET TimeZone = 'Asia/Tokyo'", AT, TOKYO),
    (
        "SET TIME ZONE INTERVAL '-02:30' HOUR TO MINUTE",
        AT,
        "T'2024-01-01 21:30:00-02:30'CZI",
    ),
    (
        "SET SESSION DateStyle TO German",
        "SELECT d FROM t",
        "T'02.01.2024'CZI",
    ),
    (
        "SET IntervalStyle TO 'iso_8601'",
        "SELECT span FROM t",
        "T'P1DT2H'CZI",
    ),
    ("SET extra_float_digits = 0", "SELECT f FROM t", "T'0.3'CZI"),
    (
        "SET extra_float_digits = 3",
        "SELECT f FROM t",
        "T'0.30000000000000004'CZI",
    ),
    ("SET bytea_output = escape", "SELECT raw FROM t", "T'ab'CZI"),
    (
        "SET search_path = b, public",
        "SELECT n FROM s WHERE id = 1",
        "T'20'CZI",
    ),
    (
        "SET client_min_messages TO warning; SET standard_conforming_strings = on; SET TIME ZONE 'UTC'",
        "SELECT to_char(at, 'HH24:MI') FROM t",
        "T'00:00'CZI",
    ),
    (
        "SELECT set_config('work_mem', '1MB', false)",
        "SELECT d FROM t",
        "T'02.01.2024'CZI",
    ),
    (
        "SET statement_timeout = '20s'; SET lock_timeout = '5s'; SET enable_seqscan = off; SET jit TO off",
        "SELECT d FROM t",
        "T'02.01.2024'CZI",
    ),
    (
        "SET xmloption = document; SET lc_monetary = 'C'; SET lc_numeric = 'C'; SET lc_time = 'C'",
        "SELECT d FROM t",
        "T'02.01.2024'CZI",
    ),
    ("SET NAMES 'UTF8'", "SELECT d FROM t", "T'02.01.2024'CZI"),
    (
        "SET default_text_search_config = 'simple'",
        "SELECT to_tsvector('the') FROM t WHERE id = 1",
        "T''the':1'CZI",
    ),
];

/// A session with notices of where its statements go, with these settings from its start.
async fn traced(cluster: &Cluster, settings: &[(&str, &str)]) -> Raw {
    let mut raw = Raw::connect(cluster.front.address).await;
    let identity = [("user", "postgres"), ("database", "postgres")];
    raw.out = startup::write(identity.into_iter().chain(settings.iter().copied()));
    raw.flush().await;
    raw.until_ready().await;
    raw.converse(&[("SET replex.trace = on", "CZI")]).await;
    raw
}

async fn cluster() -> Cluster {
    let cluster = Cluster::start_after(SETUP).await;
    cluster.settle().await;
    cluster
}

/// Returns the settings that are reported to the client in the answer to a text.
async fn changed_settings(raw: &mut Raw, text: &str) -> Vec<(String, String)> {
    raw.query(text).flush().await;
    let mut settings = Vec::new();
    while let Some((tag, body)) = raw.message().await {
        match tag {
            b'S' => {
                let (name, value) = parameter_status(&body).unwrap();
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                settings.push((text(&name), text(&value)));
            }
            b'Z' => break,
            _ => {}
        }
    }
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_look_the_same_at_replicas() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[("TimeZone", "UTC")]).await;
    raw.converse_at(&[(AT, THERE, UTC)]).await;
    for (set, read, expected) in LOOKS {
        raw.query(set);
        let (went, reply) = raw.reply_at().await;
        assert!(
            went.starts_with(SESSION) && !reply.contains('['),
            "{set}: {went} {reply}"
        );
        raw.converse_at(&[(read, THERE, expected)]).await;
    }
    // The primary has the same.
    for (show, expected) in [
        ("SHOW work_mem", "T'1MB'CZI"),
        ("SHOW TimeZone", "T'UTC'CZI"),
        ("SHOW search_path", "T'b, public'CZI"),
        ("SHOW statement_timeout", "T'20s'CZI"),
    ] {
        raw.converse_at(&[(show, SESSION, expected)]).await;
    }
    // A setting that is not the session's own binds it.
    raw.converse_at(&[
        ("SET a.b = 1", SESSION, "CZI"),
        ("SELECT d FROM t", "the primary", "T'02.01.2024'CZI"),
        ("SHOW extra_float_digits", "the primary", "T'3'CZI"),
    ])
    .await;
}

/// As drivers do that always prepare, and that send parameters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_by_extended_messages() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[("TimeZone", "UTC")]).await;
    for set in [
        "SET extra_float_digits = 0",
        "SET application_name = 'mine'",
    ] {
        raw.parse("", set).bind("").execute(0).sync();
        assert_eq!(raw.reply_at().await, (SESSION.into(), "12CZI".into()));
    }
    raw.parse("read", "SELECT f FROM t")
        .bind("read")
        .execute(0)
        .sync();
    let (went, reply) = raw.reply_at().await;
    assert!(went.starts_with(THERE), "{went}");
    assert_eq!(reply, "12'0.3'CZI");
    raw.converse_at(&[("SHOW application_name", SESSION, "T'mine'CZI")])
        .await;
    // A statement that was prepared before it is run later, twice. A statement that was prepared
    // before it uses the current settings.
    raw.parse("tokyo", "SET TimeZone = 'Asia/Tokyo'").sync();
    raw.reply_at().await;
    let literal = "SELECT id FROM t WHERE at = '2024-01-02 09:00'";
    raw.parse("literal", literal)
        .bind("literal")
        .execute(0)
        .sync();
    assert_eq!(raw.reply_at().await.1, "12CZI");
    for _ in 0..2 {
        raw.bind("tokyo").execute(0).sync();
        assert_eq!(raw.reply_at().await.1, "2CZI");
        raw.converse_at(&[(AT, THERE, TOKYO)]).await;
        raw.bind("literal").execute(0).sync();
        let (went, reply) = raw.reply_at().await;
        assert!(went.starts_with(THERE), "{went}");
        assert_eq!(reply, "2'1'CZI");
        raw.converse_at(&[("RESET TimeZone", SESSION, "CZI"), (AT, THERE, UTC)])
            .await;
    }
    // In one batch with a statement that reads by it.
    raw.parse("", "SET search_path = a").bind("").execute(0);
    raw.parse("", "UPDATE s SET n = n + 1").bind("").execute(0);
    assert_eq!(raw.sync().reply_at().await.1, "12C12CZI");
    cluster.settle().await;
    raw.converse_at(&[("SELECT n FROM s", THERE, "T'11'CZI")])
        .await;
    let client = cluster.front.connect().await;
    let set = "SELECT set_config('DateStyle', $1, false)";
    client.query_one(set, &[&"German"]).await.unwrap();
    let before = cluster.served();
    let row = client
        .query_one("SELECT d::text FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, String>(0), "02.01.2024");
    assert!(cluster.served() > before);
}

/// Names have the meaning of the server where a statement runs, for reads and for writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_looked_up_where_the_server_does() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[("search_path", "a")]).await;
    let read = "SELECT n FROM s WHERE id = 1";
    let update = "UPDATE s SET n = n + 1 WHERE id = 1";
    let touches = |raw: &mut Raw| {
        let notice = raw.notices.pop().expect("it is traced");
        notice
            .detail
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    for (set, schema, n) in [
        ("SET search_path = b", "b", [21, 22]),
        ("RESET search_path", "a", [11, 12]),
        ("SET SCHEMA 'b'", "b", [23, 24]),
    ] {
        raw.converse(&[(set, "NCZI")]).await;
        raw.notices.clear();
        for n in n {
            raw.query(update).reply().await;
            assert_eq!(touches(&mut raw), format!("{schema}.s"), "{set}");
            // It is Pending under its own name, so that no session reads the earlier rows.
            raw.query(read);
            let reply = raw.reply().await.replace('N', "");
            assert_eq!(reply, format!("T'{n}'CZI"), "{set}");
            assert_eq!(touches(&mut raw), format!("{schema}.s"), "{set}");
            cluster.settle().await;
            raw.converse_at(&[(read, THERE, &format!("T'{n}'CZI"))])
                .await;
        }
    }
    // In one text nothing is known of the later statements.
    for text in [
        "SET search_path = a; UPDATE s SET n = 30 WHERE id = 1",
        "BEGIN; SET LOCAL search_path = b; UPDATE s SET n = 40 WHERE id = 1; COMMIT",
    ] {
        raw.query(text).reply().await;
        assert_eq!(touches(&mut raw), "any", "{text}");
    }
    cluster.settle().await;
    raw.converse_at(&[(read, THERE, "T'30'CZI")]).await;
    raw.converse_at(&[("SELECT n FROM b.s", THERE, "T'40'CZI")])
        .await;
    // A table that is made in the schema of temporary tables is the session's alone.
    raw.converse_at(&[
        ("SET search_path = 'pg_temp', b", SESSION, "CZI"),
        ("CREATE TABLE mine (id int)", "the primary", "CZI"),
        (read, "the primary", "T'40'CZI"),
    ])
    .await;
    let found = cluster.front.connect().await;
    let count = "SELECT count(*) FROM pg_class WHERE relname = 'mine'";
    drop(raw);
    support::cluster::wait("end of the temporary table", || async {
        (support::cluster::text(&found, count).await == "0").then_some(())
    })
    .await;
}

/// A user that may not use a schema does not find its tables.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_that_are_closed_to_its_user() {
    if !is_there() {
        return;
    }
    let roles = "CREATE ROLE ann LOGIN; GRANT USAGE ON SCHEMA b TO ann; GRANT ALL ON b.s TO ann";
    let cluster = Cluster::start_after(&format!("{SETUP}; {roles}")).await;
    cluster.settle().await;
    let mut raw = traced(&cluster, &[("user", "ann")]).await;
    raw.converse_at(&[
        ("SET search_path = b", SESSION, "CZI"),
        ("SELECT n FROM s", THERE, "T'20'CZI"),
        ("SET search_path = a, b", SESSION, "CZI"),
        ("SELECT n FROM s", "the primary", "T'20'CZI"),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_change_nothing() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[("TimeZone", "UTC")]).await;
    raw.converse_at(&[
        ("SET TimeZone = 'Nowhere'", SESSION, "[22023]ZI"),
        (AT, THERE, UTC),
        (
            "SET TimeZone = 'Asia/Tokyo'; SET jit = 'perhaps'",
            SESSION,
            "C[22023]ZI",
        ),
        (AT, THERE, UTC),
        ("SET enable_nothing = on", SESSION, "[42704]ZI"),
        (
            "SELECT set_config('TimeZone', 'Nowhere', false)",
            SESSION,
            "T[22023]ZI",
        ),
        ("SET TimeZone = 'Asia/Tokyo'", SESSION, "CZI"),
        ("SET TimeZone = 'Nowhere'", SESSION, "[22023]ZI"),
        (AT, THERE, TOKYO),
        ("SET statement_timeout = '-7'", SESSION, "[22023]ZI"),
        (AT, THERE, TOKYO),
    ])
    .await;
}

/// A setting goes back to the session's initial value, whatever its connections were opened with,
/// and is reported to the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_go_back() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let login = [("TimeZone", "Asia/Tokyo"), ("DateStyle", "German")];
    for back in [
        "RESET TimeZone",
        "SET TimeZone TO DEFAULT",
        "SET TIME ZONE LOCAL",
        "RESET ALL",
        "DISCARD ALL",
        "SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL",
    ] {
        let mut raw = traced(&cluster, &login).await;
        raw.converse(&[("SET DateStyle = ISO", "NCZI")]).await;
        let changed =
            changed_settings(&mut raw, "SET TimeZone = 'UTC'; SET work_mem = '2MB'").await;
        assert_eq!(changed, [("TimeZone".into(), "UTC".into())], "{back}");
        raw.converse_at(&[(AT, THERE, UTC)]).await;
        let changed = changed_settings(&mut raw, back).await;
        let zone = ("TimeZone".to_owned(), "Asia/Tokyo".to_owned());
        assert!(changed.contains(&zone), "{back}: {changed:?}");
        let is_all = back.contains("ALL");
        let (at, work_mem) = match is_all {
            true => ("T'02.01.2024 09:00:00 JST'CZI", "T'4MB'CZI"),
            false => (TOKYO, "T'2MB'CZI"),
        };
        assert_eq!(
            changed.len(),
            if is_all { 2 } else { 1 },
            "{back}: {changed:?}"
        );
        raw.converse_at(&[
            (AT, THERE, at),
            ("SHOW TimeZone", SESSION, "T'Asia/Tokyo'CZI"),
            ("SHOW work_mem", SESSION, work_mem),
            ("SET TimeZone = 'UTC'", SESSION, "CZI"),
            ("SHOW TimeZone", SESSION, "T'UTC'CZI"),
        ])
        .await;
    }
}

/// A setting of a transaction is there if it commits, and only then. psycopg begins a transaction
/// in front of everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_transaction() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[("TimeZone", "UTC")]).await;
    let set = "SET TimeZone = 'Asia/Tokyo'";
    let inside = |expected: &str| expected.replace("CZI", "CZT");
    for (end, after) in [
        (&["ROLLBACK"][..], UTC),
        (
            &[
                "SAVEPOINT a",
                "SET TimeZone = 'Asia/Seoul'",
                "ROLLBACK TO a",
                "COMMIT",
            ][..],
            TOKYO,
        ),
        (&["SET TimeZone = 'UTC'", "COMMIT"][..], UTC),
        (&["COMMIT"][..], TOKYO),
    ] {
        raw.converse_at(&[
            ("BEGIN", "no server", "CZT"),
            (set, SESSION, "CZT"),
            (AT, "the primary", &inside(TOKYO)),
        ])
        .await;
        for (index, text) in end.iter().enumerate() {
            let expected = if index + 1 == end.len() { "CZI" } else { "CZT" };
            raw.converse_at(&[(text, "the primary", expected)]).await;
        }
        cluster.settle().await;
        raw.converse_at(&[(AT, THERE, after)]).await;
    }
    let fails: &[(&str, &str, &str)] = &[
        ("BEGIN", "no server", "CZT"),
        ("SET TimeZone = 'UTC'", SESSION, "CZT"),
        ("SELECT 1/0", "the primary", "[22012]ZE"),
        ("COMMIT", "the primary", "CZI"),
    ];
    let in_one_text = "BEGIN; SET TimeZone = 'UTC'; COMMIT";
    let (tokyo, utc) = (&*inside(TOKYO), &*inside(UTC));
    // Its reads use the setting before it.
    let writes = &[
        (set, SESSION, "CZI"),
        ("BEGIN", "no server", "CZT"),
        (AT, THERE, tokyo),
        ("UPDATE a.s SET n = 7", "the primary, it writes", "CZT"),
        (AT, THERE, tokyo),
        ("COMMIT", "the primary", "CZI"),
    ];
    let sets_for_itself = &[
        ("BEGIN", "no server", "CZT"),
        ("SET LOCAL TimeZone = 'UTC'", SESSION, "CZT"),
        (AT, "the primary", utc),
        ("COMMIT", "the primary", "CZI"),
    ];
    for (steps, after) in [
        (fails, TOKYO),
        (&[(in_one_text, "the primary", "CCCZI")], UTC),
        (writes, TOKYO),
        (sets_for_itself, TOKYO),
    ] {
        raw.converse_at(steps).await;
        cluster.settle().await;
        raw.converse_at(&[(AT, THERE, after)]).await;
    }
}

/// Transactions have the session's default isolation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn isolation_by_default() {
    if !is_there() {
        return;
    }
    let cluster = cluster().await;
    let mut raw = traced(&cluster, &[]).await;
    let read = "SELECT n FROM a.s";
    let snapshot = "replica 1, its transaction has its snapshot there";
    raw.converse_at(&[
        (
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            SESSION,
            "CZI",
        ),
        ("BEGIN READ ONLY", "no server", "CZT"),
        (read, THERE, "T'10'CZT"),
        (read, snapshot, "T'10'CZT"),
        ("COMMIT", snapshot, "CZI"),
        ("BEGIN", "the primary", "CZT"),
        (
            "SHOW transaction_isolation",
            "the primary",
            "T'repeatable read'CZT",
        ),
        ("COMMIT", "the primary", "CZI"),
        (
            "SET default_transaction_isolation = serializable",
            SESSION,
            "CZI",
        ),
        (read, "the primary", "T'10'CZI"),
        ("BEGIN READ ONLY", "the primary", "CZT"),
        (read, "the primary", "T'10'CZT"),
        ("COMMIT", "the primary", "CZI"),
        ("RESET default_transaction_isolation", SESSION, "CZI"),
        ("BEGIN", "no server", "CZT"),
        (read, THERE, "T'10'CZT"),
        ("COMMIT", "no server", "CZI"),
    ])
    .await;
}

/// Where a replica does not take the settings, its session reads on the primary, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_a_replica_refuses() {
    if !is_there() {
        return;
    }
    let words = "CREATE TEXT SEARCH CONFIGURATION words (COPY = simple)";
    let cluster = Cluster::start_after(&format!("{SETUP}; {words}")).await;
    let there = connect(cluster.replicas[0].socket()).await;
    let gone = "SET session_replication_role = replica; DROP TEXT SEARCH CONFIGURATION words";
    there.batch_execute(gone).await.unwrap();
    cluster.settle().await;
    let mut raw = traced(&cluster, &[]).await;
    let read = "SELECT n FROM a.s WHERE id = 1";
    let unfit = "the primary, the replica does not take its settings";
    raw.converse_at(&[
        (read, THERE, "T'10'CZI"),
        ("SET default_text_search_config = 'words'", SESSION, "CZI"),
        (read, "the primary, since", "T'10'CZI"),
        // It is not asked again.
        (read, unfit, "T'10'CZI"),
        ("RESET default_text_search_config", SESSION, "CZI"),
        (read, THERE, "T'10'CZI"),
    ])
    .await;
}

/// Sessions with settings of all kinds share two connections. Each finds its own settings after any
/// other session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_reach_no_other_session() {
    if !is_there() {
        return;
    }
    let postgres = Postgres::start(&[]).unwrap();
    let front = Front::start(options(&postgres, 2)).await;
    let shown = "SELECT current_setting('work_mem') || current_setting('TimeZone') || current_setting('search_path')
        || current_setting('application_name')";
    let setups: [(&str, &str); 5] = [
        ("SELECT 1", "4MBEtc/UTC\"$user\", public"),
        (
            "SET work_mem = '1MB'; SET TimeZone = 'Asia/Tokyo'",
            "1MBAsia/Tokyo\"$user\", public",
        ),
        (
            "SET search_path = x, \"Y\"; SET work_mem = '2MB'",
            "2MBEtc/UTCx, \"Y\"",
        ),
        (
            "BEGIN; SET work_mem = '3MB'; ROLLBACK",
            "4MBEtc/UTC\"$user\", public",
        ),
        (
            "SET application_name = 'it''s'; SET work_mem = '5MB'",
            "5MBEtc/UTC\"$user\", publicit's",
        ),
    ];
    let mut sessions = Vec::new();
    for (setup, _) in setups {
        let mut raw = Raw::log_in(front.address).await;
        raw.converse(&[("SET TimeZone = 'Etc/UTC'", "CZI")]).await;
        raw.query(setup);
        let reply = raw.reply().await;
        assert!(!reply.contains('['), "{setup}: {reply}");
        raw.parse("shown", shown).sync();
        assert_eq!(raw.reply().await, "1ZI");
        sessions.push(raw);
    }
    for round in 0..6 {
        for (raw, (setup, expected)) in sessions.iter_mut().zip(setups) {
            if round % 2 == 0 {
                raw.query(shown);
                assert_eq!(raw.reply().await, format!("T'{expected}'CZI"), "{setup}");
            } else {
                raw.bind("shown").execute(0).sync();
                assert_eq!(raw.reply().await, format!("2'{expected}'CZI"), "{setup}");
            }
        }
        if round == 3 {
            // Clients that leave in the middle of it leave nothing.
            let mut gone = Raw::log_in(front.address).await;
            gone.converse(&[("BEGIN", "CZT"), ("SET work_mem = '9MB'", "CZT")])
                .await;
            let mut bound = Raw::log_in(front.address).await;
            let bind = "SET work_mem = '8MB'; CREATE TEMP TABLE mine (id int)";
            bound.converse(&[(bind, "CCZI")]).await;
        }
    }
}

/// The proxy's own query between transactions makes no temporary schema, which PostgreSQL makes
/// when it is looked at: a transaction that has done so cannot be prepared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_schema_is_made_by_the_client() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["max_prepared_transactions=2"]).unwrap();
    let cluster = Cluster::of(primary, 1).await;
    for path in ["pg_temp", "\"pg_temp\", public"] {
        for address in [cluster.primary.socket(), cluster.front.address] {
            let mut raw = Raw::log_in(address).await;
            let set = format!("SET search_path = {path}");
            raw.converse(&[
                (&set, "CZI"),
                ("SELECT pg_my_temp_schema() = 0", "T't'CZI"),
                ("BEGIN", "CZT"),
                ("SELECT current_schema() ~ '^pg_temp'", "T't'CZT"),
                ("PREPARE TRANSACTION 'looked'", "[0A000]ZI"),
                ("SELECT pg_my_temp_schema() = 0", "T't'CZI"),
            ])
            .await;
        }
    }
}

/// Warnings about a place in a text that the proxy prefixes are about the client's text.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notices_have_places() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after("SELECT 1").await;
    let make = "CREATE FUNCTION f(a int) RETURNS int LANGUAGE plpgsql AS $$DECLARE a int; BEGIN RETURN 1; END$$";
    let mut places = Vec::new();
    for address in [cluster.primary.socket(), cluster.front.address] {
        let client = connect(address).await;
        client
            .batch_execute("DROP FUNCTION IF EXISTS f")
            .await
            .unwrap();
        let mut raw = Raw::log_in(address).await;
        raw.query("SET plpgsql.extra_warnings = 'shadowed_variables'");
        raw.reply().await;
        raw.query(make).flush().await;
        while let Some((tag, body)) = raw.message().await {
            match tag {
                b'N' => {
                    let place = body
                        .split(|byte| *byte == 0)
                        .find(|it| it.starts_with(b"P"));
                    places.push(String::from_utf8_lossy(place.unwrap()).into_owned());
                }
                b'E' => panic!("{}", String::from_utf8_lossy(&body)),
                b'Z' => break,
                _ => {}
            }
        }
    }
    assert_eq!(places.len(), 2);
    assert_eq!(places[0], places[1]);
}
