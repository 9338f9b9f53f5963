//! Tests statements over the model: the answers by each index, the effects of changes, the texts of
//! errors.

use protocol::message::Consistency;

use super::*;
use crate::fixture::{FLIGHTS, LOG, USERS, schema};
use crate::model::{Model, block_on};

/// Flights 0 to 39: tail number N0 to N4, from EWR or JFK to A, B or C.
pub(super) fn flights() -> SqlSession<Model> {
    let rows: Vec<String> = (0..40)
        .map(|id| {
            let tail = match id % 8 {
                7 => "NULL".to_string(),
                _ => format!("'N{}'", id % 5),
            };
            let origin = ["EWR", "JFK"][id % 2];
            let dest = ["A", "B", "C"][id % 3];
            format!("({id}, {tail}, '{origin}', '{dest}', {})", (id * 7) % 11)
        })
        .collect();
    Model::session(&format!(
        "{FLIGHTS} INSERT INTO flights (id, tailnum, origin, dest, dep_delay) VALUES {};",
        rows.join(", ")
    ))
}

pub(super) fn run(session: &mut SqlSession<Model>, text: &str) -> Result<StatementOutcome, String> {
    let outcomes = block_on(session.run_text(text)).map_err(|it| it.error.to_string())?;
    Ok(outcomes
        .into_iter()
        .next_back()
        .expect("there is a statement"))
}

/// Returns rows as `a|b` lines.
pub(super) fn rows(session: &mut SqlSession<Model>, text: &str) -> Vec<String> {
    match run(session, text) {
        Ok(StatementOutcome::Rows(rows)) => rows
            .rows
            .iter()
            .map(|row| {
                let row: Vec<String> = row.iter().map(Value::to_string).collect();
                row.join("|")
            })
            .collect(),
        other => panic!("{text}: {other:?}"),
    }
}

pub(super) fn done(session: &mut SqlSession<Model>, text: &str) -> String {
    match run(session, text) {
        Ok(StatementOutcome::Done(done)) => done,
        other => panic!("{text}: {other:?}"),
    }
}

pub(super) fn error(session: &mut SqlSession<Model>, text: &str) -> String {
    match run(session, text) {
        Err(error) => error,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn large_reads_are_of_a_snapshot() {
    let session = &mut flights();
    let several = "SELECT id FROM flights WHERE tailnum IN ('N1', 'N2') ORDER BY id";
    let small = rows(session, several);
    assert_eq!(session.store().snapshots(), 0);
    session.store().moments_of(3);
    session.store().take_reads();
    assert_eq!(rows(session, several), small);
    assert_eq!(session.take_notices(), [] as [String; 0]);
    assert_eq!(session.store().snapshots(), 1);
    let reads = session.store().take_reads();
    let of_snapshot = reads.iter().filter(|read| read.snapshot.is_some());
    assert!(of_snapshot.count() >= 2);
    let count = "SELECT count(*) FROM flights WHERE tailnum IN ('N1', 'N2')";
    assert_eq!(rows(session, count), [small.len().to_string()]);
    assert_eq!(session.store().snapshots(), 2);
    // A session that reads the committed rows asks for none.
    done(session, "SET stale_reads = on");
    assert_eq!(rows(session, several), small);
    assert_eq!(session.store().snapshots(), 2);
}

#[test]
fn statements_whose_snapshot_ends_run_again() {
    let session = &mut flights();
    let several = "SELECT id FROM flights WHERE tailnum IN ('N1', 'N2') ORDER BY id";
    let small = rows(session, several);
    session.store().moments_of(3);
    session.store().end_snapshots(3);
    assert_eq!(rows(session, several), small);
    session.store().end_snapshots(100);
    let failure = error(session, several);
    assert!(failure.contains("the snapshot has ended"), "{failure}");
    session.store().end_snapshots(0);
    assert_eq!(rows(session, several), small);
    session.store().end_snapshots(2);
    let changed = "UPDATE flights SET dest = 'D' WHERE tailnum IN ('N1', 'N2')";
    assert_eq!(done(session, changed), format!("UPDATE {}", small.len()));
}

#[test]
fn reads_without_a_snapshot_report_it() {
    let session = &mut flights();
    let several = "SELECT id FROM flights WHERE tailnum IN ('N1', 'N2') ORDER BY id";
    let small = rows(session, several);
    session.store().moments_of(3);
    session.store().refuse_snapshots("server 2 is down");
    assert_eq!(rows(session, several), small);
    let notices = session.take_notices();
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0].contains("table flights are not of one state, because server 2 is down"),
        "{notices:?}"
    );
    assert_eq!(session.take_notices(), [] as [String; 0]);
    let changed = "UPDATE flights SET dest = 'D' WHERE tailnum IN ('N1', 'N2')";
    let all = format!("UPDATE {}", small.len());
    assert_eq!(done(session, changed), all);
    assert_eq!(session.take_notices(), notices);
    // A session that reads the committed rows asks for no state.
    done(session, "SET stale_reads = on");
    assert_eq!(rows(session, several), small);
    assert_eq!(session.take_notices(), [] as [String; 0]);
}

