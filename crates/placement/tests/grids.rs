//! Grids: base layouts follow the schema, every row is in one partition, and `partitions` finds
//! exactly the cells that enumeration finds.

mod cases;

use cases::{all_rows, column, config, flights, layout, shared_log, table};
use placement::{
    CheckConstraint, ColumnDefault, ColumnType, Constraint, Expression, Layout, ReplexKind,
    Residue, RowView, Schema, SlotConstraints, Value, ValueRef, encode_key, encode_row,
};
use proptest::prelude::*;

fn residue() -> impl Strategy<Value = Residue> {
    (1..9u32, 1..9u32, any::<prop::sample::Index>()).prop_map(|(stride, divisions, at)| Residue {
        stride,
        divisions,
        coordinate: at.index(divisions as usize) as u32,
    })
}

/// A layout with residues for any of its key spaces.
fn constrained() -> impl Strategy<Value = (Layout, Vec<(usize, Residue)>)> {
    layout().prop_flat_map(|layout| {
        let key_spaces = 0..layout.key_spaces.len();
        (
            Just(layout),
            prop::collection::vec((key_spaces, residue()), 0..5),
        )
    })
}

fn require(layout: &Layout, residues: &[(usize, Residue)]) -> SlotConstraints {
    let mut constraints = SlotConstraints::any(layout.key_spaces.len());
    for (key_space, residue) in residues {
        constraints.require(*key_space, *residue);
    }
    constraints
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn constraints_are_the_conjunction_of_their_residues((layout, residues) in constrained()) {
        let constraints = require(&layout, &residues);
        prop_assert!(layout.accepts(&constraints));
        let (first, second) = residues.split_at(residues.len() / 2);
        let both = require(&layout, first).and(&require(&layout, second));
        for row in all_rows(&layout) {
            let expected = residues.iter().all(|(key_space, it)| it.admits(row[*key_space]));
            prop_assert_eq!(constraints.admits(&row), expected);
            prop_assert_eq!(both.admits(&row), expected);
        }
        for (index, key_space) in layout.key_spaces.iter().enumerate() {
            let allowed: Vec<u32> = constraints.allowed_slots(index, key_space.slots).collect();
            let expected: Vec<u32> =
                (0..key_space.slots).filter(|it| constraints.admits_slot(index, *it)).collect();
            prop_assert_eq!(allowed, expected);
        }
    }

    #[test]
    fn partitions_agree_with_enumeration((layout, residues) in constrained()) {
        let constraints = require(&layout, &residues);
        for replex in 0..layout.replexes.len() {
            let rows = all_rows(&layout);
            let admitted = rows.iter().filter(|row| constraints.admits(row));
            let mut expected: Vec<u32> =
                admitted.map(|row| layout.partition_of_slots(replex, row)).collect();
            expected.sort_unstable();
            expected.dedup();
            prop_assert_eq!(layout.partitions(&constraints, replex), expected);
        }
    }

    #[test]
    fn partition_satisfies_its_constraints(layout in layout()) {
        for replex in 0..layout.replexes.len() {
            for partition in 0..layout.partition_count(replex) {
                let constraints = layout.constraints_of_partition(replex, partition);
                for row in all_rows(&layout) {
                    let inside = layout.partition_of_slots(replex, &row) == partition;
                    prop_assert_eq!(constraints.admits(&row), inside);
                }
            }
        }
    }

    #[test]
    fn rows_values_and_predicates_agree(
        id in any::<i64>(),
        tail_number in "[A-Z0-9]{0,300}",
        origin in "[A-Z]{3}",
        destination in "[A-Z]{3}",
    ) {
        let schema = flights(12, 2);
        let mut layout = Layout::base(&schema);
        layout.add(layout.hybrid("h", &[(0, 3), (1, 4)]).unwrap()).unwrap();
        let values = [
            Value::Int64(id),
            Value::Text(tail_number),
            Value::Text(origin),
            Value::Text(destination),
        ];
        let bytes = encode_row(&schema.columns, &values).unwrap();
        let row = RowView::parse(&schema.columns, &bytes).unwrap();
        let slots = layout.slots(&|column| values[column].as_ref());
        for (key_space, slot) in layout.key_spaces.iter().zip(&slots) {
            let key = encode_key(key_space.columns.iter().map(|it| values[*it].as_ref()));
            let hash = xxhash_rust::xxh3::xxh3_64(&key);
            prop_assert_eq!(u64::from(*slot), hash % u64::from(key_space.slots));
        }
        for replex in 0..layout.replexes.len() {
            let partition = layout.partition_of_row(replex, &row);
            prop_assert_eq!(partition, layout.partition_of_slots(replex, &slots));
            let by_values = layout.partition_of_values(replex, |column| values[column].as_ref());
            prop_assert_eq!(partition, by_values);
            // The predicate that equates the sorting key finds the row, in one partition if the
            // replex is an index.
            let equated = |column| {
                let own = &layout.replexes[replex].sort_columns;
                let fixed = own.iter().any(|it| it.column == column);
                fixed.then(|| values[column].as_ref())
            };
            let constraints = layout.constraints_of_predicate(equated);
            prop_assert!(layout.admits_row(&constraints, &row));
            let partitions = layout.partitions(&constraints, replex);
            let expected = if layout.replexes[replex].kind == ReplexKind::Hybrid { 4 } else { 1 };
            prop_assert_eq!(partitions.len(), expected);
            prop_assert!(partitions.contains(&partition));
        }
    }
}

