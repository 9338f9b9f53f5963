//! Hybrids, exact replicas and hyperspaces as Replex section 3 and HyperDex define them, and the
//! errors that name what is wrong with one.

mod cases;

use cases::{flights, table};
use placement::{Axis, GridError, Layout, Replex, ReplexKind};

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
    broken(|it| it.replexes[1].sort_columns = [99].into());
}
