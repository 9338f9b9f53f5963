//! Tests plans over a configuration: rows, columns, changes, explanations and refusals.

use placement::RowView;
use protocol::operation::Action;

use super::*;
use crate::fixture::configuration;
use crate::parse::parse;

pub(super) fn planned_with(
    text: &str,
    settings: SessionSettings,
) -> Result<StatementPlan, SqlError> {
    planned_over(&configuration(), text, settings)
}

fn planned_over(
    configuration: &Configuration,
    text: &str,
    settings: SessionSettings,
) -> Result<StatementPlan, SqlError> {
    let context = Context {
        configuration,
        settings,
        parameters: &[],
        now_us: 0,
        statistics: &WithoutStatistics,
        explains: false,
    };
    let mut statements = parse(text).map_err(|it| it.error)?;
    plan(&statements.remove(0).statement, &context)
}

pub(super) fn planned(text: &str) -> StatementPlan {
    planned_with(text, SessionSettings::default()).unwrap_or_else(|error| panic!("{text}: {error}"))
}

pub(super) fn error(text: &str) -> String {
    match planned_with(text, SessionSettings::default()) {
        Ok(plan) => panic!("{text} was planned as {plan:?}"),
        Err(error) => error.to_string(),
    }
}

pub(super) fn read(text: &str) -> (SelectPlan, ReadPlan) {
    match planned(text) {
        StatementPlan::Select(select) => {
            let read = select.read.clone().expect("it reads a table");
            (*select, read)
        }
        other => panic!("{text}: {other:?}"),
    }
}

/// Returns the reads of aggregates.
pub(crate) fn aggregated(text: &str) -> AggregatePlan {
    match planned(text) {
        StatementPlan::Aggregate(plan) => plan,
        other => panic!("{text}: {other:?}"),
    }
}

pub(crate) fn explained(text: &str) -> String {
    explained_over(&configuration(), text)
}

