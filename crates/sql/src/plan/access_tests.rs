//! Checks which replex and which ranges a plan reads, and that they are equivalent to the
//! condition.

use std::collections::BTreeSet;

use placement::Layout;
use protocol::expression::holds;

use super::tests::{explained, planned, planned_with, read};
use super::*;
use crate::fixture::configuration;
use crate::parse::parse;

#[test]
fn best_index_is_chosen() {
    for (condition, replex, kind) in [
        ("id = 1", 0, AccessKind::Point),
        ("id = 1 AND tailnum = 'N1'", 0, AccessKind::Point),
        ("id IN (3, 1, 2)", 0, AccessKind::Point),
        ("tailnum = 'N1'", 1, AccessKind::Lookup),
        ("note IS NULL AND tailnum = 'N1'", 1, AccessKind::Lookup),
        ("tailnum IS NULL", 1, AccessKind::Lookup),
        ("tailnum = 'N1' AND id > 5", 1, AccessKind::Lookup),
        ("origin = 'EWR' AND dest = 'IAH'", 2, AccessKind::Lookup),
        ("(origin, dest) = ('EWR', 'IAH')", 2, AccessKind::Lookup),
        // Two equated columns beat one.
        (
            "origin = 'EWR' AND dest = 'IAH' AND tailnum = 'N1'",
            2,
            AccessKind::Lookup,
        ),
        // A whole primary key beats everything.
        (
            "origin = 'EWR' AND dest = 'IAH' AND id = 1",
            0,
            AccessKind::Point,
        ),
        ("id = 1 AND id = 2", 0, AccessKind::Nothing),
        ("id = NULL", 0, AccessKind::Nothing),
        ("false", 0, AccessKind::Nothing),
    ] {
        let text = format!("SELECT * FROM flights WHERE {condition}");
        let (_, read) = read(&text);
        assert_eq!(
            (read.access.replex, read.access.kind),
            (replex, kind),
            "{condition}"
        );
    }
    let (_, read) = read("SELECT * FROM users WHERE email = 'a@b' AND region = 'eu'");
    assert_eq!(read.access.kind, AccessKind::Point);
    assert_eq!(read.access.replex, 1);
    // Many rows may have NULL in a unique key.
    let (_, read) = self::read("SELECT * FROM users WHERE email IS NULL");
    assert_eq!(read.access.kind, AccessKind::Lookup);
}

#[test]
fn a_refused_read_names_what_it_would_read_and_the_remedies() {
    let configuration = configuration();
    let table = configuration.table_named("flights").unwrap();
    let scan = |rows_wanted| UnaskedScan {
        rows_max: 7,
        rows_wanted,
    };
    assert_eq!(
        too_large(table, scan(None)).to_string(),
        "no index of table flights serves this statement, which would read the whole table, and \
         it has more than 7 rows: equate the first column of the primary key (id) or of by_tail \
         (tailnum) or of by_route (origin, dest), or give it a range; or ask for the scan by \
         SELECT /*+ scan */ …, SET scan = on or SET scan_rows = a larger number"
    );
    assert_eq!(
        too_large(table, scan(Some(9))).to_string(),
        "LIMIT and OFFSET make this statement read 9 rows of table flights, which has more than 7: \
         lower them to 7 together, or equate the first column of the primary key (id) or of by_tail \
         (tailnum) or of by_route (origin, dest), or give it a range; or ask for the scan by \
         SELECT /*+ scan */ …, SET scan = on or SET scan_rows = a larger number"
    );
}

