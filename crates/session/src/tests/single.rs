//! Tests one behaviour each: which message the machine sends and when, and how the request ends.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::identity::{ClockReading, CoreId, Epoch, ServerId, SessionId, Version};
use protocol::message::{CoordinatorRequest, Execute, Refusal, Reply, Request, SnapshotFailure};
use protocol::operation::RequestResult;

use super::{TABLE, configuration, core, insert, partition, read};
use crate::{
    Attempt, Completion, LinkState, SessionFailure, SessionInput, SessionLimits, SessionMachine,
    SessionOperation, SessionOutcome, SessionOutput, Ticket,
};

const SECOND: u64 = 1_000_000;
const DONE: RequestResult = RequestResult::Applied {
    version: Version(9),
};

/// A machine with its clock, and connections that open at once.
struct Client {
    machine: SessionMachine,
    now_us: u64,
    sent: Vec<Attempt>,
    asks: Vec<CoordinatorRequest>,
    ended: Vec<Completion>,
    deadline_us: Option<u64>,
    reachable: bool,
}

impl Client {
    /// Returns a client that knows configuration 1, and has session 5 for a long time.
    fn new(limits: SessionLimits) -> Client {
        let mut client = Client {
            machine: SessionMachine::new(limits, 1, Some(configuration(1))),
            now_us: SECOND,
            sent: Vec::new(),
            asks: Vec::new(),
            ended: Vec::new(),
            deadline_us: None,
            reachable: true,
        };
        client.step(SessionInput::Session {
            session: SessionId(5),
            life_us: 1_000 * SECOND,
        });
        client
    }

    fn step(&mut self, input: SessionInput) {
        let mut inputs = Vec::from([input]);
        while let Some(input) = inputs.pop() {
            let mut output = SessionOutput::default();
            let now = ClockReading {
                monotonic_us: self.now_us,
                wall_us: 0,
            };
            self.machine.step(now, input, &mut output);
            self.sent.extend(output.sends);
            self.asks.extend(output.asks);
            self.ended.extend(output.completions);
            self.deadline_us = output.deadline_us;
            inputs.extend(output.connects.into_iter().map(|core| {
                if self.reachable {
                    let epoch = Epoch(1);
                    SessionInput::Connected { core, epoch }
                } else {
                    SessionInput::Disconnected { core }
                }
            }));
        }
    }

    fn submit(&mut self, number: u64, operation: SessionOperation) {
        let deadline_us = self.now_us + 10 * SECOND;
        self.step(SessionInput::Submit {
            ticket: Ticket(number),
            operation,
            deadline_us,
        });
    }

    fn reply(&mut self, attempt: &Attempt, reply: Reply) {
        self.step(SessionInput::Reply {
            core: attempt.core,
            correlation: attempt.correlation,
            reply,
        });
    }

    fn refuse(&mut self, attempt: &Attempt, refusal: Refusal) {
        self.reply(attempt, Reply::Refused(refusal));
    }

    /// Lets time pass until an attempt is sent, a request ends, or the coordinator is asked.
    fn wait(&mut self) {
        let before = (self.sent.len(), self.ended.len(), self.asks.len());
        while before == (self.sent.len(), self.ended.len(), self.asks.len()) {
            self.now_us = self.now_us.max(self.deadline_us.expect("something is due"));
            self.step(SessionInput::Tick);
        }
    }

    /// Lets time pass until an attempt is sent or a request ends.
    fn wait_for_attempt(&mut self) {
        let before = (self.sent.len(), self.ended.len());
        while before == (self.sent.len(), self.ended.len()) {
            self.wait();
        }
    }

    /// Lets time pass until no deadline is left.
    fn exhaust(&mut self) {
        while let Some(at_us) = self.deadline_us {
            self.now_us = self.now_us.max(at_us);
            self.step(SessionInput::Tick);
        }
    }

    fn last(&self) -> Attempt {
        self.sent.last().expect("something was sent").clone()
    }

