//! Splits and merges ranges of thin indexes: the transfers begin, are handed over, and end.

use placement::{ThinIndex, prove};
use protocol::codec::Bytes;
use protocol::configuration::{MoveProgress, PartitionState, Place};
use protocol::message::RangeReport;

use super::copies::{beats, fill, flights, seal};
use super::moves::{all_beat, finish, received_by, scene_of};
use super::*;

/// Returns three servers, and a table with a thin index that is one range.
fn scene() -> Scene {
    scene_with_copies(1)
}

/// Returns such a table whose index has this many copies.
fn scene_with_copies(copies: u8) -> Scene {
    let mut scene = scene_of(3);
    add_thin(&mut scene, copies);
    scene
}

/// Returns three servers, each with one copy of a table or its thin index.
fn scene_of_single_partitions() -> Scene {
    let mut scene = Scene::new();
    (1..=3).for_each(|id| scene.join(id));
    let mut schema = table("flights", 1);
    schema.partitions = 1;
    scene.ask_from(CLIENT, create_as(schema));
    add_thin(&mut scene, 1);
    scene
}

/// Adds a thin index with this many copies to the table, and fills it.
fn add_thin(scene: &mut Scene, copies: u8) {
    let mut schema = flights(scene).schema;
    schema.thin.push(ThinIndex {
        name: "by_tail_thin".into(),
        columns: placement::ascending(&[1]),
        included: Vec::new(),
        by_range: true,
        unique: false,
        copies,
    });
    let reply = scene.ask(Request::AddCopy { schema });
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    seal(scene);
    fill(scene);
}

fn thin(scene: &Scene) -> usize {
    let layout = flights(scene).layout;
    layout.thin_numbers().next().expect("it was added")
}

/// Returns the ranges as the first byte of their start and their partition, and the number of
/// transfers.
fn ranges(scene: &Scene) -> (Vec<(Option<u8>, u32)>, usize) {
    let layout = flights(scene).layout;
    let ranges = layout.replexes[thin(scene)].ranges.clone().unwrap();
    let starts = ranges.starts.iter();
    let starts = starts.map(|it| (it.key.first().copied(), it.partition));
    (starts.collect(), ranges.transfers.len())
}

fn place(scene: &Scene, number: usize) -> Place {
    flights(scene).placement[thin(scene)][number]
}

/// Sends a heartbeat of the holder of a range.
fn report(scene: &mut Scene, number: u32, entries: u64, split_at: Option<&[u8]>) {
    let replex = thin(scene);
    report_of((scene, replex), number, entries, split_at);
}

/// Sends a heartbeat of the holder of a range of this replex.
fn report_of(
    (scene, replex): (&mut Scene, usize),
    number: u32,
    entries: u64,
    split_at: Option<&[u8]>,
) {
    let place = flights(scene).placement[replex][number as usize];
    let server = scene.server(place.core.server.0);
    let report = RangeReport {
        partition: flights(scene).partition(replex, number),
        entries,
        requests: 0,
        split_at: split_at.map(Bytes::from),
    };
    let epoch = scene.epoch();
    let mut beat = heartbeat(server.id.0, place.core.core, server.incarnation.0, epoch);
    if let Request::Heartbeat { ranges, .. } = &mut beat {
        ranges.push(report);
    }
    scene.ask(beat);
}

#[test]
fn a_large_range_is_split_and_small_neighbours_are_merged() {
    let mut scene = scene();
    assert_eq!(ranges(&scene), (vec![(None, 0)], 0));
    report(&mut scene, 0, 1000, Some(&[7]));
    let giver = place(&scene, 0).core;
    assert_eq!(ranges(&scene), (vec![(None, 0)], 1));
    let Some(MoveProgress::To(taker)) = place(&scene, 1).moving else {
        panic!("{:?}", place(&scene, 1));
    };
    assert_eq!(
        place(&scene, 1).core,
        giver,
        "the holder of the entries gives them"
    );
    assert_ne!(taker.core, giver);
    report(&mut scene, 0, 1000, Some(&[9]));
    assert_eq!(ranges(&scene), (vec![(None, 0)], 1), "one at a time");

    all_beat(&mut scene);
    assert!(flights(&scene).sealing.is_some(), "operations must end");
    assert_eq!(ranges(&scene).0, [(None, 0)]);
    all_beat(&mut scene);
    assert_eq!(ranges(&scene), (vec![(None, 0), (Some(7), 1)], 1));
    assert_eq!(place(&scene, 1).core, taker.core);
    assert_eq!(place(&scene, 1).state, PartitionState::Rebuilding);
    assert_eq!(place(&scene, 1).giver(), Some(giver));
    finish(&mut scene);
    assert_eq!(ranges(&scene), (vec![(None, 0), (Some(7), 1)], 0));
    assert_eq!(place(&scene, 1).core, taker.core);

    // They are on different cores, so one of them goes to the other first.
    for _ in 0..20 {
        all_report_small(&mut scene);
        assert_eq!(scene.coordinator.configuration().check(), Ok(()));
        if ranges(&scene).0.len() == 1 {
            break;
        }
    }
    finish(&mut scene);
    assert_eq!(ranges(&scene), (vec![(None, 2)], 0));
    let epoch = scene.epoch();
    all_report_small(&mut scene);
    assert_eq!(scene.epoch(), epoch, "there is no neighbour");
}