/// Whether a statement that no index serves is bounded, and by the rows that it reads.
#[test]
fn a_large_table_is_read_only_up_to_a_small_limit() {
    let whole = Some(None);
    let of_rows = |rows| Some(Some(rows));
    for (rest, expected) in [
        ("* FROM flights", whole),
        ("* FROM flights WHERE dest = 'IAH'", whole),
        ("count(*) FROM flights WHERE dest = 'IAH'", whole),
        ("count(*) FROM flights WHERE dest = 'IAH' LIMIT 1", whole),
        ("* FROM flights ORDER BY dest LIMIT 5", whole),
        ("* FROM flights ORDER BY id + 1 LIMIT 5", whole),
        ("* FROM flights ORDER BY id", whole),
        ("* FROM flights OFFSET 5", whole),
        ("* FROM flights LIMIT NULL", whole),
        ("* FROM flights WHERE dest = 'IAH' LIMIT 5", whole),
        // However few rows are wanted, all may be filtered before they are found.
        (
            "* FROM flights WHERE dep_delay > 5 ORDER BY id LIMIT 5",
            whole,
        ),
        (
            "* FROM log WHERE entry IS NULL ORDER BY position LIMIT 5",
            whole,
        ),
        ("* FROM flights WHERE dest = 'IAH' LIMIT 5000000", whole),
        ("* FROM flights LIMIT 100001", of_rows(100_001)),
        ("* FROM flights LIMIT 5 OFFSET 99996", of_rows(100_001)),
        (
            "* FROM flights ORDER BY id LIMIT 5000000",
            of_rows(5_000_000),
        ),
        (
            "* FROM log ORDER BY position LIMIT 5000000",
            of_rows(5_000_000),
        ),
        (
            "* FROM flights LIMIT 9223372036854775807 OFFSET 9223372036854775807",
            of_rows(u64::MAX - 1),
        ),
        ("max(dest) FROM flights", whole),
        ("min(tailnum) FROM flights WHERE dest = 'IAH'", whole),
        ("count(tailnum) FROM flights", whole),
        ("min(tailnum) FROM flights", None),
        ("max(tailnum) FROM flights", None),
        ("max(id) FROM flights", None),
        ("count(id) FROM flights", None),
        ("count(*) FROM flights", None),
        ("count(*) FROM flights LIMIT 5000000", None),
        ("* FROM flights LIMIT 5", None),
        ("* FROM flights LIMIT 100000", None),
        ("* FROM flights LIMIT 4 OFFSET 99996", None),
        ("* FROM flights ORDER BY id LIMIT 100000", None),
        ("* FROM flights ORDER BY id DESC LIMIT 5 OFFSET 5", None),
        ("/*+ scan */ * FROM flights", None),
        ("/*+ scan */ * FROM flights LIMIT 5000000", None),
        ("* FROM flights WHERE id > 5 LIMIT 5000000", None),
    ] {
        let text = format!("SELECT {rest}");
        let read = match planned(&text) {
            StatementPlan::Aggregate(mut plan) => plan.reads.remove(0).read,
            _ => read(&text).1,
        };
        let found = read.unasked.map(|it| it.rows_wanted);
        assert_eq!(found, expected, "{rest}");
        assert!(read.unasked.is_none_or(|it| it.rows_max == 100_000));
        let explained = explained(&text);
        let bound = "only while the table has no more than 100000 rows (scan_rows)";
        assert_eq!(explained.contains(bound), expected.is_some(), "{explained}");
    }
}

#[test]
fn a_large_table_is_read_whole_only_if_that_is_asked_for() {
    for text in [
        "UPDATE flights SET note = 'x'",
        "DELETE FROM flights WHERE dep_delay > 5",
    ] {
        let StatementPlan::Change(plan) = planned(text) else {
            panic!("{text}");
        };
        let ChangeTarget::Rows(read) = plan.target else {
            panic!("{text}");
        };
        assert_eq!(read.unasked.map(|it| it.rows_max), Some(100_000), "{text}");
    }
    let (_, read) = read("SELECT /*+ scan */ * FROM flights");
    assert_eq!(read.access.kind, AccessKind::Scan);
    assert_eq!(read.access.segments.len(), 12);
    let settings = SessionSettings {
        scan: true,
        ..SessionSettings::default()
    };
    let plan = planned_with("DELETE FROM flights WHERE dep_delay > 5", settings);
    assert!(matches!(
        plan,
        Ok(StatementPlan::Change(ChangePlan {
            target: ChangeTarget::Rows(_),
            ..
        }))
    ));
}

