//! The machine of a client's session. It routes requests by the configuration, names them so that
//! each runs exactly once, and repeats them after losses and refusals. If an outcome cannot be
//! known, it reports *unknown* (R13, R14, R15).
//!
//! A request has one place at a time:
//! ```text
//!            no configuration or session      no connection, window full
//! submitted ────────────▶ Waiting ───────────────▶ Queued(core) ──▶ Flying ──▶ ended
//!                            ▲                          ▲             │ refused, broken, silent
//!                            └──── stale epoch ─────────┴── Pausing ◀─┘
//! ```
//! Only a refused attempt certainly had no effect. A request whose connection broke may have taken
//! effect, so it then ends with its result or as `Unknown`.
//!
//! Three kinds of requests are divided into parts: a read whose partition is lost goes to a cover
//! (`redirect`), a read of a thin index reads entries, if necessary of another copy of the index,
//! and then rows (`entries`), and ranges of one moment are read in rounds (`moment`). Reads of many
//! pages are in `gather`.

#![no_std]

extern crate alloc;

mod contract;
mod coordinator_requests;
mod covers;
mod entries;
mod events;
pub mod gather;
mod merge;
mod moment;
mod numbering;
mod redirect;
mod routing;
pub mod statistics;
#[cfg(test)]
mod tests;
mod timers;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use protocol::configuration::Configuration;
use protocol::identity::{ClockReading, CoreId, Epoch, ReaderId, RequestId, ServerId, TableId};
use protocol::message::{CoordinatorRequest, Refusal, SnapshotFailure};

use coordinator_requests::Fetch;
use covers::Covers;
use entries::EntryReads;
use moment::Moments;
use numbering::Numbering;
use redirect::Redirects;
use timers::{Timer, Timers};

pub use contract::{
    ANY_EPOCH, Attempt, Completion, MomentPages, SessionFailure, SessionInput, SessionLimits,
    SessionOperation, SessionOutcome, SessionOutput, Ticket,
};

/// The first ticket for parts of requests. The driver's tickets are lower.
const PART_TICKETS: u64 = 1 << 63;

/// The machine of one client. See the module.
#[derive(Debug)]
pub struct SessionMachine {
    limits: SessionLimits,
    /// State of the generator that spreads pauses.
    random: u64,
    /// Names this client to the cores that open snapshots for it.
    reader: ReaderId,
    configuration: Option<Arc<Configuration>>,
    /// Tables with servers that are down and cannot be replaced, and these servers.
    lost: BTreeMap<TableId, BTreeSet<ServerId>>,
    /// The epoch since which the number of a copy has its present meaning. A number without an
    /// epoch has always had it.
    copies_since: BTreeMap<(TableId, u8), Epoch>,
    requests: BTreeMap<Ticket, Pending>,
    /// Attempts without an answer, by correlation.
    attempts: BTreeMap<u64, AttemptInFlight>,
    last_correlation: u64,
    last_order: u64,
    last_part: u64,
    covers: Covers,
    redirects: Redirects,
    entry_reads: EntryReads,
    moments: Moments,
    /// The ends of holds and snapshots that no request needs any more.
    abandoned: Vec<SessionOperation>,
    timers: Timers,
    links: BTreeMap<CoreId, Link>,
    /// The connections to review before the step ends.
    ready: BTreeSet<CoreId>,
    numbering: Numbering,
    /// The time from which the current session is too old for new requests.
    session_ends_us: u64,
    session_asks: Option<u32>,
    fetch: Option<Fetch>,
    /// The earliest time for the next request of a configuration.
    fetch_not_before_us: u64,
    /// Whether an operation could not be numbered, see `SessionLimits::span_max`.
    span_reached: bool,
}