#[test]
pub(super) fn a_core_that_has_only_empty_partitions_keeps_them() {
    let mut scene = scene_of_single_partitions();
    report(&mut scene, 0, 1000, Some(&[7]));
    finish(&mut scene);
    while ranges(&scene).0.len() > 1 {
        all_report_small(&mut scene);
    }
    finish(&mut scene);
    let [(None, last)] = ranges(&scene).0[..] else {
        panic!("{:?}", ranges(&scene));
    };
    let holders = flights(&scene).holders();
    let empty: Vec<CoreId> = (0..last as usize)
        .map(|number| place(&scene, number).core)
        .collect();
    let rows = super::super::ranges::holders_of_rows(&flights(&scene));
    let only = empty.iter().filter(|core| !rows.contains(core)).count();
    assert!(only > 0, "{empty:?} {rows:?}");
    for key in [5, 3] {
        report(&mut scene, last, 1000, Some(&[key]));
        finish(&mut scene);
        assert!(flights(&scene).holders().is_superset(&holders));
    }
    assert_eq!(ranges(&scene).0.len(), 3);
}

/// Sends a heartbeat of every core, as `all_beat` does, with reports that all ranges are small.
fn all_report_small(scene: &mut Scene) {
    let thin: Vec<usize> = flights(scene).layout.thin_numbers().collect();
    beats(scene, |core, configuration, beat| {
        let is_thin = |replex: u8| thin.contains(&usize::from(replex));
        let held = configuration
            .places()
            .filter(|(id, place)| is_thin(id.replex) && place.core == core);
        let small = held.map(|(partition, _)| RangeReport {
            partition,
            entries: 1,
            requests: 0,
            split_at: None,
        });
        if let Request::Heartbeat {
            filled,
            seals,
            ranges,
            ..
        } = beat
        {
            *filled = received_by(configuration, core);
            *seals = resolved(configuration);
            *ranges = small.collect();
        }
    });
}

#[test]
fn a_split_is_cancelled_with_the_server_that_gives_or_takes() {
    for loses_giver in [true, false] {
        let mut scene = scene();
        report(&mut scene, 0, 1000, Some(&[7]));
        let before = place(&scene, 1);
        let lost = match loses_giver {
            true => before.core.server,
            false => before.taker().expect("it moves").server,
        };
        let incarnation = scene.server(lost.0).incarnation.0;
        scene.ask(stopped(lost.0, incarnation));
        let reply = scene.ask(Request::Remove { server: lost });
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        finish(&mut scene);
        assert_eq!(ranges(&scene), (vec![(None, 0)], 0));
        assert_eq!(place(&scene, 1).moving, None);
        assert_eq!(scene.coordinator.configuration().check(), Ok(()));
    }
}

/// A partition whose entries are void cannot give them: the receiving partition is filled from a
/// copy, or the range stays.
#[test]
fn a_range_is_not_received_from_a_void_partition() {
    for is_handed_over in [false, true] {
        let mut scene = scene();
        report(&mut scene, 0, 1000, Some(&[7]));
        if is_handed_over {
            all_beat(&mut scene);
            seal(&mut scene);
            assert_eq!(ranges(&scene).0.len(), 2);
        }
        let replex = u8::try_from(thin(&scene)).unwrap();
        let reply = scene.ask(Request::Renew {
            table: "flights".into(),
            cells: vec![(replex, 0)],
        });
        assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
        seal(&mut scene);
        let cells = [0, 1].map(|number| place(&scene, number));
        assert_eq!(cells[0].state, PartitionState::Rebuilding);
        assert_eq!(cells[1].moving, None);
        assert_eq!(
            ranges(&scene),
            match is_handed_over {
                true => (vec![(None, 0), (Some(7), 1)], 0),
                false => (vec![(None, 0)], 0),
            }
        );
        if is_handed_over {
            assert_eq!(cells[1].state, PartitionState::Rebuilding);
            assert_eq!(cells[1].since, cells[0].since, "its entries are void, too");
        }
        assert_eq!(scene.coordinator.configuration().check(), Ok(()));
    }
}