    fn outcome(&self) -> &SessionOutcome {
        assert_eq!(self.ended.len(), 1, "one end: {:?}", self.ended);
        &self.ended[0].outcome
    }
}

fn execute(attempt: &Attempt) -> &Execute {
    match &attempt.request {
        Request::Execute(execute) => execute,
        other => panic!("{other:?}"),
    }
}

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
    changed.tables[0].layout.replexes[0].sort_columns = alloc::vec![1];
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

/// Returns `configuration` with all partitions of the first server on the second one.
fn without_the_first(epoch: u64) -> SessionInput {
    let mut configuration = (*configuration(epoch)).clone();
    for place in configuration.tables[0].placement.iter_mut().flatten() {
        place.core = core(2);
    }
    SessionInput::Configuration(Arc::new(configuration))
}

/// Submits a write to the first server, and returns its attempt.
fn insert_at_the_first(client: &mut Client, number: u64) -> Attempt {
    let sent = client.sent.len();
    for id in 0.. {
        client.submit(number, insert(id));
        let attempt = client.last();
        assert_eq!(client.sent.len(), sent + 1, "it is sent at once");
        if attempt.core == core(1) {
            return attempt;
        }
        client.step(SessionInput::Cancel {
            ticket: Ticket(number),
        });
        client.sent.pop();
    }
    unreachable!("some row belongs to the first server")
}

/// Lets time pass until the coordinator is asked for a configuration.
fn wait_for_inquiry(client: &mut Client) {
    let is_fetch = |ask: &CoordinatorRequest| matches!(ask, CoordinatorRequest::Fetch { .. });
    client.asks.clear();
    while !client.asks.iter().any(is_fetch) {
        client.wait();
    }
}

#[test]
fn a_write_without_an_answer_asks_for_a_newer_epoch_and_goes_to_the_new_head() {
    let mut client = Client::new(SessionLimits::default());
    let first = insert_at_the_first(&mut client, 1);
    let begun_us = client.now_us;
    wait_for_inquiry(&mut client);
    assert_eq!(client.now_us - begun_us, SessionLimits::default().silent_us);
    // The server is not replaced yet: the client asks again, as long as it receives nothing.
    client.step(SessionInput::Unchanged { epoch: Epoch(1) });
    wait_for_inquiry(&mut client);
    client.step(without_the_first(2));
    let second = client.last();
    assert_eq!(second.core, core(2));
    assert_eq!(execute(&second).request, execute(&first).request);
    assert_eq!(execute(&second).mutations, execute(&first).mutations);
    assert_eq!(execute(&second).epoch, Epoch(2));
    client.reply(&second, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
    client.reply(&first, Reply::Executed(DONE));
    assert_eq!(client.ended.len(), 1, "one request has one result");
}

#[test]
fn an_announced_epoch_is_fetched_at_once_and_an_old_one_is_not() {
    let mut client = Client::new(SessionLimits::default());
    insert_at_the_first(&mut client, 1);
    wait_for_inquiry(&mut client);
    client.step(SessionInput::Unchanged { epoch: Epoch(1) });
    client.asks.clear();
    client.step(SessionInput::NewEpoch { epoch: Epoch(1) });
    assert!(client.asks.is_empty());
    client.step(SessionInput::NewEpoch { epoch: Epoch(2) });
    client.step(SessionInput::NewEpoch { epoch: Epoch(2) });
    let known = Epoch(1);
    assert_eq!(client.asks, [CoordinatorRequest::Fetch { known }]);
    client.step(without_the_first(2));
    assert_eq!(client.last().core, core(2));
}

/// A lost server is replaced in several epochs. A client that has learned of the first one would
/// hear of the next only when it tries to connect again.
#[test]
fn a_client_that_waits_for_a_lost_server_asks_again_after_each_epoch() {
    let mut client = Client::new(SessionLimits::default());
    let attempt = insert_at_the_first(&mut client, 1);
    client.step(SessionInput::Disconnected { core: attempt.core });
    client.step(SessionInput::Unchanged { epoch: Epoch(1) });
    client.asks.clear();
    for (epoch, known) in [(2, Epoch(2)), (3, Epoch(3))] {
        client.step(SessionInput::Configuration(configuration(epoch)));
        assert_eq!(client.asks, [CoordinatorRequest::Fetch { known }]);
        client.step(SessionInput::Unchanged { epoch: known });
        client.asks.clear();
    }
    client.step(without_the_first(4));
    assert_eq!(client.asks, []);
}

#[test]
fn a_client_that_is_served_asks_for_no_further_epoch() {
    let mut client = Client::new(SessionLimits::default());
    let attempt = insert_at_the_first(&mut client, 1);
    client.asks.clear();
    client.step(SessionInput::Configuration(configuration(2)));
    assert_eq!(client.asks, []);
    client.reply(&attempt, Reply::Executed(DONE));
    assert_eq!(client.asks, []);
}

#[test]
fn a_write_that_is_answered_elsewhere_without_effect_is_still_uncertain() {
    let mut client = Client::new(SessionLimits::default());
    let first = insert_at_the_first(&mut client, 1);
    wait_for_inquiry(&mut client);
    client.step(without_the_first(2));
    let second = client.last();
    let nothing = || Reply::Executed(RequestResult::NotFound);
    // The old head may report that, and the new one may run it yet.
    client.reply(&first, nothing());
    assert!(client.ended.is_empty());
    client.reply(&second, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), SessionOutcome::Executed(DONE));
}

