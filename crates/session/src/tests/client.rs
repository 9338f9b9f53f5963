//! A client for tests of one behaviour each: a session machine with its clock.

use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::identity::{ClockReading, Epoch, SessionId, Version};
use protocol::message::{CoordinatorRequest, Execute, Refusal, Reply, Request};
use protocol::operation::RequestResult;

use super::{configuration, core, insert};
use crate::{
    Attempt, Completion, SessionInput, SessionLimits, SessionMachine, SessionOperation,
    SessionOutcome, SessionOutput, Ticket,
};

pub const SECOND: u64 = 1_000_000;
pub const DONE: RequestResult = RequestResult::Applied {
    version: Version(9),
};

/// A machine with its clock, and connections that open at once.
pub struct Client {
    pub machine: SessionMachine,
    pub now_us: u64,
    pub sent: Vec<Attempt>,
    pub asks: Vec<CoordinatorRequest>,
    pub ended: Vec<Completion>,
    pub deadline_us: Option<u64>,
    pub reachable: bool,
}

impl Client {
    /// Returns a client that knows configuration 1, and has session 5 for a long time.
    pub fn new(limits: SessionLimits) -> Client {
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

    pub fn submit(&mut self, number: u64, operation: SessionOperation) {
        let deadline_us = self.now_us + 10 * SECOND;
        self.step(SessionInput::Submit {
            ticket: Ticket(number),
            operation,
            deadline_us,
        });
    }

    pub fn reply(&mut self, attempt: &Attempt, reply: Reply) {
        self.step(SessionInput::Reply {
            core: attempt.core,
            correlation: attempt.correlation,
            reply,
        });
    }

    pub fn refuse(&mut self, attempt: &Attempt, refusal: Refusal) {
        self.reply(attempt, Reply::Refused(refusal));
    }

    /// Lets time pass until an attempt is sent, a request ends, or the coordinator is asked.
    pub fn wait(&mut self) {
        let before = (self.sent.len(), self.ended.len(), self.asks.len());
        while before == (self.sent.len(), self.ended.len(), self.asks.len()) {
            self.now_us = self.now_us.max(self.deadline_us.expect("something is due"));
            self.step(SessionInput::Tick);
        }
    }

    /// Lets time pass until an attempt is sent or a request ends.
    pub fn wait_for_attempt(&mut self) {
        let before = (self.sent.len(), self.ended.len());
        while before == (self.sent.len(), self.ended.len()) {
            self.wait();
        }
    }

    /// Lets time pass until no deadline is left.
    pub fn exhaust(&mut self) {
        while let Some(at_us) = self.deadline_us {
            self.now_us = self.now_us.max(at_us);
            self.step(SessionInput::Tick);
        }
    }

    pub fn last(&self) -> Attempt {
        self.sent.last().expect("something was sent").clone()
    }

    pub fn outcome(&self) -> &SessionOutcome {
        assert_eq!(self.ended.len(), 1, "one end: {:?}", self.ended);
        &self.ended[0].outcome
    }
}

pub fn execute(attempt: &Attempt) -> &Execute {
    match &attempt.request {
        Request::Execute(execute) => execute,
        other => panic!("{other:?}"),
    }
}

/// Returns `configuration` with all partitions of the first server on the second one.
pub fn without_the_first(epoch: u64) -> SessionInput {
    let mut configuration = (*configuration(epoch)).clone();
    for place in configuration.tables[0].placement.iter_mut().flatten() {
        place.core = core(2);
    }
    SessionInput::Configuration(Arc::new(configuration))
}

/// Submits a write to the first server, and returns its attempt.
pub fn insert_at_the_first(client: &mut Client, number: u64) -> Attempt {
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
pub fn wait_for_inquiry(client: &mut Client) {
    let is_fetch = |ask: &CoordinatorRequest| matches!(ask, CoordinatorRequest::Fetch { .. });
    client.asks.clear();
    while !client.asks.iter().any(is_fetch) {
        client.wait();
    }
}
