//! One behaviour per test: what is sent, and when, and how it ends.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{configuration, core, insert, partition, read};
use crate::identity::{CoreId, Epoch, Now, ServerId, SessionId, Version};
use crate::message::{CoordinatorRequest, Execute, Refusal, Reply, Request};
use crate::operation::RequestResult;
use crate::session::{
    Attempt, Completion, Failure, Input, Limits, Operation, Outcome, Output, SessionMachine, Ticket,
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
    /// Knows configuration 1 and has session 5 for a long time.
    fn new(limits: Limits) -> Client {
        let mut client = Client {
            machine: SessionMachine::new(limits, 1, Some(configuration(1))),
            now_us: SECOND,
            sent: Vec::new(),
            asks: Vec::new(),
            ended: Vec::new(),
            deadline_us: None,
            reachable: true,
        };
        client.step(Input::Session {
            session: SessionId(5),
            life_us: 1_000 * SECOND,
        });
        client
    }

    fn step(&mut self, input: Input) {
        let mut inputs = Vec::from([input]);
        while let Some(input) = inputs.pop() {
            let mut output = Output::default();
            let now = Now {
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
                    Input::Connected { core, epoch }
                } else {
                    Input::Disconnected { core }
                }
            }));
        }
    }

    fn submit(&mut self, number: u64, operation: Operation) {
        let deadline_us = self.now_us + 10 * SECOND;
        self.step(Input::Submit {
            ticket: Ticket(number),
            operation,
            deadline_us,
        });
    }

    fn reply(&mut self, attempt: &Attempt, reply: Reply) {
        self.step(Input::Reply {
            core: attempt.core,
            correlation: attempt.correlation,
            reply,
        });
    }

    fn refuse(&mut self, attempt: &Attempt, refusal: Refusal) {
        self.reply(attempt, Reply::Refused(refusal));
    }

    /// Lets time pass until something is sent, ended or asked.
    fn wait(&mut self) {
        let before = (self.sent.len(), self.ended.len(), self.asks.len());
        while before == (self.sent.len(), self.ended.len(), self.asks.len()) {
            self.now_us = self.now_us.max(self.deadline_us.expect("something is due"));
            self.step(Input::Tick);
        }
    }

    /// Lets all time pass.
    fn exhaust(&mut self) {
        while let Some(at_us) = self.deadline_us {
            self.now_us = self.now_us.max(at_us);
            self.step(Input::Tick);
        }
    }

    fn last(&self) -> Attempt {
        self.sent.last().expect("something was sent").clone()
    }

    fn outcome(&self) -> &Outcome {
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
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait();
    let second = client.last();
    assert_ne!(first.correlation, second.correlation);
    assert_eq!(first.request, second.request);
    client.reply(&second, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), Outcome::Executed(DONE));
    client.reply(&first, Reply::Executed(DONE));
    assert_eq!(client.ended.len(), 1, "a second copy is nothing new");
    assert_eq!(client.machine.open_attempts(), 0);
}

#[test]
fn a_late_reply_to_an_earlier_attempt_counts() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait();
    client.reply(&first, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), Outcome::Executed(DONE));
    assert_eq!(client.machine.open_attempts(), 0);
}

#[test]
fn a_broken_connection_repeats_what_was_on_it_in_order() {
    let mut client = Client::new(Limits::default());
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
    client.step(Input::Disconnected { core: broken });
    assert!(client.sent.is_empty(), "not before the connection is back");
    client.wait();
    let again: Vec<Request> = client.sent.iter().map(|it| it.request.clone()).collect();
    assert_eq!(before, again);
}

#[test]
fn sent_and_unanswered_is_unknown_but_never_sent_is_not() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    client.step(Input::Disconnected {
        core: client.last().core,
    });
    client.reachable = false;
    client.exhaust();
    assert!(matches!(
        client.outcome(),
        Outcome::Unknown(Failure::Deadline { .. })
    ));

    let mut client = Client::new(Limits::default());
    client.reachable = false;
    client.submit(1, insert(1));
    client.exhaust();
    assert!(client.sent.is_empty());
    assert!(matches!(
        client.outcome(),
        Outcome::Failed(Failure::Deadline { .. })
    ));
}