/// A submitted request that has not ended.
#[derive(Debug)]
struct Pending {
    operation: SessionOperation,
    /// The position in the order of submission, in which waiting requests are sent.
    order: u64,
    deadline_us: u64,
    /// The time of the request's timer, if it has one.
    wake_us: Option<u64>,
    place: RequestPhase,
    /// The name of a write, which is assigned at the first attempt.
    name: Option<RequestId>,
    /// Attempts without an answer, oldest first.
    flying: Vec<u64>,
    /// The newest attempt of a write that was lost without an answer, and may have run; 0 if
    /// there is none.
    lost: u64,
    /// The number of attempts, and of the refusals among them.
    tries: u32,
    refusals: u32,
    /// The request of which this one is a part.
    part_of: Option<RequestParent>,
    /// The number of rounds whose parts did not agree.
    rounds: u32,
    /// Whether a part of the last round was read from a cover.
    redirected: bool,
    /// The time since which the request's partition is lost without a cover.
    lost_us: Option<u64>,
    last: Option<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestPhase {
    Waiting,
    Queued(CoreId),
    Flying,
    Pausing,
    /// The request was divided, and its parts are in flight instead.
    Parted,
}

/// The reason for a request that the machine itself has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestParent {
    /// The request goes to a member of the cover of this read's partition.
    Cover(Ticket),
    /// The request reads a page of a thin index's entries for this read, or rows of entries.
    Entries(Ticket),
    /// The request reads a range of this `Moment`, or ends its holds.
    Moment(Ticket),
    /// Nothing waits for the request.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
struct AttemptInFlight {
    ticket: Ticket,
    core: CoreId,
    /// The epoch of the request's table, as it was sent.
    epoch: Epoch,
    sent_us: u64,
    /// Whether the attempt counts in the window of its core. An attempt without an answer for a
    /// long time does not: otherwise a few lost answers would close the window.
    counted: bool,
}

/// The state of the connection to a core.
#[derive(Debug, Default)]
struct Link {
    state: LinkState,
    /// Connections that broke or did not open since the last answer.
    failures: u32,
    /// The earliest time for the next attempt to open the connection.
    retry_us: u64,
    /// The last time at which the connection opened or an answer arrived.
    received_us: u64,
    /// The time until which reads avoid the core.
    suspected_until_us: u64,
    /// The time since which the core has served no request, because it is silent or refuses.
    useless_since_us: Option<u64>,
    /// The earliest time to request a newer configuration because of that.
    inquiry_not_before_us: u64,
    /// The requests that wait for the core, in the order of submission.
    queue: BTreeSet<(u64, Ticket)>,
    /// The number of counted attempts.
    in_flight: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LinkState {
    #[default]
    Down,
    Opening,
    Up,
}

impl Pending {
    fn new(operation: SessionOperation, order: u64, deadline_us: u64) -> Pending {
        Pending {
            operation,
            order,
            deadline_us,
            wake_us: None,
            place: RequestPhase::Waiting,
            name: None,
            flying: Vec::new(),
            lost: 0,
            tries: 0,
            refusals: 0,
            part_of: None,
            rounds: 0,
            redirected: false,
            lost_us: None,
            last: None,
        }
    }

    fn is_read(&self) -> bool {
        matches!(self.operation, SessionOperation::Read(_))
    }

    fn lacks_name(&self) -> bool {
        self.name.is_none() && self.writes()
    }

    /// Returns whether the request may change rows.
    fn writes(&self) -> bool {
        matches!(
            self.operation,
            SessionOperation::Execute { .. } | SessionOperation::Transact { .. }
        )
    }

    /// Returns whether the request may have taken effect, as far as this machine knows.
    fn uncertain(&self) -> bool {
        self.writes() && (self.lost > 0 || !self.flying.is_empty())
    }
}

impl SessionMachine {
    /// Returns a client that knows a configuration, or fetches one when it needs it. The seed
    /// spreads the pauses of clients that were refused together, and names the client (R51). Each
    /// client must have another seed.
    pub fn new(
        limits: SessionLimits,
        seed: u64,
        configuration: Option<Arc<Configuration>>,
    ) -> Self {
        assert!(limits.in_flight_max > 0, "a window lets something through");
        assert!(limits.attempts_max > 0, "a request is attempted");
        let mut lost = BTreeMap::new();
        let known = configuration.iter();
        known.for_each(|known| routing::follow_lost(&mut lost, known, None));
        SessionMachine {
            limits,
            random: seed,
            reader: ReaderId(mixed(seed)),
            lost,
            configuration,
            copies_since: BTreeMap::new(),
            requests: BTreeMap::new(),
            attempts: BTreeMap::new(),
            last_correlation: 0,
            last_order: 0,
            last_part: 0,
            covers: Covers::default(),
            redirects: BTreeMap::new(),
            entry_reads: BTreeMap::new(),
            moments: BTreeMap::new(),
            abandoned: Vec::new(),
            timers: Timers::default(),
            links: BTreeMap::new(),
            ready: BTreeSet::new(),
            numbering: Numbering::default(),
            session_ends_us: 0,
            session_asks: None,
            fetch: None,
            fetch_not_before_us: 0,
            span_reached: false,
        }
    }

