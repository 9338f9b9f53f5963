//! The state that all handles and tasks of a client share: the session machine, the waiting
//! callers, and the connections. It carries out the machine's output and decides nothing itself.
//!
//! The lock is held during a step of the machine, never during a wait or a system call.

mod link;
mod writer;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, CoreId, Epoch};
use protocol::message::Message;
use session::{
    Attempt, Completion, SessionInput, SessionMachine, SessionOperation, SessionOutcome,
    SessionOutput, Ticket,
};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::coordinator_call::CoordinatorCall;
use crate::error::Error;
use crate::options::ConnectOptions;

use link::LinkTarget;
use writer::LinkWriter;

#[derive(Debug)]
pub(crate) struct Hub {
    /// For the tasks of connections.
    me: Weak<Hub>,
    options: ConnectOptions,
    runtime: Handle,
    started: Instant,
    state: Mutex<State>,
    asks: mpsc::UnboundedSender<CoordinatorCall>,
    /// Wakes the timer task when the machine's next deadline is earlier than the one that the task
    /// knows.
    earlier: Notify,
}

#[derive(Debug)]
struct State {
    machine: SessionMachine,
    output: SessionOutput,
    waiters: HashMap<Ticket, Waiter>,
    last_ticket: u64,
    links: HashMap<CoreId, Link>,
    /// When the timer task wakes up.
    timer_us: Option<u64>,
    /// The last fault of a connection, for the text of errors.
    trouble: Option<String>,
    closed: bool,
}

#[derive(Debug)]
struct Link {
    writer: Option<Arc<LinkWriter>>,
    task: AbortHandle,
}

/// The receiver of an operation's outcome.
#[derive(Debug)]
pub(crate) enum Waiter {
    One(oneshot::Sender<SessionOutcome>),
    /// The receiver of many operations, each identified by its number.
    Many(usize, mpsc::UnboundedSender<(usize, SessionOutcome)>),
}

impl Waiter {
    fn notify(self, outcome: SessionOutcome) {
        // A receiver that does not listen any more has gone.
        match self {
            Waiter::One(sender) => drop(sender.send(outcome)),
            Waiter::Many(number, sender) => drop(sender.send((number, outcome))),
        }
    }
}

impl Hub {
    pub fn new(
        options: ConnectOptions,
        asks: mpsc::UnboundedSender<CoordinatorCall>,
        machine: SessionMachine,
    ) -> Arc<Hub> {
        Arc::new_cyclic(|me| Hub {
            me: Weak::clone(me),
            options,
            runtime: Handle::current(),
            started: Instant::now(),
            state: Mutex::new(State {
                machine,
                output: SessionOutput::default(),
                waiters: HashMap::new(),
                last_ticket: 0,
                links: HashMap::new(),
                timer_us: None,
                trouble: None,
                closed: false,
            }),
            asks,
            earlier: Notify::new(),
        })
    }

