//! Handles the events of the session machine: answers, refusals, opened and closed connections, and
//! time.

use alloc::vec::Vec;

use protocol::identity::{CoreId, Epoch};
use protocol::message::{Refusal, Reply, SnapshotFailure, SnapshotReply};

use super::moment::ReceivedPage;
use super::{
    AttemptInFlight, LinkState, RequestParent, RequestPhase, SessionFailure, SessionMachine,
    SessionOperation, SessionOutcome, SessionOutput, Ticket, Timer,
};

impl SessionMachine {
    // tidy: long — a dispatching match over operations and replies.
    pub(super) fn on_reply(
        &mut self,
        now_us: u64,
        core: CoreId,
        correlation: u64,
        reply: Reply,
        output: &mut SessionOutput,
    ) {
        let Some(flight) = self.attempts.get(&correlation).copied() else {
            // The answer to an attempt that is not awaited any more, or a second copy of one.
            if let Reply::Snapshot(SnapshotReply::Opened(opened)) = reply {
                let close = SessionOperation::CloseSnapshot(opened.share);
                self.abandoned.push(close);
            }
            return;
        };
        if flight.core != core {
            return;
        }
        let link = self.links.get_mut(&core).expect("it was sent there");
        link.failures = 0;
        link.received_us = now_us;
        link.suspected_until_us = 0;
        if !matches!(reply, Reply::Refused(_)) {
            link.useless_since_us = None;
        }
        let pending = &self.requests[&flight.ticket];
        let outcome = match (&pending.operation, reply) {
            (_, Reply::Refused(refusal)) => {
                self.on_refusal(now_us, correlation, flight, refusal, output);
                return;
            }
            (
                SessionOperation::Execute { .. } | SessionOperation::Transact { .. },
                Reply::Executed(result),
            ) => {
                if !result.took_effect() && self.may_run_later(correlation, flight) {
                    self.forget_attempt(correlation);
                    if self.requests[&flight.ticket].flying.is_empty() {
                        self.place(now_us, flight.ticket, output);
                    }
                    return;
                }
                SessionOutcome::Executed(result)
            }
            (SessionOperation::Read(_), Reply::Rows(page)) => {
                if let Some(RequestParent::Cover(_)) = pending.part_of {
                    self.forget_attempt(correlation);
                    self.on_member_page(now_us, flight.ticket, &page, output);
                } else {
                    let came = ReceivedPage {
                        page,
                        held_by: Some((core, correlation)),
                    };
                    self.give_page(now_us, flight.ticket, came, output);
                }
                return;
            }
            (SessionOperation::Release(_), Reply::Released(lasted)) => {
                self.on_released(now_us, flight.ticket, lasted, output);
                return;
            }
            (SessionOperation::Checksum(_), Reply::Checksum(part)) => {
                SessionOutcome::Checksum(part)
            }
            (SessionOperation::Statistics(_), Reply::Statistics(statistics)) => {
                SessionOutcome::Statistics(statistics)
            }
            (SessionOperation::Status(_), Reply::Status(counters)) => {
                SessionOutcome::Status(counters)
            }
            (
                SessionOperation::OpenSnapshot(_)
                | SessionOperation::KeepSnapshot(_)
                | SessionOperation::CloseSnapshot(_),
                Reply::Snapshot(reply),
            ) => SessionOutcome::Snapshot(reply),
            _ => {
                let message = "the server answered something else than was asked".into();
                self.fail(flight.ticket, SessionFailure::Invalid { message }, output);
                return;
            }
        };
        self.finish(flight.ticket, outcome, output);
    }

    /// Completes a read with its page.
    pub(super) fn give_page(
        &mut self,
        now_us: u64,
        ticket: Ticket,
        came: ReceivedPage,
        output: &mut SessionOutput,
    ) {
        match self.requests[&ticket].part_of {
            Some(RequestParent::Moment(_)) => self.on_range_page(now_us, ticket, came, output),
            Some(RequestParent::Entries(_)) => self.on_entry_page(now_us, ticket, came, output),
            _ => self.finish(ticket, SessionOutcome::Rows(came.page), output),
        }
    }

