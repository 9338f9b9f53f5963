//! Covers: the figures of Replex section 3, the formulas for one failure, and enumeration for
//! everything else.

mod cases;

use cases::{all_rows, config, layout, table};
use placement::{
    Axis, Cover, CoverCosts, KeySpace, Layout, Replex, ReplexKind, RowAccess, SlotConstraints,
    access, cover, cover_constraints,
};
use proptest::prelude::*;

const A: usize = 0;
const B: usize = 1;
const HYBRID: usize = 2;

/// A and B of p partitions each, and a hybrid (n1, n2) between them.
fn hybrid(n1: u32, n2: u32) -> Layout {
    let mut layout = Layout::base(&table(n1 * n2, 1, 1));
    let hybrid = layout
        .hybrid("h", &[(A, n1), (B, n2)])
        .expect("n1 · n2 = p");
    assert_eq!(layout.add(hybrid), Ok(HYBRID));
    layout
}

fn without(layout: &Layout, lost: (usize, u32), others: &[(usize, u32)]) -> Option<Cover> {
    let available = |replex, partition| !others.contains(&(replex, partition));
    cover(layout, lost, &available, &CoverCosts::LOOKUP)
}

fn partitions(cover: &Cover) -> Vec<(usize, u32)> {
    cover
        .members
        .iter()
        .map(|member| (member.replex, member.partition))
        .collect()
}

#[test]
fn figure_5_one_failure_costs_two() {
    let layout = hybrid(2, 2);
    for partition in 0..4 {
        for index in [A, B] {
            let cover = without(&layout, (index, partition), &[]).unwrap();
            assert_eq!(cover.amplification(), 2);
            assert!(cover.members.iter().all(|it| it.replex == HYBRID));
            assert!(
                cover
                    .members
                    .iter()
                    .all(|it| it.access <= RowAccess::LocalIndex)
            );
        }
    }
}

#[test]
fn figure_6_degrades_gracefully() {
    let layout = hybrid(2, 2);
    let lost = (B, 1);
    // Partition 1 of B has odd slots, so its rows are in hybrid partitions (0, 1) and (1, 1).
    assert_eq!(
        partitions(&without(&layout, lost, &[]).unwrap()),
        [(HYBRID, 1), (HYBRID, 3)]
    );
    // The second failure is replaced by the two partitions of A that feed it: three in all, each
    // of A's asked for no more than the lost rows.
    let cover = without(&layout, lost, &[(HYBRID, 1)]).unwrap();
    assert_eq!(partitions(&cover), [(HYBRID, 3), (A, 0), (A, 2)]);
    let of_both = layout
        .constraints_of_partition(B, 1)
        .and(&layout.constraints_of_partition(HYBRID, 1));
    assert_eq!(cover.members[1].constraints, of_both);
    // Three must fail before the worst set, the whole of A, is used.
    let cover = without(&layout, lost, &[(HYBRID, 1), (HYBRID, 3)]).unwrap();
    assert_eq!(partitions(&cover), [(A, 0), (A, 1), (A, 2), (A, 3)]);
    // A fourth in A leaves some rows nowhere.
    assert_eq!(
        without(&layout, lost, &[(HYBRID, 1), (HYBRID, 3), (A, 2)]),
        None
    );
}

#[test]
fn exact_replica_stops_suddenly() {
    // Section 3.1: nothing after one failure, everything after two.
    let mut layout = Layout::base(&table(4, 1, 1));
    let copy = layout.add(layout.exact("copy", A).unwrap()).unwrap();
    let first = without(&layout, (A, 2), &[]).unwrap();
    assert_eq!(partitions(&first), [(copy, 2)]);
    assert_eq!(first.members[0].access, RowAccess::Sorted);
    assert_eq!(
        without(&layout, (A, 2), &[(copy, 2)])
            .unwrap()
            .amplification(),
        4
    );
    // B does not gain from A's replica.
    assert_eq!(without(&layout, (B, 2), &[]).unwrap().amplification(), 4);
}

#[test]
fn failure_in_a_costs_n2_and_in_b_n1() {
    // Equation (2) and section 5.3; the examples of section 3.2 have it the wrong way round.
    for (n1, n2) in [(1, 12), (2, 6), (3, 4), (4, 3), (6, 2), (12, 1)] {
        let layout = hybrid(n1, n2);
        for partition in 0..12 {
            let amplification = |index| {
                without(&layout, (index, partition), &[])
                    .unwrap()
                    .amplification()
            };
            assert_eq!(amplification(A), n2, "({n1}, {n2})");
            assert_eq!(amplification(B), n1, "({n1}, {n2})");
        }
    }
}