    /// Returns the newest configuration that the machine has received; none if it has received
    /// none.
    pub fn configuration(&self) -> Option<&Arc<Configuration>> {
        self.configuration.as_ref()
    }

    /// Returns the number of submitted requests that have not ended.
    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Returns the number of attempts without an answer.
    pub fn open_attempts(&self) -> usize {
        self.attempts.len()
    }

    /// Handles an input and returns the output.
    pub fn step(&mut self, now: ClockReading, input: SessionInput, output: &mut SessionOutput) {
        let now_us = now.monotonic_us;
        match input {
            SessionInput::Submit {
                ticket,
                operation,
                deadline_us,
            } => self.submit(now_us, ticket, operation, deadline_us, output),
            SessionInput::Cancel { ticket } => {
                self.remove(ticket);
            }
            SessionInput::Connected { core, epoch } => {
                self.on_connected(now_us, core, epoch, output)
            }
            SessionInput::Disconnected { core } => self.on_disconnected(now_us, core, output),
            SessionInput::Reply {
                core,
                correlation,
                reply,
            } => self.on_reply(now_us, core, correlation, reply, output),
            SessionInput::Configuration(configuration) => {
                self.on_configuration(now_us, configuration, output);
            }
            SessionInput::Changes(changes) => {
                let known = self.configuration.as_deref();
                match known.and_then(|known| changes.apply(known)) {
                    Some(next) => self.on_configuration(now_us, Arc::new(next), output),
                    None => output
                        .asks
                        .push(CoordinatorRequest::Fetch { known: Epoch(0) }),
                }
            }
            SessionInput::Unchanged { epoch } => self.on_fetched(epoch),
            SessionInput::NewEpoch { epoch } if epoch > self.known_epoch() => {
                self.fetch(now_us, epoch, output);
            }
            SessionInput::NewEpoch { .. } => {}
            SessionInput::Session { session, life_us } => {
                self.on_session(now_us, session, life_us, output);
            }
            SessionInput::Tick => self.on_tick(now_us, output),
        }
        self.release_abandoned(now_us, output);
        while let Some(core) = self.ready.pop_first() {
            self.serve_queue(now_us, core, output);
        }
        output.deadline_us = self.timers.first_us();
    }

    fn submit(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        operation: SessionOperation,
        deadline_us: u64,
        output: &mut SessionOutput,
    ) {
        if self.requests.len() >= self.limits.requests_max {
            let outcome = SessionOutcome::Failed(SessionFailure::Full);
            output.completions.push(Completion { ticket, outcome });
            return;
        }
        assert!(Self::is_drivers(ticket), "large tickets are the machine's");
        self.last_order += 1;
        let pending = Pending::new(operation, self.last_order, deadline_us);
        let before = self.requests.insert(ticket, pending);
        assert!(before.is_none(), "a ticket is used once");
        if deadline_us <= now_us {
            self.expire(ticket, output);
        } else if let Some(partition) = self.chosen_before(ticket) {
            let partition = Some(partition);
            self.fail(ticket, SessionFailure::PlaceGone { partition }, output);
        } else {
            self.place(now_us, ticket, output);
        }
    }