#[test]
fn hashes_never_change() {
    // Rows on disks and clients in other languages depend on these; the numbers are those of the
    // reference implementation over the bytes 01, text, 00 01.
    let mut schema = table(4096, 0, 0);
    schema.columns[0].column_type = ColumnType::Text;
    let layout = Layout::base(&schema);
    let slot = |text| layout.slot(0, |_| ValueRef::Text(text));
    let long = "x".repeat(400);
    let found = [slot(""), slot("a"), slot("N14228"), slot(&long)];
    assert_eq!(found, [1914, 3943, 499, 2353]);
}

#[test]
fn base_layout_has_a_replex_per_index() {
    let schema = flights(12, 2);
    let layout = Layout::base(&schema);
    let names: Vec<&str> = layout.replexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["flights", "by_tail_number", "by_route"]);
    assert_eq!(layout.replexes[2].kind, ReplexKind::Index { index: 1 });
    assert_eq!(
        layout.replexes[2].sort_columns,
        placement::ascending(&[2, 3])
    );
    assert_eq!(
        layout.key_spaces[layout.replexes[2].axes[0].key_space].columns,
        [2, 3]
    );
    assert_eq!(
        (0..3)
            .map(|it| layout.partition_count(it))
            .collect::<Vec<_>>(),
        [12, 12, 12]
    );
    assert_eq!(layout.voters(&schema), 1);
    layout.validate(&schema).unwrap();
}

#[test]
fn missing_copies_are_exact_replicas() {
    let mut schema = table(6, 1, 3);
    schema.indexes[0].name = "t_copy_1".into();
    let layout = Layout::base(&schema);
    let names: Vec<&str> = layout.replexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["t", "t_copy_1", "t_copy_2", "t_copy_3"]);
    assert_eq!(layout.replexes[3].kind, ReplexKind::Exact { of: 0 });
    assert_eq!(layout.replexes[3].axes, layout.replexes[0].axes);
    assert_eq!(layout.replexes[3].sort_columns, placement::ascending(&[0]));
    layout.validate(&schema).unwrap();
}

#[test]
fn replexes_that_vote_come_first() {
    let schema = shared_log();
    let layout = Layout::base(&schema);
    let names: Vec<&str> = layout.replexes.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["t", "by_global", "by_local", "by_structure"]);
    assert_eq!(layout.voters(&schema), 3);
    layout.validate(&schema).unwrap();
}

#[test]
fn dense_index_keeps_a_group_in_one_partition() {
    let layout = Layout::base(&shared_log());
    // The global sequence has no group: one partition sees all of it.
    assert_eq!(layout.partition_count(1), 1);
    // A structure's own sequence goes where the structure goes, with the index on it alike.
    assert_eq!(layout.partition_count(2), 8);
    assert_eq!(layout.replexes[2].axes, layout.replexes[3].axes);
    assert_eq!(
        layout.replexes[2].sort_columns,
        placement::ascending(&[2, 3])
    );
    let partition = |local| {
        layout.partition_of_values(2, |column| match column {
            2 => ValueRef::Text("X"),
            _ => ValueRef::Int64(local),
        })
    };
    assert!((1..100).all(|local| partition(local) == partition(0)));
}

#[test]
fn rows_spread_evenly_over_partitions() {
    let layout = Layout::base(&table(12, 0, 0));
    let mut counts = [0; 12];
    for id in 0..12_000 {
        counts[layout.partition_of_values(0, |_| ValueRef::Int64(id)) as usize] += 1;
    }
    assert!(
        counts.iter().all(|count| (900..1100).contains(count)),
        "{counts:?}"
    );
}

