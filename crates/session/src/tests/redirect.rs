//! Reads of a lost partition go to a cover, and end as if the partition itself had answered.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::configuration::{Configuration, Place, ServerState};
use protocol::identity::{ClockReading, Epoch, ServerId, SessionId, Version};
use protocol::message::{Read, Refusal, Reply, Request, RowPage};

use super::{configuration, core, insert, key, partition, read, row};
use crate::{
    Attempt, SessionFailure, SessionInput, SessionLimits, SessionMachine, SessionOperation,
    SessionOutcome, SessionOutput, Ticket,
};

const SECOND: u64 = 1_000_000;
const QUIET: Option<u64> = Some(SECOND);
const TICKET: Ticket = Ticket(1);

/// Returns the primary replex on server 1, the other on server 2; both are up, or some are down.
pub(crate) fn apart(epoch: u64, down: &[u32]) -> Arc<Configuration> {
    let mut apart = (*configuration(epoch)).clone();
    for (places, server) in apart.tables[0].placement.iter_mut().zip(1..) {
        places.fill(Place::serving(core(server), Epoch(0)));
    }
    for server in &mut apart.servers {
        if down.contains(&server.id.0) {
            server.state = ServerState::Down;
        }
    }
    Arc::new(apart)
}

/// A client of whose request parts are sent, and not itself.
pub(super) struct Client {
    pub machine: SessionMachine,
    pub now_us: u64,
    pub sent: Vec<Attempt>,
    pub outcome: Option<SessionOutcome>,
    pub deadline_us: Option<u64>,
}

impl Client {
    pub fn new(configuration: Arc<Configuration>) -> Client {
        Client {
            machine: SessionMachine::new(SessionLimits::default(), 1, Some(configuration)),
            now_us: SECOND,
            sent: Vec::new(),
            outcome: None,
            deadline_us: None,
        }
    }

    /// Connections open at once.
    pub fn step(&mut self, input: SessionInput) {
        let mut inputs = Vec::from([input]);
        while let Some(input) = inputs.pop() {
            let mut output = SessionOutput::default();
            let now = ClockReading {
                monotonic_us: self.now_us,
                wall_us: 0,
            };
            self.machine.step(now, input, &mut output);
            self.sent.extend(output.sends);
            self.deadline_us = output.deadline_us;
            for completion in output.completions {
                assert_eq!(
                    completion.ticket, TICKET,
                    "the ends of parts are not reported"
                );
                assert_eq!(self.outcome.replace(completion.outcome), None);
            }
            inputs.extend(
                output
                    .connects
                    .into_iter()
                    .map(|core| SessionInput::Connected {
                        core,
                        epoch: Epoch(1),
                    }),
            );
        }
    }

    fn read(&mut self, change: impl Fn(&mut Read)) {
        let SessionOperation::Read(mut wanted) = read(0) else {
            panic!("it is a read");
        };
        change(&mut wanted);
        self.submit(SessionOperation::Read(wanted));
    }

    pub fn submit(&mut self, operation: SessionOperation) {
        self.step(SessionInput::Submit {
            ticket: TICKET,
            operation,
            deadline_us: self.now_us + 60 * SECOND,
        });
    }

    fn answer(&mut self, attempt: &Attempt, page: RowPage) {
        self.reply(attempt, Reply::Rows(page));
    }

    pub fn reply(&mut self, attempt: &Attempt, reply: Reply) {
        self.step(SessionInput::Reply {
            core: attempt.core,
            correlation: attempt.correlation,
            reply,
        });
    }

    /// Answers everything sent, with these rows from the members in turn, then with none.
    fn answer_all(&mut self, quiet_us: Option<u64>, pages: &[&[(i64, u64)]]) {
        let sent = core::mem::take(&mut self.sent);
        for (number, attempt) in sent.iter().enumerate() {
            let rows = pages.get(number).copied().unwrap_or_default();
            self.answer(attempt, page(quiet_us, rows));
        }
    }