    /// Finds the core for a request and sends the request there. If a part is missing, such as the
    /// configuration, the session's number or a connection, the request waits for it.
    fn place(&mut self, now_us: u64, ticket: Ticket, output: &mut SessionOutput) {
        let Some(configuration) = &self.configuration else {
            self.move_to(ticket, RequestPhase::Waiting, None);
            self.fetch(now_us, Epoch(0), output);
            return;
        };
        let operation = &self.requests[&ticket].operation;
        if let Some(server) = routing::missing_for(configuration, operation) {
            self.on_missing(now_us, ticket, server, output);
            return;
        }
        let core = match routing::target(configuration, &self.requests[&ticket].operation) {
            Ok(Some(core)) => core,
            Ok(None) => {
                self.begin_moment(now_us, ticket, output);
                return;
            }
            Err(failure) => {
                self.fail(ticket, failure, output);
                return;
            }
        };
        if let Some(table) = self.planned_before(ticket) {
            self.fail(ticket, SessionFailure::ColumnsChanged { table }, output);
            return;
        }
        if let Some(server) = self.lost_to_write(ticket, core) {
            self.wait_for_lost(now_us, ticket, server, output);
            return;
        }
        if self.waits_for_session(now_us, ticket, output)
            || self.redirect(now_us, ticket, output)
            || self.read_entries(now_us, ticket, output)
        {
            return;
        }
        // The usual case: the connection is open, and the request is sent at once.
        let link = self.links.entry(core).or_default();
        let open = link.state == LinkState::Up
            && link.queue.is_empty()
            && link.in_flight < self.limits.in_flight_max;
        if open && self.send(now_us, ticket, core, output) {
            return;
        }
        let pending = &self.requests[&ticket];
        let order = pending.order;
        let look_us = now_us.saturating_add(self.limits.silent_us);
        self.move_to(ticket, RequestPhase::Queued(core), Some(look_us));
        let link = self.links.get_mut(&core).expect("made above");
        link.queue.insert((order, ticket));
        self.ready.insert(core);
    }

    /// Fails the opening of a snapshot that lacks a server. Before that, requests a newer
    /// configuration once, in which the server may be up again.
    fn on_missing(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        server: ServerId,
        output: &mut SessionOutput,
    ) {
        let pending = self.requests.get_mut(&ticket).expect("callers hold it");
        if pending.lost_us.replace(now_us).is_some() {
            let failure = SessionFailure::Snapshot(SnapshotFailure::ServerMissing(server));
            self.fail(ticket, failure, output);
            return;
        }
        let wake_us = now_us.saturating_add(2 * self.limits.ask_us);
        self.move_to(ticket, RequestPhase::Waiting, Some(wake_us));
        self.fetch_newer(now_us, output);
    }

    /// Sends the requests that wait for a core, as far as its connection and window allow.
    fn serve_queue(&mut self, now_us: u64, core: CoreId, output: &mut SessionOutput) {
        let Some(link) = self.links.get_mut(&core) else {
            return;
        };
        match link.state {
            LinkState::Opening => {}
            LinkState::Down if link.queue.is_empty() => {}
            LinkState::Down if link.retry_us > now_us => {
                self.timers.set(link.retry_us, Timer::Connect(core));
            }
            LinkState::Down => {
                link.state = LinkState::Opening;
                output.connects.push(core);
            }
            LinkState::Up => loop {
                let link = &self.links[&core];
                if link.in_flight >= self.limits.in_flight_max {
                    break;
                }
                let Some((order, ticket)) = link.queue.first().copied() else {
                    break;
                };
                if !self.waits_for_session(now_us, ticket, output)
                    && !self.send(now_us, ticket, core, output)
                {
                    break;
                }
                let link = self.links.get_mut(&core).expect("looked at above");
                link.queue.remove(&(order, ticket));
            },
        }
    }

    /// Sends a request over an open connection, and gives it its number before. Returns false if it
    /// gets no number yet, because the oldest open number is too far behind.
    fn send(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        core: CoreId,
        output: &mut SessionOutput,
    ) -> bool {
        if self.requests[&ticket].lacks_name() {
            let Some(name) = self.numbering.open(self.limits.span_max) else {
                self.span_reached = true;
                return false;
            };
            self.requests
                .get_mut(&ticket)
                .expect("looked up above")
                .name = Some(name);
        }
        let request = self.request(ticket);
        let epoch = self.table_epoch(ticket);
        let pending = self.requests.get_mut(&ticket).expect("looked up above");
        if pending.flying.len() >= self.limits.attempts_max {
            let oldest = pending.flying[0];
            pending.lost = pending.lost.max(oldest);
            self.forget_attempt(oldest);
        }
        let pending = self.requests.get_mut(&ticket).expect("looked up above");
        self.last_correlation += 1;
        let correlation = self.last_correlation;
        pending.flying.push(correlation);
        let attempt_us = self.limits.attempt_us << pending.tries.min(3);
        let wait_us = attempt_us.min(self.limits.silent_us);
        pending.tries += 1;
        let flight = AttemptInFlight {
            ticket,
            core,
            epoch,
            sent_us: now_us,
            counted: true,
        };
        self.attempts.insert(correlation, flight);
        let link = self.links.get_mut(&core).expect("the caller looked at it");
        link.in_flight += 1;
        self.move_to(
            ticket,
            RequestPhase::Flying,
            Some(now_us.saturating_add(wait_us)),
        );
        output.sends.push(Attempt {
            core,
            correlation,
            request,
        });
        true
    }