#[test]
fn lookups_by_each_index() {
    let session = &mut flights();
    assert_eq!(
        rows(session, "SELECT id, dest FROM flights WHERE id = 13"),
        ["13|B"]
    );
    assert_eq!(
        rows(session, "SELECT id FROM flights WHERE tailnum = 'N3'"),
        ["3", "8", "13", "18", "28", "33", "38"]
    );
    assert_eq!(
        rows(
            session,
            "SELECT id FROM flights WHERE tailnum IS NULL ORDER BY id DESC"
        ),
        ["39", "31", "23", "15", "7"]
    );
    assert_eq!(
        rows(
            session,
            "SELECT id FROM flights WHERE origin = 'EWR' AND dest = 'A' AND dep_delay > 8"
        ),
        ["6", "36"]
    );
    assert_eq!(
        rows(session, "SELECT id FROM flights WHERE id = 77"),
        [""; 0]
    );
}

const CONDITIONS: &[&str] = &[
    "id IN (1, 5, 99, 5, 30)",
    "id = 3 OR id = 4",
    "tailnum = 'N3' AND id >= 13 AND id < 33",
    "tailnum IN ('N1', 'N4') AND dep_delay < 5",
    "tailnum IN ('N1', 'N4') AND id > 20",
    "(origin, dest) IN (('EWR', 'A'), ('JFK', 'B')) AND origin IN ('EWR', 'JFK') AND dest IN ('A', 'B')",
    "origin IN ('EWR', 'JFK') AND dest = 'C' AND NOT cancelled",
    "tailnum = 'N3' AND (dep_delay BETWEEN 3 AND 6 OR dest LIKE 'B%')",
    "id = 3 AND id = 4",
    "id BETWEEN 5 AND 19",
    "id > 30 OR id < 3",
    "tailnum > 'N2'",
    "tailnum >= 'N2' AND tailnum < 'N4' AND dep_delay > 3",
    "origin = 'EWR'",
    "origin IN ('EWR', 'JFK') AND dest > 'A'",
    "dest = 'C'",
    "true",
];

