//! Tests statements of sessions in different time zones over the model.

use super::tests::{done, error, rows};
use crate::model::Model;
use crate::session_zone;
use crate::split;

const EVENTS: &str = "
    CREATE TABLE events (id bigint PRIMARY KEY, at timestamptz, day date, local timestamp,
        note text, CHECK ((at AT TIME ZONE 'UTC')::date >= '2024-01-01'));
    INSERT INTO events VALUES (1, '2024-06-30 23:30:00+00', NULL, NULL, NULL);
";

#[test]
fn servers_compute_in_the_zone_of_the_session() {
    let session = &mut Model::session(EVENTS);
    session.set_time_zone(session_zone("Europe/Berlin").unwrap());
    done(
        session,
        "UPDATE events SET day = at, local = at, note = at WHERE id = 1",
    );
    session.set_time_zone(session_zone("UTC").unwrap());
    let all = "SELECT day, local, note FROM events";
    assert_eq!(
        rows(session, all),
        ["2024-07-01|2024-07-01 01:30:00|2024-07-01 01:30:00+02"]
    );
    session.set_time_zone(session_zone("America/New_York").unwrap());
    done(
        session,
        "UPDATE events SET at = local WHERE at::date = '2024-06-30'",
    );
    session.set_time_zone(session_zone("UTC").unwrap());
    let at = "SELECT at FROM events";
    assert_eq!(rows(session, at), ["2024-07-01 05:30:00+00"]);
}

#[test]
fn stored_conditions_do_not_depend_on_a_session() {
    let session = &mut Model::session(EVENTS);
    for check in [
        "at::date = day",
        "at < day",
        "at::text <> ''",
        "local::timestamptz > '2024-01-01'",
        "date_trunc('day', at) = at",
        "extract(hour FROM at) = 1",
    ] {
        let statement = format!("ALTER TABLE events ADD CHECK ({check})");
        let error = error(session, &statement);
        assert!(error.contains("AT TIME ZONE"), "{check}: {error}");
    }
    done(
        session,
        "ALTER TABLE events ADD CHECK (extract(hour FROM at AT TIME ZONE 'UTC') <> 1)",
    );
    let refused = error(
        session,
        "INSERT INTO events VALUES (2, '2024-06-30 01:00+00')",
    );
    assert!(refused.contains("events_at_check"), "{refused}");
    let refused = error(
        session,
        "INSERT INTO events VALUES (2, '2023-12-31 23:00+00')",
    );
    assert!(refused.contains("check"), "{refused}");
}

#[test]
fn constants_of_a_table_are_times_of_the_session() {
    let text = "CREATE TABLE t (id bigint PRIMARY KEY, at timestamptz DEFAULT '2024-07-01 00:00')";
    let session = &mut Model::session("");
    let zone = session_zone("Europe/Berlin").unwrap();
    let statement = split(text).unwrap()[0].parse_in(zone).unwrap();
    crate::model::block_on(session.run(&statement, &[])).unwrap();
    done(session, "INSERT INTO t VALUES (1)");
    assert_eq!(
        rows(session, "SELECT at FROM t"),
        ["2024-06-30 22:00:00+00"]
    );
}
