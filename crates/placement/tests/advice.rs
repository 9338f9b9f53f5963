//! Advice: the best hybrid by trying all, predictions equal to those of the grid, and the report
//! about a table.

mod cases;

use cases::{config, flights, shared_log, table};
use placement::{
    Layout, Loads, PartitionHost, Spread, TableReport, amplification, assign, best_divisions,
    even_factors,
};
use proptest::prelude::*;

fn exactly(visited: u32, cases: u32) -> Spread {
    Spread {
        max: visited,
        mean: f64::from(visited),
        unreadable: 0,
        cases,
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn best_divisions_beat_all_others(p in 1..200u32, a in 0..1000u64, b in 0..1000u64) {
        let (n1, n2) = best_divisions(p, a, b);
        prop_assert_eq!(n1 * n2, p);
        let cost = |n1: u32| a * u64::from(p / n1) + b * u64::from(n1);
        for other in (1..=p).filter(|it| p.is_multiple_of(*it)) {
            prop_assert!(cost(n1) <= cost(other));
        }
        // They enclose √(p·λA/λB) as divisors do: no divisor lies between it and n1.
        if a > 0 && b > 0 {
            let best = (f64::from(p) * a as f64 / b as f64).sqrt();
            let (low, high) = (best.min(f64::from(n1)), best.max(f64::from(n1)));
            let inside = |it: u32| f64::from(it) > low + 1e-9 && f64::from(it) < high - 1e-9;
            prop_assert!((1..=p).all(|it| !p.is_multiple_of(it) || !inside(it)));
        }
    }

    #[test]
    fn even_factors_multiply_back(p in 1..4097u32, count in 1..6usize) {
        let factors = even_factors(p, count);
        prop_assert_eq!(factors.len(), count);
        prop_assert_eq!(factors.iter().product::<u32>(), p);
        prop_assert!(factors.is_sorted_by(|a, b| a >= b));
    }
}

#[test]
fn best_divisions_follow_the_reads() {
    // Section 3.2: equally important indexes get 5 and 6 of 30. Reads mostly by A want a large
    // n1, because a failure in A costs n2.
    assert_eq!(best_divisions(30, 1, 1), (5, 6));
    assert_eq!(best_divisions(12, 3, 1), (6, 2));
    assert_eq!(best_divisions(12, 1, 0), (12, 1));
    assert_eq!(best_divisions(12, 0, 1), (1, 12));
    assert_eq!(best_divisions(12, u64::MAX, u64::MAX), (3, 4));
}

#[test]
fn even_factors_are_roots_where_there_are() {
    assert_eq!(even_factors(64, 3), [4, 4, 4]);
    assert_eq!(even_factors(12, 2), [4, 3]);
    assert_eq!(even_factors(13, 2), [13, 1]);
    assert_eq!(even_factors(1, 3), [1, 1, 1]);
}

#[test]
fn amplification_of_base_replexes_is_all_partitions() {
    let layout = Layout::base(&table(12, 1, 1));
    for found in amplification(&layout) {
        assert_eq!(found.after_one, exactly(12, 12));
        assert_eq!(
            found.after_two,
            Spread {
                max: 0,
                mean: 0.0,
                unreadable: 144,
                cases: 144
            }
        );
    }
}

#[test]
fn amplification_of_a_hybrid_is_its_divisions() {
    let mut layout = Layout::base(&table(12, 1, 1));
    layout
        .add(layout.hybrid("h", &[(0, 3), (1, 4)]).unwrap())
        .unwrap();
    let found = amplification(&layout);
    // A is read from n2 = 4 hybrid partitions; when one of these is lost as well, from 3 and
    // those 3 partitions of B that feed the lost one. B: n1 = 3, then 2 and 4 of A.
    assert_eq!(found[0].after_one, exactly(4, 12));
    assert_eq!(found[0].after_two, exactly(3 + 3, 48));
    assert_eq!(found[1].after_one, exactly(3, 12));
    assert_eq!(found[1].after_two, exactly(2 + 4, 36));
}

#[test]
fn flights_are_reported() {
    let schema = flights(12, 2);
    let layout = Layout::base(&schema);
    let server = |id| PartitionHost {
        id,
        domain: format!("server {id}"),
        cores: 2,
    };
    let servers: Vec<PartitionHost> = (1..4).map(server).collect();
    let (placement, _) = assign(&layout, 2, &servers, &Loads::new()).unwrap();
    let report = TableReport::new(&schema, &layout, Some((&placement, &servers)));
    assert_eq!((report.copies, report.failures_tolerated), (3, 2));
    assert_eq!(report.failures_proven, Some(2));
    // k = 1 ≤ n − f = 1, so the decider's own decision is enough.
    assert_eq!((report.last_voter, report.decision_position), (1, 3));
    let route = &report.replexes[2];
    assert_eq!(
        (route.name.as_str(), route.kind.as_str()),
        ("by_route", "index")
    );
    assert_eq!(route.axes, ["hash(origin, destination) mod 12"]);
    assert_eq!(route.sorted_by, ["origin", "destination"]);
    assert_eq!(route.servers, [3]);
    assert_eq!(route.after_one_failure, exactly(12, 12));
    assert_eq!(route.after_two_failures, exactly(12, 144));
    assert_eq!(
        TableReport::new(&schema, &layout, None).failures_proven,
        None
    );
}

#[test]
fn every_kind_of_replex_is_described() {
    let schema = shared_log();
    let mut layout = Layout::base(&schema);
    for hybrid in layout.hybrids_between("h", (0, 3), &[2, 2, 2]).unwrap() {
        layout.add(hybrid).unwrap();
    }
    let space = layout.hyperspace("space", &[(0, 4), (1, 2)]).unwrap();
    layout.add(space).unwrap();
    layout.add(layout.exact("copy", 3).unwrap()).unwrap();
    let report = TableReport::new(&schema, &layout, None);
    let shown: Vec<(&str, String)> = report
        .replexes
        .iter()
        .map(|it| (it.kind.as_str(), it.axes.join(" × ")))
        .collect();
    let expected = [
        ("primary", "hash(id) mod 8"),
        ("dense index", "everything"),
        ("dense index", "hash(structure) mod 8"),
        ("index", "hash(structure) mod 8"),
        ("hybrid", "hash(id) mod 8 / 2 mod 4 × hash(structure) mod 2"),
        ("hybrid", "hash(id) mod 8 / 4 mod 2 × hash(structure) mod 4"),
        ("hyperspace", "hash(id) mod 4 × hash(global) mod 2"),
        ("exact replica of by_structure", "hash(structure) mod 8"),
    ];
    assert_eq!(shown, expected.map(|(kind, axes)| (kind, axes.to_string())));
    // k = 3 voters of n = 8 copies, f = 2: no extra hop.
    assert_eq!((report.last_voter, report.decision_position), (3, 8));
}