/// Every query over every index has the answer of a scan and a filter in memory.
#[test]
fn answers_equal_those_of_a_scan() {
    let session = &mut flights();
    let all: Vec<Vec<Value>> = match run(session, "SELECT /*+ scan */ * FROM flights") {
        Ok(StatementOutcome::Rows(rows)) => rows.rows,
        other => panic!("{other:?}"),
    };
    assert_eq!(all.len(), 40);
    for condition in CONDITIONS {
        for order in [
            "",
            "ORDER BY id",
            "ORDER BY dep_delay, id",
            "ORDER BY dep_delay DESC, id",
            "ORDER BY id DESC",
            "ORDER BY tailnum NULLS FIRST, id",
            "ORDER BY -id",
        ] {
            for limit in ["", "LIMIT 4", "LIMIT 3 OFFSET 2", "LIMIT 0"] {
                let by_index = rows(
                    session,
                    &format!("SELECT * FROM flights WHERE {condition} {order} {limit}"),
                );
                // An OR with a scan's hint cannot use an index, so it is the oracle.
                let by_scan = rows(
                    session,
                    &format!(
                        "SELECT /*+ scan */ * FROM flights WHERE ({condition}) IS TRUE {order} {limit}"
                    ),
                );
                let sorted = |mut rows: Vec<String>| {
                    rows.sort();
                    rows
                };
                if order.is_empty() {
                    assert_eq!(by_index.len(), by_scan.len(), "{condition} {limit}");
                    if limit.is_empty() {
                        assert_eq!(sorted(by_index), sorted(by_scan), "{condition}");
                    }
                } else {
                    assert_eq!(by_index, by_scan, "{condition} {order} {limit}");
                }
            }
        }
        let count = rows(
            session,
            &format!("SELECT count(*) FROM flights WHERE {condition}"),
        );
        let all = rows(
            session,
            &format!("SELECT id FROM flights WHERE {condition}"),
        );
        assert_eq!(count, [all.len().to_string()], "{condition}");
    }
}

#[test]
fn scans_merge_partitions_in_order() {
    let session = &mut flights();
    let ids: Vec<String> = (0..40).map(|it| it.to_string()).collect();
    assert_eq!(
        rows(session, "SELECT /*+ scan */ id FROM flights ORDER BY id"),
        ids
    );
    assert_eq!(
        rows(
            session,
            "SELECT /*+ scan */ id FROM flights ORDER BY id DESC LIMIT 3 OFFSET 1"
        ),
        ["38", "37", "36"]
    );
    assert_eq!(
        rows(session, "SELECT /*+ scan */ count(*) FROM flights"),
        ["40"]
    );
    assert_eq!(
        rows(
            session,
            "SELECT /*+ scan */ count(*) AS late FROM flights WHERE dep_delay > 8"
        ),
        [(0..40).filter(|it| it * 7 % 11 > 8).count().to_string()]
    );
    done(session, "SET scan = on");
    assert_eq!(rows(session, "SHOW scan"), ["on"]);
    assert_eq!(rows(session, "SELECT count(*) FROM flights"), ["40"]);
    done(session, "SET scan = off");
    assert_eq!(rows(session, "SELECT count(*) FROM flights"), ["40"]);
}

/// Pages that were fetched ahead can all be given out before one of them is the last.
#[test]
fn partitions_of_any_size_are_merged_page_by_page() {
    let setup = "CREATE TABLE t (id bigint PRIMARY KEY) WITH (partitions = 2)";
    let session = &mut Model::session(setup);
    session.store().moments_of(0);
    for count in 1..=60 {
        done(session, &format!("INSERT INTO t VALUES ({})", count - 1));
        let ids: Vec<String> = (0..count).map(|it| it.to_string()).collect();
        assert_eq!(rows(session, "SELECT id FROM t ORDER BY id"), ids);
        session.take_notices();
    }
}

#[test]
fn limit_is_pushed_down_and_pages_are_followed() {
    let session = &mut flights();
    session.store().take_reads();
    rows(
        session,
        "SELECT id FROM flights WHERE tailnum = 'N3' LIMIT 2",
    );
    let reads = session.store().take_reads();
    assert_eq!(reads.len(), 1);
    assert_eq!(reads[0].limit, 2);
    assert_eq!(reads[0].consistency, Consistency::Linearizable);
    done(session, "SET stale_reads = on");
    rows(session, "SELECT id FROM flights WHERE tailnum = 'N3'");
    let reads = session.store().take_reads();
    // Seven rows in pages of three.
    assert_eq!(reads.len(), 3);
    assert!(reads.iter().all(|it| it.consistency == Consistency::Stale));
    rows(session, "SELECT id FROM flights WHERE id = 1 AND id = 2");
    assert_eq!(session.store().take_reads().len(), 0);
}