    pub fn pass(&mut self) {
        self.now_us = self.now_us.max(self.deadline_us.expect("something is due"));
        self.step(SessionInput::Tick);
    }

    fn page(&self) -> &RowPage {
        match &self.outcome {
            Some(SessionOutcome::Rows(page)) => page,
            other => panic!("no rows: {other:?}"),
        }
    }

    /// Returns the versions of the rows that came.
    fn versions(&self) -> Vec<u64> {
        self.page().rows().map(|(version, _)| version.0).collect()
    }
}

/// Returns rows by id and version.
fn page(quiet_us: Option<u64>, rows: &[(i64, u64)]) -> RowPage {
    let mut page = RowPage {
        quiet_us,
        ..RowPage::default()
    };
    for (id, version) in rows {
        page.push(Version(*version), &row(*id, 0));
    }
    page
}

#[test]
fn every_member_is_asked_once_and_rows_come_in_the_lost_order() {
    let mut client = Client::new(apart(1, &[1]));
    client.read(|_| {});
    let asked: Vec<u32> = client.sent.iter().map(number).collect();
    assert_eq!(asked, [0, 1, 2, 3]);
    client.answer_all(QUIET, &[&[(3, 30), (2, 21)], &[(1, 10), (2, 20)]]);
    assert_eq!(client.versions(), [10, 21, 30], "one row moved meanwhile");
    assert_eq!(client.page().next, None);
}

#[test]
fn limit_and_direction_are_kept() {
    let rows: &[&[(i64, u64)]] = &[&[(3, 30), (2, 20)], &[(1, 10), (4, 40)]];
    let mut client = Client::new(apart(1, &[1]));
    client.read(|read| read.limit = 2);
    client.answer_all(QUIET, rows);
    assert_eq!(client.versions(), [10, 20]);
    assert_eq!(client.page().next.as_deref(), Some(&key(3)[..]));

    let mut client = Client::new(apart(1, &[1]));
    client.read(|read| {
        read.limit = 2;
        read.descending = true;
    });
    client.answer_all(QUIET, rows);
    assert_eq!(client.versions(), [40, 30]);
    assert_eq!(client.page().next.as_deref(), Some(&key(3)[..]));

    let mut client = Client::new(apart(1, &[1]));
    client.read(|read| read.count_only = true);
    let wanted = client.sent.first().map(|attempt| match &attempt.request {
        Request::Read(read) => read.projection.clone(),
        other => panic!("{other:?} is no read"),
    });
    assert_eq!(wanted, Some(Some(Vec::from([0]))), "keys are enough");
}

#[test]
fn a_member_that_goes_through_its_rows_is_asked_for_all_of_them() {
    let mut client = Client::new(apart(1, &[1]));
    client.read(|_| {});
    let first = client.sent.remove(0);
    let mut cut = page(QUIET, &[(2, 20)]);
    cut.next = Some(key(77).into());
    cut.own_order = true;
    client.answer(&first, cut);
    let next = client.sent.pop().expect("there is more");
    assert_eq!(number(&next), 0);
    let Request::Read(read) = &next.request else {
        panic!("it reads on");
    };
    let redirect = read.redirect.as_ref().expect("as it was asked before");
    assert_eq!(redirect.scan_from.as_deref(), Some(&key(77)[..]));
    let last = RowPage {
        own_order: true,
        ..page(QUIET, &[(1, 10)])
    };
    client.answer(&next, last);
    client.answer_all(QUIET, &[]);
    assert_eq!(client.versions(), [10, 20]);
}

#[test]
fn members_that_changed_since_they_were_asked_are_asked_again() {
    let mut client = Client::new(apart(1, &[1]));
    client.read(|_| {});
    client.now_us += 1_000;
    client.answer_all(Some(999), &[&[(1, 10)]]);
    assert_eq!(client.outcome, None, "a change may have been missed");
    assert_eq!(client.sent.len(), 4, "all are asked again");
    client.now_us += 1_000;
    client.answer_all(Some(2_000), &[&[(1, 11)]]);
    assert_eq!(client.versions(), [11]);
}

