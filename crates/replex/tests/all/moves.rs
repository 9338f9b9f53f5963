//! Partitions move between servers that serve, under load: to an added server, and off a drained
//! one.

use placement::Durability;
use protocol::configuration::Configuration;
use protocol::identity::ServerId;

use crate::support;
use crate::support::rows::{self, expect_all, insert};

const ROWS: i64 = 300;

#[tokio::test]
async fn a_server_is_added_and_another_one_drained_while_writes_go_on() {
    let mut cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let table = rows::create(&cluster).await;
    insert(&table, 0..ROWS).await;
    let admin = |command: &[&str]| {
        let arguments = [&["admin"], command, &["-C", &address]].concat();
        support::run_well(&arguments)
    };

    let added = cluster.add_server().await.unwrap();
    let new = ServerId(added as u32 + 1);
    insert(&table, ROWS..2 * ROWS).await;
    let shares = |it: &Configuration| it.holds(new) && it.is_at_rest();
    cluster
        .wait_until("the new server holds its share", shares)
        .await
        .unwrap();

    let drained = table.definition().placement[0][0].core.server;
    let number = drained.0.to_string();
    admin(&["server", "drain", &number, "--no-wait"]);
    insert(&table, 2 * ROWS..3 * ROWS).await;
    let drain = admin(&["server", "drain", &number]);
    assert!(drain.contains("holds nothing any more"), "{drain}");
    let configuration = cluster.configuration().await.unwrap();
    assert!(!configuration.holds(drained));
    expect_all(&table, 0..3 * ROWS).await;
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");

    // It may be stopped for good: no copy is missing then.
    cluster.stop(drained.0 as usize - 1).await.unwrap();
    admin(&["server", "remove", &number]);
    insert(&table, 3 * ROWS..3 * ROWS + 20).await;
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
}

#[tokio::test]
async fn server_without_a_substitute_is_not_drained() {
    let cluster = support::cluster(2).await;
    let address = cluster.coordinator_address().to_owned();
    support::create(&cluster, support::people(1, Durability::Sync)).await;
    let drain = ["admin", "server", "drain", "1", "-C", &address];
    let refused = support::run_badly(&drain, 1);
    assert!(
        refused.contains("would not survive the 1 failures"),
        "{refused}"
    );
    let list = support::run_well(&["admin", "server", "list", "-C", &address]);
    assert!(!list.contains("draining"), "{list}");
}