#[test]
fn update_moves_a_row_between_partitions() {
    let session = &mut flights();
    assert_eq!(
        done(session, "UPDATE flights SET tailnum = 'X' WHERE id = 13"),
        "UPDATE 1"
    );
    assert_eq!(
        rows(session, "SELECT id FROM flights WHERE tailnum = 'X'"),
        ["13"]
    );
    assert!(
        !rows(session, "SELECT id FROM flights WHERE tailnum = 'N3'").contains(&"13".to_string())
    );
    assert_eq!(
        done(
            session,
            "UPDATE flights SET dep_delay = dep_delay + 100 WHERE tailnum = 'N3' AND dest = 'A'"
        ),
        "UPDATE 3"
    );
    assert_eq!(
        rows(
            session,
            "SELECT id FROM flights WHERE tailnum = 'N3' AND dep_delay >= 100"
        ),
        ["3", "18", "33"]
    );
    assert_eq!(
        done(session, "UPDATE flights SET note = 'x' WHERE id = 99"),
        "UPDATE 0"
    );
    assert_eq!(
        done(session, "DELETE FROM flights WHERE tailnum = 'N3'"),
        "DELETE 6"
    );
    assert_eq!(
        done(session, "DELETE FROM flights WHERE id IN (1, 2, 98)"),
        "DELETE 2"
    );
    assert_eq!(
        rows(session, "SELECT /*+ scan */ count(*) FROM flights"),
        ["32"]
    );
}

#[test]
fn conditional_update_and_counters() {
    let session = &mut Model::session(USERS);
    done(session, "INSERT INTO users VALUES ('eu', 1, 'a@b', 3)");
    assert_eq!(
        done(
            session,
            "UPDATE users SET n = n + 1 WHERE region = 'eu' AND number = 1 AND n = 3"
        ),
        "UPDATE 1"
    );
    assert_eq!(
        done(
            session,
            "UPDATE users SET n = n + 1 WHERE region = 'eu' AND number = 1 AND n = 3"
        ),
        "UPDATE 0"
    );
    assert_eq!(
        rows(session, "SELECT n FROM users WHERE email = 'a@b'"),
        ["4"]
    );
    let text = "INSERT INTO users AS u VALUES ('eu', 1, 'a@b', 10) ON CONFLICT (region, number) \
                DO UPDATE SET n = u.n + excluded.n WHERE u.n < 100";
    assert_eq!(done(session, text), "INSERT 0 1");
    assert_eq!(
        rows(session, "SELECT n FROM users WHERE email = 'a@b'"),
        ["14"]
    );
    done(session, "UPDATE users SET n = 100 WHERE email = 'a@b'");
    assert_eq!(done(session, text), "INSERT 0 0");
    assert_eq!(
        done(
            session,
            "INSERT INTO users VALUES ('eu', 1), ('eu', 2) ON CONFLICT DO NOTHING"
        ),
        "INSERT 0 1"
    );
    let overflow = error(
        session,
        "UPDATE users SET n = n + 9223372036854775807 WHERE region = 'eu' AND number = 1",
    );
    assert!(
        overflow.contains("table users: the result is out of range"),
        "{overflow}"
    );
    let null = error(
        session,
        "UPDATE users SET n = NULL WHERE region = 'eu' AND number = 1",
    );
    assert!(
        null.contains("column n of table users is NOT NULL"),
        "{null}"
    );
}