/// Where the partition is not fixed, every partition is asked for the same range.
#[test]
fn ranges_are_read_from_every_partition() {
    for (rest, replex, fixed, filtered) in [
        ("WHERE id BETWEEN 5 AND 9", 0, 0, false),
        ("WHERE id > 5 AND dest = 'IAH'", 0, 0, true),
        (
            "WHERE tailnum >= 'N1' ORDER BY tailnum LIMIT 3",
            1,
            0,
            false,
        ),
        ("WHERE origin = 'EWR'", 2, 1, false),
        ("WHERE origin IN ('EWR', 'JFK') AND dest > 'A'", 2, 1, false),
        ("ORDER BY id LIMIT 10", 0, 0, false),
        ("ORDER BY origin DESC, dest DESC LIMIT 10", 2, 0, false),
        ("WHERE dep_delay > 5 ORDER BY tailnum LIMIT 10", 1, 0, true),
    ] {
        let (plan, read) = read(&format!("SELECT * FROM flights {rest}"));
        let access = &read.access;
        let kind = match access.range == ValueRange::default() && fixed == 0 {
            true => AccessKind::First,
            false => AccessKind::Range,
        };
        let found = (access.replex, access.kind, access.fixed);
        assert_eq!(found, (replex, kind, fixed), "{rest}");
        assert_eq!(read.filter.is_some(), filtered, "{rest}");
        let bounded = kind == AccessKind::First && filtered;
        assert_eq!(read.unasked.is_some(), bounded, "{rest}");
        assert!(plan.ordered_by_index, "{rest}");
        let partitions: BTreeSet<u32> = access.segments.iter().map(|it| it.partition).collect();
        assert_eq!(partitions.len(), 12, "{rest}");
    }
    // Of too many keys, all from the first to the last are read, and filtered.
    let list: Vec<String> = (0..600).map(|it| format!("'N{it:03}'")).collect();
    let text = format!(
        "SELECT * FROM flights WHERE origin IN ({})",
        list.join(", ")
    );
    let (_, read) = read(&text);
    assert_eq!(read.access.segments.len(), 12);
    assert!(read.access.range.lower.is_some() && read.access.range.upper.is_some());
    assert!(read.filter.is_some());
}

/// An index that is cut by its first columns answers a range of the next one from one partition.
#[test]
fn ranges_behind_the_partitioning_columns_are_one_seek() {
    for (rest, replex, kind, fixed) in [
        (
            "WHERE tenant = 7 AND at > '2024-01-01'",
            0,
            AccessKind::Lookup,
            1,
        ),
        (
            "WHERE tenant = 7 ORDER BY at DESC LIMIT 5",
            0,
            AccessKind::Lookup,
            1,
        ),
        (
            "WHERE tenant = 7 AND at = '2024-01-01'",
            0,
            AccessKind::Point,
            2,
        ),
        (
            "WHERE kind = 'a' AND tenant BETWEEN 5 AND 9",
            2,
            AccessKind::Lookup,
            1,
        ),
        ("WHERE kind = 'a' AND tenant = 7", 1, AccessKind::Point, 3),
    ] {
        let (_, read) = read(&format!("SELECT * FROM events {rest}"));
        let access = &read.access;
        let found = (access.replex, access.kind, access.fixed);
        assert_eq!(found, (replex, kind, fixed), "{rest}");
        assert_eq!(access.segments.len(), 1, "{rest}");
        assert_eq!(read.filter, None, "{rest}");
    }
    let (_, read) = read("SELECT * FROM events WHERE at > '2024-01-01'");
    assert_eq!(read.access.kind, AccessKind::Scan);
}

