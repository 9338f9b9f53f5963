//! Tests one behaviour each: which message the machine sends and when, and how the request ends.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::identity::{CoreId, Epoch, ServerId, SessionId};
use protocol::message::{CoordinatorRequest, Refusal, Reply, Request, SnapshotFailure};
use protocol::operation::RequestResult;

use super::client::{
    Client, DONE, SECOND, execute, insert_at_the_first, wait_for_inquiry, without_the_first,
};
use super::{TABLE, configuration, core, insert, partition, read};
use crate::{
    SessionFailure, SessionInput, SessionLimits, SessionOperation, SessionOutcome, Ticket,
};

#[test]
fn a_lost_reply_is_asked_for_again_under_the_same_name() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait_for_attempt();
    let second = client.last();
    assert_ne!(first.correlation, second.correlation);
    assert_eq!(first.request, second.request);
    client.reply(&second, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
    client.reply(&first, Reply::Executed(DONE));
    assert_eq!(client.ended.len(), 1, "a second copy is nothing new");
    assert_eq!(client.machine.open_attempts(), 0);
}

#[test]
fn a_late_reply_to_an_earlier_attempt_counts() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait();
    client.reply(&first, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
    assert_eq!(client.machine.open_attempts(), 0);
}

#[test]
fn broken_connection_repeats_its_requests_in_order() {
    let mut client = Client::new(SessionLimits::default());
    for number in 0..8 {
        client.submit(number, insert(number as i64));
    }
    let broken = client.sent[0].core;
    let before: Vec<Request> = client
        .sent
        .drain(..)
        .filter(|attempt| attempt.core == broken)
        .map(|attempt| attempt.request)
        .collect();
    client.step(SessionInput::Disconnected { core: broken });
    assert!(client.sent.is_empty(), "not before the connection is back");
    client.wait();
    let again: Vec<Request> = client.sent.iter().map(|it| it.request.clone()).collect();
    assert_eq!(before, again);
}

#[test]
fn sent_and_unanswered_is_unknown_but_never_sent_is_not() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    client.step(SessionInput::Disconnected {
        core: client.last().core,
    });
    client.reachable = false;
    client.exhaust();
    assert!(matches!(
        client.outcome(),
        SessionOutcome::Unknown(SessionFailure::Deadline { .. })
    ));

    let mut client = Client::new(SessionLimits::default());
    client.reachable = false;
    client.submit(1, insert(1));
    client.exhaust();
    assert!(client.sent.is_empty());
    assert!(matches!(
        client.outcome(),
        SessionOutcome::Failed(SessionFailure::Deadline { .. })
    ));
}

#[test]
fn only_the_head_that_was_asked_last_reports_nothing_changed() {
    let nothing = RequestResult::NotFound;
    for (first_result, is_reported) in [(nothing.clone(), false), (DONE, true)] {
        let mut client = Client::new(SessionLimits::default());
        client.submit(1, insert(1));
        let first = client.last();
        let mut moved = (*configuration(2)).clone();
        for place in moved.tables[0].placement[0].iter_mut() {
            place.core = core(3 - first.core.server.0);
        }
        client.step(SessionInput::Configuration(Arc::new(moved)));
        client.wait();
        let second = client.last();
        assert_ne!(first.core, second.core, "the partition has moved");
        client.reply(&first, Reply::Executed(first_result));
        assert_eq!(client.ended.len(), usize::from(is_reported));
        client.reply(&second, Reply::Executed(DONE));
        assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
    }
    // The same head knows how the first attempt ended.
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait();
    assert_eq!(client.last().core, first.core);
    client.reply(&first, Reply::Executed(nothing.clone()));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(nothing));
}

#[test]
fn request_begun_before_a_move_has_an_unknown_outcome() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.refuse(&first, Refusal::Begun);
    client.wait();
    // It goes on under the same number, which finds the first result.
    assert_eq!(client.last().request, first.request);
    while client.ended.is_empty() {
        let attempt = client.last();
        client.refuse(&attempt, Refusal::NotServing);
        client.wait();
    }
    assert!(matches!(
        client.outcome(),
        SessionOutcome::Unknown(SessionFailure::Deadline { .. })
    ));
}

