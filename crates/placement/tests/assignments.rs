//! Placements of `assign` survive every set of failures within their promise, by enumeration of
//! rows and failures. `prove` agrees with enumeration. The load is even.

mod cases;

use std::collections::BTreeSet;

use cases::{all_rows, config, flights, layout, table};
use placement::{
    AssignmentError, HostCore, LOAD_PER_COPY, Layout, Loads, PartitionHost, Placement, assign,
    decision_position, members_at_risk, prove,
};
use proptest::prelude::*;

/// One server per domain, each with so many cores.
fn servers(cores: &[u16]) -> Vec<PartitionHost> {
    let server = |(id, cores): (usize, &u16)| PartitionHost {
        id: id as u32,
        domain: format!("server {id}"),
        cores: *cores,
    };
    cores.iter().enumerate().map(server).collect()
}

fn domain<'a>(servers: &'a [PartitionHost], place: &HostCore) -> Option<&'a str> {
    let server = servers.iter().find(|server| server.id == place.server)?;
    Some(&server.domain)
}

/// Distinct domains with a copy of this row.
fn domains_of_row<'a>(
    layout: &Layout,
    placement: &Placement,
    servers: &'a [PartitionHost],
    row: &[u32],
) -> BTreeSet<&'a str> {
    let places = (0..layout.replexes.len())
        .map(|replex| placement.replexes[replex][layout.partition_of_slots(replex, row) as usize]);
    places.filter_map(|place| domain(servers, &place)).collect()
}

/// Servers in few domains, some of several servers, in no order.
fn any_servers() -> impl Strategy<Value = Vec<PartitionHost>> {
    prop::collection::vec((0..6u8, 1..4u16), 1..9).prop_map(|servers| {
        let server = |(number, (domain, cores)): (usize, (u8, u16))| PartitionHost {
            id: 7 * number as u32 % 9,
            domain: format!("rack {domain}"),
            cores,
        };
        servers.into_iter().enumerate().map(server).collect()
    })
}

fn places_of(layout: &Layout, pick: impl Fn(usize, u32) -> u32) -> Placement {
    let replex = |replex| {
        let place = |partition| HostCore {
            server: pick(replex, partition),
            core: 0,
        };
        (0..layout.partition_count(replex)).map(place).collect()
    };
    Placement {
        replexes: (0..layout.replexes.len()).map(replex).collect(),
    }
}