    /// Returns the known epoch of a request's table, the newest one if it has several tables; 0 if
    /// it has none.
    fn table_epoch(&self, ticket: Ticket) -> Epoch {
        let table = match &self.requests[&ticket].operation {
            SessionOperation::Execute { table, .. } => *table,
            SessionOperation::Transact {
                changes,
                checks,
                ranges,
                ..
            } => {
                let tables = routing::tables_of(changes, checks, ranges).into_iter();
                let epochs = tables.map(|table| self.epoch_of(table));
                return epochs.max().unwrap_or(Epoch(0));
            }
            SessionOperation::Read(read) => read.partition.table,
            SessionOperation::Checksum(read) => read.partition.table,
            SessionOperation::Statistics(read) => read.partition.table,
            SessionOperation::Release(release) => release.partition.table,
            SessionOperation::OpenSnapshot(tables) => {
                let epochs = tables.iter().map(|table| self.epoch_of(*table));
                return epochs.max().unwrap_or(Epoch(0));
            }
            SessionOperation::Status(_)
            | SessionOperation::Moment(_)
            | SessionOperation::KeepSnapshot(_)
            | SessionOperation::CloseSnapshot(_) => return Epoch(0),
        };
        self.epoch_of(table)
    }

    /// Returns the known epoch of a table; 0 if the table is unknown.
    fn epoch_of(&self, table: TableId) -> Epoch {
        let configuration = self.configuration.as_ref();
        let table = configuration.and_then(|it| it.table(table));
        table.map_or(Epoch(0), |table| table.epoch)
    }

    /// Creates a request that is a part of another one, and returns its ticket.
    fn part(
        &mut self,
        parent: RequestParent,
        deadline_us: u64,
        operation: SessionOperation,
    ) -> Ticket {
        self.last_part += 1;
        self.last_order += 1;
        let ticket = Ticket(PART_TICKETS | self.last_part);
        let mut pending = Pending::new(operation, self.last_order, deadline_us);
        pending.part_of = Some(parent);
        self.requests.insert(ticket, pending);
        ticket
    }

    /// Returns whether a ticket may have been assigned by the driver.
    fn is_drivers(ticket: Ticket) -> bool {
        ticket.0 < PART_TICKETS
    }

    /// Routes waiting requests again, in the order of submission.
    fn place_again(
        &mut self,
        now_us: u64,
        output: &mut SessionOutput,
        which: impl Fn(RequestPhase) -> bool,
    ) {
        let mut waiting: Vec<(u64, Ticket)> = self
            .requests
            .iter()
            .filter(|(_, pending)| which(pending.place))
            .map(|(ticket, pending)| (pending.order, *ticket))
            .collect();
        waiting.sort_unstable();
        for (_, ticket) in &waiting {
            self.leave_queue(*ticket);
        }
        for (_, ticket) in waiting {
            // An event at one member of a cover can end the reads at others.
            if self.requests.contains_key(&ticket) {
                self.place(now_us, ticket, output);
            }
        }
    }

    fn pause(&mut self, now_us: u64, ticket: Ticket, refusals: u32) {
        let wake_us = now_us + self.pause_us(refusals.saturating_sub(1));
        self.move_to(ticket, RequestPhase::Pausing, Some(wake_us));
    }

    /// Returns a pause that doubles with each failure, spread over its upper half.
    fn pause_us(&mut self, failures: u32) -> u64 {
        let longest = self.limits.pause_us_max.max(1);
        let pause_us = (self.limits.pause_us << failures.min(20)).clamp(1, longest);
        // Pauses of clients that were refused together drift apart.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        pause_us - mixed(self.random) % (pause_us / 2 + 1)
    }

