//! Copies that ranges of their order divide: they count for failures like other copies, whichever
//! range a row is in.

mod cases;

use cases::{flights, table};
use placement::{
    Constraint, CoverCosts, Cut, FurtherCopy, HostCore, Layout, Loads, PartitionHost, Placement,
    Schema, Share, assign, cover, prove,
};

const BY_ROUTE: usize = 2;

/// Flights whose copy by route is divided by ranges.
fn ranged(failures_tolerated: u8) -> Schema {
    let mut schema = flights(4, failures_tolerated);
    schema.indexes[1].by_range = true;
    schema
}

/// Returns servers of one core, two in each failure domain.
fn servers(count: u32) -> Vec<PartitionHost> {
    let server = |id| PartitionHost {
        id,
        domain: format!("domain_{}", id / 2),
        cores: 1,
    };
    (0..count).map(server).collect()
}

/// Splits a range at a key, and places the upper part on a server.
fn split(
    (layout, placement): (&mut Layout, &mut Placement),
    (replex, key): (usize, &[u8]),
    server: u32,
) {
    let ranges = layout.replexes[replex].ranges.as_mut();
    let ranges = ranges.expect("ranges divide it");
    let (from, to) = (ranges.owner(key), ranges.vacant(|_| true));
    assert!(ranges.begin_split(from, key, to));
    ranges.hand_over(to);
    assert!(ranges.end_transfer(to));
    placement.replexes[replex].push(HostCore { server, core: 0 });
}

#[test]
fn a_row_can_be_in_any_range() {
    let schema = ranged(2);
    let mut layout = Layout::base(&schema);
    layout.validate(&schema).unwrap();
    assert_eq!(layout.families(), [vec![0], vec![1], vec![BY_ROUTE]]);
    let servers = servers(8);
    let (mut placement, proof) = assign(&layout, 2, &servers, &Loads::new()).unwrap();
    assert_eq!((proof.copies_guaranteed, proof.exact), (3, true));
    let own = placement.replexes[BY_ROUTE][0].server;
    split((&mut layout, &mut placement), (BY_ROUTE, b"k"), own);
    assert_eq!(prove(&layout, &placement, &servers).copies_guaranteed, 3);
    // Beside the primary replex: a row of this range has two of its copies in one domain.
    let beside = placement.replexes[0][0].server;
    split((&mut layout, &mut placement), (BY_ROUTE, b"t"), beside);
    let proof = prove(&layout, &placement, &servers);
    assert_eq!((proof.copies_guaranteed, proof.exact), (2, true));
    // The partition without a range has no rows, wherever it is.
    let ranges = layout.replexes[BY_ROUTE].ranges.as_mut().unwrap();
    let (upper, vacant) = (ranges.owner(b"t"), ranges.vacant(|_| true));
    let lower = ranges.owner(b"k");
    assert!(ranges.begin_merge(lower, vacant));
    ranges.hand_over(vacant);
    assert!(ranges.end_transfer(vacant));
    let place = HostCore {
        server: own,
        core: 0,
    };
    placement.replexes[BY_ROUTE].push(place);
    assert_eq!(layout.partitions_with_rows(BY_ROUTE), [0, vacant]);
    assert!(upper < vacant);
    assert_eq!(prove(&layout, &placement, &servers).copies_guaranteed, 3);
}

/// The proof agrees with a search through all combinations of slots and ranges.
#[test]
fn the_proof_is_exact() {
    let mut seed = 0x5eed_u64;
    let mut below = |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % most
    };
    for _ in 0..300 {
        let mut schema = table(2, 3, 0);
        schema.indexes[1].by_range = true;
        schema.indexes[2].by_range = true;
        let mut layout = Layout::base(&schema);
        let servers = servers(10);
        let mut placement = Placement {
            replexes: vec![Vec::new(); 4],
        };
        for replex in 0..4 {
            // Server 10 is lost.
            let mut place = || HostCore {
                server: below(11) as u32,
                core: 0,
            };
            let count = layout.partition_count(replex);
            placement.replexes[replex] = (0..count).map(|_| place()).collect();
        }
        for replex in [2, 3] {
            for key in [b"m", b"f"].into_iter().take(below(3) as usize) {
                let server = below(11) as u32;
                split((&mut layout, &mut placement), (replex, key), server);
            }
        }
        let mut least = u32::MAX;
        let partitions: Vec<Vec<u32>> = (0..4).map(|it| layout.partitions_with_rows(it)).collect();
        for (a, b) in pairs(&partitions[0], &partitions[1]) {
            for (c, d) in pairs(&partitions[2], &partitions[3]) {
                let places = [a, b, c, d].into_iter().enumerate();
                let holders = places
                    .map(|(replex, number)| placement.replexes[replex][number as usize].server);
                let mut domains: Vec<u32> =
                    holders.filter(|it| *it < 10).map(|it| it / 2).collect();
                domains.sort_unstable();
                domains.dedup();
                least = least.min(domains.len() as u32);
            }
        }
        let proof = prove(&layout, &placement, &servers);
        assert_eq!(
            (proof.copies_guaranteed, proof.exact),
            (least, true),
            "{placement:?}"
        );
    }
}

