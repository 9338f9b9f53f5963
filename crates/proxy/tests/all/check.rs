//! Each finding that can be made happen is found, with its fix, and nothing is changed.

use pg_connect::address::Address;
use pg_local::{Postgres, SUPERUSER};
use proxy::check::{CheckFinding, FindingWeight, check};
use proxy::serve::routing::Routing;
use proxy_core::freshness::ReplicaId;
use replication::{ExistingData, ReplicationSettings};

use crate::support::{connect, is_there};

/// The findings, which must contain this one.
fn expect(findings: &[CheckFinding], weight: FindingWeight, place: &str, what: &str) {
    let is_it = |finding: &&CheckFinding| {
        finding.weight == weight && finding.place.contains(place) && finding.what.contains(what)
    };
    let found = findings.iter().find(is_it);
    let found = found.unwrap_or_else(|| panic!("no {what:?} in {findings:#?}"));
    assert_eq!(
        found.fix.is_empty(),
        weight == FindingWeight::Fine,
        "{found:?}"
    );
}

/// Returns the findings that would stop the proxy.
fn stops(findings: &[CheckFinding]) -> Vec<&str> {
    let stops = findings
        .iter()
        .filter(|it| it.weight == FindingWeight::Stops);
    stops.map(|finding| finding.what.as_str()).collect()
}

async fn run(postgres: &Postgres, sql: &str) {
    connect(postgres.socket())
        .await
        .batch_execute(sql)
        .await
        .unwrap();
}

#[tokio::test]
async fn good_databases_pass_and_are_left_as_they_were() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on", "max_slot_wal_keep_size=1GB"]);
    let (primary, replica) = (primary.unwrap(), Postgres::start(&[]).unwrap());
    run(&primary, "CREATE TABLE t (id int PRIMARY KEY)").await;
    let (at, to) = (primary.address("postgres"), replica.address("postgres"));
    let findings = check(&at, std::slice::from_ref(&to), 40).await;
    assert!(
        findings.iter().all(|it| it.weight == FindingWeight::Fine),
        "{findings:#?}"
    );
    for (place, what) in [
        ("primary", "wal_level = logical"),
        ("primary", "10 replication slots are free"),
        ("primary", "its log can be read from here"),
        ("primary", "every table has a key"),
        ("replica", "it is empty, and will be filled"),
    ] {
        expect(&findings, FindingWeight::Fine, place, what);
    }
    let untouched = "SELECT 1 / (count(*) = 0)::int FROM pg_replication_slots";
    run(&primary, untouched).await;

    // With a proxy in front of it, another one stands by; without it, it can follow.
    let routing = Routing::start(&at, 4, &ReplicationSettings::default())
        .await
        .unwrap();
    let slot_is_read = "DO $$BEGIN WHILE NOT EXISTS (SELECT FROM pg_replication_slots WHERE active)
                        LOOP PERFORM pg_sleep(0.01); END LOOP; END$$";
    run(&primary, slot_is_read).await;
    let findings = check(&at, &[], 40).await;
    expect(
        &findings,
        FindingWeight::Mind,
        "primary",
        "a proxy is active in front of this database",
    );
    // A replica that its console adds is checked, too, and once.
    let added = Postgres::start(&[]).unwrap();
    let url = format!("postgresql://{SUPERUSER}@{}/postgres", added.socket());
    let replicas = &routing.replicas;
    replicas
        .register(&url, ExistingData::Kept, None)
        .await
        .unwrap();
    let place = added.socket().to_string();
    for named in [vec![], vec![added.address("postgres")]] {
        let findings = check(&at, &named, 40).await;
        let version = |finding: &&CheckFinding| {
            finding.place.contains(&place) && finding.what.starts_with("PostgreSQL")
        };
        assert_eq!(findings.iter().filter(version).count(), 1, "{findings:#?}");
    }
    replicas.remove(ReplicaId(1)).await.unwrap();
    drop(routing);
    let slot_is_free = slot_is_read.replace("NOT EXISTS", "EXISTS");
    run(&primary, &slot_is_free).await;
    let findings = check(&at, &[], 40).await;
    expect(
        &findings,
        FindingWeight::Fine,
        "primary",
        "is there, and no proxy reads it",
    );
}