#[test]
fn refused_to_the_last_is_a_failure_with_a_reason() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    while client.ended.is_empty() {
        let attempt = client.last();
        client.refuse(&attempt, Refusal::NotServing);
        client.wait();
    }
    let expected = SessionFailure::Deadline {
        last: Some(Refusal::NotServing),
    };
    assert_eq!(*client.outcome(), SessionOutcome::Failed(expected));
    // 10 s with pauses of 250 ms at most and 125 ms at least, after some shorter ones.
    assert!(
        (40..=100).contains(&client.sent.len()),
        "{}",
        client.sent.len()
    );
}

#[test]
fn a_refusal_after_a_lost_attempt_proves_nothing() {
    for refusal in [
        Refusal::SessionEnded,
        Refusal::RequestMismatch,
        Refusal::Invalid {
            message: "no".into(),
        },
    ] {
        let mut client = Client::new(SessionLimits::default());
        client.submit(1, insert(1));
        client.step(SessionInput::Disconnected {
            core: client.last().core,
        });
        client.sent.clear();
        client.wait_for_attempt();
        let attempt = client.last();
        client.refuse(&attempt, refusal);
        assert!(matches!(client.outcome(), SessionOutcome::Unknown(_)));
    }
    // A full disk may be about the retry only: it goes on.
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    client.wait_for_attempt();
    let server = ServerId(1);
    let attempt = client.last();
    client.refuse(&attempt, Refusal::DiskFull { server });
    assert!(client.ended.is_empty());
}

#[test]
fn a_full_disk_ends_a_request_that_nothing_else_became_of() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let server = ServerId(2);
    let attempt = client.last();
    client.refuse(&attempt, Refusal::DiskFull { server });
    let expected = SessionOutcome::Failed(SessionFailure::DiskFull { server });
    assert_eq!(*client.outcome(), expected);
}

#[test]
fn a_newer_epoch_is_fetched_and_the_request_sent_with_it() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, read(0));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(3) });
    assert_eq!(client.asks, [CoordinatorRequest::Fetch { known: Epoch(1) }]);
    let sent = client.sent.len();
    client.step(SessionInput::Configuration(configuration(2)));
    client.step(SessionInput::Configuration(configuration(2)));
    assert_eq!(client.sent.len(), sent + 1, "each epoch is tried once");
    client.step(SessionInput::Configuration(configuration(3)));
    let attempt = client.last();
    match &attempt.request {
        Request::Read(read) => assert!(read.epoch > Epoch(1)),
        other => panic!("{other:?}"),
    }
}

/// The answer in flight may be older than the noticed epoch. Another request for this epoch, after
/// that answer, would come too late.
#[test]
fn an_epoch_that_is_noticed_during_a_fetch_is_fetched_at_once() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, read(0));
    client.submit(2, read(1));
    let attempts = client.sent.clone();
    let fetch = CoordinatorRequest::Fetch { known: Epoch(1) };
    client.refuse(&attempts[0], Refusal::StaleEpoch { epoch: Epoch(2) });
    assert_eq!(client.asks.len(), 1);
    client.refuse(&attempts[1], Refusal::StaleEpoch { epoch: Epoch(3) });
    assert_eq!(client.asks, [fetch.clone(), fetch]);
    client.step(SessionInput::Configuration(configuration(2)));
    let again = client.last();
    client.refuse(&again, Refusal::StaleEpoch { epoch: Epoch(3) });
    assert_eq!(client.asks.len(), 2, "it was asked for");
}

#[test]
fn a_core_that_is_behind_is_asked_again_later() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    for _ in 0..5 {
        let attempt = client.last();
        let sent = client.sent.len();
        client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(0) });
        assert_eq!(client.sent.len(), sent, "not at once");
        client.wait_for_attempt();
        assert_eq!(client.sent.len(), sent + 1);
    }
    let asked = client.asks.len();
    assert_eq!(
        asked, 1,
        "another core may have the partition, but not every time"
    );
}

#[test]
fn an_opening_that_meets_a_newer_epoch_elsewhere_asks_for_it() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, SessionOperation::OpenSnapshot([TABLE].into()));
    // The opener itself may be the one that is behind.
    let changed = Refusal::Snapshot(SnapshotFailure::ClusterChanged);
    let attempt = client.last();
    client.asks.clear();
    client.refuse(&attempt, changed);
    assert!(matches!(
        client.asks[..],
        [CoordinatorRequest::Fetch { .. }]
    ));
}

