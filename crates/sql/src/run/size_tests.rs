//! Tests statements that no index serves, on tables that are too large for them or grow too large.

use protocol::codec::Bytes;
use protocol::operation::{Action, Mutation};

use super::tests::{done, error, flights, rows};
use super::*;

/// A table that has more rows than statements read unasked.
#[test]
fn a_large_table_is_not_read_by_accident() {
    let session = &mut flights();
    let unasked = [
        "SELECT id FROM flights",
        "SELECT count(*) FROM flights WHERE dest = 'A'",
        "SELECT id FROM flights ORDER BY dest LIMIT 1",
    ];
    done(session, "SET scan_rows = 40");
    assert_eq!(rows(session, "SHOW scan_rows"), ["40"]);
    for text in unasked {
        rows(session, text);
    }
    done(session, "SET scan_rows = 39");
    for text in unasked.iter().chain(&[
        "UPDATE flights SET note = 'x'",
        "DELETE FROM flights WHERE dep_delay > 5",
        "SELECT id FROM flights WHERE dep_delay > 5 ORDER BY id LIMIT 1",
    ]) {
        let refused = error(session, text);
        assert!(refused.contains("it has more than 39 rows"), "{refused}");
    }
    for text in [
        "SELECT id FROM flights LIMIT 40",
        "SELECT id FROM flights ORDER BY id LIMIT 5 OFFSET 35",
    ] {
        let refused = error(session, text);
        let expected = "read 40 rows of table flights, which has more than 39: lower them to 39";
        assert!(refused.contains(expected), "{refused}");
    }
    for (text, count) in [
        ("SELECT count(*) FROM flights", 1),
        ("SELECT id FROM flights LIMIT 5", 5),
        ("SELECT id FROM flights LIMIT 39", 39),
        (
            "SELECT id FROM flights ORDER BY id DESC LIMIT 5 OFFSET 34",
            5,
        ),
        ("SELECT id FROM flights WHERE id BETWEEN 5 AND 9", 5),
        ("SELECT /*+ scan */ id FROM flights", 40),
    ] {
        assert_eq!(rows(session, text).len(), count, "{text}");
    }
    done(session, "SET scan_rows = default");
    assert_eq!(rows(session, "SELECT id FROM flights").len(), 40);
}

/// Twenty thousand rows are inserted after the size of the table was checked.
#[test]
fn a_read_stops_when_its_table_outgrows_it() {
    let text = |it: &str| Value::Text(it.into());
    for statement in [
        "SELECT id FROM flights",
        "SELECT id FROM flights WHERE dest > 'A' OR dep_delay > 5",
        "SELECT count(*) FROM flights WHERE note = 'none'",
        "UPDATE flights SET note = 'x'",
        "SELECT id FROM flights WHERE note = 'none' ORDER BY id LIMIT 5000",
    ] {
        let session = &mut flights();
        let configuration = session.store().configuration();
        let table = configuration.table_named("flights").unwrap();
        let grown = (40..20_040).map(|id| {
            let mut row = vec![Value::Int64(id), Value::Null, text("A"), text("B")];
            row.extend([Value::Null, Value::Null, Value::Bool(false), text("none")]);
            Mutation {
                pk: Bytes(placement::encode_key([row[0].as_ref()])),
                action: Action::Insert {
                    row: Bytes(placement::encode_row(&table.schema.columns, &row).unwrap()),
                },
            }
        });
        done(session, "SET scan_rows = 40");
        session.store().moments_of(0);
        session.store().take_reads();
        let checked = table.layout.partition_count(0) as usize;
        session.store().grow_after(checked, grown.collect());
        let refused = error(session, statement);
        assert!(refused.contains("more than 40 rows"), "{refused}");
        let reads = session.store().take_reads().len();
        assert!((checked..200).contains(&reads), "{statement}: {reads}");
    }
}
