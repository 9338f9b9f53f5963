//! Partitions that hold what they should not are refilled.

use protocol::configuration::PartitionState;
use protocol::identity::Epoch;

use super::copies::{flights, scene_of, seal};
use super::*;

fn renewal(cells: &[(u8, u32)]) -> Request {
    Request::Renew {
        table: "flights".into(),
        cells: cells.to_vec(),
    }
}

#[test]
fn a_wrong_partition_is_refilled_where_it_is() {
    let mut scene = scene_of(2);
    let before = flights(&scene);
    let reply = scene.ask(renewal(&[(1, 2)]));
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    // Nothing changes before the epochs before have ended.
    assert_eq!(flights(&scene).placement, before.placement);
    seal(&mut scene);
    let after = flights(&scene);
    let (was, place) = (before.placement[1][2], after.placement[1][2]);
    assert_eq!(place.core, was.core);
    assert_eq!(place.state, PartitionState::Rebuilding);
    assert_eq!(place.since, scene.coordinator.configuration().epoch);
    assert!(was.since < place.since && was.since > Epoch(0));
    let others = after
        .placement
        .iter()
        .flatten()
        .filter(|it| it.state == PartitionState::Serving);
    assert_eq!(others.count(), 7);
    // Until it is filled, it is nothing to fill others from.
    let (message, retry) = scene.refused(renewal(&[(1, 2)]));
    assert!(
        message.ends_with("is being filled: try again when it serves"),
        "{message}"
    );
    assert!(retry);
    assert!(
        scene
            .refused(renewal(&[(0, 0)]))
            .0
            .contains("only copies of some rows")
    );
}

#[test]
fn partitions_without_other_copies_are_left_as_they_are() {
    let mut scene = scene_of(2);
    let (message, retry) = scene.refused(renewal(&[(0, 0), (1, 0)]));
    assert_eq!(
        message,
        "these partitions of table flights hold the only copies of some rows, from which nothing \
         could refill them: name fewer at a time"
    );
    assert!(!retry);
    assert_eq!(
        scene.refused(renewal(&[(1, 4)])).0,
        "table flights has no partition 4 in copy 1"
    );
    assert!(!scene.coordinator.configuration().is_sealing());
}
