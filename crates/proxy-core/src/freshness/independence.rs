//! Algorithm 1: decides whether two transactions, or groups of transactions, are independent.
//!
//! One difference from the paper: a table that both transactions only read is ignored, whatever the
//! classes. The paper's line 6 compares every common table as soon as one of them conflicts.

use super::sets::{AccessSets, AffectingClass, TableParts, TableSets};

/// Returns whether neither transaction writes an item that the other reads or writes. Then they may
/// run at the same time, in any order.
pub fn independent(first: &AccessSets, second: &AccessSets) -> bool {
    if first.may_write_anything() || second.may_write_anything() {
        return first.is_empty() || second.is_empty();
    }
    if (first.may_read_anything() && second.is_written())
        || (second.may_read_anything() && first.is_written())
    {
        return false;
    }
    // Lines 2 to 6: only common tables that one of them writes matter.
    first.tables().all(|(table, here)| {
        second
            .table(table)
            .is_none_or(|there| independent_at_table(here, there))
    })
}

/// Returns whether a read must see a commit with these writes. A statement that may write anything
/// may change the schema. A read without tables also depends on the schema, because of types,
/// functions and operators.
pub fn may_see(writes: &AccessSets, reads: &AccessSets) -> bool {
    let is_of_schema = writes.may_write_anything() && reads.is_empty();
    is_of_schema || !independent(writes, reads)
}

/// Lines 7 to 17.
fn independent_at_table(here: &TableSets, there: &TableSets) -> bool {
    if !here.is_written() && !there.is_written() {
        return true;
    }
    match (here.class(), there.class()) {
        // Lines 8 to 11.
        (AffectingClass::Columns, AffectingClass::Columns) => {
            let meet = |a: &TableParts, b: &TableParts| a.columns.meets(&b.columns);
            disjoint(here, there, meet)
        }
        // Lines 12 to 15.
        (AffectingClass::Rows, AffectingClass::Rows) => {
            let meet = |a: &TableParts, b: &TableParts| a.rows.meets(&b.rows);
            disjoint(here, there, meet)
        }
        _ => false,
    }
}

fn disjoint(
    here: &TableSets,
    there: &TableSets,
    meet: impl Fn(&TableParts, &TableParts) -> bool,
) -> bool {
    !meet(here.written(), there.written())
        && !meet(here.written(), there.read())
        && !meet(here.read(), there.written())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::freshness::fixture::{sets, transaction};
    use crate::freshness::items::TableOid;
    use crate::freshness::paper;
    use crate::freshness::sets::TableAccess;

    /// The paper's running example, section 4.2.
    #[test]
    fn running_example_of_the_paper() {
        let [w1, w2, w3, w4, w5] = paper::writes();
        assert!(independent(&w1, &w2));
        assert!(!independent(&w3, &w1));
        assert!(independent(&w4, &w1));
        assert!(independent(&w4, &w2));
        assert!(!independent(&w4, &w3));
        assert!(independent(&w5, &w2));
    }

    #[test]
    fn unknown_writes_depend_on_all_transactions() {
        let mut read = AccessSets::default();
        read.touch(TableOid(1), TableAccess::read_table());
        assert!(!independent(&AccessSets::writes_anything(), &read));
        assert!(!independent(
            &AccessSets::writes_anything(),
            &AccessSets::reads_anything()
        ));
        assert!(independent(
            &AccessSets::writes_anything(),
            &AccessSets::default()
        ));
        assert!(independent(&AccessSets::reads_anything(), &read));
        assert!(may_see(
            &AccessSets::writes_anything(),
            &AccessSets::default()
        ));
        assert!(!may_see(&AccessSets::default(), &AccessSets::default()));
    }

    proptest! {
        #[test]
        fn independence_is_symmetric(first in sets(), second in sets()) {
            prop_assert_eq!(independent(&first, &second), independent(&second, &first));
        }

        #[test]
        fn independent_transactions_share_no_written_cell(
            first in transaction(), second in transaction(),
        ) {
            if independent(&first.sets(), &second.sets()) {
                prop_assert!(!first.conflicts(&second));
            }
        }

        #[test]
        fn independence_of_a_group_is_independence_of_each(
            first in sets(), second in sets(), third in sets(),
        ) {
            let mut group = first.clone();
            group.merge(&second);
            if independent(&group, &third) {
                prop_assert!(independent(&first, &third) && independent(&second, &third));
            }
        }
    }
}
