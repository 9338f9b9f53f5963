//! A replica that has crashed has lost its unflushed commits. Until replication has noticed, only a
//! session that opens a connection there can know.

use pg_local::{Postgres, SUPERUSER};
use pg_wire::startup::StartupPacket;
use proxy_core::freshness::ServerLife;
use proxy_pool::{ConnectionKey, ServerLogin, ServerNode};

use crate::support::{connect, is_there};

/// A key with both halves in use, and bit 31 of the lower one set.
const BEFORE: ServerLife = ServerLife(0x0012_3456_89ab_cdef);
const AFTER: ServerLife = ServerLife(0x0012_3456_89ab_cdee);

async fn lock(postgres: &Postgres, ServerLife(key): ServerLife) -> tokio_postgres::Client {
    let session = connect(postgres.socket()).await;
    let lock = format!("SELECT pg_advisory_lock({key})");
    session.batch_execute(&lock).await.unwrap();
    session
}

#[tokio::test]
async fn server_in_another_life_is_found_out_by_new_connections() {
    if !is_there() {
        return;
    }
    let mut postgres = Postgres::start(&[]).unwrap();
    let node = ServerNode::new(postgres.address("postgres"), 2);
    let startup = StartupPacket {
        minor: 0,
        parameters: vec![("database".into(), "postgres".into())],
    };
    let key = ConnectionKey::of(&startup, SUPERUSER);
    let login = ServerLogin::default();
    let asked = async |life| match node.take_for_read(&key, &login, life).await {
        Ok(mut connection) => {
            let answer = connection.row("SELECT 1").await;
            match answer.is_ok() {
                true => node.give_back(connection),
                false => node.close(connection),
            }
            answer.is_ok()
        }
        Err(_) => false,
    };
    assert!(
        !asked(BEFORE).await,
        "no connection is left that could report it"
    );
    let _first = lock(&postgres, BEFORE).await;
    assert!(asked(BEFORE).await);
    assert_eq!(node.usage().idle, 1);

    postgres.crash().unwrap();
    postgres.start_again().unwrap();
    // The first time it may be the idle one, which was not seen to be closed yet.
    for _ in 0..3 {
        assert!(!asked(BEFORE).await);
    }
    assert_eq!(node.usage().open, 0);
    let _second = lock(&postgres, AFTER).await;
    assert!(!asked(BEFORE).await);
    assert!(asked(AFTER).await);
}
