//! Tests `RETURNING` over the model.

use std::pin::pin;
use std::task::{Context, Waker};

use super::tests::{done, error, rows, run};
use super::{SqlSession, StatementOutcome};
use crate::model::Model;
use crate::parse;

fn session() -> SqlSession<Model> {
    Model::session(
        "CREATE TABLE jobs (id bigint PRIMARY KEY, queue text, n bigint NOT NULL);
         CREATE INDEX by_queue ON jobs (queue);
         INSERT INTO jobs VALUES (1, 'mail', 1), (2, 'mail', 2), (3, 'print', 0);",
    )
}

/// Returns the rows that a change returns, and its tag.
fn returned(session: &mut SqlSession<Model>, text: &str) -> (Vec<String>, String) {
    match run(session, text) {
        Ok(StatementOutcome::Returned(rows, tag)) => {
            let shown = rows.rows.iter().map(|row| {
                let values: Vec<String> = row.iter().map(ToString::to_string).collect();
                values.join("|")
            });
            (shown.collect(), tag)
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_statement_that_another_operation_disturbs_runs_again() {
    let session = &mut session();
    let update = "UPDATE jobs SET n = n + 1 WHERE id = 1 RETURNING n";
    session.store().conflict(5);
    assert_eq!(
        returned(session, update),
        (vec!["2".into()], "UPDATE 1".into())
    );
    session.store().conflict(1000);
    let failure = error(session, update);
    assert!(
        failure.contains("another operation was in the way"),
        "{failure}"
    );
    assert_eq!(session.transaction(), None, "nothing is open afterwards");
    session.store().conflict(0);
    assert_eq!(rows(session, "SELECT n FROM jobs WHERE id = 1"), ["2"]);
}

/// A client cancels a statement while it commits. The next one is outside of a transaction.
#[test]
fn a_canceled_statement_leaves_no_transaction() {
    let session = &mut session();
    let statement = parse("DELETE FROM jobs WHERE queue = 'mail' RETURNING id").unwrap();
    session.store().hold();
    {
        let running = pin!(session.run(&statement[0].statement, &[]));
        let polled = running.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the store does not answer");
    }
    session.store().release();
    assert_eq!(session.transaction(), None);
    assert_eq!(done(session, "DELETE FROM jobs WHERE id = 3"), "DELETE 1");
    assert_eq!(rows(session, "SELECT count(*) FROM jobs"), ["2"]);
}

#[test]
fn rows_are_returned_as_they_were_changed() {
    let session = &mut session();
    let both = returned(
        session,
        "UPDATE jobs SET n = n * 10 WHERE queue = 'mail' RETURNING id, n",
    );
    let mut found = both.0;
    found.sort();
    assert_eq!(found, ["1|10", "2|20"]);
    let upsert = "INSERT INTO jobs VALUES (1, 'x', 5), (4, 'y', 5) ON CONFLICT (id) DO UPDATE SET \
                  n = jobs.n + excluded.n RETURNING id, queue, n";
    let (found, tag) = returned(session, upsert);
    assert_eq!(
        (&found[..], &*tag),
        (&["1|mail|15".into(), "4|y|5".into()][..], "INSERT 0 2")
    );
    // A row that the condition spares is not looked at.
    let spared = "DELETE FROM jobs WHERE id = 3 AND n > 0 RETURNING 1 / n";
    assert_eq!(returned(session, spared), (Vec::new(), "DELETE 0".into()));
    let failure = error(session, "DELETE FROM jobs WHERE id = 3 RETURNING 1 / n");
    assert!(failure.contains("division by zero"), "{failure}");
    assert_eq!(rows(session, "SELECT count(*) FROM jobs"), ["4"]);
    let analyzed = rows(
        session,
        "EXPLAIN ANALYZE UPDATE jobs SET n = 1 WHERE id = 3 RETURNING n",
    );
    assert!(
        analyzed.iter().any(|it| it.trim() == "result: UPDATE 1"),
        "{analyzed:?}"
    );
}
