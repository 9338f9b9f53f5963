//! R50: nothing is sent that was planned with other columns than the table has.

use super::client::Client;
use super::*;
use crate::{SessionFailure, SessionInput, SessionLimits, SessionOutcome};
use protocol::message::{Refusal, Reply};
use protocol::operation::RequestResult;
use protocol::transaction::TransactionChange;

/// Returns the configuration of an epoch, in which the table has other columns since `since`.
fn altered(epoch: u64, since: u64) -> SessionInput {
    let mut configuration = (*configuration(epoch)).clone();
    configuration.tables[0].columns_since = Epoch(since);
    SessionInput::Configuration(Arc::new(configuration))
}

fn planned_in(epoch: u64, operation: SessionOperation) -> SessionOperation {
    match operation {
        SessionOperation::Execute {
            table, mutations, ..
        } => SessionOperation::Execute {
            table,
            mutations,
            planned: Epoch(epoch),
        },
        other => other,
    }
}

/// Returns a transaction of one change that was planned in an epoch.
fn transaction(epoch: u64) -> SessionOperation {
    let SessionOperation::Execute { mutations, .. } = insert(1) else {
        panic!("it is a write");
    };
    let changes = mutations.into_iter().map(|mutation| TransactionChange {
        table: TABLE,
        mutation,
        must_apply: false,
    });
    SessionOperation::Transact {
        changes: changes.collect(),
        checks: Vec::new(),
        ranges: Vec::new(),
        planned: Epoch(epoch),
    }
}

fn other_columns() -> SessionOutcome {
    SessionOutcome::Failed(SessionFailure::ColumnsChanged { table: TABLE })
}

#[test]
fn a_write_that_was_planned_with_other_columns_is_not_sent() {
    let mut client = Client::new(SessionLimits::default());
    client.step(altered(5, 5));
    for (number, operation) in [(1, planned_in(4, insert(1))), (2, transaction(4))] {
        client.ended.clear();
        client.submit(number, operation);
        assert_eq!(*client.outcome(), other_columns());
    }
    assert!(client.sent.is_empty());
    client.submit(3, planned_in(5, insert(1)));
    client.submit(4, insert(2));
    assert_eq!(client.sent.len(), 2);
}

#[test]
fn a_write_that_was_refused_is_looked_at_again() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, planned_in(1, insert(1)));
    let attempt = client.last();
    let refusal = Refusal::StaleEpoch { epoch: Epoch(5) };
    client.reply(&attempt, Reply::Refused(refusal));
    assert!(client.ended.is_empty(), "it waits for the configuration");
    client.step(altered(5, 5));
    assert_eq!(*client.outcome(), other_columns());
}

#[test]
fn a_write_that_may_have_taken_effect_is_sent_again() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, planned_in(1, insert(1)));
    let attempt = client.last();
    client.reply(&attempt, Reply::Refused(Refusal::Begun));
    client.step(altered(5, 5));
    client.wait_for_attempt();
    let attempt = client.last();
    let done = RequestResult::NotFound;
    client.reply(&attempt, Reply::Executed(done.clone()));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(done));
}

#[test]
fn a_read_that_was_planned_with_other_columns_ends() {
    let mut client = Client::new(SessionLimits::default());
    client.reachable = false;
    client.submit(1, read(1));
    client.step(altered(5, 5));
    let gone = SessionFailure::PlaceGone {
        partition: Some(partition(0, 1)),
    };
    assert_eq!(*client.outcome(), SessionOutcome::Failed(gone));
}