#[test]
fn a_refusal_beside_a_silent_attempt_reports_a_newer_epoch_too() {
    let mut client = Client::new(SessionLimits::default());
    insert_at_the_first(&mut client, 1);
    client.wait_for_attempt();
    client.asks.clear();
    let again = client.last();
    client.refuse(&again, Refusal::StaleEpoch { epoch: Epoch(2) });
    wait_for_inquiry(&mut client);
    client.step(without_the_first(2));
    assert_eq!(client.last().core, core(2));
}

#[test]
fn an_endless_stale_epoch_asks_no_more_than_so_often() {
    let limits = SessionLimits::default();
    let mut client = Client::new(limits);
    client.submit(1, insert(1));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(7) });
    while client.ended.is_empty() {
        client.wait();
        client.step(SessionInput::Unchanged { epoch: Epoch(1) });
    }
    assert!(
        client.asks.len() < 30,
        "{} questions in 10 s",
        client.asks.len()
    );
    assert_eq!(client.sent.len(), 1, "nor is it sent again for nothing");
}

#[test]
fn numbers_rise_and_acknowledgements_follow_the_lowest_open_one() {
    let mut client = Client::new(SessionLimits::default());
    for number in 0..4 {
        client.submit(number, insert(number as i64));
    }
    let sent = core::mem::take(&mut client.sent);
    let numbers: Vec<u64> = sent.iter().map(|it| execute(it).request.number).collect();
    assert_eq!(numbers.iter().max(), Some(&4));
    let by_number = |number: u64| {
        let found = sent.iter().find(|it| execute(it).request.number == number);
        found.expect("it was sent").clone()
    };
    for number in [2, 3] {
        client.reply(&by_number(number), Reply::Executed(DONE));
    }
    client.submit(10, insert(10));
    assert_eq!(execute(&client.last()).acknowledged_below, 1);
    client.reply(&by_number(1), Reply::Executed(DONE));
    client.submit(11, insert(11));
    assert_eq!(execute(&client.last()).acknowledged_below, 4);
    assert_eq!(execute(&client.last()).request.number, 6);
}