pub(super) fn explained_over(configuration: &Configuration, text: &str) -> String {
    let text = format!("EXPLAIN {text}");
    match planned_over(configuration, &text, SessionSettings::default()) {
        Ok(StatementPlan::Explain(lines)) => lines.join("\n"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_needed_columns_are_sent() {
    let (select, read_plan) =
        read("SELECT dest, id + 1 AS next FROM flights WHERE tailnum = 'N1' ORDER BY dep_delay");
    assert_eq!(read_plan.projection, Some(vec![0, 3, 4]));
    assert_eq!(select.items[0].expression, Expression::Column(1));
    assert_eq!(select.items[1].name, "next");
    assert_eq!(select.order[0].expression, Expression::Column(2));
    let (_, read_plan) = read("SELECT 1 FROM flights WHERE id = 1");
    assert_eq!(read_plan.projection, Some(vec![0]));
    let (_, read_plan) = read("SELECT * FROM flights WHERE id = 1");
    assert_eq!(read_plan.projection, None);
}

#[test]
fn order_by_output_name_and_number() {
    let (select, _) = read("SELECT id AS x, dest FROM flights WHERE tailnum = 'N1' ORDER BY x, 2");
    assert_eq!(select.order[0].expression, Expression::Column(0));
    assert_eq!(select.order[1].expression, Expression::Column(1));
    assert!(
        error("SELECT id FROM flights WHERE id = 1 ORDER BY 2")
            .contains("names no output: there are 1")
    );
    assert!(error("SELECT id FROM flights WHERE id = 1 LIMIT -1").contains("LIMIT is -1"));
    assert!(error("SELECT id FROM flights WHERE id = 1 LIMIT 'x'").contains("not of type bigint"));
}

#[test]
fn insert_encodes_rows_with_defaults() {
    let text = "INSERT INTO flights (dest, id, origin, note) VALUES ('IAH', 1, 'EWR', ''), \
                ('SFO', '2', 'JFK', DEFAULT)";
    let StatementPlan::Insert(insert) = planned(text) else {
        panic!("not an INSERT");
    };
    let configuration = configuration();
    let schema = &configuration.table_named("flights").unwrap().schema;
    let Action::Insert { row } = &insert.mutations[1].action else {
        panic!("{insert:?}");
    };
    let values = RowView::parse(&schema.columns, row).unwrap().to_values();
    assert_eq!(
        values,
        [
            Value::Int64(2),
            Value::Null,
            Value::Text("JFK".into()),
            Value::Text("SFO".into()),
            Value::Null,
            Value::Null,
            Value::Bool(false),
            Value::Text("none".into()),
        ]
    );
    assert!(!insert.in_order);
    assert_eq!(
        *insert.mutations[1].pk,
        placement::encode_key([Value::Int64(2).as_ref()])
    );
}

#[test]
fn upsert_binds_the_proposed_row() {
    let text = "INSERT INTO users AS u VALUES ('eu', 1, NULL, 5) ON CONFLICT (number, region) \
                DO UPDATE SET n = u.n + excluded.n WHERE u.n < 10";
    let StatementPlan::Insert(insert) = planned(text) else {
        panic!("not an INSERT");
    };
    let Action::Upsert {
        assignments,
        condition,
        ..
    } = &insert.mutations[0].action
    else {
        panic!("{insert:?}");
    };
    assert_eq!(assignments[0].column, 3);
    assert!(condition.is_some());
    let keep = "INSERT INTO users VALUES ('eu', 1), ('eu', 1) ON CONFLICT DO NOTHING";
    let StatementPlan::Insert(insert) = planned(keep) else {
        panic!("not an INSERT");
    };
    // The second one may get in where another key stands in the way of the first.
    assert_eq!((insert.mutations.len(), insert.in_order), (2, true));
}

#[test]
fn conflict_targets_are_unique_keys() {
    let planned = |target: &str| {
        let text =
            format!("INSERT INTO users VALUES ('eu', 1, 'a') ON CONFLICT {target} DO NOTHING");
        match planned(&text) {
            StatementPlan::Insert(insert) => insert,
            other => panic!("{other:?}"),
        }
    };
    let kept =
        |insert: &InsertPlan| matches!(insert.mutations[0].action, Action::InsertOrKeep { .. });
    let any = planned("");
    assert_eq!((any.left_out, kept(&any)), (SkippedDuplicates::ByAny, true));
    let by_key = planned("(number, region)");
    assert_eq!(
        (by_key.left_out, kept(&by_key)),
        (SkippedDuplicates::Nothing, true)
    );
    let by_email = planned("(email)");
    assert_eq!(
        (by_email.left_out, kept(&by_email)),
        (SkippedDuplicates::By(1), false)
    );
    for target in ["(n)", "(region)", "(email, n)"] {
        let message = error(&format!(
            "INSERT INTO users VALUES ('eu', 1, 'a') ON CONFLICT {target} DO NOTHING"
        ));
        assert!(
            message.contains(
                "names no unique key of table users: write one of (region, number), (email)"
            ),
            "{message}"
        );
    }
    let message =
        error("INSERT INTO users VALUES ('eu', 1, 'a') ON CONFLICT (email) DO UPDATE SET n = 1");
    assert!(
        message.contains("write ON CONFLICT (region, number) DO UPDATE"),
        "{message}"
    );
}

#[test]
fn bad_rows_change_nothing_and_are_named() {
    let long = format!(
        "INSERT INTO flights VALUES (1, '{}', 'a', 'b')",
        "x".repeat(2000)
    );
    let huge = format!(
        "INSERT INTO flights (id, origin, dest, note) VALUES (1, 'a', 'b', '{}')",
        "x".repeat(2 << 20)
    );
    for (text, part) in [
        (
            "INSERT INTO flight VALUES (1)",
            "there is no table flight: create it, or name one of flights, log, users",
        ),
        (
            "INSERT INTO flights (speed) VALUES (1)",
            "table flights has no column speed",
        ),
        (
            "INSERT INTO flights (id, id) VALUES (1, 2)",
            "column id is named twice",
        ),
        (
            "INSERT INTO flights (id) VALUES (1, 2)",
            "2 values for 1 columns",
        ),
        (
            "INSERT INTO flights VALUES (1)",
            "row 1: column origin is NOT NULL",
        ),
        (
            "INSERT INTO flights VALUES (NULL, 'N', 'a', 'b')",
            "column id is NOT NULL",
        ),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b'), ('x', 'N', 'a', 'b')",
            "row 2, column id of table flights: \"x\" is not of type bigint",
        ),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b', 'late')",
            "column dep_delay of table flights: \"late\" is not of type double precision",
        ),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b', 1, true)",
            "a boolean cannot be stored in a column of type timestamp",
        ),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b'), (1, 'M', 'a', 'b')",
            "primary key (id) = (1) (twice in this statement)",
        ),
        (long.as_str(), "the limit is 1024"),
        (huge.as_str(), "the limit is 1048576"),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b') ON CONFLICT (tailnum) DO NOTHING",
            "names no unique key of table flights: write one of (id)",
        ),
        (
            "INSERT INTO flights VALUES (1, 'N', 'a', 'b') ON CONFLICT DO UPDATE SET id = 2",
            "column id is in the primary key of table flights and cannot be changed",
        ),
    ] {
        let message = error(text);
        assert!(
            message.contains(part),
            "{}: {message}",
            &text[..60.min(text.len())]
        );
    }
}

