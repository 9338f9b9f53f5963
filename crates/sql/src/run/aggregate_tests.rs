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
    assert_eq!(plan.aggregates.len(), 2);
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
fn rows_are_grouped_by_their_keys() {
    let session = &mut flights();
    let statements: [(&str, &[&str]); 13] = [
        (
            "SELECT origin, count(*) FROM flights GROUP BY origin ORDER BY origin",
            &["EWR|20", "JFK|20"],
        ),
        (
            "SELECT dest, min(id) + 1 AS first FROM flights GROUP BY 1 HAVING count(*) > 13 \
             ORDER BY first DESC LIMIT 1",
            &["A|1"],
        ),
        (
            "SELECT tailnum IS NULL, count(*), count(DISTINCT tailnum) FROM flights \
             GROUP BY tailnum IS NULL ORDER BY 1",
            &["f|35|5", "t|5|0"],
        ),
        (
            "SELECT tailnum AS plane FROM flights GROUP BY plane ORDER BY plane DESC NULLS LAST LIMIT 2",
            &["N4", "N3"],
        ),
        (
            "SELECT id, origin, dest FROM flights GROUP BY id ORDER BY id DESC LIMIT 1",
            &["39|JFK|A"],
        ),
        (
            "SELECT DISTINCT origin FROM flights ORDER BY 1",
            &["EWR", "JFK"],
        ),
        (
            "SELECT DISTINCT count(*) FROM flights GROUP BY origin",
            &["20"],
        ),
        (
            "SELECT count(*) FROM flights WHERE id < 0 GROUP BY origin",
            &[],
        ),
        ("SELECT count(*) FROM flights WHERE id < 0", &["0"]),
        ("SELECT 1 FROM flights HAVING count(*) > 50", &[]),
        ("SELECT 'x' FROM flights HAVING max(id) = 39", &["x"]),
        (
            "SELECT count(*) FILTER (WHERE origin = 'EWR' AND id > 1), \
             max(id) FILTER (WHERE origin = 'EWR') FROM flights",
            &["19|38"],
        ),
        ("SELECT count(*), max(2), bool_and(false)", &["1|2|f"]),
    ];
    for moments in [u64::MAX, 0] {
        session.store().moments_of(moments);
        for (text, expected) in statements {
            assert_eq!(rows(session, text), expected, "{text}");
        }
    }
}

// tidy: long — a list of statements.
#[test]
fn aggregates_are_refused_where_they_have_no_meaning() {
    let session = &mut flights();
    for (text, part) in [
        ("SELECT max(missing) FROM flights", "missing"),
        (
            "SELECT id FROM flights WHERE id = max(id)",
            "aggregate functions are not allowed in WHERE",
        ),
        (
            "SELECT max(min(id)) FROM flights",
            "aggregate function calls cannot be nested",
        ),
        (
            "SELECT count(*) FROM flights GROUP BY max(id)",
            "aggregate functions are not allowed in GROUP BY",
        ),
        (
            "SELECT count(*) AS n FROM flights GROUP BY n",
            "aggregate functions are not allowed in GROUP BY",
        ),
        (
            "UPDATE flights SET dep_delay = max(id) WHERE id = 1",
            "aggregate functions are not allowed here",
        ),
        (
            "SELECT origin, count(*) FROM flights",
            "column \"flights.origin\" must appear in the GROUP BY clause",
        ),
        (
            "SELECT * FROM flights GROUP BY origin",
            "column \"flights.id\" must appear in the GROUP BY clause",
        ),
        (
            "SELECT origin FROM flights GROUP BY origin HAVING dest = 'A'",
            "column \"flights.dest\" must appear in the GROUP BY clause",
        ),
        (
            "SELECT origin FROM flights GROUP BY 2",
            "GROUP BY position 2 is not in select list",
        ),
        (
            "SELECT DISTINCT origin FROM flights ORDER BY dest",
            "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
        ),
        (
            "SELECT sum(origin) FROM flights",
            "function sum(text) does not exist",
        ),
        (
            "SELECT bool_or(id) FROM flights",
            "function bool_or(bigint) does not exist",
        ),
        ("SELECT json_agg(origin) FROM flights", "json_agg"),
        ("SELECT max(*) FROM flights", "max"),
        ("SELECT max() FROM flights", "max with 0 arguments"),
        (
            "SELECT min(id, origin) FROM flights",
            "min with 2 arguments",
        ),
        (
            "SELECT DISTINCT ON (origin) origin FROM flights",
            "DISTINCT ON",
        ),
        (
            "SELECT count(*) FROM flights GROUP BY ROLLUP (origin)",
            "ROLLUP",
        ),
        ("SELECT count(*) OVER () FROM flights", "without OVER"),
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