/// Right-hand sides are the output of PostgreSQL 15.
#[test]
fn do_nothing_covers_the_unique_keys_that_it_should() {
    let two = "CREATE TABLE two (id bigint PRIMARY KEY, a text UNIQUE, b text, UNIQUE (b));
        INSERT INTO two VALUES (1, 'a1', 'b1'), (2, 'a2', 'b2');";
    let cases = [
        ("(3, 'a1', 'b3')", "", Some("INSERT 0 0")),
        ("(3, 'a3', 'b1')", "", Some("INSERT 0 0")),
        ("(1, 'a3', 'b3')", "", Some("INSERT 0 0")),
        ("(3, 'a1', 'b2')", "", Some("INSERT 0 0")),
        ("(3, NULL, NULL)", "", Some("INSERT 0 1")),
        (
            "(3, 'a3', 'b3'), (4, 'a3', 'b4'), (3, 'a5', 'b5'), (5, 'a1', 'b6'), (5, 'a7', 'b6')",
            "",
            Some("INSERT 0 2"),
        ),
        ("(3, 'a1', 'b3')", "(a)", Some("INSERT 0 0")),
        ("(3, 'a3', 'b1')", "(a)", None),
        ("(1, 'a3', 'b3')", "(a)", None),
        // The target is looked at first.
        ("(1, 'a1', 'b3')", "(a)", Some("INSERT 0 0")),
        ("(3, 'a1', 'b1')", "(b)", Some("INSERT 0 0")),
        ("(3, 'a1', 'b1')", "(a)", Some("INSERT 0 0")),
        ("(1, 'a2', 'b3')", "(b)", None),
        ("(1, NULL, 'b3')", "(a)", None),
        ("(1, 'a1', 'b1')", "(id)", Some("INSERT 0 0")),
        ("(3, 'a1', 'b3')", "(id)", None),
    ];
    for (rows, target, expected) in cases {
        let session = &mut Model::session(two);
        let text = format!("INSERT INTO two VALUES {rows} ON CONFLICT {target} DO NOTHING");
        match expected {
            Some(expected) => assert_eq!(done(session, &text), expected, "{text}"),
            None => {
                let message = error(session, &text);
                assert!(message.contains("already has a row"), "{text}: {message}");
            }
        }
    }
}

/// Keys that no integer equals find nothing, and bounds between integers are bounds of integers.
#[test]
fn integers_beside_other_numbers() {
    let session = &mut Model::session(
        "CREATE TABLE ids (id bigint PRIMARY KEY, n bigint, INDEX by_n (n));
         INSERT INTO ids VALUES (0, 0), (1, 1), (2, NULL), (9007199254740992, 2),
             (9007199254740993, 3), (9223372036854775807, 4), (-9223372036854775808, 5);",
    );
    for (condition, expected) in [
        ("id = 1.5", vec![]),
        ("id = 1.0", vec!["1"]),
        ("id = 1e0", vec!["1"]),
        ("1.5 = id", vec![]),
        ("id = 1e30", vec![]),
        ("id = -1e30", vec![]),
        ("id = 0.5e-300", vec![]),
        ("id IN (1, 1.5)", vec!["1"]),
        ("id IN (1.5, 2.5)", vec![]),
        ("id IN (1e30, 2)", vec!["2"]),
        ("id = 9007199254740993.0", vec!["9007199254740993"]),
        ("id = 9223372036854775807.0", vec!["9223372036854775807"]),
        ("id = 9223372036854775808", vec![]),
        ("id = '1'", vec!["1"]),
        ("n = 1.5", vec![]),
        ("n = 1.0", vec!["1"]),
        ("n IN (0.5, 1.0, 1e40)", vec!["1"]),
        ("id = 1 AND n < 1.5", vec!["1"]),
        ("id = 1 AND n > 1.5", vec![]),
        ("id IN (0, 1, 2) AND n BETWEEN 0.5 AND 1.5", vec!["1"]),
        ("id IN (0, 1, 2) AND n NOT BETWEEN 0.5 AND 1.5", vec!["0"]),
        ("id IN (0, 1, 2) AND n <> 1.5", vec!["0", "1"]),
        ("id IN (0, 1, 2) AND NOT n = 1.5", vec!["0", "1"]),
        ("id IN (0, 1, 2) AND n < 1e30", vec!["0", "1"]),
        ("id = '1.5'::float8", vec![]),
        ("id = '1'::float8", vec!["1"]),
        ("id = 'NaN'::float8", vec![]),
        ("id = '1e30'::float8", vec![]),
        ("id = 'Infinity'::float8", vec![]),
        ("id = -9223372036854775808.0", vec!["-9223372036854775808"]),
    ] {
        let text = format!("SELECT id FROM ids WHERE {condition} ORDER BY id");
        assert_eq!(rows(session, &text), expected, "{condition}");
    }
    let scan = |condition: &str| {
        format!("SELECT /*+ scan */ id FROM ids WHERE {condition} ORDER BY id LIMIT 3")
    };
    for (condition, expected) in [
        ("id > 0.5", vec!["1", "2", "9007199254740992"]),
        ("id BETWEEN 0.5 AND 1.5", vec!["1"]),
        ("id >= 1e30", vec![]),
        ("id > 1.5::float8 AND id <= 2.5::float8", vec!["2"]),
        (
            "id > 9007199254740992.5",
            vec!["9007199254740993", "9223372036854775807"],
        ),
    ] {
        assert_eq!(rows(session, &scan(condition)), expected, "{condition}");
    }
    assert_eq!(
        done(session, "UPDATE ids SET n = 7 WHERE id = 1.5"),
        "UPDATE 0"
    );
    assert_eq!(
        done(session, "DELETE FROM ids WHERE id IN (1.5, 2)"),
        "DELETE 1"
    );
}