    /// Returns whether a later attempt may run the request though this one did not change anything:
    /// at another head, which need not know that it had ended. A request that took effect is known
    /// to every head.
    fn may_run_later(&self, correlation: u64, flight: AttemptInFlight) -> bool {
        let pending = &self.requests[&flight.ticket];
        let newest = pending.flying.last().map(|newest| &self.attempts[newest]);
        let is_elsewhere =
            |newest: &AttemptInFlight| (newest.core, newest.epoch) != (flight.core, flight.epoch);
        correlation < pending.lost || newest.is_some_and(is_elsewhere)
    }

    // tidy: long — a dispatching match over refusals.
    fn on_refusal(
        &mut self,
        now_us: u64,
        correlation: u64,
        flight: AttemptInFlight,
        refusal: Refusal,
        output: &mut SessionOutput,
    ) {
        let AttemptInFlight { ticket, epoch, .. } = flight;
        self.inquire_after(now_us, flight.core, &refusal, output);
        self.forget_attempt(correlation);
        let known = self.known_epoch();
        let known_of_table = self.table_epoch(ticket);
        let pending = self.requests.get_mut(&ticket).expect("it was flying");
        pending.refusals += 1;
        if matches!(refusal, Refusal::Begun | Refusal::Lost { begun: true, .. }) {
            pending.lost = pending.lost.max(correlation);
        }
        let refusals = pending.refusals;
        let uncertain = pending.uncertain();
        let flying = !pending.flying.is_empty();
        let redirected = pending.place == RequestPhase::Parted;
        let writes = pending.writes();
        let opens = matches!(pending.operation, SessionOperation::OpenSnapshot(_));
        pending.last = Some(refusal.clone());
        match refusal {
            Refusal::RequestMismatch => self.fail(ticket, SessionFailure::RequestMismatch, output),
            Refusal::Invalid { message } => {
                self.fail(ticket, SessionFailure::Invalid { message }, output)
            }
            Refusal::Snapshot(failure) if !opens || !may_open_soon(failure) => {
                self.fail(ticket, SessionFailure::Snapshot(failure), output);
            }
            Refusal::DiskFull { server } if !uncertain => {
                self.fail(ticket, SessionFailure::DiskFull { server }, output);
            }
            Refusal::SessionEnded => {
                let name = pending.name;
                if let Some(name) = name {
                    self.numbering.end(name.session);
                }
                if uncertain {
                    self.fail(ticket, SessionFailure::SessionEnded, output);
                } else {
                    // Nothing happened under the old name, so a new one is safe.
                    if let Some(name) = self.requests.get_mut(&ticket).and_then(|it| it.name.take())
                    {
                        self.numbering.close(name);
                    }
                    self.pause(now_us, ticket, refusals - 1);
                }
            }
            // Another attempt is under way, on its timer, or others are asked instead.
            _ if flying || redirected => {}
            Refusal::Lost { server, .. } if writes => {
                self.wait_for_lost(now_us, ticket, server, output)
            }
            Refusal::StaleEpoch { .. } if epoch < known_of_table => {
                self.place(now_us, ticket, output);
            }
            Refusal::StaleEpoch { epoch } if epoch > known => {
                self.move_to(ticket, RequestPhase::Waiting, None);
            }
            Refusal::WrongPartition | Refusal::Begun => {
                self.pause(now_us, ticket, refusals);
                self.fetch_newer(now_us, output);
            }
            Refusal::StaleEpoch { .. }
            | Refusal::NotServing
            | Refusal::Overloaded
            | Refusal::DiskFull { .. }
            | Refusal::Snapshot(_)
            | Refusal::Lost { .. } => self.pause(now_us, ticket, refusals),
        }
    }

    /// Asks the coordinator where a refusal means that the epoch is old, or that the core is of no
    /// use: another one may have the partition meanwhile.
    fn inquire_after(
        &mut self,
        now_us: u64,
        core: CoreId,
        refusal: &Refusal,
        output: &mut SessionOutput,
    ) {
        let known = self.known_epoch();
        match refusal {
            Refusal::StaleEpoch { epoch } if *epoch > known => {
                self.fetch(now_us, *epoch, output);
            }
            Refusal::StaleEpoch { .. }
            | Refusal::NotServing
            | Refusal::Overloaded
            | Refusal::DiskFull { .. }
            | Refusal::Snapshot(SnapshotFailure::ClusterChanged)
            | Refusal::Lost { .. } => self.inquire(now_us, (core, now_us), output),
            Refusal::WrongPartition
            | Refusal::Begun
            | Refusal::SessionEnded
            | Refusal::RequestMismatch
            | Refusal::Snapshot(_)
            | Refusal::Invalid { .. } => {}
        }
    }

