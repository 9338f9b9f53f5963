//! Process numbers: a client uses the one that it was given, and hits the client that it means.

use pg_wire::report::Report;
use pg_wire::startup;
use tokio_postgres::error::SqlState;

use crate::support;
use crate::support::cluster::{Cluster, text, wait};
use crate::support::raw::Raw;
use crate::support::{connect, connect_by, is_there};

/// A session that waits for messages, and the process number that it was given.
async fn session(cluster: &Cluster) -> (Raw, u32) {
    let mut raw = Raw::connect(cluster.front.address).await;
    raw.out = startup::write([("user", "postgres"), ("database", "postgres")]);
    raw.flush().await;
    let mut process = 0;
    loop {
        let (tag, body) = raw.message().await.unwrap();
        match tag {
            b'K' => process = u32::from_be_bytes(*body.first_chunk().unwrap()),
            b'Z' => return (raw, process),
            _ => {}
        }
    }
}

/// Runs a query. Returns what came, see [`Raw::until_ready`].
async fn run(raw: &mut Raw, query: &str) -> String {
    raw.query(query).flush().await;
    raw.until_ready().await
}

/// The SQLSTATE with which a server ends a session.
async fn ended(raw: &mut Raw) -> String {
    let (tag, body) = raw.message().await.expect("the server sends the reason");
    assert_eq!(tag, b'E');
    let code = Report::read(&body).code.to_string();
    assert!(raw.message().await.is_none(), "nothing comes behind it");
    code
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_knows_its_process_by_one_number() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (mut raw, number) = session(&cluster).await;
    for query in [
        "SELECT pg_backend_pid()",
        "BEGIN",
        "SELECT pg_catalog.pg_backend_pid()",
        "COMMIT",
        "CREATE TEMP TABLE mine (process int DEFAULT 0)",
        "INSERT INTO mine VALUES (pg_backend_pid())",
        "SELECT process FROM mine",
    ] {
        let answer = run(&mut raw, query).await;
        if query.contains("process FROM") || query.contains("pid()") && query.starts_with("SEL") {
            assert!(answer.contains(&format!("'{number}'")), "{query}: {answer}");
        }
        assert!(!answer.contains('['), "{query}: {answer}");
    }
    // A statement about processes has the server's numbers, and finds the client's row by its own.
    let found = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {number}");
    assert!(run(&mut raw, &found).await.contains("'1'"));
    let own = "SELECT count(*) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    assert!(run(&mut raw, own).await.contains("'1'"));
}