/// Splits the ranges of a copy on so many servers. Returns the number of its ranges.
fn split_ranges_of_a_copy(servers: u32) -> usize {
    let mut scene = Scene::new();
    (1..=servers).for_each(|id| scene.join(id));
    let mut schema = table("flights", 1);
    schema.indexes[0].by_range = true;
    scene.ask_from(CLIENT, create_as(schema));
    let by_tail = |scene: &Scene| flights(scene).layout.replexes[1].ranges.clone().unwrap();
    // Most of them are parts of the first range, so that one core gives again and again.
    for key in [90, 80, 70, 60, 50, 95, 40, 30] {
        let key = [key];
        let owner = by_tail(&scene).owner(&key);
        report_of((&mut scene, 1), owner, 1000, Some(&key));
        // Later, other partitions would leave a server with such a range.
        for _ in 0..2 {
            all_beat(&mut scene);
            let table = flights(&scene);
            let hosts = scene.coordinator.configuration().hosts();
            let proof = prove(&table.layout, &table.bare_placement(), &hosts);
            assert_eq!(proof.failures_tolerated(), 1, "{:?}", table.placement);
        }
        finish(&mut scene);
    }
    by_tail(&scene).starts.len()
}

/// A row can be in any range, so a range beside another copy would leave some row in one failure
/// domain.
#[test]
pub(super) fn ranges_of_a_copy_keep_every_row_in_two_failure_domains() {
    for servers in 2..7 {
        assert_eq!(split_ranges_of_a_copy(servers), 9);
    }
}

/// Checks that no server has two copies of one entry of the index.
fn check_copies_are_apart(scene: &Scene) {
    let (table, hosts) = (flights(scene), scene.coordinator.configuration().hosts());
    let placement = table.bare_placement();
    for replex in table.layout.thin_numbers() {
        for (number, place) in placement.replexes[replex].iter().enumerate() {
            let twins = table.layout.twins(replex, number as u32);
            let beside = placement.count_beside(&twins, &hosts, place.server);
            assert_eq!(
                beside, 0,
                "partition {number} of replex {replex}: {placement:?}"
            );
        }
    }
}

#[test]
fn copies_of_an_entry_stay_on_different_servers() {
    let mut scene = scene_with_copies(2);
    let copies: Vec<usize> = flights(&scene).layout.thin_numbers().collect();
    let names = copies
        .iter()
        .map(|it| &flights(&scene).layout.replexes[*it].name[..] == "by_tail_thin");
    assert_eq!(names.collect::<Vec<_>>(), [true, false]);
    check_copies_are_apart(&scene);
    // The copies are split at other keys, so that most ranges overlap two of the other copy.
    for round in 0..4_u8 {
        for (copy, replex) in copies.clone().into_iter().enumerate() {
            let key = [10 * round + 5 + 3 * copy as u8];
            let table = flights(&scene);
            let ranges = table.layout.replexes[replex].ranges.as_ref();
            let owner = ranges.expect("ranges divide it").owner(&key);
            report_of((&mut scene, replex), owner, 1000, Some(&key));
            let begun = flights(&scene).layout.replexes[replex].ranges.clone();
            assert_eq!(begun.expect("as before").transfers.len(), 1, "{round}");
            for _ in 0..2 {
                all_beat(&mut scene);
            }
            finish(&mut scene);
            check_copies_are_apart(&scene);
        }
    }
    for replex in copies {
        let ranges = flights(&scene).layout.replexes[replex].ranges.clone();
        assert_eq!(ranges.expect("as before").starts.len(), 5);
    }
}

/// Returns how many ranges each copy of the index has.
fn range_counts(scene: &Scene) -> Vec<usize> {
    let layout = flights(scene).layout;
    let ranges = layout
        .thin_numbers()
        .map(|number| &layout.replexes[number].ranges);
    ranges
        .map(|it| it.as_ref().map_or(0, |it| it.starts.len()))
        .collect()
}

