//! The store with an ordinary driver: prepared statements, transactions, pipelines, portals and
//! cancel requests.

use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, TryStreamExt, future};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, IsolationLevel, NoTls};

use super::Started;

async fn connect(started: &Started) -> Client {
    let url = format!("postgresql://postgres@{}/postgres", started.sql());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn code(error: &Error) -> &str {
    error.code().map_or("", SqlState::code)
}

#[tokio::test]
async fn prepared_statements_with_every_type() {
    let started = Started::new().await;
    let client = connect(&started).await;
    client
        .batch_execute(
            "CREATE TABLE t (id bigint PRIMARY KEY, b boolean, f double precision, s text, y bytea, at \
             timestamp)",
        )
        .await
        .unwrap();
    let insert = client
        .prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6)")
        .await
        .unwrap();
    let names: Vec<&str> = insert.params().iter().map(|it| it.name()).collect();
    assert_eq!(
        names,
        ["int8", "bool", "float8", "text", "bytea", "timestamp"]
    );
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_356_998_400_250_001);
    let (text, bytes) = ("ä\t'\\", &[0_u8, 255, 7][..]);
    let none: Option<bool> = None;
    client
        .execute(&insert, &[&1_i64, &true, &-0.1_f64, &text, &bytes, &at])
        .await
        .unwrap();
    client
        .execute(&insert, &[&2_i64, &none, &f64::NAN, &"", &&b""[..], &at])
        .await
        .unwrap();
    let select = client
        .prepare("SELECT * FROM t WHERE id = $1")
        .await
        .unwrap();
    let row = client.query_one(&select, &[&1_i64]).await.unwrap();
    assert!(row.get::<_, bool>(1));
    assert_eq!(row.get::<_, f64>(2), -0.1);
    assert_eq!(row.get::<_, &str>(3), text);
    assert_eq!(row.get::<_, &[u8]>(4), bytes);
    assert_eq!(row.get::<_, SystemTime>(5), at);
    let row = client.query_one(&select, &[&2_i64]).await.unwrap();
    assert_eq!(row.get::<_, Option<bool>>(1), None);
    assert!(row.get::<_, f64>(2).is_nan());
    let changed = client
        .execute("UPDATE t SET s = $1 WHERE id = $2", &[&"x", &9_i64])
        .await;
    assert_eq!(changed.unwrap(), 0);
}

#[tokio::test]
async fn conflicting_transactions_get_40001() {
    let started = Started::new().await;
    let (mut one, mut other) = (connect(&started).await, connect(&started).await);
    one.batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, n bigint)")
        .await
        .unwrap();
    one.batch_execute("INSERT INTO t VALUES (1, 0)")
        .await
        .unwrap();
    let level = IsolationLevel::Serializable;
    let first = one
        .build_transaction()
        .isolation_level(level)
        .start()
        .await
        .unwrap();
    let second = other
        .build_transaction()
        .isolation_level(level)
        .start()
        .await
        .unwrap();
    for transaction in [&first, &second] {
        let row = transaction
            .query_one("SELECT n FROM t WHERE id = 1", &[])
            .await
            .unwrap();
        let n: i64 = row.get(0);
        let update = "UPDATE t SET n = $1 WHERE id = 1";
        transaction.execute(update, &[&(n + 1)]).await.unwrap();
    }
    first.commit().await.unwrap();
    let lost = second.commit().await.unwrap_err();
    assert_eq!(code(&lost), "40001");
    let row = one.query_one("SELECT n FROM t", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 1);
    let mut failing = one.transaction().await.unwrap();
    let savepoint = failing.savepoint("a").await.unwrap();
    savepoint
        .execute("INSERT INTO t VALUES (2, 2)", &[])
        .await
        .unwrap();
    let error = savepoint
        .execute("INSERT INTO t VALUES (1, 1)", &[])
        .await
        .unwrap_err();
    assert_eq!(code(&error), "23505");
    assert_eq!(error.as_db_error().unwrap().constraint(), Some("t_pkey"));
    let error = savepoint.query("SELECT 1", &[]).await.unwrap_err();
    assert_eq!(code(&error), "25P02");
    savepoint.rollback().await.unwrap();
    failing
        .execute("INSERT INTO t VALUES (3, 3)", &[])
        .await
        .unwrap();
    failing.commit().await.unwrap();
    let rows = one
        .query("SELECT id FROM t ORDER BY id", &[])
        .await
        .unwrap();
    let ids: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, [1, 3]);
}

