//! A server is down: reports to operators are about the present servers, and name the parts that
//! cannot be examined.

use client::{Client, ConnectOptions, IfExists};
use placement::Durability;
use protocol::configuration::{Configuration, ServerState};

use crate::support;
use crate::support::rows::{insert, is_quiet};

const ROWS: i64 = 200;

#[tokio::test]
async fn copies_are_compared_and_failures_counted_by_live_servers() {
    let mut cluster = support::cluster(3).await;
    let address = cluster.coordinator_address().to_owned();
    let client = Client::connect(ConnectOptions::new([address.clone()]));
    let client = client.await.unwrap();
    let schema = support::people(2, Durability::Sync);
    let table = client.create_table(schema, IfExists::Fail).await.unwrap();
    insert(&table, 0..ROWS).await;
    let lost = table.definition().placement[0][0].core.server;
    let number = lost.0.to_string();
    let admin = |command: &[&str]| {
        let arguments = [&["admin"], command, &["-C", &address]].concat();
        let output = support::run(&arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), text)
    };
    let (code, text) = admin(&["table", "show", "people"]);
    assert_eq!(code, Some(0));
    assert!(
        text.contains("2 asked for, 2 proven for every possible row\n"),
        "{text}"
    );
    let (code, text) = admin(&["check", "people"]);
    assert_eq!(code, Some(0));
    assert!(text.contains("All copies hold the same rows"), "{text}");

    cluster.kill(lost.0 as usize - 1).await.unwrap();
    let is_down = |configuration: &Configuration| {
        let server = configuration.server(lost);
        server.is_some_and(|server| server.state == ServerState::Down)
    };
    cluster.wait_until("it is down", is_down).await.unwrap();
    let now = format!("2 asked for, 1 survived now (server {number} is down); 2 proven");
    for command in [&["table", "show", "people"][..], &["status"]] {
        let (code, text) = admin(command);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&now["2 asked for, ".len()..]), "{text}");
    }
    let shown = support::run_well(&["sql", "-C", &address, "-c", "SHOW TABLE people"]);
    assert!(shown.contains(&now), "{shown}");
    for command in ["check", "repair"] {
        let (code, text) = admin(&[command, "people"]);
        assert_eq!(code, Some(1), "{text}");
        assert!(
            text.contains("All rows that could be compared are the same"),
            "{text}"
        );
        let left_out = "Not compared: ";
        assert!(text.contains(left_out), "{text}");
        assert!(text.contains(&format!(": {number}\n")), "{text}");
    }

    cluster.restart(lost.0 as usize - 1).await.unwrap();
    cluster.wait_until_serving().await.unwrap();
    cluster.wait_until("all is filled", is_quiet).await.unwrap();
    let (code, text) = admin(&["check", "people"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("All copies hold the same rows"), "{text}");
    let (code, text) = admin(&["table", "show", "people"]);
    assert_eq!(code, Some(0), "{text}");
}
