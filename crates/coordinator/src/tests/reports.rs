//! The report of a table: how many failures it survives now, and after the changes in progress.

use protocol::configuration::{Configuration, PartitionState};

use super::moves::scene_of;
use super::*;

/// The failures that table `flights` survives.
struct Survival {
    /// Now; none if some rows may have no copy that can be read.
    now: Option<u32>,
    /// Once everything is filled and up.
    proven: Option<u32>,
    /// As operators read it.
    text: String,
}

fn survival(configuration: &Configuration) -> Survival {
    let report = configuration.report(&configuration.tables[0]);
    Survival {
        now: report.failures_survived,
        proven: report.failures_proven,
        text: report.survival(),
    }
}

fn shut_down(configuration: &mut Configuration, id: ServerId) {
    let mut servers = configuration.servers.iter_mut();
    let server = servers.find(|server| server.id == id);
    server.expect("it joined").state = ServerState::Down;
}

#[test]
fn failures_survived_now_count_copies_that_are_up_and_filled() {
    let scene = scene_of(4);
    let mut configuration = scene.coordinator.configuration().clone();
    let Survival { now, proven, text } = survival(&configuration);
    assert_eq!((now, proven), (Some(1), Some(1)));
    assert_eq!(text, "1 proven for every possible row");

    // A partition of the second copy is being filled: any one, for a row can be in any partition
    // of one copy and any of the other. Its rows have the other copy only.
    let place = &mut configuration.tables[0].placement[1][2];
    let filled = *place;
    place.state = PartitionState::Rebuilding;
    let Survival { now, proven, text } = survival(&configuration);
    assert_eq!((now, proven), (Some(0), Some(1)));
    assert!(
        text.starts_with("0 survived now (1 partition is being filled); 1 proven"),
        "{text}"
    );

    // And the server of any partition of the first copy is down: a row in both has no copy.
    let other = configuration.tables[0].placement[0][0].core.server;
    shut_down(&mut configuration, other);
    let Survival { now, proven, text } = survival(&configuration);
    assert_eq!((now, proven), (None, Some(1)));
    assert!(text.starts_with("NONE survived now"), "{text}");
    assert!(
        text.contains(&format!("server {} is down", other.0)),
        "{text}"
    );

    // That server alone is down: everything is filled again.
    configuration.tables[0].placement[1][2] = filled;
    let Survival { now, text, .. } = survival(&configuration);
    assert_eq!(now, Some(0));
    assert!(text.contains("once that is over"), "{text}");
}

#[test]
fn a_server_without_partitions_of_a_table_does_not_count() {
    // The table has two copies of four partitions each, so one of nine servers has none of them.
    let scene = scene_of(9);
    let mut configuration = scene.coordinator.configuration().clone();
    let places = configuration.tables[0].placement.iter().flatten();
    let holders: BTreeSet<ServerId> = places.map(|place| place.core.server).collect();
    let idle = (1..=9).map(ServerId).find(|id| !holders.contains(id));
    shut_down(&mut configuration, idle.expect("more servers than places"));
    assert_eq!(survival(&configuration).now, Some(1));
}