#[tokio::test]
async fn requests_at_the_same_time_and_portals() {
    let started = Started::new().await;
    let mut client = connect(&started).await;
    client
        .batch_execute("CREATE TABLE t (id bigint PRIMARY KEY)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    let inserts = (0..500_i64).map(|id| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[&id]).await }
    });
    let results = future::join_all(inserts).await;
    assert!(results.into_iter().all(|result| result.unwrap() == 1));
    let transaction = client.transaction().await.unwrap();
    let select = "SELECT id FROM t ORDER BY id";
    let portal = transaction.bind(select, &[]).await.unwrap();
    let mut found = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 77).await.unwrap();
        found.extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        if rows.len() < 77 {
            break;
        }
    }
    assert_eq!(found, (0..500).collect::<Vec<_>>());
    transaction.rollback().await.unwrap();
    let rows = client.query_raw(select, [""; 0]).await.unwrap();
    let rows: Vec<i64> = rows
        .map_ok(|row| row.get::<_, i64>(0))
        .try_collect()
        .await
        .unwrap();
    assert_eq!(rows.len(), 500);
}

/// A read of many pages: it takes a while, and its client does not read the rows.
#[tokio::test]
async fn a_cancel_request_ends_a_long_read() {
    let started = Started::new().await;
    let client = connect(&started).await;
    client
        .batch_execute("CREATE TABLE t (id bigint PRIMARY KEY, pad text)")
        .await
        .unwrap();
    let pad = "x".repeat(200_000);
    for id in 0..60_i64 {
        client
            .execute("INSERT INTO t VALUES ($1, $2)", &[&id, &pad])
            .await
            .unwrap();
    }
    let token = client.cancel_token();
    // The rows are more than all buffers between the server and this test hold.
    let rows = client.query_raw("SELECT * FROM t", [""; 0]).await.unwrap();
    let mut rows = Box::pin(rows);
    rows.next().await.unwrap().unwrap();
    token.cancel_query(NoTls).await.unwrap();
    let mut count = 1;
    let failed = loop {
        match rows.next().await {
            Some(Ok(_)) => count += 1,
            Some(Err(error)) => break Some(error),
            None => break None,
        }
    };
    // A driver that reads ahead may have had all rows before the request arrived.
    match failed {
        Some(error) => assert_eq!(code(&error), "57014"),
        None => assert_eq!(count, 60),
    }
    let row = client
        .query_one("SELECT count(*) FROM t", &[])
        .await
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 60);
}

#[tokio::test]
async fn settings_at_the_start_and_later() {
    let started = Started::new().await;
    let mut config = Config::new();
    let address = started.sql();
    config.user("ann").dbname("shop").application_name("test");
    config.host(address.ip().to_string()).port(address.port());
    config.options("-c statement_timeout=1h -c search_path=public");
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let one = async |text: &str| -> String { client.query_one(text, &[]).await.unwrap().get(0) };
    assert_eq!(one("SHOW application_name").await, "test");
    assert_eq!(one("SHOW statement_timeout").await, "1h");
    assert_eq!(one("SELECT current_user").await, "ann");
    assert_eq!(one("SELECT current_database()").await, "shop");
    assert_eq!(
        one("SELECT set_config('work_mem', '2MB', false)").await,
        "2MB"
    );
    assert_eq!(one("SHOW work_mem").await, "2MB");
    // The statements of asyncpg for a connection that returns to its pool.
    client
        .batch_execute("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;")
        .await
        .unwrap();
    assert_eq!(one("SHOW statement_timeout").await, "1h");
    config.options("-c TimeZone=Nowhere");
    let Err(refused) = config.connect(NoTls).await else {
        panic!("the time zone was accepted")
    };
    assert_eq!(code(&refused), "22023");
}
