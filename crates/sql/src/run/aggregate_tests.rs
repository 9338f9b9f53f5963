//! Tests aggregates over the model, and the reads that they are planned with.

use super::tests::{done, error, flights, rows};
use crate::plan::tests::{aggregated, explained};
use crate::plan::{AccessKind, AggregatePart};

#[test]
fn ends_of_indexes_are_the_smallest_and_largest_values() {
    let session = &mut flights();
    for (aggregates, expected) in [
        ("min(id), max(id) FROM flights", "0|39"),
        ("max(tailnum), min(tailnum) FROM flights", "N4|N0"),
        (
            "min(dest), max(dest) FROM flights WHERE origin = 'EWR'",
            "A|C",
        ),
        ("max(dest) FROM flights WHERE origin IN ('EWR', 'JFK')", "C"),
        ("min(id) FROM flights WHERE tailnum = 'N3'", "3"),
        (
            "max(id), count(*) FROM flights WHERE tailnum IS NULL",
            "39|5",
        ),
        ("max(tailnum) FROM flights WHERE tailnum IS NULL", ""),
        ("min(tailnum) FROM flights WHERE tailnum > 'N1'", "N2"),
        ("max(tailnum) FROM flights WHERE tailnum < 'N2'", "N1"),
        ("max(id) FROM flights WHERE id > 39", ""),
        (
            "max(id), count(id) FROM flights WHERE id > 5 AND id < 5",
            "|0",
        ),
        (
            "min(id + 1), max(dep_delay) FROM flights WHERE id < 4",
            "1|10",
        ),
        (
            "count(tailnum), count(*), count(1), count(NULL) FROM flights",
            "35|40|40|0",
        ),
        ("max(note), min(1), max(NULL) FROM flights", "none|1|"),
        (
            "min(DISTINCT tailnum), count(ALL origin) FROM flights",
            "N0|40",
        ),
    ] {
        let found = rows(session, &format!("SELECT {aggregates}"));
        assert_eq!(found, [expected], "{aggregates}");
    }
    assert_eq!(
        rows(session, "SELECT max(id) FROM flights LIMIT 0"),
        [""; 0]
    );
    assert_eq!(
        rows(session, "SELECT max(id) FROM flights OFFSET 1"),
        [""; 0]
    );
    done(session, "DELETE FROM flights WHERE id >= 0");
    let empty = "SELECT min(id), max(tailnum), min(dep_delay), count(*) FROM flights";
    assert_eq!(rows(session, empty), ["|||0"]);
}

#[test]
fn aggregates_of_a_snapshot_are_those_of_a_moment() {
    let session = &mut flights();
    let statements = [
        "SELECT min(tailnum), max(id), count(tailnum) FROM flights WHERE tailnum IS NOT NULL",
        "SELECT min(id), max(id) FROM flights WHERE tailnum IN ('N1', 'N2')",
        "SELECT max(dep_delay), min(note), count(*) FROM flights",
    ];
    let of_moments = statements.map(|text| rows(session, text));
    session.store().moments_of(0);
    assert_eq!(statements.map(|text| rows(session, text)), of_moments);
    assert_eq!(session.store().snapshots(), 3);
}

#[test]
fn one_row_of_each_partition_is_read() {
    let plan = aggregated("SELECT min(tailnum), max(tailnum), max(tailnum) FROM flights");
    assert_eq!(plan.reads.len(), 2);
    assert_eq!(plan.outputs[1].read, plan.outputs[2].read);
    for read in &plan.reads {
        assert_eq!(read.part, AggregatePart::First);
        assert_eq!(read.read.access.kind, AccessKind::First);
        assert_eq!(read.read.filter, None);
        assert_eq!(read.read.projection, Some(vec![1]));
    }
    let ways = plan.reads.iter().map(|it| it.read.descending);
    assert_eq!(ways.collect::<Vec<_>>(), [false, true]);
    let plan = aggregated("SELECT min(tailnum), max(dep_delay) FROM flights");
    assert_eq!(plan.reads.len(), 1);
    assert_eq!(plan.reads[0].part, AggregatePart::All);
    let explained = explained("SELECT max(tailnum) FROM flights");
    assert!(
        explained.contains("range: tailnum IS NOT NULL")
            && explained.contains("tailnum, of the last row of each partition, for max"),
        "{explained}"
    );
    let session = &mut flights();
    session.store().take_reads();
    rows(session, "SELECT max(tailnum) FROM flights");
    let reads = session.store().take_reads();
    assert!(reads.iter().all(|read| read.limit == 1), "{reads:?}");
}

#[test]
fn aggregates_are_refused_where_they_have_no_meaning() {
    let session = &mut flights();
    for (text, part) in [
        ("SELECT max(1)", "max is computed from the rows of a table"),
        ("SELECT max(missing) FROM flights", "missing"),
        (
            "SELECT max(id) + 1 FROM flights",
            "as whole items after SELECT",
        ),
        (
            "SELECT id FROM flights WHERE id = max(id)",
            "the function max is",
        ),
        ("SELECT max(min(id)) FROM flights", "the function min is"),
    ] {
        let error = error(session, text);
        assert!(error.contains(part), "{text}: {error}");
    }
    done(session, "SET scan_rows = 5");
    let error = error(session, "SELECT max(dep_delay) FROM flights");
    assert!(
        error.contains("no index of table flights serves"),
        "{error}"
    );
    assert_eq!(rows(session, "SELECT max(tailnum) FROM flights"), ["N4"]);
}
