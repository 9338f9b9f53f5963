//! A server that is killed for good is replaced: undecided operations are resolved, others rebuild
//! its partitions, and writes go on meanwhile (R4, R17 to R20).

use protocol::configuration::{Configuration, ServerState};

use crate::support;
use crate::support::rows::{self, expect_all, insert, is_quiet};

const ROWS: i64 = 400;

#[tokio::test]
async fn remaining_servers_rebuild_lost_partitions_while_writes_go_on() {
    let mut cluster = support::cluster(4).await;
    let address = cluster.coordinator_address().to_owned();
    let table = rows::create(&cluster).await;
    insert(&table, 0..ROWS).await;
    let lost = table.definition().placement[0][0].core.server;
    let number = lost.0.to_string();
    let admin = |command: &[&str]| {
        let arguments = [&["admin"], command, &["-C", &address]].concat();
        support::run_well(&arguments)
    };
    let refused = ["admin", "server", "remove", &number, "-C", &address];
    let refused = support::run_badly(&refused, 1);
    assert!(refused.contains("is up: stop it first"), "{refused}");

    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let is_down = |configuration: &Configuration| {
        let server = configuration.server(lost);
        server.is_some_and(|server| server.state == ServerState::Down)
    };
    cluster.wait_until("it is down", is_down).await.unwrap();
    admin(&["server", "remove", &number]);
    // Rows of the partitions that are being rebuilt are among them.
    insert(&table, ROWS..2 * ROWS).await;
    let whole = |it: &Configuration| !it.holds(lost) && is_quiet(it);
    cluster.wait_until("it is replaced", whole).await.unwrap();
    expect_all(&table, 0..2 * ROWS).await;
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");

    // It comes back with its old disk: its rows are hints at most.
    cluster.restart(lost.0 as usize - 1).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    insert(&table, 2 * ROWS..2 * ROWS + 20).await;
    let check = admin(&["check", "people"]);
    assert!(check.contains("All copies hold the same rows"), "{check}");
}

#[tokio::test]
async fn a_server_that_falls_silent_is_replaced_unless_the_options_forbid_it() {
    let mut options = replex::cluster::ClusterOptions::new(support::program());
    options.servers = 4;
    let mut cluster = replex::cluster::Cluster::start(options).await.unwrap();
    let table = rows::create(&cluster).await;
    insert(&table, 0..ROWS).await;
    // Stopped in order, it is waited for.
    let stopped = table.definition().placement[1][0].core.server;
    cluster.stop(stopped.0 as usize - 1).await.unwrap();
    let configuration = cluster.configuration().await.unwrap();
    assert_eq!(
        configuration.server(stopped).map(|it| it.state),
        Some(ServerState::Down)
    );
    assert!(!configuration.is_sealing() && configuration.holds(stopped));
    cluster.restart(stopped.0 as usize - 1).await.unwrap();
    cluster.wait_until_serving().await.unwrap();

    let lost = table.definition().placement[0][0].core.server;
    cluster.kill(lost.0 as usize - 1).await.unwrap();
    insert(&table, ROWS..2 * ROWS).await;
    let whole = |it: &Configuration| !it.holds(lost) && is_quiet(it);
    cluster.wait_until("it is replaced", whole).await.unwrap();
    expect_all(&table, 0..2 * ROWS).await;
}
