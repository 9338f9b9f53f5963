//! Cores receive new epochs at once: no change of tables waits for a heartbeat.
#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod support;

use std::time::Instant;

use ::coordinator::CoordinatorSettings;
use machines::core::CoreLimits;
use placement::{Durability, Index, Value};
use protocol::message::{CoordinatorReply, CoordinatorRequest};
use protocol::operation::RequestResult;
use server::ServerOptions;
use support::{Cluster, PATIENCE, RunningServer, Teller, Wire, people};

const HOUR_US: u64 = 3_600_000_000;

/// Three servers whose cores send a heartbeat an hour, unless something happens.
fn cluster_without_heartbeats() -> Cluster {
    let settings = CoordinatorSettings {
        lease_us: HOUR_US,
        wait_us_max: HOUR_US,
        ..CoordinatorSettings::default()
    };
    let mut cluster = Cluster::start_with(0, settings);
    for number in 0..3 {
        let options = cluster.server_options(number);
        let options = ServerOptions {
            machine_limits: CoreLimits {
                heartbeat_us: HOUR_US,
                lease_us: HOUR_US,
                ..options.machine_limits
            },
            ..options
        };
        cluster.servers.push(RunningServer::start(options).unwrap());
    }
    cluster
}

fn done(wire: &mut Wire, request: CoordinatorRequest) {
    match wire.ask(request) {
        CoordinatorReply::Done { .. } => {}
        other => panic!("{other:?} instead of done"),
    }
}

/// Asks until no copy waits to come or go and none is being filled.
fn wait_for_copies(wire: &mut Wire, teller: &mut Teller) {
    let begun = Instant::now();
    loop {
        let CoordinatorReply::Progress { waiting, .. } = wire.ask(CoordinatorRequest::Progress)
        else {
            panic!("no progress");
        };
        teller.fetch();
        let mut tables = teller.configuration.tables.iter();
        if waiting.is_empty() && tables.all(|table| table.building.is_empty()) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{waiting:?} for too long");
        std::thread::yield_now();
    }
}

#[test]
fn tables_come_and_go_without_a_heartbeat_being_due() {
    let cluster = cluster_without_heartbeats();
    let mut teller = Teller::new(cluster.coordinator.address);
    teller.create(people(Durability::Sync));
    let inserted = teller.insert(1, "Ada", "London");
    assert!(matches!(inserted, RequestResult::Applied { .. }));
    let (mut wire, _) = Wire::client(cluster.coordinator.address);
    let name = "people".into();
    let if_exists = false;
    done(&mut wire, CoordinatorRequest::DropTable { name, if_exists });
    teller.create(people(Durability::Sync));
    assert_eq!(teller.lookup(0, Value::Int64(1)).count, 0);
}

#[test]
fn copies_come_and_go_without_a_heartbeat_being_due() {
    let cluster = cluster_without_heartbeats();
    let mut teller = Teller::new(cluster.coordinator.address);
    let mut schema = people(Durability::Sync);
    teller.create(schema.clone());
    let inserted = teller.insert(1, "Ada", "London");
    assert!(matches!(inserted, RequestResult::Applied { .. }));
    let (mut wire, _) = Wire::client(cluster.coordinator.address);
    schema.indexes.push(Index {
        name: "by_city_and_name".into(),
        columns: vec![2, 1],
        constraint: None,
        partition_columns: None,
        by_range: false,
    });
    done(&mut wire, CoordinatorRequest::AddCopy { schema });
    wait_for_copies(&mut wire, &mut teller);
    assert_eq!(teller.configuration.tables[0].layout.replexes.len(), 4);
    let request = CoordinatorRequest::DropCopy {
        table: "people".into(),
        name: "by_city_and_name".into(),
        if_exists: false,
    };
    done(&mut wire, request);
    wait_for_copies(&mut wire, &mut teller);
    assert_eq!(teller.configuration.tables[0].layout.replexes.len(), 3);
    assert_eq!(teller.lookup(1, Value::Text("Ada".into())).count, 1);
}