#[test]
fn nothing_changed_says_only_the_head_that_was_asked_last() {
    let nothing = RequestResult::NotFound;
    for (first_result, is_told) in [(nothing.clone(), false), (DONE, true)] {
        let mut client = Client::new(Limits::default());
        client.submit(1, insert(1));
        let first = client.last();
        let mut moved = (*configuration(2)).clone();
        for place in moved.tables[0].placement[0].iter_mut() {
            place.core = core(3 - first.core.server.0);
        }
        client.step(Input::Configuration(Arc::new(moved)));
        client.wait();
        let second = client.last();
        assert_ne!(first.core, second.core, "the partition has moved");
        client.reply(&first, Reply::Executed(first_result));
        assert_eq!(client.ended.len(), usize::from(is_told));
        client.reply(&second, Reply::Executed(DONE));
        assert_eq!(*client.outcome(), Outcome::Executed(DONE));
    }
    // The same head knows how the first attempt ended.
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    let first = client.last();
    client.wait();
    assert_eq!(client.last().core, first.core);
    client.reply(&first, Reply::Executed(nothing.clone()));
    assert_eq!(*client.outcome(), Outcome::Executed(nothing));
}

#[test]
fn what_was_begun_where_the_partition_has_gone_from_may_have_happened() {
    let mut client = Client::new(Limits::default());
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
        Outcome::Unknown(Failure::Deadline { .. })
    ));
}

#[test]
fn refused_to_the_last_is_a_failure_that_says_why() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    while client.ended.is_empty() {
        let attempt = client.last();
        client.refuse(&attempt, Refusal::NotServing);
        client.wait();
    }
    let expected = Failure::Deadline {
        last: Some(Refusal::NotServing),
    };
    assert_eq!(*client.outcome(), Outcome::Failed(expected));
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
        let mut client = Client::new(Limits::default());
        client.submit(1, insert(1));
        client.step(Input::Disconnected {
            core: client.last().core,
        });
        client.sent.clear();
        client.wait();
        let attempt = client.last();
        client.refuse(&attempt, refusal);
        assert!(matches!(client.outcome(), Outcome::Unknown(_)));
    }
    // A full disk may be about the retry only: it goes on.
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    client.wait();
    let server = ServerId(1);
    let attempt = client.last();
    client.refuse(&attempt, Refusal::DiskFull { server });
    assert!(client.ended.is_empty());
}

#[test]
fn a_full_disk_ends_a_request_that_nothing_else_became_of() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    let server = ServerId(2);
    let attempt = client.last();
    client.refuse(&attempt, Refusal::DiskFull { server });
    let expected = Outcome::Failed(Failure::DiskFull { server });
    assert_eq!(*client.outcome(), expected);
}

#[test]
fn a_newer_epoch_is_fetched_and_the_request_sent_with_it() {
    let mut client = Client::new(Limits::default());
    client.submit(1, read(0));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(3) });
    assert_eq!(client.asks, [CoordinatorRequest::Fetch { known: Epoch(1) }]);
    let sent = client.sent.len();
    client.step(Input::Configuration(configuration(2)));
    client.step(Input::Configuration(configuration(2)));
    assert_eq!(client.sent.len(), sent + 1, "each epoch is tried once");
    client.step(Input::Configuration(configuration(3)));
    let attempt = client.last();
    match &attempt.request {
        Request::Read(read) => assert!(read.epoch > Epoch(1)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_core_that_is_behind_is_asked_again_later() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    for _ in 0..5 {
        let attempt = client.last();
        let sent = client.sent.len();
        client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(0) });
        assert_eq!(client.sent.len(), sent, "not at once");
        client.wait();
        assert_eq!(client.sent.len(), sent + 1);
    }
    assert!(client.asks.is_empty(), "it has nothing newer to fetch");
}

