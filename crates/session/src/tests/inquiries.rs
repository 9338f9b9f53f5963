//! Tests when a client asks the coordinator about servers that are silent or lost.

use protocol::identity::Epoch;
use protocol::message::{CoordinatorRequest, Reply};
use protocol::operation::RequestResult;

use super::client::{
    Client, DONE, execute, insert_at_the_first, wait_for_inquiry, without_the_first,
};
use super::{configuration, core, insert};
use crate::{LinkState, SessionInput, SessionLimits, SessionOutcome};

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