#[test]
fn an_ended_session_costs_a_new_name_where_nothing_happened() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::SessionEnded);
    client.wait();
    assert_eq!(client.asks, [CoordinatorRequest::OpenSession]);
    client.step(SessionInput::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    let again = execute(&client.last()).request;
    assert_eq!((again.session, again.number), (SessionId(6), 1));
    let attempt = client.last();
    client.reply(&attempt, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
}

#[test]
fn a_session_of_age_is_replaced_without_a_pause() {
    let mut client = Client::new(SessionLimits::default());
    client.step(SessionInput::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    client.submit(1, insert(1));
    assert!(client.asks.is_empty());
    client.now_us += 2 * SECOND;
    client.submit(2, insert(2));
    assert_eq!(client.asks, [CoordinatorRequest::OpenSession]);
    assert_eq!(execute(&client.last()).request.session, SessionId(6));
    client.step(SessionInput::Session {
        session: SessionId(7),
        life_us: SECOND,
    });
    client.submit(3, insert(3));
    assert_eq!(execute(&client.last()).request.session, SessionId(7));
    // A late answer does not bring back an older session.
    client.step(SessionInput::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    client.submit(4, insert(4));
    assert_eq!(execute(&client.last()).request.session, SessionId(7));
}

#[test]
fn the_window_lets_so_many_through_and_the_rest_follows() {
    let limits = SessionLimits {
        in_flight_max: 2,
        requests_max: 5,
        ..SessionLimits::default()
    };
    let mut client = Client::new(limits);
    // Partitions 1 and 3 lie on server 2.
    for number in 0..6 {
        client.submit(number, read(1 + 2 * (number as u32 % 2)));
    }
    assert_eq!(client.sent.len(), 2, "the window");
    assert_eq!(
        *client.outcome(),
        SessionOutcome::Failed(SessionFailure::Full)
    );
    client.ended.clear();
    for done in 0..5 {
        let attempt = client.sent[done].clone();
        client.reply(&attempt, Reply::Rows(Default::default()));
        assert_eq!(client.sent.len(), (done + 3).min(5));
    }
    assert_eq!(client.ended.len(), 5);
}

#[test]
fn an_unavailable_core_does_not_hold_up_the_others() {
    let limits = SessionLimits {
        in_flight_max: 2,
        ..SessionLimits::default()
    };
    let mut client = Client::new(limits);
    client.reachable = false;
    for number in 0..10 {
        client.submit(number, read(0));
    }
    client.reachable = true;
    client.submit(10, read(1));
    assert_eq!(client.last().core, core(2));
}

#[test]
fn an_old_open_number_stops_new_ones_at_the_span() {
    let limits = SessionLimits {
        span_max: 4,
        ..SessionLimits::default()
    };
    let mut client = Client::new(limits);
    client.submit(0, insert(0));
    let oldest = client.last();
    for number in 1..10 {
        client.submit(number, insert(number as i64));
        if client.sent.len() as u64 == number + 1 {
            let attempt = client.last();
            client.reply(&attempt, Reply::Executed(DONE));
        }
    }
    assert_eq!(client.sent.len(), 4);
    client.reply(&oldest, Reply::Executed(DONE));
    assert!(client.sent.len() > 4, "and lets them on");
}

#[test]
fn requests_without_a_waiter_are_forgotten() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, insert(1));
    client.step(SessionInput::Cancel { ticket: Ticket(1) });
    assert_eq!(client.machine.open_requests(), 0);
    assert_eq!(client.machine.open_attempts(), 0);
    client.submit(2, insert(2));
    assert_eq!(execute(&client.last()).acknowledged_below, 2);
    client.exhaust();
    assert_eq!(client.ended.len(), 1);
}

#[test]
fn a_dropped_table_and_a_wrong_place_are_named() {
    let mut client = Client::new(SessionLimits::default());
    let mut without = (*configuration(2)).clone();
    let table = without.tables[0].id;
    without.tables.remove(table);
    client.step(SessionInput::Configuration(Arc::new(without)));
    client.submit(1, insert(1));
    assert_eq!(
        *client.outcome(),
        SessionOutcome::Failed(SessionFailure::TableGone { table })
    );
    client.ended.clear();
    client.submit(2, SessionOperation::Status(CoreId::default()));
    let gone = SessionFailure::PlaceGone { partition: None };
    assert_eq!(*client.outcome(), SessionOutcome::Failed(gone));
}

#[test]
fn a_read_ends_when_another_copy_gets_the_number_of_its_own() {
    let mut client = Client::new(SessionLimits::default());
    client.reachable = false;
    client.submit(1, read(1));
    client.step(SessionInput::Configuration(configuration(2)));
    assert!(client.ended.is_empty(), "its copy is the same");
    let mut changed = (*configuration(3)).clone();
    let partition = Some(partition(0, 1));
    changed.tables[0].layout.replexes[0].sort_columns = placement::ascending(&[1]);
    client.step(SessionInput::Configuration(Arc::new(changed)));
    let gone = SessionOutcome::Failed(SessionFailure::PlaceGone { partition });
    assert_eq!(*client.outcome(), gone);
    for (epoch, is_known) in [(2, false), (3, true)] {
        client.ended.clear();
        let SessionOperation::Read(mut next) = read(1) else {
            panic!("it reads");
        };
        next.epoch = Epoch(epoch);
        client.submit(epoch, SessionOperation::Read(next));
        let ended = client.ended.first().map(|completion| &completion.outcome);
        assert_eq!(
            ended,
            (!is_known).then_some(&gone),
            "chosen in epoch {epoch}"
        );
    }
}

#[test]
fn counters_come_from_the_core_that_was_named() {
    let mut client = Client::new(SessionLimits::default());
    client.submit(1, SessionOperation::Status(core(2)));
    let attempt = client.last();
    assert_eq!(
        (attempt.core, &attempt.request),
        (core(2), &Request::Status)
    );
    client.reply(&attempt, Reply::Status(Vec::new()));
    assert_eq!(*client.outcome(), SessionOutcome::Status(Vec::new()));
}