fn pairs(one: &[u32], other: &[u32]) -> Vec<(u32, u32)> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (*a, *b)));
    pairs.collect()
}

#[test]
fn covers_name_whole_copies_of_ranges_only() {
    let schema = ranged(2);
    let mut layout = Layout::base(&schema);
    let servers = servers(8);
    let (mut placement, _) = assign(&layout, 2, &servers, &Loads::new()).unwrap();
    split((&mut layout, &mut placement), (BY_ROUTE, b"k"), 0);
    let costs = CoverCosts::UNIFORM;
    // Every partition of another copy can have rows of a range.
    let of_range = cover(&layout, (BY_ROUTE, 1), &|_, _| true, &costs).unwrap();
    assert_eq!(of_range.amplification(), 4);
    // The two ranges are fewer than the four partitions of the other index.
    let of_slot = cover(&layout, (0, 3), &|_, _| true, &costs).unwrap();
    let members: Vec<_> = of_slot
        .members
        .iter()
        .map(|it| (it.replex, it.partition))
        .collect();
    assert_eq!(members, [(BY_ROUTE, 0), (BY_ROUTE, 1)]);
    // With a range lost, members in its place would have rows of the other range, too.
    let available = |replex: usize, number| (replex, number) != (BY_ROUTE, 1);
    let of_slot = cover(&layout, (0, 3), &available, &costs).unwrap();
    assert!(of_slot.members.iter().all(|it| it.replex == 1));
    assert_eq!(of_slot.amplification(), 4);
    let available = |replex: usize, _| replex == BY_ROUTE;
    let fewer = |replex: usize, number: u32| available(replex, number) && number == 0;
    assert!(cover(&layout, (0, 3), &available, &costs).is_some());
    assert_eq!(cover(&layout, (0, 3), &fewer, &costs), None);
}

#[test]
fn what_ranges_cannot_divide_is_refused() {
    let refused = |change: &dyn Fn(&mut Schema)| {
        let mut schema = ranged(1);
        change(&mut schema);
        schema.validate().unwrap_err().message
    };
    assert_eq!(
        refused(&|schema| schema.indexes[1].constraint = Some(Constraint::Unique)),
        "index by_route of table flights demands something of the rows, so ranges cannot divide \
         it: leave ranges out"
    );
    assert_eq!(
        refused(&|schema| schema.indexes[1].partition_columns = Some(1)),
        "index by_route of table flights is divided by ranges and by a hash: leave out one of them"
    );
    let further = |cut| FurtherCopy {
        name: "more".into(),
        cut,
    };
    let replica = further(Cut::Replica { of: Some(1) });
    assert_eq!(
        refused(&|schema| schema.further.push(replica.clone())),
        "more cannot be a replica of by_route, which ranges divide: name another index"
    );
    let share = |index, divisions| Share { index, divisions };
    let shares = vec![share(None, 2), share(Some(1), 2)];
    let hybrid = further(Cut::Hybrid { shares });
    assert_eq!(
        refused(&|schema| schema.further.push(hybrid.clone())),
        "more cannot be shared by by_route, which ranges divide: name an index that a hash divides"
    );
}

#[test]
fn another_number_of_partitions_leaves_ranges_alone() {
    let schema = ranged(1);
    let mut layout = Layout::base(&schema);
    let added = layout.add_successors(&schema, 8).unwrap();
    let of: Vec<usize> = layout.successors().map(|(_, of)| of).collect();
    assert_eq!((added.len(), of), (2, vec![0, 1]));
    layout.promote_successors();
    assert!(layout.is_ranged(BY_ROUTE));
    assert_eq!(layout.partition_count(BY_ROUTE), 1);
}