/// As in PostgreSQL, all members of a list have one type: if one is a double, all numbers are
/// doubles.
#[test]
fn a_double_in_a_list_makes_doubles_of_its_numbers() {
    let setup = "CREATE TABLE t (id bigint PRIMARY KEY); \
                 INSERT INTO t VALUES (9007199254740993), (9223372036854775807), (2)";
    let session = &mut Model::session(setup);
    for (list, found) in [
        ("9007199254740992, 1.5", &[][..]),
        ("9007199254740992, '1.5'::float8", &["9007199254740993"][..]),
        (
            "'9007199254740992'::bigint, 'NaN'::float8",
            &["9007199254740993"][..],
        ),
        (
            "9223372036854775808, 'NaN'::float8",
            &["9223372036854775807"][..],
        ),
        ("'2.0', 'NaN'::float8, NULL", &["2"][..]),
    ] {
        let text = format!("SELECT id FROM t WHERE id IN ({list})");
        assert_eq!(rows(session, &text), found, "{list}");
    }
}

#[test]
fn errors_of_the_order_are_reported() {
    let session = &mut Model::session(
        "CREATE TABLE v (id bigint PRIMARY KEY, v bigint, INDEX by_v (v));
         INSERT INTO v VALUES (1, 7), (2, 8), (3, NULL);",
    );
    for text in [
        "SELECT id FROM v WHERE id IN (1, 2) ORDER BY 1 / (v - 7)",
        "SELECT id FROM v WHERE id = 1 ORDER BY 1 / (v - 7)",
        "SELECT id, 1 / (v - 7) AS x FROM v WHERE id IN (1, 2) ORDER BY x",
        "SELECT id FROM v WHERE id IN (1, 2) ORDER BY id, v % (v - 7) DESC LIMIT 1",
        "SELECT /*+ scan */ id FROM v ORDER BY 9223372036854775807 + v",
    ] {
        let message = error(session, text);
        assert!(
            message.contains("division by zero") || message.contains("out of range"),
            "{text}: {message}"
        );
    }
    let none = "SELECT id FROM v WHERE id IN (1, 2) ORDER BY 1 / (v - 7) LIMIT 0";
    assert_eq!(rows(session, none), Vec::<String>::new());
    let null = "SELECT id FROM v WHERE id IN (2, 3) ORDER BY 1 / (v - 7)";
    assert_eq!(rows(session, null), ["2", "3"]);
}