/// Every choice of `count` of the items.
fn choices<'a>(items: &[&'a str], count: usize) -> Vec<BTreeSet<&'a str>> {
    let subsets = (0..1u32 << items.len()).filter(|set| set.count_ones() as usize == count);
    subsets
        .map(|set| {
            (0..items.len())
                .filter(|it| set >> it & 1 == 1)
                .map(|it| items[it])
                .collect()
        })
        .collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn proof_agrees_with_enumeration(
        layout in layout(),
        servers in any_servers(),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 32),
        spread in 1..9usize,
    ) {
        // Few servers make co-location likely; one id beyond the list is a server that is lost.
        let placement = places_of(&layout, |replex, partition| {
            let pick = picks[(replex * 11 + partition as usize) % picks.len()];
            (7 * pick.index(spread.min(servers.len() + 1)) as u32) % 9
        });
        let proof = prove(&layout, &placement, &servers);
        let rows = all_rows(&layout);
        let copies = rows.iter().map(|row| domains_of_row(&layout, &placement, &servers, row).len());
        prop_assert!(proof.exact);
        prop_assert_eq!(Some(proof.copies_guaranteed as usize), copies.min());
        let worst = domains_of_row(&layout, &placement, &servers, &proof.worst_row);
        prop_assert_eq!(worst.len(), proof.copies_guaranteed as usize);
    }

    #[test]
    fn assigned_rows_survive_every_set_of_failures(
        layout in layout(),
        servers in any_servers(),
        failures_tolerated in 0..5usize,
    ) {
        let domains: BTreeSet<&str> = servers.iter().map(|it| it.domain.as_str()).collect();
        let domains: Vec<&str> = domains.into_iter().collect();
        let needed = failures_tolerated + 1;
        let (placement, proof) =
            match assign(&layout, failures_tolerated, &servers, &Loads::new()) {
                Ok(found) => found,
                Err(error) => {
                    let possible = domains.len() >= needed && layout.replexes.len() >= needed;
                    prop_assert!(!possible, "{error}");
                    return Ok(());
                }
            };
        prop_assert!(proof.copies_guaranteed as usize >= needed);
        for (replex, places) in placement.replexes.iter().enumerate() {
            prop_assert_eq!(places.len(), layout.partition_count(replex) as usize);
            for place in places {
                let server = servers.iter().find(|it| it.id == place.server).unwrap();
                prop_assert!(place.core < server.cores);
            }
        }
        for row in all_rows(&layout) {
            let copies = domains_of_row(&layout, &placement, &servers, &row);
            for failed in choices(&domains, failures_tolerated) {
                prop_assert!(!copies.is_subset(&failed), "row {:?} is lost with {:?}", row, failed);
            }
        }
    }

    #[test]
    fn equal_cuts_load_equal_cores_equally(
        partitions in 1..40u32,
        failures_tolerated in 0..4u8,
        servers_more in 0..4usize,
        cores in 1..4u16,
    ) {
        // Without indexes all copies are cut alike: each core gets its share, within one.
        let layout = Layout::base(&table(partitions, 0, failures_tolerated));
        let copies = usize::from(failures_tolerated) + 1;
        let servers = servers(&vec![cores; copies + servers_more]);
        let (placement, _) =
            assign(&layout, failures_tolerated.into(), &servers, &Loads::new()).unwrap();
        let held = |server: &PartitionHost, core| {
            let place = HostCore { server: server.id, core };
            placement.replexes.iter().flatten().filter(|it| **it == place).count()
        };
        let counts: Vec<usize> = servers
            .iter()
            .flat_map(|server| (0..cores).map(move |core| held(server, core)))
            .collect();
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", counts);
    }

    #[test]
    fn different_cuts_load_their_servers_equally(
        indexes in 0..4usize,
        servers_each in 1..5usize,
        partitions in 1..40u32,
    ) {
        // f = n − 1 gives each replex servers of its own, as many each if that comes out even.
        let layout = Layout::base(&table(partitions, indexes, indexes as u8));
        let count = (indexes + 1) * servers_each;
        let (placement, _) =
            assign(&layout, indexes, &servers(&vec![1; count]), &Loads::new()).unwrap();
        let mut taken = BTreeSet::new();
        for places in &placement.replexes {
            let used: BTreeSet<u32> = places.iter().map(|it| it.server).collect();
            prop_assert_eq!(used.len(), servers_each.min(partitions as usize));
            prop_assert!(taken.is_disjoint(&used));
            for server in &used {
                let held = places.iter().filter(|it| it.server == *server).count();
                let share = partitions as usize / servers_each;
                prop_assert!((share..=share + 1).contains(&held));
            }
            taken.extend(used);
        }
    }
}

#[test]
fn decision_position_is_within_r3() {
    for n in 1..64 {
        for (f, k) in (0..n).flat_map(|f| (1..=n).map(move |k| (f, k))) {
            let x = decision_position(n, f, k);
            assert!((1..=n).contains(&x));
            assert!(k.min(x) <= n - f);
            // No extra hop unless R3 forces one.
            assert_eq!(x == n, k <= n - f || f == 0, "n {n}, f {f}, k {k}");
        }
    }
}

#[test]
fn copies_in_one_domain_are_at_risk_together() {
    let schema = flights(12, 2);
    let layout = Layout::base(&schema);
    let members_at_risk = |placement: &Placement, servers: &[PartitionHost], failures| {
        members_at_risk((&schema, &layout), placement, servers, failures)
    };
    let three = servers(&[1, 1, 1]);
    let apart = places_of(&layout, |replex, _| replex as u32);
    assert_eq!(members_at_risk(&apart, &three, 1), 1);
    assert_eq!(members_at_risk(&apart, &three, 2), 2);
    // The first server holds two of the three.
    let together = places_of(&layout, |replex, _| replex as u32 / 2);
    assert_eq!(members_at_risk(&together, &three, 1), 2);
    // Never all: then nothing would be left to decide by.
    let all = places_of(&layout, |_, _| 0);
    assert_eq!(members_at_risk(&all, &three, 1), 2);
    // Servers of one rack fail together. A server without a rack fails alone.
    let mut racks = servers(&[1, 1]);
    racks[1].domain = racks[0].domain.clone();
    assert_eq!(members_at_risk(&apart, &racks, 1), 2);
    // No failure takes anything.
    assert_eq!(members_at_risk(&all, &three, 0), 0);
}

#[test]
fn flights_on_three_servers_survive_two() {
    let layout = Layout::base(&flights(12, 2));
    let (placement, proof) = assign(&layout, 2, &servers(&[2, 2, 2]), &Loads::new()).unwrap();
    assert_eq!(proof.failures_tolerated(), 2);
    for (replex, places) in placement.replexes.iter().enumerate() {
        assert!(
            places.iter().all(|it| it.server == replex as u32),
            "one server per replex"
        );
        assert_eq!(places.iter().filter(|it| it.core == 0).count(), 6);
    }
}

