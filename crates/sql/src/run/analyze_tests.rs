//! Tests `EXPLAIN ANALYZE` over the model.

use super::tests::{done, flights, rows};

/// Returns the lines after the plan, without the time.
fn work(session: &mut super::SqlSession<crate::model::Model>, statement: &str) -> Vec<String> {
    let lines = rows(session, &format!("EXPLAIN ANALYZE {statement}"));
    let result = lines.iter().position(|line| line.starts_with("result: "));
    let (time, work) = lines[result.expect("it has a result")..]
        .split_last()
        .expect("it has a result");
    assert!(
        time.starts_with("time: ") && time.ends_with(" ms"),
        "{time}"
    );
    work.iter().map(|line| line.trim().to_string()).collect()
}

#[test]
fn the_work_of_a_statement_is_shown() {
    let session = &mut flights();
    let several = "SELECT id FROM flights WHERE tailnum IN ('N1', 'N2')";
    let count = rows(session, several).len();
    assert_eq!(
        work(session, several),
        [
            format!("result: {count} rows"),
            "read as of one moment: 2 ranges, in 1 round".to_string(),
            format!("partitions returned or counted: {count} rows"),
        ]
    );
    let of_ends = work(session, "SELECT max(tailnum) FROM flights");
    assert_eq!(
        of_ends[..2],
        [
            "result: 1 row",
            "read as of one moment: 12 ranges, in 1 round"
        ]
    );
    // One row of each partition with rows: the 5 keys are in at most as many partitions.
    let returned = (1..=5).map(|count| format!("partitions returned or counted: {count} rows"));
    assert!(
        returned.into_iter().any(|line| line == of_ends[2]),
        "{of_ends:?}"
    );
    session.store().moments_of(3);
    let of_snapshot = work(session, several);
    assert_eq!(
        of_snapshot[1],
        "too large for one moment, or changed too often"
    );
    assert_eq!(of_snapshot[2], "opened: 1 snapshot");
    assert!(
        of_snapshot[3].starts_with("read page by page: "),
        "{of_snapshot:?}"
    );
}

#[test]
fn an_analyzed_change_is_made() {
    let session = &mut flights();
    assert_eq!(
        work(session, "DELETE FROM flights WHERE id IN (1, 2)"),
        [
            "result: DELETE 2",
            "partitions returned or counted: 0 rows",
            "changed rows by: 1 operation",
        ]
    );
    assert_eq!(rows(session, "SELECT count(*) FROM flights"), ["38"]);
    assert_eq!(
        done(session, "DELETE FROM flights WHERE id IN (1, 2)"),
        "DELETE 0"
    );
    assert_eq!(work(session, "SELECT 1")[0], "result: 1 row");
}