#[test]
fn a_silent_core_is_gone_around_and_may_still_answer() {
    let mut client = Client::new(apart(1, &[]));
    client.read(|_| {});
    let direct = client.sent.pop().expect("it goes to the partition");
    assert_eq!(direct.core, core(1));
    while client.sent.is_empty() {
        client.pass();
    }
    assert_eq!(client.now_us, SECOND + SessionLimits::default().silent_us);
    assert_eq!(client.sent.len(), 4);
    assert!(client.sent.iter().all(|attempt| attempt.core == core(2)));
    client.answer(&direct, page(None, &[(1, 10)]));
    assert_eq!(client.versions(), [10]);
    assert_eq!(client.machine.open_requests(), 0, "members are forgotten");
    assert_eq!(client.machine.open_attempts(), 0);
}

#[test]
fn read_without_any_copy_fails_soon_and_names_the_lost_partition() {
    let mut client = Client::new(apart(1, &[1, 2]));
    client.read(|_| {});
    while client.outcome.is_none() {
        client.pass();
    }
    assert_eq!(client.now_us, SECOND + SessionLimits::default().lost_us);
    let Some(SessionOutcome::Failed(SessionFailure::Lost {
        partition: lost,
        message,
    })) = &client.outcome
    else {
        panic!("{:?}", client.outcome);
    };
    assert_eq!(*lost, partition(0, 0));
    assert!(message.contains("partition 0 of t"), "{message}");
    assert!(message.contains("(1, 2)"), "{message}");
}

#[test]
fn a_write_to_lost_partitions_fails_soon_with_a_reason() {
    let mut client = Client::new(apart(1, &[1, 2]));
    client.submit(insert(1));
    assert!(client.sent.is_empty(), "no core could take it");
    while client.outcome.is_none() {
        client.pass();
    }
    assert_eq!(client.now_us, SECOND + SessionLimits::default().lost_us);
    let Some(SessionOutcome::Failed(SessionFailure::Lost { message, .. })) = &client.outcome else {
        panic!("{:?}", client.outcome);
    };
    assert!(
        message.contains("on server 1") && message.contains("servers 1, 2"),
        "{message}"
    );
}

#[test]
fn a_write_that_was_begun_may_have_happened() {
    for begun in [false, true] {
        let mut client = Client::new(apart(1, &[]));
        client.step(SessionInput::Session {
            session: SessionId(5),
            life_us: 600 * SECOND,
        });
        client.submit(insert(1));
        let server = ServerId(2);
        while client.outcome.is_none() {
            match client.sent.pop() {
                Some(attempt) => {
                    let refusal = Refusal::Lost { server, begun };
                    client.reply(&attempt, Reply::Refused(refusal));
                }
                None => client.pass(),
            }
        }
        assert!(client.now_us >= SECOND + SessionLimits::default().lost_us);
        let outcome = client.outcome.take();
        assert!(
            match outcome {
                Some(SessionOutcome::Failed(SessionFailure::Lost { .. })) => !begun,
                Some(SessionOutcome::Unknown(SessionFailure::Lost { .. })) => begun,
                _ => false,
            },
            "{outcome:?}"
        );
    }
}

#[test]
fn a_server_that_is_back_is_asked() {
    let mut client = Client::new(apart(1, &[1, 2]));
    client.read(|_| {});
    assert!(client.sent.is_empty());
    client.step(SessionInput::Configuration(apart(2, &[])));
    let direct = client.sent.pop().expect("it goes to the partition");
    client.answer(&direct, page(None, &[(1, 10)]));
    assert_eq!(client.versions(), [10]);
}

fn number(attempt: &Attempt) -> u32 {
    match &attempt.request {
        Request::Read(read) => read.partition.number,
        other => panic!("{other:?} is no read"),
    }
}