#[test]
fn co_location_breaks_tolerance() {
    // Partition i of each of three replexes on server i: rows with equal slots have one copy.
    let layout = Layout::base(&flights(12, 2));
    let placement = places_of(&layout, |_, partition| partition);
    let proof = prove(&layout, &placement, &servers(&[1; 12]));
    assert_eq!(proof.copies_guaranteed, 1);
    assert!(proof.exact);
    assert!(
        proof
            .worst_row
            .iter()
            .all(|slot| *slot == proof.worst_row[0])
    );
}

#[test]
fn servers_of_one_domain_fail_together() {
    let layout = Layout::base(&flights(12, 2));
    let mut servers = servers(&[1, 1, 1]);
    servers[2].domain = servers[1].domain.clone();
    assert_eq!(
        assign(&layout, 2, &servers, &Loads::new()).unwrap_err(),
        AssignmentError::TooFewDomains {
            failures_tolerated: 2,
            needed: 3,
            found: 2
        }
    );
    let (_, proof) = assign(&layout, 1, &servers, &Loads::new()).unwrap();
    assert_eq!(proof.failures_tolerated(), 1);
}

#[test]
fn errors_name_the_servers_to_add() {
    let layout = Layout::base(&flights(12, 2));
    let message = |cores: &[u16], failures_tolerated| {
        let result = assign(&layout, failures_tolerated, &servers(cores), &Loads::new());
        result.unwrap_err().to_string()
    };
    assert_eq!(
        message(&[1, 1], 2),
        "failures_tolerated = 2 needs servers in 3 failure domains, there are 2: start servers in 1 more, or set failures_tolerated = 1"
    );
    assert_eq!(
        message(&[], 0),
        "failures_tolerated = 0 needs servers in 1 failure domains, there are 0: start servers in 1 more"
    );
    assert_eq!(
        message(&[1; 4], 3),
        "4 copies are needed, the table has 3: add indexes or exact replicas, or tolerate fewer failures"
    );
    assert_eq!(
        message(&[1, 0], 1),
        "server 1 has no cores or is there twice: give each server its own id"
    );
}

#[test]
fn later_tables_balance_the_cores_that_earlier_tables_left() {
    // Two servers of four get half a copy each, the other two a whole one; the next table turns
    // that round.
    let layout = Layout::base(&flights(12, 2));
    let servers = servers(&[1; 4]);
    let mut held = Loads::new();
    for round in 1..=4 {
        let (placement, _) = assign(&layout, 2, &servers, &held).unwrap();
        for (place, load) in placement.loads(&layout) {
            *held.entry(place).or_default() += load;
        }
        assert!(
            held.values()
                .sum::<u64>()
                .abs_diff(3 * round * LOAD_PER_COPY)
                < 1000
        );
    }
    let fair = 3 * LOAD_PER_COPY;
    assert!(
        held.values()
            .all(|load| load.abs_diff(fair) <= LOAD_PER_COPY / 2),
        "{held:?}"
    );
}

#[test]
fn more_is_tolerated_where_it_costs_nothing() {
    let layout = Layout::base(&flights(12, 2));
    let (_, proof) = assign(&layout, 1, &servers(&[1; 4]), &Loads::new()).unwrap();
    assert_eq!(proof.failures_tolerated(), 2);
}

#[test]
fn more_cores_hold_more() {
    let layout = Layout::base(&table(12, 0, 0));
    let (placement, _) = assign(&layout, 0, &servers(&[1, 3]), &Loads::new()).unwrap();
    let on_small = placement.replexes[0]
        .iter()
        .filter(|it| it.server == 0)
        .count();
    assert_eq!(on_small, 3);
}

#[test]
fn hybrids_are_proven_too() {
    let mut layout = Layout::base(&table(12, 1, 1));
    layout
        .add(layout.hybrid("h", &[(0, 3), (1, 4)]).unwrap())
        .unwrap();
    let (placement, proof) = assign(&layout, 2, &servers(&[1; 6]), &Loads::new()).unwrap();
    assert_eq!(proof.failures_tolerated(), 2);
    // Losing a server for good is seen by the proof.
    let survivors = &servers(&[1; 6])[1..];
    assert_eq!(prove(&layout, &placement, survivors).copies_guaranteed, 2);
}

#[test]
fn large_tables_are_placed_and_proven() {
    let mut layout = Layout::base(&table(4096, 5, 2));
    layout
        .add(layout.hybrid("h", &[(0, 64), (1, 64)]).unwrap())
        .unwrap();
    let (_, proof) = assign(&layout, 2, &servers(&[4; 24]), &Loads::new()).unwrap();
    assert!(proof.exact);
    assert!(proof.failures_tolerated() >= 2);
}
