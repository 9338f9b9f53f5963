//! Thin indexes are no copies: they count for no failure, and cover nothing. Only unique ones have
//! a place in chains.

mod cases;

use cases::flights;
use placement::{
    Constraint, CoverCosts, Layout, Loads, PartitionHost, Relocation, ReplexKind, Schema,
    ThinIndex, amplification_of, assign, cover, members_at_risk, prove,
};

fn thin(name: &str, columns: &[usize], included: &[usize]) -> ThinIndex {
    ThinIndex {
        name: name.into(),
        columns: placement::ascending(columns),
        included: included.into(),
        by_range: false,
        unique: false,
        copies: 1,
    }
}

/// Returns a thin index whose entries are kept several times.
fn kept(name: &str, copies: u8) -> ThinIndex {
    ThinIndex {
        copies,
        ..thin(name, &[1], &[])
    }
}

fn with_thin() -> Schema {
    let mut schema = flights(12, 2);
    schema.thin.push(thin("by_origin", &[2], &[3]));
    schema.thin.push(thin("by_destination", &[3], &[]));
    schema
}

/// Returns servers of one core, each a failure domain of its own.
fn servers(count: u32) -> Vec<PartitionHost> {
    let server = |id| PartitionHost {
        id,
        domain: format!("domain_{id}"),
        cores: 1,
    };
    (0..count).map(server).collect()
}

#[test]
fn a_thin_index_is_no_copy() {
    let (schema, without) = (with_thin(), flights(12, 2));
    let (layout, bare) = (Layout::base(&schema), Layout::base(&without));
    layout.validate(&schema).unwrap();
    assert_eq!(layout.copies(), bare.copies());
    assert_eq!(layout.chain(&schema), bare.chain(&without));
    assert_eq!(layout.voters(&schema), bare.voters(&without));
    assert_eq!(layout.thin_numbers().collect::<Vec<_>>(), [3, 4]);
    assert_eq!(layout.entry_orders(3), Vec::<usize>::new());
    let costs = CoverCosts::LOOKUP;
    let lost = cover(&layout, (3, 5), &|_, _| true, &costs).expect("a copy covers it");
    assert!(lost.members.iter().all(|member| member.replex < 3));
    let only_thin = |replex: usize, _| replex >= 3;
    assert_eq!(cover(&layout, (0, 5), &only_thin, &costs), None);
}

#[test]
fn a_thin_index_tolerates_no_failure() {
    let schema = with_thin();
    let layout = Layout::base(&schema);
    let three = servers(3);
    let (placement, proof) = assign(&layout, 2, &three, &Loads::new()).unwrap();
    assert_eq!(proof.copies_guaranteed, 3);
    assert_eq!(
        members_at_risk((&schema, &layout), &placement, &three, 1),
        1
    );
    for replex in [3, 4] {
        let places = &placement.replexes[replex];
        assert_eq!(places.len(), 12);
        let on = |server: u32| places.iter().filter(|place| place.server == server).count();
        assert_eq!([on(0), on(1), on(2)].iter().sum::<usize>(), 12);
        assert!((0..3).all(|server| on(server) == 4), "{places:?}");
    }
    // Without the servers of the copies nothing is left, wherever the entries are.
    let mut elsewhere = placement.clone();
    for place in elsewhere.replexes[3..].iter_mut().flatten() {
        place.server = 7;
    }
    assert_eq!(
        prove(&layout, &elsewhere, &servers(8)[3..]).copies_guaranteed,
        0
    );
}

/// Its partitions vote, so they are members of the chain. On each server there is one, beside a
/// copy: a failure takes two members.
#[test]
fn a_unique_thin_index_is_a_member_and_no_copy() {
    let (mut schema, bare) = (with_thin(), Layout::base(&flights(12, 2)));
    schema.thin[0].unique = true;
    let layout = Layout::base(&schema);
    assert_eq!(layout.copies(), bare.copies());
    assert_eq!(layout.voters(&schema), bare.voters(&flights(12, 2)) + 1);
    assert_eq!(layout.side_numbers(&schema), [4]);
    let chain = layout.chain(&schema);
    assert_eq!((chain[0], chain.len()), (0, 4));
    let position = chain.iter().position(|number| *number == 3).unwrap();
    assert!(position < layout.voters(&schema), "{chain:?}");
    let three = servers(3);
    let (placement, proof) = assign(&layout, 2, &three, &Loads::new()).unwrap();
    assert_eq!(proof.copies_guaranteed, 3);
    let at_risk = |failures| members_at_risk((&schema, &layout), &placement, &three, failures);
    assert_eq!([0, 1, 2].map(at_risk), [0, 2, 3]);
}

#[test]
fn thin_indexes_come_and_go() {
    let mut schema = flights(12, 2);
    let mut layout = Layout::base(&schema);
    for (number, index) in (3..).zip(with_thin().thin) {
        let mut wanted = schema.clone();
        wanted.thin.push(index);
        assert!(schema.is_extended_by(&wanted));
        assert_eq!(layout.extend(&schema, &wanted).unwrap(), [number]);
        schema = wanted;
    }
    layout.remove(&mut schema, "by_origin").unwrap();
    layout.validate(&schema).unwrap();
    assert_eq!(schema.thin.len(), 1);
    assert_eq!(layout.replexes[3].kind, ReplexKind::Vacant);
    assert_eq!(
        layout.replexes[4].kind,
        ReplexKind::Thin { index: 0, copy: 0 }
    );
    assert_eq!(layout.replexes[4].name, "by_destination");
    layout.remove(&mut schema, "by_destination").unwrap();
    assert_eq!(layout, Layout::base(&flights(12, 2)));
}

