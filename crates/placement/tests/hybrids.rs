//! Hybrids, exact replicas and hyperspaces as Replex section 3 and HyperDex define them, and the
//! errors that name the fault of one.

mod cases;

use cases::{flights, table};
use placement::{
    Axis, Constraint, Cut, Dimension, FurtherCopy, GridError, Layout, REPLEXES_MAX, Replex,
    ReplexKind, Schema, Share, TableReport, decision_position,
};

#[test]
fn hybrid_follows_equation_two() {
    let mut layout = Layout::base(&table(12, 1, 1));
    let hybrid = layout.hybrid("h", &[(0, 3), (1, 4)]).unwrap();
    let hybrid = layout.add(hybrid).unwrap();
    for a in 0..12 {
        for b in 0..12 {
            let expected = 4 * (a % 3) + b % 4;
            assert_eq!(layout.partition_of_slots(hybrid, &[a, b]), expected);
        }
    }
}

#[test]
fn one_hybrid_between_is_a_square_grid() {
    let layout = Layout::base(&table(16, 1, 1));
    let hybrids = layout.hybrids_between("h", (0, 1), &[4, 4]).unwrap();
    assert_eq!(hybrids.len(), 1);
    assert_eq!(
        hybrids[0].axes,
        [
            Axis {
                key_space: 0,
                stride: 4,
                divisions: 4
            },
            Axis {
                key_space: 1,
                stride: 1,
                divisions: 4
            },
        ]
    );
}

#[test]
fn hyperspace_shares_the_key_space_of_an_index() {
    let schema = flights(12, 2);
    let mut layout = Layout::base(&schema);
    let before = layout.key_spaces.len();
    let tail_number = schema.column_index("tail_number").unwrap();
    let replex = layout.hyperspace("s", &[(tail_number, 4), (3, 5)]).unwrap();
    assert_eq!(layout.key_spaces.len(), before + 1);
    assert_eq!(layout.key_spaces[replex.axes[0].key_space].slots, 12);
    layout.add(replex).unwrap();
    assert_eq!(layout.partition_count(3), 20);
    layout.validate(&schema).unwrap();
}

#[test]
fn errors_name_the_remedy() {
    let mut layout = Layout::base(&table(12, 1, 1));
    let message = |result: Result<Replex, GridError>| result.unwrap_err().message;
    assert_eq!(
        message(layout.hybrid("h", &[(0, 3), (1, 3)])),
        "the divisions of h do not multiply to the table's 12 partitions: choose others"
    );
    assert_eq!(
        message(layout.hybrid("h", &[(0, 5), (1, 4)])),
        "h cuts an index of 12 partitions into 5, which does not divide it: choose a divisor of 12"
    );
    assert_eq!(
        message(layout.hybrid("h", &[(0, 3), (7, 4)])),
        "h refers to replex number 7, the table has 2: name one of them"
    );
    assert_eq!(
        message(layout.hybrid("h", &[(0, 3), (0, 4)])),
        "hybrid h names two indexes over the same columns: name each once"
    );
    assert_eq!(
        message(layout.hybrid("h", &[(0, 12)])),
        "hybrid h is shared by 1 indexes: name at least two"
    );
    assert!(layout.hybrids_between("h", (0, 1), &[2, 3]).is_err());
    assert!(layout.hybrids_between("h", (0, 0), &[3, 4]).is_err());
    assert!(layout.hyperspace("h", &[(0, 70_000), (1, 70_000)]).is_err());
    assert!(layout.hyperspace("h", &[(0, 0)]).is_err());
    assert!(layout.exact("h", 2).is_err());
    let twice = layout.exact("index_1", 0).unwrap();
    assert_eq!(
        layout.add(twice).unwrap_err().message,
        "the table has a replex named index_1 already: choose another name"
    );
}

#[test]
fn malformed_layouts_are_errors() {
    let schema = table(12, 1, 1);
    let layout = Layout::base(&schema);
    layout.validate(&schema).unwrap();
    let broken = |change: fn(&mut Layout)| {
        let mut layout = layout.clone();
        change(&mut layout);
        layout.validate(&schema).unwrap_err();
    };
    broken(|it| it.key_spaces[0].slots = 0);
    broken(|it| it.key_spaces[0].columns.push(99));
    broken(|it| it.replexes.clear());
    broken(|it| it.replexes[0].kind = ReplexKind::Hybrid);
    broken(|it| it.replexes[1].kind = ReplexKind::Exact { of: 9 });
    broken(|it| it.replexes[1].axes[0].key_space = 9);
    broken(|it| it.replexes[1].axes[0].stride = 0);
    broken(|it| it.replexes[1].axes[0].divisions = u32::MAX);
    broken(|it| it.replexes[1].sort_columns = placement::ascending(&[99]));
}

fn further(name: &str, cut: Cut) -> FurtherCopy {
    FurtherCopy {
        name: name.into(),
        cut,
    }
}

fn hybrid(shares: &[(Option<usize>, u32)]) -> Cut {
    let shares = shares.iter();
    Cut::Hybrid {
        shares: shares
            .map(|(index, divisions)| Share {
                index: *index,
                divisions: *divisions,
            })
            .collect(),
    }
}

fn hyperspace(dimensions: &[(usize, u32)]) -> Cut {
    let dimensions = dimensions.iter();
    Cut::Hyperspace {
        dimensions: dimensions
            .map(|(column, divisions)| Dimension {
                column: *column,
                divisions: *divisions,
            })
            .collect(),
    }
}