#[test]
fn lists_that_are_too_long_are_refused_with_their_limit() {
    let session = &mut Model::session(USERS);
    let numbers: Vec<String> = (0..1025).map(|n| n.to_string()).collect();
    let text = format!(
        "SELECT n FROM users WHERE region = 'eu' AND number IN ({})",
        numbers.join(", ")
    );
    assert_eq!(
        error(session, &text),
        "the list after number IN has 1025 members, and at most 1024 fit into one statement: split \
         it over several"
    );
    let pairs: Vec<String> = (0..600).map(|n| format!("('eu', {n})")).collect();
    let text = format!(
        "SELECT n FROM users WHERE (region, number) IN ({})",
        pairs.join(", ")
    );
    let message = error(session, &text);
    assert!(
        message.contains("has 600 members, and at most 512"),
        "{message}"
    );
    // Two lists that fit each, but not together: nothing is sent.
    let list = numbers[..600].join(", ");
    for verb in [
        "SELECT /*+ scan */ n FROM users",
        "DELETE /*+ scan */ FROM users",
    ] {
        let text = format!("{verb} WHERE n IN ({list}) AND number + 1 IN ({list})");
        let message = error(session, &text);
        assert!(
            message.contains("in WHERE: the expression has more than 4096 parts"),
            "{message}"
        );
    }
}

#[test]
fn duplicates_name_the_index_and_the_key() {
    let session = &mut Model::session(USERS);
    done(
        session,
        "INSERT INTO users VALUES ('eu', 1, 'a@b'), ('eu', 2, NULL), ('eu', 3, NULL)",
    );
    assert_eq!(
        error(session, "INSERT INTO users VALUES ('eu', 1, 'c@d')"),
        "table users already has a row with primary key (region, number) = ('eu', 1): choose \
         another value; an INSERT can leave the row out by ON CONFLICT DO NOTHING"
    );
    assert_eq!(
        error(session, "INSERT INTO users VALUES ('eu', 4, 'a@b')"),
        "table users already has a row with index users_email_key (email) = ('a@b'): choose \
         another value; an INSERT can leave the row out by ON CONFLICT DO NOTHING"
    );
    let several = error(
        session,
        "INSERT INTO users VALUES ('eu', 7, 'x'), ('eu', 1, 'y'), ('eu', 8, 'z')",
    );
    assert!(
        several.contains("(region, number) = ('eu', 1)"),
        "{several}"
    );
}

#[test]
fn dense_index_takes_rows_in_order() {
    let session = &mut Model::session(LOG);
    let id = |n: usize| format!("'00000000-0000-0000-0000-0000000000{n:02}'");
    let values: Vec<String> = (1..=9)
        .map(|n| format!("({}, {n}, '\\x{n:02}')", id(n)))
        .collect();
    let insert = format!("INSERT INTO log VALUES {}", values.join(", "));
    assert_eq!(done(session, &insert), "INSERT 0 9");
    assert_eq!(
        error(session, &format!("INSERT INTO log VALUES ({}, 12)", id(12))),
        "index by_position of table log is dense: the next value is 10, only the one before it \
         can be deleted"
    );
    assert_eq!(
        rows(
            session,
            "SELECT position FROM log WHERE position > 3 AND position <= 6"
        ),
        ["4", "5", "6"]
    );
    assert_eq!(
        rows(
            session,
            "SELECT position, entry FROM log ORDER BY position DESC LIMIT 1"
        ),
        ["9|\\x09"]
    );
    let middle = error(session, "DELETE FROM log WHERE position = 4");
    assert!(
        middle.contains("is dense: the next value is 10"),
        "{middle}"
    );
    assert_eq!(
        done(session, "DELETE FROM log WHERE position >= 6"),
        "DELETE 4"
    );
    assert_eq!(
        rows(session, "SELECT count(*) FROM log WHERE position > 0"),
        ["5"]
    );
}

#[test]
fn select_without_a_table_computes() {
    let session = &mut Model::session("");
    assert_eq!(
        rows(session, "SELECT 1 + 1, 'a' || 'b' AS ab, NULL"),
        ["2|ab|"]
    );
    assert_eq!(rows(session, "SELECT 1 WHERE false"), [""; 0]);
    let Ok(StatementOutcome::Rows(result)) = run(session, "SELECT 1 + 1, 'a' || 'b' AS ab, now()")
    else {
        panic!("rows");
    };
    let names: Vec<&str> = result.columns.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["?column?", "ab", "now"]);
    assert_eq!(result.columns[2].column_type, Some(ColumnType::TimestampTz));
    assert!(error(session, "SELECT *").contains("write FROM and its name"));
}

