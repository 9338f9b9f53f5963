//! Tests changes and conditions of times of the day and intervals over the model, which evaluates
//! them as the servers do.

use super::tests::{done, error, rows};
use crate::model::Model;
use crate::session_zone;

const SHIFTS: &str = "
    CREATE TABLE shifts (id bigint PRIMARY KEY, start time(0) NOT NULL DEFAULT '08:00',
        span interval DEFAULT '8 hours', at timestamptz,
        CONSTRAINT short CHECK (span <= interval '1 day' AND start + span > '06:00'));
    INSERT INTO shifts VALUES (1, '12:00:00.5', '90 minutes', '2024-03-30 12:00+00');
    INSERT INTO shifts (id) VALUES (2);
";

#[test]
fn conditions_and_changes_are_evaluated_with_the_row() {
    let session = &mut Model::session(SHIFTS);
    assert_eq!(
        rows(session, "SELECT start, span, start + span FROM shifts"),
        ["12:00:01|01:30:00|13:30:01", "08:00:00|08:00:00|16:00:00"]
    );
    let failure = error(session, "UPDATE shifts SET span = span * 20 WHERE id = 2");
    assert!(failure.contains("short"), "{failure}");
    session.set_time_zone(session_zone("Europe/Berlin").unwrap());
    // The clock goes forward in the night.
    done(
        session,
        "UPDATE shifts SET at = at + interval '1 day', start = at, span = at - (at - span) \
         WHERE at + interval '1 day' = '2024-03-31 13:00'",
    );
    session.set_time_zone(session_zone("UTC").unwrap());
    assert_eq!(
        rows(session, "SELECT at, start, span FROM shifts WHERE id = 1"),
        ["2024-03-31 11:00:00+00|13:00:00|01:30:00"]
    );
    let failure = error(
        session,
        "UPDATE shifts SET at = at + interval '300000 years'",
    );
    assert!(failure.contains("out of range"), "{failure}");
}

#[test]
fn equal_intervals_are_one_key() {
    let session = &mut Model::session(
        "CREATE TABLE keyed (k interval PRIMARY KEY, n bigint);
         CREATE UNIQUE INDEX by_n ON keyed (n, k);
         INSERT INTO keyed VALUES ('30 days', 1), ('-1 day', 2), ('1 year', 3);",
    );
    assert_eq!(
        rows(session, "SELECT k FROM keyed WHERE k = '1 mon'"),
        ["30 days"]
    );
    assert_eq!(
        rows(session, "SELECT k FROM keyed WHERE n = 1 AND k > '29 days'"),
        ["30 days"]
    );
    let failure = error(session, "INSERT INTO keyed VALUES ('720:00', 4)");
    assert!(failure.contains("already has a row"), "{failure}");
    assert_eq!(
        rows(session, "SELECT k FROM keyed ORDER BY k"),
        ["-1 days", "30 days", "1 year"]
    );
    done(
        session,
        "INSERT INTO keyed VALUES ('1 mon', 5) ON CONFLICT (k) DO UPDATE SET n = excluded.n",
    );
    assert_eq!(
        rows(session, "SELECT k, n FROM keyed WHERE k = '1 mon'"),
        ["30 days|5"]
    );
}

#[test]
fn stored_conditions_do_not_depend_on_a_session() {
    let session = &mut Model::session(SHIFTS);
    for check in [
        "at + interval '1 day' > '2024-01-01 00:00+00'",
        "at - span < '2025-01-01 00:00+00'",
        "at::time > '06:00'",
        "age(at, at) = '0'",
    ] {
        let failure = error(session, &format!("ALTER TABLE shifts ADD CHECK ({check})"));
        assert!(failure.contains("AT TIME ZONE"), "{check}: {failure}");
    }
    done(
        session,
        "ALTER TABLE shifts ADD CHECK (at + interval '1 hour' > '2024-01-01 00:00+00')",
    );
}

#[test]
fn defaults_can_be_of_the_present_time() {
    let session = &mut Model::session(
        "CREATE TABLE clock (id bigint PRIMARY KEY, at time(0) DEFAULT now(),
             age interval DEFAULT interval '1' DAY);
         INSERT INTO clock (id) VALUES (1);",
    );
    let text = "SELECT at BETWEEN '00:00' AND '24:00', age FROM clock";
    assert_eq!(rows(session, text), ["t|1 day"]);
}

#[test]
fn other_types_are_refused_by_name() {
    let session = &mut Model::session("");
    for written in ["time with time zone", "timetz", "interval day to second"] {
        let text = format!("CREATE TABLE refused (id bigint PRIMARY KEY, a {written})");
        let failure = error(session, &text);
        assert!(failure.contains("write"), "{written}: {failure}");
    }
    error(session, "SELECT current_time");
    error(session, "SELECT +interval '1 day'");
}

#[test]
fn prepared_statements_infer_intervals() {
    use crate::describe::describe;
    use crate::fixture;
    use crate::session_functions::tests::Version;
    let described = |text: &str| {
        let statement = crate::parse(text).unwrap().remove(0).statement;
        let found = describe(&statement, &fixture::configuration(), &[], &Version).unwrap();
        let parameters: Vec<&str> = found.parameters.iter().map(|it| it.name()).collect();
        let columns = found.columns.unwrap_or_default();
        let columns = columns
            .iter()
            .map(|it| it.column_type.map_or("NULL", |it| it.name()));
        let columns: Vec<&str> = columns.collect();
        format!("{} -> {}", parameters.join(", "), columns.join(", "))
    };
    for (text, expected) in [
        (
            "SELECT now() + $1, now() - $2, $3 + localtime",
            "interval, timestamptz, interval -> timestamptz, interval, time",
        ),
        (
            "SELECT interval '1 day' * $1, $2::interval / 2, $3::time - $4",
            "double precision, interval, time, time -> interval, interval, interval",
        ),
        (
            "SELECT age($1::date, now()), make_interval(days => $2), justify_days($3)",
            "date, integer, interval -> interval, interval, interval",
        ),
        (
            "SELECT date_trunc('day', $1::interval), time '12:00' * 2, make_time($2, 1, $3)",
            "interval, integer, double precision -> interval, interval, time",
        ),
    ] {
        assert_eq!(described(text), expected, "{text}");
    }
}