    pub fn options(&self) -> &ConnectOptions {
        &self.options
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// Returns the time in microseconds since the client was created, which is the clock of the
    /// session machine.
    pub fn now_us(&self) -> u64 {
        let elapsed = self.started.elapsed().as_micros();
        u64::try_from(elapsed).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Returns the deadline after `patience` on the session machine's clock.
    pub fn deadline_us(&self, patience: Duration) -> u64 {
        let patience = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX);
        self.now_us().saturating_add(patience)
    }

    pub fn configuration(&self) -> Arc<Configuration> {
        let state = self.lock();
        let configuration = state.machine.configuration();
        Arc::clone(configuration.expect("a client is made with one"))
    }

    /// Returns the last error of a connection; none if no connection has failed.
    pub fn trouble(&self) -> Option<String> {
        self.lock().trouble.clone()
    }

    /// Queues a request to the coordinator.
    pub fn ask(&self, ask: CoordinatorCall) -> Result<(), Error> {
        self.asks.send(ask).map_err(|_| Error::Closed)
    }

    /// Submits an operation and waits for its outcome. Dropping the future cancels it.
    pub async fn run(
        self: &Arc<Self>,
        operation: SessionOperation,
        deadline_us: u64,
    ) -> Result<SessionOutcome, Error> {
        let (sender, receiver) = oneshot::channel();
        let mut submitted = self.submit(operation, deadline_us, Waiter::One(sender));
        let outcome = receiver.await.map_err(|_| Error::Closed);
        submitted.ended = true;
        outcome
    }

    /// Submits an operation. `waiter` receives its outcome, unless the returned guard is dropped
    /// first.
    pub fn submit(
        self: &Arc<Self>,
        operation: SessionOperation,
        deadline_us: u64,
        waiter: Waiter,
    ) -> SubmittedOperation {
        let mut state = self.lock();
        state.last_ticket += 1;
        let ticket = Ticket(state.last_ticket);
        if !state.closed {
            state.waiters.insert(ticket, waiter);
            let input = SessionInput::Submit {
                ticket,
                operation,
                deadline_us,
            };
            self.step_locked(state, [input]);
        }
        SubmittedOperation {
            hub: Arc::clone(self),
            ticket,
            ended: false,
        }
    }

    /// Cancels a submitted operation.
    pub fn cancel(&self, ticket: Ticket) {
        let mut state = self.lock();
        if state.waiters.remove(&ticket).is_some() {
            self.step_locked(state, [SessionInput::Cancel { ticket }]);
        }
    }

    /// Steps the session machine with one input.
    pub fn step(&self, input: SessionInput) {
        self.step_locked(self.lock(), [input]);
    }

    /// Steps the session machine with several inputs, and carries out their outputs together.
    pub fn step_all(&self, inputs: impl IntoIterator<Item = SessionInput>) {
        self.step_locked(self.lock(), inputs);
    }

    /// Handles a new connection to a core. From now on it carries all messages to the core.
    pub fn connected(&self, core: CoreId, epoch: Epoch, writer: Arc<LinkWriter>) {
        let mut state = self.lock();
        if let Some(link) = state.links.get_mut(&core) {
            link.writer = Some(writer);
        }
        self.step_locked(state, [SessionInput::Connected { core, epoch }]);
    }

    /// Handles a connection that broke or could not be opened.
    pub fn disconnected(&self, core: CoreId, reason: String) {
        let mut state = self.lock();
        state.links.remove(&core);
        state.trouble = Some(reason);
        self.step_locked(state, [SessionInput::Disconnected { core }]);
    }

    /// Steps the session machine at each of its deadlines.
    pub async fn keep_time(&self) {
        loop {
            let next_us = self.lock().timer_us;
            let sleep = async {
                match next_us {
                    None => std::future::pending().await,
                    Some(at_us) => {
                        let at = self.started + Duration::from_micros(at_us);
                        tokio::time::sleep_until(at.into()).await;
                    }
                }
            };
            tokio::select! {
                () = self.earlier.notified() => {}
                () = sleep => {
                    let mut state = self.lock();
                    state.timer_us = None;
                    self.step_locked(state, [SessionInput::Tick]);
                }
            }
        }
    }

    /// Closes all connections. Waiting callers receive [`Error::Closed`].
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for link in state.links.values() {
            link.task.abort();
        }
        state.links.clear();
        state.waiters.clear();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic within a step would have been a defect of the machine; others still want their
        // answers.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step_locked(
        &self,
        mut guard: MutexGuard<'_, State>,
        inputs: impl IntoIterator<Item = SessionInput>,
    ) {
        let state = &mut *guard;
        let now = ClockReading {
            monotonic_us: self.now_us(),
            wall_us: 0,
        };
        for input in inputs {
            state.machine.step(now, input, &mut state.output);
        }
        let mut output = std::mem::take(&mut state.output);
        for core in output.connects.drain(..) {
            self.open(state, core);
        }
        let alone = output.sends.len() == 1 && state.machine.open_attempts() == 1;
        let mut write_now = None;
        for attempt in output.sends.drain(..) {
            let Attempt {
                core,
                correlation,
                request,
            } = attempt;
            // A connection that is gone by now is reported as broken, and the attempt with it.
            let Some(link) = state.links.get(&core) else {
                continue;
            };
            let Some(writer) = &link.writer else {
                continue;
            };
            writer.push(correlation, &Message::Request(request));
            if alone {
                write_now = Some(Arc::clone(writer));
            } else {
                writer.flush_soon();
            }
        }
        for Completion { ticket, outcome } in output.completions.drain(..) {
            if let Some(waiter) = state.waiters.remove(&ticket) {
                waiter.notify(outcome);
            }
        }
        for request in output.asks.drain(..) {
            // Without a coordinator task the client is closed.
            let _ = self.asks.send(CoordinatorCall::of_machine(request));
        }
        if let Some(at_us) = output.deadline_us
            && state.timer_us.is_none_or(|timer_us| at_us < timer_us)
        {
            state.timer_us = Some(at_us);
            self.earlier.notify_one();
        }
        // The vectors' memory is used again.
        state.output = output;
        drop(guard);
        if let Some(writer) = write_now {
            writer.flush_now();
        }
    }

    fn open(&self, state: &mut State, core: CoreId) {
        let configuration = state.machine.configuration();
        let configuration = configuration.expect("a client is made with one");
        let address = configuration.address(core).unwrap_or_default().to_owned();
        let target = LinkTarget {
            core,
            address,
            cluster: configuration.cluster,
        };
        let Some(hub) = self.me.upgrade() else {
            return;
        };
        let task = self.runtime.spawn(link::run(hub, target));
        state.links.insert(
            core,
            Link {
                writer: None,
                task: task.abort_handle(),
            },
        );
    }
}

/// A submitted operation. Dropping it before its outcome cancels it.
#[derive(Debug)]
pub(crate) struct SubmittedOperation {
    hub: Arc<Hub>,
    pub ticket: Ticket,
    pub ended: bool,
}

impl Drop for SubmittedOperation {
    fn drop(&mut self) {
        if !self.ended {
            self.hub.cancel(self.ticket);
        }
    }
}