/// However the number is sent, and whatever its client does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_sessions_are_those_that_are_named() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let killer = cluster.front.connect().await;
    let (mut bystander, _) = session(&cluster).await;
    let prepared = killer.prepare("SELECT pg_terminate_backend($1)").await;
    let prepared = prepared.unwrap();
    for (way, before) in ["", "BEGIN; SELECT 1 FROM pg_class LIMIT 1", "LISTEN x", ""]
        .into_iter()
        .enumerate()
    {
        let (mut victim, number) = session(&cluster).await;
        if !before.is_empty() {
            run(&mut victim, before).await;
        }
        // Its connection is used by others meanwhile.
        assert_eq!(
            run(&mut bystander, "SELECT 1 FROM pg_class LIMIT 1").await,
            "T'1'CZI"
        );
        let is_hit: bool = match way {
            0 | 1 => {
                let sql = format!("SELECT pg_terminate_backend({number})");
                text(&killer, &sql).await == "t"
            }
            2 => {
                let number = i32::try_from(number).unwrap();
                killer
                    .query_one(&prepared, &[&number])
                    .await
                    .unwrap()
                    .get(0)
            }
            // The text of an unnamed statement has the number.
            _ => {
                let (mut raw, _) = session(&cluster).await;
                raw.parse("", &format!("SELECT pg_terminate_backend({number})"));
                raw.bind("").execute(0).sync().flush().await;
                raw.until_ready().await.contains("'t'")
            }
        };
        assert!(is_hit, "{way}");
        assert_eq!(ended(&mut victim).await, "57P01", "{way}");
        assert_eq!(
            run(&mut bystander, "SELECT 2 FROM pg_class LIMIT 1").await,
            "T'2'CZI"
        );
    }
    // A session that has ended is none any more, nor is that of another proxy.
    let (raw, number) = session(&cluster).await;
    drop(raw);
    wait("the session to end", || async {
        let sql = format!("SELECT pg_terminate_backend({number})");
        (text(&killer, &sql).await == "f").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_can_end_itself() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    for query in [
        "SELECT pg_terminate_backend(N)",
        "SELECT pg_terminate_backend(pg_backend_pid())",
    ] {
        for _ in 0..5 {
            let (mut raw, number) = session(&cluster).await;
            raw.query(&query.replace('N', &number.to_string()))
                .flush()
                .await;
            let mut code = String::new();
            while let Some((tag, body)) = raw.message().await {
                assert_ne!(tag, b'Z', "{query}: the statement itself ends the session");
                if tag == b'E' {
                    code = Report::read(&body).code.to_string();
                }
            }
            assert_eq!(code, "57P01", "{query}");
        }
    }
    // The same by a parameter.
    for _ in 0..5 {
        let client = cluster.front.connect().await;
        let number = text(&client, "SELECT pg_backend_pid()").await;
        let number: i32 = number.parse().unwrap();
        let sql = "SELECT pg_terminate_backend($1)";
        let error = client.query(sql, &[&number]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::ADMIN_SHUTDOWN), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_statements_are_those_of_the_named_session() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let admin = cluster.front.connect().await;
    let (mut idle, idle_number) = session(&cluster).await;
    let (mut busy, number) = session(&cluster).await;
    busy.query("SELECT pg_sleep(3600)").flush().await;
    let runs = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {number} AND state = 'active' AND query LIKE '%3600%'"
    );
    wait("the statement to run", || async {
        (text(&admin, &runs).await == "1").then_some(())
    })
    .await;
    let cancel = |number| format!("SELECT pg_cancel_backend({number})");
    // An idle session has no statement, and goes on.
    for _ in 0..3 {
        assert_eq!(text(&admin, &cancel(idle_number)).await, "t");
        assert_eq!(
            run(&mut idle, "SELECT 1 FROM pg_class LIMIT 1").await,
            "T'1'CZI"
        );
    }
    assert_eq!(text(&admin, &cancel(number)).await, "t");
    assert_eq!(busy.until_ready().await, "T[57014]ZI");
    assert_eq!(
        run(&mut busy, "SELECT 1 FROM pg_class LIMIT 1").await,
        "T'1'CZI"
    );
}

/// PostgreSQL decides who may end which session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_users_may_not_end_a_session() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after("CREATE ROLE ann LOGIN").await;
    let (mut raw, number) = session(&cluster).await;
    let address = cluster.front.address;
    let line = format!(
        "host={} port={} user=ann dbname=postgres",
        address.ip(),
        address.port()
    );
    let ann = connect_by(&line).await;
    let sql = format!("SELECT pg_terminate_backend({number})");
    let refused = ann.simple_query(&sql).await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    assert_eq!(
        run(&mut raw, "SELECT 1 FROM pg_class LIMIT 1").await,
        "T'1'CZI"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_name_the_client_that_sent_them() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start(1).await;
    let (mut listener, own) = session(&cluster).await;
    let (mut other, number) = session(&cluster).await;
    run(&mut listener, "LISTEN x").await;
    let from = |tag: u8, body: &[u8]| {
        (tag == b'A').then(|| u32::from_be_bytes(*body.first_chunk().unwrap()))
    };
    run(&mut other, "NOTIFY x, 'theirs'").await;
    let (tag, body) = listener.message().await.unwrap();
    assert_eq!(from(tag, &body), Some(number));
    listener.query("NOTIFY x, 'own'").flush().await;
    let mut found = None;
    while found.is_none() {
        let (tag, body) = listener.message().await.unwrap();
        found = from(tag, &body);
    }
    assert_eq!(found, Some(own));
}

/// Every view of PostgreSQL that has numbers of processes is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_views_of_processes_are_known() {
    if !is_there() {
        return;
    }
    let postgres = pg_local::Postgres::start(&[]).unwrap();
    let admin = connect(postgres.socket()).await;
    let views = text(
        &admin,
        "SELECT string_agg(DISTINCT c.relname, ' ') FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          WHERE c.relnamespace = 'pg_catalog'::regnamespace AND a.attname ~ '(^|_)pid$'",
    )
    .await;
    let functions = text(
        &admin,
        "SELECT string_agg(DISTINCT p.proname, ' ') FROM pg_proc p
          WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname <> 'pg_backend_pid'
            AND (p.proargnames && '{pid,active_pid}' OR p.proname ~ '_pids?$|_backend$|session_is_blocked|backend_memory_contexts$')
            AND p.proname !~ '^pg_(get_backend_memory|stat_get_buf_)'",
    )
    .await;
    let names = views.split(' ').chain(functions.split(' '));
    let unknown: Vec<&str> = names
        .filter(|name| !pg_analysis::client_view::is_of_processes(name))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// psql describes tables without the proxy's publication.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_proxys_publication_is_not_the_clients() {
    if !is_there() {
        return;
    }
    let cluster = Cluster::start_after(
        "CREATE TABLE t (id int PRIMARY KEY); CREATE PUBLICATION mine FOR TABLE t",
    )
    .await;
    let words = [
        "-X",
        "-d",
        "postgres",
        "-c",
        "\\d t",
        "-c",
        "\\dRp",
        "-c",
        "SELECT * FROM pg_publication_tables",
    ];
    let described = support::run(&cluster.primary, "psql", cluster.front.address, &words).await;
    let described = support::printed(&described);
    assert!(described.contains("\"mine\""), "{described}");
    assert!(!described.contains("hihooi"), "{described}");
}