#[test]
fn writes_queued_behind_a_connection_that_does_not_open_ask_too() {
    let mut client = Client::new(SessionLimits::default());
    client.machine.links.entry(core(1)).or_default().state = LinkState::Opening;
    for id in 0..20 {
        client.submit(id, insert(id as i64));
    }
    assert!(client.sent.iter().all(|attempt| attempt.core == core(2)));
    let answered = client.sent.clone();
    for attempt in &answered {
        client.reply(attempt, Reply::Executed(DONE));
    }
    assert!(client.ended.len() < 20, "some wait for the first server");
    wait_for_inquiry(&mut client);
    client.step(without_the_first(2));
    for attempt in client.sent.split_off(answered.len()) {
        assert_eq!(attempt.core, core(2));
        client.reply(&attempt, Reply::Executed(DONE));
    }
    assert_eq!(client.ended.len(), 20);
}

#[test]
fn a_core_that_answers_others_is_not_silent() {
    let mut client = Client::new(SessionLimits::default());
    insert_at_the_first(&mut client, 1);
    client.asks.clear();
    let until_us = client.now_us + SessionLimits::default().attempt_us - 1;
    for number in 2.. {
        client.now_us += SessionLimits::default().silent_us / 2;
        if client.now_us >= until_us {
            break;
        }
        client.step(SessionInput::Tick);
        let other = insert_at_the_first(&mut client, number);
        client.reply(&other, Reply::Executed(DONE));
    }
    assert!(client.asks.is_empty(), "{:?}", client.asks);
}

#[test]
fn one_silent_core_is_asked_about_once_however_many_writes_wait() {
    let mut client = Client::new(SessionLimits::default());
    for number in 0..500 {
        client.now_us += 100;
        insert_at_the_first(&mut client, number);
    }
    client.asks.clear();
    let until_us = client.now_us + SessionLimits::default().attempt_us;
    while client.now_us < until_us {
        client.step(SessionInput::Unchanged { epoch: Epoch(1) });
        client.now_us = client.deadline_us.unwrap().max(client.now_us);
        client.step(SessionInput::Tick);
    }
    let asked = client.asks.len() as u64;
    let most = SessionLimits::default().attempt_us / SessionLimits::default().silent_us + 1;
    assert!((1..=most).contains(&asked), "{asked}");
}