#[test]
fn hybrid_of_r_indexes_costs_the_other_divisions() {
    let mut layout = Layout::base(&table(24, 2, 2));
    layout
        .add(layout.hybrid("h", &[(0, 2), (1, 3), (2, 4)]).unwrap())
        .unwrap();
    for (index, expected) in [(0, 3 * 4), (1, 2 * 4), (2, 2 * 3)] {
        for partition in 0..24 {
            let cover = without(&layout, (index, partition), &[]).unwrap();
            assert_eq!(cover.amplification(), expected);
        }
    }
}

#[test]
fn figure_7_costs_one_more_per_failure() {
    let mut layout = Layout::base(&table(8, 1, 1));
    for hybrid in layout.hybrids_between("h", (A, B), &[2, 2, 2]).unwrap() {
        layout.add(hybrid).unwrap();
    }
    assert_eq!(layout.replexes.len(), 4);
    // From either side, losing one member of the cover after the other: 2, 3, 4.
    for lost in (0..8).flat_map(|it| [(A, it), (B, it)]) {
        let mut others = Vec::new();
        for expected in [2, 3, 4] {
            let cover = without(&layout, lost, &others).unwrap();
            assert_eq!(cover.amplification(), expected, "{lost:?} and {others:?}");
            others.push(partitions(&cover).pop().unwrap());
        }
    }
}

#[test]
fn k_hybrids_cost_the_root_of_p() {
    // p^(1 / (k + 1)) for k = 1, 2, 3 (section 3.3), for each replex of the row.
    for (k, root) in [(1, 8), (2, 4), (5, 2)] {
        let mut layout = Layout::base(&table(64, 1, 1));
        let factors = vec![root; k + 1];
        for hybrid in layout.hybrids_between("h", (A, B), &factors).unwrap() {
            layout.add(hybrid).unwrap();
        }
        for replex in 0..layout.replexes.len() {
            let cover = cover(&layout, (replex, 5), &|_, _| true, &CoverCosts::UNIFORM);
            assert_eq!(
                cover.unwrap().amplification(),
                root,
                "k = {k}, replex {replex}"
            );
        }
    }
}

#[test]
fn each_step_of_the_row_costs_its_factor() {
    let mut layout = Layout::base(&table(24, 1, 1));
    for hybrid in layout.hybrids_between("h", (A, B), &[2, 3, 4]).unwrap() {
        layout.add(hybrid).unwrap();
    }
    // A | 4 | first hybrid | 3 | second hybrid | 2 | B
    for (replex, expected) in [(A, 4), (2, 3), (3, 2), (B, 2)] {
        let cover = cover(&layout, (replex, 11), &|_, _| true, &CoverCosts::UNIFORM);
        assert_eq!(cover.unwrap().amplification(), expected, "replex {replex}");
    }
}

#[test]
fn index_lookups_are_preferred_to_scans() {
    // A (1, 12) hybrid costs A twelve partitions, as B does; the hybrid is in the order of A.
    let mut layout = hybrid(1, 12);
    for (local_entries, other) in [(true, RowAccess::LocalIndex), (false, RowAccess::Scan)] {
        layout.local_entries = local_entries;
        let cover = without(&layout, (A, 0), &[]).unwrap();
        assert_eq!(cover.amplification(), 12);
        assert!(cover.members.iter().all(|it| it.replex == HYBRID));
        assert_eq!(access(&layout, A, B), other);
        assert_eq!(access(&layout, B, HYBRID), other);
        assert_eq!(access(&layout, A, HYBRID), RowAccess::Sorted);
    }
}

#[test]
fn lookups_use_their_own_partition_while_it_is_there() {
    let layout = hybrid(3, 4);
    let mut wanted = SlotConstraints::any(2);
    wanted.require_slot(B, 7, 12);
    let all = |_, _| true;
    let cover = cover_constraints(&layout, B, &wanted, &all, &CoverCosts::LOOKUP).unwrap();
    assert_eq!(partitions(&cover), [(B, 7)]);
    let lost = |replex, partition| (replex, partition) != (B, 7);
    let cover = cover_constraints(&layout, B, &wanted, &lost, &CoverCosts::LOOKUP).unwrap();
    assert_eq!(partitions(&cover), [(HYBRID, 3), (HYBRID, 7), (HYBRID, 11)]);
}

#[test]
fn search_for_the_impossible_ends() {
    // Every hybrid is lost, and half of A and B: the search has very many ways to fail.
    let mut layout = Layout::base(&table(64, 1, 1));
    for hybrid in layout.hybrids_between("h", (A, B), &[2; 6]).unwrap() {
        layout.add(hybrid).unwrap();
    }
    let available = |replex, partition: u32| replex < 2 && !partition.is_multiple_of(2);
    assert_eq!(
        cover(&layout, (A, 0), &available, &CoverCosts::LOOKUP),
        None
    );
}