    pub(super) fn on_connected(
        &mut self,
        now_us: u64,
        core: CoreId,
        epoch: Epoch,
        output: &mut SessionOutput,
    ) {
        let link = self.links.entry(core).or_default();
        link.state = LinkState::Up;
        link.received_us = now_us;
        link.suspected_until_us = 0;
        self.timers.clear(Timer::Connect(core));
        self.ready.insert(core);
        let known = self.known_epoch();
        if epoch > known {
            self.fetch(now_us, epoch, output);
        }
    }

    pub(super) fn on_disconnected(
        &mut self,
        now_us: u64,
        core: CoreId,
        output: &mut SessionOutput,
    ) {
        let link = self.links.entry(core).or_default();
        link.state = LinkState::Down;
        link.failures = link.failures.saturating_add(1);
        let failures = link.failures;
        let pause_us = self.pause_us(failures - 1);
        self.links.entry(core).or_default().retry_us = now_us + pause_us;
        self.ready.insert(core);
        let attempts: Vec<(u64, Ticket)> = self
            .attempts
            .iter()
            .filter(|(_, flight)| flight.core == core)
            .map(|(correlation, flight)| (*correlation, flight.ticket))
            .collect();
        for (correlation, ticket) in attempts {
            // A read of a cover takes all its attempts with it.
            if !self.attempts.contains_key(&correlation) {
                continue;
            }
            self.forget_attempt(correlation);
            let pending = self.requests.get_mut(&ticket).expect("it was flying");
            pending.lost = pending.lost.max(correlation);
            if pending.place == RequestPhase::Flying && pending.flying.is_empty() {
                self.place(now_us, ticket, output);
            }
        }
        if failures >= self.limits.failures_suspected {
            self.suspect(now_us, core);
            self.place_again(now_us, output, |place| place == RequestPhase::Queued(core));
        }
        // The server may be elsewhere by now.
        self.fetch_newer(now_us, output);
    }

    pub(super) fn on_tick(&mut self, now_us: u64, output: &mut SessionOutput) {
        while let Some(timer) = self.timers.pop_due(now_us) {
            match timer {
                Timer::Connect(core) => {
                    self.ready.insert(core);
                }
                // No request waits: a later one fetches the configuration that it needs.
                Timer::Fetch if self.requests.is_empty() => self.fetch = None,
                Timer::Fetch => self.ask_fetch(now_us, output),
                Timer::Session => {
                    let wanted = |pending: &super::Pending| pending.place == RequestPhase::Waiting;
                    if self.requests.values().any(wanted) {
                        self.ask_session_again(now_us, output);
                    } else {
                        self.session_asks = None;
                    }
                }
                Timer::Request(ticket) => {
                    let pending = self.requests.get_mut(&ticket).expect("its timer was set");
                    pending.wake_us = None;
                    if pending.deadline_us <= now_us {
                        self.expire(ticket, output);
                    } else {
                        // An attempt is silent, or a pause is over.
                        let silent = self.suspect_silent(now_us, ticket, output);
                        let redirected = silent && self.redirect(now_us, ticket, output);
                        if redirected || self.waits_on(now_us, ticket) {
                            continue;
                        }
                        let pending = &self.requests[&ticket];
                        if let Some(silent) = pending.flying.last().copied() {
                            self.uncount(silent);
                        }
                        self.place(now_us, ticket, output);
                    }
                }
            }
        }
    }
}

/// Returns whether a snapshot that could not be opened can be after a pause. Without one of its
/// servers it cannot, and until that is back or replaced may take long.
fn may_open_soon(failure: SnapshotFailure) -> bool {
    !matches!(failure, SnapshotFailure::ServerMissing(_))
}
