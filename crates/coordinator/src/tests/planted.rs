//! Plants bugs that the simulator seldom finds, and shows that tests find them.

extern crate std;

use std::panic::catch_unwind;

use protocol::planted::{Bug, select};

use super::{alterations, copies, partitions, ranges};

// `cargo xtask mutants` runs it alone: each bug is planted for the whole process.
#[test]
fn the_planted_bugs_are_noticed() {
    let cases: [(Bug, fn()); 6] = [
        (
            Bug::DefinitionChangesAtOnce,
            alterations::a_definition_changes_between_two_epochs,
        ),
        (
            Bug::TablesTruncatedApart,
            alterations::tables_are_emptied_in_one_epoch,
        ),
        (
            Bug::MadeIndexServes,
            copies::an_index_that_is_being_made_serves_no_foreign_key,
        ),
        (
            Bug::SupersededIsRead,
            partitions::copies_take_the_places_of_others_once_all_of_them_serve,
        ),
        (
            Bug::HolderLeavesUnsealed,
            ranges::a_core_that_has_only_empty_partitions_keeps_them,
        ),
        (
            Bug::RangeBesideCopy,
            ranges::ranges_of_a_copy_keep_every_row_in_two_failure_domains,
        ),
    ];
    for (bug, test) in cases {
        select(Some(bug));
        assert!(catch_unwind(test).is_err(), "{} is not noticed", bug.name());
    }
    select(None);
}
