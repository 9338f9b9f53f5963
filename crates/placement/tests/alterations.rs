//! Copies that come to a table and go from it: the others keep their numbers, names and cuts.

mod cases;

use cases::table;
use placement::{Constraint, Cut, FurtherCopy, Index, Layout, ReplexKind, Schema, Share};

fn index(name: &str, column: usize, constraint: Option<Constraint>) -> Index {
    Index {
        name: name.into(),
        columns: vec![column],
        constraint,
        partition_columns: None,
        by_range: false,
    }
}

fn hybrid(name: &str, shared: usize) -> FurtherCopy {
    let share = |index, divisions| Share { index, divisions };
    FurtherCopy {
        name: name.into(),
        cut: Cut::Hybrid {
            shares: vec![share(None, 3), share(Some(shared), 4)],
        },
    }
}

/// Adds to both, and returns the numbers.
fn add(layout: &mut Layout, schema: &mut Schema, change: impl FnOnce(&mut Schema)) -> Vec<usize> {
    let mut wanted = schema.clone();
    change(&mut wanted);
    wanted.validate().expect("the schema can be");
    let numbers = layout
        .extend(schema, &wanted)
        .expect("the copy can be added");
    *schema = wanted;
    layout.validate(schema).expect("the layout fits");
    numbers
}

fn names(layout: &Layout) -> Vec<(usize, &str)> {
    let named = |number: usize| (number, layout.replexes[number].name.as_str());
    layout.numbers().map(named).collect()
}

#[test]
fn numbers_outlive_other_copies() {
    let mut schema = table(12, 2, 1);
    let mut layout = Layout::base(&schema);
    let first = schema.indexes[0].name.clone();
    let second = schema.indexes[1].name.clone();
    let kept = layout.replexes[2].clone();
    assert_eq!(
        add(&mut layout, &mut schema, |it| it
            .further
            .push(hybrid("h", 1))),
        [3]
    );
    layout.remove(&mut schema, &first).unwrap();
    layout.validate(&schema).unwrap();
    schema.validate().unwrap();
    assert_eq!(layout.partition_count(1), 0);
    assert_eq!(names(&layout), [(0, "t"), (2, second.as_str()), (3, "h")]);
    assert_eq!(layout.replexes[2].kind, ReplexKind::Index { index: 0 });
    assert_eq!(layout.replexes[2].sort_columns, kept.sort_columns);
    let Cut::Hybrid { shares } = &schema.further[0].cut else {
        panic!("it is a hybrid");
    };
    assert_eq!(shares[1].index, Some(0), "positions in the schema move up");
    let any = placement::SlotConstraints::any(layout.key_spaces.len());
    assert_eq!(layout.partitions(&any, 2).len(), 12);
    assert_eq!(layout.key_spaces.len(), 2, "the dropped index had its own");

    let unique = index("late", 1, Some(Constraint::Unique));
    let number = add(&mut layout, &mut schema, |it| it.indexes.push(unique));
    assert_eq!(number, [1], "the vacant number is taken");
    assert_eq!(layout.chain(&schema), [0, 1, 2, 3]);
    layout.remove(&mut schema, "h").unwrap();
    assert_eq!(layout.replexes.len(), 3, "no vacancy at the end");
}

#[test]
fn voters_come_first_in_the_chain_whatever_their_number() {
    let mut schema = table(4, 1, 1);
    let mut layout = Layout::base(&schema);
    let unique = index("late", 1, Some(Constraint::Unique));
    assert_eq!(
        add(&mut layout, &mut schema, |it| it.indexes.push(unique)),
        [2]
    );
    assert_eq!(layout.chain(&schema), [0, 2, 1]);
    assert_eq!(layout.voters(&schema), 2);
}

#[test]
fn source_index_of_a_copy_cannot_be_dropped() {
    let mut schema = table(12, 1, 1);
    let mut layout = Layout::base(&schema);
    let name = schema.indexes[0].name.clone();
    add(&mut layout, &mut schema, |it| {
        it.further.push(hybrid("h", 0))
    });
    let before = (layout.clone(), schema.clone());
    for (name, part) in [
        (name.as_str(), "copy h of table t is made of index"),
        ("t", "is the primary key of its table"),
        ("nothing", "table t has no index nothing"),
    ] {
        let error = layout.remove(&mut schema, name).unwrap_err().message;
        assert!(error.contains(part), "{error}");
    }
    assert_eq!((layout, schema), before);
}