#[test]
fn lost_member_may_be_cheaper_to_replace_than_to_read() {
    let key_space = |column, slots| KeySpace {
        columns: vec![column],
        slots,
    };
    let replex = |sort_column, key_space, stride, divisions| Replex {
        ranges: None,
        name: String::new(),
        kind: ReplexKind::Hybrid,
        axes: vec![Axis {
            key_space,
            stride,
            divisions,
        }],
        sort_columns: placement::ascending(&[sort_column]),
    };
    let mut layout = Layout {
        key_spaces: vec![key_space(0, 2), key_space(1, 4), key_space(2, 8)],
        replexes: vec![
            replex(0, 0, 1, 2),
            replex(1, 1, 2, 2),
            replex(0, 1, 1, 4),
            replex(0, 2, 1, 8),
        ],
        local_entries: false,
    };
    layout.replexes[0].kind = ReplexKind::Primary;
    let lost = [(1, 1), (2, 0), (2, 1)];
    let available = |replex, partition| !lost.contains(&(replex, partition));
    let costs = CoverCosts {
        sorted: 1,
        local_index: 1,
        scan: 5,
    };
    let cover = cover(&layout, (0, 0), &available, &costs).unwrap();
    // One scan and two sorted lookups beat eight sorted lookups.
    assert_eq!(partitions(&cover), [(1, 0), (2, 2), (2, 3)]);
    assert_eq!(cover.cost, 7);
}

/// The cheapest cover's cost by the definition alone, without bounds or pruning.
fn cheapest_by_definition(
    layout: &Layout,
    lookup: usize,
    constraints: &SlotConstraints,
    costs: &CoverCosts,
    excluded: &[usize],
    available: &dyn Fn(usize, u32) -> bool,
) -> Option<u64> {
    let others = (0..layout.replexes.len()).filter(|it| !excluded.contains(it));
    let sums = others.filter_map(|replex| {
        let own = costs.of(access(layout, lookup, replex));
        let excluded: Vec<usize> = excluded.iter().copied().chain([replex]).collect();
        let of = |partition| {
            if available(replex, partition) {
                return Some(own);
            }
            let both = constraints.and(&layout.constraints_of_partition(replex, partition));
            cheapest_by_definition(layout, lookup, &both, costs, &excluded, available)
        };
        layout
            .partitions(constraints, replex)
            .into_iter()
            .map(of)
            .sum()
    });
    sums.min()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn covers_hold_every_lost_row_once(
        layout in layout(),
        lost in any::<(prop::sample::Index, prop::sample::Index)>(),
        others in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..24),
        (sorted, local_index, scan) in (1..6u64, 1..6u64, 1..6u64),
    ) {
        let pick = |(replex, partition): (prop::sample::Index, prop::sample::Index)| {
            let replex = replex.index(layout.replexes.len());
            (replex, partition.index(layout.partition_count(replex) as usize) as u32)
        };
        let lost = pick(lost);
        let others: Vec<(usize, u32)> = others.into_iter().map(pick).collect();
        let available = |replex, partition| !others.contains(&(replex, partition));
        let costs = CoverCosts { sorted, local_index, scan };
        let found = cover(&layout, lost, &available, &costs);

        let wanted = layout.constraints_of_partition(lost.0, lost.1);
        let expected = cheapest_by_definition(&layout, lost.0, &wanted, &costs, &[lost.0], &available);
        prop_assert_eq!(found.as_ref().map(|it| it.cost), expected);

        let rows = all_rows(&layout);
        let lost_rows: Vec<&Vec<u32>> =
            rows.iter().filter(|row| layout.partition_of_slots(lost.0, row) == lost.1).collect();
        let has_copy = |row: &Vec<u32>| {
            let mut others = (0..layout.replexes.len()).filter(|replex| *replex != lost.0);
            others.any(|replex| available(replex, layout.partition_of_slots(replex, row)))
        };
        prop_assert_eq!(found.is_some(), lost_rows.iter().all(|row| has_copy(row)));
        let Some(found) = found else { return Ok(()) };
        for member in &found.members {
            prop_assert!(available(member.replex, member.partition));
            prop_assert_ne!(member.replex, lost.0);
            prop_assert_eq!(member.access, access(&layout, lost.0, member.replex));
        }
        let cost: u64 = found.members.iter().map(|it| costs.of(it.access)).sum();
        prop_assert_eq!(found.cost, cost);
        for row in &rows {
            let holders = found.members.iter().filter(|it| {
                layout.partition_of_slots(it.replex, row) == it.partition
                    && it.constraints.admits(row)
            });
            let expected = usize::from(lost_rows.contains(&row));
            prop_assert_eq!(holders.count(), expected, "row {:?}", row);
        }
    }

    #[test]
    fn covers_of_base_replexes_are_whole_replexes(p in 1..24u32, lost in 0..24u32) {
        let layout = Layout::base(&table(p, 2, 2));
        let cover = without(&layout, (1, lost % p), &[]).unwrap();
        prop_assert_eq!(cover.amplification(), p);
        prop_assert!(layout.replexes.iter().all(|it| it.kind != ReplexKind::Hybrid));
    }
}