/// The heart of access: the ranges and the filter together select exactly the rows that meet the
/// condition, and every row is looked for in the partition that holds it.
#[test]
fn ranges_and_filter_together_are_the_condition() {
    let configuration = configuration();
    let table = configuration.table_named("users").unwrap();
    let schema = &table.schema;
    let mut rows = Vec::new();
    for (number, email) in (-3..12).zip(["a", "b", "c"].into_iter().cycle()) {
        for region in ["eu", "us"] {
            let email = match number {
                4 => Value::Null,
                _ => Value::Text(format!("{email}{number}{region}")),
            };
            rows.push(vec![
                Value::Text(region.into()),
                Value::Int64(number),
                email,
                Value::Int64(number % 3),
            ]);
        }
    }
    for condition in [
        "region = 'eu' AND number = 3",
        "region IN ('eu', 'us') AND number IN (1, 2, 3) AND n > 0",
        "email = 'a0eu'",
        "email IS NULL",
        "email IS NULL AND region = 'us'",
        "email IS NULL AND region > 'eu'",
        "email IS NULL AND region >= 'eu' AND region < 'us'",
        "email IN ('a0eu', 'b1us', 'c9xx') AND n = 1",
        "email = 'a0eu' OR email = 'b1us' OR email IS NULL",
        "number = 2.0 AND region = 'eu'",
        "region = 'eu' AND number = 2 AND number > 5",
    ] {
        let text = format!("SELECT * FROM users WHERE {condition}");
        let (_, read) = read(&text);
        let whole = {
            let statement = parse(&text).unwrap().remove(0).statement;
            let Statement::Select(select) = statement else {
                panic!("{statement:?}");
            };
            let scope = Scope {
                schema: Some(schema),
                ..Scope::CONSTANTS
            };
            Expression::all(scope.condition(&select.filter.unwrap()).unwrap()).unwrap()
        };
        let holds =
            |expression: &Expression, row: &Vec<Value>| holds(expression, row, None).unwrap();
        for row in &rows {
            let found = found_in(&read, &table.layout, row);
            let passes = found && read.filter.as_ref().is_none_or(|it| holds(it, row));
            assert_eq!(passes, holds(&whole, row), "{condition}: {row:?}");
        }
        assert!(read.access.segments.len() <= 6);
    }
}

/// Returns whether a segment of the read includes the row.
pub(super) fn found_in(read: &ReadPlan, layout: &Layout, row: &[Value]) -> bool {
    let replex = read.access.replex;
    let partition = layout.partition_of_values(replex, |column| row[column].as_ref());
    let key = placement::encode_sorted(&read.access.order_columns, |column| row[column].as_ref());
    let holding = read.access.segments.iter().filter(|it| {
        it.partition == partition && it.start <= key && it.end.as_ref().is_none_or(|end| key < *end)
    });
    let count = holding.count();
    assert!(count <= 1, "segments overlap");
    count == 1
}

#[test]
fn dense_index_is_read_by_range_and_from_its_end() {
    let (select, read_plan) = read("SELECT * FROM log WHERE position > 3 AND position <= 9");
    assert_eq!(read_plan.access.kind, AccessKind::Lookup);
    assert_eq!(read_plan.filter, None);
    assert_eq!(select.order, []);
    let (select, tail) = read("SELECT * FROM log ORDER BY position DESC LIMIT 1");
    assert!(select.ordered_by_index);
    assert!(tail.descending);
    assert_eq!(tail.access.segments.len(), 1);
    let (_, point) = read("SELECT * FROM log WHERE position = 3");
    assert_eq!(point.access.kind, AccessKind::Point);
}

#[test]
fn order_comes_from_the_index_where_it_can() {
    for (rest, by_index, descending) in [
        ("WHERE tailnum = 'N1' ORDER BY id", true, false),
        ("WHERE tailnum = 'N1' ORDER BY tailnum, id", true, false),
        ("WHERE tailnum = 'N1' ORDER BY id DESC", true, true),
        ("WHERE tailnum = 'N1' ORDER BY dest", false, false),
        ("WHERE tailnum = 'N1' ORDER BY id, dest", false, false),
        ("WHERE tailnum = 'N1' ORDER BY id + 1", false, false),
        (
            "WHERE tailnum IN ('N1', 'N2') ORDER BY tailnum DESC, id DESC",
            true,
            true,
        ),
        ("WHERE tailnum = 'N1'", true, false),
        ("WHERE id = 1 ORDER BY dest", false, false),
    ] {
        let text = format!("SELECT * FROM flights {rest}");
        let (select, read) = read(&text);
        assert_eq!(
            (select.ordered_by_index, read.descending),
            (by_index, descending),
            "{rest}"
        );
    }
    // A scan takes the replex that is sorted as wanted; NULLs where they are not sorted do not fit.
    for (order, replex, by_index) in [
        ("id", 0, true),
        ("tailnum", 1, true),
        ("tailnum DESC NULLS FIRST", 1, true),
        ("tailnum NULLS FIRST", 0, false),
        ("origin, dest, id", 2, true),
        ("origin, dest DESC", 0, false),
        ("note", 0, false),
    ] {
        let text = format!("SELECT /*+ scan */ * FROM flights ORDER BY {order}");
        let (select, read) = read(&text);
        assert_eq!(
            (read.access.replex, select.ordered_by_index),
            (replex, by_index),
            "{order}"
        );
    }
}