#[test]
fn copies_that_want_to_split_at_once_stay_apart_and_are_merged_again() {
    let mut scene = scene_with_copies(2);
    let copies: Vec<usize> = flights(&scene).layout.thin_numbers().collect();
    // The first report is there when the second one makes the coordinator look.
    let table = flights(&scene);
    let first = RangeReport {
        partition: table.partition(copies[0], 0),
        entries: 1000,
        requests: 0,
        split_at: Some(Bytes::from(&[7][..])),
    };
    let (core, epoch) = (table.placement[copies[0]][0].core, scene.epoch());
    scene
        .coordinator
        .note_ranges(core, Epoch(epoch), vec![first]);
    report_of((&mut scene, copies[1]), 0, 1000, Some(&[7]));
    let transfers = copies.iter().map(|number| {
        let layout = flights(&scene).layout;
        let ranges = layout.replexes[*number].ranges.as_ref();
        ranges.map_or(0, |ranges| ranges.transfers.len())
    });
    assert_eq!(transfers.sum::<usize>(), 1, "one copy after the other");
    for _ in 0..10 {
        all_beat(&mut scene);
        finish(&mut scene);
        check_copies_are_apart(&scene);
        for (copy, replex) in copies.iter().enumerate() {
            if range_counts(&scene)[copy] == 1 {
                report_of((&mut scene, *replex), 0, 1000, Some(&[7]));
            }
        }
    }
    assert_eq!(range_counts(&scene), [2, 2]);
    for _ in 0..40 {
        all_report_small(&mut scene);
        assert_eq!(scene.coordinator.configuration().check(), Ok(()));
    }
    finish(&mut scene);
    assert_eq!(range_counts(&scene), [1, 1]);
    check_copies_are_apart(&scene);
}

/// The ranges of a thin index are no copy of the rows in a range of a copy.
#[test]
fn a_new_copy_is_not_beside_another_one() {
    let mut scene = scene_of_single_partitions();
    let mut schema = flights(&scene).schema;
    schema.indexes.push(Index {
        name: "by_tail_ranged".into(),
        by_range: true,
        ..schema.indexes[0].clone()
    });
    let reply = scene.ask(Request::AddCopy { schema });
    assert!(matches!(reply, Reply::Done { .. }), "{reply:?}");
    seal(&mut scene);
    let table = flights(&scene);
    let servers = table.layout.copy_numbers().map(|copy| {
        let place = table.placement[copy][0];
        place.core.server
    });
    let servers: BTreeSet<ServerId> = servers.collect();
    assert_eq!(servers.len(), 3, "{:?}", table.placement);
}

#[test]
fn the_number_of_partitions_changes_beside_a_copy_that_stays() {
    for also in 0..3 {
        let mut scene = Scene::new();
        (1..=2).for_each(|id| scene.join(id));
        let mut schema = table("flights", 1);
        schema.indexes[0].by_range = true;
        scene.ask_from(CLIENT, create_as(schema));
        // Other tables make the server without ranges look full, or the one with ranges.
        for number in 0..also {
            let mut other = table(&format!("other_{number}"), 0);
            other.indexes.clear();
            other.partitions = 1;
            scene.ask_from(CLIENT, create_as(other));
        }
        // The first change makes the number of the primary copy the last one, and the second one
        // makes it 0 again.
        for partitions in [24, 6] {
            let reply = scene.ask(Request::SetPartitions {
                table: "flights".into(),
                partitions,
            });
            assert!(matches!(reply, Reply::Done { .. }), "{also}: {reply:?}");
            seal(&mut scene);
            fill(&mut scene);
            finish(&mut scene);
            let table = flights(&scene);
            assert_eq!(table.schema.partitions, partitions);
            let hosts = scene.coordinator.configuration().hosts();
            let proof = prove(&table.layout, &table.bare_placement(), &hosts);
            assert_eq!(proof.failures_tolerated(), 1, "{:?}", table.placement);
        }
    }
}

#[test]
fn a_server_that_returns_in_another_failure_domain_receives_no_range() {
    let mut scene = scene();
    report(&mut scene, 0, 1000, Some(&[7]));
    let taker = place(&scene, 1).taker().expect("it moves").server;
    let server = scene.server(taker.0);
    let back = Request::Join {
        server: Some(taker),
        instance: 77,
        folder: FolderReport {
            disk: u64::from(taker.0),
            ..FolderReport::default()
        },
        domain: "elsewhere".into(),
        cores: server.cores.clone(),
    };
    scene.ask(stopped(taker.0, server.incarnation.0));
    let reply = scene.ask(back);
    assert!(matches!(reply, Reply::Joined { .. }), "{reply:?}");
    assert_eq!(scene.server(taker.0).domain, "elsewhere");
    assert_eq!(place(&scene, 1).moving, None);
    finish(&mut scene);
    assert_eq!(ranges(&scene), (vec![(None, 0)], 0));
}