#[test]
fn several_hybrids_go_as_one() {
    let mut schema = table(12, 1, 1);
    let mut layout = Layout::base(&schema);
    let between = FurtherCopy {
        name: "k".into(),
        cut: Cut::HybridsBetween {
            first: None,
            last: Some(0),
            factors: vec![3, 2, 2],
        },
    };
    assert_eq!(
        add(&mut layout, &mut schema, |it| it.further.push(between)),
        [2, 3]
    );
    let error = layout.remove(&mut schema, "k_1").unwrap_err().message;
    assert!(error.contains("drop k as a whole"), "{error}");
    layout.remove(&mut schema, "k").unwrap();
    assert_eq!(layout.copies(), 2);
}

#[test]
fn an_extension_is_one_thing_more() {
    let schema = table(12, 1, 1);
    let mut wanted = schema.clone();
    assert!(!schema.is_extended_by(&wanted));
    wanted.further.push(hybrid("h", 0));
    assert!(schema.is_extended_by(&wanted));
    let mut other = wanted.clone();
    other.partitions = 6;
    assert!(!schema.is_extended_by(&other));
    wanted.indexes.push(index("late", 1, None));
    assert!(!schema.is_extended_by(&wanted), "two things at once");
}

/// Returns the copies by name, each with its number of partitions.
fn partitions_of(layout: &Layout) -> Vec<(&str, u32)> {
    let copy = |number: usize| {
        let name = layout.replexes[number].name.as_str();
        (name, layout.partition_count(number))
    };
    let mut copies: Vec<_> = layout.numbers().map(copy).collect();
    copies.sort_unstable();
    copies
}

#[test]
fn successors_take_the_places_of_the_copies_that_another_number_cuts() {
    let mut schema = table(12, 2, 1);
    schema.further.push(FurtherCopy {
        name: "again".into(),
        cut: Cut::Replica { of: Some(1) },
    });
    schema.further.push(FurtherCopy {
        name: "s".into(),
        cut: Cut::Hyperspace {
            dimensions: vec![placement::Dimension {
                column: 1,
                divisions: 4,
            }],
        },
    });
    schema.validate().unwrap();
    let before = Layout::base(&schema);
    let mut layout = before.clone();
    let added = layout.add_successors(&schema, 48).unwrap();
    layout.validate(&schema).unwrap();
    assert_eq!(added, [5, 6, 7, 8], "all but the hyperspace");
    assert_eq!(layout.next_partitions(), Some(48));
    assert_eq!(layout.chain(&schema)[0], 0, "the head stays for now");

    let mut given_up = layout.clone();
    given_up.drop_successors();
    assert_eq!(given_up, before);

    layout.promote_successors();
    schema.partitions = 48;
    layout.validate(&schema).unwrap();
    assert_eq!(layout.primary(), 5);
    assert_eq!(
        layout.chain(&schema)[0],
        5,
        "chains begin at the primary replex"
    );
    assert_eq!(
        partitions_of(&layout),
        partitions_of(&Layout::base(&schema))
    );
    let again = layout
        .replexes
        .iter()
        .find(|it| it.name == "again")
        .unwrap();
    assert_eq!(
        again.kind,
        ReplexKind::Exact { of: 7 },
        "of the successor of what it was of"
    );

    // The numbers before are free again, and the hyperspace has kept its own.
    assert_eq!(layout.add_successors(&schema, 6).unwrap(), [0, 1, 2, 3]);
    layout.promote_successors();
    assert_eq!(layout.primary(), 0);
    let grid = |layout: &Layout| {
        let axis = layout.replexes[4].axes[0];
        (layout.key_spaces[axis.key_space].clone(), axis.divisions)
    };
    assert_eq!(grid(&layout), grid(&before));
}

#[test]
fn hybrids_must_go_before_another_number_of_partitions() {
    let mut schema = table(12, 2, 1);
    let mut layout = Layout::base(&schema);
    add(&mut layout, &mut schema, |it| {
        it.further.push(hybrid("h", 1))
    });
    let error = layout.add_successors(&schema, 24).unwrap_err();
    assert!(error.message.contains("drop h first"), "{}", error.message);
}