#[tokio::test]
async fn missing_settings_of_the_primary_are_found() {
    if !is_there() {
        return;
    }
    let settings = [
        "wal_level=replica",
        "max_replication_slots=1",
        "max_wal_senders=1",
        "max_connections=20",
    ];
    let primary = Postgres::start(&settings).unwrap();
    run(
        &primary,
        "CREATE TABLE keyless (a int); CREATE TABLE silent (a int PRIMARY KEY);
         ALTER TABLE silent REPLICA IDENTITY NOTHING; CREATE UNLOGGED TABLE loose (a int);
         CREATE ROLE ann LOGIN; SELECT pg_create_physical_replication_slot('taken')",
    )
    .await;
    let mut address = primary.address("postgres");
    address.user = "ann".into();
    let findings = check(&address, &[], 40).await;
    for what in [
        "user ann is not a superuser",
        "wal_level = replica",
        "all 1 replication slots are taken",
        "its log cannot be read from here",
        "tables without a key: keyless, silent",
    ] {
        expect(&findings, FindingWeight::Stops, "primary", what);
    }
    for what in [
        "max_slot_wal_keep_size = -1",
        "unlogged and foreign tables: loose",
        "synchronous_commit = off",
        "max_connections = 20, but up to 50 may be used",
    ] {
        expect(&findings, FindingWeight::Mind, "primary", what);
    }
    let drop = "SELECT pg_drop_replication_slot('taken');
                SELECT pg_create_physical_replication_slot('hihooi')";
    run(&primary, drop).await;
    let findings = check(&address, &[], 40).await;
    expect(
        &findings,
        FindingWeight::Stops,
        "primary",
        "is of another kind",
    );
}

#[tokio::test]
async fn standbys_and_what_is_not_reached_are_found() {
    if !is_there() {
        return;
    }
    let mut primary = Postgres::start(&["wal_level=replica", "max_wal_senders=0"]).unwrap();
    let findings = check(&primary.address("postgres"), &[], 40).await;
    let senders = "all 0 senders of its log are taken";
    expect(&findings, FindingWeight::Stops, "primary", senders);
    std::fs::write(primary.data().join("standby.signal"), "").unwrap();
    primary.start_again().unwrap();
    let at = primary.address("postgres");
    let findings = check(&at, std::slice::from_ref(&at), 40).await;
    assert_eq!(stops(&findings), ["it is a standby"]);
    primary.kill();
    expect(
        &check(&at, &[], 40).await,
        FindingWeight::Stops,
        "primary",
        "no connection",
    );
    let tls = Address::parse("postgresql://a@127.0.0.1:1/b?sslmode=require").unwrap();
    expect(
        &check(&tls, &[], 40).await,
        FindingWeight::Stops,
        "primary",
        "no connection",
    );
}

#[tokio::test]
async fn faults_of_a_replica_are_found() {
    if !is_there() {
        return;
    }
    let primary = Postgres::start(&["synchronous_commit=on"]).unwrap();
    let replica = Postgres::start(&[]).unwrap();
    run(
        &replica,
        "CREATE ROLE ann LOGIN; CREATE TABLE t (id int PRIMARY KEY)",
    )
    .await;
    let latin = "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1'";
    run(&replica, latin).await;
    let at = primary.address("postgres");
    let check_one = async |address: Address| check(&at, &[address], 40).await;
    let findings = check_one(at.clone()).await;
    assert_eq!(stops(&findings), ["it is the primary itself"]);
    let mut address = replica.address("postgres");
    address.user = "ann".into();
    let findings = check_one(address).await;
    expect(
        &findings,
        FindingWeight::Stops,
        "replica",
        "user ann is not a superuser",
    );
    expect(
        &findings,
        FindingWeight::Stops,
        "replica",
        "was not filled by the proxy",
    );
    let findings = check_one(replica.address("latin")).await;
    assert!(stops(&findings).is_empty(), "{findings:#?}");
    expect(
        &findings,
        FindingWeight::Mind,
        "replica",
        "its encoding is LATIN1, the primary's is UTF8",
    );
    let filled = "DROP TABLE t; CREATE SCHEMA hihooi;
                  CREATE TABLE hihooi.applied (worker int PRIMARY KEY, tsid numeric);
                  CREATE TABLE hihooi.seed (snapshot text, until numeric);
                  INSERT INTO hihooi.applied VALUES (0, 5)";
    run(&replica, filled).await;
    let findings = check_one(replica.address("postgres")).await;
    expect(
        &findings,
        FindingWeight::Stops,
        "replica",
        "the primary has no log from there",
    );
    let differs = "CREATE TABLE hihooi.difference (why text);
                   INSERT INTO hihooi.difference VALUES ('a row too many')";
    run(&replica, differs).await;
    let findings = check_one(replica.address("postgres")).await;
    expect(
        &findings,
        FindingWeight::Stops,
        "replica",
        "found to differ: a row too many",
    );
}
