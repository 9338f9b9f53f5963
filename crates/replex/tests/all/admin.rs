//! The output of `replex admin` about a cluster, for people and for programs.

use placement::Durability;
use serde_json::Value;

use crate::support;

fn json(arguments: &[&str]) -> Value {
    let text = support::run_well(&[arguments, &["--json"]].concat());
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn admin_shows_servers_tables_and_tolerance() {
    let mut cluster = support::cluster(3).await;
    support::create(&cluster, support::people(2, Durability::Sync)).await;
    let address = cluster.coordinator_address().to_owned();
    let at = ["-C", &address];

    let status = json(&[&["admin", "status"], &at[..]].concat());
    assert_eq!(status["tables"], serde_json::json!(["people"]));
    assert_eq!(status["cores"].as_array().unwrap().len(), 3);
    assert_eq!(status["cores"][2]["state"], "serving");
    assert_eq!(status["cores"][0]["partitions"], 4);
    assert!(
        status["cores"][0]["counters"]["frames_in"]
            .as_u64()
            .unwrap()
            > 0
    );

    let servers = json(&[&["admin", "server", "list"], &at[..]].concat());
    assert_eq!(servers[1]["server"], 2);
    assert_eq!(servers[1]["state"], "up");

    let tables = json(&[&["admin", "table", "list"], &at[..]].concat());
    assert_eq!(tables[0]["copies"], 3);

    let table = json(&[&["admin", "table", "show", "people"], &at[..]].concat());
    assert_eq!(table["failures_proven"], 2);
    assert_eq!(table["replexes"][1]["axes"][0], "hash(city) mod 4");
    let text = support::run_well(&[&["admin", "table", "show", "people"], &at[..]].concat());
    assert!(text.contains("2 asked for, 2 proven"), "{text}");

    let missing = [&["admin", "table", "show", "strangers"], &at[..]].concat();
    let stderr = support::run_badly(&missing, 1);
    assert!(
        stderr.contains("strangers") && stderr.contains("people"),
        "{stderr}"
    );

    cluster.kill(1).await.unwrap();
    let output = support::run(&[&["admin", "status"], &at[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("wait for the partitions of server 2: start it again"),
        "{text}"
    );
}

/// Nothing waits for a server that holds nothing, and no advice is given.
#[tokio::test]
async fn a_server_that_holds_nothing_is_not_waited_for() {
    let mut cluster = support::cluster(2).await;
    let address = cluster.coordinator_address().to_owned();
    let at = ["-C", address.as_str()];
    cluster.kill(1).await.unwrap();
    let output = support::run(&[&["admin", "status"], &at[..]].concat());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains("wait for the partitions"), "{text}");
    assert!(
        text.contains("Server 2 does not serve and holds no partitions"),
        "{text}"
    );
}