#[test]
fn an_endless_stale_epoch_asks_no_more_than_so_often() {
    let limits = Limits::default();
    let mut client = Client::new(limits);
    client.submit(1, insert(1));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::StaleEpoch { epoch: Epoch(7) });
    while client.ended.is_empty() {
        client.wait();
        client.step(Input::Unchanged { epoch: Epoch(1) });
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
    let mut client = Client::new(Limits::default());
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
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    let attempt = client.last();
    client.refuse(&attempt, Refusal::SessionEnded);
    client.wait();
    assert_eq!(client.asks, [CoordinatorRequest::OpenSession]);
    client.step(Input::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    let again = execute(&client.last()).request;
    assert_eq!((again.session, again.number), (SessionId(6), 1));
    let attempt = client.last();
    client.reply(&attempt, Reply::Executed(DONE));
    assert_eq!(*client.outcome(), Outcome::Executed(DONE));
}

#[test]
fn a_session_of_age_is_replaced_without_a_pause() {
    let mut client = Client::new(Limits::default());
    client.step(Input::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    client.submit(1, insert(1));
    assert!(client.asks.is_empty());
    client.now_us += 2 * SECOND;
    client.submit(2, insert(2));
    assert_eq!(client.asks, [CoordinatorRequest::OpenSession]);
    assert_eq!(execute(&client.last()).request.session, SessionId(6));
    client.step(Input::Session {
        session: SessionId(7),
        life_us: SECOND,
    });
    client.submit(3, insert(3));
    assert_eq!(execute(&client.last()).request.session, SessionId(7));
    // A late answer does not bring back an older session.
    client.step(Input::Session {
        session: SessionId(6),
        life_us: SECOND,
    });
    client.submit(4, insert(4));
    assert_eq!(execute(&client.last()).request.session, SessionId(7));
}

#[test]
fn the_window_lets_so_many_through_and_the_rest_follows() {
    let limits = Limits {
        in_flight_max: 2,
        requests_max: 5,
        ..Limits::default()
    };
    let mut client = Client::new(limits);
    // Partitions 1 and 3 lie on server 2.
    for number in 0..6 {
        client.submit(number, read(1 + 2 * (number as u32 % 2)));
    }
    assert_eq!(client.sent.len(), 2, "the window");
    assert_eq!(*client.outcome(), Outcome::Failed(Failure::Full));
    client.ended.clear();
    for done in 0..5 {
        let attempt = client.sent[done].clone();
        client.reply(&attempt, Reply::Rows(Default::default()));
        assert_eq!(client.sent.len(), (done + 3).min(5));
    }
    assert_eq!(client.ended.len(), 5);
}

#[test]
fn a_core_that_is_away_does_not_hold_up_the_others() {
    let limits = Limits {
        in_flight_max: 2,
        ..Limits::default()
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
    let limits = Limits {
        span_max: 4,
        ..Limits::default()
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
fn what_nobody_waits_for_is_forgotten() {
    let mut client = Client::new(Limits::default());
    client.submit(1, insert(1));
    client.step(Input::Cancel { ticket: Ticket(1) });
    assert_eq!(client.machine.open_requests(), 0);
    assert_eq!(client.machine.open_attempts(), 0);
    client.submit(2, insert(2));
    assert_eq!(execute(&client.last()).acknowledged_below, 2);
    client.exhaust();
    assert_eq!(client.ended.len(), 1);
}

#[test]
fn a_dropped_table_and_a_wrong_place_are_named() {
    let mut client = Client::new(Limits::default());
    let mut without = (*configuration(2)).clone();
    let table = without.tables.remove(0).id;
    client.step(Input::Configuration(Arc::new(without)));
    client.submit(1, insert(1));
    assert_eq!(
        *client.outcome(),
        Outcome::Failed(Failure::TableGone { table })
    );
    client.ended.clear();
    client.submit(2, Operation::Status(CoreId::default()));
    let gone = Failure::PlaceGone { partition: None };
    assert_eq!(*client.outcome(), Outcome::Failed(gone));
}

#[test]
fn a_read_ends_when_another_copy_gets_the_number_of_its_own() {
    let mut client = Client::new(Limits::default());
    client.reachable = false;
    client.submit(1, read(1));
    client.step(Input::Configuration(configuration(2)));
    assert!(client.ended.is_empty(), "its copy is the same");
    let mut changed = (*configuration(3)).clone();
    let partition = Some(partition(0, 1));
    changed.tables[0].layout.replexes[0].sort_columns = alloc::vec![1];
    client.step(Input::Configuration(Arc::new(changed)));
    let gone = Outcome::Failed(Failure::PlaceGone { partition });
    assert_eq!(*client.outcome(), gone);
    for (epoch, is_known) in [(2, false), (3, true)] {
        client.ended.clear();
        let Operation::Read(mut next) = read(1) else {
            panic!("it reads");
        };
        next.epoch = Epoch(epoch);
        client.submit(epoch, Operation::Read(next));
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
    let mut client = Client::new(Limits::default());
    client.submit(1, Operation::Status(core(2)));
    let attempt = client.last();
    assert_eq!(
        (attempt.core, &attempt.request),
        (core(2), &Request::Status)
    );
    client.reply(&attempt, Reply::Status(Vec::new()));
    assert_eq!(*client.outcome(), Outcome::Status(Vec::new()));
}