#[test]
fn conditional_update_is_one_operation() {
    let StatementPlan::Change(change) =
        planned("UPDATE users SET n = n + 1 WHERE region = 'eu' AND number = 1 AND n = 3")
    else {
        panic!("not a change");
    };
    let key = [Value::Text("eu".into()), Value::Int64(1)];
    assert_eq!(
        change.target,
        ChangeTarget::Keys(vec![placement::encode_key(key.iter().map(Value::as_ref))])
    );
    assert!(matches!(change.condition, Some(Expression::Binary(..))));
    let StatementPlan::Change(change) =
        planned("DELETE FROM flights WHERE tailnum = 'N1' AND dep_delay > 5")
    else {
        panic!("not a change");
    };
    let ChangeTarget::Rows(read) = &change.target else {
        panic!("{change:?}");
    };
    assert_eq!(read.projection, Some(vec![0]));
    // The filter leaves out the conjuncts that the index fixes. The condition re-checks all of it.
    assert_ne!(read.filter, change.condition);
    assert!(change.condition.is_some());
}

#[test]
fn an_index_changes_its_kind() {
    for (text, wanted_thin) in [
        ("ALTER INDEX by_tail SET USING btree", true),
        (
            "alter index by_tail on flights set using btree include (note) with (ranges = off)",
            true,
        ),
        ("ALTER INDEX by_tail SET USING replex", false),
    ] {
        match planned(text) {
            StatementPlan::ReplaceIndex {
                wanted: Some(wanted),
                table,
                name,
                by,
            } => {
                assert_eq!((&table[..], &name[..]), ("flights", "by_tail"), "{text}");
                assert_eq!(wanted.thin.last().map(|it| &it.name), Some(&by), "{text}");
                assert!(wanted_thin, "{text}");
            }
            StatementPlan::Already(what) => assert!(!wanted_thin, "{text}: {what}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for (text, part) in [
        (
            "ALTER INDEX nothing SET USING btree",
            "there is no index nothing",
        ),
        (
            "ALTER INDEX by_tail SET SCHEMA x",
            "this form of ALTER INDEX",
        ),
        (
            "ALTER INDEX IF EXISTS by_tail SET USING btree",
            "this form of ALTER INDEX",
        ),
        ("ALTER INDEX by_tail SET USING hash", "an index USING HASH"),
        (
            "ALTER INDEX by_tail SET USING replica",
            "cannot become a replica",
        ),
        ("ALTER INDEX by_tail SET USING btree INCLUDE (nope)", "nope"),
        ("ALTER INDEX by_tail SET USING", "expected"),
        (
            "ALTER INDEX h SET USING btree",
            "not an index with columns of its own",
        ),
    ] {
        let message = error(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

// tidy: long — a list of statements.
#[test]
fn bad_changes_are_refused() {
    for (text, part) in [
        (
            "UPDATE flights SET id = 2 WHERE id = 1",
            "column id is in the primary key of table flights and cannot be changed: DELETE the row and INSERT it again",
        ),
        (
            "UPDATE flights SET origin = NULL WHERE id = 1",
            "column origin of table flights is NOT NULL",
        ),
        (
            "UPDATE flights SET origin = 'a', origin = 'b' WHERE id = 1",
            "assigned to twice",
        ),
        (
            "UPDATE flights SET dep_delay = 'late' WHERE id = 1",
            "is not of type double precision",
        ),
        (
            "UPDATE flights SET dep_delay = tailnum WHERE id = 1",
            "a text cannot be stored in a column of type double precision",
        ),
        (
            "UPDATE flights SET speed = 1 WHERE id = 1",
            "no column speed",
        ),
        (
            "UPDATE flights SET note = excluded.note WHERE id = 1",
            "is about no table of this statement",
        ),
        (
            "DELETE FROM flights WHERE id = 'x'",
            "is not of type bigint",
        ),
        (
            "CREATE INDEX by_tail ON flights (tailnum)",
            "has an index by_tail already",
        ),
        ("CREATE INDEX x ON nowhere (a)", "there is no table nowhere"),
        (
            "CREATE TABLE t (a bigint, __row_id text)",
            "conflicts with a system column name",
        ),
        ("SHOW TABLE nowhere", "there is no table nowhere"),
    ] {
        let message = error(text);
        assert!(message.contains(part), "{text}: {message}");
    }
    let added = planned("CREATE UNIQUE INDEX x ON flights (note)");
    let StatementPlan::AddIndex { wanted, name, .. } = added else {
        panic!("{added:?}");
    };
    assert_eq!((name.as_str(), wanted.indexes.len()), ("x", 3));
    for (text, table) in [
        ("DROP INDEX by_tail", "flights"),
        ("DROP INDEX IF EXISTS h", "grids"),
    ] {
        assert!(
            matches!(planned(text), StatementPlan::DropIndex { table: found, .. } if found == table)
        );
    }
    assert!(matches!(
        planned("DROP INDEX IF EXISTS nothing"),
        StatementPlan::Already(_)
    ));
    assert!(error("DROP INDEX nothing").contains("there is no index nothing"));
    assert!(matches!(
        planned("CREATE INDEX IF NOT EXISTS by_tail ON flights (tailnum)"),
        StatementPlan::Already(_)
    ));
}

#[test]
fn explain_names_an_index_that_is_being_made() {
    let mut configuration = configuration();
    let tables = &mut configuration.tables;
    let flights = tables.named("flights").unwrap().id;
    tables.get_mut(flights).unwrap().building = vec![1];
    let text = explained_over(&configuration, "SELECT id FROM flights WHERE id = 1");
    assert!(
        text.contains("not used yet, is being made: by_tail"),
        "{text}"
    );
}

#[test]
fn explain_shows_replex_partitions_and_servers() {
    let text = explained(
        "SELECT id FROM flights WHERE tailnum = 'N14228' AND dep_delay > 5 ORDER BY id LIMIT 3",
    );
    let partition = {
        let configuration = configuration();
        let table = configuration.table_named("flights").unwrap();
        table
            .layout
            .partition_of_values(1, |_| placement::ValueRef::Text("N14228"))
    };
    assert_eq!(
        text,
        format!(
            "Range lookup in flights by index by_tail\n  \
             key (tailnum) = ('N14228')\n  \
             replex 1 (by_tail), partition {partition} of 12, on server 2 core 0 at 127.0.0.1:4702\n  \
             after a failure: partitions of other copies instead of a lost one: 12; after two: 12\n  \
             filter, at the partition: dep_delay > 5\n  \
             output: id\n  \
             order: comes from the index\n  \
             limit: 3\n  \
             failures that every row survives: 2 (2 asked for)"
        )
    );
    let text = explained("UPDATE flights SET tailnum = 'N2' WHERE id = 1 AND tailnum = 'N1'");
    assert!(
        text.contains("condition, checked atomically at the head: tailnum = 'N1'"),
        "{text}"
    );
    assert!(text.contains("moves the row in by_tail"), "{text}");
    assert!(
        text.contains(
            "chain of each row: its partition in flights, then in by_tail, then in by_route"
        ),
        "{text}"
    );
    let text = explained("INSERT INTO flights VALUES (1, 'N', 'a', 'b'), (2, 'N', 'a', 'b')");
    assert!(text.contains("2 rows, many at a time"), "{text}");
    assert!(text.contains("replex 2 (by_route), partition"), "{text}");
    assert!(
        text.contains("durable at position 3 of 3") || text.contains("durable at position 1 of 3"),
        "{text}"
    );
    let text =
        explained("SELECT /*+ scan */ count(*) FROM flights WHERE note LIKE 'a%' OR NOT cancelled");
    assert!(
        text.contains("Scan of flights, whole, through the primary key"),
        "{text}"
    );
    assert!(
        text.contains("filter, at the partition: (note LIKE 'a%') OR (NOT cancelled)"),
        "{text}"
    );
    assert!(text.contains("output: only the number of rows"), "{text}");
    let text = explained("SELECT * FROM log WHERE position > 5 AND position <= 9");
    assert!(
        text.contains("range: position > 5 AND position <= 9"),
        "{text}"
    );
    assert!(
        explained("SELECT * FROM flights WHERE id = 1 AND false").contains("no row can satisfy")
    );
}