/// A change that breaks a good schema, and how the error must end.
type Breakage = (fn(&mut Schema), &'static str);

fn assert_refused(cases: &[Breakage]) {
    for (change, expected) in cases {
        let mut schema = flights(12, 2);
        assert_eq!(schema.validate(), Ok(()));
        change(&mut schema);
        let message = schema.validate().expect_err(expected).message;
        assert!(message.ends_with(expected), "{message}");
    }
}

#[test]
fn bad_names_and_columns_are_refused() {
    const NO_NAME: &str = " is not a name: use letters, digits and _, and no digit first";
    assert_refused(&[
        (|it| it.name = "2fast".into(), NO_NAME),
        (|it| it.name = String::new(), NO_NAME),
        (|it| it.columns[0].name = "größe".into(), NO_NAME),
        (
            |it| it.name = "x".repeat(64),
            "has 64 bytes, the limit is 63: shorten it",
        ),
        (
            |it| it.columns.clear(),
            "table flights has no columns: give it at least one",
        ),
        (
            |it| it.columns[1].name = "origin".into(),
            "table flights has two columns named origin: rename one",
        ),
        (
            |it| {
                it.columns
                    .extend((0..1600).map(|n| column(&format!("c{n}"), ColumnType::Bool)))
            },
            "table flights has 1604 columns, the limit is 1600: split the table",
        ),
        (
            |it| it.columns[1].default = Some(ColumnDefault::Constant(Value::Bool(true))),
            "column tail_number of table flights is of type text, its default of type boolean: convert the default",
        ),
        (
            |it| it.columns[1].default = Some(ColumnDefault::Constant(Value::Null)),
            "column tail_number of table flights is NOT NULL but its default is NULL: give another default or allow NULL",
        ),
    ]);
}

#[test]
fn bad_constraints_are_refused() {
    fn checks(names: &[&str]) -> Vec<CheckConstraint> {
        let check = |name: &&str| CheckConstraint {
            name: (*name).into(),
            condition: Expression::Literal(Value::Bool(true)),
            is_valid: true,
        };
        names.iter().map(check).collect()
    }
    assert_refused(&[
        (
            |it| it.constraints.checks = checks(&["a", "a"]),
            "table flights has two constraints named a: rename one",
        ),
        (
            |it| it.constraints.checks = checks(&["b", "a"]),
            "the CHECK constraints of table flights are not in the order of their names",
        ),
        (
            |it| it.constraints.checks = checks(&["x y"]),
            "is not a name: use letters, digits and _, and no digit first",
        ),
        (
            |it| it.constraints.checks = checks(&["a"; 101]),
            "table flights has 101 CHECK constraints, the limit is 100: join some by AND",
        ),
    ]);
}

#[test]
fn bad_keys_are_refused() {
    assert_refused(&[
        (
            |it| it.primary_key.clear(),
            "table flights has no primary key: add PRIMARY KEY (column, …)",
        ),
        (
            |it| it.primary_key = vec![9],
            "the primary key of table flights names column number 9, the table has 4: name a column of the table",
        ),
        (
            |it| it.columns[0].nullable = true,
            "column id of table flights is in the primary key but may be NULL: declare it NOT NULL",
        ),
        (
            |it| it.indexes[1].name = "by_tail_number".into(),
            "the name by_tail_number is taken within table flights: rename the index",
        ),
        (
            |it| it.indexes[1].name = "flights".into(),
            "the name flights is taken within table flights: rename the index",
        ),
        (
            |it| it.indexes[1].columns.clear(),
            "index by_route of table flights has no columns: name at least one",
        ),
        (
            |it| it.indexes[1].columns = vec![2, 2],
            "index by_route of table flights names column origin twice: name it once",
        ),
        (
            |it| it.indexes[1].constraint = Some(Constraint::Dense),
            "index by_route of table flights is dense, so its last column destination must count: declare it BIGINT NOT NULL",
        ),
    ]);
}

#[test]
fn sizes_beyond_the_limits_are_refused() {
    assert_refused(&[
        (
            |it| it.partitions = 0,
            "table flights has 0 partitions: choose 1 to 4096",
        ),
        (
            |it| it.partitions = 4097,
            "table flights has 4097 partitions: choose 1 to 4096",
        ),
        (
            |it| it.failures_tolerated = 63,
            "table flights takes 64 copies and thin indexes (2 indexes beside the primary key, 0 thin ones, 0 further copies, 63 failures tolerated), the limit is 63: drop some, or tolerate fewer failures",
        ),
    ]);
}