/// A table of 12 partitions with two indexes, the second unique, and every kind of further copy.
fn of_every_kind() -> Schema {
    let mut schema = table(12, 2, 1);
    schema.indexes[1].constraint = Some(Constraint::Unique);
    schema.further = vec![
        further("h", hybrid(&[(None, 3), (Some(0), 4)])),
        further("three", hybrid(&[(None, 2), (Some(0), 3), (Some(1), 2)])),
        further(
            "k",
            Cut::HybridsBetween {
                first: Some(0),
                last: Some(1),
                factors: vec![3, 2, 2],
            },
        ),
        further("r", Cut::Replica { of: Some(1) }),
        further("s", hyperspace(&[(1, 2), (2, 5)])),
    ];
    schema
}

#[test]
fn a_schema_names_copies_of_every_kind() {
    let schema = of_every_kind();
    schema.validate().unwrap();
    let layout = Layout::base(&schema);
    layout.validate(&schema).unwrap();
    let names: Vec<&str> = layout.replexes.iter().map(|it| it.name.as_str()).collect();
    let expected = [
        "t", "index_2", "index_1", "h", "three", "k_1", "k_2", "r", "s",
    ];
    assert_eq!(names, expected, "voters, indexes, then further copies");
    assert_eq!(schema.replex_count(), names.len());
    assert_eq!(layout.voters(&schema), 2, "further copies never vote no");
    assert_eq!(decision_position(9, 1, 2), 9);
    let kinds: Vec<ReplexKind> = layout.replexes[3..].iter().map(|it| it.kind).collect();
    let hybrids = [ReplexKind::Hybrid; 4];
    assert_eq!(kinds[..4], hybrids);
    assert_eq!(kinds[4], ReplexKind::Exact { of: 1 });
    assert_eq!(kinds[5], ReplexKind::Hyperspace);
    let counts: Vec<u32> = (3..9)
        .map(|replex| layout.partition_count(replex))
        .collect();
    assert_eq!(counts, [12, 12, 12, 12, 12, 10]);
    // The hybrid follows equation (2), regardless of the other copies.
    let slots = vec![5; layout.key_spaces.len()];
    assert_eq!(layout.partition_of_slots(3, &slots), 4 * (5 % 3) + 5 % 4);
}

/// Section 5.3: with (A, n1), (B, n2) a failure in A costs n2 and a failure in B costs n1.
#[test]
fn report_predicts_the_savings_of_a_hybrid() {
    let mut schema = table(12, 1, 1);
    let visited = |schema: &Schema| {
        let report = TableReport::new(schema, &Layout::base(schema), None);
        let replexes = report.replexes.iter();
        let both = replexes.map(|it| (it.after_one_failure.max, it.after_two_failures.max));
        both.collect::<Vec<_>>()
    };
    assert_eq!(visited(&schema), [(12, 0), (12, 0)]);
    schema.further = vec![further("h", hybrid(&[(None, 3), (Some(0), 4)]))];
    let with_hybrid = visited(&schema);
    assert_eq!((with_hybrid[0].0, with_hybrid[1].0), (4, 3));
    assert!(with_hybrid[0].1 > 4 && with_hybrid[1].1 > 3);
}

#[test]
fn further_copies_count_for_the_failures_tolerated() {
    let mut schema = table(12, 1, 3);
    schema.further = vec![further("t_copy_1", hybrid(&[(None, 3), (Some(0), 4)]))];
    schema.validate().unwrap();
    let layout = Layout::base(&schema);
    let names: Vec<&str> = layout.replexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["t", "index_1", "t_copy_1", "t_copy_2"]);
}

#[test]
fn a_schema_with_copies_that_cannot_be_is_refused() {
    let refused = |copies: &[FurtherCopy], part: &str| {
        let mut schema = table(12, 2, 1);
        schema.indexes[1].columns = vec![1];
        schema.further = copies.to_vec();
        let message = schema.validate().unwrap_err().message;
        assert!(message.contains(part), "{message}");
    };
    let one = |cut: Cut, part: &str| refused(&[further("h", cut)], part);
    let between = |first, last, factors: &[u32]| Cut::HybridsBetween {
        first,
        last,
        factors: factors.to_vec(),
    };
    one(hybrid(&[(None, 3), (Some(0), 3)]), "do not multiply");
    one(hybrid(&[(None, 5), (Some(0), 4)]), "does not divide it");
    one(hybrid(&[(None, 12)]), "name at least two");
    one(hybrid(&[(Some(0), 3), (Some(1), 4)]), "the same columns");
    one(
        hybrid(&[(None, 3), (Some(2), 4)]),
        "the table does not have",
    );
    one(between(None, Some(0), &[12]), "at least two");
    one(between(None, Some(0), &[5, 2]), "do not multiply");
    one(between(None, None, &[3, 4]), "the same columns");
    one(
        between(None, Some(0), &[1; REPLEXES_MAX + 1]),
        "the limit is 63",
    );
    one(Cut::Replica { of: Some(9) }, "the table does not have");
    one(hyperspace(&[]), "name at least one");
    one(hyperspace(&[(1, 3), (1, 4)]), "twice");
    one(hyperspace(&[(9, 3)]), "column number 9");
    one(hyperspace(&[(1, 4096), (2, 2)]), "must multiply to");
    let replica = |name| further(name, Cut::Replica { of: None });
    refused(&[replica("index_1")], "choose another name");
    refused(&[replica("t")], "choose another name");
    refused(&[replica("r"), replica("r")], "choose another name");
    refused(&[replica("2")], "is not a name");
    let names: Vec<String> = (0..REPLEXES_MAX).map(|it| format!("r{it}")).collect();
    let many: Vec<FurtherCopy> = names.iter().map(|it| replica(it)).collect();
    refused(&many, "takes 66 copies");
}