    /// Ends a request whose deadline has passed.
    fn expire(&mut self, ticket: Ticket, output: &mut SessionOutput) {
        let last = self.requests[&ticket].last.clone();
        self.fail(ticket, SessionFailure::Deadline { last }, output);
    }

    /// Ends a request without a result: as a failure if the request certainly had no effect,
    /// otherwise as unknown.
    fn fail(&mut self, ticket: Ticket, failure: SessionFailure, output: &mut SessionOutput) {
        let outcome = if self.requests[&ticket].uncertain() {
            SessionOutcome::Unknown(failure)
        } else {
            SessionOutcome::Failed(failure)
        };
        self.finish(ticket, outcome, output);
    }

    /// Reports the outcome of a request and removes it. If the request is a part of another one,
    /// the other one ends with this outcome.
    fn finish(&mut self, mut ticket: Ticket, outcome: SessionOutcome, output: &mut SessionOutput) {
        while let Some(parent) = self.requests[&ticket].part_of {
            match parent {
                RequestParent::Cover(parent)
                | RequestParent::Entries(parent)
                | RequestParent::Moment(parent) => ticket = parent,
                RequestParent::Nothing => {
                    self.remove(ticket);
                    return;
                }
            }
        }
        let existed = self.remove(ticket);
        assert!(existed, "a request ends once");
        output.completions.push(Completion { ticket, outcome });
    }

    /// Removes a request with its timer, attempts, entry in a queue and number. Returns false if
    /// there is no such request.
    fn remove(&mut self, ticket: Ticket) -> bool {
        self.leave_queue(ticket);
        self.drop_members(ticket);
        self.drop_entries(ticket);
        self.drop_moment(ticket);
        let Some(pending) = self.requests.remove(&ticket) else {
            return false;
        };
        if let Some(wake_us) = pending.wake_us {
            self.timers.remove(wake_us, Timer::Request(ticket));
        }
        for correlation in pending.flying {
            self.uncount(correlation);
            self.attempts.remove(&correlation);
        }
        if let Some(name) = pending.name {
            self.numbering.close(name);
            if self.span_reached {
                self.span_reached = false;
                self.all_ready();
            }
        }
        true
    }

    /// Removes an attempt that is answered or lost.
    fn forget_attempt(&mut self, correlation: u64) {
        self.uncount(correlation);
        let flight = self.attempts.remove(&correlation).expect("it was flying");
        let pending = self.requests.get_mut(&flight.ticket);
        let pending = pending.expect("attempts go with their request");
        pending.flying.retain(|other| *other != correlation);
    }

    /// Stops counting an attempt in the window of its core, so that the next request can be sent.
    fn uncount(&mut self, correlation: u64) {
        let flight = self.attempts.get_mut(&correlation).expect("it is flying");
        if core::mem::take(&mut flight.counted) {
            let link = self.links.get_mut(&flight.core).expect("it was sent there");
            link.in_flight -= 1;
            if !link.queue.is_empty() {
                self.ready.insert(flight.core);
            }
        }
    }

    fn leave_queue(&mut self, ticket: Ticket) {
        if let Some(pending) = self.requests.get(&ticket)
            && let RequestPhase::Queued(core) = pending.place
        {
            let link = self.links.get_mut(&core).expect("it is queued there");
            link.queue.remove(&(pending.order, ticket));
        }
    }

    /// Sets the phase of a request, and the time of its timer, which is its deadline at the latest.
    /// A refusal of an earlier attempt can arrive while the request is queued for the next attempt.
    /// The request then leaves the queue.
    fn move_to(&mut self, ticket: Ticket, place: RequestPhase, wake_us: Option<u64>) {
        self.leave_queue(ticket);
        let pending = self.requests.get_mut(&ticket).expect("callers hold it");
        pending.place = place;
        let wake_us = wake_us.map_or(pending.deadline_us, |wake| wake.min(pending.deadline_us));
        if let Some(before) = pending.wake_us.replace(wake_us) {
            if before == wake_us {
                return;
            }
            self.timers.remove(before, Timer::Request(ticket));
        }
        self.timers.set(wake_us, Timer::Request(ticket));
    }

    fn all_ready(&mut self) {
        self.ready.extend(self.links.keys().copied());
    }
}

/// Returns a hash of a number, each bit of which depends on all bits of the number (SplitMix64).
fn mixed(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