#[test]
fn impossible_thin_indexes_are_refused() {
    let refused = |index: ThinIndex, expected: &str| {
        let mut schema = with_thin();
        schema.thin.push(index);
        let message = schema.validate().expect_err(expected).message;
        assert!(message.contains(expected), "{message}");
    };
    refused(thin("by_origin", &[1], &[]), "the name by_origin is taken");
    refused(thin("by_route", &[1], &[]), "the name by_route is taken");
    refused(thin("flights", &[1], &[]), "the name flights is taken");
    refused(thin("empty", &[], &[1]), "has no columns");
    refused(thin("far", &[9], &[]), "names column number 9");
    refused(thin("twice", &[1], &[1]), "names column tail_number twice");
    let mut many = with_thin();
    let more = (0..30).map(|number| thin(&format!("thin_{number}"), &[1], &[]));
    many.thin.extend(more);
    let message = many.validate().expect_err("32 are too many").message;
    assert!(message.contains("the limit is 31"), "{message}");
    refused(thin("1st", &[1], &[]), "is not a name");
    refused(kept("none", 0), "has copies = 0");
    refused(kept("many", 30), "the limit is 31");
}

#[test]
fn copies_of_entries_are_in_different_failure_domains() {
    let mut schema = flights(12, 2);
    schema.thin.push(kept("by_tail_thin", 2));
    let layout = Layout::base(&schema);
    layout.validate(&schema).unwrap();
    assert_eq!(layout.copies(), 3);
    let names = [3, 4].map(|number| &layout.replexes[number].name[..]);
    assert_eq!(names, ["by_tail_thin", "by_tail_thin#2"]);
    assert_eq!(schema.copy_of("by_tail_thin#2"), "by_tail_thin");
    assert_eq!(layout.twins(3, 5), [(4, 5)]);
    let after_losses = amplification_of(&layout, 3);
    assert_eq!(after_losses.after_one.max, 1);
    let mut once = flights(12, 2);
    once.thin.push(kept("by_tail_thin", 1));
    let of_entries_kept_once = amplification_of(&Layout::base(&once), 3);
    assert_eq!(
        after_losses.after_two.max,
        of_entries_kept_once.after_one.max
    );
    // Two servers each are one domain.
    let mut four = servers(6);
    for server in &mut four {
        server.domain = format!("domain_{}", server.id / 2);
    }
    let (placement, _) = assign(&layout, 2, &four, &Loads::new()).unwrap();
    let domain = |replex: usize, number: usize| placement.replexes[replex][number].server / 2;
    assert!((0..12).all(|number| domain(3, number) != domain(4, number)));

    // A partition is beside its copy: it leaves again, and nothing else moves.
    let beside = placement.replexes[4][7];
    let mut moved = placement.clone();
    moved.replexes[3][7] = beside;
    let relocation = Relocation {
        layout: &layout,
        failures_tolerated: 2,
        placement: &moved,
        servers: &four,
        counted: &four,
    };
    let mut loads = moved.loads(&layout);
    let (cell, to) = relocation
        .part_twins(&mut loads)
        .expect("they are beside each other");
    assert!([(3, 7), (4, 7)].contains(&cell));
    assert_ne!(to.server / 2, beside.server / 2);
    let parted = moved.with(&[(cell, to)]);
    let relocation = Relocation {
        placement: &parted,
        ..relocation
    };
    assert_eq!(relocation.part_twins(&mut loads), None);
    // A lost server's partitions do not go beside their copies.
    let left: Vec<PartitionHost> = four[1..].to_vec();
    let relocation = Relocation {
        placement: &placement,
        servers: &left,
        counted: &left,
        ..relocation
    };
    let cells = placement.cells_outside(&left);
    let (after, _) = relocation
        .relocate(&cells, &mut loads)
        .expect("servers are left");
    let domain = |replex: usize, number: usize| after.replexes[replex][number].server / 2;
    assert!((0..12).all(|number| domain(3, number) != domain(4, number)));
}

#[test]
fn copies_of_a_unique_thin_index_do_not_vote() {
    let mut schema = flights(12, 2);
    schema.thin.push(kept("by_tail_key", 3));
    schema.thin[0].unique = true;
    let layout = Layout::base(&schema);
    assert_eq!(layout.side_numbers(&schema), [4, 5]);
    assert_eq!(layout.chain(&schema).len(), 4);
    let constraints = [3, 4, 5].map(|number| layout.constraint(&schema, number));
    assert_eq!(constraints, [Some(Constraint::Unique), None, None]);
}

#[test]
fn all_copies_of_a_thin_index_come_and_go_together() {
    let (mut schema, bare) = (flights(12, 2), Layout::base(&flights(12, 2)));
    let mut layout = bare.clone();
    let mut wanted = schema.clone();
    wanted.thin.push(kept("by_tail_thin", 3));
    assert_eq!(layout.extend(&schema, &wanted).unwrap(), [3, 4, 5]);
    schema = wanted;
    let part = layout.removable(&schema, "by_tail_thin#2").unwrap_err();
    assert!(
        part.message.contains("drop by_tail_thin as a whole"),
        "{part:?}"
    );
    layout.remove(&mut schema, "by_tail_thin").unwrap();
    assert_eq!((layout, schema.thin), (bare, Vec::new()));
}