#[test]
fn tables_come_and_go() {
    let session = &mut Model::session("");
    assert_eq!(done(session, USERS), "CREATE TABLE");
    assert!(error(session, USERS).contains("table users exists"));
    assert_eq!(
        done(
            session,
            &USERS.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")
        ),
        "CREATE TABLE"
    );
    let message = error(
        session,
        "CREATE TABLE t (a bigint PRIMARY KEY) WITH (failures_tolerated = 3)",
    );
    assert!(
        message.contains("needs 4 failure domains, there are 3"),
        "{message}"
    );
    assert_eq!(rows(session, "SHOW TABLES"), ["users|4|2|4|1|sync"]);
    assert_eq!(
        rows(session, "SHOW SERVERS")[0],
        "1|up|rack1|4|127.0.0.1:4701"
    );
    let Ok(StatementOutcome::Description(parts)) = run(session, "SHOW TABLE users") else {
        panic!("a description");
    };
    assert_eq!(parts[0].1.rows[3][3], Value::Text("0".into()));
    assert_eq!(parts[1].1.rows[1][1], Value::Text("unique index".into()));
    assert_eq!(done(session, "DROP TABLE users"), "DROP TABLE");
    assert!(error(session, "DROP TABLE users").contains("there is no table users"));
    assert_eq!(done(session, "DROP TABLE IF EXISTS users"), "DROP TABLE");
    assert_eq!(
        error(session, "SELECT * FROM users WHERE number = 1"),
        "there is no table users, nor any other: create it"
    );
}

#[test]
fn stale_configuration_is_fetched_and_the_statement_planned_again() {
    let session = &mut Model::session(USERS);
    done(session, "INSERT INTO users VALUES ('eu', 1, 'a@b')");
    let other =
        schema("CREATE TABLE users (region text, number bigint, extra text, PRIMARY KEY (number))");
    session.store().replace_table(other);
    assert_eq!(
        rows(session, "SELECT region FROM users WHERE number = 1"),
        [""; 0]
    );
    assert_eq!(
        done(session, "INSERT INTO users VALUES ('eu', 1, 'x')"),
        "INSERT 0 1"
    );
    session.store().replace_table(schema(FLIGHTS));
    assert_eq!(
        rows(session, "SELECT id FROM flights WHERE id = 1"),
        [""; 0]
    );
}

#[test]
fn conflicts_are_tried_again_and_then_reported() {
    let session = &mut Model::session(USERS);
    session.store().conflict(CONFLICT_ATTEMPTS_MAX - 1);
    assert_eq!(
        done(session, "INSERT INTO users VALUES ('eu', 1)"),
        "INSERT 0 1"
    );
    session.store().conflict(CONFLICT_ATTEMPTS_MAX);
    assert_eq!(
        error(session, "INSERT INTO users VALUES ('eu', 2)"),
        "other operations held the row of table users for too long: run the statement again"
    );
}

#[test]
fn unknown_outcome_is_reported_with_the_completed_rows() {
    let session = &mut Model::session(LOG);
    let lost = StoreError {
        unknown: true,
        ..StoreError::plain("the outcome is unknown".into())
    };
    session.store().fail_after(2, lost);
    let before = session.store().executed();
    let text = "INSERT INTO log VALUES ('00000000-0000-0000-0000-000000000001', 1), \
                ('00000000-0000-0000-0000-000000000002', 2), \
                ('00000000-0000-0000-0000-000000000003', 3), \
                ('00000000-0000-0000-0000-000000000004', 4)";
    let failure = block_on(session.run_text(text)).unwrap_err().error;
    assert!(matches!(
        failure,
        SqlError::Store {
            unknown: true,
            done: StatementProgress { done: 2, of: 4 },
            ..
        }
    ));
    assert!(failure.to_string().contains("2 of 4 rows were changed"));
    // Nothing is sent after the first failure.
    assert_eq!(session.store().executed() - before, 2);
}
